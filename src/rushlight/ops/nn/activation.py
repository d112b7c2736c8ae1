"""Activation functions.

Where a second derivative is wanted, rules are written in operators on the saved input; selections
use `where`, never a product with a mask, so that an infinite value on the other side does no harm.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from rushlight._backends.meta import Meta
from rushlight.autograd.state import active
from rushlight.core import dtypes, geometry, settings
from rushlight.core.tensor import Tensor, _wrap
from rushlight.core.type_info import finfo
from rushlight.dispatch.registry import Array, composite, elementwise, op, public
from rushlight.dispatch.transforms import Lifted
from rushlight.ops.factories.arguments import converted
from rushlight.ops.factories.random import source
from rushlight.ops.layout.joining import cat
from rushlight.rng import sampling


def inplace_or_not(which: Any, input: Any, inplace: bool, *args: Any) -> Any:
    """An operator applied to `input`, or written into it when `inplace`."""
    return which.op.build().inplace(input, *args) if inplace else which(input, *args)


def refuse_gradient(result: Any, name: str) -> Any:
    """`result`, of an activation in place with a negative slope: as in PyTorch, it has no gradient."""

    def refuse(g: Any) -> None:
        raise RuntimeError(
            f"In-place {name} backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead."
        )

    if result.requires_grad:
        result.register_hook(refuse)
    return result


def refuse_bool(input: Any) -> None:
    if isinstance(input, Tensor):
        if input._array.dtype.kind == "b":
            raise RuntimeError("Boolean inputs not supported for relu")
        if input.is_complex():
            raise NotImplementedError(
                "clamp is not supported for complex types, and relu is a clamp"
            )


@elementwise(node="ReluBackward0", accepts="if", variant=refuse_bool, keyed="bifc")
def relu(xp, input: Array):
    """The rectified linear unit: max(x, 0) of each element.

    >>> import rushlight as torch
    >>> torch.relu(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    return xp.relu(input)


relu.grad(
    input=lambda g, result: threshold_backward(g, result, 0),
    kernel=lambda xp, g, result: xp.threshold_gradient(g, result, 0),
)


@op(method=False)
def threshold_backward(xp, grad_output: Array, input: Array, threshold: float):
    """The gradient where the input is above the threshold (or NaN), else 0."""
    return xp.threshold_gradient(grad_output, input, threshold)


threshold_backward.grad(
    grad_output=lambda g, input, threshold: threshold_backward(g, input, threshold)
)


@composite(where="nn.functional", name="relu", inplace=False)
def functional_relu(input: Array, inplace: bool = False):
    """As `torch.relu`; `inplace`: into the input's memory."""
    return input.relu_() if inplace else relu(input)


def within(g: Any, inside: Any) -> Any:
    """`g` where `inside`, else 0."""
    return g.masked_fill(~inside, 0)


# -- straight pieces -------------------------------------------------------------------------------


@elementwise(where="nn.functional", name="_hardtanh", node="HardtanhBackward0", accepts="if")
def clamp_between(xp, input: Array, min_val: float, max_val: float):
    if input.dtype.kind == "i":
        min_val, max_val = int(min_val), int(max_val)
    return xp.hardtanh(input, min_val, max_val)


clamp_between.grad(
    input=lambda g, input, min_val, max_val: within(g, (input > min_val) & (input < max_val)),
    kernel="hardtanh_gradient",
)


@composite(where="nn.functional", inplace=False)
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
    """The input, cut off at `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.kind == 0:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    return inplace_or_not(clamp_between, input, inplace, min_val, max_val)


@composite(where="nn.functional", inplace=False)
def relu6(input: Array, inplace: bool = False):
    """The rectified linear unit with an upper bound: min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


@elementwise(where="nn.functional", name="_leaky_relu", node="LeakyReluBackward0", accepts="f")
def leaky(xp, input: Array, negative_slope: float):
    return xp.leaky_relu(input, negative_slope)


leaky.grad(
    input=lambda g, input, negative_slope: g.where(input > 0, g * negative_slope),
    kernel="leaky_relu_gradient",
)


@composite(where="nn.functional", inplace=False)
def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False):
    """x for x > 0, else negative_slope * x."""
    return leaky_relu_(input, negative_slope) if inplace else leaky(input, negative_slope)


@elementwise(where="nn.functional", name="_threshold", node="ThresholdBackward0", accepts="if")
def above(xp, input: Array, threshold: float, value: float):
    return xp.threshold(input, threshold, value)


above.grad(input=lambda g, input, threshold: threshold_backward(g, input, threshold))


@composite(where="nn.functional", name="threshold", inplace=False)
def functional_threshold(input: Array, threshold: float, value: float, inplace: bool = False):
    """x where it is above `threshold`, else `value`; both as numbers of the dtype of integers."""
    if input.dtype.kind == 1:
        d = input.dtype.np
        threshold, value = converted(threshold, d).item(), converted(value, d).item()
    return inplace_or_not(above, input, inplace, threshold, value)


def activation(name: str, meaning: str, rule: Any, accepts: str = "f") -> None:
    """Declare an activation without settings by the kernels `name` and `<name>_gradient`: the operator, and the
    public function, which has `inplace`."""

    @elementwise(
        name, where="nn.functional", name=f"_{name}", node=f"{name.title()}Backward0",
        accepts=accepts,
    )  # fmt: skip
    def operator(input: Array):
        pass

    operator.grad(input=rule, kernel=f"{name}_gradient")

    @composite(name=name, doc=meaning, where="nn.functional", inplace=False)
    def function(input: Array, inplace: bool = False):
        return inplace_or_not(operator, input, inplace)


def hard_sigmoid_rule(g: Tensor, input: Tensor) -> Tensor:
    from rushlight._backends.reference.activation import SIXTH

    return within(g * SIXTH, (input > -3) & (input < 3))


def hard_swish_rule(g: Any, input: Any) -> Any:
    straight = within(g, input > -3)
    return straight.where((input <= -3) | (input >= 3), g * (input / 3 + 0.5))


activation(
    "hardsigmoid", "0 below -3, 1 above 3, x / 6 + 1 / 2 between.",
    hard_sigmoid_rule,
)  # fmt: skip
activation("hardswish", "x * hardsigmoid(x) (Howard et al. 2019).", hard_swish_rule)


@elementwise(accepts="f", inplace=False)
def hardshrink(xp, input: Array, lambd: float = 0.5):
    """The input where |x| > lambd, 0 elsewhere."""
    return xp.hardshrink(input, lambd)


def shrink_rule(g: Any, input: Any, lambd: float) -> Any:
    return g.masked_fill((input >= -lambd) & (input <= lambd), 0)


hardshrink.grad(input=shrink_rule, kernel="shrink_gradient")


@elementwise(where="nn.functional", accepts="f", inplace=False)
def softshrink(xp, input: Array, lambd: float = 0.5):
    """x moved towards 0 by lambd, 0 within."""
    if not lambd >= 0:
        d = dtypes.OF[input.dtype]
        raise RuntimeError(
            f"lambda must be in range [0, {finfo(d).max:g}] for input dtype {d.scalar_name}, but found "
            f"{lambd:g}"
        )
    return xp.softshrink(input, lambd)


softshrink.grad(input=shrink_rule, kernel="shrink_gradient")


@composite(where="nn.functional", inplace=False)
def tanhshrink(input: Array):
    """The difference between the input and its hyperbolic tangent: x - tanh(x)."""
    return input - input.tanh()


@composite(where="nn.functional", inplace=False)
def softsign(input: Array):
    """The softsign activation: x / (1 + |x|)."""
    return input / (input.abs() + 1)


functional_threshold.alias("threshold")


# -- smooth ones -----------------------------------------------------------------------------------


@elementwise(where="nn.functional", name="_elu", node="EluBackward0", accepts="f")
def exponential_below(xp, input: Array, alpha: float, scale: float, input_scale: float):
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    return xp.elu(input, scale, alpha * scale, input_scale)


def elu_rule(g: Any, input: Any, alpha: float, scale: float, input_scale: float) -> Any:
    below = g * (input.clamp(max=0) * input_scale).exp() * (alpha * scale * input_scale)
    return (g * scale).where(input > 0, below)


exponential_below.grad(
    input=elu_rule,
    kernel=lambda xp, g, input, alpha, scale, input_scale: xp.elu_gradient(
        g, input, scale, alpha * scale, input_scale
    ),
)


@composite(where="nn.functional", inplace=False)
def elu(input: Array, alpha: float = 1.0, inplace: bool = False):
    """The exponential linear unit: x for x > 0, else alpha * (exp(x) - 1) (Clevert et al. 2015)."""
    return elu_(input, alpha) if inplace else exponential_below(input, alpha, 1.0, 1.0)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@composite(inplace=True)
def selu(input: Array):
    """The self-normalising elu (Klambauer et al. 2017, with its alpha and scale)."""
    return exponential_below(input, SELU_ALPHA, SELU_SCALE, 1.0)


@composite
def celu(input: Array, alpha: float = 1.0):
    """The continuously differentiable ELU: max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)) (Barron 2017)."""
    return functional_celu(input, alpha)


@composite(where="nn.functional", name="selu", inplace=False)
def functional_selu(input: Array, inplace: bool = False):
    """As `torch.selu`; `inplace`: into the input's memory."""
    return inplace_or_not(exponential_below, input, inplace, SELU_ALPHA, SELU_SCALE, 1.0)


@composite(where="nn.functional", name="celu", inplace=False)
def functional_celu(input: Array, alpha: float = 1.0, inplace: bool = False):
    """As `torch.celu`; `inplace`: into the input's memory."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    which = elu_ if inplace else exponential_below
    return which(input, alpha, 1.0, 1.0 / alpha)


@elementwise(where="nn.functional", inplace=False, accepts="f", holomorphic=False)
def gelu(xp, input: Array, *, approximate: str = "none"):
    """x times the normal distribution function of x; `approximate="tanh"`: the cheaper formula."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return xp.gelu(input) if approximate == "none" else xp.gelu_tanh(input)


def gelu_gradient(xp, g, input, approximate):
    return xp.gelu_gradient(g, input) if approximate == "none" else xp.gelu_tanh_gradient(g, input)


gelu.grad(
    input=lambda g, input, approximate: slope(
        g, input, "gelu" if approximate == "none" else "gelu_tanh"
    ),
    kernel=gelu_gradient,
)


@elementwise(where="nn.functional", name="_slope", inplace=False, holomorphic=False)
def slope(xp, grad_output: Array, input: Array, of: str):
    """grad_output times the derivative of the kernel `of` at `input`."""
    return getattr(xp, of + "_gradient")(grad_output, input)


slope.grad(
    grad_output=lambda g, input, of: slope(g, input, of),
    input=lambda g, grad_output, input, of: g * grad_output * CURVATURE[of](input),
)


def normal_density(x: Any) -> Any:
    return (x * x * -0.5).exp() * 0.3989422804014327


def gelu_curvature(x: Any) -> Any:
    return normal_density(x) * (2 - x * x)


def gelu_tanh_curvature(x: Any) -> Any:
    c, k = 0.7978845608028654, 0.044715
    t = ((x + x * x * x * k) * c).tanh()
    d, dd = (x * x * (3 * k) + 1) * c, x * (6 * k * c)
    s = 1 - t * t
    return s * d + x * 0.5 * (s * dd - 2 * t * s * d * d)


def silu_curvature(x: Any) -> Any:
    s = x.sigmoid()
    return s * (1 - s) * (2 + x * (1 - 2 * s))


CURVATURE = {"gelu": gelu_curvature, "gelu_tanh": gelu_tanh_curvature, "silu": silu_curvature}


def mish_rule(g: Any, input: Any) -> Any:
    t = softplus(input).tanh()
    return g * (t + input * input.sigmoid() * (1 - t * t))


activation(
    "silu", "x * sigmoid(x) (Elfwing et al. 2017).", lambda g, input: slope(g, input, "silu"), "fc"
)
activation("mish", "x * tanh(softplus(x)) (Misra 2019).", mish_rule)


@elementwise(where="nn.functional", accepts="f", inplace=False)
def softplus(xp, input: Array, beta: float = 1, threshold: float = 20):
    """log(1 + exp(beta * x)) / beta; the input itself where beta * x > threshold."""
    return xp.scaled_softplus(input, beta, threshold)


softplus.grad(
    input=lambda g, input, beta, threshold: g.where(
        input * beta > threshold, g * (input * beta).sigmoid()
    ),
    kernel="scaled_softplus_gradient",
)


@elementwise(
    where="nn.functional",
    name="_logsigmoid",
    operands=(),
    node="LogSigmoidBackward0",
    accepts="f",
    inplace=False,
)
def log_sigmoid(xp, input: Array):
    return xp.log_sigmoid(input)


log_sigmoid.grad(input=lambda g, input: g * (-input).sigmoid(), kernel="log_sigmoid_gradient")


@composite(where="nn.functional", inplace=False)
def logsigmoid(input: Array):
    """The logarithm of the sigmoid."""
    return log_sigmoid(input)


# -- with more than one input ----------------------------------------------------------------------


@composite(where="nn.functional", inplace=False)
def glu(input: Array, dim: int = -1):
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016)."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if not -len(shape) <= dim < len(shape):
        geometry.wrap_dim(dim, len(shape))  # says what is wrong
    if shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {shape[dim]}"
        )
    return glu_halves(input, dim)


@op(where="nn.functional", name="_glu", node="GluBackward0", out=False)
def glu_halves(xp, input: Array, dim: int):
    if input.dtype.kind not in "fV":
        name = dtypes.OF[input.dtype].scalar_name
        raise NotImplementedError(f"\"glu_cpu\" not implemented for '{name}'")
    return xp.glu(input, dim)


def glu_rule(g: Any, input: Any, dim: int) -> Any:
    first, second = input.chunk(2, dim)
    s = second.sigmoid()
    return cat([g * s, g * first * s * (1 - s)], dim)


glu_halves.grad(input=glu_rule, kernel="glu_gradient")


@elementwise(
    name="_prelu_kernel", node="PreluKernelBackward0", accepts="f", method=False, inplace=False
)
def prelu_kernel(xp, input: Array, weight: Array):
    return xp.prelu(input, weight)


prelu_kernel.grad(
    input=lambda g, input, weight: g.where(input > 0, g * weight), kernel="prelu_gradient"
)
prelu_kernel.grad(
    weight=lambda g, input: within(g * input, input <= 0), kernel="prelu_weight_gradient"
)


@composite
def prelu(input: Array, weight: Array):
    """x for x > 0, else weight * x; `weight`: one element, or one per channel (dimension 1)."""
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim >= 2 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}"
        )
    if weight.ndim == 1 and input.ndim != 1 and weight.numel() >= 1:
        shape = [1] * input.ndim
        if input.ndim >= 2:
            shape[1] = weight.numel()
        weight = weight.reshape(shape)
    return prelu_kernel(input, weight)


def mean_slope(lower: float, upper: float) -> float:
    """The mean of the bounds, in order."""
    if lower > upper:
        raise RuntimeError(
            "Lower bound should be less than or equal to the upper bound, but found lower bound "
            f"{lower} and upper bound {upper}"
        )
    return (lower + upper) / 2


@composite(method=False)
def rrelu(
    input: Array, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
    generator: Any = None,
):  # fmt: skip
    """leaky_relu with a slope drawn from [lower, upper) for each element up to 0 in training, else the mean."""
    slope, input = mean_slope(lower, upper), input.contiguous()
    if not training:
        return leaky(input, slope)
    wide = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    low, high = float(wide.np.type(lower)), float(wide.np.type(upper))
    if input._array.__class__ is ndarray and not active.modes:
        slopes = _wrap(sampling.slopes(input._array, low, high, source(generator)))
        if input.dtype is wide:
            return input * slopes
        return (input.to(wide) * slopes).to(input.dtype)
    x = input.detach()
    slopes = x.new_ones(x.shape, dtype=wide)
    if isinstance(x._array, (Lifted, Meta)):
        slopes = slopes.where(x > 0, slopes.clone().uniform_(low, high, generator=generator))
    else:  # as PyTorch: a double for each of them in order, none for the others
        below = x <= 0
        drawn = slopes.new_empty(int(below.sum()), dtype=dtypes.float64)
        slopes.masked_scatter_(below, drawn.uniform_(low, high, generator=generator).to(wide))
    return (input.to(wide) * slopes).to(input.dtype)


@composite(where="nn.functional", name="rrelu", inplace=False)
def functional_rrelu(
    input: Array, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
    inplace: bool = False,
):  # fmt: skip
    """As `torch.rrelu`; `inplace`: into the input's memory."""
    return (rrelu_ if inplace else rrelu)(input, lower, upper, training)


@composite(where="nn.functional", inplace=False)
def gumbel_softmax(
    logits: Array, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
):
    """Samples from a distribution close to a category (Jang et al. 2016); `hard`: one-hot forward."""
    if eps != 1e-10:
        settings.warn("`eps` parameter is deprecated and has no effect.")
    noise = -logits.new_empty(logits.shape).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = soft.new_zeros(soft.shape).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


# -- in place, under their own names ---------------------------------------------------------------


@public(where="nn.functional", overridable=True)
def elu_(input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """`elu` into the input's memory."""
    result = inplace_or_not(exponential_below, input, True, alpha, scale, input_scale)
    return result if alpha >= 0 else refuse_gradient(result, "elu")


@public(overridable=True)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` into the input's memory."""
    return functional_celu(input, alpha, True)


@public(where="nn.functional", overridable=True)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` into the input's memory."""
    return hardtanh(input, min_val, max_val, True)


@public(where="nn.functional", overridable=True)
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` into the input's memory."""
    result = inplace_or_not(leaky, input, True, negative_slope)
    return result if negative_slope >= 0 else refuse_gradient(result, "leakyReLu")


@public(overridable=True)
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """`rrelu` into the input's memory."""
    if not training:
        return leaky_relu_(input, mean_slope(lower, upper))
    return input.copy_(rrelu(input, lower, upper, training, generator))


@public(overridable=True)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` into the input's memory."""
    return functional_threshold(input, threshold, value, True)
