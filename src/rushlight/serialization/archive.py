"""The container of a checkpoint: an uncompressed zip archive of records, each aligned to 64 bytes.

Layout, under one folder named after the file: `data.pkl` (the object, pickled, with its storages replaced by references),
`data/0`, `data/1`... (the bytes of each storage), `byteorder`, `version`, and two records that say how it was written.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from typing import Any, BinaryIO, NoReturn

import numpy as np

ALIGNMENT = 64  # bytes: arrays in a mapped file are aligned for vector instructions
# The structures of the zip format (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.14 to 4.3.16), less the numbers that they begin with.
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64, _LOCATOR64 = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_MOST, _MOST_RECORDS = (
    0xFFFFFFFF,
    0xFFFF,
)  # what stands in the place of a number that is in a 64-bit field
_UTF8, _STORED, _DATE = 0x800, 0, 1 << 5 | 1  # flag, method, 1980-01-01: same content, same file
_PADDING = b"FB"  # the name of the extra field that holds the padding


class ArchiveWriter:
    """Writes records to `file` (anything with `write`), from where it stands; `close()` completes the archive.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> with ArchiveWriter(buffer, "model") as archive:
    ...     archive.write("version", b"3\\n")
    >>> ArchiveReader(buffer).read("version")
    b'3\\n'
    """

    def __init__(self, file: Any, folder: str) -> None:
        self._file, self._folder = file, folder
        self._position = self._checksum = 0
        self._directory: list[bytes] = []

    def write(self, name: str, content: bytes | np.ndarray) -> None:
        """Add the record `name`; an array must be contiguous bytes (uint8)."""
        path, size, start = f"{self._folder}/{name}".encode(), len(content), self._position
        data = content if isinstance(content, bytes) else content.data
        checksum = zlib.crc32(data)
        self._checksum = zlib.crc32(f"{name} {checksum}".encode(), self._checksum)
        large = size >= _MOST
        sizes, version = (_MOST if large else size,) * 2, 45 if large else 20
        extra = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        padding = -(start + _LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        known = version, _UTF8, _STORED, 0, _DATE, checksum, *sizes, len(path)
        head = _LOCAL.pack(b"PK\3\4", *known, len(extra) + 4 + padding) + path + extra
        self._put(head + _PADDING + struct.pack("<H", padding) + b"Z" * padding)
        self._put(data)
        if start >= _MOST:
            extra = struct.pack("<2H", 1, len(extra[4:]) + 8) + extra[4:] + struct.pack("<Q", start)
        rest = len(extra), 0, 0, 0, 0o600 << 16, min(start, _MOST)
        self._directory.append(_CENTRAL.pack(b"PK\1\2", 3 << 8 | 45, *known, *rest) + path + extra)

    def _put(self, data: Any) -> None:
        self._position += len(data)
        rest = memoryview(data)
        while written := self._file.write(rest):  # a file without a buffer may write a part
            rest = rest[written:]
            if not rest:
                break

    def close(self) -> None:
        self.write(".data/serialization_id", f"{self._checksum:040d}".encode())
        count, start = len(self._directory), self._position
        self._put(b"".join(self._directory))
        size, end = self._position - start, self._position
        if count >= _MOST_RECORDS or max(start, size) >= _MOST:
            rest = 45, 45, 0, 0, count, count, size, start
            self._put(_END64.pack(b"PK\6\6", _END64.size - 12, *rest))
            self._put(_LOCATOR64.pack(b"PK\6\7", 0, end, 1))
        counts = (min(count, _MOST_RECORDS),) * 2
        self._put(_END.pack(b"PK\5\6", 0, 0, *counts, min(size, _MOST), min(start, _MOST), 0))

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:  # without a directory a torn file does not look whole
            self.close()


class ArchiveReader:
    """Reads records from `file` (seekable, binary) and checks each against the file's size and its checksum.

    RuntimeError for anything that is not a whole, uncompressed archive with one top folder.
    """

    def __init__(self, file: BinaryIO, mapped: memoryview | None = None) -> None:
        self._file = file
        self._mapped = mapped
        try:
            self._zip = zipfile.ZipFile(file)
        except (
            zipfile.BadZipFile,
            OSError,
            ValueError,
            struct.error,
            NotImplementedError,
        ) as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: {error} (the file is truncated or damaged)"
            ) from error
        self._records: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in self._zip.infolist():
            _, _, name = info.filename.partition("/")
            if info.is_dir():
                continue
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                _refuse(f"record {info.filename!r} is compressed, which no checkpoint's is")
            if info.flag_bits & 0x1:
                _refuse(f"record {info.filename!r} is encrypted")
            if name in self._records:
                _refuse(f"record {name!r} occurs twice")
            self._records[name] = info
            total += info.file_size
        if len({info.filename.partition("/")[0] for info in self._records.values()}) > 1:
            _refuse("it has more than one top folder")
        end = self._zip.start_dir
        if total > end:  # records that overlap: a small file that would unfold to a large one
            _refuse(f"its records claim {total} bytes, and the file has {end}")

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def names(self) -> list[str]:
        """The names of all records."""
        return list(self._records)

    def size(self, name: str) -> int:
        """Bytes in the record `name`; RuntimeError if there is none."""
        return self._find(name).file_size

    def read(self, name: str) -> bytes:
        """The content of the record `name`."""
        return self.array(name).tobytes()

    def array(self, name: str) -> np.ndarray:
        """The content of the record `name` as a writable array of bytes; a view of the map if the file is mapped."""
        info = self._find(name)
        start = self._start(info)
        if self._mapped is not None:
            return np.frombuffer(self._mapped[start : start + info.file_size], np.uint8)
        content = np.empty(info.file_size, np.uint8)
        self._file.seek(start)
        done = fill(self._file, content)
        if done < len(content):
            _refuse(f"record {name!r} ends after {done} of {len(content)} bytes")
        # PyTorch writes 0 if set_crc32_options(False) was called.
        if info.CRC and zlib.crc32(content.data) != info.CRC:
            _refuse(f"record {name!r} does not match its checksum: the file is damaged")
        return content

    def _find(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._records[name]
        except KeyError:
            _refuse(f"file not found: record {name!r} is not in the archive")

    def _start(self, info: zipfile.ZipInfo) -> int:
        """The start of the content, after the local header, whose name and extra field vary in length."""
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
            _refuse(f"record {info.filename!r} has no header where the directory says")
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        start = info.header_offset + _LOCAL.size + name_length + extra_length
        if start + info.file_size > self._zip.start_dir:
            _refuse(f"record {info.filename!r} reaches past the end of the archive")
        return start


def native_byte_order(archive: ArchiveReader) -> bool:
    """Whether the numbers of the archive have this machine's byte order; files without the record are little-endian,
    or what `set_default_load_endianness` says.
    """
    if "byteorder" in archive:
        order = archive.read("byteorder")
    else:
        from rushlight.serialization.options import LoadEndianness, get_default_load_endianness

        default = get_default_load_endianness() or LoadEndianness.LITTLE
        order = (
            sys.byteorder if default is LoadEndianness.NATIVE else default.name.lower()
        ).encode()
    if order not in (b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {order[:20]!r}, expected b'little' or b'big'")
    return order.decode() == sys.byteorder


def fill(file: BinaryIO, content: np.ndarray) -> int:
    """Read a file into an array of bytes; how many there were."""
    view = content.data
    read_into = getattr(file, "readinto", None)
    done = 0
    while done < len(view):
        if read_into is not None:
            got = read_into(view[done:])
        else:
            piece = file.read(len(view) - done)
            got = len(piece)
            view[done : done + got] = piece
        if not got:
            break
        done += got
    return done


def _refuse(why: str) -> NoReturn:
    raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {why}")
