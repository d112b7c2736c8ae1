"""Products of matrices: the table of candidates, of which the first that applies computes.

`products.py` holds the kernels of the back end, which come here; `_codegen/kernels/gemm.py` and `gemv.py` are what
runs.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight._backends import llvm
from rushlight._backends.llvm.candidates import Candidate, first_fit, remembered
from rushlight._backends.llvm.views import contiguous, copy_into
from rushlight._codegen import product_sizes, types
from rushlight._codegen.kernels import gemm, gemv
from rushlight.core.dtype_sets import BF16, F16, F32, F64, I8, I16, I32, I64, REDUCED, U8

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight._codegen.types import Type

    Ints = tuple[int, ...]

ELEMENTS = {
    F32: types.f32, F64: types.f64, F16: types.f16, BF16: types.bf16,
    I64: types.i64, I32: types.i32, I16: types.i16, I8: types.i8, U8: types.i8,
}  # dtype -> what a kernel takes it for; whole numbers wrap around whether signed or not  # fmt: skip
DEEP, FEW, SOME = gemm.DEPTH, gemv.FEW, gemv.SOME
SET, ADD, BIAS = gemm.SET, gemm.ADD, gemm.BIAS  # what a product is added to


# Half types are read as they are below this; above it converting them first, or for bfloat16 making
# pairs, takes less time than it saves.
DIRECT = llvm.threshold(32**3)
LITTLE = 4096  # elements of a matrix up to which it is multiplied by few vectors as by many
THIN_SUMS = llvm.threshold(16)  # of sums along rows of a matrix with several vectors: products

# What `GemmTransposed` takes: rows at most, products a sum at least, elements of the matrix at least. Shorter sums
# gain less than the transposed copy of the result costs (3.6 times as slow for sums of two products).
TRANSPOSED_ROWS, TRANSPOSED_SUMS, TRANSPOSED_SIZE = 64, 128, 128 * 256

# Of small results of long sums (gradients of weights) threads share the sums, by so many products.
SPAN, SPANNED = 4096, 128 * 128


def gemm_of(*types: Type | None, act: str = "") -> Any:
    return gemm.product.compiled(**product_sizes.for_gemm(*types, act=act))


# What kernels are compiled for: dtypes, and what else their keys say.
MAKE: dict[str, Callable[..., Any]] = {
    "act": lambda d, act: gemm_of(ELEMENTS[d], act=act),
    # Products of pairs of bfloat16 whose result is of this dtype.
    "pairs": lambda d: gemm_of(types.i32, ELEMENTS[d]),
    "paired": gemm.pair_rows.compiled,
    "convert": lambda d, to: gemm.convert.compiled(A=ELEMENTS[d], B=ELEMENTS[to]),
    "joined": lambda d: gemm.joined.compiled(
        **{k: product_sizes.gemm_sizes(ELEMENTS[d])[k] for k in "TL"}
    ),
    "rows": lambda d, n, to: gemv.rows.compiled(
        **product_sizes.for_gemv("rows", ELEMENTS[d], n, ELEMENTS[to])
    ),
    "columns": lambda d, n, to: gemv.columns.compiled(
        **product_sizes.for_gemv("columns", ELEMENTS[d], n, ELEMENTS[to])
    ),
    "outer": lambda d: gemv.outer.compiled(E=ELEMENTS[d]),
    "dot": lambda d: gemv.dot.compiled(**product_sizes.for_gemv("dot", ELEMENTS[d], 1)),
}


class Compiled(dict):
    """Compiled kernels, made when they are first wanted: `gemm.product` by its dtype, those of MAKE by their name and
    what it takes."""

    def __missing__(self, key: Any) -> Any:
        kernel = MAKE[key[0]](*key[1:]) if isinstance(key, tuple) else gemm_of(ELEMENTS[key])
        self[key] = kernel
        return kernel


COMPILED = Compiled()


def converted(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype with the numbers in the same order in memory, or C's."""
    if a.ndim == 2 and not a.flags.c_contiguous and a.T.flags.c_contiguous:
        return converted(a.T, dtype).T
    if not a.flags.c_contiguous:
        a = contiguous(a)
    out = np.empty(a.shape, dtype)
    COMPILED["convert", a.dtype, dtype](a, out, a.size)
    return out


class Product(NamedTuple):
    """A product in numbers: a [..., m, k] @ b [..., k, n], shapes and strides in bytes; what it is added to."""

    a: Ints
    a_strides: Ints
    b: Ints
    b_strides: Ints
    dtype: np.dtype
    shape: Ints  # of the result
    begin: int  # gemm.SET, ADD (to C), BIAS (a row) or SCALE (by alpha)
    added: np.dtype | None  # dtype of C or of the row
    act: str  # "relu", "gelu" or ""
    alone: (
        bool  # there is no alpha, and no activation: the result is the product, or that and a row
    )


def product(
    a: np.ndarray,
    b: np.ndarray,
    shape: Ints,
    row: np.ndarray | None = None,
    begin: int = SET,
    alpha: float = 1.0,
    c: np.ndarray | None = None,
    act: str = "",
    alone: bool = False,
) -> np.ndarray:
    """a @ b, both of one dtype of ELEMENTS, whose result is known to have this shape, with no dimension
    of size 0. With a row or with `begin`, ADD to `c` (which is given, and changed) or SCALE: alpha
    times the product. Half types are rounded once: without `begin` to themselves, else the result
    is float32, as is what is given."""
    if row is not None:
        begin, c = BIAS, row
    added = None if c is None else c.dtype
    run = choose(a.shape, a.strides, b.shape, b.strides, a.dtype, shape, begin, added, act, alone)
    return run(a, b, c, alpha)


def plain(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray | None:
    """a [..., m, k] @ b [..., k, n] with broadcast batches, plus a row of the type of the sums; of half types
    perhaps in float32. None where that is for the reference."""
    added = row is not None
    run = choose_plain(a.shape, a.strides, b.shape, b.strides, a.dtype, b.dtype, added)
    return None if run is None else run(a, b, row, 1.0)


@remembered
def choose_plain(
    a: Ints, a_strides: Ints, b: Ints, b_strides: Ints, dtype: np.dtype, other: np.dtype, row: bool
) -> Any:
    """What computes the product of arrays of two or more dimensions, or None."""
    if a[-1] != b[-2] or dtype != other or dtype not in ELEMENTS or not prod(a) * prod(b):
        return None
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        return None
    begin, added = SET, None
    if row:
        begin, added = BIAS, F32 if dtype in REDUCED else dtype
    shape = (*batch, a[-2], b[-1])
    return choose(a, a_strides, b, b_strides, dtype, shape, begin, added, "", True)


@remembered
def choose(*fields: Any) -> Callable[[np.ndarray, np.ndarray, Any, float], np.ndarray]:
    """What computes a `Product` of these fields from a, b, C or a row, and alpha."""
    p = Product(*fields)
    return first_fit(TABLE, p, text).prepare(p)


def text(p: Product) -> str:
    """A product in a line, for `explain`."""
    return f"product of {p.a} with {p.b}, {p.dtype}"


# -- what products have ----------------------------------------------------------------------------


def is_readable(p: Product) -> bool:
    """Whether rows or columns of b are contiguous, which `gemm.product` wants."""
    return p.dtype.itemsize in p.b_strides[-2:]


def readable(b: np.ndarray) -> np.ndarray:
    """`b`, or a copy whose rows are contiguous."""
    return b if b.itemsize in b.strides[-2:] else contiguous(b)


def rounded_once(p: Product) -> bool:
    """Whether the result of half types is of these: what it is added to is, or is in float32 like the sums."""
    return not p.act and (p.begin in (SET, BIAS) or (p.begin == ADD and p.added is p.dtype))


def is_square(p: Product) -> bool:
    """Whether a product of two matrices is for `gemm` although it may have few rows or columns."""
    (m, n), k = p.shape, p.a[-1]
    if not is_readable(p):
        return False
    if p.dtype in REDUCED:
        return m * k * n <= DIRECT and k <= DEEP
    return (m > SOME and n > FEW or max(m, n) * k <= LITTLE) and k < 2 * SPAN


# -- the candidates --------------------------------------------------------------------------------


class ProductCandidate(Candidate):
    """A way to compute a product: `run`, or what `prepare` makes of it, which looks nothing up again."""

    @classmethod
    def prepare(cls, p: Product) -> Any:
        return lambda a, b, c, alpha: cls.run(a, b, c, alpha, p)


class Outer(ProductCandidate):
    """Matrices of one column with matrices of one row: no sums."""

    name = "outer"

    @staticmethod
    def applies(p: Product) -> bool:
        rows = p.b_strides[-1] == p.dtype.itemsize or p.b[-1] == 1
        return p.a[-1] == 1 and p.begin == SET and p.alone and rows and len(p.shape) <= 3

    @classmethod
    def prepare(cls, p: Product) -> Any:
        kernel, shape, dtype = COMPILED["outer", p.dtype], p.shape, p.dtype
        batch, n, m = (1, *shape)[-3:]
        a0, b0 = (
            strides[0] // dtype.itemsize if len(each) == 3 and each[0] > 1 else 0
            for each, strides in ((p.a, p.a_strides), (p.b, p.b_strides))
        )
        step = p.a_strides[-2] // dtype.itemsize

        def products(a: np.ndarray, b: np.ndarray, row: Any, alpha: float) -> np.ndarray:
            c = np.empty(shape, dtype)
            kernel(a, a0, step, b, b0, c, batch, n, m)
            return c

        return products


class Gemv(ProductCandidate):
    """One factor is a few vectors: as fast as the other, a matrix, can be read once."""

    name = "gemv"

    @staticmethod
    def applies(p: Product) -> bool:
        m, n = p.shape[-2:]
        if not p.alone:
            return False
        if len(p.shape) > 2:
            return p.begin == SET and (m <= FEW or n <= FEW) and gemv_kernel(p) is not None
        s, t = p.b_strides
        few = m <= FEW or n <= FEW or (m <= SOME and (s < t or p.dtype in REDUCED))
        if not few or is_square(p) or (p.begin == BIAS and p.added.kind != "f"):
            return False
        return gemv_kernel(p) is not None

    @classmethod
    def prepare(cls, p: Product) -> Any:
        kernel, dtype = gemv_kernel(p)
        (m, n), shape = p.shape[-2:], p.shape
        along = across = 0
        if p.begin == BIAS:
            along, across = (1, 0) if m <= n else (0, 1)

        def rows(a: np.ndarray, b: np.ndarray, row: Any, alpha: float) -> np.ndarray:
            c = np.empty(shape, dtype)
            kernel(b.swapaxes(-1, -2), a, c, c if row is None else row, along, across)
            return c

        def columns(a: np.ndarray, b: np.ndarray, row: Any, alpha: float) -> np.ndarray:
            c = np.empty(shape, dtype)
            vectors, out = b.swapaxes(-1, -2), c.swapaxes(-1, -2)
            kernel(a, vectors, out, c if row is None else row, along, across)
            return c

        return rows if m <= n else columns


def gemv_kernel(p: Product) -> tuple[Any, np.dtype] | None:
    """The kernel for a matrix whose rows, or columns, are contiguous, and the dtype of the result: float32
    for long sums of half types. None where neither is contiguous."""
    m, n = p.shape[-2:]
    half, k, size = p.dtype in REDUCED, p.a[-1], p.dtype.itemsize
    across, along = p.b_strides[-2:] if m <= n else p.a_strides[-2:][::-1]
    count = min(m, n)
    if count > 1:
        count = FEW if count <= FEW else SOME
    dtype = p.dtype if p.added is None else p.added
    if half and k > gemv.DEPTH:
        dtype = F32
    if across == size and (count == 1 or k >= THIN_SUMS):
        return COMPILED["rows", p.dtype, count, dtype], dtype
    if along == size and (count <= FEW or half):
        return COMPILED["columns", p.dtype, count, dtype], dtype
    return None


class GemmSplitK(ProductCandidate):
    """A small result of long sums, such as a gradient of weights: threads share the sums."""

    name = "gemm_split_k"

    @staticmethod
    def applies(p: Product) -> bool:
        if p.dtype in REDUCED or p.begin != SET or p.act or len(p.shape) != 2:
            return False
        return p.a[-1] >= 2 * SPAN and p.shape[0] * p.shape[1] <= SPANNED

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, c: Any, alpha: float, p: Product) -> np.ndarray:
        c = np.empty(p.shape, p.dtype)
        k = p.a[-1]
        span = max(SPAN, -(-k // (64 * SPAN)) * SPAN)  # 64 parts at most
        parts = np.empty((-(-k // span), *p.shape), p.dtype)
        COMPILED[p.dtype](a, readable(b), c, c, parts, 8 * span, 1.0)
        COMPILED["joined", p.dtype](parts, c, c.size, len(parts))
        return c


class GemmOfHalves(ProductCandidate):
    """Small matrices of half types, which are converted as they are read, and rounded once."""

    name = "gemm_of_halves"

    @staticmethod
    def applies(p: Product) -> bool:
        small = p.a[-1] <= DEEP and prod(p.a) * p.shape[-1] <= DIRECT
        return p.dtype in REDUCED and rounded_once(p) and small

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, c: Any, alpha: float, p: Product) -> np.ndarray:
        return added_to(COMPILED[p.dtype], a, readable(b), c, alpha, p)


class GemmOfPairs(ProductCandidate):
    """bfloat16 where the processor multiplies pairs of numbers and adds them up in float32."""

    name = "gemm_of_bfloat16_pairs"

    @staticmethod
    def applies(p: Product) -> bool:
        if p.dtype is not BF16 or p.act:
            return False
        return product_sizes.pairs() or product_sizes.tiles()

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, c: Any, alpha: float, p: Product) -> np.ndarray:
        once = rounded_once(p) and p.a[-1] <= 2 * DEEP
        if p.begin == ADD and c.dtype is BF16 and not once:
            c = converted(c, F32)
        kernel = COMPILED["pairs", BF16 if once else F32]
        a, b = paired(a), paired(b.swapaxes(-1, -2)).swapaxes(-1, -2)
        return added_to(kernel, a, b, c, alpha, p, BF16 if once else F32)


class GemmInFloat32(ProductCandidate):
    """Half types are converted first; the result is float32."""

    name = "gemm_in_float32"

    @staticmethod
    def applies(p: Product) -> bool:
        return p.dtype in REDUCED

    @staticmethod
    def run(a: np.ndarray, b: np.ndarray, c: Any, alpha: float, p: Product) -> np.ndarray:
        if c is not None and c.dtype is p.dtype:
            c = converted(c, F32)
        row = c if p.begin == BIAS else None
        a, b = converted(a, F32), converted(b, F32)
        return product(a, b, p.shape, row, p.begin, alpha, c, p.act)


class GemmTransposed(ProductCandidate):
    """Few rows a [..., m, k] with a large matrix b [..., k, n] whose columns are contiguous, such as a layer's weights.

    It computes the transpose of b times the transpose of a, which reads b in place, and copies the result [..., n, m]
    transposed. `Gemm` packs b first, which takes as long as 30 rows of the product. The bits are the same.
    """

    name = "gemm_transposed"

    @staticmethod
    def applies(p: Product) -> bool:
        (m, n), k, size = p.shape[-2:], p.a[-1], p.dtype.itemsize
        few = SOME < m <= min(TRANSPOSED_ROWS, n // 2)
        if p.begin not in (SET, BIAS) or not few or k < TRANSPOSED_SUMS or k * n < TRANSPOSED_SIZE:
            return False
        return p.b_strides[-2] == size != p.b_strides[-1] and size in p.a_strides[-2:]

    @classmethod
    def prepare(cls, p: Product) -> Any:
        from rushlight._backends.llvm.views import contiguous  # few programs have such products

        kernel = COMPILED["act", p.dtype, p.act] if p.act else COMPILED[p.dtype]
        *batch, m, n = p.shape
        shape, dtype, begin = (*batch, n, m), p.dtype, ADD if p.begin == BIAS else SET

        def transposed(a: np.ndarray, b: np.ndarray, row: Any, alpha: float) -> np.ndarray:
            c = np.empty(shape, dtype)
            if begin == ADD:
                c[...] = row.reshape(n, 1)
            kernel(b.swapaxes(-1, -2), a.swapaxes(-1, -2), c, c, c, begin, alpha)
            return contiguous(c.swapaxes(-1, -2))

        return transposed


class Gemm(ProductCandidate):
    """Tiles of the result stay in registers; see `_codegen/kernels/gemm.py`. For all that is left."""

    name = "gemm"

    @staticmethod
    def applies(p: Product) -> bool:
        return True

    @classmethod
    def prepare(cls, p: Product) -> Any:
        kernel = COMPILED["act", p.dtype, p.act] if p.act else COMPILED[p.dtype]
        shape, dtype = p.shape, p.dtype

        def set_to(a: np.ndarray, b: np.ndarray, c: Any, alpha: float) -> np.ndarray:
            out = np.empty(shape, dtype)
            kernel(a, b, out, out, out, SET, alpha)
            return out

        if p.begin == SET and is_readable(p):
            return set_to
        return lambda a, b, c, alpha: added_to(kernel, a, readable(b), c, alpha, p)


def added_to(
    kernel: Any, a: np.ndarray, b: np.ndarray, c: Any, alpha: float, p: Product, dtype: Any = None
) -> np.ndarray:
    """The product by a kernel of `gemm.product`: in C where it is added to that, else in a new array."""
    out = c if p.begin == ADD else np.empty(p.shape, p.dtype if dtype is None else dtype)
    kernel(a, b, out, c if p.begin == BIAS else out, out, p.begin, alpha)
    return out


def paired(a: np.ndarray) -> np.ndarray:
    """Matrices of bfloat16 as ones of pairs of neighbours in their rows; the last of an odd number is paired with 0."""
    *lead, n, k = a.shape
    strides = a.strides
    if strides[-1] == 2:
        if k % 2:
            wide = np.empty((*lead, n, k + 1), a.dtype)
            copy_into(wide[..., :k], a)
            wide[..., k] = 0
            return wide.view(np.int32)
        return (a if not any(s % 4 for s in strides[:-1]) else contiguous(a)).view(np.int32)
    columns = contiguous(a.swapaxes(-1, -2))
    out = np.empty((*lead, (k + 1) // 2, n), np.int32)
    COMPILED[("paired",)](columns, out, prod(lead), k, n)
    return out.swapaxes(-1, -2)


TABLE: tuple[type[ProductCandidate], ...] = (
    Outer, Gemv, GemmSplitK, GemmOfHalves, GemmOfPairs, GemmInFloat32, GemmTransposed, Gemm,
)  # fmt: skip
