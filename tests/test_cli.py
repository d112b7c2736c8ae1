"""The command `rushlight`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

import rushlight as torch
from processes import finished
from rushlight._codegen import native
from rushlight.cli import COMMANDS, DIFFERENT, bench_page, main, parser_of
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
    here = {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache"), "RUSHLIGHT_COMPILED": ""}
    first, second = (finished("-m", "rushlight", "warm", "--for", script, **here) for _ in range(2))
    assert first.stdout == second.stdout == "100000.0\n"
    counts = [int(done.stderr.split(" kernels compiled, ")[0]) for done in (first, second)]
    assert (counts[0] > 0) == native.available()
    assert counts[1] == 0


def test_each_step_of_warming_runs():
    for name in (*warming.QUICK, "losses", "optimizers", "arithmetic of int64"):
        warming.STEPS[name](torch)


def document(capsys, *argv):
    """The exit status and the JSON object that a command prints."""
    status = main([*argv, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: rushlight {name}" in text
    assert f"examples:\n  rushlight {name}" in text


def test_the_list_of_commands_names_all(capsys):
    main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "exit status" in text


def test_info_as_json(capsys):
    status, found = document(capsys, "info")
    assert status is None
    assert found["rushlight"] == torch.version.release
    assert found["threads"] == torch.get_num_threads()
    assert isinstance(found["extras"], dict)


def test_statistics_of_tensors(tmp_path, capsys):
    path = str(tmp_path / "checkpoint.pt")
    content = {
        "a": torch.tensor([0.0, 0.0, 3.0, float("nan")]),
        "b": torch.tensor([[True, False]]),
        "empty": torch.ones(0, 3),
        "inf": torch.tensor([1.0, float("inf")], dtype=torch.bfloat16),
        "step": 7,
    }
    torch.save(content, path)
    _, found = document(capsys, "inspect", path, "--stats")
    rows = {row["name"]: row for row in found["tensors"]}
    assert list(rows) == ["a", "b", "empty", "inf"]
    assert found["others"] == {"step": 7}
    assert found["elements"] == 8
    a = rows["a"]["statistics"]
    assert (a["min"], a["max"], a["mean"], a["zeros"], a["nan"], a["inf"]) == (0, 3, 1, 2, 1, 0)
    assert a["std"] == pytest.approx(2**0.5)
    assert rows["b"]["statistics"]["mean"] == 0.5
    assert rows["empty"]["statistics"]["max"] == "nan"
    assert (rows["inf"]["statistics"]["inf"], rows["inf"]["statistics"]["max"]) == (1, "inf")
    assert main(["inspect", path, "--stats", "--only", "b"]) is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["min", "max", "mean", "std", "zeros", "inf", "nan"]
    assert lines[1].split() == [
        "b",
        "[1,",
        "2]",
        "bool",
        "2",
        "B",
        "0",
        "1",
        "0.5",
        "0.5",
        "1",
        "0",
        "0",
    ]
    assert lines[2] == "1 tensors, 2 elements, 2 B"


def test_the_difference_of_two_checkpoints(tmp_path, capsys):
    old, new = (str(tmp_path / name) for name in ("old.pt", "new.pt"))
    weights = {
        "w": torch.ones(2, 2),
        "b": torch.zeros(2),
        "n": torch.tensor(1),
        "gone": torch.ones(1),
    }
    torch.save({**weights, "epoch": 1}, old)
    assert document(capsys, "inspect", old, old) == (
        None,
        {"same": True, "equal": 5, "only_first": [], "only_second": [], "changed": []},
    )
    del weights["gone"]
    weights["w"] = torch.tensor([[1.0, 1.0], [1.0, 1.5]])
    weights["n"] = torch.tensor([1])
    torch.save({**weights, "more": 1, "epoch": 2}, new)
    status, found = document(capsys, "inspect", old, new)
    assert (status, found["same"], found["equal"]) == (DIFFERENT, False, 1)
    assert (found["only_first"], found["only_second"]) == (["gone"], ["more"])
    changed = {row["name"]: row for row in found["changed"]}
    assert set(changed) == {"w", "n", "epoch"}
    assert (changed["w"]["elements"], changed["w"]["largest_difference"]) == (1, 0.5)
    assert changed["n"]["text"] == "[] int64 -> [1] int64"
    assert changed["epoch"]["text"] == "1 -> 2"
    assert main(["inspect", old, new, "--only", "w", "--atol", "0.5"]) is None
    assert capsys.readouterr().out.startswith("1 equal, 0 changed")


def test_convert_says_what_was_written(tmp_path, capsys):
    source, target = (str(tmp_path / name) for name in ("a.pt", "b.pth"))
    torch.save({"w": torch.ones(3, 2), "b": torch.ones(2)}, source)
    status, found = document(capsys, "convert", source, target)
    assert status is None
    assert (found["tensors"], found["bytes"]) == (2, 32)


def test_bench_times_what_is_asked_for(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # only ours, also where PyTorch is installed
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, found = document(capsys, "bench", "--only", "softmax", "--rounds", "1")
    (row,) = found["cases"]
    assert row["name"] == "softmax, 1000 x 1000"
    assert row["rushlight"] > 0
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--only", "no such case"])
    assert caught.value.code == 2


def test_bench_comm_predicts_from_numbers(capsys):
    numbers = ["--alpha", "1e-6", "--beta", "1e-9", "--gamma", "0"]
    _, found = document(
        capsys, "bench", "comm", *numbers, "--step", "0.01", "--gradients", "1000000"
    )
    assert found["efficiency"]["1"] == 1
    # two processes: each sends half of it twice, and one message has to go before the other
    assert found["efficiency"]["2"] == pytest.approx(0.01 / (0.01 + 1e-6 + 1e-3))
    every = list(found["efficiency"].values())
    assert len(every) == 11 and every == sorted(every, reverse=True) and every[-1] > 0.7
    _, more = document(capsys, "bench", "comm", *numbers, "--step", "0.01", "--gradients", "1e8")
    assert more["efficiency"]["1024"] < found["efficiency"]["1024"]
    with pytest.raises(SystemExit) as caught:
        main(["bench", "comm", "--alpha", "1e-6"])
    assert caught.value.code == 2


def test_the_model_of_communication_finds_its_own_numbers():
    from rushlight.cli.bench_comm import SIZES, Cost, fitted

    cost = Cost(3e-6, 2e-10, 5e-11)
    messages = {size: cost.alpha + cost.beta * size for size in SIZES}
    for ranks in (2, 8):
        reductions = {size: cost.all_reduce(size, ranks) for size in SIZES}
        assert fitted(messages, reductions, ranks) == pytest.approx(cost)
    assert cost.all_reduce(100, 1) == 0
    # what runs while backward computes costs nothing
    assert cost.step(10.0, 200e6, 4) == pytest.approx(
        10.0 + cost.all_reduce(200e6 % 2**20, 4), rel=1e-2
    )


def test_the_status_of_a_program_is_the_status_of_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
    for argv in (["run", str(script), "--json", "-m", "x"], [str(script), "--json", "-m", "x"]):
        done = finished("-m", "rushlight", *argv, status=7)
        assert done.stdout == "['--json', '-m', 'x']\n"
    module = ["-m", "rushlight", "run", "-m", "script", "--json"]
    assert finished(*module, folder=tmp_path, status=7).stdout == "['--json']\n"


def test_viz(tmp_path, capsys):
    pytest.importorskip("fast_sugiyama")
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    torch.export.save(program, tmp_path / "linear.pt2")
    picture = tmp_path / "linear.svg"
    assert main(["viz", str(tmp_path / "linear.pt2"), "-o", str(picture)]) is None
    assert "linear" in picture.read_text()
    for argv, status in (
        (["linear.pt2"], 2),
        (["linear.pt2", "--summary"], 2),
        (["a:b", "--summary"], 2),
        (["absent.pt2", "-o", "a.svg"], 1),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["viz", *argv])
        assert caught.value.code == status


def test_viz_of_a_model(tmp_path):
    text = (
        "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n"
    )
    (tmp_path / "models.py").write_text(text)
    for what in ("models.py:net", "models:net"):
        command = ["-m", "rushlight", "viz", what, *"--input 8,4 --summary -o net.svg".split()]
        summary = finished(*command, folder=tmp_path).stdout
        assert "0: Linear  8x4    8x3" in summary
        found = json.loads(finished(*command, "--json", folder=tmp_path).stdout)
        assert (found["output"], found["parameters"]) == ("net.svg", 15)
        assert [row["Layer"].strip() for row in found["layers"]] == [
            "Sequential",
            "0: Linear",
            "1: ReLU",
        ]
        assert "Linear" in (tmp_path / "net.svg").read_text()
        (tmp_path / "net.svg").unlink()


def words_after(*line):
    """What bash offers for the last word of a command line."""
    script = finished("-m", "rushlight", "completion", "bash").stdout
    words = " ".join(f"'{word}'" for word in line)
    script += (
        f'COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _rushlight; echo "${{COMPREPLY[@]}}"'
    )
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_bash_completes_commands_and_options():
    assert set(words_after("rushlight", "")) == {*COMMANDS, "--help", "--version"}
    assert words_after("rushlight", "ins") == ["inspect"]
    assert words_after("rushlight", "inspect", "a.pt", "--s") == ["--stats"]
    assert words_after("rushlight", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_names_all_commands_and_options(shell, capsys):
    assert main(["completion", shell]) is None
    script = capsys.readouterr().out
    options = {"zsh": ("--stats:", "--json:"), "fish": ("-l stats ", "-l json ")}[shell]
    assert all(name in script for name in [*COMMANDS, *options])
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bench_writes_a_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path = tmp_path / "report.html"
    assert main(["bench", "--only", "add", "--rounds", "1", "--html", str(path)]) is None
    text = path.read_text("utf-8")
    assert "add, 4 elements, recorded" in text and "CPU" in text and "PyTorch, µs" not in text
    with pytest.raises(SystemExit) as caught:
        main(["bench", "comm", "--html", str(path)])
    assert caught.value.code == 2
    capsys.readouterr()


def test_the_page_of_bench_compares():
    row = {
        "name": "a < b",
        "rushlight": 2e-6,
        "pytorch": 4e-6,
        "ratio": 0.5,
        "quartiles": [0.4, 0.6],
    }
    text = bench_page.page([row], {"extras": {"scipy": "1"}, "threads": 2}, "2026-01-02 03:04")
    assert "a &lt; b" in text and "0.40 to 0.60" in text and "2026-01-02" in text
    assert "width:50.0%" in text and "width:100.0%" in text and "scipy 1" in text


def test_json_of_each_command():
    """All but `run`, whose output is the program's, and `completion`, whose output is a script."""
    for name in sorted({*COMMANDS} - {"run", "completion"}):
        command = importlib.import_module(f"rushlight.cli.{COMMANDS[name][0]}")
        parser = parser_of(name, command)
        assert any("--json" in action.option_strings for action in parser._actions), name


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"run"}))
def test_an_unknown_option_is_wrong_use(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--no-such-option"])
    assert caught.value.code == 2
    assert f"usage: rushlight {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["inspect", "absent.pt"], ["convert", "absent.pt", "out.safetensors"],
        ["build", "absent.pt2", "-o", "out.o"], ["viz", "absent.pt2", "-o", "out.svg"],
    ],
)  # fmt: skip
def test_a_file_that_is_not_there(argv, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 1
    assert "absent.pt" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_package_runs_as_a_program():
    done = finished("-m", "rushlight", "--help")
    assert done.stdout.startswith("usage: rushlight COMMAND")
