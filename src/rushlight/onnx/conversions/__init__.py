"""The conversions of ATen's operators to ONNX, a file for each kind; importing them fills `builder.CONVERSIONS`."""

from __future__ import annotations

import importlib

for _file in "elementwise indexing layers products recurrent reductions shapes".split():
    importlib.import_module(f"{__name__}.{_file}")
