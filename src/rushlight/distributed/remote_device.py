"""A device of a process of the job, as text: "rank:0/cpu"."""

from __future__ import annotations

from typing import Any

from rushlight.core.device import device as Device

__all__ = ["_remote_device"]


class _remote_device:
    """A device of a process: "rank:<rank>/<device>", "<worker>/<device>", or "<device>" of this one."""

    def __init__(self, remote_device: Any) -> None:
        if not isinstance(remote_device, str | Device):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        fields = str(remote_device).split("/")
        owner, device = fields if len(fields) == 2 else (fields[0], "cpu")
        if len(fields) == 1 and _is_device(owner):
            owner, device = "", owner
        elif not owner or len(fields) > 2:
            raise self._unreadable(remote_device)
        self._rank: int | None = None
        self._worker_name: str | None = owner or None
        if owner.startswith("rank:"):
            if not owner[5:].isdigit():
                raise self._unreadable(remote_device)
            self._rank, self._worker_name = int(owner[5:]), None
        self._device = Device(device)

    @staticmethod
    def _unreadable(text: Any) -> ValueError:
        return ValueError(
            f"Could not parse remote_device: {text}. The valid format is '<workername>/<device>' or "
            "'rank:<rank>/<device>' or '<device>'"
        )

    def rank(self) -> int | None:
        """The rank of the process, if that is what it was named by."""
        return self._rank

    def worker_name(self) -> str | None:
        """The name of the process, if that is what it was named by."""
        return self._worker_name

    def device(self) -> Any:
        """Its device."""
        return self._device

    def __repr__(self) -> str:
        if self._rank is not None:
            return f"rank:{self._rank}/{self._device}"
        return f"{self._worker_name}/{self._device}" if self._worker_name else str(self._device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _is_device(text: str) -> bool:
    try:
        Device(text)
    except RuntimeError:
        return False
    return True
