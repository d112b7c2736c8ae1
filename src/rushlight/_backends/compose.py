"""Kernels composed of primitives, for back ends that do not have their own.

The reference's files COMPOSED are written against `xp`, a namespace of primitives. A copy of such a file in
which `xp` are the kernels of another back end is the composition for that one.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from rushlight._backends.index import REFERENCE

COMPOSED = ("activation", "loss")


class Composed:
    """The kernels of a back end, and compositions of those that it lacks.

    AttributeError for a kernel that it lacks and that has no composition.
    """

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels
        self._files: dict[str, ModuleType] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._kernels, name)
        except AttributeError:
            found = self._composition(name)
            if found is None:
                raise
        self.__dict__[name] = found
        return found

    def _composition(self, name: str) -> FunctionType | None:
        """The composition of a kernel; None where the reference computes it by NumPy itself."""
        family = REFERENCE.get(name)
        if family not in COMPOSED:
            return None
        if family not in self._files:
            self._files[family] = self._copy(family)
        function = getattr(self._files[family], name)
        return None if "np" in function.__code__.co_names else function

    def _copy(self, family: str) -> ModuleType:
        from importlib import util

        spec = util.find_spec(f"rushlight._backends.reference.{family}")
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        vars(module)["xp"] = self
        return module
