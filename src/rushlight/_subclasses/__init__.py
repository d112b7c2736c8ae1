"""`torch._subclasses`: tensors without memory for PyTorch's compiler; here, tensors on `meta` are that."""

from __future__ import annotations

from rushlight._subclasses.fake_tensor import FakeTensor, is_fake

__all__ = ["FakeTensor", "is_fake"]
