"""Extremes: the largest and the smallest value, and where it is. nan beats every number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.state import active
from rushlight.core import dtypes
from rushlight.dispatch import overrides
from rushlight.dispatch.registry import Array, Dims, op, public
from rushlight.ops.reductions.reduce import axes, axis, keep, kept_shape

if TYPE_CHECKING:
    from builtins import bool as Bool

Tensor = Any  # annotation only


def real_input(name: str, input: Any) -> None:
    if input.dtype.kind == "c":
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{dtypes.OF[input.dtype].scalar_name}': complex numbers have "
            "no order"
        )


def nonempty(name: str, input: Any, over: Any, error: type = RuntimeError) -> None:
    """Raise unless every result is made of at least one element: an extreme has no identity."""
    if input.size:
        return
    if over is None:
        more = (
            " Specify the reduction dim with the 'dim' argument." if error is RuntimeError else ""
        )
        if input.ndim:
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{more} The "
                f"operation does not have an identity; the shape is {list(input.shape)}."
            )
    else:
        for d in over if over.__class__ is tuple else (over,):
            if not input.shape[d]:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def arg_axis(name: str, input: Any, dim: Any) -> Any:
    if input.dtype.kind in "cb":
        kind = "complex" if input.dtype.kind == "c" else "bool"
        raise RuntimeError(f"{name}(): does not support {kind} input")
    over = None if dim is None else axis(dim, input.ndim, name)
    if not input.size:
        nonempty(name, input, over, IndexError)
    return over


def evenly(g: Tensor, input: Tensor, result: Tensor) -> Tensor:
    """The gradient of one value of all, shared evenly by the elements that have it."""
    return evenly_over(g, input, result, None, False)


def all_evenly_on_arrays(xp: Any, g: Any, input: Any, result: Any) -> Any:
    """`evenly` on arrays."""
    return evenly_on_arrays(xp, g, input, result, None, False)


def evenly_over(g: Tensor, input: Tensor, result: Tensor, dim: Any, keepdim: Bool) -> Tensor:
    """The gradient of a value over `dim`, shared evenly by the elements that have it."""
    result = keep(result, input.shape, dim, keepdim)
    g = keep(g, input.shape, dim, keepdim)
    same = (input == result) | ((input != input) & (result != result))
    d = g.dtype
    return same.to(d) * (g / same.sum(dim, True).to(d))


def evenly_on_arrays(xp: Any, g: Any, input: Any, result: Any, dim: Any, keepdim: Bool) -> Any:
    """`evenly_over`, in fewer steps."""
    over = axes(dim, input.ndim)
    if over is not None and not keepdim:
        shape = kept_shape(input.shape, dim)
        g, result = g.reshape(shape), result.reshape(shape)
    same = xp.equal(input, result)
    if (odd := xp.not_equal(result, result)).any():
        same = xp.logical_or(same, xp.logical_and(xp.not_equal(input, input), odd))
    count = xp.sum(same, over, True)
    if over is None:
        count = count.reshape(g.shape)
    return xp.where(same, xp.divide(g, xp.cast(count, g.dtype)), xp.zeros((), g.dtype))


def to_chosen(g: Tensor, input_shape: tuple, indices: Tensor, dim: int, keepdim: Bool) -> Tensor:
    """The gradient of values chosen along `dim`: to the chosen elements, zero elsewhere."""
    if not input_shape:
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(input_shape).scatter(dim, indices, g)


def chosen_on_arrays(
    xp: Any, g: Any, input_shape: tuple, indices: Any, dim: int, keepdim: Bool
) -> Any:
    """`to_chosen`, without a copy of the zeros."""
    if not input_shape:
        return NotImplemented
    if not keepdim:
        shape = kept_shape(input_shape, dim)
        g, indices = g.reshape(shape), indices.reshape(shape)
    z = xp.zeros(input_shape, g.dtype)
    xp.scatter(z, indices, dim % len(input_shape), g)
    return z


def extreme(
    name: str, of_all: Any, of_dim: Any, input: Tensor, dim: Any, keepdim: Any, other: Any, out: Any,
    axis: Any, keepdims: Any,
) -> Any:  # fmt: skip
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    if dim is None and other is None:
        if keepdim is not False:
            raise TypeError(
                f"{name}() received an invalid combination of arguments: keepdim={keepdim!r} needs a dim"
            )
        return of_all(input, out=out)
    if other is None and dim.__class__ is not int:
        if hasattr(dim, "_array") or overrides.overriding(dim):
            other = dim
    if other is not None:
        import rushlight

        if out is not None or active.modes or not overrides.all_plain((input, other)):
            options = {} if out is None else {"out": out}
            asked = overrides.call_overrides(getattr(rushlight, name), (input, other), options)
            if asked is not overrides.NOTHING:
                return asked
        return getattr(rushlight, name + "imum")(input, other, out=out)
    if dim.__class__ is not int and (dim.__class__ is bool or not hasattr(dim, "__index__")):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: expected a Tensor or an int, got "
            f"{dim!r}; for several dimensions use a{name}()"
        )
    if keepdim.__class__ is not bool:
        raise TypeError(
            f"{name}(): argument 'keepdim' (position 3) must be bool, not {type(keepdim).__name__}"
        )
    return of_dim(input, dim, keepdim, out=out)


def declare_extreme(name: str, most: str, size: str, examples: tuple[str, str, str]) -> None:
    """Declare `max` or `min`, called `name`, `amax` or `amin`, and `argmax` or `argmin`.

    A nan counts as the `size`. `examples`: of the three, applied to one matrix.
    """

    of_name, arg_name, index_name = f"a{name}", f"arg{name}", f"{name}_with_index"

    def shown(example: str) -> str:
        return f"""

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).{example}
    """

    meaning = f"""The index of the {most} over `dim` (None: of the flattened tensor); the first of several, a nan
    counts as {size}. int64: [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]. IndexError where there is nothing to choose from.{shown(examples[2])}"""

    @op(name=arg_name, doc=meaning)
    def argument(xp, input: Array, dim: int | None = None, keepdim: bool = False):
        over = arg_axis(arg_name, input, dim)
        return getattr(xp, arg_name)(input, over, keepdim)

    @op(where="_all", name=name, node=f"{name.title()}Backward1")
    def of_all(xp, input: Array):
        if not input.size or input.dtype.kind == "c":
            real_input(f"{name}_all", input)
            nonempty(name, input, None)
        return getattr(xp, of_name)(input, None, False)

    @op(where="_dim", name=name, node=f"{name.title()}Backward0", outputs=("values", "indices"))
    def of_dim(xp, input: Array, dim: int, keepdim: bool = False):
        real_input(name, input)
        over = axis(dim, input.ndim, name)
        nonempty(name, input, over)
        return getattr(xp, index_name)(input, over, keepdim)

    meaning = f"""The {most} of all elements; with `dim` (values, indices) over it; with a tensor `{most}`.

    nan is {size[:-2]}r than any number; the index is that of the first {most}. Of all elements, the
    gradient is shared evenly by those that have the {most}; over `dim` it goes to the index.{shown(examples[0])}"""

    @public(method=True, name=name, doc=meaning)
    def function(
        input: Tensor, dim: Any = None, keepdim: Bool = False, *,
        other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None,
    ) -> Any:  # fmt: skip
        if dim is None and other is out is axis is keepdims is None and keepdim is False:
            return of_all(input)
        return extreme(name, of_all, of_dim, input, dim, keepdim, other, out, axis, keepdims)

    of_all.op.public_function = of_dim.op.public_function = function
    meaning = f"""The {most} over `dim` (one, several, or all); nan where there is one.

    The gradient is shared evenly by all elements that have the {most}.{shown(examples[1])}"""

    @op(name=of_name, doc=meaning)
    def over_dims(xp, input: Array, dim: Dims = (), keepdim: bool = False):
        real_input(f"{name}_values_cpu", input)
        over = axes(dim, input.ndim)
        nonempty(of_name, input, over)
        return getattr(xp, of_name)(input, over, keepdim)

    of_all.grad(input=evenly, kernel=all_evenly_on_arrays)
    of_dim.grad(input=to_chosen, kernel=chosen_on_arrays)
    over_dims.grad(input=evenly_over, kernel=evenly_on_arrays)


declare_extreme("max", "maximum", "largest", (
    "max(1).values\n    tensor([5., 7.])", "amax(dim=(0, 1))\n    tensor(7.)",
    "argmax(dim=1)\n    tensor([1, 0])",
))  # fmt: skip
declare_extreme("min", "minimum", "smallest", (
    "min(1).indices\n    tensor([0, 1])", "amin(dim=0)\n    tensor([1., 2.])",
    "argmin(dim=1)\n    tensor([0, 1])",
))  # fmt: skip


@op(outputs=("min", "max"))
def aminmax(xp, input: Array, *, dim: int | None = None, keepdim: bool = False):
    """(min, max) over `dim`, or of all elements; nan where there is one.

    >>> import rushlight as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).aminmax()
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    real_input("aminmax_cpu", input)
    if dim is None and not input.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    over = None if dim is None else axis(dim, input.ndim, "aminmax")
    nonempty("aminmax", input, over)
    return xp.amin(input, over, keepdim), xp.amax(input, over, keepdim)


def aminmax_on_arrays(
    xp: Any, g_min: Any, g_max: Any, input: Any, min: Any, max: Any, dim: Any, keepdim: Bool
) -> Any:
    """`aminmax_backward`, in fewer steps."""
    low = evenly_on_arrays(xp, g_min, input, min, dim, keepdim)
    return xp.add(low, evenly_on_arrays(xp, g_max, input, max, dim, keepdim))


def aminmax_backward(
    g_min: Tensor, g_max: Tensor, input: Tensor, min: Tensor, max: Tensor, dim: Any, keepdim: Bool
) -> Tensor:
    low = evenly_over(g_min, input, min, dim, keepdim)
    return low + evenly_over(g_max, input, max, dim, keepdim)


aminmax.grad(input=aminmax_backward, kernel=aminmax_on_arrays)


# -- a fingerprint ---------------------------------------------------------------------------------


@op()
def hash_tensor(xp, input: Array, dim: Dims = (), *, keepdim: bool = False, mode: int = 0):
    """The exclusive or of the bits of all elements over `dim`, as uint64: equal tensors, equal numbers.

    Floating dtypes are taken as float64, the others as 64-bit integers. `mode` is 0.

    >>> import rushlight as torch
    >>> torch.hash_tensor(torch.tensor([5, 6]))
    tensor(3, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    real_input("xor_sum_cpu", input)
    over = axes(dim, input.ndim)
    nonempty("hash_tensor", input, over)
    return xp.xor_sum(input, over, keepdim)
