"""torch.utils: counting operations, weak dictionaries, reports, names that older programs import."""

from __future__ import annotations

import copy
import functools
import gc

import pytest

import rushlight as torch
from processes import finished
from rushlight import nn
from rushlight.utils import collect_env, cpp_extension
from rushlight.utils.flop_counter import FlopCounterMode
from rushlight.utils.module_tracker import ModuleTracker
from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary

# -- operations -----------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.up = nn.ConvTranspose2d(4, 2, 3, groups=2)
        self.head = nn.Sequential(nn.Linear(162, 10), nn.ReLU(), nn.Linear(10, 3, bias=False))

    def forward(self, x):
        return self.head(self.up(self.conv(x)).flatten(1))


def test_operations_of_a_network():
    net, x = Net(), torch.randn(2, 3, 14, 14, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    found = counter.get_flop_counts()
    conv, up = 2 * 2 * 7 * 7 * 4 * 3 * 9, 2 * 2 * 7 * 7 * 2 * 2 * 9
    aten = torch.ops.aten
    assert found["Net.conv"] == {aten.convolution: conv, aten.convolution_backward: 2 * conv}
    assert found["Net.up"] == {aten.convolution: up, aten.convolution_backward: 2 * up}
    first, last = 2 * 2 * 162 * 10, 2 * 2 * 10 * 3
    assert found["Net.head.0"] == {aten.addmm: first, aten.mm: 2 * first}
    assert found["Net.head.2"] == {aten.mm: 3 * last}
    assert found["Global"] == found["Net"]
    assert counter.get_total_flops() == 3 * (conv + up + first + last)
    table = counter.get_table(2)
    assert "Net.conv" in table
    assert "Net.head.0" not in table
    assert not net._forward_hooks


def test_operations_of_products(capsys):
    with FlopCounterMode() as counter:
        torch.randn(3, 4) @ torch.randn(4)
        torch.randn(2, 3, 4) @ torch.randn(4, 2)
        torch.randn(2, 3, 4) @ torch.randn(2, 4, 2)
        torch.einsum("ij,jk->ik", torch.randn(2, 3), torch.randn(3, 4))
        q = torch.randn(2, 2, 5, 4)
        nn.functional.scaled_dot_product_attention(q, q, q)
    assert counter.get_flop_counts()["Global"] == {
        torch.ops.aten.mm: 2 * 2 * 3 * 4 * 2 + 2 * 2 * 3 * 4,
        torch.ops.aten.bmm: 2 * 2 * 3 * 4 * 2,
        torch.ops.aten.scaled_dot_product_attention: 2 * 2 * 2 * 2 * 5 * 5 * 4,
    }
    assert "aten.bmm" in capsys.readouterr().out
    before = counter.get_total_flops()
    torch.randn(3, 4) @ torch.randn(4, 2)  # outside it counts nothing
    assert counter.get_total_flops() == before


def test_profiles_see_backward_inside_and_after():
    def nodes():
        with torch.profiler.profile() as profile:
            work()
        return [e.key for e in profile.key_averages() if "Backward" in e.key]

    def work():
        (torch.ones(2, requires_grad=True) * 2).sum().backward()

    want = nodes()
    with FlopCounterMode(display=False):
        assert nodes() == want
    assert nodes() == want and "MulBackward0" in want


def test_formulas_of_ones_own():
    own = {torch.ops.aten._softmax: lambda x, dim, *rest, **options: 5 * x.numel()}
    with FlopCounterMode(display=False, custom_mapping=own) as counter:
        torch.randn(3, 4).softmax(1)
    assert counter.get_total_flops() == 60
    with FlopCounterMode(display=False) as counter:
        torch.randn(3, 4).softmax(1)
    assert counter.get_total_flops() == 0


# -- weak references ------------------------------------------------------------------------------------


def test_weak_dictionaries():
    a, b = torch.ones(2), torch.ones(2)
    notes = WeakTensorKeyDictionary({a: 1})
    notes[b] = 2
    assert notes[a] == 1
    assert len(notes) == 2
    assert {id(k) for k in notes} == {id(a), id(b)}
    assert torch.ones(2) not in notes
    assert 5 not in notes
    assert notes.copy() == notes
    weak = TensorWeakRef(b)
    assert weak() is b
    del b
    gc.collect()
    assert list(notes.values()) == [1]
    assert weak() is None
    del notes[a]
    assert not notes
    with pytest.raises(KeyError):
        notes[a]
    assert not isinstance(WeakIdKeyDictionary(), dict)


def test_unions_and_deep_copies_of_weak_dictionaries():
    a, b = torch.ones(2), torch.ones(2)
    first, second = WeakIdKeyDictionary({a: [1]}), WeakIdKeyDictionary({a: [2], b: [3]})
    both = first | second
    assert (
        type(both) is WeakIdKeyDictionary and both[a] == [2] and both[b] == [3] and len(first) == 1
    )
    assert (second | {a: 4})[a] == 4 and ({a: 4} | second)[a] == [2]
    first |= [(b, 5)]
    assert first[b] == 5
    copied = copy.deepcopy(second)
    assert copied[a] == [2] and copied[a] is not second[a]
    with pytest.raises(TypeError):
        second | 3
    del b
    assert len(both) == 1


# -- reports --------------------------------------------------------------------------------------------


def test_collect_env(capsys):
    collect_env.main()
    out = capsys.readouterr().out
    for word in ("PyTorch version", "Python version", "CPU", "numpy=="):
        assert word in out
    assert collect_env.get_env_info().is_cuda_available == "False"


def test_collect_env_through_the_door(tmp_path):
    done = finished("-m", "rushlight", "-m", "torch.utils.collect_env", folder=tmp_path)
    assert "PyTorch version" in done.stdout


# -- what is not here -----------------------------------------------------------------------------------


def test_extensions_say_why_not():
    assert cpp_extension.CUDA_HOME is None
    for make in (
        lambda: cpp_extension.load("x", []),
        lambda: cpp_extension.load_inline("x", ""),
        lambda: cpp_extension.CppExtension("x", []),
        lambda: cpp_extension.CUDAExtension("x", []),
        cpp_extension.BuildExtension,
    ):
        with pytest.raises(RuntimeError, match="need PyTorch itself"):
            make()


def test_model_zoo(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "net.pt")
    url = (tmp_path / "net.pt").as_uri()
    loaded = torch.utils.model_zoo.load_url(url, str(tmp_path / "kept"), progress=False)
    assert loaded["w"].tolist() == [1.0, 1.0]


# -- checkpoints' settings ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["list", "policy", "bool"])
def test_selective_checkpoints_run_no_kept_operator_again(how):
    from rushlight.utils import checkpoint as cp

    class Log(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is not torch.ops.aten.detach.default:
                ran.append(str(func))
            return func(*args, **(kwargs or {}))

    def policy(context, op, *args, **kwargs):
        asked.append((str(op), context.is_recompute, context.op_output.shape))
        save = op is torch.ops.aten.mm.default
        if how == "bool":
            return save
        return cp.CheckpointPolicy.MUST_SAVE if save else cp.CheckpointPolicy.PREFER_RECOMPUTE

    asked, ran = [], []
    x = torch.randn(3, 3, requires_grad=True)
    given = [torch.ops.aten.mm.default] if how == "list" else policy
    contexts = functools.partial(cp.create_selective_checkpoint_contexts, given)
    with Log():
        y = cp.checkpoint(
            lambda x: (x @ x).sin().cos(), x, use_reentrant=False, context_fn=contexts
        )
        names = ["aten.mm.default", "aten.sin.default", "aten.cos.default"]
        assert ran == names
        assert how == "list" or asked == [(name, False, (3, 3)) for name in names]
        ran.clear()
        (got,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert ran.count("aten.mm.default") == 2  # those of the gradient
    assert ran.count("aten.sin.default") == 2  # once for the gradient, once again
    (want,) = torch.autograd.grad((x @ x).sin().cos().sum(), x)
    assert torch.equal(got, want)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()


def test_selective_checkpoints_ask_the_policy_in_the_forward_alone():
    from rushlight.utils import checkpoint as cp

    asked = []
    contexts = functools.partial(
        cp.create_selective_checkpoint_contexts, lambda context, op, *args: not asked.append(op)
    )
    x = torch.randn(3, requires_grad=True)
    y = cp.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=contexts)
    y.sum().backward()
    assert [str(op) for op in asked] == ["aten.exp.default", "aten.sin.default"]
    assert torch.allclose(x.grad, x.exp() * x.exp().cos())


def test_selective_checkpoints_keep_all_results_of_an_operator():
    from rushlight.utils import checkpoint as cp

    def f(x):
        a, b = torch.nn.functional.layer_norm(x, (4,)).split(2, 1)
        return (a * b).topk(1)[0]

    x = torch.randn(3, 4, requires_grad=True)
    contexts = functools.partial(cp.create_selective_checkpoint_contexts, lambda *args: True)
    y = cp.checkpoint(f, x, use_reentrant=False, context_fn=contexts)
    (got,) = torch.autograd.grad(y.sum(), x)
    (want,) = torch.autograd.grad(f(x).sum(), x)
    assert torch.equal(y, f(x)) and torch.equal(got, want)


@pytest.mark.parametrize("allowed", [False, True])
def test_selective_checkpoints_notice_that_a_kept_tensor_was_written_to(allowed):
    from rushlight.utils import checkpoint as cp

    def f(x):
        y = x.mm(x)
        z = y.sin()
        y.add_(1)
        return z * z

    x = torch.randn(3, 3, requires_grad=True)
    products = [torch.ops.aten.mm.default]
    contexts = functools.partial(cp.create_selective_checkpoint_contexts, products, allowed)
    y = cp.checkpoint(f, x, use_reentrant=False, context_fn=contexts)
    if allowed:
        y.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="has been mutated"):
            y.sum().backward()


@pytest.mark.parametrize(
    "given, error, text",
    [
        (5, TypeError, "a function or a list"),
        ([1], ValueError, "an OpOverload but got: 1"),
        ([torch.ops.aten.mm], ValueError, "torch.ops.aten.mm.default"),
    ],
)
def test_selective_checkpoints_refuse_other_policies(given, error, text):
    with pytest.raises(error, match=text):
        torch.utils.checkpoint.create_selective_checkpoint_contexts(given)


def test_early_stop():
    from rushlight.utils import checkpoint as cp

    runs = []

    def f(x):
        y = x.exp()
        y = y.sin()
        runs.append(1)
        return y

    for stop, expected in ((True, 1), (False, 2)):
        runs.clear()
        with cp.set_checkpoint_early_stop(stop), cp.set_checkpoint_debug_enabled(None):
            y = cp.checkpoint(f, torch.ones(2, requires_grad=True), use_reentrant=False)
        y.sum().backward()
        assert len(runs) == expected
    with pytest.warns(UserWarning, match="None of the inputs"):
        cp.check_backward_validity([torch.ones(1)])
    assert cp.get_device_states() == ([], [])


def test_checkpoints_of_functions_that_differentiate():
    from rushlight.utils.checkpoint import checkpoint

    def slope(x):
        with torch.enable_grad():
            (g,) = torch.autograd.grad(x.sin().exp(), x, create_graph=True)
        return g * x.cos()

    def inner(x):
        return checkpoint(slope, x, use_reentrant=False)

    x = torch.tensor(0.3, requires_grad=True)
    results = []
    for y in (slope(x), inner(x), checkpoint(inner, x, use_reentrant=False)):
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        results.append((first.item(), torch.autograd.grad(first, x)[0].item()))
    assert results[1] == pytest.approx(results[0])
    assert results[2] == pytest.approx(results[0])


def test_module_tracker():
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    seen: list = []
    x = torch.ones(1, 2, requires_grad=True)
    with ModuleTracker() as tracker:

        def note(*_):
            seen.append((sorted(tracker.parents), tracker.is_bw))

        hook = model[1][0].register_forward_pre_hook(note)
        out = model(x)
        hook.remove()
        x.register_hook(note)
        out.register_hook(note)
        out.sum().backward()
        assert tracker.parents == {"Global"}
        note()
    names = ["Global", "Sequential", "Sequential.1", "Sequential.1.0"]
    assert seen == [(names, False), (names, True), (["Global"], True), (["Global"], False)]
    model(x)
    assert tracker.parents == {"Global"}


def test_module_tracker_where_inputs_want_no_gradient():
    model = torch.nn.Linear(2, 2)
    with ModuleTracker() as tracker:
        out = model(torch.ones(1, 2))
        inside: list = []
        model.weight.register_hook(lambda g: inside.append(sorted(tracker.parents)))
        out.sum().backward()
    assert inside == [["Global", "Linear"]]
    assert tracker.parents == {"Global"}
