"""When two programs print the same: their words, and their numbers but for the last digit.

A number that lies between two printed ones by less than a rounding of float32 is printed as either: a
loss of 0.50474995 here, 0.50475001 there, to four digits.
"""

from __future__ import annotations

import re

NUMBER = re.compile(r"[-+]?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?")


def same(ours, theirs, units=1):
    """Whether two lines have the same words, and numbers that differ by `units` of their last digit at most."""
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    for a, b in zip(NUMBER.finditer(ours), NUMBER.finditer(theirs)):
        exponent = max(int(a[2] or 0), int(b[2] or 0))
        unit = 10.0 ** (exponent - len(a[1])) if a[1] else 0.0
        if abs(float(a[0]) - float(b[0])) > (units + 0.001) * unit:
            return False
    return True
