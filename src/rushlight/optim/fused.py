"""An update rule as one loop over memory, compiled when it is worth it.

Why: an optimizer's step is limited by memory. NumPy goes over the parameters a dozen times for one
step of Adam, a loop that reads and writes each array once needs a fraction of that, and only machine
code makes such a loop. Any rule written for `rules` can become one: it is run once on stand-ins that
write down what it computes, and LLVM compiles that. Every operation rounds as NumPy's does, and
nothing is reordered or contracted, so the numbers are the same, bit for bit.

Nothing depends on it. Without llvmlite, on another Python than CPython, for a rule that computes what
a stand-in does not know, or when anything goes wrong while compiling, NumPy runs the rule as before.
llvmlite is loaded when the first loop is compiled, not before.

This is the compiler of one case, there until `rushlight.compiler` has its kernels for elementwise
loops; they will record these rules like any other function, and this file goes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

# The NumPy work after which compiling has paid for itself, about a tenth of a second: elements that a
# rule went over, and what each of its calls costs besides, in elements.
WORTH_IT = 40_000_000
CALL = 4000

_done = 0
_unavailable = sys.implementation.name != "cpython"  # elsewhere `id` is no address
_kernels: dict[tuple, Callable[..., None] | None] = {}
_refused: set[tuple] = set()  # kinds of rules that could not be traced or compiled
# The last kind of rule, its numbers, and what tracing them gave: all parameters of a group run with
# the same. Replaced as a whole, so that another thread sees the old one or the new one.
_last: tuple = (None, None)
_compiling = threading.Lock()
_engines: list[Any] = []  # compiled code lives as long as its engine


class Value:
    """Something computed in the loop: the number of the line that computes it."""

    def __init__(self, trace: Trace, line: int) -> None:
        self.trace, self.line = trace, line

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Value:
        a, b = self.line, self.trace.line_of(other)
        return self.trace.add(name, b, a) if swapped else self.trace.add(name, a, b)

    def __add__(self, other: Any) -> Value:
        return self._binary("fadd", other)

    def __sub__(self, other: Any) -> Value:
        return self._binary("fsub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("fsub", other, swapped=True)

    def __mul__(self, other: Any) -> Value:
        return self._binary("fmul", other)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._binary("fdiv", other, swapped=True)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return self.trace.add("fneg", self.line)

    def __gt__(self, other: Any) -> Value:
        return self._binary("fcmp ogt", other)

    def __lt__(self, other: Any) -> Value:
        return self._binary("fcmp olt", other)


class Array(Value):
    """One of the rule's arrays: in-place operations change which line holds its value."""

    def _put(self, value: Value) -> Array:
        self.line = self.trace.line_of(value)
        return self

    def __iadd__(self, other: Any) -> Array:
        return self._put(self + other)

    def __isub__(self, other: Any) -> Array:
        return self._put(self - other)

    def __imul__(self, other: Any) -> Array:
        return self._put(self * other)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put(value)


class Trace:
    """What a rule computes, line by line, and the functions of `xp` that it may use."""

    def __init__(self) -> None:
        self.lines: list[tuple] = []
        self.constants: list[float] = []

    def add(self, *line: Any) -> Value:
        self.lines.append(line)
        return Value(self, len(self.lines) - 1)

    def line_of(self, value: Any) -> int:
        if isinstance(value, Value):
            return value.line
        if type(value) not in (float, int, bool):  # NumPy's own numbers promote otherwise
            raise TypeError(f"no constant for a loop: {value!r}")
        self.constants.append(float(value))
        return self.add("constant", len(self.constants) - 1).line

    def sqrt(self, x: Value) -> Value:
        return self.add("sqrt", x.line)

    def abs(self, x: Value) -> Value:
        return self.add("fabs", x.line)

    def where(self, test: Value, a: Any, b: Any) -> Value:
        return self.add("select", test.line, self.line_of(a), self.line_of(b))

    def maximum(self, a: Value, b: Value) -> Value:
        # As NumPy's: a NaN in either comes through, and of two zeros the second.
        larger = self.add("fcmp ogt", a.line, b.line)
        nan = self.add("fcmp uno", a.line, a.line)
        return self.where(self.add("or", larger.line, nan.line), a, b)

    def clip(self, x: Value, low: float, high: float) -> Value:
        raised = self.where(x < low, low, x)
        return self.where(raised > high, high, raised)

    def sign(self, x: Value) -> Value:
        # The sum makes 0.0 of -0.0, and leaves NaN what it is.
        return self.where(x > 0.0, 1.0, self.where(x < 0.0, -1.0, x + 0.0))

    def zeros_like(self, x: Value) -> Value:
        return Value(self, self.line_of(0.0))


def run(rule: Callable[..., None], arrays: list[np.ndarray | None], numbers: tuple) -> bool:
    """Run the rule on float arrays of one shape; False where it is left to NumPy."""
    global _done, _last
    if _unavailable:
        return False
    first = arrays[0]
    size, dtype = first.size, first.dtype
    if _done < WORTH_IT:
        _done += size + CALL
        return False
    objects = []
    for array in arrays:
        if array is not None:
            # Contiguous, aligned, and writeable; of one size and dtype, which a parameter replaced
            # after its state was made is not: the loop would write to other memory.
            if not array.flags.carray or array.size != size or array.dtype is not dtype:
                return False
            objects.append(id(array))
    if size == 0:
        return True
    if objects[0] == objects[1]:  # a gradient that is its parameter: the loop assumes it is not
        return False
    kind, last = (rule, dtype, *map(type, arrays)), _last
    if last[0] != kind or last[1] != numbers:
        if kind in _refused:
            return False
        with _compiling:
            try:
                last = (kind, numbers, *_prepare(rule, arrays, dtype, numbers))
            except Exception:
                # A rule of someone else's that computes more than stand-ins can, or an LLVM that
                # does not take what we write: NumPy runs it.
                _refused.add(kind)
                return False
        _last = last
    kernel = last[2]
    if kernel is None:
        return False
    kernel(*objects, last[3], size)
    return True


def _prepare(
    rule: Callable[..., None], given: list[np.ndarray | None], dtype: np.dtype, numbers: tuple
) -> tuple:
    """The kernel for a rule with these numbers, and where the constants for it are."""
    pattern = tuple(array is not None for array in given)
    trace = Trace()
    arrays = [
        Array(trace, trace.add("load", i).line) if there else None
        for i, there in enumerate(pattern)
    ]
    first = [None if array is None else array.line for array in arrays]
    rule(trace, *arrays, *numbers)
    stores = tuple(
        (i, array.line)
        for i, (array, line) in enumerate(zip(arrays, first, strict=True))
        if array is not None and array.line != line
    )
    signature = (tuple(trace.lines), stores, pattern, dtype.char)
    if signature not in _kernels:
        _kernels[signature] = _compile(trace.lines, stores, pattern, dtype)
    constants = np.array(trace.constants, dtype)
    return _kernels[signature], constants.ctypes.data, constants


def _compile(lines: list[tuple], stores: tuple, pattern: tuple, dtype: np.dtype) -> Any:
    """The loop as a function of the arrays, by `id`, the constants' address and the size.

    An array's id is the address of its object, which holds the address of its memory right behind
    what every object has; reading it there is ten times faster than asking the array.
    """
    global _unavailable
    import ctypes

    probe = np.empty(1)
    at = ctypes.c_void_p.from_address(id(probe) + object.__basicsize__).value
    try:
        import llvmlite.binding as llvm
    except ImportError:
        at = None
    if at != probe.ctypes.data:
        _unavailable = True
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        # LLVM would use half of the vector registers' width otherwise.
        features=features + ",-prefer-256-bit" if "avx512f" in features else features,
        opt=3,
        jit=True,
    )
    module = llvm.parse_assembly(_text(lines, stores, pattern, dtype))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    addresses = [ctypes.c_void_p] * (sum(pattern) + 1)
    made = ctypes.CFUNCTYPE(None, *addresses, ctypes.c_int64)
    return made(engine.get_function_address("rule"))


def _text(lines: list[tuple], stores: tuple, pattern: tuple, dtype: np.dtype) -> str:
    """The loop as LLVM's text."""
    t = "float" if dtype.itemsize == 4 else "double"
    slots = [i for i, given in enumerate(pattern) if given]
    before, body = [], []
    for n, (name, *args) in enumerate(lines):
        line = f"%v{n} = "
        a = [f"%v{arg}" for arg in args]
        if name == "constant":
            before.append(f"%c{n} = getelementptr {t}, ptr %constants, i64 {args[0]}")
            before.append(line + f"load {t}, ptr %c{n}")
        elif name == "load":
            body.append(f"%p{args[0]} = getelementptr {t}, ptr %a{args[0]}, i64 %i")
            body.append(line + f"load {t}, ptr %p{args[0]}")
        elif name == "fneg":
            body.append(line + f"fneg {t} {a[0]}")
        elif name in ("sqrt", "fabs"):
            body.append(line + f"call {t} @llvm.{name}.f{8 * dtype.itemsize}({t} {a[0]})")
        elif name == "select":
            body.append(line + f"select i1 {a[0]}, {t} {a[1]}, {t} {a[2]}")
        elif name == "or":
            body.append(line + f"or i1 {a[0]}, {a[1]}")
        else:
            body.append(line + f"{name} {t} {a[0]}, {a[1]}")
    body += [f"store {t} %v{value}, ptr %p{slot}" for slot, value in stores]
    parameters = ", ".join(f"ptr %object{i}" for i in slots)
    arguments = ", ".join(f"ptr %a{i}" for i in slots)
    declared = ", ".join(f"ptr noalias %a{i}" for i in slots)
    unpack = []
    for i in slots:
        unpack.append(f"%at{i} = getelementptr i8, ptr %object{i}, i64 {object.__basicsize__}")
        unpack.append(f"%a{i} = load ptr, ptr %at{i}")
    bits = 8 * dtype.itemsize
    return "\n".join(
        [
            f"declare {t} @llvm.sqrt.f{bits}({t})",
            f"declare {t} @llvm.fabs.f{bits}({t})",
            f"define void @rule({parameters}, ptr %constants, i64 %n) {{",
            *unpack,
            f"call void @loop({arguments}, ptr %constants, i64 %n)",
            "ret void",
            "}",
            # A function of its own, since only parameters can promise not to overlap.
            f"define internal void @loop({declared}, ptr noalias %constants, i64 %n) {{",
            "entry:",
            *before,
            "br label %loop",
            "loop:",
            "%i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *body,
            "%next = add nuw nsw i64 %i, 1",
            "%more = icmp ult i64 %next, %n",
            "br i1 %more, label %loop, label %done",
            "done:",
            "ret void",
            "}",
        ]
    )
