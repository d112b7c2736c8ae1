"""Text for the `repr` of modules."""

from __future__ import annotations

from typing import Any


def indented(text: str) -> str:
    """The text with all lines but the first indented, for a child inside its parent's repr; blank lines are emptied."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def unusual(module: Any, **usual: Any) -> str:
    """`, name=value` for each attribute that is not its usual value, for a `repr`."""
    text = ""
    for name, value in usual.items():
        own = getattr(module, name)
        if own is not value if isinstance(value, bool) else own != value:
            text += f", {name}={own}"
    return text


def html(module: Any, name: str = "") -> str:
    """What a notebook shows of a module: its parts, to open and close, with the numbers of their parameters."""
    from html import escape

    count = sum(
        p.numel() for p in module.parameters() if type(p).__name__ != "UninitializedParameter"
    )
    title = f"{name}: {module._get_name()}" if name else module._get_name()
    head = f"{escape(title)}({escape(module.extra_repr())})" + (
        f" <small>{count:,} parameters</small>" if count else ""
    )
    parts = [html(part, key) for key, part in module._modules.items() if part is not None]
    if not parts:
        return f'<div style="margin-left:1.2em">{head}</div>'
    state = "" if name else " open"
    return f'<details{state} style="margin-left:1.2em"><summary>{head}</summary>{"".join(parts)}</details>'
