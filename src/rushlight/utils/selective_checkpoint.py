"""Selective activation checkpointing: a policy says which operators' results are kept and which are computed again.

The forward of a checkpointed region runs in one mode, which asks the policy about each operator below autograd and
keeps results; the recomputation in backward runs in the other, which gives them back instead of running the operator.
An operator is found again by its name and by how many calls of it came before.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight import ops
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map

# Forward and recomputation detach a different number of tensors.
SAC_IGNORED_OPS = {ops.aten.detach.default}

# What stands for the result of a call that is not kept: not by the policy, or no more.
RECOMPUTED, RETURNED = "recomputed", "returned"

_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state "
    "that changed between forward and backward."
)


class CheckpointPolicy(enum.Enum):
    """The policy for an operator's result: keep it, recompute it, or move it to the CPU."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """The context that a policy gets besides the operator and its arguments. `op_output` is the operator's result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept(NamedTuple):
    """A result that is kept, and its version then."""

    value: Tensor
    version: int

    @classmethod
    def of(cls, x: Any) -> Any:
        return cls(x.detach(), x._version) if isinstance(x, Tensor) else x


class _Keeping(TorchDispatchMode):
    """The mode of the forward: asks the policy and keeps results in `storage`, by operator and number of the call."""

    def __init__(self, policy: Callable, storage: dict[tuple[Any, int], Any]) -> None:
        super().__init__()
        self.policy, self.storage = policy, storage
        self.calls: Counter = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return result
        key = func, self.calls[func]
        self.calls[func] += 1
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy(context, func, *args, **kwargs)
        if policy in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE):
            self.storage[key] = tree_map(_Kept.of, result)
        else:
            self.storage[key] = RECOMPUTED
        return result


class _Returning(TorchDispatchMode):
    """The mode of the recomputation: returns what was kept, once; other calls run."""

    def __init__(self, storage: dict[tuple[Any, int], Any], mutation: bool) -> None:
        super().__init__()
        self.storage, self.mutation = storage, mutation
        self.calls: Counter = Counter()

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        number = self.calls[func]
        self.calls[func] += 1
        if (func, number) not in self.storage:
            what = f"{func} invocation index {number}" if (func, 0) in self.storage else str(func)
            raise RuntimeError(
                f"{what} encountered during backward but not found in storage. {_MISMATCH}"
            )
        found = self.storage[func, number]
        if found is RECOMPUTED:
            return func(*args, **(kwargs or {}))
        if found is RETURNED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        self.storage[func, number] = RETURNED
        return tree_map(self._value, found, is_leaf=lambda x: isinstance(x, _Kept))

    def _value(self, x: Any) -> Any:
        if not isinstance(x, _Kept):
            return x
        if x.value._version != x.version and not self.mutation:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return x.value


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | list, allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The two contexts of a policy for `checkpoint(..., context_fn=)`: of the forward and of the recomputation.

    The policy is a function of a `SelectiveCheckpointContext`, the operator, its arguments and keyword arguments,
    which returns a `CheckpointPolicy` (True: MUST_SAVE, False: PREFER_RECOMPUTE), or a list of operators to save. On
    the CPU results that it would move there are computed again. RuntimeError in backward where a kept tensor was
    written to, unless `allow_cache_entry_mutation`; ValueError for a list of anything but operators such as
    `torch.ops.aten.mm.default`.

    >>> import functools, rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> products = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> y = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=products)
    >>> y.sum().backward()  # the product is not computed again
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload) and getattr(op, "namespace", "") != "higher_order":
                hint = ""
                if isinstance(op, OpOverloadPacket):
                    hint = (
                        " Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                        "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint}"
                )
        operators = policy_fn_or_list
        policy: Callable = lambda context, op, *args, **kwargs: op in operators
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[tuple[Any, int], Any] = {}
    return _Keeping(policy, storage), _Returning(storage, allow_cache_entry_mutation)
