"""Pruning: parameters times masks that are 0 where an element is pruned.

A pruned parameter `name` is kept as `name_orig`, the mask as the buffer `name_mask`; `name` itself is
their product, recomputed by a hook before each forward pass.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """The base of pruning methods: a subclass defines `compute_mask`.

    `PRUNING_TYPE`: "unstructured" (single elements), "structured" (slices along `dim`) or "global"
    (the mask is for the whole tensor); what was pruned before is not looked at again.
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for importance scores `t`, combined with `default_mask`."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter times its mask."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune the parameter `name` of a module, in addition to earlier pruning."""
        found = _hooks_of(module, name)
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        for _, old in found:
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                "importance_scores should have the same shape as parameter "
                f"{name} of {module}: {tuple(scores.shape)} != {tuple(original.shape)}"
            )
        # All that can fail, before anything is changed.
        before = getattr(module, name + "_mask") if found else rushlight.ones_like(original)
        try:
            mask = method.compute_mask(scores, before.detach().clone())
        except Exception:
            if found and isinstance(found[0][1], PruningContainer):
                container = found[0][1]
                container._pruning_methods = container._pruning_methods[:-1]
            raise
        for key, _ in found:
            del module._forward_pre_hooks[key]
        if not found:
            parameter = module._parameters.pop(name)
            module.register_parameter(name + "_orig", parameter)
        module.register_buffer(name + "_mask", mask)
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return a pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t: "
                f"{tuple(scores.shape)} != {tuple(t.shape)}"
            )
        default_mask = rushlight.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter; the pruned elements can be trained again."""
        name = self._tensor_name
        value = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        parameter = module._parameters.pop(name + "_orig")
        parameter.data = value.data
        del module._buffers[name + "_mask"]
        setattr(module, name, parameter)


def _hooks_of(module: Module, name: str | None = None) -> list[tuple[int, BasePruningMethod]]:
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name)
    ]


class PruningContainer(BasePruningMethod):
    """Pruning methods applied to one tensor, one after another."""

    _pruning_methods: tuple[BasePruningMethod, ...]

    def __init__(self, *args: Any) -> None:
        self._pruning_methods = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if len(methods) == 1:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Append a method for the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        own = getattr(self, "_tensor_name", None)
        if method is not None and own != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{own}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, which gets only the elements that are not pruned yet."""
        method = self._pruning_methods[-1]
        where: Any
        if method.PRUNING_TYPE == "unstructured":
            where = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim` "
                    "defined."
                )
            dim = method.dim % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            where = [slice(None)] * t.dim()
            where[dim] = default_mask.sum(dim=others) != 0
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.to(dtype=t.dtype).clone()
        part = method.compute_mask(t[where], default_mask=default_mask[where])
        mask[where] = part.to(dtype=mask.dtype)
        return mask


# -- what to prune ---------------------------------------------------------------------------------


# PyTorch's names of these three: pruning methods of others call them.
def _validate_pruning_amount_init(amount: Any) -> None:
    """An error unless `amount` is a number of units, or a share of them."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """ValueError if a number of units is more than there are."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many units an amount is of `tensor_size` units."""
    if isinstance(amount, numbers.Integral):
        return int(amount)
    return round(amount * tensor_size)


class _Amount(BasePruningMethod):
    """A method that prunes an amount: a number of units, or a share of them."""

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, units: int) -> int:
        _validate_pruning_amount(self.amount, units)
        return _compute_nparams_toprune(self.amount, units)


class _Structured(_Amount):
    PRUNING_TYPE = "structured"
    dim: int

    def _slices(self, t: Tensor) -> int:
        """Return the number of slices; raise an error if there are none."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
                f"shape {t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        return t.shape[self.dim]

    def _keep(self, t: Tensor, default_mask: Tensor, kept: Tensor) -> Tensor:
        where: list[Any] = [slice(None)] * t.dim()
        where[self.dim] = kept
        mask = rushlight.zeros_like(t)
        mask[tuple(where)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class Identity(BasePruningMethod):
    """Prunes nothing: makes the mask, full of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.nelement())
        mask = default_mask.clone()
        if count:
            chosen = rushlight.topk(rushlight.rand_like(t).view(-1), k=count).indices
            mask.view(-1)[chosen] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the elements of least absolute value."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.nelement())
        mask = default_mask.clone()
        if count:
            chosen = rushlight.topk(t.abs().reshape(-1), k=count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask


class RandomStructured(_Structured):
    """Prunes slices along a dimension at random."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        slices = self._slices(t)
        count = self._count(slices)
        if not count:
            return default_mask
        draws = rushlight.rand(slices, device=t.device)
        return self._keep(t, default_mask, draws > rushlight.kthvalue(draws, k=count).values)


class LnStructured(_Structured):
    """Prunes the slices along a dimension that have the least n-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        slices = self._slices(t)
        count = self._count(slices)
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = rushlight.norm(t, p=self.n, dim=others)
        kept = rushlight.topk(norms, k=slices - count, largest=True).indices
        return self._keep(t, default_mask, kept)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask holds 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"the mask has shape {tuple(self.mask.shape)}, what it is for "
                f"{tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functions -------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Make a mask for the parameter, and prune nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of the parameter at random: `amount` of them, or that share."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of least absolute value (or importance).

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(4, 5, bias=False)
    >>> layer = torch.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.25)
    >>> int((layer.weight == 0).sum())
    5
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices along `dim` of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where the mask holds 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters, (module, name) each, as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    importances = [scores.get(key, t) for key, t in zip(parameters, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", rushlight.ones_like(t))
        for (module, name), t in zip(parameters, tensors, strict=True)
    ]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container = PruningContainer(method)
    final = container.compute_mask(parameters_to_vector(importances), parameters_to_vector(masks))
    start = 0
    for (module, name), t in zip(parameters, tensors, strict=True):
        custom_from_mask(module, name, mask=final[start : start + t.numel()].view_as(t))
        start += t.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruned tensor the parameter, and take the mask away."""
    for key, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """True if the module or one of its descendants has a pruned parameter."""
    return any(_hooks_of(below) for below in module.modules())
