"""Numbers at equal distances as machine code, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from guard import guarded
from rushlight._backends import llvm
from rushlight._backends.llvm import sequences
from rushlight._backends.reference import sequences as reference

if not llvm.activate():
    pytest.skip("RUSHLIGHT_COMPILED=0, or no LLVM for this machine", allow_module_level=True)

SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 100, 16384, 16385, 40001]
BOUNDS = [(0.0, 1.0), (0.1, 0.7), (-3.3, 5e5), (5.0, -5.0), (1e-30, 1e30), (2.5, 2.5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_as_the_reference(dtype, n):
    for start, end in BOUNDS:
        step = (end - start) / n
        for name, arguments in (("arange_into", (start, step)), ("linspace_into", (start, end))):
            if name == "linspace_into" and n < 2:
                continue
            for side in ("after", "before"):
                got, want = guarded(np.empty(n, dtype), side), np.empty(n, dtype)
                getattr(sequences, name)(got, *arguments)
                getattr(reference, name)(want, *arguments)
                assert got.tobytes() == want.tobytes(), (name, start, end)


@pytest.mark.parametrize("n", SIZES)
def test_from_both_ends(n):
    for start, end in BOUNDS:
        for side in ("after", "before"):
            got, want = guarded(np.empty(n), side), np.empty(n)
            sequences.both_ends_into(got, start, end, (end - start) / n)
            reference.both_ends_into(want, start, end, (end - start) / n)
            assert got.tobytes() == want.tobytes(), (start, end)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("base", [2.0, 10.0, 0.1, 7.5, 0.0, -2.0, np.inf])
def test_powers_as_the_reference(base, n):
    exponents = np.random.default_rng(n).uniform(-9, 9, n)
    for side in ("after", "before"):
        got, want = guarded(exponents, side), exponents.copy()
        sequences.powers_into(got, base)
        reference.powers_into(want, base)
        assert np.array_equal(got, want, equal_nan=True)


def test_any_number_of_threads():
    out = [np.empty(100_001, np.float32) for _ in range(2)]
    before = torch.get_num_threads()
    try:
        for count, each in zip((1, 2), out, strict=True):
            torch.set_num_threads(count)
            sequences.arange_into(each, 0.1, 0.3)
    finally:
        torch.set_num_threads(before)
    assert out[0].tobytes() == out[1].tobytes()


def test_what_is_not_finite():
    for start, end in ((float("nan"), 1.0), (0.0, float("inf")), (-float("inf"), 0.0)):
        got, want = np.empty(9, np.float32), np.empty(9, np.float32)
        sequences.linspace_into(got, start, end)
        reference.linspace_into(want, start, end)
        np.testing.assert_array_equal(got, want)


def test_gaps_are_the_references():
    got, want = np.zeros((20, 2)), np.zeros((20, 2))
    sequences.linspace_into(got[:, 0], 0.0, 1.0)
    reference.linspace_into(want[:, 0], 0.0, 1.0)
    assert (got == want).all()


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (2, 10, 2),
        (5, 0, -2),
        (3, 3),
        (4.0,),
        (0, 1, 0.25),
        (1.5, -1.5, -0.5),
        (0.1, 0.9, 0.1),
        (1, 2.0),
    ],
)
def test_arange_by_any_signature(arguments):
    """The short way for plain numbers gives what the general way does."""
    short = torch.arange(*arguments)
    named = dict(
        zip(
            ("start", "end", "step"),
            arguments if len(arguments) > 1 else (0, *arguments),
            strict=False,
        )
    )
    general = torch.arange(**named)
    assert short.dtype is general.dtype and short.tolist() == general.tolist()
    whole = all(isinstance(v, int) for v in arguments)
    for dtype in (torch.int64, torch.float32, torch.float64, torch.bfloat16, torch.int32):
        if not dtype.is_floating_point and not whole:
            continue
        a, b = torch.arange(*arguments, dtype=dtype), torch.arange(**named, dtype=dtype)
        assert a.dtype is b.dtype is dtype and a.tolist() == b.tolist()
    for wrong in ((0, 1, 0), (0, 1, -1), (0, float("inf")), (float("nan"),)):
        with pytest.raises(RuntimeError):
            torch.arange(*wrong)
