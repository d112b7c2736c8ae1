"""The command `rushlight`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight._codegen import native
from rushlight.cli import main
from rushlight.compiler import warming


def test_info(capsys):
    main(["info"])
    out = capsys.readouterr().out
    for word in ("rushlight", "CPU", "BLAS", "threads", "caches", "extras"):
        assert word in out


def test_inspect(tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": torch.nn.Linear(3, 2).state_dict(), "epoch": 4}, path)
    main(["inspect", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["model.weight", "[2,", "3]", "float32", "24", "B"]
    assert lines[2:] == ["epoch = 4", "2 tensors, 8 elements, 32 B"]


def test_inspect_shows_lists_of_numbers_in_a_line(tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    torch.save({"betas": (0.9, 0.999), "list": [1, torch.ones(2)], "empty": []}, path)
    main(["inspect", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["list.1", "[2]", "float32", "8", "B"]
    assert lines[1:] == [
        "betas = (0.9, 0.999)",
        "list.0 = 1",
        "empty = []",
        "1 tensors, 2 elements, 8 B",
    ]


def test_a_reader_that_goes_away(tmp_path):
    import subprocess
    import sys

    path = tmp_path / "checkpoint.pt"
    torch.save([torch.ones(1) for _ in range(20000)], path)
    command = f"{sys.executable} -m rushlight inspect {path} | head -1"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=env)
    assert (done.stdout.split(), done.stderr) == (["0", "[1]", "float32", "4", "B"], "")


def test_convert(tmp_path, capsys):
    names = [str(tmp_path / n) for n in ("a.pt", "b.safetensors", "c.pt")]
    weights = {
        "w": torch.randn(3, 2).t(), "half": torch.ones(2, dtype=torch.bfloat16),
        "n": torch.tensor(3),
    }  # fmt: skip
    torch.save(weights, names[0])
    main(["convert", *names[:2]])
    main(["convert", *names[1:]])
    torch.testing.assert_close(torch.load(names[2]), weights)
    torch.save({"epoch": 3, "w": torch.ones(2)}, names[0])
    with pytest.raises(SystemExit):
        main(["convert", *names[:2]])
    assert "epoch" in capsys.readouterr().err


def test_wrong_use(tmp_path, capsys):
    for argv in (["frobnicate"], ["inspect"], ["run", str(tmp_path / "absent.py")], ["run"]):
        with pytest.raises(SystemExit) as caught:
            main(argv)
        assert caught.value.code == 2
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"no checkpoint")
    with pytest.raises(SystemExit) as caught:
        main(["inspect", str(broken)])
    assert caught.value.code == 1
    assert str(broken) in capsys.readouterr().err
    main(["--version"])
    assert capsys.readouterr().out.strip() == torch.version.release


def test_warm_for_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint((torch.ones(50_000) * 2).sum().item())\n")
    command = [sys.executable, "-m", "rushlight", "warm", "--for", str(script)]
    here = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache"), "RUSHLIGHT_COMPILED": ""}
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=here)
        for _ in range(2)
    )
    assert first.stdout == second.stdout == "100000.0\n"
    counts = [int(done.stderr.split(" kernels compiled, ")[0]) for done in (first, second)]
    assert (counts[0] > 0) == native.available()
    assert counts[1] == 0


def test_each_step_of_warming_runs():
    for name in ("losses", "optimizers", "arithmetic of int64"):
        warming.STEPS[name](torch)
