"""`FlatParameter`: the parameters of a module in one row, of which each process keeps one part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.fsdp.sharded_parameter import ShardedParameter, call_hooks
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

NAME = "_flat_param"


class Original(NamedTuple):
    """A parameter in the row: its name, where modules have it, its shape, where it begins."""

    name: str
    places: list[tuple[Module, str]]
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        """Where it ends in the row."""
        return self.start + math.prod(self.shape)


class FlatParameter(ShardedParameter):
    """Some parameters in one row. `use_orig_params`: modules have their parts of it as parameters, and not the row."""

    def __init__(
        self, module: Module, found: Sequence[tuple], shard_group: Any, dtype: Any, use_orig_params: bool
    ) -> None:  # fmt: skip
        first = found[0][0]
        if any(p.dtype is not first.dtype for p, _, _ in found):
            kinds = {str(p.dtype) for p, _, _ in found}
            raise ValueError(
                f"Must flatten tensors with uniform dtype but got {' and '.join(sorted(kinds))}"
            )
        if len({p.requires_grad for p, _, _ in found}) > 1 and not use_orig_params:
            raise ValueError(
                "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`"
            )
        self.module, self.use_orig_params = module, use_orig_params
        self.row: Any = None  # the whole row in full precision, a tensor while it is shown
        self.originals, rows, start = [], [], 0
        for parameter, name, places in found:
            self.originals.append(Original(name, places, tuple(parameter.shape), start))
            rows.append(parameter.detach().reshape(-1))
            start += parameter.numel()
        self.numel = start
        size = 1 if shard_group is None else shard_group.size()
        rows.append(first.detach().new_zeros(-start % size))
        row = rushlight.cat(rows).requires_grad_(any(p.requires_grad for p, _, _ in found))
        super().__init__(
            row, [(module, NAME)], shard_group, dtype, lambda p, w: Parameter(p, w.requires_grad)
        )
        self._parts = []
        for (parameter, _, _), original in zip(found, self.originals):
            for at, name in original.places:
                del at._parameters[name]
            if use_orig_params:
                part = self.part(self.sharded.data, original)
                self._parts.append(Parameter(part, parameter.requires_grad))
        if not use_orig_params:
            module._parameters[NAME] = self.sharded
        self.place(self.sharded)

    def part(self, row: Tensor, original: Original) -> Tensor:
        """What of a parameter is in this process's part of the row."""
        a, b = (min(max(k - self.first, 0), self.rows) for k in (original.start, original.stop))
        return row[a:b]

    def pieces(self, row: Tensor) -> list[Tensor]:
        """The parameters as views of the whole row."""
        return [row[o.start : o.stop].view(o.shape) for o in self.originals]

    def whole(self, row: Tensor) -> Tensor:
        """The whole row of which each process has a part."""
        if self.size == 1:
            return row
        out = row.new_empty(self.size * self.rows)
        collectives.all_gather_into_tensor(out, row.contiguous(), self.group)
        return out

    def mine(self, row: Tensor) -> Tensor:
        """This process's part of a whole row, which may lack the end that fills it up."""
        part = row.reshape(-1)[self.first : self.first + self.rows]
        return self.padded(part, self.rows)

    # -- what modules have -------------------------------------------------------------------------

    def place(self, parameter: Any) -> None:
        """Let the modules have what they have between uses; for use see `begin_forward`."""
        if parameter is self.unsharded:
            return
        for k, original in enumerate(self.originals):
            between = (
                self._parts[k]
                if self.use_orig_params
                else rushlight.empty(original.shape, dtype=self.dtype, device="meta")
            )
            self._give(original, between)

    def _give(self, original: Original, value: Any) -> None:
        for module, name in original.places:
            if self.use_orig_params:
                module._parameters[name] = value
            else:
                module.__dict__[name] = value

    def begin_forward(self) -> None:
        """Let the modules compute with views of the whole row."""
        for k, (original, piece) in enumerate(zip(self.originals, self.pieces(self.unsharded))):  # type: ignore[arg-type]
            frozen = self.use_orig_params and not self._parts[k].requires_grad
            self._give(original, piece.detach() if frozen else piece)

    def gathered(self) -> Tensor:
        """A copy of the whole row, in the dtype of the parts that processes keep."""
        self.sharded = self.current()
        row = self.sharded.detach()
        return row.clone() if self.size == 1 else self.whole(row)

    def summon(self) -> list[Parameter]:
        """Let the modules have the parameters of `row` under their names."""
        self.module._parameters.pop(NAME, None)
        made = [Parameter(p, self.sharded.requires_grad) for p in self.pieces(self.row)]
        for original, parameter in zip(self.originals, made):
            for module, name in original.places:
                module.__dict__.pop(name, None)
                module._parameters[name] = parameter
        return made

    def dismiss(self, writeback: bool) -> None:
        """The end of `summon`; `writeback`: what was written to the whole parameters is kept."""
        if writeback:
            with rushlight.no_grad():
                self.sharded.data.copy_(self.mine(self.row))
        if not self.use_orig_params:
            for original in self.originals:
                for module, name in original.places:
                    module._parameters.pop(name, None)
            self.module._parameters[NAME] = self.sharded
        self.place(self.sharded)

    @contextmanager
    def converted(self, fn: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """A block in which modules convert what they have by `fn`; their parts of the row are converted with the row."""
        if not self.use_orig_params:
            yield
            return
        for original in self.originals:
            self._give(original, None)
        try:
            yield
            with rushlight.no_grad():
                self.sharded.data = fn(self.sharded.data)
                for original, part in zip(self.originals, self._parts):
                    gradient, part.grad = part.grad, None
                    part.data = self.part(self.sharded.data, original)
                    part.grad = None if gradient is None else fn(gradient)
        finally:
            self.place(self.sharded)

    # -- what the sharded parameter has ------------------------------------------------------------

    def current(self) -> Any:
        return self.sharded if self.use_orig_params else super().current()

    def version(self) -> int:
        return sum(p._version for p in (self.sharded, *self._parts))

    def accumulate(self, part: Tensor) -> None:
        if not self.use_orig_params:
            return super().accumulate(part)
        for original, parameter in zip(self.originals, self._parts):
            rows = self.part(part, original).to(parameter.dtype)
            if not parameter.requires_grad:
                continue
            if parameter.grad is None:
                parameter.grad = rows
            else:
                with rushlight.no_grad():
                    parameter.grad.add_(rows)
            call_hooks(parameter)
        return None

    def gradient(self) -> Tensor | None:
        """This process's part of the gradient of the row."""
        if not self.use_orig_params:
            return self.sharded.grad
        if all(p.grad is None for p in self._parts):
            return None
        return self.joined([p.grad for p in self._parts])

    def joined(self, parts: Sequence[Tensor | None]) -> Tensor:
        """This process's part of the row, of what it has of each parameter; None: zeros."""
        rows = [
            p.new_zeros(p.shape) if given is None else given for p, given in zip(self._parts, parts)
        ]
        return self.padded(rushlight.cat([r.reshape(-1) for r in rows]), self.rows)

    def parameters(self) -> list[Parameter]:
        """What optimizers get."""
        return self._parts if self.use_orig_params else [self.sharded]
