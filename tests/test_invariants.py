"""What every tensor holds to, whatever way it came in: see the class's docstring in tensor.py."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import rushlight as torch
from rushlight.core import dtypes

foreign = np.arange(6, dtype=np.dtype("f4").newbyteorder("<")).reshape(
    2, 3
)  # a dtype object of its own


def loaded(t):
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    return torch.load(file)


WAYS = {
    "tensor": lambda: torch.tensor(foreign),
    "from_numpy": lambda: torch.from_numpy(foreign),
    "as_tensor": lambda: torch.as_tensor(foreign),
    "asarray": lambda: torch.asarray(foreign),
    "from_dlpack": lambda: torch.from_dlpack(foreign.astype("f4")),
    "frombuffer": lambda: torch.frombuffer(bytearray(foreign.tobytes()), dtype=torch.float32),
    "pickle": lambda: pickle.loads(pickle.dumps(torch.ones(2, 3))),
    "pickle protocol 5": lambda: pickle.loads(pickle.dumps(torch.ones(2, 3), protocol=5)),
    "pickled array": lambda: torch.from_numpy(pickle.loads(pickle.dumps(np.ones((2, 3), "f")))),
    "deepcopy": lambda: copy.deepcopy(torch.from_numpy(foreign)),
    "load": lambda: loaded(torch.ones(2, 3)),
    "a NumPy scalar": lambda: torch.tensor(foreign[0, 0]),
    "mixed with an array": lambda: torch.ones(2, 3) + torch.from_numpy(foreign),
    "setitem": lambda: torch.zeros(2, 3).index_put(
        (torch.tensor([0]),), torch.from_numpy(foreign[:1])
    ),
    "numpy's operator": lambda: torch.ones(2, 3) * foreign,
}


@pytest.mark.parametrize("way", WAYS)
def test_dtype_objects_are_the_package_s_own(way):
    t = WAYS[way]()
    assert t._array.dtype is dtypes.OF[t._array.dtype].np
    assert isinstance(t._array, np.ndarray) and t._array.dtype.isnative
    assert all(s >= 0 for s in t._array.strides)
