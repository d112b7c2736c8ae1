"""Back ends: each provides the kernels of `protocol/` on arrays of its own class."""
