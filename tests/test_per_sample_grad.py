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


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU])
def test_states_of_recurrent_modules_have_their_batch_second(cls, given, batch_first, layers):
    torch.manual_seed(0)
    module = cls(3, 4, num_layers=layers, batch_first=batch_first)
    x = torch.randn(5, 6, 3) if batch_first else torch.randn(6, 5, 3)
    h = torch.randn(layers, 5, 4)

    def called(module, x, h):
        state = (h, 2 * h) if cls is nn.LSTM else h
        out, state = module(x, state) if given else module(x)
        return (out, *state) if cls is nn.LSTM else (out, state)

    def loss(results):
        return sum((v * v * (k + 1)).sum() for k, v in enumerate(results))

    wrapped = call_for_per_sample_grads(
        module, batch_first=batch_first, batch_size=5 if given else None
    )
    found = called(wrapped, x, h)
    for a, b in zip(found, called(module, x, h), strict=True):
        assert a.shape == b.shape and torch.allclose(a, b, atol=1e-6)
    loss(found).backward()
    asked = list(module.parameters())
    for i in range(5):
        sample = x[i : i + 1] if batch_first else x[:, i : i + 1]
        one = torch.autograd.grad(loss(called(module, sample, h[:, i : i + 1])), asked)
        for parameter, gradient in zip(asked, one, strict=True):
            assert torch.allclose(parameter.grad_sample[i], gradient, atol=1e-5)


def test_a_result_may_have_its_batch_in_any_dimension_but_must_have_it():
    class Turned(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y.t(), x.sum(1, keepdim=True).t(), y.unsqueeze(1).unsqueeze(0)

    module, x = Turned(3, 1), torch.randn(5, 3)
    found = call_for_per_sample_grads(module)(x)
    for a, b in zip(found, module(x), strict=True):
        assert a.shape == b.shape and torch.allclose(a, b)

    class Summed(nn.Linear):
        def forward(self, x):
            return super().forward(x).sum()

    with pytest.raises(RuntimeError, match="which of its dimensions is the batch"):
        call_for_per_sample_grads(Summed(3, 2))(x)
    with pytest.raises(RuntimeError, match="several dimensions of batch size 2"):
        call_for_per_sample_grads(nn.Linear(3, 2), batch_size=2)(torch.ones(3, 2, 2, 3))


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
