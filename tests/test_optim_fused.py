"""Compiled update rules: the same bits as NumPy's, and NumPy's where they cannot be had."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import threading

import numpy as np
import pytest

import rushlight as torch
from processes import printed
from rushlight._backends import cpu, llvm
from rushlight._codegen.kernels import update
from rushlight.core.tensor import _wrap
from rushlight.optim import fused

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True, maximize=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr_decay=0.1),
    "adamax": lambda p: torch.optim.Adamax(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "nadam": lambda p: torch.optim.NAdam(p, weight_decay=0.1),
    "radam": lambda p: torch.optim.RAdam(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "centered": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
    "rprop": lambda p: torch.optim.Rprop(p),
}


@pytest.fixture
def fresh(monkeypatch):
    """As in a process that has compiled nothing yet."""
    llvm.activate()
    monkeypatch.setattr(fused, "_refused", set())


def train(name, dtype=torch.float32, steps=4, shapes=((7, 5), (130,), ())):
    torch.manual_seed(3)
    parameters = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    optimizer = OPTIMIZERS[name](parameters)
    special = torch.tensor([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 1e38], dtype=dtype)
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape, dtype=dtype)
            if p.numel() == 130:
                p.grad[:8] = special
                p.data[8:16] = 0.0 * special.sign()
        optimizer.step()
    state = [
        value
        for p in parameters
        for value in optimizer.state[p].values()
        if isinstance(value, torch.Tensor)
    ]
    # Of two NaN either may come through, and their bits (the sign) are not specified.
    arrays = [t._array for t in (*parameters, *state)]
    return [np.where(np.isnan(a), np.array(np.nan, a.dtype), a).tobytes() for a in arrays]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_bits(name, dtype, fresh, monkeypatch):
    pytest.importorskip("llvmlite")
    left = []
    native = fused.Batch._native
    monkeypatch.setattr(fused.Batch, "_native", lambda *a: left.append(native(*a)) or left[-1])
    compiled = train(name, dtype)
    assert left and not any(left) and not fused._refused
    monkeypatch.setattr(fused, "available", lambda: False)
    assert compiled == train(name, dtype)


def test_without_llvmlite():
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import rushlight as torch\n"
        "p = torch.nn.Parameter(torch.ones(20_000)); p.grad = torch.ones(20_000)\n"
        "for _ in range(2): torch.optim.SGD([p], lr=0.25).step()\n"
        "assert p.tolist() == [0.5] * 20_000\n"
    )
    printed(code)


def test_loop_that_llvm_refuses(fresh, monkeypatch):
    pytest.importorskip("llvmlite")

    def refuse(*args):
        raise RuntimeError("this is no LLVM")

    monkeypatch.setattr(update, "compiled", refuse)
    got = train("adam")
    assert fused._refused
    monkeypatch.setattr(fused, "available", lambda: False)
    assert got == train("adam")


def run(rule, *parameters, numbers=()):
    """Run a rule on the arrays of each parameter; says which of them the kernels ran one by one."""
    batch, ran = fused.Batch(), []

    def watched(xp, *arrays):
        if xp is cpu:
            ran.append(arrays[0])
        rule(xp, *arrays)

    for arrays in parameters:
        batch(watched, [None if a is None else _wrap(a) for a in arrays], *numbers)
    batch.finish()
    return [any(a is arrays[0] for a in ran) for arrays in parameters]


def test_rules_that_cannot_be_traced(fresh):
    pytest.importorskip("llvmlite")

    def branches(xp, p, g):
        if (p > 0).any():
            p -= g

    def unknown(xp, p, g):
        p -= xp.tanh(g)

    def strong(xp, p, g):
        p -= g * np.float64(0.1)

    for rule in (branches, unknown, strong):
        p, g = np.ones(4, np.float32), np.ones(4, np.float32)
        assert run(rule, [p, g]) == [True]
        assert p[0] != 1
    assert len(fused._refused) == 3


def test_arrays_that_a_loop_must_not_touch(fresh):
    pytest.importorskip("llvmlite")

    def rule(xp, p, g, m):
        m += g
        p -= m

    def arrays(n=8, dtype=np.float32):
        return [np.ones(n, dtype) for _ in range(3)]

    p, g, m = arrays()
    m_wide = np.ones(8, np.float64)
    strided = np.ones(16, np.float32)[::2]
    both = np.ones(12, np.float32)
    given = [
        arrays(), [p, g, m_wide], [p, p, m], arrays(0), [p, strided, m], [both[:8], both[4:], m],
        arrays(),
    ]  # fmt: skip
    assert run(rule, *given) == [False, True, True, False, True, True, False]
    assert given[-1][0].tolist() == [-1] * 8 and given[0][0].tolist() == [-1] * 8
    short, frozen = np.ones(4, np.float32), np.ones(8, np.float32)
    frozen.flags.writeable = False
    for refused in ([p, g, short], [frozen, g, m]):
        with pytest.raises(ValueError):  # NumPy's
            run(rule, refused)


def test_state_of_another_dtype_than_the_parameter(fresh):
    p = torch.nn.Parameter(torch.ones(64))
    optimizer = torch.optim.SGD([p], 0.1, momentum=0.9)
    for dtype in (torch.float32, torch.float64):
        p.data = p.data.to(dtype)
        p.grad = torch.ones(64, dtype=dtype)
        optimizer.step()
    assert torch.allclose(p, torch.full((64,), 1 - 0.1 - 0.19, dtype=torch.float64))


def test_which_array_is_missing_matters(fresh):
    pytest.importorskip("llvmlite")

    def rule(xp, p, g, a, b):
        p -= a + g if b is None else b * g

    p, g, s = (np.full(4, v, np.float32) for v in (10, 2, 3))
    q = p.copy()
    assert run(rule, [p, g, s, None], [q, g, None, s]) == [False, False]
    assert p[0] == 5 and q[0] == 4


def test_threads(fresh):
    pytest.importorskip("llvmlite")
    names = ["sgd", "adam", "rmsprop", "adagrad"]

    def one(name):
        generator = torch.Generator().manual_seed(1)
        p = torch.nn.Parameter(torch.randn(300, generator=generator))
        optimizer = OPTIMIZERS[name]([p])
        for _ in range(50):
            p.grad = torch.randn(300, generator=generator)
            optimizer.step()
        return p.detach().numpy().tobytes()

    want = {name: one(name) for name in names}
    update._rules.clear()
    update.update._compiled.clear()
    got, threads = [], []
    for name in names * 3:
        threads.append(threading.Thread(target=lambda n=name: got.append((n, one(n)))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 12 and all(want[name] == result for name, result in got)


def test_llvmlite_is_not_loaded_before_it_is_worth_it():
    code = (
        "import sys, rushlight as torch\n"
        "p = torch.ones(3, requires_grad=True); p.grad = torch.ones(3)\n"
        "torch.optim.Adam([p]).step()\n"
        "assert not [m for m in sys.modules if m.startswith('llvmlite')]\n"
    )
    printed(code, RUSHLIGHT_COMPILED=None)


def test_many_parameters_and_large_ones_on_any_number_of_threads(fresh, monkeypatch):
    pytest.importorskip("llvmlite")
    shapes = [(n,) for n in range(1, 30)] + [(257, 401), (40000,)]
    before, threads = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            threads.append(train("adamw", steps=2, shapes=shapes))
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(fused, "available", lambda: False)
    assert threads[0] == threads[1] == train("adamw", steps=2, shapes=shapes)


def test_arrays_at_the_end_of_memory(fresh):
    pytest.importorskip("llvmlite")
    from guard import guarded

    def rule(xp, p, g, m):
        m += g
        p -= m

    for n in (1, 15, 16, 17, 1000, 16385):
        for side in ("after", "before"):
            arrays = [guarded(np.ones(n, np.float32), side) for _ in range(3)]
            assert run(rule, arrays) == [False] and (arrays[0] == -1).all()


def test_parameters_with_channels_last(fresh, monkeypatch):
    pytest.importorskip("llvmlite")

    def trained():
        torch.manual_seed(3)
        p = torch.nn.Parameter(torch.randn(6, 5, 3, 3).to(memory_format=torch.channels_last))
        optimizer = torch.optim.Adam([p], 0.01)
        for _ in range(3):
            p.grad = torch.randn(6, 5, 3, 3).to(memory_format=torch.channels_last)
            optimizer.step()
        return p.detach().numpy().tobytes()

    plain = []
    monkeypatch.setattr(fused.rules, "on_arrays", lambda *a: plain.append(a))
    compiled = trained()
    assert not plain
    monkeypatch.undo()
    monkeypatch.setattr(fused, "available", lambda: False)
    assert compiled == trained()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_clipping_all_gradients_in_one_call(dtype, monkeypatch):
    pytest.importorskip("llvmlite")
    from rushlight._backends import llvm

    llvm.activate()
    assert fused.available()

    def clipped(function, *args, active):
        monkeypatch.setattr(fused, "available", lambda: active)
        torch.manual_seed(0)
        parameters = [
            torch.zeros(s, dtype=dtype) for s in ((70, 300), (), (0,), (3, 4, 5, 5), (9,))
        ]
        for p in parameters:
            p.requires_grad_()
            p.grad = torch.randn(p.shape, dtype=dtype)
        parameters[3].grad = parameters[3].grad.to(memory_format=torch.channels_last)
        parameters[4].grad = torch.randn(18, dtype=dtype)[::2]
        versions = [p.grad._version for p in parameters]
        total = function(parameters, *args)
        assert all(p.grad._version > v for p, v in zip(parameters, versions, strict=True))
        return [p.grad for p in parameters] + ([] if total is None else [total])

    for function, number in (
        (torch.nn.utils.clip_grad_norm_, 1.0),
        (torch.nn.utils.clip_grad_norm_, 1e9),
        (torch.nn.utils.clip_grad_value_, 0.5),
    ):
        both = [clipped(function, number, active=active) for active in (True, False)]
        for a, b in zip(*both, strict=True):
            assert a.dtype == b.dtype and a.stride() == b.stride()
            torch.testing.assert_close(a, b)


def test_lengths_read_within_their_arrays():
    pytest.importorskip("llvmlite")
    from guard import guarded
    from rushlight._codegen.types import f32

    lengths = update.lengths.compiled(T=f32, R=f32)
    arrays = [guarded(np.full(n, 2, np.float32)) for n in (1, 15, 16, 17, 40000)]
    arrays += [np.ones(9, np.float32)[::2], np.ones(3), np.ones((0, 3), np.float32)]
    out = guarded(np.empty(len(arrays), np.float32))
    parts = guarded(np.empty(40000 // update.GRAIN + 1, np.float32))
    lengths(arrays, np.ndarray, arrays[0].dtype, parts, out, len(arrays))
    want = [*(np.float32(4 * n) ** 0.5 for n in (1, 15, 16, 17, 40000)), -1, -1, 0]
    np.testing.assert_allclose(out, want, rtol=1e-6)


def events(seed):
    """What happens between steps, at random."""
    draw = random.Random(seed)
    names = ("nothing", "nothing", "lr", "no gradient", "load", "count", "setting", "more", "copy")
    names += ("data", "state's data", "forget", "other list")
    return [draw.choice(names) for _ in range(16)]


def train_through(name, happened, dtype=torch.float32):
    """A training in which the group, the states and the gradients change between steps."""
    torch.manual_seed(3)
    parameters = [
        torch.nn.Parameter(torch.randn(s, dtype=dtype)) for s in ((7, 5), (30,), (), (4,))
    ]
    optimizer = OPTIMIZERS[name](parameters[:3])
    for what in happened:
        for p in parameters:
            p.grad = torch.randn(p.shape, dtype=dtype)
        group = optimizer.param_groups[0]
        if what == "lr":
            group["lr"] = group["lr"] * 0.5
        elif what == "no gradient":
            parameters[1].grad = None
        elif what == "load":
            optimizer.load_state_dict(optimizer.state_dict())
        elif what == "count" and "step" in optimizer.state[parameters[0]]:
            optimizer.state[parameters[0]]["step"] += 2
        elif what == "setting":
            changed = {"momentum": 0.5, "amsgrad": False, "weight_decay": 0.25}
            for setting, value in changed.items():
                if group.get(setting):
                    group[setting] = value
        elif what == "more" and len(group["params"]) == 3:
            group["params"].append(parameters[3])
        elif what == "copy":
            state = optimizer.state[parameters[2]]
            for key, value in state.items():
                state[key] = value.clone() if isinstance(value, torch.Tensor) else value
        elif what == "data":
            parameters[0].data = parameters[0].data * 2
        elif what == "state's data":
            for value in optimizer.state[parameters[1]].values():
                if isinstance(value, torch.Tensor):
                    value.data = value.data * 0.5
        elif what == "forget":
            optimizer.state.pop(parameters[0], None)
        elif what == "other list":
            group["params"] = group["params"][::-1]
        optimizer.step()
    found = [*parameters, *(v for p in parameters for v in optimizer.state[p].values())]
    return [t.tolist() for t in found if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_plans_hold_only_while_nothing_changes(name, seed, fresh, monkeypatch):
    pytest.importorskip("llvmlite")
    compiled = train_through(name, events(seed))
    monkeypatch.setattr(fused, "available", lambda: False)
    assert compiled == train_through(name, events(seed))


def test_a_plan_counts_writes_and_is_not_copied(fresh):
    pytest.importorskip("llvmlite")
    parameters = [torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(3))]
    optimizer = torch.optim.Adam(parameters, 0.1)
    for k in range(3):
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer.step()
        assert [p._version for p in parameters] == [k + 1, k + 1]
    assert optimizer._plans[0] is not None
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        own = other.param_groups[0]["params"]
        for p in own:
            p.grad = torch.ones_like(p)
        other.step()
        assert [other.state[p]["step"].item() for p in own] == [4, 4]
    assert [optimizer.state[p]["step"].item() for p in parameters] == [3, 3]
    kept = copy.deepcopy(optimizer)
    del optimizer, parameters, p
    gc.collect()
    for p in kept.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    kept.step()
    assert [s["step"].item() for s in kept.state.values()] == [4, 4]


def test_numbers_of_a_class_of_their_own_are_floats(fresh):
    pytest.importorskip("llvmlite")

    class Rate(float):
        pass

    found = []
    for kind in (float, Rate):
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.AdamW([p], lr=kind(0.1), weight_decay=0.5)
        for _ in range(2):
            p.grad = torch.tensor([1.0, -2.0, 0.5])
            optimizer.step()
        found.append(p.tolist())
    assert found[0] == found[1] and not fused._refused
