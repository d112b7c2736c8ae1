"""Writes the page of benchmarks: a picture and the output of each file of benchmarks/results/, then benchmarks/README.md.

python docs/site/benchmarks.py PAGE.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
mpl.rcParams["svg.hashsalt"] = "rushlight"

from matplotlib import pyplot  # noqa: E402

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
# name of a case, two times, their ratio, and its quartiles where the program prints them
ROW = re.compile(
    r"^(\S.*?)\s{2,}[\d.]+\s+[\d.]+\s+([\d.]+)(?:\s+\(([\d.]+) \.\. ([\d.]+)\))?", re.MULTILINE
)
MANY = 40  # rows; more are points in the order of their ratios, for bars would fill pages
BLUE = "#2f6fb5"


def picture(text: str, title: str, path: Path) -> None:
    """Bars of the ratios, with their quartiles as lines; points where there are many."""
    rows = [
        (name, float(ratio), float(low or ratio), float(high or ratio))
        for name, ratio, low, high in ROW.findall(text)
    ]
    many = len(rows) > MANY
    figure, axes = pyplot.subplots(figsize=(7, 3.2 if many else 0.7 + 0.35 * len(rows)))
    if many:
        ratios = sorted(row[1] for row in rows)
        axes.plot(ratios, range(1, len(ratios) + 1), ".", color=BLUE)
        axes.set(ylabel="cases with at most this ratio", xlim=(0, min(4, 1.05 * ratios[-1])))
    else:
        places = range(len(rows), 0, -1)
        axes.barh(places, [row[1] for row in rows], color=BLUE, height=0.6)
        low, high = [row[2] for row in rows], [row[3] for row in rows]
        axes.hlines(places, low, high, color="black", linewidth=1)
        axes.set_yticks(places, [row[0] for row in rows])
        axes.set_xlim(0, max(1.1, *high))
    axes.axvline(1, color="grey", linestyle="--", linewidth=1)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)


def main() -> None:
    page = Path(sys.argv[1])
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    title, intro, rest = text.split("\n\n", 2)
    lines = [title, "", intro, ""]
    for result in sorted((BENCHMARKS / "results").glob("*.txt")):
        title = f"{result.stem}.py: time of Rushlight / time of PyTorch"
        picture(result.read_text("utf-8"), title, page.parent / f"benchmarks_{result.stem}.svg")
        lines.append(f"## Measured: `{result.name}`\n\n![{title}](benchmarks_{result.stem}.svg)\n")
        lines.append(f"```text\n{result.read_text('utf-8').rstrip()}\n```\n")
    lines += ["## The programs\n", rest]
    page.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
