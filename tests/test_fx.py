"""`torch.fx`: tracing, graphs, generated code, errors."""

import copy
import functools
import inspect
import io
import math
import operator
import pickle
import sys

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import fx
from rushlight.testing import assert_close


class ConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
        )
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.ones(4))
        self.plain = torch.ones(3)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, dropout: float = 0.0):
        h = self.features(x) * self.scale
        h = F.dropout(F.max_pool2d(h, 2), dropout)
        h = h.mean(dim=(2, 3)) + self.shift
        batch, *_ = h.shape[0], 1
        return self.head(h.view(batch, -1)).add_(self.plain), {"features": h}


def squared(x):
    return x * x


@fx.wrap
def size_of(x):
    return len(x) + 1


fx.wrap("len")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return ConvNet().eval()


def test_a_traced_module_computes_the_same(model):
    traced = fx.symbolic_trace(model)
    traced.graph.lint()
    x = torch.randn(2, 1, 4, 4)
    expected, features = model(x)
    got, got_features = traced(x)
    assert_close(got, expected)
    assert_close(got_features, features)
    assert [n.op for n in traced.graph.nodes].count("call_module") == 4
    assert traced.state_dict().keys() == {*model.state_dict(), "plain"}
    again = fx.symbolic_trace(traced)
    assert_close(again(x)[0], expected)
    assert [n.name for n in again.graph.nodes] == [n.name for n in traced.graph.nodes]


def test_gradients_reach_the_parameters(model):
    traced = fx.symbolic_trace(model)
    traced(torch.randn(2, 1, 4, 4))[0].sum().backward()
    assert model.head.weight.grad is not None
    assert model.scale.grad is traced.scale.grad


def test_generated_code():
    def f(x, y: int = 2, *rest, **options):
        a = torch.relu(x + y)
        b = a[:, 1:, ...] if True else a
        return (b.view(-1, x.shape[0]), {"k": 1 - a}, -a, options["o"], rest[0], float("inf") * a)

    traced = fx.symbolic_trace(f)
    assert traced.code.strip().splitlines() == [
        "def forward(self, x, y : int = 2, *rest, **options):",
        "    _rest = rest",
        "    _options = options",
        "    add = x + y;  y = None",
        "    relu = torch.relu(add);  add = None",
        "    getitem = relu[(slice(None, None, None), slice(1, None, None), Ellipsis)]",
        "    getattr_1 = x.shape;  x = None",
        "    getitem_1 = getattr_1[0];  getattr_1 = None",
        "    view = getitem.view(-1, getitem_1);  getitem = getitem_1 = None",
        "    sub = 1 - relu",
        "    neg = -relu",
        "    getitem_2 = _options['o'];  _options = None",
        "    getitem_3 = _rest[0];  _rest = None",
        "    mul = inf * relu;  relu = None",
        "    return (view, {'k': sub}, neg, getitem_2, getitem_3, mul)",
    ]
    x = torch.randn(2, 3)
    for got, expected in zip(traced(x, 1, 7, o=8), f(x, 1, 7, o=8), strict=True):
        assert_close(got, expected, equal_nan=True)


def test_printed_graph():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])

        def forward(self, x: torch.Tensor, n=3):
            return F.relu(self.layers[0](x)) + self.layers[0].weight * n

    assert str(fx.symbolic_trace(Net()).graph).splitlines() == [
        "graph():",
        "    %x : torch.Tensor [num_users=1] = placeholder[target=x]",
        "    %n : [num_users=1] = placeholder[target=n](default=3)",
        "    %layers_0 : [num_users=1] = call_module[target=layers.0](args = (%x,), kwargs = {})",
        "    %relu : [num_users=1] = call_function[target=torch.nn.functional.relu](args = (%layers_0,), kwargs = {inplace: False})",
        "    %layers_0_weight : [num_users=1] = get_attr[target=layers.0.weight]",
        "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%layers_0_weight, %n), kwargs = {})",
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %mul), kwargs = {})",
        "    return add",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.flatten(x, 1),
        lambda x: torch.reshape(x, (-1,)),
        lambda x: torch.split(x, 1)[0],
        lambda x: torch.chunk(x, 2)[1],
        lambda x: torch.cat([x, x], dim=1),
        lambda x: torch.stack((x, x.T)),
        lambda x: torch.where(x > 0, x, -x),
        lambda x: torch.einsum("ij,jk->ik", x, x),
        lambda x: torch.max(x, 0)[0],
        lambda x: torch.ones(3, 3) @ x + torch.ones(3)[0] * x,
        lambda x: F.softmax(x, dim=-1),
        lambda x: F.layer_norm(x, (3,)),
        lambda x: F.pad(x, (1, 1)),
        lambda x: F.interpolate(x[None, None], scale_factor=2),
        lambda x: torch.linalg.norm(x, dim=1),
        lambda x: torch.fft.fft(x).abs(),
        lambda x: x.to(torch.float64).sum(dim=0, keepdim=True),
        lambda x: x.to(torch.device("cpu")).type(torch.float16),
        lambda x: torch.empty_like(x, dtype=torch.int64, layout=torch.strided).fill_(3),
        lambda x: math.sqrt(x.size(0)) + x,
        lambda x: abs(x) ** 2 // 1 % 3,
        lambda x: ~(x > 0) & (x < 1) | (x != x),
        lambda x: torch.ops.aten.add.Tensor(x, torch.ops.aten.neg(x)),
        lambda x: torch.broadcast_tensors(x, x[0])[1],
        lambda x: torch.norm(x),
        lambda x: torch.unbind(x)[0].clone().add_(x[1]),
        lambda x: torch.roll(x, 1),
        lambda x: torch.permute(x, (1, 0)),
        lambda x: torch.tensor_split(x, 3)[2],
        lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])),
    ],
)
def test_functions_of_torch_are_recorded(function):
    x = torch.arange(9.0).reshape(3, 3) - 4
    traced = fx.symbolic_trace(function)
    traced.graph.lint()
    assert_close(traced(x), function(x), equal_nan=True)
    assert_close(fx.Interpreter(traced).run(x), function(x), equal_nan=True)
    assert_close(fx.Transformer(traced).transform()(x), function(x), equal_nan=True)
    assert_close(traced(x + 1), function(x + 1), equal_nan=True)


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda x: torch.sum(x, dim=1, keepdim=False), "torch.sum(x, dim = 1, keepdim = False)"),
        (lambda x: torch.sum(x, 1), "torch.sum(x, 1)"),
        (lambda x: torch.relu(input=x), "torch.relu(input = x)"),
        (lambda x: torch.add(x, x, alpha=2), "torch.add(x, x, alpha = 2)"),
        (lambda x: torch.stack([x, x], dim=0), "torch.stack([x, x], dim = 0)"),
        (lambda x: torch.clamp(x, max=6), "torch.clamp(x, max = 6)"),
        (lambda x: torch.max(x, dim=1), "torch.max(x, dim = 1)"),
        (lambda x: torch.chunk(x, 2, dim=1), "torch.chunk(x, 2, dim = 1)"),
        (lambda x: torch.repeat_interleave(x, 2, dim=0), "torch.repeat_interleave(x, 2, dim = 0)"),
        (lambda x: torch.flatten(x, start_dim=1), "torch.flatten(x, start_dim = 1)"),
        (lambda x: torch.sum(*(x, 1)), "torch.sum(x, 1)"),
        (lambda x: torch.sub(*(x, x), alpha=2), "torch.sub(x, x, alpha = 2)"),
        (lambda x: functools.partial(torch.sum, dim=1)(x), "torch.sum(x, 1)"),
        (lambda x: F.linear(x, x, bias=x), "linear(x, x, bias = x)"),
        (lambda x: F.relu(x, True), "functional.relu(x, inplace = True)"),
        (lambda x: F.max_pool2d(x, kernel_size=2), "max_pool2d(x, 2, stride = None, padding = 0"),
        (lambda x: F.layer_norm(x, (3,)), "(x, (3,), weight = None, bias = None, eps = 1e-05)"),
    ],
)
def test_arguments_stand_as_the_program_wrote_them(function, written):
    """By place or by name; what PyTorch writes in Python passes all that has a default on by name."""
    assert written in fx.symbolic_trace(function).code


def test_unpacking_needs_the_number_of_names():
    def two(x):
        a, b = x
        return a - b

    assert fx.symbolic_trace(two)((3, 1)) == 2


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_control_flow_raises_with_the_programs_line():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(fx.proxy.TraceError, match="inputs to control flow") as caught:
        fx.symbolic_trace(branch)
    assert f"line {line_of(branch, 'if x.sum')}, in branch" in str(caught.value)
    assert "test_fx.py" in str(caught.value)


def test_iteration_raises_with_the_programs_line():
    def loop(x):
        return sum(row for row in x)

    with pytest.raises(fx.proxy.TraceError, match="Proxy object cannot be iterated") as caught:
        fx.symbolic_trace(loop)
    assert f"line {line_of(loop, 'return sum')}" in str(caught.value)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: squared(*x))
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: squared(**x))


def test_errors_in_layers_have_the_layers_line():
    with pytest.raises(fx.proxy.TraceError, match=r"nn.rnn.*\n.*if ") as caught:
        fx.symbolic_trace(torch.nn.LSTM(2, 3))
    assert "test_fx.py" not in str(caught.value)


def test_values_that_are_not_known_cannot_be_numbers():
    with pytest.raises(TypeError, match="not 'Proxy'"):
        fx.symbolic_trace(lambda x: int(x))
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        fx.symbolic_trace(lambda x: list(range(x)))


def test_nothing_stays_patched_after_an_error():
    call, read = torch.nn.Module.__call__, torch.nn.Module.__getattr__
    with pytest.raises(ZeroDivisionError):
        fx.symbolic_trace(lambda x: 1 / 0)
    assert (torch.nn.Module.__call__, torch.nn.Module.__getattr__) == (call, read)
    assert sys.modules[__name__].__dict__.get("len", len) is len
    assert not fx._symbolic_trace.is_fx_tracing()


def test_wrapped_functions_are_one_node():
    traced = fx.symbolic_trace(lambda x: size_of(x) + len(x) + len([1, 2]))
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets == [size_of, len, operator.add, operator.add]
    assert traced([1, 2, 3]) == 4 + 3 + 2
    assert fx.symbolic_trace(traced)([1]) == 2 + 1 + 2
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("sum")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def test_autowrap_functions():
    tracer = fx.Tracer(autowrap_functions=(squared,))
    graph = tracer.trace(lambda x: squared(x) + 1)
    assert squared in [n.target for n in graph.nodes]
    assert fx.GraphModule(tracer.root, graph)(3) == 10


def test_concrete_args():
    def f(x, flag, scale=None):
        x = x * 2 if flag else x
        return x if scale is None else x * scale

    traced = fx.symbolic_trace(f, concrete_args={"flag": True, "scale": None})
    assert traced(3, True) == 6
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(3, False)
    with pytest.raises(AssertionError, match="scale has been specialized to have value None"):
        traced(3, True, 5)


def test_concrete_args_that_are_trees():
    def f(x, pair):
        return {"sum": x + pair["a"] + pair["b"][0]}

    traced = fx.symbolic_trace(f, concrete_args={"pair": {"a": fx.PH, "b": [fx.PH]}})
    assert traced(1, {"a": 2, "b": [3]}) == {"sum": 6}
    assert [n.op for n in traced.graph.nodes].count("placeholder") == 3
    assert fx.Interpreter(traced).run(1, {"a": 2, "b": [3]}) == {"sum": 6}
    assert copy.deepcopy(traced)(1, {"a": 2, "b": [3]}) == {"sum": 6}


def test_parameters_without_default_and_keyword_only():
    def f(x, *, shift, scale=3):
        return x * scale + shift

    traced = fx.symbolic_trace(f)
    assert traced(2, shift=1) == 7
    assert traced(2, scale=1, shift=1) == 3


def test_a_tracer_decides_what_is_a_leaf(model):
    class Inside(fx.Tracer):
        def is_leaf_module(self, m, name):
            return not isinstance(m, torch.nn.ReLU) and super().is_leaf_module(m, name)

    graph = Inside().trace(model)
    assert any(n.target is F.relu for n in graph.nodes)
    x = torch.randn(1, 1, 4, 4)
    assert_close(fx.GraphModule(model, graph)(x)[0], model(x)[0])


def test_stack_traces_name_the_program(model):
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(model)
    called = [n for n in graph.nodes if n.op.startswith("call")]
    assert called and all("test_fx.py" in n.stack_trace for n in called)
    assert not any(
        "test_stack_traces" in n.stack_trace for n in called
    )  # only the program's frames
    constant = next(n for n in graph.nodes if n.target == "plain")
    assert ".add_(self.plain)" in constant.stack_trace
    text = fx.GraphModule(model, graph).print_readable(print_output=False)
    assert "# File: " in text and "F.dropout(F.max_pool2d(h, 2), dropout)" in text
    new = fx.Transformer(fx.GraphModule(model, graph)).transform()
    assert all(n.stack_trace for n in new.graph.nodes if n.op == "call_function")


def test_nn_module_stack(model):
    graph = fx.Tracer().trace(model)
    node = next(n for n in graph.nodes if n.target == "features.0")
    assert list(node.meta["nn_module_stack"].values()) == [
        ("features", torch.nn.Sequential),
        ("features.0", torch.nn.Conv2d),
    ]


def test_pickle_and_deepcopy(model):
    traced = fx.symbolic_trace(model)
    x = torch.randn(2, 1, 4, 4)
    for other in (pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced), copy.copy(traced)):
        assert_close(other(x)[0], model(x)[0])
        assert other.code == traced.code
        other.graph.lint()
    deep = copy.deepcopy(traced)
    assert deep.head.weight is not traced.head.weight
    next(n for n in deep.graph.nodes if n.op == "output").args = (
        next(n for n in deep.graph.nodes if n.name == "head"),
    )
    deep.recompile()
    assert not isinstance(deep(x), tuple) and isinstance(traced(x), tuple)
    file = io.BytesIO()
    torch.save(traced, file)
    file.seek(0)
    assert_close(torch.load(file, weights_only=False)(x)[0], model(x)[0])


def test_pickled_code_keeps_wrapped_functions():
    traced = pickle.loads(pickle.dumps(fx.symbolic_trace(lambda x: size_of(x))))
    assert traced([1, 2]) == 3


def test_to_folder(model, tmp_path, monkeypatch):
    traced = fx.symbolic_trace(model)
    with pytest.warns(UserWarning, match="children modules"):
        traced.to_folder(tmp_path / "exported_net", "Net")
    monkeypatch.syspath_prepend(str(tmp_path))
    from exported_net import Net

    x = torch.randn(1, 1, 4, 4)
    assert_close(Net().eval()(x)[0], model(x)[0])


def test_errors_in_generated_code_show_it(capsys):
    traced = fx.symbolic_trace(lambda x: torch.dot(x, torch.ones(3)).relu())
    with pytest.raises(RuntimeError):
        traced(torch.ones(5))
    shown = capsys.readouterr().err
    assert "of the traced Module's generated forward function:" in shown
    assert (
        "    dot = torch.dot(x, _tensor_constant0)" in shown.split("<--- HERE")[0].splitlines()[-2]
    )


def test_errors_in_modules_are_not_blamed_on_generated_code(capsys):
    traced = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with pytest.raises(RuntimeError):
        traced(torch.ones(1, 3))
    assert "Call using" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "function",
    [
        lambda n: torch.zeros(n, 2) + torch.ones(n, 1) + torch.full((n, 2), 3.0),
        lambda n: torch.arange(n).repeat(n, 1) + torch.eye(n),
        lambda n: TABLE[:, : n - 1].sum() + TABLE[n, None],
        lambda n: TABLE.expand(n, 4, 3).reshape(n * 4, -1),
        lambda n: TABLE.new_zeros(n, 1).to(torch.int64).view(1, n),
        lambda n: torch.broadcast_to(TABLE, (n, 4, 3)),
        lambda n: TABLE.clone().narrow(0, 1, n).select(1, n - 1),
    ],
)
def test_sizes_and_indices_may_be_proxies(function):
    traced = fx.symbolic_trace(function)
    for n in (2, 3):
        assert_close(traced(n), function(n))
    assert_close(fx.symbolic_trace(traced)(2), function(2))
    assert_close(pickle.loads(pickle.dumps(traced))(2), function(2))


TABLE = torch.arange(12.0).reshape(4, 3)


def test_a_traced_program_may_trace_another():
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU()))
    outer = torch.nn.Linear(2, 2)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.outer = outer

        def forward(self, x):
            nodes = fx.symbolic_trace(inner).graph.nodes
            return self.outer(x) * sum(n.op == "call_module" for n in nodes)

    traced = fx.symbolic_trace(Net())
    assert [n.name for n in traced.graph.nodes] == ["x", "outer", "mul", "output"]
    x = torch.ones(1, 2)
    assert_close(traced(x), outer(x) * 2)


def test_tables_need_tabulate(capsys, monkeypatch):
    graph = fx.symbolic_trace(lambda x: x + 1).graph
    monkeypatch.setitem(sys.modules, "tabulate", None)
    with pytest.raises(ImportError):
        graph.print_tabular()
    assert "relies on the library `tabulate`" in capsys.readouterr().out
    stub = type(sys)("tabulate")
    stub.tabulate = lambda rows, headers: "\n".join(
        " ".join(map(str, r[:2])) for r in [headers, *rows]
    )
    monkeypatch.setitem(sys.modules, "tabulate", stub)
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "opcode name", "placeholder x", "call_function add", "output output",
    ]  # fmt: skip


def test_tracers_may_record_asserts():
    class Asserting(fx.Tracer):
        trace_asserts = True

    scope = {}  # pytest writes the asserts of this file as other statements
    exec("def f(x):\n    assert x > 2, 'small'\n    return x * 2\n", scope)
    traced = fx.GraphModule({}, Asserting().trace(scope["f"]))
    assert traced(3) == 6
    with pytest.raises(AssertionError, match="small"):
        traced(1)


def test_custom_operations_can_be_refused():
    class Functional(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match=r"mutable operation aten::sigmoid.out"):
        Functional().trace(lambda x: torch.sigmoid(x, out=torch.empty(3)))


def test_parameter_shapes_may_be_constant():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            return x * 2 if self.w.dim() == 2 and self.w.shape[0] == 3 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Net())
    assert [n.op for n in graph.nodes if n.op == "call_function"] == ["call_function"]
    with pytest.raises(fx.proxy.TraceError):
        fx.Tracer().trace(Net())


def test_proxyable_classes():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, a, b):
            self.a, self.b = a, b

    traced = fx.symbolic_trace(lambda x: Pair(x, x + 1).b)
    assert traced(3) == 4
    assert Pair(1, 2).b == 2


def test_named_tuples_dicts_and_slices_are_arguments():
    traced = fx.symbolic_trace(lambda x, n: x[n : n + 1, :, None])
    x = torch.arange(12).reshape(4, 3)
    assert_close(traced(x, 2), x[2:3, :, None])
    with pytest.raises(RuntimeError, match="cannot contain a Node"):
        fx.symbolic_trace(lambda x: size_of({x: 1}) + len({"k": x}) + size_of({x: x}))


def test_proxies_build_graphs():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    graph.output(torch.relu(x - 1).sum().node)
    traced = fx.GraphModule(torch.nn.Module(), graph)
    assert traced(torch.tensor([0.0, 3.0])).item() == 2


@pytest.mark.parametrize("name", ["resnet18", "shufflenet_v2_x0_5", "mobilenet_v3_small"])
def test_models_of_vision(name):
    torch.manual_seed(0)
    model = getattr(torch.vision.models, name)(num_classes=3).eval()
    traced = fx.symbolic_trace(model)
    x = torch.randn(1, 3, 32, 32)
    expected = model(x)
    assert torch.equal(traced(x), expected)
    assert torch.equal(fx.Interpreter(traced).run(x), expected)


def test_vision_transformer():
    model = torch.vision.models.VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=3).eval()
    traced = fx.symbolic_trace(model)
    x = torch.randn(2, 3, 8, 8)
    assert_close(traced(x), model(x))
    with pytest.raises(AssertionError, match="Wrong image height"):
        traced(torch.randn(2, 3, 12, 8))


def test_annotations_that_are_texts():
    def f(x: "torch.Tensor", n: "int | None" = None, z: "NotThere" = 3) -> "torch.Tensor":  # noqa: F821
        return x * z

    traced = fx.symbolic_trace(f)
    assert [n.type for n in traced.graph.nodes][:3] == [torch.Tensor, int | None, None]
    assert pickle.loads(pickle.dumps(traced))(2) == 6
    assert pickle.loads(pickle.dumps(fx.symbolic_trace(torch.nn.EmbeddingBag(10, 3)))).code


def test_tokens_of_operators_are_targets():
    graph = fx.symbolic_trace(lambda x: torch.ops.aten.add.Tensor(x, x)).graph
    node = graph.find_nodes(op="call_function")[0]
    assert isinstance(node.target, torch._ops.OpOverload) and node.name == "add_tensor"
    assert "torch.ops.aten.add.Tensor(x, x)" in graph.python_code("self").src


def test_in_place_functions_are_recorded():
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.relu_(torch.log_(x + 1))

    traced, x = fx.symbolic_trace(Module()), torch.rand(3)
    assert [n.name for n in traced.graph.nodes] == ["x", "add", "log_", "relu_", "output"]
    assert_close(traced(x), Module()(x))


def test_operands_of_einsum_are_arguments_of_their_own():
    traced = torch.fx.symbolic_trace(lambda a, b: torch.einsum("ij,jk->ik", (a, b)))
    call = next(n for n in traced.graph.nodes if n.op == "call_function")
    assert [getattr(a, "name", a) for a in call.args] == ["ij,jk->ik", "a", "b"]
    assert torch.equal(traced(torch.ones(2, 3), torch.ones(3, 2)), torch.full((2, 2), 3.0))


def test_assertions_are_recorded_and_traced_modules_are_compiled():
    def f(x):
        torch._assert(x.shape[-1] == 3, "three numbers")
        return x * 2

    traced = torch.fx.symbolic_trace(f)
    assert torch.compile(traced, fullgraph=True)(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(AssertionError, match="three numbers"):
        traced(torch.ones(4))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.fx.symbolic_trace(torch.nn.Linear(3, 2))

        def forward(self, x):
            return self.inner(x) if not torch.jit.is_scripting() else x

    model, x = Model(), torch.randn(4, 3)
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model.inner.weight.grad.shape == (2, 3)


# -- what a tracer looks into -----------------------------------------------------------------------


def test_functions_of_torch_run_in_the_tracer_where_nobody_is_asked(monkeypatch):
    def twice(x):
        return F.softmin(F.relu(x), 0)

    def targets(graph):
        return [node.target for node in graph.nodes if node.op == "call_function"]

    assert targets(fx.symbolic_trace(twice).graph) == [F.relu, F.softmin]
    for name in ("has_torch_function_unary", "has_torch_function_variadic"):
        monkeypatch.setattr(F, name, lambda *tensors: False)
    inside = fx.symbolic_trace(twice)
    assert targets(inside.graph) == [torch.relu, operator.neg, torch.softmax]
    x = torch.randn(3)
    assert_close(inside(x), twice(x))
    with pytest.raises(fx.proxy.TraceError, match="inputs to control flow"):
        fx.symbolic_trace(F.relu)  # whether it is in place is one of its inputs
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing by default"):
        fx.symbolic_trace(F.adaptive_avg_pool2d)
    monkeypatch.undo()
    assert targets(fx.symbolic_trace(twice).graph) == [F.relu, F.softmin]


def test_modes_see_what_functions_are_written_in_where_nobody_is_asked(monkeypatch):
    class Names(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x, seen = torch.ones(2), []
    monkeypatch.setattr(F, "has_torch_function_unary", lambda tensor: False)
    with Names():
        F.softmin(x, 0)
    assert "softmin" not in seen and "softmax" in seen


@pytest.mark.parametrize(
    "function", [torch.relu, torch.conv2d, F.linear, F.avg_pool2d, torch.celu_, torch.linalg.norm, torch.flatten]
)  # fmt: skip
def test_operators_are_not_traced_into(function):
    with pytest.raises(AssertionError, match="Expected FunctionType"):
        fx.symbolic_trace(function)


def test_activations_in_place_are_one_node():
    def program(x):
        return F.leaky_relu_(F.hardtanh_(torch.celu_(x), 0.0, 2.0), 0.1)

    traced = fx.symbolic_trace(program)
    nodes = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert nodes == [torch.celu_, F.hardtanh_, F.leaky_relu_]
    x = torch.randn(5)
    assert_close(traced(x.clone()), program(x.clone()))


def test_signatures_say_which_parameters_are_tensors():
    notes = {n: p.annotation for n, p in inspect.signature(F.relu).parameters.items()}
    assert notes == {"input": torch.Tensor, "inplace": bool}
    for function in (torch.add, F.conv2d, F.avg_pool2d, torch.relu_, F.leaky_relu_, torch.selu_):
        first = next(iter(inspect.signature(function).parameters.values()))
        assert first.annotation is torch.Tensor, function
    assert inspect.signature(torch.cat).parameters["tensors"].annotation == list[torch.Tensor]
    assert inspect.signature(torch.add).return_annotation is torch.Tensor


def test_a_printed_graph_names_no_type_of_what_it_returns():
    """As PyTorch prints it, also of functions with annotations."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return x + x

    assert str(torch.fx.symbolic_trace(double).graph) == (
        "graph():\n"
        "    %x : torch.Tensor [num_users=1] = placeholder[target=x]\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, %x), kwargs = {})\n"
        "    return add"
    )
