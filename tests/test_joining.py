"""`cat` and `stack`: the direct way and the general one give the same tensors in the same order of memory."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import rushlight as torch


@pytest.mark.parametrize(
    "dtypes", [("float32",) * 3, ("float32", "int64", "float32"), ("uint8",) * 3]
)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_any_order_of_memory(n, dtypes):
    shape = (2, 3, 4, 5)[:n]
    for order, dim in itertools.product(itertools.permutations(range(n)), range(-n - 1, n + 1)):
        tensors = []
        for i, dtype in enumerate(dtypes):
            turned = torch.arange(i, i + int(np.prod(shape))).to(getattr(torch, dtype))
            turned = turned.reshape([shape[d] for d in order])
            tensors.append(turned.permute([order.index(d) for d in range(n)]))
        arrays = [t.numpy() for t in tensors]
        stacked = torch.stack(tensors, dim)
        last = order == (0, 2, 3, 1) and dim % 5 < 4  # channels last in memory, as the tensors
        assert stacked.is_contiguous() is not last and stacked.dtype is getattr(torch, dtypes[0])
        assert np.array_equal(stacked.numpy(), np.stack(arrays, dim))
        if -n <= dim < n:
            joined = torch.cat(tensors, dim)
            assert joined.is_contiguous() or n == 4
            assert joined.dtype is getattr(torch, dtypes[0])
            assert np.array_equal(joined.numpy(), np.concatenate(arrays, dim))


def test_sizes_that_only_add_up_are_refused():
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        torch.stack([torch.ones(2, 3), torch.ones(1, 3), torch.ones(3, 3)])
    with pytest.raises(RuntimeError, match="equal size"):
        torch.stack([torch.tensor(1.0), torch.ones(1)])
    with pytest.raises(RuntimeError, match="zero-dimensional"):
        torch.cat([torch.ones(1), torch.tensor(1.0)])


def test_promotion_is_not_numpys():
    both = torch.stack([torch.tensor(1.0), torch.tensor(2)])
    assert both.dtype is torch.float32 and both.tolist() == [1, 2]
    assert torch.cat([torch.ones(1), torch.ones(1, dtype=torch.int64)]).dtype is torch.float32
    assert torch.stack([torch.tensor(1), torch.tensor(2.0)]).dtype is torch.float32
    assert torch.cat([torch.ones(0), torch.ones(0)], 5).shape == (0,)


def test_gradients_of_both():
    x = torch.ones(2, requires_grad=True)
    (torch.stack([x, x * 2]).sum() + torch.cat([x, x]).sum()).backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_views_are_recorded_where_their_base_is():
    plain, wanted = torch.ones(3, 2), torch.ones(3, 2, requires_grad=True)
    assert torch.stack(list(plain)).grad_fn is None
    assert torch.cat([plain[0], plain[1]]).grad_fn is None
    assert type(torch.stack([plain[0], wanted[0]]).grad_fn).__name__ == "StackBackward0"
    row = plain[0]
    plain.mul_(wanted.detach().requires_grad_())
    assert torch.stack([row, row]).requires_grad  # the view takes its base's history
    torch.stack([plain[1], wanted[1]]).sum().backward()
    assert wanted.grad.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_slices_of_channels_last_are_joined_as_channels_last():
    x = torch.arange(96.0).view(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    y = torch.cat([x[:, :, :2], x[:, :, 2:]], 2)
    assert y.tolist() == x.tolist() and y.is_contiguous(memory_format=torch.channels_last)
    one = torch.zeros(2, 1, 4, 4)  # row-major, though it is channels last as well
    assert torch.cat([x, one], 1).is_contiguous() and torch.cat([x, torch.empty(0)]).is_contiguous()


@pytest.mark.parametrize("joined", ["cat", "hstack", "vstack", "dstack", "column_stack"])
def test_what_lies_in_any_order_is_joined_in_order(joined):
    x = torch.arange(24.0).reshape(4, 6)
    for parts in ((x.mT, x.mT), (x[:, ::2], x[:, 1::2]), (x[0], x[1]), (x.mT[::2], x.mT[1::2])):
        made = getattr(torch, joined)(parts)
        want = getattr(torch, joined)([p.contiguous() for p in parts])
        assert made.equal(want) and made.is_contiguous()
        assert made.numel() == sum(p.numel() for p in parts)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat((x.mT, x[:, ::2]), 0)


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 3), (4, 1)), ((0,), (3,)), ((2, 0), (1, 2))])
def test_a_kronecker_product_has_all_products(shapes):
    x, y = (torch.arange(1.0, 1 + math.prod(s)).reshape(s) for s in shapes)
    want = np.kron(x.numpy(), y.numpy())
    assert torch.kron(x, y).tolist() == want.tolist()
    if x.ndim == 2:
        assert torch.kron(x.mT, y.mT).tolist() == want.T.tolist()
        assert torch.kron(x.mT, y).tolist() == np.kron(x.numpy().T, y.numpy()).tolist()


def test_an_error_of_split_names_the_dimension_as_it_was_given():
    for dim in (-1, 1):
        with pytest.raises(RuntimeError, match=f"sum exactly to 4 .*at dimension {dim}\\)"):
            torch.ones(3, 4).split([1, 2], dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_numbers_in_a_row(dtype):
    numbers = [torch.tensor(k, dtype=dtype) for k in (1, 0, 3)]
    want = torch.tensor([1, 0, 3], dtype=dtype)
    for made in (torch.stack(numbers), torch.tensor(numbers), torch.tensor([numbers])[0]):
        assert made.dtype is dtype and made.equal(want) and made.is_contiguous()
    numbers[0].zero_()
    assert not torch.stack(numbers, -1)[0] and not torch.tensor(numbers)[0] and made[0]


def test_numbers_of_several_dtypes_in_a_row():
    numbers = [torch.tensor(1), torch.tensor(2.5)]
    assert torch.stack(numbers).tolist() == torch.tensor(numbers).tolist() == [1.0, 2.5]
    with pytest.raises(TypeError, match="only integer tensors"):
        torch.tensor(numbers, dtype=torch.int64)
    x = torch.tensor(2.0, requires_grad=True)
    torch.stack([x, x * 3]).sum().backward()
    assert x.grad == 4
