"""Checks the types of the examples and of the documentation's code, as users have them: mypy --strict, and pyright.

    python scripts/typecheck.py     # after python docs/build.py, which writes the code of the pages

Programs that say `import torch` are read with Rushlight in its place.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "site" / "source"
COPIES = ROOT / "build" / "typecheck"

# What an import of PyTorch becomes, in this order.
IMPORTS = (
    (r"^( *)import torchvision$", r"\1import rushlight.vision as torchvision"),
    (r"^( *)import torchvision\.", r"\1import rushlight.vision."),
    (r"^( *)from torchvision\b", r"\1from rushlight.vision"),
    (r"^( *)import torch$", r"\1import rushlight as torch"),
    (r"^( *)import torch\.", r"\1import rushlight."),
    (r"^( *)from torch\b", r"\1from rushlight"),
)


def copy(program: Path, folder: Path) -> None:
    """A copy of a program that imports Rushlight by its own name."""
    text = program.read_text("utf-8")
    for pattern, replacement in IMPORTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    (folder / program.name).write_text(text, "utf-8")


def main() -> int:
    pages = sorted(PAGES.rglob("code/*.py"))
    if not pages:
        sys.exit(f"no code of pages in {PAGES}: run docs/build.py first")
    shutil.rmtree(COPIES, ignore_errors=True)
    for name, programs in {
        "examples": sorted((ROOT / "examples").glob("*.py")),
        "pages": pages,
    }.items():
        (COPIES / name).mkdir(parents=True)
        for program in programs:
            copy(program, COPIES / name)
    settings = {
        "include": ["examples", "pages"],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "reportMissingImports": False,  # optional packages
        "reportMissingModuleSource": False,
    }
    (COPIES / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    python = [sys.executable, "-m"]
    checks = (
        [*python, "mypy", "--strict", "examples"],
        [*python, "mypy", "--strict", "--no-warn-unused-ignores", "pages"],
        [*python, "pyright", "--pythonpath", sys.executable],
    )
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    failed = 0
    for check in checks:
        if "mypy" in check:
            check = [*check, config, "--follow-imports=silent"]
        failed |= subprocess.run(check, cwd=COPIES, check=False).returncode
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
