"""The strides of `einsum`'s results, from shapes and strides alone: those that PyTorch's way through an equation leaves.

Operands have all dimensions of the problem there, those of the output first. Two are contracted as one batched product,
whose dimensions are the shared ones that stay, those of the first, those that are summed, and those of the second; of
strides this says all but those of sizes 1, which einsum.py's shorter way makes otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from rushlight.core import geometry

Ints = tuple[int, ...]
Term = tuple[Ints, Ints]  # an operand: its sizes and strides in all dimensions


@lru_cache(1024)
def result_strides(labels: tuple, out: Ints, operands: tuple[Term, ...]) -> Ints:
    """The strides of the result for at least two operands of (shape, strides), whose dimensions have `labels`; those of
    the result are `out`."""
    terms = [diagonals(list(own), *operand) for own, operand in zip(labels, operands, strict=True)]
    dims = [*out, *sorted({k for own, *_ in terms for k in own} - {*out})]
    placed = [
        (tuple([sizes.get(k, 1) for k in dims]), tuple([steps.get(k, 1) for k in dims]))
        for own, shape, strides in terms
        for sizes, steps in [(dict(zip(own, shape)), dict(zip(own, strides)))]
    ]
    counts = [sum(n != 1 for n in sizes) for sizes in zip(*[t[0] for t in placed])]
    kept = len(out)
    while len(placed) > 1:
        a, b, *rest = placed
        summed, alone = [], ([], [])
        for d in range(kept, len(dims)):
            if a[0][d] != 1 and b[0][d] != 1:
                counts[d] -= 1
                if counts[d] == 1:
                    summed.append(d)
            elif counts[d] == 1 and (a[0][d] != 1 or b[0][d] != 1):
                alone[a[0][d] == 1].append(d)
                counts[d] = 0
        placed = [pair(added(a, alone[0]), added(b, alone[1]), summed), *rest]
    sizes, strides = placed[0]
    if kept == len(dims):
        return strides
    return geometry.view_strides(sizes, strides, sizes[:kept]) or strides[:kept]


def diagonals(labels: list, shape: Ints, strides: Ints) -> tuple[list, Ints, Ints]:
    """An operand's labels, sizes and strides, with one dimension for all of the same label."""
    steps: dict[Any, int] = {}
    for k, step in zip(labels, strides, strict=True):
        steps[k] = steps.get(k, 0) + step
    return [*steps], tuple([shape[labels.index(k)] for k in steps]), tuple(steps.values())


def added(a: Term, dims: list[int]) -> Term:
    """The sum over some dimensions, which stay with size 1."""
    if not dims:
        return a
    sizes = tuple([1 if d in dims else n for d, n in enumerate(a[0])])
    return sizes, geometry.contiguous_strides(sizes)


def pair(a: Term, b: Term, summed: list[int]) -> Term:
    """The product of two operands, summed over some dimensions, which stay with size 1."""
    sizes = tuple([n if m == 1 else m for m, n in zip(a[0], b[0], strict=True)])
    if not summed:
        return sizes, geometry.elementwise_strides(sizes, [a, b])
    both = [d for d in range(len(sizes)) if d not in summed and a[0][d] != 1 != b[0][d]]
    first = [d for d in range(len(sizes)) if d not in summed and a[0][d] != 1 == b[0][d]]
    second = [d for d in range(len(sizes)) if d not in summed and a[0][d] == 1]
    sizes = tuple([1 if d in summed else n for d, n in enumerate(sizes)])
    order = [*both, *first, *summed, *second]
    made = tuple([prod([sizes[d] for d in dims]) for dims in (both, first, second)])
    seen = tuple([sizes[d] for d in order])
    strides = geometry.view_strides(made, geometry.contiguous_strides(made), seen)
    assert strides is not None
    return sizes, tuple([strides[order.index(d)] for d in range(len(sizes))])
