"""What operators of ATen do that take other arguments than the public functions of their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.dispatch.aten_forms import loaded, torch

__all__ = ["DISTANCE_MODES", "cdist", "fractional_max_pool", "max_unpool", "short_time_transform"]

# The ways to compute distances, by the number that the operator takes.
DISTANCE_MODES = (
    "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"
)  # fmt: skip


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """`torch.cdist`, whose mode is a number."""
    mode = DISTANCE_MODES[compute_mode or 0]
    return torch().cdist(x1, x2, p, mode)


def short_time_transform(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """`torch.stft` of a signal that is not padded."""
    return torch().stft(
        input, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, return_complex,
        align_to_window,
    )  # fmt: skip


def max_unpool(n: int) -> Callable:
    """Windows are known by the indices: the operator takes no kernel."""
    return lambda input, indices, output_size, *more: loaded(f"internal.max_unpool{n}d").function(
        input, indices, tuple(output_size)
    )


def fractional_max_pool(n: int) -> Callable:
    """The operator takes random samples, and always returns the indices."""
    return lambda input, kernel_size, output_size, random_samples: loaded(
        f"internal.fractional_max_pool{n}d"
    ).function(input, random_samples, tuple(kernel_size), tuple(output_size))
