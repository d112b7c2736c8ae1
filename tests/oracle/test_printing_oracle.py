"""The printed text against PyTorch's, for random dtypes, shapes, magnitudes and options."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from rushlight.core import dtypes, modes, printing

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from torch import _tensor_str as oracle_printing

pytestmark = pytest.mark.oracle

INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e8, 1e-4, 1e3]


def numbers(draw, rng, kind, shape):
    """Floats of `shape`: whole or not, of one or many magnitudes, with special values or not."""
    size = int(np.prod(shape))
    flat = rng.standard_normal(size)
    if kind == "whole":
        flat = np.round(flat * draw(st.sampled_from([1, 10, 1e3, 1e6, 1e9])))
    elif kind == "near":
        flat = flat * 10.0 ** draw(st.integers(-9, 12))
    elif kind == "wide":
        flat = flat * 10.0 ** rng.integers(-6, 6, size)
    elif kind == "far":
        flat = flat * 10.0 ** rng.integers(-300, 300, size)
    elif kind == "border":
        flat = rng.choice([1e8, 1e8 + 8, 1e5, 1e-4, 0.99e-4, 0.1, 100.0, 99.99, 1000.0, 1.0], size)
    else:
        flat = rng.choice(SPECIAL, size)
    share = draw(st.sampled_from([0.0, 0.0, 0.1, 0.9]))
    return np.where(rng.random(size) < share, rng.choice(SPECIAL, size), flat).reshape(shape)


@st.composite
def tensors(draw):
    """A PyTorch tensor; its array is what `printing` gets."""
    name = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 8), max_size=4).map(tuple) | st.tuples(st.integers(0, 60)))
    if draw(st.booleans()):
        shape = draw(
            st.sampled_from([(1001,), (40, 40), (3, 400), (400, 3), (5, 2, 7, 30), (1000,)])
        )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.from_numpy(np.asarray(rng.random(shape) < 0.5))
    if name in INTEGERS:
        bounds = np.iinfo(name)
        reach = draw(st.sampled_from([1, 10, 2**40]))
        low, high = max(bounds.min, -reach), min(bounds.max, reach)
        return torch.from_numpy(np.asarray(rng.integers(low, high, shape, name, endpoint=True)))
    kinds = st.sampled_from(["whole", "near", "wide", "far", "border", "special"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = numbers(draw, rng, draw(kinds), shape)
        if dtype.is_complex:
            both = np.empty(shape, "complex128")
            both.real, both.imag = real, numbers(draw, rng, draw(kinds), shape)
            return torch.from_numpy(both).to(dtype)
        return torch.from_numpy(np.asarray(real)).to(dtype)


def array_of(tensor):
    """The same values as an ndarray, bfloat16 as ml_dtypes'."""
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 12),
        "threshold": st.sampled_from([0, 1, 5, 50, 1000, float("inf")]),
        "edgeitems": st.integers(0, 5),
        "linewidth": st.integers(0, 200),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([True, False, None]),
    },
)


@pytest.fixture(autouse=True)
def default_settings():
    yield
    torch.set_default_dtype(torch.float32)
    modes.set_default_dtype(dtypes.float32)
    torch.set_printoptions(profile="default")
    printing.set_printoptions(profile="default")


def set_both(options):
    for target in (torch, printing):
        target.set_printoptions(profile="default")
        target.set_printoptions(**options)


@given(tensor=tensors(), options=OPTIONS | st.just({}))
@settings(max_examples=300, deadline=None)
def test_numbers_are_printed_as_pytorch_does(tensor, options):
    set_both(options)
    assert printing.get_printoptions() == oracle_printing.get_printoptions()
    want = repr(tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = printing.format_array(array_of(tensor), indent=len("tensor("))
    assert want.startswith("tensor(" + got)
    # What follows is the closing bracket, dtype= or size=; not more numbers.
    assert want[len("tensor(" + got) :].lstrip(",\n ")[:1] in (")", "d", "s")


class Tensor:
    """The public attributes of a PyTorch tensor, as `printing` reads them from a tensor of ours."""

    __module__ = "rushlight.core.tensor"

    def __init__(self, tensor):
        self._array = None if tensor.is_meta else array_of(tensor.detach())
        self.dtype = getattr(dtypes, str(tensor.dtype).removeprefix("torch."))
        self.device, self.shape = tensor.device, tensor.shape
        self.is_meta, self.is_leaf = tensor.is_meta, tensor.is_leaf
        self.requires_grad, self.grad_fn = tensor.requires_grad, tensor.grad_fn


class Masked(Tensor):
    __module__ = __name__


Parameter = type("Parameter", (Tensor,), {"__module__": "rushlight.nn.parameter"})
Scale = type("Scale", (Parameter,), {"__module__": __name__})
CONTAINING = "Parameter containing:\n"  # which repr of a parameter adds


@given(
    tensor=tensors(),
    options=OPTIONS | st.just({}),
    default=st.sampled_from([*FLOATS, "float32"]),
    meta=st.sampled_from([False, False, True]),
    graph=st.sampled_from(["none", "leaf", "node"]),
    contents=st.sampled_from([None, None, None, "..."]),
)
@settings(max_examples=300, deadline=None)
def test_tensors_are_printed_as_pytorch_does(tensor, options, default, meta, graph, contents):
    set_both(options)
    torch.set_default_dtype(getattr(torch, default))
    modes.set_default_dtype(getattr(dtypes, default))
    tensor = tensor.to("meta") if meta else tensor
    if graph != "none" and (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.clone().requires_grad_()
        tensor = tensor.clone() if graph == "node" else tensor
    got = printing.tensor_str(Tensor(tensor), contents=contents)
    assert got == tensor.__repr__(tensor_contents=contents)


@given(tensor=tensors(), options=OPTIONS | st.just({}))
@settings(max_examples=50, deadline=None)
def test_subclasses_and_parameters_are_printed_as_pytorch_does(tensor, options):
    set_both(options)

    class Masked(torch.Tensor):
        pass

    class Scale(torch.nn.Parameter):
        pass

    assert printing.tensor_str(globals()["Masked"](tensor)) == repr(tensor.as_subclass(Masked))
    if tensor.is_floating_point() or tensor.is_complex():
        parameter = torch.nn.Parameter(tensor)
        assert CONTAINING + printing.tensor_str(Parameter(parameter)) == repr(parameter)
        scale = Scale(tensor)
        assert CONTAINING + printing.tensor_str(globals()["Scale"](scale)) == repr(scale)


def test_an_invalid_view_is_printed_as_pytorch_does():
    base = torch.ones(2, requires_grad=True) * 1
    view = base.unbind()[0]
    base.mul_(2)

    class Stale(Tensor):
        __module__ = "rushlight.core.tensor"

        grad_fn = property(lambda self: view.grad_fn, lambda self, node: None)

    Stale.__name__ = "Tensor"
    assert (
        printing.tensor_str(Stale(view.detach())) == repr(view) == "tensor(2., grad_fn=<Invalid>)"
    )


@pytest.mark.parametrize("spec", ["", ".3f", "d", ">10", "s", ".1e", "b"])
@pytest.mark.parametrize(
    "value, dtype",
    [(2.5, "float32"), (2.5, "bfloat16"), (7, "int8"), (True, "bool"), (1 + 2j, "complex64")]
    + [([1.0], "float32"), ("meta", "float32"), ("parameter", "float32")],
)
def test_format_is_pytorch_s(value, dtype, spec):
    cls = Tensor
    if value == "meta":
        tensor = torch.empty((), device="meta")
    elif value == "parameter":
        tensor, cls = torch.nn.Parameter(torch.tensor(1.5)), Parameter
    else:
        tensor = torch.tensor(value, dtype=getattr(torch, dtype))

    class Printed(cls):
        __module__ = "rushlight.core.tensor"
        __str__ = lambda self: repr(tensor)

    Printed.__name__ = Printed.__qualname__ = cls.__name__
    outcomes = []
    for call in (
        lambda: printing.tensor_format(Printed(tensor), spec),
        lambda: format(tensor, spec),
    ):
        try:
            outcomes.append(call())
        except (TypeError, ValueError) as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


def test_the_context_manager_is_pytorch_s():
    for target in (printing, oracle_printing):
        with target.printoptions(precision=2, profile="short"):
            with pytest.raises(TypeError, match="bogus"):
                target.printoptions(bogus=1).__enter__()
            inside = target.get_printoptions()
        assert (inside["precision"], inside["edgeitems"]) == (2, 2)
        assert target.get_printoptions()["edgeitems"] == 3
