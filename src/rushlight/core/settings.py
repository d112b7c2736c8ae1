"""Switches of a whole process that scripts set: threads, determinism, precision, warnings.

Every computation here is deterministic and in full precision, so most of them only remember what
they were told.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rushlight.core.stub import stub

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]


class _Settings:
    threads: int | None = None  # None: nobody has asked yet
    watchers: list[Callable[[int], None]] = []
    interop_threads: int | None = None
    deterministic = False
    warn_only = False
    precision = "highest"
    warn_always = False
    warned: set[str] = set()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads one operation may use: OMP_NUM_THREADS, or the cores that may be used."""
    if _Settings.threads is None:
        first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        _Settings.threads = int(first) if first.isdecimal() and int(first) else _cores()
    return _Settings.threads


def set_num_threads(n: int, /) -> None:
    """Let one operation use `n` threads at most. RuntimeError for `n` below 1."""
    _Settings.threads = _positive("set_num_threads", n)
    for tell in _Settings.watchers:
        tell(n)


def watch_num_threads(tell: Callable[[int], None]) -> None:
    """Call `tell` with every number of threads that is set from now on."""
    _Settings.watchers.append(tell)


def get_num_interop_threads() -> int:
    """Accepted for PyTorch's sake: operations run one after the other."""
    return _Settings.interop_threads or _cores()


@stub("no-op", "Operations run one after the other.")
def set_num_interop_threads(n: int, /) -> None:
    """Accepted for PyTorch's sake: operations run one after the other."""
    _Settings.interop_threads = _positive("set_num_interop_threads", n)


def _positive(name: str, n: object) -> int:
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"{name} expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"{name} expects a positive integer, got {n}")
    return n


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms: all of them are."""
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they were asked for with `warn_only`."""
    return _Settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error"."""
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0: not asked for, 1: warn, 2: error."""
    if not _Settings.deterministic:
        return 0
    return 1 if _Settings.warn_only else 2


def get_float32_matmul_precision() -> str:
    """What was set; products of float32 matrices are computed in float32 whatever it is."""
    return _Settings.precision


@stub("no-op", "Products of float32 matrices are computed in float32.")
def set_float32_matmul_precision(precision: str) -> None:
    """ "highest", "high" or "medium": the least precision asked for, which is always exceeded."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"setFloat32MatmulPrecision: expected highest, high or medium, got {precision!r}"
        )
    _Settings.precision = precision


def set_flush_denormal(mode: bool, /) -> bool:
    """Take denormal numbers for zero in this thread, and in what it computes on others.

    True where that can be set, which needs llvmlite and a processor that knows how to.

    >>> import rushlight as torch
    >>> tiny = torch.tensor([1e-323], dtype=torch.float64)
    >>> torch.set_flush_denormal(True), (tiny + 0).item()
    (True, 0.0)
    >>> torch.set_flush_denormal(False), (tiny + 0).item()
    (True, 1e-323)
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    from rushlight._codegen.runtime import threads

    return threads.flush_denormal(mode)


def set_warn_always(b: bool, /) -> None:
    """Give warnings that come once in a process each time."""
    _Settings.warn_always = bool(b)


def warn_once(text: str, stacklevel: int) -> None:
    """Give a UserWarning, the first time only; each time after `set_warn_always(True)`.

    `stacklevel` counts as that of `warnings.warn`, from the caller of this function.
    """
    if text not in _Settings.warned or _Settings.warn_always:
        import warnings

        _Settings.warned.add(text)
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told."""
    return _Settings.warn_always
