"""The handle that every `register_*hook` returns."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["RemovableHandle"]


class RemovableHandle:
    """Takes one hook out of its table again, by `remove()` or at the end of a `with`.

    `hooks` is the table the hook goes into, under `handle.id`; `extra_dict` one more table, or a
    list of them, that may hold something under the same id. The tables are held weakly, so that a
    forgotten handle keeps no module alive.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict] * bool(extra_dict)
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        from collections import OrderedDict

        # A table that is gone is replaced by an empty one that nobody looks at.
        alive = [OrderedDict() if table is None else table for table in (state[0], *state[2])]
        self.hooks_dict_ref, *extra = (weakref.ref(table) for table in alive)
        self.extra_dict_ref = tuple(extra)
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
