"""`torch.utils._python_dispatch`: calls below autograd cannot be taken over here; `TorchFunctionMode` takes them over above."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub


@stub("absent", "There is no `__torch_dispatch__`: use `torch.overrides.TorchFunctionMode`.")
class TorchDispatchMode:
    """NotImplementedError when it is entered; `torch.overrides.TorchFunctionMode` is here."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__}: __torch_dispatch__ is not implemented in Rushlight; "
            "torch.overrides.TorchFunctionMode takes over calls before autograd"
        )

    def __exit__(self, *error: object) -> None:
        pass


def is_traceable_wrapper_subclass(t: object) -> bool:
    """True if a tensor is a subclass made of other tensors (`__tensor_flatten__`)."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False: there are no such modes."""
    return False
