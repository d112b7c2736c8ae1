"""DLPack: memory in capsules, for other libraries and from them.

NumPy makes and reads the capsules. It has no bfloat16 and no complex32: such memory passes through it as unsigned
integers, and the code of the type is exchanged in the capsule.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rushlight.core.dtype_sets import BF16, C32

UNSIGNED = 1  # codes of types, and with their bits those of dtypes that NumPy lacks
CODES = {BF16: (4, 16), C32: (5, 32)}


class _Struct(ctypes.Structure):
    """The DLTensor of DLPack's C header."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )  # fmt: skip


CPU = (1, 0)  # a device, as DLPack writes it
_NAMES_VERSIONS = (
    np.lib.NumpyVersion(np.__version__) >= "2.1.0"
)  # those of DLPack, by `max_version`

# name of a capsule that nobody has taken over -> where its DLTensor is, in bytes
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def described(capsule: Any) -> _Struct | None:
    """What a capsule that nobody has taken over says of its memory."""
    if type(capsule).__name__ != "PyCapsule" or (name := _name(capsule)) not in _OFFSETS:
        return None
    return _Struct.from_address(_pointer(capsule, name) + _OFFSETS[name])


def capsule_of(
    a: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule that shares the memory of an array; what reads it takes it over, once."""
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if not hasattr(a, "__dlpack__"):
        raise BufferError("Can't export tensors with layout other than torch.strided")
    getattr(a, "refuse_export", bool)()  # with a conjugate or negative bit
    if dl_device not in (None, CPU):
        raise BufferError(f"the memory is on the CPU, and dl_device={dl_device} asks for another")
    options = {"max_version": max_version} if _NAMES_VERSIONS else {}
    if copy:
        a = a.copy()
    if a.dtype not in CODES:
        return a.__dlpack__(**options)
    code, bits = CODES[a.dtype]
    capsule = a.view(np.ndarray).view(f"u{bits // 8}").__dlpack__(**options)
    described(capsule).code = code
    return capsule


class Producer:
    """What NumPy is to read: an object with `__dlpack__`, or a bare capsule."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.source, self.is_bare = source, not hasattr(source, "__dlpack__")
        self.options = options  # besides those that NumPy gives
        self.dtype: np.dtype | None = None  # that of the memory, where NumPy lacks it

    def __dlpack__(self, **options: Any) -> Any:
        capsule = (
            self.source if self.is_bare else self.source.__dlpack__(**{**options, **self.options})
        )
        if (about := described(capsule)) is not None:
            for dtype, codes in CODES.items():
                if codes == (about.code, about.bits):
                    self.dtype, about.code = dtype, UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU if self.is_bare else self.source.__dlpack_device__()
