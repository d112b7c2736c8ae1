"""`torch.nn.modules`: PyTorch's longer paths, `torch.nn.modules.conv.Conv2d`, to the files of `torch.nn`.

Each file gets the undocumented names too that PyTorch's file of that name has.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from rushlight import nn
from rushlight.compat import private_names

__all__ = list(nn.__all__)
__path__: list[str] = []  # imported as a package, whose files are those of `nn`

# PyTorch's files that have another name in Rushlight
_RENAMED = {"channelshuffle": "pixelshuffle", "utils": "tuples"}

for _name in [*nn._FILES, "lazy", "module", *_RENAMED]:
    _file = import_module(f"rushlight.nn.{_RENAMED.get(_name, _name)}")
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _file
    private_names.add(f"torch.nn.modules.{_name}", _file)


def __getattr__(name: str) -> Any:
    return getattr(nn, name)
