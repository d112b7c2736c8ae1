"""The random core against PyTorch, bit for bit: random calls one after the other, with states exchanged in between."""

from __future__ import annotations

import random
import warnings

import ml_dtypes
import numpy as np
import pytest

from rushlight import sampling
from rushlight.generator import Generator

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
SIZES = [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 1000, 1001]
WIDE = [(0, 2**28 - 1), (0, 2**28), (-(2**31), 2**31 - 5)]
WIDEST = [(-(2**63), None), (-(2**63), 2**63 - 1), (0, 2**40)]
ARGUMENTS = {
    "uniform_": [(0.0, 1.0), (-1.5, 2.7), (0.1, 0.3), (5.0, 5.0), (1.0, 1.001), (1e-5, 1e4)],
    "normal_": [(0.0, 1.0), (1.5, 0.02), (-0.3, 2.7), (4.0, 0.0)],
    "random_": [(), (0, 10), (0, 2), (3, 77), (0, 64)],
    "bernoulli_": [(0.5,), (0.1,), (1 / 3,), (0.0,), (1.0,), (1e-4,), "array"],
    "exponential_": [(1.0,), (2.5,), (0.3,), (float("inf"),)],
    "cauchy_": [(0.0, 1.0), (0.3, 2.7)],
    "log_normal_": [(1.0, 2.0), (0.3, 0.7)],
    "geometric_": [(0.3,), (0.01,), (0.99,)],
}


def numpy_dtype(name: str) -> np.dtype:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def bits(x) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        x = x.contiguous()
        x = (x.view(torch.int16) if x.dtype == torch.bfloat16 else x).numpy()
    return np.ascontiguousarray(x).view(np.uint8)


def twins(layout: str, n: int, dtype: str):
    """An array and a tensor of the same strides."""
    shape, order = {
        "contiguous": ((n,), (0,)),
        "transposed": ((3, n // 3), (1, 0)),
        "permuted": ((2, n // 6, 3), (1, 2, 0)),
        "gaps": ((n, 2), (0, 1)),
    }[layout]
    array = np.zeros(shape, numpy_dtype(dtype)).transpose(order)
    tensor = torch.zeros(shape, dtype=getattr(torch, dtype)).permute(order)
    return (array[:, 1], tensor[:, 1]) if layout == "gaps" else (array, tensor)


def dtypes_of(name: str) -> list[str]:
    more = {
        "uniform_": ["complex64", "complex128"],
        "normal_": ["complex64", "complex128"],
        "random_": [*INTEGERS, "bool"],
        "bernoulli_": [*INTEGERS, "bool"],
        "geometric_": INTEGERS,
    }
    return FLOATS + more.get(name, [])


def arguments_of(name: str, dtype: str) -> list:
    found = list(ARGUMENTS[name])
    if name == "random_":
        if dtype == "bool":
            return [(), (0, 2), (0, 1), (1, 2)]
        if dtype != "uint8":
            found += [(-100, 100), (-5, None), (3, None)]
        if dtype in ("int32", "int64", "float64"):
            found += WIDE
        if dtype in ("int64", "float32", "float64"):
            found += WIDEST
    return found


@pytest.mark.parametrize("seed", range(8))
def test_calls_in_any_order(seed):
    choose = random.Random(seed)
    ours, theirs = Generator(), torch.Generator()
    for call in range(150):
        if call % 20 == 0:
            start = choose.choice([0, 1, -1, 2**40 + 7, choose.randrange(2**64)])
            ours.manual_seed(start), theirs.manual_seed(start)
        if call % 20 == 10 and choose.random() < 0.5:
            ours.load_state_bytes(theirs.get_state().numpy())
        elif call % 20 == 10:
            theirs.set_state(torch.from_numpy(ours.state_bytes()))
        name = choose.choice(list(ARGUMENTS))
        dtype = choose.choice(dtypes_of(name))
        layout = choose.choice(["contiguous", "contiguous", "transposed", "permuted", "gaps"])
        n = choose.choice(SIZES)
        args = choose.choice(arguments_of(name, dtype))
        array, tensor = twins(layout, n, dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, about bounds that floats do not hold
            if args == "array":
                kind = choose.choice(FLOATS)
                p = torch.from_numpy(np.random.RandomState(call).rand(*array.shape))
                p = p.to(getattr(torch, kind))
                tensor.bernoulli_(p, generator=theirs)
                args = (p.double().numpy().astype(numpy_dtype(kind)),)
            else:
                getattr(tensor, name)(*args, generator=theirs)
        if name == "random_":
            sampling.random_(array, ours, *args)
        else:
            getattr(sampling, name)(array, *args, ours)
        assert np.array_equal(bits(array), bits(tensor)), (name, args, dtype, layout, n)
        assert np.array_equal(ours.state_bytes(), theirs.get_state().numpy()), (
            name,
            args,
            dtype,
            n,
        )


@pytest.mark.parametrize("name", list(ARGUMENTS))
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_hundred_thousand(name, dtype):
    args = ARGUMENTS[name][1]
    tensor = torch.empty(100_003, dtype=getattr(torch, dtype))
    getattr(tensor, name)(*args, generator=torch.Generator().manual_seed(11))
    array = np.empty(100_003, numpy_dtype(dtype))
    if name == "random_":
        sampling.random_(array, Generator().manual_seed(11), *args)
    else:
        getattr(sampling, name)(array, *args, Generator().manual_seed(11))
    assert np.array_equal(bits(array), bits(tensor))


@pytest.mark.parametrize("n", [0, 1, 2, 10, 100, 2999, 3000, 3001, 20000, 300_000])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float64"])
def test_permutations(n, dtype):
    ours, theirs = Generator().manual_seed(n), torch.Generator().manual_seed(n)
    want = torch.randperm(n, generator=theirs, dtype=getattr(torch, dtype)).numpy()
    got = sampling.randperm(n, ours, dtype)
    assert got.dtype == want.dtype
    assert np.array_equal(got, want)
    assert np.array_equal(ours.state_bytes(), theirs.get_state().numpy())
