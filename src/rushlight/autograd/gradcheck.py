"""`gradcheck` and `gradgradcheck`: gradients against finite differences.

For inputs in float64, central differences with step eps have an error of order eps**2 (Numerical
Recipes, 3rd ed., section 5.7); `gradcheck` compares the whole Jacobian they give with the one that
backward gives, and shows both when they differ.

Inputs are moved in place and put back: a function may reach them without its arguments, as a module
reaches its parameters.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch
from rushlight._backends import llvm
from rushlight.autograd import forward_ad
from rushlight.autograd.engine import grad
from rushlight.autograd.function import Function
from rushlight.core.tensor import Tensor


class GradcheckError(RuntimeError):
    """Raised for a gradient that differs from finite differences."""


def as_tuple(x: Any) -> tuple:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def outputs_of(func: Callable, inputs: tuple) -> list[Tensor]:
    """The floating and complex tensors that `func` returns."""
    return [o for o in as_tuple(func(*inputs)) if differentiable(o)]


def checked(inputs: tuple) -> list[Tensor]:
    """The inputs that require grad: gradients are checked with respect to these."""
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def check_modes(forward: bool, backward: bool, batched: bool, batched_forward: bool) -> None:
    """AssertionError where what is to be checked does not go together."""
    if not (forward or backward):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if batched and not backward:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if batched_forward and not forward:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )


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
    that zero gradients of the outputs give zero gradients of the inputs, and that a backward works
    where outputs have no gradient at all (`check_undefined_grad`). `check_forward_ad` compares tangents
    of forward mode too, the `check_batched` arguments what `vmap` gives with single calls. `fast_mode`
    compares one number of each Jacobian, v^T J u for random u and v; where these differ the whole
    Jacobian shows where.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: (x * x).exp(), (x,))
    True
    """
    check_modes(check_forward_ad, check_backward_ad, check_batched_grad, check_batched_forward_grad)
    inputs = as_tuple(inputs)
    if any(isinstance(x, Tensor) and x.layout is not torch.strided for x in inputs):
        return torch.sparse.as_sparse_gradcheck(gradcheck)(
            func, inputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
            nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
            check_batched_forward_grad=check_batched_forward_grad,
            check_forward_ad=check_forward_ad, check_backward_ad=check_backward_ad,
            fast_mode=fast_mode,
        )  # fmt: skip
    llvm.activate()  # not in the middle: two backwards have to agree to the last bit
    try:
        check_inputs(inputs)
        outputs = [o for o in outputs_of(func, inputs) if o.requires_grad]
        if not outputs:
            check_constant(func, inputs, eps)
            return True
        backward = (nondet_tol, check_grad_dtypes) if check_backward_ad else None
        if not fast_mode:
            check_jacobians(func, inputs, outputs, eps, atol, rtol, backward, check_forward_ad)
        elif not projections_agree(
            func, inputs, outputs, eps, atol, rtol, backward, check_forward_ad
        ):
            check_jacobians(func, inputs, outputs, eps, atol, rtol, backward, check_forward_ad)
            raise GradcheckError(
                "Fast gradcheck failed but element-wise differences are small. This means that the test "
                "might've passed in slow_mode: see whether it does with fast_mode=False."
            )
        if check_batched_forward_grad:
            check_batched_forward(func, inputs)
        if not check_backward_ad:
            return True
        if check_batched_grad:
            check_batched(outputs, inputs)
        check_zero_gradients(outputs, inputs)
        if check_undefined_grad:
            check_undefined(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def check_inputs(inputs: tuple) -> None:
    if not checked(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    for i, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        if x.dtype not in (torch.float64, torch.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double precision "
                "floating point or complex. ",
                stacklevel=3,
            )
        if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                "are non-overlapping to be able to compute the numerical gradients correctly. You "
                "should call .contiguous on the input before passing it to gradcheck."
            )


# -- Jacobians. Of an output with respect to an input: one matrix [input size, output size] for a real
#    input; for a complex one a + bi two, the derivatives by a and by b.


def indices_of(x: Tensor) -> Iterator[tuple[int, ...]]:
    """The indices of the elements of `x`, the last one fastest."""
    return itertools.product(*map(range, x.shape))


def units(x: Tensor) -> tuple[complex, ...]:
    """The directions in which an element is moved."""
    return (1.0, 1j) if x.is_complex() else (1.0,)


def values_of(func: Callable, inputs: tuple) -> list[tuple[Tensor, bool]]:
    """A copy of each output, and whether the output requires grad."""
    return [(o.detach().clone(), o.requires_grad) for o in outputs_of(func, inputs)]


def values_around(func: Callable, inputs: tuple, x: Tensor, way: Tensor, eps: float) -> Iterator:
    """(below, above): `values_of` where one of the inputs is moved by -eps and eps times `way`, for each output."""
    moved, before = x.data, x.detach().clone()
    try:
        moved.copy_(before - eps * way)
        lower = values_of(func, inputs)
        moved.copy_(before + eps * way)
        upper = values_of(func, inputs)
    finally:
        moved.copy_(before)
    for below, above in zip(lower, upper, strict=True):
        check_same_kind(below[0], above[0], (), eps)
        yield below, above


def numerical_jacobians(
    func: Callable, inputs: tuple, eps: float
) -> list[tuple[bool, list[list[Tensor]]]]:
    """By central differences. For each output: whether it requires grad, and the matrices for each input."""
    outputs = values_of(func, inputs)
    jacobians: list[tuple[bool, list[list[Tensor]]]] = [(needs, []) for _, needs in outputs]
    for x in checked(inputs):
        moved = x.data  # writes to it are not recorded
        matrices = [[o.new_zeros(x.numel(), o.numel()) for _ in units(x)] for o, _ in outputs]
        for d, unit in enumerate(units(x)):
            for row, k in enumerate(indices_of(x)):
                before = moved[k].clone()
                try:
                    moved[k] = before - eps * unit
                    lower = values_of(func, inputs)
                    moved[k] = before + eps * unit
                    upper = values_of(func, inputs)
                finally:
                    moved[k] = before
                for matrix, (a, _), (b, _) in zip(matrices, lower, upper, strict=True):
                    check_same_kind(a, b, k, eps)
                    matrix[d][row] = ((b - a) / (2 * eps)).reshape(-1)
        for (_, of_output), matrix in zip(jacobians, matrices, strict=True):
            of_output.append(matrix)
    return jacobians


def check_same_kind(a: Tensor, b: Tensor, at: tuple[int, ...], eps: float) -> None:
    for what, one, other in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
        if one != other:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on "
                f"index {at} by {eps}, but got: {what}s {one} and {other}."
            )


def backward_jacobian(
    output: Tensor, inputs: list[Tensor], unit: complex, check_dtypes: bool
) -> list[Tensor]:
    """By one backward for each element of `output`, whose gradient is `unit`: a matrix for each input."""
    jacobians = [x.new_zeros(x.numel(), output.numel()) for x in inputs]
    for column, k in enumerate(indices_of(output)):
        g = torch.zeros(output.shape, dtype=output.dtype)
        g[k] = unit
        found = gradients_of(output, inputs, g, check_dtypes)
        for jacobian, gx in zip(jacobians, found, strict=True):
            if gx is not None:
                jacobian[:, column] = gx.reshape(-1)
    return jacobians


def gradients_of(
    output: Tensor, inputs: list[Tensor], g: Tensor, check_dtypes: bool
) -> list[Tensor | None]:
    """The gradients of the inputs where that of `output` is `g`; they have the inputs' shapes."""
    found = grad(output, inputs, g, retain_graph=True, allow_unused=True)
    for x, gx in zip(inputs, found, strict=True):
        if gx is not None and gx.shape != x.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        if gx is not None and check_dtypes and gx.dtype != x.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
    return [None if gx is None else gx.detach() for gx in found]


def check_reentrant(found: list, again: list, tolerance: float) -> None:
    """Two backward passes over one graph give the same."""
    if any(
        (a - b).abs().max() > tolerance for a, b in zip(found, again) if a is not None and a.numel()
    ):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output "
            "multiple times gives different values, although analytical gradient matches "
            f"numerical gradient.The tolerance for nondeterminism was {tolerance}."
        )


def projections_agree(
    func: Callable, inputs: tuple, outputs: list[Tensor], eps: float, atol: float, rtol: float,
    backward: tuple[float, bool] | None, forward: bool,
) -> bool:  # fmt: skip
    """Whether v^T J u is the same for all Jacobians J, with a unit vector u for each input and v for each output.

    The product of an output's gradient v with its change when an input moves by u is that of the
    input's gradient with u: one difference for each input, one backward for each output. The vectors
    have positive entries, so that no error cancels another one; they are drawn without PyTorch's
    global generator.
    """
    generator = torch.Generator()

    def unit_vector(x: Tensor) -> Tensor:
        parts = [torch.rand(x.shape, dtype=torch.float64, generator=generator) for _ in units(x)]
        drawn = torch.complex(*parts) if len(parts) == 2 else parts[0]
        return (drawn / drawn.norm()).to(x.dtype)

    def dot(a: Tensor, b: Tensor) -> float:
        product = (a.conj() if a.is_complex() else a) * b
        return float((product.real if product.is_complex() else product).sum())

    sources = checked(inputs)
    us, vs = [unit_vector(x) for x in sources], [unit_vector(o) for o in outputs]
    found = [
        gradients_of(o, sources, v, False) if backward else ()
        for o, v in zip(outputs, vs, strict=True)
    ]
    if backward:
        for o, v, gs in zip(outputs, vs, found, strict=True):
            check_reentrant(gs, gradients_of(o, sources, v, backward[1]), backward[0])
    positions = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    for i, (x, u) in enumerate(zip(sources, us, strict=True)):
        around = list(values_around(func, inputs, x, u, eps))
        along = tangents(func, inputs, positions[i], u) if forward else around
        changes = [(a, b, t) for ((a, needs), (b, _)), t in zip(around, along) if needs]
        for v, gs, (a, b, tangent) in zip(vs, found, changes, strict=True):
            numerical = dot(v, (b - a) / (2 * eps))
            given = [0.0 if gs[i] is None else dot(gs[i], u)] if backward else []
            given += [dot(v, tangent)] if forward else []
            most = atol * float(u.abs().sum() * v.abs().sum()) + rtol * abs(numerical)
            if not all(abs(each - numerical) <= most for each in given):
                return False
    return True


def check_jacobians(
    func: Callable, inputs: tuple, outputs: list[Tensor], eps: float, atol: float, rtol: float,
    backward: tuple[float, bool] | None, forward: bool,
) -> None:  # fmt: skip
    """The Jacobians of backward and of forward mode against the numerical ones."""
    numerical = numerical_jacobians(func, inputs, eps)
    if backward:
        check_backward(outputs, inputs, numerical, atol, rtol, *backward)
    if forward:
        check_forward(func, inputs, numerical, atol, rtol)


def check_backward(
    outputs: list[Tensor], inputs: tuple, numerical: list, atol: float, rtol: float,
    nondet_tol: float, check_dtypes: bool,
) -> None:  # fmt: skip
    """Backward's Jacobians against the numerical ones, those of the parts of complex outputs one by one."""
    sources = checked(inputs)
    expected = [matrices for needs, matrices in numerical if needs]
    parts = ("imaginary", "real") if any(o.is_complex() for o in outputs) else ("real",)
    for part in parts:
        for o, output in enumerate(outputs):
            unit = 1j if part == "imaginary" and output.is_complex() else 1.0
            found = backward_jacobian(output, sources, unit, check_dtypes)
            check_reentrant(
                found, backward_jacobian(output, sources, unit, check_dtypes), nondet_tol
            )
            about = f"While considering the {part} part of complex outputs only, "
            for i, (analytical, matrices) in enumerate(zip(found, expected[o], strict=True)):
                # the gradient of a real number L by a + bi is dL/da + i dL/db
                derivatives = [part_of(m, part) for m in matrices]
                compare(
                    analytical,
                    derivatives[0] if len(derivatives) == 1 else torch.complex(*derivatives),
                    about * output.is_complex()
                    + f"Jacobian mismatch for output {o} with respect to input {i}",
                    atol,
                    rtol,
                )


def part_of(x: Tensor, part: str) -> Tensor:
    return x if not x.is_complex() else x.imag if part == "imaginary" else x.real


def compare(analytical: Tensor, numerical: Tensor, failed: str, atol: float, rtol: float) -> None:
    dtype = torch.promote_types(analytical.dtype, numerical.dtype)
    if not torch.allclose(analytical.to(dtype), numerical.to(dtype), rtol, atol):
        raise GradcheckError(f"{failed},\nnumerical:{numerical}\nanalytical:{analytical}\n")


def check_forward(func: Callable, inputs: tuple, numerical: list, atol: float, rtol: float) -> None:
    """The Jacobians of forward mode against the numerical ones, of real and imaginary directions."""
    i = -1
    for at, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        i += 1
        for d, unit in reversed(list(enumerate(units(x)))):
            rows = [tangents(func, inputs, at, one_hot(x, k, unit)) for k in indices_of(x)]
            if not rows:
                continue
            part = "imaginary" if d else "real"
            about = f"While considering the {part} part of complex inputs only, " * x.is_complex()
            for o, columns in enumerate(zip(*rows, strict=True)):
                compare(
                    torch.stack([each.reshape(-1) for each in columns]),
                    numerical[o][1][i][d],
                    about
                    + f"Jacobian computed with forward mode mismatch for output {o} with respect to "
                    f"input {i}",
                    atol,
                    rtol,
                )


def one_hot(x: Tensor, at: tuple[int, ...], value: complex) -> Tensor:
    made = torch.zeros(x.shape, dtype=x.dtype)
    made[at] = value
    return made


def tangents(func: Callable, inputs: tuple, at: int, tangent: Tensor) -> list[Tensor]:
    """The tangents of all outputs, zero where there is none, when input number `at` has `tangent`, and the others zeros."""
    with forward_ad.dual_level():
        given = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
        for i, x in enumerate(inputs):
            if i == at or isinstance(x, Tensor) and x.requires_grad:
                own = tangent if i == at else torch.zeros_like(given[i])
                given[i] = forward_ad.make_dual(given[i], own)
        found = [forward_ad.unpack_dual(o) for o in outputs_of(func, tuple(given))]
        return [torch.zeros_like(p) if t is None else t.detach() for p, t in found]


# -- further conditions


def check_constant(func: Callable, inputs: tuple, eps: float) -> None:
    """No output requires grad: then none may depend on an input.

    All elements of an input move at once, each by a random step from eps / 2 to eps: their effects do not cancel.
    """
    generator = torch.Generator()
    for x in checked(inputs):
        way = (torch.rand(x.shape, dtype=torch.float64, generator=generator) + 1) / 2
        for unit in units(x):
            around = values_around(func, inputs, x, way * unit, eps)
            if any((a != b).any() for (a, _), (b, _) in around):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def check_zero_gradients(outputs: list[Tensor], inputs: tuple) -> None:
    """Backward multiplies by the gradient it is given: zero gives zero, in the input's dtype and shape."""
    sources = checked(inputs)
    zeros = [torch.zeros(o.shape, dtype=o.dtype) for o in outputs]
    found = grad(outputs, sources, zeros, retain_graph=True, allow_unused=True)
    for x, gx in zip(sources, found, strict=True):
        if gx is None:
            continue
        if not (gx == 0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        for what in ("dtype", "device", "shape"):
            if getattr(gx, what) != getattr(x, what):
                named = {"dtype": "type", "shape": "size"}.get(what, what)
                raise GradcheckError(f"grad is incorrect {named}")


class UndefinedGrad(Function):
    """The identity, whose backward gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def check_undefined(func: Callable, inputs: tuple) -> None:
    """Backward must work without gradients of all outputs, and of each one."""
    sources = checked(inputs)

    def check(missing: set[int] | None) -> int:
        outputs = [o for o in outputs_of(func, inputs) if o.requires_grad]
        given = [
            UndefinedGrad.apply(o) if missing is None or k in missing else o
            for k, o in enumerate(outputs)
        ]
        try:
            zeros = [torch.zeros(o.shape, dtype=o.dtype) for o in outputs]
            found = grad(given, sources, zeros, allow_unused=True)
        except RuntimeError as e:
            warnings.warn(
                "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but "
                "it may break existing callers of this function. If this is true for you, you can call this function "
                "with `check_undefined_grad=False` to disable the feature",
                UserWarning,
                stacklevel=4,
            )
            raise GradcheckError(
                f"Expected backward function to handle undefined output grads. It raised: {e}"
            ) from e
        if any(gx is not None and not (gx == 0).all() for gx in found):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or "
                "zero."
            )
        return len(outputs)

    n = check(None)
    if n > 1:
        for k in range(n):
            check({k})


def check_batched(outputs: list[Tensor], inputs: tuple) -> None:
    """`vmap` of a backward gives what single backwards give."""
    sources = checked(inputs)
    for o, output in enumerate(outputs):

        def backward(g: Tensor, output: Tensor = output) -> tuple[Tensor, ...]:
            found = grad(output, sources, g, retain_graph=True, allow_unused=True)
            return tuple(
                torch.zeros_like(x) if gx is None else gx
                for x, gx in zip(sources, found, strict=True)
            )

        compare_batched(backward, [torch.randn_like(output) for _ in range(2)], o)


def check_batched_forward(func: Callable, inputs: tuple) -> None:
    """`vmap` of forward mode gives what single calls give."""
    for at, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            drawn = [torch.randn_like(x) for _ in range(2)]
            compare_batched(lambda t, at=at: tuple(tangents(func, inputs, at, t)), drawn, None)


def compare_batched(function: Callable, given: list[Tensor], output: int | None) -> None:
    expected = [torch.stack(each) for each in zip(*map(function, given), strict=True)]
    try:
        result = torch.vmap(function, randomness="same")(torch.stack(given))
    except RuntimeError as e:
        raise GradcheckError(f"While computing batched gradients, got: {e}") from e
    for i, (found, wanted) in enumerate(zip(result, expected, strict=True)):
        if not torch.allclose(found, wanted):
            raise GradcheckError(
                f"For output {i if output is None else output} and input {i}:\n\ngradcheck or "
                "gradgradcheck failed while testing batched gradient computation.\n\n"
                f"Got:\n{found}\n\nExpected:\n{wanted}"
            )


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
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    for name, asked in (
        ("check_undefined_grad", check_undefined_grad),
        ("check_batched_grad", check_batched_grad),
    ):
        if asked and not check_rev_over_rev:
            raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")
    inputs = as_tuple(inputs)
    if grad_outputs is None:
        grad_outputs = [
            torch.testing.make_tensor(
                o.shape, dtype=o.dtype, device=o.device, low=-1, high=1, requires_grad=True,
                noncontiguous=gen_non_contig_grad_outputs,
            )
            for o in outputs_of(func, inputs)
            if o.requires_grad
        ]  # fmt: skip
    everything = (*inputs, *as_tuple(grad_outputs))
    n = len(inputs)
    sources = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    needed = [i for i, x in enumerate(everything) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args: Any) -> tuple:
        for i in needed:  # forward mode hands in tensors without history
            args[i].requires_grad_()
        outputs = [o for o in outputs_of(func, args[:n]) if o.requires_grad]
        found = grad(
            outputs, [args[i] for i in sources], args[n:], create_graph=True, allow_unused=True
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, everything, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, masked=masked,
    )  # fmt: skip
