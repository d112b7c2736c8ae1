"""Counting: how many elements have a value, or lie between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._backends import devices
from rushlight.core import dtypes, return_types
from rushlight.dispatch.registry import Array, Arrays, no_gradients, op, public
from rushlight.ops.reductions.extremes import real_input

if TYPE_CHECKING:
    Bool = bool

Tensor = Any  # annotation only


@op(method=True, node="NotImplemented")
def bincount(xp, input: Array, weights: Array | None = None, minlength: int = 0):
    """How often each of 0, 1, 2, ... occurs in a 1-d tensor of integers; or the sum of its `weights`.

    >>> import rushlight as torch
    >>> torch.bincount(torch.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """
    if input.dtype.kind not in "iu":
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{dtypes.OF[input.dtype].scalar_name}'"
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if input.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input: {list(weights.shape)} and "
            f"{list(input.shape)}"
        )
    try:
        return xp.bincount(input, weights, minlength)
    except ValueError:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.") from None
    except OverflowError as e:
        raise RuntimeError(
            f"maximum value of input overflowed, it should be < {2**63 - 1} but got {e.args[0]}"
        ) from None


bincount.grad(weights=no_gradients("bincount"))


@op()
def histc(xp, input: Array, bins: int = 100, min: float = 0, max: float = 0):
    """How many elements fall into each of `bins` equal bins from `min` to `max`, in the input's dtype.

    With min = max the bins span the elements. What lies outside and nan is not counted.

    >>> import rushlight as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if input.dtype.kind == "c":
        real_input("aminmax_cpu", input)
    if input.dtype.kind in "iub":
        raise NotImplementedError(
            f"\"histogram_cpu\" not implemented for '{dtypes.OF[input.dtype].scalar_name}'"
        )
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    low, high = min, max
    if low == high and input.size:
        low, high = xp.amin(input, None, False).item(), xp.amax(input, None, False).item()
    if low == high:
        low, high = low - 1, high + 1
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histc: max must be larger than min, got min {min} and max {max}")
    return xp.histc(input, bins, low, high)


@op(where="_all", name="histogramdd", outputs="list", node="NotImplemented")
def between(xp, input: Array, edges: Arrays, weight: Array | None, density: bool):
    """The histogram of rows, and the edges, which have its history."""
    return xp.histogram(input, edges, weight, density), *[xp.copy_like(e, e) for e in edges]


@op(where="_all", name="histogramdd_of_counts", outputs="list", node="NotImplemented")
def counted(xp, input: Array, weight: Array | None, counts: list, given: Any, density: bool):
    """As `between`, for so many equal bins in every dimension, from `given` or of all elements."""
    edges = even_edges(xp, input, counts, given)
    return xp.histogram(input, edges, weight, density), *edges


between.grad(input=no_gradients("histogram"), weight=no_gradients("histogram"))
counted.grad(input=no_gradients("histogram"), weight=no_gradients("histogram"))


def even_edges(xp: Any, input: Any, counts: list, given: Any) -> list:
    """The edges of equal bins in every column of an array."""
    n = len(counts)
    if given is not None and len(given) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but "
            f"got {len(given)}"
        )
    lows, highs = [0.0] * n, [1.0] * n
    if given is not None:
        lows, highs = given[::2], given[1::2]
    elif input.size:
        lows, highs = xp.amin(input, 0, False).tolist(), xp.amax(input, 0, False).tolist()
    result = []
    for d, (count, low, high) in enumerate(zip(counts, lows, highs)):
        if count <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {count} for dimension {d}"
            )
        if not (abs(low) < float("inf") and abs(high) < float("inf")):
            raise RuntimeError(
                f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite"
            )
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = xp.empty(count + 1, input.dtype)
        xp.linspace_into(edges, float(low), float(high))
        result.append(edges)
    return result


def c_name(t: Tensor) -> str:
    """The name of a dtype in C: `float`."""
    return devices.of(t._array).c_name(t._array)


def check_histogram(input: Tensor, weight: Tensor | None) -> None:
    if input._array.dtype.kind in "iubc":
        raise NotImplementedError(
            f"\"histogramdd\" not implemented for '{input.dtype.scalar_name}'"
        )
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if weight is not None:
        if weight.dtype is not input.dtype:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should "
                f"have the same dtype, but got input({c_name(input)}), and weight({c_name(weight)})"
            )
        if weight.shape != input.shape[:-1]:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
                f"input tensor excluding its innermost dimension, but got input with shape "
                f"{list(input.shape)} and weight with shape {list(weight.shape)}"
            )


def counts_and_edges(
    input: Tensor, weight: Tensor | None, bins: Any, given: Any, density: Bool
) -> Any:
    """The histogram of rows and its edges; `bins`: how many in each dimension, or the edges themselves."""
    n = input.shape[-1]
    if bins.__class__ is int:
        bins = [bins] * n
    if len(bins) != n:
        raise RuntimeError(
            f"torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got "
            f"{len(bins)}"
        )
    if not hasattr(bins[0], "_array"):
        return counted(input, weight, bins, given, density)
    for d, edges in enumerate(bins):
        if edges.dtype is not input.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
                f"input with dtype {c_name(input)} and bins for dimension {d} with dtype "
                f"{c_name(edges)}"
            )
        if edges.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {edges.ndim} "
                f"dimensions in the bins tensor for dimension {d}"
            )
        if not edges.numel():
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have at least 1 element, dimension {d}"
            )
    return between(input, bins, weight, density)


@public(method=True, overridable=True)
def histogram(
    input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None,
    density: Bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """(hist, bin_edges): how many elements (or how much `weight`) fall between each two edges.

    `bins`: the edges, or how many bins; these span `range`, or the elements. The last bin contains
    its right edge. `density`: the integral is 1.

    >>> import rushlight as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), bins=2).hist
    tensor([2., 1.])
    """
    if range is not None and hasattr(bins, "_array"):
        raise TypeError(
            "histogram() received an invalid combination of arguments - got (Tensor, Tensor, range=tuple): the edges "
            "say where the bins are"
        )
    for name, made in zip(("hist", "bin_edges"), out or (), strict=False):
        if made.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input "
                f"{c_name(input)} and {name} {c_name(made)}"
            )
    flat = input.reshape(-1, 1)
    if weight is not None:
        weight = weight.reshape(-1)
    check_histogram(flat, weight)
    bins = bins if bins.__class__ is int else [bins]
    hist, *edges = counts_and_edges(flat, weight, bins, range, density)
    made = return_types.make("histogram", ("hist", "bin_edges"))
    if out is not None:
        for o, r in zip(out, (hist, edges[0]), strict=True):
            o.resize_(r.shape).copy_(r)
        return made(out)
    return made((hist, edges[0]))


@public(overridable=True)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: Bool = False
) -> Any:
    """(hist, bin_edges): the histogram of points, whose coordinates are the last dimension of `input`.

    `bins`: the edges for every coordinate, or how many bins each; `range`: low and high of each
    coordinate in turn. See `histogram`.

    >>> import rushlight as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0]]), [2, 2]).hist
    tensor([[0., 1.],
            [2., 0.]])
    """
    check_histogram(input, weight)
    flat = input.reshape(-1, input.shape[-1])
    weight = None if weight is None else weight.reshape(-1)
    hist, *edges = counts_and_edges(flat, weight, bins, range, density)
    return return_types.make("histogramdd", ("hist", "bin_edges"))((hist, tuple(edges)))
