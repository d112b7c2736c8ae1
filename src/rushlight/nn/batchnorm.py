"""Batch normalisation: mean and variance of each channel over the batch."""

from __future__ import annotations

import sys
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.lazy import LazyModule
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Module):
    """The base of batch and instance normalisation: scale, shift and running statistics."""

    _version = 2  # 1 had no num_batches_tracked
    _dims: tuple[int, ...] | None = None  # how many dimensions the input may have
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = Parameter(rushlight.empty(num_features, **factory_kwargs))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(rushlight.empty(num_features, **factory_kwargs))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", rushlight.zeros(num_features, **factory_kwargs))
            self.register_buffer("running_var", rushlight.ones(num_features, **factory_kwargs))
            count = rushlight.tensor(0, dtype=rushlight.long, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset scale to 1, shift to 0, and the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if self._dims is None:
            raise NotImplementedError
        if input.dim() not in self._dims:
            expected = " or ".join(f"{d}D" for d in self._dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            own = self.num_batches_tracked
            known = own is not None and own.device.type != "meta"
            state_dict[key] = own if known else rushlight.tensor(0, dtype=rushlight.long)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean over all batches, not a moving one
                factor = 1.0 / float(self.num_batches_tracked)
        tracked = not self.training or self.track_running_stats
        no_stats = self.running_mean is None and self.running_var is None
        return self._normalized(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.training or no_stats,
            factor,
        )

    def _normalized(
        self, input: Tensor, mean: Any, variance: Any, training: bool, factor: float
    ) -> Tensor:
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, training, factor, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of each channel: (x - mean) / sqrt(var + eps) * weight + bias (Ioffe and Szegedy 2015).

    input: [N, C] or [N, C, L]. In evaluation the running mean and variance are used.
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [N, C, H, W], per channel.

    >>> import rushlight as torch
    >>> torch.nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of [N, C, D, H, W] for each channel."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; BatchNorm without a process group."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _normalized(
        self, input: Tensor, mean: Any, variance: Any, training: bool, factor: float
    ) -> Tensor:
        groups = sys.modules.get("rushlight.distributed.groups")
        if not training or groups is None or not groups.is_initialized():
            return super()._normalized(input, mean, variance, training, factor)
        from rushlight.distributed.batch_norm import batch_norm

        group = self.process_group or groups.group.WORLD
        return batch_norm(input, mean, variance, self.weight, self.bias, factor, self.eps, group)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every BatchNorm replaced by a SyncBatchNorm of the same state."""
        changed: Any = module
        if isinstance(module, _BatchNorm):
            changed = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            if module.affine:
                changed.weight = module.weight
                changed.bias = module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(changed, name, getattr(module, name))
            changed.training = module.training
        for name, child in module.named_children():
            changed.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return changed


class _LazyNorm(LazyModule):
    """Takes `num_features` from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # Made without parameters and statistics; these follow, waiting for their sizes.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        factory_kwargs = {"device": device, "dtype": dtype}
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**factory_kwargs)
            if bias:
                self.bias = UninitializedParameter(**factory_kwargs)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**factory_kwargs)
            self.running_var = UninitializedBuffer(**factory_kwargs)
            self.num_batches_tracked = rushlight.tensor(0, dtype=rushlight.long, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and statistics their size and values."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm3d
