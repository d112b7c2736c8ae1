"""Names that generated code may always use, each with the statement that imports it and what it means."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import rushlight
from rushlight.fx import _pytree as fx_pytree
from rushlight.utils import _pytree as pytree

KNOWN: dict[str, tuple[str, Any]] = {
    "inf": ("from math import inf", inf),
    "nan": ("from math import nan", nan),
    "NoneType": ("NoneType = type(None)", type(None)),
    "torch": ("import rushlight as torch", rushlight),
    "device": ("from rushlight import device", rushlight.device),
    "fx_pytree": ("import rushlight.fx._pytree as fx_pytree", fx_pytree),
    "pytree": ("import rushlight.utils._pytree as pytree", pytree),
}
