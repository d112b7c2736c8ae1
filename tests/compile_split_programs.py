"""Programs that are split at calls which no program holds, for tests/test_compile.py, as in compile_programs.py."""

# ruff: noqa: C408, E501, E731, N805, RUF046, SIM105
from __future__ import annotations

import copy
import itertools
import json
import math
import random
import threading

import numpy as np

import rushlight as torch
from compile_programs import R, program, rows
from rushlight import nn
from rushlight.amp import autocast_mode
from rushlight.autograd.state import active
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset

SEEN = []


def norm(x):
    return float(np.linalg.norm(x.detach().numpy()))


@torch.compiler.disable
def disabled(x, *, k=1):
    SEEN.append(k)
    return x * k


@program
def split_by_numpy():
    def f(x, w):
        y = (x @ w).relu()
        s = np.sum(y.detach().numpy())
        return y * float(s), y

    return f, [(R(3, 4), R(4, 2).requires_grad_()) for _ in range(4)]


@program
def split_with_numbers_of_numpy():
    def f(x):
        s = np.mean((x * 2).numpy())
        t = s * 2 + abs(s)
        return x * float(t), int(round(float(s))), max(float(s), 0.0)

    return f, rows()


@program
def split_in_modules():
    class Foreign(nn.Module):
        def forward(self, x):
            return x * 2 + norm(x)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(4, 4), Foreign(), nn.ReLU(), Foreign(), nn.Linear(4, 4)
            )
            self.n, self.kept = 0, []

        def forward(self, x):
            self.n += 1
            y = self.net(x)
            self.kept.append(y.detach())
            return y + x, self.n, len(self.kept)

    return M(), rows()


@program
def split_in_loops():
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def f(x):
        found = []
        for k, (name, layer) in enumerate(zip("abc", layers, strict=True)):
            x = layer(x).tanh()
            found.append((name, norm(x), k))
        for v in range(2):
            x = x * v + norm(x)
        for k, v in {"a": 1, "b": 2}.items():
            x = x + v * len(k) + norm(x)
        return x, found

    return f, rows()


@program
def split_in_too_many_passes():
    def f(x):
        k = 0
        while k < 40:
            x = x * 0.9 + norm(x) * 1e-3
            k += 1
        return x, k

    return f, rows()


@program
def split_in_loops_over_iterators_of_others():
    def f(x):
        for k in itertools.islice(itertools.count(), 3):
            x = x + k + norm(x)
        return x

    return f, rows()


@program
def split_before_what_is_raised():
    def f(x, k):
        y = x * 2
        try:
            v = json.loads("[1, 2" + "]" * k)
        except ValueError:
            return y - 1
        finally:
            y.add_(1)
        return y * len(v)

    return f, [(R(3), k) for k in (1, 1, 0, 1, 0, 1)]


@program
def split_before_what_is_not_caught():
    def f(x, text):
        y = x * 2
        return y * json.loads(text)

    return f, [(R(3), t) for t in ("1", "2", "[", "1", "[")]


@program
def split_without_gradients():
    def f(x):
        with torch.no_grad():
            y = x * norm(x)
        return x + y

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def split_in_blocks_of_no_grad():
    m = nn.Linear(3, 3)

    def f(x):
        y = m(x)
        with torch.no_grad():
            z = y * 2
            n = z.numpy().sum()
            with torch.enable_grad():
                w = m(z) * norm(z)
            z = z * float(n)
        return y + z, w, torch.is_grad_enabled()

    return f, [(R(2, 3),) for _ in range(4)]


@program
def split_in_blocks_that_are_objects():
    off = True

    def f(x):
        nonlocal off
        off = not off
        block = torch.set_grad_enabled(off)
        with block:
            y = x * norm(x)
            z = x * norm(y)
        return x + y, z, block.mode, torch.is_grad_enabled()

    return f, [(R(3).requires_grad_(),) for _ in range(6)]


@program
def split_in_functions_without_gradients():
    m = nn.Linear(3, 3)

    @torch.no_grad()
    def score(x, seen):
        for k in range(2):
            y = m(x + k)
            seen.append(norm(y))
        return y

    def f(x):
        seen = []
        y = score(x, seen)
        return m(x) + y, sum(seen), torch.is_grad_enabled()

    return f, [(R(2, 3),) for _ in range(4)]


@program
def split_in_blocks_that_exceptions_end():
    table = nn.Embedding(3, 2)

    def f(x, k, inside):
        y = x * 2
        try:
            with torch.no_grad():
                if inside:
                    y = y * norm(y) + table(k).sum()
                else:
                    norm(None if k.item() > 2 else y)
        except (IndexError, AttributeError):
            return torch.is_grad_enabled(), y
        return y + x, torch.is_grad_enabled()

    x = R(3).requires_grad_()
    return f, [(x, torch.tensor(k), i) for i in (True, False) for k in (1, 1, 2, 5, 1, 5)]


@program
def split_in_blocks_that_end_with_the_function():
    table = nn.Embedding(3, 2)

    def f(x, k):
        with torch.no_grad():
            y = x * norm(x)
            return y + table(k).sum()

    def g(x, k):
        try:
            return f(x, k), torch.is_grad_enabled()
        except IndexError as e:
            return str(e), torch.is_grad_enabled()

    return g, [(R(3), torch.tensor(k)) for k in (1, 1, 2, 5, 1, 5)]


@program
def split_at_an_optimizer_before_a_decision():
    m = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(m.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best = math.inf

    def f(x):
        nonlocal best
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        if loss.item() < best:
            best = loss.item()
        scheduler.step(loss.item())
        for p in m.parameters():
            if p.norm() > 0.5:
                with torch.no_grad():
                    p.mul_(0.5 / p.norm())
        return loss.detach(), optimizer.param_groups[0]["lr"]

    return f, [(R(2, 3),) for _ in range(9)]


@program
def split_behind_cells():
    n = 0

    def f(x):
        nonlocal n
        k = [norm(x)]
        n += 1
        y = x * 2
        g = lambda v: v * len(k) + n
        z = norm(y)
        k.append(z)
        return g(x), y, z, n

    return f, rows()


@program
def split_in_comprehensions():
    def f(x):
        k = 3
        norm(x)
        return [x * k for _ in range(2)], k

    return f, rows()


@program
def split_while_arguments_are_made():
    def f(x):
        found = [1]
        found.append(norm(x * 2))
        return torch.stack([x, x * norm(x)], dim=0) + len(found), found, dict(a=norm(x), b=x)

    return f, rows()


@program
def split_with_numbers_that_change():
    def f(x, k, s=1.5):
        y = x * k
        v = norm(y)
        return y * s + k, v * k, k + 1

    return f, [(R(3), k, s) for k, s in ((1, 1.5), (2, 1.5), (3, 2.5), (4, 3.5), (4, 0.5))]


@program
def split_behind_numbers_of_tensors():
    def f(x):
        s = x.sum().item()
        many = [s, int(s)]
        disabled(x)
        if s > 0:
            x = x * 2
        return x * s, many, type(s), type(many[0])

    return f, rows()


@program
def split_at_disabled_functions():
    def f(x):
        y = disabled(x * 2, k=3)
        return y.relu(), len(SEEN) > 0, disabled(y, k=len(y))

    return f, [(R(3, 4).requires_grad_(),) for _ in range(4)]


@program
def split_at_results_of_other_kinds():
    def f(x, k):
        y = x * 2
        v = json.loads(("1", "[1, 2]", "null", '"a"', "2.5")[k])
        if isinstance(v, list):
            return y * len(v)
        return (y, v) if v is None or isinstance(v, str) else y * v

    return f, [(R(3), k % 5) for k in range(12)]


@torch.compiler.disable
def zeroed(y):
    with torch.no_grad():
        y.zero_()


@program
def split_at_writes_to_what_a_backward_pass_needs():
    def f(x):
        y = x * 2
        z = y * y
        zeroed(y)
        return y, z

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def split_at_writes_to_what_no_backward_pass_needs():
    def f(x):
        y = x * 2
        z = y.sum()
        zeroed(y.detach())
        return y, z, zeroed(x.exp())

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def split_with_histories_of_one_another():
    def f(x, w):
        a = x * w
        norm(a)
        b = a * a
        norm(b)
        return (a * b).sum() + b.sum(), a

    return f, [(R(3), R(3).requires_grad_()) for _ in range(4)]


@program
def split_steps():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), 0.01)

    def f(x):
        opt.zero_grad()
        y = net(x)
        v = norm(y)
        loss = F.mse_loss(y, x[:, :1])
        loss.backward()
        n = norm(net[0].weight.grad)
        opt.step()
        return loss.detach(), v, n, [p.detach().clone() for p in net.parameters()]

    return f, rows() * 2


@program
def split_behind_lists_of_histories():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            kept = [x := self.a(x)]
            norm(x)
            kept.append(self.b(x))
            self.last = kept[1]
            return kept, self.last.sum()

    return M(), rows() * 3


@program
def split_at_objects():
    class Box:
        def __init__(self, n):
            self.n = n

    def make(n):
        return json.loads(f'{{"n": {n}}}', object_hook=lambda d: Box(d["n"]))

    def f(x, k):
        y = x * 2
        b = make(k)
        return y * b.n

    return f, [(R(3), k) for k in (1, 1, 2, 2, 3, 1, 1, 2, 2)]


@program
def numbers_of_objects():
    class Box:
        n = 2.5

        def __float__(self):
            return self.n

        __abs__ = __float__

    b = Box()

    def f(x):
        return x * float(b), x + abs(b)

    def calls():
        for k in range(4):
            b.n = k + 0.5
            yield (R(3),)

    return f, calls


class Output(dict):
    def __init__(self, **given):
        super().__init__()
        for k, v in given.items():
            self[k] = v
        self.given = len(given)

    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        super().__setattr__(k, v)


class Point:
    def __init__(self, x):
        self.x, self.me = x, self


@program
def split_with_objects_that_are_needed_later():
    def f(x):
        o, p = Output(a=x * 2, b=3), Point(x)
        q = p
        s = norm(x)
        o["c"] = p.x + s
        p.y = o
        return o["a"] + o.b + o.c, q is p.me, q.y is o, [*o.keys()], o.given, p.me.x * 2

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


KEPT = []


@torch.compiler.disable
def changes(o):
    for p in o if isinstance(o, list) else KEPT[-1:] if o is None else [o]:
        p.n, p.x = p.n + 1, p.x + 1


@program
def split_where_an_object_is_given_away():
    def f(x):
        p = Named(x * 2, 1)
        changes(p)
        p.n *= 3
        return p.x * p.n, p.n

    return f, [(R(3).requires_grad_(),) for _ in range(6)]


@program
def split_where_an_object_is_given_away_in_a_list():
    def f(x):
        p = Named(x * 2, 1)
        many = [p, Named(x, 5)]
        changes(many)
        return many[0].x * p.n, many[0] is p, many[1].n

    return f, [(R(3),) for _ in range(6)]


@program
def split_where_an_object_was_kept():
    def f(x):
        p = Named(x * 2, 1)
        KEPT.append(p)
        changes(None)
        p.n += 10
        return p.x * p.n, KEPT[-1].n, p is KEPT[-1]

    return f, [(R(3),) for _ in range(6)]


@program
def split_where_an_object_is_in_a_list_that_is_needed():
    def f(x):
        p = Named(x * 2, 1)
        many = [p]
        s = norm(x)
        p.n += 1
        many[0].x = many[0].x + s
        return p.x * many[0].n, many[0] is p

    return f, [(R(3),) for _ in range(6)]


@program
def lists_that_hold_themselves():
    def f(x):
        many = [x * 2]
        many.append(many)
        s = norm(x)
        return many[1][0] + s

    return f, rows() * 2


@program
def results_that_hold_themselves():
    def f(x):
        many = [x * 2]
        many.append(many)
        KEPT.append(many)
        return many[0], len(many), many[1] is many

    return f, rows()


@program
def objects_that_are_the_same_or_not():
    boxes, n = [Named(1, 1), Named(2, 2)], [0]

    @torch.compiler.disable
    def give():
        n[0] += 1
        return boxes[n[0] // 3 % 2]

    def f(x, y):
        x = x * 3 if x is y else x * 2
        b = give()
        return x + 1 if b is boxes[0] else x - 1, b == boxes[1]

    def calls():
        x, y = R(3), R(3)
        for k in range(12):
            yield (x, y) if k % 3 else (x, x)

    return f, calls


class Named:
    def __init__(self, x, n):
        self.x, self.n = x, n


@program
def modules_that_a_function_makes():
    class Act(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return x.relu() * self.k

    k = 1

    def f(x):
        with torch.backends.cudnn.flags(enabled=False):
            x = Act(k)(x)
        return x * torch.div(x.shape[0] * 3, 2, rounding_mode="floor")

    return f, rows()


@program
def copies_of_settings():
    class Settings:
        def __init__(self):
            self.n, self.names, self.inner, self.gone = 2, ["a"], {"k": [1, 2]}, 0

    settings = Settings()

    def f(x):
        own = copy.deepcopy(settings)
        own.n += 1
        own.names.append("b")
        delattr(own, "gone")
        own = copy.deepcopy(own)
        own.inner["k"].append(own.n)
        return x * own.n, own.names, len(own.inner["k"]), own.names is settings.names

    def calls():
        for k in range(6):
            if k == 2:
                settings.n = 7
            if k == 4:
                settings.inner["k"].append(3)
            if k == 5:
                settings.__dict__ = {**vars(settings), "n": 9}
            yield (R(3),)

    return f, calls


def batches(n=5):
    return DataLoader(
        TensorDataset(torch.arange(4.0 * n).reshape(-1, 4) / 20, torch.arange(n)), batch_size=2
    )


@program
def split_in_each_pass_over_a_loader():
    net, loader = nn.Linear(4, 3), batches(100)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x, stop):
        losses, total = [], 0.0
        for k, (batch, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(batch) + x.sum() * 0, labels % 3)
            loss.backward()
            optimizer.step()
            total += loss.item() * k
            losses.append(loss.item())
            if k == stop:
                break
        else:
            total += 1
        return total, len(losses), losses[-1], net

    return f, [(R(3), stop) for stop in (1000, 1000, 20, 1000, 3, 1000)]


@program
def split_in_each_pass_over_several_iterators():
    loader = batches()

    def f(x, many):
        y = x * 2
        for (batch, _), other in zip(loader, many, strict=False):
            for again in loader:
                if again[0].sum() < batch.sum():
                    continue
                y = y + again[0].mean() * other
        if y.sum() > 1e6:
            return None
        for again in loader:
            y = y + again[0].sum()
        return y, len(many)

    return f, [(R(3).requires_grad_(), [R(1), 2.0, 3]) for _ in range(4)]


@program
def split_in_each_pass_over_a_generator():
    def calls():
        for n in (4, 4, 0, 5, 6):
            yield R(3), (k * 0.5 for k in range(n))

    def f(x, numbers):
        first = next(numbers, 7)
        for k in numbers:
            x = x * k + 1
            if k > 2:
                return x, first
        return x - 1, first, list(numbers)

    return f, calls


@program
def split_in_passes_that_raise():
    def numbers(n):
        yield from range(n)
        raise ValueError(n)

    def calls():
        for n in (3, 3, 2, 3, 3):
            yield R(3), numbers(n), []

    def f(x, numbers, seen):
        try:
            for k in numbers:
                x = x + k
                seen.append(k)
        except ValueError as e:
            return x, str(e)
        return x

    return f, calls


@program
def results_that_are_views_of_one_value():
    def f(x):
        return (x * 2).expand(3, 4), (x * 2).expand(3, 4), (x * 2)[0], x * 2

    return (lambda x: (v := f(x), v[0].add_(1), v[2].mul_(3))[0]), [(R(3, 4),) for _ in range(3)]


@program
def split_at_a_backward_pass_that_calls_hooks():
    net, told = nn.Linear(3, 2), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.weight.register_hook(lambda g: g * 2)
    net.bias.register_post_accumulate_grad_hook(lambda p: told.append(float(p.grad.sum())))

    def f(x):
        optimizer.zero_grad()
        loss = net(x).relu().square().mean()
        loss.backward()
        optimizer.step()
        return loss.item(), len(told), net

    return f, [(R(4, 3),) for _ in range(5)]


@torch.compiler.disable
def counted(t):
    if t.shape[0] == 7:
        raise ValueError(t.shape)
    return 1 + int(t.detach().float().sum() > 0)


def modes_that_are_on():
    casts = autocast_mode._state
    return (
        casts.enabled,
        casts.nesting,
        active.inference,
        torch.is_inference_mode_enabled(),
    )


@program
def split_in_blocks_of_autocast():
    net, last = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4)), nn.Linear(4, 3)

    def f(x):
        y = net(x)
        with torch.autocast("cpu"):
            z = net(y) * 2
            k = counted(z)
            with torch.autocast("cpu", enabled=False):
                y = net(y) * counted(y)
            with torch.no_grad():
                q = net(y) + counted(y)
            z = last(z) + k
        return z, y, q.float(), net(y)

    return f, [(R(3, 4).requires_grad_(k % 2 == 0),) for k in range(6)]


@program
def split_in_blocks_of_inference_mode():
    def f(x):
        y = x * 2
        with torch.inference_mode():
            z = y.tanh()
            z = z * counted(z)
            inside = z.is_inference()
        return z, y * counted(y), inside

    return f, [(R(3, 4).requires_grad_(k % 2 == 0),) for k in range(6)]


@program
def split_in_blocks_that_an_error_ends():
    net, last = nn.Linear(4, 4), nn.Linear(4, 4)

    def f(x):
        y = net(x)
        try:
            with torch.autocast("cpu"):
                y = net(y)
                with torch.inference_mode():
                    z = y * counted(y)
                    z = (z.view(-1)[: len(x)] + counted(z[1:])).sum()
                y = last(y) * counted(x)
        except ValueError:
            y = y - 1
        return y, modes_that_are_on()

    return f, [(R(n, 4),) for n in (3, 3, 7, 3, 8, 8, 7, 3)]


@program
def split_in_passes_of_many_ways():
    net, loader = nn.Linear(4, 8), batches(40)

    def f(x):
        total = 0.0
        for batch, _ in loader:
            y = net(batch).sin().sum(0)
            if y[0] > 0:
                total += 1
            if y[1] > 0:
                total -= y[2].item()
            if y[2] > 0:
                x = x + y.detach()[:3]
        return total, x

    return f, [(R(3),) for _ in range(4)]


@program
def second_derivatives_through_parts():
    w, lock = torch.ones(3, requires_grad=True), threading.Lock()

    def f(x):
        y = (w * x).sin().sum()
        lock.acquire()
        lock.release()
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), w)
        return g.detach(), h

    return f, [(R(3),), (R(3),), (R(3),)]


@program
def places_in_lists_that_were_changed():
    many = []

    def f(x, k):
        many.append(k)
        while len(many) > 4:
            many.pop()
        return x, many.index(k) if k in many else None, many.count(k)

    return f, [(R(3), k % 3) for k in range(14)]


@program
def numbers_that_change_beside_arrays():
    def scaled(x, k):
        return torch.as_tensor(np.asarray(x) * k)

    def f(x, k):
        return x + 1, scaled(x, k)

    return f, [(R(3), k % 3) for k in range(6)]


@program
def split_in_comprehensions_of_numbers():
    @torch.compiler.disable
    def first(v):
        return v[0]

    def f(x, k):
        rows = [[first([i * j + k]) for j in range(2)] for i in range(2)]
        many = {i: first([k]) for i in range(2)}, {first([i + k]) for i in range(3)}
        return rows, many, [k, *[1, 2], first([k]), *rows[0]], x * k

    return f, [(R(3), k % 3) for k in range(10)]


@program
def gradients_that_are_kept_behind_other_results():
    def f(x):
        h = x * 2
        z = h.sin()
        h.retain_grad()
        return z, h.detach(), h

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def hooks_behind_a_split():
    def f(x):
        h = x * 2
        z = h.sin()
        z.detach().numpy()
        h.register_hook(lambda g: g * 10)
        return z

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def gradients_of_tensors_with_a_history_behind_a_split():
    def f(x):
        h = x * 2
        z = h.sin()
        z.detach().numpy()
        return torch.autograd.grad(z.sum(), h, retain_graph=True)[0], z

    return f, [(R(3).requires_grad_(),) for _ in range(4)]


@program
def objects_alike_before_a_split():
    """Two modules with equal tables of hooks: each call writes to the table of the module that it read."""
    model = nn.Module()
    model.a, model.b = nn.Linear(2, 2), nn.Linear(2, 2)
    log = []

    def hook(module, inputs, output):
        log.append(module is model.b)
        return output * 2

    def f(x):
        handle = model.b.register_forward_hook(hook)
        y = model.b(model.a(x))
        handle.remove()
        return y, len(model.a._forward_hooks), len(model.b._forward_hooks), [*log]

    def calls():
        for k in range(6):
            if k == 3:
                model.a, model.b = model.b, model.a
            yield (R(1, 2),)

    return f, calls


@program
def views_without_history_before_writes():
    def f(x, k):
        x.select(0, k - 1)
        x[k // 2 :].add_(1)
        return x.detach()

    def calls():
        for k in range(8):
            with torch.no_grad():
                yield R(8, 4).requires_grad_(), k

    return f, calls


def draws(make, draw):
    """Each call makes a stream of random numbers; a rest draws from that of its call."""

    def f(x):
        stream = make(torch.randint(0, 1000, ()).item())
        return x * draw(stream)

    return f, rows() + rows()[:1]


@program
def streams_of_python_made_inside():
    return draws(random.Random, lambda s: s.randrange(9))


@program
def streams_of_numpy_made_inside():
    return draws(np.random.RandomState, lambda s: s.randint(9))


@program
def generators_made_inside():
    return draws(lambda n: torch.Generator().manual_seed(n), lambda g: torch.rand(4, generator=g))


@program
def split_between_a_view_and_a_write_that_gives_its_base_a_history():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        y = x * 2
        v, rest, t = y[0], y.view(-1)[4:], y.t()
        s = norm(x)
        v.mul_(w)
        rest.add_(s)
        return y, v, t

    return f, rows()
