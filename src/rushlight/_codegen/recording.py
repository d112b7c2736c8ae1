"""Blocks in which all calls of kernels are noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._codegen import explanation
from rushlight._codegen.kernel import Kernel
from rushlight._codegen.native_entry import (
    NDIM,
    NONE,
    NUMBERS,
    PLAN,
    RUN,
    SHAPE,
    Bound,
    ByDtype,
    ListOf,
    bound_of,
    unbound,
)


class recording:
    """A block in which `note(kernel, known values, arguments)` hears of each call of a kernel before it runs.

    `wrong`: the arrays in which kernels say that something is wrong with what they are given. `dry`: whether kernels are
    noted and do not run, but for those that infer shapes.
    Native entries that are made within are not heard of: what is to be noted ran before.
    """

    def __init__(self, note: Callable[[Kernel, tuple, tuple], None]) -> None:
        self.note = note
        self.silent = self.dry = False
        self.wrong: list[np.ndarray] = []

    def __enter__(self) -> recording:
        self._before: list[tuple[dict, Any, Any]] = []
        for kernel, known, space in explanation.compiled_kernels():
            self._hear(kernel, tuple(known.items()), space)
        Kernel.heard.append(self._hear)
        for table in ByDtype.every:
            for dtype, entry in table.items():
                bound = bound_of(entry)
                self._swap(table, dtype, unbound if bound is None else self._in_python(bound))
        return self

    def __exit__(self, *error: object) -> None:
        Kernel.heard.remove(self._hear)
        for held, key, value in reversed(self._before):
            held[key] = value

    def _hear(self, kernel: Kernel, known: tuple, space: dict) -> None:
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

    def _in_python(self, bound: Bound) -> Callable:
        """What a native entry does: infer the results, make them, run a kernel. None for what it does not take."""
        infer, arrays, results, runs = bound
        takes_floats = [t.is_float for t in infer[0]._types(infer[1]).values()]

        def entry(*given: Any) -> Any:
            passed = [*given[: len(arrays)]]
            if len(given) != len(takes_floats) - 1 or not all(map(plain, passed, arrays)):
                return None
            for v, real in zip(given[len(arrays) :], takes_floats[len(arrays) :], strict=False):
                if v is not None and v.__class__ not in ((int, float) if real else (int, bool)):
                    return None
                passed.append(NONE if v is None else v)
            plan = np.zeros(PLAN, np.int64)
            for d in [a.dtype for a in arrays if isinstance(a, ListOf)]:
                plan[NUMBERS : NUMBERS + 2] = id(np.ndarray), id(d)
            self.silent = True
            try:
                infer[0].compiled(**infer[1])(*passed, plan)
            finally:
                self.silent = False
            if not plan[RUN]:
                return None
            kernel, known = runs[plan[RUN] - 1]
            shape = plan[SHAPE : SHAPE + plan[NDIM]].tolist()
            made = [
                np.empty(r[1], r[0]) if isinstance(r, tuple) else np.empty(shape, r)
                for r in results
            ]
            types = [*kernel._types(known).values()]
            pointers = sum(t.kind == "p" for t in types)
            wrong = [np.zeros(1, np.int64)] * (pointers - len(arrays) - len(made))
            self.wrong += wrong
            words = plan[NUMBERS : NUMBERS + len(types) - pointers]
            numbers = [
                w.view(np.float64).item() if t.is_float else w.item()
                for w, t in zip(words, types[pointers:], strict=True)
            ]
            kernel.compiled(**known)(*given[: len(arrays)], *made, *wrong, *numbers)
            if wrong and wrong[0][0]:
                return None
            return True if not made else made[0] if len(made) == 1 else tuple(made)

        return entry


def plain(v: Any, kind: Any) -> bool:
    """Whether an entry takes an array, or a list of arrays, for one of a dtype."""
    if isinstance(kind, ListOf):
        return v.__class__ is list
    return v.__class__ is np.ndarray and v.dtype is kind and v.flags.aligned
