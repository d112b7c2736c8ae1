"""Modules that hold other modules or parameters in order or by name."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.registration import typename
from rushlight.nn.text import indented

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """The older way to name children: a Module with those given. FutureWarning.

    >>> import warnings
    >>> import rushlight as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.nn.Container(relu=torch.nn.ReLU())
    Container(
      (relu): ReLU()
    )
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated: subclass `nn.Module` instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, child in kwargs.items():
            self.add_module(name, child)


class _Numbered(Module):
    """The base of `Sequential` and `ModuleList`: its children are named "0", "1", ..."""

    def _name_at(self, index: Any) -> str:
        size, index = len(self), operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return next(islice(self._modules, index % size, None))

    def _renumber(self) -> None:
        # dict, not OrderedDict: PyTorch's checkpoints of whole modules hold this table.
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(list(self._modules.items())[index])
        return self._modules[self._name_at(index)]

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        chosen = names[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in chosen:
            delattr(self, name)
        self._renumber()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before that index; those behind it move up."""
        modules = list(self._modules.values())
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._modules = {str(i): module for i, module in enumerate(modules)}
        return self

    def pop(self, key: Any = -1) -> Module:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules called one after another, each with the result of the one before.

    Made of modules, or of an OrderedDict that names them.

    >>> import rushlight as torch
    >>> torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else None
        for name, module in named or ((str(i), module) for i, module in enumerate(args)):
            self.add_module(name, module)

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        return type(self)(OrderedDict(items))

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Add the modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: Any) -> Sequential:
        self._need_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Any:
        self._need_sequential(other)
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        self._need_times(times)
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Any:
        self._need_times(times)
        modules = list(self)
        for _ in range(1, times):
            self.extend(modules)
        return self

    def _need_sequential(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def _need_times(self, times: Any) -> None:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")


class ModuleList(_Numbered):
    """A list of modules that are registered as children."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _of(self, items: list[tuple[str, Module]]) -> Any:
        return type(self)(module for _, module in items)

    def _get_abs_string_index(self, idx: Any) -> str:
        """The name of the child at `idx`, which may count from the end: subclasses of other libraries ask for it."""
        at, n = operator.index(idx), len(self)
        if not -n <= at < n:
            raise IndexError(f"index {at} is out of range")
        return str(at % n)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add the modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Runs of equal modules are written as one line: `(0-5): 6 x Linear(...)`."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [
            f"({first}): {text}"
            if first == last
            else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(map(indented, lines)) + "\n)"


def _items_of(given: Any, what: str) -> Iterable[tuple[str, Any]]:
    """The (name, value) pairs of a mapping or of an iterable of pairs, checked."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{what}.update should be called with an iterable of key/value pairs, but got "
            + type(given).__name__
        )
    if isinstance(given, Mapping) or hasattr(given, "items"):
        return given.items()
    pairs = list(given)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{what} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        if len(pair) != 2:
            raise ValueError(
                f"{what} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
    return pairs


class _Dictionary(Module):
    """The base of `ModuleDict` and `ParameterDict`; the keys of the dict `_names` are theirs."""

    _names: Any

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._names):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it."""
        value = self[key]
        del self[key]
        return value

    def keys(self) -> Any:
        """The names."""
        return self._names.keys()


class ModuleDict(_Dictionary):
    """A dictionary of modules that are registered as children."""

    @property
    def _names(self) -> Any:
        return self._modules

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def items(self) -> Any:
        """The names with their modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace from a mapping or from pairs."""
        for name, module in _items_of(modules, "ModuleDict"):
            self[name] = module


def _parameter_line(name: Any, value: Any, type_of: Any) -> str:
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    device = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {kind} containing: [{type_of(value)} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other values are stored unchanged."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, index: Any) -> str:
        index = operator.index(index)
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range")
        return str(index % self._size)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = type(self)()
            for i in range(*index.indices(self._size)):
                made.append(self[i])
            return made
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, self._name_at(index), value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(self._size))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def append(self, value: Any) -> Any:
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add the values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_parameter_line(i, v, lambda v: v.dtype) for i, v in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(_Dictionary):
    """A dictionary of parameters; tensors put in become parameters."""

    @property
    def _names(self) -> Any:
        return self._keys

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise AttributeError(f"'ParameterDict' object has no attribute '{key}'")
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string "
                "keys."
            )
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value at a key; a missing key is set to `default` first."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take the last pair out and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value at a key, or the default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with those keys, all with one value."""
        return ParameterDict((key, default) for key in keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names with their values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace from a mapping or from pairs."""
        items = _items_of(parameters, "ParameterDict")
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            items = sorted(items)  # PyTorch's order, kept so that parameters() agree
        for key, value in items:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_parameter_line(k, v, typename) for k, v in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> Any:
        self.update(other)
        return self
