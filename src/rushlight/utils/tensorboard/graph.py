"""The graph of a model: the operators that one forward pass calls, in the scopes of the modules that call them."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

import rushlight
from rushlight.core.tensor import Tensor


def graph(model: Any, inputs: Any = None) -> GraphDef:
    """Return the nodes of `model(*inputs)`: inputs, parameters and buffers, one for each operator, outputs.

    The model runs once, without gradients. ValueError for no inputs.
    """
    if inputs is None:
        raise ValueError(
            "add_graph needs input_to_model, a tensor or a tuple of tensors: the model is drawn by running it once"
        )
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    recorder = _Recorder()
    hooks = []
    for path, module in model.named_modules():
        kind = type(module).__name__
        scope = f"{kind}[{path.rpartition('.')[2]}]" if path else kind
        hooks.append(module.register_forward_pre_hook(recorder.entering(scope), prepend=True))
        hooks.append(module.register_forward_hook(recorder.leaving, always_call=True))
    root = type(model).__name__
    try:
        for path, each in [*model.named_parameters(), *model.named_buffers()]:
            recorder.name(each, f"{root}/{path.replace('.', '/')}", "Parameter")
        for i, each in enumerate(arguments):
            if isinstance(each, Tensor):
                recorder.name(each, f"input/{i}", "IO Node")
        with rushlight.no_grad(), recorder:
            outputs = model(*arguments)
    finally:
        for hook in hooks:
            hook.remove()
    for i, each in enumerate(_tensors(outputs)):
        recorder.node(f"output/{i}", "IO Node", [each], [each])
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))


def _tensors(thing: Any) -> list[Tensor]:
    """Yield the tensors in nested lists, tuples and dicts."""
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, (tuple, list)):
        return [each for part in thing for each in _tensors(part)]
    return []


class _Recorder(rushlight.overrides.TorchFunctionMode):
    """Records a node for each call and the node that made each tensor."""

    def __init__(self) -> None:
        self.nodes: list[NodeDef] = []
        self.scopes: list[str] = []
        self.made_by: dict[int, str] = {}
        self.held: list[Tensor] = []  # so that no id is used twice

    def entering(self, scope: str) -> Any:
        def enter(module: Any, arguments: Any) -> None:
            self.scopes.append(scope)

        return enter

    def leaving(self, module: Any, arguments: Any, result: Any) -> None:
        self.scopes.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = _tensors(result)
        kind = getattr(func, "__name__", str(func))
        if made and not kind.startswith("__"):  # __get__: an attribute, `x.T`, `x.data`
            name = "/".join([*self.scopes, f"{kind}_{len(self.nodes)}"])
            self.node(name, f"aten::{kind}", _tensors([args, kwargs or {}]), made)
        return result

    def name(self, tensor: Tensor, name: str, kind: str) -> None:
        """A node without inputs; a tensor that has one already, as tied parameters do, keeps it."""
        if id(tensor) not in self.made_by:
            self.node(name, kind, [], [tensor])

    def node(self, name: str, kind: str, inputs: list[Tensor], made: list[Tensor]) -> None:
        node = NodeDef(name=name, op=kind)
        node.input.extend(
            dict.fromkeys(self.made_by[id(t)] for t in inputs if id(t) in self.made_by)
        )
        shapes = node.attr["_output_shapes"].list
        for tensor in made:
            shape = shapes.shape.add()
            for size in tensor.shape:
                shape.dim.add(size=size)
            self.made_by[id(tensor)] = name
            self.held.append(tensor)
        self.nodes.append(node)
