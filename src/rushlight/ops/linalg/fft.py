"""Fourier transforms: `torch.fft`.

Three operators do the work: complex to complex, real to half a spectrum, half a spectrum to real. The
public functions are these with sizes, dimensions and normalization sorted out. The adjoint of a
transform is the transform in the other direction with the same factor, so the rules are short.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rushlight._backends import cpu as xp
from rushlight.core import modes
from rushlight.core.dtype_sets import COMPLEX, FULL, REDUCED
from rushlight.core.geometry import wrap_dim
from rushlight.dispatch.registry import Array, composite, op, public
from rushlight.ops.factories.creation import copied

if TYPE_CHECKING:
    from rushlight.core.dtypes import dtype as DType
    from rushlight.core.dtypes import layout as Layout
    from rushlight.core.tensor import Tensor
    from rushlight.ops.factories.windows import Device

FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
INVERSE = {None: 2, "backward": 2, "ortho": 1, "forward": 0}

# -- the three transforms --------------------------------------------------------------------------


@op(where="internal", name="c2c", node="FftC2CBackward0", out=False)
def c2c(xp, input: Array, dims: tuple, scale: int, inverse: bool):
    """Complex or real to complex; `scale` 0: none, 1: by the root of the number of points, 2: by the number."""
    return xp.c2c(input, dims, scale, inverse)


def c2c_input(g, dims, scale, inverse, input_dtype):
    r = c2c(g, dims, scale, not inverse)
    return r if input_dtype.is_complex else r.real


c2c.grad(input=c2c_input)


@op(where="internal", name="r2c", node="FftR2CBackward0", out=False)
def r2c(xp, input: Array, dims: tuple, scale: int):
    """Real to the first half, n // 2 + 1, of the spectrum along the last of `dims`."""
    return xp.r2c(input, dims, scale)


def r2c_input(g, dims, scale, input_shape):
    """The other half of the spectrum has no gradient of its own."""
    shape = list(g.shape)
    shape[dims[-1]] = input_shape[dims[-1]]
    return c2c(resized(g, tuple(shape)), dims, scale, True).real


r2c.grad(input=r2c_input)


@op(where="internal", name="c2r", node="FftC2RBackward0", out=False)
def c2r(xp, input: Array, dims: tuple, scale: int, n: int):
    """Half of a Hermitian spectrum to `n` real values along the last of `dims` (inverse direction)."""
    return xp.c2r(input, dims, scale, n)


def c2r_input(g, dims, scale, n, input_dtype):
    """What stands for two elements of the spectrum gets the gradients of both."""
    last = dims[-1]
    spectrum = r2c(g, dims, scale)
    twice = n - spectrum.shape[last]
    if twice > 0:
        factors = g.new_ones(spectrum.shape[last])
        factors[1 : 1 + twice] = 2
        spectrum = spectrum * factors.reshape([-1] + [1] * (g.ndim - 1 - last))
    return spectrum if input_dtype.is_complex else spectrum.real


def c2r_on_arrays(xp, g, dims, scale, n, input_dtype):
    """`c2r_input`, in fewer steps."""
    spectrum = xp.r2c(g, dims, scale)
    last = dims[-1]
    if (twice := n - spectrum.shape[last]) > 0:
        paired = spectrum[(slice(None),) * last + (slice(1, 1 + twice),)]
        xp.multiply(paired, 2, out=paired)
    return spectrum if input_dtype.is_complex else spectrum.real


c2r.grad(input=c2r_input, kernel=c2r_on_arrays)


@op(where="internal", name="resized", node="ConstantPadNdBackward0", out=False)
def resized(xp, input: Array, shape: tuple):
    """The input cut, or filled with zeros at the ends, to `shape`. What is only cut keeps the order of its strides."""
    part = tuple(slice(min(n, m)) for n, m in zip(input.shape, shape, strict=True))
    if all(n >= m for n, m in zip(input.shape, shape, strict=True)):
        return copied(xp, input[part], None)
    out = xp.zeros(shape, input.dtype)
    out[part] = input[part]
    return out


resized.grad(input=lambda g, input_shape: resized(g, tuple(input_shape)))

# -- arguments -------------------------------------------------------------------------------------


def factor(norm, forward):
    table = FORWARD if forward else INVERSE
    if norm not in table:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return table[norm]


def floating(x):
    """`x` in a floating dtype that can be transformed."""
    d = x.dtype
    if d.np in COMPLEX or d.np in FULL:
        return x
    if not (d.is_floating_point or d.is_complex):
        d = modes.get_default_dtype()
    if d.np in REDUCED:
        raise RuntimeError(
            f"Unsupported dtype {d.scalar_name}: convert to float32 before the transform"
        )
    return x.to(d)


def real(name, x):
    """`x`, which may not be complex."""
    if x.is_complex():
        what = "real-valued" if name == "rfftn" else "real"
        raise RuntimeError(f"{name} expects a {what} input tensor, but got {x.dtype.scalar_name}")
    return x


def one_dim(ndim, dim):
    if not ndim:  # wrap_dim takes 0 for a 0-d tensor, as reductions do
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def shape_and_dims(shape, s, dim):
    """(sizes, dimensions) of an n-dimensional transform, PyTorch's defaults filled in."""
    ndim = len(shape)
    if isinstance(dim, int):
        dim = (dim,)
    if isinstance(s, int):
        s = (s,)
    if dim is not None:
        dims = tuple(one_dim(ndim, d) for d in dim)
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"FFT dims must be unique, got {tuple(dim)}")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(
                f"When given, dim and shape arguments must have the same length, got {len(dims)} and "
                f"{len(s)}"
            )
    elif s is not None:
        if len(s) and not ndim:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        dims = tuple(range(ndim - len(s), ndim))
    else:
        dims = tuple(range(ndim))
    sizes = [shape[d] if s is None or s[i] == -1 else s[i] for i, d in enumerate(dims)]
    return sizes, dims


class Plan:
    """Where a transform works: its dimensions, the shape to which its input is `cut` or filled (None: it fits), the
    `part` that is cut out where nothing is filled (or None), and how many real points come out along the last one."""

    __slots__ = ("cut", "dims", "part", "points")

    def __init__(self, shape, sizes, dims, points=0):
        self.dims, self.points = dims, points
        if points:
            sizes = [*sizes[:-1], points // 2 + 1]
        cut = list(shape)
        for n, d in zip(sizes, dims, strict=True):
            if n < 1:
                raise RuntimeError(f"Invalid number of data points ({n}) specified")
            cut[d] = n
        self.cut = None if cut == list(shape) else tuple(cut)
        filled = any(n > m for n, m in zip(cut, shape, strict=True))
        self.part = None if filled else tuple([slice(n) for n in cut])


def planned(plan):
    """Keep what a function plans for the calls alike."""
    kept = lru_cache(1024)(plan)

    def find(x, *how):
        try:
            return kept(x.shape, *how)
        except TypeError:  # lists do not hash
            return plan(x.shape, *how)

    return find


@planned
def line(shape, n, dim):
    """The plan of a transform along one dimension."""
    d = one_dim(len(shape), dim)
    return Plan(shape, [shape[d] if n is None else n], (d,))


@planned
def real_line(shape, n, dim):
    """The plan of a transform of half a spectrum along one dimension."""
    d = one_dim(len(shape), dim)
    return Plan(shape, [0], (d,), given_points(2 * (shape[d] - 1) if n is None else n))


@planned
def box(shape, s, dim):
    """The plan of a transform along several dimensions."""
    return Plan(shape, *shape_and_dims(shape, s, dim))


@planned
def real_box(shape, s, dim, name):
    """The plan of a transform of half a spectrum along several dimensions."""
    sizes, dims = shape_and_dims(shape, s, dim)
    at_least_one(name, dims)
    last = s[-1] if isinstance(s, (tuple, list)) else s
    n = 2 * (shape[dims[-1]] - 1) if last is None or last == -1 else last
    return Plan(shape, sizes, dims, given_points(n))


def given_points(n):
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def fitted(x, plan, to_complex=False):
    """`x`, floating, cut or filled up as the plan says; whole numbers are cut before they are converted.
    `to_complex`: as complex numbers, whose gradients are cut or filled, too."""
    if plan.part is not None and plan.cut is not None and x.dtype.np.kind in "iub":
        return floating(x[plan.part])
    x = floating(x)
    if plan.cut is None:
        return x
    if to_complex and not x.is_complex():
        x = x.to(x.dtype.to_complex())
    return resized(x, plan.cut) if plan.part is None else x[plan.part]


def at_least_one(name, dims):
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


# -- one dimension ---------------------------------------------------------------------------------


@composite(where="fft")
def fft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """X[k] = Σ x[j] exp(-2πi jk / n) along `dim`, which is cut or filled with zeros to `n`.

    `norm`: "backward" (no factor), "ortho" (1/√n), "forward" (1/n).

    >>> import rushlight as torch
    >>> torch.fft.fft(torch.tensor([1.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return c2c_over(input, line(input, n, dim), norm, True)


@composite(where="fft")
def ifft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The inverse of `fft.fft`; the factor of "backward" is 1/n."""
    return c2c_over(input, line(input, n, dim), norm, False)


def c2c_over(x, plan, norm, forward, to_complex=False):
    scale = factor(norm, forward)
    return c2c(fitted(x, plan, to_complex), plan.dims, scale, not forward)


def r2c_over(name, x, plan, norm, forward):
    at_least_one(name, plan.dims)
    return r2c(fitted(real(name, x), plan), plan.dims, factor(norm, forward))


@composite(where="fft")
def rfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The first n // 2 + 1 elements of the transform of a real signal; the others are conjugates."""
    return r2c_over("rfft", input, line(input, n, dim), norm, True)


@composite(where="fft")
def irfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The real signal of `n` points (default 2 (m - 1)) with this half spectrum of m."""
    return c2r_one(input, n, dim, factor(norm, False))


def c2r_one(x, n, dim, scale):
    plan = real_line(x, n, dim)
    return c2r(fitted(x, plan, True), plan.dims, scale, plan.points)


@composite(where="fft")
def hfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The real spectrum of `n` points of a Hermitian signal, given its first half."""
    return c2r_one(input.conj_physical(), n, dim, factor(norm, True))


@composite(where="fft")
def ihfft(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
    """The inverse of `fft.hfft`: the first half of the Hermitian signal."""
    return r2c_over("ihfft", input, line(input, n, dim), norm, False).conj_physical()


# -- several dimensions ----------------------------------------------------------------------------


@composite(where="fft")
def fftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The transform along several dimensions (default: all, or the last `len(s)`), resized to `s`."""
    return c2c_over(input, box(input, s, dim), norm, True, True)


@composite(where="fft")
def ifftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The inverse of `fft.fftn`."""
    return c2c_over(input, box(input, s, dim), norm, False, True)


@composite(where="fft")
def rfftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The transform of real values along several dimensions; half of the last one."""
    return r2c_over("rfftn", input, box(input, s, dim), norm, True)


@composite(where="fft")
def irfftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The inverse of `fft.rfftn`; the last of `s` says how many points the last dimension has."""
    return c2r_many("irfftn", input, s, dim, factor(norm, False))


def c2r_many(name, x, s, dim, scale, conjugate_last=False):
    plan = real_box(x, s, dim, name)
    dims, n = plan.dims, plan.points
    x = fitted(x, plan, True)
    if not conjugate_last:
        return c2r(x, dims, scale, n)
    if dims[:-1]:
        x = c2c(x, dims[:-1], scale, False)
    return c2r(x.conj_physical(), dims[-1:], scale, n)


@composite(where="fft")
def hfftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The real spectrum of a signal that is Hermitian in its last dimension, given half of it."""
    return c2r_many("hfftn", input, s, dim, factor(norm, True), conjugate_last=True)


@composite(where="fft")
def ihfftn(input: Array, s: tuple | None = None, dim: tuple | None = None, norm: str | None = None):
    """The inverse of `fft.hfftn`."""
    scale = factor(norm, False)
    plan = box(input, s, dim)
    dims = plan.dims
    at_least_one("ihfftn", dims)
    r = r2c(fitted(real("ihfftn", input), plan), dims[-1:], scale).conj_physical()
    return c2c(r, dims[:-1], scale, True) if dims[:-1] else r


def in_two(n_dimensional):
    """Declare the two-dimensional form of a transform."""
    name = n_dimensional.__name__

    @composite(
        where="fft", name=f"{name[:-1]}2", doc=f"`fft.{name}` along the last two dimensions."
    )
    def transform(
        input: Array, s: tuple | None = None, dim: tuple = (-2, -1), norm: str | None = None
    ):
        return n_dimensional(input, s, dim, norm)


for transform in (fftn, ifftn, rfftn, irfftn, hfftn, ihfftn):
    in_two(transform)

# -- frequencies -----------------------------------------------------------------------------------


def declare_frequencies(name, values, meaning):
    """Declare the function of the frequencies `values(n)` over n d."""

    @public("fft", name=name, doc=f"The frequencies of the elements of `fft.{meaning}")
    def frequencies(
        n: int,
        d: float = 1.0,
        *,
        out: Tensor | None = None,
        dtype: DType | None = None,
        layout: Layout | None = None,
        device: Device = None,
        requires_grad: bool = False,
    ) -> Tensor:
        from rushlight.ops.factories.sequences import warn_of_resizing
        from rushlight.ops.factories.windows import as_window

        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(f"{name} requires a floating point or complex dtype, got {dtype}")
        t = as_window(values(n) / (n * d) if n else values(n), dtype, device, requires_grad)
        if out is None:
            return t
        warn_of_resizing(out, t._array.size)
        if out._array.size != t._array.size:
            out.resize_(t.shape)
        return out.copy_(t.reshape(out.shape))


declare_frequencies(
    "fftfreq", lambda n: (xp.arange(n) + n // 2) % n - n // 2 if n else xp.arange(n),
    "fft` for samples `d` apart: 0, 1, ..., -2, -1 over n d.",
)  # fmt: skip
declare_frequencies("rfftfreq", lambda n: xp.arange(n // 2 + 1), "rfft` for samples `d` apart.")


def shifted(x, dim, forward):
    """Every dimension of `dim` rolled by half its size, rounded down if `forward`, else up."""
    if dim is None:
        dims = list(range(x.ndim))
    else:
        dims = [dim] if isinstance(dim, int) else list(dim)
    amounts = [(x.shape[d] + (not forward)) // 2 for d in dims]
    return x.roll(amounts, dims) if dims else x.clone()


@composite(where="fft", out=False)
def fftshift(input: Array, dim: tuple | None = None):
    """The zero frequency moved to the middle of each dimension.

    >>> import rushlight as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return shifted(input, dim, True)


@composite(where="fft", out=False)
def ifftshift(input: Array, dim: tuple | None = None):
    """The inverse of `fft.fftshift`."""
    return shifted(input, dim, False)
