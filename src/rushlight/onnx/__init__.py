"""`torch.onnx`: exported programs as files of ONNX (extra `onnx`).

>>> import rushlight as torch
>>> torch.onnx.is_in_onnx_export()
False

`torch.onnx.export(model, args, "model.onnx")` goes through `torch.export.export`. Each operator of ATen has a conversion in
`onnx/conversions/`; `custom_translation_table={torch.ops.aten.lgamma.default: function}` gives others, functions of a
`Builder` and the arguments of the call.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.stub import stub
from rushlight.onnx.builder import OnnxExporterError
from rushlight.onnx.exporter import ONNXProgram, export, is_in_onnx_export

__all__ = [
    "ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip


@stub(
    "no-op",
    "It belongs to the exporter by TorchScript; `custom_translation_table=` of `export` has conversions.",
)
def register_custom_op_symbolic(*args: Any, **options: Any) -> None:
    """Accepted and not used."""


unregister_custom_op_symbolic = register_custom_op_symbolic
