"""Convert a checkpoint: .pt, .pth and .bin (PyTorch's format) to .safetensors, and the other way round.

examples:
  rushlight convert model.pt model.safetensors
  rushlight convert model.safetensors model.pt --json

A checkpoint with an entry "state_dict" becomes a safetensors file of that entry."""

from __future__ import annotations

import argparse

from rushlight.cli import checkpoints, fail, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the file to read")
    parser.add_argument("target", metavar="TARGET", help="the file to write")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object about what was written"
    )


def main(options: argparse.Namespace) -> None:
    from rushlight.core.tensor import Tensor

    source, target = options.source, options.target
    content = checkpoints.load(source)
    if target.endswith(".safetensors"):
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]  # a checkpoint with more than the state_dict
        content = dict(checkpoints.leaves(content))
        if others := [name for name, leaf in content.items() if not isinstance(leaf, Tensor)]:
            fail(
                f"convert: {source} holds more than tensors, which {target} cannot: {', '.join(others[:5])}; save "
                "the state_dict alone"
            )
        checkpoints.Safetensors().save_file(content, target)
    else:
        import rushlight

        rushlight.save(content, target)
    if options.json:
        tensors = [leaf for _, leaf in checkpoints.leaves(content) if isinstance(leaf, Tensor)]
        size = sum(t.numel() * t.dtype.itemsize for t in tensors)
        show({"source": source, "target": target, "tensors": len(tensors), "bytes": size})
