"""`device`: where a tensor's memory is.

>>> device("cuda:1")
device(type='cuda', index=1)
>>> with device("meta"):
...     get_default_device()
device(type='meta')
"""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from rushlight.core import modes

# All types of PyTorch can be named and compared; those in `available` have a back end.
TYPES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
available = {"cpu", "meta"}  # meta: shapes and dtypes without memory; back ends add theirs
renamed: list[str] = []  # the name of the device type "privateuseone", once it was given one
MAX_INDEX = 127  # PyTorch keeps the index in eight bits


class device:
    """A device type and perhaps an index: `device("cpu")`, `device("cuda", 1)`.

    RuntimeError for a string that names no device. `device("cpu") != device("cpu:0")`, as in
    PyTorch. As a context manager it is the default device of this thread until the block ends.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, type: str | device | int, index: int | None = None) -> device:
        if isinstance(type, device):
            if index is not None:
                _refuse(type, index)
            return type
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            if type < 0:
                raise RuntimeError(f"Device index must not be negative, got {type}")
            if (accelerator := current_accelerator()) is not None:
                return cls(accelerator, type)
            raise RuntimeError(
                "Cannot access accelerator device when none is available: "
                f"device({type}) means accelerator {type}, and Rushlight has none; use device('cpu')"
            )
        if not isinstance(type, str):
            _refuse(type, *([] if index is None else [index]))
        name, number = _parse(type)
        if index is not None:
            if number is not None:
                raise RuntimeError(
                    "type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            number = _checked_index(index)
        self = object.__new__(cls)
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", number)
        return self

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"attribute {attribute!r} of 'torch.device' objects is not writable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        return f"device(type={self.type!r}{'' if self.index is None else f', index={self.index}'})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> device:
        # A stack, not a slot on self: one device object may be entered twice, and by several
        # threads.
        modes.thread.device_stack = (modes.thread.device, modes.thread.device_stack)
        modes.device_set = True
        modes.thread.device = self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.thread.device, modes.thread.device_stack = modes.thread.device_stack


def get_default_device() -> device:
    """The device where tensors are made in this thread unless `device=` says otherwise."""
    return modes.thread.device or CPU


def set_default_device(device: str | device | None) -> None:
    """Make tensors on `device` in this thread from now on; None: on the CPU.

    RuntimeError for a bad name; AssertionError for a device Rushlight cannot compute on, before
    anything changes.
    """
    modes.device_set = True
    modes.thread.device = None if device is None else check_available(_device(device))


def check_available(device: device) -> device:
    """`device` itself if tensors can be kept there (it has a back end); else AssertionError.

    AssertionError and its first words are PyTorch's for a build without the device.
    """
    if device.type in available:
        return device
    name = device.type.upper()
    raise AssertionError(
        f"Torch not compiled with {name} enabled: the device is {str(device)!r}, and Rushlight has no {name} back end "
        "yet; use device='cpu'"
    )


def current_accelerator() -> str | None:
    """The type of the device, other than the CPU, on which can be computed; None without one."""
    return next((name for name in (*TYPES, *renamed) if name in available - {"cpu", "meta"}), None)


def rename_private(name: str) -> None:
    """Let the device type "privateuseone" have a name of its own; RuntimeError for a second name."""
    if renamed and renamed != [name]:
        raise RuntimeError(
            "torch.register_privateuse1_backend() has already been set! Current backend: "
            f"{renamed[0]}"
        )
    if not renamed:
        renamed.append(name)


def _parse(text: str) -> tuple[str, int | None]:
    """("cuda", 1) from "cuda:1"; the index is decimal digits without leading zeros."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    name, colon, digits = text.partition(":")
    # isascii: "²" is a digit to Python, and int() refuses it
    if colon and not (digits.isascii() and digits.isdigit() and str(int(digits)) == digits):
        raise RuntimeError(f"Invalid device string: {text!r}")
    if not name.replace("_", "a").isalpha():
        raise RuntimeError(f"Invalid device string: {text!r}")
    if renamed and name == "privateuseone":
        name = renamed[0]
    if name not in TYPES and name not in renamed:
        raise RuntimeError(
            f"Expected one of {', '.join(TYPES)} device type at start of device string: {text}"
        )
    if not colon:
        return name, None
    if int(digits) > MAX_INDEX:
        raise RuntimeError(
            f"Could not parse device index '{digits}' in device string '{text}': "
            f"the largest is {MAX_INDEX}"
        )
    return name, int(digits)


def _checked_index(index: object) -> int:
    """The index of a device as an int; TypeError for no integer, RuntimeError for one that is out of range."""
    try:
        number = operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}"
        ) from None
    if number < 0:
        raise RuntimeError(f"Device index must not be negative, got {number}")
    if number > MAX_INDEX:
        raise RuntimeError(f"Device index must be at most {MAX_INDEX}, got {number}")
    return number


def _refuse(*got: object) -> NoReturn:
    names = ", ".join(type(each).__name__ for each in got)
    raise TypeError(
        f"device() received an invalid combination of arguments - got ({names}), but expected one of:\n"
        " * (torch.device device)\n * (str type, int index = -1)\n"
    )


_device = device  # the class, where a parameter is called device
CPU = device("cpu")
META = device("meta")
