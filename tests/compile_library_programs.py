"""Programs that use the library as trainings and generations of texts do, for tests/test_compile.py, as in compile_programs.py."""

# ruff: noqa: E501, E702, N805, S101
from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import typing
import warnings

import rushlight as torch
from compile_programs import R, program
from rushlight import nn
from rushlight.nn import functional as F

D = torch.distributions


def w(n=4):
    return [(R(3, 4),) for _ in range(n)]


def L(n=4, m=4):
    return nn.Linear(n, m)


@program
def scaled_gradients():
    m = L()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)

    def step(x):
        o.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = m(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(o)
        scaler.update()
        return loss.detach(), scaler.get_scale()

    return step, w(6)


@program
def variational():
    encoder, decoder = L(), L(2)
    o = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])

    def step(x):
        mean, log_var = encoder(x).chunk(2, -1)
        q = D.Normal(mean, (0.5 * log_var).exp())
        divergence = D.kl_divergence(q, D.Normal(0.0, 1.0)).mean()
        loss = F.mse_loss(decoder(q.rsample()), x) + divergence
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.item()

    return step, w()


@program
def likelihoods():
    m = L()

    def f(x):
        p = D.Independent(D.Normal(m(x), 1.0), 1)
        b = D.Bernoulli(logits=m(x))
        s = b.sample()
        a = x.abs() + 0.5
        return p.log_prob(x).mean() + b.log_prob(s).mean(), s, D.Beta(a, a + 1).mean, D.Gamma(a, 1.0).variance  # fmt: skip

    return f, w()


@program
def policy_gradient():
    m = L(4, 3)
    o = torch.optim.Adam(m.parameters())

    def step(x):
        d = D.Categorical(logits=m(x))
        a = d.sample()
        r = (a == 1).float()
        loss = -(d.log_prob(a) * (r - r.mean())).mean() - 0.01 * d.entropy().mean()
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.item(), a

    return step, w()


@program
def packed_sequences():
    m = nn.LSTM(4, 3, batch_first=True)

    def f(x, lengths):
        q = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        o, (h, _) = m(q)
        return nn.utils.rnn.pad_packed_sequence(o, batch_first=True)[0], h

    return f, [(R(2, 5, 4), torch.tensor(n)) for n in ([5, 3], [2, 5], [5, 3], [5, 3])]


@program
def greedy_generation():
    e, h = nn.Embedding(6, 4), L(4, 6)

    @torch.no_grad()
    def generate(t):
        for _ in range(4):
            following = h(e(t)).argmax(-1)[:, -1:]
            t = torch.cat([t, following], 1)
            if (following == 5).all():
                break
        return t

    return generate, [(torch.tensor([[k, 1], [2, k]]),) for k in range(4)]


@program
def sampled_generation():
    h = L(4, 6)

    @torch.inference_mode()
    def generate(x):
        logits = h(x) / 0.7
        best, _ = torch.topk(logits, 3)
        logits[logits < best[:, [-1]]] = -float("inf")
        return torch.multinomial(F.softmax(logits, -1), 1)

    return generate, w()


@program
def checks_of_the_library():
    def f(x):
        assert torch.isfinite(x).all()
        if not torch.jit.is_scripting() and not torch.jit.is_tracing():
            x = x + 1
        return x

    return f, w()


@program
def spectral_norms():
    return nn.utils.parametrizations.spectral_norm(L()), w()


@program
def meters():
    class AverageMeter:
        def __init__(s):
            s.reset()

        def reset(s):
            s.avg = s.sum = s.count = 0

        def update(s, v, n=1):
            s.sum += v * n
            s.count += n
            s.avg = s.sum / s.count

        def __str__(s):
            return f"{s.avg:.3f}"

    m = AverageMeter()

    def f(x):
        m.update(x.mean().item(), len(x))
        return x * 2, str(m), f"{m}"

    return f, w()


@program
def warned():
    def f(x):
        warnings.warn("a", stacklevel=1)
        return x * 2

    def calls():
        for args in w():
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                yield args
            if len(found) != 1 or not found[0].filename.endswith("library_programs.py"):
                raise AssertionError(found)

    return f, calls


@program
def decorated():
    def twice(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            return fn(*a, **k) * 2

        return inner

    class T:
        @twice
        def go(s, x):
            return x + 1

        @functools.cached_property
        def width(s):
            return 3

    t = T()
    return (lambda x: twice(lambda y: y - 1)(x) + t.go(x) * t.width), w()


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: typing.Any
    y: int = 2

    def double(s):
        return dataclasses.replace(s, y=s.y * 2)


@program
def frozen_data_classes():
    return (lambda x: Frozen(x).double()), w()


class Level(enum.IntEnum):
    A = 1
    B = 2


@program
def integer_enums():
    def f(x, k):
        return x * k if k == Level.A else x - k.value

    return f, [(R(3), k) for k in (Level.A, Level.B, Level.A, 1, Level.B)]


@program
def lists_as_indices():
    def f(x):
        y = torch.zeros(3, 4)
        y[:, 1] = x[:, 0]
        y[y > 0] = -1.0
        y[[0, 1]] += x[:2]
        y[torch.arange(3), torch.tensor([0, 1, 2])] = 5.0
        return y, x[[2, 0]], x[:, [True, False, True, False]], x[[0, 1], [1, 2]]

    return f, w()


@program
def bags():
    e = nn.EmbeddingBag(5, 4, mode="mean")
    return (lambda i: e(i)), [(torch.tensor([[k, 1, 2], [3, 4, k]]),) for k in range(3)]


@program
def an_optimizer_of_ones_own():
    m, states = L(), {}

    def f(x):
        m.zero_grad()
        m(x).square().mean().backward()
        with torch.no_grad():
            for n, p in m.named_parameters():
                s = states.setdefault(n, {"t": 0, "m": torch.zeros_like(p)})
                s["t"] += 1
                s["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.add_(s["m"] / (1 - 0.9 ** s["t"]), alpha=-0.1)
        return m.weight.detach().sum()

    return f, w(6)


@program
def calls_with_other_parameters():
    m = L()
    given = {k: v.detach().clone() for k, v in m.named_parameters()}
    return (lambda x: torch.func.functional_call(m, given, (x,))), w()


@program
def losses_in_a_dictionary():
    log = collections.defaultdict(list)

    def f(x):
        loss = x.mean()
        log["loss"].append(loss.item())
        return loss

    return f, w()


@program
def averaged_weights():
    m = L()
    a = torch.optim.swa_utils.AveragedModel(m)

    def f(x):
        a.update_parameters(m)
        return a(x)

    return f, w()


@program
def compiled_in_compiled():
    m = L()
    g = torch.compile(lambda x: m(x).relu())
    h = torch.compile(lambda x: g(x) * 2)
    return (lambda x: h(x) + g(x)), w()


@program
def a_smaller_last_batch():
    m = L(4, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(x):
        o.zero_grad()
        loss = F.cross_entropy(m(x), torch.zeros(len(x), dtype=torch.long))
        loss.backward()
        o.step()
        return loss.item()

    return step, [(R(n, 4),) for n in (8, 8, 3, 8, 8, 3, 5)]


@program
def keys_and_values():
    class Attention(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = L(4, 12)

        def forward(s, x, cache=None):
            q, k, v = s.q(x).chunk(3, -1)
            if cache is not None:
                k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
            return F.scaled_dot_product_attention(q, k, v), (k, v)

    m = Attention().eval()

    def generate(x):
        cache, outs = None, []
        with contextlib.ExitStack(), torch.no_grad():
            for k in range(3):
                y, cache = m(x[:, k : k + 1], cache)
                outs.append(y)
        return torch.cat(outs, 1), cache

    return generate, [(R(2, 3, 4),) for _ in range(3)]


@program
def generators_of_their_own():
    g = torch.Generator().manual_seed(3)
    return (lambda x: x + torch.randn(x.shape, generator=g)), w()


@program
def generators_of_their_own_in_place():
    g = torch.Generator().manual_seed(3)

    def f(x):
        drawn = [
            torch.ones(3).normal_(1, 2, generator=g),
            x.clone().uniform_(generator=g),
            torch.zeros(3).random_(2, 9, generator=g),
            torch.zeros(3).bernoulli_(torch.full((3,), 0.5), generator=g),
            nn.init.trunc_normal_(torch.empty(3), generator=g),
        ]
        return drawn, torch.rand(2)

    return f, [(R(3),) for _ in range(4)]


@program
def items_taken_out():
    queue, d = [], {}

    def f(x):
        d["x"] = x
        k = queue.pop()
        d.pop("y", None)
        return x * k, d.pop("x") + len(queue), [*d]

    def calls():
        for k in range(6):
            queue[:] = [1, 2 + k // 3]
            d.update({"y": 1} if k % 2 else {})
            yield (R(3),)

    return f, calls


@program
def changed_and_read():
    cache = {"a": 1}

    def f(x):
        cache["a"] = x.sum()
        cache["b"] = x
        return sum(v.sum() for v in cache.values()), [*cache]

    return f, w()


@program
def adversarial_examples():
    m = L(4, 2)

    def f(x):
        x = x.detach().clone()
        x.requires_grad = True
        loss = F.cross_entropy(m(x), torch.zeros(3, dtype=torch.long))
        m.zero_grad()
        loss.backward()
        return (x + 0.1 * x.grad.sign()).clamp(-1, 1).detach()

    return f, w()


class TooLarge(Exception):
    def __init__(s, k):
        super().__init__(k)
        s.k = k


@program
def exceptions_with_values():
    def check(x):
        if x.sum() > 0:
            raise TooLarge(3)
        return x

    def f(x):
        try:
            return check(x)
        except TooLarge as e:
            return x * e.k

    return f, w(6)


@program
def saliency():
    m = L(4, 1)

    def f(x):
        x = x.detach().requires_grad_()
        m.zero_grad()
        m(x).sum().backward()
        g = x.grad
        x.grad = None
        (m(x) ** 2).sum().backward()
        return g, x.grad.abs(), m.weight.grad.clone()

    return f, w()


@program
def second_derivatives():
    m = nn.Sequential(L(1), nn.Tanh(), L(4, 1))
    o = torch.optim.Adam(m.parameters())

    def f(x):
        t = x[:, :1].detach().requires_grad_(True)
        u = m(t)
        (du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
        (d2u,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        loss = (d2u + u).square().mean()
        o.zero_grad()
        loss.backward()
        o.step()
        return loss.item(), t.grad.sum()

    return f, w()


@program
def leaves_on_the_memory_of_arguments():
    def f(x, y):
        leaf = x.detach().requires_grad_()
        (leaf * y).sum().backward()
        with torch.no_grad():
            leaf -= leaf.grad
        return x + 1, y.requires_grad

    return f, [(R(3), R(3)) for _ in range(3)] + [(R(3), R(3).requires_grad_())] * 2


@program
def steps_through_other_parameters():
    """Model-agnostic meta-learning: the gradient of a loss after a step, by `functional_call`."""
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)

    def f(x):
        p = dict(m.named_parameters())
        loss = torch.func.functional_call(m, p, (x,)).square().mean()
        g = torch.autograd.grad(loss, list(p.values()), create_graph=True)
        q = {k: v - 0.1 * d for (k, v), d in zip(p.items(), g, strict=True)}
        after = torch.func.functional_call(m, q, (x + 1,)).square().mean()
        optimizer.zero_grad()
        after.backward()
        optimizer.step()
        return after.detach(), [v.detach().clone() for v in m.parameters()]

    return f, [(R(2, 3),), (R(2, 3),), (R(2, 3),)]


@program
def sparse_gradients():
    e = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(e.parameters(), lr=0.1)

    def f(i):
        loss = e(i).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), e.weight.detach().clone()

    return f, [(torch.tensor([0, 1]),), (torch.tensor([1, 4]),), (torch.tensor([1, 1]),)]


@program
def kernels_of_attention():
    layer = L(4, 12)

    def f(x):
        q, k, v = layer(x).chunk(3, -1)
        with torch.backends.cuda.sdp_kernel(enable_flash=False):  # FutureWarning
            y = F.scaled_dot_product_attention(q, k, v)
            asked = torch.backends.cuda.flash_sdp_enabled()
        return y.sum(), asked, torch.backends.cuda.flash_sdp_enabled()

    def calls():
        for n in (3, 3, 5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield (R(2, n, 4),)

    return f, calls


class Recomputed(torch.autograd.Function):
    """Computes again in the backward pass, and then forgets what it was given."""

    @staticmethod
    def forward(ctx, run, n, *given):
        ctx.run, ctx.inputs, ctx.weights = run, list(given[:n]), list(given[n:])
        with torch.no_grad():
            return ctx.run(*ctx.inputs)

    @staticmethod
    def backward(ctx, g):
        ctx.inputs = [x.detach().requires_grad_() for x in ctx.inputs]
        with torch.enable_grad():
            y = ctx.run(*[x.view_as(x) for x in ctx.inputs])
        found = torch.autograd.grad(y, ctx.inputs + ctx.weights, g, allow_unused=True)
        ctx.weights.clear()
        del ctx.inputs, ctx.weights
        return None, None, *found


@program
def functions_that_forget_in_their_backward():
    net = L()

    def f(x):
        return Recomputed.apply(lambda x: net(x).tanh(), 1, x * 2, *net.parameters())

    return f, [(R(2, 4).requires_grad_(),) for _ in range(3)] + [(R(3, 4),)]


@program
def questions_of_processes_and_traces():
    """Beside two views with a history, behind which no function is split."""
    layer = L()

    def f(x):
        q, k = layer(x).chunk(2, -1)
        if torch.vision._is_tracing():
            q = q + 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            k = k + 1
        return (q * k).sum()

    return f, w()
