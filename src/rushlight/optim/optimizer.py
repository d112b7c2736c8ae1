"""Optimizer: parameters in groups, state per parameter, and a step that updates them.

Users subclass `Optimizer`, as in PyTorch. The optimizers here subclass `RuleOptimizer`: they define
the state of one parameter and one update rule that runs on arrays or on tensors.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import rushlight
from rushlight.autograd.state import active, thread
from rushlight.core.tensor import Tensor, _bump
from rushlight.dispatch import handlers
from rushlight.nn.parameter import clear_grad
from rushlight.optim import fused, rules
from rushlight.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

Hook = Callable[..., Any]


class _Required:
    """The default of a setting that every parameter group must define."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_step_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_step_post_hooks: OrderedDict[int, Hook] = OrderedDict()


def _add(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return _add(_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return _add(_step_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of a class, with the hooks around it where there are any."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True  # a scheduler warns when it steps before its optimizer
        event = profiled(self, "step") if active.modes else None
        try:
            if "_optimizer_step_pre_hooks" not in self.__dict__:
                return step(self, *args, **kwargs)  # a wrapper of another one, not made by __init__
            before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if not (before or after or _step_pre_hooks or _step_post_hooks):
                return step(self, *args, **kwargs)
            if (
                type(self).step is not hooked
            ):  # called by a subclass's step, which has run the hooks
                return step(self, *args, **kwargs)
            args = (self, *args)
            for hook in (*_step_pre_hooks.values(), *before.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                            f"{changed}."
                        )
                    args, kwargs = changed
            result = step(*args, **kwargs)
            for hook in (*after.values(), *_step_post_hooks.values()):
                hook(self, args, kwargs)
            return result
        finally:
            if event is not None:
                event.__exit__()

    hooked.hooked = True
    return hooked


def profiled(optimizer: Optimizer, method: str) -> Any:
    """The event of a method in the profile that is on, begun; `__exit__` ends it."""
    from rushlight.autograd.profiler import record_function

    return record_function(f"Optimizer.{method}#{type(optimizer).__name__}.{method}").__enter__()


class Optimizer:
    """The base of all optimizers: parameter groups with their settings, and state per parameter.

    `params`: an iterable of tensors, of (name, tensor) pairs, or of dicts, one per group, whose
    further entries override `defaults` for that group. A subclass defines `step`.
    """

    param_groups: list[dict[str, Any]]
    state: defaultdict[Any, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hook_tables()
        # Groups of older checkpoints lack settings that came later.
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # ------------------------------------------------------------------------------ groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own, for instance when layers are unfrozen."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        names = [param[0] for param in params if isinstance(param, tuple)]
        if names and len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        if names:
            params = [param[1] for param in params]
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(param).__name__}"
                )
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
        if self.param_groups and ("param_names" in self.param_groups[0]) != bool(names):
            one = "with" if names else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{one} names to the optimizer"
            )
        ids = [id(param) for param in params]
        if len(set(ids)) != len(ids):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        taken = {id(param) for other in self.param_groups for param in other["params"]}
        if not taken.isdisjoint(ids):
            raise ValueError("some parameters appear in more than one parameter group")

        group["params"] = params
        if names:
            group["param_names"] = names
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or fill them with zeros."""
        event = profiled(self, "zero_grad") if active.modes else None
        try:
            for group in self.param_groups:
                for p in group["params"]:
                    clear_grad(p, set_to_none)
        finally:
            if event is not None:
                event.__exit__()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once from their gradients; `closure` computes loss and gradients."""
        raise NotImplementedError

    # ------------------------------------------------------------------------- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """State and groups, with parameters written as their numbers; PyTorch reads it too."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        packed_groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            packed_groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        made = {"state": state, "param_groups": packed_groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, made)
            made = made if changed is None else changed
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back; parameters are matched by their order in the groups.

        State tensors are converted to their parameter's dtype, except for step counts.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        own_groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(own_groups) != len(saved_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, the optimizer has {len(own_groups)}"
            )
        for own, saved in zip(own_groups, saved_groups, strict=True):
            if len(own["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: {len(saved['params'])} parameters, the optimizer has "
                    f"{len(own['params'])}"
                )
        numbered = zip(
            chain.from_iterable(group["params"] for group in saved_groups),
            chain.from_iterable(group["params"] for group in own_groups),
            strict=True,
        )
        params = dict(numbered)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _like_parameter(params[key], value)
            else:
                state[key] = value
        for own, saved in zip(own_groups, saved_groups, strict=True):
            saved["params"] = own["params"]
            if "param_names" in own and "param_names" not in saved:
                saved["param_names"] = own["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # ------------------------------------------------------------------------------- hooks

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on the result of `state_dict`."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a state is loaded."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after a state was loaded."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _like_parameter(param: Tensor, value: Any, key: Any = None) -> Any:
    """A loaded value of state, its tensors with the dtype and device of their parameter."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _like_parameter(param, v, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_like_parameter(param, v) for v in value)
    return value


class RuleOptimizer(Optimizer):
    """An optimizer given by the state of one parameter and the rule that updates it.

    A subclass defines `_start(p, group)`, the initial state of a parameter, and
    `_update(p, grad, state, group, run)`, which computes the numbers of this step and calls
    `run(rule, tensors, *numbers)`. The rule gets a namespace of functions and the tensors' arrays,
    and changes the arrays in place (see `rules`). `_takes_sparse`: `_update` supports sparse gradients.
    """

    _takes_sparse = False

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; returns the result of `closure`."""
        loss = None
        if closure is not None:
            with rushlight.enable_grad():
                loss = closure()
        if self.defaults.get("differentiable"):
            self._step(rules.on_tensors)
        elif (active.modes or handlers.made) and handlers.asked(
            [p for group in self.param_groups for p in group["params"]]
        ):
            parts = fused.Parts()
            with rules.quiet(), rushlight.no_grad():
                try:
                    self._step(parts)
                finally:
                    parts.finish()
        else:
            recording, thread.grad = thread.grad, False
            try:
                self._step_quietly(fused.runner())
            finally:
                thread.grad = recording
        return loss

    def _step_quietly(self, run: Any) -> None:
        """Do a step on arrays: groups whose plans hold first, the others as they are written."""
        groups = [*enumerate(self.param_groups)]
        if run is not fused.counted:
            plans = self._plans
            groups = [
                (k, group)
                for k, group in groups
                if (plan := plans.get(k)) is None or not plan.step(self, group, run)
            ]
            if not groups and not run.waiting:
                return
        with rules.quiet():
            try:
                for k, group in groups:
                    if run is fused.counted:
                        self._step_group(group, run)
                        continue
                    calls: list[tuple] = []

                    def noted(*call: Any, calls: list = calls) -> None:
                        calls.append(call)
                        run(*call)

                    self._step_group(group, noted)
                    self._plans[k] = fused.plan(self, group, calls)
            finally:
                if run is not fused.counted:
                    run.finish()

    def _step(self, run: Any) -> None:
        for group in self.param_groups:
            self._step_group(group, run)

    def _step_group(self, group: dict[str, Any], run: Any) -> None:
        states, start, update = self.state, self._start, self._update
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse and not self._takes_sparse:
                name = type(self).__name__
                raise RuntimeError(
                    "Adam does not support sparse gradients, please consider SparseAdam instead"
                    if name in ("Adam", "AdamW")
                    else f"{name} does not support sparse gradients"
                )
            state = states.get(p)
            if not state:
                state = start(p, group)
                if state:
                    states[p] = state
            update(p, grad, state, group, run)
            if run is not rules.on_tensors:
                _bump(p)

    @functools.cached_property
    def _plans(self) -> dict[int, fused.Plan | None]:
        """How the groups, by their numbers, made their last step."""
        return {}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.pop("_plans", None)
        super().__setstate__(saved)
        for state in self.state.values():
            # Checkpoints of long ago hold step counts as numbers.
            if isinstance(state, dict) and isinstance(state.get("step"), (int, float)):
                state["step"] = rushlight.tensor(float(state["step"]), dtype=rushlight.float32)


def chosen(arguments: dict[str, Any], names: str) -> dict[str, Any]:
    """The arguments of these names, in the order in which they stand in a parameter group."""
    return {name: arguments[name] for name in names.split()}


def check(valid: bool, what: str, *values: Any) -> None:
    """Raise PyTorch's ValueError for a setting out of its range."""
    if not valid:
        raise ValueError(f"Invalid {what}: {', '.join(map(str, values))}")


def check_lr(lr: Any, foreach: bool | None = False, capturable: bool = False) -> None:
    """A learning rate is a number >= 0, or a tensor of one element."""
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    check(lr >= 0.0, "learning rate", lr)


def check_betas(betas: Any) -> None:
    """Decay rates of means are in [0, 1)."""
    for i, beta in enumerate(betas):
        check(0.0 <= beta < 1.0, f"beta parameter at index {i}", beta)


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """`fused` and `foreach` choose between PyTorch's loops; here one loop serves both."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def advance(state: dict[str, Any]) -> float:
    """Count one more step and say which it is."""
    count = state["step"]._array
    count[()] = count.item() + 1  # NumPy's addition to one number takes five times as long
    return count.item()


def new_step() -> Tensor:
    """The count of a parameter that has made no step yet."""
    return rushlight.tensor(0.0, dtype=rushlight.float32)


def zeros_like(p: Tensor) -> Tensor:
    """Zeros of the parameter's shape, dtype and memory layout."""
    return rushlight.zeros_like(p, memory_format=rushlight.preserve_format)


def rate(group: dict[str, Any]) -> Any:
    """The learning rate: a number, unless the step is recorded."""
    lr = group["lr"]
    return lr.item() if isinstance(lr, Tensor) and not group["differentiable"] else lr


def number(value: Any) -> Any:
    """A setting as a number; settings may be tensors of one element."""
    return value.item() if isinstance(value, Tensor) else value
