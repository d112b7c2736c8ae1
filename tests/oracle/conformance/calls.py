"""One call on both sides: outputs, mutated arguments, and the freedom that is allowed in them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from .entries import GAUGE, MAYBE_RANDOM, RANDOM, TIES, UNINITIALISED
from .libraries import REF, Built, Leaf, Missing, thaw
from .observations import (
    Mismatch,
    Obs,
    as_accurate,
    close,
    compare,
    field_names,
    observe,
    same_strides,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclasses.dataclass
class Run:
    obs: list
    fields: tuple  # names of a named-tuple output
    returned_input: bool  # the output is the very object passed as first input
    mutated: dict  # leaf number -> Obs, for inputs the call changed
    has_field: Callable


def run(lib, fn, frozen, seed, up=False, watch=()):
    leaves = Built()
    args, kwargs = thaw(frozen, lib, leaves, grad=False, up=up)
    versions = [getattr(t, "_version", 0) for _, t in leaves] if lib.is_ref else ()
    lib.seed(seed)
    out = fn(*args, **kwargs)
    if lib.is_ref:
        watch = [i for i, (_, t) in enumerate(leaves) if t._version != versions[i]]
    mutated = {i: observe(lib, leaves[i][1]) for i in watch}
    return Run(
        observe(lib, out),
        field_names(out) if lib.is_ref else (),
        bool(args) and out is args[0],
        mutated,
        lambda name: hasattr(out, name),
    )


def attempt(*args, **kwargs):
    """run() on torch; None where torch refuses, which makes the sample not applicable."""
    try:
        return run(REF, *args, **kwargs)
    except Exception:
        return None


def check_like(ref, got, tol, values, keep):
    if ref.returned_input and not got.returned_input:
        raise Mismatch("structure", "does not return the tensor it modified")
    for name in ref.fields:
        if not got.has_field(name):
            raise Mismatch("structure", f"output lacks the field .{name}")
    compare(ref.obs, got.obs, tol, values, keep)
    for i in ref.mutated:
        compare(ref.mutated[i], got.mutated[i], tol, values)


def forward_check(cand, ref_fn, cand_fn, frozen, name, tol, strict, keep=None):
    """A function comparing one call, or None if torch refuses the call."""
    ref = attempt(ref_fn, frozen, 1)
    if ref is None:
        return None
    values = name not in RANDOM | UNINITIALISED
    if name in MAYBE_RANDOM:
        again = attempt(ref_fn, frozen, 2)
        try:
            check_like(ref, again, tol, True, keep)
        except Mismatch:
            values = tolerable(name, ref_fn, frozen, ref, again, tol, True)

    def check():
        if cand_fn is None:
            raise Missing(name)
        got = run(cand, cand_fn, frozen, 1 if values else 7, watch=list(ref.mutated))
        marks = {}
        if any(isinstance(o, Obs) for o in ref.obs):
            marks["strides"] = same_strides(ref.obs, got.obs)
        try:
            check_like(ref, got, tol, values, keep)
        except Mismatch as e:
            if e.kind != "value":
                raise
            marks["near"] = True
            if not tolerable(name, ref_fn, frozen, ref, got, tol, strict):
                raise
        if name in RANDOM:
            same_distribution(cand, ref_fn, cand_fn, frozen, sum(o.array.size for o in ref.obs))
        if not values and name not in UNINITIALISED:
            again = run(cand, cand_fn, frozen, 1)
            marks["rng"] = all(
                np.array_equal(r.array, g.array)
                for r, g in zip(ref.obs, again.obs)
                if isinstance(r, Obs)
            )
        return marks

    return check


def tolerable(name, ref_fn, frozen, ref, got, tol, strict):
    """Is a difference in values one that torch's documentation or float arithmetic allows?"""
    try:
        if name in TIES:
            leaf = next(x for x in flat_leaves(frozen))
            return ties_agree(leaf.value(), ref.obs, got.obs, tol)
        if name in GAUGE:
            compare(canonical(name, ref.obs), canonical(name, got.obs), tol)
            return True
    except Mismatch:
        pass
    if strict:
        return False
    truth = attempt(ref_fn, frozen, 1, up=True)
    if truth is None:
        return False
    if name in GAUGE:
        return as_accurate(
            canonical(name, ref.obs), canonical(name, got.obs), canonical(name, truth.obs)
        )
    return as_accurate(ref.obs, got.obs, truth.obs) and all(
        as_accurate(ref.mutated[i], got.mutated[i], truth.mutated.get(i, [])) for i in ref.mutated
    )


def flat_leaves(v):
    if isinstance(v, Leaf):
        yield v
    elif isinstance(v, (tuple, list)):
        for x in v:
            yield from flat_leaves(x)
    elif isinstance(v, dict):
        yield from flat_leaves(list(v.values()))


def ties_agree(x, ref, got, tol):
    """Values equal, and indices select equal elements along some dimension of x."""

    def chosen(index, d):
        if index.ndim == x.ndim - 1:
            index = np.expand_dims(index, d)
        return np.take_along_axis(x, index, d)

    def agree(r, g, d):
        try:
            return np.array_equal(
                chosen(g.array, d), chosen(r.array, d), equal_nan=x.dtype.kind in "fc"
            )
        except (ValueError, IndexError):
            return False

    for r, g in zip(ref, got):
        if r.array.shape != g.array.shape or r.dtype != g.dtype:
            return False
        if close(g.array, r.array, tol.get(r.dtype, (0, 0))).all():
            continue
        if r.dtype != "int64" or x.ndim and not any(agree(r, g, d) for d in range(x.ndim)):
            return False
    return True


def canonical(name, obs):
    """Outputs of a factorisation with sign, phase, order and null-space freedom removed."""
    arrays = [o.array for o in obs]
    if name in ("linalg.eig", "linalg.eigvals"):
        order = np.lexsort((arrays[0].imag.round(3), arrays[0].real.round(3)), axis=-1)
        arrays[0] = np.take_along_axis(arrays[0], order, -1)
        if len(arrays) > 1:
            arrays[1] = np.abs(np.take_along_axis(arrays[1], order[..., None, :], -1))
    elif name.endswith("_lowrank"):
        u, s, v = arrays
        obs, arrays = [obs[1], obs[0]], [s, (u * s[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2))]
    else:
        k = min(min(a.shape[-2:]) if a.ndim > 1 else a.shape[-1] for a in arrays if a.ndim)
        rows = {"linalg.svd": 2, "linalg.qr": 1, "qr": 1}.get(name)  # this one has vectors in rows
        arrays = [
            np.abs(a if a.ndim < 2 else a[..., :k, :] if i == rows else a[..., :k])
            for i, a in enumerate(arrays)
        ]
    return [dataclasses.replace(o, array=a) for o, a in zip(obs, arrays)]


def same_distribution(cand, ref_fn, cand_fn, frozen, size):
    """Two-sample Kolmogorov-Smirnov over about 400 draws from each side."""
    calls = min(40, -(-400 // max(size, 1)))

    def draws(lib, fn, seed):
        return np.concatenate(
            [run(lib, fn, frozen, seed + i).obs[0].array.ravel() for i in range(calls)]
        )

    a, b = draws(REF, ref_fn, 100), draws(cand, cand_fn, 200)
    if not a.size or a.dtype.kind == "c":
        return
    grid = np.sort(np.concatenate([a, b]))
    d = np.abs(
        np.searchsorted(np.sort(a), grid, "right") / a.size
        - np.searchsorted(np.sort(b), grid, "right") / b.size
    ).max()
    if d > 2.5 * np.sqrt(2 / a.size):
        raise Mismatch("distribution", f"Kolmogorov-Smirnov distance {d:.2f} over {a.size} draws")
