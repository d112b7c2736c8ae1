"""PowerSGD: gradients are sent as products of two narrow matrices (Vogels, Karimireddy and Jaggi, 2019)."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.groups import _get_default_group
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Options, and what is kept from one step to the next: errors of the approximation and its matrices."""

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2, use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0, compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = (
            process_group,
            matrix_approximation_rank,
        )
        self.start_powerSGD_iter, self.min_compression_rate = (
            start_powerSGD_iter,
            min_compression_rate,
        )
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = rushlight.Generator().manual_seed(random_seed)  # all draw the same numbers
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[tuple[int, int], Tensor] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step, with its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """(how much less was sent, elements there were, elements that were sent)."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)


def _orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """Orthonormal columns that span what those of a matrix do. `epsilon` is added to their lengths."""
    if not epsilon:
        return rushlight.linalg.qr(matrix)[0]
    made: list[Tensor] = []
    for column in matrix.unbind(1):
        for other in made:
            column = column - other * (other @ column)
        made.append(column / (column.norm() + epsilon))
    return rushlight.stack(made, 1)


def _summed(matrices: list[Tensor], group: Any) -> list[Tensor]:
    """The sums over all processes, in one message."""
    row = rushlight.cat([m.reshape(-1) for m in matrices])
    collectives.all_reduce(row, group=group)
    pieces = row.split([m.numel() for m in matrices])
    return [piece.view(m.shape) for piece, m in zip(pieces, matrices)]


def _approximate(
    state: PowerSGDState, bucket: GradBucket, tensors: list[Tensor], group: Any
) -> None:
    """Exchange matrices for approximations of their averages, and other tensors for their averages."""
    wide, rest = [], []
    for k, tensor in enumerate(tensors):
        rows, columns = len(tensor) if tensor.dim() else 1, 0
        columns = tensor.numel() // max(rows, 1)
        rank = min(rows, columns, state.matrix_approximation_rank)
        sent = (rows + columns) * rank
        narrow = tensor.dim() > 1 and sent * state.min_compression_rate < rows * columns
        state.total_numel_before_compression += tensor.numel()
        state.total_numel_after_compression += sent if narrow else tensor.numel()
        (wide if narrow else rest).append((k, tensor, rank))
    size = group.size()
    if rest:
        found = _summed([tensor for _, tensor, _ in rest], group)
        for (_, tensor, _), total in zip(rest, found):
            tensor.copy_(total.div_(size))
    if not wide:
        return
    matrices = [tensor.view(len(tensor), -1) for _, tensor, _ in wide]
    right = []
    for (k, _, rank), matrix in zip(wide, matrices):
        key = (bucket.index(), k)
        q = state.q_memory_dict.get(key) if state.warm_start else None
        if q is None:
            q = rushlight.randn(matrix.shape[1], rank, generator=state.rng, dtype=matrix.dtype)
        right.append(_orthogonal(q, state.orthogonalization_epsilon))
    left = [
        _orthogonal(p, state.orthogonalization_epsilon)
        for p in _summed([m @ q for m, q in zip(matrices, right)], group)
    ]
    right = _summed([m.t() @ p for m, p in zip(matrices, left)], group)
    for (k, _, _), matrix, p, q in zip(wide, matrices, left, right):
        state.q_memory_dict[bucket.index(), k] = q
        matrix.copy_(p @ q.div_(size).t())


def _hook(state: PowerSGDState, bucket: GradBucket, batched: bool) -> Future[Tensor]:
    group = _get_default_group() if state.process_group is None else state.process_group
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    row = bucket.buffer()
    if state.use_error_feedback:
        if (error := state.error_dict.get(bucket.index())) is not None:
            row.add_(error)
        before = row.clone()
    if batched:
        side = math.ceil(math.sqrt(row.numel()))
        square = row.new_zeros(side * side)
        square[: row.numel()] = row
        _approximate(state, bucket, [square.view(side, side)], group)
        row.copy_(square[: row.numel()])
    else:
        _approximate(state, bucket, bucket.gradients(), group)
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = before.sub_(row)
    state.maybe_increase_iter(bucket)
    done: Future[Tensor] = Future()
    done.set_result(row)
    return done


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Send each matrix of a bucket as a product of two narrow ones. The first steps average as usual."""
    return _hook(state, bucket, batched=False)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Send a bucket as one square matrix: faster, and coarser, than `powerSGD_hook`."""
    return _hook(state, bucket, batched=True)
