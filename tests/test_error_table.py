"""Errors that users meet have PyTorch's type and key phrase, and name the module that they come from."""

from __future__ import annotations

import pickle

import pytest

import rushlight as torch
from processes import finished
from rushlight import nn
from rushlight.core.advice import row_of
from rushlight.core.error_table import ROWS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, program, kind, phrase, advice", ROWS, ids=[row.name for row in ROWS]
)
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


def error_of(program: str) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(program, {"torch": torch, "nn": nn, "F": nn.functional})
    return caught.value


@pytest.mark.parametrize(
    "program, name",
    [
        ("torch.ones(30) + torch.ones(2, 7)", "shapes of a sum"),
        ("torch.ones(2, 9) @ torch.ones(4, 1)", "shapes of a matrix product"),
        ("nn.Linear(7, 2)(torch.ones(5))", "linear of the wrong width"),
        ("nn.Linear(7, 2).half()(torch.ones(1, 7))", "linear of integers"),
        ("nn.Linear(7, 2).load_state_dict({'weight': torch.ones(1), 'bias': torch.ones(2)})",
         "load_state_dict with other shapes"),
        ("F.cross_entropy(torch.ones(2, 5), torch.tensor([1, 5]))", "cross entropy out of range"),
        ("nn.Embedding(3, 2)(torch.tensor(1.5))", "embedding of floats"),
        ("torch.ones(2, 3).view(5, 5)", "view of another size"),
        ("torch.ones(3)[7]", "an index out of range"),
        ("int('x')", None),
        ("raise RuntimeError('self must be a matrix')", None),  # not ours
    ],
)  # fmt: skip
def test_errors_of_other_sizes_have_the_same_page(program, name):
    row = row_of(error_of(program))
    assert (row and row.name) == name


def test_most_rows_are_found_by_their_own_error():
    """Some rows are the same error met in two ways: one of them is found."""
    found = [(row, row_of(error_of(row.program))) for row in ROWS]
    other = {row.name: found and found.name for row, found in found if row is not found}
    assert len(other) <= 15, other
    assert len({row.page for row in ROWS}) == len(ROWS) >= 100


def test_an_error_that_ends_a_program_says_what_to_do():
    program = "import rushlight as torch\ntry:\n    torch.ones(3) + torch.ones(4)\nexcept RuntimeError as e:\n    print(hasattr(e, '__notes__'))\n{}"
    for last, note in (("torch.ones(5) + torch.ones(4)", True), ("[][1]", False)):
        done = finished("-c", program.format(last), status=1)
        assert done.stdout == "False\n"
        assert ("errors/shapes-of-a-sum" in done.stderr.splitlines()[-1]) == note
