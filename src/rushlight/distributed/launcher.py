"""`torch.distributed.launcher`: functions or programs in several processes that become one job, started from Python."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed import run
from rushlight.distributed.elastic import ChildFailedError, DefaultLogsSpecs, events, rendezvous
from rushlight.distributed.elastic.agent.server import LocalElasticAgent, WorkerSpec
from rushlight.distributed.elastic.endpoints import _parse_rendezvous_config
from rushlight.distributed.elastic.logs import Std
from rushlight.distributed.elastic.multiprocessing import SIGNALS, SignalException

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """Machines, processes on each, and their rendezvous. Settings that have no meaning here are accepted.

    Several machines agree on their numbers with the rendezvous `c10d`; with `static` each says its own in `rdzv_configs={"rank": 0}`.
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


class elastic_launch:
    """A function, or a program by its path, that a call starts in all processes.

    The call gives {rank: what the function returned there}, None for a program; `ChildFailedError` if a process fails
    and no restart is left. A function and what it takes are pickled.
    """

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable | str | None, health_check_server: Any = None
    ) -> None:  # fmt: skip
        self._config, self._entrypoint = config, entrypoint
        self._health_check_server = health_check_server

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, [*args], self._health_check_server)


def launch_agent(
    config: LaunchConfig, entrypoint: Callable | str | None, args: list[Any], health_check_server: Any = None
) -> dict[int, Any]:  # fmt: skip
    """Start a function or a program with arguments in all processes, and wait for them."""
    handler = rendezvous.get_rendezvous_handler(_parameters(config))
    spec = WorkerSpec(
        config.role, config.nproc_per_node, handler, entrypoint=entrypoint or sys.executable, args=tuple(args),
        max_restarts=config.max_restarts, monitor_interval=config.monitor_interval, duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters, virtual_local_rank=config.virtual_local_rank,
    )  # fmt: skip
    os.environ[SIGNALS] = config.signals_to_handle
    agent = LocalElasticAgent(
        spec, config.logs_specs or DefaultLogsSpecs(os.devnull), config.start_method, health_check_server=health_check_server,
        log_line_prefix_template=config.log_line_prefix_template, shutdown_timeout=config.shutdown_timeout or 30,
    )  # fmt: skip
    try:
        result = agent.run()
        events.record(agent.get_event_succeeded())
    except SignalException:  # the others may meet again without this machine
        events.record(agent.get_event_failed())
        raise
    except BaseException:
        events.record(agent.get_event_failed())
        handler.shutdown()
        raise
    handler.shutdown()
    if result is None:  # the job did not need this machine
        return {}
    if result.is_failed():
        raise ChildFailedError(_get_entrypoint_name(entrypoint, args), result.failures)
    return result.return_values


def _parameters(config: LaunchConfig) -> rendezvous.RendezvousParameters:
    """The parameters of the rendezvous; a single machine needs no address."""
    backend, endpoint, settings = (
        config.rdzv_backend,
        config.rdzv_endpoint,
        dict(config.rdzv_configs),
    )
    if config.max_nodes == 1 and not endpoint:
        backend, endpoint = "c10d", "localhost:0"
    if config.rdzv_timeout > 0:
        settings.setdefault("join_timeout", config.rdzv_timeout)
    return rendezvous.RendezvousParameters(
        backend, endpoint, config.run_id or uuid.uuid4().hex, config.min_nodes, config.max_nodes, config.local_addr, **settings
    )  # fmt: skip


def _get_entrypoint_name(entrypoint: Callable | str | None, args: list[Any]) -> str:
    """The name of a function or a program; of Python the program that it runs."""
    if callable(entrypoint):
        return entrypoint.__name__
    if entrypoint == sys.executable:
        return next((each for each in args if each[:1] != "-"), "")
    return entrypoint or ""


def run_with_agent(options: argparse.Namespace) -> None:
    """A job of torchrun on machines that agree on their numbers."""
    least, most = run.parse_min_max_nnodes(options.nnodes)
    program, *arguments = run.command(options, "${local_rank}")
    here = run.determine_local_world_size(options.nproc_per_node)
    if here > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: they share the processors
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="rushlight_lines_") as passing:
        # what is shown is read from files, which are kept with --log-dir alone
        shown = {int(each) for each in options.local_ranks_filter.split(",") if each}
        away, copied = Std.from_str(options.redirects), Std.from_str(options.tee)
        specs = DefaultLogsSpecs(
            options.log_dir or passing, away, copied if away or copied else Std.ALL, shown or None
        )  # fmt: skip
        config = LaunchConfig(
            least, most, here, specs, options.rdzv_id, options.role,
            options.rdzv_endpoint, "c10d", _parse_rendezvous_config(options.rdzv_conf), max_restarts=options.max_restarts,
            log_line_prefix_template="[rank${rank}] ", local_addr=options.local_addr,
            duplicate_stdout_filters=options.duplicate_stdout_filters,
            duplicate_stderr_filters=options.duplicate_stderr_filters, virtual_local_rank=options.virtual_local_rank,
            shutdown_timeout=int(options.shutdown_timeout), signals_to_handle=options.signals_to_handle,
        )  # fmt: skip
        try:
            launch_agent(config, program, arguments)
        except ChildFailedError as error:
            print(f"rushlight run: {error}", file=sys.stderr)
            raise
        except SignalException as error:
            raise SystemExit(128 + error.sigval) from None
