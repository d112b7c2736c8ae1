"""How results lie in memory; see `_codegen/layout_entry.py`."""

from __future__ import annotations

from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import layout as reference
from rushlight._codegen import layout_entry

laid_out = implements("laid_out")(layout_entry.before(reference.laid_out))
