"""Native entries of views (_codegen/view_entry.py) against the reference's kernels."""

from __future__ import annotations

import gc
import random
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from rushlight._backends import llvm
from rushlight._backends.reference import strided as reference
from rushlight._backends.reference import views
from rushlight._codegen import view_entry
from rushlight._codegen.runtime import abi
from rushlight.core.size import Size

LEFT = object()
KERNELS = {
    "as_strided": (view_entry.strided, views.as_strided),
    "basic_index": (view_entry.indexed, reference.basic_index),
    "expand": (view_entry.expanded, reference.expand),
    "unsqueeze": (view_entry.unsqueezed, reference.unsqueeze),
    "view": (view_entry.reshaped, reference.view),
}


@pytest.fixture
def entries():
    if not (llvm.activate() and abi.available() and abi.views_hold()):
        pytest.skip("native entries are off with RUSHLIGHT_COMPILED=0, and where objects differ")
    return {
        name: view_entry.view(infer)(lambda *args, **options: LEFT)
        for name, (infer, _) in KERNELS.items()
    }


def arrays():
    a = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    one = np.arange(6.0).reshape(2, 1, 3)[:, :, ::2]
    return [
        a,
        a[1],
        a[:, 1:],
        a.T,
        a[..., 1],
        a[0, 0, 0, 2],
        np.zeros((0, 3)),
        one,
        a[:1],
        a[:1, :, :1],
    ]


def same(made, expected):
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    assert views.root(made) is views.root(expected)
    if expected.size:
        assert made.strides == expected.strides and made.ctypes.data == expected.ctypes.data
    for flag in ("c_contiguous", "f_contiguous", "writeable", "aligned", "owndata"):
        assert getattr(made.flags, flag) == getattr(expected.flags, flag)


def sizes_for(chance, a):
    """Sizes to view or expand an array to, of which many do not fit."""
    shape = list(a.shape)
    for _ in range(chance.randint(0, 3)):
        k = chance.randint(0, len(shape))
        how = chance.randint(0, 4)
        if how == 0:
            shape.insert(k, chance.choice([1, 2, 3, -1]))
        elif how == 1 and shape[k : k + 2]:
            shape[k : k + 2] = [int(np.prod(shape[k : k + 2]))]
        elif shape[k : k + 1]:
            shape[k] = chance.choice([-1, 1, 2, 4, 0])
    return tuple(shape)


def test_parts_of_rows_are_viewed_where_they_lie(entries):
    part = np.arange(96.0).reshape(2, 3, 16)[:, :, 4:12]
    made = entries["view"](part, (2, 3, 4, -1))
    assert made is not LEFT
    same(made, reference.view(part, (2, 3, 4, 2)))
    assert entries["view"](part, (2, 24)) is LEFT  # no strides give it


INDICES = [
    0, 1, -1, 2, -3, 9, None, None, ..., slice(None), slice(1, None), slice(None, 2), slice(-2, None), slice(0, 4, 2),
    slice(3, 1), slice(9, None), slice(-9, 2), slice(1, 3, 5), slice(None, None, 0), slice(2, -1),
    slice(None, None, -1),
]  # fmt: skip


def arguments(chance, name, a):
    if name == "as_strided":
        return (a.shape, a.strides, chance.choice([0, a.itemsize]))
    if name == "basic_index":
        index = tuple(chance.choice(INDICES) for _ in range(chance.randint(0, 5)))
        return (index[0] if len(index) == 1 else index,)
    if name == "unsqueeze":
        return (chance.randint(-6, 6),)
    return (sizes_for(chance, a),)


@pytest.mark.parametrize("name", KERNELS)
def test_views_are_those_of_the_reference(name, entries):
    chance, taken = random.Random(0), 0
    for _ in range(4000):
        a = chance.choice(arrays()[: 6 if name == "as_strided" else None])
        args = arguments(chance, name, a)
        made = entries[name](a, *args)
        if made is LEFT:
            continue
        taken += 1
        same(made, KERNELS[name][1](a, *args))
    assert taken > 400


@pytest.mark.parametrize("name", ["expand", "view"])
def test_all_else_is_left_alone(name, entries):
    a, call = np.ones((2, 3), np.float32), entries[name]

    class Own(np.ndarray):
        pass

    size = {"expand": (2, 3), "view": (3, 2)}[name]
    assert call(a, size) is not LEFT
    for other in (a.view(Own), a.tolist(), None, np.float32(1)):
        assert call(other, size) is LEFT
    for other in (
        list(size),
        6,
        None,
        (2.0, 3),
        (True, 3),
        (np.int64(2), 3),
        (1 << 70, 3),
        (1,) * 40,
    ):
        assert call(a, other) is LEFT
    for args in ((), (a,), (a, size, 0)):
        assert call(*args) is LEFT
    assert call(a, size=size) is LEFT
    assert call(a, Size(size)).shape == size


def test_references_are_kept_in_balance(entries):
    a, index = np.ones((2, 3), np.float32), (0, slice(1, None), None)
    for name, args in {"basic_index": (index,), "view": ((-1,),), "unsqueeze": (0,)}.items():
        entries[name](a, *args)
        gc.collect()
        watched = (a, a.dtype, index, None, *args)
        before = [sys.getrefcount(o) for o in watched]
        for _ in range(200):
            entries[name](a, *args)
        assert max(sys.getrefcount(o) - n for o, n in zip(watched, before, strict=True)) < 20


def test_node_of_an_index_is_named_after_its_last_step():
    x = torch.zeros(2, 3, requires_grad=True)
    for index, name in [
        (0, "Select"), (slice(None), "Slice"), (None, "Unsqueeze"), (..., "Alias"), ((), "Alias"),
        ((slice(None), 0), "Select"), ((0, slice(1, None)), "Slice"), ((0, slice(0, 3)), "Select"),
        ((slice(0, 2), slice(0, 3)), "Alias"), ((..., slice(0, 3)), "Alias"), ((..., slice(0, 2)), "Slice"),
        ((slice(1, None), None), "Unsqueeze"), ((None, 0, ...), "Select"),
    ]:  # fmt: skip
        assert x[index].grad_fn.name() == name + "Backward0", index
        (g,) = torch.autograd.grad(x[index].sum(), x)
        expected = np.zeros((2, 3))
        expected[index] = 1
        assert np.array_equal(g.numpy(), expected)


WRITES = {
    "slice": lambda y: y[1:].add_(1),
    "item": lambda y: y.__setitem__(0, 5.0),
    "view": lambda y: y.view(-1).mul_(2),
    "chunk": lambda y: y.chunk(3)[0].detach().mul_(2),
    "detach": lambda y: y.detach().mul_(2),
}


@pytest.mark.parametrize("function", [torch.tanh, torch.relu, torch.exp, torch.sigmoid, torch.sqrt])
@pytest.mark.parametrize("write", WRITES)
def test_a_saved_result_that_a_view_is_written_to_is_refused(function, write):
    w = torch.ones(3, requires_grad=True)
    y = function(w * 2)
    WRITES[write](y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    assert w.grad is None
