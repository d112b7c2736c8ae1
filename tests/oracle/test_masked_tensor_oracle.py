"""MaskedTensors print as PyTorch's do, whatever was computed with them."""

from __future__ import annotations

import warnings

import pytest
import torch

import rushlight

CASES = """
t[0] | t[:, 1:] | t.reshape(3, 2) | t + 1 | 2 * t | t + x | x + t | t / t | -t | t.abs() | t ** 2 | lib.sqrt(t) | t == t
t < 2 | t.sum() | lib.sum(t, 1) | t.sum(dim=1, keepdim=True) | t.mean() | t.mean(1) | t.prod(1) | t.amin(1) | t.amax(0)
t.argmin(1) | t.all() | t.softmax(1) | lib.where(m, t, t) | t.to_tensor(7) | t.clone() | t.long() | t.contiguous()
t.view(6) | t.detach() | t.var() | t.expand(2, 2, 3) | lib.ones_like(t) | lib.stack([t, t]) | lib.maximum(t, t)
t.long().sum(1) | (t > 1) | t * 1000 | t.sum(0) | y.sin().sum() | t.unsqueeze(0) | t.exp().log() | t.sigmoid()
"""


@pytest.mark.parametrize(
    "case", [c.strip() for c in CASES.replace("\n", "|").split("|") if c.strip()]
)
def test_prints(case):
    shown = []
    for lib in (torch, rushlight):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is a prototype
            x = lib.arange(6.0).reshape(2, 3)
            m = lib.tensor([[True, False, True], [False, True, True]])
            make = lib.masked.masked_tensor
            names = {"lib": lib, "x": x, "m": m, "t": make(x, m)}
            names["y"] = make(x.clone(), m, requires_grad=True)
            shown.append(repr(eval(case, names)))
    assert shown[1] == shown[0]
