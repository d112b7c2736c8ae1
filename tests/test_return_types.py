"""Named results: fields, printing, pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch


def test_fields_and_text():
    r = torch.tensor([3.0, 5.0]).max(0)
    assert isinstance(r, tuple) and type(r) is torch.return_types.max
    assert r.values is r[0] and r.indices is r[1] and len(r) == 2
    assert repr(r) == "torch.return_types.max(\nvalues=tensor(5.),\nindices=tensor(1))"
    values, indices = r
    assert values.item() == 5.0 and indices.item() == 1
    with pytest.raises(AttributeError):
        r.values = 3


def test_made_from_a_sequence_of_the_right_length():
    assert torch.return_types.sort((1, 2)).indices == 2
    with pytest.raises(TypeError, match="takes a 2-sequence"):
        torch.return_types.sort((1,))


def test_copies_and_pickles():
    r = torch.tensor([3.0, 5.0]).sort()
    assert type(copy.copy(r)) is type(r)
    again = pickle.loads(pickle.dumps(torch.return_types.sort((1, 2))))
    assert type(again) is torch.return_types.sort and tuple(again) == (1, 2)
