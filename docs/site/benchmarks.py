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
# name of a case, two times or more, then the ratio with its quartiles
ROW = re.compile(
    r"^(\S.*?)\s{2,}[\d.]+\s+[\d.]+\s+([\d.]+)\s+\(([\d.]+) \.\. ([\d.]+)\)", re.MULTILINE
)


def picture(text: str, title: str, path: Path) -> None:
    """Bars of the ratios, with their quartiles as lines."""
    rows = [(name, *map(float, numbers)) for name, *numbers in ROW.findall(text)]
    figure, axes = pyplot.subplots(figsize=(7, 0.7 + 0.35 * len(rows)))
    places = range(len(rows), 0, -1)
    axes.barh(places, [row[1] for row in rows], color="#2f6fb5", height=0.6)
    axes.hlines(
        places, [row[2] for row in rows], [row[3] for row in rows], color="black", linewidth=1
    )
    axes.axvline(1, color="grey", linestyle="--", linewidth=1)
    axes.set_yticks(places, [row[0] for row in rows])
    axes.set(title=title, xlim=(0, max(1.1, *(row[3] for row in rows))))
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
