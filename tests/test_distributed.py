"""Several processes: stores, collectives, groups, faults. Jobs of 2 and 4 ranks run where mpi4py is installed."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import run

PROGRAMS = pathlib.Path(__file__).parent / "distributed_programs.py"
LIMIT = int(
    os.environ.get("RUSHLIGHT_TEST_LIMIT", "120")
)  # seconds, of which a job needs few: only a job that hangs meets it
MPI = importlib.util.find_spec("mpi4py") is not None and dist.is_mpi_available()
needs_mpi = pytest.mark.skipif(not MPI, reason="needs the extra `distributed`")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def environment(**more: object) -> dict[str, str]:
    source = str(pathlib.Path(torch.__file__).parents[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI_", "OMPI"))}
    return (
        kept | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"} | {k: str(v) for k, v in more.items()}
    )


def ended(processes: list[subprocess.Popen]) -> list[tuple[int, str]]:
    """Exit status and output of each; after the limit, or an error here, none is left."""
    try:
        outputs = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended
    return [(p.returncode, text) for p, text in zip(processes, outputs)]


def started(command: list[str], **more: object) -> subprocess.Popen:
    return subprocess.Popen(
        command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def job(name: str, ranks: int, programs: pathlib.Path = PROGRAMS) -> list[tuple[int, str]]:
    """Run functions of a file in plain processes that meet by env://."""
    port = free_port()
    return ended([
        started([sys.executable, str(programs), name], RANK=k, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        for k in range(ranks)
    ])  # fmt: skip


def check(results: list[tuple[int, str]]) -> None:
    for status, text in results:
        assert status == 0 and "done" in text, text


def left_in_memory() -> list[str]:
    folder = pathlib.Path("/dev/shm")
    return sorted(p.name for p in folder.glob("mpich_shm_*")) if folder.is_dir() else []


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gloo", "cpu:gloo,cuda:gloo"),
        ("nccl", "cuda:nccl"),
        ("cpu:gloo,cuda:NCCL", "cpu:gloo,cuda:nccl"),
        ("fake", "cpu:fake,cuda:fake,hpu:fake,xpu:fake"),
        ("another", "cpu:another,cuda:another,xpu:another"),
    ],
)
def test_backend_of_each_device(name, shown):
    config = dist.BackendConfig(dist.Backend(name))
    assert repr(config) == shown
    assert list(config.get_device_backend_map()) == [
        each.split(":")[0] for each in shown.split(",")
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpu:gloo,x", "Invalid device:backend"), ("cpu:a,cpu:b", "Duplicate device")],
)
def test_backends_that_are_no_pairs(name, text):
    with pytest.raises(ValueError, match=text):
        dist.BackendConfig(name)


def test_objects_as_bytes():
    c10d = dist.distributed_c10d
    row, length = c10d._object_to_tensor({"a": 1}, torch.device("cpu"), None)
    assert (row.dtype, length.tolist()) == (torch.uint8, [len(row)])
    assert c10d._tensor_to_object(torch.cat([row, row]), length, None) == {"a": 1}


CALLS = "reductions,long_rows,moves,asynchronous,objects,functional,parts_of_wrappers,calls_in_blocks,groups"
GRADIENTS = (
    "data_parallel,ways_to_reduce,bits_of_averages,unused_parameters,evaluated,sparse_gradients,hooks_that_are_none,"
    "recorded,batch_statistics,optimizers_in_backward,converted_after_wrapping"
)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("names", [CALLS, GRADIENTS])
def test_job(names, ranks):
    """One start of the processes runs several programs."""
    check(job(names, ranks))


@needs_mpi
def test_under_mpiexec():
    mpiexec = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which(
        "mpiexec"
    )
    if mpiexec is None:
        pytest.skip("no mpiexec")
    ((status, text),) = ended(
        [started([mpiexec, "-n", "2", sys.executable, str(PROGRAMS), "moves"])]
    )
    assert status == 0 and text.count("done") == 2, text
    ((status, text),) = ended(
        [started([mpiexec, "-n", "2", sys.executable, str(PROGRAMS), "raises"])]
    )
    assert status != 0 and "rank one is unwell" in text


@needs_mpi
def test_a_rank_that_does_not_come_is_named():
    check(job("late", 2))


@needs_mpi
def test_a_rank_that_dies_is_named():
    before = left_in_memory()
    *others, last = job("dies", 4)
    assert last[0] == -signal.SIGKILL
    check(others)
    assert not set(left_in_memory()) - set(before)


@needs_mpi
def test_a_rank_that_raises_is_named_in_a_file(tmp_path):
    command = [sys.executable, str(PROGRAMS), "raises_by_file"]
    processes = [started(command, RANK=k, MEETING=tmp_path / "meeting") for k in range(2)]
    other, unwell = ended(processes)
    assert unwell[0] == 1 and "rank one is unwell" in unwell[1]
    check([other])


def test_a_backend_of_a_program_s_own():
    check(job("own_backend", 2))


class Threads(dist.ProcessGroup):
    """A backend whose ranks are threads."""

    met: dict[str, tuple[threading.Barrier, list]] = {}  # by the name of the group

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        shared = threading.Barrier(size), [None] * size
        self.meeting, self.rows = Threads.met.setdefault(store.prefix, shared)

    def getBackendName(self):
        return "threads"

    def allreduce(self, tensors, options):
        assert options.reduceOp.op is dist.ReduceOp.SUM
        self.rows[self.rank()] = tensors[0].clone()
        self.meeting.wait(60)
        tensors[0].copy_(sum(self.rows))
        self.meeting.wait(60)
        return dist._Work()


def test_ranks_as_threads(monkeypatch):
    """With a table of groups for each thread, threads stand for processes: Note [Ranks as threads]."""
    c10d = dist.distributed_c10d
    of_process = type(c10d._world)

    class OfThread(threading.local):
        def __init__(self):
            vars(self).update(vars(of_process()))

    monkeypatch.setattr(c10d, "_world", OfThread())
    monkeypatch.setattr(dist.Backend, "_plugins", {})
    dist.Backend.register_backend("threads", Threads, devices="cpu")
    store, found = dist.HashStore(), [None, None]

    def run(rank):
        dist.init_process_group("threads", store=store, rank=rank, world_size=2)
        row = torch.tensor([rank + 1.0])
        dist.all_reduce(row)
        one, another = dist.new_group([0, 1]), c10d._new_group_with_tag([0, 1], pg_tag="mine")
        again = c10d._new_group_with_tag([1, 0], pg_tag="mine")
        alone = [dist.new_group([k], use_local_synchronization=True) for k in range(2)]
        pairs = [one, another, dist.group.WORLD]
        found[rank] = {
            "sum": row.item(), "rank": dist.get_rank(), "known": dist.get_pg_count(), "same": another is again,
            "names": [each.group_name for each in pairs], "tags": [*map(c10d._get_group_tag, pairs)],
            "alone": alone[rank].ranks, "other": alone[1 - rank] == dist.GroupMember.NON_GROUP_MEMBER,
            "by tag": [c10d._find_pg_by_ranks_and_tag(tag, [0, 1]) for tag in ("mine", "", "no")]
            == [another, dist.group.WORLD, None],
        }  # fmt: skip
        dist.destroy_process_group(one)
        assert dist.get_pg_count() == 3 and c10d._world.pg_group_ranks[another] == {0: 0, 1: 1}
        dist.destroy_process_group()
        assert not dist.is_initialized() and not c10d._world.pg_names

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(100)
    for rank, row in enumerate(found):
        assert row == {
            "sum": 3.0, "rank": rank, "known": 4, "same": True, "names": ["1", "2", "0"], "tags": ["ptd:1", "mine", ""],
            "alone": [rank], "other": True, "by tag": True,
        }  # fmt: skip
    assert not dist.is_initialized()


def launch(*arguments: str) -> tuple[int, str]:
    (result,) = ended([started([sys.executable, "-m", "rushlight", *arguments])])
    return result


@needs_mpi
def test_the_debugger_in_one_process():
    """The first call is passed over; the second stops one process, which the other waits for."""
    code = (
        "import rushlight.distributed as dist, sys\n"
        "dist.init_process_group('mpi')\n"
        "for seen in (7, 8):\n"
        "    dist.breakpoint(rank=1, skip=1)\n"
        "print('went on', dist.get_rank())\n"
        "dist.destroy_process_group()\n"
    )
    shared = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment(RANK=k, **shared), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        for k in range(2)
    ]  # fmt: skip
    processes[1].stdin.write("up\np 'saw', seen\nc\n")
    processes[1].stdin.flush()
    (first, one), (second, two) = ended(processes)
    assert first == second == 0 and one == "went on 0\n", (one, two)
    assert "('saw', 8)" in two and two.endswith("went on 1\n"), two


@needs_mpi
def test_launcher():
    status, text = launch("run", "--nproc", "2", str(PROGRAMS), "moves")
    assert status == 0 and "[rank0] done 0" in text and "[rank1] done 1" in text, text
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    status, text = launch(*torchrun, str(PROGRAMS), "raises")
    assert status == 1 and "[rank1] ValueError: rank one is unwell" in text, text
    assert "rank 1 of 2" in text and "failed: exit status 1" in text


def test_launcher_s_options(tmp_path):
    """Options of torchrun may come first; what processes write goes to files, too, or only there."""
    code = "echo $ROLE_NAME $TORCHELASTIC_RUN_ID $WORLD_SIZE; echo x >&2"
    status, text = launch(
        "run", "--nnodes=1:2", "--nproc-per-node=2", "--rdzv-id=7", "--role=a", "--log-dir", str(tmp_path), "-t", "0:1", "--local-ranks-filter=1",
        "--redirects", "2", "--no-python", "sh", "-c", code,
    )  # fmt: skip
    assert status == 0 and text.count("] a 7 2") == 1 and "] x" not in text, text
    found = {
        str(p.relative_to(tmp_path)).split("/", 1)[1]: p.read_text()
        for p in tmp_path.rglob("*.log")
    }
    folder = "attempt_0/{}/std{}.log".format
    assert found == {folder(0, "out"): "a 7 2\n", folder(0, "err"): "x\n", folder(1, "err"): "x\n"}
    with pytest.raises(SystemExit, match="--node-rank 1 of 1 machines"):
        run.Job(run.parse_args(["--nnodes=1:2", "--node-rank=1", "x.py"]), 0)
    with pytest.raises(SystemExit, match="there is no signal 'SIGNONE'"):
        run.main(["--signals-to-handle=SIGNONE", "x.py"])


def test_lines_with_texts_are_in_a_file_of_all_ranks(tmp_path):
    code = "echo an apple $LOCAL_RANK; echo a pear; echo 1,2; echo an apple >&2"
    status, _ = launch(
        "run", "--nproc=2", "--tee=1", "--log-dir", str(tmp_path), "--duplicate-stdout-filters=apple,1,,2",
        "--duplicate-stderr-filters=apple", "--no-python", "sh", "-c", code,
    )  # fmt: skip
    assert status == 0
    found = {path.name: path.read_text() for path in tmp_path.rglob("filtered_*.log")}
    assert sorted(found["filtered_stdout.log"].splitlines()) == [
        "[rank0] 1,2", "[rank0] an apple 0", "[rank1] 1,2", "[rank1] an apple 1",
    ]  # fmt: skip
    assert found["filtered_stderr.log"] == ""  # only what --tee copies


def test_options_come_from_the_environment(monkeypatch):
    given = {"NNODES": "1:3", "NPROC_PER_NODE": "4", "MAX_RESTARTS": "2", "MODULE": "1", "NO_PYTHON": "0", "TEE": "3",
             "DUPLICATE_STDOUT_FILTERS": "a,b", "MASTER_PORT": "5"}  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(f"PET_{name}", value)
    found = run.parse_args(["--max-restarts=1", "x"])
    assert (found.nnodes, found.nproc_per_node, found.max_restarts, found.tee) == (
        "1:3",
        "4",
        1,
        "3",
    )
    assert found.module is True and found.no_python is False and found.standalone is False
    assert found.duplicate_stdout_filters == ["a", "b"] and found.master_port == 5


def test_options_that_are_refused():
    with pytest.raises(
        ValueError, match=r"Could not find entrypoint under 'torchrun.logs_specs\[x\]' key"
    ):
        run.main(["--logs-specs=x", "x.py"])
    with pytest.raises(RuntimeError, match="near GPUs"):
        run.main(["--numa-binding=node", "x.py"])
    with pytest.raises(ValueError, match="'--no-python' flag and the '--module' flag"):
        run.main(["--no-python", "-m", "x"])
    with pytest.raises(ValueError, match="Cuda is not available"):
        run.main(["--nproc-per-node=gpu", "x.py"])
    with pytest.raises(ValueError, match="Unsupported nproc_per_node value: many"):
        run.main(["--nproc-per-node=many", "x.py"])
    for options, text in (
        (["--max-restarts=-1"], "max_restarts must be >= 0"),
        (["--nnodes=3:2"], "not above MAX"),
    ):
        with pytest.raises(AssertionError, match=text):
            run.main([*options, "x.py"])
    with pytest.raises(RuntimeError, match="MIN:MAX"):
        run.main(["--nnodes=2:20:30", "x.py"])


@pytest.mark.parametrize("count, expected", [(1, "-"), (2, "1")])
def test_processes_share_the_processors(count, expected, monkeypatch, capfd):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    run.main([f"--nproc={count}", "--no-python", "sh", "-c", "echo threads ${OMP_NUM_THREADS:--}"])
    assert capfd.readouterr().out.count(f"threads {expected}\n") == count


def test_a_job_that_fails_raises(capfd):
    from rushlight.distributed.elastic import ChildFailedError

    with pytest.raises(ChildFailedError, match="rank 1 .*exit status 3") as failed:
        run.main(["--nproc=2", "--no-python", "sh", "-c", "sleep $((60 * (1 - $RANK))); exit 3"])
    assert [*failed.value.failures] == [1]
    assert "rank 1 of 2" in capfd.readouterr().err


def test_options_as_a_configuration():
    given = ["--nnodes=2:4", "--nproc=3", "--rdzv-backend=c10d", "--rdzv-endpoint=a:5", "--local-ranks-filter=1", "x.py", "--y"]  # fmt: skip
    config, program, arguments = run.config_from_args(run.parse_args(given))
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (2, 4, 3)
    assert (config.rdzv_backend, config.rdzv_endpoint) == ("c10d", "a:5")
    assert program == sys.executable and arguments[-2:] == ["x.py", "--y"]
    config, function, arguments = run.config_from_args(run.parse_args(["--run-path", "x.py", "y"]))
    assert config.rdzv_configs == {"rank": 0} and function is run.run_script_path
    assert arguments == ["x.py", "y"]


def test_a_signal_ends_the_job():
    code = "echo at $LOCAL_RANK $$; sleep 100"
    process = subprocess.Popen(
        [sys.executable, "-m", "rushlight", "run", "--nproc=2", "--virtual-local-rank", "--signals-to-handle=SIGUSR1",
         "--shutdown-timeout=3", "--no-python", "sh", "-c", code],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines = [process.stdout.readline().split() for _ in range(2)]
    assert [line[2] for line in lines] == ["0", "0"]
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGUSR1
    for line in lines:
        with pytest.raises(ProcessLookupError):
            os.kill(int(line[3]), 0)


@needs_mpi
def test_a_job_that_failed_starts_again():
    before = left_in_memory()
    status, text = launch("run", "--nproc=2", "--max-restarts", "1", str(PROGRAMS), "restarted")
    assert status == 0 and "killed by SIGKILL" in text and "restart 1 of 1" in text, text
    assert "[rank0] done" in text and "[rank1] done" in text
    processes = [
        int(line.split()[-1]) for line in text.splitlines() if "process " in line and line[0] == "["
    ]
    assert len(processes) == 4
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert not set(left_in_memory()) - set(before)


@needs_mpi
def test_bench_comm():
    status, text = launch("bench", "comm", "--largest", "1e5", "--json", "--step", "0.1")
    assert status == 0, text
    found = json.loads(text)
    assert found["ranks"] == 2 and found["alpha"] > 0 and found["efficiency"]["1024"] <= 1
    assert set(found["times"]) == {"message", "all_reduce", "broadcast", "all_gather"}
    assert all(t > 0 for times in found["times"].values() for t in times.values())


PLACES = ["start", "collective", "backward", "saving", "end"]
NAMED = r"\branks? {0}\b|ranks \[{0}\]"  # how errors name a rank


def trouble(
    place: str, kind: str, victim: int, ranks: int, meeting: str, folder: pathlib.Path
) -> None:
    """One rank gets into trouble: the others end in time with an error that names it, and nothing is left."""
    before, folder = left_in_memory(), folder / f"{place}_{kind}_{victim}_{meeting}"
    folder.mkdir(parents=True)
    (folder / "begun").touch()
    program = [str(PROGRAMS), "trouble", place, kind, str(victim), str(folder)]
    if meeting == "launcher":
        status, text = launch("run", "--nproc", str(ranks), *program)
        outputs = [text]
        assert status == 1, text
    else:
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        if meeting == "file":
            places = {"MEETING": f"file://{folder / 'meeting'}"}
        processes = [
            started([sys.executable, *program], RANK=k, WORLD_SIZE=ranks, **places)
            for k in range(ranks)
        ]
        others = [each for k, each in enumerate(processes) if k != victim]
        try:
            outputs = [each.communicate(timeout=LIMIT)[0] for each in others]
        finally:
            for each in processes:
                each.kill()
        assert all(each.returncode > 0 for each in others), outputs
        outputs_of_it, _ = processes[victim].communicate(timeout=LIMIT)
        assert kind != "raise" or "ValueError: unwell" in outputs_of_it
    for text in outputs:
        assert re.search(NAMED.format(victim), text), text
    if meeting == "file" and kind == "kill" and place != "start":
        assert any(f"rank {victim} is gone" in text for text in outputs), outputs
    for number in map(int, re.findall(r"process (\d+)$", "\n".join(outputs), re.MULTILINE)):
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    assert not set(left_in_memory()) - set(before)
    for k in range(ranks):  # what was saved is whole
        saved = folder / f"{k}.pt"
        assert saved.exists() or place == "start"
        assert not saved.exists() or torch.load(saved)["step"] >= 1


@needs_mpi
@pytest.mark.parametrize(
    ("place", "kind", "victim", "meeting"),
    [
        ("start", "stop", 1, "address"),
        ("collective", "stop", 0, "address"),
        ("collective", "kill", 0, "file"),
        ("saving", "kill", 1, "launcher"),
        ("end", "raise", 0, "address"),
    ],
)
def test_trouble_of_a_rank(place, kind, victim, meeting, tmp_path):
    trouble(place, kind, victim, 2, meeting, tmp_path)


@needs_mpi
@pytest.mark.slow
def test_trouble_of_ranks(tmp_path):
    for seed in range(int(os.environ.get("FAULT_ROUNDS", "3"))):
        chosen = random.Random(seed)
        ranks = chosen.choice([2, 3, 4])
        kind = chosen.choice(["kill", "stop", "raise"])
        meeting = chosen.choice(["launcher", "address", "file"])
        print(f"round {seed}: {kind} at {PLACES[seed % 5]}, {ranks} ranks that meet by {meeting}")
        trouble(
            PLACES[seed % 5], kind, chosen.randrange(ranks), ranks, meeting, tmp_path / str(seed)
        )


def test_the_sign_of_a_process_that_ended():
    from rushlight.distributed import processes

    mine = processes.sign()
    assert not processes.ended(mine)
    machine, number, started = mine.split(" ")
    assert processes.ended(f"{machine} {number} {started}1") or not started  # a later process
    assert not processes.ended(f"elsewhere {number} {started}1")
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    if started:
        assert processes.ended(f"{machine} {child.pid} {started}")  # nobody has asked for it
    child.wait()
    assert processes.ended(f"{machine} {child.pid} {started}")


def launched(value: float) -> float:
    dist.init_process_group("mpi")
    assert dist.is_torchelastic_launched()
    x = torch.full((2,), value)
    dist.all_reduce(x)
    return x.sum().item() + dist.get_rank()


def by_tcp(rank: int, port: int) -> None:
    dist.init_process_group("mpi", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]


@needs_mpi
def test_spawn():
    from rushlight import multiprocessing

    multiprocessing.spawn(by_tcp, args=(free_port(),), nprocs=2)


@needs_mpi
def test_elastic_launch():
    from rushlight.distributed.elastic import ChildFailedError
    from rushlight.distributed.launcher import LaunchConfig, elastic_launch

    config = LaunchConfig(1, 1, 2, max_restarts=1, rdzv_endpoint="localhost:0", rdzv_backend="c10d")
    assert elastic_launch(config, launched)(3.0) == {0: 12.0, 1: 13.0}
    program = elastic_launch(config, sys.executable)
    fails = "import os, time; os.environ['{0}'] == '{1}' and exit(7); time.sleep({2})"
    assert program("-c", fails.format("TORCHELASTIC_RESTART_COUNT", 0, 0)) == {0: None, 1: None}
    with pytest.raises(ChildFailedError, match="rank 1 .*exit status 7") as failed:
        program("-c", fails.format("RANK", 1, 60))
    rank, failure = failed.value.get_first_failure()
    assert (rank, failure.local_rank, failure.exitcode) == (1, 1, 7)
    assert [*failed.value.failures] == [1, 0]  # that was ended then
    with pytest.raises(ValueError, match="'etcd' is not registered"):
        elastic_launch(LaunchConfig(2, 2, 1), launched)(1.0)


def test_missing_extra_is_named():
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import rushlight.distributed as dist\n"
        "assert dist.is_available() and not dist.is_mpi_available()\n"
        "dist.init_process_group('mpi', rank=0, world_size=1, store=dist.HashStore())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 1 and "rushlight[distributed]" in done.stderr


def test_wrapped_for_recomputation():
    from rushlight.distributed.algorithms.checkpoint_wrapper import (
        CheckpointWrapper,
        apply_activation_checkpointing,
    )

    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 1)))
    plain, x = copy.deepcopy(model), torch.ones(4, 2)
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
    assert isinstance(model[0], CheckpointWrapper) and isinstance(model[1][1], CheckpointWrapper)
    assert model[0].out_features == 3
    assert [n for n, _ in model[0].named_parameters()] == ["weight", "bias"]
    assert list(model.state_dict()) == list(plain.state_dict())
    model.load_state_dict(plain.state_dict())
    calls = []
    model[0]._checkpoint_wrapped_module.register_forward_pre_hook(lambda *_: calls.append(1))
    for each in (model, plain):
        each(x).sum().backward()
    assert len(calls) == 2
    for p, q in zip(model.parameters(), plain.parameters()):
        assert torch.equal(p.grad, q.grad)


@pytest.mark.parametrize("kind", ["reentrant", "offloaded"])
def test_wrapped_modules_with_arguments_by_name(kind):
    from rushlight.distributed.algorithms import checkpoint_wrapper as wrappers
    from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy

    class Scaled(torch.nn.Linear):
        def forward(self, x, *, by=1):
            return super().forward(x) * by

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Scaled(2, 2)

        def forward(self, x, by):
            return self.inner(x, by=by).exp()

    def reentrant(module):
        return wrappers.checkpoint_wrapper(module, wrappers.CheckpointImpl.REENTRANT)

    model = Model()
    plain, x, by = (
        copy.deepcopy(model),
        torch.ones(4, 2, requires_grad=True),
        torch.tensor(2.0, requires_grad=True),
    )
    wrapper = reentrant if kind == "reentrant" else wrappers.offload_wrapper
    wrappers.apply_activation_checkpointing(
        model, wrapper, auto_wrap_policy=ModuleWrapPolicy([Scaled])
    )
    assert isinstance(model.inner, wrappers.ActivationWrapper)
    grads = []
    for each in (model, plain):
        by.grad = None
        each(x, by).sum().backward()
        grads.append([by.grad, *(p.grad for p in each.parameters())])
    for p, q in zip(*grads, strict=True):
        assert torch.equal(p, q)


def test_a_recorded_failure_is_in_a_file(tmp_path, monkeypatch):
    from rushlight.distributed.elastic import ChildFailedError, ProcessFailure, record

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    @record
    def main():
        raise ValueError("unwell")

    with pytest.raises(ValueError, match="unwell"):
        main()
    assert (
        json.loads((tmp_path / "error.json").read_text())["message"]["message"]
        == "ValueError: unwell"
    )
    failure = ProcessFailure(0, 7, 3, str(tmp_path / "error.json"))
    assert (
        "ValueError: unwell" in failure.message["extraInfo"]["py_callstack"]
        and failure.timestamp > 1e9
    )
    killed = ProcessFailure(1, 8, -signal.SIGKILL, "none.json")
    assert killed.message == "Signal 9 (SIGKILL) received by PID 8" and killed.error_file == "<N/A>"
    killed.timestamp += 1

    @record
    def starts_others(status=None):
        if status is None:
            raise ChildFailedError("job", {1: killed, 0: failure})
        raise SystemExit(status)

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "own.json"))
    with pytest.raises(ChildFailedError, match="(?s)job FAILED.rank 0 .*rank 1 .*SIGKILL"):
        starts_others()
    message = json.loads((tmp_path / "own.json").read_text())["message"]
    assert message["errorCode"] == 3 and message["message"] == "ValueError: unwell"
    assert starts_others(0) is None
    with pytest.raises(SystemExit):
        starts_others(1)


def test_what_a_store_is_used_for():
    """A store at a free port, and what processes give each other in it."""
    from rushlight.distributed.elastic import utils

    with pytest.raises(ValueError, match="server_port must be specified when world_size > 1"):
        utils.create_c10d_store(True, "localhost", world_size=2)
    store = utils.create_c10d_store(True, "localhost")
    other = utils.create_c10d_store(False, "localhost", store.port)
    with pytest.raises(RuntimeError):
        utils.create_c10d_store(True, "localhost", store.port)
    with pytest.raises(TimeoutError):
        utils.create_c10d_store(False, "localhost", utils.get_free_port(), timeout=0.01)
    found = []
    thread = threading.Thread(
        target=lambda: (
            utils.barrier(other, 2, "b"),
            found.append(utils.synchronize(other, b"1", 1, 2, "a")),
        )
    )
    thread.start()
    utils.barrier(store, 2, "b")
    assert utils.synchronize(store, b"0", 0, 2, "a") == [b"0", b"1"]
    thread.join()
    assert (
        found == [[b"0", b"1"]]
        and utils.get_logger().name == __name__ != utils.get_logger("x").name
    )


def test_optimizers_that_step_in_backward():
    from rushlight.distributed.optim import (
        _apply_optimizer_in_backward as apply,
    )
    from rushlight.distributed.optim import (
        _get_in_backward_optimizers as applied,
    )

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    plain = copy.deepcopy(net)
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.1)
    apply(torch.optim.Adam, net.parameters(), {"lr": 0.1})
    assert len(applied(net)) == 4 and applied(plain) == []
    for _ in range(3):
        for each in (net, plain):
            each(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert all(map(torch.equal, net.parameters(), plain.parameters()))
        assert all(p.grad is None for p in net.parameters())
    apply(torch.optim.SGD, plain.parameters(), {"lr": 0.1}, register_hook=False)
    plain(torch.ones(1, 2)).sum().backward()
    assert all(map(torch.equal, net.parameters(), plain.parameters()))


def test_calls_before_init():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="environment variable \\w+ expected, but not set"):
        dist.init_process_group("mpi", "env://")
    with pytest.raises(RuntimeError, match="No rendezvous handler for xx://"):
        dist.init_process_group("mpi", "xx://a", rank=0, world_size=1)
    with pytest.raises(AssertionError, match="world_size must be positive"):
        dist.init_process_group("mpi", store=dist.HashStore())
    assert not dist.is_initialized()


def test_gradients_are_given_away_after_hooks():
    """What sends a gradient to others runs after all hooks of it, and stays with a leaf that is swapped."""
    weight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    seen = []
    weight._edge.reduced = (lambda leaf: seen.append(("reduced", leaf is weight)),)
    (weight * other).sum().backward()
    (weight * other).sum().backward(inputs=[other])
    assert seen == [("reduced", True)]
    weight.register_post_accumulate_grad_hook(lambda leaf: seen.append("hook"))
    with torch.profiler.profile():
        (weight * other).sum().backward()
    assert seen[1:] == ["hook", ("reduced", True)]
    torch.utils.swap_tensors(weight, other)  # hooks go with what was swapped
    other.sum().backward()
    assert seen[3:] == ["hook", ("reduced", False)]


def test_reductions_are_values():
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.BXOR, dist._make_nccl_premul_sum(2.0)):
        assert isinstance(op, dist.ReduceOp) and copy.deepcopy(op) == op != "sum"
        again = pickle.loads(pickle.dumps(op))
        assert again == op and getattr(again, "factor", None) == getattr(op, "factor", None)
    assert dist.ReduceOp(dist.ReduceOp.MAX) == dist.ReduceOp.MAX != dist.ReduceOp(dist.ReduceOp.MIN)


def test_rendezvous_is_a_function(tmp_path):
    url = f"file://{tmp_path / 'store'}"
    store, rank, size = next(dist.rendezvous(url + "?rank=0&world_size=1"))
    store.set("a", "1")
    assert (rank, size) == (0, 1) and next(dist.rendezvous(url, 0, 1))[0].get("a") == b"1"
    with pytest.raises(RuntimeError, match="^No rendezvous handler"):
        dist.rendezvous("other://")
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file:///x?rank=0", 1, 2)


def test_requests_to_a_store_that_hangs_end():
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # it takes connections, and answers nothing
        port = silent.getsockname()[1]
        store = dist.TCPStore(
            "127.0.0.1", port, timeout=timedelta(milliseconds=50), wait_for_workers=False
        )
        for _ in range(2):
            with pytest.raises(dist.DistNetworkError, match="does not answer"):
                store.get("a")


# -- stores ----------------------------------------------------------------------------------------


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"))
    if request.param == "tcp":
        return dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    made = dist.HashStore()
    return dist.PrefixStore("front", made) if request.param == "prefix" else made


def test_store(store):
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"1" and store.multi_get(["a", "b"]) == [b"1", b"\x00\xff"]
    assert store.check(["a", "b"]) and not store.check(["a", "c"])
    assert store.add("n", 3) == 3 and store.add("n", -1) == 2 and store.get("n") == b"2"
    assert store.compare_set("k", "", "v") == b"v" and store.compare_set("k", "x", "w") == b"v"
    assert store.compare_set("k", "v", "w") == b"w" and store.compare_set("none", "x", "w") == b"x"
    store.append("k", "!")
    assert store.get("k") == b"w!"
    assert store.delete_key("k") and not store.delete_key("k")
    store.queue_push("q", "1")
    assert store.queue_len("q") == 1 and store.queue_pop("q") == b"1"
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", block=False)
    assert {"a", "b", "n"} == {*store.list_keys()}
    for write in (
        lambda: store.set("number", 3),
        lambda: store.set(3, "x"),
        lambda: store.append("b", 1),
        lambda: store.add(3, 1),
        lambda: store.compare_set("k", "", 3),
        lambda: store.queue_push("q", 3),
    ):
        with pytest.raises(TypeError, match="of a store is a str|holds str and bytes"):
            write()
    assert {"a", "b", "n"} == {*store.list_keys()} and store.get("b") == b"\x00\xff"
    with pytest.raises(dist.DistStoreError, match="wait timeout after 20ms, keys: /c"):
        store.wait(["c"], timedelta(milliseconds=20))
    assert issubclass(dist.DistStoreError, RuntimeError)


def test_keys_of_a_prefix():
    """Each prefix has keys of its own; those of the store behind are not among them."""
    below = dist.HashStore()
    below.set("x", "1")
    inner = dist.PrefixStore("a", dist.PrefixStore("b", below))
    inner.set("y", "2")
    assert inner.list_keys() == ["y"] and dist.PrefixStore("b", below).list_keys() == ["a/y"]
    assert {*below.list_keys()} == {"x", "b/a/y"} and dist.PrefixStore("c", below).list_keys() == []


def test_who_waits_hears_who_did_not_come():
    from rushlight.distributed import world

    store, errors = dist.HashStore(), []

    def come(rank, seconds):
        with pytest.raises(dist.DistStoreError, match=r"missing are the ranks \[2\]") as found:
            world.store_barrier(store, "made", rank, 3, timedelta(seconds=seconds))
        errors.append(found.value)

    patient = threading.Thread(target=come, args=(1, 1000))
    patient.start()
    store.wait(["made/1"])
    come(0, 0.01)
    patient.join()
    assert len(errors) == 2 and str(errors[0]) == str(errors[1])


def test_who_follows_one_that_died_is_not_blamed(tmp_path):
    from rushlight.distributed import processes, world
    from rushlight.distributed.tcp_store import FOLLOWERS, GONE

    store = dist.FileStore(str(tmp_path / "store"))
    job = types.SimpleNamespace(files=[store], size=4)
    store.set("process/2", processes.sign())
    assert world.World.gone(job, store) == {}
    store.append(GONE, "3 ")
    store.append(FOLLOWERS, "0 3 ")
    store.append(FOLLOWERS, "1 3 ")
    assert world.World.gone(job, store) == {0: 3, 1: 3, 3: 3}


def test_a_timeout_tells_who_waits_elsewhere():
    from rushlight.distributed import work

    group = types.SimpleNamespace(
        ranks=[4, 5, 6, 7], rank=lambda: 0, store=dist.HashStore(), group_name="0", gone=dict,
        timeout=timedelta(seconds=6), engine="mpi",
    )  # fmt: skip
    request = types.SimpleNamespace(Test=lambda: False)
    watch = work.Watch(work.Work(group, "all_reduce", 27, request, None, []), 6.0)
    group.store.set("waits/all_reduce/27/3", "")
    group.store.set("waiting/1", "all_reduce number 26")
    watch.look(watch.start)
    assert group.store.get("waiting/0") == b"all_reduce number 27"
    assert watch.message().endswith(
        "did not come to it: ranks [6]; rank 5 waits in all_reduce number 26)"
    )
    watch.end()
    assert not group.store.check(["waiting/0"])


def test_get_waits_for_another_thread(store):
    other = threading.Timer(0.05, lambda: store.clone().set("late", "here"))
    other.start()
    assert store.get("late") == b"here"
    other.join()


def test_clients_of_a_tcp_store():
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", served.port)
    client.set("x", "y" * 200_000)
    assert served.get("x") == b"y" * 200_000
    with pytest.raises(dist.DistNetworkError, match="timed out after 100ms"):
        dist.TCPStore("127.0.0.1", free_port(), timeout=timedelta(milliseconds=100))
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=timedelta(milliseconds=100))


@pytest.mark.parametrize("shared", [True, False])
def test_a_port_is_free_when_no_store_uses_it(shared):
    def made(port):
        return dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, multi_tenant=shared)  # fmt: skip

    stores = [made(0)]
    port = stores[0].port
    stores[0].set("x", "1")
    if shared:
        stores.append(made(port))
        del stores[0]
        assert stores[0].get("x") == b"1"
    stores.clear()
    assert not made(port).check(["x"])


def test_a_file_store_is_shared(tmp_path):
    one, two = (dist.FileStore(str(tmp_path / "store"), 2) for _ in range(2))
    one.set("a", "b")
    assert two.get("a") == b"b" and two.add("n", 1) == 1 and one.add("n", 1) == 2
    del one, two
    assert not (tmp_path / "store").exists()
