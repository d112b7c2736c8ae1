"""What public operators do when an input is a sparse tensor.

`interpret` gets every such call, see Note [Interpreters]; an operator that stands in none of the tables below
is refused by name. The functions take what the operator takes. Most compute on the values with dense
operators, so that gradients follow (see sparse.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.compressed import Compressed
from rushlight._backends.sparse import Coo
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import Array, op
from rushlight.dispatch.results import bump
from rushlight.ops.sparse import coordinates, products, shapes
from rushlight.ops.sparse.conversions import to_dense
from rushlight.ops.sparse.methods import coalesce
from rushlight.ops.sparse.operators import (
    build,
    coo_of,
    is_sparse,
    run,
    values_at_indices,
    values_of,
    with_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op


def interpret(call: Call) -> Any:
    """The result of a call; NOTHING for a composite of which no table says more than its body."""
    from rushlight.dispatch import general, overrides

    op = call.op
    if call.kind == "inplace":
        return inplace(op, general.ordered(op, call.values))
    if call.kind == "composite" and op.path not in VALUEWISE:
        if op.path not in table_of(arrays_in(call.values)):
            return overrides.NOTHING
    return run_op(op, general.named_values(op, call.values), call.out)


def run_op(op: Op, named: dict[str, Any], out: Any) -> Any:
    """Run `op` on arguments among which there are sparse tensors."""
    from rushlight.dispatch import general, results

    for i in op.inputs:
        v = named[i]
        if not op.elementwise and i not in op.lists and v is not None and not isinstance(v, Tensor):
            raise general.not_a_tensor(op, i, v)
    arrays = arrays_in(named.values())
    table = table_of(arrays)
    if op.path in VALUEWISE and is_sparse(named["input"]):
        result = on_values(op, named)
    elif op.path in table:
        result = table[op.path](**named)
    else:
        sparse.refuse(op.name if arrays else f"{op.name}.out", (arrays or [out._array])[0].backend)
    if out is None:
        return result
    if is_sparse(result) and result._array.__class__ is Compressed:
        from rushlight.ops.sparse import compressed

        return compressed.write_out(op.name, out, result)
    if is_sparse(result) or is_sparse(out):
        return coordinates.write_out(op.name, out, result)
    return results.write_out(op, out, result, [v for v in named.values() if isinstance(v, Tensor)])


def arrays_in(values: Any) -> list:
    """The sparse arrays among the arguments of a call."""
    return [t._array for v in values for t in listed(v) if is_sparse(t)]


def table_of(arrays: list) -> dict[str, Callable]:
    """What operators do, by their paths: the table of compressed tensors if there is one."""
    if not any(a.__class__ is Compressed for a in arrays):
        return TABLE
    from rushlight.ops.sparse import compressed

    return compressed.TABLE


def listed(v: Any) -> Any:
    return v if isinstance(v, (list, tuple)) else (v,)


def inplace(op: Op, values: list) -> Tensor:
    """`t.name_(...)` where an argument is sparse: the new entries take the place of the old."""
    t, label = values[0], op.name + "_"
    named = dict(zip(op.params, values, strict=True))
    recorded = thread.grad and any(isinstance(v, Tensor) and v.requires_grad for v in values)
    if not is_sparse(t):
        return into_dense(op, t, named, recorded)
    if recorded:
        raise RuntimeError(
            f"[{label}] in-place operations on sparse tensors are not recorded: use the form without _, "
            "or torch.no_grad()"
        )
    if op.path in VALUEWISE - LINEAR and t._array.__class__ is Coo and not t._array.coalesced:
        raise RuntimeError(f"{label} requires coalesced input")
    return replace(t, run_op(op, named, None), label)


def into_dense(op: Op, t: Tensor, named: dict[str, Any], recorded: bool) -> Tensor:
    """`t.name_(...)` of a dense tensor; a recorded one is a copy of the recorded result."""
    from rushlight.dispatch.inplace import check_inplace, write

    label = op.name + "_"
    check_inplace(t, label, recorded)
    if op.name in ("add", "sub") and not recorded:  # only the entries are written
        other, factor = named["other"], named["alpha"]
        same_shape(label, t, other)
        fits(other, t)
        a: Any = coo_of(other).to(t.dtype)._array
        sparse.add_dense(t._array, a, -factor if op.name == "sub" else factor)
        bump(t)
        return t
    if recorded:  # what the backward pass reads of `t` is its value before the write
        named[op.params[0]] = t.clone()
    result = to_dense(run_op(op, named, None))
    if result.shape != t.shape:
        raise RuntimeError(
            f"[{label}] output with shape {list(t.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    fits(result, t)
    if recorded:
        return t.copy_(result)
    write(t, result._array)
    return t


def fits(result: Tensor, t: Tensor) -> None:
    """RuntimeError when a result cannot be written into `t`."""
    if not dtypes.can_cast(result.dtype, t.dtype):
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
            f"{t.dtype.scalar_name}"
        )


def replace(t: Tensor, result: Tensor, label: str) -> Tensor:
    """Put a sparse result in the place of the sparse tensor `t`."""
    if not is_sparse(result) or result.shape != t.shape:
        raise RuntimeError(
            f"[{label}] the result has shape {list(result.shape)}, not {list(t.shape)}"
        )
    fits(result, t)
    r: Any = result.to(t.dtype)._array if result.dtype is not t.dtype else result._array
    a: Any = t._array
    if r.__class__ is Compressed:
        from rushlight.ops.sparse import compressed

        compressed.put(t, r)
        return t
    a.values = r.values if r.values is not a.values else r.values.copy()
    a.indices, a.coalesced = r.indices, r.coalesced
    bump(t)
    return t


# -- writing ----------------------------------------------------------------------------------------


def zero_(t: Tensor) -> Tensor:
    """No entries, in place."""
    a: Any = t._array
    if a.__class__ is Compressed:
        from rushlight.ops.sparse import compressed

        compressed.put(t, a.without_entries())
        return t
    empty = Coo(a.indices[:, :0].copy(), a.values[:0].copy(), a.shape, True)
    return replace(t, _wrap(empty), "zero_")  # type: ignore[arg-type]


def copy_(t: Tensor, src: Tensor) -> Tensor:
    """The entries of another tensor, in place."""
    if Compressed in (t._array.__class__, src._array.__class__):
        from rushlight.ops.sparse import compressed

        return compressed.copy_(t, src)
    if t.layout is not src.layout:
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{t.type()} and src type = {src.type()}"
        )
    return replace(t, src.detach().to(t.dtype, copy=True), "copy_")


# -- value by value --------------------------------------------------------------------------------

# Operators of one input that keep zeros, with the names of what may be given besides.
VALUEWISE = frozenset(
    "abs aten.conj_copy angle asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan "
    "isneginf isposinf log1p nan_to_num neg rad2deg relu round sgn sign signbit sin sinh sqrt square "
    "tan tanh trunc".split()
)
LINEAR = frozenset(
    "neg aten.conj_copy conj_physical deg2rad rad2deg".split()
)  # these need no coalescing


def on_values(op: Op, named: dict[str, Any]) -> Tensor:
    t = named.pop("input")
    if t._array.__class__ is Coo and op.path not in LINEAR:
        t = coalesce(t)
    result = op.function(run(values_of, t), **named)
    return with_values(t, result, node_of(op), getattr(t._array, "coalesced", False))


def node_of(op: Op) -> str:
    return op.node_name() if op._node is None or op._node.__class__ is str else ""


def linear(name: str, function: Callable) -> Callable:
    """An operator that acts on the values alone and may leave what occurs twice as it is."""

    def act(input: Tensor, **named: Any) -> Tensor:
        result = function(run(values_of, input), **named)
        return with_values(input, result, name, getattr(input._array, "coalesced", False))

    return act


def no_format(memory_format: Any) -> None:
    if memory_format not in (None, dtypes.preserve_format):
        words = memory_format.name.removesuffix("_format").title().replace("_", "")
        raise RuntimeError(f"unsupported memory format option {words}")


def clone(input: Tensor, memory_format: Any = None) -> Tensor:
    no_format(memory_format)
    a: Any = input._array
    v = run(values_of, input).clone()
    return build(v, a.indices.copy(), a.shape, a.coalesced, "CloneBackward0")


def to_copy(input: Tensor, dtype: Any = None, memory_format: Any = None) -> Tensor:
    no_format(memory_format)
    v = run(values_of, input)
    v = v.to(dtype) if dtype is not None and dtype is not v.dtype else v.clone()
    return with_values(input, v, "ToCopyBackward0", getattr(input._array, "coalesced", False))


def power(input: Tensor, exponent: Any) -> Tensor:
    if not is_sparse(input) or isinstance(exponent, Tensor):
        sparse.refuse("pow")
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    t = coalesce(input) if input._array.__class__ is Coo else input
    return with_values(t, run(values_of, t) ** exponent, "PowBackward0", True)


# -- sums and products of two ----------------------------------------------------------------------


@op(where="_sparse", name="add", node="AddBackward0", out=False)
def add_coordinates(xp, input: Array, other: Array):
    """The sum of two sparse tensors of one shape."""
    return sparse.add(input, other)


add_coordinates.grad(input=lambda g: g, other=lambda g: g)


@op(where="_sparse", name="add_dense", node="AddBackward0", out=False)
def add_to_dense(xp, input: Array, other: Array, alpha: Any):
    """dense + alpha * sparse."""
    d = dtypes.promote_types(dtypes.OF[input.dtype], dtypes.OF[other.dtype]).np
    z = input.astype(d)
    sparse.add_dense(z, other, alpha)
    return z


add_to_dense.grad(input=lambda g: g, other=lambda g, alpha: g * alpha)


def same_shape(name: str, a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )


def add(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    if not isinstance(other, Tensor) or not isinstance(input, Tensor) or not is_sparse(other):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if input.shape != other.shape and not is_sparse(input):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(input.shape)} while other has size {list(other.shape)} (dense tensors are not broadcast)"
        )
    same_shape("add", input, other)
    d = dtypes.promote_types(input.dtype, other.dtype)
    if not is_sparse(input):
        return run(add_to_dense, input, other.to(d), alpha)
    input, other = input.to(d), other.to(d)  # first: -1 times a uint8 is none
    other = other if alpha == 1 else mul(other, alpha)
    return run(add_coordinates, input, other)


def sub(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    return add(input, other, -alpha)


def scalar(t: Any) -> bool:
    return not isinstance(t, Tensor) or (not is_sparse(t) and t.ndim == 0)


def mul(input: Any, other: Any) -> Tensor:
    """The product of two tensors or numbers, of which one is sparse at least."""
    first, second = (
        is_sparse(t) and not t.ndim for t in (input, other)
    )  # numbers as sparse tensors
    if first and second:  # one multiplies the entries of the other, which may be several
        d = dtypes.promote_types(input.dtype, other.dtype)
        input, other = input.to(d), other.to(d)
        swap = input._array.coalesced and not other._array.coalesced
    else:
        swap = scalar(input) or first and not scalar(other)
    if swap:
        input, other, second = other, input, first
    if second and is_sparse(input):
        other = to_dense(other)
    if scalar(other):
        return linear("MulBackward0", lambda v: v * other)(input)
    if not is_sparse(input):
        input, other = other, input
    return mul_sparse(input, other) if is_sparse(other) else mul_dense(input, other)


def mul_dense(input: Tensor, other: Tensor) -> Tensor:
    """The product of a sparse tensor and a dense one, with broadcasting."""
    shape = geometry.broadcast_shapes(tuple(other.shape), tuple(input.shape))
    if shape != tuple(input.shape):
        input = coalesce(coordinates.broadcast_to(input, shape))
    a: Any = input._array
    product = run(values_of, input) * values_at_indices(other.expand(shape), a.indices)
    return with_values(input, product, "MulBackward0", a.coalesced)


def mul_sparse(input: Tensor, other: Tensor) -> Tensor:
    """The product of two sparse tensors: of the entries at coordinates that both have."""
    a: Any = input._array
    b: Any = other._array
    sizes = a.shape[: a.sparse_dim]
    if (a.ndim, a.sparse_dim, sizes) != (b.ndim, b.sparse_dim, b.shape[: b.sparse_dim]):
        raise RuntimeError(
            "mul: expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of "
            f"sparse dimensions, but got {list(a.shape)}, of which {a.sparse_dim} are sparse, and {list(b.shape)}, "
            f"of which {b.sparse_dim} are"
        )
    input, other = coalesce(input), coalesce(other)
    a, b = input._array, other._array
    keys = sparse.keys(a.indices, sizes), sparse.keys(b.indices, sizes)
    _, i, j = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    v, w = run(values_of, input), run(values_of, other)
    if len(i) < a.nnz or len(j) < b.nnz:
        v, w = v[_wrap(i)], w[_wrap(j)]
    product = v * w
    return build(
        product, sparse.first_of(a.indices, i), (*sizes, *product.shape[1:]), True, "MulBackward0"
    )


def divided(function: Callable, name: str) -> Callable:
    def div(input: Any, other: Any, **named: Any) -> Tensor:
        if not is_sparse(input):
            sparse.refuse("reciprocal")
        if not scalar(other):
            raise RuntimeError(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                f"{list(other.shape)} for divisor)"
            )
        t = input
        if (named.get("rounding_mode") or name != "DivBackward0") and t._array.__class__ is Coo:
            t = coalesce(t)
        result = function(run(values_of, t), other, **named)
        return with_values(t, result, name, getattr(t._array, "coalesced", False))

    return div


# -- reductions ------------------------------------------------------------------------------------


@op(where="_sparse", name="sum", node="SumBackward0", out=False)
def sum_of_all(xp, input: Array):
    """The sum of all entries, in their dtype."""
    return sparse.wide(input.values).sum().astype(input.dtype)


sum_of_all.grad(input=lambda g, input_shape: g.expand(input_shape))


def sum_of(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Over sparse dimensions coordinates are dropped, over dense ones values are summed."""
    input = summable(input, dtype)
    if dim is None or (dim.__class__ in (tuple, list) and not dim):
        total = run(sum_of_all, input)
        return total if not keepdim else total.reshape((1,) * input.ndim)
    return sum_over(input, dim, keepdim, "SumBackward1")


def summable(input: Tensor, dtype: Any) -> Tensor:
    """A tensor in the dtype that its sum has."""
    if dtype is not None:
        return input.to(dtype)
    return input.to(dtypes.int64) if input.dtype.kind < 2 else input


def sum_over(input: Tensor, dim: Any, keepdim: bool, name: str) -> Tensor:
    a: Any = input._array
    dims = geometry.wrap_dims(dim, input.ndim)
    n = a.sparse_dim
    inside = tuple(d - n + 1 for d in dims if d >= n)
    v = run(values_of, input)
    if inside:
        v = v.sum(inside, keepdim)
    if keepdim:
        at = a.indices.copy()
        at[[d for d in dims if d < n]] = 0
        size = tuple(1 if d in dims else s for d, s in enumerate(a.shape))
        return summed(v, at, size, name, keepdim)
    kept = [d for d in range(n) if d not in dims]
    if not kept:
        return v.sum(0) if n else v[0]
    size = (*(a.shape[d] for d in kept), *v.shape[1:])
    if len(kept) == n and a.coalesced:
        return build(v, sparse.row_major(a.indices), size, True, name)
    return summed(v, a.indices[kept], size, name)


def summed(v: Tensor, at: np.ndarray, size: tuple, name: str, keepdim: bool = False) -> Tensor:
    """A coalesced tensor: `v` at coordinates that may occur several times, added up.

    With `keepdim` it does not count as coalesced, as in PyTorch, which puts the dimensions in again.
    """
    order, starts, k = sparse.groups(sparse.keys(at, size[: len(at)]))
    of = np.empty(k.size, np.int64)
    of[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=k.size))
    total = v.new_zeros((len(starts), *v.shape[1:])).index_add(0, _wrap(of), v)
    first = order[starts]
    if keepdim:
        return build(total, at.take(first, 1), size, len(first) < 2, name)
    return build(total, sparse.first_of(at, first), size, True, name)


def any_of(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if dim is not None:
        sparse.refuse("any.dim")
    return run(values_of, input).any()


def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None):
    """Of all entries; PyTorch has no other."""
    dims = range(input.ndim) if dim is None else geometry.wrap_dims(dim, input.ndim)
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dims and len(dims) != input.ndim:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain "
            "all dimensions of the input"
        )
    if dtype is not None:
        if p in ("fro", None):
            raise ValueError("dtype argument is not supported in frobenius norm")
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    t = coalesce(input) if input._array.__class__ is Coo else input
    return run(values_of, t).norm(2 if p in ("fro", None) else p)


# -- what takes which function ---------------------------------------------------------------------


def _table() -> dict[str, Callable]:
    import rushlight as torch

    return {
        "clone": clone, "_to_copy": to_copy, "pow": power, "add": add, "sub": sub, "mul": mul,
        "rsub": lambda input, other, alpha=1: sub(other, input, alpha),
        "div": divided(torch.div, "DivBackward0"),
        "true_divide": divided(torch.true_divide, "DivBackward0"),
        "floor_divide": divided(torch.floor_divide, ""),
        "sum": sum_of, "any": any_of, "norm": norm,
        "linalg.vector_norm": lambda x, ord=2, dim=None, keepdim=False, dtype=None: norm(
            x, ord, dim, keepdim, dtype=dtype
        ),
        **shapes.TABLE,
        **products.TABLE,
    }  # fmt: skip


TABLE = _table()
