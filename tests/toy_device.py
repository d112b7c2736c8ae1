"""A second device: arrays that are no NumPy arrays, in memory of their own, which refuse to meet NumPy.

`install()` registers it as users of PyTorch register theirs, under the name "toy". Its kernels are the
reference's, run on the private memory: what it tests is the contract between the operators and a back
end, not the kernels.
"""

from __future__ import annotations

import sys
import types
import weakref
from typing import Any

import numpy as np

import rushlight as torch
from rushlight._backends import cpu, devices


class Allocator:
    """Counts the blocks of memory that are alive."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.made = 0

    def take(self, n: int) -> None:
        self.blocks, self.bytes, self.made = self.blocks + 1, self.bytes + n, self.made + 1

    def give_back(self, n: int) -> None:
        self.blocks, self.bytes = self.blocks - 1, self.bytes - n


allocator = Allocator()


class Block:
    """The memory of one array and of all views of it."""

    __slots__ = ("memory", "n", "__weakref__")

    def __init__(self, memory: np.ndarray) -> None:
        self.memory, self.n = memory, memory.nbytes
        allocator.take(self.n)

    def __del__(self) -> None:
        allocator.give_back(self.n)


alive: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()


def block_of(private: np.ndarray) -> Block:
    """The block that a private array lies in; a new one for memory seen for the first time."""
    root = cpu.root(private)
    block = alive.get(id(root))
    if block is None or block.memory is not root:
        block = alive[id(root)] = Block(root)
    return block


def opened(x: Any) -> Any:
    """What a kernel is called with: private arrays for those of the device; arrays of the CPU are refused."""
    if x.__class__ is Array:
        return x._private
    if isinstance(x, Kernel):
        return x.reference
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError(f"a kernel of the toy device got an array of the CPU, of shape {x.shape}")
    if x.__class__ in (list, tuple):
        return x.__class__([opened(v) for v in x])
    if x.__class__ is dict:
        return {name: opened(v) for name, v in x.items()}
    return x


def closed(x: Any) -> Any:
    """What a kernel returns: arrays of the device for private ones."""
    if isinstance(x, np.ndarray | np.generic):
        return Array(np.asarray(x))
    if x.__class__ in (list, tuple):
        return x.__class__([closed(v) for v in x])
    if isinstance(x, tuple):  # with names
        return type(x)(*[closed(v) for v in x])
    return x


class Kernel:
    """A kernel of the device: that of the reference, on private memory. Kernels may be handed to kernels."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        given = [opened(a) for a in args]
        result = self.reference(*given, **opened(kwargs))
        if out is not None:
            return out
        for a, private in zip(args, given, strict=True):
            if result is private and a.__class__ is Array:
                return a  # the same object
        return closed(result)


class Array:
    """An array of the toy device."""

    __slots__ = ("_private", "_block", "__weakref__")

    def __init__(self, private: np.ndarray) -> None:
        self._private, self._block = private, block_of(private)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an array of the toy device is no NumPy array: copy it with .cpu()")

    __array_ufunc__ = None

    def __array_function__(self, function: Any, *args: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} got an array of the toy device")

    @property
    def base(self) -> Array | None:
        return None if self._block.memory is self._private else Array(self._block.memory)

    def __len__(self) -> int:
        return len(self._private)

    def __iter__(self) -> Any:
        return (closed(x) for x in self._private)

    def __bool__(self) -> bool:
        return bool(self._private)

    def __int__(self) -> int:
        return int(self._private)

    def __float__(self) -> float:
        return float(self._private)

    def __complex__(self) -> complex:
        return complex(self._private)

    def __index__(self) -> int:
        return self._private.__index__()

    def __repr__(self) -> str:
        return f"toy({self._private!r})"

    def __setitem__(self, index: Any, value: Any) -> None:
        self._private[opened(index)] = opened(value)


def _attribute(name: str) -> property:
    def read(self: Array) -> Any:
        return closed(getattr(self._private, name))

    def write(self: Array, value: Any) -> None:
        setattr(self._private, name, opened(value))

    return property(read, write)


def _method(name: str) -> Any:
    def call(self: Array, *args: Any, **kwargs: Any) -> Any:
        given = [opened(a) for a in args]
        result = getattr(self._private, name)(*given, **opened(kwargs))
        return self if result is self._private else closed(result)

    call.__name__ = name
    return call


for _name in "shape strides dtype ndim size itemsize nbytes flags T real imag".split():
    setattr(Array, _name, _attribute(_name))
for _name in (
    "reshape transpose swapaxes view copy astype fill item tolist ravel squeeze "
    "any all sum min max __getitem__"
).split():
    setattr(Array, _name, _method(_name))
for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split():
    for _form in ("", "r", "i"):
        setattr(Array, f"__{_form}{_name}__", _method(f"__{_form}{_name}__"))
for _name in "neg pos abs invert eq ne lt le gt ge".split():
    setattr(Array, f"__{_name}__", _method(f"__{_name}__"))
Array.__hash__ = object.__hash__  # type: ignore[method-assign]


class Kernels:
    """The kernels of the toy device: those of the reference, on private memory."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._reference, name)
        if isinstance(kernel, types.ModuleType):  # linalg, fft
            return Kernels(kernel)
        return Kernel(kernel)


class ToyKernels(Kernels):
    """What the reference cannot know: how arrays come here and go."""

    def device_of(self, a: Array) -> torch.device:
        return torch.device("toy", 0)

    def from_numpy(self, a: np.ndarray) -> Array:
        if not isinstance(a, np.ndarray):
            raise TypeError(f"from_numpy() takes a NumPy array, not {type(a).__name__}")
        return Array(a.copy(order="K"))

    def to_numpy(self, a: Array) -> np.ndarray:
        if a.__class__ is not Array:
            raise TypeError(f"to_numpy() takes an array of the device, not {type(a).__name__}")
        return a._private.copy(order="K")

    def asarray(self, a: Any, dtype: Any = None) -> Array:
        return (
            a
            if a.__class__ is Array and dtype in (None, a.dtype)
            else Array(np.asarray(opened(a), dtype))
        )


module = types.ModuleType("torch.toy", "The functions of the toy device.")
module.is_available = lambda: True
module.device_count = lambda: 1
module.current_device = lambda: 0
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None


def install() -> None:
    """Register the device, as users of PyTorch do."""
    torch.utils.rename_privateuse1_backend("toy")
    torch._register_device_module("toy", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    devices.register("toy", ToyKernels(cpu), Array)


def uninstall() -> None:
    """Undo `install`, for the other tests of this process."""
    from rushlight.core import device
    from rushlight.nn.utils.rnn import PackedSequence

    device.available.discard("toy")
    device.renamed.clear()
    del devices._of_type["toy"], devices._of_class[Array], torch.toy, sys.modules["rushlight.toy"]
    for cls in (
        torch.Tensor,
        torch.nn.Module,
        PackedSequence,
        torch.UntypedStorage,
        torch.TypedStorage,
    ):
        for name in ("toy", "is_toy"):
            if name in vars(cls):
                delattr(cls, name)
