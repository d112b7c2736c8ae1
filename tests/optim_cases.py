"""Optimizers and schedulers in small runs, the same for Rushlight and PyTorch: `t` is either.

What PyTorch makes of them is stored in data/optim.json (scripts/optim_table.py writes it), so that
tests without PyTorch compare with its numbers.
"""

from __future__ import annotations

import math

OPTIMIZERS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True, "betas": (0.5, 0.8)}],
    "AdamW": [{}, {"amsgrad": True, "maximize": True}],
    "Adamax": [{}, {"weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1}],
    "ASGD": [{}, {"t0": 4, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.9, "weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0)}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1}],
}

SCHEDULERS = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 27]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 30),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 27),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 28, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 15, 0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "CyclicLR": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.3, 3, 4),
    "CyclicLR-exp": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 3, mode="exp_range", gamma=0.9),
    "CyclicLR-triangular2": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 3, mode="triangular2"),
    "CyclicLR-function": lambda s, o: s.CyclicLR(
        o, 0.01, 0.3, 3, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.3, 0.2], 60),
    "OneCycleLR-3": lambda s, o: s.OneCycleLR(
        o, 0.3, epochs=6, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 16), s.ExponentialLR(o, 0.5)],
        [4, 27],
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.3, 30), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 15)]
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, cooldown=1, factor=0.5),
    "ReduceLROnPlateau-max": lambda s, o: s.ReduceLROnPlateau(
        o, "max", 0.7, 1, threshold=0.1, threshold_mode="abs", min_lr=[0.01, 0.02]
    ),
}


def wave(t, shape, k):
    """Numbers between -1 and 1 that no generator is needed for."""
    n = math.prod(shape)
    numbers = [math.sin(1 + 0.7 * i + 1.3 * k) for i in range(n)]
    return t.tensor(numbers, dtype=t.float64).reshape(shape)


def parameters_after(t, name, settings, steps=20, exchange=None):
    """The parameters [23 numbers] after some steps, in two groups.

    `exchange(state_dict)`: what an optimizer made anew half way is given to load.
    """
    shapes = [(3, 4), (5,), (), (2, 3)]
    leaves = [t.nn.Parameter(wave(t, shape, -k)) for k, shape in enumerate(shapes)]

    def make():
        groups = [{"params": leaves[:2]}, {"params": leaves[2:], "lr": 0.05}]
        return getattr(t.optim, name)(groups, **settings)

    optimizer = make()
    for step in range(steps):
        if exchange is not None and step == steps // 2:
            state = optimizer.state_dict()
            optimizer = make()
            optimizer.load_state_dict(exchange(state))
        for k, p in enumerate(leaves):
            p.grad = wave(t, shapes[k], 5 * step + k) + p.detach() / 2
        optimizer.step()
    return [x for p in leaves for x in p.detach().reshape(-1).tolist()]


def rates(t, name, optimizer="SGD", steps=50, exchange=None):
    """Learning rate and momentum of two groups before each of the steps.

    `exchange(state_dict)`: what a scheduler made anew after half of them is given to load.
    """

    def make():
        leaves = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
        groups = [{"params": leaves[:1]}, {"params": leaves[1:], "lr": 0.4}]
        settings = {"momentum": 0.9} if optimizer == "SGD" else {}
        made = getattr(t.optim, optimizer)(groups, lr=0.1, **settings)
        return made, SCHEDULERS[name](t.optim.lr_scheduler, made)

    made, scheduler = make()
    seen = []
    for i in range(steps):
        if exchange is not None and i == steps // 2:
            states = made.state_dict(), scheduler.state_dict()
            made, scheduler = make()
            theirs = exchange(states)
            made.load_state_dict(theirs[0])
            scheduler.load_state_dict(theirs[1])
        seen.append([group["lr"] for group in made.param_groups])
        first = made.param_groups[0]
        seen[-1].append(first["momentum"] if "momentum" in first else first["betas"][0])
        made.step()
        scheduler.step(*([math.sin(i)] if name.startswith("ReduceLROnPlateau") else []))
    return seen


def averages(t):
    """Averaged weights after some updates, of three kinds of averages."""
    utils = t.optim.swa_utils
    net = t.nn.Linear(2, 1, dtype=t.float64)
    made = [
        utils.AveragedModel(net),
        utils.AveragedModel(net, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9)),
        utils.AveragedModel(net, avg_fn=utils.get_ema_avg_fn(0.5)),
        utils.AveragedModel(net, multi_avg_fn=utils.get_swa_multi_avg_fn()),
    ]
    for i in range(6):
        with t.no_grad():
            net.weight.copy_(wave(t, (1, 2), i))
            net.bias.fill_(-i)
        for average in made:
            average.update_parameters(net)
    return [
        [*average.module.weight.detach().reshape(-1).tolist(), average.module.bias.item(),
         average.n_averaged.item()]
        for average in made
    ]  # fmt: skip


def swa_rates(t, strategy):
    """Learning rates of two groups under SWALR."""
    leaves = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
    made = t.optim.SGD([{"params": leaves[:1]}, {"params": leaves[1:], "lr": 0.4}], lr=0.1)
    scheduler = t.optim.swa_utils.SWALR(made, [0.01, 0.02], 7, strategy)
    seen = []
    for _ in range(12):
        seen.append([group["lr"] for group in made.param_groups])
        made.step()
        scheduler.step()
    return seen


def table(t):
    """All of it, by name."""
    return {
        "optimizers": {
            name: [parameters_after(t, name, settings) for settings in rows]
            for name, rows in OPTIMIZERS.items()
        },
        "schedulers": {name: rates(t, name) for name in SCHEDULERS},
        "averages": averages(t),
        "swa": {strategy: swa_rates(t, strategy) for strategy in ("cos", "linear")},
    }
