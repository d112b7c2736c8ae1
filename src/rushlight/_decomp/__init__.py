"""`torch._decomp`: operators written in others, in tables for `make_fx` and `ExportedProgram.run_decompositions`.

>>> import rushlight as torch
>>> from rushlight._decomp import get_decompositions
>>> from rushlight.fx.experimental.proxy_tensor import make_fx
>>> table = get_decompositions([torch.ops.aten.silu])
>>> [str(n.target) for n in make_fx(torch.nn.functional.silu, table)(torch.ones(2)).graph.nodes][1:-1]
['aten.sigmoid.default', 'aten.mul.Tensor']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rushlight
from rushlight._decomp.decompositions import CORE, OTHERS
from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket
from rushlight.utils import _pytree as pytree

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions",
    "register_decomposition", "remove_decompositions",
]  # fmt: skip


def _table(*sources: dict[str, Callable]) -> dict[OpOverload, Callable]:
    """{overload: function}; a name without an overload stands for the default."""
    found = {}
    for source in sources:
        for name, function in source.items():
            short, _, overload = name.partition(".")
            packet = getattr(rushlight.ops.aten, short)
            found[getattr(packet, overload or "default")] = function
    return found


decomposition_table: dict[Any, Callable] = _table(CORE, OTHERS)
global_decomposition_table: dict[str, dict[Any, Callable]] = {
    "post_autograd": decomposition_table, "pre_autograd": {}, "meta": {},
}  # fmt: skip


def register_decomposition(
    aten_op: Any, registry: dict | None = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable:
    """A decorator that puts a function into the table as the decomposition of an operator, or of several."""
    if type not in global_decomposition_table:
        raise AssertionError(
            f"type must be one of {{'post_autograd', 'pre_autograd', 'meta'}}, got {type}"
        )
    table = global_decomposition_table[type] if registry is None else registry

    def declare(function: Callable) -> Callable:
        for op in pytree.tree_leaves(aten_op):
            for overload in _asked(op):
                if overload in table and overload not in _BUILT_IN:
                    raise RuntimeError(f"multiple registrations for {overload}")
                table[overload] = function
        return function

    return declare


_BUILT_IN = frozenset(decomposition_table)


def _asked(op: Any) -> Sequence[Any]:
    """The overloads that are asked for by an overload, or by an operator with all of its overloads."""
    if isinstance(op, OpOverloadPacket):
        known = [each for each in decomposition_table if each.overloadpacket is op]
        return [*dict.fromkeys([op.default, *known])]
    return [op]


def get_decompositions(
    aten_ops: Iterable[OpOverload | OpOverloadPacket], type: str = "post_autograd"
) -> dict[OpOverload, Callable]:
    """{overload: function} for those of the operators that have a decomposition."""
    table = global_decomposition_table[type]
    return {o: table[o] for op in aten_ops for o in _asked(op) if o in table}


def remove_decompositions(
    decompositions: dict[Any, Callable], aten_ops: Iterable[OpOverload | OpOverloadPacket]
) -> None:
    """Take operators out of a table."""
    for op in aten_ops:
        for overload in _asked(op):
            decompositions.pop(overload, None)


def core_aten_decompositions() -> dict[OpOverload, Callable]:
    """The decompositions of operators that are not in PyTorch's core set: what is left is easier for a back end."""
    return _table(CORE)
