"""Module hooks: functions that run before and after forward, and around backward.

`Module.__call__` comes here only when some hook was registered; a module without hooks never pays.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.utils.hooks import RemovableHandle

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Forward(Protocol[P, R]):
    """A module as type checkers see a call of it: the call takes and gives what `forward` does."""

    @property
    def forward(self) -> Callable[P, R]: ...


def _forward_unimplemented(self: Any, *input: Any) -> Any:
    """Compute the module's output; every subclass defines it."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


if TYPE_CHECKING:
    from rushlight.nn.module import Module

Hooks = OrderedDict[int, Callable[..., Any]]

# Hooks that hold for every module.
forward_pre_hooks: Hooks = OrderedDict()
forward_hooks: Hooks = OrderedDict()
forward_hooks_always_called: dict[int, bool] = OrderedDict()
forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
backward_pre_hooks: Hooks = OrderedDict()
backward_hooks: Hooks = OrderedDict()
backward_hooks_are_full: bool | None = None
parameter_registration_hooks: Hooks = OrderedDict()
module_registration_hooks: Hooks = OrderedDict()
buffer_registration_hooks: Hooks = OrderedDict()


def add(
    hooks: Hooks, hook: Callable[..., Any], *flags: dict[int, bool], prepend: bool = False
) -> RemovableHandle:
    """Register a hook in a table; `flags` are the side tables that shall name it too."""
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def choose_backward(module: Module, full: bool) -> None:
    """A module's backward hooks are all of one kind; the first one chooses."""
    if module._is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks on a single Module. "
            "Please use only one of them."
        )
    module._is_full_backward_hook = full


def add_to(module: Module, *args: Any, prepend: bool = False) -> RemovableHandle:
    """Register a hook in a module's table; from now on its calls look for hooks."""
    module._call_has_hooks = True
    return add(*args, prepend=prepend)


class BoundHook:
    """A load hook that is handed its module first; it follows the module through deepcopy."""

    def __init__(self, module: Module, hook: Callable[..., Any]) -> None:
        self.module, self.hook = weakref.ref(module), hook  # the module holds this

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.hook(self.module(), *args, **kwargs)

    def __getstate__(self) -> Any:
        return self.module(), self.hook

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc] # no subclass has another constructor


compiled: weakref.WeakKeyDictionary[Module, Any] = (
    weakref.WeakKeyDictionary()
)  # by `Module.compile`


def compile_calls(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Let the calls of a module be compiled from now on."""
    compiled[module] = rushlight.compile(MethodType(call_uncompiled, module), *args, **kwargs)
    module._call_has_hooks = True


def call_uncompiled(module: Module, *args: Any, **kwargs: Any) -> Any:
    """Call a module as it is written."""
    return call_all(module, args, kwargs)


def call_with_hooks(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call a module that is compiled or has hooks."""
    f = compiled.get(module) if compiled else None
    return call_all(module, args, kwargs) if f is None else f(*args, **kwargs)


def call_all(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call the module with all its hooks, in PyTorch's order; see `Module.__call__`.

    A hook with `always_call=True` runs even when the forward or an earlier hook raised; what it
    raises itself is then only warned of, so that the first error is the one that is seen.
    """
    always = forward_hooks_always_called or module._forward_hooks_always_called
    done: set[int] = set()
    if not always:
        return _call(module, args, kwargs, done)
    try:
        return _call(module, args, kwargs, done)
    except Exception:
        for hook_id, hook, with_kwargs in _forward_hooks_of(module):
            always_called = (
                hook_id in forward_hooks_always_called
                or hook_id in module._forward_hooks_always_called
            )
            if always_called and hook_id not in done:
                try:
                    hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=2,
                    )
        raise


def _forward_hooks_of(module: Module) -> list[tuple[int, Callable[..., Any], bool]]:
    """All forward hooks in the order of their calls: global ones first."""
    return [(i, h, i in forward_hooks_with_kwargs) for i, h in forward_hooks.items()] + [
        (i, h, i in module._forward_hooks_with_kwargs) for i, h in module._forward_hooks.items()
    ]


def _call(module: Module, args: tuple, kwargs: dict[str, Any], done: set[int]) -> Any:
    """Run the hooks before a forward, the forward, and the hooks after it. `done`: the hooks that have run."""
    for hook in (*forward_pre_hooks.values(),):
        changed = hook(module, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    for hook_id, hook in (*module._forward_pre_hooks.items(),):
        if hook_id in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {changed}."
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)

    pre = [*backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
    full: list[Callable[..., Any]] = []
    partial: list[Callable[..., Any]] = []
    (full if backward_hooks_are_full else partial).extend(backward_hooks.values())
    (full if module._is_full_backward_hook else partial).extend(module._backward_hooks.values())

    boundary = BackwardBoundary(module, full, pre) if full or pre else None
    if boundary is not None:
        args = boundary.enter(args)
    result = module.forward(*args, **kwargs)
    for hook_id, hook, with_kwargs in _forward_hooks_of(module):
        done.add(hook_id)
        changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        if changed is not None:
            result = changed
    if boundary is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=4,
            )
        result = boundary.leave(result)
    if partial:
        _attach_partial_hooks(module, partial, args, result)
    return result


def _attach_partial_hooks(
    module: Module, hooks: list[Callable[..., Any]], args: tuple, result: Any
) -> None:
    """The old kind of backward hook: it gets the gradients of the module's last operation only."""
    output = result
    while not isinstance(output, Tensor):
        output = (
            next((v for v in output.values() if isinstance(v, Tensor)), None)
            if isinstance(output, dict)
            else output[0]
        )
        if output is None:
            return
    node = output.grad_fn
    if node is not None:
        for hook in hooks:
            node.register_hook(functools.wraps(hook)(functools.partial(hook, module)))
        _warn_of_partial_hooks(args, result, node)


_FULL = "Please use register_full_backward_hook to get the documented behavior."


def _warn_of_partial_hooks(args: tuple, result: Any, node: Any) -> None:
    """Say which gradients the old kind of backward hook does not see."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in results):
        case, lost = (
            "hooks on a Module that does not return a single Tensor or a tuple of Tensors",
            "of the grad_output. " + _FULL,
        )
    elif not all(isinstance(a, Tensor) for a in args):
        case, lost = (
            "hooks on a Module that does not take as input a single Tensor or a tuple of Tensors",
            "of the grad_input. " + _FULL,
        )
    elif len({r.grad_fn for r in results} - {None}) > 1:
        case, lost = (
            "hook when outputs are generated by different autograd Nodes",
            "grad_output. " + _FULL,
        )
    elif {a.grad_fn for a in args} - {None} != {n for n, _ in node.next_functions}:
        case, lost = (
            "hook when the forward contains multiple autograd Nodes",
            "grad_input. " + _FULL,
        )
    else:
        return
    warnings.warn(
        f"Using {'non-full backward' if case[4] == 's' else 'a non-full backward'} {case} is deprecated and will be "
        f"removed in future versions. This hook will be missing some {lost}",
        FutureWarning,
        stacklevel=6,
    )


class BackwardBoundary:
    """Two identity nodes, before and after a module, that its gradients pass through.

    The node after the outputs gets `grad_output` first and stores it. When the node before the
    inputs gets `grad_input`, the hooks run with both. If no input needs a gradient, there is no
    node before the inputs: the hooks run at the first node, with `None` for each input.
    """

    def __init__(self, module: Module, hooks: list, pre_hooks: list) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple | None = None
        self.input_indices: list[int] | None = None
        self.output_indices: list[int] | None = None
        self.inputs = self.outputs = 0
        self.kinds: list[tuple] = []

    def enter(self, args: tuple) -> tuple:
        """The arguments, passed through the node that receives `grad_input`."""
        self.inputs = len(args)
        changed, self.input_indices, node = _through_identity(args)
        if node is not None:
            # Hooks see zeros for tensors that need no gradient, and None for what is no tensor.
            self.kinds = [
                (args[i].shape, args[i].dtype, args[i].device) for i in self.input_indices
            ]
            node.register_hook(self._at_inputs)
        return changed

    def leave(self, result: Any) -> Any:
        """The result, passed through the node that receives `grad_output`."""
        outputs = result if isinstance(result, tuple) else (result,)
        self.outputs = len(outputs)
        changed, self.output_indices, node = _through_identity(outputs)
        if node is None:
            return result
        node.register_prehook(self._at_outputs)
        if not isinstance(result, tuple):
            return changed[0]
        # A named tuple is rebuilt as what it was.
        return type(result)(*changed) if hasattr(result, "_fields") else changed

    def _at_outputs(self, grads: tuple) -> tuple:
        grad_output = _spread(grads, self.output_indices, self.outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, grad_output)
            if changed is not None:
                grad_output = _checked(changed, self.outputs, "Backward pre hook", "grad_output")
        self.grad_outputs = grad_output
        if self.input_indices is None:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
                "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
            nothing = (None,) * self.inputs
            for hook in self.hooks:
                changed = hook(self.module, nothing, grad_output)
                if changed is not None and any(g is not None for g in changed):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(grad_output[i] for i in self.output_indices)

    def _at_inputs(self, grads: tuple, _: tuple) -> tuple | None:
        if self.grad_outputs is None:  # the inputs were used outside of the module only
            return None
        seen = [
            rushlight.zeros(shape, dtype=dtype, device=device) if grad is None else grad
            for grad, (shape, dtype, device) in zip(grads, self.kinds, strict=True)
        ]
        grad_input = _spread(seen, self.input_indices, self.inputs)
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_outputs)
            if changed is not None:
                grad_input = _checked(changed, self.inputs, "Backward hook", "grad_input")
        self.grad_outputs = None
        # Where nobody wants a gradient, none is handed on.
        return tuple(
            None if grad is None else grad_input[i]
            for grad, i in zip(grads, self.input_indices, strict=True)
        )


def _spread(grads: Any, positions: list[int], count: int) -> tuple:
    spread: list[Any] = [None] * count
    for position, grad in zip(positions, grads, strict=True):
        spread[position] = grad
    return tuple(spread)


def _checked(changed: Any, count: int, who: str, what: str) -> tuple:
    if len(changed) != count:
        raise RuntimeError(
            f"{who} returned an invalid number of {what}, got {len(changed)}, but expected {count}"
        )
    return tuple(changed)


def _through_identity(values: tuple) -> tuple[tuple, list[int] | None, Any]:
    """The values with their tensors passed through one identity node, the tensors' indices, and the node.

    Without gradients to follow: the values as they are, None, None.
    """
    positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not rushlight.is_grad_enabled() or not any(values[i].requires_grad for i in positions):
        return values, None, None
    passed = _identity().apply(*(values[i] for i in positions))
    node = next((t.grad_fn for t in passed if t.grad_fn is not None), None)
    if node is None:
        raise RuntimeError("Error while setting up backward hooks: no output has a grad_fn.")
    changed = list(values)
    for position, tensor in zip(positions, passed, strict=True):
        changed[position] = tensor
    return tuple(changed), positions, node


_Identity: Any = None


def _identity() -> Any:
    """The autograd Function that hands its inputs on; made at first use."""
    global _Identity
    if _Identity is None:
        _Identity = _made_identity()
    return _Identity


def _made_identity() -> Any:
    class BackwardHookFunction(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> tuple:
            ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
            return tensors

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple:
            return grads

    return BackwardHookFunction


def _hook_every_module() -> None:
    from rushlight.nn.module import Module

    Module._call_has_hooks = True


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before every forward of every module."""
    _hook_every_module()
    return add(forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every forward of every module."""
    _hook_every_module()
    flags = [forward_hooks_with_kwargs] * with_kwargs + [forward_hooks_always_called] * always_call
    return add(forward_hooks, hook, *flags)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` when the gradients of any module's outputs are known."""
    _hook_every_module()
    return add(backward_pre_hooks, hook)


def _register_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global backward_hooks_are_full
    if backward_hooks_are_full is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _hook_every_module()
    backward_hooks_are_full = full
    return add(backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` for every module in each backward pass."""
    return _register_backward(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form: it gets the gradients of each module's last operation only."""
    return _register_backward(hook, full=False)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a parameter is registered."""
    return add(parameter_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a module is registered in another."""
    return add(module_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered."""
    return add(buffer_registration_hooks, hook)
