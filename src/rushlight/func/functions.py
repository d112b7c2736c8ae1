"""Custom functions (`autograd.Function`) under `vmap`: their `vmap`, or one that is made from the rest of them."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from rushlight.autograd.function import Function, fitted, recorded
from rushlight.autograd.graph import version_of
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import Batch, batched
from rushlight.dispatch.transforms import Level, lifted, tensor
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What the `vmap` rule of a custom function gets."""

    batch_size: int
    randomness: str


def on_batches(
    cls: type[Function], args: tuple, kwargs: dict, with_setup: bool, level: Level
) -> tuple:
    """(ctx, result) of a call with batches of `level` among its arguments."""
    if not with_setup:
        return recorded(cls, args, kwargs, with_setup)
    return recorded(cls, args, kwargs, with_setup, lambda: forward(cls, args, level))


def forward(cls: type[Function], args: tuple, level: Level) -> Any:
    """The result for the tensors inside, lifted."""
    leaves, spec = tree_flatten(args)
    own = cls.vmap is not Function.vmap
    inner: list[Any] = []
    dims: list[int | None] = []
    written: dict[int, Tensor] = {}  # tensors inside -> those at this level
    for x in leaves:
        a = lifted(x, level)._array if isinstance(x, Tensor) else None
        if a is None:
            value, dim = x, None
        else:
            value, dim = a.original if own else (a.value, 0 if a.has else None)
        inner.append(value)
        dims.append(dim)
    given, in_dims = tree_unflatten(inner, spec), tree_unflatten(dims, spec)
    writable = [isinstance(x, Tensor) and not x.is_inference() for x in inner]
    before = [version_of(x).n if w else 0 for x, w in zip(inner, writable, strict=True)]
    result, out_dims = mapped_result(cls, given, in_dims, dims, level)
    for outer, x, n, w in zip(leaves, inner, before, writable, strict=True):
        if w and x._version != n:
            written[id(x)] = outer
    return wrapped(result, out_dims, level, written)


def mapped_result(cls: type[Function], given: Any, in_dims: Any, dims: list, level: Level) -> tuple:
    """(the result for the tensors inside, its mapped dimensions)."""
    own = cls.vmap is not Function.vmap
    if all(d is None for d in dims):
        return cls.apply(*given), None
    if own and cls.generate_vmap_rule:
        refuse(
            cls, "has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
            "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. ",
        )  # fmt: skip
    if cls.generate_vmap_rule:
        made = generated(cls, dims, level)
        result = made.apply(*given)
        return result, tree_unflatten(made.out_dims, tree_flatten(result)[1])
    if not own:
        refuse(
            cls, "does not have vmap support. Please override and implement the vmap staticmethod or set "
            "generate_vmap_rule=True. ",
        )  # fmt: skip
    got = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *given)
    if not (isinstance(got, tuple) and len(got) == 2):
        said = f"{len(got)} returns" if isinstance(got, tuple) else type(got)
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got a {said} instead"
        )
    return got


def refuse(cls: type, what: str) -> NoReturn:
    raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it {what}{MORE}")


def wrapped(result: Any, out_dims: Any, level: Level, written: dict[int, Tensor]) -> Any:
    """A result with its tensors at `level`; one that was `written` to is the argument that it came from."""
    from rushlight.func.batching import _broadcast

    leaves, spec = tree_flatten(result)
    try:
        dims = _broadcast(out_dims, result, spec)
    except ValueError:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
            f"{tree_flatten(out_dims)[1]} but output has structure {spec}. {MORE}"
        ) from None
    made = []
    for x, d in zip(leaves, dims, strict=True):
        if isinstance(x, Tensor):
            x = written[id(x)] if id(x) in written else batched(x, d, level)
        made.append(x)
    return tree_unflatten(made, spec)


class BatchedCtx:
    """The ctx that `setup_context`, `backward` and `jvp` get at a level: what they save is kept without it."""

    def __init__(self, ctx: Any) -> None:
        self.ctx, self.level = ctx, None
        self.needs_input_grad = ctx.needs_input_grad
        self.has: dict[str, list] = {}
        self.inputs: list = []  # (shape, dtype) of each input, None for what is no tensor

    def name(self) -> str:
        return self.ctx.name()

    @property
    def _in_jvp(self) -> bool:
        return self.ctx._in_jvp

    def taken(self, kind: str, tensors: tuple) -> list:
        self.has[kind] = []
        made = []
        for t in tensors:
            a = None if t is None else lifted(t, self.level)._array
            self.has[kind].append(a is not None and a.has)
            made.append(None if a is None else a.value)
        return made

    def save_for_backward(self, *tensors: Any) -> None:
        self.ctx.save_for_backward(*self.taken("backward", tensors))

    def save_for_forward(self, *tensors: Any) -> None:
        self.ctx.save_for_forward(*self.taken("forward", tensors))

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.ctx.mark_non_differentiable(*self.outputs_of(tensors))

    def mark_dirty(self, *tensors: Any) -> None:
        self.ctx.mark_dirty(*self.outputs_of(tensors))

    def outputs_of(self, tensors: tuple) -> list:
        return [t._array.value for t in tensors]

    def set_materialize_grads(self, value: bool) -> None:
        self.ctx.set_materialize_grads(value)

    @property
    def saved_tensors(self) -> tuple:
        has = self.has["forward" if self.ctx._in_jvp else "backward"]
        return tuple(
            None if t is None else tensor(Batch(t, self.level, h))
            for t, h in zip(self.ctx.saved_tensors, has, strict=True)
        )


def up(values: Any, dims: list, level: Level) -> Any:
    """Values with their tensors at `level`; `dims`: 0 for each leaf with a mapped dimension in front."""
    leaves, spec = tree_flatten(values)
    made = [
        tensor(Batch(x, level, d is not None)) if isinstance(x, Tensor) else x
        for x, d in zip(leaves, dims, strict=True)
    ]
    return tree_unflatten(made, spec)


def down(values: Any, level: Level) -> tuple[Any, list]:
    """(values with what is inside of their tensors, as `dims` of `up`)."""
    leaves, spec = tree_flatten(values)
    arrays = [lifted(x, level)._array if isinstance(x, Tensor) else None for x in leaves]
    dims = [0 if a is not None and a.has else None for a in arrays]
    made = [x if a is None else a.value for x, a in zip(leaves, arrays, strict=True)]
    return tree_unflatten(made, spec), dims


def generated(cls: type[Function], in_dims: list, outer: Level) -> type[Function]:
    """The function of whole batches whose parts are those of `cls`, mapped."""

    def opened() -> Level:
        level = Level(Batch)
        level.size, level.randomness = outer.size, outer.randomness
        return level

    class Generated(Function):
        generate_vmap_rule = True
        out_dims: list = []

        @staticmethod
        def forward(*args: Any) -> Any:
            with opened() as level:
                result, Generated.out_dims = down(cls.forward(*up(args, in_dims, level)), level)
            return result

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            ctx.batched = BatchedCtx(ctx)
            ctx.batched.inputs = [
                (x._array.shape, x._array.dtype) if isinstance(x, Tensor) else None for x in inputs
            ]
            with opened() as level:
                ctx.batched.level = level
                cls.setup_context(
                    ctx.batched, up(inputs, in_dims, level), up(output, Generated.out_dims, level)
                )

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            with opened() as level:
                ctx.batched.level = level
                got = cls.backward(ctx.batched, *up(gs, Generated.out_dims, level))
                got = got if isinstance(got, tuple) else (got,)
                made = []
                for i, (g, of, d) in enumerate(zip(got, ctx.batched.inputs, in_dims, strict=True)):
                    if isinstance(g, Tensor):
                        shape, dtype = of
                        g = fitted(ctx, i, g, shape if d is None else shape[1:], dtype)
                        a = lifted(g, level)._array
                        g = a.value
                        if a.has and d is None:
                            g = g.sum(0)
                        elif not a.has and d is not None:
                            g = g.expand(shape)
                    made.append(g)
            return tuple(made)

        @staticmethod
        def jvp(ctx: Any, *ts: Any) -> Any:
            with opened() as level:
                ctx.batched.level = level
                result = cls.jvp(ctx.batched, *up(ts, in_dims, level))
                made = []
                for x, d in zip(tree_leaves(result), Generated.out_dims, strict=True):
                    a = None if x is None else lifted(x, level)._array
                    if a is not None and d is not None and not a.has:
                        made.append(a.value.expand(level.size, *a.shape))
                    else:
                        made.append(None if a is None else a.value)
            return tuple(made) if isinstance(result, tuple) else made[0]

    Generated._backward_cls.__name__ = f"{cls.__name__}GeneratedBackward"
    return Generated


Batch.function = staticmethod(on_batches)
