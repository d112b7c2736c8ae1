"""Custom operators in exported programs: one node each, but for those that write or are made of others."""

import io

import pytest

import rushlight as torch
from rushlight.onnx.exporter import library as extra
from rushlight.overrides import TorchFunctionMode


@torch.library.custom_op("exported::scaled", mutates_args=())
def scaled(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * k)  # no operator is called


@torch.library.custom_op("exported::parts", mutates_args=())
def parts(x: torch.Tensor, at: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return x[: at[0]].clone(), x[at[0] :] * at[1]


@torch.library.custom_op("exported::raise_by_one", mutates_args=("x",))
def raise_by_one(x: torch.Tensor) -> None:
    x.add_(1)


library = torch.library.Library("exported", "FRAGMENT")
library.define("added(Tensor x, Tensor[] ys, *, int n=3) -> Tensor")
library.impl("added", lambda x, ys, n: x + sum(ys) * n, "CPU")
for short, key in (("composite", ""), ("whole", "CompositeExplicitAutograd")):
    library.define(f"{short}(Tensor x) -> Tensor")
    library.impl(short, lambda x: x * 2 + 1, key)
ops = torch.ops.exported


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.function(self, x)


def exported(function, x, **options):
    program = torch.export.export(Model(function), (x,), **options)
    return program, [
        (str(n.target), *map(str, n.args), *(f"{k}={v}" for k, v in n.kwargs.items()))
        for n in program.graph.nodes
        if n.op == "call_function"
    ]


@pytest.mark.parametrize(
    "function, node",
    [
        (lambda m, x: scaled(x), ("exported.scaled.default", "x")),
        (lambda m, x: ops.scaled(x, k=3.0), ("exported.scaled.default", "x", "3.0")),
        (lambda m, x: ops.scaled.default(m.kept, 4.0), ("exported.scaled.default", "b_kept", "4.0")),
        (lambda m, x: ops.added(x, [x, m.kept], n=4), ("exported.added.default", "x", "[x, b_kept]", "n=4")),
        (lambda m, x: ops.whole(x), ("exported.whole.default", "x")),
        (lambda m, x: torch.ops.aten.mul.Tensor(x, 2), ("aten.mul.Tensor", "x", "2")),
    ],
)  # fmt: skip
def test_a_call_is_one_node(function, node):
    program, nodes = exported(function, torch.ones(3))
    assert nodes == [node]
    model, x = Model(function), torch.tensor([5.0, 7.0, 11.0])
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for other in (program, program.run_decompositions(), torch.export.load(file)):
        assert other.module()(x).tolist() == model(x).tolist()


def test_several_results_and_dynamic_sizes():
    program, nodes = exported(
        lambda m, x: parts(x, [1, 5])[1] + 1,
        torch.ones(3, 2),
        dynamic_shapes={"x": {0: torch.export.Dim("rows")}},
    )
    assert [n[0] for n in nodes if "getitem" not in n[0]] == [
        "exported.parts.default", "aten.add.Tensor",
    ]  # fmt: skip
    assert program.module()(torch.ones(5, 2)).tolist() == [[6.0, 6.0]] * 4


def test_operators_that_write_or_are_made_of_others_are_recorded_as_their_kernels():
    def writes(m, x):
        raise_by_one(m.kept)
        y = x * 1
        ops.raise_by_one.default(y)
        return y + m.kept

    program, nodes = exported(writes, torch.ones(3))
    assert {n[0] for n in nodes} == {"aten.add.Tensor", "aten.mul.Tensor"}
    module = program.module()
    assert module(torch.zeros(3)).tolist() == [3.0, 4.0, 5.0]
    assert module.kept.tolist() == [2.0, 3.0, 4.0]
    _, nodes = exported(lambda m, x: ops.composite(x), torch.ones(3))
    assert nodes == [("aten.mul.Tensor", "x", "2"), ("aten.add.Tensor", "mul", "1")]


def test_results_that_are_no_tensors_are_refused():
    library.define("count(Tensor x) -> int")
    library.impl("count", lambda x: int(x.sum()), "CPU")
    with pytest.raises(torch.export.ExportError, match="returns other than tensors"):
        exported(lambda m, x: x * ops.count(x), torch.ones(3))


def test_modes_and_subclasses_are_asked_for_the_operator():
    asked = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            asked.append(func)
            return func(*args, **(kwargs or {}))

    class Kind(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2)
    y = x.as_subclass(Kind)
    with Mode():
        scaled(x)
        ops.scaled(x, k=3.0)
    result = scaled(y)
    assert asked == [ops.scaled.default] * 3 and type(result) is Kind
    assert result.tolist() == [2.0, 2.0]


def test_onnx_takes_a_conversion_of_the_operator():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    assert extra("onnx")
    model, x = Model(lambda m, x: scaled(x, 3.0)), torch.tensor([1.0, 2.0])

    def conversion(b, x, k=2.0):
        return b.op("Mul", x, b.constant(k, x.dtype))

    table = {ops.scaled.default: conversion}
    program = torch.onnx.export(model, (x,), custom_translation_table=table)
    assert program(x)[0].tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="no conversion of the operator exported.scaled.default"):
        torch.onnx.export(model, (x,), io.BytesIO())
