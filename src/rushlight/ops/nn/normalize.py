"""Normalisation of each sample: layer, group, RMS, local response, and division by a norm.

Note [Gradients of normalisation]
    A gradient that nobody differentiates comes from one kernel in few passes. The rule in operators
    computes mean and deviation again from the input: they are functions of it, and further derivatives follow.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.core.dtype_sets import FLOATING, REDUCED
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import is_channels_last

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def wide(t: Any) -> Any:
    """Half types as float32."""
    return t.float() if t is not None and t.dtype.np in REDUCED else t


def refuse_exact(t: Tensor, kernel: str) -> None:
    if not t.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{t.dtype.scalar_name}'")


def have_one_dtype(d: Any, weight: Any, bias: Any) -> bool:
    """Whether input and parameters have one floating dtype, so that there is nothing to check."""
    return (
        d in FLOATING
        and (weight is None or weight._array.dtype is d)
        and (bias is None or bias._array.dtype is d)
    )


def check_mixed(input: Tensor, *parameters: Tensor | None) -> None:
    """Parameters have the input's dtype, or float32 beside a half input."""
    d = input._array.dtype
    given = [p for p in parameters if p is not None]
    if all(p._array.dtype is d for p in given):
        return
    if input.dtype.np not in REDUCED and any(p.dtype.np in REDUCED for p in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    first = given[0].dtype
    if input.dtype.np not in REDUCED or any(p.dtype is not first for p in given):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def derived(
    g: Any, x: Any, weight: Any, dims: tuple, eps: float, needs: tuple, fixed: Any = None
) -> tuple:
    """The gradients of (x - mean) / sqrt(var + eps) * weight + bias in operators.

    Statistics over `dims`, or `fixed`; gradients of weight and bias come unreduced.
    """
    g, x, w = wide(g), wide(x), wide(weight)
    if fixed is None:
        centre = x - x.mean(dims, keepdim=True)
        r = ((centre * centre).mean(dims, keepdim=True) + eps).rsqrt()
    else:
        centre, r = x - fixed[0], (fixed[1] + eps).rsqrt()
    z = centre * r
    gx = None
    if needs[0]:
        t = g if w is None else g * w
        if fixed is None:
            t = t - t.mean(dims, keepdim=True) - z * (t * z).mean(dims, keepdim=True)
        gx = t * r
    return gx, g * z if needs[1] else None, g if needs[2] else None


def as_given(gx: Any, gw: Any, gb: Any, input: Any, weight: Any, shape: tuple) -> tuple:
    """The gradients in the shapes and dtypes of their inputs."""
    a = input._array
    d = (input if weight is None else weight)._array.dtype
    return fitted(gx, a.shape, a.dtype), fitted(gw, shape, d), fitted(gb, shape, d)


def fitted(g: Any, shape: tuple, dtype: Any) -> Any:
    """A gradient in a shape and dtype; itself if it has them, since a view of it is not the leaf's to
    keep, and would be copied."""
    if g is None:
        return None
    if g._array.shape != shape:
        g = g.reshape(shape)
    return g if g._array.dtype is dtype else g.to(dtypes.OF[dtype])


def arrays_as_given(
    xp: Any, gx: Any, gw: Any, gb: Any, input: Any, weight: Any, shape: tuple
) -> tuple:
    """As `as_given`, for arrays."""
    d = (input if weight is None else weight).dtype
    found = []
    for g, sizes, to in ((gx, input.shape, input.dtype), (gw, shape, d), (gb, shape, d)):
        if g is not None and g.shape != sizes:
            g = g.reshape(sizes)
        found.append(g if g is None or g.dtype is to else xp.cast(g, to))
    return tuple(found)


# -- layer normalisation ---------------------------------------------------------------------------


def layer_rule(g, input, weight, normalized_shape, eps, needs):
    dims = tuple(range(-len(normalized_shape), 0))
    gx, gw, gb = derived(g, input, weight, dims, eps, needs)
    gw, gb = (None if t is None else t.sum_to_size(normalized_shape) for t in (gw, gb))
    return as_given(gx, gw, gb, input, weight, normalized_shape)


def layer_gradients(xp, g, input, weight, normalized_shape, eps, needs):
    found = xp.layer_norm_gradients(g, input, weight, prod(normalized_shape), eps, needs)
    return arrays_as_given(xp, *found, input, weight, normalized_shape)


@op(name="_layer_norm", node="NativeLayerNormBackward0", method=False, out=False)
def normalized_layer(
    xp, input: Array, weight: Array | None, bias: Array | None, normalized_shape: tuple, eps: float
):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions."""
    return xp.layer_norm(input, weight, bias, prod(normalized_shape), eps)


normalized_layer.grad_all(layer_rule, kernel=layer_gradients)


def check_layer(input: Tensor, shape: Any, weight: Any, bias: Any, star: str = "[*, ") -> tuple:
    """The shape to be normalized, a tuple. TypeError or RuntimeError where input, weight or bias do not fit it."""
    if isinstance(shape, int):
        raise TypeError(
            "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    shape = tuple(shape)
    if (
        shape
        and input._array.shape[-len(shape) :] == shape
        and (weight is None or weight._array.shape == shape)
        and (bias is None or bias._array.shape == shape)
    ):
        return shape
    sizes = list(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {sizes}"
        )
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(t.shape)} and normalized_shape = {sizes}"
            )
    if input.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={sizes}, expected input with shape {star}"
            f"{', '.join(map(str, sizes))}], but got input of size{list(input.shape)}"
        )
    return shape


@composite(method=False, inplace=False)
def layer_norm(
    input: Array, normalized_shape: tuple, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
):  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias, statistics over the last dimensions (Ba 2016).

    `normalized_shape`: the sizes of those dimensions, also the shape of weight and bias.

    >>> import rushlight as torch
    >>> torch.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    return layer_normalized(input, normalized_shape, weight, bias, eps)


def layer_normalized(
    input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    shape = check_layer(input, normalized_shape, weight, bias)
    if not have_one_dtype(input._array.dtype, weight, bias):
        refuse_exact(input, "LayerNormKernelImpl")
        check_mixed(input, weight, bias)
    return normalized_layer(input, weight, bias, shape, eps)


@composite(where="nn.functional", name="layer_norm", inplace=False)
def functional_layer_norm(
    input: Array, normalized_shape: tuple, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5,
):  # fmt: skip
    """As `torch.layer_norm`."""
    return layer_normalized(input, normalized_shape, weight, bias, eps)


@op(
    name="_native_layer_norm",
    node="NativeLayerNormBackward0",
    method=False,
    out=False,
    outputs=("result", "mean", "rstd"),
)
def layer_with_statistics(
    xp, input: Array, weight: Array | None, bias: Array | None, normalized_shape: tuple, eps: float
):
    y, mean, rstd = xp.layer_norm_with_statistics(input, weight, bias, prod(normalized_shape), eps)
    lead = input.shape[: input.ndim - len(normalized_shape)]
    shape = lead + (1,) * len(normalized_shape)
    d = input.dtype if weight is None else weight.dtype
    mean, rstd = mean.reshape(shape), rstd.reshape(shape)
    return (y, mean, rstd) if mean.dtype is d else (y, mean.astype(d), rstd.astype(d))


layer_with_statistics.grad_all(layer_rule, kernel=layer_gradients)


@composite(method=False, inplace=False)
def native_layer_norm(
    input: Array, normalized_shape: tuple, weight: Array | None, bias: Array | None, eps: float
):
    """(layer_norm(input), mean, 1 / sqrt(var + eps)); the last two have sizes 1 where normalised."""
    shape = check_layer(input, normalized_shape, weight, bias)
    if not have_one_dtype(input._array.dtype, weight, bias):
        refuse_exact(input, "LayerNormKernelImpl")
        check_mixed(input, weight, bias)
    return tuple(layer_with_statistics(input, weight, bias, shape, eps))


# -- group normalisation ---------------------------------------------------------------------------


def group_rule(g, input, weight, num_groups, eps, needs):
    n, channels = input.shape[:2]
    split = (n, num_groups, channels // num_groups, prod(input.shape[2:]))
    w = None if weight is None else weight.reshape(num_groups, -1, 1)
    gx, gw, gb = derived(g.reshape(split), input.reshape(split), w, (2, 3), eps, needs)
    gw, gb = (None if t is None else t.sum((0, 3)) for t in (gw, gb))
    return as_given(gx, gw, gb, input, weight, (channels,))


def group_gradients(xp, g, input, weight, num_groups, eps, needs):
    found = xp.group_norm_gradients(g, input, weight, num_groups, eps, needs)
    return arrays_as_given(xp, *found, input, weight, input.shape[1:2])


@op(name="_group_norm", node="NativeGroupNormBackward0", method=False, out=False)
def normalized_groups(
    xp, input: Array, weight: Array | None, bias: Array | None, num_groups: int, eps: float
):
    return xp.group_norm(input, weight, bias, num_groups, eps, False)[0]


normalized_groups.grad_all(group_rule, kernel=group_gradients)


@op(
    name="_native_group_norm",
    node="NativeGroupNormBackward0",
    method=False,
    out=False,
    outputs=("result", "mean", "rstd"),
)
def groups_with_statistics(
    xp, input: Array, weight: Array | None, bias: Array | None, num_groups: int, eps: float
):
    y, mean, rstd = xp.group_norm(input, weight, bias, num_groups, eps)
    d = input.dtype
    return (y, mean, rstd) if mean.dtype is d else (y, mean.astype(d), rstd.astype(d))


def group_statistics_rule(g, g_mean, g_rstd, input, weight, num_groups, eps, needs):
    gx, gw, gb = group_rule(g, input, weight, num_groups, eps, needs)
    if gx is not None and input.numel():
        x = wide(input).reshape(*input.shape[:1], num_groups, -1)
        centre = x - x.mean(2, keepdim=True)
        r = ((centre * centre).mean(2, keepdim=True) + eps).rsqrt()
        more = (g_mean.unsqueeze(2) - g_rstd.unsqueeze(2) * r**3 * centre) / x.shape[2]
        gx = gx + more.reshape(input.shape).to(input.dtype)
    return gx, gw, gb


def group_statistics_gradients(xp, g, g_mean, g_rstd, input, weight, num_groups, eps, needs):
    gx, gw, gb = group_gradients(xp, g, input, weight, num_groups, eps, needs)
    if gx is not None and input.size and (g_mean.any() or g_rstd.any()):
        _, mean, r = xp.group_norm(input, None, None, num_groups, eps)
        rows = (len(input), num_groups, -1)
        x = xp.cast(input, mean.dtype).reshape(rows)
        n = x.shape[2]
        by = xp.cast(g_rstd, r.dtype).reshape(r.shape) * r**3 / -n
        more = x * by[..., None]
        more += (xp.cast(g_mean, r.dtype).reshape(r.shape) / n - by * mean)[..., None]
        gx = gx + xp.cast(more, gx.dtype).reshape(gx.shape)
    return gx, gw, gb


groups_with_statistics.grad_all(group_statistics_rule, kernel=group_statistics_gradients)


def check_group(input: Tensor, num_groups: int, weight: Any, bias: Any) -> None:
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    channels = shape[1:2]
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t._array.shape != channels:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but "
                f"got {name} of shape {list(t.shape)} and input of shape {list(input.shape)}"
            )
    if not have_one_dtype(input._array.dtype, weight, bias):
        refuse_exact(input, "GroupNormKernelImpl")
        check_mixed(input, weight, bias)


@composite(method=False, inplace=False)
def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
):  # fmt: skip
    """Normalisation over groups of the channels of each sample of (N, C, *) (Wu and He 2018)."""
    check_group(input, num_groups, weight, bias)
    return normalized_groups(input, weight, bias, num_groups, eps)


def several_values(size: Any) -> None:
    """In training every channel needs more than one value to have a variance."""
    if size[0] * prod(size[2:]) == 1:
        import rushlight

        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {rushlight.Size(size)}"
        )


@composite(where="nn.functional", name="group_norm", inplace=False)
def functional_group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None,
    eps: float = 1e-5,
):  # fmt: skip
    """As `torch.group_norm`."""
    if num_groups == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    check_group(input, num_groups, weight, bias)
    n, channels, *sizes = input._array.shape
    several_values([n * channels // num_groups, num_groups, *sizes])
    return normalized_groups(input, weight, bias, num_groups, eps)


@composite(method=False, inplace=False)
def native_group_norm(
    input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int,
    eps: float,
):  # fmt: skip
    """(group_norm(input), mean, 1 / sqrt(var + eps)), the last two (N, group)."""
    check_group(input, group, weight, bias)
    return tuple(groups_with_statistics(input, weight, bias, group, eps))


# -- without a mean --------------------------------------------------------------------------------


def rms_rule(g, input, weight, normalized_shape, eps, needs):
    dims = tuple(range(-len(normalized_shape), 0))
    g, x, w = wide(g), wide(input), wide(weight)
    r = ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    gx = gw = None
    if needs[0]:
        t = g if w is None else g * w
        gx = r * (t - x * r * r * (t * x).mean(dims, keepdim=True))
    if needs[1]:
        gw = (g * x * r).sum_to_size(normalized_shape)
    return as_given(gx, gw, None, input, weight, normalized_shape)[:2]


def rms_gradients(xp, g, input, weight, normalized_shape, eps, needs):
    gx, gw = xp.rms_norm_gradients(g, input, weight, prod(normalized_shape), eps, needs)
    return arrays_as_given(xp, gx, gw, None, input, weight, normalized_shape)[:2]


@op(name="_rms_norm", node="MulBackward0", method=False, out=False)
def normalized_rms(
    xp, input: Array, weight: Array | None, normalized_shape: tuple, eps: float
):  # fmt: skip
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions."""
    y = xp.rms_norm(input, weight, prod(normalized_shape), eps)
    if not is_channels_last(input):
        return y
    from rushlight.ops.nn.pool import in_channels_last

    return in_channels_last(xp, y, True)


normalized_rms.grad_all(rms_rule, kernel=rms_gradients)


def rms_norm(
    input: Array, normalized_shape: tuple, weight: Array | None = None, eps: float | None = None
):
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions (Zhang and Sennrich 2019).

    `eps`: None takes the smallest step of the input's dtype at 1.
    """
    shape = check_layer(input, normalized_shape, weight, None, "[*")
    d = input.dtype
    if not d.is_floating_point and not d.is_complex:
        refuse_exact(input, "rms_norm")
    if eps is None:
        eps = STEP.get(d.name) or STEP["float32"]
    if d.is_floating_point and (weight is None or weight.dtype.is_floating_point) and input.numel():
        return normalized_rms(input, weight, shape, eps)
    x = wide(input)
    y = x * ((x * x).mean(tuple(range(-len(shape), 0)), keepdim=True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    return y.to(d)


STEP = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}

for where in ("", "nn.functional"):
    composite(where=where, method=False, inplace=False)(rms_norm)


@composite(where="nn.functional", inplace=False)
def local_response_norm(
    input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
):
    """x / (k + alpha * mean of squares over `size` channels) ** beta (Krizhevsky 2012)."""
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if not input.numel():
        return input
    from rushlight.ops.nn.pad import pad
    from rushlight.ops.nn.pool import avg_pool2d, avg_pool3d

    squares = (input * input).unsqueeze(1)
    if input.ndim == 3:
        padded = pad(squares, (0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        n, c, h = input.shape[:3]
        flat = squares.view(n, 1, c, h, -1)
        padded = pad(flat, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).view(input.shape)
    return input / (mean * alpha + k) ** beta


@composite(where="nn.functional", inplace=False)
def normalize(input: Array, p: float = 2.0, dim: Any = 1, eps: float = 1e-12):
    """x / max(norm of x along `dim`, eps).

    >>> import rushlight as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
