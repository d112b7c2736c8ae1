"""`viz.module`: the calls inside of a model as boxes in boxes, from the input, above, to the output."""

from __future__ import annotations

from html import escape
from typing import Any

from rushlight.nn import Module
from rushlight.viz.calls import ModuleCall, run, shapes_text
from rushlight.viz.svg import MARGIN, Picture, text, text_width

__all__ = ["module"]

ROW = 24  # the height of a box without parts
HEAD = 26  # of the title of one with parts
INDENT = 12
LINE_OF_SHAPE = 18  # the height of the text outside
SPACE = 16  # between boxes, for the arrow and the shape beside it
_FRAMES = ("#fafafa", "#f1f5f9", "#e6edf5", "#dbe5f0")
WIDTH = 2 * INDENT


def module(model: Module, *args: Any, **kwargs: Any) -> Picture:
    """Draw the modules that a call of `model` with these arguments runs, in their order, with shapes.

    A tuple of whole numbers is a shape: `viz.module(model, (1, 3, 224, 224))`. Arrows follow the order of the calls;
    what a module computes beside its parts is not seen.
    """
    call = run(model, args, kwargs)
    width = _width(call, 0)
    parts: list[str] = []
    middle = MARGIN + width / 2
    parts.append(text(middle, MARGIN + 11, shapes_text(call.inputs), "n", "middle"))
    top = MARGIN + LINE_OF_SHAPE
    bottom = _draw(call, MARGIN, top, width, 0, parts)
    parts.append(_arrow(middle, bottom, bottom + SPACE))
    parts.append(text(middle, bottom + SPACE + 13, shapes_text(call.outputs), "n", "middle"))
    return Picture(
        type(model).__name__, width + 2 * MARGIN, bottom + SPACE + LINE_OF_SHAPE + MARGIN, parts
    )


def _title(call: ModuleCall) -> str:
    name = call.path.rpartition(".")[2]
    kind = type(call.module).__name__
    return f"{name}: {kind}" if name else kind


def _detail(call: ModuleCall) -> str:
    """What stands at the right: the shape of the result, and the parameters at their first call."""
    count = call.parameters
    shape = shapes_text(call.outputs)
    return f"{shape} · {count:,} parameters" if count and not call.again else shape


def _width(call: ModuleCall, depth: int) -> float:
    own = text_width(_title(call), "t") + text_width(_detail(call)) + WIDTH
    return max([own, *(_width(part, depth + 1) + WIDTH for part in call.parts)])


def _draw(
    call: ModuleCall, x: float, y: float, width: float, depth: int, parts: list[str]
) -> float:
    """Add the elements of a call; returns where it ends."""
    inner: list[str] = []
    bottom = y + ROW
    if call.parts:
        bottom = y + HEAD
        for n, part in enumerate(call.parts):
            if n:
                inner.append(_arrow(x + width / 2, bottom, bottom + SPACE))
                bottom += SPACE
            bottom = _draw(part, x + INDENT, bottom, width - WIDTH, depth + 1, inner)
        bottom += INDENT
    kept = "parameter" if call.parameters and not call.parts else ""
    fill = (
        _FRAMES[min(depth, len(_FRAMES) - 1)] if call.parts else ("#dbeafe" if kept else "#ffffff")
    )
    tooltip = (
        f"{call.path or type(call.module).__name__}: {call.module.extra_repr()}\n"
        f"{shapes_text(call.inputs)} -> {shapes_text(call.outputs)}\n"
        f"{call.parameters:,} parameters, {call.multiply_adds:,} multiply-adds"
    )
    parts.append(
        f'<g><title>{escape(tooltip)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{bottom - y:.1f}" rx="4" fill="{fill}" stroke="#94a3b8"/></g>'
    )
    parts.append(text(x + 8, y + 16, _title(call), "t"))
    parts.append(text(x + width - 8, y + 16, _detail(call), "n", "end"))
    parts += inner
    return bottom


def _arrow(x: float, top: float, bottom: float) -> str:
    return f'<path class="e" d="M{x:.1f},{top:.1f} V{bottom:.1f}" marker-end="url(#a)"/>'
