"""Blocks of autocast and inference mode in which a call is split: they are left between its parts and entered again.

Each part of a block of autocast casts the parameters that it uses itself, so that gradients of one that several parts use
meet in float32, and not in bfloat16 as they do where the block is not split.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.amp import autocast_mode
from rushlight.amp.autocast_mode import autocast
from rushlight.autograd.grad_mode import inference_mode, no_grad, set_grad_enabled
from rushlight.autograd.state import count_mode, thread

BLOCKS = (no_grad, set_grad_enabled, autocast, inference_mode)


def modes() -> tuple:
    """What blocks of autocast and inference mode change."""
    casts = autocast_mode._state
    return thread.inference, casts.enabled, casts.dtype, casts.cache_enabled


def set_modes(found: tuple) -> None:
    """Put back what `modes` gave."""
    casts = autocast_mode._state
    thread.inference, enabled, casts.dtype, casts.cache_enabled = found
    autocast_mode.set_autocast_cpu_enabled(enabled)


def grad_around(blocks: Sequence) -> bool | None:
    """Whether calls are recorded around blocks, the outermost first; None where they are as they are inside."""
    for b in blocks:
        if isinstance(b, inference_mode):
            return b.before[-1][0]
        if not isinstance(b, autocast):
            return b.outside
    return None


class Modes:
    """The modes inside and outside of blocks that frames are in, and how many blocks of each kind there are."""

    def __init__(self, blocks: Sequence) -> None:
        self.inside = self.outside = modes()
        for b in reversed(blocks):
            inference, *casts = self.outside
            if isinstance(b, inference_mode):
                inference = b.before[-1][1]
            elif isinstance(b, autocast):
                casts = b._before[-1]
            self.outside = (inference, *casts)
        self.inferences = sum(isinstance(b, inference_mode) for b in blocks)
        self.casts = sum(isinstance(b, autocast) for b in blocks)

    @property
    def told(self) -> tuple:
        """All that tells them from others."""
        return self.inside, self.outside, self.inferences, self.casts

    @property
    def some(self) -> bool:
        """Whether there are blocks."""
        return bool(self.inferences or self.casts)

    def enter(self) -> None:
        """Be inside of the blocks."""
        self._count(+1)
        set_modes(self.inside)

    def leave(self) -> None:
        """Be outside of the blocks."""
        set_modes(self.outside)
        self._count(-1)
        if self.casts and not autocast_mode._state.nesting:
            autocast_mode.clear_autocast_cache()

    def _count(self, change: int) -> None:
        if self.inferences:
            count_mode(change * self.inferences, inference=True)
        autocast_mode._state.nesting += change * self.casts
