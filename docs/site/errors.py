"""Writes the page of errors from tests/error_table.py, with the text that Rushlight raises now.

python docs/site/errors.py PAGE.md
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import rushlight as torch  # noqa: E402
import rushlight.utils.data  # noqa: E402  the programs say torch.utils.data
from error_table import ERRORS  # noqa: E402  tests/error_table.py

INTRO = """# Errors

Common errors: a short program that has each, what it says, and what to do. Type and text are PyTorch's, so that programs that catch or
match them work; often there is more after PyTorch's words. An error inside of a model has a note, which Python shows below the error: the
path of the module, its settings, and the dtypes and shapes that it was called with.
"""


def text_of(program: str) -> str:
    """The last lines of the traceback of a program: its error and the notes."""
    try:
        exec(program, {"torch": torch, "nn": torch.nn, "F": torch.nn.functional})
    except Exception as error:
        return "".join(traceback.format_exception_only(error)).rstrip()
    raise AssertionError(f"no error: {program}")


def main() -> None:
    warnings.simplefilter("ignore")
    lines = [INTRO]
    for section, rows in ERRORS.items():
        lines.append(f"## {section}\n")
        for name, program, _, _, advice in rows:
            lines.append(f"### {name[0].upper()}{name[1:]}\n")
            lines.append(f"```python fragment\n{program}\n```\n")
            lines.append(
                f"```{{code-block}} text\n:class: output error\n\n{text_of(program)}\n```\n\n{advice}\n"
            )
    Path(sys.argv[1]).write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
