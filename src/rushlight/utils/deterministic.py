"""`torch.utils.deterministic`: memory that is not set is filled while algorithms have to be deterministic."""

from __future__ import annotations

# Read by programs. Here `empty` gives what the system gives, mostly zeros, whatever this says.
fill_uninitialized_memory: bool = True
