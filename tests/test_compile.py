"""`torch.compile`: compiled functions give what they give as they are written, whatever changes between calls."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import gc
import itertools
import logging
import math
import pickle
import random
import re
import threading
import traceback
import weakref
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compile_changing_programs  # noqa: F401
import compile_data_programs  # noqa: F401 - more of the programs
import compile_library_programs  # noqa: F401
import compile_position_programs
import compile_split_programs  # noqa: F401
import compile_user_programs  # noqa: F401
import rushlight as torch
from compile_programs import PROGRAMS
from rushlight import nn
from rushlight.autograd.state import active
from rushlight.compiler import compiled
from rushlight.compiler.capture.interpreter import Watch, frame_of, run
from rushlight.compiler.capture.native_guards import Walk
from rushlight.compiler.capture.reads import state
from rushlight.compiler.compiled import Compiled, as_compared
from rushlight.compiler.program import Program
from rushlight.nn import functional as F
from rushlight.utils._pytree import tree_flatten


def seen(v):
    """A value as numbers and strings that can be compared."""
    if isinstance(v, torch.Tensor):
        numbers = [float(f"{x:.4g}") for x in v.detach().double().reshape(-1).tolist()]
        numbers = [x if x == x else "nan" for x in numbers]
        return tuple(v.shape), v.dtype, v.stride(), v.requires_grad, numbers
    if isinstance(v, dict):
        return {k: seen(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return type(v).__name__, [seen(x) for x in v]
    if isinstance(v, nn.Module):
        return [seen([p, p.grad]) for p in v.parameters()] + [seen(b) for b in v.buffers()]
    if isinstance(v, (int, float, str, type(None))):
        return v if v == v else "nan"
    return (
        seen(vars(v))
        if type(v).__module__.startswith("compile_") and hasattr(v, "__dict__")
        else type(v).__name__
    )


def outcome(g, f, args):
    """What a call gives and changes: its result, gradients, arguments, and what the closure of `f` holds."""
    try:
        result = g(*args)
    except Exception as e:
        return type(e), str(e)
    found = [seen(result)]
    leaves = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
    wanted = [t for t in leaves if t.requires_grad]
    if wanted:
        try:
            sum(t.float().sum() for t in wanted).backward()
        except RuntimeError as e:
            found.append(str(e)[-60:])
    given = [t for t in tree_flatten(args)[0] if isinstance(t, torch.Tensor)]
    found += [seen(given), [seen(t.grad) for t in given if t.is_leaf]]
    closure = getattr(f, "__closure__", None) or ()
    return [
        *found,
        *[seen(c.cell_contents) for c in closure],
        seen(f) if isinstance(f, nn.Module) else 0,
    ]


def outcomes(name, wrap=lambda f: f):
    torch.manual_seed(0)
    f, calls = PROGRAMS[name]()
    g = wrap(f)
    return [outcome(g, f, args) for args in (calls() if callable(calls) else calls)], g


# What no program holds yet; these run as they are written.
AS_WRITTEN = frozenset(
    "iterators_in_loops locks losses_that_save_nothing histories_of_leaves_made_inside "
    "namespaces_that_are_looked_at namespaces_behind_what_stops_a_capture numpy_use "
    "split_in_loops_over_iterators_of_others numbers_that_change_beside_arrays "
    "split_where_an_object_is_in_a_list_that_is_needed lists_that_hold_themselves results_that_hold_themselves "
    "second_derivatives_through_parts sparse_gradients gradients_that_are_kept_behind_other_results "
    "hooks_behind_a_split gradients_of_tensors_with_a_history_behind_a_split "
    "numbers_and_texts_that_python_keeps_stay_plain "
    "split_between_a_view_and_a_write_that_gives_its_base_a_history".split()
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_function_gives_the_same(name):
    wanted, _ = outcomes(name)
    found, g = outcomes(name, Compiled)
    assert found == wanted
    assert bool(g.programs) == (name not in AS_WRITTEN), g.reasons


PLACE = re.compile(
    r"\b(args|kwargs|c)(\((c, )*\w*=?c?\))?((\.get\([s0c]\)|\.(?!__class__|__dict__|_edge)\w+|\[[s0c]\])*)"
)


def form(condition):
    """A guard without names, numbers and places."""
    text = re.sub(r"'[^']*'", "s", condition)
    text = re.sub(r"\bc\d+\b", "c", re.sub(r"-?\b\d+(\.\d+)?\b", "0", text))
    text = re.sub(r"\((0, )*0?,?\)", "()", text)
    return re.sub(r"(place, )+", "place, ", PLACE.sub("place", text))


class Watched(Compiled):
    """A compiled function that notes which guards hold and do not hold when it is called."""

    held, broken = set(), set()

    def __call__(self, *args, **kwargs):
        for before, program in self.programs:
            space = {**program.names, "args": args, "kwargs": kwargs}
            walk = Walk(program.names)
            walked = {c for c in program.guards.conditions if walk.take(c)}
            sure = "walk" in space and space["walk"](space["walked"])
            for condition in program.guards.conditions if before == as_compared(state()) else ():
                try:
                    holds = eval(condition, space)
                except Exception:  # it reads what is not there any more
                    holds = False
                (self.held if holds else self.broken).add(form(condition))
                assert holds or not sure or condition not in walked
        return super().__call__(*args, **kwargs)


def test_every_form_of_guard_is_broken_by_some_program():
    for name in PROGRAMS:
        outcomes(name, Watched)
    assert len(Watched.held) > 20
    assert Watched.held - Watched.broken == set()


def test_numbers_that_change_make_few_programs():
    _, g = outcomes("counters", Compiled)
    assert len(g.programs) <= 5
    assert g.programs[0][1].summary().endswith("guards")


@pytest.mark.parametrize("by_name", [False, True])
def test_positions_that_change_make_two_programs(by_name):
    m = compile_position_programs.Attention()
    g, x = Compiled(m), torch.randn(1, 4)
    with torch.no_grad():
        wanted = [m(x, p) for p in range(8)]
        m.k.zero_(), m.v.zero_()
        found = [g(x, pos=p) if by_name else g(x, p) for p in range(8)]
    torch.testing.assert_close(found, wanted)
    assert len(g.programs) == 2


def test_a_text_that_is_generated_makes_two_programs():
    _, g = outcomes("a_text_that_is_generated", Compiled)
    assert len(g.programs) == 2  # of the first words, and of each behind them


def test_hooks_of_results_are_called_where_a_gradient_comes():
    f, called = torch.compile(lambda x: (x * 2, x.sin())), []
    for _ in range(3):
        a, b = f(torch.ones(2, requires_grad=True))
        a.register_hook(called.append)
        b.sum().backward()
    assert f.programs and called == []


def test_hooks_of_a_compiled_module_are_called():
    m, x = nn.Linear(2, 2), torch.ones(1, 2)
    g, seen = torch.compile(m), []
    wanted = m(x * 2) + 1
    hooks = [
        g.register_forward_pre_hook(lambda mod, a: (a[0] * 2,)),
        g.register_forward_hook(lambda mod, a, o: o + 1),
        g.register_full_backward_hook(lambda mod, a, o: seen.append(mod)),
    ]
    for _ in range(3):
        torch.testing.assert_close(g(x), wanted)
    g(x.clone().requires_grad_()).sum().backward()
    assert seen == [g]
    for hook in hooks:
        hook.remove()
    assert torch.equal(g(x), m(x))


def test_views_that_are_made_in_inference_mode_stay_leaves():
    def f(x):
        with torch.inference_mode():
            return x.view(-1)

    g = torch.compile(f)
    for _ in range(3):
        x = torch.ones(2, 2, requires_grad=True)
        assert (g(x).is_leaf, g(x).requires_grad) == (f(x).is_leaf, f(x).requires_grad)


Pair = collections.namedtuple("Pair", "x y")


def classes(v):
    """The classes of a value and of what it holds."""
    if isinstance(v, dict):
        v = list(v.values())
    if isinstance(v, BaseException):
        v = [v.args, vars(v)]
    return [type(v), *map(classes, v)] if isinstance(v, (list, tuple, set)) else type(v)


@pytest.mark.parametrize("whole", [True, False])
def test_numbers_that_are_kept_are_plain(whole):
    def helper(): ...

    kept, many = {}, set()

    def f(x):
        v = x.sum().item()
        own = {v}
        own.add(v + 1)
        many.add(v)
        helper.v = v
        e = ValueError(v)
        e.v = v
        if not whole:
            id(x.numpy())
        kept["k"] = (v, {"a": [v]})
        kept["e"] = e if v > 100 else e.args
        kept["p"] = Pair(v, [v])
        return own, [v, (v,)], {"k": {v}}

    g = Compiled(f)
    for k in range(4):
        r = g(torch.ones(3) * k)
        assert r[0] == {3.0 * k, 3.0 * k + 1}
        assert "Runtime" not in str(classes([r, many, kept, helper.v]))


def test_a_capture_lets_go_of_what_is_given_on(monkeypatch):
    """Also of the tuple of `*given`, and what a module's call is given is one."""

    def given_on(*given):
        return given[0].relu()

    def function(x):
        return given_on(given_on(x * 2) + 1).sum()

    x, found = torch.randn(7, 13, 3), []

    def noted(*given):
        every = [o for o in gc.get_objects() if type(o) is torch.Tensor]
        found.extend(t for t in every if type(t._array) is np.ndarray and t.shape == x.shape)
        return Program(*given)

    monkeypatch.setattr(compiled, "Program", noted)
    torch.testing.assert_close(torch.compile(function)(x), function(x))
    assert [t is x for t in found] == [True]


def test_guards_on_memory():
    """Programs that write to a buffer or an argument are not right where another argument is a part of it."""
    m = nn.BatchNorm1d(4)

    def f(x, y):
        return m(x) + y, m.running_mean * y

    def g(x, y):
        x.mul_(2)
        y = y + x
        x.add_(y)
        return y

    base = torch.arange(24.0)
    x = base[:12].view(3, 4)
    for h, calls in (
        (f, [(torch.ones(2, 4), torch.ones(4)), (torch.ones(2, 4), m.running_mean.view(4))]),
        (g, [(x, base[12:].view(3, 4)), (x, base[4:16].view(3, 4)), (x, base[:12].view(3, 4))]),
    ):
        results = []
        for wrap in (Compiled, lambda h: h):
            m.reset_running_stats()
            base.copy_(torch.arange(24.0))
            c = wrap(h)
            results.append([seen(c(*args)) for args in calls for _ in range(2)] + [seen(base)])
        assert results[0] == results[1]


def test_explain_names_the_lines_of_decisions():
    def f(x):
        return x if x.sum() > 0 else -x

    found = torch._dynamo.explain(f)(torch.ones(2))
    (reason,) = found.decisions
    line = f.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}, in f" in reason
    assert reason in str(found)


def test_a_function_of_too_many_ways_runs_as_written():
    c = torch.compile(lambda x, k: x[: k.item()].sum())
    for k in range(200):
        assert c(torch.ones(300), torch.tensor(k)).item() == k
    assert not c.programs


def test_prints(capsys):
    w = torch.ones(2, requires_grad=True)

    def f(x):
        loss = (x * w).sum()
        print("loss", loss, loss.item(), f"{loss.item():.1f} of {x.shape[0]}, {loss:.2f}", [x], w)
        print("%d %.1f" % (x.shape[0], loss.item()), str(x), "{:>9}".format(loss.item()), end=";")  # noqa: UP031, UP032
        loss.backward()
        return loss

    def shown(g):
        for k in range(3):
            r = g(torch.full((2,), float(k)))
            print(r, r.is_leaf)
        return capsys.readouterr().out

    c = torch.compile(f)
    assert shown(c) == shown(f)
    assert len(c.programs) == 2  # without and with a gradient


@dataclasses.dataclass
class Printed:
    n: int
    t: object = None


class Counts:
    """An object that counts how often it is asked for its text."""

    def __init__(self):
        self.n = 0

    def __str__(self):
        self.n += 1
        return f"text {self.n}"

    def __repr__(self):
        self.n += 10
        return f"repr {self.n}"


@pytest.mark.parametrize(
    "show",
    [
        lambda x, o: print(o, x.sum(), o),
        lambda x, o: print([o], o),
        lambda x, o: print(o, o, sep="/", end=f"{o}"),
        lambda x, o: print(str(o), repr(o), f"{o!r} {o}", x.shape),
    ],
)
def test_prints_ask_objects_once(show, capsys):
    def shown(wrapped):
        o = Counts()

        def f(x):
            show(x, o)
            return x * o.n

        g = wrapped(f)
        return [g(torch.ones(2)).tolist() for _ in range(4)], capsys.readouterr().out

    assert shown(torch.compile) == shown(lambda f: f)


def test_prints_objects_whose_texts_no_program_holds(capsys):
    """The text of a data class asks which thread asks; the call of `print` is not left out where that splits the function."""

    def f(x):
        print(x.sum(), Printed(2), "and", Printed(1, [3]), end=";")
        return x * 2, str(Printed(3)), repr(Printed(4)), f"{Printed(5)}"

    def shown(g):
        found = [g(torch.ones(2)) for _ in range(4)]
        return found, capsys.readouterr().out

    (a, out), (b, expected) = shown(torch.compile(f)), shown(f)
    assert out == expected
    assert [r[1:] for r in a] == [r[1:] for r in b]


def test_blocks_that_were_left_when_a_rest_raises_are_not_left_again():
    """A block that changes no mode is one, too: the modes are counted as before."""

    def f(x):
        with torch.inference_mode(False):
            threading.get_ident()
        x = x.clone()
        x[0] = 2
        return x

    c, before = torch.compile(f), active.modes
    for n in (3, 3, 0, 0, 3):
        try:
            c(torch.zeros(n))
        except IndexError:
            assert not n
        assert active.modes == before
    assert c.programs


@pytest.mark.parametrize("grad", [False, True])
def test_results_tell_how_often_they_were_written_to(grad):
    def f(x):
        a = x + 3
        a.mul_(2).add_(1)
        return a, x * 2, a.clone().zero_()

    c = torch.compile(f)
    for _ in range(3):
        x = torch.ones(3, requires_grad=grad)
        assert [t._version for t in c(x)] == [t._version for t in f(x)] == [2, 0, 1]
        with torch.inference_mode():
            assert all(t.is_inference() for t in c(x))
    assert c.programs


@pytest.mark.parametrize("f", [float, int, math.sqrt, round, lambda x: f"{x:.2f}"])
def test_numbers_of_complex_tensors(f):
    """They raise what they raise as they are written."""
    c = torch.compile(lambda x: f(x))

    def outcome(g):
        try:
            return g(torch.ones((), dtype=torch.complex64))
        except Exception as e:
            return type(e)

    assert [outcome(c) for _ in range(2)] == [outcome(f) for _ in range(2)]


def test_numbers_before_tensors():
    """Operators that take a number first: the dtype is the tensor's."""
    for f in (lambda x: 2.0**x, lambda x: torch.xlogy(2.0, x), lambda x: 3 / x, lambda x: 1 - x):
        for dtype in (torch.float32, torch.int32):
            c, x = torch.compile(f), torch.tensor([1, 2, 3], dtype=dtype)
            for _ in range(3):
                torch.testing.assert_close(c(x), f(x))
            assert c.programs


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    )


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_training(kind, whole):
    def losses(compiled):
        m = model()
        optimizer = getattr(torch.optim, kind)(m.parameters(), 0.05)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
        torch.manual_seed(1)
        x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
        forward = torch.compile(m) if compiled and not whole else m

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            optimizer.step()
            return loss

        if compiled and whole:
            step = torch.compile(step, fullgraph=True)
        found = []
        for _ in range(20):
            found.append(step(x, y).item())
            schedule.step()
        return found, [t.clone() for t in m.state_dict().values()]

    (a, before), (b, after) = losses(False), losses(True)
    assert b == pytest.approx(a, rel=1e-5)
    for s, t in zip(before, after, strict=True):
        torch.testing.assert_close(s, t, rtol=1e-4, atol=1e-6)


def test_modules():
    m = model()
    c = torch.compile(m)
    x = torch.randn(5, 4)
    assert isinstance(c, torch._dynamo.OptimizedModule)
    assert c._orig_mod is m
    assert [*c.state_dict()] == ["_orig_mod." + k for k in m.state_dict()]
    c.eval()
    assert not m.training
    for _ in range(2):
        assert torch.equal(c(x), m(x))
    for other in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c)):
        assert torch.equal(other(x), m(x))
    wanted = m(x)
    m.compile()
    assert torch.equal(m(x), wanted)
    assert torch.equal(m(x), wanted)


def test_fullgraph_says_what_stands_in_the_way():
    @torch.compile(fullgraph=True)
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"branch on the values.*test_compile.py:\d+, in f"
    ):
        f(torch.ones(2))
    assert f.__name__ == "f"
    assert torch.relu(torch.ones(1)).item() == 1  # no mode stays on


def test_a_backward_pass_after_a_parameter_was_written():
    m = nn.Linear(3, 3)
    c = torch.compile(lambda x: m(m(x)).sum())
    for _ in range(2):
        y = c(torch.ones(1, 3))
    with torch.no_grad():
        m.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_names():
    double = torch.compile(lambda x: x * 2)
    x = torch.ones(2)
    double(x)
    assert double.programs[0][1].summary().startswith("1 graphs of 1 operators")
    torch.compiler.reset()
    assert not double.programs

    @torch.compiler.disable
    def plain(x):
        return torch.compiler.is_compiling(), x

    assert not torch.compile(lambda x: plain(x)[0])(x)
    assert torch.compile(lambda x: torch.compiler.is_compiling())(x)
    found = torch._dynamo.explain(lambda x: x.relu() * 2)(x)
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 2)
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="Invalid backend"):
        torch.compile(plain, backend="nothing")
    with pytest.raises(
        AssertionError, match="A callable function is expected, but <class 'int'> is provided"
    ):
        torch.compile(3)
    torch.compiler.set_default_backend("eager")
    assert torch.compile(plain, name="plain", recompile_limit=3, isolate_recompiles=True) is plain
    torch.compiler.set_default_backend(None)
    assert torch.compiler.get_default_backend() == "inductor"

    @torch.compile
    def broken(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert broken(torch.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(plain, mode="default", options={})
    assert torch.compile(plain, backend="eager") is plain


# -- random programs -------------------------------------------------------------------------------

LINES = (
    "a = a * {k} + b",
    "b = F.relu(a - {k})",
    "a, b = b, a.tanh()",
    "xs.append(a.sum())",
    "a = a[:, :1] + b",
    "a = a.t().reshape(3, 2) if a.shape[0] == 2 else a.t()",
    "b = b.expand_as(a) if b.shape != a.shape and b.numel() == 1 else b",
    "a = a.clone(); a[0] = {k}; a.mul_(2)",
    "s.n += {k}",
    "a = a * s.n",
    "d['k{k}'] = d.get('k{k}', 0) + 1",
    "a = a + len(d)",
    "for i in range({k}): a = a + i",
    "if flag: a = a + w",
    "with torch.no_grad(): b = b + w.sum()",
    "try:\n        a = a / d['no']\n    except KeyError: b = b - 1",
    "xs = [x * 2 for x in xs] + [a.mean()]",
    "f = lambda v, k={k}: v * k + s.n\n    a = f(a)",
    "s.last = a.detach().mean()",
    "a = F.dropout(a, 0.5, flag)",
    "if a.sum() > 0: a = a + {k}",
    "while a.abs().mean() > {k}: a = a / 2",
    "v = a.mean().item(); s.last = v\n    if v > 0: b = b * v",
    "s.n += 1 if b.max() > a.max() else -1",
    "xs.append(s.n * a.sum().item())",
    "out.append(f'{{a.sum().item():.2f}} {{s.n}}')",
    "out.append(len(xs) + s.n)",
    "d['sum'] = d.get('sum', 0.0) + a.mean().item()",
    "w0.mul_(0.5).add_(a.detach().mean())",
    "a = a + w0",
    "if s.n % 3 == {k}: a = a.sum(0, keepdim=True).expand(2, 3)",
    "a = a * (a > 0) if (b > 0).any() else a - b.sum()",
    "xs.append(a[a > 0].sum())",
    "n = int((a > 0).sum()); a = a + n; xs.append(torch.ones(n).sum())",
    (
        "def g(v, *r, m=None, **o):\n        s.n += len(r)\n        return v * o.get('k', {k}) if m is None else m\n"
        "    a = g(a, 1, 2, k={k})"
    ),
    "s.kept = [a.detach(), b]; a = s.kept[0] + a",
    "s.n = s.n * 2 if s.n < 50 else 1",
    "global_n[0] += {k}; a = a + global_n[0]",
    "a = a + rnd.random() if rnd.random() < 0.5 else a",
    "b = b + torch.rand(3) if a.min() < -{k} else b",
    "if torch.isnan(a).any(): raise RuntimeError('nan')",
    "b = Twice.apply(b)",
    "a = a * float(np.mean(a.detach().numpy()))",
    "xs.append(foreign(a)); a = a + len(xs)",
    "foreign(s); a = a * s.n",
    "a = sorted([(a.mean().item(), 0), (0.0, 1)])[0][1] + a if flag else a",
    "a = max([a.sum().item(), {k}.0]) * a",
    "b.register_hook(lambda g: g * {k}) if b.requires_grad and not b.is_leaf else 0",
    "s.items = []; s.items.append(a.sum()); xs.extend(s.items)",
    "many.append(a.detach().sum()); a = a + len(many)",
    "many += [{k}]",
    "if len(many) > 4: many.clear()",
    "counts['k{k}'] += 1; a = a * counts['k{k}']",
    "a = a + sum(queue); queue.append({k})",
    "a = scaled(a) * scaled.k + scaled.n * len(scaled)",
    "scaled.k = {k}",
    "a = helper(a) if flag else helper(a, {k})",
    "helper.n += 1; a = a + helper.n",
    "a = net(a) if a.shape[-1] == 3 else a",
    "net.train(flag)",
    (
        "match d.get('k1'):\n        case None: a = a + 1\n        case int(n) if n > 1: a = a - n\n"
        "        case _: a = a * 2"
    ),
    "a = a[[0, -1]] if a.shape[0] > 1 else a",
    "a = a.clone(); a[:, [0]] = {k}",
    "g = (v * 2 for v in a); a = a + next(g).sum()",
    "d.pop('k{k}', None); d.setdefault('z', []).append(1); a = a + len(d['z'])",
    "b = b + w.grad.sum() if w.grad is not None else b",
    "w.grad = None",
    "a = a.reshape(-1)[:{k} * 2].reshape({k}, 2)[:, :1] + b",
    "a = a.to(torch.float64).to(torch.float32) if flag else a",
    "i = 0\n    while True:\n        i += 1\n        if i > {k}: break\n        if i == 2: continue\n        a = a + i",
)

# What changes between two calls.
CHANGES = (
    "", "", "s.n = {k}", "s.last = None", "d['k{k}'] = {k}", "d.pop('k1', None)", "many.append({k})", "many.clear()",
    "queue.append({k})", "scaled.k = {k} + 5", "type(scaled).n = {k}", "type(scaled).__call__ = lambda s, x: x * {k}",
    "type(scaled).__len__ = lambda s: {k}", "helper.__defaults__ = ({k},)", "helper.n = {k}", "net.eval()",
    "net[0].weight.data = net[0].weight.data * 2", "net[0].weight.requires_grad_(False)", "net[0].bias = None",
    "net[1].p = 0.{k}", "w0.fill_({k})", "w.grad = None", "f.__globals__['helper'] = lambda x, k=1: x - k",
    "f.__globals__['len'] = lambda v: {k}", "net[0].register_forward_hook(lambda m, i, o: o + {k})", "d.clear()",
    "net.append(torch.nn.ReLU())", "f.__globals__['w0'] = torch.full((1,), {k}.0)", "w.data = torch.ones(1, 3) * {k}",
)  # fmt: skip


class Twice(torch.autograd.Function):
    """Its gradient is wrong, so that it can be told from others."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@torch.compiler.disable
def foreign(o):
    """What no program holds."""
    if isinstance(o, Space):
        o.n += 1
        return o
    return o.sum() * 2


class Scaled:
    k, n = 1, 2

    def __call__(self, x):
        return x * self.k

    def __len__(self):
        return self.k


class Space:
    def __init__(self):
        self.n, self.last = 1, None


def helper(x, k=1):
    return x + k


def random_program(lines, w):
    """A function of (a, b, flag) and what it reads from outside."""
    body = "\n    ".join(lines)
    source = f"def f(a, b, flag):\n    global many\n    xs = []\n    {body}\n    return a, b, xs, s.n, s.last, w0\n"
    space = {
        "torch": torch, "F": F, "np": np, "foreign": foreign, "s": Space(), "d": {}, "w": w, "w0": torch.zeros(1), "out": [],
        "global_n": [0], "rnd": random.Random(1), "Twice": Twice, "many": [], "queue": collections.deque([1]),
        "counts": collections.defaultdict(int), "scaled": type("Own", (Scaled,), dict(vars(Scaled)))(),
        "net": nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2)), "helper": FunctionType(helper.__code__, {}),
    }  # fmt: skip
    space["helper"].__defaults__, space["helper"].n = (1,), 0
    exec(source, space)
    return space["f"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.integers(1, 3)), min_size=1, max_size=8),
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(CHANGES), st.sampled_from([2, 2, 2, 3, 1])),
        min_size=3,
        max_size=5,
    ),
)
def test_random_programs(lines, calls):
    lines = [line.format(k=k) for line, k in lines]

    def results(wrap):
        torch.manual_seed(0)
        w = torch.randn(1, 3, requires_grad=True)
        f = wrap(random_program(lines, w))
        found = []
        space = getattr(f, "function", f).__globals__
        for k, (flag, change, rows) in enumerate(calls):
            exec(change.format(k=k), {**space, "f": getattr(f, "function", f)})
            a, b = torch.randn(rows, 3), torch.randn(2, 3)
            try:
                r = f(a, b, flag)
            except (RuntimeError, IndexError, TypeError, AttributeError) as e:
                found.append(type(e))
                continue
            if r[0].requires_grad:
                r[0].sum().backward()
            found += [seen(r), seen(w.grad), seen(space["d"]), space["out"][-3:], space["global_n"]]
            found += [seen(space[n]) for n in ("many", "queue", "counts", "net")] + [
                getattr(space["helper"], "n", 0)
            ]
        return found

    assert alike(results(Compiled), results(lambda f: f)), lines


def alike(a, b):
    """Whether what `seen` gave is the same but for the last digit of numbers."""
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=3e-3, abs=1e-5)
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


class Inlined(Watch):
    """Interprets all Python functions."""

    def call(self, frame, f, args, kwargs):
        inner = frame_of(f, args, kwargs) if isinstance(f, FunctionType) else None
        return super().call(frame, f, args, kwargs) if inner is None else run(inner, self)


def test_the_interpreter_alone():
    import difflib
    import json
    import textwrap

    text = "to be interpreted " * 9
    for f, args in (
        (textwrap.fill, (text, 30)),
        (json.dumps, ({"a": [1, {"b": None}], "c": 1.5},)),
        (lambda: [*difflib.unified_diff(["a", "b"], ["a", "c"])], ()),
    ):
        assert Inlined().call(None, f, args, {}) == f(*args)


def test_a_backward_pass_of_what_a_view_from_outside_gives():
    x, layer = torch.linspace(0, 1, 6).reshape(-1, 1), nn.Linear(1, 3)

    def step():
        layer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        return loss

    compiled = torch.compile(step)
    for _ in range(3):
        found = seen([compiled(), layer])
        assert found == seen([step(), layer])
    assert compiled.programs


@pytest.mark.parametrize("part", [0, 1])
def test_a_result_that_is_written_to_before_the_backward_pass(part):
    """Memory that the backward pass needs is watched, also through other results, and without holding these."""

    def f(x):
        y = x.exp()
        return y, y.detach()

    compiled = torch.compile(f)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            found = compiled(x)
            with torch.no_grad():
                found[part].add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                found[0].sum().backward()
            compiled(x)[0].sum().backward()
            assert x.grad.tolist() == pytest.approx([math.e] * 3)
            array = weakref.ref(found[0]._array)
            del found
            assert array() is None
    finally:
        gc.enable()
    assert compiled.programs


@pytest.mark.parametrize("taken", [(0,), (1,), (0, 1)])
def test_a_written_value_is_refused_where_a_gradient_reads_it(taken):
    """A backward pass from results whose gradients do not read it goes on, as without `torch.compile`."""

    def f(x, w):
        return x * w, x.exp() + 1

    compiled = torch.compile(f)
    for _ in range(3):
        passed = []
        for g in (f, compiled):
            x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
            found = g(x, w)
            w.add_(1)
            try:
                sum(found[k].sum() for k in taken).backward()
                passed.append(x.grad.tolist())
            except RuntimeError as e:
                passed.append(str(e).partition("modified by an inplace operation")[1])
        assert passed[0] == passed[1] != "" and isinstance(passed[0], str) == (0 in taken)
    assert compiled.programs


def times_itself(x, w):
    a = x * 1.0
    v = a[0]
    v.mul_(a[0])
    return a


def times_itself_later(x, w):
    v = x[0]
    v.mul_(w)
    v.mul_(x[0])
    return v


def itself_times_it(x, w):
    v = x[0]
    v.mul_(w)
    x[0].mul_(v)
    return v


@pytest.mark.parametrize("f", [times_itself, times_itself_later, itself_times_it])
def test_a_write_that_reads_its_own_memory_is_refused_in_backward(f):
    """A gradient reads what was overwritten, under another view's name."""
    compiled = torch.compile(f)
    for g in (f, compiled, compiled, compiled):
        x = torch.ones(2, 3, requires_grad=True) * 2
        w = torch.full((3,), 0.5, requires_grad=True)
        r = g(x, w)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            r.sum().backward()


def test_a_function_is_split_at_calls_that_no_program_holds():
    def f(x):
        y = x.sin() * 2
        s = foreign(y)
        return y.cos() * s

    found = torch._dynamo.explain(f)(torch.randn(3))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 4)
    assert "foreign is disabled" in found.break_reasons[0]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="foreign is disabled"):
        torch.compile(f, fullgraph=True)(torch.randn(3))


def test_what_is_never_the_same_behind_a_split_runs_as_it_is_written():
    kinds = itertools.count()

    def f(x):
        y = x * 2
        k = foreign(type("Kind", (Space,), {})())
        return y + (k.n if next(kinds) < 100 else 0)

    compiled = torch.compile(f)
    for _ in range(60):
        assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert not compiled.programs


def test_the_report_tells_lines_kernels_and_memory():
    def f(x):
        y = x.sin() * 2
        return (y + 1).sum(0)

    found = torch._dynamo.explain(f)(torch.randn(40, 30))
    kernels = found.kernels()
    assert [op for k in kernels for op in k.operators] == ["sin", "mul", "add", "sum"]
    fused = next(k for k in kernels if len(k.operators) > 1)
    assert fused.source.startswith("def chain(")
    assert all("test_compile.py" in k.line and "in f" in k.line for k in kernels)
    assert all(0 < k.seconds < 10 for k in kernels)
    assert "<title>add" in found.memory().svg
    assert fused.source.splitlines()[1] in found.report()


def test_the_report_measures_losses_that_take_probabilities():
    decode = torch.nn.Sequential(torch.nn.Linear(8, 800), torch.nn.Linear(800, 9))

    def step(x):
        odds = decode(x).exp()
        y = odds / (odds + 1)
        return torch.nn.functional.binary_cross_entropy(y, torch.ones_like(y))

    kernels = torch._dynamo.explain(step)(torch.rand(5, 8)).kernels()
    assert any("binary_cross_entropy" in op for k in kernels for op in k.operators)


def test_maxima_are_found_before_they_are_rectified():
    conv = torch.nn.Conv2d(1, 4, 3)

    def step(x):
        y = torch.nn.functional.max_pool2d(conv(x).relu(), 2)
        y.sum().backward()
        return y

    x = torch.randn(2, 1, 10, 10)
    y = step(x)
    expected = [p.grad.clone() for p in conv.parameters()]
    conv.zero_grad()
    done = [op for k in torch._dynamo.explain(step)(x).kernels() for op in k.operators]
    assert done.index("internal_max_pool2d") < done.index("relu")
    conv.zero_grad()
    assert torch.equal(torch.compile(step)(x), y)
    for p, g in zip(conv.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, g)


def test_the_report_changes_nothing():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    x = torch.randn(5, 3)
    found = torch._dynamo.explain(step)(x)
    before = [p.clone() for p in model.parameters()]
    state = torch.get_rng_state()
    found.report()
    torch.testing.assert_close(before, [*model.parameters()], rtol=0, atol=0)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("writes", [False, True])
def test_errors_in_compiled_code_name_the_line_of_the_user(writes):
    table, calls = torch.nn.Embedding(10, 4), torch.zeros(())

    @torch.compile
    def f(i):
        if writes:  # what was done before is not done twice
            calls.add_(1)
        y = table(i)
        return y * 2 + 1

    with torch.no_grad():
        for _ in range(3):
            f(torch.tensor([1, 2]))
        with pytest.raises(IndexError, match="out of range") as caught:
            f(torch.tensor([1, 20]))
    assert calls.item() == (4 if writes else 0)
    assert any("y = table(i)" in line for line in traceback.format_exception(caught.value))


@pytest.mark.parametrize("stops", [False, True])
def test_the_first_call_leaves_nothing_to_the_collector(stops):
    def f(x):
        parts = [x * 2, x.exp()]
        if stops:
            x.storage()
        return torch.cat(parts).sum()

    gc.collect()
    gc.disable()
    try:
        Compiled(f)(torch.ones(7, 13))
        left = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor) and o.ndim == 2]
        assert (7, 13) not in [tuple(o.shape) for o in left if type(o._array) is np.ndarray]
    finally:
        gc.enable()


def test_sizes_that_grow_become_two_programs_and_no_more():
    f = Compiled(lambda x: (x.relu() * 2).sum())
    for n in range(1, 40):
        assert f(torch.ones(n)).item() == 2 * n
    assert len(f.programs) == 2


def test_sizes_that_come_again_become_programs():
    f = Compiled(lambda x, k: x[:k] + 1)
    for _ in range(3):
        for n, k in ((4, 2), (5, 2), (6, 3), (6, 2)):
            assert f(torch.zeros(n), k).tolist() == [1.0] * k
    assert len(f.programs) == 4


def test_a_size_becomes_a_program_when_it_came_twice_as_often_as_the_one_before():
    f = Compiled(lambda x: x.sum() / x.shape[0] if x.shape[0] % 2 else x[: x.shape[0] // 2].sum())
    for n, needed in ((2, 1), (3, 1), (4, 2), (5, 4), (6, 8)):
        made = len(f.programs)
        for k in range(1, needed + 1):
            assert len(f.programs) == made
            assert f(torch.ones(n)).item() == (1 if n % 2 else n // 2), k
        assert len(f.programs) == made + 1
    for n in range(2, 9):
        assert f(torch.ones(n)).item() == (1 if n % 2 else n // 2)
    assert len(f.programs) == 5


def test_a_size_that_came_often_becomes_a_program_however_many_there_are(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH", 2)
    f = Compiled(lambda x: x + 1)
    for n in [*range(1, 20)] * 2:
        assert f(torch.zeros(n)).tolist() == [1.0] * n
    assert len(f.programs) == 19


def test_without_dynamic_sizes_each_size_becomes_a_program():
    f = torch.compile(lambda x: x + 1, dynamic=False)
    for n in range(1, 6):
        assert f(torch.zeros(n)).tolist() == [1.0] * n
    assert len(f.programs) == 5


def test_a_variable_of_inner_functions_without_a_value():
    def f(x):
        if x is None:
            k = 1
        return x + sum(k for _ in range(2))

    def g(x):
        if x is None:
            k = 1
        k += 1
        return x + sum(k for _ in range(2))

    for each, kind, text in (
        (f, NameError, "free variable 'k'"),
        (g, UnboundLocalError, "local variable 'k'"),
    ):
        with pytest.raises(kind, match=text):
            Compiled(each)(torch.ones(3))


def test_gradients_of_another_layout_than_in_the_capture():
    x = torch.randn(3, 4, 5, requires_grad=True)
    w = torch.randn(6, 5, requires_grad=True)
    layouts = [
        lambda y: y.sum(),
        lambda y: (y * y).sum(),
        lambda y: (y.transpose(1, 2) * torch.randn(3, 4, 6)).sum(),
        lambda y: torch.nn.functional.cross_entropy(y, torch.arange(12).view(3, 4) % 6),
        lambda y: y[1:].sum(),
    ]
    f = Compiled(lambda x: torch.nn.functional.linear(x.relu(), w).transpose(1, 2))
    for loss in layouts * 2:
        found = []
        for g in (f, f.function):
            torch.manual_seed(0)
            found.append(torch.autograd.grad(loss(g(x)), (x, w)))
        torch.testing.assert_close(*found, rtol=0, atol=0)
    assert len(f.programs) == 1


def test_sources_of_results_without_a_gradient_have_none():
    """Optimizers leave parameters without a gradient alone, but not those with a gradient of zeros."""
    main, other, shared = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 3)
    parts = nn.ModuleList([main, other, shared])
    start = copy.deepcopy(parts.state_dict())
    outcomes = []
    for wrap in (lambda f: f, Compiled):
        parts.load_state_dict(start)
        optimizer = torch.optim.AdamW(parts.parameters(), 0.1)
        f = wrap(lambda x: (main(shared(x)), other(shared(x).relu()).sum(0), x * 2))
        for k in range(6):
            optimizer.zero_grad()
            f(torch.ones(2, 3) * k)[k % 3 // 2].sum().backward()
            outcomes.append([p.grad is None for p in parts.parameters()])
            optimizer.step()
        outcomes.append(seen(parts))
    assert alike(outcomes[:7], outcomes[7:])


def test_stances_say_when_to_compile():
    @torch.compile
    def f(x):
        return x * 2 + 1

    x, other = torch.ones(3), torch.ones(4)
    with torch.compiler.set_stance("eager_on_recompile"):
        f(x), f(x)
    assert not f.programs
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match="Detected recompile"),
    ):
        f(x)
    with torch.compiler.set_stance("eager_then_compile"):
        f(x)
        assert not f.programs
        f(x)
    assert len(f.programs) == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        assert f(x).tolist() == [3.0] * 3
        with torch.compiler.set_stance("force_eager"):
            assert f(other).tolist() == [3.0] * 4
        with pytest.raises(RuntimeError, match="none is right"):
            f(other)

    @torch.compiler.set_stance("force_eager")
    def eager(y):
        return f(y)

    eager(other)
    assert len(f.programs) == 1
    torch.compiler.set_stance("default", force_backend="eager")
    f(other)
    torch.compiler.set_stance("default")
    assert len(f.programs) == 1
    f(other)
    assert len(f.programs) == 2


@pytest.mark.parametrize(
    ("stance", "options", "words"),
    [
        ("fast", {}, "invalid torch.compile stance 'fast'"),
        ("force_eager", {"force_backend": "inductor"}, "for the stance 'default' only"),
        ("default", {"force_backend": "fast"}, "Invalid backend"),
    ],
)
def test_stances_that_are_refused_change_nothing(stance, options, words):
    with pytest.raises(RuntimeError, match=words):
        torch.compiler.set_stance(stance, **options)
    f = torch.compile(lambda x: x + 1)
    f(torch.ones(2))
    assert len(f.programs) == 1


def test_a_back_end_of_the_users_own_gets_the_graphs_and_its_functions_run():
    seen, runs = [], []

    def backend(graph_module, inputs):
        assert isinstance(graph_module, torch.fx.GraphModule)
        seen.append([tuple(t.shape) for t in inputs])

        def run(*tensors):
            runs.append(len(tensors))
            return graph_module(*tensors)

        return run

    def f(x, y):
        return (x.sin() @ y).relu().sum()

    def write(x):
        x += 1
        return x * 2

    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2)
    compiled = torch.compile(f, backend=backend)
    f(x, y).backward()
    expected, x.grad = x.grad, None
    for _ in range(3):
        x.grad = None
        result = compiled(x, y)
        result.backward()
        assert torch.equal(result, f(x, y)) and torch.equal(x.grad, expected)
    assert seen[0] == [(3, 4), (4, 2)] and len(seen) == 2  # forward and backward, once each
    assert len(runs) == 4
    model = torch.compile(torch.nn.Linear(4, 2), backend=backend)
    assert torch.equal(model(y.t()), model(y.t()))
    written = torch.compile(write, backend=backend)
    a, b = torch.ones(3), torch.ones(3)
    written(a), written(a), write(b), write(b)
    assert torch.equal(a, b)
    named = torch._dynamo.register_backend(backend, name="of_this_test")
    try:
        assert "of_this_test" in torch._dynamo.list_backends() and named is backend
        before = len(seen)
        torch.compile(f, backend="of_this_test")(x, y)
        assert len(seen) == before + 2
        with pytest.raises(AssertionError, match="duplicate name"):
            torch._dynamo.register_backend(backend, name="of_this_test")
    finally:
        del torch.compiler.BACKENDS["of_this_test"]
    with pytest.raises(TypeError, match="must return a function, got NoneType"):
        torch.compile(f, backend=lambda *given: None)(x, y)
    with pytest.raises(RuntimeError, match="Invalid backend: 3"):
        torch.compile(f, backend=3)


@pytest.mark.parametrize("cell", ["GRUCell", "LSTMCell", "RNNCell"])
def test_cells_give_the_bits_of_eager_mode(cell):
    m = getattr(nn, cell)(8, 16)

    def f(x):
        m.zero_grad()
        h = None
        for t in range(3):
            h = m(x[t], h)
        (h[0] if isinstance(h, tuple) else h).square().sum().backward()
        return [p.grad for p in m.parameters()]

    c, x = torch.compile(f), torch.randn(3, 5, 8)
    wanted = [g.clone() for g in f(x)]
    for _ in range(3):
        assert all(map(torch.equal, c(x), wanted))
    assert c.programs


def test_writes_are_counted_as_often_as_in_eager_mode():
    def f(x):
        x.add_(1)
        x[0].mul_(2)
        return torch.mul(x, 2, out=x)

    c = torch.compile(f)
    for _ in range(3):
        x, y = torch.ones(2, 2), torch.ones(2, 2)
        f(x), c(y)
        assert x._version == y._version


def many_results(x):
    y = F.layer_norm(x, (3,))
    a = x.clone()
    a[:, 1].mul_(3)
    return x.sqrt(), y * 2, y.abs().sqrt(), a.log().sum(), a[:, 1:].sqrt(), torch.cat([a, y])


def test_results_without_a_gradient_send_nothing():
    """An infinite derivative of a result that is not used gives no NaN: no zero is sent there."""
    c, start = torch.compile(many_results), torch.tensor([[0.0, 1, 2], [3, 0, 5]])
    c(start.clone().requires_grad_())
    assert c.programs
    for used in [(1,), (5,), (1, 5), (0,), (0, 1), (3, 4), (2, 4, 5), (0, 1, 2, 3, 4, 5)]:
        gradients = []
        for f in (many_results, c):
            x = start.clone().requires_grad_()
            results = f(x)
            sum(results[k].sum() for k in used).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, equal_nan=True)


def test_checks_of_elements_are_made_in_each_call():
    """What an operator says of elements that it refuses: in a compiled function too, in its words."""
    x, lu = torch.arange(6.0), torch.eye(3)
    pivots = [torch.tensor(p, dtype=torch.int32) for p in ([1, 2, 3], [3, 2, 3], [0, 2, 3])]
    columns = [torch.tensor(i) for i in ([0, 1], [5, 2], [6, 0])]
    counted = [torch.tensor(i) for i in ([0, 1], [1, 2], [-1, 2])]
    for f, calls in (
        (lambda p: torch.linalg.lu_solve(lu, p, lu), pivots),
        (lambda i: torch.take(x, i), columns),
        (lambda i: torch.bincount(i, minlength=4), counted),
        (lambda i: x[:2].repeat_interleave(i, 0), counted),
    ):
        c = torch.compile(f)
        for v in calls[:2]:
            assert torch.equal(c(v), f(v))
        assert c.programs
        with pytest.raises((RuntimeError, IndexError)) as wanted:
            f(calls[2])
        with pytest.raises(wanted.type, match=re.escape(str(wanted.value))):
            c(calls[2])


def test_a_write_to_an_argument_with_a_history_is_not_recorded():
    """The argument would keep its history from before the write, and lose a part of its gradient."""

    def doubled(x):
        x.t().mul_(2)
        return x.sum()

    compiled = torch.compile(doubled)
    for _ in range(3):
        x = torch.ones(2, 3, requires_grad=True)
        y = x * 1
        (compiled(y) + y.sum()).backward()
        assert x.grad.tolist() == [[4.0] * 3] * 2
    assert "another history" in str(compiled.reasons)


def test_switches_of_dynamo_that_have_an_effect():
    config, exc = torch._dynamo.config, torch._dynamo.exc
    with config.patch(disable=True):
        f = torch.compile(lambda x: x + 1)
        assert f(torch.ones(2)).tolist() == [2.0, 2.0] and not f.programs
    f(torch.ones(2))
    assert len(f.programs) == 1
    with config.patch(error_on_recompile=True):
        f(torch.ones(2))
        with pytest.raises(exc.RecompileError, match="none of its 1 programs"):
            f(torch.ones(3))
    with (
        config.patch(cache_size_limit=1, fail_on_recompile_limit_hit=True),
        pytest.raises(exc.FailOnRecompileLimitHit, match="recompile_limit reached"),
    ):
        f(torch.ones(3))
    with config.patch(accumulated_recompile_limit=1):
        assert f(torch.ones(3)).tolist() == [2.0] * 3 and len(f.programs) == 1

    flag = 0

    @torch.compile
    def g(x):
        return x + flag

    with config.patch(recompile_limit=2):
        for flag in range(4):
            assert g(torch.zeros(1)).item() == flag
    assert len(g.programs) <= 2


def test_errors_of_numbers_of_tensors_name_plain_classes():
    def f(x):
        return x.sum().item() + "a"

    compiled = torch.compile(f)
    for _ in range(3):
        with pytest.raises(TypeError, match=r"for \+: 'float' and 'str'"):
            compiled(torch.ones(3))


def test_errors_of_a_back_end_may_be_suppressed():
    def backend(graph, inputs):
        raise ValueError("no back end")

    x = torch.ones(2)
    with pytest.raises(ValueError, match="no back end"):
        torch.compile(lambda x: x + 1, backend=backend)(x)
    with torch._dynamo.config.patch(suppress_errors=True):
        f = torch.compile(lambda x: x + 1, backend=backend)
        assert f(x).tolist() == [2.0, 2.0] and "no back end" in f.reasons[0]


def test_operators_of_the_user_are_called_by_programs():
    calls = []

    @torch.library.custom_op("compiled_here::power", mutates_args=())
    def power(x: torch.Tensor, k: int) -> torch.Tensor:
        calls.append(k)
        return torch.from_numpy(x.numpy() ** k)

    @torch.library.custom_op("compiled_here::both", mutates_args=())
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x * 2

    def f(x):
        a, b = both(x)
        return power(a, 2) + torch.ops.compiled_here.power(b, 3) * 0.5

    x = torch.tensor([1.0, 2.0])
    with pytest.raises(torch._dynamo.exc.Unsupported, match="has no fake implementation"):
        torch.compile(f, fullgraph=True)(x)
    power.register_fake(lambda x, k: torch.empty_like(x))
    both.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))
    power.register_autograd(
        lambda ctx, g: (g * ctx.k * ctx.saved_tensors[0] ** (ctx.k - 1), None),
        setup_context=lambda ctx, inputs, output: (
            ctx.save_for_backward(inputs[0]),
            setattr(ctx, "k", inputs[1]),
        ),
    )
    compiled = torch.compile(f, fullgraph=True)
    calls.clear()
    for v in (x, x + 1, x):
        assert torch.allclose(compiled(v), (v + 1) ** 2 + (2 * v) ** 3 / 2)
    assert calls == [2, 3] * 3 and len(compiled.programs) == 1
    compiled = torch.compile(lambda x: power(x, 3).sum(), fullgraph=True)
    for v in (x, x + 1):
        v = v.clone().requires_grad_()
        compiled(v).backward()
        assert torch.allclose(v.grad, 3 * v.detach() ** 2)
    assert len(compiled.programs) == 1


def test_operators_of_the_user_that_write_or_draw():
    @torch.library.custom_op("compiled_here::increment", mutates_args=("x",))
    def increment(x: torch.Tensor) -> None:
        x += 1

    @torch.library.custom_op("compiled_here::draw", mutates_args=())
    def draw(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(x.shape)

    draw.register_fake(torch.empty_like)
    f = torch.compile(lambda x: (increment(x), x * 2)[1])
    x = torch.zeros(2)
    assert [f(x).tolist() for _ in range(3)] == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    whole = torch.compile(lambda x: increment(x), fullgraph=True)
    assert [(whole(x), x.tolist())[1] for _ in range(3)] == [[4.0, 4.0], [5.0, 5.0], [6.0, 6.0]]
    g = torch.compile(lambda x: (draw(x), draw(x)), fullgraph=True)
    for _ in range(3):
        torch.manual_seed(0)
        a, b = g(x)
        torch.manual_seed(0)
        assert torch.equal(a, torch.rand(2)) and torch.equal(b, torch.rand(2))


def test_functions_that_remember_results_of_tensors():
    @functools.lru_cache
    def twice(x, k=2):
        return x * k

    f = torch.compile(lambda x: twice(x, k=3) + twice(x), fullgraph=True)
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="twice remembers its results"):
        assert f(x).tolist() == [5.0, 5.0]
    assert f(x + 1).tolist() == [10.0, 10.0] and len(f.programs) == 1
    x += 2
    assert f(x).tolist() == [15.0, 15.0]


def test_logs_tell_what_becomes_of_calls(capsys):
    def told(**logs):
        torch._logging.set_logs(**logs)
        try:
            torch.compile(lambda x: x + 1)(torch.ones(2))
        finally:
            torch._logging.set_logs()
        return "is compiled" in capsys.readouterr().err

    assert told(recompiles=True) and told(dynamo=logging.DEBUG) and told(all=logging.INFO)
    assert not told() and not told(output_code=True) and not told(dynamo=logging.ERROR)
    torch._logging.set_logs(onnx=logging.ERROR)
    assert logging.getLogger("torch.onnx").level == logging.ERROR
    torch._logging.set_logs()
    for error, match, logs in (
        (TypeError, "unexpected keyword argument 'nonsense'", {"nonsense": True}),
        (ValueError, "Unrecognized log level for log dynamo", {"dynamo": "a"}),
        (ValueError, "Expected bool to enable artifact guards", {"guards": 10}),
        (ValueError, "Unrecognized log or artifact name", {"modules": {"foo": 10}}),
    ):
        with pytest.raises(error, match=match):
            torch._logging.set_logs(**logs)


SIZED = {
    "size": lambda x, n: x.size(dim=n),
    "sum": lambda x, n: x.sum(dim=n),
    "cat": lambda x, n: torch.cat([x, x], dim=n),
    "roll": lambda x, n: x.roll(shifts=n, dims=0),
    "full": lambda x, n: torch.full((n, 2), 1.5) + x[0, 0, 0],
    "new_zeros": lambda x, n: x.new_zeros(size=(n, 2)),
    "new": lambda x, n: x.new(n, 2).fill_(x[0, 0, 0]),
    "view": lambda x, n: x.expand((n, 2, 3, 4)),
}


@pytest.mark.parametrize("case", SIZED)
def test_integers_that_change_are_arguments_by_name_and_parts_of_sizes(case):
    compiled, x = torch.compile(SIZED[case], fullgraph=True), torch.rand(2, 3, 4)
    for n in (1, 2, 0, 1):
        assert torch.equal(*(torch.as_tensor(f(x, n)) for f in (compiled, SIZED[case])))


def test_dictionaries_among_the_arguments_may_have_keys_of_any_constant():
    class Key(enum.Enum):
        FIRST = 1

    @torch.compile(fullgraph=True)
    def f(d):
        return d[Key.FIRST] * 2 + d[torch.float32] + d[1.5]

    for k in range(3):
        x = torch.full((2,), float(k))
        assert f({Key.FIRST: x, torch.float32: x, 1.5: x}).tolist() == [4.0 * k] * 2


def test_a_full_graph_may_assert_what_tensors_hold():
    # as text: pytest makes something else of an assert in a test
    text = "def f(x):\n    y = x * 2\n    assert (y > 0).all(), f'not positive: {x.shape}'\n    return y + 1"
    exec(text, space := {})
    f = torch.compile(space["f"], fullgraph=True)
    for _ in range(2):
        assert f(torch.ones(2)).tolist() == [3.0, 3.0]
        with pytest.raises(AssertionError, match=r"not positive: torch.Size\(\[2\]\)"):
            f(-torch.ones(2))


def test_the_greatest_of_several_flags_iterates_none_of_them():
    class Part(enum.IntFlag):
        FIRST = 1
        SECOND = 2

    both = Part.FIRST | Part.SECOND
    f = torch.compile(lambda x, n: x * max(n, both) + min(n, both))
    for n in (1, 2, 5):
        assert f(torch.ones(2), n).tolist() == [max(n, 3.0) + min(n, 3.0)] * 2
