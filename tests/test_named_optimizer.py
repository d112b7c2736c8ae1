"""Optimizers whose state is saved by the names of parameters."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.distributed.optim import _NamedOptimizer


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def named(model, groups=None, **options):
    return _NamedOptimizer(model.named_parameters(), torch.optim.Adam, groups, **options)


def steps(model, optimizer, count):
    x = torch.arange(6.0).view(2, 3) / 6
    for _ in range(count):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


def test_it_steps_as_the_optimizer_does_and_saves_names():
    model, same = layers(), layers()
    optimizer = named(model, lr=0.1)
    assert steps(model, optimizer, 3) == steps(same, torch.optim.Adam(same.parameters(), lr=0.1), 3)
    saved = optimizer.state_dict()
    names = [name for name, _ in model.named_parameters()]
    assert list(saved["state"]) == names
    (group,) = saved["param_groups"]
    assert group["params"] == sorted(names) and group["lr"] == 0.1
    assert saved["state"]["2.bias"]["step"] == 3


def test_what_was_saved_goes_on_in_another_order_of_parameters():
    model, other = layers(), layers()
    optimizer = named(model, lr=0.1)
    steps(model, optimizer, 3)
    other.load_state_dict(model.state_dict())
    backwards = [{"params": list(other.parameters())[::-1]}]
    loaded = named(other, backwards, lr=0.5)
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match="to be initialized before load but found not initialized"):
        loaded.load_state_dict(saved)
    weights = {name: p.clone() for name, p in other.named_parameters()}
    loaded.init_state()  # Adam does not move where all gradients are zeros
    assert all(p.equal(weights[name]) for name, p in other.named_parameters())
    loaded.load_state_dict(saved)
    assert loaded.param_groups[0]["lr"] == 0.1
    assert steps(other, loaded, 2) == steps(model, optimizer, 2)


def test_groups_that_are_added_and_state_that_does_not_fit():
    model = layers()
    optimizer = named(model, [{"params": model[0].parameters()}], lr=0.1)
    optimizer.add_param_group({"params": model[2].weight, "lr": 0.2})
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 1]
    with pytest.raises(ValueError, match="some parameters are not in the module"):
        optimizer.add_param_group({"params": [torch.ones(1)]})
    with pytest.raises(ValueError, match="found in param group but is missing"):
        named(model, [{"params": [torch.ones(1, requires_grad=True)]}])
    steps(model, optimizer, 1)
    saved = optimizer.state_dict()
    assert list(saved["state"]) == ["0.weight", "0.bias", "2.weight"]
    short = {**saved, "state": {"0.bias": {"step": saved["state"]["0.bias"]["step"]}}}
    with pytest.raises(ValueError, match="equal length as 3 for parameter 0.bias but found: 1"):
        optimizer.load_state_dict(short)
    wrong = {**saved["state"]["0.bias"], "other": 1}
    del wrong["exp_avg"]
    with pytest.raises(ValueError, match="Expects state exp_avg for parameter 0.bias"):
        optimizer.load_state_dict({**saved, "state": {"0.bias": wrong}})
    fewer = {k: v for k, v in saved["param_groups"][1].items() if k != "betas"}
    with pytest.raises(ValueError, match="equal param_group size"):
        optimizer.load_state_dict({**saved, "param_groups": [fewer]})
