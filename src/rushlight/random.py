"""Seeds and generators: `manual_seed`, `Generator`, `get_rng_state`, `fork_rng`.

>>> import rushlight as torch
>>> g = torch.manual_seed(3)
>>> state = torch.get_rng_state()
>>> a = torch.rand(2)
>>> torch.set_rng_state(state)
>>> bool((torch.rand(2) == a).all())
True
"""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.rng.generator import Generator, default_generator

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def manual_seed(seed: Any) -> Generator:
    """Start the default generator from `seed`, an integer in [-2**63, 2**64), and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default generator from a seed made up by the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed from which the default generator was started."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator: uint8 [5056]."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue from a state of `get_rng_state`."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """The generator of a DataLoader worker thread; None outside of one."""
    return None


class fork_rng:
    """A block (or function) after which the default generator goes on as if it had not run."""

    def __init__(
        self, devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
        _devices_kw: str = "devices", device_type: str = "cuda",
    ) -> None:  # fmt: skip
        self.enabled = enabled
        self.states: list[Tensor] = []

    def __enter__(self) -> None:
        if self.enabled:
            self.states.append(get_rng_state())

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            set_rng_state(self.states.pop())

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def forked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return forked
