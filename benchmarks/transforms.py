"""Function transforms against PyTorch's `torch.func`, in alternating rounds, and `vmap` against the loop.

    python benchmarks/transforms.py [--threads 2] [--rounds 9] [--only jacobian]

A case gives a callable for each library; the ratio is our time over PyTorch's. The last column is how many
times faster than a loop over the batch our `vmap` is, where the case has a loop.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from typing import Any

import alternation
from training import resnet18

TIME, LOOP = 0.7, 5.0  # what is promised of the ratios: of PyTorch's time, and of the loop's


def small_cnn(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 5 * 5, 10),
    )  # fmt: skip


def mlp(torch: Any, *sizes: int) -> Any:
    nn = torch.nn
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def state(model: Any) -> dict[str, Any]:
    return {name: p.detach() for name, p in model.named_parameters()}


def per_sample_gradients(torch: Any) -> tuple[Callable, Callable]:
    """Gradients of each of 64 images of a small CNN."""
    func, F = torch.func, torch.nn.functional
    model = small_cnn(torch)
    x, y, parameters = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)), state(model)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(func.functional_call(model, parameters, (x[None],)), y[None])

    one = func.grad(loss)
    each = func.vmap(one, (None, 0, 0))
    return lambda: each(parameters, x, y), lambda: [one(parameters, a, b) for a, b in zip(x, y)]


def jacobian(torch: Any) -> tuple[Callable, None]:
    """The Jacobian of an MLP of 64, 128 and 64 units."""
    model, x = mlp(torch, 64, 128, 64), torch.randn(64)
    parameters = state(model)
    f = torch.func.jacrev(lambda x: torch.func.functional_call(model, parameters, (x,)))
    return lambda: f(x), None


def hessian(torch: Any) -> tuple[Callable, None]:
    """The Hessian of an MLP of three layers with one output, forward over reverse."""
    model, x = mlp(torch, 32, 64, 64, 1), torch.randn(32)
    parameters = state(model)
    f = torch.func.hessian(lambda x: torch.func.functional_call(model, parameters, (x,)).sum())
    return lambda: f(x), None


def ensemble(torch: Any) -> tuple[Callable, Callable]:
    """Ten MLPs on one batch, by `vmap` over their stacked parameters."""
    func = torch.func
    models = [mlp(torch, 784, 128, 128, 10) for _ in range(10)]
    parameters, buffers = func.stack_module_state(models)
    parameters = {k: p.detach() for k, p in parameters.items()}
    x = torch.randn(64, 784)
    call = lambda p, b, x: func.functional_call(models[0], (p, b), (x,))
    each = func.vmap(call, (0, 0, None))

    def loop() -> None:
        with torch.no_grad():
            for model in models:
                model(x)

    return lambda: each(parameters, buffers, x), loop


def tangent(torch: Any) -> tuple[Callable, None]:
    """A tangent of ResNet-18 for images of 32 x 32."""
    model = resnet18(torch).eval()
    parameters, buffers = state(model), dict(model.named_buffers())
    x, v = torch.randn(8, 3, 32, 32), torch.randn(8, 3, 32, 32)
    f = lambda x: torch.func.functional_call(model, (parameters, buffers), (x,))
    return lambda: torch.func.jvp(f, (x,), (v,)), None


CASES = {
    "per-sample gradients, CNN, batch 64": per_sample_gradients,
    "jacobian, MLP 64 -> 64": jacobian,
    "hessian, MLP of 3 layers": hessian,
    "ensemble of 10 MLPs": ensemble,
    "jvp, ResNet-18 at 32 x 32, batch 8": tangent,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    alternation.limit_threads(options.threads)
    import torch

    import rushlight

    for library in (torch, rushlight):
        library.set_num_threads(options.threads)
        library.manual_seed(0)
    print(alternation.machine(), f"\nPyTorch  {torch.__version__}\n")
    print(
        f"{'transform':40} {'Rushlight ms':>12} {'PyTorch ms':>11} {'ratio':>6}   (quartiles)     loop / vmap"
    )
    ratios, loops = [], []
    for name, case in CASES.items():
        if options.only not in name:
            continue
        (ours, loop), (theirs, _) = case(rushlight), case(torch)
        m = alternation.alternate(ours, theirs, options.rounds, 0.2)
        ratios.append(m.ratio)
        times = ""
        if loop is not None:
            loops.append(alternation.alternate(ours, loop, options.rounds, 0.2).ratio)
            times = f"{1 / loops[-1]:8.1f}"
        print(
            f"{name:40} {m.ours * 1e3:12.2f} {m.theirs * 1e3:11.2f} {m.ratio:6.2f}   ({m.low:.2f} .. {m.high:.2f}) {times}"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    kept = max(ratios) <= TIME
    print(
        f"\ngeometric mean {mean:.2f}; promised of each: time <= {TIME}: {'kept' if kept else 'BROKEN'}"
    )


if __name__ == "__main__":
    main()
