"""`rushlight build`: exported programs as object files, called from programs in C."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight._codegen import native
from rushlight.cli import main

CC = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="there is no machine code here"),
    pytest.mark.skipif(
        not shutil.which("cc") and importlib.util.find_spec("ziglang") is None,
        reason="there is no C compiler: install the extra `build`",
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="object files of this system are not tried"),
]

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"

static void *take(const char *path, size_t size) {{
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    FILE *file = fopen(path, "rb");
    if (!file || fread(memory, 1, size, file) != size) exit(9);
    fclose(file);
    return memory;
}}

int main(void) {{
    {threads}
    {takes}
    int status = 0;
    for (int k = 0; k < 2; k++) status |= {name}({given});
    FILE *file = fopen("results", "wb");
    {writes}
    fclose(file);
    return status;
}}
"""


def run_in_c(folder, name, inputs, results, weights=None, threads=1):
    """The results of a program in C that calls the function twice."""
    takes, given, writes = [], [], []
    for k, x in enumerate(inputs):
        a = np.ascontiguousarray(x.numpy())
        (folder / f"input{k}").write_bytes(a.tobytes())
        takes.append(f'void *input{k} = take("input{k}", {a.nbytes});')
        given.append(f"input{k}")
    outputs = [np.zeros_like(r.detach().numpy(), order="C") for r in results]
    for k, a in enumerate(outputs):
        takes.append(f"void *output{k} = aligned_alloc(64, {-(-a.nbytes // 64) * 64 + 64});")
        given.append(f"output{k}")
        writes.append(f"fwrite(output{k}, 1, {a.nbytes}, file);")
    if weights:
        takes.append(f'void *weights = take("{weights}", {(folder / weights).stat().st_size});')
        given.append("weights")
    text = MAIN.format(
        name=name, takes="\n    ".join(takes), given=", ".join(given), writes="\n    ".join(writes),
        threads=f"{name}_threads({threads});" if threads > 1 else "",
    )  # fmt: skip
    (folder / "main.c").write_text(text)
    subprocess.run(
        [*CC, "-Wall", "-Werror", "main.c", f"{name}.o", "-lm", "-o", "main"],
        cwd=folder,
        check=True,
    )
    done = subprocess.run([str(folder / "main")], cwd=folder, check=False)
    assert done.returncode == 0
    content, found = (folder / "results").read_bytes(), []
    for a in outputs:
        found.append(torch.tensor(np.frombuffer(content[: a.nbytes], a.dtype).reshape(a.shape)))
        content = content[a.nbytes :]
    return found


def check(folder, model, *inputs, name="model", **options):
    """Build a model in eval mode, and compare what a program in C computes, of other inputs, with eager mode."""
    weights = options.pop("weights", None)
    program = torch.export.export(model.eval(), inputs)
    torch.compiler.build(
        program, str(folder / f"{name}.o"), name=name, weights=weights and str(folder / weights)
    )
    given = [x.flip(0).clone() for x in inputs]
    with torch.no_grad():
        wanted = model(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = run_in_c(folder, name, given, wanted, weights, **options)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=1e-5, atol=1e-5)


class Block(nn.Module):
    """A block of ResNet."""

    def __init__(self, n, m, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU(),
            nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m),
        )  # fmt: skip
        self.skip = nn.Sequential()
        if stride > 1 or n != m:
            self.skip = nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class Transformer(nn.Module):
    """Embedded tokens, a masked encoder layer, scores for each."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.places = nn.Parameter(torch.randn(16, 32))
        self.layer = nn.TransformerEncoderLayer(
            32, 4, 64, batch_first=True, activation="gelu", norm_first=True
        )
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(16)
        x = self.layer(self.embedding(tokens) + self.places, src_mask=mask, is_causal=True)
        return self.head(x)


def test_mlp(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(30, 50), nn.GELU(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 7)
    )
    check(tmp_path, model, torch.randn(4, 30))


def test_cnn_with_weights_in_a_file_and_threads(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 3),
        nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10), nn.Softmax(-1),
    )  # fmt: skip
    check(tmp_path, model, torch.randn(8, 3, 32, 32), weights="model.weights", threads=2)


def test_resnet(tmp_path):
    torch.manual_seed(0)
    stages = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        *[Block(*stage) for stage in stages], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-1, 1)
            m.running_var.uniform_(0.5, 2)
    check(tmp_path, model, torch.randn(2, 3, 32, 32))


def test_transformer(tmp_path):
    torch.manual_seed(0)
    check(tmp_path, Transformer(), torch.randint(0, 50, (2, 16)))


def test_several_inputs_and_results(tmp_path):
    class Several(nn.Module):
        def forward(self, x, y):
            z = x.transpose(0, 1) * y
            return z.transpose(0, 1), x, torch.cat([x, x + 1]), z.sum(), x > 0

    check(tmp_path, Several(), torch.randn(5, 5), torch.randn(5, 5), name="several")


def test_an_index_out_of_range_is_told(tmp_path):
    program = torch.export.export(nn.Embedding(10, 4), (torch.tensor([1, 2, 9]),))
    torch.compiler.build(program, str(tmp_path / "embed.o"))
    text = """
    #include <stdio.h>
    #include "embed.h"
    int main(void) {
        int64_t right[3] = {0, 9, 3}, wrong[3] = {0, 10, 3};
        float out[12];
        printf("%d %d %d", embed(right, out), embed(wrong, out), embed(right, out));
        return 0;
    }"""
    (tmp_path / "main.c").write_text(text)
    subprocess.run([*CC, "main.c", "embed.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    assert done.stdout == "0 1 0"


def test_the_command(tmp_path, capsys):
    program = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),))
    torch.export.save(program, tmp_path / "linear.pt2")
    files = [str(tmp_path / f"linear.{kind}") for kind in ("pt2", "o", "svg")]
    main(["build", files[0], "-o", files[1], "--name", "line", "--picture", files[2]])
    assert (tmp_path / "linear.svg").read_text().startswith("<svg")
    header = (tmp_path / "linear.h").read_text()
    assert "int line(" in header
    assert "const float *input_1 /* [4][3] */" in header
    with pytest.raises(SystemExit) as caught:
        main(["build", str(tmp_path / "absent.pt2"), "-o", str(tmp_path / "a.o")])
    assert caught.value.code == 1
    assert "absent.pt2" in capsys.readouterr().err


def test_the_same_program_gives_the_same_file(tmp_path):
    program = torch.export.export(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (torch.randn(4, 3),))
    for name in ("a.o", "b.o"):
        torch.compiler.build(program, str(tmp_path / name), name="f")
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()


@pytest.mark.parametrize(
    "function, name",
    [
        (lambda x: torch.linalg.svdvals(x) + 1, "linalg_svd"),
        (lambda x: torch.fft.fft(x).abs(), "fft_fft"),
        (lambda x: torch.linalg.matrix_exp(x), "matrix_exp"),
    ],
)
def test_what_cannot_be_built_is_named(tmp_path, function, name):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    program = torch.export.export(Model(), (torch.randn(4, 4),))
    with pytest.raises(RuntimeError, match=name) as caught:
        torch.compiler.build(program, str(tmp_path / "model.o"))
    assert "test_build.py" in str(caught.value)
    assert not (tmp_path / "model.o").exists()


def test_programs_that_are_refused(tmp_path):
    path = str(tmp_path / "model.o")
    dim = torch.export.Dim("batch")
    program = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes=({0: dim},))
    with pytest.raises(RuntimeError, match="dimension 0 of 'input_1' is dynamic"):
        torch.compiler.build(program, path)
    program = torch.export.export(nn.BatchNorm1d(3).train(), (torch.randn(4, 3),))
    with pytest.raises(RuntimeError, match="running_mean"):
        torch.compiler.build(program, path)
    program = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),))
    with pytest.raises(ValueError, match="no name of a function"):
        torch.compiler.build(program, path, name="1st")
