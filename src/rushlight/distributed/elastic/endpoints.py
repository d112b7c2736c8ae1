"""`torch.distributed.elastic.rendezvous.utils`: addresses where machines meet, and what they do again and again meanwhile."""

from __future__ import annotations

import contextlib
import ipaddress
import random
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

__all__ = ["parse_rendezvous_endpoint"]


def _try_parse_port(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]+", text) else None


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """The host and the port of an address.

    >>> from rushlight.distributed.elastic.endpoints import parse_rendezvous_endpoint
    >>> parse_rendezvous_endpoint("first:29500", 1), parse_rendezvous_endpoint("[::1]", 1)
    (('first', 29500), ('::1', 1))
    """
    given = (endpoint or "").strip()
    if not given:
        return "localhost", default_port
    host, colon, text = given.rpartition(":")
    if not colon or (given[0] == "[" and given[-1] == "]"):
        host, port = given, default_port
    else:
        found = _try_parse_port(text)
        if found is None or found > 65535:
            raise ValueError(
                f"The port number of the rendezvous endpoint '{given}' must be an integer between 0 and 65536."
            )
        port = found
    if not re.fullmatch(r"[\w\.:-]+", host.removeprefix("[").removesuffix("]")):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{given}' must be a dot-separated list of labels, an IPv4 address, "
            "or an IPv6 address."
        )
    return host.removeprefix("[").removesuffix("]"), port


def _parse_rendezvous_config(config_str: str) -> dict[str, str]:
    """The settings in `name=value,name=value`.

    >>> _parse_rendezvous_config("rank = 0, is_host=a=b")
    {'rank': '0', 'is_host': 'a=b'}
    """
    found = {}
    for each in config_str.split(",") if config_str.strip() else ():
        name, _, value = (part.strip() for part in each.partition("="))
        if not name:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(
                f"The rendezvous configuration option '{name}' must have a value specified."
            )
        found[name] = value
    return found


def _addresses(host: str) -> tuple[set[str], set[str]]:
    """(names, numbers) that the system knows of a host."""
    found: list[tuple] = []
    with contextlib.suppress(ValueError, socket.gaierror):  # it knows none
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)
    return {each[3] for each in found if each[3]}, {each[4][0] for each in found}


def _matches_machine_hostname(host: str) -> bool:
    """Whether a host is this machine: by its name, or by an address that both have.

    >>> _matches_machine_hostname("127.0.0.1"), _matches_machine_hostname("0.0.0.0")
    (True, False)
    """
    number = None
    with contextlib.suppress(ValueError):
        number = ipaddress.ip_address(host)
    if host == "localhost" or (number is not None and number.is_loopback):
        return True
    _, numbers = _addresses(host)
    here = socket.gethostname()
    names, own = _addresses(here)
    return host in {here} | names or bool((numbers | {str(number)}) & own)


def _delay(seconds: float | tuple[float, float]) -> None:
    """Sleep for some seconds, or for a time between two."""
    time.sleep(random.uniform(*seconds) if isinstance(seconds, tuple) else seconds)


class _PeriodicTimer:
    """A thread that calls a function after each interval, until `cancel`, or until nobody has this object."""

    def __init__(
        self, interval: timedelta, function: Callable[..., None], *args: Any, **kwargs: Any
    ) -> None:
        self._stopped, self._name = threading.Event(), "PeriodicTimer"
        self._given = (interval.total_seconds(), self._stopped, function, args, kwargs)
        self._end: weakref.finalize | None = None

    @property
    def name(self) -> str:
        """The thread's name."""
        return self._name

    def set_name(self, name: str) -> None:
        """Give the thread a name before it starts."""
        self._not_started()
        self._name = name

    def _not_started(self) -> None:
        if self._end is not None:
            raise RuntimeError("The timer has already started.")

    def start(self) -> None:
        """Start the thread."""
        self._not_started()
        thread = threading.Thread(target=_repeat, args=self._given, name=self._name, daemon=True)
        self._end = weakref.finalize(self, _end_of, thread, self._stopped)
        self._end.atexit = False  # then threads have ended
        thread.start()

    def cancel(self) -> None:
        """End the thread, and wait until a call that runs is over."""
        if self._end is not None:
            self._end()


def _repeat(
    seconds: float, stopped: threading.Event, function: Callable, args: tuple, kwargs: dict
) -> None:
    while not stopped.wait(seconds):
        function(*args, **kwargs)


def _end_of(thread: threading.Thread, stopped: threading.Event) -> None:
    stopped.set()
    if thread is not threading.current_thread():
        thread.join()
