"""What is done to a module before LLVM sees it, in the order of `PASSES`.

Only what makes the representation smaller, for those who read it and for LLVM, which does the rest.
A pass changes a module in place and leaves it well-formed (`check.py`) and meaning the same
(`interpret.py`), to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight._codegen import ir
from rushlight._codegen.types import Type
from rushlight._codegen.visitor import (  # fmt: skip
    FIELDS,
    Uses,
    arguments,
    blocks,
    names,
    parts,
    rewritten,
    statements,
    variables,
)


def forward(module: ir.Module) -> None:
    """Variables that stand for another variable, or for a constant, are replaced by it."""
    for function in module.functions:
        uses = Uses(function)
        found: dict[str, Any] = {}
        _forwarded(function.body, found, uses, {p.name for p in function.parameters})
        if found:
            _rewrite(function.body, lambda e: found.get(e.name, e) if type(e) is ir.Var else e)


def fold(module: ir.Module) -> None:
    """Operations on constants become their results, branches on constants the branch that runs;
    loops that never run go, and what stands behind a break or a return."""
    for function in module.functions:
        function.body = _folded(function.body)


def prune(module: ir.Module) -> None:
    """Variables that nothing reads go; calls stay."""
    for function in module.functions:
        reads: dict[str, int] = {}
        for s in statements(function.body):
            for e in parts(s):
                for v in variables(e):
                    reads[v.name] = reads.get(v.name, 0) + 1
        while _pruned(function.body, reads):
            pass


PASSES: list[Callable[[ir.Module], None]] = [forward, fold, prune]


def _rewrite(body: list[ir.Stmt], change: Callable[[Any], Any]) -> None:
    for s in statements(body):
        _edit(s, change)


def _edit(s: ir.Stmt, change: Callable[[Any], Any]) -> None:
    for name in FIELDS[type(s)]:
        e = getattr(s, name)
        if e is not None:
            new = rewritten(e, change)
            if new is not e:
                setattr(s, name, new)


# Constants.

EXACT = {
    "add", "sub", "mul", "div", "rem", "neg", "and", "or", "xor", "not", "shl", "shr", "eq", "ne",
    "lt", "le", "gt", "ge", "select", "splat",
}  # fmt: skip
NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}


def _constant(e: Any) -> Any:
    """What an expression on constants gives, if that is one number other than NaN."""
    kind = type(e)
    if kind is ir.Op:
        if e.name not in EXACT or not e.args:
            return _simpler(e)
        for a in e.args:
            if type(a) is not ir.Const:
                return _simpler(e)
        b = e.args[-1].value
        if e.name in ("div", "rem") and not e.type.is_float and b in (0, -1):
            return e  # by -1: the least number has no negative
        if e.name in ("shl", "shr") and not 0 <= b < 8 * e.type.scalar.size:
            return e
    elif kind is not ir.Cast or type(e.arg) is not ir.Const:
        return e
    elif e.arg.type.is_float and e.type.scalar.kind in "iu" and not _fits(e.arg.value, e.type):
        return e
    return _computed(e)


def _computed(e: Any) -> Any:
    import numpy as np

    from rushlight._codegen.interpret import _Run

    try:
        with np.errstate(all="ignore"):
            value = np.asarray(_Run(ir.Module([]), {}).value(e))
    except OverflowError:  # a constant that its type does not hold: LLVM takes its low bits
        return e
    one = value.reshape(-1)[0]
    if e.type.is_float and one != one:
        return e  # which NaN it is, is for the machine to say
    kind: Any = {"f": float, "b": bool}.get(e.type.scalar.kind, int)
    return ir.Const(kind(one), e.type)


def _fits(value: float, t: Type) -> bool:
    size = 8 * t.scalar.size
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1)) if t.scalar.kind == "i" else (0, 2**size)
    return low <= value < high


def _simpler(e: ir.Op) -> Any:
    """Operations of integers that change nothing; a pointer 0 elements further; a known choice."""
    if e.name == "select" and type(e.args[0]) is ir.Const:
        return e.args[1] if e.args[0].value else e.args[2]
    if len(e.args) != 2 or type(e.args[1]) is not ir.Const:
        return e
    b = e.args[1].value
    if e.name == "offset":
        return e if b else e.args[0]
    if e.type.scalar.kind in "iu" and e.args[0].type is e.type and NEUTRAL.get(e.name) == b:
        return e.args[0]
    return e


def _folded(body: list[ir.Stmt]) -> list[ir.Stmt]:
    out: list[ir.Stmt] = []
    for s in body:
        _edit(s, _constant)
        for inner in blocks(s):
            inner[:] = _folded(inner)
        if isinstance(s, ir.If):
            if type(s.condition) is ir.Const:
                out += s.then if s.condition.value else s.otherwise
            elif s.then or s.otherwise:
                out.append(s)
        elif isinstance(s, ir.While) and type(s.condition) is ir.Const and not s.condition.value:
            pass
        elif isinstance(s, ir.For) and _never(s):
            out.append(ir.Let(s.name, s.start))
        else:
            out.append(s)
        if out and isinstance(out[-1], (ir.Break, ir.Return)):
            break
    return out


def _never(s: ir.For) -> bool:
    if type(s.start) is not ir.Const or type(s.stop) is not ir.Const:
        return False
    return s.start.value >= s.stop.value if s.step > 0 else s.start.value <= s.stop.value


# Variables.


def _forwarded(body: list[ir.Stmt], found: dict[str, Any], uses: Uses, seen: set[str]) -> None:
    """`a = b` goes where `a` is set only here and read only further on in this list, and `b`, set
    before, stays what it is."""
    out = []
    for s in body:
        if isinstance(s, ir.Let) and uses.sets[s.name] == 1 and s.name not in uses.read_outside:
            value = s.value
            if type(value) is ir.Var:
                value = found.get(value.name, value)
                fixed = type(value) is ir.Const or (
                    value.name in seen and uses.sets[value.name] == 1
                )
            else:
                fixed = type(value) is ir.Const
            if fixed and s.name not in seen:
                found[s.name] = value
                continue
        seen.update(names(s))
        for inner in blocks(s):
            _forwarded(inner, found, uses, seen)
        out.append(s)
    body[:] = out


def _pruned(body: list[Any], reads: dict[str, int]) -> bool:
    """From the last statement to the first, so that what a variable is made of goes with it."""
    dropped = False
    out: list[Any] = []
    for s in reversed(body):
        kind = type(s)
        if (kind is ir.Let or kind is ir.Array) and not reads.get(s.name):
            dropped = True
            if kind is ir.Let:
                if any(type(e) is ir.Call for e in _all(s.value)):
                    out.append(ir.Do(s.value))
                else:
                    for v in variables(s.value):
                        reads[v.name] -= 1
            continue
        for inner in blocks(s):
            dropped |= _pruned(inner, reads)
        out.append(s)
    body[:] = out[::-1]
    return dropped


def _all(e: Any) -> Iterator[Any]:
    yield e
    for a in arguments(e):
        yield from _all(a)
