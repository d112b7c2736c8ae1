"""Kernels: Python functions in the language of `language.py`, compiled for this machine.

>>> from rushlight._codegen.language import lanes, parallel
>>> from rushlight._codegen.types import Ptr, f32, i64
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
from functools import cache
from typing import Any

from rushlight._codegen.language import Source
from rushlight._codegen.types import HEAD, Header, Type


class Kernel(Source):
    """A function that Python calls, compiled for given types and known values."""

    def __init__(self, function: Callable, fast: str = "", quick: bool = False) -> None:
        super().__init__(function, "kernel", fast, quick=quick)
        self._compiled: dict[tuple, Callable[..., None]] = {}

    def module(self, **known: Any) -> Any:
        """Its intermediate representation, for values of the names that it leaves open; checked as
        it was read, and after each pass."""
        from rushlight._codegen.check import check
        from rushlight._codegen.frontend import read
        from rushlight._codegen.passes import PASSES

        module = read(self, self._types(known), known)
        check(module)
        for step in PASSES:
            step(module)
            check(module)
        return module

    def llvm(self, **known: Any) -> str:
        """Its LLVM text, before LLVM's own passes; what it is made from is checked once."""
        types = self._types(known)
        return _emitted(self, _module(self, types, known)) + self._entry(types)

    def _text(self, known: dict[str, Any]) -> str:
        """The same, less the routines that are compiled apart."""
        types = self._types(known)
        return _emitted(self, _module(self, types, known, _apart())) + self._entry(types)

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
        from rushlight._codegen import native
        from rushlight._codegen.runtime import threads

        threads.start()
        python()
        names = [self.__name__, self.__name__ + ".call"]
        module = self.function.__module__
        described = f"{module}.{self.__name__}({_listed(known)})"
        if module.startswith("rushlight."):
            # The cache's own key covers all sources of the compiler.
            return native.load(described, lambda: self._text(known), names)
        text = self.llvm(**known)
        return native.load(described + text, lambda: text, names)

    def _compile(self, known: dict[str, Any]) -> Callable[..., None]:
        function = builtin(self.__name__, self._load(known)[1])
        # A Python function around it has names for its arguments, and what it calls can be swapped
        # (explanation.py); it costs a twentieth of a microsecond.
        names = ", ".join(self._types(known))
        space = {"function": function}
        exec(f"def {self.__name__}({names}):\n    function({names})", space)
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
        """A function for Python's own calls (METH_FASTCALL) that takes objects: the memory of arrays,
        and numbers. The kernel runs without the interpreter's lock."""
        lines, given = [], []
        for k, (name, t) in enumerate(types.items()):
            lines.append(f"  %{name}.at = getelementptr ptr, ptr %.objects, i64 {k}")
            lines.append(f"  %{name}.object = load ptr, ptr %{name}.at")
            value = f"%{name}.object"
            if t.kind == "p":
                if t is not Header:
                    lines.append(f"  %{name}.where = getelementptr i8, ptr {value}, i64 {8 * HEAD}")
                    lines.append(f"  %{name}.data = load ptr, ptr %{name}.where")
                    value = f"%{name}.data"
            elif t.kind == "f":
                lines.append(f"  %{name}.wide = call double @PyFloat_AsDouble(ptr {value})")
                value = f"%{name}.wide"
                if t.llvm != "double":
                    lines.append(f"  %{name}.given = fptrunc double {value} to {t.llvm}")
                    value = f"%{name}.given"
            elif t.kind == "b":
                lines.append(f"  %{name}.truth = call i32 @PyObject_IsTrue(ptr {value})")
                lines.append(f"  %{name}.given = icmp sgt i32 %{name}.truth, 0")
                value = f"%{name}.given"
            else:
                lines.append(
                    f"  %{name}.wide = call i64 @PyLong_AsUnsignedLongLongMask(ptr {value})"
                )
                value = f"%{name}.wide"
                if t.llvm != "i64":
                    lines.append(f"  %{name}.given = trunc i64 {value} to {t.llvm}")
                    value = f"%{name}.given"
            given.append(f"{t.llvm} {value}")
        return "\n".join(
            [
                "declare i64 @PyLong_AsUnsignedLongLongMask(ptr)",
                "declare double @PyFloat_AsDouble(ptr)",
                "declare i32 @PyObject_IsTrue(ptr)",
                "declare i32 @PyErr_BadArgument()",
                "declare ptr @PyErr_Occurred()",
                "declare ptr @PyEval_SaveThread()",
                "declare void @PyEval_RestoreThread(ptr)",
                "declare void @Py_IncRef(ptr)",
                f"define ptr @{self.__name__}.call(ptr %.none, ptr %.objects, i64 %.count) {{",
                f"  %.right = icmp eq i64 %.count, {len(types)}",
                "  br i1 %.right, label %.convert, label %.wrong",
                ".wrong:",
                "  call i32 @PyErr_BadArgument()",
                "  ret ptr null",
                ".convert:",
                *lines,
                "  %.error = call ptr @PyErr_Occurred()",
                "  %.good = icmp eq ptr %.error, null",
                "  br i1 %.good, label %.run, label %.raise",
                ".raise:",
                "  ret ptr null",
                ".run:",
                "  %.state = call ptr @PyEval_SaveThread()",
                f"  call void @{self.__name__}({', '.join(given)})",
                "  call void @PyEval_RestoreThread(ptr %.state)",
                "  call void @Py_IncRef(ptr %.none)",
                "  ret ptr %.none",
                "}",
                "",
            ]
        )


def _module(
    source: Source, types: dict[str, Type], known: dict[str, Any], apart: Any = None
) -> Any:
    """What is made code of: checked once, at the end."""
    from rushlight._codegen.check import check
    from rushlight._codegen.frontend import read
    from rushlight._codegen.passes import PASSES

    module = read(source, types, known, apart)
    for step in PASSES:
        step(module)
    check(module)
    return module


def _emitted(source: Source, module: Any) -> str:
    from rushlight._codegen.emit import emit
    from rushlight._codegen.native import QUICK

    return (QUICK if source.quick else "") + emit(module)


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in values.items())


def _apart() -> Any:
    """How routines that are compiled apart are called, where they can be; None where not."""
    from rushlight._codegen import native

    def named(source: Source, types: dict[str, Type], known: dict[str, Any]) -> str:
        def text(name: str) -> str:
            from rushlight._codegen.frontend import result

            module = _module(source, types, known, named)
            module.functions[0].name = name
            got, said = module.functions[0].result, result(source, known)
            if got is not said:
                raise TypeError(f"{source} returns {got} and is annotated {said}")
            return _emitted(source, module)

        described = f"{source.function.__module__}.{source.__name__}({_listed(known)})"
        return native.unit(f"{described}({_listed(types)}) {source.fast}", text)

    return named if native.UNITS else None


def kernel(function: Callable | None = None, *, fast: str = "", quick: bool = False) -> Any:
    """Make a kernel of a Python function, which is read when it is compiled, not before.

    `fast` names LLVM's flags for its floating-point operations: "reassoc" lets sums be reordered.
    `quick`: with few of LLVM's passes, for long kernels of vectors that they choose themselves, which
    keep what does not change in a loop outside of it: the others take twice as long as all else, and
    change nothing there. LLVM makes no vectors of their `lanes`.
    """
    if function is None:
        return lambda function: Kernel(function, fast, quick)
    return Kernel(function, fast, quick)


# What the entries of kernels call of CPython's C interface.
_PYTHON = (
    "PyLong_AsUnsignedLongLongMask PyFloat_AsDouble PyObject_IsTrue PyErr_BadArgument PyErr_Occurred "
    "PyEval_SaveThread PyEval_RestoreThread Py_IncRef Py_DecRef PyLong_FromLongLong "
    "PyLong_AsLongLongAndOverflow PyObject_CallFunctionObjArgs PyTuple_New PyTuple_SetItem"
)


@cache
def python() -> None:
    """Let native code call CPython, whatever library it stands in."""
    import ctypes

    from rushlight._codegen import native

    for name in _PYTHON.split():
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert address is not None
        native.symbol(name, address)


_METH_FASTCALL = 0x80


def builtin(name: str, address: int, bound: object = None) -> Callable[..., Any]:
    """A builtin function of Python: native code that takes the object it is bound to, an array of
    objects, and their number."""
    import ctypes

    from rushlight._codegen import native

    class Method(ctypes.Structure):  # PyMethodDef
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("code", ctypes.c_void_p),
            ("flags", ctypes.c_int),
            ("doc", ctypes.c_char_p),
        ]

    method = Method(name.encode(), address, _METH_FASTCALL, None)
    native.keep(method)
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    return made(ctypes.addressof(method), bound, None)
