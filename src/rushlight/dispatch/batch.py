"""Batches: the arrays of `vmap`, and how operators run on them.

A `Batch` holds a tensor whose dimension 0 is the mapped one. To the function that `vmap` maps it has the shape of one
element. An operator has a batching rule: it takes the tensors inside, batches in front, and gives results with
a batch in front. Elementwise operators share one; others stand in `RULES` (func/rules/). What has none runs
once for each element, with a warning.

Note [Batching rules]
    A rule is called as `rule(b)` with a `Batched` call: `b.named` holds the arguments by name, tensors without their
    level; `b.has` the names of those with a batch in front; `b.size` its size. It returns a tensor with the batch
    in front, or a sequence of them for an operator with several outputs. Where no argument has a batch (all were
    lifted from outside, or lie under a gradient that is taken inside), the operator itself is called.
"""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight._backends import devices
from rushlight.autograd.state import thread
from rushlight.core import dtypes, settings
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import general
from rushlight.dispatch.overrides import NOTHING
from rushlight.dispatch.record import gradient
from rushlight.dispatch.transforms import (
    Level,
    Lifted,
    lifted,
    mapped,
    tensor,
    tensors_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op, Rule

RULES: dict[str, Callable[[Batched], Any]] = {}  # path of an operator -> its batching rule


warnings_on = True  # of operators without a batching rule
fallback_on = True  # whether these run in a loop


class Batch(Lifted):
    """A tensor with a mapped dimension in front, or with none (`has` is False): a tensor from outside.

    `given`: the tensor as `vmap` was given it, and its mapped dimension, where that is another one.
    """

    __slots__ = ("given", "has", "value")
    transform, passive = "vmap", "vmapped"
    holds_graphs = True

    def __init__(self, value: Tensor, level: Level, has: bool = True) -> None:
        self.value, self.level, self.has = value, level, has
        self.dtype = value._array.dtype
        self.given: tuple[Tensor, int] | None = None
        if value._edge is not None and value.requires_grad:
            level.history = True

    @property
    def below(self) -> Any:
        return self.value._array

    @property
    def original(self) -> tuple[Tensor, int | None]:
        """The tensor as `vmap` was given it, and its mapped dimension."""
        return self.given or (self.value, 0 if self.has else None)

    @property
    def shape(self) -> tuple[int, ...]:
        s = self.value._array.shape
        return s[1:] if self.has else s

    @property
    def strides(self) -> tuple[int, ...]:
        s = self.value._array.strides
        return s[1:] if self.has else s

    def to_numpy(self) -> np.ndarray:
        if self.has:  # the parameters of random numbers; what reads others has a rule
            if self.level.randomness == "error":
                random_in_error_mode()
            self.refuse("what reads the values of a tensor")
        a = self.value._array
        return devices.of(a).to_numpy(a)

    def at_level(self, a: Any) -> Any:
        v = self.value._array
        a = v.at_level(a) if isinstance(v, Lifted) else a
        if not self.has or not self.level.alive:
            return a
        return Batch(repeated(tensor(a), v.shape[0]), self.level)

    def make(self, function: Callable, args: tuple, kwargs: dict) -> Tensor:
        made = function(*mapped(args, lambda t: unwrapped(t, self.level)), **kwargs)
        if not self.has or not self.level.alive:
            return made
        if not function.__name__.endswith("_like"):
            made = repeated(made, self.value.shape[0])
        return tensor(Batch(made, self.level))

    def detached(self) -> Batch:
        return Batch(self.value.detach(), self.level, self.has)

    def copy(self, order: str = "K") -> Batch:
        return Batch(self.value.detach().clone(), self.level, self.has)

    def copy_from(self, b: Any) -> None:
        """Write `b`, a lifted array or a number, into the tensor inside."""
        if not isinstance(b, Lifted):
            self.value.fill_(b.item() if isinstance(b, np.ndarray) else b)
            return
        if b.has and not self.has:
            raise unmapped_write("inplace arithmetic")
        value = b.value
        if self.has and not b.has and self.ndim == b.ndim:
            value = value.unsqueeze(0)
        elif self.has and b.has:
            value = in_front(value, self.ndim)
        self.value.copy_(value)

    def overwrite(self, write: Callable, label: str, given: tuple) -> None:
        """`write(tensor)`, which is `label(*given)`, on the tensor inside, or on that of each element."""
        if label == "fill_diagonal_" and self.has:
            for k in range(self.value._array.shape[0]):
                write(self.value.select(0, k))
        else:
            write(self.value)

    def refuse_update(self) -> None:
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in "
            "place, were not batched. Set track_running_stats to False, pass the statistics as mapped arguments, or use "
            "torch.func.replace_all_batch_norm_modules_"
        )

    def equal(self, a: Tensor, b: Tensor) -> NoReturn:
        raise RuntimeError(
            "Batching rule not implemented for aten::equal. We could not generate a fallback: each element has its own "
            "truth value"
        )

    def truth(self) -> NoReturn:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support that: each element could take another way. torch.where() chooses for each element"
        )

    def item(self) -> NoReturn:
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations. If it stands in the condition "
            "of an `if` or a `while`: torch.where() chooses for each element"
        )

    def describe(self, show: Callable) -> str:
        """How a tensor of this array is printed; `show` prints a tensor."""
        value, dim = self.original
        inner = indent(show(value), " " * 4)
        bdim = "" if dim is None else f"bdim={dim}, "
        return f"BatchedTensor(lvl={self.level.depth}, {bdim}value=\n{inner}\n)"

    @classmethod
    def lift(cls, t: Tensor, level: Level) -> Tensor:
        return tensor(Batch(t, level, False))

    @classmethod
    def interpret(cls, call: Call, level: Level) -> Any:
        """A call with a batch of this level, the highest, among its arguments."""
        op = call.op
        if call.out is not None:
            raise RuntimeError(
                f"Batching rule not implemented for aten::{op.name}.out; the fallback path doesn't work on out= or "
                "view ops. Use the form without out="
            )
        if call.kind == "composite" and (op.path not in RULES or recorded(call.values)):
            return NOTHING
        if call.kind == "composite":
            result = Batched(op, dict(zip(op.params, call.values, strict=True)), level).run()
            return tensor(result) if isinstance(result, Batch) else tuple(map(tensor, result))
        if call.kind == "call":
            if op.elementwise and (found := aligned(op, call.values, level)) is not NOTHING:
                return found
            named = general.named_values(op, call.values)
            if op.variant is not None and (other := op.taken_over(named)) is not None:
                op, named = other, {p: named[p] for p in other.params}
            if op.lists:
                general.input_tensors(op, named)
            return Batched(op, named, level).result()
        if not any_mapped(call.values[0]):
            for v in call.values[1:]:
                cls.refuse_write(op.name + "_", v)
        call.run(op, [mapped(v, lambda t: lifted(t, level)) for v in call.values], None)
        return call.values[0]

    @classmethod
    def refuse_write(cls, name: str, v: Any) -> None:
        """RuntimeError where `v`, which would be written into a tensor from outside, has a batch."""
        if any_mapped(v):
            raise unmapped_write("inplace arithmetic" if name == "copy_" else f"aten::{name}")

    def forward(self, op: Op, named: dict[str, Any], keep: bool) -> Any:
        return Batched(op, named, self.level).forward(keep)

    def by_rule(self, op: Op, rule: Rule, env: dict[str, Any]) -> Any:
        """The rule of an elementwise operator for the tensors inside, where all have one dtype."""
        given = {n: env[n] for n in rule.reads if n in env}
        tensors = [v for v in given.values() if isinstance(v, Tensor)]
        if (
            not op.elementwise
            or op.outputs is not None
            or len({t._array.dtype for t in tensors}) > 1
            or any(v.__class__ in (tuple, list, dtypes.dtype) for v in given.values())
        ):
            return NotImplemented
        ndim = max(len(t._array.shape) for t in tensors)
        inner = {}
        for n, v in given.items():
            a = v._array if isinstance(v, Tensor) else None
            if a.__class__ is Batch and a.level is self.level:
                v = in_front(a.value, ndim) if a.has else a.value
            inner[n] = v
        values = [v for v in inner.values() if isinstance(v, Tensor)]
        recorded = any(v._edge is not None for v in values)
        if recorded or len({v._array.shape for v in values}) > 1:
            found = rule.function(**{n: inner[n] for n in rule.names})
        else:
            found = gradient(op, rule, inner, False)
        shape, wanted = found._array.shape, env["g"]._array.shape
        has = len(shape) > len(wanted)  # not of what the rule only looks at the shape of
        if shape[has:] != wanted:
            return NotImplemented
        return tensor(Batch(found, self.level, has))


def aligned(op: Op, values: list, level: Level) -> Any:
    """An elementwise call that runs on the tensors inside as it is: their batches stand in one place already.

    NOTHING where they do not, and where the call is recorded at this level.
    """
    if op.outputs is not None or op.intermediates:
        return NOTHING
    if op.view or thread.inference or op.path in RULES:
        return NOTHING
    inner: list[Any] = []
    ndims: list[int] = []  # of tensors with a batch, and, below zero, of those without
    for v in values:
        if isinstance(v, Tensor):
            a = v._array
            if a.__class__ is Batch and a.level is level:
                if v._edge is not None:
                    return NOTHING
                v = a.value
                n = len(v._array.shape)
                ndims.append(n if a.has else -n)
            else:
                ndims.append(-len(a.shape))
        elif v.__class__ is list or v.__class__ is tuple:
            return NOTHING
        inner.append(v)
    if len(ndims) > 1:  # (a number of each element promotes as one)
        n = max(ndims)
        if n < 2:
            return NOTHING
        for k in ndims:
            if k != n and not -n < k <= 0:
                return NOTHING
    n = op.n_positional
    if n == len(inner):
        r = op.function(*inner)
    else:
        r = op.function(*inner[:n], **dict(zip(op.params[n:], inner[n:], strict=True)))
    if r._edge is not None and r._array.dtype.kind in "bui":
        r = r.detach()  # no gradient goes through integers
    return tensor(Batch(r, level, max(ndims) > 0))


def recorded(values: Any) -> bool:
    """Whether a call is recorded: then operators are called one by one, whose gradients are known."""
    return thread.grad and any(t._edge is not None for t in tensors_in(values))


def batched(t: Tensor, dim: int | None, level: Level) -> Tensor:
    """A tensor of this level whose mapped dimension is `dim`; None: it has none."""
    if not dim:
        return tensor(Batch(t, level, dim is not None))
    a = Batch(t.movedim(dim, 0), level)
    a.given = t, dim % t.dim()
    return tensor(a)


def repeated(t: Tensor, n: int) -> Tensor:
    """`n` copies of a tensor, one behind the other in memory, each with its strides."""
    if t.is_contiguous() and t.numel():
        return t.expand(n, *t.shape).clone()
    shape, strides = t.shape, t.stride()
    reach = 0 if 0 in shape else 1 + sum(s * (k - 1) for s, k in zip(strides, shape, strict=True))
    memory = t.as_strided((reach,), (1,)).expand(n, reach).clone()
    return tensor(memory.as_strided((n, *shape), (reach, *strides))._array)


def in_front(value: Tensor, ndim: int) -> Tensor:
    """A tensor with a batch in front of `ndim` dimensions: ones stand between where it has fewer."""
    shape = value._array.shape
    have = len(shape) - 1
    if have == ndim:
        return value
    return value.reshape((shape[0], *(1,) * (ndim - have), *shape[1:]))


def unwrapped(t: Tensor, level: Level) -> Tensor:
    """What is inside of a tensor of this level."""
    a = t._array
    return a.value if a.__class__ is Batch and a.level is level else t


class Batched:
    """A call of an operator on batches; see Note [Batching rules]."""

    __slots__ = ("given", "has", "history", "level", "named", "op", "size")

    def __init__(self, op: Op, named: dict[str, Any], level: Level) -> None:
        self.op, self.level, self.given = op, level, named
        self.named: dict[str, Any] = {}
        self.has: set[str] = set()
        self.size = -1
        self.history = False  # whether a tensor of this level has one
        for name, v in named.items():
            if isinstance(v, Tensor):
                v = self.taken(v, name)
            elif v.__class__ in (list, tuple):
                v = mapped(v, lambda t, name=name: self.taken(t, name))
            self.named[name] = v

    def taken(self, t: Tensor, name: str) -> Tensor:
        """What is inside of the argument `name`, or of a tensor of that list."""
        a = t._array
        if a.__class__ is not Batch or a.level is not self.level:
            return t
        if t._edge is not None:
            self.history = True
        if a.has:
            self.has.add(name)
            self.size = a.value._array.shape[0]
        return a.value

    @property
    def outer(self) -> dict[str, Any]:
        """The arguments, all tensors at this level."""
        return {n: mapped(v, lambda t: lifted(t, self.level)) for n, v in self.given.items()}

    def ndim(self, name: str) -> int:
        """The dimensions that the function sees."""
        return len(self.named[name]._array.shape) - (name in self.has)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape that the function sees."""
        s = self.named[name]._array.shape
        return s[1:] if name in self.has else s

    def call(self, op: Any = None, **changed: Any) -> Any:
        """The result of the operator, or of another, for the arguments with some of them changed."""
        op = self.op if op is None else getattr(op, "op", op)
        return op.by_names(self.named | changed if changed else self.named)

    def result(self) -> Any:
        """What the call returns: tensors of this level, recorded where one of its arguments has a history."""
        op = self.op
        recording = self.history and op.differentiable and thread.grad
        alone = op.outputs is None and not (op.view or op.intermediates)
        if alone and not (recording or thread.inference):
            return tensor(self.run())
        named = self.outer if recording or op.view else self.named
        if recording and op.view and named[op.inputs[0]]._counter is INFERENCE:
            recording = False
        return general.finished(op, *general.as_tensors(op, named, self.forward()), recording)

    def forward(self, keep: bool = False) -> Any:
        """The results and the intermediates of the operator: lifted arrays, None for what no rule asks for.

        `keep`: whether intermediates will be read, by a graph of another level.
        """
        op, results = self.op, self.run()
        n = len(op.intermediates)
        if not n or (results.__class__ is list and len(results) > 1 and op.outputs is None):
            return results
        kept: Any = (None,) * n  # most rules do without them
        if (keep or self.history) and not self.has:  # recorded as it is, without a batch
            found = general.forward(op, self.named, keep=True)[-n:]
            kept = [None if a is None else Batch(tensor(a), self.level, False) for a in found]
        return [*(results if op.outputs is not None else (results,)), *kept]

    def run(self) -> Any:
        """The results: lifted arrays."""
        if not self.has:
            return self.wrapped(self.call(), False)
        rule = RULES.get(self.op.path)
        if rule is None:
            rule = elementwise if self.op.elementwise else loop
        return self.wrapped(rule(self), True)

    def wrapped(self, result: Any, has: bool) -> Any:
        if isinstance(result, Tensor):
            if result._edge is not None and result._array.dtype.kind in "bui":
                result = result.detach()  # no gradient goes through integers
            return Batch(result, self.level, has)
        return [None if r is None else Batch(r, self.level, has) for r in result]

    def expanded(self, name: str) -> Tensor:
        """The argument with a batch in front: one that has none is repeated, without a copy."""
        t = self.named[name]
        return t if name in self.has else t.unsqueeze(0).expand(self.size, *t.shape)

    def batch_first_value(self, name: str, ndim: int) -> Tensor:
        """The argument with `ndim` dimensions behind the batch, or with none in front where it has no batch."""
        t = self.named[name]
        return in_front(t, ndim) if name in self.has else t


# -- rules of many operators -----------------------------------------------------------------------


def elementwise(b: Batched) -> Any:
    """Batches in front of all dimensions, so that broadcasting goes on behind them."""
    op, named = b.op, b.named
    tensors = {i: t for i in op.inputs if isinstance(t := named[i], Tensor)}
    if len(tensors) == 1:
        return b.call()
    ndims = {i: b.ndim(i) for i in tensors}
    ndim = max(ndims.values())
    changed = {i: in_front(named[i], ndim) for i, n in ndims.items() if n != ndim and i in b.has}
    if (
        op.promote is not None
        and not all(ndims[i] for i in b.has)
        and len({t._array.dtype for t in tensors.values()}) > 1
    ):
        # A number of each element has a dimension now: what it gives way to is settled before.
        outer = b.outer
        arrays = {i: outer[i]._array if i in ndims else outer[i] for i in op.inputs}
        d = general.common_dtype({i: a for i, a in arrays.items() if a is not None})
        for i in ndims:
            t = changed.get(i, named[i])
            changed[i] = t if t.dtype is d else t.to(d)
    return b.call(**changed)


def loop(b: Batched) -> Any:
    """The operator called once for each element, the results stacked."""
    if not fallback_on:
        raise RuntimeError(
            f"aten::{b.op.name} hit the vmap fallback which is currently disabled: it has no batching rule"
        )
    if warnings_on:
        settings.warn(
            "There is a performance drop because we have not yet implemented the batching rule for "
            f"aten::{b.op.name}. It runs once for each element of the batch."
        )
    import rushlight

    results, outer = [], b.outer
    for k in range(b.size):
        values = {n: mapped(v, lambda t, k=k: t._array.value.select(0, k) if t._array.has else t._array.value)
                  for n, v in outer.items()}  # fmt: skip
        results.append(b.op.by_names(values))
    if isinstance(results[0], Tensor):
        return rushlight.stack(results)
    return [rushlight.stack(list(each)) for each in zip(*results, strict=True)]


def random_in_error_mode() -> NoReturn:
    raise RuntimeError(
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
        "randomness flags on vmap or perform the randomness operation out of vmap"
    )


# -- writes ----------------------------------------------------------------------------------------


def any_mapped(v: Any) -> bool:
    if isinstance(v, Tensor):
        return isinstance(v._array, Batch) and v._array.has
    return v.__class__ in (list, tuple) and any(map(any_mapped, v))


def unmapped_write(name: str) -> RuntimeError:
    return RuntimeError(
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
        f"more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in "
        f"a vmap. Please try to use out-of-place operators instead of {name}."
    )
