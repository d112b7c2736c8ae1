"""Exported programs as object files: one function in C's calling convention that needs nothing of Python.

    rushlight build model.pt2 -o model.o

`build` writes the object file, and a header in C beside it. The function takes pointers to the inputs and to the
results, and is a list of calls of kernels (Note [How kernel calls are found] in kernel_calls.py). What it needs of
memory is an arena of fixed size in the object file, so that one call runs at a time. Threads are the kernels' own
(`_codegen/runtime/threads.py`): `NAME_threads(n)` says how many; without that, the caller computes alone.
"""

from __future__ import annotations

import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

import rushlight
from rushlight import export
from rushlight._backends import llvm
from rushlight._codegen import native
from rushlight._codegen.kernel import alone
from rushlight._codegen.kernels.fused import row
from rushlight._codegen.runtime import abi, threads
from rushlight._codegen.types import Header, Type
from rushlight.compiler import lowering
from rushlight.compiler.fusion import Loop
from rushlight.compiler.kernel_calls import ALIGNED, Buffer, KernelCalls, NotBuilt, Place
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import InputKind, OutputKind
from rushlight.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    disable_proxy_modes_tracing,
)
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.utils._pytree import tree_leaves

__all__ = ["NotBuilt", "build"]

C_TYPES = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "uint8_t",
}  # fmt: skip
FAR = 1 << 40  # whole numbers from here on are taken for addresses
# Operators that may give a view or a copy.
RESHAPING = frozenset(
    "_unsafe_view aten__unsafe_view aten_view view reshape flatten contiguous".split()
)


def build(
    program: ExportedProgram, path: str, *, name: str | None = None, weights: str | None = None
) -> str:
    """Write the object file `path` and, beside it, a header; the text of the header.

    `name`: that of the function, by default the file's. `weights`: a file for the weights, whose bytes the function
    then takes as one more argument. The code is for this machine's processor. NotBuilt for a program with an operator that cannot run without Python, one of
    dynamic shapes, and one that writes to its inputs or buffers.
    """
    name = re.sub(r"\W", "_", name or os.path.splitext(os.path.basename(path))[0])
    if not name.isascii() or name[:1].isdecimal():
        raise ValueError(f"{name!r} is no name of a function in C")
    if llvm.threshold(1):
        return in_another_process(program, path, name, weights)
    made = ObjectFile(program, name, weights is not None)
    with tempfile.TemporaryDirectory() as folder:
        code = native.object_file(made.texts(folder), [name, f"{name}_threads"])
    with open(path, "wb") as file:
        file.write(code)
    if weights is not None:
        with open(weights, "wb") as file:
            file.write(made.weights)
    header = made.header()
    with open(os.path.splitext(path)[0] + ".h", "w") as file:
        file.write(header)
    return header


def in_another_process(program: ExportedProgram, path: str, name: str, weights: str | None) -> str:
    """`build` where kernels of all sizes are compiled ones, which is decided once for a process."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "program.pt2")
        export.save(program, source)
        command = [sys.executable, "-m", "rushlight", "build", source, "-o", path, "--name", name]
        if weights is not None:
            command += ["--weights", weights]
        paths = os.pathsep.join(filter(None, sys.path))
        here = {**os.environ, "RUSHLIGHT_COMPILED": "always", "PYTHONPATH": paths}
        done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(done.stderr.strip().removeprefix("rushlight: build: "))
    with open(os.path.splitext(path)[0] + ".h") as file:
        return file.read()


# -- the graph ---------------------------------------------------------------------------------------


class Tracing(ProxyTorchDispatchMode):
    """Makes nodes of operators as they are declared here; a view that has to copy is a copy and a view."""

    own_operators = True

    def record(self, func: Any, args: tuple, kwargs: dict, recorded: Any = None) -> Any:
        if func._opname in RESHAPING:
            with disable_proxy_modes_tracing():
                found = func(*args, **kwargs)
            if not np.may_share_memory(found._array, args[0]._array):
                with self:
                    copy = args[0].clone(memory_format=rushlight.contiguous_format)
                args = (copy, *args[1:])
        return super().record(func, args, kwargs, recorded)


class WithLines(Interpreter):
    """Runs an exported program; the nodes that are made meanwhile have the lines of the user's."""

    def __init__(self, program: ExportedProgram, tracer: PythonKeyTracer) -> None:
        super().__init__(program.graph_module)
        self.tracer = tracer

    def run_node(self, n: Node) -> Any:
        before = next(iter(reversed(self.tracer.graph.nodes)), None)
        result = super().run_node(n)
        for node in reversed(self.tracer.graph.nodes):
            if node is before:
                break
            node.stack_trace = n.stack_trace
        return result


def traced(program: ExportedProgram, inputs: list[Tensor]) -> Graph:
    """The graph of an exported program in operators as they are declared here; its results are contiguous."""
    tracer = PythonKeyTracer()
    mode = Tracing(tracer)
    for spec, t in zip(program.graph_signature.input_specs, inputs, strict=True):
        node = tracer.create_node("placeholder", spec.arg.name, (), {})
        if isinstance(t, Tensor):
            tracer.track(t, node)
            tracer.set_meta(node, t)
    with rushlight.no_grad(), mode:
        results = [
            t.clone(memory_format=rushlight.contiguous_format)
            if isinstance(t, Tensor) and not t._array.flags.c_contiguous
            else t
            for t in WithLines(program, tracer).run(*inputs)
        ]
    tracer.create_node("output", "output", (tuple(map(tracer.create_arg, results)),), {})
    tracer.graph.owning_module = tracer.root
    return tracer.graph


def others(t: np.ndarray, which: int) -> np.ndarray:
    """An array like this with other numbers, in the range of its own where they are whole."""
    if not which:
        return t
    rng = np.random.default_rng(which)
    if t.dtype.kind in "fc" or t.dtype.kind == "V":
        return (t * t.dtype.type(-0.7) + rng.standard_normal(t.shape)).astype(t.dtype)
    if t.dtype.kind == "b":
        return rng.random(t.shape) < 0.5
    low, high = min(0, t.min(initial=0)), max(1, t.max(initial=0))
    return rng.integers(low, high, t.shape, endpoint=t.max(initial=0) > 0).astype(t.dtype)


def check(program: ExportedProgram) -> None:
    """NotBuilt for what no function in C does."""
    if program.dynamic:
        name, dims = next(iter(program.dynamic.items()))
        raise NotBuilt(
            f"dimension {next(iter(dims))} of {name!r} is dynamic: export the program without dynamic_shapes"
        )
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise NotBuilt(f"the program writes to {spec.target!r}: call eval() before the export")


# -- the file ----------------------------------------------------------------------------------------


class ObjectFile:
    """The text of an object file. `beside`: whether the weights stand in a file of their own."""

    def __init__(self, program: ExportedProgram, name: str, beside: bool) -> None:
        check(program)
        self.name, self.beside = name, beside
        specs = program.graph_signature.input_specs
        given = program._inputs(tree_leaves(program.example_inputs))
        given = [t.contiguous() if isinstance(t, Tensor) else t for t in given]
        users = [k for k, s in enumerate(specs) if s.kind is InputKind.USER_INPUT]
        self.tensors = [k for k in users if isinstance(given[k], Tensor)]
        self.names = [re.sub(r"\W", "_", specs[k].arg.name) for k in self.tensors]
        self.inputs = [given[k]._array for k in self.tensors]
        graph = traced(program, given)
        known = {
            k: t._array if isinstance(t, Tensor) else t
            for k, t in enumerate(given)
            if k not in self.tensors
        }
        examples = [[others(a, which) for a in self.inputs] for which in range(3)]
        self.program = lowering.build(graph)
        self.plan = KernelCalls(self.program, known, examples)
        self.addresses = {
            s.address: f"row{k}" for k, s in enumerate(self.plan.steps) if isinstance(s, Loop)
        }
        self.weights = self._laid_out("weight")
        self.constants = self._laid_out("constant")
        self.lines: list[str] = []
        self.globals: list[str] = []

    def _used(self, kind: str) -> list[Buffer]:
        return [b for b in self.plan.buffers if b.kind == kind and b.last >= 0]

    def _laid_out(self, kind: str) -> bytes:
        """The bytes of the buffers of a kind, one after the other, and those that others begin with."""
        whole = {
            p.buffer
            for c in self.plan.calls
            for p in c.places()
            if p.dtype == np.int64 and p.buffer >= 0
        }
        plans = [self.plan.buffers[k] for k in whole if self.plan.buffers[k].kind == "constant"]
        made = bytearray()
        for b in self._used(kind):
            made += bytes(-len(made) % ALIGNED)
            b.offset = len(made)
            made += self._without_addresses(b.before) if b in plans else b.before
        return bytes(made)

    @cached_property
    def _dtypes(self) -> dict[int, int]:
        """What stands for the addresses of dtypes, which kernels compare."""
        found = {id(layout.dtype) for layout in self.program.layouts.values()}
        found |= {id(p.dtype) for c in self.plan.calls for p in c.places()}
        names = {id(d): d for b in self.program.layouts.values() for d in [b.dtype]}
        return {i: k + 1 for k, i in enumerate(sorted(found, key=lambda i: str(names.get(i))))}

    def _without_addresses(self, content: bytes) -> bytes:
        """What kernels are told, with numbers for dtypes. NotBuilt where another address is in it."""
        words = list(struct.unpack(f"<{len(content) // 8}q", content))
        if any(FAR <= w < 1 << 47 and w not in self._dtypes for w in words):
            raise NotBuilt("a kernel takes a list of addresses")
        return struct.pack(f"<{len(words)}q", *[self._dtypes.get(w, w) for w in words])

    # -- text --------------------------------------------------------------------------------------

    def texts(self, folder: str) -> Iterator[str]:
        """The modules of LLVM that the object file is made of; the function first."""
        kernels: dict[tuple, tuple[str, Any, dict]] = {}
        for call in self.plan.calls:
            key = (id(call.kernel), call.known)
            name = f"kernel{len(kernels)}.{call.kernel.__name__}"
            kernels.setdefault(key, (name, call.kernel, dict(call.known)))
        for k, call in enumerate(self.plan.calls):
            for number, b in enumerate(self.plan.buffers):
                if b.first == k and b.kind in ("temporary", "output") and b.begins is not None:
                    self._begin(number, b)
            self._call(kernels[id(call.kernel), call.known][0], call)
        self._copies()
        yield self._function(folder, kernels)
        yield threads.text(
            {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()),
            sys.platform,
        )
        for name, kernel, known in kernels.values():
            yield alone(kernel, known, name)
        for k, step in enumerate(self.plan.steps):
            if isinstance(step, Loop):
                yield alone(row, {"CHAIN": step.chain}, f"row{k}")

    def put(self, text: str) -> str:
        """A line of the function that gives a value, and its name."""
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def pointer(self, buffer: int, offset: int) -> str:
        """The address of a byte of a buffer."""
        if buffer < 0:
            return "null"
        b = self.plan.buffers[buffer]
        if b.kind in ("input", "output"):
            base, at = f"%{b.kind}{b.number}", offset
        else:
            base = {"temporary": "@arena", "constant": "@constants"}.get(
                b.kind, "%weights" if self.beside else "@weights"
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
        told = [p for p in call.places() if p.buffer >= 0 and self.plan.buffers[p.buffer].tells]
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
        if v in self.addresses:
            return f"i64 ptrtoint (ptr @{self.addresses[v]} to i64)"
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
        stated[abi.DTYPE] = self._dtypes[id(v.dtype)]
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
        for k, place in enumerate(self.plan.outputs):
            b = self.plan.buffers[place.buffer] if place.buffer >= 0 else None
            if b is None or (b.kind == "output" and b.number == k):
                continue
            size = int(np.prod(place.shape)) * place.dtype.itemsize
            at = self.pointer(place.buffer, place.offset)
            self.lines.append(
                f"call void @llvm.memcpy.p0.p0.i64(ptr %output{k}, ptr {at}, i64 {size}, i1 0)"
            )

    def _function(self, folder: str, kernels: dict) -> str:
        parameters = [f"ptr %input{k}" for k in range(len(self.inputs))]
        parameters += [f"ptr %output{k}" for k in range(len(self.plan.outputs))]
        parameters += ["ptr %weights"] * self.beside
        declared = []
        for name, kernel, known in kernels.values():
            types = ", ".join(t.llvm for t in kernel._types(known).values())
            declared.append(f"declare void @{name}({types})")
        declared += [
            f"declare void @{name}(ptr, ptr, ptr, i64, i64)"
            for name in set(self.addresses.values())
        ]
        text = [
            *(self._held(folder, "constants", self.constants, ".data")),
            *(
                ()
                if self.beside
                else self._held(folder, "weights", self.weights, ".section .rodata")
            ),
            f"@arena = internal global [{max(self.plan.arena, 1)} x i8] zeroinitializer, align 64",
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

    # -- header ------------------------------------------------------------------------------------

    def header(self) -> str:
        """The header in C."""
        parameters = [
            f"const {c_type(a.dtype)} *{name} /* {shape(a.shape)} */"
            for name, a in zip(self.names, self.inputs, strict=True)
        ]
        parameters += [
            f"{c_type(p.dtype)} *output{k} /* {shape(p.shape)} */"
            for k, p in enumerate(self.plan.outputs)
        ]
        about = ""
        if self.beside:
            parameters.append("const void *weights")
            about = f" `weights`: the {len(self.weights)} bytes of the file of weights, aligned to {ALIGNED} bytes."
        guard = f"{self.name.upper()}_H"
        lines = ",\n".join("    " + p for p in parameters)
        return f"""/* Written by rushlight build. Link with -lm. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Arrays are contiguous, the last dimension innermost; those of inputs and outputs do not overlap.{about}
   The result is 0, or 1 where an index among the inputs is out of range. Calls share one arena of {self.plan.arena} bytes:
   one runs at a time. */
int {self.name}(
{lines});

/* How many threads compute; 1 at first. */
void {self.name}_threads(int n);

#ifdef __cplusplus
}}
#endif

#endif
"""


ARRAY = 1  # stands for the class of arrays


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


def c_type(d: np.dtype) -> str:
    """C's type for the elements of an array."""
    if d.name not in C_TYPES:
        raise NotBuilt(f"C has no type for {d.name}")
    return C_TYPES[d.name]


def shape(sizes: tuple[int, ...]) -> str:
    return "".join(f"[{n}]" for n in sizes) or "a number"
