"""`Function`: operations with a backward written by the user.

>>> import rushlight as torch
>>> class Exp(torch.autograd.Function):
...     @staticmethod
...     def forward(ctx, x):
...         result = x.exp()
...         ctx.save_for_backward(result)
...         return result
...     @staticmethod
...     def backward(ctx, g):
...         (result,) = ctx.saved_tensors
...         return g * result
>>> x = torch.zeros(2, requires_grad=True)
>>> Exp.apply(x).sum().backward()
>>> x.grad
tensor([1., 1.])
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.autograd.graph import AccumulateGrad, Node, Output, Turn, hooks_of, new, raise_freed
from rushlight.autograd.state import thread
from rushlight.autograd.views import CUSTOM, NO_GRAD, View, check_writable, edge_of, rebase
from rushlight.core.tensor import Tensor
from rushlight.dispatch.captures import Unwatched
from rushlight.dispatch.dual import Dual, bare, tangent_of
from rushlight.dispatch.record import OutputInfo, unbroadcast
from rushlight.dispatch.results import bump
from rushlight.dispatch.saved import save
from rushlight.dispatch.transforms import Level, opened, tensor, top


class FunctionCtx:
    """The `ctx` that `forward` and `backward` get: the node of the call."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for backward; they come back as `ctx.saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type "
                    f"{type(t).__name__}; keep other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors for `jvp`; they come back there as `ctx.saved_tensors`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that these inputs were written to in place (and are returned)."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that these outputs have no gradient (integers need not be marked)."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for an output that was not used."""
        self._materialize = value


# backwards within backwards; a deeper one runs in a thread of its own, whose stack is empty
DEEPEST = 40


def nested(backward: Callable, node: FunctionNode, gs: list) -> Any:
    """`backward(node, *gs)`, which may start another backward pass, and that another."""
    depth = thread.depth
    if depth and depth % DEEPEST == 0:
        return in_new_thread(lambda: backward(node, *gs), depth + 1)
    thread.depth = depth + 1
    try:
        return backward(node, *gs)
    finally:
        thread.depth = depth


def in_new_thread(call: Callable, depth: int) -> Any:
    """What `call()` gives or raises in another thread with the switches of this one, for which this one waits."""
    import threading

    state, found = dict(vars(thread)), []

    def run() -> None:
        vars(thread).update(state, depth=depth)
        try:
            found.append((call(), None))
        except BaseException as error:
            found.append((None, error))

    other = threading.Thread(target=run)
    other.start()
    other.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result


class FunctionNode(Node, FunctionCtx):
    """The node of one call of a custom function. A program keeps what it likes on it: what is read here has names with _."""

    def __init__(self, function: type[Function], args: tuple) -> None:
        self._edges: tuple = ()
        self._saved: Any = None
        self.unbroadcast_to, self.hooks = None, Turn()
        self.result_version = None
        self._outputs: list = []
        self._function = function
        self._to_save: tuple = ()
        self._dirty: tuple = ()
        self._non_differentiable: tuple = ()
        self._materialize = True
        self._in_jvp = False
        self.saved_for_forward: tuple = ()

    _input_metadata = property(lambda self: tuple(self._outputs))

    _n_outputs = property(lambda self: len(self._outputs))  # type: ignore[assignment]  # a number of the class in `Node`, here of the call

    def name(self) -> str:
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple:
        """The tensors given to `save_for_backward`, checked for writes since; in `jvp` those of `save_for_forward`."""
        if self._in_jvp:
            return self.saved_for_forward
        if self._saved is None:
            if self._to_save is None:
                raise_freed(self)
            return self._to_save
        return tuple(
            None if pair is None else pair[0].unpack(self, "saved_tensors", pair[1])
            for pair in self._saved
        )

    @property
    def saved_variables(self) -> tuple:
        """The former name of `saved_tensors`."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        gs = list(g) if g.__class__ is list else [g]
        if self._materialize:
            gs = [
                info.zeros(gs) if x is None and info is not None else x
                for x, info in zip(gs, self._outputs, strict=True)
            ]
        function = self._function
        backward = function.backward
        if backward is Function.backward:
            backward = function.vjp
        elif function.vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        got = nested(backward, self, gs)
        if not keep:
            self._saved, self._to_save = None, None
        got = list(got) if isinstance(got, (tuple, list)) else [got]
        n = len(edges)
        if len(got) > n and all(x is None for x in got[n:]):
            got = got[:n]
        if len(got) != n:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {n}, got {len(got)})"
            )
        for i, (x, e, want) in enumerate(zip(got, edges, self.unbroadcast_to, strict=True)):
            if x is None:
                continue
            if want is None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
            if e is None:
                got[i] = None
                continue
            if not isinstance(x, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {type(x).__name__}) as gradient {i} of {self.name()}"
                )
            got[i] = fitted(self, i, x, *want)
        return tuple(got)


def fitted(node: Node, i: int, g: Tensor, shape: tuple, dtype: Any) -> Tensor:
    """A gradient in the shape and dtype of its input; RuntimeError if that is impossible."""
    if g._array.shape != shape:
        lead = g.ndim - len(shape)
        if lead < 0 or any(
            n not in (1, m) for n, m in zip(shape, g._array.shape[lead:], strict=True)
        ):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {i} - got "
                f"{list(g.shape)} but expected shape compatible with {list(shape)}"
            )
    return unbroadcast(g, shape, dtype)


class FunctionMeta(type):
    """Makes a node class for each function class, so that `grad_fn` has its name."""

    def __init__(cls, name: str, bases: tuple, namespace: dict) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(
            name + "Backward", (FunctionNode,), {"_forward_cls": cls, "__module__": cls.__module__}
        )


class Function(metaclass=FunctionMeta):
    """Base class of custom operations: write `forward` and `backward`, call `apply`.

    Either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`;
    `backward(ctx, *grad_outputs)` returns one gradient (or None) for each argument.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function with static forward method: call it by .apply"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    if TYPE_CHECKING:
        backward: Callable[..., Any]
    else:

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            raise NotImplementedError(
                "You must implement either the backward or vjp method for your custom autograd.Function to "
                "use it with backward mode AD."
            )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    generate_vmap_rule = False
    _needs_setup_context = True  # under transforms; not where only operators are called

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap "
                                  "staticmethod or set generate_vmap_rule=True.")  # fmt: skip

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on the arguments and record it."""
        with_setup = cls.setup_context is not Function.setup_context
        if with_setup and (kwargs or getattr(cls.forward, "__defaults__", None)):
            import inspect

            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, {}
        if not opened and not thread.transforms:
            return recorded(cls, args, kwargs, with_setup)[1]
        if not with_setup and cls._needs_setup_context and thread.transforms:
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                "must override the setup_context staticmethod. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html"
            )
        return transformed(cls, args, kwargs, with_setup)[1]


def transformed(cls: type[Function], args: tuple, kwargs: dict, with_setup: bool) -> tuple:
    """(ctx, result) of a call while levels are open, carried out at the highest among its arguments."""
    found = top((*args, *kwargs.values()))
    if found is None or not found.level.alive:
        return recorded(cls, args, kwargs, with_setup)
    return found.level.kind.function(cls, args, kwargs, with_setup, found.level)


def recorded(
    cls: type[Function],
    args: tuple,
    kwargs: dict,
    with_setup: bool,
    forward: Callable | None = None,
) -> tuple:
    """(ctx, result) of a call; `forward()` stands for that of the function, and records what is in its tensors."""
    ctx = cls._backward_cls(cls, args)
    edges = tuple([edge_of(a) if isinstance(a, Tensor) else None for a in args])
    needs = tuple([e is not None for e in edges])
    recording = thread.grad and any(needs)
    ctx.needs_input_grad = needs
    ctx.unbroadcast_to = tuple(
        [(a._array.shape, a._array.dtype) if isinstance(a, Tensor) else None for a in args]
    )
    versions = {id(a): a._version for a in args if isinstance(a, Tensor) and not a.is_inference()}
    output = NOT_YET if forward is None else forward()
    was, thread.grad = thread.grad, False
    had_tangents, thread.tangents = thread.tangents, False
    try:
        if with_setup:
            if output is NOT_YET:
                output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
        else:
            output = cls.forward(ctx, *args, **kwargs)
    finally:
        thread.grad, thread.tangents = was, had_tangents
    several = isinstance(output, tuple)
    outputs = list(output) if several else [output]
    ctx._edges, ctx._shown = edges, [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    ctx._outputs = [OutputInfo(o._array) if isinstance(o, Tensor) else None for o in outputs]
    check_dirty(ctx, args, outputs)
    finished = [
        finish(ctx, nr, o, args, recording, versions) if isinstance(o, Tensor) else o
        for nr, o in enumerate(outputs)
    ]
    if recording:
        ctx._saved = [saved(ctx, t, outputs, finished) for t in ctx._to_save]
        ctx._to_save = ()
        if thread.anomaly:
            from rushlight.autograd import anomaly_mode

            hooks_of(ctx)
            anomaly_mode.trace(ctx)
    return ctx, tuple(finished) if several else finished[0]


NOT_YET = object()


def with_tangents(
    cls: type[Function], args: tuple, kwargs: dict, with_setup: bool, level: Level
) -> tuple:
    """(ctx, result) of a call with duals among its arguments: `jvp` gives the tangents of the results.

    What `jvp` computes with is recorded apart from the tangents, and the call once more with them.
    """

    def plain(a: Any) -> Any:
        return bare(a, level) if isinstance(a, Tensor) else a

    given = tuple([plain(a) for a in args])
    moved = [tangent_of(a, level) for a in args]
    ctx, result = transformed(cls, given, {k: plain(v) for k, v in kwargs.items()}, with_setup)
    several = isinstance(result, tuple)
    results = list(result) if several else [result]
    if all(t is None for t in moved):
        return ctx, result
    if ctx._materialize:
        moved = [
            a.new_zeros(a.shape) if t is None and isinstance(a, Tensor) and a.dtype.kind > 1 else t
            for a, t in zip(given, moved, strict=True)
        ]
    ctx._in_jvp = True
    try:
        with Unwatched():
            tangents = cls.jvp(ctx, *moved)
    finally:
        ctx._in_jvp = False
    tangents = list(tangents) if isinstance(tangents, tuple) else [tangents]
    if len(tangents) != len(results):
        raise RuntimeError(
            f"{cls.__name__}.jvp: expected {len(results)} gradients for the outputs, got {len(tangents)}"
        )
    arrays = [v._array if isinstance(v, Tensor) else None for v in (*given, *results)]
    for nr, (o, t) in enumerate(zip(results, tangents, strict=True)):
        if t is None or not isinstance(o, Tensor):
            continue
        if t.shape != o.shape:
            raise RuntimeError(
                f"{cls.__name__}.jvp returned a tangent of shape {list(t.shape)} for an output of shape {list(o.shape)}"
            )
        if contains(ctx._non_differentiable, o):
            raise RuntimeError(
                f"{cls.__name__}.jvp returned a tangent for output {nr}, which forward marked as not differentiable. "
                "You should return None at that position instead."
            )
        at = next((k for k, a in enumerate(given) if a is o), None)
        if not level.functional:
            check_tangent(o, t, at, given, moved)
        if at is not None:  # written in place: the caller's tensor is the result
            results[nr] = args[at]
            results[nr]._edge, results[nr]._counter = o._edge, o._counter
            if isinstance(args[at]._array, Dual):
                args[at]._array.tangent = t
                continue
        results[nr]._array = Dual(o._array, t, level)
    if ctx._dirty and ctx._saved is not None:
        save_moving(ctx, dict(zip(map(id, arrays), (*args, *results), strict=True)))
    if with_setup and not ctx._dirty and thread.grad and any(ctx.needs_input_grad):
        fresh = [tensor(o._array) if isinstance(o, Tensor) else o for o in results]
        made = tuple(fresh) if several else fresh[0]
        return recorded(cls, args, kwargs, with_setup, lambda: made)
    return ctx, tuple(results) if several else results[0]


def save_moving(ctx: FunctionNode, moving: dict[int, Any]) -> None:
    """Let backward find what was saved with its tangents: `moving` has the tensors by the identity of their arrays."""
    for k, pair in enumerate(ctx._saved):
        a = None if pair is None else pair[0].unpack(ctx, "saved_tensors", pair[1])._array
        if a is not None and id(a) in moving:
            ctx._saved[k] = save(moving[id(a)], pair[1] is not None), pair[1]


def check_tangent(o: Tensor, t: Tensor, at: int | None, given: tuple, moved: list) -> None:
    """RuntimeError unless the tangent `t` of a result stands to those of the inputs as the result to the inputs.

    What is written in place (input `at`) has its tangent written in place, a view of an input a view of its tangent.
    """
    if at is not None:
        if t is not moved[at]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return
    base = o._base
    for a, own in zip(given, moved, strict=True):
        if not isinstance(a, Tensor) or own is None or not (base is a or o._array is a._array):
            continue
        problem = None
        if not t._is_view():
            problem = "a view"
        elif own._is_view():
            problem = "a view of the same base" if t._base is not own._base else None
        elif t._base is not own:
            problem = "a view of the given inputs"
        if problem:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning "
                f"{problem}."
            )
        return


Dual.function = staticmethod(with_tangents)


def check_dirty(ctx: FunctionNode, args: tuple, outputs: list) -> None:
    """RuntimeError unless all inputs that were marked dirty are returned; other tensors are not dirty."""
    inputs = tuple([t for t in ctx._dirty if contains(args, t)])
    if len(inputs) < len(ctx._dirty):
        warnings.warn(
            "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no "
            "need to pass it to mark_dirty().",
            UserWarning,
            stacklevel=3,
        )
        ctx._dirty = inputs
    if not all(contains(tuple(outputs), t) for t in inputs):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs "
            "that are modified inplace must all be outputs of the Function."
        )


def contains(tensors: tuple, t: Tensor) -> bool:
    return any(x is t for x in tensors)


def finish(
    ctx: FunctionNode, nr: int, o: Tensor, args: tuple, recording: bool, versions: dict
) -> Tensor:
    """Give one output of `forward` its history."""
    d = o.dtype
    wants = recording and not contains(ctx._non_differentiable, o)
    wants = wants and (d.is_floating_point or d.is_complex)
    edge: Any = Output(ctx, nr) if len(ctx._outputs) > 1 else ctx
    if contains(ctx._dirty, o):
        if recording:
            check_writable(o, ctx.name())
            if o._edge.__class__ is View and len(ctx._outputs) > 1:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, your "
                    "Function cannot return more than one Tensor. This is not supported by the current "
                    "autograd engine."
                )
            at = next(i for i, a in enumerate(args) if a is o)
            if o._version == versions.get(id(o)):
                bump(o)
            rebase(o, edge, at)
        return o
    if contains(args, o):
        t = new(Tensor)
        t._array, t._counter, t._edge = o._array, o.detach()._counter, None
        if wants:
            t._edge = View(o, identity, (), edge, CUSTOM)
        return t
    if o._edge.__class__ is View and o._edge.kind == NO_GRAD and thread.grad:
        o._edge.kind = CUSTOM  # `forward` ran without grad mode; the caller does not
    if wants:
        if o._edge.__class__ is View:
            o._edge.node, o._edge.kind, o._edge.seen = edge, CUSTOM, o._edge.version.n
        elif o._edge.__class__ is AccumulateGrad:
            o = o.detach()
            o._edge = edge
        else:
            o._edge = edge
    elif recording and contains(ctx._non_differentiable, o):
        o._edge = None
    return o


def identity(base: Tensor) -> Tensor:
    return base.view_as(base)


def saved(ctx: FunctionNode, t: Tensor | None, outputs: list, finished: list) -> Any:
    """(saved, edge) of one tensor given to `save_for_backward`."""
    if t is None:
        return None
    for nr, o in enumerate(outputs):
        if o is t and edge_of(finished[nr]) is not None and finished[nr] is t:
            return save(t, True), Output(ctx, nr) if len(outputs) > 1 else ctx
    return save(t, False), None


def once_differentiable(function: Callable) -> Callable:
    """Decorate a `backward` that cannot be differentiated: a second derivative raises RuntimeError."""

    @functools.wraps(function)
    def once(ctx: Any, *args: Any) -> Any:
        was, thread.grad = thread.grad, False
        try:
            outputs = function(ctx, *args)
        finally:
            thread.grad = was
        if not was or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        tensors = outputs if (several := isinstance(outputs, tuple)) else (outputs,)
        leaves = [
            o.detach()._set_requires_grad(True) if isinstance(o, Tensor) else o for o in tensors
        ]
        refused = Refuse.apply(*leaves)
        return refused if several else refused[0]

    return once


class Refuse(Function):
    """The history of what a once-differentiable backward returned."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*outputs: Any) -> tuple:
        return tuple(o.clone() if isinstance(o, Tensor) else o for o in outputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


Refuse._backward_cls.__name__ = "Error"  # as `grad_fn.name()` says it


class NestedIOFunction(Function):
    """PyTorch's name for functions of nested structures; the same as `Function`."""


InplaceFunction = Function
BackwardCFunction = FunctionNode
