"""The text of an object file: one function in C's calling convention that calls kernels on fixed places in memory.

Kernels read Python's objects (`Header`), so arrays and lists have stand-ins here, with the fields that `runtime/abi.py`
names. The class of arrays and dtypes are small numbers there, which kernels compare and do not look at.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernel import Entry, Kernel, text_as
from rushlight._codegen.runtime import abi, workers
from rushlight._codegen.types import Header, Type

ALIGNED = 64  # bytes that buffers begin at multiples of
FAR = 1 << 40  # whole numbers from here on are taken for addresses
ARRAY = 1  # stands for the class of arrays


class NotBuilt(RuntimeError):
    """An operator that cannot run without Python."""


class Place(NamedTuple):
    """An array of a call: where in which buffer it begins, and its layout. No buffer: it has no elements."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class KernelCall(NamedTuple):
    """A kernel with its known values, and what it is given: places, lists of places, numbers, types."""

    kernel: Kernel
    known: tuple
    given: tuple

    def places(self) -> Iterator[Place]:
        for v in self.given:
            for x in v if isinstance(v, list) else (v,):
                if isinstance(x, Place):
                    yield x


class Buffer:
    """A block of memory. `kind`: "input", "weight", "constant", "temporary" or "output".

    `first` and `last`: the calls that it lives for; `begins`: the bytes that it must have before the first, or None;
    `number`: which input, weight or output; `offset`: where in the arena, or among the constants or weights.
    """

    def __init__(
        self, start: int, size: int, step: int, kind: str = "temporary", read: bool = True
    ) -> None:
        self.start, self.size, self.step, self.kind = start, size, step, kind
        self.before = self.now() if read else b""
        self.begins: bytes | None = None
        self.number = self.offset = 0
        self.first, self.last = -1, -1
        self.tells = False  # whether a kernel says there that something was wrong

    def now(self) -> bytes:
        """The bytes that it has."""
        return ctypes.string_at(self.start, self.size)

    def changed(self) -> bool:
        return self.now() != self.before


class ObjectText:
    """A function `name` that makes calls, in LLVM's text.

    `outputs`: the places of what it returns; `arena`: the size of the memory of temporary buffers; `constants`,
    `weights`: the bytes of these buffers, None for weights that the caller gives; `functions`: what kernels call by
    an address, as (name, source, known values); `dtypes`: what stands for dtypes, by their addresses.
    """

    def __init__(
        self, name: str, calls: list[KernelCall], buffers: list[Buffer], inputs: int, outputs: list[Place],
        arena: int, constants: bytes, weights: bytes | None, functions: dict[int, tuple[str, Entry, dict]],
        dtypes: dict[int, int],
    ) -> None:  # fmt: skip
        self.name, self.calls, self.buffers, self.inputs = name, calls, buffers, inputs
        self.outputs, self.arena, self.constants, self.weights = outputs, arena, constants, weights
        self.functions, self.dtypes = functions, dtypes
        self.lines: list[str] = []
        self.globals: list[str] = []

    def texts(self, folder: str) -> Iterator[str]:
        """The modules of LLVM that the object file is made of; the function first."""
        kernels: dict[tuple, tuple[str, Any, dict]] = {}
        for call in self.calls:
            key = (id(call.kernel), call.known)
            name = f"kernel{len(kernels)}.{call.kernel.__name__}"
            kernels.setdefault(key, (name, call.kernel, dict(call.known)))
        for k, call in enumerate(self.calls):
            for number, b in enumerate(self.buffers):
                if b.first == k and b.kind in ("temporary", "output") and b.begins is not None:
                    self._begin(number, b)
            self._call(kernels[id(call.kernel), call.known][0], call)
        self._copies()
        yield self._function(folder, kernels)
        yield workers.text(
            {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()),
            sys.platform,
        )
        for name, kernel, known in kernels.values():
            yield text_as(kernel, known, name)
        for name, source, known in self.functions.values():
            yield text_as(source, known, name)

    def put(self, text: str) -> str:
        """A line of the function that gives a value, and its name."""
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def pointer(self, buffer: int, offset: int) -> str:
        """The address of a byte of a buffer."""
        if buffer < 0:
            return "null"
        b = self.buffers[buffer]
        if b.kind in ("input", "output"):
            base, at = f"%{b.kind}{b.number}", offset
        else:
            base = {"temporary": "@arena", "constant": "@constants"}.get(
                b.kind, "%weights" if self.weights is None else "@weights"
            )
            at = b.offset + offset
        return self.put(f"getelementptr i8, ptr {base}, i64 {at}")

    def _begin(self, number: int, b: Buffer) -> None:
        """Let a buffer have the bytes that it begins with."""
        assert b.begins is not None
        to = self.pointer(number, 0)
        if any(b.begins):
            name = f"@begin{len(self.globals)}"
            text = "".join(f"\\{byte:02x}" for byte in b.begins)
            self.globals.append(f'{name} = internal constant [{b.size} x i8] c"{text}", align 64')
            self.lines.append(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {name}, i64 {b.size}, i1 0)"
            )
        else:
            self.lines.append(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {b.size}, i1 0)")

    def _call(self, name: str, call: Any) -> None:
        types = call.kernel._types(dict(call.known))
        told = [p for p in call.places() if p.buffer >= 0 and self.buffers[p.buffer].tells]
        for p in told:
            self.lines.append(f"store i64 0, ptr {self.pointer(p.buffer, p.offset)}")
        given = [
            self._argument(t, v, call) for t, v in zip(types.values(), call.given, strict=True)
        ]
        self.lines.append(f"call void @{name}({', '.join(given)})")
        for p in told:
            value = self.put(f"load i64, ptr {self.pointer(p.buffer, p.offset)}")
            wrong = self.put(f"icmp ne i64 {value}, 0")
            n = len(self.lines)
            self.lines += [f"br i1 {wrong}, label %wrong, label %right{n}", f"right{n}:"]

    def _argument(self, t: Type, v: Any, call: Any) -> str:
        if t is Header:
            return f"ptr {self._object(v)}"
        if t.kind == "p":
            if not isinstance(v, Place):
                raise NotBuilt(f"the kernel {call.kernel.__name__} takes {v!r}")
            return f"ptr {self.pointer(v.buffer, v.offset)}"
        if t.is_float:
            value = float(np.float32(v)) if t.name == "f32" else float(v)
            if t.name not in ("f32", "f64"):
                raise NotBuilt(f"the kernel {call.kernel.__name__} takes a number of type {t}")
            return f"{t.llvm} 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        if v in self.functions:
            return f"i64 ptrtoint (ptr @{self.functions[v][0]} to i64)"
        if abs(int(v)) >= FAR:
            raise NotBuilt(f"the kernel {call.kernel.__name__} takes an address")
        return f"{t.llvm} {int(v)}"

    def _object(self, v: Any) -> str:
        """An array, a list of arrays or a type as kernels read Python's objects."""
        n = len(self.globals)
        if isinstance(v, type):
            return f"inttoptr (i64 {ARRAY} to ptr)"
        if isinstance(v, list):
            items = [self._object(x) for x in v]
            words = [0] * (abi.LIST_ITEMS + 1)
            words[abi.LIST_SIZE] = len(v)
            stated: list[Any] = [*words]
            stated[abi.LIST_ITEMS] = f"ptrtoint (ptr @list{n}.items to i64)"
            held = ", ".join(f"i64 ptrtoint (ptr {item} to i64)" for item in items)
            self.globals.append(f"@list{n}.items = internal global [{len(v)} x i64] [{held}]")
            self.globals.append(words_of(f"list{n}", stated))
            return f"@list{n}"
        dims = [*v.shape, *v.strides]
        stated = [0] * abi.ARRAY_SIZE
        stated[abi.TYPE] = ARRAY
        stated[abi.DTYPE] = self.dtypes[id(v.dtype)]
        stated[abi.SHAPE] = f"ptrtoint (ptr @array{n}.dims to i64)"
        stated[abi.STRIDES] = (
            f"ptrtoint (ptr getelementptr (i64, ptr @array{n}.dims, i64 {len(v.shape)}) to i64)"
        )
        stated[abi.NDIM] = len(v.shape)
        stated[abi.FLAGS] = flags_of(v)
        self.globals.append(words_of(f"array{n}.dims", dims or [0]))
        self.globals.append(words_of(f"array{n}", stated))
        data = self.put(f"ptrtoint ptr {self.pointer(v.buffer, v.offset)} to i64")
        self.lines.append(
            f"store i64 {data}, ptr getelementptr (i64, ptr @array{n}, i64 {abi.DATA})"
        )
        return f"@array{n}"

    def _copies(self) -> None:
        """Copy results that stand elsewhere to where the caller wants them."""
        for k, place in enumerate(self.outputs):
            b = self.buffers[place.buffer] if place.buffer >= 0 else None
            if b is None or (b.kind == "output" and b.number == k):
                continue
            size = int(np.prod(place.shape)) * place.dtype.itemsize
            at = self.pointer(place.buffer, place.offset)
            self.lines.append(
                f"call void @llvm.memcpy.p0.p0.i64(ptr %output{k}, ptr {at}, i64 {size}, i1 0)"
            )

    def _function(self, folder: str, kernels: dict) -> str:
        parameters = [f"ptr %input{k}" for k in range(self.inputs)]
        parameters += [f"ptr %output{k}" for k in range(len(self.outputs))]
        parameters += ["ptr %weights"] * (self.weights is None)
        declared = []
        for name, kernel, known in (*kernels.values(), *self.functions.values()):
            types = ", ".join(t.llvm for t in kernel._types(known).values())
            declared.append(f"declare void @{name}({types})")
        weights = self.weights
        held = () if weights is None else self._held(folder, "weights", weights, ".section .rodata")
        text = [
            *self._held(folder, "constants", self.constants, ".data"),
            *held,
            f"@arena = internal global [{max(self.arena, 1)} x i8] zeroinitializer, align 64",
            *self.globals,
            *declared,
            "declare void @threads(i32)",
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            f"define void @{self.name}_threads(i32 %n) {{",
            "  %others = sub i32 %n, 1",
            "  call void @threads(i32 %others)",
            "  ret void",
            "}",
            f"define i32 @{self.name}({', '.join(parameters)}) {{",
            *("  " + line for line in self.lines),
            "  ret i32 0",
            "wrong:",
            "  ret i32 1",
            "}",
        ]
        return native.QUICK + "\n".join(text) + "\n"

    def _held(self, folder: str, name: str, content: bytes, section: str) -> Iterator[str]:
        """The lines of a block of bytes, which the assembler reads from a file."""
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        label = "_" * (sys.platform == "darwin") + name
        for line in (section, ".p2align 6", f"{label}:", f'.incbin "{path}"', ".byte 0", ".text"):
            escaped = line.replace("\\", "\\5C").replace('"', "\\22")
            yield f'module asm "{escaped}"'
        yield f"@{name} = external hidden global i8"


def words_of(name: str, words: list) -> str:
    """A block of words of 8 bytes, in LLVM's text."""
    return (
        f"@{name} = internal global [{len(words)} x i64] [{', '.join(f'i64 {w}' for w in words)}]"
    )


def flags_of(p: Place) -> int:
    """NumPy's flags of an aligned array."""
    flags = abi.ALIGNED | abi.WRITEABLE
    n = p.dtype.itemsize
    for size, stride in zip(reversed(p.shape), reversed(p.strides), strict=True):
        if size != 1 and stride != n:
            return flags
        n *= size
    return flags | abi.C_CONTIGUOUS
