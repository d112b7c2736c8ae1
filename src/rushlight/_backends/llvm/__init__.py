"""The compiled back end: the reference's kernels, some of them replaced by machine code.

It is the reference (`cpu.py`) with the kernels of `FAMILIES` and `SPREAD` put in their places, by
`activate()`, which happens by itself once a process has done enough work to gain by it (LLVM takes
about a tenth of a second to load), or at import with RUSHLIGHT_COMPILED=1, or never with
RUSHLIGHT_COMPILED=0. Work is counted, not timed, so that a program does the same in every run.

A compiled kernel has the name and the arguments of the reference's, stands in
`compiled/<family>.py`, takes what it is made for and large enough to pay, and hands all else to the
reference.
"""

from __future__ import annotations

import os
from typing import Any

# family -> the kernels that compiled/<family>.py replaces
FAMILIES: dict[str, str] = {
    "attention": "attention attention_gradients",
    "conv": "convolve convolve_transposed convolve_weight",
    "products": (
        "accumulate accumulate_activated adjoint_times bmm dot linear matmul mm mv outer "
        "outer_added times_adjoint vdot"
    ),
    "activation": (
        "clip_gradient elu elu_gradient gelu gelu_gradient gelu_slope gelu_tanh glu glu_gradient "
        "gelu_tanh_gradient gelu_tanh_slope hardshrink hardsigmoid hardsigmoid_gradient "
        "hardswish hardswish_gradient hardtanh hardtanh_gradient leaky_relu "
        "leaky_relu_gradient log_sigmoid log_sigmoid_gradient mish mish_gradient prelu "
        "prelu_gradient prelu_weight_gradient relu scaled_softplus scaled_softplus_gradient "
        "shrink_gradient sigmoid_gradient silu silu_gradient silu_slope softplus softshrink "
        "tanh_gradient threshold"
    ),
    "elementwise": (
        "above add_product add_quotient add_scaled cast ceil clip clip_arrays copysign erf erfc "
        "fill_into floor floor_divide fmod frac hypot isfinite isinf isnan lerp logaddexp power remainder replace_nonfinite "
        "reverse_subtract rint rsqrt sgn sigmoid sign trunc where with_wide_number xlogy"
    ),
    "indexing": (
        "add_along add_rows add_slices fill_masked gather_along index_add_at index_put index_take out_of_range "
        "put_slices reduce_along slices_added take_slices write_along"
    ),
    "loss": (
        "binary_entropy binary_entropy_gradient huber huber_gradient logit_entropy "
        "logit_entropy_gradient smooth_l1 smooth_l1_gradient squared_distance "
        "squared_error_gradient"
    ),
    "batch_normalize": "batch_norm batch_norm_gradients move_statistics",
    "normalize": (
        "group_norm group_norm_gradients layer_norm layer_norm_gradients lengths "
        "rms_norm rms_norm_gradients"
    ),
    "pool": (
        "adaptive_sums add_at_places max_by_tables max_pool max_pool_places window_averages "
        "window_averages_adjoint"
    ),
    "random": (
        "by_c_library random_between random_doubles random_floats random_hits random_integers "
        "random_normal_floats random_normals random_order random_wide_normals random_wide_words random_words"
    ),
    "recurrent": "recurrent_layer recurrent_layer_gradients",
    "sequences": "counted spaced",
    "resample": "grid_gradients grid_values resample resample_adjoint",
    "reduce": "average nonzeros product sum_to total total_of_numbers variance",
    "extremes": "argmax argmin largest largest_at smallest smallest_at",
    "sorting": "bincount search sort topk unique",
    "pad": "pad_constant pad_edges",
    "bags": "bags",
    "masks": "expand select where_set",
    "scan": "running running_extreme",
    "views": "cat_plain contiguous copy_into joined rolled row_major stack_plain tiled triangle",
    "ctc": "ctc_loss ctc_loss_gradient",
    "distances": "distances distances_gradient own_distances own_distances_gradient",
    "class_entropy": "class_entropy class_entropy_gradient",
    "special": "digamma entropy erfinv lgamma ndtr ndtri polygamma xlog1py",
    "softmax": "log_softmax log_softmax_gradient logsumexp softmax softmax_gradient",
}

# Kernels that are NumPy's ufuncs: their own loops, shared by threads, or ours (_codegen/own.py).
SPREAD = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh conjugate cos cosh divide "
    "equal exp exp2 expm1 fmax fmin greater greater_equal less less_equal log log10 log1p log2 "
    "logical_and logical_not logical_or logical_xor maximum minimum multiply negative not_equal reciprocal "
    "sin sinh sqrt square subtract tan tanh"
)


# Elements that elementwise kernels go over in about 50 ms; FLOPS multiply-adds of a product, or one
# random number, count for one or as many as take that time.
ENOUGH = 50_000_000
FLOPS = 25
RANDOM = 5

active = False
_done = 0
_refused = os.environ.get("RUSHLIGHT_COMPILED") == "0"
_cells: list[tuple[str, Any]] = []  # where straight-line functions hold kernels, by name


def watch(name: str, cell: Any) -> None:
    """Put the compiled kernel of that name into a cell of a function, when there is one."""
    if not active:
        _cells.append((name, cell))


def threshold(size: int) -> int:
    """The size from which a kernel pays, as it was measured; 0 with RUSHLIGHT_COMPILED=always, in
    which tests run the machine code on all they have."""
    return 0 if os.environ.get("RUSHLIGHT_COMPILED") == "always" else size


def begin() -> None:
    """At the end of the import of rushlight: what RUSHLIGHT_COMPILED=1 asks for."""
    if os.environ.get("RUSHLIGHT_COMPILED") in ("1", "always"):
        activate()


def work(elements: int) -> None:
    """Count work that was done; enough of it activates the compiled back end."""
    global _done
    if active or _refused:
        return
    _done += elements
    if _done >= ENOUGH:
        activate()


def activate() -> bool:
    """Replace the kernels; False where there is no machine code to be had (or RUSHLIGHT_COMPILED=0)."""
    global active, _refused
    if active or _refused:
        return active
    from rushlight._backends import blas, cpu
    from rushlight._codegen import own, spread
    from rushlight._codegen.runtime import memory

    if not spread.available():
        _refused = True
        return False
    active = True
    try:
        ours, rows = own.table(), own.rows()
        twins = {
            name: spread.spread(getattr(cpu, name), ours.get(name), rows.get(name))
            for name in SPREAD.split()
        }
    except (
        BaseException
    ):  # Ctrl-C while LLVM loads: all is as before, and the next work tries again
        active = False
        raise
    blas.use_one_thread()
    memory.install()
    vars(cpu).update(twins)
    cpu.replace({k: f"llvm.{f}" for f, names in FAMILIES.items() for k in names.split()})
    for name, cell in _cells:
        cell.cell_contents = getattr(cpu, name)
    _cells.clear()
    return True
