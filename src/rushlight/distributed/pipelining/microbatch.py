"""Batches in parts, and results of parts as one."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is cut."""

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """One for each dimension of a tuple."""
        return tuple(map(TensorChunkSpec, chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each dimension of a dict."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def parts(value: Any, count: int, spec: TensorChunkSpec | None = None) -> list:
    """A value for each of `count` parts: a tensor is cut, others are the same for all."""
    if not isinstance(value, Tensor):
        return [value] * count
    dim = 0 if spec is None else spec.split_dim
    if value.ndim <= dim or value.shape[dim] < count:
        raise ValueError(
            f"a tensor of shape {tuple(value.shape)} cannot be cut into {count} microbatches"
        )
    return list(value.tensor_split(count, dim))


def split_args_kwargs_into_chunks(
    args: tuple, kwargs: dict | None, chunks: int, args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None
) -> tuple[list, list]:  # fmt: skip
    """(the arguments of each part, their keywords).

    >>> split_args_kwargs_into_chunks((rushlight.arange(4), 5), None, 2)
    ([(tensor([0, 1]), 5), (tensor([2, 3]), 5)], [{}, {}])
    """
    specs, named = args_chunk_spec or (None,) * len(args), kwargs_chunk_spec or {}
    columns = [parts(v, chunks, spec) for v, spec in zip(args, specs)]
    names = {k: parts(v, chunks, named.get(k)) for k, v in (kwargs or {}).items()}
    rows = [tuple(column[k] for column in columns) for k in range(chunks)]
    return rows, [{name: values[k] for name, values in names.items()} for k in range(chunks)]


def merge_chunks(chunks: list, chunk_spec: Any = None) -> Any:
    """The results of all parts as one.

    >>> merge_chunks([(rushlight.zeros(1), "a"), (rushlight.ones(2), "a")])
    (tensor([0., 1., 1.]), 'a')
    """
    values, spec, first = chunks, chunk_spec, chunks[0]
    if isinstance(first, Tensor):
        return (
            rushlight.cat(values, 0 if spec is None else spec.split_dim)
            if first.ndim
            else rushlight.stack(values)
        )
    if isinstance(first, (tuple, list)):
        specs = spec if isinstance(spec, (tuple, list)) else (spec,) * len(first)
        return type(first)(
            [merge_chunks(list(column), s) for column, s in zip(zip(*values), specs)]
        )
    if isinstance(first, dict):
        return {k: merge_chunks([v[k] for v in values], (spec or {}).get(k)) for k in first}
    return first
