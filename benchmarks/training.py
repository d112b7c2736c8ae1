"""Whole training steps, zero_grad to optimizer.step(): Rushlight against PyTorch, in alternating rounds.

    python benchmarks/training.py [--threads 2] [--rounds 9] [--only gpt] [--no-memory]

Time: both sides in one process, turn and turn about (`alternation.py`). Memory: each side once more, in
a process of its own, which takes STEPS steps after some to warm up: the most memory that it held at
once beyond what it held after the import, and minor page faults for each step.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import alternation

STEPS = 10
TIME, MEMORY = 0.6, 1.0  # what is promised of the ratios


def wrapped(model: Any) -> Any:
    """What is trained: the model itself, or what `distributed.py` puts around it."""
    return model


def stepping(torch: Any, model: Any, loss: Callable[[], Any], optimizer: Any = None) -> Callable:
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.item()

    return step


def classifying(torch: Any, model: Any, *shape: int, classes: int = 10) -> Callable:
    model = wrapped(model)
    x, y = torch.randn(shape), torch.randint(0, classes, shape[:1])
    return stepping(torch, model, lambda: torch.nn.functional.cross_entropy(model(x), y))


def mlp(torch: Any) -> Callable:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return classifying(torch, model, 64, 784)


def cnn(torch: Any) -> Callable:
    """The network of PyTorch's MNIST example: two convolutions, dropout, two linear layers."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10),
    )  # fmt: skip
    return classifying(torch, model, 64, 1, 28, 28)


def resnet18(torch: Any) -> Any:
    """ResNet-18 (He et al. 2015) with the first layer for images of 32 x 32."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b),
            )  # fmt: skip
            same = stride == 1 and a == b
            self.skip = nn.Identity() if same else nn.Sequential(
                nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.skip(x))

    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for a, b, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(a, b, stride), Block(b, b, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def resnet(torch: Any) -> Callable:
    """The training of `resnet18`."""
    return classifying(torch, resnet18(torch), 32, 3, 32, 32)


def gpt(torch: Any) -> Callable:
    """A language model of 4 blocks of 128 channels and 4 heads, 128 characters of 65 kinds."""
    nn, wide, heads, length, kinds, batch = torch.nn, 128, 4, 128, 65, 16

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(wide), nn.LayerNorm(wide)
            self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
            self.mlp = nn.Sequential(
                nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide)
            )

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            q, k, v = (
                z.view(n, t, heads, c // heads).transpose(1, 2)
                for z in self.qkv(self.first(x)).split(c, 2)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
            return x + self.mlp(self.second(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(kinds, wide), nn.Embedding(length, wide)
            self.blocks = nn.Sequential(*(Block() for _ in range(4)))
            self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, kinds, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = wrapped(Model())
    tokens = torch.randint(0, kinds, (batch, length + 1))
    x, y = tokens[:, :-1], tokens[:, 1:].reshape(-1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = lambda: nn.functional.cross_entropy(model(x).view(-1, kinds), y)
    return stepping(torch, model, loss, optimizer)


def lstm(torch: Any) -> Callable:
    """A language model: 5000 words, two layers of 200 cells, 20 sequences of 35 words, clipped SGD."""
    nn, kinds, wide = torch.nn, 5000, 200
    words, layer, head = nn.Embedding(kinds, wide), nn.LSTM(wide, wide, 2), nn.Linear(wide, kinds)
    model = nn.ModuleList([words, layer, head])
    tokens = torch.randint(0, kinds, (36, 20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss() -> Any:
        out, _ = layer(words(tokens[:-1]))
        return nn.functional.cross_entropy(head(out).view(-1, kinds), tokens[1:].reshape(-1))

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return value.item()

    return step


CASES = {
    "mlp 784-128-64-10, batch 64": mlp,
    "mnist cnn, batch 64": cnn,
    "resnet-18 at 32 x 32, batch 32": resnet,
    "gpt 4 x 128, 128 tokens, batch 16": gpt,
    "lstm language model, 20 x 35 words": lstm,
}


def made(torch: Any, name: str) -> Callable:
    torch.manual_seed(0)
    return CASES[name](torch)


def most_held() -> float:
    """The most MiB that this process held at once."""
    try:
        with open("/proc/self/status") as file:  # ru_maxrss counts what the parent held, too
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 1024)  # bytes there, KiB elsewhere


def held(side: str, name: str, threads: int) -> None:
    """In a process of its own: print the MiB that training took at most, and page faults a step."""
    import resource

    torch = importlib.import_module(side)
    torch.set_num_threads(threads)
    before = most_held()
    step = made(torch, name)
    for _ in range(STEPS):
        step()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(STEPS):
        step()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps([most_held() - before, faults / STEPS]))


def memory(side: str, name: str, threads: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--held", side, "--only", name, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    most, faults = json.loads(done.stdout.splitlines()[-1])
    return most, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-memory", action="store_true", help="time only")
    parser.add_argument("--held", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    alternation.limit_threads(arguments.threads)
    os.environ.setdefault("RUSHLIGHT_COMPILED", "1")
    if arguments.held:
        held(arguments.held, arguments.only, arguments.threads)
        return
    import torch

    import rushlight

    torch.set_num_threads(arguments.threads)
    rushlight.set_num_threads(arguments.threads)
    print(alternation.machine())
    print(f"PyTorch  {torch.__version__}\n")
    print(
        f"{'training step':<36} {'Rushlight ms':>12} {'PyTorch ms':>11} {'ratio':>6}   (quartiles)  "
        f"{'MiB':>12} {'ratio':>6} {'faults a step':>15}"
    )
    ratios, kept = [], True
    for name in CASES:
        if arguments.only not in name:
            continue
        measured = alternation.alternate(
            made(rushlight, name), made(torch, name), arguments.rounds, stretch=0.3
        )
        ratios.append(measured.ratio)
        kept &= measured.ratio <= TIME
        line = (
            f"{name:<36} {1e3 * measured.ours:>12.2f} {1e3 * measured.theirs:>11.2f} "
            f"{measured.ratio:>6.2f}  ({measured.low:.2f} .. {measured.high:.2f})"
        )
        if not arguments.no_memory:
            (a, f), (b, g) = (memory(s, name, arguments.threads) for s in ("rushlight", "torch"))
            line += f" {f'{a:.0f} / {b:.0f}':>12} {a / b:>6.2f} {f'{f:.0f} / {g:.0f}':>15}"
            kept &= a / b <= MEMORY
        print(line, flush=True)
    if ratios:
        print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
        print(f"promised: time <= {TIME}, memory <= {MEMORY}: {'kept' if kept else 'BROKEN'}")
    sys.exit(not kept)


if __name__ == "__main__":
    main()
