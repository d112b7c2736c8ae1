"""Copies: `clone`, `copy_`, conversion of dtype and device."""

from __future__ import annotations

import numpy as np

from rushlight import dtypes
from rushlight.autograd.graph import new
from rushlight.autograd.state import thread
from rushlight.autograd.views import edge_of, rebase
from rushlight.ops import calls, overrides
from rushlight.ops.registry import Array, op, public
from rushlight.tensor import Tensor


@op()
def clone(xp, input: Array, *, memory_format: MemoryFormat = None):
    """A copy, recorded: gradients go through it."""
    return input.copy(order="K")


clone.grad(input=lambda g: g)


@op(where="Tensor", name="copy", node="CopyBackwards", method=False)
def copy_into(xp, input: Array, src: Array):
    """The forward of `copy_`: the values of `src` in the shape of `input`."""
    return src if src.shape == input.shape else np.broadcast_to(src, input.shape)


copy_into.grad(
    input=lambda g: g.new_zeros(g.shape),
    src=lambda g, src_shape, src_dtype: calls.fit((g,), ((src_shape, src_dtype.np),))[0],
)


@public("Tensor")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor's values by those of `src`, which is broadcast and converted."""
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {calls.kind(src)}")
    if self._array.__class__ is overrides.Tagged or src._array.__class__ is overrides.Tagged:
        got = overrides.dispatch(Tensor.copy_, copy_into, [self, src], None)
        if got is not overrides.NOTHING:
            return got
    if self is src:
        return self
    recording = thread.grad and (edge_of(self) is not None or edge_of(src) is not None)
    calls.check_inplace(self, "copy_", recording)
    a, b = self._array, src._array
    if a.shape != b.shape:
        try:
            b = np.broadcast_to(b, a.shape)
        except ValueError:
            raise RuntimeError(
                f"[copy_] output with shape {list(a.shape)} doesn't match the broadcast shape: "
                f"the source has shape {list(b.shape)}"
            ) from None
    if a.dtype.kind != "c" and b.dtype.kind == "c":
        b = b.real
    calls.write(self, b)
    if recording:
        before = new(Tensor)
        before._array, before._edge, before._counter = a, calls.edge_before(self), None
        node = calls.make_node(copy_into, {"input": before, "src": src}, [self], inplace=True)
        rebase(self, node)
    return self


@public("Tensor")
def to(self: Tensor, dtype: dtypes.dtype) -> Tensor:
    return self


