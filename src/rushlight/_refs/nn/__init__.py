"""`torch._refs.nn` holds `functional`."""

from rushlight._refs.nn import functional as functional
