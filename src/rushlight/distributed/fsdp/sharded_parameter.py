"""Parameters of which each process keeps some rows, and memory for the whole while a module computes with it.

Note [Memory of gathered parameters]
The tensors that backward needs are views of a gathered parameter, so its memory keeps its address from one use to the next.
What is given back is the pages behind it: the system takes them, and brings new ones when the next gathering writes there.
Nothing may read it in between: the module has the sharded parameter again, and backward gathers before it reads.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.autograd.graph import increment_version
from rushlight.autograd.views import edge_of
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.work import Work
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

ALIGNED = 64  # bytes: rows of kernels begin there


class Region:
    """Memory that keeps its address when its pages are given back."""

    def __init__(self, sizes: Sequence[int]) -> None:
        starts, end = [], 0
        for size in sizes:
            starts.append(end)
            end += -(-size // ALIGNED) * ALIGNED
        flags = {}
        if hasattr(mmap, "MAP_ANONYMOUS"):
            flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self.size = max(end, 1)
        self._map = mmap.mmap(-1, self.size, **flags)
        self.starts = starts

    def tensor(self, k: int, shape: Sequence[int], dtype: Any) -> Tensor:
        """Tensor number `k`."""
        count = math.prod(shape)
        if count == 0:
            return rushlight.empty(tuple(shape), dtype=dtype)
        return rushlight.frombuffer(
            self._map, dtype=dtype, count=count, offset=self.starts[k]
        ).view(tuple(shape))

    def give_back(self) -> None:
        """Let the system have the pages. What is read before the next write is not the parameter."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def own_parameters(modules: Sequence[Module], kind: type, ignored: set[int]) -> list[tuple]:
    """(parameter, name, [(module, its name there)]) of all that no module of a class inside has already."""
    found: dict[int, tuple] = {}
    stack, seen = [(m, "") for m in reversed(modules)], set()
    while stack:
        module, prefix = stack.pop()
        if id(module) in seen or id(module) in ignored:
            continue
        seen.add(id(module))
        for name, p in module._parameters.items():
            if p is not None and id(p) not in ignored:
                found.setdefault(id(p), (p, prefix + name, []))[2].append((module, name))
        stack += [
            (child, f"{prefix}{name}.")
            for name, child in reversed(module._modules.items())
            if child is not None and not isinstance(child, kind)
        ]
    return list(found.values())


def local(tensor: Tensor) -> Tensor:
    """This process's part of a spread tensor; any other tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


def call_hooks(parameter: Any) -> None:
    """Call what is to be called after a gradient of a parameter that no backward comes to itself."""
    leaf = edge_of(parameter)
    if leaf is not None and leaf.hooks is not None:
        for hook in tuple(leaf.hooks.accumulated.values()):
            hook(parameter)


class ShardedParameter:
    """One parameter: `sharded`, which optimizers see, has rows of it, `unsharded` has all while a module computes."""

    def __init__(
        self, parameter: Tensor, places: list[tuple[Module, str]], shard_group: Any, dtype: Any,
        make: Callable[[Tensor, Tensor], Tensor], dim: int = 0,
    ) -> None:  # fmt: skip
        self.places, self.group, self.dim = places, shard_group, dim
        size, rank = (1, 0) if shard_group is None else (shard_group.size(), shard_group.rank())
        self.inner = getattr(
            parameter, "_spec", None
        )  # of a tensor that is spread over another mesh
        self.kind = type(parameter.data)
        whole = local(parameter.detach())
        self.shape = tuple(whole.shape)
        extent = self.shape[dim]
        if dim and extent % size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {whole.size()} (world size: {size})"
            )
        self.rows = -(-extent // size)  # those of one process, the last ones have fewer
        self.first = min(rank * self.rows, extent)
        self.count = min(self.rows, extent - self.first)
        self.size, self.wanted, self.dtype = size, dtype, dtype or parameter.dtype
        part = whole.narrow(dim, self.first, self.count).clone()
        self.sharded = make(part, parameter)
        self.spread: Any = type(self.sharded.data)
        self.unsharded: Parameter | None = None
        self.partial: Tensor | None = (
            None  # a gradient that other replicas have not added theirs to
        )
        self._buffer: Tensor | None = None
        self._seen: Any = None

    def filled_shape(self) -> tuple[int, ...]:
        """The shape of the gathered parameter, with rows that only fill it up."""
        d = self.dim
        return (*self.shape[:d], self.size * self.rows, *self.shape[d + 1 :])

    def bytes(self) -> int:
        """The size of the gathered parameter, with rows that only fill it up."""
        return math.prod(self.filled_shape()) * self.dtype.itemsize

    def settle(self, region: Region, k: int, ready: Callable[[Parameter], None]) -> None:
        """Take memory number `k` of a region. `ready` is called with the gathered parameter when it has a gradient."""
        self._buffer = region.tensor(k, self.filled_shape(), self.dtype)
        whole = self._buffer.narrow(self.dim, 0, self.shape[self.dim])
        if self.inner is not None:
            whole = self.kind(whole, self.inner._replace(dtype=self.dtype))
        self.unsharded = Parameter(whole, self.sharded.requires_grad)
        self._ready: Callable | None = ready
        self._hook()

    def _hook(self) -> None:
        if self._ready is not None and self.unsharded.requires_grad:  # type: ignore[union-attr]
            self.unsharded.register_post_accumulate_grad_hook(self._ready)  # type: ignore[union-attr]
            self._ready = None

    def place(self, parameter: Any) -> None:
        """Let the module have a parameter."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def padded(self, part: Tensor, rows: int) -> Tensor:
        """Contiguous rows, with more behind them if there are fewer."""
        if part.shape[self.dim] == rows:
            return part.contiguous()
        row = part.new_zeros((rows, *part.shape[1:]))
        row[: len(part)] = part
        return row

    def current(self) -> Any:
        """The sharded parameter that the module has: load_state_dict(assign=True) and others set it anew."""
        module, name = self.places[0]
        return module._parameters[name]

    def follows(self) -> bool:
        """Take the dtype that the sharded parameter has now, if no other is wanted; whether it is another one."""
        before, self.dtype = self.dtype, self.wanted or self.current().dtype
        return self.dtype is not before

    def version(self) -> int:
        """What counts up when the sharded parameter is written to."""
        return local(self.sharded)._version

    def begin_forward(self) -> None:
        """Before each forward with the gathered parameter."""

    def given(self) -> Tensor:
        """What this process gives to a gathering."""
        self.sharded = self.current()
        part = local(self.sharded).detach()
        if part.device.type == "meta":
            raise RuntimeError(
                "a parameter is on the meta device: give it memory with to_empty() and values before forward"
            )
        self.unsharded.requires_grad_(self.sharded.requires_grad)  # type: ignore[union-attr]
        self._hook()
        version = self.version()
        if version != self._seen:  # graphs that were recorded with older values see it
            self._seen = version
            increment_version(self.unsharded)
        return self.padded(part.to(self.dtype), self.rows)

    def take(self, rows: Tensor) -> None:
        """Put what all processes have given, one row of `rows` for each, into the memory of the whole."""
        d, whole = self.dim, self._buffer.data  # type: ignore[union-attr]
        parts = rows.view(self.size, *whole.shape[:d], self.rows, *whole.shape[d + 1 :])
        whole.unflatten(d, (self.size, self.rows)).copy_(parts.movedim(0, d))

    def reduce(self, gradient: Tensor, dtype: Any) -> tuple[Tensor, Work | None]:
        """Start to add up the gradients: (this process's rows of the sum, when they are there)."""
        if self.inner is not None:
            gradient = gradient.redistribute(placements=self.inner.placements)
        gradient = local(gradient.detach())
        row = self.padded(gradient.to(dtype or gradient.dtype), self.size * self.rows)
        if self.size == 1:
            return row, None
        d = self.dim
        if d:
            row = row.unflatten(d, (self.size, self.rows)).movedim(d, 0).contiguous()
        out = row.new_empty((*self.shape[:d], self.rows, *self.shape[d + 1 :]))
        work = collectives.reduce_scatter_tensor(out, row, ReduceOp.SUM, self.group, async_op=True)
        return out, work

    def accumulate(self, part: Tensor) -> None:
        """Add this process's rows of a gradient to the sharded parameter's."""
        rows = part.narrow(self.dim, 0, self.count).to(local(self.sharded).dtype)
        if self.sharded.grad is None:
            self.sharded.grad = self.like_sharded(rows)
        else:
            with rushlight.no_grad():
                local(self.sharded.grad).add_(rows)
        call_hooks(self.sharded)

    def like_sharded(self, part: Tensor) -> Tensor:
        """Rows as a tensor of the sharded parameter's kind."""
        if part is local(self.sharded) or not hasattr(self.sharded, "_spec"):
            return part
        return self.spread(part, self.sharded._spec._replace(dtype=part.dtype))


def gather(parameters: Sequence[ShardedParameter]) -> Callable[[], None]:
    """Start to bring all rows of some parameters together, in one message for each dtype. Returns what waits for them."""
    kinds: dict[Any, list[ShardedParameter]] = {}
    for each in parameters:
        kinds.setdefault(each.dtype, []).append(each)
    waits = [_gather_of_one_dtype(those) for those in kinds.values()]

    def wait() -> None:
        for each in waits:
            each()

    return wait


def _gather_of_one_dtype(those: Sequence[ShardedParameter]) -> Callable[[], None]:
    first, given = those[0], [each.given().view(-1) for each in those]
    alone = len(those) == 1 and first.dim == 0  # the rows arrive where they belong
    row = given[0] if len(given) == 1 else rushlight.cat(given)
    work, out = None, row.view(1, row.numel())
    if first.size > 1:
        out = first._buffer.data if alone else row.new_empty((first.size, row.numel()))  # type: ignore[union-attr]
        work = collectives.all_gather_into_tensor(out, row, first.group, async_op=True)

    def wait() -> None:
        if work is not None:
            work.wait()
            if alone:
                return
        start = 0
        for each, part in zip(those, given):
            each.take(out[:, start : start + part.numel()])
            start += part.numel()

    return wait
