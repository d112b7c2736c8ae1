"""What is written, as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.tensor import Tensor


def make_np(thing: Any) -> np.ndarray:
    """Return a tensor, an array or a number as an array; raise NotImplementedError for anything else, as PyTorch does."""
    if isinstance(thing, Tensor):
        thing = thing.detach()
        return (thing.float() if thing.dtype.name == "bfloat16" else thing).cpu().numpy()
    if isinstance(thing, np.ndarray):
        return thing
    if np.isscalar(thing):
        return np.array([thing])
    raise NotImplementedError(
        f"Got {type(thing)}, but numpy array or torch tensor are expected (SummaryWriter)"
    )
