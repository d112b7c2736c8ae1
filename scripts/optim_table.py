"""Write tests/data/optim.json: what PyTorch makes of the runs in tests/optim_cases.py.

    python scripts/optim_table.py

Needs PyTorch. The tests that read the file (tests/test_optim_table.py) do not.
"""

from __future__ import annotations

import json
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    import torch

    import optim_cases

    warnings.simplefilter("ignore")
    target = ROOT / "tests" / "data" / "optim.json"
    target.parent.mkdir(exist_ok=True)
    stored = {"torch": torch.__version__.split("+")[0], **optim_cases.table(torch)}
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in stored.items()]
    target.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
