"""`torch.backends.cpu`: what the CPU can do."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The widest vectors of this CPU, in PyTorch's words: "AVX512", "AVX2", "NEON", "DEFAULT"..."""
    from numpy import _core

    has = getattr(getattr(_core, "_multiarray_umath", None), "__cpu_features__", {})
    for feature, name in (
        ("AVX512_SKX", "AVX512"),
        ("AVX2", "AVX2"),
        ("NEON", "NEON"),
        ("VSX", "VSX"),
    ):
        if has.get(feature):
            return name
    return "DEFAULT"
