"""Names of functions and types as generated code spells them: `torch.nn.functional.relu`, `operator.add`."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from rushlight import overrides
from rushlight.dispatch import methods

_PREFIX = "rushlight"
# Functions of the top namespace that PyTorch has in Python, among its operators in C++; in torch.nn.functional it is the
# other way round.
_IN_PYTHON = frozenset(
    "_assert adaptive_max_pool1d atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
    "cartesian_prod cdist chain_matmul eig einsum from_dlpack is_storage is_tensor lobpcg lstsq lu matrix_rank max_pool1d "
    "max_pool1d_with_indices max_pool2d max_pool3d meshgrid norm pca_lowrank set_default_tensor_type sigmoid solve split "
    "stft svd_lowrank symeig tanh tensordot threshold typename unique unique_consecutive unravel_index".split()
)
_NOT_IN_PYTHON = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus "
    "softshrink".split()
)
_PUBLIC: dict[int, tuple[Any, str]] = {}  # id of a function -> (the function, its public name)


def public_module(name: str) -> str:
    """A module's name as programs import it: `rushlight.nn.functional` is `torch.nn.functional`."""
    if name == _PREFIX or name.startswith(_PREFIX + "."):
        return "torch" + name[len(_PREFIX) :]
    return name


def is_ours(obj: Any) -> bool:
    """Whether an object is defined in this package."""
    module = getattr(obj, "__module__", None) or ""
    return module == _PREFIX or module.startswith((_PREFIX + ".", "torch.")) or module == "torch"


def _reached(module: str, path: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _public_name(function: Any) -> str | None:
    """The public name of one of our functions or classes; None if it has none."""
    kept = _PUBLIC.get(id(function))
    if kept is not None:
        return kept[1]
    module, name = function.__module__, getattr(function, "__name__", "")
    found = None
    if isinstance(function, type):
        for at in (_PREFIX, f"{_PREFIX}.nn", module):
            if _reached(at, function.__qualname__) is function:
                found = f"{public_module(at)}.{function.__qualname__}"
                break
    else:
        found = overrides.resolve_name(function)
        if found is None and _reached(module, name) is function:
            found = f"{public_module(module)}.{name}"
    if found is not None:
        _PUBLIC[id(function)] = (function, found)
    return found


def is_builtin(function: Any) -> bool:
    """Whether PyTorch has this function in C++, so that it is one node and no tracer looks into it.

    >>> import rushlight as torch
    >>> is_builtin(torch.add), is_builtin(torch.einsum), is_builtin(torch.nn.functional.relu)
    (True, False, False)
    """
    where, _, name = (is_ours(function) and _public_name(function) or "").rpartition(".")
    if where == "torch.nn.functional":
        return name in _NOT_IN_PYTHON
    path = f"{where}.{name}".removeprefix("torch.")
    index = methods.index
    known = path in index.FUNCTIONS or path in index.INPLACE or path in methods.WRITING
    return known and path not in _IN_PYTHON


def qualified_name(function: Any) -> str:
    """The full name of a function: a builtin's bare name, else module and name.

    >>> import operator
    >>> import rushlight as torch
    >>> qualified_name(torch.relu), qualified_name(operator.add), qualified_name(len)
    ('torch.relu', '_operator.add', 'len')
    """
    name = getattr(function, "__name__", None)
    if hasattr(function, "overloadpacket") or hasattr(function, "_qualified"):
        return f"torch.ops.{function}"  # torch.ops.aten.add.Tensor
    if name is None:
        raise RuntimeError(f"Unable to find the name of {function!r}: it has no __name__")
    if getattr(builtins, name, None) is function:
        return name
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{public_module(function.__objclass__.__module__)}.{function.__objclass__.__name__}.{name}"
    if is_ours(function) and (found := _public_name(function)) is not None:
        return found
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except OSError as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = getattr(function, "__module__", None) or "<unknown_module>"
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):  # a class method
        return f"{public_module(owner.__module__)}.{owner.__qualname__}.{name}"
    return f"{public_module(module)}.{name}"


def spelled_from_torch(obj: Any) -> str | None:
    """The path of an object below the name `torch`, if generated code can reach it that way."""
    if hasattr(obj, "overloadpacket") or hasattr(obj, "_qualified"):
        return qualified_name(obj)
    if getattr(obj, "namespace", None) == "higher_order":
        known = sys.modules.get("rushlight._higher_order_ops.operators")
        return f"torch.ops.higher_order.{obj}" if getattr(known, str(obj), None) is obj else None
    if not (inspect.isroutine(obj) or isinstance(obj, type)) or not is_ours(obj):
        return None
    found = _public_name(obj)
    if found is None or not found.startswith("torch."):
        return None
    at: Any = sys.modules[_PREFIX]
    for part in found.split(".")[1:]:
        try:
            at = getattr(at, part)
        except AttributeError:
            return None
    return found if at is obj else None


def type_name(obj: Any) -> str:
    """A type as annotations print it: `torch.Tensor`, `int`, `typing.List[int]`."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        if is_ours(obj):
            return _public_name(obj) or f"{public_module(obj.__module__)}.{obj.__qualname__}"
        return f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("rushlight.core.tensor.Tensor", "torch.Tensor")


def target_name(target: Callable | str) -> str:
    """A node's target for people: `operator.add`, `builtins.getattr`, `torch.relu`, `size`."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", None)
    if module == "builtins":
        return f"builtins.{target.__name__}"
    if module == "_operator":
        return f"operator.{target.__name__}"
    return qualified_name(target)
