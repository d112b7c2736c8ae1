"""What is tried on the second device: the rows of the operator database, layers, optimizers, distributions.

A sample runs on the CPU and on the device; values, shapes, strides, dtypes, devices and gradients are compared.
`python tests/second_device.py` (with `tests` and `src` on the path) prints all that fail, by their reason.
"""

from __future__ import annotations

import functools
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import directional
import opdb
import optim_cases
import rushlight
from opdb_rows import replace
from rushlight import Tensor
from rushlight.core.tensor import _wrap

ROWS = [*opdb.ROWS, *opdb.FUNCTION_ROWS]


class Differs(AssertionError):
    """The device gives another result than the CPU."""


def samples() -> Iterator[tuple[str, Any]]:
    """(name, sample): each case of each row; a sample is a function of a device."""
    for row in ROWS:
        for i, case in enumerate(row.cases):
            yield f"{row.name}/{i}", functools.partial(run_row, row, case, i)


def leaves(tree: Any) -> list:
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in leaves(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in leaves(item)]
    return [tree]


def run_row(row: Any, case: Any, i: int, device: str) -> list:
    """The results of a call, and the gradients of what it takes where the row has some."""
    args, kwargs = case.draw(f"{row.name}/{i}")
    flows = [d.differentiable and case.grad and row.order != 0 for d in case.inputs()]
    which, wanted = iter(flows), []

    def given(a: np.ndarray) -> Tensor:
        t = _wrap(np.array(a)).to(device)
        if next(which):
            wanted.append(t.requires_grad_())
        return t

    args, kwargs = replace((args, kwargs), given, np.ndarray)
    if row.writes and isinstance(args[0], Tensor):
        args = (args[0].clone(), *args[1:])
    args = row.sent_through(args)
    function = functools.reduce(getattr, row.name.split("."), rushlight)
    rushlight.manual_seed(0)
    if flows:
        result = function(*args, **kwargs)
    else:  # nothing says where: the default device does
        with rushlight.device(device):
            result = function(*args, **kwargs)
    found: list = [result]
    if any(flows):
        outs = [o for o in directional.outputs(result) if o.requires_grad]
        rng = np.random.default_rng(0)
        weights = [
            _wrap(rng.standard_normal(o.shape).astype(o._array.dtype)).to(device) for o in outs
        ]
        if outs:
            found.append(rushlight.autograd.grad(outs, wanted, weights, allow_unused=True))
    return found


# -- layers ----------------------------------------------------------------------------------------

# arguments of a class (`t` is the library) and of its forward (f: floats of a shape, i: integers below the first number)
LAYERS = [
    *[(name, "", "f(3, 4)") for name in (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU ReLU "
        "ReLU6 RReLU SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Dropout AlphaDropout").split()],
    *[(name, "-1", "f(3, 4)") for name in "LogSoftmax Softmax Softmin".split()],
    ("Threshold", "0.1, 20.0", "f(3, 4)"), ("Softmax2d", "", "f(2, 3, 4, 5)"), ("Hardtanh", "-0.5, 0.5, True", "f(3, 4) * 1"),
    ("FeatureAlphaDropout", "0.2", "f(3, 4, 5)"), ("Dropout1d", "0.2", "f(3, 4, 5)"), ("Dropout2d", "", "f(3, 4, 2, 2)"),
    ("Dropout3d", "", "f(3, 4, 2, 2, 2)"), ("Linear", "4, 5", "f(3, 4)"), ("Linear", "4, 5, bias=False", "f(2, 3, 4)"),
    ("Bilinear", "3, 4, 5", "f(2, 3), f(2, 4)"), ("LazyLinear", "4", "f(2, 3)"),
    ("AdaptiveLogSoftmaxWithLoss", "5, 12, [4, 8]", "f(6, 5), i(12, 6)"),
    ("ChannelShuffle", "2", "f(1, 4, 2, 2)"), ("CosineSimilarity", "", "f(3, 4), f(3, 4)"),
    ("PairwiseDistance", "1.5, keepdim=True", "f(3, 4), f(3, 4)"), ("CrossMapLRN2d", "3", "f(1, 2, 5, 5)"),
    ("LocalResponseNorm", "2", "f(1, 4, 3, 3)"), ("Embedding", "7, 3", "i(7, 2, 5)"),
    ("Embedding", "7, 3, padding_idx=2, max_norm=1.0", "i(7, 2, 5)"), ("EmbeddingBag", "7, 3, mode='sum', padding_idx=2", "i(7, 3, 4)"),
    ("EmbeddingBag", "7, 3, mode='max'", "i(7, 6), t.tensor([0, 2, 2], device=d)"),
    ("Flatten", "0, -2", "f(3, 4, 5)"), ("Unflatten", "1, (2, 2)", "f(3, 4)"), ("Fold", "(4, 5), 2, stride=(2, 1)", "f(1, 8, 8)"),
    ("Unfold", "(2, 3), padding=1", "f(1, 2, 4, 5)"), ("PixelShuffle", "2", "f(1, 8, 3, 3)"), ("PixelUnshuffle", "2", "f(1, 2, 4, 4)"),
    ("Upsample", "scale_factor=2, mode='bilinear'", "f(1, 2, 3, 4)"), ("UpsamplingBilinear2d", "(5, 6)", "f(1, 2, 3, 4)"),
    ("UpsamplingNearest2d", "scale_factor=3", "f(1, 2, 3, 4)"),
    *[(f"{kind}{n}d", args, f"f(2, 4, {', '.join('76'[:1] * n)})") for n in (1, 2, 3) for kind, args in (
        ("Conv", "4, 6, 3, padding=1"), ("Conv", "4, 6, 2, stride=2, groups=2, padding_mode='circular', padding=1"),
        ("ConvTranspose", "4, 3, 3, stride=2, output_padding=1"), ("LazyConv", "5, 3"), ("LazyConvTranspose", "5, 3"),
        ("MaxPool", "2"), ("MaxPool", "3, stride=2, padding=1, return_indices=True"), ("AvgPool", "2"), ("LPPool", "2, 2"),
        ("AdaptiveAvgPool", "3"), ("AdaptiveMaxPool", "2"), ("BatchNorm", "4"), ("BatchNorm", "4, affine=False"),
        ("LazyBatchNorm", ""), ("InstanceNorm", "4, affine=True, track_running_stats=True"), ("LazyInstanceNorm", ""),
        ("ReflectionPad", "1"), ("ReplicationPad", "2"), ("CircularPad", "1"), ("ConstantPad", "1, 0.5"), ("ZeroPad", "1"))],
    ("FractionalMaxPool2d", "2, output_size=3", "f(1, 2, 7, 7)"), ("FractionalMaxPool3d", "2, output_size=3", "f(1, 2, 7, 7, 7)"),
    *[(f"MaxUnpool{n}d", "2", f"*t.nn.functional.max_pool{n}d(f(1, 2, {', '.join('6' * n)}), 2, return_indices=True)") for n in (1, 2, 3)],
    ("LayerNorm", "4", "f(3, 4)"), ("LayerNorm", "(3, 4), elementwise_affine=False", "f(2, 3, 4)"), ("RMSNorm", "4", "f(3, 4)"),
    ("GroupNorm", "2, 4", "f(3, 4, 5)"), ("SyncBatchNorm", "4", "f(3, 4, 5)"),
    *[(name, "3, 5, num_layers=2, bidirectional=True", "f(4, 2, 3)") for name in ("RNN", "LSTM", "GRU")],
    ("LSTM", "3, 5, batch_first=True, proj_size=2", "f(4, 2, 3)"), *[(name, "3, 5", "f(2, 3)") for name in ("RNNCell", "LSTMCell", "GRUCell")],
    ("LSTM", "3, 5", "t.nn.utils.rnn.pack_padded_sequence(f(4, 2, 3), t.tensor([4, 2]))"),
    ("MultiheadAttention", "4, 2, batch_first=True", "f(2, 3, 4), f(2, 5, 4), f(2, 5, 4)"),
    ("TransformerEncoderLayer", "4, 2, 8, dropout=0.0", "f(3, 2, 4)"), ("TransformerDecoderLayer", "4, 2, 8", "f(3, 2, 4), f(5, 2, 4)"),
    ("TransformerEncoder", "t.nn.TransformerEncoderLayer(4, 2, 8), 2", "f(3, 2, 4)"),
    ("TransformerDecoder", "t.nn.TransformerDecoderLayer(4, 2, 8), 2, t.nn.LayerNorm(4)", "f(3, 2, 4), f(5, 2, 4)"),
    ("Transformer", "4, 2, 1, 1, 8", "f(3, 2, 4), f(5, 2, 4)"),
    ("Sequential", "t.nn.Linear(3, 4), t.nn.Sequential(t.nn.ReLU(), t.nn.Linear(4, 2))", "f(2, 3)"), ("DataParallel", "t.nn.Linear(3, 2)", "f(4, 3)"),
    *[(name, "", "f(3, 4), f(3, 4)") for name in "L1Loss MSELoss HuberLoss SmoothL1Loss PoissonNLLLoss SoftMarginLoss KLDivLoss".split()],
    *[(name, "reduction='none'", "f(3, 4), f(3, 4)") for name in "L1Loss MSELoss BCEWithLogitsLoss".split()],
    ("BCELoss", "", "f(3, 4).sigmoid(), f(3, 4).sigmoid()"), ("BCEWithLogitsLoss", "", "f(3, 4), f(3, 4).sigmoid()"),
    ("CrossEntropyLoss", "", "f(5, 4), i(4, 5)"), ("CrossEntropyLoss", "label_smoothing=0.1, ignore_index=1", "f(5, 4, 3), i(4, 5, 3)"),
    ("NLLLoss", "", "f(5, 4), i(4, 5)"), ("NLLLoss", "reduction='sum'", "f(2, 4, 3, 3), i(4, 2, 3, 3)"),
    ("GaussianNLLLoss", "", "f(3, 4), f(3, 4), f(3, 4).abs()"), ("MultiLabelSoftMarginLoss", "", "f(3, 4), f(3, 4).sigmoid()"),
    ("MultiLabelMarginLoss", "", "f(2, 4), t.tensor([[3, 0, -1, 1], [0, 1, 2, 3]], device=d)"), ("MultiMarginLoss", "", "f(5, 4), i(4, 5)"),
    ("HingeEmbeddingLoss", "", "f(3, 4), f(3, 4).sign()"), ("MarginRankingLoss", "0.1", "f(3), f(3), f(3).sign()"),
    ("CosineEmbeddingLoss", "", "f(3, 4), f(3, 4), f(3).sign()"), ("TripletMarginLoss", "p=1, swap=True", "f(3, 4), f(3, 4), f(3, 4)"),
    ("TripletMarginWithDistanceLoss", "margin=0.5", "f(3, 4), f(3, 4), f(3, 4)"),
    ("CTCLoss", "", "f(6, 2, 4).log_softmax(2), i(3, 2, 3) + 1, t.tensor([6, 5]), t.tensor([3, 2])"),
]  # fmt: skip


def layers() -> Iterator[tuple[str, Any]]:
    for k, (name, arguments, inputs) in enumerate(LAYERS):
        for mode in ("train", "eval"):
            yield f"{name}/{k}/{mode}", functools.partial(run_layer, name, arguments, inputs, mode)


def run_layer(name: str, arguments: str, inputs: str, mode: str, device: str) -> list:
    """Results, gradients of parameters and inputs, buffers afterwards; the layer is made on the CPU."""
    t, given = rushlight, []
    t.manual_seed(5)
    layer = eval(f"t.nn.{name}({arguments})", {"t": t}).to(device).train(mode == "train")

    def floats(*shape: int) -> Tensor:
        given.append(t.randn(shape).to(device).requires_grad_())
        return given[-1]

    def integers(n: int, *shape: int) -> Tensor:
        return t.randint(n, shape).to(device)

    args = eval(f"({inputs},)", {"t": t, "f": floats, "i": integers, "d": device})
    t.manual_seed(7)
    result = layer(*args)
    outs = [o for o in tensors_in(result) if o.is_floating_point() and o.requires_grad]
    if outs:
        sum((o * o).sum() for o in outs).backward()
    gradients = [p.grad for p in [*layer.parameters(), *given]]
    return [tensors_in(result), gradients, list(layer.buffers())]


def tensors_in(result: Any) -> list:
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, rushlight.nn.utils.rnn.PackedSequence):
        return [result.data]  # its batch sizes are always on the CPU
    if isinstance(result, tuple | list):
        return [t for r in result for t in tensors_in(r)]
    return []


# -- optimizers ------------------------------------------------------------------------------------


def optimizers() -> Iterator[tuple[str, Any]]:
    rows = {
        **optim_cases.OPTIMIZERS,
        "Muon": [{}],
        "LBFGS": [{}, {"line_search_fn": "strong_wolfe"}],
        "SparseAdam": [{}],
    }
    for name, settings in rows.items():
        for k, options in enumerate(settings):
            for way in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
                yield (
                    f"{name}/{k}/{'-'.join(map(str, *way.items())) if way else 'default'}",
                    functools.partial(run_optimizer, name, {**options, **way}),
                )


def run_optimizer(name: str, options: dict, device: str) -> list:
    """Parameters and state after some steps, the last of them with a state that was saved and loaded."""
    t = rushlight
    t.manual_seed(3)
    shapes = [(4, 3), (3, 4)] if name == "Muon" else [(4, 3), (3,)]
    parameters = [t.nn.Parameter(t.randn(shape).to(device)) for shape in shapes]
    x, y = t.randn(5, 4).to(device), t.randn(5, 3).to(device)
    optimizer = getattr(t.optim, name)(parameters, **options)

    def closure() -> Tensor:
        optimizer.zero_grad()
        out = x @ parameters[0]
        out = out + parameters[1] if name != "Muon" else out @ parameters[1]
        loss = (out[:, :3] - y).square().mean()
        loss.backward()
        if name == "SparseAdam":
            for p in parameters:
                p.grad = p.grad.to_sparse()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())
    loss = optimizer.step(closure)
    state = [
        v for s in optimizer.state.values() for v in s.values() if isinstance(v, Tensor) and v.ndim
    ]
    return [loss, [p.detach() for p in parameters], state]


# -- distributions ---------------------------------------------------------------------------------

# a distribution `D.name(...)` of positive parameters: `p(shape)`, `h(shape)` below 1, `s` a positive definite matrix
DISTRIBUTIONS = [
    *[f"{name}(p(3), p(3))" for name in "Normal Laplace Cauchy Gamma Beta VonMises Gumbel Weibull Pareto LogNormal Kumaraswamy "
      "InverseGamma LogisticNormal".split()],
    *[f"{name}(p(3))" for name in "Exponential Dirichlet Chi2 Poisson HalfNormal HalfCauchy".split()],
    *[f"{name}(h(3))" for name in "Bernoulli Geometric ContinuousBernoulli".split()],
    *[f"{name}(h(2, 4))" for name in "Categorical OneHotCategorical".split()],
    "Uniform(h(3) - 1, p(3))", "StudentT(p(3) + 2)", "FisherSnedecor(p(3) + 2, p(3) + 4)", "Binomial(5, h(3))", "Multinomial(5, h(4))",
    "NegativeBinomial(5, h(3))", "MultivariateNormal(p(3), s)", "LowRankMultivariateNormal(p(3), p(3, 2), p(3))", "Wishart(p() + 4, s)",
    "LKJCholesky(3, p())", "RelaxedBernoulli(p(), h(3))", "RelaxedOneHotCategorical(p(), h(3))",
    "MixtureSameFamily(D.Categorical(h(3)), D.Normal(p(3), p(3)))", "Independent(D.Normal(p(3), p(3)), 1)",
]  # fmt: skip


def distributions() -> Iterator[tuple[str, Any]]:
    for k, text in enumerate(DISTRIBUTIONS):
        yield f"{text.partition('(')[0]}/{k}", functools.partial(run_distribution, text)


def run_distribution(text: str, device: str) -> list:
    """Draws, their log-probabilities, mean, variance and entropy."""
    t = rushlight
    t.manual_seed(1)
    a = t.rand(3, 3)
    names = {
        "D": t.distributions,
        "p": lambda *shape: (t.rand(shape) + 0.5).to(device),
        "h": lambda *shape: (t.rand(shape) * 0.9 + 0.05).to(device),
        "s": (a @ a.mT + 3 * t.eye(3)).to(device),
    }
    d = eval(f"D.{text}", names)
    t.manual_seed(2)
    x = d.sample((4,))
    found = [x, d.log_prob(x)]
    for ask in (lambda: d.mean, lambda: d.variance, d.entropy):
        try:
            found.append(ask())
        except NotImplementedError:
            pass
    return found + ([d.enumerate_support()] if d.has_enumerate_support else [])


def compare(got: list, want: list, elsewhere: bool = False) -> None:
    """Differs where two results are not equal; tensors of `got` are on the device."""
    mine, theirs = leaves(got), leaves(want)
    if len(mine) != len(theirs):
        raise Differs(f"{len(mine)} results, on the CPU {len(theirs)}")
    for a, b in zip(mine, theirs, strict=True):
        if not isinstance(b, Tensor):
            if type(a) is not type(b):
                raise Differs(f"a {type(a).__name__}, on the CPU a {type(b).__name__}")
            continue
        if not isinstance(a, Tensor):
            raise Differs(f"{type(a).__name__}, on the CPU a tensor")
        if not elsewhere and a.device.type != "toy":
            raise Differs(f"the result is on {a.device}")
        if a.dtype is not b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
            raise Differs(
                f"{a.dtype} {tuple(a.shape)} {a.requires_grad}, on the CPU {b.dtype} {tuple(b.shape)} {b.requires_grad}"
            )
        if a.layout is rushlight.strided and a.numel() and a.stride() != b.stride():
            raise Differs(f"strides {a.stride()}, on the CPU {b.stride()}")
        x, y = (t.detach().cpu().to_dense().resolve_conj() for t in (a, b))
        if x.dtype is rushlight.bfloat16:
            x, y = x.float(), y.float()
        narrow = x.dtype not in (
            rushlight.float64,
            rushlight.complex128,
        )  # the CPU may use other kernels
        tolerance = {"rtol": 1e-4, "atol": 1e-6} if narrow else {"rtol": 1e-9, "atol": 1e-12}
        np.testing.assert_allclose(x.numpy(), y.numpy(), **tolerance)


def attempt(sample: Any, elsewhere: bool = False) -> str | None:
    """Why a sample fails on the device; None when it passes, "" when the CPU fails too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = sample("cpu")
        except Exception:
            return ""
        try:
            compare(sample("toy"), want, elsewhere)
        except Exception as error:
            frame = next(
                (
                    f"{f.filename.rpartition('rushlight/')[2]}:{f.lineno}"
                    for f in reversed(traceback.extract_tb(error.__traceback__))
                    if "/rushlight/" in f.filename
                ),
                "",
            )
            return f"{type(error).__name__}: {' '.join(str(error).split())[:160]} [{frame}]"
    return None


def main() -> None:
    import collections
    import itertools
    import sys

    import toy_device

    toy_device.install()
    prefix = sys.argv[1] if len(sys.argv) > 1 else ""
    tried, reasons = 0, collections.defaultdict(list)
    for name, sample in itertools.chain(samples(), layers(), optimizers(), distributions()):
        if name.startswith(prefix):
            why = attempt(sample)
            tried += why != ""
            if why:
                reasons[why].append(name)
    for why, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        print(len(names), why, *names[:6])
    failed = sum(map(len, reasons.values()))
    print(f"{failed} of {tried} fail: {100 - 100 * failed / tried:.2f} % pass")


if __name__ == "__main__":
    main()
