"""`interpolate`: images resampled to another size, one dimension after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._backends.tables import bounded_cache
from rushlight.core import dtypes, settings
from rushlight.core.dtype_sets import FLOATING, U8
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.adaptive_pool import adaptive_avg_pool
from rushlight.ops.nn.inputs import check_tensor
from rushlight.ops.nn.pool import in_channels_last, regular

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]


def check(name: str, a: np.ndarray, out: Ints) -> None:
    n = len(out)
    for m in out:
        if m.__class__ is not int and not hasattr(m, "__index__"):
            raise TypeError(
                f"{name}() received an invalid combination of arguments: output_size must be ints, got {out}"
            )
    if 0 in a.shape[1:]:
        if 0 in a.shape[2:]:
            sizes_error(a, out)
        raise RuntimeError(
            f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(a.shape)}"
        )
    if min(out) <= 0:
        sizes_error(a, out)
    if a.dtype not in FLOATING and a.dtype != U8:
        d = dtypes.OF[a.dtype]
        raise NotImplementedError(f"\"{name}\" not implemented for '{d.scalar_name}'")


def sizes_error(a: np.ndarray, out: Ints) -> None:
    letters = "DHW"[3 - len(out) :]
    given, size_and_factors = (
        ", ".join(f"{c}: {m}" for c, m in zip(letters, sizes, strict=True))
        for sizes in (a.shape[2:], out)
    )
    raise RuntimeError(
        f"Input and output sizes should be greater than 0, but got input ({given}) output ({size_and_factors})"
    )


@bounded_cache(256)
def taps(
    xp: Any, sizes: Ints, out: Ints, scales: Any, mode: str, corners: bool, antialias: bool, dtype: Any
) -> tuple:  # fmt: skip
    """The taps of each dimension; the same object for the same arguments, by which kernels know what they planned."""
    each = zip(sizes, out, scales or (None,) * len(out), strict=True)
    return tuple([xp.taps_of(*of, mode, corners, antialias, dtype) for of in each])


def declare(n: int, name: str, node: str, mode: str, antialias: bool = False) -> Any:
    """The operator of one mode in `n` dimensions, and its transpose."""

    @op(where="internal", name=name, node=f"{node}Backward0")
    def forward(
        xp, input: Array, output_size: Ints, align_corners: bool, scale_factors: tuple | None
    ):
        check(name, input, output_size)
        x, last = regular(xp, input)
        each = taps(
            xp, x.shape[2:], output_size, scale_factors, mode, align_corners, antialias, x.dtype
        )
        return in_channels_last(xp, xp.resample(x, each), last)

    @op(where="internal", name=f"{name}_gradient", node=f"{node}BackwardBackward0")
    def gradient(
        xp,
        grad_output: Array,
        sizes: Ints,
        align_corners: bool,
        scale_factors: tuple | None,
    ):
        g, last = regular(xp, grad_output)
        each = taps(xp, sizes, g.shape[2:], scale_factors, mode, align_corners, antialias, g.dtype)
        return in_channels_last(xp, xp.resample_adjoint(g, each, sizes), last)

    forward.grad(
        input=lambda g, input_shape, align_corners, scale_factors: gradient(
            g, input_shape[2:], align_corners, scale_factors
        )
    )
    gradient.grad(
        grad_output=lambda g, grad_output_shape, align_corners, scale_factors: forward(
            g, grad_output_shape[2:], align_corners, scale_factors
        )
    )
    return forward


# (mode of interpolate, spatial dimensions, antialias) -> operator
OPERATORS: dict[tuple[str, int, bool], Any] = {}
for _n in (1, 2, 3):
    OPERATORS["nearest", _n, False] = declare(
        _n, f"upsample_nearest{_n}d", f"UpsampleNearest{_n}D", "nearest"
    )
    OPERATORS["nearest-exact", _n, False] = declare(
        _n, f"_upsample_nearest_exact{_n}d", f"UpsampleNearestExact{_n}D", "nearest-exact"
    )
for _mode, _n in (("linear", 1), ("bilinear", 2), ("trilinear", 3)):
    OPERATORS[_mode, _n, False] = declare(
        _n, f"upsample_{_mode}{_n}d", f"Upsample{_mode.capitalize()}{_n}D", "linear"
    )
OPERATORS["bicubic", 2, False] = declare(2, "upsample_bicubic2d", "UpsampleBicubic2D", "cubic")
for _mode, _filter in (("bilinear", "linear"), ("bicubic", "cubic"), ("lanczos", "lanczos")):
    OPERATORS[_mode, 2, True] = declare(
        2, f"_upsample_{_mode}2d_aa", f"Upsample{_mode.capitalize()}2DAa", _filter, True
    )

FAR = 2.0**63
SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")
NEEDS = {"linear": 3, "bilinear": 4, "trilinear": 5}


@composite(where="nn.functional", out=False)
def interpolate(
    input: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
):  # fmt: skip
    """(N, C, L), (N, C, H, W) or (N, C, D, H, W) resampled to `size`, or by `scale_factor`.

    `mode`: "nearest", "nearest-exact", "linear" (3-d input), "bilinear", "bicubic" (4-d), "trilinear"
    (5-d), "area" (averages), "lanczos" (4-d, antialiased). `align_corners`: the corners of input and
    output are at the same place, else their outer edges are. `recompute_scale_factor`: take the factor
    from the sizes. `antialias` widens the filter when shrinking (4-d "bilinear", "bicubic").
    ValueError or NotImplementedError for what does not go together.

    >>> import rushlight as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[0.0, 1.0]]]), 4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    check_tensor("interpolate", input)
    n = input.ndim - 2
    if align_corners is not None and mode not in SMOOTH:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    shape = tuple(input.shape)[2:]
    size, factors = size_and_factors(shape, size, scale_factor)
    if recompute_scale_factor:
        if size is not None:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if size is None:
        products = [s * f for s, f in zip(shape, factors, strict=True)]
        for p in products:
            if not -FAR <= p < FAR:
                raise RuntimeError("value cannot be converted to type int64_t without overflow")
        size = tuple(map(int, products))
        factors = None if recompute_scale_factor else factors
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
            "tensor as input"
        )
    if mode == "area" and n in (1, 2, 3):
        return adaptive_avg_pool(n, input, size)
    if mode == "lanczos" and n == 2 and not antialias:
        raise ValueError("lanczos mode needs antialias=True")
    operator = OPERATORS.get((mode, n, bool(antialias)))
    if operator is None:
        if mode in NEEDS and n in (1, 2, 3):
            raise NotImplementedError(
                f"Got {n + 2}D input, but {mode} mode needs {NEEDS[mode]}D input"
            )
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: "
            "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
            f"(got {mode})"
        )
    return operator(input, size, bool(align_corners), factors)


def size_and_factors(shape: Ints, size: Any, scale_factor: Any) -> tuple[Ints | None, tuple | None]:
    """(output sizes, factors), one of them None, as one of `size` and `scale_factor` is."""
    if size is not None:
        if not isinstance(size, (tuple, list)):
            return (size,) * len(shape), None
        if len(size) != len(shape):
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with "
                f"spatial dimensions of {list(shape)} and output size of {size}. Please provide input "
                "tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
            )
        return tuple(size), None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, (tuple, list)):
        return None, (float(scale_factor),) * len(shape)
    if len(scale_factor) != len(shape):
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(shape)} and scale_factor of shape {scale_factor}. Please "
            "provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in "
            "(s1, s2, ...,sK) format."
        )
    return None, tuple(map(float, scale_factor))


def deprecated(name: str) -> None:
    settings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


@composite(where="nn.functional", out=False)
def upsample(
    input: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
):  # fmt: skip
    """The former name of `interpolate`."""
    deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(where="nn.functional", out=False)
def upsample_nearest(input: Array, size: Any = None, scale_factor: Any = None):
    """`interpolate` with mode "nearest"."""
    deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(where="nn.functional", out=False)
def upsample_bilinear(input: Array, size: Any = None, scale_factor: Any = None):
    """`interpolate` with mode "bilinear" and aligned corners."""
    deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
