"""What a checkpoint calls things: PyTorch's names for our classes and functions, and which of them a file may use.

Note [What a file may name]
    A pickle is a program: it names callables and calls them. Under `weights_only=True` (the default) a file may name only
    what `plain_names` lists and what the user added by `add_safe_globals`. Our own are handed to it as `Name` objects,
    which have no attributes to set and no methods to find, so that it can call them and do nothing else with them.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.core import dtypes
from rushlight.core.device import device
from rushlight.core.size import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The element type of each storage class PyTorch's files name. UntypedStorage holds bytes.
STORAGE_DTYPES: dict[str, dtypes.dtype] = {
    f"{each.scalar_name}Storage": each for each in dtypes.ALL if each not in dtypes.WITHOUT_STORAGE
}


class Name:
    """A name of PyTorch's in a checkpoint, `Name("torch._utils", "_rebuild_tensor_v2")`, with what it means here.

    Written, it becomes that name; read, it can be called. It is closed to everything else.
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
    """What `torch.FloatStorage` is in a file: the type of a storage's elements; None for bytes."""

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
    """PyTorch's full name -> what stands for it, for everything that a file of tensors and containers needs."""
    from rushlight.core.tensor import Tensor
    from rushlight.nn import parameter
    from rushlight.serialization import rebuild

    functions: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": rebuild.tensor_v1,
        "torch._utils._rebuild_tensor_v2": rebuild.tensor_v2,
        "torch._utils._rebuild_tensor_v3": rebuild.tensor_v3,
        "torch._utils._rebuild_meta_tensor_no_storage": rebuild.meta_tensor,
        "torch._utils._rebuild_sparse_tensor": rebuild.sparse_tensor,
        "torch._utils._rebuild_parameter": rebuild.parameter,
        "torch._utils._rebuild_parameter_with_state": rebuild.parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": rebuild.from_type,
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
        names[f"torch.{dtype.name}"] = dtype  # a constant that refuses to be changed
    return names


# -- names the user vouches for ------------------------------------------------------------------------------------------

_safe: dict[str, Any] = {}


def full_name(thing: Any) -> str:
    """`collections.OrderedDict`: module and qualified name, as a pickle has them."""
    return f"{thing.__module__}.{thing.__qualname__}"


def _named(things: Iterable[Any]) -> dict[str, Any]:
    found = {}
    for each in things:
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

    An entry is the object, or (object, the full name that files use for it). A file can then call it with arguments of
    its own choice, so add only what is harmless with any.

    >>> import rushlight as torch
    >>> torch.serialization.add_safe_globals([set])
    >>> torch.serialization.get_safe_globals()
    [<class 'set'>]
    >>> torch.serialization.clear_safe_globals()
    """
    _safe.update(_named(safe_globals))


def get_safe_globals() -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
    """What `add_safe_globals` allowed so far."""
    return [
        thing
        if getattr(thing, "__qualname__", None) and full_name(thing) == name
        else (thing, name)
        for name, thing in _safe.items()
    ]


def clear_safe_globals() -> None:
    """Forget everything that `add_safe_globals` allowed."""
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


def vouched_for(full: str) -> Any:
    """What the user allowed under this name, or None. PyTorch's names find our objects and the other way round."""
    if full in _safe:
        return _safe[full]
    for name, thing in _safe.items():
        if name.startswith("rushlight.") and torch_name(thing) == tuple(full.rsplit(".", 1)):
            return thing
    return None


def is_vouched_for(thing: Any) -> bool:
    return any(thing is each for each in _safe.values())


# -- ours and theirs -----------------------------------------------------------------------------------------------------


def torch_name(thing: Any) -> tuple[str, str] | None:
    """(module, name) under which PyTorch finds its counterpart of our class or function; None if it is not ours.

    The outermost package that has it: `rushlight.nn.linear.Linear` is saved as `torch.nn.Linear`.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not name or module.partition(".")[0] != "rushlight":
        return None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        found = sys.modules.get(".".join(parts[:end]))
        if found is not None and _lookup(found, name) is thing:
            return ".".join(["torch", *parts[1:end]]), name
    return None


def resolve(module: str, name: str) -> Any:
    """What PyTorch's `module.name` is here, searched in our module of that path and then in the packages around it.

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
        thing = _lookup(found, name)
        if thing is not None:
            return thing
    raise AttributeError(f"the file names {module}.{name}, which Rushlight does not have")


def _lookup(module: Any, qualified_name: str) -> Any:
    thing = module
    for part in qualified_name.split("."):
        thing = getattr(thing, part, None)
    return thing
