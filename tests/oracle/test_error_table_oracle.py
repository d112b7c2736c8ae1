"""The table of errors against PyTorch: its type and a text with the phrase."""

from __future__ import annotations

import pytest

from rushlight.core.error_table import ROWS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, program, kind, phrase, advice", ROWS, ids=[row.name for row in ROWS]
)
def test_error(name, program, kind, phrase, advice):
    import torch.utils.data

    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(program, {"torch": torch, "nn": torch.nn, "F": torch.nn.functional})
    assert type(caught.value).__name__ == kind
    assert phrase in str(caught.value)
