"""Writes the table of measurements in README.md from benchmarks/results/core.txt.

python scripts/readme.py            # after python benchmarks/core.py > benchmarks/results/core.txt
python scripts/readme.py --check    # fails when the table is not that of the file
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "core.txt"
PART = re.compile(r"(?<=core\.txt -->\n).*?(?=<!-- end -->)", re.DOTALL)
ROW = re.compile(r"^(\S.*?)\s{2,}([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+\(", re.MULTILINE)
FACT = re.compile(r"^(CPU|PyTorch) +(.*?)(?:, load.*)?$", re.MULTILINE)


def table(text: str) -> str:
    """The measured cases as Markdown; a ratio below 1 means that Rushlight is faster."""
    facts = dict(FACT.findall(text))
    rows = [
        f"| {case} | {float(ours):,.1f} | {float(theirs):,.1f} | {float(ratio):.2f} |"
        for case, ours, theirs, ratio in ROW.findall(text)
    ]
    return "\n".join(
        [
            "| | Rushlight, µs | PyTorch, µs | ratio |",
            "| --- | ---: | ---: | ---: |",
            *rows,
            "",
            f"{facts['CPU']}; PyTorch {facts['PyTorch']}. Both in one process, in turns; medians.",
            "",
        ]
    )


def main() -> int:
    readme = ROOT / "README.md"
    old = readme.read_text("utf-8")
    new = PART.sub(lambda _: table(RESULT.read_text("utf-8")), old)
    if "--check" in sys.argv:
        if new != old:
            print(
                "README.md: the table is not that of benchmarks/results/core.txt; run scripts/readme.py"
            )
        return int(new != old)
    readme.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
