"""`rushlight.compiler.explain`: what ran, how it is written at every stage, and how near it came to the
machine's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from rushlight._codegen import ir, native
from rushlight._codegen.kernel import Kernel
from rushlight._codegen.printer import show
from rushlight._codegen.recording import compiled_kernels
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header
from rushlight._codegen.visitor import arguments, blocks, parts

FLOPS = {"add": 1, "sub": 1, "mul": 1, "div": 1, "sqrt": 1, "fma": 2, "sum": 1}


class Run:
    """What one kernel did: its calls' time, the bytes of their arrays, operations if they are known."""

    def __init__(self, kernel: Kernel, known: dict[str, Any]) -> None:
        self.kernel, self.known = kernel, known
        self.calls, self.seconds, self.bytes = 0, 0.0, 0
        self.flops: float | None = 0.0

    def add(self, seconds: float, arrays: list[Any], flops: float | None) -> None:
        self.calls += 1
        self.seconds += seconds
        self.bytes += sum({id(a): a.nbytes for a in arrays}.values())
        self.flops = None if flops is None or self.flops is None else self.flops + flops

    def title(self) -> str:
        module = self.kernel.function.__module__.rpartition(".")[2]
        known = ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in self.known.items())
        return f"{module}.{self.kernel.__name__}({known})"


def explain(fn: Callable, *args: Any, show: str) -> None:
    """See `rushlight.compiler.explain`."""
    from rushlight._backends import llvm

    if not llvm.activate():
        print("no machine code on this machine: llvmlite is missing, or RUSHLIGHT_COMPILED=0")
        return
    from rushlight._backends.llvm import candidates

    with candidates.recording() as choices:
        runs = recorded(fn, args)
    for problem, name in choices.items():
        print(f"{problem}: {name}")
    if not runs:
        print("no kernel ran: sizes below the thresholds, or kernels of NumPy")
        return
    peak, copy = limits()
    for run in runs:
        print(run.title())
        print("  " + figures(run, peak, copy))
        for stage in show.split():
            text = STAGES[stage](run)
            print("\n".join(["", f"  {stage}:", "", *("  " + line for line in text.splitlines())]))
        print()


STAGES: dict[str, Callable[[Run], str]] = {
    "ir": lambda run: show(run.kernel.module(**run.known)),
    "llvm": lambda run: run.kernel.llvm(**run.known),
    "optimised": lambda run: native.optimised(run.kernel.llvm(**run.known)),
    "assembly": lambda run: hottest(native.assembly(run.kernel.llvm(**run.known))),
}


def figures(run: Run, peak: float, copy: float) -> str:
    """A line: calls, time, bytes and operations, and how near to the limits they are."""
    s = run.seconds
    rate = run.bytes / s / 1e9
    text = (
        f"{run.calls} call{'s' * (run.calls != 1)}, {1e3 * s:.3f} ms, {run.bytes / 1e6:.1f} MB: "
        f"{rate:.1f} GB/s, {rate / copy:.0%} of a copy"
    )
    if run.flops:
        text += f"; {run.flops / 1e6:.1f} MFLOP: {run.flops / s / 1e9:.1f} GFLOP/s, "
        text += f"{run.flops / s / 1e9 / peak:.0%} of the peak"
    return text


def limits() -> tuple[float, float]:
    """(GFLOP/s of multiply-adds, GB/s of a copy) with the threads that there are."""
    from rushlight._codegen.kernels import peak
    from rushlight.core import settings

    n = settings.get_num_threads()
    return max(peak.fused_multiply_adds(n, 100_000) for _ in range(5)), peak.copied()


def recorded(fn: Callable, args: tuple) -> list[Run]:
    """Run `fn` with all compiled kernels recorded, in the order in which they first ran."""
    from rushlight._codegen import native_entry

    runs: dict[int, Run] = {}
    undo: list[Callable[[], None]] = []
    native_entry.use(False)  # what runs kernels without a Python function before them
    try:
        fn(*args)  # compiles
        _record(runs, undo)
        fn(*args)
    finally:
        for each in undo:
            each()
        native_entry.use(True)
    return list(runs.values())


def _record(runs: dict[int, Run], undo: list[Callable[[], None]]) -> None:
    """Put a recorder in the place of each compiled kernel; `undo` takes them out again.

    Kernels keep what was compiled, and other code keeps it too: what is recorded is the native function
    that each of them calls. Nothing is looked up by those that are not recorded.
    """
    from rushlight._codegen.kernels.pointwise import Pointwise

    for kernel, known, space in compiled_kernels():
        run = Run(kernel, known)
        undo.append(_swapped(space, "function", _kernel_recorder(run, space, runs)))
    for found in existing(Pointwise):
        for dtype, ufunc in list(found.items()):
            if ufunc is not None:
                undo.append(_swapped(found, dtype, _ufunc_recorder(found, dtype, runs)))


def existing(cls: type) -> list[Any]:
    """The objects of a class and its subclasses that there are."""
    import gc

    return [o for o in gc.get_objects() if issubclass(type(o), cls)]


def _swapped(held: dict, key: Any, new: Any) -> Callable[[], None]:
    old, held[key] = held[key], new
    return lambda: held.__setitem__(key, old)


def _kernel_recorder(run: Run, space: dict[str, Any], runs: dict[int, Run]) -> Callable:
    function = space["function"]
    types = run.kernel._types(run.known)

    def record(*passed: Any) -> None:
        start = perf_counter()
        function(*passed)
        taken = perf_counter() - start
        arrays = arrays_of(passed)
        given = dict(zip(types, passed, strict=True))
        runs.setdefault(id(run), run).add(taken, arrays, operations(run, given))

    return record


def arrays_of(values: Iterable[Any]) -> list[Any]:
    """The arrays among these and in lists among these."""
    import numpy as np

    found = []
    for each in values:
        if isinstance(each, np.ndarray):
            found.append(each)
        elif isinstance(each, list):
            found += arrays_of(each)
    return found


def _ufunc_recorder(pointwise: Any, dtype: Any, runs: dict[int, Run]) -> Callable:
    from rushlight._codegen.kernels.loops import loop
    from rushlight._codegen.types import of

    ufunc, t = pointwise[dtype], of(dtype)
    assert t is not None
    known = {"F": pointwise.function, "TYPES": (t,) * pointwise.arrays, "B": pointwise.output or t}
    run = Run(loop, known | {"NUMBERS": pointwise.numbers, "GRAIN": pointwise.grain})

    def record(*args: Any, **keywords: Any) -> Any:
        import numpy as np

        start = perf_counter()
        result = ufunc(*args, **keywords)
        taken = perf_counter() - start
        arrays = [a for a in (*args, result) if isinstance(a, np.ndarray)]
        each = innermost(run.kernel.module(**run.known).functions[0].body)
        runs.setdefault(id(run), run).add(taken, arrays, each * result.size)
        return result

    return record


# Floating-point operations, as far as they follow from integers that a kernel was given.


class Unknown(Exception):
    """A number that depends on what is computed."""


class Memory:
    """The integers that a kernel may read: those of its arrays, and their shapes and strides."""

    def __init__(self, types: dict[str, Any], given: dict[str, Any]) -> None:
        self.names: dict[str, int] = {}
        self.ranges: list[tuple[int, int]] = []
        for name, t in types.items():
            value = given[name]
            if t is Header:
                self.names[name] = id(value)
                for each in [value, *arrays_of([value])]:
                    self.header(each)
            elif t.kind == "p":
                self.names[name] = value.ctypes.data
                self.add(value.ctypes.data, value.nbytes)
            elif t.kind in "iub":
                self.names[name] = int(value)

    def add(self, at: int, n: int) -> None:
        self.ranges.append((at, at + n))

    def header(self, value: Any) -> None:
        import numpy as np

        if isinstance(value, np.ndarray):
            self.add(value.ctypes.data, value.nbytes)
            self.add(id(value), 8 * abi.ARRAY_SIZE)
            for k in (abi.SHAPE, abi.STRIDES):
                self.add(abi.field(value, k), 8 * value.ndim)
        elif isinstance(value, list):
            self.add(id(value), 8 * (abi.LIST_ITEMS + 1))
            self.add(abi.field(value, abi.LIST_ITEMS), 8 * len(value))

    def load(self, at: int, t: Any) -> int:
        import ctypes

        if t.kind not in "iup" or not any(a <= at and at + t.size <= b for a, b in self.ranges):
            raise Unknown
        return int.from_bytes(ctypes.string_at(at, t.size), "little", signed=t.kind == "i")


def operations(run: Run, given: dict[str, Any]) -> float | None:
    """How many additions, multiplications, divisions and roots a call was; None where that depends
    on what is computed.

    A loop is counted as so many times its first round, a branch of unknown condition as its first side.
    """
    counter = OperationCounter(run, given)
    try:
        return counter.of_statements(counter.body, dict(counter.memory.names))
    except Unknown:
        return None


class OperationCounter:
    """Counts the operations of a call: walks its statements, with the values of those variables that are known."""

    def __init__(self, run: Run, given: dict[str, Any]) -> None:
        module = run.kernel.module(**run.known)
        self.body = module.functions[0].body
        self.functions = {f.name: f for f in module.functions}
        self.memory = Memory(run.kernel._types(run.known), given)

    def value(self, e: Any, names: dict[str, Any]) -> Any:
        """The value of an expression; Unknown where it depends on what is computed."""
        if isinstance(e, ir.Const):
            return e.value
        if isinstance(e, ir.Var) and e.name in names:
            return names[e.name]
        if isinstance(e, ir.Cast) and e.type.kind in "iu":
            return int(self.value(e.arg, names))
        if isinstance(e, ir.Load):
            return self.memory.load(self.value(e.pointer, names), e.type)
        if not isinstance(e, ir.Op) or e.type.kind == "v":
            raise Unknown
        if e.name == "offset":
            element = e.type.element
            assert element is not None
            return self.value(e.args[0], names) + element.size * self.value(e.args[1], names)
        if e.name == "bits":
            return self.value(e.args[0], names)
        if e.name not in NUMBERS:
            raise Unknown
        return NUMBERS[e.name](*(self.value(a, names) for a in e.args))

    def known_value(self, e: Any, names: dict[str, Any]) -> Any:
        """The value of an expression; None where it is unknown."""
        try:
            return self.value(e, names)
        except (Unknown, ZeroDivisionError, ValueError):
            return None

    def of_statements(self, body: list[ir.Stmt], names: dict[str, Any]) -> float:
        """The operations of statements, which may change `names`."""
        total = 0.0
        for s in body:
            for e in parts(s):
                total += count(e) + sum(self.of_call(c, names) for c in calls(e))
            if isinstance(s, ir.Let):
                v = self.known_value(s.value, names)
                names.pop(s.name, None)
                if v is not None:
                    names[s.name] = v
            else:
                total += self.of_blocks(s, names)
        return total

    def of_call(self, call: ir.Call, names: dict[str, Any]) -> float:
        """The operations within a function that is called."""
        if call.name not in self.functions:  # it is at an address that is given, or of C
            raise Unknown
        callee = self.functions[call.name]
        passed = (self.known_value(a, names) for a in call.args)
        inner = {p.name: v for p, v in zip(callee.parameters, passed, strict=True)}
        return self.of_statements(callee.body, {k: v for k, v in inner.items() if v is not None})

    def of_blocks(self, s: ir.Stmt, names: dict[str, Any]) -> float:
        """The operations within the blocks of a loop or a branch."""
        total = 0.0
        if isinstance(s, ir.For):
            start, stop = self.value(s.start, names), self.value(s.stop, names)
            rounds = max(0, -(-(stop - start) // s.step))
            if rounds:
                names[s.name] = start
                total = rounds * self.of_statements(s.body, names)
        elif isinstance(s, ir.Parallel):
            n = self.value(s.count, names)
            if n > 0:
                total = self.of_statements(s.body, names | {s.start: 0, s.stop: n})
        elif isinstance(s, ir.If):
            test = self.known_value(s.condition, names)
            total = self.of_statements(s.then if test or test is None else s.otherwise, names)
        elif isinstance(s, ir.While):
            rounds = 0
            while self.value(s.condition, names):
                total += self.of_statements(s.body, names)
                rounds += 1
                if rounds > 1000:
                    raise Unknown
        return total


NUMBERS: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: int(a / b), "rem": lambda a, b: a - b * int(a / b), "neg": lambda a: -a,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "select": lambda c, a, b: a if c else b,
}  # fmt: skip


def count(e: Any) -> float:
    """Floating-point operations of an expression, lane by lane."""
    own = 0.0
    if isinstance(e, ir.Op) and e.type.is_float:
        lanes = e.args[0].type.lanes if e.name == "sum" else e.type.lanes
        own = FLOPS.get(e.name, 0) * max(lanes, 1)
    return own + sum(count(a) for a in arguments(e))


def calls(e: Any) -> list[ir.Call]:
    own = [e] if isinstance(e, ir.Call) else []
    return own + [c for a in arguments(e) for c in calls(a)]


def innermost(body: list[ir.Stmt]) -> float:
    """The operations of one round of the first innermost `lanes` loop."""
    for s in body:
        for inner in blocks(s):
            if (found := innermost(inner)) > 0:
                return found
        if isinstance(s, ir.For) and s.lanes:
            return sum(count(e) for x in s.body for e in parts(x))
    return 0.0


def hottest(text: str) -> str:
    """Of machine code, the innermost loop that computes the most."""
    import re

    lines = [x.split("#")[0].rstrip() for x in text.splitlines()]
    lines = [x for x in lines if x and not re.match(r"\s+\.", x)]
    labels = {x[:-1]: i for i, x in enumerate(lines) if x.endswith(":")}
    loops = []
    for i, line in enumerate(lines):
        words = line.split()
        target = labels.get(words[-1]) if len(words) > 1 else None
        if target is not None and target < i and re.match(r"\s+(j|b|cbn|tbn)", line):
            loops.append((target, i))
    inner = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    if not inner:
        return "\n".join(lines[:60])
    computes = re.compile(r"\s+v?f?n?m?(add|sub|mul|div|sqrt|mla|mls)\w*(p[sd])?\b")
    apart = re.compile(r"\s+v(gather|scatter)")  # a version for other strides

    def work(loop: tuple[int, int]) -> tuple[bool, int, int]:
        part = lines[loop[0] : loop[1]]
        wide = sum(4 if "%zmm" in x else 2 if "%ymm" in x else 1 for x in part if computes.match(x))
        return not any(apart.match(x) for x in part), wide, -len(part)

    first, last = max(inner, key=work)
    return "\n".join(lines[first : last + 1])
