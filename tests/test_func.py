"""`torch.func`: derivatives of functions, vmap, modules as functions."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.func import (  # fmt: skip
    debug_unwrap,
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
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
    with pytest.raises(RuntimeError, match="return a scalar Tensor"):
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


# -- rearrange -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern, lengths, expected",
    [
        ("a b c -> c a b", {}, lambda x: x.permute(2, 0, 1)),
        ("a b c -> a (b c)", {}, lambda x: x.flatten(1)),
        ("a b (c d) -> a b d c", {"c": 2}, lambda x: x.unflatten(2, (2, 2)).mT),
        ("... c -> c ...", {}, lambda x: x.permute(2, 0, 1)),
        ("a ... -> a (...)", {}, lambda x: x.flatten(1)),
        ("a ... -> (... a)", {}, lambda x: x.permute(1, 2, 0).flatten()),
        ("a b c -> a b c 1", {}, lambda x: x[..., None]),
        ("a b c -> a () b c", {}, lambda x: x[:, None]),
        ("a b c->(a b) c", {}, lambda x: x.flatten(0, 1)),
        ("a (b0 b1) c -> a b1 (c b0)", {"b0": 1}, lambda x: x),
    ],
)
def test_rearrange(pattern, lengths, expected):
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.equal(torch.func.rearrange(x, pattern, **lengths), expected(x))


def test_rearrange_of_lists_and_numbers():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.func.rearrange([x, x], "n a b -> a (n b)"), torch.cat([x, x], 1))
    assert torch.func.rearrange(torch.tensor(1.0), "-> 1 1").shape == (1, 1)
    assert torch.func.rearrange(torch.ones(2, 0), "a (b c) -> b a c", c=3).shape == (0, 2, 3)
    y = x.clone().requires_grad_()
    torch.func.rearrange(y, "a b -> b a").sum().backward()
    assert y.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    "pattern, lengths, message",
    [
        ("a b -> a b", {}, "Number of dimensions in pattern"),
        ("a b c -> a b", {}, "only on one side"),
        ("a b c -> a b c d", {"d": 2}, "only on one side"),
        ("a a c -> a c", {}, "duplicate dimension"),
        ("a b (c d) -> a b c d", {}, "two dimensions at once"),
        ("a b (c d) -> a b c d", {"c": 3}, "does not evenly fit"),
        ("a b c -> a b c", {"a": 3}, "does not evenly fit"),
        ("a b c -> a b c", {"e": 3}, "not found"),
        ("a 1 c -> a c", {}, "does not evenly fit"),
        ("a b c", {}, "single '->'"),
        ("a b c -> (a (b c))", {}, "one-level"),
        ("a b c -> a b c)", {}, "not balanced"),
        ("a b c -> (a b c", {}, "not balanced"),
        ("a b 4 -> a b", {}, "size 1"),
        ("a b c -> a b _c", {}, "Invalid axis identifier"),
        ("... ... -> ...", {}, "only one ellipsis"),
        ("a b c -> ... a b c", {}, "Ellipsis found in right side"),
        ("a (b ...) -> a b ...", {}, "parenthesis in the left side"),
    ],
)
def test_rearrange_refuses(pattern, lengths, message):
    with pytest.raises(ValueError, match=message):
        torch.func.rearrange(torch.zeros(2, 3, 4), pattern, **lengths)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + torch.randn(()),
        lambda x: x + torch.randn(20),
        lambda x: torch.nn.functional.dropout(x + 1),
        lambda x: x + torch.randperm(20),
        lambda x: x + torch.rand(20, generator=torch.default_generator),
    ],
)
def test_random_numbers_under_vmap(draw):
    """An error, the same for each element, or others for each, as the caller says."""
    x = torch.zeros(4, 20)
    torch.manual_seed(0)
    torch.randn(())  # its second half waits in the generator
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw)(x)
    state = torch.get_rng_state()
    same = vmap(draw, randomness="same")(x)
    assert torch.equal(same, same[:1].expand_as(same))
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    assert torch.equal(draw(x[0]), same[0]) and torch.equal(torch.get_rng_state(), after)
    different = vmap(draw, randomness="different")(x)
    assert not torch.equal(different[0], different[1])
    assert torch.equal(vmap(lambda x: x * 2)(x), x)
    torch.rand(1)  # outside of vmap again


def test_randomness_is_checked():
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        vmap(torch.sin, randomness="none")
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.func.jacfwd(lambda x: x * torch.rand(2))(torch.ones(2))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        inner = vmap(lambda x: x + torch.rand(1), randomness="different")
        vmap(inner)(torch.ones(2, 3))


def test_functional_call_replaces_plain_attributes():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.n, self.inner = torch.ones(2), 3, torch.nn.Linear(2, 2)

        def forward(self, y):
            return self.x * y

    module, y = Scaled(), torch.ones(2)
    assert functional_call(module, {"x": torch.full((2,), 5.0)}, (y,)).tolist() == [5, 5]
    assert module.x.tolist() == [1, 1]
    functional_call(module, {"inner.new": y}, (y,))
    assert not hasattr(module.inner, "new")
    for wrong, error in (
        ({"n": y}, TypeError),
        ({"x": 3}, TypeError),
        ({"no.x": y}, AttributeError),
    ):
        with pytest.raises(error):
            functional_call(module, wrong, (y,))


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd])
def test_argnums_are_checked(transform):
    def f(x, y):
        return x * y

    one = torch.tensor(1.0)
    for argnums, message in (
        ((), "must be non-empty"), ((0, 0), "must be unique"), ((0, -2), "must be unique"),
        (0.0, "must be int or Tuple"), ([0], "must be int or Tuple"), ((1, 0.0), "must be int"),
        (2, "only 2 positional inputs"), (-3, "only 2 positional inputs"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            transform(f, argnums=argnums)(one, one)


@pytest.mark.parametrize("transform", [lambda f, **k: vjp(f, X, **k), lambda f, **k: jvp(f, (X,), (X,), **k),
                                       lambda f, **k: jacrev(f, **k)(X), lambda f, **k: jacfwd(f, **k)(X)])  # fmt: skip
def test_results_must_be_tensors(transform):
    with pytest.raises(RuntimeError, match="non-empty output"):
        transform(lambda x: ())
    with pytest.raises(RuntimeError, match="to return only tensors"):
        transform(lambda x: (x, 1.0))
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
        transform(lambda x: (x, [x, 1.0]), has_aux=True)


def test_forward_mode_is_of_floating_point_numbers():
    x = torch.arange(3)
    for call in (
        lambda: jvp(torch.sum, (x,), (x,)),
        lambda: jvp(torch.sum, (x,), (x.double(),)),
        lambda: jacfwd(torch.sum)(x),
        lambda: torch.func.hessian(torch.sum)(x),
    ):
        with pytest.raises(
            ValueError, match="primal to be floating point or complex, but got: torch.int64"
        ):
            call()
    with pytest.raises(
        ValueError, match="tangent to be floating point or complex, but got: torch.int64"
    ):
        jvp(torch.sum, (X,), (x,))
    with pytest.raises(RuntimeError, match=r"numpy\(\) is not implemented inside of a transform"):
        vmap(lambda a: a.numpy())(X)


def test_jacobians_are_of_real_numbers():
    z = X + 1j
    for transform in (jacrev, jacfwd):
        with pytest.raises(RuntimeError, match="Expected all inputs to be real"):
            transform(lambda x: x.real)(z)
        with pytest.raises(RuntimeError, match="Expected all outputs to be real"):
            transform(lambda x: x + 1j)(X)


def test_transforms_refuse_hooks_on_saved_tensors():
    def inside(x):
        with torch.autograd.graph.save_on_cpu():
            return x.sin().sum()

    for transform in (
        grad(inside),
        lambda x: vjp(inside, x),
        jacrev(inside),
        lambda x: jvp(inside, (x,), (x,)),
    ):
        with pytest.raises(RuntimeError, match="saved tensor hooks"):
            transform(X)
    with (
        torch.autograd.graph.save_on_cpu(),
        pytest.raises(RuntimeError, match="saved tensor hooks"),
    ):
        grad(torch.sum)(X)
    with torch.autograd.graph.save_on_cpu():
        assert X.sin().sum().item() == inside(X).item()


def test_linearize_checks_tangents():
    value, product = linearize(torch.sin, X)
    assert_close((value, product(2 * X)), (X.sin(), 2 * X * X.cos()))
    for tangent, message in (
        ((X, X), "to have the same argspec"), (X[None], "doesn't match the shape"), (X.double(), "doesn't match the dtype"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            product(tangent)


def test_unwrapped_tensors_are_for_looking():
    seen = []
    vmap(vmap(lambda x: seen.extend([debug_unwrap(x), debug_unwrap(x, recurse=False)]) or x))(
        X[None]
    )
    assert_close(seen[0], X[None])
    assert debug_unwrap(X) is X and seen[1].shape != seen[0].shape


def test_stacked_modules_agree_on_what_requires_a_gradient():
    models = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
    models[1].bias.requires_grad_(False)
    with pytest.raises(RuntimeError, match="same .requires_grad"):
        stack_module_state(models)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessians_by_all_ways_agree(strategy):
    from rushlight.autograd import functional

    x, y = X.sin().reshape(1, 3), torch.arange(6.0).cos().reshape(3, 2)

    def f(x, y):
        return ((x.relu() * x) @ y.sin()).relu().sum() + x.prod()

    expected = functional.hessian(f, (x, y))
    assert_close(hessian(f, (0, 1))(x, y), expected)
    assert_close(jacrev(jacrev(f, (0, 1)), (0, 1))(x, y), expected)
    assert_close(jacrev(jacfwd(f, (0, 1)), (0, 1), chunk_size=1)(x, y), expected)
    got = functional.hessian(f, (x, y), vectorize=True, outer_jacobian_strategy=strategy)
    assert_close(got, expected)
    assert not any(t.requires_grad for t in tree_flatten(got)[0])
    of_one = functional.hessian(
        lambda x, y: (x**2).sum(), (x, y), vectorize=True, outer_jacobian_strategy=strategy
    )
    assert_close(of_one[0][0].reshape(3, 3), 2 * torch.eye(3))
    assert not of_one[1][1].any()


def test_gradients_of_custom_operators_and_distributions():
    @torch.library.custom_op("test_func::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_autograd(lambda ctx, g: g * 2)
    assert_close(grad(lambda x: twice(x).sum())(X), torch.full((3,), 2.0))
    assert grad(lambda x: torch.distributions.Dirichlet(x).rsample()[0])(X).shape == (3,)


@pytest.mark.filterwarnings("ignore:We've integrated functorch:FutureWarning")
def test_modules_with_their_state_taken_out():
    """`functorch`, the older package: modules that are called with their parameters, alone and stacked."""
    from rushlight.compat import functorch

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.weight = self.linear.weight
            self.register_buffer("shift", torch.randn(3))

        def forward(self, x):
            return self.linear(x) @ self.weight + self.shift

    models, x = [Tied() for _ in range(2)], torch.randn(4, 3)
    call, params, buffers = functorch.make_functional_with_buffers(models[0])
    assert [p.shape for p in params] == [(3, 3), (3,)] and len(buffers) == 1
    assert_close(call(params, buffers, x), models[0](x))
    assert_close(
        call([p * 2 for p in params], buffers, x)[0],
        (4 * (models[0](x) - buffers[0]) + buffers[0])[0],
    )
    with pytest.raises(RuntimeError, match="has buffers"):
        functorch.make_functional(models[0])
    stacked = functorch.combine_state_for_ensemble(models)
    assert_close(
        vmap(stacked[0], (0, 0, None))(*stacked[1:], x), torch.stack([m(x) for m in models])
    )
    frozen = functorch.make_functional(models[0].linear, disable_autograd_tracking=True)[1]
    assert not any(p.requires_grad for p in frozen)
    weights, of_buffers, call, names, _ = functorch.functional_init_with_buffers(Tied, (2,))()
    assert weights[0].shape == (2, 3, 3) and names == ("weight", "linear.bias")
    assert vmap(call, (0, 0, None))(weights, of_buffers, (x,)).shape == (2, 4, 3)
    with pytest.warns(FutureWarning, match="use `torch.func.grad`"):
        functorch.grad(torch.sin)


def test_gradients_are_recorded_where_somebody_outside_wants_them():
    """Second derivatives through captured tensors, batches, tangents and `vjp` functions that are called later."""
    w, x, v = torch.tensor(1.5, requires_grad=True), torch.tensor([0.3, 0.7]), torch.ones(2)

    def f(x):
        return (w * x).sin().sum()

    def by_w(of):
        return torch.autograd.grad(of.sum(), w)[0]

    expected = ((w * x).cos() - w * x * (w * x).sin()).sum().detach()
    assert_close(by_w(grad(f)(x)), expected)
    assert_close(by_w(vmap(grad(lambda a: (w * a).sin()))(x)), expected)
    assert_close(by_w(vmap(grad(lambda a, b: (b * a).sin()), (0, None))(x, w)), expected)
    assert_close(by_w(jvp(f, (x,), (v,))[1]), expected)
    assert_close(by_w(jacrev(lambda a: (w * a).sin())(x)), expected)
    assert_close(by_w(vjp(f, x)[1](torch.ones(()))[0]), expected)
    value, call = vjp(lambda a: a.sin(), x)
    assert_close(by_w(call(w * v)[0]), x.cos().sum())
    # a tangent with a history: of the product of the Hessian with it
    assert_close(by_w(jvp(grad(lambda a: (a**3).sum()), (x,), (w * v,))[1]), (6 * x).sum())
    with torch.no_grad():
        assert not grad(f)(x).requires_grad
    assert not grad(lambda a: (a**2).sum())(x).requires_grad
    assert grad(lambda b: grad(lambda a: (a * b) ** 3)(b))(torch.tensor(2.0)).item() == 15 * 2**4


@pytest.mark.parametrize("transform", [grad, vmap, lambda f: lambda x: jvp(f, (x,), (x,))])
def test_what_autograd_alone_knows_is_refused_inside(transform):
    def backward(x):
        X.clone().sum().backward()
        return x.sum()

    with pytest.raises(RuntimeError, match=r"Tensor.requires_grad_\(\)"):
        transform(lambda x: x.requires_grad_().sum())(X)
    with pytest.raises(RuntimeError, match="autograd.functional"):
        transform(lambda x: torch.autograd.functional.jacobian(torch.sin, x).sum())(X)
    with pytest.raises(RuntimeError, match=r"Tensor.retain_grad\(\)"):
        transform(lambda x: x.sin().retain_grad())(X)
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside"):
        transform(backward)(X)
    assert X.clone().requires_grad_().requires_grad  # nothing is left of it


def test_tensors_inside_show_their_transforms():
    seen = []

    def f(x):
        seen.append(repr(x * 1).replace("\n", "").replace(" ", ""))
        return x.sum()

    grad(lambda x: grad(f)(x).sum())(X)
    vmap(grad(f))(X.reshape(1, 3))
    grad(lambda x: vmap(f)(x).sum())(X.reshape(1, 3))
    jvp(f, (X,), (X,))
    vjp(lambda y: (f(X), y)[1], X)
    values = "tensor([1.,2.,3.])"
    row = "tensor([[1.,2.,3.]])"
    assert seen == [
        f"GradTrackingTensor(lvl=2,value=GradTrackingTensor(lvl=1,value={values}))",
        f"GradTrackingTensor(lvl=2,value=BatchedTensor(lvl=1,bdim=0,value={row}))",
        f"BatchedTensor(lvl=2,bdim=0,value=GradTrackingTensor(lvl=1,value={row}))",
        f"GradTrackingTensor(lvl=1,value={values})",
        values,
    ]


def test_functions_with_default_arguments():
    class Chosen(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, k=1):
            return x[k] * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.k = inputs
            ctx.shape = x.shape

        @staticmethod
        def backward(ctx, g):
            r = g.new_zeros(ctx.shape)
            r[ctx.k] = 2 * g
            return r, None

    assert_close(grad(Chosen.apply)(X), torch.tensor([0.0, 2.0, 0.0]))
    assert_close(grad(lambda x: Chosen.apply(x, 2))(X), torch.tensor([0.0, 0.0, 2.0]))


def test_jacobian_of_one_number():
    w = torch.tensor(2.0, requires_grad=True)
    one = jacrev(lambda x: (w * x).sin().sum())(X)
    assert_close(one, w * (w * X).cos())
    assert_close(torch.autograd.grad(one.sum(), w)[0], grad(lambda w: (w * (w * X).cos()).sum())(w))
    row, (kept, _) = jacrev(lambda x: ((x * x).sum().reshape(1, 1), (x, x)), has_aux=True)(X)
    assert row.shape == (1, 1, 3) and not kept.requires_grad
    assert_close(hessian(lambda x: (x**3).sum())(X), torch.diag(6 * X))


class Total(torch._ops.HigherOrderOperator):
    """A sum over a dimension, which notes the parts that were asked."""

    def __init__(self):
        super().__init__("total")
        self.asked = []

    def __call__(self, x, dim):
        return super().__call__(x, dim)


def total():
    op = Total()

    @op.py_impl(torch._C.DispatchKey.AutogradCPU)
    def plain(x, dim):
        op.asked.append("plain")
        return x.sum(dim)

    @op.py_impl(torch._C._functorch.TransformType.Vmap)
    def mapped(interpreter, x, dim):
        op.asked.append("mapped")
        with interpreter.lower():
            result = op(torch._C._functorch.get_unwrapped(x), dim + 1)
        return torch._C._functorch._add_batch_dim(result, 0, interpreter.level())

    return op


def test_operators_with_parts_for_transforms():
    op, x = total(), torch.randn(2, 3, 4)
    assert_close(op(x, 1), x.sum(1))
    assert_close(vmap(op, (0, None))(x, 0), x.sum(1))
    assert_close(vmap(vmap(op, (0, None)), (0, None))(x, 0), x.sum(2))
    assert op.asked == ["plain", "mapped", "plain", "mapped", "mapped", "plain"]
    v = torch.randn(2, 3)
    assert_close(vmap(grad(lambda x: op(x.sin(), 0)))(v), v.cos())
    assert_close(grad(lambda x: vmap(op, (0, None))(x.sin(), 0).sum())(v), v.cos())
    assert_close(jvp(lambda x: op(x.sin(), 0), (v,), (v,))[1], (v.cos() * v).sum(0))


def test_operators_with_parts_for_autograd_and_modes():
    keys, op = torch._C.DispatchKey, Total()
    with pytest.raises(
        NotImplementedError, match="could not find kernel for HigherOrderOperator total"
    ):
        op(torch.ones(2), 0)

    @op.py_autograd_impl
    def recorded(x, dim):
        op.asked.append("autograd")
        with torch._C._AutoDispatchBelowAutograd():
            return op(x, dim)

    @op.py_impl(keys.CompositeExplicitAutograd)
    def plain(x, dim):
        return x.sum(dim)

    assert op(torch.ones(2), 0).item() == 2
    assert op.asked == ["autograd"]
    with pytest.raises(RuntimeError, match="Trying to override a python impl"):
        op.py_impl(keys.CompositeExplicitAutograd)(plain)

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.raises(NotImplementedError, match="supports_higher_order_operators"):
        op(torch.ones(2), 0)
    op.py_impl(Mode)(lambda mode, x, dim: op(x, dim) + 1)
    with Mode():
        assert op(torch.ones(2), 0).item() == 3


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b.view(1, 2),
        lambda b: b.reshape(2, 1),
        lambda b: b.unsqueeze(0).expand(4, 2),
        lambda b: b[:1],
        lambda b: b.diag(),
        lambda b: torch.func.jvp(
            lambda q: torch.nn.functional.linear(torch.ones(3, 4), torch.ones(2, 4), q), (b,), (b,)
        )[1],
    ],
)
def test_forward_over_reverse_through_views(view):
    def loss(b):
        return (view(b) ** 3).sum()

    b, one = torch.tensor([1.0, 2.0]), torch.ones(2)
    _, moved = torch.func.jvp(torch.func.grad(loss), (b,), (one,))
    assert torch.equal(moved, torch.func.jacrev(torch.func.grad(loss))(b) @ one)
    assert moved.any()
    assert torch.equal(torch.func.hessian(loss)(b), torch.func.jacrev(torch.func.jacrev(loss))(b))


def test_transforms_refuse_what_has_no_derivatives():
    for f in (grad(torch.sum), jacrev(torch.sum), lambda x: vjp(torch.sum, x)):
        with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require"):
            f(torch.arange(3))
        with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor"):
            f(3.0)
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'NoneType'>"):
        vmap(lambda x: None)(X)
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        vmap(lambda x: x if x.sum() > 0 else -x)(X)


def test_batched_gradients_of_what_is_not_reached():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = torch.autograd.grad(
        x * 2, (y, x), torch.eye(2), is_grads_batched=True, allow_unused=True
    )
    assert found[0] is None
    assert found[1].tolist() == [[2.0, 0.0], [0.0, 2.0]]
