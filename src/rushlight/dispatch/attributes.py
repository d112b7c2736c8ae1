"""Properties of tensors whose getters are native, once machine code is active."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import cpu, llvm
from rushlight.autograd.graph import AccumulateGrad
from rushlight.autograd.views import View
from rushlight.core import dtypes
from rushlight.core.device import CPU
from rushlight.core.dtype_sets import F32
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, _wrap

# What the entries of `_codegen/kernels/attributes.py` read beside the tensor.
VALUES: dict[str, tuple[Any, ...]] = {
    "shape": (Size,), "dtype": (dtypes.OF, F32, dtypes.float32), "device": (CPU,), "ndim": (),
    "requires_grad": (None, False, True, View), "_strides": (), "_address": (), "_offset": (),
    "_row_major": (False, True),
}  # fmt: skip


def install() -> None:
    """Put native getters into the properties of `Tensor`, which stay the objects that they are."""
    if not llvm.active:
        return
    from rushlight._codegen.call_entry import bind_getter
    from rushlight._codegen.kernel import addresses
    from rushlight._codegen.kernels import attributes
    from rushlight._codegen.runtime import abi

    t = _wrap(cpu.zeros(1))
    t._edge = AccumulateGrad(t)
    slots = abi.slot(t, t._array), abi.slot(t, t._edge)
    if 0 in slots or not abi.available():
        return
    made = addresses(*(getattr(attributes, name) for name in VALUES))
    for (name, values), address in zip(VALUES.items(), made, strict=True):
        held = vars(Tensor)[name]
        getter = bind_getter(name, address, slots, (Tensor, np.ndarray, held.fget, *values))
        property.__init__(held, getter, held.fset, held.fdel, held.__doc__)
        held.__set_name__(Tensor, name)  # which errors say
        setattr(Tensor, name, held)  # so that Python forgets what it knew of the getter
