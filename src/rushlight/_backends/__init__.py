"""Back ends: each provides the kernels of `protocol.py` on arrays of its own class."""
