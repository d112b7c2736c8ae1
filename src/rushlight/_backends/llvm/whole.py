"""Native entries of whole operators: they take what an operator is given, in its order, with arrays for tensors.

They check the arguments themselves, and answer None for what they do not take: the operator goes on as it is declared. One
that overwrites a part of its first array (`writes=`) has done so where its entry answers True.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm.indexing import ADDED, WIDE_ADDED, WORDS, apart, both, taking
from rushlight._backends.llvm.masks import PLACE
from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.views import copy_into, in_memory_order, row_major
from rushlight._codegen.dtype_entry import entries_alone, put_entries_before
from rushlight._codegen.kernels import few, index_calls
from rushlight._codegen.kernels import index as kernels
from rushlight._codegen.native_entry import ByDtype, bind
from rushlight._codegen.planned_entry import planned
from rushlight._codegen.types import UNITS, Type, bf16, f16, f32, f64, i64
from rushlight.core.dtype_sets import BF16, BOOL, C64, C128, F16, F32, F64, I64, REDUCED

FULL = {F32: f32, F64: f64}
FILLED = {**FULL, I64: i64, F16: f16, BF16: bf16}
OF_SLICES = {"index_add", "index_copy", "index_reduce"}
LARGE = index_calls.LARGE  # elements of these are left to their bodies
SLICES = kernels.put_slices, {"I": i64}
ELEMENTS = kernels.write_along, {"I": i64, "NEW": False, "SAME": False}


def writing(infer: Any, run: tuple, how: str, types: Mapping[Any, Type]) -> ByDtype:
    """Writes of one array into another at indices."""
    kernel, known = run

    def make(d: np.dtype, t: Type) -> Any:
        runs = both(kernel, **known, HOW=how, T=t, V=t)
        return bind((infer, {"SIZE": d.itemsize}), [d, I64, d], [], *runs)

    return entries(make, types)


def adding_slices(d: np.dtype, t: Type) -> Any:
    """A sum at indices with the slices of an array, or with these times a number."""
    kernel, known = SLICES
    number = {"T": t, "V": f64 if t.is_float else i64}
    runs = *both(kernel, **known, HOW="add", T=t, V=t), (kernels.add_products, number)
    return bind((index_calls.index_add, number), [d, I64, d], [], *runs)


def reducing(infer: Any, run: tuple, words: tuple[str, ...]) -> ByDtype:
    """Writes of one array into another by the reduction that a word names. Means, and what is rounded once (sums and products
    of half types at an index for each element), have no way but that of few values."""
    kernel, known = run
    slices = kernel is kernels.put_slices

    def make(d: np.dtype, t: Type) -> Any:
        once = () if slices or d not in REDUCED else ("sum", "prod")
        direct = [w for w in words if w != "mean" and w not in once]
        named = (*direct, *[w for w in words if w not in direct])
        runs = [r for w in direct for r in both(kernel, **known, HOW=WORDS[w], T=t, V=t)]
        few = {"ROUNDS": slices, "SLICES": slices, "T": t}
        for w in named:
            runs.append((kernels.reduce_few, {"HOW": WORDS[w], "MEAN": w == "mean", **few}))
        infers = infer, {"SIZE": d.itemsize, "DIRECT": len(direct)}
        return bind(infers, [d, I64, d], [], *runs, words=("reduce", named))

    return entries(make, ADDED)


def filling(infer: Any, kernel: Any, types: Mapping[Any, Type] = FILLED) -> ByDtype:
    """Writes of a Python number at indices; where a mask says, into a result."""
    masked = infer is index_calls.masked_fill

    def make(d: np.dtype, t: Type) -> Any:
        known = {"T": t, "V": i64 if t is i64 else f64}
        return bind(
            (infer, known), [d, BOOL if masked else I64], [d] if masked else [], (kernel, known)
        )

    return entries(make, types)


def of_parts(infer: Any, run: Any) -> ByDtype:
    """Complex numbers of two arrays."""
    wide = {F32: C64, F64: C128}
    return entries(lambda d, t: bind((infer, {}), [d, d], [wide[d]], (run, {"T": t})), FULL)


ENTRIES = {
    "index_add": entries(adding_slices, ADDED),
    "index_copy": writing(index_calls.index_copy, SLICES, "put", UNITS),
    "index_reduce": reducing(index_calls.index_reduce, SLICES, ("prod", "amax", "amin", "mean")),
    "aten.index_fill_value": filling(index_calls.index_fill, kernels.fill_slices_with),
    "aten.scatter_src": writing(index_calls.scatter, ELEMENTS, "put", UNITS),
    "aten.scatter_value": filling(index_calls.scatter_value, kernels.fill_along),
    "scatter_add": writing(index_calls.scatter, ELEMENTS, "add", WIDE_ADDED),
    "scatter_reduce": reducing(
        index_calls.scatter_reduce, ELEMENTS, ("sum", "prod", "amax", "amin", "mean")
    ),
    "index_select": taking(index_calls.index_select, kernels.take_slices),
    "aten.masked_fill": filling(index_calls.masked_fill, kernels.filled),
    "masked_scatter": PLACE,
    "complex": of_parts(few.complex, few.complex_of),
    "polar": of_parts(few.polar, few.polar_of),
    "renorm": entries(
        lambda d, t: bind((few.renorm, {}), [d], [d], (few.shortened, {"T": t})), FULL
    ),
    "take": entries(
        lambda d, u: bind(
            (index_calls.take, {}),
            [d, I64],
            [d],
            (kernels.take_at_indices, {"U": u}),
            (kernels.take_anywhere, {"U": u}),
        ),
        UNITS,
    ),
}


# Those that write to their first array.
WRITERS = frozenset(
    "index_add index_copy index_reduce scatter_add scatter_reduce "
    "aten.index_fill_value aten.scatter_src aten.scatter_value".split()
)


# What an operator does with arrays of one layout: the planner in plans.py, or in the file that is named.
PLANNED = {
    **{f"internal.avg_pool{n}d": "window_plans.averages" for n in (1, 2, 3)},
    **{f"internal.adaptive_avg_pool{n}d": "window_plans.adaptive_averages" for n in (1, 2, 3)},
    **{f"internal.adaptive_max_pool{n}d": "window_plans.adaptive_maxima" for n in (1, 2, 3)},
    **{f"internal.max_pool{n}d_with_indices": "window_plans.maxima" for n in (1, 2, 3)},
    **{f"internal.upsample_nearest{n}d": "window_plans.nearest" for n in (1, 2, 3)},
    **{f"internal._upsample_nearest_exact{n}d": "window_plans.nearest_exact" for n in (1, 2, 3)},
    "internal.upsample_linear1d": "window_plans.linear",
    "internal.upsample_bilinear2d": "window_plans.linear",
    "internal.upsample_trilinear3d": "window_plans.linear",
    "internal.upsample_bicubic2d": "window_plans.cubic",
    "pixel_shuffle": "pixel_shuffle",
    "pixel_unshuffle": "pixel_unshuffle",
    "channel_shuffle": "channel_shuffle",
    "roll": "roll",
    "flip": "flip",
    **{f"internal.max_pool{n}d": "window_plans.maximum" for n in (1, 2, 3)},
    **{f"internal.avg_pool{n}d_gradient": "window_plans.averages_gradient" for n in (1, 2, 3)},
    **{
        f"internal.adaptive_avg_pool{n}d_gradient": "window_plans.adaptive_gradient"
        for n in (1, 2, 3)
    },
    **{f"internal.reflection_pad{n}d": "reflected" for n in (1, 2, 3)},
    **{f"internal.replication_pad{n}d": "replicated" for n in (1, 2, 3)},
    **{f"internal.circular_pad{n}d": "circular" for n in (1, 2, 3)},
    **{f"internal.fractional_max_pool{n}d": "window_plans.fractional_maxima" for n in (2, 3)},
    "nn.functional._glu": "row_plans.glu",
    "nn.functional._multi_margin_loss": "row_plans.margins",
    "_pdist_forward": "row_plans.own_distances",
    "complex": "complex",
    "rot90": "rot90",
    "aten._unsafe_view": "reshaped",
    "diag_embed": "diagonals",
    "constant_pad_nd": "padded",
    "_all.sum_to_size": "row_plans.summed",
    "linalg.cholesky_ex": "matrix_plans.cholesky",
    "linalg.lu_factor_ex": "matrix_plans.lu_factor",
    "linalg.ldl_factor_ex": "matrix_plans.ldl_factor",
    "internal.householder_product": "matrix_plans.householder_product",
    "linalg.qr": "matrix_plans.qr",
    "linalg.solve_triangular": "matrix_plans.solve_triangular",
    "internal.lu_solved": "matrix_plans.lu_solved",
    "_group_norm": "row_plans.group_norm",
    "_batch_norm": "row_plans.batch_norm",
    "grid_sampler_2d": "window_plans.grid_sampler",
    "grid_sampler_3d": "window_plans.grid_sampler",
}


def planner_of(path: str) -> Callable[..., Any]:
    """The planner of an operator, whose file is read when it is needed."""
    file, _, name = PLANNED[path].rpartition(".")
    module = importlib.import_module(f"rushlight._backends.llvm.{file or 'plans'}")
    return getattr(module, name)  # type: ignore[no-any-return]  # mypy: the file is found by its name


def entry(path: str, body: Callable[..., Any]) -> Callable[..., Any] | None:
    """The entry of an operator, if it has one; `body`: what it does on arrays."""
    if path in PLANNED:

        def planner(*given: Any) -> Any:
            try:
                return planner_of(path)(*given)
            except Exception:  # no plan: the operator itself says what is wrong with its arguments
                return None

        plans_of = entries_alone(ByDtype(lambda d: planned(planner, body)))
        return put_entries_before(ENTRIES[path])(plans_of) if path in ENTRIES else plans_of
    found = ENTRIES.get(path)
    if found is None:
        return None
    if path == "aten.masked_fill":
        return put_entries_before(found)(filled_in_rows(found))
    return (
        put_entries_before(found)(in_rows(path, found)) if path in WRITERS else entries_alone(found)
    )


def filled_in_rows(entries: ByDtype) -> Callable[..., Any]:
    """What the entry of `masked_fill` does for arrays of another order in memory: on row-major copies."""

    def behind(a: Any, mask: Any, value: Any) -> Any:
        if (
            a.shape != mask.shape
            or a.size >= LARGE
            or a.flags.c_contiguous
            and mask.flags.c_contiguous
        ):
            return None
        return entries[a.dtype](row_major(a), row_major(mask), value)

    return behind


def in_reverse(first: np.ndarray, dim: Any, *rest: Any) -> tuple:
    """The arguments of a write along a dimension, for arrays with their dimensions reversed."""
    n = first.ndim
    if dim.__class__ is int and -n <= dim < n:
        dim = n - 1 - dim % n
    else:
        dim = n  # which entries do not take
    transposed = [a.T if a.__class__ is np.ndarray and a.ndim == n else a for a in rest]
    return (first.T, dim, *transposed)


def in_rows(path: str, entries: ByDtype) -> Callable[..., Any]:
    """What an entry that writes to its first array does for arrays of another order in memory: on row-major copies. It
    answers None where one shares memory with the first, or that has elements that share some, or is large."""

    slices = path in OF_SLICES

    def in_float32(first: np.ndarray, dim: Any, index: Any, source: Any, *rest: Any) -> Any:
        """The sums of a half type, rounded once: see `added_widely`."""
        if source.__class__ is not np.ndarray or source.dtype is not first.dtype:
            return None
        if first.size >= LARGE or not apart(first, source) or 0 in first.strides:
            return None
        wide = cpu.cast(first, F32), dim, index, cpu.cast(source, F32), *rest
        if entries[F32](*wide) is not True and behind(*wide) is not True:
            return None
        copy_into(first, cpu.cast(wide[0], first.dtype))
        return True

    def behind(*given: Any) -> Any:
        first, changed = given[0], False
        if path == "scatter_add" and first.dtype in REDUCED:
            return in_float32(*given)
        if first.flags.f_contiguous and not first.flags.c_contiguous:
            given, changed = in_reverse(*given), True
            first = given[0]
        copies = [*given]
        transposed = not first.flags.c_contiguous
        if transposed and not in_memory_order(first).flags.c_contiguous:
            return None
        for k, a in enumerate(given):
            if a.__class__ is not np.ndarray:
                continue
            if slices and (k or transposed) and a.size >= LARGE:
                return None
            if transposed or not a.flags.c_contiguous:
                if 0 in a.strides or (k and not apart(first, a)):
                    return None
                if not a.flags.c_contiguous:
                    copies[k], changed = row_major(a), True
        if not changed or entries[first.dtype](*copies) is not True:
            return None
        if transposed:
            copy_into(first, copies[0])
        return True

    return behind
