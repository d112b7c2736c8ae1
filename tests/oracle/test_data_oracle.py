"""Data loading against PyTorch: the same order for the same seed, the same state afterwards."""

from __future__ import annotations

import pytest
import torch
import torch.utils.data

import rushlight
import rushlight.utils.data

TEN = list(range(10))
LOADERS = {
    "shuffle": lambda d, g: d.DataLoader(TEN, 3, shuffle=True, generator=g),
    "in order": lambda d, g: d.DataLoader(TEN, 3, generator=g),
    "replacement": lambda d, g: d.DataLoader(
        TEN, sampler=d.RandomSampler(TEN, replacement=True, num_samples=45, generator=g)
    ),
    "replacement, whole blocks": lambda d, g: d.DataLoader(
        TEN, sampler=d.RandomSampler(TEN, replacement=True, num_samples=64, generator=g)
    ),
    "twice and a half": lambda d, g: d.DataLoader(
        TEN, sampler=d.RandomSampler(TEN, num_samples=25, generator=g)
    ),
    "exactly twice": lambda d, g: d.DataLoader(
        TEN, sampler=d.RandomSampler(TEN, num_samples=20, generator=g)
    ),
    "weighted": lambda d, g: d.DataLoader(
        TEN, sampler=d.WeightedRandomSampler([1.0, 2.0, 3.0], 20, generator=g)
    ),
    "weighted, each once": lambda d, g: d.DataLoader(
        TEN, sampler=d.WeightedRandomSampler([1.0, 2.0, 3.0] * 3, 5, False, generator=g)
    ),
    "subset": lambda d, g: d.DataLoader(
        TEN, sampler=d.SubsetRandomSampler([3, 4, 5, 8], generator=g)
    ),
}


@pytest.mark.parametrize("own_generator", [False, True])
@pytest.mark.parametrize("name", LOADERS)
def test_order_and_state(name, own_generator):
    def run(t):
        t.manual_seed(5)
        generator = t.Generator().manual_seed(7) if own_generator else None
        loader = LOADERS[name](t.utils.data, generator)
        batches = [[batch.tolist() for batch in loader] for _ in range(2)]
        after = t.randint(1000, (3,)).tolist()
        if generator is not None:
            after += t.randint(1000, (3,), generator=generator).tolist()
        return batches, after

    assert run(rushlight) == run(torch)


def test_leaving_early_leaves_the_same_state():
    def run(t):
        t.manual_seed(5)
        first = next(iter(t.utils.data.DataLoader(TEN, shuffle=True)))
        return first.tolist(), t.randint(1000, (3,)).tolist()

    assert run(rushlight) == run(torch)


@pytest.mark.parametrize("lengths", [[3, 7], [0.33, 0.33, 0.34], [0.5, 0.25, 0.25]])
def test_random_split(lengths):
    def run(t):
        t.manual_seed(2)
        generator = t.Generator().manual_seed(0)
        parts = t.utils.data.random_split(TEN, lengths)
        parts += t.utils.data.random_split(TEN, lengths, generator)
        return [list(part.indices) for part in parts]

    assert run(rushlight) == run(torch)


def test_distributed_sampler():
    def run(t):
        samplers = [t.utils.data.DistributedSampler(TEN, 3, rank, seed=4) for rank in range(3)]
        for sampler in samplers:
            sampler.set_epoch(2)
        return [list(sampler) for sampler in samplers]

    assert run(rushlight) == run(torch)
