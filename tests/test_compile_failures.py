"""Compiled functions that raise in the middle: what they did before is as where they run as they are written."""

import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler.compiled import Compiled


class State:
    """What functions change: objects of Python, a small and a large tensor, a table that they look into."""

    def __init__(self):
        self.log, self.counts, self.last = [], {"n": 0}, None
        self.small, self.large = torch.zeros(4), torch.zeros(1 << 21)
        self.table = torch.arange(12.0).reshape(3, 4)

    def seen(self):
        values = [v.tolist() if isinstance(v, torch.Tensor) else v for v in self.log]
        last = self.last.tolist() if isinstance(self.last, torch.Tensor) else self.last
        stream = torch.get_rng_state().numpy().tobytes()
        return values, {**self.counts}, last, self.small.tolist(), self.large[:2].tolist(), stream


def a_list_before_an_index(s, x, i):
    s.log.append(1)
    return x + s.table[i.view(1)].sum(0)


def a_write_before_an_index(s, x, i):
    s.small.add_(1)
    y = s.table[i.view(1)].sum(0)
    s.small.mul_(2)
    return x + y


def a_list_and_writes_around_an_index(s, x, i):
    s.log.append(x * 2)
    s.small.add_(1)
    y = s.table[i.view(1)].sum(0) * 3
    s.log.append(y)
    s.small.mul_(2)
    return x + y


def a_write_behind_an_index(s, x, i):
    s.counts["n"] += 1
    y = s.table[i.view(1)].sum(0)
    s.small.add_(y)
    return x + y


def a_large_write(s, x, i):
    s.log.append(1)
    s.large.add_(1)
    s.last = x * i
    y = s.table.index_select(0, i[None])
    s.log.append(2)
    s.large.mul_(2)
    return x + y


def random_numbers(s, x, i):
    y = torch.nn.functional.dropout(x, 0.5)
    s.last = y.sum()
    y = y + s.table[i.view(1)].sum(0)
    return y * torch.rand(4)


def a_loss(s, x, i):
    s.counts["n"] += 1
    mean, var = s.small, s.table[0]
    x = torch.nn.functional.batch_norm(torch.stack([x, -x]), mean, var, training=True)
    s.counts["m"] = s.counts["n"]
    return torch.nn.functional.cross_entropy(x[:, :3], torch.stack([i, i]))


def a_number(s, x, i):
    s.log.append(1)
    s.small.add_(1)
    s.log.append(math.log(2.5 - i.item()))
    s.small.mul_(2)
    return x


def a_number_behind_a_large_write(s, x, i):
    s.log.append(1)
    s.large.add_(1)
    s.log.append(math.log(2.5 - i.item()))
    return x


def a_division(s, x, i):
    s.small.add_(1)
    s.log.append(0)
    return torch.tensor(7) // (i - 5)


def a_draw_that_is_refused(s, x, i):
    s.log.append(0)
    s.small.add_(1)
    return torch.multinomial(x * (3 - i), 2)


def a_result_that_nobody_reads(s, x, i):
    s.table.gather(0, i.expand(1, 4))
    return x


def a_kernel_that_writes(s, x, i):
    s.log.append(1)
    s.small.add_(1)
    s.table.index_copy_(0, i.view(1), x[None])
    s.log.append(2)
    return s.table.sum()


def a_copy_that_is_written(s, x, i):
    s.log.append(1)
    s.small.add_(1)
    y = s.table.clone().index_put_((i.view(1),), x)
    s.small.mul_(2)
    return y.scatter(0, i.view(1, 1), 1.0)


def a_draw_before_and_behind_an_index(s, x, i):
    y = torch.nn.functional.dropout(x, 0.5)
    y = y + s.table[i.view(1)].sum(0)
    return y * torch.rand(4)


def a_write_and_a_draw_before_two_indices(s, x, i):
    s.small.add_(1)
    y = torch.nn.functional.dropout(x, 0.5) + s.table[i.view(1)].sum(0)
    y = y * torch.rand(4) + s.table.index_select(0, i.view(1))
    s.small.mul_(3)
    return y


def a_write_that_comes_before_what_an_index_waits_for(s, x, i):
    a = x * 2
    y = s.table[(a[:1] * 0).long() + i].sum(0)
    s.small.mul_(2).add_(1)
    return y + (a + x)


def a_write_between_two_indices(s, x, i):
    y = s.table[i.view(1) % 3].sum(0)
    s.small.add_(1)
    y = y + s.table.index_select(0, i.view(1))
    s.small.add_(2)
    return y


def a_kernel_that_writes_behind_a_write(s, x, i):
    s.small.add_(1)
    s.table.index_copy_(0, i.view(1), x[None])
    return s.table.sum()


def a_place(s, x, i, k):
    s.small.view(2, 2).T[0].add_(1)
    s.log.append(k)
    y = (s.small + 1).select(0, k)
    s.log.append(y)
    return y


def a_place_that_is_written(s, x, i, k):
    s.counts["n"] += 1
    s.small[k % 2] = x[0]
    s.log.append(k)
    s.table[k] = x
    return s.table.sum()


@pytest.mark.parametrize(
    "f", [v for n, v in [*globals().items()] if n.startswith("a_")] + [random_numbers]
)
def test_what_was_done_before_an_exception(f):
    placed = f.__code__.co_argcount == 4
    found = []
    for wrap in (lambda g: g, Compiled):
        torch.manual_seed(0)
        s, seen = State(), []
        g = wrap(f)
        for k in (0, 1, 2, 2, 5, 1, 5, 0):
            try:
                r = g(s, torch.ones(4), torch.tensor(k), *[k] * placed).tolist()
            except (IndexError, ValueError, RuntimeError) as e:
                r = type(e), str(e)
            seen.append((r, *s.seen()))
        found.append(seen)
    assert [len(r[0]) for r in found[0] if isinstance(r[0], tuple)] == [2, 2]
    for wanted, got in zip(*found, strict=True):
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_equal(b, a) if not isinstance(
                a, float
            ) else np.testing.assert_allclose(b, a, rtol=1e-6)
    assert g.programs


@pytest.mark.parametrize(
    "f", [a_write_before_an_index, a_write_that_comes_before_what_an_index_waits_for]
)
def test_writes_are_counted_where_they_were_done(f):
    """A history that keeps what is written refuses to go back where the write was done, and nowhere else."""
    found = []
    for wrap in (lambda g: g, Compiled):
        s, g = State(), wrap(f)
        for k in (0, 1, 2, 5):
            w = torch.ones(4, requires_grad=True)
            y = (w * s.small).sum()
            try:
                g(s, torch.ones(4), torch.tensor(k))
            except IndexError:
                pass
            try:
                y.backward()
                found.append(w.grad.tolist())
            except RuntimeError as e:
                found.append("modified by an inplace operation" in str(e))
    assert found[:4] == found[4:]


def test_an_exception_that_the_function_handles_behind_cleared_gradients():
    w, table, found = torch.nn.Parameter(torch.ones(4)), torch.arange(12.0).reshape(3, 4), []
    optimizer = torch.optim.SGD([w], 0.0)

    def step(i):
        optimizer.zero_grad()
        x = torch.nn.functional.dropout(w, 0.5)
        try:
            y = table[i].sum(0)
        except IndexError:
            y = table[0] - 1
        return (x * y).sum().detach()

    for g in (step, Compiled(step)):
        torch.manual_seed(0)
        found.append([g(torch.tensor([k])).item() for k in (0, 1, 2, 5, 1, 5, 7)])
    assert found[0] == found[1]


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g


def unrecorded(x):
    with torch.no_grad():
        return x[0]


VIEWS = {  # that refuse recorded writes
    "chunk": lambda x: x.chunk(2)[0],
    "split": lambda x: x.split(1)[1],
    "unbind": lambda x: x.unbind(0)[0],
    "a view of one of several": lambda x: x.split(1)[0][0],
    "made under no_grad": unrecorded,
    "a custom function": Same.apply,
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_that_refuse_writes_do_so_behind_a_program(name, recorded):
    w = torch.ones(3, requires_grad=True)

    def made(x):
        return VIEWS[name](x * (w if recorded else 2))

    def split(x):
        p = made(x)
        np.sum(x.numpy())
        p.add_(w)
        return p

    def outside(f):
        return lambda x: f(x).add_(w)

    for f in (split, torch.compile(split), outside(made), outside(torch.compile(made))):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="is being modified inplace"):
                f(torch.ones(2, 3))


def of_an_argument(x):
    return unrecorded(x)


def detached(x):
    y = x * 2
    return y, y.detach()


def several(x):
    y = x * 2
    return y.t()[0][1:], y, y.view(-1)[2:]


def parts_of_complex_numbers(x):
    y = torch.complex(x, x)
    return torch.view_as_real(y)[..., 1], y.real


def complex_views(x):
    y = torch.stack([x, x + 1], -1)
    return torch.view_as_complex(y)[0].abs(), y


def written(result, w, how):
    """What a caller sees who writes to a result."""
    many = result if isinstance(result, tuple) else (result,)
    if how == "recorded":
        many[0].mul_(w.sum())
    elif how == "the last":
        many[-1].add_(w.sum())
    elif how == "the base":
        many[-1]._base.mul_(w.sum())
    else:
        with torch.no_grad():
            many[0].mul_(2)
    needed = [t for t in many if t.requires_grad]
    if needed:
        sum((t * (k + 1)).sum() for k, t in enumerate(needed)).backward()
    return [(t.tolist(), t.requires_grad, t.is_leaf, t._version) for t in many]


@pytest.mark.parametrize("how", ["recorded", "the last", "the base", "unrecorded"])
@pytest.mark.parametrize(
    "f", [of_an_argument, detached, several, parts_of_complex_numbers, complex_views]
)
def test_what_is_written_to_a_result_is_in_those_that_share_its_memory(f, how):
    def seen(g):
        w, x = torch.ones(3, requires_grad=True), torch.arange(6.0).reshape(2, 3) + 1
        try:
            return written(g(x), w, how), w.grad is not None and w.grad.tolist(), x.tolist()
        except (RuntimeError, AttributeError) as e:
            return type(e), x.tolist()

    g = torch.compile(f)
    assert [seen(g) for _ in range(3)] == [seen(f)] * 3
    assert g.programs
