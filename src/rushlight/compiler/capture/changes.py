"""What a captured function changes: each change of an object from outside is done again in each run."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import rushlight
from rushlight.compiler.capture.guards import is_key
from rushlight.compiler.capture.reads import CONTAINERS
from rushlight.compiler.capture.sizes import Sizes
from rushlight.core.tensor import Tensor

IN_PLACE = frozenset([
    operator.iadd, operator.imul, operator.ior, operator.iand, operator.isub, operator.ixor,
])  # fmt: skip


class Changes(Sizes):
    """The part of a capture that writes down changes."""

    def change(self, o: Any, name: Any, f: Callable, *values: Any, whole: bool = False) -> Any:
        """Carry out a change of an object, and do it again in each run if the object was there before."""
        if self.reason is None and id(o) not in self.inside:
            if id(o) not in self.outside:
                self.stop(f"a change of an object of unknown origin, {type(o).__name__}")
            elif any(o is d for d in self.spaces.values()):  # its attributes would change, too
                self.stop("a change of the __dict__ of an object")
            else:
                if whole:
                    self.guard_contents(o)
                self.written[id(o), name] = o
                if (d := self.spaces.get(id(o))) is not None:
                    self.partly.setdefault(id(d), d.copy())
                    self.written[id(d), ("item", name)] = d
                self.step(f, (o, *values), {}, "changes")
        elif self.reason is None:
            self.refuse_escaped(o)
        if self.reason is not None:
            values = self.given_away(values, set())
        elif self.variables:
            self.changed.append(o)
        return f(o, *values)

    def refuse_escaped(self, o: Any) -> None:
        """Give up where an object changes that the function made and gave away before a call."""
        if id(o) in self.recorder.escaped:
            self.stop(f"a change of a {type(o).__name__} that was given away before a call")

    def snapshot(self, v: Any) -> Any:
        """A container as it is now, where its elements are about to be copied."""
        if v.__class__ not in CONTAINERS and not self.iterates(v):
            return v
        made = v.copy() if isinstance(v, (dict, set)) else [*v]
        self.keep.append(made)
        return self.new(made)

    def operation(self, f: Callable, *operands: Any) -> Any:
        o = operands[0]
        if f in IN_PLACE and o.__class__ in CONTAINERS and o.__class__ not in (tuple, frozenset):
            if self.reason is None and id(o) not in self.inside:
                for v in operands[1:]:
                    self.contents_deep(v)
                return self.change(o, None, f, *map(self.snapshot, operands[1:]), whole=True)
            self.refuse_escaped(o)
        return super().operation(f, *operands)

    def grow(self, o: Any, name: str, *given: Any) -> None:
        if self.reason is not None or id(o) not in self.outside:
            super().grow(o, name, *given)
        elif (
            name == "__setitem__"
        ):  # one that an earlier part of a call that was split began, as below
            self.set_item(o, *given)
        else:
            self.call(None, getattr(o, name), given, {})

    def set_attribute(self, o: Any, name: str, v: Any) -> None:
        if self.reason is None:
            if isinstance(o, Tensor):
                made = name == "requires_grad" and self.recorder.new_leaf(o)
                if not made and (name != "grad" or not self.recorder.set_gradient(o, v)):
                    self.stop(f"the attribute {name!r} of a tensor is set")
                setattr(o, name, self.given_away(v, set()))
                return
            elif id(o) not in self.inside and id(o) not in self.outside:
                self.stop(f"an attribute of an object of unknown origin is set, {type(o).__name__}")
            else:
                found = type(o).__setattr__
                if isinstance(o, rushlight.nn.Module) and found is rushlight.nn.Module.__setattr__:
                    if name in o._buffers and isinstance(v, Tensor | None):
                        buffers = o.__dict__["_buffers"]
                        if id(o) in self.outside:
                            self.hold(f"{self.outside[id(o)][1]}._buffers", buffers)
                        self.set_item(buffers, name, v)
                        return
                    if (
                        isinstance(v, (rushlight.nn.Parameter, rushlight.nn.Module))
                        or name in o._parameters
                        or name in o._modules
                    ):
                        self.stop(f"the parameter or module {name!r} of a module is set")
                elif found is not object.__setattr__ and found is not BaseException.__setattr__:
                    if isinstance(found, types.FunctionType):
                        self.call(None, found, (o, name, v), {})
                        return
                    self.stop(f"__setattr__ of {type(o).__name__}")
                in_python = type(o) is not types.FunctionType
                d = self.in_class(type(o), name) if in_python else getattr(type(o), name, None)
                if isinstance(d, property) and isinstance(d.fset, types.FunctionType):
                    self.call(None, d.fset, (o, v), {})
                    return
                if (
                    hasattr(type(d), "__set__")
                    and not isinstance(d, types.MemberDescriptorType)
                    and not (type(o) is types.FunctionType and name == "__type_params__")
                ):
                    self.stop(f"the attribute {name!r} of {type(o).__name__} is set")
        self.change(o, name, setattr_of(name), v)

    def delete_attribute(self, o: Any, name: str) -> None:
        d = getattr(type(o), name, None)
        if (
            self.reason is None
            and isinstance(d, property)
            and isinstance(d.fdel, types.FunctionType)
        ):
            self.call(None, d.fdel, (o,), {})
        elif id(o) in self.inside or type(o).__delattr__ is object.__delattr__:
            self.change(o, name, delattr_of(name))
        else:
            self.stop(f"the attribute {name!r} is deleted")
            delattr(o, name)

    def set_item(self, o: Any, key: Any, v: Any) -> None:
        if isinstance(o, Tensor) and self.is_written(o, key, v):
            return
        key = self.concrete(key, "a value that was read from a tensor as an index")
        if isinstance(o, Tensor):
            given, (_, v) = v, self.operands("setitem", (o, v))
            if v is not given and isinstance(v, Tensor):  # a number is of every dtype
                v = v.to(o.dtype)
            key = self.index(key)
            self.contents_deep(key)
            self.contents_deep(v)
        if self.reason is not None or isinstance(o, Tensor):
            o[key] = self.given_away(v, set()) if self.variables else v
        elif self.by_keys(o) and is_key(key):
            self.partly.setdefault(id(o), o.copy())
            self.change(o, ("item", key), operator.setitem, key, v)
        elif o.__class__ in CONTAINERS:
            self.change(o, None, operator.setitem, key, v, whole=True)
        elif (
            isinstance(o, dict)
            and id(o) in self.inside
            and isinstance(
                found := self.in_class(type(o), "__setitem__"), types.WrapperDescriptorType
            )
        ):
            self.of_dictionary(o, found.__get__(o), (key, v))
        else:
            self.special(o, "__setitem__", key, v) if isinstance(
                getattr(type(o), "__setitem__", None), types.FunctionType
            ) else self.foreign_item(o, key, v)

    def foreign_item(self, o: Any, key: Any, v: Any) -> None:
        self.stop(f"an item of {type(o).__name__} is set")
        o[key] = self.given_away(v, set())

    def delete_item(self, o: Any, key: Any) -> None:
        if self.reason is None and o.__class__ in CONTAINERS:
            self.change(o, None, operator.delitem, key, whole=True)
        else:
            self.stop("an item is deleted")
            del o[key]

    def set_variable(self, space: dict, name: str, v: Any) -> None:
        if self.reason is None:
            self.outside.setdefault(id(space), (space, self.guards.name(space)))
            self.step(operator.setitem, (space, name, v), {}, "changes")
            self.written[id(space), name] = space
        self.changed.append(space)
        space[name] = v

    def set_cell(self, cell: types.CellType, v: Any) -> None:
        if self.reason is None and id(cell) not in self.inside:
            self.outside.setdefault(id(cell), (cell, self.guards.name(cell)))
            self.step(fill_cell, (cell, v), {}, "changes")
            self.written[(id(cell),)] = cell
        self.changed.append(cell)
        cell.cell_contents = v


@contextlib.contextmanager
def unchanged(o: Any) -> Iterator[None]:
    """A block behind which an object has the attributes, and the containers in them the elements, of before."""
    own = vars(o)
    before = dict(own)
    contents = [(v, v.copy()) for v in before.values() if v.__class__ in (list, dict, set)]
    try:
        yield
    finally:
        own.clear()
        own.update(before)
        for v, elements in contents:
            v.clear()
            v.extend(elements) if v.__class__ is list else v.update(elements)


@functools.cache
def setattr_of(name: str) -> Callable:
    def set_attribute(o: Any, v: Any) -> None:
        setattr(o, name, v)

    return set_attribute


@functools.cache
def delattr_of(name: str) -> Callable:
    def delete_attribute(o: Any) -> None:
        delattr(o, name)

    return delete_attribute


@functools.cache
def own_setattr_of(name: str) -> Callable:
    def set_attribute(o: Any, v: Any) -> None:
        object.__setattr__(o, name, v)

    return set_attribute


@functools.cache
def method_of(name: str, *keywords: str) -> Callable:
    """A call of a method, whose last arguments are given by these keywords."""

    def call_method(o: Any, *args: Any) -> Any:
        n = len(args) - len(keywords)
        return getattr(o, name)(*args[:n], **dict(zip(keywords, args[n:], strict=True)))

    return call_method


def fill_cell(cell: types.CellType, v: Any) -> None:
    cell.cell_contents = v
