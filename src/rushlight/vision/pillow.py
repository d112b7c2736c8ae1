"""Pillow, imported when an image is first touched."""

from __future__ import annotations

import sys
from typing import Any


def pillow(what: str, part: str = "Image") -> Any:
    """The module `PIL.<part>`; ImportError that names the extra when Pillow is not installed."""
    from importlib import import_module

    try:
        return import_module(f"PIL.{part}")
    except ImportError as error:
        raise ImportError(
            f"[{what}] needs Pillow, which is not installed: pip install 'rushlight[images]'"
        ) from error


def is_pil(thing: Any) -> bool:
    """True for a PIL image; does not import Pillow."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(thing, image.Image)
