"""`einsum`: sums of products, named by letters.

An equation is worked off pair by pair. Each pair becomes one (batched) matrix product: the shared
letters that stay are the batch, the shared letters that go are the inner dimension. Which pair comes
first is chosen greedily by the size of what it leaves. What an equation leads to for given shapes is
found once and kept.
"""

from __future__ import annotations

from typing import Any

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
    operands = list(operands)
    for name, i, *how in steps:
        if name == "pair":
            j, *how = how
            x, y = operands[i], operands[j]
            for at in sorted((i, j), reverse=True):
                del operands[at]
            operands.append(product(x, y, *how))
        elif name == "diagonal":
            operands[i] = operands[i].diagonal(0, *how)
        elif name == "sum":
            operands[i] = operands[i].sum(how[0])
        elif name == "squeeze":
            operands[i] = operands[i].squeeze(how[0])
        else:
            operands[i] = operands[i].permute(how[0])
    return operands[0]


plans: dict[tuple, list] = {}


def product(x, y, kind, x_order, x_shape, y_order, y_shape, shape):
    """One pair: both permuted and reshaped, multiplied, and shaped again."""
    if x_order is not None:
        x = x.permute(x_order)
    if y_order is not None:
        y = y.permute(y_order)
    x, y = x.reshape(x_shape), y.reshape(y_shape)
    r = x * y if kind == "times" else x.mm(y) if kind == "mm" else x.bmm(y)
    return r if shape is None else r.reshape(shape)


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
    for i in range(len(terms)):
        others = {k for j, t in enumerate(terms) if j != i for k in t}
        terms[i] = summed(steps, i, terms[i], {*out, *others})
    while len(terms) > 1:
        i, j = best_pair(terms, out) if len(terms) > 2 else (0, 1)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        keep = {*out, *(k for t in rest for k in t)}
        result = pair(steps, i, j, terms[i], terms[j], keep, out)
        terms = [*rest, result]
    last = list(terms[0])
    order = [last.index(k) for k in out]
    if order != list(range(len(order))):
        steps.append(("permute", 0, order))
    return steps


def summed(steps: list, i: int, term: dict[int, int], keep: set[int]) -> dict[int, int]:
    """Sum operand `i` over the labels that nobody else needs."""
    gone = [at for at, k in enumerate(term) if k not in keep]
    if gone:
        steps.append(("sum", i, gone))
    return {k: n for k, n in term.items() if k in keep}


def size(lengths) -> int:
    r = 1
    for n in lengths:
        r *= n
    return r


def best_pair(terms: list[dict[int, int]], out: list[int]) -> tuple[int, int]:
    """The pair whose product saves most memory, and among those the one of least work."""
    best, choice = None, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            rest = {k for m, t in enumerate(terms) if m not in (i, j) for k in t}
            both = {**terms[i], **terms[j]}
            both = {k: max(terms[i].get(k, 1), terms[j].get(k, 1)) for k in both}
            left = size(n for k, n in both.items() if k in rest or k in out)
            cost = (left - size(terms[i].values()) - size(terms[j].values()), size(both.values()))
            if best is None or cost < best:
                best, choice = cost, (i, j)
    return choice


def pair(steps, i, j, x, y, keep, out) -> dict[int, int]:
    """Add the steps that multiply operands `i` and `j`; the labels of the product."""
    # A size of 1 that meets a larger one: there is nothing to sum it with, and nothing to match.
    for a, ta, tb in ((i, x, y), (j, y, x)):
        ones = [at for at, (k, n) in enumerate(ta.items()) if n == 1 and tb.get(k, 1) != 1]
        if ones:
            steps.append(("squeeze", a, ones))
            for k in [k for k, n in ta.items() if n == 1 and tb.get(k, 1) != 1]:
                del ta[k]
    x, y = summed(steps, i, x, {*keep, *y}), summed(steps, j, y, {*keep, *x})
    inner = [k for k in x if k in y and k not in keep]
    position = {k: p for p, k in enumerate(out)}

    def place(k):
        return position.get(k, len(out) + k)

    batch = sorted((k for k in x if k in y and k in keep), key=place)
    rows = sorted((k for k in x if k not in y), key=place)
    columns = sorted((k for k in y if k not in x), key=place)
    if not inner:
        every = sorted({**x, **y}, key=place)
        shapes = [[t.get(k, 1) for k in every] for t in (x, y)]
        orders = [order_of(t, [k for k in every if k in t]) for t in (x, y)]
        steps.append(("pair", i, j, "times", orders[0], shapes[0], orders[1], shapes[1], None))
        return {k: max(x.get(k, 1), y.get(k, 1)) for k in every}
    if columns and rows and place(columns[0]) < place(rows[0]):
        i, j, x, y, rows, columns = j, i, y, x, columns, rows
    n, k_size, m = (size(t[k] for k in ks) for t, ks in ((x, rows), (x, inner), (y, columns)))
    lead = [size(x[k] for k in batch)] if batch else []
    result = {k: x.get(k, y.get(k)) for k in [*batch, *rows, *columns]}
    shape = [*result.values()]
    steps.append(
        ("pair", i, j, "bmm" if batch else "mm",
         order_of(x, [*batch, *rows, *inner]), [*lead, n, k_size],
         order_of(y, [*batch, *inner, *columns]), [*lead, k_size, m],
         None if shape == [*lead, n, m] else shape)
    )  # fmt: skip
    return result


def order_of(term: dict[int, int], wanted: list[int]) -> list[int] | None:
    """The permutation of dimensions that brings the labels into the wanted order; None for none."""
    at = {k: p for p, k in enumerate(term)}
    order = [at[k] for k in wanted]
    return None if order == list(range(len(order))) else order
