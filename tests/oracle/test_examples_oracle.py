"""The examples run under PyTorch unchanged, and print what they print under Rushlight."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

# Runs a script with PyTorch wherever it says `rushlight`, except for the data that ship with Rushlight.
AS_PYTORCH = """
import runpy, sys
import rushlight.data
data = sys.modules["rushlight.data"]
for name in [name for name in sys.modules if name.partition(".")[0] == "rushlight"]:
    del sys.modules[name]
import torch, torch.nn.functional, torch.utils.data
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "torch":
        sys.modules["rushlight" + name[5:]] = module
sys.modules["rushlight.data"] = data
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def printed(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # the last line tells the time it took
    return [line for line in done.stdout.splitlines() if line.startswith("epoch")]


@pytest.mark.parametrize("script, arguments", [("digits.py", ["--epochs", "4"])])
def test_same_lines_as_under_pytorch(script, arguments, tmp_path):
    ours = printed(EXAMPLES / script, *arguments, "--out", tmp_path / "ours")
    theirs = printed("-c", AS_PYTORCH, EXAMPLES / script, *arguments, "--out", tmp_path / "theirs")
    assert ours == theirs
