"""The constants: dtypes, sizes, devices, default dtype and device."""

from __future__ import annotations

import copy
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

import rushlight as torch
from rushlight.core import dtypes, modes, type_info
from rushlight.core.device import check_available, device, get_default_device, set_default_device
from rushlight.core.size import Size
from rushlight.nn import functional as F


@pytest.mark.parametrize("each", dtypes.ALL, ids=str)
def test_a_dtype_is_one_object(each):
    assert dtypes.OF[each.np] is each
    assert dtypes.OF[np.zeros(1, each.np).dtype] is each
    assert each.np.isnative and each.itemsize == each.np.itemsize
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(each, protocol)) is each
    assert copy.copy(each) is copy.deepcopy(each) is each
    assert {each: 1}[each] == 1


def test_numpy_names_of_one_type_meet():
    """`longlong` and `int64` are two names on some systems, one dtype here."""
    assert dtypes.OF[np.dtype(np.longlong)] is dtypes.int64
    assert dtypes.OF[np.dtype(int)] is dtypes.int64
    assert dtypes.OF[np.dtype(ml_dtypes.bfloat16)] is dtypes.bfloat16


def test_aliases_are_reached_from_outside_without_hiding_builtins():
    assert dtypes.float is dtypes.float32 and dtypes.bool is dtypes.bool_
    assert "bool" not in vars(dtypes) and "float" not in vars(dtypes)
    with pytest.raises(AttributeError, match="float4"):
        dtypes.float4


def test_constants_cannot_be_made_or_changed():
    for kind in (dtypes.dtype, dtypes.memory_format, dtypes.layout):
        with pytest.raises(TypeError, match=f"cannot create 'torch.{kind.__name__}' instances"):
            kind()
    with pytest.raises(AttributeError, match="not writable"):
        dtypes.float32.itemsize = 8
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        dtypes.float32.x = 8
    for each in (*dtypes.MEMORY_FORMATS, *dtypes.LAYOUTS):
        assert pickle.loads(pickle.dumps(each)) is each
        assert repr(each) == f"torch.{each.name}"


def test_promotion_is_symmetric_and_idempotent():
    for a in dtypes.ALL:
        assert dtypes.promote_types(a, a) is a
        for b in dtypes.ALL:
            assert dtypes._PROMOTED.get((a, b)) is dtypes._PROMOTED.get((b, a))


def test_promotion_errors_say_what_was_given():
    with pytest.raises(RuntimeError, match=r"attempted to promote UInt16 and Char"):
        dtypes.promote_types(dtypes.uint16, dtypes.int8)
    with pytest.raises(
        TypeError, match=r"argument 'type2' \(position 2\) must be torch.dtype, not int"
    ):
        dtypes.promote_types(dtypes.float32, 3)
    with pytest.raises(
        TypeError, match=r"argument 'to' \(position 2\) must be torch.dtype, not list"
    ):
        dtypes.can_cast(dtypes.float32, [])


@pytest.mark.parametrize(
    "dim, zero, wrapped, expected",
    [
        ("int32", None, "float32", "float32"),  # int tensor + 1.5: the default dtype
        ("float16", None, "float32", "float16"),  # half tensor + 1.5
        ("float16", "float64", None, "float16"),
        ("int8", "int64", None, "int8"),
        ("bool", None, "int64", "int64"),
        ("bool", "uint8", None, "uint8"),
        ("uint8", None, "bool", "uint8"),
        ("float64", None, "complex64", "complex128"),
        ("int64", "float16", "float32", "float16"),  # the 0-d tensor's width, not the number's
        (None, "int8", "int64", "int8"),
        (None, None, "float32", "float32"),
        (None, "float32", "complex64", "complex64"),
        ("int64", "float64", "complex64", "complex128"),
    ],
)
def test_result_dtype(dim, zero, wrapped, expected):
    groups = [None if name is None else getattr(dtypes, name) for name in (dim, zero, wrapped)]
    assert dtypes.result_dtype(*groups) is getattr(dtypes, expected)


def test_limits_are_read_only_values():
    assert type_info.finfo() == type_info.finfo(dtypes.float32) == type_info.finfo(dtypes.complex64)
    assert type_info.finfo(dtypes.float64) != type_info.finfo(dtypes.float32)
    assert type_info.iinfo(dtypes.int8) != type_info.finfo(dtypes.float32)
    with pytest.raises(AttributeError):
        type_info.finfo().eps = 1.0
    assert pickle.loads(pickle.dumps(type_info.iinfo(dtypes.int8))).max == 127
    assert type_info.finfo(dtypes.bfloat16).eps == 0.0078125
    with pytest.raises(TypeError, match="requires a floating point input type"):
        type_info.finfo(dtypes.int32)
    with pytest.raises(TypeError, match="must be torch.dtype, not int"):
        type_info.iinfo(3)


def test_default_dtype():
    try:
        modes.set_default_dtype(dtypes.float64)
        assert modes.scalar_dtype(1.0) is dtypes.float64
        assert modes.scalar_dtype(1j) is dtypes.complex128
        assert type_info.finfo().bits == 64
        seen = []
        thread = threading.Thread(target=lambda: seen.append(modes.get_default_dtype()))
        thread.start()
        thread.join()
        assert seen == [dtypes.float64]
        for wrong in (dtypes.int32, dtypes.complex64, "float32", float):
            with pytest.raises(TypeError, match="only floating-point types are supported"):
                modes.set_default_dtype(wrong)
        assert modes.get_default_dtype() is dtypes.float64
    finally:
        modes.set_default_dtype(dtypes.float32)


def test_default_device_nests_and_belongs_to_the_thread():
    meta, cpu = device("meta"), device("cpu")
    with meta, cpu, meta as entered:
        assert get_default_device() is entered is meta
        seen = []
        thread = threading.Thread(target=lambda: seen.append(get_default_device()))
        thread.start()
        thread.join()
        assert seen == [cpu]
    assert get_default_device() == cpu
    set_default_device("meta")
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        set_default_device("cuda")
    assert get_default_device() == meta
    set_default_device(None)
    assert get_default_device() == cpu


def test_device_is_a_value():
    assert device("cuda:1") == device("cuda", 1) == device(type="cuda", index=1)
    assert len({device("cpu"), device(device("cpu")), device("cpu:0")}) == 2
    assert device("cpu") != "cpu"
    for each in (device("cpu"), device("cuda:1")):
        assert pickle.loads(pickle.dumps(each)) == each == copy.deepcopy(each)
    with pytest.raises(AttributeError, match="not writable"):
        device("cpu").type = "cuda"
    with pytest.raises(RuntimeError, match="the largest is 127"):
        device("cuda:200")  # PyTorch wraps it to index 65480


def test_unavailable_devices_are_named():
    assert check_available(device("meta")) == device("meta")
    with pytest.raises(AssertionError, match=r"'cuda:1', and Rushlight has no CUDA back end yet"):
        check_available(device("cuda:1"))


def test_size_stays_a_size():
    size = Size([2, 3])
    for each in (size[:1], size + (4,), (4,) + size, size * 2, 2 * size, size + size):
        assert type(each) is Size
    assert type(size[0]) is int and type(Size([True])[0]) is int
    assert type(Size(np.array([2, 3]))[0]) is int
    assert size == (2, 3) and size != [2, 3] and hash(size) == hash((2, 3))
    assert repr(size) == str(size) == "torch.Size([2, 3])"
    assert Size().numel() == 1
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(size, protocol))
        assert type(again) is Size and again == size
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\) to torch.Size"):
        size + [4]
    with pytest.raises(TypeError, match="can only concatenate list"):
        [4] + size
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'float'\)"):
        Size([1, 2.0])


@pytest.mark.parametrize(
    "number", [np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int64(2)], ids=type
)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: x.clamp(-n, n),
        lambda x, n: torch.clamp(x, max=n),
        lambda x, n: x.clone().clamp_(-n, n),
        lambda x, n: torch.clamp_min(x, n),
        lambda x, n: torch.where(x > 0, x, n),
        lambda x, n: torch.true_divide(n, x),
        lambda x, n: torch.add(x, x, alpha=n),
        lambda x, n: torch.norm(x, n),
        lambda x, n: F.leaky_relu(x, n),
        lambda x, n: F.elu(x, n),
        lambda x, n: F.softplus(x, n),
        lambda x, n: F.hardtanh(x, -n, n),
        lambda x, n: F.threshold(x, n, n),
        lambda x, n: F.smooth_l1_loss(x, 2 * x, beta=n),
        lambda x, n: F.huber_loss(x, 2 * x, delta=n),
    ],
)
def test_numbers_of_numpy_are_as_pythons(call, number, requires_grad):
    x = torch.tensor([-3.0, 0.5, 3.0], requires_grad=requires_grad)
    expected = call(x, number.item())
    for _ in range(3):  # later calls go other ways
        result = call(x, number)
        assert result.dtype == torch.float32
        assert torch.equal(result, expected)
