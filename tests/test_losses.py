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


@pytest.mark.parametrize(
    "name", ["huber_loss", "smooth_l1_loss", "l1_loss", "mse_loss", "binary_cross_entropy"]
)
def test_reductions_that_are_none_are_refused(name):
    x = torch.rand(3)
    with pytest.raises(ValueError, match="abc is not a valid value for reduction"):
        getattr(F, name)(x, x, reduction="abc")


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", ["huber_loss", "soft_margin_loss"])
def test_these_are_of_the_dtype_of_the_input_whatever_the_target_is(name, reduction):
    loss, x = getattr(F, name), torch.ones(3)
    assert loss(x, x.double(), reduction=reduction).dtype is torch.float32
    assert loss(x.half(), x, reduction=reduction).dtype is torch.float16
    with pytest.raises(RuntimeError, match="Float can't be cast to the desired output type Long"):
        loss(x.long(), x, reduction=reduction)


@pytest.mark.parametrize(
    "call",
    [
        torch.relu,
        torch.relu_,
        lambda x: F.prelu(x, torch.ones(1, dtype=x.dtype)),
        lambda x: torch.softmax(x, 0),
        lambda x: F.log_softmax(x, 0),
        lambda x: F.softmin(x, 0),
        lambda x: F.smooth_l1_loss(x, x),
        lambda x: F.binary_cross_entropy_with_logits(x, x),
        lambda x: x.index_reduce(0, torch.tensor([0]), x[:1], "amax"),
        lambda x: x.clamp(0, 1),
    ],
)
def test_what_has_no_meaning_for_complex_numbers_is_refused(call):
    with pytest.raises(
        NotImplementedError, match="complex types|not implemented for 'ComplexFloat'"
    ):
        call(torch.ones(2, dtype=torch.complex64))


def test_divergences_and_distances_refuse_what_pytorch_refuses():
    x = torch.ones(2, 2)
    for t in (x.long(), x + 0j):
        with pytest.raises(RuntimeError, match="(Integral|Complex) inputs not supported"):
            F.kl_div(x, t, reduction="sum")
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.cdist(x, x.double())
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.multi_margin_loss(x, torch.tensor([0, 1]), weight=torch.ones(2).double())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_of_certain_rows_is_zero_without_a_sign(reduction):
    x, target = torch.tensor([[200.0, 0.0], [300.0, 0.0]]), torch.tensor([0, 0])
    losses = (
        F.cross_entropy(x, target, reduction=reduction),
        F.nll_loss(F.log_softmax(x, 1), target, reduction=reduction),
    )
    assert [str(each) for each in losses] == ["tensor(0.)"] * 2


def test_nodes_of_margin_losses():
    """The nodes that PyTorch prints with losses of single elements."""
    x = torch.rand(3, 4, requires_grad=True)
    far, sign = torch.rand(3, 4), torch.ones(3)
    for loss in (
        F.margin_ranking_loss(x, far, torch.ones(3, 4), reduction="none"),
        F.triplet_margin_loss(x, far, far + 1, reduction="none"),
        F.triplet_margin_with_distance_loss(x, far, far + 1, reduction="none"),
    ):
        assert type(loss.grad_fn).__name__ == "ClampMinBackward0"
    for loss in (
        F.hinge_embedding_loss(x, torch.ones(3, 4), reduction="none"),
        F.cosine_embedding_loss(x, far, sign, reduction="none"),
    ):
        assert type(loss.grad_fn).__name__ == "AddBackward0"


NODES = {
    "binary_cross_entropy": "BinaryCrossEntropyBackward0",
    "binary_cross_entropy_with_logits": "BinaryCrossEntropyWithLogitsBackward0",
    "huber_loss": "HuberLossBackward0",
    "smooth_l1_loss": "SmoothL1LossBackward0",
    "soft_margin_loss": "SoftMarginLossBackward0",
}
LOSSES = {
    "binary_cross_entropy": lambda x, y: -(y * x.log() + (1 - y) * (1 - x).log()),
    "binary_cross_entropy_with_logits": lambda x, y: (1 + x.exp()).log() - x * y,
    "huber_loss": lambda x, y: torch.where((x - y).abs() < 1, (x - y) ** 2 / 2, (x - y).abs() - 0.5),
    "smooth_l1_loss": lambda x, y: torch.where((x - y).abs() < 1, (x - y) ** 2 / 2, (x - y).abs() - 0.5),
    "soft_margin_loss": lambda x, y: (1 + (-x * y).exp()).log(),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", NODES)
def test_a_loss_is_one_node_whatever_its_reduction_is(name, reduction):
    torch.manual_seed(0)
    x, y = (torch.rand(3, 4, dtype=torch.double, requires_grad=k == 0) for k in range(2))
    loss = getattr(F, name)(x, y, reduction=reduction)
    assert loss.grad_fn.name() == NODES[name]
    wanted = LOSSES[name](x, y)
    if reduction != "none":
        wanted = getattr(wanted, reduction)()
    torch.testing.assert_close(loss, wanted)
    (ours,) = torch.autograd.grad(loss.sum(), x, create_graph=True)
    (theirs,) = torch.autograd.grad(wanted.sum(), x, create_graph=True)
    torch.testing.assert_close(ours, theirs)
    if name not in ("huber_loss", "smooth_l1_loss"):  # whose second derivative has a step
        torch.testing.assert_close(
            *(torch.autograd.grad(g.square().sum(), x)[0] for g in (ours, theirs))
        )


@pytest.mark.parametrize("number, reduction", [(0, "none"), (1, "mean"), (2, "sum")])
@pytest.mark.parametrize(
    "name, weights, more",
    [
        ("binary_cross_entropy", 1, {}),
        ("binary_cross_entropy_with_logits", 2, {}),
        ("huber_loss", 0, {"delta": 0.5}),
        ("l1_loss", 0, {}),
        ("smooth_l1_loss", 0, {"beta": 0.5}),
        ("soft_margin_loss", 0, {}),
    ],
)
def test_the_inner_operator_takes_a_number_for_the_reduction(
    name, weights, more, number, reduction
):
    x, y = torch.tensor([0.3, 0.9, 0.4]), torch.tensor([0.5, 0.1, 1.0])
    got = getattr(torch.ops.aten, name)(x, y, *[None] * weights, number, *more.values())
    assert got.tolist() == getattr(F, name)(x, y, reduction=reduction, **more).tolist()
