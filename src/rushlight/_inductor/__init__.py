"""`torch._inductor`: what programs ask of PyTorch's generator of C++ and Triton code, which is not here.

`torch.compile` makes machine code by the kernel compiler in `_codegen/`. Switches of `config` are kept and change nothing.
"""

from __future__ import annotations

from typing import Any

from rushlight._inductor import config
from rushlight.compiler import cudagraph_mark_step_begin
from rushlight.core.stub import stub

__all__ = ["config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]


@stub("no-op", "All modes of `torch.compile` are one.")
def list_mode_options(
    mode: str | None = None, dynamic: bool | None = None
) -> dict[str, dict[str, Any]]:
    """For each mode of `torch.compile` the switches that it sets: none."""
    modes: dict[str, dict[str, Any]] = {
        each: {}
        for each in (
            "default",
            "lite",
            "reduce-overhead",
            "max-autotune-no-cudagraphs",
            "max-autotune",
        )
    }
    return modes[mode] if mode else modes


def list_options() -> list[str]:
    """The names of the switches that were set."""
    return sorted(config.get_config_copy())
