"""What a compiler is asked for runs as it is written; timers; processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rushlight as torch


def test_compile_gives_back_what_it_is_given():
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model, mode="reduce-overhead") is model

    @torch.compile(fullgraph=True)
    def double(x):
        return x * 2

    assert double(torch.ones(1)).item() == 2
    assert not torch.compiler.is_compiling()
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(model, mode="default", options={})


def test_jit():
    @torch.jit.script
    def clipped(x: torch.Tensor):
        return x.clamp(0, 1)

    class Net(torch.nn.Module):
        @torch.jit.export
        def shifted(self, x):
            return x + 1

        @torch.jit.ignore
        def ignored(self):
            return 3

        @torch.jit.unused
        def unused(self):
            return 4

        def forward(self, x):
            return self.shifted(x) + self.ignored()

    net = Net().eval()
    assert torch.jit.script(net) is net
    assert torch.jit.trace(net, torch.ones(2))(torch.ones(1)).item() == 5
    assert torch.jit.freeze(net) is net
    assert clipped(torch.tensor(3.0)).item() == 1
    assert not torch.jit.is_scripting()
    assert isinstance(net, torch.jit.ScriptModule)
    assert torch.jit.isinstance([1], list[int])
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.save(net, "net.pt")
    with pytest.raises(RuntimeError, match="size of tensor|must match"):
        torch.jit.trace(lambda x: x + torch.ones(3), torch.ones(2))


def test_timer():
    from rushlight.utils.benchmark import Compare, Timer

    timer = Timer("a + b", globals={"a": torch.ones(2), "b": torch.ones(2)}, label="sum")
    measured = timer.timeit(20)
    assert measured.mean > 0
    assert "sum" in repr(measured)
    assert "20 runs" in repr(measured)
    ranged = timer.blocked_autorange(min_run_time=0.01)
    assert ranged.median > 0
    assert "Median" in repr(ranged) or len(ranged.times) == 1
    assert "a + b" in str(Compare([measured]))


def test_spawn(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import rushlight as torch
import rushlight.multiprocessing as mp

def work(i, fails):
    if fails and i == 1:
        raise ValueError("the reason")
    if not i and not fails:
        print(torch.ones(2).sum().item(), flush=True)

if __name__ == "__main__":
    mp.spawn(work, args=(False,), nprocs=2)
    try:
        mp.spawn(work, args=(True,), nprocs=2)
    except mp.ProcessRaisedException as error:
        print("the reason" in str(error), error.error_index)
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "2.0"
    assert done.stdout.splitlines()[-1] == "True 1"
    assert set(torch.multiprocessing.get_all_sharing_strategies())
