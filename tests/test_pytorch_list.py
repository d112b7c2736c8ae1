"""docs/pytorch_tests.md, the list of PyTorch's tests that do not pass here, and the program that holds it."""

from __future__ import annotations

import collections
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location(
    "pytorch_tests", ROOT / "scripts" / "pytorch_tests.py"
)
listing = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(listing)
PAGE = (ROOT / "docs" / "pytorch_tests.md").read_text()

SMALL = """
## To be mended

| file | tests | number | reason |
| --- | --- | ---: | --- |
| test_a | `T.test_x_*` | 1 | the order of equal values |

## Internals

| file | tests | number | reason |
| --- | --- | ---: | --- |
| test_a | `T.test_inner` | 1 | TorchScript |
"""


def results(**status):
    return {"test_a.py": {f"T.test_{name}": [s, "", "", 0.1] for name, s in status.items()}}


def test_each_table_adds_up():
    rows = listing.rows_of(PAGE)
    assert len({(r.file, r.tests) for r in rows}) == len(rows)
    listed = collections.Counter()
    for row in rows:
        listed[row.file] += row.number
    lines = re.findall(r"^\| (\S+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| ", PAGE, re.M)
    assert lines
    for name, all_, passed, inner, transforms in lines:
        missing = int(all_) - int(passed)
        assert missing == (listed.total() if name == "all" else listed[name]), name
        assert int(inner) + int(transforms) <= missing


def test_a_failing_test_without_a_row_is_reported():
    rows = listing.rows_of(SMALL)
    base = results(x_1="passed", x_2="passed", y="passed", inner="passed", z="failed")
    counts, unknown, table = listing.compare(
        rows, base, results(x_1="failed", x_2="error", y="error", inner="error", z="failed")
    )
    assert [counts[r] for r in rows] == [2, 1]
    assert [line.split(":")[0] for line in unknown] == ["test_a T.test_y"]
    assert table[-1] == "| all | 4 | 0 | 1 | 0 | 0.0 % |"


def test_what_passes_needs_no_row():
    counts, unknown, table = listing.compare(
        listing.rows_of(SMALL), results(x_1="passed"), results(x_1="passed")
    )
    assert not unknown and not sum(counts.values())
    assert table[-1] == "| all | 1 | 1 | 0 | 0 | 100.0 % |"


def test_lines_of_files_that_did_not_run_stay():
    before = (
        "| test_a | 4 | 1 | 1 | 1 | 50.0 % |\n| test_b | 10 | 8 | 2 | 0 | 100.0 % |\n"
        "| all | 14 | 9 | 3 | 1 | 90.0 % |\n"
    )
    now = ["| test_a | 4 | 3 | 1 | 0 | 100.0 % |", "| all | 4 | 3 | 1 | 0 | 100.0 % |"]
    assert listing.merged(before, now).splitlines() == [
        now[0],
        "| test_b | 10 | 8 | 2 | 0 | 100.0 % |",
        "| all | 14 | 11 | 3 | 0 | 100.0 % |",
    ]
