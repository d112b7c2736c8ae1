"""`torch.func`: derivatives of functions, vmap, modules as functions."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)  # fmt: skip
from rushlight.testing import assert_close
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

X = torch.tensor([1.0, 2.0, 3.0])


def test_derivatives():
    assert_close(grad(lambda x: x.sin().sum())(X), X.cos())
    assert grad(grad(lambda x: x**3))(torch.tensor(2.0)).item() == 12
    assert_close(jacrev(lambda x: x**2)(X), torch.diag(2 * X))
    assert_close(jacfwd(lambda x: x**2)(X), torch.diag(2 * X))
    assert_close(hessian(lambda x: (x**3).sum())(X), torch.diag(6 * X))
    out, tangent = jvp(torch.sin, (X,), (torch.ones(3),))
    assert_close((out, tangent), (X.sin(), X.cos()))
    out, back = vjp(lambda x, y: (x * y, x + y), X, 2 * X)
    assert_close(back((torch.ones(3), torch.ones(3))), (2 * X + 1, X + 1))
    gradient, (value, aux) = grad_and_value(lambda x: (x.sum(), x * 2), has_aux=True)(X)
    assert_close((gradient, value, aux), (torch.ones(3), torch.tensor(6.0), 2 * X))


def test_results_require_a_gradient_only_where_the_caller_wants_one():
    w = torch.ones(3, requires_grad=True)
    assert not grad(lambda x: (x * x).sum())(X).requires_grad
    assert grad(lambda x: (x * w * x).sum())(X).requires_grad
    grad(lambda x: (x * w * x).sum())(X).sum().backward()
    assert_close(w.grad, 2 * X)
    with torch.no_grad():
        assert not grad(lambda x: (x * w * x).sum())(X).requires_grad


def test_vmap():
    a = torch.arange(6.0).view(2, 3)
    assert_close(vmap(torch.dot)(a, a), (a * a).sum(1))
    assert_close(vmap(lambda x, y: x + y, in_dims=(1, None), out_dims=1)(a, torch.ones(2)), a + 1)
    assert_close(torch.vmap(lambda d: d["x"] * 2)({"x": a})[1], a[1] * 2)
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        vmap(torch.dot)(torch.ones(2, 3), torch.ones(3, 3))


def test_gradients_of_each_sample():
    model = torch.nn.Linear(2, 1)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params, x, y):
        return ((functional_call(model, params, (x,)) - y) ** 2).mean()

    x, y = torch.randn(4, 2), torch.randn(4, 1)
    each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    assert each["weight"].shape == (4, 1, 2)
    assert_close(each["weight"].mean(0), grad(loss)(params, x, y)["weight"])


def test_models_stacked():
    models = [torch.nn.Linear(2, 1) for _ in range(3)]
    params, _ = stack_module_state(models)
    assert params["weight"].shape == (3, 1, 2)
    assert params["weight"].requires_grad
    x = torch.ones(2)
    out = vmap(lambda p: functional_call(models[0], p, (x,)))(params)
    assert_close(out, torch.stack([m(x) for m in models]))


def test_trees():
    tree = {"a": [1, (2, 3)], "b": None}
    leaves, spec = tree_flatten(tree)
    assert leaves == [1, 2, 3, None]
    assert tree_unflatten(leaves, spec) == tree
    assert tree_map(lambda x: x * 2, [1, {"k": 2}]) == [2, {"k": 4}]
    with pytest.raises(ValueError, match="`leaves` has length 2"):
        tree_unflatten([1, 2], spec)


def test_wrong_use():
    with pytest.raises(RuntimeError, match="return a scalar tensor"):
        grad(lambda x: x)(X)
    with pytest.raises(RuntimeError, match="argnum=2"):
        grad(lambda x: x.sum(), argnums=2)(X)


def test_linearize():
    out, jvp_fn = torch.func.linearize(lambda x: {"y": x.sin()}, X)
    assert_close(out["y"], X.sin())
    assert_close(jvp_fn(torch.ones(3))["y"], X.cos())
    assert_close(jvp_fn(2 * X)["y"], 2 * X * X.cos())


def test_batch_norms_replaced():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    assert torch.func.replace_all_batch_norm_modules_(model) is model
    assert model[0].running_mean is None
    assert not model[0].track_running_stats
    assert torch.func.functionalize(torch.sin)(X).shape == X.shape
