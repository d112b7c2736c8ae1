"""The operators, one file a family, in folders by what they are for.

`rushlight.dispatch` says how an operator is declared and called; in its `registry.py` a declaration becomes
functions.

To programs it is `torch.ops`, where PyTorch keeps operators by their inner names: `torch.ops.aten`.
"""

from __future__ import annotations

import importlib
from typing import Any

# What pytest asks of each package whose doctests it runs: no namespaces of operators.
ASKED_BY_PYTEST = frozenset(
    "pytest_plugins pytestmark setUpModule setup_module tearDownModule teardown_module".split()
)


def __getattr__(name: str) -> Any:
    from importlib.util import find_spec

    if name in ("aten", "prims", "prim", "rushlight"):
        from rushlight.dispatch.overloads import Operators

        found: Any = Operators(name)
    elif name == "higher_order":
        found = importlib.import_module("rushlight._higher_order_ops.operators")
    elif name.startswith("__") or name in ASKED_BY_PYTEST or find_spec(f"{__name__}.{name}"):
        raise AttributeError(f"module 'torch.ops' has no attribute {name!r}")
    else:  # operators of the program, which may be declared later
        found = importlib.import_module("rushlight._ops").Namespace(name)
    globals()[name] = found
    return found
