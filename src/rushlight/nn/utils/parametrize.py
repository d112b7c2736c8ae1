"""Parameters that are computed from other parameters at each access.

Note [How a parametrized tensor is stored]
    The tensor moves from its module to `module.parametrizations.<name>`, as `original`, or as
    `original0`, `original1`... if the parametrization is a function of several tensors. The module
    gets a subclass of its class with a property of that name. The subclass is made for this module,
    so other modules of the class are unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.container import ModuleDict, ModuleList
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_caching = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once in the block, and keep it until the end of the block.

    For weights that are used several times in one forward pass, as in a recurrent network.
    """
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _put(owner: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        owner.register_parameter(name, tensor)
    else:
        owner.register_buffer(name, tensor)


def _assign(target: Tensor, value: Tensor) -> None:
    """Replace a tensor's data in place: optimizers keep their reference to it."""
    if target is not value:
        target.data = value.detach()


_KEEPS = "Registering a parametrization may not change the {} of the tensor"
_INVERSE_KEEPS = (
    "The tensor returned by parametrization.right_inverse must have the same {} as the module's"
)


def _check_same(what: str, keeps: str, tensor: Any, like: Any) -> None:
    """ValueError unless `tensor`, that `what` returned, has the dtype and shape of `like`."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(tensor).__name__}.")
    for part in ("dtype", "shape"):
        was, became = getattr(like, part), getattr(tensor, part)
        if became != was:
            raise ValueError(
                f"{keeps.format(part)}, unless the `unsafe` flag is enabled: it was {was}, and became "
                f"{became}."
            )


def _parts(inverted: Any) -> list[Tensor]:
    """Return the result of a `right_inverse` as a list of tensors."""
    parts = [inverted] if isinstance(inverted, Tensor) else inverted
    if not isinstance(parts, Sequence):
        raise ValueError(
            "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
            f"Got {type(parts).__name__}"
        )
    for i, part in enumerate(parts):
        if not isinstance(part, Tensor):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got element {i} of the sequence with type {type(part).__name__}."
            )
    return list(parts)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the original tensors."""

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.data
        inverted: Any = original
        with rushlight.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        inverted = module.right_inverse(inverted)
                    except NotImplementedError:
                        pass  # as one without: what is there already is where it starts from
        parts = _parts(inverted)
        self.is_tensor = isinstance(inverted, Tensor)
        self.ntensors = len(parts)
        if self.is_tensor:
            if inverted.dtype is not before.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype: it was "
                    f"{before.dtype}, and became {inverted.dtype}."
                )
            _assign(original, inverted)
            _put(self, "original", original)
        else:
            for i, part in enumerate(parts):
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _put(self, f"original{i}", part)
        if not unsafe:
            try:
                _check_same("A parametrization", _KEEPS, self(), before)
            except BaseException:
                if self.is_tensor:
                    original.data = before
                raise

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`."""
        inverted: Any = value
        with rushlight.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                inverted = module.right_inverse(inverted)
            if self.is_tensor and not isinstance(inverted, Tensor):
                raise ValueError(
                    f"`right_inverse` should return a tensor. Got {type(inverted).__name__}"
                )
            parts = _parts(inverted)
            if len(parts) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(parts)}."
                )
            originals = self._originals()
            for i, (original, part) in enumerate(zip(originals, parts, strict=True)):
                if part.dtype is not original.dtype:
                    name = "original" if self.is_tensor else f"original{i}"
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {part.dtype} while "
                        f"`{name}` has dtype {original.dtype}"
                    )
            for original, part in zip(originals, parts, strict=True):
                _assign(original, part)

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _own_class(module: Module) -> None:
    """Give a module its own subclass, to which properties can be added."""
    kind = type(module)

    def __getstate__(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): their "
            "classes exist in this process only."
        )

    body: dict[str, Any] = {"__getstate__": __getstate__, "__module__": kind.__module__}
    if not hasattr(kind, "__deepcopy__"):

        def __deepcopy__(self: Module, memo: dict[int, Any]) -> Module:
            known = type(self)
            # A class for the copy too: removing a parametrization from one must not touch the other.
            own = type(known)(known.__name__, known.__bases__, dict(known.__dict__))
            made = memo[id(self)] = own.__new__(own)
            made.__dict__.update(copy.deepcopy(self.__dict__, memo))
            return made

        body["__deepcopy__"] = __deepcopy__
    module.__class__ = type(kind)(f"Parametrized{kind.__name__}", (kind,), body)


def _add_property(module: Module, name: str) -> None:
    def get(self: Module) -> Tensor:
        if not _caching:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make `module.<tensor_name>` compute `parametrization(original)`; `original` is the trained parameter.

    A second parametrization is applied to the result of the first. With a `right_inverse` the
    parametrization says what to start from, and assigning to the tensor works. `unsafe`: it may
    change dtype and shape.

    >>> import rushlight as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = torch.nn.Linear(3, 3)
    >>> layer = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.mT)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            _check_same("A parametrization", _KEEPS, after, before)
            if hasattr(parametrization, "right_inverse"):
                try:
                    back = parametrization.right_inverse(after)
                except NotImplementedError:
                    back = before
                _check_same("parametrization.right_inverse", _INVERSE_KEEPS, back, before)
        listed = module.parametrizations[tensor_name]
        listed.append(parametrization)
        listed.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        listed = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with "
            f"name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if the module has a parametrized tensor (called `tensor_name`, if given)."""
    listed = getattr(module, "parametrizations", None)
    if not isinstance(listed, ModuleDict):
        return False
    return len(listed) > 0 if tensor_name is None else tensor_name in listed


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make the tensor a plain one again, with its present value or with that of its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed = module.parametrizations[tensor_name]
    if listed.is_tensor:
        original = listed.original
        if leave_parametrized:
            with rushlight.no_grad():
                _assign(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized "
            "in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize a module with the parametrizations and originals of another one."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        listed = from_module.parametrizations[name]
        for parametrization in listed:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        copied = to_module.parametrizations[name]
        for key, original in (*listed._parameters.items(), *listed._buffers.items()):
            setattr(copied, key, original)
    return to_module
