"""`torch.testing`: comparisons with their messages, random tensors."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.testing import FileCheck, assert_close, make_tensor


def message(actual, expected, **options) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    return str(caught.value)


def test_equal_things_pass():
    for value in (torch.ones(2, 3), 1, 2.5, 1j, True, None, [1, (2.0,)], {"a": torch.zeros(0)}):
        assert_close(value, value)
    assert_close(np.ones(3), np.ones(3))
    assert_close((1.0,), [1.0])
    assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 5e-6]))
    assert_close(torch.tensor(float("nan")), torch.tensor(float("nan")), equal_nan=True)


def test_message_of_tensors():
    text = message(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.0], [3.0, 8.0]]))
    assert text == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 4.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.5 at index (1, 1) (up to 1.3e-06 allowed)"
    )


def test_message_of_numbers_and_places():
    assert message({"x": [1, 2]}, {"x": [1, 3]}) == (
        "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\n"
        "Relative difference: 0.3333333333333333\n\nThe failure occurred for item ['x'][1]"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (torch.ones(2), torch.ones(3), "The values for attribute 'shape' do not match"),
        (torch.ones(2), torch.ones(2).double(), "The values for attribute 'dtype' do not match"),
        (torch.ones(2), torch.ones(2, device="meta"), "The values for attribute 'device'"),
        ([1], [1, 2], "The length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, "Missing keys in the actual mapping: ['b']"),
        (1, 1.0, "The (d)types do not match"),
        (None, 1, "None mismatch: None is not 1"),
        (True, False, "Booleans mismatch: True is not False"),
    ],
)
def test_what_else_differs(actual, expected, text):
    assert text in message(actual, expected)


def test_msg_replaces_or_wraps():
    assert message(1, 2, msg="no") == "no"
    assert message(1, 2, msg=lambda text: "so:\n" + text).startswith("so:\nScalars are not equal!")


def test_wrong_use():
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        assert_close("a", "a")


def test_uint8_differences_do_not_wrap():
    low, high = (torch.tensor([v, 2], dtype=torch.uint8) for v in (1, 200))
    assert "Greatest absolute difference: 199 at index (0,)" in message(low, high)


def test_make_tensor():
    for dtype in (torch.float32, torch.int64, torch.uint8, torch.bool, torch.complex64):
        made = make_tensor(20, 3, dtype=dtype, device="cpu")
        assert (made.dtype, made.shape) == (dtype, (20, 3))
    ints = make_tensor(100, dtype=torch.int32, low=2, high=4, exclude_zero=True)
    assert set(ints.tolist()) == {2, 3}
    spread = make_tensor(4, 5, dtype=torch.float32, noncontiguous=True, requires_grad=True)
    assert not spread.is_contiguous()
    assert spread.is_leaf
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=torch.float32, low=3, high=2)


def test_make_tensor_of_one_number_warns_and_refuses_integers():
    with pytest.warns(FutureWarning, match="low==high"):
        made = make_tensor(3, dtype=torch.complex64, low=2, high=2.0)
    assert made.tolist() == [2 + 2j] * 3
    with pytest.raises(ValueError, match="must be less than"):
        make_tensor(3, dtype=torch.int32, low=0, high=0)


def test_make_tensor_of_all_that_a_dtype_holds():
    made = make_tensor(50, dtype=torch.float32, low=-float("inf"), high=float("inf"))
    assert made.isfinite().all() and made.abs().max() > 1e37
    assert make_tensor(3, dtype=torch.float8_e5m2).dtype is torch.float8_e5m2
    kept = make_tensor(2, 3, dtype=torch.float32, memory_format=torch.preserve_format)
    assert kept.is_contiguous()


def test_sparse_tensors_are_compared_as_they_are_stored():
    index, value = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])

    def coo(index, value):
        return torch.sparse_coo_tensor(index, value, (2, 2))

    a = coo(index, value)
    assert_close(a, coo(index, value + 1e-7))
    assert "Sparse COO indices are not equal!" in message(
        a, coo(torch.tensor([[0, 1], [1, 1]]), value)
    )
    assert "Sparse COO values are not close!" in message(a, coo(index, value + 1))
    assert "specified values in sparse COO tensors does not match: 2 != 1" in message(
        a, coo(index[:, :1], value[:1])
    )
    assert "sparse dimensions in sparse COO tensors does not match: 2 != 1" in message(
        a, coo(index[:1], torch.ones(2, 2))
    )
    for name, outer, inner in (("csr", "crow", "col"), ("csc", "ccol", "row")):
        make = getattr(torch, f"sparse_{name}_tensor")
        a = make([0, 1, 2], [1, 0], value, (2, 2))
        assert_close(a, make([0, 1, 2], [1, 0], value.double(), (2, 2)), check_dtype=False)
        assert_close(a, a.to_dense(), check_layout=False)
        for other, what in (
            (make([0, 2, 2], [0, 1], value, (2, 2)), f"{outer}_indices are not equal!"),
            (make([0, 1, 2], [1, 1], value, (2, 2)), f"{inner}_indices are not equal!"),
            (make([0, 1, 2], [1, 0], 2 * value, (2, 2)), "values are not close!"),
        ):
            assert f"Sparse {name.upper()} {what}" in message(a, other)


def test_unsigned_integers_are_compared_with_signed_ones():
    assert_close(torch.tensor([5], dtype=torch.uint64), torch.tensor([5]), check_dtype=False)


# -- FileCheck -------------------------------------------------------------------------------------------

PROGRAM = """def f(x):
  y = add(x, 1)
  z = mul(y, 2)
  w = add(z, 1)
  return w
"""

# a check of a text, and the key phrase of its error, or None
FILE_CHECKS = [
    (lambda c: c.check("add").check("mul").run(PROGRAM), None),
    (lambda c: c.check("mul").check("sub").run(PROGRAM), 'Expected to find "sub"'),
    (lambda c: c.check_not("sub").run(PROGRAM), None),
    (lambda c: c.check_not("mul").run(PROGRAM), 'Expected to not find "mul"'),
    (lambda c: c.check("mul").check_not("mul").check("return").run(PROGRAM), None),
    (
        lambda c: c.check("add").check_not("mul").check("return").run(PROGRAM),
        'Expected to not find "mul"',
    ),
    (lambda c: c.check_not("add").check("def").run(PROGRAM), None),
    (lambda c: c.check("y = add").check_same("x, 1").run(PROGRAM), None),
    (lambda c: c.check("y = add").check_same("mul").run(PROGRAM), "Expected to not find"),
    (lambda c: c.check("y = add").check_next("mul").run(PROGRAM), None),
    (lambda c: c.check("y = add").check_next("return").run(PROGRAM), "Expected to not find"),
    (lambda c: c.check("y =").check_next("x, 1").run(PROGRAM), "Expected to find"),
    (lambda c: c.check_count("add", 2).run(PROGRAM), None),
    (lambda c: c.check_count("add", 3).run(PROGRAM), 'Expected to find "add"'),
    (lambda c: c.check_count("add", 1, exactly=True).run(PROGRAM), 'Expected to not find "add"'),
    (lambda c: c.check_count("add", 2, exactly=True).run(PROGRAM), None),
    (lambda c: c.check_count("sub", 0, exactly=True).run(PROGRAM), None),
    (lambda c: c.check_dag("mul").check_dag("add").run(PROGRAM), None),
    (lambda c: c.check_dag("mul").check_dag("sub").run(PROGRAM), 'Expected to find "sub"'),
    (
        lambda c: c.check_dag("return").check_not("sub").check_dag("mul").run(PROGRAM),
        'Expected to find "mul"',
    ),
    (lambda c: c.check_regex(r"w = a..\(").run(PROGRAM), None),
    (lambda c: c.check_regex(r"w = q..\(").run(PROGRAM), "Expected to find regex"),
    (lambda c: c.run(PROGRAM), "No checks have been added"),
    (
        lambda c: c.run(
            "# CHECK: add\n# CHECK-NEXT: mul\n# CHECK-NOT: sub\n# CHECK-COUNT-1: return", PROGRAM
        ),
        None,
    ),
    (lambda c: c.run("# CHECK-COUNT-EXACTLY-1: add", PROGRAM), 'Expected to not find "add"'),
    (lambda c: c.run("  # CHECK-DAG: mul\n  # CHECK-DAG: y = add", PROGRAM), None),
    (lambda c: c.run("nothing", PROGRAM), "No checks have been added"),
    (lambda c: c.check_source_highlighted("add").run("x = add(1)\n    ~~~ <--- HERE\n"), None),
    (
        lambda c: c.check_source_highlighted("add").run("x = add(1)\n    ~~ <--- HERE\n"),
        "but it is not",
    ),
    (lambda c: c.check_source_highlighted("add").run("x = add(1)"), "but it is not"),
]


@pytest.mark.parametrize("number", range(len(FILE_CHECKS)))
def test_file_check(number):
    run, phrase = FILE_CHECKS[number]
    if phrase is None:
        run(FileCheck())
    else:
        with pytest.raises(RuntimeError, match=phrase):
            run(FileCheck())
