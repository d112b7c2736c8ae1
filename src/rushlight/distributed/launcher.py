"""`torch.distributed.launcher`: functions or programs in several processes that become one job, started from Python."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed import run
from rushlight.distributed.elastic import ChildFailedError, DefaultLogsSpecs, ProcessFailure

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

MOMENT = 0.05  # seconds between looks at what processes do


@dataclass
class LaunchConfig:
    """Machines, processes on each, and where they meet. What means nothing here is accepted.

    Several machines agree on their numbers with the rendezvous `c10d`, else each says its own in `rdzv_configs={"rank": 0}`.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: DefaultLogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def options(self) -> argparse.Namespace:
        """As the options of torchrun."""
        if self.max_nodes > 1 and "rank" not in self.rdzv_configs:
            raise NotImplementedError(
                f"elastic_launch on {self.max_nodes} machines: say the number of this one, rdzv_configs={{'rank': 0}}"
            )
        given = [
            f"--nproc-per-node={self.nproc_per_node}", f"--nnodes={self.max_nodes}", f"--max-restarts={self.max_restarts}",
            f"--node-rank={self.rdzv_configs.get('rank', 0)}", f"--rdzv-endpoint={self.rdzv_endpoint}", "--no-python",
            f"--rdzv-id={self.run_id}", f"--role={self.role}", *["--virtual-local-rank"] * self.virtual_local_rank,
        ]  # fmt: skip
        files = [] if self.logs_specs is None else self.logs_specs.arguments()
        options = run._parser({}).parse_args([*given, *files, "program"])
        options.duplicate_stdout_filters = self.duplicate_stdout_filters or []
        options.duplicate_stderr_filters = self.duplicate_stderr_filters or []
        return options


class elastic_launch:
    """A function, or a program by its path, that a call starts in all processes.

    The call gives {rank: what the function returned there}, None for a program; `ChildFailedError` if a process fails
    and no restart is left. A function and what it takes are pickled.
    """

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable | str | None, health_check_server: Any = None
    ) -> None:  # fmt: skip
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, [*args])


def launch_agent(
    config: LaunchConfig, entrypoint: Callable | str | None, args: list[Any]
) -> dict[int, Any]:
    """Start a function or a program with arguments in all processes, and wait for them."""
    if config.rdzv_backend == "c10d" and config.max_nodes > 1 and "rank" not in config.rdzv_configs:
        return _with_agent(config, entrypoint or sys.executable, args)
    options = config.options()
    if not callable(entrypoint):
        run.make_folder(options)
    for restarts in range(config.max_restarts + 1):
        job = run.Job(options, restarts)
        try:
            if callable(entrypoint):
                return _functions(job, config, entrypoint, args)
            options.training_script = entrypoint or sys.executable
            options.training_script_args = [*map(str, args)]
            return _programs(job)
        except ChildFailedError:
            if restarts == config.max_restarts:
                raise
    raise AssertionError("unreachable")


def _programs(job: run.Job) -> dict[int, Any]:
    try:
        job.start()
        failed = job.wait()
    finally:
        job.end()
    if failed is not None:
        process = job.processes[failed]
        failure = ProcessFailure(
            failed, process.pid, process.returncode, message=job.report(failed)
        )
        raise ChildFailedError(str(process.args), {job.first + failed: failure})
    return dict.fromkeys(range(job.first, job.first + job.here))


def _functions(job: run.Job, config: LaunchConfig, fn: Callable, args: list[Any]) -> dict[int, Any]:
    from rushlight.distributed.elastic.multiprocessing import start_processes

    shared = {k: str(v) for k, v in job.shared.items()}
    envs = {}
    for local in range(job.here):
        rank = str(job.first + local)
        envs[local] = {"RANK": rank, "LOCAL_RANK": str(local), "ROLE_RANK": rank} | shared
    specs = config.logs_specs or DefaultLogsSpecs(os.devnull)
    started = start_processes(
        config.role, fn, dict.fromkeys(envs, tuple(args)), envs, specs, start_method=config.start_method,
        duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters,
    )  # fmt: skip
    try:
        result = started.wait(period=MOMENT)
    finally:
        started.close()  # of those that still run, where this one is interrupted
    assert result is not None  # there is no limit of time
    if result.is_failed():
        name = getattr(fn, "__qualname__", str(fn))
        failures = {job.first + local: failure for local, failure in result.failures.items()}
        raise ChildFailedError(name, failures)
    return {job.first + local: value for local, value in result.return_values.items()}


def _with_agent(
    config: LaunchConfig, entrypoint: Callable | str, args: list[Any]
) -> dict[int, Any]:
    """Meet other machines, and run the processes of this one by an agent."""
    from rushlight.distributed.elastic import rendezvous
    from rushlight.distributed.elastic.agent.server import LocalElasticAgent, WorkerSpec
    from rushlight.distributed.elastic.multiprocessing import SignalException

    settings = dict(config.rdzv_configs)
    if config.rdzv_timeout > 0:
        settings.setdefault("join_timeout", config.rdzv_timeout)
    params = rendezvous.RendezvousParameters(
        config.rdzv_backend, config.rdzv_endpoint, config.run_id or "none", config.min_nodes, config.max_nodes,
        config.local_addr, **settings,
    )  # fmt: skip
    handler = rendezvous.get_rendezvous_handler(params)
    spec = WorkerSpec(
        config.role, config.nproc_per_node, handler, entrypoint=entrypoint, args=tuple(args), max_restarts=config.max_restarts,
        monitor_interval=config.monitor_interval, duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters, virtual_local_rank=config.virtual_local_rank,
    )  # fmt: skip
    agent = LocalElasticAgent(
        spec, config.logs_specs or DefaultLogsSpecs(os.devnull), config.start_method,
        log_line_prefix_template=config.log_line_prefix_template, shutdown_timeout=config.shutdown_timeout or 30,
    )  # fmt: skip
    try:
        result = agent.run()
    except SignalException:  # the others may meet again without this machine
        raise
    except BaseException:
        handler.shutdown()
        raise
    handler.shutdown()
    if result is None:  # the job did not need this machine
        return {}
    if result.is_failed():
        raise ChildFailedError(spec.get_entrypoint_name(), result.failures)
    return result.return_values


def run_with_agent(options: argparse.Namespace) -> int:
    """A job of torchrun on machines that agree on their numbers. Returns the exit status."""
    from rushlight.distributed.elastic.endpoints import _parse_rendezvous_config
    from rushlight.distributed.elastic.logs import Std
    from rushlight.distributed.elastic.multiprocessing import SIGNALS, SignalException

    least, _, most = str(options.nnodes).partition(":")
    program, *arguments = run.command(options, "${local_rank}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: the processes share the processors
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    os.environ[SIGNALS] = options.signals_to_handle
    with tempfile.TemporaryDirectory(prefix="rushlight_lines_") as passing:
        # what is shown is read from files, which are kept with --log-dir alone
        shown = {int(each) for each in options.local_ranks_filter.split(",") if each}
        away, copied = Std.from_str(options.redirects), Std.from_str(options.tee)
        specs = DefaultLogsSpecs(
            options.log_dir or passing, away, copied if away or copied else Std.ALL, shown or None
        )  # fmt: skip
        config = LaunchConfig(
            int(least), int(most or least), run._count(options.nproc_per_node), specs, options.rdzv_id, options.role,
            options.rdzv_endpoint, "c10d", _parse_rendezvous_config(options.rdzv_conf), max_restarts=options.max_restarts,
            log_line_prefix_template="[rank${rank}] ", local_addr=options.local_addr,
            duplicate_stdout_filters=options.duplicate_stdout_filters,
            duplicate_stderr_filters=options.duplicate_stderr_filters, virtual_local_rank=options.virtual_local_rank,
            shutdown_timeout=int(options.shutdown_timeout),
        )  # fmt: skip
        try:
            launch_agent(config, program, arguments)
        except ChildFailedError as error:
            print(f"rushlight run: {error}", file=sys.stderr)
            return 1
        except SignalException as error:
            return 128 + error.sigval
    return 0
