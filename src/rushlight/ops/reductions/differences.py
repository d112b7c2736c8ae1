"""Differences of neighbours, slopes by them, and areas under samples."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.dispatch.registry import composite, public
from rushlight.ops.layout.regions import slice_dim

Tensor = Any  # annotation only


@composite
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along `dim`, `n` times over. Of bool: whether they differ.

    `prepend` and `append` are joined to the input first.

    >>> import rushlight as torch
    >>> torch.tensor([1, 4, 9]).diff()
    tensor([3, 5])
    """
    ndim = len(input._array.shape)
    if not ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    dim = geometry.wrap_dim(dim, ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for extra in (prepend, append):
        if extra is None:
            continue
        if extra.ndim != input.ndim:
            raise RuntimeError(
                "diff expects prepend or append to be the same dimension as input, got shapes "
                f"{list(extra.shape)} and {list(input.shape)}"
            )
        for d, (k, m) in enumerate(zip(input.shape, extra.shape, strict=True)):
            if k != m and d != dim:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except "
                    f"along the differencing dimension; input.size({d}) = {k}, but got tensor.size({d}) = {m}"
                )
    if not n:
        return input.clone()
    if prepend is not None or append is not None:
        from rushlight import cat

        input = cat([t for t in (prepend, input, append) if t is not None], dim)
    for _ in range(min(n, input._array.shape[dim])):
        size = input._array.shape[dim]
        if not size:
            break
        after, before = slice_dim(input, dim, 1, size), slice_dim(input, dim, 0, size - 1)
        input = after.logical_xor(before) if input._array.dtype.kind == "b" else after - before
    return input


def widths(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances of the sample points, along `dim` of `y`."""
    if x._array.dtype.kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    n = y.shape[dim]
    if x.ndim == 1:
        if x.shape[0] != n:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: {x.shape[0]} for {n}"
            )
        return x.diff().reshape(-1, *(1,) * (y.ndim - dim % y.ndim - 1))
    if x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    return x.narrow(dim, 1, max(x.shape[dim] - 1, 0)) - x.narrow(dim, 0, max(x.shape[dim] - 1, 0))


def sides(y: Tensor, dim: int) -> Tensor:
    """The sums of each two neighbours along `dim`."""
    n = y.shape[dim]
    return y.narrow(dim, 0, n - 1) + y.narrow(dim, 1, n - 1) if n else y


def samples(name: str, y: Tensor, dim: int) -> int:
    """`dim` counted from the front; RuntimeError for bool."""
    if y._array.dtype.kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    return geometry.wrap_dim(dim, y.ndim, wrap_scalar=False)


def points(x: Any, dx: Any) -> tuple[Any, Any]:
    """(x, dx): the second positional argument of `trapezoid` may be either."""
    return (x, 1 if dx is None else dx) if x is None or hasattr(x, "_array") else (None, x)


@composite(method=False, out=False)
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral of samples `y` along `dim` by the trapezoidal rule.

    The sample points are `x` (one value each), or `dx` apart (1 unless given).

    >>> import rushlight as torch
    >>> torch.trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    x, dx = points(x, dx)
    dim = samples("trapezoid", y, dim)
    if not y.shape[dim]:
        return y.new_zeros(y.shape[:dim] + y.shape[dim + 1 :])
    if x is not None:
        return (sides(y, dim) * widths("trapezoid", y, x, dim)).sum(dim) / 2.0
    return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx


@composite(method=False, out=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Another name of `trapezoid`."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composite(method=False, out=False)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral up to each sample point but the first; see `trapezoid`.

    >>> import rushlight as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    x, dx = points(x, dx)
    dim = samples("cumulative_trapezoid", y, dim)
    if x is not None:
        return (sides(y, dim) * widths("cumulative_trapezoid", y, x, dim)).cumsum(dim) / 2.0
    return (sides(y, dim) * (dx / 2.0)).cumsum(dim)


# -- slopes ----------------------------------------------------------------------------------------


@public(overridable=True)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The slopes of samples along each of `dim` (all unless given), by the three nearest points.

    `spacing`: the distance of neighbours, or for every dimension a distance, or a tensor with the
    coordinates. At the ends the slope to the neighbour, with `edge_order=2` that of the parabola
    through the last three.

    >>> import rushlight as torch
    >>> torch.gradient(torch.tensor([1.0, 2.0, 4.0, 7.0]))
    (tensor([1.0000, 1.5000, 2.5000, 3.0000]),)
    """
    if dim is None:
        dims = tuple(range(input.ndim))
    else:
        dims = geometry.wrap_dims(
            tuple(dim) if dim.__class__ in (tuple, list) else (dim,), input.ndim
        )
    if spacing is None:
        spacing = 1.0
    if spacing.__class__ not in (tuple, list):
        if hasattr(spacing, "_array"):
            spacing = spacing.item()
        spacing = [spacing] * len(dims)
    if len(spacing) != len(dims):
        given = (
            f"'self.dim() = {input.ndim}', since dim argument was not given"
            if dim is None
            else f"the length of 'dim', {len(dims)},"
        )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"{given}, but got a list of length {len(spacing)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}."
        )
    for d, h in zip(dims, spacing):
        if input.shape[d] <= edge_order:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, dimension "
                f"{d} has size {input.shape[d]}"
            )
        if hasattr(h, "_array") and (h.ndim != 1 or h.shape[0] != input.shape[d]):
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one value for each sample, "
                f"got shape {list(h.shape)} for dimension {d} of size {input.shape[d]}"
            )
    return tuple(slope(input, d, h, edge_order) for d, h in zip(dims, spacing))


def slope(x: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    """The slopes along `d`; `spacing` is a distance or the coordinates."""
    from rushlight import cat

    n = x.shape[d]

    def part(start: int, size: int) -> Tensor:
        return slice_dim(x, d, start, start + size)

    if hasattr(spacing, "_array"):
        h = spacing.diff().reshape(-1, *(1,) * (x.ndim - d - 1))
        before, after = h.narrow(0, 0, n - 2), h.narrow(0, 1, n - 2)
        first, last = h.narrow(0, 0, 1), h.narrow(0, n - 2, 1)
    else:
        before = after = first = last = spacing
    if hasattr(spacing, "_array"):
        inner = (
            part(0, n - 2) * (-after / (before * (before + after)))
            + part(1, n - 2) * ((after - before) / (before * after))
            + part(2, n - 2) * (before / (after * (before + after)))
        )
    else:
        inner = (part(2, n - 2) - part(0, n - 2)) / (2.0 * spacing)
    if edge_order == 1:
        start, end = (part(1, 1) - part(0, 1)) / first, (part(n - 1, 1) - part(n - 2, 1)) / last
    else:
        second, third = (
            (h.narrow(0, 1, 1), h.narrow(0, n - 3, 1))
            if hasattr(spacing, "_array")
            else (first, last)
        )
        start = parabola(part(0, 1), part(1, 1), part(2, 1), first, second)
        end = -parabola(part(n - 1, 1), part(n - 2, 1), part(n - 3, 1), last, third)
    return cat([start, inner, end], d)


def parabola(a: Tensor, b: Tensor, c: Tensor, near: Any, far: Any) -> Tensor:
    """The slope at `a` of the parabola through a, b, c, which are `near` and then `far` apart."""
    return (
        a * -((2.0 * near + far) / (near * (near + far)))
        + b * ((near + far) / (near * far))
        - c * (near / (far * (near + far)))
    )
