"""`GraphTypeChecker`: whether the sizes in a graph can fit, as far as they are known; `Refine` says more of them.

>>> import rushlight as torch
>>> from rushlight.fx.tensor_type import Dyn, TensorType
>>> def f(x: TensorType((2, Dyn, 3)), y: TensorType((2, 3))):
...     return torch.flatten(x, 0, 1)
>>> traced = torch.fx.symbolic_trace(f)
>>> GraphTypeChecker({}, traced).type_check()
True
>>> [node.type for node in traced.graph.nodes][-1]
TensorType[(Dyn, 3)]
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight.fx.experimental.gradual_rules import (
    INFERENCE_RULES,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    flattened_range,
    get_greatest_upper_bound,
    register_inference_rule,
    registered,
    type_of,
)
from rushlight.fx.experimental.refinement_types import Equality
from rushlight.fx.node import Node, map_arg
from rushlight.fx.tensor_type import Dyn, TensorType

__all__ = [
    "GraphTypeChecker", "Refine", "broadcast_types", "calculate_out_dimension", "expand_to_tensor_dim",
    "get_greatest_upper_bound", "register_inference_rule", "register_refinement_rule",
]  # fmt: skip

# target of a call, or class of a module -> the equalities of a node, where its types are those of tensors
REFINEMENT_RULES: dict[Any, Callable[[Node], list[Equality]]] = {}


class GraphTypeChecker:
    """Gives each node of a graph a type, from the types of its inputs and what is written at it.

    See Note [Gradual types].
    """

    def __init__(self, env: dict, traced: Any) -> None:
        self.env, self.traced = env, traced

    def type_check(self) -> bool:
        """True; TypeError at the first node whose types contradict."""
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """The type of a node whose inputs have theirs."""
        if n.type is None:
            n.type = Dyn
        if n.op == "placeholder":
            return n.type
        if n.op == "get_attr":
            value = operator.attrgetter(str(n.target))(self.traced)
            n.type = get_greatest_upper_bound(TensorType(tuple(value.shape)), n.type)
            return n.type
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
            return n.type
        if n.op == "call_function":
            if n.target not in INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            return INFERENCE_RULES[n.target](n)
        if n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            if type(module) not in INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for class {type(module)}!")
            return INFERENCE_RULES[type(module)](n, module)
        raise NotImplementedError(f"Method {n.op} not yet implemented")


class Refine:
    """Gives each unknown size a symbol, and lists what must be equal.

    `constraints` are the equalities, after `refine`; `symbolic_relations` writes sizes as expressions of others.
    """

    def __init__(self, traced: Any) -> None:
        self.traced = traced
        self.constraints: list[Equality] = []
        self.symbol_iter = itertools.count()

    def refine(self) -> bool:
        """Visit all nodes."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def refine_node(self, n: Node) -> None:
        """Symbols for the unknown sizes of a node; its equalities."""
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
            return
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        rule = REFINEMENT_RULES.get(self._called(n))
        tensors = (n.type, *(a.type for a in n.all_input_nodes))
        if rule is not None and all(isinstance(t, TensorType) for t in tensors):
            self.constraints += rule(n)

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """A type with a new symbol for each `Dyn` in it."""
        if typ == Dyn:
            import sympy

            return sympy.Symbol(f"~{next(self.symbol_iter)}")
        if isinstance(typ, TensorType):
            return TensorType(tuple(map(self.replace_dyn_with_fresh_var, typ.__args__)))
        if isinstance(typ, (list, tuple)):
            return type(typ)(map(self.replace_dyn_with_fresh_var, typ))
        return typ

    def symbolic_relations(self) -> bool:
        """Write the sizes that convolutions give as expressions of those that they get."""
        from rushlight.fx.experimental.unify_refinements import substitute_all_types

        for n in self.traced.graph.nodes:
            if self._called(n) is not nn.Conv2d or n.op != "call_module":
                continue
            source: Any = type_of(n.args[0])
            if not isinstance(source, TensorType) or not isinstance(n.type, TensorType):
                continue
            module, old = self.traced.get_submodule(n.target), n.type.__args__[2:]
            new = [calculate_out_dimension(d, module, i) for i, d in enumerate(source.__args__[2:])]
            n.type = TensorType((*n.type.__args__[:2], *new))
            symbols = {
                a: b for a, b in zip(old, new, strict=True) if getattr(a, "is_Symbol", False)
            }
            substitute_all_types(self.traced.graph, symbols)
        return True

    def _called(self, n: Node) -> Any:
        if n.op == "call_module":
            return type(self.traced.get_submodule(n.target))
        return n.target if n.op == "call_function" else None


# ------------------------------------------------------------------- what must be equal


def register_refinement_rule(call_target: Any) -> Callable[[Callable], Callable]:
    """A decorator: `rule(node)` gives the equalities between the types of a node and of its inputs."""
    return registered(REFINEMENT_RULES, call_target)


def _same(n: Node, dims: slice) -> list[Equality]:
    source: Any = n.args[0]
    pairs = zip(source.type.__args__[dims], n.type.__args__[dims], strict=True)
    return [Equality(a, b) for a, b in pairs]


@register_refinement_rule(nn.Conv2d)
def _batch_stays(n: Node) -> list[Equality]:
    return _same(n, slice(1))


@register_refinement_rule(nn.Linear)
def _all_but_features_stay(n: Node) -> list[Equality]:
    return _same(n, slice(-1))


@register_refinement_rule(nn.BatchNorm2d)
@register_refinement_rule(nn.ReLU)
def _all_stay(n: Node) -> list[Equality]:
    return _same(n, slice(None))


@register_refinement_rule(nn.AdaptiveAvgPool2d)
@register_refinement_rule(nn.MaxPool2d)
def _all_but_image_stay(n: Node) -> list[Equality]:
    return _same(n, slice(-2))


@register_refinement_rule(operator.add)
@register_refinement_rule(rushlight.add)
def _element_wise(n: Node) -> list[Equality]:
    sources = [type_of(a) for a in n.args[:2]]
    if not all(isinstance(t, TensorType) for t in sources):
        return []
    first, second = broadcast_types(*sources)
    rank = max(len(t.__args__) for t in sources)
    padded = ([1] * (rank - len(t.__args__)) + list(t.__args__) for t in sources)
    found = []
    for a, b, made, x, y in zip(
        *padded, n.type.__args__, first.__args__, second.__args__, strict=True
    ):
        if 1 in (a, b) or a == b:  # else a symbol may be 1, or what the other one is
            found.append(Equality(x if a == 1 else y, made))
    return found


@register_refinement_rule(rushlight.flatten)
def _outside_stays(n: Node) -> list[Equality]:
    source: Any = type_of(n.args[0])
    rank = len(source.__args__)
    start, end = flattened_range(n, rank)
    found = _same(n, slice(start))
    after = zip(source.__args__[end + 1 :], n.type.__args__[start + 1 :], strict=True)
    return found + [Equality(a, b) for a, b in after]
