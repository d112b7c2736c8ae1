"""Spread and order statistics: variance, median, mode, quantiles, covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.core.dtype_sets import FULL
from rushlight.core.settings import warn
from rushlight.dispatch.registry import Array, Dims, composite, op, public
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.reductions.extremes import (
    all_evenly_on_arrays,
    chosen_on_arrays,
    evenly,
    nonempty,
    to_chosen,
)
from rushlight.ops.reductions.reduce import axes, axis, keep, reduced_count

if TYPE_CHECKING:
    Bool = bool

Tensor = Any  # annotation only


# -- variance --------------------------------------------------------------------------------------


def settings(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """(dim, correction): `var(False)` and `var(0, False)` say `unbiased` where a dimension may be."""
    if dim.__class__ is bool:
        dim, unbiased = None, dim
    if unbiased is None:
        return dim, 1 if correction is None else correction
    if correction is not None:
        raise TypeError("var() takes `unbiased` or `correction`, not both")
    return dim, 1 if unbiased else 0


def check_spread(input: Any, over: Any, correction: float, name: str) -> None:
    if input.dtype.kind in "iub":
        raise RuntimeError(
            f"{name if '_' in name else 'std and var'} only support floating point and complex dtypes"
        )
    n = reduced_count(input.shape, over)
    if n <= correction:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel)."
        )


@op()
def var(
    xp, input: Array, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: float | None = None,
):  # fmt: skip
    """The variance over `dim`: the squared distances from the mean, divided by n - `correction`.

    [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]; over all dimensions [].
    `correction` is 1 unless given; `unbiased=False` means 0. Where n - `correction` is not positive
    the divisor is 0 and a warning says so. Two passes; of complex numbers the squared absolute
    distances, so the result is real.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, 2.0, 3.0, 4.0]).var()
    tensor(1.6667)
    """
    dim, correction = settings(dim, unbiased, correction)
    over = axes(dim, input.ndim)
    check_spread(input, over, correction, "var")
    return xp.variance(input, over, keepdim, correction)[0]


def var_backward(
    g: Tensor, input: Tensor, dim: Any, unbiased: Any, keepdim: Bool, correction: Any
) -> Tensor:
    dim, correction = settings(dim, unbiased, correction)
    n = reduced_count(input.shape, dim)
    if n == 0:
        return input * 0
    g = keep(g, input.shape, dim, keepdim)
    left = n - correction
    scale = 2.0 / left if left > 0 else float("inf")
    if not left > 0:  # the divisor was 0: 0/0 is nan, as it was in the forward
        return g * ((input - input.mean(dim, True)) * scale if n > 1 else input * float("nan"))
    return (g * scale) * (input - input.mean(dim, True))


var.grad(input=var_backward)


@op()
def std(
    xp, input: Array, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: float | None = None,
):  # fmt: skip
    """The square root of `var`. Its gradient where it is 0 is 0, not nan.

    [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]; over all dimensions [].

    >>> import rushlight as torch
    >>> torch.tensor([1.0, 2.0, 3.0, 4.0]).std(unbiased=False)
    tensor(1.1180)
    """
    dim, correction = settings(dim, unbiased, correction)
    over = axes(dim, input.ndim)
    check_spread(input, over, correction, "std")
    v = xp.sqrt(xp.variance(xp.upcast(input), over, keepdim, correction)[0])
    return v if v.dtype is input.dtype or input.dtype.kind == "c" else v.astype(input.dtype)


def std_backward(
    g: Tensor,
    input: Tensor,
    result: Tensor,
    dim: Any,
    unbiased: Any,
    keepdim: Bool,
    correction: Any,
) -> Tensor:
    g = (g / (result * 2)).masked_fill(result == 0, 0)
    return var_backward(g, input, dim, unbiased, keepdim, correction)


std.grad(input=std_backward)


def declare_pair(name: str, root: Bool) -> None:
    """Declare the function of (variance, mean), or with `root` of (standard deviation, mean)."""
    spread, node = name.partition("_")[0], f"{name.title().replace('_', '')}Backward0"

    @op(where="_pair", name=name, node=node, outputs=(spread, "mean"))
    def pair(xp, input: Array, dim: Any, unbiased: Any, keepdim: bool, correction: Any):
        dim, correction = settings(dim, unbiased, correction)
        over = axes(dim, input.ndim)
        check_spread(input, over, correction, name)
        if not root:
            return xp.variance(input, over, keepdim, correction)
        v, m = xp.variance(xp.upcast(input), over, keepdim, correction)
        v = xp.sqrt(v)
        return (v, m) if input.dtype.kind == "c" else (v.astype(input.dtype), m.astype(input.dtype))

    def with_mean(
        g: Tensor | None, g_mean: Tensor | None, input: Tensor, dim: Any, keepdim: Bool
    ) -> Any:
        """The gradient of the spread, and that of the mean; None where nobody sent one."""
        if g_mean is None:
            return g
        of_mean = keep(g_mean, input.shape, dim, keepdim) / max(reduced_count(input.shape, dim), 1)
        of_mean = of_mean.expand(input.shape)
        return of_mean if g is None else g + of_mean

    def var_rule(input, dim, unbiased, keepdim, correction, *, g_var=None, g_mean=None):
        g = None
        if g_var is not None:
            g = var_backward(g_var, input, dim, unbiased, keepdim, correction)
        return with_mean(g, g_mean, input, settings(dim, unbiased, correction)[0], keepdim)

    def std_rule(input, std, dim, unbiased, keepdim, correction, *, g_std=None, g_mean=None):
        g = None
        if g_std is not None:
            g = std_backward(g_std, input, std, dim, unbiased, keepdim, correction)
        return with_mean(g, g_mean, input, settings(dim, unbiased, correction)[0], keepdim)

    pair.grad(input=std_rule if root else var_rule)

    meaning = f"""({"standard deviation" if root else "variance"}, mean) over `dim`; see `{spread}`.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """

    @public(name=name, doc=meaning, overridable=True)
    def public_pair(
        input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Bool = False, *,
        correction: float | None = None, axis: Any = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return tuple(pair(input, axis if dim is None else dim, unbiased, keepdim, correction))


declare_pair("var_mean", False)
declare_pair("std_mean", True)


# -- median, mode, k-th value ----------------------------------------------------------------------


def check_order(name: str, input: Any, *, truth: Bool = False) -> None:
    if input.ndim and (input.dtype.kind == "c" or (input.dtype.kind == "b" and not truth)):
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{dtypes.OF[input.dtype].scalar_name}'"
        )


def declare_median(name: str, meaning: str) -> None:
    """Declare `median` or `nanmedian` and its operators: of all elements, and over a dimension."""
    node, skip_nan = f"{name.capitalize()}Backward", name == "nanmedian"

    @op(where="_all", name=name, node=f"{node}0")
    def of_all(xp, input: Array):
        check_order(f"{name}_cpu", input.reshape(-1))
        return xp.median(input, skip_nan)

    @op(where="_dim", name=name, node=f"{node}1", outputs=("values", "indices"))
    def of_dim(xp, input: Array, dim: int, keepdim: bool = False):
        check_order(f"{name}_out", input.reshape(-1))
        over = axis(dim, input.ndim, name)
        nonempty(name, input, over)
        return xp.median_with_index(input, over, keepdim, skip_nan)

    of_all.grad(input=evenly, kernel=all_evenly_on_arrays)
    of_dim.grad(input=to_chosen, kernel=chosen_on_arrays)

    @public(name=name, doc=meaning, method=True)
    def median(
        input: Tensor, dim: int | None = None, keepdim: Bool = False, *,
        out: Any = None, axis: Any = None, keepdims: Any = None,
    ) -> Any:  # fmt: skip
        if (dim := axis if dim is None else dim) is None:
            return of_all(input, out=out)
        return of_dim(input, dim, keepdim if keepdims is None else keepdims, out=out)

    of_all.op.public_function = of_dim.op.public_function = median


declare_median(
    "median",
    """The median of all elements, or (values, indices) over `dim`; of two middle ones the lower.

    nan where there is one. Of all elements, the gradient is shared evenly by those that have the
    median; over `dim` it goes to the index.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, 4.0, 3.0, 2.0]).median()
    tensor(2.)
    """,
)
declare_median(
    "nanmedian",
    """As `median`, of what is not nan; nan where everything is.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, torch.nan, 3.0, 2.0]).nanmedian()
    tensor(2.)
    """,
)


@op(outputs=("values", "indices"))
def mode(xp, input: Array, dim: int = -1, keepdim: bool = False):
    """(values, indices): the commonest value over `dim`; of several the smallest; its last index.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2, 2, 3, 3]).mode().values
    tensor(2)
    """
    check_order("mode_cpu", input, truth=True)
    over = axis(dim, input.ndim, "mode")
    nonempty("mode", input, over)
    return xp.mode(input, over, keepdim)


@op(outputs=("values", "indices"))
def kthvalue(xp, input: Array, k: int, dim: int = -1, keepdim: bool = False):
    """(values, indices): the k-th smallest over `dim`, counted from 1; nan is larger than any number.

    >>> import rushlight as torch
    >>> torch.tensor([30, 10, 20]).kthvalue(2).values
    tensor(20)
    """
    check_order("kthvalue_cpu", input)
    over = axis(dim, input.ndim, "kthvalue")
    nonempty("kthvalue", input, over)
    n = 1 if over is None else input.shape[over]
    if not 1 <= k <= n:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, the size is {n}"
        )
    return xp.kthvalue(input, over, keepdim, k - 1)


mode.grad(input=to_chosen, kernel=chosen_on_arrays)
kthvalue.grad(input=to_chosen, kernel=chosen_on_arrays)


# -- quantiles -------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def declare_quantile(name: str, meaning: str, skip_nan: Bool) -> None:
    @composite(name=name, doc=meaning)
    def quantile(
        input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
        interpolation: str = "linear",
    ) -> Tensor:  # fmt: skip
        return quantiles(name, input, q, dim, keepdim, interpolation, skip_nan=skip_nan)


declare_quantile(
    "quantile",
    """The `q`-th quantiles (a number in [0, 1], or a tensor of several) of all elements or over `dim`.

    Between two elements `interpolation` decides: linear, lower, higher, midpoint or nearest. nan
    where there is one. Several quantiles make a new first dimension.

    >>> import rushlight as torch
    >>> torch.tensor([0.0, 1.0, 2.0, 3.0]).quantile(0.5)
    tensor(1.5000)
    """,
    False,
)
declare_quantile(
    "nanquantile",
    """As `quantile`, of what is not nan; nan where everything is.

    >>> import rushlight as torch
    >>> torch.tensor([0.0, torch.nan, 3.0]).nanquantile(0.5)
    tensor(1.5000)
    """,
    True,
)


def check_quantile(name: str, input: Tensor, q: Any, interpolation: str) -> None:
    """The errors of `quantile` and `nanquantile`."""
    if not input.numel():
        raise RuntimeError(
            f"{name}() input tensor must be non-empty, got shape {list(input.shape)}"
        )
    if input.dtype.np not in FULL:
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, not {input.dtype}"
        )
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    if not hasattr(q, "_array"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got shape {list(q.shape)}")
    if q.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor: {q.dtype} and {input.dtype}"
        )
    if not q.is_meta and somewhere(~((q >= 0) & (q <= 1))):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


def quantiles(
    name: str,
    input: Tensor,
    q: Any,
    dim: int | None,
    keepdim: Bool,
    interpolation: str,
    *,
    skip_nan: Bool,
) -> Tensor:
    """`quantile`, and `nanquantile` where `skip_nan`: sort, then interpolate between neighbours."""
    check_quantile(name, input, q, interpolation)
    ndim = input.ndim
    if dim is None:
        x = input.reshape(-1)
    elif ndim:
        x = input.movedim(dim, -1)
    else:
        axis(dim, 0, name)
        x = input.reshape(1)
    x = x.sort(-1).values  # nan last
    several = q.shape if hasattr(q, "_array") else ()
    if hasattr(q, "_array") or x.is_meta or (skip_nan and somewhere(x.select(-1, -1).isnan())):
        values = at_ranks(x, q, interpolation, skip_nan).contiguous()
        values = values.movedim(-1, 0) if several else values.squeeze(-1)
    else:
        values = at_rank(x, q, interpolation).contiguous()
    if keepdim and ndim:
        shape = [1] * ndim if dim is None else [*input.shape]
        if dim is not None:
            shape[dim] = 1
        values = values.reshape((*several, *shape))
    elif dim is not None and not ndim:
        values = values.reshape(several)
    return values


def at_rank(x: Tensor, q: float, interpolation: str) -> Tensor:
    """One quantile of sorted rows; NaN where one ends with it."""
    last = x.shape[-1] - 1
    rank = float(x._array.dtype.type(q) * x._array.dtype.type(last))
    rounding = {"higher": math.ceil, "nearest": round}.get(interpolation, math.floor)
    below, end = rounding(rank), x.select(-1, -1)
    values = x.select(-1, below)
    if interpolation in ("linear", "midpoint"):
        weight = 0.5 if interpolation == "midpoint" else rank - below
        values = values.lerp(x.select(-1, math.ceil(rank)), weight)
    return values.where(end == end, end)


def at_ranks(x: Tensor, q: Any, interpolation: str, skip_nan: Bool) -> Tensor:
    """Quantiles of sorted rows, side by side; `skip_nan`: of what is not NaN, which stands at the end."""
    from rushlight import tensor

    if not hasattr(q, "_array"):
        q = tensor(q, dtype=x.dtype, device=x.device)
    n = x.shape[-1]
    several = q.reshape(-1)
    nan = x != x
    if skip_nan:
        ranks = several * ((nan.logical_not().sum(-1, True) - 1).clamp(min=0)).to(x.dtype)
    else:  # the last element is nan when any is
        ranks = (
            (several * (n - 1))
            .expand(*x.shape[:-1], several.shape[0])
            .masked_fill(nan.any(-1, True), n - 1)
        )
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.to(dtypes.int64)
    values = x.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        above = ranks.ceil().to(dtypes.int64)
        weights = ranks * 0 + 0.5 if interpolation == "midpoint" else ranks - below
        values = values.lerp(x.gather(-1, above), weights)
    return values


# -- covariance ------------------------------------------------------------------------------------


def check_weights(name: str, w: Tensor, n: int, kinds: str, words: str) -> None:
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions"
        )
    if w._array.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {name} to have {words} dtype but got {name} with {w.dtype.scalar_name} dtype"
        )
    if w.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{w.numel()} != {n}"
        )
    if n and somewhere(w < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def one_by_one(w: Tensor) -> Tensor:
    """The sum of weights, fewer than eight in PyTorch's order: all that is divided by it shows its last bit."""
    if w.ndim != 1 or not 2 < len(w) < 8:
        return w.sum()
    each = w.unbind(0)
    total = each[0]
    for x in (*each[4:], *each[1:4]):
        total = total + x
    return total


@composite(out=False)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns); 0-d for one variable.

    `fweights`: how often each observation counts (integers), `aweights`: how much. The divisor is the
    sum of the weights minus `correction` (scaled by the mean of `aweights`), at least 0.

    >>> import rushlight as torch
    >>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if input._array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    n = x.shape[1]
    w = None
    if fweights is not None:
        check_weights("fweights", fweights, n, "iu", "integral")
        w = fweights
    if aweights is not None:
        check_weights("aweights", aweights, n, "fV", "floating point")
        w = aweights if w is None else w * aweights
    total = n if w is None else one_by_one(w)
    if w is not None and somewhere(total == 0):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (x if w is None else x * w).sum(1) / total
    if w is None or aweights is None or correction == 0:
        norm = total - correction
    else:
        norm = total - correction * one_by_one(w * aweights) / total
    few = norm <= 0
    if few if few.__class__ is bool else somewhere(few):
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
            "observations."
        )
        norm = 0 if norm.__class__ is int else norm.masked_fill(few, 0)
    x = x - mean.unsqueeze(1)
    other = x if w is None else x * w
    c = x @ (other.t().conj_physical() if x.is_complex() else other.t())
    if norm.__class__ is int:  # a tensor, so that 0 divides
        from rushlight import tensor

        norm = tensor(norm)
    return (c / norm).squeeze()


@composite(out=False)
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlation coefficients of variables (rows) over observations (columns).

    >>> import rushlight as torch
    >>> torch.corrcoef(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    c = cov(input)
    if not c.ndim:
        return c / c
    d = c.diagonal()
    deviation = (d.real if d.is_complex() else d).sqrt()
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if c.is_complex():
        from rushlight import complex as join

        return join(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)
