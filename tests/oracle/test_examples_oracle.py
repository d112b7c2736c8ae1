"""The examples run under PyTorch unchanged, and print what they print under Rushlight."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

from example_table import EXAMPLES as TABLE
from printed_lines import same

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

# Runs a script with PyTorch where it says `rushlight`, except for the data that ship with Rushlight.
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


def printed(folder, *command):
    """The lines a program prints, without those that tell a time."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if not line.endswith(" s")]


def test_what_counts_as_the_same():
    assert same("epoch 1  loss 0.1234", "epoch 1  loss 0.1235")
    assert not same("epoch 1  loss 0.1234", "epoch 1  loss 0.1236")
    assert not same("epoch 1  loss 0.1234", "epoch 2  loss 0.1234")
    assert not same("Marie", "Maria")
    assert same("lr 1.23e-05", "lr 1.24e-05")
    assert not same("lr 1.23e-05", "lr 1.25e-05")
    assert same("loss 0.0788", "loss 0.0785", units=3)
    assert not same("loss 0.0788", "loss 0.0784", units=3)


@pytest.mark.parametrize("example", TABLE, ids=lambda example: example.script)
def test_same_lines_as_under_pytorch(example, tmp_path):
    script = EXAMPLES / example.script
    text = script.read_text("utf-8")
    needs_torchvision = re.search(r"^(import|from) torchvision", text, re.M)
    if needs_torchvision and importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    arguments = example.short.split()
    as_pytorch = ("-c", AS_PYTORCH) if "import rushlight" in text else ()
    ours = printed(tmp_path / "ours", "-m", "rushlight", script, *arguments)
    theirs = printed(tmp_path / "theirs", *as_pytorch, script, *arguments)
    assert len(ours) == len(theirs), (ours, theirs)
    different = [pair for pair in zip(ours, theirs) if not same(*pair, example.units)]
    assert not different
