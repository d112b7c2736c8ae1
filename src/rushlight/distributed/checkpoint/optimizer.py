"""`load_sharded_optimizer_state_dict`: the state of an optimizer, spread as the parameters of the model are."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import groups
from rushlight.distributed.checkpoint._nested_dict import unflatten_state_dict
from rushlight.distributed.checkpoint.metadata import BytesStorageMetadata, TensorStorageMetadata
from rushlight.distributed.checkpoint.planner import LoadPlanner
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import DTensor, Shard, empty

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any], optimizer_key: str, storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> dict[str, Any]:  # fmt: skip
    """{`optimizer_key`: the state that a checkpoint has under this name}; all processes call it.

    `model_state_dict` has `DTensor`s, as `FullyShardedDataParallel` gives them for `SHARDED_STATE_DICT`: what the optimizer has
    of a parameter is spread as the parameter is; tensors of other sizes are spread over all processes by their rows.
    """
    metadata = storage_reader.read_metadata()
    paths, state = metadata.planner_data, {}
    for key, entry in metadata.state_dict_metadata.items():
        path = paths[key]
        if path[0] != optimizer_key:
            continue
        if isinstance(entry, BytesStorageMetadata):
            state[key] = None  # it is exchanged for what is read
        else:
            state[key] = _room(entry, model_state_dict.get(path[2]) if path[1] == "state" else None)
    _load_state_dict(state, storage_reader, planner=planner)
    return unflatten_state_dict(state, {key: paths[key] for key in state})


def _room(entry: TensorStorageMetadata, parameter: Any) -> Tensor:
    """A tensor for what is read, spread as the parameter is."""
    dtype = entry.properties.dtype
    if entry.size.numel() == 1:
        return rushlight.empty(entry.size, dtype=dtype)
    if isinstance(parameter, DTensor) and parameter.size() == entry.size:
        mesh, places = parameter.device_mesh, parameter.placements
    else:
        mesh, places = DeviceMesh.from_group(groups._get_default_group(), "cpu"), (Shard(0),)
    return empty(entry.size, dtype=dtype, device_mesh=mesh, placements=places)
