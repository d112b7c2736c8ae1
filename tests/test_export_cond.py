"""`torch.cond` in exported programs: a node with both branches."""

import io

import pytest

import rushlight as torch


def exported(f, *args, **options):
    class Program(torch.nn.Module):
        def forward(self, x):
            return f(x)

    return torch.export.export(Program(), args, **options)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        def true_fn(x):
            return self.inner(x).sin()

        def false_fn(x):
            return x.cos() - 1

        return torch.cond(x.sum() > 0, true_fn, false_fn, (x,))


def test_the_graph_has_both_branches():
    program = torch.export.export(Branches(), (torch.ones(2, 3),))
    names = [n.name for n in program.graph.nodes]
    assert names == [
        "p_inner_weight", "p_inner_bias", "x", "sum_1", "gt", "true_graph_0", "false_graph_0", "cond", "getitem", "output",
    ]  # fmt: skip
    node = next(n for n in program.graph.nodes if n.name == "cond")
    assert node.target is torch.ops.higher_order.cond
    assert [a.name for a in node.args[3]] == ["x", "p_inner_bias", "p_inner_weight"]
    branches = [program.graph_module.true_graph_0, program.graph_module.false_graph_0]
    assert [[n.name for n in b.graph.nodes] for b in branches] == [
        ["x", "p_inner_bias", "p_inner_weight", "linear", "sin", "output"],
        ["x", "p_inner_bias", "p_inner_weight", "cos", "sub", "output"],
    ]
    assert (
        "torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0" in program.graph_module.code
    )
    values = [n.meta["val"].shape for b in branches for n in b.graph.nodes if n.op != "output"]
    assert values[3:5] == [(2, 3), (2, 3)]


def test_the_program_takes_the_branch_of_each_input():
    torch.manual_seed(0)
    model, x = Branches(), torch.ones(2, 3)
    program = torch.export.export(model, (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for each in (program, torch.export.load(file)):
        module = each.module()
        for given in (x, -x, x * 3):
            assert torch.equal(module(given), model(given))
        module(x).sum().backward()
        assert module.inner.weight.grad is not None


def test_branches_within_branches():
    def f(x):
        def inner(x):
            return torch.cond(x.sum() > 3, lambda x: x * 2, lambda x: x * 3, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,)) + torch.cond(
            x[0, 0] > 0.5, torch.sin, torch.cos, (x,)
        )

    x = torch.ones(2, 3)
    program = exported(f, x)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for each in (program, torch.export.load(file)):
        for scale in (1, -1, 0.1, 0.6):
            assert torch.equal(each.module()(x * scale), f(x * scale))


def test_what_branches_take_and_return():
    constant = torch.tensor([1.0, 2.0, 3.0])

    def f(x):
        y = x * 2
        y[0].add_(1)
        found = torch.cond(
            x.sum() > 0,
            lambda x: (x + y, {"a": constant + x}),
            lambda x: (x - y, {"a": x * 3}),
            (x,),
        )
        return found[0], found[1]["a"]

    x = torch.ones(2, 3)
    module = exported(f, x).module()
    for given in (x, -x):
        for a, b in zip(module(given), f(given), strict=True):
            assert torch.equal(a, b)


def test_a_bool_chooses_while_the_program_is_exported():
    program = exported(
        lambda x: torch.cond(x.ndim == 2, lambda x: x.sum(), lambda x: x + 1, (x,)),
        torch.ones(2, 3),
    )
    assert [n.name for n in program.graph.nodes] == ["x", "sum_1", "output"]


@pytest.mark.parametrize(
    "true_fn, message",
    [
        (lambda x: x, "returns a tensor from outside"),
        (lambda x: x[0:2], "returns a tensor from outside"),
        (lambda x: x.add_(1), "writes to a tensor from outside"),
        (lambda x: (x + 1,), "different structures"),
        (lambda x: x.sum(), "different shapes or dtypes"),
        (lambda x: x.double(), "different shapes or dtypes"),
        (lambda x: 3, "tensors alone"),
        (lambda x: x + 1 if x.sum() > 2 else x, "reads the value"),
    ],
)
def test_what_branches_may_not_do(true_fn, message):
    with pytest.raises(torch.export.ExportError, match=message):
        exported(
            lambda x: torch.cond(x.sum() > 0, true_fn, lambda x: x + 2, (x,)), torch.ones(2, 3)
        )


def test_what_cannot_be_done_with_a_program_of_branches():
    def f(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    x = torch.ones(2, 3)
    with pytest.raises(torch.export.ExportError, match="cond with dynamic_shapes"):
        exported(f, x, dynamic_shapes=({0: torch.export.Dim("rows")},))
    program = exported(f, x)
    with pytest.raises(torch.export.ExportError, match="run_decompositions: the graph calls cond"):
        program.run_decompositions()
    with pytest.raises(NotImplementedError, match="unflatten: a program that calls cond"):
        torch.export.unflatten(program)
    with pytest.raises(RuntimeError, match="no conversion of torch.cond to ONNX"):
        torch.onnx.export(Branches(), (x,), io.BytesIO())


def test_the_operator_itself():
    x = torch.ones(3)
    cond = torch.ops.higher_order.cond
    assert torch.equal(cond(x.sum() > 0, torch.sin, torch.cos, (x,)), x.sin())
    assert torch.equal(cond(x.sum() < 0, torch.sin, torch.cos, (x,)), x.cos())
