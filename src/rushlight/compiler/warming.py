"""Kernels compiled ahead of need: `rushlight warm`.

A kernel is compiled for the dtypes and the kind of operands of a call, so what compiles the kernels of the package is
calls: each step below makes those of one kind, forward and backward, as programs make them. Some processes share the
steps. What they leave is on disk (`_codegen/cache.py`), for every later program of this user on this machine.

The first steps are small trainings. They compile what most programs need, in a few seconds (`rushlight warm --quick`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

LARGE = 20_000  # elements from which a first call takes machine code


def tensors(torch: Any, *shapes: tuple[int, ...], dtype: Any = None) -> list[Any]:
    """Numbers of [0.1, 0.9], which all functions are defined for, with gradients; of integer dtypes 1 to 9."""
    kind = dtype or torch.float32
    if not kind.is_floating_point:
        return [torch.randint(1, 10, s, dtype=kind) for s in shapes]
    return [(torch.rand(s) * 0.8 + 0.1).to(kind).requires_grad_() for s in shapes]


def recorded(torch: Any, f: Callable[..., Any], *given: Any) -> None:
    """f(*given), without recording and with it, and the backward pass of its sum."""
    with torch.no_grad():
        f(*given)
    result = f(*given)
    for r in result if isinstance(result, tuple) else (result,):
        if r.is_floating_point() and r.requires_grad:
            r.sum().backward(retain_graph=True)


UNARY = (
    "abs acos asin atan ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p log2 "
    "logit neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc"
)
ACTIVATIONS = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus "
    "softshrink softsign tanhshrink"
)
ARITHMETIC = "add div eq ge gt le lt maximum minimum mul ne pow sub"
BINARY = "atan2 fmod hypot logaddexp remainder"
REDUCTIONS = "amax amin argmax argmin logsumexp max mean min prod std sum var"


def elementwise(torch: Any, names: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for name in names.split():
        f = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        recorded(torch, f, *tensors(torch, (LARGE,), dtype=kind))


def binary(torch: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for name in (ARITHMETIC + " " + BINARY if kind.is_floating_point else ARITHMETIC).split():
        f = getattr(torch, name)
        pairs = [((4, LARGE), (4, LARGE)), ((4, LARGE), (LARGE,)), ((4, LARGE), (4, 1))]
        for shapes in pairs if name in ("add", "sub", "mul", "div") else pairs[:1]:
            recorded(torch, f, *tensors(torch, *shapes, dtype=kind))
        if name in ("add", "sub", "mul", "div", "eq", "gt", "lt", "pow"):
            recorded(torch, lambda x, f=f: f(x, 2), *tensors(torch, (LARGE,), dtype=kind))
    x, y, z = tensors(torch, (LARGE,), (LARGE,), (LARGE,), dtype=kind)
    recorded(torch, lambda x, y: torch.where(x > y, x, y), x, y)
    recorded(torch, lambda x: x.clamp(0.2, 0.5), x)
    if kind.is_floating_point:
        recorded(torch, torch.addcmul, x, y, z)
        recorded(torch, torch.lerp, x, y, z)


def reductions(torch: Any, dtype: str) -> None:
    for name in REDUCTIONS.split():
        (x,) = tensors(torch, (200, 300), dtype=getattr(torch, dtype))
        f = getattr(torch, name)
        for dim in (0, 1):
            recorded(torch, lambda x, f=f, dim=dim: f(x, dim), x)
        if name not in ("logsumexp", "argmin"):
            recorded(torch, f, x)
    for f in (torch.softmax, torch.log_softmax, torch.cumsum, torch.sort):
        for dim in (0, 1):
            recorded(torch, lambda x, f=f, dim=dim: f(x, dim)[:1000], x)
    recorded(torch, lambda x: torch.topk(x, 5), x)


def products(torch: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    f = torch.nn.functional.linear
    for rows in (1, 8, 200):
        recorded(torch, f, *tensors(torch, (rows, 128), (256, 128), (256,), dtype=kind))
        recorded(torch, torch.matmul, *tensors(torch, (rows, 200), (200, 300), dtype=kind))
    recorded(torch, torch.bmm, *tensors(torch, (8, 64, 48), (8, 48, 32), dtype=kind))
    recorded(torch, torch.matmul, *tensors(torch, (4, 8, 64, 16), (4, 8, 16, 64), dtype=kind))
    recorded(torch, torch.mv, *tensors(torch, (200, 300), (300,), dtype=kind))
    recorded(torch, torch.addmm, *tensors(torch, (200,), (100, 300), (300, 200), dtype=kind))


def convolutions(torch: Any, train: bool) -> None:
    nn = torch.nn
    image = torch.rand(4, 3, 32, 32)
    narrow, wide = torch.rand(4, 16, 28, 28), torch.rand(2, 64, 14, 14)
    cases = [
        (nn.Conv2d(3, 16, 3, padding=1), image),
        (nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), image),
        (nn.Conv2d(16, 32, 3, padding=1), narrow),
        (nn.Conv2d(16, 32, 5), narrow),
        (nn.Conv2d(64, 64, 3, padding=1, bias=False), wide),
        (nn.Conv2d(64, 128, 3, stride=2, padding=1, bias=False), wide),
        (nn.Conv2d(64, 128, 1, bias=False), wide),
        (nn.Conv2d(64, 64, 3, padding=1, groups=64), wide),
        (nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), narrow),
        (nn.Conv1d(16, 32, 3), torch.rand(4, 16, 200)),
    ]
    for layer, x in cases:
        layer.train(train)
        with torch.set_grad_enabled(train):
            y = layer(x.requires_grad_(train))
            if train:
                y.sum().backward()


def pools_and_norms(torch: Any) -> None:
    nn = torch.nn
    cases = [
        (nn.MaxPool2d(2), (8, 16, 32, 32)), (nn.MaxPool2d(3, 2, 1), (8, 16, 32, 32)),
        (nn.AvgPool2d(2), (8, 16, 32, 32)), (nn.AdaptiveAvgPool2d(1), (8, 64, 14, 14)),
        (nn.BatchNorm2d(16), (8, 16, 32, 32)), (nn.BatchNorm1d(64), (512, 64)),
        (nn.LayerNorm(128), (16, 64, 128)), (nn.GroupNorm(4, 16), (8, 16, 32, 32)),
        (nn.RMSNorm(128), (16, 64, 128)), (nn.Upsample(scale_factor=2), (4, 16, 16, 16)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (4, 16, 16, 16)), (nn.ZeroPad2d(1), (8, 16, 32, 32)),
    ]  # fmt: skip
    for layer, shape in cases:
        recorded(torch, layer, *tensors(torch, shape))
        layer.eval()
        with torch.no_grad():
            layer(torch.rand(shape))


def losses(torch: Any) -> None:
    f = torch.nn.functional
    logits, classes = tensors(torch, (512, 100))[0], torch.arange(512) % 100
    recorded(torch, lambda x: f.cross_entropy(x, classes), logits)
    recorded(torch, lambda x: f.nll_loss(x.log_softmax(1), classes), logits)
    names = "mse_loss l1_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits"
    for name in names.split():
        recorded(torch, getattr(f, name), logits, torch.rand(512, 100))


def attention(torch: Any) -> None:
    nn, f = torch.nn, torch.nn.functional
    q, k, v = tensors(torch, (2, 4, 64, 32), (2, 4, 64, 32), (2, 4, 64, 32))
    for causal in (False, True):
        recorded(
            torch,
            lambda *x, c=causal: f.scaled_dot_product_attention(*x, is_causal=c),
            q,
            k,
            v,
        )
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    recorded(torch, layer, *tensors(torch, (4, 64, 128)))
    with torch.no_grad():
        layer.eval()(torch.rand(4, 64, 128))


def recurrent(torch: Any) -> None:
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        layer = kind(64, 128, num_layers=2)
        recorded(torch, lambda x, layer=layer: layer(x)[0], *tensors(torch, (35, 20, 64)))


def indexing(torch: Any) -> None:
    weight = tensors(torch, (1000, 64))[0]
    rows = torch.arange(512) % 1000
    recorded(torch, lambda w: torch.nn.functional.embedding(rows, w), weight)
    recorded(torch, lambda w: w[rows], weight)
    recorded(torch, lambda w: w.index_select(0, rows), weight)
    recorded(torch, lambda w: w.gather(1, torch.zeros(1000, 8, dtype=torch.int64)), weight)
    recorded(torch, lambda w: w.masked_fill(w > 0.5, 0), weight)
    recorded(torch, lambda w: w[w > 0.5], weight)
    recorded(torch, lambda w: torch.cat([w, w], 1), weight)
    recorded(torch, lambda w: torch.stack([w, w]), weight)
    recorded(torch, lambda w: w.t().contiguous(), weight)
    recorded(torch, lambda w: w.view(1000, 8, 8).permute(2, 0, 1).contiguous(), weight)
    recorded(
        torch, lambda w: w.scatter_add(0, torch.zeros(4, 64, dtype=torch.int64), w[:4]), weight
    )
    for name in ("float64", "bfloat16", "float16", "int64", "bool"):
        weight.detach().to(getattr(torch, name)).float()


def random(torch: Any) -> None:
    torch.randn(LARGE)
    torch.rand(LARGE)
    torch.randint(10, (LARGE,))
    torch.randperm(LARGE)
    torch.empty(LARGE).uniform_(-1, 1).normal_().bernoulli_(0.5)
    torch.multinomial(torch.rand(100), 1000, replacement=True)
    recorded(torch, torch.nn.functional.dropout, *tensors(torch, (LARGE,)))


def optimizers(torch: Any) -> None:
    o = torch.optim
    makers: list[Callable[[Any], Any]] = [
        lambda p: o.SGD(p, lr=0.1),
        lambda p: o.SGD(p, lr=0.1, momentum=0.9),
        lambda p: o.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
        o.Adam,
        o.AdamW,
        o.RMSprop,
        o.Adagrad,
    ]
    for make in makers:
        weights = tensors(torch, (200, 100), (100,))
        optimizer = make(weights)
        for _ in range(2):
            for w in weights:
                w.grad = torch.rand(w.shape)
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()


def trained(torch: Any, layers: Any, model: Any, optimizer: Any, x: Any, y: Any) -> None:
    """Two steps of a training of layers, which a model uses, and a look at how good it is."""
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
    layers.eval()
    with torch.no_grad():
        (model(x).argmax(-1) == y).float().mean().item()


def of_rows(torch: Any) -> None:
    nn = torch.nn
    rows = torch.utils.data.TensorDataset(torch.randn(300, 64), torch.randint(0, 10, (300,)))
    x, y = next(iter(torch.utils.data.DataLoader(rows, 256, shuffle=True)))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
    trained(torch, model, model, torch.optim.Adam(model.parameters()), x, y)


def of_images(torch: Any) -> None:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, stride=2, padding=1, bias=False), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    trained(torch, model, model, optimizer, x, y)


def of_words(torch: Any) -> None:
    nn, f = torch.nn, torch.nn.functional
    words = torch.randint(0, 500, (8, 65))
    layers = nn.ModuleDict(
        {
            "embedding": nn.Embedding(500, 128), "norm": nn.LayerNorm(128), "qkv": nn.Linear(128, 384),
            "up": nn.Linear(128, 256), "down": nn.Linear(256, 128), "head": nn.Linear(128, 500),
        }
    )  # fmt: skip

    def model(words: Any) -> Any:
        x = layers.embedding(words) + layers.embedding(torch.arange(words.shape[1]))
        heads = layers.qkv(layers.norm(x)).split(128, 2)
        q, k, v = (t.view(*t.shape[:2], 4, 32).transpose(1, 2) for t in heads)
        weights = (q @ k.transpose(-2, -1) * 0.2).softmax(-1)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True) + weights @ v
        x = x + mixed.transpose(1, 2).reshape(x.shape)
        x = x + layers.down(f.gelu(layers.up(layers.norm(x))))
        return layers.head(x).flatten(0, 1)

    optimizer = torch.optim.AdamW(layers.parameters())
    trained(torch, layers, model, optimizer, words[:, :-1], words[:, 1:].flatten())


def of_formulas(torch: Any) -> None:
    x = torch.rand(400, 200, requires_grad=True)
    y = ((x - 0.5) * 2 / 3 + 1).exp().log().tanh().sigmoid()
    (((y - x) ** 2).mean() + torch.nn.functional.mse_loss(y, x * y)).backward()
    with torch.no_grad():
        torch.cat([x, y]).sum(0)
        torch.stack([x, y]).mean(1)
        torch.where(x > y, x, y).max()
        x.t().contiguous()


QUICK: dict[str, Callable[[Any], None]] = {
    "a training on words": of_words,
    "a training on images": of_images,
    "a training on rows": of_rows,
    "formulas": of_formulas,
}
STEPS: dict[str, Callable[[Any], None]] = {
    **QUICK,
    "products of float32": lambda torch: products(torch, "float32"),
    "arithmetic of float32": lambda torch: binary(torch, "float32"),
    "activations": lambda torch: elementwise(torch, ACTIVATIONS, "float32"),
    "layers of pools and norms": pools_and_norms,
    "convolutions": lambda torch: convolutions(torch, True),
    "convolutions of inference": lambda torch: convolutions(torch, False),
    "losses": losses,
    "optimizers": optimizers,
    "attention": attention,
    "reductions of float32": lambda torch: reductions(torch, "float32"),
    "indices, copies and conversions": indexing,
    "random numbers": random,
    "recurrent layers": recurrent,
    "functions of float32": lambda torch: elementwise(torch, UNARY, "float32"),
    "arithmetic of float64": lambda torch: binary(torch, "float64"),
    "reductions of float64": lambda torch: reductions(torch, "float64"),
    "functions of float64": lambda torch: elementwise(torch, UNARY, "float64"),
    "products of float64": lambda torch: products(torch, "float64"),
    "arithmetic of bfloat16": lambda torch: binary(torch, "bfloat16"),
    "products of bfloat16": lambda torch: products(torch, "bfloat16"),
    "functions of bfloat16": lambda torch: elementwise(torch, UNARY, "bfloat16"),
    "arithmetic of int64": lambda torch: binary(torch, "int64"),
}


def entries_on_disk() -> int:
    """The number of entries on disk."""
    from rushlight._codegen import cache

    folder = cache.directory()
    return 0 if folder is None else sum(not name.startswith(".") for name in os.listdir(folder))


def warm(processes: int | None = None, quick: bool = False) -> Iterator[str]:
    """Run the steps in so many processes, as many as there are cores by default; the name of each that is over.

    RuntimeError with what a step printed when it fails.
    """
    count = processes or os.cpu_count() or 1
    command = [sys.executable, "-m", __name__]
    started = [
        subprocess.Popen(
            [*command, str(k), str(count), str(int(quick))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for k in range(count)
    ]
    try:
        for each in started:
            assert each.stdout is not None
            assert each.stderr is not None
            for line in each.stdout:
                yield line.strip()
            if each.wait():
                raise RuntimeError(f"a kernel cannot be compiled:\n{each.stderr.read()}")
    finally:
        for each in started:
            each.kill()


def main(number: int, count: int, quick: int) -> None:
    """The steps that fall to one of `count` processes; with `quick`, of the first ones."""
    import warnings

    import rushlight as torch

    warnings.simplefilter("ignore")
    for name in list(QUICK if quick else STEPS)[number::count]:
        STEPS[name](torch)
        print(name, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
