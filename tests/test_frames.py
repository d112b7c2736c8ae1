"""How many functions of Python a call runs through before its kernel: at most four, each entered once.

docs/architecture.md names these functions; what it says is held here.
"""

from __future__ import annotations

import operator
import sys

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._backends import cpu, llvm
from rushlight.autograd import engine


@pytest.fixture
def traced(monkeypatch):
    """`traced(kernel, call, caller)`: for each run of a kernel the functions between it and `caller`, and how
    often each function of Python was entered in the whole call."""

    def trace(name, call, caller=None):
        llvm.activate()  # no function that counts work stands before kernels afterwards
        call()  # prints the functions, loads the kernel
        kernel = cpu.kernel(name)
        stacks: list[list] = []

        def watched(*args, **options):
            frame, found = sys._getframe(1), []
            while frame.f_code is not (caller or call).__code__:
                found.append(frame.f_code)
                frame = frame.f_back
            stacks.append(found[::-1])
            return kernel(*args, **options)

        entered: dict = {}

        def enter(frame, event, _):
            if event == "call":
                entered[frame.f_code] = entered.get(frame.f_code, 0) + 1

        cpu.replace({}, {name: watched})
        call()  # prints what depends on the kernel
        stacks.clear()
        before = sys.getprofile()
        sys.setprofile(enter)
        try:
            call()
        finally:
            sys.setprofile(before)
            cpu.replace({}, {name: kernel})
        return stacks, entered

    return trace


def names(stack):
    return [code.co_name for code in stack]


def ones(*shape):
    return torch.ones(shape, requires_grad=True)


FORWARD = {
    "x + y": ("add", operator.add, [(3, 4), (3, 4)], ["add"]),
    "relu": ("relu", F.relu, [(3, 4)], ["relu", "functional_relu", "relu"]),
    "conv2d": (
        "convolve", F.conv2d, [(1, 3, 8, 8), (4, 3, 3, 3)],
        ["conv2d", "conv2d", "convolution", "convolve"],
    ),
}  # fmt: skip
# From the engine's loop, which calls the nodes.
BACKWARD = {
    "relu": ("threshold_gradient", *FORWARD["relu"][1:3], ["apply", "<lambda>"]),
    "conv2d, input": (
        "convolve_transposed", *FORWARD["conv2d"][1:3],
        ["apply", "input_gradient", "convolution", "convolve"],
    ),
    "conv2d, weight": (
        "convolve_weight", *FORWARD["conv2d"][1:3],
        ["apply", "weight_gradient", "convolution_weight", "convolution_weight"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_functions_before_the_kernel(name, traced):
    kernel, function, shapes, expected = FORWARD[name]
    inputs = [ones(*shape) for shape in shapes]
    stacks, entered = traced(kernel, lambda: function(*inputs))
    (stack,) = stacks
    assert names(stack) == expected
    assert len(stack) <= 4
    assert [entered[code] for code in stack] == [1] * len(stack)


@pytest.mark.parametrize("name", BACKWARD)
def test_functions_before_the_kernel_of_a_gradient(name, traced):
    kernel, function, shapes, expected = BACKWARD[name]
    inputs = [ones(*shape) for shape in shapes]
    result = function(*inputs)
    g = torch.ones_like(result)
    stacks, entered = traced(kernel, lambda: result.backward(g, retain_graph=True), engine.run)
    (stack,) = stacks
    assert names(stack) == expected
    assert len(stack) <= 4
    assert [entered[code] for code in stack] == [1] * len(stack)


def test_the_gradient_of_a_sum_runs_no_kernel(traced):
    x, y, g = ones(3, 4), ones(3, 4), torch.ones(3, 4)
    result = x + y
    for kernel in ("add", "sum_to", "multiply"):
        stacks, entered = traced(
            kernel, lambda: torch.autograd.grad(result, (x, y), g, retain_graph=True), engine.run
        )
        assert stacks == []
    assert [code.co_name for code in entered if code.co_filename.startswith("<rushlight")] == [
        "apply"
    ]


def test_a_backward_enters_the_engine_once(traced):
    x, w, g = ones(1, 3, 8, 8), ones(4, 3, 3, 3), torch.ones(1, 4, 6, 6)
    _, entered = traced("convolve", lambda: F.relu(F.conv2d(x, w)).backward(g))
    for function in (engine.backward_of_tensor, engine.backward, engine.run):
        assert entered[function.__code__] == 1
