"""Start a program in several processes that become one job, as `torchrun` and `python -m torch.distributed.run` do.

examples:
  rushlight run --nproc 2 train.py --epochs 3
  rushlight run --nproc 4 --max-restarts 3 train.py
  rushlight run --nproc 8 --nnodes 2 --node-rank 1 --master-addr first --master-port 29500 train.py
  rushlight run --nproc 8 --nnodes 2 --rdzv-backend c10d --rdzv-endpoint first:29500 --rdzv-id 7 train.py

Lines that a process writes begin with its rank. When one fails the others are ended, and a report says which and why.
Options that are not given come from the environment, --max-restarts from PET_MAX_RESTARTS.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from rushlight.distributed import pmi
from rushlight.distributed.tcp_store import TCPStore

__all__ = [
    "config_from_args", "determine_local_world_size", "get_args_parser", "get_rdzv_endpoint", "get_use_env", "main", "parse_args",
    "parse_min_max_nnodes", "run", "run_script_path",
]  # fmt: skip

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
GRACE = 5.0  # seconds between asking a process to end and ending it


def _filters(text: str) -> list[str]:
    """The texts between commas; two commas are one within a text."""
    return [each.replace("\0", ",").strip() for each in text.replace(",,", "\0").split(",")]


STREAMS = "to files: 1 stdout, 2 stderr, 3 both; or of some ranks, as 0:1,1:2"
FILTERED = "that --tee writes are in filtered_stdout.log or filtered_stderr.log, too"
OPTIONS: dict[str, dict[str, Any]] = {
    "--nproc-per-node": {"default": "1", "help": "processes on this machine, or `auto`"},
    "--nnodes": {"default": "1", "help": "machines; of MIN:MAX the job has MIN, with c10d as many as come"},
    "--node-rank": {"type": int, "default": 0, "help": "the number of this machine"},
    "--master-addr": {"default": "127.0.0.1", "help": "the machine number 0"},
    "--master-port": {"type": int, "default": 0, "help": "a port there; one machine takes a free one"},
    "--max-restarts": {"type": int, "default": 0, "help": "how often a failed job starts again"},
    "--rdzv-endpoint": {"default": "", "help": "host:port, in the place of --master-addr and -port"},
    "--module": {"action": "store_true", "help": "PROGRAM is the name of a module"},
    "--no-python": {"action": "store_true", "help": "PROGRAM is a command, and no Python"},
    "--rdzv-backend": {"default": "static", "help": "c10d: machines agree on their numbers at --rdzv-endpoint"},
    "--rdzv-conf": {"default": "", "help": "settings of c10d, as join_timeout=60,is_host=1"},
    "--local-addr": {"default": None, "help": "the address of this machine, with c10d"},
    "--rdzv-id": {"default": "", "help": "the job's name, in TORCHELASTIC_RUN_ID"},
    "--role": {"default": "default", "help": "the processes' name, in ROLE_NAME"},
    "--virtual-local-rank": {"action": "store_true", "help": "LOCAL_RANK is 0 in all processes"},
    "--shutdown-timeout": {
        "type": int, "default": GRACE, "help": "seconds between asking a process to end and ending it",
    },
    "--signals-to-handle": {
        "default": "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "help": "signals that end the job, as SIGTERM,SIGUSR1",
    },
    "--log-dir": {"default": None, "help": "a folder for the files of --redirects and --tee"},
    "--redirects": {"default": "0", "help": f"what processes write goes {STREAMS}"},
    "--tee": {"default": "0", "help": f"it goes to files, too, {STREAMS}"},
    "--local-ranks-filter": {"default": "", "help": "ranks on this machine that are shown, as 0,2"},
    "--duplicate-stdout-filters": {
        "type": _filters, "default": [], "help": f"lines with one of these texts {FILTERED}",
    },
    "--duplicate-stderr-filters": {
        "type": _filters, "default": [], "help": f"lines with one of these texts {FILTERED}",
    },
    "--standalone": {"action": "store_true", "help": "one machine: addresses and ports are not used"},
}  # fmt: skip
SHORT = {"--nproc-per-node": "--nproc", "--module": "-m", "--redirects": "-r", "--tee": "-t"}
WITHOUT_MEANING = "monitor-interval start-method event-log-handler".split()


NEAR_GPUS = ["node", "socket", "exclusive", "core-complex"]


def get_args_parser() -> argparse.ArgumentParser:
    """The options of torchrun; those that mean nothing here are accepted."""
    return _parser(os.environ)


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The options, with what the environment has of them."""
    made = argparse.ArgumentParser(
        prog="torchrun", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    for name, how in OPTIONS.items():
        short = [SHORT[name]] if name in SHORT else []
        given = environment.get(f"PET_{_with_underscores(name)[2:].upper()}")
        if given is not None:
            how = how | {"default": bool(int(given)) if "action" in how else given}
        add(*dict.fromkeys([name, _with_underscores(name)]), *short, **how)
    for name in WITHOUT_MEANING:
        add(f"--{name}", _with_underscores(f"--{name}"), help=argparse.SUPPRESS)
    for name in ("--run-path", "--use-env"):
        add(name, _with_underscores(name), action="store_true", help=argparse.SUPPRESS)
    add("--logs-specs", "--logs_specs", help=argparse.SUPPRESS)
    add("--numa-binding", "--numa_binding", choices=NEAR_GPUS, help=argparse.SUPPRESS)
    add("training_script", metavar="PROGRAM", help="a .py file, or a module after -m")
    rest = "the program's own arguments"
    add("training_script_args", metavar="...", nargs=argparse.REMAINDER, help=rest)
    return made


def _with_underscores(name: str) -> str:
    return "--" + name[2:].replace("-", "_")


class Target(NamedTuple):
    """Where lines go, what is written before each, and texts of which a line must have one."""

    file: Any
    before: str
    texts: Sequence[str] = ()


class Job:
    """The processes of this machine, while they run once."""

    def __init__(self, options: argparse.Namespace, restarts: int) -> None:
        self.options, self.here = options, determine_local_world_size(options.nproc_per_node)
        machines, _ = parse_min_max_nnodes(options.nnodes)
        if options.node_rank >= machines:
            raise SystemExit(f"torchrun: --node-rank {options.node_rank} of {machines} machines")
        self.first, self.size = options.node_rank * self.here, machines * self.here
        host, port = options.master_addr, options.master_port
        if options.standalone:
            host, port = "127.0.0.1", 0
        elif options.rdzv_endpoint:
            name, _, number = options.rdzv_endpoint.partition(":")
            host, port = name, int(number or 29400)
        self.store = None
        if options.node_rank == 0:
            limit = timedelta(minutes=5)
            self.store = TCPStore(host, port, is_master=True, timeout=limit, wait_for_workers=False)
            port = self.store.port
        self.shared = {
            "WORLD_SIZE": self.size, "LOCAL_WORLD_SIZE": self.here, "GROUP_RANK": options.node_rank,
            "GROUP_WORLD_SIZE": machines, "ROLE_NAME": options.role, "ROLE_WORLD_SIZE": self.size, "MASTER_ADDR": host,
            "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": options.rdzv_id or os.getpid(),
            "TORCHELASTIC_RESTART_COUNT": restarts, "TORCHELASTIC_MAX_RESTARTS": options.max_restarts,
        }  # fmt: skip
        if options.virtual_local_rank:
            self.shared["LOCAL_RANK"] = 0
        self.processes: list[subprocess.Popen] = []
        self.threads: list[threading.Thread] = []
        self.errors = ""  # a folder in which processes write why they fail
        self.reasons: dict[int, str] = {}
        self.filtered: dict[str, Any] = {}

    def start(self) -> None:
        """Start all; what each writes is passed on with its rank."""
        kept = {k: v for k, v in os.environ.items() if k not in pmi.LAUNCHERS and k != "PMI_SIZE"}
        if self.here > 1:
            kept.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: they share the processors
        for name in ("stdout", "stderr"):
            if getattr(self.options, f"duplicate_{name}_filters"):
                self.filtered[name] = self.file(f"filtered_{name}.log")
        self.errors = tempfile.mkdtemp(prefix="rushlight_errors_")
        for local in range(self.here):
            rank = self.first + local
            own = {"RANK": rank, "LOCAL_RANK": local, "ROLE_RANK": rank, "PYTHONUNBUFFERED": "1",
                   ERROR_FILE: os.path.join(self.errors, f"{local}.json")}  # fmt: skip
            process = subprocess.Popen(
                command(self.options, local), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=kept | {k: str(v) for k, v in (own | self.shared).items()}, process_group=0,
                preexec_fn=_end_with_the_parent(),  # noqa: PLW1509  # one call of C, found before
            )  # fmt: skip
            self.processes.append(process)
            for name, source, target in (
                ("stdout", process.stdout, sys.stdout),
                ("stderr", process.stderr, sys.stderr),
            ):
                targets = self.targets(local, name, target)
                thread = threading.Thread(target=_pass_on, args=(source, targets), daemon=True)
                thread.start()
                self.threads.append(thread)

    def file(self, *names: str) -> Any:
        """A file for what processes write in this attempt."""
        attempt = f"attempt_{self.shared['TORCHELASTIC_RESTART_COUNT']}"
        path = os.path.join(self.options.log_dir, attempt, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "w", encoding="utf-8")

    def targets(self, local: int, name: str, shown: Any) -> list[Target]:
        """Where lines of a process go."""
        options, found = self.options, []
        rank = f"[rank{self.first + local}] "
        away, copied = (_has(mask, local, name) for mask in (options.redirects, options.tee))
        ranks = options.local_ranks_filter
        if (copied or not away) and (not ranks or str(local) in ranks.split(",")):
            found.append(Target(shown, rank))
        if away or copied:
            found.append(Target(self.file(str(local), f"{name}.log"), ""))
        if copied and name in self.filtered:
            texts = getattr(options, f"duplicate_{name}_filters")
            found.append(Target(self.filtered[name], rank, texts))
        return found

    def wait(self) -> int | None:
        """Wait until all have ended well (None), or one has failed: its number here."""
        while True:
            states = [process.poll() for process in self.processes]
            failed = [k for k, state in enumerate(states) if state]
            if failed:
                return failed[0]
            if all(state == 0 for state in states):
                return None
            time.sleep(0.05)

    def end(self) -> None:
        """End those that still run, with what they started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                if process.poll() is None or number == signal.SIGKILL:
                    try:
                        os.killpg(process.pid, number)
                    except (ProcessLookupError, PermissionError):
                        pass  # nothing is left of it
            limit = time.monotonic() + self.options.shutdown_timeout
            while any(p.poll() is None for p in self.processes) and time.monotonic() < limit:
                time.sleep(0.02)
        for thread in self.threads:
            thread.join(1.0)
        for file in self.filtered.values():
            file.close()
        if self.errors:
            self.read_errors()

    def read_errors(self) -> None:
        """Keep what failed processes wrote by `record` of torch.distributed.elastic."""
        for k in range(len(self.processes)):
            path = os.path.join(self.errors, f"{k}.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file, contextlib.suppress(ValueError, LookupError, TypeError):  # fmt: skip
                    self.reasons[k] = f", {json.load(file)['message']['message']}"
        shutil.rmtree(self.errors, ignore_errors=True)

    def report(self, k: int) -> str:
        """Which process failed, and how."""
        code = self.processes[k].returncode
        how = f"exit status {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        return (
            f"rushlight run: rank {self.first + k} of {self.size} (process {self.processes[k].pid}) failed: {how}{self.reasons.get(k, '')}. "
            "The other processes were ended."
        )

    def error(self, k: int) -> Exception:
        """The same as an exception."""
        from rushlight.distributed.elastic import ChildFailedError, ProcessFailure

        process = self.processes[k]
        failure = ProcessFailure(k, process.pid, process.returncode, message=self.report(k))
        return ChildFailedError(str(process.args), {self.first + k: failure})


def command(options: argparse.Namespace, local: int | str) -> list[str]:
    """What a process runs: `import torch` is Rushlight there."""
    arguments = [*options.training_script_args]
    if getattr(options, "says_local_rank", False):
        arguments.insert(0, f"--local-rank={local}")
    if options.no_python:
        if options.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")  # fmt: skip
        return [options.training_script, *arguments]
    program = [*(["-m"] if options.module else []), options.training_script]
    return [sys.executable, "-m", "rushlight", "run", *program, *arguments]


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes --nproc-per-node means."""
    if nproc_per_node in ("auto", "cpu"):
        return os.cpu_count() or 1
    if nproc_per_node in ("gpu", "xpu"):
        raise ValueError(f"--nproc-per-node={nproc_per_node}: {'Cuda' if nproc_per_node == 'gpu' else 'Xpu'} is not available.")  # fmt: skip
    try:
        return int(nproc_per_node)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The least and the most machines, of `2` or `2:4`."""
    numbers = [int(each) for each in str(nnodes).split(":")]
    if len(numbers) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return numbers[0], numbers[-1]


def get_rdzv_endpoint(args: argparse.Namespace) -> str:
    """The address of the rendezvous."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return args.rdzv_endpoint


def get_use_env(args: argparse.Namespace) -> bool:
    """Whether programs read LOCAL_RANK, and get no argument --local-rank."""
    return getattr(args, "use_env", True)


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a program in this interpreter."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def config_from_args(args: argparse.Namespace) -> tuple[Any, Callable | str, list[str]]:
    """What `elastic_launch` takes for options of torchrun: a `LaunchConfig`, what processes run, and its arguments."""
    from rushlight.distributed.elastic.endpoints import _parse_rendezvous_config
    from rushlight.distributed.elastic.logs import Std
    from rushlight.distributed.launcher import DefaultLogsSpecs, LaunchConfig

    _check(args)
    least, most = parse_min_max_nnodes(args.nnodes)
    settings = _parse_rendezvous_config(args.rdzv_conf)
    if args.rdzv_backend == "static":
        settings["rank"] = args.node_rank
    shown = {int(each) for each in args.local_ranks_filter.split(",") if each}
    specs = DefaultLogsSpecs(
        args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown or None
    )
    config = LaunchConfig(
        least, most, determine_local_world_size(args.nproc_per_node), specs, args.rdzv_id, args.role, get_rdzv_endpoint(args),
        args.rdzv_backend, settings, max_restarts=args.max_restarts, local_addr=args.local_addr,
        signals_to_handle=args.signals_to_handle, duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters, virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=int(args.shutdown_timeout),
    )  # fmt: skip
    if args.run_path:
        return config, run_script_path, [args.training_script, *args.training_script_args]
    program, *arguments = command(args, "${local_rank}")
    return config, program, arguments


def _has(mask: str, local: int, name: str) -> bool:
    """Whether a stream is in the mask that a rank on this machine has in `3` or `0:1,1:2`."""
    parts = dict(each.split(":") for each in mask.split(",")) if ":" in mask else {}
    bits = int(parts.get(str(local), 0) if parts else mask)
    return bool(bits & (1 if name == "stdout" else 2))


def _end_with_the_parent() -> Any:
    """What a new process calls first, so that it ends when this one does; None where the system cannot."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    call = ctypes.CDLL(None).prctl
    return lambda: call(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _pass_on(source: Any, targets: list[Target]) -> None:
    """Write the lines of a process to targets; close the process's own files."""
    with source:
        for row in source:
            line = row.decode(errors="replace").rstrip("\n")
            for target in targets:
                if not target.texts or any(text in line for text in target.texts):
                    target.file.write(f"{target.before}{line}\n")
                    target.file.flush()
    for target in targets:
        if not target.before:
            target.file.close()


def _stopped(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def run(args: argparse.Namespace) -> None:
    """Run the job, again while it fails and restarts are left. `ChildFailedError` if it failed the last time."""
    _check(args)
    if args.rdzv_backend == "c10d" and args.nnodes not in ("1", "1:1") and not args.standalone:
        from rushlight.distributed.launcher import run_with_agent

        return run_with_agent(args)
    names = set(args.signals_to_handle.split(",")) - {"SIGINT"}  # which is KeyboardInterrupt
    before = {number: signal.signal(number, _stopped) for number in map(_signal, names)}
    make_folder(args)
    try:
        for restarts in range(args.max_restarts + 1):
            job = Job(args, restarts)
            try:
                job.start()
                failed = job.wait()
            finally:
                job.end()
            if failed is None:
                return None
            print(job.report(failed), file=sys.stderr)
            if restarts < args.max_restarts:
                print(
                    f"rushlight run: restart {restarts + 1} of {args.max_restarts}",
                    file=sys.stderr,
                )
        raise job.error(failed)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_folder(options: argparse.Namespace) -> None:
    """A new folder for what processes write, if it goes to files."""
    filters = options.duplicate_stdout_filters + options.duplicate_stderr_filters
    if options.redirects != "0" or options.tee != "0" or filters:
        if options.log_dir:
            os.makedirs(options.log_dir, exist_ok=True)
        prefix = f"{options.rdzv_id or os.getpid()}_"
        options.log_dir = tempfile.mkdtemp(prefix=prefix, dir=options.log_dir)
        print(f"rushlight run: files are in {options.log_dir}", file=sys.stderr)


def _check(options: argparse.Namespace) -> None:
    """An error for what cannot be done."""
    least, most = parse_min_max_nnodes(options.nnodes)
    if not 0 < least <= most:
        raise AssertionError(f"--nnodes={options.nnodes}: MIN must be positive and not above MAX")
    if options.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    if options.logs_specs is not None:
        group = "torchrun.logs_specs"
        if not entry_points(group=group, name=options.logs_specs):
            raise ValueError(f"Could not find entrypoint under '{group}[{options.logs_specs}]' key")
        raise NotImplementedError("--logs-specs: files of processes are --redirects and --tee")
    if options.numa_binding is not None:
        raise RuntimeError("--numa-binding is for processors near GPUs: there are none")


def _signal(name: str) -> signal.Signals:
    try:
        return signal.Signals[name.strip()]
    except KeyError:
        raise SystemExit(f"torchrun: --signals-to-handle: there is no signal {name!r}") from None


def parse_args(args: list[str] | None) -> argparse.Namespace:
    """The options of a command line, that of this process for None."""
    return get_args_parser().parse_args(args)


def main(args: list[str] | None = None) -> None:
    """`torchrun`: run a program in several processes. `ChildFailedError` if one fails."""
    run(parse_args(args))


def status(start: Callable, args: Any) -> int:
    """The exit status of a command that starts a job: 1 for one that failed, after `run` has printed why."""
    from rushlight.distributed.elastic import ChildFailedError

    try:
        start(args)
    except ChildFailedError:
        return 1
    return 0


def __getattr__(name: str) -> Any:
    if name in ("LaunchConfig", "elastic_launch"):  # of launcher.py, which imports this module
        from rushlight.distributed import launcher

        return getattr(launcher, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    raise SystemExit(status(main, None))
