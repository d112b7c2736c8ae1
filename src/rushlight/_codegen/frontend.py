"""From Python's syntax to the intermediate representation.

`read(source, types, known)` reads a function with its parameters' types and gives a module of it
and all it calls. While reading, every expression is either known (an ordinary Python value) or an
`ir` expression with a type; what only involves known values is computed at once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rushlight._codegen import ir, language
from rushlight._codegen.expressions import BINARY, Expressions, KernelError, is_runtime
from rushlight._codegen.language import Source
from rushlight._codegen.types import Type, b1, i64

Separate = Callable[[Source, dict[str, Type], dict[str, Any]], str]


def read(
    source: Source,
    parameters: dict[str, Type],
    known: dict[str, Any],
    separate: Separate | None = None,
    entry: Callable[[Module], None] | None = None,
) -> ir.Module:
    """The module of a kernel: its parameters' types by name, and values of other names it uses.

    `separate` names routines that have modules of their own; without it all stand in this one. `entry`
    adds to the module what calls the kernel.
    """
    module = Module(separate)
    module.add(source, [ir.Var(name, t) for name, t in parameters.items()], known).entry = True
    if entry is not None:
        entry(module)
    return ir.Module(module.functions)


class Module:
    """What is read so far: a function is read once for each kind of arguments."""

    def __init__(self, separate: Separate | None = None) -> None:
        self.separate = separate
        self.functions: list[ir.Function] = []
        self.names: dict[Any, ir.Function] = {}
        self.inlines = 0  # inline functions written out, for names of their variables

    def add(self, source: Source, parameters: list[ir.Var], known: dict[str, Any]) -> ir.Function:
        separate = self.separate is not None and source.separate and bool(self.functions)
        if (
            separate and has_stable_text(source) and all(map(has_stable_text, known.values()))
        ):  # the same one, in whatever order its values are given, or left to defaults
            known = dict(sorted((defaults(source, parameters) | known).items()))
        else:
            separate = False
        key = (source, tuple((p.name, p.type) for p in parameters), tuple(known.items()))
        if key not in self.names:
            name = source.__name__
            taken = {f.name for f in self.functions}
            if name in taken:
                name += f"_{len(taken)}"
            function = ir.Function(name, parameters, None, fast=source.fast)
            if separate:
                assert self.separate is not None
                function.separate = True
                function.result = result(source, known)
                function.name = self.separate(source, {p.name: p.type for p in parameters}, known)
            self.functions.append(function)
            self.names[key] = function
            if not function.separate:
                Reader(self, source, function, known).function()
        return self.names[key]

    def declared(self, external: language.External) -> ir.Function:
        """The function of the module that stands for one of C."""
        for function in self.functions:
            if function.name == external.name:
                return function
        parameters = [ir.Var(f"x{k}", t) for k, t in enumerate(external.takes)]
        self.functions.append(
            ir.Function(external.name, parameters, external.result, separate=True)
        )
        return self.functions[-1]


def has_stable_text(value: Any) -> bool:
    """Whether the text of a known value says all of it."""
    if isinstance(value, (tuple, list)):
        return all(map(has_stable_text, value))
    if isinstance(value, Source):
        return not value.function.__code__.co_freevars and "<" not in value.function.__qualname__
    return value is None or isinstance(value, (bool, int, float, str, Type))


def defaults(source: Source, parameters: list[ir.Var]) -> dict[str, Any]:
    """The known values of parameters that have one unless they are given another."""
    arguments = source.tree()[0].args
    given = {p.name for p in parameters}
    names = [a.arg for a in arguments.args][len(arguments.args) - len(arguments.defaults) :]
    return {
        name: value.value
        for name, value in zip(names, arguments.defaults, strict=True)
        if name not in given and isinstance(value, ast.Constant)
    }


def result(source: Source, known: dict[str, Any]) -> Type | None:
    """What a function says that it returns."""
    tree = source.tree()[0]
    returns = tree.returns
    if returns is None:
        if any(isinstance(node, ast.Return) and node.value for node in ast.walk(tree)):
            raise KernelError(f"{source} is compiled separately: annotate what it returns")
        return None
    code = compile(ast.fix_missing_locations(ast.Expression(returns)), "<annotation>", "eval")
    return eval(code, {**source.function.__globals__, **known})


class Reader(Expressions):
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
        bound = self.bound(source, args, keywords)
        saved = (self.source, self.names, self.prefix, self.returned, self.bound_at, self.line)
        self.module.inlines += 1
        prefix = f"{source.__name__}{self.module.inlines}_"
        names: dict[str, Any] = {}
        for name, value in bound.items():
            simple = isinstance(value, (ir.Var, ir.Const)) and name not in source.assigned()
            if is_runtime(value) and not simple:
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
            method = STATEMENTS.get(type(node))
            if method is None:
                self.fail(f"kernels have no {type(node).__name__} statement", node)
            method(self, node)

    def nested(self, body: list[ast.stmt]) -> list[ir.Stmt]:
        """The statements of a loop or a branch that happens when the kernel runs."""
        outer, self.statements = self.statements, []
        self.depth += 1
        self.block(body)
        self.depth -= 1
        inner, self.statements = self.statements, outer
        return inner

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
        outer, self.statements = self.statements, []
        self.depth += 1
        test = self.value(node.test)
        test = self.truth(test if is_runtime(test) else ir.Const(bool(test), b1))
        self.depth -= 1
        steps, self.statements = self.statements, outer
        body = self.nested(node.body)
        if steps:  # of inline functions: they are for every round
            body = [*steps, ir.If(test, [], [ir.Break()]), *body]
            test = ir.Const(True, b1)
        self.statements.append(ir.While(test, body))

    def do_break(self, node: ast.Break) -> None:
        self.statements.append(ir.Break())

    def do_for(self, node: ast.For) -> None:
        if not isinstance(node.iter, ast.Call):
            self.fail("loops go over range, lanes, rounds, unroll or parallel", node)
        word = self.value(node.iter.func)
        args = [self.value(a) for a in node.iter.args]
        if word is language.unroll:
            self.unrolled(node, args)
        elif word is language.parallel:
            self.in_parallel(node, *args)
        elif word is range or word is language.lanes:
            self.counted(node, args, word is language.lanes)
        elif word is language.rounds:
            self.counted(node, args[:2], False, args[2])
        else:
            self.fail("loops go over range, lanes, rounds, unroll or parallel", node)

    def unrolled(self, node: ast.For, args: list[Any]) -> None:
        if any(is_runtime(a) for a in args):
            self.fail("unroll() goes over something known while compiling", node)
        values = range(*args) if isinstance(args[0], int) else args[0]
        for name in ast.walk(node.target):  # it starts anew, wherever it was used before
            self.bound_at.pop(getattr(name, "id", ""), None)
        for value in values:
            self.assign(node.target, value)
            self.block(node.body)

    def counted(self, node: ast.For, args: list[Any], independent: bool, rounds: int = 1) -> None:
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
        self.statements.append(ir.For(name, start, stop, step, body, independent, rounds))

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


STATEMENTS = {
    getattr(ast, name): getattr(Reader, "do_" + name.lower())
    for name in "Assign AnnAssign AugAssign Expr Pass Assert If While Break For Return".split()
}

__all__ = ["KernelError", "read"]
