"""Programs whose surroundings change between calls, for tests/test_compile.py, as in compile_programs.py.

Most break one guard each: what a first call read is another thing in a later one.
"""

# ruff: noqa: E501, E702, E731, B006, B008, N805, RUF005
from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import sys
import threading
import types
import weakref

import rushlight as torch
from compile_programs import R, program
from rushlight import nn


def changing(f, *changes, x=lambda: (R(3),)):
    """A function, and calls of it, with the changes between them."""

    def calls():
        yield x()
        yield x()
        for change in changes:
            change()
            yield x()
            yield x()

    return f, calls


def sets(o, name, *values):
    """Changes of an attribute."""
    return [lambda v=v: setattr(o, name, v) for v in values]


@program
def attributes_of_functions():
    def h(): ...

    def f(x):
        if not hasattr(f, "first"):
            f.first = x.detach() * 0 + 1
        f.n += 1
        return x * f.n + f.first + h.k

    f.n, h.k = 0, 1
    return changing(f, *sets(h, "k", 2, 3))


@program
def functions_of_other_code():
    def h(x, k=2, *, n=1):
        return x * k + n

    other = lambda x, k=2, *, n=1: x - k - n
    return changing(
        lambda x: h(x),
        *sets(h, "__defaults__", (5,)), *sets(h, "__kwdefaults__", {"n": 7}),
        *sets(h, "__code__", other.__code__),
    )  # fmt: skip


@program
def the_function_itself_has_other_code():
    f, g = lambda x, k=1: x + k, lambda x, k=1: x - k
    return changing(f, *sets(f, "__code__", g.__code__), *sets(f, "__defaults__", (4,)))


@program
def default_lists():
    def h(x, many=[1]):
        many[0] += 1
        return x * many[0]

    return changing(lambda x: h(x), lambda: h.__defaults__[0].__setitem__(0, 4))


def appends(a, b, x):
    a.append(x)
    return len(b), x * len(b)


def together(n):
    """Two arguments that are one list, and two that are not."""
    one = []
    return (one, one, R(n))


@program
def one_list_for_two():
    return appends, lambda: iter(
        [([], [], R(2)), together(2), together(2), ([], [], R(2)), together(2)]
    )


@program
def one_list_for_two_first():
    return appends, lambda: iter([together(2), ([], [], R(2)), ([], [], R(2)), together(2)])


@program
def a_list_from_outside_as_argument():
    many = []

    def f(a, x):
        many.append(x)
        return x * len(a)

    def calls():
        for a in ([], many, [], many):
            many.clear()
            yield a, R(2)

    return f, calls


@program
def one_dictionary_for_two():
    def f(a, b, x):
        a["k"] = x
        return b["k"] + x

    def calls():
        for k in range(4):
            one = {"k": R(2)}
            yield one, one if k % 2 else {"k": R(2)}, R(2)

    return f, calls


@program
def forward_is_replaced():
    m, own = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear.forward

    def twice(s, x):
        return own(s, x) * 2

    return changing(
        lambda x: m(x),
        *sets(nn.Linear, "forward", twice, own), *sets(m[0], "forward", lambda x: x * 3),
        lambda: delattr(m[0], "forward"),
    )  # fmt: skip


@program
def default_devices():
    f = lambda x: (torch.ones(2) * 3).device.type
    changes = [lambda d=d: torch.set_default_device(d) for d in ("meta", "cpu", None)]
    return changing(f, *changes, x=lambda: (torch.randn(3, device="cpu"),))


class Scale:
    k = 2

    def __call__(s, x):
        return x * s.k

    def __len__(s):
        return s.k

    def __getitem__(s, i):
        return i * s.k

    def __add__(s, o):
        return o + s.k

    def __contains__(s, o):
        return o == s.k

    def __iter__(s):
        return iter([s.k])

    def __bool__(s):
        return s.k > 2

    def __enter__(s):
        return s.k

    def __exit__(s, *e): ...

    def method(s, x):
        return x * s.k

    @property
    def width(s):
        return s.k + 1


def scale():
    """A class of its own, so that changes of it stay."""
    return type("Own", (Scale,), dict(vars(Scale)))


def special(name, f, other):
    """A program that uses a special method of a class, which is then another one."""

    def make():
        cls = scale()
        o = cls()
        return changing(lambda x: f(o, x), *sets(o, "k", 3), *sets(cls, name, other))

    make.__name__ = f"class{name}"
    program(make)


def block(o, x):
    with o as k:
        return x * k


special("__call__", lambda o, x: o(x), lambda s, x: x + 7)
special("__len__", lambda o, x: len(o) * x, lambda s: 70)
special("__getitem__", lambda o, x: o[3] * x, lambda s, i: 70)
special("__add__", lambda o, x: o + x, lambda s, o: o * 70)
special("__contains__", lambda o, x: x if 2 in o else -x, lambda s, o: o > 5)
special("__iter__", lambda o, x: sum(o) * x, lambda s: iter([1, 2]))
special("__bool__", lambda o, x: x if o else -x, lambda s: False)
special("__enter__", block, lambda s: 9)
special("_method", lambda o, x: o.method(x), lambda s, x: x)
special("method", lambda o, x: o.method(x), lambda s, x: x)
special("width", lambda o, x: o.width * x, property(lambda s: 70))


@program
def classes_and_bases():
    class A:
        k = 2

        def g(s, x):
            return x * s.k

    class B(A): ...

    class C:
        def g(s, x):
            return x * 9

    b = B()
    return changing(
        lambda x: b.g(x),
        *sets(A, "k", 5), *sets(B, "k", 7), *sets(b, "k", 8),
        *sets(B, "g", lambda s, x: x - s.k), *sets(b, "__class__", C),
    )  # fmt: skip


@program
def attributes_of_classes():
    class A:
        k = 2

        @staticmethod
        def s(x):
            return x

        @classmethod
        def c(cls, x):
            return x * cls.k

    return changing(
        lambda x: A.s(x) + A.c(x) * A.k,
        *sets(A, "k", 5), *sets(A, "s", staticmethod(lambda x: -x)),
        *sets(A, "c", classmethod(lambda cls, x: x)),
    )  # fmt: skip


@program
def attributes_that_were_missing():
    class A:
        def __getattr__(s, name):
            return 3

    class B: ...

    a, b = A(), B()

    def f(x):
        return x * a.k + getattr(b, "k", 1) + hasattr(b, "n")

    return changing(
        f, *sets(a, "k", 5), *sets(b, "k", 6), *sets(B, "n", 1), lambda: delattr(a, "k"),
        *sets(A, "k", 9), *sets(A, "__getattr__", lambda s, name: 8), lambda: delattr(A, "k"),
    )  # fmt: skip


@program
def wrapped_modules():
    class Wrapper(nn.Module):
        def __init__(s):
            super().__init__()
            s.module = nn.Linear(3, 3)
            s.module.extra = 3

        def __getattr__(s, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(s.module, name)

        def forward(s, x):
            return s.module(x) * s.extra

    m = Wrapper()
    return changing(m, *sets(m.module, "extra", 9), *sets(m, "module", nn.Linear(3, 3)))


@program
def modules_that_change():
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    handles = []
    return changing(
        m,
        lambda: m.eval(), lambda: m[0].weight.requires_grad_(False), *sets(m[0].weight, "data", torch.ones(3, 3)),
        *sets(m[0], "weight", nn.Parameter(torch.ones(3, 3) * 3)), *sets(m[0], "bias", None),
        *sets(m[1], "running_mean", torch.ones(3)), lambda: m[1].register_buffer("running_var", torch.ones(3) * 4),
        *sets(m[1], "eps", 0.5), lambda: m.train(), *sets(m[2], "p", 0.1), lambda: m.append(nn.ReLU()),
        lambda: m.__setitem__(2, nn.Tanh()), lambda: m.pop(2), lambda: m[0].to(torch.float32),
        lambda: handles.append(m[0].register_forward_hook(lambda m, i, o: o * 2)),
        lambda: handles.append(nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1)),
        lambda: handles.pop().remove(), lambda: handles.pop().remove(),
        x=lambda: (R(4, 3),),
    )  # fmt: skip


@program
def buffers_that_need_gradients():
    m = nn.BatchNorm1d(3).eval()
    return changing(
        lambda x: m(x).sum(), lambda: m.running_var.requires_grad_(), x=lambda: (R(4, 3),)
    )


@program
def one_buffer_in_two_places():
    m = nn.Module()
    m.register_buffer("a", R(3))
    m.register_buffer("b", m.a)
    return changing(
        lambda x: m.a * x + m.b, lambda: m.register_buffer("b", R(3)), lambda: m.a.add_(1)
    )


@program
def modules_of_another_dtype():
    m = nn.Linear(3, 3)

    def calls():
        yield (R(2, 3),)
        m.double()
        yield (R(2, 3).double(),)
        m.weight.data = m.weight.data.t()
        yield (R(2, 3).double(),)

    return m, calls


@program
def optimizers_that_change():
    m, n = nn.Linear(2, 2), nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)

    def f(x):
        o.zero_grad()
        n(m(x)).sum().backward()
        o.step()
        return m.weight.detach().clone(), n.weight.grad.clone()

    return changing(
        f,
        lambda: o.add_param_group({"params": [n.bias], "lr": 0.5}), lambda: o.param_groups[0]["params"].pop(),
        *[lambda: o.param_groups[0].__setitem__("lr", 0.7)], lambda: n.zero_grad(), lambda: o.param_groups.pop(),
        x=lambda: (R(3, 2),),
    )  # fmt: skip


@program
def gradients_that_were_there():
    w = torch.ones(3, requires_grad=True)

    def f(x):
        (w * x).sum().backward()
        return w.grad.clone()

    return changing(f, *sets(w, "grad", None, torch.ones(3)), lambda: w.requires_grad_(True))


@program
def arguments_of_other_kinds():
    def f(x, k=1):
        return x * 2 if x.is_contiguous() and isinstance(k, int) else x.t() * 3

    x = R(3, 3)
    return f, [
        (x,), (x.t(),), (x,), (x.double(),), (R(3, 3).requires_grad_(),), (R(3, 2),), (x, 1), (x, True), (x, 1.0),
        (x, "a"), (x, [1]), (x, [1, 2]), (x, (1, 2)), (x, {"a": 1}), (x, {"b": 1}), (x, {"a": 2}),
        (x, None), (nn.Parameter(x),),
    ]  # fmt: skip


Pair = collections.namedtuple("Pair", "x y")


@program
def named_tuples_as_arguments():
    def f(p):
        a, b = p
        return p.x * 2 + b + p[0] + a

    return f, [
        (p,)
        for p in (Pair(R(2), 1), Pair(R(2), 2), Pair(R(2), R(2)), Pair(R(2), R(2)), (R(2), R(2)))
    ]


@dataclasses.dataclass
class Batch:
    x: object
    k: int = 0


@program
def data_classes_as_arguments():
    return lambda b: b.x * 2 + b.k, [(Batch(R(2), k // 3),) for k in range(7)]


@program
def imports_that_change():
    def module(k):
        made = types.ModuleType("changing_module")
        made.k = k
        sys.modules["changing_module"] = made

    module(2)

    def f(x):
        import changing_module

        return x * changing_module.k

    return changing(
        f,
        *[lambda: setattr(sys.modules["changing_module"], "k", 3), lambda: module(10)],
        lambda: delattr(sys.modules["changing_module"], "k"),
    )


@program
def keys_that_were_absent():
    d, e = {"a": 1, 5: 1}, {1: 2}

    def f(x):
        return x * d.get("b", 5) + ("c" in d) + ("a" in d) + (3 in d) + (5 in d) + sum(e)

    return changing(
        f, *[lambda n=n: d.__setitem__(n, 7) for n in ("b", "c", 3)], lambda: e.update({2: 1}), lambda: d.pop("a"), lambda: d.pop(5)
    )  # fmt: skip


@program
def classes_as_keys():
    known = {int: lambda x: x + 1, (int, str): lambda x: x * 2}

    def f(x, v):
        y = known[type(v)](x) if type(v) in known else x
        return known.get((int, type(v)), torch.neg)(y)

    changes = (
        lambda: None, lambda: known.pop((int, str)), lambda: known.update({str: torch.abs}),
        lambda: known.update({int: torch.sin}), lambda: known.pop(int),
    )  # fmt: skip

    def calls():
        for change in changes:
            change()
            for v in (1, 2, "a", None):
                yield R(3), v

    return f, calls


@program
def numbers_of_other_classes():
    class Rate: ...

    o = Rate()
    o.rate, o.n = 0.5, 1
    changes = [*sets(o, "rate", 1.5, 2.5, 3, True, "a"), *sets(o, "n", 2, 3, 1.0, 2.0, False)]
    return changing(lambda x: x * o.rate + o.n if o.rate != "a" else x, *changes)


@program
def globals_that_were_absent():
    space = {"R": R}
    exec("def f(x):\n    return x * len('ab')", space)  # noqa: S102
    return changing(space["f"], lambda: space.update(len=lambda v: 7), lambda: space.pop("len"))


@program
def containers_that_change():
    many, one, s, q = [1, 2], (1,), {1, 2}, collections.deque([1])
    d = collections.OrderedDict(a=1)

    def f(x):
        t = sum(many) + sum(s) + sum(q) + len(q) + (1 if q else 2) + max(q) + one[0]
        return x * t + sum(v for v in d.values()), [*many, *d]

    return changing(
        f,
        lambda: many.append(3), lambda: many.__setitem__(0, 1.0), lambda: many.__setitem__(0, True), lambda: s.add(5),
        lambda: q.append(4), lambda: q.clear() or q.append(0), lambda: d.update(b=2), lambda: d.move_to_end("a"),
        lambda: d.update({1: 2}), lambda: d.update(a=-0.0), lambda: d.update(a=0.0),
    )  # fmt: skip


@program
def cells_and_globals_of_objects():
    class Config:
        names = ("a", "b")
        part = slice(0, 2)

    c = Config()
    g = lambda x: x
    return changing(
        lambda x: g(x)[c.part] * len(c.names),
        *sets(c, "names", ("a",), ["a", "b", "c"]), *sets(c, "part", slice(1, 2), slice(0, None)),
        lambda: exec_cell(g),
    )  # fmt: skip


def exec_cell(g):
    g.__code__ = (lambda x: x + 1).__code__


@program
def iterators_from_outside():
    it, gen = itertools.count(), (k for k in range(100))
    return (lambda x: x * next(it) + next(gen)), [(R(2),) for _ in range(4)]


@program
def iterators_in_loops():
    it = iter(range(100))

    def f(x):
        for v in it:
            return x * v + sum(a * b for a, b in zip(range(1, 2), it, strict=False))
        return x

    return f, [(R(2),) for _ in range(4)]


@program
def texts_of_objects():
    class Meter:
        v = 1

        def __str__(s):
            return f"<{s.v}>"

    m = Meter()
    return changing(lambda x: (x, "{} {}".format(m, 1), "%s %s" % (m, 1)), *sets(m, "v", 2))  # noqa: UP031, UP032


@program
def lists_that_grow_after_they_are_stored():
    class Space: ...

    s, d, many = Space(), {}, []

    def f(x):
        s.items = []
        s.items.append(x.sum())
        d["a"] = {"k": 1}
        d["a"]["k"] = x
        inner = [x]
        many.extend(inner)
        inner.append(2)
        d["b"] = inner
        inner += [3]
        return s.items, d, len(inner)

    return changing(f, many.clear)


@program
def lists_that_are_added_to():
    many, s = [], {1}

    def f(x):
        nonlocal many, s
        many += [x.sum()]
        s |= {len(many)}
        return x * len(many) + len(s)

    return changing(f, lambda: many.clear(), lambda: s.clear())


@program
def lists_that_grow_behind_an_optimizer():
    m = nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)
    d = {}

    def f(x):
        d["losses"] = [m(x).sum()]
        d["losses"][0].backward()
        o.step()
        o.zero_grad()
        d["losses"].append(m(x).sum().detach())
        return len(d["losses"])

    return f, [(R(3, 2),) for _ in range(3)]


@program
def functions_that_remember():
    n = [0]

    @functools.lru_cache
    def positions(k):
        n[0] += 1
        return torch.arange(k) * 1.0

    @functools.cache
    def double(k, n=1):
        return k * 2 * n

    return changing(lambda x: (x + positions(3) + double(3, n=2), n[0]), positions.cache_clear)


@program
def functions_that_remember_and_draw():
    """A guard does not draw for the function, which draws something else before, or nothing."""

    @functools.cache
    def noise(k):
        return torch.rand(k)

    @functools.cache
    def noises(k):
        return torch.rand(k), torch.rand(k)

    def f(x, k):
        x = x + torch.rand(2)
        return x * noise(2) + noises(2)[1] if k else x

    def calls():
        for k in (1, 1, 0, 1, 1, 0, 0, 1):
            if k == 0:
                noise.cache_clear()
                noises.cache_clear()
            yield R(2), k

    return f, calls


@program
def default_dictionaries():
    many, n = collections.defaultdict(list), collections.defaultdict(int)

    def f(x):
        own = collections.defaultdict(float)
        for k, v in enumerate(x):
            own[k % 2] += v
        many["a"].append(1)
        n["calls"] += 1
        return own, x * n["calls"], n["none"]

    return changing(f, n.clear, *sets(n, "default_factory", None))


@program
def default_dictionaries_that_are_emptied():
    """A guard that reads an item makes none."""
    n, of = collections.defaultdict(int), collections.defaultdict(float, {str: 1.0})

    def f(x, k):
        n[k] += 1
        of[type(k)] += 1.0
        return x * n[k], dict(n), dict(of)

    def calls():
        for j, k in enumerate((1, 2, 2, 2, 1, 4, 1)):
            if j > 4:
                n.clear()
                of.clear()
            yield R(2), k

    return f, calls


@program
def pattern_matching():
    def f(x, c):
        match c:
            case {"op": "add", "v": v}:
                return x + v
            case ("mul", v):
                return x * v
            case [a, *r]:
                return x + a + len(r)
            case int(n) if n > 2:
                return x - n
            case Batch(x=q) | Batch(q, 3):
                return x + q
            case None | False:
                return -x
            case "neg":
                return x.neg()
            case _:
                return x

    cases = ({"op": "add", "v": 2}, ("mul", 3), [1, 2, 3], 5, 1, Batch(2), None, "neg", {"v": 1})
    return f, [(R(2), c) for c in cases for _ in range(2)]


@program
def hooks_that_come_later():
    m, handles = nn.Linear(4, 2), []

    def f(x):
        m.zero_grad()
        m(x).sum().backward()
        (g,) = torch.autograd.grad(m(x).sum(), m.bias)
        return m.weight.grad.clone(), g

    return changing(
        f,
        lambda: handles.append(m.weight.register_hook(lambda g: g * 3)), lambda: handles.pop().remove(),
        lambda: m.bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(5)),
        x=lambda: (R(3, 4),),
    )  # fmt: skip


@program
def histories_of_one_another():
    def f(a, b):
        return (a * b).sum()

    def calls():
        for k in range(4):
            a = R(3).requires_grad_()
            yield a, a * (k + 2)

    return f, calls


@program
def gradients_in_histories_of_one_another():
    def f(a, b):
        return torch.autograd.grad((a * b).sum(), a)[0]

    def calls():
        for k in range(4):
            a = R(3).requires_grad_()
            yield a, a * (k + 2)

    return f, calls


@program
def hooks_of_what_a_backward_pass_behind_it_reaches():
    m, found = nn.Linear(4, 2), []
    m.weight.register_hook(lambda g: g * 3)

    def calls():
        for k in range(4):
            a = R(3, 4).requires_grad_()
            b = a * (k + 2)
            b.register_hook(lambda g: found.append(len(found)) or g * 10)
            b.retain_grad()
            yield (b,)

    return (lambda x: (m(x).relu().sum() + x.square().sum(), len(found))), calls


@program
def hooks_of_optimizers():
    m, n = nn.Linear(4, 2), [0]
    o = torch.optim.SGD(m.parameters(), 0.1)

    def f(x):
        o.zero_grad()
        m(x).sum().backward()
        o.step()
        return m.weight.detach().sum(), n[0]

    def count(*_):
        n[0] += 1

    return changing(f, lambda: o.register_step_post_hook(count), x=lambda: (R(3, 4),))


@program
def settings_of_the_library():
    f = lambda x: (torch.are_deterministic_algorithms_enabled(), str(x), torch.get_default_dtype())
    return changing(
        f,
        lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.set_printoptions(precision=2), lambda: torch.set_printoptions(profile="default"),
    )  # fmt: skip


@program
def slots_and_deleted_attributes():
    class Slots:
        __slots__ = ("a", "b")

        def __init__(s):
            s.a = 1

    s, o = Slots(), Cell()

    def f(x):
        s.b = getattr(s, "b", 0) + 1
        o.a = x.sum()
        r = o.a * 2
        del o.a
        return x * s.a + s.b, r, hasattr(o, "a")

    return changing(f, *sets(s, "a", 7), lambda: delattr(s, "b"), *sets(o, "a", 1))


class Cell: ...


@program
def methods_of_super():
    class A:
        def g(s, x):
            return x + 1

    class B(A):
        def g(s, x):
            return super().g(x) * 2

    class C(B):
        def g(s, x):
            return super().g(x) - super(B, s).g(x)

    c = C()
    return changing(
        lambda x: c.g(x), *sets(A, "g", lambda s, x: x * 9), *sets(B, "g", lambda s, x: x * 7)
    )


@program
def weak_references():
    o = Cell()
    o.k = 2
    r = weakref.ref(o)
    return changing(lambda x: x * r().k, *sets(o, "k", 5))


@program
def locks():
    lock = threading.Lock()

    def f(x):
        with lock:
            return x * 2

    return changing(f)


class Ranked:
    """It is compared, hashed, added and tested by methods written in Python."""

    def __init__(s, k):
        s.k = k

    def __add__(s, o):
        return Ranked(s.k + o.k)

    def __radd__(s, o):
        return s if o == 0 else Ranked(s.k + o)

    def __lt__(s, o):
        return s.k < o.k

    def __eq__(s, o):
        return s.k == o.k

    def __hash__(s):
        return 1

    def __bool__(s):
        return s.k > 1


def ranked(name, f):
    """A program that gives objects to a built-in function; the objects change."""

    def make():
        many, one = [Ranked(1), Ranked(2)], Ranked(5)
        changes = (*sets(many[0], "k", 5), *sets(many[1], "k", 0), *sets(many[0], "k", 0))
        return changing(lambda x: x * f(many, one), *changes)

    make.__name__ = f"objects_{name}"
    program(make)


ranked("max", lambda many, one: max(many).k)
ranked("sorted", lambda many, one: sorted(many)[0].k)
ranked("sum", lambda many, one: sum(many).k)
ranked("in", lambda many, one: one in many)
ranked("count", lambda many, one: many.count(one))
ranked("lists", lambda many, one: many == [one, one])
ranked("tuples", lambda many, one: (many[0], 1) == (one, 1))
ranked("set", lambda many, one: len({*many, one}) + len({many[0], one}) + len(set(many) | {one}))
ranked("dictionary", lambda many, one: len({many[0]: 1, one: 2}) + len(dict.fromkeys(many)))
ranked("get", lambda many, one: {one: 3}.get(many[0], 1))
ranked("any", lambda many, one: any(many) + 2 * all(many) + any(v for v in many))
ranked("filter", lambda many, one: len(list(filter(None, many))))
ranked("or", lambda many, one: (many[0] or one).k + (not many[1]) + (many[0] < one))


@program
def names_that_were_absent():
    space = {}
    exec("def f(x):\n    try: return x * k\n    except NameError: return x * 7", space)  # noqa: S102
    module = types.ModuleType("empty")

    class A: ...

    f = lambda x: space["f"](x) * (2 if hasattr(module, "k") else 3) + getattr(A, "k", 1)
    return changing(f, lambda: space.update(k=2), *sets(module, "k", 1), *sets(A, "k", 3))


@program
def memory_that_is_made_and_written_to():
    def f(x, y):
        t = torch.zeros(2, 3)
        t += x
        t[:, 0] = y[:, 0]
        u = torch.zeros(6).view(2, 3)
        u[:, 1:] += y[:, 1:]
        return torch.cat([t, t])[:2] * 1, torch.stack([u, t]).sum(0)

    return f, [(R(2, 3), R(2, 3)) for _ in range(6)]


@program
def leaves_that_get_other_shapes():
    def f(x):
        try:
            return x.contiguous().unsqueeze_(0)
        except RuntimeError as e:
            return str(e)

    return f, [(R(2, 3).requires_grad_(),) for _ in range(3)]


@program
def errors_behind_writes_that_are_handled():
    buffer = torch.zeros(3)

    def f(x, at):
        buffer.add_(1)
        y = x + torch.rand(3)
        try:
            z = torch.gather(y, 0, at)
        except (IndexError, RuntimeError):
            z = y - buffer
        buffer.mul_(2)
        return z, buffer

    return f, [(R(3), torch.tensor([k])) for k in (0, 1, 2, 5, 1, 0, 7, 2)]


@program
def nothing_to_take_out():
    many, queue = [], collections.deque()

    def f(x):
        told = []
        for take in (many.pop, queue.pop, queue.popleft, lambda: many.pop(3)):
            try:
                x = x + take()
            except IndexError as e:
                told.append(str(e))
        many.append(1)
        return x, told

    return f, [(R(3),) for _ in range(4)]


@program
def tensors_that_are_read_before_they_are_replaced():
    class Kept:
        pass

    c = Kept()
    c.state, c.before = torch.zeros(3), None
    memory = {"h": torch.zeros(3)}

    def f(x):
        old, h = c.state, memory["h"]
        c.state, memory["h"] = x * 2, h + x
        c.before, memory["before"] = old, h
        return old, h, c.before

    return f, [(R(3),) for _ in range(5)]


@program
def items_of_arguments_that_are_exchanged():
    def f(d, pair):
        d["a"], d["b"] = d["b"], d["a"]
        d["l"], d["m"] = d["m"], d["l"]
        pair[0], pair[1] = pair[1], pair[0]
        d["l"][0] = d["a"] + 1
        return d["l"], pair[0] * 2, d

    return f, [({"a": R(3), "b": R(3), "l": [R(3)], "m": [R(3)]}, [R(3), R(3)]) for _ in range(4)]


@program
def items_of_arguments_that_are_taken_out():
    def f(d, x):
        kept = d["l"]
        d.clear()
        kept.append(x)
        d["kept"] = kept
        return kept, d

    return f, [({"l": [R(3)]}, R(3)) for _ in range(4)]


class Scaled(torch.autograd.Function):
    by = 1.0

    @staticmethod
    def forward(ctx, x):
        return x * Scaled.by

    @staticmethod
    def backward(ctx, g):
        return g * Scaled.by


class Inherited(Scaled):
    pass


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y, more=1.0):
        return x * y * Scaled.by + more

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.by = Scaled.by

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.by, g * x * Scaled.by, None


def calls_of_scaled(f, n=1):
    def calls():
        for k in range(6):
            Scaled.by = 1.0 + k // 2
            yield tuple([R(3).requires_grad_() for _ in range(n)])
        Scaled.by = 1.0

    return f, calls


@program
def inherited_methods_of_custom_functions():
    return calls_of_scaled(lambda x: Inherited.apply(x).sin())


@program
def custom_functions_with_a_setup():
    def f(x, y):
        z = WithSetup.apply(x, y)
        return z, WithSetup.apply(x, z, 2.0), WithSetup.apply(x, y=z)

    return calls_of_scaled(f, 2)


@program
def keywords_of_partial_functions():
    g = functools.partial(torch.add, alpha=2)
    kept = functools.partial(lambda x, y, by: x * y * by, R(3), by=2.0)

    def calls():
        for k in range(6):
            g.keywords["alpha"] = 2 + k // 2
            if k == 4:
                kept.keywords["by"] = 5.0
            yield R(3), R(3)

    return (lambda x, y: (g(x, y), kept(y))), calls


@program
def exponents_and_bounds_that_change():
    """Numbers that a program decides, in operators whose nodes keep what they read."""

    def f(x, k):
        return x.pow(k % 3), (k + 1) ** x, x.clamp(-1, k % 2), x ** (k % 3 + 1)

    return f, [(R(3).requires_grad_(), k) for k in (1, 2, 0, 4, 5, 3, 1)]


@program
def filled_by_tensors():
    """`fill_` of a tensor, as `x[0] = 1` calls it: of other dtypes, of an element of the memory that is filled, of one with a history."""

    def f(x, k, scale):
        y = x.clone()
        y[:, 0] = 3
        y[1] = True
        y[:, 2].fill_(y[2, 1])
        z = k.clone().fill_(x[0, 0] * 9)
        z[0] = -2.7
        w = (x * 2).fill_(scale * 3)
        return y, z, w, w.sum() + y.sum()

    calls = [(R(3, 4), torch.arange(5), R(1)[0]) for _ in range(3)]
    return f, [
        *calls,
        (R(3, 4), torch.arange(5), R(1)[0].requires_grad_()),
        (R(4, 4).double(), torch.arange(3), R(1)[0]),
    ]
