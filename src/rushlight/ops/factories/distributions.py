"""Random tensors whose parameters are tensors: `normal`, `bernoulli`, `multinomial`, `poisson`...

Samples carry history as PyTorch's do: the gradient of a sampled number is zero, `_standard_gamma`'s
is that of the reparametrised sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, meta
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry
from rushlight.core.device import CPU
from rushlight.core.dtype_sets import FULL, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import results
from rushlight.dispatch.dual import Dual
from rushlight.dispatch.record import make_node
from rushlight.dispatch.registry import Array, op, public
from rushlight.ops.factories import arguments, creation
from rushlight.ops.factories.copying import overwriting
from rushlight.ops.factories.random import drawn, source
from rushlight.rng import rejection, sampling

if TYPE_CHECKING:
    from collections.abc import Callable


# -- history ---------------------------------------------------------------------------------------


@op(where="Tensor", name="normal_3", node="NormalBackward3", method=False, out=False)
def normal_of_tensors(xp, input: Array, std: Array):
    """Stands in the graph for `normal` of two tensors."""
    return input


normal_of_tensors.grad(
    input=lambda g, input_shape: g.new_zeros(input_shape),
    std=lambda g, std_shape: g.new_zeros(std_shape),
)


def recorded(result: Tensor, recorder: Any, *inputs: Tensor) -> Tensor:
    """`result` with history, and with a tangent of zeros, if one of the tensors it was drawn from has that."""
    if thread.grad:
        for t in inputs:
            if t.requires_grad:
                named = dict(zip(recorder.op.inputs, inputs, strict=True))
                result._edge = make_node(recorder.op, named, [result])
                break
    if thread.tangents and recorder not in (bernoulli_p_node, binomial_node, dirichlet_node):
        for t in inputs:
            if isinstance(t._array, Dual):
                level = t._array.level
                result._array = Dual(result._array, result.new_zeros(result.shape), level)
                break
    return result


def unsupported(name: str) -> Any:
    """As `overwriting`, where PyTorch has no derivative: backward raises."""
    recorder = overwriting(f"{name}_draw", "NotImplemented")
    recorder.op.rules.clear()

    def rule(g):
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return recorder.grad(input=rule)


normal_nodes = [overwriting(f"normal_{k}", f"NormalBackward{k}") for k in (1, 2)]
normal_nodes.append(normal_of_tensors)
bernoulli_node = overwriting("bernoulli_from", "BernoulliBackward0")
bernoulli_p_node = unsupported("bernoulli")
poisson_node = overwriting("poisson_draw", "PoissonBackward0")
binomial_node = unsupported("binomial")
dirichlet_node = unsupported("_sample_dirichlet")


def delivered(
    name: str, values: Callable, like: np.ndarray, shape: tuple, dtype: np.dtype, out: Any
) -> Tensor:
    """`values()` as a tensor or in `out`; nothing is drawn where `like` is on the meta device."""
    if out is not None:
        creation.check_out(name, out)
        results.warn_of_resizing(out, shape)
        return creation.filled_out(name, lambda s, d: values(), shape, out)
    if like.__class__ is np.ndarray:
        try:
            return _wrap(values())
        except MemoryError as e:
            raise creation.too_large(shape, dtype, e) from None
    return _wrap(creation.filled(devices.of(like), lambda s, d: values(), shape, dtype))


def drawn_of(
    name: str, draw: Callable, recorder: Any, generator: Any, *parameters: Tensor
) -> Tensor:
    """What `draw(*arrays, generator)` gives for the values of the parameters, recorded for the last of them."""
    arrays, g = [plain(t) for t in parameters], source(generator)
    shape = geometry.broadcast_shapes(*(a.shape for a in arrays))
    like, dtype = parameters[0]._array, arrays[0].dtype
    result = delivered(name, lambda: draw(*arrays, g), like, shape, dtype, None)
    return recorded(result, recorder, parameters[-1])


MANY = 1 << 20  # elements that there is surely memory for
HELD = (np.ndarray, meta.Meta)  # classes of arrays that parameters are taken from as they are


def plain(t: Tensor) -> np.ndarray:
    """The values of a tensor as a NumPy array; on the meta device its array."""
    a = t._array
    return a if a.__class__ in HELD else devices.of(a).to_numpy(a)


# -- the functions ---------------------------------------------------------------------------------


@public(overridable=True, primitive=True)
def normal(mean=0.0, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None,
           device=None, pin_memory=False, requires_grad=False):  # fmt: skip
    """Normal numbers; mean and standard deviation are tensors, or numbers with a `size`.

    RuntimeError for a negative standard deviation. Tensors broadcast; the result is contiguous, in
    the dtype of `mean` (of `std` where `mean` is a number).

    >>> import rushlight as torch
    >>> torch.normal(torch.zeros(2), 0.0)
    tensor([0., 0.])
    """
    g = source(generator)
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if not tensors:
        if size is None:
            raise TypeError(
                "normal() received an invalid combination of arguments - got "
                f"({type(mean).__name__}, {type(std).__name__}): a size is missing"
            )
        shape = arguments.only_sequence("normal", size)
        device = device or CPU  # PyTorch's default device does not reach this function
        return drawn(
            "normal", lambda a: sampling.normal_(a, mean, std, g), shape, out, dtype, layout, device,
            pin_memory, requires_grad,
        )  # fmt: skip
    a = plain(tensors[0])
    shape = geometry.broadcast_shapes(*(t._array.shape for t in tensors))
    if isinstance(std, Tensor):
        s = plain(std)
        if s.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if s.size and s.__class__ is not meta.Meta and not xp.amin(s, None, False) >= 0:
            raise RuntimeError("normal expects all elements of std >= 0.0")
    d = a.dtype if out is None else creation.check_out("normal", out)

    def values() -> np.ndarray:
        z = xp.empty(shape, d)
        sampling.normal_(z, 0.0, 1.0 if isinstance(std, Tensor) else std, g)
        if {t._array.dtype for t in tensors} == {d} and d in FULL:
            if std is tensors[-1]:
                xp.multiply(z, plain(std), out=z)
            if mean is tensors[0] or mean:
                xp.add(z, a if mean is tensors[0] else d.type(mean), out=z)
            return z
        t = _wrap(z)
        if isinstance(std, Tensor):
            t.mul_(_wrap(plain(std)))
        if isinstance(mean, Tensor) or mean:
            t.add_(_wrap(plain(mean)) if isinstance(mean, Tensor) else mean)
        return t._array

    result = delivered("normal", values, tensors[0]._array, shape, d, out)
    node = normal_nodes[2 if len(tensors) == 2 else 0 if isinstance(mean, Tensor) else 1]
    return result if out is not None else recorded(result, node, *tensors)


@public(method=True, overridable=True, primitive=True)
def bernoulli(input, p=None, *, generator=None, out=None):
    """Ones with the probabilities in `input`, zeros otherwise; with `p`, ones with probability `p`."""
    g = source(generator)
    a = plain(input)
    recorder = bernoulli_node if p is None else bernoulli_p_node
    if out is None and input._array.__class__ is np.ndarray and a.size <= MANY:
        r = xp.empty(a.shape, a.dtype)
        sampling.bernoulli_(r, a if p is None else p, g)
        return recorded(_wrap(r), recorder, input)
    d = a.dtype if out is None else creation.check_out("bernoulli", out)

    def values() -> np.ndarray:
        r = xp.empty(a.shape, d)
        sampling.bernoulli_(r, a if p is None else p, g)
        return r

    result = delivered("bernoulli", values, input._array, a.shape, d, out)
    if out is not None:
        return result
    return recorded(result, recorder, input)


@public(method=True, overridable=True, primitive=True)
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with probabilities in proportion to `input` [k] or [m, k]: int64 [n] or [m, n]."""
    g = source(generator)
    a = plain(input)
    shape = (*a.shape[:-1], num_samples)
    d = I64
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    return delivered(
        "multinomial",
        lambda: xp.contiguous(rejection.multinomial(a, num_samples, replacement, g)),
        input._array,
        shape,
        d,
        out,
    )


@public(overridable=True, primitive=True)
def poisson(input, generator=None):
    """Poisson counts with the rates in `input`, in its shape and dtype."""
    return drawn_of("poisson", rejection.poisson, poisson_node, generator, input)


@public(overridable=True, primitive=True)
def binomial(count, prob, generator=None):
    """How many of `count` trials of probability `prob` succeed; floating tensors of one dtype."""
    return drawn_of("binomial", rejection.binomial, binomial_node, generator, count, prob)


@op(method=False, out=False)
def _standard_gamma_grad(xp, input: Array, output: Array):
    """How samples `output` of Gamma(input, 1) move with `input`."""
    return xp.standard_gamma_gradient(input, output)


@op(method=False, out=False)
def _dirichlet_grad(xp, x: Array, alpha: Array, total: Array):
    """How samples `x` of a Dirichlet distribution move with `alpha`; `total` is the sum of alphas."""
    return xp.dirichlet_gradient(x, alpha, total)


@op(
    where="Tensor",
    name="standard_gamma_draw",
    node="StandardGammaBackward0",
    method=False,
    out=False,
)
def gamma_node(xp, input: Array):
    """Stands in the graph for a draw of gamma numbers."""
    return input


gamma_node.grad(input=lambda g, input, result: g * _standard_gamma_grad(input, result.detach()))


@public(overridable=True, primitive=True)
def _sample_dirichlet(input, generator=None):
    """Points of the simplex with the concentrations in `input` [..., k]."""
    return drawn_of("_sample_dirichlet", rejection.dirichlet, dirichlet_node, generator, input)


@public(overridable=True, primitive=True)
def _standard_gamma(input, generator=None):
    """Gamma numbers of shape `input` and scale 1."""
    return drawn_of("_standard_gamma", rejection.standard_gamma, gamma_node, generator, input)
