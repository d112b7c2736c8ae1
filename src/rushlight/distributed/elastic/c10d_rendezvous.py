"""`torch.distributed.elastic.rendezvous.c10d_rendezvous_backend`: machines that meet keep what they know in a store."""

from __future__ import annotations

import binascii
import logging
import tempfile
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

from rushlight.distributed.elastic.dynamic_rendezvous import RendezvousBackend, Token
from rushlight.distributed.elastic.endpoints import (
    _matches_machine_hostname,
    parse_rendezvous_endpoint,
)
from rushlight.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousParameters,
    RendezvousStateError,
)
from rushlight.distributed.store import FileStore, Store
from rushlight.distributed.tcp_store import TCPStore

__all__ = ["C10dRendezvousBackend", "create_backend"]

DEFAULT_PORT = 29400
UNREACHABLE = "The connection to the C10d store has failed. See inner exception for details."
logger = logging.getLogger(__name__)


class C10dRendezvousBackend(RendezvousBackend):
    """The state of a rendezvous in a store, as base64 at `torch.rendezvous.NAME`."""

    NOTHING = "bm90aGluZw=="  # at the key before the first state, as reading waits for a key

    def __init__(self, store: Store, run_id: str) -> None:
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self._key = store, f"torch.rendezvous.{run_id}"
        self._call("compare_set", self._key, "", self.NOTHING)

    @property
    def name(self) -> str:
        """`c10d`."""
        return "c10d"

    def get_state(self) -> tuple[bytes, Token] | None:
        """The state and its version, which is the text in the store."""
        return self._read(self._call("get", self._key))

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Write a state in the place of a version; the state and version that are there now, and whether it was written."""
        if token and not isinstance(token, bytes):  # no version of ours
            now = self.get_state()
            return None if now is None else (*now, False)
        before = token.decode() if token else self.NOTHING
        new = b64encode(state).decode()
        now = self._read(self._call("compare_set", self._key, before, new))
        return None if now is None else (*now, now[0] == state)

    def _call(self, name: str, *arguments: str) -> bytes:
        try:
            return getattr(self._store, name)(*arguments)
        except (ValueError, RuntimeError, OSError) as error:
            raise RendezvousConnectionError(UNREACHABLE) from error

    def _read(self, text: bytes) -> tuple[bytes, Token] | None:
        if text == self.NOTHING.encode():
            return None
        try:
            return b64decode(text), text
        except binascii.Error as error:
            raise RendezvousStateError(
                "The state object is corrupt. See inner exception for details."
            ) from error


def _create_tcp_store(params: RendezvousParameters) -> TCPStore:
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    told = params.get_as_bool("is_host")
    serves = _matches_machine_hostname(host) if told is None else told
    seconds = params.get_as_int("read_timeout", 60)
    assert seconds is not None
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")

    def made(serves: bool) -> TCPStore:
        limit = timedelta(seconds=seconds)
        return TCPStore(host, port, is_master=serves, timeout=limit, multi_tenant=True)

    try:
        try:
            return made(serves)
        except (ValueError, RuntimeError, OSError):
            if told is not None or not serves:
                raise
            return made(False)  # another process of this machine serves it
    except (ValueError, RuntimeError, OSError) as error:
        raise RendezvousConnectionError(UNREACHABLE) from error


def _create_file_store(params: RendezvousParameters) -> FileStore:
    path = params.endpoint
    if not path:
        try:
            _, path = tempfile.mkstemp()
        except OSError as error:
            raise RendezvousError(
                "The file creation for C10d store has failed. See inner exception for details."
            ) from error
    try:
        return FileStore(path)
    except (ValueError, RuntimeError, OSError) as error:
        raise RendezvousConnectionError(UNREACHABLE) from error


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, Store]:
    """The store at the address in `params`, and a backend on it.

    Settings: `store_type`, `tcp` or `file`, whose address is a path; `is_host`, whether this process serves it, else asked
    of the address; `read_timeout` in seconds.
    """
    kinds: dict[str, Any] = {"tcp": _create_tcp_store, "file": _create_file_store}
    kind = params.get("store_type", "tcp").strip().lower()
    if kind not in kinds:
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    store = kinds[kind](params)
    return C10dRendezvousBackend(store, params.run_id), store
