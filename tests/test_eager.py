"""What a compiler is asked for runs as it is written, and says so; stubs; timers; processes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import rushlight as torch
from processes import finished
from rushlight.core.stub import DECLARED, KINDS, declare, stub

ignore_stubs = pytest.mark.filterwarnings("ignore:torch.(compile|jit.script):UserWarning")


def test_what_pretends_warns_once():
    model = torch.nn.Linear(2, 2)
    calls = {
        "torch.jit.script": (lambda: torch.jit.script(model),),
    }
    for name, each in calls.items():
        torch.set_warn_always(True)
        try:
            for call in each:
                with pytest.warns(UserWarning, match=f"{name}: .* docs/stubs.md") as seen:
                    call()
                assert seen[0].filename == __file__
        finally:
            torch.set_warn_always(False)
        for call in each:  # warned already: an error if it warned again
            call()


def test_a_stub_is_the_same_object_with_a_mark():
    def original(x: int) -> int:
        """Doc."""
        return x

    class Base:
        pass

    marked = stub("identity", "Reason.")(original)
    assert marked is original
    assert marked.__stub__ == ("identity", "Reason.")
    assert marked.__doc__ == "Doc."
    assert list(inspect.signature(marked).parameters) == ["x"]
    stub("no-op", "Reason.")(Base)
    assert "__stub__" not in vars(type("Below", (Base,), {}))


def test_marks_can_be_read():
    assert torch.jit.script.__stub__.kind == "identity"
    assert torch.jit.fork.__stub__.kind == "emulated"
    assert torch.cuda.empty_cache.__stub__.kind == "no-op"
    assert torch.jit.save.__stub__.kind == "absent"
    assert not hasattr(torch.add, "__stub__")


def test_declared_stubs_are_there():
    for info in pkgutil.walk_packages(torch.__path__, "rushlight."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    assert len(DECLARED) > 100
    for name, (kind, reason) in DECLARED.items():
        assert kind in KINDS
        assert reason.endswith(".")
        path, _, parameter = name.rstrip("=)").partition("(")
        space, _, last = path.replace("torchvision", "torch.vision").rpartition(".")
        space = space.replace("nn.attention.flex", "nn.flex").replace("torch", "rushlight", 1)
        space, _, cls = (
            space.rpartition(".") if space.endswith((".Module", ".Dim")) else (space, "", "")
        )
        holder = importlib.import_module(space)
        holder = getattr(holder, cls) if cls else holder
        found = getattr(holder, last)
        if parameter:
            assert parameter in inspect.signature(found).parameters, name


def test_declare_takes_the_name_of_the_module():
    try:
        declare("no-op", "Reason.", "rushlight.backends.nothing", "a b(c=)")
        assert DECLARED["torch.backends.nothing.a"] == ("no-op", "Reason.")
        assert "torch.backends.nothing.b(c=)" in DECLARED
    finally:
        for name in ("a", "b(c=)"):
            DECLARED.pop(f"torch.backends.nothing.{name}", None)


@ignore_stubs
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
    program = torch.jit.script(net)
    assert program(torch.ones(1)).item() == 5 and torch.jit.script(program) is program
    assert torch.jit.trace(net, torch.ones(2))(torch.ones(1)).item() == 5
    assert torch.jit.freeze(net) is net
    assert clipped(torch.tensor(3.0)).item() == 1
    assert not torch.jit.is_scripting()
    assert isinstance(program, torch.jit.ScriptModule)
    assert torch.jit.isinstance([1], list[int])
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.save(net, "net.pt")
    with pytest.raises(RuntimeError, match="size of tensor|must match"):
        torch.jit.trace(lambda x: x + torch.ones(3), torch.ones(2))


@ignore_stubs
@pytest.mark.parametrize(
    "compiled",
    [
        torch.jit.script,
        lambda m: torch.jit.trace(m, torch.ones(3, 2)),
        lambda m: torch.jit.trace_module(m, {"forward": torch.ones(3, 2)}),
    ],
    ids=["script", "trace", "trace_module"],
)
def test_a_scripted_module_shares_tensors_and_nothing_else(compiled):
    inner = torch.nn.BatchNorm1d(2)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), inner, inner)
    program = compiled(net)
    assert program is not net and program[1] is program[2] and program[1] is not inner
    kinds = [isinstance(m, torch.jit.ScriptModule) for m in (program, program[0], net, net[0])]
    assert kinds == [True, True, False, False]
    program.eval()  # it changed the module's mode, too
    assert net.training and inner.training and not program.training and not program[1].training
    assert program[0].weight is net[0].weight and program[1].running_mean is inner.running_mean
    assert list(program.state_dict()) == list(net.state_dict())
    count = int(inner.num_batches_tracked)
    program.train()(torch.ones(3, 2))
    assert int(inner.num_batches_tracked) == count + 2
    net[0].weight = torch.nn.Parameter(torch.zeros(2, 2))
    net[0].register_forward_hook(lambda *args: torch.zeros(3, 2))
    assert program[0].weight.abs().sum() > 0 and program[0](torch.ones(3, 2)).abs().sum() > 0


@ignore_stubs
def test_errors_of_scripted_modules():
    class Inner(torch.nn.Module):
        def forward(self, x, way):
            assert way != "assert", "no"
            torch._assert(way != "torch", "no")
            if way == "raise":
                raise RuntimeError("no")
            return (
                x[2] if way == "tensor" else [x, x][len(x)] if way == "list" else x @ torch.ones(3)
            )

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, way):
            return self.inner(x, way)

    plain = Outer()
    scripted = torch.jit.script(plain)
    errors = {"assert": AssertionError, "torch": AssertionError, "raise": RuntimeError}
    for way, kind in (errors | {"tensor": IndexError, "list": IndexError}).items():
        with pytest.raises(kind):
            plain(torch.ones(2), way)
        wanted = torch.jit.Error if way in errors else RuntimeError
        with pytest.raises(wanted, match=f"{kind.__name__}: ") as raised:
            scripted(torch.ones(2), way)
        assert type(raised.value) is wanted and type(raised.value.__cause__) is kind
        assert "'inner' of Outer" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match="^inconsistent tensor size"):
        scripted(torch.ones(2), "product")
    with pytest.raises(RuntimeError, match="TypeError: .*missing 1 required"):
        scripted(torch.ones(2))


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
    lines = finished(script).stdout.splitlines()
    assert (lines[0], lines[-1]) == ("2.0", "True 1")
    assert set(torch.multiprocessing.get_all_sharing_strategies())
