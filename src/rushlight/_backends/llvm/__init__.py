"""The compiled back end: the reference's kernels, some of them replaced by machine code.

It is the reference (`cpu.py`) with the kernels of `index.LLVM` put in their places, by `activate()`. When that
happens is decided here and nowhere else:

* with the first call of a kernel on LARGE elements, or
* with the first parameter of a module, so that all steps of a training run the same kernels, also those of a
  training that goes on from a checkpoint, or
* when the calls of a process together have done ENOUGH work, or
* at import with RUSHLIGHT_COMPILED=1, or never with RUSHLIGHT_COMPILED=0.

To activate takes about 20 ms, and each kernel a millisecond when it is first called, if it stands on disk; the
first time on a machine LLVM is loaded and compiles it, in 20 to 50 ms. Work is counted, never timed, and the disk is
not looked at, so that a program computes the same numbers in every run: until then a function stands before each
kernel that would be replaced, and counts its calls. RUSHLIGHT_LOG=kernels prints what happens, and why.

With the kernels come two settings that NumPy's own arrays see: memory of large arrays comes from a pool, and
NumPy's products stay on the thread that calls them. `keep_numpy()` takes both back.

A compiled kernel has the name and the arguments of the reference's and stands in `llvm/<family>.py` under
`@implements(...)` (`registration.py`); all that it is not made for, or is too small to pay, goes to the
reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

import numpy as np

from rushlight._backends.index import LLVM
from rushlight.core.collector import paused

# Work is counted in elements that kernels go over, about a nanosecond each; every call counts CALL more.
CALL = 1000
LARGE = 16_384
ENOUGH = 2_000_000  # 2,000 calls on a few elements take about 10 ms
# The operators with an entry for all that they do, see whole.py.
WHOLE = frozenset(
    "complex index_add index_copy index_reduce index_select polar renorm masked_scatter scatter_add scatter_reduce "
    "take aten.index_fill_value aten.masked_fill aten.scatter_src aten.scatter_value "
    "pixel_shuffle pixel_unshuffle channel_shuffle roll flip grid_sampler_2d grid_sampler_3d "
    "internal.avg_pool1d internal.avg_pool2d internal.avg_pool3d internal.adaptive_avg_pool1d "
    "internal.adaptive_avg_pool2d internal.adaptive_avg_pool3d internal.adaptive_max_pool1d "
    "internal.adaptive_max_pool2d internal.adaptive_max_pool3d internal.max_pool1d_with_indices "
    "internal.max_pool2d_with_indices internal.max_pool3d_with_indices internal.upsample_nearest1d "
    "internal.upsample_nearest2d internal.upsample_nearest3d internal.upsample_linear1d "
    "internal.upsample_bilinear2d internal.upsample_trilinear3d internal.upsample_bicubic2d "
    "internal._upsample_nearest_exact1d internal._upsample_nearest_exact2d "
    "internal._upsample_nearest_exact3d internal.max_pool1d internal.max_pool2d internal.max_pool3d "
    "internal.avg_pool1d_gradient internal.avg_pool2d_gradient internal.avg_pool3d_gradient "
    "internal.adaptive_avg_pool1d_gradient internal.adaptive_avg_pool2d_gradient "
    "internal.adaptive_avg_pool3d_gradient rot90 aten._unsafe_view diag_embed constant_pad_nd "
    "_all.sum_to_size linalg.cholesky_ex linalg.lu_factor_ex linalg.ldl_factor_ex linalg.qr "
    "internal.householder_product linalg.solve_triangular internal.lu_solved _group_norm _batch_norm "
    "nn.functional._glu internal.reflection_pad1d internal.reflection_pad2d internal.reflection_pad3d "
    "internal.replication_pad1d internal.replication_pad2d internal.replication_pad3d "
    "internal.circular_pad1d internal.circular_pad2d internal.circular_pad3d _pdist_forward "
    "internal.fractional_max_pool2d internal.fractional_max_pool3d "
    "nn.functional._multi_margin_loss".split()
)

active = False
_numpy_kept = False
_done = 0
_refused = os.environ.get("RUSHLIGHT_COMPILED") == "0"
_counted: dict[str, Any] = {}  # what stands before kernels and counts their calls, by their names


def counted(name: str, kernel: Any) -> Any:
    """A kernel of the reference, with what counts its calls before it if it would be replaced."""
    if active or _refused or name not in LLVM:
        return kernel
    if name not in _counted:
        _counted[name] = update_wrapper(_counting(name, kernel), kernel)
    return _counted[name]


def _counting(name: str, kernel: Any) -> Callable[..., Any]:
    """What counts a call; the one that activates machine code runs as machine code itself."""

    def one(a: Any, **options: Any) -> Any:
        work(a.size if a.__class__ is np.ndarray else 0)
        return (_replaced(name) if active else kernel)(a, **options)

    def elementwise(a: Any, b: Any, **options: Any) -> Any:
        n = largest((a, b))
        if n < LARGE and np.ndim(a) and np.ndim(b) and a.size * b.size >= LARGE:
            try:
                n = np.broadcast(a, b).size
            except ValueError:
                pass  # the kernel says what does not fit
        work(n)
        return (_replaced(name) if active else kernel)(a, b, **options)

    def several(*args: Any, **options: Any) -> Any:
        work(largest(args))
        return (_replaced(name) if active else kernel)(*args, **options)

    if isinstance(kernel, np.ufunc):
        return one if kernel.nin == 1 else elementwise
    code = getattr(kernel, "__code__", None)  # NumPy's functions have none
    if code is None or kernel.__defaults__ or code.co_kwonlyargcount or code.co_argcount != 1:
        return several
    return several if code.co_flags & 4 else one  # 4: it takes *args


def _replaced(name: str) -> Any:
    from rushlight._backends import cpu

    return cpu.kernel(name)


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
        activate("RUSHLIGHT_COMPILED")


def work(elements: int) -> None:
    """Count a call on so many elements; a large one, or enough of them, activates the compiled back end."""
    global _done
    _done += elements + CALL
    if elements >= LARGE:
        activate(f"a call on {elements:,} elements ({LARGE:,} are enough)")
    elif _done >= ENOUGH:
        activate(f"calls on small arrays together counted {_done:,} ({ENOUGH:,} are enough)")


def activate(why: str = "") -> bool:
    """Replace the kernels; False where there is no machine code to be had (or RUSHLIGHT_COMPILED=0).

    `why` is what the log says.
    """
    global active, _refused
    if active or _refused:
        return active
    with paused():
        from rushlight._backends import blas, cpu
        from rushlight._codegen import native, parallel_ufuncs
        from rushlight._codegen.runtime import memory

    if not parallel_ufuncs.available():
        _refused = True
        cpu.replace({}, {name: function.__wrapped__ for name, function in _counted.items()})
        _counted.clear()
        return False
    active = True
    if native.LOGGED:
        native.log(f"machine code from here on: {why}")
    if not _numpy_kept:
        blas.use_one_thread()
        memory.install()
    try:
        cpu.replace({kernel: f"llvm.{family}" for kernel, family in LLVM.items()}, {})
    except BaseException:  # Ctrl-C: the next work tries again
        active = False
        raise
    _counted.clear()
    return True


def keep_numpy() -> None:
    """Leave NumPy's allocator and the threads of its products as they are without machine code, from now on."""
    global _numpy_kept
    _numpy_kept = True
    if active:
        from rushlight._backends import blas
        from rushlight._codegen.runtime import memory

        blas.use_former_threads()
        memory.uninstall()
