"""`torch._inductor.config`: switches of PyTorch's code generator. All are kept, and none has an effect.

>>> import rushlight as torch
>>> torch._inductor.config.triton.unique_kernel_names = True
>>> with torch._inductor.config.patch({"triton.cudagraphs": True, "max_autotune": True}):
...     torch._inductor.config.max_autotune
True
>>> torch._inductor.config.max_autotune
False

Any switch can be set; one that was not set can be read if it is one of `_DEFAULTS`.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from rushlight.compiler.switches import Patch
from rushlight.core.stub import declare

__all__ = ["get_config_copy", "patch"]

declare("no-op", "Kept and without effect.", "rushlight._inductor", "config")

_GROUPS = (
    "aot_inductor aten_distributed_optimizations auto_chunker cpp cuda cutlass halide rocm test_configs trace triton xpu"
).split()
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(
        "allow_buffer_reuse dce epilogue_fusion fx_graph_cache inplace_buffers layout_optimization pattern_matcher "
        "permute_fusion prologue_fusion shape_padding split_reductions".split(),
        True,
    ),
    **dict.fromkeys(
        "abi_compatible always_keep_tensor_constants benchmark_kernel conv_1x1_as_mm coordinate_descent_check_all_directions "
        "coordinate_descent_tuning cpp_wrapper cpp.enable_kernel_profile cpp.weight_prepack debug epilogue_fusion_first "
        "force_disable_caches force_fuse_int_mm_with_mul freezing fx_graph_remote_cache group_fusion implicit_fallbacks "
        "max_autotune max_autotune_gemm max_autotune_pointwise profiler_mark_wrapper_call reorder_for_compute_comm_overlap "
        "size_asserts trace.enabled trace.graph_diagram triton.cudagraph_trees triton.cudagraphs triton.unique_kernel_names "
        "use_mixed_mm".split(),
        False,
    ),
    "compile_threads": 1,
    "cpu_backend": "cpp",
    "cpp.threads": -1,
    "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
    "max_fusion_size": 64,
}
_kept: dict[str, Any] = {}


def get_config_copy() -> dict[str, Any]:
    """The switches that were set, by name; those of groups as "triton.cudagraphs"."""
    return dict(_kept)


def patch(name: Any = None, value: Any = None, **values: Any) -> Patch:
    """A block or a decorator in which switches have other values, as of `torch._dynamo.config.patch`."""
    return Patch(sys.modules[__name__], name, value, values)


def _get(name: str) -> Any:
    for table in (_kept, _DEFAULTS):
        if name in table:
            return table[name]
    raise AttributeError(f"torch._inductor.config.{name} was not set; Rushlight has no Inductor")


class _Group:
    """The switches `NAME.*`, as attributes."""

    def __init__(self, name: str) -> None:
        vars(self)["_name"] = name

    def __getattr__(self, name: str) -> Any:
        return _get(f"{self._name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        _kept[f"{self._name}.{name}"] = value


class _Config(types.ModuleType):
    """The module, whose attributes are the switches."""

    def __getattr__(self, name: str) -> Any:
        return _get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):  # what imports write
            super().__setattr__(name, value)
        else:
            _kept[name] = value


globals().update({name: _Group(name) for name in _GROUPS})
sys.modules[__name__].__class__ = _Config
