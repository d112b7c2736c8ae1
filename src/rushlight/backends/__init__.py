"""`torch.backends`: settings of, and questions about, the libraries that PyTorch uses; submodules load at first use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_PROBES = ("cpu cuda cudnn mha mkl mkldnn mps nnpack openmp opt_einsum quantized xnnpack").split()
fp32_precision = "none"


@contextlib.contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    """A block in which programs may set switches: here they always may."""
    yield


def __getattr__(name: str) -> Any:
    if name in _PROBES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
