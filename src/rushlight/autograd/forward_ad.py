"""Forward mode: tensors that carry a tangent, and the tangent of what is computed from them.

>>> import rushlight as torch
>>> import rushlight.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
...     fwAD.unpack_dual(x * x).tangent
tensor([2., 0.])

How tangents come about: Note [Tangents] in dispatch/dual.py.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from rushlight.autograd.grad_mode import no_grad
from rushlight.autograd.state import thread
from rushlight.core.dtypes import strided
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dual import Dual, bare, tangent_of
from rushlight.dispatch.overrides import is_lifted
from rushlight.dispatch.transforms import Level, follow

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip

_level: list[Level] = []  # the open one
_current_level = -1  # its number, 0; -1 while none is open


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open the level. RuntimeError if it is open: there is only one."""
    global _current_level
    if _level:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: a dual level is open already"
        )
    level = Level(Dual)
    level.functional, level.history = False, True  # programs may record what they like
    level.__enter__()
    _level.append(level)
    _current_level = 0
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level and forget its tangents."""
    global _current_level
    if not _level:
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    _level.pop().__exit__()
    _current_level = -1


class dual_level:
    """A block in which tensors may carry tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        exit_dual_level()


def _is_fwd_grad_enabled() -> bool:
    """Whether what is computed has tangents."""
    return thread.tangents


class _set_fwd_grad_enabled:
    """A block in which what is computed has tangents, or has none."""

    def __init__(self, mode: bool) -> None:
        self.before, thread.tangents = thread.tangents, mode

    def __enter__(self) -> None:
        """Nothing: it is set already."""

    def __exit__(self, *exc: object) -> None:
        thread.tangents = self.before


def check_tangent(tensor: Tensor, tangent: Tensor) -> None:
    """ValueError unless both have floating point or complex numbers, RuntimeError unless the tangent is like the tensor."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(
            f"Expected primal to be floating point or complex, but got: {tensor.dtype}"
        )
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
            f"not supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if tensor.is_complex() != tangent.is_complex():
        raise RuntimeError(
            "make_dual(): the tangent must be complex where the tensor is, got "
            f"{tangent.dtype} for {tensor.dtype}"
        )


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with a tangent of its shape. RuntimeError outside of a `dual_level`."""
    if not _level:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    check_tangent(tensor, tangent)
    if tangent_of(tensor, _level[-1]) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
        )
    if tangent_of(tangent, _level[-1]) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    dual = tensor.view_as(tensor)
    dual._array = Dual(dual._array, in_layout_of(tensor, tangent), _level[-1])
    return dual


def in_layout_of(tensor: Tensor, tangent: Tensor) -> Tensor:
    """The tangent where its memory is laid out as that of the tensor, so that views of both are the same, else a copy that is."""
    apart = is_lifted(tensor) or is_lifted(tangent) or tensor.layout is not strided
    if apart or not tensor.numel():
        return tangent
    layouts = []
    for t in (tensor, tangent):
        size = t.untyped_storage().nbytes() // t.itemsize
        steps = [step for n, step in zip(t.shape, t.stride(), strict=True) if n > 1]
        layouts.append((steps, t.storage_offset(), size, t.is_conj(), t.is_neg()))
    if layouts[0] == layouts[1]:
        return tangent
    _, offset, size, conjugate, _ = layouts[0]
    with no_grad():
        copy = tensor.new_zeros(size).as_strided(tensor.shape, tensor.stride(), offset)
        copy = (copy.conj() if conjugate else copy).detach()
    return copy.copy_(tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(value, tangent) of a tensor; the tangent is None if the tensor depends on no dual."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    if not _level:
        return UnpackedDualTensor(tensor, None)
    follow((tensor,))
    tangent = tangent_of(tensor, _level[-1])
    if not isinstance(tensor._array, Dual):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(bare(tensor, _level[-1]), tangent)
