"""DataLoader with workers: what it yields, and that nothing is left over, whatever happens to them."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import resource_tracker

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    get_worker_info,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    # Python's advice about forks, where pytest or a test has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

# A process that lives as long as this one; started with the first spawned worker.
resource_tracker.ensure_running()

METHODS = ["process", "thread"]


def children() -> set[int]:
    """Process ids of the living children of this process."""
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that just ended
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def descriptors() -> list[str]:
    """What the open file descriptors of this process lead to."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # that of the listing itself
    return found


@pytest.fixture(autouse=True)
def forked():
    """Data sets that are defined in a test reach a worker by a fork only."""
    method = multiprocessing.get_start_method()
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(method, force=True)


@pytest.fixture(autouse=True, scope="module")
def only_new_objects():
    """What is there before these tests is not looked at by each collection of garbage: it takes seconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test: no process, thread, descriptor or shared memory that was not there before."""
    gc.collect()
    before = children(), threading.active_count(), descriptors(), set(os.listdir("/dev/shm"))
    yield
    gc.collect()
    shared = set(os.listdir("/dev/shm")) - before[3]
    for _ in range(400):
        after = children(), threading.active_count(), descriptors()
        # other test processes come and go there: only what stays all the time is ours
        shared &= set(os.listdir("/dev/shm"))
        if (
            after[0] <= before[0]
            and after[1] <= before[1]
            and len(after[2]) <= len(before[2])
            and not shared
        ):
            break
        time.sleep(0.05)
    assert after[0] <= before[0], "processes"
    assert after[1] <= before[1], "threads"
    assert len(after[2]) <= len(before[2]), sorted(set(after[2]) - set(before[2]))
    assert not shared, "/dev/shm"


class Numbers(Dataset):
    """Sample i is i; at `bad` it does something else."""

    def __init__(self, n=24, bad=None, action=None):
        self.n, self.bad, self.action = n, bad, action

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.bad:
            self.action()
        return torch.tensor([i, i * i])


def fail():
    raise ValueError("a bad sample")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(600)


class Count(IterableDataset):
    """The numbers below n, each worker its share."""

    def __init__(self, n, ends=()):
        self.n, self.ends = n, ends

    def __iter__(self):
        info = get_worker_info()
        if self.ends:
            yield from [torch.tensor(info.id)] * self.ends[info.id]
        else:
            yield from (torch.tensor(i) for i in range(info.id, self.n, info.num_workers))


def flat(loader):
    return torch.cat([batch[:, 0] for batch in loader]).tolist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_same_batches_as_without_workers(method, workers, persistent):
    loader = DataLoader(
        Numbers(),
        5,
        num_workers=workers,
        worker_method=method,
        persistent_workers=persistent,
        prefetch_factor=3,
    )
    for _ in range(3):
        assert [b.tolist() for b in loader] == [b.tolist() for b in DataLoader(Numbers(), 5)]


def start(folder, code):
    """A Python process that runs the code, this file importable in it."""
    here = str(pathlib.Path(__file__).parent)
    path = folder / "script.py"
    path.write_text(f"import sys; sys.path.insert(0, {here!r})\n" + textwrap.dedent(code))
    with open(folder / "errors", "w") as errors:  # a pipe would stay open with the workers
        return subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p])},
            start_new_session=True,
        )


@pytest.mark.parametrize("context", ["spawn", "forkserver", "fork"])
def test_start_methods(context, tmp_path):
    code = f"""
        import rushlight as torch
        import test_loader_workers as t
        from rushlight.utils.data import DataLoader, TensorDataset

        if __name__ == "__main__":
            options = dict(num_workers=2, multiprocessing_context={context!r})
            print(t.flat(DataLoader(t.Numbers(), 4, **options)) == list(range(24)))
            x = torch.arange(12.0).reshape(6, 2)
            print([b[1].shape for b in DataLoader(TensorDataset(x, x + 1), 4, **options)])
    """
    with start(tmp_path, code) as process:
        shown = process.stdout.read()
    assert shown == "True\n[torch.Size([4, 2]), torch.Size([2, 2])]\n"


@pytest.mark.parametrize("method", METHODS)
def test_iterable_shards(method):
    loader = DataLoader(Count(10), None, num_workers=2, worker_method=method)
    assert [int(x) for x in loader] == list(range(10))
    loader = DataLoader(Count(10), 2, num_workers=2, worker_method=method)
    assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


@pytest.mark.parametrize("method", METHODS)
def test_iterable_parts_of_different_length(method):
    loader = DataLoader(
        Count(0, (1, 0, 4)), None, num_workers=3, worker_method=method, persistent_workers=True
    )
    for _ in range(2):
        assert [int(x) for x in loader] == [0, 2, 2, 2, 2]


def test_out_of_order():
    let_go = torch.zeros(1).share_memory_()

    class Slow(Numbers):
        """The first sample waits."""

        def __getitem__(self, i):
            while i == 0 and not let_go.item():
                time.sleep(0.01)
            return i

    loader = DataLoader(Slow(6), None, num_workers=2, in_order=False)
    assert next(it := iter(loader)) == 1
    let_go.fill_(1)
    assert sorted(it) == [0, 2, 3, 4, 5]
    let_go.fill_(0)
    threading.Timer(0.3, let_go.fill_, (1,)).start()
    assert list(DataLoader(Slow(6), None, num_workers=2)) == list(range(6))


def test_worker_info():
    assert get_worker_info() is None

    class Info(Numbers):
        def __getitem__(self, i):
            info = get_worker_info()
            with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
                info.id = 3
            return info.id, info.num_workers, info.seed, info.dataset is self, torch.initial_seed()

    torch.manual_seed(1)
    rows = list(DataLoader(Info(4), None, num_workers=2))
    assert [row[0] for row in rows] == [0, 1, 0, 1]
    assert all(row[1] == 2 and row[3] and row[4] == row[2] for row in rows)
    assert rows[1][2] == rows[0][2] + 1
    assert get_worker_info() is None


def test_generators_of_workers_differ_and_repeat():
    class Draws(Numbers):
        def __getitem__(self, i):
            return torch.rand(1).item(), np.random.rand(), random.random()

    def epoch():
        torch.manual_seed(7)
        return [tuple(x) for x in DataLoader(Draws(4), None, num_workers=2)]

    first = epoch()
    assert first == epoch()
    assert len(set(sum(first, ()))) == 12


def test_threads_have_generators_of_their_own():
    class Draws(Numbers):
        def __getitem__(self, i):
            rng = get_worker_info().rng
            return (
                torch.rand(1, generator=rng.torch_generator).item(),
                rng.numpy_generator.random(),
                rng.random_generator.random(),
            )

    def epoch():
        torch.manual_seed(7)
        loader = DataLoader(Draws(4), None, num_workers=2, worker_method="thread")
        return [tuple(x) for x in loader], torch.rand(1).item()

    first = epoch()
    assert first == epoch()
    assert len(set(sum(first[0], ()))) == 12


@pytest.mark.parametrize("method", METHODS)
def test_init_fn(method):
    class Marked(Numbers):
        def __getitem__(self, i):
            return marks[threading.get_ident(), os.getpid()] + i

    marks = {}

    def init(worker):
        marks[threading.get_ident(), os.getpid()] = 100 * worker

    loader = DataLoader(Marked(4), None, num_workers=2, worker_init_fn=init, worker_method=method)
    assert list(loader) == [0, 101, 2, 103]


# -- what goes between the processes ---------------------------------------------------------------


class Things(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        x = torch.arange(24.0).reshape(1, 2, 3, 4)
        return {
            "plain": x,
            "same": x,
            "scalar": torch.tensor(3),
            "empty": torch.empty(0, 3),
            "channels": x.contiguous(memory_format=torch.channels_last),
            "expanded": torch.ones(3, 1).expand(3, 4),
            "turned": x.transpose(1, 3),
            "bool": torch.tensor([True, False]),
            "bfloat": torch.ones(3, dtype=torch.bfloat16),
            "complex": torch.ones(2, dtype=torch.complex64),
            "leaf": torch.ones(2, requires_grad=True),
            "parameter": torch.nn.Parameter(torch.ones(2)),
            "array": np.arange(6).reshape(2, 3).T,
            "text": ["a", b"b", None, 1.5],
            "class": torch.Size([1, 2]),
        }


def test_everything_arrives_as_it_was():
    (got,) = DataLoader(Things(), None, num_workers=1, collate_fn=lambda x: x)
    want = Things()[0]
    for key, value in want.items():
        if isinstance(value, torch.Tensor):
            assert type(got[key]) is type(value)
            assert got[key].dtype is value.dtype and got[key].stride() == value.stride(), key
            assert got[key].shape == value.shape and torch.equal(got[key], value), key
            assert got[key].requires_grad is value.requires_grad
            assert got[key].storage_offset() == 0
        elif isinstance(value, np.ndarray):
            assert np.array_equal(got[key], value) and got[key].strides == value.strides
        else:
            assert got[key] == value
    assert got["plain"] is got["same"]
    assert got["plain"].is_shared()
    assert got["plain"].untyped_storage().nbytes() == 96
    got["plain"] += 1
    assert got["array"].flags.writeable


def test_non_leaf_is_refused():
    class Graph(Numbers):
        def __getitem__(self, i):
            return torch.ones(1, requires_grad=True) * 2

    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        next(iter(DataLoader(Graph(), num_workers=1, collate_fn=lambda x: x)))


def test_kept_batches_are_not_overwritten():
    data = torch.arange(4000.0).reshape(100, 40)
    loader = DataLoader(TensorDataset(data), 4, num_workers=2, persistent_workers=True)
    for _ in range(3):
        kept, views = [], []
        for i, (batch,) in enumerate(loader):
            if i % 3 == 0:
                kept.append((i, batch))
            elif i % 3 == 1:
                views.append((i, batch.numpy()[1:, ::2]))
        for i, batch in kept:
            assert torch.equal(batch, data[4 * i : 4 * i + 4])
        for i, view in views:
            assert np.array_equal(view, data.numpy()[4 * i + 1 : 4 * i + 4, ::2])


def test_batches_cached_in_the_worker_are_not_overwritten():
    class Caches(Numbers):
        cache = {}

        def __getitem__(self, i):
            if i < 3 and i not in self.cache:
                self.cache[i] = torch.utils.data.default_collate([torch.full((1000,), i)] * 2)
            return self.cache[i] if i < 3 else torch.full((2, 1000), i)

    loader = DataLoader(Caches(8), None, num_workers=1, persistent_workers=True, prefetch_factor=1)
    for _ in range(4):
        assert [float(b.double().mean()) for b in loader] == list(range(8))


def test_blocks_used_by_a_fork_are_not_overwritten():
    loader = DataLoader(Numbers(200), 4, num_workers=1, prefetch_factor=1)
    it = iter(loader)
    batch = next(it)
    here, there = os.pipe()
    go_here, go_there = os.pipe()
    child = os.fork()
    if not child:
        os.read(go_here, 1)
        os.write(there, pickle.dumps(batch.tolist()))
        os._exit(0)
    del batch
    rest = [next(it)[0, 0].item() for _ in range(20)]
    os.write(go_there, b".")
    assert pickle.loads(os.read(here, 1000)) == [[i, i * i] for i in range(4)]
    os.waitpid(child, 0)
    for end in (here, there, go_here, go_there):
        os.close(end)
    assert rest == list(range(4, 84, 4))


def test_keeping_all_batches_needs_few_descriptors():
    loader = DataLoader(TensorDataset(torch.arange(3000.0)), 2, num_workers=2)
    before = len(descriptors())
    batches = [b for (b,) in loader]
    assert len(descriptors()) - before < 300
    assert torch.cat(batches).tolist() == list(range(3000))


def test_memory_is_flat_over_epochs():
    loader = DataLoader(
        TensorDataset(torch.zeros(64, 5000)), 4, num_workers=2, persistent_workers=True
    )
    counts = []
    for _ in range(6):
        for _batch in loader:
            pass
        counts.append(len(descriptors()))
    assert counts[-1] <= counts[1] + 2


def test_batches_of_growing_size():
    class Growing(Numbers):
        def __getitem__(self, i):
            return torch.full((1 + 3000 * i,), i), torch.full((7,), -i)

    for epoch in range(2):
        for i, (a, b) in enumerate(DataLoader(Growing(40), None, num_workers=2)):
            assert len(a) == 1 + 3000 * i and a[-1] == i and b.tolist() == [-i] * 7


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [0, 11, 23])
def test_raising(method, bad):
    loader = DataLoader(Numbers(24, bad, fail), 4, num_workers=2, worker_method=method)
    good = []
    it = iter(loader)
    with pytest.raises(ValueError) as caught:
        for _ in range(6):
            good.append(next(it))
    text = str(caught.value)
    assert text.startswith(f"Caught ValueError in DataLoader worker {method} {bad // 4 % 2}.\n")
    assert "Original Traceback (most recent call last):" in text
    assert "raise ValueError" in text and text.rstrip().endswith("ValueError: a bad sample")
    assert len(good) == bad // 4
    # As in PyTorch, the batches behind the bad one can still be had.
    assert [int(b[0, 0]) for b in it] == [i for i in range(0, 24, 4) if i > bad]


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def test_exceptions_that_cannot_be_made_again():
    def odd():
        raise Odd(1, 2)

    def local():
        class Local(Exception):
            pass

        raise Local("here")

    def key():
        raise KeyError("missing")

    for action, kind, name in ((odd, RuntimeError, "Odd"), (local, RuntimeError, "Local")):
        with pytest.raises(kind, match=f"Caught {name} in DataLoader worker process 0"):
            list(DataLoader(Numbers(4, 0, action), num_workers=1))
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Numbers(4, 0, key), num_workers=1))
    assert "\nOriginal Traceback" in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_init_fn_raising(method):
    def init(worker):
        raise ValueError("cannot begin")

    loader = DataLoader(Numbers(), num_workers=2, worker_init_fn=init, worker_method=method)
    with pytest.raises(ValueError, match="cannot begin"):
        next(iter(loader))


def test_unpicklable_batch():
    loader = DataLoader(Numbers(), num_workers=1, collate_fn=lambda x: lambda: x)
    with pytest.raises(Exception, match="Caught .* in DataLoader worker process 0"):
        next(iter(loader))


def test_dataset_that_cannot_be_sent():
    local = Numbers(4, 0, lambda: None)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        iter(DataLoader(local, num_workers=2, multiprocessing_context="spawn"))


@pytest.mark.parametrize("bad", [0, 11, 23])
def test_killed(bad):
    loader = DataLoader(Numbers(24, bad, die), 4, num_workers=2)
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpect"):
        list(loader)


@pytest.mark.parametrize("when", ["start", "middle", "end", "between"])
def test_killed_from_outside(when):
    loader = DataLoader(Numbers(48), 4, num_workers=2, persistent_workers=True)
    before = children()
    it = iter(loader)
    for _ in range({"start": 0, "middle": 4, "end": 11, "between": 12}[when]):
        next(it)
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    # What had arrived before may still be yielded; but an epoch that is short says so.
    with pytest.raises(RuntimeError, match="SIGKILL"):
        for _ in it:
            pass
        for _ in loader:
            pass
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(it)
    del it
    assert flat(loader) == list(range(48))  # with new workers


@pytest.fixture
def interruptible():
    """Ctrl-C is heard, also where a shell that runs the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("persistent", [False, True])
def test_interrupted_and_continued(persistent, interruptible):
    class Interrupts(Numbers):
        """The worker's Ctrl-C finds this process at the loader, however busy the machine is."""

        def __getitem__(self, i):
            time.sleep(0.01)
            if i == 60:
                os.kill(os.getppid(), signal.SIGINT)
            return super().__getitem__(i)

    loader = DataLoader(Interrupts(400), 2, num_workers=2, persistent_workers=persistent)
    it = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        for _ in it:
            pass
    with pytest.raises(RuntimeError, match="interrupted"):
        next(it)
    loader_batches = (int(b[0, 0]) for b in loader)
    assert [next(loader_batches) for _ in range(3)] == [0, 2, 4]


def test_message_cut_off():
    loader = DataLoader(Numbers(400), 2, num_workers=2)
    it = iter(loader)
    next(it)

    class Stop(BaseException):
        pass

    def cut(worker):
        it._pool.connections[worker]._recv(2)  # as when a signal's handler raises there
        raise Stop

    it._pool._receive, receive = cut, it._pool._receive
    with pytest.raises(Stop):
        while True:
            next(it)
    it._pool._receive = receive
    with pytest.raises(RuntimeError, match="a message from it was interrupted"):
        while True:
            next(it)
    del it._pool._receive, receive  # a cycle


def test_memory_of_the_processes_is_flat_over_epochs():
    import resource

    class Peak(Numbers):
        def __getitem__(self, i):
            return torch.zeros(50_000), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    loader = DataLoader(Peak(64), 4, num_workers=2, persistent_workers=True)
    workers, parent = [], []
    for _ in range(12):
        for _, peak in loader:
            pass
        workers.append(int(peak.max()))
        parent.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert workers[-1] - workers[3] < 4000  # kilobytes
    assert parent[-1] - parent[3] < 4000


def test_exit_in_the_dataset():
    with pytest.raises(RuntimeError, match="exited unexpectedly: it ended with exit code 3"):
        list(DataLoader(Numbers(8, 2, lambda: os._exit(3)), num_workers=1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [0, 5])
def test_hanging(method, bad, monkeypatch, tmp_path):
    """The error comes while the sample still hangs."""
    from rushlight.utils.data import worker_pool

    monkeypatch.setattr(worker_pool.Processes, "GRACE", 0.2)
    monkeypatch.setattr(worker_pool.Threads, "GRACE", 0.2)
    let_go, over = threading.Event(), tmp_path / "over"

    def action():
        let_go.wait(60)
        over.touch()

    loader = DataLoader(Numbers(8, bad, action), num_workers=2, timeout=0.5, worker_method=method)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        list(loader)
    assert not over.exists()
    let_go.set()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("persistent", [False, True])
def test_dropped_in_the_middle(method, persistent):
    before = children()
    loader = DataLoader(
        Numbers(), 2, num_workers=2, worker_method=method, persistent_workers=persistent
    )
    for _ in range(2):
        it = iter(loader)
        assert next(it).tolist() == [[0, 0], [1, 1]]
        del it
    gc.disable()
    try:
        del loader
        assert children() == before  # by reference count, at once
    finally:
        gc.enable()


def test_who_keeps_the_processes_may_ask_them():
    """As PyTorch's iterators they have `_workers`, whose processes can be joined after the end."""
    batches = iter(DataLoader(Numbers(), num_workers=2))
    processes = batches._workers
    next(batches)
    del batches
    for process in processes:
        process.join()
        assert not process.is_alive() and process.exitcode == 0


def test_dropped_inside_a_fork():
    loader = DataLoader(Numbers(), 2, num_workers=2)
    it = iter(loader)
    next(it)
    child = os.fork()
    if not child:
        del it  # must not end the parent's workers
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(it)) == 11


def test_batches_outlive_the_loader():
    (batch,) = next(iter(DataLoader(TensorDataset(torch.arange(1000)), 1000, num_workers=1)))
    gc.collect()
    assert batch.sum() == 499500


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_waits_until_a_worker_ignores_it(method, tmp_path):
    """A worker interrupted before its main function begins says nothing, and works on."""
    code = f"""
        import os, signal, sys, time
        import test_loader_workers as t

        if __name__ != "__mp_main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupt(*args):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

        # Runs in the worker, before its target: at a fork, and where a spawned one reads the program.
        if "{method}" == "fork":
            os.register_at_fork(after_in_child=interrupt)
        elif __name__ == "__mp_main__":
            interrupt()
        if __name__ == "__main__":
            loader = t.DataLoader(
                t.Numbers(20), 2, num_workers=2, multiprocessing_context="{method}"
            )
            print(len(list(loader)))
    """
    with start(tmp_path, code) as process:
        out = process.stdout.read()
        process.wait(60)
    assert ((tmp_path / "errors").read_text(), out.strip()) == ("", "10")


@pytest.mark.parametrize("how", ["kill", "interrupt", "exit", "raise"])
@pytest.mark.parametrize("busy", [False, True])
def test_workers_end_with_their_parent(how, busy, tmp_path):
    code = f"""
        import os, signal, sys, threading, time
        import test_loader_workers as t

        class Slow(t.Numbers):
            def __getitem__(self, i):
                if {busy} and i > 8:
                    time.sleep(600)
                return super().__getitem__(i)

        # A shell that runs the tests in the background has them ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        it = iter(t.DataLoader(Slow(2000), 2, num_workers=2))
        next(it)
        print(*[p.pid for p in it._pool.processes], flush=True)
        how = "{how}"
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            sys.exit(0)
        if how == "raise":
            raise ValueError

        def interrupt():
            time.sleep(0.5)
            while True:  # Python drops one that comes in a destructor or a fork's hook: a user repeats it
                os.killpg(0, signal.SIGINT)
                time.sleep(15)

        threading.Thread(target=interrupt, daemon=True).start()
        while True:
            for batch in it:
                pass
            it = iter(t.DataLoader(Slow(2000), 2, num_workers=2))
    """
    with start(tmp_path, code) as process:
        try:
            pids = process.stdout.readline()
            process.stdout.close()
            process.wait(60)
        finally:
            process.kill()
    pids = [int(pid) for pid in pids.split()]
    assert len(pids) == 2, (tmp_path / "errors").read_text()
    for _ in range(1000):
        if not any(map(alive, pids)):
            break
        time.sleep(0.05)
    assert not any(map(alive, pids))
    errors = (tmp_path / "errors").read_text()
    if how == "interrupt":
        assert errors.count("KeyboardInterrupt") >= 1
        assert "Process " not in errors  # no traceback from a worker
    if how == "exit":
        assert errors == ""


# -- arguments -------------------------------------------------------------------------------------


def test_loader_dataset_and_sampler_pickle():
    data = TensorDataset(torch.arange(10.0))
    generator = torch.Generator().manual_seed(3)
    sampler = RandomSampler(data, generator=generator)
    want = list(pickle.loads(pickle.dumps(sampler)))
    assert want == list(sampler)
    subset = pickle.loads(pickle.dumps(Subset(data, [3, 1])))
    assert [x.item() for (x,) in subset] == [3.0, 1.0]
    loader = pickle.loads(pickle.dumps(DataLoader(data, 5, num_workers=2)))
    assert [b.tolist() for (b,) in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_generator_gives_order_and_seeds():
    def epoch():
        generator = torch.Generator().manual_seed(5)
        loader = DataLoader(Numbers(), 4, shuffle=True, num_workers=2, generator=generator)
        return flat(loader), torch.rand(1, generator=generator).item()

    state = torch.get_rng_state()
    assert epoch() == epoch()
    assert torch.equal(state, torch.get_rng_state())


def test_prefetch_runs_no_further_ahead():
    asked = []

    class Asks(torch.utils.data.Sampler):
        def __iter__(self):
            for i in range(24):
                asked.append(i)
                yield i

        def __len__(self):
            return 24

    it = iter(DataLoader(Numbers(), None, sampler=Asks(), num_workers=2, prefetch_factor=3))
    assert len(asked) == 6
    next(it)
    assert len(asked) == 7
