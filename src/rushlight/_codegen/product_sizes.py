"""What kernels of products and of recurrent layers are compiled for on this machine: the tiles of results that its
registers hold."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from rushlight._codegen import native
from rushlight._codegen.kernels import gemv
from rushlight._codegen.kernels.tiles import ARCH_PRCTL, REQUEST, SIDE, TILE_DATA
from rushlight._codegen.types import Type, i32

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
SAVED = {"lstm": 6, "gru": 5, "tanh": 0, "relu": 0}  # what a unit's gradients need of a step


@cache
def gemm_sizes(T: Type) -> dict[str, Any]:
    """What kernels for sums of one type are compiled for: a tile of MR rows by V vectors of L lanes,
    which with what it is multiplied with fills the registers."""
    features = native.host()[1]
    if "+avx512f" in features:
        width, rows = 64, 12
    elif "+avx2" in features:
        width, rows = 32, 6
    else:
        width, rows = 16, 12 if "+neon" in features else 4
    return {"T": T, "MR": rows, "V": 2, "L": min(width // T.size, 16)}


def many_registers() -> bool:
    """Whether the machine has 32 vector registers, not 16."""
    features = native.host()[1]
    return "+avx512f" in features or "+neon" in features


def for_gemm(E: Type, O: Type | None = None, act: str = "") -> dict[str, Any]:
    """What `gemm.product` is compiled for: E is the type of A and B, i32 also that of pairs of bf16; sums
    are float32 for half types; O is the type of C, the same as E or that of the sums."""
    O = O or E
    T = O.loaded if E is i32 else E.loaded
    found = {"E": E, "O": O, "ACT": act, **gemm_sizes(T), "TILES": False}
    if E is i32 and T.is_float and tiles():
        found |= {"MR": SIDE, "V": SIDE // found["L"], "TILES": True}
    return found


def pairs() -> bool:
    """Whether the machine multiplies pairs of bfloat16 and adds them up in float32, faster than it multiplies float32.

    Processors with tiles for that do it in vectors at half the speed: 85 GFLOP/s, of float32 154 (Xeon, model 207).
    """
    features = native.host()[1]
    return "+avx512bf16" in features and "+amx-bf16" not in features


@cache
def tiles() -> bool:
    """Whether the machine does that in tiles of registers (AMX), and its system lets this process use them."""
    if sys.platform != "linux" or "+amx-bf16" not in native.host()[1]:
        return False
    import ctypes

    arguments = map(ctypes.c_long, (ARCH_PRCTL, REQUEST, TILE_DATA))
    return ctypes.CDLL(None).syscall(*arguments) == 0


def gemv_sizes(E: Type, count: int) -> dict[str, Any]:
    """What kernels of `gemv.py` for so many vectors and a matrix of one type are compiled for.

    Of J vectors at once: R rows and U vectors of each are read by `rows`, V vectors of columns by
    `columns`.
    """
    one = gemm_sizes(E.loaded)
    wide = many_registers()
    found = {"E": E, "T": one["T"], "L": one["L"]}
    if count == 1:
        return {**found, "J": 1, "R": 2, "U": 4, "V": 16 if wide else 8}
    if count <= gemv.FEW:
        return {**found, "J": gemv.FEW, "R": 2, "U": 2 if wide else 1, "V": 4 if wide else 2}
    return {**found, "J": gemv.SOME, "R": 2 if wide else 1, "U": 1, "V": 2 if wide else 1}


NAMES = {"rows": "ETOJLRU", "columns": "ETOJLV", "dot": "ETLV"}  # that kernels leave open


def for_gemv(name: str, E: Type, count: int, O: Type | None = None) -> dict[str, Any]:
    """What one of the kernels of `gemv.py` is compiled for, whose results are of the same type, or O."""
    found = {**gemv_sizes(E, count), "O": O or E}
    return {k: found[k] for k in NAMES[name]}


def recurrent_sizes(KIND: str, T: Type) -> dict[str, Any]:
    """What `recurrent.layer` is compiled for: MR rows and blocks of U vectors of L units make a tile."""
    known = gemm_sizes(T)
    units = 2 if GATES[KIND] == 1 else 1
    rows = known["MR"] * known["V"] // (GATES[KIND] * units)
    return {"T": T, "L": known["L"], "U": units, "MR": rows}


def recurrent_gradient_sizes(T: Type, few: bool) -> dict[str, Any]:
    """What `recurrent_gradients.gradients` is compiled for, where a thread has few rows or not: blocks of V vectors
    of units."""
    known = gemm_sizes(T)
    narrow = known["MR"] * known["V"] // 4
    if few:
        return {"T": T, "L": known["L"], "V": 4, "MR": narrow}
    return {k: known[k] for k in ("T", "L", "V", "MR")}
