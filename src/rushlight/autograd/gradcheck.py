"""`gradcheck` and `gradgradcheck`: a backward against finite differences.

For inputs in float64, central differences with step eps have an error of order eps**2 (Numerical
Recipes, 3rd ed., section 5.7); `gradcheck` compares the whole Jacobian they give with the one that
backward gives, and shows both when they differ.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd import engine
from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.autograd.graph import new
from rushlight.tensor import Tensor, _wrap

if TYPE_CHECKING:
    from collections.abc import Callable


class GradcheckError(RuntimeError):
    """A gradient that is not what finite differences say."""


def as_tuple(x: Any) -> tuple:
    if isinstance(x, (tuple, list)):
        return tuple(x)
    return (x,)


def differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex)


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func(*inputs)` with finite differences; True if they agree.

    Every floating or complex input with `requires_grad` is checked, against every such output.
    Disagreement raises GradcheckError (a RuntimeError) with both Jacobians, or gives False with
    `raise_exception=False`. Also checked: that a second backward gives the same (to `nondet_tol`),
    that gradients have the dtype and shape of their inputs, and that a backward without gradient for
    some of the outputs works (`check_undefined_grad`).

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: (x * x).exp(), (x,))
    True
    """
    if check_forward_ad:
        raise ValueError("gradcheck: forward-mode differentiation is not implemented")
    inputs = as_tuple(inputs)
    if any(isinstance(x, Tensor) and x.layout is not dtypes.strided for x in inputs):
        from rushlight import sparse

        check = sparse.as_sparse_gradcheck(gradcheck)
        return check(
            func, inputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
            nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes,
        )  # fmt: skip
    try:
        check_inputs(inputs, eps)
        outputs = [o for o in as_tuple(func(*inputs)) if differentiable(o) and o.requires_grad]
        if not outputs:
            check_constant(func, inputs, eps, atol)
            return True
        check_jacobians(func, inputs, outputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_undefined_grad:
            check_undefined(func, inputs)
        if check_batched_grad:
            check_batched(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def check_inputs(inputs: tuple, eps: float) -> None:
    checked = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            if x.dtype not in (dtypes.float64, dtypes.complex128):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or "
                    "complex. This check will likely fail if all the inputs are not of double precision "
                    "floating point or complex.",
                    stacklevel=3,
                )
            if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                    "are non-overlapping to be able to compute the numerical gradients correctly. You "
                    "should call .contiguous on the input before passing it to gradcheck."
                )


def values(func: Callable, inputs: tuple) -> list[np.ndarray]:
    """The outputs of `func` as arrays, not recorded."""
    with no_grad():
        outputs = as_tuple(func(*inputs))
    return [o._array.copy() for o in outputs if differentiable(o)]


def numerical_jacobian(func: Callable, inputs: tuple, at: int, eps: float) -> list[np.ndarray]:
    """d output / d input `at` by central differences: one array [input size, output size] per output.

    For a complex input x = a + bi the two real derivatives are kept: [2, input size, output size].
    """
    x = inputs[at]
    base = x._array
    directions = (1.0, 1j) if x.dtype.is_complex else (1.0,)
    columns: list[list[list[np.ndarray]]] = []
    for direction in directions:
        rows = []
        for k in np.ndindex(base.shape):
            both = []
            for sign in (1, -1):
                moved = base.copy(order="K")
                moved[k] = base[k] + sign * eps * direction
                t = new(Tensor)
                t._array, t._edge, t._counter = moved, None, None
                both.append(values(func, (*inputs[:at], t, *inputs[at + 1 :])))
            rows.append([(p - m) / (2 * eps) for p, m in zip(*both, strict=True)])
        columns.append(rows)
    n = len(values(func, inputs))
    out = []
    for o in range(n):
        parts = [
            np.stack([np.asarray(row[o]).reshape(-1) for row in rows]) if rows else np.zeros((0, 0))
            for rows in columns
        ]
        out.append(np.stack(parts))
    return out


def analytical_jacobian(output: Tensor, inputs: list[Tensor]) -> list[np.ndarray]:
    """From backward: for each input, gradients [directions, input size, output size].

    For a real output one unit gradient per element; for a complex output the unit and the imaginary
    unit. `directions` is 2 for a complex output, else 1.
    """
    units = (1.0, 1j) if output.dtype.is_complex else (1.0,)
    result = [np.zeros((len(units), x.numel(), output.numel()), x._array.dtype) for x in inputs]
    for u, unit in enumerate(units):
        for j in range(output.numel()):
            g = np.zeros(output.shape, output._array.dtype)
            g.reshape(-1)[j] = unit
            grads = engine.grad(output, inputs, _wrap(g), retain_graph=True, allow_unused=True)
            for r, x, gx in zip(result, inputs, grads, strict=True):
                if gx is not None:
                    if gx.shape != x.shape:
                        raise GradcheckError(
                            f"grad has shape {tuple(gx.shape)}, its input {tuple(x.shape)}"
                        )
                    r[u, :, j] = gx._array.reshape(-1)
    return result


def check_jacobians(
    func: Callable,
    inputs: tuple,
    outputs: list[Tensor],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_dtypes: bool,
) -> None:
    at = [i for i, x in enumerate(inputs) if differentiable(x) and x.requires_grad]
    checked = [inputs[i] for i in at]
    everything = [o for o in as_tuple(func(*inputs)) if differentiable(o)]
    numerical = {i: numerical_jacobian(func, inputs, i, eps) for i in at}
    for o, output in enumerate(everything):
        if not output.requires_grad:
            continue
        analytical = analytical_jacobian(output, checked)
        again = analytical_jacobian(output, checked)
        for i, x, a, b in zip(at, checked, analytical, again, strict=True):
            if not np.allclose(a, b, rtol=0, atol=nondet_tol, equal_nan=True):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output "
                    "multiple times gives different values, although analytical gradient matches "
                    f"numerical gradient. The tolerance for nondeterminism was {nondet_tol}."
                )
            compare(x, output, i, o, a, numerical[i][o], atol, rtol)


def compare(
    x: Tensor,
    output: Tensor,
    i: int,
    o: int,
    analytical: np.ndarray,
    numerical: np.ndarray,
    atol: float,
    rtol: float,
) -> None:
    """Both as real derivatives: d(parts of the output) / d(parts of the input)."""

    # A gradient g of a real scalar L is dL/da + i dL/db; the unit 1 as gradient of a complex output
    # makes L its real part, the unit i its imaginary part.
    def real_parts(c: np.ndarray, is_complex: bool) -> np.ndarray:
        return np.stack([c.real, c.imag]) if is_complex else c.real[None]

    want = np.stack([real_parts(part, output.dtype.is_complex) for part in numerical])
    got = np.stack([real_parts(part, x.dtype.is_complex) for part in analytical]).swapaxes(0, 1)
    if want.shape == got.shape and np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        return
    raise GradcheckError(
        f"Jacobian mismatch for output {o} with respect to input {i},\n"
        f"numerical:{_wrap(np.ascontiguousarray(numerical.squeeze(0) if len(numerical) == 1 else numerical))}\n"
        f"analytical:{_wrap(np.ascontiguousarray(analytical.squeeze(0) if len(analytical) == 1 else analytical))}\n"
    )


def check_constant(func: Callable, inputs: tuple, eps: float, atol: float) -> None:
    """No output requires grad: then no output may depend on an input."""
    for i, x in enumerate(inputs):
        if not (differentiable(x) and x.requires_grad):
            continue
        for o, jacobian in enumerate(numerical_jacobian(func, inputs, i, eps)):
            if not np.allclose(jacobian, 0, atol=atol):
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero (output {o}, input {i}): no "
                    f"output requires grad, but it depends on the input: {_wrap(jacobian)}"
                )


def check_undefined(func: Callable, inputs: tuple) -> None:
    """Backward must stand a missing gradient for any of several outputs."""
    outputs = [o for o in as_tuple(func(*inputs)) if differentiable(o) and o.requires_grad]
    if len(outputs) < 2:
        return
    checked = [x for x in inputs if differentiable(x) and x.requires_grad]
    for skipped in range(len(outputs)):
        some = [o for k, o in enumerate(outputs) if k != skipped]
        try:
            engine.grad(
                some, checked, [_wrap(np.ones_like(o._array)) for o in some],
                retain_graph=True, allow_unused=True,
            )  # fmt: skip
        except RuntimeError as e:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at 'Notes "
                f"about undefined output gradients' in autograd (output {skipped} had none): {e}"
            ) from e


def check_batched(func: Callable, inputs: tuple) -> None:
    """`is_grads_batched` gives what single backwards give."""
    checked = [x for x in inputs if differentiable(x) and x.requires_grad]
    rng = np.random.default_rng(0)
    for output in as_tuple(func(*inputs)):
        if not (differentiable(output) and output.requires_grad):
            continue
        g = rng.standard_normal((2, *output.shape)).astype(output._array.dtype)
        batched = engine.grad(
            output, checked, _wrap(g), retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        for row in range(2):
            single = engine.grad(
                output, checked, _wrap(np.asarray(g[row])), retain_graph=True, allow_unused=True
            )
            for b, s in zip(batched, single, strict=True):
                if (b is None) != (s is None) or (
                    b is not None and not np.allclose(b._array[row], s._array)
                ):
                    raise GradcheckError("gradcheck: batched gradients differ from single ones")


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """As `gradcheck`, for the gradients themselves: second derivatives against finite differences.

    `grad_outputs`: gradients to start with, drawn at random when left out.
    """
    inputs = as_tuple(inputs)
    outputs = [o for o in as_tuple(func(*inputs)) if differentiable(o) and o.requires_grad]
    if grad_outputs is None:
        import rushlight as torch

        # drawn as PyTorch draws them: what a program draws next is then the same
        given = []
        for o in outputs:
            g = torch.empty(o.shape, dtype=o.dtype)
            (torch.view_as_real(g) if g.is_complex() else g).uniform_(-1, 1)
            given.append(g.requires_grad_())
        grad_outputs = tuple(given)
    else:
        grad_outputs = as_tuple(grad_outputs)
    n = len(grad_outputs)
    at = [i for i, x in enumerate(inputs) if differentiable(x) and x.requires_grad]

    def gradients(*args: Any) -> tuple:
        given, gs = list(args[:-n]), args[-n:]
        with enable_grad():
            for i in at:
                if not given[i].requires_grad:
                    given[i] = given[i].detach().requires_grad_()
            outs = [o for o in as_tuple(func(*given)) if differentiable(o) and o.requires_grad]
            grads = engine.grad(
                outs, [given[i] for i in at], gs, create_graph=True, allow_unused=True
            )
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
    )
