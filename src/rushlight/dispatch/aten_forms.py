"""How operators look below autograd: as which of PyTorch's inner operators, called with which arguments.

`FORMS` are operators that PyTorch writes in others; a call is carried out as these. `ARGUMENTS` are those whose inner
operator takes other arguments, and `CALLS` what its name calls then. All others are called with their own arguments,
without those at their defaults. What PyTorch has no operator for is `torch.ops.rushlight.<path>`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.dispatch import aten_names, handlers

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.overloads import OpOverload
    from rushlight.dispatch.registry import Op

MOST = (1 << 63) - 1  # the end of a slice that goes to the end


def torch() -> Any:
    """The package: what stands here calls operators by their public names."""
    import rushlight

    return rushlight


# -- operators that PyTorch writes in others -------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    """`input @ weight.t() + bias`."""
    if input.dim() == 2 and weight.dim() == 2:
        t = weight.t()
        return input.mm(t) if bias is None else torch().addmm(bias, input, t)
    if input.dim() > 2 and weight.dim() == 2:
        lead, n = input.shape[:-1], weight.shape[0]
        flat = input.reshape(-1, input.shape[-1])
        return linear(flat, weight, bias).view(*lead, n)
    product = input.matmul(weight.t())
    return product if bias is None else product + bias


def matmul(input: Tensor, other: Tensor) -> Any:
    """A product of vectors, of matrices or of batches of matrices."""
    n, m = input.dim(), other.dim()
    if not n or not m:
        return NotImplemented  # says what is wrong
    if n == 1 and m == 1:
        return input.dot(other)
    if n == 2 and m == 1:
        return input.mv(other)
    if n == 1 and m == 2:
        return input.unsqueeze(0).mm(other).squeeze(0)
    if n == 2 and m == 2:
        return input.mm(other)
    if n > 2 and m < 3 and input.shape[-1] == other.shape[0]:
        flat = input.reshape(-1, input.shape[-1])
        if m == 1:
            return flat.mv(other).view(input.shape[:-1])
        return flat.mm(other).view(*input.shape[:-1], other.shape[-1])
    if input.shape[-1] != other.shape[-2 if m > 1 else 0]:
        return NotImplemented
    a = input.unsqueeze(0) if n == 1 else input
    b = other.unsqueeze(-1) if m == 1 else other
    lead = torch().broadcast_shapes(a.shape[:-2], b.shape[:-2])
    k = 1
    for size in lead:
        k *= size
    product = torch().bmm(
        a.expand(*lead, *a.shape[-2:]).reshape(k, *a.shape[-2:]),
        b.expand(*lead, *b.shape[-2:]).reshape(k, *b.shape[-2:]),
    )
    shape = [*lead, *([a.shape[-2]] if n > 1 else []), *([b.shape[-1]] if m > 1 else [])]
    return product.view(shape)


def times_adjoint(input: Tensor, other: Tensor) -> Tensor:
    """`input @ other.mH`."""
    return input.matmul(adjoint(other))


def adjoint_times(input: Tensor, other: Tensor) -> Tensor:
    """`input.mH @ other`."""
    return adjoint(input).matmul(other)


def adjoint(t: Tensor) -> Tensor:
    """The transposed matrices, conjugated."""
    turned = t.t() if t.dim() == 2 else t.transpose(-2, -1)
    return turned.conj_physical() if t.is_complex() else turned


def basic_index(input: Tensor, index: Any) -> Tensor:
    """One view after the other: slices, selected places, new dimensions."""
    if is_one_slice(index) is not None:
        return NotImplemented
    found, dim = input, 0
    items = index if index.__class__ is tuple else (index,)
    for at, i in enumerate(items):
        if i is None:
            found, dim = found.unsqueeze(dim), dim + 1
        elif i is Ellipsis:
            behind = sum(k is not None for k in items[at + 1 :])
            dim = found.dim() - behind
        elif i.__class__ is slice:
            if (cut := i.indices(found.shape[dim])) != (0, found.shape[dim], 1):
                end = MOST if i.stop is None else i.stop
                found = torch().ops.aten.slice.Tensor(found, dim, cut[0], end, cut[2])
            dim += 1
        else:
            found = found.select(dim, i)
    return found if found is not input else torch().ops.aten.alias(input)


def sliced(
    input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A slice of one dimension: `aten.slice.Tensor`."""
    own = OPS()["aten.basic_index"]
    cut = slice(start, None if end == MOST else end, step)
    dim = dim + input.dim() if dim < 0 else dim
    return own.function(input, (*[slice(None)] * dim, cut))


FORMS: dict[str, Callable] = {
    "aten.basic_index": basic_index,
    "internal.adjoint_times": adjoint_times,
    "internal.times_adjoint": times_adjoint,
    "matmul": matmul,
    "nn.functional.linear": linear,
}


# -- operators with other arguments ----------------------------------------------------------------


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """`aten.index_put`."""
    return torch().index_put(input, tuple(indices), values, accumulate)


def indexed(input: Tensor, indices: Any) -> Tensor:
    """`aten.index.Tensor`: None stands for a full slice."""
    return input[tuple([slice(None) if i is None else i for i in indices])]


def is_one_slice(index: Any) -> tuple | None:
    """(dim, slice) of an index that cuts one dimension only."""
    items = index if index.__class__ is tuple else (index,)
    cuts = [k for k, i in enumerate(items) if i.__class__ is slice and i != slice(None)]
    if len(cuts) == 1 and all(i.__class__ is slice for i in items):
        return cuts[0], items[cuts[0]]
    return None


def slice_of(input: Tensor, index: Any) -> tuple:
    """The arguments of `aten.slice`."""
    dim, cut = is_one_slice(index)  # type: ignore[misc]
    start, _, step = cut.indices(input.shape[dim])
    args = (input, dim, start, MOST if cut.stop is None else cut.stop, step)
    return (args[:-1] if step == 1 else args), {}


def pooled(nd: int, keep: int) -> Callable:
    """The arguments of `aten.max_pool2d_with_indices`, from windows."""

    def arguments(input: Tensor, windows: Any) -> tuple:
        w = windows
        return (input, [*w.kernel], [*w.stride], [*w.padding], [*w.dilation]), {}

    return arguments


# path -> (PyTorch's name, the arguments of a call)
ARGUMENTS: dict[str, tuple[str, Callable]] = {
    "_log_softmax": ("_log_softmax", lambda input, dim: ((input, dim, False), {})),
    "_softmax": ("_softmax", lambda input, dim: ((input, dim, False), {})),
    "_to_copy": (
        "_to_copy",
        lambda input, **options: ((input,), {k: v for k, v in options.items() if v is not None}),
    ),
    "_to_device": ("_to_copy", lambda input, device, source: ((input,), {"device": device})),
    "aten.basic_index": ("slice", slice_of),
    "aten.index": ("index", lambda input, at: ((input, at.indices()), {})),
    "aten.index_put": (
        "index_put",
        lambda input, values, at, accumulate: (
            (input, at.indices(), values, *[True] * bool(accumulate)),
            {},
        ),
    ),
    "internal.convolution": ("convolution", lambda **values: (tuple(map(as_list, values.values())), {})),
}  # fmt: skip

CALLS: dict[str, Callable] = {
    "_local_scalar_dense": lambda input: input.item(),
    "_log_softmax": lambda input, dim, half_to_float=False: torch().log_softmax(input, dim),
    "_softmax": lambda input, dim, half_to_float=False: torch().softmax(input, dim),
    "_to_copy": lambda input, dtype=None, device=None, memory_format=None, **_: (
        input.to(device, dtype, copy=True, memory_format=memory_format)
        if device is not None
        else OPS()["_to_copy"].function(input, dtype, memory_format)
    ),
    "alias": lambda input: OPS()["aten.alias"].function(input),
    "sym_size": lambda input, dim: input.shape[dim],
    "index": indexed,
    "index_put": index_put,
    "lift_fresh": lambda input: input,
    "lift_fresh_copy": lambda input: input.clone(),
    "slice": sliced,
}


def as_list(v: Any) -> Any:
    """Sequences of numbers are lists in calls of PyTorch's operators."""
    return [*v] if isinstance(v, tuple) else v


def OPS() -> dict[str, Op]:
    """The table of operators."""
    from rushlight.dispatch import registry

    return registry.OPS


def overload_of(op: Op, named: dict, inplace: bool = False) -> tuple[OpOverload, tuple, dict]:
    """(what a call of `op` is below autograd, its arguments); `named`: the values of all parameters."""
    space = torch().ops
    if op.path in ARGUMENTS:
        name, arguments = ARGUMENTS[op.path]
        args, kwargs = arguments(**{p: named[p] for p in op.params})
    else:
        values = [named[p] for p in op.params]
        n = op.n_positional
        args = tuple(values[:n])
        while len(args) > 1 and is_default(op, op.params[len(args) - 1], args[-1]):
            args = args[:-1]
        args = tuple(map(as_list, args))
        kwargs = {p: v for p, v in zip(op.params[n:], values[n:]) if not is_default(op, p, v)}
        names = aten_names.names(op, values)
        name = names[-1] if names else ""
        if not name or not same(op, name):
            packet = getattr(space.rushlight, op.path.replace(".", "_") + "_" * inplace)
            if packet._called is None:
                packet._called = own(op, inplace)
            return packet.default, args, kwargs
    if inplace and not name.endswith("_"):
        name += "_"
    packet = getattr(space.aten, name)
    return getattr(packet, aten_names.overload(name.rstrip("_"), named)), args, kwargs


def is_default(op: Op, p: str, value: Any) -> bool:
    """Whether a parameter has its default value."""
    if p not in op.defaults:
        return False
    default = op.defaults[p]
    return value is default or (
        value.__class__ is default.__class__ in (int, float, bool, str) and value == default
    )


@functools.cache
def same(op: Op, name: str) -> bool:
    """Whether PyTorch's operator `name` is called with the arguments of `op`."""
    if op.intermediates:
        return False
    function = getattr(torch().ops.aten, name).resolved()
    if function is None or name in CALLS:
        return False
    return getattr(function, "op", None) is op or function is op.public_function or op.path in SAME


SAME = frozenset(f"internal.adaptive_avg_pool{n}d" for n in (1, 2, 3))


def own(op: Op, inplace: bool) -> Callable:
    """What calls an operator that PyTorch does not have, with its intermediates behind its results."""
    if inplace:
        from rushlight.dispatch import inplace as inplaces

        def write(t: Tensor, *args: Any, **kwargs: Any) -> Any:
            return inplaces.bound(op, t, args, kwargs)

        write.op = op  # type: ignore[attr-defined]
        return write
    if op.intermediates:

        def call_kept(*args: Any, **kwargs: Any) -> Any:
            return handlers.carried["call_kept"](op, args, kwargs)

        call_kept.op, call_kept.kept = op, True  # type: ignore[attr-defined]
        return call_kept
    return with_tuples(op.function)


def with_tuples(function: Callable) -> Callable:
    """A function that takes lists of numbers where `function` takes tuples."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple([tuple(v) if v.__class__ is list else v for v in args])
        return function(*args, **kwargs)

    call.op = function.op  # type: ignore[attr-defined]
    return call


def called(namespace: str, name: str) -> Callable | None:
    """What the operator `name` calls, where that is no public function."""
    from rushlight.dispatch.overloads import _function

    if namespace == "rushlight":
        for op in OPS().values():
            if op.path.replace(".", "_") == name:
                return own(op, False)
        return None
    if name in CALLS:
        return CALLS[name]
    public = _function(name)
    for path in (f"aten.{name}", f"internal.{name}", f"nn.functional.{name}"):
        if public is not None and not path.startswith("aten."):
            return None  # its arguments are those of PyTorch's operator
        if (op := OPS().get(path)) is not None and not op.intermediates:
            return with_tuples(op.function)
    return None


# -- kernels of gradient rules -----------------------------------------------------------------------


def gradient_overload(op: Op, rule: Any) -> OpOverload:
    """The operator that stands for the kernel of a gradient rule of `op`, and takes what the rule reads."""
    of = "" if rule is op.rule_all else "_" + next(i for i, r in op.rules.items() if r is rule)
    wrt = of if len(op.rules) > 1 else ""
    packet = getattr(torch().ops.rushlight, f"{op.path.replace('.', '_')}_backward{wrt}")
    if packet._called is None:

        def call(*values: Any) -> Any:
            from rushlight.dispatch import record

            env = dict(zip(rule.reads, values, strict=True))
            return record.gradient(op, rule, env, record.thread.grad)

        call.gradient_of = op, rule  # type: ignore[attr-defined]
        packet._called = call
    return packet.default
