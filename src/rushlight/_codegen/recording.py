"""Blocks in which all calls of kernels are noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight._codegen.kernel import Kernel
from rushlight._codegen.native_entry import ByDtype, bound_of, in_python, python_entry, unbound


class recording:
    """A block in which `note(kernel, known values, arguments)` hears of each call of a kernel before it runs.

    `wrong`: the arrays in which kernels say that something is wrong with what they are given. `dry`: whether kernels are
    noted and do not run, but for those that infer shapes. Native entries are functions of Python meanwhile.
    """

    def __init__(self, note: Callable[[Kernel, tuple, tuple], None]) -> None:
        self.note = note
        self.silent = self.dry = False
        self.wrong: list[np.ndarray] = []
        self._entries = in_python(self)

    def __enter__(self) -> recording:
        self._entries.__enter__()
        self._before: list[tuple[dict, Any, Any]] = []
        for kernel, known, space in compiled_kernels():
            self._note_use(kernel, tuple(known.items()), space)
        Kernel.listeners.append(self._note_use)
        for table in ByDtype.every:
            for dtype, entry in table.items():
                bound = bound_of(entry)
                self._swap(table, dtype, unbound if bound is None else python_entry(bound, self))
        return self

    def __exit__(self, *error: object) -> None:
        self._entries.leave()
        Kernel.listeners.remove(self._note_use)
        for held, key, value in reversed(self._before):
            held[key] = value

    def _note_use(self, kernel: Kernel, known: tuple, space: dict) -> None:
        self._swap(space, "function", self._noting(kernel, known, space["function"]))

    def _swap(self, held: dict, key: Any, value: Any) -> None:
        self._before.append((held, key, held[key]))
        held[key] = value

    def _noting(self, kernel: Kernel, known: tuple, function: Callable) -> Callable:
        def call(*passed: Any) -> None:
            if not self.silent:
                self.note(kernel, known, passed)
            if self.silent or not self.dry:
                function(*passed)

        return call


def compiled_kernels() -> Iterator[tuple[Kernel, dict[str, Any], dict[str, Any]]]:
    """(kernel, known values, the globals of the Python function that calls its `function`) for all that is compiled."""
    for kernel in [*Kernel.every]:
        for key, function in kernel._compiled.items():
            space = getattr(function, "__globals__", {})
            if "function" in space:
                yield kernel, dict(key), space
