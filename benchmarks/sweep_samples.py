"""Samples for sweep.py: the arguments of one call of each operator, at about the number of elements that is asked for.

Most come from PyTorch's operator database, whose sizes are module constants (S, M, L, XS): they are set to
other numbers before the database makes its samples. Operators whose samples have fixed shapes stand in SCALED.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.testing._internal.common_methods_invocations as database
import torch.testing._internal.opinfo.core as core
import torch.testing._internal.opinfo.definitions as definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 4_000_000  # elements of one tensor
SIDES = {1: (1,), 1_000: (10, 32, 1_000, 6), 1_000_000: (1_000, 100, 32, 1_000_000)}
MODULES = [
    database,
    core,
    *(
        importlib.import_module(f"{definitions.__name__}.{m.name}")
        for m in pkgutil.iter_modules(definitions.__path__)
    ),
]
CONSTANTS = [
    (m, n) for m in MODULES for n in ("S", "M", "L", "XS") if isinstance(getattr(m, n, None), int)
]


class Sample(NamedTuple):
    args: tuple
    kwargs: dict[str, Any]

    @property
    def size(self) -> int:
        """The number of elements of the largest tensor."""
        return max((t.numel() for t in tensors((self.args, self.kwargs))), default=0)


class _TooLarge(Exception):
    pass


def _make_tensor(*shape: Any, **kwargs: Any) -> torch.Tensor:
    size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if math.prod(size) > LIMIT:
        raise _TooLarge
    return torch.testing.make_tensor(*shape, **kwargs)


def tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from tensors(y)
    elif isinstance(x, dict):
        yield from tensors(list(x.values()))


def scaled(op: Any, target: int, dtype: torch.dtype) -> Sample | None:
    """The sample of `op` whose largest tensor is nearest to `target` elements; None if none is within a factor of 4."""
    torch.manual_seed(0)
    if op.name in SCALED:
        return SCALED[op.name](target, Make(dtype))
    best, distance = None, math.log(4)
    held = [(m, n, getattr(m, n)) for m, n in CONSTANTS]
    for m in MODULES:
        if hasattr(m, "make_tensor"):
            m.make_tensor = _make_tensor  # type: ignore[attr-defined]
    try:
        for side in SIDES[target]:
            for m, n in CONSTANTS:
                setattr(m, n, side)
            for sample in _drawn(op, dtype):
                apart = abs(math.log(max(sample.size, 1e-9) / target))
                if apart < distance:
                    best, distance = sample, apart
                if distance == 0:
                    break
            if distance < math.log(1.5):
                break
    finally:
        for m, n, value in held:
            setattr(m, n, value)
    return best


def _drawn(op: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of an operator, until one is too large, fails or it takes long."""
    torch.manual_seed(0)
    start = time.monotonic()
    try:
        for i, s in enumerate(op.sample_inputs("cpu", dtype)):
            if s.input is not None:
                yield Sample((s.input, *s.args), dict(s.kwargs))
            if i > 40 or time.monotonic() - start > 1.5:
                return
    except (
        Exception
    ):  # the database asks for more than it can make of these sizes: another side may fit
        return


class Make:
    """Makes tensors of one dtype, of numbers between 0.1 and 2."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, *shape: int) -> torch.Tensor:
        whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
        low, high = (1, 3) if whole else (0.1, 2)
        return torch.testing.make_tensor(shape, dtype=self.dtype, device="cpu", low=low, high=high)

    def image(self, n: int, dims: int, channels: int = 8) -> torch.Tensor:
        """About n elements of shape (batch, channels, side, ...); the batch is 1 below 100,000."""
        batch = 1 if n < 100_000 else 4
        side = max(4, 2 * round((n / channels / batch) ** (1 / dims) / 2))
        return self(batch, channels, *[side] * dims)

    def rows(self, n: int) -> torch.Tensor:
        """n elements in rows of at most 100."""
        return self(max(1, n // 100), min(n, 100))

    def square(self, n: int) -> torch.Tensor:
        return self(side(n), side(n))

    def definite(self, n: int) -> torch.Tensor:
        """A symmetric positive definite matrix of about n elements."""
        a = self.square(n)
        return a @ a.mT + side(n) * torch.eye(side(n), dtype=self.dtype)


def side(n: int) -> int:
    """The side of a square of about n elements."""
    return max(1, round(n**0.5))


def call(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def conv(dims: int, **kwargs: Any) -> Callable:
    def sample(n: int, make: Make) -> Sample:
        channels = 1 if n == 1 else 4 if n < 100_000 else 32
        kernel = make(channels, channels, *[3] * dims)
        return call(make.image(n, dims, channels), kernel, make(channels), padding=1, **kwargs)

    return sample


def on_image(dims: int, *rest: Any, **kwargs: Any) -> Callable:
    """A call on one image; nothing of 1 element."""
    return lambda n, make: None if n == 1 else call(make.image(n, dims), *rest, **kwargs)


def on_rows(*rest: Any, **kwargs: Any) -> Callable:
    return lambda n, make: call(make.rows(n), *rest, **kwargs)


def on_square(*rest: Any, **kwargs: Any) -> Callable:
    """A call on one square matrix; of 1,000,000 elements a decomposition takes too long to be timed often: 65,536."""
    return lambda n, make: call(make.square(min(n, 65_536)), *rest, **kwargs)


def on_definite(n: int, make: Make) -> Sample:
    return call(make.definite(min(n, 65_536)))


def solve(n: int, make: Make) -> Sample:
    a = make.definite(min(n, 65_536))
    return call(make(len(a), 4), a)


def lu_solve(n: int, make: Make) -> Sample:
    factors, pivots = torch.linalg.lu_factor(make.definite(min(n, 65_536)))
    return call(make(len(factors), 4), factors, pivots)


def unpool(dims: int) -> Callable:
    def sample(n: int, make: Make) -> Sample | None:
        if n == 1:
            return None
        pool = getattr(torch.nn.functional, f"max_pool{dims}d")
        return call(*pool(make.image(n, dims), 2, return_indices=True), 2)

    return sample


def norm(*rest: Any, parameters: int = 2) -> Callable:
    def sample(n: int, make: Make) -> Sample:
        x = make.rows(n)
        width = x.shape[1]
        return call(x, [width], *[make(width) for _ in range(parameters)], *rest)

    return sample


def cross_entropy(n: int, make: Make) -> Sample:
    x = make.rows(n)
    return call(x, torch.randint(0, x.shape[1], (len(x),)))


def attention(n: int, make: Make) -> Sample:
    shape = {1: (1, 1, 1, 1), 1_000: (1, 2, 8, 64)}.get(n, (4, 8, 512, 64))
    return call(make(*shape), make(*shape), make(*shape))


def grid_sample(n: int, make: Make) -> Sample | None:
    if n == 1:
        return None
    x = make.image(n, 2)
    return call(x, make(len(x), *x.shape[2:], 2) - 1, align_corners=False)


def stft(n: int, make: Make) -> Sample | None:
    return (
        None
        if n == 1
        else call(make(n), 64, window=torch.hann_window(64, dtype=make.dtype), return_complex=True)
    )


def bilinear(n: int, make: Make) -> Sample:
    rows = max(1, n // 8)
    return call(make(rows, 8), make(rows, 8), make(8, 8, 8), make(8))


# The operators whose samples in the database have fixed shapes: a function from the number of elements and a maker of
# tensors to a sample, or to None where the operator has none of that size.
SCALED: dict[str, Callable[[int, Make], Sample | None]] = {
    **{f"nn.functional.conv{d}d": conv(d) for d in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{d}d": conv(d, stride=2) for d in (1, 2, 3)},
    **{f"nn.functional.{k}_pool{d}d": on_image(d, 2) for k in ("avg", "max") for d in (1, 2, 3)},
    **{f"nn.functional.adaptive_{k}_pool{d}d": on_image(d, 3) for k in ("avg", "max") for d in (1, 2, 3)},
    **{f"nn.functional.max_unpool{d}d": unpool(d) for d in (1, 2, 3)},
    **{f"nn.functional.upsample_{k}": on_image(2, None, 2) for k in ("bilinear", "nearest")},
    **{f"nn.functional.{k}": on_rows() for k in ("gelu", "hardswish", "leaky_relu", "normalize")},
    **{k: on_square() for k in ("geqrf", "qr", "linalg.qr", "svd", "linalg.svd", "linalg.eig", "pinverse", "linalg.pinv")},
    **dict.fromkeys(("cholesky", "cholesky_inverse", "inverse", "linalg.cholesky", "linalg.eigh", "linalg.inv"), on_definite),
    **{k: on_rows() for k in ("corrcoef", "cov")},
    **{k: on_rows(-1) for k in ("argsort", "median", "nanmedian", "sort")},
    **{k: on_rows(0.5, dim=-1) for k in ("quantile", "nanquantile")},
    **{k: lambda n, make: call(0.0, 1.0, n, dtype=make.dtype) for k in ("linspace", "logspace")},
    **{k: lambda n, make: call(make.rows(n)[None], (1, 0, 2)) for k in ("permute", "permute_copy")},
    **{k: lambda n, make: call(make(side(n)), make(side(n))) for k in ("cartesian_prod", "outer")},
    **dict.fromkeys(("cholesky_solve", "triangular_solve"), solve),
    "addmm": lambda n, make: call(make.square(n), make.square(n), make.square(n)),
    "arange": lambda n, make: call(0, n, dtype=make.dtype),
    "as_strided": lambda n, make: call(make(n), (max(1, n // 2),), (2,), 0),
    "broadcast_tensors": lambda n, make: call(make(side(n), 1), make(1, side(n))),
    "combinations": lambda n, make: call(make(side(n))),
    "constant_pad_nd": on_image(2, (1, 1, 1, 1), 0),
    # Of a matrix diag_embed would make n * sqrt(n) elements.
    **dict.fromkeys(("diag", "diag_embed", "diagflat"), lambda n, make: call(make(side(n)))),
    "einsum": lambda n, make: call("ij,jk->ik", make.square(n), make.square(n)),
    "inner": lambda n, make: call(make.square(n), make.square(n)),
    "linalg.matrix_power": on_square(3),
    "linalg.multi_dot": lambda n, make: call([make.square(n)] * 3),
    "linalg.solve": lambda n, make: call(*reversed(solve(n, make).args)),
    "linalg.vecdot": lambda n, make: call(make.rows(n), make.rows(n)),
    "lu_solve": lu_solve,
    "meshgrid": lambda n, make: call(make(side(n)), make(side(n)), indexing="ij"),
    "msort": on_rows(),
    "native_layer_norm": norm(1e-5),
    "nn.functional.bilinear": bilinear,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.glu": lambda n, make: None if n == 1 else call(make.rows(n)),
    "nn.functional.grid_sample": grid_sample,
    "nn.functional.group_norm": on_image(2, 4),
    "nn.functional.instance_norm": on_image(2),
    "nn.functional.interpolate": on_image(2, None, 2, mode="bilinear"),
    "nn.functional.layer_norm": norm(),
    "nn.functional.linear": lambda n, make: call(make.square(n), make.square(n), make(side(n))),
    "nn.functional.local_response_norm": on_image(2, 3),
    "nn.functional.pad": on_image(2, (1, 1, 1, 1)),
    "nn.functional.pixel_shuffle": on_image(2, 2),
    "nn.functional.pixel_unshuffle": on_image(2, 2),
    "nn.functional.rms_norm": norm(parameters=1),
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.unfold": on_image(2, 3),
    "stft": stft,
    "topk": lambda n, make: call(make.rows(n), min(n, 5)),
    "unflatten": on_rows(-1, (1, -1)),
}  # fmt: skip
