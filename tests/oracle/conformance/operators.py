"""Checks of an operator of `op_db`: function, method, in-place and `out=` forms, gradients, errors."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

from .calls import attempt, forward_check
from .entries import CORRECTED, PLAIN_WRAPPERS, RANDOM, Check, pick, seed_all, spread
from .errors import error_check, refusal_check
from .gradients import grad_checks
from .libraries import REF, Built, Missing, Unsupported, freeze, public_name, thaw
from .observations import DEFAULT_TOL, Obs


def tolerances(op):
    """torch.testing's defaults, widened by the op's own overrides where they concern half precision.

    Overrides for 32- and 64-bit types (up to 0.1 for complex64 sigmoid) are not used: `as_accurate`
    already admits any result as good as torch's own.
    """
    tol = dict(DEFAULT_TOL)
    suites = (
        None,
        "TestCommon",
        "TestUnaryUfuncs",
        "TestBinaryUfuncs",
        "TestReductions",
        "TestMasked",
        "TestFFT",
    )
    for d in op.decorators:
        if isinstance(d, DecorateInfo):
            if (
                d.device_type not in (None, "cpu")
                or d.cls_name not in suites
                or "mps" in str(d.test_name)
            ):
                continue
        for o in d.decorators if isinstance(d, DecorateInfo) else [d]:
            if isinstance(o, (toleranceOverride, precisionOverride)):
                for dtype, t in o.d.items():
                    name = str(dtype).split(".")[1]
                    if name not in ("float16", "bfloat16", "complex32"):
                        continue
                    rtol, atol = (t.rtol, t.atol) if hasattr(t, "rtol") else (0, t)
                    old = tol.get(name, (0, 0))
                    tol[name] = (max(old[0], rtol), max(old[1], atol))
    return tol


def plain_method(name):
    return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)


def candidate_callable(cand, fn, path=None):
    """The candidate's counterpart of a torch callable; None if it has none."""
    path = path or public_name(fn)
    try:
        if path and path.startswith("Tensor."):
            name = path.partition(".")[2]
            return plain_method(name) if cand.has_method(name) else None
        if path:
            return cand.get(path)
        return cand.translate(fn)
    except Missing:
        return None


def op_variants(op, cand):
    """(variant, torch callable, candidate callable or None)"""
    name = op.name.removeprefix("torch.")
    main = CORRECTED.get(name, op.op)
    direct = REF.has(name) and REF.get(name) is main
    here = (
        (cand.has(name) if REF.has(name) and callable(REF.get(name)) else False)
        or cand.has_method(name)
        or cand.has_method(name + "_")
    )
    yield (
        "function",
        REF.translate(main),
        candidate_callable(cand, main, direct and name) if here else None,
    )
    if op.method_variant:
        fn = op.method_variant
        path = public_name(fn) and "Tensor." + name
        yield (
            "method",
            REF.translate(fn),
            candidate_callable(cand, fn, path) if cand.has_method(name) else None,
        )
    if op.inplace_variant:
        fn = op.inplace_variant
        yield (
            "inplace",
            REF.translate(fn),
            candidate_callable(cand, fn) if public_name(fn) or here else None,
        )
    for kind, fn in (("operator", op.operator_variant), ("ioperator", op.inplace_operator_variant)):
        if fn:
            yield kind, fn, fn
    for alias in op.aliases:
        path = alias.name.removeprefix("torch.")
        yield f"alias {path}", alias.op, candidate_callable(cand, alias.op, path)
        for suffix, fn in (("", alias.method_variant), ("_", alias.inplace_variant)):
            if callable(fn):
                known = cand.has_method(path + suffix)
                yield (
                    f"alias Tensor.{path}{suffix}",
                    fn,
                    plain_method(path + suffix) if known else None,
                )
    if op.supports_out and direct:
        yield "out", op.op, candidate_callable(cand, op.op, name)


def op_present(op, cand):
    return next(op_variants(op, cand))[2] is not None


def op_checks(op, cfg, cand):
    tol = tolerances(op)
    variants = list(op_variants(op, cand))
    supported = {str(d).split(".")[1]: d for d in op.dtypes}
    forward = [d for d in cfg.dtypes if d in supported]
    backward_ok = (
        {str(d).split(".")[1] for d in op.supported_backward_dtypes("cpu")}
        if op.supports_autograd
        else set()
    )
    differentiable = [
        d for d in cfg.grad_dtypes if d in supported and d in backward_ok and op.name not in RANDOM
    ]
    wrapper = None if op.gradcheck_wrapper in PLAIN_WRAPPERS else op.gradcheck_wrapper
    for dtype in dict.fromkeys(forward + differentiable):
        seed_all()
        needs_grad = dtype in differentiable
        samples = op.sample_inputs("cpu", supported[dtype], requires_grad=needs_grad)
        chosen = spread(pick(samples, cfg.max_samples), cfg.kept)
        ends = (0, len(chosen) - 1)
        for k, sample in enumerate(chosen):
            try:
                frozen = freeze(((sample.input, *sample.args), sample.kwargs))
            except Unsupported:
                continue
            for variant, ref_fn, cand_fn in variants:
                family = variant.split()[0]
                if family in ("alias", "out") and k not in ends:
                    continue
                if family not in ("function", "alias", "out") and not isinstance(
                    sample.input, torch.Tensor
                ):
                    continue
                if family in ("operator", "ioperator") and sample.kwargs:
                    continue
                group = f"{variant}/{dtype}"
                if dtype in forward:
                    inputs = with_out(op, frozen) if family == "out" else frozen
                    if inputs is not None:
                        check = forward_check(
                            cand,
                            ref_fn,
                            cand_fn,
                            inputs,
                            op.name,
                            tol,
                            cfg.strict,
                            masked_positions(op, sample),
                        )
                        if check:
                            yield Check(group, "sample", check)
                        elif family == "inplace":
                            check = refusal_check(cand, ref_fn, cand_fn, inputs)
                            if check:
                                yield Check(group, "refusal", check)
                if needs_grad and (
                    family == "function" or family == "inplace" and op.supports_inplace_autograd
                ):
                    process = sample.output_process_fn_grad
                    second = op.supports_gradgrad and family == "function" and k in ends
                    for kind, check in grad_checks(
                        cand,
                        grad_form(REF, ref_fn, wrapper, family),
                        cand_fn and grad_form(cand, cand_fn, wrapper, family),
                        frozen,
                        op.name,
                        REF.translate(process),
                        cand.translate(process),
                        tol,
                        second,
                    ):
                        yield Check(group, kind, check)
    if op.error_inputs_func is not None:
        seed_all()
        yield from op_errors(op, cfg, cand, variants[0])


def grad_form(lib, fn, wrapper, family):
    """The function whose gradient is taken: on a copy for in-place, symmetrised etc. as gradcheck does."""
    if family == "inplace":
        return lambda x, *args, **kwargs: fn(x.clone(), *args, **kwargs)
    return functools.partial(lib.translate(wrapper), fn) if wrapper else fn


def with_out(op, frozen):
    """The same call with out= preallocated and filled with a wrong value."""
    expected = attempt(op.op, frozen, 1)
    if expected is None or not all(isinstance(o, Obs) for o in expected.obs):
        return None
    out = tuple(
        freeze(torch.full(o.array.shape, 1, dtype=getattr(torch, o.dtype))) for o in expected.obs
    )
    args, kwargs = frozen
    return args, {**kwargs, "out": out[0] if len(out) == 1 else out}


def masked_positions(op, sample):
    """For torch.masked.*: where the output is defined at all."""
    if not op.name.startswith("masked."):
        return None
    kwargs = dict(sample.kwargs)
    if "input_mask" in kwargs:
        masks = [m for m in (kwargs.get("input_mask"), kwargs.get("other_mask")) if m is not None]
        both = masks and functools.reduce(torch.logical_and, masks).numpy()
        return np.broadcast_to(both, sample.input.shape) if masks else None
    if kwargs.get("mask") is None:
        return None
    with torch.no_grad():
        return torch.masked._output_mask(op.op, sample.input, *sample.args, **kwargs).numpy()


def op_errors(op, cfg, cand, function):
    _, ref_fn, cand_fn = function
    for e in op.error_inputs("cpu"):
        s = e.sample_input
        try:
            frozen = freeze(((s.input, *s.args), s.kwargs))
        except Unsupported:
            continue
        if op.name.startswith("__") and not isinstance(s.input, torch.Tensor):
            continue  # Tensor.__radd__(2, 3): an unbound call, not use

        def prepare(lib, frozen=frozen):
            fn = ref_fn if lib is REF else cand_fn
            if fn is None:
                raise Missing(op.name)
            args, kwargs = thaw(frozen, lib, Built())
            return lambda: fn(*args, **kwargs)

        check = error_check(prepare, cand, e.error_type, e.error_regex)
        if check:
            yield Check("errors", "error", check)
