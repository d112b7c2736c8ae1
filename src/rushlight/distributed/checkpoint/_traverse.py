"""Walks over nested states of dictionaries and lists, and values at paths of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.tensor import Tensor

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]

Path = tuple[str | int, ...]


def traverse_state_dict(
    state_dict: Mapping, visitor: Callable[[Path, Any], None], keep_traversing: Callable[[Any], bool] | None = None
) -> None:  # fmt: skip
    """Call `visitor` with the path and the value of each entry of a state.

    Dictionaries are walked over, and lists with a dictionary or a value for which `keep_traversing` holds somewhere inside:
    a tensor, unless it is given. All other lists, and tuples, are values. Keys of dictionaries are text in paths.
    """
    keep = keep_traversing or (lambda value: isinstance(value, Tensor))
    _walk((), state_dict, visitor, keep)


def _walk(
    path: Path, value: Any, visitor: Callable[[Path, Any], None], keep: Callable[[Any], bool]
) -> None:
    """The walk from `value`, at `path`, on."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _walk((*path, str(key)), inner, visitor, keep)
    elif isinstance(value, list) and _is_walked(value, keep):
        for number, inner in enumerate(value):
            _walk((*path, number), inner, visitor, keep)
    else:
        visitor(path, value)


def _is_walked(value: Any, keep: Callable[[Any], bool]) -> bool:
    """Whether something inside of a list is an entry of its own."""
    return any(
        isinstance(inner, Mapping) or keep(inner) or (isinstance(inner, list) and _is_walked(inner, keep))
        for inner in value
    )  # fmt: skip


def set_element(root_dict: Any, path: Path, value: Any) -> None:
    """Put a value at a path; dictionaries and lists on the way are made where they are missing."""
    inner = root_dict
    for key, below in itertools.pairwise(path):
        key = _reached(inner, key)
        if (inner[key] if isinstance(inner, list) else inner.get(key)) is None:
            inner[key] = [] if isinstance(below, int) else {}
        inner = inner[key]
    inner[_reached(inner, path[-1])] = value


def _reached(inner: Any, key: str | int) -> Any:
    """The key of a path in a dictionary, whose own may be no text; a list grows until it has the place."""
    if isinstance(inner, list):
        inner += [None] * (int(key) + 1 - len(inner))
    elif key not in inner:
        return next((own for own in inner if str(own) == key), key)
    return key


def get_element(root_dict: Any, path: Path, default_value: Any = None) -> Any:
    """The value at a path, or `default_value`."""
    inner = root_dict
    for key in path:
        if isinstance(inner, list) and isinstance(key, int):
            if key >= len(inner):
                return default_value
        elif not isinstance(inner, Mapping) or key not in inner:
            return default_value
        inner = inner[key]
    return inner


def print_tensor(path: Path, value: Any, print_fun: Callable[[str], None] = print) -> None:
    """A visitor that prints the class of each value, and the size of tensors."""
    if isinstance(value, Tensor):
        print_fun(f"{path} Tensor size: {value.size()}")
    else:
        print_fun(f"{path} Type: {type(value)}")
