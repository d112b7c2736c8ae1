"""The printed text of tensors: fixed strings, as PyTorch prints the same values."""

from __future__ import annotations

import textwrap

import ml_dtypes
import numpy as np
import pytest

from rushlight._backends import devices
from rushlight.core import dtypes, modes, printing
from rushlight.core.device import device

nan, inf = float("nan"), float("inf")


class Tensor:
    """What `printing` reads of a tensor."""

    __module__ = "rushlight.core.tensor"

    def __init__(self, values, dtype=None, *, on="cpu", requires_grad=False, node=None):
        self._array = np.asarray(values, dtype)
        if dtype is None and self._array.dtype.kind in "fc":
            self._array = self._array.astype(
                {"f": "float32", "c": "complex64"}[self._array.dtype.kind]
            )
        self.dtype = dtypes.OF[self._array.dtype]
        self.shape, self.device = self._array.shape, device(on)
        self.is_meta = on == "meta"
        if self.is_meta:
            del self._array
        self.requires_grad = requires_grad or node is not None
        self.grad_fn = None if node is None else type(node, (), {})()

    def __str__(self):
        return printing.tensor_str(self)


class Parameter(Tensor):
    __module__ = "rushlight.nn.parameter"


class Masked(Tensor):
    pass


Masked.__module__ = "someones.module"


@pytest.fixture(autouse=True)
def default_options():
    yield
    printing.set_printoptions(profile="default")
    modes.set_default_dtype(dtypes.float32)


def text(block):
    return textwrap.dedent(block).strip("\n")


@pytest.mark.parametrize(
    "values, dtype, want",
    [
        (3.0, "float32", "3."),
        (1e-5, "float32", "1.0000e-05"),
        (True, "bool", "True"),
        (1 + 2j, "complex64", "1.+2.j"),
        ([1e8], "float64", "[100000000.]"),
        ([1e8 + 8], "float64", "[1.0000e+08]"),
        ([1e-4], "float64", "[0.0001]"),
        ([0.99e-4], "float64", "[9.9000e-05]"),
        ([1.0, 1000.0], "float32", "[   1., 1000.]"),
        ([1.0, 1001.0], "float32", "[1.0000e+00, 1.0010e+03]"),
        ([0.5, 500.0], "float32", "[  0.5000, 500.0000]"),
        ([0.5, 500.5], "float32", "[5.0000e-01, 5.0050e+02]"),
        ([5e-324, 1.7e308], "float64", "[4.9407e-324, 1.7000e+308]"),
        ([-0.0, 0.0], "float32", "[-0., 0.]"),
        ([0.0, nan, -inf], "float32", "[0., nan, -inf]"),
        ([1.5, nan, -inf], "float32", "[1.5000,    nan,   -inf]"),
        ([1e-9, nan, -inf], "float32", "[1.0000e-09,        nan,       -inf]"),
        ([1.5, 65504.0], "float16", "[1.5000e+00, 6.5504e+04]"),
        ([1.5, 3.14159], ml_dtypes.bfloat16, "[1.5000, 3.1406]"),
        ([1, -20, 300], "int32", "[  1, -20, 300]"),
        ([2**63], "uint64", "[9223372036854775808]"),
        ([True, False], "bool", "[ True, False]"),
        ([1.5 - 2j, complex(nan, -inf), 0], "complex64", "[1.5000-2.j,    nan-infj, 0.0000+0.j]"),
        ([1 + 1e9j, -2.5j], "complex64", "[1.+1.0000e+09j, -0.-2.5000e+00j]"),
        ([], "float32", "[]"),
        (np.zeros((3, 0, 2)), "float32", "[]"),
        (np.zeros((1, 1, 1)), "float32", "[[[0.]]]"),
        (range(1001), "int64", "[   0,    1,    2,  ...,  998,  999, 1000]"),
    ],
)
def test_numbers(values, dtype, want):
    assert printing.format_array(np.asarray(values, dtype)) == want


def test_long_rows_are_wrapped():
    assert str(Tensor(np.arange(30) / 7)) == text("""
        tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
                1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
                2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,
                3.8571, 4.0000, 4.1429])
    """)
    assert str(Tensor(np.arange(6) / 7 * (1 - 2j))) == text("""
        tensor([0.0000+0.0000j, 0.1429-0.2857j, 0.2857-0.5714j, 0.4286-0.8571j,
                0.5714-1.1429j, 0.7143-1.4286j])
    """)


def test_dimensions_are_set_apart():
    assert str(Tensor(np.arange(24.0).reshape(2, 3, 4))) == text("""
        tensor([[[ 0.,  1.,  2.,  3.],
                 [ 4.,  5.,  6.,  7.],
                 [ 8.,  9., 10., 11.]],

                [[12., 13., 14., 15.],
                 [16., 17., 18., 19.],
                 [20., 21., 22., 23.]]])
    """)


def test_a_large_array_shows_its_corners():
    printing.set_printoptions(threshold=20, edgeitems=1)
    assert str(Tensor(np.arange(60).reshape(3, 4, 5))) == text("""
        tensor([[[ 0,  ...,  4],
                 ...,
                 [15,  ..., 19]],

                ...,

                [[40,  ..., 44],
                 ...,
                 [55,  ..., 59]]])
    """)
    assert str(Tensor(np.arange(6.0).reshape(2, 3))).count("...") == 0


def test_only_the_shown_elements_are_read_and_choose_the_format():
    # 10^10 elements over four bytes: a pass over all of them, or a copy, would not end.
    huge = np.broadcast_to(np.float32(1.5), (100_000, 100_000))
    assert printing.format_array(huge) == text("""
        [[1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000],
         [1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000],
         [1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000],
         ...,
         [1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000],
         [1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000],
         [1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000]]
    """)
    hidden = np.ones(2000)
    hidden[1000] = 1e-30
    assert printing.format_array(hidden) == "[1., 1., 1.,  ..., 1., 1., 1.]"


def test_an_array_on_a_device_is_cut_before_it_is_fetched(monkeypatch):
    class OnDevice:
        def __init__(self, array):
            self.array, self.shape = array, array.shape

        def __getitem__(self, index):
            return OnDevice(self.array[index])

    class Kernels:
        def from_numpy(a):
            return a

        def to_numpy(a):
            assert a.array.size <= 36
            return a.array

    monkeypatch.setitem(devices._of_class, OnDevice, Kernels)
    assert printing.format_array(OnDevice(np.zeros((50, 50)))).startswith("[[0., 0., 0.,  ..., 0.")
    assert printing.format_array(OnDevice(np.zeros(2))) == "[0., 0.]"


@pytest.mark.parametrize(
    "tensor, want",
    [
        (Tensor([1, 2]), "tensor([1, 2])"),
        (Tensor([True]), "tensor([True])"),
        (Tensor([1j]), "tensor([0.+1.j])"),
        (Tensor([1, 2], "int32"), "tensor([1, 2], dtype=torch.int32)"),
        (Tensor([1], "float64"), "tensor([1.], dtype=torch.float64)"),
        (Tensor([1], "complex128"), "tensor([1.+0.j], dtype=torch.complex128)"),
        (Tensor([1.5], ml_dtypes.bfloat16), "tensor([1.5000], dtype=torch.bfloat16)"),
        (Tensor([], "float32"), "tensor([])"),
        (Tensor([], "int64"), "tensor([], dtype=torch.int64)"),
        (Tensor(np.zeros((0, 3))), "tensor([], size=(0, 3))"),
        (
            Tensor(np.zeros((0, 3)), "bool"),
            "tensor([], size=(0, 3), dtype=torch.bool)",
        ),
        (Tensor(np.zeros((2, 3)), on="meta"), "tensor(..., device='meta', size=(2, 3))"),
        (
            Tensor([1], "int64", on="meta"),
            "tensor(..., device='meta', size=(1,), dtype=torch.int64)",
        ),
        (Tensor([2.0], on="cuda:1"), "tensor([2.], device='cuda:1')"),
        (Tensor([2.0], requires_grad=True), "tensor([2.], requires_grad=True)"),
        (Tensor([2.0], node="AddBackward0"), "tensor([2.], grad_fn=<AddBackward0>)"),
        (
            Tensor(1.0, "float64", node="MulBackward0"),
            "tensor(1., dtype=torch.float64, grad_fn=<MulBackward0>)",
        ),
        (Masked([2.0]), "Masked([2.])"),
        (Masked([[1], [2]]), "Masked([[1],\n        [2]])"),
        (Parameter([2.0], requires_grad=True), "tensor([2.], requires_grad=True)"),
    ],
)
def test_tensors(tensor, want):
    assert str(tensor) == want


def test_what_does_not_fit_on_the_line_starts_a_new_one():
    tensor = Tensor(np.arange(9) / 7, requires_grad=True)
    assert str(tensor) == text("""
        tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429],
               requires_grad=True)
    """)


def test_a_parameter_says_so():
    assert printing.tensor_str(Parameter([[1.0], [2.0]], requires_grad=True)) == text("""
        tensor([[1.],
                [2.]], requires_grad=True)
    """)
    scale = type("Scale", (Parameter,), {"__module__": "someones.module"})([1.0])
    assert printing.tensor_str(scale) == "Parameter(Scale([1.]))"


def test_the_default_dtype_goes_unnamed():
    modes.set_default_dtype(dtypes.float64)
    assert str(Tensor([1], "float64")) == "tensor([1.])"
    assert str(Tensor([1], "complex128")) == "tensor([1.+0.j])"
    assert str(Tensor([1], "float32")) == "tensor([1.], dtype=torch.float32)"
    assert str(Tensor([], "complex128")) == "tensor([], dtype=torch.complex128)"


def test_a_view_without_history_is_still_printed():
    class Stale(Tensor):
        @property
        def grad_fn(self):
            raise RuntimeError("the base was written in place")

        @grad_fn.setter
        def grad_fn(self, node):
            pass

    assert str(Stale(2.0)).endswith("(2., grad_fn=<Invalid>)")


def test_contents_may_be_given():
    assert printing.tensor_str(Tensor([1.5], "float64"), contents="...") == (
        "tensor(..., dtype=torch.float64)"
    )


@pytest.mark.parametrize(
    "options, values, want",
    [
        ({"precision": 2}, [1.5, 1e-7], "[1.50e+00, 1.00e-07]"),
        ({"precision": 0}, [1.5, 2.25], "[2, 2]"),
        ({"sci_mode": True}, [1.0, 20.0], "[1.0000e+00, 2.0000e+01]"),
        ({"sci_mode": False}, [1.0, 2e9, inf], "[         1., 2000000000.,         inf]"),
        ({"sci_mode": True}, [0.0, nan], "[0., nan]"),
        ({"linewidth": 8}, [1, 2, 3], "[1, 2,\n 3]"),
        ({"linewidth": 0}, [1, 2], "[1,\n 2]"),
        ({"threshold": 2, "edgeitems": 1}, [1.0, 2.0, inf], "[1.,  ..., inf]"),
        ({"threshold": 2, "edgeitems": 0}, [1.0, 2.0, inf], "[...]"),
        ({"threshold": 0, "edgeitems": 0}, 1.5, "1.5000"),
    ],
)
def test_options(options, values, want):
    array = np.asarray(values)
    assert printing.format_array(array, **options) == want
    with printing.printoptions(**options):
        assert printing.format_array(array) == want
    assert printing.get_printoptions() == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_options_stay_until_they_are_set_again_except_sci_mode():
    printing.set_printoptions(precision=2, sci_mode=True)
    printing.set_printoptions(edgeitems=5)
    assert printing.get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 5,
        "linewidth": 80,
        "sci_mode": None,
    }
    printing.set_printoptions(profile="full", linewidth=120)
    assert printing.get_printoptions()["threshold"] == inf
    assert printing.get_printoptions()["linewidth"] == 120


def test_without_edge_items_the_size_is_told():
    printing.set_printoptions(edgeitems=0)
    assert str(Tensor(np.zeros(2000))) == "tensor([...], size=(2000,))"
    assert str(Tensor([2.0])) == "tensor([2.], size=(1,))"


def test_options_end_with_the_block_even_when_it_raises():
    with pytest.raises(ZeroDivisionError), printing.printoptions(precision=1, sci_mode=True):
        1 / 0
    assert printing.get_printoptions()["precision"] == 4
    with pytest.raises(TypeError, match="digits"), printing.printoptions(digits=1):
        pass
    with pytest.raises(TypeError, match="unknown options \\['digits'\\]; use \\['precision'"):
        printing.format_array(np.zeros(2), digits=1)


def test_nothing_warns():
    signalling = np.array([0x7F800001, 0x7FC00000, 1], "uint32").view("float32")
    half = np.array([0x7C01, 0x7E00, 1], "uint16").view("float16")
    with np.errstate(all="raise"):
        assert printing.format_array(signalling) == "[       nan,        nan, 1.4013e-45]"
        assert printing.format_array(half) == "[       nan,        nan, 5.9605e-08]"
        brain = np.array([0x7F81, 0x7FC0, 1], "uint16").view(ml_dtypes.bfloat16)
        assert printing.format_array(brain) == "[       nan,        nan, 9.1835e-41]"


def test_format_of_one_number():
    assert printing.tensor_format(Tensor(2.5), ".3f") == "2.500"
    assert printing.tensor_format(Tensor(2.5, ml_dtypes.bfloat16), "") == "2.5"
    assert printing.tensor_format(Tensor(7), ">4d") == "   7"
    assert printing.tensor_format(Tensor(True), "") == "True"
    assert printing.tensor_format(Tensor(1 + 2j), ".1f") == "1.0+2.0j"
    with pytest.raises(ValueError, match="Unknown format code 'd'"):
        printing.tensor_format(Tensor(2.5), "d")


@pytest.mark.parametrize("tensor", [Tensor([2.5]), Tensor(2.5, on="meta"), Parameter(2.5)])
def test_format_of_anything_else_is_str_and_takes_no_spec(tensor):
    assert printing.tensor_format(tensor, "") == str(tensor)
    with pytest.raises(
        TypeError, match=f"unsupported format string passed to {type(tensor).__name__}"
    ):
        printing.tensor_format(tensor, ".2f")
