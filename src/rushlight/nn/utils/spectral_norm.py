"""The older spectral norm, by a hook before each forward pass."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.nn.utils.parametrizations import output_dim

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that divides `name_orig` by its largest singular value, from the vectors `name_u`, `_v`."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix: [size of `dim`, product of the other sizes]."""
        return weight.movedim(self.dim, 0).flatten(1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the normalised weight, after power iterations if `do_power_iteration`."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with rushlight.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(functional.normalize(rushlight.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(functional.normalize(rushlight.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next call writes to the vectors
        return weight / rushlight.dot(u, rushlight.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with rushlight.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, self.name + "_u", self.name + "_v", self.name + "_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put the hook on a module."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying spectral normalization"
            )
        with rushlight.no_grad():
            sizes = hook.reshape_weight_to_matrix(weight).shape
            vectors = [
                functional.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps)
                for n in sizes
            ]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute: `forward` finds it, and it is no state.
        setattr(module, name, weight.data)
        for suffix, vector in zip(("_u", "_v"), vectors, strict=True):
            module.register_buffer(name + suffix, vector)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_Version(hook))
        module._register_load_state_dict_pre_hook(_FromOlder(hook))
        return hook


class _Version:
    """A hook that writes the version of the vectors into the metadata of a state dict, as PyTorch does."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, module: Module, state: Any, prefix: str, metadata: Any) -> None:
        versions = metadata.setdefault("spectral_norm", {})
        versions[self.hook.name + ".version"] = self.hook._version


class _FromOlder:
    """A hook that completes a checkpoint of version 0, which has the divided weight and `_u`, but no `_v`.

    The missing vector is what the saved numbers determine: of all v that W maps closest to u, with the
    length at which u . W v is the divisor that they were saved with.
    """

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
        versions, key = metadata.get("spectral_norm", {}), prefix + self.hook.name
        old = versions.get(self.hook.name + ".version", 0) < 1
        if not old or key + "_v" in state and key not in state:
            return
        if not all(name in state for name in (key, key + "_orig", key + "_u")):
            return  # loading reports what is missing
        with rushlight.no_grad():
            original, u = state[key + "_orig"], state[key + "_u"]
            divisor = (original / state.pop(key)).mean()
            matrix = self.hook.reshape_weight_to_matrix(original)
            v = rushlight.linalg.pinv(matrix) @ u
            state[key + "_v"] = v * (divisor / rushlight.dot(u, matrix @ v))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide the weight by its largest singular value; see `parametrizations.spectral_norm`."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`: the weight keeps its present value."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, hook in module._state_dict_hooks.items():
        if isinstance(hook, _Version) and hook.hook.name == name:
            del module._state_dict_hooks[key]
            break
    for key, hook in module._load_state_dict_pre_hooks.items():
        if isinstance(hook, _FromOlder) and hook.hook.name == name:
            del module._load_state_dict_pre_hooks[key]
            break
    return module
