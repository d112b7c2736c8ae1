"""Shapes, views, joining and cutting, and what makes tensors."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.onnx.builder import Builder, Operand, conversion

END = (1 << 63) - 1


@conversion("sym_size")
def sym_size(g: Builder, x: Operand, dim: int) -> Any:
    return g.size(x, dim)


@conversion("reshape", "view", "_unsafe_view", "reshape_as", "view_as")
def reshape(g: Builder, x: Operand, shape: Any) -> Operand:
    shape = g.shape(shape) if isinstance(shape, Operand) else shape
    if isinstance(shape, (list, tuple)) and 0 in shape:
        return g.op("Reshape", x, g.operand([*shape]), allowzero=1)
    return g.op("Reshape", x, shape if isinstance(shape, Operand) else g.operand([*shape]))


@conversion("flatten")
def flatten(g: Builder, x: Operand, start_dim: int = 0, end_dim: int = -1) -> Operand:
    if x.rank == 0:
        return g.op("Reshape", x, [1])
    start, end = start_dim % x.rank, end_dim % x.rank
    sizes = [g.size(x, d) for d in range(x.rank)]
    if all(isinstance(n, int) for n in sizes[start : end + 1]):
        joined: Any = 1
        for n in sizes[start : end + 1]:
            joined *= n
    else:
        joined = -1
    rest = [*sizes[:start], *sizes[end + 1 :]]
    if joined != -1 and sum(isinstance(n, Operand) for n in rest) == 1:
        sizes = [-1 if isinstance(n, Operand) else n for n in sizes]
    return reshape(g, x, [*sizes[:start], joined, *sizes[end + 1 :]])


@conversion("unflatten")
def unflatten(g: Builder, x: Operand, dim: int, sizes: Any) -> Operand:
    dim %= x.rank
    all_sizes = [g.size(x, d) for d in range(x.rank)]
    return reshape(g, x, [*all_sizes[:dim], *sizes, *all_sizes[dim + 1 :]])


@conversion("permute")
def permute(g: Builder, x: Operand, dims: Any) -> Operand:
    return g.op("Transpose", x, perm=[d % x.rank for d in dims])


@conversion("transpose", "swapaxes", "swapdims")
def transpose(g: Builder, x: Operand, dim0: int, dim1: int) -> Operand:
    order = [*range(x.rank)]
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.op("Transpose", x, perm=order)


@conversion("t")
def t(g: Builder, x: Operand) -> Operand:
    return g.op("Transpose", x, perm=[1, 0]) if x.rank == 2 else g.op("Identity", x)


@conversion("movedim", "moveaxis")
def movedim(g: Builder, x: Operand, source: Any, destination: Any) -> Operand:
    froms = [d % x.rank for d in ([source] if isinstance(source, int) else source)]
    targets = [d % x.rank for d in ([destination] if isinstance(destination, int) else destination)]
    order: list[Any] = [None] * x.rank
    for a, b in zip(froms, targets, strict=True):
        order[b] = a
    rest = iter(d for d in range(x.rank) if d not in froms)
    return g.op("Transpose", x, perm=[next(rest) if d is None else d for d in order])


@conversion("squeeze")
def squeeze(g: Builder, x: Operand, dim: Any = None) -> Operand:
    dims = range(x.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [d % x.rank for d in dims if x.rank and x.shape[d] == 1]
    return g.op("Squeeze", x, dims) if dims else g.op("Identity", x)


@conversion("unsqueeze")
def unsqueeze(g: Builder, x: Operand, dim: int) -> Operand:
    return g.op("Unsqueeze", x, [dim % (x.rank + 1)])


@conversion("expand", "broadcast_to", "expand_as")
def expand(g: Builder, x: Operand, size: Any, implicit: bool = False) -> Operand:
    if isinstance(size, Operand):
        return g.op("Expand", x, g.shape(size))
    return g.op("Expand", x, g.operand([1 if type(n) is int and n == -1 else n for n in size]))


@conversion("repeat", "tile")
def repeat(g: Builder, x: Operand, repeats: Any) -> Operand:
    if len(repeats) > x.rank:
        x = g.op("Unsqueeze", x, [*range(len(repeats) - x.rank)])
    return g.op("Tile", x, g.operand([*[1] * (len(x.shape) - len(repeats)), *repeats]))


@conversion("repeat_interleave")
def repeat_interleave(
    g: Builder, x: Operand, repeats: Any, dim: int | None = None, **options: Any
) -> Operand:
    if isinstance(repeats, Operand):
        raise NotImplementedError("repeats given as a tensor")
    if dim is None:
        x, dim = Operand(g.op("Reshape", x, [-1]).name, x.dtype, (None,)), 0
    dim %= x.rank
    wide = g.op("Unsqueeze", x, [dim + 1])
    tiled = g.op("Tile", wide, [1 + (repeats - 1) * (d == dim + 1) for d in range(x.rank + 1)])
    sizes = [g.size(x, d) for d in range(x.rank)]
    sizes[dim] = -1
    return reshape(g, tiled, sizes)


@conversion("cat", "concat", "concatenate")
def cat(g: Builder, tensors: Any, dim: int = 0) -> Operand:
    tensors = [t for t in tensors if t.shape != (0,)] or tensors
    return g.op("Concat", *g.in_common_dtype(*tensors, dtype=g.result.dtype), axis=dim)


@conversion("stack")
def stack(g: Builder, tensors: Any, dim: int = 0) -> Operand:
    parts = [
        g.op("Unsqueeze", t, [dim % (t.rank + 1)])
        for t in g.in_common_dtype(*tensors, dtype=g.result.dtype)
    ]
    return g.op("Concat", *parts, axis=dim)


@conversion("split", "chunk", "tensor_split", "split_with_sizes", "unsafe_chunk")
def split(g: Builder, x: Operand, sizes: Any, dim: int = 0) -> list[Operand]:
    lengths = [each.shape[dim] for each in g.result]
    if None in lengths:
        if x.shape[dim] is not None or len(set(g.result)) != len(lengths):
            raise NotImplementedError("pieces of dynamic sizes")
        return g.op("Split", x, axis=dim, num_outputs=len(lengths), outputs=len(lengths))
    if len(lengths) == 1:
        return [g.op("Identity", x)]
    return g.op("Split", x, lengths, axis=dim, outputs=len(lengths))


@conversion("unbind")
def unbind(g: Builder, x: Operand, dim: int = 0) -> list[Operand]:
    return [g.op("Gather", x, g.constant(n), axis=dim) for n in range(len(g.result))]


@conversion("flip")
def flip(g: Builder, x: Operand, dims: Any) -> Operand:
    dims = [dims] if isinstance(dims, int) else [*dims]
    n = len(dims)
    return g.op("Slice", x, [-1] * n, [-END] * n, dims, [-1] * n)


@conversion("roll")
def roll(g: Builder, x: Operand, shifts: Any, dims: Any = None) -> Operand:
    if dims is None or dims == []:
        raise NotImplementedError("roll without dims")
    shifts = [shifts] if isinstance(shifts, int) else shifts
    for shift, dim in zip(shifts, [dims] if isinstance(dims, int) else dims, strict=True):
        if shift:
            behind = g.op("Slice", x, [-shift], [END], [dim])
            before = g.op("Slice", x, [0], [-shift], [dim])
            x = g.op("Concat", behind, before, axis=dim)
    return x


@conversion("pixel_shuffle")
def pixel_shuffle(g: Builder, x: Operand, upscale_factor: int) -> Operand:
    return g.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@conversion("pixel_unshuffle")
def pixel_unshuffle(g: Builder, x: Operand, downscale_factor: int) -> Operand:
    r, (n, c, h, w) = downscale_factor, [g.size(x, d) for d in range(4)]
    high, wide = g.compute("Div", h, r), g.compute("Div", w, r)
    parts = reshape(g, x, [n, c, high, r, wide, r])
    parts = g.op("Transpose", parts, perm=[0, 1, 3, 5, 2, 4])
    return reshape(g, parts, [n, g.compute("Mul", c, r * r), high, wide])


@conversion("channel_shuffle")
def channel_shuffle(g: Builder, x: Operand, groups: int) -> Operand:
    n, c, h, w = [g.size(x, d) for d in range(4)]
    parts = reshape(g, x, [n, groups, g.compute("Div", c, groups), h, w])
    return reshape(g, g.op("Transpose", parts, perm=[0, 2, 1, 3, 4]), [n, c, h, w])


# -- new tensors -----------------------------------------------------------------------------------


def _filled(g: Builder, value: Any, size: Operand) -> Operand:
    return g.op("Expand", g.operand(value, g.result.dtype), size, dtype=g.result.dtype)


@conversion("full", "new_full")
def full(g: Builder, *args: Any, **options: Any) -> Operand:
    size, value = args[-2:]
    return _filled(g, value, g.operand([*size]) if len(size) else g.constant([]))


@conversion("zeros", "new_zeros", "empty", "new_empty")
def zeros(g: Builder, *args: Any, **options: Any) -> Operand:
    return full(g, args[-1], 0)


@conversion("ones", "new_ones")
def ones(g: Builder, *args: Any, **options: Any) -> Operand:
    return full(g, args[-1], 1)


@conversion("full_like")
def full_like(g: Builder, x: Operand, value: Any, **options: Any) -> Operand:
    return _filled(g, value, g.shape(x))


@conversion("zeros_like", "empty_like")
def zeros_like(g: Builder, x: Operand, **options: Any) -> Operand:
    return _filled(g, 0, g.shape(x))


@conversion("ones_like")
def ones_like(g: Builder, x: Operand, **options: Any) -> Operand:
    return _filled(g, 1, g.shape(x))


@conversion("arange")
def arange(g: Builder, *bounds: Any, **options: Any) -> Operand:
    start, end, step = (
        (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1) if len(bounds) == 2 else bounds
    )
    start, end, step = (g.operand(each, g.result.dtype) for each in (start, end, step))
    return g.op("Range", start, end, step)


@conversion("rand", "rand_like")
def rand(g: Builder, of: Any, **options: Any) -> Operand:
    return _random(g, "RandomUniformLike", of)


@conversion("randn", "randn_like")
def randn(g: Builder, of: Any, **options: Any) -> Operand:
    return _random(g, "RandomNormalLike", of)


def _random(g: Builder, kind: str, of: Any) -> Operand:
    """Numbers drawn anew at each run, in the shape of a tensor or of a list of sizes."""
    like = of if isinstance(of, Operand) else full(g, of, 0)
    return g.op(kind, g.cast(like, g.result.dtype))


@conversion("scalar_tensor")
def scalar_tensor(g: Builder, value: Any, **options: Any) -> Operand:
    return g.operand(value, g.result.dtype)


@conversion("eye")
def eye(g: Builder, n: Any, m: Any = None, **options: Any) -> Operand:
    square = g.op(
        "Expand", g.constant(0), g.operand([n, n if m is None else m]), shape=(None, None)
    )
    return g.cast(g.op("EyeLike", square), g.result.dtype)


@conversion("tril")
def tril(g: Builder, x: Operand, diagonal: int = 0) -> Operand:
    return _triangle(g, x, diagonal, 0)


@conversion("triu")
def triu(g: Builder, x: Operand, diagonal: int = 0) -> Operand:
    return _triangle(g, x, diagonal, 1)


def _triangle(g: Builder, x: Operand, diagonal: int, upper: int) -> Operand:
    if x.dtype is rushlight.bool:
        found = g.op("Trilu", g.cast(x, rushlight.int64), g.constant(diagonal), upper=upper)
        return g.cast(found, rushlight.bool)
    return g.op("Trilu", x, g.constant(diagonal), upper=upper)
