"""Samples made into batches."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor

__all__ = ["collate", "collate_tensor_fn", "default_collate", "default_convert"]


np_str_obj_array_pattern = re.compile(r"[SaUO]")  # what `dtype.str` has of text and of objects

# In a worker process the memory that it shares with its parent (see shared.py).
arena: Any = None


def _rebuilt(container: Any, mapped: Any) -> Any:
    """The mapped values in a container of the same class, or a plain one where that fails."""
    try:
        if isinstance(container, MutableMapping):
            clone = copy.copy(container)  # keeps what a class of the user's holds besides
            clone.update(mapped)
            return clone
        if isinstance(container, Mapping):
            return type(container)(mapped)
        if isinstance(container, MutableSequence):
            clone = copy.copy(container)
            for i, value in enumerate(mapped):
                clone[i] = value
            return clone
        return type(container)(mapped)
    except TypeError:
        # Its class cannot be copied, assigned to, or made from values alone: `range`, for instance.
        return mapped


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays and numbers in nested containers to tensors; other values are unchanged.

    >>> import numpy as np
    >>> default_convert({"a": np.array([0, 1]), "b": "text"})
    {'a': tensor([0, 1]), 'b': 'text'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        # Text and objects have no tensor.
        return (
            data if np_str_obj_array_pattern.search(data.dtype.str) else rushlight.as_tensor(data)
        )
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        values = [default_convert(value) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(value) for value in data])
    return data


def collate_tensor_fn(batch: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Strided tensors of one shape, stacked along a new first dimension."""
    nested = batch[0].is_nested
    if nested or batch[0].layout is not rushlight.strided:
        kind = "nested" if nested else "sparse"
        raise RuntimeError(
            f"Batches of {kind} tensors are not currently supported by the default collate_fn: give the loader one that "
            "returns them as a list"
        )
    if arena is not None and (stacked := arena.stack(batch)) is not None:
        return stacked
    return rushlight.stack(batch, 0)


def _arrays(batch: list[Any], *, collate_fn_map: Any = None) -> Any:
    elem = batch[0]
    if np_str_obj_array_pattern.search(elem.dtype.str):
        raise TypeError(_unknown(elem.dtype))
    if isinstance(elem, np.ndarray):
        return rushlight.stack([rushlight.as_tensor(array) for array in batch], 0)
    return rushlight.as_tensor(np.stack(batch))


def _floats(batch: list[float], *, collate_fn_map: Any = None) -> Tensor:
    return rushlight.tensor(batch, dtype=rushlight.float64)


def _ints(batch: list[int], *, collate_fn_map: Any = None) -> Tensor:
    return rushlight.tensor(batch)


def _texts(batch: list[Any], *, collate_fn_map: Any = None) -> list[Any]:
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: _arrays,
    (np.bool_, np.number, np.object_): _arrays,
    float: _floats,
    int: _ints,
    str: _texts,
    bytes: _texts,
}


def _unknown(what: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {what}"
    )


def collate(
    batch: list[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None
) -> Any:
    """Collate samples to one batch; the map gives the function for each type of element."""
    elem = batch[0]
    kind = type(elem)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(elem, known):
                return function(batch, collate_fn_map=collate_fn_map)

    def inner(samples: Any) -> Any:
        return collate(list(samples), collate_fn_map=collate_fn_map)

    if isinstance(elem, Mapping):
        return _rebuilt(elem, {key: inner(sample[key] for sample in batch) for key in elem})
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return kind(*(inner(samples) for samples in zip(*batch, strict=True)))
    if isinstance(elem, Sequence):
        try:
            by_place = list(zip(*batch, strict=True))
        except ValueError:
            raise RuntimeError("each element in list of batch should be of equal size") from None
        columns = [collate(samples, collate_fn_map=collate_fn_map) for samples in by_place]
        return columns if isinstance(elem, tuple) else _rebuilt(elem, columns)
    raise TypeError(_unknown(kind))


def default_collate(batch: list[Any]) -> Any:
    """Samples as one batch: tensors stacked, numbers as a tensor, containers element by element.

    >>> default_collate([{"x": 0, "y": "a"}, {"x": 1, "y": "b"}])
    {'x': tensor([0, 1]), 'y': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
