"""Checks of an optimizer: the parameters it makes, its state_dict, and errors."""

from __future__ import annotations

import numpy as np
import torch

from .entries import Check
from .errors import error_check
from .libraries import REF, Built, Unsupported, freeze, thaw
from .observations import Mismatch, compare, observe

SHAPES = ((4, 3), (2, 4), (4,))


def start_values(dtype, matrices_only):
    rng = np.random.default_rng(5)
    return [rng.normal(size=s).astype(dtype) for s in SHAPES if len(s) == 2 or not matrices_only]


def slope(i, p):
    """Gradient of a fixed separable quadratic, 0.5 * sum(scale * (p - target)**2)."""
    rng = np.random.default_rng(100 + i)
    scale, target = rng.uniform(0.5, 3, p.shape), rng.normal(size=p.shape)
    diff = p - target
    return (scale * diff).astype(p.dtype), float(0.5 * (scale * diff * diff).sum())


def optimizer_run(lib, info, kwargs, dtype, split, reload, given=None, steps=10):
    """Train; returns parameters after each step, the final state_dict, and the gradients used."""
    params = [
        lib.get("nn.Parameter")(lib.array(a.copy()))
        for a in start_values(dtype, info.name == "Muon")
    ]

    def make():
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.005}] if split else params
        return lib.get(f"optim.{info.name}")(groups, **lib.carry(kwargs))

    def closure():
        loss = 0.0
        for i, p in enumerate(params):
            g, part = slope(i, lib.numpy(p))
            p.grad = lib.array(g)
            loss += part
        return lib.root.tensor(loss, dtype=lib.dtype(dtype))

    opt, used, seen = make(), [], []
    for step in range(steps):
        if reload and step == steps // 2:
            saved = opt.state_dict()
            opt = make()
            opt.load_state_dict(saved)
        if info.step_requires_closure:
            opt.step(closure)
        else:
            used.append(
                given[step] if given else [slope(i, lib.numpy(p))[0] for i, p in enumerate(params)]
            )
            opt.zero_grad()
            for p, g in zip(params, used[-1]):
                p.grad = lib.array(g.copy())
            opt.step()
        seen.append([observe(lib, p)[0] for p in params])
    return seen, opt.state_dict(), used


def state_outline(lib, sd):
    """Keys (in order) and values of an optimizer state_dict."""
    keys, values = [], []
    for i, entry in sd["state"].items():
        for k in sorted(entry):
            keys.append(f"state[{i}].{k}")
            values.extend(observe(lib, entry[k]))
    for i, group in enumerate(sd["param_groups"]):
        keys.extend(f"param_groups[{i}].{k}" for k in group)
        values.extend(observe(lib, {k: v for k, v in group.items() if k != "params"}))
    return keys, values


def optimizer_checks(info, cfg, cand):
    tol = {"float32": (1e-5, 1e-5), "float64": (1e-7, 1e-7), "bfloat16": (1.6e-2, 1e-3)}
    if info.name == "Muon":  # iterates in bfloat16
        tol.update(float32=(1.6e-2, 1e-3), float64=(1.6e-2, 1e-3))
    for dtype in [d for d in ("float32", "float64") if d in cfg.dtypes]:
        settings = [i.kwargs for i in info.optim_inputs_func(device="cpu")]
        settings = [k for k in settings if not k.get("capturable") and not k.get("fused")]
        cases = [(k, False, False) for k in settings] + [(settings[-1], False, True)]
        if info.supports_param_groups and info.name != "LBFGS":
            cases.append((settings[0], True, False))
        for kwargs, split, reload in cases:
            kwargs = freeze(kwargs)
            try:
                ref = optimizer_run(REF, info, kwargs, dtype, split, reload)
            except Exception:
                continue
            outline = state_outline(REF, ref[1])

            def params_check(args=(kwargs, dtype, split, reload), ref=ref):
                got = optimizer_run(cand, info, *args, given=ref[2])
                for step, (r, g) in enumerate(zip(ref[0], got[0])):
                    try:
                        compare(r, g, tol)
                    except Mismatch as e:
                        raise Mismatch(e.kind, f"after step {step + 1}: {e}") from None

            def state_check(args=(kwargs, dtype, split, reload), ref=ref, outline=outline):
                keys, values = state_outline(
                    cand, optimizer_run(cand, info, *args, given=ref[2])[1]
                )
                if keys != outline[0]:
                    diff = (
                        [k for k in outline[0] if k not in keys],
                        [k for k in keys if k not in outline[0]],
                    )
                    raise Mismatch("state_dict", f"lacks {diff[0]}, has extra {diff[1]}"[:300])
                compare(outline[1], values, tol)

            yield Check(f"params/{dtype}", "sample", params_check)
            yield Check(f"params/{dtype}", "state_dict", state_check)
    if info.optim_error_inputs_func:
        for e in info.optim_error_inputs_func("cpu", torch.float32):
            yield from optimizer_error(info, cand, e)


def optimizer_error(info, cand, e):
    try:
        given, kwargs = (
            freeze(e.optimizer_error_input.params),
            freeze(e.optimizer_error_input.kwargs),
        )
    except Unsupported:
        return

    def prepare(lib):
        leaves = Built()
        params = thaw(given, lib, leaves)
        if params is None:
            params = [lib.get("nn.Parameter")(lib.array(np.ones((1, 1), np.float32)))]
        cls, options = lib.get(f"optim.{info.name}"), thaw(kwargs, lib, leaves)
        if e.error_on.name == "CONSTRUCTION_ERROR":
            return lambda: cls(params, **options)
        opt = cls(params, **options)
        for leaf, p in leaves:
            p.grad = lib.array(np.ones_like(leaf.value()))
        return opt.step

    check = error_check(prepare, cand, e.error_type, e.error_regex)
    if check:
        yield Check("errors", "error", check)
