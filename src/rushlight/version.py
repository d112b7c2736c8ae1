"""Which Rushlight this is, and which PyTorch's API it follows: `torch.version`."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

API = "2.13.0"  # the release of PyTorch whose behaviour is followed
release = "1.0.0rc1"
# What a program is told that asks for PyTorch's version: `>= "2.0"` is answered as the API deserves.
__version__ = f"{API}+rushlight.{release}"
cuda: str | None = None  # the devices' toolkits that were compiled in
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"
