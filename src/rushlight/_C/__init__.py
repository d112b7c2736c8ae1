"""The names of PyTorch's C module that programs import."""

from __future__ import annotations

import enum
import weakref
from typing import Any

from rushlight._backends import math_bits
from rushlight._ops import DispatchKey, _AutoDispatchBelowAutograd
from rushlight.autograd.state import thread
from rushlight.core.errors import LinAlgError as _LinAlgError
from rushlight.core.stub import stub
from rushlight.dispatch.overrides import disabled as _disabled_torch_function_impl
from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "Tag", "_AutoDispatchBelowAutograd", "_LinAlgError", "_disabled_torch_function_impl",
    "compiled_with_cxx11_abi", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
    "set_anomaly_enabled",
]  # fmt: skip


@stub("no-op", "Operators that are declared with tags do not keep them.")
class Tag(enum.Enum):
    """What a program may say of an operator that it declares: `torch.library.define(..., tags=torch.Tag.pointwise)`."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on, see `autograd.set_detect_anomaly`.

    >>> import rushlight as torch
    >>> torch.is_anomaly_enabled()
    False
    """
    return thread.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection checks for nan."""
    return thread.anomaly_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Call `autograd.set_detect_anomaly`."""
    import rushlight

    rushlight.autograd.set_detect_anomaly(enabled, check_nan)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for backward."""
    return thread.grad


def _set_conj(tensor: Any, on: bool) -> None:
    """Let the memory of a complex tensor be read as conjugates, or as it lies there."""
    tensor._array = math_bits.marked(tensor._array, on, tensor.is_neg())


def _set_neg(tensor: Any, on: bool) -> None:
    """Let the memory of a tensor be read with the other sign, or as it lies there."""
    tensor._array = math_bits.marked(tensor._array, tensor.is_conj(), on)


class _WeakTensorRef:
    """A reference that does not keep its tensor."""

    def __init__(self, tensor: Any) -> None:
        self._ref = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._ref() is None


def compiled_with_cxx11_abi() -> bool:
    """True, as in PyTorch since 2.6."""
    return True


def _get_tracing_state() -> None:
    """None: `torch.jit.trace` does not trace.

    >>> _get_tracing_state() is None
    True
    """


def _are_functorch_transforms_active() -> bool:
    """Whether a function transform (`vmap`, `jvp`) is running."""
    from rushlight.dispatch.transforms import opened

    return bool(opened)


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether `vmap` warns of operators that run once for each element."""
    from rushlight.dispatch import batch

    return batch.warnings_on


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Let `vmap` warn, or not, of operators that run once for each element."""
    from rushlight.dispatch import batch

    batch.warnings_on = enabled


def _get_default_device() -> str:
    """The device of the default tensor type, whatever `set_default_device` says."""
    return "cpu"


def _get_accelerator() -> object:
    """The accelerator; `cpu` without one."""
    import rushlight

    return rushlight.accelerator.current_accelerator() or rushlight.device("cpu")


@stub("no-op", "Nothing is recorded.")
def _log_api_usage_once(event: str) -> None:
    """Has no effect."""


@stub("no-op", "There is no TorchScript compiler.")
def _jit_set_profiling_mode(*values: object) -> None:
    """A switch of PyTorch's just-in-time compiler, without effect."""


_jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_set_profiling_mode
_jit_set_nvfuser_enabled = _jit_override_can_fuse_on_cpu = _jit_set_profiling_mode
_jit_override_can_fuse_on_gpu = _jit_set_profiling_mode


has_lapack, has_mkl = True, False  # what PyTorch may be built with: NumPy brings LAPACK


def _infer_size(a: Any, b: Any) -> Any:
    """The shape to which two shapes broadcast."""
    import rushlight

    return rushlight.broadcast_shapes(a, b)


_TensorMeta = type  # the class of `Tensor`, for metaclasses of programs


class PyTorchFileReader:
    """The records of a file that `torch.save` wrote, by name."""

    def __init__(self, name_or_buffer: Any) -> None:
        from rushlight.serialization.archive import ArchiveReader

        self._own = None if hasattr(name_or_buffer, "read") else open(name_or_buffer, "rb")  # noqa: SIM115 - closed with the reader
        self._archive = ArchiveReader(self._own or name_or_buffer)

    def __del__(self) -> None:
        if self._own is not None:
            self._own.close()

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return self._archive.names()

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """The content of a record; RuntimeError if there is none."""
        return self._archive.read(name)

    def get_record_size(self, name: str) -> int:
        """Bytes in a record."""
        return self._archive.size(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """An empty tensor whose storage holds a record: `numel` elements of `dtype`, or bytes for `UntypedStorage`."""
        import rushlight as torch

        dtype = torch.uint8 if dtype is torch.UntypedStorage else dtype
        content = self._archive.array(name)
        if content.size != numel * dtype.itemsize:
            raise RuntimeError(
                f"record size ({content.size} bytes) does not match expected size ({numel * dtype.itemsize} bytes = "
                f"{numel} elements * {dtype.itemsize} bytes/element) for dtype {dtype}"
            )
        return torch.from_numpy(content).view(dtype)[:0]


class PyTorchFileWriter:
    """Writes the records of a file that `torch.load` and `PyTorchFileReader` read."""

    def __init__(self, name_or_buffer: Any) -> None:
        from pathlib import PurePath

        from rushlight.serialization.archive import ArchiveWriter

        self._own = None if hasattr(name_or_buffer, "write") else open(name_or_buffer, "wb")  # noqa: SIM115 - closed at the end
        folder = PurePath(name_or_buffer).stem if self._own else "archive"
        self._archive = ArchiveWriter(self._own or name_or_buffer, folder)

    def write_record(self, name: str, data: Any, size: int) -> None:
        """Add a record: the first `size` bytes of bytes, or of a storage."""
        content = data if isinstance(data, bytes) else bytes(data.untyped())
        self._archive.write(name, content[:size])

    def write_end_of_file(self) -> None:
        """Complete the file."""
        self._archive.write("version", b"3\n")  # of the format
        self._archive.close()
        if self._own is not None:
            self._own.close()


def _dispatch_isTensorSubclassLike(tensor: Any) -> bool:
    """Whether calls with a tensor are handed to a `__torch_dispatch__`."""
    from rushlight.dispatch.handlers import asked

    return asked((tensor,))


class Graph:
    """A name for annotations: there is no TorchScript, so nothing is one."""


class Node:
    """A name for annotations: there is no TorchScript, so nothing is one."""


class Value:
    """A name for annotations: there is no TorchScript, so nothing is one."""


def __getattr__(name: str) -> object:
    if name in ("_functorch", "_nn", "_profiler"):
        import importlib

        return importlib.import_module(f"rushlight._C.{name}")
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
