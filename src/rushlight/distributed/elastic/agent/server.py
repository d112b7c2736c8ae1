"""`torch.distributed.elastic.agent.server`: the agent of a machine, which meets the others, starts processes and watches them.

When a process fails, all of its machine end, and while restarts are left machines meet again and start anew.
"""

from __future__ import annotations

import abc
import contextlib
import json
import logging
import os
import signal
import socket
import string
import tempfile
import time
import traceback
import uuid
from collections.abc import Iterator
from typing import Any

from rushlight.distributed.elastic import utils as store_util
from rushlight.distributed.elastic.agent.workers import (
    RunResult,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
    _RoleInstanceInfo,
)
from rushlight.distributed.elastic.events import Event, EventSource, record
from rushlight.distributed.elastic.logs import LogsSpecs
from rushlight.distributed.elastic.metrics import prof, put_metric
from rushlight.distributed.elastic.multiprocessing import (
    PContext,
    SignalException,
    start_processes,
)
from rushlight.distributed.elastic.rendezvous import RendezvousGracefulExitError
from rushlight.distributed.elastic.timer import FileTimerServer
from rushlight.distributed.store import DistNetworkError, Store

__all__ = [
    "ElasticAgent", "LocalElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec",
    "WorkerState",
]  # fmt: skip

DEFAULT_ROLE = "default"
TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
_TERMINAL_STATE_SYNC_ID = "torchelastic/agent/terminal_state"

logger = logging.getLogger(__name__)


def _get_fq_hostname() -> str:
    """The whole name of this machine."""
    return socket.getfqdn(socket.gethostname())


class ElasticAgent(abc.ABC):
    """What runs the processes of one machine."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run them to their end, with restarts."""

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The processes."""


class SimpleElasticAgent(ElasticAgent):
    """An agent of one role: how processes are started, watched and ended is for classes that inherit."""

    def __init__(
        self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30
    ) -> None:  # fmt: skip
        self._worker_group, self._remaining_restarts = WorkerGroup(spec), spec.max_restarts
        self._exit_barrier_timeout, self._shutdown_timeout = exit_barrier_timeout, shutdown_timeout
        self._store: Store | None = None
        self._total_execution_time = 0

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The processes."""
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start the processes; a name for each, by its number on this machine."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """End the processes."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """What the processes do."""

    @abc.abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        """End all that the agent has started."""

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Meet the other machines, and give processes their numbers."""
        spec = worker_group.spec
        with self.record_duration("RENDEZVOUS"):
            met = spec.rdzv_handler.next_rendezvous()
        where = met.bootstrap_store_info
        assert where is not None
        self._store = worker_group.store = met.store
        with self.record_duration("ASSIGN_WORKER_RANKS"):
            workers = self._assign_worker_ranks(met.store, met.rank, met.world_size, spec)
        worker_group.workers = workers
        worker_group.group_rank, worker_group.group_world_size = met.rank, met.world_size
        worker_group.master_addr = spec.master_addr or where.master_addr
        worker_group.master_port = spec.master_port or where.master_port
        logger.info("[%s] machine %d of %d runs %s", spec.role, met.rank, met.world_size, workers)

    @prof
    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """The processes of this machine with their numbers: those of machines before it come first, so within each role.

        Each machine tells its processes, the first one adds up and tells each what comes before it.
        """
        told, assigned = "torchelastic/role_info", "torchelastic/assigned_ranks"
        own = _RoleInstanceInfo(spec.role, group_rank, spec.local_world_size)
        store.set(f"{told}/{group_rank}", own.serialize())
        if group_rank == 0:
            found = store.multi_get([f"{told}/{k}" for k in range(group_world_size)])
            infos = [_RoleInstanceInfo.deserialize(each) for each in found]
            ranks = [json.dumps(_ranks(infos, k)) for k in range(group_world_size)]
            store.multi_set([f"{assigned}/{k}" for k in range(group_world_size)], ranks)
        rank, size, role_rank, role_size = json.loads(store.get(f"{assigned}/{group_rank}"))
        return [
            Worker(local, rank + local, role_rank + local, size, role_size)
            for local in range(spec.local_world_size)
        ]

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Meet the other machines, then start the processes."""
        self._rendezvous(worker_group)
        for local, name in self._start_workers(worker_group).items():
            worker_group.workers[local].id = name
            self._record("START", EventSource.WORKER, worker=worker_group.workers[local])
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """End the processes, and start them again."""
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the processes to their end. A signal that asks this process to end ends them, too, and is raised."""
        start, ended_by = time.monotonic(), signal.SIGTERM
        try:
            result = self._invoke_run(role)
            self._total_execution_time = int(time.monotonic() - start)
            self._record_metrics(result)
            self._record_worker_events(result)
            return result
        except RendezvousGracefulExitError as error:
            logger.info("machines met without this one: %s", error)
            return None  # type: ignore[return-value]  # as PyTorch's: there was nothing to run
        except SignalException as error:
            ended_by = error.sigval
            raise
        finally:
            self._shutdown(ended_by, timeout=self._shutdown_timeout)
            self._total_execution_time = int(time.monotonic() - start)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group = self._worker_group
        spec, role = group.spec, group.spec.role
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{role}.{result.state.name.lower()}", 1)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                self._remaining_restarts -= 1
                logger.warning(
                    "[%s] processes failed; %d restarts are left", role, self._remaining_restarts
                )
                self._restart_workers(group)
            elif result.state != WorkerState.HEALTHY:
                raise RuntimeError(f"[{role}] Worker group in {result.state.name} state")
            elif spec.rdzv_handler.num_nodes_waiting() > 0:  # this counts as no failure
                self._restart_workers(group)

    def _exit_barrier(self) -> None:
        """Wait for the other machines: the first one has the store that processes still use."""
        size = self._worker_group.group_world_size
        assert size is not None
        try:
            store_util.barrier(
                self._store, size, _TERMINAL_STATE_SYNC_ID, self._exit_barrier_timeout
            )
        except DistNetworkError:
            logger.info("the machine that serves the store has ended")
        except SignalException:
            raise
        except Exception as error:  # the work is done: whoever is late or has failed says so itself
            logger.warning("machines did not end together: %s", error)

    # ------------------------------------------------------------------------------- events and numbers
    @contextlib.contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """An event with the time that something took."""
        start = time.perf_counter()
        try:
            yield
        finally:
            milliseconds = (time.perf_counter() - start) * 1000
            self._record(state, EventSource.AGENT, duration_ms=milliseconds)

    def _record(self, state: str, source: EventSource, **more: Any) -> None:
        handler = self._worker_group.spec.event_log_handler
        record(self._construct_event(state, source, **more), handler)

    def get_event_failed(self) -> Event:
        """The event of an agent that fails with the exception of now."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self) -> Event:
        """The event of an agent that has ended well."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def _construct_event(
        self, state: str, source: EventSource, worker: Worker | None = None, raw_error: str | None = None,
        duration_ms: float | None = None, exit_code: int | None = None, worker_pid: int | None = None,
    ) -> Event:  # fmt: skip
        group = self._worker_group
        spec = group.spec
        more: dict[str, Any] = {"group_world_size": group.group_world_size, "entry_point": spec.get_entrypoint_name()}  # fmt: skip
        if worker is not None:
            own = {"local_rank": worker.local_rank, "role_rank": worker.role_rank, "role_world_size": worker.role_world_size,
                   "exit_code": exit_code, "worker_pid": worker_pid}  # fmt: skip
            more |= {name: [value] for name, value in own.items()}
        metadata = {
            "run_id": spec.rdzv_handler.get_run_id(), "global_rank": worker.global_rank if worker else None,
            "group_rank": group.group_rank, "worker_id": str(worker.id) if worker else None, "role": spec.role,
            "hostname": _get_fq_hostname(), "state": state, "total_run_time": self._total_execution_time,
            "rdzv_backend": spec.rdzv_handler.get_backend(), "raw_error": raw_error, "metadata": json.dumps(more),
            "agent_restarts": spec.max_restarts - self._remaining_restarts, "duration_ms": duration_ms,
        }  # fmt: skip
        return Event(f"torchelastic.worker.status.{state}", source, metadata=metadata)

    def _record_worker_events(self, result: RunResult) -> None:
        """An event for each process: what became of it."""
        failed = result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED)
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            if failure is None and not failed and worker.global_rank not in result.return_values:
                raise ValueError(f"Unknown worker: {worker.global_rank}")
            state = "TERMINATED" if failed and failure is None else result.state.value
            more: dict[str, Any] = {} if failure is None else {
                "raw_error": json.dumps(failure.error_file_data), "exit_code": failure.exitcode, "worker_pid": failure.pid,
            }  # fmt: skip
            self._record(state, EventSource.WORKER, worker=worker, **more)

    def _record_metrics(self, group_results: RunResult) -> None:
        """Numbers of a run: how it ended, with or without restarts."""
        spec, failed = self._worker_group.spec, group_results.is_failed()
        restarted = self._remaining_restarts != spec.max_restarts
        self._record_flakiness_metric(failed)
        put_metric(f"workers.{spec.role}.run_total", 1)
        for how, ended in (("success", not failed), ("failed", failed)):
            for name, holds in (("with_retries", restarted), ("no_retries", not restarted)):
                put_metric(f"workers.{spec.role}.run_{how}_{name}", int(ended and holds))

    def _record_flakiness_metric(self, is_failed: bool = False) -> None:
        """The share of starts that were used up, in percent; 100 for a run that failed."""
        spec = self._worker_group.spec
        left = 0 if is_failed else (self._remaining_restarts + 1) / (spec.max_restarts + 1)
        put_metric(f"workers.{spec.role}.flakiness", int(100.0 - 100.0 * left))


def _ranks(infos: list[_RoleInstanceInfo], k: int) -> list[int]:
    """Of machine k: the first number of its processes and how many there are, then the same within its role."""
    sizes = [info.local_world_size for info in infos]
    same = [info.local_world_size * (info.role == infos[k].role) for info in infos]
    return [sum(sizes[:k]), sum(sizes), sum(same[:k]), sum(same)]


class LocalElasticAgent(SimpleElasticAgent):
    """An agent whose processes run a function or a program on this machine."""

    def __init__(
        self, spec: WorkerSpec, logs_specs: LogsSpecs, start_method: str = "spawn", exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None, shutdown_timeout: int = 30, health_check_server: Any = None,
        uninterruptible_state_timeout: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        if health_check_server is not None or (uninterruptible_state_timeout or 0) > 0:
            raise NotImplementedError("LocalElasticAgent: health_check_server and uninterruptible_state_timeout are not there")  # fmt: skip
        self._start_method, self._logs_specs = start_method, logs_specs
        self._log_line_prefix_template = log_line_prefix_template
        self._pcontext: PContext | None = None
        self._watchdog: FileTimerServer | None = None

    @prof
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        assert spec.entrypoint is not None
        shared = {
            "GROUP_RANK": worker_group.group_rank, "ROLE_NAME": spec.role, "LOCAL_WORLD_SIZE": spec.local_world_size,
            "GROUP_WORLD_SIZE": worker_group.group_world_size, "MASTER_ADDR": worker_group.master_addr,
            "MASTER_PORT": worker_group.master_port, "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RESTART_COUNT": spec.max_restarts - self._remaining_restarts,
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
        }  # fmt: skip
        envs, prefixes = {}, {}
        for worker in worker_group.workers:
            local = worker.local_rank
            own = {
                "RANK": worker.global_rank, "LOCAL_RANK": 0 if spec.virtual_local_rank else local, "ROLE_RANK": worker.role_rank,
                "WORLD_SIZE": worker.world_size, "ROLE_WORLD_SIZE": worker.role_world_size,
            }  # fmt: skip
            envs[local] = {name: str(value) for name, value in (own | shared).items()}
            if self._log_line_prefix_template:
                template = string.Template(self._log_line_prefix_template)
                prefixes[local] = template.safe_substitute(role_name=spec.role, rank=worker.global_rank, local_rank=local)  # fmt: skip
        self._start_watchdog(envs)
        args = {local: tuple(_with_rank(each, local) for each in spec.args) for local in envs}
        self._pcontext = start_processes(
            spec.role, spec.entrypoint, args, envs, self._logs_specs, prefixes or None, self._start_method,
            spec.numa_options, spec.duplicate_stdout_filters, spec.duplicate_stderr_filters,
        )  # fmt: skip
        return self._pcontext.pids()

    def _start_watchdog(self, envs: dict[int, dict[str, str]]) -> None:
        """If TORCHELASTIC_ENABLE_FILE_TIMER is 1, end processes whose `timer.expires` is over; they have the pipe's path."""
        path = os.environ.get(TORCHELASTIC_TIMER_FILE)
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) == "1":
            path = path or os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
            run_id = self._worker_group.spec.rdzv_handler.get_run_id()
            self._watchdog = FileTimerServer(path, run_id, max_interval=0.1)
            self._watchdog.start()
        if path:
            for env in envs.values():
                env[TORCHELASTIC_TIMER_FILE] = path

    @prof
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._shutdown_timeout)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

    @prof
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        assert self._pcontext is not None
        ranks = [worker.global_rank for worker in worker_group.workers]
        result = self._pcontext.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        if result.is_failed():
            failures = {ranks[local]: failure for local, failure in result.failures.items()}
            return RunResult(WorkerState.FAILED, failures=failures)
        values = {ranks[local]: value for local, value in result.return_values.items()}
        return RunResult(WorkerState.SUCCEEDED, values)


def _with_rank(value: Any, local: int) -> Any:
    """An argument with the number of the process in the place of `${local_rank}`."""
    return string.Template(value).safe_substitute(local_rank=local) if isinstance(value, str) else value  # fmt: skip
