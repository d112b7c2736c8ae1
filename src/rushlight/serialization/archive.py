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
_LOCAL_HEADER = 30  # bytes before the name (zip format, APPNOTE.TXT 4.3.7)
_PADDING = b"FB"  # the name of the extra field that holds the padding


class ArchiveWriter:
    """Writes records to `file` (anything with `write`); `close()` completes the archive.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> with ArchiveWriter(buffer, "model") as archive:
    ...     archive.write("version", b"3\\n")
    >>> ArchiveReader(buffer).read("version")
    b'3\\n'
    """

    def __init__(self, file: Any, folder: str) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._folder = folder
        self._checksum = 0

    def write(self, name: str, content: bytes | np.ndarray) -> None:
        """Add the record `name`; an array must be contiguous bytes (uint8)."""
        info = zipfile.ZipInfo(f"{self._folder}/{name}")  # dated 1980: same content, same file
        info.file_size = len(content)
        info.flag_bits |= 0x800  # the name is UTF-8
        start = self._zip.fp.tell() + _LOCAL_HEADER + len(info.filename.encode())  # type: ignore[union-attr]
        if info.file_size * 1.05 > zipfile.ZIP64_LIMIT:
            start += 20  # zipfile adds a field with 64-bit sizes under this condition
        padding = -(start + 4) % ALIGNMENT
        info.extra = _PADDING + struct.pack("<H", padding) + b"Z" * padding
        with self._zip.open(info, "w") as record:
            record.write(content if isinstance(content, bytes) else content.data)
        self._checksum = zlib.crc32(f"{name} {info.CRC}".encode(), self._checksum)

    def close(self) -> None:
        self.write(".data/serialization_id", f"{self._checksum:040d}".encode())
        self._zip.close()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.close()
        else:
            self._zip.fp = (
                None  # closing would write the directory: a torn file must not look whole
            )


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
        _fill(self._file, content, name)
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
        header = self._file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\3\4":
            _refuse(f"record {info.filename!r} has no header where the directory says")
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        start = info.header_offset + _LOCAL_HEADER + name_length + extra_length
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


def _fill(file: BinaryIO, content: np.ndarray, name: str) -> None:
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
            _refuse(f"record {name!r} ends after {done} of {len(view)} bytes")
        done += got


def _refuse(why: str) -> NoReturn:
    raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {why}")
