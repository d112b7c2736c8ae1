"""The cross entropy of a linear layer's outputs, as one module."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]

_METHODS = ("auto", "aspect_ratio")
_POLICIES = ("accurate", "balanced", "compact", "auto")


@stub("no-op", "The whole batch is computed at once: options are checked and kept.")
class LinearCrossEntropyOptions:
    """Options for splitting the batch of a linear cross entropy; they are checked and stored, not used.

    >>> import rushlight as torch
    >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2).batch_chunk_size
    2
    """

    _fields = "allow_retain_graph batch_chunk_size chunking_method acc_policy acc_dtype".split()

    def __init__(
        self,
        allow_retain_graph: bool = False,
        batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto",
        acc_policy: str = "auto",
        acc_dtype: Any = None,
    ) -> None:
        if batch_chunk_size is not None and (
            not isinstance(batch_chunk_size, int) or batch_chunk_size <= 0
        ):
            raise ValueError(
                f"batch_chunk_size must be positive int or None, got {batch_chunk_size}"
            )
        if chunking_method is not None and chunking_method.split(":")[0] not in _METHODS:
            raise ValueError(f"invalid chunking_method: {chunking_method!r}")
        if acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {acc_policy!r}")
        values = (allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)
        self.__dict__.update(zip(self._fields, values, strict=True))

    def __setattr__(self, name: str, value: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _values(self) -> tuple:
        return tuple(self.__dict__[n] for n in self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearCrossEntropyOptions):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        parts = (f"{n}={v!r}" for n, v in zip(self._fields, self._values(), strict=True))
        return f"{type(self).__name__}({', '.join(parts)})"


class LinearCrossEntropyLoss(Module):
    """cross_entropy(linear(input), target), with the linear layer's weight as a parameter.

    input: [N, in_features] or [in_features]; target: class numbers [N, *out_features], or
    probabilities [N, num_classes, *out_features]. The weight is kept flat, [num_classes *
    prod(out_features), in_features].
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        self.reduction = reduction
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        rows = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, -1),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
