"""Jacobians, Hessians and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.engine import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dual import apart
from rushlight.dispatch.transforms import at_innermost


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


INDEPENDENT = "The output of the user-provided function is independent of input {}."


def _strict(ok: bool, text: str) -> None:
    if not ok:
        raise RuntimeError(text + " This is not allowed in strict mode.")


def _gradients(
    outputs: tuple, inputs: tuple, vs: tuple | None, create_graph: bool, strict: str = ""
) -> tuple:
    """The gradients by the inputs, None where there is none. `strict`: the error for that, with the input's number."""
    pairs = [
        (o, None if vs is None else v)
        for o, v in zip(outputs, vs or outputs, strict=True)
        if o.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    got = grad(
        [o for o, _ in pairs], inputs, None if vs is None else [v for _, v in pairs],
        retain_graph=True, create_graph=create_graph, allow_unused=True,
    )  # fmt: skip
    for i, g in enumerate(got):
        _strict(not strict or g is not None, strict.format(i))
    return got


def _differentiable(outputs: tuple, strict: bool) -> None:
    for i, out in enumerate(outputs):
        _strict(
            not strict or out.requires_grad,
            f"Output {i} of the user-provided function does not require gradients. The outputs must be computed "
            "in a differentiable manner from the input when running in strict mode.",
        )


def _depending(gs: tuple, strict: bool, second: bool = False) -> None:
    """RuntimeError, in strict mode, for a gradient that does not depend on the inputs."""
    for i, g in enumerate(gs):
        about = (
            f" with respect to input {i} is independent of the inputs."
            if second
            else (f" is independent of input {i}.")
        )
        _strict(not strict or g.requires_grad, f"The jacobian of the user-provided function{about}")


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
            _same_shapes(vs, outputs, out_several)
        _differentiable(outputs, strict)
        gs = _zeros_for(_gradients(outputs, xs, vs, create_graph, INDEPENDENT * strict), xs)
        _depending(gs, strict and create_graph)
    out = _finished(outputs if out_several else outputs[0], create_graph)
    return out, _finished(gs if several else gs[0], create_graph)


def _same_shapes(vs: tuple, like: tuple, several: bool) -> None:
    """RuntimeError unless the vectors `vs` have the shapes of the tensors `like`."""
    if len(vs) != len(like):
        if not several:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}."
        )
    for i, (v, x) in enumerate(zip(vs, like, strict=True)):
        if v.shape != x.shape:
            raise RuntimeError(
                f"Entry {i} in " * several
                + f"v has invalid size: should be {x.size()} but got {v.size()}."
            )


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), its Jacobian times v), by two backwards. `v` has the shape of the inputs."""
    with enable_grad():
        several, xs = _tuple(inputs, "inputs", "jvp")
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
            _same_shapes(vs, xs, several)
        out_several, outputs = _tuple(func(*xs), "outputs of the user-provided function", "jvp")
        _differentiable(outputs, strict)
        us = tuple(o.new_zeros(o.shape).requires_grad_() for o in outputs)
        gs = _zeros_for(_gradients(outputs, xs, us, True, INDEPENDENT * strict), xs)
        rows = _zeros_for(_gradients(gs, us, vs, create_graph), outputs)
        _depending(rows, strict and create_graph)
    out = _finished(outputs if out_several else outputs[0], create_graph)
    return out, _finished(rows if out_several else rows[0], create_graph)


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

    _not_both(strict, vectorize, "jacobian")
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
                "`vectorize=True`."
            )
        several, xs = _tuple(inputs, "inputs", "jacobian")
        columns = rushlight.func.jacfwd(func, tuple(range(len(xs))) if several else 0)(*xs)
        return _finished(columns, False)
    with enable_grad():
        several, xs = _tuple(inputs, "inputs", "jacobian")
        xs = _prepared(xs, create_graph)
        out_several, outputs = _tuple(
            func(*xs), "outputs of the user-provided function", "jacobian"
        )
        _differentiable(outputs, strict)
        rows_of = _all_rows(outputs, xs, create_graph) if vectorize else []
        for k, out in enumerate(() if vectorize else outputs):
            independent = f"Output {k} of the user-provided function is independent of input {{}}."
            columns: list[list] = [[] for _ in xs]
            for j in range(out.numel()):
                gs = _gradients((out.reshape(-1)[j],), xs, None, create_graph, independent * strict)
                gs = _zeros_for(gs, xs)
                _depending(gs, strict and create_graph)
                for column, g in zip(columns, gs, strict=True):
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


def basis(tensors: list[Tensor]) -> list[Tensor]:
    """Unit vectors of all elements of the tensors together: for each tensor [elements of all, *its shape]."""
    import rushlight

    total = sum(t.numel() for t in tensors)
    if len(tensors) == 1:
        (t,) = tensors
        return [rushlight.eye(total, dtype=t.dtype, device=t.device).reshape((total, *t.shape))]
    made, at = [], 0
    for t in tensors:
        n = t.numel()
        rows = rushlight.zeros((total, n), dtype=t.dtype, device=t.device)
        rows[at : at + n].fill_diagonal_(1)
        made.append(rows.reshape((total, *t.shape)))
        at += n
    return made


def _all_rows(outputs: tuple, xs: tuple, create_graph: bool) -> list[tuple]:
    """The Jacobian of each output by each input, by one backward for all elements of the outputs."""
    pairs = [(o, v) for o, v in zip(outputs, basis(list(outputs)), strict=True) if o.requires_grad]
    rows: Any = [None] * len(xs)
    if pairs:
        rows = grad(
            [o for o, _ in pairs], xs, [v for _, v in pairs], create_graph=create_graph,
            allow_unused=True, is_grads_batched=True,
        )  # fmt: skip
    found, at = [], 0
    for out in outputs:
        n = out.numel()
        found.append(
            tuple(
                x.new_zeros((*out.shape, *x.shape))
                if g is None
                else g.narrow(0, at, n).reshape((*out.shape, *x.shape))
                for g, x in zip(rows, xs, strict=True)
            )
        )
        at += n
    return found


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
    _not_both(strict, vectorize, "hessian")

    def gradient(*xs: Tensor) -> Any:
        xs = tuple(
            x if x.requires_grad else apart(at_innermost(x))._set_requires_grad(True) for x in xs
        )
        out = func(*xs)
        _scalar(out, "hessian", strict)
        gs = _zeros_for(_gradients((out.reshape(()),), xs, None, True), xs)
        _depending(gs, strict, second=True)
        return gs if several else gs[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _not_both(strict: bool, vectorize: bool, of: str) -> None:
    if strict and vectorize:
        raise RuntimeError(
            f"torch.autograd.functional.{of}: `strict=True` and `vectorize=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )


def _scalar(out: Any, of: str, strict: bool) -> None:
    several, outputs = _tuple(out, "outputs of the user-provided function", of)
    if several:
        raise RuntimeError(f"The function given to {of} should return a single Tensor")
    if out.numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {of} should contain a single element, it has "
            f"shape {tuple(out.shape)}"
        )
    _differentiable(outputs, strict)


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), v times its Hessian)."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(func(inputs), its Hessian times v): the Hessian is symmetric, so this is `vhp`."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(
    of: str, func: Callable, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple:
    """(the value of `func`, the product of its Hessian and `v`) by a gradient of a gradient; `of` names the public
    function."""
    with enable_grad():
        several, xs = _tuple(inputs, "inputs", of)
        xs = _prepared(xs, create_graph)
        vs = (xs[0].new_ones(xs[0].shape),) if v is None else _tuple(v, "v", of)[1]
        _same_shapes(vs, xs, several)
        out = func(*xs)
        _scalar(out, of, strict)
        gs = _gradients((out.reshape(()),), xs, None, True, INDEPENDENT * strict)
        gs = _zeros_for(gs, xs)
        _depending(gs, strict, second=True)
        rows = _zeros_for(_gradients(gs, xs, vs, create_graph), xs)
    return _finished(out, create_graph), _finished(rows if several else rows[0], create_graph)


def grad_batched(
    outputs: tuple, inputs: tuple, given: tuple, keep: bool, create: bool, unused: bool, zeros: bool
) -> tuple:
    """One backward for all rows of the batched gradients."""
    import rushlight

    present = [k for k, g in enumerate(given) if g is not None]
    for k in present:
        if given[k].shape[1:] != outputs[k].shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{k}] has a shape of {given[k].shape} and "
                f"output[{k}] has a shape of {outputs[k].shape}."
            )
    sizes = {g.shape[0] for g in given if g is not None}
    if len(sizes) != 1:
        raise RuntimeError(f"is_grads_batched: the batch sizes of grad_outputs differ: {sizes}")

    reached: dict[int, None] = {}  # the numbers of the inputs that have gradients

    def backward(*rows: Tensor) -> tuple:
        row = dict(zip(present, rows, strict=True))
        each = tuple(row.get(k) for k in range(len(given)))
        found = grad(
            outputs, inputs, each, retain_graph=keep, create_graph=create, allow_unused=unused,
            materialize_grads=zeros,
        )  # fmt: skip
        reached.update((k, None) for k, g in enumerate(found) if g is not None)
        return tuple(found[k] for k in reached)

    rest = iter(rushlight.vmap(backward)(*[given[k] for k in present]))
    return tuple(next(rest) if k in reached else None for k in range(len(inputs)))
