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
import weakref
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, ClassVar, Self

from rushlight._codegen import types as type_names
from rushlight._codegen.language import Source
from rushlight._codegen.types import Type


class Entry(Source):
    """A function of the kernel language that code outside of its module calls by its address.

    `parameters` are those with a type; of these, the ones that are given as known values have a default.
    """

    def __init__(self, function: Callable, kind: str, fast: str, quick: bool = False) -> None:
        super().__init__(function, kind, fast, quick=quick)
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self.parameters = tuple(name for name in names if name in function.__annotations__)

    def address(self, **known: Any) -> int:
        """The address of its machine code, for values of the names that it leaves open."""
        found: dict[tuple, int] = self.__dict__.setdefault("_addresses", {})
        key = tuple(known.items())
        if key not in found:
            found[key] = self._load(known)[0]
        return found[key]

    def _names(self) -> list[str]:
        return [self.__name__]

    def _load(self, known: dict[str, Any]) -> tuple[int, ...]:
        from rushlight._codegen import native, python_api
        from rushlight._codegen.runtime import threads

        threads.start()
        python_api.resolve()
        described = f"{self.file}.{self.__name__}({_listed(known)})"
        if self.file.startswith("rushlight."):
            # The cache's own key covers all sources of the compiler.
            return native.load(described, lambda: self._text(known, _separate()), self._names())
        text = self._text(known)
        return native.load(described + text, lambda: text, self._names())

    def _text(self, known: dict[str, Any], separate: Any = None) -> str:
        """Its LLVM text, before LLVM's own passes; what it is made from is checked once. Without the
        routines that are compiled separately, where `separate` names them."""
        return _emitted(self, _module(self, self._types(known), known, separate))

    def _types(self, known: dict[str, Any]) -> dict[str, Type]:
        """The types of the parameters that are not known values."""
        if "function" in self.__dict__:
            code, written = self.function.__code__, self.function.__annotations__
            space = {**self.function.__globals__, **known}
            for name, cell in zip(code.co_freevars, self.function.__closure__ or (), strict=True):
                space.setdefault(name, cell.cell_contents)
        else:
            space, written = {**vars(type_names), **known}, self.notes

        def typed(note: Any) -> Type:
            if not isinstance(note, str):
                return note
            return space[note] if note in space else eval(_expression(note), space)

        return {name: typed(written[name]) for name in self.parameters if name not in known}

    def open_names(self) -> list[str]:
        """What it is compiled for: the parameters without a type, then the types that others leave open, but R
        beside T."""
        if "function" in self.__dict__:
            written = {a.arg: a.annotation for a in self.tree()[0].args.args}
            notes = {name: note and ast.unparse(note) for name, note in written.items()}
            space = self.function.__globals__
        else:
            notes, space = self.notes, vars(type_names)
        names = [name for name, note in notes.items() if not note]
        for note in filter(None, notes.values()):
            names += [n for n in _expression(note).co_names if n not in names and n not in space]
        return [n for n in names if n != "R" or "T" not in names]


class Kernel(Entry):
    """A function that Python calls, compiled for given types and known values."""

    every: weakref.WeakSet[Kernel] = weakref.WeakSet()
    listeners: ClassVar[
        list[Callable[[Kernel, tuple, dict], None]]
    ] = []  # called with each that is compiled, and its globals

    def __init__(self, function: Callable, fast: str = "", quick: bool = False) -> None:
        super().__init__(function, "kernel", fast, quick=quick)
        self._begin()

    @classmethod
    def unread(cls, module: str, name: str, kind: str, notes: dict[str, str]) -> Self:
        self = super().unread(module, name, kind, notes)
        self._begin()
        return self

    def _begin(self) -> None:
        self.every.add(self)
        self._compiled: dict[tuple, Callable[..., None]] = self.__dict__.get("_compiled", {})

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
        """Its LLVM text, before LLVM's own passes."""
        return self._text(known)

    def compiled(self, **known: Any) -> Callable[..., None]:
        """The kernel as a function of arrays (for its pointers) and numbers, in its order.

        Arrays are taken as the memory that begins at their first element: what they must be (size,
        dtype, strides) is for the caller to check.
        """
        key = tuple(known.items())
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(known)
            for listener in self.listeners:
                listener(self, key, found.__globals__)
        return found

    def _names(self) -> list[str]:
        return [self.__name__, f"{self.__name__}.call"]

    def _text(self, known: dict[str, Any], separate: Any = None) -> str:
        """The same, with the function for Python's own calls."""
        from rushlight._codegen import ir
        from rushlight._codegen.native_entry import call

        types = self._types(known)

        def entry(module: Any) -> None:
            kernel = module.functions[0]
            given = {"KERNEL": kernel, "TYPES": tuple(types.values())}
            made = module.add(call, [ir.Var(n, t) for n, t in call._types(given).items()], given)
            made.name, made.entry = f"{self.__name__}.call", True

        return _emitted(self, _module(self, types, known, separate, entry))

    def _compile(self, known: dict[str, Any]) -> Callable[..., None]:
        function = builtin(self.__name__, self._load(known)[1])
        # A Python function around it has names for its arguments, and what it calls can be swapped
        # (explanation.py); it costs a twentieth of a microsecond.
        names = tuple([name for name in self.parameters if name not in known])
        code = _passing_on(len(names)).replace(
            co_name=self.__name__, co_qualname=self.__name__, co_varnames=names
        )
        return FunctionType(code, {"function": function})


@cache
def _expression(note: str) -> CodeType:
    """The code of the text of a type."""
    return compile(note, "<type>", "eval")


@cache
def _passing_on(n: int) -> CodeType:
    """The code of a function that calls `function` with its arguments, of which there are n."""
    names = ", ".join([f"_{k}" for k in range(n)])
    made = compile(f"def call({names}):\n    function({names})", "<string>", "exec")
    return next(c for c in made.co_consts if isinstance(c, CodeType))


def _module(
    source: Source,
    types: dict[str, Type],
    known: dict[str, Any],
    separate: Any = None,
    entry: Any = None,
) -> Any:
    """What is made code of: checked once, at the end."""
    from rushlight._codegen.check import check
    from rushlight._codegen.frontend import read
    from rushlight._codegen.passes import PASSES

    module = read(source, types, known, separate, entry)
    for step in PASSES:
        step(module)
    check(module)
    return module


def _emitted(source: Source, module: Any) -> str:
    from rushlight._codegen.emit import emit
    from rushlight._codegen.native import ENTRY, QUICK

    kind = ENTRY if source.kind == "entry" else QUICK if source.quick else ""
    return kind + emit(module)


def text_as(source: Source, known: dict[str, Any], name: str) -> str:
    """LLVM's text of a kernel or an entry under another name, with all that it calls."""
    module = _module(source, source._types(known), known)  # type: ignore[attr-defined]
    module.functions[0].name = name
    return _emitted(source, module)


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in values.items())


def _separate() -> Any:
    """How routines that are compiled separately are called, where they can be; None where not."""
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

        described = f"{source.file}.{source.__name__}({_listed(known)})"
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


def entry(function: Callable) -> Entry:
    """Make a function of the kernel language one that is called by its address."""
    return Entry(function, "entry", "")


def addresses(first: Entry, *others: Entry) -> tuple[int, ...]:
    """The addresses of entries of the package that stand in one module and leave no names open."""
    from rushlight._codegen import native

    def add(module: Any) -> None:
        from rushlight._codegen import ir

        for each in others:
            module.add(each, [ir.Var(n, t) for n, t in each._types({}).items()], {}).entry = True

    def text() -> str:
        return _emitted(first, _module(first, first._types({}), {}, _separate(), add))

    names = [each.__name__ for each in (first, *others)]
    return native.load(f"{first.file}.{names}", text, names)


_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02


def builtin(
    name: str, address: int, bound: object = None, keywords: bool = False
) -> Callable[..., Any]:
    """A builtin function of Python: native code that takes the object it is bound to, an array of
    objects, and their number; with `keywords`, the tuple of the names of those behind them, too."""
    import ctypes

    from rushlight._codegen import native

    flags = _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0)
    method = _method()(name.encode(), address, flags, None)
    native.keep_alive(method)
    return _make_builtin()(ctypes.addressof(method), bound, None)


@cache
def _method() -> Any:
    """CPython's PyMethodDef."""
    import ctypes

    class Method(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("code", ctypes.c_void_p),
            ("flags", ctypes.c_int),
            ("doc", ctypes.c_char_p),
        ]

    return Method


@cache
def _make_builtin() -> Callable[..., Any]:
    import ctypes

    kinds = ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    return ctypes.PYFUNCTYPE(*kinds)(("PyCFunction_NewEx", ctypes.pythonapi))
