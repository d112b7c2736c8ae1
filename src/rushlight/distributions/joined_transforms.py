"""Transforms of the parts of a tensor: `CatTransform` and `StackTransform`."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transform import Transform
from rushlight.distributions.utils import _sum_rightmost


def _checked(tseq: Any, cache_size: int) -> list[Transform]:
    if not all(isinstance(t, Transform) for t in tseq):
        raise AssertionError("All elements of tseq must be Transform instances")
    return [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)


class _Joined(Transform):
    """The base of both: a subclass says how to cut a tensor and how to join the parts."""

    transforms: list[Transform]
    dim: int
    _join: Any

    def _slices(self, name: str, x: Tensor) -> Any:
        """The part of `x` for each transform, in order; the two subclasses cut in different ways."""
        raise NotImplementedError

    def _in_range(self, name: str, x: Tensor) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(
                f"dim {self.dim} is out of range for a {x.dim()}-dimensional {name}"
            )

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices("x", x), strict=True)
        return self._join([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices("y", y), strict=True)
        return self._join([t.inv(part) for t, part in parts], self.dim)

    bijective = property(lambda self: all(t.bijective for t in self.transforms))


class CatTransform(_Joined):
    """Transforms side by side: number i acts on the next `lengths[i]` entries along `dim`."""

    _settings, _join = ("transforms", "dim", "lengths"), staticmethod(rushlight.cat)

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        self.transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths must have same length as tseq, got {len(self.lengths)} vs "
                f"{len(self.transforms)}"
            )
        self.dim = dim

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))

    @property
    def length(self) -> int:
        """The size along `dim`."""
        return sum(self.lengths)

    def _slices(self, name: str, x: Tensor) -> list[Tensor]:
        self._in_range(name, x)
        if x.size(self.dim) != self.length:
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal length {self.length}"
            )
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [x.narrow(self.dim, s, n) for s, n in zip(starts, self.lengths, strict=True)]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs = []
        parts = zip(self.transforms, self._slices("x", x), self._slices("y", y), strict=True)
        for t, a, b in parts:
            here = t.log_abs_det_jacobian(a, b)
            if t.event_dim < self.event_dim:
                here = _sum_rightmost(here, self.event_dim - t.event_dim)
            logs.append(here)
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return rushlight.cat(logs, dim=dim)
        total = logs[0]
        for here in logs[1:]:
            total = total + here
        return total

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """One transform for each slice along `dim`."""

    _settings, _join = ("transforms", "dim"), staticmethod(rushlight.stack)

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        self.transforms = _checked(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.dim = dim

    def _slices(self, name: str, x: Tensor) -> Any:
        self._in_range(name, x)
        if x.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal the number of transforms "
                f"{len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices("x", x), self._slices("y", y), strict=True)
        return rushlight.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
