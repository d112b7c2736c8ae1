"""`torch.distributed.fsdp.wrap`: which modules inside of a model are wrapped by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from rushlight.nn.container import ModuleDict, ModuleList
from rushlight.nn.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable
) -> bool:
    """Wrap the modules for which `lambda_fn` is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type]
) -> bool:
    """Wrap the modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: set[type] | None = None, exclude_wrap_modules: set[type] | None = None,
) -> bool:  # fmt: skip
    """Wrap modules that have so many elements in parameters that no module inside of them was wrapped with."""
    leaves = force_leaf_modules or size_based_auto_wrap_policy.FORCE_LEAF_MODULES  # type: ignore[attr-defined]
    never = exclude_wrap_modules or size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES  # type: ignore[attr-defined]
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(never))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]


def _leaves() -> set[type]:
    from rushlight.nn.attention import MultiheadAttention

    return {MultiheadAttention}


size_based_auto_wrap_policy.FORCE_LEAF_MODULES = _leaves()  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Wrap the modules of some classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Wrap the modules for which a function returns True, or a dict of options for just that module."""

    def __init__(self, lambda_fn: Callable) -> None:
        self._lambda_fn = lambda_fn

    def options(self, module: Module) -> dict | None:
        """What the module is wrapped with; None: it is not."""
        found = self._lambda_fn(module)
        if not isinstance(found, dict | bool):
            raise ValueError(
                f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {found}"
            )
        return None if found is False else found if isinstance(found, dict) else {}


def wrap_inside(
    module: Module, policy: Any, make: Callable[..., Module], ignored: set[int], root: bool = True,
    apart: Mapping[type, dict] = MappingProxyType({}),
) -> tuple[Module, int]:  # fmt: skip
    """Wrap what a policy asks for inside of a module, from the inside out: (the module, elements that are wrapped).

    `apart`: {class: options}; modules of these classes are wrapped whatever the policy says, with these options.
    """
    own = {id(p): p.numel() for p in module.parameters() if id(p) not in ignored}
    total, wrapped, custom = sum(own.values()), 0, isinstance(policy, CustomPolicy)
    if apart or custom or policy(module=module, recurse=True, nonwrapped_numel=total):
        for name, child in module.named_children():
            if id(child) not in ignored:
                made, count = wrap_inside(child, policy, make, ignored, False, apart)
                setattr(module, name, made)
                wrapped += count
    if root:
        return module, wrapped
    options: dict | None = policy.options(module) if custom else None
    if not custom and policy(module=module, recurse=False, nonwrapped_numel=total - wrapped):
        options = {}
    for kind, more in apart.items():
        if isinstance(module, kind):
            options = {**(options or {}), **more}
    return (module, wrapped) if options is None else (make(module, **options), total)


_enabled: list[tuple[Any, dict]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Within the block `wrap` wraps."""
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped within `enable_wrap`."""
    if not _enabled:
        return module
    wrapper, options = _enabled[-1]
    return wrapper(module, **{**options, **wrap_overrides})


def as_policy(policy: Any) -> Any:
    """A policy; a set of classes means the modules of these."""
    if isinstance(policy, set | frozenset | list | tuple):
        return ModuleWrapPolicy(policy)
    if policy is not None and not callable(policy) and not isinstance(policy, CustomPolicy):
        raise ValueError(f"auto_wrap_policy is not a policy: {policy!r}")
    return policy
