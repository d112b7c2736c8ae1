"""What is wrong with the tensors that are given to a call of a process group."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.tensor import Tensor

__all__ = [
    "alike",
    "both_for_each",
    "fail",
    "for_each",
    "gathered",
    "like",
    "one",
    "root",
    "rows_for_each",
    "scattered",
]


def fail(call: str, text: str) -> RuntimeError:
    """The error of a call."""
    return RuntimeError(f"ProcessGroup::{call}: {text}")


def shown(tensor: Tensor) -> str:
    """A size in parentheses."""
    return f"({', '.join(map(str, tensor.shape))})"


def like(call: str, tensors: Sequence[Tensor], model: Tensor, first: int = 0) -> None:
    """RuntimeError unless all tensors have the dtype and the size of `model`."""
    for k, each in enumerate(tensors, first):
        if each.layout is not model.layout:
            names = [str(t.layout).removeprefix("torch.") for t in (model, each)]
            raise fail(
                call, f"invalid tensor layout at index {k} (expected {names[0]}, got {names[1]})"
            )
        if each.dtype is not model.dtype:
            raise fail(
                call, f"invalid tensor type at index {k} (expected {model.dtype}, got {each.dtype})"
            )
        if each.shape != model.shape:
            raise fail(
                call,
                f"invalid tensor size at index {k} (expected {shown(model)}, got {shown(each)})",
            )


def alike(call: str, tensors: Sequence[Tensor]) -> None:
    """RuntimeError for an empty list, or tensors of different dtypes or sizes."""
    if not tensors:
        raise fail(call, "requires non-empty tensor list")
    like(call, tensors[1:], tensors[0], 1)


def one(call: str, tensors: Sequence[Tensor], what: str = "") -> Tensor:
    """The only tensor of a list."""
    if len(tensors) != 1:
        raise fail(call, f"requires a single-element {what}tensor list")
    return tensors[0]


def root(call: str, rank: int, size: int) -> int:
    """A rank of the group."""
    if not 0 <= rank < size:
        raise fail(call, f"invalid root rank: {rank}")
    return rank


def for_each(
    call: str, what: str, lists: Sequence[Sequence[Tensor]], size: int
) -> Sequence[Tensor]:
    """The list with a tensor for each process that is the only one of a list of lists."""
    if len(lists) != 1:
        raise fail(
            call, f"requires a single-element {what} list containing a list with {size} tensors."
        )
    if len(lists[0]) != size:
        raise fail(
            call,
            f"Incorrect {what} list size {len(lists[0])}. {what.capitalize()} list size should be {size}, same as size "
            "of the process group.",
        )
    return lists[0]


def both_for_each(outputs: Sequence[Tensor], inputs: Sequence[Tensor], size: int) -> None:
    """RuntimeError unless both lists have a tensor for each process."""
    for name, given in (("output", outputs), ("input", inputs)):
        if len(given) != size:
            raise fail(
                "alltoall",
                f"{name} tensor list size {len(given)} does not match world size {size}",
            )


def gathered(size: int, output: Tensor, input: Tensor) -> None:
    """RuntimeError unless `output` has place for an `input` of each process."""
    if output.numel() != size * input.numel():
        raise fail(
            "allgather",
            "invalid tensor size: output tensor size must be equal to world_size times input tensor size, got "
            f"{output.numel()} for {size} times {input.numel()}",
        )


def scattered(size: int, output: Tensor, input: Tensor) -> None:
    """RuntimeError unless `input` has an `output` for each process."""
    if input.numel() != size * output.numel():
        raise RuntimeError(
            "input tensor must be the same size as output size times world size: "
            f"{input.numel()} elements, and {size} times {output.numel()}"
        )


def rows_for_each(tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """How many rows of a tensor are for each process: those that are given, or equally many."""
    length = len(tensor) if tensor.dim() else 1
    if not sizes:
        if length % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [length // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != length:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return list(sizes)
