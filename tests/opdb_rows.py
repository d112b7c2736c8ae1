"""Rows of the operator database: what a row, a case and a described input are.

A row names an operator, a reference for its values and some cases; `test_ops.py` makes all the tests of
the operator from it. A case is a call whose tensors are described, not given: `c(N(3, 4), dim=1)`.
Inputs are drawn in float64 by a generator seeded with the row's name and handed out in any dtype:

    N(3, 4)         standard normal            U(lo, hi)(3, 4)   uniform, inside a domain
    I(3, 4)         integers from -4 to 4      B(3, 4)           truth values
    C(3, 4)         complex normal             K([1.0, 2.0])     these values
    fixed(N(3))     no gradient with respect to it
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


class Input:
    """A tensor that a case describes: how to draw it, and whether gradients flow to it."""

    def __init__(self, kind: str, shape: tuple, draw: Callable, differentiable: bool = True):
        self.kind, self.shape, self.draw = kind, shape, draw
        self.differentiable = differentiable and kind in "fc"

    def array(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray:
        """One draw; floating inputs in `dtype`, complex ones in complex numbers of that width."""
        value = np.array(self.draw(rng, self.shape))
        if self.kind == "f":
            return value.astype(dtype)
        if self.kind == "c":
            return value.astype(np.complex64 if dtype == np.float32 else np.complex128)
        return value


def N(*shape: int) -> Input:
    return Input("f", shape, lambda rng, s: rng.standard_normal(s))


def U(low: float, high: float) -> Callable[..., Input]:
    return lambda *shape: Input("f", shape, lambda rng, s: rng.uniform(low, high, s))


P = U(0.5, 2.0)  # positive, away from zero


def NZ(*shape: int) -> Input:
    """Away from zero, of both signs."""
    return Input(
        "f", shape, lambda rng, s: rng.uniform(0.5, 2.0, s) * np.sign(rng.standard_normal(s))
    )


def I(*shape: int, low: int = -4, high: int = 5, dtype: Any = np.int64) -> Input:  # noqa: E743
    return Input("i", shape, lambda rng, s: rng.integers(low, high, s).astype(dtype))


def B(*shape: int) -> Input:
    return Input("b", shape, lambda rng, s: rng.random(s) < 0.5)


def C(*shape: int) -> Input:
    return Input("c", shape, lambda rng, s: rng.standard_normal(s) + 1j * rng.standard_normal(s))


def K(values: Any, dtype: Any = None) -> Input:
    array = np.array(values, dtype)
    return Input(array.dtype.kind, array.shape, lambda rng, s: array)


def distinct(*shape: int) -> Input:
    """Values a tenth or more apart, so that no small step changes their order."""

    def draw(rng: np.random.Generator, s: tuple) -> np.ndarray:
        n = int(np.prod(s))
        return (rng.permutation(n) * 0.3 - 0.15 * n + rng.uniform(0.0, 0.2, n)).reshape(s)

    return Input("f", shape, draw)


def spd(*shape: int) -> Input:
    """Symmetric positive definite matrices."""

    def draw(rng: np.random.Generator, s: tuple) -> np.ndarray:
        a = rng.standard_normal(s)
        return a @ np.swapaxes(a, -1, -2) + s[-1] * np.eye(s[-1])

    return Input("f", shape, draw)


def invertible(*shape: int) -> Input:
    """Square matrices far from singular."""
    return Input(
        "f", shape, lambda rng, s: rng.standard_normal(s) + 3 * s[-1] ** 0.5 * np.eye(s[-1])
    )


def hermitian_part(a: Any) -> Any:
    return (a + a.mH) / 2


def lower_triangle(a: Any) -> Any:
    return a.tril()


def fixed(described: Input) -> Input:
    """The same input, without gradients."""
    return Input(described.kind, described.shape, described.draw, differentiable=False)


class Case:
    """One call: positional and keyword arguments, in which tensors are described."""

    def __init__(self, args: tuple, kwargs: dict, want: Any = None, grad: bool = True):
        self.args, self.kwargs, self.want, self.grad = args, kwargs, want, grad

    def inputs(self) -> list[Input]:
        found: list[Input] = []
        replace((self.args, self.kwargs), lambda d: found.append(d))
        return found

    def draw(self, seed: str, dtype: Any = np.float64) -> tuple[tuple, dict]:
        """The arguments with arrays for the described tensors, the same in each call."""
        rng = np.random.default_rng(zlib.crc32(seed.encode()))
        return replace((self.args, self.kwargs), lambda d: d.array(rng, dtype))


def replace(tree: Any, by: Callable, kind: type = Input) -> Any:
    """`tree` (tuples, lists and dictionaries) with every `kind` in it replaced."""
    if isinstance(tree, kind):
        return by(tree)
    if isinstance(tree, tuple | list):
        return type(tree)(replace(item, by, kind) for item in tree)
    if isinstance(tree, dict):
        return {name: replace(item, by, kind) for name, item in tree.items()}
    return tree


def c(*args: Any, want: Any = None, **kwargs: Any) -> Case:
    """A case; `want`: the numbers expected, where the row has no reference."""
    return Case(args, kwargs, want)


def v(*args: Any, want: Any = None, **kwargs: Any) -> Case:
    """A case whose values are checked, but not its gradients: kinks, infinities, integers."""
    return Case(args, kwargs, want, grad=False)


class Row:
    """Everything the tests of one operator are made from.

    `ref`: the values, a function of NumPy arrays with the operator's arguments. `check`: looks at the
    result (arrays) and the arguments instead, where values are not unique or random.
    `order`: how many times it can be differentiated in the tests; 0: it has no gradient (or zero); -1: it has
    one that is not unique or random, and is not looked at.
    `view`: the result shares memory with the first input (True), never does (False), or may (None).
    `ints`: the dtype of the result for integer inputs: "same", "float", "bool" or a dtype's name; None: they are
    refused or not of interest. `writes`: a function that changes its first argument and returns it.
    `half`: it takes float16 and bfloat16. `aka`: other public functions that do the same.
    `through`: gradients are those of the operator applied to this function of its argument number `argument`, for
    operators that take that argument to be Hermitian, triangular, or log-probabilities.
    `warns`: a call warns, that the function is deprecated for example.
    `casts`: the width of the result is not that of the inputs.
    `meta`: shapes follow from shapes, so that it works on the meta device; False where numbers are looked at.
    """

    def __init__(
        self,
        name: str,
        ref: Callable | None,
        *cases: Case,
        check: Callable | None = None,
        order: int = 2,
        view: bool | None = False,
        ints: str | None = None,
        half: bool = True,
        f32: bool = True,
        tol: float = 1e-9,
        tol32: float = 2e-4,
        writes: bool = False,
        inplace: bool = True,
        out: bool = True,
        method: bool = True,
        strided: bool = True,
        through: Callable | None = None,
        argument: int = 0,
        warns: bool = False,
        casts: bool = False,
        meta: bool = True,
        aka: str = "",
    ):
        self.name, self.ref, self.cases, self.check = name, ref, cases, check
        self.order, self.view, self.ints, self.half, self.f32 = order, view, ints, half, f32
        self.tol, self.tol32, self.writes = tol, tol32, writes
        self.inplace, self.out, self.method, self.strided = inplace, out, method, strided
        self.through, self.warns, self.casts, self.meta = through, warns, casts, meta
        self.aka, self.argument = aka.split(), argument

    def __repr__(self) -> str:
        return f"<row {self.name}>"

    def sent_through(self, args: tuple) -> tuple:
        """The arguments, one of them sent through the function `through` if there is one."""
        if self.through is None:
            return args
        k = self.argument
        return (*args[:k], self.through(args[k]), *args[k + 1 :])

    def draws(self, dtype: Any = np.float64, grad: bool = False):
        """The arguments of every case (of those with gradients): (case, args, kwargs)."""
        for i, case in enumerate(self.cases):
            if case.grad or not grad:
                yield case, *case.draw(f"{self.name}/{i}", dtype)


def row(name: str, ref: Callable | None, *cases: Case, **options: Any) -> Row:
    return Row(name, ref, *cases, **options)


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def unary(name: str, ref: Callable, domain: Callable = N, **options: Any) -> Row:
    """An elementwise operator of one tensor; `cplx`: complex numbers too, `special`: these values too."""
    cplx, special = options.pop("cplx", False), options.pop("special", SPECIAL)
    cases = [c(domain(3, 4)), c(domain()), c(domain(0, 3)), c(domain(2, 1, 3))]
    cases += [v(K(special))] if special else []
    cases += [c(C(2, 3))] if cplx else []
    return Row(name, ref, *cases, **options)


def binary(
    name: str, ref: Callable, left: Callable = N, right: Callable | None = None, **options: Any
) -> Row:
    """An elementwise operator of two tensors, with broadcasting; `scalar`: a number as the second one too."""
    cplx, special = options.pop("cplx", False), options.pop("special", SPECIAL)
    scalar, right = options.pop("scalar", None), right or left
    cases = [c(left(3, 4), right(3, 4)), c(left(3, 1), right(2, 1, 4)), c(left(), right(2))]
    cases += [c(left(), right()), c(left(0, 3), right(1, 3))]
    if special:
        pairs = np.array([(a, b) for a in special for b in special])
        cases.append(v(K(pairs[:, 0]), K(pairs[:, 1])))
    cases += [c(left(2, 3), scalar)] if scalar is not None else []
    cases += [c(C(2, 3), C(3)), c(C(2, 3), N(3))] if cplx else []
    return Row(name, ref, *cases, **options)


def reduction(name: str, ref: Callable, domain: Callable = N, **options: Any) -> Row:
    """A reduction: of everything, of one dimension, of several; `empty`: of nothing too."""
    several, empty = options.pop("several", True), options.pop("empty", True)
    cplx = options.pop("cplx", False)
    cases = [c(domain(3, 4)), c(domain(2, 3, 2), dim=1), c(domain(3, 4), -1, True), c(domain())]
    cases += [c(domain(2, 3, 4), (0, 2)), c(domain(2, 3, 2), (0, -1), True)] if several else []
    cases += [v(domain(0, 3)), v(domain(0, 3), 0), v(domain(2, 0), 0)] if empty else []
    cases += [c(C(2, 3)), c(C(2, 3), 1)] if cplx else []
    return Row(name, along(ref), *cases, **options)


def along(ref: Callable) -> Callable:
    """A NumPy reduction (axis, keepdims) called with `dim` and `keepdim`."""

    def reference(x: Any, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
        return ref(x, axis=dim, keepdims=keepdim, **more)

    return reference


def axis(ref: Callable) -> Callable:
    """A NumPy function of an array and an axis, that keeps the shape, called with `dim`."""
    return lambda x, dim=-1, **more: ref(x, axis=dim, **more).reshape(x.shape)


def scipy(path: str) -> Callable:
    """A function of SciPy, `special.erf`, imported when the test runs (skipped where SciPy is absent)."""

    def reference(*args: Any, **kwargs: Any) -> Any:
        module, _, name = path.rpartition(".")
        return getattr(pytest.importorskip(f"scipy.{module}"), name)(*args, **kwargs)

    return reference
