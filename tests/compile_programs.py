"""Programs that use Python in every way, for tests/test_compile.py: each gives a function and the arguments of some calls.

`calls` is a list of tuples of arguments, or a generator function that also changes what the function reads.
"""

# ruff: noqa: E501, E701, E702, E703, E731, PLW0603, N805, B023, S311
from __future__ import annotations

import collections
import dataclasses
import math
import random

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


def R(*shape):
    return torch.randn(*shape)


def rows():
    return [(R(3, 4),) for _ in range(4)]


def whole_rows():
    """Numbers whose sums and means are exact, in whatever order a kernel adds them."""
    return [(torch.arange(16.0).view(4, 4) + k,) for k in range(4)]


@program
def simple():
    return (lambda x: (x.relu() * 2 + 1).sum(0)), rows()


@program
def branches_on_args():
    def f(x, flag, n=2):
        if flag:
            x = x + 1
        for i in range(n):
            x = x * i + 1
        return x

    return f, [(R(3), True), (R(3), False), (R(3), True, 3), (R(3), True), (R(3), False)]


@program
def closure_counter():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f, rows() * 4


G = {"scale": 2.0}


@program
def globals_dict():
    def f(x):
        return x * G["scale"]

    def calls():
        for k in range(6):
            if k == 3:
                G["scale"] = 5.0
            yield (R(3),)
        G["scale"] = 2.0

    return f, calls


class Cfg:
    mode = "a"

    def __init__(s):
        s.k = 3
        s.log = []


@program
def object_attributes():
    c = Cfg()

    def f(x):
        c.log.append(len(c.log))
        c.last = x.sum()
        return x * c.k if c.mode == "a" else x - c.k

    def calls():
        for k in range(8):
            if k == 2:
                c.k = 7
            if k == 4:
                c.mode = "b"
            if k == 6:
                del c.mode
            yield (R(3),)

    return f, calls


@program
def structures():
    def f(d):
        x = d["a"][0] + d["b"]
        return {"s": x.sum(), "l": [x, x * 2, (x,)], "n": len(d)}

    return f, [({"a": [R(2), 1], "b": R(2)},) for _ in range(3)] + [
        ({"a": [R(2), 1], "b": R(2), "c": 1},)
    ]


@program
def early_return():
    def f(x, k):
        if k is None:
            return x
        if isinstance(k, str):
            return x, k
        return x[k:]

    return f, [(R(4), None), (R(4), "q"), (R(4), 2), (R(4), 3), (R(4), None)]


@program
def shapes():
    def f(x):
        return x.view(x.shape[0], -1).sum(1) / x.numel()

    return f, [(R(2, 3),), (R(4, 3),), (R(2, 3),), (R(2, 3, 2),), (R(3, 2).t(),)]


@program
def writes_of_tensors_to_themselves():
    """Whole, and through views. (With a gradient the function as written refuses backward, a program keeps a copy.)"""

    def f(x):
        a, b, c, d = (x * 3 for _ in range(4))
        a.mul_(a)
        b.addcmul_(x, b, value=0.1)
        c.view(-1).mul_(c.view(-1))
        d.gt_(0.1)
        return a, b, c, d + x

    return f, [(R(3, 4),) for _ in range(3)]


@program
def writes_of_a_diagonal_to_its_matrix():
    """What is read lies where it is written, in other steps: no element is read behind the write to it."""
    b = R(4, 4)

    def f(x):
        b.add_(b.diagonal()).mul_(0.5)
        b[:, :2].mul_(b[:, 2:])
        b[::2].sub_(b[1::2])
        return x + b.diagonal()

    return f, rows()


@program
def inplace_views():
    def f(x):
        y = x.clone()
        v = y[1:]
        v.mul_(2)
        y[0] = 7
        y.t()[1] += 1
        v.zero_() if x.dim() > 5 else None
        return y, v

    return f, rows()


@program
def writes_argument():
    def f(x):
        x.add_(1)
        x[0] = 0
        return x * 2

    return f, rows()


@program
def item_in_middle():
    def f(x):
        s = x.sum().item()
        return x * 2 if s > 0 else x - 1

    return f, rows()


@program
def data_branch():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return f, rows()


@program
def no_grad_blocks():
    w = R(4).requires_grad_()

    def f(x):
        with torch.no_grad():
            a = (x * w).sum()
        b = (x * w).sum()
        return a, b

    return f, rows()


@program
def generators():
    ws = [R(4) for _ in range(3)]

    def f(x):
        def g():
            for w in ws:
                yield x * w

        return sum(g()), [y.sum() for y in g()], {k: v * 2 for k, v in enumerate(g())}

    return f, rows()


@program
def growing_list():
    ws = [R(4)]

    def f(x):
        return sum(x * w for w in ws)

    def calls():
        for k in range(4):
            yield (R(3, 4),)
            ws.append(R(4))

    return f, calls


@program
def try_except():
    def f(x, d):
        try:
            v = d["k"]
        except KeyError:
            v = 1
        finally:
            x = x + 1
        return x * v

    return f, [(R(3), {}), (R(3), {"k": 4}), (R(3), {}), (R(3), {"k": 5})]


@dataclasses.dataclass
class Out:
    a: object
    b: int = 3


@program
def dataclass_results():
    def f(x):
        o = Out(x * 2)
        o.b += 1
        return o.a + o.b

    return f, rows()


NT = collections.namedtuple("NT", "p q")


@program
def namedtuples():
    def f(x):
        n = NT(x + 1, x * 2)
        return n._replace(q=n.p), n.p

    return f, rows()


@program
def python_random():
    def f(x):
        return x * random.random()

    def calls():
        random.seed(0)
        for _ in range(5):
            yield (R(3),)

    return f, calls


@program
def torch_random():
    def f(x):
        return F.dropout(x, 0.5) + torch.rand(4) + torch.randn_like(x)

    return f, rows()


@program
def draws_into_memory():
    """Into memory that is there, beside draws that make arrays: the stream is taken from in the order of the lines."""

    def f(x):
        v = x.clone().normal_(0, 0.1)
        y = x + torch.rand_like(x)
        z = y.clone().uniform_() + torch.randn(4)
        return v * 2, y.exp().sum(), z - v[:, [1, 0, 3, 2]], torch.rand(())

    return f, rows() + rows()


@program
def kwargs_defaults():
    def g(x, *a, s=1, **k):
        return x * s + sum(a) + k.get("b", 0)

    def f(x, **k):
        return g(x, 1, 2, **k)

    return f, [(R(3),)]


@program
def aliased_arguments():
    def f(x, y):
        x.add_(1)
        return x + y

    a = R(3)
    return f, [(R(3), R(3)), (a, a), (R(3), R(3)), (a, a.view(3))]


@program
def returns_argument():
    def f(x):
        return x, x.view(-1), x.t()

    return f, rows()


@program
def stores_tensor():
    c = Cfg()
    c.h = R(4)

    def f(x):
        c.h = c.h * 0.5 + x.mean(0)
        return c.h.sum()

    return f, rows() * 3


@program
def strings():
    def f(x, name):
        return {f"{name}_{k}": x * k for k in range(2)}, name.upper(), f"{3:d}"

    return f, [(R(2), "a"), (R(2), "b"), (R(2), "a")]


class Base(nn.Module):
    def __init__(s):
        super().__init__()
        s.lin = nn.Linear(4, 4)
        s.drop = nn.Dropout(0.3)
        s.count = 0

    def forward(s, x):
        return s.drop(s.lin(x))


class Sub(Base):
    def __init__(s):
        super().__init__()
        s.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        s.register_buffer("buf", torch.ones(4))
        s.use = True

    @property
    def scale(s):
        return 2 if s.use else 3

    def forward(s, x):
        x = super().forward(x)
        for i, b in enumerate(s.blocks):
            x = F.relu(b(x)) + i
        return x * s.scale + s.buf


@program
def modules():
    m = Sub()

    def calls():
        for k in range(9):
            if k == 2:
                m.eval()
            if k == 4:
                m.use = False
            if k == 5:
                m.blocks.append(nn.Linear(4, 4))
            if k == 6:
                m.lin.weight.data.zero_()
            if k == 7:
                m.lin = nn.Linear(4, 4)
            if k == 8:
                m.train()
                m.register_forward_hook(lambda m, i, o: o * 2)
            yield (R(3, 4),)

    return m, calls


@program
def module_grads():
    m = Sub()

    def f(x):
        m.zero_grad()
        l = m(x).square().mean()
        l.backward()
        return l, [p.grad.clone() for p in m.parameters()]

    return f, rows()


@program
def sorted_max():
    def f(x, l):
        return (
            x * max(l) + sorted(l)[0],
            list(reversed(l)),
            dict(zip("ab", l)),
            any(l),
            math.sqrt(l[0]),
        )

    return f, [(R(2), [1, 2]), (R(2), [3, 2]), (R(2), [1, 2])]


@program
def lambdas_map():
    def f(x):
        fs = [lambda v, k=k: v * k for k in range(3)]
        return [g(x) for g in fs], [*filter(None, [0, 1])] if False else 0

    return f, rows()


@program
def raises():
    def f(x, k):
        if k:
            raise ValueError(f"bad {k}")
        return x + 1

    return f, [(R(2), 0), (R(2), 1), (R(2), 0), (R(2), 2)]


@program
def errors_of_operators():
    """Which elements raise: what the function did before is done, and it may handle the error."""
    table, n = nn.Embedding(3, 2), 0

    def f(x, i):
        nonlocal n
        n += 1
        try:
            y = x + table(i).sum()
        except IndexError as e:
            n += 10
            y = x * len(str(e))
        y = y.gather(0, i)
        n += 100
        return y

    x = torch.ones(2, requires_grad=True)
    return f, [(x, torch.tensor([k])) for k in (1, 0, 1, 2, 0, 5, 1, 2)]


@program
def shape_error():
    def f(x):
        return x @ torch.ones(4, 2)

    return f, [(R(2, 4),), (R(2, 3),), (R(2, 4),)]


@program
def grad_mode_outside():
    w = R(4).requires_grad_()

    def f(x):
        return (x * w).sum()

    def calls():
        for k in range(6):
            with torch.set_grad_enabled(k % 2 == 0):
                yield (R(4),)

    return f, calls


@program
def autocast_mode():
    l = nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return l(x)

    return f, rows()


@program
def history_argument():
    w = R(4).requires_grad_()

    def f(x):
        return (x * w).sum()

    return f, [((w * 2),), (R(4),), ((w * 3),)]


@program
def double_backward():
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.sum()

    return f, [(R(3).requires_grad_(),) for _ in range(3)]


@program
def hooks_in():
    l = nn.Linear(4, 4)

    def f(x):
        y = l(x)
        y.register_hook(lambda g: g * 2)
        return y.sum()

    return f, rows()


@program
def custom_function():
    class Sq(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x

    def f(x):
        return Sq.apply(x * 2).sum()

    return f, [(R(3).requires_grad_(),) for _ in range(3)]


@program
def masks():
    def f(x):
        return x[x > 0].sum(), torch.where(x > 0, x, 0.0), x.masked_fill(x > 1, 0)

    return f, rows()


@program
def numpy_use():
    def f(x):
        return torch.from_numpy(x.numpy() * 2)

    return f, rows()


@program
def lstm():
    m = nn.LSTM(4, 5, batch_first=True)

    def f(x, h=None):
        o, h = m(x, h)
        return o, h

    return f, [(R(2, 3, 4),) for _ in range(3)]


@program
def while_loop():
    def f(x):
        k = 0
        while True:
            k += 1
            if k == 3:
                continue
            if k > 5:
                break
            x = x + k
        else:
            x = x * 100
        return x

    return f, rows()


@program
def global_write():
    def f(x):
        global COUNT
        COUNT = x.sum()
        return x

    return f, rows()


@program
def int_tensor_args():
    def f(x, i):
        return x[i], x.index_select(0, i), x.gather(0, i.view(-1, 1))

    return f, [(R(5, 1), torch.tensor([k, 2])) for k in range(3)]


@program
def tensor_constants():
    def f(x):
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4)

    return f, rows()


@program
def default_dtype():
    def f(x):
        return torch.ones(3) + x

    def calls():
        for k in range(4):
            if k == 2:
                torch.set_default_dtype(torch.float64)
            yield (torch.ones(3, dtype=torch.float32),)
        torch.set_default_dtype(torch.float32)

    return f, calls


@program
def class_patch():
    class M(nn.Module):
        def forward(s, x):
            return x + 1

    m = M()

    def calls():
        for k in range(4):
            if k == 2:
                M.forward = lambda s, x: x + 5
            if k == 3:
                m.forward = lambda x: x - 1
            yield (R(3),)

    return (lambda x: m(x)), calls


@program
def sets_and_slots():
    class S:
        __slots__ = ("a", "b")

        def __init__(s, a):
            s.a = a
            s.b = {1, 2}

    o = S(2)

    def f(x):
        s = S(o.a)
        return x * s.a if 1 in o.b else x

    def calls():
        for k in range(5):
            if k == 2:
                o.a = 9
            if k == 3:
                o.b.discard(1)
            yield (R(3),)

    return f, calls


@program
def leaves_made_inside():
    w = R(4).requires_grad_()

    def f(x, keep):
        t = x.clone().requires_grad_()
        (g,) = torch.autograd.grad((t * w).square().sum(), t, create_graph=True)
        y = g.square().sum()
        return (y, t) if keep else y

    return f, [(R(4), False), (R(4), False), (R(4), True), (R(4), True)]


@program
def numbers_read_from_tensors():
    log, o = [], Cfg()

    def f(x):
        loss = x.square().mean()
        v = loss.item()
        log.append(v)
        o.total = o.total + v * 2 if hasattr(o, "total") else v
        n = x.argmax().item()
        return (
            v,
            {
                "half": v / 2,
                "n": n,
                "int": int(loss),
                "float": float(loss + 1),
                "both": [v + n, round(v, 3), float(n)],
            },
            type(v) is float,
        )

    return f, whole_rows()


@program
def numbers_read_decide():
    def f(x):
        v = x.sum().item()
        return x + v if v > 0 else x * v

    return f, rows()


@program
def numbers_before_writes():
    def f(x):
        y = x.clone()
        first = y.sum().item()
        y.mul_(2)
        return first, y.sum().item(), y

    return f, whole_rows()


@program
def modes_around():
    layer = nn.Linear(4, 4)

    def f(x):
        return layer(x)

    def calls():
        for k in range(9):
            with (
                torch.autocast("cpu", torch.bfloat16, enabled=k % 3 == 1),
                torch.inference_mode(k % 3 == 2),
            ):
                yield (torch.ones(2, 4),)

    return f, calls


@program
def views_that_cannot_be_asked_for_their_history():
    c = Cfg()
    c.kept = torch.zeros(4)

    def f(x):
        with torch.no_grad():
            v = x.t()[:, 0] if x.requires_grad else x[0]
            v.add_(1)
            c.kept = x[0]
        return x * 2, v.shape, c.kept.shape

    def calls():
        for k in range(6):
            yield (R(4, 4).requires_grad_(k % 2 == 0) * 1.0,)
            if k == 2:
                w = torch.ones(4, requires_grad=True)
                base = torch.zeros(2, 4)
                with torch.no_grad():
                    c.kept = base[0]
                base.mul_(w)

    return f, calls
