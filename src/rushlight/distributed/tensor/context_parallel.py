"""`context_parallel`: long sequences, of which each process of a mesh has a part.

Note [Parts of sequences]
A sequence is cut into twice as many chunks as there are processes, and process r has chunk r and chunk r of those from the end:
with a causal mask all have as much to compute. Attention is the only layer that sees other places of a sequence than its own.
Each process gathers keys and values of all, and its queries see those that the mask of their places lets them see; the
gradients of keys and values go back to where these came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.distributed import nn as communication
from rushlight.distributed.tensor.api import DTensor
from rushlight.nn import functional
from rushlight.ops.nn import attention as attention_file

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]

NAME = "scaled_dot_product_attention"


@dataclass
class Options:
    """`enable_load_balance`: whether a process has two chunks, or one piece. The others change no result here."""

    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: str = "allgather"


_cp_options = Options()


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values go round: "allgather" or "alltoall". They are gathered with both."""
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(
            f"Context Parallel does not support using {rotate_method} for kv shards rotation"
        )
    _cp_options.rotate_method = rotate_method


def places(length: int, ranks: int, balanced: bool) -> list[Tensor]:
    """The places in a sequence that each process has. See Note [Parts of sequences].

    >>> [each.tolist() for each in places(8, 2, True)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    every = rushlight.arange(length)
    if not balanced or length % (2 * ranks):
        return list(every.split(length // ranks))
    chunks = every.chunk(2 * ranks)
    return [rushlight.cat([chunks[k], chunks[-1 - k]]) for k in range(ranks)]


def _group(mesh: Any) -> Any:
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel: a mesh of one dimension, not of {mesh.ndim}")
    return mesh.get_group()


def _whole(tensor: Tensor, dim: int, group: Any, order: Tensor) -> Tensor:
    """What all have, in the order of the sequence."""
    return rushlight.cat(communication.functional.all_gather(tensor, group), dim).index_select(
        dim, order
    )


def _attention(mesh: Any, plain: Callable) -> Callable:
    """`scaled_dot_product_attention` of parts of sequences."""
    group, rank, ranks = _group(mesh), mesh.get_local_rank(), mesh.size()
    balanced = _cp_options.enable_load_balance

    def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        if attn_mask is not None:
            raise NotImplementedError(
                f"{NAME}(attn_mask=...) within context_parallel: give is_causal"
            )
        if isinstance(query, DTensor):
            parts = [each.to_local() for each in (query, key, value)]
            found = scaled_dot_product_attention(
                *parts, None, dropout_p, is_causal, scale, enable_gqa
            )
            return DTensor.from_local(found, query.device_mesh, query.placements)
        if query.shape[-2] != key.shape[-2]:
            raise ValueError(f"{NAME} within context_parallel: as many queries as keys")
        every = places(key.shape[-2] * ranks, ranks, balanced)
        order = rushlight.cat(every).argsort()
        key, value = (_whole(each, each.ndim - 2, group, order) for each in (key, value))
        mask = None
        if is_causal:
            end = int(every[rank].max()) + 1  # nobody here sees more
            key, value = key[..., :end, :], value[..., :end, :]
            mask = every[rank][:, None] >= rushlight.arange(end)
        return plain(query, key, value, mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa)

    return scaled_dot_product_attention


@contextmanager
def context_parallel(
    mesh: Any, *, buffers: Sequence[Tensor] | None = None, buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:  # fmt: skip
    """A block in which this process has a part of each sequence: attention sees the others, see Note [Parts of sequences].

    `buffers` (inputs, labels, tables of positions) are cut to that part in place, along `buffer_seq_dims`; after the block they
    are whole again, without `no_restore_buffers`. Forward and backward belong into the block.
    """
    buffers, dims = list(buffers or ()), list(buffer_seq_dims or ())
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    left = [id(each) for each in no_restore_buffers or ()]
    if not set(left) <= {id(each) for each in buffers}:
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    rank, ranks, balanced = mesh.get_local_rank(), mesh.size(), _cp_options.enable_load_balance
    attention = _attention(mesh, getattr(functional, NAME))
    for each, dim in zip(buffers, dims):
        if each.shape[dim] % ranks:
            raise ValueError(
                f"context_parallel: {each.shape[dim]} places cannot be cut for {ranks} processes"
            )
    before: list[tuple[Tensor, Tensor]] = []
    homes = [
        (functional, getattr(functional, NAME)),
        (attention_file, getattr(attention_file, NAME)),
    ]
    try:
        with no_grad():
            for each, dim in zip(buffers, dims):
                mine = each.index_select(dim, places(each.shape[dim], ranks, balanced)[rank])
                before += [] if id(each) in left else [(each, each.clone())]
                each.resize_(mine.shape).copy_(mine)
        for home, _ in homes:
            setattr(home, NAME, attention)
        yield
    finally:
        for home, plain in homes:
            setattr(home, NAME, plain)
        with no_grad():
            for each, whole in before:
                each.resize_(whole.shape).copy_(whole)


@no_grad()
def context_parallel_unshard(
    mesh: Any, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None
) -> list[Tensor]:  # fmt: skip
    """The whole of tensors of which each process has a part, as in `context_parallel`."""
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard(load_balancer=...)")
    group, ranks, found = _group(mesh), mesh.size(), []
    for each, dim in zip(buffers, seq_dims, strict=True):
        every = places(each.shape[dim] * ranks, ranks, _cp_options.enable_load_balance)
        found.append(_whole(each, dim, group, rushlight.cat(every).argsort()))
    return found
