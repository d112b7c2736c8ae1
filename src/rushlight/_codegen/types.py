"""The types of the kernel language: numbers, pointers to them, vectors of them.

Two kinds of number differ in memory and in registers: `b1` takes a byte in memory, and the half
types `f16` and `bf16` exist in memory only: a load widens them to `f32`, a store rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.dtype_sets import BF16


class Type:
    """A type of the kernel language.

    `kind` is one of "f" (floating point), "i" (signed), "u" (unsigned), "b" (bool), "p" (pointer)
    and "v" (vector); `element` is what a pointer points to or a vector holds, `lanes` how many.
    Called within a kernel it converts: `f32(x)`.
    """

    __slots__ = ("name", "kind", "size", "llvm", "memory", "element", "lanes")

    def __init__(
        self,
        name: str,
        kind: str,
        size: int,
        llvm: str,
        memory: str = "",
        element: Type | None = None,
        lanes: int = 0,
    ) -> None:
        self.name, self.kind, self.size, self.llvm = name, kind, size, llvm
        self.memory = memory or llvm
        self.element, self.lanes = element, lanes

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple:
        if self.kind == "p" and self is not Header:
            return (Ptr.__class_getitem__, (self.element,))
        return (vector, (self.element, self.lanes)) if self.kind == "v" else self.name

    def __call__(self, value: Any) -> Any:
        raise TypeError(f"{self.name}(...) converts inside of a kernel only")

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def scalar(self) -> Type:
        """The type of one lane; of anything but a vector, the type itself."""
        return self.element if self.kind == "v" and self.element is not None else self

    @property
    def loaded(self) -> Type:
        """What a load from memory of this type gives."""
        return f32 if self in (f16, bf16) else self

    @property
    def is_float(self) -> bool:
        return self.scalar.kind == "f"

    def of(self, scalar: Type) -> Type:
        """`scalar`, with as many lanes as this type has."""
        return vector(scalar, self.lanes) if self.kind == "v" else scalar

    @property
    def np(self) -> np.dtype:
        """NumPy's dtype for one element in memory."""
        return _NP[self.name]


f64 = Type("f64", "f", 8, "double")
f32 = Type("f32", "f", 4, "float")
f16 = Type("f16", "f", 2, "half")
bf16 = Type("bf16", "f", 2, "bfloat", "i16")
i64 = Type("i64", "i", 8, "i64")
i32 = Type("i32", "i", 4, "i32")
i16 = Type("i16", "i", 2, "i16")
i8 = Type("i8", "i", 1, "i8")
u64 = Type("u64", "u", 8, "i64")
u32 = Type("u32", "u", 4, "i32")
u16 = Type("u16", "u", 2, "i16")
u8 = Type("u8", "u", 1, "i8")
UNITS = {1: u8, 2: u16, 4: u32, 8: u64}  # what elements of a size are moved as
b1 = Type("b1", "b", 1, "i1", "i8")

NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16",
    "u8": "uint8", "b1": "bool",
}  # fmt: skip
NUMBERS = {t.name: t for t in (f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, b1)}

_pointers: dict[Type, Type] = {}
_vectors: dict[tuple[Type, int], Type] = {}


class Ptr:
    """`Ptr[T]`: the type of pointers to elements of type T."""

    if TYPE_CHECKING:  # what kernels do with one

        def __getitem__(self, place: Any) -> Any: ...
        def __setitem__(self, place: Any, value: Any) -> None: ...

    def __class_getitem__(cls, element: Type) -> Any:
        if element not in _pointers:
            _pointers[element] = Type(f"Ptr[{element}]", "p", 8, "ptr", element=element)
        return _pointers[element]


# A NumPy array as the object that it is, for kernels that read its shape and strides themselves: its
# fields are words of 8 bytes at the places that `runtime/abi.py` names. `bits(header[abi.DATA], Ptr[T])` makes
# a pointer of the address of its memory.
Header = Type("Header", "p", 8, "ptr", element=i64)


def vector(element: Type, lanes: int) -> Type:
    """The type of `lanes` values of one number type, held in vector registers."""
    key = (element, lanes)
    if key not in _vectors:
        llvm = f"<{lanes} x {element.llvm}>"
        _vectors[key] = Type(
            f"{element}x{lanes}", "v", element.size * lanes, llvm, element=element, lanes=lanes
        )
    return _vectors[key]


def width(t: Type) -> int:
    """Lanes of a vector of what `t` is in registers."""
    return 64 // t.loaded.size


def of(dtype: np.dtype) -> Type | None:
    """The type for a NumPy dtype; None where the language has none."""
    return _OF.get(dtype)


_NP = {name: np.dtype(NUMPY[name]) for name in NUMPY} | {"bf16": BF16}
_OF = {_NP[name]: NUMBERS[name] for name in _NP}
