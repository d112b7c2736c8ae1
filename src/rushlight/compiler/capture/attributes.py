"""What a captured function reads of attributes: of objects, classes, modules, functions and tensors."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.autograd.state import active
from rushlight.compiler.capture.bytecode import module_of
from rushlight.compiler.capture.guards import IMMUTABLE, changes, constant
from rushlight.compiler.capture.reads import CONTAINERS, Reads
from rushlight.core.tensor import Tensor

REPLACED = ("forward", "__call__")  # methods that users replace in our classes
PLAIN_ATTRIBUTES = frozenset(
    "shape dtype device ndim is_leaf requires_grad layout is_cuda is_sparse is_meta is_quantized is_mps itemsize "
    "nbytes T mT H mH real imag name names".split()
)


class Attributes(Reads):
    """The part of a capture that reads attributes."""

    def attribute(self, o: Any, name: str) -> Any:
        if self.reason is not None or o is active:  # `Compiled` looks at the modes that are on
            return getattr(o, name)
        if isinstance(o, Tensor):
            return self.attribute_of_tensor(o, name)
        kind = type(o)
        if kind in (types.FunctionType, types.MethodType):
            return self.attribute_of_function(o, name)
        if kind is super:
            return self.attribute_of_super(o, name)
        if kind is types.CellType:
            return self.cell(o, name)
        if (
            constant(o)
            or kind in CONTAINERS
            or kind.__module__ == "builtins"
            and not isinstance(o, (type, types.ModuleType))
        ):
            return getattr(o, name)
        if isinstance(o, tuple) and hasattr(kind, "_fields") and name in kind._fields:
            return getattr(o, name)
        if not self.known(o):
            self.stop(f"an attribute of an object of unknown origin, {kind.__name__}")
            return getattr(o, name)
        if isinstance(o, type) and o.__flags__ & IMMUTABLE:
            return getattr(o, name)
        if isinstance(o, (types.ModuleType, type)):
            if not hasattr(o, name):
                self.guards.add(f"not hasattr({self.guards.name(o)}, {name!r})")
            return self.held(f"{self.guards.name(o)}.{name}", getattr(o, name))
        return self.attribute_of_instance(o, kind, name)

    def attribute_of_super(self, o: Any, name: str) -> Any:
        """The attribute of a class behind another one in the order of resolution."""
        kind = o.__self__ if isinstance(o.__self__, type) else type(o.__self__)
        for cls in kind.__mro__[kind.__mro__.index(o.__thisclass__) + 1 :]:
            if name in cls.__dict__:
                self.of_class(cls, cls, name)
                break
            if changes(cls):
                self.guards.without(self.guards.name(cls), name)
        return getattr(o, name)

    def attribute_of_function(self, o: Any, name: str) -> Any:
        if isinstance(o, types.MethodType) and not hasattr(types.MethodType, name):
            o = o.__func__
        if id(o) in self.inside or (id(o), name) in self.written or isinstance(o, types.MethodType):
            return self.new(o.__dict__) if name == "__dict__" else getattr(o, name)
        if name == "__dict__" and any(k[0] == id(o) for k in self.written):
            self.stop("the __dict__ of a function that was changed")
        place = self.guards.name(o)
        if not hasattr(o, name):
            self.guards.add(f"not hasattr({place}, {name!r})")
        return self.held(f"{place}.{name}", getattr(o, name))

    def take_function(self, f: types.FunctionType) -> None:
        """A function that is interpreted must keep its code and defaults; the defaults are objects from outside."""
        if id(f) not in self.inside and not module_of(f).startswith("rushlight."):
            name = self.guards.name(f)
            self.guards.identical(f"{name}.__code__", f.__code__)
            for part in ("__defaults__", "__kwdefaults__"):
                if getattr(f, part) is not None:
                    self.guards.identical(f"{name}.{part}", getattr(f, part))
            if f.__kwdefaults__:  # a dictionary, which may be written to
                self.found(f.__kwdefaults__, f"{name}.__kwdefaults__")
                self.guard_contents(f.__kwdefaults__)
        for v in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            if not self.known(v):
                self.found(v)

    def attribute_of_tensor(self, t: Tensor, name: str) -> Any:
        if not self.recorder.knows(t):
            self.stop("a tensor of unknown origin")
        if name == "grad":
            return self.recorder.gradient(t)
        v = getattr(t, name)
        if isinstance(v, (types.MethodType, types.BuiltinMethodType)) or name in PLAIN_ATTRIBUTES:
            return v
        if name == "data":
            self.recorder.share(v, t)
            return v
        if name == "__class__":
            return v
        self.stop(f"the attribute {name!r} of a tensor")
        return v

    def attribute_of_instance(self, o: Any, kind: type, name: str) -> Any:
        """The value of an attribute of an instance of a class in Python."""
        if not isinstance(kind.__getattribute__, types.FunctionType):
            return self.own_attribute(o, name, self.in_getattr)
        try:
            return self.call(None, self.in_class(kind, "__getattribute__"), (o, name), {})
        except AttributeError:
            found = self.in_class(kind, "__getattr__")
            if not isinstance(found, types.FunctionType):
                raise
            return self.call(None, found, (o, name), {})

    def own_attribute(self, o: Any, name: str, otherwise: Callable | None = None) -> Any:
        """As `object.__getattribute__` finds it; `otherwise` gives what is not there, given the object and the name."""
        kind = type(o)
        special = isinstance(kind.__getattribute__, types.FunctionType)
        plainly: Callable = object.__getattribute__ if special else getattr
        own = object.__getattribute__(o, "__dict__") if kind.__dictoffset__ else {}
        for cls in kind.__mro__:
            if name in cls.__dict__:
                d = cls.__dict__[name]
                self.of_class(kind, cls, name)
                break
        else:
            d = cls = None
        if isinstance(d, property):
            if not isinstance(d.fget, types.FunctionType):
                self.stop(f"the property {name!r} of {kind.__name__}")
                return plainly(o, name)
            return self.call(None, d.fget, (o,), {})
        outside = id(o) in self.outside
        place = self.outside[id(o)][1] if outside else ""
        if outside and (id(o), name) in self.written:
            outside = False
        found_at = (
            f"{self.guards.name(plainly)}({place}, {name!r})" if special else f"{place}.{name}"
        )
        if isinstance(d, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            if outside and not hasattr(o, name):  # a slot that is empty
                self.guards.add(f"not hasattr({place}, {name!r})")
            v = plainly(o, name)
            if name == "__dict__":
                return self.dictionary_of(o, v, found_at)
            if v.__class__ is types.MappingProxyType and id(o) in self.inside:
                return self.new(dict(v))  # which is read alike
            return self.held(found_at, v) if outside else v
        if cls is not None and hasattr(type(d), "__set__"):
            self.stop(f"the attribute {name!r} of {kind.__name__}")
            return plainly(o, name)
        if name in own:
            return self.held(found_at, own[name]) if outside else own[name]
        if cls is not None:
            if outside and kind.__dictoffset__:
                self.guards.without(place, name)
            if isinstance(d, (types.FunctionType, functools._lru_cache_wrapper)):
                return types.MethodType(d, o)
            if isinstance(d, functools.cached_property):
                v = self.call(None, d.func, (o,), {})
                self.set_attribute(o, name, v)
                return v
            if isinstance(found := self.in_class(type(d), "__get__"), types.FunctionType):
                self.found(d)
                return self.call(None, found, (d, o, kind), {})
            v = plainly(o, name)
            if isinstance(d, types.MethodDescriptorType):
                return v
            if isinstance(d, (staticmethod, classmethod)) or not hasattr(type(d), "__get__"):
                if not isinstance(v, types.MethodType):
                    return self.held(f"{self.guards.name(kind)}.{name}", v)
                return v
            self.stop(f"the attribute {name!r} of {kind.__name__}")
            return v
        if outside and kind.__dictoffset__:
            self.guards.without(place, name)
        for cls in filter(changes, kind.__mro__):
            self.guards.without(self.guards.name(cls), name)
        return object.__getattribute__(o, name) if otherwise is None else otherwise(o, name)

    def dictionary_of(self, o: Any, d: dict, expression: str) -> dict:
        """The `__dict__` of an object, which may be read."""
        if id(o) in self.inside:
            return self.new(d)
        changed = any(k[0] == id(o) for k in self.written) and id(o) not in self.spaces
        if id(o) not in self.outside or changed:
            self.stop("the __dict__ of an object that was changed")
        self.spaces[id(o)] = d
        return self.held(expression, d)

    def in_getattr(self, o: Any, name: str) -> Any:
        """What `__getattr__` gives."""
        kind = type(o)
        found = self.in_class(kind, "__getattr__")
        if isinstance(found, types.FunctionType):
            return self.call(None, found, (o, name), {})
        if id(o) in self.outside and (id(o), name) not in self.written:
            self.guards.add(f"not hasattr({self.outside[id(o)][1]}, {name!r})")
        return getattr(o, name)

    def attribute_of_module(self, o: Any, name: str) -> Any:
        """What `Module.__getattr__` gives: a parameter, a buffer or a module."""
        place = self.outside[id(o)][1] if id(o) in self.outside else ""
        for table in ("_parameters", "_buffers", "_modules"):
            values = o.__dict__.get(table, {})
            seen = place and id(values) not in self.read and (id(values), ("item", name)) not in self.written  # fmt: skip
            if name in values:
                v = values[name]
                return self.hold(f"{place}.{table}[{name!r}]", v) if seen else v
            if seen:
                self.guards.add(f"{name!r} not in {place}.{table}")
        return rushlight.nn.Module.__getattr__(o, name)

    def of_class(self, kind: type, cls: type, name: str) -> None:
        """Guard that a class has this attribute, and that no class before it in the order of resolution does."""
        d = cls.__dict__[name]
        if changes(cls) or name in REPLACED and not cls.__flags__ & IMMUTABLE:
            if isinstance(d, (types.FunctionType, property)):
                self.guards.identical(f"{self.guards.name(kind)}.{name}", d)
                return
            self.guards.identical(f"{self.guards.name(cls)}.__dict__[{name!r}]", d)
            for before in kind.__mro__[: kind.__mro__.index(cls)]:
                self.guards.without(self.guards.name(before), name)

    def in_class(self, kind: type, name: str) -> Any:
        """A special method, which Python looks for in the class alone; None if there is none."""
        for cls in kind.__mro__:
            if name in cls.__dict__:
                self.of_class(kind, cls, name)
                return cls.__dict__[name]
            if changes(cls):
                self.guards.without(self.guards.name(cls), name)
        return None
