"""Every function of geometry.py against PyTorch, on random shapes and strides."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.core import geometry

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

# ~1 ms an example: the functions are small and their corner cases many.
often = settings(max_examples=600, deadline=None)

sizes = st.sampled_from([0, 1, 1, 2, 2, 3, 4])
# Empty tensors are a family of their own: most examples should have elements.
full_sizes = st.sampled_from([1, 1, 2, 2, 3, 4])


@st.composite
def strides_for(draw, shape):
    """Strides of any order, with gaps, expanded, odd ones at size-1 dimensions."""
    how = draw(st.sampled_from(["contiguous", "channels_last", "permuted", "permuted", "any"]))
    ndim = len(shape)
    if how == "any":
        return tuple(draw(st.lists(st.integers(0, 8), min_size=ndim, max_size=ndim)))
    if how == "channels_last" and ndim in (4, 5):
        strides = list(geometry.channels_last_strides(shape))
    elif how == "permuted":
        strides, step = [1] * ndim, 1
        for d in draw(st.permutations(range(ndim))):
            strides[d] = step
            step *= max(shape[d], 1) * draw(st.sampled_from([1, 1, 1, 1, 2]))
    else:
        strides = list(geometry.contiguous_strides(shape))
    change = draw(st.sampled_from(["none", "none", "expand", "ones", "slice", "equal"]))
    for d in range(ndim):
        if change == "expand" and draw(st.integers(0, 2)) == 0:
            strides[d] = 0
        if change == "ones" and shape[d] == 1:
            strides[d] = draw(st.integers(0, 12))
        if change == "slice" and d == ndim - 1:
            strides = [2 * each for each in strides]
        if change == "equal" and d and draw(st.booleans()):
            strides[d] = strides[d - 1]
    return tuple(strides)


@st.composite
def shapes(draw, max_dims=5, min_dims=0):
    size = draw(st.sampled_from([full_sizes, full_sizes, full_sizes, sizes]))
    return tuple(draw(st.lists(size, min_size=min_dims, max_size=max_dims)))


@st.composite
def geometries(draw, max_dims=5):
    shape = draw(st.one_of(shapes(max_dims), shapes(4, 4), shapes(5, 5)))
    return shape, draw(strides_for(shape))


def tensor(shape, strides):
    return torch.empty_strided(shape, strides)


def outcome(call):
    """The result, or the type and the first line of the error."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error).split("\n")[0]


def same_outcome(mine, expected):
    """Equal results; or the same type of error, ours with PyTorch's words in it."""
    mine, expected = outcome(mine), outcome(expected)
    if isinstance(expected, tuple) and expected and isinstance(expected[0], type):
        assert isinstance(mine[0], type), (mine, expected)
        assert mine[0] is expected[0]
        assert expected[1].rstrip(".") in mine[1]
    else:
        assert mine == expected


def same_error(mine, expected):
    """Both succeed, or both fail in the same way."""
    same_outcome(lambda: (mine(), None)[1], lambda: (expected(), None)[1])


@often
@given(shapes())
def test_strides_of_memory_formats(shape):
    assert geometry.contiguous_strides(shape) == torch.empty(shape).stride()
    for mine, theirs in (
        (geometry.dtypes.contiguous_format, torch.contiguous_format),
        (geometry.dtypes.channels_last, torch.channels_last),
        (geometry.dtypes.channels_last_3d, torch.channels_last_3d),
    ):
        same_outcome(
            lambda: geometry.format_strides(shape, mine),
            lambda: torch.empty(shape, memory_format=theirs).stride(),
        )


@often
@given(geometries())
def test_predicates(placed):
    t = tensor(*placed)
    assert geometry.is_contiguous(*placed) == t.is_contiguous()
    aten = torch.ops.aten
    assert geometry.is_non_overlapping_and_dense(*placed) == aten.is_non_overlapping_and_dense(t)
    assert geometry.has_internal_overlap(*placed) == (aten._debug_has_internal_overlap(t) == 1)
    for ndim, theirs in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if t.dim() == ndim:
            assert geometry.is_channels_last(*placed, ndim) == t.is_contiguous(memory_format=theirs)
        else:
            assert not geometry.is_channels_last(*placed, ndim)
        like = aten.is_strides_like_format(t, theirs)
        assert geometry.is_channels_last_strides(*placed, ndim) == like
        suggested = geometry.suggest_memory_format(*placed)
        assert (repr(suggested) == repr(theirs)) == like


@often
@given(geometries())
def test_preserve_strides(placed):
    t = tensor(*placed)
    mine = geometry.preserve_strides(*placed)
    assert mine == torch.empty_like(t).stride()
    assert mine == t.clone().stride()
    assert mine == t.to(torch.float64).stride()


@st.composite
def views(draw):
    """A geometry and a shape of as many elements: chunks of it merged and split at random."""
    shape, strides = draw(geometries())
    rest = geometry.numel(shape)
    new = []
    while rest > 1 and len(new) < 6:
        size = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        new.append(size)
        rest //= size
    new.append(rest)
    ones = [1] * draw(st.integers(0, 2))
    zeros = [draw(sizes)] if rest == 0 else []
    new = draw(st.permutations(new + ones + zeros))
    return shape, strides, draw(st.sampled_from([tuple(new), tuple(new), shape]))


@often
@given(views())
def test_view_strides(view):
    shape, strides, new_shape = view
    expected = outcome(lambda: tensor(shape, strides).view(new_shape).stride())
    if expected and expected[0] is RuntimeError:
        assert "view size is not compatible" in expected[1]
        expected = None
    assert geometry.view_strides(shape, strides, new_shape) == expected


@often
@given(geometries(), st.data())
def test_view_strides_of_merged_neighbours(placed, data):
    """Merges and splits at the old borders: most of these are views."""
    shape, strides = placed
    new_shape = []
    for size in shape:
        if new_shape and data.draw(st.booleans()):
            new_shape[-1] *= size
        elif size == 4 and data.draw(st.booleans()):
            new_shape += [2, 2]
        else:
            new_shape.append(size)
    test_view_strides.hypothesis.inner_test((shape, strides, tuple(new_shape)))


@often
@given(st.lists(st.sampled_from([-2, -1, -1, 0, 1, 2, 3, 4, 6]), max_size=4), shapes(3))
def test_infer_size(new_shape, shape):
    t = torch.empty(shape)
    same_outcome(
        lambda: geometry.infer_size(new_shape, t.numel()), lambda: tuple(t.reshape(new_shape).shape)
    )


@often
@given(
    geometries(3),
    st.lists(st.sampled_from([-1, 0, 1, 2, 3]), max_size=4),
    st.booleans(),
    st.data(),
)
def test_expand_strides(placed, new_shape, fitting, data):
    shape, strides = placed
    if fitting:
        kept = [
            data.draw(st.sampled_from([size, -1] if size != 1 else [1, -1, 3, 0])) for size in shape
        ]
        new_shape = [size for size in new_shape if size >= 0] + kept
    t = tensor(shape, strides)

    def expected():
        expanded = t.expand(new_shape)
        return tuple(expanded.shape), expanded.stride()

    wanted = outcome(expected)
    if shape == () and -1 in new_shape:  # PyTorch: an overflow, or even a tensor of shape (-1, 0)
        with pytest.raises(RuntimeError, match="leading, non-existing dimension"):
            geometry.expand_strides(shape, strides, new_shape)
    elif isinstance(wanted[0], type) and "number of sizes provided" in wanted[1]:
        with pytest.raises(RuntimeError, match="number of sizes provided"):
            geometry.expand_strides(shape, strides, new_shape)
    else:
        same_outcome(lambda: geometry.expand_strides(shape, strides, new_shape), expected)


@pytest.mark.parametrize("ndim", range(4))
def test_wrap_dim(ndim):
    t = torch.ones([1] * ndim)
    for dim in range(-6, 6):
        same_error(lambda: geometry.wrap_dim(dim, ndim), lambda: t.softmax(dim))
        same_error(lambda: geometry.wrap_dim(dim, ndim, wrap_scalar=False), lambda: t.size(dim))
        if -ndim <= dim < ndim:
            unlike = torch.empty(tuple(range(2, 2 + ndim)))
            assert unlike.size(dim) == 2 + geometry.wrap_dim(dim, ndim)
    for dims in itertools.product(range(-3, 3), repeat=2):
        same_error(lambda: geometry.wrap_dims(dims, ndim), lambda: t.sum(dims))


@often
@given(st.lists(shapes(3), min_size=2, max_size=3))
def test_broadcast_shapes(all_shapes):
    def expected():
        tensors = [torch.empty(shape) for shape in all_shapes]
        function = torch.add if len(tensors) == 2 else torch.addcmul
        return tuple(function(*tensors).shape)

    same_outcome(lambda: geometry.broadcast_shapes(*all_shapes), expected)


@st.composite
def operands(draw):
    """One to three operands that broadcast together, often of one shape and equal strides."""
    shape = draw(st.one_of(shapes(), shapes(4, 4), shapes(5, 5)))
    count = draw(st.integers(1, 3))
    result = []
    whole = draw(st.booleans())
    for _ in range(count):
        own = list(shape)
        if not whole:
            own = own[draw(st.integers(0, len(own))) :] if draw(st.booleans()) else own
            own = [1 if draw(st.integers(0, 3)) == 0 else size for size in own]
        own = tuple(own)
        same = [strides for seen, strides in result if seen == own]
        if same and draw(st.booleans()):
            result.append((own, same[0]))
        else:
            result.append((own, draw(strides_for(own))))
    return result


@settings(max_examples=2000, deadline=None)
@given(operands())
def test_elementwise_strides(given_operands):
    tensors = [tensor(*each) for each in given_operands]
    function = {1: torch.neg, 2: torch.add, 3: torch.addcmul}[len(tensors)]
    shape = geometry.broadcast_shapes(*[shape for shape, _ in given_operands])
    expected = function(*tensors)
    assert shape == tuple(expected.shape)
    assert geometry.elementwise_strides(shape, given_operands) == expected.stride()


@often
@given(geometries())
def test_elementwise_strides_with_a_number(placed):
    expected = (tensor(*placed) * 2).stride()
    assert geometry.elementwise_strides(placed[0], [placed, ((), ())]) == expected
