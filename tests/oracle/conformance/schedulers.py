"""Checks of learning-rate schedulers. PyTorch ships no database of them: the cases are written here."""

from __future__ import annotations

import numpy as np

from .entries import Check
from .libraries import REF
from .observations import Mismatch

SCHEDULERS = {
    "LambdaLR": [
        lambda S, o: S.LambdaLR(o, lambda e: 0.95**e),
        lambda S, o: S.LambdaLR(o, [lambda e: 1 / (e + 1), lambda e: 0.9**e]),
    ],
    "MultiplicativeLR": [lambda S, o: S.MultiplicativeLR(o, lambda e: 0.95)],
    "StepLR": [lambda S, o: S.StepLR(o, 7), lambda S, o: S.StepLR(o, step_size=3, gamma=0.5)],
    "MultiStepLR": [
        lambda S, o: S.MultiStepLR(o, [5, 12, 20]),
        lambda S, o: S.MultiStepLR(o, [2, 2, 9], gamma=0.5),
    ],
    "ConstantLR": [
        lambda S, o: S.ConstantLR(o),
        lambda S, o: S.ConstantLR(o, factor=0.5, total_iters=10),
    ],
    "LinearLR": [lambda S, o: S.LinearLR(o), lambda S, o: S.LinearLR(o, 0.1, 0.9, total_iters=12)],
    "ExponentialLR": [
        lambda S, o: S.ExponentialLR(o, 0.9),
        lambda S, o: S.ExponentialLR(o, gamma=1.01),
    ],
    "PolynomialLR": [
        lambda S, o: S.PolynomialLR(o, 10),
        lambda S, o: S.PolynomialLR(o, total_iters=25, power=2.0),
    ],
    "CosineAnnealingLR": [
        lambda S, o: S.CosineAnnealingLR(o, 10),
        lambda S, o: S.CosineAnnealingLR(o, T_max=25, eta_min=0.01),
    ],
    "CosineAnnealingWarmRestarts": [
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 5),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 4, T_mult=2, eta_min=0.001),
    ],
    "CyclicLR": [
        lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=5),
        lambda S, o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=7, mode="triangular2"),
        lambda S, o: S.CyclicLR(
            o, 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.97, cycle_momentum=False
        ),
    ],
    "OneCycleLR": [
        lambda S, o: S.OneCycleLR(o, 0.5, total_steps=31),
        lambda S, o: S.OneCycleLR(
            o, [0.5, 0.2], epochs=5, steps_per_epoch=8, anneal_strategy="linear"
        ),
        lambda S, o: S.OneCycleLR(o, 0.5, total_steps=40, three_phase=True, div_factor=10),
    ],
    "ReduceLROnPlateau": [
        lambda S, o: S.ReduceLROnPlateau(o, patience=2),
        lambda S, o: S.ReduceLROnPlateau(
            o, mode="max", factor=0.5, patience=1, cooldown=2, min_lr=0.01
        ),
        lambda S, o: S.ReduceLROnPlateau(o, threshold=0.05, threshold_mode="abs", patience=3),
    ],
    "SequentialLR": [
        lambda S, o: S.SequentialLR(
            o, [S.ConstantLR(o, 0.1, 5), S.ExponentialLR(o, 0.9)], milestones=[8]
        ),
        lambda S, o: S.SequentialLR(
            o, [S.LinearLR(o, 0.1, total_iters=5), S.CosineAnnealingLR(o, 15)], [5]
        ),
    ],
    "ChainedScheduler": [
        lambda S, o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 5), S.ExponentialLR(o, 0.9)]),
        lambda S, o: S.ChainedScheduler([S.StepLR(o, 4), S.LinearLR(o)]),
    ],
}


def scheduler_run(lib, name, make, steps=30):
    params = [lib.get("nn.Parameter")(lib.array(np.ones(2, np.float32))) for _ in range(2)]
    opt = lib.get("optim.SGD")(
        [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.05}], lr=0.1, momentum=0.9
    )
    sched = make(lib.get("optim.lr_scheduler"), opt)
    seen = []
    for step in range(steps):
        seen.append([float(x) for g in opt.param_groups for x in (g["lr"], g["momentum"])])
        seen[-1] += [float(x) for x in sched.get_last_lr()]
        opt.step()
        metric = 1 / (step + 1) if step < 6 else 0.2 + 0.01 * (step % 3)
        sched.step(metric) if name == "ReduceLROnPlateau" else sched.step()
    return seen, sorted(sched.state_dict())


def scheduler_checks(name, cfg, cand):
    for make in SCHEDULERS[name]:
        ref = scheduler_run(REF, name, make)

        def values_check(make=make, ref=ref):
            got = scheduler_run(cand, name, make)[0]
            for step, (r, g) in enumerate(zip(ref[0], got)):
                if len(r) != len(g) or not np.allclose(r, g, rtol=1e-9, atol=1e-12):
                    raise Mismatch("value", f"step {step}: {g} instead of {r}")

        def state_check(make=make, ref=ref):
            got = scheduler_run(cand, name, make, steps=3)[1]
            if got != ref[1]:
                raise Mismatch("state_dict", f"{got} instead of {ref[1]}"[:300])

        yield Check("lr", "sample", values_check)
        yield Check("lr", "state_dict", state_check)
