"""Graphs of `torch.fx` edited and rewritten: nodes, passes, the programs of the fx tutorials."""

import copy
import operator
import time

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import fx
from rushlight.fx.experimental import const_fold, optimization
from rushlight.fx.experimental.rewriter import RewritingTracer
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.node import map_aggregate
from rushlight.fx.operator_schemas import get_signature_for_torch_op, normalize_function
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_module import split_module
from rushlight.fx.passes.tools_common import legalize_graph
from rushlight.testing import assert_close


def simple():
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    add = graph.call_function(torch.add, (x, y))
    relu = graph.call_function(torch.relu, (add,))
    graph.output(relu)
    return graph, x, y, add, relu


def run(graph, *inputs):
    graph.lint()
    return fx.GraphModule(torch.nn.Module(), graph)(*inputs)


def names(graph):
    return [n.name for n in graph.nodes]


def test_uses_follow_the_arguments():
    graph, x, y, add, relu = simple()
    assert list(x.users) == [add] and add.all_input_nodes == [x, y]
    add.args = (y, y)
    assert list(x.users) == [] and list(y.users) == [add]
    add.update_arg(0, x)
    add.kwargs = {"alpha": 2}
    add.update_kwarg("alpha", 3)
    assert run(graph, torch.tensor(1), torch.tensor(2)).item() == 7
    add.kwargs = {}
    add.insert_arg(1, x)
    assert add.args == (x, x, y)
    add.args = (x, y)
    add.replace_input_with(x, y)
    assert add.args == (y, y)
    with pytest.raises(AttributeError):
        add.no_such_attribute  # noqa: B018


def test_arguments_are_immutable():
    graph, x, *_ = simple()
    node = graph.call_function(torch.cat, ([x, x],), {"dim": 0})
    with pytest.raises(NotImplementedError, match="new_args"):
        node.args[0].append(x)
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        node.kwargs["dim"] = 1
    assert copy.deepcopy(immutable_list([1, [2]])) == [1, [2]]
    assert {**immutable_dict({"a": 1}), "b": 2} == {"a": 1, "b": 2}
    leaves, spec = torch.utils._pytree.tree_flatten(immutable_dict({"a": 1, "b": 2}))
    assert leaves == [1, 2]
    assert type(torch.utils._pytree.tree_unflatten(leaves, spec)) is immutable_dict
    assert map_aggregate({"k": (1, slice(2, 3))}, str) == {"k": ("1", slice("2", "3", "None"))}


def test_insert_replace_and_erase():
    graph, x, y, add, relu = simple()
    with graph.inserting_after(add):
        first = graph.call_function(torch.neg, (add,))
        second = graph.call_method("abs", (first,))
    assert names(graph) == ["x", "y", "add", "neg", "abs_1", "relu", "output"]
    changed = add.replace_all_uses_with(second, lambda user: user is not first)
    assert changed == [relu] and relu.args == (second,)
    with pytest.raises(RuntimeError, match="but it still had 1 users in the graph"):
        graph.erase_node(first)
    second.replace_all_uses_with(first)
    graph.erase_node(second)
    assert len(graph.nodes) == 6
    with graph.inserting_before(first):
        graph.call_function(torch.exp, (x,))
    first.prepend(relu)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    first.append(relu)
    assert run(graph, torch.tensor(1.0), torch.tensor(-3.0)).item() == 2
    assert graph.eliminate_dead_code() is True and graph.eliminate_dead_code() is False
    assert names(graph) == ["x", "y", "add", "neg", "relu", "output"]
    assert [n.name for n in reversed(graph.nodes)][:2] == ["output", "relu"]
    assert add < relu and not relu <= add
    with pytest.warns(UserWarning, match="prepend a node to itself"):
        add.prepend(add)


def test_dead_code_with_effects_stays():
    graph, x, y, add, relu = simple()
    with graph.inserting_before(relu):
        graph.call_function(torch._assert, (x, "message"))
        graph.call_function(operator.setitem, (x, 0, 1))
        graph.call_function(torch.exp, (x,))
    graph.eliminate_dead_code()
    assert names(graph) == ["x", "y", "add", "_assert", "setitem", "relu", "output"]


def test_lint_finds_what_is_wrong():
    graph, x, *_ = simple()
    other = fx.Graph()
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        other.output(other.call_function(torch.relu, (x,)))
        other.lint()
    with pytest.raises(RuntimeError, match="was not provided in ``root``"):
        graph = fx.Graph()
        graph.output(graph.call_module("layer"))
        fx.GraphModule({}, graph)
    with pytest.raises(ValueError, match="a Callable is expected"):
        fx.Graph().create_node("call_function", "relu")
    with pytest.raises(ValueError, match="a str is expected"):
        fx.Graph().create_node("call_method", torch.relu)
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.ones(1))
    graph = fx.Graph()
    graph.output(graph.get_attr("w"))
    traced = fx.GraphModule(module, graph)
    next(iter(graph.nodes)).target = "gone"
    with pytest.raises(RuntimeError, match="references nonexistent attribute gone"):
        traced.graph.lint()


def test_names_are_unique_and_legal():
    graph = fx.Graph()
    for wish in ("a", "a", "a_1", "if", "len", "3x", "a.b", "torch"):
        graph.create_node("placeholder", "p", name=wish)
    assert names(graph) == ["a", "a_1", "a_2", "if_1", "len_1", "_3x", "a_b", "torch_1"]


def test_graph_copy_inlines_and_deepcopy_is_apart():
    graph, *_ = simple()
    outer = fx.Graph()
    x = outer.placeholder("x")
    values = dict(zip([n for n in graph.nodes if n.op == "placeholder"], (x, x), strict=True))
    outer.output(outer.graph_copy(graph, values))
    assert run(outer, torch.tensor(2)).item() == 4
    copied = copy.deepcopy(graph)
    next(n for n in copied.nodes if n.target is torch.relu).target = torch.neg
    assert run(copied, torch.tensor(2), torch.tensor(1)).item() == -3
    assert run(graph, torch.tensor(2), torch.tensor(1)).item() == 3


def test_generated_code_can_be_transformed():
    graph, *_ = simple()
    traced = fx.GraphModule(torch.nn.Module(), graph)
    with traced.graph.on_generate_code(lambda before: lambda body: ["x = x * 10\n", *body]):
        traced.recompile()
        assert traced(torch.tensor(1), torch.tensor(2)).item() == 12
    traced.recompile()
    assert traced(torch.tensor(1), torch.tensor(2)).item() == 3


def test_in_place_operators_and_enums_in_code():
    graph = fx.Graph()
    x = graph.placeholder("x")
    add = graph.call_function(operator.iadd, (x, 1))
    item = graph.call_function(operator.setitem, (add, 0, 5))
    graph.output([add, {"k": slice(0, 2)}])
    code = graph.python_code("self").src
    assert "x += 1;  iadd = x" in code and "iadd[0] = 5;  setitem = iadd;  setitem = None" in code
    got = run(graph, torch.zeros(3))
    assert got[0].tolist() == [5, 1, 1] and got[1] == {"k": slice(0, 2)} and not item.users


def test_submodules_of_a_graph_module():
    traced = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    assert traced.add_submodule("extra.inner", torch.nn.Tanh())
    assert not traced.add_submodule("0.weight.inner", torch.nn.Tanh())
    assert isinstance(traced.get_submodule("extra.inner"), torch.nn.Tanh)
    assert not traced.delete_submodule("missing")
    traced.delete_all_unused_submodules()
    assert [n for n, _ in traced.named_modules()] == ["", "0", "1"]
    assert traced.delete_submodule("1") and not hasattr(traced, "1")


# -- running a graph -------------------------------------------------------------------------------


def test_interpreter_overrides_and_errors():
    traced = fx.symbolic_trace(lambda x, y=2.0, *rest: torch.sigmoid(x).neg() + y + rest[0])

    class Swapped(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(
                torch.relu if target is torch.sigmoid else target, args, kwargs
            )

    x = torch.tensor([-1.0, 2.0])
    assert_close(Swapped(traced).run(x, 3.0, 1.0), -torch.relu(x) + 4)
    interpreter = fx.Interpreter(traced)
    interpreter.run(x, 3.0, 1.0)
    assert names(traced.graph)[-1:] == [n.name for n in interpreter.env]
    node = next(n for n in traced.graph.nodes if n.name == "neg")
    assert_close(interpreter.run(x, 1.0, 2.0, initial_env={node: x}), x + 3)
    with pytest.raises(RuntimeError, match="parameter x, but one was not passed in"):
        interpreter.run()
    with pytest.raises(RuntimeError, match=r"While executing %mm"):
        fx.Interpreter(fx.symbolic_trace(lambda x: torch.mm(x, x))).run(torch.ones(2, 3))


def test_transformer_changes_functions_and_keeps_meta():
    traced = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sigmoid()))
    graph = traced.graph
    with graph.inserting_before(graph.output_node()):
        neg = graph.call_function(torch.neg, (graph.output_node().args[0],))
    graph.output_node().args = (neg,)
    neg.meta["note"] = 1

    class Abs(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.abs if target is torch.neg else target, args, kwargs)

    new = Abs(traced).transform()
    x = torch.randn(3, 2)
    assert_close(new(x), torch.sigmoid(traced.get_submodule("0")(x)))
    assert next(n for n in new.graph.nodes if n.target is torch.abs).meta["note"] == 1


def test_shape_prop():
    traced = fx.symbolic_trace(lambda x: (x.sum(1), x.T.max(0)))
    ShapeProp(traced).propagate(torch.zeros(2, 3, dtype=torch.float64))
    metas = {n.name: n.meta.get("tensor_meta") for n in traced.graph.nodes}
    assert tuple(metas["sum_1"].shape) == (2,) and metas["sum_1"].dtype == torch.float64
    assert [tuple(m.shape) for m in metas["max_1"]] == [(2,), (2,)]
    assert metas["getattr_1"].stride == (1, 3)
    with pytest.raises(RuntimeError, match="ShapeProp error for: node="):
        ShapeProp(traced).propagate(torch.zeros(2))


# -- patterns --------------------------------------------------------------------------------------


def test_fake_tensors_run_through_a_graph():
    from rushlight._subclasses import FakeTensor, FakeTensorMode
    from rushlight.fx._compatibility import compatibility
    from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp

    @compatibility(is_backward_compatible=False)
    def big(x):
        a, b = (x @ x).chunk(2)
        return torch.nn.functional.linear(a, x) + b.shape[0]

    traced = fx.symbolic_trace(big)
    x = torch.empty(10**5, 10**5, device="meta")
    result = FakeTensorProp(traced).propagate(x)
    assert isinstance(result, FakeTensor) and result.shape == (5 * 10**4, 10**5)
    known = {n.name: n.meta["val"] for n in traced.graph.nodes}
    assert known["matmul"].shape == x.shape and len(known["chunk"]) == 2
    assert known["getitem_2"] == 5 * 10**4

    model = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    assert FakeTensorProp(model, mode).propagate(torch.ones(2, 3)).shape == (2, 4)
    result = ShapeProp(model, FakeTensorMode()).propagate(torch.ones(5, 3))
    assert isinstance(result, FakeTensor)
    assert [tuple(n.meta["tensor_meta"].shape) for n in model.graph.nodes][1:3] == [(5, 4)] * 2
    assert type(model.get_submodule("0").weight) is torch.nn.Parameter


def test_replace_pattern_with_functions_and_modules():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sub = torch.nn.Linear(2, 2)

        def forward(self, x, w):
            a = torch.relu(x + w).neg()
            return torch.relu(a + x).neg(), self.sub(x)

    class New(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tanh = torch.nn.Tanh()

        def forward(self, a, b):
            return self.tanh(a - b)

    net = Net()
    traced = fx.symbolic_trace(net)
    matches = fx.replace_pattern(
        traced, lambda a, b: torch.relu(a + b).neg(), fx.symbolic_trace(New())
    )
    assert len(matches) == 2 and len(matches[0].nodes_map) == 5
    x, w = torch.randn(2, 2), torch.randn(2, 2)
    got = traced(x, w)
    assert_close(got[0], torch.tanh(torch.tanh(x - w) - x))
    assert_close(got[1], net.sub(x))
    traced.graph.lint()


def test_a_value_that_is_used_elsewhere_is_no_match():
    traced = fx.symbolic_trace(lambda x: (torch.relu(torch.neg(x)), 2))
    inner = fx.symbolic_trace(lambda x: (lambda n: torch.relu(n) + n)(torch.neg(x)))
    pattern = lambda x: torch.relu(torch.neg(x))  # noqa: E731
    assert len(fx.replace_pattern(inner, pattern, lambda x: x)) == 0
    assert len(fx.replace_pattern(traced, pattern, lambda x: x)) == 1
    assert traced(3) == (3, 2)


def test_patterns_with_several_results_and_literals():
    def pattern(x):
        a = torch.sigmoid(x)
        return torch.relu(a), torch.clamp(a, 0.0, 1.0)

    def replacement(x):
        return torch.tanh(x), torch.exp(x)

    def f(x, y):
        a = torch.sigmoid(x + y)
        return torch.relu(a) - torch.clamp(a, 0.0, 1.0)

    traced = fx.symbolic_trace(f)
    assert len(fx.replace_pattern(traced, pattern, replacement)) == 1
    x = torch.randn(3)
    assert_close(traced(x, x), torch.tanh(x + x) - torch.exp(x + x))
    other = fx.symbolic_trace(lambda x: torch.clamp(x, 0.0, 2.0))
    one = lambda x: torch.clamp(x, 0.0, 1.0)  # noqa: E731
    rewriter = fx.subgraph_rewriter
    assert rewriter.replace_pattern_with_filters(copy.deepcopy(other), one, torch_relu, []) == []
    found = rewriter.replace_pattern_with_filters(other, one, torch_relu, ignore_literals=True)
    assert [n.name for n in found[0].replacements] == ["relu"]


def torch_relu(x):
    return torch.relu(x)


def test_inputs_of_patterns_match_lists():
    traced = fx.symbolic_trace(lambda x: x.permute([1, 0]).sum((0,), keepdim=True))
    matches = fx.replace_pattern(
        traced,
        lambda x, a, b: x.permute(a).sum(b, keepdim=True),
        lambda x, a, b: x.sum(b).reshape(a),
    )
    assert len(matches) == 1
    assert traced.code.strip().splitlines()[1:3] == [
        "    sum_2 = x.sum((0,));  x = None",
        "    reshape = sum_2.reshape([1, 0]);  sum_2 = None",
    ]
    other = fx.symbolic_trace(lambda x: x.permute([1, 0]))
    assert not fx.replace_pattern(other, lambda x: x.permute([0, 1]), lambda x: x)


def test_match_filters():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x * 2))

    def after_a_product(match, graph, pattern):
        return match.placeholder_nodes[0].target is operator.mul

    replaced = fx.subgraph_rewriter.replace_pattern_with_filters(
        traced, torch_relu, lambda x: torch.neg(x), [after_a_product]
    )
    assert len(replaced) == 1 and traced(3.0 * torch.ones(1)).item() == 3 - 6


# -- passes ----------------------------------------------------------------------------------------


def test_split_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)

        def forward(self, x, y=1.0):
            a = self.first(x)
            b = torch.relu(a) * y
            return self.second(b), a + y

    net = Net()
    traced = fx.symbolic_trace(net)
    mapping = {}
    split = split_module(traced, net, lambda n: 0 if n.name == "first" else 1, qualname_map=mapping)
    assert [n for n, _ in split.named_children()] == ["submod_0", "submod_1"]
    assert mapping == {"submod_0.first": "first", "submod_1.second": "second"}
    x = torch.randn(4, 2)
    for got, expected in zip(split(x), net(x), strict=True):
        assert_close(got, expected)
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, net, lambda n: 0 if n.name in ("first", "second") else 1)


def test_legalize_graph():
    graph, x, y, add, relu = simple()
    add.prepend(relu)
    traced = fx.GraphModule(torch.nn.Module(), fx.Graph())
    traced._graph = graph
    graph.owning_module = traced
    legalize_graph(traced).graph.lint()
    assert traced(torch.tensor(1), torch.tensor(2)).item() == 3


def test_common_subexpressions():
    traced = fx.symbolic_trace(
        lambda x: torch.sin(x) * 2 + torch.sin(x) * 2 + torch.rand_like(x) - torch.rand_like(x)
    )
    result = CSEPass()(traced)
    assert result.modified and len(result.graph_module.graph.nodes) == len(traced.graph.nodes) - 2
    assert not CSEPass()(result.graph_module).modified
    assert not CSEPass(banned_ops=[torch.sin, operator.mul])(traced).modified  # any collection


def test_pass_manager():
    class AddToMul(PassBase):
        def call(self, gm):
            changed = False
            for node in gm.graph.nodes:
                if node.target is torch.add:
                    node.target, changed = torch.mul, True
            return PassResult(gm, changed)

    def mul_to_sub(gm):
        for node in gm.graph.nodes:
            if node.target is torch.mul:
                node.target = torch.sub

    first, second = AddToMul(), pass_result_wrapper(mul_to_sub)
    manager = PassManager([second, first], steps=2)
    manager.add_constraint(this_before_that_pass_constraint(first, second))
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate_constraints()
    result = manager(fx.symbolic_trace(lambda x, y: torch.add(x, y)))
    assert result.modified and result.graph_module(torch.tensor(5), torch.tensor(2)).item() == 3
    with pytest.raises(TypeError, match="An error occurred when running the 'mul_to_sub' pass"):
        PassManager([mul_to_sub])(fx.symbolic_trace(lambda x: x + 1))


def test_constants_are_folded_once():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (
                torch.nn.Parameter(torch.randn(2, 2)),
                torch.nn.Parameter(torch.randn(2)),
            )

        def forward(self, x):
            return (x + self.a.t() @ self.a) * self.b + torch.sum(self.b)

    net = Net()
    folded = const_fold.split_const_subgraphs(net)
    x = torch.randn(2, 2)
    assert_close(folded(x), net(x))
    assert torch.sum not in [n.target for n in folded.graph.nodes]
    assert folded.const_subgraph_module is not None
    assert const_fold.split_const_subgraphs(torch.nn.ReLU()).const_subgraph_module is None


def test_asserts_are_recorded_by_the_rewriting_tracer():
    class Net(torch.nn.Module):
        def forward(self, x, n):
            message = """
n must be 3"""
            assert n == 3, message
            return x * n

    net = Net()
    tracer = RewritingTracer()
    traced = fx.GraphModule(net, tracer.trace(net))
    assert traced(2, 3) == 6
    with pytest.raises(AssertionError, match="n must be 3"):
        traced(2, 4)


def test_rewritten_programs_see_their_own_globals_and_closures():
    factor = 4

    def f(x, n: "int" = 2):
        assert n == 2
        y: float = x  # noqa: F841
        return doubled(x) * factor * n

    tracer = RewritingTracer()
    graph = tracer.trace(f)
    assert doubled in [n.target for n in graph.nodes]
    assert [n.type for n in graph.nodes][:2] == [float, int]
    assert fx.GraphModule(tracer.root, graph)(1) == 16


def test_missing_submodules_are_warned_of():
    traced = fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    with pytest.warns(UserWarning, match="insert a call_module Node with no underlying reference"):
        traced.graph.call_module("gone")
    with pytest.warns(UserWarning, match="insert a get_attr Node with no underlying reference"):
        traced.graph.get_attr("gone")


@fx.wrap
def doubled(x):
    return x + x


def test_signatures_and_normal_forms():
    assert list(get_signature_for_torch_op(torch.add)[0].parameters) == [
        "input",
        "other",
        "alpha",
        "out",
    ]
    assert get_signature_for_torch_op(operator.add) is None
    bound = normalize_function(torch.clamp, (1, 2), {"max": 3}, normalize_to_only_use_kwargs=True)
    assert bound.kwargs == {"input": 1, "min": 2, "max": 3}
    assert normalize_function(torch.clamp, (1, 2), {"other": 3}) is None


# -- the programs of the tutorials -----------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)
        self.nested = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3))
        self.drop = torch.nn.Dropout()

    def forward(self, x):
        return self.nested(self.drop(torch.relu(self.bn(self.conv(x)))))


def test_batch_norm_is_fused_into_convolutions():
    torch.manual_seed(0)
    block = Block()
    block(torch.randn(8, 2, 6, 6))
    block.eval()
    fused = optimization.fuse(block)
    x = torch.randn(2, 2, 6, 6)
    assert_close(fused(x), block(x), rtol=1e-4, atol=1e-5)
    targets = [n.target for n in fused.graph.nodes if n.op == "call_module"]
    assert targets == ["conv", "drop", "nested.0"]
    assert "drop" not in [n.target for n in optimization.remove_dropout(block).graph.nodes]


INVERSE = {torch.neg: torch.neg, torch.exp: torch.log, torch.log: torch.exp}


def inverted(traced):
    """The module that undoes a chain of functions: the last one first."""
    graph = fx.Graph()
    value = None
    values = {}
    for node in reversed(traced.graph.nodes):
        if node.op == "output":
            values[node.args[0]] = graph.placeholder("value")
        elif node.op == "call_function":
            value = graph.call_function(INVERSE[node.target], (values[node],))
            values[node.args[0]] = value
    graph.output(value)
    return fx.GraphModule(torch.nn.Module(), graph)


def test_a_chain_is_inverted():
    x = torch.rand(3) + 0.5
    traced = fx.symbolic_trace(lambda x: torch.neg(torch.log(torch.exp(torch.exp(x)))))
    assert_close(inverted(traced)(traced(x)), x)


class Profile(fx.Interpreter):
    """Notes how often and how long each node runs."""

    def __init__(self, module):
        super().__init__(fx.symbolic_trace(module))
        self.times = {}

    def run_node(self, n):
        start = time.perf_counter()
        value = super().run_node(n)
        self.times.setdefault(n, []).append(time.perf_counter() - start)
        return value


def test_profiling_interpreter():
    block = Block().eval()
    x = torch.randn(1, 2, 6, 6)
    profile = Profile(block)
    assert_close(profile.run(x), block(x))
    profile.run(x)
    assert {n.name: len(t) for n, t in profile.times.items()} == {
        n.name: 2 for n in profile.module.graph.nodes
    }


def test_functions_are_decomposed_while_a_graph_is_traced_again():
    rules = {F.relu: lambda x: (x > 0) * x}

    class Decompose(fx.Tracer):
        def is_leaf_module(self, m, name):
            return not isinstance(m, torch.nn.ReLU)

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    graph, new, values = Decompose().trace(net), fx.Graph(), {}
    tracer = fx.proxy.GraphAppendingTracer(new)
    for node in graph.nodes:
        if node.op == "call_function" and node.target in rules:
            args = [fx.Proxy(values[a], tracer) for a in node.args]
            values[node] = rules[node.target](*args).node
        else:
            values[node] = new.node_copy(node, lambda n: values[n])
    x = torch.randn(4, 2)
    assert_close(fx.GraphModule(net, new)(x), net(x))
    assert F.relu not in [n.target for n in new.nodes]
