"""`contract`: what functions that change a module in place have in common.

Each of them is applied to a module at most once, has a state there (`function.state(module)`), and leaves the names of parameters,
buffers and modules as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.nn.module import Module

__all__ = ["contract"]

_STATES = "_composable_states"  # {function: its state}, in a module's __dict__


class _State:
    """What a function knows of a module, unless it has a class of its own for that."""


def contract(state_cls: type = _State) -> Callable[[Callable], Callable]:
    """A decorator of functions whose first argument is a module, or several, and which return it or another in its place.

    >>> import rushlight as torch
    >>> @contract()
    ... def marked(module):
    ...     marked.state(module).since = 1
    ...     return module
    >>> marked.state(marked(torch.nn.ReLU())).since
    1
    """

    def decorated(function: Callable) -> Callable:
        @functools.wraps(function)
        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            before, state = _roots(module), state_cls()
            for each in before:
                states = each.__dict__.setdefault(_STATES, {})
                if any(known.__name__ == function.__name__ for known in states):
                    raise AssertionError(
                        "Each distinct composable distributed API can only be applied to a module once. "
                        f"{function.__name__} has already been applied to the following module:\n{each}"
                    )
                states[function] = state
            names = [_names(each) for each in before]
            result = function(module, *args, **kwargs)
            after = before if result is None else _roots(result)
            if len(after) != len(before):
                raise AssertionError(
                    f"{function.__name__} should return the same number of modules as input modules: it got {len(before)}, "
                    f"and returned {len(after)}"
                )
            for old, each in zip(names, after, strict=True):
                _check_names(old, _names(each))
            return module if result is None else result

        applied.state = lambda module: module.__dict__.get(_STATES, {}).get(function)  # type: ignore[attr-defined]
        return applied

    return decorated


def _get_registry(module: Module) -> dict[str, Any] | None:
    """{name: state} of the functions that were applied to a module, None if there is none."""
    states = module.__dict__.get(_STATES)
    return states and {function.__name__: state for function, state in states.items()}


def _roots(module: Module | Iterable[Module]) -> list[Module]:
    """The module, or those of several that are in no other of them."""
    if isinstance(module, Module):
        return [module]
    modules = list(dict.fromkeys(module))
    inner = {id(child) for each in modules for child in each.modules() if child is not each}
    return [each for each in modules if id(each) not in inner]


def _names(module: Module) -> dict[str, list[str]]:
    return {
        "parameters": [name for name, _ in module.named_parameters()],
        "buffers": [name for name, _ in module.named_buffers()],
        "modules": [name for name, _ in module.named_modules()],
    }


def _check_names(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    for kind, old in before.items():
        if old == (new := after[kind]):
            continue
        changed = "FQNs" if set(old) != set(new) else "the order of FQNs"
        raise RuntimeError(
            f"Checking {kind}: Composable distributed API implementations cannot modify {changed}.\n"
            f"FQNs only in original: {set(old) - set(new)}\nFQNs only in new: {set(new) - set(old)}"
        )
