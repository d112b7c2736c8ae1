"""Duals: the arrays of forward mode, and the tangents of what operators compute.

A `Dual` holds an array and a tangent, a tensor of its shape. An operator runs on the arrays as always; then the
tangents of its results follow from those of its inputs.

Note [Tangents]
    The gradient rules say all that is needed:

    - An operator that is linear (`LINEAR` in tangent_rules.py) computes the tangent of its result from that of its
      input; one that is linear in each input (`PRODUCTS`) is called once for each tangent, and the results are added.
    - An elementwise operator multiplies: its rule gives the tangent where the tangent stands in for the gradient.
    - For any other, the gradient g -> Jᴴ g is a linear function of g, and the gradient of that is t -> J t. The
      operator is recorded by itself, and two backwards of one node give the tangent. Memory is that of one operator.

    What computes a tangent is recorded like everything else, on tensors with the edges of the duals: so a tangent
    has gradients, and a gradient of duals has tangents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu, devices, sparse
from rushlight._backends.sparse import Sparse
from rushlight.autograd.graph import new
from rushlight.autograd.state import count_mode, thread
from rushlight.autograd.views import View, edge_of
from rushlight.core import dtypes, printing
from rushlight.core.dtype_sets import COMPLEX
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import general, methods
from rushlight.dispatch.handlers import dispatches
from rushlight.dispatch.inplace import copy_for_rule, is_written_with
from rushlight.dispatch.overrides import NOTHING
from rushlight.dispatch.record import gradient
from rushlight.dispatch.tangent_rules import LINEAR, PRODUCTS, RULES, added
from rushlight.dispatch.transforms import (
    Level,
    Lifted,
    innermost,
    levels,
    lifted,
    mapped,
    recorded_inside,
    tensor,
    tensors_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op


class Dual(Lifted):
    """An array and its tangent, None for one that is zero."""

    __slots__ = ("plain", "tangent")
    transform = "forward mode"

    def __init__(self, plain: Any, tangent: Tensor | None, level: Level) -> None:
        self.plain, self.tangent, self.level, self.dtype = plain, tangent, level, plain.dtype

    @property
    def below(self) -> Any:
        return self.plain

    @property
    def value(self) -> Tensor:
        return tensor(self.plain)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.plain.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.plain.strides

    @property
    def has(self) -> bool:
        return self.tangent is not None

    def copy(self, order: str = "K") -> Dual:
        tangent = self.tangent
        return Dual(
            self.plain.copy(order), None if tangent is None else tangent.clone(), self.level
        )

    def to_numpy(self) -> np.ndarray:
        a = self.plain
        return a.to_numpy() if isinstance(a, Lifted) else devices.of(a).to_numpy(a)

    def make(self, function: Callable, args: tuple, kwargs: dict) -> Tensor:
        return function(*mapped(args, lambda t: tensor(bare_array(t._array, self.level))), **kwargs)

    def at_level(self, a: Any) -> Any:
        return self.plain.at_level(a) if isinstance(self.plain, Lifted) else a

    def detached(self) -> Any:
        """The array without a tangent."""
        a = self.plain
        return a.detached() if isinstance(a, Lifted) else a

    def own_tangent(self, written: Tensor | None = None) -> Tensor:
        """The tangent; zeros that may be written to where there was none, batched as `written` is."""
        if self.tangent is None:
            self.tangent = tensor(self.plain).new_zeros(self.shape)
            if written is not None and isinstance(written._array, Lifted):
                self.tangent = self.tangent + written.new_zeros(self.shape)
        elif 0 in self.tangent._array.strides:
            self.tangent = self.tangent.clone()
        return self.tangent

    def copy_from(self, b: Any) -> None:
        """Write `b` into the memory, and its tangent into the tangent's."""
        other = None
        if isinstance(b, Dual) and b.level is self.level:
            b, other = b.plain, b.tangent
        if other is not None:
            self.own_tangent(other).copy_(other)
        elif self.tangent is not None:
            self.own_tangent().zero_()
        tensor(self.plain).copy_(
            tensor(b) if isinstance(b, (np.ndarray, Lifted)) else tensor(cpu.number(b, self.dtype))
        )

    def overwrite(self, write: Callable, label: str, given: tuple) -> None:
        """`write(tensor)`, which is `label(*given)`, on what is inside: with what has no tangent."""
        if self.tangent is not None:
            t = self.own_tangent()
            t.fill_diagonal_(0, *given[1:]) if label == "fill_diagonal_" else t.zero_()
        write(tensor(self.plain))

    def equal(self, a: Tensor, b: Tensor) -> bool:
        return bare(a, self.level).equal(bare(b, self.level))

    def truth(self) -> bool:
        return bool(tensor(self.plain))

    def item(self) -> Any:
        return tensor(self.plain).item()

    def tolist(self) -> Any:
        return tensor(self.plain).tolist()

    def view(self, cls: type) -> np.ndarray:
        return tensor(self.plain).numpy()

    def describe(self, show: Callable) -> str:
        """How a tensor of this array is printed; `show` prints a tensor."""
        text = show(tensor(self.plain))
        if self.tangent is None or not self.level.alive:
            return text
        if self.level.functional:
            return printing.tracked(text, self.level.depth)
        return f"{text[:-1]}, tangent={show(self.tangent.detach())})"

    @classmethod
    def lift(cls, t: Tensor, level: Level) -> Tensor:
        return with_array(t, Dual(t._array, None, level))

    @classmethod
    def refuse_write(cls, name: str, v: Any) -> None:
        """Nothing: a tensor without a tangent gets one."""

    @classmethod
    def interpret(cls, call: Call, level: Level) -> Any:
        """A call with a dual of this level, the highest, among its arguments."""
        op, values = call.op, call.values
        if call.kind == "composite":
            return NOTHING
        if call.out is not None:
            raise NotImplementedError(
                f"Trying to use forward AD with {op.name}_out that does not support it because it is an out= function"
            )
        if call.kind == "inplace":
            return in_place(op, values)
        named = general.named_values(op, values)
        if op.variant is not None and (other := op.taken_over(named)) is not None:
            op, named = other, {p: named[p] for p in other.params}
        general.input_tensors(op, named)
        return Moving(op, named, level).result()

    def forward(self, op: Op, named: dict[str, Any], keep: bool) -> Any:
        """The results of a call whose level has ended: without tangents of this level."""
        found = forward_below(
            op, {n: mapped(v, lambda t: bare(t, self.level)) for n, v in named.items()}, keep
        )
        return found[0] if op.outputs is None and not op.intermediates else found


class Moving:
    """A call of an operator on duals."""

    __slots__ = ("bared", "history", "level", "moved", "named", "op", "plain")

    def __init__(self, op: Op, named: dict[str, Any], level: Level) -> None:
        self.op, self.named, self.level = op, named, level
        self.history = False
        self.plain: dict[str, Any] = {}  # the arguments without tangents and history
        self.moved: dict[str, Any] = {}  # the tangents of the inputs
        outer = None
        for n, v in named.items():
            if isinstance(v, Tensor):
                if v._edge is not None:
                    outer = self.recorded((v,), outer)
                    if outer is not None:
                        named[n] = v = at_least(v, outer)
                a = v._array
                if a.__class__ is Dual and a.level is level:
                    self.moved[n], self.plain[n] = a.tangent, tensor(a.plain)
                else:
                    self.moved[n], self.plain[n] = None, v if v._edge is None else tensor(a)
            elif v.__class__ in (list, tuple):
                outer = self.recorded(v, outer)
                if outer is not None:
                    named[n] = v = at_least_recorded(v, outer)
                self.moved[n] = tangents_of(v, level)
                self.plain[n] = mapped(v, lambda t: tensor(bare_array(t._array, level)))
            else:
                self.moved[n], self.plain[n] = None, v
        self.bared = self.plain  # without tangents, with the history that somebody outside can use
        if self.history and level.history:
            self.bared = {n: mapped(v, lambda t: bare(t, level)) for n, v in named.items()}

    def recorded(self, values: Iterable, outer: Level | None) -> Level | None:
        """Note the histories of tensors; the level to which those with one are lifted, where there is one."""
        for t in tensors_in(values):
            if t._edge is not None:
                if not self.history:
                    self.history, outer = True, graphs_below(self.level)
                if not self.level.history and bare_array(t._array, self.level) is t._array:
                    self.level.history = t.requires_grad
        return outer

    def result(self) -> Any:
        """What the call returns: duals, recorded where one of its arguments has a history."""
        op, level = self.op, self.level
        recording = self.history and op.differentiable and thread.grad
        if recording and op.view and self.named[op.inputs[0]]._counter is INFERENCE:
            recording = False
        arrays, several = forward_below(op, self.bared, recording), op.outputs is not None
        count = (
            1 if not several else len(op.outputs) if op.outputs.__class__ is tuple else len(arrays)
        )
        made = [
            Dual(a, None, level) if k < count and a is not None and a.dtype.kind not in "bui" else a
            for k, a in enumerate(arrays)
        ]
        whole = several or bool(op.intermediates)
        tensors = general.as_tensors(op, self.named, made if whole else made[0])
        result = general.finished(op, *tensors, recording)
        if thread.tangents and any(some(self.moved[i]) for i in op.inputs):
            self.give_tangents(listed(result))
        return result

    def give_tangents(self, results: list) -> None:
        """Give the results their tangents, by the gradient rules; NotImplementedError for sparse tensors."""
        duals = [r._array for r in results if isinstance(r, Tensor) and r._array.__class__ is Dual]
        if not duals:
            return
        if sparse.made and any(isinstance(innermost(a), Sparse) for a in duals):
            raise NotImplementedError(
                f"Trying to use forward AD with {self.op.name} that does not support it because it has not been "
                "implemented yet: sparse tensors have no tangents here"
            )
        level = self.level
        values = results
        if not level.history:
            values = [
                tensor(bare_array(r._array, level)) if isinstance(r, Tensor) else r for r in results
            ]
        try:
            found = tangents(self.op, self.named, self.bared, self.moved, values, level)
        except RuntimeError as error:
            absent = (getattr(rule.function, "absent", None) for rule in self.op.rules.values())
            own = self.op.name if isinstance(error, NotImplementedError) else None
            if name := next(filter(None, absent), own):
                raise NotImplementedError(
                    f"Trying to use forward AD with aten::{name} that does not support it."
                ) from None
            raise
        if len(found) == 1 and found[0] is None and self.op.differentiable:  # zero at every place
            found = [results[0].new_zeros(results[0].shape)]
        for r, t in zip(results, found, strict=True):
            if r is not None and t is not None and r._array.__class__ is Dual:
                t = t if t.dtype.kind is r.dtype.kind else t.to(r.dtype)
                fresh = self.op.view or self.op.path in PRODUCTS
                r._array.tangent = t if fresh else beside_others(t, self.moved.values())


def forward_below(op: Op, named: dict[str, Any], keep: bool) -> list:
    """The arrays of a call's results, and of what is kept beside them, for tensors without tangents of this level.

    Those of levels below have tangents, which are computed here, and may have a history, which needs that of `named`.
    """
    below = history = False
    for v in named.values():
        if v.__class__ is not Tensor:
            for t in tensors_in((v,)):
                below = below or isinstance(t._array, Lifted)
                history = history or t._edge is not None
        else:
            below = below or isinstance(v._array, Lifted)
            history = history or v._edge is not None
    plain = named
    if history:
        plain = {
            n: mapped(v, lambda t: t if t._edge is None else tensor(t._array))
            for n, v in named.items()
        }
    n = len(op.intermediates)
    found: list = []
    if below or not n:
        results = listed(op.by_names(named if below else plain))
        found = [None if r is None else r._array for r in results]
    if below and not keep:
        return [*found, *[None] * n]
    if n:
        kept = general.forward(op, plain, keep=keep)[-n if below else 0 :]
        found += [cpu.asarray(a) if isinstance(a, np.generic) else a for a in kept]
    return found


def graphs_below(level: Level) -> Level | None:
    """The innermost open level below this one whose graphs are apart from those outside of it."""
    for other in reversed(levels.open):
        if other.number < level.number and other.kind.holds_graphs:
            return other
    return None


def at_least(t: Tensor, level: Level) -> Tensor:
    """`t`, lifted to `level` where it is below that."""
    a = t._array
    if isinstance(a, Lifted) and a.level.number >= level.number:
        return t
    return lifted(t, level)


def bare_array(a: Any, level: Level) -> Any:
    """An array without its tangent of this level."""
    return a.plain if isinstance(a, Dual) and a.level is level else a


def at_least_recorded(values: Any, level: Level) -> Any:
    """The tensors of a list, those with a history lifted to `level`."""
    return mapped(values, lambda t: t if t._edge is None else at_least(t, level))


def with_array(t: Tensor, a: Any) -> Tensor:
    """A tensor with the history of `t` and another array."""
    made = new(Tensor)
    made._array, made._edge, made._counter = a, edge_of(t), t._counter
    return made


def bare(t: Tensor, level: Level) -> Tensor:
    """A tensor without its tangent, with its history."""
    a = t._array
    return with_array(t, a.plain) if isinstance(a, Dual) and a.level is level else t


def tangent_of(t: Any, level: Level) -> Tensor | None:
    """The tangent of a tensor at a level, or None."""
    a = t._array if isinstance(t, Tensor) else None
    return a.tangent if isinstance(a, Dual) and a.level is level else None


def some(tangent: Any) -> bool:
    """Whether there is a tangent, or one in a list of them."""
    return any(map(some, tangent)) if tangent.__class__ is list else tangent is not None


def tangents_of(v: Any, level: Level) -> Any:
    """The tangents of an argument: a tensor, or a list of them."""
    if v.__class__ in (list, tuple):
        return [tangents_of(x, level) for x in v]
    return tangent_of(v, level)


def in_place(op: Op, values: list) -> Tensor:
    """`t.name_(...)`: what the form without _ gives, copied."""
    t = values[0]
    recorded = any(x._edge is not None for x in tensors_in(values)) or recorded_inside(t)
    if op.differentiable and thread.grad and recorded:
        values = mapped(values, lambda x: copy_for_rule(x) if is_written_with(x, t) else x)
    n = op.n_positional
    r = op.function(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    if not dtypes.can_cast(r.dtype, t.dtype):
        raise RuntimeError(
            f"result type {r.dtype.scalar_name} can't be cast to the desired output type {t.dtype.scalar_name}"
        )
    if r.shape != t.shape:
        raise RuntimeError(
            f"[{op.name}_] output with shape {list(t.shape)} doesn't match the broadcast shape {list(r.shape)}"
        )
    return t.copy_(r)


def receive(t: Tensor, level: Level, written: Tensor | None) -> None:
    """Let a tensor hold tangents of a level, zeros so far; until the level ends. Its base does, where it is a view."""
    a = t._array
    if isinstance(a, Dual) and a.level is level:
        return
    e = t._edge
    if e.__class__ is View:
        base = e.base
        receive(base, level, written)
        own = base._array.own_tangent(written)
        t._array = Dual(a, e.replay(own), level)
    else:
        t._array = Dual(a, None, level)
        t._array.own_tangent(written)
    if not level.received:
        count_mode(+1)  # from here on each call looks for views of what received a tangent
    level.received.append(t)


# -- tangents --------------------------------------------------------------------------------------


def tangents(op: Op, named: dict, bared: dict, moved: dict, results: list, level: Level) -> list:
    """The tangents of the results of a call; None for one that is zero."""
    rule = RULES.get(op.path)
    if rule is not None:
        return [rule(op, bared, moved, bare(results[0], level))]
    if op.view or op.path in LINEAR:
        if op.view:
            moved[op.inputs[0]] = t = tangent_in_order(named[op.inputs[0]])
            if op.path == "aten.as_strided" and bared["storage_offset"] is not None:
                return [strided_view(t, **{n: bared[n] for n in op.params[1:]})]
        return listed(op.by_names(bared | {i: filled(bared[i], moved[i]) for i in op.inputs}))
    if op.path in PRODUCTS:
        terms = [op.by_names(bared | {i: moved[i]}) for i in op.inputs if moved[i] is not None]
        return [added(terms)]
    if op.elementwise and op.outputs is None and not op.rule_all:
        found = scaled(op, bared, moved, results[0], level)
        if found is not NotImplemented:
            return [found]
    return twice(op, bared, moved, results, level)


def beside_others(t: Tensor, moved: Iterable) -> Tensor:
    """A tangent, or a copy of it where it lies in the memory of another one: that of x + 1 is that of x."""
    a = innermost(t._array)
    owned = (
        a.__class__ is np.ndarray and a.base is None
    )  # then what shares its memory is a view of it
    for b in (innermost(other._array) for other in tensors_in(moved)):
        if owned and a is not b and b.__class__ is np.ndarray and b.base is not a:
            continue
        if a is b or a.__class__ is b.__class__ and devices.of(a).shares_memory(a, b):
            return t.clone()
    return t


def tangent_in_order(t: Tensor) -> Tensor:
    """The tangent of a tensor, in the order of memory of that, so that it has the same views."""
    a, tangent = t._array, t._array.tangent
    if tangent._array.strides != a.strides:
        a.tangent = tangent = methods.function("aten.laid_out")(tangent, a.strides)
    return tangent


def strided_view(
    t: Tensor, size: tuple, stride: tuple, storage_offset: int, own: tuple, start: int
) -> Tensor:
    """The view of a tangent for a view of a tensor's memory from a place on. What the tensor does not reach has no tangent."""
    shift = storage_offset - start
    last = shift + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
    if 0 in size or 0 <= shift <= last <= sum(
        [(n - 1) * s for n, s in zip(t.shape, own, strict=True)]
    ):
        return t.as_strided(size, stride, t.storage_offset() + shift)
    restride = methods.function("aten.restride")
    return restride(t, tuple(t.shape), own, 0, size, stride, shift, "from")


def listed(v: Any) -> list:
    return list(v) if isinstance(v, (tuple, list)) else [v]


def filled(v: Any, t: Any, listed: bool = False) -> Any:
    """The tangents of an input, zeros in the place of None; what is no number that moves, such as an index, as it is."""
    if v.__class__ in (list, tuple):
        return [filled(x, y, True) for x, y in zip(v, t, strict=True)]
    if not isinstance(v, Tensor) or t is None and v.dtype.kind < 2 and not listed:
        return v
    return v.new_zeros(v.shape) if t is None else t


def scaled(op: Op, bared: dict, moved: dict, result: Tensor, level: Level) -> Any:
    """The tangent of an elementwise result, by its rules: those that do their own conjugation are for real numbers
    here."""
    inputs = [i for i in op.inputs if moved[i] is not None]
    if not all(i in op.rules for i in inputs):
        return NotImplemented
    y = bare(result, level)
    kinds = [v._array.dtype for v in (y, *bared.values()) if isinstance(v, Tensor)]
    if (
        any(k.kind != "f" for k in kinds)
        and any(k in COMPLEX for k in kinds)
        and (not op.conjugates or not all(k in COMPLEX for k in kinds))
    ):
        return NotImplemented
    terms = []
    for i in inputs:
        rule, t = op.rules[i], moved[i]
        env = {n: y if n == "result" else read(n, bared) for n in rule.reads if n != "g"}
        env["g"] = t if t._array.shape == y._array.shape else t.expand(y.shape)
        recorded = thread.grad and any(
            v._edge is not None for v in env.values() if isinstance(v, Tensor)
        )
        term = gradient(op, rule, env, recorded)
        if term._array.shape != y._array.shape:  # a sum, of an input that has fewer elements
            return NotImplemented
        terms.append(term)
    return added(terms)


def read(name: str, bared: dict) -> Any:
    """What a rule reads under a name: an argument, or the shape or the dtype of one."""
    if name in bared:
        return bared[name]
    v = bared[name[:-6]]
    if name.endswith("_dtype"):
        return v.dtype if isinstance(v, Tensor) else None
    return v._array.shape if isinstance(v, Tensor) else ()


def twice(op: Op, bared: dict, moved: dict, results: list, level: Level) -> list:
    """Tangents by two backwards of the operator; see Note [Tangents]."""
    from rushlight.autograd.engine import grad

    recording, thread.grad = thread.grad, True
    # (what is inside of lifted arrays may have a history outside)
    wanted_too = recording and any(
        t is not None and (t.requires_grad or isinstance(t._array, Lifted))
        for v in (*bared.values(), *moved.values())
        for t in tensors_in((v,))
    )
    try:
        xs: list[Tensor] = []
        ts: list[Tensor] = []
        # (not the innermost level: a rule of a batch above calls from below it)
        below = graphs_below(level)

        def graph_leaf(t: Tensor) -> Tensor:
            return (t if below is None else at_least(t, below))._set_requires_grad(True)

        def leaf(v: Any, t: Any) -> Any:
            if t is None or not isinstance(v, Tensor):
                return v
            x = v.view_as(v) if v.requires_grad else graph_leaf(apart(v))
            xs.append(x)
            ts.append(t)
            return x

        def given(v: Any, t: Any) -> Any:
            if v.__class__ in (list, tuple):
                return [leaf(x, y) for x, y in zip(v, t, strict=True)]
            return leaf(v, t)

        ys = listed(op.by_names(bared | {i: given(bared[i], moved[i]) for i in op.inputs}))
        wanted = [k for k, y in enumerate(ys) if isinstance(y, Tensor) and y.requires_grad]
        if not wanted:
            return [None] * len(results)
        us = [graph_leaf(ys[k].new_zeros(ys[k].shape)) for k in wanted]
        gs = grad([ys[k] for k in wanted], xs, us, create_graph=True, allow_unused=True)
        pairs = [(g, t) for g, t in zip(gs, ts, strict=True) if g is not None and g.requires_grad]
        found: list = [None] * len(results)
        if pairs:
            got = grad(
                [g for g, _ in pairs], us, [t for _, t in pairs], create_graph=wanted_too, retain_graph=True,
                allow_unused=True,
            )  # fmt: skip
            for k, t in zip(wanted, got, strict=True):
                found[k] = t if wanted_too or t is None else apart(t)
        return found
    finally:
        thread.grad = recording


def apart(t: Tensor) -> Tensor:
    """A tensor on the same array without history; its tangents of other levels stay."""
    made = new(Tensor)
    if t.__class__ is not Tensor and dispatches(t.__class__):
        made = new(t.__class__)
        made.__dict__.update(t.__dict__)
    made._array, made._edge, made._counter = t._array, None, None
    return made
