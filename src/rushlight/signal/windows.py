"""`torch.signal.windows`: the functions of ops/factories/windows.py.

>>> import rushlight as torch
>>> torch.signal.windows.hann(3)
tensor([0., 1., 0.])
"""

from __future__ import annotations

from rushlight.dispatch import methods

__getattr__, __dir__ = methods.namespace("signal.windows", globals())
