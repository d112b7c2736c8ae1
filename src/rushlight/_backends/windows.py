"""What the kernels of pooling are told besides the array: `Windows`."""

from __future__ import annotations

Ints = tuple[int, ...]


class Windows:
    """Windows over planes: in each dimension the size of a plane, and the size, step, padding, dilation and number of
    the windows.

    They do not change, and are compared by identity. Callers keep one for each call that they repeat, and a back end
    caches by it what it has decided.
    """

    __slots__ = ("dilation", "kernel", "out", "padding", "sizes", "stride")

    def __init__(
        self, sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
    ) -> None:
        self.sizes, self.kernel, self.stride = sizes, kernel, stride
        self.padding, self.dilation, self.out = padding, dilation, out

    @property
    def steps(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """All but the sizes of the plane."""
        return self.kernel, self.stride, self.padding, self.dilation, self.out
