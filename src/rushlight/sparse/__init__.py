"""Functions on sparse tensors: products, sums, softmax, diagonals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import settings
from rushlight.core.tensor import Tensor
from rushlight.ops.factories.legacy import TYPES as _TYPES
from rushlight.ops.factories.legacy import TensorType as _TensorType
from rushlight.ops.sparse import calls as _calls
from rushlight.ops.sparse import compressed as _compressed
from rushlight.ops.sparse import operators as _sparse
from rushlight.ops.sparse import products as _products
from rushlight.ops.sparse.creation import invariants as _invariants

__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices of which one is sparse, or both.

    As `torch.mm`, but the gradient of a sparse factor is sparse, with its pattern. `reduce`: for a
    `mat1` in compressed rows, how the products of a row are put together: "sum", "mean", "amax",
    "amin". RuntimeError where sizes or dtypes do not fit.

    >>> import rushlight as torch
    >>> a = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().requires_grad_()
    >>> torch.sparse.mm(a, torch.ones(2, 1)).sum().backward()
    >>> a.grad.to_dense()
    tensor([[0., 1.],
            [1., 0.]])
    """
    return _products.mm_with_sparse_gradient(mat1, mat2, reduce)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * mat1 @ mat2 with a sparse `mat1`, whose gradient is sparse.

    >>> import rushlight as torch
    >>> torch.sparse.addmm(torch.ones(1, 1), torch.ones(1, 1).to_sparse(), torch.ones(1, 1), beta=2)
    tensor([[3.]])
    """
    if not _products.either("addmm", mat1, mat2):
        import rushlight

        return rushlight.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return _products.addmm(input, mat1, mat2, beta, alpha, True)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum over all entries, a 0-d tensor, or over dimensions `dim`, sparse where a sparse one is left.

    The gradient is sparse, with the pattern of `input`.

    >>> import rushlight as torch
    >>> torch.sparse.sum(torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse(), 0).to_dense()
    tensor([3., 6.])
    """
    if not isinstance(input, Tensor) or not input.is_sparse:
        raise RuntimeError(
            "[sparse.sum] expected a sparse tensor in coordinates (layout sparse_coo)"
        )
    t = input if dtype is None else input.to(dtype)
    if dim is None:
        return _sparse.run(_sparse.values_of, t).sum()
    return _calls.sum_over(t, dim, False, "SparseSumBackward0")


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax over the specified entries along `dim`; other entries stay zero.

    >>> import rushlight as torch
    >>> torch.sparse.softmax(torch.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    return _products.softmax("_sparse_softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax` over the entries there are.

    >>> import rushlight as torch
    >>> torch.sparse.log_softmax(torch.tensor([[0.0, 2.0]]).to_sparse(), 1).values()
    tensor([0.])
    """
    return _products.softmax("_sparse_log_softmax", input, dim, dtype, True)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) where the sparse `input` has entries; the rest is not computed.

    `input` is in compressed rows, as in PyTorch, or in coordinates.

    >>> import rushlight as torch
    >>> a = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(a, torch.ones(2, 3), torch.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not _sparse.is_sparse(input):
        raise RuntimeError(
            "sampled_addmm: Expected self to have sparse csr layout, but got Strided"
        )
    if not input.is_sparse:
        made = _compressed.sampled_addmm(input, mat1, mat2, beta, alpha)
        return made if out is None else _compressed.write_out("sampled_addmm", out, made)
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({list(mat1.shape)} and "
            f"{list(mat2.shape)})"
        )
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(
            f"sampled_addmm: self has shape {list(input.shape)}, the product "
            f"{[mat1.shape[0], mat2.shape[1]]}"
        )
    input = input.coalesce()
    product = _sparse.run(_products.sampled, mat1, mat2.mH, input.indices()._array)
    values = _sparse.run(_sparse.values_of, input) * beta + product * alpha
    made = _sparse.with_values(input, values, "SparseSampledAddmmBackward0", True)
    if out is None:
        return made
    return _calls.replace(out, made, "sampled_addmm.out")


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` [n, columns] on diagonals `offsets` [n].

    Element j of a row goes to column j, where the diagonal has it. `layout`: torch.sparse_coo (the
    default), sparse_csr or sparse_csc.

    >>> import rushlight as torch
    >>> torch.sparse.spdiags(torch.tensor([1.0, 2.0]), torch.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 2.],
            [0., 0.]])
    """
    import rushlight

    d = diagonals if diagonals.ndim > 1 else diagonals.unsqueeze(0)
    at = offsets.reshape(-1)
    if d.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.ndim > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if offsets.dtype is not rushlight.int64:
        raise RuntimeError(
            f"Offset Tensor must have dtype Long but got {offsets.dtype.scalar_name}"
        )
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if layout not in (None, rushlight.sparse_coo, rushlight.sparse_csc, rushlight.sparse_csr):
        raise RuntimeError(
            "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{str(layout).removeprefix('torch.').title().replace('_', '')}"
        )
    if len(at) != d.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({d.shape[0]}) does not match the number of offsets ({len(at)})"
        )
    if len(at.unique()) != len(at):
        raise RuntimeError("Offset tensor contains duplicate values")
    n, m = shape
    rows, cols, pieces = [], [], []
    for k, offset in enumerate(at.tolist()):
        first, last = max(offset, 0), min(m, n + offset, d.shape[1])
        j = rushlight.arange(first, max(last, first))
        rows.append(j - offset)
        cols.append(j)
        pieces.append(d[k, first : max(last, first)])
    where = rushlight.zeros((2, 0), dtype=rushlight.int64)
    values = d.reshape(-1)[:0]
    if pieces:
        where, values = (
            rushlight.stack((rushlight.cat(rows), rushlight.cat(cols))),
            rushlight.cat(pieces),
        )
    made = rushlight.sparse_coo_tensor(where, values, (n, m))
    return (
        made if layout is None or layout is rushlight.sparse_coo else made.to_sparse(layout=layout)
    )


class check_sparse_tensor_invariants:
    """Enable or disable the checks of sparse tensors' invariants: a switch, context manager and decorator.

    Indices are always checked unless this is said to be disabled. Enabled, it adds the promise
    `is_coalesced=True`, and that the entries of a line of a compressed tensor are sorted and distinct.

    >>> import rushlight as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """True if the invariants are checked now."""
        return bool(_invariants["checked"])

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _invariants["checked"] = True

    @staticmethod
    def disable() -> None:
        """Do not check from now on."""
        _invariants["checked"] = False

    def __enter__(self) -> None:
        if self.saved:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager "
                "instance for context nesting."
            )
        self.saved.append(_invariants["checked"])
        _invariants["checked"] = self.state

    def __exit__(self, *exc: object) -> None:
        _invariants["checked"] = self.saved.pop()

    def __call__(self, function: Callable) -> Callable:
        import functools

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


class _SparseType(_TensorType):
    """The class of `torch.sparse.FloatTensor` and its like."""

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


def _type(name: str, d: Any) -> type:
    import rushlight

    def __new__(cls: Any, *args: Any) -> Tensor:
        """`(indices, values)`, `(indices, values, size)`, or sizes alone for a tensor of zeros."""
        made_of = (
            ["indices", "values", "shape"][: len(args)]
            if args and isinstance(args[0], Tensor)
            else ["shape"]
        )
        settings.warn_once(
            f"torch.sparse.SparseTensor({', '.join(made_of)}, *, device=) is deprecated.  Please use "
            f"torch.sparse_coo_tensor({', '.join(made_of)}, dtype=, device=)."
        )
        if args and isinstance(args[0], Tensor):
            return rushlight.sparse_coo_tensor(*args)
        sizes = args[0] if args and isinstance(args[0], (tuple, list)) else args or (0,)
        return rushlight.sparse_coo_tensor(tuple(sizes), dtype=d)

    body = {
        "__new__": __new__, "dtype": d, "layout": rushlight.sparse_coo, "is_cuda": False,
        "is_sparse": True, "__module__": "torch.sparse",
        "__doc__": f"Makes sparse tensors of dtype {d}; the older form of `sparse_coo_tensor`.",
    }  # fmt: skip
    return _SparseType(name, (), body)


def __getattr__(name: str) -> Any:
    """`torch.sparse.FloatTensor` and its like, made when they are first used."""
    if name in _TYPES:
        made = globals()[name] = _type(name, _TYPES[name].dtype)
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """`gradcheck` for functions of sparse tensors: it varies the values of the specified entries.

    >>> import rushlight as torch
    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> check(lambda x: torch.sparse.mm(x, torch.ones(2, 2, dtype=torch.float64)), (x,))
    True
    """
    import functools

    @functools.wraps(gradcheck)
    def check(fn: Callable, inputs: Any, **options: Any) -> bool:
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        options.pop("masked", None)  # they always are
        flat: list[Any] = []
        makers: list[Any] = []
        for x in inputs:
            if not _sparse.is_sparse(x):
                makers.append(None)
                flat.append(x)
                continue
            x = x if not x.is_sparse else x.coalesce()
            like = x.detach()
            makers.append(like)
            v = _sparse.run(_sparse.values_of, like).clone()
            flat.append(v.requires_grad_(x.requires_grad))

        def strided(*args: Any) -> Any:
            given = [
                a if like is None else _sparse.with_values(like, a, "", True)
                for a, like in zip(args, makers, strict=True)
            ]
            out = fn(*given)
            outs = out if isinstance(out, (tuple, list)) else (out,)
            outs = tuple(o.to_dense() if _sparse.is_sparse(o) else o for o in outs)
            return outs if isinstance(out, (tuple, list)) else outs[0]

        return gradcheck(strided, tuple(flat), **options)

    return check
