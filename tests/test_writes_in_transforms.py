"""Writes inside of function transforms, differentiated from outside: as when the same runs without them."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from rushlight.testing import assert_close

X = torch.tensor([[0.3, -1.2, 0.8], [0.5, 0.1, -0.4]], dtype=torch.float64)


def written(write):
    def program(x):
        y = x * x
        write(y, x)
        return y * y + x

    return program


WRITES = {
    "zero_": lambda y, x: y.zero_(),
    "fill_": lambda y, x: y.fill_(0.5),
    "a slice zero_": lambda y, x: y[1:].zero_(),
    "a slice add_": lambda y, x: y[1:].add_(1),
    "a slice copied": lambda y, x: y[1:].copy_(x[1:] * 2),
    "an element": lambda y, x: y.__setitem__(0, x[1] * 2),
    "masked_fill_": lambda y, x: y.masked_fill_(x > 0.2, 0.5),
    "div_": lambda y, x: y.div_(x.abs() + 1),
    "mul_": lambda y, x: y.mul_(x),
    "sin_": lambda y, x: y.sin_(),
    "pow_": lambda y, x: y.pow_(3),
    "clamp_": lambda y, x: y.clamp_(-0.5, 0.9),
    "hardtanh_": lambda y, x: F.hardtanh_(y),
    "selu_": lambda y, x: torch.selu_(y),
    "index_add_": lambda y, x: y.index_add_(0, torch.tensor([0]), y[:1].clone()),
    "detach_": lambda y, x: y.detach_(),
    "through data": lambda y, x: y.data.mul_(2),
}


@pytest.fixture(params=WRITES, ids=lambda name: name.replace(" ", "_"))
def program(request):
    return written(WRITES[request.param])


def gradient_of(function, x=X):
    x = x.clone().requires_grad_(True)
    total = function(x).sum()
    return torch.autograd.grad(total, x)[0] if total.requires_grad else torch.zeros_like(x)


def test_gradients_from_outside_of_vmap(program):
    want = torch.stack([gradient_of(program, x) for x in X])
    assert_close(gradient_of(vmap(program)), want)
    assert_close(gradient_of(vmap(program, in_dims=1, out_dims=-1), X.mT).mT, want)


def test_gradients_from_outside_of_forward_mode(program):
    x, v = X[0], X[1]
    assert_close(gradient_of(lambda x: jvp(program, (x,), (v,))[0], x), gradient_of(program, x))
    rows = jvp(program, (x,), (v,))[1]
    assert_close(rows, jacrev(program)(x) @ v)
    pulled = gradient_of(lambda x: vjp(program, x)[1](torch.ones_like(x))[0] @ v, x)
    assert_close(gradient_of(lambda x: jvp(program, (x,), (v,))[1], x), pulled)


def test_second_derivatives_agree(program):
    def total(x):
        return program(x).sum()

    want = jacrev(jacrev(total))(X[0])
    for other in (
        hessian(total),
        jacfwd(jacfwd(total)),
        jacrev(jacfwd(total)),
        jacfwd(grad(total)),
    ):
        assert_close(other(X[0]), want)


def test_third_derivatives_agree(program):
    def total(x):
        return program(x).sum()

    want = gradient_of(jacrev(jacrev(total)), X[0])
    for other in (
        hessian(total),
        jacfwd(jacfwd(total)),
        jacrev(jacfwd(total)),
        jacfwd(grad(total)),
    ):
        assert_close(gradient_of(other, X[0]), want)


def test_random_numbers_are_written_over_what_has_a_gradient():
    for write in (lambda y: y.bernoulli_(0.5), lambda y: y.normal_(), lambda y: y.uniform_()):

        def program(x, write=write):
            y = x * x
            write(y)
            return y + x

        found = gradient_of(vmap(program, randomness="different"))
        assert_close(found, torch.ones_like(X))


def test_what_is_written_with_itself_is_differentiated_inside_of_transforms():
    """There a write that reads what it overwrites keeps a copy; outside its backward is refused, as PyTorch's is."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def program(x):
        y = x * 1
        y.mul_(y)
        return y

    assert_close(gradient_of(vmap(program), x), 2 * x)


def test_no_gradient_goes_through_integers_inside_of_vmap():
    x = torch.tensor([[1.5, 2.5]], dtype=torch.float64)
    for function in (
        lambda x: x.int() + x,
        lambda x: x.long().double() * x.detach() + x,
        lambda x: x.to(torch.bool) + x,
    ):
        assert_close(gradient_of(vmap(function), x), torch.ones_like(x))
    assert not torch.ops.aten._to_copy.default(x.requires_grad_(), dtype=torch.int64).requires_grad


def test_calls_that_write_nothing_ask_no_mode(monkeypatch):
    from rushlight.dispatch.captures import Captures

    def asked(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} was asked about")

    monkeypatch.setattr(Captures, "__torch_function__", asked)
    x = torch.tensor([1.0, 2.0])
    assert grad(lambda x: (x * x + x.view(2).exp().relu()).sum())(x).shape == (2,)
    with pytest.raises(AssertionError, match="asked about"):
        grad(lambda x: x.clone().mul_(2).sum())(x)
