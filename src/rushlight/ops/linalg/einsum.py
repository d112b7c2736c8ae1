"""`einsum`: sums of products, named by letters.

An equation is worked off pair by pair. Each pair becomes one (batched) matrix product: the shared
letters that stay are the batch, the shared letters that go are the inner dimension. Which pair comes
first is chosen greedily by the size of what it leaves. What an equation leads to for given shapes is
found once and kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numpy import ndarray

from rushlight._backends import cpu as xp
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import overridable
from rushlight.dispatch.registry import Arrays, composite, public

ELLIPSIS = 52  # labels: 0..51 for A-Z, a-z; from 52 the dimensions that `...` stands for


@public()
def einsum(*args: Any) -> Any:
    """Sum products of the operands' elements over the letters that the output does not name.

    `einsum("ij,jk->ik", a, b)` or, with labels 0..51 in lists, `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
    A repeated letter takes the diagonal, `...` stands for dimensions that are broadcast; without `->`
    the letters that occur once make the output, in alphabetical order.

    >>> import rushlight as torch
    >>> torch.einsum("i,i", torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if len(args) == 2 and isinstance(args[1], (list, tuple)) and isinstance(args[0], str):
        args = (args[0], *args[1])  # a handler gets the operands one by one
    return overridden(*args)


def of_operands(*args: Any) -> Any:
    """`einsum` after a handler was asked."""
    operands: Any = ()
    if len(args) > 1 and isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    elif len(args) > 1:
        equation, operands = from_sublists(args)
    if not len(operands):
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    return contract(equation, list(operands))


overridden = overridable(of_operands, face=einsum)


def letter(label: int) -> str:
    if not 0 <= label < ELLIPSIS:
        raise ValueError(f"einsum(): subscript {label} is not within the valid range [0, 52)")
    return chr(65 + label if label < 26 else 71 + label)


def from_sublists(args: tuple) -> tuple[str, tuple]:
    """The equation of the form with lists of labels."""

    def text(sublist):
        return "".join("..." if k is Ellipsis else letter(k) for k in sublist)

    n = len(args) // 2
    equation = ",".join(text(s) for s in args[1 : 2 * n : 2])
    if len(args) % 2:
        equation += "->" + text(args[-1])
    return equation, args[: 2 * n : 2]


@composite(where="internal", name="einsum")
def contract(equation: str, operands: Arrays):
    """The operands contracted as the equation says."""
    key = (equation, *[t._array.shape for t in operands])
    steps = plans.get(key)
    if steps is None:
        if len(plans) > 500:
            plans.clear()
        steps = plans[key] = plan(equation, [tuple(t.shape) for t in operands])
    given, operands = operands, list(operands)
    for name, i, *how in steps:
        if name == "pair":
            j, *how = how
            x, y = operands[i], operands[j]
            for at in sorted((i, j), reverse=True):
                del operands[at]
            operands.insert(0, product(x, y, *how))
        elif name == "diagonal":
            operands[i] = operands[i].diagonal(0, *how)
        elif name == "sum":
            operands[i] = operands[i].sum(*how)
        elif name == "shape":
            operands[i] = operands[i].reshape(how[0])
        else:
            operands[i] = operands[i].permute(how[0])
    r = operands[0]
    if len(key) > 2 and r._array.__class__ is ndarray and 1 in r._array.shape and r._array.size:
        if not thread.dispatch_modes:  # they see operators alone, and these give no such strides
            name_sizes_1(r, equation, given)
    return r


def name_sizes_1(r: Tensor, equation: str, operands: list[Tensor]) -> None:
    """Give the result PyTorch's strides where these differ in dimensions of one element alone."""
    order = wanted_strides(equation, tuple([(t._array.shape, t._strides) for t in operands]))
    own = r._strides
    if order != own:
        if all(s == t or n == 1 for s, t, n in zip(order, own, r._array.shape, strict=True)):
            r._array = xp.with_strides(r._array, order)


@lru_cache(1024)
def wanted_strides(equation: str, layouts: tuple) -> tuple[int, ...]:
    """The strides of PyTorch's result, for operands of these (shape, strides)."""
    from rushlight.ops.linalg.einsum_layout import result_strides

    labels, out = parse(equation, [len(shape) for shape, _ in layouts])
    return result_strides(tuple(map(tuple, labels)), tuple(out), layouts)


plans: dict[tuple, list] = {}


def product(x, y, x_order, x_shape, y_order, y_shape, matrices, shape=None, order=None):
    """One pair: both permuted and reshaped, multiplied by elements or as matrices, shaped and permuted back."""
    if x_order is not None:
        x = x.permute(x_order)
    if y_order is not None:
        y = y.permute(y_order)
    if x._array.shape != x_shape:
        x = x.reshape(x_shape)
    if y._array.shape != y_shape:
        y = y.reshape(y_shape)
    r = x * y if not matrices else x.mm(y) if len(x_shape) == 2 else x.bmm(y)
    if shape is not None:
        r = r.reshape(shape)
    return r if order is None else r.permute(order)


# -- the equation ----------------------------------------------------------------------------------


def parse(equation: str, ndims: list[int]) -> tuple[list[list[int]], list[int]]:
    """(labels of each operand, labels of the output)."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) > len(ndims):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(texts) < len(ndims):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    starts = [sum(len(t) + 1 for t in texts[:i]) for i in range(len(texts))]
    parsed = [subscripts(t, f"for operand {i}", starts[i]) for i, t in enumerate(texts)]
    covered = 0
    for i, (labels, n) in enumerate(zip(parsed, ndims, strict=True)):
        named = len(labels) - (None in labels)
        if named > n or (named < n and None not in labels):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) "
                + ("is more than" if None in labels else "does not match")
                + f" the number of dimensions ({n}) for operand {i}"
                + ("" if None in labels else " and no ellipsis was given")
            )
        covered = max(covered, n - named if None in labels else 0)
    everything = [*range(ELLIPSIS, ELLIPSIS + covered)]
    full = []
    for labels, n in zip(parsed, ndims, strict=True):
        if None in labels:
            at = labels.index(None)
            k = n - len(labels) + 1
            labels = labels[:at] + everything[covered - k :] + labels[at + 1 :]
        full.append(labels)
    counts: dict[int, int] = {}
    for labels in full:
        for k in labels:
            counts[k] = counts.get(k, 0) + 1
    if not arrow:
        return full, everything + sorted(k for k, c in counts.items() if c == 1 and k < ELLIPSIS)
    out = subscripts(right, "for output", len(left) + 2)
    for k in out:
        if k is not None and k not in counts:
            raise RuntimeError(
                f"einsum(): output subscript {letter(k)} does not appear in the equation for any "
                "input operand"
            )
        if out.count(k) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {letter(k)} appears more than once in the output"
            )
    if None in out:
        at = out.index(None)
        out = out[:at] + everything + out[at + 1 :]
    return full, out


def subscripts(text: str, where: str, start: int) -> list:
    """The labels of one operand, whose text begins at `start` of the equation; None for the ellipsis."""
    labels: list = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if None in labels:
                again = (
                    "but an ellipsis (...)" if where == "for output" else "for which an ellipsis"
                )
                raise RuntimeError(f"einsum(): found '.' {where} {again} was already found")
            if text[i : i + 3] != "...":
                tail = " (...)" if where == "for output" else ""
                raise RuntimeError(
                    f"einsum(): found '.' {where} that is not part of any ellipsis{tail}"
                )
            labels.append(None)
            i += 2
        elif c.isascii() and c.isalpha():
            labels.append(ord(c) - (65 if c < "a" else 71))
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
        i += 1
    return labels


# -- the steps -------------------------------------------------------------------------------------


def plan(equation: str, shapes: list[tuple[int, ...]]) -> list[tuple]:
    """The steps that lead from operands of these shapes to the result."""
    all_labels, out = parse(equation, [len(s) for s in shapes])
    steps: list[tuple] = []
    terms: list[dict[int, int]] = []  # for each operand: label -> size, in the order of dimensions
    sizes: dict[int, int] = {}
    for i, (labels, shape) in enumerate(zip(all_labels, shapes, strict=True)):
        labels, lengths = list(labels), list(shape)
        for k in [k for k in dict.fromkeys(labels) if labels.count(k) > 1]:
            while labels.count(k) > 1:
                a = labels.index(k)
                b = labels.index(k, a + 1)
                if lengths[a] != lengths[b]:
                    raise RuntimeError(
                        f"einsum(): subscript {letter(k)} is repeated for operand {i} but the sizes "
                        f"don't match, {lengths[b]} != {lengths[a]}"
                    )
                steps.append(("diagonal", i, a, b))
                n = lengths[a]
                for at in (b, a):
                    del labels[at], lengths[at]
                labels.append(k)
                lengths.append(n)
        for k, n in zip(labels, lengths, strict=True):
            if sizes.get(k, 1) == 1:
                sizes[k] = n
            elif n not in (1, sizes[k]):
                name = letter(k) if k < ELLIPSIS else "..."
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {i} which does not "
                    f"broadcast with previously seen size {sizes[k]}"
                )
        terms.append(dict(zip(labels, lengths, strict=True)))
    dims = [*out, *sorted(k for k in sizes if k not in out)]
    found = [Term([t.get(k, 1) for k in dims], [dims.index(k) for k in t]) for t in terms]
    return contraction(steps, found, len(out))


class Term(NamedTuple):
    """An operand: its size in each dimension of the whole problem, and which dimensions it has, in its order."""

    sizes: list[int]
    axes: list[int]


def contraction(steps: list, terms: list[Term], kept: int) -> list:
    """The steps, and those that contract operands in the same dimensions, of which the first `kept` stay.

    The dimensions that stay come first, in the order of the output: the results have the strides of PyTorch's.
    """
    if len(terms) == 1:
        axes = in_order(steps, 0, terms[0].axes)
        if kept < len(axes):
            steps.append(("sum", 0, [*range(kept, len(axes))]))
        return steps
    counts = [
        sum(n != 1 for n in lengths) for lengths in zip(*[t.sizes for t in terms], strict=True)
    ]
    while len(terms) > 1:
        i, j = best_pair([t.sizes for t in terms], kept) if len(terms) > 2 else (0, 1)
        x, y = terms[i].sizes, terms[j].sizes
        inner = []
        alone: dict[int, list[int]] = {i: [], j: []}
        for d in range(kept, len(x)):
            if x[d] != 1 and y[d] != 1:
                counts[d] -= 1
                if counts[d] == 1:
                    inner.append(d)
                    counts[d] = 0
            elif counts[d] == 1 and (x[d] != 1 or y[d] != 1):
                alone[i if x[d] != 1 else j].append(d)
                counts[d] = 0
        for at, gone in alone.items():
            if gone:
                sizes, axes = terms[at][0], in_order(steps, at, terms[at].axes)
                steps.append(("sum", at, [axes.index(d) for d in gone], True))
                terms[at] = Term([1 if d in gone else n for d, n in enumerate(sizes)], axes)
        result = pair(steps, i, j, terms[i], terms[j], inner, kept)
        terms = [result, *(t for at, t in enumerate(terms) if at not in (i, j))]
    sizes, axes = terms[0]
    if axes != [*range(kept)]:
        steps.append(("shape", 0, sizes[:kept]))
    return steps


def size(lengths) -> int:
    r = 1
    for n in lengths:
        r *= n
    return r


def best_pair(terms: list[list[int]], kept: int) -> tuple[int, int]:
    """The pair whose product saves most memory, and among those the one of least work."""
    best, choice = None, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            rest = [t for m, t in enumerate(terms) if m not in (i, j)]
            both = [*map(max, terms[i], terms[j])]
            left = size(n for d, n in enumerate(both) if d < kept or any(t[d] != 1 for t in rest))
            cost = (left - size(terms[i]) - size(terms[j]), size(both))
            if best is None or cost < best:
                best, choice = cost, (i, j)
    return choice


def pair(steps: list, i: int, j: int, a: Term, b: Term, inner: list[int], kept: int) -> Term:
    """Add the step that multiplies operands `i` and `j` and sums over the dimensions `inner`; the product."""
    x, y = a.sizes, b.sizes
    result = [n if m == 1 else m for m, n in zip(x, y, strict=True)]
    if not inner:
        orders = [permuted([t.axes.index(d) for d in sorted(t.axes)]) for t in (a, b)]
        steps.append(("pair", i, j, orders[0], tuple(x), orders[1], tuple(y), False))
        return Term(result, [*range(len(x))])
    free = [d for d in range(len(x)) if d not in inner and (d < kept or result[d] != 1)]
    batch = [d for d in free if x[d] != 1 and y[d] != 1]
    rows = [d for d in free if x[d] != 1 and y[d] == 1]
    columns = [d for d in free if x[d] == 1]
    others = [d for d in range(len(x)) if x[d] == 1 and d not in inner]
    if rows and others and others[-1] < rows[0]:  # then the product lies as the output does
        a, b, x, y, rows, columns, i, j = b, a, y, x, columns, rows, j, i
    lead = [size(x[d] for d in batch)] if batch else []
    n, k, m = size(x[d] for d in rows), size(x[d] for d in inner), size(y[d] for d in columns)
    order = [*batch, *rows, *columns]
    shape = [result[d] for d in order]
    steps.append(
        ("pair", i, j,
         brought(a, [*batch, *rows, *inner]), (*lead, n, k),
         brought(b, [*batch, *inner, *columns]), (*lead, k, m), True,
         None if shape == [*lead, n, m] else shape, permuted([order.index(d) for d in free]))
    )  # fmt: skip
    return Term([1 if d in inner else r for d, r in enumerate(result)], free)


def brought(term: Term, first: list[int]) -> list[int] | None:
    """The permutation that brings dimensions into an order; others have one element and come last."""
    order = [d for d in first if d in term.axes]
    order += [d for d in term.axes if d not in order]
    return permuted([term.axes.index(d) for d in order])


def in_order(steps: list, i: int, axes: list[int]) -> list[int]:
    """Add the step that brings the dimensions of operand `i` into their order, which is given back."""
    order = permuted([axes.index(d) for d in sorted(axes)])
    if order is not None:
        steps.append(("permute", i, order))
    return sorted(axes)


def permuted(order: list[int]) -> list[int] | None:
    """A permutation of dimensions; None for one that changes nothing."""
    return None if order == list(range(len(order))) else order
