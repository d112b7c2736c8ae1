"""Writes the pages of errors from core/error_table.py, with the text that Rushlight raises now.

    python docs/site/errors.py FOLDER     # FOLDER/errors.md, a table, and FOLDER/errors/NAME.md, a page for each

The note below an error that ends a program names its page (see core/advice.py).
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path

import rushlight as torch
import rushlight.utils.data  # the programs say torch.utils.data
from rushlight.core.error_table import ERRORS, Row

ROOT = f"{Path(__file__).resolve().parent.parent.parent}/"
INTRO = """# Errors

Common errors, with a page for each: a short program that has it, what it says, and what to do. Types are PyTorch's, and PyTorch's words
are in the text, so that programs that catch or match them work; often there is more after them. An error that ends a program has a last
line that names its page. An error inside of a model has a note, too: the path of the module, its settings, and the dtypes and shapes
that it was called with.
"""
TABLE = "| error | PyTorch's type and words | text in Rushlight |\n| --- | --- | --- |"
LONGEST = 220  # letters of a text in the table; the page has all of it


def text_of(program: str) -> str:
    """The last lines of the traceback of a program: its error and the notes."""
    try:
        exec(program, {"torch": torch, "nn": torch.nn, "F": torch.nn.functional})
    except Exception as error:
        return "".join(traceback.format_exception_only(error)).rstrip().replace(ROOT, "")
    raise AssertionError(f"no error: {program}")


def cell(text: str) -> str:
    """Text as code in a cell of a table: one line, cut where it is long."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
    return f"`` {line} ``".replace("|", "\\|")


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    (folder / "errors").mkdir(parents=True, exist_ok=True)
    lines = [INTRO]
    for section, rows in ERRORS.items():
        lines += [f"## {section}\n", TABLE]
        for row in (Row(*each) for each in rows):
            first, *rest = row.name.split(" ")
            title = " ".join([f"`{first}`" if row.function else first.capitalize(), *rest])
            text = text_of(row.program)
            message = text.split("\nIn the module")[0].partition(": ")[2]
            lines.append(
                f"| [{title}](errors/{row.page}.md) | {cell(f'{row.kind}: {row.phrase}')} | {cell(message)} |"
            )
            page = f"""---
orphan: true
---

# {title}

```python fragment
{row.program}
```

```{{code-block}} text
:class: output error

{text}
```

**What to do.** {row.advice}

PyTorch raises `{row.kind}`, too, with the words {cell(row.phrase)}.

[All errors](../errors.md)
"""
            (folder / "errors" / f"{row.page}.md").write_text(page, "utf-8")
        lines.append("")
    (folder / "errors.md").write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
