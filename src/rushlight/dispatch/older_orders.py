"""Orders of arguments that older versions of PyTorch had, which are taken with a warning: numbers before tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import settings
from rushlight.core.tensor import Tensor
from rushlight.dispatch.record import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.dispatch.registry import Op

# Their last parameter was once their second: `p.add_(-lr, grad)`, `v.addcmul_(1 - beta, grad, grad)`.
NUMBER_SECOND = frozenset("add sub addcmul addcdiv".split())

# Their factors once stood before the tensors: `torch.addmm(beta, x, alpha, a, b)`, `x.addmm_(beta, a, b)`.
FACTORS_FIRST = frozenset("addmm addmv addr addbmm baddbmm".split())


def ordered(op: Op, values: list) -> list:
    """The values of all parameters, where the call had them in PyTorch's older order too."""
    if (
        op.name in NUMBER_SECOND
        and isinstance(values[-1], Tensor)
        and isinstance(values[1], NUMBERS)
    ):
        warn_of_older_order(op, op.name, f"Tensor input, Number {op.params[-1]}", op.params[1:-1])
        return [values[0], *values[2:], values[1]]
    return values


def factors_last(op: Op, name: str, *values: Any) -> list:
    """The values of all parameters of a call that has more by position than there are tensors."""
    tensors, factors = [], []
    for k, v in enumerate(values):
        if isinstance(v, NUMBERS) and k < 3:
            factors.append(v)
        else:
            tensors.append(v)
    if len(tensors) != 3 or len(factors) > 2:
        given = ", ".join(type(v).__name__ for v in values)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({given}), but expected "
            f"(Tensor {', Tensor '.join(op.params[:3])}, *, Number beta = 1, Number alpha = 1)"
        )
    first = (
        "Tensor input, Number beta"
        if isinstance(values[0], Tensor)
        else "Number beta, Tensor input"
    )
    warn_of_older_order(op, name, first + ", Number alpha" * (len(factors) - 1), op.params[1:3])
    return [*tensors, *factors, *[op.defaults["alpha"]][: 2 - len(factors)]]


def warn_of_older_order(op: Op, name: str, first: str, last: Sequence[str]) -> None:
    """The warning of a call whose numbers stand where older versions of PyTorch had them, at the line of the call."""
    rest = ", ".join(f"Tensor {p}" for p in last)
    numbers = ", ".join(f"Number {p} = 1" for p in op.params[1 + len(last) :])
    settings.warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({first}, {rest}, *, Tensor out = None)\n"
        f"Consider using one of the following signatures instead:\n\t"
        f"{name}(Tensor input, {rest}, *, {numbers}, Tensor out = None)"
    )
