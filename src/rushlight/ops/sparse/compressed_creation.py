"""Functions that make compressed sparse tensors of their parts, and check them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.compressed import BLOCKED, BY_COLUMN, LAYOUTS, NAMES, Compressed
from rushlight.core import dtypes
from rushlight.core.dtype_sets import I32, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.creation import as_array, finished, invariants, on_cpu, sizes_of
from rushlight.ops.sparse.operators import assemble_compressed, run

# -- checks ----------------------------------------------------------------------------------------


def names_of(layout: Any) -> tuple[str, str, str, str, str]:
    """The names of the two index arrays, of a line, and of the numbers of cells and of lines."""
    block = " block" if layout in BLOCKED else ""
    if layout in BY_COLUMN:
        return "ccol_indices", "row_indices", f"column{block}", "nrows", "ncols"
    return "crow_indices", "col_indices", f"row{block}", "ncols", "nrows"


def check_dimensions(pointers: np.ndarray, plain: np.ndarray, values: Any, layout: Any) -> None:
    """RuntimeError unless the numbers of dimensions fit together."""
    kind, other, *_ = names_of(layout)
    for name, a in ((kind, pointers), (other, plain)):
        if a.ndim and a.shape[-1] > 1 and a.strides[-1] != a.itemsize:
            raise RuntimeError(f"expected {name} to be a contiguous tensor per batch")
    if pointers.ndim < 1:
        raise RuntimeError(f"{kind} must have dimensionality >= 1 but got {pointers.ndim}")
    if pointers.ndim != plain.ndim:
        raise RuntimeError(
            f"{kind} and {other} dimensionalities must be equal but got {pointers.ndim} and {plain.ndim}, "
            "respectively"
        )
    batch, block = pointers.ndim - 1, 2 * (layout in BLOCKED)
    if values.ndim <= batch + block:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {block}) "
            f"but got {values.ndim}"
        )


def check_sizes(pointers: Any, plain: Any, values: Any, size: tuple, layout: Any) -> None:
    """RuntimeError unless the parts are those of a tensor of `size`."""
    kind, other, line, *_ = names_of(layout)
    batch, blocked = pointers.ndim - 1, layout in BLOCKED
    dense = values.ndim - batch - 2 * blocked - 1
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(size)}"
        )
    batches = [list(x.shape[:batch]) for x in (pointers, plain, values)]
    if any(b != list(size[:batch]) for b in batches):
        raise RuntimeError(
            f"all batch dimensions of {kind} (={batches[0]}), {other} (={batches[1]}), and values "
            f"(={batches[2]}) must be equal to tensor batch dimensions (={list(size[:batch])})"
        )
    block = values.shape[batch + 1 : batch + 3] if blocked else (1, 1)
    for i, n in enumerate(block):
        if n == 0 or size[batch + i] % n:
            raise RuntimeError(
                f"tensor shape[{i}] (={size[batch + i]}) must be divisible with blocksize[{i}] (={n}) as "
                "defined by values shape"
            )
    if tuple(values.shape[values.ndim - dense :]) != size[batch + 2 :]:
        raise RuntimeError(
            f"the dense dimensions of values (={list(values.shape[values.ndim - dense :])}) must be equal to "
            f"those of the tensor (={list(size[batch + 2 :])})"
        )
    by_column = layout in BY_COLUMN
    lines = size[batch + by_column] // block[by_column]
    if pointers.shape[-1] != lines + 1:
        raise RuntimeError(
            f"{kind}.shape[-1] must be equal to the number of {line}s + 1 (={lines + 1}), but got "
            f"{pointers.shape[-1]}"
        )
    if plain.shape[-1] != values.shape[batch]:
        raise RuntimeError(
            f"{other}.shape[-1] must be equal to nnz (={values.shape[batch]}) as defined by "
            f"values.shape[{batch}], but got {plain.shape[-1]}"
        )


def check_dtypes(pointers: np.ndarray, plain: np.ndarray, layout: Any) -> None:
    kind, other, *_ = names_of(layout)
    a, b = (dtypes.OF[x.dtype].scalar_name for x in (pointers, plain))
    if a != b:
        raise RuntimeError(
            f"{kind} and {other} must have the same dtype, bot got {a} and {b}, respectively"
        )
    if pointers.dtype not in (I32, I64):
        raise RuntimeError(f"{kind} and {other} dtype must be Int or Long, but got {a}")


def check_indices(pointers: Any, plain: Any, cells: int, layout: Any, distinct: bool) -> None:
    """RuntimeError for pointers that do not divide the entries, and entries outside of `cells`.

    `distinct`: the entries of each line have to be sorted, too, and none to occur twice.
    """
    kind, other, _, most, lines = names_of(layout)
    counts = np.diff(pointers.astype(np.int64))

    def failed(what: str) -> None:
        raise RuntimeError(f"`{what}` is not satisfied.")

    if (pointers[..., 0] != 0).any():
        failed(f"{kind}[..., 0] == 0")
    if (pointers[..., -1] != plain.shape[-1]).any():
        failed(f"{kind}[..., -1] == nnz")
    if (counts < 0).any() or (distinct and (counts > cells).any()):
        failed(f"0 <= {kind}[..., 1:] - {kind}[..., :-1] <= {most}")
    if plain.size and (plain.min() < 0 or plain.max() >= cells):
        failed(f"0 <= {other} < {most}")
    if distinct and plain.size:
        line = np.repeat(np.arange(counts.size), counts.reshape(-1))
        key = line * cells + plain.reshape(-1).astype(np.int64)
        if (key[1:] <= key[:-1]).any():
            failed(
                f"{other}[..., {kind}[..., i - 1]:{kind}[..., i]] for all i = 1, ..., {lines} are sorted "
                "and distinct along the last dimension values"
            )


def check_all(pointers: Any, plain: Any, values: Any, size: tuple, layout: Any) -> None:
    """RuntimeError unless all invariants of a compressed layout hold."""
    check_dimensions(pointers, plain, values, layout)
    check_sizes(pointers, plain, values, size, layout)
    check_dtypes(pointers, plain, layout)
    check_indices(pointers, plain, cells_of(values, size, pointers.ndim - 1, layout), layout, True)


def cells_of(values: Any, size: tuple, batch: int, layout: Any) -> int:
    """How many entries or blocks a line has."""
    at = int(layout not in BY_COLUMN)
    return size[batch + at] // (values.shape[batch + 1 + at] if layout in BLOCKED else 1)


# -- tensors ---------------------------------------------------------------------------------------


def smallest(pointers: Any, plain: Any, values: Any, layout: Any) -> tuple:
    """The smallest size that holds all entries."""
    batch = pointers.ndim - 1
    block = values.shape[batch + 1 : batch + 3] if layout in BLOCKED else (1, 1)
    lines, cells = pointers.shape[-1] - 1, int(plain.max()) + 1 if plain.size else 0
    rows, cols = (cells, lines) if layout in BY_COLUMN else (lines, cells)
    dense = values.shape[batch + 1 + 2 * (layout in BLOCKED) :]
    return (*pointers.shape[:-1], rows * block[0], cols * block[1], *dense)


def made(name: str, parts: tuple, size: Any, layout: Any, options: dict) -> Tensor:
    """A compressed tensor of its parts, checked as far as `check_invariants` says.

    By default all is checked but that the entries of a line are sorted and distinct.
    """
    v = as_array(parts[2], options["dtype"])
    device, check = options["device"], options["check_invariants"]
    on_cpu(name, v.device if device is None else device)
    pointers, plain = (as_array(x)._array for x in parts[:2])
    check = invariants["checked"] if check is None else check
    check_dimensions(pointers, plain, v, layout)
    size = smallest(pointers, plain, v, layout) if size is None else sizes_of(name, size)
    if check:
        check_all(pointers, plain, v, size, layout)
    if pointers.dtype is not I32 or plain.dtype is not I32:
        pointers, plain = (x.astype(I64, copy=False) for x in (pointers, plain))
    if check is None:
        check_sizes(pointers, plain, v, size, layout)
        check_indices(pointers, plain, cells_of(v, size, pointers.ndim - 1, layout), layout, False)
    like = Compressed(pointers, plain, v._array, size, layout)
    t = run(assemble_compressed, v, like, "SparseCompressedTensorBackward0")
    requires_grad = options["requires_grad"]
    return finished(t.detach() if requires_grad else t, requires_grad)


@public()
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None,
                             layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):  # fmt: skip
    """A sparse tensor in one of the compressed layouts: the entries `compressed_indices[i]` to
    `compressed_indices[i + 1]` of `values` are those of row (or column) i; `plain_indices` say where there.

    Leading dimensions that all three share are batch dimensions, trailing dimensions of `values` dense ones;
    in sparse_bsr and sparse_bsc an entry is a block. Without `size` it is the smallest that holds all.
    RuntimeError for indices outside of `size` and sizes that do not fit; with `check_invariants=True` also
    for entries of a row that are not sorted and distinct; with False nothing is checked.

    >>> import rushlight as torch
    >>> torch.sparse_compressed_tensor([0, 1], [0], [2.0], layout=torch.sparse_csr).to_dense()
    tensor([[2.]])
    """
    if layout not in LAYOUTS:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{NAMES.get(layout, 'none')}"
        )
    options = {
        "dtype": dtype, "device": device, "requires_grad": requires_grad,
        "check_invariants": check_invariants,
    }  # fmt: skip
    parts = (compressed_indices, plain_indices, values)
    return made("sparse_compressed_tensor", parts, size, layout, options)


def of_layout(name: str, own: Any, parts: tuple, size: Any, layout: Any, **options: Any) -> Tensor:
    """A tensor of the layout `own` of a function; RuntimeError where the caller's `layout` is another."""
    if layout not in (None, own):
        raise RuntimeError(
            f"{name}: layout must be {NAMES[own]} but got {NAMES.get(layout, layout)}"
        )
    return made(name, parts, size, own, options)


@public()
def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed rows: entries `crow[i]:crow[i + 1]` are those of row i.

    >>> import rushlight as torch
    >>> torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0]).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    return of_layout(
        "sparse_csr_tensor", dtypes.sparse_csr, (crow_indices, col_indices, values), size, layout, dtype=dtype,
        device=device, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed columns: entries `ccol[j]:ccol[j + 1]` are those of column j.

    >>> import rushlight as torch
    >>> torch.sparse_csc_tensor([0, 1, 2], [1, 0], [4.0, 3.0]).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    return of_layout(
        "sparse_csc_tensor", dtypes.sparse_csc, (ccol_indices, row_indices, values), size, layout, dtype=dtype,
        device=device, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_bsr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed rows of blocks: `values` is [blocks, rows, columns of a block].

    >>> import rushlight as torch
    >>> torch.sparse_bsr_tensor([0, 1], [1], [[[1.0, 2.0], [3.0, 4.0]]]).to_dense()
    tensor([[0., 0., 1., 2.],
            [0., 0., 3., 4.]])
    """
    return of_layout(
        "sparse_bsr_tensor", dtypes.sparse_bsr, (crow_indices, col_indices, values), size, layout, dtype=dtype,
        device=device, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def sparse_bsc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed columns of blocks.

    >>> import rushlight as torch
    >>> torch.sparse_bsc_tensor([0, 1], [1], [[[1.0], [3.0]]]).to_dense()
    tensor([[0.],
            [0.],
            [1.],
            [3.]])
    """
    return of_layout(
        "sparse_bsc_tensor", dtypes.sparse_bsc, (ccol_indices, row_indices, values), size, layout, dtype=dtype,
        device=device, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


@public()
def _validate_sparse_compressed_tensor_args(
    compressed_indices, plain_indices, values, size, layout, check_pinning=None
):
    """RuntimeError unless the parts make a compressed tensor whose invariants all hold."""
    if layout not in LAYOUTS:
        raise RuntimeError(
            "_validate_sparse_compressed_tensor_args expected sparse compressed tensor layout but got "
            f"{NAMES.get(layout, layout)}"
        )
    parts = (compressed_indices._array, plain_indices._array, values)
    check_all(*parts, sizes_of("_validate_sparse_compressed_tensor_args", size), layout)


def declare_validation(layout: Any) -> None:
    code = str(layout)[-3:]

    @public(
        name=f"_validate_sparse_{code}_tensor_args",
        doc=f"RuntimeError unless the parts make a tensor in sparse_{code} whose invariants all hold.",
    )
    def validate(compressed_indices, plain_indices, values, size, check_pinning=None):
        return _validate_sparse_compressed_tensor_args(
            compressed_indices, plain_indices, values, size, layout
        )


for each in LAYOUTS:
    declare_validation(each)


# -- indices ---------------------------------------------------------------------------------------


@public()
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Sorted row numbers as where each of `size` rows begins, and the end: `size + 1` numbers.

    >>> import rushlight as torch
    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    if input.ndim > 1:
        raise RuntimeError(
            f"Input is supposed to be a vector, but got {input.ndim} dimensional tensor."
        )
    starts = np.searchsorted(input.numpy(force=True), np.arange(size + 1))
    return _wrap(starts.astype(np.int32 if out_int32 else np.int64))


@public()
def _convert_indices_from_csr_to_coo(
    crow_indices, col_indices, *, out_int32=False, transpose=False
):
    """Coordinates `[2, nnz]` of compressed rows; the columns first with `transpose`, the batch before them.

    >>> import rushlight as torch
    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0]))
    tensor([[0, 0, 2],
            [1, 2, 0]])
    """
    starts, cols = crow_indices.numpy(force=True), col_indices.numpy(force=True)
    layout = dtypes.sparse_csc if transpose else dtypes.sparse_csr
    like = Compressed(starts, cols, cols, (*starts.shape[:-1], starts.shape[-1] - 1, 0), layout)
    return _wrap(like.coordinates().astype(np.int32 if out_int32 else np.int64))
