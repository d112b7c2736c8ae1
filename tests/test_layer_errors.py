"""Arguments of layers and of `nn.functional` that are refused, and those at the edge that are taken."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn.functional as F


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


REFUSED = {
    "classes of two dimensions": (
        lambda: F.nll_loss(torch.ones(10, 3), zeros(10, 2)), RuntimeError, "1D target tensor expected",
    ),
    "classes of another batch": (
        lambda: F.nll_loss(torch.ones(1, 3), zeros()), ValueError, "batch_size \\(1\\) to match",
    ),
    "classes of one sample": (
        lambda: F.nll_loss(torch.ones(3), zeros(2)), ValueError, "must have size 1",
    ),
    "classes without dimension": (
        lambda: F.nll_loss(torch.ones(()), zeros(1)), ValueError, "Expected 1 or more dimensions",
    ),
    "classes of images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2, 2), zeros(4, 2)), RuntimeError, "3D tensors",
    ),
    "classes of other images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2, 2), zeros(4, 2, 3)), RuntimeError, "size mismatch",
    ),
    "class weights of two dimensions": (
        lambda: F.nll_loss(torch.ones(4, 3), zeros(4), torch.ones(1, 3)), RuntimeError, "all 3 classes",
    ),
    "class weights of one sample": (
        lambda: F.nll_loss(torch.ones(3), zeros(), torch.ones(4)), RuntimeError, "all 3 classes",
    ),
    "class weights of images": (
        lambda: F.nll_loss(torch.ones(4, 3, 2), zeros(4, 2), torch.ones(4)), RuntimeError,
        "either for all or no classes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


def test_classes_of_one_sample():
    x = torch.tensor([-1.0, -2.0])
    for target in (torch.tensor(1), torch.tensor([1])):
        assert F.nll_loss(x, target, reduction="none").tolist() == 2.0
        assert F.cross_entropy(x, target).shape == ()
    weight = torch.tensor([[1.0, 3.0]])
    assert F.nll_loss(x.view(1, 2, 1), zeros(1, 1) + 1, weight, reduction="sum") == 6.0


def test_threshold_in_place_where_elements_share_memory():
    x = torch.tensor([-1.0, 2.0]).expand(3, 2)
    assert F.threshold(x, 0.5, 0.25, inplace=True).tolist() == [[0.25, 2.0]] * 3
