"""Functions that pad or pack sequences of different lengths."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch import overrides

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation."""
    if permutation is None:
        return None
    inverse = rushlight.empty_like(permutation)
    inverse[permutation] = rushlight.arange(permutation.numel(), device=permutation.device)
    return inverse


_Packed = namedtuple("_Packed", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def _to(name: str, dtype: str) -> Callable[[Any], Any]:
    """The method of that name of PackedSequence, which converts the data."""

    def convert(self: Any) -> PackedSequence:
        return self.to(dtype=getattr(rushlight, dtype))

    convert.__name__, convert.__qualname__ = name, f"PackedSequence.{name}"
    convert.__doc__ = f"Convert the data to {dtype}."
    return convert


class PackedSequence(_Packed):
    """Sequences, stored step by step: all first elements, then all second ones; the longest sequence is first.

    data: [sum of lengths, *]; batch_sizes: how many sequences still run at each step;
    sorted_indices: how the batch was sorted, unsorted_indices: how to undo it.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is not None and batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequence in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move or convert the data, and move the indices with it."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        indices = (
            None if t is None else t.to(data.device, **kwargs)
            for t in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> PackedSequence:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    double, float, half = _to("double", "float64"), _to("float", "float32"), _to("half", "float16")
    long, int, short = _to("long", "int64"), _to("int", "int32"), _to("short", "int16")
    char, byte = _to("char", "int8"), _to("byte", "uint8")

    def pin_memory(self) -> PackedSequence:
        """Copy to page-locked memory."""
        parts = (None if t is None else t.pin_memory() for t in self)
        return type(self)(*parts)

    @property
    def is_cuda(self) -> bool:
        """True if the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """True if the data is in page-locked memory."""
        return self.data.is_pinned()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack [T, B, *] (or [B, T, *]) by the length of each sequence.

    `enforce_sorted`: the lengths fall already; else the batch is sorted here.
    """
    lengths = rushlight.as_tensor(lengths, dtype=rushlight.int64, device="cpu")
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = rushlight.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = rushlight._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


@overrides.overridable
def _pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool
) -> tuple[Tensor, Tensor]:
    """The data and the batch sizes of sequences whose lengths fall."""
    if batch_first:
        input = input.transpose(0, 1)
    sizes = lengths.tolist()
    if lengths.dim() != 1 or len(sizes) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={input.size(1)})"
        )
    if not sizes or sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    # Steps during which the same sequences run are taken in one piece.
    pieces, batch_sizes, start = [], [], 0
    for running in range(len(sizes), 0, -1):
        end = sizes[running - 1]
        if end > start:
            piece = input[start:end, :running]
            pieces.append(piece.reshape(-1, *input.shape[2:]))
            batch_sizes += [running] * (end - start)
            start = end
    counts = rushlight.tensor(batch_sizes, dtype=rushlight.int64)
    return rushlight.cat(pieces), counts


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the padded tensor and the lengths, in the order before packing."""
    if total_length is None:
        total_length = -1
    else:
        _check_total_length(total_length, sequence.batch_sizes.size(0))
    padded, lengths = rushlight._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, total_length
    )
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order]
    return padded, lengths


def _check_total_length(total_length: int, steps: int) -> None:
    if total_length < steps:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {steps}"
        )


@overrides.overridable
def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    """The padded tensor and the lengths, in the order of the packed sequences."""
    counts = batch_sizes.tolist()
    steps = len(counts)
    if total_length > 0:
        _check_total_length(total_length, steps)
    length = max(total_length, steps)
    padded = data.new_full((length, counts[0], *data.shape[1:]), padding_value)
    start = begin = 0
    while begin < steps:
        running, end = counts[begin], begin
        while end < steps and counts[end] == running:
            end += 1
        stop = start + running * (end - begin)
        piece = data[start:stop].reshape(end - begin, running, *data.shape[1:])
        padded[begin:end, :running] = piece
        start, begin = stop, end
    lengths = [sum(size > i for size in counts) for i in range(counts[0])]
    lengths = rushlight.tensor(lengths, dtype=rushlight.int64)
    if batch_first:
        padded = padded.transpose(0, 1)
    return padded, lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Join tensors [L_i, *] into one [T, B, *] (or [B, T, *]); fill the shorter ones up."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side should be 'left' or 'right', but got {padding_side!r}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    length = max(s.size(0) for s in sequences)
    first = sequences[0]
    shape = (length, *first.shape[1:])
    sizes = (len(sequences), *shape) if batch_first else (length, len(sequences), *shape[1:])
    padded = first.new_full(sizes, padding_value)
    rows = padded if batch_first else padded.transpose(0, 1)
    for i, s in enumerate(sequences):
        start = length - s.size(0) if padding_side == "left" else 0
        rows[i, start : start + s.size(0)] = s
    return padded


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list:
    """Return the sequences that `pad_sequence` padded, in memory of their own."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    lengths = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    positions = rushlight.arange(padded_sequences.size(1), device=padded_sequences.device)
    return [s[positions < n] for s, n in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors [L_i, *]."""
    lengths = rushlight.tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that `pack_sequence` packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
