"""Kullback-Leibler divergences, by pairs of types.

>>> import rushlight as torch
>>> from rushlight.distributions import Normal, kl_divergence
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Any] = {}
_found: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Any:
    """A decorator: the function gives KL(p || q) for these types and for subclasses of theirs."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fun: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = fun
        _found.clear()
        return fun

    return decorator


def _distance(kind: type, base: type) -> int:
    return kind.__mro__.index(base)


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function of the closest pair of base classes; None if there is none."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return None
    left = min(pairs, key=lambda m: (_distance(type_p, m[0]), _distance(type_q, m[1])))
    right = min(pairs, key=lambda m: (_distance(type_q, m[1]), _distance(type_p, m[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        names = [k.__name__ for k in (type_p, type_q, *left, *right)]
        warnings.warn(
            "Ambiguous kl_divergence({}, {}). Please register_kl({}, {})".format(
                *names[:2], names[2], names[5]
            ),
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of log p(x) - log q(x) over x from p, of shape `batch_shape`."""
    from rushlight.distributions import kl_mixed, kl_same  # noqa: F401  they register their pairs

    types = type(p), type(q)
    if types not in _found:
        _found[types] = _dispatch_kl(*types)
    fun = _found[types]
    if fun is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {types[0].__name__} and q type "
            f"{types[1].__name__}"
        )
    return fun(p, q)
