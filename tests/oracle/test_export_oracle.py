"""The table of exported functions holds what PyTorch exports; programs that it exports run here, and ours there."""

import io

import numpy as np
import pytest
import torch

import rushlight
from export_functions import FUNCTIONS, operators
from rushlight.export.schemas import argument_names
from rushlight.export.targets import operator_named
from rushlight.utils._pytree import tree_leaves


@pytest.mark.parametrize("source", FUNCTIONS)
def test_operators_of_a_function(source):
    _, names = operators(torch, source, torch.rand(1, 2, 4, 4))
    assert names == FUNCTIONS[source]


class Layers(torch.nn.Module):
    """Layers of several kinds, with results in a list, a tuple and a dictionary."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(2, 4, 3, 2, 1), torch.nn.BatchNorm2d(4)
        self.up, self.lstm = torch.nn.ConvTranspose2d(4, 2, 2, 2), torch.nn.LSTM(4, 6, 2)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.register_buffer("mask", torch.triu(torch.ones(4, 4, dtype=torch.bool), 1))

    def forward(self, x):
        F = torch.nn.functional
        y = F.hardswish(self.norm(self.convolution(x)))
        best, places = F.max_pool2d(self.up(y), 2, return_indices=True)
        rows = x[0]
        seen, _ = self.attention(rows, rows, rows, attn_mask=self.mask, need_weights=False)
        sequence, (h, c) = self.lstm(rows)
        found = {"places": places, "loss": F.cross_entropy(sequence[0], torch.arange(4))}
        return [best, F.interpolate(y, scale_factor=2, mode="bilinear")], (seen, h, c.sum()), found


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_programs_of_pytorch_run(tmp_path, training, decomposed):
    x = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    program = torch.export.export(Layers().train(training), (x,))
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "program.pt2")
    read = rushlight.export.load(tmp_path / "program.pt2").module()
    results = tree_leaves(read(rushlight.from_numpy(x.numpy())))
    for got, want in zip(
        results, torch.utils._pytree.tree_leaves(program.module()(x)), strict=True
    ):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)


def written_for_pytorch(program):
    """A program of ours, as PyTorch reads what is saved of it."""
    file = io.BytesIO()
    rushlight.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def assert_same(found, wanted):
    found, wanted = torch.utils._pytree.tree_leaves(found), tree_leaves(wanted)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("source", FUNCTIONS)
def test_pytorch_runs_a_function(source):
    x = np.random.default_rng(0).random((1, 2, 4, 4), dtype=np.float32)
    ours = rushlight.from_numpy(x)
    program, _ = operators(rushlight, source, ours)
    assert_same(written_for_pytorch(program).module()(torch.from_numpy(x)), program.module()(ours))


class Ours(rushlight.nn.Module):
    """Shared parameters, a branch, results of sizes that vary, buffers that are written, results not used."""

    def __init__(self):
        super().__init__()
        nn = rushlight.nn
        self.convolution, self.norm = nn.Conv2d(2, 4, 3, 2, 1), nn.BatchNorm2d(4)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", rushlight.tensor(float("inf")), persistent=False)

    def forward(self, x, named, flag=True):
        y = self.norm(self.convolution(x)).mean((2, 3))
        first, _ = self.second(self.first(y)).chunk(2, 1)
        best, places = named["q"].topk(2)
        rows = named["q"].reshape(x.shape[0] * 2, -1).clamp(max=float("inf"))
        return {"first": first, "rest": [best, places, rows, x[:, [1, 0]] * (1 / self.scale)]}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_pytorch_runs_a_module_with_sizes_that_vary():
    rows = rushlight.export.Dim("rows", min=2, max=64)
    rushlight.manual_seed(0)
    examples = rushlight.randn(3, 2, 4, 4), {"q": rushlight.randn(3, 4)}
    shapes = {"x": {0: rows}, "named": {"q": {0: rows}}}
    program = rushlight.export.export(Ours(), examples, dynamic_shapes=shapes)
    read = written_for_pytorch(program)
    assert [(str(k), v.lower, v.upper) for k, v in read.range_constraints.items()] == [("rows", 2, 64)]  # fmt: skip
    assert "f32[2*rows, 2]" in str(read)
    x, q = rushlight.randn(5, 2, 4, 4), rushlight.randn(5, 4)
    ours, theirs = program.module(), read.module()
    for _ in range(2):
        wanted = ours(x, {"q": q})
        found = theirs(torch.from_numpy(x.numpy()), {"q": torch.from_numpy(q.numpy())})
        assert_same([found, theirs.norm.running_var], [wanted, ours.norm.running_var])
    assert theirs.norm.num_batches_tracked == 2
    decomposed = read.run_decompositions().module()
    assert_same(decomposed(*map(torch.from_numpy, (x.numpy(),)), {"q": torch.from_numpy(q.numpy())})["first"], wanted["first"])  # fmt: skip


class Recurrent(rushlight.nn.Module):
    """Layers that are one operator."""

    def __init__(self):
        super().__init__()
        nn = rushlight.nn
        self.layers = nn.ModuleList(
            [nn.LSTM(4, 6, 2), nn.GRU(4, 3, bidirectional=True), nn.RNN(4, 2)]
        )
        self.attention = nn.MultiheadAttention(4, 2)
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x):
        seen, _ = self.attention(x, x, x, need_weights=False)
        return [layer(x) for layer in self.layers], seen, self.cell(x[0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_pytorch_runs_recurrent_layers():
    rushlight.manual_seed(0)
    x = rushlight.randn(3, 2, 4)
    program = rushlight.export.export(Recurrent().eval(), (x,))
    found = written_for_pytorch(program).module()(torch.from_numpy(x.numpy()))
    assert_same(found, program.module()(x))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pytorch_runs_branches(sign):
    class Branches(rushlight.nn.Module):
        def forward(self, x):
            return rushlight.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() - 1, (x,))

    program = rushlight.export.export(Branches(), (rushlight.ones(2, 3),))
    x = sign * rushlight.rand(2, 3)
    found = written_for_pytorch(program).module()(torch.from_numpy(x.numpy()))
    assert_same(found, program.module()(x))


# Overloads of TorchScript and of numbers alone, which no program exports.
SCRIPT = frozenset(
    "split.sizes result_type.Tensor result_type.Scalar eq.Tensor_list index.list_Tensor to.prim_Device to.prim_dtype to.prim_other "
    "ne.Tensor_list einsum.sublist sort.Tensor".split()
)  # fmt: skip


def test_names_of_arguments():
    """The names are those of PyTorch's schemas."""
    wrong, count = {}, 0
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        target = f"{name}.{schema.overload_name or 'default'}"
        placed = [a.name for a in schema.arguments if not a.kwarg_only]
        writes = any(a.is_out for a in schema.arguments) or name.endswith(("_", "_backward"))
        tensor = placed and "Tensor" in str(schema.arguments[0].type)
        if space != "aten" or name.startswith("_") or writes or not tensor or target in SCRIPT:
            continue
        try:
            operator = operator_named(f"torch.ops.aten.{target}")
        except RuntimeError:
            continue
        count += 1
        found = argument_names(operator)[: len(placed)]
        if found != placed and "Dimname" not in str(schema):
            wrong[target] = found, placed
    assert not wrong
    assert count > 800
