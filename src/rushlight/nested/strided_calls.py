"""What functions do with strided nested tensors: copies, networks, products, and the table of all rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.nested import strided_shapes as shapes
from rushlight.nested.strided import StridedNestedTensor, contiguous_of, for_each_component, packed
from rushlight.nested.tensor import Nested, alias, same_sizes, shared_rules, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def both_nested(input: Any, other: Any) -> None:
    """RuntimeError where one of two tensors is not nested."""
    kinds = ["nested" if isinstance(t, Nested) else "non-nested" for t in (input, other)]
    if kinds != ["nested", "nested"]:
        raise RuntimeError(
            f"Expected both to be nested, but got a {kinds[0]} self and {kinds[1]} other"
        )


# -- copies ----------------------------------------------------------------------------------------


def clone(input: Any, *, memory_format: Any = None) -> Any:
    if memory_format in (None, dtypes.preserve_format):
        return input.like(input._values.clone())
    if memory_format is not dtypes.contiguous_format:
        name = "".join(w.capitalize() for w in memory_format.name.split("_"))
        raise RuntimeError(
            "Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory "
            f"format: {name}"
        )
    return input.contiguous_like(input.packed().clone())


def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(self, Nested) or not isinstance(src, Nested):
        raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
    if not same_sizes(self, src):
        raise RuntimeError(
            "copy_ only supports tensors that are the same size for Nested implementations"
        )
    for to, c in zip(map(self.component, range(len(self.sizes))), src.components(), strict=True):
        to.copy_(c)
    return self


def fill_(self: Any, value: Any) -> Any:
    if isinstance(value, Nested):
        raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    for part in written(self):
        part.fill_(value)
    return self


def for_each(function: Callable) -> Callable:
    """The rule that calls `function` for each component."""
    return lambda input, *args, **kwargs: for_each_component(
        lambda c: function(c, *args, **kwargs), input
    )


def empty_like(input: Any, **options: Any) -> Any:
    if not input.is_contiguous():
        raise RuntimeError("empty_like only supports contiguous memory format for Nested Tensors")
    options.pop("memory_format", None)
    return input.like(torch.empty_like(input._values, **options))


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Tensor:
    """A dense tensor [batch, ...] with `padding` after the end of each component."""
    if not input.sizes:
        return input._values.new_zeros((0,)) if input.dim() == 1 else input._values
    if not input.is_contiguous():
        raise RuntimeError("for now to_padded_tensor only supports contiguous nested tensor")
    least = [max(s) for s in zip(*input.sizes, strict=True)]
    shape = [len(input.sizes), *least]
    if output_size is not None:
        if len(output_size) != len(shape):
            raise RuntimeError("Output size must have as many dimensions as the nested tensor.")
        if (
            any(n < m for n, m in zip(output_size[1:], least, strict=True))
            or output_size[0] < shape[0]
        ):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        shape = list(output_size)
    rows = []
    for c, s in zip(input.components(), input.sizes, strict=True):
        margins = [m for n, have in zip(shape[:0:-1], s[::-1], strict=True) for m in (0, n - have)]
        rows.append(F.pad(c, margins, value=padding) if any(margins) else c)
    rows += [rows[0].new_full(shape[1:], padding)] * (shape[0] - len(rows))
    return torch.stack(rows)


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    if not all(isinstance(t, Nested) for t in tensors):
        raise RuntimeError("Expected each tensor in given list to be nested.")
    if dim:
        if len({len(t.sizes) for t in tensors}) > 1:
            raise RuntimeError("cat(): expected all nested tensors to have the same batch size")
        at = geometry.wrap_dim(dim, tensors[0].dim())
        return for_each_component(lambda *rows: torch.cat(rows, at - 1), *tensors)
    return packed([c for t in tensors for c in t.components()])


# -- networks --------------------------------------------------------------------------------------


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(weight, Nested):
        raise RuntimeError("Linear does not support nested weight when input is a nested tensor.")
    if input.dim() != 3 or weight.dim() != 2:
        raise RuntimeError(
            "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{input.dim()}. Dense tensor dim: {weight.dim()}"
        )
    if not input.is_contiguous():
        raise RuntimeError("for now linear only supports contiguous nested tensor")
    last = {s[-1] for s in input.sizes}
    if len(last) > 1:
        raise RuntimeError(
            "Expected all tensors in nested tensor to have the same trailing dimension, instead last dimension "
            f"equals: {[s[-1] for s in input.sizes]}"
        )
    size = last.pop()
    if size != weight.size(1):
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {size}, and weight.size(1) = {weight.size(1)}"
        )
    values = F.linear(input._values.view(-1, size), weight, bias).reshape(-1)
    return contiguous_of(values, [(*s[:-1], weight.size(0)) for s in input.sizes])


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:  # fmt: skip
    if not input.is_contiguous():
        raise RuntimeError("for now layer_norm only supports contiguous nested tensor")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    n = input.dim()
    if len(shape) >= n:
        raise RuntimeError(
            "normalized_shape extends into irregular dimensions for the nested tensor"
        )
    for k, want in enumerate(shape):
        found = {s[n - 1 - len(shape) + k] for s in input.sizes}
        if len(found) > 1:
            raise RuntimeError(
                "normalized_shape extends into irregular dimensions for the nested tensor"
            )
        if found != {want}:
            raise RuntimeError(
                f"The shape at dimension {k} of normalized_shape doesn't match the input: {want} and {found.pop()}"
            )
    values = F.layer_norm(input._values.view(-1, *shape), shape, weight, bias, eps)
    return input.like(values.reshape(-1))


def embedding(input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    values = F.embedding(input.buffer(), weight, *args, **kwargs)
    return contiguous_of(values.reshape(-1), [(*s, weight.size(1)) for s in input.sizes])


def softmax_of(function: Callable) -> Callable:
    def rule(input: Any, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
        if not input.sizes:
            return input.like(input._values)
        args = args[1:] if args and args[0].__class__ is int else args  # `_stacklevel`
        kwargs.pop("_stacklevel", None)
        at = geometry.wrap_dim(0 if dim is None else dim, input.dim())
        if not at:
            raise RuntimeError("Cannot apply softmax across nested dimension 0")
        return for_each_component(lambda c: function(c, at - 1, *args, **kwargs), input)

    return rule


def bmm(input: Any, mat2: Any) -> Any:
    if not isinstance(input, Nested) or not isinstance(mat2, Nested) and mat2.dim() < 2:
        both_nested(input, mat2)
    for t, name in ((input, "batch1"), (mat2, "batch2")):
        if t.dim() != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    n, m = len(input.sizes), mat2.size(0)
    if n != m:
        raise RuntimeError(
            f"Expected size for the 1st dimension of batch2 tensor to be: {n} but got: {m}."
        )
    for i, (a, b) in enumerate(zip(input.sizes, sizes_of(mat2), strict=True)):
        if a[1] != b[0]:
            raise RuntimeError(
                f"{i}-th nested matrices in batch cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
            )
    rows = mat2.components() if isinstance(mat2, Nested) else mat2.unbind()
    return packed([a.mm(b) for a, b in zip(input.components(), rows, strict=True)])


def sizes_of(t: Any) -> Any:
    return t.sizes if isinstance(t, Nested) else [tuple(t.shape[1:])] * t.size(0)


def matmul(input: Any, other: Any) -> Any:
    both_nested(input, other)
    for which, t in (("1st", input), ("2nd", other)):
        if t.dim() < 3:
            raise RuntimeError(
                "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. "
                f"{which} input has rank: {t.dim()}"
            )
    if len(input.sizes) != len(other.sizes):
        raise RuntimeError(
            f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {len(input.sizes)} but got: "
            f"{len(other.sizes)}."
        )
    for a, b in zip(input.sizes, other.sizes, strict=True):
        if a[:-2] != b[:-2]:
            raise RuntimeError(
                "matmul: For nested tensors, batch dimensions must have the same sizes, but got "
                f"{list(a)} and {list(b)}"
            )
        if a[-1] != b[-2]:
            raise RuntimeError(
                "matmul: Nested tensors cannot be matrix multiplied, last dimension of self has sizes "
                f"{[s[-1] for s in input.sizes]} second last dimension of mat2 has sizes "
                f"{[s[-2] for s in other.sizes]}"
            )
    return for_each_component(torch.matmul, input, other)


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    name = "scaled_dot_product_attention: Nested tensors for query / key / value are not supported when "
    both_nested(query, key)
    both_nested(query, value)
    if attn_mask is not None:
        raise RuntimeError(name + "an explicit attn_mask is set")
    if is_causal:
        raise RuntimeError(name + "is_causal=True")

    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), None, dropout_p, scale=scale, enable_gqa=enable_gqa
        ).squeeze(0)  # fmt: skip

    return for_each_component(one, query, key, value)


def sum_(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dim is None:
        return input.packed().sum(dtype=dtype)
    if isinstance(dim, (tuple, list)):
        if len(dim) != 1:
            raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
        dim = dim[0]
    if not input.sizes:
        return input.like(input._values)
    if geometry.wrap_dim(dim, input.dim()) != input.dim() - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dim} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    if dtype is not None:
        raise RuntimeError("NestedTensor does not support dtype argument for now.")
    if not input.is_contiguous():
        raise RuntimeError(
            "NestedTensor does not support reductions when the input is noncontiguous for now."
        )
    return for_each_component(lambda c: c.sum(-1, keepdim=True), input)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    mask = input.aligned(mask) if isinstance(mask, Nested) else mask
    if isinstance(mask, Tensor) and mask.dim() and mask.shape != input._values.shape:
        raise RuntimeError("masked_fill of a nested tensor needs a nested mask of its sizes")
    return input.like(input._values.masked_fill(mask, value))


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    nested = [t for t in (condition, input, other) if isinstance(t, Nested)]
    first = nested[0]
    if not all(same_sizes(first, t) for t in nested):
        raise RuntimeError("where does not support broadcasting when given a NestedTensor")
    given = [first.aligned(t) if isinstance(t, Nested) else t for t in (condition, input, other)]
    for t in given:
        if isinstance(t, Tensor) and t.dim() and t.shape != first._values.shape:
            raise RuntimeError("where of nested tensors needs nested tensors of one size")
    return first.like(torch.where(*given))


def equal(input: Any, other: Any) -> bool:
    if not all(isinstance(t, Nested) for t in (input, other)):
        return False
    return same_sizes(input, other) and torch.equal(input.packed(), other.packed())


RULES = {
    f.__name__: f
    for f in (
        bmm, cat, clone, copy_, embedding, empty_like, equal, fill_, layer_norm, linear, masked_fill, matmul,
        to_padded_tensor, where,
    )
}  # fmt: skip
StridedNestedTensor.RULES.update(
    {
        **shared_rules(),
        **shapes.RULES,
        **RULES,
        "contiguous": lambda input, memory_format=None: input.contiguous(
            memory_format=memory_format
        ),
        "values": lambda input: alias(input.buffer()),
        "rand_like": for_each(torch.rand_like),
        "randn_like": for_each(torch.randn_like),
        "softmax": softmax_of(torch.softmax),
        "log_softmax": softmax_of(torch.log_softmax),
        "scaled_dot_product_attention": attention,
        "sum": sum_,
    }
)
