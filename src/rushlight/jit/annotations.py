"""`torch.jit.annotations`: the names of types, for annotations."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 -- the names programs import

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional", "Tuple", "Union"]  # fmt: skip


class _BroadcastingList:
    """`BroadcastingList2[int]`: one number or two."""

    def __getitem__(self, kind: Any) -> None:
        return


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
