"""Checkpoints of several processes in PyTorch's format: what one writes the other reads."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
import torch.distributed.checkpoint as theirs

import rushlight
import rushlight.distributed.checkpoint as ours

pytestmark = pytest.mark.oracle


def state(module, full):
    made = module.arange(6.0).view(2, 3) if full else module.zeros(2, 3)
    half = module.ones(2, dtype=module.bfloat16) if full else module.zeros(2, dtype=module.bfloat16)
    return {
        "model": {"w": made, "half": half, "scalar": module.tensor(3 if full else 0)},
        "list": [1 if full else 0, {"x": module.full((1,), float(full))}],
        "groups": [{"lr": 0.5 if full else 0.0, "params": ["a"] if full else []}],
    }


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return (
        list(map(plain, value))
        if isinstance(value, list)
        else getattr(value, "tolist", lambda: value)()
    )


@pytest.mark.parametrize(
    "writer, reader", [((ours, rushlight), (theirs, torch)), ((theirs, torch), (ours, rushlight))]
)
def test_both_ways(writer, reader, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of one process
        writer[0].save(state(writer[1], True), checkpoint_id=tmp_path)
        found = state(reader[1], False)
        reader[0].load(found, checkpoint_id=tmp_path)
    assert plain(found) == plain(state(torch, True))


def nested(chosen, module, depth=0):
    """A random state of dictionaries, lists, tuples, tensors and numbers."""
    kind = chosen.choice("tensor number list dict tuple".split() if depth < 4 else ["number"])
    if kind == "tensor":
        return module.tensor([float(chosen.randrange(9))])
    if kind == "number":
        return chosen.randrange(9)
    inner = [nested(chosen, module, depth + 1) for _ in range(chosen.randrange(3))]
    if kind == "dict":
        return {chosen.choice(["a", "b", k]): value for k, value in enumerate(inner)}
    return inner if kind == "list" else tuple(inner)


@pytest.mark.parametrize("seed", range(200))
def test_names_of_nested_states(seed):
    flat = []
    for package, module in ((ours, rushlight), (theirs, torch)):
        state = {
            "x": nested(random.Random(seed), module),
            "y": nested(random.Random(-seed), module),
        }
        values, paths = package._nested_dict.flatten_state_dict(state)
        flat.append((paths, [(k, type(v).__name__) for k, v in values.items()]))
        again = package._nested_dict.unflatten_state_dict(values, paths)
        assert package._nested_dict.flatten_state_dict(again)[1] == paths
    assert flat[0] == flat[1]
