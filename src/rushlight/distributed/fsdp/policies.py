"""The options of both kinds of fully sharded data parallel."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.nn.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of `fully_shard`: of gathered parameters, of gradients while they are reduced, and of outputs."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters wait in the memory of the CPU, where all are anyway."""

    pin_memory: bool = True


class ShardingStrategy(enum.Enum):
    """What `FullyShardedDataParallel` spreads: parameters as well, gradients and states of optimizers, or nothing."""

    FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 = range(1, 6)


class BackwardPrefetch(enum.Enum):
    """When backward gathers the next parameters: before the gradients of the present ones, or after them."""

    BACKWARD_PRE, BACKWARD_POST = 1, 2


@dataclass
class MixedPrecision:
    """Dtypes of `FullyShardedDataParallel`: of gathered parameters, of gradients while they are reduced, of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters wait in the memory of the CPU, where all are anyway."""

    offload_params: bool = False


class StateDictType(enum.Enum):
    """What `state_dict` has: whole tensors, each process's flat part, or tensors that are spread."""

    FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT = 1, 2, 3


class OptimStateKeyType(enum.Enum):
    """How the state_dict of an optimizer names parameters."""

    PARAM_NAME, PARAM_ID = 1, 2


@dataclass
class StateDictConfig:
    """Options of `state_dict`."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options for whole tensors: only the first process gets them with `rank0_only`."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options for flat parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options for spread tensors."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Options of `optim_state_dict`."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options for whole tensors: only the first process gets them with `rank0_only`."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options for flat parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options for spread tensors."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What `set_state_dict_type` was given."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
