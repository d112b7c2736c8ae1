"""Nested states as flat ones, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.distributed.checkpoint._traverse import Path, set_element, traverse_state_dict

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def flatten_state_dict(state_dict: Mapping) -> tuple[dict[str, Any], dict[str, Path]]:
    """(name -> value, name -> path): names are paths with dots. ValueError if two paths have one name."""
    values: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def visit(path: Path, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in values:
            raise ValueError(f"duplicated flatten key {name}")
        values[name], paths[name] = value, path

    traverse_state_dict(state_dict, visit)
    return values, paths


def unflatten_state_dict(state_dict: Mapping, mapping: Mapping[str, Path]) -> dict[str, Any]:
    """The nested state of a flat one and the paths of its names."""
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
