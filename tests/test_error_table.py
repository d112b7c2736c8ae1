"""Errors that users meet have PyTorch's type and key phrase, and name the module that they come from."""

from __future__ import annotations

import pickle

import pytest

import rushlight as torch
from error_table import ERRORS
from rushlight import nn

ROWS = [row for rows in ERRORS.values() for row in rows]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, program, kind, phrase, advice", ROWS, ids=[row[0] for row in ROWS])
def test_error(name, program, kind, phrase, advice):
    with pytest.raises(Exception) as caught:  # noqa: PT011  type and text are compared below
        exec(program, {"torch": torch, "nn": nn, "F": nn.functional})
    assert type(caught.value).__name__ == kind
    assert phrase in str(caught.value)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"first": nn.Linear(4, 8), "second": nn.Linear(9, 2)})

    def forward(self, x):
        return self.body["second"](self.body["first"](x))


def notes_of(model: nn.Module, *args, **kwargs) -> tuple[str, list[str]]:
    with pytest.raises(RuntimeError) as caught:
        model(*args, **kwargs)
    error = pickle.loads(pickle.dumps(caught.value))
    return str(error), error.__notes__


def test_a_note_names_the_module_and_its_input():
    text, notes = notes_of(nn.Sequential(nn.ReLU(), Net()), torch.ones(3, 4))
    assert text == "mat1 and mat2 shapes cannot be multiplied (3x8 and 9x2)"
    where = "In the module '1.body.second' of Sequential: "
    assert notes == [
        f"{where}Linear(in_features=9, out_features=2, bias=True), called with float32 [3, 8]"
    ]


def test_a_note_of_one_module_has_no_path():
    _, notes = notes_of(nn.Linear(9, 2), input=torch.ones(3, 8))
    assert notes == [
        "In the module Linear(in_features=9, out_features=2, bias=True), called with input=float32 [3, 8]"
    ]


def test_an_error_that_was_caught_and_raised_again_has_one_note():
    inner = nn.Linear(9, 2)

    class Outer(nn.Module):
        def forward(self, x):
            try:
                return inner(x)
            except RuntimeError as error:
                raise error

    _, notes = notes_of(Outer(), torch.ones(3, 8))
    assert len(notes) == 1


def test_what_has_no_gradient_or_no_kernel():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"gradient of size '\[2\]' to a tensor of size '\[3\]'"):
        x.grad = torch.ones(2)
    with pytest.raises(
        RuntimeError, match="with dtype 'float64' to a tensor with grad_dtype 'Float'"
    ):
        x.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="cast to the desired output type Long"):
        nn.functional.binary_cross_entropy_with_logits(torch.ones(2), torch.tensor([0, 1]))
    with pytest.raises(
        NotImplementedError, match="\"bitwise_and_cpu\" not implemented for 'Float'"
    ):
        torch.ones(1) & torch.ones(1)
