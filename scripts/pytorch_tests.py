"""Compares a run of PyTorch's own test files on this package with the list of what does not pass, docs/pytorch_tests.md.

    python scripts/pytorch_tests.py BASELINE RESULTS            # fails when something fails that the list lacks
    python scripts/pytorch_tests.py BASELINE RESULTS --write    # the same, then writes smaller numbers and the table

Both are JSON files, `{"files": {file: {test: [status, message, place, seconds]}}}`: the tests on PyTorch and on this
package. Only tests that pass on PyTorch count. A row of the list is a file without `.py`, a pattern of test names (`*` stands for
anything), how many tests of that file and pattern fail, and the reason. The first row that matches a test has it. A
number may only become smaller; a row at 0 is deleted. What is said of files that RESULTS has not stays. Neither PyTorch's files nor the results are part of this project.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "pytorch_tests.md"
ROW = re.compile(
    r"^\| (?P<file>\S+) \| `(?P<tests>[^`]+)` \| (?P<number>\d+) \| (?P<reason>[^|]+) \|$", re.M
)
TABLE = re.compile(r"(?<=\| ---: \| ---: \| ---: \| ---: \| ---: \|\n)(\|.*\n)+")
SECTIONS = ("To be mended", "Left to the work on function transforms and graphs", "Internals")


class Row(NamedTuple):
    file: str
    tests: str
    number: int
    reason: str
    section: str

    def __str__(self) -> str:
        return f"| {self.file} | `{self.tests}` | {self.number} | {self.reason} |"


def rows_of(page: str) -> list[Row]:
    """The rows of the list in the text of the page, in order."""
    found = []
    for section in SECTIONS:
        _, _, text = page.partition(f"\n## {section}\n")
        text = text.split("\n## ")[0]
        for row in ROW.finditer(text):
            found.append(Row(row["file"], row["tests"], int(row["number"]), row["reason"], section))
    return found


def compare(rows: list[Row], base: dict, mine: dict) -> tuple[dict[Row, int], list[str], list[str]]:
    """(how many tests of each row fail, failing tests without a row, lines of the table by file)."""
    counts = dict.fromkeys(rows, 0)
    unknown = []
    table = []
    total: collections.Counter[str] = collections.Counter()
    for file, tests in base.items():
        name, here = file.removesuffix(".py"), mine.get(file, {})
        good = [
            t
            for t, r in tests.items()
            if r[0] == "passed" and here.get(t, ["not_run"])[0] != "not_run"
        ]
        got: collections.Counter[str] = collections.Counter(all=len(good))
        for test in good:
            if here[test][0] == "passed":
                got["passed"] += 1
                continue
            row = next(
                (r for r in rows if r.file == name and fnmatch.fnmatchcase(test, r.tests)), None
            )
            if row is None:
                unknown.append(f"{name} {test}: {here[test][1][:200]}")
                got[SECTIONS[0]] += 1
            else:
                counts[row] += 1
                got[row.section] += 1
        if good:
            table.append(_line(name, got))
            total.update(got)
    return counts, unknown, [*table, _line("all", total)]


def _line(name: str, got: collections.Counter[str]) -> str:
    asked = got["all"] - got[SECTIONS[1]] - got[SECTIONS[2]]
    share = f"{100 * got['passed'] / asked:.1f} %" if asked else "-"
    return f"| {name} | {got['all']} | {got['passed']} | {got[SECTIONS[2]]} | {got[SECTIONS[1]]} | {share} |"


def merged(before: str, now: list[str]) -> str:
    """The lines of the table by file with those of today in the place of theirs, and their sum."""
    lines = {line.split(" | ")[0]: line for line in before.splitlines()[:-1]}
    lines |= {line.split(" | ")[0]: line for line in now[:-1]}
    total: collections.Counter[str] = collections.Counter()
    for line in lines.values():
        numbers = map(int, line.split(" | ")[1:5])
        total.update(dict(zip(("all", "passed", SECTIONS[2], SECTIONS[1]), numbers, strict=True)))
    return "\n".join([*lines.values(), _line("all", total)]) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("baseline", type=Path)
    p.add_argument("results", type=Path)
    p.add_argument(
        "--write", action="store_true", help="write smaller numbers and the table by file"
    )
    options = p.parse_args()
    page = PAGE.read_text()
    rows = rows_of(page)
    base, mine = (json.loads(f.read_text())["files"] for f in (options.baseline, options.results))
    counts, unknown, table = compare(rows, base, mine)
    more = [f"{row}: now {counts[row]}" for row in rows if counts[row] > row.number]
    if options.write:
        for row in rows:
            if f"{row.file}.py" not in mine:
                continue
            number = min(counts[row], row.number)
            page = page.replace(f"{row}\n", f"{row._replace(number=number)}\n" if number else "")
        PAGE.write_text(TABLE.sub(lambda found: merged(found[0], table), page, count=1))
    print(table[-1])
    for line in more + unknown:
        print(line)
    sys.exit(1 if more or unknown else 0)


if __name__ == "__main__":
    main()
