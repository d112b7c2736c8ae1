"""What came out of a call, as NumPy arrays, and when two outcomes count as the same."""

from __future__ import annotations

import dataclasses
import types
import zlib

import numpy as np
import torch


class Mismatch(Exception):
    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@dataclasses.dataclass
class Obs:
    array: np.ndarray
    dtype: str
    stride: tuple = None


def observe(lib, out):
    """Flatten an output into Obs (tensors) and plain Python values."""
    if lib.is_tensor(out):
        array = lib.numpy(out)
        shape = tuple(int(n) for n in out.shape)
        if array.shape != shape:
            raise Mismatch("structure", f".shape {shape} but .numpy() has {array.shape}")
        try:
            stride = tuple(int(s) for s in out.stride())
        except Exception:
            stride = None
        return [Obs(array, lib.dtype_name(out.dtype), stride)]
    if isinstance(out, dict):
        return [x for k in out for x in observe(lib, out[k])]
    if isinstance(out, (tuple, list)):
        return [x for item in out for x in observe(lib, item)]
    if isinstance(out, torch.dtype) or any(out is d for d, _ in lib._dtype_names):
        return [lib.dtype_name(out)]
    return [out]


def tensors_in(lib, out):
    if lib.is_tensor(out):
        return [out]
    if isinstance(out, dict):
        out = list(out.values())
    if isinstance(out, (tuple, list)):
        return [t for item in out for t in tensors_in(lib, item)]
    return []


def field_names(out):
    """Names of a named-tuple result (torch.return_types.* or collections.namedtuple)."""
    if hasattr(out, "_fields"):
        return tuple(out._fields)
    if hasattr(type(out), "n_sequence_fields"):
        return tuple(
            n for n, v in vars(type(out)).items() if isinstance(v, types.MemberDescriptorType)
        )
    return ()


DEFAULT_TOL = {
    str(d).split(".")[1]: t for d, t in torch.testing._comparison._DTYPE_PRECISIONS.items()
}


def close(got, ref, tol):
    """Elementwise |got - ref| <= atol + rtol |ref|, NaN equal to NaN."""
    if ref.dtype.kind not in "fc":
        return got == ref
    with np.errstate(all="ignore"):
        return (got == ref) | np.isclose(got, ref, rtol=tol[0], atol=tol[1], equal_nan=True)


def compare(ref, got, tol=None, values=True, keep=None):
    """Raise Mismatch where the candidate's observation differs from torch's."""
    if len(ref) != len(got):
        raise Mismatch("structure", f"{len(got)} outputs, torch has {len(ref)}")
    for i, (r, g) in enumerate(zip(ref, got)):
        where = f"output {i}: " if len(ref) > 1 else ""
        if isinstance(r, Obs) != isinstance(g, Obs):
            raise Mismatch("structure", f"{where}{type(g).__name__} instead of {type(r).__name__}")
        if not isinstance(r, Obs):
            if type(r) is not type(g):
                raise Mismatch(
                    "structure", f"{where}{type(g).__name__} instead of {type(r).__name__}"
                )
            numeric = isinstance(r, (float, complex))
            if values and not (
                close(np.array(g), np.array(r), (1.3e-6, 1e-5)).all() if numeric else r == g
            ):
                raise Mismatch("value", f"{where}{g!r} instead of {r!r}"[:200])
            continue
        if r.array.shape != g.array.shape:
            raise Mismatch("shape", f"{where}{g.array.shape} instead of {r.array.shape}")
        if r.dtype != g.dtype:
            raise Mismatch("dtype", f"{where}{g.dtype} instead of {r.dtype}")
        if values:
            ok = close(g.array, r.array, (tol or DEFAULT_TOL).get(r.dtype, (0, 0)))
            if keep is not None and keep.shape == ok.shape:
                ok = ok | ~keep
            if not np.all(ok):
                at = tuple(int(k) for k in np.argwhere(~np.asarray(ok))[0])
                raise Mismatch(
                    "value",
                    f"{where}{int(np.sum(~ok))} of {np.size(ok)} elements differ, "
                    f"first at {at}: {g.array[at]} instead of {r.array[at]}",
                )


def same_strides(ref, got):
    """True/False, or None where the question does not arise."""
    pairs = [
        (r, g)
        for r, g in zip(ref, got)
        if isinstance(r, Obs) and isinstance(g, Obs) and r.array.size > 1
    ]
    if not pairs:
        return None
    return all(
        g.stride is not None
        and len(r.stride) == len(g.stride)
        and all(a == b for a, b, n in zip(r.stride, g.stride, r.array.shape) if n > 1)
        for r, g in pairs
    )


def as_accurate(ref, got, truth):
    """Is the candidate no further from the float64 result than 8x torch's own error?"""
    if len(truth) != len(ref):
        return False
    for r, g, t in zip(ref, got, truth):
        if not isinstance(r, Obs) or r.array.dtype.kind not in "fc":
            if not (np.array_equal(r.array, g.array) if isinstance(r, Obs) else r == g):
                return False
            continue
        if r.array.shape != t.array.shape or t.array.dtype.kind not in "fc":
            return False
        with np.errstate(all="ignore"):
            fine = np.isfinite(r.array) & np.isfinite(t.array)
            if not (close(g.array, r.array, (0, 0)) | fine).all():
                return False
            exact, mine = t.array[fine], g.array[fine]
            slack = 8 * np.abs(r.array[fine] - exact).max(initial=0)
            rtol, atol = DEFAULT_TOL.get(r.dtype, (0, 0))
            if not (np.abs(mine - exact) <= atol + rtol * np.abs(exact) + slack).all():
                return False
    return True


def cotangent(i, obs):
    """A fixed random cotangent for output number i."""
    shape = obs.array.shape
    rng = np.random.default_rng(zlib.crc32(repr((i, shape)).encode()))
    c = rng.uniform(0.5, 1.5, shape)
    if obs.array.dtype.kind == "c":
        c = c + 1j * rng.uniform(-1, 1, shape)
    return np.asarray(c).astype(obs.array.dtype)
