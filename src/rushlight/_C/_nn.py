"""The names of PyTorch's `torch._C._nn` that programs import."""

from __future__ import annotations

from typing import Any

from rushlight.nn.convert import parse_to as _parse_to

__all__ = ["_parse_to"]

# Functions that PyTorch has as `torch._C._nn.<name>` and, the same objects, in `nn.functional`: graphs name them so.
FUNCTIONS = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear log_sigmoid one_hot scaled_dot_product_attention "
    "softplus softshrink".split()
)


def __getattr__(name: str) -> Any:
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import rushlight.nn.functional as F

    return getattr(F, name.replace("log_s", "logs"))
