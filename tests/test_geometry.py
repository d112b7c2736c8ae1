"""Stride arithmetic: known cases, and NumPy's own answers where it has the same question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rushlight.core import dtypes, geometry


@st.composite
def arrays(draw):
    """Small arrays as views make them: permuted, sliced, broadcast."""
    array = np.zeros(draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    array = array[tuple(slice(None, None, draw(st.integers(1, 2))) for _ in range(array.ndim))]
    if draw(st.booleans()):
        array = np.broadcast_to(array[..., None], (*array.shape, 3))
    return array


def geometries(array):
    return array.shape, tuple(step // array.itemsize for step in array.strides)


@given(arrays())
def test_is_contiguous_as_numpy(array):
    assert geometry.is_contiguous(*geometries(array)) == array.flags.c_contiguous


@given(arrays(), st.data())
def test_a_view_shows_the_same_elements(array, data):
    shape, strides = geometries(array)
    numbers = np.arange(array.size).reshape(shape)
    sizes = [d for d in range(1, array.size + 1) if array.size % d == 0] or [0]
    first = data.draw(st.sampled_from(sizes))
    new_shape = (first, 1, array.size // first) if first else (0, 3)
    new_strides = geometry.view_strides(shape, strides, new_shape)
    # Where each element of the old shape lies in memory; a view must visit the same places in the
    # same order.
    places = sum((np.indices(shape)[d] * strides[d] for d in range(len(shape))), numbers * 0)
    if new_strides is None:
        assert not geometry.is_contiguous(shape, strides)
        return
    new_places = sum(
        (np.indices(new_shape)[d] * new_strides[d] for d in range(len(new_shape))),
        np.zeros(new_shape, int),
    )
    assert places.ravel().tolist() == new_places.ravel().tolist()


@given(arrays())
def test_preserved_strides_are_dense_and_kept(array):
    shape, strides = geometries(array)
    preserved = geometry.preserve_strides(shape, strides)
    assert geometry.is_non_overlapping_and_dense(shape, preserved)
    assert geometry.preserve_strides(shape, preserved) == preserved
    result = geometry.elementwise_strides(shape, [(shape, strides)])
    assert geometry.is_non_overlapping_and_dense(shape, result)


@given(arrays(), arrays())
def test_broadcast_shapes_as_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(\d\) must match"):
            geometry.broadcast_shapes(a.shape, b.shape)
        return
    assert geometry.broadcast_shapes(a.shape, b.shape) == expected
    assert geometry.expand_strides(*geometries(a), expected)[0] == expected


NHWC = (60, 1, 15, 3)  # of the shape (2, 3, 4, 5)


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([((2, 3, 4, 5), NHWC)], NHWC),
        ([((2, 3, 4, 5), NHWC), ((), ())], NHWC),
        ([((2, 3, 4, 5), NHWC), ((3, 1, 1), (1, 1, 1))], NHWC),  # a bias
        ([((2, 3, 4, 5), NHWC), ((2, 3, 4, 5), (60, 20, 5, 1))], NHWC),  # the first decides
        ([((2, 3, 4, 5), (60, 20, 5, 1)), ((2, 3, 4, 5), NHWC)], (60, 20, 5, 1)),
        (
            [((3, 1, 1), (1, 1, 1)), ((2, 3, 4, 5), NHWC)],
            NHWC,
        ),  # a broadcast dimension does not decide
    ],
)
def test_elementwise_strides_follow_channels_last(operands, expected):
    assert geometry.elementwise_strides((2, 3, 4, 5), operands) == expected


def test_channels_last():
    shape = (2, 3, 4, 5)
    assert geometry.channels_last_strides(shape) == NHWC
    assert geometry.is_channels_last(shape, NHWC) and geometry.is_channels_last(shape, NHWC, 4)
    assert not geometry.is_channels_last(shape, NHWC, 5)
    assert geometry.suggest_memory_format(shape, NHWC) is dtypes.channels_last
    assert geometry.suggest_memory_format((2, 3, 2, 5), NHWC) is dtypes.channels_last  # a slice
    assert geometry.suggest_memory_format(shape, (60, 20, 5, 1)) is dtypes.contiguous_format
    assert geometry.suggest_memory_format((2, 1, 1, 1), (1, 1, 1, 1)) is dtypes.contiguous_format
    deep = (2, 3, 4, 5, 6)
    assert (
        geometry.suggest_memory_format(deep, geometry.channels_last_strides(deep))
        is dtypes.channels_last_3d
    )
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        geometry.format_strides((2, 3), dtypes.channels_last)
    with pytest.raises(RuntimeError, match="unsupported memory format torch.preserve_format"):
        geometry.format_strides(shape, dtypes.preserve_format)


def test_internal_overlap():
    assert geometry.has_internal_overlap((2, 3), (1, 0))
    assert not geometry.has_internal_overlap((2, 1), (1, 0))
    assert not geometry.has_internal_overlap((0, 3), (1, 0))


@pytest.mark.parametrize(
    "new_shape, numel, words",
    [
        ((2, 5), 6, "shape '[2, 5]' is invalid for input of size 6"),
        ((-1, 5), 6, "shape '[-1, 5]' is invalid for input of size 6"),
        ((-1, -1), 6, "only one dimension can be inferred"),
        ((-2, 3), 6, "invalid shape dimension -2"),
        ((-1, 0), 0, "cannot reshape tensor of 0 elements into shape [-1, 0]"),
    ],
)
def test_infer_size_errors(new_shape, numel, words):
    with pytest.raises(RuntimeError) as caught:
        geometry.infer_size(new_shape, numel)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: geometry.wrap_dim(2, 2),
            IndexError,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        ),
        (
            lambda: geometry.wrap_dim(0, 0, wrap_scalar=False),
            IndexError,
            "Dimension specified as 0 but tensor has no dimensions",
        ),
        (
            lambda: geometry.wrap_dims((0, 1, -2), 2),
            RuntimeError,
            "dim 0 appears multiple times in the list of dims",
        ),
        (
            lambda: geometry.broadcast_shapes((2, 3), (2, 4)),
            RuntimeError,
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
        (
            lambda: geometry.expand_strides((3,), (1,), (2, 4)),
            RuntimeError,
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [3]",
        ),
        (lambda: geometry.expand_strides((1,), (1,), (-2,)), RuntimeError, "invalid size -2"),
        (
            lambda: geometry.expand_strides((2, 3), (3, 1), (3,)),
            RuntimeError,
            "the number of sizes provided (1) must be greater or equal to the number of dimensions",
        ),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
