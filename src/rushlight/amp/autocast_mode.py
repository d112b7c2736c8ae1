"""`autocast`: inside of its block matrix products run in bfloat16, sensitive operators in float32.

Note [What autocast casts]
    PyTorch's choice for the CPU. LOWER: products, convolutions, attention: float32 inputs become
    bfloat16. FLOAT32: losses, norms of distances, factorizations, Fourier transforms: bfloat16 and
    float16 inputs become float32. All other operators take what they get. float64 is never touched.
    The bfloat16 copy of a parameter is made once per block, so that its gradients, where it is used
    twice, meet in bfloat16 and are cast back once, as in PyTorch.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from rushlight.autograd.state import active, count_mode, thread
from rushlight.core import dtypes
from rushlight.core.device import device
from rushlight.core.tensor import Tensor
from rushlight.dispatch.interpreters import INTERPRETERS, Call
from rushlight.dispatch.overrides import NOTHING

_WHERE = {
    "": "mm matmul bmm addmm baddbmm addbmm convolution conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d prelu inner tensordot",
    "internal": "einsum",
    "nn.functional": "linear scaled_dot_product_attention",
    "linalg": "multi_dot vecdot",
}
LOWER = frozenset(f"{w}.{n}" if w else n for w, names in _WHERE.items() for n in names.split())
PRODUCTS = LOWER | {"internal.adjoint_times", "internal.times_adjoint"}  # also those of gradients
_WHERE = {
    "": "binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss kl_div margin_ranking_loss "
    "poisson_nll_loss triplet_margin_loss prod max_pool3d ctc_loss cdist pdist inverse cholesky svd "
    "qr polar quantile nanquantile trace view_as_complex slogdet geqrf orgqr lu lu_solve "
    "cholesky_inverse cholesky_solve triangular_solve",
    "aten": "stft",
    "nn.functional": "avg_pool3d adaptive_avg_pool3d adaptive_max_pool2d_with_indices "
    "adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d cross_entropy nll_loss mse_loss "
    "l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div hinge_embedding_loss "
    "cosine_embedding_loss margin_ranking_loss multi_margin_loss triplet_margin_loss ctc_loss "
    "poisson_nll_loss soft_margin_loss multilabel_margin_loss grid_sample",
    "linalg": "det inv solve cholesky svd svdvals qr eig eigh eigvals eigvalsh slogdet lstsq cond "
    "matrix_rank inv_ex cholesky_ex solve_ex lu lu_factor solve_triangular tensorinv tensorsolve",
    "fft": "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft",
}
FLOAT32 = frozenset(f"{w}.{n}" if w else n for w, names in _WHERE.items() for n in names.split())
# Written in products here, and no product in PyTorch.
UNTOUCHED = frozenset(["nn.functional.bilinear"])
_LOW = (dtypes.bfloat16, dtypes.float16)
_FLOATS = frozenset((dtypes.float32, *_LOW))


class _State(threading.local):
    """The state of `autocast` in one thread."""

    enabled = False  # for the CPU
    dtype = dtypes.bfloat16
    gpu_dtype = dtypes.float16
    cache_enabled = True
    nesting = 0

    def __init__(self) -> None:
        self.cache: dict[int, tuple[Tensor, int, Tensor]] = {}


_state = _State()


def _interpret(call: Call) -> Any:
    """Cast the inputs of a call while autocast is on in this thread.

    Nothing more is cast inside of it: a factorization's inner products stay in float32. Where no other mode is on the
    call is then one like any other, which the operator's printed function takes.
    """
    op = call.op
    if not _state.enabled or call.out is not None or call.kind == "inplace":
        return NOTHING
    values, back = call.values, False
    # A product in a backward pass, whose gradient has the dtype of what it belongs to: the engine of PyTorch casts it.
    backward = op.path in PRODUCTS and thread.task is not None and not thread.grad
    if backward or op.path in LOWER or op.path in FLOAT32:
        to = dtypes.float32 if op.path in FLOAT32 else _state.dtype
        inputs: Any = {op.params.index(i) for i in op.inputs}
        if op.composite:  # some of its parameters may be tensors without saying so
            inputs = range(len(op.params))
        back = backward and any(
            isinstance(v, Tensor) and v.dtype is dtypes.float32 for v in call.values
        )
        values = [_cast(v, to) if k in inputs else v for k, v in enumerate(values)]
    elif op.composite and op.path not in UNTOUCHED:
        return NOTHING
    set_autocast_cpu_enabled(False)
    try:
        if active.modes:
            result = call.proceed(values)
        else:
            result = op.by_names(dict(zip(op.params, values, strict=True)))
        return result.to(dtypes.float32) if back and isinstance(result, Tensor) else result
    finally:
        set_autocast_cpu_enabled(True)


def _cast(v: Any, to: Any) -> Any:
    if isinstance(v, Tensor):
        if v.dtype is to or v.dtype not in _FLOATS:
            return v
        return _cached(v, to) if to is not dtypes.float32 else v.to(to)
    if v.__class__ in (list, tuple):
        cast = [_cast(x, to) for x in v]
        return v if all(a is b for a, b in zip(cast, v, strict=True)) else v.__class__(cast)
    return v


def _cached(t: Tensor, to: Any) -> Tensor:
    if not (_state.cache_enabled and t.is_leaf and t.requires_grad):
        return t.to(to)
    found = _state.cache.get(id(t))
    if found is not None and found[1] == t._version and found[2].dtype is to:
        # a copy made under no_grad carries no history, and is none for a block with gradients
        if found[2].requires_grad or not thread.grad:
            return found[2]
    made = t.to(to)
    _state.cache[id(t)] = (t, t._version, made)
    return made


# -- the state, asked and set ----------------------------------------------------------------------


def _type_of(device_type: str | None) -> str:
    return device(device_type or "cuda").type


def is_autocast_available(device_type: str) -> bool:
    """True if `autocast` supports the device type."""
    return _type_of(device_type) in "cpu cuda xpu mps hpu mtia maia xla ipu".split()


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """True if autocast is on for a device type; without an argument, for CUDA: False."""
    return _type_of(device_type) == "cpu" and _state.enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool = False) -> None:
    """Switch autocast for a device type; for others than the CPU without effect."""
    if isinstance(device_type, str) and _type_of(device_type) == "cpu":
        set_autocast_cpu_enabled(enabled)


def is_autocast_cpu_enabled() -> bool:
    """True if autocast is on for the CPU."""
    return _state.enabled


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU, in this thread."""
    enabled = bool(enabled)
    if enabled == _state.enabled:
        return
    _state.enabled = enabled
    count_mode(+1 if enabled else -1)
    if enabled and _interpret not in INTERPRETERS:
        # before the profiler: what it sees is the call that is made
        INTERPRETERS.insert(0, _interpret)


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that products are computed in under autocast."""
    return _state.dtype if _type_of(device_type) == "cpu" else _state.gpu_dtype


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype that products are computed in under autocast."""
    if _type_of(device_type) == "cpu":
        _state.dtype = dtype
    else:
        _state.gpu_dtype = dtype


def get_autocast_cpu_dtype() -> Any:
    """`get_autocast_dtype("cpu")`."""
    return _state.dtype


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    _state.dtype = dtype


def get_autocast_gpu_dtype() -> Any:
    """`get_autocast_dtype("cuda")`."""
    return _state.gpu_dtype


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    _state.gpu_dtype = dtype


def is_autocast_cache_enabled() -> bool:
    """True if the casts of parameters are cached until the end of the block."""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep the casts of parameters until the end of the block, or do not."""
    _state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the casts of parameters."""
    _state.cache.clear()


def autocast_increment_nesting() -> int:
    """Enter one block; how many there are."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Leave one block; how many are left."""
    _state.nesting -= 1
    return _state.nesting


# -- blocks ----------------------------------------------------------------------------------------


class autocast:
    """A block, or a decorated function, whose matrix products run in `dtype` (bfloat16).

    On the CPU `dtype` may be bfloat16 or float16; for a device that is not here the block has no
    effect, and says so in a warning. See Note [What autocast casts].

    >>> import rushlight as torch
    >>> a = torch.ones(2, 2)
    >>> with torch.autocast("cpu"):
    ...     (a @ a).dtype, (a + a).dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`: autocast('cpu')"
            )
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = _type_of(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        )
        self._enabled = bool(enabled)
        if self._enabled:
            self._check()
        self._before: list[tuple] = []

    def _check(self) -> None:
        if self.device != "cpu":
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast."
                if self.device == "cuda"
                else f"User provided device_type of '{self.device}', but {self.device.upper()} is not available. Disabling",
                stacklevel=3,
            )
            self._enabled = False
        elif self.fast_dtype not in _LOW:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast "
                "only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=3,
            )
            self._enabled = False

    def __enter__(self) -> autocast:
        self._before.append((_state.enabled, _state.dtype, _state.cache_enabled))
        if self.device == "cpu":
            set_autocast_cpu_enabled(self._enabled)
            _state.dtype = self.fast_dtype
        _state.cache_enabled = self._cache_enabled
        autocast_increment_nesting()
        return self

    def __exit__(self, *exception: object) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, _state.cache_enabled = self._before.pop()
        set_autocast_cpu_enabled(enabled)
        _state.dtype = dtype

    def __call__(self, function: Callable) -> Callable:
        if not callable(function):
            return function

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return decorated


# -- autograd functions that say what they need ----------------------------------------------------


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str = "cuda", cast_inputs: Any = None
) -> Callable:
    """Decorate the `forward` of an `autograd.Function`: its inputs cast, its body without autocast.

    Without `cast_inputs` the forward runs as it is; backward (see `custom_bwd`) in the same mode.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                ctx,
                *(_cast_floats(v, cast_inputs) for v in args),
                **{k: _cast_floats(v, cast_inputs) for k, v in kwargs.items()},
            )

    return decorated


def _cast_floats(v: Any, dtype: Any) -> Any:
    if isinstance(v, Tensor):
        return v.to(dtype) if v.dtype in _FLOATS else v
    if v.__class__ in (list, tuple):
        return v.__class__(_cast_floats(x, dtype) for x in v)
    if v.__class__ is dict:
        return {k: _cast_floats(x, dtype) for k, x in v.items()}
    return v


def custom_bwd(bwd: Callable | None = None, *, device_type: str = "cuda") -> Callable:
    """Decorate the `backward` of an `autograd.Function`: it runs in the mode its forward ran in."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return decorated
