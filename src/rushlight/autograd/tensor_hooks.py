"""Methods of `Tensor` that ask for gradients and register hooks. A tensor's hooks are kept by the node of its edge."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, NoReturn

from rushlight.autograd.graph import (
    INFERENCE,
    AccumulateGrad,
    HookTable,
    RemovableHandle,
    _register,
    hooks_of,
    node_and_output,
)
from rushlight.autograd.state import thread
from rushlight.autograd.views import edge_of
from rushlight.core import dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called on this non-leaf tensor."""
    e = edge_of(self)
    if e is None or not e._edges:
        return False
    node, nr = node_and_output(e)
    return node.hooks is not None and nr in node.hooks.retain


def refuse_inside(method: str, also: str = "") -> NoReturn:
    """Raise: a method has no meaning in a function that a transform differentiates or maps."""
    raise RuntimeError(
        f"You are attempting to call Tensor.{method}(){also} inside of a function being transformed by a functorch "
        "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, "
        f"hessian) or call {method}() outside of a function being transformed instead."
    )


def refuse_dtype(kinds: str) -> NoReturn:
    raise RuntimeError(f"only Tensors of {kinds} dtype can require gradients")


def set_requires_grad(self: Tensor, requires_grad: bool) -> Tensor:
    """`requires_grad_`, inside of function transforms too."""
    e = edge_of(self)
    if e is not None and e._edges:
        if requires_grad:
            return self
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
    if not requires_grad:
        self._set_leaf_edge(None)
        return self
    if dtypes.OF[self._array.dtype].kind < 2:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if self._counter is INFERENCE and not thread.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    if e.__class__ is not AccumulateGrad:
        self._set_leaf_edge(AccumulateGrad(self))
    return self


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf tensor in `.grad` at the next backward."""
    if thread.transforms:
        refuse_inside("retain_grad")
    e = edge_of(self)
    if e is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if e._edges:
        node, nr = node_and_output(e)
        hooks_of(node).retain[nr] = weakref.ref(self)


def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` whenever the gradient of this tensor is computed. A tensor that it returns replaces
    the gradient."""
    e = edge_of(self)
    if e is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node, nr = node_and_output(e)
    return _register(hooks_of(node).tensor_pre.setdefault(nr, HookTable()), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(tensor)` after a backward has added to this leaf's `.grad`."""
    e = edge_of(self)
    if e is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if e.__class__ is not AccumulateGrad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _register(hooks_of(e).accumulated, hook)


def backward_hooks(self: Tensor) -> HookTable | None:
    """The hooks that `register_hook` added; None where there are none."""
    e = edge_of(self)
    if e is None:
        return self.__dict__.get("_backward_hooks")
    node, nr = node_and_output(e)
    return None if node.hooks is None else node.hooks.tensor_pre.get(nr)


def set_backward_hooks(self: Tensor, hooks: dict | None) -> None:
    """Put these in the place of the hooks; those of a tensor that needs no gradient are never called."""
    e = edge_of(self)
    if e is None:
        self.__dict__["_backward_hooks"] = hooks
    else:
        node, nr = node_and_output(e)
        hooks_of(node).tensor_pre[nr] = HookTable(hooks or {})


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of the hooks of a tensor that is written: they are not. `unserializable_hook` marks those for which
    that is right."""
    for hook in (backward_hooks(tensor) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=3,
            )


def unserializable_hook(f: Callable) -> Callable:
    """Mark a hook of a tensor as one that is not to be written with the tensor: there is no warning of it."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined] # the mark that PyTorch uses
    return f
