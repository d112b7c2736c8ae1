"""Lazy modules: layers that take the size of their input from the first input."""

from __future__ import annotations

from typing import Any

from rushlight.nn.parameter import is_lazy

__all__ = ["LazyModule"]


class LazyModule:
    """A mixin for Module classes whose parameters get their shapes at the first forward.

    The subclass names `cls_to_become` and defines `initialize_parameters(*inputs)`. Before the first
    forward it materialises the parameters, then the module turns into `cls_to_become`.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _own_tensors(self) -> list[tuple[str, Any]]:
        return [*self._parameters.items(), *self._buffers.items()]

    def has_uninitialized_params(self) -> bool:
        """True if any parameter or buffer has no shape yet."""
        return any(is_lazy(tensor) for _, tensor in self._own_tensors())

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters from the first input."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # An uninitialised parameter is saved as itself: it has nothing to detach.
        for name, tensor in self._own_tensors():
            if tensor is not None and name not in self._non_persistent_buffers_set:
                whole = is_lazy(tensor) or keep_vars
                destination[prefix + name] = tensor if whole else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take the shapes from a checkpoint that has them."""
        for name, tensor in self._own_tensors():
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                tensor.materialize(given.shape)

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise RuntimeError(
                f"module {self._get_name()} has not been fully initialized: give every parameter "
                "a shape in initialize_parameters"
            )
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook
        del self._load_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


LazyModuleMixin = LazyModule
