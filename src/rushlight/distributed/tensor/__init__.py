"""`torch.distributed.tensor`: tensors that are spread over the processes of a mesh.

A `DTensor` has the shape of the whole, and each process holds a part (api.py). Placements say how it lies along each dimension
of the mesh: cut, replicated, or as summands. Operators run on the parts (dispatch.py) by rules (rules.py, rules_nn.py, rules_places.py).
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "api": ("DTensor", "distribute_module", "distribute_tensor"),
    "factories": ("empty", "full", "ones", "rand", "randn", "zeros"),
    "placement_types": ("Partial", "Placement", "Replicate", "Shard"),
}
_MESHES = ("DeviceMesh", "init_device_mesh")  # PyTorch has them here, too
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = frozenset(("debug", "experimental", "parallel", "placement_types", "random"))

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "ones", "rand", "randn", "zeros",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MESHES:
        return getattr(importlib.import_module("rushlight.distributed.device_mesh"), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in (
        "rules",
        "rules_nn",
        "rules_places",
        "random",
    ):  # they declare how operators are carried out
        importlib.import_module(f"{__name__}.{module}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
