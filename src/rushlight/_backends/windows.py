"""What the kernels of pooling are told besides the array: `Windows`."""

from __future__ import annotations

from dataclasses import dataclass

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows over planes: in each dimension the size of a plane, and the size, step, padding, dilation and number of
    the windows.

    They are compared by identity. Callers keep one for each call that they repeat, and a back end caches by it
    what it has decided.
    """

    sizes: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    out: Ints

    @property
    def steps(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """All but the sizes of the plane."""
        return self.kernel, self.stride, self.padding, self.dilation, self.out
