"""Kernels: Python functions in the language of `language.py`, compiled for this machine.

>>> from rushlight.compiler.language import lanes, parallel
>>> from rushlight.compiler.types import Ptr, f32, i64
>>> @kernel
... def add_one(x: Ptr[T], out: Ptr[T], n: i64):  # T is given when it is compiled
...     for lo, hi in parallel(n, 16384):
...         for i in lanes(lo, hi):
...             out[i] = x[i] + 1
>>> import numpy as np
>>> x = np.arange(3, dtype=np.float32)
>>> add_one.compiled(T=f32)(x, x, 3)
>>> x
array([1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rushlight.compiler.language import Source
from rushlight.compiler.types import HEAD, Header, Type


class Kernel(Source):
    """A function that Python calls, compiled for given types and known values."""

    def __init__(self, function: Callable, fast: str = "") -> None:
        super().__init__(function, "kernel", fast)
        self._compiled: dict[tuple, Callable[..., None]] = {}

    def module(self, **known: Any) -> Any:
        """Its intermediate representation, for values of the names that it leaves open."""
        from rushlight.compiler.check import check
        from rushlight.compiler.passes import PASSES
        from rushlight.compiler.read import read

        module = read(self, self._types(known), known)
        check(module)
        for step in PASSES:
            step(module)
            check(module)
        return module

    def llvm(self, **known: Any) -> str:
        """Its LLVM text, before LLVM's own passes."""
        from rushlight.compiler.emit import emit

        return emit(self.module(**known)) + self._entry(self._types(known))

    def compiled(self, **known: Any) -> Callable[..., None]:
        """The kernel as a function of arrays (for its pointers) and numbers, in its order.

        Arrays are taken as the memory that begins at their first element: what they must be (size,
        dtype, strides) is for the caller to check.
        """
        key = tuple(known.items())
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(known)
        return found

    def address(self, **known: Any) -> int:
        """The address of the machine code, which takes pointers where Python's takes arrays."""
        return self._load(known)[0]

    def _load(self, known: dict[str, Any]) -> tuple[int, ...]:
        from rushlight.compiler import native, threads

        threads.start()
        names = [self.__name__, self.__name__ + ".call"]
        module = self.function.__module__
        described = f"{module}.{self.__name__}({', '.join(f'{k}={v!r}' for k, v in known.items())})"
        if module.startswith("rushlight."):
            # The cache's own key covers all sources of the compiler.
            return native.load(described, lambda: self.llvm(**known), names)
        text = self.llvm(**known)
        return native.load(described + text, lambda: text, names)

    def _compile(self, known: dict[str, Any]) -> Callable[..., None]:
        import ctypes

        types = self._types(known)
        made = ctypes.CFUNCTYPE(None, *[_ctype(t) for t in types.values()])
        function = made(self._load(known)[1])
        if not any(t.kind == "p" for t in types.values()):
            return function
        # The object of an array goes over as its id, which CPython makes its address.
        names = ", ".join(types)
        given = ", ".join(f"id({n})" if t.kind == "p" else n for n, t in types.items())
        space = {"function": function}
        exec(f"def {self.__name__}({names}):\n    function({given})", space)
        return space[self.__name__]  # type: ignore[return-value]

    def _types(self, known: dict[str, Any]) -> dict[str, Type]:
        """The types of the parameters that are not known values."""
        tree, _, _ = self.tree()
        space = {**self.function.__globals__, **known}
        for name, cell in zip(
            self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True
        ):
            space.setdefault(name, cell.cell_contents)
        found = {}
        for argument in tree.args.args:
            if argument.arg in known:
                continue
            if argument.annotation is None:
                continue  # a known value with a default
            expression = ast.fix_missing_locations(ast.Expression(argument.annotation))
            found[argument.arg] = eval(compile(expression, "<annotation>", "eval"), space)
        return found

    def _entry(self, types: dict[str, Type]) -> str:
        """A function that takes arrays' objects and calls the kernel with their memory."""
        parameters, lines, given = [], [], []
        for name, t in types.items():
            parameters.append(f"{t.memory} %{name}")
            value = f"%{name}"
            if t.kind == "p" and t is not Header:
                lines.append(f"  %{name}.at = getelementptr i8, ptr %{name}, i64 {8 * HEAD}")
                lines.append(f"  %{name}.data = load ptr, ptr %{name}.at")
                value = f"%{name}.data"
            elif t.memory != t.llvm:
                lines.append(f"  %{name}.bit = icmp ne {t.memory} %{name}, 0")
                value = f"%{name}.bit"
            given.append(f"{t.llvm} {value}")
        return "\n".join(
            [
                f"define void @{self.__name__}.call({', '.join(parameters)}) {{",
                *lines,
                f"  call void @{self.__name__}({', '.join(given)})",
                "  ret void",
                "}",
                "",
            ]
        )


def kernel(function: Callable | None = None, *, fast: str = "") -> Any:
    """Make a kernel of a Python function, which is read when it is compiled, not before.

    `fast` names LLVM's flags for its floating-point operations: "reassoc" lets sums be reordered.
    """
    if function is None:
        return lambda function: Kernel(function, fast)
    return Kernel(function, fast)


def _ctype(t: Type) -> Any:
    import ctypes

    if t.kind == "p":
        return ctypes.c_void_p
    return {
        "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64,
        "i32": ctypes.c_int32, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32,
        "u8": ctypes.c_uint8, "i8": ctypes.c_int8, "b1": ctypes.c_bool,
    }[t.name]  # fmt: skip
