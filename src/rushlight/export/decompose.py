"""`ExportedProgram.run_decompositions`: the graph traced again by `make_fx`, which records operators below autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.export.errors import refuse
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import ExportGraphSignature, OutputSpec, TensorArgument
from rushlight.export.tracing import copies, note_shapes
from rushlight.export.unify import resized, symbols_of, unified
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.fx.traceback import preserve_node_meta
from rushlight.nn import Module
from rushlight.utils._pytree import tree_leaves


def decomposed(program: ExportedProgram, table: dict[Any, Callable]) -> ExportedProgram:
    """The program with a graph of operators below autograd, and those of `table` as what its functions call."""
    if any(n.target is rushlight.ops.higher_order.cond for n in program.graph.nodes):
        refuse("run_decompositions: the graph calls cond, whose branches are not decomposed", "")
    leaves = tree_leaves(program.example_inputs)
    symbols = symbols_of(program)
    names = program.graph_signature.user_input_names
    runs = [0, 1, 2] if symbols.roots else [0]
    graphs = []
    for nr in runs:
        given = resized(names, leaves, symbols, nr) if nr else leaves
        graphs.append(_traced(program, given, table))
    graph = unified(graphs, symbols) if len(graphs) > 1 else graphs[0]
    outputs = next(n for n in graph.nodes if n.op == "output").args[0]
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    specs = [
        OutputSpec(s.kind, TensorArgument(node.name) if isinstance(node, Node) else s.arg, s.target)
        for s, node in zip(program.graph_signature.output_specs, outputs, strict=True)
    ]
    found = copy.copy(program)
    found.graph_module = GraphModule(Module(), graph)
    found.graph_signature = ExportGraphSignature(list(program.graph_signature.input_specs), specs)
    note_shapes(found, leaves)
    return found


def _traced(program: ExportedProgram, leaves: list, table: dict) -> Graph:
    with rushlight.no_grad(), preserve_node_meta():

        def run(*args):
            return Interpreter(program.graph_module).run(*args)

        given = program._inputs(copies(leaves))  # one tensor may be given for several inputs
        traced = make_fx(run, decomposition_table=table)(*given)
    graph = traced.graph
    given = [s.arg.name for s in program.graph_signature.input_specs]
    for node, name in zip([n for n in graph.nodes if n.op == "placeholder"], given, strict=True):
        node._rename(name)
        node.target = name
    if any(n.op == "get_attr" for n in graph.nodes):
        refuse("run_decompositions: a tensor that is no input of the graph came up", "")
    graph.eliminate_dead_code()
    return graph
