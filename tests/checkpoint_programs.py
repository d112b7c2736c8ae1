"""What the processes of `test_distributed_checkpoint.py` run: `python checkpoint_programs.py NAME FOLDER`, once for each rank."""

from __future__ import annotations

import os
import pathlib
import signal
import warnings
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from processes import run_programs
from rushlight.distributed.checkpoint import CheckpointException, format_utils
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

FOLDER = pathlib.Path(os.environ.get("CHECKPOINT", "."))


def start():
    if not dist.is_initialized():
        dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    return dist.get_rank(), dist.get_world_size()


PLAN = {"0": ColwiseParallel(), "2": RowwiseParallel()}


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def spread_model():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallelize_module(model(), mesh, PLAN)


def step(net, optimizer, k):
    torch.manual_seed(100 + k)
    loss = (net(torch.randn(5, 6)) - torch.randn(5, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def saves():
    """A spread model with its optimizer, tensors of several shapes, other values; also in a thread."""
    rank, size = start()
    net = spread_model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = [step(net, optimizer, k) for k in range(3)]
    mesh = init_device_mesh("cpu", (size,))
    odd = distribute_tensor(torch.arange(35.0).view(7, 5), mesh, [Shard(0)])
    states = get_state_dict(net, optimizer)
    content = {
        "model": states[0],
        "optimizer": states[1],
        "odd": odd,
        "losses": losses,
        "plain": torch.ones(2),
    }
    content["columns"] = odd.redistribute(placements=[Shard(1)])
    pending = dcp.async_save(content, checkpoint_id=FOLDER)
    after = [step(net, optimizer, k) for k in (3, 4)]  # the copy does not see them
    assert "model.0.weight" in pending.result().state_dict_metadata
    if rank == 0:
        (FOLDER / "after").write_text(repr(after))
    dist.barrier()
    with pytest.raises(dcp.CheckpointException, match="OSError|NotADirectory"):
        dcp.save(content, checkpoint_id=FOLDER / "after" / "below")
    dist.barrier()


def loads():
    """By any number of processes: the steps go on as they did."""
    rank, size = start()
    net = spread_model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    mesh = init_device_mesh("cpu", (size,))
    states = get_state_dict(net, optimizer)
    content = {"model": states[0], "optimizer": states[1], "losses": [], "plain": torch.zeros(2)}
    content["odd"] = distribute_tensor(torch.zeros(7, 5), mesh, [Shard(1)])
    content["columns"] = distribute_tensor(torch.zeros(7, 5), mesh, [Replicate()])
    dcp.load(content, checkpoint_id=FOLDER)
    assert len(content["losses"]) == 3 and content["plain"].tolist() == [1, 1]
    for name in ("odd", "columns"):
        assert torch.equal(whole(content[name]), torch.arange(35.0).view(7, 5))
    set_state_dict(
        net, optimizer, model_state_dict=content["model"], optim_state_dict=content["optimizer"]
    )
    expected = eval((FOLDER / "after").read_text())
    got = [step(net, optimizer, k) for k in (3, 4)]
    assert max(abs(a - b) for a, b in zip(got, expected)) < 1e-5, (got, expected)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: none"):
        dcp.load({"none": torch.zeros(1)}, checkpoint_id=FOLDER)
    with pytest.raises(dcp.CheckpointException, match="Size mismatch"):
        dcp.load({"plain": torch.zeros(3)}, checkpoint_id=FOLDER)
    # whole states, and the first process's
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(net, options=full)
    assert bool(state) == (rank == 0)
    other = spread_model()
    set_model_state_dict(
        other, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    assert all(
        torch.equal(whole(a), whole(b)) for a, b in zip(other.parameters(), net.parameters())
    )


def sharded_optimizer():
    """The state of an optimizer of a wrapped model, spread as its parameters are."""
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp import StateDictType

    rank, size = start()

    def trained(steps):
        net = FSDP(model(), use_orig_params=True)
        FSDP.set_state_dict_type(net, StateDictType.SHARDED_STATE_DICT)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        for k in range(steps):
            step(net, optimizer, k)
        return net, optimizer

    net, optimizer = trained(2)
    expected = FSDP.optim_state_dict(net, optimizer)
    state = {"model": net.state_dict(), "optim": expected, "steps": 2}
    state["rows"] = {"state": {"0.weight": {"sums": torch.arange(8.0)}}}
    dcp.save(state, checkpoint_id=FOLDER / "wrapped")

    net, optimizer = trained(1)
    reader = dcp.FileSystemReader(FOLDER / "wrapped")
    found = dcp.load_sharded_optimizer_state_dict(net.state_dict(), "optim", reader)
    assert found.keys() == {"optim"} and found["optim"].keys() == expected.keys()
    assert found["optim"]["param_groups"] == expected["param_groups"]
    for name, values in expected["state"].items():
        for key, value in values.items():
            got = found["optim"]["state"][name][key]
            assert type(got) is type(value) and torch.equal(whole(got), whole(value)), (name, key)
            assert key == "step" or got.placements == (Shard(0),)
    optimizer.load_state_dict(FSDP.optim_state_dict_to_load(net, optimizer, found["optim"]))
    # a tensor that has not the size of its parameter
    rows = dcp.load_sharded_optimizer_state_dict(net.state_dict(), "rows", reader)
    sums = rows["rows"]["state"]["0.weight"]["sums"]
    assert sums.placements == (Shard(0),) and sums.full_tensor().tolist() == [*range(8)]
    assert dcp.load_sharded_optimizer_state_dict({}, "none", reader) == {}


def listed_parts():
    """ShardedTensor: parts of any boxes, several on one process."""
    from rushlight.distributed._shard import sharded_tensor
    from rushlight.distributed._shard.sharding_spec import (
        ChunkShardingSpec,
        EnumerableShardingSpec,
        ShardMetadata,
    )

    rank, size = start()
    warnings.simplefilter("ignore", FutureWarning)

    def boxes(*rows):
        return EnumerableShardingSpec(
            [ShardMetadata(a, b, f"rank:{k % size}/cpu") for k, (a, b) in enumerate(rows)]
        )

    specs = [
        ChunkShardingSpec(0, ["rank:0", "rank:1", "rank:1", "rank:0"]),
        ChunkShardingSpec(1, ["rank:1/cpu", "rank:0/cpu"]),
        boxes(([0, 0], [2, 4]), ([2, 0], [5, 1]), ([2, 1], [5, 3])),
    ]
    whole = torch.arange(28.0).view(7, 4)
    for spec in specs:
        saved = sharded_tensor.zeros(spec, 7, 4)
        for shard in saved.local_shards():
            (a, b), (m, n) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
            shard.tensor.copy_(whole[a : a + m, b : b + n])
        found = torch.zeros(7, 4)
        saved.gather(1, found if rank == 1 else None)
        assert rank == 0 or torch.equal(found, whole)
        again = sharded_tensor.init_from_local_shards(saved.local_shards(), 7, 4)
        assert len(again.metadata().shards_metadata) == len(saved.metadata().shards_metadata)
        dcp.save({"w": saved, "again": again.detach()}, checkpoint_id=FOLDER)
        for other in specs:
            loaded = sharded_tensor.rand(other, 7, 4)
            dcp.load({"w": loaded, "again": found.zero_()}, checkpoint_id=FOLDER)
            assert torch.equal(found, whole)
            loaded.gather(0, found.zero_())
            assert rank == 1 or torch.equal(found, whole)

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = sharded_tensor.full(specs[0], (7, 4), 3.0)

    holder = torch.nn.Sequential(Holder())
    holder._register_state_dict_hook(sharded_tensor.state_dict_hook)
    state = holder.state_dict()
    assert list(state) == ["0.w"] and state["0.w"].local_shards()[0].tensor[0, 0] == 3
    other = torch.nn.Sequential(Holder())
    sharded_tensor.pre_load_state_dict_hook(other, state, "", {}, True, [], [], [])
    assert other[0].w is holder[0].w
    with pytest.raises(RuntimeError, match="not supported for ShardedTensor"):
        state["0.w"] + 1
    with pytest.raises(ValueError, match="have no local shards on all ranks"):
        sharded_tensor.init_from_local_shards([], 3)
    dist.barrier()


def goes_on():
    """Trains from the last checkpoint; the first start kills a rank in the middle of a step, the second while saving."""
    rank, _ = start()
    tries = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    net = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    first = 0
    if (FOLDER / "kept" / ".metadata").exists():
        states = get_state_dict(net, optimizer)
        content = {"model": states[0], "optimizer": states[1], "step": 0}
        dcp.load(content, checkpoint_id=FOLDER / "kept")
        set_state_dict(
            net, optimizer, model_state_dict=content["model"], optim_state_dict=content["optimizer"]
        )
        first = content["step"]
    assert first == (0, 4, 6)[tries], (first, tries)
    for k in range(first, 10):
        if (tries, k, rank) == (0, 5, 1):
            os.kill(os.getpid(), signal.SIGKILL)
        print("loss", k, step(net, optimizer, k))
        if k % 2:
            states = get_state_dict(net, optimizer)
            writer = dcp.FileSystemWriter(FOLDER / "kept")
            if (tries, k, rank) == (1, 7, 0):
                writer.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            content = {"model": states[0], "optimizer": states[1], "step": k + 1}
            dcp.save(content, storage_writer=writer)


def reads_one_file():
    """One process reads a file of `torch.save` and gives all their parts; what is missing all hear."""
    rank, size = start()
    path, whole = FOLDER / "whole.pt", model()
    if rank == 0:
        torch.save({"net": whole.state_dict(), "odd": torch.arange(5.0)}, path)
    mesh = init_device_mesh("cpu", (size,))
    net, odd = (
        spread_model(),
        distribute_tensor(torch.zeros(5, dtype=torch.float64), mesh, [Shard(0)]),
    )
    for parameter in net.parameters():
        parameter.detach().zero_()

    def load(state):
        reader, planner = format_utils.BroadcastingTorchSaveReader(), format_utils.DynamicMetaLoadPlanner()  # fmt: skip
        dcp.load(state, storage_reader=reader, planner=planner, checkpoint_id=path)

    load({"net": net.state_dict(), "odd": odd})
    assert torch.equal(odd.full_tensor(), torch.arange(5.0, dtype=torch.float64))
    for mine, theirs in zip(net.parameters(), whole.parameters()):
        assert torch.equal(mine.full_tensor(), theirs)
    for state, text in (
        ({"none": torch.zeros(2)}, "Missing key"),
        ({"odd": torch.zeros(2)}, "Size mismatch"),
    ):
        with pytest.raises(CheckpointException, match=text):
            load(state)


if __name__ == "__main__":
    run_programs(globals())
