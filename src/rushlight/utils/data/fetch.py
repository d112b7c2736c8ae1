"""Fetching: from indices to a batch. Runs where the data is: in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from rushlight.utils.data.collate import default_collate
from rushlight.utils.data.dataset import TensorDataset

__all__ = ["make_fetcher"]


def make_fetcher(
    dataset: Any, iterable: bool, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
) -> Callable[[Any], Any]:
    """The function from a sampler's item to a batch; StopIteration at the data's end.

    `iterable`: the items only say how many samples to take next. `batched`: an item is a list.
    """
    if iterable:
        return _from_iterator(iter(dataset), batched, collate_fn, drop_last)
    if not batched:
        return lambda index: collate_fn(dataset[index])
    if type(dataset) is TensorDataset and collate_fn is default_collate:
        # The samples stacked are the rows taken at once.
        return lambda indices: [
            tensor[list(indices) if indices.__class__ is tuple else indices]
            for tensor in dataset.tensors
        ]
    if callable(getattr(dataset, "__getitems__", None)):
        return lambda indices: collate_fn(dataset.__getitems__(indices))
    return lambda indices: collate_fn([dataset[index] for index in indices])


def _from_iterator(
    samples: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
) -> Callable[[Any], Any]:
    def fetch(item: Any) -> Any:
        if not batched:
            return collate_fn(next(samples))
        batch = list(islice(samples, len(item)))
        if not batch or (drop_last and len(batch) < len(item)):
            raise StopIteration
        return collate_fn(batch)

    return fetch
