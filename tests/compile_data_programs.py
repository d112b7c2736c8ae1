"""Programs that decide by the values of tensors, for tests/test_compile.py, as in compile_programs.py."""

# ruff: noqa: E501, E701, E741, S311, N805
from __future__ import annotations

import collections
import contextlib
import itertools
import math
import random

import numpy as np

import rushlight as torch
from compile_programs import Cfg, R, program, rows
from rushlight import nn
from rushlight.nn import functional as F


def signs():
    return [(R(3, 4) + s,) for s in (3, -3, 3, -3, 0, 3, -3)]


@program
def branch_behind_dropout():
    def f(x):
        y = F.dropout(x, 0.5) + torch.randn(4)
        if y.sum() > 0:
            y = F.dropout(y, 0.3)
        return y, torch.rand(2)

    return f, signs()


@program
def branch_behind_writes():
    c = Cfg()
    c.n = 0
    total = torch.zeros(4)

    def f(x):
        x.add_(1)
        total[1:].add_(x.sum(0)[1:])
        c.n += 1
        c.log.append(c.n)
        if (x > 0).all():
            total.mul_(0.5)
            c.last = total.clone()
            return x * 2
        c.log.append("no")
        return x - total

    return f, signs()


@program
def branch_behind_batch_norm():
    m = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())

    def f(x):
        y = m(x)
        if not torch.isfinite(y).all():
            return y.nan_to_num()
        return y * 2

    def calls():
        for k in range(5):
            x = R(5, 4)
            if k % 2:
                x[0, 0] = float("nan")
            yield (x,)

    return f, calls


@program
def skipped_steps():
    torch.manual_seed(0)
    m = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    skipped = []

    def f(x):
        optimizer.zero_grad()
        loss = m(x).square().mean()
        if loss.isnan():
            skipped.append(loss.item())
            return None
        loss.backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        optimizer.step()
        return loss.item(), norm

    def calls():
        for k in range(6):
            yield (R(3, 4) if k % 3 != 2 else R(3, 4) / 0,)

    return f, calls


@program
def gradients_behind_branches():
    w = R(4).requires_grad_()

    def f(x):
        y = x * w
        if y.mean() > 0:
            return y.square()
        return (y * 3).sum(), y.detach()

    return f, signs()


@program
def loops_until():
    def f(x):
        n = 0
        while x.abs().max() > 0.5:
            x = x * 0.5
            n += 1
        return x, n

    return f, [(R(3) * k,) for k in (1, 2, 1, 8, 2, 1)]


@program
def sizes_from_tensors():
    def f(x, n):
        k = n.max().item()
        y = x[:k]
        return y.sum(0), [v.sum() for v in x.split(n.tolist() if False else 1)], torch.zeros(k)

    return f, [(R(4, 2), torch.tensor([k, 1])) for k in (1, 3, 1, 3, 2)]


@program
def index_masks():
    w = R(5).requires_grad_()

    def f(x):
        m = x > 0
        y = (x * w)[m]
        i = m.nonzero()
        return y.sum() + y.mean(), i, x.masked_select(m), torch.unique(m.long())

    return f, [(R(5),) for _ in range(5)] + [(torch.ones(5),), (torch.ones(5),)]


@program
def numbers_as_operands():
    def f(x, n):
        v, k = x.mean().item(), n.item()
        y = x * v + k
        y.sub_(v).div_(2 + v * v)
        return y, v - x, n * v, torch.add(x, v), x > v, [k * 2, v / 3], n + k

    return f, [(R(3).requires_grad_() if k < 0 else R(3), torch.tensor(k)) for k in range(4)]


@program
def stochastic_depth():
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def f(x):
        for l in layers:
            if random.random() < 0.5:
                x = l(x)
        return x * random.uniform(1, 2) + np.random.rand() + random.choice([1, 2])

    def calls():
        random.seed(0)
        np.random.seed(0)
        for _ in range(9):
            yield (R(2, 4),)

    return f, calls


@program
def chained_conditions():
    def f(x, y):
        a = x.sum() > 0 and y.sum() > 0
        b = x.sum() > 0 or bool(y.sum() > 0)
        c = not (x.min() < -5)
        v = float(x.max())
        kind = "big" if v > 2 else "small" if 0 < v <= 2 else "none"
        return x + 1 if a is True else y, bool(b), c, kind, max(v, 1.0), abs(round(v, 2))

    return f, [(R(3) * a, R(3) * b) for a, b in ((1, 1), (1, -1), (3, 1), (0, 1), (1, 1))]


@program
def equal_tensors():
    def f(x, y):
        if torch.equal(x, y) or torch.allclose(x, y + 5):
            return x * 2
        return y

    a = R(3)
    return f, [(a, a.clone()), (a, a + 1), (a, a.clone()), (a, a - 5)]


@program
def raises_by_data():
    def f(x):
        if torch.isnan(x).any():
            raise ValueError(f"not a number: {x.isnan().sum().item()}")
        assert x.max() < 100, "too big"
        return x.sqrt()

    return f, [(torch.ones(2) * v,) for v in (1, float("nan"), 2, 200, 3)]


@program
def best_of():
    c = Cfg()
    c.best = float("inf")

    def f(x):
        loss = x.square().mean()
        v = loss.item()
        if v < c.best:
            c.best = v
            c.kept = x.clone()
        return v - c.best

    return f, [(torch.ones(3) * k,) for k in (5, 4, 6, 3, 7, 7, 2)]


@program
def gradient_accumulation():
    torch.manual_seed(0)
    m = nn.Linear(3, 1)
    c = Cfg()
    c.k = 0

    def f(x):
        loss = m(x).mean()
        loss.backward()
        c.k += 1
        if m.weight.grad.norm() > 2.5:
            m.zero_grad()
            c.log.append(c.k)
        return loss.detach()

    return f, [(torch.ones(2, 3),) for _ in range(7)]


@program
def backward_that_changes_objects():
    seen = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(len(seen))
            return g * 3

    def f(x, detached):
        y = Seen.apply(x)
        y.register_hook(lambda g: seen.append("hook"))
        return y.detach() if detached else y.sum()

    return f, [(R(3).requires_grad_(), k % 2 == 0) for k in range(4)]


COUNTER = 0


@program
def counters():
    globals()["COUNTER"] = 0
    c, d, log = Cfg(), {"n": 0, "other": 1.5}, []
    c.n = 0
    k = 0

    def f(x, scale):
        global COUNTER  # noqa: PLW0603
        nonlocal k
        COUNTER += 1
        k += 1
        c.n += 1
        d["n"] += 1
        d["last"] = d["n"] * 2
        d["sum"] = d.get("sum", 0) + k
        log.append(k)
        log.append(x.sum().item() + scale)
        if c.n % 3 == 0:
            x = x + 1
        if "missing" in d:
            x = x * 7
        return x * scale + k, d["last"], COUNTER, f"{c.n}", log[-1] if c.n > 100 else None

    def calls():
        for n in range(14):
            if n == 12:
                d["missing"] = 1
            yield R(2), 0.5 * n

    return f, calls


@program
def written_and_read_again():
    c = Cfg()

    def f(x):
        c.last = x.sum().item()
        c.twice = c.last * 2
        c.pair = [c.last, c.twice]
        c.log.append((c.last, 1))
        return c.twice + c.last, c.pair[1], {"a": c.pair}

    return f, rows()


@program
def texts_of_containers():
    def f(x):
        v = x.sum()
        texts = "%s|" % v, "%.2f" % v, "%s %r" % (v, 1), "%(a)s" % {"a": v}  # noqa: UP031
        return texts, str({"a": v, "b": [v]}), repr([v]), f"{[v, 1]}"

    return f, rows()


@program
def texts_of_generators():
    def f(x):
        parts = [x.sum(), x.mean()]
        return (
            ",".join(str(v) for v in parts),
            max(v.item() for v in parts),
            sum(float(v) for v in parts),
        )

    return f, rows()


@program
def generators_that_end_early():
    asked = []

    def noted(v):
        asked.append(1)
        return v > 0

    def f(x):
        parts = x.sum(), -x.sum(), x.max()
        asked.append(0)
        return any(noted(v) for v in parts), all(noted(v) for v in parts)

    return f, signs()


@program
def numbers_of_tensors():
    def f(x):
        v, n = x.abs().sum(), (x > 0).sum()
        return (
            math.sqrt(v), math.floor(v), math.isnan(v), abs(v), [k * 2 for k in range(n)], [0] * n.item(),
            list(range(n.item())), hex(n), str(v.item()).upper(), str(v).replace("tensor", ""),
        )  # fmt: skip

    return f, [(torch.ones(n),) for n in (2, 2, 3, 2)] + [(torch.tensor([-1.0, 2.0]),)] * 3


@program
def tensors_as_keys():
    def f(x):
        return {x: 1}[x]

    return f, rows()


@program
def places_in_numbers():
    """`nonzero` of a tensor without dimensions gives another shape for each truth."""

    def f(x):
        v = x.sum() > 0
        return v.nonzero(), torch.argwhere(v), v.nonzero(as_tuple=True)

    return f, signs()


@program
def losses_beside_the_loss():
    model, kept = nn.Linear(4, 3), {}

    def f(x):
        model.zero_grad()
        y = model(x)
        first, second = y.square().mean(), y.abs().sum()
        (first + second).backward()
        kept["y"] = y
        return first + 0, second

    return f, rows()


@program
def losses_that_save_nothing():
    w = torch.ones(3, requires_grad=True)

    def f(x):
        loss = w.sum() + x.sum()
        loss.backward()
        return loss

    return f, [(R(3),) for _ in range(3)]


@program
def branch_behind_writes_to_data():
    """Writes by `.data`, which counts them apart, are taken back too where a run goes another way."""
    model = nn.Linear(4, 3)

    def f(x):
        model.weight.data.mul_(0.5)
        model.weight.data[0].add_(1)
        y = model(x)
        if y.sum() > 0:
            y = y + 1
        return y

    return f, signs()


@program
def histories_of_leaves_made_inside():
    def f(x):
        y = (x * 2).requires_grad_()
        return y * 3

    return f, rows()


@program
def dictionaries_of_modules():
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Tanh()})

    def f(x):
        for name, part in model.items():
            x = part(x) * len(name)
        return x, [*model], len(model), "a" in model

    return f, rows()


@program
def numbers_in_views_of_leaves():
    def f(x):
        x.view(-1)[::2] = 3
        return x

    return f, [(R(3, 4).requires_grad_(k == 2),) for k in range(4)]


@program
def writes_to_a_view_between_equal_reads():
    base = torch.zeros(4)
    view = base[1:]

    def f(x):
        for _ in range(2):
            view.add_(1)
            x = x + base.sum() * base[0:3].mean()
        return x

    return f, rows()


@program
def numbers_of_tensors_that_raise():
    """Whether Python's arithmetic raises is another thing in each run, and so is what handles it."""
    n = 0

    def f(x):
        nonlocal n
        n += 1
        try:
            mean = 1 / x.sum().item()
            n += 10
        except ZeroDivisionError:
            mean = 7.0
        with contextlib.suppress(OverflowError):
            mean += math.exp(x.max().item())
            n += 100
        return x * mean

    values = (0.0, 2.0, 5000.0, 0.0, 2.0, 5000.0, 1.0)
    return f, [(torch.full((2,), k),) for k in values] + [(torch.full((2,), 2.0),)]


@program
def numbers_of_tensors_that_raise_and_are_not_handled():
    n = 0

    def f(x, k):
        nonlocal n
        n += 1
        y = x / (1 + k)
        n += round(1 / x.sum().item())
        return y * (2 / k)

    values = ((2.0, 1), (2.0, 2), (0.0, 3), (2.0, 0), (2.0, 1), (0.0, 0), (1.0, 4))
    return f, [(torch.full((2,), x), k) for x, k in values]


@program
def numbers_that_raise_behind_small_writes():
    """What the function changed before an exception that it does not handle is changed."""
    m, n = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5)), [0]

    def f(x):
        n[0] += 1
        y = m(x)
        n.append(math.sqrt(x.sum().item()))
        n[0] += 10
        return y.detach() / n[-1], f"{n[0]:d} %d" % n[0]

    return f, [(torch.full((2, 2), k),) for k in (1.0, 2.0, -1.0, 3.0, -2.0, 0.0, 1.0)]


@program
def numbers_that_raise_behind_an_optimizer():
    """The perplexity of a step."""
    m = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(m.parameters(), 0.0)

    def f(x):
        optimizer.zero_grad()
        loss = m(x).abs().sum()
        loss.backward()
        optimizer.step()
        try:
            perplexity = math.exp(loss.item())
        except OverflowError:
            perplexity = math.inf
        return loss.detach(), perplexity

    return f, [(torch.full((2,), k),) for k in (1.0, 1.0, 1e6, 1.0, 1e6, 2.0)]


@program
def numbers_that_raise_behind_draws_and_writes():
    seen = torch.zeros(2)

    def f(x):
        y = x + torch.rand(2) * 1e-3
        seen.add_(1)
        try:
            k = math.log(x.sum().item())
        except ValueError as e:
            k = len(str(e))
        return y * k, torch.rand(1)

    return f, [(torch.full((2,), k),) for k in (1.0, 1.0, -1.0, 1.0, -1.0, 2.0)]


@program
def sorted_by_values_of_tensors():
    l = nn.Linear(3, 3)

    def f(a, b, c):
        down = sorted([a, b, c], key=lambda t: t.sum().item(), reverse=True)
        scored = sorted([(a, a.mean().item()), (b, 0.5), (c, 1)], key=lambda p: -p[1])
        first = min((l(a), l(b)), key=lambda t: t.norm())
        return (
            down,
            max(a, b, key=lambda t: t.sum()),
            scored[0][0],
            first,
            max(1, 5, 3, key=lambda v: -v),
        )

    return f, [(R(3), R(3), R(3)) for _ in range(30)]


@program
def sorted_by_what_cannot_be_compared():
    def f(a, b):
        try:
            return max([a, b], key=lambda t: t * 2)
        except RuntimeError as e:
            return str(e)

    return f, [(R(k), R(k)) for k in (2, 2, 1, 1, 1, 2)]


@program
def numbers_and_texts_that_python_keeps_stay_plain():
    c = Cfg()
    c.counts, c.table, c.log = collections.Counter(), {}, []

    def numbers(n):
        try:
            yield n
            yield n
        finally:
            c.log.append(n)

    def f(x, n):
        c.counts[f"k{n}"] = int(x.sum() > 0) + n
        c.table.setdefault(f"k{n}", n)
        for k in numbers(int((x > 0).sum())):
            if n == 2:
                raise ValueError(x[k:].view(-1).shape)
        kinds = [*c.counts, *c.counts.values(), *c.table, *c.table.values(), *c.log]
        return [v.__class__.__mro__[1] is object for v in kinds], c.counts, c.table, c.log

    return f, [(R(3), n) for n in (0, 1, 2, 3, 2, 4)]


@program
def lists_of_numbers_that_are_shuffled():
    c, stream = Cfg(), random.Random(3)

    def f(x):
        c.log[:1] = [len(c.log)]
        c.log.append(stream.randrange(9))
        stream.shuffle(c.log)
        return x * 2, c.log

    return f, [(R(3),) for _ in range(6)]


@program
def functions_that_are_mapped_later():
    told = []

    def f(a, b):
        n = 1
        scaled = map(lambda t: t * n, [a, b])  # noqa: C417 - it is `map` that is tested
        large = filter(lambda k: k > n, [1, 2, 3])
        notes = map(told.append, [1, 2])
        told.append(9)
        n = 2
        endless = map(lambda k: a * k, itertools.count(3))  # noqa: C417 - as above
        return list(scaled), list(large), list(notes), next(endless), [*filter(None, (0, n))]

    return f, [(R(3), R(3)) for _ in range(4)]
