"""Modules as files of ONNX: run by onnxruntime they give what they give here."""

import io
import pathlib
import sys

import pytest

import rushlight as torch
from processes import finished
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.onnx import OnnxExporterError
from rushlight.onnx.exporter import library
from rushlight.utils._pytree import tree_leaves


@pytest.fixture(autouse=True)
def extra():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")


class Function(nn.Module):
    """A module around a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def agree(model, *args, other=None, shapes=None, **options):
    """The model and its ONNX agree on the inputs it was exported with, and on others."""
    model = model if isinstance(model, nn.Module) else Function(model)
    if shapes is not None and isinstance(model, Function):
        shapes = {"args": shapes}
    program = torch.onnx.export(model, args, dynamic_shapes=shapes, **options)
    model.eval()
    for given in (args, other) if other is not None else (args,):
        with torch.no_grad():
            expected = [t for t in tree_leaves(model(*given)) if isinstance(t, torch.Tensor)]
        torch.testing.assert_close(list(program(*given)), expected, rtol=1e-5, atol=1e-5)
    return program


def shapes_of(values):
    return {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values
    }


def test_names_and_dynamic_axes_are_kept():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    program = torch.onnx.export(
        model, torch.ones(2, 3), input_names=["pixels"], output_names=["scores"],
        dynamic_axes={"pixels": {0: "batch"}, "scores": {0: "batch"}},
    )  # fmt: skip
    graph = program.model_proto.graph
    assert shapes_of(graph.input) == {"pixels": ["batch", 3]}
    assert shapes_of(graph.output) == {"scores": ["batch", 4]}
    assert {t.name for t in graph.initializer} == {"0.weight", "0.bias"}
    x = torch.randn(7, 3)
    torch.testing.assert_close(program(x)[0], model(x).detach())


def test_sizes_that_follow_from_dynamic_ones_have_their_text():
    program = agree(
        lambda x: (x.repeat(2, 1), x.flatten()), torch.ones(2, 3), other=(torch.ones(5, 3),),
        shapes=({0: "n"},), output_names=["twice", "flat"],
    )  # fmt: skip
    outputs = program.model_proto.graph.output
    assert shapes_of(outputs) == {"twice": ["2*n", 3], "flat": ["3*n"]}


def test_file_is_written(tmp_path):
    onnx, runtime = library("onnx"), library("onnxruntime")
    path = tmp_path / "model.onnx"
    torch.onnx.export(nn.Linear(3, 2), (torch.ones(1, 3),), path)
    onnx.checker.check_model(str(path))
    runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    file = io.BytesIO()
    torch.onnx.export(nn.Linear(3, 2), (torch.ones(1, 3),), file)
    assert onnx.load_model_from_string(file.getvalue()).graph.node


def test_model_keeps_its_mode_and_is_exported_in_evaluation():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    torch.onnx.export(model, torch.ones(2, 3))
    assert model[1].training
    assert model[2].num_batches_tracked == 0
    assert not torch.onnx.is_in_onnx_export()


def test_operator_without_a_conversion_is_named_with_the_line():
    with pytest.raises(OnnxExporterError, match=r"aten\.lgamma") as error:
        torch.onnx.export(Function(lambda x: x.lgamma()), torch.ones(2))
    assert "test_onnx.py" in str(error.value)


def test_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"rushlight\[onnx\]"):
        torch.onnx.export(nn.ReLU(), torch.ones(1))


def test_older_opset():
    program = agree(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), torch.randn(4, 3), opset_version=15)
    assert program.model_proto.opset_import[0].version == 15


def test_opset_that_lacks_operators():
    with pytest.warns(UserWarning, match="stays in opset 18"):
        program = torch.onnx.export(nn.ReLU(), torch.randn(4, 3), opset_version=13)
    assert program.model_proto.opset_import[0].version == 18


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="dynamic_axis"):
        torch.onnx.export(nn.ReLU(), torch.ones(1), dynamic_axis={})
    torch.onnx.export(nn.ReLU(), torch.ones(1), optimize=True, verify=False)


def test_conversions_of_users():
    def lgamma(g, x):
        return g.op("Mul", x, g.constant(3.0, x.dtype))

    table = {torch.ops.aten.lgamma.default: lgamma}
    program = torch.onnx.export(
        Function(lambda x: x.lgamma()), torch.ones(2), custom_translation_table=table
    )
    assert program(torch.ones(2))[0].tolist() == [3, 3]


def test_newer_opset():
    program = agree(nn.GELU("tanh"), torch.randn(5), opset_version=20)
    assert program.model_proto.opset_import[0].version == 20


def test_input_that_is_output_and_output_that_is_two():
    agree(lambda x: (x, x * 2, (y := x + 1), y), torch.ones(3))


X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
I = torch.tensor([2, 0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.exp(), x.abs().sqrt(), x.sin(), x.round(), x.sign(), x.erf(), x.square(), x.neg()),
        lambda x: (x + 1, 2 - x, x / 2, 1 / (x + 5), x**2, 2**x, x * x, x.abs().log1p(), (x + 3).rsqrt()),
        lambda x: (x > 0, x != 0, x.int() == 1, (x > 0) & (x < 1), ~(x > 0), x.isnan()),
        lambda x: (x.long() // 2, x.long() % 3, x // 0.7, x % 0.7, x.long() + 0.5, x.int() + x.long()),
        lambda x: (x.clamp(-1, 1), x.clamp(min=0), torch.where(x > 0, x, 0.0), x.masked_fill(x > 1, -7)),
        lambda x: (F.gelu(x), F.silu(x), F.elu(x), F.selu(x), F.leaky_relu(x), F.mish(x), F.softplus(x)),
        lambda x: (F.hardtanh(x), F.hardswish(x), F.hardsigmoid(x), F.relu6(x), F.logsigmoid(x), F.glu(x)),
        lambda x: (x.softmax(-1), x.log_softmax(1), F.normalize(x, dim=1), F.softmin(x, 0)),
        lambda x: (x.sum(), x.sum(1), x.mean((0, 2), keepdim=True), x.amax(1), x.prod(2), x.logsumexp(1)),
        lambda x: (x.max(1), x.min(2, keepdim=True), x.max(), x.argmax(1), x.argmin(), x.cumsum(1)),
        lambda x: (x.var(1), x.std((0, 1), correction=0), x.norm(), x.norm(p=1, dim=1), (x > 0).any(1)),
        lambda x: (x.reshape(6, 4), x.view(2, -1), x.flatten(1), x.permute(2, 0, 1), x.mT, x.unsqueeze(1)),
        lambda x: (x[:1].squeeze(0), x.expand(5, 2, 3, 4), x.repeat(2, 1, 3), x.flip(1), x.roll(1, 2)),
        lambda x: (torch.cat([x, x], 1), torch.stack([x, x], -1), *x.split(2, 1), *x.chunk(2, 2), *x.unbind(1)),
        lambda x: (x[0], x[:, 1:], x[..., ::2], x[:, -1], x[:, None], x[:, :, -2:], x[1, 1, 1]),
        lambda x: (x[:, I], x[:, I, I], x[0, I], x[:, :, I], x.index_select(1, I), x[I[1:], :, I[1:]]),
        lambda x: (x.gather(1, (x > 0).long()), x.topk(2), x.sort(1, descending=True), x.argsort(2)),
        lambda x: (x.tril(), x.triu(1), torch.zeros_like(x), x.new_full((2,), 3), torch.eye(3) + x[0, 0, 0]),
        lambda x: (torch.arange(5) + x[0, 0, 0], torch.ones(2, 2) * x[0, 0, 0], x.repeat_interleave(2, 1)),
        lambda x: (x @ x.mT, torch.einsum("bij,bkj->bik", x, x), torch.outer(x[0, 0], x[0, 1])),
        lambda x: (torch.addmm(x[0], x[0] @ x[0].T, x[1], alpha=2), torch.baddbmm(x, x @ x.mT, x, beta=3)),
        lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="reflect"), F.pad(x, (0, 1, 1, 0), value=2.0)),
        lambda x: (F.layer_norm(x, (3, 4)), F.rms_norm(x, (4,)), F.group_norm(x, 3), F.instance_norm(x)),
        lambda x: (F.one_hot(x.long() % 3, 3), F.embedding(x.long() % 3, x[0]), F.cosine_similarity(x, x + 1)),
        lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
        lambda x: F.pixel_unshuffle(x.reshape(1, 1, 4, 6), 2),
        lambda x: [F.interpolate(x[None], scale_factor=2, mode=m) for m in ("nearest", "bilinear", "bicubic")],
        lambda x: F.interpolate(x[None], size=(5, 7), mode="bilinear", align_corners=True),
        lambda x: (F.avg_pool1d(x, 2), F.max_pool1d(x, 3, 1, 1), F.adaptive_avg_pool1d(x, 3), F.adaptive_max_pool1d(x, 2)),
        lambda x: (x.scatter(1, I.view(1, 2, 1), 5.0), x.scatter_add(1, I.view(1, 2, 1), x[:1, :2, :1])),
    ],
)  # fmt: skip
def test_operators(function):
    agree(function, X)


def test_writes():
    def f(x):
        y = x.clone()
        y[:, 0] = 1
        y[0] += x[1]
        y[:, 1:, ::2] = x[:, :2, ::2]
        y[I[1:]] = 3.0
        y[y > 2] = 0
        return y

    agree(f, X)


@pytest.mark.parametrize(
    "model, shape, other",
    [
        (nn.Conv1d(3, 4, 3, padding="same"), (2, 3, 8), (5, 3, 8)),
        (nn.Conv2d(4, 8, 3, 2, 1, groups=2), (2, 4, 9, 9), (3, 4, 9, 9)),
        (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 5, 5), (3, 4, 5, 5)),
        (nn.Conv3d(2, 3, 2, bias=False), (1, 2, 4, 4, 4), (2, 2, 4, 4, 4)),
        (nn.Sequential(nn.BatchNorm2d(3), nn.PReLU(3), nn.MaxPool2d(2)), (2, 3, 8, 8), (1, 3, 8, 8)),
        (nn.AdaptiveAvgPool2d((3, 5)), (2, 3, 8, 7), (4, 3, 8, 7)),
        (nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), (2, 3, 4), (5, 3, 4)),
        (nn.GRU(4, 5, batch_first=True), (2, 3, 4), (5, 3, 4)),
        (nn.RNN(4, 5, nonlinearity="relu", batch_first=True), (2, 3, 4), (5, 3, 4)),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8), (4, 3, 8)),
    ],
)  # fmt: skip
def test_layers(model, shape, other):
    torch.manual_seed(0)
    agree(model, torch.randn(shape), other=(torch.randn(other),), shapes=({0: "n"},))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = kind(4, 3, 2, batch_first=True, bidirectional=True)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            states, last = self.layers(packed)
            return *nn.utils.rnn.pad_packed_sequence(states, batch_first=True), last

    program = agree(
        Encoder(), torch.randn(2, 5, 4), torch.tensor([3, 5]),
        other=(torch.randn(3, 7, 4), torch.tensor([2, 6, 1])),
        shapes=({0: "n", 1: "t"}, {0: "n"}), output_names=["states"],
    )  # fmt: skip
    assert shapes_of(program.model_proto.graph.output)["states"] == [0, 0, 6]  # 0: not known


class GPT(nn.Module):
    """A decoder with two layers; batch and time are dynamic."""

    def __init__(self, letters=11, width=16, heads=4, context=32):
        super().__init__()
        self.heads = heads
        self.letter, self.position = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(5)])
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(2)]
        )
        self.head = nn.Linear(width, letters, bias=False)
        self.head.weight = self.letter.weight

    def forward(self, letters):
        batch, time = letters.shape
        x = self.letter(letters) + self.position(torch.arange(time))
        for k in range(2):
            qkv = self.qkv[k](self.norms[2 * k](x)).view(batch, time, 3, self.heads, -1)
            q, k_, v = qkv.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k_, v, is_causal=True)
            x = x + self.out[k](y.transpose(1, 2).reshape(batch, time, -1))
            x = x + self.mlp[k](self.norms[2 * k + 1](x))
        return self.head(self.norms[4](x))


def test_gpt_of_any_batch_and_length():
    torch.manual_seed(0)
    agree(
        GPT(), torch.randint(11, (2, 7)), other=(torch.randint(11, (3, 20)),),
        shapes=({0: "batch", 1: "time"},),
    )  # fmt: skip


def of_each_family():
    """A model of each family and the side of its images."""
    quick = "efficientnet_b0 googlenet mobilenet_v2 mobilenet_v3_small resnet18 shufflenet_v2_x0_5".split()
    sides = {"squeezenet1_1": 64, **dict.fromkeys((*quick, "densenet121"), 32)}
    sides |= {"alexnet": 64, "inception_v3": 96, "vit_b_32": 64}
    for name, side in sides.items():
        marks = [] if name in (*quick, "squeezenet1_1") else [pytest.mark.slow]
        yield pytest.param(name, side, id=name, marks=marks)


@pytest.mark.parametrize(("name", "side"), [*of_each_family()])
def test_models_for_images(name, side):
    torch.manual_seed(0)
    options = {"image_size": side} if name == "vit_b_32" else {}
    if name in ("googlenet", "inception_v3"):
        options = {"init_weights": False, "aux_logits": False}
    model = torch.vision.models.get_model(name, num_classes=10, **options)
    x = torch.randn(2, 3, side, side)
    with torch.no_grad():
        for _ in range(3):
            model(x)  # running statistics of their own
    agree(model, x, other=(torch.randn(3, 3, side, side),), shapes=({0: "n"},))


def test_models_of_the_examples():
    """Each file of examples/ has models that agree with their ONNX; the program says which it has tried."""
    programs = pathlib.Path(__file__).parent / "onnx_programs.py"
    done = finished("-m", "rushlight", programs)
    examples = programs.parents[1] / "examples"
    assert done.stdout.split() == sorted(file.stem for file in examples.glob("*.py"))


def test_random_numbers_are_drawn_at_each_run():
    def draw(x):
        return torch.randn_like(x), torch.rand(x.shape[0], 1000, dtype=torch.float64)

    shapes = {"args": ({0: "n"},)}
    program = torch.onnx.export(Function(draw), torch.zeros(4, 1000), dynamic_shapes=shapes)
    normal, uniform = program(torch.zeros(7, 1000))
    assert normal.shape == uniform.shape == (7, 1000)
    assert (normal.dtype, uniform.dtype) == (torch.float32, torch.float64)
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    assert abs(uniform.mean() - 0.5) < 0.1 and uniform.min() >= 0 and uniform.max() <= 1
