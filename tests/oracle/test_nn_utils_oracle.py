"""Parametrizations, weight and spectral norm, pruning and fusion against PyTorch's."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import rushlight
import rushlight.nn.utils.prune

BOTH = [torch, rushlight]


def numbers(tensor):
    return tensor.detach().numpy().copy()


def agree(run, atol=2e-5):
    """The same names, shapes and numbers from both."""
    want, got = [run(lib) for lib in BOTH]
    assert list(got) == list(want)
    for key in want:
        if isinstance(want[key], np.ndarray):
            np.testing.assert_allclose(got[key], want[key], atol=atol, rtol=1e-4, err_msg=key)
        else:
            assert got[key] == want[key], key


def everything(lib, module, x, steps=3):
    """Outputs, gradients and state of a module over some steps of training, and in eval mode."""
    found = {}
    parameters = list(module.parameters())
    optimizer = lib.optim.SGD(parameters, 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        out = module(x)
        out.square().mean().backward()
        found[f"out{step}"] = numbers(out)
        for name, p in module.named_parameters():
            found[f"{name}.grad{step}"] = None if p.grad is None else numbers(p.grad)
        optimizer.step()
    module.eval()
    found["eval"] = numbers(module(x))
    for name, value in module.state_dict().items():
        found[name] = numbers(value)
    found["repr"] = repr(module)
    found["leaf"] = [(name, p.is_leaf) for name, p in module.named_parameters()]
    return found


LAYERS = {
    "linear": (lambda nn: nn.Linear(5, 3), (4, 5)),
    "square": (lambda nn: nn.Linear(4, 4), (2, 4)),
    "wide": (lambda nn: nn.Linear(3, 5), (2, 3)),
    "conv": (lambda nn: nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "transposed": (lambda nn: nn.ConvTranspose1d(2, 3, 3), (2, 2, 5)),
}

NORMS = {
    "weight": lambda u, m: u.parametrizations.weight_norm(m),
    "weight, dim 1": lambda u, m: u.parametrizations.weight_norm(m, dim=1),
    "weight, no dim": lambda u, m: u.parametrizations.weight_norm(m, dim=None),
    "weight, hook": lambda u, m: u.weight_norm(m),
    "weight, hook, no dim": lambda u, m: u.weight_norm(m, dim=None),
    "spectral": lambda u, m: u.parametrizations.spectral_norm(m),
    "spectral, twice": lambda u, m: u.parametrizations.spectral_norm(m, n_power_iterations=2),
    "spectral, bias": lambda u, m: u.parametrizations.spectral_norm(m, "bias", dim=0),
    "spectral, hook": lambda u, m: u.spectral_norm(m),
    "spectral, hook, twice": lambda u, m: u.spectral_norm(m, n_power_iterations=2, dim=1),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_norms(layer, norm):
    make, shape = LAYERS[layer]

    def run(lib):
        lib.manual_seed(0)
        module = NORMS[norm](lib.nn.utils, make(lib.nn))
        return everything(lib, module, lib.randn(shape))

    agree(run)


@pytest.mark.parametrize("layer", ["linear", "square", "wide"])
@pytest.mark.parametrize("how", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialization", [True, False])
def test_orthogonal(layer, how, trivialization):
    make, shape = LAYERS[layer]

    def run(lib):
        lib.manual_seed(0)
        module = lib.nn.utils.parametrizations.orthogonal(
            make(lib.nn), orthogonal_map=how, use_trivialization=trivialization
        )
        found = everything(lib, module, lib.randn(shape))
        w = module.weight
        small = w @ w.mT if w.shape[0] <= w.shape[1] else w.mT @ w
        assert lib.allclose(small, lib.eye(len(small)), atol=1e-4)
        try:
            q = lib.linalg.qr(lib.randn(max(w.shape), min(w.shape)))[0]
            module.weight = q if w.shape[0] >= w.shape[1] else q.mT
            found["assigned"] = numbers(module.weight)
        except NotImplementedError as error:
            found["assigned"] = str(error)
        lib.nn.utils.parametrize.remove_parametrizations(module, "weight")
        found["removed"] = numbers(module.weight)
        return found

    agree(run)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_older_norms_removed_and_loaded_by_the_newer():
    def run(lib):
        lib.manual_seed(0)
        u = lib.nn.utils
        old = u.weight_norm(lib.nn.Linear(3, 4))
        new = u.parametrizations.weight_norm(lib.nn.Linear(3, 4))
        new.load_state_dict(old.state_dict())
        found = {"loaded": numbers(new.weight), "was": numbers(old.weight)}
        u.remove_weight_norm(old)
        found.update({k: numbers(v) for k, v in old.state_dict().items()})
        spectral = u.spectral_norm(lib.nn.Linear(3, 4))
        spectral(lib.ones(1, 3))
        found["metadata"] = dict(spectral.state_dict()._metadata[""])
        u.remove_spectral_norm(spectral)
        found.update({"s" + k: numbers(v) for k, v in spectral.state_dict().items()})
        for remove in (u.remove_weight_norm, u.remove_spectral_norm):
            with pytest.raises(ValueError, match="not found in"):
                remove(old)
        u.weight_norm(old), u.spectral_norm(spectral)
        with pytest.raises(RuntimeError, match="two weight_norm hooks"):
            u.weight_norm(old)
        with pytest.raises(RuntimeError, match="two spectral_norm hooks"):
            u.spectral_norm(spectral)
        return found

    agree(run)


def symmetric(lib):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x):
            return x.triu()

    return Symmetric()


def test_registering_assigning_removing():
    def run(lib):
        lib.manual_seed(0)
        z = lib.nn.utils.parametrize
        layer = lib.nn.Linear(3, 3)
        kind, weight = type(layer), layer.weight
        found = {"before": z.is_parametrized(layer)}
        assert z.register_parametrization(layer, "weight", symmetric(lib)) is layer
        assert layer.parametrizations.weight.original is weight
        z.register_parametrization(layer, "weight", lib.nn.Tanh())
        z.register_parametrization(layer, "bias", lib.nn.Sigmoid())
        found.update(everything(lib, layer, lib.randn(2, 3)))
        found["type"] = type(layer).__name__, z.type_before_parametrizations(layer) is kind
        found["is"] = [z.is_parametrized(layer, n) for n in ("weight", "bias", "other", None)]
        twin = copy.deepcopy(layer)
        with z.cached():
            assert layer.weight is layer.weight
        assert layer.weight is not layer.weight
        with pytest.raises(RuntimeError, match="does not implement right_inverse"):
            layer.weight = lib.ones(3, 3)
        z.remove_parametrizations(layer, "weight")
        z.remove_parametrizations(layer, "bias", leave_parametrized=False)
        assert layer.weight is weight and type(layer) is kind
        found["weight"], found["bias"] = numbers(layer.weight), numbers(layer.bias)
        if lib is rushlight:  # in PyTorch the copy has lost its property
            assert z.is_parametrized(twin, "weight")
        other = lib.nn.Linear(3, 3)
        z.register_parametrization(other, "weight", symmetric(lib))
        other.weight = lib.arange(9.0).reshape(3, 3)
        found["assigned"] = numbers(other.weight)
        target = lib.nn.Linear(3, 3)
        z.transfer_parametrizations_and_params(other, target)
        found["moved"] = numbers(target.weight)
        with pytest.raises(RuntimeError, match="only supported through state_dict"):
            import pickle

            pickle.dumps(other)
        return found

    agree(run)


def test_two_originals():
    def run(lib):
        class Product(lib.nn.Module):
            def forward(self, a, b):
                return a @ b

            def right_inverse(self, x):
                return x[:, :1].clone(), x[:1].clone()

        lib.manual_seed(0)
        z = lib.nn.utils.parametrize
        layer = lib.nn.Linear(3, 4)
        z.register_parametrization(layer, "weight", Product())
        found = everything(lib, layer, lib.randn(2, 3))
        with pytest.raises(ValueError, match="Cannot leave unparametrized"):
            z.remove_parametrizations(layer, "weight", leave_parametrized=False)
        z.remove_parametrizations(layer, "weight")
        found["weight"] = numbers(layer.weight)
        found["parameters"] = [n for n, _ in layer.named_parameters()]
        return found

    agree(run)


@pytest.mark.parametrize(
    "forward, inverse, name",
    [
        (lambda x: x.double(), None, "weight"),
        (lambda x: x[0], None, "weight"),
        (lambda x: "text", None, "weight"),
        (lambda x: x, lambda x: x.double(), "weight"),
        (lambda x: x, lambda x: 3, "weight"),
        (lambda x: x, lambda x: [x, "a"], "weight"),
        (lambda x: x, None, "absent"),
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_refused_parametrizations(forward, inverse, name, second):
    def run(lib):
        class Bad(lib.nn.Module):
            def forward(self, *x):
                return forward(*x)

        if inverse is not None:
            Bad.right_inverse = lambda self, x: inverse(x)
        z = lib.nn.utils.parametrize
        layer = lib.nn.Linear(2, 2)
        if second:
            z.register_parametrization(layer, "weight", symmetric(lib))
        before = {k: numbers(v) for k, v in layer.state_dict().items()}
        with pytest.raises(ValueError) as caught:
            z.register_parametrization(layer, name, Bad())
        assert list(before) == list(layer.state_dict())
        return {"error": type(caught.value)}

    agree(run)


# -- pruning ---------------------------------------------------------------------------------------

PRUNERS = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "random": lambda p, m: p.random_unstructured(m, "weight", 0.3),
    "random, count": lambda p, m: p.random_unstructured(m, "weight", 4),
    "l1": lambda p, m: p.l1_unstructured(m, "weight", 0.4),
    "nothing": lambda p, m: p.l1_unstructured(m, "weight", 0),
    "random rows": lambda p, m: p.random_structured(m, "weight", 0.5, 0),
    "l2 columns": lambda p, m: p.ln_structured(m, "weight", 1, 2, 1),
    "l1 rows": lambda p, m: p.ln_structured(m, "weight", 0.4, 1, -2),
    "inf": lambda p, m: p.ln_structured(m, "weight", 1, float("inf"), 0),
}


@pytest.mark.parametrize("layer", ["linear", "conv"])
@pytest.mark.parametrize("first", PRUNERS)
@pytest.mark.parametrize("second", [None, "l1", "l2 columns", "random", "mask"])
def test_pruning(layer, first, second):
    make, shape = LAYERS[layer]

    def run(lib):
        lib.manual_seed(0)
        p = lib.nn.utils.prune
        module = PRUNERS[first](p, make(lib.nn))
        if second == "mask":
            mask = lib.ones_like(module.weight)
            mask[0] = 0
            p.custom_from_mask(module, "weight", mask)
        elif second:
            PRUNERS[second](p, module)
        found = {"is": p.is_pruned(lib.nn.Sequential(module))}
        hooks = list(module._forward_pre_hooks.values())
        found["hooks"] = [type(h).__name__ for h in hooks]
        found.update(everything(lib, module, lib.randn(shape)))
        p.remove(module, "weight")
        found["is not"] = p.is_pruned(module)
        found.update({"after " + k: numbers(v) for k, v in module.state_dict().items()})
        return found

    agree(run)


def test_global_pruning():
    def run(lib):
        lib.manual_seed(0)
        p = lib.nn.utils.prune
        net = lib.nn.Sequential(lib.nn.Linear(4, 5), lib.nn.ReLU(), lib.nn.Linear(5, 2))
        names = [(net[0], "weight"), (net[2], "weight"), (net[2], "bias")]
        p.l1_unstructured(net[0], "weight", 2)
        p.global_unstructured(names, pruning_method=p.L1Unstructured, amount=0.3)
        p.global_unstructured(
            names[:2],
            pruning_method=p.RandomUnstructured,
            importance_scores={names[0]: lib.rand(5, 4)},
            amount=3,
        )
        found = {k: numbers(v) for k, v in net.state_dict().items()}
        found["out"] = numbers(net(lib.randn(3, 4)))
        t = lib.arange(6.0).reshape(2, 3)
        found["pruned"] = numbers(p.L1Unstructured(3).prune(t))
        found["by scores"] = numbers(p.L1Unstructured(3).prune(t, importance_scores=-t + 10))
        with pytest.raises(TypeError, match="Only .unstructured. PRUNING_TYPE"):
            p.global_unstructured(names, pruning_method=p.LnStructured, amount=1, n=1)
        return found

    agree(run)


@pytest.mark.parametrize(
    "call",
    [
        lambda p, m: p.l1_unstructured(m, "weight", -0.1),
        lambda p, m: p.l1_unstructured(m, "weight", 1.1),
        lambda p, m: p.l1_unstructured(m, "weight", -1),
        lambda p, m: p.l1_unstructured(m, "weight", 1000),
        lambda p, m: p.l1_unstructured(m, "weight", "a"),
        lambda p, m: p.ln_structured(m, "bias", 1, 2, 0),
        lambda p, m: p.ln_structured(m, "weight", 1, 2, 4),
        lambda p, m: p.remove(m, "weight"),
        lambda p, m: p.custom_from_mask(m, "weight", m.bias),
        lambda p, m: p.PruningContainer().add_pruning_method(3),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_refused_pruning(call, again):
    def run(lib):
        p = lib.nn.utils.prune
        layer = lib.nn.Linear(3, 4)
        if again:
            p.identity(layer, "weight")
        before = sorted(layer.state_dict())
        try:
            call(p, layer)
        except Exception as error:
            assert sorted(layer.state_dict()) == before
            return {"error": type(error).__name__}
        return {"error": None}

    agree(run)


# -- fusion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_fusion(bias, affine, kind):
    def run(lib):
        lib.manual_seed(0)
        nn, u = lib.nn, lib.nn.utils
        if kind == "conv":
            layer, bn, x = nn.Conv2d(2, 4, 3, bias=bias), nn.BatchNorm2d, lib.randn(3, 2, 5, 5)
        elif kind == "transposed":
            layer, bn, x = (
                nn.ConvTranspose2d(2, 4, 3, bias=bias),
                nn.BatchNorm2d,
                lib.randn(3, 2, 5, 5),
            )
        else:
            layer, bn, x = nn.Linear(3, 4, bias=bias), nn.BatchNorm1d, lib.randn(6, 3)
        bn = bn(4, affine=affine or kind == "linear")
        with pytest.raises(AssertionError):
            u.fuse_conv_bn_eval(layer, bn)
        for _ in range(3):
            bn(layer(x))
        layer.eval(), bn.eval()
        if kind == "linear":
            made = u.fuse_linear_bn_eval(layer, bn)
        else:
            made = u.fuse_conv_bn_eval(layer, bn, transpose=kind == "transposed")
        assert lib.allclose(made(x), bn(layer(x)), atol=1e-5)
        return {
            "weight": numbers(made.weight),
            "bias": numbers(made.bias),
            "grad": (made.weight.requires_grad, made.bias.requires_grad),
        }

    agree(run)


def test_same_warning_of_the_older_weight_norm():
    for lib in BOTH:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            lib.nn.utils.weight_norm(lib.nn.Linear(2, 2))
        assert [w.category for w in seen] == [FutureWarning]
        assert "parametrizations.weight_norm" in str(seen[0].message)


def test_weights_in_channels_last_order():
    def run(lib):
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Conv2d(2, 3, 3), lib.nn.Linear(2, 2))
        lib.nn.utils.convert_conv2d_weight_memory_format(net, lib.channels_last)
        return {"stride": net[0].weight.stride(), "weight": numbers(net[0].weight)}

    agree(run)
