"""What functions do with jagged nested tensors: reductions, copies, networks, and the table of all rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.nested import jagged_shapes as shapes
from rushlight.nested.jagged import NestedTensor, beside, packed
from rushlight.nested.jagged_shapes import inner_dim, stacked
from rushlight.nested.tensor import Nested, alias, shared_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# -- reductions ------------------------------------------------------------------------------------


def reduction(name: str) -> Callable:
    """The rule of a reduction: of the values, or of each component where the ragged dimension goes."""
    function = getattr(torch, name)

    def reduce(input: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        if dim is None or isinstance(dim, (tuple, list)) and not dim:
            return function(input.packed(), **options)
        several = isinstance(dim, (tuple, list))
        dims = sorted({geometry.wrap_dim(d, input.dim()) for d in (dim if several else (dim,))})
        ragged = input._ragged_idx
        if 0 in dims and ragged not in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported "
                "for nested tensors"
            )
        if 0 in dims:
            values = input.packed()
            inner = tuple(d - 1 for d in dims if d)
            found = function(
                values, inner if several or len(inner) > 1 else inner[0], keepdim, **options
            )
            return found.unsqueeze(0) if keepdim else found
        inner = tuple(d - 1 for d in dims)
        if not several:
            inner = inner[0]  # type: ignore[assignment]
        if ragged in dims:
            rows = [function(c, inner, keepdim, **options) for c in input.components()]
            if hasattr(rows[0], "_fields"):
                return type(rows[0])(map(torch.stack, zip(*rows, strict=True)))
            return torch.stack(rows)
        before = 0 if keepdim else sum(d < ragged for d in dims)
        found = function(input._values, inner, keepdim, **options)
        if hasattr(found, "_fields"):
            return type(found)([input.like(v, ragged - before) for v in found])
        return input.like(found, ragged - before)

    return reduce


def softmax_of(name: str) -> Callable:
    function = getattr(torch, name)

    def rule(input: Any, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_stacklevel", None)
        dtype = kwargs.get("dtype") or next((a for a in args if isinstance(a, dtypes.dtype)), None)
        at = geometry.wrap_dim(1 if dim is None else dim, input.dim())
        if not at:
            raise RuntimeError(
                f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
            )
        if at != input._ragged_idx:
            return input.like(function(input._values, at - 1, dtype=dtype))
        rows = [function(c, at - 1, dtype=dtype) for c in input.contiguous().components()]
        return input.contiguous().like(torch.cat(rows, at - 1))

    return rule


# -- copies and networks ---------------------------------------------------------------------------


def clone(input: Any, *, memory_format: Any = None) -> Any:
    if memory_format is dtypes.contiguous_format and not input.is_contiguous():
        return input.contiguous()
    return input.like(input._values.clone())


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not (isinstance(self, Nested) and isinstance(src, Nested)):
        raise RuntimeError(
            "copy_(): expected self and src to be nested tensors of the same ragged size"
        )
    if src.shape != self.shape:
        if src.component_sizes() != self.component_sizes():
            raise RuntimeError("copy_ only supports Nested Tensors that have same size and offset")
    for to, c in zip(map(self.component, range(len(self))), src.components(), strict=True):
        to.copy_(c)
    return self


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    nested = [t for t in tensors if isinstance(t, Nested)]
    first = nested[0]
    d = inner_dim("cat", first, dim)
    values = []
    for t in tensors:
        if not isinstance(t, Nested):
            raise RuntimeError("cat(): expected each tensor in the list to be nested")
        if t.size(t._ragged_idx) != first.size(first._ragged_idx):
            raise RuntimeError(
                "cat(): expected all nested tensors to have matching ragged structures outside of the "
                "concatenated dim"
            )
        values.append(t._values)
    return first.like(torch.cat(values, d))


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Tensor:
    """A dense tensor [batch, ...] with `padding` after the end of each component."""
    d = input._ragged_idx - 1
    n = max(input.bounds()[1]) if output_size is None else output_size[input._ragged_idx]
    if n < max(input.bounds()[1]):
        raise RuntimeError(
            "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
        )
    rows = []
    for c in input.components():
        margins = [0, 0] * (c.dim() - d - 1) + [0, n - c.shape[d]]
        rows.append(F.pad(c, margins, value=padding))
    return torch.stack(rows)


def last_is_dense(name: str, input: Any, n: int = 1) -> None:
    """RuntimeError where the ragged dimension is among the last `n`."""
    if input._ragged_idx > input.dim() - 1 - n:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    last_is_dense("linear", input)
    return input.like(F.linear(input._values, weight, bias))


def norm_of(name: str) -> Callable:
    def rule(input: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
        n = len(normalized_shape)
        if n >= input.dim():
            raise RuntimeError(
                f"{name}(): Normalizing over the batch dimension is not supported for nested tensors"
            )
        last_is_dense(name, input, n)
        return input.like(getattr(F, name)(input._values, normalized_shape, *args, **kwargs))

    return rule


def embedding(input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    return input.like(F.embedding(input._values, weight, *args, **kwargs))


def matmul(input: Any, other: Any) -> Any:
    if isinstance(input, Nested) and isinstance(other, Nested):
        rows = [a @ b for a, b in zip(input.components(), other.components(), strict=True)]
        ragged = {a.shape[-2] for a in rows}, {a.shape[-1] for a in rows}
        return outcome(rows, input, [len(r) > 1 for r in ragged])
    if isinstance(input, Nested):
        if other.dim() <= 2 and input._ragged_idx < input.dim() - 1:
            return input.like(input._values @ other)
        rows = [a @ b for a, b in zip(input.components(), batch(input, other), strict=True)]
        if input._ragged_idx == input.dim() - 1:
            return torch.stack(rows)
        return stacked_like(input, rows)
    if other._ragged_idx == other.dim() - 2:
        return torch.stack(
            [a @ b for a, b in zip(batch(other, input), other.components(), strict=True)]
        )
    return stacked_like(
        other, [a @ b for a, b in zip(batch(other, input), other.components(), strict=True)]
    )


def batch(nested: Any, dense: Tensor) -> Any:
    """One dense tensor for each component."""
    return dense.unbind() if dense.dim() > 2 else [dense] * len(nested)


def stacked_like(input: Any, rows: Sequence[Tensor]) -> Any:
    """A nested tensor of these components with the ragged size of another."""
    d = input._ragged_idx - 1
    if input._lengths is not None:
        return stacked(input, rows)
    return input.like(torch.cat(list(rows), d))


def outcome(rows: Sequence[Tensor], input: Any, ragged: list[bool]) -> Any:
    """The product of two nested tensors: nested where the products differ in size."""
    if all(ragged):
        raise RuntimeError("matmul(): products with two ragged dimensions are not supported")
    if ragged[0] or input._ragged_idx == input.dim() - 2 and not ragged[1]:
        return stacked_like(input, rows) if input._ragged_idx == input.dim() - 2 else packed(rows)
    return packed(rows) if ragged[1] else torch.stack(list(rows))


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    name = "scaled_dot_product_attention"
    for t in (query, key, value):
        if not isinstance(t, NestedTensor):
            raise ValueError(
                "Expected query, key, and value to all be nested jagged tensors, but got other kinds"
            )
        if t.dim() not in (3, 4):
            raise ValueError(f"{name}(): expected query, key, and value to have 3 or 4 dimensions")
    if attn_mask is not None:
        raise ValueError(
            "Masks are not yet supported! Expected attn_mask to be None for nested tensors"
        )
    rows = [
        F.scaled_dot_product_attention(
            *[t.unsqueeze(0) for t in each], None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        ).squeeze(0)
        for each in zip(query.components(), key.components(), value.components(), strict=True)
    ]  # fmt: skip
    return stacked_like(query, rows)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    mask = beside(input, mask, "masked_fill") if isinstance(mask, Tensor) else mask
    return input.like(input._values.masked_fill(mask, value))


def where(condition: Any, input: Any, other: Any) -> Any:
    given = (condition, input, other)
    first = next(t for t in given if isinstance(t, Nested))
    return first.like(
        torch.where(*[beside(first, t, "where") if isinstance(t, Tensor) else t for t in given])
    )


def equal(input: Any, other: Any) -> bool:
    if not all(isinstance(t, Nested) for t in (input, other)):
        return False
    same = input.component_sizes() == other.component_sizes()
    return same and torch.equal(input.packed(), other.packed())


RULES = {
    f.__name__: f
    for f in (
        cat, clone, copy_, embedding, equal, linear, masked_fill, matmul, to_padded_tensor, where,
    )
}  # fmt: skip
REDUCTIONS = "sum mean amax amin any all prod argmax argmin max min var std logsumexp"
NestedTensor.RULES.update(
    {
        **shared_rules(),
        **shapes.RULES,
        **RULES,
        **{n: reduction(n) for n in REDUCTIONS.split()},
        **{n: softmax_of(n) for n in ("softmax", "log_softmax")},
        **{n: norm_of(n) for n in ("layer_norm", "rms_norm")},
        "bmm": matmul,
        "contiguous": lambda input, memory_format=None: input.contiguous(
            memory_format=memory_format
        ),
        "values": lambda input: alias(input._values),
        "scaled_dot_product_attention": attention,
    }
)
