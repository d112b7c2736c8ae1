"""The table of warnings against PyTorch: its class and a text with the part."""

from __future__ import annotations

import pytest

from user_warnings import AT_THE_CALL, QUIET, ROWS, caught_of, warnings_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name, program, kind, part", ROWS, ids=[row[0] for row in ROWS])
def test_warning(name, program, kind, part):
    import torch.utils.checkpoint

    torch.storage._reset_warn_typed_storage_removal()
    assert any(given == kind and part in text for given, text in warnings_of(torch, program))


@pytest.mark.parametrize("program", QUIET)
def test_no_warning(program):
    assert warnings_of(torch, program) == []


@pytest.mark.parametrize("program", AT_THE_CALL)
def test_place(program):
    assert {warning.filename for warning in caught_of(torch, program)} == {"<program>"}
