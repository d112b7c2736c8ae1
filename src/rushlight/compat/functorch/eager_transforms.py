"""`torch._functorch.eager_transforms`, a private module that programs import from."""

from __future__ import annotations

from typing import Any

from rushlight.func import (
    _numbers,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)

__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]  # fmt: skip


def _as_tuple(value: Any) -> Any:
    """A result as a tuple of results."""
    return (
        tuple(value) if isinstance(value, list) else value if isinstance(value, tuple) else (value,)
    )


def _slice_argnums(args: tuple, argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` names; one alone without `as_tuple`."""
    chosen = tuple([args[n] for n in _numbers(args, argnums, "argnums")])
    return chosen if as_tuple or not isinstance(argnums, int) else chosen[0]
