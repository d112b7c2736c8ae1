"""`FileCheck`: whether texts stand in a printed program, and in which order. LLVM's tool of this name has the same words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["FileCheck"]

_LINE = re.compile(
    r"\s*#\s*CHECK(-NOT|-SAME|-NEXT|-DAG|-SOURCE-HIGHLIGHTED|-REGEX|-COUNT-(?:EXACTLY-)?(\d+))?:(.*)"
)


class Check(NamedTuple):
    """One line of a check: how it is found (a word of LLVM's tool), what, and how often."""

    how: str
    what: str
    count: int = 1

    def __str__(self) -> str:
        number = f"-{self.count}" if self.how.startswith("COUNT") else ""
        return f"CHECK{'-' * bool(self.how)}{self.how}{number}: {self.what}"


class FileCheck:
    """Checks that are gone through in order by `run`; each begins where the one before has found its text.

    >>> from rushlight.testing import FileCheck
    >>> FileCheck().check("add").check_not("sub").check_next("mul").run("y = add(x)\\nz = mul(y)")
    """

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def _added(self, how: str, what: str, count: int = 1) -> FileCheck:
        if not isinstance(what, str):
            name = "check_" + how.lower().replace("-", "_") if how else "check"
            raise TypeError(
                f"{name}(): incompatible function arguments: expected str, got {what!r}"
            )
        self._checks.append(Check(how, what, count))
        return self

    def check(self, text: str) -> FileCheck:
        """The text comes later."""
        return self._added("", text)

    def check_not(self, text: str) -> FileCheck:
        """The text does not come before what the next check finds, or before the end."""
        return self._added("NOT", text)

    def check_same(self, text: str) -> FileCheck:
        """The text comes later in the same line."""
        return self._added("SAME", text)

    def check_next(self, text: str) -> FileCheck:
        """The text comes in the next line."""
        return self._added("NEXT", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes `count` times; `exactly`: and not once more before what the next check finds."""
        if count:
            self._added("COUNT", text, count)
        elif not exactly:
            raise RuntimeError("Count == 0 && !exactly doesn't do anything")
        return self._added("NOT", text) if exactly else self

    def check_dag(self, text: str) -> FileCheck:
        """The text comes later; those of neighbouring `check_dag` in any order."""
        return self._added("DAG", text)

    def check_source_highlighted(self, text: str) -> FileCheck:
        """The text comes later, with `~` below all of it."""
        return self._added("SOURCE-HIGHLIGHTED", text)

    def check_regex(self, pattern: str) -> FileCheck:
        """A match of the regular expression comes later."""
        return self._added("REGEX", pattern)

    def run(self, *texts: Any) -> None:
        """Check a text or graph, or, given two, the second by the lines `# CHECK...: text` of the first. RuntimeError
        where a check fails."""
        if len(texts) not in (1, 2):
            raise TypeError(
                f"run(): incompatible function arguments: expected 1 or 2, got {len(texts)}"
            )
        for line in texts[0].splitlines() if len(texts) == 2 else ():
            if found := _LINE.fullmatch(line):
                how, number, what = found[1] or "", found[2], found[3].strip()
                if number:
                    self.check_count(what, int(number), "EXACTLY" in how)
                else:
                    self._added(how[1:], what)
        if not self._checks:
            raise RuntimeError(
                "No checks have been added to this instance of FileCheck! Check for bad input."
            )
        text, end, absent, start = str(texts[-1]), 0, [], 0
        before = Check("", "")
        for check in self._checks:
            if check.how == "NOT":
                absent.append(check)
                before = check
                continue
            if not check.how == before.how == "DAG":
                start = end
            first, last = self._found(check, text, start)
            for other in absent:
                _refuse(other, other.what, text, end, first)
            absent = []
            end = max(end, last) if check.how == "DAG" else last
            before = check
        for other in absent:
            _refuse(other, other.what, text, end, len(text))

    def _found(self, check: Check, text: str, start: int) -> tuple[int, int]:
        """Where the text of a check begins first, and where it ends last; RuntimeError if it does not come."""
        if check.how == "REGEX":
            if match := re.compile(check.what).search(text, start):
                return match.span()
            raise RuntimeError(
                f'Expected to find regex "{check.what}" but did not find it\n'
                f"Searched string:\n{text[start:]}\nFrom {check}\n"
            )
        first, end = -1, start
        for _ in range(check.count):
            at = text.find(check.what, end)
            if at < 0:
                raise RuntimeError(
                    f'Expected to find "{check.what}" but did not find it\n'
                    f"Searched string:\n{text[end:]}\nFrom {check}\n"
                )
            first, end = at if first < 0 else first, at + len(check.what)
        if check.how == "SAME":
            _refuse(check, "\n", text, start, first)
        elif check.how == "NEXT":
            at = text.find("\n", start, first)
            if at < 0:
                raise RuntimeError(
                    f'Expected to find "\\n" but did not find it\nSearched string:\n{text[start:first]}\nFrom {check}\n'
                )
            _refuse(check, "\n", text, at + 1, first)
        elif check.how == "SOURCE-HIGHLIGHTED":
            self._marked(check, text, first)
        return first, end

    def _marked(self, check: Check, text: str, first: int) -> None:
        column = first - (text.rfind("\n", 0, first) + 1)
        below = text[first:].splitlines()[1:2]
        if not below or below[0][column : column + len(check.what)] != "~" * len(check.what):
            raise RuntimeError(
                f'Expected to find "{check.what}" highlighted but it is not.\n{text}'
            )


def _refuse(check: Check, what: str, text: str, start: int, end: int) -> None:
    """RuntimeError if `what` stands between two places of the text."""
    at = text.find(what, start, end)
    if at < 0:
        return
    shown = what.replace("\n", "\\n")
    until = text.find("\n", at)
    until = len(text) if until < 0 or what == "\n" else until
    mark = "" if what == "\n" else "\n" + " " * (at - text.rfind("\n", 0, at) - 1)
    mark += "" if what == "\n" else "~" * len(what) + " <--- HERE"
    raise RuntimeError(
        f'Expected to not find "{shown}" but found it\n{text[:until]}{mark}{text[until:]}\nFrom {check}\n'
    )
