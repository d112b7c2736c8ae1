"""`loss_parallel`: cross entropy of logits of which each process has some classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight.distributed.tensor import dispatch, rules_nn

__all__ = ["loss_parallel"]

LOSSES = frozenset(("nll_loss_forward", "nn_functional__nll_loss_backward"))


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which `cross_entropy` of logits that are cut along the classes leaves them where they are; backward
    belongs inside, too. Targets and weights that are plain tensors are the same everywhere."""
    before = rules_nn.loss_parallel_on, dispatch.targets
    rules_nn.loss_parallel_on, dispatch.targets = True, LOSSES
    try:
        yield
    finally:
        rules_nn.loss_parallel_on, dispatch.targets = before
