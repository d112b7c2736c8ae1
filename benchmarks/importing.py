"""What `import rushlight` costs on top of `import numpy`: milliseconds of each module, slowest first.

    python benchmarks/importing.py [--rounds 20] [--above 0.3]

Each round is a process of its own with bytecode on disk; a module's time is its own, without what it
imports, the best of the rounds (`python -X importtime`). PyTorch is not needed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

TARGET = 30.0  # milliseconds


def once() -> dict[str, float]:
    """Milliseconds of each module that comes with Rushlight and not with NumPy, in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import numpy, rushlight"],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    rows = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = [row[-1].strip() for row in rows]
    return {
        name: int(row[0].removeprefix("import time:")) / 1000
        for name, row in list(zip(names, rows, strict=True))[names.index("numpy") + 1 :]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--above", type=float, default=0.3, help="list modules from this time on")
    args = parser.parse_args()
    once()  # writes the bytecode
    rounds = [once() for _ in range(args.rounds)]
    best = {name: min(each[name] for each in rounds if name in each) for name in rounds[0]}
    for name, took in sorted(best.items(), key=lambda item: -item[1]):
        if took >= args.above:
            print(f"{took:7.2f} ms  {name}")
    total = sum(best.values())
    print(f"{total:7.2f} ms  in {len(best)} modules; the promise is {TARGET:.0f}")
    sys.exit(total > TARGET)


if __name__ == "__main__":
    main()
