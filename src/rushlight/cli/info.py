"""Say what Rushlight runs on: processor, BLAS, threads, caches, optional packages.

examples:
  rushlight info
  rushlight info --json"""

from __future__ import annotations

import argparse
import glob
import platform
from collections.abc import Iterator
from typing import Any

from rushlight.cli import show

_EXTRAS = (
    "llvmlite",
    "scipy",
    "safetensors",
    "PIL",
    "matplotlib",
    "tqdm",
    "tensorboard",
    "cupy",
    "fast_sugiyama",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def facts() -> dict[str, Any]:
    """What stands in a report: versions, processor, libraries."""
    import ml_dtypes
    import numpy as np

    import rushlight
    from rushlight.utils.collect_env import blas, cpu

    return {
        "rushlight": rushlight.version.release,
        "API of PyTorch": rushlight.version.API,
        "Python": f"{platform.python_version()} {platform.python_implementation()}",
        "platform": platform.platform(),
        "CPU": f"{cpu()}, {rushlight.backends.cpu.get_cpu_capability()}",
        "NumPy": np.__version__,
        "BLAS": blas(),
        "threads": rushlight.get_num_threads(),
        "caches": dict(_caches()),
        "ml_dtypes": ml_dtypes.__version__,
        "extras": dict(_extras()),
    }


def main(options: argparse.Namespace) -> None:
    found = facts()
    if options.json:
        show(found)
        return
    width = max(map(len, found))
    for name, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}".strip() for k, v in value.items()) or "none"
        print(f"{name:<{width}}  {value}")


def _caches() -> Iterator[tuple[str, str]]:
    """The sizes of one core's caches: ("L1d", "32K"), ("L1i", "32K"), ("L2", "1024K"), ("L3", "36608K")."""
    letters = {"Data": "d", "Instruction": "i"}
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        try:
            level, kind, size = (_line(f"{folder}/{name}") for name in ("level", "type", "size"))
        except OSError:
            continue
        yield f"L{level}{letters.get(kind, '')}", size


def _line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def _extras() -> Iterator[tuple[str, str]]:
    from importlib import metadata, util

    names = {"PIL": "pillow", "fast_sugiyama": "fast-sugiyama"}
    for name in _EXTRAS:
        if util.find_spec(name) is not None:
            try:
                found = metadata.version(names.get(name, name))
            except metadata.PackageNotFoundError:
                found = ""
            yield names.get(name, name), found
