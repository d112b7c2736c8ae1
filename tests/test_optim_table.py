"""Optimizers and schedulers against numbers that PyTorch made (see scripts/optim_table.py)."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import optim_cases as cases
import rushlight as torch

STORED = json.loads((pathlib.Path(__file__).parent / "data" / "optim.json").read_text())
RUNS = [(name, k) for name, rows in cases.OPTIMIZERS.items() for k in range(len(rows))]


def anew(state):
    return state


@pytest.mark.parametrize("exchange", [None, anew], ids=["whole", "resumed"])
@pytest.mark.parametrize("name, k", RUNS)
def test_twenty_steps(name, k, exchange):
    got = cases.parameters_after(torch, name, cases.OPTIMIZERS[name][k], exchange=exchange)
    np.testing.assert_allclose(got, STORED["optimizers"][name][k], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("exchange", [None, anew], ids=["whole", "resumed"])
@pytest.mark.parametrize("name", cases.SCHEDULERS)
def test_fifty_rates(name, exchange):
    got = cases.rates(torch, name, exchange=exchange)
    np.testing.assert_allclose(got, STORED["schedulers"][name], rtol=1e-12, atol=1e-15)


def test_averages():
    # PyTorch divides by the count in float32 in one of them.
    np.testing.assert_allclose(cases.averages(torch), STORED["averages"], rtol=1e-7)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swa_rates(strategy):
    np.testing.assert_allclose(
        cases.swa_rates(torch, strategy), STORED["swa"][strategy], rtol=1e-12
    )


def test_nothing_is_missing():
    assert set(STORED["optimizers"]) == set(cases.OPTIMIZERS)
    assert set(STORED["schedulers"]) == set(cases.SCHEDULERS)
    for name, rows in cases.OPTIMIZERS.items():
        assert len(STORED["optimizers"][name]) == len(rows)
