"""The operators, one file a family, in folders by what they are for.

`rushlight.dispatch` says how an operator is declared and called; in its `registry.py` a declaration becomes
functions.

To programs it is `torch.ops`, where PyTorch keeps operators by their inner names: `torch.ops.aten`.
"""

from __future__ import annotations

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("aten", "prims", "prim", "rushlight"):
        from rushlight.dispatch.overloads import Operators

        globals()[name] = found = Operators(name)
        return found
    if name == "higher_order":
        import importlib

        globals()[name] = found = importlib.import_module("rushlight._higher_order_ops.operators")
        return found
    own = sys.modules.get(
        "rushlight.library"
    )  # operators of the program; loaded where there are some
    if own is not None and any(each.startswith(f"{name}::") for each in own.OPERATORS):
        globals()[name] = found = own.Namespace(name)
        return found
    raise AttributeError(
        f"module 'torch.ops' has no attribute {name!r}: only aten and what torch.library declares are here"
    )
