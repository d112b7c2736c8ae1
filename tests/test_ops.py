"""Every operator, from its row in opdb.py: values, forms, memory, layouts, dtypes, gradients."""

from __future__ import annotations

import functools
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import directional
import opdb
import rushlight
from opdb_rows import replace
from rushlight import Tensor
from rushlight.core.tensor import _wrap
from rushlight.dispatch import index
from rushlight.dispatch.registry import ALIASES, OPS, PUBLIC

ROWS = [*opdb.ROWS, *opdb.FUNCTION_ROWS]
BEHIND = (
    "internal.",
    "aten.",
)  # operators behind public functions, and those whose name begins with _


def each(condition=lambda row: True):
    """Run a test for each row (of which `condition` holds)."""
    silent = pytest.mark.filterwarnings("ignore")
    rows = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize(
        "row", [pytest.param(row, id=row.name, marks=silent if row.warns else ()) for row in rows]
    )


def function(path: str):
    return functools.reduce(getattr, path.split("."), rushlight)


def tensors(tree):
    return replace(tree, lambda a: _wrap(np.array(a)), np.ndarray)


def leaves(result) -> list:
    """The tensors, arrays and numbers in a result, in order."""
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def array(leaf) -> np.ndarray:
    """A leaf as NumPy takes it: numbers of ml_dtypes in float64."""
    value = leaf.detach().resolve_conj()._array if isinstance(leaf, Tensor) else np.asarray(leaf)
    return value.astype(np.float64) if value.dtype.kind == "V" else value


def close(result, expected, tol: float, what: str = "", kinds: bool = True) -> None:
    got, want = leaves(result), leaves(expected)
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if isinstance(a, str | bool | type | rushlight.dtype | rushlight.Size | None):
            assert a == b, f"{what}: {a!r}, expected {b!r}"
            continue
        a, b = array(a), array(b)
        assert a.shape == b.shape, f"{what}[{i}]: shape {a.shape}, expected {b.shape}"
        if kinds:
            kind = {"u": "i"}.get(a.dtype.kind, a.dtype.kind)
            assert kind == {"u": "i"}.get(b.dtype.kind, b.dtype.kind), (
                f"{what}[{i}]: dtype {a.dtype}, expected {b.dtype}"
            )
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        np.testing.assert_allclose(
            a.astype(wide), b.astype(wide), rtol=tol, atol=tol, err_msg=f"{what}[{i}]"
        )


def call(row, args, kwargs, f=None):
    """The row's function on fresh tensors; random ones begin with the same seed each time."""
    rushlight.manual_seed(0)
    return (f or function(row.name))(*tensors(args), **tensors(kwargs))


def expected(row, case, args, kwargs):
    if case.want is not None:
        return case.want
    args, kwargs = replace((args, kwargs), lambda d: d.np, rushlight.dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return row.ref(*args, **kwargs)


def judge(row, case, result, args, kwargs, tol, what="", kinds=True) -> None:
    """Compare with the reference, or let the row's own check look."""
    if row.check is not None and case.want is None:
        row.check(replace(result, array, Tensor), *args, **kwargs)
    else:
        want = expected(row, case, args, kwargs)
        close(result, want, tol, what or str(case.kwargs or case.args[1:]), kinds)


@each()
def test_value(row):
    for case, args, kwargs in row.draws():
        given = tensors(args)
        before = replace(given, lambda t: (t._array.copy(), t._version), Tensor)
        rushlight.manual_seed(0)
        result = function(row.name)(*given, **tensors(kwargs))
        judge(row, case, result, args, kwargs, row.tol)
        assert row.casts or all(
            leaf.dtype.name not in ("float32", "complex64")
            for leaf in leaves(result)
            if isinstance(leaf, Tensor) and any(d.kind in "fc" for d in case.inputs())
        ), f"float64 became float32 in {row.name}"
        if row.writes:
            assert result is given[0]
            given, before = given[1:], before[1:]
        for t, (copy, version) in zip(leaves(given), pairs(before), strict=True):
            if isinstance(t, Tensor):
                np.testing.assert_array_equal(t._array, copy, f"{row.name} wrote to an input")
                assert t._version == version


def pairs(tree) -> list:
    """The (array, version) pairs in a tree of arguments; what is no tensor gives (item, None)."""
    if isinstance(tree, tuple) and len(tree) == 2 and isinstance(tree[0], np.ndarray):
        return [tree]
    if isinstance(tree, tuple | list):
        return [pair for item in tree for pair in pairs(item)]
    return [(tree, None)]


@each()
def test_memory(row):
    """What is declared a view shares the memory of its first input, and nothing else does."""
    if row.view is None:
        return
    for case, args, kwargs in row.draws():
        given = tensors((args, kwargs))
        rushlight.manual_seed(0)
        result = [
            r for r in leaves(function(row.name)(*given[0], **given[1])) if isinstance(r, Tensor)
        ]
        inputs = []
        replace(given, inputs.append, Tensor)
        for r in result:
            if r.numel():
                shares = [np.may_share_memory(r._array, t._array) for t in inputs]
                assert any(shares) == (row.view or row.writes), f"{case.args} {case.kwargs}"


def declared(row):
    """The operator behind the row, or the plain function."""
    return OPS.get(row.name) or PUBLIC[row.name][0]


def has_out(row) -> bool:
    found = declared(row)
    if row.name in OPS:
        return found.has_out and row.name != "polygamma"
    try:
        return "out" in inspect.signature(found).parameters
    except (TypeError, ValueError):
        return False


@each(lambda row: row.out and not row.writes and has_out(row))
def test_out(row):
    for case, args, kwargs in row.draws():
        plain = call(row, args, kwargs)
        targets = [rushlight.empty(0, dtype=t.dtype) for t in leaves(plain)]
        target = targets[0] if isinstance(plain, Tensor) else tuple(targets)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(row, args, kwargs | {"out": target})
        result = target if result is None else result  # split_copy and its like return nothing
        close(leaves(result), leaves(plain), 0.0, f"out= {case.args[1:]}")
        assert all(a is b for a, b in zip(leaves(result), targets, strict=True))


def has_method(row) -> bool:
    if row.name in OPS:
        return OPS[row.name].is_method and "." not in row.name
    return PUBLIC[row.name][1] and "." not in row.name


@each(lambda row: row.method and has_method(row))
def test_method(row):
    for case, args, kwargs in row.draws():
        if args and isinstance(args[0], np.ndarray):
            method = getattr(Tensor, row.name)
            close(call(row, args, kwargs, method), call(row, args, kwargs), 0.0, str(case.args[1:]))


def has_inplace(row) -> bool:
    return row.name in OPS and OPS[row.name].has_inplace


@each(lambda row: row.inplace and has_inplace(row))
def test_inplace(row):
    name = row.name.rpartition(".")[2] + "_"
    method = getattr(Tensor, name)
    tried = 0
    for case, args, kwargs in row.draws():
        plain = call(row, args, kwargs)
        first = tensors(args[0])
        if isinstance(first, Tensor) and plain.shape == first.shape and plain.dtype == first.dtype:
            rushlight.manual_seed(0)
            memory = first._array
            result = method(first, *tensors(args[1:]), **tensors(kwargs))
            assert result is first and first._array is memory and first._version == 1
            close(first, plain, 0.0, f"{name} {case.args[1:]}")
            tried += 1
    assert tried or row.ints == "bool", f"no case of {row.name} fits its in-place form"


@each(lambda row: row.strided)
def test_strided_inputs(row):
    """Inputs with gaps and in other orders of memory give what contiguous ones give."""

    def spread(a):
        if not a.ndim:
            return _wrap(np.array(a))
        wide = np.zeros((*a.shape[::-1], 2), a.dtype)[..., 1].transpose()
        wide[...] = a
        return _wrap(wide)

    for case, args, kwargs in row.draws():
        plain = call(row, args, kwargs)
        rushlight.manual_seed(0)
        apart = replace((args, kwargs), spread, np.ndarray)
        result = function(row.name)(*apart[0], **apart[1])
        if row.check:
            judge(row, case, result, args, kwargs, row.tol)
        else:
            close(result, plain, 1e-7, str(case.args[1:]))


def one_answer_if_constant(row) -> bool:
    """The correlation of constant columns is 0 / 0, or 1 after a rounding, in any library."""
    return row.name != "corrcoef"


@each(
    lambda row: row.strided and not row.writes and row.check is None and one_answer_if_constant(row)
)
def test_expanded_inputs(row):
    """Inputs of stride 0, one place of memory seen many times, give what contiguous ones give."""

    def one(a):
        return a[..., :1] if a.ndim and a.size else a

    for case, args, kwargs in row.draws():
        rushlight.manual_seed(0)
        dense = replace(
            (args, kwargs),
            lambda a: _wrap(np.array(np.broadcast_to(one(a), a.shape), order="C")),
            np.ndarray,
        )
        try:
            plain = function(row.name)(*dense[0], **dense[1])
        except (RuntimeError, ValueError):
            continue  # singular matrices, or values that must differ
        rushlight.manual_seed(0)
        wide = replace(
            (args, kwargs), lambda a: _wrap(np.array(one(a))).expand(a.shape), np.ndarray
        )
        close(function(row.name)(*wide[0], **wide[1]), plain, 1e-7, str(case.args[1:]))


@each(lambda row: not row.writes and row.meta)
def test_meta(row):
    """On the meta device, which holds no numbers, results have the same shapes and dtypes."""
    for case, args, kwargs in row.draws():
        if not case.inputs():
            continue
        plain = call(row, args, kwargs)
        given = replace((args, kwargs), lambda a: _wrap(np.array(a)).to("meta"), np.ndarray)
        result = function(row.name)(*given[0], **given[1])
        for a, b in zip(leaves(result), leaves(plain), strict=True):
            if isinstance(b, Tensor):
                assert (a.shape, a.dtype, a.is_meta) == (b.shape, b.dtype, True), case.args[1:]


def floats(row) -> bool:
    return any(d.kind in "fc" for case in row.cases for d in case.inputs())


@each(lambda row: row.f32 and floats(row))
def test_float32(row):
    for case, args, kwargs in row.draws(np.float32):
        result = call(row, args, kwargs)
        if case.want is None:
            wide = replace((args, kwargs), widen, np.ndarray)
            judge(row, case, result, *wide, row.tol32)
        for leaf in leaves(result):
            wide = isinstance(leaf, Tensor) and leaf.dtype.name in ("float64", "complex128")
            assert row.casts or "dtype" in kwargs or not wide, (
                f"float32 became {leaf.dtype} in {row.name}"
            )


def widen(a):
    return a.astype(
        {"f": np.float64, "c": np.complex128, "V": np.float64}.get(a.dtype.kind, a.dtype)
    )


@each(lambda row: row.half and row.f32 and not row.casts and floats(row))
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half(row, name):
    dtype = getattr(rushlight, name)
    for case, args, kwargs in row.draws(np.float64):
        if not {d.kind for d in case.inputs()} <= set("fib") or "dtype" in kwargs:
            continue

        def rounded(a):
            return a.astype(dtype.np) if a.dtype.kind == "f" else a

        low = replace((args, kwargs), rounded, np.ndarray)
        wide = replace(low, widen, np.ndarray)
        if any(
            np.isfinite(a).all() and (np.abs(a) > 1e4).any()
            for a in leaves(wide[0])
            if isinstance(a, np.ndarray)
        ):
            continue
        largest = rushlight.finfo(dtype).max / 2
        if any(
            t.is_floating_point() and (t.abs() > largest).any() for t in leaves(call(row, *wide))
        ):
            continue
        result = call(row, *low)
        assert all(t.dtype == dtype or not t.is_floating_point() for t in leaves(result))
        judge(row, case, result, *wide, 0.05 if name == "bfloat16" else 0.006)


@each(lambda row: row.order > 0)
def test_gradient(row):
    gradients(row, 1)


@each(lambda row: row.order > 1)
def test_second_gradient(row):
    gradients(row, 2)


@each(lambda row: row.order > 0 and row.inplace and has_inplace(row))
def test_gradient_of_inplace(row):
    """What the in-place form records is right though its input is overwritten."""
    method = getattr(Tensor, row.name.rpartition(".")[2] + "_")

    def f(first, *args, **kwargs):
        plain = function(row.name)(first, *args, **kwargs)
        rushlight.manual_seed(0)
        fits = (
            isinstance(first, Tensor) and plain.shape == first.shape and plain.dtype == first.dtype
        )
        return method(first.clone(), *args, **kwargs) if fits else plain

    gradients(row, min(row.order, 2), f)


@each(lambda row: row.order > 0 and row.out and not row.writes and has_out(row))
def test_out_refuses_gradients(row):
    for case, args, kwargs in row.draws(grad=True):
        if not any(d.differentiable and np.prod(d.shape) for d in case.inputs()):
            continue
        given = replace(
            (args, kwargs),
            lambda a: _wrap(np.array(a)).requires_grad_(a.dtype.kind in "fc"),
            np.ndarray,
        )
        with rushlight.no_grad():
            rushlight.manual_seed(0)
            plain = function(row.name)(*given[0], **given[1])
        target = replace(plain, rushlight.empty_like, Tensor)
        rushlight.manual_seed(0)
        with pytest.raises(RuntimeError, match=r"out=|automatic differentiation"):
            function(row.name)(*given[0], **given[1], out=target)
        return


def gradients(row, order: int, function_of=None) -> None:
    tried = 0
    call_it = function_of or function(row.name)
    for case, args, kwargs in row.draws(grad=True):
        flows = [d.differentiable for d in case.inputs()]
        arrays: list = []
        replace((args, kwargs), arrays.append, np.ndarray)
        moving = [a for a, m in zip(arrays, flows, strict=True) if m]
        if not moving or not any(a.size for a in moving):
            continue

        def f(*given, args=args, kwargs=kwargs, flows=flows):
            given, which = iter(given), iter(flows)
            args, kwargs = replace(
                (args, kwargs),
                lambda a: next(given) if next(which) else _wrap(np.array(a)),
                np.ndarray,
            )
            if row.writes:
                args = (args[0].clone(), *args[1:])
            args = row.sent_through(args)
            rushlight.manual_seed(0)
            return call_it(*args, **kwargs)

        try:
            directional.check(f, moving, order)
        except AssertionError as error:
            raise AssertionError(f"{row.name}{case.args[1:]}{case.kwargs}: {error}") from None
        tried += 1
    assert tried, f"no case of {row.name} has a gradient"


@each(lambda row: row.order == 0 and not row.writes and not row.casts and floats(row))
def test_no_gradient(row):
    """What has no gradient says so: its result requires none, its backward raises, or the gradient is zero."""

    def leaf(a):
        return _wrap(np.array(a)).requires_grad_(a.dtype.kind in "fc")

    for _, args, kwargs in row.draws():
        given = replace((args, kwargs), leaf, np.ndarray)
        inputs: list = []
        replace(given, lambda t, found=inputs: found.append(t) if t.requires_grad else None, Tensor)
        rushlight.manual_seed(0)
        for result in directional.outputs(function(row.name)(*given[0], **given[1])):
            try:
                found = rushlight.autograd.grad(result.sum().abs(), inputs, allow_unused=True)
            except (RuntimeError, NotImplementedError):
                continue
            assert not any(g is not None and g.any() for g in found), f"{row.name} has a gradient"


def gradients_at(row, args, kwargs, flows, weights, made=Tensor.detach) -> tuple[list, list]:
    """The gradients of the row's function at these arrays, and the weights of its outputs (drawn if not given).
    `made` makes a leaf of a tensor."""
    arrays, which = [], iter(flows)

    def leaf(a):
        t = _wrap(np.array(a))
        if next(which):
            t = made(t).requires_grad_()
            arrays.append(t)
        return t

    args, kwargs = replace((args, kwargs), leaf, np.ndarray)
    if row.writes:
        args = (args[0].clone(), *args[1:])
    args = row.sent_through(args)
    rushlight.manual_seed(0)
    found = directional.outputs(function(row.name)(*args, **kwargs))
    rng = np.random.default_rng(0)
    weights = weights or [directional.noise(rng, o._array) for o in found]
    given = [_wrap(np.array(w.astype(o._array.dtype))) for w, o in zip(weights, found, strict=True)]
    return list(rushlight.autograd.grad(found, arrays, given, allow_unused=True)), weights


@each(lambda row: row.order > 0 and row.f32 and not row.check)
def test_gradient_in_float32(row):
    narrow_gradients(row, "float32")


@each(lambda row: row.order > 0 and row.half and row.f32 and not row.casts and not row.check)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_gradient_in_half(row, name):
    narrow_gradients(row, name)


def narrow_gradients(row, name: str) -> None:
    """Gradients in narrow types are those of float64, rounded."""
    dtype = getattr(rushlight, name)
    for case, args, kwargs in row.draws(np.float32, grad=True):
        if name != "float32" and any(d.kind == "c" for d in case.inputs()):
            continue
        flows = [d.differentiable for d in case.inputs()]

        def rounded(a):
            return np.array(a.astype(dtype.np)) if a.dtype.kind == "f" else a

        low = replace((args, kwargs), rounded, np.ndarray)
        wide, weights = gradients_at(row, *replace(low, widen, np.ndarray), flows, None)
        narrow, _ = gradients_at(row, *low, flows, weights)
        tol = {"float32": 10 * row.tol32, "float16": 0.03, "bfloat16": 0.2}[name]
        for a, b in zip(narrow, wide, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b.numel():
                assert a.dtype == dtype or a.is_complex(), f"gradient in {a.dtype}"
                size = max(1.0, np.abs(array(b)).max())
                np.testing.assert_allclose(array(a), array(b), rtol=tol, atol=tol * size)


class Subclass(Tensor):
    pass


@each(lambda row: row.order > 0 and not row.check)
@pytest.mark.parametrize("kind", [rushlight.nn.Parameter, Subclass])
def test_gradient_of_subclasses(row, kind):
    """Rules are given what an operator was given, of whatever class it is."""
    made = kind if kind is not Subclass else lambda t: t.as_subclass(Subclass)
    for case, args, kwargs in row.draws(grad=True):
        flows = [d.differentiable for d in case.inputs()]
        if any(flows):
            plain, weights = gradients_at(row, args, kwargs, flows, None)
            found, _ = gradients_at(row, args, kwargs, flows, weights, made)
            for a, b in zip(found, plain, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(array(a), array(b), rtol=1e-9, atol=1e-12)


INTS = ["int64", "int32", "int16", "int8", "uint8"]


@each(lambda row: row.ints is not None)
def test_integers(row):
    """The dtype and the values of results for integer inputs."""
    for case, args, kwargs in row.draws(grad=True):
        numbers = [a for a in (*args, *kwargs.values()) if isinstance(a, float)]
        if numbers or any(d.kind != "f" for d in case.inputs()):
            continue
        for name in INTS:

            def whole(a, name=name):
                if a.dtype.kind != "f":
                    return a
                return np.array(np.clip(np.abs(np.rint(2 * a)), 1, 3).astype(name))

            given = replace((args, kwargs), whole, np.ndarray)
            result = call(row, *given)
            want = {"same": name, "float": "float32"}.get(row.ints, row.ints)
            assert [t.dtype.name for t in leaves(result)] == [want] * len(leaves(result)), name
            kind = np.float64 if row.ints == "float" else np.int64
            wide = replace(given, lambda a, kind=kind: a.astype(kind), np.ndarray)
            want = expected(row, case, *wide)
            if row.ints == "same":  # what leaves the range comes in again at its other end
                want = replace(
                    leaves(want),
                    lambda a, name=name: np.asarray(a).astype(name),
                    np.generic | np.ndarray,
                )
            close(leaves(result), leaves(want), 1e-5, name, kinds=False)


def test_aliases():
    """A further name of an operator is the operator."""
    for path, op in ALIASES.items():
        if not path.startswith(("Tensor.", "_", *BEHIND)):
            assert function(path) is function(op.path) or function(path).__doc__, path


@each(lambda row: row.aka)
def test_same_function_by_another_name(row):
    for case, args, kwargs in row.draws():
        plain = call(row, args, kwargs)
        for name in row.aka:
            close(call(row, args, kwargs, function(name)), plain, 0.0, f"{name} {case.args[1:]}")


def public(path: str) -> bool:
    return not path.startswith(BEHIND) and not any(p.startswith("_") for p in path.split("."))


def test_every_op_has_a_row():
    rows = {name for row in ROWS for name in (row.name, *row.aka)}
    without = [
        path
        for path in index.FUNCTIONS
        if public(path) and path not in rows and path not in opdb.TESTED_ELSEWHERE
        and not (path in ALIASES and ALIASES[path].path in rows | {*opdb.TESTED_ELSEWHERE})
    ]  # fmt: skip
    assert not without, f"{len(without)} without a row in opdb.py: {' '.join(sorted(without))}"


def test_rows_stand_for_something():
    names = [name for row in ROWS for name in (row.name, *row.aka)]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    known = {*index.FUNCTIONS, *OPS, *PUBLIC, *ALIASES}
    assert not {*names, *opdb.TESTED_ELSEWHERE} - known
    assert set(opdb.BEHIND_ROWS.values()) <= set(names)
    for place in {*opdb.ALONE.values()}:
        file, _, test = place.partition("::")
        assert f"def {test}(" in (Path(__file__).parent / file).read_text("utf-8"), place
