"""`RewritingTracer`: traces programs with `assert`, which it records."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.nn import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Writes `assert condition, message` as `torch._assert(condition, message)`, types of variables as `annotate`."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """A function that does the same."""
        source = inspect.getsource(fn)
        # an `if` around a method: its lines cannot be moved, as a string of several lines may begin further left
        tree = ast.parse(f"if True:\n{source}" if source[0].isspace() else source)
        first = tree.body[0]
        definition = first.body[0] if isinstance(first, ast.If) else first
        if not isinstance(definition, ast.FunctionDef):
            return fn
        definition.decorator_list, definition.returns = [], None
        parameters = definition.args  # their types and defaults are those of `fn`
        parameters.defaults, parameters.kw_defaults = [], [None] * len(parameters.kwonlyargs)
        for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
            each.annotation = None
        self.visit(definition)
        # a function around it gives it the variables that `fn` has from the functions around it
        free = [ast.Name(id=name, ctx=ast.Store()) for name in fn.__code__.co_freevars]
        none = ast.Constant(value=None)
        around: list[ast.stmt] = [ast.Assign(targets=[name], value=none) for name in free]
        around += [definition, ast.Return(value=ast.Name(id=definition.name, ctx=ast.Load()))]
        outer = ast.parse("def outer(): pass").body[0]
        outer.body = around  # type: ignore[attr-defined]
        tree.body = [outer]
        scope: dict[str, Any] = {}
        ast.fix_missing_locations(tree)
        exec(compile(tree, fn.__code__.co_filename, "exec", dont_inherit=True), scope)
        code = scope["outer"]().__code__
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        made = FunctionType(
            code, fn.__globals__, fn.__name__, fn.__defaults__,
            tuple(cells[name] for name in code.co_freevars),
        )  # fmt: skip
        made.__kwdefaults__, made.__annotations__ = fn.__kwdefaults__, fn.__annotations__
        made.__module__, made.__qualname__ = fn.__module__, fn.__qualname__
        return made

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """The call that an assert becomes."""
        message = node.msg if node.msg is not None else ast.Constant(value="")
        # found when it runs: while a tracer runs it is another function
        called = ast.parse("__import__('rushlight')._assert", mode="eval").body
        call = ast.Call(func=called, args=[node.test, message], keywords=[])
        return ast.copy_location(ast.Expr(value=call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign | ast.Assign:
        """`y: int = x` becomes `y = annotate(x, int)`."""
        if node.value is None:
            return node
        module = "__import__('rushlight.fx.annotate', fromlist=['annotate'])"
        called = ast.parse(f"{module}.annotate", mode="eval").body
        call = ast.Call(func=called, args=[node.value, node.annotation], keywords=[])
        return ast.copy_location(ast.Assign(targets=[node.target], value=call), node)


class RewritingTracer(Tracer):
    """A tracer that records asserts and types of variables of the module and of the modules in it."""

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Record the graph of a module or a function, with its asserts."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(root: Any) -> Any:
    if not isinstance(root, Module):
        return AST_Rewriter().rewrite(root)
    made = copy.copy(root)
    made._modules = {
        name: module
        if module is None or module.__module__.startswith(("rushlight.nn", "torch.nn"))
        else _rewritten(module)
        for name, module in root._modules.items()
    }
    cls = type(root)
    forward = inspect.unwrap(cls.forward)
    if forward.__code__.co_filename.startswith("<"):
        return made
    new = type(cls.__name__, (cls,), {"forward": AST_Rewriter().rewrite(forward)})
    new.__module__, new.__qualname__ = cls.__module__, cls.__qualname__
    object.__setattr__(made, "__class__", new)
    return made
