"""Programs exported as graphs: signature, writes, dynamic sizes, guards, files, what is refused."""

import dataclasses
import io
import operator

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, ExportError, export, load, save


class Function(nn.Module):
    """A module around a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def targets(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def agree(function, *args, other=None, **options):
    """The program gives what the function gives, on the inputs it was exported for and on others."""
    program = export(Function(function), args, **options)
    for given in (args, other) if other is not None else (args,):
        expected = function(*[a.clone() for a in given])
        found = program.module()(*[a.clone() for a in given])
        torch.testing.assert_close(found, expected)
    return program


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.plain = torch.full((4,), 2.0)

    def forward(self, x, flag=True):
        self.calls.add_(1)
        return {"y": self.layer(x) * self.scale + self.plain, "x": [x]}


def test_signature_names_parameters_buffers_and_writes():
    model = Counting()
    program = export(model, (torch.ones(2, 3),), {"flag": False})
    signature = program.graph_signature
    assert signature.parameters == ("layer.weight", "layer.bias")
    assert signature.inputs_to_parameters["p_layer_weight"] == "layer.weight"
    assert signature.buffers == ("calls", "scale")
    assert signature.non_persistent_buffers == ("scale",)
    assert len(signature.lifted_tensor_constants) == 1
    assert signature.user_inputs == ("x", False)
    assert list(signature.buffers_to_mutate.values()) == ["calls"]
    assert model.calls == 0
    assert sorted(program.state_dict) == sorted(model.state_dict())


def test_module_runs_the_graph_and_keeps_its_buffers():
    model = Counting()
    program = export(model, (torch.ones(2, 3),), {"flag": False})
    module = program.module()
    x = torch.randn(2, 3)
    for _ in range(2):
        torch.testing.assert_close(module(x, flag=False), model(x, flag=False))
    assert module.calls == 2
    assert list(module.state_dict()) == ["calls", "layer.weight", "layer.bias"]
    module(x, flag=False)["y"].sum().backward()
    assert module.layer.weight.grad.shape == (4, 3)


def test_program_is_not_called():
    with pytest.raises(RuntimeError, match=r"exported_program\.module\(\)"):
        export(nn.ReLU(), (torch.ones(1),))(torch.ones(1))


def test_writes_and_views_become_values():
    def f(x):
        y = x.clone()
        y[:, 0] = 7
        y += 1
        row = y[1:]
        row.mul_(2)
        y.view(-1)[0] = 5
        y.t()[2].relu_()
        return y, row

    program = agree(f, torch.randn(3, 4), other=(torch.randn(3, 4),))
    assert not [t for t in targets(program) if t.rpartition(".")[0].endswith("_")]


def test_index_tensors_and_masks_are_written_through():
    index = torch.tensor([0, 2])

    def f(x):
        y = x * 1
        y[index, 1:3] = -1.0
        y[y > 0.5] = 0.0
        y[..., None][0] = y[1][..., None]
        return y[index], y[:, index], y[0, ::2]

    agree(f, torch.randn(3, 4), other=(torch.randn(3, 4),))


def test_results_with_names():
    program = agree(lambda x: (x.max(1), torch.topk(x, 2), x.sort(0)[1]), torch.randn(3, 4))
    values = program.module()(torch.eye(3, 4))[0].values
    assert values.tolist() == [1, 1, 1]


def test_functions_whose_operator_takes_other_arguments():
    def f(x, y):
        loss = torch.nn.functional.mse_loss(x, y) + torch.nn.functional.poisson_nll_loss(x, y)
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="sum")
        columns = torch.nn.functional.unfold(x[None, None], 2)
        return loss, columns, x.unfold(0, 2, 1), torch.block_diag(x, y), x.as_strided((2,), (1,))

    agree(f, torch.rand(3, 4), torch.rand(3, 4), other=(torch.rand(3, 4), torch.rand(3, 4)))


@pytest.mark.filterwarnings("ignore:size_average")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_in_words_and_numbers(reduction):
    F = torch.nn.functional

    def f(x, y, z):
        losses = [
            F.binary_cross_entropy(x, y, reduction=reduction),
            F.binary_cross_entropy_with_logits(x, y, x, reduction=reduction, pos_weight=y + 1),
            F.huber_loss(x, y, reduction=reduction, delta=0.3),
            F.l1_loss(x, y, reduction=reduction),
            F.l1_loss(x, y, size_average=False),
            F.multi_margin_loss(x, z, 2, reduction=reduction),
            F.smooth_l1_loss(x, y, reduction=reduction, beta=0.3),
            F.soft_margin_loss(x, 2 * y - 1, reduction=reduction),
        ]
        number = ["none", "mean", "sum"].index(reduction)
        return losses, torch.ops.aten.huber_loss(x, y, number, 0.3)

    def arguments():
        return torch.rand(3, 4), torch.rand(3, 4), torch.tensor([0, 3, 1])

    program = agree(f, *arguments(), other=arguments())
    losses, numbered = program.module()(*arguments())
    assert torch.equal(losses[2], numbered)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: torch.nn.functional.mse_loss(x, x, reduction="batchmean"), ValueError),
        (lambda x: torch.nn.functional.grid_sample(x, x, "linear"), ValueError),
        (lambda x: torch.nn.functional.interpolate(x, 2, align_corners=True), ValueError),
        (lambda x: torch.nn.functional.max_pool2d(x, 3, padding=2), RuntimeError),
        (lambda x: torch.tensordot(x, x, dims=9), RuntimeError),
    ],
)
def test_what_a_function_refuses_is_refused(call, error):
    x = torch.ones(1, 2, 4, 4)
    with pytest.raises(error) as eager:
        call(x)
    with pytest.raises(error) as exported:
        torch.export.export(Function(call), (x,))
    assert str(exported.value).startswith(str(eager.value))


def test_constant_table_is_read_at_indices_that_are_inputs():
    table = torch.randn(5, 2)

    def f(i, x):
        y = torch.index_put(x, (i,), torch.ones(2), True)
        return table[i], table[:, i % 2], y, torch.index_put(table, (i, i % 2), x[0, 0])

    agree(
        f, torch.tensor([3, 1]), torch.randn(4, 2), other=(torch.tensor([0, 2]), torch.randn(4, 2))
    )


def test_input_that_is_written_to_is_named_and_written():
    def f(x):
        x.mul_(3)
        return x + 1

    program = export(Function(f), (torch.ones(2),))
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["args_0"]
    x = torch.ones(2)
    assert program.module()(x).tolist() == [4, 4]
    assert x.tolist() == [3, 3]


def test_batch_norm_in_training_writes_its_statistics():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(inplace=True))
    program = export(model, (torch.randn(5, 3),))
    assert sorted(program.graph_signature.buffers_to_mutate.values()) == [
        "0.num_batches_tracked", "0.running_mean", "0.running_var"
    ]  # fmt: skip
    module, x = program.module(), torch.randn(5, 3)
    torch.testing.assert_close(module(x), model(x))
    torch.testing.assert_close(module.state_dict(), model.state_dict())


@pytest.mark.parametrize(
    "model, args",
    [
        (nn.LSTM(4, 5, 2), (torch.randn(3, 2, 4),)),
        (nn.GRU(4, 5, bidirectional=True), (torch.randn(3, 2, 4),)),
        (nn.TransformerEncoderLayer(8, 2, batch_first=False).eval(), (torch.randn(3, 2, 8),)),
        (nn.MultiheadAttention(8, 2).eval(), 3 * (torch.randn(3, 2, 8),)),
    ],
    ids=["lstm", "gru", "encoder", "attention"],
)
def test_layers_with_a_dynamic_dimension(model, args):
    n = Dim("n")
    program = export(model, args, dynamic_shapes=tuple({1: n} for _ in args))
    given = tuple(torch.randn(3, 7, a.shape[2]) for a in args)
    torch.testing.assert_close(program.module()(*given), model(*given))


class Packed(nn.Module):
    def __init__(self, use=lambda states: states):
        super().__init__()
        self.gru = nn.GRU(4, 3, batch_first=True, bidirectional=True)
        self.use = use

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.gru(packed)
        states, lengths = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return self.use(states), last, lengths


def test_packed_sequences_of_other_lengths():
    model = Packed()
    n, t = Dim("n"), Dim("t")
    program = load(
        saved(
            export(
                model, (torch.randn(2, 5, 4), torch.tensor([3, 5])),
                dynamic_shapes=({0: n, 1: t}, {0: n}),
            )
        )
    )  # fmt: skip
    given = torch.randn(3, 7, 4), torch.tensor([2, 6, 1])
    torch.testing.assert_close(program.module()(*given), model(*given))


def test_size_that_depends_on_lengths_is_refused():
    model = Packed(lambda states: states / states.size(1))
    with pytest.raises(ExportError, match="depends on the lengths"):
        export(model, (torch.randn(2, 5, 4), torch.tensor([3, 5])))


# -- dynamic sizes ---------------------------------------------------------------------------------


def test_sizes_become_expressions():
    def f(x, y):
        n, t = x.shape[0], x.shape[1]
        mask = torch.tril(torch.ones(t, t))
        z = (x.reshape(n * t) * t**-0.5).view(n, t)
        return z @ mask, torch.arange(2 * t + 1), z[: n // 2], y.expand(n, t)

    n, t = Dim("n"), Dim("t")
    program = agree(
        f, torch.randn(4, 6), torch.randn(1, 6), other=(torch.randn(9, 5), torch.randn(1, 5)),
        dynamic_shapes={"args": ({0: n, 1: t}, {1: t})},
    )  # fmt: skip
    assert "aten.sym_size.int" in targets(program)
    assert any(node.target is operator.floordiv for node in program.graph.nodes)


def test_derived_dimensions_and_bounds():
    half = Dim("half", min=2, max=8)
    program = export(nn.Flatten(0), (torch.ones(6, 2),), dynamic_shapes=({0: 2 * half},))
    module = program.module()
    assert module(torch.ones(8, 2)).shape == (16,)
    for size, guard in ((7, "%"), (2, ">= 4"), (18, "<= 16")):
        with pytest.raises(AssertionError, match="Guard failed: .*" + guard):
            module(torch.ones(size, 2))
    assert program.range_constraints == {"half": (2, 8)}


def test_program_that_depends_on_a_dynamic_size_is_refused():
    def fixed(x):
        return x.view(2, 3) * 1

    def branch(x):
        return x * 2 if x.shape[0] == 2 else x.exp()

    for f in (fixed, branch):
        with pytest.raises(ExportError, match=r"Constraints violated \(n\)"):
            export(Function(f), (torch.ones(2, 3),), dynamic_shapes={"args": ({0: Dim("n")},)})


def test_automatic_dimensions_fall_back():
    def f(x):
        return x.view(2, 3) * 1

    program = export(Function(f), (torch.ones(2, 3),), dynamic_shapes={"args": ({0: Dim.AUTO},)})
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(4, 3))


# -- guards ----------------------------------------------------------------------------------------


def test_inputs_are_checked():
    module = export(Counting(), (torch.ones(2, 3),), {"flag": False}).module()
    for bad in (torch.ones(2, 4), torch.ones(3, 3), torch.ones(2, 3).double(), torch.ones(2, 3, 1)):
        with pytest.raises(AssertionError, match="Guard failed: x"):
            module(bad, flag=False)
    with pytest.raises(AssertionError, match="flag == False"):
        module(torch.ones(2, 3), flag=True)
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        module(torch.ones(2, 3))
    with pytest.raises(ValueError, match="tree spec"):
        module([torch.ones(2, 3)], flag=False)


def test_dimensions_of_one_name_are_equal():
    n = Dim("n")
    program = export(
        Function(lambda x, y: (x.sum(), y.sum())), (torch.ones(3), torch.ones(3)),
        dynamic_shapes={"args": ({0: n}, {0: n})},
    )  # fmt: skip
    with pytest.raises(AssertionError, match=r"args_1\.size\(\)\[0\] == 4"):
        program.module()(torch.ones(4), torch.ones(5))


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, what",
    [
        (lambda x: x if x.sum() > 0 else -x, "__bool__"),
        (lambda x: x * x.sum().item(), "item"),
        (lambda x: x[: int(x.sum())], "__int__"),
        (lambda x: torch.from_numpy(x.numpy()), "numpy"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x[x > 0], "mask"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: torch.add(x, x, out=x), "out="),
    ],
    ids="bool item int numpy tolist mask nonzero out".split(),
)
def test_what_depends_on_values_is_refused_with_the_line(f, what):
    with pytest.raises(ExportError, match=what) as error:
        export(Function(f), (torch.ones(3),))
    assert "test_export.py" in str(error.value)
    assert torch.ones(2).sum().item() == 2  # nothing is left on


class Keeps(nn.Module):
    """Keeps what it computed in attributes of several kinds."""

    def __init__(self):
        super().__init__()
        self.last, self.calls, self.constant = None, 0, torch.zeros(2)
        self.history, self.table = [], {"a": torch.ones(2)}

    def forward(self, x):
        self.calls += 1
        self.last = x + 1
        self.history.append(x)
        self.table["a"] = self.table["a"] + x
        self.new = (x, self.last)
        self.shape = x.shape
        return self.last * self.calls + self.table["a"] + self.constant


@pytest.mark.parametrize("dynamic", [None, ({0: Dim("n", max=9)},)], ids=["static", "dynamic"])
def test_attributes_are_after_an_export_what_they_were(dynamic):
    inner = Keeps()
    if dynamic:
        inner.constant, inner.table = torch.zeros(1), {"a": torch.ones(1)}
    attributes, history, value = {**inner.__dict__}, inner.history, inner.table["a"]
    with pytest.warns(UserWarning, match="tensor attributes") as warned:
        program = export(nn.Sequential(inner), (torch.ones(2),), dynamic_shapes=dynamic)
    (message,) = [str(w.message) for w in warned]
    assert all(
        f"self.0.{name}" in message for name in ("last", "history[0]", "table['a']", "new[0]")
    )
    assert inner.__dict__ == attributes and inner.table["a"] is value
    assert inner.history is history == []
    assert program.module()(torch.full((2,), 4.0)).tolist() == [10.0, 10.0]


def test_attributes_are_what_they_were_when_an_export_fails():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.count = [], torch.zeros(1)

        def forward(self, x):
            self.seen.append(x)
            self.last = self.count.add_(1)
            return x if x.sum() > 0 else -x

    model = Fails()
    with pytest.raises(ExportError, match="__bool__"):
        export(model, (torch.ones(2),))
    assert model.seen == [] and model.count.tolist() == [0.0] and not hasattr(model, "last")


def test_values_of_constants_may_be_read():
    def f(x):
        return x * torch.arange(4).sum().item() if torch.ones(1) > 0 else x

    agree(f, torch.randn(3))


def test_wrong_arguments_of_export():
    with pytest.raises(ValueError, match="torch.nn.Module"):
        export(lambda x: x, (torch.ones(1),))
    with pytest.raises(torch._dynamo.exc.UserError, match="tuple"):
        export(nn.ReLU(), torch.ones(1))
    with pytest.raises(ExportError, match="no entry"):
        export(nn.ReLU(), (torch.ones(1),), dynamic_shapes={"other": None})


# -- files -----------------------------------------------------------------------------------------


def saved(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return file


def test_program_is_saved_and_loaded():
    model = Counting()
    program = export(
        model, (torch.ones(2, 3),), {"flag": False},
        dynamic_shapes={"x": {0: Dim("n", max=9)}, "flag": None},
    )  # fmt: skip
    again = load(saved(program))
    assert again.graph_signature == program.graph_signature
    assert again.range_constraints == program.range_constraints
    assert targets(again) == targets(program)
    x = torch.randn(5, 3)
    module = again.module()
    torch.testing.assert_close(module(x, flag=False), model(x, flag=False))
    with pytest.raises(AssertionError, match="<= 9"):
        module(torch.ones(10, 3), flag=False)


def test_programs_are_printed_with_shapes_and_the_roles_of_values():
    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n.add_(1)
            return x.t() > 0

    x = torch.ones(2, 3)
    lines = str(export(Counted(), (x,))).splitlines()
    assert lines[2] == '        def forward(self, b_n: "f32[]", x: "f32[2, 3]"):'
    assert lines[3].startswith("            # File: ")
    assert any(line.strip().startswith('gt: "b8[3, 2]" = ') for line in lines)
    at = lines.index("Graph signature: ")
    assert [line.strip() for line in lines[at + 1 :] if line.strip()] == [
        "# inputs", "b_n: BUFFER target='n' persistent=True", "x: USER_INPUT", "# outputs", "add: BUFFER_MUTATION target='n'",
        "gt: USER_OUTPUT", "Range constraints: {}",
    ]  # fmt: skip
    # sizes of one example are not shown where others may come
    assert "f32[" not in str(export(Counted(), (x,), dynamic_shapes={"x": {0: Dim("b", min=2)}}))


def test_other_files_are_refused():
    file = io.BytesIO()
    torch.save({"a": torch.ones(1)}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="no exported program"):
        load(file)


# -- decompositions --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [{"scale_factor": 2}, {"size": (3, 6)}])
def test_resampling_is_decomposed(mode, size):
    x = torch.rand(1, 2, 4, 4)
    program = export(Function(lambda x: nn.functional.interpolate(x, mode=mode, **size)), (x,))
    lower = program.run_decompositions()
    assert targets(lower) == targets(program)
    torch.testing.assert_close(lower.module()(x), program.module()(x))


def test_decompositions_give_operators_below_autograd():
    model = nn.Linear(3, 4)
    program = export(model, (torch.ones(2, 3),), dynamic_shapes=({0: Dim("n")},))
    lower = program.run_decompositions()
    assert "aten.addmm.default" in targets(lower)
    assert "aten.linear.default" not in targets(lower)
    x = torch.randn(6, 3)
    torch.testing.assert_close(lower.module()(x), model(x))


def test_decompositions_of_a_table():
    program = export(nn.Sigmoid(), (torch.ones(2),))
    table = {torch.ops.aten.sigmoid.default: lambda x: 1 / (1 + torch.exp(-x))}
    lower = program.run_decompositions(table)
    assert "aten.sigmoid.default" not in targets(lower)
    torch.testing.assert_close(lower.module()(torch.ones(2)), torch.ones(2).sigmoid())


def test_empty_table_decomposes_nothing():
    program = export(nn.Linear(3, 4), (torch.ones(2, 3),))
    assert targets(program.run_decompositions({})) == targets(program)


def test_batch_norm_of_evaluation_is_an_operator_of_aten():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    lower = export(model, (torch.ones(1, 1, 5, 5),)).run_decompositions()
    assert "aten.native_batch_norm.default" in targets(lower)
    x = torch.randn(1, 1, 5, 5)
    torch.testing.assert_close(lower.module()(x), model(x))


def test_one_tensor_for_several_inputs_stays_several_inputs():
    x = torch.ones(3)
    lower = export(Function(lambda a, b: a - 2 * b), (x, x)).run_decompositions()
    assert lower.module()(torch.zeros(3), x).tolist() == [-2, -2, -2]


def test_pooling_and_group_norm_are_operators_of_aten():
    model = nn.Sequential(nn.AvgPool2d(3, 2, 1, True), nn.GroupNorm(2, 4), nn.AvgPool2d(2)).eval()
    shapes = ({0: Dim("n")},)
    lower = export(model, (torch.randn(2, 4, 8, 8),), dynamic_shapes=shapes).run_decompositions()
    assert {"aten.avg_pool2d.default", "aten.native_group_norm.default"} <= {*targets(lower)}
    assert not any("rushlight" in target for target in targets(lower))
    x = torch.randn(5, 4, 8, 8)
    torch.testing.assert_close(lower.module()(x), model(x))


def test_dataclasses_are_trees():
    @dataclasses.dataclass
    class Pair:
        a: torch.Tensor
        b: torch.Tensor | None = None
        note: str = "none"

    torch.export.register_dataclass(Pair)

    def both(pair):
        return Pair(pair.a + 1, note=None), pair.a

    program = export(Function(both), (Pair(torch.ones(2), None, None),))
    pair, _ = program.module()(Pair(torch.zeros(2), note=None))
    assert pair.a.tolist() == [1, 1] and pair.b is None
    with pytest.raises(ValueError, match="input tree spec"):
        program.module()(Pair(torch.zeros(2), torch.ones(2), None))
    with pytest.raises(AssertionError, match="not a dataclass"):
        torch.export.register_dataclass(int)


def test_exported_modules_have_no_modes():
    module = export(nn.Dropout(0.5), (torch.ones(2),)).module()
    with pytest.raises(NotImplementedError, match=r"train\(\) is not supported"):
        module.train()
    with pytest.raises(NotImplementedError, match=r"eval\(\) is not supported"):
        module.eval()


class Cell(nn.Module):
    """A module that is called twice and does something else the second time, with a buffer that it counts in."""

    def __init__(self):
        super().__init__()
        self.layer, self.table = nn.Linear(3, 3), torch.arange(3.0)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, state=None):
        self.calls.add_(1)
        x = self.layer(x) * self.table
        return x if state is None else x + state * x.shape[0], x


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.head = nn.Linear(3, 3)
        self.head.weight = self.layers[0].weight

    def forward(self, inputs):
        first, state = self.cell(inputs["x"])
        second, _ = self.cell(self.layers(first), state)
        return {"out": self.head(self.layers[1](self.layers(second))) + state, "first": first}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("decomposed", [False, True])
def test_programs_as_trees_of_modules(dynamic, decomposed):
    torch.manual_seed(0)
    model = Tree()
    shapes = {"inputs": {"x": {0: Dim("n")}}} if dynamic else None
    program = export(model, ({"x": torch.randn(4, 3)},), dynamic_shapes=shapes)
    program = program.run_decompositions() if decomposed else program
    tree = torch.export.unflatten(program)
    given = {"x": torch.randn(7 if dynamic else 4, 3)}
    expected, found = model(given), tree(given)
    assert list(found) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    assert tree.cell.calls.item() == model.cell.calls.item() == 2
    names = {name for name, _ in tree.named_modules()}
    assert names - {"cell@1"} == {name for name, _ in model.named_modules()}
    assert sum(n.op == "call_module" for n in tree.graph.nodes) == 6
    found["out"].sum().backward()
    assert tree.cell.layer.weight.grad.abs().sum() > 0
    with pytest.raises(AssertionError, match="Guard failed"):
        tree({"x": torch.randn(2, 4)})


def test_nodes_have_names_of_operators_and_constants_those_of_attributes():
    program = export(Tree(), ({"x": torch.randn(4, 3)},))
    names = [node.name for node in program.graph.nodes]
    assert {"c_cell_table", "add", "linear", "mul", "linear_1", "relu_1"} <= {*names}
    assert list(program.constants) == ["cell.table"]

    def counted(x):
        total = torch.tensor([1.0, 2.0])
        total += x
        return total

    lifted = export(Function(counted), (torch.ones(2),))
    assert list(lifted.constants) == ["lifted_tensor_0"]
    for _ in range(2):
        assert lifted.module()(torch.ones(2)).tolist() == [2, 3]
    linear = next(node for node in program.graph.nodes if node.name == "linear")
    paths = [path for path, _ in linear.meta["nn_module_stack"].values()]
    assert paths == ["", "cell", "cell.layer"]


def test_a_program_that_does_something_else_with_small_sizes_is_refused():
    class Branches(nn.Module):
        def forward(self, x):
            return x.sin() if x.shape[0] > 3 else x.cos()

    n = torch.export.Dim("n")
    with pytest.raises(RuntimeError, match=r"Constraints violated \(n\).*with n = 2"):
        torch.export.export(Branches(), (torch.ones(5),), dynamic_shapes={"x": {0: n}})
    n = torch.export.Dim("n", min=4)
    program = torch.export.export(Branches(), (torch.ones(5),), dynamic_shapes={"x": {0: n}})
    assert torch.equal(program.module()(torch.ones(4)), torch.ones(4).sin())
    conv = nn.Conv1d(1, 1, 4)  # does not run with sizes below 4
    program = torch.export.export(
        conv, (torch.ones(1, 6),), dynamic_shapes={"input": {1: torch.export.Dim("m")}}
    )
    assert program.module()(torch.ones(1, 9)).shape == (1, 6)


class SumOfNested(nn.Module):
    def forward(self, x, y):
        return x[0] + y["a"]


def test_shapes_collection():
    a, b = torch.ones(3, 4), torch.ones(3, 4)
    shapes, d = torch.export.ShapesCollection(), torch.export.Dim("d")
    shapes[a], shapes[b] = {0: d}, (d, None)
    args = ([a], {"a": b})
    said = shapes.dynamic_shapes(SumOfNested(), args)
    assert said == {"x": [{0: d}], "y": {"a": (d, None)}} and len(shapes) == 2
    program = export(SumOfNested(), args, dynamic_shapes=shapes)
    assert program.module()([torch.ones(6, 4)], {"a": torch.ones(6, 4)}).shape == (6, 4)
    with pytest.raises(AssertionError, match="do not match"):
        shapes[a] = {0: None}
    shapes[torch.ones(2)] = {0: d}
    with pytest.raises(ValueError, match="not found in args"):
        export(SumOfNested(), args, dynamic_shapes=shapes)
