"""Imports without Python's cycle collector: they make tens of thousands of objects that stay, and no garbage.

>>> import gc
>>> with paused():
...     gc.isenabled()
False
>>> gc.isenabled()
True
"""

from __future__ import annotations

import gc


class paused:
    """A `with` block in which the collector waits. What was made meanwhile counts as old afterwards: it is looked at in
    full collections only. Nothing changes where the collector is off already."""

    __slots__ = ("_enabled",)

    def __enter__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        if self._enabled:
            if not gc.get_freeze_count():  # what a program froze stays frozen
                gc.freeze()
                gc.unfreeze()  # both only link lists: all objects are of the oldest generation now
            gc.enable()
