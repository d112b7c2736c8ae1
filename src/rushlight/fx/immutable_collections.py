"""Lists and dicts that refuse to be changed: what the arguments of nodes are held in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from rushlight.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]

_HELP = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object, instead create a "
    "new copy of it and assign the copy to the node:\n"
    "    new_args = ...  # copy and mutate args\n"
    "    node.args = new_args\n"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(f"'{type(self).__name__}' object does not support mutation. {_HELP}")


class immutable_list(list):
    """A list whose methods of change raise NotImplementedError."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]
    __delitem__ = __setitem__ = __iadd__ = __imul__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict whose methods of change raise NotImplementedError."""

    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]
    __delitem__ = __setitem__ = __ior__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self.items()),)


def _dict_of(values: Iterable, keys: Iterable) -> immutable_dict:
    return immutable_dict(zip(keys, values, strict=True))


register_pytree_node(
    immutable_list, lambda x: (list(x), None), lambda children, _: immutable_list(children)
)
register_pytree_node(immutable_dict, lambda d: (list(d.values()), list(d)), _dict_of)
