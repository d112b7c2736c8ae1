"""Names in profiles: every `aten::` event of every row of the operator database is an operator of PyTorch."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

import opdb
import rushlight
from opdb_rows import replace
from rushlight import Tensor
from rushlight.core.tensor import _wrap
from rushlight.dispatch import aten_names as profiler_names
from rushlight.dispatch.registry import OPS

torch = pytest.importorskip("torch")


def unknown(names) -> set[str]:
    """Those of the names, with or without `aten::`, that no operator of PyTorch has."""
    short = {name.removeprefix("aten::") for name in names}
    return {name for name in short if not hasattr(torch.ops.aten, name)}


def test_names_of_operators():
    found = {
        name
        for op in OPS.values()
        if op.path not in profiler_names.BY_VALUES
        for inplace in {False, op.has_inplace}
        for name in profiler_names.names(op, [], inplace)
    }
    assert len(found) > 600
    assert unknown(found) == set()


def profiled(row) -> set[str]:
    """The names of events in calls of a row's function, and in their backward."""
    function = functools.reduce(getattr, row.name.split("."), rushlight)
    found: set[str] = set()
    for _, args, kwargs in row.draws():
        given = replace((args, kwargs), _wrap, np.ndarray)
        floating: list[Tensor] = []
        replace(given, floating.append, Tensor)
        for t in floating:
            if (t.is_floating_point() or t.is_complex()) and not row.writes:
                t.requires_grad_()
        with rushlight.profiler.profile() as profile:
            try:
                result = function(*given[0], **given[1])
                outputs: list[Tensor] = []
                replace(result, outputs.append, Tensor)
                for t in outputs:
                    if t.requires_grad:
                        t.sum().abs().backward(retain_graph=True)
            except RuntimeError:
                pass  # not differentiable, or `requires_grad` is in its way
        found |= {event.name for event in profile.events() if event.name.startswith("aten::")}
    return found


@pytest.mark.parametrize("part", range(4))
def test_names_of_events(part):
    found: dict[str, str] = {}
    for row in [*opdb.ROWS, *opdb.FUNCTION_ROWS][part::4]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found |= dict.fromkeys(profiled(row), row.name)
    assert len(found) > 100
    assert {name: found[f"aten::{name}"] for name in unknown(found)} == {}


def test_names_of_events_of_layers_and_sparse_tensors():
    nn, x = rushlight.nn, rushlight.rand(2, 5, 4, requires_grad=True)
    sparse = x.detach()[0].to_sparse()
    calls = [
        lambda: nn.LSTM(4, 3)(x)[0],
        lambda: nn.GRU(4, 3, bidirectional=True)(x)[0],
        lambda: nn.RNN(4, 3, nonlinearity="relu")(x)[0],
        lambda: nn.MultiheadAttention(4, 2)(x, x, x)[0],
        lambda: nn.TransformerEncoderLayer(4, 2)(x),
        lambda: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda: nn.Bilinear(4, 4, 2)(x, x),
        lambda: nn.EmbeddingBag(7, 4)(rushlight.tensor([[0, 1]])),
        lambda: nn.BatchNorm1d(5)(x),
        lambda: rushlight.sparse.mm(sparse, x[0].T),
        lambda: (sparse * 2).coalesce().to_dense() @ sparse.to_sparse_csr().to_dense().T,
    ]
    for call in calls:
        with rushlight.profiler.profile() as profile:
            result = call()
            if result.requires_grad:
                result.sum().backward()
        found = {e.name for e in profile.events() if e.name.startswith("aten::")}
        assert found
        assert unknown(found) == set()
