"""The native entry of reads and writes at any index (`kernels/any_index.py`).

at_index = bind(Tensor)
at_index(array, index)  # what stands there; None where the entry does not know the index
at_index(array, index, values, add)  # True where it has written, or added, the values
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin
from rushlight._codegen.kernels import any_index, places
from rushlight._codegen.native_entry import table_of, unbound
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import UNITS, of
from rushlight.core.dtype_sets import BOOL, F32, F64, I32, I64

ADDED = F32, F64, I64, I32


def moves() -> list[tuple[str, Any]]:
    """What the entry runs, in the order of its table."""
    return [
        *[("take", u) for u in UNITS.values()],
        *[("put", u) for u in UNITS.values()],
        *[("add", of(d)) for d in ADDED],
    ]


def bind(tensor: type) -> Callable[..., Any]:
    """The entry, for the class of tensors; one that takes nothing where there is no machine code."""
    from rushlight._codegen import native

    t = tensor.__new__(tensor)
    t._array = np.zeros(1)
    slot = abi.slot(t, t._array)
    if not (
        slot
        and native.available()
        and native.has_instructions()
        and abi.available()
        and abi.views_hold()
    ):
        return unbound

    def compile_move(which: int) -> None:
        how, unit = moves()[which]
        table[any_index.MOVES + which] = places.move_at.address(HOW=how, T=unit)

    known: Sequence[Any] = (tuple, slice, Ellipsis, tensor)
    dtypes = I64, I32, BOOL
    native.keep_alive((compile_move, known, dtypes, ADDED))
    words = [*map(id, known), slot, *map(id, dtypes), *[0] * len(moves()), *map(id, ADDED)]
    table = table_of(compile_move, *words)
    return builtin("at_index", any_index.at_index.address(), table)
