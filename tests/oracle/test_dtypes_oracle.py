"""Every entry of the dtype tables against PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.core import dtypes, modes, type_info
from rushlight.core.device import device as our_device
from rushlight.core.size import Size

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:ComplexHalf support")]

NAMES = [each.name for each in dtypes.ALL]
PAIRS = list(itertools.product(NAMES, NAMES))


def theirs(name):
    return getattr(torch, name)


def ours(name):
    return dtypes.ALIASES.get(name) or getattr(dtypes, name)


def outcome(call):
    """What a call gives, as both sides share it: the printed result or the type of the error."""
    try:
        return str(call())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", [*NAMES, *dtypes.ALIASES])
def test_attributes(name):
    mine, expected = ours(name), theirs(name)
    assert repr(mine) == str(mine) == repr(expected)
    for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed", "abbr"):
        assert getattr(mine, attribute) == getattr(expected, attribute), attribute
    assert str(mine.to_real()) == str(expected.to_real())
    assert outcome(mine.to_complex) == outcome(expected.to_complex)


@pytest.mark.parametrize("a, b", PAIRS)
def test_promote_types_and_can_cast(a, b):
    assert outcome(lambda: dtypes.promote_types(ours(a), ours(b))) == outcome(
        lambda: torch.promote_types(theirs(a), theirs(b))
    )
    assert dtypes.can_cast(ours(a), ours(b)) == torch.can_cast(theirs(a), theirs(b))


@pytest.mark.parametrize("name", NAMES)
def test_limits(name):
    for mine, expected, attributes in (
        (type_info.finfo, torch.finfo, "bits dtype eps max min resolution smallest_normal tiny"),
        (type_info.iinfo, torch.iinfo, "bits dtype max min"),
    ):
        assert outcome(lambda: mine(ours(name))) == outcome(lambda: expected(theirs(name)))
        if isinstance(outcome(lambda: expected(theirs(name))), str):
            for attribute in attributes.split():
                got, wanted = (
                    getattr(mine(ours(name)), attribute),
                    getattr(expected(theirs(name)), attribute),
                )
                assert (type(got), got) == (type(wanted), wanted), attribute


BEYOND = [0.0, 1.5, -1.5, 127.7, 128, 255.9, 300, -1, -129, 32768, 70000, -40000, 2147483648, 4300000077, -4300000077,
          9.3e18, float("inf"), float("nan")]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 18])
@pytest.mark.parametrize("to", ["uint8", "int8", "int16", "int32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int64", "int32"])
def test_numbers_that_a_dtype_does_not_hold(name, to, n):
    values = torch.tensor(BEYOND, dtype=torch.float64).to(theirs(name))
    for first in range(0, len(BEYOND), n):
        some = values[first : first + n]
        raw = some.view(torch.int16).numpy() if name == "bfloat16" else some.numpy()
        got = rushlight.from_numpy(raw.copy()).view(ours(name)).to(ours(to))
        np.testing.assert_array_equal(got.numpy(), some.to(theirs(to)).numpy())


NUMBERS = {"bool": True, "int": 2, "float": 1.5, "complex": 1j}


@pytest.fixture(params=["float16", "bfloat16", "float32", "float64"])
def default_dtype(request):
    before = modes.get_default_dtype(), torch.get_default_dtype()
    modes.set_default_dtype(ours(request.param))
    torch.set_default_dtype(theirs(request.param))
    yield request.param
    modes.set_default_dtype(before[0])
    torch.set_default_dtype(before[1])


def test_result_dtype_of_two_operands(default_dtype):
    """All pairs of (1-d tensor, 0-d tensor, number), under each default dtype."""
    groups = [("dim", n) for n in NAMES] + [("zero", n) for n in NAMES]
    groups += [("number", n) for n in NUMBERS]
    for first, second in itertools.product(groups, groups):
        pair = [first, second]
        wanted = outcome(lambda: torch.result_type(*map(operand, pair)))
        assert outcome(lambda: combine(pair)) == wanted, pair


def operand(group):
    kind, name = group
    if kind == "number":
        return NUMBERS[name]
    return torch.empty((1,) if kind == "dim" else (), dtype=theirs(name))


def combine(groups):
    """As an operator does it: promote within each group, then decide between the groups."""
    found = {"dim": None, "zero": None, "number": None}
    for kind, name in groups:
        this = modes.scalar_dtype(NUMBERS[name]) if kind == "number" else ours(name)
        so_far = found[kind]
        found[kind] = this if so_far is None else dtypes.promote_types(so_far, this)
    return dtypes.result_dtype(found["dim"], found["zero"], found["number"])


def test_result_dtype_of_three_operands():
    """A 1-d tensor, a 0-d tensor, a number: PyTorch has no such call; it is asked in two steps."""
    for dim, zero, number in itertools.product(NAMES, NAMES, NUMBERS):
        triple = [("dim", dim), ("zero", zero), ("number", number)]
        try:
            nested = torch.result_type(operand(triple[0]), operand(triple[1]))
        except RuntimeError:
            continue
        wanted = outcome(lambda: torch.result_type(torch.empty(1, dtype=nested), NUMBERS[number]))
        assert outcome(lambda: combine(triple)) == wanted, triple


DEVICES = [
    "cpu",
    "cuda:1",
    "cpu:0",
    "meta",
    "mps",
    "xpu",
    "cuda:-1",
    "cuda:00",
    "cuda:01",
    "cuda:",
    "cuda:a",
    "foo",
    "foo:0",
    "foo:a",
    "CPU",
    "cuda:127",
    "cuda:99999999999999",
    "privateuseone",
    ":0",
    "cuda:1:2",
    "cpu-",
    "cuda:1a",
    "1",
    "cuda0",
    "_",
    "__:1",
]


def message(call):
    """The first line of the RuntimeError of a call, None if it raises none."""
    try:
        call()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return None


@pytest.mark.parametrize("text", [*DEVICES, "", " cpu", "cpu ", "cuda: 1", "a b", "cuda:²"])
def test_device_strings(text):
    wanted = message(lambda: torch.device(text))
    if wanted is not None:
        assert wanted in message(lambda: our_device(text))
        return
    expected = torch.device(text)
    mine = our_device(text)
    assert (repr(mine), str(mine)) == (repr(expected), str(expected))
    assert (mine.type, mine.index) == (expected.type, expected.index)


@pytest.mark.parametrize(
    "arguments",
    [("cpu", 0), ("cuda:0", 0), ("cuda", -1), ("cuda", "a"), (None,), (), (1.0,), (-1,), (0,)],
)
def test_device_arguments(arguments):
    assert outcome(lambda: our_device(*arguments)) == outcome(lambda: torch.device(*arguments))


@given(st.lists(st.integers(0, 5), max_size=4), st.lists(st.integers(0, 5), max_size=4))
def test_size(a, b):
    for mine, expected in (
        (Size(a) + Size(b), torch.Size(a) + torch.Size(b)),
        (tuple(a) + Size(b), tuple(a) + torch.Size(b)),
        (Size(a) + tuple(b), torch.Size(a) + tuple(b)),
        (Size(a) * 2, torch.Size(a) * 2),
        (2 * Size(a), 2 * torch.Size(a)),
        (Size(a)[1:], torch.Size(a)[1:]),
        (Size(a)[::-1], torch.Size(a)[::-1]),
    ):
        assert type(mine) is Size
        assert repr(mine) == repr(expected)
        assert mine.numel() == expected.numel()
        assert (mine == tuple(expected), hash(mine)) == (True, hash(expected))


@pytest.mark.parametrize("items", [[2.0], ["a"], 3, [True], [-1], [None], [1, 2.0]])
def test_size_items(items):
    assert outcome(lambda: Size(items)) == outcome(lambda: torch.Size(items))


def test_names_of_memory_formats_and_layouts():
    for mine in (*dtypes.MEMORY_FORMATS, *dtypes.LAYOUTS):
        assert repr(mine) == repr(getattr(torch, mine.name))
