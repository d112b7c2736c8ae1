"""Checkpoints as the commands `inspect` and `convert` read and write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.cli import fail


def load(path: str) -> Any:
    """The content of a checkpoint or a safetensors file, on the CPU; executes no code in it."""
    try:
        if path.endswith(".safetensors"):
            return Safetensors().load_file(path)
        import rushlight

        return rushlight.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        fail(f"{path}: {type(error).__name__}: {error}")


class Safetensors:
    """Reads and writes safetensors files through that package's NumPy functions."""

    def __init__(self) -> None:
        try:
            import safetensors
            import safetensors.numpy as numpy
        except ImportError:
            fail("safetensors files need the extra: pip install 'rushlight[safetensors]'")
        self.package, self.numpy = safetensors, numpy

    def load_file(self, path: str) -> dict:
        import rushlight

        return {name: rushlight.from_numpy(a) for name, a in self.numpy.load_file(path).items()}

    def save_file(self, tensors: dict, path: str) -> None:
        arrays = {name: t.detach().contiguous()._array for name, t in tensors.items()}
        self.numpy.save_file(arrays, path)


_PLAIN = (int, float, complex, str, bytes, type(None))


def leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) of everything in a tree of dicts, lists and tuples; a list of plain values is a leaf."""
    if isinstance(content, dict):
        pairs = [(str(k), v) for k, v in content.items()]
    elif type(content) in (list, tuple) and not all(isinstance(v, _PLAIN) for v in content):
        pairs = [(str(k), v) for k, v in enumerate(content)]
    else:
        yield path, content
        return
    for key, value in pairs:
        yield from leaves(value, f"{path}.{key}" if path else key)
