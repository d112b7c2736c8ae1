"""Random operands in random layouts, and expressions of them: `test_layouts.py` and its oracle run these.

An operand is a tensor of random numbers and steps that make a view of it, as text, so that any module named `torch` can
make it. An expression is text too; it reads operands by their names.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ["float32"] * 6 + ["float64"] * 2 + ["bfloat16", "float16"]
DTYPES = [*FLOATS, "int64", "int64", "int32", "uint8", "bool", "complex64"]
FORMATS = {4: "channels_last", 5: "channels_last_3d"}


@dataclass
class Operand:
    """A tensor: its first shape and dtype, the seed of its elements, and steps such as `.permute(1, 0)`."""

    shape: tuple
    dtype: str
    seed: int
    steps: list[str] = field(default_factory=list)

    def make(self, torch: Any) -> Any:
        draws = np.random.default_rng(self.seed)
        n = int(np.prod(self.shape, dtype=int))
        whole = draws.integers(1, 9, n).tolist()
        values = {
            "f": lambda: draws.standard_normal(n).astype(np.float32).tolist(),
            "b": lambda: [v > 4 for v in whole] if self.dtype == "bool" else values["f"](),
            "c": lambda: [complex(v, 9 - v) for v in whole],
        }
        made = values.get(self.dtype[0], lambda: whole)()
        t = torch.tensor(made, dtype=getattr(torch, self.dtype)).reshape(self.shape)
        for step in self.steps:
            t = eval(f"t{step}", {"t": t, "torch": torch})
        return t


class Draw:
    """Random shapes and operands."""

    def __init__(self, seed: Any, zero: float = 0.03) -> None:
        self.r = random.Random(str(seed))
        self.zero = zero

    def shape(self, low: int = 0, high: int = 5) -> tuple:
        r = self.r
        sizes = [r.choice([1, 1, 2, 2, 3, 3, 4]) for _ in range(r.randint(low, high))]
        return tuple(0 if r.random() < self.zero else n for n in sizes)

    def narrower(self, shape: tuple) -> tuple:
        """A shape that broadcasts to `shape`."""
        r = self.r
        if r.random() < 0.4:
            return shape
        sizes = tuple(1 if r.random() < 0.2 else n for n in shape)
        return sizes[r.randint(0, len(sizes)) if r.random() < 0.25 else 0 :]

    def order(self, n: int) -> tuple:
        return tuple(self.r.sample(range(n), n))

    def operand(self, shape: tuple, dtype: str = "", overlaps: bool = True) -> Operand:
        """A tensor of this shape whose memory lies in one of many ways."""
        ways = [self.permuted] * 5 + [self.sliced] * 2 + [self.of_larger, self.turned_slice]
        ways += [self.last] * 3 + [self.expanded, self.strided] * overlaps
        dtype = dtype or self.r.choice(FLOATS)
        if not shape or self.r.random() < 0.2:
            return Operand(shape, dtype, self.r.randrange(1 << 30))
        first, steps = self.r.choice(ways)(shape)
        return Operand(first, dtype, self.r.randrange(1 << 30), steps)

    def permuted(self, shape: tuple) -> tuple[tuple, list[str]]:
        order = self.order(len(shape))
        first = tuple(shape[order.index(d)] for d in range(len(shape)))
        return first, [f".permute({order})"]

    def last(self, shape: tuple) -> tuple[tuple, list[str]]:
        if len(shape) in FORMATS:
            return shape, [f".contiguous(memory_format=torch.{FORMATS[len(shape)]})"]
        return self.permuted(shape)

    def sliced(self, shape: tuple) -> tuple[tuple, list[str]]:
        first, parts = [], []
        for n in shape:
            step, more, at = (self.r.choice(c) for c in ((1, 1, 2, 3), (0, 0, 1, 2), (0, 0, 1)))
            first.append(at + (n - 1) * step + 1 + more if n else at + more)
            parts.append(f"{at}:{at + (n - 1) * step + 1 if n else at}:{step}")
        return tuple(first), [f"[{', '.join(parts)}]"]

    def turned_slice(self, shape: tuple) -> tuple[tuple, list[str]]:
        order = self.order(len(shape))
        first = tuple(2 * shape[order.index(d)] for d in range(len(shape)))
        return first, [f"[{', '.join(['::2'] * len(shape))}]", f".permute({order})"]

    def of_larger(self, shape: tuple) -> tuple[tuple, list[str]]:
        at = self.r.randint(0, len(shape))
        return (*shape[:at], 3, *shape[at:]), [f".select({at}, 2)"]

    def expanded(self, shape: tuple) -> tuple[tuple, list[str]]:
        first = tuple(1 if self.r.random() < 0.5 else n for n in shape)
        return first, [f".expand({shape})"]

    def strided(self, shape: tuple) -> tuple[tuple, list[str]]:
        strides = tuple(self.r.choice([0, 1, 1, 2, 3, 4, 6, 8, 12]) for _ in shape)
        if 0 in shape:
            return self.permuted(shape)
        n = 4 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        return (n,), [f".as_strided({shape}, {strides}, 3)"]


# -- operands of families ---------------------------------------------------------------------------


def one(d: Draw) -> dict[str, Operand]:
    return {"x": d.operand(d.shape(1), "")}


def of_any_dtype(d: Draw) -> dict[str, Operand]:
    return {"x": d.operand(d.shape(), d.r.choice(DTYPES))}


def three(d: Draw) -> dict[str, Operand]:
    """x, y and z of one dtype, a mask c."""
    shape, dtype = d.shape(), d.r.choice(FLOATS)
    found = {n: d.operand(d.narrower(shape), dtype) for n in "xyz"}
    return found | {"c": d.operand(d.narrower(shape), "bool")}


def mixed(d: Draw) -> dict[str, Operand]:
    shape = d.shape()
    return {n: d.operand(d.narrower(shape), d.r.choice(DTYPES)) for n in "xy"}


def leaves(d: Draw) -> dict[str, Operand]:
    shape, dtype = d.shape(1), d.r.choice(["float32", "float64"])
    return {n: d.operand(d.narrower(shape), dtype, False) for n in "xy"}


def images(d: Draw) -> dict[str, Operand]:
    """Images [N, C, H, W] and one number for each channel."""
    n, c, *sizes = (d.r.choice([1, 2, 3]), d.r.choice([1, 2, 4]), *d.shape(2, 2))
    sizes = [max(k, 1) + 1 for k in sizes] if d.r.random() < 0.6 else [1, 1]
    return {"x": d.operand((n, c, *sizes), "float32"), "w": d.operand((c,), "float32")}


def matrices(d: Draw) -> dict[str, Operand]:
    """Matrices that can be multiplied, batches of these, a vector."""
    n, k, m = (d.r.choice([1, 2, 3, 4]) for _ in range(3))
    b, dtype = d.r.choice([1, 2, 3]), d.r.choice(["float32", "float64"])
    shapes = {"x": (n, k), "y": (k, m), "p": (b, n, k), "q": (b, k, m), "v": (k,), "u": (n, m)}
    return {name: d.operand(shape, dtype) for name, shape in shapes.items()}


def squares(d: Draw) -> dict[str, Operand]:
    n, lead = d.r.choice([1, 2, 3, 4]), d.shape(0, 2)
    return {"x": d.operand((*[max(k, 1) for k in lead], n, n), "float64", False)}


# -- expressions ------------------------------------------------------------------------------------

F = "torch.nn.functional."
UNARY = (
    "abs neg exp sqrt sin floor reciprocal square rsqrt sigmoid relu tanh erf round sign log1p isnan logical_not "
    "expm1 trunc frac asinh digamma sinc logit nan_to_num signbit"
).split()
ACTIVATIONS = (
    "gelu silu softplus elu leaky_relu hardtanh mish hardswish logsigmoid selu softsign celu"
).split()
BINARY = (
    "add sub mul div maximum minimum fmod remainder atan2 pow hypot logaddexp eq lt ge logical_and fmax copysign "
    "floor_divide heaviside xlogy rsub float_power isclose special.zeta"
).split()
REDUCED = "sum mean amax amin any std var prod logsumexp nansum median max argmin".split()

# family -> (what makes its operands, expressions)
FAMILIES: dict[str, tuple[Any, list[str]]] = {
    "unary": (
        one,
        [f"torch.{f}(x)" for f in UNARY] + [f"{F}{f}(x)" for f in ACTIVATIONS] + ["x.softmax(-1)"],
    ),
    "any dtype": (
        of_any_dtype,
        "-x if x.dtype != torch.bool else x ; x + 2 ; x * 2.5 ; 1 - x.double() ; x / 2 ; x > 0 if not x.is_complex() else x ; "
        "x == 1 ; x.clone() ; x.double() ; x.long() ; x.to(torch.complex64) ; x * torch.tensor(2.0) ; torch.where(x != 0, x, 0) ; "
        "x.masked_fill(x != 1, 0) ; x ** 2 ; 2 ** x.double() ; torch.lerp(x.double(), x.double(), 0.3) ; x.contiguous() ; "
        "torch.zeros_like(x) ; torch.full_like(x, 2) ; torch.ones_like(x, dtype=torch.float64) ; x.bool() ; x.double().abs()".split(" ; "),
    ),
    "binary": (three, [f"torch.{f}(x, y)" for f in BINARY]),
    "ternary": (
        three,
        "torch.where(c, x, y) ; torch.addcmul(x, y, z, value=0.5) ; torch.addcdiv(x, y, z) ; torch.lerp(x, y, z) ; "
        "torch.clamp(x, y, z) ; x.masked_fill(c, 1.0) ; torch.where(c, x, 1.0) ; (x - y) * z ; torch.rsub(x, y, alpha=2) ; "
        "torch.add(x, y, alpha=0.5) ; torch.lerp(x, y, 0.2) ; torch.clamp(x, min=y)".split(" ; "),
    ),
    "mixed": (
        mixed,
        "x + y ; x * y ; x == y ; torch.where(c := x == y, x, y) ; torch.add(x, y, alpha=2)".split(" ; "),
    ),
    "reductions": (
        one,
        [f"torch.{f}(x.float(), {d}{k})" for f in REDUCED for d in (0, -1) for k in ("", ", keepdim=True")]
        + ["x.sum((0, -1), keepdim=True) if x.ndim > 1 else x", "torch.linalg.vector_norm(x, 2, 0, keepdim=True)"],
    ),
    "along": (
        one,
        "x.cumsum(0) ; x.sort(-1, stable=True) ; x.flip(0) ; x.flip((0, -1)) if x.ndim > 1 else x ; x.roll(1, 0) ; x.topk(1, 0) ; "
        "x.log_softmax(0) ; torch.rot90(x) if x.ndim > 1 else x ; torch.nn.functional.pad(x, (1, 1)) ; torch.tril(x) if x.ndim > 1 else x ; "
        "x.float().quantile(0.5, 0) ; x.float().nanquantile(torch.tensor([0.2, 0.8]), -1) ; torch.mvlgamma(x.float().abs() + 3, 2) ; "
        "torch.diff(x, dim=0) ; x.repeat(*[2] * x.ndim) ; torch.cat([x, x]) ; torch.stack([x, x], 1) ; x[[0] * 2] if len(x) else x ; "
        "x[..., None] ; x.reshape(-1) ; torch.select_scatter(x, x.select(0, 0) * 2, 0, 0) if len(x) else x ; "
        "x[None, torch.tensor([0, 0])] if len(x) else x ; torch.fft.fftshift(x)".split(" ; "),
    ),
    "images": (
        images,
        [
            f"{F}batch_norm(x, None, None, w, w, True)", f"{F}batch_norm(x, w, w.abs() + 1)",
            f"{F}group_norm(x, 1, w, w)", f"{F}prelu(x, w)", f"{F}max_pool2d(x, 1)", f"{F}avg_pool2d(x, 1)",
            f"{F}adaptive_avg_pool2d(x, 1)", f"{F}interpolate(x, scale_factor=2)", f"{F}pad(x, (1, 1, 1, 1))",
            "x.mean((2, 3), keepdim=True)", "x * x.mean((2, 3), keepdim=True)", "(x + 1).flatten(1)",
            "torch.cat([x, x], 1)", "x.contiguous(memory_format=torch.channels_last) * 2", f"{F}pixel_unshuffle(x, 1)",
            "x.to(memory_format=torch.channels_last)", "torch.zeros_like(x.sum(1, keepdim=True) + x)",
            "torch.stack([x, x], 1)", "torch.stack([x, x], -1)", "x.roll(1, 1)", "x.roll((1, 1), (2, 0))", "x.roll(0, 3)",
            f"{F}pad(x, (1, 0, 0, 0), mode='reflect')", f"{F}pad(x, (0, 1, 1, 0), mode='replicate')", "torch.kron(x, x)",
            f"{F}mse_loss(x, x.contiguous(), reduction='none')", f"{F}rrelu(x)",
            f"{F}binary_cross_entropy_with_logits(x, x.sigmoid().contiguous(), reduction='none')",
        ],
    ),
    "products": (
        matrices,
        "x @ y ; p @ q ; p @ y ; x @ v ; p @ v ; torch.addmm(u, x, y) ; torch.nn.functional.linear(p, x) ; torch.outer(v, v) ; "
        "torch.tensordot(p, q, ([2], [1])) ; torch.einsum('ij,jk->ki', x, y) ; torch.einsum('bij,bjk->bki', p, q) ; "
        "torch.einsum('bij,j->ibj', p, v) ; torch.einsum('bij,bjk->ki', p, q) ; torch.einsum('ij,bij->jb', x, p)".split(" ; "),
    ),
    "matrices": (
        squares,
        "torch.linalg.inv(x) ; torch.linalg.solve(x, x) ; torch.linalg.lu_factor(x) ; torch.linalg.qr(x) ; x.mT.clone() ; "
        "torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(x.shape[-1], dtype=x.dtype)) ; torch.linalg.solve(x, x[..., 0]) ; "
        "torch.linalg.eigvalsh(x) ; torch.linalg.matrix_power(x, 1) ; torch.svd(x, compute_uv=False)[2]".split(" ; "),
    ),
}  # fmt: skip

# Of leaves: their gradients, and gradients that are kept.
LOSSES = (
    "x + y ; x * y ; x / y ; x.exp() ; (x * y).relu() ; x.sum() ; x.mean() ; x.transpose(0, -1) * 2 ; x.softmax(-1) ; "
    "torch.maximum(x, y) ; x.reshape(-1) * 2 ; torch.cat([x, x]) ; torch.where(x > 0, x, y) ; x ** 2 ; x.clone() ; "
    "x.cumsum(0) ; x.expand(2, *x.shape) ; x[..., ::2] ; x.double()"
).split(" ; ")


def drawn(family: str, seed: int) -> tuple[str, dict[str, Operand]]:
    """An expression of a family, and operands for it."""
    d = Draw((family, seed))
    make, expressions = FAMILIES[family]
    return d.r.choice(expressions), make(d)


def evaluated(torch: Any, expression: str, operands: dict[str, Any]) -> list[Any]:
    """The tensors that an expression gives."""
    found = eval(expression, {"torch": torch, **operands})
    return [*found] if isinstance(found, (tuple, list)) else [found]
