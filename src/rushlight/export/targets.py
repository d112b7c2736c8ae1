"""Targets of nodes as files of exported programs name them. Only operators, functions of `torch.nn.functional` and
arithmetic are found by their names."""

from __future__ import annotations

import operator
from typing import Any

import rushlight
from rushlight.dispatch.aten_arguments import CALLS
from rushlight.dispatch.index import FUNCTIONS
from rushlight.dispatch.overloads import OpOverload
from rushlight.export.calls import target_named
from rushlight.fx.node import Node
from rushlight.library import OPERATORS

__all__ = ["operator_named", "target_name"]

_ARITHMETIC = {
    name: getattr(operator, name)
    for name in "add sub mul floordiv truediv mod pow neg getitem".split()
}
# Operators behind public functions of other names.
_INNER = frozenset(
    "_pack_padded_sequence _pad_packed_sequence _unsafe_view reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad1d replication_pad2d replication_pad3d".split()
)
_REFUSED = frozenset(
    "from_file apply_ map_ map2_ tofile numpy set_ share_memory_ pin_memory".split()
)
_OPS = "torch.ops."


def target_name(node: Node) -> str:
    """The name of what a node calls, as PyTorch has it. RuntimeError for what cannot be found by a name."""
    target: Any = node.target
    if target is rushlight.ops.higher_order.cond:
        return f"{_OPS}higher_order.cond"
    if isinstance(target, OpOverload):
        if target.namespace == "rushlight":
            raise RuntimeError(
                f"{node.format_node()}: {target} is an operator inside of Rushlight, which no file may name; save the program "
                "as it was before run_decompositions"
            )
        return f"{_OPS}{target}"
    name = target.__name__
    if _ARITHMETIC.get(name) is target:
        return f"_operator.{name}"
    for namespace, owner in (
        ("torch.nn.functional", rushlight.nn.functional),
        ("torch", rushlight),
        ("torch.Tensor", rushlight.Tensor),
    ):
        if getattr(owner, name, None) is target:
            return f"{namespace}.{name}"
    raise RuntimeError(f"{node.format_node()}: {target} cannot be saved")


def operator_named(text: str) -> Any:
    """What `target_name` named; RuntimeError for any other function."""
    where, _, name = text.removeprefix(_OPS).partition(".")
    if text == f"{_OPS}higher_order.cond":
        return rushlight.ops.higher_order.cond
    if where == "_operator" and name in _ARITHMETIC:
        return _ARITHMETIC[name]
    if not text.startswith(_OPS):
        if where == "torch" and (found := _function(name)) is not None:
            return found
    elif where == "aten":
        name, _, overload = name.partition(".")
        plain = name.rstrip("_") or name  # PyTorch's graphs of trainings hold writes
        if (
            _allowed(plain)
            and name not in _REFUSED
            and (found := target_named(name, overload)) is not None
        ):
            return found
    else:
        declared = OPERATORS.get(f"{where}::{name.removesuffix('.default').replace('.', '::')}")
        if declared is not None:
            return declared.default
    raise RuntimeError(f"{text!r} is no operator that an exported program may call")


def _function(path: str) -> Any:
    """The function `nn.functional.<name>`, `Tensor.<name>` or `<name>` of `torch`; None for others."""
    namespace, _, name = path.rpartition(".")
    if namespace == "nn.functional" and path in FUNCTIONS:
        return getattr(rushlight.nn.functional, name)
    if namespace == "" and name in FUNCTIONS and _allowed(name):
        return getattr(rushlight, name)
    if namespace == "Tensor" and name not in _REFUSED and (name in FUNCTIONS or path in FUNCTIONS):
        return getattr(rushlight.Tensor, name)
    return None


def _allowed(name: str) -> bool:
    where = ("", "nn.functional.", "special.", "Tensor.")
    apart = (
        name.replace("linalg_", "linalg.", 1)
        .replace("fft_", "fft.", 1)
        .replace("special_", "special.", 1)
    )
    known = (
        name in CALLS
        or name in _INNER
        or apart in FUNCTIONS
        or any(w + name in FUNCTIONS for w in where)
    )
    return known and name not in _REFUSED
