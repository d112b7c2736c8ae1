"""Gradients of each sample: `call_for_per_sample_grads`."""

from __future__ import annotations

import types

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_are_those_of_one_sample_after_the_other(reduction):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)
    )
    module[1].weight.requires_grad_(False)
    x = torch.randn(5, 2, 4, 4, requires_grad=True)
    y = call_for_per_sample_grads(module, loss_reduction=reduction)(x)
    assert torch.allclose(y, module(x), atol=1e-6)
    losses = y.square().sum(1)
    (losses.sum() if reduction == "sum" else losses.mean()).backward()
    asked = [p for p in module.parameters() if p.requires_grad]
    for i in range(5):
        one = torch.autograd.grad(module(x[i : i + 1]).square().sum(), asked)
        for parameter, gradient in zip(asked, one, strict=True):
            assert torch.allclose(parameter.grad_sample[i], gradient, atol=1e-5)
    assert all(p.grad is None for p in module.parameters())
    assert x.grad is not None and not hasattr(module[1].weight, "grad_sample")


def test_the_second_dimension_may_be_the_batch():
    module = nn.Linear(3, 2)
    x = torch.randn(4, 5, 3)
    y = call_for_per_sample_grads(module, batch_first=False)(x)
    assert torch.allclose(y, module(x), atol=1e-6)
    y.sum().backward()
    assert torch.allclose(module.weight.grad_sample[:, 0], x.sum(0), atol=1e-6)


def test_refusals():
    module, x = nn.Linear(3, 2), torch.ones(4, 3)
    for message, call in (
        ("must be nn.Module", lambda: call_for_per_sample_grads("no")),
        ("None or an integer", lambda: call_for_per_sample_grads(module, batch_size=6.4)),
        ("must be positive", lambda: call_for_per_sample_grads(module, batch_size=-1)),
        ("to be sum or mean", lambda: call_for_per_sample_grads(module, loss_reduction="")),
        ("cannot compute the batch size", lambda: call_for_per_sample_grads(module)(None)),
        ("batch size 4 and one with batch size 5", lambda: call_for_per_sample_grads(module)(x, torch.ones(5))),
        ("may hold tensors", lambda: call_for_per_sample_grads(module)(x, types.SimpleNamespace())),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call()
    call_for_per_sample_grads(module)(x).sum().backward()
    with pytest.raises(RuntimeError, match="incorrect for multiple calls"):
        call_for_per_sample_grads(module)
