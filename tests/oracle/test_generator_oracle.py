"""The random core against PyTorch, bit for bit: random calls one after the other, with states exchanged in between."""

from __future__ import annotations

import random
import warnings

import ml_dtypes
import numpy as np
import pytest

import rushlight
from rushlight.rng import rejection, sampling
from rushlight.rng.generator import Generator

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


def array_of(tensor) -> np.ndarray:
    """A tensor's elements, in the same dtype; bfloat16 included, which PyTorch does not hand to NumPy."""
    name = str(tensor.dtype).removeprefix("torch.")
    return tensor.double().numpy().astype(numpy_dtype(name))


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


@pytest.mark.filterwarnings("ignore:.*out of bounds")  # float32 does not hold every integer
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
                args = (array_of(p),)
            else:
                getattr(tensor, name)(*args, generator=theirs)
        if name == "random_":
            args = (*args, None, None)[:2]
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
        args = (*args, None, None)[:2]
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


def uniform(shape, dtype, scale):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(5)) * scale).to(dtype)


COUNTS = {
    "poisson": [
        (lambda n, dtype, s=s: (uniform(n, dtype, s),), torch.poisson) for s in (1, 9, 20, 1000)
    ],
    "binomial": [
        (lambda n, dtype, c=c, p=p: (uniform(n, dtype, c).floor(), uniform(n, dtype, p)), torch.binomial)
        for c, p in ((5, 1.0), (50, 0.1), (1000, 1.0), (1e6, 1.0))
    ],
    "standard_gamma": [
        (lambda n, dtype, s=s: (uniform(n, dtype, s),), torch._standard_gamma) for s in (0.1, 1, 3, 50)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", list(COUNTS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("waiting", [False, True])
def test_counts(name, dtype, waiting):
    for make, function in COUNTS[name]:
        for n in (0, 1, 2, 10, 100, 1000):
            ours, theirs = Generator().manual_seed(n), torch.Generator().manual_seed(n)
            if waiting:
                sampling.normal_(np.empty(3), 0.0, 1.0, ours)
                torch.empty(3).normal_(generator=theirs)
            inputs = make(n, getattr(torch, dtype))
            want = function(*inputs, generator=theirs)
            got = getattr(rejection, name)(*map(array_of, inputs), ours)
            assert np.array_equal(bits(got), bits(want))
            assert np.array_equal(ours.state_bytes(), theirs.get_state().numpy())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 7), (2, 500), (0, 3)])
def test_multinomial(dtype, shape):
    weights = uniform(shape, getattr(torch, dtype), 1) + 0.01
    for n, replacement in ((1, False), (1, True), (40, True), (shape[-1], False)):
        ours, theirs = Generator().manual_seed(n), torch.Generator().manual_seed(n)
        want = torch.multinomial(weights, n, replacement, generator=theirs)
        got = rejection.multinomial(array_of(weights), n, replacement, ours)
        assert np.array_equal(got, want.numpy())
        assert np.array_equal(ours.state_bytes(), theirs.get_state().numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dirichlet(dtype):
    alpha = uniform((50, 6), getattr(torch, dtype), 3)
    want = torch._sample_dirichlet(alpha, generator=torch.Generator().manual_seed(1)).numpy()
    got = rejection.dirichlet(array_of(alpha), Generator().manual_seed(1))
    np.testing.assert_allclose(got, want, rtol=0 if dtype == "float32" else 1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_slopes_of_rrelu(dtype):
    """A slope is drawn for each number up to 0, in the order of dimensions, not of memory."""
    results = []
    for library in (torch, rushlight):
        library.manual_seed(3)
        x = library.randn(4, 6, 8, 10).to(getattr(library, dtype))
        x[0, 0, 0, :3] = library.tensor([0.0, float("nan"), -float("inf")])
        y = library.nn.functional.rrelu(
            x.contiguous(memory_format=library.channels_last), 0.1, 0.6, True
        )
        results.append([y.double().numpy(), library.rand(3).double().numpy()])
    for expected, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, expected)
