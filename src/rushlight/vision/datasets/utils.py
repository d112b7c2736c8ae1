"""torchvision's longer path to the functions of files."""

from __future__ import annotations

from rushlight.vision.datasets.files import *  # noqa: F403
from rushlight.vision.datasets.files import __all__ as __all__
