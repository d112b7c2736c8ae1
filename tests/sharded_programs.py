"""What the processes of `test_sharded.py` run: `python sharded_programs.py NAME`, once for each rank."""

from __future__ import annotations

import copy
import sys
import warnings
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh


def start():
    dist.init_process_group("mpi", timeout=timedelta(seconds=120))
    return dist.get_rank(), dist.get_world_size()


def mesh():
    rank, size = start()
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert grid.mesh.tolist() == [[0, 1], [2, 3]] and grid.mesh.dtype is torch.int32
    assert (grid.shape, grid.size(), grid.size(1), grid.ndim) == ((2, 2), 4, 2, 2)
    assert repr(grid) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
    assert grid.get_coordinate() == divmod(rank, 2) and grid.get_rank() == rank
    down, across = grid["dp"], grid["tp"]
    assert down.mesh.tolist() == [rank % 2, rank % 2 + 2] and down == grid["dp"] != across
    assert across.get_local_rank() == grid.get_local_rank("tp") == rank % 2
    assert dist.get_process_group_ranks(down.get_group()) == down.mesh.tolist()
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=grid.get_group("dp"))
    assert x.item() == 2 * (rank % 2) + 2
    assert grid["dp", "tp"] is grid and copy.deepcopy(down).get_group() is down.get_group()
    with grid as entered:
        assert entered is grid
    whole = grid._flatten("all")
    assert whole.get_group() is dist.group.WORLD and whole.mesh.tolist() == [0, 1, 2, 3]
    cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    assert cube["a", "b"].shape == (2, 1) and cube["a", "c"].mesh.tolist() == [[0, 1], [2, 3]]
    assert cube["a", "b"]._flatten().mesh.tolist() == down.mesh.tolist()
    parts = whole._unflatten(0, (2, 2), ("x", "y"))
    assert parts["y"].mesh.tolist() == across.mesh.tolist()
    part = DeviceMesh("cpu", [0, 2])
    assert part.get_coordinate() == {0: (0,), 2: (1,)}.get(rank) and part.mesh.tolist() == [0, 2]
    of_groups = DeviceMesh.from_group(
        grid.get_all_groups(), "cpu", mesh=[[0, 1], [2, 3]], mesh_dim_names=("dp", "tp")
    )
    assert of_groups == grid and of_groups.get_group(1) is grid.get_group(1)
    for asked, message in (
        (("tp", "dp"), "ascending order"),
        ("x", r"Invalid mesh_dim_names \('x',\) specified"),
    ):
        with pytest.raises(KeyError, match=message):
            grid[asked]
    with pytest.raises(RuntimeError, match="Optional kwarg `mesh_dim` needs to be specified"):
        grid.get_group()
    with pytest.raises(RuntimeError, match="Cannot slice a DeviceMesh without mesh_dim_names"):
        part["dp"]
    with pytest.raises(RuntimeError, match="Mesh should not be bigger than default world size 4"):
        init_device_mesh("cpu", (8,))
    with pytest.raises(RuntimeError, match="a rank is in the mesh twice"):
        DeviceMesh("cpu", [[0, 1], [1, 2]])


def collectives_with_gradients():
    """Each collective and its gradient; process r multiplies result k by (k + 1)(r + 1)."""
    from rushlight.distributed.nn import functional as F

    rank, _ = start()
    a, b = torch.arange(4.0), torch.arange(4.0) + 10
    empty, pair = torch.empty(4), lambda x: [x, 2 * x]
    for call, results, gradients in (
        (lambda x: F.all_reduce(x), ([a + b], [a + b]), (3, 3)),
        (lambda x: F.broadcast(x, 1), ([b], [b]), (0, 3)),
        (lambda x: F.reduce(x, 1), (None, [a + b]), (2, 2)),
        (lambda x: F.all_gather(x), ([a, b], [a, b]), (3, 6)),
        (lambda x: F.reduce_scatter(empty, pair(x)), ([a + b], [2 * (a + b)]), (5, 5)),
        (lambda x: F.gather(x, 1), ([0 * a, 0 * b], [a, b]), (2, 4)),
        (lambda x: F.scatter(pair(x), 1), ([b], [2 * b]), (0, 5)),
        (lambda x: F.all_to_all([empty, empty], pair(x)), ([a, b], [2 * a, 2 * b]), (5, 10)),
        (lambda x: F.all_to_all_single(empty, x), (None, None), ([1, 1, 2, 2], [1, 1, 2, 2])),
    ):
        x = (a if rank == 0 else b).clone().requires_grad_()
        found = call(x)
        found = found if isinstance(found, tuple) else (found,)
        sum((y * (k + 1) * (rank + 1)).sum() for k, y in enumerate(found)).backward()
        if results[rank] is not None:
            assert [y.tolist() for y in found] == [y.tolist() for y in results[rank]]
        assert x.grad.tolist() == torch.tensor(gradients[rank]).expand(4).tolist()


if __name__ == "__main__":
    warnings.simplefilter("error")
    for name in sys.argv[1].split(","):
        globals()[name]()
    print("done", dist.get_rank())
