"""Batching rules of views and of what copies regions."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core import geometry
from rushlight.dispatch.batch import RULES, Batched, in_front
from rushlight.func.rules.rules import all_behind, along, behind, first_only, rule

for path in "aten.alias aten.real aten.imag view_as_real view_as_complex aten.conj_copy _conj _neg_view aten.row_major".split():
    RULES[path] = first_only
RULES["aten.view_dtype"] = first_only


@rule("select", "aten.slice", "aten.split", "aten.split_with_sizes", "unbind", "aten.unsafe_split",
      "aten.unsafe_split_with_sizes")  # fmt: skip
def along_one(b: Batched) -> Any:
    ndim = b.ndim("input")
    if not ndim:  # the operator's own error
        return b.op.function(
            b.outer["input"]._array.value.select(0, 0), *[b.named[p] for p in b.op.params[1:]]
        )
    return b.call(dim=behind(b.named["dim"], ndim))


@rule("aten.view", "aten._unsafe_view")
def view(b: Batched) -> Any:
    x = b.named["input"]
    size = geometry.infer_size(tuple(b.named["size"]), b.outer["input"]._array.size)
    return b.call(size=(x.shape[0], *size))


@rule("transpose")
def transpose(b: Batched) -> Any:
    ndim = b.ndim("input")
    if not ndim:
        all_behind((b.named["dim0"], b.named["dim1"]), 0)
        return b.named["input"].view_as(b.named["input"])
    return b.call(dim0=behind(b.named["dim0"], ndim), dim1=behind(b.named["dim1"], ndim))


@rule("permute")
def permute(b: Batched) -> Any:
    ndim, dims = b.ndim("input"), tuple(b.named["dims"])
    if len(dims) != ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    return b.call(dims=(0, *all_behind(dims, ndim)))


@rule("t")
def t(b: Batched) -> Any:
    x, ndim = b.named["input"], b.ndim("input")
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return x.transpose(1, 2) if ndim == 2 else x.view_as(x)


@rule("unsqueeze")
def unsqueeze(b: Batched) -> Any:
    return b.call(dim=behind(b.named["dim"], b.ndim("input") + 1))


@rule("squeeze")
def squeeze(b: Batched) -> Any:
    ndim, dim = b.ndim("input"), b.named["dim"]
    dims = tuple(range(1, ndim + 1)) if dim is None else all_behind(dim, ndim) if ndim else ()
    return b.call(dim=dims)


@rule("Tensor.expand")
def expand(b: Batched) -> Any:
    size = tuple(b.named["size"])
    x = in_front(b.named["input"], max(len(size), b.ndim("input")))
    return b.call(input=x, size=(x.shape[0], *size))


@rule("cat", "stack")
def join(b: Batched) -> Any:
    given = b.outer["tensors"]
    tensors = [
        t if o._array.has else t.unsqueeze(0).expand(b.size, *t.shape)
        for t, o in zip(b.named["tensors"], given, strict=True)
    ]
    ndim = max(o._array.ndim for o in given) + (b.op.path == "stack")
    dim = behind(b.named["dim"], ndim)
    full = next((t for t, o in zip(tensors, given) if o._array.shape != (0,)), None)
    if b.op.path == "cat" and full is not None:  # an empty vector joins with everything
        none = (*full.shape[:dim], 0, *full.shape[dim + 1 :])
        tensors = [t.reshape(none) if o._array.shape == (0,) else t for t, o in zip(tensors, given)]
    return b.call(tensors=tensors, dim=dim)


@rule("aten.block_diag")
def block_diag(b: Batched) -> Any:
    """Each block, with zeros on both sides, is some rows of the matrix."""
    blocks = []
    for t, o in zip(b.named["tensors"], b.outer["tensors"], strict=True):
        t = t if o._array.has else t.unsqueeze(0).expand(b.size, *t.shape)
        blocks.append(in_front(t, 2))
    width, at, rows = sum(m.shape[2] for m in blocks), 0, []
    for m in blocks:
        rows.append(torch.nn.functional.pad(m, (at, width - at - m.shape[2])))
        at += m.shape[2]
    return torch.cat(rows, 1)


@rule("diagonal")
def diagonal(b: Batched) -> Any:
    ndim = b.ndim("input")
    return b.call(dim1=behind(b.named["dim1"], ndim), dim2=behind(b.named["dim2"], ndim))


@rule("diag_embed")
def diag_embed(b: Batched) -> Any:
    ndim = b.ndim("input") + 1
    return b.call(dim1=behind(b.named["dim1"], ndim), dim2=behind(b.named["dim2"], ndim))


@rule("aten.diagonal_gradient")
def diagonal_gradient(b: Batched) -> Any:
    shape = b.named["shape"]
    return b.call(
        shape=(b.size, *shape),
        dim1=behind(b.named["dim1"], len(shape)),
        dim2=behind(b.named["dim2"], len(shape)),
    )


@rule("Tensor.unfold")
def unfold(b: Batched) -> Any:
    if not b.ndim("input"):
        return b.call(input=b.named["input"].unsqueeze(1), dimension=1).squeeze(1)
    return b.call(dimension=behind(b.named["dimension"], b.ndim("input")))


@rule("aten.unfold_gradient")
def unfold_gradient(b: Batched) -> Any:
    shape = b.named["shape"]
    if not shape:
        g = b.named["grad"]
        return b.call(grad=g.unsqueeze(1), shape=(b.size, 1), dimension=1).squeeze(1)
    return b.call(shape=(b.size, *shape), dimension=behind(b.named["dimension"], len(shape)))


RULES["flip"] = RULES["rot90"] = along("dims")
RULES["tril"] = RULES["triu"] = RULES["frexp"] = first_only


@rule("roll")
def roll(b: Batched) -> Any:
    dims, ndim = b.named["dims"], b.ndim("input")
    if dims is None or dims == ():
        x = b.named["input"]
        return torch.roll(x.reshape(b.size, -1), b.named["shifts"], 1).reshape(x.shape)
    return b.call(dims=all_behind(dims, ndim))


@rule("Tensor.repeat")
def repeat(b: Batched) -> Any:
    repeats = tuple(b.named["repeats"])
    x = in_front(b.named["input"], max(len(repeats), b.ndim("input")))
    return b.call(input=x, repeats=(1, *repeats))


@rule("aten.basic_index_gradient")
def basic_index_gradient(b: Batched) -> Any:
    index = b.named["index"]
    index = index if index.__class__ is tuple else (index,)
    return b.call(shape=(b.size, *b.named["shape"]), index=(slice(None), *index))


@rule("aten.basic_index")
def basic_index(b: Batched) -> Any:
    index = b.named["index"]
    index = index if index.__class__ is tuple else (index,)
    taken = sum(i is not None and i is not Ellipsis for i in index)
    if taken > b.ndim("input"):
        raise IndexError(
            f"too many indices for tensor of dimension {b.ndim('input')}"
            if b.ndim("input")
            else "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"
        )
    return b.call(index=(slice(None), *index))


def inserted(names: tuple[str, ...]) -> Any:
    """The rule of operators that write `src` into a region of `input`."""

    def apply(b: Batched) -> Any:
        ndim = b.ndim("input")
        return b.call(
            input=b.expanded("input"),
            src=b.expanded("src"),
            **{n: behind(b.named[n], ndim) for n in names},
        )

    return apply


RULES["select_scatter"] = RULES["slice_scatter"] = inserted(("dim",))
RULES["diagonal_scatter"] = inserted(("dim1", "dim2"))


@rule("aten.as_strided")
def as_strided(b: Batched) -> Any:
    """The first element keeps its distance from that of the tensor; the batch keeps its stride."""
    x, start = b.named["input"], b.named["storage_offset"]
    shift = 0 if start is None else start - b.named["start"]
    return x.as_strided(
        (b.size, *b.named["size"]), (x.stride(0), *b.named["stride"]), x.storage_offset() + shift
    )


@rule("aten.restride")
def restride(b: Batched) -> Any:
    """The memory of each element of the batch begins behind that of the one before."""
    sizes, strides = (
        [b.named[f"{what}_{end}"] for end in ("from", "to")] for what in ("size", "stride")
    )
    begins = b.named["offset_from"], b.named["offset_to"]
    ends = [
        at + sum([(n - 1) * s for n, s in zip(size, steps, strict=True) if n])
        for size, steps, at in zip(sizes, strides, begins, strict=True)
    ]
    reach = 1 + max(ends) - min(begins)
    return b.call(
        size_from=(b.size, *sizes[0]), stride_from=(reach, *strides[0]),
        size_to=(b.size, *sizes[1]), stride_to=(reach, *strides[1]),
    )  # fmt: skip


@rule("aten.laid_out")
def laid_out(b: Batched) -> Any:
    x = b.named["input"]
    strides = tuple(b.named["strides"])
    reach = sum(abs(s) * (n - 1) for s, n in zip(strides, x.shape[1:], strict=True)) + x.itemsize
    return b.call(strides=(reach, *strides)) if b.size else x


@rule("aten.repeat_each")
def repeat_each(b: Batched) -> Any:
    if "repeats" in b.has:
        from rushlight.dispatch.batch import loop

        return loop(b)
    dim, ndim = b.named["dim"], b.ndim("input")
    x = b.named["input"] if ndim else b.named["input"].unsqueeze(1)
    return b.call(input=x, dim=behind(dim, max(ndim, 1)))
