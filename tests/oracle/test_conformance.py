"""PyTorch's own databases of operators, modules and optimizers: see conformance/__init__.py.

The table stands at the end of pytest's output. What fails must be listed in known_failures.txt with
a reason, and what is listed must fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def conformance(folder, *options):
    """Run the harness in a process of its own: it forks, and sets timers and warnings."""
    target = folder / "report.json"
    command = [sys.executable, "-m", "tests.oracle.conformance", "--json", str(target), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1700)
    assert target.exists(), done.stdout + done.stderr
    return json.loads(target.read_text())


def check(report):
    assert not report["new"], "fails and is not listed:\n" + "\n".join(report["new"])
    assert not report["stale"], "passes: strike it off the list:\n" + "\n".join(report["stale"])


@pytest.mark.slow
@pytest.mark.skipif("CONFORMANCE_FULL" in os.environ, reason="the full run holds the sample")
def test_sample(tmp_path, record_property):
    report = conformance(tmp_path, "--jobs", "2")
    record_property("conformance", report["table"])
    check(report)


@pytest.mark.slow
@pytest.mark.skipif("CONFORMANCE_FULL" not in os.environ, reason="minutes: CONFORMANCE_FULL=1")
def test_full(tmp_path, record_property):
    report = conformance(tmp_path, "--full", "--jobs", str(os.cpu_count()))
    record_property("conformance", report["table"])
    check(report)


@pytest.mark.slow
@pytest.mark.skipif("CONFORMANCE_FULL" not in os.environ, reason="minutes: CONFORMANCE_FULL=1")
def test_torch_itself_conforms(tmp_path):
    """The harness is right: PyTorch in the candidate's place passes everything."""
    assert conformance(tmp_path, "--candidate", "torch", "--jobs", str(os.cpu_count()))["new"] == []


def test_a_wrong_candidate_is_found(tmp_path):
    """The harness can fail: PyTorch with planted faults does not pass."""
    (tmp_path / "planted.py").write_text(
        "import torch\n"
        "from torch import *\n"
        "from torch import linalg, autograd, nn, Tensor, tensor, dtype\n"
        "def sin(input, *, out=None): return torch.sin(input) * 1.01\n"
        "def cos(input, *, out=None): return torch.cos(input.detach())\n"
        "def kron(input, other, *, out=None): return torch.kron(input, other).double()\n"
    )
    options = ["--match", "^(sin|cos|kron|tan|cross)$", "--only", "ops", "--path", str(tmp_path)]
    report = conformance(tmp_path, "--candidate", "planted", *options)
    found = {line.split(" | ")[0] + " " + line.split(" | ")[1] for line in report["new"]}
    assert {"ops/sin sample", "ops/sin grad", "ops/cos grad", "ops/kron sample"} <= found
    assert "ops/cos sample" not in found
    assert not any(entry.startswith(("ops/tan ", "ops/cross ")) for entry in found), found
