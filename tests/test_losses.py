"""Losses of the top namespace, whose reduction is a number."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F


@pytest.mark.parametrize(
    "name",
    [
        "binary_cross_entropy_with_logits",
        "hinge_embedding_loss",
        "kl_div",
    ],
)
def test_they_do_not_reduce_by_themselves(name):
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    each = getattr(F, name)(x, y, reduction="none")
    assert getattr(torch, name)(x, y).tolist() == each.tolist()
    assert getattr(torch, name)(x, y, reduction=2).item() == pytest.approx(each.sum().item())


def test_margin_ranking_loss_of_the_top_namespace_broadcasts():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2, 2)
    y = torch.tensor([1.0, -1.0])
    assert torch.margin_ranking_loss(a, b, y, 0.5).tolist() == [[0, 2.5], [0, 4.5]]
    with pytest.raises(RuntimeError, match="same dimension"):
        F.margin_ranking_loss(a, b, y)
