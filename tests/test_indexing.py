"""Indexing, gathering and scattering, against NumPy."""

import itertools
import re
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight._backends import llvm
from rushlight.ops.indexing import gather

A = np.arange(24.0).reshape(2, 3, 4)
I, J = np.array([1, 0, -1]), np.array([[0], [2]])
MASK = A[0] > 4

SAME_AS_NUMPY = {
    "int": 1,
    "negative int": -1,
    "slice": slice(1, None),
    "tuple": (0, slice(None, None, 2), 3),
    "ellipsis": (..., 1),
    "none": (None, 0, None),
    "list": [1, 0],
    "array": I,
    "array and slice": (slice(None), slice(1, 3), I),
    "two arrays": (I[:2], J),
    "arrays apart": (I[:2], slice(None), J),
    "mask": A > 7,
    "mask of two dimensions": (slice(None), MASK),
    "true": True,
    "empty": np.array([], int),
}


def tensors(index):
    if isinstance(index, tuple):
        return tuple(tensors(i) for i in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
def test_reading_and_writing(name):
    index = SAME_AS_NUMPY[name]
    x, a = torch.tensor(A), A.copy()
    assert np.array_equal(x[tensors(index)].numpy(), a[index])
    a[index] = -1
    x[tensors(index)] = -1
    assert np.array_equal(x.numpy(), a) and x._version == 1
    x[tensors(index)] = x[tensors(index)] * 2
    a[index] *= 2
    assert np.array_equal(x.numpy(), a)


def test_scalar_dimensions_are_views_too():
    x = torch.zeros(2, 2)
    x[0][1] = 5
    x[1, 0].fill_(7)
    assert x.tolist() == [[0, 5], [7, 0]]


def test_repeated_indices_add_their_gradients():
    x = torch.zeros(3, 2, requires_grad=True)
    x[torch.tensor([0, 2, 0])].sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


def test_written_values_and_base_get_gradients():
    x = torch.ones(3, requires_grad=True)
    v = torch.tensor([5.0, 6.0], requires_grad=True)
    y = x * 2
    y[torch.tensor([0, 2])] = v
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 8, 0] and v.grad.tolist() == [10, 12]


def test_index_put_accumulates():
    x = torch.zeros(3)
    x.index_put_((torch.tensor([0, 0, 2]),), torch.ones(3), accumulate=True)
    assert x.tolist() == [2, 0, 1]
    y = torch.zeros(2, 3, dtype=torch.bool)
    some = torch.eye(3, dtype=torch.bool).repeat(20, 1)
    y.index_put_((torch.zeros(60, dtype=torch.int64),), some, accumulate=True)
    assert y.tolist() == [[True] * 3, [False] * 3]


def test_conversion_to_the_dtype_of_the_tensor():
    x = torch.zeros(3, dtype=torch.int64)
    x[0] = 1.7
    x[1] = torch.tensor(2.9)
    assert x.tolist() == [1, 2, 0]
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[torch.tensor([0])] = torch.tensor([1.5])
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1]


def test_failing_writes_change_nothing():
    x = torch.zeros(3)
    for index, value in ((5, 1.0), (torch.tensor([0, 7]), 1.0), (slice(0, 2), torch.ones(3))):
        with pytest.raises((IndexError, RuntimeError)):
            x[index] = value
    for write in (
        lambda: x.index_add_(0, torch.tensor([0, 9]), torch.ones(2)),
        lambda: x.scatter_(0, torch.tensor([0, 9]), 1.0),
        lambda: x.index_copy_(0, torch.tensor([0]), torch.ones(2)),
        lambda: x.index_put_((torch.tensor([0, 9]),), torch.tensor(1.0), accumulate=True),
    ):
        with pytest.raises((IndexError, RuntimeError)):
            write()
    assert x.tolist() == [0, 0, 0] and x._version == 0


def test_bytes_as_masks_are_deprecated():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = torch.arange(3)[torch.tensor([1, 0, 1], dtype=torch.uint8)]
    assert y.tolist() == [0, 2] and "uint8" in str(seen[0].message)


def test_overlapping_source_and_target():
    x = torch.arange(5)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_gather_and_scatter_are_adjoint():
    x = torch.tensor(A[0], requires_grad=True)
    i = torch.tensor([[0, 0, 3], [1, 2, 2], [3, 3, 3]])
    y = x.gather(1, i)
    assert np.array_equal(y.detach().numpy(), np.take_along_axis(A[0], i.numpy(), 1))
    y.sum().backward()
    assert np.array_equal(
        x.grad.numpy(), torch.zeros(3, 4).scatter_add(1, i, torch.ones(3, 3)).numpy()
    )


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    x = torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    s = torch.tensor([5.0, 1.0, 4.5], dtype=torch.float64, requires_grad=True)
    i = torch.tensor([0, 0, 2])
    combine = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[
        reduce
    ]
    own = [[2.0], [3.0], [4.0]]
    want = [
        combine((own[0] if include_self else []) + [5.0, 1.0]),
        3.0,
        combine((own[2] if include_self else []) + [4.5]),
    ]
    y = x.scatter_reduce(0, i, s, reduce, include_self=include_self)
    assert np.allclose(y.tolist(), want)
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    gradients = torch.autograd.grad((y * weights).sum(), (x, s))
    for t, g in zip((x, s), gradients, strict=True):
        for k in range(3):
            moved = []
            for e in (1e-6, -1e-6):
                other = t.detach().clone()
                other[k] += e
                a, b = (other, s) if t is x else (x, other)
                r = a.scatter_reduce(0, i, b, reduce, include_self=include_self)
                moved.append((r * weights).sum().item())
            assert abs((moved[0] - moved[1]) / 2e-6 - float(g[k])) < 1e-6


def test_where_promotes_and_broadcasts():
    c = torch.tensor([[True], [False]])
    assert torch.where(c, torch.ones(2), 0).tolist() == [[1, 1], [0, 0]]
    assert torch.where(c, 1, 2.5).dtype is torch.float32
    assert torch.where(c, torch.ones(1, dtype=torch.float64), torch.zeros(1)).dtype is torch.float64
    assert [i.tolist() for i in torch.where(c)] == [[0], [0]]


def test_where_of_a_number_beside_a_tensor_is_a_choice(monkeypatch):
    """Of one without dimensions, too: nothing is left for the general way."""
    monkeypatch.setattr(gather.general, "call", None)
    c = torch.tensor([True, False])
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = torch.tensor(3, dtype=dtype)
        for y, values in ((torch.where(c, x, 2), [3, 2]), (torch.where(c, 2, x), [2, 3])):
            assert y.dtype is dtype and y.tolist() == values


def test_joining_promotes_and_skips_what_is_empty():
    y = torch.cat((torch.tensor([]), torch.ones(2, 2), torch.ones(1, 2, dtype=torch.float64)))
    assert y.shape == (3, 2) and y.dtype is torch.float64
    with pytest.raises(RuntimeError, match="Expected size 2 but got size 3 for tensor number 1"):
        torch.cat((torch.ones(2, 2), torch.ones(2, 3)))
    with pytest.raises(RuntimeError, match="equal size"):
        torch.stack((torch.ones(2), torch.ones(3)))


def test_list_of_views_in_one_call():
    x = torch.ones(4, 2, requires_grad=True)
    a, b = (x * 1).chunk(2)
    (a.sum() + 2 * b.sum()).backward()
    assert x.grad.tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]


def test_one_new_dimension_is_unsqueeze():
    """The short way for `x[:, None]` and its like gives what NumPy's indices do."""
    a = np.arange(24.0).reshape(2, 3, 4)
    x = torch.tensor(a)
    whole = slice(None)
    for index in itertools.chain.from_iterable(
        itertools.product([None, ..., whole], repeat=k) for k in range(1, 6)
    ):
        if sum(i is ... for i in index) > 1 or sum(i is whole for i in index) > 3:
            continue
        got, want = x[index], a[index]
        assert got.shape == want.shape and got.tolist() == want.tolist(), index
    y = x.clone().requires_grad_()
    assert y[:, None].grad_fn.name() == "UnsqueezeBackward0"
    y[..., None, :].sum().backward()
    assert torch.equal(y.grad, torch.ones_like(x))
    with pytest.raises(IndexError, match="too many indices"):
        x[:, :, :, :, None]


def test_rows_by_a_mask():
    x = torch.arange(24.0).view(4, 3, 2)
    mask = torch.tensor([True, False, True, False])
    y, z = x.clone(), x.numpy().copy()
    y[mask] = 7
    z[mask.numpy()] = 7
    assert y.tolist() == z.tolist() and y._version == 1
    y[torch.zeros(4, 3, dtype=torch.bool)] = -1
    assert y.tolist() == z.tolist()
    with pytest.raises(IndexError):
        y[torch.ones(3, dtype=torch.bool)] = 0
    w = x.clone().requires_grad_() * 1
    w[mask] = 0
    (g,) = torch.autograd.grad(w.sum(), w)
    assert w.grad_fn is not None and w[mask].abs().sum() == 0


def test_dimensions_of_size_zero():
    x = torch.zeros(10, 0)
    for index in ((slice(None), [0, 1]), ([0], [0])):
        with pytest.raises(IndexError, match="for dimension with size 0"):
            x[index]
    with pytest.raises(RuntimeError, match="axis dim should be positive"):
        torch.zeros(0, 3).index_select(0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="out of DATA bounds"):
        torch.zeros(0, 3).index_select(1, torch.tensor([5]))
    y = torch.zeros(2, 3, 4)[:, 1:1]
    assert y.stride() == (12, 4, 1) and torch.zeros(2, 0, 3).stride() == (3, 3, 1)


def test_a_dimension_of_size_zero_has_no_place_for_an_index():
    for shape in ((0, 2), (0, 0), (0, 5, 0)):
        x, i = torch.zeros(shape), torch.tensor([0, 0])
        with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
            x[i]
        with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
            x[i] = 1.0
        assert x[i[:0]].shape == (0, *shape[1:])


def test_index_put_takes_values_of_no_more_dimensions_than_it_writes():
    x, i = torch.zeros(3, 2), torch.tensor([0, 2])
    with pytest.raises(
        RuntimeError, match=r"\[1, 2, 2\] cannot be broadcast to indexing result of"
    ):
        x.index_put_((i,), torch.ones(1, 2, 2))
    x[i] = torch.ones(1, 1, 2, 2)  # an assignment leaves out leading sizes of 1
    assert x.tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("compiled", [False, True])
def test_indices_of_32_bits_and_elements_of_any_layout(compiled):
    if compiled:
        llvm.work(10**9)
    x = torch.arange(12.0).reshape(3, 4).t()
    i, flat = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([[0, -1], [5, 7]])
    assert torch.equal(x.take(flat), x.contiguous().view(-1)[flat])
    with pytest.raises(IndexError):
        x.take(flat + 10)
    assert torch.equal(x.index_select(1, i), x[:, i.long()])
    every = i[:, None].expand(2, 3)
    assert torch.equal(x.gather(0, every), x.gather(0, every.long()))
    assert torch.equal(x[i, i], x[i.long(), i.long()])


@pytest.mark.parametrize(
    "index, name",
    [
        ((slice(-2, None), None), "Unsqueeze"), ((None, slice(-9, None)), "Slice"), ((None, slice(0, 9)), "Unsqueeze"),
        ((None, slice(None, 1)), "Slice"), ((None, slice(None, None, 2)), "Slice"),
    ],
)  # fmt: skip
def test_a_slice_counts_by_its_numbers_as_they_are_given(index, name):
    x = torch.ones(2, requires_grad=True)
    assert x[index].grad_fn.name() == name + "Backward0"


@pytest.mark.parametrize("compiled", [False, True])
def test_writes_from_and_by_the_memory_that_is_written(compiled):
    if compiled:
        llvm.work(10**9)
    one_place = "refer to a single memory location"
    i = torch.tensor([0, 2])
    for index in (lambda x: x, lambda x: x[:2]):
        x = torch.tensor([1, 0, 2])
        with pytest.raises(RuntimeError, match=one_place):
            x[index(x)] = 7
        with pytest.raises(RuntimeError, match=one_place):
            x.index_put_((index(x),), torch.tensor(7))
        assert x.tolist() == [1, 0, 2]
    mask = torch.tensor([True, False, True])
    mask[mask] = False
    assert not mask.any()
    mask = torch.tensor([True, False, True])
    mask.index_put_((mask,), torch.tensor(False))
    assert not mask.any()
    x = torch.arange(6).reshape(2, 3)
    x[0, i] = x[1, :2]  # other places of the same memory
    assert x.tolist() == [[3, 1, 4], [3, 4, 5]]
    with pytest.raises(RuntimeError, match=one_place):
        x[i[:1]] = x[:1]


def test_inference_tensors_are_not_written_outside_of_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3)
        x[torch.tensor([0])] = 2.0
    for write in (
        lambda: x.__setitem__(torch.tensor([1]), 3.0),
        lambda: x.__setitem__(0, 3.0),
        lambda: x.index_put_((torch.tensor([1]),), torch.ones(1)),
    ):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write()
    assert x.tolist() == [2, 1, 1]


def test_items_are_not_deleted():
    x = torch.zeros(2)
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[0]


def test_other_refusals():
    x = torch.arange(4)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[torch.zeros(4, dtype=torch.bool)] = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="expected BoolTensor for mask"):
        x.masked_select(torch.ones(4, dtype=torch.uint8))
    for value in (1j, torch.tensor(1j)):
        with pytest.raises(RuntimeError, match="Converting complex Scalar"):
            x.index_fill_(0, torch.tensor([0]), value)
    with pytest.raises(RuntimeError, match="to have dtype of long, but got Float"):
        x.tensor_split(torch.tensor(1.5))
    with pytest.raises(RuntimeError, match="except along the differencing dimension"):
        torch.ones(2, 3).diff(dim=0, prepend=torch.ones(1, 2))
    with pytest.raises(TypeError, match="'str' object"):
        x.apply_(lambda k: "one")
    assert not torch.tensor([]).is_set_to(torch.tensor([]))


@pytest.mark.parametrize("index", [[], [0], [[0]]])
def test_a_tensor_index_of_a_tensor_without_dimensions_is_refused(index):
    x, i = torch.tensor(3.0), torch.tensor(index, dtype=torch.int64)
    for key in (i, (..., i), (i, ...)):
        with pytest.raises(IndexError, match="too many indices for tensor of dimension 0"):
            x[key]
        with pytest.raises(IndexError, match="too many indices for tensor of dimension 0"):
            x[key] = 1.0


def test_assignment_reads_its_index_as_reading_does():
    x = torch.arange(12.0).reshape(3, 4)
    rows = torch.tensor([True, False, True])
    x[rows] = torch.tensor([[1.0], [2.0]])
    assert x.tolist() == [[1.0] * 4, [4.0, 5.0, 6.0, 7.0], [2.0] * 4]
    x[torch.tensor(1) : torch.tensor(2), None, ::2] = -1
    assert x[1].tolist() == [-1.0, 5.0, -1.0, 7.0]
    x[1:] = x[:-1].clone()
    assert x[1].tolist() == [1.0] * 4 and x[2].tolist() == [-1.0, 5.0, -1.0, 7.0]
    with pytest.raises(RuntimeError):
        x[0] = torch.zeros(3)
    assert x._version == 3
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[rows] = torch.tensor([[1], [2]])


@pytest.mark.parametrize(
    "value", [torch.tensor(2), torch.tensor([2]), torch.tensor([[2.0]], dtype=torch.float64)]
)
@pytest.mark.parametrize("recorded", [False, True])
def test_one_number_at_a_mask_is_converted(value, recorded):
    x = torch.zeros(2, 3, requires_grad=recorded) * 1
    x[:, torch.tensor([True, False, True])] = value
    assert x.tolist() == [[2.0, 0.0, 2.0]] * 2
    x[torch.tensor([[True, True, False], [False] * 3])] = value * 2
    assert x.tolist() == [[4.0, 4.0, 2.0], [2.0, 0.0, 2.0]]
    assert x.index_put((torch.tensor([True, False]),), value).tolist()[0] == [2.0] * 3


@pytest.mark.parametrize("value", [1, torch.tensor(1.0), torch.tensor([1.0])])
def test_one_number_at_a_mask_of_bytes_is_refused(value):
    x, mask = torch.zeros(3), torch.tensor([1, 0, 1], dtype=torch.uint8)
    with (
        pytest.raises(RuntimeError, match="only supports boolean masks"),
        pytest.warns(UserWarning, match="torch.uint8"),
    ):
        x[mask] = value
    with pytest.warns(UserWarning, match="torch.uint8"):
        x[mask] = torch.tensor([1.0, 2.0])
    assert x.tolist() == [1.0, 0.0, 2.0]


WRONG = [  # an index, and what is wrong with it for a tensor of shape (2, 3)
    ((None, 2), IndexError, "index 2 is out of bounds for dimension 1 with size 2"),
    ((..., 3), IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
    (np.True_, IndexError, r"valid indices \(got numpy.bool"),
    ((0, np.False_, 1), IndexError, "too many indices for tensor of dimension 2"),
    (([[0], [1, 0]],), ValueError, "expected sequence of length 1 at dim 1"),
    (([[0], [1, 0]], 0, 0), IndexError, "too many indices for tensor of dimension 2"),
    (([slice(None)],), RuntimeError, "Could not infer dtype of slice"),
    (([None],), RuntimeError, "Could not infer dtype of NoneType"),
    (([torch.tensor([1, 2])],), TypeError, "only integer tensors of a single element"),
    ((1, 2, 3), IndexError, "too many indices for tensor of dimension 2"),
]


@pytest.mark.parametrize(("index", "error", "text"), WRONG)
def test_wrong_indices(index, error, text):
    x = torch.zeros(2, 3)
    with pytest.raises(error, match=text):
        x[index]
    with pytest.raises(error, match=text):
        x[index] = 1.0
    with pytest.raises(error, match=text):
        (torch.zeros(2, 3, requires_grad=True) * 1)[index] = 1.0


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "invalid index of a 0-dim tensor"),
        (1, "index 1 is out of bounds for dimension 0 with size 0"),
        (slice(None), r"slice\(\) cannot be applied to a 0-dim tensor"),
        ((0,), "too many indices for tensor of dimension 0"),
        ((slice(None),), "too many indices for tensor of dimension 0"),
    ],
)
def test_indices_of_a_tensor_without_dimensions(index, text):
    with pytest.raises(IndexError, match=text):
        torch.tensor(1.0)[index]


def test_index_fill_and_index_copy_take_indices_of_64_bits_only():
    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="Expected a long tensor for index, but got Int"):
        x.index_copy_(0, torch.tensor([0], dtype=torch.int32), torch.ones(1))
    with pytest.raises(IndexError, match="Expected dtype int64 for index"):
        x.index_fill_(0, torch.tensor([0], dtype=torch.int32), 1.0)
    assert x.tolist() == [0.0] * 3
    assert x.index_fill_(0, torch.tensor([-1, 0]), 2.0).tolist() == [2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("shape", "source", "index", "error"),
    [
        ((3, 4), (), [0], RuntimeError),
        ((3, 4), (1, 5), [0], RuntimeError),
        ((3, 4), (4,), [0], RuntimeError),
        ((3, 4), (1, 4), [0, 1], RuntimeError),
        ((3, 4), (1, 4), [3], RuntimeError),
        ((3,), (), [0], RuntimeError),
        ((), (1,), [0], RuntimeError),
        ((3,), (1,), [3], IndexError),
        ((), (), [1], IndexError),
    ],
)
def test_index_add_refuses_sources_without_a_slice_for_each_index(shape, source, index, error):
    x = torch.zeros(shape)
    with pytest.raises(error):
        x.index_add_(0, torch.tensor(index), torch.ones(source))
    assert not x.any() and x._version == 0


@pytest.mark.parametrize(
    ("shape", "source", "index", "error"),
    [
        ((3, 4), (), [0], RuntimeError),
        ((3, 4), (1, 5), [0], RuntimeError),
        ((3, 4), (4,), [0], IndexError),
        ((3, 4), (1, 4), [0, 1], IndexError),
        ((3, 4), (1, 4), [3], IndexError),
        ((3, 4), (), [0, 1], IndexError),
    ],
)
def test_index_copy_refuses_sources_without_a_slice_for_each_index(shape, source, index, error):
    x = torch.zeros(shape)
    with pytest.raises(error):
        x.index_copy_(0, torch.tensor(index), torch.ones(source))
    assert not x.any()


def test_index_copy_takes_a_number_for_an_element():
    assert torch.zeros(3).index_copy(0, torch.tensor([1]), torch.tensor(5.0)).tolist() == [0, 5, 0]
    assert torch.zeros(()).index_copy(0, torch.tensor([0]), torch.ones(1)).item() == 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [2, 40])
def test_sums_of_half_types_are_rounded_where_pytorch_rounds(compiled, dtype, rows):
    if compiled:
        llvm.work(10**9)
    big = 2048.0 if dtype is torch.float16 else 256.0
    once, each = big + 2, big
    i = torch.tensor([0, 0, 0])

    def total(write, shape, d):
        z = torch.zeros([rows if k == d else n for k, n in enumerate(shape)], dtype=dtype)
        values = torch.ones(shape, dtype=dtype)
        values.select(d, 0).fill_(big)
        every = i.view([3 if k == d else 1 for k in range(len(shape))]).expand(shape)
        return write(z, d, every, values).flatten()[0].item()

    def add(z, d, every, v):
        return z.index_add_(d, i, v)

    assert total(add, (3, 2), 0) == total(add, (2, 3), 1) == total(add, (2, 2, 3), 2) == once
    assert total(add, (3,), 0) == total(add, (2, 3, 2), 1) == each
    assert total(lambda z, d, every, v: z.index_add_(d, i.int(), v), (3, 2), 0) == each
    assert total(lambda z, d, every, v: z.index_add_(d, i, v, alpha=2), (3, 2), 0) == 2 * each
    assert total(lambda z, d, every, v: z.index_put_((i,), v, accumulate=True), (3, 2), 0) == each
    for shape, d in (((3,), 0), ((3, 2), 0), ((2, 3, 2), 1)):
        assert total(lambda z, d, every, v: z.scatter_add_(d, every, v), shape, d) == once
        assert total(lambda z, d, every, v: z.scatter_reduce_(d, every, v, "sum"), shape, d) == once
        mean = total(lambda z, d, every, v: z.scatter_reduce_(d, every, v, "mean"), shape, d)
        assert mean == torch.tensor(once / 4, dtype=dtype).item()
        mean = total(lambda z, d, every, v: z.index_reduce_(d, i, v, "mean"), shape, d)
        assert mean == each / 4


def test_arguments_of_index_put_are_checked():
    x, i, v = torch.zeros(3, 4), torch.tensor([0, 1]), torch.ones(2, 4)
    for name in ("index_put", "index_put_"):
        put = getattr(x, name)
        for given, message in (
            (((i,), 1.0), "argument 'values' (position 2) must be Tensor, not float"),
            (((i,), np.ones(4)), "argument 'values' (position 2) must be Tensor, not numpy.ndarray"),
            ((i, v), "argument 'indices' (position 1) must be tuple of Tensors, not Tensor"),
            ((([0, 1],), v), "expected Tensor as element 0 in argument 0, but got list"),
            (((i, 2), v), "expected Tensor as element 1 in argument 0, but got int"),
            (((i,), v, 1), "argument 'accumulate' (position 3) must be bool, not int"),
            (((i,),), "missing 1 required positional argument"),
        ):  # fmt: skip
            with pytest.raises(TypeError, match=re.escape(message)) as e:
                put(*given)
            if "argument '" in message:
                assert str(e.value).startswith(f"{name}():")
    assert x.sum() == 0


def test_sequences_of_floats_are_indices_and_strings_are_not():
    x = torch.arange(3.0)
    assert x[[1.7]].tolist() == [1.0] and x[np.array([0.2, 2.9])].tolist() == [0.0, 2.0]
    for index in ("a", ["a"], ("a",)):
        with pytest.raises(TypeError, match="invalid data type 'str'"):
            x[index]
        with pytest.raises(TypeError, match="invalid data type 'str'"):
            x[index] = 1


OUT_OF_RANGE = [
    ("int8", 300), ("int8", -129), ("uint8", 256), ("uint8", 3e9), ("int64", 2.0**63), ("int64", float("nan")),
    ("float32", 1e39), ("int32", 2**31), ("complex64", 1e39),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number"), OUT_OF_RANGE)
def test_numbers_that_the_dtype_cannot_hold_are_not_written(dtype, number):
    mask, at = torch.tensor([True, False, True]), torch.tensor([0, 2])
    writes = {
        "int": lambda x: x.__setitem__(0, number),
        "slice": lambda x: x.__setitem__(slice(2), number),
        "mask": lambda x: x.__setitem__(mask, number),
        "at": lambda x: x.__setitem__(at, number),
        "masked_fill": lambda x: x.masked_fill_(mask, number),
        "index_fill": lambda x: x.index_fill_(0, at, number),
        "scatter": lambda x: x.scatter_(0, at, number),
    }
    if not isinstance(number, complex):
        writes["pad"] = lambda x: torch.nn.functional.pad(x, (1, 1), value=number)
    if isinstance(number, int):
        writes["clamp"] = lambda x: x.clamp_(max=number)
        writes["where"] = lambda x: torch.where(mask, x, number)
    for name, write in writes.items():
        x = torch.zeros(3, dtype=getattr(torch, dtype))
        with pytest.raises(RuntimeError, match="without overflow"):
            write(x)
        assert not x.any(), name


def test_numbers_beyond_half_precision():
    x = torch.zeros(3, dtype=torch.float16)
    x[0], x[torch.tensor([1])] = 1e9, -1e9  # written at an index they are infinite
    assert x.tolist() == [float("inf"), float("-inf"), 0.0]
    x[1:] = 70000
    assert x.tolist() == [float("inf")] * 3
    with pytest.raises(RuntimeError, match="c10::Half without overflow"):
        x.masked_fill_(torch.tensor([True, False, False]), -1e9)
    assert torch.where(torch.tensor(True), -1e9, x).isinf().all()


def test_integers_of_more_than_64_bits_are_refused():
    x = torch.zeros(3)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        x[0] = 2**70
    for write in (
        lambda: x.fill_(2**70),
        lambda: x.masked_fill_(x == 0, 2**70),
        lambda: torch.full((2,), 2**70),
        lambda: torch.zeros(2, dtype=torch.int64).clamp(max=2**70),
    ):
        with pytest.raises(OverflowError, match="int too big to convert"):
            write()
    x[0] = 2**62
    assert x.tolist() == [2.0**62, 0.0, 0.0]


@pytest.mark.parametrize(
    ("index", "source", "wanted"),
    [(slice(0, 2), 1, [14.0, 18.0]), (..., 1, [8.0, 12.0]), (..., slice(1, 2), [8.0, 12.0])],
)
def test_a_part_with_a_history_is_written_over_all_of_it(index, source, wanted):
    w = torch.ones(2, requires_grad=True)
    x = torch.arange(8.0).view(4, 2) * w
    x[index] = x[source]
    x.sum().backward()
    assert w.grad.tolist() == wanted
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:] = x[:-1]


ROWS = torch.tensor([2, 0])
EVEN = torch.tensor([True, False, True, False])
MIXED = [
    (0, ROWS), (slice(None), ROWS), (ROWS, slice(1, 3)), (ROWS, ROWS), (EVEN, 0), (slice(None), EVEN), (..., ROWS),
    (None, ROWS), (ROWS[:, None], ROWS), (ROWS, slice(None, None, 2)), (slice(1, None), EVEN), (1, EVEN), (EVEN, EVEN),
    (torch.tensor(1), ROWS), torch.tensor(2), [3, 1], ([3, 1], 0), (slice(0, 3), [0, 2]), (EVEN, None), (EVEN, ROWS),
]  # fmt: skip


@pytest.mark.parametrize("index", MIXED, ids=str)
@pytest.mark.parametrize(
    "lies", [lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x.repeat(2, 2)[::2, :4]]
)
def test_mixed_indices(index, lies):
    x = lies(torch.arange(16.0).reshape(4, 4) + 1)
    key = tuple(
        k.numpy() if isinstance(k, torch.Tensor) else k
        for k in (index if isinstance(index, tuple) else (index,))
    )
    plain = x.numpy().copy()
    assert np.array_equal(x[index].numpy(), plain[key])
    for value in (0.0, torch.full_like(x[index], -1.0)):
        x[index] = value
        plain[key] = value if isinstance(value, float) else value.numpy()
        assert np.array_equal(x.numpy(), plain)
    leaf = torch.ones(4, 4, requires_grad=True)
    y = leaf * 2
    y[index] = 5.0
    y[index].sum().backward()
    assert leaf.grad.eq(0).all()
    leaf.grad = None
    (leaf * 2)[index].sum().backward()
    count = np.zeros((4, 4))
    np.add.at(count, key, 2.0)
    assert np.array_equal(leaf.grad.numpy(), count)


@pytest.mark.parametrize("size", [3, 40])
def test_one_number_at_a_mask_of_all(size):
    torch.manual_seed(0)
    x = torch.randn(size, size)
    for y in (x.clone(), x.t(), x.repeat(1, 2)[:, ::2]):
        mask = y > 0
        want = torch.where(mask, torch.tensor(2.0), y)
        y[mask] = 2
        assert y.equal(want)


def test_true_as_an_index_and_other_dtypes():
    x, whole = torch.zeros(2, 3), torch.tensor([1, 2, 3])
    x[True] = whole  # copied into a new dimension, whatever the dtype
    assert x.tolist() == [[1, 2, 3], [1, 2, 3]]
    for index in ((True, 0), (True,), torch.tensor(True), (torch.tensor(True), 0)):
        for value in (torch.tensor(1), whole):
            with pytest.raises(RuntimeError, match="dtypes match"):
                x[index] = value
        x[index] = 4.0
    assert x.tolist() == [[4, 4, 4], [4, 4, 4]]
    x[torch.tensor([True, False])] = torch.tensor(7)
    assert x.tolist() == [[7, 7, 7], [4, 4, 4]]
    assert x[False, 0].shape == (0, 3) and x[True, 0].tolist() == [[7, 7, 7]]


@pytest.mark.parametrize("index", [0, slice(0, 2), ..., (slice(None), slice(1))])
@pytest.mark.parametrize("value", [1.0, torch.tensor(1.0), torch.ones(1)])
def test_writes_to_memory_that_several_elements_share_are_refused(index, value):
    x = torch.zeros(3, 1).expand(3, 3)
    if index == (slice(None), slice(1)):  # a column has each element once
        x[index] = value
        assert x.eq(1).all()
        return
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x[index] = value
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.compile(lambda x: x.__setitem__(index, value))(x)


@pytest.mark.parametrize("fill", [torch.Tensor.masked_fill, torch.Tensor.masked_fill_])
def test_masked_fill_by_a_tensor_converts_its_number(fill):
    mask = torch.tensor([True, False])
    for dtype, value, expected in (
        (torch.int64, torch.tensor(1.5), [1, 0]),
        (torch.bool, torch.tensor(2.5), [True, False]),
        (torch.float32, torch.tensor(2 + 0j), [2.0, 0.0]),
    ):
        assert fill(torch.zeros(2, dtype=dtype), mask, value).tolist() == expected
    for dtype, value in ((torch.uint8, torch.tensor(300)), (torch.float32, torch.tensor(1 + 2j))):
        x = torch.zeros(2, dtype=dtype)
        with pytest.raises(RuntimeError, match="without overflow"):
            fill(x, mask, value)
        assert not x.any()
