"""`torch._refs._conversions`: the methods of a tensor that change its dtype, as functions."""

from rushlight._refs import namespace

__all__, __getattr__ = namespace(__name__)
