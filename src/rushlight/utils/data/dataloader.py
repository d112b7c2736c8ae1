"""DataLoader: batches of a data set, in an order, from this process or from workers."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from rushlight.autograd.state import active
from rushlight.core.device import current_accelerator
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.fetch import make_fetcher
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
_collate_fn_t = Callable[[list[T]], Any]
_worker_init_fn_t = Callable[[int], None]


def get_worker_info() -> Any:
    """In a worker its id, seed, data set and the number of workers; elsewhere None."""
    from rushlight.utils.data import worker

    return worker.get_worker_info()


class _InfiniteConstantSampler(Sampler):
    """Yields None forever: the indices for an iterable data set."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool, method: str
) -> None:
    """ValueError where the options of a loader about workers contradict each other."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
            "None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if method not in ("process", "thread"):
        raise ValueError(f"worker_method should be 'process' or 'thread', but got {method!r}")


def check_order(
    iterable: bool,
    batch_size: int | None,
    shuffle: Any,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    """ValueError where what says the order and the batches of a loader does not go together."""
    if iterable:
        given = {"sampler": sampler, "batch_sampler": batch_sampler}
        if shuffle:
            given = {"shuffle": shuffle}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                    f"got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                "and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


class _DatasetKind:
    """What a data set is read by, as libraries ask: 0 by indices, 1 by going through it."""

    Map = 0
    Iterable = 1


class DataLoader(Generic[T_co]):
    """Iterates over a data set in batches.

    `dataset`: anything with `__getitem__` and `__len__`, or an IterableDataset. Order and batches
    come from `shuffle`, or a `sampler` of indices, or a `batch_sampler` of lists of indices;
    `batch_size=None` yields samples as they are. `collate_fn` makes a batch of a list of samples.
    With `generator`, orders and worker seeds are drawn from it.

    `num_workers` processes (or threads, `worker_method="thread"`) load ahead, `prefetch_factor`
    batches each. RuntimeError if a batch takes longer than `timeout` seconds. With
    `persistent_workers` the workers stay between epochs; `in_order=False` yields batches as they
    become ready. Each worker process has its own seeds for `random`, NumPy and Rushlight, and calls
    `worker_init_fn(worker_id)` first; threads share the process's generators and find generators of
    their own in `get_worker_info().rng`. Processes send batches in shared memory (Note [Blocks of
    shared memory] in shared.py). An exception in a worker is raised here again, with the worker's
    traceback; a killed worker raises RuntimeError. Dropping the iterator stops the workers.

    >>> import rushlight as torch
    >>> for batch in torch.utils.data.DataLoader([1.0, 2.0, 3.0], batch_size=2):
    ...     print(batch)
    tensor([1., 2.], dtype=torch.float64)
    tensor([3.], dtype=torch.float64)
    """

    _iterator: Any = None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_method: str = "process",
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_method)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.worker_method = worker_method
        self._iterable = isinstance(dataset, IterableDataset)

        check_order(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            if self._iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._length: int | None = None
        self.__initialized = True
        self.check_worker_number_rationality()

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than this process has processors."""
        most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.worker_method == "process" and self.num_workers > (most or 0):
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested "
                f"max number of worker in current system is {most}, which is smaller than what this "
                "DataLoader is going to create. Please be aware that excessive worker creation might get "
                "DataLoader running slow or even freeze, lower the worker number to avoid potential "
                "slowness/freeze if necessary.",
                stacklevel=3,
            )

    _FIXED = frozenset(
        ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    )

    def __setattr__(self, name: str, value: Any) -> None:
        # The samplers are made from these settings: a later change would have no effect.
        if self.__initialized and name in self._FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The `multiprocessing` context that starts the workers, or None for the default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            import multiprocessing

            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self._context = context

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if self._iterable else _DatasetKind.Map

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """The sampler of what one fetch needs: lists of indices, or single indices."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        # The data set may be wrong about its length: iteration warns when it yields more.
        length = self._length = len(self.dataset)
        if self.batch_size is not None:
            if self.drop_last:
                return length // self.batch_size
            return math.ceil(length / self.batch_size)
        return length

    def __iter__(self) -> Any:
        if self.persistent_workers and self.num_workers > 0:
            if self._iterator is None:
                self._iterator = self._get_iterator()
            else:
                self._iterator._reset(self)
            return self._iterator
        return self._get_iterator()

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        from rushlight.utils.data.parallel import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter(self)

    def _fetcher(self) -> Callable[[Any], Any]:
        return make_fetcher(
            self.dataset, self._iterable, self._auto_collation, self.collate_fn, self.drop_last
        )


class _BaseDataLoaderIter:
    """One pass over a loader; subclasses define how the next batch is fetched."""

    def __init__(self, loader: DataLoader) -> None:
        # The iterator does not reference the loader: a loader with persistent workers references its
        # iterator, and in a cycle the workers would live until the garbage collector runs.
        if loader.pin_memory and current_accelerator() is None:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=4,
            )
        self._begin_epoch(loader)
        # Drawn before the sampler draws, and also when there are no workers: the seeds that a script
        # sees later depend on it. Workers that stay keep theirs.
        self._base_seed = draw_seed(loader.generator)

    def _begin_epoch(self, loader: DataLoader) -> None:
        self._index_sampler = loader._index_sampler
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._promised = loader._length
        self._batches = 0 if self._promised is None else len(loader)
        self._dataset, self._num_workers = loader.dataset, loader.num_workers

    def __iter__(self) -> Any:
        return self

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if active.modes:
            from rushlight.autograd.profiler import record_function

            with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
                data = self._next_data()
        else:
            data = self._next_data()
        self._num_yielded += 1
        if self._promised is not None and self._num_yielded > self._batches:
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {self._promised} "
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been "
                "fetched. "
            )
            if self._num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly "
                    "configuring the IterableDataset replica at each worker. Please see "
                    "get_worker_info for how to divide the data among workers."
                )
            warnings.warn(message, stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches each batch in this process when it is requested."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError(
                "_SingleProcessDataLoaderIter requires timeout == 0: only workers can be late"
            )
        self._fetch = loader._fetcher()

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


def __getattr__(name: str) -> Any:
    if (
        name == "_MultiProcessingDataLoaderIter"
    ):  # for isinstance; loaded with the workers' code only
        from rushlight.utils.data.parallel import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
