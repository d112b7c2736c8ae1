"""The loader with workers against PyTorch's: order, seeds, and the state of the generators after it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.utils.data

import rushlight
import rushlight.utils.data

BOTH = [torch, rushlight]

# PyTorch counts the processors, and advises.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def draws(lib):
    """A data set of what a worker draws, as plain numbers."""
    data = lib.utils.data

    class Draws(data.Dataset):
        def __len__(self):
            return 7

        def __getitem__(self, i):
            info = data.get_worker_info()
            return (
                (i, info and info.id, info and info.seed, info and lib.initial_seed())
                + (lib.rand(1).item(), lib.randint(100, (1,)).item())
                + ((np.random.randint(1 << 30), random.random()) if info else ())
            )

    return Draws()


def epochs(lib, n=2, **options):
    lib.manual_seed(11)
    if options.pop("own", False):
        options["generator"] = lib.Generator().manual_seed(5)
    loader = lib.utils.data.DataLoader(draws(lib), collate_fn=list, **options)
    seen = []
    for _ in range(n):
        for batch in loader:
            seen.append(batch)
        seen.append(lib.rand(1).item())
        if "generator" in options:
            seen.append(lib.rand(1, generator=options["generator"]).item())
    return seen


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_order_and_seeds(workers, persistent, own, shuffle):
    options = {"num_workers": workers, "own": own, "shuffle": shuffle, "batch_size": 2}
    if workers:
        options["persistent_workers"] = persistent
    want, got = (epochs(lib, **options) for lib in BOTH)
    assert got == want


def test_draws_between_batches():
    # The sampler draws when tasks are given out, which is before, between and after the batches.
    class Lazy:
        def __init__(self, lib):
            self.lib = lib

        def __iter__(self):
            for _ in range(12):
                yield [self.lib.randint(7, (1,)).item()]

    def run(lib):
        lib.manual_seed(2)
        loader = lib.utils.data.DataLoader(
            draws(lib), batch_sampler=Lazy(lib), num_workers=2, prefetch_factor=3, collate_fn=list
        )
        return [(batch, lib.rand(1).item()) for batch in loader]

    want, got = map(run, BOTH)
    assert got == want


def test_persistent_workers_after_a_break():
    def run(lib):
        lib.manual_seed(4)
        loader = lib.utils.data.DataLoader(
            draws(lib), 1, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=list
        )
        seen = [next(iter(loader))]
        return [*seen, *loader, lib.rand(1).item()]

    want, got = map(run, BOTH)
    assert got == want


@pytest.mark.parametrize("batch_size", [None, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_iterable(batch_size, drop_last, persistent):
    if batch_size is None and drop_last:
        pytest.skip("not allowed")

    def run(lib):
        data = lib.utils.data

        class Stream(data.IterableDataset):
            def __iter__(self):
                worker = data.get_worker_info().id
                for i in range([5, 0, 8][worker]):
                    yield (worker, i, lib.rand(1).item())

        lib.manual_seed(4)
        loader = data.DataLoader(
            Stream(),
            batch_size,
            drop_last=drop_last,
            num_workers=3,
            persistent_workers=persistent,
            collate_fn=list,
        )
        return [list(loader), list(loader)]

    want, got = map(run, BOTH)
    assert got == want


@pytest.mark.parametrize("error", [ValueError, KeyError, StopIteration, OSError])
def test_errors(error):
    def run(lib):
        class Bad(lib.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                if i == 2:
                    raise error("bad")
                return i

        it = iter(lib.utils.data.DataLoader(Bad(), None, num_workers=2))
        assert [int(next(it)), int(next(it))] == [0, 1]
        try:
            next(it)
        except BaseException as caught:
            text = str(caught)
            return type(caught), text.splitlines()[:2], text.splitlines()[-2:], int(next(it))

    want, got = map(run, BOTH)
    assert got == want


def test_worker_info_repr():
    def run(lib):
        class Info(lib.utils.data.Dataset):
            def __len__(self):
                return 1

            def __getitem__(self, i):
                return repr(lib.utils.data.get_worker_info())

            def __repr__(self):
                return "Info()"

        lib.manual_seed(1)
        return list(lib.utils.data.DataLoader(Info(), None, num_workers=1))

    want, got = map(run, BOTH)
    assert got == want


def test_same_bytes_and_strides_arrive():
    def run(lib):
        class Things(lib.utils.data.Dataset):
            def __len__(self):
                return 1

            def __getitem__(self, i):
                x = lib.arange(24.0).reshape(1, 2, 3, 4)
                return [
                    x.transpose(1, 3),
                    x.contiguous(memory_format=lib.channels_last),
                    lib.ones(3, 1).expand(3, 4),
                    lib.tensor(1),
                    lib.ones(0, 3),
                    lib.ones(2, requires_grad=True),
                ]

        (got,) = lib.utils.data.DataLoader(Things(), None, num_workers=1, collate_fn=tuple)
        return [
            (t.tolist(), tuple(t.shape), t.stride(), t.is_shared(), t.requires_grad) for t in got
        ]

    want, got = map(run, BOTH)
    assert [row[:3] for row in got] == [row[:3] for row in want]
    assert [row[4] for row in got] == [row[4] for row in want]
