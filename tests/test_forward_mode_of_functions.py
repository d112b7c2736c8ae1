"""Forward mode through what users write: custom functions with views and writes, random draws, callbacks of a backward."""

from __future__ import annotations

import gc

import pytest

import rushlight as torch
from rushlight.autograd import forward_ad


def function(forward, jvp, **more):
    body = {"forward": staticmethod(forward), "jvp": staticmethod(jvp)}
    return type("Custom", (torch.autograd.Function,), body | more)


def dual():
    return forward_ad.make_dual(torch.ones(3), torch.ones(3))


def write(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def no_gradient(ctx, x):
    out = x.clone()
    ctx.mark_non_differentiable(out)
    return out


@pytest.mark.parametrize(
    ("forward", "jvp", "words"),
    [
        (
            write,
            lambda ctx, t: t * 2,
            "jvp function must modify the corresponding gradient inplace",
        ),
        (lambda ctx, x: x[:2], lambda ctx, t: t[:2].clone(), "jvp is not returning a view"),
        (lambda ctx, x: x[:2], lambda ctx, t: t.clone()[:2], "a view of the given inputs"),
        (lambda ctx, x: x, lambda ctx, t: t, "a view"),
        (no_gradient, lambda ctx, t: t, "You should return None at that position instead"),
    ],
)
def test_a_jvp_does_to_tangents_what_forward_does(forward, jvp, words):
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=words):
        function(forward, jvp).apply(dual())


@pytest.mark.parametrize(
    ("forward", "jvp", "tangent"),
    [
        (write, lambda ctx, t: t.mul_(2), [2.0] * 3),
        (lambda ctx, x: x[:2], lambda ctx, t: t[:2], [1.0] * 2),
        (lambda ctx, x: x, lambda ctx, t: t.view_as(t), [1.0] * 3),
        (lambda ctx, x: x * 2, lambda ctx, t: t * 2, [2.0] * 3),
    ],
)
def test_what_is_right_passes(forward, jvp, tangent):
    with forward_ad.dual_level():
        got = function(forward, jvp).apply(dual())
        assert forward_ad.unpack_dual(got).tangent.tolist() == tangent


@pytest.mark.parametrize(
    "draw",
    [torch.poisson, torch.bernoulli, lambda x: torch.normal(x, 1.0), lambda x: torch.normal(x, x)],
)
def test_random_draws_have_a_tangent_of_zeros(draw):
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(draw(dual())).tangent.tolist() == [0.0] * 3


def test_an_operator_without_a_derivative_says_so_in_forward_mode():
    with (
        forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="Trying to use forward AD with aten::igamma"),
    ):
        torch.igamma(dual(), dual())


def test_so_does_one_whose_gradient_has_no_derivative():
    def loss(x):
        return torch.nn.functional.ctc_loss(x, torch.tensor([[1]]), (2,), (1,))

    x = torch.randn(2, 1, 3).log_softmax(2)
    for f in (loss, torch.func.grad(loss)):
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with aten::_ctc_l"):
            torch.func.jvp(f, (x,), (x,))


def test_the_level_has_a_number():
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
    assert forward_ad._current_level == -1


def test_callbacks_are_queued_in_the_backward_of_a_custom_function_and_by_others():
    called = []
    queue = torch.autograd.Variable._execution_engine.queue_callback

    def first():
        called.append("first")
        queue(lambda: called.append("second"))

    def backward(ctx, g):
        queue(first)
        return g

    custom = function(lambda ctx, x: x * 1, None, backward=staticmethod(backward))
    x = torch.ones(2, requires_grad=True)
    custom.apply(x).sum().backward()
    assert called == ["first", "second"]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        queue(first)


def test_batched_gradients_have_the_shape_of_the_output_behind_the_batch():
    x = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="we interpret the first dimension of each grad_output"):
        torch.autograd.grad(x * 2, x, torch.ones(2, 2), is_grads_batched=True)


def test_names_of_the_c_module():
    assert torch._C.is_grad_enabled()
    with torch.no_grad():
        assert not torch._C.is_grad_enabled()
    t = torch.ones(1)
    ref = torch._C._WeakTensorRef(t)
    assert not ref.expired()
    del t
    gc.collect()
    assert ref.expired()


def test_what_does_not_depend_on_its_input_has_a_tangent_of_zeros():
    x = torch.tensor([0.0, 1.0, 2.0])
    with forward_ad.dual_level():
        x = forward_ad.make_dual(x, torch.ones(3))
        count = torch.linalg.vector_norm(x, 0)  # how many are not zero
        assert forward_ad.unpack_dual(count).tangent.item() == 0


def test_index_put_of_no_elements_has_a_tangent():
    x, at = torch.ones(5, 0), (torch.tensor([0, 1]),)
    _, t = torch.func.jvp(lambda x: x.index_put(at, torch.ones(2, 0)), (x,), (x,))
    assert t.shape == (5, 0)


@pytest.mark.parametrize("mapped", [False, True])
def test_second_derivatives_of_a_function_that_writes_in_place(mapped):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp_()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(ctx.saved_tensors[0])

        @staticmethod
        def vmap(info, in_dims, x):
            return Exp.apply(x), in_dims[0]

    def f(x):
        return Exp.apply(x.clone())

    x = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64)
    whole = torch.func.vmap(f) if mapped else f
    second = torch.func.hessian(lambda x: whole(x).sum())(x)
    assert torch.allclose(second, torch.diag(x.exp()))
