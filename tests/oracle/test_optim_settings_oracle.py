"""Every optimizer, with each of its settings, against PyTorch: twenty steps, states exchanged after ten.

The bound is 1e-6 of the largest parameter in float32, 1e-12 in float64.
"""

from __future__ import annotations

import copy
import inspect
import itertools

import numpy as np
import pytest
import torch

import optim_cases
import rushlight

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [(3, 4), (5,), (), (17, 9)]
REFUSED = ["refused"]
BOUND = {"float32": 1e-6, "float64": 1e-12}

# One row per way through a step; flags that every optimizer has are added below.
SETTINGS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ],
    "Adam": [
        {},
        {"amsgrad": True},
        {"betas": (0.5, 0.8), "eps": 1e-4},
        {"decoupled_weight_decay": True},
    ],
    "AdamW": [{}, {"amsgrad": True}, {"betas": (0.5, 0.8), "eps": 1e-4}],
    "Adamax": [{}, {"betas": (0.5, 0.8), "eps": 1e-4}],
    "NAdam": [{}, {"momentum_decay": 0.1}, {"decoupled_weight_decay": True}],
    "RAdam": [{}, {"betas": (0.5, 0.6)}, {"decoupled_weight_decay": True}],
    "Adagrad": [{}, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.5, "eps": 1e-3}],
    "Adadelta": [{}, {"rho": 0.5, "eps": 1e-3}],
    "ASGD": [{}, {"t0": 4}, {"lambd": 0.1, "alpha": 0.5}],
    "RMSprop": [
        {},
        {"centered": True},
        {"momentum": 0.9},
        {"centered": True, "momentum": 0.9, "alpha": 0.7},
    ],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0)}],
    "Adafactor": [{}, {"lr": 0.1, "d": 1.5}, {"eps": (1e-8, 1e-2), "beta2_decay": -0.5}],
}
FLAGS = [{}, {"weight_decay": 0.1}, {"maximize": True}, {"foreach": True}, {"foreach": False}]


def accepted(name, settings):
    parameters = inspect.signature(getattr(torch.optim, name)).parameters
    return all(key in parameters for key in settings)


CASES = [
    (name, {**row, **flags})
    for name, rows in SETTINGS.items()
    for row, flags in itertools.product(rows, FLAGS)
    if accepted(name, flags)
]
CASES += [("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True})]
CASES += [(name, {"fused": True, "amsgrad": True}) for name in ("Adam", "AdamW")]
CASES += [("Adagrad", {"fused": True})]
IDS = [f"{name}-{'-'.join(f'{k}={v}' for k, v in row.items())}" for name, row in CASES]


def start(name, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng, [np.asarray(rng.standard_normal(shape), dtype) for shape in SHAPES]


def gradients(rng, dtype):
    return [np.asarray(rng.standard_normal(shape), dtype) for shape in SHAPES]


def trainer(t, name, settings, arrays, grouped=False):
    """Parameters and their optimizer in either library."""
    parameters = [t.nn.Parameter(t.from_numpy(a.copy())) for a in arrays]
    groups = parameters
    if grouped:
        groups = [
            {"params": parameters[:2], "lr": 0.05},
            {"params": parameters[2:], "weight_decay": 0.2},
        ]
    return parameters, getattr(t.optim, name)(groups, **settings)


def step(t, parameters, optimizer, arrays):
    for p, g in zip(parameters, arrays, strict=True):
        p.grad = t.from_numpy(g.copy())
    optimizer.step()


def assert_close(mine, theirs, bound, what=""):
    # All parameters have one scale: that of a single number may come close to zero on its way.
    scale = max(np.abs(q.detach().numpy()).max() for q in theirs)
    for k, (p, q) in enumerate(zip(mine, theirs, strict=True)):
        a, b = p.detach().numpy(), q.detach().numpy()
        assert a.dtype == b.dtype and a.shape == b.shape
        worst = np.abs(a - b).max() / scale
        assert worst <= bound, f"{what} parameter {k}: {worst:.2e}"


def translated(state, t):
    """A state dict of one library in tensors of the other."""
    if isinstance(state, (torch.Tensor, rushlight.Tensor)):
        return t.from_numpy(np.array(state.detach().numpy()))
    if isinstance(state, dict):
        return {key: translated(value, t) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(translated(value, t) for value in state)
    return state


@pytest.mark.parametrize("grouped", [False, True], ids=["flat", "groups"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, settings", CASES, ids=IDS)
def test_twenty_steps_with_an_exchange(name, settings, dtype, grouped):
    rng, arrays = start(name, dtype)
    p, mine = trainer(rushlight, name, settings, arrays, grouped)
    q, theirs = trainer(torch, name, settings, arrays, grouped)
    bound = BOUND[dtype]
    if name == "ASGD" and settings.get("foreach"):
        bound = max(
            bound, 1e-7
        )  # PyTorch's own two ways differ: that one multiplies by float32 rates
    for i in range(20):
        if i == 10:
            a, b = mine.state_dict(), theirs.state_dict()
            assert list(a) == list(b) and list(a["state"]) == list(b["state"])
            for key in b["state"]:
                assert list(a["state"][key]) == list(b["state"][key])
                for word, value in b["state"][key].items():
                    assert type(a["state"][key][word]).__name__ == type(value).__name__, word
                    if isinstance(value, torch.Tensor):
                        assert str(a["state"][key][word].dtype) == str(value.dtype), word
            assert [list(group) for group in a["param_groups"]] == [
                list(group) for group in b["param_groups"]
            ]
            # Optimizers made anew take the other library's state and go on.
            p, mine = trainer(rushlight, name, settings, [x.detach().numpy() for x in p], grouped)
            q, theirs = trainer(torch, name, settings, [x.detach().numpy() for x in q], grouped)
            mine.load_state_dict(translated(b, rushlight))
            theirs.load_state_dict(translated(a, torch))
        g = gradients(rng, dtype)
        step(rushlight, p, mine, g)
        step(torch, q, theirs, g)
        assert_close(p, q, bound, f"step {i},")


@pytest.mark.parametrize("name", [*SETTINGS, "LBFGS"])
def test_closures(name):
    """`step(closure)` returns the closure's loss, calls it with gradients on, and takes the same steps."""

    def run(t):
        p = t.nn.Parameter(t.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=t.float64))
        optimizer = getattr(t.optim, name)([p])
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = ((p - 1) ** 2).sum() + (p[0] * p[1]).sum() ** 2
            loss.backward()
            return loss

        with t.no_grad():
            for _ in range(10):
                losses.append(float(optimizer.step(closure)))
        return [*losses, *p.detach().flatten().tolist()]

    np.testing.assert_allclose(run(rushlight), run(torch), rtol=1e-9)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta"])
def test_tensor_learning_rate(name):
    def run(t):
        p = t.nn.Parameter(t.arange(4.0, dtype=t.float64))
        optimizer = getattr(t.optim, name)([p], lr=t.tensor(0.01), foreach=False)
        for i in range(5):
            p.grad = t.full((4,), float(i), dtype=t.float64)
            optimizer.step()
        return p.tolist()

    np.testing.assert_allclose(run(rushlight), run(torch), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in SETTINGS if accepted(n, {"capturable": 1})])
def test_capturable_is_accepted(name):
    """PyTorch refuses it in `step` on a CPU; here it changes nothing."""

    def run(t, **settings):
        p = t.nn.Parameter(t.ones(3))
        optimizer = getattr(t.optim, name)([p], **settings)
        for i in range(20):
            p.grad = t.tensor([1.0, -2.0, 0.1 * i])
            optimizer.step()
        return p.tolist()

    got = run(rushlight, capturable=True)
    assert got == run(rushlight)
    np.testing.assert_allclose(got, run(torch), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in SETTINGS if accepted(n, {"differentiable": 1})])
def test_gradients_through_steps(name):
    """`differentiable=True`: the parameters after some steps, and their gradient by the first ones."""

    def run(t):
        rng, arrays = start(name, "float64")
        leaves = [t.from_numpy(a.copy()).requires_grad_() for a in arrays]
        parameters = [leaf.clone() for leaf in leaves]
        scales = [t.ones((), dtype=t.float64, requires_grad=True) for _ in leaves]
        optimizer = getattr(t.optim, name)(parameters, lr=0.05, differentiable=True)
        for _ in range(4):
            for p, s, g in zip(parameters, scales, gradients(rng, "float64"), strict=True):
                p.grad = t.from_numpy(g) * s
            optimizer.step()
        loss = sum((p**2).sum() for p in parameters)
        try:
            found = t.autograd.grad(loss, [*leaves, *scales], allow_unused=True)
        except RuntimeError:  # a step writes to what the one before it saved
            found = REFUSED
        numbers = [g.numpy() if hasattr(g, "numpy") else g for g in found]
        return [p.detach().numpy() for p in parameters], numbers

    (p, g), (q, h) = run(rushlight), run(torch)
    # PyTorch counts the steps in float32 here, and takes the powers of the betas from that.
    bound = 1e-5 if name in ("Adam", "AdamW", "NAdam") else 1e-9
    for mine, theirs in ((p, q), (g, h)):
        assert list(map(type, mine)) == list(map(type, theirs))
        # One scale: where a step does not depend on the size of gradients, theirs is rounding.
        scale = max(np.abs(b).max() for b in theirs if b is not None) if theirs != REFUSED else 0
        for a, b in zip(mine, theirs, strict=True):
            assert a is None or theirs == REFUSED or np.abs(a - b).max() <= bound * scale


@pytest.mark.parametrize("name", [*SETTINGS, "LBFGS", "SparseAdam", "Muon"])
def test_signatures(name):
    def face(t):
        parameters = inspect.signature(getattr(t.optim, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert face(rushlight) == face(torch)


def test_sparse_adam():
    def run(t):
        table = t.nn.Embedding(6, 3, sparse=True, dtype=t.float64)
        with t.no_grad():
            table.weight.copy_(t.arange(18.0).reshape(6, 3) / 10)
        optimizer = t.optim.SparseAdam(list(table.parameters()), lr=0.1)
        for i in range(20):
            if i == 10:
                state = optimizer.state_dict()
                optimizer = t.optim.SparseAdam(list(table.parameters()), lr=0.1)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            (table(t.tensor([i % 6, 2, i * i % 6])) ** 2).sum().backward()
            optimizer.step()
        return table.weight.tolist()

    np.testing.assert_allclose(run(rushlight), run(torch), rtol=1e-12)


def crossed(run, t, other):
    """`run` in library `t`, and again where it goes on from the state of `other` half way."""
    caught = []

    def catch(state):
        caught.append(copy.deepcopy(state))  # the run goes on with its own
        return state

    run(other, catch)
    return run(t, None), run(t, lambda state: translated(caught[0], t))


@pytest.mark.parametrize("name", optim_cases.OPTIMIZERS)
def test_states_go_both_ways(name):
    for settings in optim_cases.OPTIMIZERS[name]:

        def run(t, exchange, settings=settings):
            return optim_cases.parameters_after(t, name, settings, exchange=exchange)

        runs = [*crossed(run, rushlight, torch), *crossed(run, torch, rushlight)]
        for other in runs[1:]:
            np.testing.assert_allclose(other, runs[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", optim_cases.SCHEDULERS)
def test_fifty_rates_and_states_both_ways(name, optimizer):
    def run(t, exchange):
        return optim_cases.rates(t, name, optimizer, exchange=exchange)

    runs = [*crossed(run, rushlight, torch), *crossed(run, torch, rushlight)]
    for other in runs[1:]:
        np.testing.assert_allclose(other, runs[0], rtol=1e-12, atol=1e-15)


def test_averages_and_their_rates():
    got, want = optim_cases.averages(rushlight), optim_cases.averages(torch)
    np.testing.assert_allclose(got, want, rtol=1e-7)
    for strategy in ("cos", "linear"):
        got, want = (optim_cases.swa_rates(t, strategy) for t in (rushlight, torch))
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_averages_are_saved_as_pytorch_saves_them():
    def run(t, state=None):
        average = t.optim.swa_utils.AveragedModel(
            t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2)), use_buffers=True
        )
        if state is not None:
            average.load_state_dict(translated(state, t))
        average.update_parameters(average.module)
        return average.state_dict()

    mine, theirs = run(rushlight), run(torch)
    assert list(mine) == list(theirs)
    back, forth = run(rushlight, theirs), run(torch, mine)
    assert int(back["n_averaged"]) == int(forth["n_averaged"]) == 2


def test_batch_statistics_anew():
    def run(t):
        net = t.nn.Sequential(t.nn.BatchNorm1d(3, momentum=0.3), t.nn.Dropout())
        data = [optim_cases.wave(t, (4, 3), k).float() for k in range(5)]
        t.optim.swa_utils.update_bn(data, net)
        assert net.training and net[0].momentum == 0.3
        return net[0].running_mean.tolist() + net[0].running_var.tolist()

    np.testing.assert_allclose(run(rushlight), run(torch), rtol=1e-5)


@pytest.mark.parametrize("name", sorted({row.split("-")[0] for row in optim_cases.SCHEDULERS}))
def test_signatures_of_schedulers(name):
    name = {"WarmRestarts": "CosineAnnealingWarmRestarts"}.get(name, name)

    def face(t):
        parameters = inspect.signature(getattr(t.optim.lr_scheduler, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert face(rushlight) == face(torch)
