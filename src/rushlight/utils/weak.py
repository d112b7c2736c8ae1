"""Dictionaries that hold their keys weakly and compare them by identity: tensors, whose `==` makes tensors, can be keys."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any
from weakref import ref

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(ref):
    """A weak reference that equals another one to the very same object."""

    __slots__ = ("_id",)

    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> WeakIdRef:
        self = super().__new__(cls, key, callback)
        self._id = id(key)
        return self

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, ref) else None
        # once the object is gone only the reference itself is the same
        return mine is theirs if mine is not None and theirs is not None else self is other

    def __repr__(self) -> str:
        return f"WeakIdRef({self()!r})"


class WeakIdKeyDictionary(MutableMapping):
    """A dict that drops entries whose keys have no other reference; keys are compared by identity.

    >>> import rushlight as torch
    >>> t = torch.ones(2)
    >>> notes = WeakIdKeyDictionary({t: "mine"})
    >>> notes[t], torch.ones(2) in notes
    ('mine', False)
    >>> del t
    >>> len(notes)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef) -> None:
        self.data: dict_of_references = {}
        self.ref_type = ref_type
        self._forget = lambda reference: self.data.pop(reference, None)
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False  # cannot be referred to weakly

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def copy(self) -> WeakIdKeyDictionary:
        """A copy with the same entries."""
        return type(self)(self)

    def __deepcopy__(self, memo: dict) -> WeakIdKeyDictionary:
        """A copy with copies of the values; the keys are the same objects."""
        made = type(self)()
        for key, value in self.items():
            made[key] = copy.deepcopy(value, memo)
        return made

    def update(self, other: Any = (), /, **named: Any) -> None:
        """Add the entries of a mapping, or of pairs; none of them if reading them fails."""
        super().update(other if hasattr(other, "items") else dict(other), **named)

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = type(self)(other)
        made.update(self)
        return made

    def keyrefs(self) -> list:
        """The weak references to the keys."""
        return list(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeakIdKeyDictionary) and self.data == other.data


dict_of_references = dict[WeakIdRef, Any]
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; calling it returns the tensor or None."""

    __slots__ = ("ref",)

    def __init__(self, tensor: Any) -> None:
        from rushlight.core.tensor import Tensor

        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
