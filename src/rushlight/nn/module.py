"""Module: a tree of parameters, buffers and other modules, with a forward to call.

This file has registration, the walks over the tree and printing. `hooks` runs a call with its hooks,
`state` saves and loads checkpoints, `convert` changes dtypes and devices. Internal operations are
functions, not methods, so that they do not clash with names in subclasses.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import convert, hooks, registration, state
from rushlight.nn.error_notes import note_module
from rushlight.nn.hooks import (  # noqa: F401 - their public place is beside Module
    P,
    R,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.parameter import Buffer, Parameter, clear_grad
from rushlight.nn.text import html, indented
from rushlight.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = state.EXTRA_STATE  # PyTorch's name, which loaders of checkpoints look for

__all__ = ["Module"]


def _step_down(module: Any, path: str) -> Module:
    """The module at a dotted path; a missing step is an AttributeError that names it."""
    for name in path.split(".") if path else ():
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        module = getattr(module, name)
        if not isinstance(module, Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
    return module


def _parent_of(module: Module, path: str) -> tuple[Module, str]:
    """The module that owns the target of a dotted path, and the target's name in it."""
    path, _, name = path.rpartition(".")
    parent = _step_down(module, path)
    if not hasattr(parent, name):
        raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
    return parent, name


class Module(convert.Devices):
    """The base of every layer and network.

    Parameters, buffers and modules assigned to it as attributes are registered: `parameters()`
    finds them, `to()` moves them, `state_dict()` saves them. `module(x)` calls `forward(x)`.

    >>> import rushlight as torch
    >>> class Halve(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(0.5))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> [name for name, _ in Halve().named_parameters()]
    ['factor']
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    dump_patches = False
    _version = 1  # of what the class puts into a state_dict
    call_super_init = False
    _compiled_call_impl = None
    _shown: tuple[str, ...] = ()  # names of the attributes that `extra_repr` writes
    # Whether a call has hooks to look for; True on Module itself from the first global hook on.
    _call_has_hooks = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # PyTorch's functions are not made in Python and do not become methods: after `act = torch.tanh`
        # in the body of a class, `self.act(x)` is torch.tanh(x).
        super().__init_subclass__(**kwargs)
        for name, value in list(cls.__dict__.items()):
            if value.__class__ is FunctionType and (
                hasattr(value, "op")
                or (value.__module__ or "").startswith("rushlight.ops.")  # None: exec'd code
            ):
                setattr(cls, name, staticmethod(value))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"'{next(iter(kwargs))}'"
                )
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        # Straight into __dict__: __setattr__ would look into tables that are not there yet.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ------------------------------------------------------------------------------ calls

    def __call__(self: hooks.Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if self._call_has_hooks:
                return hooks.call_with_hooks(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            note_module(error, self, args, kwargs)
            raise

    _call_impl = _wrapped_call_impl = __call__

    forward: Callable[..., Any] = hooks._forward_unimplemented

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module, in place; the arguments are those of `torch.compile`."""
        hooks.compile_calls(self, args, kwargs)

    # ------------------------------------------------------------------------ registration

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; `persistent` ones are saved."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        registration.check_new_name(self, "buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{registration.typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        for hook in hooks.buffer_registration_hooks.values():
            changed = hook(self, name, tensor)
            tensor = tensor if changed is None else changed
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; `None` reserves the name, as `bias=False` does."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        registration.check_new_name(self, "parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{registration.typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
        for hook in hooks.parameter_registration_hooks.values():
            changed = hook(self, name, param)
            param = param if changed is None else changed
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module as a child under that name."""
        if module is not None and not isinstance(module, Module):
            hint = f": write {module.__name__}()" if isinstance(module, type) else ""
            raise TypeError(f"{rushlight.typename(module)} is not a Module subclass{hint}")
        registration.check_new_name(self, "module", name, self._modules)
        registration.put_module(self, name, module)

    register_module = add_module

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            registration.forget(self, name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            registration.forget(self, name, "_modules")
            registration.put_module(self, name, value)
        elif name in own.get("_parameters", ()):
            registration.check_assigned(
                name, value, None, "parameter", "torch.nn.Parameter or None"
            )
            self.register_parameter(name, None)
        elif name in own.get("_modules", ()):
            registration.check_assigned(
                name, value, None, "child module", "torch.nn.Module or None"
            )
            registration.put_module(self, name, None)
        elif name in own.get("_buffers", ()):
            expected = "torch.nn.Buffer, torch.Tensor or None"
            registration.check_assigned(name, value, Tensor, "buffer", expected)
            persistent = name not in self._non_persistent_buffers_set
            if isinstance(value, Buffer):
                persistent = value.persistent
            self.register_buffer(name, value, persistent)
        elif isinstance(value, Buffer):
            if "_buffers" not in own:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            registration.forget(self, name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Only for what is no plain attribute.
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        # Pickles of older classes may lack a table.
        fresh = Module()
        for name, value in fresh.__dict__.items():
            self.__dict__.setdefault(name, value)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules}
        names |= set(self._buffers)
        return sorted(name for name in names if not name[0].isdigit())

    # ------------------------------------------------------------------ access by dotted name

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path such as `"encoder.layers.0"`; `""` is the module itself."""
        return _step_down(self, target)

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set a module at a dotted path; with `strict` it must exist already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = _step_down(self, path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        parent, name = _parent_of(self, target)
        param = getattr(parent, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        parent, name = _parent_of(self, target)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(parent, name)

    # ------------------------------------------------------------------------------- walks

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """The module itself and all below it, depth first, each with its path."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """The module itself and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once, with its name."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield path + ("." if path else "") + name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths, in the order of registration."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, as an optimizer takes them."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call `fn` on every module of the tree, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------------------- conversions

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace every parameter's, gradient's and buffer's data by `fn(data)`, in place."""
        return convert.apply(self, fn, recurse)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move and convert: `to(device)`, `to(dtype)`, `to(tensor)`, `to(memory_format=...)`.

        A dtype applies to floating-point and complex tensors only; others keep theirs.
        """
        return self._apply(convert.like_to(*args, **kwargs))

    def type(self, dst_type: Any) -> Any:
        """Convert everything to that dtype, integers too."""
        return self._apply(lambda t: t.type(dst_type))

    def _to_float_dtype(self, dtype: Any) -> Any:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Any:
        """Convert floating-point parameters and buffers to float32."""
        return self._to_float_dtype(rushlight.float32)

    def double(self) -> Any:
        """Convert floating-point parameters and buffers to float64."""
        return self._to_float_dtype(rushlight.float64)

    def half(self) -> Any:
        """Convert floating-point parameters and buffers to float16."""
        return self._to_float_dtype(rushlight.float16)

    def bfloat16(self) -> Any:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._to_float_dtype(rushlight.bfloat16)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying values; the values are then undefined."""
        return self._apply(lambda t: rushlight.empty_like(t, device=device), recurse=recurse)

    def train(self, mode: bool = True) -> Any:
        """Set training mode in the whole tree: Dropout drops, BatchNorm uses the batch."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Set evaluation mode: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set `requires_grad` of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for param in self.parameters():
            clear_grad(param, set_to_none)

    # --------------------------------------------------------------------------- checkpoints

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by name, detached but sharing memory."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        return state.save(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy a state in; keys and shapes that do not fit are a RuntimeError that lists them.

        `strict=False` lets keys be missing or unexpected. `assign` takes the tensors themselves
        instead of copying from them.
        """
        return state.load(self, state_dict, strict, assign)

    _save_to_state_dict = state.save_own
    _load_from_state_dict = state.load_own

    def get_extra_state(self) -> Any:
        """Return state to save besides tensors; define it together with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that nothing defines.")

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that nothing defines.")

    # -------------------------------------------------------------------------------- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; its result, if not None, replaces the arguments."""
        flags = [self._forward_pre_hooks_with_kwargs] * with_kwargs
        return hooks.add_to(self, self._forward_pre_hooks, hook, *flags, prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; its result, if not None, replaces the output."""
        flags = [self._forward_hooks_with_kwargs] * with_kwargs
        flags += [self._forward_hooks_always_called] * always_call
        return hooks.add_to(self, self._forward_hooks, hook, *flags, prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's backward."""
        return hooks.add_to(self, self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are known."""
        hooks.choose_backward(self, full=True)
        return hooks.add_to(self, self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form: the hook gets the gradients of the module's last operation only."""
        hooks.choose_backward(self, full=False)
        return hooks.add_to(self, self._backward_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module's state is collected."""
        return hooks.add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it may edit the dict."""
        hook._from_public_api = True
        return hooks.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return hooks.add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, ...)` before the module loads its state."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            hook = hooks.BoundHook(self, hook)
        return hooks.add(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after the module has loaded its state."""
        return hooks.add(self._load_state_dict_post_hooks, hook)

    # ------------------------------------------------------------------------------ printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the brackets of the module's `repr`: by default the attributes in `_shown`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)

    _repr_html_ = html

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): {indented(repr(module))}" for name, module in self._modules.items()
        ]
        lines = extra_lines + child_lines
        if not lines:
            return f"{self._get_name()}()"
        if len(lines) == 1 and not child_lines:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"
