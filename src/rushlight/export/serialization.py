"""`save` and `load`: files of exported programs, in PyTorch's format. Nothing in one is executed."""

from __future__ import annotations

import os
import zipfile
from typing import Any

from rushlight.export import archives, writing
from rushlight.export.exported_program import ExportedProgram
from rushlight.serialization.archive import ArchiveReader
from rushlight.serialization.saving import save_path

__all__ = ["load", "save"]


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program to a file (a path or a file object), by custom with the ending `.pt2`; PyTorch 2.13 reads it, too.

    `opset_version` and `pickle_protocol` are accepted and have no effect.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )

    def write(program: ExportedProgram, file: Any, folder: str) -> None:
        writing.write(program, file, folder, extra_files)

    if isinstance(f, str | os.PathLike):
        save_path(ep, os.fspath(f), write)
    else:
        write(ep, f, "archive")


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program that `save` wrote, here or in PyTorch 2.13. RuntimeError for a file that is none.

    `expected_opset_version` is accepted and has no effect.
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return load(file, extra_files=extra_files)
    if zipfile.is_zipfile(f):
        archive = ArchiveReader(f)
        if archives.is_archive(archive):
            return archives.read(archive, extra_files)
    raise RuntimeError("this file holds no exported program")
