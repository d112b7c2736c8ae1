"""`torch.fft`: the functions of ops/ whose public path begins with `fft.`.

>>> import rushlight as torch
>>> torch.fft.fftfreq(4)
tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
"""

from __future__ import annotations

from rushlight.dispatch import methods

__getattr__, __dir__ = methods.namespace("fft", globals())
