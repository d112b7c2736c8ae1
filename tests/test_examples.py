"""The examples run as the README says, and reach what they promise."""

from __future__ import annotations

import gzip
import importlib.util
import pathlib
import re
import sys
import urllib.error

import numpy as np
import pytest

import rushlight as torch
from example_table import EXAMPLES as TABLE
from processes import finished
from rushlight.data import digits

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

pytest.importorskip("matplotlib", reason="the examples draw with matplotlib (extra: examples)")
pytest.importorskip("tqdm", reason="the examples show tqdm's progress bars (extra: examples)")
Image = pytest.importorskip(
    "PIL.Image", reason="the examples write and read pictures (extra: examples)"
)


def run(script, *arguments):
    return finished("-W", "error", EXAMPLES / script, *arguments).stdout


def rushlight(folder, *arguments):
    """What `python -m rushlight SCRIPT ...` prints, run in `folder`; any warning is an error."""
    return finished("-W", "error", "-m", "rushlight", *arguments, folder=folder).stdout


@pytest.mark.parametrize("example", TABLE, ids=lambda example: example.script)
def test_short_mode(example, tmp_path):
    """Each example ends well, learns something, and says and writes what its row expects."""
    stdout = rushlight(tmp_path, EXAMPLES / example.script, *example.short.split())
    losses = [float(loss) for loss in re.findall(r"\bloss ([\d.]+)", stdout)]
    assert len(losses) >= 2, stdout
    if example.falls_to is not None:
        assert losses[-1] <= example.falls_to * losses[0], stdout
    assert re.search(example.says, stdout, re.M), stdout
    for name in example.writes:
        assert (tmp_path / name).stat().st_size > 0


COMPILED = """
import sys
import rushlight as torch
from rushlight.compat import import_hook

train, models = torch.nn.Module.train, []
def compiled(model, mode=True):  # a model is compiled when it is put into a mode for the first time
    if not any(model is part for m in models for part in m.modules()):
        models.append(model)
        model.compile()
    return train(model, mode)
torch.nn.Module.train = compiled
import_hook.run(sys.argv[1:])
"""


@pytest.mark.parametrize("script", ["vae.py", "char_rnn.py", "unet.py"])
def test_compiled(script, tmp_path):
    """An example whose model is compiled prints what it prints as written."""
    arguments = [EXAMPLES / script, "--short", "--epochs", "2"]
    arguments += ["--task", "generate", "--batch-size", "16"] if script == "char_rnn.py" else []
    written = rushlight(tmp_path, *arguments)
    compiled = finished("-c", COMPILED, *arguments, folder=tmp_path).stdout
    times = re.compile(r"^.* s$", re.M)
    assert times.sub("", compiled) == times.sub("", written)


@pytest.mark.parametrize(
    "script, pictures",
    [
        ("vae.py", {"test.png": (8, 2), "sample.png": (8, 8)}),
        ("dcgan.py", {"dcgan_01.png": (8, 8)}),
        ("unet.py", {"unet.png": (12, 3)}),
    ],
)
def test_pictures(script, pictures, tmp_path):
    """Written by torchvision's `save_image`, so this stands apart from what also runs where PyTorch is alone."""
    finished("-m", "rushlight", EXAMPLES / script, "--short", "--epochs", "1", "--out", tmp_path)
    for name, (columns, rows) in pictures.items():
        with Image.open(tmp_path / name) as picture:
            assert picture.size == (columns * 10 + 2, rows * 10 + 2)


def test_every_example_has_a_row_and_a_line():
    """A new file in examples/ is tested and described; fashion_mnist.py needs its data and has its own tests below."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert {example.script for example in TABLE} | {"fashion_mnist.py"} >= scripts
    described = re.findall(r"`(\w+\.py)`", (EXAMPLES / "README.md").read_text("utf-8"))
    assert set(described) >= scripts


def test_gpt_goes_on_and_writes(tmp_path):
    """A checkpoint of gpt.py is resumed at its step with its numbers, and is enough to write from."""
    small = [EXAMPLES / "gpt.py", "--short", "--report", "10", "--length", "5"]
    first = rushlight(tmp_path, *small, "--steps", "20")
    again = rushlight(tmp_path, *small, "--steps", "30", "--resume", "out/gpt.pt")
    reported = [
        re.findall(r"^step +(\d+)  validation loss ([\d.]+)$", s, re.M) for s in (first, again)
    ]
    assert [step for step, _ in reported[0]] == ["0", "10", "20"]
    assert [step for step, _ in reported[1]] == ["20", "30"]
    assert reported[0][-1] == reported[1][0]  # measured on the same random pieces of the text
    sample = ["--sample", "out/gpt.pt", "--start", "12+", "--length", "9", "--top-k", "3"]
    written = rushlight(tmp_path, EXAMPLES / "gpt.py", *sample)
    assert re.fullmatch(r"12\+[\d+=;]{9}\n", written)


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_tour(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    (tour,) = [block for block in blocks if block.startswith("import rushlight as torch")]
    monkeypatch.chdir(tmp_path)
    exec(tour, {})
    assert capsys.readouterr().out == "tensor([[2., 4.],\n        [6., 8.]])\n"
    assert (tmp_path / "model.pt").exists()


def test_readme_has_exactly_two_commands():
    (first, second) = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert first.count("\n") == second.count("\n") == 1
    assert first.endswith("examples/digits.py\n")
    assert "pytest" in second


def test_digits_data():
    images, labels = digits()
    assert (images.shape, images.dtype) == ((1797, 8, 8), np.uint8)
    assert (labels.shape, labels.dtype) == ((1797,), np.int64)
    assert (images.min(), images.max()) == (0, 16)
    # how many of each there are, as the repository's page lists them
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits(tmp_path):
    text = run("digits.py", "--out", tmp_path)
    accuracy = float(re.findall(r"test accuracy ([\d.]+)%", text)[-1])
    assert accuracy >= 97.0, text
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", text)]
    assert len(losses) == 20
    assert losses[-1] < 0.1 < 1.0 < losses[0]
    checkpoint = torch.load(tmp_path / "digits.pt")
    assert checkpoint["test_accuracy"] == pytest.approx(accuracy / 100, abs=1e-4)
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def write_idx(path, array):
    header = b"\0\0\x08" + bytes([array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_fashion_mnist_reads_idx_files(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / "x.gz", array)
    read = load_example("fashion_mnist").read_idx(tmp_path / "x.gz")
    assert read.dtype == np.uint8
    assert (read == array).all()
    assert read.flags.writeable


def test_fashion_mnist_says_what_is_missing(tmp_path, monkeypatch):
    example = load_example("fashion_mnist")

    def offline(*_, **__):
        raise urllib.error.URLError("no network in this test")

    monkeypatch.setattr(example.urllib.request, "urlopen", offline)
    with pytest.raises(SystemExit, match=r"(?s)is not there and .*cannot be reached.*--root"):
        example.find(tmp_path, "train-images-idx3-ubyte.gz")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    with pytest.raises(SystemExit, match="is damaged"):
        example.find(tmp_path, "train-images-idx3-ubyte.gz")


def test_fashion_mnist_trains(tmp_path, monkeypatch):
    """The whole program on a few pictures: classes that differ by which row is bright."""
    import hashlib

    example = load_example("fashion_mnist")
    rng = np.random.default_rng(0)
    for part, count in (("train", 640), ("t10k", 100)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        images[np.arange(count), 2 * labels + 4] += 180
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", labels)
    sums = {name: hashlib.md5((tmp_path / name).read_bytes()).hexdigest() for name in example.MD5}
    monkeypatch.setattr(example, "MD5", sums)
    arguments = [
        "fashion_mnist.py",
        "--root",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
        "--epochs",
        "4",
    ]
    monkeypatch.setattr(sys, "argv", [*arguments, "--batch-size", "32"])
    example.main()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "fashion_mnist.png",
        "fashion_mnist.pt",
    ]
    model = example.Net()
    model.load_state_dict(torch.load(tmp_path / "out" / "fashion_mnist.pt"))
    test = torch.utils.data.DataLoader(example.load(tmp_path, "t10k"), batch_size=100)
    loss, counts = example.evaluate(model, test)
    assert loss < 0.5
    assert counts.sum() == 100 and counts.trace() > 90
