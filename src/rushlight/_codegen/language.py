"""The words of the kernel language beyond Python's own; they mean something within kernels only.

A kernel is a Python function that `frontend.py` turns into the intermediate representation. What is
known while reading (numbers, tuples, types, other Python values) is computed there and then;
all else happens when the kernel runs. `if` over something known reads one branch only.

Files of kernels import all words at once, by a star, as the words of a language are at hand in it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Self

from rushlight._codegen.types import Type


class Word:
    """A function of the language."""

    def __init__(self, name: str, meaning: str) -> None:
        self.name = self.__name__ = name
        self.__doc__ = meaning

    def __repr__(self) -> str:
        return f"<word {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.name}() has a meaning within kernels only")

    def __iter__(self) -> Any:  # for type checkers: loops are written over some of the words
        raise TypeError(f"{self.name} has a meaning within kernels only")


# Loops. `for i in range(a, b, step)` is a loop when the kernel runs. LLVM makes vectors of the numbers
# of `lanes` loops only, and of those of `range` in functions that are `fast`.
unroll = Word("unroll", "for x in unroll(3) or unroll(sequence): the body once for each, at once")
lanes = Word("lanes", "for i in lanes(a, b): iterations that do not depend on each other")
rounds = Word("rounds", "for i in rounds(a, b, 8): as range(a, b), 8 iterations before each jump")
parallel = Word("parallel", "for lo, hi in parallel(n, grain): chunks of [0, n) shared by threads")
NEAR = (
    1 << 62
)  # parallel(n, grain + NEAR): by those that are awake, where all takes some microseconds

# Memory. `p[i]`, `p[i] = v`, `p + i` work on pointers.
load = Word("load", "load(p, lanes, mask=None): a vector from consecutive elements")
store = Word("store", "store(p, vector, mask=None, stream=False): a vector to consecutive elements")
gather = Word("gather", "gather(p, offsets, mask=None): a vector from elements at offsets")
array = Word("array", "array(type, count): memory of the function's own")
call = Word("call", "call(address, type, *args): the function there, which returns a type or None")
prefetch = Word("prefetch", "prefetch(p): p will be read soon")

# Vectors.
splat = Word("splat", "splat(x, lanes): x in all lanes")
iota = Word("iota", "iota(type, lanes): 0, 1, 2, ...")
lane = Word("lane", "lane(v, i): one lane, i known when compiling")
insert = Word("insert", "insert(v, i, x): v with one lane replaced")
shuffle = Word("shuffle", "shuffle(a, b, which): lanes of a, and of b counted on from those of a")
total = Word("total", "total(v): all lanes added, as a tree")
largest = Word("largest", "largest(v): the largest lane")
smallest = Word("smallest", "smallest(v): the smallest lane")
some = Word("some", "some(v): whether any lane of a vector of b1 holds")

# Numbers. `abs`, `min` and `max` work too: min(a, b) is `a if a < b else b`.
bf16_pairs = Word(
    "bf16_pairs", "bf16_pairs(a, b, c): the two bf16 in a (i32) times those in b, plus c"
)
fma = Word("fma", "fma(a, b, c): a * b + c rounded once")
sqrt = Word("sqrt", "square root")
floor = Word("floor", "rounded down")
ceil = Word("ceil", "rounded up")
trunc = Word("trunc", "rounded towards 0")
rint = Word("rint", "rounded to nearest, ties to even")
copysign = Word("copysign", "copysign(a, b): |a| with b's sign")
bits = Word("bits", "bits(x, type): the same bits read as another type")
select = Word("select", "select(c, a, b): a where c holds, else b")
typeof = Word("typeof", "typeof(x): the scalar type of a value, known when compiling")
lanesof = Word("lanesof", "lanesof(x): how many lanes a value has, 0 for a number")

SIMPLE = {
    word: word.name for word in (fma, sqrt, floor, ceil, trunc, rint, copysign, select)
}  # words that are one operation of the representation, on arguments of one type


class External:
    """A function of C for kernels to call: its name (see `native.symbol`), what it returns and takes."""

    def __init__(self, name: str, result: Type | None, takes: tuple[Type, ...]) -> None:
        self.name, self.result, self.takes = name, result, takes

    def __repr__(self) -> str:  # a part of the keys of kernels on disk
        return f"external({self.name!r}, {self.result}, {self.takes})"


def external(name: str, result: Type | None, *types: Type) -> External:
    return External(name, result, types)


KINDS = {word: word for word in ("kernel", "entry", "routine")} | {"inline": "inline function"}


class Source:
    """A function of the kernel language: its Python function, and how it is to be read.

    One that is `unread` has a name so far; its file is imported when more is asked of it (`kernels/__init__.py`).
    """

    _unread: ClassVar[dict[tuple[str, str], Source]] = {}  # by module and name
    _OF_FUNCTION = frozenset("function fast separate quick __wrapped__ _tree _assigned".split())

    def __new__(cls, function: Any, *args: Any, **options: Any) -> Self:
        """The one that has been used by its name, where there is one: it is complete from now on."""
        name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        found = Source._unread.pop(name, None)
        return found if isinstance(found, cls) else super().__new__(cls)

    @classmethod
    def unread(cls, module: str, name: str, kind: str, notes: dict[str, str]) -> Self:
        """A function of a file that was not imported; `notes` are its parameters and their types, "" where open."""
        self = object.__new__(cls)
        self.file, self.__name__, self.kind = module, name, kind
        self.parameters, self.notes = tuple(name for name, note in notes.items() if note), notes
        # two threads may ask at once: the first one's stays
        return Source._unread.setdefault((module, name), self)  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        if name not in self._OF_FUNCTION or "function" in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        file = import_module(self.file)
        if "function" not in self.__dict__:  # it was imported before this one was made
            self.__dict__.update(vars(getattr(file, self.__name__)))
        return getattr(self, name)

    def __init__(
        self, function: Callable, kind: str, fast: str, separate: bool = False, quick: bool = False
    ) -> None:
        self.function, self.kind, self.fast, self.separate = function, kind, fast, separate
        self.quick, self.file = quick, function.__module__
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__wrapped__ = function  # doctest and inspect find the source
        self._tree: Any = None
        self._assigned: set[str] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.file}.{self.__name__}>"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.__name__} is a {self.kind}: kernels call it, compiled")

    def tree(self) -> tuple[Any, str, int]:
        """Its syntax tree, file and the number of the line before it."""
        if self._tree is None:
            code = self.function.__code__
            try:
                lines, first = _lines(self.function), code.co_firstlineno
                tree = _parsed(lines)
            except (SyntaxError, IndexError):
                import inspect

                lines, first = inspect.getsourcelines(self.function)
                tree = _parsed(lines)
            self._tree = (tree, code.co_filename, first - 1)
        return self._tree

    def assigned(self) -> set[str]:
        """The names that it assigns."""
        if self._assigned is None:
            import ast

            self._assigned = {
                node.id
                for node in ast.walk(self.tree()[0])
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
        return self._assigned


def _parsed(lines: list[str]) -> Any:
    """The syntax tree of a function's lines.

    No garbage is collected meanwhile: a finalizer that reads a kernel itself makes CPython 3.11 raise SystemError
    here, as it counts the depth of trees in one place for all.
    """
    import ast
    import textwrap

    from rushlight.core.collector import paused

    with paused():
        return ast.parse(textwrap.dedent("".join(lines))).body[0]


def _lines(function: Callable) -> list[str]:
    """A function's text, as `inspect.getsourcelines` finds it in three times the time, by tokens.

    It ends before the next line that is indented no more than its `def`. IndexError where there is
    no text; what is cut short, within a string, does not parse.
    """
    import linecache

    lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
    first = function.__code__.co_firstlineno - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    head = first
    while not lines[head].startswith("def ", indent):
        head += 1  # decorators
    end = head + 1
    while end < len(lines):
        text = lines[end].lstrip()
        if text and len(lines[end]) - len(text) <= indent and text[0] not in "#)]}":
            break
        end += 1
    return lines[first:end]


def inline(function: Callable | None = None) -> Any:
    """A function that is written out where it is called; it may return several values, at its end.

    Parameters take what they are given: numbers or vectors of any type, pointers, known values.
    """
    return Source(function, "inline function", "")


def routine(
    function: Callable | None = None, *, fast: str = "", separate: bool = False, quick: bool = False
) -> Any:
    """A function that kernels call; parameters that are given known values are known in it.

    One that is `separate` is compiled by itself, once for all kernels that call it with the same known
    values: for routines that take long to compile. What it returns is annotated: `-> T`. Of one
    that is separate, `quick` is as for kernels.
    """
    if function is None:
        return lambda function: Source(function, "routine", fast, separate, quick)
    return Source(function, "routine", fast, separate, quick)


# What `from rushlight._codegen.language import *` gives a file of kernels.
__all__ = ["NEAR", "external", "inline", "routine"]
__all__ += [name for name, value in list(globals().items()) if isinstance(value, Word)]
