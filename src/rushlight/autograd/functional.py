"""Jacobians, Hessians and their products with vectors, of functions of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.engine import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def _tuple(x: Any, what: str, of: str) -> tuple[bool, tuple]:
    several = isinstance(x, (tuple, list))
    items = tuple(x) if several else (x,)
    for i, t in enumerate(items):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"The {what} given to {of} must be either a Tensor or a tuple of Tensors but the value at "
                f"index {i} has type {type(t)}."
            )
    return several, items


def _prepared(inputs: tuple, create_graph: bool) -> tuple:
    """The inputs as tensors that gradients can be asked of; part of the user's graph on demand."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in inputs
    )


def _finished(result: Any, create_graph: bool) -> Any:
    if isinstance(result, tuple):
        return tuple(_finished(r, create_graph) for r in result)
    return result if create_graph or not isinstance(result, Tensor) else result.detach()


def _gradients(
    outputs: tuple, inputs: tuple, vs: tuple | None, create_graph: bool, strict: bool, of: str
) -> tuple:
    pairs = [
        (o, None if vs is None else v)
        for o, v in zip(outputs, vs or outputs, strict=True)
        if o.requires_grad
    ]
    if not pairs:
        if strict:
            raise RuntimeError(
                f"The output of the user-provided function passed to {of} is independent of the inputs. "
                "This is not allowed in strict mode."
            )
        return (None,) * len(inputs)
    got = grad(
        [o for o, _ in pairs], inputs, None if vs is None else [v for _, v in pairs],
        retain_graph=True, create_graph=create_graph, allow_unused=True,
    )  # fmt: skip
    if strict and any(g is None for g in got):
        i = next(i for i, g in enumerate(got) if g is None)
        raise RuntimeError(
            f"The output of the user-provided function is independent of input {i}. This is not allowed "
            "in strict mode."
        )
    return got


def _zeros_for(gs: tuple, inputs: tuple) -> tuple:
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(gs, inputs, strict=True))


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), v times its Jacobian). `v` has the shape of the output."""
    with enable_grad():
        several, xs = _tuple(inputs, "inputs", "vjp")
        xs = _prepared(xs, create_graph)
        out_several, outputs = _tuple(func(*xs), "outputs of the user-provided function", "vjp")
        if v is None:
            if len(outputs) != 1 or outputs[0].numel() != 1:
                raise RuntimeError(
                    "The vector v can only be None if the user-provided function returns a single Tensor "
                    "with a single element."
                )
            vs = None
        else:
            vs = _tuple(v, "v", "vjp")[1]
            _same_shapes(vs, outputs, "v")
        gs = _zeros_for(_gradients(outputs, xs, vs, create_graph, strict, "vjp"), xs)
    out = _finished(outputs if out_several else outputs[0], create_graph)
    return out, _finished(gs if several else gs[0], create_graph)


def _same_shapes(vs: tuple, like: tuple, what: str) -> None:
    if len(vs) != len(like):
        raise RuntimeError(
            f"{what} is a tuple of invalid length: should be {len(like)} but got {len(vs)}."
        )
    for i, (v, x) in enumerate(zip(vs, like, strict=True)):
        if v.shape != x.shape:
            raise RuntimeError(
                f"Entry {i} in {what} has invalid size: should be {tuple(x.shape)} but got "
                f"{tuple(v.shape)}."
            )


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), its Jacobian times v), by two backwards. `v` has the shape of the inputs."""
    with enable_grad():
        _, xs = _tuple(inputs, "inputs", "jvp")
        xs = _prepared(xs, create_graph)
        if v is None:
            if len(xs) != 1 or xs[0].numel() != 1:
                raise RuntimeError(
                    "The vector v can only be None if the input to the user-provided function is a single "
                    "Tensor with a single element."
                )
            vs = (xs[0].new_ones(xs[0].shape),)
        else:
            vs = _tuple(v, "v", "jvp")[1]
            _same_shapes(vs, xs, "v")
        out_several, outputs = _tuple(func(*xs), "outputs of the user-provided function", "jvp")
        us = tuple(o.new_zeros(o.shape).requires_grad_() for o in outputs)
        gs = _zeros_for(_gradients(outputs, xs, us, True, strict, "jvp"), xs)
        rows = _gradients(gs, us, vs, create_graph, strict, "jvp")
        rows = _zeros_for(rows, outputs)
    out = _finished(outputs if out_several else outputs[0], create_graph)
    return out, _finished(rows if out_several else rows[0], create_graph)


declare(
    "emulated", "There is one backward pass for each element of the output.", "torch.autograd.functional",
    "jacobian(vectorize=) jacobian(strategy=) hessian(vectorize=) hessian(outer_jacobian_strategy=)",
)  # fmt: skip


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: shape (*output.shape, *input.shape) for each output and input.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    import rushlight

    with enable_grad():
        several, xs = _tuple(inputs, "inputs", "jacobian")
        xs = _prepared(xs, create_graph)
        out_several, outputs = _tuple(
            func(*xs), "outputs of the user-provided function", "jacobian"
        )
        rows_of = []
        for out in outputs:
            columns: list[list] = [[] for _ in xs]
            for j in range(out.numel()):
                gs = _gradients((out.reshape(-1)[j],), xs, None, create_graph, strict, "jacobian")
                for column, g in zip(columns, _zeros_for(gs, xs), strict=True):
                    column.append(g)
            rows_of.append(
                tuple(
                    rushlight.stack(column).view((*out.shape, *x.shape))
                    if column
                    else x.new_zeros((*out.shape, *x.shape))
                    for column, x in zip(columns, xs, strict=True)
                )
            )
    result = tuple(row if several else row[0] for row in rows_of)
    return _finished(result if out_several else result[0], create_graph)


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a function with one scalar output."""
    several, _ = _tuple(inputs, "inputs", "hessian")

    def gradient(*xs: Tensor) -> Any:
        out = func(*xs)
        _scalar(out, "hessian")
        gs = _zeros_for(_gradients((out.reshape(()),), xs, None, True, strict, "hessian"), xs)
        return gs if several else gs[0]

    return jacobian(gradient, inputs, create_graph, strict)


def _scalar(out: Any, of: str) -> None:
    if not isinstance(out, Tensor):
        raise RuntimeError(f"The function given to {of} should return a single Tensor")
    if out.numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {of} should contain a single element, it has "
            f"shape {tuple(out.shape)}"
        )


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), v times its Hessian)."""
    with enable_grad():
        several, xs = _tuple(inputs, "inputs", "vhp")
        xs = _prepared(xs, create_graph)
        vs = (xs[0].new_ones(xs[0].shape),) if v is None else _tuple(v, "v", "vhp")[1]
        _same_shapes(vs, xs, "v")
        out = func(*xs)
        _scalar(out, "vhp")
        gs = _zeros_for(_gradients((out.reshape(()),), xs, None, True, strict, "vhp"), xs)
        rows = _zeros_for(_gradients(gs, xs, vs, create_graph, strict, "vhp"), xs)
    return _finished(out, create_graph), _finished(rows if several else rows[0], create_graph)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), its Hessian times v): the Hessian is symmetric, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
