"""Public functions as calls of ATen's operators, and functions that write as ones that do not."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.dispatch import aten_names
from rushlight.export.errors import refuse
from rushlight.overrides import resolve_name

if TYPE_CHECKING:
    from rushlight.export.recorder import Recorder, Traced
    from rushlight.fx.node import Node

RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson normal_ uniform_ "
    "rrelu rrelu_with_noise native_dropout dropout1d dropout2d dropout3d feature_alpha_dropout svd_lowrank pca_lowrank binomial bernoulli_ random_ exponential_ geometric_ cauchy_ log_normal_ dropout feature_dropout alpha_dropout".split()
)
_CONVERSIONS = frozenset(
    "double float half bfloat16 long int short char byte bool to type_as type cfloat cdouble cpu".split()
)
# Methods and functions that take sizes or dimensions one by one, too.
_SIZES = {
    **dict.fromkeys(
        "view reshape expand repeat permute tile flip new_zeros new_ones new_empty".split(), 1
    ),
    **dict.fromkeys("zeros ones empty rand randn".split(), 0),
}
# Functions whose operators take numbers for each of some dimensions, and the parameters that are these.
_DIMENSIONS = {f"conv{kind}{n}d": n for kind in ("", "_transpose") for n in (1, 2, 3)}
_EACH = frozenset("stride padding dilation output_padding".split())
# What `torch` calls by names of operators, and does no computation on tensors.
_NO_OPERATORS = frozenset("load save from_numpy from_file tensor as_tensor compile vmap".split())


def name_of(func: Any) -> str:
    """The short name of a function or method; `T` for the getter of an attribute."""
    if func.__name__ == "__get__":
        return resolve_name(func).split(".")[-2]
    op = getattr(func, "op", None)
    if op is not None and not func.__name__.endswith("_"):
        where, _, short = op.path.rpartition(".")
        if where in ("linalg", "special", "fft"):
            return f"{where}_{short}"
    return func.__name__


@functools.cache
def _signature(func: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None


# -- calls of ATen's operators ---------------------------------------------------------------------


def _batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):  # fmt: skip
    return input, weight, bias, running_mean, running_var, training, momentum, eps, True


def _embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):  # fmt: skip
    return weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse


def _dropout(input, p=0.5, training=True):
    return input, p, training


def _instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):  # fmt: skip
    return input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True


# Functions of torch.nn.functional whose operator takes the arguments in another order, or all of them.
_ORDERS = {
    "batch_norm": _batch_norm,
    "embedding": _embedding,
    "instance_norm": _instance_norm,
    **dict.fromkeys("dropout alpha_dropout feature_alpha_dropout".split(), _dropout),
}


def call_of(func: Any, name: str, args: tuple, kwargs: dict, result: Any = None) -> tuple:
    """(target, args, kwargs) of the call of an operator that does what a call of a public function does."""
    if name in _CONVERSIONS and isinstance(result, Tensor):
        return rushlight.ops.aten.to.dtype, (args[0], result.dtype), {}
    if name in ("data", "detach"):
        return rushlight.ops.aten.detach.default, args, {}
    if name == "__rtruediv__":
        name, args = "div", (rushlight.tensor(args[1], dtype=result.dtype), args[0])
    if name in ("T", "mT") and len(args) == 1:
        n = args[0].dim()
        dims = [*range(n)][::-1] if name == "T" else [*range(n - 2), n - 1, n - 2]
        return rushlight.ops.aten.permute.default, (args[0], dims), {}
    if func.__name__ == "__get__":
        refuse(f"Tensor.{name} cannot be exported")
    signature = _signature(func)
    if signature is not None and "inplace" in signature.parameters:
        named = signature.bind(*args, **kwargs).arguments
        named.pop("inplace", None)
        args, kwargs = (), dict(named)
        for parameter in signature.parameters.values():  # in order, as long as none is left out
            if parameter.name not in kwargs or parameter.kind is parameter.KEYWORD_ONLY:
                break
            args += (kwargs.pop(parameter.name),)
    if (at := _SIZES.get(name)) is not None and len(args) > at and type(args[at]) is int:
        args = (*args[:at], [*args[at:]])
    if (n := _DIMENSIONS.get(name)) is not None and signature is not None:
        names = signature.parameters
        args = tuple(_each(p, v, n) for p, v in zip(names, args, strict=False))
        kwargs = {p: _each(p, v, n) for p, v in kwargs.items()}
    if func.__module__ in ("rushlight.nn.functional", "torch.nn.functional") and name in _ORDERS:
        args, kwargs = _ORDERS[name](*args, **kwargs), {}
    if name in ("split", "tensor_split", "chunk", "unbind") and len(args) + len(kwargs) < 3:
        args = (*args, *kwargs.values(), *[0] * (name == "split"))
        kwargs = {}
        name = "split_with_sizes" if name == "split" and not isinstance(args[1], int) else name
    if name in ("argsort", "sort") and kwargs.get("stable") is not None:
        kwargs = dict(zip(("dim", "descending"), args[1:], strict=False)) | kwargs
        args = args[:1]
    if name in ("einsum", "meshgrid") and isinstance(args[-1], Tensor):
        at = name == "einsum"
        args = (*args[:at], [*args[at:]])
    args = tuple([*a] if type(a) in (tuple, Size) else a for a in args)
    if kwargs.get("out", 0) is None:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    return target_of(func, name, args, kwargs), args, kwargs


def _each(parameter: str, value: Any, n: int) -> Any:
    return [value] * n if parameter in _EACH and isinstance(value, int) else value


def without_defaults(values: list, defaults: list) -> list:
    """Arguments without the last ones that have their defaults."""
    n = len(values)
    while n and (values[n - 1] is (d := defaults[n - 1]) or d is not None and values[n - 1] == d):
        n -= 1
    return values[:n]


def target_of(func: Any, name: str, args: tuple = (), kwargs: dict | None = None) -> Any:
    """`torch.ops.aten.<name>.<overload>`, or `func` where no operator has the name."""
    kwargs = kwargs or {}
    named = dict(enumerate(args)) | kwargs
    signature = _signature(func) if func is not None else None
    rest = name.endswith("_copy") or name in aten_names.RECURRENT  # functions that take `*args`
    if signature is not None and not rest:
        try:
            named = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the arguments are the operator's, in another order
            pass
    target = target_named(name, aten_names.overload(name, named))
    if target is None or func is None or name in _ORDERS:
        return target or func
    called = target.overloadpacket.resolved()
    return target if called is func or _takes(called, signature, len(args), kwargs) else func


def _takes(called: Any, given: Any, count: int, kwargs: dict) -> bool:
    """Whether a function means the same by `count` arguments and these named ones as one of the signature `given`."""
    own = _signature(called)
    if own is None or given is None:
        return True
    theirs, ours = [*given.parameters.values()], [*own.parameters.values()]
    several = next((p for p in theirs if p.kind is p.VAR_POSITIONAL), None)
    if several is not None or any(p.kind is p.VAR_POSITIONAL for p in ours):
        return True  # printed functions, which take what their operator takes
    names = {p.name: p for p in ours}
    for nr, p in enumerate(theirs):
        mine = names.get(p.name)
        if nr == 0:
            continue  # `self` or `input`
        if nr < count and (nr >= len(ours) or ours[nr].name != p.name):
            return False
        if nr >= count and p.name in kwargs and mine is None:
            return False
        if nr >= count and p.name not in kwargs and mine is not None and mine.default != p.default:
            return False
    known = {p.name for p in theirs[:count]} | kwargs.keys()
    return all(p.default is not p.empty or p.name in known for p in ours[1:])


def target_named(name: str, overload: str = "default") -> Any:
    """`torch.ops.aten.<name>.<overload>`; None where no operator has the name."""
    if name.startswith("__") or name in _NO_OPERATORS:
        return None
    packet = getattr(rushlight.ops.aten, name)
    return None if packet.resolved() is None else getattr(packet, overload)


# -- writes ----------------------------------------------------------------------------------------


def copied(recorder: Recorder, to: Tensor, value: Any) -> Node:
    """The node of `value` in the shape and dtype of `to`, which it overwrites."""
    aten = rushlight.ops.aten
    if not isinstance(value, Tensor):
        return recorder.emit(aten.full.default, list(to.shape), value, dtype=to.dtype)
    node = recorder.node_of(value)
    if value.dtype != to.dtype:
        node = recorder.emit(aten.to.dtype, node, to.dtype)
    if value.dim() > to.dim():  # leading dimensions of size 1
        node = recorder.emit(
            aten.reshape.default, node, list(value.shape)[value.dim() - to.dim() :]
        )
    if value.shape != to.shape:
        node = recorder.emit(aten.expand.default, node, list(to.shape))
    return node


def without_write(recorder: Recorder, func: Any, name: str, args: tuple, kwargs: dict) -> Node:
    """The node of what a function writes into its first argument, without the write."""
    aten, t = rushlight.ops.aten, args[0]
    if kwargs.get("out") is not None:
        refuse(f"{name}: out= cannot be exported; assign the result")
    if name == "copy_":
        return copied(recorder, t, args[1])
    if name in ("zero_", "fill_"):
        value = 0 if name == "zero_" else args[1]
        return copied(recorder, t, value)
    if name.endswith("_") and name not in RANDOM:
        target = target_of(None, name.removesuffix("_"), args)
        plain_kwargs = kwargs
    else:
        target, args, plain_kwargs = call_of(func, name, args, kwargs)
        if target is func or name in RANDOM:
            target = None
    if target is None:
        refuse(f"{name}: a function that writes to its argument, which cannot be exported")
    promotes = any(isinstance(a, Tensor) and a.dtype != t.dtype for a in args[1:])
    args, plain_kwargs = recorder.nodes((args, plain_kwargs))
    node = recorder.emit(target, *args, **plain_kwargs)
    if promotes:
        node = recorder.emit(aten.to.dtype, node, t.dtype)
    return node


def running_statistics(recorder: Recorder, args: tuple, kwargs: dict) -> list[tuple[Traced, Node]]:
    """What `batch_norm` writes into the running mean and variance in training mode."""
    aten = rushlight.ops.aten
    names = (
        "input",
        "running_mean",
        "running_var",
        "weight",
        "bias",
        "training",
        "momentum",
        "eps",
    )
    given = dict(zip(names, args, strict=False)) | kwargs
    x, m = given["input"], given.get("momentum", 0.1)
    dims = [d for d in range(x.dim()) if d != 1]
    node = recorder.node_of(x)
    found = []
    for name, now in (
        ("running_mean", recorder.emit(aten.mean.dim, node, dims)),
        ("running_var", recorder.emit(aten.var.correction, node, dims, correction=1)),
    ):
        old = recorder.emit(aten.mul.Tensor, recorder.node_of(given[name]), 1 - m)
        new = recorder.emit(aten.mul.Tensor, now, m)
        found.append((given[name], recorder.emit(aten.add.Tensor, old, new)))
    return found
