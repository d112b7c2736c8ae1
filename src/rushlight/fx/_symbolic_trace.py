"""`torch.fx.symbolic_trace`: runs a program with proxies for its inputs, and records what it does."""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx import recorders
from rushlight.fx._compatibility import (
    compatibility as compatibility,
)  # libraries take it from here
from rushlight.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.names import is_builtin
from rushlight.fx.node import Argument, Node
from rushlight.fx.patches import Patches
from rushlight.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
)
from rushlight.nn import Module, Parameter
from rushlight.utils import _pytree as pytree

__all__ = [
    "PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing",
    "is_fx_tracing", "symbolic_trace", "wrap",
]  # fmt: skip

_proxyable_classes: dict[type, None] = {}
_wrapped_fns_to_patch: dict[tuple[int, str], dict] = {}  # (id of globals, name) -> these globals
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_STAR_ARGS = inspect.CO_VARARGS
_STAR_KWARGS = inspect.CO_VARKEYWORDS
_running: list[Tracer] = []
# Those of a program that is not traced: a program that traces another one has others.
_MODULE_CALL, _MODULE_GETATTR = Module.__call__, Module.__getattr__


def is_fx_tracing() -> bool:
    """Whether a tracer runs."""
    return bool(_running)


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """Marks, in `concrete_args`, what stays an input of the graph."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """A mark for an input whose attributes `ph_key` and others go into the node's meta."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


PH = PHBase()


def _assert_is_none(value: Any, msg: str) -> None:
    """AssertionError with `msg` unless `value` is None."""
    if value is not None:
        raise AssertionError(msg)


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction from proxies is recorded as one call."""

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance = cls.__new__(cls)  # type: ignore[call-overload]
        if not is_fx_tracing():
            cls.__init__(instance, *args, **kwargs)  # type: ignore[misc]
            return instance
        proxy = recorders.first_proxy((args, kwargs))
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)  # type: ignore[misc]
        return instance


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Record calls of a function of this module as one node: by its name, itself, or as a decorator.

    It must stand at the top level of the module. Python's own functions are given by name: `wrap("len")`.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name, "
            f"got {type(fn_or_name).__name__}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    if not isinstance(name, str):
        raise AssertionError("fn_name must be a str")
    frame = inspect.currentframe()
    frame = frame and frame.f_back
    if frame is None:
        raise RuntimeError("failed to get the caller's frame")
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Runs a module or a function with proxies and records a graph; subclasses change what is recorded how."""

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable, ...] = (), param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._autowrap_function_ids: set[int] = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids |= {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = {}
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    # ---------------------------------------------------------------------- what is recorded

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name of an attribute that the root module does not have: `prefix` and a number."""
        i = 0
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument: parameters and submodules by path, other tensors as new constants."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node(
                "call_function", a.__class__, tuple(map(self.create_arg, a)), {}
            )
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._constant(a, "_tensor_constant"), (), {})
        if type(a) in _proxyable_classes:
            constant = self._constant(a, f"_{type(a).__name__}_constant_")
            return self.create_node("get_attr", constant, (), {})
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> str:
        """The path of a value in the root module, where it is put if it is not there."""
        for key, path in self.tensor_attrs.items():
            if key is value:
                return path
        path = self.get_fresh_qualname(prefix)
        self._kept_constants.append(value)
        if isinstance(value, Tensor):
            self.tensor_attrs[value] = path
        setattr(self.root, path, value)
        return path

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of `m` is one node: so it is for the modules of torch.nn, but Sequential."""
        module = m.__module__ or ""
        ours = module.startswith(("rushlight.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, rushlight.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule of the root; NameError if it is none."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a submodule does: a node for a leaf, else `forward` runs."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            count = self.num_calls.get(path, 0)
            key = f"{path}@{count}" if count else path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = count + 1
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.pop(key)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What `module.attr` gives: a proxy for a parameter, with known shapes if that was asked for."""
        tables = [(self.root.named_parameters, Parameter)]
        if self.proxy_buffer_attributes:
            tables.append((self.root.named_buffers, Tensor))
        for table, kind in tables:
            if not isinstance(attr_val, kind):
                continue
            for name, value in table():
                if value is not attr_val:
                    continue
                if name not in parameter_proxy_cache:
                    factory = None
                    if self.param_shapes_constant and kind is Parameter:
                        factory = self._parameter_proxy(name, attr_val)
                    parameter_proxy_cache[name] = self.create_proxy(
                        "get_attr", name, (), {}, proxy_factory_fn=factory
                    )
                return parameter_proxy_cache[name]
        return attr_val

    def _parameter_proxy(self, name: str, value: Any) -> Callable[[Node], Proxy]:
        return lambda node: ParameterProxy(self, node, name, value)

    # ------------------------------------------------------------------------------ inputs

    def create_args_for_root(
        self, root_fn: Callable, is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable, list]:
        """(the function to run, its arguments: proxies, and values where `concrete_args` has them)."""
        analysed = inspect.unwrap(root_fn)
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        first = 0
        if is_module:
            if not total:
                raise RuntimeError("`self` argument cannot be part of *args expansion!")
            first = 1
            args.append(self.root)
        inputs = _Inputs(self, analysed, concrete_args)
        names_expected = names[first:total]
        if isinstance(concrete_args, tuple):
            if len(names_expected) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names_expected)} arguments but got {len(concrete_args)} concrete arguments"
                )
            inputs.concrete = dict(zip(names_expected, concrete_args, strict=True))
        args += [inputs.placeholder(name) for name in names_expected]
        if code.co_kwonlyargcount or code.co_flags & (_STAR_ARGS | _STAR_KWARGS):
            at = total
            if code.co_flags & _STAR_ARGS:
                args.append(inputs.placeholder("*" + names[at]))
                at += 1
            if code.co_flags & _STAR_KWARGS:
                args.append(inputs.placeholder("**" + names[at]))
            if root_fn is analysed:
                root_fn = _of_one_list(root_fn)
            elif code.co_kwonlyargcount:
                root_fn = _by_keyword(root_fn, code.co_argcount, names[code.co_argcount : total])
        flat, in_spec = pytree.tree_flatten(tuple(args))
        leaves = all(child.is_leaf() for child in in_spec.children_specs)
        if leaves or inputs.concrete is None:
            return root_fn, args
        return self._flattened(root_fn, args, flat, in_spec, names[:total], is_module)

    def _flattened(
        self, root_fn: Callable, args: list, flat: list, in_spec: Any, names: list[str],
        is_module: bool,
    ) -> tuple[Callable, list]:  # fmt: skip
        """The function of the leaves of its arguments, where arguments are trees."""
        shown = in_spec
        if is_module:  # the module itself is no argument of the generated code
            children = in_spec.children_specs[1:]
            shown = pytree.TreeSpec(in_spec.type, in_spec.context, children)
            names = names[1:]
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, shown, None))

        def flatten_fn(*leaves: Any) -> Any:
            result = root_fn(*pytree.tree_unflatten(list(leaves), in_spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn, flat

    # ------------------------------------------------------------------------------- trace

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Record the graph of a module's `forward`, or of a function."""
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root, fn = Module(), root
            self.submodule_paths = None
        tracer_cls = getattr(self, "__class__", None)
        self.graph = Graph(tracer_cls=tracer_cls)
        if not isinstance(fn, FunctionType) or is_builtin(fn):
            raise AssertionError(
                f"Expected FunctionType, got {fn!r}: it is an operator, which is one node of a graph; to trace a call of "
                "it, write a function that calls it"
            )
        self.graph._co_fields = {
            "co_name": fn.__code__.co_name,
            "co_filename": fn.__code__.co_filename,
            "co_firstlineno": fn.__code__.co_firstlineno,
        }
        self.tensor_attrs: dict[Any, str] = {}
        self._kept_constants: list[Any] = []
        self._collect_tensors(self.root, [])
        _running.append(self)
        try:
            traced = fn
            fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            with Patches() as patches:
                self._patch(patches, fn)
                result = fn(*args)
                self.create_node(
                    "output", "output", (self.create_arg(result),), {},
                    type_expr=_annotations(inspect.unwrap(traced)).get("return"),
                )  # fmt: skip
            self.submodule_paths = None
        finally:
            _running.pop()
        return self.graph

    def _collect_tensors(self, module: Module, path: list[str]) -> None:
        """Note where tensors stand that are plain attributes of modules."""
        for name, value in vars(module).items():
            if isinstance(value, Tensor) or type(value) in _proxyable_classes:
                try:
                    self.tensor_attrs[value] = ".".join([*path, name])
                except TypeError:
                    pass
        for name, child in module.named_children():
            self._collect_tensors(child, [*path, name])

    def _patch(self, patches: Patches, fn: Callable) -> None:
        cache: dict[str, Any] = {}

        @functools.wraps(_MODULE_GETATTR)
        def read(mod: Any, attr: str) -> Any:
            return self.getattr(attr, _MODULE_GETATTR(mod, attr), cache)

        @functools.wraps(_MODULE_CALL)
        def call(mod: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _MODULE_CALL(mod, *args, **kwargs)

            _patch_globals(
                patches, getattr(getattr(mod, "forward", mod), "__globals__", {}),
                self._autowrap_function_ids,
            )  # fmt: skip
            return self.call_module(mod, forward, args, kwargs)

        patches.attribute(Module, "__getattr__", read)
        patches.attribute(Module, "__call__", call)
        for (_, name), frame_dict in list(_wrapped_fns_to_patch.items()):
            function = frame_dict.get(name, getattr(builtins, name, None))
            if function is not None:
                patches.item(frame_dict, name, recorders.of_function(function))
        recorders.patch_torch(patches)
        for cls, name in _wrapped_methods_to_patch:
            patches.attribute(cls, name, recorders.of_method(getattr(cls, name), name))
        _patch_globals(
            patches, getattr(inspect.unwrap(fn), "__globals__", {}), self._autowrap_function_ids
        )
        for module in self._autowrap_search:
            _patch_globals(patches, vars(module), self._autowrap_function_ids)

    def __deepcopy__(self, memo: dict) -> Tracer:
        made = Tracer.__new__(type(self))
        for key, value in self.__dict__.items():
            if key in ("root", "graph", "tensor_attrs", "_kept_constants", "submodule_paths"):
                made.__dict__[key] = value if key in ("root",) else copy.copy(value)
            elif key in ("_autowrap_search",):
                made.__dict__[key] = list(value)
            else:
                made.__dict__[key] = copy.deepcopy(value, memo)
        return made


def _patch_globals(patches: Patches, frame_dict: dict, function_ids: set[int]) -> None:
    if not patches.first_visit(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patches.item(frame_dict, name, recorders.of_function(value))


def _of_one_list(function: Callable) -> Callable:
    """`function` with all its parameters positional, `*args` and `**kwargs` last, each one value.

    A proxy cannot be iterated, so the proxies of `*args` and `**kwargs` go in as they are.
    """
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _STAR_ARGS) + bool(code.co_flags & _STAR_KWARGS)
    plain = code.replace(
        co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0,
        co_flags=code.co_flags & ~(_STAR_ARGS | _STAR_KWARGS),
    )  # fmt: skip
    return FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def _by_keyword(function: Callable, positional: int, names: list[str]) -> Callable:
    """A decorated function, whose parameters after the first ones are passed by name."""

    def call(*args: Any) -> Any:
        named = dict(zip(names, args[positional:], strict=False))
        return function(*args[:positional], **named)

    return call


def _annotations(function: Any) -> dict[str, Any]:
    """The types of parameters and of the result; an annotation that is a text is evaluated, if it can be."""
    found = {}
    scope = getattr(function, "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        if isinstance(hint, str):
            try:
                hint = eval(hint, scope)
            except Exception:  # it names what only type checkers import
                continue
        found[name] = hint
    return found


class _Inputs:
    """Makes the placeholders of the parameters of a function."""

    def __init__(self, tracer: Tracer, function: Callable, concrete: Any) -> None:
        self.tracer, self.concrete = tracer, concrete
        self.signature, self.hints = inspect.signature(function), _annotations(function)
        self.count = 0

    def placeholder(self, name: str) -> Any:
        """A proxy for the parameter, or the value that it is given; then the graph checks that."""
        if self.concrete is not None and name in self.concrete:
            self.count = 0
            return pytree.tree_map(lambda x: self.given(x, name), self.concrete[name])
        if name.startswith("*"):
            default: tuple = ()
        else:
            parameter = self.signature.parameters.get(name)
            empty = parameter is None or parameter.default is inspect.Parameter.empty
            default = () if empty else (parameter.default,)  # type: ignore[union-attr]
        annotation = None
        if name[0] != "*":
            annotation = self.hints.get(name)
        return self.tracer.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def given(self, x: Any, name: str) -> Any:
        """One leaf of a concrete argument: an input that must have this value, or any if it is `PH`."""
        self.count += 1
        tracer = self.tracer
        parameter = self.signature.parameters.get(name)
        has_default = parameter is not None and parameter.default is not inspect.Parameter.empty
        default = (parameter.default,) if has_default and not isinstance(x, PHBase) else ()  # type: ignore[union-attr]
        out = tracer.create_proxy("placeholder", f"{name}_{self.count}", default, {})
        if isinstance(x, PHBase):
            if isinstance(x, PHWithMeta):
                out.node.meta.update({k: v for k, v in vars(x).items() if v is not None})
            return out
        message = f"{name} has been specialized to have value {x} but got another value"
        if x is None:
            tracer.create_proxy("call_function", _assert_is_none, (out, message), {})
        elif isinstance(x, (bool, int, float)):
            tracer.create_proxy("call_function", rushlight._assert, (out == x, message), {})
        elif not isinstance(x, str):
            import warnings

            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                "It is up to the user to make sure that your inputs match the inputs you specialized the function "
                "with.",
                stacklevel=2,
            )
        return x


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """The module of the graph that `root`, a module or a function, computes.

    >>> import rushlight as torch
    >>> def f(x, y):
    ...     return torch.relu(x) + y
    >>> symbolic_trace(f).code.strip().splitlines()[1].strip()
    'relu = torch.relu(x);  x = None'
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
