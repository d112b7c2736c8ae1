"""Advice below an error that ends a program: what to do, and the page of the documentation.

Note [Advice on errors]
`error_table.py` holds the errors that users meet, with what to do. An error that nobody catches is compared with it, and where it
is one of them, it gets a note before Python or a notebook prints it. Nothing happens to errors that are caught, and nothing to the
text of any error: programs match it. The table is imported then, not before.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.core.error_table import Row

_FOLDER = __file__.removesuffix("core/advice.py").removesuffix("core\\advice.py")


def row_of(error: BaseException) -> Row | None:
    """The row of the table that an error belongs to; of several, the one of a function that it was raised in."""
    functions = _functions(error.__traceback__)
    if not functions:
        return None
    from rushlight.core.error_table import ROWS

    def fitness(row: Row) -> tuple[bool, bool]:
        return row.function in functions, row.phrase in str(error)

    found = [row for row in ROWS if row.is_of(error)]
    found = [row for row in found if not row.function or row.function in functions] or found
    return max(found, key=fitness, default=None)


def _functions(trace: TracebackType | None) -> set[str]:
    """The names of our functions in a traceback."""
    names = set()
    while trace:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith((_FOLDER, "<rushlight ")):
            names.add(code.co_name)
        trace = trace.tb_next
    return names


def note_advice(error: BaseException) -> None:
    """Add the note to an error that is in the table. It raises nothing: the error that is to be shown matters more."""
    try:
        if row := row_of(error):
            note = f"What to do: {row.advice} More: errors/{row.page} in the documentation."
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
    except Exception:
        pass


def show_in_notebook() -> None:
    """Let IPython's shell show the note, unless the user has a way of showing errors there."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or shell.custom_exceptions:
        return

    def show(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
        note_advice(error)
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell.set_custom_exc((Exception,), show)
