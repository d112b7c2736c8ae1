"""What the kernels of pooling are told besides the array: `Windows`."""

from __future__ import annotations

from typing import Any

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

    def __repr__(self) -> str:
        return f"Windows({', '.join([f'{name}={getattr(self, name)}' for name in self.__slots__])})"

    def __fx_create_arg__(self, tracer: Any) -> Any:
        """The node of a graph that makes them: the graph's constants are plain."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return tracer.create_node("call_function", Windows, (), made)

    @property
    def steps(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """All but the sizes of the plane."""
        return self.kernel, self.stride, self.padding, self.dilation, self.out
