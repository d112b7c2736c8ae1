"""Random numbers inside of `vmap`: the same for all elements of the batch, or different ones.

A function mode sees the public functions that draw. Different numbers are drawn in one call with the batch in
front, so that a seed gives the numbers of such a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import rushlight as torch
from rushlight.autograd.state import count_mode, thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batch, in_front, unmapped_write
from rushlight.dispatch.transforms import Level, tensor
from rushlight.func.rules.rules import merged, unmerged
from rushlight.ops.nn.dropout import alpha_dropped


class Randomness:
    """A function mode: a block in which random numbers are drawn as the level of a `vmap` says."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.within: list[Callable] = []  # the functions that are being carried out

    def __enter__(self) -> None:
        thread.function_modes = (*thread.function_modes, self)
        count_mode(+1)

    def __exit__(self, *exc: object) -> None:
        thread.function_modes = thread.function_modes[:-1]
        count_mode(-1)

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        rule = DRAWING.get(getattr(func, "__name__", ""))
        if rule is None:
            inside = getattr(func, "__wrapped__", None)  # of what is written in other functions
            op = getattr(func, "op", None)
            if inside is None or func in self.within or op is not None and op.path in RULES:
                return func(*args, **kwargs)
            self.within.append(func)
            try:
                with self:
                    return inside(*args, **kwargs)
            finally:
                self.within.pop()
        return rule(self.level, func, args, kwargs)


def batch_in(t: Any, level: Level) -> Tensor | None:
    """The tensor inside of a batch of this level, or None."""
    a = t._array if isinstance(t, Tensor) else None
    return a.value if isinstance(a, Batch) and a.level is level and a.has else None


def plain(t: Any, level: Level) -> Any:
    """`t` without this level, where it has no batch."""
    a = t._array if isinstance(t, Tensor) else None
    return a.value if isinstance(a, Batch) and a.level is level else t


def factory(level: Level, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A function of a shape."""
    if level.randomness == "same":
        return func(*args, **kwargs)
    n = level.size
    if func.__name__ == "randperm":
        return tensor(Batch(torch.stack([func(*args, **kwargs) for _ in range(n)]), level))
    if "size" in kwargs:
        size = kwargs["size"]
        kwargs = kwargs | {"size": (n, *((size,) if isinstance(size, int) else size))}
    elif func.__name__ in ("rand", "randn"):
        size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        args = ((n, *size),)
    else:  # the shape is the last one
        args = (*args[:-1], (n, *args[-1]))
    return tensor(Batch(func(*args, **kwargs), level))


def batched_alike(level: Level, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A function of a tensor's shape."""
    x, rest = args[0] if args else kwargs.pop("input"), args[1:]
    value = batch_in(x, level)
    if level.randomness == "same":
        return func(plain(x, level) if value is None else value.select(0, 0), *rest, **kwargs)
    if value is None:
        x = plain(x, level)
        value = x.unsqueeze(0).expand(level.size, *x.shape)
    return tensor(Batch(func(value, *rest, **kwargs), level))


def in_place(level: Level, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A method that overwrites a tensor."""
    x = args[0]
    parameters = [a for a in (*args[1:], *kwargs.values()) if batch_in(a, level) is not None]
    if parameters and level.randomness == "same":
        same_of_parameters(func.__name__)
    if parameters:
        if batch_in(x, level) is None:
            raise unmapped_write(f"aten::{func.__name__}")

        def given(t: Any) -> Any:
            value = batch_in(t, level)
            return plain(t, level) if value is None else in_front(value, x.dim())

        func(*map(given, args), **{k: given(v) for k, v in kwargs.items()})
        return x
    if level.randomness == "different":
        if batch_in(x, level) is None:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like "
                f"same randomness. Use the out-of-place form of {func.__name__}, or randomness='same'"
            )
        return func(*args, **kwargs)
    if batch_in(x, level) is None:
        return func(*args, **kwargs)
    drawn = torch.empty(x.shape, dtype=x.dtype)
    func(drawn, *args[1:], **kwargs)
    return x.copy_(drawn)


def same_of_parameters(name: str) -> NoReturn:
    raise RuntimeError(
        f"Vmap does not currently support same randomness with a batched tensor input ({name})"
    )


def of_parameters(level: Level, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A function of tensors of parameters, such as probabilities."""
    size, name = level.size, func.__name__
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    if name == "normal" and not tensors:
        return factory(level, func, args, kwargs)
    has = [batch_in(t, level) is not None for t in tensors]
    if level.randomness == "same":
        if any(has):
            same_of_parameters(name)
        return func(
            *[plain(a, level) for a in args], **{k: plain(v, level) for k, v in kwargs.items()}
        )
    ndim = max(t.dim() for t in tensors)

    def given(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        value = batch_in(t, level)
        if value is None:
            t = plain(t, level)
            value = t.unsqueeze(0).expand(size, *t.shape)
        return in_front(value, ndim)

    args = tuple(map(given, args))
    kwargs = {k: given(v) for k, v in kwargs.items()}
    if name == "multinomial" and ndim == 2:
        got = unmerged(func(merged(args[0]), *args[1:], **kwargs), size)
    else:
        got = func(*args, **kwargs)
    return tensor(Batch(got, level))


def dropout(level: Level, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A dropout: one mask for all elements of the batch, or one for each."""
    x, rest = args[0] if args else kwargs["input"], args[1:]
    others = {k: v for k, v in kwargs.items() if k != "input"}
    value = batch_in(x, level)
    if level.randomness == "same":
        if value is None:
            return func(*args, **kwargs)
        inplace = others.pop("inplace", len(rest) > 2 and rest[2]) or func.__name__.endswith("_")
        one = torch.ones(x.shape, dtype=x.dtype)
        if "alpha" in func.__name__:
            named = {"train": others.get("training", False), **others}
            p, train = [*rest[:2], *[named.get(n, 0.5) for n in ("p", "train")[len(rest) :]]]
            dropped = alpha_dropped(x, p, train, "feature" in func.__name__, one)
            return x.copy_(dropped) if inplace else dropped
        kept = func(one, *rest[:2], **others)
        return x.mul_(kept) if inplace else x * kept
    if value is None:
        x = plain(x, level)
        value = x.unsqueeze(0).expand(level.size, *x.shape)
    if func.__name__ in ("dropout", "alpha_dropout", "dropout_", "alpha_dropout_"):
        return tensor(Batch(func(value, *rest, **others), level))
    return tensor(Batch(unmerged(func(merged(value), *rest, **others), level.size), level))


DRAWING: dict[str, Callable] = {
    **dict.fromkeys("rand randn randint randperm".split(), factory),
    **dict.fromkeys("rand_like randn_like randint_like".split(), batched_alike),
    **dict.fromkeys(
        "uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_".split(),
        in_place,
    ),
    **dict.fromkeys(
        "bernoulli multinomial poisson binomial normal _standard_gamma _sample_dirichlet".split(),
        of_parameters,
    ),
    **dict.fromkeys(
        "dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d".split(),
        dropout,
    ),
}
