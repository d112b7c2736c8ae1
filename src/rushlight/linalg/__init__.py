"""`torch.linalg`: the functions of ops/ whose public path begins with `linalg.`.

>>> import rushlight as torch
>>> torch.linalg.det(torch.eye(2))
tensor(1.)
"""

from __future__ import annotations

from rushlight.core.errors import LinAlgError as LinAlgError
from rushlight.dispatch import methods

__getattr__, __dir__ = methods.namespace("linalg", globals())
