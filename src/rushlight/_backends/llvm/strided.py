"""Views by native entries; see `_codegen/view_entry.py`."""

from __future__ import annotations

from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import strided as reference
from rushlight._backends.reference import views
from rushlight._codegen import view_entry

as_strided = implements("as_strided")(view_entry.view(view_entry.strided)(views.as_strided))
basic_index = implements("basic_index")(view_entry.view(view_entry.indexed)(reference.basic_index))
diagonal = implements("diagonal")(view_entry.view(view_entry.diagonal)(reference.diagonal))
expand = implements("expand")(view_entry.view(view_entry.expanded)(reference.expand))
unsqueeze = implements("unsqueeze")(view_entry.view(view_entry.unsqueezed)(reference.unsqueeze))
within_memory = implements("within_memory")(
    view_entry.view(view_entry.within_memory)(reference.within_memory)
)
view = implements("view")(view_entry.view(view_entry.reshaped)(reference.view))
