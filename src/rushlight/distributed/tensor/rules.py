"""Sharding rules for kinds of operators: elementwise ones, views, products, reductions. See Note [Sharding rules]."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.tensor.dispatch import FALLBACKS, RULES, SpreadCall, Strategy, mapped
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from rushlight.distributed.tensor.spec import DTensorSpec

R, P = Replicate(), Partial()
S = functools.cache(Shard)


def rule(*names: str) -> Callable:
    """Declare the rule of operators, by their inner names."""

    def declare(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function

    return declare


@functools.cache
def operator_of(func: Any) -> tuple[Any, bool]:
    """(the operator that an overload calls, or None; whether it is the kernel of that operator's gradient)."""
    called = func.overloadpacket.resolved()
    if (gradient := getattr(called, "gradient_of", None)) is not None:
        return gradient[0], True
    op = getattr(called, "op", None)
    return (None if op is func else op), False


@functools.cache
def is_view(func: Any) -> bool:
    """Whether an operator's result shares memory with its first argument."""
    if func.overloadpacket.__name__ in VIEWS:
        return True
    op, gradient = operator_of(func)
    return op is not None and bool(op.view) and not gradient


def partials(specs: Iterable[DTensorSpec]) -> set[Partial]:
    """The placements among those of some tensors that stand for a reduction."""
    return {p for spec in specs for p in spec.placements if isinstance(p, Partial)}


def linear_partials(specs: Iterable[DTensorSpec]) -> list[Partial]:
    """Those of them that a linear operator keeps; a sum in any case."""
    return [p for p in {P: 0} | dict.fromkeys(partials(specs)) if p.reduce_op in Partial.LINEAR]


# -- elementwise -----------------------------------------------------------------------------------

LIKE = frozenset(
    "clone _to_copy zeros_like ones_like empty_like full_like fill_ zero_ copy_ alias detach contiguous lift_fresh "
    "constant_pad_nd_backward positive conj resolve_conj resolve_neg view_as_real_copy dropout_backward".split()
)  # not declared as elementwise, and each element is apart
LINEAR = frozenset(
    "clone _to_copy copy_ alias detach neg positive conj contiguous zero_ zeros_like".split()
)
ADDS = frozenset("add sub add_ sub_ rsub".split())


def elementwise(call: SpreadCall) -> Sequence[Strategy] | None:
    """Each element of the result needs those of the arguments at its place."""
    name = call.name
    if name not in LIKE:
        op, gradient = operator_of(call.func)
        if op is None or not op.elementwise or (gradient and op.outputs is not None):
            return None
    return apart(call)


def apart(call: SpreadCall) -> list[Strategy]:
    """The strategies of an elementwise operator."""
    specs = call.specs
    shape = _broadcast(specs)
    found = []
    if shape is not None:
        for d in range(len(shape)):
            if shape[d] != 1:
                found.append(Strategy(S(d), [_cut(spec, d, shape) for spec in specs]))
    name, tensors = call.name, len(specs)
    for p in linear_partials(specs):
        if (name in LINEAR and _keeps_sums(call)) or (name in ADDS and tensors == 2):
            found.append(Strategy(p, [p] * tensors))
        elif name in ("mul", "mul_", "div", "div_") and _plain_rounding(call):
            found.append(Strategy(p, [p] + [R] * (tensors - 1)))
            if tensors == 2 and name == "mul":
                found.append(Strategy(p, [R, p]))
    if name in ("clone", "_to_copy", "alias", "detach") and _keeps_sums(call):
        found += [Strategy(p, [p]) for p in partials(specs) if p.reduce_op not in Partial.LINEAR]
    if name.endswith("_like") and tensors == 1:
        found += [Strategy(R, [p]) for p in partials(specs)]
    return found


def _keeps_sums(call: SpreadCall) -> bool:
    """Whether the sum of results is that of the arguments: not where numbers become integers or bool, bool numbers."""
    now, new = call.specs[0].dtype, call.kwargs.get("dtype")
    if call.name != "_to_copy" or new is None or new is now:
        return True
    return (
        now is not rushlight.bool
        and (
            new.is_floating_point or new.is_complex or not (now.is_floating_point or now.is_complex)
        )
        and new is not rushlight.bool
    )


def _plain_rounding(call: SpreadCall) -> bool:
    return call.kwargs.get("rounding_mode") is None


def _broadcast(specs: Sequence[DTensorSpec]) -> tuple[int, ...] | None:
    try:
        return tuple(rushlight.broadcast_shapes(*[spec.shape for spec in specs]))
    except RuntimeError:
        return None


def _cut(spec: DTensorSpec, d: int, shape: tuple[int, ...]) -> Placement:
    """How an argument lies when dimension `d` of the result is cut."""
    own = d - (len(shape) - spec.ndim)
    return R if own < 0 or spec.shape[own] == 1 else S(own)


# -- views -----------------------------------------------------------------------------------------

VIEWS = frozenset(
    "view _unsafe_view reshape split chunk slice select narrow unbind split_with_sizes view_as alias detach movedim "
    "swapaxes swapdims unflatten flatten".split()
)


@rule("view", "_unsafe_view", "reshape")
def view(call: SpreadCall) -> list[Strategy]:
    """Another shape: a cut dimension may become the first of several, and the first of several may become one."""
    (spec,) = call.specs
    if not isinstance(call.arg(1), (list, tuple)):
        return []
    found = [Strategy(p, [p]) for p in {P} | partials(call.specs)]
    new = _complete(tuple(call.arg(1)), spec.shape)
    for old_dims, new_dims in _groups(spec.shape, new):
        if len(old_dims) == len(new_dims) == 1:
            found.append(Strategy(S(new_dims[0]), [S(old_dims[0])]))
        elif old_dims and new_dims and new[new_dims[0]] % call.n == 0:
            found.append(Strategy(S(new_dims[0]), [S(old_dims[0])], even=True))
    return found


def _complete(shape: tuple, old: tuple) -> tuple[int, ...]:
    """A shape with its -1 found."""
    if -1 not in shape:
        return shape
    known = -math.prod(shape)
    return tuple(math.prod(old) // known if n == -1 and known else n for n in shape)


def _groups(old: tuple, new: tuple) -> list[tuple[list[int], list[int]]]:
    """Dimensions that become others, in order: ones of size 1 are in none."""
    a, b = [d for d, n in enumerate(old) if n != 1], [d for d, n in enumerate(new) if n != 1]
    if math.prod(old) == 0 or math.prod(old) != math.prod(new):
        return []
    found = []
    while a:
        left, right = [a.pop(0)], [b.pop(0)]
        x, y = old[left[0]], new[right[0]]
        while x != y:
            if x < y:
                left.append(a.pop(0))
                x *= old[left[-1]]
            else:
                right.append(b.pop(0))
                y *= new[right[-1]]
        found.append((left, right))
    return found


def other_view(call: SpreadCall) -> list[Strategy] | None:
    """Any other view: the strides of its result tell which dimension of the argument became which."""
    if not is_view(call.func) or len(call.specs) != 1:
        return None
    (spec,) = call.specs
    strides = [7 * 3**k for k in range(spec.ndim)]
    probe = rushlight.empty_strided(spec.shape, strides, dtype=spec.dtype, device="meta")
    args = mapped(call.args, DTensorSpec, lambda _: probe)
    try:
        result = call.func(*args, **call.kwargs)
    except (RuntimeError, ValueError, TypeError):
        return []
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if not results or not all(isinstance(t, Tensor) for t in results):
        return []
    found = [Strategy(p, [p]) for p in {P} | partials(call.specs)]
    for d, stride in enumerate(strides):
        places = []
        for t in results:
            same = [
                k for k in range(t.ndim) if t.stride(k) == stride and t.shape[k] == spec.shape[d]
            ]
            places.append(same[0] if len(same) == 1 and t.dtype is spec.dtype else None)
        if None in places or spec.shape[d] == 1:
            continue
        outputs = S(places[0]) if len(set(places)) == 1 else tuple(S(k) for k in places)
        found.append(Strategy(outputs, [S(d)]))
    return found


@rule("cat", "stack")
def cat(call: SpreadCall) -> list[Strategy]:
    """Several tensors as one: cut along the other dimensions."""
    specs, n = call.specs, len(call.specs)
    if any(spec.ndim != specs[0].ndim for spec in specs):
        return []
    stacked = call.name == "stack"
    ndim = specs[0].ndim
    dim = call.arg(1, 0) % (ndim + stacked)
    found = [Strategy(p, [p] * n) for p in linear_partials(specs)]
    for d in range(ndim):
        if stacked:
            found.append(Strategy(S(d + (d >= dim)), [S(d)] * n))
        elif d != dim:
            found.append(Strategy(S(d), [S(d)] * n))
    return found


@rule("new_zeros", "new_empty", "new_ones", "new_full", "new_empty_strided")
def new(call: SpreadCall) -> list[Strategy]:
    """Made from a tensor's dtype: as it lies, if it has its shape."""
    (spec,) = call.specs
    found = [Strategy(R, [p]) for p in spec.placements]
    if tuple(call.arg(1)) == spec.shape and spec.shape and call.name != "new_empty_strided":
        found = [Strategy(S(d), [S(d)]) for d in range(spec.ndim)] + found
    elif tuple(call.arg(1)) == spec.shape and call.name == "new_empty_strided":
        found = [Strategy(S(d), [S(d)]) for d in range(spec.ndim)]
    return found


# -- products --------------------------------------------------------------------------------------


@rule("mm")
def mm(call: SpreadCall) -> list[Strategy]:
    """A product of matrices: by rows, by columns, or as a sum of products of parts."""
    return [
        Strategy(S(0), [S(0), R]), Strategy(S(1), [R, S(1)]), Strategy(P, [S(1), S(0)]),
        Strategy(P, [P, R]), Strategy(P, [R, P]),
    ]  # fmt: skip


@rule("addmm")
def addmm(call: SpreadCall) -> list[Strategy]:
    """`mm`, and a tensor that is added."""
    added, shape = call.specs[0], (call.specs[1].shape[0], call.specs[2].shape[1])
    return [
        Strategy(s.outputs, [P if s.outputs == P else _cut(added, s.outputs.dim, shape), *s.inputs])
        for s in mm(call)
    ]


@rule("bmm")
def bmm(call: SpreadCall) -> list[Strategy]:
    """Products of matrices, by matrices or as `mm`."""
    later = {S(0): S(1), S(1): S(2), R: R, P: P}
    return [Strategy(S(0), [S(0), S(0)])] + [
        Strategy(later[s.outputs], [later[p] for p in s.inputs]) for s in mm(call)
    ]


@rule("baddbmm")
def baddbmm(call: SpreadCall) -> list[Strategy]:
    """`bmm`, and a tensor that is added."""
    added, a, b = call.specs[:3]
    shape = (a.shape[0], a.shape[1], b.shape[2])
    return [
        Strategy(s.outputs, [P if s.outputs == P else _cut(added, s.outputs.dim, shape), *s.inputs])
        for s in bmm(call)
    ]


@rule("mv")
def mv(call: SpreadCall) -> list[Strategy]:
    """A matrix by a vector."""
    return [
        Strategy(S(0), [S(0), R]),
        Strategy(P, [S(1), S(0)]),
        Strategy(P, [P, R]),
        Strategy(P, [R, P]),
    ]


@rule("dot", "vdot")
def dot(call: SpreadCall) -> list[Strategy]:
    """Two vectors."""
    return [Strategy(P, [S(0), S(0)])]


# -- reductions ------------------------------------------------------------------------------------

REDUCTIONS = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "prod": "product", "nansum": "sum",
              "max": "max", "min": "min", "count_nonzero": "sum"}  # fmt: skip
ALONG = frozenset(
    "argmax argmin var std var_mean logsumexp linalg_vector_norm any all median sort argsort topk cumsum cumprod "
    "logcumsumexp cummax cummin _softmax _log_softmax softmax log_softmax flip norm std_mean mode kthvalue "
    "nanmedian glu".split()
)  # operators along some dimensions, the others of which may be cut
KEEPING = frozenset(
    "sort argsort topk cumsum cumprod logcumsumexp cummax cummin _softmax _log_softmax softmax log_softmax flip glu".split()
)  # those whose result keeps these dimensions


@rule(*REDUCTIONS, *ALONG)
def reduction(call: SpreadCall) -> list[Strategy]:
    """A reduction of the parts is reduced over the processes; along other dimensions each has a part of the result."""
    spec, name = call.specs[0], call.name
    if len(call.specs) != 1:
        return []
    dims, keep = _dims(call)
    counted = name in ("sum", "count_nonzero")  # of bool too
    logical = spec.dtype is rushlight.bool and not counted
    kind = None if logical else REDUCTIONS.get(name)
    single = name in ("max", "min") and dims is not None  # values and their places
    found = []
    if name in ("sum", "mean", "flip") and spec.dtype is not rushlight.bool:
        found += [Strategy(p, [p]) for p in linear_partials(call.specs)]
    reduced = (
        set(range(spec.ndim))
        if dims is None
        else {d % spec.ndim for d in dims}
        if spec.ndim
        else set()
    )
    for d in range(spec.ndim):
        if d in reduced:
            if kind is not None and not single and _no_empty_part(spec.shape[d], call.n):
                found.append(Strategy(Partial(kind), [S(d)], even=kind == "avg"))
        elif name in KEEPING or keep:
            found.append(Strategy(S(d), [S(d)]))
        else:
            found.append(Strategy(S(d - sum(r < d for r in reduced)), [S(d)]))
    return found


def _dims(call: SpreadCall) -> tuple[Sequence[int] | None, bool]:
    """(the dimensions of a reduction, None for all; whether they are kept)."""
    name = call.name
    at = 2 if name in ("linalg_vector_norm", "norm", "topk", "kthvalue") else 1
    given = call.arg(at, call.kwargs.get("dim"))
    default = -1 if name in ("sort", "argsort", "topk", "kthvalue", "mode", "glu") else None
    if name == "sort" and given.__class__ is bool:
        given = None
    dims = default if given is None else given
    keep = call.kwargs.get("keepdim", call.arg(at + 1, False))
    if dims.__class__ is int:
        return (dims,), bool(keep)
    return (None if not dims and dims is not None and name != "flip" else dims), bool(keep)


def _no_empty_part(size: int, count: int) -> bool:
    return -(-size // count) * (count - 1) < size


FALLBACKS += [other_view, elementwise]


def state() -> tuple:
    """What else than its arguments decides about the plan of a call."""
    from rushlight.distributed.tensor import rules_nn

    return (rules_nn.loss_parallel_on,)
