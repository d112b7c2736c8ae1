"""`ShardedTensor`: a tensor whose parts are listed one by one, several of them on one process.

It can be made, saved, loaded and gathered; operators have DTensor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.core import dtypes
from rushlight.core.modes import get_default_dtype
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.distributed._shard.sharding_spec import (
    EnumerableShardingSpec,
    ShardedTensorMetadata,
    ShardingSpec,
    ShardMetadata,
    TensorProperties,
    check_tensor,
)
from rushlight.distributed.checkpoint.utils import box

__all__ = [
    "Shard", "ShardMetadata", "ShardedTensor", "ShardedTensorMetadata", "TensorProperties", "empty", "full",
    "init_from_local_shards", "ones", "pre_load_state_dict_hook", "rand", "randn", "state_dict_hook", "zeros",
]  # fmt: skip


@dataclass
class Shard:
    """A part of a tensor that this process has."""

    tensor: Tensor
    metadata: ShardMetadata

    def __post_init__(self) -> None:
        if list(self.tensor.size()) != list(self.metadata.shard_sizes):
            raise ValueError(
                "Shard tensor size does not match with metadata.shard_lengths! Found shard tensor size: "
                f"{list(self.tensor.size())}, metadata.shard_lengths: {list(self.metadata.shard_sizes)}, "
            )

    @classmethod
    def from_tensor_and_offsets(
        cls, tensor: Tensor, shard_offsets: Sequence[int], rank: int
    ) -> Shard:
        """The part that begins there."""
        placement = f"rank:{rank}/{tensor.device}"
        return cls(tensor, ShardMetadata(list(shard_offsets), list(tensor.size()), placement))


class ShardedTensor(Tensor):
    """A tensor of which each process has the parts that the metadata list for it."""

    _local_shards: list[Shard]
    _metadata: ShardedTensorMetadata
    _sharding_spec: ShardingSpec
    _process_group: Any

    def __new__(
        cls, sharding_spec: ShardingSpec, *size: Any, dtype: Any = None, layout: Any = dtypes.strided,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = dtypes.contiguous_format,
        process_group: Any = None, init_rrefs: bool = False,
    ) -> ShardedTensor:  # fmt: skip
        properties = TensorProperties(
            dtype or get_default_dtype(), layout, requires_grad, memory_format, pin_memory
        )
        metadata = sharding_spec.build_metadata(_size(size), properties)
        group = groups._resolve(process_group)
        mine = groups.get_rank()
        shards = []
        for each in metadata.shards_metadata:
            if _owner(each, group) == mine:
                part = rushlight.empty(
                    each.shard_sizes, dtype=properties.dtype, requires_grad=requires_grad
                )
                shards.append(Shard(part, each))
        return cls._of(shards, metadata, sharding_spec, group)

    @classmethod
    def _of(
        cls, shards: list[Shard], metadata: ShardedTensorMetadata, spec: ShardingSpec, group: Any
    ) -> ShardedTensor:
        warnings.warn(
            "Please use DTensor instead and we are deprecating ShardedTensor.",
            FutureWarning,
            stacklevel=3,
        )
        about = metadata.tensor_properties
        made = Tensor._make_wrapper_subclass(
            cls, metadata.size, dtype=about.dtype, device="cpu", requires_grad=about.requires_grad
        )
        made._local_shards, made._metadata = shards, metadata
        made._sharding_spec, made._process_group = spec, group
        return made

    @classmethod
    def _init_from_local_shards_and_global_metadata(
        cls, local_shards: list[Shard], sharded_tensor_metadata: ShardedTensorMetadata, process_group: Any = None,
        init_rrefs: bool = False, sharding_spec: ShardingSpec | None = None,
    ) -> ShardedTensor:  # fmt: skip
        """The tensor that the metadata describe, of which this process has these parts."""
        metadata, group = sharded_tensor_metadata, groups._resolve(process_group)
        if not metadata.shards_metadata:
            raise ValueError("shards_metadata must not be empty!")
        mine = groups.get_rank()
        own = [each for each in metadata.shards_metadata if _owner(each, group) == mine]
        if len(own) != len(local_shards):
            raise RuntimeError(
                f"Number of local shards ({len(local_shards)}) does not match number of local shards metadata in "
                f"sharded_tensor_metadata ({len(own)}) on rank ({mine})"
            )
        for shard in local_shards:
            if shard.metadata not in own:
                raise ValueError(
                    f"local shards metadata property does not match the expected one: {shard.metadata} is not "
                    f"among {own}"
                )
        spec = sharding_spec or EnumerableShardingSpec(metadata.shards_metadata)
        check_tensor(metadata.shards_metadata, metadata.size)
        return cls._of(local_shards, metadata, spec, group)

    @classmethod
    def _init_from_local_shards(
        cls, local_shards: list[Shard], *global_size: Any, process_group: Any = None, init_rrefs: bool = False
    ) -> ShardedTensor:  # fmt: skip
        """The tensor of that size that the parts of all processes make. All processes call it."""
        group, found = groups._resolve(process_group), [None] * groups.get_world_size(process_group)
        about = [TensorProperties.create_from_tensor(each.tensor) for each in local_shards]
        objects.all_gather_object(found, ([each.metadata for each in local_shards], about), group)
        shards = [shard for each in found for shard in each[0]]  # type: ignore[index]
        properties = [each for one in found for each in one[1]]  # type: ignore[index]
        if not shards:
            raise ValueError("ShardedTensor have no local shards on all ranks!")
        for each in properties:
            if each != properties[0]:
                raise ValueError(f"shards have different properties: {each} and {properties[0]}")
        spec = EnumerableShardingSpec(shards)
        metadata = spec.build_metadata(_size(global_size), properties[0])
        for each in shards:
            _owner(each, group)
        return cls._of(local_shards, metadata, spec, group)

    __torch_function__ = rushlight._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        aten = rushlight.ops.aten
        for known, change in (
            (aten.detach.default, Tensor.detach),
            (aten.clone.default, Tensor.clone),
        ):
            if func is known:
                return args[0]._each(change)
        raise RuntimeError(
            f"torch function '{func}', with args: {args} and kwargs: {kwargs} not supported for ShardedTensor!"
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> ShardedTensor:
        """A tensor of changed parts."""
        shards = [Shard(change(each.tensor), each.metadata) for each in self._local_shards]
        return ShardedTensor._of(shards, self._metadata, self._sharding_spec, self._process_group)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"ShardedTensor({self._metadata})"

    __hash__ = object.__hash__

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            "a ShardedTensor cannot be pickled: torch.distributed.checkpoint saves each process's parts"
        )

    def local_shards(self) -> list[Shard]:
        """The parts that this process has."""
        return self._local_shards

    def local_tensor(self) -> Tensor:
        """The part of this process, which has one."""
        if len(self._local_shards) != 1:
            raise NotImplementedError(
                f"Only single local shard is supported. Number of shards: {len(self._local_shards)}"
            )
        return self._local_shards[0].tensor

    def metadata(self) -> ShardedTensorMetadata:
        """All parts."""
        return self._metadata

    def sharding_spec(self) -> ShardingSpec:
        """How it is cut."""
        return self._sharding_spec

    def remote_shards(self) -> Any:
        """RuntimeError: there are no remote references."""
        raise RuntimeError(
            "ShardedTensor created with init_rrefs=False, no RRefs to remote shards available"
        )

    def cpu(self, memory_format: Any = None, process_group: Any = None) -> ShardedTensor:
        """The tensor itself: it is on the CPU."""
        return self

    def gather(
        self, dst: int = 0, out: Tensor | None = None, enforce_dtype: bool = False, dtype: Any = None
    ) -> None:  # fmt: skip
        """Put all parts into `out` of the process `dst`."""
        group, mine = self._process_group, groups.get_rank()
        if mine == dst and out is None:
            raise ValueError(f"Argument ``dst_tensor`` must be specified on destination rank {dst}")
        if out is not None and mine == dst and out.size() != self._metadata.size:
            raise ValueError(f"out has size {tuple(out.size())}, not {tuple(self._metadata.size)}")
        dtype = dtype or (out.dtype if enforce_dtype and out is not None else self.dtype)
        owned: dict[int, list[ShardMetadata]] = {rank: [] for rank in group.ranks}
        for each in self._metadata.shards_metadata:
            owned[_owner(each, group)].append(each)
        longest = max(sum(s.chunk().sizes.numel() for s in each) for each in owned.values())
        row = rushlight.zeros(longest, dtype=dtype)
        order = self._metadata.shards_metadata.index
        shards = sorted(self._local_shards, key=lambda shard: order(shard.metadata))
        flat = [shard.tensor.detach().reshape(-1).to(dtype) for shard in shards]
        if flat:
            joined = rushlight.cat(flat)
            row[: joined.numel()] = joined
        rows = [rushlight.empty_like(row) for _ in owned] if mine == dst else None
        collectives.gather(row, rows, dst, group)
        for row, parts in zip(rows or (), owned.values()):
            first = 0
            for each in parts:
                count = each.chunk().sizes.numel()
                target = box(out.detach(), each.shard_offsets, each.shard_sizes)  # type: ignore[union-attr]
                target.copy_(row[first : first + count].view(each.shard_sizes))
                first += count

    # -- what torch.distributed.checkpoint asks ------------------------------------------------

    def __create_chunk_list__(self) -> list:
        return [shard.metadata.chunk() for shard in self._local_shards]

    def __create_write_items__(self, fqn: str, object: Any) -> list:
        from rushlight.distributed.checkpoint.planner_helpers import _create_write_item_for_part

        return [
            _create_write_item_for_part(fqn, self, chunk) for chunk in self.__create_chunk_list__()
        ]

    def __get_tensor_shard__(self, index: Any) -> Tensor:
        if index.offset is None:
            raise ValueError(
                f"Cannot lookup {index.fqn} since its a ShardedTensor and no offset was provided"
            )
        for shard in self._local_shards:
            if Size(shard.metadata.shard_offsets) == index.offset:
                return shard.tensor
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")


def _size(size: Sequence[Any]) -> Size:
    return Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)


def _owner(shard: ShardMetadata, group: Any) -> int:
    """The rank of the process that has a part; ValueError if there is none in the group."""
    if shard.placement is None:
        raise ValueError("remote device is None")
    rank = shard.placement.rank()
    if rank not in group.ranks:
        raise ValueError(f"Global rank {rank} does not exist in input process group: {group.ranks}")
    return rank


# -- functions that make one -----------------------------------------------------------------------


def _filled(spec: ShardingSpec, size: Sequence[Any], fill: Any, options: dict) -> ShardedTensor:
    made = ShardedTensor(spec, *size, **options)
    with rushlight.no_grad():
        for shard in made.local_shards():
            fill(shard.tensor)
    return made


def empty(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor that is not filled."""
    return ShardedTensor(sharding_spec, *size, **options)


def full(sharding_spec: ShardingSpec, size: Any, fill_value: Any, **options: Any) -> ShardedTensor:
    """A tensor of one number."""
    return _filled(sharding_spec, [size], lambda t: t.fill_(fill_value), options)


def zeros(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of zeros."""
    return _filled(sharding_spec, size, Tensor.zero_, options)


def ones(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of ones."""
    return _filled(sharding_spec, size, lambda t: t.fill_(1), options)


def rand(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of random numbers between 0 and 1, drawn by the process that has them."""
    return _filled(sharding_spec, size, lambda t: t.uniform_(0, 1), options)


def randn(sharding_spec: ShardingSpec, *size: Any, **options: Any) -> ShardedTensor:
    """A tensor of normally distributed random numbers."""
    return _filled(sharding_spec, size, lambda t: t.normal_(0, 1), options)


def init_from_local_shards(
    local_shards: list[Shard], *global_size: Any, process_group: Any = None, init_rrefs: bool = False
) -> ShardedTensor:  # fmt: skip
    """The tensor of that size that the parts of all processes make. All processes call it."""
    return ShardedTensor._init_from_local_shards(
        local_shards, *global_size, process_group=process_group
    )


# -- states of modules -------------------------------------------------------------------------------


def state_dict_hook(module: Any, destination: dict, prefix: str, local_metadata: Any) -> None:
    """Add the sharded tensors that are attributes of modules to a state."""
    for path, submodule in module.named_modules():
        for name, value in vars(submodule).items():
            if isinstance(value, ShardedTensor):
                destination[".".join(filter(None, (prefix + path, name)))] = value


def pre_load_state_dict_hook(
    module: Any, state_dict: dict, prefix: str, local_metadata: Any, strict: bool, missing_keys: list,
    unexpected_keys: list, error_msgs: list,
) -> None:  # fmt: skip
    """Give modules the sharded tensors of a state."""
    for path, submodule in module.named_modules():
        for name, value in list(vars(submodule).items()):
            key = ".".join(filter(None, (prefix + path, name)))
            if isinstance(value, ShardedTensor) and key in state_dict:
                setattr(submodule, name, state_dict[key])
