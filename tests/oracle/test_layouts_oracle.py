"""Results lie in memory as PyTorch's do: random expressions of operands in random layouts (tests/layout_programs.py).

Compared: shape, dtype, strides, offset, the size of the memory, whether it is that of an operand, and the values.
"""

from __future__ import annotations

import numpy as np
import pytest

import layout_programs as programs
import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES = 60  # of each family
NARROW = {"float16", "bfloat16"}


def described(t, operands) -> dict:
    """What is compared of a result, but its values."""
    found = {
        "dtype": str(t.dtype).partition(".")[2],
        "shape": tuple(t.shape),
        "strides": tuple(t.stride()),
        "contiguous": t.is_contiguous(),
    }
    if t.numel():
        memory = t.untyped_storage()
        places = [x.untyped_storage().data_ptr() for x in operands if x.numel()]
        shared = memory.data_ptr() in places
        found |= {"offset": t.storage_offset(), "bytes": memory.nbytes(), "shared": shared}
    return found


def values(t) -> np.ndarray:
    if t.is_complex():
        return np.array(t.detach().tolist(), np.complex128)
    return np.array(t.detach().double().tolist())


def compare(expression: str, operands: dict, evaluated=programs.evaluated) -> None:
    """Evaluate an expression in both; where PyTorch refuses it nothing is compared."""
    theirs = {n: o.make(torch) for n, o in operands.items()}
    try:
        expected = evaluated(torch, expression, theirs)
    except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
        return
    ours = {n: o.make(rushlight) for n, o in operands.items()}
    got = evaluated(rushlight, expression, ours)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        seen = described(e, theirs.values())
        assert described(g, ours.values()) == seen, f"{expression} of {operands}"
        tolerance = 2e-2 if seen["dtype"] in NARROW else 1e-3
        np.testing.assert_allclose(
            values(g), values(e), rtol=tolerance, atol=tolerance, err_msg=f"{expression} {operands}"
        )


@pytest.mark.parametrize("family", programs.FAMILIES)
def test_results(family: str) -> None:
    for seed in range(CASES):
        compare(*programs.drawn(family, seed))


def gradients(module, expression: str, operands: dict) -> list:
    """The gradients of leaves, and those of what is computed from them at once, which are kept."""
    leaves = {n: t.detach().requires_grad_() for n, t in operands.items()}
    first = {n: t * 1 for n, t in leaves.items()}
    for t in first.values():
        t.retain_grad()
    programs.evaluated(module, expression, leaves)[0].sum().backward()
    programs.evaluated(module, expression, first)[0].sum().backward()
    found = [t.grad for t in (*leaves.values(), *first.values())]
    return [g for g in found if g is not None]


@pytest.mark.parametrize("expression", programs.LOSSES)
def test_gradients(expression: str) -> None:
    for seed in range(12):
        d = programs.Draw((expression, seed), zero=0)
        operands = programs.leaves(d)
        if all(1 not in o.make(torch).shape for o in operands.values()):  # see below
            compare(expression, operands, gradients)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_states_of_optimizers(name: str) -> None:
    def states(module, expression: str, operands: dict) -> list:
        p = module.nn.Parameter(operands["x"].detach())
        how = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        optimizer = getattr(module.optim, name)([p], 0.1, **how)
        (p * p.detach()).sum().backward()
        optimizer.step()
        state = optimizer.state[p]
        return [p, *[state[k] for k in sorted(state) if isinstance(state[k], module.Tensor)]]

    for seed in range(20):
        d = programs.Draw((name, seed), zero=0)
        compare(name, {"x": d.operand(d.shape(1), "float32", False)}, states)
