"""`loss_parallel`: cross entropy of logits of which each process has some classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight.distributed.tensor import rules_nn

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which `cross_entropy` of logits that are cut along the classes leaves them where they are; backward
    belongs inside, too."""
    before, rules_nn.loss_parallel_on = rules_nn.loss_parallel_on, True
    try:
        yield
    finally:
        rules_nn.loss_parallel_on = before
