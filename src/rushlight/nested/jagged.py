"""Nested tensors of layout `torch.jagged`: the components differ in the size of one dimension, the ragged one.

`_values` is a dense tensor in which the ragged dimension runs over all components, one after another. A
function that leaves the batch and the ragged dimension alone is that of the values; one that reduces over the
ragged dimension is done component by component.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.core import dtypes, geometry
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.nested.tensor import Nested, new
from rushlight.serialization import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_count = itertools.count(1)


class NestedInt:
    """The size of a ragged dimension: equal to itself alone, and no number; `factor` times it in strides."""

    __slots__ = ("number", "factor")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number, self.factor = number, factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (
            other.number,
            other.factor,
        )

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, factor: int) -> NestedInt:
        return NestedInt(self.number, self.factor * factor)

    __rmul__ = __mul__

    # PyTorch takes a ragged size for a large one
    def __gt__(self, other: Any) -> bool:
        return not isinstance(other, NestedInt)

    def __ge__(self, other: Any) -> bool:
        return self == other or self > other

    def __lt__(self, other: Any) -> bool:
        return False

    def __le__(self, other: Any) -> bool:
        return self == other


def ragged_size(offsets: Tensor, lengths: Tensor | None) -> NestedInt:
    """The ragged size of nested tensors with these offsets: one for each tensor of offsets (or lengths)."""
    of = (offsets if lengths is None else lengths).__dict__
    if "_ragged_size" not in of:
        of["_ragged_size"] = NestedInt(next(_count))
    return of["_ragged_size"]


class NestedTensor(Nested):
    """Component i is `_values` from `offsets[i]` on in dimension `_ragged_idx - 1`, up to `offsets[i + 1]`, or
    `lengths[i]` long where there are lengths."""

    __slots__ = ("_offsets", "_lengths", "_ragged_idx", "_known")
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _known: dict[str, Any]
    RULES: ClassVar[dict[str, Callable]] = {}
    layout = property(lambda self: dtypes.jagged)

    def like(self, values: Tensor, ragged: int | None = None) -> NestedTensor:
        ragged = self._ragged_idx if ragged is None else ragged
        return jagged_from_parts(values, self._offsets, self._lengths, ragged, self._known)

    def offsets(self) -> Tensor:
        """Where each component begins in the values, and where the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """The length of each component; None where they lie without gaps."""
        return self._lengths

    def bounds(self) -> tuple[list[int], list[int]]:
        """(where each component begins, its length), as numbers."""
        if "bounds" not in self._known:
            at = self._offsets.tolist()
            lengths = (
                [b - a for a, b in itertools.pairwise(at)]
                if self._lengths is None
                else self._lengths.tolist()
            )
            self._known["bounds"] = at[: len(lengths)], lengths
        return self._known["bounds"]

    def rows(self) -> Tensor:
        """The number of the component that each place of the ragged dimension of the values is in."""
        if "rows" not in self._known:
            places = torch.arange(self._values.shape[self._ragged_idx - 1], device=self.device)
            found = torch.bucketize(places, self._offsets, right=True) - 1
            self._known["rows"] = found.clamp(0, len(self) - 1)
        return self._known["rows"]

    # -- sizes -------------------------------------------------------------------------------------

    def component_sizes(self) -> Any:
        return (
            self.bounds()[1],
            self._ragged_idx,
            without(self._values.shape, self._ragged_idx - 1),
        )

    def dim(self) -> int:
        return self._values.dim() + 1

    @property
    def shape(self) -> Any:
        inner: list[Any] = list(self._values.shape)
        inner[self._ragged_idx - 1] = ragged_size(self._offsets, self._lengths)
        return tuple.__new__(Size, (self._offsets.shape[0] - 1, *inner))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[geometry.wrap_dim(dim, self.dim())]

    def stride(self, dim: int | None = None) -> Any:
        steps = self._values.stride()
        whole = max(range(len(steps)), key=lambda d: steps[d])
        outer = steps[whole] * (
            self.shape[self._ragged_idx]
            if whole == self._ragged_idx - 1
            else self._values.shape[whole]
        )
        found = (outer, *steps)
        return found if dim is None else found[geometry.wrap_dim(dim, self.dim())]

    def numel(self) -> int:
        return sum(self.bounds()[1]) * prod(without(self._values.shape, self._ragged_idx - 1))

    def __len__(self) -> int:
        return self._offsets.shape[0] - 1

    def is_contiguous(self, memory_format: Any = dtypes.contiguous_format) -> bool:
        return self._lengths is None and self._values.is_contiguous()

    @property
    def _min_seqlen(self) -> int:
        return min(self.bounds()[1])

    @property
    def _max_seqlen(self) -> int:
        return max(self.bounds()[1])

    # -- components --------------------------------------------------------------------------------

    def component(self, i: int) -> Tensor:
        """A view of one component."""
        starts, lengths = self.bounds()
        return self._values.narrow(self._ragged_idx - 1, starts[i], lengths[i])

    def components(self) -> tuple[Tensor, ...]:
        """Views of all components."""
        d = self._ragged_idx - 1
        _, lengths = self.bounds()
        if self._lengths is None and sum(lengths) == self._values.shape[d]:
            return self._values.split(lengths, d)
        return tuple(map(self.component, range(len(self))))

    def contiguous(self, memory_format: Any = None) -> NestedTensor:
        if self.is_contiguous():
            return self
        if self._lengths is None:
            return self.like(self._values.contiguous())
        d = self._ragged_idx - 1
        offsets = F.pad(self._lengths.cumsum(0), (1, 0)).to(self._offsets.dtype)
        return jagged_from_parts(torch.cat(self.components(), d), offsets, None, self._ragged_idx)

    def packed(self) -> Tensor:
        return self.contiguous()._values

    def aligned(self, other: Any) -> Tensor:
        if other._offsets is not self._offsets or other._lengths is not self._lengths:
            if other.component_sizes() != self.component_sizes() or self._lengths is not None:
                raise RuntimeError("the nested tensors have different ragged sizes")
            other = other.contiguous()
        return other._values

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        end = ""
        if self.grad_fn is not None:
            end = f"grad_fn={self.grad_fn}, "
        elif self.requires_grad:
            end = "requires_grad=True, "
        return (
            f"NestedTensor(size={tuple(self.shape)}, offsets={self._offsets}, {end}"
            f"contiguous={self.is_contiguous()})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = {"values": self._values, "offsets": self._offsets, "lengths": self._lengths}
        return rebuild.jagged_tensor, ({**parts, "_ragged_idx": self._ragged_idx},)

    # -- one rule for all elementwise operators ----------------------------------------------------

    @classmethod
    def elementwise(cls, op: Any, name: str, values: list) -> Any:
        at = [op.params.index(p) for p in op.inputs]
        nested = [i for i in at if isinstance(values[i], Nested)]
        first = values[nested[0]]
        written = name.endswith("_")
        for i in at:
            t = values[i]
            if isinstance(t, Tensor):
                values[i] = beside(first, t, name, written and i == at[0])
        return first.computed(op, name, values)


def without(s: Any, at: int) -> tuple:
    return (*s[:at], *s[at + 1 :])


def jagged_from_parts(
    values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int, known: dict | None = None
) -> NestedTensor:  # fmt: skip
    """A nested tensor from its parts; `known`: what was found out of these offsets and lengths before."""
    t = new(NestedTensor, values)
    t._offsets, t._lengths, t._ragged_idx = offsets, lengths, ragged
    t._known = {} if known is None else known
    return t


def packed(components: Sequence[Tensor]) -> NestedTensor:
    """A nested tensor of copies of some tensors; gradients go back to them."""
    if not components:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    shapes = [tuple(c.shape) for c in components]
    if len({len(s) for s in shapes}) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
            f"layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim. Got shapes {shapes}"
        )
    if not shapes[0]:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(len(shapes[0])) if len({s[d] for s in shapes}) > 1] or [0]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
            "layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with "
            "ragged * dim."
        )
    d = ragged[0]
    offsets = [0, *itertools.accumulate(s[d] for s in shapes)]
    at = torch.tensor(offsets, dtype=torch.int64, device=components[0].device)
    return jagged_from_parts(torch.cat(list(components), d), at, None, d + 1)


def beside(first: NestedTensor, t: Tensor, name: str, written: bool = False) -> Tensor:
    """The values that stand for `t` in an elementwise operation with the values of `first`."""
    shown = "add.Tensor" if name == "add" else f"{name}.Tensor"
    if isinstance(t, Nested):
        if t.shape != first.shape:
            aligned = t._ragged_idx == first._ragged_idx and t.size(t._ragged_idx) == first.size(
                first._ragged_idx
            )
            if not aligned or t.dim() != first.dim():
                raise RuntimeError(
                    f"cannot call binary pointwise function {shown} with inputs of shapes {tuple(first.shape)} and "
                    f"{tuple(t.shape)}"
                )
        return t._values
    n = first.dim()
    if t.dim() < n:
        at = first._ragged_idx - (n - t.dim())  # where the ragged dimension is in `t`
        if at < 0 or t.shape[at] == 1:
            return t
    elif t.dim() == n and t.shape[first._ragged_idx] == 1:
        if t.shape[0] == 1:
            return t.squeeze(0)
        if t.shape[0] == len(first) and not written:
            d = first._ragged_idx - 1
            return t.transpose(0, d + 1).squeeze(0).index_select(d, first.rows())
    elif t.dim() == n and first._ragged_idx == 1 and first.bounds()[1] == [t.shape[1]] * t.shape[0]:
        return t.flatten(0, 1)
    raise RuntimeError(
        f"cannot call binary pointwise function {shown} with inputs of shapes {first.shape} and {t.shape}"
    )
