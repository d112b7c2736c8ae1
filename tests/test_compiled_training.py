"""Whole training steps in machine code: the same bits for any number of threads, and with no machine code
the same numbers but for rounding."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from processes import printed
from rushlight._backends import llvm

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
STEPS = 2


@pytest.fixture(scope="module")
def training():
    """benchmarks/training.py."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("training")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trained(training, name):
    """Losses of the first steps, and gradients and parameters after them."""
    step = training.made(torch, name)
    losses = [step() for _ in range(STEPS)]
    optimizer = inspect.getclosurevars(step).nonlocals["optimizer"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return losses, [(p.grad.numpy().copy(), p.detach().numpy().copy()) for p in parameters]


NAMES = ["mlp", "mnist cnn", "resnet-18", "gpt", "lstm"]


def full(training, short):
    (name,) = [name for name in training.CASES if name.startswith(short)]
    return name


def test_these_are_all_programs(training):
    assert [full(training, short) for short in NAMES] == list(training.CASES)


@pytest.mark.parametrize("short", NAMES)
def test_same_bits_for_any_number_of_threads(short, training):
    assert llvm.activate()
    name, found = full(training, short), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(trained(training, name))
    first = found[0]
    for losses, arrays in found[1:]:
        assert losses == first[0]
        for pair, expected in zip(arrays, first[1], strict=True):
            for a, b in zip(pair, expected, strict=True):
                assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("short", ["mlp", "mnist cnn", "gpt", "lstm"])
def test_losses_without_machine_code(short, training):
    """The reference back end, in another process, has nearly the same losses."""
    assert llvm.activate()
    name = full(training, short)
    source = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import training, rushlight\n"
        f"step = training.made(rushlight, {name!r})\nprint(*(step() for _ in range({STEPS})))"
    )
    printed_losses = printed(source, RUSHLIGHT_COMPILED="0").split()
    losses, _ = trained(training, name)
    np.testing.assert_allclose(losses, [float(n) for n in printed_losses], rtol=1e-4)


def test_same_bits_whatever_is_on_disk(tmp_path):
    """A training whose small steps come to machine code on the way, in an empty folder of kernels and in a full one."""
    program = """
import rushlight as torch
nn, f = torch.nn, torch.nn.functional
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(32, 8), torch.randint(4, (32,))
for _ in range(150):
    loss = f.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = f.cross_entropy(model(torch.randn(32, 3, 16, 16)), torch.arange(32) % 10)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
from rushlight._backends import llvm
assert llvm.active or not llvm.activate()
"""
    own = {"RUSHLIGHT_COMPILED": None, "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (printed(program, **own) for _ in range(2))
    assert first == second
    assert len(first.split()) == 153
