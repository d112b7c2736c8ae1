"""Programs as users of PyTorch write them, for tests/test_compile.py, as in compile_programs.py."""

# ruff: noqa: E501, E701, E702, E711, E731, E741, N805, S311, B023, SIM105, SIM117, PLW0603, PERF401, C416, C417, RET504, S102, S307
from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import time
import typing

import rushlight as torch
from compile_programs import Cfg, R, program
from rushlight import nn
from rushlight.nn import functional as F

logger = logging.getLogger("compile_user_programs")


def w():
    return [(R(3, 4),) for _ in range(4)]


def L():
    return nn.Linear(4, 4)


@program
def log_it():
    def f(x):
        logger.info("x %s", x.sum().item())
        logging.debug("a")
        return x * 2

    return f, w()


@program
def timing():
    def f(x):
        t = time.time()
        y = x * 2
        time.perf_counter()
        return y if time.time() - t >= 0 else x

    return f, w()


@program
def tolist():
    def f(x):
        l = x.sum(0).tolist()
        return x * 2, l, sum(l), [v * 2 for v in l], x.shape

    return f, w()


@program
def custom_fn():
    class Sq(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * ctx.k, None

    m = L()
    return (lambda x: Sq.apply(m(x), 2).sum()), w()


@program
def ste():
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    m = L()

    def f(x):
        m.zero_grad()
        l = Round.apply(m(x) * 3).square().sum()
        l.backward()
        return l.detach(), m.weight.grad.clone()

    return f, w()


@program
def checkpointing():
    m = nn.Sequential(L(), nn.ReLU(), L())
    from rushlight.utils.checkpoint import checkpoint

    def f(x):
        return checkpoint(m, x, use_reentrant=False).sum()

    return f, w()


@program
def tensor_hook():
    m = L()

    def f(x):
        y = m(x)
        y.register_hook(lambda g: g * 2)
        return y.sum()

    return f, w()


@program
def fwd_hook_feats():
    m = nn.Sequential(L(), nn.ReLU(), L())
    feats = {}
    m[1].register_forward_hook(lambda mod, i, o: feats.__setitem__("f", o.detach()))
    return (lambda x: (m(x).sum().detach(), feats["f"].mean())), w()


@program
def comprehension():
    return (
        lambda x: (
            [v * 2 for v in x],
            {k: v.sum() for k, v in enumerate(x)},
            {i for i in range(3)},
            sum(v.sum() for v in x.unbind(1)),
        )
    ), w()


@program
def withs():
    @contextlib.contextmanager
    def scope(n):
        yield n * 2

    def f(x):
        with scope(3) as k, torch.no_grad():
            y = x * k
        with contextlib.nullcontext():
            y = y + 1
        with contextlib.suppress(KeyError):
            {}["a"]
        with torch.enable_grad(), torch.set_grad_enabled(False):
            y = y * 2
        return y

    return f, w()


@program
def tries():
    def f(x):
        try:
            y = x @ torch.ones(5, 2)
        except RuntimeError as e:
            y = x * len(str(e)[:3])
        try:
            raise ValueError("a")
        except (ValueError, KeyError) as e:
            y = y + len(e.args)
        finally:
            y = y * 1
        return y

    return f, w()


@dataclasses.dataclass
class Conf:
    width: int = 4
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class OutD:
    logits: typing.Any
    loss: typing.Any = None


@program
def dataclass_out():
    c = Conf()

    def f(x):
        o = OutD(x * c.scale)
        o = dataclasses.replace(o, loss=o.logits.sum())
        return o.loss, o.logits

    return f, w()


@program
def dataclass_ret():
    return (lambda x: OutD(x * 2, x.sum())), w()


class NT(typing.NamedTuple):
    a: typing.Any
    b: int = 1


@program
def partials():
    g = functools.partial(F.leaky_relu, negative_slope=0.2)
    h = functools.reduce

    def f(x):
        return g(x) + h(lambda a, b: a + b, [x, x, x]), functools.partial(torch.add, x)(x)

    return f, w()


@program
def iters():
    def f(x, y):
        r = [a + b for a, b in zip(x, y)]
        e = [i * v for i, v in enumerate(x, 1)]
        c = list(itertools.chain([x], [y]))
        p = list(itertools.product([1, 2], [3]))
        z = sorted([3, 1, 2], key=lambda v: -v)
        q = list(map(lambda v: v * 2, x))
        fl = list(filter(lambda v: v > 1, [1, 2, 3]))
        rv = list(reversed(r))
        a = itertools.accumulate([1, 2, 3])
        return (
            r,
            e,
            c,
            p,
            z,
            q,
            fl,
            rv,
            list(a),
            any(v > 2 for v in z),
            all([]),
            min([3, 2]),
            isinstance(x, torch.Tensor),
            getattr(x, "nothing", None),
            next(iter(r)),
        )

    return f, [(R(2, 3), R(2, 3)) for _ in range(3)]


class Kind(enum.Enum):
    A = "a"
    B = "b"


@program
def enums():
    c = Cfg()
    c.kind = Kind.A

    def f(x):
        if c.kind is Kind.A:
            x = x + 1
        if c.kind == Kind.B:
            x = x * 3
        return x, c.kind.value, c.kind.name

    return f, w()


@program
def star():
    def g(*a, k=1, **kw):
        return sum(a) * k + kw.get("z", 0)

    def f(x, *xs, **kw):
        return g(x, *xs, **kw), len(xs)

    return f, [(R(2), R(2)), (R(2), R(2)), (R(2),)]


@program
def sched():
    m = L()
    o = torch.optim.Adam(m.parameters(), 0.1)
    sc = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)

    def f(x):
        o.zero_grad(set_to_none=True)
        l = m(x).square().mean()
        l.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        sc.step()
        return l.item()

    return f, w()


@program
def ema():
    m = L()
    e = copy.deepcopy(m)

    def f(x):
        with torch.no_grad():
            for p, q in zip(m.parameters(), e.parameters()):
                q.mul_(0.9).add_(p, alpha=0.1)
            for a, b in e.state_dict().items():
                b.mul_(1.0)
        return e(x)

    return f, w()


@program
def metrics():
    tot = {"loss": 0.0, "n": 0}
    hist = []
    m = L()

    def f(x, y):
        o = m(x)
        l = F.cross_entropy(o, y)
        tot["loss"] += l.item() * len(x)
        tot["n"] += len(y)
        hist.append(l.item())
        acc = (o.argmax(1) == y).float().mean().item()
        tot["acc"] = acc
        return l, tot["loss"] / tot["n"], acc

    return f, [(R(3, 4), torch.tensor([0, 1, 2])) for _ in range(6)]


@program
def argmax_int():
    def f(x):
        return [int(v) for v in x.argmax(1)], x.argmax().item(), (x > 0).sum().item() / x.numel()

    return f, w()


@program
def mha():
    m = nn.MultiheadAttention(4, 2, batch_first=True)
    return (lambda x: m(x, x, x, need_weights=True)), [(R(2, 3, 4),) for _ in range(3)]


@program
def gan():
    g, d = L(), nn.Linear(4, 1)
    og, od = [torch.optim.Adam(q.parameters(), 0.01) for q in (g, d)]

    def f(x):
        z = torch.randn(3, 4)
        od.zero_grad()
        fake = g(z)
        ld = F.binary_cross_entropy_with_logits(
            d(x), torch.ones(3, 1)
        ) + F.binary_cross_entropy_with_logits(d(fake.detach()), torch.zeros(3, 1))
        ld.backward()
        od.step()
        og.zero_grad()
        lg = F.binary_cross_entropy_with_logits(d(fake), torch.ones(3, 1))
        lg.backward()
        og.step()
        return ld.item(), lg.item()

    return f, w()


@program
def dqn():
    q, t = L(), L()
    o = torch.optim.Adam(q.parameters(), 0.01)

    def f(s, a, r, s2, done):
        with torch.no_grad():
            y = r + 0.9 * t(s2).max(1).values * (1 - done)
        l = F.smooth_l1_loss(q(s).gather(1, a[:, None]).squeeze(1), y)
        o.zero_grad()
        l.backward()
        for p in q.parameters():
            p.grad.data.clamp_(-1, 1)
        o.step()
        for p, k in zip(t.parameters(), q.parameters()):
            p.data.copy_(p.data * 0.9 + k.data * 0.1)
        return l

    return f, [(R(3, 4), torch.tensor([0, 1, 2]), R(3), R(3, 4), torch.zeros(3)) for _ in range(4)]


@program
def penalty():
    d = nn.Linear(4, 1)

    def f(x, y):
        e = torch.rand(3, 1)
        z = (e * x + (1 - e) * y).requires_grad_(True)
        o = d(z)
        (g,) = torch.autograd.grad(o.sum(), z, create_graph=True)
        return ((g.norm(2, dim=1) - 1) ** 2).mean()

    return f, [(R(3, 4), R(3, 4)) for _ in range(3)]


@program
def setattr_mod():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = L()
            s.register_buffer("h", torch.zeros(4))
            s.steps = 0
            s.last = None

        def forward(s, x):
            s.steps += 1
            y = s.l(x)
            s.h = 0.9 * s.h + 0.1 * y.detach().mean(0)
            s.last = y.detach()
            return y + s.h

    return M(), w()


@program
def buffers_inplace():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = L()
            s.register_buffer("n", torch.tensor(0))
            s.register_buffer("q", torch.zeros(8, 4))
            s.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

        def forward(s, x):
            s.n += 1
            y = s.l(x)
            p = int(s.ptr)
            s.q[p : p + 2] = y.detach()[:2]
            s.ptr[0] = (p + 2) % 8
            return y @ s.q.t()

    return M(), w()


@program
def multi_opt():
    m = L()
    o = torch.optim.AdamW(
        [{"params": [m.weight], "weight_decay": 0.1}, {"params": [m.bias], "lr": 0.5}], lr=0.01
    )

    def f(x):
        for g in o.param_groups:
            g["lr"] = g["lr"] * 0.9
        l = m(x).sum()
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return f, w()


@program
def tqdm_like():
    class Bar:
        def __init__(s):
            s.n = 0
            s.t = ""

        def update(s, k=1):
            s.n += k

        def set_postfix(s, **k):
            s.t = ", ".join(f"{a}={b:.3f}" for a, b in k.items())

    b = Bar()

    def f(x):
        l = x.mean()
        b.update()
        b.set_postfix(loss=l.item())
        return l, b.t

    return f, w()


@program
def namespaces_that_are_looked_at():
    """Built-in functions that look at the frame of their caller."""

    def f(x):
        y = 2
        n = len(globals()["w"]())
        x = x * eval("y + 1") + len(locals()) + len(vars()) + ("x" in dir())
        exec("y = 7")
        return x * y + n + sum(v + eval("1") for v in range(2))

    return f, w()


@program
def namespaces_behind_what_stops_a_capture():
    def f(x):
        x.detach().numpy()
        return x * len(locals()) + eval("x + 1")

    return f, w()


@program
def keywords_of_methods_that_change():
    d, many, flip = {}, [3, 1, 2], [False]

    def f(x):
        d.update(z=x.shape[0], y=2)
        pairs = [(2, "b"), (1, "a"), (3, "c")]
        pairs.sort(key=lambda v: v[0] * (1 if flip[0] else -1))
        many.sort(key=lambda v: -v, reverse=flip[0])
        return x * pairs[0][0] + many[0] * d["z"]

    def calls():
        for n in range(6):
            flip[0], many[:] = n % 3 == 2, [3, 1, 2]
            yield (R(3, 4),)

    return f, calls


@program
def modules_in_a_list_that_grows():
    """The number of parameters is another one in each call, and their names with it."""
    layers = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def f(x):
        for n, p in enumerate(layers):
            x = x * p + getattr(layers, str(n)).sum() + hasattr(layers, str(n + 1))
        return x

    def calls():
        for n in range(4):
            yield (R(3, 4),)
            yield (R(3, 4),)
            layers.append(nn.Parameter(torch.full((4,), n + 2.0)))

    return f, calls


@program
def containers_behind_what_stops_a_capture():
    """They are changed in place by what is called, also where they hold numbers that were read from tensors."""

    class Kept:
        def add(self, v):
            v.append(1)
            self.v = v

    kept = Kept()

    def f(x):
        v = x.sum().item()
        many, kept.early = [v], v
        d = {"a": many}
        x.detach().numpy()
        kept.add(many)
        kept.d = kinds = {"z": [v]}
        return (
            len(many),
            kept.v is many,
            d["a"] is many,
            kept.d is kinds,
            type(many[0]) is float,
            type(kept.early) is float,
        )

    return f, w()


@program
def the_default_dtype_changes_inside():
    def f(x, d):
        torch.set_default_dtype(d)
        y = torch.ones(2) * 1.5
        torch.set_default_dtype(torch.float32)
        return y.dtype, y

    return f, [(R(2), d) for d in (torch.float64, torch.float32, torch.float64, torch.float64)]


@program
def the_cache_of_autocast_is_switched():
    def f(x, on):
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(on)
        return x * 2, before

    return f, [(R(2), on) for on in (False, True, False, False, True)]


class Named(dict):
    hits = 0

    def __missing__(self, k):
        return 3.0


class Output(collections.OrderedDict):
    def __getitem__(self, k):
        return dict(self.items())[k] if isinstance(k, str) else (*self.values(),)[k]

    def __getattr__(self, name):
        try:
            return dict.__getitem__(self, name)
        except KeyError:
            raise AttributeError(name) from None


@program
def dictionaries_of_the_users_as_arguments():
    def f(d):
        total = sum(t.sum() for t in d.values()) + len(d) + ("b" in d) + d["none"]
        d.hits = d.hits + 1
        return (
            total * d.hits,
            {**d},
            [k for k in d],
            d.get("b"),
            {k: t + 1 for k, t in d.items()},
            bool(d),
        )

    def calls():
        for k in (2, 2, 3):
            yield (Named(a=R(k)),)
        yield (Named(b=R(2), a=R(2)),)
        yield (Named(a=R(2), b=2),)
        yield ({"a": R(2), "none": 1, "b": 3},)
        yield (Named(),)
        yield (Named(a=R(2)),)

    return f, calls


@program
def outputs_as_arguments():
    f = lambda o: (o.a * 2 + o[0] + o["a"], o[1], hasattr(o, "c"))
    return f, [(Output(a=R(2), b=R(3)),) for _ in range(4)]


class Sample:
    def __init__(self, x, n):
        self.x, self.n, self.parts = x, n, [x + 1]


@program
def objects_as_arguments():
    def f(o):
        o.n += 1
        return o.x * o.n + o.parts[0].sum(), hasattr(o, "more")

    def calls():
        for k in (1, 2, 3, 4):
            yield (Sample(R(3), k),)
        yield (Sample(R(2), 3),)
        yield (Sample(R(3).double(), 3),)
        yield (Sample(R(3).requires_grad_(), 3),)
        yield (Sample(3.0, 3),)
        other = Sample(R(3), 4)
        other.more = 1
        yield (other,)
        other = Sample(R(3), 5)
        other.parts = [R(1), R(2)]
        yield (other,)
        other = Sample(R(3), 2)
        del other.n
        yield (other,)

    return f, calls


@program
def functions_with_numbers_that_change_as_defaults():
    queue = collections.deque(maxlen=4)

    def f(x, k):
        def inner(q, k=k):
            queue.append(k)
            queue.rotate(1)
            return q * k

        return inner(x), inner(x, 2), k

    return f, [(R(2), k) for k in (3, 1, 1, 3, 0, 1)]


@program
def exceptions_of_operators_that_are_handled():
    table, log = R(4, 2), []

    def f(x, k):
        try:
            table[torch.tensor([0, 2]) + k]
            log.append(k)
        except IndexError:
            log.append(-1)
        return x * 2

    return f, [(R(2), k) for k in (0, 0, 1, 3, 0, 1, 4, 0)]


@program
def arguments_that_are_what_is_read_elsewhere():
    kept = {"a": R(2), "n": [1]}

    def f(o, parts, d):
        parts.append(o.x.sum())
        d["a"] = o.x * 2
        d["n"] = [2]
        return kept["a"] + len(kept["n"]), o.parts[0] + len(o.parts), len(o.parts)

    def calls():
        for k in (1, 2, 3):
            yield Sample(R(2), k), [R(1)], {"a": R(2), "n": []}
        same = Sample(R(2), 1)
        yield same, same.parts, {"a": R(2), "n": []}
        yield Sample(R(2), 2), [R(1)], kept
        yield Sample(R(2), 2), [R(1)], {"a": R(2), "n": []}

    return f, calls


@program
def lists_that_grow_behind_what_stops_a_capture():
    def f(x, k, log):
        torch.manual_seed(k)
        log += [k]
        return x * len(log)

    log = []
    return f, [(R(2), k, log) for k in (1, 0, 3, 1, 1, 2)]


@program
def lists_of_arguments_that_are_what_is_read_elsewhere():
    kept = [R(1)]

    def f(o, parts):
        o.parts.append(o.x.sum())
        return o.x * (len(parts) + 10 * len(kept))

    def calls():
        for k in (1, 2, 3):
            yield Sample(R(2), k), [R(1)]
        for _ in range(3):
            same = Sample(R(2), 1)
            yield same, same.parts
        same = Sample(R(2), 2)
        same.parts = kept
        yield same, [R(1)]
        yield Sample(R(2), 2), [R(1)]

    return f, calls
