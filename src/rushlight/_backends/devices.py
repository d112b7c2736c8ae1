"""Which back end computes on an array, and which one makes the arrays of a device.

Note [Devices]
    A back end is a namespace of kernels (`protocol/`). It is chosen by the class of the arrays:
    `of(array)` returns the kernels for an array, `for_device(device)` those that make arrays on a
    device. Above the back ends nothing else tells one device from another.

    `cpu` computes on `numpy.ndarray` and its subclasses (sparse arrays are the CPU's too: what knows
    about them is asked before kernels are), `meta` on shapes. `register` adds another one,
    which needs what `protocol/` states of arrays and kernels. A kernel takes arrays of its own class, and
    numbers: Python's, NumPy's, and 0-d NumPy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.compose import Composed
from rushlight.core import device as devices
from rushlight.core import modes

if TYPE_CHECKING:
    from collections.abc import Sequence

_of_class: dict[type, Any] = {}  # class of arrays -> kernels
_of_type: dict[str, Any] = {}  # device type -> kernels
tensor_class: type  # set by `core/tensor.py`; an item of an index may be a tensor


def register(type: str, kernels: Any, *classes: type) -> None:
    """Let `kernels` compute on arrays of `classes`, and make the arrays of a device type.

    Kernels that it lacks are composed of others where `compose.py` can. `type` is a name that `torch.device` knows; see `torch.utils.rename_privateuse1_backend`.
    """
    if not _of_type:
        _register_own()
    devices.available.add(devices.device(type).type)
    kernels = Composed(kernels)
    _of_type[type] = kernels
    for cls in classes:
        _of_class[cls] = kernels


def add_class(cls: type, kernels: Any) -> None:
    """Let `kernels` answer for arrays of `cls`, which are on no device of their own."""
    if not _of_type:
        _register_own()
    _of_class[cls] = kernels


def _register_own() -> None:
    from rushlight._backends import cpu, meta, sparse

    _of_type.update(cpu=cpu, meta=meta)
    _of_class.update({np.ndarray: cpu, meta.Meta: meta, sparse.Sparse: cpu})


def of(array: Any) -> Any:
    """The kernels of the back end that computes on `array`; TypeError when it is no array."""
    kernels = _of_class.get(array.__class__) or _inherited(array.__class__)
    if kernels is None:
        raise TypeError(f"no back end computes on {array.__class__.__name__!r} objects")
    return kernels


def _inherited(cls: type) -> Any:
    """The kernels for a class of arrays by its bases, or None."""
    if cls in _of_class:
        return _of_class[cls]
    if not _of_type:
        _register_own()
    found = next((_of_class[base] for base in cls.__mro__ if _of_class.get(base)), None)
    _of_class[cls] = found
    return found


def is_array(x: Any) -> bool:
    """Whether a back end computes on `x`."""
    cls = x.__class__
    return (_of_class[cls] if cls in _of_class else _inherited(cls)) is not None


def for_device(device: Any = None) -> Any:
    """The kernels that make arrays on `device` (None: the default device of this thread).

    AssertionError for a device without a back end, RuntimeError for a name of none.
    """
    if device is None:
        device = modes.thread.device
    elif device.__class__ is not devices.device:
        device = devices.device(device)
    if not _of_type:
        _register_own()
    if device is None:
        return _of_type["cpu"]
    return _of_type[devices.check_available(device).type]


def like(array: Any, device: Any) -> Any:
    """The kernels that make arrays on `device`, or where `array` is when that is None."""
    return of(array) if device is None else for_device(device)


def common(arrays: Sequence, lenient: bool = False) -> Any:
    """The kernels for all of `arrays` (None stands for no array): those of the first device that is not the CPU.

    RuntimeError for two devices; with `lenient` an array without dimensions on the CPU is no second one.
    """
    given = [a for a in arrays if a is not None]
    if not given:
        return for_device("cpu")
    cpu = for_device("cpu")
    first = next((a for a in given if of(a) is not cpu), given[0])
    kernels = of(first)
    for a in given:
        own = of(a)
        if own is not kernels and not (own is cpu and lenient and not a.ndim):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{kernels.device_of(first)} and {own.device_of(a)}!"
            )
    return kernels
