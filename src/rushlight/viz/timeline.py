"""The timeline of a profile as one HTML page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from html import escape
from importlib import resources
from typing import Any

from rushlight.autograd.profiler_events import Block, FunctionEvent


class Page:
    """An HTML page that needs no other file. `html` is its text; notebooks show it; `save(path)` writes it."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: Any) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        page = escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:480px;border:0"></iframe>'


def timeline(profile: Any) -> Page:
    """The timeline of a profile: zoom, search, and a link from each node of a backward to the call that made it.

    `profile`: of `torch.profiler.profile` or `torch.autograd.profiler.profile`. With `profile_memory=True` the page has the memory of
    the results over time, with `with_stack=True` too what is held at the peak, by the line that made it.

    >>> import rushlight as torch
    >>> from rushlight import viz
    >>> with torch.profiler.profile(profile_memory=True) as profile:
    ...     y = torch.ones(100).exp()
    >>> "aten::exp" in viz.timeline(profile).html
    True
    """
    recorded = profile.events() if callable(profile.events) else profile._events()
    blocks: list[Block] = recorded.blocks
    curve = _curve(blocks)
    data = {
        "events": [_described(e) for e in recorded],
        "memory": curve,
        "peak": _at_the_peak(blocks, curve),
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return Page(
        resources.files(__package__)
        .joinpath("timeline.html")
        .read_text("utf-8")
        .replace("DATA", text, 1)
    )


def _described(e: FunctionEvent) -> dict[str, Any]:
    shapes = ", ".join(str(shape) for shape in e.input_shapes if shape)
    return {
        "id": e.id,
        "name": e.name,
        "thread": e.thread,
        "start": round(e.time_range.start, 3),
        "duration": round(e.cpu_time_total, 3),
        "own": round(e.self_cpu_time_total, 3),
        "parent": None if e.cpu_parent is None else e.cpu_parent.id,
        "forward": e.forward,
        "memory": e.cpu_memory_usage,
        "shapes": shapes,
        "stack": "\n".join(e.stack[:6]),
    }


def _curve(blocks: list[Block]) -> list[tuple[float, int]]:
    """(time, bytes held from then on) at each time where it changes."""
    changes: Counter[float] = Counter()
    for block in blocks:
        changes[block.start] += block.nbytes
        if block.end is not None:
            changes[block.end] -= block.nbytes
    held, curve = 0, []
    for time in sorted(changes):
        held += changes[time]
        curve.append((round(time, 3), held))
    return curve


def _at_the_peak(blocks: list[Block], curve: list[tuple[float, int]]) -> list[tuple[int, int, str]]:
    """(bytes, number of tensors, line of the program or operator), the largest first."""
    if not curve:
        return []
    peak = max(curve, key=lambda point: point[1])[0]
    size: defaultdict[str, int] = defaultdict(int)
    count: Counter[str] = Counter()
    for block in blocks:
        if round(block.start, 3) <= peak and (block.end is None or round(block.end, 3) > peak):
            largest_block = block.event.stack[0] if block.event.stack else block.event.name
            size[largest_block] += block.nbytes
            count[largest_block] += 1
    largest = sorted(size, key=lambda largest_block: -size[largest_block])[:20]
    return [(size[largest_block], count[largest_block], largest_block) for largest_block in largest]
