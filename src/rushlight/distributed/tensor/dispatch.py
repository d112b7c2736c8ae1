"""Operators on tensors that are spread over a mesh.

Note [Sharding rules]
`DTensor.__torch_dispatch__` gets every operator below autograd, those of backward too. The rule of an operator (rules.py)
gives strategies for one dimension of the mesh: which placements of the arguments make which placements of the results,
where every process calls the operator on its parts. For each dimension of the mesh the strategy is taken whose arguments
cost least to bring into place. Without a rule all arguments are made whole everywhere, which is always right.

What was chosen is kept for calls alike (a `Plan`): the same operator, specs and other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from rushlight.distributed.tensor.redistribute import redistribute
from rushlight.distributed.tensor.spec import DTensorSpec, size_of_parts, spec_of

REPLICATE = Replicate()
# The costs of PyTorch's model as bytes: a collective takes 6.6 us to begin, at about 100 GB/s; an exchange of parts longer.
MESSAGE, EXCHANGE = 6.6e5, 1e5


class Strategy(NamedTuple):
    """What one dimension of the mesh may do: placements of the results (one, or a tuple) and of the tensors among the
    arguments; `even`: only where cut dimensions have parts of one size; `local`: what is called on the parts in the
    place of the operator, as `local(call, args, mesh_dims)`."""

    outputs: Any
    inputs: Sequence[Placement]
    even: bool = False
    local: Callable | None = None

    def cut_as(self, p: _StridedShard) -> Strategy | None:
        """The same with another way to cut the one dimension that is cut."""
        several = self.outputs.__class__ is tuple
        placements = [*(self.outputs if several else [self.outputs]), *self.inputs]
        if {x for x in placements if isinstance(x, Shard)} != {Shard(p.dim)}:
            return None
        changed = [p if isinstance(x, Shard) else x for x in placements]
        count = len(self.outputs) if several else 1
        outputs = tuple(changed[:count]) if several else changed[0]
        return self._replace(outputs=outputs, inputs=changed[count:])


class SpreadCall:
    """A call of an operator whose tensors are spread over a mesh: `args` and `kwargs` have specs in their place."""

    def __init__(self, kind: Any, func: Any, args: tuple, kwargs: dict) -> None:
        self.kind = kind
        self.func, self.name = func, func.overloadpacket.__name__
        self.specs: list[DTensorSpec] = []
        self.args, self.kwargs = args, kwargs
        self.mesh: Any = None
        self.i = 0  # the dimension of the mesh that a rule is asked about

    @property
    def n(self) -> int:
        """The size of that dimension of the mesh."""
        return self.mesh.size(self.i)

    def arg(self, k: int, default: Any = None) -> Any:
        """The argument number `k`, or its default."""
        return self.args[k] if len(self.args) > k else default

    def globals(self) -> Any:
        """What the operator gives for whole tensors without memory."""

        def meta(v: Any) -> Any:
            return rushlight.empty_strided(v.shape, v.stride, dtype=v.dtype, device="meta")

        args, kwargs = mapped(self.args, DTensorSpec, meta), mapped(self.kwargs, DTensorSpec, meta)
        return self.func(*args, **kwargs)


class Result(NamedTuple):
    """What is known of a result of which each process has a part."""

    spec: DTensorSpec
    shape: tuple[int, ...]  # of this process's part


class Plan(NamedTuple):
    """How a call is carried out: where the arguments go, the results (placements, where all have the whole shape), what is
    called on the parts, and whether arguments have to be moved."""

    inputs: tuple[tuple[Placement, ...], ...]
    outputs: Any
    call: Callable
    moves: bool
    view: bool
    even: bool  # whether all parts have one size
    whole: bool = False  # a write that is computed on the whole tensor


RULES: dict[str, Callable[[SpreadCall], Sequence[Strategy]]] = {}  # name of an operator -> its rule
REGISTERED: dict[
    Any, Callable[[SpreadCall], Sequence[Strategy]]
] = {}  # overload -> a program's own rule
SPECIAL: dict[str, Callable] = {}  # name of an operator -> what carries it out, on the whole
FALLBACKS: list[
    Callable[[SpreadCall], Any]
] = []  # rules for kinds of operators: None where it is none of theirs
_plans: dict[Any, Plan] = {}


def mapped(value: Any, kind: type, function: Callable) -> Any:
    """Arguments with each object of a class exchanged."""
    if isinstance(value, kind):
        return function(value)
    if value.__class__ in (list, tuple):
        return value.__class__([mapped(v, kind, function) for v in value])
    if value.__class__ is dict:
        return {k: mapped(v, kind, function) for k, v in value.items()}
    return value


def frozen(value: Any) -> Any:
    """Arguments as something that can be the key of a table."""
    if value.__class__ in (list, tuple):
        return (value.__class__, *map(frozen, value))
    if value.__class__ is dict:
        return tuple((k, frozen(v)) for k, v in value.items())
    return value if value.__class__ is DTensorSpec else (value.__class__, value)


def dispatch(kind: type, func: Any, args: tuple, kwargs: dict) -> Any:
    """The result of an operator on tensors of the class `kind`. See Note [Sharding rules]."""
    name = func.overloadpacket.__name__
    if (special := SPECIAL.get(name)) is not None and func not in REGISTERED:
        return special(kind, func, args, kwargs)
    if name in OTHER_SHAPE:
        raise NotImplementedError(
            f"Operator aten.{name} does not have a sharding strategy registered: a spread tensor keeps its shape"
        )
    if "out" in kwargs:
        out = kwargs.pop("out")
        return out.copy_(func.overloadpacket.default(*args, **kwargs))
    call, tensors = with_specs(kind, func, args, kwargs)
    if call.mesh.get_coordinate() is None:
        return outside(call)
    try:
        key = (func, frozen(call.args), frozen(call.kwargs), _state())
        plan = _plans.get(key)
    except TypeError:  # an argument that has no hash
        key = plan = None
    if plan is None:
        plan = make_plan(call)
        if key is not None:
            if len(_plans) > 4096:
                _plans.clear()
            _plans[key] = plan
    written = name.endswith("_") and not name.endswith("__")
    if written and tensors[0]._copied:
        raise RuntimeError(
            f"{name}: the tensor is a view along a dimension that is cut, for which the parts were copied: what is "
            "written to it would not reach the tensor that it is a view of"
        )
    locals_ = [
        redistribute(t._local_tensor, t._spec, wanted) if plan.moves else t._local_tensor
        for t, wanted in zip(tensors, plan.inputs)
    ]
    found = carried_out(call, plan, locals_)
    if written:
        if plan.whole:
            spec = tensors[0]._spec
            whole = spec.placed((REPLICATE,) * spec.mesh.ndim)
            args[0]._local_tensor.copy_(redistribute(found, whole, spec.placements))
        return args[0]
    copied = plan.view and (plan.moves or tensors[0]._copied)
    return wrapped(found, plan, call, copied)


def carried_out(call: SpreadCall, plan: Plan, locals_: list) -> Any:
    """What the operator gives on the parts."""
    rows = iter(locals_)
    args = mapped(call.args, DTensorSpec, lambda spec: next(rows))
    kwargs = mapped(call.kwargs, DTensorSpec, lambda spec: next(rows))
    return plan.call(*args, **kwargs)


def wrapped(found: Any, plan: Plan, call: SpreadCall, copied: bool) -> Any:
    """Results as spread tensors, where they are tensors."""

    def one(t: Any, out: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        if out.__class__ is not Result:
            r = call.kind(t, spec_of(t, call.mesh, out))
        elif tuple(t.shape) == out.shape:
            spec = out.spec
            if spec.mesh is not call.mesh:  # the plan is that of an equal mesh, of another root
                spec = spec._replace(mesh=call.mesh)
            r = call.kind(t, spec)
        elif plan.even:  # what a kernel keeps for backward may depend on sizes
            shape, stride = size_of_parts(t, call.mesh, out.spec.placements)
            r = call.kind(t, out.spec._replace(mesh=call.mesh, shape=shape, stride=stride))
        else:
            raise AssertionError(
                f"{call.func}: a part of {out.spec} has shape {tuple(t.shape)}, not {out.shape}"
            )
        r._copied = copied
        return r

    if isinstance(found, (list, tuple)):
        outs = plan.outputs if plan.outputs.__class__ is list else [plan.outputs] * len(found)
        return found.__class__([one(t, out) for t, out in zip(found, outs)])
    out = plan.outputs[0] if plan.outputs.__class__ is list else plan.outputs
    return one(found, out)


def with_specs(kind: type, func: Any, args: tuple, kwargs: dict) -> tuple[SpreadCall, list]:
    """(the call with specs in the place of tensors, the tensors)."""
    call, tensors = SpreadCall(kind, func, args, kwargs), []
    mesh = args[0]._spec.mesh if args and isinstance(args[0], kind) else None
    if mesh is None:
        found: list[Any] = []
        mapped((args, kwargs), kind, found.append)
        mesh = found[0]._spec.mesh

    def taken(t: Any) -> Any:
        if not isinstance(t, kind):
            t = replicated(call, t)
        spec = t._spec
        if spec.mesh is not mesh and spec.mesh != mesh:
            raise NotImplementedError(
                f"{func}: DTensor does not support cross-mesh operation yet! Got meshes: {mesh} {spec.mesh}"
            )
        tensors.append(t)
        call.specs.append(spec)
        return spec

    call.mesh = mesh
    call.args = mapped(args, Tensor, taken)
    call.kwargs = mapped(kwargs, Tensor, taken)
    return call, tensors


implicit = 0  # how many blocks of `implicit_replication` are open
targets: frozenset[str] = frozenset()  # operators that take plain targets, within `loss_parallel`


def replicated(call: SpreadCall, t: Tensor) -> Any:
    """A plain tensor among the arguments: a number is the same everywhere, others have to be said to be."""
    if t.numel() == 1 and t.ndim <= 1 or implicit or call.name in targets:
        return call.kind(t, spec_of(t, call.mesh, (REPLICATE,) * call.mesh.ndim))
    raise RuntimeError(
        f"{call.func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
        "distributed operators!"
    )


def outside(call: SpreadCall) -> Any:
    """What a process gets that is not in the mesh: tensors without elements, 0 where there are no dimensions."""

    def empty(t: Any) -> Any:
        whole = (REPLICATE,) * call.mesh.ndim
        spec = DTensorSpec(call.mesh, whole, tuple(t.shape), tuple(t.stride()), t.dtype)
        return call.kind(rushlight.zeros((0,) if t.ndim else (), dtype=t.dtype), spec)

    return mapped(call.globals(), Tensor, empty)


def register(overload: Any, rule: Callable[[SpreadCall], Sequence[Strategy]]) -> None:
    """Let a rule of the program take the place of that of an operator."""
    REGISTERED[overload] = rule
    _plans.clear()


# -- plans -----------------------------------------------------------------------------------------


def _state() -> tuple:
    from rushlight.distributed.tensor import rules

    return rules.state()


def strategies_of(call: SpreadCall) -> Sequence[Strategy]:
    """What the rule of an operator says, and at last: all arguments whole."""
    whole = Strategy(REPLICATE, [REPLICATE] * len(call.specs))
    if (own := REGISTERED.get(call.func)) is not None:
        return [*own(call), whole]
    rule = RULES.get(call.name)
    found = rule(call) if rule is not None else None
    for fallback in FALLBACKS if found is None else ():
        if (found := fallback(call)) is not None:
            break
    strided = {p for spec in call.specs if isinstance(p := spec.placements[call.i], _StridedShard)}
    if (
        found and strided and call.name not in SIZES
    ):  # each row by itself: their order does not matter
        found = [*found, *(cut for p in strided for s in found if (cut := s.cut_as(p)) is not None)]
    return [*(found or ()), whole]


def cost(spec: DTensorSpec, i: int, wanted: Placement) -> float:
    """What it costs to bring an argument into place along dimension `i` of the mesh, about in bytes that are sent.

    What has to move becomes whole rather than cut along another dimension: programs read `to_local()` of results, and
    expect what PyTorch has there.
    """
    now = spec.placements[i]
    if now == wanted:
        return 0.0
    size = spec.bytes() + 64.0
    if isinstance(now, Partial):
        times = 2.0 if wanted == REPLICATE else 2.05 if isinstance(wanted, Shard) else 3.0
        return MESSAGE + times * size
    if isinstance(now, Shard):
        if isinstance(wanted, Partial):
            return float("inf")
        return MESSAGE + size + (0.0 if wanted == REPLICATE else EXCHANGE)
    return 0.01 * size if isinstance(wanted, Shard) else MESSAGE + 2 * size


def possible(strategy: Strategy, call: SpreadCall, i: int, written: bool) -> bool:
    """Whether a strategy can be taken along dimension `i` of the mesh."""
    if written and call.specs[0].placements[i] != strategy.inputs[0]:
        return False
    for spec, p in zip(call.specs, strategy.inputs):
        if isinstance(p, Shard) and (
            p.dim >= spec.ndim or (strategy.even and spec.shape[p.dim] % call.mesh.size(i))
        ):
            return False
    return True


def make_plan(call: SpreadCall) -> Plan:
    """The plan of a call."""
    mesh = call.mesh
    written = call.name.endswith("_") and not call.name.endswith("__")
    chosen: list[Strategy] = []
    for i in range(mesh.ndim):
        call.i = i
        options = [s for s in strategies_of(call) if possible(s, call, i, written)]
        if not options:
            return rewritten(call)
        chosen.append(
            min(options, key=lambda s: sum(cost(x, i, p) for x, p in zip(call.specs, s.inputs)))
        )
    whole = Strategy(REPLICATE, [REPLICATE] * len(call.specs))
    i = mesh.ndim
    while (outputs := _outputs(call, chosen)) is None:
        if written:
            return rewritten(call)
        i -= 1
        chosen[i] = whole
    inputs = _inputs(call, chosen)
    dims = [i for i, s in enumerate(chosen) if s.local is not None]
    function = _local_call(call, outputs, chosen[dims[0]].local if dims else None, dims)
    moves = any(spec.placements != p for spec, p in zip(call.specs, inputs))
    return Plan(inputs, outputs, function, moves, _is_view(call.func), any(s.even for s in chosen))


def _inputs(call: SpreadCall, chosen: list[Strategy]) -> tuple:
    return tuple(tuple(s.inputs[k] for s in chosen) for k in range(len(call.specs)))


def _even(spec: DTensorSpec) -> bool:
    return all(spec.even(p.dim) for p in spec.placements if isinstance(p, Shard))


def _outputs(call: SpreadCall, chosen: list[Strategy]) -> Any:
    """The results: placements where all are whole, or a list. None where the strategies do not go together: two call
    something else than the operator, or parts that must have one size have several."""
    if len({s.local for s in chosen if s.local is not None}) > 1:
        return None
    given = [spec.placed(p) for spec, p in zip(call.specs, _inputs(call, chosen))]
    if any(s.even for s in chosen) and not all(map(_even, given)):
        return None
    outs = [s.outputs for s in chosen]
    several = next((len(o) for o in outs if o.__class__ is tuple), 0)
    rows = list(zip(*[o if o.__class__ is tuple else (o,) * max(several, 1) for o in outs]))
    if not any(isinstance(p, Shard) for row in rows for p in row):
        return [tuple(row) for row in rows] if several else tuple(rows[0])
    found = call.globals()
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    if not several:
        rows = rows * len(results)
    specs = [None if t is None else spec_of(t, call.mesh, row) for row, t in zip(rows, results)]
    if any(s.even for s in chosen) and not all(map(_even, filter(None, specs))):
        return None
    return [None if spec is None else Result(spec, spec.local_shape()) for spec in specs]


OTHER_SHAPE = frozenset(
    "t_ transpose_ swapaxes_ swapdims_ unsqueeze_".split()
)  # writes that change the shape
SIZES = {"view": 1, "_unsafe_view": 1, "reshape": 1, "expand": 1, "new_zeros": 1, "new_empty": 1, "new_ones": 1,
         "new_full": 1}  # fmt: skip  # operators with a shape among their arguments: where it stands


def _local_call(
    call: SpreadCall, outputs: Any, local: Callable | None, dims: list[int]
) -> Callable:
    """What is called on the parts."""
    if local is not None:
        return lambda *args, **kwargs: local(call, args, dims)
    func, at = call.func, SIZES.get(call.name)
    if call.name == "squeeze" and len(call.args) == 1:  # a part may have more dimensions of size 1
        dims = tuple(d for d, n in enumerate(call.specs[0].shape) if n == 1)
        return lambda t: t.squeeze(dims)
    if call.name == "new_empty_strided" and outputs.__class__ is list:
        shape = outputs[0].shape
        return lambda t, *args, **kwargs: t.new_empty(shape, **kwargs)
    if at is None or outputs.__class__ is not list:
        return func
    shape = list(outputs[0].shape)

    def sized(*args: Any, **kwargs: Any) -> Any:
        return func(*args[:at], shape, *args[at + 1 :], **kwargs)

    return sized


def rewritten(call: SpreadCall) -> Plan:
    """The plan of a write for which no strategy leaves the tensor where it is: computed whole, and a part kept."""
    whole = ((REPLICATE,) * call.mesh.ndim,) * len(call.specs)

    def write(*args: Any, **kwargs: Any) -> Any:
        return call.func(args[0].clone(), *args[1:], **kwargs)

    return Plan(whole, None, write, True, False, False, whole=True)


def _is_view(func: Any) -> bool:
    from rushlight.distributed.tensor import rules

    return rules.is_view(func)


def value_of(kind: type, func: Any, args: tuple, kwargs: dict) -> Any:
    """The number in this process's part, as in PyTorch: where it is a summand, `full_tensor()` has the sum."""
    if (count := args[0].numel()) != 1:
        raise RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")
    return func(args[0]._local_tensor)


SPECIAL["_local_scalar_dense"] = value_of
