"""Checkpoints: `save` and `load` in PyTorch's file format, and what a file may name.

`archive` is the container, `saving` and `loading` are the two directions, `rebuild` makes tensors from what a file says,
`names` translates between PyTorch's names and Rushlight's, `legacy` reads the format of old files; `copying` is `pickle.dumps`
and `copy.deepcopy` of a tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.serialization.copying import deepcopy_tensor, reduce_parameter, reduce_tensor
    from rushlight.serialization.loading import get_unsafe_globals_in_checkpoint, load
    from rushlight.serialization.names import (
        add_safe_globals,
        clear_safe_globals,
        get_safe_globals,
        safe_globals,
    )
    from rushlight.serialization.saving import save

__all__ = [
    "add_safe_globals", "clear_safe_globals", "deepcopy_tensor", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "reduce_parameter", "reduce_tensor", "safe_globals", "save",
]  # fmt: skip

# Loaded at first use: a deep copy of a tensor needs neither zip files nor `nn`.
_MODULES = {
    "copying": ("copied_memory", "deepcopy_tensor", "reduce_parameter", "reduce_storage", "reduce_tensor"),
    "loading": ("get_unsafe_globals_in_checkpoint", "load"),
    "names": (
        "StorageType", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals",
    ),
    "opened": (
        "_is_path", "_is_zipfile", "_open_file_like", "_open_zipfile_reader", "_open_zipfile_writer",
    ),
    "saving": ("save",),
    "options": (
        "DEFAULT_PROTOCOL", "LoadEndianness", "MAGIC_NUMBER", "PROTOCOL_VERSION", "STORAGE_KEY_SEPARATOR",
        "SourceChangeWarning", "check_module_version_greater_or_equal", "default_restore_location",
        "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
        "location_tag", "normalize_storage_type", "register_package", "set_crc32_options",
        "set_default_load_endianness", "set_default_mmap_options", "skip_data",
        "storage_to_tensor_type", "validate_cuda_device",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name == "MAP_LOCATION":  # programs annotate with it
        from collections.abc import Callable

        import rushlight as torch

        Relocate = Callable[[torch.UntypedStorage, str], torch.UntypedStorage]
        return Relocate | torch.device | str | dict[str, str] | None
    for module, names in _MODULES.items():
        if name in names:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
