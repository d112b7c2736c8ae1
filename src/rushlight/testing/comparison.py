"""`assert_close`: are two values, or two trees of values, equal up to rounding?"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.core.tensor import Tensor

__all__ = ["assert_close"]

# (rtol, atol) of each dtype; all others compare exactly.
_SINGLE, _DOUBLE = (1.3e-6, 1e-5), (1e-7, 1e-7)
_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: _SINGLE,
    torch.complex64: _SINGLE,
    torch.float64: _DOUBLE,
    torch.complex128: _DOUBLE,
}
_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


class _Rules:
    """The arguments of one `assert_close` that every leaf of the trees is compared by."""

    def __init__(self, rtol: float | None, atol: float | None, **checks: bool) -> None:
        self.rtol, self.atol = rtol, atol
        self.equal_nan = checks["equal_nan"]
        self.subclasses = checks["subclasses"]
        self.device, self.dtype = checks["device"], checks["dtype"]
        self.layout, self.stride = checks["layout"], checks["stride"]

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in pairs), max(a for _, a in pairs)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    `actual`, `expected`: tensors, arrays, numbers, None, or sequences and mappings of them. Without
    `rtol` and `atol` (both or neither: ValueError) they follow from the dtypes. Also compared, unless
    switched off: shape, device, dtype, layout; with `check_stride` the strides. `msg` replaces the
    message, or is called with it. TypeError for what cannot be compared.

    >>> import rushlight as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]) / 3 * 3, torch.tensor([1.0]))
    >>> torch.testing.assert_close({"a": [1, 2]}, {"a": [1, 3]})
    Traceback (most recent call last):
    AssertionError: Scalars are not equal!
    <BLANKLINE>
    Expected 3 but got 2.
    Absolute difference: 1
    Relative difference: 0.3333333333333333
    <BLANKLINE>
    The failure occurred for item ['a'][1]
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    if (rtol is None) != (atol is None):
        given = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {given}."
        )
    rules = _Rules(
        rtol, atol, equal_nan=equal_nan, subclasses=allow_subclasses, device=check_device,
        dtype=check_dtype, layout=check_layout, stride=check_stride,
    )  # fmt: skip
    for item, error in _differences(actual, expected, rules, ()):
        text = str(error)
        if item:
            text += f"\n\nThe failure occurred for item {''.join(f'[{k!r}]' for k in item)}"
        if isinstance(error, AssertionError) and msg is not None:
            text = msg(text) if callable(msg) else msg
        raise type(error)(text)


def _differences(
    actual: Any, expected: Any, rules: _Rules, item: tuple
) -> Iterator[tuple[tuple, Exception]]:
    """The differences between two trees, each with its path, in order; types are compared first."""
    found: list[tuple[tuple, Exception]] = []
    for path, a, e, error in list(_leaves(actual, expected, rules, item)):
        if error is not None:
            yield path, error
            return  # a tree of another form: nothing below it can be paired
        if (error := _compare(a, e, rules)) is not None:
            if not isinstance(error, AssertionError):
                yield path, error
                return
            found.append((path, error))
    yield from found


def _leaves(a: Any, e: Any, rules: _Rules, item: tuple) -> Iterator[tuple]:
    """(path, actual, expected, None) of each pair of leaves; the last is set where the trees differ."""
    if _is_sequence(a) and _is_sequence(e):
        if len(a) != len(e):
            text = f"The length of the sequences mismatch: {len(a)} != {len(e)}"
            yield item, a, e, AssertionError(text)
            return
        for k in range(len(a)):
            yield from _leaves(a[k], e[k], rules, (*item, k))
    elif isinstance(a, Mapping) and isinstance(e, Mapping):
        missing, more = e.keys() - a.keys(), a.keys() - e.keys()
        if missing or more:
            text = "The keys of the mappings do not match:"
            if missing:
                text += f"\nMissing keys in the actual mapping: {sorted(missing, key=str)}"
            if more:
                text += f"\nAdditional keys in the actual mapping: {sorted(more, key=str)}"
            yield item, a, e, AssertionError(text)
            return
        for k in sorted(a, key=str):
            yield from _leaves(a[k], e[k], rules, (*item, k))
    else:
        yield item, a, e, None


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _compare(a: Any, e: Any, rules: _Rules) -> Exception | None:
    """The difference between one pair of leaves, or None."""
    if a is None or e is None:
        return None if a is e else AssertionError(f"None mismatch: {a} is not {e}")
    if isinstance(a, (bool, np.bool_)) and isinstance(e, (bool, np.bool_)):
        if bool(a) is bool(e):
            return None
        return AssertionError(f"Booleans mismatch: {bool(a)} is not {bool(e)}")
    if isinstance(a, _NUMBERS) and isinstance(e, _NUMBERS):
        return _compare_numbers(_python(a), _python(e), rules)
    related = type(a) is type(e) or (
        rules.subclasses and (isinstance(a, type(e)) or isinstance(e, type(a)))
    )
    if related:
        try:
            # as_tensor of a string raises TypeError, of an array of objects too
            return _compare_tensors(*(_plain(x) for x in (a, e)), rules)
        except _NotTensorLike:
            pass
    return TypeError(
        f"No comparison pair was able to handle inputs of type {type(a)} and {type(e)}."
    )


class _NotTensorLike(Exception):
    pass


def _plain(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    try:
        return torch.as_tensor(x)
    except Exception:
        raise _NotTensorLike from None


def _python(x: Any) -> Any:
    return x.item() if isinstance(x, (np.number, np.bool_)) else x


_DTYPE_OF = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _compare_numbers(a: Any, e: Any, rules: _Rules) -> AssertionError | None:
    if rules.dtype and type(a) is not type(e):
        return AssertionError(f"The (d)types do not match: {type(a)} != {type(e)}.")
    rtol, atol = rules.tolerances(_DTYPE_OF[type(a)], _DTYPE_OF[type(e)])
    return _scalars(a, e, rtol, atol, rules.equal_nan)


def _scalars(a: Any, e: Any, rtol: float, atol: float, equal_nan: bool) -> AssertionError | None:
    if a == e or (equal_nan and cmath.isnan(a) and cmath.isnan(e)):
        return None
    difference = abs(a - e)
    # an infinite difference is never close, also where an infinite `expected` allows one
    if cmath.isfinite(difference) and difference <= atol + rtol * abs(e):
        return None
    exact = rtol == 0 and atol == 0
    relative = difference / abs(e) if e else float("inf")
    lines = [
        f"Scalars are not {'equal' if exact else 'close'}!",
        "",
        f"Expected {e} but got {a}.",
        f"Absolute difference: {difference}" + _allowed(exact, atol),
        f"Relative difference: {relative}" + _allowed(exact, rtol),
    ]
    return AssertionError("\n".join(lines))


def _allowed(exact: bool, tolerance: float) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def _compare_tensors(a: Tensor, e: Tensor, rules: _Rules) -> AssertionError | None:
    checks = [("shape", True), ("layout", rules.layout), ("device", rules.device)]
    for name, wanted in [*checks, ("dtype", rules.dtype)]:
        if wanted and getattr(a, name) != getattr(e, name):
            return _differs(name, getattr(a, name), getattr(e, name))
    dense = a.layout == e.layout == torch.strided
    if rules.stride and dense and a.stride() != e.stride():
        return _differs("stride()", a.stride(), e.stride())
    if "meta" in (a.device.type, e.device.type):
        return None  # no values to compare
    rtol, atol = rules.tolerances(a.dtype, e.dtype)
    with torch.no_grad():
        if a.dtype is not e.dtype:
            common = torch.promote_types(*(_UNSIGNED.get(x.dtype, x.dtype) for x in (a, e)))
            a, e = a.to(common), e.to(common)
        if a.layout != e.layout:
            a, e = (x if x.layout == torch.strided else x.to_dense() for x in (a, e))
        if a.layout == torch.strided:
            return _values(a.resolve_conj(), e.resolve_conj(), rtol, atol, rules.equal_nan)
        return _compare_sparse(a, e, rtol, atol, rules.equal_nan)


_UNSIGNED = dict.fromkeys((torch.uint16, torch.uint32, torch.uint64), torch.int64)
_COMPRESSED = {  # layout -> what its indices are called
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def _compare_sparse(
    a: Tensor, e: Tensor, rtol: float, atol: float, equal_nan: bool
) -> AssertionError | None:
    """The first difference of two tensors of one sparse layout as they are stored: indices, then values."""
    layout = "sparse " + str(a.layout).rpartition("_")[2].upper()
    numbers = [("specified values", a._nnz(), e._nnz())]
    if a.layout == torch.sparse_coo:
        numbers.insert(0, ("sparse dimensions", a.sparse_dim(), e.sparse_dim()))
        indices, values = ("_indices",), "_values"
    else:
        indices, values = _COMPRESSED[a.layout], "values"
    for what, ours, theirs in numbers:
        if ours != theirs:
            return AssertionError(
                f"The number of {what} in {layout} tensors does not match: {ours} != {theirs}"
            )
    of = [(name, 0.0, 0.0, False) for name in indices] + [(values, rtol, atol, equal_nan)]
    for name, *tolerances in of:
        part = f"S{layout[1:]} {name.lstrip('_')}"
        error = _values(getattr(a, name)(), getattr(e, name)(), *tolerances, part)
        if error is not None:
            return error
    return None


def _differs(name: str, a: Any, e: Any) -> AssertionError:
    return AssertionError(f"The values for attribute '{name}' do not match: {a} != {e}.")


def _values(
    a: Tensor, e: Tensor, rtol: float, atol: float, equal_nan: bool, what: str = "Tensor-likes"
) -> AssertionError | None:
    close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    if a.ndim == 0:
        error = _scalars(a.item(), e.item(), rtol, atol, equal_nan)
        if error is not None:
            return error
    if not (a.is_floating_point() or a.is_complex()):
        a, e = a.to(torch.int64), e.to(torch.int64)  # a difference of uint8 would wrap around
    exact = rtol == 0 and atol == 0
    wrong, total = int((~close).sum()), close.numel()
    far = (a - e).abs().masked_fill(close, 0)
    relative = (far / e.abs()).masked_fill(close, 0)
    lines = [
        f"{what} are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
        *(
            f"Greatest {kind} difference: {values.reshape(-1)[at].item()}"
            f" at index {_index(at, a.shape)}{_allowed(exact, tolerance)}"
            for kind, values, tolerance in (("absolute", far, atol), ("relative", relative, rtol))
            for at in [int(values.reshape(-1).argmax())]
        ),
    ]
    return AssertionError("\n".join(lines))


def _index(at: int, shape: Any) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(at, tuple(shape)))
