"""Process-wide settings: threads, determinism, precision, warnings.

Every computation is deterministic and in full precision, so most settings are stored and have no effect.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

from rushlight.core.stub import stub

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip


_OWN = (os.path.dirname(os.path.dirname(__file__)) + os.sep, "<rushlight ")


class _Settings:
    threads: int | None = None  # None: not read yet
    listeners: list[Callable[[int], None]] = []
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
    """Set how many threads one operation may use. RuntimeError for `n` below 1."""
    _Settings.threads = _positive("set_num_threads", n)
    for listener in _Settings.listeners:
        listener(n)


def watch_num_threads(listener: Callable[[int], None]) -> None:
    """Call `listener(n)` each time the number of threads is set."""
    _Settings.listeners.append(listener)


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
    """Store the request for deterministic algorithms. All are, but what PyTorch refuses is refused too."""
    for what, value in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument {what} must be bool, not "
                f"{type(value).__name__}"
            )
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


def alert_not_deterministic(name: str) -> None:
    """RuntimeError, or a warning, for what PyTorch does not compute deterministically, if that was asked for."""
    if not _Settings.deterministic:
        return
    text = (
        f"{name} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True{})'. "
    )
    if not _Settings.warn_only:
        raise RuntimeError(
            text.format("")
            + "You can turn off determinism just for this operation, or you can use the "
            "'warn_only=True' option, if that's acceptable for your application."
        )
    warn(text.format(", warn_only=True"))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether deterministic algorithms were asked for with `warn_only`."""
    return _Settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the mode: 0 or "default", 1 or "warn", 2 or "error"."""
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
    """The mode: 0 (default), 1 (warn) or 2 (error)."""
    if not _Settings.deterministic:
        return 0
    return 1 if _Settings.warn_only else 2


def get_float32_matmul_precision() -> str:
    """The precision that was set; products of float32 matrices are always computed in float32."""
    return _Settings.precision


@stub("no-op", "Products of float32 matrices are computed in float32.")
def set_float32_matmul_precision(precision: str) -> None:
    """Store the precision "highest", "high" or "medium"; products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"setFloat32MatmulPrecision: expected highest, high or medium, got {precision!r}"
        )
    _Settings.precision = precision


def set_flush_denormal(mode: bool, /) -> bool:
    """Treat denormal numbers as zero in this thread and in the threads that work for it.

    Returns True if this is supported: it needs llvmlite and a processor with this mode.

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
    """Repeat the warnings that are otherwise given once in a process."""
    _Settings.warn_always = bool(b)


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Give a warning at the line that called this package, however many functions of it, or printed by it, stand between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


def warn_once(text: str) -> None:
    """Give a UserWarning the first time only, or each time after `set_warn_always(True)`."""
    if text not in _Settings.warned or _Settings.warn_always:
        _Settings.warned.add(text)
        warn(text)


def is_warn_always_enabled() -> bool:
    """The value that `set_warn_always` stored."""
    return _Settings.warn_always
