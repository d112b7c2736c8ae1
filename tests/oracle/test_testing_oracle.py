"""`torch.testing` against PyTorch's: the same verdicts, messages and random tensors."""

from __future__ import annotations

import pytest
import torch

import rushlight
from test_testing import FILE_CHECKS

INF, NAN = float("inf"), float("nan")

# (actual, expected, options), evaluated with `torch` and `t` (torch.tensor) of either library
COMPARISONS = """
t([1., 2., 3.]), t([1., 2., 4.])
t([1, 2, 3]), t([1, 2, 4])
t([1., 2., 3.]), t([1., 2., 4.]), rtol=0, atol=0
t(1.), t(2.)
1.0, 2.0
1, 2
True, False
t([True, False]), t([True, True])
[1.0, 2.0], [1.0, 3.0]
[1.0, 2.0], [1.0]
{'a': 1.0}, {'b': 1.0}
{'a': t([1., 2.])}, {'a': t([1., 3.])}
[[t([1., 2.])]], [[t([1., 3.])]]
t([1., 2.]), t([1.])
t([1., 2.]), t([1., 2.]).double()
t([1., 2.]), t([1., 2.], device='meta')
t([[1., 2.], [3., 4.]]), t([[1., 3.], [2., 4.]]).t(), check_stride=True
None, None
None, t(1.)
t([NAN]), t([NAN])
t([NAN]), t([NAN]), equal_nan=True
t([INF, 1]), t([1., INF])
1.0, NAN
1.0, 2.0, rtol=0, atol=0
1.0, 2.0, rtol=.1
1.0, 2.0, atol=.1
1.0, 2.0, rtol=.1, atol=.1, msg='hello'
1.0, 2.0, msg=lambda m: 'head ' + m
[1.0, [t([[1., 2.]])]], [1.0, [t([[1., 9.]])]], msg=lambda m: 'head ' + m
t([[1., 2.], [3., 4.]]), t([[1., 2.], [3., 9.]]), rtol=0, atol=1
t([1 + 1j, 2.]), t([1 + 2j, 2.])
1 + 1j, 2
t([[]]), t([[]])
torch.nn.Parameter(t([1.])), t([2.0])
t([0., 0.]), t([0., 0.1])
t([0., 0.1]), t([0., 0.])
t([1, 2]), t([1, 3]).short(), check_dtype=False
t([1., 2.]).bfloat16(), t([1., 2.1]).bfloat16()
t([200, 2], dtype=torch.uint8), t([1, 2], dtype=torch.uint8)
1, 1.0
1, 1.0, check_dtype=False
[1.0, t([1.])], [2.0, t([1., 2.])]
INF, 1.0
0.0, 0.1
""".strip().splitlines()


def outcome(library, expression: str) -> str:
    scope = {"torch": library, "t": library.tensor, "INF": INF, "NAN": NAN}
    scope["compare"] = library.testing.assert_close
    try:
        eval(f"compare({expression})", scope)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "close"


@pytest.mark.parametrize("expression", COMPARISONS)
def test_assert_close(expression):
    assert outcome(rushlight, expression) == outcome(torch, expression)


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            f"5, dtype=torch.{d}"
            for d in ("float32", "int64", "uint8", "bool", "complex64", "int8")
        ),
        *(f"5, dtype=torch.{d}" for d in ("float16", "bfloat16", "float64")),
        "5, dtype=torch.float32, low=0, high=1, exclude_zero=True, noncontiguous=True",
        "5, dtype=torch.int32, low=2, high=2**31 + 5",
        "3, 4, 3, dtype=torch.float32, noncontiguous=True, requires_grad=True",
        "(2, 3, 4, 5), dtype=torch.float32, memory_format=torch.channels_last",
        "6, dtype=torch.int64, low=0.5, high=3.5",
        "2, dtype=torch.bool, low=3, high=9",
        "2, dtype=torch.float32, low=3, high=2",
        "2, dtype=torch.int32, requires_grad=True",
    ],
)
def test_make_tensor(arguments):
    def made(library):
        library.manual_seed(0)
        try:
            t = eval(
                f"make({arguments}, device='cpu')",
                {"torch": library, "make": library.testing.make_tensor},
            )
        except ValueError as error:
            return str(error)
        return repr(t), t.stride()

    assert made(rushlight) == made(torch)


@pytest.mark.parametrize("number", range(len(FILE_CHECKS)))
def test_file_check(number):
    run, phrase = FILE_CHECKS[number]
    for check in (torch.testing.FileCheck(), rushlight.testing.FileCheck()):
        if phrase is None:
            run(check)
        else:
            with pytest.raises(RuntimeError, match=phrase):
                run(check)
