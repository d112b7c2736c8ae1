"""`torch.distributed.tensor.placement_types`: where the parts of a tensor are along one dimension of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along one dimension of a mesh: `Shard`, `Replicate` or `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along dimension `dim` if one is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of what the processes have."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along dimension `dim`: those of `torch.chunk`, the last ones may be smaller or empty.

    >>> Shard(0)
    Shard(dim=0)
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(size: int, count: int, rank: int) -> tuple[int, int]:
        """(how many of `size` rows the process `rank` of `count` has, the first of them).

        >>> [Shard.local_shard_size_and_offset(5, 4, k) for k in range(4)]
        [(2, 0), (2, 2), (1, 4), (0, 5)]
        """
        most = -(-size // count)
        first = min(most * rank, size)
        return min(most, size - first), first


@dataclass(frozen=True)
class _StridedShard(Shard):
    """As `Shard`, of the parts that other dimensions of the mesh make first, `split_factor` of them."""

    split_factor: int = 1

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


def order_of_cuts(placements: Sequence[Placement]) -> list[int]:
    """The dimensions of a mesh, in the order in which they cut a tensor.

    >>> order_of_cuts([_StridedShard(0, 2), Shard(0)])
    [1, 0]
    """
    return sorted(range(len(placements)), key=lambda i: isinstance(placements[i], _StridedShard))


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor.

    >>> Replicate()
    Replicate()
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the reduction of what the processes have: its "sum", "avg", "product", "min" or "max".

    >>> Partial()
    Partial(sum)
    """

    reduce_op: str = "sum"
    LINEAR: ClassVar = ("sum", "avg")

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
