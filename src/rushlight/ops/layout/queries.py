"""Questions about tensors that need no computing: `is_tensor`, `numel`, `result_type`..."""

from __future__ import annotations

import itertools
from typing import Any

from rushlight._backends import devices
from rushlight.core import dtypes, modes, storage
from rushlight.core.tensor import Tensor
from rushlight.dispatch import results
from rushlight.dispatch.registry import public
from rushlight.ops.factories.arguments import NUMBERS


@public()
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def _tensor(name: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    return input


def _declare(name: str, doc: str) -> None:
    """A function of the top namespace that is a method of Tensor already."""

    @public(name=name, doc=doc, overridable=True)
    def question(input):
        return getattr(_tensor(name, input), name)()


_declare("numel", "The number of elements.")
_declare("get_device", "The index of the device of the tensor; -1 for the CPU.")
_declare("is_floating_point", "Whether the dtype is a floating-point type (not complex).")
_declare("is_complex", "Whether the dtype is complex.")
_declare("is_signed", "Whether the dtype holds negative numbers.")
_declare("is_inference", "Whether the tensor was made in inference mode.")
_declare(
    "is_conj",
    "Whether the tensor is a view of conjugates: see Note [Conjugates are views] in _backends/math_bits.py.",
)
_declare("is_neg", "Whether the tensor is a view of negatives.")


@public(overridable=True)
@public("Tensor")
def is_nonzero(input):
    """Whether the only element of a tensor is not 0; RuntimeError if it has not one element."""
    return bool(_tensor("is_nonzero", input))


@public(overridable=True)
@public("Tensor")
def is_same_size(input, other):
    """Whether two tensors have the same shape."""
    if input.is_nested or other.is_nested:
        return same_nested_size(input, other)
    return _tensor("is_same_size", input)._array.shape == other._array.shape


def same_nested_size(input: Tensor, other: Tensor) -> bool:
    if not (input.is_nested and other.is_nested):
        which = ["" if t.is_nested else "not " for t in (input, other)]
        raise RuntimeError(
            "Expected both self and other to be nested tensors. "
            f"Self is {which[0]}nested. While Other is {which[1]}nested."
        )
    mine, theirs = ([part.shape for part in t.unbind()] for t in (input, other))
    return mine == theirs


@public(overridable=True)
@public("Tensor")
def is_distributed(input):
    """False: no tensor is."""
    _tensor("is_distributed", input)
    return False


@public(overridable=True)
def result_type(tensor1, tensor2):
    """The dtype of an operation between two tensors or numbers.

    >>> import rushlight as torch
    >>> torch.result_type(torch.ones(2, dtype=torch.int8), 1.0)
    torch.float32
    """
    groups: dict[str, Any] = {"dim": None, "zero": None, "wrapped": None}
    for v in (tensor1, tensor2):
        if isinstance(v, Tensor):
            group, d = ("dim" if v._array.ndim else "zero"), v.dtype
        elif isinstance(v, NUMBERS):
            group, d = "wrapped", modes.scalar_dtype(v)
        else:
            raise TypeError(
                "result_type() received an invalid combination of arguments - got "
                f"({type(tensor1).__name__}, {type(tensor2).__name__})"
            )
        groups[group] = d if groups[group] is None else dtypes.promote_types(groups[group], d)
    return dtypes.result_dtype(**groups)


@public("Tensor")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are the same view of the same memory."""
    if not isinstance(tensor, Tensor):
        kind = results.kind(tensor)
        raise TypeError(f"is_set_to(): argument 'tensor' (position 1) must be Tensor, not {kind}")
    a, b = self._array, tensor._array
    return (
        a.dtype is b.dtype
        and a.shape == b.shape
        and a.strides == b.strides
        and (a.size > 0 or a is b)
        and devices.of(a).address(a) == devices.of(b).address(b)
    )


@public("Tensor")
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, outermost first.

    With `ambiguity_check` True or a list of memory formats, RuntimeError where dimensions of size 1 or equal
    strides leave several orders, unless the tensor has exactly one of the formats.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, (bool, list)) or not all(
        isinstance(each, dtypes.memory_format) for each in formats
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    if ambiguity_check is not False:
        several = 1 in self.shape or any(a == b for a, b in itertools.pairwise(strides))
        if several and sum(self.is_contiguous(memory_format=each) for each in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory "
                "formats."
            )
        last = self._array.ndim == 4 and self.is_contiguous(memory_format=dtypes.channels_last)
        if several and self.is_contiguous() == last:
            raise RuntimeError("The tensor does not have unique dim order.")
    return tuple(sorted(range(self._array.ndim), key=lambda d: -strides[d]))


@public("Tensor")
def storage_type(self: Tensor) -> type:
    """The class of the typed storage, such as `FloatStorage`."""
    return getattr(storage, f"{self.dtype.scalar_name}Storage")


@public()
def typename(obj: Any) -> str:
    """The name of a tensor's type, the full name of a class or function, or that of any other object's class."""
    if isinstance(obj, Tensor):
        return obj.type()
    if obj is Tensor:
        return "torch.Tensor"
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if name is None:
        obj, name = type(obj), type(obj).__qualname__
    module = getattr(obj, "__module__", None) or ""
    if module in ("builtins", ""):
        return name
    return f"{'torch' + module.removeprefix('rushlight') if module.startswith('rushlight') else module}.{name}"


@public(overridable=True)
def _assert(condition, message):
    """`assert condition, message` as a function: tracers record it."""
    assert condition, message
