"""`torch._tensor_str`: how tensors print, under the names that libraries with tensors of their own use."""

from __future__ import annotations

from typing import Any

from rushlight.core import printing
from rushlight.core.printing import printoptions
from rushlight.core.tensor import Tensor

__all__ = ["PRINT_OPTS", "printoptions"]


class _Options:
    """What `set_printoptions` set, as attributes: `PRINT_OPTS.threshold`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return printing._options[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        printing.set_printoptions(**{name: value})


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The bracketed numbers.

    >>> import rushlight as torch
    >>> _tensor_str(torch.arange(3), 0)
    '[0, 1, 2]'
    """
    return printing.format_array(self._array, indent=indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    if force_newline and suffixes:
        return printing._with_suffixes(
            f"{tensor_str},\n{' ' * indent}{suffixes[0]}", suffixes[1:], indent
        )
    return printing._with_suffixes(tensor_str, suffixes, indent)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    return printing.tensor_str(inp, contents=tensor_contents)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return printing.tensor_str(self, contents=tensor_contents)
