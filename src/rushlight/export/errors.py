"""What cannot be exported, with the line of the user's program."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, NoReturn

import rushlight

__all__ = ["ExportError", "refuse", "user_line"]

_PACKAGE = os.path.dirname(rushlight.__file__) + os.sep
_OURS = (_PACKAGE + "vision", _PACKAGE + "testing")  # these are programs, too


class ExportError(RuntimeError):
    """A program cannot be exported; the message has the line of the program."""


def user_line() -> str:
    """The innermost line outside of this package that is running, as tracebacks show it."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS) or not file.startswith((_PACKAGE, "<rushlight", "<frozen")):
            where = traceback.FrameSummary(file, frame.f_lineno, frame.f_code.co_name)
            return "".join(traceback.format_list([where])).rstrip("\n")
        frame = frame.f_back
    return ""


def refuse(what: str, where: str | None = None) -> NoReturn:
    """ExportError, with the user's line."""
    raise ExportError(f"{what}\n\n{user_line() if where is None else where}")
