"""The few names of PyTorch's C module that its documentation tells users to take from there."""

from __future__ import annotations

from rushlight.ops.overrides import disabled as _disabled_torch_function_impl
from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
