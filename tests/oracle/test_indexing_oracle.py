"""Every form of index, read and written: PyTorch's values, shapes, strides, aliasing and errors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

LIBRARIES = (rushlight, torch)

# -- index items are described by data, and built for each library ---------------------------------------

ends = st.one_of(st.none(), st.integers(-5, 5))
items = st.one_of(
    st.tuples(st.just("int"), st.integers(-4, 4)),
    st.tuples(st.just("slice"), ends, ends, st.sampled_from((None, 1, 2, 3))),
    st.tuples(st.just("none")),
    st.tuples(st.just("ellipsis")),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("tensor"), st.lists(st.integers(-2, 2), min_size=0, max_size=4)),
    st.tuples(st.just("column"), st.lists(st.integers(-2, 2), min_size=1, max_size=3)),
    st.tuples(st.just("scalar tensor"), st.integers(-2, 2)),
    st.tuples(st.just("int32"), st.lists(st.integers(0, 1), min_size=1, max_size=3)),
    st.tuples(st.just("list"), st.lists(st.integers(-2, 2), min_size=1, max_size=3)),
    st.tuples(st.just("array"), st.lists(st.integers(-2, 2), min_size=1, max_size=3)),
    st.tuples(st.just("mask"), st.integers(1, 2), st.integers(0, 1000)),
    st.tuples(st.just("bad mask")),
    st.tuples(st.just("float")),
)
# PyTorch moves on twice with a second Ellipsis, and then finds no dimension
indices = st.lists(items, min_size=1, max_size=4).filter(lambda i: i.count(("ellipsis",)) < 2)
shapes = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)
orders = st.integers(0, 23)


def build(m, item, shape, d):
    kind, *values = item
    if kind == "int":
        return values[0]
    if kind == "slice":
        return slice(*values)
    if kind == "none":
        return None
    if kind == "ellipsis":
        return Ellipsis
    if kind == "bool":
        return values[0]
    if kind in ("tensor", "int32"):
        return m.tensor(values[0], dtype=m.int64 if kind == "tensor" else m.int32)
    if kind == "column":
        return m.tensor(values[0])[:, None]
    if kind == "scalar tensor":
        return m.tensor(values[0])
    if kind == "list":
        return values[0]
    if kind == "array":
        return np.array(values[0])
    if kind == "mask":
        size = shape[d : d + values[0]]
        if len(size) < values[0]:
            return m.tensor([True])
        return m.tensor(np.random.default_rng(values[1]).random(size) < 0.5)
    if kind == "bad mask":
        return m.zeros(7, dtype=m.bool)
    return 1.5


WIDTH = {"none": 0, "ellipsis": 0, "bool": 0}


def index_for(m, described, shape):
    index, d = [], 0
    for item in described:
        index.append(build(m, item, shape, d))
        d += item[1] if item[0] == "mask" else WIDTH.get(item[0], 1)
    return index[0] if len(index) == 1 else tuple(index)


def source(m, shape, order):
    """A tensor with the dimensions in some order in memory."""
    n = int(np.prod(shape))
    t = m.tensor(np.arange(1.0, n + 1).reshape(shape))
    if len(shape) > 1:
        axes = np.random.default_rng(order).permutation(len(shape)).tolist()
        back = np.argsort(axes).tolist()
        t = t.permute(*axes).contiguous().permute(*back)
    return t


def attempt(run):
    """(result, None), or (None, the error) for the errors that a library raises on purpose."""
    try:
        return run(), None
    except (RuntimeError, IndexError, ValueError, TypeError) as e:
        return None, e


def compare(results, what):
    (ours, our_error), (theirs, their_error) = results
    assert (our_error is None) == (their_error is None), (what, our_error, their_error)
    if their_error is not None:
        assert type(our_error) is type(their_error), (what, our_error, their_error)
    return theirs is not None


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=500)
@given(shapes, orders, indices)
def test_reading(shape, order, described):
    results, sources = [], []
    for m in LIBRARIES:
        x = source(m, shape, order)
        sources.append(x)
        results.append(attempt(lambda: x[index_for(m, described, shape)]))  # noqa: B023 - run at once
    if not compare(results, (shape, described)):
        return
    ours, theirs = results[0][0], results[1][0]
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert ours._is_view() == theirs._is_view()
    if theirs.numel():
        sizes = zip(theirs.shape, ours.stride(), theirs.stride(), strict=True)
        if theirs._is_view():
            assert all(a == b for _, a, b in sizes), (described, ours.stride(), theirs.stride())
            assert ours.storage_offset() == theirs.storage_offset()
        elif 1 not in theirs.shape:
            assert all(a == b for _, a, b in sizes), (
                described,
                ours.stride(),
                theirs.stride(),
            )


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=500)
@given(shapes, orders, indices, st.integers(0, 4), st.integers(0, 2))
def test_writing(shape, order, described, value, gradient):
    """`x[index] = value` for a number or tensors that broadcast; with and without gradients."""
    results, states = [], []
    for m in LIBRARIES:
        x = source(m, shape, order)
        if gradient == 1:
            x = x.requires_grad_() * 1
        y = x * 1
        region, _ = attempt(lambda: y[index_for(m, described, shape)])  # noqa: B023 - run at once
        size = () if region is None else tuple(region.shape)
        if value == 0:
            v = 0.5
        elif value == 1:
            v = m.tensor(7.0, dtype=m.float64)
        elif value == 2:
            v = m.tensor(np.linspace(-1, 1, int(np.prod(size[-1:]))).reshape(size[-1:]))
        elif value == 3:
            v = m.tensor(np.linspace(-1, 1, int(np.prod(size))).reshape(1, *size))
        else:
            v = m.zeros(5, dtype=m.float64)
        leaf = None
        if gradient == 2 and value:
            leaf = v = v.requires_grad_()

        def write(y=y, v=v, m=m):
            y[index_for(m, described, shape)] = v

        results.append(attempt(write))
        states.append((y, leaf))
    (ours, our_error), (theirs, their_error) = results
    assert (our_error is None) == (their_error is None), (shape, described, our_error, their_error)
    if their_error is not None:
        assert type(our_error) is type(their_error), (shape, described, our_error, their_error)
        return
    (y, leaf), (z, their_leaf) = states
    if repeated(described):
        return  # which of several values stands at a place in the end is not defined
    np.testing.assert_array_equal(y.detach().numpy(), z.detach().numpy())
    assert y.requires_grad == z.requires_grad
    if leaf is not None and z.requires_grad:
        a = rushlight.autograd.grad((y * y).sum(), leaf)[0]
        b = torch.autograd.grad((z * z).sum(), their_leaf)[0]
        np.testing.assert_allclose(a.numpy(), b.numpy())


def repeated(described):
    return any(item[0] in ("tensor", "column", "int32", "list", "array") for item in described)


# -- errors with their words ---------------------------------------------------------------------------

ERRORS = {
    "too far": lambda m, x: x[5],
    "too far in a tuple": lambda m, x: x[0, 9],
    "too many": lambda m, x: x[0, 0, 0, 0],
    "step": lambda m, x: x[::-1],
    "step 0": lambda m, x: x[::0],
    "float": lambda m, x: x[1.5],
    "float tensor": lambda m, x: x[m.tensor([1.5])],
    "far tensor": lambda m, x: x[m.tensor([7])],
    "short mask": lambda m, x: x[m.tensor([True])],
    "wide mask": lambda m, x: x[:, m.zeros(3, 3, dtype=m.bool)],
    "shapes": lambda m, x: x[m.tensor([0, 1]), m.tensor([0, 1, 2])],
    "0-d": lambda m, x: m.tensor(1.0)[0],
    "0-d slice": lambda m, x: m.tensor(1.0)[0:1],
    "value": lambda m, x: x.__setitem__(0, m.ones(3, 5)),
    "value of an index tensor": lambda m, x: x.__setitem__(m.tensor([0, 2]), m.ones(3)),
    "dtype of the value": lambda m, x: x.__setitem__(m.tensor([0]), m.ones(1, dtype=m.int64)),
    "list as value": lambda m, x: x.__setitem__(0, [1.0]),
    "complex number": lambda m, x: x.__setitem__(0, 1j),
    "select": lambda m, x: x.select(0, 3),
    "narrow": lambda m, x: x.narrow(0, 2, 3),
    "gather": lambda m, x: x.gather(0, m.tensor([[[3]]])),
    "index_select": lambda m, x: x.index_select(0, m.tensor([3])),
    "view": lambda m, x: x.transpose(0, 1).view(-1),
    "view sizes": lambda m, x: x.view(7, -1),
    "expand": lambda m, x: x.expand(3, 4, 6),
    "cat": lambda m, x: m.cat((x, m.ones(3, 3, 3))),
    "stack": lambda m, x: m.stack((x, x[0])),
    "split": lambda m, x: x.split([1, 1]),
    "leaf": lambda m, x: x.requires_grad_().__setitem__(0, 1.0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_words_of_pytorch(name):
    """The type is PyTorch's, and so are the most of its words (ours say more)."""
    errors = [attempt(lambda: ERRORS[name](m, m.ones(3, 4, 5)))[1] for m in LIBRARIES]  # noqa: B023
    ours, theirs = errors
    assert type(ours) is type(theirs), (ours, theirs)
    words = [set(str(e).lower().replace(".", " ").replace(",", " ").split()) for e in errors]
    assert len(words[0] & words[1]) >= 0.6 * len(words[1]), (str(ours), str(theirs))


def test_index_tensor_overwritten_before_backward():
    """The gradient would go to other places than were read."""
    for m in LIBRARIES:
        x, i = m.ones(3, requires_grad=True), m.tensor([0, 1])
        y = x[i]
        i[0] = 2
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("word", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "int32"])
def test_reductions_at_few_places_that_repeat(dtype, word):
    """Each value in turn, with and without what stood there; half types are rounded where PyTorch rounds them."""
    rng = np.random.default_rng(0)
    for shape, dim, k in (
        ((), 0, 1),
        ((5,), 0, 9),
        ((4, 6), 1, 7),
        ((4, 6), 0, 4),
        ((3, 4, 5), 1, 6),
    ):
        along = [*shape]
        along[dim : dim + 1] = [k] if shape else []
        n = shape[dim] if shape else 1
        scale = 1 if dtype.startswith("int") else 0.37
        x, s = rng.integers(-4, 5, shape) * scale, rng.integers(-4, 5, along) * scale
        each, one = rng.integers(0, n, along), rng.integers(0, n, k)
        for include in (True, False):
            for turned in (False, True):
                found = []
                for m in LIBRARIES:
                    t, v, i = (m.tensor(np.asarray(a).tolist()) for a in (x, s, each))
                    t, v = t.to(getattr(m, dtype)), v.to(getattr(m, dtype))
                    if turned:
                        t, v, i = (a.mT.contiguous().mT if len(shape) > 1 else a for a in (t, v, i))
                    got = [t.scatter_reduce(dim, i, v, word, include_self=include)]
                    if word != "sum":
                        at = m.tensor(one.tolist())
                        got.append(t.index_reduce(dim, at, v, word, include_self=include))
                    found.append([(str(r.dtype)[-5:], r.stride(), r.tolist()) for r in got])
                assert found[0] == found[1], (shape, dim, include, turned)
