"""`torch.onnx`: nothing is exported here, and programs that ask whether an export is running are told no."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub

__all__ = [
    "OnnxExporterError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]


class OnnxExporterError(RuntimeError):
    """What an exporter raises."""


def is_in_onnx_export() -> bool:
    """False.

    >>> is_in_onnx_export()
    False
    """
    return False


@stub("absent", "There is no exporter to ONNX.")
def export(*args: Any, **options: Any) -> NoReturn:
    """OnnxExporterError: the state_dict, saved, can be loaded and exported under PyTorch."""
    raise OnnxExporterError(
        "torch.onnx.export is not implemented in Rushlight: save the state_dict (torch.save), and load and export it under "
        "PyTorch"
    )


@stub("no-op", "There is no exporter to ONNX.")
def register_custom_op_symbolic(*args: Any, **options: Any) -> None:
    """Accepted and not used."""


unregister_custom_op_symbolic = register_custom_op_symbolic
