"""`vmap`: operators on batches, what it refuses, and what stays outside of it."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._C import _functorch
from rushlight.func import grad, jacfwd, jvp, vjp, vmap
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
