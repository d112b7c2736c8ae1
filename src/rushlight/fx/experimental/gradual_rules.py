"""The type of a node from those of its inputs, for the operators and layers that the type checker knows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight.fx.node import Node
from rushlight.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = [
    "INFERENCE_RULES", "broadcast_types", "calculate_out_dimension", "expand_to_tensor_dim",
    "get_greatest_upper_bound", "register_inference_rule",
]  # fmt: skip

# target of a call, or class of a module -> the rule; see `register_inference_rule`
INFERENCE_RULES: dict[Any, Callable] = {}


def registered(rules: dict[Any, Callable], call_target: Any) -> Callable[[Callable], Callable]:
    """A decorator that puts a rule into a table; RuntimeError where the table has one already."""

    def register(rule: Callable) -> Callable:
        if call_target in rules:
            raise RuntimeError(f"Rule already registered for {call_target}!")
        rules[call_target] = rule
        return rule

    return register


def register_inference_rule(call_target: Any) -> Callable[[Callable], Callable]:
    """A decorator: `rule(node)` types calls of a function; `rule(node, module)` those of a class of modules."""
    return registered(INFERENCE_RULES, call_target)


# --------------------------------------------------------------------------------- types


def type_of(argument: Any) -> Any:
    """The type of an argument: that of a node, or the class of a number."""
    return argument.type if isinstance(argument, Node) else type(argument)


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """A type as one of tensors of rank `n`; TypeError if it cannot be."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot extend the type {t}")
    if len(t.__args__) != n:
        raise TypeError(
            f"Cannot extend tensor. Tensor {t} has rank {len(t.__args__)}. It should have rank {n}"
        )
    return t


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """What two types say together; TypeError if they contradict."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    if not isinstance(type1, TensorType):
        return type1
    pairs = zip(type1.__args__, type2.__args__, strict=True)
    return TensorType(tuple(a if is_more_precise(a, b) else b for a, b in pairs))


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """The types that two tensors have after they are broadcast to each other."""
    if Dyn in (t1, t2):
        return t1, t2
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    rank = max(len(t1.__args__), len(t2.__args__))
    first, second = ([1] * (rank - len(t.__args__)) + list(t.__args__) for t in (t1, t2))
    pairs = list(zip(first, second, strict=True))
    return (
        TensorType(tuple(b if a == 1 else a for a, b in pairs)),
        TensorType(tuple(a if b == 1 else b for a, b in pairs)),
    )


# ------------------------------------------------------------------------------ functions


@register_inference_rule(operator.add)
@register_inference_rule(rushlight.add)
def _add(n: Node) -> Any:
    t1, t2 = type_of(n.args[0]), type_of(n.args[1])
    numbers = (bool, int, float, complex)
    if t1 in numbers or t2 in numbers:
        n.type = t2 if t1 in numbers else t1
        return n.type
    new1, new2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = (new1, new2) != (t1, t2)
    if n.meta["broadcast"]:
        n.meta[str(n.args[0])], n.meta[str(n.args[1])] = new1, new2
    if not is_consistent(new1, new2):
        raise TypeError(
            f"Cannot add arguments {n.args[0]} ({t1}) and {n.args[1]} ({t2}) in node {n}. Types should match"
        )
    n.type = new2 if is_more_precise(new1, new2) else new1
    return n.type


@register_inference_rule(rushlight.transpose)
def _transpose(n: Node) -> Any:
    t, dims = type_of(n.args[0]), n.args[1:3]
    if t == Dyn:
        n.type = n.type if n.type is not None else Dyn
        return n.type
    rank = len(t.__args__) if isinstance(t, TensorType) else 0
    if len(dims) < 2 or not all(-rank <= d < rank for d in dims):  # type: ignore[operator]
        raise TypeError(f"Cannot transpose {' and '.join(map(str, dims))} in type {t} for node {n}")
    sizes = list(t.__args__)
    a, b = (int(d) for d in dims)  # type: ignore[arg-type]
    sizes[a], sizes[b] = sizes[b], sizes[a]
    n.type = get_greatest_upper_bound(TensorType(tuple(sizes)), n.type)
    return n.type


@register_inference_rule(rushlight.reshape)
def _reshape(n: Node) -> Any:
    t = type_of(n.args[0])
    wanted = n.args[1] if isinstance(n.args[1], (list, tuple)) else n.args[1:]
    made = TensorType(tuple(Dyn if not isinstance(s, int) or s == -1 else s for s in wanted))
    if t == Dyn:
        n.type = made
        return made
    if isinstance(t, TensorType):
        has, asked = (math.prod(s for s in x.__args__ if s != Dyn) for x in (t, made))
        # the sizes that are known must be able to agree
        free = (Dyn in t.__args__, Dyn in made.__args__)
        fits = {
            (False, False): has == asked,
            (False, True): asked and has % asked == 0,
            (True, False): has and asked % has == 0,
            (True, True): has and asked and (has % asked == 0 or asked % has == 0),
        }
        if fits[free] or has == asked == 0:
            n.type = made
            return made
    raise TypeError(f"Cannot reshape in node {n} from {t} to {made}")


@register_inference_rule(rushlight.flatten)
def _flatten(n: Node) -> Any:
    t = type_of(n.args[0])
    if isinstance(t, TensorType):
        start, end = flattened_range(n, len(t.__args__))
        sizes = list(t.__args__)
        inner = sizes[start : end + 1]
        sizes[start : end + 1] = [Dyn if Dyn in inner else math.prod(inner)]
        n.type = get_greatest_upper_bound(TensorType(tuple(sizes)), n.type)
    elif n.type is None:
        n.type = Dyn
    return n.type


def flattened_range(n: Node, rank: int) -> tuple[int, int]:
    """The first and the last dimension that a call of flatten joins."""
    given = dict(zip(("start_dim", "end_dim"), n.args[1:], strict=False)) | n.kwargs
    start, end = (int(given.get(k, d)) for k, d in (("start_dim", 0), ("end_dim", -1)))  # type: ignore[call-overload]
    first, last = (d + rank if d < 0 else d for d in (start, end))
    if not 0 <= first <= last < rank:
        raise TypeError(f"Incompatible dimensions {start}, {end} in type {type_of(n.args[0])}")
    return first, last


@register_inference_rule(getattr)
def _getattr(n: Node) -> Any:
    if n.args[1] != "shape":
        raise TypeError("Not yet implemented")
    n.type = Dyn
    return n.type


# --------------------------------------------------------------------------------- layers


def _refuse(n: Node, module: Any, t: Any) -> TypeError:
    return TypeError(f"Cannot apply {module} with input type {t} and existing type {n.type} on {n}")


@register_inference_rule(nn.BatchNorm2d)
def _batch_norm(n: Node, module: Any) -> Any:
    source: Any = n.args[0]
    source.type = t = expand_to_tensor_dim(source.type, 4)
    n.type = expand_to_tensor_dim(n.type, 4)
    channels = module.num_features
    if not (
        is_consistent(t.__args__[1], channels)
        and is_consistent(n.type.__args__[1], channels)
        and is_consistent(t, n.type)
    ):
        raise _refuse(n, module, t)
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


def _of(value: Any, index: int) -> Any:
    return value if isinstance(value, int) else value[index]


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """The size that a convolution or a pooling gives dimension `index`; an expression, if `d_in` is one."""
    if d_in == Dyn:
        return Dyn
    if module_instance.padding == "same":
        return d_in
    padding = 0 if module_instance.padding == "valid" else _of(module_instance.padding, index)
    window, dilation, stride = (
        _of(getattr(module_instance, name), index) for name in ("kernel_size", "dilation", "stride")
    )
    free = d_in + 2 * padding - dilation * (window - 1) - 1
    if not isinstance(d_in, int):
        import sympy

        return sympy.floor(free / sympy.Integer(stride)) + 1
    if not getattr(module_instance, "ceil_mode", False):
        return free // stride + 1
    count = -(-free // stride) + 1  # the last window must begin inside
    return count - ((count - 1) * stride >= d_in + padding)


@register_inference_rule(nn.Conv2d)
def _conv2d(n: Node, module: Any) -> Any:
    source: Any = n.args[0]
    source.type = t = expand_to_tensor_dim(source.type, 4)
    existing = expand_to_tensor_dim(n.type, 4)
    batch, channels, *image = t.__args__
    made = TensorType(
        (
            batch,
            module.out_channels,
            *(calculate_out_dimension(d, module, i) for i, d in enumerate(image)),
        )
    )
    if not is_consistent(channels, module.in_channels) or not is_consistent(made, existing):
        raise _refuse(n, module, t)
    n.type = get_greatest_upper_bound(made, existing)
    return n.type


@register_inference_rule(nn.ReLU)
def _relu(n: Node, module: Any) -> Any:
    n.type = get_greatest_upper_bound(type_of(n.args[0]), n.type)
    return n.type


def _meet(n: Node, made: Callable[[tuple], tuple]) -> Any:
    """The type of a layer from the sizes of its input, where they are known."""
    t = type_of(n.args[0])
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(TensorType(made(tuple(t.__args__))), n.type)
    return n.type


@register_inference_rule(nn.MaxPool2d)
def _max_pool2d(n: Node, module: Any) -> Any:
    def made(sizes: tuple) -> tuple:
        if len(sizes) not in (3, 4):
            raise TypeError(f"Wrong size {type_of(n.args[0])} for {module}")
        image = (calculate_out_dimension(d, module, i) for i, d in enumerate(sizes[-2:]))
        return (*sizes[:-2], *image)

    return _meet(n, made)


@register_inference_rule(nn.Linear)
def _linear(n: Node, module: Any) -> Any:
    def made(sizes: tuple) -> tuple:
        if not sizes:
            raise TypeError(f"Type {type_of(n.args[0])} must have rank 1 or more.")
        if not is_consistent(module.in_features, sizes[-1]):
            raise TypeError(f"Inconsistent {module.in_features} and {sizes[-1]} in {module}")
        return (*sizes[:-1], module.out_features)

    return _meet(n, made)


@register_inference_rule(nn.AdaptiveAvgPool2d)
def _adaptive_avg_pool2d(n: Node, module: Any) -> Any:
    def made(sizes: tuple) -> tuple:
        if len(sizes) not in (3, 4):
            raise TypeError(f"Tensor ranks must be 3 or 4. Got {type_of(n.args[0])}")
        wanted = module.output_size
        wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted, wanted)
        image = (d if w is None else w for w, d in zip(wanted, sizes[-2:], strict=True))
        return (*sizes[:-2], *image)

    return _meet(n, made)
