"""What the kernels of convolutions are told: `Problem`, their one argument besides the arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]


class Problem:
    """A convolution in numbers: shapes, geometry, dtype, and how the result lies in memory.

    The three directions share the description of the forward one:

        direction     reads                                writes
        "forward"     x (N, C, *in), w                     y (N, O, *out), plus bias (O)
        "transposed"  y, w (O, C / groups, *kernel)        x, plus bias (C)
        "weight"      x, y                                 w

    `channels_last`: the result's second dimension is innermost in memory. `layouts`: of the arrays that are read,
    where a back end distinguishes them.

    Problems do not change, and are compared by identity. Callers keep one for each call that they repeat, and a back
    end caches by it what it has decided. (A dataclass takes half a millisecond to make, at the first convolution.)
    """

    __slots__ = (
        "channels_last", "dilation", "direction", "dtype", "groups", "layouts", "padding", "stride", "w", "x", "y",
    )  # fmt: skip

    def __init__(
        self, direction: str, x: Ints, w: Ints, y: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int,
        dtype: np.dtype, channels_last: bool, layouts: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.direction, self.x, self.w, self.y = direction, x, w, y
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.dtype, self.channels_last, self.layouts = dtype, channels_last, layouts

    def but(self, **others: Any) -> Problem:
        """A problem like this one, with other values under some names."""
        return Problem(**{name: getattr(self, name) for name in self.__slots__} | others)

    def __fx_create_arg__(self, tracer: Any) -> Any:
        """The node of a graph that makes it: the graph's constants are plain."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return tracer.create_node("call_function", Problem, (), made)

    @property
    def sizes(self) -> Ints:
        """The spatial sizes of the input."""
        return self.x[2:]

    @property
    def kernel(self) -> Ints:
        """The spatial sizes of the weight."""
        return self.w[2:]

    @property
    def out(self) -> Ints:
        """The spatial sizes of the output."""
        return self.y[2:]

    @property
    def shapes(self) -> tuple[Ints, Ints, Ints]:
        """The shapes of the two arrays that are read and of the result."""
        if self.direction == "forward":
            return self.x, self.w, self.y
        return (
            (self.y, self.w, self.x) if self.direction == "transposed" else (self.x, self.y, self.w)
        )

    @property
    def flipped_padding(self) -> Ints:
        """What pads y where a transposed convolution of stride 1 is one with the flipped weight."""
        each = zip(self.padding, self.dilation, self.kernel, strict=True)
        return tuple(d * (k - 1) - p for p, d, k in each)

    def check(self, *arrays: np.ndarray) -> None:
        """ValueError unless the arrays that are read have the shapes that are said here."""
        for a, shape in zip(arrays, self.shapes, strict=False):
            if a.shape != shape:
                raise ValueError(f"an array of shape {a.shape} where the problem says {shape}")


def out_sizes(sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    """The spatial sizes of a convolution's output."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )
