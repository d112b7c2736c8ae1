"""What several processes have is written once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rushlight.distributed.checkpoint.metadata import MetadataIndex
from rushlight.distributed.checkpoint.planner import SavePlan

__all__ = ["dedup_save_plans"]


def dedup_save_plans(
    all_plans: Sequence[SavePlan], save_to_lowest_rank: bool = False
) -> list[SavePlan]:
    """Plans in which each item stands once: at the process with the fewest bytes so far, or the first of those that have it."""
    owners: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
            sizes[item.index] = item.tensor_storage_size() or 1
    load, chosen = [0] * len(all_plans), {}
    for index, ranks in owners.items():
        rank = ranks[0] if save_to_lowest_rank else min(ranks, key=load.__getitem__)
        chosen[index] = rank
        load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def dedup_tensors(all_plans: Sequence[SavePlan]) -> list[SavePlan]:
    """Plans in which each item stands once, at the first process that has it."""
    return dedup_save_plans(all_plans, save_to_lowest_rank=True)
