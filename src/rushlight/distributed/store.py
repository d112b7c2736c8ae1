"""Stores: small tables of keys and bytes that all processes of a job see.

`HashStore` is for the threads of one process, `FileStore` for processes that see one file system, `TCPStore` (in
tcp_store.py) for the others. A store carries what processes must tell each other before MPI runs, and who is missing
when a call takes too long.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore", "PrefixStore",
    "QueueEmptyError", "Store",
]  # fmt: skip


class DistError(RuntimeError):
    """An error of `torch.distributed`."""


class DistBackendError(DistError):
    """An error of the engine that carries the data."""


class DistNetworkError(DistError):
    """A connection could not be made or was lost."""


class DistStoreError(DistError):
    """A store did not answer in time, or has no such key."""


class QueueEmptyError(DistStoreError):
    """`queue_pop(block=False)` found nothing."""


def as_bytes(value: Any) -> bytes:
    """The bytes of a value that is given to a store."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a store holds str and bytes, got a value of {type(value).__name__}")
    return bytes(value)


def as_key(key: Any) -> str:
    """The key itself; TypeError for what is no str."""
    if not isinstance(key, str):
        raise TypeError(f"a key of a store is a str, got {type(key).__name__}")
    return key


class Table:
    """The content of a store; each function below is one step that nothing interrupts."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, list[bytes]] = {}

    def set(self, key: str, value: bytes) -> bytes:
        self.values[key] = value
        return b""

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def add(self, key: str, amount: bytes) -> bytes:
        total = int(self.values.get(key, b"0")) + int(amount)
        self.values[key] = b"%d" % total
        return self.values[key]

    def append(self, key: str, value: bytes) -> bytes:
        self.values[key] = self.values.get(key, b"") + value
        return b""

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """The value afterwards: `desired` where `expected` stood, or where nothing stood and "" was expected."""
        found = self.values.get(key)
        if found == expected or (found is None and not expected):
            self.values[key] = desired
        return self.values.get(key, expected)

    def delete_key(self, key: str) -> bytes:
        return b"1" if self.values.pop(key, None) is not None else b""

    def check(self, *keys: str) -> bytes:
        return b"1" if all(key in self.values or self.queues.get(key) for key in keys) else b""

    def queue_push(self, key: str, value: bytes) -> bytes:
        self.queues.setdefault(key, []).append(value)
        return b""

    def queue_pop(self, key: str) -> bytes | None:
        waiting = self.queues.get(key)
        return waiting.pop(0) if waiting else None

    def queue_len(self, key: str) -> bytes:
        return b"%d" % len(self.queues.get(key, ()))

    def list_keys(self) -> bytes:
        return "\n".join(self.values).encode()

    def num_keys(self) -> bytes:
        return b"%d" % len(self.values)


class Store:
    """A table of keys and bytes that several processes see. `get` and `wait` wait until a key is set."""

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    def _call(self, name: str, *arguments: Any) -> bytes | None:
        """Carry out a function of `Table`."""
        raise NotImplementedError

    def _until(self, ask: Callable, keys: Sequence[str], timeout: timedelta | None = None) -> Any:
        """What `ask()` answers as soon as it is neither None nor empty; DistStoreError after the timeout."""
        limit = (self._timeout if timeout is None else timeout).total_seconds()
        end, pause = time.monotonic() + limit, 0.0005
        while (found := ask()) is None or found == b"":
            left = end - time.monotonic()
            if left <= 0:
                raise DistStoreError(
                    f"wait timeout after {round(1000 * limit)}ms, keys: {', '.join('/' + k for k in keys)}"
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.02)
        return found

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Let `get` and `wait` wait so long from now on."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        self._call("set", as_key(key), as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key; waits until it is set."""
        self.wait([key])
        return self._call("get", key) or b""

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all these keys are set. DistStoreError after the timeout."""
        self._until(lambda: self._call("check", *keys), keys, timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all these keys are set."""
        return bool(self._call("check", *keys))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which starts at 0. Returns the sum."""
        return int(self._call("add", as_key(key), b"%d" % amount) or 0)

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value of a key."""
        self._call("append", as_key(key), as_bytes(value))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a key if it has the expected value (or is not set, and "" is expected). Returns its value afterwards."""
        return (
            self._call(
                "compare_set", as_key(key), as_bytes(expected_value), as_bytes(desired_value)
            )
            or b""
        )

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was set."""
        return bool(self._call("delete_key", key))

    def num_keys(self) -> int:
        """How many keys are set."""
        return int(self._call("num_keys") or 0)

    def list_keys(self) -> list[str]:
        """All keys."""
        found = self._call("list_keys")
        return found.decode().split("\n") if found else []

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys; waits until all are set."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append to a queue."""
        self._call("queue_push", as_key(key), as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value out of a queue; waits for one, or raises QueueEmptyError with `block=False`."""
        found = self._call("queue_pop", key)
        if found is None and not block:
            raise QueueEmptyError("queue is empty")
        return self._until(lambda: self._call("queue_pop", key), [key]) if found is None else found

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""
        return int(self._call("queue_len", key) or 0)

    def has_extended_api(self) -> bool:
        """True: there are `append`, `multi_get` and `multi_set`."""
        return True

    def clone(self) -> Store:
        """A store on the same table that another thread can use."""
        return self


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self._table, self._lock = Table(), threading.Lock()

    def _call(self, name: str, *arguments: Any) -> bytes | None:
        with self._lock:
            return getattr(self._table, name)(*arguments)


class FileStore(Store):
    """A store in a file: every change is appended, and read by the others.

    With `world_size` the last of so many processes that lets go of the store removes the file.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self._size = file_name, world_size
        self._table, self._read = Table(), 0
        self._lock = threading.Lock()
        self._call("add", "\x00users", b"1")

    def _call(self, name: str, *arguments: Any) -> bytes | None:
        with self._lock, open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._read)
            self._replay(file.read())
            result = getattr(self._table, name)(*arguments)
            if name not in ("get", "check", "list_keys", "num_keys", "queue_len"):
                record = [name.encode(), *map(as_bytes, arguments)]
                text = b"".join(struct.pack("<I", len(part)) + part for part in record)
                file.write(struct.pack("<I", len(record)) + text)
            file.flush()
            self._read = file.tell()
            return result

    def _replay(self, text: bytes) -> None:
        """Carry out what the others have written."""
        at = 0

        def part() -> bytes:
            nonlocal at
            (size,) = struct.unpack_from("<I", text, at)
            at += 4 + size
            return text[at - size : at]

        while at < len(text):
            (count,) = struct.unpack_from("<I", text, at)
            at += 4
            name, key, *values = [part() for _ in range(count)]
            getattr(self._table, name.decode())(key.decode(), *values)

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key for key in super().list_keys() if key != "\x00users"]

    def __del__(self) -> None:
        try:
            if self._call("add", "\x00users", b"-1") == b"0" and self._size > 0:
                os.remove(self.path)
        except (OSError, AttributeError, NameError, TypeError):
            pass  # it is gone already, or the interpreter is


class PrefixStore(Store):
    """Another store, with a prefix before each key."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store behind this one."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        below = self._store
        return below._underlying_non_prefix_store if isinstance(below, PrefixStore) else below

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Let `get` and `wait` wait so long from now on."""
        self._store.set_timeout(timeout)

    def _until(self, ask: Callable, keys: Sequence[str], timeout: timedelta | None = None) -> Any:
        return self._store._until(ask, keys, self.timeout if timeout is None else timeout)

    def _call(self, name: str, *arguments: Any) -> bytes | None:
        if name == "check":
            return self._store._call(name, *(f"{self.prefix}/{key}" for key in arguments))
        if arguments:
            arguments = (f"{self.prefix}/{arguments[0]}", *arguments[1:])
        return self._store._call(name, *arguments)

    def list_keys(self) -> list[str]:
        """All keys with the prefix, without it."""
        start = f"{self.prefix}/"
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def clone(self) -> Store:
        """A store on the same table that another thread can use."""
        return PrefixStore(self.prefix, self._store.clone())
