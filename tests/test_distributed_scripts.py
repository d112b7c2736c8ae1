"""Scripts written for PyTorch, unchanged, in several processes that anything may have started."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sys

import pytest

import rushlight as torch
from test_distributed import ended, free_port, launch, needs_mpi, started

SCRIPTS = pathlib.Path(__file__).parent / "distributed_scripts"
pytestmark = needs_mpi
many = pytest.mark.parametrize("ranks", [2, 4])


@many
def test_spawn(ranks):
    status, text = launch(
        str(SCRIPTS / "data_parallel.py"), "--spawn", str(ranks), "--port", str(free_port())
    )
    assert status == 0 and sorted(re.findall(r"trained (\d)", text)) == [
        str(k) for k in range(ranks)
    ], text


@many
def test_processes(ranks):
    status, text = launch(str(SCRIPTS / "applications.py"), str(ranks), str(free_port()))
    assert status == 0, text
    assert len(re.findall(r"epoch [01] loss [\d.]+", text)) == 2 * ranks, text


@many
def test_torchrun(ranks):
    arguments = [
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d",
    ]
    status, text = launch(
        *arguments, "--rdzv-endpoint=localhost:0", str(SCRIPTS / "data_parallel.py")
    )
    assert status == 0 and text.count("trained") == ranks, text


@pytest.mark.parametrize(
    ("ranks", "options"), [(2, ["--explicit"]), (4, ["--narrow"])], ids=["2", "4"]
)
def test_fully_sharded(ranks, options, tmp_path):
    script = [str(SCRIPTS / "fully_sharded.py"), "--folder", str(tmp_path), *options]
    status, text = launch("run", "--nproc", str(ranks), *script)
    assert status == 0 and text.count("trained") == ranks, text
    assert len(set(re.findall(r"loss ([\d.]+)", text))) == 1, text


def test_mpiexec():
    mpiexec = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which(
        "mpiexec"
    )
    if mpiexec is None:
        pytest.skip("no mpiexec")
    command = [
        mpiexec,
        "-n",
        "2",
        sys.executable,
        "-m",
        "rushlight",
        str(SCRIPTS / "data_parallel.py"),
    ]
    ((status, text),) = ended([started(command)])
    assert status == 0 and text.count("trained") == 2, text


def test_slurm():
    job = {
        "SLURM_JOB_ID": free_port() - 20000,
        "SLURM_STEP_ID": 0,
        "SLURM_NTASKS": 2,
        "SLURM_STEP_NODELIST": "localhost",
    }
    command = [sys.executable, "-m", "rushlight", str(SCRIPTS / "data_parallel.py")]
    results = ended([started(command, **job, SLURM_PROCID=k) for k in range(2)])
    for rank, (status, text) in enumerate(results):
        assert status == 0 and f"trained {rank}" in text, text


def test_images_on_two_machines(tmp_path):
    """Each of two launchers stands for a machine, and starts two processes."""
    url = f"tcp://127.0.0.1:{free_port()}"
    shared = [
        "--dist-url",
        url,
        "--dist-backend",
        "nccl",
        "--multiprocessing-distributed",
        "--world-size",
        "2",
    ]
    command = [
        sys.executable,
        "-m",
        "rushlight",
        str(SCRIPTS / "images.py"),
        *shared,
        "--folder",
        str(tmp_path),
    ]
    results = ended([started([*command, "--rank", str(k)]) for k in range(2)])
    assert [status for status, _ in results] == [0, 0], results
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", results[0][1])]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert torch.load(tmp_path / "checkpoint.pth.tar")["epoch"] == 2
