"""Faults of loader workers, every kind at every time: each is reported soon, and nothing is left over.

What is left over (processes, threads, descriptors, shared memory, semaphores: those have names in /dev/shm) is looked
at after each test by the fixtures of test_loader_workers.py.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, IterableDataset

if sys.platform != "linux":
    pytest.skip("looks into /proc", allow_module_level=True)

from test_loader_workers import (
    METHODS,
    Numbers,
    die,
    fail,
    flat,
    forked,  # noqa: F401
    hang,
    nothing_left,  # noqa: F401
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    from rushlight.utils.data import worker_pool

    monkeypatch.setattr(worker_pool.Processes, "GRACE", 0.2)
    monkeypatch.setattr(worker_pool.Threads, "GRACE", 0.2)


FAULTS = {  # what happens, what the parent raises, arguments of the loader
    "raise": (fail, ValueError, "Caught ValueError in DataLoader worker process", {}),
    "kill": (
        die,
        RuntimeError,
        r"exited unexpectedly.*\(pid \d+\) is killed by signal: Killed",
        {},
    ),
    "segfault": (
        lambda: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)),
        RuntimeError,
        r"exited unexpectedly.*DataLoader worker \(pid \d+\) is killed by signal: Segmentation fault",
        {},
    ),
    "exit": (lambda: os._exit(7), RuntimeError, "exit code 7", {}),
    "hang": (hang, RuntimeError, "timed out after 0.5 seconds", {"timeout": 0.5}),
    "stop": (
        lambda: os.kill(os.getpid(), signal.SIGSTOP),  # does not react to SIGTERM either
        RuntimeError,
        "timed out after 0.5 seconds",
        {"timeout": 0.5},
    ),
}


def expect(loader, fault):
    """Run the loader into the fault: the error, and what came before."""
    _, kind, text, _ = FAULTS[fault]
    text = text.replace("0.5", str(loader.timeout))
    got = []
    with pytest.raises(kind, match=text):
        for batch in loader:
            got.append(batch)
    return got


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("bad", [0, 9, 23], ids=["start", "middle", "end"])
@pytest.mark.parametrize("persistent", [False, True])
def test_in_a_sample(fault, bad, persistent):
    action, _, _, options = FAULTS[fault]
    data = Numbers(24, bad, action)
    loader = DataLoader(data, 3, num_workers=2, persistent_workers=persistent, **options)
    got = expect(loader, fault)
    assert [int(b[0, 0]) for b in got] == list(range(0, 24, 3))[: len(got)]
    assert len(got) <= bad // 3


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", [0, 3, 6], ids=["start", "middle", "end"])
def test_in_an_iterable(fault, at):
    action, _, _, options = FAULTS[fault]

    class Stream(IterableDataset):
        def __iter__(self):
            for i in range(6):
                if i == at:
                    action()
                yield torch.tensor([i])
            if at == 6:
                action()

    assert len(expect(DataLoader(Stream(), 1, num_workers=2, **options), fault)) <= 2 * at


@pytest.mark.parametrize("fault", FAULTS)
def test_before_the_first_sample(fault):
    action, _, _, options = FAULTS[fault]
    loader = DataLoader(
        Numbers(), 4, num_workers=2, worker_init_fn=lambda worker: action(), **options
    )
    assert expect(loader, fault) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_in_the_collation(fault):
    action, _, _, options = FAULTS[fault]

    def collate(samples):
        if int(samples[0][0]) == 12:
            action()
        return torch.stack(samples)

    loader = DataLoader(Numbers(), 4, num_workers=2, collate_fn=collate, **options)
    assert len(expect(loader, fault)) <= 3


@pytest.mark.parametrize("fault", FAULTS)
def test_out_of_order(fault):
    action, _, _, options = FAULTS[fault]
    data = Numbers(24, 9, action)
    expect(DataLoader(data, 3, num_workers=3, in_order=False, **options), fault)


@pytest.mark.parametrize("fault", FAULTS)
def test_in_a_later_epoch(fault):
    action, _, _, options = FAULTS[fault]
    flag = torch.zeros(1).share_memory_()

    class Later(Numbers):
        def __getitem__(self, i):
            if i == 5 and flag.item():
                action()
            return super().__getitem__(i)

    # An epoch without a fault, with the start of the workers, must be within the time-out on any machine.
    options = dict.fromkeys(options, 3)
    loader = DataLoader(Later(), 4, num_workers=2, persistent_workers=True, **options)
    assert flat(loader) == list(range(24))
    flag.fill_(1)
    assert len(expect(loader, fault)) <= 1
    flag.fill_(0)
    if fault == "raise":  # the workers live
        assert flat(loader) == list(range(24))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("at", [0, 3, 11])
def test_the_sampler_raises(method, at):
    class Bad(torch.utils.data.Sampler):
        def __iter__(self):
            for i in range(12):
                if i == at:
                    raise ValueError("a bad sampler")
                yield i

        def __len__(self):
            return 12

    loader = DataLoader(Numbers(), None, sampler=Bad(), num_workers=2, worker_method=method)
    with pytest.raises(ValueError, match="a bad sampler"):
        list(loader)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", ["start", "middle"])
def test_threads_and_processes_are_left_while_they_work(method, where, tmp_path):
    """The iterator goes while its workers are in a sample: that they are through is not waited for."""
    let_go, over = threading.Event(), tmp_path / "over"

    def slow():
        let_go.wait(60)
        over.touch()

    data = Numbers(24, 0 if where == "start" else 8, slow)
    it = iter(DataLoader(data, 2, num_workers=2, worker_method=method))
    if where == "middle":
        next(it)
    time.sleep(0.1)
    del it
    assert not over.exists()
    let_go.set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_errors_that_are_no_exceptions(error):
    """What is raised in a worker ends there, whatever its kind, and is reported here."""

    def action():
        raise error("odd")

    with pytest.raises((error, RuntimeError)):
        list(DataLoader(Numbers(8, 5, action), 2, num_workers=2))


@pytest.mark.parametrize("action", [die, fail], ids=["kill", "raise"])
def test_spawned(action):
    data = Numbers(8, 5, action)
    with pytest.raises((RuntimeError, ValueError), match="worker"):
        list(DataLoader(data, 2, num_workers=2, multiprocessing_context="spawn"))
