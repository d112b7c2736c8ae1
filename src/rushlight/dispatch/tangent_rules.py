"""Operators whose tangents have a better form than two backwards: see Note [Tangents] in dual.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.type_info import finfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor
    from rushlight.dispatch.registry import Op

# Operators that are linear in their inputs, and those that are linear in each of them.
LINEAR = frozenset(
    "clone _to_copy _to_device neg sum mean cumsum flip roll rot90 Tensor.repeat tril triu diag_embed cat stack trace "
    "gather index_select take aten.index aten.index_gradient aten.gather_gradient aten.index_select_gradient aten.take_gradient "
    "aten.masked_select_gradient masked_select aten.basic_index_gradient aten.diagonal_gradient aten.unfold_gradient aten.laid_out aten.row_major "
    "aten._unsafe_view aten.conj_copy _conj _neg_view aten.block_diag aten.unsafe_split aten.unsafe_split_with_sizes aten.restride "
    "_all.expand _all.sum_to_size internal.c2c internal.r2c internal.c2r internal.resized internal.frames "
    "internal.overlap_add internal.im2col internal.col2im pixel_shuffle pixel_unshuffle channel_shuffle "
    "internal.avg_pool1d internal.avg_pool2d internal.avg_pool3d internal.adaptive_avg_pool1d "
    "internal.adaptive_avg_pool2d internal.adaptive_avg_pool3d internal.upsample_nearest1d "
    "internal.upsample_nearest2d internal.upsample_nearest3d internal.upsample_linear1d internal.upsample_bilinear2d "
    "internal.upsample_trilinear3d internal.upsample_bicubic2d internal.reflection_pad1d internal.reflection_pad2d "
    "internal.reflection_pad3d internal.replication_pad1d internal.replication_pad2d internal.replication_pad3d "
    "internal.circular_pad1d internal.circular_pad2d internal.circular_pad3d _embedding embedding_dense_backward "
    "affine_grid_generator aten.repeat_each select_scatter slice_scatter diagonal_scatter".split()
)
PRODUCTS = frozenset(
    "matmul mm bmm mv dot vdot mul internal.times_adjoint internal.adjoint_times internal.all_products "
    "internal.convolution_weight".split()
)


def added(terms: list) -> Tensor:
    total = terms[0]
    for t in terms[1:]:
        total = total + t
    return total


def logcumsumexp(op: Op, bared: dict, moved: dict, y: Tensor) -> Tensor:
    """The sum of exp(x_j) t_j up to each place, over that of exp(x_j); 0 where that is nothing beside the greatest."""
    x, t, dim = bared["input"], moved["input"], bared["dim"]
    if not x.dim():
        return t
    top = x.detach().amax(dim, keepdim=True) if not x.is_complex() else 0
    return ((x - top).exp() * t).cumsum(dim) / ((y - top).exp() + finfo(x.dtype).tiny)


def with_bias(*factors: str) -> Callable:
    """The rule of operators that are linear in each of two factors, and add `bias`."""

    def rule(op: Op, bared: dict, moved: dict, y: Tensor) -> Tensor:
        terms = [
            op.by_names(bared | {i: moved[i], "bias": None})
            for i in factors
            if moved[i] is not None
        ]
        if (t := moved["bias"]) is not None:
            n = y.dim() - 2 if op.path == "internal.convolution" else 0
            terms.append(t.reshape((*t.shape, *(1,) * n)).expand(y.shape))
        return added(terms)

    return rule


def softmax(op: Op, bared: dict, moved: dict, y: Tensor) -> Tensor:
    """y (t - the mean of t with the weights y)."""
    t = moved["input"]
    p = y * t
    return p - y * p.sum(bared["dim"], keepdim=True)


def log_softmax(op: Op, bared: dict, moved: dict, y: Tensor) -> Tensor:
    """t less its mean with the weights exp(y)."""
    t = moved["input"]
    return t - (y.exp() * t).sum(bared["dim"], keepdim=True)


# Tangents of results: (op, inputs, their tangents, result).
RULES: dict[str, Callable] = {
    "logcumsumexp": logcumsumexp,
    "nn.functional.linear": with_bias("input", "weight"),
    "internal.convolution": with_bias("input", "weight"),
    "_softmax": softmax,
    "_log_softmax": log_softmax,
}
