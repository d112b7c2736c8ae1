"""Batching rules of operators: see Note [Batching rules] in dispatch/batch.py."""

from __future__ import annotations

from rushlight.func.rules import (  # noqa: F401
    copying,
    indexing,
    layout,
    linalg,
    networks,
    products,
    random,
    reductions,
)
