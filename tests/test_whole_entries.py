"""Entries of whole operators (_backends/llvm/whole.py) against the operators as they are declared."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from rushlight._backends import llvm
from rushlight._codegen import native_entry
from rushlight._codegen.runtime import abi
from rushlight.dispatch.registry import OPS
from rushlight.ops.factories import parts
from rushlight.ops.indexing import gather, index_writes, scatter
from rushlight.ops.linalg import distances

SHAPES = ((), (1,), (5,), (3, 4), (4, 3, 2), (2, 0, 3))
NUMBERS = (0, -2, 1.5, float("inf"), float("nan"), 1e300, 2**70, True)


@pytest.fixture(autouse=True)
def active():
    if not llvm.activate() or not abi.available():
        pytest.skip("there are none with RUSHLIGHT_COMPILED=0, and where NumPy's objects differ")


def outcome(f, *args):
    """What a call does: its result in memory, or its error."""
    try:
        r = f(*args)
    except Exception as e:
        return type(e), str(e)
    return r.shape, r.stride(), r.dtype, repr(r.tolist())


def both_ways(name, x, *args, **options):
    """Compare a method, and its in-place form, with what stands behind the entries."""
    for suffix in ("", "_") if hasattr(torch.Tensor, name + "_") else ("",):
        got = []
        for used in (True, False):
            own = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
            native_entry.use(used)
            try:
                found = outcome(lambda: getattr(own, name + suffix)(*args, **options))
            finally:
                native_entry.use(True)
            got.append((found, repr(own.tolist()), own._version))
        assert got[0] == got[1], (name + suffix, x, args, options)


def index_of(rng, shape, n, d):
    low = -1 if rng.integers(5) == 0 else 0
    high = n + (rng.integers(8) == 0)
    made = torch.from_numpy(np.asarray(rng.integers(low, max(high, low + 1), shape)))
    return made.to(torch.int32) if rng.integers(8) == 0 else made.to(d)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_entries_do_what_the_operators_do(dtype):
    rng = np.random.default_rng(0)
    d, kinds = getattr(torch, dtype), ("sum", "prod", "amax", "amin", "mean", "none")
    some = lambda shape: torch.from_numpy(np.asarray(rng.integers(-3, 4, shape) * 1.0)).to(d)
    for _ in range(25):
        shape = SHAPES[rng.integers(len(SHAPES))]
        x = some(shape)
        x = x.T if x.dim() == 2 and rng.integers(3) == 0 else x
        shape = tuple(x.shape)
        dim = int(rng.integers(-len(shape) - 1, len(shape) + 1))
        n = shape[dim] if -len(shape) <= dim < len(shape) else 1
        k = (int(rng.integers(0, 4)),) if rng.integers(6) else ()
        i = index_of(rng, k, n, torch.int64)
        at = dim % len(shape) if shape else 0
        slices = (*shape[:at], *k, *shape[at + 1 :]) if shape else ()
        source = some(slices if rng.integers(6) else (2, 2))
        along = (*shape[:at], 2, *shape[at + 1 :]) if shape else ()
        along = along if rng.integers(6) else (1, 2)
        j, values = index_of(rng, along, n, torch.int64), some(along if rng.integers(6) else ())
        if d is torch.bfloat16 or rng.integers(2):  # which of several values stays is open
            i, j = i[:1] if i.dim() else i, j.clone()
        number, how = NUMBERS[rng.integers(len(NUMBERS))], kinds[rng.integers(len(kinds))]
        include, alpha = bool(rng.integers(2)), int(rng.integers(3))
        both_ways("index_copy", x, dim, i, source)
        both_ways("index_fill", x, dim, i, number)
        both_ways("index_select", x, dim, i)
        both_ways("scatter", x, dim, j, values)
        both_ways("scatter", x, dim, j, number)
        both_ways("scatter_add", x, dim, j, values)
        both_ways("take", x, j)
        both_ways("masked_fill", x, some(shape if rng.integers(5) else (2,)) != 0, number)
        mask = some((shape, (2,), shape[1:], (2, *shape))[rng.integers(4)]) != 0
        both_ways("masked_scatter", x, mask, some((x.numel() * int(rng.integers(3)),)))
        both_ways("index_add", x, dim, i, source, alpha=alpha)
        both_ways("index_reduce", x, dim, i, source, how, include_self=include)
        both_ways("scatter_reduce", x, dim, j, values, how, include_self=include)


def test_what_they_write_is_recorded_counted_and_refused():
    x = torch.zeros(4, requires_grad=True)
    i, s = torch.tensor([1, 3]), torch.ones(2, requires_grad=True)
    y = x.index_add(0, i, s, alpha=1)
    y.sum().backward()
    assert type(y.grad_fn).__name__ == "IndexAddBackward0" and y._version == 0
    assert x.grad.tolist() == [1, 1, 1, 1] and s.grad.tolist() == [1, 1]
    z = torch.zeros(4)
    z.index_add_(0, i, s)
    assert type(z.grad_fn).__name__ == "IndexAddBackward0" and z._version == 1
    with torch.no_grad():
        w = torch.zeros(4)
        view = w[:2]
        assert w.index_add_(0, i, s) is w and w.grad_fn is None and view._version == 1
    with pytest.raises(RuntimeError, match="leaf"):
        x.index_fill_(0, i, 1.0)
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.zeros(1).expand(3).scatter_(0, torch.tensor([0]), 1.0)
    y = torch.zeros(3).requires_grad_() * 1
    y.masked_scatter_(torch.tensor([True, False, True]), s)
    assert type(y.grad_fn).__name__ == "MaskedScatterBackward0" and y.tolist() == [1, 0, 1]
    a = torch.arange(4.0)
    with pytest.raises(RuntimeError):
        a.index_copy_(0, torch.tensor([0, 1]), a[1:3])
    with torch.inference_mode():
        frozen = torch.zeros(3)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        frozen.scatter_(0, torch.tensor([0]), 1.0)


def test_lists_of_tensors():
    a, b = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    for tensors in ([a, b], (a, b), [a], [a, b.T.contiguous().T], [a, b.double()]):
        for dim in (0, 1, -1):
            got = []
            for used in (True, False):
                native_entry.use(used)
                got.append([outcome(f, tensors, dim) for f in (torch.cat, torch.stack)])
            native_entry.use(True)
            assert got[0] == got[1]
    held = sys.getrefcount(a._array)
    for _ in range(10):
        torch.cat([a, b]), torch.cat([a, b.double()])
    now = sys.getrefcount(a._array)
    assert now == held
    p = a.clone().requires_grad_()
    for recorded in (p, p[0:]):
        assert torch.cat([b, recorded]).grad_fn is not None
        with torch.no_grad():
            assert torch.cat([b, recorded]).grad_fn is None
    for wrong in ([a, 3], [a, None], 3, [a, b[0]]):
        with pytest.raises((TypeError, RuntimeError), match="[Tt]ensor"):
            torch.cat(wrong)


def test_parts_and_lengths():
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        some = lambda: torch.from_numpy(rng.standard_normal((3, 4, 5)).astype(dtype) * 3)
        a, b = some(), some()
        z = a.numpy() * np.exp(1j * b.numpy().astype("float64"))
        assert np.allclose(torch.polar(a, b).numpy(), z, rtol=1e-6, atol=1e-6)
        assert np.array_equal(torch.complex(a, b).numpy(), a.numpy() + 1j * b.numpy())
        for dim in (0, 1, -1):
            axes = tuple(k for k in range(3) if k != dim % 3)
            lengths = np.sqrt((a.numpy() ** 2).sum(axes, keepdims=True))
            want = a.numpy() * np.minimum(1, 5 / lengths)
            assert np.allclose(a.renorm(2, dim, 5).numpy(), want, rtol=1e-5)
        for wrong in (lambda: a.renorm(2, 3, 1.0), lambda: a.renorm(2, 0, -1.0)):
            with pytest.raises((IndexError, RuntimeError)):
                wrong()


def test_entries_are_named_and_take_what_operators_take():
    from rushlight._backends.llvm import whole

    assert all((distances, gather, index_writes, parts, scatter))  # they declare the operators
    assert whole.ENTRIES.keys() | whole.PLANNED.keys() == llvm.WHOLE
    assert whole.ENTRIES.keys() & whole.PLANNED.keys() == {"complex"}
    for path, entries in whole.ENTRIES.items():
        takes = native_entry.bound_of(entries[np.dtype("f4")])
        names = [*takes.infer[0]._types(takes.infer[1])][:-1]
        assert names == [*OPS[path].params], path
