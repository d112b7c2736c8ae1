"""Where batches are loaded by workers.

For now the workers' batches are loaded in this process, in the order in which workers would deliver
them. What a worker needs is behind two seams: `DataLoader._fetcher()` makes the function that loads
one batch, and `_BaseDataLoaderIter._next_data()` is all that an iterator over workers has to define.
"""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.dataloader import _BaseDataLoaderIter

# What `get_worker_info()` returns: set in a worker only.
info: Any = None


class WorkerIterator(_BaseDataLoaderIter):
    """The batches of a loader with `num_workers > 0`."""

    def _reset(self, loader: Any) -> None:
        super()._reset(loader)
        self._fetch = loader._fetcher()

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))
