"""Machine code is given arrays of every kind and end, in a process of its own; see `odd_arrays.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from importlib import import_module

import rushlight
from odd_examples import example_of
from rushlight._backends.index import LLVM
from rushlight._backends.llvm.registration import kernel

HERE = Path(__file__).parent
ROUNDS = os.environ.get("ODD_ROUNDS", "35")  # of each kernel; five of each kind of oddity


@pytest.mark.skipif(not hasattr(os, "fork"), reason="pages are protected by a call of POSIX")
@pytest.mark.parametrize("family", sorted(set(LLVM.values())))
def test_odd_arrays(family):
    paths = [str(Path(rushlight.__file__).parents[1]), str(HERE)]
    environment = os.environ | {
        "RUSHLIGHT_COMPILED": "always",
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, HERE / "odd_arrays.py", family, ROUNDS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{wrong or last}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("family", sorted(set(LLVM.values()) - {"ufuncs", "strided", "fft"}))
def test_there_is_an_example_for_every_kernel(family):
    import_module(f"rushlight._backends.llvm.{family}")
    # The reference leaves all calls of `at_index` to others: tests/test_compiled_indexing.py compares it with these.
    names = [name for name, file in LLVM.items() if file == family and name != "at_index"]
    assert [n for n in names if example_of(n, kernel(n)) is None] == []
