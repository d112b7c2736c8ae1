"""Packages whose files are loaded at the first use."""

from __future__ import annotations

import pytest

import rushlight
from processes import printed


def test_an_optimizer_loads_its_own_file():
    code = (
        "import sys, rushlight\n"
        "rushlight.optim.Adam\n"
        "print(sorted(m for m in sys.modules if m.startswith('rushlight.optim.')))"
    )
    assert printed(code).split("'")[1::2] == [
        "rushlight.optim.adam",
        "rushlight.optim.fused",
        "rushlight.optim.optimizer",
        "rushlight.optim.rules",
    ]


@pytest.mark.parametrize(
    "package", ["optim", "nn", "nn.utils", "distributed", "distributed.checkpoint"]
)
def test_every_public_name_is_there_and_listed(package):
    module = rushlight
    for part in package.split("."):
        module = getattr(module, part)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    space = {}
    exec(f"from rushlight.{package} import *", space)
    assert set(module.__all__) <= set(space)
    with pytest.raises(AttributeError, match=f"'rushlight.{package}' has no attribute 'Absent'"):
        module.Absent
