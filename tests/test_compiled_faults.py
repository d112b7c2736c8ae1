"""Machine code under trouble: Ctrl-C, broken caches, threads, forks; see `fault_programs.py`."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

import rushlight as torch

HERE = Path(__file__).parent
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes by fork here")


def started(*words, folder, compiled="always", **environment) -> subprocess.Popen:
    paths = [str(Path(torch.__file__).parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")]
    given = {
        "RUSHLIGHT_COMPILED": compiled,
        "RUSHLIGHT_CACHE_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", HERE / "fault_programs.py", *map(str, words)],
        env=os.environ | given | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen) -> str:
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it hangs: {out[-2000:]}\n{err[-2000:]}") from None
    assert process.returncode == 0, f"status {process.returncode}: {out[-2000:]}\n{err[-2000:]}"
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder in which all kernels of the programs are kept, and what they give."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, ended(started("digests", folder=folder))


@forks
@pytest.mark.parametrize("seed", range(2))
def test_interrupts_while_compiling(seed, tmp_path):
    """No result is wrong, and no Ctrl-C is lost."""
    ended(started("interrupted", seed, folder=tmp_path))


def test_an_interrupt_while_machine_code_is_put_in_place(kept):
    ended(started("stopped", folder=kept[0], compiled=""))


def test_processes_that_compile_the_same_at_once(kept, tmp_path):
    running = [started("digests", folder=tmp_path) for _ in range(3)]
    assert [ended(each) for each in running] == [kept[1]] * 3


def test_a_broken_cache(kept, tmp_path):
    """What is kept on disk is looked at before it runs: entries cut off, with a bit changed, of another
    kernel, empty."""
    chosen = random.Random(0)
    entries = [(path.name, path.read_bytes()) for path in sorted(kept[0].iterdir())]
    assert len(entries) > 10
    for i, (name, data) in enumerate(entries):
        at = chosen.randrange(len(data))
        changed = data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :]
        (tmp_path / name).write_bytes([data[:at], changed, entries[i - 1][1], b""][i % 4])
    assert ended(started("digests", folder=tmp_path)) == kept[1]


def test_threads_that_compile_the_same_at_once(tmp_path):
    ended(started("raced", folder=tmp_path))


def test_many_threads(kept):
    """Kernels called from several threads at once, while the number of threads changes."""
    ended(started("crowded", folder=kept[0]))


@forks
def test_forks_while_threads_compute(kept):
    ended(started("forked", folder=kept[0]))


def test_denormals(kept):
    ended(started("flushed", folder=kept[0]))


@forks
def test_workers_of_a_loader(kept):
    """Workers compute with kernels, alone and while the parent does."""
    ended(started("loaded", folder=kept[0]))


def test_kernels_while_the_interpreter_shuts_down(kept):
    """Nothing that native code points to is freed before it: here what is freed is overwritten at once."""
    overwritten = {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "170"}
    assert ended(started("last", folder=kept[0], **overwritten)) == ""
