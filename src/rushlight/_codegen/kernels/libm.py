"""The C library's functions of every element of an array, in native code.

Where results are to be those of the C library to the last bit, as PyTorch's float64 random numbers
are, no other polynomial will do, and a loop in Python takes ten times as long as the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight._codegen import native

FUNCTIONS = ("exp", "log", "log1p", "tan")

_TEXT = """
declare double @NAME(double)

define void @each(ptr %x, ptr %out, i64 %n) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %next, label %done
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %from = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %from
  %y = call double @NAME(double %v)
  %to = getelementptr double, ptr %out, i64 %i
  store double %y, ptr %to
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


@cache
def each(name: str) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """The loop over a float64 array into another of its size, both contiguous; None where the
    function that it calls is not the one that Python calls."""
    import ctypes

    try:
        text = _TEXT.replace("NAME", name)
        (address,) = native.load(f"libm {name}", lambda: text, ["each"])
    except RuntimeError:
        return None
    loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)

    def run(x: np.ndarray, out: np.ndarray) -> None:
        loop(x.ctypes.data, out.ctypes.data, x.size)

    x = np.linspace(0.0, 1.0, 1002)[1:-1]
    out = np.empty_like(x)
    run(x, out)
    return run if out.tolist() == list(map(getattr(math, name), x.tolist())) else None


_BOTH = """
declare void @sincos(double, ptr, ptr)

define void @both(ptr %x, ptr %sine, ptr %cosine, i64 %n) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %next, label %done
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %from = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %from
  %s = getelementptr double, ptr %sine, i64 %i
  %c = getelementptr double, ptr %cosine, i64 %i
  call void @sincos(double %v, ptr %s, ptr %c)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


@cache
def sine_and_cosine() -> Callable[[np.ndarray, np.ndarray, np.ndarray], None] | None:
    """(x, sine, cosine): both of each element, which GNU's library computes in one; None where it is
    another, or NumPy's are not the same to the last bit."""
    import ctypes

    try:
        (address,) = native.load("libm sincos", lambda: _BOTH, ["both"])
    except RuntimeError:
        return None
    loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(address)

    def run(x: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> None:
        loop(x.ctypes.data, sine.ctypes.data, cosine.ctypes.data, x.size)

    x = np.linspace(0.0, 2 * math.pi, 2001)
    sine, cosine = np.empty_like(x), np.empty_like(x)
    run(x, sine, cosine)
    same = np.array_equal(sine, np.sin(x)) and np.array_equal(cosine, np.cos(x))
    return run if same else None
