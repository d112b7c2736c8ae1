"""Expressions of kernels: what the reader of `frontend.py` makes of them.

An expression is either known (an ordinary Python value) or an `ir` expression with a type.
"""

from __future__ import annotations

import ast
import builtins
import operator as known
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight._codegen import ir, language
from rushlight._codegen.language import Source
from rushlight._codegen.types import Ptr, Type, b1, i8, i16, i32, i64, vector

if TYPE_CHECKING:
    from rushlight._codegen.frontend import Module

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "div",
    ast.Mod: "rem", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl",
    ast.RShift: "shr",
}  # fmt: skip
COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
# What Python's own operators do, of known values.
KNOWN: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: known.add, ast.Sub: known.sub, ast.Mult: known.mul, ast.Div: known.truediv,
    ast.FloorDiv: known.floordiv, ast.Mod: known.mod, ast.Pow: known.pow, ast.MatMult: known.matmul,
    ast.BitAnd: known.and_, ast.BitOr: known.or_, ast.BitXor: known.xor, ast.LShift: known.lshift,
    ast.RShift: known.rshift, ast.Eq: known.eq, ast.NotEq: known.ne, ast.Lt: known.lt,
    ast.LtE: known.le, ast.Gt: known.gt, ast.GtE: known.ge, ast.Is: known.is_,
    ast.IsNot: known.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
OPERATORS = {
    function: operator for operator, function in KNOWN.items()
}  # `operator.add` and its like
EXPRESSIONS = frozenset((ir.Const, ir.Var, ir.Load, ir.Op, ir.Cast, ir.Call))


class KernelError(TypeError):
    """A kernel that means nothing: where and why."""


def is_runtime(value: Any) -> bool:
    return type(value) in EXPRESSIONS


class Lambda:
    """A function of one expression, with the names and the source of where it stands."""

    def __init__(self, node: ast.Lambda, names: dict[str, Any], source: Source) -> None:
        self.node, self.names, self.source = node, names, source


class Expressions:
    """Reads the expressions of one function; its statements are the subclass's, `read.Reader`."""

    module: Module
    source: Source
    names: dict[str, Any]
    types: dict[str, Type]
    statements: list[ir.Stmt]
    prefix: str
    frozen: set[str]
    line: Any

    # What is wrong, and where.

    def fail(self, message: str, node: Any = None) -> NoReturn:
        _, file, first = self.source.tree()
        line = getattr(node or self.line, "lineno", 0) + first
        raise KernelError(f"{file}:{line}: in {self.source.__name__}: {message}")

    # Variables and memory.

    def let(self, name: str, value: Any) -> ir.Var:
        """A variable takes a value."""
        t = self.types.setdefault(name, value.type)
        if t is not value.type:
            self.fail(f"{name} is {t} and cannot become {value.type}")
        if name in self.frozen:
            self.fail(f"a parallel body cannot change {name} of the function around it")
        self.statements.append(ir.Let(name, value))
        return ir.Var(name, t)

    def held(self, value: Any) -> Any:
        """A value that can be named twice without being computed twice."""
        if isinstance(value, (ir.Load, ir.Op, ir.Cast, ir.Call)):
            return self.let(f"{self.prefix}v{len(self.types)}", value)
        return value

    def copied(self, value: Any) -> Any:
        """A list or tuple whose elements, lists too, are variables of their own."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.copied(v) for v in value)
        if is_runtime(value):
            return self.let(f"{self.prefix}v{len(self.types)}", value)
        return value

    def store(self, pointer: Any, value: Any, mask: Any = None, stream: bool = False) -> None:
        element = pointer.type.element
        if not is_runtime(value):
            value = self.constant(value, element.loaded)
        if value.type.scalar is not element.scalar.loaded:
            self.fail(f"cannot store {value.type} where there is {element}")
        self.statements.append(ir.Store(pointer, value, mask, stream))

    def inlined(self, source: Source, args: list[Any], keywords: dict[str, Any]) -> Any:
        """The value of an inline function, its statements written here."""
        raise NotImplementedError

    # Values.

    def value(self, node: ast.expr) -> Any:
        method = METHODS.get(type(node))
        if method is None:
            self.fail(f"kernels have no {type(node).__name__}", node)
        return method(self, node)

    def constant(self, value: Any, t: Type) -> Any:
        """A value as an expression of a type, if it is known; else the expression it is."""
        if is_runtime(value):
            if t.kind == "v" and value.type is t.element:
                return ir.Op("splat", (value,), t)
            return value
        if isinstance(value, bool) or t.scalar.kind == "b":
            value = bool(value) if t.scalar.kind == "b" else int(value)
        if not isinstance(value, (bool, int, float)):
            self.fail(f"{value!r} is not a number")
        if t.is_float:
            return ir.Const(float(value), t)
        if isinstance(value, float):
            if not value.is_integer():
                self.fail(f"{value} is no {t}")
            value = int(value)
        if t.kind == "p":
            self.fail(f"{value} is no pointer")
        return ir.Const(value, t)

    def of_constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.names:
            return self.names[name]
        function = self.source.function
        code = function.__code__
        if name in code.co_freevars:
            return function.__closure__[code.co_freevars.index(name)].cell_contents  # type: ignore[index]
        if name in function.__globals__:
            return function.__globals__[name]
        if not hasattr(builtins, name):
            self.fail(f"{name} is not defined", node)
        return getattr(builtins, name)

    def of_attribute(self, node: ast.Attribute) -> Any:
        value = self.value(node.value)
        if is_runtime(value):
            self.fail("values have no attributes in kernels", node)
        return getattr(value, node.attr)

    def of_tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def of_list(self, node: ast.List) -> Any:
        return [self.value(e) for e in node.elts]

    def of_binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        return self.binary(BINARY.get(type(node.op), "?"), left, right, type(node.op))

    def binary(self, name: str, left: Any, right: Any, operator: Any = None) -> Any:
        if not is_runtime(left) and not is_runtime(right):
            return KNOWN[operator](left, right)
        if is_runtime(left) and left.type.kind == "p":
            offset = self.constant(right, i64)
            if name == "sub":
                offset = ir.Op("neg", (offset,), offset.type)
            elif name != "add":
                self.fail(f"pointers know no {name}")
            return self.offset(left, offset)
        if name == "?":
            self.fail("kernels have no such operator")
        left, right = self.unified(left, right)
        if name == "div" and operator is ast.Div and not left.type.is_float:
            self.fail("/ is for floating point; // for integers")
        if name == "div" and operator is ast.FloorDiv and left.type.is_float:
            self.fail("// is for integers")
        return ir.Op(name, (left, right), left.type)

    def offset(self, pointer: Any, by: Any) -> Any:
        if by.type.scalar.kind not in "iu":
            self.fail(f"an index is an integer, not {by.type}")
        if by.type is not i64:
            by = ir.Cast(by, i64)
        return ir.Op("offset", (pointer, by), pointer.type)

    def unified(self, *values: Any) -> tuple:
        """The values as expressions of one type: known ones and numbers become what vectors are."""
        given = [v.type for v in values if is_runtime(v)]
        t = next((g for g in given if g.kind == "v"), given[0])
        if t.kind != "v":
            t = given[0]
        out = tuple(self.constant(v, t) for v in values)
        for one in out:
            if one.type is not t:
                self.fail(f"{t} and {one.type} do not mix: convert one of them")
        return out

    def of_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if not is_runtime(value):
            if isinstance(node.op, ast.Not):
                return not value
            return -value if isinstance(node.op, ast.USub) else ~value
        if isinstance(node.op, ast.USub):
            return ir.Op("neg", (value,), value.type)
        if isinstance(node.op, ast.Not):
            value = self.truth(value)
        return ir.Op("not", (value,), value.type)

    def truth(self, value: Any) -> Any:
        if not is_runtime(value):
            return ir.Const(bool(value), b1)
        if value.type.scalar is b1:
            return value
        return ir.Op("ne", (value, ir.Const(0, value.type)), value.type.of(b1))

    def of_boolop(self, node: ast.BoolOp) -> Any:
        name = "and" if isinstance(node.op, ast.And) else "or"
        result: Any = None
        for operand in node.values:
            value = self.value(operand)
            if not is_runtime(value):
                if bool(value) == (name == "or"):
                    return ir.Const(bool(value), b1) if is_runtime(result) else value
                if not is_runtime(result):
                    result = value
                continue
            value = self.truth(value)
            if result is None or not is_runtime(result):
                result = value
            else:
                a, b = self.unified(result, value)
                result = ir.Op(name, (a, b), a.type)
        return result

    def of_compare(self, node: ast.Compare) -> Any:
        result: Any = None
        left = self.value(node.left)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            one = self.compared(type(op), left, right)
            if result is None:
                result = one
            elif is_runtime(result) and is_runtime(one):
                result = ir.Op("and", (result, one), one.type)
            else:
                result = result and one
            left = right
        return result

    def compared(self, operator: type, left: Any, right: Any) -> Any:
        if not is_runtime(left) and not is_runtime(right):
            return KNOWN[operator](left, right)
        if operator not in COMPARE:
            return operator is ast.IsNot  # `x is None`, of a value: it is something
        if operator is ast.Lt and is_runtime(left) and is_runtime(right) and right.type is i64:
            if left.type.kind == "v" and type(left) is ir.Op and left.name == "iota":
                return self.first_lanes(left.type.lanes, right)
        a, b = self.unified(left, right)
        return ir.Op(COMPARE[operator], (a, b), a.type.of(b1))

    def first_lanes(self, lanes: int, count: Any) -> ir.Op:
        """The mask of the first lanes, `count` of them, in numbers of half as many bits as registers have for a lane, or
        less: vectors of i64 take twice as many registers as what is masked, and LLVM makes them anew in each round."""
        t = next((t for t, most in ((i32, 16), (i16, 32), (i8, 64)) if lanes <= most), i64)
        count, zero, all_lanes = self.held(count), ir.Const(0, i64), ir.Const(lanes, i64)
        for test, bound in (("gt", zero), ("lt", all_lanes)):
            inside = ir.Op(test, (count, bound), b1)
            count = self.held(ir.Op("select", (inside, count, bound), i64))
        limit = ir.Op("splat", (ir.Cast(count, t),), vector(t, lanes))
        return ir.Op("lt", (ir.Op("iota", (), limit.type), limit), vector(b1, lanes))

    def of_ifexp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if not is_runtime(test):
            return self.value(node.body if test else node.orelse)
        return self.select(test, self.value(node.body), self.value(node.orelse))

    def select(self, test: Any, a: Any, b: Any) -> Any:
        if not is_runtime(a) and not is_runtime(b):
            self.fail("both branches are known: give one a type")
        a, b = self.unified(a, b)
        test = self.truth(test)
        if a.type.kind == "v" and test.type.kind != "v":
            test = ir.Op("splat", (test,), a.type.of(b1))
        if test.type.kind == "v" and a.type.kind != "v":
            t = vector(a.type, test.type.lanes)
            a, b = ir.Op("splat", (a,), t), ir.Op("splat", (b,), t)
        return ir.Op("select", (test, a, b), a.type)

    def of_subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if is_runtime(base):
            pointer = self.element(node)
            return ir.Load(pointer, pointer.type.element.loaded)
        index = self.value(node.slice)
        if is_runtime(index):
            self.fail("the index of something known must be known", node)
        return base[index]

    def of_slice(self, node: ast.Slice) -> Any:
        return slice(
            *(None if n is None else self.value(n) for n in (node.lower, node.upper, node.step))
        )

    def element(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if not is_runtime(base) or base.type.kind != "p":
            self.fail("only pointers are indexed", node)
        return self.offset(base, self.constant(self.value(node.slice), i64))

    def of_listcomp(self, node: ast.ListComp) -> Any:
        if len(node.generators) != 1:
            self.fail("one loop in a list", node)
        generator = node.generators[0]
        values = self.value(generator.iter)
        if is_runtime(values):
            self.fail("lists go over something known", node)
        saved, out = dict(self.names), []
        for value in values:
            self.names[generator.target.id] = value  # type: ignore[attr-defined]
            if all(self.value(test) for test in generator.ifs):
                out.append(self.value(node.elt))
        self.names = saved
        return out

    def of_lambda(self, node: ast.Lambda) -> Any:
        return Lambda(node, dict(self.names), self.source)

    def applied(self, function: Lambda, args: list[Any]) -> Any:
        saved = self.source, self.names
        bound = dict(
            zip((a.arg for a in function.node.args.args), map(self.held, args), strict=True)
        )
        self.source, self.names = function.source, {**function.names, **bound}
        result = self.value(function.node.body)
        self.source, self.names = saved
        return result

    def of_call(self, node: ast.Call) -> Any:
        called = self.value(node.func)
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                args.extend(self.value(a.value))
            else:
                args.append(self.value(a))
        keywords: dict[str, Any] = {}
        for k in node.keywords:
            keywords |= self.value(k.value) if k.arg is None else {k.arg: self.value(k.value)}
        if isinstance(called, Type):
            return self.cast(args[0], called)
        if isinstance(called, language.Word):
            return self.word(called, args, keywords)
        if isinstance(called, Source):
            return self.called(called, args, keywords)
        if isinstance(called, Lambda):
            return self.applied(called, args)
        if isinstance(called, language.External):
            called = self.module.declared(called)
        if isinstance(called, ir.Function):
            types = [p.type for p in called.parameters]
            given = [self.constant(a, t) for a, t in zip(args, types, strict=True)]
            return self.result(ir.Call(called.name, tuple(given), called.result))  # type: ignore[arg-type]
        if called is known.neg and is_runtime(args[0]):
            return ir.Op("neg", (args[0],), args[0].type)
        operator = OPERATORS.get(called)
        if operator in COMPARE:
            return self.compared(operator, *args)
        if operator in BINARY:
            return self.binary(BINARY[operator], *args, operator)
        everything = [*args, *keywords.values()]
        if called in (min, max) and any(is_runtime(a) for a in args):
            result = args[0]
            for other in args[1:]:
                a, b = map(self.held, self.unified(result, other))
                test = ir.Op("lt" if called is min else "gt", (a, b), a.type.of(b1))
                result = ir.Op("select", (test, a, b), a.type)
            return result
        if called is abs and is_runtime(args[0]):
            one = self.held(args[0])
            t = one.type
            if t.is_float:
                return ir.Op("fabs", (one,), t)
            negative = ir.Op("lt", (one, ir.Const(0, t)), t.of(b1))
            return ir.Op("select", (negative, ir.Op("neg", (one,), t), one), t)
        if any(is_runtime(a) for a in everything):
            self.fail(f"{getattr(called, '__name__', called)} cannot be called in a kernel", node)
        return called(*args, **keywords)

    def bound(self, source: Source, args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name; those without take the names that are left, in their order."""
        rest = [a.arg for a in source.tree()[0].args.args if a.arg not in keywords]
        return dict(zip(rest, args, strict=False)) | keywords

    def called(self, source: Source, args: list[Any], keywords: dict[str, Any]) -> Any:
        if source.kind == "inline function":
            return self.inlined(source, args, keywords)
        bound = self.bound(source, args, keywords)
        parameters = [ir.Var(n, v.type) for n, v in bound.items() if is_runtime(v)]
        known = {n: v for n, v in bound.items() if not is_runtime(v)}
        function = self.module.add(source, parameters, known)
        given = tuple(v for v in bound.values() if is_runtime(v))
        return self.result(ir.Call(function.name, given, function.result))  # type: ignore[arg-type]

    def result(self, call: ir.Call) -> Any:
        """What a call returns: a variable, or None."""
        if call.type is None:
            self.statements.append(ir.Do(call))
            return None
        return self.let(f"{self.prefix}c{len(self.types)}", call)

    def cast(self, value: Any, t: Type) -> Any:
        if not is_runtime(value):
            return self.constant(int(value) if t.scalar.kind in "iu" else value, t)
        if value.type.kind == "v":
            t = vector(t.scalar, value.type.lanes)
        elif t.kind == "v":
            return ir.Op("splat", (self.cast(value, t.scalar),), t)
        return value if value.type is t else ir.Cast(value, t)

    def word(self, word: language.Word, args: list[Any], keywords: dict[str, Any]) -> Any:
        if word in language.SIMPLE:
            if word is language.select:
                return self.select(*args)
            if all(not is_runtime(a) for a in args):
                self.fail(f"{word.name}() of something known: give it a type")
            args = list(self.unified(*args))
            return ir.Op(language.SIMPLE[word], tuple(args), args[0].type)
        return getattr(self, "word_" + word.name)(*args, **keywords)

    def word_load(self, pointer: Any, lanes: int, mask: Any = None) -> Any:
        return ir.Load(pointer, vector(pointer.type.element.loaded, lanes), mask)

    def word_store(self, pointer: Any, value: Any, mask: Any = None, stream: bool = False) -> None:
        self.store(pointer, value, mask, stream)

    def word_gather(self, pointer: Any, offsets: Any, mask: Any = None) -> Any:
        n = offsets.type.lanes
        mask = ir.Const(True, vector(b1, n)) if mask is None else mask
        return ir.Op("gather", (pointer, offsets, mask), vector(pointer.type.element, n))

    def word_array(self, element: Type, count: int) -> Any:
        name = f"{self.prefix}array{len(self.types)}"
        t = self.types[name] = Ptr[element]
        self.statements.append(ir.Array(name, element, count))
        return ir.Var(name, t)

    def word_call(self, address: Any, t: Type | None, *args: Any) -> Any:
        pointer = ir.Op("bits", (address,), Ptr[i64])
        return self.result(ir.Call("", (pointer, *args), t))  # type: ignore[arg-type]

    def word_prefetch(self, pointer: Any) -> None:
        self.statements.append(ir.Do(ir.Op("prefetch", (pointer,), b1)))

    def word_splat(self, value: Any, lanes: int) -> Any:
        if not is_runtime(value):
            self.fail("splat() of something known: give it a type")
        return ir.Op("splat", (value,), vector(value.type, lanes)) if lanes else value

    def word_iota(self, t: Type, lanes: int) -> Any:
        return ir.Op("iota", (), vector(t, lanes))

    def word_lane(self, value: Any, at: int) -> Any:
        return ir.Op("lane", (value, ir.Const(at, i64)), value.type.element)

    def word_insert(self, value: Any, at: int, new: Any) -> Any:
        new = self.constant(new, value.type.element)
        return ir.Op("insert", (value, ir.Const(at, i64), new), value.type)

    def word_bf16_pairs(self, a: Any, b: Any, c: Any) -> Any:
        return ir.Op("bf16_pairs", (a, b, c), c.type)

    def word_shuffle(self, a: Any, b: Any, which: Any) -> Any:
        lanes = [ir.Const(at, i64) for at in which]
        return ir.Op("shuffle", (a, b, *lanes), vector(a.type.element, len(lanes)))

    def word_total(self, value: Any) -> Any:
        return ir.Op("sum", (value,), value.type.element)

    def word_largest(self, value: Any) -> Any:
        return ir.Op("max", (value,), value.type.element)

    def word_smallest(self, value: Any) -> Any:
        return ir.Op("min", (value,), value.type.element)

    def word_some(self, value: Any) -> Any:
        return ir.Op("any", (value,), b1)

    def word_bits(self, value: Any, t: Type) -> Any:
        if value.type.kind == "v" and t.kind != "v":
            t = vector(t, value.type.size // t.size)
        return ir.Op("bits", (value,), t)

    def word_typeof(self, value: Any) -> Any:
        return value.type.scalar

    def word_lanesof(self, value: Any) -> Any:
        return value.type.lanes


METHODS = {
    getattr(ast, name): getattr(Expressions, "of_" + name.lower())
    for name in (
        "Constant Name Attribute Tuple List BinOp UnaryOp BoolOp Compare IfExp Subscript Slice"
        " ListComp Lambda Call"
    ).split()
}
