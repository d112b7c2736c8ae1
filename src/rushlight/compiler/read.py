"""From Python's syntax to the intermediate representation.

`read(source, types, known)` reads a function with its parameters' types and gives a module of it
and all it calls. While reading, every expression is either known (an ordinary Python value) or an
`ir` expression with a type; what only involves known values is computed at once.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any, NoReturn

from rushlight.compiler import ir, language, types
from rushlight.compiler.language import Source
from rushlight.compiler.types import Ptr, Type, b1, i64, vector

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "div",
    ast.Mod: "rem", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl",
    ast.RShift: "shr",
}  # fmt: skip
COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
EXPRESSIONS = (ir.Const, ir.Var, ir.Load, ir.Op, ir.Cast, ir.Call)


class KernelError(TypeError):
    """A kernel that means nothing: where and why."""


def read(source: Source, parameters: dict[str, Type], known: dict[str, Any]) -> ir.Module:
    """The module of a kernel: its parameters' types by name, and values of other names it uses."""
    module = Module()
    module.add(source, [ir.Var(name, t) for name, t in parameters.items()], known)
    return ir.Module(module.functions)


def is_runtime(value: Any) -> bool:
    return isinstance(value, EXPRESSIONS)


class Lambda:
    """A function of one expression, with the names and the source of where it stands."""

    def __init__(self, node: ast.Lambda, names: dict[str, Any], source: Source) -> None:
        self.node, self.names, self.source = node, names, source


class Module:
    """What is read so far: a function is read once for each kind of arguments."""

    def __init__(self) -> None:
        self.functions: list[ir.Function] = []
        self.names: dict[Any, ir.Function] = {}
        self.inlines = 0  # inline functions written out, for names of their variables

    def add(self, source: Source, parameters: list[ir.Var], known: dict[str, Any]) -> ir.Function:
        key = (source, tuple((p.name, p.type) for p in parameters), tuple(known.items()))
        if key not in self.names:
            name = source.__name__
            taken = {f.name for f in self.functions}
            if name in taken:
                name += f"_{len(taken)}"
            function = ir.Function(name, parameters, None, fast=source.fast)
            self.functions.append(function)
            self.names[key] = function
            Reader(self, source, function, known).function()
        return self.names[key]


class Reader:
    """Reads one function; inline functions within it share its statements."""

    def __init__(
        self, module: Module, source: Source, function: ir.Function, known: dict[str, Any]
    ) -> None:
        self.module, self.source, self.target = module, source, function
        self.names: dict[str, Any] = dict(known)  # name -> known value or ir.Var
        self.types: dict[str, Type] = {}  # every variable of the function
        self.statements = function.body
        self.prefix = ""
        self.depth = 0  # loops and branches around that happen when the kernel runs
        self.bound_at: dict[str, int] = {}  # known names: the depth at which they were bound
        self.frozen: set[str] = set()  # variables that a parallel body may not change
        self.returned: Any = None
        for parameter in function.parameters:
            self.names[parameter.name] = parameter
            self.types[parameter.name] = parameter.type
        self.line: Any = None

    # What is wrong, and where.

    def fail(self, message: str, node: Any = None) -> NoReturn:
        _, file, first = self.source.tree()
        line = getattr(node or self.line, "lineno", 0) + first
        raise KernelError(f"{file}:{line}: in {self.source.__name__}: {message}")

    # Functions.

    def function(self) -> None:
        tree, _, _ = self.source.tree()
        defaults = tree.args.defaults
        for argument, default in zip(
            tree.args.args[len(tree.args.args) - len(defaults) :], defaults, strict=True
        ):
            if argument.arg not in self.names:
                self.names[argument.arg] = self.value(default)
        for argument in tree.args.args:
            if argument.arg not in self.names:
                self.fail(f"parameter {argument.arg} has no type and no value", tree)
        self.block(tree.body)

    def inlined(self, source: Source, args: list[Any], keywords: dict[str, Any]) -> Any:
        """The value of an inline function, its statements written here."""
        tree, _, _ = source.tree()
        bound = dict(zip((a.arg for a in tree.args.args), args, strict=False)) | keywords
        saved = (self.source, self.names, self.prefix, self.returned, self.bound_at, self.line)
        self.module.inlines += 1
        prefix = f"{source.__name__}{self.module.inlines}_"
        names: dict[str, Any] = {}
        for name, value in bound.items():
            if (
                is_runtime(value)
                and not isinstance(value, (ir.Var, ir.Const))
                or isinstance(value, ir.Var)
                and name in _assigned(tree)
            ):
                value = self.let(prefix + name, value)
            names[name] = value
        defaults = tree.args.defaults
        self.source, self.prefix, self.returned = source, prefix, None
        for argument, default in zip(
            tree.args.args[len(tree.args.args) - len(defaults) :], defaults, strict=True
        ):
            if argument.arg not in names:
                names[argument.arg] = self.value(default)
        self.names, self.bound_at = names, dict.fromkeys(names, self.depth)
        for argument in tree.args.args:
            if argument.arg not in names:
                self.fail(f"{source.__name__}() lacks {argument.arg}", tree)
        self.block(tree.body)
        result = self.returned
        self.source, self.names, self.prefix, self.returned, self.bound_at, self.line = saved
        return None if result is None else result[0]

    # Statements.

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if self.prefix and self.returned is not None:
                self.fail("an inline function returns at its end only", node)
            self.line = node
            method = getattr(self, "do_" + type(node).__name__.lower(), None)
            if method is None:
                self.fail(f"kernels have no {type(node).__name__} statement", node)
            method(node)

    def nested(self, body: list[ast.stmt]) -> list[ir.Stmt]:
        """The statements of a loop or a branch that happens when the kernel runs."""
        outer, self.statements = self.statements, []
        self.depth += 1
        self.block(body)
        self.depth -= 1
        inner, self.statements = self.statements, outer
        return inner

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
        if is_runtime(value) and not isinstance(value, ir.Const):
            return self.let(f"{self.prefix}v{len(self.types)}", value)
        return value

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (tuple, list)) or len(value) != len(target.elts):
                self.fail(f"cannot unpack into {len(target.elts)} names")
            # Copied, also variables, which one of the assignments may change: `a, b = b, a`.
            held = self.copied(list(value))
            for element, one in zip(target.elts, held, strict=True):
                self.assign(element, one)
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            if isinstance(base, list):
                old = base[self.value(target.slice)]
                if not isinstance(old, ir.Var):
                    self.fail("only what holds a value of the run can be set in a list")
                self.let(old.name, self.constant(value, old.type))
            else:
                self.store(self.element(target), value)
        elif isinstance(target, ast.Name):
            name = target.id
            value = self.copied(value) if isinstance(value, (tuple, list)) else value
            old = self.names.get(name)
            if is_runtime(value):
                full = self.prefix + name
                if isinstance(old, ir.Var) and old.name != full:
                    full = old.name if old.name.startswith(self.prefix) else full
                self.names[name] = self.let(full, value)
            elif isinstance(old, ir.Var) and not isinstance(value, (tuple, list)):
                self.names[name] = self.let(old.name, self.constant(value, old.type))
            else:
                if name in self.names and self.bound_at.get(name, self.depth) < self.depth:
                    self.fail(f"{name} is known while compiling; give it a type to change it here")
                self.names[name] = value
                self.bound_at[name] = self.depth
        else:
            self.fail("cannot assign to this", target)

    def store(self, pointer: Any, value: Any, mask: Any = None, stream: bool = False) -> None:
        element = pointer.type.element
        if not is_runtime(value):
            value = self.constant(value, element.loaded)
        if value.type.scalar is not element.scalar.loaded:
            self.fail(f"cannot store {value.type} where there is {element}")
        self.statements.append(ir.Store(pointer, value, mask, stream))

    def do_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.fail("a variable starts with a value", node)
        self.assign(node.target, self.cast(self.value(node.value), self.value(node.annotation)))

    def do_augassign(self, node: ast.AugAssign) -> None:
        name = BINARY[type(node.op)]
        if isinstance(node.target, ast.Subscript) and is_runtime(self.value(node.target.value)):
            pointer = self.element(node.target)
            if not isinstance(pointer, ir.Var):
                pointer = self.let(f"{self.prefix}p{len(self.types)}", pointer)
            old = ir.Load(pointer, pointer.type.element.loaded)
            self.store(pointer, self.binary(name, old, self.value(node.value)))
        else:
            old = self.value(node.target)
            self.assign(node.target, self.binary(name, old, self.value(node.value), type(node.op)))

    def do_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # the docstring
        value = self.value(node.value)
        if is_runtime(value):
            self.statements.append(ir.Do(value))

    def do_pass(self, node: ast.Pass) -> None:
        pass

    def do_assert(self, node: ast.Assert) -> None:
        test = self.value(node.test)
        if is_runtime(test):
            self.fail("asserts are about what is known while compiling", node)
        if not test:
            self.fail(f"assertion failed: {ast.unparse(node.test)}", node)

    def do_if(self, node: ast.If) -> None:
        test = self.value(node.test)
        if not is_runtime(test):
            self.block(node.body if test else node.orelse)
            return
        test = self.truth(test)
        before = dict(self.names)
        then = self.nested(node.body)
        after = self.names
        self.names = dict(before) | {k: v for k, v in after.items() if isinstance(v, ir.Var)}
        otherwise = self.nested(node.orelse)
        self.names = {k: v for k, v in after.items() if isinstance(v, ir.Var)} | self.names
        self.statements.append(ir.If(test, then, otherwise))

    def do_while(self, node: ast.While) -> None:
        test = self.value(node.test)
        if not is_runtime(test):
            test = ir.Const(bool(test), b1)
        self.statements.append(ir.While(self.truth(test), self.nested(node.body)))

    def do_break(self, node: ast.Break) -> None:
        self.statements.append(ir.Break())

    def do_for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call):
            self.fail("loops go over range, lanes, unroll or parallel", node)
        word = self.value(node.iter.func)
        args = [self.value(a) for a in node.iter.args]
        if word is language.unroll:
            self.unrolled(node, args)
        elif word is language.parallel:
            self.in_parallel(node, *args)
        elif word is range or word is language.lanes:
            self.counted(node, args, word is language.lanes)
        else:
            self.fail("loops go over range, lanes, unroll or parallel", node)

    def unrolled(self, node: ast.For, args: list[Any]) -> None:
        if any(is_runtime(a) for a in args):
            self.fail("unroll() goes over something known while compiling", node)
        values = range(*args) if isinstance(args[0], int) else args[0]
        for name in ast.walk(node.target):  # it starts anew, wherever it was used before
            self.bound_at.pop(getattr(name, "id", ""), None)
        for value in values:
            self.assign(node.target, value)
            self.block(node.body)

    def counted(self, node: ast.For, args: list[Any], independent: bool) -> None:
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        step = args[2] if len(args) == 3 else 1
        if is_runtime(step) or step == 0:
            self.fail("a loop's step is known while compiling, and not 0", node)
        t = next((a.type for a in (start, stop) if is_runtime(a)), i64)
        start, stop = self.constant(start, t), self.constant(stop, t)
        if not isinstance(stop, (ir.Const, ir.Var)):
            stop = self.let(f"{self.prefix}stop{len(self.types)}", stop)
        name = self.prefix + node.target.id  # type: ignore[attr-defined]
        if self.types.setdefault(name, t) is not t:
            self.fail(f"{name} is {self.types[name]} and cannot become {t}", node)
        self.names[node.target.id] = ir.Var(name, t)  # type: ignore[attr-defined]
        body = self.nested(node.body)
        self.statements.append(ir.For(name, start, stop, step, body, independent))

    def in_parallel(self, node: ast.For, count: Any, grain: Any) -> None:
        if self.prefix or self.frozen:
            self.fail("parallel loops stand in kernels and routines, not within each other", node)
        start, stop = (element.id for element in node.target.elts)  # type: ignore[attr-defined]
        before, bound = dict(self.names), dict(self.bound_at)
        self.frozen = set(self.types)
        for name in (start, stop):
            self.types[name] = i64
            self.names[name] = ir.Var(name, i64)
        body = self.nested(node.body)
        for name in set(self.types) - self.frozen:
            self.types.pop(name)
        self.frozen = set()
        self.names, self.bound_at = before, bound
        self.statements.append(
            ir.Parallel(start, stop, self.constant(count, i64), self.constant(grain, i64), body)
        )

    def do_return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.value(node.value)
        if self.prefix:
            value = self.held(self.copied(value) if isinstance(value, (tuple, list)) else value)
            self.returned = (value,)
            return
        if value is not None and not is_runtime(value):
            value = self.constant(value, self.target.result or i64)
        t = None if value is None else value.type
        if self.target.result is None:
            self.target.result = t
        elif self.target.result is not t:
            self.fail(f"returns {t} here and {self.target.result} elsewhere", node)
        self.statements.append(ir.Return(value))

    # Expressions.

    def value(self, node: ast.expr) -> Any:
        method = getattr(self, "of_" + type(node).__name__.lower(), None)
        if method is None:
            self.fail(f"kernels have no {type(node).__name__}", node)
        return method(node)

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
            tree = ast.Expression(
                ast.BinOp(ast.Name("a", ast.Load()), operator(), ast.Name("b", ast.Load()))
            )
            code = compile(ast.fix_missing_locations(tree), "<known>", "eval")
            return eval(code, {}, {"a": left, "b": right})  # known values, Python's own operator
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
                    return value if result is None else ir.Const(bool(value), b1)
                result = value if result is None else result
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
            if not is_runtime(left) and not is_runtime(right):
                tree = ast.Expression(
                    ast.Compare(ast.Name("a", ast.Load()), [op], [ast.Name("b", ast.Load())])
                )
                code = compile(ast.fix_missing_locations(tree), "<known>", "eval")
                one: Any = eval(code, {}, {"a": left, "b": right})
            elif type(op) not in COMPARE:
                one = isinstance(op, ast.IsNot)  # `x is None`, of a value: it is something
            else:
                a, b = self.unified(left, right)
                one = ir.Op(COMPARE[type(op)], (a, b), a.type.of(b1))
            if result is None:
                result = one
            elif is_runtime(result) and is_runtime(one):
                result = ir.Op("and", (result, one), one.type)
            else:
                result = result and one
            left = right
        return result

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
        keywords = {k.arg: self.value(k.value) for k in node.keywords}
        if isinstance(called, Type):
            return self.cast(args[0], called)
        if isinstance(called, language.Word):
            return self.word(called, args, keywords)
        if isinstance(called, Source):
            return self.called(called, args, keywords)
        if isinstance(called, Lambda):
            return self.applied(called, args)
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

    def called(self, source: Source, args: list[Any], keywords: dict[str, Any]) -> Any:
        if source.kind == "inline function":
            return self.inlined(source, args, keywords)
        tree, _, _ = source.tree()
        bound = dict(zip((a.arg for a in tree.args.args), args, strict=False)) | keywords
        parameters = [ir.Var(n, v.type) for n, v in bound.items() if is_runtime(v)]
        known = {n: v for n, v in bound.items() if not is_runtime(v)}
        function = self.module.add(source, parameters, known)
        call = ir.Call(
            function.name,
            tuple(v for v in bound.values() if is_runtime(v)),
            function.result,  # type: ignore[arg-type]
        )
        if function.result is None:
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


def _assigned(tree: Any) -> set[str]:
    """The names that a function assigns."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


__all__ = ["KernelError", "read", "types"]
