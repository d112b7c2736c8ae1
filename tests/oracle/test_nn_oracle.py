"""Modules against PyTorch: text, checkpoint names, starting values, results, order of hooks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import rushlight
from rushlight import nn

common = pytest.importorskip("torch.testing._internal.common_modules")
pytestmark = pytest.mark.filterwarnings("ignore")


def ours(value):
    """A value of PyTorch's as one of ours, containers included."""
    if isinstance(value, torch.nn.Parameter):
        return nn.Parameter(ours(value.data), value.requires_grad)
    if isinstance(value, torch.Tensor):
        made = rushlight.from_numpy(value.detach().numpy().copy())
        return made.requires_grad_(value.requires_grad) if value.requires_grad else made
    if isinstance(value, dict):
        return {k: ours(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(ours(v) for v in value)
    if isinstance(value, torch.dtype):
        return getattr(rushlight, str(value).removeprefix("torch."))
    return value


def array(value) -> np.ndarray:
    return value.detach().numpy()


def cases():
    seen = set()
    for info in common.module_db:
        name = info.module_cls.__name__
        if not hasattr(nn, name):
            continue
        for training in (True, False):
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
            )
            for given in inputs:
                args, kwargs = given.constructor_input.args, dict(given.constructor_input.kwargs)
                kwargs.pop("device", None)
                if any(isinstance(arg, torch.nn.Module) for arg in args):
                    continue
                if str((name, args, kwargs)) not in seen:
                    seen.add(str((name, args, kwargs)))
                    yield pytest.param(info.module_cls, args, kwargs, id=f"{name}-{len(seen)}")


@pytest.mark.parametrize("cls, args, kwargs", list(cases()))
def test_text_names_and_starting_values(cls, args, kwargs):
    torch.manual_seed(0)
    theirs = cls(*args, **kwargs)
    rushlight.manual_seed(0)
    mine = getattr(nn, cls.__name__)(*ours(args), **ours(kwargs))
    assert repr(mine) == repr(theirs)
    saved, expected = mine.state_dict(), theirs.state_dict()
    assert list(saved) == list(expected)
    assert list(saved._metadata.items()) == list(expected._metadata.items())
    if not cls.__name__.startswith("Lazy"):
        for name, value in expected.items():
            np.testing.assert_allclose(array(saved[name]), array(value), rtol=1e-6, atol=1e-7)


def test_same_seed_same_network():
    def build(t):
        t.manual_seed(7)
        return t.nn.Sequential(
            t.nn.Conv2d(1, 4, 3),
            t.nn.Embedding(5, 3, padding_idx=1),
            t.nn.Bilinear(2, 3, 4),
            t.nn.ConvTranspose2d(4, 2, 3, groups=2),
            t.nn.Linear(6, 2),
        )

    for mine, theirs in zip(build(rushlight).parameters(), build(torch).parameters()):
        np.testing.assert_array_equal(array(mine), array(theirs))


@pytest.mark.parametrize(
    "fill",
    [
        lambda init, t: init.uniform_(t, -1, 2),
        lambda init, t: init.normal_(t, 1, 2),
        lambda init, t: init.trunc_normal_(t, std=0.7, a=-1, b=1),
        lambda init, t: init.trunc_normal_(t, 1, 2, a=-1, b=-0.5),
        lambda init, t: init.xavier_uniform_(t, gain=1.5),
        lambda init, t: init.xavier_normal_(t),
        lambda init, t: init.kaiming_uniform_(t, nonlinearity="relu"),
        lambda init, t: init.kaiming_normal_(t, mode="fan_out"),
        lambda init, t: init.orthogonal_(t, gain=2),
        lambda init, t: init.sparse_(t, 0.3),
        lambda init, t: init.eye_(t),
    ],
)
def test_init_draws_the_same_numbers(fill):
    for shape in ((4, 6), (30, 20)):
        torch.manual_seed(3)
        theirs = fill(torch.nn.init, torch.empty(shape))
        rushlight.manual_seed(3)
        mine = fill(nn.init, rushlight.empty(shape))
        np.testing.assert_allclose(array(mine), array(theirs), rtol=2e-5, atol=1e-6)


def test_gains():
    names = ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
    for name in names:
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def hook_order(t) -> list:
    """What the hooks of a small network see, in order."""
    seen = []

    def note(name):
        def hook(module, *values):
            seen.append((name, type(module).__name__, len(values)))

        return hook

    net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Tanh())
    for module in net.modules():
        module.register_forward_pre_hook(note("pre"))
        module.register_forward_hook(note("post"))
        module.register_forward_hook(note("first"), prepend=True)
        module.register_full_backward_pre_hook(note("backward pre"))
        module.register_full_backward_hook(note("backward"))
        module.register_state_dict_pre_hook(note("save"))
        module.register_state_dict_post_hook(note("saved"))
        module.register_load_state_dict_pre_hook(note("load"))
        module.register_load_state_dict_post_hook(note("loaded"))
    net(t.ones(1, 2, requires_grad=True)).sum().backward()
    net.load_state_dict(net.state_dict())
    return seen


def test_hooks_run_in_the_same_order():
    assert hook_order(rushlight) == hook_order(torch)


def test_messages_of_load_state_dict():
    def message(t):
        net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3))
        given = {"0.weight": t.ones(3, 3), "0.bias": 5, "1.x.y": t.ones(1), "z": 1}
        with pytest.raises(RuntimeError) as caught:
            net.load_state_dict(given)
        return str(caught.value)

    assert message(rushlight) == message(torch)


def test_state_dict_goes_both_ways(tmp_path):
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    mine = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    mine.load_state_dict(rushlight.load(tmp_path / "theirs.pt"))
    np.testing.assert_array_equal(array(mine[0].weight), array(theirs[0].weight))
    with rushlight.no_grad():
        mine[0].weight.add_(1)
    rushlight.save(mine.state_dict(), tmp_path / "mine.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs.load_state_dict(torch.load(tmp_path / "mine.pt"))
    np.testing.assert_array_equal(array(mine[0].weight), array(theirs[0].weight))


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("size", [63, 40_001])  # NumPy's kernel, machine code
def test_piecewise_activations_have_the_bits_of_pytorch(name, dtype, size):
    def run(t):
        t.manual_seed(0)
        x = (3 * t.randn(size)).to(getattr(t, dtype)).requires_grad_()
        y = getattr(t.nn.functional, name)(x)
        (g,) = t.autograd.grad(y, x, t.randn(size).to(y.dtype))
        return y.detach().double().numpy(), g.double().numpy()

    for mine, theirs in zip(run(rushlight), run(torch)):
        np.testing.assert_array_equal(mine, theirs)
