"""What kernels of convolutions are compiled for, and where the numbers stand that they are given: their sources are
not read for it where their code stands on disk."""

from __future__ import annotations

from typing import Any

from rushlight._codegen import product_sizes
from rushlight._codegen.types import Type


def sizes(element: Type) -> dict[str, Any]:
    """What kernels for arrays of one type are compiled for: as product_sizes.gemm_sizes, with two rows less where
    there are twelve. Offsets of rows take the processor's other registers, and LLVM orders loads
    badly when those do not suffice."""
    known = product_sizes.gemm_sizes(element.loaded)
    rows = 10 if known["MR"] == 12 else known["MR"]
    return {"E": element, "T": element.loaded, "MR": rows, "L": known["L"]}


class Plan:
    """Where the fields of a plan of `kernels/conv.py` stand; from PHASES on 3 for each phase: K, panels, offsets."""

    CHUNKS, GRAIN, SIZE, BLOCKS, GROUPS, LANES = 0, 1, 2, 3, 4, 5
    OUT, PLACES = 6, 9  # sizes of the output (3), and their product with the number of images
    X_IMAGE, X_GROUP = 10, 11
    TIMES, PLUS, OVER = 12, 15, 18  # place i of a dimension reads from (i * TIMES + PLUS) // OVER
    X_STEP = 21  # of that, in elements (3)
    Y_IMAGE, Y_CHANNEL, Y_PLACE = 24, 25, 26
    DEEP = 27  # products of a block (weights: rows of a chunk)
    SPLITS, SPLIT = 28, 29  # weights: parts of the places that are summed apart, places of a part
    ROOM, TAPS = 30, 31  # of turned weights: elements of all panels; taps of a window
    PHASES = 32


class WinogradPlan:
    """Where the fields of a plan of `kernels/winograd.py` stand."""

    CHANNELS, LANES = 0, 1  # of the input, of the output
    H, W, OUT_H, OUT_W, PADDING = 2, 3, 4, 5, 6
    DOWN, ACROSS = 7, 8  # blocks of an image
    LINES = 9  # rows of blocks of all images
    HIGH, WIDE = 10, 11  # blocks of a chunk
    PIECES = 12  # chunks beside each other
    PARTS, PART = 13, 14  # shares of the output channels; channels of a share
    CHUNKS = 15
    TAP, LANE = 16, 17  # weights: steps from an input channel, an output channel to the next
    SPLITS, SPLIT = 18, 19  # gradient: parts of the lines that are summed apart, lines of a part
    DILATION = 20
    X_IMAGE, Y_IMAGE = 21, 22  # steps from an image to the next
    X_LAST, Y_LAST = 23, 24  # where channels are innermost: step from a place to the next, else 0
    PLACE = 25  # of weights: step from a tap to the next
    TERMS = 26  # of each product: its point, its value, its number


class DepthwisePlan:
    """Where the fields of a plan of `depthwise` and `depthwise_weight` stand."""

    IMAGES, CHANNELS, HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH, TOP, LEFT = 0, 1, 2, 3, 4, 5, 6, 7
    DOWN, DILATION, LINES = 8, 9, 10  # stride, dilation and lines of the window
    CHUNK = 11  # lines of the output in a chunk; `depthwise_weight`: parts in which they are summed apart
    BLOCK = 12  # channels that go down the lines together
