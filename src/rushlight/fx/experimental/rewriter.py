"""`RewritingTracer`: traces programs with `assert`, which it records."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import rushlight
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.nn import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Writes `assert condition, message` as `torch._assert(condition, message)`."""

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """A function that does the same."""
        source = textwrap.dedent(inspect.getsource(fn))
        tree = ast.parse(source)
        definition = tree.body[0]
        if isinstance(definition, ast.FunctionDef):
            definition.decorator_list = []
        tree = ast.fix_missing_locations(self.visit(tree))
        scope = {**fn.__globals__, "__rushlight": rushlight}
        scope.update(inspect.getclosurevars(fn).nonlocals)
        exec(compile(tree, fn.__code__.co_filename, "exec", dont_inherit=True), scope)
        made = scope[fn.__name__]
        made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
        return functools.wraps(fn, updated=())(made) if fn.__closure__ is None else made

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """The call that an assert becomes."""
        message = node.msg if node.msg is not None else ast.Constant(value="")
        package = ast.Name(id="__rushlight", ctx=ast.Load())
        called = ast.Attribute(value=package, attr="_assert", ctx=ast.Load())
        call = ast.Call(func=called, args=[node.test, message], keywords=[])
        return ast.copy_location(ast.Expr(value=call), node)


class RewritingTracer(Tracer):
    """A tracer that records asserts of the module and of the modules in it."""

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Record the graph of a module or a function, with its asserts."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(root: Any) -> Any:
    if not isinstance(root, Module):
        return AST_Rewriter().rewrite(root)
    made = copy.copy(root)
    made._modules = {
        name: module
        if module is None or module.__module__.startswith("rushlight.nn")
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
