"""`ShapesCollection`: dynamic sizes that are said of tensors, not of the places of the arguments."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import tree_leaves, tree_map


class ShapesCollection:
    """What `dynamic_shapes` of `export` says of each tensor, by the tensor itself.

    >>> import rushlight as torch
    >>> x = torch.ones(3, 2)
    >>> shapes = ShapesCollection()
    >>> shapes[x] = {0: torch.export.Dim.DYNAMIC}
    >>> program = torch.export.export(torch.nn.ReLU(), (x,), dynamic_shapes=shapes)
    >>> program.module()(torch.ones(7, 2)).shape
    torch.Size([7, 2])
    """

    def __init__(self) -> None:
        self._shapes: dict[
            int, tuple[Tensor, Any]
        ] = {}  # by the tensor's id; kept, so that it stays its own

    def __setitem__(self, t: Tensor, shape: Any) -> None:
        assert isinstance(t, Tensor), f"Cannot assign shape to non-tensor type {type(t)}"
        _, known = self._shapes.setdefault(id(t), (t, shape))
        assert known == shape, (
            f"Shapes assigned to input do not match: expected {known}, got {shape}"
        )

    def __getitem__(self, t: Tensor) -> Any:
        return self._shapes[id(t)][1] if id(t) in self._shapes else None

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Any, args: tuple, kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What is said of the arguments of a call, by their names; ValueError where a tensor is not among them."""
        forward = m.forward if hasattr(m, "forward") else m
        bound = inspect.signature(forward).bind(*args, **(kwargs or {})).arguments
        if not self._shapes.keys() <= set(map(id, tree_leaves(dict(bound)))):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args, or are in classes that are not registered with pytree?"
            )
        return tree_map(lambda t: self[t] if isinstance(t, Tensor) else None, dict(bound))
