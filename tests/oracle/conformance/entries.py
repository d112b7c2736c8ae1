"""PyTorch's databases: which entries are checked, which samples of them, and every special treatment."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.testing._internal.opinfo.core import (
    OpInfo,
    gradcheck_wrapper_masked_operation,
    gradcheck_wrapper_masked_pointwise_operation,
)

from .libraries import REF
from .observations import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

# Everything torch's databases list and this harness leaves out, and why (regexes, full match).
EXCLUDED = {
    r"sparse\..*|to_sparse": "sparse tensors",
    r"jiterator_.*": "CUDA only",
    r"bmm\.triton_optimized|nn\.functional\.batch_norm\.without_cudnn": "CUDA only",
    r"torch\._scaled_mm.*": "float8, CUDA only",
    r"torch\.ops\.aten\..*": "internal ATen operator",
    r"slice|native_dropout_backward|max_pool2d_with_indices_backward": "internal ATen operator",
    r"_softmax_backward_data|_native_batch_norm_legit|_batch_norm_with_update|_upsample_bilinear2d_aa"
    r"|_chunk_cat|_segment_reduce.*|_unsafe_masked_index.*": "private (leading underscore)",
    r"SparseAdam": "sparse gradients",
}
# Also left out, per sample: sparse / quantized / nested / non-CPU tensors and tensors of more than
# libraries.MAX_NUMEL elements; samples on which torch itself raises for that variant.

# Outputs that depend on the random generator: compared by shape and dtype, and loosely by distribution.
RANDOM = {
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "normal",
    "uniform",
    "bernoulli",
    "multinomial",
    "randn",
    "randn_like",
    "rand_like",
    "randint",
    "randint_like",
}
# May be random depending on arguments: torch is run with two seeds to find out; if random, shape and dtype only.
MAYBE_RANDOM = {
    "nn.functional." + n
    for n in (
        "dropout dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu fractional_max_pool2d "
        "fractional_max_pool3d scaled_dot_product_attention multi_head_attention_forward"
    ).split()
}
MAYBE_RANDOM |= {"svd_lowrank", "pca_lowrank"}
# Uninitialised memory: shape and dtype only.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
}
# Index outputs not determined among equal elements: any index that selects an equal element is right.
TIES = {"median", "nanmedian", "sort", "argsort"}
# Factorisations determined up to sign/phase (and null-space columns, eigenvalue order): see `canonical`.
GAUGE = {
    "svd",
    "linalg.svd",
    "linalg.eigh",
    "linalg.eig",
    "linalg.eigvals",
    "linalg.qr",
    "qr",
    "svd_lowrank",
    "pca_lowrank",
}
# Slips in torch's own database: its rand_like entry calls torch.randn_like.
CORRECTED = {"rand_like": torch.rand_like}
# Gradient of these wrappers goes through private torch.masked helpers; the plain operator is used instead.
PLAIN_WRAPPERS = {
    gradcheck_wrapper_masked_operation,
    gradcheck_wrapper_masked_pointwise_operation,
    OpInfo.__dataclass_fields__["gradcheck_wrapper"].default,
}


@dataclasses.dataclass
class Config:
    """How much of an entry is checked."""

    dtypes: tuple
    grad_dtypes: tuple
    max_samples: int
    kept: int  # of these, so that what a sampled run checks is part of what a full one does
    strict: bool = False


@dataclasses.dataclass
class Check:
    """One thing the candidate is held to. Making it ran PyTorch; `run` runs the candidate."""

    group: str  # e.g. "function/float32"
    kind: str  # sample | grad | gradgrad | error | refusal | state_dict | repr
    run: Callable  # raises on failure; may return a dict of marks


def settings(full, strict=False, samples=None):
    """The sample: five dtypes, three inputs of each. In full: every dtype, eight inputs."""
    few = ("float32", "float64", "int64", "bool", "complex64")
    more = ("float16", "bfloat16", "complex128", "uint8", "int8", "int16", "int32")
    n = samples or 8
    kept = n if full or samples else 3
    return Config(few + more if full else few, ("float64", "complex128"), n, kept, strict)


def excluded(name):
    return next((why for rx, why in EXCLUDED.items() if re.fullmatch(rx, name)), None)


def spread(items, n):
    """n of the items, evenly spaced."""
    if len(items) <= n:
        return items
    return [
        items[i] for i in sorted({round(k * (len(items) - 1) / max(n - 1, 1)) for k in range(n)})
    ]


def pick(samples, n):
    """n samples spread over all of them, at most a quarter with empty tensors if others are to be had."""

    def empty(s):
        return any(t.numel() == 0 for t in tensors_in(REF, [s.input, s.args]))

    dull, keen = [], []
    for i, s in enumerate(samples):
        (dull if empty(s) else keen).append((i, s))
    keep = max(n - len(keen), min(len(dull), n // 4))
    return [
        s for _, s in sorted(spread(keen, n - keep) + spread(dull, keep), key=lambda pair: pair[0])
    ]


def seed_all(n=0):
    torch.manual_seed(n)
    np.random.seed(n)
    torch.testing._internal.common_utils.set_rng_seed(n)
