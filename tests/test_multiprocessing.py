"""Tensors sent to other processes: the same memory on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import rushlight as torch


def run(tmp_path, program: str) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(
        "import rushlight as torch\nimport rushlight.multiprocessing as mp\n"
        + textwrap.dedent(program)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
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
