"""Random numbers of spread tensors: those that the first process of the mesh would draw for the whole tensor.

Every process draws all of them and keeps its part, so that they do not depend on how the tensor lies or how many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.tensor.dispatch import REPLICATE, SPECIAL
from rushlight.distributed.tensor.placement_types import Partial
from rushlight.distributed.tensor.redistribute import redistribute
from rushlight.distributed.tensor.spec import DTensorSpec

__all__ = ["manual_seed"]


def manual_seed(seed: int, device_mesh: Any) -> None:
    """Seed the random numbers of the processes of a mesh; all give the same number."""
    mine = rushlight.tensor([seed], dtype=rushlight.int64)
    for i in range(device_mesh.ndim):
        first = mine.clone()
        collectives.broadcast(first, group=device_mesh.get_group(i), group_src=0)
        if first.item() != seed:
            raise RuntimeError(
                "calling manual_seed function over device mesh but received different seed values!"
            )
    rushlight.manual_seed(seed)


@contextmanager
def drawn_alike(mesh: Any) -> Iterator[None]:
    """A block in which all processes of a mesh draw what the first would. Those whose generator stood elsewhere have
    it there again afterwards."""
    mine = rushlight.get_rng_state()
    common = mine.clone()
    for i in reversed(range(mesh.ndim)):
        if mesh.size(i) > 1:
            collectives.broadcast(common, group=mesh.get_group(i), group_src=0)
    alike = bool((common == mine).all())
    if not alike:
        rushlight.set_rng_state(common)
    try:
        yield
    finally:
        if not alike:
            rushlight.set_rng_state(mine)


def drawn(make: Callable[[], Tensor], spec: DTensorSpec) -> Tensor:
    """This process's part of what `make` draws for the whole tensor."""
    with drawn_alike(spec.mesh):
        whole = make()
    placed = spec.placed((REPLICATE,) * spec.mesh.ndim)
    return redistribute(whole, placed, spec.placements)


def write(kind: type, func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator that fills a tensor with random numbers."""
    t, *others = args
    spec = t._spec
    if others and isinstance(others[0], Tensor) or spec.mesh.get_coordinate() is None:
        raise NotImplementedError(f"{func} of a DTensor with parameters that are tensors")
    part = drawn(
        lambda: func(rushlight.empty(spec.shape, dtype=spec.dtype), *others, **kwargs), spec
    )
    t._local_tensor.copy_(part)
    return t


def like(kind: type, func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator that makes random numbers of a tensor's shape, or of its values."""
    t, *others = args
    whole = (REPLICATE,) * t._spec.mesh.ndim
    value = redistribute(t._local_tensor, t._spec, whole)
    with drawn_alike(t._spec.mesh):
        found = func(value, *others, **kwargs)
    kept = [REPLICATE if isinstance(p, Partial) else p for p in t._spec.placements]

    def part(r: Tensor) -> Any:
        spec = DTensorSpec(t._spec.mesh, whole, tuple(r.shape), tuple(r.stride()), r.dtype)
        placed = kept if spec.shape == t._spec.shape else whole
        return kind(redistribute(r, spec, placed), spec.placed(placed))

    return tuple(map(part, found)) if isinstance(found, tuple) else part(found)


SPECIAL.update(
    dict.fromkeys(
        "uniform_ normal_ bernoulli_ random_ exponential_ geometric_ cauchy_ log_normal_".split(),
        write,
    )
)
SPECIAL.update(
    dict.fromkeys(
        "rand_like randn_like randint_like bernoulli native_dropout multinomial poisson".split(),
        like,
    )
)
