"""Optimizers and schedulers against PyTorch: parameters, state and rates, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import rushlight
from optim_cases import SCHEDULERS

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [(3, 4), (5,), (), (40, 9)]
SETTINGS = {
    "SGD": [
        {},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [{}, {"weight_decay": 0.1}, {"amsgrad": True, "lr": 0.1}, {"maximize": True}],
    "AdamW": [{}, {"weight_decay": 0.9, "amsgrad": True}, {"betas": (0.8, 0.9), "eps": 1e-3}],
    "Adamax": [{}, {"weight_decay": 0.1}, {"maximize": True}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{}, {"weight_decay": 0.1}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "Adagrad": [{}, {"lr_decay": 0.5}, {"initial_accumulator_value": 0.1, "weight_decay": 0.1}],
    "Adadelta": [{}, {"weight_decay": 0.1, "rho": 0.5}],
    "ASGD": [{}, {"t0": 5, "weight_decay": 0.1}, {"lr": 0.1, "maximize": True}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.5}, {"weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0)}],
    "Adafactor": [{}, {"weight_decay": 0.1, "lr": 0.1}],
    "Muon": [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}],
}
CASES = [(name, settings) for name, rows in SETTINGS.items() for settings in rows]


def twins(name, settings, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = SHAPES[:1] + SHAPES[3:] if name == "Muon" else SHAPES
    arrays = [np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]
    theirs = [torch.nn.Parameter(torch.from_numpy(a.copy())) for a in arrays]
    mine = [rushlight.nn.Parameter(rushlight.from_numpy(a.copy())) for a in arrays]
    make_theirs, make_mine = getattr(torch.optim, name), getattr(rushlight.optim, name)
    return mine, make_mine(mine, **settings), theirs, make_theirs(theirs, **settings), rng


def step_both(mine, optimizer, theirs, reference, rng):
    for p, q in zip(mine, theirs):
        g = np.asarray(rng.standard_normal(tuple(p.shape)), p.detach().numpy().dtype)
        p.grad, q.grad = rushlight.from_numpy(g.copy()), torch.from_numpy(g.copy())
    optimizer.step()
    reference.step()


def assert_same(mine, theirs):
    """Equal values in equal containers, tensors by their numbers."""
    if isinstance(theirs, torch.Tensor):
        assert str(mine.dtype) == str(theirs.dtype) and tuple(mine.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(
            mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6
        )
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key in theirs:
            assert_same(mine[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert_same(a, b)
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    elif not callable(theirs):
        assert mine == theirs


@pytest.mark.parametrize("name, settings", CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_twenty_steps(name, settings):
    mine, optimizer, theirs, reference, rng = twins(name, settings)
    assert repr(optimizer) == repr(reference)
    for _ in range(20):
        step_both(mine, optimizer, theirs, reference, rng)
        for p, q in zip(mine, theirs):
            tolerance = (
                {"rtol": 3e-3, "atol": 1e-4} if name == "Muon" else {"rtol": 1e-5, "atol": 1e-6}
            )
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), **tolerance)
    if name != "Muon":
        assert_same(optimizer.state_dict(), reference.state_dict())


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - {"Muon"}))
def test_state_goes_both_ways(name, tmp_path):
    mine, optimizer, theirs, reference, rng = twins(name, {})
    for _ in range(3):
        step_both(mine, optimizer, theirs, reference, rng)
    torch.save(reference.state_dict(), tmp_path / "theirs.pt")
    rushlight.save(optimizer.state_dict(), tmp_path / "mine.pt")
    optimizer.load_state_dict(rushlight.load(tmp_path / "theirs.pt"))
    reference.load_state_dict(torch.load(tmp_path / "mine.pt"))
    for _ in range(3):
        step_both(mine, optimizer, theirs, reference, rng)
    assert_same([p.detach() for p in mine], [p.detach() for p in theirs])


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    def run(t):
        p = t.nn.Parameter(t.tensor([-1.2, 1.0], dtype=t.float64))
        optimizer = t.optim.LBFGS([p], lr=0.001 if search is None else 1, line_search_fn=search)
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(2):
            optimizer.step(closure)
        return losses, p.tolist()

    assert_same(run(rushlight), run(torch))


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_fifty_rates(name, optimizer):
    def run(t):
        p, q = t.nn.Parameter(t.ones(1)), t.nn.Parameter(t.ones(1))
        settings = {"momentum": 0.9} if optimizer == "SGD" else {}
        groups = [{"params": [p]}, {"params": [q], "lr": 0.4}]
        made = getattr(t.optim, optimizer)(groups, lr=0.1, **settings)
        scheduler = SCHEDULERS[name](t.optim.lr_scheduler, made)
        seen = []
        for i in range(50):
            seen.append([(g["lr"], g.get("momentum"), g.get("betas")) for g in made.param_groups])
            made.step()
            scheduler.step(*([math.sin(i)] if name.startswith("ReduceLROnPlateau") else []))
        return seen, scheduler.state_dict()

    assert_same(run(rushlight), run(torch))


def test_averages():
    def run(t):
        utils = t.optim.swa_utils
        net = t.nn.Linear(2, 1)
        averages = [
            utils.AveragedModel(net),
            utils.AveragedModel(net, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9)),
            utils.AveragedModel(net, avg_fn=utils.get_ema_avg_fn(0.5)),
        ]
        for i in range(4):
            with t.no_grad():
                net.weight.fill_(i**2)
                net.bias.fill_(-i)
            for average in averages:
                average.update_parameters(net)
        return [dict(average.state_dict()) for average in averages]

    assert_same(run(rushlight), run(torch))
