"""Views by native entries; see `_codegen/view_entry.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._backends.llvm.registration import Binding, implements
from rushlight._codegen import view_entry


class View(Binding):
    """A native entry for the views whose layout an inline function infers."""

    def __init__(self, infer: Any) -> None:
        self.infer = infer

    def bind(self, reference: Callable) -> Callable:
        return view_entry.view(self.infer)(reference)


as_strided = implements("as_strided")(View(view_entry.strided))
basic_index = implements("basic_index")(View(view_entry.indexed))
diagonal = implements("diagonal")(View(view_entry.diagonal))
expand = implements("expand")(View(view_entry.expanded))
unsqueeze = implements("unsqueeze")(View(view_entry.unsqueezed))
within_memory = implements("within_memory")(View(view_entry.within_memory))
view = implements("view")(View(view_entry.reshaped))
