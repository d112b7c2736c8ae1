"""What a captured function iterates over."""

from __future__ import annotations

import types
from typing import Any

from rushlight.compiler.capture.attributes import Attributes
from rushlight.compiler.capture.bytecode import is_interpreted
from rushlight.compiler.capture.guards import constant, is_iterator
from rushlight.compiler.capture.reads import CONTAINERS, VIEWS
from rushlight.compiler.capture.steps import END
from rushlight.core.tensor import Tensor


class Iteration(Attributes):
    """The part of a capture that goes through iterators. One from outside gives other elements in each call: each pass of
    a loop over it begins behind a split."""

    def is_foreign_iterator(self, v: Any) -> bool:
        """Whether a built-in iterator is from outside."""
        return is_iterator(v) and id(v) in self.outside

    def iterates(self, it: Any) -> bool:
        """Whether a built-in iterator gives elements whose origin is known."""
        return type(it) in VIEWS or is_iterator(it) and id(it) not in self.outside

    def contents(self, v: Any) -> Any:
        if self.reason is not None or constant(v):
            return v
        if v.__class__ in CONTAINERS:
            self.guard_contents(v)
        elif (
            isinstance(v, Tensor)
            or v.__class__ is range
            or self.is_dictionary(v)
            and type(v).__iter__ is dict.__iter__
            or isinstance(v, tuple)
            and (id(v) in self.read or id(v) not in self.outside)
            and self.known(v)
        ):
            pass
        elif hasattr(type(v), "__iter__") and isinstance(type(v).__iter__, types.FunctionType):
            return list(self.iterator(v))
        elif not self.iterates(v):
            self.stop(f"elements of {type(v).__name__}")
        return v

    def iterator(self, v: Any) -> Any:
        if self.reason is None and not isinstance(v, Tensor) and not constant(v):
            loop = bool(self.frames) and self.frames[-1].instruction == "GET_ITER"
            if v.__class__ in CONTAINERS:
                self.guard_contents(v)
            elif self.is_foreign_iterator(v):
                if not loop:
                    self.stop(
                        f"a {type(v).__name__} from outside, which each call takes elements from"
                    )
            elif not self.iterates(v) and not (isinstance(v, tuple) and self.known(v)):
                found = self.in_class(type(v), "__iter__")
                if loop and isinstance(found, types.FunctionType) and self.known(v):
                    return self.call(self.frames[-1], found, (v,), {})
                return self.special(v, "__iter__")
        return iter(v)

    def following(self, it: Any) -> Any:
        if self.reason is not None or self.iterates(it):
            return next(it)
        loop = bool(self.frames) and self.frames[-1].instruction == "FOR_ITER"
        found = self.in_class(type(it), "__next__")
        if not loop or isinstance(found, types.FunctionType) and is_interpreted(found):
            return self.special(it, "__next__")
        reason = f"an element of a {type(it).__name__} from outside"
        v = self.as_written(self.frames[-1], reason, next, (it, END), {}, ("FOR_ITER",))
        if v is END:
            raise StopIteration
        return v
