"""Tensors sent to other processes: the same memory on both sides."""

from __future__ import annotations

import os
import textwrap

import pytest

import rushlight as torch
from processes import finished


def run(tmp_path, program: str) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(
        "import rushlight as torch\nimport rushlight.multiprocessing as mp\n"
        + textwrap.dedent(program)
    )
    done = finished(script)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_shared_module_is_trained_by_another_process(tmp_path, method):
    out = run(
        tmp_path,
        f"""
        def train(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.ones(2, 3)).pow(2).mean().backward()
            optimizer.step()

        if __name__ == "__main__":
            mp.set_start_method("{method}", force=True)
            model = torch.nn.Linear(3, 1)
            model.share_memory()
            before = model.weight.detach().clone()
            process = mp.Process(target=train, args=(model,))
            process.start()
            process.join()
            print(process.exitcode, bool((model.weight != before).all()), model.weight.is_leaf)
        """,
    )
    assert out == ["0 True True"]


def test_queues(tmp_path):
    out = run(
        tmp_path,
        """
        def work(queue, back):
            t = queue.get()
            t[0] = 5
            back.put((t.dtype, t.stride(), type(t).__name__, t.requires_grad))
            queue.get()

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            queue, back = context.Queue(), context.Queue()
            process = context.Process(target=work, args=(queue, back))
            process.start()
            t = torch.zeros(3, 2, dtype=torch.bfloat16).share_memory_()
            queue.put(t.t())
            print(*back.get())
            print(t[0].tolist(), t[:, 0].tolist())
            queue.put(None)
            process.join()
        """,
    )
    assert out == ["torch.bfloat16 (1, 2) Tensor False", "[5.0, 0.0]", "[5.0, 5.0, 5.0]"] or (
        out == ["torch.bfloat16 (1, 2) Tensor False", "[5.0, 0.0] [5.0, 5.0, 5.0]"]
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_a_process_is_given_stays_shared(tmp_path, method):
    """Views, parameters and modules that nobody moved to shared memory before; and two tensors of one memory."""
    out = run(
        tmp_path,
        f"""
        def add(x, y, whole, parameter, module):
            with torch.no_grad():
                for t in (x, y, parameter, *module.parameters()):
                    t.add_(1)
                whole[0] = 5

        if __name__ == "__main__":
            context = mp.get_context("{method}")
            x, y = torch.zeros(3), torch.zeros(3)
            parameter = torch.nn.Parameter(torch.zeros(2))
            module = torch.nn.Linear(1, 1)
            before = module.weight.item()
            process = context.Process(target=add, args=(x[1:], y[:1], y, parameter, module))
            process.start()
            process.join()
            print(x.tolist(), y.tolist(), parameter.tolist(), module.weight.item() - before == 1)
        """,
    )
    assert out == ["[0.0, 1.0, 1.0] [5.0, 0.0, 0.0] [1.0, 1.0] True"]


def test_all_that_is_on_a_memory_moves():
    """Base, views and storages."""
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    view, storage = y[1:], y.untyped_storage()
    view.detach().share_memory_()
    assert y.is_shared() and view.is_shared() and storage.is_shared()
    with torch.no_grad():
        y.detach()[3] = 7
    assert view.tolist() == [2, 2, 7] and storage.data_ptr() == y.data_ptr()
    product = y * y
    product.sum().backward()
    assert x.grad.tolist() == [8, 8, 8, 28]


def test_a_storage_takes_its_tensors_along():
    x = torch.arange(4)
    storage = x[1:].untyped_storage()
    storage.share_memory_()
    assert x.is_shared() and len(storage) == 32 and storage.data_ptr() == x.data_ptr()
    assert x.tolist() == [0, 1, 2, 3]


def test_two_messages_about_one_memory_give_one_memory():
    from multiprocessing.reduction import ForkingPickler

    x = torch.zeros(4)
    first, second = (ForkingPickler.loads(dumps(x[k:])) for k in (0, 1))
    first[1] = 3
    assert second[0] == 3 and x[1] == 3


def dumps(tensor):
    from multiprocessing.reduction import ForkingPickler

    torch.multiprocessing.init_reductions()  # what its import does

    return ForkingPickler.dumps(tensor)


def test_views_of_what_is_sent_stay_views():
    x = torch.zeros(4)
    view = x[:2]
    dumps(x)
    view[0] = 1
    assert x.tolist() == [1, 0, 0, 0]


def test_storages_are_sent_as_their_memory():
    """Typed ones, those of bytes, parts of them; with the tensors on them."""
    from multiprocessing.reduction import ForkingPickler

    x = torch.arange(4.0)
    things = [x, x.storage(), x.untyped_storage(), x.untyped_storage()[4:12]]
    y, typed, untyped, part = ForkingPickler.loads(dumps(things))
    y[1] = 7
    assert x.tolist() == typed.tolist() == [0, 7, 2, 3]
    assert typed.dtype is torch.float32 and isinstance(typed, torch.FloatStorage)
    assert len(untyped) == 16 and untyped.data_ptr() == y.data_ptr()
    part[3] = 0
    part[2] = 0
    assert len(part) == 8 and y[1] == 0 and x.tolist() == [0, 0, 2, 3]
    doubles = torch.DoubleStorage([1, 2])
    again = ForkingPickler.loads(dumps(doubles))
    again[0] = 5
    assert doubles.tolist() == [5, 2] and len(ForkingPickler.loads(dumps(torch.LongStorage()))) == 0


def test_hooks_are_not_sent_and_there_is_a_warning():
    from multiprocessing.reduction import ForkingPickler

    x = torch.ones(2, requires_grad=True)
    parameter = torch.nn.Parameter(torch.ones(2))
    for t in (x, parameter):
        handle = t.register_hook(lambda g: g)
        with pytest.warns(UserWarning, match="will not be serialized"):
            again = ForkingPickler.loads(dumps(t))
        assert type(again) is type(t) and again.requires_grad and not again._backward_hooks
        handle.remove()
        dumps(t)
        t.register_hook(torch.utils.hooks.unserializable_hook(lambda g: g))
        dumps(t)


def test_a_tensor_with_history_is_refused():
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        dumps(torch.ones(2, requires_grad=True) * 2)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_descriptors_are_closed_with_the_tensor():
    before = len(os.listdir("/proc/self/fd"))
    tensors = [torch.ones(10).share_memory_() for _ in range(5)]
    assert all(t.is_shared() for t in tensors)
    assert len(os.listdir("/proc/self/fd")) > before
    del tensors
    assert len(os.listdir("/proc/self/fd")) == before


def test_errors_of_processes_are_pickled():
    import pickle

    from rushlight.multiprocessing import ProcessExitedException, ProcessRaisedException

    raised = pickle.loads(pickle.dumps(ProcessRaisedException("Oh no!", 1, 2)))
    assert (str(raised), raised.error_index, raised.error_pid) == ("Oh no!", 1, 2)
    exited = pickle.loads(pickle.dumps(ProcessExitedException("gone", 1, 2, 3, "SIGTERM")))
    assert (exited.exit_code, exited.signal_name, exited.error_pid) == (3, "SIGTERM", 2)
