"""Samplers: in which order samples are taken, with PyTorch's draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rushlight

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip

T_co = TypeVar("T_co", covariant=True)


def _check_count(num_samples: Any) -> None:
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(
            f"num_samples should be a positive integer value, but got num_samples={num_samples}"
        )


class Sampler(Generic[T_co]):
    """Yields indices (or lists of them): a subclass defines `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order; with `replacement` each drawn from all.

    `num_samples` beyond the data set's length goes through it again, in another order. Without a
    generator each iteration takes a seed from the default one.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices of one iteration; by default the current number of samples."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = rushlight.Generator()
            generator.manual_seed(draw_seed(None))
        if self.replacement:
            # In blocks of 32, as PyTorch draws them.
            for start in range(0, self.num_samples, 32):
                count = min(32, self.num_samples - start)
                drawn = rushlight.randint(
                    high=size, size=(count,), dtype=rushlight.int64, generator=generator
                )
                yield from drawn.tolist()
            if self.num_samples % 32 == 0:
                rushlight.randint(high=size, size=(0,), dtype=rushlight.int64, generator=generator)
        else:
            for _ in range(self.num_samples // size):
                yield from rushlight.randperm(size, generator=generator).tolist()
            # Drawn even where nothing of it is used: the generator goes on as PyTorch's does.
            rest = rushlight.randperm(size, generator=generator).tolist()
            yield from rest[: self.num_samples % size]

    def __len__(self) -> int:
        return self.num_samples


def draw_seed(generator: Any) -> int:
    """A seed drawn from a generator, the default one where it is None."""
    return int(rushlight.empty((), dtype=rushlight.int64).random_(generator=generator).item())


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = rushlight.randperm(len(self.indices), generator=self.generator).tolist()
        for i in order:
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities (weights that need not sum to 1)."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = rushlight.as_tensor(weights, dtype=rushlight.double)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = rushlight.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from another sampler, the last shorter unless dropped.

    >>> list(BatchSampler(SequentialSampler(range(10)), batch_size=4, drop_last=False))
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
