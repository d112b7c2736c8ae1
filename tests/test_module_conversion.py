"""`Module.to` and its relatives: which objects stay, which arguments are taken, the switches of `torch.__future__`."""

from __future__ import annotations

import gc
import warnings
from copy import deepcopy

import pytest

import rushlight as torch
from rushlight import nn


@pytest.fixture
def switches():
    yield torch.__future__
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    torch.__future__.set_swap_module_params_on_conversion(False)


def with_gradient() -> tuple:
    m = nn.Linear(2, 3)
    m.weight.grad = torch.ones(3, 2)
    return m, m.weight, m.weight.grad


def test_parameters_and_gradients_stay_the_same_objects():
    m, weight, grad = with_gradient()
    m.double()
    assert m.weight is weight and weight.grad is grad
    assert weight.dtype is grad.dtype is torch.float64


def test_overwritten_parameters_are_new_objects(switches):
    switches.set_overwrite_module_params_on_conversion(True)
    m, weight, grad = with_gradient()
    view = weight[:]
    m.double()
    assert m.weight is not weight and isinstance(m.weight, nn.Parameter)
    assert weight.dtype is grad.dtype is view._base.dtype is torch.float32
    assert m.weight.dtype is m.weight.grad.dtype is torch.float64


def test_swapped_parameters_keep_their_identity(switches):
    switches.set_swap_module_params_on_conversion(True)
    m, weight, grad = with_gradient()
    m.to(torch.bfloat16)
    assert m.weight is weight and weight.grad is grad
    assert weight.dtype is grad.dtype is torch.bfloat16 and weight.requires_grad


def test_another_kind_of_memory_is_another_object():
    m = nn.Linear(2, 3)
    weight = m.weight
    m.to("meta")
    assert m.weight is not weight and m.weight.is_meta and not weight.is_meta
    m.to_empty(device="cpu")
    assert not m.weight.is_meta


def test_functions_get_the_parameters_themselves():
    m, weight, _ = with_gradient()
    product, version = weight * weight, weight._version
    m._apply(lambda t: t.add_(1.0))
    assert weight._version > version and weight.is_leaf and weight.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        product.sum().backward()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cpu", True), {}),
        ((None, True), {}),
        (("cpu", "float"), {}),
        (([],), {}),
        ((torch.float32, "cpu"), {}),
        ((torch.tensor(1.0), torch.float32), {}),
        (("cpu", torch.tensor(1.0)), {"non_blocking": True}),
        (("cpu",), {"tensor": 3}),
        ((), {"memory_format": "x"}),
        ((torch.int64,), {}),
        (("cpu",), {"dtype": torch.int64, "non_blocking": True}),
    ],
)
def test_arguments_that_are_refused(args, kwargs):
    with pytest.raises(TypeError):
        nn.Linear(2, 3).to(*args, **kwargs)


def test_arguments_that_are_taken():
    m = nn.Linear(2, 3)
    for args, kwargs in [
        ((), {}), ((None,), {}), (("cpu", None, True), {}), (("cpu",), {"dtype": float}),
        ((float,), {}), ((), {"tensor": torch.ones(1, dtype=torch.float64)}),
    ]:  # fmt: skip
        assert m.to(*args, **kwargs) is m
    assert m.weight.dtype is torch.float64
    with pytest.raises(RuntimeError, match="does not accept copy"):
        m.to("cpu", copy=False)
    assert torch._C._nn._parse_to("cpu", torch.float32) == (
        torch.device("cpu"), torch.float32, False, None,
    )  # fmt: skip


def test_complex_modules_are_warned_of():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        nn.Linear(2, 3).to(torch.complex64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Linear(2, 3).to(torch.float64)


def test_loading_leaves_no_reference_cycle():
    m = nn.LSTM(2, 2, bidirectional=True)
    state = deepcopy(m).state_dict()
    gc.collect()
    gc.disable()
    try:
        m.load_state_dict(state)
        assert gc.collect() == 0
    finally:
        gc.enable()
