"""Programs written for PyTorch: under the import hook they print what they print under PyTorch."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from printed_lines import same

PROGRAMS = sorted((pathlib.Path(__file__).parent / "programs").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_same_output(program, tmp_path):
    outputs = []
    for command in ([sys.executable], [sys.executable, "-m", "rushlight"]):
        done = subprocess.run(
            [*command, str(program)], capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    theirs, ours = outputs
    assert len(ours) == len(theirs), (ours, theirs)
    assert not [pair for pair in zip(ours, theirs) if not same(*pair)]
