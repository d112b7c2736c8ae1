"""`TCPStore`: a store that one process serves to the others.

A request is the number of its parts, then each part with its length: the name of a function of `Table`, a key, values.
The answer is one part, or none. A client that says who it is (`hello`) is written down when its connection ends without
`bye`: so that the others learn of a process that died, whatever machine it ran on.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from datetime import timedelta
from typing import Any

from rushlight.distributed.store import DistNetworkError, DistStoreError, Store, Table, as_bytes

__all__ = ["TCPStore"]

FOLLOWERS = "\x00followers"  # those that ended because they heard of one: "0 3 " is rank 0 because of rank 3
GONE = "\x00gone"  # the key that lists who went without a word: "3 1 "
_NOTHING = 0xFFFFFFFF  # in the place of a length: there is no answer
_CLIENTS = "\x00clients"


class Server:
    """Serves a table to all that connect, in a thread of its own."""

    def __init__(self, host: str, port: int, descriptor: int | None = None) -> None:
        if descriptor is not None:
            self.socket = socket.socket(fileno=descriptor)
        else:
            self.socket = socket.create_server((host, port), backlog=1024)
        self.port = self.socket.getsockname()[1]
        self.table = Table()
        self.selector = selectors.DefaultSelector()
        self.socket.setblocking(False)
        self.selector.register(self.socket, selectors.EVENT_READ)
        self.names: dict[socket.socket, str] = {}
        self.pending: dict[socket.socket, bytes] = {}
        self.users = 1
        threading.Thread(target=self._serve, name="TCPStore", daemon=True).start()

    def _serve(self) -> None:
        while self.users:
            for key, _ in self.selector.select():
                source: Any = key.fileobj
                if source is self.socket:
                    try:
                        connection, _ = self.socket.accept()
                    except OSError:
                        continue  # it was let go
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.selector.register(connection, selectors.EVENT_READ)
                    self.pending[connection] = b""
                    continue
                try:
                    received = source.recv(1 << 16)
                    if received:
                        self._read(source, self.pending[source] + received)
                except OSError:
                    received = b""
                if not received:
                    self._end(source)
        for source in [self.socket, *self.pending]:
            source.close()
        self.selector.close()

    def let_go(self) -> None:
        """One store less uses it. Without any it ends when the next connection does, and its port is free at once."""
        with _servers_lock:
            self.users -= 1
            if not self.users:
                _servers.pop(self.port, None)
                self.socket.close()

    def _read(self, source: socket.socket, text: bytes) -> None:
        """Answer each whole request in `text`; keep the rest."""
        while (found := parts_of(text)) is not None:
            parts, text = found
            name, *arguments = parts
            answer: bytes | None = b""
            if name == b"hello":
                self.names[source] = arguments[0].decode()
            elif name == b"bye":
                self.names.pop(source, None)
            elif name == b"check":
                answer = self.table.check(*(key.decode() for key in arguments))
            else:
                key = [arguments[0].decode()] if arguments else []
                answer = getattr(self.table, name.decode())(*key, *arguments[1:])
            if answer is None:
                source.sendall(struct.pack("<I", _NOTHING))
            else:
                source.sendall(struct.pack("<I", len(answer)) + answer)
        self.pending[source] = text

    def _end(self, source: socket.socket) -> None:
        self.selector.unregister(source)
        source.close()
        self.pending.pop(source, None)
        if source in self.names:
            self.table.append(GONE, as_bytes(self.names.pop(source) + " "))


def parts_of(text: bytes) -> tuple[list[bytes], bytes] | None:
    """The parts of the first request in `text` and what follows it; None if it is not whole."""
    if len(text) < 4:
        return None
    (count,), at, parts = struct.unpack_from("<I", text), 4, []
    for _ in range(count):
        if len(text) < at + 4:
            return None
        (size,) = struct.unpack_from("<I", text, at)
        at += 4 + size
        if len(text) < at:
            return None
        parts.append(text[at - size : at])
    return parts, text[at:]


_servers: dict[int, Server] = {}  # those of this process that several stores may use, by port
_servers_lock = threading.RLock()  # a store may be collected while another one is made


class TCPStore(Store):
    """A store that the process with `is_master` serves at a host and a port; port 0 takes a free one."""

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300), wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._timeout, self.host, self.libuvBackend = timeout, host_name, use_libuv
        self._server = _served(port, multi_tenant, master_listen_fd) if is_master else None
        self.port = self._server.port if self._server else port
        self._lock = threading.Lock()
        self._socket = _connected(host_name, self.port, timeout)
        if wait_for_workers and world_size is not None and world_size > 0:
            self._wait_for(world_size, timeout)

    def _keep(self) -> None:
        """Serve until this process ends: others may leave a group later than this one, or come to its next one earlier."""
        if self._server is not None:
            self._server.users += 1

    def _wait_for(self, world_size: int, timeout: timedelta) -> None:
        self.add(_CLIENTS, 1)
        end = time.monotonic() + timeout.total_seconds()
        while self._server is not None and (joined := self.add(_CLIENTS, 0)) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {round(timeout.total_seconds())} seconds waiting for clients. "
                    f"{joined}/{world_size} clients joined."
                )
            time.sleep(0.005)

    def _call(self, name: str, *arguments: Any) -> bytes | None:
        parts = [name.encode(), *map(as_bytes, arguments)]
        text = b"".join(struct.pack("<I", len(part)) + part for part in parts)
        with self._lock:
            try:
                self._socket.settimeout(self._timeout.total_seconds())
                self._socket.sendall(struct.pack("<I", len(parts)) + text)
                (size,) = struct.unpack("<I", self._receive(4))
                return None if size == _NOTHING else self._receive(size)
            except OSError as error:
                self._socket.close()  # a late answer would be taken for that to the next request
                raise DistNetworkError(
                    f"the store at {self.host}:{self.port} does not answer ({error}): the process that "
                    "serves it, rank 0 or the one that started the job, has ended or hangs"
                ) from error

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionError("closed")
            received += more
        return received

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key for key in super().list_keys() if key not in (_CLIENTS, FOLLOWERS, GONE)]

    def clone(self) -> TCPStore:
        """A store on the same table with a connection of its own."""
        return TCPStore(self.host, self.port, timeout=self._timeout, wait_for_workers=False)

    def __del__(self) -> None:
        if (server := getattr(self, "_server", None)) is not None:
            server.let_go()
        if (connection := getattr(self, "_socket", None)) is not None:
            connection.close()

    def __repr__(self) -> str:
        return f"TCPStore(client=TCPClient({self.host}:{self.port}), server={self._server and 'TCPServer'})"


def _served(port: int, shared: bool, descriptor: int | None) -> Server:
    with _servers_lock:
        if shared and port in _servers:
            _servers[port].users += 1
            return _servers[port]
        try:
            made = Server("", port, descriptor)
        except OSError as error:
            raise DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: {port}, {error} (EADDRINUSE)"
            ) from error
        if shared:
            _servers[made.port] = made
        return made


def _connected(host: str, port: int, timeout: timedelta) -> socket.socket:
    end = time.monotonic() + timeout.total_seconds()
    while True:
        try:
            made = socket.create_connection((host, port), max(end - time.monotonic(), 0.05))
        except OSError as error:
            if time.monotonic() > end - 0.05:
                raise DistNetworkError(
                    f"The client socket has timed out after {round(1000 * timeout.total_seconds())}ms while "
                    f"trying to connect to ({host}, {port})."
                ) from error
            time.sleep(0.05)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
