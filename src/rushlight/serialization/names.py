"""Names in checkpoints: PyTorch's names for classes and functions of Rushlight, and which of them a file may use.

Note [What a file may name]
    A pickle is a program: it names callables and calls them. Under `weights_only=True` (the default) a file may name only
    what `plain_names` lists and what the user added by `add_safe_globals`. It gets Rushlight's functions as `Name`
    objects, which have no attributes to set and no methods, so that it can only call them.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NoReturn

from rushlight.core import dtypes
from rushlight.core.device import device
from rushlight.core.size import Size
from rushlight.serialization.pytorch_modules import MODULES

# The element type of each storage class PyTorch's files name. UntypedStorage holds bytes.
STORAGE_DTYPES: dict[str, dtypes.dtype] = {
    f"{each.scalar_name}Storage": each for each in dtypes.ALL if each not in dtypes.WITHOUT_STORAGE
}


class Name:
    """A name of PyTorch in a checkpoint, `Name("torch._utils", "_rebuild_tensor_v2")`, and its object in Rushlight.

    `save` writes it as that name; a loaded file can call it and do nothing else with it.
    """

    __slots__ = ("meaning", "module", "name")

    module: str
    name: str
    meaning: Any

    def __init__(self, module: str, name: str, meaning: Any = None) -> None:
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "meaning", meaning)

    def __call__(self, *args: Any) -> Any:
        return self.meaning(*args)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is closed")

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


class StorageType:
    """`torch.FloatStorage`... in a file: the dtype of a storage's elements; None for bytes."""

    __slots__ = ("_dtype",)

    _dtype: dtypes.dtype | None

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        object.__setattr__(self, "_dtype", dtype)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError("StorageType is closed")

    @property
    def dtype(self) -> dtypes.dtype:
        return self._dtype or dtypes.uint8


@cache
def plain_names() -> dict[str, Any]:
    """PyTorch's full name -> object of Rushlight, for all names that a file of tensors and containers needs."""
    from rushlight.core.tensor import Tensor
    from rushlight.nn import parameter
    from rushlight.serialization import rebuild

    functions: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": rebuild.tensor_v1,
        "torch._utils._rebuild_tensor_v2": rebuild.tensor_v2,
        "torch._utils._rebuild_tensor_v3": rebuild.tensor_v3,
        "torch._utils._rebuild_meta_tensor_no_storage": rebuild.meta_tensor,
        "torch._utils._rebuild_sparse_tensor": rebuild.sparse_tensor,
        "torch._utils._rebuild_nested_tensor": rebuild.nested_tensor,
        "torch.nested._internal.nested_tensor._rebuild_njt": rebuild.jagged_tensor,
        "torch._utils._rebuild_parameter": rebuild.parameter,
        "torch._utils._rebuild_parameter_with_state": rebuild.parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": rebuild.from_type,
        "torch._utils._rebuild_wrapper_subclass": rebuild.wrapper_subclass,
        "torch.serialization._get_layout": rebuild.layout,
        "torch.Size": Size,
        "torch.device": device,
        "torch.Tensor": Tensor,
        "torch.nn.parameter.Parameter": parameter.Parameter,
        "torch.nn.parameter.Buffer": parameter.Buffer,
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "builtins.set": set,
        "builtins.complex": complex,
        "builtins.bytearray": rebuild.byte_array,
        "_codecs.encode": rebuild.encoded,
    }
    names: dict[str, Any] = {}
    for full, meaning in functions.items():
        module, _, name = full.rpartition(".")
        names[full] = Name(module, name, meaning)
    for name, dtype in STORAGE_DTYPES.items():
        names[f"torch.{name}"] = StorageType(dtype)
    for full in ("torch.storage.UntypedStorage", "torch.UntypedStorage"):
        names[full] = StorageType(None)
    for dtype in (*dtypes.ALL, *dtypes.EIGHT_BITS):
        names[f"torch.{dtype.name}"] = dtype  # an immutable constant
    return names


# -- names that the user allows -------------------------------------------------------------------------------------------

_safe: dict[str, Any] = {}


def full_name(obj: Any) -> str:
    """`collections.OrderedDict`: module and qualified name, as in a pickle."""
    return f"{obj.__module__}.{obj.__qualname__}"


def _named(objects: Iterable[Any]) -> dict[str, Any]:
    found = {}
    for each in objects:
        if isinstance(each, tuple):
            if len(each) != 2 or not isinstance(each[1], str):
                raise ValueError(f"Expected a tuple of (global, str), got {each!r}")
            found[each[1]] = each[0]
        else:
            found[full_name(each)] = each
    return found


def add_safe_globals(
    safe_globals: list[Callable[..., Any] | tuple[Callable[..., Any], str]],
) -> None:
    """Allow files loaded with `weights_only=True` to name these classes and functions.

    An entry is the object, or (object, the full name that files use for it). A file can then call it with any
    arguments, so add only what is harmless with all of them.

    >>> import rushlight as torch
    >>> torch.serialization.add_safe_globals([set])
    >>> set in torch.serialization.get_safe_globals()
    True
    """
    _safe.update(_named(safe_globals))


def get_safe_globals() -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
    """The objects that `add_safe_globals` allowed."""
    return [
        obj if getattr(obj, "__qualname__", None) and full_name(obj) == name else (obj, name)
        for name, obj in _safe.items()
    ]


def clear_safe_globals() -> None:
    """Remove all objects that `add_safe_globals` allowed."""
    _safe.clear()


class safe_globals:
    """Context manager: `add_safe_globals` for the length of a block."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = dict(_safe)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        _safe.clear()
        _safe.update(self._before)


def allowed_object(full: str) -> Any:
    """The object that the user allowed under this name, or None. PyTorch's name of an object of Rushlight counts too."""
    if full in _safe:
        return _safe[full]
    for name, obj in _safe.items():
        if name.startswith("rushlight.") and (
            torch_name(obj) == tuple(full.rsplit(".", 1)) or full_name(obj) == full
        ):
            return obj
    return None


def is_allowed(obj: Any) -> bool:
    return any(obj is each for each in _safe.values())


# -- names of Rushlight and of PyTorch ------------------------------------------------------------------------------------


def torch_name(obj: Any) -> tuple[str, str] | None:
    """(module, name) under which PyTorch has the counterpart of a class or function; None if it is not Rushlight's.

    Of a class it is where PyTorch defines it, of a function the outermost package that has it.
    """
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not module or not name or module.partition(".")[0] != "rushlight":
        return None
    parts = module.split(".")
    if isinstance(obj, type):
        for theirs, names in MODULES.get(".".join(parts[1:]), {}).items():
            if name in names.split():
                return theirs, name
    for end in range(1, len(parts) + 1):
        found = sys.modules.get(".".join(parts[:end]))
        if found is not None and _lookup(found, name) is obj:
            return ".".join(["torch", *parts[1:end]]), name
    return None


def resolve(module: str, name: str) -> Any:
    """The object of Rushlight for PyTorch's `module.name`, searched in the module of that path, then in its parent packages.

    AttributeError if there is none.
    """
    import importlib

    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        path = ".".join(["rushlight", *parts[1:end]])
        try:
            found = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name and path.startswith(error.name):
                continue
            raise
        obj = _lookup(found, name)
        if obj is not None:
            return obj
    raise AttributeError(f"the file names {module}.{name}, which Rushlight does not have")


def _lookup(module: Any, qualified_name: str) -> Any:
    obj = module
    for part in qualified_name.split("."):
        obj = getattr(obj, part, None)
    return obj
