"""From the intermediate representation to LLVM's text.

A variable that is set once, before all that reads it, is the register that holds its value; others
live in stack slots here, which LLVM turns into registers. Large arrays come from `malloc`. Alignment
is the element's, so that pointers need none. A `lanes` loop tells LLVM that its memory accesses do
not depend on each other, which is what lets it vectorise without knowing that arrays do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._codegen import ir, native
from rushlight._codegen.operations import Operations, Text, mangled, memory_scalar, memory_type
from rushlight._codegen.types import Ptr, vector
from rushlight._codegen.visitor import Uses, free

STACK = 512 * 1024  # bytes of an array on the stack, at most: threads may have 2 MiB in all


def emit(module: ir.Module) -> str:
    """The module as LLVM's text; its kernel is `@<name of the first function>`."""
    writer = Text()
    for i, function in enumerate(module.functions):
        exported = function.entry or i == 0
        results = {f.name: f.result for f in module.functions}
        if function.separate:
            result = "void" if function.result is None else function.result.llvm
            parameters = ", ".join(p.type.llvm for p in function.parameters)
            writer.declare(function.name, result, parameters)
            continue
        Emitter(writer, function, results, Uses(function).once()).define(exported)
    return writer.text()


class Emitter(Operations):
    """Writes one function."""

    freed: tuple[str, ...] = ()  # what happens before each return

    # Functions.

    def define(self, exported: bool) -> None:
        f = self.function
        parameters = ", ".join(f"{p.type.llvm} %{p.name}" for p in f.parameters)
        for p in f.parameters:
            self.set(p.name, f"%{p.name}", p.type)
        self.body(f.body)
        if f.result is None:
            self.do("ret void")
        else:
            self.do("unreachable")
        result = "void" if f.result is None else f.result.llvm
        self.finish(f"{'' if exported else 'internal '}{result} @{f.name}({parameters})")

    def finish(self, head: str) -> None:
        # Functions are called: written out where they are used, routines would be optimised for that
        # place, and a matrix product's tile does not fit into the registers any more. And a kernel
        # would be compiled once more within its entry.
        lines = []
        for line in self.lines:
            if line.startswith("  ret "):
                lines += self.freed
            lines.append(line)
        self.text.functions.append(
            "\n".join([f"define {head} nounwind noinline {{", "entry:", *self.entry, *lines, "}"])
        )

    def body(self, statements: list[ir.Stmt]) -> None:
        for statement in statements:
            STATEMENTS[type(statement)](self, statement)

    # Statements.

    def do_let(self, s: ir.Let) -> None:
        self.set(s.name, self.value(s.value), s.value.type)

    def do_array(self, s: ir.Array) -> None:
        space = f"%{s.name}.space"
        size = s.count * s.element.size
        if size <= STACK:
            t = f"[{s.count} x {s.element.memory}]"
            self.entry.append(f"  {space} = alloca {t}, align 64")
        else:
            allocate = self.text.declare("malloc", "ptr", "i64")
            self.text.declare("free", "void", "ptr")
            self.entry += [
                f"  {space}.whole = call ptr {allocate}(i64 {size + 63})",
                f"  {space}.begin = ptrtoint ptr {space}.whole to i64",
                f"  {space}.behind = add i64 {space}.begin, 63",
                f"  {space}.aligned = and i64 {space}.behind, -64",
                f"  {space} = inttoptr i64 {space}.aligned to ptr",
            ]
            self.freed += (f"  call void @free(ptr {space}.whole)",)
        self.set(s.name, space, Ptr[s.element])

    def do_store(self, s: ir.Store) -> None:
        element = s.pointer.type.element
        assert element is not None
        pointer, value = self.value(s.pointer), self.value(s.value)
        value = self.narrowed(value, s.value.type, element.scalar)
        t, align = memory_type(element, s.value.type)
        if s.mask is not None:
            self.masked_store(s, t, value, pointer, align)
            return
        extra = self.access()
        if s.stream:
            align = str(s.value.type.size)  # whole cache lines: what is streamed is aligned
            extra += f", !nontemporal {self.text.node('!{i32 1}')}"
        self.do(f"store {t} {value}, ptr {pointer}, align {align}{extra}")

    def masked_store(self, s: ir.Store, t: str, value: str, pointer: str, align: str) -> None:
        """Some lanes of a vector go to memory. Where the machine has no such instruction, or a slow one, all
        lanes, which is nearly always, go by an instruction of their own."""
        scalar = s.pointer.type.element.scalar
        mangle = mangled(vector(memory_scalar(scalar), s.value.type.lanes))
        given = f"<{s.value.type.lanes} x i1>"
        name = self.text.declare(
            f"llvm.masked.store.{mangle}.p0", "void", f"{t}, ptr, i32, {given}"
        )
        mask = self.value(s.mask)
        some = f"call void {name}({t} {value}, ptr {pointer}, i32 {align}, {given} {mask})"
        if native.has_masks() or self.groups:
            self.do(some + self.access())
            return
        part, done = self.all_or_some(mask, given)
        self.do(f"store {t} {value}, ptr {pointer}, align {align}")
        self.do(f"br label {done}")
        self.label(part)
        self.do(some)
        self.do(f"br label {done}")
        self.label(done)

    def do_do(self, s: ir.Do) -> None:
        if isinstance(s.value, ir.Op) and s.value.name == "prefetch":
            pointer = self.value(s.value.args[0])
            name = self.text.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
            self.do(f"call void {name}(ptr {pointer}, i32 0, i32 3, i32 1)")
        elif isinstance(s.value, ir.Call) and s.value.type is None:
            self.do(self.call(s.value))
        else:
            self.value(s.value)

    def do_for(self, s: ir.For) -> None:
        t = s.start.type
        start, stop = self.value(s.start), self.value(s.stop)
        head, body, done = self.fresh("head"), self.fresh("body"), self.fresh("done")
        before, phi, slot = self.block, 0, ""
        if s.name in self.once:
            self.do(f"br label {head}")
            self.label(head)
            i = self.registers[s.name] = self.put("")
            phi = len(self.lines) - 1  # completed when the end of the body is known
        else:
            slot = self.slot(s.name, t)
            self.do(f"store {t.llvm} {start}, ptr {slot}")
            self.do(f"br label {head}")
            self.label(head)
            i = self.put(f"load {t.llvm}, ptr {slot}")
        compare = ("ult" if t.kind == "u" else "slt") if s.step > 0 else "sgt"
        more = self.put(f"icmp {compare} {t.llvm} {i}, {stop}")
        self.do(f"br i1 {more}, label {body}, label {done}")
        self.label(body)
        if s.lanes:
            self.groups.append(self.text.node("distinct !{}"))
        self.exits.append(done)
        self.body(s.body)
        self.exits.pop()
        i = self.value(ir.Var(s.name, t))
        wrap = "nuw" if t.kind == "u" else "nsw"
        following = self.put(f"add {wrap} {t.llvm} {i}, {s.step}")
        if slot:
            self.do(f"store {t.llvm} {following}, ptr {slot}")
        else:
            self.lines[phi] += f"phi {t.llvm} [ {start}, {before} ], [ {following}, {self.block} ]"
        self.do(f"br label {head}{self.hint(s)}")
        self.label(done)

    def hint(self, s: ir.For) -> str:
        """What LLVM is told of a loop: written out several times where that is not asked for, or by vectors where it is
        not said that its iterations may go side by side, it takes twice as long to compile for no gain."""
        said = ["!self"]
        if s.lanes:
            group = self.groups.pop()
            said.append(self.text.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        else:
            if not self.fast:  # else sums may be shared by lanes
                said.append(self.text.node('!{!"llvm.loop.vectorize.enable", i1 false}'))
            if s.rounds > 1:
                said.append(self.text.node(f'!{{!"llvm.loop.unroll.count", i32 {s.rounds}}}'))
            else:
                said.append(self.text.node('!{!"llvm.loop.unroll.disable"}'))
        if len(said) == 1:
            return ""
        node = self.text.node("distinct !{" + ", ".join(said) + "}")
        return f", !llvm.loop {node}"

    def do_while(self, s: ir.While) -> None:
        head, body, done = self.fresh("head"), self.fresh("body"), self.fresh("done")
        self.do(f"br label {head}")
        self.label(head)
        test = self.value(s.condition)
        self.do(f"br i1 {test}, label {body}, label {done}")
        self.label(body)
        self.exits.append(done)
        self.body(s.body)
        self.exits.pop()
        self.do(f"br label {head}")
        self.label(done)

    def do_if(self, s: ir.If) -> None:
        test = self.value(s.condition)
        then, otherwise, done = self.fresh("then"), self.fresh("else"), self.fresh("done")
        self.do(f"br i1 {test}, label {then}, label {otherwise}")
        self.label(then)
        self.body(s.then)
        self.do(f"br label {done}")
        self.label(otherwise)
        self.body(s.otherwise)
        self.do(f"br label {done}")
        self.label(done)

    def do_break(self, s: ir.Break) -> None:
        self.do(f"br label {self.exits[-1]}")
        self.label(self.fresh("after"))

    def do_return(self, s: ir.Return) -> None:
        if s.value is None:
            self.do("ret void")
        else:
            self.do(f"ret {s.value.type.llvm} {self.value(s.value)}")
        self.label(self.fresh("after"))

    def do_parallel(self, s: ir.Parallel) -> None:
        captured = free(s)
        layout = "{ " + ", ".join(v.type.llvm for v in captured) + " }"
        name = f"{self.function.name}.chunk{len(self.text.functions)}{self.count}"
        inner = Emitter(self.text, self.function, self.results, self.once)
        for i, v in enumerate(captured):
            at = inner.put(f"getelementptr {layout}, ptr %environment, i64 0, i32 {i}")
            value = inner.put(f"load {v.type.llvm}, ptr {at}")
            inner.registers[v.name] = value  # the body does not set it
        for bound in (s.start, s.stop):
            inner.set(bound, f"%{bound}", s.count.type)
        inner.body(s.body)
        inner.do("ret void")
        inner.finish(f"internal void @{name}(ptr %environment, i64 %{s.start}, i64 %{s.stop})")
        count, grain = self.value(s.count), self.value(s.grain)
        environment = f"%environment{len(self.entry)}"
        self.entry.append(f"  {environment} = alloca {layout}, align 64")
        for i, v in enumerate(captured):
            at = self.put(f"getelementptr {layout}, ptr {environment}, i64 0, i32 {i}")
            self.do(f"store {v.type.llvm} {self.value(v)}, ptr {at}")
        run = self.text.declare("rushlight_parallel", "void", "ptr, ptr, i64, i64")
        self.do(f"call void {run}(ptr @{name}, ptr {environment}, i64 {count}, i64 {grain})")


STATEMENTS: dict[type, Callable[[Emitter, Any], None]] = {
    getattr(ir, name): getattr(Emitter, "do_" + name.lower())
    for name in "Let Array Store Do For While If Break Return Parallel".split()
}
