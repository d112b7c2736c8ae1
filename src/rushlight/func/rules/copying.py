"""Batching rules of copies, conversions, fills and random numbers."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.dispatch.batch import RULES, Batched, in_front
from rushlight.func.rules.rules import first_only, rule

for path in "_to_device Tensor.zero Tensor.fill_number_ Tensor.fill_number".split():
    RULES[path] = first_only


@rule("clone", "_to_copy")
def copy(b: Batched) -> Any:
    wanted = b.named.get("memory_format")
    if wanted in (torch.channels_last, torch.channels_last_3d):
        from rushlight.dispatch.batch import loop

        return loop(b)
    return b.call()


@rule("Tensor.fill_tensor", "Tensor.fill_tensor_")
def fill(b: Batched) -> Any:
    return torch.broadcast_to(
        in_front(b.expanded("value"), b.ndim("input")), (b.size, *b.shape("input"))
    ).to(b.named["input"].dtype)


@rule("Tensor.copy")
def copy_from(b: Batched) -> Any:
    src = in_front(b.expanded("src"), max(b.ndim("input"), b.ndim("src")))
    return src.to(b.named["input"].dtype).expand(b.size, *b.shape("input"))
