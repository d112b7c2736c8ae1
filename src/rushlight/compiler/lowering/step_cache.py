"""What was found of steps of programs, kept on disk between processes: which are kernel calls, and which are not.

An entry holds no code and no addresses: a digest of the kernel calls, and which buffers are constants, begin with zeros,
or tell that something is wrong. Its name is a digest of all that the answer depends on. A process that reads it makes
the calls itself (`step_calls.py`), and goes by the entry where they have this digest; otherwise it tries as if there
was none.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen import cache as disk
from rushlight._codegen import native
from rushlight._codegen.object_text import FAR, Place
from rushlight.core.settings import get_num_threads

if TYPE_CHECKING:
    from rushlight.compiler.lowering.step_calls import StepCalls


class KnownStep:
    """The entry of a step. `refused`: it is no kernel calls; `digest`: of its kernel calls, None where nothing is known.

    `constants`, `zeros`, `tells`: the numbers of buffers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refused, self.digest = False, None
        self.constants: list[int] = []
        self.zeros: list[int] = []
        self.tells: list[int] = []
        data = disk.get(name)
        if data is None:
            return
        try:
            digest, *lines = data.decode().split("\n")
            numbers = [[int(k) for k in line.split()] for line in lines]
            if any(k < 0 for line in numbers for k in line):
                return
            self.constants, self.zeros, self.tells = numbers
        except ValueError:
            return
        self.refused, self.digest = not digest, digest or None

    def refuse(self) -> None:
        """Keep that the step is no kernel calls."""
        self._put(None)

    def keep(self, found: StepCalls) -> None:
        """Keep what was found, where it can be told to other processes."""
        if (digest := digest_of(found)) is not None:
            buffers = [*enumerate(found.buffers)]
            self.constants = [k for k, b in buffers if b.kind == "constant"]
            self.zeros = [k for k, b in buffers if b.begins is not None]
            self.tells = [k for k, b in buffers if b.tells]
            self._put(digest)

    def _put(self, digest: str | None) -> None:
        lines = [" ".join(map(str, each)) for each in (self.constants, self.zeros, self.tells)]
        disk.put(self.name, "\n".join([digest or "", *lines]).encode())

    def mark(self, found: StepCalls) -> None:
        """Give the buffers of the same calls the kinds that are known."""
        for k, b in enumerate(found.buffers):
            if k in self.constants:
                b.kind = "constant"
            if k in self.zeros:
                b.begins = b""
            b.tells = k in self.tells

    def same(self, found: StepCalls) -> bool:
        """Whether calls that are marked are those that were found before."""
        return self.digest is not None and digest_of(found) == self.digest


def known_step(key: Any) -> KnownStep | None:
    """The entry of a step with such a key; None where another process cannot have it."""
    text = told(key)
    if text is None or disk.directory() is None:
        return None
    return KnownStep(disk.key("steps", *environment_key(), str(get_num_threads()), text))


@cache
def environment_key() -> tuple[str, ...]:
    """What choices of kernels depend on besides a step: the operators, the machine, and settings."""
    settings = [
        f"{k}={v}"
        for k, v in sorted(os.environ.items())
        if k.startswith(("RUSHLIGHT_", "OPENBLAS_")) and k != "RUSHLIGHT_CACHE_DIR"
    ]
    return disk.operators(), *native.host(), *settings


def digest_of(found: StepCalls) -> str | None:
    """A digest of kernel calls, without addresses; None where they take something else than arrays and numbers."""
    calls = [(c.kernel.file, c.kernel.__name__, c.known, placeless(c.given)) for c in found.calls]
    buffers = [
        (b.size, b.kind, b.begins is None, b.tells, b.before if b.kind == "constant" else b"")
        for b in found.buffers
    ]
    text = told((calls, placeless(found.given), placeless(found.result), buffers))
    return None if text is None else disk.key(text)


def placeless(v: Any) -> Any:
    """What kernels are given, in which all addresses, and what may be one, are alike."""
    kind = v.__class__
    if kind is int:
        return v if abs(v) < FAR else "far"
    if kind is Place:
        return v.buffer, v.offset, v.shape, v.strides, name_of(v.dtype)
    return [placeless(x) for x in v] if kind in (list, tuple) else v


def told(v: Any) -> str | None:
    """A text that says the same in all processes; None where there is none: objects that say where they are, and arrays,
    which say not all."""
    text = repr(v)
    return None if " at 0x" in text or "array(" in text else text


@cache
def name_of(dtype: np.dtype) -> str:
    """The text of a dtype, which NumPy takes long to write."""
    return repr(dtype)
