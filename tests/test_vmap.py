"""`vmap`: operators on batches, what it refuses, and what stays outside of it."""

from __future__ import annotations

import functools
import warnings

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._C import _functorch
from rushlight.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from rushlight.testing import assert_close

X = torch.arange(15.0).reshape(3, 5).sin()


def gradients(f, *args):
    """The gradients of the sum of f by the mapped arguments: by one call, and in a loop."""

    def one(*args):
        value, back = vjp(f, *args)
        return back(torch.ones_like(value))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = vmap(one)(*args)
    each = [one(*row) for row in zip(*args, strict=True)]
    return got, tuple(torch.stack(list(column)) for column in zip(*each, strict=True))


def test_gradients_of_functions_that_are_written_in_operators():
    A, B = X[:, :4].reshape(3, 2, 2) + 3 * torch.eye(2), X[:, :2]
    assert_close(*gradients(lambda a, b: torch.linalg.solve_ex(a, b).result, A, B))
    assert_close(*gradients(torch.linalg.solve, A, B))
    assert_close(*gradients(lambda a, b: torch.linalg.solve(a, b, left=False), A, A + 1))
    rows = torch.tensor([[0, 1], [2, 2]])
    for mode in ("sum", "mean", "max"):
        assert_close(
            *gradients(lambda w, m=mode: F.embedding_bag(rows, w, mode=m), X.reshape(3, 5, 1))
        )


def test_functions_that_look_at_values():
    x = X.clone()
    x[0, 1] = torch.nan
    assert_close(
        vmap(lambda v: v.nanquantile(0.3))(x), torch.stack([v.nanquantile(0.3) for v in x])
    )
    target = torch.tensor([3, 0, -1, 1, 2])
    assert_close(*gradients(lambda v: F.multilabel_margin_loss(v, target), X))
    slopes = vmap(lambda v: F.rrelu(v, 0.2, 0.4, training=True), randomness="different")(X) / X
    assert (
        (slopes[X > 0] == 1).all()
        and (slopes[X < 0] < 0.4001).all()
        and (slopes[X < 0] > 0.1999).all()
    )
    assert len(slopes[X < 0].unique()) > 1


@pytest.mark.parametrize(
    "make",
    [
        torch.zeros_like, torch.empty_like, lambda v: torch.full_like(v, 2), lambda v: v.new_zeros(5),
        lambda v: v.new_ones(5), lambda v: v.new_full((5,), 3), lambda v: v.new_empty_strided((5,), (1,)),
    ],
)  # fmt: skip
def test_new_tensors_like_a_mapped_one_can_be_written_to(make):
    assert_close(vmap(lambda v: make(v).copy_(v))(X), X)
    assert_close(
        vmap(vmap(lambda a, b: make(a + b).copy_(a + b), (None, 0)), (0, None))(X, X),
        X[:, None] + X,
    )
    assert_close(jacfwd(lambda v: make(v).copy_(v))(X[0]), torch.eye(5))
    assert_close(vmap(grad(lambda y, v: make(v).copy_(y).sum()))(X, X), torch.ones_like(X))
    assert_close(vmap(lambda v: jvp(lambda w: make(w).copy_(w), (v,), (2 * v,))[1])(X), 2 * X)


def test_the_loop_can_be_forbidden():
    f = vmap(lambda v: torch.histc(v, 3, -1, 1))
    with pytest.warns(UserWarning, match="aten::histc"):
        assert_close(f(X), torch.stack([torch.histc(v, 3, -1, 1) for v in X]))
    target = torch.tensor([3, 0, -1, 1, 2])
    _functorch._set_vmap_fallback_enabled(False)
    try:
        assert not _functorch._is_vmap_fallback_enabled()
        with pytest.raises(RuntimeError, match="vmap fallback which is currently disabled"):
            vmap(lambda v: F.multilabel_margin_loss(v, target))(X)
    finally:
        _functorch._set_vmap_fallback_enabled(True)


def test_levels_are_numbered_from_the_outermost():
    seen = []

    def inner(v):
        seen.append((_functorch.maybe_get_level(v), str(v)))
        return v

    vmap(vmap(inner))(X)
    assert seen[0][0] == 2 and seen[0][1].startswith("BatchedTensor(lvl=2")
    vmap(inner)(X)
    assert seen[1][0] == 1
    assert _functorch.maybe_get_level(X) == -1 and not _functorch.is_batchedtensor(X)


def test_chunks_draw_the_same_numbers():
    f = vmap(lambda v: v + torch.rand(5), randomness="same", chunk_size=1)
    drawn = f(X) - X
    assert_close(drawn[1], drawn[0])


def test_random_numbers_of_mapped_parameters_need_a_randomness():
    p = X.abs()
    for draw in (torch.bernoulli, lambda v: torch.multinomial(v, 2), lambda v: torch.normal(v, 1.0),
                 lambda v: torch.zeros(5).bernoulli_(v)):  # fmt: skip
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(draw)(p)


# -- custom functions ------------------------------------------------------------------------------


class Cubes(torch.autograd.Function):
    """x³ y with gradients that are wrong by 10 for y, so that one sees whose they are; and x."""

    @staticmethod
    def forward(x, y):
        return x**3 * y, x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.power = 3

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * ctx.power * x**2 * y + h, g * x**3 * 10

    @staticmethod
    def jvp(ctx, t, u):
        x, y = ctx.saved_tensors
        return ctx.power * x**2 * t * y + x**3 * u * 10, t * 1


class Generated(Cubes):
    generate_vmap_rule = True


class Mapped(Cubes):
    @staticmethod
    def vmap(info, in_dims, x, y):
        assert info.batch_size == 3 and info.randomness == "error" and in_dims == (0, None)
        return Mapped.apply(x, y), (0, 0)


@pytest.mark.parametrize("cls", [Generated, Mapped])
def test_custom_functions_are_mapped_and_differentiated(cls):
    x, y = torch.tensor([1.0, 2, 3]), torch.tensor(2.0)

    def f(x, y):
        return sum(cls.apply(x, y)).sum()

    each = vmap(f, (0, None))
    assert_close(each(x, y), x**3 * y + x)
    by_x, by_y = 3 * x**2 * y + 1, 10 * x**3
    assert_close(vmap(grad(f, (0, 1)), (0, None))(x, y), (by_x, by_y))
    assert_close(grad(lambda x, y: each(x, y).sum(), (0, 1))(x, y), (by_x, by_y.sum()))
    tangent = by_x * x + by_y * y
    assert_close(jvp(each, (x, y), (x, y))[1], tangent)
    assert_close(vmap(lambda x: jvp(f, (x, y), (x, y))[1])(x), tangent)
    second = torch.diag(6 * x * y)
    assert_close(hessian(lambda x: f(x, y))(x), second)
    assert_close(jacfwd(jacrev(lambda x: f(x, y)))(x), second)
    assert_close(vmap(grad(grad(lambda x: f(x, y))))(x), 6 * x * y)
    assert_close(jacrev(lambda x: each(x, y))(x), torch.diag(by_x))


def test_custom_functions_that_cannot_be_transformed():
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Both(Mapped):
        generate_vmap_rule = True

    class OneReturn(Cubes):
        @staticmethod
        def vmap(info, in_dims, x, y):
            return x

    class OtherDims(Cubes):
        @staticmethod
        def vmap(info, in_dims, x, y):
            return x, (0, 0)

    class NoTangent(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    x = torch.ones(3)
    for call in (
        vmap(Old.apply), jacfwd(Old.apply), jacrev(Old.apply), lambda x: jvp(Old.apply, (x,), (x,)),
        lambda x: vjp(Old.apply, x), grad(Old.apply),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="must override the setup_context"):
            call(x)
    for cls, message in (
        (Cubes, "does not have vmap support"), (Both, "has both generate_vmap_rule=True and"),
        (OneReturn, "to have two returns"), (OtherDims, "returned an incompatible"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            vmap(cls.apply, (0, None))(x, x[0])
    with pytest.raises(NotImplementedError, match="implement the jvp function"):
        jvp(NoTangent.apply, (x,), (x,))
    assert_close(vmap(lambda x: x + NoTangent.apply(torch.ones(())))(x), x + 2)


def test_random_numbers_in_place():
    p = X.abs()
    drawn = vmap(lambda t, v: t.bernoulli_(v), randomness="different")(
        torch.zeros(3, 5), (X > 0).float()
    )
    assert_close(drawn, (X > 0).float())
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        vmap(lambda v: torch.zeros(5).bernoulli_(v), randomness="same")(p)
    with pytest.raises(RuntimeError, match="more elements than `self`"):
        vmap(lambda v: torch.zeros(5).bernoulli_(v), randomness="different")(p)


def test_refusals_of_vmap():
    with pytest.raises(ValueError, match="must be an int, None or a python collection of ints"):
        vmap(torch.sin, out_dims="0")(X)
    with pytest.raises(RuntimeError, match="Batching rule not implemented for aten::abs"):
        vmap(lambda a, b: torch.abs(a, out=b))(X, X.clone())
    kept = []
    vmap(lambda v: kept.append(v) or v)(X)
    with pytest.raises(
        RuntimeError, match="your tensor may have escaped from inside a function being vmapped"
    ):
        kept[0].sin()
    with pytest.raises(ZeroDivisionError):
        vmap(lambda v: vmap(lambda w: 1 / 0)(v))(X)
    assert_close(vmap(torch.sin)(X), X.sin())


def test_running_statistics_must_be_mapped():
    x = X.reshape(3, 5, 1)
    mean, var = torch.zeros(3, 1), torch.ones(3, 1)
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor as input"):
        vmap(lambda v: F.batch_norm(v, torch.zeros(1), torch.ones(1), training=True))(x)
    got = vmap(lambda v, m, s: F.batch_norm(v, m, s, training=True))(x, mean, var)
    wanted = torch.stack([F.batch_norm(v, None, None, training=True) for v in x])
    assert_close(got, wanted)
    assert_close(mean[:, 0], 0.1 * x.mean((1, 2)))
    assert_close(
        jvp(
            lambda v: F.batch_norm(v, torch.zeros(1), torch.ones(1), training=True),
            (x[0],),
            (x[0],),
        )[0],
        wanted[0],
    )


def test_one_mask_for_all_elements():
    mask = torch.tensor([True, False, True, True, False])
    assert_close(vmap(lambda v: v.masked_select(mask))(X), X[:, mask])
    assert_close(*gradients(lambda v: v.masked_select(mask) ** 2, X))
    x = X[0].clone().requires_grad_()
    (rows,) = torch.autograd.grad(x.masked_select(mask), x, torch.eye(3), is_grads_batched=True)
    assert_close(rows, torch.eye(5)[mask])
    with pytest.raises(RuntimeError, match="output dynamic shape"):
        vmap(lambda v, m: v.masked_select(m))(X, X > 0)


def test_cross_products():
    a, b = X[:, :3], X[:, 2:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(vmap(torch.linalg.cross)(a, b), torch.linalg.cross(a, b))
        got = vmap(lambda v, w: torch.linalg.cross(v[:, None], w, dim=0), (0, None))(a, b.T)
    assert_close(
        got, torch.stack([torch.linalg.cross(v[:, None].expand(3, 3), b.T, dim=0) for v in a])
    )


def test_chunks_and_parts_of_vmap():
    from rushlight.compat.functorch.experimental import chunk_vmap
    from rushlight.func.batching import restore_vmap

    x = torch.randn(5, 3)
    for chunks in (1, 2, 7):
        assert_close(chunk_vmap(torch.sin, 0, 1, chunks=chunks)(x), x.sin().t())
    values, dims = restore_vmap(lambda a, b, n: (a * b, b, n), (0, None, None), 5, "error")(
        x, x[0], 2
    )
    assert dims == (0, None, None) and values[2] == 2
    assert_close(values[0], x * x[0])


def test_writes_at_indices_of_each_element_and_of_numbers():
    """One call for all elements, without the loop's warning; numbers without dimensions too."""
    x, s = torch.randn(3, 4), torch.randn(3, 2)
    index, value = torch.tensor([[0, 2], [1, 3], [3, 0]]), torch.randn(3)
    one = torch.zeros(1, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f, args in (
            (lambda x, i, s: x.index_copy(0, i, s), (x, index, s)),
            (lambda x, i, s: x.index_add(0, i, s, alpha=2), (x, index, s)),
            (lambda x, i, v: x.index_fill(0, i, v), (x, index, value)),
            (lambda x, v: x.index_fill(0, one, v), (x, value)),
            (lambda v, s: v.index_copy(0, one, s[:1]), (value, s)),
            (lambda v: v.index_fill(0, one, 2.0), (value,)),
            (lambda x, s: torch.block_diag(x, s[0], s.unsqueeze(1), torch.ones(2)), (x, s)),
        ):
            expected = torch.stack([f(*each) for each in zip(*args, strict=True)])
            assert_close(vmap(f)(*args), expected)


def test_refusals_of_operators_stay_under_vmap():
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        vmap(torch.linalg.cross)(torch.randn(2, 5, 5, 3), torch.randn(2, 5, 3))
    image, weight = torch.ones(2, 1, 2, 4, 4).long(), torch.ones(2, 3, 2, 3, 3).long()
    with pytest.raises(RuntimeError, match="bias type"):
        vmap(torch.nn.functional.conv2d)(image, weight, torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="Batching rule not implemented for aten::equal"):
        vmap(torch.equal)(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="inplace"):
        vmap(lambda a, b: a.copy_(b), (None, 0))(torch.ones(3), torch.ones(2, 3))


def test_bounds_of_each_element_and_vectors_without_elements():
    a, b = torch.randn(4), torch.randn(4)
    for n in (1, 2, 5):
        each = [torch.linspace(x, y, n) for x, y in zip(a, b, strict=True)]
        assert_close(vmap(lambda x, y: torch.linspace(x, y, n))(a, b), torch.stack(each))
    with pytest.raises(RuntimeError, match="0-dimensional"):
        vmap(lambda x: torch.linspace(x, 1.0, 3))(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="non-negative"):
        vmap(lambda x: torch.linspace(x, 1.0, -1))(a)
    powers = [torch.logspace(x, 1.5, 4, base=2.0) for x in a]
    assert_close(vmap(lambda x: torch.logspace(x, 1.5, 4, base=2.0))(a), torch.stack(powers))
    none = torch.rand(0, requires_grad=True)
    joined = vmap(lambda x, y: torch.cat([x, y], 1), (None, 0))(none, torch.rand(5, 2, 3))
    assert joined.shape == (5, 2, 3) and joined.requires_grad


def test_places_of_dimensions_have_the_form_of_the_values():
    x = torch.ones(2, 3)
    assert vmap(torch.sin, out_dims=(1,))(x).shape == (3, 2)
    for places in (((0,),), ([0, 0],)):
        with pytest.raises(ValueError, match="in_dims is not compatible"):
            vmap(torch.sin, in_dims=places)(x)
    with pytest.raises(ValueError, match="in_dims is not compatible"):
        vmap(lambda pair: pair[0], in_dims=([0, 0],))((x, x))
    assert vmap(lambda pair: pair[0], in_dims=((0, 0),))((x, x)).shape == (2, 3)

    class Zeros(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.zeros_like(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return torch.zeros_like(x[0]), (None,)

    with pytest.raises(RuntimeError, match="returned an incompatible"):
        vmap(Zeros.apply)(x)


def test_a_vmap_of_its_own_is_told_the_dimensions_as_they_are():
    seen = []

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            seen.append((in_dims, tuple(x.shape), x.stride()))
            return x.clone(), in_dims[0]

    x = torch.arange(24.0).reshape(2, 3, 4)
    for dim in (0, 1, 2, -1):
        assert_close(vmap(Same.apply, dim, dim)(x), x)
        assert seen.pop() == ((dim % 3,), (2, 3, 4), (12, 4, 1))
    assert_close(vmap(lambda x: Same.apply(Same.apply(x)), 2)(x), x.movedim(2, 0))
    assert [in_dims for in_dims, _, _ in seen] == [(2,), (2,)]  # what the first one says

    printed = vmap(lambda x: seen.append(repr(x)) or x, 1)(x[0])
    assert_close(printed, x[0].T)
    assert seen.pop().splitlines()[:2] == ["BatchedTensor(lvl=1, bdim=1, value=", "    tensor([[ 0.,  1.,  2.,  3.],"]  # fmt: skip


@pytest.mark.parametrize("strides", [(12, 4, 1), (1, 2, 6), (0, 4, 1), (2, 4, 6)])
def test_new_empty_strided_of_a_mapped_tensor_has_these_strides(strides):
    def make(x):
        return x.new_empty_strided((2, 3, 4), strides)

    reach = 1 + sum(s * n for s, n in zip(strides, (1, 2, 3), strict=True))
    assert vmap(make)(torch.ones(5)).stride() == (reach, *strides)
    assert vmap(vmap(make))(torch.ones(5, 6)).stride() == (6 * reach, reach, *strides)


@pytest.mark.parametrize(
    ("pool", "shape"),
    [(F.max_pool1d, (4, 4, 4)), (F.max_pool2d, (2, 2, 4, 4)), (F.max_pool3d, (2, 4, 4, 4))],
)
def test_tangents_of_a_batch_through_what_keeps_intermediates(pool, shape):
    x = torch.randn(*shape)
    tangents = torch.randn(3, *x.shape)

    def moved(t):
        return torch.func.jvp(lambda x: pool(x, 2), (x,), (t,))[1]

    got = torch.func.vmap(moved)(tangents)
    assert torch.equal(got, torch.stack([moved(t) for t in tangents]))


def test_layers_of_several_models_on_one_batch():
    x, w, b = torch.randn(4, 3), torch.randn(5, 2, 3), torch.randn(5, 2)
    expected = torch.stack([F.linear(x, *each) for each in zip(w, b, strict=True)])
    for bias, place in ((b, 0), (b[0], None), (None, None)):
        got = vmap(F.linear, (None, 0, place))(x, w, bias)
        if place == 0:
            assert_close(got, expected)
        else:
            assert_close(got, torch.stack([F.linear(x, each, bias) for each in w]))
    assert_close(vmap(F.linear, (None, 0, 0))(x[0], w, b), expected[:, 0])
    g = vmap(grad(lambda w: F.linear(x, w).sum()))(w)
    assert_close(g, x.sum(0).expand(5, 2, 3))


def test_messages_name_the_function():
    call = functools.partial(torch.mul, other=2)
    with pytest.raises(ValueError, match=r"vmap\(functools.partial\(.*Got in_dim=3 for some input"):
        vmap(call, in_dims=3)(X)
    with pytest.raises(ValueError, match=r"vmap\(sin, in_dims=a, ...\)"):
        vmap(torch.sin, in_dims="a")(X)
    with pytest.raises(ValueError, match="Got in_dim=0 for an input but the input is of type"):
        vmap(lambda a, b: a)(X, 1)


@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_at_shared_indices(accumulate):
    at = (torch.tensor([0, 2]), torch.tensor([1, 1]))
    x, v = torch.randn(4, 3, 2), torch.randn(4, 2)
    put = lambda x, v: x.index_put(at, v, accumulate)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dims in ((0, 0), (None, 0), (0, None)):
            given = [t if d == 0 else t[0] for t, d in zip((x, v), dims, strict=True)]
            each = [
                put(*[t[k] if d == 0 else t for t, d in zip(given, dims, strict=True)])
                for k in range(4)
            ]
            assert_close(vmap(put, dims)(*given), torch.stack(each))
        one_row = vmap(lambda x, v: x.index_put(at[:1], v, accumulate))(x, v)
        assert_close(
            one_row, torch.stack([a.index_put(at[:1], b, accumulate) for a, b in zip(x, v)])
        )


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d"])
@pytest.mark.parametrize("inplace", [False, True])
def test_the_same_randomness_drops_the_same_elements(name, inplace):
    x = torch.ones(16, 6, 3)
    drop = getattr(F, name)
    dropped = vmap(lambda t: drop(t.clone(), 0.5, True, inplace), randomness="same")(x)
    assert (dropped == dropped[0]).all() and len(dropped.unique()) == 2
    other = vmap(lambda t: drop(t.clone(), training=True, inplace=inplace), randomness="different")(
        x
    )
    assert not (other == other[0]).all()
    assert torch.equal(vmap(lambda t: drop(t, training=False), randomness="same")(x), x)


def test_layers_of_an_ensemble_multiply_what_lies_transposed():
    w, bias, x = torch.randn(3, 5, 4), torch.randn(3, 5), torch.randn(3, 4, 2)
    found = vmap(lambda w, b, x: F.linear(x.T, w, b))(w, bias, x)
    assert_close(found, torch.stack([F.linear(x[k].T, w[k], bias[k]) for k in range(3)]))


class Scaled(torch.autograd.Function):
    """x * y by a class of its own, whose gradients have the shape of the product."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t


@pytest.mark.parametrize(
    ("dims", "shapes"),
    [
        ([(0, 0)], [(2, 4), (2, 3, 4)]),
        ([(None, 0), (0, 0)], [(2, 4), (2, 3, 4)]),
        ([(0, None), (0, None)], [(2, 3, 4), (4,)]),
        ([(0, 0), (0, 0), (0, 0)], [(2, 3, 4), (2, 3, 4)]),
    ],
)
def test_generated_rules_nest_and_their_gradients_are_summed(dims, shapes):
    def mapped(f):
        for each in dims:
            f = vmap(f, each)
        return f

    x, y = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    ours, plain = mapped(Scaled.apply), mapped(torch.mul)
    g = torch.randn_like(plain(x, y))
    assert_close(vjp(ours, x, y)[1](g), vjp(plain, x, y)[1](g))
    assert_close(jvp(ours, (x, y), (y.sum() * x, y)), jvp(plain, (x, y), (y.sum() * x, y)))


def test_a_mapped_function_may_return_what_it_wrote_to():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp_()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def vmap(info, in_dims, x):
            return Exp.apply(x), in_dims[0]

    x = torch.randn(2, 3, dtype=torch.float64)
    for dim in (0, 1):
        each = vmap(lambda x: Exp.apply(x.clone()), dim, dim)
        assert_close(each(x), x.exp())
        assert_close(vjp(each, x)[1](x)[0], x * x.exp())


def test_gradients_of_what_is_mapped_over_gradients_alone():
    x, g = torch.randn(3, 4), torch.randn(5, 6, 4)
    repeats = torch.tensor([1, 2, 3])

    def pulled(f):
        return vmap(lambda g: vjp(f, x)[1](g)[0])

    assert_close(
        pulled(lambda x: x.repeat_interleave(repeats, 0))(g),
        torch.stack([g[:, 0], g[:, 1:3].sum(1), g[:, 3:].sum(1)], 1),
    )
    ones = torch.ones(2, 1)
    assert_close(pulled(lambda x: torch.kron(x, ones))(g), g.unflatten(1, (3, 2)).sum(2))


def test_a_tangent_of_numbers_that_only_the_primal_is_mapped_of():
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    one = torch.tensor(1.0, dtype=torch.float64)

    def slope(x):
        return x.sgn() * x

    assert_close(vmap(lambda x: jvp(slope, (x,), (one,))[1])(x), x.sgn())


def test_second_derivatives_of_grid_sample_are_mapped_without_a_loop():
    x, grid = torch.rand(3, 2, 1, 4, 4), torch.rand(3, 2, 3, 2, 2) - 0.5

    def slope(x, grid):
        return grad(lambda x, g: F.grid_sample(x, g, align_corners=False).square().sum(), 1)(x, grid)  # fmt: skip

    def second(x, grid):
        return vjp(slope, x, grid)[1](torch.ones_like(grid))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(second)(x, grid)
    assert_close(found, tuple(map(torch.stack, zip(*map(second, x, grid), strict=True))))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_of_products_of_segments_are_mapped():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 5.0]])
    offsets = torch.tensor([0, 2, 3])

    def f(x):
        return torch.segment_reduce(x, "prod", offsets=offsets).sum()

    assert_close(vmap(grad(f))(x), torch.tensor([[2.0, 1.0, 1.0], [0.0, 4.0, 1.0]]))


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((2, 3), (2, 1), 0),
        ((3, 2), (1, 1), 1),
        ((2, 2), (0, 3), 0),
        ((2, 0), (1, 1), 0),
        ((), (), 4),
    ],
)
def test_gradients_of_as_strided_are_mapped_without_a_loop(size, stride, offset):
    def f(x):
        return x.as_strided(size, stride, x.storage_offset() + offset).sin()

    x = X.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = vmap(lambda x: vjp(f, x)[1](f(x).cos())[0])(x)
    assert_close(got, torch.stack([vjp(f, row)[1](f(row).cos())[0] for row in x]))


def test_one_hot_is_mapped_where_the_number_of_classes_is_given():
    at = torch.tensor([0, 2])
    assert vmap(lambda i: F.one_hot(i, 3))(at).tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="explicit positive num_classes"):
        vmap(F.one_hot)(at)


@pytest.mark.parametrize("with_bias", [True, False])
def test_results_of_an_ensemble_of_linear_layers_are_row_major(with_bias):
    w, x = torch.randn(3, 2, 4), torch.randn(5, 4)
    b = torch.randn(3, 2) if with_bias else torch.zeros(3, 2)
    got = vmap(lambda w, b: F.linear(x, w, b if with_bias else None))(w, b)
    assert got.is_contiguous() and got.view(-1).shape == (30,)
    assert_close(got, x @ w.mT + b[:, None])
