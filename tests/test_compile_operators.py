"""Each operator of the database in a compiled function: values, layouts and gradients as without `torch.compile`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import rushlight as torch
from opdb import ROWS
from opdb_rows import replace
from rushlight import nn
from rushlight.compiler.compiled import Compiled
from rushlight.utils._pytree import tree_leaves

# Without a gradient, or made of numbers that Python reads from tensors.
AS_WRITTEN = frozenset("floor_divide _addmm_activation nn.functional.ctc_loss".split())


def outcome(f, arguments, seed):
    """The results of a call, their gradients and what became of the arguments; or the error."""
    args, kwargs = arguments()
    torch.manual_seed(seed)
    try:
        result = f(*args, **kwargs)
    except Exception as e:
        return [type(e), str(e)]
    found, leaves = tree_leaves(result), tree_leaves((args, kwargs))
    tensors = [[t for t in v if isinstance(t, torch.Tensor)] for v in (found, leaves)]
    roots, wanted = [[t for t in v if t.requires_grad] for v in tensors]
    if roots and wanted:
        given = [torch.ones_like(t) for t in roots]
        try:
            found += torch.autograd.grad(roots, wanted, given, allow_unused=True)
        except (NotImplementedError, RuntimeError) as e:
            found.append(str(e))
    return [*found, *leaves]


def assert_same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        assert a.is_sparse or not a.numel() or a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)
    else:
        assert type(a) is type(b)
        assert a == b or a != a


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.filterwarnings("ignore")
def test_operator(row):
    f = functools.reduce(getattr, row.name.split("."), torch)
    case = row.cases[0]
    compiled = Compiled(lambda *args, **kwargs: f(*args, **kwargs))
    for k in range(2):

        def arguments(k=k):
            described = iter(case.inputs())

            def tensor(a):
                t = torch.from_numpy(np.array(a))
                return t.requires_grad_() if next(described).differentiable and case.grad else t

            return replace(case.draw(f"{row.name}{k}"), tensor, np.ndarray)

        wanted, found = [outcome(g, arguments, k) for g in (compiled.function, compiled)]
        assert len(wanted) == len(found)
        for a, b in zip(wanted, found, strict=True):
            assert_same(a, b)
    assert bool(compiled.programs) == (row.name not in AS_WRITTEN), compiled.reasons


def test_gradients_that_depend_on_elements():
    mask = torch.tensor([True, False, True])
    for f in (
        torch.prod,
        lambda x: x.cumprod(1),
        torch.det,
        lambda x: torch.linalg.eigvals(x).abs(),
        lambda x: torch.ones(3).masked_scatter(mask, x),
    ):
        compiled = Compiled(f)
        for x in (torch.eye(3) + 1, torch.eye(3) + 2, torch.diag(torch.arange(3.0))):
            found = []
            for g in (f, compiled):
                leaf = x.clone().requires_grad_()
                result = g(leaf)
                found.append([result, *torch.autograd.grad(result.sum(), leaf)])
            for a, b in zip(*found, strict=True):
                assert_same(a, b)
        assert len(compiled.programs) == 1, compiled.reasons


def test_an_operator_itself():
    x = torch.eye(3) + 1
    given = {torch.add: (x, 2), torch.hann_window: (4,)}
    for f in (torch.det, torch.linalg.eigh, torch.linalg.svd, x.mul, *given):
        args = given.get(f, (x,))
        compiled = Compiled(f)
        for _ in range(3):
            for a, b in zip(tree_leaves(f(*args)), tree_leaves(compiled(*args)), strict=True):
                assert_same(a, b)
        assert len(compiled.programs) == 1, compiled.reasons


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_complex32_result_with_a_history_runs_as_written():
    compiled = Compiled(lambda x: x.chalf())
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        compiled(x).backward(torch.ones(3).chalf())
        assert torch.equal(x.grad, torch.ones(3))
    assert not compiled.programs


def test_einsum_of_three_operands_with_a_size_of_1():
    a, b, c = torch.randn(5, 1, 3), torch.randn(5, 1, 3), torch.randn(3, 3, 3)
    compiled = torch.compile(lambda *ops: torch.einsum("aui,auj,ijk->auk", *ops), fullgraph=True)
    wanted = np.einsum("aui,auj,ijk->auk", a.numpy(), b.numpy(), c.numpy())
    for _ in range(3):
        np.testing.assert_allclose(compiled(a, b, c).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize("recorded", [False, True])
def test_what_a_recurrent_layer_gave_is_written_to(kind, recorded):
    """The kernel of the gradient reads the output; where that is another one by now, the steps are made again."""
    torch.manual_seed(0)
    layer = kind(4, 4)

    def f(x):
        y = layer(x)[0]
        with torch.set_grad_enabled(recorded):
            y.mul_(2)
        return y

    found = []
    for g in (f, Compiled(f)):
        for k in range(3):
            x = torch.full((2, 3, 4), 0.1 * k).requires_grad_()
            layer.zero_grad()
            g(x).sum().backward()
            found.append([x.grad, *[p.grad for p in layer.parameters()]])
    torch.testing.assert_close(found[:3], found[3:])
    assert len(g.programs) == 1


def test_what_an_attention_gave_is_written_to():
    """A node of one result refuses to go on, in a compiled function too."""

    def f(x):
        y = nn.functional.scaled_dot_product_attention(x, x, x)
        y.tanh_()
        return nn.functional.scaled_dot_product_attention(x, y, y)

    for g in (f, Compiled(f)):
        for _ in range(3):
            x = torch.ones(1, 2, 3, 4).requires_grad_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                g(x).sum().backward()
