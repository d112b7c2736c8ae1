"""Names for type annotations: `torch.types.Device`, `Number`, `_size`..."""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["Device", "FileLike", "Number", "Storage"]  # noqa: F822 -- made below, when asked for

Number = builtins.int | builtins.float | builtins.bool
_bool, _int, _float, _complex = builtins.bool, builtins.int, builtins.float, builtins.complex


def __getattr__(name: str) -> Any:
    """Annotations of our own classes, which load when a program asks for them."""
    import os
    from collections.abc import Sequence
    from typing import IO

    import rushlight as torch

    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = {
        "Device": lambda: torch.device | str | int | None,
        "FileLike": lambda: str | os.PathLike[str] | IO[bytes],
        "Storage": lambda: torch.UntypedStorage,
        "Size": lambda: torch.Size,
        "SymBool": lambda: torch.SymBool,
        "SymFloat": lambda: torch.SymFloat,
        "SymInt": lambda: torch.SymInt,
        "py_sym_types": lambda: (torch.SymInt, torch.SymFloat, torch.SymBool),
        "_device": lambda: torch.device,
        "_dtype": lambda: torch.dtype,
        "_layout": lambda: torch.layout,
        "_size": lambda: torch.Size | list[int] | tuple[int, ...],
        "_TensorOrTensors": lambda: torch.Tensor | Sequence[torch.Tensor],
        "Tensor": lambda: torch.Tensor,
    }
    if name not in made:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = made[name]()
    return found
