"""`torch.distributed.elastic.utils.data`: a sampler and an iterator that go on in the middle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import rushlight
from rushlight.utils.data import DistributedSampler

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]


class CyclingIterator:
    """The items of `generator_fn(epoch)` for the epochs from `start_epoch` to `n`.

    >>> from rushlight.distributed.elastic.data import CyclingIterator
    >>> list(CyclingIterator(3, lambda epoch: iter([epoch, 10 * epoch]), 1))
    [1, 10, 2, 20]
    """

    def __init__(
        self, n: int, generator_fn: Callable[[int], Iterator], start_epoch: int = 0
    ) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self) -> CyclingIterator:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
            self._epoch += 1
            self._iter = self._generator_fn(self._epoch)


class ElasticDistributedSampler(DistributedSampler):
    """A `DistributedSampler` of what is left of a dataset from `start_index` on.

    >>> from rushlight.distributed.elastic.data import ElasticDistributedSampler
    >>> sorted(ElasticDistributedSampler(range(9), num_replicas=1, rank=0, start_index=6))
    [6, 7, 8]
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0
    ) -> None:  # fmt: skip
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        if start_index >= len(dataset):
            raise ValueError(
                f"Start index {start_index} should be less than dataset size {len(dataset)}"
            )
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        drawn = rushlight.Generator()
        drawn.manual_seed(self.epoch)
        left = len(self.dataset) - self.start_index
        indices = (rushlight.randperm(left, generator=drawn) + self.start_index).tolist()
        indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])
