"""Short programs in fresh processes at default settings: Rushlight against PyTorch, in alternating rounds.

    python benchmarks/first_second.py [--rounds 5] [--only gelu] [--new-machine]

Each program is what somebody tries first: about a quarter of a second of work for PyTorch, run once. Nothing is
warmed up, no variable is set. Two times are taken of each process: the whole of it, from its start to its exit
(imports included), and the program's work alone. Kernels stand on disk from a run before the first round; with
`--new-machine` each process begins with an empty folder for them. The columns hold PyTorch's time divided by ours:
above 1 Rushlight is ahead.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import alternation
import training

WHOLE, WORK = 3.0, 1.6  # what is promised of the geometric means
NEW_MACHINE = 1.3  # of the whole process's, with nothing on disk

Program = Callable[[Any], object]


def calls(times: int, make: Callable[[Any], Callable[[], object]]) -> Program:
    """The same call, `times` times."""

    def program(torch: Any) -> None:
        call = make(torch)
        for _ in range(times):
            call()

    return program


def pointwise(name: str, times: int) -> Program:
    def make(torch: Any) -> Callable[[], object]:
        f = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        x = torch.rand(1_000_000) + 0.5
        return lambda: f(x)

    return calls(times, make)


def of_shape(
    f: Callable[..., object], times: int, *shapes: tuple[int, ...], dtype: str = "float32"
) -> Program:
    """f(torch, *tensors) of normal numbers."""

    def make(torch: Any) -> Callable[[], object]:
        given = [torch.randn(s).to(getattr(torch, dtype)) for s in shapes]
        return lambda: f(torch, *given)

    return calls(times, make)


def with_backward(f: Callable[..., Any], times: int, *shapes: tuple[int, ...]) -> Program:
    def make(torch: Any) -> Callable[[], object]:
        given = [torch.randn(s, requires_grad=True) for s in shapes]
        return lambda: f(torch, *given).sum().backward()

    return calls(times, make)


def training_steps(name: str, steps: int) -> Program:
    return calls(steps, lambda torch: training.CASES[name](torch))


def resnet_inference(torch: Any) -> None:
    """ResNet-18's shapes on one image of 224 x 224."""
    nn = torch.nn

    def block(a: int, b: int, stride: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
        )  # fmt: skip

    stem = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    widths = (
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
    )
    model = nn.Sequential(
        *stem, *(block(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
    )  # fmt: skip
    model.eval()
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        for _ in range(8):
            model(image)


def generate(torch: Any) -> None:
    """Tokens of an untrained Transformer, one at a time, without a cache."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    words, head = nn.Embedding(256, 128), nn.Linear(128, 256)
    tokens = torch.zeros(1, 1, dtype=torch.int64)
    with torch.no_grad():
        for _ in range(60):
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            logits = head(model(words(tokens), mask=mask)[:, -1])
            choice = torch.multinomial(torch.softmax(logits, -1), 1)
            tokens = torch.cat([tokens, choice], 1)


def small_inference(torch: Any) -> None:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 4)
    )
    with torch.inference_mode():
        state = torch.zeros(1, 64)
        for _ in range(5000):
            model(state)


def linear_regression(torch: Any) -> None:
    x = torch.randn(200, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(200)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(1500):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x).squeeze(1), y).backward()
        optimizer.step()


def rosenbrock(torch: Any) -> None:
    p = torch.tensor([-1.5, 2.0], requires_grad=True)
    optimizer = torch.optim.Adam([p], lr=0.02)
    for _ in range(1500):
        optimizer.zero_grad()
        ((1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2).backward()
        optimizer.step()


def kmeans(torch: Any) -> None:
    x = torch.randn(20_000, 16)
    centres = x[:32].clone()
    for _ in range(20):
        nearest = torch.cdist(x, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, x)
        centres = sums / torch.bincount(nearest, minlength=32).clamp(min=1)[:, None]


def power_iteration(torch: Any) -> None:
    a = torch.randn(400, 400)
    a = a @ a.T
    v = torch.ones(400)
    for _ in range(3000):
        v = a @ v
        v = v / v.norm()


def polynomial(torch: Any) -> None:
    """A third-order polynomial fitted to a sine by autograd and hand-written updates."""
    x = torch.linspace(-math.pi, math.pi, 2000)
    y = torch.sin(x)
    weights = [torch.randn((), requires_grad=True) for _ in range(4)]
    a, b, c, d = weights
    for _ in range(1500):
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-6 * w.grad
                w.grad = None


def an_epoch(torch: Any) -> None:
    data = torch.utils.data
    loader = data.DataLoader(
        data.TensorDataset(torch.randn(8192, 64), torch.randint(0, 10, (8192,))), 32, shuffle=True
    )  # fmt: skip
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def checkpoint(torch: Any) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(12)))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            torch.save(model.state_dict(), f"{folder}/a.pt")
            model.load_state_dict(torch.load(f"{folder}/a.pt"))


def reinforce(torch: Any) -> None:
    """Policy gradients on a bandit: many tiny tensors, distributions and a list of log-probabilities."""
    policy = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    for _ in range(60):
        logs, rewards = [], []
        for _ in range(20):
            choice = torch.distributions.Categorical(logits=policy(torch.randn(4)))
            action = choice.sample()
            logs.append(choice.log_prob(action))
            rewards.append(float(action))
        weights = torch.tensor(rewards)
        optimizer.zero_grad()
        (-torch.stack(logs) * (weights - weights.mean())).sum().backward()
        optimizer.step()


def autoencoder(torch: Any) -> None:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
    images = torch.rand(64, 1, 28, 28)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(15):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy(model(images), images).backward()
        optimizer.step()


def game_of_life(torch: Any) -> None:
    """Boards rolled in eight directions, and compared."""
    board = (torch.rand(128, 128) < 0.3).int()
    steps = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    for _ in range(400):
        around = sum(board.roll(a, 0).roll(b, 1) for a, b in steps)
        board = ((around == 3) | ((board == 1) & (around == 2))).int()


def writes_with_gradient(torch: Any) -> None:
    w = torch.randn(100, requires_grad=True)
    for _ in range(1500):
        y = w * 1.0
        y += 0.01
        y.mul_(2).sub_(w)
        y[10:20].mul_(3)
        y.sum().backward()


PROGRAMS: dict[str, Program] = {
    "exp of 1M": pointwise("exp", 300),
    "gelu of 1M": pointwise("gelu", 300),
    "erf of 1M": pointwise("erf", 300),
    "tanh of 1M": pointwise("tanh", 200),
    "x * y + z of 1M": of_shape(lambda t, x, y, z: x * y + z, 300, *[(1_000_000,)] * 3),
    "x > 0, where of 1M": of_shape(lambda t, x: t.where(x > 0, x, 0.1 * x), 200, (1_000_000,)),
    "randn of 1M": calls(60, lambda t: lambda: t.randn(1_000_000)),
    "cumsum of 1M": of_shape(lambda t, x: x.cumsum(0), 150, (1_000_000,)),
    "sort of 100k": of_shape(lambda t, x: x.sort(), 40, (100_000,)),
    "topk of 512 x 4096": of_shape(lambda t, x: x.topk(10), 40, (512, 4096)),
    "softmax of 1024 x 1024": of_shape(lambda t, x: x.softmax(1), 300, (1024, 1024)),
    "layer norm of 1024 x 1024": of_shape(lambda t, x: t.nn.functional.layer_norm(x, (1024,)), 300, (1024, 1024)),
    "sum over rows and columns": of_shape(lambda t, x: (x.sum(0), x.sum(1)), 500, (1024, 1024)),
    "var and mean": of_shape(lambda t, x: t.var_mean(x, 1), 200, (1024, 1024)),
    "transposed copy": of_shape(lambda t, x: x.t().contiguous(), 200, (1024, 1024)),
    "rows by index": of_shape(lambda t, x: x[t.arange(0, 20000, 2)], 200, (20000, 64)),
    "product of 512": of_shape(lambda t, x, y: x @ y, 150, (512, 512), (512, 512)),
    "product of 512, float64": of_shape(lambda t, x, y: x @ y, 80, (512, 512), (512, 512), dtype="float64"),
    "batched products": of_shape(lambda t, x, y: x @ y, 60, (64, 128, 64), (64, 64, 128)),
    "solve of 300": of_shape(lambda t, x, y: t.linalg.solve(x, y), 60, (300, 300), (300, 8)),
    "svd of 150": of_shape(lambda t, x: t.linalg.svd(x), 20, (150, 150)),
    "fft of 64 x 4096": of_shape(lambda t, x: t.fft.rfft(x), 200, (64, 4096)),
    "convolution 3 x 3": of_shape(lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), 20, (16, 64, 32, 32), (64, 64, 3, 3)),
    "depthwise convolution": of_shape(lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=64), 40, (16, 64, 32, 32), (64, 1, 3, 3)),
    "convolution, backward": with_backward(lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), 10, (16, 32, 32, 32), (64, 32, 3, 3)),
    "max pool, backward": with_backward(lambda t, x: t.nn.functional.max_pool2d(x, 2), 40, (16, 64, 32, 32)),
    "batch norm, backward": with_backward(lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True), 30, (16, 64, 32, 32)),
    "attention": of_shape(lambda t, q: t.nn.functional.scaled_dot_product_attention(q, q, q), 20, (4, 8, 256, 64)),
    "bfloat16 products": of_shape(lambda t, x, y: x @ y, 40, (256, 256), (256, 256), dtype="bfloat16"),
    "training: mlp": training_steps("mlp 784-128-64-10, batch 64", 200),
    "training: mnist cnn": training_steps("mnist cnn, batch 64", 5),
    "training: resnet-18": training_steps("resnet-18 at 32 x 32, batch 32", 2),
    "training: gpt": training_steps("gpt 4 x 128, 128 tokens, batch 16", 3),
    "training: lstm": training_steps("lstm language model, 20 x 35 words", 4),
    "training: autoencoder": autoencoder,
    "an epoch of a DataLoader": an_epoch,
    "linear regression": linear_regression,
    "polynomial by hand": polynomial,
    "rosenbrock by Adam": rosenbrock,
    "policy gradients": reinforce,
    "k-means": kmeans,
    "power iteration": power_iteration,
    "resnet, one image": resnet_inference,
    "transformer, tokens": generate,
    "small network, 5000 calls": small_inference,
    "game of life": game_of_life,
    "writes with gradient": writes_with_gradient,
    "save and load": checkpoint,
}  # fmt: skip


def work(name: str, side: str) -> None:
    """In a process of its own: run a program and print the seconds of its work."""
    torch = importlib.import_module(side)
    start = time.perf_counter()
    torch.manual_seed(0)
    PROGRAMS[name](torch)
    print(json.dumps(time.perf_counter() - start))


def once(name: str, side: str, new_machine: bool) -> tuple[float, float]:
    """Seconds of one process, and of the work in it."""
    # Installed packages have their bytecode on disk; so have both sides here, as anywhere else.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        if new_machine:
            environment["RUSHLIGHT_CACHE_DIR"] = folder
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, __file__, "--work", side, "--only", name],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        taken = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{name} on {side} ended with {done.returncode}:\n{done.stderr}")
    return taken, json.loads(done.stdout.splitlines()[-1])


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--new-machine", action="store_true", help="no kernels on disk")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.only, options.work)
        return 0
    print(alternation.machine())
    head = f"{'program':<28} {'ours s':>8} {'theirs s':>8} {'ratio':>6}   {'work: ours':>10} {'theirs':>8} {'ratio':>6}"
    print(f"{head}\n{'-' * len(head)}")
    wholes, works = [], []
    for name in (n for n in PROGRAMS if re.search(options.only, n)):
        if not options.new_machine:
            once(name, "rushlight", False)
        rounds = []
        for number in range(options.rounds):
            order = ("rushlight", "torch") if number % 2 else ("torch", "rushlight")
            taken = {side: once(name, side, options.new_machine) for side in order}
            rounds.append((*taken["rushlight"], *taken["torch"]))
        whole, ours, all_theirs, theirs = (
            statistics.median(column) for column in zip(*rounds, strict=True)
        )
        wholes.append(all_theirs / whole)
        works.append(theirs / ours)
        print(
            f"{name:<28} {whole:>8.3f} {all_theirs:>8.3f} {wholes[-1]:>6.2f}   "
            f"{ours:>10.3f} {theirs:>8.3f} {works[-1]:>6.2f}",
            flush=True,
        )
    print(
        f"geometric mean {geometric_mean(wholes):.2f} (worst {min(wholes):.2f}) of the whole process, "
        f"{geometric_mean(works):.2f} (worst {min(works):.2f}) of the work; "
        f"{sum(w < 1 for w in works)} of {len(works)} behind at work"
    )
    kept = geometric_mean(wholes) >= (NEW_MACHINE if options.new_machine else WHOLE)
    return 0 if kept and (options.new_machine or geometric_mean(works) >= WORK) else 1


if __name__ == "__main__":
    sys.exit(main())
