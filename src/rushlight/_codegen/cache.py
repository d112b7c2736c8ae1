"""Machine code kept on disk between processes: bytes by key, in a directory of the user's own.

The directory is `$RUSHLIGHT_CACHE_DIR`, or `rushlight` in `$XDG_CACHE_HOME` or `~/.cache`; with
`RUSHLIGHT_CACHE_DIR` set but empty, or relative, nothing is kept. What stands there is run as code, so a directory
that belongs to someone else, or that others may write to, is not used. Nothing here raises: without
a directory, or when a disk is full, `get` finds nothing and `put` does nothing.

An entry is a file named by its key: a magic, the key, a checksum of the rest, and the rest. It is
written under another name and then renamed, so that processes that run at once see all of it or
nothing, and an entry that does not check is as good as none and is written anew.
"""

from __future__ import annotations

import os
from functools import cache

MAGIC = b"rushlight code 2\n"
LIMIT = 256 << 20  # bytes of the whole directory; the entries unused for longest go first
_DAY = 86_400.0
OPERATORS = "_backends", "_codegen", "compiler", "core", "dispatch", "ops", "rng"  # folders


def key(*parts: str) -> str:
    """The name of an entry: a digest of everything that its bytes depend on.

    >>> key("loop", "znver5") == key("loop", "znver5"), key("a", "bc") == key("ab", "c")
    (True, False)
    """
    return _digest("\0".join([sources(), _python(), *parts]).encode()).hex()


def _digest(data: bytes) -> bytes:
    """32 bytes that stand for these. (`hashlib` takes 6 ms to import, for OpenSSL, which BLAKE2 does not need.)"""
    try:
        from _blake2 import blake2b
    except ImportError:  # a Python that keeps it elsewhere
        from hashlib import blake2b
    return blake2b(data, digest_size=32).digest()


@cache
def sources() -> str:
    """A digest of the source text of the compiler and of all kernels: another version makes other code."""
    here = os.path.dirname(__file__)
    others = ("kernels", "runtime", os.path.join("..", "_backends", "llvm"))
    return _of_files([here, *(os.path.join(here, name) for name in others)])


@cache
def operators() -> str:
    """A digest of the source text of all that decides which kernels operators call, in programs, too."""
    package = os.path.dirname(os.path.dirname(__file__))
    return _of_files([os.path.join(package, name) for name in OPERATORS], below=True)


def _of_files(folders: list[str], below: bool = False) -> str:
    """A digest of the Python files in folders, and in those below them.

    The digest itself is kept on disk under the sizes and times of the files (Python knows by them whether its
    bytecode is of today): to read those of the compiler takes 3 ms.
    """
    from rushlight.version import __version__

    found = []
    try:
        for folder in (left := [*folders]):  # which grows
            with os.scandir(folder) as entries:
                for e in entries:
                    if e.name.endswith(".py"):
                        found.append((e.path, e.stat()))
                    elif below and e.name != "__pycache__" and e.is_dir():
                        left.append(e.path)
    except OSError:
        pass  # the package came out of an archive: the version has to do
    found.sort()
    known = [f"{path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for path, s in found]
    entry = _digest("\0".join([__version__, *known]).encode()).hex()
    digest = get(entry)
    if digest is None:
        texts = [__version__.encode()]
        for path, _ in found:
            with open(path, "rb") as file:
                text = file.read()
            texts.append(f"{os.path.basename(path)}\0{len(text)}\0".encode() + text)
        digest = _digest(b"".join(texts))
        put(entry, digest)
    return digest.hex()


@cache
def _python() -> str:
    """Python's and NumPy's binary interfaces: native code may read their objects."""
    import sys
    from importlib.machinery import EXTENSION_SUFFIXES

    import numpy as np

    return f"{sys.implementation.cache_tag} {EXTENSION_SUFFIXES[0]} {sys.platform} {np.__version__}"


def directory() -> str | None:
    """Where entries are kept, made if need be; None where nothing can or may be kept."""
    get = os.environ.get
    return _checked(get("RUSHLIGHT_CACHE_DIR"), get("XDG_CACHE_HOME"), get("HOME"))


@cache
def _checked(path: str | None, base: str | None, home: str | None) -> str | None:
    """`directory()` for these variables."""
    if path is None:
        path = os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "rushlight")
    # Without a home `~` stays as it is; a relative path would be another place in every directory.
    if not os.path.isabs(path):
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        status = os.stat(path)
    except OSError:
        return None
    return path if os.path.isdir(path) and _ours(status) else None


def _ours(status: os.stat_result) -> bool:
    """Can nobody else have written it?"""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def get(name: str) -> bytes | None:
    """The bytes of an entry; None where there is none that checks."""
    where = directory()
    if where is None:
        return None
    path = os.path.join(where, name)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            entry = file.read()
    except OSError:
        return None
    head = len(MAGIC) + 64
    data = entry[head:]
    if not _ours(status) or entry[:head] != _head(name, data):
        return None
    from time import time

    if time() - status.st_mtime > _DAY:  # the time of a file says when it was last of use
        try:
            os.utime(path)
        except OSError:
            pass
    return data


def _head(name: str, data: bytes) -> bytes:
    return MAGIC + bytes.fromhex(name) + _digest(data)


def put(name: str, data: bytes) -> None:
    """Keep these bytes under this key, if possible."""
    where = directory()
    if where is None:
        return
    temporary = None
    try:
        # A name that no other process or thread has. (`tempfile` does the same, and takes 5 ms to import.)
        path = os.path.join(where, f".new-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, 0o600)
        temporary = path
        with open(descriptor, "wb") as file:
            file.write(_head(name, data) + data)
        os.replace(temporary, os.path.join(where, name))
    except OSError:
        if temporary is not None:
            try:
                os.unlink(temporary)
            except OSError:
                pass
        return
    if (
        name[:2] < "04"
    ):  # one in 64: to look through a directory of thousands takes longer than to compile
        trim()


def trim(limit: int | None = None) -> None:
    """Remove what was of no use for longest until a directory over its limit is at 3/4 of it."""
    from time import time

    where = directory()
    if where is None:
        return
    limit = LIMIT if limit is None else limit
    found = []
    try:
        with os.scandir(where) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another process has given it its name, or removed it
                # A process that was killed leaves the file that it was writing.
                if entry.name.startswith(".new-") and time() - status.st_mtime > _DAY:
                    os.unlink(entry.path)
                else:
                    found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        if total <= limit:
            return
        for _, size, path in sorted(found):
            os.unlink(path)
            total -= size
            if total <= limit * 3 // 4:
                return
    except OSError:
        pass  # another process removes at the same time
