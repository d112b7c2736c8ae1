"""`torch.nn.functional`: all its functions, found by name in the operators' index.

A function that PyTorch has both at the top and here (`conv2d`, `relu`, `sigmoid`) and that differs
in neither place is declared once, at the top.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.dispatch import methods, overrides

# Functions of the top namespace that are public here too.
TOP = frozenset(
    (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear "
        "binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
        "conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss "
        "cosine_similarity ctc_loss dropout embedding embedding_bag feature_alpha_dropout "
        "group_norm hardshrink hinge_embedding_loss instance_norm kl_div layer_norm log_softmax "
        "margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool3d "
        "native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle "
        "poisson_nll_loss prelu relu relu_ rms_norm rrelu rrelu_ selu selu_ sigmoid softmax tanh "
        "threshold threshold_ triplet_margin_loss"
    ).split()
)
# Names of torch.overrides that programs take from here.
HOOKS = frozenset(
    (
        "handle_torch_function has_torch_function has_torch_function_unary "
        "has_torch_function_variadic"
    ).split()
)
overrides.FUNCTIONAL = globals()
INPLACE = frozenset(f"{n}_" for n in ("elu", "hardtanh", "leaky_relu"))


def __getattr__(name: str) -> Any:
    if name == "grad":
        import importlib

        return importlib.import_module("rushlight.nn.grad")
    if name == "__all__":  # of `from torch.nn.functional import *`
        return __dir__()
    names = methods.index.FUNCTIONS
    if name in HOOKS:
        return getattr(rushlight.overrides, name)
    if f"nn.functional.{name}" in names:
        found = methods.function(f"nn.functional.{name}")
    elif name in TOP and name in names:
        found = methods.function(name)
    elif name in TOP and name[-1] == "_" and name in methods.index.INPLACE:
        found = methods.load(methods.index.INPLACE[name]).build().inplace
    elif name[-1:] == "_" and f"nn.functional.{name[:-1]}" in methods.index.INPLACE.values():
        found = methods.load(f"nn.functional.{name[:-1]}").build().inplace
    else:
        raise AttributeError(
            f"module 'rushlight.nn.functional' has no attribute {name!r}: not implemented here; "
            "docs/coverage.md lists what is"
        )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    names, inplace = methods.index.FUNCTIONS, methods.index.INPLACE
    own = {n.removeprefix("nn.functional.") for n in names if n.startswith("nn.functional.")}
    own |= {n for n in TOP if n in names}
    own |= {f"{n}_" for n in own if inplace.get(f"{n}_") in (n, f"nn.functional.{n}")}
    return sorted(n for n in own if n[0] != "_" and "." not in n and (n[-1] != "_" or has(n)))


def has(name: str) -> bool:
    """True if PyTorch has this in-place function in `nn.functional`: activations, not arithmetic."""
    return name in TOP or name in INPLACE
