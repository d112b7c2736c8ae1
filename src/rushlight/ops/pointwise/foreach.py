"""`torch._foreach_add_(params, updates, alpha=-lr)`: one operator over lists of tensors, as optimizers write it.

Each function here is the operator of that name for the first tensors of all lists, then the second
ones... What is no list (a number, a tensor) serves all.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.state import active, thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import overrides
from rushlight.dispatch.registry import public

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
_SEVERAL = "add sub mul div pow lerp addcmul addcdiv maximum minimum clamp_min clamp_max".split()


def each(name: str, self: Any, others: tuple, kwargs: dict[str, Any]) -> list[tuple]:
    """(first argument, others, keywords) of every call."""
    lists = [a for a in (self, *others) if isinstance(a, (list, tuple))]
    n = len(lists[0]) if lists else 0
    if not n:
        raise RuntimeError(f"_foreach_{name}(): Tensor list must have at least one tensor.")
    for other in lists:
        if len(other) != n:
            raise RuntimeError(
                f"_foreach_{name}(): Tensor lists must have the same number of tensors, got {n} and "
                f"{len(other)}"
            )

    def pick(a: Any, i: int) -> Any:
        return a[i] if isinstance(a, (list, tuple)) else a

    return [(pick(self, i), [pick(a, i) for a in others], kwargs) for i in range(n)]


def bound(name: str, x: Tensor, limit: Any, inplace: bool) -> Any:
    """`maximum` and its kin, of a tensor and a number too."""
    side = "min" if name in ("maximum", "clamp_min") else "max"
    return (x.clamp_ if inplace else x.clamp)(**{side: limit})


def apply(name: str, x: Any, others: list, kwargs: dict[str, Any], inplace: bool) -> Any:
    import rushlight as torch

    if name in ("maximum", "minimum", "clamp_min", "clamp_max"):
        return bound(name, x, others[0], inplace)
    if name in ("addcmul", "addcdiv") and len(others) == 3:
        *others, value = others
        kwargs = {"value": value.item() if isinstance(value, Tensor) else value}
    if not isinstance(x, Tensor):  # _foreach_pow(2, exponents)
        return getattr(torch, name)(x, *others)
    return getattr(x, name + "_" * inplace)(*others, **kwargs)


def declare(name: str, inplace: bool) -> None:
    meaning = f"`{name}` of every tensor of a list{', in place' if inplace else ''}."

    @public(name=f"_foreach_{name}" + "_" * inplace, doc=meaning)
    def function(self: Any, *others: Any, **kwargs: Any) -> Any:
        if active.modes and thread.function_modes:
            got = overrides.call_overrides(function, (self, *others), kwargs)
            if got is not overrides.NOTHING:
                return got
        if name in ("addcmul", "addcdiv") and "scalars" in kwargs:
            others = (*others, kwargs.pop("scalars"))
        if name in ("addcmul", "addcdiv") and len(others) == 3 and isinstance(others[2], Tensor):
            others = (*others[:2], others[2].tolist())  # one number for each of the calls
        calls = each(name, self, others, kwargs)
        made = tuple(apply(name, x, rest, keywords, inplace) for x, rest, keywords in calls)
        return self if inplace else made


for _name in (*_UNARY, *_SEVERAL):
    declare(_name, False)
    declare(_name, True)


@public()
def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor of a list.

    >>> import rushlight as torch
    >>> torch._foreach_norm([torch.tensor([3.0, 4.0]), torch.ones(4)])
    (tensor(5.), tensor(2.))
    """
    import rushlight as torch

    return tuple(torch.linalg.vector_norm(x, ord, dtype=dtype) for x in self)


@public()
def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The greatest element of each tensor of a list."""
    return tuple(x.max() for x in self)


@public()
def _foreach_clone(self: Any) -> tuple[Tensor, ...]:
    """A copy of each tensor of a list."""
    return tuple(x.clone() for x in self)


@public()
def _foreach_zero_(self: Any) -> None:
    """Fill every tensor of a list with zeros."""
    for x in self:
        x.zero_()


@public()
def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy every tensor of `src` into the one of `self` at its place."""
    for x, (source,), _ in each("copy_", self, (src,), {}):
        x.copy_(source)
    return self
