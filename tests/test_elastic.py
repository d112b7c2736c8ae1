"""`torch.distributed.elastic`: numbers and events of programs, timers, and how machines meet."""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import pickle
import signal
import threading
import time

import pytest

from rushlight.distributed import FileStore, TCPStore, argparse_util, launcher
from rushlight.distributed.elastic import (
    DefaultLogsSpecs,
    Std,
    c10d_rendezvous,
    endpoints,
    events,
    metrics,
    rendezvous,
    timer,
)
from rushlight.distributed.elastic import dynamic_rendezvous as dynamic
from rushlight.distributed.elastic.utils import get_free_port


class Kept(metrics.MetricHandler):
    def __init__(self):
        self.found = []

    def emit(self, metric_data):
        self.found.append((metric_data.group_name, metric_data.name, metric_data.value))


def test_calls_of_a_decorated_function_are_counted(monkeypatch):
    every, own = Kept(), Kept()
    monkeypatch.setattr(metrics, "_default", every)
    monkeypatch.setattr(metrics, "_handlers", {})
    metrics.configure(every)
    metrics.configure(own, "mine")

    @metrics.prof
    def good(x):
        time.sleep(0.01)
        return x + 1

    @metrics.prof(group="mine")
    def bad():
        raise KeyError("no")

    assert good(1) == 2
    with pytest.raises(KeyError):
        bad()
    name = "test_calls_of_a_decorated_function_are_counted.<locals>"
    (_, first, value), (group, second, taken) = every.found
    assert (first, value, group) == (f"{name}.good.success", 1, "torchelastic")
    assert second == f"{name}.good.duration.ms" and taken >= 10
    assert [row[:2] for row in own.found] == [
        ("mine", f"{name}.bad.failure"), ("mine", f"{name}.bad.duration.ms"),
    ]  # fmt: skip


def test_numbers_are_printed(capsys):
    metrics.ConsoleMetricHandler().emit(metrics.MetricData(7, "group", "name", 3))
    assert capsys.readouterr().out == "[7][group]: name=3\n"
    metrics.put_metric("name", 3)  # of a program that sets no handler
    assert capsys.readouterr().out == ""


def test_events_are_text_and_back():
    event = events.Event(
        "started", events.EventSource.WORKER, 5, {"rank": 1, "role": "x", "no": None}
    )
    assert json.loads(str(event)) == {
        "name": "started", "source": "WORKER", "timestamp": 5, "metadata": {"rank": 1, "role": "x", "no": None},
    }  # fmt: skip
    assert events.Event.deserialize(event.serialize()) == event
    state = events.NodeState.FAILED
    met = events.RdzvEvent("a", "run", "text", "host", 3, state, rank=2, error_trace="why")
    assert events.RdzvEvent.deserialize(met.serialize()) == met
    with pytest.raises(KeyError):
        events.get_logging_handler("nowhere")


def test_events_go_to_the_logger_of_a_destination(monkeypatch, capsys):
    import logging

    monkeypatch.setattr(
        logging.getLogger("rushlight.distributed.elastic.events.console"), "handlers", []
    )
    events.record(events.Event("e", events.EventSource.AGENT), "console")
    assert '"name": "e"' in capsys.readouterr().err
    events.record(events.Event("f", events.EventSource.AGENT))
    assert capsys.readouterr().err == ""


def stays(queue, after, seconds, depth):
    timer.configure(timer.LocalTimerClient(queue))

    def inner(n):
        with timer.expires(after=after):
            if n:
                inner(n - 1)
            time.sleep(seconds)

    inner(depth)


def test_a_block_that_lasts_too_long_ends_its_process():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    server = timer.LocalTimerServer(queue, max_interval=0.01)
    server.start()
    try:
        codes = []
        for after, seconds, depth in ((0.2, 20, 0), (60, 0.1, 0), (0.6, 0.2, 4)):
            process = context.Process(target=stays, args=(queue, after, seconds, depth))
            process.start()
            process.join(30)
            codes.append(process.exitcode)
        # the last one gives its timer back at the end of the innermost block
        assert codes == [-signal.SIGKILL, 0, 0]
    finally:
        server.stop()


def test_timers_are_taken_given_back_and_over(monkeypatch):
    queue = multiprocessing.Queue()
    server = timer.LocalTimerServer(queue, max_interval=0.5)
    ended = []
    monkeypatch.setattr("os.kill", lambda *call: ended.append(call))
    now = time.time()
    for row in (
        (-3, "a", now - 60),
        (-3, "b", now + 60),
        (-2, "a", now + 60),
        (-2, "a", -1),
        (-4, "c", now + 60),
    ):
        queue.put(timer.TimerRequest(*row))
    for _ in range(10):  # a queue says little of its size before its thread has written
        server._run_watchdog()
        if ended and set(server._timers) == {(-4, "c")}:
            break
    assert ended == [(-3, signal.SIGKILL)] and set(server._timers) == {(-4, "c")}
    assert server._request_queue.get(2, timeout=0.01) == []


def test_timers_need_a_client():
    timer.configure(None)
    with pytest.raises(RuntimeError, match="Configure timer client before"), timer.expires(after=1):
        pass
    calls = []

    class Client(timer.TimerClient):
        def acquire(self, scope_id, expiration_time):
            calls.append((scope_id, expiration_time > time.time() + 50))

        def release(self, scope_id):
            calls.append(scope_id)

    with pytest.raises(KeyError), timer.expires(after=60, scope="here", client=Client()):
        raise KeyError
    assert calls == [("here", True), "here"]
    with timer.expires(after=60, client=Client()):
        pass
    assert calls[2][0].rpartition("#")[0] == __file__ and calls[2][0] == calls[3]


def parameters(**given):
    row = {
        "backend": "static",
        "endpoint": "localhost",
        "run_id": "job",
        "min_nodes": 1,
        "max_nodes": 1,
    }
    return rendezvous.RendezvousParameters(**row | given)


def test_machines_that_know_their_numbers_meet():
    with pytest.raises(ValueError, match="rank is absent in RendezvousParameters"):
        rendezvous.get_rendezvous_handler(parameters(endpoint="localhost:5"))
    for endpoint in ("", "localhost"):
        with pytest.raises(ValueError, match="absent"):
            rendezvous.get_rendezvous_handler(parameters(endpoint=endpoint, rank=0))
    port = get_free_port()
    handler = rendezvous.get_rendezvous_handler(
        parameters(endpoint=f"localhost:{port}", rank="0", timeout=20)
    )
    first, second = handler.next_rendezvous(), handler.next_rendezvous()
    assert (first.rank, first.world_size, handler.get_backend()) == (0, 1, "static")
    assert first.bootstrap_store_info == rendezvous.RendezvousStoreInfo("localhost", port)
    first.store.set("key", "value")
    assert not second.store.check(["key"])  # each round has its own
    again = second.bootstrap_store_info
    assert TCPStore(again.master_addr, again.master_port, is_master=False).add("n", 1) == 1
    found = rendezvous.RendezvousStoreInfo.build(0, first.store, "here", 7)
    assert found == rendezvous.RendezvousStoreInfo("here", 7)
    assert rendezvous.RendezvousStoreInfo.build(1, first.store, None) == found
    assert handler.shutdown() and not handler.is_closed() and handler.num_nodes_waiting() == 0


def test_handlers_of_a_program():
    registry = rendezvous.RendezvousHandlerRegistry()
    with pytest.raises(ValueError, match="'mine' is not registered"):
        registry.create_handler(parameters(backend="mine"))
    made = rendezvous.create_rdzv_handler
    registry.register("static", made)
    registry.register("static", made)
    with pytest.raises(ValueError, match="already registered"):
        registry.register("static", lambda given: made(given))
    registry.register("mine", made)
    with pytest.raises(RuntimeError, match="'static' does not match the requested backend 'mine'"):
        registry.create_handler(parameters(backend="mine", endpoint="a:1", rank=0))


def test_settings_of_handlers():
    given = parameters(yes="T", no=0, number=" 4 ", odd="g")
    assert given.get_as_bool("yes") is True and given.get_as_bool("no") is False
    assert given.get_as_bool("absent") is None and given.get_as_bool("absent", True) is True
    assert given.get_as_int("number") == 4 and given.get_as_int("absent", 3) == 3
    for read in (given.get_as_bool, given.get_as_int):
        with pytest.raises(ValueError, match="'odd' does not represent a valid"):
            read("odd")
    for wrong, text in (
        ({"backend": ""}, "must be a non-empty string"), ({"min_nodes": 0}, r"\(0\) must be greater than zero"),
        ({"min_nodes": 3, "max_nodes": 2}, r"\(2\) must be greater than or equal to .* \(3\)"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            parameters(**wrong)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a.b-1:0", ("a.b-1", 0)), ("[2001:db8::1]:65535", ("2001:db8::1", 65535)), ("[::1]", ("::1", 9)),
        ("  ", ("localhost", 9)), (None, ("localhost", 9)), ("1.2.3.4", ("1.2.3.4", 9)), ("a:", "port number"),
        ("a:65536", "port number"), ("a:-1", "port number"), ("~", "hostname"), ("a b:1", "hostname"), (":1", "hostname"),
    ],
)  # fmt: skip
def test_addresses_are_read(text, expected):
    if isinstance(expected, tuple):
        assert rendezvous.parse_rendezvous_endpoint(text, 9) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            rendezvous.parse_rendezvous_endpoint(text, 9)


def test_what_launched_programs_write_goes_to_files(tmp_path):
    files = DefaultLogsSpecs(
        str(tmp_path), redirects=Std.ALL, tee={0: Std.OUT}, local_ranks_filter={0}
    )
    config = launcher.LaunchConfig(
        1, 1, 2, files, run_id="job", max_restarts=0, duplicate_stdout_filters=["pear"]
    )
    code = "echo an apple $LOCAL_RANK; echo a pear; echo no >&2"
    assert launcher.elastic_launch(config, "sh")("-c", code) == {0: None, 1: None}
    found = {path.name if "filtered" in path.name else path.parent.name + path.name: path.read_text()
             for path in tmp_path.rglob("*.log")}  # fmt: skip
    assert found == {
        "0stdout.log": "an apple 0\na pear\n", "1stdout.log": "an apple 1\na pear\n", "0stderr.log": "no\n",
        "1stderr.log": "no\n", "filtered_stdout.log": "[default_role0]:a pear\n",
    }  # fmt: skip
    config.run_id, config.logs_specs = (
        "function",
        DefaultLogsSpecs(str(tmp_path), redirects=Std.ALL),
    )
    assert launcher.elastic_launch(config, print)("of a function") == {0: None, 1: None}
    written = [path.read_text() for path in tmp_path.glob("function_*/attempt_0/?/stdout.log")]
    assert written == ["of a function\n"] * 2
    with pytest.raises(ValueError, match="'0:x' is no number of a stream"):
        Std.from_str("0:x")
    with pytest.raises(ValueError, match="'4' is no number of a stream"):
        Std.from_str("4")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        DefaultLogsSpecs(str(tmp_path / "file"))


def met(endpoint, handlers, count, k, **more):
    params = rendezvous.RendezvousParameters(
        "c10d", endpoint, "job", *count, last_call_timeout=1, keep_alive_interval=1, is_host=k == 0, **more
    )  # fmt: skip
    handlers[k] = rendezvous.get_rendezvous_handler(params)
    return handlers[k].next_rendezvous()


def test_machines_agree_on_numbers():
    endpoint, handlers, found = f"localhost:{get_free_port()}", {}, {}

    def machine(k):
        again = k in handlers
        found[k] = (
            handlers[k].next_rendezvous()
            if again
            else met(endpoint, handlers, (2, 3), k, local_addr="localhost")
        )

    threads = [threading.Thread(target=machine, args=(k,)) for k in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert {info.rank for info in found.values()} == {0, 1}
    assert [found[k].world_size for k in range(2)] == [2, 2]
    first = min(found, key=lambda k: found[k].rank)
    found[first].store.set("key", "value")
    assert found[1 - first].store.get("key") == b"value"
    where = found[0].bootstrap_store_info
    assert where == found[1].bootstrap_store_info and where.master_addr == "localhost"
    assert TCPStore(where.master_addr, where.master_port, is_master=False).add("n", 2) == 2

    late = threading.Thread(target=machine, args=(2,))  # the round is complete: it waits
    late.start()
    end = time.monotonic() + 30
    while handlers[0].num_nodes_waiting() == 0 and time.monotonic() < end:
        time.sleep(0.1)
    threads = [threading.Thread(target=machine, args=(k,)) for k in range(2)]
    for each in threads:
        each.start()
    for each in [late, *threads]:
        each.join(30)
    assert {info.rank for info in found.values()} == {0, 1, 2}
    assert {info.world_size for info in found.values()} == {3}
    assert handlers[2].shutdown()
    end = time.monotonic() + 30
    while (
        not handlers[0].is_closed() and time.monotonic() < end
    ):  # what was read is used for a second
        time.sleep(0.1)
    assert handlers[0].is_closed()
    with pytest.raises(rendezvous.RendezvousClosedError):
        handlers[1].next_rendezvous()
    assert handlers[0].shutdown() and handlers[1].shutdown()


def test_one_machine_alone_does_not_meet():
    handlers = {}
    endpoint = f"localhost:{get_free_port()}"
    with pytest.raises(rendezvous.RendezvousTimeoutError, match="not enough machines"):
        met(endpoint, handlers, (2, 2), 0, join_timeout=1)
    assert handlers[0]._state_holder.state.participants == {}  # it took itself off
    with pytest.raises(rendezvous.RendezvousConnectionError):
        params = rendezvous.RendezvousParameters(
            "c10d", f"localhost:{get_free_port()}", "job", 1, 1, is_host=False, read_timeout=1
        )
        rendezvous.get_rendezvous_handler(params)


class Command:
    def __reduce__(self):
        return pytest.fail, ("the state was run",)


def test_a_machine_that_says_nothing_is_taken_off(tmp_path):
    limits = dynamic.RendezvousTimeout()
    second = datetime.timedelta(seconds=1)
    settings = dynamic.RendezvousSettings("job", 1, 3, limits, second, 2)
    backend = c10d_rendezvous.C10dRendezvousBackend(FileStore(str(tmp_path / "store")), "job")
    holder = dynamic._BackendRendezvousStateHolder(backend, settings, 0)
    other = dynamic._BackendRendezvousStateHolder(backend, settings, 0)
    assert holder.sync() is None
    now = datetime.datetime.now(datetime.UTC)
    alive, dead = dynamic._NodeDesc("a", 1, 0), dynamic._NodeDesc("b", 1, 0)
    for node, age in ((alive, 1), (dead, 3)):
        holder.state.participants[node] = 0
        holder.state.last_heartbeats[node] = now - age * second
    holder.state.complete = True
    holder.mark_dirty()
    assert holder.sync() is True
    assert other.sync() is None and [*other.state.participants] == [alive]
    holder.state.round = 5
    other.mark_dirty()
    holder.mark_dirty()
    assert other.sync() is True and holder.sync() is False  # who is late reads
    assert holder.state.round == 0 and [*holder.state.participants] == [alive]
    # A state is data: what somebody else has put into the file runs nothing.
    backend.set_state(pickle.dumps(Command()), backend.get_state()[1])
    with pytest.raises(rendezvous.RendezvousStateError, match="corrupt"):
        holder.sync()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", {}), (" b= x ,c=y=z", {"b": "x", "c": "y=z"}), ("a=1,", "in format"), ("a=", "'a' must have a value")],
)  # fmt: skip
def test_settings_of_a_meeting_are_read(text, expected):
    if isinstance(expected, dict):
        assert endpoints._parse_rendezvous_config(text) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            endpoints._parse_rendezvous_config(text)


def test_a_timer_ends_when_nobody_has_it():
    calls = []
    made = endpoints._PeriodicTimer(datetime.timedelta(seconds=0.02), calls.append, 1)
    made.set_name("this test's timer")
    made.start()
    with pytest.raises(RuntimeError, match="already started"):
        made.start()
    end = time.monotonic() + 10
    while len(calls) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(calls) >= 2
    del made
    assert all(thread.name != "this test's timer" for thread in threading.enumerate())


def test_the_environment_sets_defaults_of_options(monkeypatch):
    monkeypatch.setenv("PET_NAME", "given")
    monkeypatch.setenv("PET_QUIET", "0")
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", action=argparse_util.env, required=True)
    parser.add_argument("--quiet", action=argparse_util.check_env, default=True)
    parser.add_argument("--other", action=argparse_util.check_env)
    assert vars(parser.parse_args([])) == {"name": "given", "quiet": False, "other": False}
    found = vars(parser.parse_args(["--name", "said", "--quiet", "--other"]))
    assert found == {"name": "said", "quiet": True, "other": True}
