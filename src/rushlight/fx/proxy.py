"""`torch.fx.Proxy`: the value that a program computes with while it is traced, and what makes nodes of that."""

from __future__ import annotations

import copy
import inspect
import operator
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any, ClassVar, NoReturn

import numpy as np

import rushlight
from rushlight import overrides
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import Tagged
from rushlight.fx import traceback as fx_traceback
from rushlight.fx.codegen import OPERATORS
from rushlight.fx.graph import Graph
from rushlight.fx.node import Argument, Node, Target, map_aggregate
from rushlight.fx.written import as_written

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip

_ITERATED = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
    "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
    "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
    "iteration errors"
)
_CONTROL_FLOW = "symbolically traced variables cannot be used as inputs to control flow"


class TraceError(ValueError):
    """A program does what cannot be traced."""


class Scope:
    """The module that is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Sets a scope for the time of a `with` block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._previous = scope, copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path = self._previous.module_path
        self._scope.module_type = self._previous.module_type


def _program_frames() -> list[tuple[FrameType, int]]:
    """The frames of the program that is being traced, outermost first: those inside of `Tracer.trace`.

    Frames of this package are left out, unless there are no others: then its layers are the program.
    """
    frames, own = [], []
    for frame, line in traceback.walk_stack(None):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file.startswith(_FX):
            if name == "trace":
                break
        elif not file.startswith((_PACKAGE, "<rushlight ")):
            frames.append((frame, line))
        elif file.startswith(_LAYERS):
            own.append((frame, line))
    return list(reversed(frames or own))


_FX = os.path.dirname(__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LAYERS = tuple(_PACKAGE + name + os.sep for name in ("nn", "vision"))


def program_stack() -> str:
    """The stack of the program that is being traced."""
    summary = traceback.StackSummary.extract(iter(_program_frames()))
    return "".join(summary.format())


def users_line() -> str:
    """The line of the program that is being traced: '  File "net.py", line 7, in forward' and its text."""
    frames = _program_frames()
    if not frames:
        return ""
    shown = "".join(traceback.StackSummary.extract(iter(frames[-1:])).format())
    return "\n" + shown.rstrip("\n")


class TracerBase:
    """Makes nodes and proxies; `Tracer` adds what modules need."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node to the graph; subclasses look at or change what is recorded."""
        if kind == "call_function" and self.check_mutable_operations:
            _check_not_mutable(target, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if getattr(self, "node_name_to_scope", None) is not None:
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            for key, value in fx_traceback.get_current_meta().items():
                node.meta[key] = copy.copy(value)
            trace = fx_traceback.format_stack()
            if trace:
                node.stack_trace = trace[-1]
        elif getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace and (stack := program_stack()):
            node.stack_trace = stack
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """Add a node for arguments with proxies in them; returns its proxy."""
        node_args, node_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(node_args, tuple) or not isinstance(node_kwargs, dict):
            raise AssertionError("arguments of a node must be a tuple and a dict")
        node = self.create_node(kind, target, node_args, dict(node_kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: proxies become their nodes; NotImplementedError if it cannot be one."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return type(a)(*[self.create_arg(x) for x in a])
            return tuple(self.create_arg(x) for x in a)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return self._dict_arg(a)
        if isinstance(a, slice):
            return slice(*(self.create_arg(x) for x in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(x) for x in (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            made = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), made)
        if isinstance(a, _PLAIN) or a is None or a is ... or callable(a):
            return a
        if type(a).__module__ == "rushlight" or hasattr(a, "_qualified"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _dict_arg(self, a: dict) -> dict:
        made = {}
        for key, value in a.items():
            key = self.create_arg(key)

            def refuse(k: Node, whole: dict = a) -> None:
                raise RuntimeError(
                    f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {k}"
                )

            map_aggregate(key, lambda x: refuse(x) if isinstance(x, Node) else x)
            made[key] = self.create_arg(value)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """What `if proxy:` means: TraceError, in a tracer that cannot say."""
        raise TraceError(_CONTROL_FLOW + users_line())

    def iter(self, obj: Proxy) -> Iterator:
        """What `for x in proxy:` means: TraceError, unless the program unpacks into a known number of names."""
        raise TraceError(_ITERATED + users_line())

    def keys(self, obj: Proxy) -> Any:
        """What `proxy.keys()` means, which `**proxy` calls."""
        return Attribute(obj, "keys")()


_PLAIN = (str, int, float, bool, complex, Tensor, rushlight.dtype, rushlight.device, rushlight.Generator,
          rushlight.layout, rushlight.memory_format, np.dtype)  # fmt: skip


def _check_not_mutable(target: Any, kwargs: dict) -> None:
    name = getattr(target, "__name__", "")
    if not getattr(target, "__module__", "").startswith(("rushlight", "torch")):
        return
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or kwargs.get("out") is not None:
        shown = name + ".out" if not in_place else name
        raise RuntimeError(
            f"Tried to trace mutable operation aten::{shown}. FX only supports functional code, so operations "
            "that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that exists: behind `Proxy(node)`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


def _unknown(name: str) -> property:
    def refuse(array: Any) -> NoReturn:
        raise TraceError(
            f"{_CONTROL_FLOW}: its {name} is not known, and a function that needs it cannot be traced; torch.fx.wrap "
            f"makes one node of it{users_line()}"
        )

    return property(refuse)


class _Unknown(Tagged):
    """The memory of a value that is not known."""

    shape, ndim, dtype, strides = map(
        _unknown, ("shape", "number of dimensions", "dtype", "strides")
    )  # type: ignore[assignment]


class Proxy:
    """Stands for a value while a program is traced: what is done with it becomes nodes of the graph.

    Nothing is known of the value: `if proxy`, `for x in proxy` and `int(proxy)` raise. `torch.fx.wrap`
    makes one call of a function that needs the value; a size that is known can be given to the tracer by
    `concrete_args`.
    """

    _array: ClassVar[Any] = np.empty(0).view(_Unknown)  # sends operators to `__torch_function__`

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__"):
            raise AttributeError(f"'Proxy' object has no attribute '{k}'")
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __deepcopy__(self, memo: dict) -> Proxy:
        made = self.__class__.__new__(self.__class__)
        memo[id(self)] = made
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __setstate__(self, d: dict) -> None:
        self.__dict__ = d

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        count = _names_unpacked()
        if count is not None:
            return (self[i] for i in range(count))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and (recorded := _recorded_assert(self)):
            return recorded
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The keys, where the value is a dict."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tracers: dict[Any, None] = {}

        def find(a: Any) -> None:
            if isinstance(a, cls):
                tracers[a.tracer] = None

        map_aggregate(args, find)
        map_aggregate(kwargs, find)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if overrides.is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy(
            "call_function", orig_method, *as_written(orig_method, args, kwargs)
        )


def _names_unpacked() -> int | None:
    """The number of names in `a, b = proxy`, read from the program's bytecode; None for any other iteration."""
    import dis

    here = inspect.currentframe()
    if here is None or here.f_back is None or here.f_back.f_back is None:
        return None
    frame = here.f_back.f_back
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _recorded_assert(proxy: Proxy) -> bool:
    """Record `assert proxy` as a call of `torch._assert`; False if it is no assert."""
    import dis

    here = inspect.currentframe()
    if here is None or here.f_back is None or here.f_back.f_back is None:
        return False
    frame = here.f_back.f_back
    instructions = list(dis.get_instructions(frame.f_code))
    at = next((i for i, ins in enumerate(instructions) if ins.offset == frame.f_lasti), None)
    if at is None or not instructions[at].opname.startswith("POP_JUMP"):
        return False
    if instructions[at + 1].opname != "LOAD_ASSERTION_ERROR":
        return False
    message = instructions[at + 2].argval if instructions[at + 2].opname == "LOAD_CONST" else ""
    proxy.tracer.create_proxy("call_function", rushlight._assert, (proxy, message), {})
    return True


class Attribute(Proxy):
    """`proxy.name`: a call of a method once it is called, an attribute when it is used as a value."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of `getattr(proxy, name)`, made when it is asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter: its shape and its number of elements are known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, rushlight.nn.Parameter):
            raise AssertionError(f"{name} is no Parameter")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """The parameter's size."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The number of the parameter's dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of the parameter's dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The number of the parameter's elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The number of the parameter's elements."""
        return self.param.nelement()


def _operator_method(name: str) -> Callable:
    function = getattr(operator, name)

    def method(*args: Any) -> Proxy:
        return args[0].tracer.create_proxy("call_function", function, args, {})

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected_method(name: str) -> Callable:
    function = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    method.__name__ = f"__r{name.strip('_')}__"
    return method


for _name in OPERATORS:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name))
for _name in (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_",
    "xor", "matmul",
):  # fmt: skip
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))
Proxy.__hash__ = object.__hash__
