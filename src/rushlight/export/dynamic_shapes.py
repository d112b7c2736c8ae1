"""Dimensions that may have other sizes: `Dim`, and what a graph computes from them.

Note [Sizes by comparison]
    Sizes are plain numbers here. A program with dynamic dimensions is recorded several times, with other sizes
    each time. The graphs must be the same but for numbers; a number that differs is an expression of the dynamic
    sizes that gives it in all of them (`fit`). A graph that differs otherwise depends on the sizes, and is refused.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from rushlight.core.stub import declare
from rushlight.export.errors import refuse
from rushlight.export.shapes_collection import ShapesCollection  # PyTorch has it here

__all__ = ["Dim", "DimHint", "ShapesCollection", "dims"]


class DimHint:
    """`Dim.AUTO`, `Dim.DYNAMIC` and `Dim.STATIC`: what a dimension without a name is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DimHint({self.name})"


class Dim:
    """A dimension that may have any size from `min` to `max`; the same object means the same size.

    >>> batch = Dim("batch", max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=0, max=64), Dim('2*batch + 1'))
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim name must be a valid identifier, got {name}")
        self.min, self.max = 0 if min is None else min, max
        if self.max is not None and self.max <= self.min:
            raise AssertionError(
                f"Cannot create Dim with inconsistent min={self.min}, max={self.max}"
            )
        self.__name__, self.root, self.factor, self.offset = name, self, 1, 0

    def _derived(self, factor: int, offset: int) -> Dim:
        made = object.__new__(Dim)
        made.root, made.factor, made.offset = self.root, factor, offset
        text = self.root.__name__ if factor == 1 else f"{factor}*{self.root.__name__}"
        made.__name__ = text + (f" + {offset}" if offset > 0 else f" - {-offset}" if offset else "")
        made.min = factor * self.root.min + offset
        made.max = None if self.root.max is None else factor * self.root.max + offset
        return made

    def __mul__(self, k: int) -> Dim:
        if type(k) is not int or k <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {self.__name__} with {k}, where a positive integer was expected."
            )
        return self._derived(self.factor * k, self.offset * k)

    __rmul__ = __mul__

    def __add__(self, k: int) -> Dim:
        if type(k) is not int:
            raise NotImplementedError(
                f"Attempted to add {k} to {self.__name__}, where an integer was expected."
            )
        return self._derived(self.factor, self.offset + k)

    __radd__ = __add__

    def __sub__(self, k: int) -> Dim:
        return self + -k

    def size(self, root: int) -> int:
        """The size for one of the root."""
        return self.factor * root + self.offset

    def __repr__(self) -> str:
        if self.root is not self:
            return f"Dim('{self.__name__}')"
        return f"Dim('{self.__name__}', min={self.min}" + (
            f", max={self.max})" if self.max is not None else ")"
        )


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dimensions with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def assigned(shapes: Any, path: tuple, ndim: int, where: str) -> dict[int, Any]:
    """{dimension: Dim or hint} that `dynamic_shapes` says of the tensor at a path of the arguments."""
    for at, key in enumerate(path):
        if shapes is None:
            return {}
        if isinstance(shapes, dict):
            if key not in shapes:
                if at == 0:
                    refuse(
                        f"dynamic_shapes has no entry for the argument {key!r}; it has {list(shapes)}",
                        "",
                    )
                return {}
            shapes = shapes[key]
        elif isinstance(shapes, (tuple, list)):
            if not isinstance(key, int) or key >= len(shapes):
                refuse(f"dynamic_shapes: no entry for {where}", "")
            shapes = shapes[key]
    if shapes is None:
        return {}
    found = shapes.items() if isinstance(shapes, dict) else enumerate(shapes)
    kept: dict[int, Any] = {}
    for d, dim in found:
        if dim is None or dim is Dim.STATIC or isinstance(dim, int):
            continue
        if not isinstance(dim, (Dim, DimHint)):
            refuse(f"dynamic_shapes: unexpected {dim!r} for dimension {d} of {where}", "")
        if not -ndim <= d < ndim:
            refuse(f"dynamic_shapes: {where} has {ndim} dimensions, not a dimension {d}", "")
        kept[d % ndim] = dim
    return kept


# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expression:
    """`(factor * product of symbols + offset) // divisor`, or a power of that for a float."""

    symbols: tuple[str, ...]
    factor: int = 1
    offset: int = 0
    divisor: int = 1
    power: float | None = None


def fit(values: list, sizes: dict[str, list[int]]) -> Expression | None:
    """An expression of sizes that has these values, one for each trace; None if none is found."""
    names = list(sizes)
    products = [(n,) for n in names]
    for count in (2, 3):
        products += itertools.combinations_with_replacement(names, count)
    terms = [(p, [math.prod(each) for each in zip(*(sizes[n] for n in p))]) for p in products]
    if any(type(v) is float for v in values):
        for power in (0.5, -0.5, -1.0, 1.0, -2.0, 2.0):
            for p, t in terms:
                if [x**power for x in t] == values:
                    return Expression(p, power=power)
        return None
    affine = []
    for p, t in terms:
        rise = t[1] - t[0]
        factor, rest = divmod(values[1] - values[0], rise) if rise else (0, 1)
        if rest or not factor:
            continue
        offset = values[0] - factor * t[0]
        if [factor * x + offset for x in t] == values:
            affine.append(Expression(p, factor, offset))
    if affine:
        return min(
            affine, key=lambda e: (e.offset != 0, len(e.symbols), abs(e.factor), abs(e.offset))
        )
    for divisor in range(2, 129):
        for p, t in terms[: len(names)]:
            for offset in (0, *range(-1, -divisor, -1), *range(1, divisor)):
                if [(x + offset) // divisor for x in t] == values:
                    return Expression(p, 1, offset, divisor)
    return None


declare(
    "no-op", "Sizes are found by comparison, without asserts.", "torch.export",
    "export(prefer_deferred_runtime_asserts_over_guards=)",
)  # fmt: skip
declare(
    "no-op", "There is one format of files.", "torch.export",
    "save(opset_version=) save(pickle_protocol=) load(expected_opset_version=)",
)  # fmt: skip
declare("emulated", "It is dynamic, or static where that fails.", "torch.export", "Dim.AUTO")
