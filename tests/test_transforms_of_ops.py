"""Every operator from its row in opdb.py: `vmap` gives what the loop gives, `jvp` what two backwards give."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import rushlight
from opdb_rows import replace
from rushlight import Tensor
from rushlight.core.tensor import _wrap
from rushlight.func import grad, jvp, vmap
from rushlight.testing import assert_close
from test_ops import each, function, leaves

SIZE = 3
# What `vmap` refuses, and why.
REFUSED = {
    "result of another shape for each element": (
        "masked_select nonzero argwhere unique unique_consecutive histogram histogramdd Tensor.tolist bincount "
        "combinations repeat_interleave nn.utils.rnn.pack_padded_sequence nonzero_static"
    ),
    "asks for a Python number": (
        "Tensor.item allclose equal is_nonzero linspace logspace range arange nn.functional.one_hot embedding_renorm_ "
        "Tensor.apply_ Tensor.map_ Tensor.map2_"
    ),
}
# Their gradients have no gradients, of which tangents would come.
NO_TANGENT = ("ctc_loss", "nn.functional.ctc_loss")


def batched(row):
    """(function of the tensors of a case, these tensors stacked with variations of them, one after the other)."""
    for case, args, kwargs in row.draws():
        arrays: list = []
        replace((args, kwargs), arrays.append, np.ndarray)
        if not arrays:
            continue

        def f(*given, args=args, kwargs=kwargs):
            rest = iter(given)
            args, kwargs = replace((args, kwargs), lambda a: next(rest), np.ndarray)
            if row.writes:
                args = (args[0].clone(), *args[1:])
            rushlight.manual_seed(0)
            return function(row.name)(*args, **kwargs)

        yield f, [[_wrap(varied(a, k)) for a in arrays] for k in range(SIZE)]


def varied(a: np.ndarray, k: int) -> np.ndarray:
    """The array; floating ones in another order of the first dimension for each k."""
    return np.roll(a, k, 0) if a.ndim and a.dtype.kind in "fc" else a.copy()


def loops(f, columns):
    """The results for each element, or None where the operator refuses one of them."""
    try:
        each = [leaves(f(*[t.clone() for t in given])) for given in columns]
    except Exception:
        return None
    if not all(isinstance(x, Tensor) for found in each for x in found):
        return None
    shapes = {tuple(x.shape for x in found) for found in each}
    return each if len(shapes) == 1 else None


def refused(name: str) -> bool:
    return any(name in names.split() for names in REFUSED.values())


@each(lambda row: not refused(row.name) and row.check is None)
def test_vmap_is_the_loop(row):
    tried = 0
    for f, columns in batched(row):
        want = loops(f, columns)
        if want is None:
            continue
        stacked = [rushlight.stack([given[i] for given in columns]) for i in range(len(columns[0]))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = leaves(vmap(lambda *ts, f=f: tuple(leaves(f(*ts))), randomness="same")(*stacked))
        for i, x in enumerate(got):
            y = rushlight.stack([found[i] for found in want])
            assert x.shape == y.shape and x.dtype is y.dtype, (
                f"{x.shape} {x.dtype}, expected {y.shape} {y.dtype}"
            )
            wide = np.complex128 if y.is_complex() else np.float64
            np.testing.assert_allclose(
                x.detach().resolve_conj()._array.astype(wide), y.detach().resolve_conj()._array.astype(wide),
                rtol=1e-7, atol=1e-7,
            )  # fmt: skip
        tried += 1
        if tried == 2:
            return


@each(lambda row: row.order > 0 and not row.writes and row.name not in NO_TANGENT)
def test_tangent_is_the_gradient_the_other_way(row):
    """The inner product of a tangent with w is that of the gradient of w with the direction."""
    rng = np.random.default_rng(0)
    for case, args, kwargs in row.draws(grad=True):
        arrays: list = []
        replace((args, kwargs), arrays.append, np.ndarray)
        flows = [d.differentiable for d in case.inputs()]
        moving = [_wrap(a.copy()) for a, m in zip(arrays, flows, strict=True) if m]
        if not moving or not any(t.numel() for t in moving):
            continue

        def f(*given, args=args, kwargs=kwargs, flows=flows):
            given, which = iter(given), iter(flows)
            args, kwargs = replace(
                (args, kwargs), lambda a: next(given) if next(which) else _wrap(np.array(a)), np.ndarray
            )  # fmt: skip
            rushlight.manual_seed(0)
            found = leaves(function(row.name)(*args, **kwargs))
            return [
                t
                for t in found
                if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())
            ]

        directions = [noise(rng, t) for t in moving]
        values, tangents = jvp(f, tuple(moving), tuple(directions))
        leaf = [t.clone().requires_grad_() for t in moving]
        outs = f(*leaf)
        kept = [k for k, o in enumerate(outs) if o.requires_grad]
        weights = [noise(rng, outs[k]) for k in kept]
        gradients = rushlight.autograd.grad(
            [outs[k] for k in kept], leaf, weights, allow_unused=True
        )
        forward = sum(inner(w, tangents[k]) for w, k in zip(weights, kept, strict=True))
        reverse = sum(
            inner(g, d) for g, d in zip(gradients, directions, strict=True) if g is not None
        )
        assert forward == pytest.approx(reverse, rel=1e-6, abs=1e-8)
        for j in range(len(moving)):  # each alone: the others have no tangent
            one = lambda x, j=j, f=f, moving=moving: f(*moving[:j], x, *moving[j + 1 :])
            _, alone = jvp(one, (moving[j],), (directions[j],))
            part = sum(inner(w, alone[k]) for w, k in zip(weights, kept, strict=True))
            wanted = 0.0 if gradients[j] is None else inner(gradients[j], directions[j])
            assert part == pytest.approx(wanted, rel=1e-6, abs=1e-8), f"input {j} alone"
        for v, o in zip(values, outs, strict=True):
            np.testing.assert_array_equal(
                v.detach().resolve_conj()._array, o.detach().resolve_conj()._array
            )
        return


def noise(rng: np.random.Generator, t: Tensor) -> Tensor:
    a = rng.standard_normal(t.shape)
    return _wrap(
        np.asarray(a + 1j * rng.standard_normal(t.shape) if t.is_complex() else a, t._array.dtype)
    )


def inner(a: Tensor, b: Tensor) -> float:
    a, b = a.detach().resolve_conj()._array, b.detach().resolve_conj()._array
    return float(np.vdot(a, b).real)


def test_gradients_of_each_element():
    """`vmap` of `grad` gives the gradient of each example, which the loop gives one by one."""
    rushlight.manual_seed(0)
    w, x = rushlight.randn(4, 3), rushlight.randn(SIZE, 3)
    f = lambda w, x: (w @ x).tanh().prod()
    want = rushlight.stack([grad(f)(w, each) for each in x])
    rushlight.testing.assert_close(vmap(grad(f), (None, 0))(w, x), want)


def test_tangents_of_some_of_a_list():
    x, t = rushlight.ones(2), rushlight.tensor([3.0, 4.0])
    joined = lambda x: rushlight.cat([x, rushlight.tensor([5, 6]), rushlight.tensor([7.0])])
    assert jvp(joined, (x,), (t,))[1].tolist() == [3, 4, 0, 0, 0]


def test_a_tangent_in_another_order_of_memory_has_the_same_views():
    x, t = rushlight.ones(2, 3), rushlight.arange(6.0).reshape(3, 2).t()
    assert jvp(lambda x: x.view(6), (x,), (t,))[1].tolist() == t.reshape(6).tolist()


# Operators whose gradients run once for each element of a batch: their batching rules are loops.
LOOPED = "put nn.functional.grouped_mm ctc_loss nn.functional.ctc_loss"


@each(lambda row: row.order > 0 and not row.writes)
def test_gradients_of_a_batch_are_those_of_the_loop(row):
    """The gradients for several cotangents at once, and none of them in a loop."""
    rng = np.random.default_rng(0)
    for case, args, kwargs in row.draws(grad=True):
        arrays: list = []
        replace((args, kwargs), arrays.append, np.ndarray)
        flows = [d.differentiable for d in case.inputs()]
        leaf = [_wrap(a.copy()).requires_grad_() for a, m in zip(arrays, flows, strict=True) if m]
        if not leaf or not any(t.numel() for t in leaf):
            continue
        given, which = iter(leaf), iter(flows)
        args, kwargs = replace(
            (args, kwargs), lambda a: next(given) if next(which) else _wrap(np.array(a)), np.ndarray
        )  # fmt: skip
        rushlight.manual_seed(0)
        outs = [o for o in leaves(function(row.name)(*args, **kwargs)) if isinstance(o, Tensor)]
        outs = [o for o in outs if o.requires_grad]
        weights = [[noise(rng, o) for o in outs] for _ in range(SIZE)]
        pull = partial(rushlight.autograd.grad, outs, leaf, retain_graph=True, allow_unused=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if row.name in LOOPED.split() else "error")
            got = pull([rushlight.stack(ws) for ws in zip(*weights)], is_grads_batched=True)
        for k, ws in enumerate(weights):
            for one, all_of_them in zip(pull(ws), got, strict=True):
                assert (one is None) == (all_of_them is None)
                if one is not None:
                    assert_close(all_of_them[k], one, rtol=1e-6, atol=1e-8)
        return


@pytest.mark.slow
@each(lambda row: row.order > 1 and not row.writes and row.name not in NO_TANGENT)
def test_second_derivatives_by_tangents_of_gradients(row):
    """The tangent of a gradient is the gradient of its product with the direction."""
    rng = np.random.default_rng(0)
    for case, args, kwargs in row.draws(grad=True):
        arrays: list = []
        replace((args, kwargs), arrays.append, np.ndarray)
        flows = [d.differentiable for d in case.inputs()]
        moving = [_wrap(a.copy()) for a, m in zip(arrays, flows, strict=True) if m]
        if any(t.is_complex() for t in moving) or not any(t.numel() for t in moving):
            continue

        def loss(*given, args=args, kwargs=kwargs, flows=flows):
            given, which = iter(given), iter(flows)
            args, kwargs = replace(
                (args, kwargs), lambda a: next(given) if next(which) else _wrap(np.array(a)), np.ndarray
            )  # fmt: skip
            rushlight.manual_seed(0)
            found = [
                t for t in leaves(function(row.name)(*args, **kwargs)) if isinstance(t, Tensor)
            ]
            found = [rushlight.view_as_real(t) if t.is_complex() else t for t in found]
            return sum((t * t.detach().cos()).sum() for t in found if t.is_floating_point())

        gradient = grad(loss, argnums=tuple(range(len(moving))))
        directions = tuple(noise(rng, t) for t in moving)
        _, forward = jvp(gradient, tuple(moving), directions)
        _, pull = rushlight.func.vjp(gradient, *moving)
        for one, other in zip(forward, pull(directions), strict=True):
            assert_close(one, other, rtol=1e-5, atol=1e-7, equal_nan=True)
        return
