"""What makes a module well-formed; anything else is an error that says where.

Every variable is set before it is read and has one type; operations get what they take; stores fit
their memory; loops step; a parallel body sets no variable of the function around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rushlight._codegen import ir
from rushlight._codegen.types import Type, b1, f32, i32, i64, vector

SAME = {
    "add", "sub", "mul", "div", "rem", "neg", "and", "or", "xor", "not", "shl", "shr", "fma",
    "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign",
}  # fmt: skip
FLOAT = {"fma", "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign"}
WHOLE = {"and", "or", "xor", "not", "shl", "shr"}
COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}


class IllFormed(TypeError):
    """A module that the language's reader or a pass should not have made."""


def check(module: ir.Module) -> None:
    """Raise IllFormed unless the module is well-formed."""
    functions = {f.name: f for f in module.functions}
    if len(functions) != len(module.functions):
        raise IllFormed("two functions of one name")
    for function in module.functions:
        Checker(function, functions).run()


class Checker:
    """Checks one function."""

    def __init__(self, function: ir.Function, functions: dict[str, ir.Function]) -> None:
        self.function, self.functions = function, functions
        self.known = {p.name: p.type for p in function.parameters}
        self.frozen: set[str] = set()
        self.loops = 0

    def fail(self, message: str) -> NoReturn:
        raise IllFormed(f"in {self.function.name}: {message}")

    def run(self) -> None:
        self.body(self.function.body)

    def body(self, statements: list[ir.Stmt]) -> None:
        for s in statements:
            STATEMENTS[type(s)](self, s)

    def define(self, name: str, t: Type) -> None:
        if name in self.frozen:
            self.fail(f"a parallel body sets {name}")
        if self.known.setdefault(name, t) is not t:
            self.fail(f"{name} is {self.known[name]} and becomes {t}")

    def expect(self, what: str, got: Type | None, expected: Type | None) -> None:
        if got is not expected:
            self.fail(f"{what} is {got}, not {expected}")

    def of_let(self, s: ir.Let) -> None:
        self.define(s.name, self.type(s.value))

    def of_array(self, s: ir.Array) -> None:
        from rushlight._codegen.types import Ptr

        if s.count < 1:
            self.fail(f"an array of {s.count}")
        self.define(s.name, Ptr[s.element])

    def of_store(self, s: ir.Store) -> None:
        pointer, value = self.type(s.pointer), self.type(s.value)
        if pointer.kind != "p" or pointer.element is None:
            self.fail(f"a store to {pointer}")
        self.expect("what is stored", value.scalar, pointer.element.scalar.loaded)
        if s.mask is not None:
            self.expect("a store's mask", self.type(s.mask), value.of(b1))

    def of_do(self, s: ir.Do) -> None:
        if isinstance(s.value, ir.Call):
            self.call(s.value)
        else:
            self.type(s.value)

    def of_for(self, s: ir.For) -> None:
        t = self.type(s.start)
        self.expect("the end of a loop", self.type(s.stop), t)
        if t.kind not in "iu" or s.step == 0:
            self.fail(f"a loop over {t} by {s.step}")
        self.define(s.name, t)
        self.loop(s.body)

    def loop(self, body: list[ir.Stmt]) -> None:
        self.loops += 1
        self.body(body)
        self.loops -= 1

    def of_while(self, s: ir.While) -> None:
        self.expect("a condition", self.type(s.condition), b1)
        self.loop(s.body)

    def of_if(self, s: ir.If) -> None:
        self.expect("a condition", self.type(s.condition), b1)
        self.body(s.then)
        self.body(s.otherwise)

    def of_break(self, s: ir.Break) -> None:
        if not self.loops:
            self.fail("a break outside of a loop")

    def of_return(self, s: ir.Return) -> None:
        if self.frozen:
            self.fail("a parallel body returns")
        got = None if s.value is None else self.type(s.value)
        self.expect("what is returned", got, self.function.result)

    def of_parallel(self, s: ir.Parallel) -> None:
        self.expect("a parallel loop's count", self.type(s.count), i64)
        self.expect("a parallel loop's grain", self.type(s.grain), i64)
        if self.frozen:
            self.fail("a parallel body within another")
        before, loops = dict(self.known), self.loops
        self.frozen = set(self.known) - {s.start, s.stop}
        self.known[s.start] = self.known[s.stop] = i64
        self.loops = 0
        self.body(s.body)
        self.known, self.frozen, self.loops = before, set(), loops

    # Expressions.

    def type(self, e: Any) -> Type:
        EXPRESSIONS[type(e)](self, e)
        return e.type

    def is_const(self, e: ir.Const) -> None:
        kind = e.type.scalar.kind
        expected: Any = {"f": float, "b": bool}.get(kind, int)
        if type(e.value) is not expected or kind == "p":
            self.fail(f"{e.value!r} as a {e.type}")

    def is_var(self, e: ir.Var) -> None:
        if self.known.get(e.name) is not e.type:
            if e.name not in self.known:
                self.fail(f"{e.name} is read before it is set")
            self.fail(f"{e.name} is {e.type}, not {self.known[e.name]}")

    def is_load(self, e: ir.Load) -> None:
        pointer = self.type(e.pointer)
        if pointer.kind != "p" or pointer.element is None:
            self.fail(f"a load from {pointer}")
        self.expect("what is loaded", e.type.scalar, pointer.element.scalar.loaded)
        if e.mask is not None:
            self.expect("a load's mask", self.type(e.mask), e.type.of(b1))

    def is_cast(self, e: ir.Cast) -> None:
        t = self.type(e.arg)
        if t.lanes != e.type.lanes or "p" in (t.scalar.kind, e.type.scalar.kind):
            self.fail(f"{t} converted to {e.type}")

    def is_call(self, e: ir.Call) -> None:
        self.call(e)
        if e.type is None:
            self.fail(f"{e.name} returns nothing")

    def call(self, e: ir.Call) -> None:
        if not e.name:  # what it takes and returns, the one that wrote it knows
            given = [self.type(a) for a in e.args]
            if not given or given[0].kind != "p":
                self.fail("a call of what is no address")
            return
        function = self.functions.get(e.name)
        if function is None:
            self.fail(f"{e.name} is not in the module")
        if len(function.parameters) != len(e.args):
            self.fail(f"{e.name} takes {len(function.parameters)} arguments, not {len(e.args)}")
        for parameter, a in zip(function.parameters, e.args, strict=True):
            self.expect(f"{parameter.name} of {e.name}", self.type(a), parameter.type)
        self.expect(f"what {e.name} returns", e.type, function.result)

    def is_op(self, e: ir.Op) -> None:
        if e.name not in ir.OPS:
            self.fail(f"no operation {e.name}")
        if len(e.args) != ir.OPS[e.name][0] >= 0:
            self.fail(f"{e.name} takes {ir.OPS[e.name][0]} arguments, not {len(e.args)}")
        given = [self.type(a) for a in e.args]
        name, t = e.name, e.type
        if name in SAME:
            for argument in given:
                if argument is not t:
                    self.fail(f"an argument of {name} is {argument}, not {t}")
            if (name in FLOAT) > t.is_float or (name in WHOLE and t.is_float):
                self.fail(f"{name} of {t}")
        elif name in COMPARE:
            self.expect(f"the right side of {name}", given[1], given[0])
            self.expect(f"the result of {name}", t, given[0].of(b1))
        elif name == "select":
            for choice in given[1:]:
                self.expect("a choice", choice, t)
            if given[0].scalar is not b1 or given[0].lanes not in (0, t.lanes):
                self.fail(f"{given[0]} chooses between {t}")
        elif name == "offset":
            self.expect("a pointer's offset", given[1], i64)
            self.expect("a pointer", given[0], t)
        elif name == "bits":
            if t.kind != "p" and t.size != given[0].size:
                self.fail(f"the bits of {given[0]} as {t}")
        else:
            self.vector_op(e, given)

    def vector_op(self, e: ir.Op, given: list[Type]) -> None:
        """Check an operation on the lanes of vectors whose arguments have the types `given`."""
        name, t = e.name, e.type
        if name == "splat":
            self.expect("a splat", given[0], t.element)
        elif name in ("lane", "insert"):
            at = e.args[1]
            if not isinstance(at, ir.Const) or not 0 <= at.value < given[0].lanes:
                self.fail(f"a lane of {given[0]} that is not there")
            if name == "insert":
                self.expect("a lane's new value", given[2], given[0].element)
        elif name == "bf16_pairs":
            for argument, expected in zip(given, (i32, i32, f32), strict=True):
                self.expect("an argument of bf16_pairs", argument, vector(expected, 16))
            self.expect("the result of bf16_pairs", t, given[2])
        elif name == "shuffle":
            a, b, *which = given
            self.expect("the second vector of a shuffle", b, a)
            if t.element is not a.element or t.lanes != len(which):
                self.fail(f"{len(which)} lanes of {a} as {t}")
            for at in e.args[2:]:
                if not isinstance(at, ir.Const) or not 0 <= at.value < 2 * a.lanes:
                    self.fail(f"a lane of two {a} that is not there")
        elif name in ("sum", "max", "min"):
            self.expect(f"the result of {name}", t, given[0].element)


STATEMENTS: dict[type, Callable[[Checker, Any], None]] = {
    getattr(ir, name): getattr(Checker, "of_" + name.lower())
    for name in "Let Array Store Do For While If Break Return Parallel".split()
}
EXPRESSIONS: dict[type, Callable[[Checker, Any], None]] = {
    getattr(ir, name): getattr(Checker, "is_" + name.lower())
    for name in "Const Var Load Cast Call Op".split()
}
