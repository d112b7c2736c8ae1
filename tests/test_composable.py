"""Functions that change how a module runs in place: `contract`, `checkpoint`. `replicate` is in test_process_groups.py."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.distributed._composable import _get_registry, checkpoint, contract


def test_a_function_is_applied_once_and_has_a_state():
    @contract()
    def first(module):
        first.state(module).calls = 0
        module.register_forward_pre_hook(count)

    def count(module, args):
        first.state(module).calls += 1

    @contract(dict)
    def second(modules):
        return modules

    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert _get_registry(net[0]) is None and first.state(net[0]) is None
    assert first(net[0]) is net[0] and second([net[0], net[1]]) == [net[0], net[1]]
    assert second.state(net[0]) is second.state(net[1]) == {}
    net(torch.ones(1, 2))
    assert first.state(net[0]).calls == 1 and list(_get_registry(net[0])) == ["first", "second"]
    with pytest.raises(AssertionError, match=r"first has already been applied[\s\S]*Linear"):
        first(net[0])
    assert second([net, nn.ReLU()]) and second.state(net) == {}


def test_names_stay():
    @contract()
    def wrapped(module):
        return nn.Sequential(module)

    @contract()
    def turned(module):
        module.weight = module._parameters.pop("weight")

    with pytest.raises(RuntimeError, match=r"parameters: .*cannot modify FQNs[\s\S]*0\.weight"):
        wrapped(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="cannot modify the order of FQNs"):
        turned(nn.Linear(2, 2))


def test_a_checkpointed_module():
    calls, random = [], torch.get_rng_state()
    plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 4))
    inside = checkpoint(copy.deepcopy(plain))
    inside[0].register_forward_pre_hook(lambda *_: calls.append(1))
    x, twin = torch.randn(3, 4), copy.deepcopy(inside)
    for k, each in enumerate((plain, inside, twin)):
        torch.set_rng_state(random)
        y = each(x).square().sum()
        y.backward(retain_graph=True)
        y.backward()
        assert len(calls) == [0, 3, 6][k]  # once for each backward
    for p, q, r in zip(plain.parameters(), inside.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad) and torch.equal(p.grad, r.grad)
    with torch.no_grad():
        assert not inside(x).requires_grad


def test_a_checkpointed_module_that_fails():
    class Moody(nn.Linear):
        def forward(self, x, *, fails=False):
            x = super().forward(x)
            if fails:
                raise KeyError("today")
            return x.exp()

    net = checkpoint(Moody(2, 2))
    with pytest.raises(KeyError, match="today"):
        net(torch.ones(1, 2), fails=True)
    y = net(torch.ones(1, 2))
    y.sum().backward()
    assert torch.equal(net.bias.grad, y[0].detach())
    other = net.bias.square().sum()  # nothing is recomputed outside of the module
    other.backward()
    with pytest.raises(NotImplementedError, match="use_reentrant=True is not supported"):
        checkpoint(nn.ReLU(), use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: unknown"):
        checkpoint(nn.ReLU(), unknown=1)
