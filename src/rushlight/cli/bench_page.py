"""The report of `rushlight bench --html`: one HTML page that needs no other file."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #18181b; --faint: #71717a; --line: #e4e4e7; --ours: #2f6fb5; --theirs: #a1a1aa; }
@media (prefers-color-scheme: dark) { :root { --page: #18181b; --text: #f4f4f5; --faint: #a1a1aa; --line: #3f3f46; --ours: #7fb2e5; --theirs: #71717a; } }
body { margin: 0 auto; max-width: 860px; padding: 16px; background: var(--page); color: var(--text); font: 15px/1.5 Helvetica, Arial, sans-serif; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin-top: 28px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } .facts td:first-child { white-space: nowrap; }
td, th { padding: 4px 16px 4px 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.case { margin: 10px 0; } .bar { height: 12px; border-radius: 2px; min-width: 2px; }
.row { display: grid; grid-template-columns: 84px 1fr 108px; gap: 8px; align-items: center; }
.ours { background: var(--ours); } .theirs { background: var(--theirs); } .faint { color: var(--faint); }
"""
_SIDES = (("rushlight", "Rushlight", "ours"), ("pytorch", "PyTorch", "theirs"))


def page(rows: list[dict[str, Any]], facts: dict[str, Any], when: str) -> str:
    """The text of the page: bars and a table of the rows of `rushlight bench --json`, and the machine."""
    both = any("pytorch" in row for row in rows)
    note = (
        "Median time of a call, both sides in one process, in turns. A ratio below 1: Rushlight is faster."
        if both
        else "Median time of a call."
    )
    head = "".join(f"<th{_NUMBER}>{name}</th>" for name in ["Rushlight, µs", *_MORE[: 3 * both]])
    cells = "".join(
        f"<tr><td>{escape(k)}</td><td>{escape(_line(v))}</td></tr>" for k, v in facts.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rushlight bench</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>rushlight bench</h1>
<p>{note} <span class="faint">{escape(when)}</span></p>
{"".join(map(_bars, rows))}
<h2>Numbers</h2>
<div class="wide"><table>
<tr><th>case</th>{head}</tr>
{"".join(map(_numbers, rows))}
</table></div>
<h2>Machine</h2>
<div class="wide"><table class="facts">{cells}</table></div>
</body>
</html>
"""


_NUMBER = ' class="number"'
_MORE = ["PyTorch, µs", "ratio", "its quartiles"]


def _bars(row: dict[str, Any]) -> str:
    """The times of one case as bars; the longest fills the line."""
    longest = max(row[key] for key, _, _ in _SIDES if key in row)
    bars = "".join(
        f'<div class="row"><span>{label}</span><div class="bar {kind}" style="width:{100 * row[key] / longest:.1f}%"></div>'
        f"<span{_NUMBER}>{1e6 * row[key]:,.1f} µs</span></div>"
        for key, label, kind in _SIDES
        if key in row
    )
    return f'<div class="case">{escape(row["name"])}{bars}</div>\n'


def _numbers(row: dict[str, Any]) -> str:
    values = [f"{1e6 * row['rushlight']:,.1f}"]
    if "pytorch" in row:
        low, high = row["quartiles"]
        values += [
            f"{1e6 * row['pytorch']:,.1f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f} to {high:.2f}",
        ]
    cells = "".join(f"<td{_NUMBER}>{value}</td>" for value in values)
    return f"<tr><td>{escape(row['name'])}</td>{cells}</tr>\n"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}".strip() for k, v in value.items()) or "none"
    return str(value)
