"""Back ends: each a closed list of kernels on arrays; `base.py` says what each kernel means.

This is `torch.backends` too: `cudnn`, `cuda`, `mps`, `mkl`... answer for libraries that PyTorch asks
about, and load when asked for.
"""

from __future__ import annotations

from typing import Any

_PROBES = ("cpu cuda cudnn mha mkl mkldnn mps nnpack openmp opt_einsum quantized xnnpack").split()
fp32_precision = "none"


def __getattr__(name: str) -> Any:
    if name in _PROBES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
