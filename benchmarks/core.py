"""What one operation costs: Rushlight against PyTorch, in one process, in alternating rounds.

    python benchmarks/core.py [--threads 1] [--rounds 25] [--only chain]

Needs PyTorch beside Rushlight. Run it on a quiet machine, and give the lines above the table with every number.
"""

from __future__ import annotations

import argparse
import os

import alternation


def add(torch):
    """A recorded `a + b` of two tensors of 4 elements, one of which requires gradients."""
    a = torch.ones(4, requires_grad=True)
    b = torch.ones(4)
    return lambda: a + b


def chain_forward(torch):
    """40 operations on 4 elements, recorded."""
    a = torch.ones(4, requires_grad=True)
    b = torch.full((4,), 0.5)

    def run():
        x = a
        for _ in range(20):
            x = x * b + b
        return x

    return run


def chain(torch):
    """40 operations on 4 elements and a sum, forward and backward."""
    forward = chain_forward(torch)
    (a,) = (cell.cell_contents for cell in forward.__closure__ if cell.cell_contents.requires_grad)

    def run():
        forward().sum().backward()
        a.grad = None

    return run


def mlp(torch):
    """One training step of an MLP 784-128-64-10 on a batch of 64: forward, cross-entropy, backward, Adam."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(64, 784)
    y = torch.randint(0, 10, (64,))

    def run():
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return run


CASES = [  # name, what makes the callable for one library, the largest ratio allowed
    ("add, 4 elements, recorded", add, 0.60),
    ("chain of 40 ops, 4 elements, forward", chain_forward, None),
    ("chain of 40 ops, 4 elements, forward+backward", chain, 0.60),
    ("MLP 784-128-64-10, batch 64, Adam step", mlp, 0.80),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    args = parser.parse_args()
    os.environ.setdefault("RUSHLIGHT_COMPILED", "1")  # as in a program that has run for a while
    alternation.limit_threads(args.threads)

    import torch

    import rushlight

    torch.set_num_threads(args.threads)
    print(alternation.machine())
    print(f"PyTorch  {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"\n{alternation.HEADER}")
    missed = []
    for name, make, target in CASES:
        if args.only in name:
            measured = alternation.alternate(make(rushlight), make(torch), rounds=args.rounds)
            print(alternation.row(name, measured, target), flush=True)
            if target is not None and measured.ratio > target:
                missed.append(name)
    if missed:
        raise SystemExit(f"above the target: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
