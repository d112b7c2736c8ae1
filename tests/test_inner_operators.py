"""Operators under PyTorch's inner names that programs and traced graphs call: values of PyTorch's."""

import pytest

import rushlight as torch
from rushlight.testing import assert_close

aten = torch.ops.aten
X = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4).sin()


def test_indices_where_the_mask_is_false_are_not_read():
    mask, at = torch.tensor([True, False, True]), torch.tensor([1, 9, -1])
    for space in (torch, aten):
        assert space._unsafe_masked_index(torch.arange(5.0), mask, [at], 7).tolist() == [1, 7, 4]
        added = space._unsafe_masked_index_put_accumulate(
            torch.arange(5.0), mask, [at], torch.tensor([10.0, 20.0, 30.0])
        )
        assert added.tolist() == [0, 11, 2, 3, 34]
    assert torch._unsafe_masked_index(torch.ones(0), mask, [at], 7).tolist() == [7, 7, 7]


def test_rows_of_minus_infinity_have_a_softmax_of_0():
    x = torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]], requires_grad=True)
    y = aten._safe_softmax(x, -1)
    assert_close(y, torch.tensor([[0.26894142, 0.73105858], [0, 0]]))
    (g,) = torch.autograd.grad(y[0, 0], x)
    assert_close(g, torch.tensor([[0.19661193, -0.19661193], [0, 0]]))
    assert aten._safe_softmax(x, 0, torch.float64).dtype is torch.float64


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_and_without_running_statistics(training):
    def state():
        return torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)

    running, ours = state(), state()
    found = torch._native_batch_norm_legit(X, None, None, *running, training, 0.1, 1e-5)
    want = torch.native_batch_norm(X, None, None, *ours, training, 0.1, 1e-5)
    assert_close(found, want)
    assert_close(running, ours)
    if training:
        assert_close(aten._native_batch_norm_legit.no_stats(X, None, None, True, 0.1, 1e-5), want)
    kept = aten._batch_norm_with_update if training else aten._batch_norm_no_update
    running = state()
    *found, empty = kept(X, None, None, *running, 0.1, eps=1e-5)
    assert_close(tuple(found), want)
    assert_close(running, ours)
    assert empty.dtype is torch.uint8 and empty.shape == (0,)


def test_gradients_of_softmax_are_told_the_dtype():
    y, g = X.softmax(-1), X.cos()
    assert_close(
        torch._softmax_backward_data(g, y, -1, torch.float64), y * (g - (g * y).sum(-1, True))
    )
    assert torch._log_softmax_backward_data(g, y.log(), -1, torch.float32).dtype is torch.float32


@pytest.mark.parametrize("n", [2, 3])
def test_gradients_of_max_pool_go_to_the_places_of_the_maxima(n):
    x = torch.arange(120.0, dtype=torch.float64).reshape(2, 3, 4, 5).sin().requires_grad_(True)
    y, indices = getattr(torch.nn.functional, f"max_pool{n}d")(x, 2, 1, return_indices=True)
    g = y.detach().cos()
    backward = getattr(aten, f"max_pool{n}d_with_indices_backward")
    found = backward(g, x, [2] * n, [1] * n, [0] * n, [1] * n, False, indices)
    assert_close(found, torch.autograd.grad(y, x, g)[0])


def test_all_and_any():
    x = torch.tensor([True, False])
    assert (torch._is_all_true(x).item(), torch._is_any_true(x).item()) == (False, True)
