"""`GradScaler`: losses scaled up, so that gradients in half precision do not vanish."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor

__all__ = ["GradScaler"]


class GradScaler:
    """Scales losses, unscales gradients, leaves out steps whose gradients are not finite.

    The scale grows by `growth_factor` after `growth_interval` steps without infinities, and shrinks
    by `backoff_factor` after one with them. For a device that is not here it is disabled, with a
    warning: `scale` returns what it is given, `step` steps.

    >>> import rushlight as torch
    >>> w = torch.ones(1, requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu")
    >>> scaler.scale(w.sum()).backward()
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and torch.device(device).type != "cpu":
            name = torch.device(device).type
            warnings.warn(
                f"torch.{name}.amp.GradScaler is enabled, but {name.upper()} is not available.  "
                "Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled:
            if not growth_factor > 1.0:
                raise AssertionError(f"The growth factor must be > 1.0, got {growth_factor}")
            if not backoff_factor < 1.0:
                raise AssertionError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        # optimizer -> (was it stepped, have its gradients infinities), since the last update
        self._seen: dict[int, dict[str, bool]] = {}
        self._has_scaled = False

    def scale(self, outputs: Any) -> Any:
        """The tensor, or the tensors of an iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, torch.Tensor):
            self._has_scaled = True
            return outputs * torch.tensor(self._scale, dtype=torch.float32)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(each) for each in outputs)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients by the scale, in place; once between two updates."""
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        seen = self._seen.get(id(optimizer))
        if seen is not None:
            if seen["stepped"]:
                raise RuntimeError("unscale_() is being called after step().")
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        bad = False
        with torch.no_grad():
            inverse = torch.tensor(1.0 / self._scale, dtype=torch.float32)
            for grad in self._gradients(optimizer):
                bad = bad or not bool(torch.isfinite(grad).all())
                grad.mul_(inverse)
        self._seen[id(optimizer)] = {"stepped": False, "bad": bad}

    def _check_scaled(self, name: str) -> None:
        if not self._has_scaled:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    @staticmethod
    def _gradients(optimizer: Any) -> list[Tensor]:
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if any(grad.dtype is torch.float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        return grads

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args)` if all gradients are finite, unscaled first where they are not yet."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scaled("step")
        if id(optimizer) not in self._seen:
            self.unscale_(optimizer)
        seen = self._seen[id(optimizer)]
        if seen["stepped"]:
            raise RuntimeError("step() has already been called since the last update().")
        seen["stepped"] = True
        return None if seen["bad"] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Update the scale: reduce it if gradients overflowed since the last update, else let it grow."""
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._seen:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(seen["bad"] for seen in self._seen.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._seen.clear()

    def get_scale(self) -> float:
        """The scale; 1.0 when disabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """True if losses are scaled."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and its rules; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict`. RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
