"""What was found of steps of programs, kept on disk between processes: which are kernel calls, and which are not.

An entry holds no code and no addresses: a digest of the kernel calls, and which buffers are constants, begin with zeros,
or tell that something is wrong. Its name is a digest of all that the answer depends on. A process that reads it makes
the calls itself (`step_calls.py`), and goes by the entry where they have this digest; otherwise it tries as if there
was none.
"""

from __future__ import annotations

import json
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
            digest, *numbers = json.loads(data)
            for told in numbers:
                if not all(k.__class__ is int and k >= 0 for k in told):
                    return
            self.constants, self.zeros, self.tells = numbers
        except (ValueError, TypeError):
            return
        self.refused, self.digest = digest is None, digest

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
        disk.put(self.name, json.dumps([digest, self.constants, self.zeros, self.tells]).encode())

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
    text = told(key, exact=True)
    if text is None or disk.directory() is None:
        return None
    return KnownStep(disk.key("steps", *environment_key(), str(get_num_threads()), text))


@cache
def environment_key() -> tuple[str, ...]:
    """What choices of kernels depend on besides a step: the package, the machine, and settings."""
    settings = [
        f"{k}={v}"
        for k, v in sorted(os.environ.items())
        if k.startswith(("RUSHLIGHT_", "OPENBLAS_")) and k != "RUSHLIGHT_CACHE_DIR"
    ]
    return disk.package(), *native.host(), *settings


def digest_of(found: StepCalls) -> str | None:
    """A digest of kernel calls, without addresses; None where they take something else than arrays and numbers."""
    calls = [(c.kernel.file, c.kernel.__name__, c.known, c.given) for c in found.calls]
    buffers = [
        (b.size, b.kind, b.begins is None, b.tells, b.before if b.kind == "constant" else b"")
        for b in found.buffers
    ]
    text = told((calls, found.given, found.result, buffers))
    return None if text is None else disk.key(text)


def told(v: Any, exact: bool = False) -> str | None:
    """A text that says the same in all processes; None where there is none. Unless it is exact, all addresses, and what
    may be one, are alike."""

    try:
        return text_of(v, exact)
    except TypeError:
        return None


def text_of(v: Any, exact: bool) -> str:
    """What `told` says; TypeError where there is no such text."""
    kind = v.__class__
    if kind is int:
        return "far" if abs(v) >= FAR and not exact else f"int {v}"
    if kind is Place:
        where = v.buffer, v.offset, v.shape, v.strides
        return f"Place({where}, {name_of(v.dtype)})"
    if isinstance(v, (list, tuple)):
        return f"{kind.__name__}({', '.join([text_of(x, exact) for x in v])})"
    if isinstance(v, np.dtype):
        return name_of(v)
    said = f"{kind.__name__} {v!r}"
    if " at 0x" in said or isinstance(v, np.ndarray):
        raise TypeError(said)
    return said


@cache
def name_of(dtype: np.dtype) -> str:
    """The text of a dtype, which NumPy takes long to write."""
    return repr(dtype)
