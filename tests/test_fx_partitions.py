"""Parts of graphs made submodules: the partitioner, fusing, and what says which nodes are supported."""

import operator

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from rushlight.fx.passes.operator_support import (
    OperatorSupport,
    OpSupports,
    any_chain,
    chain,
    create_op_support,
)
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.tools_common import get_node_target
from rushlight.fx.passes.utils import fuser_utils
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

ADDS = OperatorSupport({"_operator.add": None, "_operator.getitem": None, "torch.frexp": None})
CALLS = create_op_support(lambda _, node: node.op.startswith("call"))


def names(partitions):
    return [{node.name for node in p.nodes} for p in partitions]


def traced(f):
    gm = fx.symbolic_trace(f)
    return gm, {node.name: node for node in gm.graph.nodes}


def branches(a, b):
    add = a + 1
    relu = add.relu()
    return relu + add, add + b


def crossing(a, b):
    """Two sums each of which needs the other's first term by way of a relu."""
    left, right = a + 1.0, a + 1.5
    return left + right.relu(), left.relu() + right + b


def after_split(a, b):
    first, second = a.split(1, 0)
    return (first + b) + (second + b)


def elements(a, b):
    mantissa, _ = torch.frexp(a)
    return mantissa + 1.0


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (branches, [{"add_1", "add_2"}, {"add"}]),
        (crossing, [{"add_2", "add_3", "add_4"}, {"add", "add_1"}]),
        (after_split, [{"add", "add_1", "add_2"}]),
        (elements, [{"frexp", "getitem", "getitem_1", "add"}]),
    ],
)
def test_parts_are_as_large_as_can_be_and_fuse(f, expected):
    gm, _ = traced(f)
    partitioner = CapabilityBasedPartitioner(
        gm, chain(CALLS, ADDS), allows_single_node_partition=True
    )
    parts = partitioner.propose_partitions()
    assert names(parts) == expected
    fused = partitioner.fuse_partitions(parts)
    assert [name for name, _ in fused.named_children()] == [f"fused_{i}" for i in range(len(parts))]
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    torch.testing.assert_close(fused(a, b), f(a, b))


def test_parts_of_one_operation_only_if_allowed():
    gm, _ = traced(lambda a: (a + 1).relu())
    assert CapabilityBasedPartitioner(gm, ADDS).propose_partitions() == []
    allowed = CapabilityBasedPartitioner(
        gm, ADDS, allowed_single_node_partition_ops=["_operator.add"]
    )
    assert names(allowed.propose_partitions()) == [{"add"}]


def test_without_horizontal_fusion_only_neighbours_join():
    gm, _ = traced(lambda a, b: (a + 1, b + 1))
    for skip, expected in ((False, [{"add", "add_1"}]), (True, [{"add"}, {"add_1"}])):
        found = CapabilityBasedPartitioner(
            gm, chain(CALLS, ADDS), allows_single_node_partition=True, skip_horizontal_fusion=skip
        )
        assert sorted(names(found.propose_partitions()), key=sorted) == expected


def test_operations_that_compute_nothing_leave_both_ends():
    gm, _ = traced(lambda a: torch.neg(torch.neg(torch.neg(a) + 1) + 2))
    partitioner = CapabilityBasedPartitioner(gm, CALLS, non_compute_ops=["torch.neg"])
    parts = partitioner.propose_partitions()
    partitioner.remove_bookend_non_compute_ops(parts)
    assert names(parts) == [{"add", "neg_1", "add_1"}]


def test_fused_values_keep_their_order_and_meta():
    gm, nodes = traced(lambda a, b: (a + b, a * b))
    nodes["add"].meta["val"] = "sum"
    fused = fuser_utils.fuse_by_partitions(gm, [[nodes["mul"], nodes["add"]]])
    assert [n.name for n in fused.graph.nodes] == [
        "a", "b", "fused_0", "getitem", "getitem_1", "output",
    ]  # fmt: skip
    assert fused(2, 3) == (5, 6)
    call = next(n for n in fused.graph.nodes if n.op == "call_module")
    assert call.meta["val"] == (None, "sum")


def test_fusing_refuses_cycles_and_strangers():
    gm, nodes = traced(branches)
    assert not fuser_utils.validate_partition([nodes["add"], nodes["add_1"]])
    assert fuser_utils.validate_partition([nodes["add"], nodes["relu"], nodes["add_1"]])
    with pytest.raises(AssertionError, match="Invalid partition, found dependency cycles"):
        fuser_utils.fuse_by_partitions(gm, [[nodes["add"], nodes["add_1"]]])
    other, _ = traced(branches)
    with pytest.raises(AssertionError, match="doesn't belong to passed in graph module"):
        fuser_utils.fuse_as_graphmodule(other, [nodes["add"]], "own")


def test_one_value_as_a_tuple():
    gm, nodes = traced(lambda a: (a + 1) * 2)
    sub, inputs, outputs = fuser_utils.fuse_as_graphmodule(
        gm, [nodes["add"]], "own", always_return_tuple=True
    )
    assert sub(1) == (2,)
    assert (inputs, outputs) == ((nodes["a"],), (nodes["add"],))
    fuser_utils.insert_subgm(gm, sub, inputs, outputs)
    fuser_utils.erase_nodes(gm, [nodes["add"]])
    gm.recompile()
    assert gm(1) == 4


def test_partition():
    _, nodes = traced(lambda a: a + 1)
    part = Partition(id=3, nodes=[nodes["a"]], node_orders=[7])
    part.add_node(nodes["add"])
    assert (part.id, part.size(), repr(part)) == (3, 2, "{a: 7, add: None}")
    part.remove_node(nodes["a"])
    assert list(part.nodes) == [nodes["add"]]


def test_dtypes_of_arguments_decide():
    gm, nodes = traced(lambda a, b: (torch.relu(a), torch.relu(b)))
    ShapeProp(gm).propagate(torch.ones(1), torch.ones(1, dtype=torch.int64))
    floats = OperatorSupport({"torch.relu": ([[torch.float32]], {})})
    assert [floats.is_node_supported({}, nodes[n]) for n in ("relu", "relu_1")] == [True, False]
    no_ints = OpSupports.decline_if_input_dtype(torch.int64)
    assert [no_ints.is_node_supported({}, nodes[n]) for n in ("relu", "relu_1")] == [True, False]
    unnamed = OpSupports.decline_if_node_in_names({"relu"})
    either = any_chain(unnamed, floats)
    both = chain(unnamed, floats)
    assert [either.is_node_supported({}, nodes[n]) for n in ("relu", "relu_1")] == [True, True]
    assert [both.is_node_supported({}, nodes[n]) for n in ("relu", "relu_1")] == [False, False]


def test_names_of_targets():
    gm, nodes = traced(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    modules = dict(gm.named_modules())
    assert get_node_target(modules, nodes["_0"]) == "torch.nn.modules.linear.Linear"
    _, nodes = traced(lambda a: operator.add(a.relu(), 1))
    assert [get_node_target({}, nodes[n]) for n in ("relu", "add")] == ["relu", "_operator.add"]
    with pytest.raises(AssertionError, match="but found placeholder"):
        get_node_target({}, nodes["a"])


def test_a_match_takes_no_input_that_needs_what_it_gives():
    def pattern(a, b):
        neg = torch.neg(a)
        return neg, neg * b

    def separate(x, y):
        neg = torch.neg(x)
        return neg, neg * y

    def knotted(x, y):
        neg = torch.neg(x)
        return neg, neg * torch.relu(neg)

    matcher = SubgraphMatcher(fx.symbolic_trace(pattern).graph)
    assert len(matcher.match(fx.symbolic_trace(separate).graph)) == 1
    assert matcher.match(fx.symbolic_trace(knotted).graph) == []


def test_a_node_matches_only_once():
    matcher = SubgraphMatcher(fx.symbolic_trace(lambda a, b: a * b).graph)
    assert len(matcher.match(fx.symbolic_trace(lambda x, y: x * y).graph)) == 1
    assert matcher.match(fx.symbolic_trace(lambda x: x * x).graph) == []
