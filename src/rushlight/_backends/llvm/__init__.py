"""The compiled back end: the reference's kernels, some of them replaced by machine code.

It is the reference (`cpu.py`) with the kernels of `FAMILIES` and `UFUNCS` put in their places, by
`activate()`, which happens by itself with the first call of a kernel on a large array, or once a
process has done enough work on small ones to gain by it (LLVM takes about a tenth of a second to
load), or at import with RUSHLIGHT_COMPILED=1, or never with RUSHLIGHT_COMPILED=0. Work is counted, not
timed, so that a program does the same in every run: until then a function stands before each kernel
that would be replaced, and counts its calls.

A compiled kernel has the name and the arguments of the reference's, stands in
`compiled/<family>.py`, takes what it is made for and large enough to pay, and hands all else to the
reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

import numpy as np

# family -> the kernels that compiled/<family>.py replaces
FAMILIES: dict[str, str] = {
    "attention": "attention attention_gradients",
    "conv": "convolve convolve_transposed convolve_weight",
    "products": (
        "accumulate accumulate_activated adjoint_times bmm dot linear matmul mm mv outer "
        "outer_added times_adjoint vdot"
    ),
    "activation": (
        "clip_gradient elu elu_gradient gelu gelu_gradient gelu_tanh glu glu_gradient "
        "gelu_tanh_gradient hardshrink hardsigmoid hardsigmoid_gradient "
        "hardswish hardswish_gradient hardtanh hardtanh_gradient leaky_relu "
        "leaky_relu_gradient log_sigmoid log_sigmoid_gradient mish mish_gradient prelu "
        "prelu_gradient prelu_weight_gradient relu scaled_softplus scaled_softplus_gradient "
        "shrink_gradient sigmoid_gradient silu silu_gradient softshrink "
        "tanh_gradient threshold"
    ),
    "elementwise": (
        "threshold_gradient addcmul addcdiv add_scaled cast ceil clip clip_arrays copysign erf erfc "
        "fill floor floor_divide fmod frac hypot isfinite isinf isnan lerp logaddexp power remainder nan_to_num "
        "reverse_subtract rint rsqrt sgn sigmoid sign trunc where with_wide_number xlogy"
    ),
    "indexing": (
        "gather_gradient add_rows fill_masked gather index_add_at index_put index_take out_of_range "
        "put_slices scatter_reduce index_select_gradient index_select scatter"
    ),
    "loss": (
        "binary_cross_entropy binary_cross_entropy_gradient huber huber_gradient bce_with_logits "
        "bce_with_logits_gradient smooth_l1 smooth_l1_gradient squared_distance "
        "mse_gradient"
    ),
    "batch_normalize": "batch_norm batch_norm_gradients update_running_stats",
    "normalize": (
        "group_norm group_norm_gradients layer_norm layer_norm_gradients l2_norm "
        "rms_norm rms_norm_gradients"
    ),
    "pool": (
        "adaptive_sums add_at_places max_by_tables max_pool max_pool_places window_averages "
        "window_averages_adjoint"
    ),
    "random": (
        "by_c_library random_uniform random_doubles random_floats random_bernoulli random_integers "
        "random_normal_floats random_normals random_permutation random_wide_normals random_wide_words random_words"
    ),
    "recurrent": "recurrent_layer recurrent_layer_gradients",
    "sequences": "arange_into linspace_into",
    "resample": "grid_sample_gradients grid_sample resample resample_adjoint",
    "reduce": "mean count_nonzero prod sum_to sum nansum variance",
    "extremes": "argmax argmin amax max_with_index amin min_with_index",
    "sorting": "bincount searchsorted sort topk unique",
    "pad": "pad_constant pad_edges",
    "bags": "embedding_bag",
    "masks": "masked_expand masked_select nonzero",
    "scan": "cumulative cumulative_extreme",
    "views": "cat_contiguous contiguous copy_into cat roll row_major stack_contiguous tile triangle",
    "ctc": "ctc_loss ctc_loss_gradient",
    "distances": "cdist cdist_gradient pdist pdist_gradient",
    "cross_entropy": "cross_entropy cross_entropy_gradient",
    "special": "digamma entr erfinv lgamma ndtr ndtri polygamma xlog1py",
    "softmax": "log_softmax log_softmax_gradient logsumexp softmax softmax_gradient",
}

# Kernels that are NumPy's ufuncs: their own loops, shared by threads, or ours (_codegen/ufunc_loops.py).
UFUNCS = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh conjugate cos cosh divide "
    "equal exp exp2 expm1 fmax fmin greater greater_equal less less_equal log log10 log1p log2 "
    "logical_and logical_not logical_or logical_xor maximum minimum multiply negative not_equal reciprocal "
    "sin sinh sqrt square subtract tan tanh"
)
REPLACED = frozenset(UFUNCS.split()).union(*(names.split() for names in FAMILIES.values()))

# Work is counted in elements that kernels go over, about a nanosecond each; every call counts CALL more.
# ENOUGH of it, or a call on LARGE, and the kernels are replaced.
CALL = 1000
LARGE = 16384
ENOUGH = 50_000_000

active = False
_starting = False
_done = 0
_refused = os.environ.get("RUSHLIGHT_COMPILED") == "0"
_counted: dict[str, Any] = {}  # what stands before kernels and counts their calls, by their names
_cells: list[tuple[str, Any]] = []  # where straight-line functions hold kernels, by name


def watch(name: str, cell: Any) -> None:
    """Count the calls of a kernel that a function holds in a cell, and put the compiled one there when
    there is one."""
    if not active and not _refused:
        _cells.append((name, cell))
        cell.cell_contents = counted(name, cell.cell_contents)


def counted(name: str, kernel: Any) -> Any:
    """A kernel of the reference, with what counts its calls before it if it would be replaced."""
    if active or _refused or name not in REPLACED:
        return kernel
    if name not in _counted:
        _counted[name] = update_wrapper(_counting(kernel), kernel)
    return _counted[name]


def _counting(kernel: Any) -> Callable[..., Any]:
    def one(a: Any) -> Any:
        work(a.size if a.__class__ is np.ndarray else 0)
        return kernel(a)

    def elementwise(a: Any, b: Any) -> Any:
        result = kernel(a, b)
        work(result.size)
        return result

    def several(*args: Any, **options: Any) -> Any:
        work(largest(args))
        return kernel(*args, **options)

    if isinstance(kernel, np.ufunc):
        return one if kernel.nin == 1 else elementwise
    code = getattr(kernel, "__code__", None)  # NumPy's functions have none
    if code is None or kernel.__defaults__ or code.co_kwonlyargcount or code.co_argcount != 1:
        return several
    return several if code.co_flags & 4 else one  # 4: it takes *args


def largest(values: Iterable[Any]) -> int:
    """The elements of the largest array among these, and in lists among these."""
    n = 0
    for each in values:
        if each.__class__ is np.ndarray:
            if each.size > n:
                n = each.size
        elif each.__class__ is list:
            n = max(n, largest(each))
    return n


def threshold(size: int) -> int:
    """The size from which a kernel pays, as it was measured; 0 with RUSHLIGHT_COMPILED=always, in
    which tests run the machine code on all they have."""
    return 0 if os.environ.get("RUSHLIGHT_COMPILED") == "always" else size


def begin() -> None:
    """At the end of the import of rushlight: what RUSHLIGHT_COMPILED=1 asks for."""
    if os.environ.get("RUSHLIGHT_COMPILED") in ("1", "always"):
        activate()


def work(elements: int) -> None:
    """Count a call on so many elements; a large one, or enough of them, activates the compiled back end."""
    global _done
    _done += elements + CALL
    if elements >= LARGE or _done >= ENOUGH:
        activate()


def activate() -> bool:
    """Replace the kernels; False where there is no machine code to be had (or RUSHLIGHT_COMPILED=0)."""
    global active, _refused, _starting
    if active or _refused or _starting:
        return active
    from rushlight._backends import blas, cpu
    from rushlight._codegen import parallel_ufuncs, ufunc_loops
    from rushlight._codegen.runtime import memory

    if not parallel_ufuncs.available():
        _refused = True
        _put({name: function.__wrapped__ for name, function in _counted.items()})
        return False
    _starting = True
    try:
        loops, functions = ufunc_loops.loops(), ufunc_loops.functions()
        ufuncs = {
            name: parallel_ufuncs.parallel(getattr(cpu, name), loops.get(name), functions.get(name))
            for name in UFUNCS.split()
        }
    finally:  # after Ctrl-C while LLVM loads all is as before, and the next work tries again
        _starting = False
    active = True
    blas.use_one_thread()
    memory.install()
    cpu.replace({k: f"llvm.{f}" for f, names in FAMILIES.items() for k in names.split()})
    _put(ufuncs)
    return True


def _put(kernels: dict[str, Any]) -> None:
    """Take these kernels from now on; nothing counts any more."""
    from rushlight._backends import cpu

    vars(cpu).update(kernels)
    for name, cell in _cells:
        cell.cell_contents = getattr(cpu, name)
    for table in cpu.tables:
        table.update({k: cpu.kernel(k[2:]) for k in tuple(table) if k.startswith("k_")})
    _cells.clear()
    _counted.clear()
