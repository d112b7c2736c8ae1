"""`torch.functional`: functions of the top namespace that PyTorch writes in Python, under their module's name."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist "
    "chain_matmul einsum istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique "
    "unique_consecutive unravel_index"
).split()
__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    import rushlight

    if name == "F":
        return rushlight.nn.functional
    if name.startswith("__") or name not in __all__:
        raise AttributeError(
            f"module 'torch.functional' has no attribute {name!r}; most functions are in torch itself"
        )
    return getattr(rushlight, name)


def __dir__() -> list[str]:
    return list(__all__)
