"""`torch.distributed.device_mesh`: processes in a grid, for programs that import the names."""

from __future__ import annotations

from rushlight.compat.unavailable import function
from rushlight.core.stub import declare
from rushlight.distributed.absent import REASON, absent_class, refuse

__all__ = ["DeviceMesh", "init_device_mesh"]

DeviceMesh = absent_class(__name__, "DeviceMesh")
init_device_mesh = function(__name__, "init_device_mesh", refuse, "RuntimeError: it is not there.")
declare("absent", REASON, __name__, "init_device_mesh")
