"""Passes: functions of graph modules."""

from __future__ import annotations

from rushlight.fx.passes import graph_drawer, shape_prop, split_module, tools_common

__all__ = ["graph_drawer", "shape_prop", "split_module", "tools_common"]
