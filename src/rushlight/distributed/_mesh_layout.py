"""What a pickle has of the dimensions of a `DeviceMesh`, under PyTorch's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _FlatLayout:
    """One dimension: sizes and strides in the row of ranks."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class _MeshLayout:
    """All dimensions of a mesh."""

    axes: tuple[_FlatLayout, ...]
