"""Random tensors: PyTorch's numbers for PyTorch's seeds.

The numbers come from sampling.py and rejection.py, which work on arrays. Every function takes
`generator=` (default: `random.default_generator`). What is made on the meta device draws nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight.autograd.graph import version_of
from rushlight.autograd.state import active
from rushlight.core import dtypes, geometry
from rushlight.core.dtype_sets import BF16, F16, F32, F64, FLOATING, FULL, I32, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import results
from rushlight.dispatch.registry import public
from rushlight.ops.factories import arguments, creation
from rushlight.ops.factories.arguments import factory_like, shaped, valued
from rushlight.ops.factories.copying import free, overwrite, overwriting
from rushlight.ops.factories.creation import finished
from rushlight.rng import generator as generators
from rushlight.rng import sampling

if TYPE_CHECKING:
    from collections.abc import Callable


def source(generator: Any) -> generators.Generator:
    """The generator to draw from."""
    if generator is None:
        return generators.default_generator
    if not isinstance(generator, generators.Generator):
        raise TypeError(
            f"argument 'generator' must be torch.Generator, not {type(generator).__name__}"
        )
    return generator


def drawing(sampler: Callable, generator: Any, *numbers: Any) -> Callable:
    """`draw(array)` by a sampler of sampling.py, for arrays of all devices: what is drawn on the CPU is copied."""
    g = source(generator)

    def draw(a: Any) -> None:
        space = devices.of(a)
        if space is xp:
            sampler(a, *numbers, g)
        else:  # a copy with the strides of `a`: the order of the numbers follows memory
            values = space.to_numpy(a)
            sampler(values, *numbers, g)
            space.copyto(a, space.from_numpy(values))

    return draw


# -- new tensors -----------------------------------------------------------------------------------


def drawn(
    name: str, draw: Callable, shape: tuple, out: Any, dtype: Any, layout: Any, device: Any,
    pin_memory: bool, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """A new tensor of `shape` that `draw(array)` fills."""

    def fill(shape: tuple, d: np.dtype) -> np.ndarray:
        a = xp.empty(shape, d)
        draw(a)
        return a

    if out is not None:
        creation.check_out(name, out, dtype)
        results.give_shape(out, shape)
        if not out.is_meta:
            draw(out._array)
        results.bump(out)
        return out
    return creation.make_filled(
        name, fill, shape, None, dtype, layout, device, pin_memory, requires_grad
    )


def _uniform(a: np.ndarray) -> None:
    if a.flags.c_contiguous and a.dtype in FLOATING:
        draw = xp.random_doubles if a.dtype is F64 else xp.random_floats
        draw(generators.default_generator, a)
    else:
        sampling.uniform_(a, 0.0, 1.0, generators.default_generator)


def _normal(a: np.ndarray) -> None:
    if a.flags.c_contiguous and a.dtype in FLOATING and a.size < 16:
        xp.random_scalar_normals(generators.default_generator, a, 0.0, 1.0)
    elif a.dtype is not F32 or not a.flags.c_contiguous:
        sampling.normal_(a, 0.0, 1.0, generators.default_generator)
    else:
        xp.random_normal_floats(generators.default_generator, a, 0.0, 1.0)


@shaped(xp.empty, _uniform)
def rand(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
         requires_grad=False, pin_memory=False):  # fmt: skip
    """Uniform numbers in [0, 1); the sizes are the shape: `rand(2, 3)` is [2, 3].

    >>> import rushlight as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    draw = drawing(sampling.uniform_, generator, 0.0, 1.0)
    shape = arguments.sizes("rand", args, size)
    return drawn("rand", draw, shape, out, dtype, layout, device, pin_memory, requires_grad)


@shaped(xp.empty, _normal)
def randn(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
          requires_grad=False, pin_memory=False):  # fmt: skip
    """Normal numbers of mean 0 and standard deviation 1; the sizes are the shape: `randn(2, 3)` is [2, 3]."""
    draw = drawing(sampling.normal_, generator, 0.0, 1.0)
    shape = arguments.sizes("randn", args, size)
    return drawn("randn", draw, shape, out, dtype, layout, device, pin_memory, requires_grad)


def _randint_array(args: tuple, d: Any) -> np.ndarray | None:
    """An array for `randint` of ints of ordinary size and a tuple."""
    low, high, size = args if len(args) == 3 else (0, *args)
    if low.__class__ is not int or high.__class__ is not int or size.__class__ is not tuple:
        return None
    for n in size:
        if n.__class__ is not int:
            return None
    ordinary = d is None and 0 < high - low < 1 << 28 and high < 1 << 62
    return xp.empty(size, I64) if ordinary else None


def _randint_drawn(a: np.ndarray, args: tuple) -> None:
    low, high, _ = args if len(args) == 3 else (0, *args)
    xp.random_integers(generators.default_generator, a, low, high - low)


@valued(_randint_array, _randint_drawn)
def randint(*args, low=None, high=None, size=None, generator=None, out=None, dtype=None, layout=None,
            device=None, requires_grad=False, pin_memory=False):  # fmt: skip
    """Integers of [low, high), `randint(high, size)` or `randint(low, high, size)`; int64 by default."""
    low, high, size = _bounds("randint", args, low, high, size)
    shape = arguments.only_sequence("randint", size)
    draw = drawing(sampling.random_, generator, low, high)
    if dtype is None and out is None:
        dtype = dtypes.int64
    return drawn("randint", draw, shape, out, dtype, layout, device, pin_memory, requires_grad)


def _bounds(name: str, args: tuple, low: Any, high: Any, size: Any) -> tuple:
    """(low, high, last argument) of `f(high, x)`, `f(low, high, x)` and their keyword forms."""
    rest = list(args)
    if size is None and rest and (isinstance(rest[-1], (tuple, list)) or name != "randint"):
        size = rest.pop()
    if len(rest) == 2:
        low, high = rest
    elif len(rest) == 1:
        if high is None:
            high = rest[0]
        else:
            low = rest[0]
    elif rest:
        raise TypeError(f"{name}() received an invalid combination of arguments")
    if high is None or size is None:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: no high, or no size"
        )
    return 0 if low is None else _int(name, low), _int(name, high), size


def _int(name: str, value: Any, argument: str = "high") -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    return value.__index__()


def _randperm_array(args: tuple, d: Any) -> np.ndarray | None:
    """An array for `randperm` of an int of ordinary size."""
    (n,) = args
    ordinary = d is None and n.__class__ is int and 1 < n < 1 << 27
    return xp.empty(n, I64) if ordinary else None


def _randperm_drawn(a: np.ndarray, args: tuple) -> None:
    xp.random_permutation(generators.default_generator, a)


@valued(_randperm_array, _randperm_drawn)
def randperm(n, *, generator=None, out=None, dtype=None, layout=None, device=None,
             requires_grad=False, pin_memory=False):  # fmt: skip
    """The integers 0 to n - 1 in random order, [n]."""
    n = _int("randperm", n, "n")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    arguments.check_options("randperm", layout, pin_memory)
    g = source(generator)
    d = arguments.element_type("randperm", dtype, I64)
    if out is not None:
        d = creation.check_out("randperm", out, dtype)
        sampling.check_count(n, d)
        return creation.filled_out("randperm", lambda s, t: sampling.randperm(n, g, d), (n,), out)
    space = devices.for_device(device)
    array = creation.filled(space, lambda s, t: sampling.randperm(n, g, d), (n,), d)
    return finished(array, requires_grad)


@factory_like(xp.empty, draw=_uniform)
def rand_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False, memory_format=None):  # fmt: skip
    """Uniform numbers in [0, 1), in the shape, dtype and memory order of `input`."""
    draw = drawing(sampling.uniform_, generator, 0.0, 1.0)
    return creation.like(
        "rand_like", draw, input, dtype, layout, device, pin_memory, requires_grad, memory_format
    )


@factory_like(xp.empty, draw=_normal)
def randn_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False,
               requires_grad=False, memory_format=None):  # fmt: skip
    """Normal numbers, in the shape, dtype and memory order of `input`."""
    draw = drawing(sampling.normal_, generator, 0.0, 1.0)
    return creation.like(
        "randn_like", draw, input, dtype, layout, device, pin_memory, requires_grad, memory_format
    )


@public(overridable=True, primitive=True)
def randint_like(input, *args, low=None, high=None, generator=None, dtype=None, layout=None,
                 device=None, pin_memory=False, requires_grad=False, memory_format=None):  # fmt: skip
    """Integers of [low, high), in the shape, dtype and memory order of `input`."""
    options = (low, high, generator, dtype, layout, device, memory_format)
    if args and options.count(None) == len(options) and not (pin_memory or requires_grad):
        drawn = _few_integers(input, *args) if len(args) < 3 else None
        if drawn is not None:
            return drawn
    low, high, _ = _bounds("randint_like", (*args, ()), low, high, None)
    draw = drawing(sampling.random_, generator, low, high)
    return creation.like(
        "randint_like", draw, input, dtype, layout, device, pin_memory, requires_grad, memory_format
    )


EXACT = {F32: 1 << 24, F64: 1 << 53, F16: 1 << 11, BF16: 1 << 8, I64: 1 << 62, I32: 1 << 31}


def _few_integers(input: Any, *bounds: Any) -> Tensor | None:
    """`randint_like` of ints that the dtype of `input` holds exactly, row by row or column by column in memory; None for
    anything else."""
    a = getattr(input, "_array", None)
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    if a.__class__ is not np.ndarray or active.modes:
        return None
    if low.__class__ is not int or high.__class__ is not int:
        return None
    limit = EXACT.get(a.dtype, 0)
    if not (-limit < low < high < limit and high - low < 1 << 28 and a.size and a.flags.forc):
        return None
    transposed = not a.flags.c_contiguous
    like = a.T if transposed else a
    words = xp.empty(like.shape, I64)
    if 1 in a.shape and words.strides != tuple([s // a.itemsize * 8 for s in like.strides]):
        return None
    xp.random_integers(generators.default_generator, words, low, high - low)
    few = a.size < creation.LARGE and a.dtype in FULL
    made = words if a.dtype is I64 else words.astype(a.dtype) if few else xp.cast(words, a.dtype)
    return _wrap(made.T if transposed else made)


# -- in place --------------------------------------------------------------------------------------

uniform_node = overwriting("uniform", "UniformBackward0")
normal_node = overwriting("normal", "NormalBackward0")
random_nodes = [overwriting(f"random_{k}", f"RandomBackward{k}") for k in (0, 1, 2)]
bernoulli_node = overwriting("bernoulli_number", "BernoulliBackward2")
bernoulli_tensor_node = overwriting("bernoulli_tensor", "BernoulliBackward1")
exponential_node = overwriting("exponential", "ExponentialBackward0")
cauchy_node = overwriting("cauchy", "CauchyBackward0")
log_normal_node = overwriting("log_normal", "LogNormalBackward0")
geometric_node = overwriting("geometric", "GeometricBackward0")


def redrawn(
    t: Tensor, sampler: Callable, node: Any, generator: Any, *numbers: Any, told: tuple = ()
) -> Tensor:
    """Overwrite `t` by what a sampler draws. `told`: the numbers as a tensor, for who watches calls."""
    if free(t) and t._array.flags.c_contiguous:
        sampler(t._array, *numbers, source(generator))
        (t._counter or version_of(t)).n += 1
        return t
    given = told or numbers
    given = given if generator is None else (*given, generator)
    return overwrite(t, sampler.__name__, drawing(sampler, generator, *numbers), node, given)


@public("Tensor", overridable=True)
def uniform_(self, *args, to=1.0, generator=None, **kwargs):
    """Overwrite by uniform numbers in [from, to): `uniform_(from=0, to=1)`."""
    low = kwargs.pop("from", 0.0)
    _no_more("uniform_", kwargs)
    if len(args) > 2:
        raise TypeError(
            f"uniform_() takes from 0 to 2 positional arguments but {len(args)} were given"
        )
    low, to = (*args, *(low, to)[len(args) :])
    return redrawn(self, sampling.uniform_, uniform_node, generator, low, to)


def _no_more(name: str, kwargs: dict) -> None:
    if kwargs:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'")


@public("Tensor", overridable=True)
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Overwrite by normal numbers."""
    return redrawn(self, sampling.normal_, normal_node, generator, mean, std)


@public("Tensor", overridable=True)
def random_(self, *args, to=None, generator=None, **kwargs):
    """Overwrite by integers: `random_()` (all the dtype holds), `random_(to)`, `random_(from, to)`."""
    low = kwargs.pop("from", None)
    _no_more("random_", kwargs)
    if len(args) == 2:
        low, to = args
    elif len(args) == 1:
        low, to = (low, args[0]) if to is None else (args[0], to)
    node = random_nodes[2 if to is None and low is None else 1 if low is None else 0]
    if to is not None and low is None:
        low = 0
    return redrawn(self, sampling.random_, node, generator, low, to)


@public("Tensor", overridable=True)
def bernoulli_(self, p=0.5, *, generator=None):
    """Overwrite by ones with probability `p` (a number, or a tensor that broadcasts), else zeros."""
    if isinstance(p, Tensor):
        array, node = devices.of(p._array).to_numpy(p._array), bernoulli_tensor_node
        geometry.expand_strides(array.shape, array.strides, self._array.shape)  # raises its error
        return redrawn(self, sampling.bernoulli_, node, generator, array, told=(p,))
    return redrawn(self, sampling.bernoulli_, bernoulli_node, generator, p)


@public("Tensor", overridable=True)
def exponential_(self, lambd=1.0, *, generator=None):
    """Overwrite by exponential numbers of mean 1 / lambd."""
    return redrawn(self, sampling.exponential_, exponential_node, generator, lambd)


@public("Tensor", overridable=True)
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Overwrite by Cauchy numbers."""
    return redrawn(self, sampling.cauchy_, cauchy_node, generator, median, sigma)


@public("Tensor", overridable=True)
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Overwrite by numbers whose logarithm is normal with `mean` and `std`."""
    return redrawn(self, sampling.log_normal_, log_normal_node, generator, mean, std)


@public("Tensor", overridable=True)
def geometric_(self, p, *, generator=None):
    """Overwrite by the number of trials of probability `p` until the first success."""
    return redrawn(self, sampling.geometric_, geometric_node, generator, p)
