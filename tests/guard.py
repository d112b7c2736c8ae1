"""Arrays with a protected page behind or before them: who reads or writes outside ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_held: list[mmap.mmap] = []


def guarded(values: np.ndarray, side: str = "after") -> np.ndarray:
    """A C-contiguous copy whose memory ends right at (`after`) or begins right behind (`before`) a
    page that cannot be read or written."""
    nbytes = values.nbytes
    pages = -(-nbytes // _PAGE) + 1
    space = mmap.mmap(-1, (pages + 1) * _PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(space))
    closed = address + pages * _PAGE if side == "after" else address
    if _libc.mprotect(ctypes.c_void_p(closed), ctypes.c_size_t(_PAGE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    start = pages * _PAGE - nbytes if side == "after" else _PAGE
    array = np.frombuffer(space, values.dtype, values.size, start).reshape(values.shape)
    array[...] = values
    _held.append(space)
    return array
