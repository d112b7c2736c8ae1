"""Steps that `torch.compile` makes programs of, against the same steps as they are written, and against PyTorch.

    python benchmarks/compile.py [--rounds 5] [--threads 1] [--only mlp] [--torch]

Each case is a step: a training step with its optimizer, or a model's inference of one example. Compiled and plain calls
alternate; the median of the rounds counts. Columns: milliseconds as written, compiled, PyTorch as written (with
`--torch`); the ratios (above 1: the compiled step is ahead); seconds of the first call, and graphs, operators and guards.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any


def mlp(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(64, 64), torch.randint(0, 10, (64,)))


def cnn(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,)))


def resnet(torch: Any) -> Callable[[], Any]:
    from training import resnet18

    model = resnet18(torch)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return step_of(torch, model, optimizer, torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))


def vae(torch: Any) -> Callable[[], Any]:
    nn, F = torch.nn, torch.nn.functional
    encode, mean, spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
    decode = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid())
    parts = nn.ModuleList([encode, mean, spread, decode])
    optimizer = torch.optim.Adam(parts.parameters(), 1e-3)
    x = torch.rand(64, 784)

    def step() -> Any:
        optimizer.zero_grad()
        h = F.relu(encode(x))
        mu, log_var = mean(h), spread(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
        y = decode(z)
        loss = F.binary_cross_entropy(y, x, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
        loss.backward()
        optimizer.step()
        return loss

    return step


def pinn(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x = torch.linspace(0, 1, 200).reshape(-1, 1)

    def step() -> Any:
        optimizer.zero_grad()
        t = x.clone().requires_grad_()
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        loss = (ddu + u).square().mean() + u[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt(torch: Any) -> Callable[[], Any]:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(64), nn.LayerNorm(64)
            self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
            self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

        def forward(self, x: Any) -> Any:
            b, n, c = x.shape
            q, k, v = (
                t.view(b, n, 4, c // 4).transpose(1, 2) for t in self.qkv(self.first(x)).split(c, 2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
            return x + self.mlp(self.second(x))

    model = nn.Sequential(
        nn.Embedding(100, 64), Block(), Block(), nn.LayerNorm(64), nn.Linear(64, 100)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, y = torch.randint(0, 100, (8, 64)), torch.randint(0, 100, (8, 64))

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def step_of(torch: Any, model: Any, optimizer: Any, x: Any, y: Any) -> Callable[[], Any]:
    """A training step of a classifier."""

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


CASES = {f.__name__: f for f in (mlp, cnn, resnet, vae, pinn, gpt)}


def seconds(f: Callable[[], Any], n: int) -> float:
    t = time.perf_counter()
    for _ in range(n):
        f()
    return (time.perf_counter() - t) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    import rushlight

    libraries: list[Any] = [rushlight]
    if options.torch:
        import torch

        libraries.append(torch)
    for library in libraries:
        library.set_num_threads(options.threads)
    products = [1.0, 1.0]
    count = 0
    for name, make in CASES.items():
        if options.only not in name:
            continue
        steps = []
        for library in libraries:
            library.manual_seed(0)
            steps.append(make(library))
        rushlight.manual_seed(0)
        compiled = rushlight.compile(make(rushlight))
        compiled()
        begin = time.perf_counter()
        compiled()
        first = time.perf_counter() - begin
        compiled()
        steps.insert(1, compiled)
        for f in steps:
            f()
        n = max(1, int(0.15 / seconds(steps[0], 2)))
        times: list[list[float]] = [[] for _ in steps]
        for _ in range(options.rounds):
            for k, f in enumerate(steps):
                times[k].append(seconds(f, n))
        medians = [statistics.median(t) for t in times]
        ratios = [medians[0] / medians[1], *[m / medians[1] for m in medians[2:]]]
        count += 1
        products = [p * r for p, r in zip(products, [*ratios, 1.0], strict=False)]
        what = compiled.programs[-1][1].summary() if compiled.programs else compiled.reasons[-1]
        shown = "  ".join(f"{1e3 * m:9.3f}" for m in medians)
        print(f"{name:8} {shown}  {'  '.join(f'{r:5.2f}' for r in ratios)}  {first:.2f} s  {what}")
    print(
        "geometric mean", "  ".join(f"{p ** (1 / count):.2f}" for p in products[: len(libraries)])
    )


if __name__ == "__main__":
    main()
