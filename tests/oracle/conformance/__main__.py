"""How much of PyTorch's behaviour the package reproduces, by PyTorch's own databases.

    python -m tests.oracle.conformance                                         the sample the tests run
    python -m tests.oracle.conformance --full --match '^nn.functional' --verbose
    python -m tests.oracle.conformance --full --candidate torch                torch itself: 100 %

Exits 1 when something fails that known_failures.txt does not list, or passes that it lists.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded

from .counting import render, rows_of
from .known import difference, known_failures
from .planning import worklist
from .runs import run

SRC = Path(__file__).resolve().parents[3] / "src"


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="python -m tests.oracle.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = p.add_argument
    add("--full", action="store_true", help="every dtype and eight inputs of each, not a sample")
    add("--samples", type=int, metavar="N", help="inputs of each dtype (3; 8 with --full)")
    add("--only", choices=("ops", "modules", "optimizers"))
    add("--match", default="", metavar="REGEX", help="only entries whose name contains this")
    add("--verbose", action="store_true", help="print everything that does not pass")
    add("--jobs", type=int, default=1, help="processes side by side (1)")
    add("--json", metavar="OUT", help="write everything here")
    add("--candidate", default="rushlight", help="the module that stands in for torch")
    add("--path", action="append", default=[str(SRC)], help="where to look for it")
    add(
        "--strict", action="store_true", help="no more rounding than torch.testing.assert_close has"
    )
    add("--check-timeout", type=float, default=20, help="seconds for one check (20)")
    add("--op-timeout", type=float, default=120, help="seconds for one entry (120)")
    return p.parse_args()


def main() -> int:
    args = arguments()
    sys.path[:0] = args.path
    began = time.time()
    listed = known_failures() if args.candidate == "rushlight" else {}
    args.in_full = {entry for entry, _ in listed}
    tasks, left_out = worklist(args)
    entries, notes = run(args, tasks)
    rows = rows_of(tasks, entries)
    table = render(rows) + (
        f"\n{len(left_out)} entries excluded, {len(notes['crashes'])} crashed, "
        f"{sum(e['near'] for s in entries.values() for e in s.values())} samples accepted beyond "
        f"torch.testing's tolerance, {len(listed)} known failures; {time.time() - began:.0f} s"
    )
    print(table)
    new, stale = difference(entries, listed, whole=not (args.match or args.only))
    for name, text in notes["harness_errors"].items():
        new.append(f"{name}: the harness itself failed: {text}")
    for line in new:
        print("fails:", line)
    for line in stale:
        print("listed as failing, but passes:", line)
    if args.json:
        report = {"table": table, "new": new, "stale": stale, "left_out": left_out, **notes}
        report["entries"] = entries
        Path(args.json).write_text(json.dumps(report, indent=1))
    return int(bool(new or stale))


if __name__ == "__main__":
    sys.exit(main())
