"""What the entries of calls and of attributes of tensors are bound to.

Their sources (`kernels/calls.py`, `kernels/attributes.py`) are not read for it where their code stands on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernel import builtin
from rushlight._codegen.kernels import call_nodes, calls


class Recorded:
    """What an entry knows of the nodes of an operator, in the words of its table."""

    def __init__(
        self,
        node: type | None = None,
        pair: type | None = None,
        pair_at: int = -1,
        summed: bool = False,
        floating: Sequence[Any] = (),
        inputs: Sequence[int] = (),
        saved: Sequence[tuple[int, int]] = (),
        statics: Sequence[tuple[int, Any]] = (),
    ) -> None:
        self.node, self.pair, self.pair_at, self.summed = node, pair, pair_at, summed
        self.floating, self.inputs, self.saved, self.statics = floating, inputs, saved, statics


class Taken:
    """The calls that an entry takes: places of tensors (of a view, the place), which may be None, and may have
    a gradient, a bit for each; whether dtypes must be the same, and which they may be; of a result that lies as
    operands do how many numbers are among these, and the places of the others; of an operator that writes to its first
    input the order of the copy that it is made of out of place."""

    def __init__(
        self,
        tensors: int,
        optional: int = 0,
        wanted: int = 0,
        one_dtype: bool = False,
        dtypes: Sequence[Any] = (),
        operands: tuple[int, Sequence[int]] | None = None,
        copy: str = "",
    ) -> None:
        self.tensors, self.optional, self.wanted = tensors, optional, wanted
        self.one_dtype, self.dtypes, self.operands, self.copy = one_dtype, dtypes, operands, copy


def bind(
    op: Any,
    fixed: Sequence[int],
    taken: Taken,
    recorded: Recorded,
    results: type | None = None,
    entry: Any = None,
) -> Callable[..., Any]:
    """The builtin of the entry for an operator; `fixed`: its table up to FIXED, `results`: the class of the tuple of
    several outputs; `entry`: one of those above, by default what the operator is called by."""
    code = (entry or (calls.call_view if op.view else calls.call)).address()
    copy = np.ndarray.copy if taken.copy else None
    layout_operands = taken.operands
    values = [(what, id(v) if what == call_nodes.CONSTANT else v) for what, v in recorded.statics]
    kept = sum(1 for position, _ in recorded.saved if position != call_nodes.RESULT)
    lists = [
        [len(taken.dtypes), *map(id, taken.dtypes)],
        [len(recorded.floating), *map(id, recorded.floating)],
        [len(recorded.inputs), *recorded.inputs],
        [len(recorded.saved), kept, *chain(*recorded.saved)],
        [len(values), *chain(*values)],
        [-1]
        if layout_operands is None
        else [layout_operands[0], len(layout_operands[1]), *layout_operands[1]],
    ]
    starts = [call_nodes.LISTS + sum(map(len, lists[:k])) for k in range(len(lists))]
    nodes = [id(n) if n is not None else 0 for n in (recorded.node, recorded.pair)]
    outputs = 0 if results is None else len(op.outputs)
    fixed = [
        *fixed,
        id(op),
        outputs,
        id(results),
        taken.tensors,
        taken.optional,
        taken.wanted,
        taken.one_dtype,
        0 if copy is None else id(copy),
        taken.copy == "K",
    ]
    fixed += [bool(recorded.floating), *nodes, recorded.pair_at, recorded.summed, *starts]
    table = np.array([*fixed, *chain(*lists)], np.int64)
    native.keep_alive((taken, recorded, table, op, results, copy))
    return builtin(op.name, code, table, keywords=True)


def bind_getter(name: str, address: int, offsets: tuple[int, int], objects: tuple) -> Callable:
    """The builtin of the entry of an attribute; `objects` stand in its table behind the offsets, and live as long as the
    process."""
    table = np.array([*offsets, *map(id, objects)], np.int64)
    native.keep_alive((objects, table))
    return builtin(name, address, table)
