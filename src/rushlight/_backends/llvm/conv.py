"""Convolutions as machine code: a table of candidates, of which the first that applies computes.

See `__init__.py` for when it runs, `conv_plans.py` for what kernels are told of sizes, and
`_codegen/kernels/conv.py`, `conv_direct.py` and `winograd.py` for the kernels.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends.llvm import conv_tiles, products, threshold, winograd
from rushlight._backends.llvm.candidates import Candidate, first_fit, remembered
from rushlight._backends.llvm.conv_arrays import (
    Bias,
    as_images,
    as_rows,
    bias_layout,
    by_position,
    converted,
    dense,
    layout_of,
    pairs_of_channels,
    pairs_of_images,
)
from rushlight._backends.llvm.conv_plans import (  # fmt: skip
    CHANNELS_LAST,
    FOREIGN,
    PHASES,
    ROW_MAJOR,
    STRIDED,
    UNALIGNED,
    depthwise_plan,
    depthwise_transposed_plan,
    direct_plan,
    forward_plan,
    in_pairs,
    sizes_of,
    small_plan,
    transposed_plan,
    weight_plan,
)
from rushlight._backends.llvm.conv_problems import (
    are_shapes_of_one,
    is_pointwise,
    is_row_major,
    reads_inside,
)
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, row_major
from rushlight._backends.reference import conv as reference
from rushlight._backends.reference.conv import by_channel
from rushlight._codegen import product_sizes
from rushlight._codegen.conv_plan import DepthwisePlan, Plan
from rushlight._codegen.kernels import columns as of_windows
from rushlight._codegen.kernels import conv as kernels
from rushlight._codegen.kernels import conv_direct
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import BF16, F32, FLOATING, FULL, I8, I16, I32, I64, U8

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem

SMALL = threshold(2_000)  # multiplications below which little is gained
POSITIONS = range(8, 33)  # of a result for which weights are read as they lie,
WEIGHTS = 1 << 17  # from so many on
FEW = 200_000  # up to which copies of channels last take less time than thin products of matrices
IMAGE, CHANNELS = (
    64,
    16,
)  # positions and channels from which 1x1 windows of row-major arrays are products
WHOLE = frozenset((I8, I16, I32, I64, U8))
NUMBERS = FLOATING | WHOLE


# -- the kernels -----------------------------------------------------------------------------------


@implements("convolve")
def convolve(x: np.ndarray, w: np.ndarray, bias: Bias, problem: Problem) -> np.ndarray:
    """Cross-correlation of x (N, C, *in) with w (O, C / groups, *kernel), plus bias (O): (N, O, *out)."""
    p, dtype = problem, problem.dtype
    layouts = layout_of(x, p.x, dtype), layout_of(w, p.w, dtype), bias_layout(bias, p.w[0], dtype)
    candidate, p = choose(p, layouts)
    return candidate.run(x, w, bias, p)


@implements("convolve_transposed")
def convolve_transposed(g: np.ndarray, w: np.ndarray, bias: Bias, problem: Problem) -> np.ndarray:
    """The transpose of `convolve`: g (N, O, *out), w (O, C / groups, *kernel) to (N, C, *in), plus bias (C)."""
    p, dtype = problem, problem.dtype
    layouts = layout_of(g, p.y, dtype), layout_of(w, p.w, dtype), bias_layout(bias, p.x[1], dtype)
    candidate, p = choose(p, layouts)
    return candidate.run(g, w, bias, p)


@implements("convolve_weight")
def convolve_weight(x: np.ndarray, g: np.ndarray, problem: Problem) -> np.ndarray:
    """The gradient of the weight: x (N, C, *in) and g (N, O, *out) to (O, C / groups, *kernel)."""
    p, dtype = problem, problem.dtype
    layouts = layout_of(x, p.x, dtype), layout_of(g, p.y, dtype), None
    candidate, p = choose(p, layouts)
    return candidate.run(x, g, None, p)


@remembered
def choose(problem: Problem, layouts: tuple) -> tuple[type[Candidate], Problem]:
    """The candidate for arrays of these layouts, and the problem with them."""
    p = problem.but(layouts=layouts)
    return first_fit(TABLE, p, text), p


def text(p: Problem) -> str:
    """A problem in a line, for `explain`."""
    last = ", channels last" if p.channels_last else ""
    return (
        f"convolution ({p.direction}) of {p.x} with {p.w}, stride {p.stride}, padding {p.padding}, "
        f"dilation {p.dilation}, groups {p.groups}, {p.dtype}{last}"
    )


# -- arrays ----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def zeros(n: int, dtype: np.dtype) -> np.ndarray:
    """The bias of a convolution without one."""
    return np.zeros(n, dtype)


def given(bias: Bias, p: Problem) -> np.ndarray:
    """A contiguous bias: zeros where there is none."""
    return zeros(p.shapes[2][1], p.dtype) if bias is None else np.ascontiguousarray(bias)


def framed(a: np.ndarray, frame: tuple, p: Problem) -> np.ndarray:
    """A dense array in the frame of zeros that `conv_plans.frame` describes."""
    plan, size, _ = frame
    if plan is None:
        return a
    t = of(p.dtype)
    wide = np.empty(size, a.dtype)
    kernels.spread.compiled(E=t, T=t, L=sizes_of(t)["L"])(a, wide, plan)
    return wide


# -- what problems have ----------------------------------------------------------------------------


def fits(p: Problem) -> bool:
    """Whether the shapes go together and are large enough to pay."""
    return are_shapes_of_one(p) and prod(p.y) * prod(p.w[1:]) > SMALL


# -- the candidates --------------------------------------------------------------------------------


class PointwiseBfloat16(Candidate):
    """A 1x1 window on bfloat16 where the processor multiplies pairs of numbers: products of matrices do. A
    bias of row-major arrays would be added to rounded numbers."""

    name = "pointwise_bfloat16"

    @staticmethod
    def applies(p: Problem) -> bool:
        if p.dtype is not BF16 or not fits(p) or not is_pointwise(p):
            return False
        if not (product_sizes.pairs() or product_sizes.tiles()):
            return False
        if FOREIGN in p.layouts or UNALIGNED in p.layouts:
            return False
        last = p.channels_last and Pointwise.applies(p)
        return last or (is_row_major(p) and p.layouts[2] is None)

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.channels_last:
            return Pointwise.run(a, b, bias, p)
        columns = a.reshape(*a.shape[:2], -1)
        if p.direction == "forward":
            return products.matmul(b.reshape(b.shape[:2]), columns).reshape(p.y)
        if p.direction == "transposed":
            return products.matmul(b.reshape(b.shape[:2]).T, columns).reshape(p.x)
        columns = columns.swapaxes(0, 1).reshape(columns.shape[1], -1)
        left = b.reshape(*b.shape[:2], -1).swapaxes(0, 1).reshape(b.shape[1], -1)
        return products.matmul(left, columns.T).reshape(p.w)


class Small(Candidate):
    """Few multiplications, of any dtype: what other candidates prepare would take longer."""

    name = "small_sums"

    @staticmethod
    def applies(p: Problem) -> bool:
        if FOREIGN in p.layouts or UNALIGNED in p.layouts or p.dtype not in NUMBERS:
            return False
        return are_shapes_of_one(p) and prod(p.y) * prod(p.w[1:]) <= SMALL

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        kernel, plan = small_plan(p)
        a, b = dense(a, p.layouts[0]), dense(b, p.layouts[1])
        result = reference.empty(p.shapes[2], p.dtype, p.channels_last)
        kernel(
            a, b, zeros(1, p.dtype) if bias is None else np.ascontiguousarray(bias), result, plan
        )
        return result


class Bfloat16Tiles(Candidate):
    """`ImplicitGemm` of bfloat16 where the processor multiplies it in tiles of registers. Groups whose channels fill
    half of a tile gain nothing on sums along lines."""

    name = "implicit_gemm_of_bfloat16_tiles"

    @staticmethod
    def applies(p: Problem) -> bool:
        if p.dtype is not BF16 or not product_sizes.tiles() or not conv_tiles.fits(p):
            return False
        if FOREIGN in p.layouts or UNALIGNED in p.layouts:
            return False
        single = following(InFloat32, in_float32(p))
        return single not in (Reference, Depthwise) and (
            p.groups == 1 or single is not DirectSmallChannels
        )

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.direction == "weight":
            return conv_tiles.convolve_weight(a, b, p)
        return conv_tiles.convolve(a, b, given(bias, p), p)


class Bfloat16Pairs(Candidate):
    """`ImplicitGemm` of bfloat16 where the processor multiplies pairs of numbers: of two channels, for the
    gradient of a weight of two images. The last of an odd number of them is paired with zeros."""

    name = "implicit_gemm_of_bfloat16_pairs"

    @staticmethod
    def applies(p: Problem) -> bool:
        if p.dtype is not BF16 or not product_sizes.pairs() or FOREIGN in p.layouts:
            return False
        each, c = p.w[0] // p.groups, p.w[1]
        summed = {"forward": c, "transposed": each, "weight": p.x[0]}[p.direction]
        single = following(InFloat32, in_float32(p))
        if single in (DirectSmallChannels, RowMajorCopies):
            return p.direction != "weight" and min(c, each) >= 16
        return single in (ImplicitGemm, Pointwise) and summed > 1

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        q = in_pairs(p)
        if p.direction == "weight":
            a, b = pairs_of_images(a, q.layouts[0]), pairs_of_images(b, q.layouts[1])
        else:
            forward = p.direction == "forward"
            rows = p.w[1] if forward else p.w[0] // p.groups
            a = pairs_of_channels(a, p.x[0] * p.groups, rows, q.shapes[0], q.layouts[0])
            b = pairs_of_channels(b, p.w[0] if forward else p.groups, rows, q.w, ROW_MAJOR)
        return implicit_gemm(a, b, bias, q, BF16)


class InFloat32(Candidate):
    """Half types are computed in float32, and rounded once."""

    name = "in_float32"

    @staticmethod
    def applies(p: Problem) -> bool:
        half = p.dtype.itemsize == 2 and p.dtype.kind in "fV"
        return half and prod(p.shapes[0]) > SMALL // 10 and FOREIGN not in p.layouts

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        single, q = F32, in_float32(p)
        a, b = converted(a, single), converted(b, single)
        if p.direction == "weight":
            return converted(convolve_weight(a, b, q), p.dtype)
        run = convolve if p.direction == "forward" else convolve_transposed
        return converted(run(a, b, None if bias is None else converted(bias, single), q), p.dtype)


@lru_cache(maxsize=256)
def in_float32(p: Problem) -> Problem:
    return p.but(dtype=F32)


def following(candidate: type[Candidate], p: Problem) -> type[Candidate]:
    """The candidate that computes a problem after `candidate` is through with it."""
    return next(c for c in TABLE[TABLE.index(candidate) + 1 :] if c.applies(p))


class Reference(Candidate):
    """The reference's kernels: other dtypes, what is small, and arrays that are not as they should be."""

    name = "reference"

    @staticmethod
    def applies(p: Problem) -> bool:
        if p.dtype not in FULL | WHOLE or FOREIGN in p.layouts or UNALIGNED in p.layouts:
            return True
        if not fits(p):
            return True
        return prod(p.stride) > PHASES if p.direction == "transposed" else not reads_inside(p)

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.direction == "weight":
            return reference.convolve_weight(a, b, p)
        if p.direction == "forward":
            return reference.convolve(a, b, bias, p)
        return reference.convolve_transposed(a, b, bias, p)


class Pointwise(Candidate):
    """A 1x1 window: one product of matrices, of positions by channels where channels are innermost; row-major, one of
    each image, where it has many positions and channels, or its transpose many channels."""

    name = "pointwise_1x1"

    @staticmethod
    def applies(p: Problem) -> bool:
        if not is_pointwise(p):
            return False
        if not p.channels_last:
            many = p.dtype in FULL and prod(p.out) >= IMAGE and min(p.w[:2]) >= CHANNELS
            many |= p.direction == "transposed" and p.w[1] > 64
            return many and p.direction != "weight" and p.layouts[0] == ROW_MAJOR
        if p.direction == "weight" and p.layouts[1] != CHANNELS_LAST:
            return False
        return p.layouts[0] == CHANNELS_LAST

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.direction == "weight":
            return as_images(products.adjoint_times(as_rows(b), as_rows(a)), p.w)
        matrix, to = b.reshape(b.shape[:2]), p.shapes[2]
        if p.direction == "transposed":
            matrix = matrix.T
        if p.channels_last:
            return as_images(products.linear(as_rows(a), matrix, bias), to)
        columns = a.reshape(*a.shape[:2], -1)
        if bias is None:
            return products.matmul(matrix, columns).reshape(to)
        whole = (len(a), len(matrix), columns.shape[-1])
        return products.onto(bias[:, None], matrix, columns, whole, 1, 1).reshape(to)


class Winograd(Candidate):
    """Fewer multiplications than sums have, for square windows of 3 to 5: see `winograd.py`. Results that are
    not finite are computed again by the next candidate."""

    name = "winograd"

    @staticmethod
    def applies(p: Problem) -> bool:
        return p.dtype is F32 and winograd.scheme_for(p) is not None

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.direction == "weight":
            result = winograd.convolve_weight(a, b, p)
        else:
            result = winograd.convolve(a, b, given(bias, p), p)
        if result is not None:
            return result
        return first_fit(TABLE[TABLE.index(Winograd) + 1 :], p, text).run(a, b, bias, p)


class FullWindow(Candidate):
    """A window as large as the input: one product of matrices, as of a linear layer."""

    name = "full_window_gemm"

    @staticmethod
    def applies(p: Problem) -> bool:
        return (
            is_row_major(p)
            and p.groups == 1
            and p.sizes == p.kernel
            and not any(p.padding)
            and set(p.dilation) == {1}
            and (p.direction != "transposed" or prod(p.out) == 1)
        )

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
        if p.direction == "forward":
            return products.linear(a, b, given(bias, p)).reshape(p.y)
        if p.direction == "weight":
            return products.adjoint_times(b, a).reshape(p.w)
        return reference.biased(products.matmul(a, b).reshape(p.x), bias)


class WindowsAsColumns(Candidate):
    """One image with few positions and many weights, as at the end of a network: the windows are written down in the
    order of the weights, and each weight is read once, where it lies."""

    name = "windows_as_columns"

    @staticmethod
    def applies(p: Problem) -> bool:
        return (
            {*p.layouts[:2]} <= {ROW_MAJOR, CHANNELS_LAST}
            and p.direction == "forward"
            and p.groups == p.x[0] == 1
            and len(p.kernel) == 2
            and prod(p.out) in POSITIONS
            and prod(p.w) >= WEIGHTS
            and p.dtype in FULL
        )

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        many, places = prod(p.w[1:]), prod(p.out)
        numbers = (*p.sizes, *p.out, *p.kernel, *p.dilation, *p.padding, *p.stride)
        if p.layouts[1] == CHANNELS_LAST:
            a, b = contiguous(by_position(a)), by_position(b)
            rows = np.empty((places, many), p.dtype)
            of_windows.im2row.compiled(T=of(p.dtype))(a, rows, p.x[1], *numbers)
            columns = rows.T
        else:
            columns = np.empty((many, places), p.dtype)
            of_windows.im2col.compiled(T=of(p.dtype))(contiguous(a), columns, p.x[1], *numbers)
        result = products.matmul(b.reshape(len(b), -1), columns)
        result = as_images(contiguous(result.T), p.y) if p.channels_last else result.reshape(p.y)
        return reference.biased(result, bias)


class DirectSmallChannels(Candidate):
    """Sums with vectors along lines of the result, where matrices would be thin: few channels in or out, or
    in a group. For row-major arrays."""

    name = "direct_small_channels"

    @staticmethod
    def applies(p: Problem) -> bool:
        return is_row_major(p) and direct_plan(p) is not None

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        kernel, plan = direct_plan(p)
        result = np.empty(p.shapes[2], p.dtype)
        if p.direction == "weight":
            kernel(a, b, result, plan)
        else:
            kernel(a, b, given(bias, p), result, plan)
        return result


class Depthwise(Candidate):
    """Each channel is a group, and channels are innermost: vectors lie along them. In two dimensions; the
    transpose with stride 1 or dilation 1."""

    name = "depthwise_channels_last"

    @staticmethod
    def applies(p: Problem) -> bool:
        if p.direction == "weight" and p.layouts[1] != CHANNELS_LAST:
            return False
        return (
            p.channels_last
            and p.layouts[0] == CHANNELS_LAST
            and p.groups > 1
            and p.w[0] == p.groups
            and p.w[1] == 1
            and len(p.kernel) == 2
            and p.kernel[1] <= 9
            and p.stride[1] <= 4
            and p.dilation[1] <= 8
            and (p.direction != "transposed" or {1} in (set(p.stride), set(p.dilation)))
        )

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        if p.direction == "weight":
            return depthwise_weight(a, b, p)
        result = reference.empty(p.shapes[2], p.dtype, True)
        weight, t = b.reshape(len(b), -1), of(p.dtype)
        if p.direction == "transposed" and max(p.stride) > 1:
            run = conv_direct.depthwise_transposed.compiled(T=t, L=sizes_of(t)["L"])
            plan = depthwise_transposed_plan(p)
            run(a, np.ascontiguousarray(weight.T), given(bias, p), result, *p.kernel, plan)
            return result
        if p.direction == "transposed":
            weight = weight[:, ::-1]
        known = {"KW": p.kernel[1], "S": p.stride[1], "D": p.dilation[1]}
        run = conv_direct.depthwise.compiled(T=t, L=sizes_of(t)["L"], **known)
        run(a, np.ascontiguousarray(weight.T), given(bias, p), result, depthwise_plan(p))
        return result


def depthwise_weight(x: np.ndarray, g: np.ndarray, p: Problem) -> np.ndarray:
    """The weight's gradient by `conv_direct.depthwise_weight`: (C, 1, *kernel), the first innermost."""
    plan, t, c = depthwise_plan(p), of(p.dtype), p.x[1]
    known = {"T": t, "L": sizes_of(t)["L"], "KW": p.kernel[1], "S": p.stride[1], "D": p.dilation[1]}
    known["ROWS"] = 3 if p.kernel[0] == 3 and p.kernel[1] <= 4 else 1
    w = np.empty((*p.kernel, c), x.dtype)
    parts = np.empty((plan[DepthwisePlan.CHUNK], *w.shape), x.dtype)
    conv_direct.depthwise_weight.compiled(**known)(x, g, w, parts, plan)
    result = reference.empty(p.w, x.dtype, True)
    result[...] = w.reshape(-1, c).T.reshape(p.w)
    return result


class RowMajorCopies(Candidate):
    """Arrays are not row-major, but few multiplications, thin groups or channels are computed sooner from
    row-major copies."""

    name = "row_major_copies"

    @staticmethod
    def applies(p: Problem) -> bool:
        thin = p.groups > 1 or (p.direction == "transposed" and p.w[1] <= 4)
        few = prod(p.y) * prod(p.w[1:]) < FEW
        copied = STRIDED in p.layouts and not p.channels_last  # all others would copy them, too
        return not is_row_major(p) and (thin or few or copied) and direct_plan(p) is not None

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        candidate, q = of_copies(p)
        result = candidate.run(contiguous(a), contiguous(b), bias, q)
        return by_channel(row_major(by_position(result))) if p.channels_last else result


@remembered
def of_copies(p: Problem) -> tuple[type[Candidate], Problem]:
    """The candidate for row-major copies, and their problem."""
    q = p.but(channels_last=False, layouts=(ROW_MAJOR, ROW_MAJOR, p.layouts[2]))
    return first_fit(TABLE, q, text), q


class ImplicitGemm(Candidate):
    """A product of matrices of which one, the windows, is never written down. For all that is left."""

    name = "implicit_gemm"

    @staticmethod
    def applies(p: Problem) -> bool:
        return True

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem) -> np.ndarray:
        return implicit_gemm(a, b, bias, p, p.dtype)


def implicit_gemm(
    a: np.ndarray, b: np.ndarray, bias: Bias, p: Problem, dtype: np.dtype
) -> np.ndarray:
    """A convolution of arrays of p.dtype, which is that of the result or pairs of it."""
    a, t = dense(a, p.layouts[0]), of(p.dtype)
    known = {**sizes_of(of(dtype)), "B": t}
    result = reference.empty(p.shapes[2], dtype, p.channels_last)
    if p.direction == "weight":
        frame, plan = weight_plan(p)
        splits = int(plan[Plan.SPLITS])
        parts = np.empty(splits * result.size, known["T"].np) if splits > 1 else result
        g = dense(b, p.layouts[1])
        a = framed(a, frame, p)
        kernels.convolve_weight.compiled(**known)(a, g, result, parts, plan)
        return result
    if p.direction == "forward":
        frame, plan = forward_plan(p)
        a, weights, w = framed(a, frame, p), kernels.ROWS_OF_K, dense(b, p.layouts[1])
    else:
        frame, plan, reordering = transposed_plan(p)
        a, weights, w = framed(a, frame, p), kernels.TURNED, np.ascontiguousarray(b)
        if not plan[Plan.TAPS]:
            weights, panels = kernels.PANELS, np.empty(plan[Plan.ROOM], p.dtype)
            kernels.turn.compiled(E=t, T=t, L=known["L"])(w, panels, reordering)
            w = panels
    if bias is None:
        bias = zeros(p.shapes[2][1], dtype)
    run = kernels.convolve.compiled(WEIGHTS=weights, **known)
    run(a, w, np.ascontiguousarray(bias), result, plan)
    return result


TABLE: tuple[type[Candidate], ...] = (
    PointwiseBfloat16, Small, Bfloat16Tiles, Bfloat16Pairs, InFloat32, Reference, Pointwise, Winograd, FullWindow, WindowsAsColumns,
    DirectSmallChannels, Depthwise, RowMajorCopies, ImplicitGemm,
)  # fmt: skip
