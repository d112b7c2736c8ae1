"""`Size`: the shape of a tensor.

>>> Size([2, 3]) + (4,)
torch.Size([2, 3, 4])
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

if TYPE_CHECKING:
    from collections.abc import Iterable


class Size(tuple[int, ...]):
    """A tuple of ints that stays a Size when it is sliced, concatenated with a tuple, or repeated.

    Anything with `__index__` is taken for an int (NumPy integers, integer tensors of one element);
    else TypeError. Code that already holds a tuple of ints makes one without the check by
    `tuple.__new__(Size, shape)`.

    >>> Size([2, 3])[1:], Size([2, 3]).numel()
    (torch.Size([3]), 6)
    """

    __slots__ = ()

    def __new__(cls, items: Iterable[SupportsIndex] = (), /) -> Size:
        self = tuple.__new__(cls, items)
        for item in self:
            if type(item) is not int:  # True is an int, and prints as True unless converted
                return tuple.__new__(cls, [_as_int(i, each) for i, each in enumerate(self)])
        return self

    def numel(self) -> int:
        """The number of elements of a tensor of this shape: the product, 1 for no dimensions."""
        return prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> Size: ...
    def __getitem__(self, index: Any, /) -> Any:
        item = tuple.__getitem__(self, index)
        return tuple.__new__(Size, item) if type(item) is tuple else item

    def __add__(self, other: Any, /) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            # Not NotImplemented: Python would then name "tuple", which is not what the user sees.
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any, /) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex, /) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


def _as_int(position: int, item: object) -> int:
    try:
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is {type(item).__name__!r})"
        ) from None
