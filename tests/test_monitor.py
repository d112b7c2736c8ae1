"""Events, their handlers, and statistics over windows of time: `torch.monitor`."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from rushlight import monitor
from rushlight.monitor import Aggregation, Event, Stat


@pytest.fixture
def events():
    found: list[Event] = []
    handle = monitor.register_event_handler(found.append)
    yield found
    monitor.unregister_event_handler(handle)


def test_a_window_ends_with_its_last_sample(events):
    every = tuple(Aggregation)
    stat = Stat("loss", every, timedelta(hours=1), 3)
    assert stat.get() == dict.fromkeys(every[1:], 0.0)
    for n in (1, 2):
        stat.add(n)
    assert stat.count == 2 and not events
    for n in (6, 4, 5, 7, 8):
        stat.add(n)
    assert stat.count == 0 and len(events) == 1
    assert stat.get() == dict(zip(every[1:], (3.0, 3.0, 9.0, 6.0, 1.0), strict=True))
    assert events[0].name == monitor.STAT_EVENT
    assert events[0].data == {
        "loss.mean": 3.0, "loss.count": 3.0, "loss.sum": 9.0, "loss.max": 6.0, "loss.min": 1.0,
    }  # fmt: skip


def test_a_window_ends_with_the_first_number_after_it(events, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: clock[0])
    stat = Stat("b", (Aggregation.MIN,), timedelta(seconds=1))
    stat.add(1.5)
    stat.add(2)
    clock[0] = 5.0
    assert stat.count == 2 and not events
    stat.add(3)
    assert stat.count == 1 and [e.data for e in events] == [{"b.min": 1.5}]
    del stat
    assert [e.data for e in events] == [{"b.min": 1.5}, {"b.min": 3.0}]


def test_handlers_and_events():
    found = []
    handle = monitor.register_event_handler(found.append)
    event = Event("name", datetime(2020, 1, 1), {"a": 1, "b": "c"})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert found == [event]
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        Event("name", datetime(2020, 1, 1), {"a": [1]})
    with pytest.raises(TypeError, match="cannot be called"):
        monitor.register_event_handler(3)


def test_scalars_of_tensorboard():
    class Writer:
        def add_scalar(self, *args, walltime):
            self.args = args

    writer = Writer()
    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(writer))
    Stat("c", (Aggregation.SUM,), timedelta(hours=1), 1).add(2)
    monitor.unregister_event_handler(handle)
    assert writer.args == ("c.sum", 2.0)
