"""How many functions of Python a call runs through before its kernel: at most four, each entered once.

docs/architecture.md names these functions; they are read from its tables and compared with what runs.
"""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._backends import cpu, llvm
from rushlight.autograd import engine


@pytest.fixture
def traced():
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
    return [code.co_name.strip("<>") for code in stack]


PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"


def before_the_kernel(heading):
    """The functions before the kernel of a call, as the page has them."""
    section = PAGE.read_text("utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\| \d \| `(\w+)`", section, re.MULTILINE)


def before_the_gradient(kernel):
    """The functions between the engine's loop and a kernel of a gradient, as the page has them."""
    (row,) = re.findall(rf"^\| .*\| (.*) \| `{kernel}` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return re.findall(r"`(\w+)`", row)


def ones(*shape):
    return torch.ones(shape, requires_grad=True)


CONV2D = F.conv2d, [(1, 3, 8, 8), (4, 3, 3, 3)]
# heading in the page: kernel, function, shapes
FORWARD = {
    "`x + y`": ("add", operator.add, [(3, 4), (3, 4)]),
    "`F.relu(x)`": ("relu", F.relu, [(3, 4)]),
    "`F.conv2d(x, w)`": ("convolve", *CONV2D),
}
BACKWARD = {
    "sum_to": (operator.add, [(3, 4), (4,)]),
    "threshold_gradient": (F.relu, [(3, 4)]),
    "convolve_transposed": CONV2D,
    "convolve_weight": CONV2D,
}


@pytest.mark.parametrize("name", FORWARD)
def test_functions_before_the_kernel(name, traced):
    kernel, function, shapes = FORWARD[name]
    inputs = [ones(*shape) for shape in shapes]
    stacks, entered = traced(kernel, lambda: function(*inputs))
    (stack,) = stacks
    assert names(stack) == before_the_kernel(name)
    assert len(stack) <= 4
    assert [entered[code] for code in stack] == [1] * len(stack)


@pytest.mark.parametrize("kernel", BACKWARD)
def test_functions_before_the_kernel_of_a_gradient(kernel, traced):
    function, shapes = BACKWARD[kernel]
    inputs = [ones(*shape) for shape in shapes]
    result = function(*inputs)
    g = torch.ones_like(result)
    stacks, entered = traced(kernel, lambda: result.backward(g, retain_graph=True), engine.run)
    (stack,) = stacks
    assert names(stack) == before_the_gradient(kernel)
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
    printed = [code.co_name for code in entered if code.co_filename.startswith("<rushlight")]
    assert printed == ["grad", "apply"]  # the first asks tensors and modes for another function


def test_a_backward_enters_the_engine_once(traced):
    x, w, g = ones(1, 3, 8, 8), ones(4, 3, 3, 3), torch.ones(1, 4, 6, 6)
    _, entered = traced("convolve", lambda: F.relu(F.conv2d(x, w)).backward(g))
    for function in (engine.backward_of_tensor, engine.backward, engine.run):
        assert entered[function.__code__] == 1
