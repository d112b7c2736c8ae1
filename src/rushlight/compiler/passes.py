"""What is done to a module before LLVM sees it, in the order of `PASSES`.

Only what makes the representation smaller for its readers and for LLVM; LLVM does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler import ir

PASSES: list[Callable[[ir.Module], None]] = []
