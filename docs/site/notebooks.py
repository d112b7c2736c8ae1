"""The code blocks and the text of a page as a notebook."""

from __future__ import annotations

import re
from typing import Any

FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)


def notebook(text: str) -> dict[str, Any]:
    """A page as a notebook: blocks of Python and commands are cells, all else is text between them."""
    cells: list[dict[str, Any]] = []
    end = 0
    for block in FENCE.finditer(text):
        language, words, code = block[1], (block[2] or "").split(), block[3]
        if language == "console":
            commands = [line[2:] for line in code.splitlines() if line.startswith("$ ")]
            code = "".join(f"!{command}\n" for command in commands)
        elif language != "python" or "fragment" in words:
            continue  # a part of the text
        _add_text(cells, text[end : block.start()])
        tags = ["raises-exception"] if "raises" in words else []
        cells.append(
            {
                "cell_type": "code", "execution_count": None, "id": f"cell{len(cells)}", "metadata": {"tags": tags},
                "outputs": [], "source": code.rstrip("\n"),
            }
        )  # fmt: skip
        end = block.end()
    _add_text(cells, text[end:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _add_text(cells: list[dict[str, Any]], text: str) -> None:
    if text.strip():
        cell = {"cell_type": "markdown", "id": f"cell{len(cells)}", "metadata": {}}
        cells.append(cell | {"source": text.strip()})
