"""Rushlight: PyTorch's Python API, written from scratch in Python.

    import rushlight as torch

Nothing heavy is imported before it is used: operators resolve by their names (see dispatch/index.py),
subpackages on first access.
"""

from __future__ import annotations

import sys as _sys
import warnings as _warnings
from importlib import import_module as _import_module
from typing import Any

from rushlight.core.collector import paused as _paused

with _paused():  # these two read NumPy and nearly all of what is read here
    from rushlight._backends import llvm as _compiled
    from rushlight.dispatch import methods as _methods

from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.core import dtypes as _dtypes
from rushlight.core.device import device, get_default_device, set_default_device
from rushlight.core.dtypes import (
    bfloat16,
    can_cast,
    channels_last,
    channels_last_3d,
    complex32,
    complex64,
    complex128,
    contiguous_format,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    jagged,
    layout,
    memory_format,
    preserve_format,
    promote_types,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.core.modes import get_default_dtype, set_default_dtype
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor

__version__ = "1.0.0rc1"

# An overflow or a 0 / 0 is a number (inf, nan) here, as in PyTorch, and no reason for NumPy to speak.
# Where a user turns warnings into errors, the call is made again with NumPy told to be silent.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"rushlight(\.|$)")

_ALIASES = _dtypes.ALIASES
_SUBMODULES = (
    "__config__ __future__ _C _decomp _dynamo _higher_order_ops _inductor _logging _ops _refs _subclasses _tensor_str accelerator amp "
    "autograd backends compiler cpu cuda data distributed distributions export fft func functional "
    "futures fx hub jit library linalg masked monitor mps multiprocessing nested nn onnx ops optim overrides "
    "profiler quasirandom random return_types serialization signal sparse special storage testing "
    "torch_version types utils version vision viz xpu"
).split()
_SETTINGS = (
    "are_deterministic_algorithms_enabled get_deterministic_debug_mode "
    "get_float32_matmul_precision get_num_interop_threads get_num_threads "
    "is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled "
    "set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
    "set_num_interop_threads set_num_threads set_warn_always use_deterministic_algorithms "
).split()
_AUTOCAST = (
    "autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache "
    "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled "
    "is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_cpu_dtype "
    "set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype"
).split()
_SYMBOLIC = (
    "SymBool SymFloat SymInt sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not "
    "sym_sqrt sym_sum"
).split()
_ELSEWHERE = {  # public name -> module
    "cond": "_higher_order_ops.control_flow",
    "while_loop": "_higher_order_ops.control_flow",
    "set_printoptions": "core.printing",
    "finfo": "core.type_info",
    "iinfo": "core.type_info",
    "Generator": "random",
    "default_generator": "random",
    "manual_seed": "random",
    "seed": "random",
    "initial_seed": "random",
    "get_rng_state": "random",
    "set_rng_state": "random",
    "thread_safe_generator": "random",
    **dict.fromkeys(_SETTINGS, "core.settings"),
    **dict.fromkeys(_AUTOCAST, "amp.autocast_mode"),
    **dict.fromkeys(_SYMBOLIC, "compat.symbolic"),
    "is_anomaly_check_nan_enabled": "_C",
    "is_anomaly_enabled": "_C",
    "set_anomaly_enabled": "_C",
    "compiled_with_cxx11_abi": "_C",
    **dict.fromkeys(
        "DispatchKey Graph Node PyTorchFileReader PyTorchFileWriter Tag Value".split(), "_C"
    ),
    **dict.fromkeys([each.name for each in _dtypes.ONLY_COMPARED], "core.dtypes"),
    "Future": "futures",
    **dict.fromkeys(("ScriptFunction", "ScriptModule", "fork", "wait"), "jit"),
    "GradScaler": "amp.grad_scaler",
    "compile": "compiler",
    "_register_device_module": "accelerator",
    **dict.fromkeys(
        (
            "_nested_from_padded",
            "_nested_tensor_from_mask",
            "_nested_tensor_from_mask_left_aligned",
        ),
        "nested.padding",
    ),
    **dict.fromkeys(
        (
            "_native_multi_head_attention",
            "_transform_bias_rescale_qkv",
            "_transformer_encoder_layer_fwd",
        ),
        "nn.fast_path",
    ),
    **dict.fromkeys(
        ("_aminmax", "_grid_sampler_2d_cpu_fallback", "_masked_softmax", "_unique"),
        "compat.inner_operators",
    ),
    **dict.fromkeys(("_pack_padded_sequence", "_pad_packed_sequence"), "nn.utils.rnn"),
    "get_device_module": "accelerator",
    **dict.fromkeys(("Event", "Stream"), "accelerator.streams"),
    "vmap": "func",
    "OutOfMemoryError": "core.errors",
    **dict.fromkeys(
        (
            "_assert_async",
            "_assert_tensor_metadata",
            "_check",
            "_check_index",
            "_check_is_size",
            "_check_not_implemented",
            "_check_tensor_all",
            "_check_tensor_all_with",
            "_check_type",
            "_check_value",
            "_check_with",
        ),
        "core.conditions",
    ),
    "install_as_torch": "compat.import_hook",
    "save": "serialization",
    "load": "serialization",
    "DisableTorchFunction": "overrides",
    "DisableTorchFunctionSubclass": "overrides",
    "Storage": "storage",
    "UntypedStorage": "storage",
    "TypedStorage": "storage",
    **{f"{d.scalar_name}Tensor": "ops.factories.legacy" for d in _dtypes.NAMED},
    **{f"{d.scalar_name}Storage": "storage" for d in _dtypes.NAMED},
}
# inner operators that PyTorch's programs find beside the public ones, too
_INNER = frozenset(
    "_is_all_true _is_any_true _native_batch_norm_legit _safe_softmax _unsafe_masked_index "
    "_unsafe_masked_index_put_accumulate".split()
)
_OF_TORCH = ("_VF", "_utils", "_vmap_internals")
_CONSTANTS = {
    "torch": _sys.modules[__name__],  # annotations say `torch.torch.Tensor`
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "newaxis": None,
    "legacy_contiguous_format": contiguous_format,
    # what PyTorch may be built with: NumPy brings LAPACK and Fourier transforms
    "has_lapack": True,
    "has_mkl": False,
    "has_openmp": False,
    "has_spectral": True,
}

_compiled.begin()


def _excepthook(kind: Any, error: Any, trace: Any, before: Any = _sys.excepthook) -> None:
    """Show an error that nobody caught, with a note on what to do: Note [Advice on errors]."""
    from rushlight.core.advice import note_advice

    note_advice(error)
    before(kind, error, trace)


_sys.excepthook = _excepthook
if "IPython" in _sys.modules:
    _import_module("rushlight.core.advice").show_in_notebook()


def __getattr__(name: str) -> Any:
    if name in _methods.index.FUNCTIONS:
        found = _methods.function(name)
    elif name == "__all__":  # of `from torch import *`: no modules
        own = {n for n, v in globals().items() if isinstance(v, type(_sys)) or n[0] == "_"}
        return [
            n for n in __dir__() if n not in {*own, *_SUBMODULES, "Any", "annotations", "torch"}
        ]
    elif name in _ALIASES:
        found = _ALIASES[name]
    elif name in _methods.WRITING:
        found = getattr(Tensor, name)
    elif name in _ELSEWHERE:
        found = getattr(_import_module(f"rushlight.{_ELSEWHERE[name]}"), name)
    elif name in _SUBMODULES:
        try:
            return _import_module(f"rushlight.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"rushlight.{name}":
                raise
            raise AttributeError(f"module 'rushlight' has no submodule {name!r} yet") from None
    elif name in _CONSTANTS:
        found = _CONSTANTS[name]
    elif name in _OF_TORCH and _sys.modules.get("torch") is _sys.modules[__name__]:
        return _import_module(f"torch.{name}")  # which compat/import_hook.py makes
    elif name in _INNER:
        found = getattr(_import_module("rushlight.ops").aten, name)
    else:
        raise AttributeError(
            f"module 'rushlight' has no attribute {name!r}: not implemented here; docs/coverage.md lists "
            "what is"
        )
    if name != "Storage":  # it follows the default dtype
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    names = {n for n in _methods.index.FUNCTIONS if "." not in n}
    return sorted({*globals(), *names, *_ALIASES, *_ELSEWHERE, *_SUBMODULES, *_CONSTANTS})
