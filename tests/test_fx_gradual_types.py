"""Types of tensors with sizes that are not known: what the type checker of graphs infers, and what it refuses."""

import operator

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.fx import GraphModule, symbolic_trace
from rushlight.fx.annotate import annotate
from rushlight.fx.experimental.graph_gradual_typechecker import (
    GraphTypeChecker,
    Refine,
    broadcast_types,
    register_inference_rule,
)
from rushlight.fx.experimental.refinement_types import Equality
from rushlight.fx.experimental.rewriter import RewritingTracer
from rushlight.fx.experimental.unify_refinements import infer_symbolic_types, unify_eq
from rushlight.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise


def checked(program, *types, **results):
    """The types of the nodes of a program, from those of its inputs and of nodes that are named."""
    traced = symbolic_trace(program)
    given = iter(types)
    for node in traced.graph.nodes:
        node.type = next(given) if node.op == "placeholder" else results.get(node.name)
    assert GraphTypeChecker({}, traced).type_check()
    return traced


def types(traced):
    return [node.type for node in traced.graph.nodes]


def test_relations_of_types():
    some, known = TensorType((1, Dyn, 3)), TensorType((1, 2, 3))
    assert is_consistent(known, some) and is_consistent(some, known) and is_consistent(int, Dyn)
    assert not is_consistent(known, TensorType((1, 2, 3, 5))) and not is_consistent(known, int)
    assert is_more_precise(known, some) and not is_more_precise(some, known)
    assert (
        TensorType[1, Dyn] == TensorType([1, Dyn])
        and repr(TensorType((2, Dyn))) == "TensorType[(2, Dyn)]"
    )
    assert broadcast_types(TensorType((2, 3, Dyn)), TensorType((1, 4))) == (
        TensorType((2, 3, Dyn)), TensorType((2, 3, 4)),
    )  # fmt: skip


def test_annotations_stay_in_the_graph_and_its_code():
    def f(x: TensorType((1, 2, Dyn)), y: Dyn):
        return torch.add(annotate(x + y, TensorType((1, 2, 3))), y)

    traced = symbolic_trace(f)
    assert types(traced)[:3] == [TensorType((1, 2, Dyn)), Dyn, TensorType((1, 2, 3))]
    again = GraphModule(traced, traced.graph)
    x = torch.ones(1, 2, 3)
    assert torch.equal(again(x, x), x * 3)


@pytest.mark.parametrize(
    ("program", "given", "made"),
    [
        (lambda x: x + 1, (2, Dyn), (2, Dyn)),
        (lambda x: torch.transpose(x, 0, -1), (2, Dyn, 4), (4, Dyn, 2)),
        (lambda x: torch.reshape(x, [2, -1]), (Dyn, 5), None),
        (lambda x: torch.reshape(x, (2, -1)), (2, 5), (2, Dyn)),
        (lambda x: torch.flatten(x, 1, 2), (1, 2, 3, Dyn), (1, 6, Dyn)),
        (lambda x: torch.flatten(x, 1, -1), (4, Dyn, 3), (4, Dyn)),
        (nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (Dyn, 3), (Dyn, 4)),
        (nn.Sequential(nn.Conv2d(3, 6, 5, stride=2, padding=1)), (Dyn, 3, 32, Dyn), (Dyn, 6, 15, Dyn)),
        (nn.Sequential(nn.Conv2d(3, 6, 5, padding="same")), (1, Dyn, 7, 8), (1, 6, 7, 8)),
        (nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True)), (6, 8, Dyn), (6, 4, Dyn)),
        (nn.Sequential(nn.AdaptiveAvgPool2d((6, None))), (2, 3, 8, Dyn), (2, 3, 6, Dyn)),
        (nn.Sequential(nn.BatchNorm2d(5)), (2, 5, Dyn, 4), (2, 5, Dyn, 4)),
    ],
)  # fmt: skip
def test_a_node_gets_its_type_from_its_inputs(program, given, made):
    if made is None:  # two rows and five columns of anything: refused, as PyTorch does
        with pytest.raises(TypeError, match="Cannot reshape in node reshape"):
            checked(program, TensorType(given))
        return
    traced = checked(program, TensorType(given))
    assert types(traced)[-1] == TensorType(made)
    sizes = [6 if size == Dyn else size for size in given]
    if given[1] == Dyn and isinstance(program, nn.Sequential):
        sizes[1] = 3
    assert is_consistent(TensorType(tuple(program(torch.rand(sizes)).shape)), TensorType(made))


@pytest.mark.parametrize(
    ("program", "given", "said"),
    [
        (lambda x: torch.transpose(x, 0, 10), (1, 2), "Cannot transpose 0 and 10 in type"),
        (lambda x: torch.flatten(x, 1, 7), (1, 2), "Incompatible dimensions 1, 7 in type"),
        (lambda x: torch.reshape(x, [2, 3]), (3, 4), "Cannot reshape in node reshape from"),
        (nn.Sequential(nn.Linear(3, 4)), (2, 5), "Inconsistent 3 and 5 in Linear"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), (1, 2, 5, 5), "Cannot apply Conv2d"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), (3, 5, 5), "has rank 3. It should have rank 4"),
        (nn.Sequential(nn.BatchNorm2d(3)), (1, 2, 5, 5), "Cannot apply BatchNorm2d"),
        (nn.Sequential(nn.MaxPool2d(2)), (5,), "Wrong size TensorType"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(2)), (5, 5), "Tensor ranks must be 3 or 4"),
    ],
)
def test_types_that_contradict_are_refused(program, given, said):
    with pytest.raises(TypeError, match=said):
        checked(program, TensorType(given))


def test_what_has_no_rule_is_named_and_can_get_one():
    def program(x):
        return torch.special.entr(x)

    with pytest.raises(RuntimeError, match="No inference rule registered for target"):
        checked(program, Dyn)
    with pytest.raises(RuntimeError, match="Rule already registered for"):
        register_inference_rule(operator.add)(lambda n: None)
    with pytest.raises(NotImplementedError, match="Method call_method not yet implemented"):
        checked(lambda x: x.view(2, 3), TensorType((6,)))
    with pytest.raises(TypeError, match=r"Cannot add arguments x .* and y .* in node add"):
        checked(lambda x, y: x + y, TensorType((2, 3)), TensorType((3, 3)))


def test_annotated_variables_say_more_of_inputs_and_layers():
    class Block(nn.Module):
        def __init__(self, planes):
            super().__init__()
            self.norm = nn.BatchNorm2d(planes)

        def forward(self, x: Dyn):
            out: TensorType((2, 2, Dyn, 4)) = self.norm(x)
            return out + x

    def traced(planes):
        tracer = RewritingTracer()
        graph = tracer.trace(Block(planes))
        return GraphModule(tracer.root, graph, "gm")

    block = traced(2)
    GraphTypeChecker({}, block).type_check()
    rank4 = TensorType((Dyn,) * 4)
    assert types(block) == [rank4, TensorType((2, 2, Dyn, 4)), rank4, rank4]
    sympy = pytest.importorskip("sympy")
    infer_symbolic_types(block)  # the sum has equal summands
    assert set(types(block)) == {TensorType((2, 2, sympy.Symbol("~7"), 4))}
    with pytest.raises(TypeError, match="Cannot apply BatchNorm2d"):
        GraphTypeChecker({}, traced(1)).type_check()


def test_equal_sizes_get_one_symbol():
    sympy = pytest.importorskip("sympy")
    net = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.Flatten()
    )
    traced = checked(net[:4], TensorType((Dyn, 3, Dyn, 32)))
    infer_symbolic_types(traced)
    found = [t.__args__ for t in types(traced)]
    assert len({sizes[0] for sizes in found}) == 1  # the batch
    height = found[0][2]
    assert found[1][2:] == (sympy.floor(height) - 4, 28) and found[2] == found[3]
    assert found[4][2:] == (sympy.floor((found[3][2] - 3) / sympy.Integer(2)) + 1, 6)
    assert found[4] == found[5]
    again = list(found)
    infer_symbolic_types(traced)
    assert [t.__args__ for t in types(traced)] == again


def test_equalities_of_a_sum_and_of_a_flattened_tensor():
    sympy = pytest.importorskip("sympy")
    traced = checked(lambda x, y: x + y, TensorType((1, 2, 3, Dyn)), TensorType((2, 3, 4)))
    assert list(traced.graph.nodes)[2].meta["broadcast"]
    infer_symbolic_types(traced)
    refined = Refine(traced)
    refined.refine()
    assert refined.constraints == [Equality(1, 1), Equality(2, 2), Equality(3, 3)]
    flat = checked(lambda x: torch.flatten(x, 1, 2), TensorType((Dyn, 2, 3, Dyn)))
    infer_symbolic_types(flat)
    x, y = (types(flat)[i].__args__ for i in (0, 1))
    assert (x[0], x[3]) == (y[0], y[2])
    a, b = sympy.symbols("a b")
    assert unify_eq([Equality(a, b), Equality(b, 3)]) == {a: b, b: 3}
    with pytest.raises(TypeError, match="No unification"):
        unify_eq([Equality(a, 2), Equality(3, a)])
