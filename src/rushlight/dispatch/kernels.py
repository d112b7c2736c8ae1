"""Kernels of PyTorch's operators that a program replaces: `Library("aten", "IMPL").impl("sum", kernel, "CPU")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.state import count_mode, thread
from rushlight.core.device import device
from rushlight.dispatch import aten_calls, general
from rushlight.dispatch.interpreters import INTERPRETERS
from rushlight.dispatch.overrides import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op

REPLACED: dict[str, Callable] = {}  # PyTorch's name of an operator -> the kernel

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA Meta PrivateUse1 PrivateUse2 PrivateUse3".split()
_KINDS = ("", "Autograd", "Autocast", "Quantized", "Sparse", "SparseCsr", "NestedTensor")
KEYS = frozenset(kind + backend for kind in _KINDS for backend in _BACKENDS) | frozenset(
    "Undefined CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional CompositeImplicitAutograd "
    "CompositeImplicitAutogradNestedTensor Autograd AutogradOther AutogradNestedTensor AutogradFunctionality "
    "ADInplaceOrView BackendSelect Conjugate Dense FPGA FuncTorchBatched FuncTorchBatchedDecomposition "
    "FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode FuncTorchGradWrapper FuncTorchVmapMode Functionalize "
    "Metal MkldnnCPU Negative NestedTensor PreDispatch Python PythonDispatcher PythonTLSSnapshot Quantized Sparse SparseCsr "
    "Vulkan ZeroTensor".split()
)


def check_key(name: str) -> None:
    """RuntimeError for a word that is no dispatch key of PyTorch's; "" is none."""
    if name and name not in KEYS:
        raise RuntimeError(f"could not parse dispatch key: {name}")


def checked_place(name: str) -> str:
    """A device type, a dispatch key or "default"; RuntimeError for other words."""
    if name not in KEYS and name != "default" and device(name).index is not None:
        raise RuntimeError(f"Expected device_type string to not have a device index; got {name}")
    return name


def replace(name: str, kernel: Callable, key: str) -> Callable:
    """Let `kernel` compute an operator on the CPU; returns what takes that back.

    RuntimeError where a program has replaced it already; NotImplementedError for keys of other kinds of kernels.
    """
    if key not in ("", "CPU", "CompositeExplicitAutograd"):
        raise NotImplementedError(
            f"aten::{name}: a kernel for the key {key} cannot be replaced, only that of the CPU"
        )
    if name in REPLACED:
        raise RuntimeError(
            f"aten::{name}: there is already a kernel registered from python overriding it"
        )
    if not REPLACED:
        INTERPRETERS.append(interpret)
    REPLACED[name] = kernel
    count_mode(+1)

    def remove() -> None:
        if REPLACED.pop(name, None) is not None:
            count_mode(-1)
            if not REPLACED:
                INTERPRETERS.remove(interpret)

    return remove


def interpret(call: Call) -> Any:
    """Let a call be computed by the kernel of a program, below autograd."""
    if call.kind == "call" and call.run is general.execute:
        name = aten_calls.aten_names.names(call.op, call.values)
        if name and name[-1] in REPLACED:
            call.run = run
    return NOTHING


def run(op: Op, values: list, out: Any) -> Any:
    """`general.execute` with the kernel of a program."""
    return general.execute(op, values, out, compute)


def compute(op: Op, named: dict, keep: bool) -> tuple[list, dict]:
    """The results of a kernel of a program."""
    kernel = REPLACED[aten_calls.aten_names.names(op, [*named.values()])[-1]]
    _, args, kwargs = aten_calls.overload_of(op, named)
    recording, thread.grad = thread.grad, False
    try:
        found = kernel(*args, **kwargs)
    finally:
        thread.grad = recording
    return list(found) if op.outputs is not None else [found], named
