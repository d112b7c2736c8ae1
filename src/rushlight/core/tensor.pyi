"""`Tensor`: its state from tensor.py, its methods from ops/. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
from rushlight.autograd.graph import Version

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]

class _min_max(NamedTuple):
    min: Tensor
    max: Tensor

class _values_indices(NamedTuple):
    values: Tensor
    indices: Tensor

class _mantissa_exponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _a_tau(NamedTuple):
    a: Tensor
    tau: Tensor

new: Any
_tuple_of: Any
_CPU: Any
class TensorType(type): ...
def _existing_dim(a: Any, dim: _int) -> _int: ...
def _like_subclass(t: Tensor, like: Tensor) -> Tensor: ...
def _array_for(cls: type, a: Any) -> Any: ...
def _detached(a: Any) -> Any: ...
def _wrap(array: Any) -> Tensor: ...
def _bump(t: Tensor) -> None: ...
_plain_classes: Any

class Tensor:
    _array: Any
    _edge: Any
    _counter: Any
    _grad: Tensor | None
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __init_subclass__(cls, **kwargs: Any) -> None: ...
    @property
    def shape(self) -> Size: ...
    def size(self, dim: _int | None=...) -> Any: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    @property
    def ndim(self) -> _int: ...
    def dim(self) -> _int: ...
    ndimension = dim
    def numel(self) -> _int: ...
    nelement = numel
    def __len__(self) -> _int: ...
    @property
    def layout(self) -> Any: ...
    @property
    def itemsize(self) -> _int: ...
    def element_size(self) -> _int: ...
    @property
    def nbytes(self) -> _int: ...
    def is_floating_point(self) -> _bool: ...
    def is_complex(self) -> _bool: ...
    def is_signed(self) -> _bool: ...
    @property
    def _cdata(self) -> Any: ...
    @property
    def is_cpu(self) -> Any: ...
    @property
    def is_meta(self) -> Any: ...
    is_cuda: Any
    is_mps: Any
    is_xpu: Any
    is_xla: Any
    is_ipu: Any
    is_hpu: Any
    is_mtia: Any
    is_vulkan: Any
    is_mkldnn: Any
    is_quantized: Any
    is_nested: Any
    @property
    def is_sparse(self) -> Any: ...
    @property
    def is_sparse_csr(self) -> Any: ...
    def get_device(self) -> _int: ...
    def is_pinned(self, device: Any=...) -> _bool: ...
    def is_shared(self) -> _bool: ...
    def is_inference(self) -> _bool: ...
    @property
    def name(self) -> Any: ...
    def is_conj(self) -> _bool: ...
    def is_neg(self) -> _bool: ...
    @property
    def requires_grad(self) -> _bool: ...
    @requires_grad.setter
    def requires_grad(self, value: _bool) -> None: ...
    def requires_grad_(self, requires_grad: _bool=...) -> Tensor: ...
    _set_requires_grad: Any
    def _set_leaf_edge(self, edge: Any) -> None: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def grad_fn(self) -> Any: ...
    @property
    def output_nr(self) -> _int: ...
    @property
    def grad(self) -> Tensor | None: ...
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @grad.deleter
    def grad(self) -> None: ...
    @property
    def _version(self) -> _int: ...
    @property
    def _base(self) -> Tensor | None: ...
    def _is_view(self) -> _bool: ...
    @property
    def retains_grad(self) -> Any: ...
    retain_grad: Any
    register_hook: Any
    @property
    def _backward_hooks(self) -> Any: ...
    register_post_accumulate_grad_hook: Any
    def backward(self, gradient: Tensor | None=..., retain_graph: _bool | None=..., create_graph: _bool=..., inputs: Any=...) -> None: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Tensor: ...
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Tensor) -> None: ...
    item: Any
    tolist: Any
    def numpy(self, *, force: _bool=...) -> Any: ...
    def __array__(self, dtype: Any=..., copy: _bool | None=...) -> Any: ...
    __array_priority__: Any
    def __array_wrap__(self, array: Any, context: Any=..., return_scalar: _bool=...) -> Any: ...
    __bool__: Any
    __int__: Any
    __float__: Any
    __complex__: Any
    __index__: Any
    def __iter__(self) -> Any: ...
    def __delitem__(self, index: Any) -> None: ...
    def __reversed__(self) -> Tensor: ...
    def __contains__(self, element: Any) -> _bool: ...
    def __hash__(self) -> _int: ...
    def __repr__(self, *, tensor_contents: Any=...) -> _str: ...
    def _repr_html_(self) -> _str: ...
    def __format__(self, spec: _str) -> _str: ...
    def stride(self, dim: _int | None=...) -> Any: ...
    @property
    def _strides(self) -> tuple[_int, ...]: ...
    def storage_offset(self) -> _int: ...
    @property
    def _offset(self) -> _int: ...
    def untyped_storage(self) -> Any: ...
    def storage(self) -> Any: ...
    def data_ptr(self) -> _int: ...
    @property
    def _address(self) -> _int: ...
    @property
    def _row_major(self) -> _bool: ...
    def is_contiguous(self, memory_format: Any=...) -> _bool: ...
    def __deepcopy__(self, memo: dict) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any) -> Any: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: _bool=..., **_: Any) -> Any: ...
    def as_subclass(self, cls: type) -> Any: ...
    @classmethod
    def __torch_function__(cls, func: Callable, types: tuple, args: tuple=..., kwargs: dict | None=...) -> Any: ...
    @classmethod
    def __torch_dispatch__(cls, func: Callable, types: tuple, args: tuple=..., kwargs: dict | None=...) -> Any: ...
    def __div__(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
    def __idiv__(self, other: Any) -> Tensor:
        """`self /= other`, by its former name."""
    def __rdiv__(self, other: Any) -> Tensor:
        """`other / self` where `other` is a number: PyTorch's `reciprocal() * other`."""
    def __rtruediv__(self, other: Any) -> Tensor:
        """`other / self` where `other` is a number: PyTorch's `reciprocal() * other`."""
    def _addmm_activation(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1, alpha: _float = 1, use_gelu: _bool = False) -> Tensor:
        """`relu` of `addmm`, or with `use_gelu` its `gelu`, in one pass over the result."""
    def _coalesced_(self, coalesced: _bool) -> Tensor:
        """Say whether the coordinates are sorted and unique."""
    def _conj(self) -> Tensor:
        """The same memory with the conjugate bit, or without it."""
    def _dimI(self) -> _int:
        """The number of dimensions that coordinates run over; 0 for a strided tensor."""
    def _dimV(self) -> _int:
        """The number of dimensions of each value; all of a strided tensor."""
    def _elu_(self, alpha: _float, scale: _float, input_scale: _float) -> Tensor:
        """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
    def _hardsigmoid_(self) -> Tensor: ...
    def _hardswish_(self) -> Tensor: ...
    def _hardtanh_(self, min_val: _float, max_val: _float) -> Tensor: ...
    def _indices(self) -> Tensor:
        """The coordinates as they are: int64 [sparse dims, nnz]."""
    def _leaky_relu_(self, negative_slope: _float) -> Tensor: ...
    def _mish_(self) -> Tensor: ...
    def _neg_view(self) -> Tensor:
        """The negatives, a view of the same memory; NotImplementedError for bool."""
    def _nnz(self) -> _int:
        """The number of stored entries."""
    def _silu_(self) -> Tensor: ...
    def _threshold_(self, threshold: _float, value: _float) -> Tensor: ...
    def _values(self) -> Tensor:
        """The values as they are, in the memory they are in, without history."""
    def abs(self) -> Tensor:
        """The absolute value, real for complex numbers. Its gradient at zero is zero."""
    def abs_(self) -> Tensor:
        """In-place `abs`; RuntimeError for complex tensors, whose absolute value is real."""
    def absolute(self) -> Tensor:
        """The absolute value, real for complex numbers. Its gradient at zero is zero."""
    def absolute_(self) -> Tensor:
        """In-place `absolute`."""
    def acos(self) -> Tensor:
        """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
    def acos_(self) -> Tensor:
        """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
    def acosh(self) -> Tensor:
        """The inverse of the hyperbolic cosine; NaN below 1."""
    def acosh_(self) -> Tensor:
        """The inverse of the hyperbolic cosine; NaN below 1."""
    def add(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """The sum of `input` and `alpha * other`, with broadcasting."""
    def add_(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """The sum of `input` and `alpha * other`, with broadcasting."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """The sum of a batch of matrix products added to `input`: beta * input + alpha * the sum over b of batch1 [b, n,"""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """The sum of a batch of matrix products added to `input`: beta * input + alpha * the sum over b of batch1 [b, n,"""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, value: _Number = 1) -> Tensor:
        """input + value * tensor1 / tensor2; RuntimeError for a quotient of integers."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, value: _Number = 1) -> Tensor:
        """input + value * tensor1 / tensor2; RuntimeError for a quotient of integers."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, value: _Number = 1) -> Tensor:
        """input + value * tensor1 * tensor2."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, value: _Number = 1) -> Tensor:
        """input + value * tensor1 * tensor2."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A matrix product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (mat1 [n, k] @ mat2 [k,"""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A matrix product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (mat1 [n, k] @ mat2 [k,"""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A matrix times a vector added to `input`: beta * input + alpha * (mat [n, k] @ vec [k])."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A matrix times a vector added to `input`: beta * input + alpha * (mat [n, k] @ vec [k])."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """An outer product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (vec1 [n] ⊗ vec2 [m])."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """An outer product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (vec1 [n] ⊗ vec2 [m])."""
    def adjoint(self) -> Tensor:
        """The matrices conjugated and transposed."""
    def all(self, dim: _Ints | None = None, keepdim: _bool = False) -> Tensor:
        """Whether no element is zero, over `dim`. bool; uint8 for uint8."""
    def allclose(self, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False) -> _bool:
        """Whether all elements are close: `isclose(...).all()` as a Python bool."""
    def alpha_dropout_(self, p: _float, train: _bool) -> Tensor:
        """Dropout that keeps mean and variance of selu's results."""
    def amax(self, dim: _Ints | None = ..., keepdim: _bool = False) -> Tensor:
        """The maximum over `dim` (one, several, or all); nan where there is one."""
    def amin(self, dim: _Ints | None = ..., keepdim: _bool = False) -> Tensor:
        """The minimum over `dim` (one, several, or all); nan where there is one."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> _min_max:
        """(min, max) over `dim`, or of all elements; nan where there is one."""
    def angle(self) -> Tensor:
        """The angle of complex numbers in radians; of real ones 0, or pi below zero."""
    def any(self, dim: _Ints | None = None, keepdim: _bool = False) -> Tensor:
        """Whether any element is not zero, over `dim`. bool; uint8 for uint8."""
    def apply_(self, callable: Any) -> Tensor:
        """Replace every element by `callable(element)`."""
    def arccos(self) -> Tensor:
        """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
    def arccos_(self) -> Tensor:
        """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
    def arccosh(self) -> Tensor:
        """The inverse of the hyperbolic cosine; NaN below 1."""
    def arccosh_(self) -> Tensor:
        """The inverse of the hyperbolic cosine; NaN below 1."""
    def arcsin(self) -> Tensor:
        """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    def arcsinh(self) -> Tensor:
        """The inverse of the hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """The inverse of the hyperbolic sine."""
    def arctan(self) -> Tensor:
        """The inverse of the tangent, in (-pi/2, pi/2)."""
    def arctan2(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in [-pi, pi]."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in [-pi, pi]."""
    def arctan_(self) -> Tensor:
        """The inverse of the tangent, in (-pi/2, pi/2)."""
    def arctanh(self) -> Tensor:
        """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
    def arctanh_(self) -> Tensor:
        """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the maximum over `dim` (None: of the flattened tensor); the first of several, a nan"""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the minimum over `dim` (None: of the flattened tensor); the first of several, a nan"""
    def argsort(self, dim: _int = -1, descending: _bool = False, *, stable: _bool = False) -> Tensor:
        """The indices that sort `input` along `dim`; see `sort`."""
    def argwhere(self) -> Tensor:
        """`nonzero` under NumPy's name."""
    def as_strided(self, size: _Ints, stride: _Ints, storage_offset: _int | None = None) -> Tensor:
        """The memory of `input` under any size and strides (in elements), from `storage_offset` on."""
    def as_strided_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `as_strided`: the tensor itself gets the other shape, on the same memory."""
    def as_strided_scatter(self, src: Tensor, size: _Ints, stride: Any, storage_offset: Any = None) -> Tensor:
        """A copy of `input` with `src` as its `as_strided(size, stride, storage_offset)`."""
    def asin(self) -> Tensor:
        """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    def asin_(self) -> Tensor:
        """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    def asinh(self) -> Tensor:
        """The inverse of the hyperbolic sine."""
    def asinh_(self) -> Tensor:
        """The inverse of the hyperbolic sine."""
    def atan(self) -> Tensor:
        """The inverse of the tangent, in (-pi/2, pi/2)."""
    def atan2(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in [-pi, pi]."""
    def atan2_(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in [-pi, pi]."""
    def atan_(self) -> Tensor:
        """The inverse of the tangent, in (-pi/2, pi/2)."""
    def atanh(self) -> Tensor:
        """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
    def atanh_(self) -> Tensor:
        """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A batch of matrix products added to `input`: beta * input + alpha * (batch1 [b, n, k] @ batch2 [b, k, m])."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1) -> Tensor:
        """A batch of matrix products added to `input`: beta * input + alpha * (batch1 [b, n, k] @ batch2 [b, k, m])."""
    def bernoulli(self, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
        """Ones with the probabilities in `input`, zeros otherwise; with `p`, ones with probability `p`."""
    def bernoulli_(self, p: Any = ..., *, generator: Any = None) -> Tensor:
        """Overwrite by ones with probability `p` (a number, or a tensor that broadcasts), else zeros."""
    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.bfloat16)`."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """How often each of 0, 1, 2, ... occurs in a 1-d tensor of integers; or the sum of its `weights`."""
    def bitwise_and(self, other: Tensor | _Number) -> Tensor:
        """`input & other`."""
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        """`input & other`."""
    def bitwise_left_shift(self, other: Tensor | _Number) -> Tensor:
        """`input << other`; 0 when `other` is negative or no less than the number of bits."""
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        """`input << other`; 0 when `other` is negative or no less than the number of bits."""
    def bitwise_not(self) -> Tensor:
        """`~input`: all bits flipped; the negation of truth values."""
    def bitwise_not_(self) -> Tensor:
        """`~input`: all bits flipped; the negation of truth values."""
    def bitwise_or(self, other: Tensor | _Number) -> Tensor:
        """`input | other`."""
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        """`input | other`."""
    def bitwise_right_shift(self, other: Tensor | _Number) -> Tensor:
        """`input >> other`, with the sign; only the sign is left of what is shifted out of range."""
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        """`input >> other`, with the sign; only the sign is left of what is shifted out of range."""
    def bitwise_xor(self, other: Tensor | _Number) -> Tensor:
        """`input ^ other`."""
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        """`input ^ other`."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of two equally long batches of matrices [b, n, k] @ [b, k, m] -> [b, n, m]."""
    def bool(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.bool)`."""
    def broadcast_to(self, *size: Any) -> Tensor:
        """`input.expand(size)`."""
    def byte(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.uint8)`."""
    def cauchy_(self, median: Any = ..., sigma: Any = ..., *, generator: Any = None) -> Tensor:
        """Overwrite by Cauchy numbers."""
    def ccol_indices(self) -> Tensor:
        """Where the entries of each column begin, and the last end."""
    def cdouble(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.complex128)`."""
    def ceil(self) -> Tensor:
        """Rounded up."""
    def ceil_(self) -> Tensor:
        """Rounded up."""
    def celu(self, alpha: _float = ...) -> Tensor:
        """The continuously differentiable ELU: max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)) (Barron 2017)."""
    def cfloat(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.complex64)`."""
    def chalf(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.complex32)`."""
    def char(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.int8)`."""
    def cholesky(self, upper: _bool = False) -> Tensor:
        """Deprecated: use `linalg.cholesky`."""
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse of the matrix whose Cholesky factor is L (Lᴴ if `upper`)."""
    def cholesky_solve(self, L: Tensor, upper: _bool = False) -> Tensor:
        """X of A X = B, with B the first argument and L the Cholesky factor of A (Lᴴ if `upper`)."""
    def chunk(self, chunks: _int, dim: _int = 0, *, axis: _int | None = None) -> tuple[Tensor, ...]:
        """At most `chunks` views of consecutive parts, equal but for a smaller last one."""
    def clamp(self, min: _Number | None = None, max: _Number | None = None) -> Tensor:
        """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
    def clamp_(self, min: _Number | None = None, max: _Number | None = None) -> Tensor:
        """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
    def clamp_max(self, max: _Number) -> Tensor:
        """The smaller of `input` and `max`."""
    def clamp_max_(self, max: _Number) -> Tensor:
        """The smaller of `input` and `max`."""
    def clamp_min(self, min: _Number) -> Tensor:
        """The larger of `input` and `min`."""
    def clamp_min_(self, min: _Number) -> Tensor:
        """The larger of `input` and `min`."""
    def clip(self, min: _Number | None = None, max: _Number | None = None) -> Tensor:
        """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
    def clip_(self, min: _Number | None = None, max: _Number | None = None) -> Tensor:
        """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy of the tensor that gradients go through."""
    def coalesce(self) -> Tensor:
        """The same tensor with its coordinates sorted, each once; itself where that is so already."""
    def col_indices(self) -> Tensor:
        """The column of each entry of a matrix in compressed rows."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """All selections of `r` elements of a vector in order, a row each."""
    def conj(self) -> Tensor:
        """The complex conjugates, a view of the same memory; a real tensor as it is."""
    def conj_physical(self) -> Tensor:
        """The complex conjugates; a real tensor as it is."""
    def conj_physical_(self) -> Tensor:
        """The complex conjugates; a real tensor as it is."""
    def contiguous(self, *, memory_format: Any = ...) -> Tensor:
        """The tensor itself if it lies in memory in that order, else a copy that does."""
    def copy_(self, src: Tensor, non_blocking: _bool = False) -> Tensor:
        """Overwrite this tensor's values by those of `src`, which is broadcast and converted."""
    def copysign(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of `input` with the sign of `other`."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of `input` with the sign of `other`."""
    def corrcoef(self) -> Tensor:
        """The matrix of correlation coefficients of variables (rows) over observations (columns)."""
    def cos(self) -> Tensor:
        """The cosine of radians."""
    def cos_(self) -> Tensor:
        """The cosine of radians."""
    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """The hyperbolic cosine."""
    def count_nonzero(self, dim: _Ints | None = None) -> Tensor:
        """How many elements over `dim` are not zero (nan is not zero). int64."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariance matrix of variables (rows) over observations (columns); 0-d for one variable."""
    def cpu(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Tensor:
        """`self.to('cpu')`; AssertionError where there is no such device."""
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """As `linalg.cross`; without `dim` along the first dimension of size 3."""
    def crow_indices(self) -> Tensor:
        """Where the entries of each row begin, and the last end."""
    def cuda(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Tensor:
        """`self.to('cuda')`; AssertionError where there is no such device."""
    def cummax(self, dim: _int) -> _values_indices:
        """(values, indices): the maximum up to each position along `dim`, and where it last was."""
    def cummin(self, dim: _int) -> _values_indices:
        """(values, indices): the minimum up to each position along `dim`, and where it last was."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The product of the elements up to each position along `dim`. Integers and bool give int64."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The product of the elements up to each position along `dim`. Integers and bool give int64."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The sum of the elements up to each position along `dim`. Integers and bool give int64."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The sum of the elements up to each position along `dim`. Integers and bool give int64."""
    def deg2rad(self) -> Tensor:
        """Degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """Degrees to radians."""
    def dense_dim(self) -> _int:
        """The number of dimensions of each value; all of a strided tensor."""
    def det(self) -> Tensor:
        """The determinants [...] of square matrices [..., n, n]."""
    def diag(self, diagonal: _int = 0) -> Tensor:
        """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices with the last dimension of `input` as a diagonal, zeros elsewhere."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """The matrix with the elements of `input` on a diagonal."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """The diagonal of two dimensions as the last dimension; `offset` > 0: above the main one."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy of `input` with `src` as its diagonal."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """The differences of neighbours along `dim`, `n` times over. Of bool: whether they differ."""
    def digamma(self) -> Tensor:
        """The derivative of `lgamma`."""
    def digamma_(self) -> Tensor:
        """The derivative of `lgamma`."""
    def dim_order(self, *, ambiguity_check: Any = False) -> Any:
        """The dimensions in the order in which they lie in memory, outermost first."""
    def dist(self, other: Tensor, p: _float = 2) -> Tensor:
        """The `p`-norm of `input - other`, which broadcast."""
    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
    def dot(self, tensor: Tensor) -> Tensor:
        """The sum of the products of two vectors [k]; complex ones are not conjugated."""
    def double(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.float64)`."""
    def dropout_(self, p: _float, train: _bool) -> Tensor:
        """Zero elements with probability `p` and scale the rest by 1 / (1 - p), when training."""
    def dsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """`tensor_split` at dimension 2."""
    def eig(self, *args: Any, **kwargs: Any) -> Any:
        """Removed: RuntimeError; `linalg.eig` is there."""
    def eq(self, other: Tensor | _Number) -> Tensor:
        """`input == other`."""
    def eq_(self, other: Tensor | _Number) -> Tensor:
        """`input == other`."""
    def equal(self, other: Tensor) -> _bool:
        """Whether both have the same shape and equal elements; NaN equals nothing."""
    def erf(self) -> Tensor:
        """The error function 2/sqrt(pi) * the integral of exp(-t^2) over t in [0, input]."""
    def erf_(self) -> Tensor:
        """The error function 2/sqrt(pi) * the integral of exp(-t^2) over t in [0, input]."""
    def erfc(self) -> Tensor:
        """1 - erf(input), exact where that is small."""
    def erfc_(self) -> Tensor:
        """1 - erf(input), exact where that is small."""
    def erfinv(self) -> Tensor:
        """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
    def erfinv_(self) -> Tensor:
        """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
    def exp(self) -> Tensor:
        """e to the power of each element."""
    def exp2(self) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """2 to the power of each element."""
    def exp_(self) -> Tensor:
        """e to the power of each element."""
    def expand(self, *size: Any) -> Tensor:
        """Dimensions of size 1 stretched to `size`, new ones in front; -1 keeps a size."""
    def expand_as(self, other: Tensor) -> Tensor:
        """`self.expand(other.shape)`."""
    def expm1(self) -> Tensor:
        """exp(input) - 1, exact near zero."""
    def expm1_(self) -> Tensor:
        """exp(input) - 1, exact near zero."""
    def exponential_(self, lambd: Any = ..., *, generator: Any = None) -> Tensor:
        """Overwrite by exponential numbers of mean 1 / lambd."""
    def feature_alpha_dropout_(self, p: _float, train: _bool) -> Tensor:
        """As `alpha_dropout`, for whole channels."""
    def feature_dropout_(self, p: _float, train: _bool) -> Tensor:
        """As `dropout`, for whole channels."""
    def fill_(self, value: Any) -> Tensor:
        """Overwrite every element by a number, or by the value of a 0-d tensor."""
    def fill_diagonal_(self, fill_value: Any, wrap: Any = False) -> Tensor:
        """Overwrite the main diagonal by a number; `wrap`: of a tall matrix, again after n + 1 rows."""
    def fix(self) -> Tensor:
        """Rounded towards zero."""
    def fix_(self) -> Tensor:
        """Rounded towards zero."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """The dimensions from `start_dim` to `end_dim` as one."""
    def flip(self, *dims: Any) -> Tensor:
        """The elements in reverse order along `dims`, copied."""
    def fliplr(self) -> Tensor:
        """The columns in reverse order: `flip(1)` of at least two dimensions."""
    def flipud(self) -> Tensor:
        """The rows in reverse order: `flip(0)` of at least one dimension."""
    def float(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.float32)`."""
    def float_power(self, exponent: Any) -> Tensor:
        """`pow` computed in float64 (complex128 for complex operands)."""
    def float_power_(self, exponent: Any) -> Tensor:
        """In-place `float_power`; RuntimeError unless the tensor is float64 (or complex128)."""
    def floor(self) -> Tensor:
        """Rounded down."""
    def floor_(self) -> Tensor:
        """Rounded down."""
    def floor_divide(self, other: Tensor | _Number) -> Tensor:
        """The quotient rounded down; RuntimeError for an integer division by zero."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        """The quotient rounded down; RuntimeError for an integer division by zero."""
    def fmax(self, other: Tensor) -> Tensor:
        """The larger of both; the number where one is NaN."""
    def fmin(self, other: Tensor) -> Tensor:
        """The smaller of both; the number where one is NaN."""
    def fmod(self, other: Tensor | _Number) -> Tensor:
        """The remainder of the division, with the sign of `input`, as C's `fmod`."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        """The remainder of the division, with the sign of `input`, as C's `fmod`."""
    def frac(self) -> Tensor:
        """`input - trunc(input)`."""
    def frac_(self) -> Tensor:
        """`input - trunc(input)`."""
    def frexp(self) -> _mantissa_exponent:
        """Mantissa (in [0.5, 1)) and exponent: `input == mantissa * 2**exponent`; the exponent is int32."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """The elements that `index` names along `dim`; the result has the shape of `index`."""
    def gcd(self, other: Tensor) -> Tensor:
        """The greatest common divisor of integers."""
    def gcd_(self, other: Tensor) -> Tensor:
        """The greatest common divisor of integers."""
    def ge(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`."""
    def ge_(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`."""
    def geometric_(self, p: Any, *, generator: Any = None) -> Tensor:
        """Overwrite by the number of trials of probability `p` until the first success."""
    def geqrf(self) -> _a_tau:
        """(a, tau): R in the upper triangle of `a`, below it the vectors of the reflections whose product"""
    def ger(self, vec2: Tensor) -> Tensor:
        """All products of two vectors: [n] and [m] give [n, m]."""
    def getitem(self, index: Any) -> Tensor:
        """`self[index]`: a view for ints, slices, None and `...`; a copy for index tensors and masks."""
    def greater(self, other: Tensor | _Number) -> Tensor:
        """`input > other`."""
    def greater_(self, other: Tensor | _Number) -> Tensor:
        """`input > other`."""
    def greater_equal(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`."""
    def gt(self, other: Tensor | _Number) -> Tensor:
        """`input > other`."""
    def gt_(self, other: Tensor | _Number) -> Tensor:
        """`input > other`."""
    def half(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.float16)`."""
    def hardshrink(self, lambd: _float = ...) -> Tensor:
        """The input where |x| > lambd, 0 elsewhere."""
    def hash_tensor(self, dim: _Ints | None = ..., *, keepdim: _bool = False, mode: _int = 0) -> Tensor:
        """The exclusive or of the bits of all elements over `dim`, as uint64: equal tensors, equal numbers."""
    def heaviside(self, values: Tensor) -> Tensor:
        """0 where `input` is negative, 1 where it is positive, `values` where it is zero."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """0 where `input` is negative, 1 where it is positive, `values` where it is zero."""
    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0) -> Tensor:
        """How many elements fall into each of `bins` equal bins from `min` to `max`, in the input's dtype."""
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Any = None) -> Any:
        """(hist, bin_edges): how many elements (or how much `weight`) fall between each two edges."""
    def hpu(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Any:
        """`self.to('hpu')`; AssertionError where there is no such device."""
    def hsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """`tensor_split` at dimension 1 (0 of a vector)."""
    def hypot(self, other: Tensor) -> Tensor:
        """The length of the hypotenuse: sqrt(input**2 + other**2), without overflow."""
    def hypot_(self, other: Tensor) -> Tensor:
        """The length of the hypotenuse: sqrt(input**2 + other**2), without overflow."""
    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind, order 0."""
    def i0_(self) -> Tensor:
        """The modified Bessel function of the first kind, order 0."""
    def igamma(self, other: Tensor) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other)."""
    def igamma_(self, other: Tensor) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other)."""
    def igammac(self, other: Tensor) -> Tensor:
        """The regularised upper incomplete gamma function Q(input, other) = 1 - P."""
    def igammac_(self, other: Tensor) -> Tensor:
        """The regularised upper incomplete gamma function Q(input, other) = 1 - P."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """A copy of `input` with `alpha * source` added to the slices that `index` names."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """A copy of `input` with `alpha * source` added to the slices that `index` names."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` with the slices that `index` names replaced by those of `source`."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` with the slices that `index` names replaced by those of `source`."""
    def index_fill(self, dim: _int, index: Tensor, value: Any) -> Tensor:
        """A copy of `input` with `value` (a number or a 0-d tensor) in the slices that `index` names."""
    def index_fill_(self, dim: Any = None, index: Any = None, value: Any = None, *, axis: Any = None) -> Tensor:
        """In-place version of `index_fill`."""
    def index_put(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of `input` in which `values` stands at `indices` (is added there: `accumulate`)."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """In-place version of `index_put`."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """`source` reduced into the slices of a copy of `input` that `index` names."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """`source` reduced into the slices of a copy of `input` that `index` names."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """The slices of dimension `dim` that the vector `index` names, copied."""
    def indices(self) -> Tensor:
        """The coordinates of a coalesced tensor: int64 [sparse dims, nnz]."""
    def inner(self, other: Tensor) -> Tensor:
        """The sums of products over the last dimensions: [..., k] and [***, k] give [..., ***]."""
    def int(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.int32)`."""
    def inverse(self) -> Tensor:
        """Another name of `linalg.inv`."""
    def ipu(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Any:
        """`self.to('ipu')`; AssertionError where there is no such device."""
    def is_coalesced(self) -> _bool:
        """Whether the coordinates are known to be sorted and unique."""
    def is_distributed(self) -> _bool:
        """False: no tensor is."""
    def is_nonzero(self) -> _bool:
        """Whether the only element of a tensor is not 0; RuntimeError if it has not one element."""
    def is_same_size(self, other: Any) -> _bool:
        """Whether two tensors have the same shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both tensors are the same view of the same memory."""
    def isclose(self, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False) -> Tensor:
        """Whether |input - other| <= atol + rtol * |other|; infinities are close to themselves only."""
    def isfinite(self) -> Tensor:
        """Whether it is neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Whether it is infinite."""
    def isnan(self) -> Tensor:
        """Whether it is NaN."""
    def isneginf(self) -> Tensor:
        """Whether it is -infinity."""
    def isposinf(self) -> Tensor:
        """Whether it is +infinity."""
    def isreal(self) -> Tensor:
        """Whether the imaginary part is zero."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
        """The signal whose `stft` is `input` [..., freq, frame]: the pieces' inverse transforms, windowed,"""
    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product: every element of `input` times the whole of `other`."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
        """(values, indices): the k-th smallest over `dim`, counted from 1; nan is larger than any number."""
    def lcm(self, other: Tensor) -> Tensor:
        """The least common multiple of integers."""
    def lcm_(self, other: Tensor) -> Tensor:
        """The least common multiple of integers."""
    def ldexp(self, other: Tensor) -> Tensor:
        """input * 2**other, exact for integers `other`."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """input * 2**other, exact for integers `other`."""
    def le(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`."""
    def le_(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`."""
    def lerp(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """input + weight * (end - input); `weight` may be a number."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """input + weight * (end - input); `weight` may be a number."""
    def less(self, other: Tensor | _Number) -> Tensor:
        """`input < other`."""
    def less_(self, other: Tensor | _Number) -> Tensor:
        """`input < other`."""
    def less_equal(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`."""
    def lgamma(self) -> Tensor:
        """The logarithm of |gamma(input)|; infinite at 0, -1, -2, ..."""
    def lgamma_(self) -> Tensor:
        """The logarithm of |gamma(input)|; infinite at 0, -1, -2, ..."""
    def log(self) -> Tensor:
        """The natural logarithm; NaN below zero, -inf at zero."""
    def log10(self) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self) -> Tensor:
        """The logarithm to base 10."""
    def log1p(self) -> Tensor:
        """log(1 + input), exact near zero."""
    def log1p_(self) -> Tensor:
        """log(1 + input), exact near zero."""
    def log2(self) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self) -> Tensor:
        """The logarithm to base 2."""
    def log_(self) -> Tensor:
        """The natural logarithm; NaN below zero, -inf at zero."""
    def log_normal_(self, mean: Any = ..., std: Any = ..., *, generator: Any = None) -> Tensor:
        """Overwrite by numbers whose logarithm is normal with `mean` and `std`."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """log(softmax(x)) along `dim`, computed stably."""
    def logaddexp(self, other: Tensor) -> Tensor:
        """log(exp(input) + exp(other)), without overflow."""
    def logaddexp2(self, other: Tensor) -> Tensor:
        """log2(2**input + 2**other), without overflow."""
    def logcumsumexp(self, dim: _int) -> Tensor:
        """The logarithm of the sum of e**input up to each position along `dim`, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithms of the determinants; NaN where one is negative, -inf where it is zero."""
    def logical_and(self, other: Tensor) -> Tensor:
        """Whether both are not zero."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """Whether both are not zero."""
    def logical_not(self) -> Tensor:
        """Whether it is zero."""
    def logical_not_(self) -> Tensor:
        """Whether it is zero."""
    def logical_or(self, other: Tensor) -> Tensor:
        """Whether either is not zero."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """Whether either is not zero."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one is not zero."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """Whether exactly one is not zero."""
    def logit(self, eps: _float | None = None) -> Tensor:
        """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
    def logsumexp(self, dim: _Ints | None, keepdim: _bool = False) -> Tensor:
        """The logarithm of the sum of e**input over `dim`, without overflow: the maximum is taken out."""
    def long(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.int64)`."""
    def lstsq(self, *args: Any, **kwargs: Any) -> Any:
        """Removed: RuntimeError; `linalg.lstsq` is there."""
    def lt(self, other: Tensor | _Number) -> Tensor:
        """`input < other`."""
    def lt_(self, other: Tensor | _Number) -> Tensor:
        """`input < other`."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Tensor:
        """Deprecated: use `linalg.lu_factor`."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """Deprecated: use `linalg.lu_solve`, whose arguments are the other way round."""
    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Tensor:
        """Replace every element by `callable(element, element of x, element of y)`."""
    def map_(self, tensor: Tensor, callable: Any) -> Tensor:
        """Replace every element by `callable(element, element of tensor)`; `tensor` is broadcast."""
    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """A copy of `input` with `value` (a number or a 0-d tensor) where `mask` is True."""
    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """In-place version of `masked_fill`."""
    def masked_fill_tensor_(self, mask: Tensor | _Number, value: Tensor | _Number) -> Tensor:
        """`input` with the 0-d `value` where `mask` is True."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` where the places with `mask` True hold the elements of `source`, in order."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` where the places with `mask` True hold the elements of `source`, in order."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where `mask` is True, as one dimension; both are broadcast."""
    def matmul(self, other: Tensor) -> Tensor:
        """The product of matrices [..., n, k] @ [..., k, m] -> [..., n, m], also written `@`."""
    def matrices_H(self) -> Tensor:
        """The matrices in the last two dimensions conjugated and transposed (`x.mH`)."""
    def matrix_H(self) -> Tensor:
        """A matrix conjugated and transposed (`x.H`)."""
    def matrix_T(self) -> Tensor:
        """The last two dimensions swapped (`x.mT`)."""
    def matrix_exp(self) -> Tensor:
        """The exponentials of square matrices [..., n, n]."""
    def matrix_power(self, n: _int) -> Tensor:
        """A to the power of the integer `n`, by repeated squaring; the inverse for negative `n`."""
    def max(self, dim: Any = None, keepdim: _bool = False, *, other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
        """The maximum of all elements; with `dim` (values, indices) over it; with a tensor `maximum`."""
    def maximum(self, other: Tensor) -> Tensor:
        """The larger of both; NaN where either is NaN. Where they are equal, each gets half the gradient."""
    def mean(self, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The mean over `dim`; nan of nothing. RuntimeError for integers unless `dtype` is floating."""
    def median(self, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
        """The median of all elements, or (values, indices) over `dim`; of two middle ones the lower."""
    def min(self, dim: Any = None, keepdim: _bool = False, *, other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
        """The minimum of all elements; with `dim` (values, indices) over it; with a tensor `minimum`."""
    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of both; NaN where either is NaN. Where they are equal, each gets half the gradient."""
    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices [n, k] @ [k, m]; no broadcasting."""
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> _values_indices:
        """(values, indices): the commonest value over `dim`; of several the smallest; its last index."""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """`movedim` under NumPy's name."""
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """The dimensions `source` at the places `destination`, the others in their order."""
    def msort(self) -> Tensor:
        """`input` sorted along its first dimension."""
    def mtia(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Any:
        """`self.to('mtia')`; AssertionError where there is no such device."""
    def mul(self, other: Tensor | _Number) -> Tensor:
        """The product of `input` and `other`, with broadcasting."""
    def mul_(self, other: Tensor | _Number) -> Tensor:
        """The product of `input` and `other`, with broadcasting."""
    def multinomial(self, num_samples: Any, replacement: Any = False, *, generator: Any = None, out: Any = None) -> Tensor:
        """Indices drawn with probabilities in proportion to `input` [k] or [m, k]: int64 [n] or [m, n]."""
    def multiply(self, other: Tensor | _Number) -> Tensor:
        """The product of `input` and `other`, with broadcasting."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:
        """The product of `input` and `other`, with broadcasting."""
    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix [n, k] and a vector [k]."""
    def mvlgamma(self, p: _int) -> Tensor:
        """The logarithm of the gamma function of `p` dimensions."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """The logarithm of the gamma function of `p` dimensions."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """NaN replaced by `nan` (0), the infinities by `posinf` and `neginf` (the dtype's extremes)."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """NaN replaced by `nan` (0), the infinities by `posinf` and `neginf` (the dtype's extremes)."""
    def nanmean(self, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The mean over `dim` of what is not nan; nan where everything is."""
    def nanmedian(self, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
        """As `median`, of what is not nan; nan where everything is."""
    def nanquantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> Tensor:
        """As `quantile`, of what is not nan; nan where everything is."""
    def nansum(self, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The sum over `dim` with nan counted as 0."""
    def narrow(self, dim: Any = None, start: Any = None, length: Any = None, *, axis: Any = None) -> Tensor:
        """`length` elements of dimension `dim`, from `start` on."""
    def narrow_copy(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """A copy of what `narrow` shows."""
    def ne(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def ne_(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def neg(self) -> Tensor:
        """`-input`; RuntimeError for bool."""
    def neg_(self) -> Tensor:
        """`-input`; RuntimeError for bool."""
    def negative(self) -> Tensor:
        """`-input`; RuntimeError for bool."""
    def negative_(self) -> Tensor:
        """`-input`; RuntimeError for bool."""
    def new(self, *args: Any, **kwargs: Any) -> Any:
        """As the constructor of this tensor's type: `t.new(2, 3)`, `t.new([1, 2])`; of a sparse one, also of indices"""
    def new_empty(self, *args: Any, size: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
        """Memory of a shape, with the dtype and device of this tensor."""
    def new_empty_strided(self, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
        """As `empty_strided`, with the dtype and device of this tensor."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
        """`fill_value` in a shape, with the dtype and device of this tensor."""
    def new_ones(self, *args: Any, size: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
        """Ones of a shape, with the dtype and device of this tensor."""
    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, layout: Any = None, pin_memory: Any = False) -> Tensor:
        """As `tensor(data)`, with the dtype and device of this tensor by default."""
    def new_zeros(self, *args: Any, size: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
        """Zeros of a shape, with the dtype and device of this tensor."""
    def nextafter(self, other: Tensor) -> Tensor:
        """The next number after `input` towards `other`."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """The next number after `input` towards `other`."""
    def nonzero(self, *, out: Any = None, as_tuple: _bool = False) -> Any:
        """The indices of the elements that are not zero, in row-major order: int64 (n, input.ndim)."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1, out: Any = None) -> Tensor:
        """`nonzero` cut off, or filled up with `fill_value`, to `size` rows."""
    def norm(self, p: _float | _str | None = 'fro', dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The `p`-norm of the tensor as one vector, or over `dim`."""
    def normal_(self, mean: Any = ..., std: Any = ..., *, generator: Any = None) -> Tensor:
        """Overwrite by normal numbers."""
    def not_equal(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def numpy_T(self) -> Tensor:
        """The dimensions in reverse order (`x.T`)."""
    def orgqr(self, tau: Tensor) -> Tensor:
        """The first n columns of H1 H2 ... Hk, Hi = I - tau_i v_i v_iᴴ, v_i below the diagonal of column i."""
    def ormqr(self, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Q @ other (`left`) or other @ Q, Q the full product of the reflections that `geqrf` returned;"""
    def outer(self, vec2: Tensor) -> Tensor:
        """All products of two vectors: [n] and [m] give [n, m]."""
    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in the given order."""
    def pin_memory(self, device: Any = None) -> Tensor:
        """The tensor itself: no back end has memory of this kind. RuntimeError without an accelerator."""
    def pinverse(self, rcond: _float = ...) -> Tensor:
        """The pseudoinverse with rtol = `rcond`; see `linalg.pinv`."""
    def polygamma(self, n: _int) -> Tensor:
        """`polygamma(n, self)`."""
    def polygamma_(self, n: _int) -> Tensor:
        """In-place `polygamma(n, self)`."""
    def positive(self) -> Tensor:
        """`+input`: the tensor itself; RuntimeError for bool."""
    def pow(self, exponent: Tensor | _Number) -> Tensor:
        """`input` to the power of `exponent`; either may be a number."""
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        """`input` to the power of `exponent`; either may be a number."""
    def prelu(self, weight: Tensor) -> Tensor:
        """x for x > 0, else weight * x; `weight`: one element, or one per channel (dimension 1)."""
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The product over `dim`. Integers and bool give int64 unless `dtype` is given."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of `input` with `source` at the places `index` of the flattened tensor."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of `input` with `source` at the places `index` of the flattened tensor."""
    def qr(self, some: _bool = True) -> Tensor:
        """Deprecated: use `linalg.qr`."""
    def quantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear') -> Tensor:
        """The `q`-th quantiles (a number in [0, 1], or a tensor of several) of all elements or over `dim`."""
    def rad2deg(self) -> Tensor:
        """Radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """Radians to degrees."""
    def random_(self, *args: Any, to: Any = None, generator: Any = None, **kwargs: Any) -> Tensor:
        """Overwrite by integers: `random_()` (all the dtype holds), `random_(to)`, `random_(from, to)`."""
    def ravel(self) -> Tensor:
        """The elements in row-major order as one dimension; a view of a contiguous tensor, else a copy."""
    def reciprocal(self) -> Tensor:
        """The reciprocal 1 / input."""
    def reciprocal_(self) -> Tensor:
        """The reciprocal 1 / input."""
    def relu(self) -> Tensor:
        """The rectified linear unit: max(x, 0) of each element."""
    def relu_(self) -> Tensor:
        """The rectified linear unit: max(x, 0) of each element."""
    def remainder(self, other: Tensor | _Number) -> Tensor:
        """The remainder of the division, with the sign of `other`: `input % other` as in Python."""
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        """The remainder of the division, with the sign of `other`: `input % other` as in Python."""
    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Every slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to it."""
    def renorm_(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Every slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to it."""
    def repeat(self, *repeats: Any) -> Tensor:
        """The tensor laid side by side `repeats[d]` times along each dimension; new ones in front."""
    def repeat_interleave(self, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Every slice along `dim` repeated, all `repeats` times or each its own number of times."""
    def reshape(self, *sizes_or_shape: Any, shape: Any = None) -> Tensor:
        """`reshape`, also with the sizes one by one."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """`self.reshape(other.shape)`."""
    def resize(self, *sizes: Any) -> Any:
        """`view` under a name that PyTorch calls deprecated; RuntimeError for another number of elements."""
    def resize_(self, *args: Any, size: Any = None, memory_format: Any = None) -> Tensor:
        """Change the shape in place; elements beyond the old memory are uninitialised."""
    def resize_as(self, tensor: Any) -> Any:
        """`view_as` under a name that PyTorch calls deprecated; RuntimeError for another number of elements."""
    def resize_as_(self, the_template: Any, *, memory_format: Any = None) -> Tensor:
        """`resize_` to the shape of another tensor."""
    def resize_as_sparse_(self, the_template: Tensor) -> Tensor:
        """The size of another sparse tensor, in place; entries stay where they are."""
    def resolve_conj(self) -> Tensor:
        """The conjugates computed, where `input` is a view of conjugates; else `input`."""
    def resolve_neg(self) -> Tensor:
        """The negatives computed, where `input` is a view of negatives; else `input`."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """The elements moved on by `shifts` along `dims`; what falls off comes in at the other end."""
    def rot90(self, k: _int = 1, dims: Any = ...) -> Tensor:
        """The plane of two dimensions turned by 90 degrees `k` times, from the first towards the second."""
    def round(self, *, decimals: _int = 0) -> Tensor:
        """Rounded to the nearest integer (or to `decimals` digits), halves to even."""
    def round_(self, *, decimals: _int = 0) -> Tensor:
        """Rounded to the nearest integer (or to `decimals` digits), halves to even."""
    def row_indices(self) -> Tensor:
        """The row of each entry of a matrix in compressed columns."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(input)."""
    def rsqrt_(self) -> Tensor:
        """1 / sqrt(input)."""
    def scatter(self, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: _str | None = None, axis: Any = None, out: Any = None) -> Tensor:
        """A copy of `input` in which `src` (a tensor or a number) stands where `index` says along `dim`."""
    def scatter_(self, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: _str | None = None, axis: Any = None) -> Tensor:
        """In-place version of `scatter`."""
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """A copy of `input` with `src` added where `index` says along `dim`; places may repeat."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """A copy of `input` with `src` added where `index` says along `dim`; places may repeat."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """`src` reduced into a copy of `input` where `index` says along `dim`."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """`src` reduced into a copy of `input` where `index` says along `dim`."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """The slice at `index` of dimension `dim`, without that dimension."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """A copy of `input` with `src` as its slice `index` of dimension `dim`."""
    def selu(self) -> Tensor:
        """The self-normalising elu (Klambauer et al. 2017, with its alpha and scale)."""
    def selu_(self) -> Tensor:
        """The self-normalising elu (Klambauer et al. 2017, with its alpha and scale)."""
    def set_(self, source: Any = None, storage_offset: Any = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Put this tensor on other memory: that of a tensor, or of a storage with offset, size, stride."""
    def setitem(self, index: Any, value: Any) -> None:
        """`self[index] = value`: a number, or a tensor that broadcasts to the region."""
    def sgn(self) -> Tensor:
        """The sign; of a complex number z / |z|, 0 at 0."""
    def sgn_(self) -> Tensor:
        """The sign; of a complex number z / |z|, 0 at 0."""
    def share_memory_(self) -> Tensor:
        """Move the memory to where processes that it is sent to, or that are forked, see each other's writes."""
    def short(self, memory_format: Any = None) -> Tensor:
        """`self.to(torch.int16)`."""
    def sigmoid(self) -> Tensor:
        """The logistic function 1 / (1 + exp(-input))."""
    def sigmoid_(self) -> Tensor:
        """The logistic function 1 / (1 + exp(-input))."""
    def sign(self) -> Tensor:
        """-1, 0 or 1."""
    def sign_(self) -> Tensor:
        """-1, 0 or 1."""
    def signbit(self) -> Tensor:
        """Whether the sign is set: true for -0.0 too."""
    def sin(self) -> Tensor:
        """The sine of radians."""
    def sin_(self) -> Tensor:
        """The sine of radians."""
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), 1 at zero."""
    def sinc_(self) -> Tensor:
        """sin(pi x) / (pi x), 1 at zero."""
    def sinh(self) -> Tensor:
        """The hyperbolic sine."""
    def sinh_(self) -> Tensor:
        """The hyperbolic sine."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: Any = None, end: Any = None, step: _int = 1) -> Tensor:
        """A copy of `input` with `src` as its part `start:end:step` of dimension `dim`."""
    def slogdet(self) -> Tensor:
        """Another name of `linalg.slogdet`."""
    def smm(self, mat: Tensor) -> Tensor:
        """sparse @ dense, with a sparse result."""
    def softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """exp(x) / sum(exp(x)) along `dim`, of the shape of `input`; `dtype`: compute in it."""
    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Removed: RuntimeError; `linalg.solve` is there."""
    def sort(self, dim: _int = -1, descending: _bool = False, *, stable: _bool | None = None) -> _values_indices:
        """(values, indices) sorted along `dim`. Always stable; nan comes last, first if `descending`."""
    def sparse_dim(self) -> _int:
        """The number of dimensions that coordinates run over; 0 for a strided tensor."""
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The values of a dense or sparse tensor where the sparse `mask` has entries."""
    def sparse_resize_(self, size: Any, sparse_dim: _int, dense_dim: _int) -> Tensor:
        """Another size, in place; entries stay where they are."""
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: _int, dense_dim: _int) -> Tensor:
        """Another size and no entries, in place."""
    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Views of consecutive parts, of one size (the last may be smaller) or of the sizes given."""
    def split_with_sizes(self, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of consecutive parts of the given lengths, which add up to the size of the dimension."""
    def sqrt(self) -> Tensor:
        """The square root; NaN below zero. Its gradient at zero is infinite."""
    def sqrt_(self) -> Tensor:
        """The square root; NaN below zero. Its gradient at zero is infinite."""
    def square(self) -> Tensor:
        """The square of each element."""
    def square_(self) -> Tensor:
        """The square of each element."""
    def squeeze(self, dim: _Ints | None = None) -> Tensor:
        """Without the dimensions of size 1: all, or those in `dim`."""
    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `squeeze`: the tensor itself gets the other shape, on the same memory."""
    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """beta * input + alpha * mat1 @ mat2, all but `mat2` sparse, with a sparse result."""
    def std(self, dim: _Ints | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> Tensor:
        """The square root of `var`. Its gradient where it is 0 is 0, not nan."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
        """The transforms of windowed pieces of a signal: [time] or [batch, time] gives [..., freq, frame]."""
    def storage_type(self) -> Any:
        """The class of the typed storage, such as `FloatStorage`."""
    def sub(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`; RuntimeError for bool."""
    def sub_(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`; RuntimeError for bool."""
    def subtract(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`; RuntimeError for bool."""
    def subtract_(self, other: Tensor | _Number, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`; RuntimeError for bool."""
    def sum(self, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The sum over `dim` (an int or several). Integers and bool give int64 unless `dtype` is given."""
    def sum_to_size(self, *sizes: Any, size: Any = ...) -> Tensor:
        """The sum over the dimensions that broadcasting from `size` stretched; the result has that shape."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> Tensor:
        """(U, S, V) with A = U diag(S) Vᴴ; `linalg.svd` returns Vᴴ."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """`transpose` under NumPy's name."""
    def swapaxes_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `swapaxes`: the tensor itself gets the other shape, on the same memory."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """`transpose` under another name."""
    def swapdims_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `swapdims`: the tensor itself gets the other shape, on the same memory."""
    def symeig(self, *args: Any, **kwargs: Any) -> Any:
        """Removed: RuntimeError; `linalg.eigh` is there."""
    def t(self) -> Tensor:
        """The transpose [m, n] of a matrix [n, m]; a vector or a 0-d tensor as it is."""
    def t_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `t`: the tensor itself gets the other shape, on the same memory."""
    def take(self, index: Tensor) -> Tensor:
        """The elements at `index` of the flattened tensor; negative ones count from the end."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """`gather` with broadcasting; without `dim` from the flattened tensor."""
    def tan(self) -> Tensor:
        """The tangent of radians."""
    def tan_(self) -> Tensor:
        """The tangent of radians."""
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """The hyperbolic tangent."""
    def tensor_split(self, indices_or_sections: Any = None, dim: _int = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """Views of `n` parts as equal as can be, or of the parts between the given indices."""
    def tile(self, *dims: Any) -> Tensor:
        """`repeat`, where missing counts in front are 1."""
    def to(self, *args: Any, device: Any = None, dtype: Any = None, tensor: Any = None, non_blocking: Any = None, copy: Any = None, memory_format: Any = None) -> Tensor:
        """The tensor as another dtype, on another device: `to(dtype)`, `to(device, dtype)`, `to(other)`."""
    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
        """The dense tensor; a strided one is returned as it is, in another dtype where asked."""
    def to_padded_tensor(self, padding: _float, output_size: Any = None) -> Tensor:
        """A dense tensor with `padding` after the end of each component of a nested tensor."""
    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None) -> Tensor:
        """The entries that are not zero, as a sparse tensor."""
    def to_sparse_bsc(self, blocksize: Any, dense_dim: _int | None = None) -> Tensor:
        """A matrix, or a batch of them, in compressed columns of blocks."""
    def to_sparse_bsr(self, blocksize: Any, dense_dim: _int | None = None) -> Tensor:
        """A matrix, or a batch of them, in compressed rows of blocks: a block is stored where one of its"""
    def to_sparse_coo(self) -> Tensor:
        """`self.to_sparse()`."""
    def to_sparse_csc(self, dense_dim: _int | None = None) -> Tensor:
        """A matrix, or a batch of them, in compressed columns."""
    def to_sparse_csr(self, dense_dim: _int | None = None) -> Tensor:
        """A matrix, or a batch of them, in compressed rows."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> _values_indices:
        """(values, indices) of the `k` largest (or smallest) along `dim`, the most extreme first."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix [n, m]."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions swapped."""
    def transpose_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `transpose`: the tensor itself gets the other shape, on the same memory."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> Tensor:
        """Deprecated: use `linalg.solve_triangular`, whose arguments are the other way round."""
    def tril(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle of matrices [..., n, m], zeros above the given diagonal."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle of matrices [..., n, m], zeros above the given diagonal."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle of matrices [..., n, m], zeros below the given diagonal."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle of matrices [..., n, m], zeros below the given diagonal."""
    def true_divide(self, other: Tensor | _Number) -> Tensor:
        """`input / other`: `div` without rounding."""
    def true_divide_(self, other: Tensor | _Number) -> Tensor:
        """`input / other`: `div` without rounding."""
    def trunc(self) -> Tensor:
        """Rounded towards zero."""
    def trunc_(self) -> Tensor:
        """Rounded towards zero."""
    def type(self, dtype: Any = None, non_blocking: Any = False, **kwargs: Any) -> Any:
        """The name of the tensor's type, such as `torch.FloatTensor`; with `dtype`, a conversion to it."""
    def type_as(self, other: Any) -> Tensor:
        """`self.to(other.dtype)`."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """All slices along a dimension, without it."""
    def unflatten(self, dim: _int, sizes: _Ints) -> Tensor:
        """The dimension `dim` cut into several of the given sizes, of which one may be -1."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """All windows of `size` elements in a dimension, `step` apart, as a new last dimension."""
    def uniform_(self, *args: Any, to: Any = ..., generator: Any = None, **kwargs: Any) -> Tensor:
        """Overwrite by uniform numbers in [from, to): `uniform_(from=0, to=1)`."""
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """The different elements in order (or slices along `dim`), each nan by itself."""
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """Every run of equal elements (or slices along `dim`) reduced to one; see `unique`."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """`chunk` whose parts may be written to; see `unsafe_split`."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """`split` whose parts may be written to before `input` is differentiated: nothing counts these writes."""
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]:
        """`split_with_sizes` whose parts may be written to; see `unsafe_split`."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """A new dimension of size 1 before `dim`."""
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """In-place `unsqueeze`: the tensor itself gets the other shape, on the same memory."""
    def values(self) -> Tensor:
        """The values of a coalesced tensor [nnz, *dense dims]; gradients go through."""
    def var(self, dim: _Ints | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> Tensor:
        """The variance over `dim`: the squared distances from the mean, divided by n - `correction`."""
    def vdot(self, other: Tensor) -> Tensor:
        """The inner product of two vectors [k]: the first one is conjugated."""
    def view(self, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """The same memory under another shape, or under another dtype."""
    def view_as(self, other: Tensor) -> Tensor:
        """`self.view(other.shape)`."""
    def vsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """`tensor_split` at dimension 0."""
    def where(self, condition: Tensor, other: Any) -> Tensor:
        """This tensor where `condition` is True, else `other`."""
    def xlogy(self, other: Tensor | _Number) -> Tensor:
        """The product input * log(other), 0 where `input` is 0."""
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        """The product input * log(other), 0 where `input` is 0."""
    def xpu(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Any:
        """`self.to('xpu')`; AssertionError where there is no such device."""
    def zero_(self) -> Tensor:
        """Overwrite by zeros."""
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def real(self) -> Tensor: ...
    @property
    def imag(self) -> Tensor: ...
    def __add__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __iadd__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __isub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __imul__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __itruediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __ifloordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __imod__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __ipow__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __imatmul__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __iand__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __ior__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __ixor__(self, other: Any) -> Tensor: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __ilshift__(self, other: Any) -> Tensor: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __irshift__(self, other: Any) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
