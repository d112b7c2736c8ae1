"""Programs whose integers say where something lies in a tensor and how large it is, for tests/test_compile.py, as in
compile_programs.py: Note [Sizes that change] in compiler/capture/sizes.py.
"""

# ruff: noqa: E501, E702, E731, N805
from __future__ import annotations

import rushlight as torch
from compile_programs import R, program
from rushlight import nn
from rushlight.nn import functional as F


def at(*positions, shape=(1, 4), more=()):
    """Calls with a tensor, a position, and more."""
    return [(R(*shape), p, *more) for p in positions]


class Attention(nn.Module):
    """Attention over the keys and values of all positions so far."""

    def __init__(s, n=8):
        super().__init__()
        s.qkv = nn.Linear(4, 12)
        s.out = nn.Linear(4, 4)
        s.places = nn.Embedding(n, 4)
        s.register_buffer("k", torch.zeros(1, 2, n, 2))
        s.register_buffer("v", torch.zeros(1, 2, n, 2))

    def forward(s, x, pos, scale=1.0):
        x = x + s.places(torch.arange(pos, pos + 1)) + s.places.weight[pos] * scale
        q, k, v = s.qkv(x).view(1, 1, 3, 2, 2).permute(2, 0, 3, 1, 4)
        s.k[:, :, pos : pos + 1] = k
        s.v[:, :, pos : pos + 1] = v
        k, v = s.k[:, :, : pos + 1], s.v[:, :, : pos + 1]
        a = F.softmax(q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5, -1) @ v
        b = F.scaled_dot_product_attention(q, k, v)
        return s.out((a + b).transpose(1, 2).reshape(1, 4)).relu()


@program
def keys_and_values_by_position():
    m = Attention()

    def calls():
        with torch.no_grad():
            for pos in (0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3):  # 8: behind the last one
                yield R(1, 4), pos
            yield R(1, 4), 2, 3.0
            yield R(1, 4), 4, 4.0
        yield R(1, 4), 5  # with gradients
        yield R(1, 4), 6

    return m, calls


@program
def keys_and_values_in_inference_mode_and_autocast():
    m = Attention()

    def calls():
        for mode in (
            torch.inference_mode(),
            torch.autocast("cpu", dtype=torch.bfloat16),
            torch.no_grad(),
        ):
            with mode, torch.no_grad():
                for pos in range(4):
                    yield R(1, 4), pos

    return m, calls


@program
def positions_that_are_counted():
    class Cache:
        def __init__(s):
            s.k, s.pos = torch.zeros(8, 4), 0

        def put(s, x):
            s.k[s.pos] = x[0]
            s.pos += 1
            return s.k[: s.pos]

    c = Cache()

    def f(x):
        k = c.put(x)
        return (x @ k.t()).softmax(-1) @ k, k

    return f, [(R(1, 4),) for _ in range(8)]


@program
def views_that_meet():
    b = torch.arange(12.0).view(6, 2).clone()

    def f(x, p, q):
        one, two = b[p : p + 2], b[q : q + 2]
        y = two * 2
        one.add_(1)
        z = two + y
        b[p : p + 1] = z[:1]
        b.mul_(0.9)
        return one + two, z, b[p], two[q % 2].clone()

    return f, [
        (R(1), p, q) for p, q in [(0, 4), (1, 4), (0, 3), (3, 3), (2, 1), (4, 0), (1, 1), (5, 4)]
    ]


@program
def writes_before_a_decision():
    b = torch.zeros(6, 4)

    def f(x, p):
        b[p] = x[0]
        b[: p + 1] += 1
        if x.sum() > 0:
            b[p : p + 1] = 2.0
        return b.sum(0) * p

    return f, at(0, 1, 2, 3, 4, 5, 6, 0, 2, 1)


@program
def sizes_that_python_reads():
    def f(x, n):
        y = x[:n]
        z = torch.cat([y, y * 2])
        total = len(y) + z.size(0) + y.shape[0] + y.numel() + y.stride(0) + y.dim()
        for row in y[:2]:
            total = total + row.sum()
        return total, y.dtype, z.size(-1), list(z.shape), f"{z.shape}"

    return f, at(1, 2, 3, 4, 0, 6, 3, shape=(6, 3))


@program
def sizes_that_are_handed_on():
    kept = []

    def f(x, n):
        y = x[n:] * 2
        a, b = y.chunk(2, 1)
        m = y.max(1)
        kept.append(y.sum(0))
        return {
            "y": y,
            "t": y.T,
            "a": (a, b + 1),
            "m": m.values,
            "n": y.clone().fill_(n),
            "s": y.mean(),
        }

    return f, at(1, 2, 3, 4, 0, 3, shape=(6, 4))


@program
def random_numbers_of_sizes_that_change():
    f = lambda x, n: F.dropout(x[:n], 0.5) + torch.rand(n, 3)
    return f, at(1, 2, 3, 4, 3, shape=(6, 3))


@program
def sizes_of_what_needs_a_gradient():
    w = torch.ones(6, 3, requires_grad=True)
    f = lambda x, n: (x[:n] * w[:n]).sum(0) + x[n - 1].detach()
    return f, at(1, 2, 3, 4, 3, 6, shape=(6, 3))


@program
def integers_in_every_place():
    def f(x, n):
        y = (
            x.narrow(0, n, 1)
            + x.select(0, n)
            + x[-1 - n]
            + x[..., n : n + 1]
            + x[n::2].sum(0)
            + x[:, None, n].sum()
        )
        z = (
            torch.zeros(n, 4),
            torch.full((2, n), 1.5),
            x.new_ones(n),
            torch.arange(n),
            torch.eye(4)[: n + 1],
        )
        return (
            y,
            z,
            x.roll(n, 0),
            x.tril(n),
            F.pad(x, (n, 0)),
            x.sum(n % 2),
            x.repeat(n, 1),
            x.expand(n + 1, 4, 4),
            torch.tensor([n, n + 1]),
        )

    return f, at(1, 2, 3, 0, 2, 3, shape=(4, 4))


@program
def written_by_sizes_that_change():
    def f(x, n):
        y = x * 1
        y[:n] = 0
        y[n] += 2
        z = x.clone()
        z[1:3].copy_(y[n : n + 2])
        x[n] = 7
        return y, z, x[:n].clone().zero_()

    return f, at(1, 2, 3, 0, 2, shape=(5, 2))


@program
def errors_of_sizes_that_change():
    told = []

    def f(x, n):
        try:
            return x[:, n].view(n) + x[:n]
        except (IndexError, RuntimeError) as e:
            told.append(str(e))
        return x[:n] + torch.ones(3)

    return f, at(1, 2, 3, 4, 5, 3, shape=(3, 3))


@program
def histories_of_views_that_change():
    w, b = torch.ones(2, requires_grad=True), torch.zeros(5, 2)

    def f(x, n):
        y = b.clone()[n : n + 1]
        z = torch.zeros(n, 2)
        z.add_(x[:1] * w)
        y.mul_(w)
        t = torch.tensor([1.0 * n, 2.0]).requires_grad_()
        return y.sum() + z.sum(), z, (t * w).sum()

    return f, at(1, 2, 3, 0, 2, shape=(5, 2))


@program
def statistics_of_sizes_that_change():
    layer, weights = nn.BatchNorm1d(2), torch.ones(6, 2)

    def f(x, n):
        y = layer(weights[:n] * x[:1])
        return y.split(1)[0], torch.relu_(weights[:n] + 1)

    return f, at(2, 3, 4, 5, 2, 3, shape=(5, 2))


@program
def writes_by_numbers_that_change_without_gradients():
    def f(x, n):
        with torch.no_grad():
            x[None] += n
            x[:1] *= n
        return x.mT.sum(0) * n

    def calls():
        for n in range(5):
            with torch.no_grad():
                yield R(4, 2).requires_grad_(), n
            yield R(4, 2), n

    return f, calls


class Decoder(nn.Module):
    """Counts its position itself, and looks back through a part of a mask."""

    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(10, 8)
        s.q = nn.Linear(8, 24)
        s.o = nn.Linear(8, 10)
        s.pos = 0
        s.register_buffer("mask", torch.ones(16, 16).tril().bool())
        s.register_buffer("k", torch.zeros(1, 2, 16, 4))
        s.register_buffer("v", torch.zeros(1, 2, 16, 4))

    def forward(s, ids):
        b, t = ids.shape
        q, k, v = (u.view(b, t, 2, 4).transpose(1, 2) for u in s.q(s.e(ids)).split(8, -1))
        s.k[:, :, s.pos : s.pos + t] = k
        s.v[:, :, s.pos : s.pos + t] = v
        k, v = s.k[:, :, : s.pos + t], s.v[:, :, : s.pos + t]
        hidden = ~s.mask[s.pos : s.pos + t, : s.pos + t]
        a = ((q @ k.mT) / 2).masked_fill(hidden, float("-inf")).softmax(-1) @ v
        s.pos += t
        return s.o(a.transpose(1, 2).reshape(b, t, 8))


@program
def a_text_that_is_generated():
    m = Decoder()

    def calls():
        with torch.no_grad():
            for _ in range(2):
                m.pos = 0
                for ids in ([1, 2, 3], *[[k] for k in range(10)]):
                    yield (torch.tensor([ids]),)

    return m, calls


@program
def numbers_of_tensors_that_follow_from_a_position():
    """How many parts there are, and whether numbers are drawn for them, depends on the position."""

    def f(k):
        x = torch.full((k, 4), 1.5)
        last = torch.arange(k + 1).split(2)[-1]
        return F.dropout(x[..., :], 0.5), last * 2, last.argmax()

    return f, [(k,) for k in (6, 7, 0, 3, 4, 5, 8)]


@program
def numbers_that_change_written_by_indices():
    def f(x, k):
        x[torch.tensor([0, 2]), 1] = k
        x[torch.tensor([1]), :2] = k * 0.5
        return x

    return f, [(R(3, 4) if k % 2 else R(3, 4).long(), k) for k in range(8)]
