"""What was found of steps of compiled programs is kept on disk; an entry makes nothing wrong, whatever it says."""

import gc
import os
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight._codegen import cache
from rushlight.compiler.capture.recording import Recorder
from rushlight.compiler.lowering import step_cache, step_calls
from test_call_lists import built, check, given, layers, lists_in


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty directory of entries."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def trials(monkeypatch):
    """The steps that were tried."""
    tried, calls_of = [], step_calls.calls_of
    monkeypatch.setattr(step_calls, "calls_of", lambda *a: tried.append(a[0]) or calls_of(*a))
    return tried


def steps_kept(folder):
    """The entries of steps."""
    found = []
    for name in os.listdir(folder):
        try:
            digest, *lines = cache.get(name).decode().split("\n")
            constants, zeros, tells = [[int(k) for k in line.split()] for line in lines]
        except (ValueError, TypeError, AttributeError):  # of kernels
            continue
        found.append((name, (digest, constants, zeros, tells)))
    return found


def test_steps_that_are_known_are_not_tried(folder, trials):
    inputs = given()
    first = built(layers, *inputs)
    tried = len(trials)
    assert tried and len(steps_kept(folder)) == tried
    again = built(layers, *inputs)
    assert len(trials) == tried
    assert lists_in(again) == lists_in(first) == 1
    check(again, layers, *given())
    built(layers, torch.randn(48, 64), *inputs[1:])  # other layouts
    assert len(trials) == 2 * tried


def test_entries_that_say_something_else(folder, trials):
    inputs = given()
    built(layers, *inputs)
    tried = len(trials)
    for wrong in (
        b"", b"\n\n", b"00", b"00\n1\n2", b"00\n0\n-1\n2", b"00\n0\n1\n2", b"00\n\n\n\n", b"00\nx\n\n", b"\xff\n\n\n",
    ):  # fmt: skip
        for name, _ in steps_kept(folder):
            cache.put(name, wrong)
        trials.clear()
        program = built(layers, *inputs)
        assert len(trials) == tried and lists_in(program) == 1
        check(program, layers, *given())


def test_entries_that_say_other_buffers(folder, trials):
    inputs = given()
    built(layers, *inputs)
    for name, (digest, constants, zeros, tells) in steps_kept(folder):
        other = [*constants, 0], [*zeros, 1], [k + 1 for k in tells]
        lines = [digest, *[" ".join(map(str, numbers)) for numbers in other]]
        cache.put(name, "\n".join(lines).encode())
    tried = len(trials)
    program = built(layers, *inputs)
    assert len(trials) == 2 * tried
    check(program, layers, *given())


def test_steps_that_are_no_kernel_calls_stay_lines(folder, trials):
    def unlike(x):
        return (torch.linalg.inv(x) @ x.relu(),)

    x = torch.randn(8, 8) + 8 * torch.eye(8)
    first = built(unlike, x)
    refused = [v for _, v in steps_kept(folder) if not v[0]]
    tried = len(trials)
    again = built(unlike, x)
    assert refused and len(trials) == tried
    assert first.source.count("\n") == again.source.count("\n")
    check(again, unlike, x)


def test_what_no_other_process_knows_has_no_entry():
    assert step_cache.told((object(), 1)) is None
    assert step_cache.told(np.zeros(1)) is None
    assert step_cache.told(1 << 50) != step_cache.told(1 << 51)
    assert step_cache.placeless([1 << 50, 3]) == step_cache.placeless([1 << 51, 3])
    assert step_cache.told((1, True, 1.0)) != step_cache.told((True, 1, 1))


def test_arrays_of_the_first_calls_are_let_go():
    model = torch.nn.Sequential(torch.nn.Linear(50, 70), torch.nn.ReLU(), torch.nn.Linear(70, 1))
    x = torch.randn(333, 50)

    @torch.compile
    def step():
        model.zero_grad()
        model(x).relu().sum().backward()

    def hidden():
        """Tensors with memory that are as large as those between the layers."""
        found = [t for t in gc.get_objects() if type(t) is torch.Tensor]
        return [t for t in found if tuple(t.shape) == (333, 70) and t._array.flags.owndata]

    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            step()
            assert not hidden()
    finally:
        gc.enable()


def test_a_capture_lets_go_of_what_the_function_lets_go_of():
    made, most = [], []

    @torch.compile
    def chain(x):
        with torch.no_grad():
            for k in range(20):
                x = (x + k).sin()
        return x

    dispatch = Recorder.__torch_dispatch__

    def counting(self, *given):
        result = dispatch(self, *given)
        made.append(weakref.ref(result._array))
        most.append(sum(a() is not None for a in made))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "__torch_dispatch__", counting)
        chain(torch.randn(77, 33))
    assert len(made) >= 40 and max(most) < 8
