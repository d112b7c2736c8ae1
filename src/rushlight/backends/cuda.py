"""`torch.backends.cuda`: settings of CUDA libraries, without effect."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.core.stub import declare, stub


def is_built() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


class _Matmul:
    """Settings of CUDA's matrix product."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


matmul = _Matmul()
declare("no-op", "There is no CUDA device: its switches can be set.", __name__, "matmul")
_attention = dict.fromkeys(["flash", "mem_efficient", "math", "cudnn"], True)


def _switch(kind: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    @stub("no-op", "Attention on the CPU has one kernel.")
    def enable(enabled: bool) -> None:
        """Has no effect: attention on the CPU has one kernel."""
        _attention[kind] = bool(enabled)

    def asked() -> bool:
        """The value that was set."""
        return _attention[kind]

    return enable, asked


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


@contextlib.contextmanager
def _switched(**switches: bool) -> Iterator[dict[str, Any]]:
    before = dict(_attention)
    _attention.update(switches)
    try:
        yield {}
    finally:
        _attention.update(before)


@stub("no-op", "Attention on the CPU has one kernel.")
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """A block with other kernels of attention, without effect. FutureWarning."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be "
        "removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context manager, with updated "
        "signature.",
        FutureWarning,
        stacklevel=2,
    )
    return _switched(
        flash=enable_flash, mem_efficient=enable_mem_efficient, math=enable_math, cudnn=enable_cudnn
    )


def is_flash_attention_available() -> bool:
    """False."""
    return False


@stub("no-op", "There is no GPU.")
def preferred_linalg_library(backend: Any = None) -> str:
    """Has no effect: there is no library of CUDA."""
    return "default"


preferred_blas_library = preferred_linalg_library


class SDPAParams:
    """The arguments of `can_use_flash_attention`."""

    def __init__(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout: float = 0.0,
        is_causal: bool = False, enable_gqa: bool = False,
    ) -> None:  # fmt: skip
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: these kernels run on GPUs."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention
_half_sums = False


@stub("no-op", "There is no GPU.")
def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Has no effect: attention on the CPU sums in float32."""
    global _half_sums
    _half_sums = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """The value that was set."""
    return _half_sums


def __getattr__(name: str) -> Any:
    if name == "SDPBackend":  # older programs take it from here
        import rushlight

        return rushlight.nn.attention.SDPBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
