"""Bytecode for a checkout that is installed in place: pip compiles what it copies, and nothing of an editable installation.

Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each process would compile some hundred files anew.
"""

from __future__ import annotations

import compileall
import os
from py_compile import PycInvalidationMode
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Bytecode(BuildHookInterface):
    """Compiles the package after `pip install -e`; a wheel is as it was."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version == "editable":
            package = os.path.join(self.root, "src", "rushlight")
            compileall.compile_dir(
                package, quiet=2, invalidation_mode=PycInvalidationMode.TIMESTAMP
            )
