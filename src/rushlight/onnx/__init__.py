"""`torch.onnx`: exported programs as files of ONNX (extra `onnx`).

>>> import rushlight as torch
>>> torch.onnx.is_in_onnx_export()
False

`torch.onnx.export(model, args, "model.onnx")` goes through `torch.export.export`. Each operator of ATen has a conversion in
`onnx/conversions/`; `rushlight.onnx.builder.conversion` adds others.
"""

from __future__ import annotations

from rushlight.onnx.builder import OnnxExporterError
from rushlight.onnx.exporter import ONNXProgram, export, is_in_onnx_export

__all__ = ["ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export"]
