"""Processes of one machine that end together, and the agent that starts them again."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import rushlight
from rushlight.distributed.elastic import rendezvous, timer
from rushlight.distributed.elastic.agent import server
from rushlight.distributed.elastic.agent.workers import _RoleInstanceInfo
from rushlight.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    SignalException,
    Std,
    redirect,
    start_processes,
)
from rushlight.distributed.elastic.tail_log import TailLog
from rushlight.distributed.elastic.utils import get_free_port

NOWHERE = os.devnull


def ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def doubled(x):
    print("doubled", flush=True)
    return x * 2


def environment():
    return {name: os.environ[name] for name in NAMES}


NAMES = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE ROLE_NAME TORCHELASTIC_RESTART_COUNT".split()


def fails_first(folder):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
        raise ValueError("the first time")
    return int(os.environ["RANK"]) + 10


def summed_after_a_death():
    import rushlight.distributed as dist

    dist.init_process_group("gloo")
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    total = rushlight.tensor(float(dist.get_rank() + 1))
    dist.all_reduce(total)
    dist.destroy_process_group()
    return total.item()


def hangs_first():
    timer.configure(timer.FileTimerClient(os.environ[server.TORCHELASTIC_TIMER_FILE]))
    with timer.expires(after=0.5):
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            time.sleep(60)
    return os.path.exists(os.environ[server.TORCHELASTIC_TIMER_FILE])


def fails_or_sleeps(fails):
    if fails:
        raise ValueError("no")
    time.sleep(60)


def test_functions_return_values_and_write_to_files(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path), {0: Std.OUT})
    given = {0: (rushlight.tensor([1.0, 2.0]),), 1: (3,)}
    started = start_processes("job", doubled, given, {0: {}, 1: {}}, specs)
    result = started.wait(period=0.05)
    assert not result.is_failed()
    assert result.return_values[0].tolist() == [2.0, 4.0]
    assert result.return_values[1] == 6
    with open(result.stdouts[0]) as file:
        assert file.read() == "doubled\n"
    assert result.stdouts[1] == "" and all(map(ended, started.pids().values()))


def test_a_function_that_raises_ends_the_others(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    specs = DefaultLogsSpecs(str(tmp_path))
    given = {0: (False,), 1: (True,)}
    started = start_processes("job", fails_or_sleeps, given, {0: {}, 1: {}}, specs)
    result = started.wait(period=0.05)
    assert result.is_failed() and [*result.failures] == [1]
    failure = result.failures[1]
    assert failure.exitcode == 1 and failure.message["message"] == "ValueError: no"
    assert all(map(ended, started.pids().values()))
    assert signal.getsignal(signal.SIGTERM) == before


def test_programs_end_together(tmp_path, capsys):
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.ERR, tee={0: Std.OUT})
    there = tmp_path / "there"  # both have written when one fails
    code = f"echo out; echo err >&2; [ $N = 0 ] && {{ until [ -e {there} ]; do sleep 0.02; done; exit 7; }}; touch {there}; sleep 60 & wait"
    args, envs = {0: ("-c", code), 1: ("-c", code)}, {0: {"N": "0"}, 1: {"N": "1"}}
    started = start_processes(
        "job", "sh", args, envs, specs, log_line_prefixes={0: "> "}, duplicate_stdout_filters=["ou"]
    )
    result = started.wait(timeout=20, period=0.05)
    assert result.failures[0].exitcode == 7
    assert result.failures[1].exitcode == -signal.SIGTERM
    with open(result.stdouts[0]) as out, open(result.stderrs[1]) as err:
        assert (out.read(), err.read()) == ("out\n", "err\n")
    assert "> out\n" in capsys.readouterr().out
    (filtered,) = tmp_path.rglob("filtered_stdout.log")
    assert filtered.read_text() == "> out\n"
    with pytest.raises(FileNotFoundError):
        start_processes("job", "no_such_program", {0: ()}, {0: {}}, DefaultLogsSpecs(NOWHERE))
    with pytest.raises(RuntimeError, match="envs, local rank mapping mismatch"):
        start_processes("job", "sh", {0: (), 1: ()}, {0: {}}, DefaultLogsSpecs(NOWHERE))


def test_a_process_that_ignores_the_signal_is_killed():
    code = "trap '' TERM; while true; do sleep 0.1; done"
    started = start_processes("job", "sh", {0: ("-c", code)}, {0: {}}, DefaultLogsSpecs(NOWHERE))
    assert started.wait(timeout=0.3, period=0.05) is None
    started.close(timeout=1)
    assert all(map(ended, started.pids().values()))


def test_signals_raise_while_processes_run():
    given = DefaultLogsSpecs(NOWHERE)
    started = start_processes("job", "sleep", {0: (60,)}, {0: {}}, given)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SignalException) as caught:
        started.wait(period=0.05)
    assert caught.value.sigval == signal.SIGTERM
    started.close(caught.value.sigval)
    assert all(map(ended, started.pids().values()))


def test_streams_of_c_and_of_children_are_redirected(tmp_path):
    code = (
        "import ctypes, os, sys\n"
        "from rushlight.distributed.elastic.multiprocessing import redirect_stdout\n"
        "print('before')\n"
        "with redirect_stdout(sys.argv[1]):\n"
        "    print('python')\n"
        "    ctypes.CDLL(None).printf(b'c\\n')\n"
        "    os.system('echo child')\n"
        "print('after')\n"
    )
    path = tmp_path / "file"
    made = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert made.stdout == "before\nafter\n", made.stderr
    assert sorted(path.read_text().split()) == ["c", "child", "python"]
    with pytest.raises(ValueError, match="unknown standard stream <stdin>"):
        redirect("stdin", "file").__enter__()


def test_lines_are_shown_whole(tmp_path, caplog):
    paths, shown = (
        {0: str(tmp_path / "a"), 1: str(tmp_path), 2: str(tmp_path / "none")},
        io.StringIO(),
    )
    follow = TailLog("job", paths, shown, interval_sec=0.01).start()
    with open(paths[0], "w", buffering=1) as file:
        for part in ("one", " line\n", "no end"):
            file.write(part)
            file.flush()
            time.sleep(0.05)
    assert not follow.stopped()
    follow.stop()
    assert follow.stopped()
    assert shown.getvalue() == "[job0]:one line\n[job0]:no end\n"
    assert "the file of job1" in caplog.text  # it is a folder


def spec(entrypoint, n=2, args=(), max_restarts=0, role="trainer", **more):
    params = rendezvous.RendezvousParameters(
        "static", f"127.0.0.1:{get_free_port()}", "name", 1, 1, rank=0
    )
    handler = rendezvous.get_rendezvous_handler(params)
    return server.WorkerSpec(
        role, n, handler, entrypoint=entrypoint, args=args, max_restarts=max_restarts,
        monitor_interval=0.05, **more,
    )  # fmt: skip


def test_an_agent_runs_a_function():
    agent = server.LocalElasticAgent(spec(environment), DefaultLogsSpecs(NOWHERE))
    result = agent.run()
    assert result.state == server.WorkerState.SUCCEEDED
    for rank in (0, 1):
        expected = [str(rank), str(rank), "2", "2", "trainer", "0"]
        assert result.return_values[rank] == dict(zip(NAMES, expected, strict=True))


def test_machines_that_do_not_end_together_have_done_their_work(monkeypatch):
    def barrier(*arguments):
        raise RuntimeError("late")

    monkeypatch.setattr(server.store_util, "barrier", barrier)
    result = server.LocalElasticAgent(spec("true", n=1), DefaultLogsSpecs(NOWHERE)).run()
    assert result.state == server.WorkerState.SUCCEEDED


def test_an_agent_starts_again(tmp_path, monkeypatch):
    put = {}
    monkeypatch.setattr(server, "put_metric", lambda name, value: put.update({name: value}))
    agent = server.LocalElasticAgent(
        spec(fails_first, args=("${local_rank}",), max_restarts=2), DefaultLogsSpecs(str(tmp_path))
    )
    result = agent.run()
    assert result.return_values == {0: 10, 1: 11}
    assert put["workers.trainer.run_success_with_retries"] == 1
    assert put["workers.trainer.run_success_no_retries"] == 0
    assert put["workers.trainer.flakiness"] == 33  # one of three starts
    assert agent.get_event_succeeded().metadata["agent_restarts"] == 1


def test_an_agent_whose_restarts_are_used_up_says_who_failed():
    given = spec(fails_or_sleeps, args=(True,), n=1, max_restarts=1)
    result = server.LocalElasticAgent(given, DefaultLogsSpecs(NOWHERE)).run()
    assert result.is_failed() and result.failures[0].exitcode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="MPI")
def test_processes_of_an_agent_are_a_job():
    pytest.importorskip("mpi4py")
    given = spec(summed_after_a_death, max_restarts=1)
    result = server.LocalElasticAgent(given, DefaultLogsSpecs(NOWHERE)).run()
    assert result.return_values == {0: 3.0, 1: 3.0}


@pytest.mark.skipif(sys.platform != "linux", reason="MPI")
@pytest.mark.parametrize("dies", [None, 2])
def test_machines_that_agree_on_their_numbers_run_a_job(tmp_path, dies):
    pytest.importorskip("mpi4py")
    script = tmp_path / "job.py"
    script.write_text(
        "import os, signal, sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor(dist.get_rank() + 1.0)\n"
        "dist.all_reduce(total)\n"
        "attempt = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
        "print('sum', total.item(), 'attempt', attempt, flush=True)\n"
        "if sys.argv[1] == str(dist.get_rank()) and attempt == '0':\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n"
    )
    command = [
        sys.executable, "-m", "rushlight", "run", "--nproc", "2", "--nnodes", "2", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", f"localhost:{get_free_port()}", "--rdzv-id", "job", "--local-addr", "localhost",
        "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "1", str(script), str(dies),
    ]  # fmt: skip
    machines = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for each in machines for line in each.communicate(timeout=120)[0].splitlines()]
    assert [each.returncode for each in machines] == [0, 0]
    times = (
        1 if dies is None else 2
    )  # who hears of the others before its processes fail counts no restart
    expected = [f"[rank{k}]" for k in range(4) for _ in range(times)]
    assert sorted(line.split()[0] for line in lines) == expected
    assert all("sum 10.0" in line for line in lines)


def test_programs_of_the_older_launcher_get_their_number(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import os, sys\nprint(sys.argv[1:], os.environ['LOCAL_RANK'])\n")
    start = [
        sys.executable,
        "-m",
        "rushlight",
        "run",
        "-m",
        "torch.distributed.launch",
        "--nproc_per_node=2",
    ]
    for more, expected in (([], "['--local-rank=1', '-x'] 1"), (["--use-env"], "['-x'] 1")):
        made = subprocess.run([*start, *more, str(script), "-x"], capture_output=True, text=True)
        assert f"[rank1] {expected}" in made.stdout, made.stderr


def test_numbers_of_processes_by_machine_and_role():
    infos = [
        ("server", 0, 4),
        ("trainer", 1, 1),
        ("trainer", 2, 2),
        ("trainer", 3, 3),
        ("server", 4, 5),
    ]
    infos = [_RoleInstanceInfo(*each) for each in infos]
    found = [server._ranks(infos, k) for k in range(5)]
    assert found == [[0, 15, 0, 9], [4, 15, 0, 6], [5, 15, 1, 6], [7, 15, 3, 6], [10, 15, 4, 9]]
    assert _RoleInstanceInfo.deserialize(infos[1].serialize()).local_world_size == 1
    assert _RoleInstanceInfo.compare(infos[0], infos[4]) == -1
    assert _RoleInstanceInfo.find_role_boundaries(
        sorted(infos, key=lambda i: (i.role, i.rank)), "trainer"
    ) == (2, 4)


def test_what_an_agent_cannot_do_it_refuses():
    with pytest.raises(AssertionError, match="entrypoint"):
        spec(None)
    with pytest.warns(DeprecationWarning, match="WorkerSpec.fn"):
        assert spec(None, fn=doubled).get_entrypoint_name() == "doubled"
    with pytest.raises(NotImplementedError, match="health_check_server"):
        server.LocalElasticAgent(spec("sh"), DefaultLogsSpecs(), health_check_server=1)


def test_the_report_says_what_a_process_wrote(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main(): raise ValueError('unwell')\nmain()\n"
    )
    start = [sys.executable, "-m", "rushlight", "run", "--nproc", "1", str(script)]
    made = subprocess.run(start, capture_output=True, text=True)
    assert made.returncode == 1 and "failed: exit status 1, ValueError: unwell." in made.stderr


def test_an_agent_ends_a_process_whose_block_takes_too_long(tmp_path, monkeypatch):
    monkeypatch.setenv(server.TORCHELASTIC_ENABLE_FILE_TIMER, "1")
    monkeypatch.setenv(server.TORCHELASTIC_TIMER_FILE, str(tmp_path / "pipe"))
    given = spec(hangs_first, n=1, max_restarts=1)
    agent = server.LocalElasticAgent(given, DefaultLogsSpecs(NOWHERE))
    assert agent.run().return_values == {0: True}
    assert agent._remaining_restarts == 0 and not (tmp_path / "pipe").exists()


def test_a_pipe_without_a_server_is_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(timer, "TRIES", 2)
    with pytest.raises(BrokenPipeError, match="FileTimerServer is not available"):
        timer.FileTimerClient(str(tmp_path / "pipe")).acquire("here", 1.0)
    served = timer.FileTimerServer(str(tmp_path / "pipe"), "job", 0.05)
    served.start()
    client = timer.FileTimerClient(str(tmp_path / "pipe"))
    client.acquire("here", time.time() + 60)
    client.acquire("there", time.time() + 60)
    client.release("there")
    with pytest.raises(RuntimeError, match="scope is too long"):
        client.acquire("x" * 5000, 1.0)
    served.run_once()
    assert [*served._timers] == [(os.getpid(), "here")] and served._request_count == 3
    served.stop()
    assert not (tmp_path / "pipe").exists()
