"""Runs the intermediate representation in Python: slowly, and as it is defined.

What compiled kernels are compared with. Numbers are NumPy's of their own types, vectors are small
arrays, a pointer is an array with a place in it, so that reading or writing outside is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._codegen import ir
from rushlight._codegen.language import NEAR
from rushlight._codegen.types import Type, b1


class Pointer:
    """A place in an array of one dimension."""

    def __init__(self, memory: np.ndarray, at: int = 0) -> None:
        self.memory, self.at = memory, at

    def load(self, t: Type, mask: np.ndarray | None) -> Any:
        if t.kind != "v":
            self._inside(np.array([0]))
            return self.memory[self.at].astype(t.np)
        if self.memory.ndim == 2:  # an array of vectors
            return self.memory[self.at].copy()
        where = np.arange(t.lanes) if mask is None else np.flatnonzero(mask)
        self._inside(where)
        out = np.zeros(t.lanes, t.scalar.np)
        out[where] = self.memory[self.at + where].astype(t.scalar.np)
        return out

    def store(self, value: Any, mask: np.ndarray | None) -> None:
        if np.ndim(value) == 0 or self.memory.ndim == 2:
            self._inside(np.array([0]))
            self.memory[self.at] = value
            return
        where = np.arange(len(value)) if mask is None else np.flatnonzero(mask)
        self._inside(where)
        self.memory[self.at + where] = value[where]

    def _inside(self, where: np.ndarray) -> None:
        places = self.at + where
        if len(places) and not (places.min() >= 0 and places.max() < len(self.memory)):
            raise IndexError(f"elements {places} of an array of {len(self.memory)}")


class _Break(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


def interpret(module: ir.Module, *args: Any) -> None:
    """Run a module's kernel on NumPy arrays, which it may change, and numbers."""
    kernel = module.functions[0]
    given = []
    for parameter, value in zip(kernel.parameters, args, strict=True):
        if parameter.type.kind == "p":
            given.append(Pointer(np.asarray(value).reshape(-1)))
        else:
            given.append(parameter.type.np.type(value))
    with np.errstate(all="ignore"):
        _call(module, kernel, given)


def _call(module: ir.Module, function: ir.Function, args: list[Any]) -> Any:
    names = {p.name: a for p, a in zip(function.parameters, args, strict=True)}
    try:
        _Run(module, names).body(function.body)
    except _Return as returned:
        return returned.value
    return None


class _Run:
    """One run of a function: its variables."""

    def __init__(self, module: ir.Module, names: dict[str, Any]) -> None:
        self.module, self.names = module, names

    def body(self, statements: list[ir.Stmt]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: ir.Stmt) -> None:
        value = self.value
        if isinstance(s, ir.Let):
            self.names[s.name] = value(s.value)
        elif isinstance(s, ir.Array):
            shape = (s.count, s.element.lanes) if s.element.kind == "v" else (s.count,)
            self.names[s.name] = Pointer(np.zeros(shape, s.element.scalar.np))
        elif isinstance(s, ir.Store):
            mask = None if s.mask is None else value(s.mask)
            value(s.pointer).store(value(s.value), mask)
        elif isinstance(s, ir.Do):
            value(s.value)
        elif isinstance(s, ir.For):
            stop, kind = value(s.stop), s.start.type.np.type
            self.names[s.name] = value(s.start)
            try:
                while self.names[s.name] < stop if s.step > 0 else self.names[s.name] > stop:
                    self.body(s.body)
                    self.names[s.name] = kind(self.names[s.name] + s.step)
            except _Break:
                pass
        elif isinstance(s, ir.While):
            try:
                while value(s.condition):
                    self.body(s.body)
            except _Break:
                pass
        elif isinstance(s, ir.If):
            self.body(s.then if value(s.condition) else s.otherwise)
        elif isinstance(s, ir.Break):
            raise _Break
        elif isinstance(s, ir.Return):
            raise _Return(None if s.value is None else value(s.value))
        else:
            count, grain = int(value(s.count)), int(value(s.grain)) % NEAR
            for k in reversed(range(0, count, grain)):  # an order that nobody may rely on
                names = dict(self.names)
                names[s.start], names[s.stop] = np.int64(k), np.int64(min(count, k + grain))
                _Run(self.module, names).body(s.body)

    def value(self, e: Any) -> Any:
        if isinstance(e, ir.Const):
            one = e.type.scalar.np.type(e.value)
            return np.full(e.type.lanes, one) if e.type.kind == "v" else one
        if isinstance(e, ir.Var):
            return self.names[e.name]
        if isinstance(e, ir.Load):
            mask = None if e.mask is None else self.value(e.mask)
            return self.value(e.pointer).load(e.type, mask)
        if isinstance(e, ir.Cast):
            return _kept(
                self.value(e.arg) != 0 if e.type.scalar is b1 else self.value(e.arg), e.type
            )
        if isinstance(e, ir.Call):
            functions = {f.name: f for f in self.module.functions if not f.separate}
            if e.name not in functions:
                raise NotImplementedError(f"{e.name or 'a function at an address'} is native code")
            return _call(self.module, functions[e.name], [self.value(a) for a in e.args])
        args = [self.value(a) for a in e.args]
        if e.name in POINTERS:
            return POINTERS[e.name](e, *args)
        return _kept(FUNCTIONS[e.name](e, *args), e.type)


def _kept(value: Any, t: Type) -> Any:
    """A value in its type."""
    if t.kind == "v":
        return np.asarray(value).astype(t.scalar.np)
    return np.asarray(value).astype(t.np)[()]


def _divide(e: ir.Op, a: Any, b: Any) -> Any:
    if e.type.is_float:
        return a / b
    down = a // b  # towards minus infinity; one more where that is not towards 0
    return down + ((a - down * b != 0) & ((a < 0) != (b < 0)))


def _tree(e: ir.Op, a: np.ndarray) -> Any:
    while len(a) > 1:
        a = a[: len(a) // 2] + a[len(a) // 2 :]
    return a[0]


def _fma(e: ir.Op, a: Any, b: Any, c: Any) -> Any:
    given = np.broadcast_arrays(a, b, c)
    found = [_fma_of(*(float(v) for v in each), e.type) for each in zip(*map(np.ravel, given))]
    return np.reshape(found, given[0].shape).astype(e.type.scalar.np)


def _fma_of(a: float, b: float, c: float, t: Type) -> float:
    """a * b + c rounded once."""
    from fractions import Fraction
    from math import isfinite, nextafter

    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return c if isfinite(a) and isfinite(b) else a * b + c  # a * b may overflow on its own
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # of the right sign
    try:
        near = float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
    if t.scalar.size == 4 and near != exact and not int(np.float64(near).view(np.int64)) & 1:
        # Rounded to odd, so that rounding once more to f32 is as if it had been done at once.
        near = nextafter(near, float("inf") if exact > near else float("-inf"))
    return near


def _pairs(e: ir.Op, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    low = (a << 16).view(np.float32) * (b << 16).view(np.float32)
    high = (a & -65536).view(np.float32) * (b & -65536).view(np.float32)
    return c + high + low


def _insert(e: ir.Op, a: np.ndarray, at: Any, new: Any) -> np.ndarray:
    out = a.copy()
    out[at] = new
    return out


def _shift_right(e: ir.Op, a: Any, b: Any) -> Any:
    return np.right_shift(a, b)


def _bits(e: ir.Op, a: Any) -> Any:
    if e.type.kind == "p":
        element = e.type.element
        assert element is not None
        memory = a.memory.view(element.np)
        return Pointer(memory, a.at * a.memory.itemsize // element.np.itemsize)
    return (
        np.asarray(a).view(e.type.scalar.np)[()] if e.type.kind != "v" else a.view(e.type.scalar.np)
    )


def _gather(e: ir.Op, pointer: Pointer, offsets: np.ndarray, mask: np.ndarray) -> Any:
    where = np.flatnonzero(mask)
    out = np.zeros(len(offsets), e.type.scalar.np)
    for i in where:
        out[i] = Pointer(pointer.memory, pointer.at + int(offsets[i])).load(e.type.scalar, None)
    return out


def _offset(e: ir.Op, pointer: Pointer, by: Any) -> Pointer:
    return Pointer(pointer.memory, pointer.at + int(by))


def _select(e: ir.Op, c: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Pointer):
        return a if c else b
    return np.where(c, a, b)


POINTERS = {
    "offset": _offset,
    "bits": _bits,
    "gather": _gather,
    "prefetch": lambda e, p: None,
}
FUNCTIONS = {
    "add": lambda e, a, b: a + b,
    "sub": lambda e, a, b: a - b,
    "mul": lambda e, a, b: a * b,
    "div": _divide,
    "rem": lambda e, a, b: np.fmod(a, b),
    "neg": lambda e, a: -a,
    "and": lambda e, a, b: a & b,
    "or": lambda e, a, b: a | b,
    "xor": lambda e, a, b: a ^ b,
    "not": lambda e, a: ~a,
    "shl": lambda e, a, b: np.left_shift(a, b),
    "shr": _shift_right,
    "eq": lambda e, a, b: a == b,
    "ne": lambda e, a, b: a != b,
    "lt": lambda e, a, b: a < b,
    "le": lambda e, a, b: a <= b,
    "gt": lambda e, a, b: a > b,
    "ge": lambda e, a, b: a >= b,
    "select": _select,
    "fma": _fma,
    "sqrt": lambda e, a: np.sqrt(a),
    "fabs": lambda e, a: np.abs(a),
    "floor": lambda e, a: np.floor(a),
    "ceil": lambda e, a: np.ceil(a),
    "trunc": lambda e, a: np.trunc(a),
    "rint": lambda e, a: np.rint(a),
    "copysign": lambda e, a, b: np.copysign(a, b),
    "splat": lambda e, a: np.full(e.type.lanes, a),
    "lane": lambda e, a, at: a[at],
    "insert": _insert,
    "bf16_pairs": _pairs,
    "shuffle": lambda e, a, b, *which: np.concatenate([a, b])[list(which)],
    "iota": lambda e: np.arange(e.type.lanes),
    "sum": _tree,
    "max": lambda e, a: np.fmax.reduce(a),
    "min": lambda e, a: np.fmin.reduce(a),
    "any": lambda e, a: a.any(),
}
