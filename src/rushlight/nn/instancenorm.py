"""Instance normalisation: mean and variance of each channel of each sample."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.batchnorm import _LazyNorm, _NormBase

__all__ = [f"{lazy}InstanceNorm{n}d" for lazy in ("", "Lazy") for n in (1, 2, 3)]


class _InstanceNorm(_NormBase):
    _n = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        return self._n + 1

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.size(-self._n - 1)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={input.dim() - self._n - 1} to match "
                    f"num_features ({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={input.dim() - self._n - 1} does not match num_features. "
                "You can silence this warning by not passing in num_features, which is not used "
                "because affine=False",
                stacklevel=3,
            )
        if input.dim() == self._get_no_batch_dim():
            return self._normalise(input.unsqueeze(0)).squeeze(0)
        return self._normalise(input)

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        # Before version 2 statistics were saved even where they were not tracked.
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [
                prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict
            ]
            if found:
                names = " and ".join(f'"{key}"' for key in found)
                rest[-1].append(  # the error messages
                    f"Unexpected running stats buffer(s) {names} for "
                    f"{type(self).__name__} with track_running_stats=False. If state_dict is a "
                    "checkpoint saved before 0.4.0, this may be expected because "
                    f"{type(self).__name__} does not track running stats by default since 0.4.0. "
                    "Please remove these keys from state_dict."
                )
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class InstanceNorm1d(_InstanceNorm):
    """Normalisation of each channel of each sample of [N, C, L] or [C, L] (Ulyanov 2016)."""

    _n, _dims = 1, (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalisation of each channel of each sample of [N, C, H, W] or [C, H, W] (Ulyanov 2016)."""

    _n, _dims = 2, (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalisation of each channel of each sample of [N, C, D, H, W] or [C, D, H, W]."""

    _n, _dims = 3, (4, 5)


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An InstanceNorm1d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An InstanceNorm2d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An InstanceNorm3d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
