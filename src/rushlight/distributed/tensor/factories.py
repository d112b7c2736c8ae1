"""Functions that make spread tensors: `zeros`, `ones`, `empty`, `full`, `rand`, `randn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.distributed.device_mesh import DeviceMesh, current_mesh
from rushlight.distributed.tensor.api import DTensor
from rushlight.distributed.tensor.placement_types import Partial, Placement
from rushlight.distributed.tensor.random import drawn
from rushlight.distributed.tensor.spec import DTensorSpec, normalized

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]

Placements = Sequence[Placement] | None


def _made(
    make: Callable[..., Tensor], size: tuple, dtype: Any, mesh: DeviceMesh | None, placements: Placements,
    requires_grad: bool, random: bool = False,
) -> DTensor:  # fmt: skip
    """The spread tensor of which each process makes its part."""
    mesh = mesh or current_mesh()
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    placed = normalized(placements, mesh, len(size))
    if any(isinstance(p, Partial) for p in placed):
        raise ValueError("a tensor cannot be made as Partial")
    dtype = dtype or rushlight.get_default_dtype()
    spec = DTensorSpec(mesh, placed, size, geometry.contiguous_strides(size), dtype)
    if random:
        local = drawn(lambda: make(size, dtype=dtype), spec)
    else:
        local = make(spec.local_shape(), dtype=dtype)
    return DTensor(local, spec, requires_grad=requires_grad)


def zeros(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = rushlight.strided,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """Zeros."""
    return _made(rushlight.zeros, size, dtype, device_mesh, placements, requires_grad)


def ones(
    *size: Any, dtype: Any = None, layout: Any = rushlight.strided, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """Ones."""
    return _made(rushlight.ones, size, dtype, device_mesh, placements, requires_grad)


def empty(
    *size: Any, dtype: Any = None, layout: Any = rushlight.strided, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """Memory that nothing was written to."""
    return _made(rushlight.empty, size, dtype, device_mesh, placements, requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = rushlight.strided, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """One number everywhere."""
    if dtype is None:
        dtype = rushlight.full((), fill_value).dtype

    def make(size: tuple, dtype: Any) -> Tensor:
        return rushlight.full(size, fill_value, dtype=dtype)

    return _made(make, (tuple(size),), dtype, device_mesh, placements, requires_grad)


def rand(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = rushlight.strided,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """Random numbers between 0 and 1."""
    return _made(rushlight.rand, size, dtype, device_mesh, placements, requires_grad, random=True)


def randn(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = rushlight.strided,
    device_mesh: DeviceMesh | None = None, placements: Placements = None,
) -> DTensor:  # fmt: skip
    """Random numbers of the normal distribution."""
    return _made(rushlight.randn, size, dtype, device_mesh, placements, requires_grad, random=True)
