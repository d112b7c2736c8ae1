"""The page of sweep.py: one picture for each family of operators, and the slowest cases; HTML without other files."""

from __future__ import annotations

import collections
import html
import math
from typing import Any

COLOURS = {1: "#d08700", 1_000: "#2b6cb0", 1_000_000: "#2f855a"}
LEFT, RIGHT, ROW, WIDTH = -3.0, 5.0, 14, 640  # powers of two at the ends of the axis; pixels
NAMES = 260  # pixels left of the axis


def page(results: list[dict[str, Any]]) -> str:
    """HTML of the results of sweep.py."""
    timed = [r | {"ratio": r["theirs"] / r["ours"]} for r in results if "ours" in r]
    families = collections.defaultdict(list)
    for r in timed:
        families[r["family"]].append(r)
    body = [_line("all", timed), *(_line(name, rows) for name, rows in sorted(families.items()))]
    slow = sorted(timed, key=lambda r: r["ratio"])[:100]
    return _PAGE.format(
        table="\n".join(body),
        pictures="\n".join(
            f"<h2>{html.escape(n)}</h2>{picture(rows)}" for n, rows in sorted(families.items())
        ),
        slow="\n".join(
            f"<tr><td>{html.escape(r['key'])}<td>{r['ours'] * 1e6:.1f}<td>{r['theirs'] * 1e6:.1f}<td>{r['ratio']:.2f}"
            for r in slow
        ),
    )


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    ratios = [r["ratio"] for r in rows]
    mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
    even = 100 * sum(x >= 1 for x in ratios) / max(1, len(ratios))
    return f"<tr><td>{html.escape(name)}<td>{len(rows)}<td>{mean:.2f}<td>{even:.1f} %<td>{sum(x < 0.5 for x in ratios)}"


def picture(rows: list[dict[str, Any]]) -> str:
    """SVG: a line for each operator, the slowest first; a dot for each case, its place PyTorch's time / ours."""
    by_op = collections.defaultdict(list)
    for r in rows:
        by_op[r["op"]].append(r)
    ops = sorted(by_op.items(), key=lambda item: min(r["ratio"] for r in item[1]))
    height = ROW * (len(ops) + 2)
    marks = [
        f'<line x1="{_x(2.0**e):.0f}" x2="{_x(2.0**e):.0f}" y1="{ROW}" y2="{height}" class="{"one" if e == 0 else "grid"}"/>'
        f'<text x="{_x(2.0**e):.0f}" y="{ROW - 4}" text-anchor="middle">{2.0**e:g}</text>'
        for e in range(int(LEFT), int(RIGHT) + 1)
    ]
    for i, (op, cases) in enumerate(ops):
        y = ROW * (i + 1.8)
        marks.append(
            f'<text x="{NAMES - 8}" y="{y + 4:.0f}" text-anchor="end">{html.escape(op)}</text>'
        )
        marks += [
            f'<circle cx="{_x(r["ratio"]):.1f}" cy="{y:.0f}" r="3" fill="{COLOURS.get(r["size"], "#555")}" fill-opacity="0.6">'
            f"<title>{html.escape(r['key'])}: {r['ratio']:.2f}</title></circle>"
            for r in cases
        ]
    return f'<svg width="{NAMES + WIDTH + 20}" height="{height}">{"".join(marks)}</svg>'


def _x(ratio: float) -> float:
    where = min(max(math.log2(ratio), LEFT), RIGHT)
    return NAMES + WIDTH * (where - LEFT) / (RIGHT - LEFT)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Rushlight and PyTorch, operator by operator</title>
<style>
body {{ font: 14px sans-serif; max-width: 940px; margin: 2em auto; color: #222 }}
table {{ border-collapse: collapse }} td, th {{ padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }}
td:first-child, th:first-child {{ text-align: left }}
svg text {{ font-size: 11px; fill: #333 }} .grid {{ stroke: #e5e5e5 }} .one {{ stroke: #c53030 }}
</style>
<h1>Rushlight and PyTorch, operator by operator</h1>
<p>A dot is a case: an operator at one size, dtype, layout and direction. Its place is PyTorch's time divided by ours: right of
the red line Rushlight is faster. Orange: 1 element, blue: 1,000, green: 1,000,000. A dot's text says which case it is.</p>
<table><tr><th>family<th>cases<th>geometric mean<th>at least as fast<th>slower than twice
{table}
</table>
{pictures}
<h2>The slowest cases</h2>
<table><tr><th>case<th>Rushlight us<th>PyTorch us<th>PyTorch's time / ours
{slow}
</table>
</html>
"""
