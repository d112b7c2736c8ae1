"""Data types and type promotion.

A `dtype` is a constant such as `float32`; there is one object for each, so they are compared with
`is`. The objects hold their NumPy counterpart in `.np`; `OF` maps back. The result type of mixed
operands is decided only in this module.

PyTorch's names that would hide Python's (`bool`, `int`, `float`) and its other aliases are in
`ALIASES`; inside Rushlight the dtype of truth values is `bool_`.

>>> promote_types(int32, float16)
torch.float16
>>> result_dtype(float16, float64, None)        # a tensor with dimensions decides over a 0-d one
torch.float16
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Not imported lazily: OF needs bfloat16 from the start. It takes 4 ms.
import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from builtins import bool as Bool
    from typing import NoReturn


class _Constant:
    """A named constant: one object for each name. Users cannot make one; a copy is the same object."""

    __slots__ = ("name",)

    name: str

    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    def __setattr__(self, attribute: str, value: object) -> None:
        if attribute in dir(self):
            raise AttributeError(
                f"attribute {attribute!r} of 'torch.{type(self).__name__}' objects is not writable"
            )
        raise AttributeError(f"'torch.{type(self).__name__}' object has no attribute {attribute!r}")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


def _make(cls: type, **values: object) -> Any:
    """Make an instance of a `_Constant` class without its `__new__` and `__setattr__`."""
    self: Any = object.__new__(cls)
    for attribute, value in values.items():
        object.__setattr__(self, attribute, value)
    return self


class dtype(_Constant):
    """The type of a tensor's elements.

    >>> float32.itemsize, float32.is_floating_point, float32.to_complex()
    (4, True, torch.complex64)
    """

    __slots__ = (
        "abbr",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "kind",
        "np",
        "scalar_name",
    )

    np: np.dtype[Any]  # the NumPy dtype, native byte order
    itemsize: int  # bytes
    is_floating_point: Bool  # False for complex types
    is_complex: Bool
    is_signed: Bool
    kind: int  # 0 truth values < 1 integers < 2 floating < 3 complex: the order of promotion
    abbr: str  # PyTorch's short name: f32
    scalar_name: str  # PyTorch's C++ name, used in error texts and names of tensor types: Float

    def to_real(self) -> dtype:
        """The type of the real part: float32 for complex64, itself if it is not complex."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type with parts of this type; RuntimeError for integers and bool."""
        if self.is_complex:
            return self
        if self in _COMPLEX:
            return _COMPLEX[self]
        raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")


def _dtype(name: str, abbr: str, scalar_name: str, storage: Any = None) -> dtype:
    """A dtype of PyTorch's: `storage` is the type of NumPy's or of ml_dtypes that holds it, by default that of the
    same name."""
    as_np = np.dtype(storage or name)
    # ml_dtypes' types have NumPy's kind 'V' (or 'f' in later versions), its complex one 'W'.
    kind = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3, "W": 3}[as_np.kind]
    return _make(
        dtype,
        name=name,
        np=as_np,
        itemsize=as_np.itemsize,
        is_floating_point=kind == 2,
        is_complex=kind == 3,
        is_signed=name != "bool" and name[0] != "u",
        kind=kind,
        abbr=abbr,
        scalar_name=scalar_name,
    )


class _OnlyCompared(dtype):
    """A dtype that no tensor has: it exists for comparisons, `x.dtype in (torch.qint8, ...)`."""

    __slots__ = ()

    @property
    def np(self) -> NoReturn:  # type: ignore[override]
        raise NotImplementedError(
            f"{self!r} is here to be compared with only: Rushlight has no tensors of it"
        )


def _only_compared(name: str) -> dtype:
    scalar_name = name.replace("uint", "UInt").replace("int", "Int")
    of_floats = name[0] == "f"
    return _make(
        _OnlyCompared, name=name, itemsize={"qint32": 4, "bits16": 2}.get(name, 1), is_floating_point=of_floats,
        is_complex=False, is_signed=name[0] in "qif", kind=1 + of_floats, abbr=name,
        scalar_name=scalar_name[0].upper() + scalar_name[1:],
    )  # fmt: skip


bool_ = _dtype("bool", "b8", "Bool")
uint8 = _dtype("uint8", "u8", "Byte")
uint16 = _dtype("uint16", "u16", "UInt16")
uint32 = _dtype("uint32", "u32", "UInt32")
uint64 = _dtype("uint64", "u64", "UInt64")
int8 = _dtype("int8", "i8", "Char")
int16 = _dtype("int16", "i16", "Short")
int32 = _dtype("int32", "i32", "Int")
int64 = _dtype("int64", "i64", "Long")
float16 = _dtype("float16", "f16", "Half")
bfloat16 = _dtype("bfloat16", "bf16", "BFloat16", ml_dtypes.bfloat16)
float32 = _dtype("float32", "f32", "Float")
float64 = _dtype("float64", "f64", "Double")
complex32 = _dtype("complex32", "c32", "ComplexHalf", ml_dtypes.complex32)
complex64 = _dtype("complex64", "c64", "ComplexFloat")
complex128 = _dtype("complex128", "c128", "ComplexDouble")

ALL: tuple[dtype, ...] = (
    *(bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64),
    *(float16, bfloat16, float32, float64, complex32, complex64, complex128),
)
# Those for which there are legacy names: `torch.FloatTensor`, `torch.FloatStorage`.
NAMED = tuple(each for each in ALL if each is not complex32)
# Storage formats: they can be converted, read, written and copied; they do not promote.
EIGHT_BITS: tuple[dtype, ...] = (
    _dtype("float8_e4m3fn", "f8e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn),
    _dtype("float8_e4m3fnuz", "f8e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    _dtype("float8_e5m2", "f8e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2),
    _dtype("float8_e5m2fnuz", "f8e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    _dtype("float8_e8m0fnu", "f8e8m0fnu", "Float8_e8m0fnu", ml_dtypes.float8_e8m0fnu),
)
float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = EIGHT_BITS
ONLY_COMPARED: tuple[dtype, ...] = tuple(map(_only_compared, (
    "qint8 quint8 qint32 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float4_e2m1fn_x2 "
    "int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7"
).split()))  # fmt: skip
qint8, quint8, qint32, quint4x2, quint2x4 = ONLY_COMPARED[:5]
bits1x8, bits2x4, bits4x2, bits8, bits16, float4_e2m1fn_x2 = ONLY_COMPARED[5:11]
int1, int2, int3, int4, int5, int6, int7 = ONLY_COMPARED[11:18]
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = ONLY_COMPARED[18:]
OF: dict[np.dtype[Any], dtype] = {each.np: each for each in (*ALL, *EIGHT_BITS)}
ALIASES: dict[str, dtype] = {
    "bool": bool_,
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}
# Python's own types, where PyTorch takes them for a dtype: `torch.zeros(2, dtype=float)`.
OF_PYTHON: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}
_UNSIGNED_ONLY_STORED = (uint16, uint32, uint64)
# PyTorch has no storage class for these: in files their storages are untyped.
WITHOUT_STORAGE = (*_UNSIGNED_ONLY_STORED, *EIGHT_BITS, complex32)


def __getattr__(name: str) -> dtype:
    """`dtypes.bool`, `dtypes.float`...: the aliases."""
    try:
        return ALIASES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


# -- promotion -------------------------------------------------------------------------------------


def _promoted(a: dtype, b: dtype) -> dtype | None:
    """The common type by PyTorch's documentation, "Type Promotion"; None if there is none."""
    if a is b:
        return a
    low, high = sorted((a, b), key=lambda each: (each.kind, each.itemsize))
    if low in _UNSIGNED_ONLY_STORED or high in _UNSIGNED_ONLY_STORED:
        return high if high.is_floating_point else None
    if low.kind != high.kind:
        # The complex type of the wider part; bfloat16 beside halves has none but float32's.
        return promote_complex(high, low) if high.kind == 3 and low.kind == 2 else high
    if {low, high} == {float16, bfloat16}:
        return float32  # neither holds all numbers of the other
    if {low, high} == {uint8, int8}:
        return int16
    return high


def promote_complex(c: dtype, real: dtype) -> dtype:
    """The complex type that holds both a complex and a floating type."""
    return max(c, real.to_complex(), key=lambda each: each.itemsize)


_PROMOTED = {(a, b): both for a in ALL for b in ALL if (both := _promoted(a, b)) is not None}
_PROMOTED.update({(each, each): each for each in EIGHT_BITS})


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that holds both, by category first (bool < integer < floating < complex).

    RuntimeError if one is uint16, uint32 or uint64, the other differs and is not floating: these
    types are for storage.

    >>> promote_types(uint8, int8), promote_types(complex64, float64)
    (torch.int16, torch.complex128)
    """
    try:
        return _PROMOTED[type1, type2]
    except (KeyError, TypeError):
        check_dtype("promote_types", "type1", 1, type1)
        check_dtype("promote_types", "type2", 2, type2)
        if type1 is type2:
            return type1
        eight = type1 in EIGHT_BITS or type2 in EIGHT_BITS
        types, instead = (
            ("Float8 Types", "float32") if eight else ("uint16, uint32, uint64 types", "int64")
        )
        raise RuntimeError(
            f"Promotion for {types} is not supported, attempted to promote {type1.scalar_name} and "
            f"{type2.scalar_name}; convert one of them first, for example .to(torch.{instead})"
        ) from None


def can_cast(from_: dtype, to: dtype) -> Bool:
    """Whether a result of type `from_` may be written to `to`: never to a lower category.

    >>> can_cast(float64, float16), can_cast(float16, int64)
    (True, False)
    """
    check_dtype("can_cast", "from_", 1, from_)
    check_dtype("can_cast", "to", 2, to)
    return to.kind >= from_.kind


def result_dtype(dim: dtype | None, zero: dtype | None, wrapped: dtype | None) -> dtype:
    """The type of one operation, from the common types of three groups of its operands.

    `dim`: of the tensors that have dimensions; `zero`: of the 0-d tensors; `wrapped`: of the Python
    numbers (`modes.scalar_dtype` of each). None where a group is empty; at least one is not. Within
    a group the caller has promoted by `promote_types`. An earlier group decides unless a later one
    is of a higher category; it then gives its category, and its width only where the earlier group
    has none to give (integers or bool).

    >>> result_dtype(int8, None, int64), result_dtype(int8, None, float32)
    (torch.int8, torch.float32)
    >>> result_dtype(float64, None, complex64)  # the number's category, the tensor's width
    torch.complex128
    """
    if dim is not None and dim.kind >= 2:
        # Of the others only the category counts: 0-d float16 and 1j alone have no common type.
        return dim.to_complex() if _is_complex(zero) or _is_complex(wrapped) else dim
    result = None
    for group in (wrapped, zero, dim):
        if group is not None:
            result = group if result is None else _decide(group, result)
    if result is None:
        raise RuntimeError("result_dtype: there are no operands to take a type from")
    return result


def _is_complex(group: dtype | None) -> Bool:
    return group is not None and group.is_complex


def _decide(first: dtype, second: dtype) -> dtype:
    if second.kind <= first.kind:
        return first
    if first.kind == 2:  # floating, and the second is complex
        return first.to_complex()
    # Not always promote_types: uint16 with a complex number is complex64, though their promotion is
    # an error.
    return second if first.kind == 1 else promote_types(first, second)


def check_dtype(function: str, argument: str, position: int, value: object) -> None:
    """TypeError, in PyTorch's words, if `value` is not a dtype."""
    if not isinstance(value, dtype):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be torch.dtype, "
            f"not {type(value).__name__}"
        )


# -- memory formats and layouts --------------------------------------------------------------------


class memory_format(_Constant):
    """The order of the elements in memory: `channels_last` is N, H, W, C."""

    __slots__ = ()


class layout(_Constant):
    """How elements are stored: `strided`, `sparse_coo`...; some exist only for comparisons."""

    __slots__ = ()


contiguous_format: memory_format = _make(memory_format, name="contiguous_format")
preserve_format: memory_format = _make(memory_format, name="preserve_format")
channels_last: memory_format = _make(memory_format, name="channels_last")
channels_last_3d: memory_format = _make(memory_format, name="channels_last_3d")
MEMORY_FORMATS = (contiguous_format, preserve_format, channels_last, channels_last_3d)

strided: layout = _make(layout, name="strided")
sparse_coo: layout = _make(layout, name="sparse_coo")
sparse_csr: layout = _make(layout, name="sparse_csr")
sparse_csc: layout = _make(layout, name="sparse_csc")
sparse_bsr: layout = _make(layout, name="sparse_bsr")
sparse_bsc: layout = _make(layout, name="sparse_bsc")
jagged: layout = _make(layout, name="jagged")
_mkldnn: layout = _make(layout, name="_mkldnn")
LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged, _mkldnn)
