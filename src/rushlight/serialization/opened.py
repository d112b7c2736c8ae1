"""Files opened for reading and writing, as PyTorch's `torch.serialization` has them: blocks that close what they opened."""

from __future__ import annotations

import os
from typing import Any

import rushlight

__all__ = [
    "_is_path", "_is_zipfile", "_open_file_like", "_open_zipfile_reader", "_open_zipfile_writer",
]  # fmt: skip


class _opener:
    """A block with a file-like object; `close` closes it."""

    def __init__(self, file_like: Any) -> None:
        self.file_like = file_like

    def close(self) -> None:
        """Nothing: whoever opened it closes it."""

    def __enter__(self) -> Any:
        return self.file_like

    def __exit__(self, *exception: object) -> None:
        self.close()


class _open_file(_opener):
    def close(self) -> None:
        self.file_like.close()


class _open_zipfile_reader(_opener):
    """A block with a `PyTorchFileReader`."""

    def __init__(self, name_or_buffer: Any) -> None:
        super().__init__(rushlight._C.PyTorchFileReader(name_or_buffer))


class _open_zipfile_writer(_opener):
    """A block with a `PyTorchFileWriter`; at its end the file is complete."""

    def __init__(self, name_or_buffer: Any) -> None:
        if not _is_path(name_or_buffer) and not callable(getattr(name_or_buffer, "write", None)):
            kind = type(name_or_buffer).__name__
            raise AttributeError(f"Buffer of class '{kind}' has no callable attribute 'write'")
        super().__init__(rushlight._C.PyTorchFileWriter(name_or_buffer))

    def close(self) -> None:
        self.file_like.write_end_of_file()


def _is_path(name_or_buffer: Any) -> bool:
    """Whether it names a file."""
    return isinstance(name_or_buffer, (str, os.PathLike))


def _open_file_like(name_or_buffer: Any, mode: str) -> _opener:
    """A block with the file of that name, or with the buffer, which stays open."""
    if _is_path(name_or_buffer):
        return _open_file(open(name_or_buffer, mode))
    return _opener(name_or_buffer)


def _is_zipfile(f: Any) -> bool:
    """Whether the next bytes of a file begin a zip archive; the position stays."""
    start = f.tell()
    found = f.read(4)
    f.seek(start)
    return found == b"PK\3\4"
