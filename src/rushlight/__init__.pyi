"""The package: what it imports, and the functions of ops/ in the top namespace. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
from rushlight.autograd.grad_mode import enable_grad as enable_grad
from rushlight.autograd.grad_mode import inference_mode as inference_mode
from rushlight.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from rushlight.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from rushlight.autograd.grad_mode import no_grad as no_grad
from rushlight.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from rushlight.core.device import device as device
from rushlight.core.device import get_default_device as get_default_device
from rushlight.core.device import set_default_device as set_default_device
from rushlight.core.dtypes import bfloat16 as bfloat16
from rushlight.core.dtypes import can_cast as can_cast
from rushlight.core.dtypes import channels_last as channels_last
from rushlight.core.dtypes import channels_last_3d as channels_last_3d
from rushlight.core.dtypes import complex32 as complex32
from rushlight.core.dtypes import complex64 as complex64
from rushlight.core.dtypes import complex128 as complex128
from rushlight.core.dtypes import contiguous_format as contiguous_format
from rushlight.core.dtypes import dtype as dtype
from rushlight.core.dtypes import float8_e4m3fn as float8_e4m3fn
from rushlight.core.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from rushlight.core.dtypes import float8_e5m2 as float8_e5m2
from rushlight.core.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from rushlight.core.dtypes import float8_e8m0fnu as float8_e8m0fnu
from rushlight.core.dtypes import float16 as float16
from rushlight.core.dtypes import float32 as float32
from rushlight.core.dtypes import float64 as float64
from rushlight.core.dtypes import int8 as int8
from rushlight.core.dtypes import int16 as int16
from rushlight.core.dtypes import int32 as int32
from rushlight.core.dtypes import int64 as int64
from rushlight.core.dtypes import jagged as jagged
from rushlight.core.dtypes import layout as layout
from rushlight.core.dtypes import memory_format as memory_format
from rushlight.core.dtypes import preserve_format as preserve_format
from rushlight.core.dtypes import promote_types as promote_types
from rushlight.core.dtypes import sparse_bsc as sparse_bsc
from rushlight.core.dtypes import sparse_bsr as sparse_bsr
from rushlight.core.dtypes import sparse_coo as sparse_coo
from rushlight.core.dtypes import sparse_csc as sparse_csc
from rushlight.core.dtypes import sparse_csr as sparse_csr
from rushlight.core.dtypes import strided as strided
from rushlight.core.dtypes import uint8 as uint8
from rushlight.core.dtypes import uint16 as uint16
from rushlight.core.dtypes import uint32 as uint32
from rushlight.core.dtypes import uint64 as uint64
from rushlight.core.modes import get_default_dtype as get_default_dtype
from rushlight.core.modes import set_default_dtype as set_default_dtype
from rushlight.core.size import Size as Size
from rushlight.core.tensor import Tensor as Tensor
from rushlight import __config__ as __config__
from rushlight import __future__ as __future__
from rushlight import _C as _C
from rushlight import _decomp as _decomp
from rushlight import _dynamo as _dynamo
from rushlight import _higher_order_ops as _higher_order_ops
from rushlight import _inductor as _inductor
from rushlight import _logging as _logging
from rushlight import _ops as _ops
from rushlight import _refs as _refs
from rushlight import _subclasses as _subclasses
from rushlight import _tensor_str as _tensor_str
from rushlight import accelerator as accelerator
from rushlight import amp as amp
from rushlight import autograd as autograd
from rushlight import backends as backends
from rushlight import compiler as compiler
from rushlight import cpu as cpu
from rushlight import cuda as cuda
from rushlight import data as data
from rushlight import distributed as distributed
from rushlight import distributions as distributions
from rushlight import export as export
from rushlight import fft as fft
from rushlight import func as func
from rushlight import functional as functional
from rushlight import futures as futures
from rushlight import fx as fx
from rushlight import hub as hub
from rushlight import jit as jit
from rushlight import library as library
from rushlight import linalg as linalg
from rushlight import masked as masked
from rushlight import monitor as monitor
from rushlight import mps as mps
from rushlight import multiprocessing as multiprocessing
from rushlight import nested as nested
from rushlight import nn as nn
from rushlight import onnx as onnx
from rushlight import ops as ops
from rushlight import optim as optim
from rushlight import overrides as overrides
from rushlight import profiler as profiler
from rushlight import quasirandom as quasirandom
from rushlight import random as random
from rushlight import return_types as return_types
from rushlight import serialization as serialization
from rushlight import signal as signal
from rushlight import sparse as sparse
from rushlight import special as special
from rushlight import storage as storage
from rushlight import testing as testing
from rushlight import torch_version as torch_version
from rushlight import types as types
from rushlight import utils as utils
from rushlight import version as version
from rushlight import vision as vision
from rushlight import viz as viz
from rushlight import xpu as xpu
from rushlight._higher_order_ops.control_flow import cond as cond
from rushlight._higher_order_ops.control_flow import while_loop as while_loop
from rushlight.core.printing import set_printoptions as set_printoptions
from rushlight.core.type_info import finfo as finfo
from rushlight.core.type_info import iinfo as iinfo
from rushlight.random import Generator as Generator
from rushlight.random import default_generator as default_generator
from rushlight.random import manual_seed as manual_seed
from rushlight.random import seed as seed
from rushlight.random import initial_seed as initial_seed
from rushlight.random import get_rng_state as get_rng_state
from rushlight.random import set_rng_state as set_rng_state
from rushlight.random import thread_safe_generator as thread_safe_generator
from rushlight.core.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from rushlight.core.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from rushlight.core.settings import get_float32_matmul_precision as get_float32_matmul_precision
from rushlight.core.settings import get_num_interop_threads as get_num_interop_threads
from rushlight.core.settings import get_num_threads as get_num_threads
from rushlight.core.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from rushlight.core.settings import is_warn_always_enabled as is_warn_always_enabled
from rushlight.core.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from rushlight.core.settings import set_float32_matmul_precision as set_float32_matmul_precision
from rushlight.core.settings import set_flush_denormal as set_flush_denormal
from rushlight.core.settings import set_num_interop_threads as set_num_interop_threads
from rushlight.core.settings import set_num_threads as set_num_threads
from rushlight.core.settings import set_warn_always as set_warn_always
from rushlight.core.settings import use_deterministic_algorithms as use_deterministic_algorithms
from rushlight.amp.autocast_mode import autocast as autocast
from rushlight.amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
from rushlight.amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
from rushlight.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
from rushlight.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from rushlight.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from rushlight.amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from rushlight.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from rushlight.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from rushlight.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from rushlight.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from rushlight.amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from rushlight.amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from rushlight.amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
from rushlight.amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
from rushlight.amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from rushlight.compat.symbolic import SymBool as SymBool
from rushlight.compat.symbolic import SymFloat as SymFloat
from rushlight.compat.symbolic import SymInt as SymInt
from rushlight.compat.symbolic import sym_float as sym_float
from rushlight.compat.symbolic import sym_fresh_size as sym_fresh_size
from rushlight.compat.symbolic import sym_int as sym_int
from rushlight.compat.symbolic import sym_ite as sym_ite
from rushlight.compat.symbolic import sym_max as sym_max
from rushlight.compat.symbolic import sym_min as sym_min
from rushlight.compat.symbolic import sym_not as sym_not
from rushlight.compat.symbolic import sym_sqrt as sym_sqrt
from rushlight.compat.symbolic import sym_sum as sym_sum
from rushlight.amp.grad_scaler import GradScaler as GradScaler
from rushlight.compiler import compile as compile
from rushlight.nested.padding import _nested_from_padded as _nested_from_padded
from rushlight.nested.padding import _nested_tensor_from_mask as _nested_tensor_from_mask
from rushlight.nested.padding import _nested_tensor_from_mask_left_aligned as _nested_tensor_from_mask_left_aligned
from rushlight.nn.fast_path import _native_multi_head_attention as _native_multi_head_attention
from rushlight.nn.fast_path import _transform_bias_rescale_qkv as _transform_bias_rescale_qkv
from rushlight.nn.fast_path import _transformer_encoder_layer_fwd as _transformer_encoder_layer_fwd
from rushlight.compat.inner_operators import _aminmax as _aminmax
from rushlight.compat.inner_operators import _grid_sampler_2d_cpu_fallback as _grid_sampler_2d_cpu_fallback
from rushlight.compat.inner_operators import _masked_softmax as _masked_softmax
from rushlight.compat.inner_operators import _unique as _unique
from rushlight.nn.utils.rnn import _pack_padded_sequence as _pack_padded_sequence
from rushlight.nn.utils.rnn import _pad_packed_sequence as _pad_packed_sequence
from rushlight.accelerator.streams import Event as Event
from rushlight.accelerator.streams import Stream as Stream
from rushlight.core.errors import OutOfMemoryError as OutOfMemoryError
from rushlight.core.conditions import _assert_async as _assert_async
from rushlight.core.conditions import _assert_tensor_metadata as _assert_tensor_metadata
from rushlight.core.conditions import _check as _check
from rushlight.core.conditions import _check_index as _check_index
from rushlight.core.conditions import _check_is_size as _check_is_size
from rushlight.core.conditions import _check_not_implemented as _check_not_implemented
from rushlight.core.conditions import _check_tensor_all as _check_tensor_all
from rushlight.core.conditions import _check_tensor_all_with as _check_tensor_all_with
from rushlight.core.conditions import _check_type as _check_type
from rushlight.core.conditions import _check_value as _check_value
from rushlight.core.conditions import _check_with as _check_with
from rushlight.compat.import_hook import install_as_torch as install_as_torch
from rushlight.serialization import save as save
from rushlight.serialization import load as load
from rushlight.overrides import DisableTorchFunction as DisableTorchFunction
from rushlight.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from rushlight.storage import UntypedStorage as UntypedStorage
from rushlight.storage import TypedStorage as TypedStorage
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]

class _result_log_alpha(NamedTuple):
    result: Tensor
    log_alpha: Tensor

class _result_bags_sizes_max_indices(NamedTuple):
    result: Tensor
    bags: Tensor
    sizes: Tensor
    max_indices: Tensor

class _result_mean_rstd(NamedTuple):
    result: Tensor
    mean: Tensor
    rstd: Tensor

class _result_h_c(NamedTuple):
    result: Tensor
    h: Tensor
    c: Tensor

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

bool: _dtype
short: _dtype
int: _dtype
long: _dtype
half: _dtype
float: _dtype
double: _dtype
chalf: _dtype
cfloat: _dtype
cdouble: _dtype
torch: _float
inf: _float
nan: _float
pi: _float
e: _float
newaxis: None
legacy_contiguous_format: _float
has_lapack: _float
has_mkl: _float
has_openmp: _float
has_spectral: _float
__version__: _str
is_anomaly_check_nan_enabled: Any
is_anomaly_enabled: Any
set_anomaly_enabled: Any
compiled_with_cxx11_abi: Any
DispatchKey: Any
Graph: Any
Node: Any
PyTorchFileReader: Any
PyTorchFileWriter: Any
Tag: Any
Value: Any
qint8: Any
quint8: Any
qint32: Any
quint4x2: Any
quint2x4: Any
bits1x8: Any
bits2x4: Any
bits4x2: Any
bits8: Any
bits16: Any
float4_e2m1fn_x2: Any
int1: Any
int2: Any
int3: Any
int4: Any
int5: Any
int6: Any
int7: Any
uint1: Any
uint2: Any
uint3: Any
uint4: Any
uint5: Any
uint6: Any
uint7: Any
Future: Any
ScriptFunction: Any
ScriptModule: Any
fork: Any
wait: Any
_register_device_module: Any
get_device_module: Any
vmap: Any
Storage: Any
BoolTensor: Any
ByteTensor: Any
UInt16Tensor: Any
UInt32Tensor: Any
UInt64Tensor: Any
CharTensor: Any
ShortTensor: Any
IntTensor: Any
LongTensor: Any
HalfTensor: Any
BFloat16Tensor: Any
FloatTensor: Any
DoubleTensor: Any
ComplexFloatTensor: Any
ComplexDoubleTensor: Any
BoolStorage: Any
ByteStorage: Any
UInt16Storage: Any
UInt32Storage: Any
UInt64Storage: Any
CharStorage: Any
ShortStorage: Any
IntStorage: Any
LongStorage: Any
HalfStorage: Any
BFloat16Storage: Any
FloatStorage: Any
DoubleStorage: Any
ComplexFloatStorage: Any
ComplexDoubleStorage: Any

def _add_scaled(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`add` with an `alpha`."""
def _addmm_activation(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _float = 1, alpha: _float = 1, use_gelu: _bool = False, out: Any = None) -> Tensor:
    """`relu` of `addmm`, or with `use_gelu` its `gelu`, in one pass over the result."""
def _assert(condition: Any, message: Any) -> Any:
    """`assert condition, message` as a function: tracers record it."""
def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: _bool, scale: _float) -> Tensor:
    """softmax(query keyᵀ scale + mask) value, of four dimensions; key and value may have fewer heads."""
def _batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, training: _bool, eps: _float) -> Tensor:
    """Normalised by the mean and (biased) variance that are given; in training by those of the batch,"""
def _clamp_max_tensor(input: Tensor, max: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`clamp_max` with a tensor."""
def _clamp_min_tensor(input: Tensor, min: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`clamp_min` with a tensor."""
def _clamp_tensors(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Any = None) -> Tensor:
    """`clamp` with bounds of which at least one is a tensor."""
def _close(input: Tensor, other: Tensor | _Number, rtol: _float, atol: _float, equal_nan: _bool) -> Tensor:
    """The forward of `isclose`."""
def _conj(input: Tensor) -> Tensor:
    """The same memory with the conjugate bit, or without it."""
def _conjugates(input: Tensor, *, out: Any = None) -> Tensor:
    """`conj_physical` of complex numbers."""
def _convert_indices_from_coo_to_csr(input: Any, size: Any, *, out_int32: Any = False) -> Any:
    """Sorted row numbers as where each of `size` rows begins, and the end: `size + 1` numbers."""
def _convert_indices_from_csr_to_coo(crow_indices: Any, col_indices: Any, *, out_int32: Any = False, transpose: Any = False) -> Any:
    """Coordinates `[2, nnz]` of compressed rows; the columns first with `transpose`, the batch before them."""
def _ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: _int, zero_infinity: _bool) -> _result_log_alpha:
    """(-log p of each target, the forward variables [N, T, 2 S + 1])."""
def _ctc_loss_backward(grad_output: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, log_alpha: Tensor, blank: _int, zero_infinity: _bool) -> Tensor:
    """grad_output * (exp(log_probs) - the posterior of each class at each step)."""
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """How samples `x` of a Dirichlet distribution move with `alpha`; `total` is the sum of alphas."""
def _div_half(input: Tensor, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """`div` of a half type by one number."""
def _div_rounded(input: Tensor, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """`div` with a rounding mode."""
def _div_rounded_half(input: Tensor, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """`div` of a half type by one number, with a rounding mode."""
def _embedding(weight: Tensor, indices: Tensor, padding_idx: _int, scale_grad_by_freq: _bool) -> Tensor:
    """weight[indices], checked."""
def _embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None, scale_grad_by_freq: _bool, mode: _int, n_bags: _int, padding_idx: _int, sparse: _bool) -> _result_bags_sizes_max_indices:
    """(bags reduced, bag of each index, indices in each bag, of a maximum the row it is in)."""
def _embedding_sparse(weight: Tensor, indices: Tensor, padding_idx: _int, scale_grad_by_freq: _bool) -> Tensor:
    """As `_embedding`; the gradient is sparse."""
def _floor_divide_half(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`floor_divide` of a half type by one number."""
def _foreach_abs(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`abs` of every tensor of a list."""
def _foreach_abs_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`abs` of every tensor of a list, in place."""
def _foreach_acos(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`acos` of every tensor of a list."""
def _foreach_acos_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`acos` of every tensor of a list, in place."""
def _foreach_add(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`add` of every tensor of a list."""
def _foreach_add_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`add` of every tensor of a list, in place."""
def _foreach_addcdiv(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`addcdiv` of every tensor of a list."""
def _foreach_addcdiv_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`addcdiv` of every tensor of a list, in place."""
def _foreach_addcmul(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`addcmul` of every tensor of a list."""
def _foreach_addcmul_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`addcmul` of every tensor of a list, in place."""
def _foreach_asin(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`asin` of every tensor of a list."""
def _foreach_asin_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`asin` of every tensor of a list, in place."""
def _foreach_atan(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`atan` of every tensor of a list."""
def _foreach_atan_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`atan` of every tensor of a list, in place."""
def _foreach_ceil(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`ceil` of every tensor of a list."""
def _foreach_ceil_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`ceil` of every tensor of a list, in place."""
def _foreach_clamp_max(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`clamp_max` of every tensor of a list."""
def _foreach_clamp_max_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`clamp_max` of every tensor of a list, in place."""
def _foreach_clamp_min(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`clamp_min` of every tensor of a list."""
def _foreach_clamp_min_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`clamp_min` of every tensor of a list, in place."""
def _foreach_clone(self: Any) -> tuple[Tensor, ...]:
    """A copy of each tensor of a list."""
def _foreach_copy_(self: Any, src: Any, non_blocking: _bool = False) -> Any:
    """Copy every tensor of `src` into the one of `self` at its place."""
def _foreach_cos(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`cos` of every tensor of a list."""
def _foreach_cos_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`cos` of every tensor of a list, in place."""
def _foreach_cosh(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`cosh` of every tensor of a list."""
def _foreach_cosh_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`cosh` of every tensor of a list, in place."""
def _foreach_div(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`div` of every tensor of a list."""
def _foreach_div_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`div` of every tensor of a list, in place."""
def _foreach_erf(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`erf` of every tensor of a list."""
def _foreach_erf_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`erf` of every tensor of a list, in place."""
def _foreach_erfc(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`erfc` of every tensor of a list."""
def _foreach_erfc_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`erfc` of every tensor of a list, in place."""
def _foreach_exp(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`exp` of every tensor of a list."""
def _foreach_exp_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`exp` of every tensor of a list, in place."""
def _foreach_expm1(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`expm1` of every tensor of a list."""
def _foreach_expm1_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`expm1` of every tensor of a list, in place."""
def _foreach_floor(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`floor` of every tensor of a list."""
def _foreach_floor_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`floor` of every tensor of a list, in place."""
def _foreach_frac(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`frac` of every tensor of a list."""
def _foreach_frac_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`frac` of every tensor of a list, in place."""
def _foreach_lerp(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`lerp` of every tensor of a list."""
def _foreach_lerp_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`lerp` of every tensor of a list, in place."""
def _foreach_lgamma(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`lgamma` of every tensor of a list."""
def _foreach_lgamma_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`lgamma` of every tensor of a list, in place."""
def _foreach_log(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log` of every tensor of a list."""
def _foreach_log10(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log10` of every tensor of a list."""
def _foreach_log10_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log10` of every tensor of a list, in place."""
def _foreach_log1p(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log1p` of every tensor of a list."""
def _foreach_log1p_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log1p` of every tensor of a list, in place."""
def _foreach_log2(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log2` of every tensor of a list."""
def _foreach_log2_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log2` of every tensor of a list, in place."""
def _foreach_log_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`log` of every tensor of a list, in place."""
def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The greatest element of each tensor of a list."""
def _foreach_maximum(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`maximum` of every tensor of a list."""
def _foreach_maximum_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`maximum` of every tensor of a list, in place."""
def _foreach_minimum(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`minimum` of every tensor of a list."""
def _foreach_minimum_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`minimum` of every tensor of a list, in place."""
def _foreach_mul(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`mul` of every tensor of a list."""
def _foreach_mul_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`mul` of every tensor of a list, in place."""
def _foreach_neg(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`neg` of every tensor of a list."""
def _foreach_neg_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`neg` of every tensor of a list, in place."""
def _foreach_norm(self: Any, ord: _float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor of a list."""
def _foreach_pow(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`pow` of every tensor of a list."""
def _foreach_pow_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`pow` of every tensor of a list, in place."""
def _foreach_reciprocal(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`reciprocal` of every tensor of a list."""
def _foreach_reciprocal_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`reciprocal` of every tensor of a list, in place."""
def _foreach_round(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`round` of every tensor of a list."""
def _foreach_round_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`round` of every tensor of a list, in place."""
def _foreach_rsqrt(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`rsqrt` of every tensor of a list."""
def _foreach_rsqrt_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`rsqrt` of every tensor of a list, in place."""
def _foreach_sigmoid(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sigmoid` of every tensor of a list."""
def _foreach_sigmoid_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sigmoid` of every tensor of a list, in place."""
def _foreach_sign(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sign` of every tensor of a list."""
def _foreach_sign_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sign` of every tensor of a list, in place."""
def _foreach_sin(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sin` of every tensor of a list."""
def _foreach_sin_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sin` of every tensor of a list, in place."""
def _foreach_sinh(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sinh` of every tensor of a list."""
def _foreach_sinh_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sinh` of every tensor of a list, in place."""
def _foreach_sqrt(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sqrt` of every tensor of a list."""
def _foreach_sqrt_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sqrt` of every tensor of a list, in place."""
def _foreach_sub(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sub` of every tensor of a list."""
def _foreach_sub_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`sub` of every tensor of a list, in place."""
def _foreach_tan(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`tan` of every tensor of a list."""
def _foreach_tan_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`tan` of every tensor of a list, in place."""
def _foreach_tanh(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`tanh` of every tensor of a list."""
def _foreach_tanh_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`tanh` of every tensor of a list, in place."""
def _foreach_trunc(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`trunc` of every tensor of a list."""
def _foreach_trunc_(self: Any, *others: Any, **kwargs: Any) -> Any:
    """`trunc` of every tensor of a list, in place."""
def _foreach_zero_(self: Any) -> None:
    """Fill every tensor of a list with zeros."""
def _group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, num_groups: _int, eps: _float) -> Tensor: ...
def _grouped_mm(a: Tensor, b: Tensor, offs: Tensor | None) -> Tensor:
    """The products of the groups that `offs` ends, in the dimension that both or one has cut."""
def _layer_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, normalized_shape: _Ints, eps: _float) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions."""
def _lerp_half(input: Tensor, end: Tensor, weight: _Number, *, out: Any = None) -> Tensor:
    """`lerp` of a half type by one number, which is not rounded to half before."""
def _load_exponent(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """`ldexp` for integer exponents."""
def _log_softmax(input: Tensor, dim: _int, half_to_float: _bool = False, *, out: Any = None) -> Tensor:
    """x - log(sum(exp(x))) along `dim`."""
def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
def _mul_half(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`mul` of a half type by one number."""
def _native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, num_groups: _int, eps: _float) -> _result_mean_rstd: ...
def _native_layer_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, normalized_shape: _Ints, eps: _float) -> _result_mean_rstd: ...
def _neg_view(input: Tensor) -> Tensor:
    """The negatives, a view of the same memory; NotImplementedError for bool."""
def _pdist_forward(input: Tensor, p: _float) -> Tensor: ...
def _prelu_kernel(input: Tensor, weight: Tensor | _Number, *, out: Any = None) -> Tensor: ...
def _recurrent_layer(input: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, h0: Tensor, c0: Tensor | None, kind: _str, sizes: Any, reverse: _bool) -> _result_h_c:
    """(outputs, last h, last c) of a layer in one direction. Intermediates: as the kernel needs them."""
def _rms_norm(input: Tensor, weight: Tensor | None, normalized_shape: _Ints, eps: _float) -> Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions."""
def _round_decimals(input: Tensor, *, decimals: _int = 0, out: Any = None) -> Tensor:
    """`round` to some digits."""
def _rsub_scaled(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`rsub` with an `alpha`."""
def _sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """Points of the simplex with the concentrations in `input` [..., k]."""
def _segment_reduce(data: Tensor, reduce: _str, *, lengths: Tensor | None = None, indices: Any = None, offsets: Tensor | None = None, axis: _int = 0, unsafe: _bool = False, initial: _float | None = None) -> Tensor:
    """The sum, mean, max, min or prod of consecutive segments of `data` along `axis`."""
def _softmax(input: Tensor, dim: _int, half_to_float: _bool = False, *, out: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
def _sparse_broadcast_to(input: Tensor, size: Any) -> Tensor:
    """A sparse tensor in another shape: its entries stand at each place of a dimension that is new or had one."""
def _square_bool(input: Tensor, *, out: Any = None) -> Tensor:
    """`square` of truth values: int64, as `input ** 2`."""
def _standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Gamma numbers of shape `input` and scale 1."""
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """How samples `output` of Gamma(input, 1) move with `input`."""
def _sub_scaled(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """`sub` with an `alpha`."""
def _to_copy(input: Tensor, dtype: _dtype | None = None, memory_format: _memory_format | None = None) -> Tensor:
    """A copy in another dtype or memory format."""
def _to_device(input: Tensor, device: Any, source: Any) -> Tensor:
    """A copy on another device, with the same order of dimensions in memory. `source`: the device of `input`."""
def _validate_sparse_bsc_tensor_args(compressed_indices: Any, plain_indices: Any, values: Any, size: Any, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a tensor in sparse_bsc whose invariants all hold."""
def _validate_sparse_bsr_tensor_args(compressed_indices: Any, plain_indices: Any, values: Any, size: Any, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a tensor in sparse_bsr whose invariants all hold."""
def _validate_sparse_compressed_tensor_args(compressed_indices: Any, plain_indices: Any, values: Any, size: Any, layout: Any, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a compressed tensor whose invariants all hold."""
def _validate_sparse_coo_tensor_args(indices: Any, values: Any, size: Any, is_coalesced: Any = None, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a tensor in coordinates whose invariants all hold."""
def _validate_sparse_csc_tensor_args(compressed_indices: Any, plain_indices: Any, values: Any, size: Any, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a tensor in sparse_csc whose invariants all hold."""
def _validate_sparse_csr_tensor_args(compressed_indices: Any, plain_indices: Any, values: Any, size: Any, check_pinning: Any = None) -> Any:
    """RuntimeError unless the parts make a tensor in sparse_csr whose invariants all hold."""
def _weight_norm(v: Tensor, g: Tensor, dim: _int = 0) -> Tensor:
    """g v / ||v||, with the norm over all dimensions but `dim`."""
def abs(input: Tensor, *, out: Any = None) -> Tensor:
    """The absolute value, real for complex numbers. Its gradient at zero is zero."""
def absolute(input: Tensor, *, out: Any = None) -> Tensor:
    """The absolute value, real for complex numbers. Its gradient at zero is zero."""
def acos(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
def acosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic cosine; NaN below 1."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, L) or (C, L)."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, L) or (C, L)."""
def add(input: Tensor, other: Tensor | _Number, alpha: _Number = 1, *, out: Any = None) -> Tensor:
    """The sum of `input` and `alpha * other`, with broadcasting."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1, out: Any = None) -> Tensor:
    """The sum of a batch of matrix products added to `input`: beta * input + alpha * the sum over b of batch1 [b, n,"""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: _Number = 1, *, out: Any = None) -> Tensor:
    """input + value * tensor1 / tensor2; RuntimeError for a quotient of integers."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: _Number = 1, *, out: Any = None) -> Tensor:
    """input + value * tensor1 * tensor2."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _float = 1, alpha: _float = 1, out: Any = None) -> Tensor:
    """A matrix product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (mat1 [n, k] @ mat2 [k,"""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _float = 1, alpha: _float = 1, out: Any = None) -> Tensor:
    """A matrix times a vector added to `input`: beta * input + alpha * (mat [n, k] @ vec [k])."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _float = 1, alpha: _float = 1, out: Any = None) -> Tensor:
    """An outer product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (vec1 [n] ⊗ vec2 [m])."""
def adjoint(input: Tensor, *, out: Any = None) -> Tensor:
    """The matrices conjugated and transposed."""
def affine_grid_generator(theta: Tensor, size: _Ints, align_corners: _bool) -> Tensor:
    """The positions that affine maps `theta` give a regular grid over `size`: see `affine_grid`."""
def alias_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `alias` shows."""
def all(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """Whether no element is zero, over `dim`. bool; uint8 for uint8."""
def allclose(input: Tensor, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False) -> _bool:
    """Whether all elements are close: `isclose(...).all()` as a Python bool."""
def alpha_dropout(input: Tensor, p: _float, train: _bool, *, out: Any = None) -> Tensor:
    """Dropout that keeps mean and variance of selu's results."""
def amax(input: Tensor, dim: _Ints | None = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The maximum over `dim` (one, several, or all); nan where there is one."""
def amin(input: Tensor, dim: _Ints | None = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The minimum over `dim` (one, several, or all); nan where there is one."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Any = None) -> _min_max:
    """(min, max) over `dim`, or of all elements; nan where there is one."""
def angle(input: Tensor, *, out: Any = None) -> Tensor:
    """The angle of complex numbers in radians; of real ones 0, or pi below zero."""
def any(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """Whether any element is not zero, over `dim`. bool; uint8 for uint8."""
def arange(*args: Any, start: Any = None, end: Any = None, step: Any = 1, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """start, start + step, ... below `end` (above it for a negative step): int64 for integers, else"""
def arccos(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""
def arccosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic cosine; NaN below 1."""
def arcsin(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
def arcsinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic sine."""
def arctan(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the tangent, in (-pi/2, pi/2)."""
def arctan2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The angle of the point (other, input), in [-pi, pi]."""
def arctanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The index of the maximum over `dim` (None: of the flattened tensor); the first of several, a nan"""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The index of the minimum over `dim` (None: of the flattened tensor); the first of several, a nan"""
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, *, stable: _bool = False, out: Any = None) -> Tensor:
    """The indices that sort `input` along `dim`; see `sort`."""
def argwhere(input: Tensor, *, out: Any = None) -> Tensor:
    """`nonzero` under NumPy's name."""
def as_strided(input: Tensor, size: _Ints, stride: _Ints, storage_offset: _int | None = None) -> Tensor:
    """The memory of `input` under any size and strides (in elements), from `storage_offset` on."""
def as_strided_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `as_strided` shows."""
def as_strided_scatter(input: Tensor, src: Tensor, size: _Ints, stride: Any, storage_offset: Any = None, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` as its `as_strided(size, stride, storage_offset)`."""
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without copying where that is possible; history is kept."""
def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None, requires_grad: Any = None) -> Tensor:
    """`obj` as a tensor: shares memory with tensors, arrays, buffers and DLPack producers."""
def asin(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
def asinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic sine."""
def atan(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the tangent, in (-pi/2, pi/2)."""
def atan2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The angle of the point (other, input), in [-pi, pi]."""
def atanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""
def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension."""
def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions: (N,) becomes (1, N)."""
def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1)."""
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The average of each window of (N, C, L) or (C, L)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1, alpha: _float = 1, out: Any = None) -> Tensor:
    """A batch of matrix products added to `input`: beta * input + alpha * (batch1 [b, n, k] @ batch2 [b, k, m])."""
def bartlett_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """A triangle: 1 - |2k / N - 1|; N is the length, one less if not `periodic`."""
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool, *, out: Any = None) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel (Ioffe and Szegedy 2015)."""
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probabilities in `input`, zeros otherwise; with `p`, ones with probability `p`."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A bilinear map: y[..., o] = Σ input1[..., i] weight[o, i, j] input2[..., j] + bias[o]."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: _int = 0) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`: the cross entropy of sigmoid(input) and `target`."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0, *, out: Any = None) -> Tensor:
    """How often each of 0, 1, 2, ... occurs in a 1-d tensor of integers; or the sum of its `weights`."""
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed; floating tensors of one dtype."""
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input & other`."""
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input << other`; 0 when `other` is negative or no less than the number of bits."""
def bitwise_not(input: Tensor, *, out: Any = None) -> Tensor:
    """`~input`: all bits flipped; the negation of truth values."""
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input | other`."""
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input >> other`, with the sign; only the sign is left of what is shifted out of range."""
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input ^ other`."""
def blackman_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """0.42 - 0.5 cos(2πk / N) + 0.08 cos(4πk / N); N is the length, one less if not `periodic`."""
def block_diag(*tensors: Any) -> Tensor:
    """The matrix with the given ones along its diagonal, zeros elsewhere; vectors are rows."""
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The products of two equally long batches of matrices [b, n, k] @ [b, k, m] -> [b, n, m]."""
def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of tensors of these shapes."""
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
def broadcast_to(input: Tensor, size: _Ints, *, out: Any = None) -> Tensor:
    """`input.expand(size)`."""
def bucketize(input: Any, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Any = None) -> Tensor:
    """The number of the bucket each element of `input` falls into, between sorted `boundaries`."""
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, a row each; a single vector as it is."""
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension; the other sizes agree."""
def ccol_indices_copy(input: Tensor) -> Tensor:
    """A copy of `input.ccol_indices()`."""
def cdist(x1: Tensor, x2: Tensor, p: _float = ..., compute_mode: _str | None = None, *, out: Any = None) -> Tensor:
    """The p-norm distances of all rows of x1 [..., n, k] to all rows of x2 [..., m, k]: [..., n, m]."""
def ceil(input: Tensor, *, out: Any = None) -> Tensor:
    """Rounded up."""
def celu(input: Tensor, alpha: _float = ..., *, out: Any = None) -> Tensor:
    """The continuously differentiable ELU: max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)) (Barron 2017)."""
def celu_(input: Tensor, alpha: _float = ...) -> Tensor:
    """`celu` into the input's memory."""
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """Deprecated: use `linalg.multi_dot`, which takes a list."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """(N, C, *) with its channels, as (groups, C / groups), transposed."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Any = None) -> Tensor:
    """Deprecated: use `linalg.cholesky`."""
def cholesky_inverse(L: Tensor, upper: _bool = False, *, out: Any = None) -> Tensor:
    """The inverse of the matrix whose Cholesky factor is L (Lᴴ if `upper`)."""
def cholesky_solve(input: Tensor, L: Tensor, upper: _bool = False, *, out: Any = None) -> Tensor:
    """X of A X = B, with B the first argument and L the Cholesky factor of A (Lᴴ if `upper`)."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0, *, axis: _int | None = None) -> tuple[Tensor, ...]:
    """At most `chunks` views of consecutive parts, equal but for a smaller last one."""
def clamp(input: Tensor, min: _Number | None = None, max: _Number | None = None, *, out: Any = None) -> Tensor:
    """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
def clamp_max(input: Tensor, max: _Number, *, out: Any = None) -> Tensor:
    """The smaller of `input` and `max`."""
def clamp_min(input: Tensor, min: _Number, *, out: Any = None) -> Tensor:
    """The larger of `input` and `min`."""
def clip(input: Tensor, min: _Number | None = None, max: _Number | None = None, *, out: Any = None) -> Tensor:
    """`input` brought between `min` and `max` (numbers or tensors; either may be left out)."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy of the tensor that gradients go through."""
def col_indices_copy(input: Tensor) -> Tensor:
    """A copy of `input.col_indices()`."""
def column_stack(tensors: Any, *, out: Any = None) -> Tensor:
    """The tensors side by side, vectors as columns."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All selections of `r` elements of a vector in order, a row each."""
def complex(real: Tensor, imag: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`real + 1j * imag` from two tensors of one floating dtype, with broadcasting."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension; the other sizes agree."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors one after the other along a dimension; the other sizes agree."""
def conj(input: Tensor, *, out: Any = None) -> Tensor:
    """The complex conjugates, a view of the same memory; a real tensor as it is."""
def conj_physical(input: Tensor, *, out: Any = None) -> Tensor:
    """The complex conjugates; a real tensor as it is."""
def constant_pad_nd(input: Tensor, pad: _Ints, value: _float = 0) -> Tensor:
    """`input` with `value` around its last dimensions; `pad`: (before, after) from the last dimension"""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, L) or (C, L), weight (O, C / groups, k)."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, H, W) or (C, H, W), weight (O, C / groups, kh, kw)."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kd, kh, kw)."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """Convolution over time of (time, batch, channels) with weight (k, C, O) and bias (O)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv1d`: (N, C, L) or (C, L), weight (C, O / groups, k)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv2d`: (N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv3d`: (N, C, D, H, W), weight (C, O / groups, kd, kh, kw)."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: _Ints, padding: _Ints, dilation: _Ints, transposed: _bool, output_padding: _Ints, groups: _int) -> Tensor:
    """Convolution (cross-correlation) in any number of dimensions, or its transpose."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The magnitude of `input` with the sign of `other`."""
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlation coefficients of variables (rows) over observations (columns)."""
def cos(input: Tensor, *, out: Any = None) -> Tensor:
    """The cosine of radians."""
def cosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic cosine."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = ..., reduction: _int = 0) -> Tensor:
    """`nn.functional.cosine_embedding_loss`: 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = ..., *, out: Any = None) -> Tensor:
    """x1 . x2 over the product of their lengths, each at least eps, along `dim`."""
def count_nonzero(input: Tensor, dim: _Ints | None = None, *, out: Any = None) -> Tensor:
    """How many elements over `dim` are not zero (nan is not zero). int64."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns); 0-d for one variable."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
    """As `linalg.cross`; without `dim` along the first dimension of size 3."""
def crow_indices_copy(input: Tensor) -> Tensor:
    """A copy of `input.crow_indices()`."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: _int = 0, reduction: _int = 0, zero_infinity: _bool = False, *, out: Any = None) -> Tensor:
    """As `nn.functional.ctc_loss`; `reduction`: 0 none, 1 mean, 2 sum."""
def cummax(input: Tensor, dim: _int, *, out: Any = None) -> _values_indices:
    """(values, indices): the maximum up to each position along `dim`, and where it last was."""
def cummin(input: Tensor, dim: _int, *, out: Any = None) -> _values_indices:
    """(values, indices): the minimum up to each position along `dim`, and where it last was."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The product of the elements up to each position along `dim`. Integers and bool give int64."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The sum of the elements up to each position along `dim`. Integers and bool give int64."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float | None = None, dim: _int = -1) -> Tensor:
    """The integral up to each sample point but the first; see `trapezoid`."""
def deg2rad(input: Tensor, *, out: Any = None) -> Tensor:
    """Degrees to radians."""
def det(A: Tensor, *, out: Any = None) -> Tensor:
    """The determinants [...] of square matrices [..., n, n]."""
def detach(input: Any) -> Tensor:
    """A tensor on the same memory without history; see `Tensor.detach`."""
def detach_(input: Any) -> Tensor:
    """Cut a tensor off its history; see `Tensor.detach_`."""
def detach_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `detach` shows."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, *, out: Any = None) -> Tensor:
    """Matrices with the last dimension of `input` as a diagonal, zeros elsewhere."""
def diagflat(input: Tensor, offset: _int = 0, *, out: Any = None) -> Tensor:
    """The matrix with the elements of `input` on a diagonal."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """The diagonal of two dimensions as the last dimension; `offset` > 0: above the main one."""
def diagonal_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `diagonal` shows."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` as its diagonal."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Any = None) -> Tensor:
    """The differences of neighbours along `dim`, `n` times over. Of bool: whether they differ."""
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of `lgamma`."""
def dist(input: Tensor, other: Tensor, p: _float = 2) -> Tensor:
    """The `p`-norm of `input - other`, which broadcast."""
def div(input: Tensor, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
def divide(input: Tensor, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Any = None) -> Tensor:
    """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype."""
def dot(input: Tensor, tensor: Tensor, *, out: Any = None) -> Tensor:
    """The sum of the products of two vectors [k]; complex ones are not conjugated."""
def dropout(input: Tensor, p: _float, train: _bool, *, out: Any = None) -> Tensor:
    """Zero elements with probability `p` and scale the rest by 1 / (1 - p), when training."""
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`torch.mm`, by the name graph networks call it."""
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` at dimension 2."""
def dstack(tensors: Any, *, out: Any = None) -> Tensor:
    """The tensors behind each other: along dimension 2."""
def eig(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Removed: RuntimeError; `linalg.eig` is there."""
def einsum(*args: Any) -> Any:
    """Sum products of the operands' elements over the letters that the output does not name."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False, *, out: Any = None) -> Tensor:
    """weight[indices] for a table `weight` [rows, columns]; -> [*indices, columns]."""
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: _bool = False, mode: _int = 0, sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None, *, out: Any = None) -> Tensor:
    """(bags, bag of each index, bag sizes, rows of maxima); `mode`: 0 sum, 1 mean, 2 max."""
def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: _int, padding_idx: _int, scale_grad_by_freq: _bool) -> Tensor:
    """The rows of `grad_output` added up by index; those of `padding_idx` are left out."""
def embedding_renorm_(input: Any, indices: Any, max_norm: _float, norm_type: _float) -> Any:
    """Scale the rows of a table that `indices` name to norm `max_norm` where theirs is larger, in place."""
def empty(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Memory of a shape, with whatever it held before."""
def empty_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Memory of the shape, dtype and (by default) memory order of `input`."""
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """Dense memory of a shape whose dimensions lie in the order `physical_layout`, outermost first."""
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """Memory of a shape with the given strides, which may overlap or leave gaps."""
def eq(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input == other`."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether both have the same shape and equal elements; NaN equals nothing."""
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """The error function 2/sqrt(pi) * the integral of exp(-t^2) over t in [0, input]."""
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """1 - erf(input), exact where that is small."""
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
def exp(input: Tensor, *, out: Any = None) -> Tensor:
    """e to the power of each element."""
def exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def expand_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `expand` shows."""
def expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(input) - 1, exact near zero."""
def eye(n: Any, m: Any = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """The identity matrix of n rows (and m columns), [n, m]: ones on the diagonal, zeros elsewhere."""
def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: _int, quant_min: _int, quant_max: _int) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with a scale and a zero point for each place along `axis`."""
def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: _int, quant_max: _int) -> Tensor:
    """`input` rounded to multiples of `scale`: whole numbers from `quant_min` to `quant_max`, of which `zero_point` is 0."""
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool, *, out: Any = None) -> Tensor:
    """As `alpha_dropout`, for whole channels."""
def feature_dropout(input: Tensor, p: _float, train: _bool, *, out: Any = None) -> Tensor:
    """As `dropout`, for whole channels."""
def fill(input: Any, value: Any) -> Tensor:
    """A copy of `input` with every element overwritten by `value`."""
def fill_(self: Any, value: Any) -> Tensor:
    """Overwrite every element by a number, or by the value of a 0-d tensor."""
def fix(input: Tensor, *, out: Any = None) -> Tensor:
    """Rounded towards zero."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """The dimensions from `start_dim` to `end_dim` as one."""
def flip(input: Tensor, dims: _Ints, *, out: Any = None) -> Tensor:
    """The elements in reverse order along `dims`, copied."""
def fliplr(input: Tensor, *, out: Any = None) -> Tensor:
    """The columns in reverse order: `flip(1)` of at least two dimensions."""
def flipud(input: Tensor, *, out: Any = None) -> Tensor:
    """The rows in reverse order: `flip(0)` of at least one dimension."""
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """`pow` computed in float64 (complex128 for complex operands)."""
def floor(input: Tensor, *, out: Any = None) -> Tensor:
    """Rounded down."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The quotient rounded down; RuntimeError for an integer division by zero."""
def fmax(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The larger of both; the number where one is NaN."""
def fmin(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of both; the number where one is NaN."""
def fmod(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The remainder of the division, with the sign of `input`, as C's `fmod`."""
def frac(input: Tensor, *, out: Any = None) -> Tensor:
    """`input - trunc(input)`."""
def frexp(input: Tensor, *, out: Any = None) -> _mantissa_exponent:
    """Mantissa (in [0.5, 1)) and exponent: `input == mantissa * 2**exponent`; the exponent is int32."""
def frobenius_norm(input: Tensor, dim: _Ints | None = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The root of the sum of squares along up to two dimensions, all of them for none."""
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: _bool | None = None) -> Tensor:
    """A tensor on the memory of anything with `__dlpack__`: arrays of NumPy, CuPy, JAX, tensors."""
def from_file(filename: _str, shared: _bool | None = None, size: _int | None = 0, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """`size` elements of a file, mapped into memory; `shared`: writes go to the file, which is made"""
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor of its shape on the memory of a NumPy array; writes to one are seen in the other."""
def frombuffer(buffer: Any, *, dtype: Any, count: _int = -1, offset: _int = 0, requires_grad: _bool = False) -> Tensor:
    """A 1-d tensor on the memory of a Python buffer: `count` elements from byte `offset` on."""
def full(size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
    """`fill_value` everywhere, of the shape `size`; its type decides the dtype where none is given."""
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """`fill_value` in the shape, dtype and (by default) memory order of `input`."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Any = None) -> Tensor:
    """The elements that `index` names along `dim`; the result has the shape of `index`."""
def gcd(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The greatest common divisor of integers."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input >= other`."""
def geqrf(input: Tensor, *, out: Any = None) -> _a_tau:
    """(a, tau): R in the upper triangle of `a`, below it the vectors of the reflections whose product"""
def ger(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of two vectors: [n] and [m] give [n, m]."""
def get_device(input: Any) -> _int:
    """The index of the device of the tensor; -1 for the CPU."""
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: _int = 1) -> tuple[Tensor, ...]:
    """The slopes of samples along each of `dim` (all unless given), by the three nearest points."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input > other`."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input >= other`."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sample` with its modes as numbers."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample` for one number of dimensions; modes and paddings by number."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample` for one number of dimensions; modes and paddings by number."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = ..., cudnn_enabled: _bool = True, *, out: Any = None) -> Tensor:
    """Normalisation over groups of the channels of each sample of (N, C, *) (Wu and He 2018)."""
def gru(*args: Any, **kwargs: Any) -> _Ints:
    """Gated recurrent units (Cho et al. 2014)."""
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a GRU: input [N, features], hx [N, hidden]."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input > other`."""
def hamming_window(window_length: _int, periodic: _bool = True, alpha: _float = ..., beta: _float = ..., *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """alpha - beta cos(2πk / N); N is the length, one less if not `periodic`."""
def hann_window(window_length: _int, periodic: _bool = True, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """0.5 - 0.5 cos(2πk / N); N is the length, one less if not `periodic`."""
def hardshrink(input: Tensor, lambd: _float = ..., *, out: Any = None) -> Tensor:
    """The input where |x| > lambd, 0 elsewhere."""
def hash_tensor(input: Tensor, dim: _Ints | None = ..., *, keepdim: _bool = False, mode: _int = 0, out: Any = None) -> Tensor:
    """The exclusive or of the bits of all elements over `dim`, as uint64: equal tensors, equal numbers."""
def heaviside(input: Tensor, values: Tensor, *, out: Any = None) -> Tensor:
    """0 where `input` is negative, 1 where it is positive, `values` where it is zero."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = ..., reduction: _int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss`: x where the target is 1, max(0, margin - x) where it is -1."""
def histc(input: Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Any = None) -> Tensor:
    """How many elements fall into each of `bins` equal bins from `min` to `max`, in the input's dtype."""
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Any = None) -> Any:
    """(hist, bin_edges): how many elements (or how much `weight`) fall between each two edges."""
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: _bool = False) -> Any:
    """(hist, bin_edges): the histogram of points, whose coordinates are the last dimension of `input`."""
def hsmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """sparse [n, k] @ dense [k, m]: rows that are not empty, as values of a hybrid tensor."""
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` at dimension 1 (0 of a vector)."""
def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """sparse [n, k] @ dense [k, m]: rows that are not empty, as values of a hybrid tensor."""
def hstack(tensors: Any, *, out: Any = None) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along dimension 0."""
def hypot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The length of the hypotenuse: sqrt(input**2 + other**2), without overflow."""
def i0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function of the first kind, order 0."""
def igamma(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other)."""
def igammac(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularised upper incomplete gamma function Q(input, other) = 1 - P."""
def imag(input: Tensor, *, out: Any = None) -> Tensor:
    """The imaginary parts, on the same memory; RuntimeError for real dtypes."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """A copy of `input` with `alpha * source` added to the slices that `index` names."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with the slices that `index` names replaced by those of `source`."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Any, *, out: Any = None) -> Tensor:
    """A copy of `input` with `value` (a number or a 0-d tensor) in the slices that `index` names."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy of `input` in which `values` stands at `indices` (is added there: `accumulate`)."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Any = None) -> Tensor:
    """`source` reduced into the slices of a copy of `input` that `index` names."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Any = None) -> Tensor:
    """The slices of dimension `dim` that the vector `index` names, copied."""
def indices_copy(input: Tensor) -> Tensor:
    """A copy of `input.indices()`."""
def inner(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The sums of products over the last dimensions: [..., k] and [***, k] give [..., ***]."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool, *, out: Any = None) -> Tensor:
    """Batch normalisation of each sample by itself (Ulyanov 2016)."""
def inverse(input: Tensor, *, out: Any = None) -> Tensor:
    """Another name of `linalg.inv`."""
def is_complex(input: Any) -> _bool:
    """Whether the dtype is complex."""
def is_conj(input: Any) -> _bool:
    """Whether the tensor is a view of conjugates: see Note [Conjugates are views] in _backends/math_bits.py."""
def is_distributed(input: Any) -> _bool:
    """False: no tensor is."""
def is_floating_point(input: Any) -> _bool:
    """Whether the dtype is a floating-point type (not complex)."""
def is_inference(input: Any) -> _bool:
    """Whether the tensor was made in inference mode."""
def is_neg(input: Any) -> _bool:
    """Whether the tensor is a view of negatives."""
def is_nonzero(input: Any) -> _bool:
    """Whether the only element of a tensor is not 0; RuntimeError if it has not one element."""
def is_same_size(input: Any, other: Any) -> _bool:
    """Whether two tensors have the same shape."""
def is_signed(input: Any) -> _bool:
    """Whether the dtype holds negative numbers."""
def is_storage(obj: Any) -> _bool:
    """Whether `obj` is a storage."""
def is_tensor(obj: Any) -> _bool:
    """Whether `obj` is a tensor."""
def isclose(input: Tensor, other: Tensor, rtol: _float = ..., atol: _float = ..., equal_nan: _bool = False, *, out: Any = None) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; infinities are close to themselves only."""
def isfinite(input: Tensor) -> Tensor:
    """Whether it is neither infinite nor NaN."""
def isin(elements: Any, test_elements: Any, *, assume_unique: _bool = False, invert: _bool = False, out: Any = None) -> Tensor:
    """Which of `elements` are in `test_elements` (with `invert`: are not). nan is in nothing."""
def isinf(input: Tensor) -> Tensor:
    """Whether it is infinite."""
def isnan(input: Tensor) -> Tensor:
    """Whether it is NaN."""
def isneginf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether it is -infinity."""
def isposinf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether it is +infinity."""
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part is zero."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
    """The signal whose `stft` is `input` [..., freq, frame]: the pieces' inverse transforms, windowed,"""
def kaiser_window(window_length: _int, periodic: _bool = True, beta: _float = ..., *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """I₀(beta √(1 - (2k / N - 1)²)) / I₀(beta); N is the length, one less if not `periodic`."""
def kl_div(input: Tensor, target: Tensor, reduction: _int = 0, *, log_target: _bool = False) -> Tensor:
    """`nn.functional.kl_div`: target (log(target) - input), of each element by default."""
def kron(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The Kronecker product: every element of `input` times the whole of `other`."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Any = None) -> _values_indices:
    """(values, indices): the k-th smallest over `dim`, counted from 1; nan is larger than any number."""
def layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = ..., cudnn_enable: _bool = True, *, out: Any = None) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, statistics over the last dimensions (Ba 2016)."""
def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The least common multiple of integers."""
def ldexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """input * 2**other, exact for integers `other`."""
def le(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input <= other`."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Any = None) -> Tensor:
    """input + weight * (end - input); `weight` may be a number."""
def less(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input < other`."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input <= other`."""
def lgamma(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm of |gamma(input)|; infinite at 0, -1, -2, ..."""
def linspace(start: Any, end: Any, steps: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances: [steps]."""
def lobpcg(A: Any, k: _int | None = None, B: Any = None, X: Any = None, n: _int | None = None, iK: Any = None, niter: _int | None = None, tol: _float | None = None, largest: _bool | None = None, method: _str | None = None, tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None) -> _Ints:
    """(E, X): the k largest (or smallest) eigenvalues of A x = e B x and their vectors."""
def log(input: Tensor, *, out: Any = None) -> Tensor:
    """The natural logarithm; NaN below zero, -inf at zero."""
def log10(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm to base 10."""
def log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """log(1 + input), exact near zero."""
def log2(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm to base 2."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """log(softmax(x)) along `dim`, computed stably."""
def logaddexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """log2(2**input + 2**other), without overflow."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Any = None) -> Tensor:
    """The logarithm of the sum of e**input up to each position along `dim`, without overflow."""
def logdet(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithms of the determinants; NaN where one is negative, -inf where it is zero."""
def logical_and(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether both are not zero."""
def logical_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether it is zero."""
def logical_or(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether either is not zero."""
def logical_xor(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Whether exactly one is not zero."""
def logit(input: Tensor, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
def logspace(start: Any, end: Any, steps: Any, base: Any = ..., *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """`base` to the power of `linspace(start, end, steps)`."""
def logsumexp(input: Tensor, dim: _Ints | None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The logarithm of the sum of e**input over `dim`, without overflow: the maximum is taken out."""
def lstm(*args: Any, **kwargs: Any) -> _Ints:
    """Long short-term memory (Hochreiter and Schmidhuber 1997); hx is (h, c)."""
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> _Ints:
    """One step of an LSTM: hx is (h, c), so is the result."""
def lstsq(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Removed: RuntimeError; `linalg.lstsq` is there."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input < other`."""
def lu(A: Tensor, pivot: _bool = True, get_infos: _bool = False, *, out: Any = None) -> Tensor:
    """Deprecated: use `linalg.lu_factor`."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Any = None) -> Tensor:
    """Deprecated: use `linalg.lu_solve`, whose arguments are the other way round."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Any = None) -> Tensor:
    """(P, L, U) of what `linalg.lu_factor` returned; an empty tensor for what is not asked for."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = ..., reduction: _int = 0) -> Tensor:
    """`nn.functional.margin_ranking_loss` of tensors that broadcast: max(0, -y (x1 - x2) + margin)."""
def masked_fill(input: Tensor, mask: Tensor, value: Any, *, out: Any = None) -> Tensor:
    """A copy of `input` with `value` (a number or a 0-d tensor) where `mask` is True."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` where the places with `mask` True hold the elements of `source`, in order."""
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """The elements where `mask` is True, as one dimension; both are broadcast."""
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The product of matrices [..., n, k] @ [..., k, m] -> [..., n, m], also written `@`."""
def matrix_exp(A: Tensor, *, out: Any = None) -> Tensor:
    """The exponentials of square matrices [..., n, n]."""
def matrix_power(A: Tensor, n: _int, *, out: Any = None) -> Tensor:
    """A to the power of the integer `n`, by repeated squaring; the inverse for negative `n`."""
def matrix_rank(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Removed: RuntimeError; `linalg.matrix_rank` is there."""
def max(input: Tensor, dim: Any = None, keepdim: _bool = False, *, other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """The maximum of all elements; with `dim` (values, indices) over it; with a tensor `maximum`."""
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, L) or (C, L); with `return_indices` also its index."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """`max_pool1d` with the index of each maximum."""
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, H, W) or (C, H, W)."""
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, D, H, W) or (C, D, H, W): as `max_pool2d`."""
def maximum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The larger of both; NaN where either is NaN. Where they are equal, each gets half the gradient."""
def mean(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The mean over `dim`; nan of nothing. RuntimeError for integers unless `dtype` is floating."""
def median(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """The median of all elements, or (values, indices) over `dim`; of two middle ones the lower."""
def meshgrid(*tensors: Any, indexing: _str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of the grid that vectors span, one tensor for each: all of one shape."""
def min(input: Tensor, dim: Any = None, keepdim: _bool = False, *, other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """The minimum of all elements; with `dim` (values, indices) over it; with a tensor `minimum`."""
def minimum(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The smaller of both; NaN where either is NaN. Where they are equal, each gets half the gradient."""
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices [n, k] @ [k, m]; no broadcasting."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Any = None) -> _values_indices:
    """(values, indices): the commonest value over `dim`; of several the smallest; its last index."""
def moveaxis(input: Tensor, source: Any, destination: Any, *, out: Any = None) -> Tensor:
    """`movedim` under NumPy's name."""
def movedim(input: Tensor, source: Any, destination: Any, *, out: Any = None) -> Tensor:
    """The dimensions `source` at the places `destination`, the others in their order."""
def msort(input: Tensor, *, out: Any = None) -> Tensor:
    """`input` sorted along its first dimension."""
def mul(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The product of `input` and `other`, with broadcasting."""
def multinomial(input: Any, num_samples: Any, replacement: Any = False, *, generator: Any = None, out: Any = None) -> Tensor:
    """Indices drawn with probabilities in proportion to `input` [k] or [m, k]: int64 [n] or [m, n]."""
def multiply(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The product of `input` and `other`, with broadcasting."""
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """The product of a matrix [n, k] and a vector [k]."""
def mvlgamma(input: Tensor, p: _int, *, out: Any = None) -> Tensor:
    """The logarithm of the gamma function of `p` dimensions."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Any = None) -> Tensor:
    """NaN replaced by `nan` (0), the infinities by `posinf` and `neginf` (the dtype's extremes)."""
def nanmean(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The mean over `dim` of what is not nan; nan where everything is."""
def nanmedian(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """As `median`, of what is not nan; nan where everything is."""
def nanquantile(input: Tensor, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """As `quantile`, of what is not nan; nan where everything is."""
def nansum(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The sum over `dim` with nan counted as 0."""
def narrow(input: Tensor, dim: Any = None, start: Any = None, length: Any = None, *, axis: Any = None) -> Tensor:
    """`length` elements of dimension `dim`, from `start` on."""
def narrow_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `narrow` shows."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Any = None) -> Tensor:
    """(batch_norm(input), mean, 1 / sqrt(var + eps)); the last two are empty unless `training`."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """`channel_shuffle`."""
def native_dropout(input: Tensor, p: _float, train: _bool | None, *, out: Any = None) -> Tensor:
    """(dropout of the input, which elements were kept)."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float, *, out: Any = None) -> Tensor:
    """(group_norm(input), mean, 1 / sqrt(var + eps)), the last two (N, group)."""
def native_layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None, bias: Tensor | None, eps: _float, *, out: Any = None) -> Tensor:
    """(layer_norm(input), mean, 1 / sqrt(var + eps)); the last two have sizes 1 where normalised."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input != other`."""
def neg(input: Tensor, *, out: Any = None) -> Tensor:
    """`-input`; RuntimeError for bool."""
def negative(input: Tensor, *, out: Any = None) -> Tensor:
    """`-input`; RuntimeError for bool."""
def nextafter(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The next number after `input` towards `other`."""
def nonzero(input: Tensor, *, out: Any = None, as_tuple: _bool = False) -> Any:
    """The indices of the elements that are not zero, in row-major order: int64 (n, input.ndim)."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Any = None) -> Tensor:
    """`nonzero` cut off, or filled up with `fill_value`, to `size` rows."""
def norm(input: Tensor, p: _float | _str | None = 'fro', dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The `p`-norm of the tensor as one vector, or over `dim`."""
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """The norm of order `pow` over all dimensions but `dim`, which keep size 1; over all, without dimensions, for -1."""
def normal(mean: Any = ..., std: Any = ..., size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
    """Normal numbers; mean and standard deviation are tensors, or numbers with a `size`."""
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input != other`."""
def nuclear_norm(input: Tensor, dim: _Ints | None = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The sum of the singular values of the matrices in two dimensions."""
def numel(input: Any) -> _int:
    """The number of elements."""
def ones(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
    """Ones of a shape: `ones(2, 3)` or `ones((2, 3))`."""
def ones_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Ones of the shape, dtype and (by default) memory order of `input`."""
def orgqr(input: Tensor, tau: Tensor, *, out: Any = None) -> Tensor:
    """The first n columns of H1 H2 ... Hk, Hi = I - tau_i v_i v_iᴴ, v_i below the diagonal of column i."""
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False, *, out: Any = None) -> Tensor:
    """Q @ other (`left`) or other @ Q, Q the full product of the reflections that `geqrf` returned;"""
def outer(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of two vectors: [n] and [m] give [n, m]."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = ..., eps: _float = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
def pca_lowrank(A: Any, q: _int | None = None, center: _bool = True, niter: _int = 2) -> _Ints:
    """(U, S, V) of the principal components: `svd_lowrank` of A with its column means taken off."""
def pdist(input: Tensor, p: _float = ..., *, out: Any = None) -> Tensor:
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]: a vector [n (n - 1) / 2]."""
def permute(input: Tensor, dims: _Ints) -> Tensor:
    """The dimensions in the given order."""
def permute_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `permute` shows."""
def pinverse(input: Tensor, rcond: _float = ..., *, out: Any = None) -> Tensor:
    """The pseudoinverse with rtol = `rcond`; see `linalg.pinv`."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r r, H, W) to (*, C, H r, W r), r = `upscale_factor`: channels become pixels."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r r, H, W), r = `downscale_factor`: the inverse of `pixel_shuffle`."""
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Poisson counts with the rates in `input`, in its shape and dtype."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int) -> Tensor:
    """`nn.functional.poisson_nll_loss`, without defaults, as PyTorch's."""
def polar(abs: Tensor, angle: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`abs * (cos(angle) + 1j * sin(angle))` from two tensors of one floating dtype."""
def polygamma(n: _int, input: Tensor, *, out: Any = None) -> Tensor:
    """Derivative number `n` of `digamma`."""
def positive(input: Tensor) -> Tensor:
    """`+input`: the tensor itself; RuntimeError for bool."""
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input` to the power of `exponent`; either may be a number."""
def prelu(input: Tensor, weight: Tensor, *, out: Any = None) -> Tensor:
    """x for x > 0, else weight * x; `weight`: one element, or one per channel (dimension 1)."""
def prod(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The product over `dim`. Integers and bool give int64 unless `dtype` is given."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False, *, out: Any = None) -> Tensor:
    """A copy of `input` with `source` at the places `index` of the flattened tensor."""
def qr(input: Tensor, some: _bool = True, *, out: Any = None) -> Tensor:
    """Deprecated: use `linalg.qr`."""
def quantile(input: Tensor, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Any = None) -> Tensor:
    """The `q`-th quantiles (a number in [0, 1], or a tensor of several) of all elements or over `dim`."""
def rad2deg(input: Tensor, *, out: Any = None) -> Tensor:
    """Radians to degrees."""
def rand(*args: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """Uniform numbers in [0, 1); the sizes are the shape: `rand(2, 3)` is [2, 3]."""
def rand_like(input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Uniform numbers in [0, 1), in the shape, dtype and memory order of `input`."""
def randint(*args: Any, low: Any = None, high: Any = None, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """Integers of [low, high), `randint(high, size)` or `randint(low, high, size)`; int64 by default."""
def randint_like(input: Any, *args: Any, low: Any = None, high: Any = None, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Integers of [low, high), in the shape, dtype and memory order of `input`."""
def randn(*args: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """Normal numbers of mean 0 and standard deviation 1; the sizes are the shape: `randn(2, 3)` is [2, 3]."""
def randn_like(input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Normal numbers, in the shape, dtype and memory order of `input`."""
def randperm(n: Any, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """The integers 0 to n - 1 in random order, [n]."""
def range(*args: Any, start: Any = None, end: Any = None, step: Any = 1, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """As `arange` with `end` included, floating; deprecated by PyTorch in favour of `arange`."""
def ravel(input: Tensor) -> Tensor:
    """The elements in row-major order as one dimension; a view of a contiguous tensor, else a copy."""
def real(input: Tensor, *, out: Any = None) -> Tensor:
    """The real parts, on the same memory; a real tensor as it is."""
def reciprocal(input: Tensor, *, out: Any = None) -> Tensor:
    """The reciprocal 1 / input."""
def relu(input: Tensor, *, out: Any = None) -> Tensor:
    """The rectified linear unit: max(x, 0) of each element."""
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The remainder of the division, with the sign of `other`: `input % other` as in Python."""
def renorm(input: Tensor, p: _float, dim: _int, maxnorm: _float, *, out: Any = None) -> Tensor:
    """Every slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to it."""
def repeat_interleave(input: Tensor, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Every slice along `dim` repeated, all `repeats` times or each its own number of times."""
def reshape(input: Tensor, shape: _Ints) -> Tensor:
    """The elements in row-major order under another shape: a view where possible, else a copy."""
def resize_as_(self: Any, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """The size of another sparse tensor, in place; entries stay where they are."""
def resolve_conj(input: Tensor, *, out: Any = None) -> Tensor:
    """The conjugates computed, where `input` is a view of conjugates; else `input`."""
def resolve_neg(input: Tensor, *, out: Any = None) -> Tensor:
    """The negatives computed, where `input` is a view of negatives; else `input`."""
def result_type(tensor1: Any, tensor2: Any) -> _dtype:
    """The dtype of an operation between two tensors or numbers."""
def rms_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions (Zhang and Sennrich 2019)."""
def rnn_relu(*args: Any, **kwargs: Any) -> _Ints:
    """As `rnn_tanh` with relu in the place of tanh."""
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """As `rnn_tanh_cell` with relu in the place of tanh."""
def rnn_tanh(*args: Any, **kwargs: Any) -> _Ints:
    """h' = tanh(w_ih x + b_ih + w_hh h + b_hh), layer by layer (Elman 1990)."""
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of Elman's network: tanh(w_ih x + b_ih + w_hh h + b_hh) of input [N, features] and state hx [N,"""
def roll(input: Tensor, shifts: Any, dims: Any = None, *, out: Any = None) -> Tensor:
    """The elements moved on by `shifts` along `dims`; what falls off comes in at the other end."""
def rot90(input: Tensor, k: _int = 1, dims: Any = ..., *, out: Any = None) -> Tensor:
    """The plane of two dimensions turned by 90 degrees `k` times, from the first towards the second."""
def round(input: Tensor, *, decimals: _int = 0, out: Any = None) -> Tensor:
    """Rounded to the nearest integer (or to `decimals` digits), halves to even."""
def row_indices_copy(input: Tensor) -> Tensor:
    """A copy of `input.row_indices()`."""
def row_stack(tensors: Any, *, out: Any = None) -> Tensor:
    """The tensors on top of each other: along dimension 0, vectors as rows."""
def rrelu(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = False, generator: Any = None, *, out: Any = None) -> Tensor:
    """leaky_relu with a slope drawn from [lower, upper) for each element up to 0 in training, else the mean."""
def rrelu_(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = False, generator: Any = None) -> Tensor:
    """`rrelu` into the input's memory."""
def rsqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / sqrt(input)."""
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1, out: Any = None) -> Tensor:
    """The difference `other - alpha * input`, which `1 - x` calls."""
def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * mat1 @ mat2, all but `mat2` sparse, with a sparse result."""
def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """A 0-d tensor with the value `s`, in the default dtype unless `dtype` is given."""
def scatter(input: Tensor, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None, reduce: _str | None = None, axis: Any = None, out: Any = None) -> Tensor:
    """A copy of `input` in which `src` (a tensor or a number) stands where `index` says along `dim`."""
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` added where `index` says along `dim`; places may repeat."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Any = None) -> Tensor:
    """`src` reduced into a copy of `input` where `index` says along `dim`."""
def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Any = None) -> Tensor:
    """Where each element of `input` would go into `sorted_sequence` along the last dimension."""
def segment_reduce(data: Tensor, reduce: _str, *, lengths: Tensor | None = None, indices: Any = None, offsets: Tensor | None = None, axis: _int = 0, unsafe: _bool = False, initial: _float | None = None) -> Tensor:
    """The sum, mean, max, min or prod of consecutive segments of `data` along `axis`."""
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """The slice at `index` of dimension `dim`, without that dimension."""
def select_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `select` shows."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` as its slice `index` of dimension `dim`."""
def selu(input: Tensor, *, out: Any = None) -> Tensor:
    """The self-normalising elu (Klambauer et al. 2017, with its alpha and scale)."""
def set_default_tensor_type(t: Any) -> None:
    """The older form of `set_default_dtype`: takes a tensor type or its name."""
def sgn(input: Tensor, *, out: Any = None) -> Tensor:
    """The sign; of a complex number z / |z|, 0 at 0."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """The logistic function 1 / (1 + exp(-input))."""
def sign(input: Tensor, *, out: Any = None) -> Tensor:
    """-1, 0 or 1."""
def signbit(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether the sign is set: true for -0.0 too."""
def sin(input: Tensor, *, out: Any = None) -> Tensor:
    """The sine of radians."""
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(pi x) / (pi x), 1 at zero."""
def sinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic sine."""
def slice_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `slice` shows."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: Any = None, end: Any = None, step: _int = 1, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` as its part `start:end:step` of dimension `dim`."""
def slogdet(input: Tensor, *, out: Any = None) -> Tensor:
    """Another name of `linalg.slogdet`."""
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """sparse @ dense, with a sparse result."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, of the shape of `input`; `dtype`: compute in it."""
def solve(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Removed: RuntimeError; `linalg.solve` is there."""
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, *, stable: _bool | None = None, out: Any = None) -> _values_indices:
    """(values, indices) sorted along `dim`. Always stable; nan comes last, first if `descending`."""
def sparse_bsc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None) -> Tensor:
    """A sparse matrix in compressed columns of blocks."""
def sparse_bsr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None) -> Tensor:
    """A sparse matrix in compressed rows of blocks: `values` is [blocks, rows, columns of a block]."""
def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None) -> Tensor:
    """A sparse tensor in one of the compressed layouts: the entries `compressed_indices[i]` to"""
def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None, is_coalesced: Any = None) -> Tensor:
    """A sparse tensor in coordinates: `values` [nnz, *dense] at `indices` [sparse dims, nnz]."""
def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None) -> Tensor:
    """A sparse matrix in compressed columns: entries `ccol[j]:ccol[j + 1]` are those of column j."""
def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, check_invariants: Any = None) -> Tensor:
    """A sparse matrix in compressed rows: entries `crow[i]:crow[i + 1]` are those of row i."""
def split(tensor: Tensor, split_size_or_sections: Any, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts, of one size (the last may be smaller) or of the sizes given."""
def split_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `split` shows."""
def split_with_sizes(input: Tensor, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of the given lengths, which add up to the size of the dimension."""
def split_with_sizes_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `split_with_sizes` shows."""
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`torch.mm`, by the name graph networks call it."""
def sqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """The square root; NaN below zero. Its gradient at zero is infinite."""
def square(input: Tensor, *, out: Any = None) -> Tensor:
    """The square of each element."""
def squeeze(input: Tensor, dim: _Ints | None = None) -> Tensor:
    """Without the dimensions of size 1: all, or those in `dim`."""
def squeeze_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `squeeze` shows."""
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * mat1 @ mat2, all but `mat2` sparse, with a sparse result."""
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Any = None) -> Tensor:
    """The tensors, all of one shape, along a new dimension."""
def std(input: Tensor, dim: _Ints | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Any = None) -> Tensor:
    """The square root of `var`. Its gradient where it is 0 is 0, not nan."""
def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _bool = False, *, correction: _float | None = None, axis: Any = None) -> Any:
    """(standard deviation, mean) over `dim`; see `std`."""
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
    """The transforms of windowed pieces of a signal: [time] or [batch, time] gives [..., freq, frame]."""
def sub(input: Tensor, other: Tensor | _Number, alpha: _Number = 1, *, out: Any = None) -> Tensor:
    """`input - alpha * other`; RuntimeError for bool."""
def subtract(input: Tensor, other: Tensor | _Number, alpha: _Number = 1, *, out: Any = None) -> Tensor:
    """`input - alpha * other`; RuntimeError for bool."""
def sum(input: Tensor, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The sum over `dim` (an int or several). Integers and bool give int64 unless `dtype` is given."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Any = None) -> Tensor:
    """(U, S, V) with A = U diag(S) Vᴴ; `linalg.svd` returns Vᴴ."""
def svd_lowrank(A: Any, q: _int | None = 6, niter: _int | None = 2, M: Any = None) -> _Ints:
    """(U, S, V) of rank `q` near A [..., m, n] (minus M), found from random directions and `niter`"""
def swapaxes(input: Tensor, axis0: _int, axis1: _int, *, out: Any = None) -> Tensor:
    """`transpose` under NumPy's name."""
def swapdims(input: Tensor, dim0: _int, dim1: _int, *, out: Any = None) -> Tensor:
    """`transpose` under another name."""
def symeig(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Removed: RuntimeError; `linalg.eigh` is there."""
def t(input: Tensor) -> Tensor:
    """The transpose [m, n] of a matrix [n, m]; a vector or a 0-d tensor as it is."""
def t_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `t` shows."""
def take(input: Tensor, index: Tensor, *, out: Any = None) -> Tensor:
    """The elements at `index` of the flattened tensor; negative ones count from the end."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Any = None) -> Tensor:
    """`gather` with broadcasting; without `dim` from the flattened tensor."""
def tan(input: Tensor, *, out: Any = None) -> Tensor:
    """The tangent of radians."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic tangent."""
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Tensor:
    """A new tensor with a copy of `data`: a number [], nested sequences, an array of its shape."""
def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: _int = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
    """Views of `n` parts as equal as can be, or of the parts between the given indices."""
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Any = None) -> Tensor:
    """Sum the products of `a` and `b` over pairs of dimensions."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x where it is above `threshold`, else `value`; both as numbers of the dtype of integers."""
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold` into the input's memory."""
def threshold_backward(grad_output: Tensor, input: Tensor, threshold: _float, *, out: Any = None) -> Tensor:
    """The gradient where the input is above the threshold (or NaN), else 0."""
def tile(input: Tensor, dims: _Ints, *, out: Any = None) -> Tensor:
    """`repeat`, where missing counts in front are 1."""
def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule that shares the memory of `tensor`; it can be taken over once."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Any = None) -> _values_indices:
    """(values, indices) of the `k` largest (or smallest) along `dim`, the most extreme first."""
def trace(input: Tensor, *, out: Any = None) -> Tensor:
    """The sum of the diagonal of a matrix [n, m]."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions swapped."""
def transpose_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `transpose` shows."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float | None = None, dim: _int = -1) -> Tensor:
    """The integral of samples `y` along `dim` by the trapezoidal rule."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _float | None = None, dim: _int = -1) -> Tensor:
    """Another name of `trapezoid`."""
def triangular_solve(input: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Any = None) -> Tensor:
    """Deprecated: use `linalg.solve_triangular`, whose arguments are the other way round."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The lower triangle of matrices [..., n, m], zeros above the given diagonal."""
def tril_indices(row: Any, col: Any, offset: Any = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: Any = False) -> Tensor:
    """Where the lower triangle of a row x col matrix is: [2, n], the rows and the columns."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = ..., p: _float = 2, eps: _float = ..., swap: _bool = False, reduction: _int = 0) -> Tensor:
    """`nn.functional.triplet_margin_loss`: max(0, d(a, p) - d(a, n) + margin)."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Any = None) -> Tensor:
    """The upper triangle of matrices [..., n, m], zeros below the given diagonal."""
def triu_indices(row: Any, col: Any, offset: Any = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: Any = False) -> Tensor:
    """Where the upper triangle of a row x col matrix is: [2, n], the rows and the columns."""
def true_divide(input: Tensor, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """`input / other`: `div` without rounding."""
def trunc(input: Tensor, *, out: Any = None) -> Tensor:
    """Rounded towards zero."""
def typename(obj: Any) -> _str:
    """The name of a tensor's type, the full name of a class or function, or that of any other object's class."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """All slices along a dimension, without it."""
def unbind_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `unbind` shows."""
def unflatten(input: Tensor, dim: _int, sizes: _Ints, *, out: Any = None) -> Tensor:
    """The dimension `dim` cut into several of the given sizes, of which one may be -1."""
def unfold_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `unfold` shows."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """The different elements in order (or slices along `dim`), each nan by itself."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """Every run of equal elements (or slices along `dim`) reduced to one; see `unique`."""
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of `shape`, of indices into the flattened tensor."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose parts may be written to; see `unsafe_split`."""
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """`split` whose parts may be written to before `input` is differentiated: nothing counts these writes."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` whose parts may be written to; see `unsafe_split`."""
def unsqueeze(input: Tensor, dim: _int) -> Tensor:
    """A new dimension of size 1 before `dim`."""
def unsqueeze_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `unsqueeze` shows."""
def values_copy(input: Tensor) -> Tensor:
    """A copy of `input.values()`."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False, *, out: Any = None) -> Tensor:
    """The powers of the elements of a vector [n] as columns, descending unless `increasing`."""
def var(input: Tensor, dim: _Ints | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Any = None) -> Tensor:
    """The variance over `dim`: the squared distances from the mean, divided by n - `correction`."""
def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _bool = False, *, correction: _float | None = None, axis: Any = None) -> Any:
    """(variance, mean) over `dim`; see `var`."""
def vdot(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The inner product of two vectors [k]: the first one is conjugated."""
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of reals in the last dimension as complex numbers."""
def view_as_complex_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `view_as_complex` shows."""
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs of reals: a new last dimension of size 2."""
def view_as_real_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `view_as_real` shows."""
def view_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    """A copy of what `view` shows."""
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` at dimension 0."""
def vstack(tensors: Any, *, out: Any = None) -> Tensor:
    """The tensors on top of each other: along dimension 0, vectors as rows."""
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`input` where `condition` is True, else `other`; all three are broadcast, two of them promoted."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The product input * log(other), 0 where `input` is 0."""
def zero_(self: Any) -> Tensor:
    """Overwrite by zeros."""
def zeros(*args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False) -> Tensor:
    """Zeros of a shape: `zeros(2, 3)` or `zeros((2, 3))`."""
def zeros_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = False, requires_grad: Any = False, memory_format: Any = None) -> Tensor:
    """Zeros of the shape, dtype and (by default) memory order of `input`."""

def __getattr__(name: _str) -> Any: ...
