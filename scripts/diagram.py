"""Draws docs/stages.svg, the stages of a call, and docs/layers.svg, the layers and who imports whom.

The stages come from Note [Two readers of one pipeline] in dispatch/registry.py and from the headings of
dispatch/emit.py, the layers from LAYERS in tests/test_architecture.py and from the imports themselves.

python scripts/diagram.py            # after a change of stages or layers
python scripts/diagram.py --check    # fails when a picture is not up to date
"""

from __future__ import annotations

import ast
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISPATCH = ROOT / "src" / "rushlight" / "dispatch"
LETTER = 0.602  # width of a letter of a monospaced font, in its size

# stage: what it does; the functions of the general way that carry it out
GENERAL = {
    "bind": ("Arguments get their parameters, defaults fill in.", "general.bind"),
    "intercept": (
        "Whoever takes the call over: overrides, autocast, profiles.",
        "interpreters.intercept overrides.dispatch",
    ),
    "unwrap": (
        "The arrays of the tensors, all of one device.",
        "general.on_one_device general.forward",
    ),
    "promote": ("All arrays in the dtype to compute in.", "general.common_dtype general.promote"),
    "run": ("A kernel of the back end that the arrays belong to.", "general.run"),
    "wrap": ("Tensors around the results, or a write into out=.", "results.wrap results.write_out"),
    "record": ("A node with edges to the inputs, and what its rules read.", "record.record"),
}
COLOURS = {
    "core": "#e9ecef", "rng": "#e9ecef", "_codegen": "#ffe3c2", "_backends": "#fff3bf",
    "autograd": "#d3f9d8", "dispatch": "#c5d8ff", "ops": "#dbe7ff", "rushlight": "#ffd8e6",
}  # fmt: skip


# -- pieces of pictures ----------------------------------------------------------------------------


def text(x: float, y: float, words: str, size: int = 13, **style: str) -> str:
    more = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in style.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{more}>{escape(words)}</text>'


def box(x: float, y: float, w: float, h: float, fill: str, **style: str) -> str:
    more = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in style.items())
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
        f'stroke="#495057"{more}/>'
    )


def titled(x: float, y: float, w: float, h: float, fill: str, lines: list[str]) -> list[str]:
    """A box with a bold first line and further ones in the middle."""
    top = y + h / 2 - (len(lines) - 1) * 8.5 + 4.5
    found = [box(x, y, w, h, fill)]
    for k, line in enumerate(lines):
        weight = "normal" if k else "bold"
        found.append(
            text(x + w / 2, top + 17 * k, line, 12 if k else 13, text_anchor="middle", font_weight=weight)
        )  # fmt: skip
    return found


def arrow(points: str, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="#343a40" stroke-width="1.5" marker-end="url(#tip)"{dashes}/>'


def picture(w: float, h: float, title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:g} {h:g}" width="{w:g}" height="{h:g}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" fill="#212529">'
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#343a40"/></marker></defs>'
    )
    note = "<!-- Written by scripts/diagram.py; do not edit. -->"
    ground = f'<rect width="{w:g}" height="{h:g}" fill="#ffffff"/>'
    return "\n".join(
        [head, f"<title>{escape(title)}</title>", note, tip, ground, *parts, "</svg>\n"]
    )


# -- the stages of a call --------------------------------------------------------------------------


def functions(path: Path) -> dict[str, int]:
    """function of a file -> the line where it begins"""
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef)}


def stages() -> list[str]:
    """The names of the stages in their order."""
    words = " ".join((DISPATCH / "registry.py").read_text("utf-8").split())
    found = re.search(r"A call goes through the stages ([\w, ]+) and (\w+)\.", words)
    if found is None:
        raise SystemExit("registry.py does not say which stages a call goes through")
    names = [*found[1].split(", "), found[2]]
    if names != list(GENERAL):
        raise SystemExit(f"registry.py has the stages {names}, scripts/diagram.py {list(GENERAL)}")
    return names


def printers() -> dict[str, list[str]]:
    """stage -> the functions of emit.py and emit_results.py that print lines of it."""
    found: dict[str, list[str]] = {}
    for file in ("emit.py", "emit_results.py"):
        source = (DISPATCH / file).read_text("utf-8")
        headings = re.finditer(r"^# -- (.+?) -+$", source, re.MULTILINE)
        lines = [(source[: m.start()].count("\n") + 1, m[1]) for m in headings]
        for name, at in functions(DISPATCH / file).items():
            stage = [heading for line, heading in lines if line < at]
            if stage and stage[-1] in GENERAL and not name.endswith("text_of"):
                found.setdefault(stage[-1], []).append(name)
    return found


def draw_stages() -> str:
    parts, printed = [], printers()
    top = [
        (20, "#f8f9fa", ["a call", "x + y"]),
        (250, "#c5d8ff", ["printed function", "plain arrays,", "one dtype, no mode"]),
        (520, "#c5d8ff", ["its key", "dtypes and numbers", "of the inputs"]),
        (790, "#c5d8ff", ["function of the key", "printed when the key", "comes again"]),
        (1060, "#dbe7ff", ["general way", "asks every question"]),
    ]
    for (x, fill, lines), w in zip(top, (150, 190, 190, 190, 190)):
        parts += titled(x, 40, w, 74, fill, lines)
    for a, b, words in ((170, 250, ""), (440, 520, "else"), (710, 790, ""), (980, 1060, "else")):
        parts.append(arrow(f"{a},77 {b},77"))
        parts.append(text((a + b) / 2, 70, words, 12, text_anchor="middle"))
    parts.append(text(20, 24, "Which function carries out a call", 15, font_weight="bold"))
    y = 160
    parts.append(text(20, y, "What it does", 15, font_weight="bold"))
    for x, words in ((670, "printed by (dispatch/emit.py)"), (960, "general way (dispatch/)")):
        parts.append(text(x, y, words, 13, font_weight="bold"))
    y += 18
    for k, name in enumerate(stages()):
        sentence, general = GENERAL[name]
        for each in general.split():
            file, _, function = each.partition(".")
            if function not in functions(DISPATCH / f"{file}.py"):
                raise SystemExit(f"scripts/diagram.py names {each}, which is not there")
        h = 26 + 17 * max(len(printed.get(name, [])), len(general.split())) - 8
        parts += titled(20, y, 130, h, "#d3f9d8", [name])
        parts.append(text(170, y + h / 2 + 4.5, sentence))
        test = ["a test: array_tests, modes"] if name == "intercept" else []
        for x, names in ((670, printed.get(name, test)), (960, general.split())):
            first = y + h / 2 - (len(names) - 1) * 8.5 + 4.5
            parts += [text(x, first + 17 * i, each, 12) for i, each in enumerate(names)]
        if k + 1 < len(GENERAL):
            parts.append(arrow(f"85,{y + h:g} 85,{y + h + 14:g}"))
        y += h + 14
    return picture(1270, y + 6, "The stages of a call", parts)


# -- the layers ------------------------------------------------------------------------------------


def draw_layers() -> str:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    import test_architecture as layers

    count, left, cell = len(layers.LAYERS), 700, 17
    edges: dict[tuple[int, int], bool] = {}  # (importing layer, imported): only inside functions
    for module in layers.MODULES:
        for target, _, lazily in layers.imports(module):
            pair = layers.rank(module), layers.rank(target)
            if pair[0] != pair[1]:
                edges[pair] = edges.get(pair, True) and lazily
    parts = [text(20, 26, "The layers, the highest first", 15, font_weight="bold")]
    parts.append(text(left, 26, "imports layer", 13, font_weight="bold"))
    y, rows = 62.0, {}
    for level in reversed(range(count)):
        x, top = 52.0, y
        for name in layers.LAYERS[level].split():
            w = len(name) * 12 * LETTER + 14
            if x + w > left - 20:
                x, y = 52, y + 26
            fill = COLOURS.get(name.split(".")[0], "#f8f9fa")
            parts += [box(x, y, w, 21, fill, stroke_width="0.7"), text(x + 7, y + 15, name, 12)]
            x += w + 5
        y += 26
        rows[level] = (top + y) / 2 - 2
        parts.append(text(40, rows[level] + 4, str(level + 1), 12, text_anchor="end"))
        y += 5
    for level in range(count):
        x = left + cell * (count - 1 - level) + cell / 2
        parts.append(text(x, 48, str(level + 1), 11, text_anchor="middle"))
        parts.append(f'<line x1="{x:g}" y1="54" x2="{x:g}" y2="{y:g}" stroke="#e9ecef"/>')
        parts.append(
            f'<line x1="{left}" y1="{rows[level]:g}" x2="{left + cell * count}" y2="{rows[level]:g}" '
            'stroke="#e9ecef"/>'
        )
    for level in range(count):
        x = left + cell * (count - 1 - level) + cell / 2
        parts.append(box(x - 6, rows[level] - 6, 12, 12, "#ced4da", stroke_width="0"))
    for (source, target), lazily in sorted(edges.items()):
        x = left + cell * (count - 1 - target) + cell / 2
        colour = "#e03131" if target > source else "#1c4ed8"
        fill = "#ffffff" if lazily else colour
        parts.append(
            f'<circle cx="{x:g}" cy="{rows[source]:g}" r="4.5" fill="{fill}" stroke="{colour}" '
            'stroke-width="1.5"/>'
        )
    y += 14
    key = [
        ("#1c4ed8", "#1c4ed8", "imports it"),
        ("#ffffff", "#1c4ed8", "only inside functions"),
        ("#ffffff", "#e03131", "upwards, inside functions: LAZY in tests/test_architecture.py"),
    ]
    x = 52.0
    for fill, colour, words in key:
        parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
        )
        parts.append(text(x + 12, y + 4, words, 12))
        x += 40 + len(words) * 12 * LETTER
    return picture(left + cell * count + 20, y + 20, "The layers and their imports", parts)


def main() -> int:
    written = {"stages.svg": draw_stages(), "layers.svg": draw_layers()}
    stale = 0
    for name, drawn in written.items():
        path = ROOT / "docs" / name
        if "--check" not in sys.argv:
            path.write_text(drawn, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != drawn:
            print(f"docs/{name} is not up to date: run scripts/diagram.py")
            stale += 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
