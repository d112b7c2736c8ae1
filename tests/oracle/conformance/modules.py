"""Checks of a class of `torch.nn`: forward, gradients, state_dict, repr and errors."""

from __future__ import annotations

from .entries import Check, seed_all, spread
from .errors import error_check
from .gradients import compare_grads
from .libraries import REF, Built, Unsupported, freeze, thaw
from .observations import (
    DEFAULT_TOL,
    Mismatch,
    as_accurate,
    compare,
    cotangent,
    observe,
    same_strides,
    tensors_in,
)


def build_module(lib, info, ctor, dtype, training, state=None, forward=None):
    args, kwargs = thaw(ctor, lib, Built())
    lib.seed(3)
    m = lib.get(info.name)(*args, **kwargs)
    m = m.to(lib.dtype(dtype))
    m.train(training)
    if info.is_lazy and forward is not None:  # give it its shapes
        args, kwargs = thaw(forward, lib, Built(), grad=False)
        m(*args, **kwargs)
    if state is not None:
        m.load_state_dict(thaw(state, lib, Built()))
    return m


def module_run(lib, m, forward, seed):
    args, kwargs = thaw(forward, lib, Built(), grad=False)
    lib.seed(seed)
    return observe(lib, m(*args, **kwargs)), observe(lib, dict(m.state_dict()))


def module_grads(lib, m, forward, wanted=None):
    leaves = Built()
    args, kwargs = thaw(forward, lib, leaves)
    lib.seed(1)
    outs = tensors_in(lib, m(*args, **kwargs))
    if wanted is None:
        wanted = [i for i, t in enumerate(outs) if t.requires_grad]
    if not wanted:
        return None
    if max(wanted) >= len(outs) or not all(outs[i].requires_grad for i in wanted):
        raise Mismatch("grad", "output does not require grad")
    cots = [lib.array(cotangent(i, observe(lib, outs[i])[0])) for i in wanted]
    if lib.has("autograd.backward"):
        lib.get("autograd.backward")([outs[i] for i in wanted], cots)
    else:
        sum(((outs[i] * c).sum() for i, c in zip(wanted, cots)), 0).backward()
    sources = [t for leaf, t in leaves if leaf.requires_grad] + [p for _, p in m.named_parameters()]
    return wanted, [observe(lib, t.grad)[0] if t.grad is not None else None for t in sources]


def module_checks(info, cfg, cand):
    supported = {str(d).split(".")[1]: d for d in info.dtypes}
    dtypes = [d for d in dict.fromkeys(cfg.dtypes + cfg.grad_dtypes) if d in supported]
    for dtype in dtypes:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            seed_all()
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=supported[dtype], requires_grad=True, training=training
            )
            for mi in spread(spread(list(inputs), cfg.max_samples), cfg.kept):
                group = f"{'train' if training else 'eval'}/{dtype}"
                for check in module_input_checks(
                    info, cand, mi, dtype, training, group, cfg.strict
                ):
                    due = {"sample": dtype in cfg.dtypes, "grad": dtype in cfg.grad_dtypes}
                    if due.get(check.kind, dtype == dtypes[0]):
                        yield check
            if info.module_error_inputs_func and dtype == dtypes[0]:
                for e in info.module_error_inputs_func(
                    info,
                    device="cpu",
                    dtype=supported[dtype],
                    requires_grad=False,
                    training=training,
                ):
                    yield from module_error(info, cand, e)


def module_input_checks(info, cand, mi, dtype, training, group, strict):
    ctor = freeze((mi.constructor_input.args, mi.constructor_input.kwargs))
    forward = freeze((mi.forward_input.args, mi.forward_input.kwargs))
    tol = {**DEFAULT_TOL, "float32": (1.3e-6, 2e-5)}
    m = build_module(REF, info, ctor, dtype, training, forward=forward)
    state = freeze(dict(m.state_dict()))
    text = repr(m)
    keys = [(k, tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in m.state_dict().items()]

    def build(lib):
        return build_module(lib, info, ctor, dtype, training, state, forward)

    def keys_check():
        mine = build_module(cand, info, ctor, dtype, training, forward=forward).state_dict()
        got = [(k, tuple(v.shape), cand.dtype_name(v.dtype)) for k, v in mine.items()]
        if got != keys:
            raise Mismatch("state_dict", f"{got} instead of {keys}"[:300])

    def repr_check():
        got = repr(build(cand))
        if got != text:
            raise Mismatch("repr", f"{got!r} instead of {text!r}"[:300])

    yield Check(group, "state_dict", keys_check)
    yield Check(group, "repr", repr_check)
    try:
        ref = module_run(REF, build(REF), forward, 1)
        other = module_run(REF, build(REF), forward, 2)
    except Exception:
        return
    try:
        compare(ref[0], other[0], tol)
        random = False
    except Mismatch:
        random = True

    def forward_check():
        got = module_run(cand, build(cand), forward, 1)
        try:
            compare(ref[0], got[0], tol, values=not random)
        except Mismatch as e:
            if e.kind != "value" or strict or dtype != "float32" or not near(got[0]):
                raise
        compare(ref[1], got[1], tol, values=not random)
        return {"strides": same_strides(ref[0], got[0])}

    def near(got):
        big = build_module(REF, info, ctor, "float64", training, state, forward)
        args, kwargs = thaw(forward, REF, Built(), grad=False, up=True)
        return as_accurate(ref[0], got, observe(REF, big(*args, **kwargs)))

    yield Check(group, "sample", forward_check)
    if random:
        return
    try:
        slopes = module_grads(REF, build(REF), forward)
    except Exception:
        return
    if slopes is None:
        return

    def grad_check():
        got = module_grads(cand, build(cand), forward, slopes[0])
        if len(got[1]) != len(slopes[1]):
            raise Mismatch(
                "grad", f"{len(got[1])} inputs and parameters, torch has {len(slopes[1])}"
            )
        compare_grads(slopes[1], got[1], tol)

    yield Check(group, "grad", grad_check)


def module_error(info, cand, e):
    try:
        mi = e.module_error_input
        ctor = freeze((mi.constructor_input.args, mi.constructor_input.kwargs))
        forward = mi.forward_input and freeze((mi.forward_input.args, mi.forward_input.kwargs))
    except Unsupported:
        return

    def prepare(lib):
        args, kwargs = thaw(ctor, lib, Built())
        cls = lib.get(info.name)
        if e.error_on.name == "CONSTRUCTION_ERROR":
            return lambda: cls(*args, **kwargs)
        m = cls(*args, **kwargs)
        args, kwargs = thaw(forward, lib, Built())
        return lambda: m(*args, **kwargs)

    check = error_check(prepare, cand, e.error_type, e.error_regex)
    if check:
        yield Check("errors", "error", check)
