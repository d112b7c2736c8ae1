"""`pipeline`: a model that is traced and cut into stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rushlight.distributed.pipelining.stage import PipelineStage
from rushlight.fx import Graph, GraphModule, Node, Tracer
from rushlight.nn import Module

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a stage begins: before or after a module."""

    BEGINNING = 1
    END = 2


_tracing: list[Tracer] = []


def pipe_split() -> None:
    """The place in a `forward` where the next stage begins."""
    if _tracing:
        _tracing[-1].create_proxy("call_function", pipe_split, (), {})


class _Tracer(Tracer):
    """Records modules that begin or end a stage as one call each."""

    def __init__(self, splits: Mapping[str, SplitPoint]) -> None:
        super().__init__()
        self.splits = splits

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self.splits or super().is_leaf_module(
            m, module_qualified_name
        )


def stages_of(graph: Graph, splits: Mapping[str, SplitPoint]) -> tuple[dict[Node, int], int]:
    """(the stage of each node that computes something, how many stages there are)."""
    found: dict[Node, int] = {}
    number, seen = 0, set()
    for node in graph.nodes:
        split = splits.get(node.target) if node.op == "call_module" else None
        if split is not None:
            seen.add(node.target)
        if node.op == "call_function" and node.target is pipe_split:
            number += 1
            continue
        number += split is SplitPoint.BEGINNING
        if node.op != "get_attr":
            found[node] = 0 if node.op == "placeholder" else number
        number += split is SplitPoint.END
    if missing := set(splits) - seen:
        raise AssertionError(f"Specified target {min(missing)} referenced nonexistent module")
    return found, number + 1


def graph_of(graph: Graph, stages: dict[Node, int], number: int, last: int) -> Graph:
    """The graph of one stage: it takes what stages before it made and it or later ones need, and gives what later ones need."""
    made, env = Graph(), {}
    result = next(node for node in graph.nodes if node.op == "output")
    stages = stages | {result: last}

    def needed(node: Node, least: int) -> bool:
        return any(stages.get(user, -1) >= least for user in node.users)

    def value(node: Node) -> Node:
        if node not in env and node.op == "get_attr":
            env[node] = made.node_copy(node)
        return env[node]

    for node in graph.nodes:
        if node.op == "placeholder" and number == 0:
            env[node] = made.node_copy(node)
        elif node is not result and stages.get(node, number) < number and needed(node, number):
            env[node] = made.placeholder(node.name)
    for node in graph.nodes:
        if stages.get(node) == number and node.op not in ("placeholder", "output"):
            env[node] = made.node_copy(node, value)
    if number == last:
        made.node_copy(result, value)
    else:
        outputs = tuple(
            env[n]
            for n in graph.nodes
            if n in stages and stages[n] <= number and n in env and needed(n, number + 1)
        )
        made.output(outputs if len(outputs) > 1 else outputs[0])
    return made


@dataclass
class PipeInfo:
    """What stages have to know of the whole model."""

    graph: Graph | None
    num_stages: int
    has_loss_and_backward: bool


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None
) -> PipelineStage:
    """A stage of a module that was made of that of a `Pipe`, as by `fully_shard`."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


class Pipe(Module):
    """A model in stages. Called, it runs them one after the other."""

    def __init__(self, modules: list[GraphModule]) -> None:
        super().__init__()
        self.num_stages = len(modules)
        for k, each in enumerate(modules):
            self.add_module(f"submod_pp_{k}", each)

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of one stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self, f"submod_pp_{stage_idx}")

    def build_stage(
        self, stage_index: int, device: Any = "cpu", group: Any = None
    ) -> PipelineStage:
        """One stage, for the process that runs it."""
        module = self.get_stage_module(stage_index)
        return build_stage(module, stage_index, self.info(), device, group)

    def info(self) -> PipeInfo:
        """What `build_stage` needs of the whole model. There is no graph of it: each stage has its own."""
        return PipeInfo(None, self.num_stages, False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the whole model."""
        for k in range(self.num_stages):
            found = self.get_stage_module(k)(*args, **kwargs)
            args, kwargs = found if isinstance(found, tuple) else (found,), {}
        return found


def pipeline(
    module: Module, mb_args: tuple, mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None, split_policy: Any = None,
) -> Pipe:  # fmt: skip
    """A model cut before or after the modules that `split_spec` names, or where its `forward` calls `pipe_split()`."""
    if split_spec is not None and split_policy is not None:
        raise ValueError(
            "Cannot specify both `split_spec` and `split_policy`. Please use only one of them."
        )
    splits = dict(split_spec or {})
    _tracing.append(_Tracer(splits))
    try:
        graph = _tracing[-1].trace(module)
    finally:
        _tracing.pop()
    stages, count = stages_of(graph, splits)
    modules = [GraphModule(module, graph_of(graph, stages, k, count - 1)) for k in range(count)]
    return Pipe(modules)
