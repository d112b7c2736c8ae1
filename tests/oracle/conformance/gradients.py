"""First and second gradients of a call for fixed cotangents."""

from __future__ import annotations

import functools

import numpy as np

from .entries import MAYBE_RANDOM
from .libraries import REF, Built, Missing, thaw
from .observations import Mismatch, Obs, compare, cotangent, observe, tensors_in


def grads(lib, fn, frozen, process, wanted=None, second=False, seed=1):
    """Outputs, first and second order gradients for fixed cotangents."""
    leaves = Built()
    args, kwargs = thaw(frozen, lib, leaves)
    inputs = [t for leaf, t in leaves if leaf.requires_grad]
    lib.seed(seed)
    outs = tensors_in(lib, process(fn(*args, **kwargs)))
    if wanted is None:
        wanted = [i for i, t in enumerate(outs) if t.requires_grad]
    if not wanted or not inputs:
        return None
    first = backward(lib, outs, wanted, inputs, second)
    result = [observe(lib, g)[0] if g is not None else None for g in first]
    if not second:
        return wanted, result, None
    again = [i for i, g in enumerate(first) if g is not None and g.requires_grad]
    if not again:
        return wanted, result, [None] * len(inputs)
    zipped = backward(lib, first, again, inputs, False)
    return wanted, result, [observe(lib, g)[0] if g is not None else None for g in zipped]


def backward(lib, outs, wanted, inputs, create_graph):
    if max(wanted) >= len(outs):
        raise Mismatch("structure", f"{len(outs)} outputs, torch has more")
    outs = [outs[i] for i in wanted]
    if not all(t.requires_grad for t in outs):
        raise Mismatch("grad", "output does not require grad")
    cots = [lib.array(cotangent(i, observe(lib, t)[0])) for i, t in zip(wanted, outs)]
    if lib.has("autograd.grad"):
        return lib.get("autograd.grad")(
            outs, inputs, cots, create_graph=create_graph, allow_unused=True
        )
    if create_graph:
        raise Missing("autograd.grad")
    sum(((t * c).sum() for t, c in zip(outs, cots)), 0).backward()
    return [t.grad for t in inputs]


def compare_grads(ref, got, tol):
    for i, (r, g) in enumerate(zip(ref, got)):
        if r is None and g is None:
            continue
        shape = (r or g).array.shape
        zero = Obs(np.zeros(shape, (r or g).array.dtype), (r or g).dtype)  # None counts as zero
        try:
            compare([r or zero], [g or zero], tol)
        except Mismatch as e:
            raise Mismatch("grad", f"input {i}: {e}") from None


def grad_checks(cand, ref_fn, cand_fn, frozen, name, ref_process, cand_process, tol, second):
    try:
        ref = grads(REF, ref_fn, frozen, ref_process, second=second)
    except Exception:
        if not second:
            return
        try:  # no second derivative here: the first alone
            ref, second = grads(REF, ref_fn, frozen, ref_process), False
        except Exception:
            return
    if ref is None:
        return
    if name in MAYBE_RANDOM:
        try:
            compare_grads(ref[1], grads(REF, ref_fn, frozen, ref_process, seed=2)[1], tol)
        except Mismatch:
            return

    def check(order):
        if cand_fn is None:
            raise Missing("function")
        got = grads(cand, cand_fn, frozen, cand_process, ref[0], order == 2)
        compare_grads(ref[order], got[order], tol)

    yield "grad", functools.partial(check, 1)
    if second and ref[2] is not None:
        yield "gradgrad", functools.partial(check, 2)
