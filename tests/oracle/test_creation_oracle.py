"""New tensors, copies, conversions against PyTorch on random data, layouts, dtypes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

torch = pytest.importorskip("torch")

often = settings(max_examples=400, deadline=None)
NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"]
NAMES += ["float64", "complex64", "complex128"]

leaves = st.one_of(
    st.booleans(),
    st.integers(-300, 300),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=True),
    st.complex_numbers(max_magnitude=1e3),
    st.sampled_from([None, "a", b"b", np.float32(1.5), np.int8(3), np.float64(2)]),
)
plain = st.one_of(st.booleans(), st.integers(-300, 300), st.floats(-1e5, 1e5))


def nested(leaf):
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            inner.flatmap(lambda x: st.integers(1, 3).map(lambda n: [x] * n)),
        ),
        max_leaves=6,
    )


def same(ours, theirs) -> None:
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    if theirs.numel():  # NumPy has no strides for what is empty, and its own where the size is 1
        assert visible(ours) == visible(theirs)
    if theirs.dtype is torch.bfloat16:
        ours, theirs = ours.to(rushlight.float32), theirs.to(torch.float32)
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().resolve_conj().numpy())


def visible(t) -> list[int]:
    return [s for s, n in zip(t.stride(), t.shape) if n > 1]


def both(f):
    """(value or exception type) of `f` with each module."""
    results = []
    for module in (rushlight, torch):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(f(module))
        except Exception as e:
            results.append(type(e))
    return results


def agree(f) -> None:
    ours, theirs = both(f)
    if isinstance(theirs, type) or isinstance(ours, type):
        # Several things may be wrong at once, and either be named first: the types of single errors
        # are compared in expressions/.
        assert isinstance(ours, type), ours
        assert isinstance(theirs, type), theirs
    else:
        same(ours, theirs)


@often
@given(nested(st.one_of(plain, plain, leaves)))
def test_tensor_of_nested_data(data):
    agree(lambda m: m.tensor(data))


@often
@given(nested(plain), st.sampled_from(NAMES))
def test_tensor_with_dtype(data, name):
    agree(lambda m: m.tensor(data, dtype=getattr(m, name)))


@st.composite
def layouts(draw):
    """(size of the memory, shape, strides, offset), gaps and expanded dimensions among them."""
    ndim = draw(st.integers(0, 5))
    shape = [draw(st.sampled_from([1, 1, 2, 2, 3, 0] if d else [1, 2, 3])) for d in range(ndim)]
    strides, step = [1] * ndim, 1
    for d in draw(st.permutations(range(ndim))):
        strides[d] = step
        step *= max(shape[d], 1) + draw(st.sampled_from([0, 0, 0, 1]))
    if ndim and draw(st.booleans()):
        strides[draw(st.integers(0, ndim - 1))] = 0
    n = 1 + sum((k - 1) * s for k, s in zip(shape, strides) if k)
    offset = draw(st.integers(0, 2))
    return n + offset, tuple(shape), tuple(strides), offset


def strided(m, layout, dtype="float32"):
    n, shape, strides, offset = layout
    return m.arange(n).to(getattr(m, dtype)).as_strided(shape, strides, offset)


FORMATS = ["preserve_format", "contiguous_format", "channels_last", "channels_last_3d"]


@often
@given(layouts(), st.sampled_from(FORMATS), st.sampled_from(["float32", "float64", "int64"]))
def test_copies_have_pytorchs_strides(layout, name, dtype):
    agree(lambda m: strided(m, layout).clone(memory_format=getattr(m, name)))
    agree(lambda m: strided(m, layout).to(getattr(m, dtype), memory_format=getattr(m, name)))
    agree(lambda m: m.zeros_like(strided(m, layout), memory_format=getattr(m, name)))
    if name != "preserve_format":
        agree(lambda m: strided(m, layout).contiguous(memory_format=getattr(m, name)))


@often
@given(layouts(), layouts(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_copy_(into, source, a, b):
    def run(m):
        t = strided(m, into, a)
        return t.copy_(strided(m, source, b))

    agree(run)


@often
@given(layouts(), st.sampled_from(NAMES), plain)
def test_fill_(layout, name, value):
    agree(lambda m: strided(m, layout, name).fill_(value))
    agree(lambda m: strided(m, layout, name).zero_())


DRAWS = {
    "uniform_": (-1.0, 2.0),
    "normal_": (1.0, 2.0),
    "random_": (0, 9),
    "exponential_": (0.5,),
    "bernoulli_": (0.3,),
    "geometric_": (0.2,),
    "cauchy_": (),
    "log_normal_": (),
}


@often
@given(layouts(), st.sampled_from(sorted(DRAWS)), st.sampled_from(NAMES))
def test_draws_walk_through_memory_as_pytorchs(layout, name, dtype):
    if 0 in layout[1]:  # the dtype is not looked at by all
        return

    def run(m):
        m.manual_seed(3)
        return getattr(strided(m, layout, dtype), name)(*DRAWS[name])

    agree(run)


numbers = st.one_of(
    st.integers(-20, 20), st.floats(-20, 20), st.sampled_from([0, 1, 0.1, -0.1, 1e9, float("nan")])
)


@often
@given(numbers, numbers, numbers, st.sampled_from([None, *NAMES]))
def test_arange(start, end, step, name):
    if step and abs((end - start) / step) > 1e4:
        return
    agree(lambda m: m.arange(start, end, step, dtype=name and getattr(m, name)))


@often
@given(numbers, numbers, st.integers(-1, 70), st.sampled_from([None, *NAMES]))
def test_linspace(start, end, n, name):
    agree(lambda m: m.linspace(start, end, n, dtype=name and getattr(m, name)))


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int64", "int32"])
@pytest.mark.parametrize("base", [10, 2, 0.1, 7.5])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
def test_logspace(n, base, name):
    bounds = [(-17, 0), (0.5, 3), (1.7, -2.5), (3, 3.9)]
    for start, end in bounds:
        agree(lambda m: m.logspace(start, end, n, base, dtype=getattr(m, name)))


@often
@given(plain, st.sampled_from([None, *NAMES]))
def test_full(value, name):
    agree(lambda m: m.full((2,), value, dtype=name and getattr(m, name)))
    agree(lambda m: m.scalar_tensor(value, dtype=name and getattr(m, name)))


@often
@given(layouts(), st.lists(st.integers(0, 4), max_size=4))
def test_resize_(layout, shape):
    def run(m):
        t = strided(m, layout).resize_(shape)
        return m.tensor([t.storage_offset(), *t.stride(), *t.shape])

    agree(run)


@given(st.sampled_from(NAMES), layouts())
def test_numpy_both_ways(name, layout):
    if name == "bfloat16":
        return
    agree(lambda m: m.from_numpy(strided(m, layout, name).numpy()))
