"""Nested tensors of layout `torch.strided`: every component has sizes, strides and an offset of its own."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import rushlight as torch
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.nested.tensor import Nested, new, same_sizes
from rushlight.serialization import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Sizes = tuple[tuple[int, ...], ...]


def unsupported(what: str) -> RuntimeError:
    return RuntimeError(
        f"Internal error: NestedTensorImpl doesn't support {what}. Please file an issue."
    )


class StridedNestedTensor(Nested):
    """Component i has `sizes[i]`, `strides[i]` and `offsets[i]` in `_values`, a tensor of one dimension."""

    __slots__ = ("sizes", "strides", "offsets")
    sizes: Sizes
    strides: Sizes
    offsets: tuple[int, ...]
    RULES: ClassVar[dict[str, Callable]] = {}
    layout = property(lambda self: dtypes.strided)

    def like(self, values: Tensor) -> StridedNestedTensor:
        return strided_from_parts(values, self.sizes, self.strides, self.offsets)

    def contiguous_like(self, values: Tensor) -> StridedNestedTensor:
        """A nested tensor of these sizes with values that lie one after another."""
        return contiguous_of(values, self.sizes)

    # -- sizes -------------------------------------------------------------------------------------

    def component_sizes(self) -> Sizes:
        return self.sizes

    def dim(self) -> int:
        return len(self.sizes[0]) + 1 if self.sizes else 1

    @property
    def shape(self) -> Any:
        raise unsupported("sizes")

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        at = geometry.wrap_dim(dim, self.dim())
        if not at:
            return len(self.sizes)
        found = {s[at - 1] for s in self.sizes}
        if len(found) > 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return found.pop()

    def stride(self, dim: int | None = None) -> Any:
        raise unsupported("strides")

    def numel(self) -> int:
        return sum(map(prod, self.sizes))

    def __len__(self) -> int:
        raise unsupported("sizes")

    def is_contiguous(self, memory_format: Any = dtypes.contiguous_format) -> bool:
        contiguous = contiguous_of(self._values, self.sizes)
        return (
            self.numel() == self._values.numel()
            and self.strides == contiguous.strides
            and self.offsets == contiguous.offsets
        )

    def _nested_tensor_size(self) -> Tensor:
        return torch.tensor(self.sizes, dtype=torch.int64)

    def _nested_tensor_strides(self) -> Tensor:
        return torch.tensor(self.strides, dtype=torch.int64)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        return torch.tensor(self.offsets, dtype=torch.int64)

    # -- components --------------------------------------------------------------------------------

    def component(self, i: int) -> Tensor:
        """A view of one component."""
        offset = self.offsets[i] + self._values.storage_offset()
        return self._values.as_strided(self.sizes[i], self.strides[i], offset)

    def components(self) -> tuple[Tensor, ...]:
        """Views of all components."""
        if self.sizes and self.is_contiguous():
            pieces = self._values.split([prod(s) for s in self.sizes])
            return tuple(p.view(s) for p, s in zip(pieces, self.sizes, strict=True))
        return tuple(map(self.component, range(len(self.sizes))))

    def contiguous(self, memory_format: Any = None) -> StridedNestedTensor:
        return self if self.is_contiguous() else packed(self.components())

    def packed(self) -> Tensor:
        return self.contiguous()._values

    def aligned(self, other: Any) -> Tensor:
        if other.strides == self.strides and other.offsets == self.offsets:
            return other._values
        if self.is_contiguous():
            return other.packed()
        values = torch.zeros_like(self._values, dtype=other.dtype)
        for to, c in zip(self.like(values).components(), other.components(), strict=True):
            to.copy_(c)
        return values

    def buffer(self) -> Tensor:
        """The values, if they lie one after another."""
        if not self.is_contiguous():
            raise RuntimeError("NestedTensor must be contiguous to get buffer.")
        return self._values

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with torch.no_grad():
            each = [repr(c.requires_grad_(self.requires_grad)) for c in self.detach().components()]
        lines = ",\n".join("  " + c.replace("\n", "\n  ") for c in each)
        end = ""
        if self.grad_fn is not None:
            end = f", grad_fn=<{type(self.grad_fn).__name__}>"
        elif self.requires_grad:
            end = ", requires_grad=True"
        return f"nested_tensor([\n{lines}\n]{end})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = (
            self._nested_tensor_size(),
            self._nested_tensor_strides(),
            self._nested_tensor_storage_offsets(),
        )
        return rebuild.nested_tensor, (self._values, *parts)

    # -- one rule for all elementwise operators ----------------------------------------------------

    @classmethod
    def elementwise(cls, op: Any, name: str, values: list) -> Any:
        at = [op.params.index(p) for p in op.inputs]
        given = {i: values[i] for i in at if isinstance(values[i], Tensor)}
        nested = [i for i in given if isinstance(given[i], Nested)]
        first = given[nested[0]]
        written = name.endswith("_")
        if written and nested[0] != at[0] and not given[at[0]].dim():
            raise RuntimeError(
                f"output with shape [] doesn't match the broadcast shape {list(map(list, first.sizes))}"
            )
        for i, t in given.items():
            if i in nested or not t.dim():
                continue
            a, b = ("nested", "non-nested") if i > nested[0] else ("non-nested", "nested")
            raise RuntimeError(
                f"Expected both self and other to be nested, but got a {a} self and {b} other"
            )
        if len(given) == 1 and len(at) == 1:
            first.buffer()
        op_name = name.rstrip("_")
        for i in nested[1:]:
            other = given[i]
            if not same_sizes(first, other):
                raise RuntimeError(
                    f"{op_name} does not support broadcasting when given a NestedTensor"
                )
            if op_name == "div" and other.strides != first.strides:
                raise RuntimeError("div requires strides to match when given NestedTensors")
            if op_name == "div" and other.offsets != first.offsets:
                raise RuntimeError("div requires offsets to match when given NestedTensors")
            values[i] = first.aligned(other)
        values[nested[0]] = first._values
        return first.computed(op, name, values)


def strided_from_parts(
    values: Tensor, sizes: Any, strides: Any, offsets: Any
) -> StridedNestedTensor:
    """A nested tensor from its parts."""
    t = new(StridedNestedTensor, values)
    t.sizes, t.strides, t.offsets = tuple(sizes), tuple(strides), tuple(offsets)
    return t


def contiguous_of(values: Tensor, sizes: Any) -> StridedNestedTensor:
    """A nested tensor of values that lie one after another."""
    offsets, total = [], 0
    for s in sizes:
        offsets.append(total)
        total += prod(s)
    return strided_from_parts(values, sizes, map(geometry.contiguous_strides, sizes), offsets)


def packed(components: Sequence[Tensor]) -> StridedNestedTensor:
    """A nested tensor of copies of some tensors; gradients go back to them."""
    if not components:
        return strided_from_parts(torch.empty(0), (), (), ())
    rank = components[0].dim()
    for i, c in enumerate(components):
        if c.dim() != rank:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{c.dim()} for Tensor at index {i} and dimension {rank} for Tensor at index {i - 1}."
            )
    values = torch.cat([c.reshape(-1) for c in components])
    return contiguous_of(values, [tuple(c.shape) for c in components])


def for_each_component(function: Callable, *args: Any) -> StridedNestedTensor:
    """`function` of the components of all nested arguments, one after another."""
    rows = [a.components() if isinstance(a, Nested) else None for a in args]
    n = next(len(r) for r in rows if r is not None)
    return packed(
        [
            function(*[a if r is None else r[i] for a, r in zip(args, rows, strict=True)])
            for i in range(n)
        ]
    )
