"""`ParameterGroup`: the parameters of one module that are gathered, freed and reduced together.

Note [A step of sharded modules]
Before the forward of its module a group gathers its parameters, after it they are freed. The first gradient that arrives at
an output gathers them again. A parameter's gradient is cut and summed over the processes as soon as it is there, while
backward goes on; when all are there, and those of the module's inputs, the parameters are freed. At the end of backward the
process waits for the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import rushlight
from rushlight.autograd import Function
from rushlight.autograd.state import queue_callback
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.fsdp.sharded_parameter import Region, ShardedParameter, gather
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten


def cast(value: Any, dtype: Any) -> Any:
    """Arguments with their floating-point tensors in a dtype."""

    def one(each: Any) -> Any:
        return each.to(dtype) if isinstance(each, Tensor) and each.is_floating_point() else each

    return value if dtype is None else tree_map(one, value)


def computes_in_float32(module: Module) -> None:
    """Let a module get float32 in the place of other floating-point tensors; its outputs have the dtype that came last."""
    came: list = []

    def before(_: Module, args: tuple) -> tuple:
        flat, _ = tree_flatten(args)
        found = [x.dtype for x in flat if isinstance(x, Tensor) and x.is_floating_point()]
        came[:] = [kind for kind in found if kind is not rushlight.float32]
        return cast(args, rushlight.float32)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(lambda _, args, outputs: cast(outputs, came[-1] if came else None))


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors among outputs that need a gradient: in containers, and in fields of dataclasses."""
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, Mapping):
        yield from tensors(list(value.values()))
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from tensors(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from tensors(list(vars(value).values()))


class Step:
    """What all groups of one model share: their order in forward, and what backward still waits for."""

    def __init__(self) -> None:
        self.groups: list[ParameterGroup] = []
        self.order: list[tuple[ParameterGroup, object]] = []  # (group, forward), as forwards ended
        self.in_backward = False
        self.sums: list[tuple] = []  # (group, parameter, rows, work)
        self.is_last_backward = True

    def begin_backward(self) -> None:
        """The first gradient has come to a group."""
        if not self.in_backward:
            self.in_backward = True
            queue_callback(self.end_backward)

    def end_backward(self) -> None:
        """Wait for all sums; free what is still whole."""
        self.in_backward = False
        for group in self.groups:
            group.end_backward()
        self.finish(None)
        if self.is_last_backward:
            self.order.clear()

    def finish(self, but: ParameterGroup | None) -> None:
        """Wait for the sums of all groups but one, and give them to the sharded parameters."""
        left = [entry for entry in self.sums if entry[0] is but]
        done = [entry for entry in self.sums if entry[0] is not but]
        self.sums = left
        with rushlight.no_grad():
            for group, parameter, rows, work in done:
                group.take(parameter, rows, work)


class ParameterGroup:
    """Some parameters: see Note [A step of sharded modules]."""

    def __init__(
        self, parameters: list[ShardedParameter], replicate_group: Any = None, *, reshard_after_forward: bool | None = True,
        param_dtype: Any = None, reduce_dtype: Any = None, output_dtype: Any = None, cast_inputs: bool = False,
    ) -> None:  # fmt: skip
        self.parameters, self.replicate_group = parameters, replicate_group
        self.reshard_after_forward = reshard_after_forward
        self.param_dtype, self.reduce_dtype, self.output_dtype = (
            param_dtype,
            reduce_dtype,
            output_dtype,
        )
        self.cast_inputs = cast_inputs
        self.reshard_after_backward = self.synchronizes = self.reduces_replicas = True
        self.unshards_in_backward = True
        self.divisor: float | None = None
        self.after_all_reduce: Callable | None = None
        self.forward_prefetch: list[ParameterGroup] = []
        self.backward_prefetch: list[ParameterGroup] | None = None
        self.step: Step | None = None
        self.whole = False  # whether modules have the gathered parameters
        self._gathering: Callable[[], None] | None = None  # waits for what has been started
        self._region: Region | None = None
        self._of: dict[int, ShardedParameter] = {}
        self._missing: set[int] = set()  # parameters without a gradient in this backward
        self._open: set[object] = set()  # forwards whose inputs have no gradients yet
        self._call, self._has_inputs = object(), False

    # -- parameters that are gathered and freed ----------------------------------------------------

    def _settle(self) -> Region:
        self._region = Region([p.bytes() for p in self.parameters])
        self._of.clear()
        for k, parameter in enumerate(self.parameters):
            parameter.settle(self._region, k, self.ready)
            self._of[id(parameter.unsharded)] = parameter
        return self._region

    def start(self) -> None:
        """Start to gather, if that has not begun."""
        if self.whole or self._gathering is not None:
            return
        changed = [parameter.follows() for parameter in self.parameters]  # module.double()
        if self._region is None or any(changed):
            self._settle()
        with rushlight.no_grad():
            self._gathering = gather(self.parameters)

    def unshard(self) -> None:
        """Gather the parameters, and let the modules have them."""
        self.start()
        if self._gathering is not None:
            with rushlight.no_grad():
                self._gathering()
            self._gathering, self.whole = None, True
            for parameter in self.parameters:
                parameter.place(parameter.unsharded)

    def reshard(self) -> None:
        """Let the modules have the sharded parameters, and free the gathered ones."""
        if self._gathering is not None:
            self.unshard()
        if self.whole:
            self.whole = False
            for parameter in self.parameters:
                parameter.place(parameter.sharded)
            self._region.give_back()  # type: ignore[union-attr]

    # -- around forward ----------------------------------------------------------------------------

    def before_forward(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Gather; the inputs as the module gets them."""
        self.unshard()
        for parameter in self.parameters:
            parameter.begin_forward()
        for other in self.forward_prefetch:
            other.start()
        if self.cast_inputs:
            args, kwargs = cast(args, self.param_dtype), cast(kwargs, self.param_dtype)
        self._call = object()
        if not rushlight.is_grad_enabled():
            return args, kwargs
        flat, form = tree_flatten((args, kwargs))
        where = [k for k, x in enumerate(flat) if isinstance(x, Tensor) and x.requires_grad]
        self._has_inputs = bool(where)
        if where:
            for k, x in zip(where, _Inputs.apply(self, self._call, *(flat[k] for k in where))):
                flat[k] = x
            args, kwargs = tree_unflatten(flat, form)
        return args, kwargs

    def after_forward(self, outputs: Any, last: bool = True) -> Any:
        """Free, if that is wanted; ask the outputs to gather again when a gradient comes."""
        outputs = cast(outputs, self.output_dtype)
        in_backward = self.step.in_backward  # type: ignore[union-attr]
        found = list(tensors(outputs)) if rushlight.is_grad_enabled() else []
        call, waits = self._call, self._has_inputs
        for tensor in found:
            tensor.register_hook(lambda _: self.before_backward(call, waits))
        if found and not in_backward:
            self.step.order.append((self, call))  # type: ignore[union-attr]
        if (
            last and self.reshard_after_forward and not in_backward
        ):  # in backward: a checkpoint computes again
            self.reshard()
        return outputs

    # -- around backward ---------------------------------------------------------------------------

    def before_backward(self, call: object, waits: bool) -> None:
        """A gradient has come to an output of a forward: gather, and start to gather what comes next. `waits`: the
        gradients of its inputs are still to come."""
        step = self.step
        step.begin_backward()  # type: ignore[union-attr]
        if waits:
            self._open.add(call)
        if self.unshards_in_backward:
            self.unshard()
        if not self._missing:
            self._missing = {
                id(p.unsharded)
                for p in self.parameters
                if p.unsharded.requires_grad  # type: ignore[union-attr]
            }
        following = self.backward_prefetch
        if following is None:
            order = step.order  # type: ignore[union-attr]
            if (self, call) in order:  # forwards that ended later have had their turn
                del order[order.index((self, call)) :]
            following = [order[-1][0]] if order else []
        for other in following:
            if other.unshards_in_backward:
                other.start()

    def ready(self, unsharded: Parameter) -> None:
        """A gradient is there."""
        parameter = self._of[id(unsharded)]
        if self.unshards_in_backward and not self.whole:
            raise RuntimeError(
                "a gradient came to a parameter that was freed: backward went through tensors that are not among the "
                "outputs of the sharded module. Return them, in tuples, lists, dicts or dataclasses."
            )
        self.step.begin_backward()  # type: ignore[union-attr]
        self._reduce(parameter)
        self._missing.discard(id(unsharded))
        self._end_if_done()

    def inputs_done(self, call: object) -> None:
        """The gradients of the inputs of a forward are there."""
        self._open.discard(call)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._missing and not self._open:
            self.step.finish(self)  # type: ignore[union-attr]
            if self.reshard_after_backward:
                self.reshard()

    def end_backward(self) -> None:
        """Backward is over: what has no gradient gets none any more."""
        self._missing.clear()
        self._open.clear()
        for parameter in self.parameters:
            if parameter.unsharded is not None:
                self._reduce(parameter)  # what was added up without synchronization
        if self.reshard_after_backward:
            self.reshard()

    # -- gradients ---------------------------------------------------------------------------------

    def _reduce(self, parameter: ShardedParameter) -> None:
        unsharded = parameter.unsharded
        if unsharded.grad is None or not self.synchronizes:  # type: ignore[union-attr]
            return
        gradient, unsharded.grad = unsharded.grad, None  # type: ignore[union-attr]
        with rushlight.no_grad():
            rows, work = parameter.reduce(gradient, self.reduce_dtype)
        self.step.sums.append((self, parameter, rows, work))  # type: ignore[union-attr]

    def take(self, parameter: ShardedParameter, rows: Tensor, work: Any) -> None:
        """The sum over the shards is there: average it, over replicas too, and add it to the gradient."""
        if work is not None:
            work.wait()
        size = parameter.size
        if self.replicate_group is not None:
            if parameter.partial is not None:
                rows, parameter.partial = rows.add_(parameter.partial), None
            if not self.reduces_replicas:
                parameter.partial = rows
                return
            collectives.all_reduce(rows, group=self.replicate_group)
            size *= self.replicate_group.size()
        if self.after_all_reduce is not None:
            self.after_all_reduce(rows)
        parameter.accumulate(rows.div_(self.divisor or size))


class _Inputs(Function):
    """The inputs of a forward; backward says when their gradients are there."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, call: object, *tensors: Tensor) -> tuple:
        ctx.group, ctx.call = group, call
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        ctx.group.inputs_done(ctx.call)
        return None, None, *grads
