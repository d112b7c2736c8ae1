"""`torch.autograd.Variable`, the name of tensors with gradients before PyTorch 0.4."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.autograd.state import queue_callback
from rushlight.core.tensor import Tensor


class VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Engine:
    """What runs backwards."""

    queue_callback = staticmethod(queue_callback)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad)` is the tensor's data as a tensor of its own.

    >>> import rushlight as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> isinstance(x, torch.Tensor), isinstance(x, torch.autograd.Variable), x.requires_grad
    (True, True, True)
    """

    _execution_engine = Engine()

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False
    ) -> Any:
        from rushlight.ops.factories.construct import tensor

        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        own = tensor([]) if data is None else data.data
        return own._set_requires_grad(True) if requires_grad else own
