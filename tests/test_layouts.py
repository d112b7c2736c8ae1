"""Results lie in memory by Note [Layouts of results] in core/geometry.py, whoever carries a call out."""

from __future__ import annotations

import numpy as np
import pytest

import layout_programs as programs
import rushlight as torch
from rushlight._backends import cpu, llvm
from rushlight.core import geometry

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = ["unary", "binary", "ternary", "any dtype", "images", "along", "products", "reductions"]


def layouts(tensors) -> list:
    return [(tuple(t.shape), t.stride(), t.dtype) for t in tensors]


def test_operands_in_different_orders_are_followed_one_after_the_other():
    x, y = torch.zeros(2, 3, 4, 5).permute(0, 2, 3, 1), torch.zeros(2, 4, 5, 3)
    assert (x + y).stride() == (60, 5, 1, 20)
    assert (y + x).stride() == y.stride()
    assert torch.where(y > 0, x, y).stride() == y.stride()
    assert torch.addcmul(x, y, y).stride() == (60, 5, 1, 20)
    assert (x.expand(2, 4, 5, 3) * y[:1]).stride() == (60, 5, 1, 20)


def test_strides_of_sizes_1_are_those_of_the_operands():
    x = torch.zeros(2, 8, 1, 1).clone(memory_format=torch.channels_last)
    assert x.stride() == (8, 1, 8, 8)
    for made in (x + 1, x.exp(), x * x, torch.lerp(x, x, 0.5), x.double(), torch.zeros_like(x)):
        assert made.stride() == (8, 1, 8, 8) or made.is_contiguous()
    assert (x + 1).stride() == (8, 1, 8, 8)
    assert geometry.suggest_memory_format((2, 8, 1, 1), (x + 1).stride()) is torch.channels_last
    row = torch.zeros(1, 4).T
    assert ((row + 1).stride(), row.exp().stride(), row.double().stride()) == (
        (1, 4),
        (1, 1),
        (1, 4),
    )


def test_results_that_are_row_major_whatever_the_operands():
    x = torch.zeros(3, 4).T
    for made in (x.masked_fill(x > 0, 1), 2**x, torch.nn.functional.logsigmoid(x)):
        assert made.stride() == (3, 1)
    assert (x**2).stride() == (1, 4)


def test_out_is_laid_out_where_it_gets_another_shape():
    x = torch.zeros(3, 4).T
    assert torch.add(x, 1, out=torch.empty(0)).stride() == (1, 4)
    assert torch.sum(torch.zeros(2, 3, 4).permute(2, 0, 1), 1, out=torch.empty(0)).stride() == (
        3,
        1,
    )


def test_empty_tensors_have_strides():
    x = torch.zeros(2, 0, 3, 3).contiguous(memory_format=torch.channels_last)
    assert x.stride() == (0, 1, 0, 0)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.zeros(4, 3)[:0].stride() == (3, 1)
    assert (torch.zeros(1, 4, 3)[:0].permute(1, 2, 0) > 0).stride() == (3, 1, 12)
    assert torch.empty_strided((0, 3), (100, 7)).stride() == (100, 7)


def test_products_of_numbers_of_two_dtypes_without_dimensions():
    half, single = torch.tensor(2.0, dtype=torch.float16), torch.tensor(2.0)
    assert (half * single).dtype is torch.float32
    assert (half / single.double()).dtype is torch.float64
    assert (half.reshape(1) * single).dtype is torch.float16


def test_a_retained_gradient_is_a_copy_in_row_major_order():
    x = torch.zeros(3, 4, requires_grad=True)
    y, seen = x * 1, []
    y.retain_grad()
    y.register_hook(seen.append)
    y.sum().backward()
    assert y.grad.stride() == (4, 1)
    assert y.grad.data_ptr() != seen[0].data_ptr()


def test_the_gradient_of_a_mean_can_be_written_to():
    x = torch.zeros(3, 4, requires_grad=True)
    (g,) = torch.autograd.grad(x.mean(), x)
    assert g.mul_(12).tolist() == [[1.0] * 4] * 3


def test_copies_with_a_part_replaced_keep_gaps():
    x = torch.zeros(4, 6)[:, 1:5:2]
    made = torch.select_scatter(x, torch.ones(2), 0, 1)
    assert (made.stride(), made.storage_offset(), made.untyped_storage().nbytes()) == (
        (6, 2),
        1,
        96,
    )
    assert made.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("family", FAMILIES)
def test_meta_tensors_lie_as_others(family):
    for seed in range(25):
        expression, operands = programs.drawn(family, seed)
        given = {n: o.make(torch) for n, o in operands.items()}
        try:
            made = programs.evaluated(torch, expression, given)
        except (RuntimeError, IndexError, NotImplementedError, ValueError):
            continue
        if any(
            t.numel() and not geometry.is_non_overlapping_and_dense(t.shape, t.stride())
            for t in given.values()
        ):
            continue  # `to` makes these dense
        with torch.device("meta"):
            found = programs.evaluated(
                torch, expression, {n: t.to("meta") for n, t in given.items()}
            )
        assert layouts(found) == layouts(made), f"{expression} of {operands}"


@pytest.mark.skipif(not llvm.activate(), reason="machine code is off")
def test_machine_code_says_what_the_reference_says():
    from rushlight._backends.reference import layout

    for seed in range(300):
        d = programs.Draw(("layout", seed), zero=0.1)
        shape = d.shape(0, 6)
        arrays = [d.operand(d.narrower(shape), "float32").make(torch)._array for _ in range(3)]
        arrays = arrays[: d.r.randint(1, 3)] + [1] * d.r.randint(0, 1)
        whole = np.broadcast_shapes(*[np.shape(a) for a in arrays])
        order = d.order(len(whole))
        made = np.empty(tuple(whole[k] for k in order), np.float32).transpose(np.argsort(order))
        wanted = layout.laid_out(made.copy(order="K"), *arrays)
        got = cpu.laid_out(made, *arrays)
        assert (got.shape, got.strides) == (wanted.shape, wanted.strides), (arrays, whole)


def test_compiled_programs_lie_as_others():
    def f(x, y, z):
        a = torch.addcmul(x, y, z)
        return a, torch.lerp(x, y, 0.5), (a + 1).relu() * z, torch.where(z > 0, y, x).double()

    compiled = torch.compile(f)
    x = torch.rand(3, 4, 1, 5).permute(0, 3, 2, 1)
    given = x, torch.rand(3, 5, 1, 4), torch.rand(5, 1, 4)
    for _ in range(3):
        assert layouts(compiled(*given)) == layouts(f(*given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_random_numbers_follow_memory(order, dtype):
    """A tensor in another order gets the numbers that one in order gets, place of memory by place."""
    back = np.argsort(order).tolist()
    x = torch.zeros(3, 4, 5, dtype=dtype).permute(order).contiguous().permute(back)
    draws = [
        torch.rand_like,
        lambda t: t.clone().uniform_(-1, 2),
        lambda t: t.clone().exponential_(),
        lambda t: t.clone().bernoulli_(0.5),
        lambda t: t.clone().random_(2, 90),
    ]
    for draw in draws:
        torch.manual_seed(1)
        got = draw(x)
        torch.manual_seed(1)
        wanted = draw(torch.zeros(x.permute(order).shape, dtype=dtype))
        assert got.stride() == x.stride()
        assert got.permute(order).tolist() == wanted.tolist()


@pytest.mark.parametrize("size", [6, 40])
def test_what_is_made_of_transposed_arrays(size):
    a = np.arange(size * 7.0).reshape(7, size).T
    x = torch.tensor(a.T.copy()).t()
    z = torch.complex(x, x + 1)
    assert z.stride() == x.stride()
    np.testing.assert_array_equal(z.numpy(), a + 1j * (a + 1))
    z = torch.complex(x, torch.tensor(2.0, dtype=torch.float64))
    assert z.stride() == x.stride()
    np.testing.assert_array_equal(z.numpy(), a + 2j)
    np.testing.assert_array_equal(x.sum_to_size(size, 1).numpy(), a.sum(1, keepdims=True))
    got = torch.select_scatter(x, torch.zeros(size, dtype=torch.float64), 1, 3)
    assert got.stride() == x.stride()
    wanted = a.copy()
    wanted[:, 3] = 0
    np.testing.assert_array_equal(got.numpy(), wanted)
    assert torch.isposinf(x.long()).stride() == x.stride()
