"""Every line of expressions/*.txt, evaluated with PyTorch as `torch` and with Rushlight as `torch`.

Compared: the type of the exception, or the printed result with shape, strides, dtype; after
`manual_seed(0)` in both. Add a line there to add a test.
"""

from __future__ import annotations

import pathlib
import re
import warnings

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

FOLDER = pathlib.Path(__file__).parent / "expressions"
CASES = [
    pytest.param(line, id=f"{path.stem}: {line}")
    for path in sorted(FOLDER.glob("*.txt"))
    for line in path.read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def outcome(module, expression: str) -> tuple:
    module.set_default_dtype(module.float32)
    module.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "value", described(eval(expression, {"torch": module, "np": np}))
    except Exception as e:
        return "error", type(e).__name__
    finally:
        module.set_default_dtype(module.float32)


def described(value) -> object:
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        return re.sub("0x[0-9a-f]+", "", repr(value)), tuple(value.shape), value.stride()
    if isinstance(value, (tuple, list)):
        return [described(v) for v in value]
    return re.sub("0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize("expression", CASES)
def test_expression(expression: str) -> None:
    assert outcome(rushlight, expression) == outcome(torch, expression)
