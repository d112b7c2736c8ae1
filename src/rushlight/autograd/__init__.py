"""Automatic differentiation: recording, the walk back, and everything around it."""

from __future__ import annotations
