"""Whether another process of this machine still runs: what processes write down who meet in a file, where no server sees them."""

from __future__ import annotations

import os
import platform

__all__ = ["ended", "sign"]


def _machine() -> str:
    """This machine since it started, and where process numbers mean the same (a container has its own)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def _started(process: int) -> str | None:
    """When a process started, as the system counts; None if it has ended. Where the system does not say: ""."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
        return None if state in "ZX" else fields[18]  # nobody has asked yet how it ended
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # it belongs to somebody else
    return ""


def sign() -> str:
    """What names this process, and no later one with its number."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())}"


def ended(sign: str) -> bool:
    """Whether the process of a sign has ended. False if it is on another machine, of which nothing is known."""
    machine, number, *started = sign.split(" ")
    if machine != _machine():
        return False
    return _started(int(number)) not in ("", *started)
