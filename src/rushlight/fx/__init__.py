"""`torch.fx`: programs recorded as graphs, edited, and turned into Python code again.

>>> import rushlight as torch
>>> def f(x):
...     return torch.relu(x + 3.0)
>>> traced = torch.fx.symbolic_trace(f)
>>> print(traced.graph)
graph():
    %x : [num_users=1] = placeholder[target=x]
    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 3.0), kwargs = {})
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})
    return relu

Note [How a program is traced]
    Proxies stand for the inputs. Python's operators on a proxy, functions of torch (by `__torch_function__`),
    calls of modules (`Module.__call__` is another function meanwhile) and what `wrap` names add a node and
    give a proxy of it. What needs the value raises: the graph has no `if`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import lazy

if TYPE_CHECKING:
    from rushlight.fx import annotate as annotate
    from rushlight.fx import operator_schemas as operator_schemas
    from rushlight.fx._symbolic_trace import (
        PH,
        PHWithMeta,
        ProxyableClassMeta,
        Tracer,
        symbolic_trace,
        wrap,
    )
    from rushlight.fx.graph import CodeGen, Graph
    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.interpreter import Interpreter, Transformer
    from rushlight.fx.node import Node, has_side_effect, map_arg
    from rushlight.fx.proxy import Proxy
    from rushlight.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PHWithMeta", "Proxy",
    "ProxyableClassMeta", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern",    "symbolic_trace", "wrap",
]  # fmt: skip

_FILES = {
    "_symbolic_trace": "PH PHWithMeta ProxyableClassMeta Tracer symbolic_trace wrap", "graph": "CodeGen Graph",
    "graph_module": "GraphModule", "interpreter": "Interpreter Transformer", "node": "Node has_side_effect map_arg",
    "proxy": "Proxy", "subgraph_rewriter": "replace_pattern",
}  # fmt: skip

__getattr__, __dir__ = lazy.names(
    globals(),
    lazy.by_name(_FILES),
    (
        *_FILES, "_pytree", "annotate", "codegen", "immutable_collections", "known_names", "names", "namespace",
        "operator_schemas", "passes", "patches", "recorders", "traceback", "written",
    ),
)  # fmt: skip
