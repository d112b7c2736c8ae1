"""Text for the `repr` of modules."""

from __future__ import annotations

from typing import Any


def indented(text: str) -> str:
    """The text with all lines but the first indented, for a child inside its parent's repr."""
    return text.replace("\n", "\n  ")


def unusual(module: Any, **usual: Any) -> str:
    """`, name=value` for each attribute that is not its usual value, for a `repr`."""
    text = ""
    for name, value in usual.items():
        own = getattr(module, name)
        if own is not value if isinstance(value, bool) else own != value:
            text += f", {name}={own}"
    return text
