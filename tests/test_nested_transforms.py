"""Derivatives of derivatives: every order of forward mode, reverse mode and `vmap` gives the same numbers."""

import itertools

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.func import grad, jvp, linearize, vmap
from rushlight.testing import assert_close


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


A, EYE = numbers(3, 3) + 1, torch.eye(3, dtype=torch.float64)
LABELS = torch.tensor([1, 0, 2])

FUNCTIONS = {
    "exp": lambda x: x.exp().sum(),
    "product": lambda x: (x**3).prod(),
    "matrix product": lambda x: (x @ x.mT).prod(),
    "attention": lambda x: (F.scaled_dot_product_attention(x[None], x[None] * 2, x[None]) ** 2).sum(),
    "cross_entropy": lambda x: F.cross_entropy(x, LABELS),
    "solve": lambda x: torch.linalg.solve(x @ x.mT + 4 * EYE, A).pow(2).sum(),
    "svdvals": lambda x: torch.linalg.svdvals(x + 2 * EYE).pow(3).sum(),
    "max_pool2d": lambda x: (F.max_pool2d(x[None], 2, 1) ** 4).sum(),
    "layer_norm": lambda x: (F.layer_norm(x, (3,)) ** 3).sum(),
    "index": lambda x: (x[[0, 1]] * x[[2, 2]]).prod(),
    "softmax": lambda x: (x.softmax(-1) ** 2).sum(),
}  # fmt: skip

# One more derivative along v: in forward mode, in reverse mode, in forward mode inside of vmap over the tangent or over x.
ALONG = {
    "f": lambda f, v: lambda x: jvp(f, (x,), (v,))[1],
    "r": lambda f, v: lambda x: (grad(f)(x) * v).sum(),
    "v": lambda f, v: lambda x: vmap(lambda u: jvp(f, (x,), (u,))[1])(v[None])[0],
    "x": lambda f, v: lambda x: vmap(lambda y: jvp(f, (y,), (v,))[1])(x[None])[0],
}
DIRECTIONS = numbers(3, 3), numbers(3, 3) * 0.5 + 1, numbers(3, 3).mT.contiguous()


def derivative(function, order):
    for kind, v in zip(order, DIRECTIONS):
        function = ALONG[kind](function, v)
    return function


@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_derivatives_in_every_order(name):
    function, x = FUNCTIONS[name], numbers(3, 3) * 0.5
    want = derivative(function, "rrr")
    tracked = x.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(want(tracked), tracked)
    for order in ["".join(o) for o in itertools.product("fr", repeat=3)] + [
        "fvf",
        "vfr",
        "rxf",
        "xvf",
        "ffx",
    ]:
        found = derivative(function, order)
        assert_close(found(x), want(x), msg=lambda m, o=order: f"{o}: {m}")
        tracked = x.clone().requires_grad_(True)
        outside = torch.autograd.grad(found(tracked), tracked)[0]
        assert_close(outside, slope, msg=lambda m, o=order: f"{o}, from outside: {m}")


@pytest.mark.parametrize(
    "same", [lambda x: x + 1, lambda x: x - 1, lambda x: x + torch.zeros(3), lambda x: x.clone(), lambda x: torch.cat([x])]
)  # fmt: skip
def test_a_write_to_a_result_leaves_the_tangent_of_the_input(same):
    def program(x):
        y = same(x)
        y.mul_(2)
        return x * 1, y

    x = torch.tensor([1.0, 2.0, 3.0])
    _, (of_x, of_y) = jvp(program, (x,), (torch.ones(3),))
    assert_close(of_x, torch.ones(3))
    assert_close(of_y, torch.full((3,), 2.0))


def test_tangents_that_are_expanded_have_views():
    def program(x):
        view = x[1:]
        x.mul_(2)
        return view * 1

    x = torch.tensor([1.0, 2.0, 3.0])
    assert_close(jvp(program, (x.clone(),), (torch.ones(1).expand(3),))[1], torch.full((2,), 2.0))


def test_linearize_does_not_ask_for_gradients_at_zero():
    x, v = numbers(4), numbers(4) + 2
    for function in (lambda x: x.logcumsumexp(0), lambda x: torch.logaddexp2(x, x.logcumsumexp(0))):
        assert_close(linearize(function, x)[1](v), jvp(function, (x,), (v,))[1])


def test_linear_of_vectors_in_batches():
    for shapes in (
        ((2, 4), (2, 4)),
        ((2, 3, 4), (2, 4)),
        ((2, 4), (2, 5, 4)),
        ((2, 3, 4), (2, 5, 4)),
    ):
        x, w = (numbers(*s) for s in shapes)
        assert_close(vmap(F.linear)(x, w), torch.stack([F.linear(a, b) for a, b in zip(x, w)]))


def test_truth_values_as_indices_in_transforms():
    def program(x):
        y = x.clone()
        y[y > 0] = 0.25
        return y * x

    for value in (1.0, -1.0):
        x = torch.tensor(value, dtype=torch.float64)
        assert_close(torch.func.jacfwd(program)(x), torch.func.jacrev(program)(x))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_masked_scatter_of_each_element_of_a_batch():
    def program(x):
        y = x.clone()
        y.masked_scatter_(y > 0.15, x * 2)
        return (y**2).sum()

    x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64)
    assert_close(vmap(grad(program))(x), torch.stack([grad(program)(row) for row in x]))


def test_operators_without_derivatives_say_so_in_forward_mode():
    x = torch.tensor([0.5, 1.5])
    for function in (
        lambda x: torch.heaviside(x, x),
        lambda x: torch.bincount(torch.tensor([1, 0]), x),
    ):
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with aten::"):
            jvp(function, (x,), (x,))
        with pytest.raises(RuntimeError, match="derivative for aten::"):
            grad(lambda x, function=function: function(x).sum())(x)
