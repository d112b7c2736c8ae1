"""Forward mode: tensors that carry a tangent, and the tangent of what is computed from them.

>>> import rushlight as torch
>>> import rushlight.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
...     fwAD.unpack_dual(x * x).tangent
tensor([2., 0.])

Note [Tangents by two backwards]
    Calls inside of a level are recorded as usual. The tangent of a result is computed from its graph:
    the vector-Jacobian product is linear in the vector u, and its gradient by u, weighted with the
    tangents of the inputs, is the Jacobian times the tangents. So every operator with a second
    derivative has a forward mode; each `unpack_dual` costs two backward passes.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from rushlight.autograd.engine import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.core.dtypes import promote_types
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip

_level: list[list[tuple[Tensor, Tensor]]] = []  # the duals of the open level and their tangents


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open the level. RuntimeError if it is open: there is only one."""
    if _level:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: a dual level is open already"
        )
    _level.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level and forget its tangents."""
    if not _level:
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    _level.pop()


class dual_level:
    """A block in which tensors may carry tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        exit_dual_level()


@stub("emulated", "Each tangent that is asked for costs two backward passes.")
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with a tangent of its shape. RuntimeError outside of a `dual_level`."""
    if not _level:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
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
    with enable_grad():
        dual = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    _level[-1].append((dual, tangent))
    return dual


@stub("emulated", "Each tangent that is asked for costs two backward passes.")
def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(value, tangent) of a tensor; the tangent is None if the tensor depends on no dual."""
    if not _level or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in _level[-1]:
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    duals = [d for d, _ in _level[-1]]
    with enable_grad():
        u: Any = tensor.new_zeros(tensor.shape).requires_grad_()
        products = grad(
            [tensor], duals, [u], retain_graph=True, create_graph=True, allow_unused=True
        )
        found = [(p, t) for p, (_, t) in zip(products, _level[-1], strict=True) if p is not None]
        if not found:
            return UnpackedDualTensor(tensor, None)
        linear = [(p, t) for p, t in found if p.requires_grad]
        tangent = None
        if linear:
            (tangent,) = grad(
                [p for p, _ in linear], [u], [t for _, t in linear], retain_graph=True,
                allow_unused=True,
            )  # fmt: skip
    if tangent is None:
        tangent = tensor.new_zeros(tensor.shape)
    for _, t in found:  # a tangent has a dtype of its own
        tangent = tangent.to(promote_types(tangent.dtype, t.dtype))
    return UnpackedDualTensor(tensor.detach(), tangent)
