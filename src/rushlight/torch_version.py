"""`TorchVersion`: a version that is a text and compares as a version."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

_FORM = re.compile(
    r"v?(\d+(?:\.\d+)*)[-_.]?(?:(a|alpha|b|beta|c|rc|pre|preview)[-_.]?(\d*))?(?:[-_.]?(post|rev|r)[-_.]?(\d*))?"
    r"[-_.]?(?:(dev)[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_EARLY = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}


def _key(text: str) -> tuple | None:
    """What orders versions by PEP 440; None for a text that is no version."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    release, early, number, post, post_number, dev, dev_number, local = match.groups()
    numbers = [int(n) for n in release.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if early is not None:
        stage: tuple = (_EARLY[early.lower()], int(number or 0))
    else:
        stage = (-1, 0) if dev and not post else (3, 0)  # a dev version without stage comes first
    after = int(post_number or 0) + 1 if post else 0
    before = (0, int(dev_number or 0)) if dev else (1, 0)
    # parts of a local version: numbers are larger than texts, any is larger than none
    parts = re.split(r"[-_.]", local.lower()) if local else []
    own = tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
    return numbers, stage, after, before, own


class TorchVersion(str):
    """A version number as a text that compares with texts and tuples as versions do.

    >>> TorchVersion("1.10.0a") > "1.2", TorchVersion("2.13.0") >= (2, 13), TorchVersion("1.8.0") == "1.8"
    (True, True, True)
    """

    __slots__ = ()

    def _compare(self, other: Any) -> tuple[Any, Any] | None:
        if isinstance(other, (tuple, list)):
            other = ".".join(map(str, other))
        if not isinstance(other, str):
            return None
        # plain texts: a comparison of two of this class would come back here
        mine, theirs = _key(str.__str__(self)), _key(str.__str__(other))
        if mine is None or theirs is None:
            return str.__str__(self).encode(), str.__str__(other).encode()
        return mine, theirs

    def __eq__(self, other: object) -> bool:
        pair = self._compare(other)
        return pair is not None and pair[0] == pair[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        pair = self._compare(other)
        return NotImplemented if pair is None else pair[0] < pair[1]

    def __le__(self, other: Any) -> bool:
        pair = self._compare(other)
        return NotImplemented if pair is None else pair[0] <= pair[1]

    def __gt__(self, other: Any) -> bool:
        pair = self._compare(other)
        return NotImplemented if pair is None else pair[0] > pair[1]

    def __ge__(self, other: Any) -> bool:
        pair = self._compare(other)
        return NotImplemented if pair is None else pair[0] >= pair[1]

    __hash__ = str.__hash__
