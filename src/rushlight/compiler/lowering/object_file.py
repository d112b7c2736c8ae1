"""Exported programs as object files: one function in C's calling convention that needs nothing of Python.

    rushlight build model.pt2 -o model.o

`build` writes the object file, and a header in C beside it. The function takes pointers to the inputs and to the
results, and is a list of calls of kernels (Note [How kernel calls are found] in kernel_calls.py). What it needs of
memory is an arena of fixed size in the object file, so that one call runs at a time. Threads are the kernels' own
(`_codegen/runtime/workers.py`): `NAME_threads(n)` says how many; without that, the caller computes alone.
"""

from __future__ import annotations

import os
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
from rushlight._codegen.kernels.fused import row
from rushlight._codegen.object_text import ALIGNED, FAR, Buffer, NotBuilt, ObjectText
from rushlight.compiler.lowering import lowering
from rushlight.compiler.lowering.fusion import Loop
from rushlight.compiler.lowering.kernel_calls import KernelCalls, others
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
from rushlight.viz.memory_plan import Block, memory
from rushlight.viz.svg import Picture

__all__ = ["NotBuilt", "build"]

C_TYPES = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "uint8_t",
}  # fmt: skip
# Operators that may give a view or a copy.
RESHAPING = frozenset(
    "_unsafe_view aten__unsafe_view aten_view view reshape flatten contiguous".split()
)


def build(
    program: ExportedProgram, path: str, *, name: str | None = None, weights: str | None = None,
    picture: str | None = None,
) -> str:  # fmt: skip
    """Write the object file `path` and, beside it, a header; the text of the header.

    `name`: that of the function, by default the file's. `weights`: a file for the weights, whose bytes the function
    then takes as one more argument. The code is for this machine's processor. NotBuilt for a program with an operator that cannot run without Python, one of
    dynamic shapes, and one that writes to its inputs or buffers.
    """
    name = re.sub(r"\W", "_", name or os.path.splitext(os.path.basename(path))[0])
    if not name.isascii() or name[:1].isdecimal():
        raise ValueError(f"{name!r} is no name of a function in C")
    if not native.available():
        raise NotBuilt("there is no machine code here: llvmlite is missing")
    if llvm.threshold(1):
        return in_another_process(program, path, name, weights, picture)
    made = ObjectFile(program, name, weights is not None)
    with tempfile.TemporaryDirectory() as folder:
        code = native.object_file(made.texts(folder), [name, f"{name}_threads"])
    with open(path, "wb") as file:
        file.write(code)
    if weights is not None:
        with open(weights, "wb") as file:
            file.write(made.weights)
    if picture is not None:
        made.memory().save(picture)
    header = made.header()
    with open(os.path.splitext(path)[0] + ".h", "w") as file:
        file.write(header)
    return header


def in_another_process(
    program: ExportedProgram, path: str, name: str, weights: str | None, picture: str | None
) -> str:
    """`build` where kernels of all sizes are compiled ones, which is decided once for a process."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "program.pt2")
        export.save(program, source)
        command = [sys.executable, "-m", "rushlight", "build", source, "-o", path, "--name", name]
        if weights is not None:
            command += ["--weights", weights]
        if picture is not None:
            command += ["--picture", picture]
        paths = os.pathsep.join(filter(None, sys.path))
        here = {**os.environ, "RUSHLIGHT_COMPILED": "always", "PYTHONPATH": paths}
        done = subprocess.run(command, env=here, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip()
        if said.startswith(said_by := "rushlight: build: "):
            raise NotBuilt(said.removeprefix(said_by))
        raise RuntimeError(f"rushlight build has failed:\n{said}")
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
        self.weights = self._laid_out("weight")
        self.constants = self._laid_out("constant")

    def texts(self, folder: str) -> Iterator[str]:
        """The modules of LLVM that the object file is made of; `folder`: where large blocks of bytes may stand."""
        plan = self.plan
        loops = [s for s in plan.steps if isinstance(s, Loop)]
        functions = {s.address: (f"row{k}", row, {"CHAIN": s.chain}) for k, s in enumerate(loops)}
        weights = None if self.beside else self.weights
        return ObjectText(
            self.name, plan.calls, plan.buffers, len(self.inputs), plan.outputs, plan.arena,
            self.constants, weights, functions, self._dtypes,
        ).texts(folder)  # fmt: skip

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
        found = {id(layout.dtype): layout.dtype.name for layout in self.program.layouts.values()}
        found |= {id(p.dtype): p.dtype.name for c in self.plan.calls for p in c.places()}
        return {i: k + 1 for k, i in enumerate(sorted(found, key=lambda i: found[i]))}

    def _without_addresses(self, content: bytes) -> bytes:
        """What kernels are told, with numbers for dtypes. NotBuilt where another address is in it."""
        words = list(struct.unpack(f"<{len(content) // 8}q", content))
        if any(FAR <= w < 1 << 47 and w not in self._dtypes for w in words):
            raise NotBuilt("a kernel takes a list of addresses")
        return struct.pack(f"<{len(words)}q", *[self._dtypes.get(w, w) for w in words])

    def memory(self) -> Picture:
        """A picture of the arena: which step's results live where, and for how many calls of kernels."""
        plan, found = self.plan, []
        for b in plan.buffers:
            if b.kind == "temporary" and b.last >= 0:
                step = plan.steps[b.step]
                name = (step.calls[-1] if isinstance(step, Loop) else step).node.name
                found.append(Block(name, b.size, b.first, b.last, b.offset))
        return memory(found, len(plan.calls))

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


def c_type(d: np.dtype) -> str:
    """C's type for the elements of an array."""
    if d.name not in C_TYPES:
        raise NotBuilt(f"C has no type for {d.name}")
    return C_TYPES[d.name]


def shape(sizes: tuple[int, ...]) -> str:
    return "".join(f"[{n}]" for n in sizes) or "a number"
