"""What native code assumes of the objects of CPython and NumPy (_codegen/runtime/abi.py), and what happens
where an assumption does not hold."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rushlight as torch
from processes import printed
from rushlight._codegen.runtime import abi
from rushlight.autograd import engine

CPYTHON = sys.implementation.name == "cpython"


@pytest.mark.skipif(not CPYTHON, reason="other objects")
def test_assumptions_hold_here():
    for probe in (abi.arrays_hold, abi.numbers_hold, abi.views_hold, abi.ufuncs_hold):
        assert probe() is True
    assert abi.available() and abi.new_array() and abi.vectorcall_slot()
    assert abi.handler_functions() is not None
    assert engine.ALONE > 0 and min(abi.holders()) > 0


@pytest.mark.skipif(not CPYTHON, reason="other objects")
@pytest.mark.parametrize(
    ("probe", "name", "value"),
    [
        ("arrays_hold", "TYPE", abi.HEAD),
        ("arrays_hold", "DATA", abi.BASE),
        ("arrays_hold", "NDIM", abi.FLAGS),
        ("arrays_hold", "SHAPE", abi.STRIDES),
        ("arrays_hold", "STRIDES", abi.SHAPE),
        ("arrays_hold", "BASE", abi.DTYPE),
        ("arrays_hold", "DTYPE", abi.BASE),
        ("arrays_hold", "FLAGS", abi.NDIM),
        ("arrays_hold", "WRITEABLE", 0x800),
        ("numbers_hold", "TYPE", abi.HEAD),
        ("numbers_hold", "FLOAT_VALUE", abi.TYPE),
        ("numbers_hold", "LIST_SIZE", abi.TYPE),
        ("views_hold", "TUPLE_SIZE", abi.TYPE),
        ("views_hold", "TUPLE_ITEMS", abi.TUPLE_SIZE),
        ("views_hold", "SLICE_START", abi.SLICE_STOP),
        ("views_hold", "ITEMSIZE", abi.HEAD),
        ("ufuncs_hold", "UFUNC_COUNTS", abi.HEAD + 1),
        ("ufuncs_hold", "UFUNC_LOOPS", abi.UFUNC_DATA),
        ("ufuncs_hold", "UFUNC_DATA", abi.UFUNC_LOOPS),
        ("ufuncs_hold", "UFUNC_NTYPES", abi.UFUNC_COUNTS),
        ("ufuncs_hold", "UFUNC_TYPES", abi.UFUNC_DATA),
        ("ufuncs_hold", "CALL_INFO", b"another"),
        ("ufuncs_hold", "CALL_INFO_FLAGS", abi.CALL_INFO_FLAGS - 1),
        ("ufuncs_hold", "UFUNC_RESOLVER", abi.UFUNC_DATA),
        ("vectorcall_slot", "_VECTORCALL_OFFSET", abi.HEAD + 1),
        ("vectorcall_slot", "_HAVE_VECTORCALL", 0),
        ("handler_functions", "HANDLER_VERSION", 2),
        ("handler_functions", "HANDLER_NAME", 120),
    ],
)
def test_a_wrong_assumption_is_seen(monkeypatch, probe, name, value):
    monkeypatch.setattr(abi, name, value)
    assert not getattr(abi, probe).__wrapped__()


@pytest.mark.skipif(not CPYTHON, reason="other objects")
def test_array_methods_serve_the_dtypes_they_are_asked_for():
    from rushlight.core.dtype_sets import BF16, F32, I32

    assert abi.array_method(np.add, (BF16, BF16))[2] == [BF16.num] * 3
    assert abi.array_method(np.less, (BF16, BF16))[2] == [BF16.num, BF16.num, 0]
    assert abi.array_method(np.ldexp, (BF16, I32))[2] == [BF16.num, I32.num, BF16.num]
    for ufunc, dtypes in [
        (np.add, (BF16, F32)),
        (np.invert, (BF16,)),
        (np.add, (np.dtype("O"),) * 2),
    ]:
        with pytest.raises(TypeError):  # a conversion, no loop, a loop that needs the GIL
            abi.array_method(ufunc, dtypes)


@pytest.mark.parametrize(
    "changed", ["SHAPE, abi.STRIDES = abi.STRIDES, abi.SHAPE", "FLOAT_VALUE = 1"]
)
def test_the_compiled_back_end_steps_aside(changed):
    code = (
        f"from rushlight._codegen.runtime import abi\nabi.{changed}\n"
        "import rushlight as torch\nfrom rushlight._backends import cpu, llvm\nimport numpy as np\n"
        "assert not llvm.activate() and cpu.add is np.add\n"
        "p = torch.nn.Parameter(torch.ones(50, 60))\n"
        "optimizer = torch.optim.SGD([p], lr=0.5)\n"
        "(p * 2 + 1).sum().backward(); optimizer.step()\n"
        "assert (p == 0).all() and torch.cat([p, p]).shape == (100, 60)"
    )
    printed(code, RUSHLIGHT_COMPILED="")


def test_counts_that_tell_nothing_apart_mean_that_nothing_is_alone():
    reads = lambda count: lambda most: count <= most
    assert abi.calibrated(reads(2), reads(3)) == 2
    assert abi.calibrated(reads(1), reads(2)) == 1
    assert abi.calibrated(reads(3), reads(3)) == 0
    assert abi.calibrated(reads(4), reads(2)) == 0
    assert abi.calibrated(reads(1 << 30), reads(1 << 30)) == 0  # immortal


def gradient_and_what_came():
    """The gradient of a leaf, and the address of the array that came to it."""
    came = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            result = g * 2
            came.append(result._array.__array_interface__["data"][0])
            return result

    p = torch.ones(1000, requires_grad=True)
    Doubled.apply(p).sum().backward()
    assert (p.grad == 2).all()
    return p.grad._array.__array_interface__["data"][0], *came


@pytest.mark.skipif(not CPYTHON, reason="other counts")
def test_a_gradient_is_handed_over_or_copied(monkeypatch):
    taken, came = gradient_and_what_came()
    assert taken == came
    for name, value in (("ALONE", 0), ("HOLDERS", (0, 0))):
        with monkeypatch.context() as changed:
            changed.setattr(engine, name, value)
            taken, came = gradient_and_what_came()
            assert taken != came


def test_a_gradient_that_others_hold_is_copied():
    kept = []
    p = torch.ones(3, requires_grad=True)
    y = p * 2
    y.register_hook(kept.append)
    (y * 3).sum().backward()
    whole = torch.ones(3)
    (p * 1).backward(whole)
    q = torch.ones(3, requires_grad=True)
    torch.autograd.backward(q * 1, whole)
    view = torch.zeros(2, 3)
    r = torch.ones(3, requires_grad=True)
    r.view(3).backward(view[0])
    for leaf in (p, q, r):
        leaf.grad += 100
    assert (kept[0] == 3).all() and (whole == 1).all() and (view == 0).all()


@pytest.mark.skipif(not CPYTHON, reason="other counts")
def test_only_the_tensor_holds_its_array():
    counts = abi.holders()
    t = torch.zeros(3)
    assert abi.only_tensor_holds(t, *counts)
    array = t._array
    assert not abi.only_tensor_holds(t, *counts)
    del array
    assert abi.only_tensor_holds(t, *counts)
    memory = np.zeros(6)
    t._array = memory[:3]
    assert not abi.only_tensor_holds(t, *counts)
    del memory
    assert abi.only_tensor_holds(t, *counts)
    t._array = np.frombuffer(bytearray(24))
    assert not abi.only_tensor_holds(t, *counts)
