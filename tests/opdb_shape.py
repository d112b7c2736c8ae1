"""Rows of views, joining, rearranging, indexing, gathering and scattering."""

from __future__ import annotations

import numpy as np

from opdb_rows import B, C, I, K, N, c, distinct, fixed, row, scipy, v


def sizes(*s):
    return s[0] if len(s) == 1 and isinstance(s[0], tuple | list) else s


def expand(x, *size):
    size = sizes(*size)
    new = len(size) - x.ndim
    return np.broadcast_to(x, [x.shape[d - new] if n == -1 else n for d, n in enumerate(size)])


def squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = dim if isinstance(dim, tuple) else (dim,)
    return np.squeeze(x, tuple(d for d in dims if x.ndim and x.shape[d] == 1))


def diagonal(x, offset=0, dim1=0, dim2=1):
    return np.diagonal(x, offset, dim1, dim2)


def flatten(x, start_dim=0, end_dim=-1):
    if not x.ndim:
        return x.reshape(1)
    a, b = start_dim % x.ndim, end_dim % x.ndim + 1
    return x.reshape(*x.shape[:a], int(np.prod(x.shape[a:b])), *x.shape[b:])


def unfold(x, dim, size, step):
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return windows[(slice(None),) * (dim % x.ndim) + (slice(None, None, step),)]


def strided(x, size, stride, offset=0):
    flat = x.reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, [s * x.itemsize for s in stride])


def narrow(x, dim, start, length):
    return np.take(x, range(int(start), int(start) + length), dim)


def sliced(x, dim=0, start=None, end=None, step=1):
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def split(x, n, dim=0):
    """Parts of `n`, or of the sizes in `n`."""
    sections = range(n, x.shape[dim], n) if isinstance(n, int) else np.cumsum(n)[:-1]
    return np.split(x, list(sections), dim)


def chunk(x, n, dim=0):
    return split(x, -(-x.shape[dim] // n), dim)


def unbind(x, dim=0):
    return list(np.moveaxis(x, dim, 0))


def repeat_each(x, repeats=None, dim=None, output_size=None):
    if repeats is None:
        return np.repeat(np.arange(len(x)), x)
    return np.repeat(x, repeats, dim)


def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    at = np.arange(x.shape[-1])
    out[..., at + max(0, -offset), at + max(0, offset)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def diag(x, diagonal=0):
    return np.diag(x, diagonal)


def written(place):
    """A copy of the first array with the second one written to `place(copy, ...)`."""

    def reference(x, src, *args, **kwargs):
        out = x.copy()
        place(out, *args, **kwargs)[...] = src
        return out

    return reference


def diagonal_scatter(x, src, offset=0, dim1=0, dim2=1):
    out = x.copy()
    view = np.moveaxis(out, (dim1, dim2), (-2, -1))
    i = np.arange(src.shape[-1])
    view[..., i + max(0, -offset), i + max(0, offset)] = src
    return out


def block_diag(*xs):
    return scipy("linalg.block_diag")(*xs)


def combinations(x, r=2, with_replacement=False):
    import itertools

    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(pick(x, r))).reshape(-1, r)


def cartesian(*xs):
    import itertools

    return np.array(list(itertools.product(*xs))) if len(xs) > 1 else xs[0]


def at_least(n):
    f = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[n - 1]
    return lambda *xs: (
        f(xs[0])
        if len(xs) == 1 and not isinstance(xs[0], list)
        else [f(x) for x in (xs[0] if isinstance(xs[0], list) else xs)]
    )


def scatter(x, dim, index, src=None, value=None, reduce=None, include_self=True):
    """The definition, element by element: out[index[i], j] = src[i, j] along dim."""
    out, count = x.copy(), np.ones(x.shape)
    if src is None or not np.ndim(src):
        src = np.full(index.shape, value if src is None else src)
    steps = {
        None: lambda a, b: b,
        "add": np.add,
        "sum": np.add,
        "mean": np.add,
        "multiply": np.multiply,
        "prod": np.multiply,
        "amax": np.maximum,
        "amin": np.minimum,
    }
    fresh = not include_self
    seen = set()
    for place in np.ndindex(index.shape):
        at = list(place)
        at[dim] = index[place]
        at = tuple(at)
        first = fresh and at not in seen
        out[at] = src[place] if first else steps[reduce](out[at], src[place])
        count[at] = 1 if first else count[at] + 1
        seen.add(at)
    return out / count if reduce == "mean" else out


def along_index(f):
    """index_add, index_copy...: `f(out, slices at one place, part of the source)` for each index."""

    def reference(x, dim, index, source, **more):
        out = np.moveaxis(x.copy(), dim, 0)
        part = np.moveaxis(source, dim, 0) if np.ndim(source) else [source] * len(index)
        for n, i in enumerate(index):
            out[i] = f(out[i], part[n], **more)
        return np.moveaxis(out, 0, dim)

    return reference


def index_reduce(x, dim, index, source, reduce, include_self=True):
    whole = np.expand_dims(index, [d for d in range(source.ndim) if d != dim % source.ndim])
    named = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}[reduce]
    return scatter(
        x,
        dim % x.ndim,
        np.broadcast_to(whole, source.shape),
        source,
        reduce=named,
        include_self=include_self,
    )


def put(x, index, source, accumulate=False):
    out = x.copy()
    (np.add.at if accumulate else lambda o, i, s: o.__setitem__(i, s))(
        out.reshape(-1), index, source
    )
    return out


def index_put(x, indices, values, accumulate=False):
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def masked_scatter(x, mask, source):
    out = x.copy()
    mask = np.broadcast_to(mask, x.shape)
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def take_along(x, index, dim=None):
    return x.reshape(-1)[index] if dim is None else np.take_along_axis(x, index, dim)


def gather(x, dim, index, sparse_grad=False):
    at = list(np.indices(index.shape))
    at[dim] = index
    return x[tuple(at)]


def where(condition, x=None, y=None):
    return np.nonzero(condition) if x is None else np.where(condition, x, y)


def index_at(x, index):
    return x[index]


def both(name, ref, *cases, **options):
    """A view, and its `_copy` variant, which shares nothing."""
    copy = options.pop("copy", name.removeprefix("Tensor.") + "_copy")
    return [row(name, ref, *cases, view=True, **options), row(copy, ref, *cases, **options)]


IDX = K([[0, 2], [1, 0], [2, 2]])
PLACES = K([2, 0])

ROWS = [
    # views
    *both("permute", np.transpose, c(N(2, 3, 4), (2, 0, 1)), c(N(2, 3), (-1, 0)), c(N(), ()), c(N(0, 3), (1, 0))),
    *both("transpose", np.swapaxes, c(N(2, 3, 4), 0, 2), c(N(2, 3), -1, 0), c(C(2, 3), 0, 1)),
    *both("t", np.transpose, c(N(2, 3)), c(N(3)), c(N())),
    *both("squeeze", squeeze, c(N(1, 3, 1)), c(N(1, 3, 1), 0), c(N(1, 3, 1), (0, 2)), c(N(2, 3), 1), c(N())),
    *both("unsqueeze", np.expand_dims, c(N(2, 3), 0), c(N(2, 3), -1), c(N(), 0), c(N(0), 1)),
    *both("diagonal", diagonal, c(N(3, 4)), c(N(3, 4), 1), c(N(3, 4), -1), c(N(2, 3, 4), 0, 1, 2)),
    *both("as_strided", strided, c(N(3, 4), (2, 2), (4, 1)), c(N(12), (3, 3), (2, 1), 1), strided=False),
    row("Tensor.expand", expand, c(N(3, 1), 3, 4), c(N(3, 1), 2, -1, 4), c(N(), 2), view=True, strided=False),
    row("expand_copy", expand, c(N(3, 1), (3, 4)), c(N(3, 1), (2, -1, 4))),
    *both("Tensor.unfold", unfold, c(N(7), 0, 3, 2), c(N(3, 5), 1, 2, 1), c(N(3, 5), 0, 3, 3)),
    *both("narrow", narrow, c(N(3, 4), 1, 1, 2), c(N(5), 0, 0, 3), c(N(5), 0, 2, 0)),
    *both("select", lambda x, dim, i: np.take(x, i, dim), c(N(3, 4), 0, 1), c(N(3, 4), -1, -2)),
    *both("unbind", unbind, c(N(3, 4)), c(N(3, 4), 1)),
    row("split", split, c(N(5, 2), 2), c(N(2, 5), 3, 1), c(N(5), [2, 3]), view=True, aka="Tensor.split"),
    row("split_copy", split, c(N(5, 2), 2), c(N(2, 5), 3, 1)),
    *both("split_with_sizes", split, c(N(5), [2, 3]), c(N(2, 4), [1, 3], 1)),
    row("chunk", chunk, c(N(5, 2), 2), c(N(2, 6), 3, 1), view=True),
    row("unsafe_chunk", chunk, c(N(5, 2), 2), c(N(2, 6), 3, 1), view=True),
    row("unsafe_split", split, c(N(5, 2), 2), c(N(2, 5), 3, 1), view=True),
    row("unsafe_split_with_sizes", split, c(N(5), [2, 3]), view=True),
    row("tensor_split", np.array_split, c(N(7), 3), c(N(2, 6), (1, 4), 1), c(N(5, 2), 2), view=True),
    row("hsplit", np.hsplit, c(N(4), 2), c(N(2, 6), (1, 4)), view=True),
    row("vsplit", np.vsplit, c(N(4, 2), 2), c(N(6, 2), (1, 4)), view=True),
    row("dsplit", np.dsplit, c(N(1, 2, 4), 2), c(N(1, 2, 4), (1, 3)), view=True),
    row("movedim", np.moveaxis, c(N(2, 3, 4), 0, 2), c(N(2, 3, 4), (0, 1), (2, 0)), view=True, aka="moveaxis"),
    row("swapaxes", np.swapaxes, c(N(2, 3, 4), 0, 2), view=True, aka="swapdims"),
    row("adjoint", lambda x: np.conj(np.swapaxes(x, -1, -2)), c(N(2, 3)), c(C(2, 2, 3)), view=None),
    row("ravel", np.ravel, c(N(2, 3)), c(N()), view=True),
    row("flatten", flatten, c(N(2, 3, 4)), c(N(2, 3, 4), 1), c(N(2, 3, 4), 0, 1), c(N()), view=True),
    row("unflatten", lambda x, dim, s: x.reshape(3, 2, 2), c(N(3, 4), 1, (2, 2)), c(N(3, 4), -1, (-1, 2)), view=True),
    row("reshape", np.reshape, c(N(2, 6), (3, 4)), c(N(2, 6), (-1,)), c(N(0, 3), (3, 0)), view=True),
    row("Tensor.reshape", lambda x, *s: x.reshape(s), c(N(2, 6), 3, 4), c(N(2, 6), -1), view=True),
    row("Tensor.reshape_as", lambda x, y: x.reshape(y.shape), c(N(2, 6), fixed(N(3, 4))), view=None),
    row("Tensor.view", lambda x, *s: x.reshape(*s), c(N(2, 6), 3, 4), c(N(2, 6), (-1, 2)), view=True, strided=False),
    row("Tensor.view_as", lambda x, y: x.reshape(y.shape), c(N(2, 6), fixed(N(3, 4))), view=None, strided=False),
    row("view_copy", np.reshape, c(N(2, 6), (3, 4))),
    row("Tensor.expand_as", lambda x, y: np.broadcast_to(x, y.shape), c(N(3, 1), fixed(N(3, 4))), view=None, strided=False),
    row("broadcast_to", np.broadcast_to, c(N(3, 1), (2, 3, 4)), view=True, strided=False),
    row("broadcast_tensors", lambda *x: list(np.broadcast_arrays(*x)), c(N(3, 1), N(2, 1, 4)), view=True, strided=False),
    row("broadcast_shapes", lambda *x: list(np.broadcast_shapes(*x)), v((2, 1), (3,)), v((), (0, 1)), order=0),
    *(row(f"atleast_{n}d", at_least(n), c(N()), c(N(3)), c(N(2, 3)), c(N(), N(2)), view=True) for n in (1, 2, 3)),
    row("view_as_complex", lambda x: x[..., 0] + 1j * x[..., 1], c(N(3, 2)), c(N(2)), view=True, strided=False, half=False),
    row("view_as_complex_copy", lambda x: x[..., 0] + 1j * x[..., 1], c(N(3, 2)), strided=False, half=False),
    row("view_as_real", lambda x: np.stack([x.real, x.imag], -1), c(C(3)), c(C()), view=True),
    row("view_as_real_copy", lambda x: np.stack([x.real, x.imag], -1), c(C(3))),
    row("conj", np.conj, c(C(3)), c(N(3)), view=None),
    row("resolve_conj", lambda x: x, c(C(3)), c(N(3)), view=True),
    row("resolve_neg", lambda x: x, c(C(3)), c(N(3)), view=True),
    row("alias_copy", lambda x: x, c(N(2, 3))),
    row("detach_copy", lambda x: x, c(N(2, 3)), order=0),
    row("slice_copy", sliced, c(N(5, 3), 0, 1, 4, 2), c(N(3, 4), 1, 2)),
    row("Tensor.numpy_T", np.transpose, c(N(2, 3)), view=True, strided=True),
    row("Tensor.matrix_T", lambda x: np.swapaxes(x, -1, -2), c(N(2, 2, 3)), view=True),
    row("Tensor.matrix_H", lambda x: np.conj(x.T), c(N(2, 3)), c(C(2, 3)), view=None),
    row("Tensor.matrices_H", lambda x: np.conj(np.swapaxes(x, -1, -2)), c(N(2, 2, 3)), c(C(2, 3)), view=None),
    row("Tensor.as_strided_", strided, c(N(3, 4), (2, 2), (4, 1)), writes=True, strided=False),
    row("Tensor.squeeze_", squeeze, c(N(1, 3, 1)), c(N(1, 3), 0), writes=True),
    row("Tensor.unsqueeze_", np.expand_dims, c(N(2, 3), 1), writes=True),
    row("Tensor.transpose_", np.swapaxes, c(N(2, 3), 0, 1), writes=True, aka="Tensor.swapaxes_ Tensor.swapdims_"),
    row("Tensor.t_", np.transpose, c(N(2, 3)), writes=True),
    row("Tensor.getitem", index_at, c(N(3, 4), 1), c(N(3, 4), (slice(None), slice(1, 3))), c(N(3, 4), (Ellipsis, None, 0)), c(N(5, 3), (None, slice(1, 3))), c(N(5), slice(None, None, 2)), view=True),
    row("index_put", index_put, c(N(3, 4), (K([0, 2]), K([1, 3])), N(2)), c(N(4), (K([0, 0, 1]),), N(3), True)),
    row("Tensor.index_put_", index_put, c(N(3, 4), (K([0, 2]), K([1, 3])), N(2)), c(N(4), (K([0, 0, 1]),), N(3), True), writes=True),
    # joining
    row("cat", lambda ts, dim=0: np.concatenate(ts, dim), c([N(2, 3), N(1, 3)]), c([N(2, 3), N(2, 1)], 1), c([N(2), I(3)]), c([N(0), N(2)]), aka="concat concatenate"),
    row("stack", lambda ts, dim=0: np.stack(ts, dim), c([N(2, 3), N(2, 3)]), c([N(2, 3), N(2, 3)], -1), c([N(), N()])),
    row("hstack", np.hstack, c([N(2, 3), N(2, 1)]), c([N(2), N(3)]), c([N(), N()])),
    row("vstack", np.vstack, c([N(2, 3), N(1, 3)]), c([N(3), N(3)]), aka="row_stack"),
    row("dstack", np.dstack, c([N(2, 3), N(2, 3)]), c([N(3), N(3)])),
    row("column_stack", np.column_stack, c([N(3), N(3, 2)]), c([N(2), N(2)])),
    row("block_diag", block_diag, c(N(2, 3), N(1, 2)), c(N(2, 2))),
    # rearranging
    row("Tensor.repeat", lambda x, *r: np.tile(x, sizes(*r)), c(N(2, 3), 2, 1), c(N(3), 2, 2), c(N(2), (3,)), c(N(), 2)),
    row("tile", np.tile, c(N(2, 3), (2,)), c(N(3), (2, 2)), view=None),
    row("repeat_interleave", repeat_each, c(N(2, 3), 2), c(N(2, 3), 2, 1), c(N(2, 3), K([1, 3]), 0), v(K([1, 0, 2])), meta=False),
    row("flip", np.flip, c(N(2, 3), (0,)), c(N(2, 3), (0, -1)), c(N(0, 2), (0,))),
    row("fliplr", np.fliplr, c(N(2, 3))),
    row("flipud", np.flipud, c(N(2, 3)), c(N(3))),
    row("roll", np.roll, c(N(2, 3), 1), c(N(2, 3), -1, 1), c(N(2, 3), (1, 2), (0, 1)), c(N(0), 1)),
    row("rot90", np.rot90, c(N(2, 3)), c(N(2, 3), 2), c(N(2, 3, 2), -1, (1, 2))),
    row("tril", np.tril, c(N(3, 4)), c(N(2, 3, 3), 1), c(N(3, 4), -1), half=True),
    row("triu", np.triu, c(N(3, 4)), c(N(2, 3, 3), 1), c(N(3, 4), -1), half=True),
    row("diag", diag, c(N(3)), c(N(3), 1), c(N(3, 4)), c(N(3, 4), -1), view=None),
    row("diagflat", np.diagflat, c(N(3)), c(N(2, 2), 1)),
    row("diag_embed", diag_embed, c(N(2, 3)), c(N(3), 1), c(N(2, 3), -1, 0, 2)),
    row("diagonal_scatter", diagonal_scatter, c(N(3, 4), N(3)), c(N(3, 3), N(2), 1), c(N(3, 3), N(2), -1)),
    row("select_scatter", written(lambda o, dim, i: np.moveaxis(o, dim, 0)[i, ...]), c(N(3, 4), N(4), 0, 1), c(N(3, 4), N(3), 1, 2)),
    row("slice_scatter", written(sliced), c(N(5, 2), N(2, 2), 0, 1, 3), c(N(2, 5), N(2, 2), 1, 0, 4, 2)),
    row("as_strided_scatter", written(lambda o, size, stride, offset=0: strided(o, size, stride, offset)), c(N(3, 4), N(2, 2), (2, 2), (4, 1)), strided=False),
    row("meshgrid", lambda *x, indexing="ij": list(np.meshgrid(*x, indexing=indexing)), c(N(2), N(3), indexing="ij"), c(N(2), N(3), indexing="xy"), view=True, strided=False),
    row("cartesian_prod", cartesian, c(N(2), N(3)), c(I(2), I(2), I(2))),
    row("combinations", combinations, c(N(4)), c(N(4), 3), c(N(3), 2, True)),
    # gathering
    row("gather", gather, c(N(3, 4), 1, IDX), c(N(3, 4), 0, IDX), c(I(3, 4), 1, IDX), half=True),
    row("take_along_dim", take_along, c(N(3, 4), IDX, 1), c(N(3, 4), K([5, 0, 5]))),
    row("index_select", lambda x, dim, i: np.take(x, i, dim), c(N(3, 4), 0, PLACES), c(N(3, 4), 1, K([3, 3, 0])), c(N(3, 4), 0, K([], np.int64))),
    row("take", lambda x, i: x.reshape(-1)[i], c(N(3, 4), K([0, 11, 5, -1])), c(N(3), K([[0], [2]]))),
    row("masked_select", lambda x, m: np.broadcast_arrays(x, m)[0][np.broadcast_to(m, np.broadcast_shapes(x.shape, m.shape))], c(N(3, 4), B(3, 4)), c(N(3, 4), B(4)), c(N(4), K([False] * 4)), meta=False),
    row("masked_fill", lambda x, m, value: np.where(m, value, x), c(N(3, 4), B(3, 4), 2.0), c(N(3, 4), B(4), N()), c(N(4), B(3, 1), 1.0)),
    row("Tensor.masked_fill_", lambda x, m, value: np.where(m, value, x), c(N(3, 4), B(3, 4), 2.0), c(N(3, 4), B(4), N()), writes=True),
    row("where", where, c(B(3, 4), N(3, 4), N(4)), c(B(3), N(3), 0.5), c(B(3), 1.5, N(3)), v(B(3), I(3), N(3))),
    row("Tensor.where", lambda x, m, y: np.where(m, x, y), c(N(3), B(3), N(3)), c(N(3), B(3), 0.5)),
    row("nonzero", np.argwhere, v(I(3, 4)), v(B(3)), v(N(0, 2)), v(N()), order=0, meta=False),
    row("argwhere", np.argwhere, v(I(3, 4)), v(B(3)), order=0, meta=False),
    # scattering
    row("scatter", scatter, c(N(3, 4), 1, K([[0, 2], [1, 0]]), N(3, 4)), c(N(3, 4), 0, K([[0, 2, 1, 1]]), 2.5), v(N(3, 4), 1, IDX, N(3, 2), reduce="add"), v(N(3, 4), 0, IDX, 2.0, reduce="multiply")),
    row("Tensor.scatter_", scatter, c(N(3, 4), 1, K([[0, 2], [1, 0]]), N(3, 4)), c(N(3, 4), 0, K([[0, 2, 1, 1]]), 2.5), writes=True),
    row("scatter_add", lambda *a: scatter(*a, reduce="add"), c(N(3, 4), 1, IDX, N(3, 2)), c(N(3, 4), 0, IDX, N(3, 4))),
    row("scatter_reduce", lambda x, d, i, s, r, include_self=True: scatter(x, d, i, s, reduce=r, include_self=include_self),
        *(c(distinct(3, 4), 1, IDX, N(3, 2), how, include_self=s) for how in ("sum", "prod", "mean", "amax", "amin") for s in (True, False))),
    row("index_add", along_index(lambda a, b, alpha=1: a + alpha * b), c(N(3, 4), 0, PLACES, N(2, 4)), c(N(3, 4), 1, K([1, 1]), N(3, 2), alpha=2)),
    row("index_copy", along_index(lambda a, b: b), c(N(3, 4), 0, PLACES, N(2, 4)), c(N(3, 4), 1, PLACES, N(3, 2))),
    row("index_fill", along_index(lambda a, b: b), c(N(3, 4), 0, PLACES, 2.5), c(N(3, 4), 1, PLACES, N())),
    row("Tensor.index_fill_", along_index(lambda a, b: b), c(N(3, 4), 0, PLACES, 2.5), c(N(3, 4), 1, PLACES, N()), writes=True),
    row("index_reduce", index_reduce, *(c(distinct(3, 4), 0, K([2, 0, 2]), N(3, 4), how, include_self=s) for how in ("prod", "mean", "amax", "amin") for s in (True, False))),
    row("masked_scatter", masked_scatter, c(N(3, 4), B(3, 4), N(12)), c(N(3, 4), B(4), N(3, 4))),
    row("put", put, c(N(3, 4), K([0, 7]), N(2)), c(N(3, 4), K([0, 0, 7]), N(3), True)),
]  # fmt: skip
