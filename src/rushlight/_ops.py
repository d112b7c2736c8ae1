"""`torch._ops`: the classes of what `torch.ops` has, for `isinstance(node.target, torch._ops.OpOverload)`."""

from __future__ import annotations

from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]
