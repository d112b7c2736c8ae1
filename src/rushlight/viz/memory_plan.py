"""`viz.memory`: which block of memory lives from when to when, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rushlight.viz.svg import COLOURS, LINE, MARGIN, Picture, bytes_text, text, text_width

__all__ = ["Block", "memory"]

WIDTH, HEIGHT = 720, 360  # of the rectangle that stands for all steps and all bytes
KINDS = ("plain", "parameter", "input", "buffer", "module", "result")


@dataclass
class Block:
    """A block of memory: its size and offset in bytes, the first and the last step that need it."""

    name: str
    size: int
    first: int
    last: int
    offset: int = 0


def memory(blocks: Sequence[Block], steps: int) -> Picture:
    """Draw blocks of memory: steps from left to right, addresses from below."""
    total = max((b.offset + b.size for b in blocks), default=0)
    alone = sum(b.size for b in blocks)
    note = f"{len(blocks)} blocks, {bytes_text(alone)}, in {bytes_text(total)}"
    top = MARGIN + LINE + 6
    parts = [text(MARGIN, MARGIN + 12, note, "n")]
    across, up = WIDTH / max(steps, 1), HEIGHT / max(total, 1)
    parts.append(
        f'<rect x="{MARGIN}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#d4d4d8"/>'
    )
    for k, b in enumerate(blocks):
        fill, border = COLOURS[KINDS[k % len(KINDS)]]
        x, width = MARGIN + b.first * across, (b.last + 1 - b.first) * across
        height = b.size * up
        y = top + HEIGHT - b.offset * up - height
        said = f"{b.name}: {bytes_text(b.size)}, steps {b.first} to {b.last}"
        parts.append(
            f'<g><title>{escape(said)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{fill}" stroke="{border}"/>'
        )
        if height > LINE and width > text_width(b.name) + 6:
            parts.append(text(x + width / 2, y + height / 2 + 4, b.name, "", "middle"))
        parts.append("</g>")
    parts.append(text(MARGIN, top + HEIGHT + LINE, f"{steps} steps", "n"))
    return Picture("memory", WIDTH + 2 * MARGIN, top + HEIGHT + LINE + MARGIN, parts)
