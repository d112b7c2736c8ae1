"""Data sets, samplers, collation and the loader."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils import data

Pair = namedtuple("Pair", "a b")
TEN = list(range(10))


class Stream(data.IterableDataset):
    def __init__(self, n=5, length=None):
        self.n, self.length = n, length

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length


def lists(loader):
    return [batch.tolist() for batch in loader]


# ---------------------------------------------------------------------------------- data sets


def test_tensor_dataset():
    whole = data.TensorDataset(torch.arange(4), torch.arange(8).view(4, 2))
    assert len(whole) == 4
    assert [t.tolist() for t in whole[1]] == [1, [2, 3]]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.ones(2), torch.ones(3))


def test_concat_chain_stack_subset():
    both = data.ConcatDataset([TEN, TEN])
    assert len(both) == 20 and both[12] == 2 and both[-1] == 9
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-21]
    assert list(data.ChainDataset([Stream(2), Stream(1)])) == [0, 1, 0]
    assert list(Stream(2) + Stream(1)) == [0, 1, 0]
    stacked = data.StackDataset(x=TEN, y=TEN[::-1])
    assert stacked[1] == {"x": 1, "y": 8}
    assert data.StackDataset(TEN, TEN).__getitems__([0, 1]) == [(0, 0), (1, 1)]
    part = data.Subset(TEN, [3, 4])
    assert len(part) == 2 and part[1] == 4 and part.__getitems__([0, 1]) == [3, 4]


def test_random_split():
    parts = data.random_split(TEN, [0.33, 0.33, 0.34])
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(x for part in parts for x in part) == TEN
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(TEN, [3, 3])
    with pytest.warns(UserWarning, match="Length of split at index 0 is 0"):
        data.random_split(TEN, [0.0, 1.0])


# ----------------------------------------------------------------------------------- samplers


def test_samplers_yield_what_they_promise():
    assert list(data.SequentialSampler(TEN)) == TEN
    assert sorted(data.RandomSampler(TEN)) == TEN
    assert len(list(data.RandomSampler(TEN, num_samples=25))) == 25
    drawn = list(data.RandomSampler(TEN, replacement=True, num_samples=70))
    assert len(drawn) == 70 and set(drawn) <= set(TEN)
    assert sorted(data.SubsetRandomSampler([5, 7])) == [5, 7]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}
    assert list(data.BatchSampler(TEN, 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(data.BatchSampler(TEN, 4, drop_last=False)) == 3


def test_random_sampler_uses_the_generator():
    def order(seed):
        return list(data.RandomSampler(TEN, generator=torch.Generator().manual_seed(seed)))

    assert order(1) == order(1) != order(2)


def test_distributed_sampler_divides_and_pads():
    parts = [list(data.DistributedSampler(TEN, 3, r, shuffle=False)) for r in range(3)]
    assert parts == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    sampler = data.DistributedSampler(TEN, 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: data.RandomSampler([]), ValueError, "num_samples should be a positive integer"),
        (lambda: data.RandomSampler(TEN, replacement=3), TypeError, "replacement should be"),
        (lambda: data.BatchSampler(TEN, 0, False), ValueError, "batch_size should be a positive"),
        (lambda: data.BatchSampler(TEN, 2, 3), ValueError, "drop_last should be a boolean"),
        (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError, "1d sequence"),
        (lambda: data.DistributedSampler(TEN, 3, 5), ValueError, "Invalid rank 5"),
        (lambda: data.Sampler(TEN), TypeError, "takes no arguments"),
    ],
)
def test_sampler_errors(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


# ---------------------------------------------------------------------------------- collation


@pytest.mark.parametrize(
    "batch, expected",
    [
        ([1, 2], [1, 2]),
        ([1.5, 2], [1.5, 2.0]),
        ([True, False], [True, False]),
        ([np.float32(1), np.float32(2)], [1.0, 2.0]),
        ([np.ones(2), np.zeros(2)], [[1.0, 1.0], [0.0, 0.0]]),
        ([torch.ones(2), torch.zeros(2)], [[1.0, 1.0], [0.0, 0.0]]),
    ],
)
def test_collate_leaves(batch, expected):
    made = data.default_collate(batch)
    assert made.tolist() == expected
    if isinstance(batch[0], float):
        assert made.dtype is torch.float64


def test_collate_containers():
    made = data.default_collate([{"x": 0, "y": "a"}, {"x": 1, "y": "b"}])
    assert made["x"].tolist() == [0, 1] and made["y"] == ["a", "b"]
    made = data.default_collate([Pair(1, 2.0), Pair(3, 4.0)])
    assert type(made) is Pair and made.b.tolist() == [2.0, 4.0]
    made = data.default_collate([(1, "a"), (2, "b")])
    assert made[0].tolist() == [1, 2] and made[1] == ("a", "b")
    assert type(data.default_collate([OrderedDict(a=1)])) is OrderedDict
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays, numbers"):
        data.default_collate([None])
    with pytest.raises(TypeError, match="found <U1"):
        data.default_collate([np.array("a")])


def test_convert():
    made = data.default_convert({"a": np.ones(1), "b": (np.int64(2), "text")})
    assert made["a"].tolist() == [1.0] and made["b"][0].item() == 2 and made["b"][1] == "text"
    assert type(data.default_convert(Pair(1, np.ones(1)))) is Pair


# ------------------------------------------------------------------------------------- loader


def test_batches():
    assert lists(data.DataLoader(TEN, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert lists(data.DataLoader(TEN, 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(data.DataLoader(TEN, batch_size=None)) == TEN
    assert lists(data.DataLoader(TEN, batch_sampler=[[1, 2], [3]])) == [[1, 2], [3]]
    assert lists(data.DataLoader({"a": 1, "b": 2}, sampler=["a", "b"])) == [[1], [2]]
    assert list(data.DataLoader(TEN, 6, collate_fn=len)) == [6, 4]
    assert len(data.DataLoader(TEN, 4)) == 3
    shuffled = lists(data.DataLoader(TEN, 4, shuffle=True))
    assert sorted(i for batch in shuffled for i in batch) == TEN


def test_iterable_data():
    assert lists(data.DataLoader(Stream(), 2)) == [[0, 1], [2, 3], [4]]
    assert lists(data.DataLoader(Stream(), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    loader = data.DataLoader(Stream(5, length=3), 2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 3"):
        list(loader)


def test_tensor_dataset_is_taken_by_rows():
    x = torch.arange(6).view(3, 2)
    batches = list(data.DataLoader(data.TensorDataset(x, x[:, 0]), 2))
    assert [type(batch) for batch in batches] == [list, list]
    assert [t.tolist() for t in batches[0]] == [[[0, 1], [2, 3]], [0, 2]]
    batches[0][0].fill_(9)
    assert x[0, 0].item() == 0  # a batch is a copy


def test_getitems_is_used():
    class Whole(data.Dataset):
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [i * 10 for i in indices]

    assert lists(data.DataLoader(Whole(), 2)) == [[0, 10], [20, 30]]


def test_same_seed_same_order_and_every_epoch_another():
    def epochs(generator=None):
        loader = data.DataLoader(list(range(50)), 50, shuffle=True, generator=generator)
        return [lists(loader), lists(loader)]

    torch.manual_seed(3)
    first = epochs()
    torch.manual_seed(3)
    assert epochs() == first and first[0] != first[1]
    state = torch.get_rng_state()
    epochs(torch.Generator().manual_seed(1))
    assert (torch.get_rng_state() == state).all()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables"),
        ({"multiprocessing_context": "fork"}, "only be used with multi-process loading"),
        ({"num_workers": 1, "multiprocessing_context": "x"}, "valid start method"),
    ],
)
def test_loader_errors(options, words):
    with pytest.raises(ValueError) as caught:
        data.DataLoader(TEN, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor must be greater than 0"),
        ({"timeout": 1}, "requires timeout == 0"),
    ],
)
def test_iterator_errors(options, words):
    with pytest.raises(AssertionError, match=words):
        iter(data.DataLoader(TEN, **options))


def test_names_that_libraries_ask_for():
    assert data.DataLoader(TEN)._dataset_kind == data._DatasetKind.Map
    assert data.DataLoader(Stream())._dataset_kind == data._DatasetKind.Iterable
    loader = data.DataLoader(TEN, num_workers=1, worker_method="thread")
    assert type(iter(loader)).__name__ == "_MultiProcessingDataLoaderIter"
    with pytest.warns(FutureWarning, match="is renamed to `cumulative_sizes`"):
        assert data.ConcatDataset([TEN, TEN]).cummulative_sizes == [10, 20]


@pytest.mark.parametrize(
    "sample, words",
    [
        (torch.eye(2).to_sparse(), "Batches of sparse tensors are not currently supported"),
        (torch.eye(2).to_sparse_csr(), "Batches of sparse tensors are not currently supported"),
        (torch.nested.nested_tensor([torch.ones(2)]), "Batches of nested tensors are not"),
    ],
)
def test_collate_refuses_layouts(sample, words):
    with pytest.raises(RuntimeError, match=words):
        data.default_collate([sample, sample])


def test_loader_refuses_late_changes_and_iterable_orders():
    loader = data.DataLoader(TEN)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3
    loader.num_workers = 0
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        data.DataLoader(Stream(), shuffle=True)


def test_an_error_of_the_data_comes_through():
    class Broken(data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        list(data.DataLoader(Broken()))


def test_no_worker_info_here():
    assert data.get_worker_info() is None


def test_batches_of_tuples():
    x = torch.arange(5)
    loader = data.DataLoader(data.TensorDataset(x), batch_sampler=[(0, 1), (4, 2, 3)])
    assert [b.tolist() for (b,) in loader] == [[0, 1], [4, 2, 3]]


def test_more_workers_than_processors_are_warned_of():
    with pytest.warns(UserWarning, match="excessive worker creation"):
        data.DataLoader(TEN, num_workers=100_000)
