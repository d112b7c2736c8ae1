"""rushlight.compiler.explain: what it shows of the kernels that ran, and what it leaves behind."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from rushlight._backends import llvm
from rushlight._codegen import explanation
from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import lanes, parallel
from rushlight._codegen.types import Ptr, f32, i64


@kernel
def twice(x: Ptr[f32], out: Ptr[f32], n: i64):
    for lo, hi in parallel(n, 1000):
        for i in lanes(lo, hi):
            out[i] = x[i] * 2 + 1


def test_figures_and_stages(capsys):
    x = np.arange(5000, dtype=np.float32)
    out = np.zeros_like(x)
    torch.compiler.explain(lambda: twice.compiled()(x, out, x.size))
    text = capsys.readouterr().out
    assert text.startswith("test_compiler_explain.twice()\n  1 call, ")
    assert "0.0 MB" in text and "0.0 MFLOP" in text and "% of a copy" in text
    assert "store out[i] = ((load[f32](x[i]) * 2.0) + 1.0)" in text
    for stage in ("ir", "llvm", "optimised", "assembly"):
        assert f"\n  {stage}:\n" in text
    assert text.count("define void @twice(") == 2
    assert (out == x * 2 + 1).all()


def test_operations_and_bytes():
    x = np.ones(5000, np.float32)
    twice.compiled()(x, x, 5000)
    (run,) = explanation.recorded(lambda: [twice.compiled()(x, x, n) for n in (5000, 100)], ())
    assert (run.calls, run.flops) == (2, 2 * 5100)
    assert run.bytes == 2 * x.nbytes  # one array, twice


def test_operations_of_products_follow_from_the_arrays():
    llvm.activate()
    a, b = torch.randn(192, 256), torch.randn(256, 96)
    a @ b
    runs = explanation.recorded(lambda: a @ b, ())
    product = next(r for r in runs if r.kernel.__name__ == "product")
    exact = 2 * 192 * 256 * 96
    assert exact <= product.flops <= 1.2 * exact


def test_functions_of_elements(capsys):
    x = torch.randn(300, 300)
    torch.compiler.explain(torch.nn.functional.gelu, x, show="")
    assert "F=gelu" in capsys.readouterr().out


def test_chains_of_compiled_functions(capsys):
    step = torch.compile(lambda x: x * 2 + 1)
    x = torch.randn(300, 300)
    step(x)
    step(x)
    torch.compiler.explain(step, x, show="")
    assert "fused.fused()" in capsys.readouterr().out


def test_kernels_that_a_compiled_step_calls_as_one_list(capsys):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 64)

    @torch.compile
    def step():
        optimizer.zero_grad()
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step()
    before = step().item()
    torch.compiler.explain(step, show="")
    shown = capsys.readouterr().out
    assert "gemm.product(" in shown and "update.update(" in shown
    assert step().item() < before  # the steps of the explanation were taken


def test_nothing_ran(capsys):
    torch.compiler.explain(lambda: None)
    assert capsys.readouterr().out.startswith("no kernel ran")


def test_nothing_stays_behind():
    """Kernels call what they called before, also when the program fails."""
    x = np.ones(10, np.float32)
    run = twice.compiled()
    before = run.__globals__["function"]

    def fails():
        run(x, x, 10)
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        explanation.recorded(fails, ())
    assert run.__globals__["function"] is before
    gc.collect()


def test_hottest_loop():
    text = """\
f:
	.cfi_startproc
.L1:
	vaddps	%zmm0, %zmm1, %zmm2
.L2:
	vmulps	%zmm0, %zmm1, %zmm2
	vmulps	%zmm0, %zmm1, %zmm2
	jne	.L2
	jne	.L1
.L3:
	addq	$1, %rax
	jl	.L3
	retq
"""
    assert explanation.hottest(text).splitlines()[0] == ".L2:"
    assert len(explanation.hottest(text).splitlines()) == 4


def test_after_a_function_that_raises_native_entries_run_again():
    x = torch.randn(4, 4)

    def functions():
        """How many functions of Python run in a call that has a native entry."""
        count = 0

        def note(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            x.softmax(1)
        finally:
            sys.setprofile(None)
        return count

    llvm.activate()
    x.softmax(1)
    before = functions()
    with pytest.raises(ZeroDivisionError):
        torch.compiler.explain(lambda: 1 / 0)
    assert functions() == before
