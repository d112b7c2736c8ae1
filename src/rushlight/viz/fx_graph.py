"""`viz.graph`: a graph of `torch.fx`, or of an exported program, with shapes where they are known."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.fx.names import target_name
from rushlight.fx.node import Node
from rushlight.viz.calls import shapes_text
from rushlight.viz.svg import Box, Picture, layered

__all__ = ["graph"]

_KINDS = {
    "placeholder": "input", "get_attr": "parameter", "call_module": "module", "output": "result",
}  # fmt: skip
_SIGNATURE = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "buffer"}


def graph(program: Any) -> Picture:
    """Draw a `GraphModule`, a `Graph` or an `ExportedProgram` from its inputs, above, to its output.

    Shapes stand in it where nodes have them: after `ShapeProp`, `make_fx` or `torch.export.export`. A parameter or
    buffer that one node uses stands in the box of that node.
    """
    module = getattr(program, "graph_module", program)
    nodes = getattr(module, "graph", module).nodes
    given = _inputs(program)
    boxes = {node: _box(node, module, given) for node in nodes}
    edges = [(source, node) for node in nodes for source in node.all_input_nodes]
    folded = {
        n for n, box in boxes.items() if box.kind in ("parameter", "buffer") and len(n.users) < 2
    }
    for source, node in reversed(edges):  # into the box of the only user
        if source in folded:
            boxes[node].lines.insert(0, (f"{boxes[source].title}: {_shape(source)}", "p"))
    boxes = {n: box for n, box in boxes.items() if n not in folded}
    edges = [edge for edge in edges if edge[0] not in folded]
    return layered(f"a graph of {len(boxes)} nodes", boxes, edges)


def _inputs(program: Any) -> dict[str, tuple[str, str]]:
    """Placeholder -> (kind of box, name in the module) of what an exported program takes besides its inputs."""
    signature = getattr(program, "graph_signature", None)
    if signature is None:
        return {}
    return {
        spec.arg.name: (_SIGNATURE[spec.kind.name], spec.target)
        for spec in signature.input_specs
        if spec.kind.name in _SIGNATURE
    }


def _box(node: Node, module: Any, given: dict[str, tuple[str, str]]) -> Box:
    kind, title = _KINDS.get(node.op, "plain"), node.name
    lines = []
    if node.name in given:
        kind, title = given[node.name]
    elif node.op == "call_module":
        title = str(node.target)
        if hasattr(module, "get_submodule"):
            title += f": {type(module.get_submodule(title)).__name__}"
    elif node.op == "get_attr":
        title = str(node.target)
    elif node.op.startswith("call"):
        title = _short(node)
        if options := _options(node):
            lines.append((options, "n"))
    shape = _shape(node)
    if shape and node.op != "output":
        lines.append((shape, "n"))
    return Box(title, kind, lines)


def _short(node: Node) -> str:
    """`torch.nn.functional.relu` -> `relu`; operators of ATen keep their overload, unless it is the only one."""
    if node.op == "call_method":
        return f".{node.target}"
    name = target_name(node.target).removesuffix(".default")
    for prefix in (
        "torch.ops.aten.",
        "torch.ops.",
        "torch.nn.functional.",
        "torch.",
        "operator.",
        "_operator.",
    ):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _options(node: Node) -> str:
    """The arguments that are no nodes, as Python writes them."""
    given = [_value(a) for a in node.args if not isinstance(a, Node)]
    given += [f"{k}={_value(v)}" for k, v in node.kwargs.items() if not isinstance(v, Node)]
    return ", ".join(each for each in given if each)


def _value(a: Any) -> str:
    if isinstance(a, list | tuple) and any(isinstance(each, Node) for each in a):
        return ""  # the arrows show them
    return repr(a).replace("torch.", "")


def _shape(node: Node) -> str:
    known = node.meta.get("val", node.meta.get("tensor_meta"))
    several = known if type(known) in (list, tuple) else [known]
    texts = []
    for each in several:
        if isinstance(each, Tensor) or hasattr(each, "shape"):
            texts.append(f"{shapes_text([each])} {each.dtype}".replace("torch.", ""))
    return ", ".join(texts)
