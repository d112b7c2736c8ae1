"""Expressions of the intermediate representation as LLVM's instructions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from rushlight._codegen import ir, native
from rushlight._codegen.types import Type, b1, bf16, f16, f32, i8, i16, i32, vector

FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
WHOLE = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "shl": "shl",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
INTRINSIC = {
    "sqrt": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "rint", "fma": "fma", "copysign": "copysign",
}  # fmt: skip
COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


class Text:
    """What is shared by the functions of one module: declarations, metadata, finished functions."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declared: dict[str, str] = {}
        self.metadata: list[str] = []

    def declare(self, name: str, result: str, parameters: str) -> str:
        self.declared[name] = f"declare {result} @{name}({parameters})"
        return "@" + name

    def node(self, content: str) -> str:
        """A piece of metadata; `!self` in it is the piece itself. Equal pieces are one."""
        if not content.startswith("distinct") and content in self.metadata:
            return f"!{self.metadata.index(content)}"
        self.metadata.append(content.replace("!self", f"!{len(self.metadata)}"))
        return f"!{len(self.metadata) - 1}"

    def text(self) -> str:
        lines = [*self.declared.values(), *self.functions]
        lines += [f"!{i} = {content}" for i, content in enumerate(self.metadata)]
        return "\n".join(lines) + "\n"


def mangled(t: Type) -> str:
    """How the names of LLVM's intrinsics spell a type."""
    one = t.scalar
    kind = "f" if one.kind == "f" else "i"
    base = f"{kind}{1 if one is b1 else 8 * one.size}"
    return f"v{t.lanes}{base}" if t.kind == "v" else base


def memory_scalar(t: Type) -> Type:
    """The number type that lies in memory for one."""
    return {b1: i8, bf16: i16}.get(t, t)


def memory_type(element: Type, value: Type) -> tuple[str, str]:
    """How a value lies in memory of an element type: LLVM's type and its alignment."""
    scalar = element.scalar
    align = element.size if element.kind == "v" else scalar.size
    if value.kind == "v":
        return f"<{value.lanes} x {scalar.memory}>", str(align)
    return scalar.memory, str(align)


class Operations:
    """Writes the expressions of one function; its statements are the subclass's, `emit.Emitter`."""

    def __init__(
        self, text: Text, function: ir.Function, results: dict[str, Type | None], once: set[str]
    ) -> None:
        self.text, self.function, self.results = text, function, results
        self.once = once  # variables that are registers
        self.registers: dict[str, str] = {}
        self.slots: dict[str, Type] = {}
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.block = "%entry"  # where instructions go
        self.groups: list[str] = []  # the access groups of the lanes loops around
        self.exits: list[str] = []  # where break goes
        self.fast = function.fast + " " if function.fast else ""

    # Pieces.

    def name(self) -> str:
        self.count += 1
        return f"%.{self.count}"

    def put(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.block = name
        self.lines.append(f"{name[1:]}:")

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"%.{what}{self.count}"

    def slot(self, name: str, t: Type) -> str:
        if name not in self.slots:
            self.slots[name] = t
            self.entry.append(f"  %{name}.slot = alloca {t.llvm}")
        return f"%{name}.slot"

    def set(self, name: str, value: str, t: Type) -> None:
        """A variable takes a value."""
        if name in self.once:
            self.registers[name] = value
        else:
            self.do(f"store {t.llvm} {value}, ptr {self.slot(name, t)}")

    def access(self) -> str:
        if not self.groups:
            return ""
        node = self.groups[0]
        if len(self.groups) > 1:
            node = self.text.node("!{" + ", ".join(self.groups) + "}")
        return f", !llvm.access.group {node}"

    # Expressions.

    def value(self, e: Any) -> str:
        return EXPRESSIONS[type(e)](self, e)

    def of_const(self, e: ir.Const) -> str:
        one = number(e.value, e.type.scalar)
        return f"splat ({e.type.scalar.llvm} {one})" if e.type.kind == "v" else one

    def of_var(self, e: ir.Var) -> str:
        if e.name in self.registers:
            return self.registers[e.name]
        return self.put(f"load {e.type.llvm}, ptr {self.slot(e.name, e.type)}")

    def of_load(self, e: ir.Load) -> str:
        element = e.pointer.type.element
        assert element is not None
        pointer = self.value(e.pointer)
        t, align = memory_type(element, e.type)
        if e.mask is not None:
            mask = self.value(e.mask)
            mangle = mangled(vector(memory_scalar(element.scalar), e.type.lanes))
            name = self.text.declare(
                f"llvm.masked.load.{mangle}.p0", t, f"ptr, i32, <{e.type.lanes} x i1>, {t}"
            )
            some = (
                f"call {t} {name}(ptr {pointer}, i32 {align}, {e.mask.type.llvm} {mask}, "
                f"{t} zeroinitializer)"
            )
            if native.has_masks() or self.groups or element.scalar.size >= 4:
                got = self.put(some + self.access())
            else:
                part, done = self.all_or_some(mask, e.mask.type.llvm)
                whole, of_all = self.block, self.put(f"load {t}, ptr {pointer}, align {align}")
                self.do(f"br label {done}")
                self.label(part)
                of_some = self.put(some)
                self.do(f"br label {done}")
                self.label(done)
                got = self.put(f"phi {t} [ {of_all}, {whole} ], [ {of_some}, {part} ]")
        else:
            got = self.put(f"load {t}, ptr {pointer}, align {align}{self.access()}")
        return self.widened(got, e.type, element.scalar)

    def all_or_some(self, mask: str, t: str) -> tuple[str, str]:
        """Branch on whether a mask leaves out nothing, which is nearly always; write on there, and return the
        labels of (where it does, behind both)."""
        lanes = t.split()[0][1:]
        name = self.text.declare(f"llvm.vector.reduce.and.v{lanes}i1", "i1", t)
        full = self.put(f"call i1 {name}({t} {mask})")
        whole, part, done = self.fresh("all"), self.fresh("some"), self.fresh("both")
        self.do(f"br i1 {full}, label {whole}, label {part}")
        self.label(whole)
        return part, done

    def widened(self, value: str, t: Type, scalar: Type) -> str:
        """What was loaded, as it is in registers."""
        if scalar is b1:
            w = t.of(i8)
            return self.put(f"icmp ne {w.llvm} {value}, {self.of_const(ir.Const(0, w))}")
        if scalar is f16:
            return self.put(f"fpext {t.of(f16).llvm} {value} to {t.llvm}")
        if scalar is bf16:
            wide = self.put(f"zext {t.of(i16).llvm} {value} to {t.of(i32).llvm}")
            up = self.put(f"shl {t.of(i32).llvm} {wide}, {self.of_const(ir.Const(16, t.of(i32)))}")
            return self.put(f"bitcast {t.of(i32).llvm} {up} to {t.llvm}")
        return value

    def narrowed(self, value: str, t: Type, scalar: Type) -> str:
        """A value as it is stored."""
        if scalar is b1:
            to = f"<{t.lanes} x i8>" if t.kind == "v" else "i8"
            return self.put(f"zext {t.llvm} {value} to {to}")
        if scalar is f16:
            return self.put(f"fptrunc {t.llvm} {value} to {t.of(f16).llvm}")
        if scalar is bf16:
            # To nearest, ties to even, by integers: half a unit is added, less one bit where the
            # last kept bit is 0. A NaN would carry over into an infinity: it stays one, quiet.
            w = t.of(i32)

            def c(v: int) -> str:
                return self.of_const(ir.Const(v, w))

            raw = self.put(f"bitcast {t.llvm} {value} to {w.llvm}")
            top = self.put(f"lshr {w.llvm} {raw}, {c(16)}")
            odd = self.put(f"and {w.llvm} {top}, {c(1)}")
            half = self.put(f"add {w.llvm} {odd}, {c(0x7FFF)}")
            rounded = self.put(f"lshr {w.llvm} {self.put(f'add {w.llvm} {raw}, {half}')}, {c(16)}")
            quiet = self.put(f"or {w.llvm} {top}, {c(0x40)}")
            nan = self.put(f"fcmp uno {t.llvm} {value}, {value}")
            chosen = self.put(f"select {t.of(b1).llvm} {nan}, {w.llvm} {quiet}, {w.llvm} {rounded}")
            return self.put(f"trunc {w.llvm} {chosen} to {t.of(i16).llvm}")
        return value

    def of_cast(self, e: ir.Cast) -> str:
        value, a, t = self.value(e.arg), e.arg.type, e.type
        x, y = a.scalar, t.scalar
        if y is b1:
            zero = self.of_const(ir.Const(0, a))
            return self.put(
                f"{'fcmp une' if x.kind == 'f' else 'icmp ne'} {a.llvm} {value}, {zero}"
            )
        if (
            y is bf16 and x is f32
        ):  # a conversion of the processor's own would lose subnormal numbers
            return self.put(f"bitcast {t.of(i16).llvm} {self.narrowed(value, a, y)} to {t.llvm}")
        if x is bf16 and y is f32:
            raw = self.put(f"bitcast {a.llvm} {value} to {a.of(i16).llvm}")
            return self.widened(raw, t, x)
        if x.kind == "f" and y.kind == "f":
            how = "fpext" if y.size > x.size else "fptrunc"
        elif x.kind == "f":
            how = "fptoui" if y.kind == "u" else "fptosi"
        elif y.kind == "f":
            how = "sitofp" if x.kind == "i" else "uitofp"
        elif x is b1 or y.size > x.size:
            how = "sext" if x.kind == "i" else "zext"
        elif y.size < x.size:
            how = "trunc"
        else:
            return value
        return self.put(f"{how} {a.llvm} {value} to {t.llvm}")

    def of_call(self, e: ir.Call) -> str:
        return self.put(self.call(e))

    def call(self, e: ir.Call) -> str:
        result = "void" if e.type is None else e.type.llvm
        given = e.args if e.name else e.args[1:]
        callee = f"@{e.name}" if e.name else self.value(e.args[0])
        args = ", ".join(f"{a.type.llvm} {self.value(a)}" for a in given)
        return f"call {result} {callee}({args})"

    def of_op(self, e: ir.Op) -> str:
        name, args, t = e.name, e.args, e.type
        special = SPECIAL.get(name)
        if special:
            return special(self, e)
        v = [self.value(a) for a in args]
        a = args[0].type
        if name in COMPARISONS:
            kind = COMPARISONS[name]
            if a.is_float:
                code = "fcmp " + ("une" if name == "ne" else "o" + kind)
            elif kind in ("eq", "ne"):
                code = "icmp " + kind
            else:
                code = "icmp " + ("s" if a.scalar.kind == "i" else "u") + kind
            return self.put(f"{code} {a.llvm} {v[0]}, {v[1]}")
        if name in INTRINSIC:
            full = f"llvm.{INTRINSIC[name]}.{mangled(t)}"
            self.text.declare(full, t.llvm, ", ".join(x.type.llvm for x in args))
            given = ", ".join(f"{x.type.llvm} {y}" for x, y in zip(args, v, strict=True))
            return self.put(f"call {self.fast}{t.llvm} @{full}({given})")
        if name == "neg":
            if t.is_float:
                return self.put(f"fneg {self.fast}{t.llvm} {v[0]}")
            return self.put(f"sub {t.llvm} {self.of_const(ir.Const(0, t))}, {v[0]}")
        if name == "not":
            ones = ir.Const(True if t.scalar is b1 else -1, t)
            return self.put(f"xor {t.llvm} {v[0]}, {self.of_const(ones)}")
        if t.is_float:
            return self.put(f"{FLOAT[name]} {self.fast}{t.llvm} {v[0]}, {v[1]}")
        signed = t.scalar.kind == "i"
        code = {
            "div": "sdiv" if signed else "udiv",
            "rem": "srem" if signed else "urem",
            "shr": "ashr" if signed else "lshr",
        }.get(name) or WHOLE[name]
        return self.put(f"{code} {t.llvm} {v[0]}, {v[1]}")

    def op_select(self, e: ir.Op) -> str:
        c, a, b = (f"{x.type.llvm} {self.value(x)}" for x in e.args)
        return self.put(f"select {c}, {a}, {b}")

    def op_offset(self, e: ir.Op) -> str:
        element = e.type.element
        assert element is not None
        pointer, by = (self.value(a) for a in e.args)
        return self.put(f"getelementptr inbounds {element.memory}, ptr {pointer}, i64 {by}")

    def op_bits(self, e: ir.Op) -> str:
        value = self.value(e.args[0])
        if e.type.kind == "p" and e.args[0].type.kind != "p":
            return self.put(f"inttoptr {e.args[0].type.llvm} {value} to ptr")
        if e.type.kind != "p" and e.args[0].type.kind == "p":
            return self.put(f"ptrtoint ptr {value} to {e.type.llvm}")
        if e.type.kind == "p" or e.type.llvm == e.args[0].type.llvm:
            return value
        return self.put(f"bitcast {e.args[0].type.llvm} {value} to {e.type.llvm}")

    def op_splat(self, e: ir.Op) -> str:
        t = e.type
        one = self.put(
            f"insertelement {t.llvm} poison, {e.args[0].type.llvm} {self.value(e.args[0])}, i64 0"
        )
        return self.put(
            f"shufflevector {t.llvm} {one}, {t.llvm} poison, <{t.lanes} x i32> zeroinitializer"
        )

    def op_lane(self, e: ir.Op) -> str:
        a = e.args[0]
        return self.put(
            f"extractelement {a.type.llvm} {self.value(a)}, i64 {self.value(e.args[1])}"
        )

    def op_insert(self, e: ir.Op) -> str:
        a, at, new = e.args
        return self.put(
            f"insertelement {a.type.llvm} {self.value(a)}, {new.type.llvm} {self.value(new)}, "
            f"i64 {self.value(at)}"
        )

    def op_bf16_pairs(self, e: ir.Op) -> str:
        a, b, c = (self.value(x) for x in e.args)
        pair, t = "<32 x bfloat>", e.type.llvm
        name = self.text.declare("llvm.x86.avx512bf16.dpbf16ps.512", t, f"{t}, {pair}, {pair}")
        a, b = (self.put(f"bitcast <16 x i32> {x} to {pair}") for x in (a, b))
        return self.put(f"call {t} {name}({t} {c}, {pair} {a}, {pair} {b})")

    def op_shuffle(self, e: ir.Op) -> str:
        (a, b), t = e.args[:2], e.args[0].type.llvm
        which = ", ".join(f"i32 {at.value}" for at in e.args[2:])
        return self.put(
            f"shufflevector {t} {self.value(a)}, {t} {self.value(b)}, <{e.type.lanes} x i32> <{which}>"
        )

    def op_iota(self, e: ir.Op) -> str:
        one = e.type.scalar
        return "<" + ", ".join(f"{one.llvm} {number(i, one)}" for i in range(e.type.lanes)) + ">"

    def op_sum(self, e: ir.Op) -> str:
        value, t = self.value(e.args[0]), e.args[0].type
        n = t.lanes
        while n > 1:  # halves added, so that the order is ours
            n //= 2
            half = f"<{n} x {t.scalar.llvm}>"
            whole = f"<{2 * n} x {t.scalar.llvm}>"
            parts = []
            for first in (0, n):
                which = ", ".join(f"i32 {first + i}" for i in range(n))
                parts.append(
                    self.put(
                        f"shufflevector {whole} {value}, {whole} poison, <{n} x i32> <{which}>"
                    )
                )
            add = "fadd" if t.is_float else "add"
            value = self.put(f"{add} {half} {parts[0]}, {parts[1]}")
        return self.put(f"extractelement <1 x {t.scalar.llvm}> {value}, i64 0")

    def reduced(self, e: ir.Op, floating: str, whole: str) -> str:
        t = e.args[0].type
        which = floating if t.is_float else ("s" if t.scalar.kind == "i" else "u") + whole
        if e.name == "any":
            which = whole
        full = f"llvm.vector.reduce.{which}.{mangled(t)}"
        self.text.declare(full, e.type.llvm, t.llvm)
        return self.put(f"call {e.type.llvm} @{full}({t.llvm} {self.value(e.args[0])})")

    def op_max(self, e: ir.Op) -> str:
        return self.reduced(e, "fmax", "max")

    def op_min(self, e: ir.Op) -> str:
        return self.reduced(e, "fmin", "min")

    def op_any(self, e: ir.Op) -> str:
        return self.reduced(e, "", "or")

    def op_gather(self, e: ir.Op) -> str:
        pointer, offsets, mask = e.args
        t, n = e.type, e.type.lanes
        element = pointer.type.element
        assert element is not None
        at = self.put(
            f"getelementptr {element.memory}, ptr {self.value(pointer)}, "
            f"{offsets.type.llvm} {self.value(offsets)}"
        )
        memory, align = memory_type(element, t)
        full = f"llvm.masked.gather.{mangled(vector(memory_scalar(element), n))}.v{n}p0"
        self.text.declare(full, memory, f"<{n} x ptr>, i32, <{n} x i1>, {memory}")
        got = self.put(
            f"call {memory} @{full}(<{n} x ptr> {at}, i32 {align}, "
            f"{mask.type.llvm} {self.value(mask)}, {memory} zeroinitializer)"
        )
        return self.widened(got, t, element)


def number(value: Any, t: Type) -> str:
    """A number as LLVM writes it."""
    if t.kind == "f":
        value = float(value)
        if t is f32:
            try:
                value = struct.unpack("f", struct.pack("f", value))[0]
            except OverflowError:
                value = float("inf") if value > 0 else float("-inf")
        return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
    if t is b1:
        return "true" if value else "false"
    return str(int(value))


EXPRESSIONS: dict[type, Callable[[Operations, Any], str]] = {
    getattr(ir, name): getattr(Operations, "of_" + name.lower())
    for name in "Const Var Load Cast Call Op".split()
}
SPECIAL: dict[str, Callable[[Operations, ir.Op], str]] = {
    name[3:]: method for name, method in vars(Operations).items() if name.startswith("op_")
}
