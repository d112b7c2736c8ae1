"""`torch.utils.deterministic`: memory that is not set is filled while algorithms have to be deterministic."""

from __future__ import annotations

from rushlight.core.stub import declare

# Read by programs. Here `empty` gives what the system gives, mostly zeros, whatever this says.
fill_uninitialized_memory: bool = True
declare("no-op", "`empty` gives the memory as it is.", __name__, "fill_uninitialized_memory")
