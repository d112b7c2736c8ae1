"""PowerSGD: gradients are sent as products of two narrow matrices (Vogels, Karimireddy and Jaggi, 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

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
        self.rng = np.random.RandomState(random_seed)  # all processes draw the same numbers
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
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


def _drawn(state: PowerSGDState, matrices: Sequence[Tensor], ranks: Sequence[int]) -> list[Tensor]:
    """Random matrices to begin with, the same on all processes: PyTorch's numbers."""
    made: list[Any] = [None] * len(matrices)
    shapes: dict[Any, list[int]] = {}
    for k, matrix in enumerate(matrices):
        shapes.setdefault(matrix.shape, []).append(k)
    with rushlight.random.fork_rng(devices=[]):
        rushlight.manual_seed(state.rng.randint(1_000_000_000))
        for (_, columns), alike in shapes.items():
            together = len(alike) if state.batch_tensors_with_same_shape else 1
            for first in range(0, len(alike), together):
                k = alike[first]
                drawn = rushlight.randn(together, columns, ranks[k], dtype=matrices[k].dtype)
                for place, q in zip(alike[first : first + together], drawn):
                    made[place] = q
    return made


def _approximate(
    state: PowerSGDState, bucket: int, matrices: list[Tensor], ranks: list[int], epsilon: float, group: Any
) -> None:  # fmt: skip
    """Put approximations of these ranks of their averages over all processes into matrices."""
    state.total_numel_after_compression += sum(
        sum(m.shape) * rank for m, rank in zip(matrices, ranks)
    )
    kept = state.q_memory_dict.get(bucket) if state.warm_start else None
    right = [_orthogonal(q, epsilon) for q in kept or _drawn(state, matrices, ranks)]
    left = _summed([m @ q for m, q in zip(matrices, right)], group)
    left = [_orthogonal(p, epsilon) for p in left]
    right = _summed([m.t() @ p for m, p in zip(matrices, left)], group)
    state.q_memory_dict[bucket] = [q.div_(group.size()) for q in right]
    for matrix, p, q in zip(matrices, left, right):
        matrix.copy_(p @ q.t())


def _approximate_wide(state: PowerSGDState, bucket: int, tensors: list[Tensor], group: Any) -> None:
    """Exchange matrices for approximations of their averages, and tensors that would not become smaller for their averages."""
    matrices, ranks, rest = [], [], []
    for tensor in tensors:
        rows = len(tensor) if tensor.dim() else 1
        columns = tensor.numel() // max(rows, 1)
        rank = min(rows, columns, state.matrix_approximation_rank)
        sent = (rows + columns) * rank
        if tensor.dim() > 1 and sent * state.min_compression_rate < rows * columns:
            matrices.append(tensor.view(rows, columns))
            ranks.append(rank)
        else:
            rest.append(tensor)
            state.total_numel_after_compression += tensor.numel()
    if rest:
        for tensor, total in zip(rest, _summed(rest, group)):
            tensor.copy_(total.div_(group.size()))
    if matrices:
        epsilon = state.orthogonalization_epsilon
        _approximate(state, bucket, matrices, ranks, epsilon, group)


def _hook(state: PowerSGDState, bucket: GradBucket, batched: bool) -> Future[Tensor]:
    group = _get_default_group() if state.process_group is None else state.process_group
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    row, number = bucket.buffer(), bucket.index()
    state.total_numel_before_compression += row.numel()
    side = math.ceil(math.sqrt(row.numel()))
    whole = row
    if batched:
        whole = row.new_zeros(side * side)
        whole[: row.numel()] = row
    if state.use_error_feedback:
        if (error := state.error_dict.get(number)) is not None:
            whole.add_(error)
        before = whole.clone()
    if batched:
        square, rank = whole.view(side, side), state.matrix_approximation_rank
        _approximate(state, number, [square], [rank], 0, group)
        row.copy_(whole[: row.numel()])
    else:
        _approximate_wide(state, number, bucket.gradients(), group)
    if state.use_error_feedback:
        state.error_dict[number] = before.sub_(whole)
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
