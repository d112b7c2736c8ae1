"""What the processes of `test_sharded.py` run: `python sharded_programs.py NAME`, once for each rank."""

from __future__ import annotations

import copy
import gc
import itertools
import os
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import run_programs
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh


def start():
    if not dist.is_initialized():
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
    cube["a", "b"]._flatten("ab")
    assert cube["ab", "c"].mesh.tolist() == [[0, 1], [2, 3]] and cube["b", "a"].shape == (1, 2)
    assert cube["ab", "c"].get_group("ab").size() == 2
    with pytest.raises(RuntimeError, match="Slicing overlapping dim_names"):
        cube["a", "ab"]
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        cube["a", "c"]["ab"]  # the root knows it
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


nn = torch.nn
loss_of = nn.functional.cross_entropy


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width + 1), nn.Linear(3 * width + 1, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), Block(16), Block(16), nn.Linear(16, 3))


def batches(steps, rank, size):
    """This process's part of each batch."""
    generator = torch.Generator().manual_seed(11)
    mine = slice(4 * rank, 4 * rank + 4)
    for _ in range(steps):
        x = torch.randn(4 * size, 6, generator=generator)
        yield x[mine], torch.randint(0, 3, (4 * size,), generator=generator)[mine]


def train(sharded, clip, halves, steps, rank, size):
    """Steps of a sharded model and of DDP's, with losses and norms compared: (the optimizers, DDP's module, a batch)."""
    parallel = nn.parallel.DistributedDataParallel(model())
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (sharded, parallel)]
    for step, (x, y) in enumerate(batches(steps, rank, size)):
        for each in optimizers:
            each.zero_grad()
        if step % 4 == 3:
            with torch.no_grad():
                loss = loss_of(sharded(x), y)
            halves(sharded, x, y)
        else:
            loss = loss_of(sharded(x), y)
            loss.backward()
        expected = loss_of(parallel(x), y)
        expected.backward()
        norms = clip(sharded), nn.utils.clip_grad_norm_(parallel.parameters(), 0.5)
        assert abs(loss.item() - expected.item()) < 1e-5, (step, loss, expected)
        assert abs(norms[0] - norms[1]) < 1e-5, (step, norms)
        for each in optimizers:
            each.step()
    return *optimizers, parallel.module, (x, y)


def fully_sharded():
    """FullyShardedDataParallel gives DDP's losses, state dicts and states of optimizers, which others load."""
    from rushlight.distributed.fsdp import (
        FullStateDictConfig,
        MixedPrecision,
        ShardingStrategy,
        StateDictType,
    )
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy

    rank, size = start()

    def halves(m, x, y):
        with m.no_sync():
            (loss_of(m(x[:2]), y[:2]) / 2).backward()
        (loss_of(m(x[2:]), y[2:]) / 2).backward()

    def made(kind, original, **more):
        groups = None
        if kind is ShardingStrategy.HYBRID_SHARD:
            groups = (dist.new_subgroups(2)[0], across)
        return FSDP(
            model(), groups, sharding_strategy=kind, use_orig_params=original,
            auto_wrap_policy=ModuleWrapPolicy({Block}), **more,
        )  # fmt: skip

    kinds = [ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD]
    if size == 4:
        across = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0]
        kinds = [ShardingStrategy.HYBRID_SHARD, ShardingStrategy.FULL_SHARD]
    for kind, original in ((kind, original) for kind in kinds for original in (False, True)):
        sharded = made(kind, original)
        steps = 50 if kind is ShardingStrategy.FULL_SHARD else 8
        ours, theirs, plain, (x, y) = train(
            sharded, lambda m: m.clip_grad_norm_(0.5), halves, steps, rank, size
        )
        state, expected = sharded.state_dict(), plain.state_dict()
        assert list(state) == list(expected)
        for name, value in expected.items():
            torch.testing.assert_close(state[name], value, atol=1e-5, rtol=0)
        names = [name for name, _ in plain.named_parameters()]
        of_optimizer = FSDP.optim_state_dict(sharded, ours)
        assert sorted(of_optimizer["param_groups"][0]["params"]) == sorted(names)
        for name, entry in zip(names, theirs.state_dict()["state"].values()):
            for key, value in entry.items():
                torch.testing.assert_close(
                    of_optimizer["state"][name][key], value, atol=1e-6, rtol=1e-4
                )
        again = made(kind, not original)  # loads what the other kind of parameters saved
        optimizer = torch.optim.AdamW(again.parameters(), lr=0.5)
        again.load_state_dict(state)
        optimizer.load_state_dict(FSDP.optim_state_dict_to_load(again, optimizer, of_optimizer))
        after = []
        for m, o in ((sharded, ours), (again, optimizer)):
            o.zero_grad()
            loss_of(m(x), y).backward()
            o.step()
            after.append(loss_of(m(x), y).item())
        assert abs(after[0] - after[1]) < 1e-6
        whole = FullStateDictConfig(rank0_only=True)
        with FSDP.state_dict_type(sharded, StateDictType.FULL_STATE_DICT, whole):
            first = sharded.process_group.rank() == 0
            assert len(sharded.state_dict()) == (len(expected) if first else 0)
        with FSDP.summon_full_params(sharded):
            assert [name for name, _ in sharded.named_parameters()] == names
            with torch.no_grad():
                sharded.module[0].weight.fill_(2.0)
        assert sharded.state_dict()["0.weight"].eq(2).all()
        count = sum(p.numel() for p in sharded.parameters())
        parts = {ShardingStrategy.NO_SHARD: 1, ShardingStrategy.HYBRID_SHARD: 2}.get(kind, size)
        assert abs(count - sum(p.numel() for p in plain.parameters()) / parts) < 8
    narrow = made(kinds[0], True, mixed_precision=MixedPrecision(torch.bfloat16))
    ((x, y),) = batches(1, rank, size)
    out = narrow(x)
    loss_of(out.float(), y).backward()
    assert out.dtype is torch.bfloat16
    assert {p.grad.dtype for p in narrow.parameters()} == {torch.float32}
    for use_orig_params in (False, True):
        sharded, alone = made(kinds[0], use_orig_params), model()
        sharded(torch.ones(2, 6)).sum().backward()
        before = [*sharded.parameters()]
        for net in (sharded, alone):
            net.double()
            net(torch.ones(2, 6, dtype=torch.float64)).square().sum().backward()
            net.zero_grad()
            net(torch.ones(2, 6, dtype=torch.float64)).square().sum().backward()
            torch.optim.SGD(net.parameters(), 0.1).step()
        assert all(p is q for p, q in zip(sharded.parameters(), before))
        assert {p.grad.dtype for p in before if p.grad is not None} == {torch.float64}
        for name, value in sharded.state_dict().items():
            torch.testing.assert_close(value, alone.state_dict()[name])
    with pytest.raises(ValueError, match="Must flatten tensors with uniform dtype"):
        FSDP(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()))


def full_precision_of_fully_sharded():
    """Whole parameters and state dicts have the dtype of the parts, not the one that modules compute in."""
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp import MixedPrecision, ShardingStrategy, StateDictType
    from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy

    rank, size = start()
    mixed = MixedPrecision(torch.bfloat16, buffer_dtype=torch.bfloat16)
    plain = nn.Sequential(model(), nn.BatchNorm1d(3))
    plain.register_buffer("scale", torch.full((1,), 1 / 3))
    expected = {k: v.clone() for k, v in plain.state_dict().items()}
    kinds = [ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD]
    for kind, original in ((kind, original) for kind in kinds for original in (False, True)):
        with pytest.warns(UserWarning, match="_BatchNorm are wrapped as separate"):
            net = FSDP(
            copy.deepcopy(plain), sharding_strategy=kind, use_orig_params=original, mixed_precision=mixed,
            auto_wrap_policy=ModuleWrapPolicy({Block}),
        )  # fmt: skip
        net.eval()
        for _ in range(2):  # the second time some are gathered already
            with FSDP.summon_full_params(net):
                for name, value in net.named_parameters():
                    assert torch.allclose(
                        value, expected[name], atol=1e-3 * (name == "scale"), rtol=0
                    ), (kind, original, name)
                nested = net.state_dict()
                assert torch.equal(nested["0.0.weight"], expected["0.0.weight"])
                assert [k for k, _ in net.named_parameters()] == [
                    k for k, _ in plain.named_parameters()
                ]
            net.apply(lambda module: None)
            for name, value in net.state_dict().items():
                assert value.dtype is expected[name].dtype, name
                assert torch.allclose(
                    value, expected[name], atol=1e-3 * (name == "scale"), rtol=0
                ), (kind, original, name)
            with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
                spread = net.state_dict()["0.0.weight"]
            assert spread.dtype is torch.float32
            out = net(torch.ones(2, 6))
            assert out.dtype is torch.bfloat16
        norm = net.module[1]  # apart, and in float32
        assert isinstance(norm, FSDP) and net.scale.dtype is torch.bfloat16
        assert norm.running_mean.dtype is torch.float32
        seen = []
        norm.module.register_forward_hook(
            lambda _, args, out: seen.append((args[0].dtype, out.dtype))
        )
        net(torch.ones(2, 6))
        assert seen == [(torch.float32, torch.bfloat16)]
        with torch.no_grad(), FSDP.summon_full_params(net, writeback=False):
            net.module[0][0].weight.zero_()
        assert torch.equal(net.state_dict()["0.0.weight"], expected["0.0.weight"])
        with torch.no_grad(), FSDP.summon_full_params(net):
            net.module[0][0].weight.fill_(2.0)
        net(torch.ones(2, 6))
        assert net.state_dict()["0.0.weight"].eq(2).all()


def fully_shard():
    """fully_shard gives DDP's losses; parameters are spread tensors, with states of optimizers like them."""
    from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
    from rushlight.distributed.fsdp import fully_shard as shard
    from rushlight.distributed.tensor import DTensor, Replicate, Shard

    rank, size = start()

    def made(**options):
        m = model()
        for block in (m[1], m[2]):
            shard(block, **options)
        return shard(m, **options)

    def halves(m, x, y):
        m.set_requires_gradient_sync(False)
        (loss_of(m(x[:2]), y[:2]) / 2).backward()
        m.set_requires_gradient_sync(True)
        (loss_of(m(x[2:]), y[2:]) / 2).backward()

    def clip(m):
        return nn.utils.clip_grad_norm_(m.parameters(), 0.5).full_tensor()

    sharded = made()
    assert isinstance(sharded, FSDPModule) and isinstance(sharded, nn.Sequential)
    assert isinstance(sharded[0].weight, DTensor) and isinstance(sharded[0].weight, nn.Parameter)
    assert sharded[0].weight.placements == (Shard(0),)
    up = sharded[1].up.weight  # 49 rows: the last process has fewer
    assert (
        up.shape == (49, 16)
        and up.to_local().shape[0] == {2: (25, 24), 4: (13, 13, 13, 10)}[size][rank]
    )
    ours, theirs, plain, (x, y) = train(sharded, clip, halves, 50, rank, size)
    for (name, p), q in zip(sharded.state_dict().items(), plain.state_dict().values()):
        torch.testing.assert_close(p.full_tensor(), q, atol=1e-5, rtol=0, msg=name)
    moment = ours.state_dict()["state"][2]["exp_avg"]
    expected = theirs.state_dict()["state"][2]["exp_avg"]
    torch.testing.assert_close(moment.full_tensor(), expected, atol=1e-6, rtol=1e-4)

    with pytest.raises(ValueError, match="should be a factor of"):
        shard(model(), reshard_after_forward=size + 1)
    assert isinstance(shard(model(), reshard_after_forward=size), FSDPModule)
    with pytest.warns(UserWarning, match="means resharding parameters to world size 1"):
        other = made(reshard_after_forward=1)  # False
    other.load_state_dict(sharded.state_dict())
    with torch.no_grad():
        assert torch.equal(other(x), sharded(x))
    assert not isinstance(other[1].up.weight, DTensor)  # still whole
    other.unshard(async_op=True).wait()
    other.reshard()
    assert isinstance(other[0].weight, DTensor)
    sharded.zero_grad()
    once = torch.utils.checkpoint.checkpoint(other, x, use_reentrant=False)
    for m, out in ((sharded, sharded(x)), (other, once)):
        loss_of(out, y).backward()
    for p, q in zip(sharded.parameters(), other.parameters()):
        torch.testing.assert_close(p.grad.full_tensor(), q.grad.full_tensor())

    frozen = made()  # what is frozen is still there when the gradients before it are computed
    alone = model()
    for m in (frozen, alone):
        m[1].requires_grad_(False)
        m[3].requires_grad_(False)
        m[2].up.requires_grad_(False)
    loss_of(frozen(x), y).backward()
    loss_of(alone(x), y).backward()
    for p, q in zip(frozen.parameters(), alone.parameters()):
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            dist.all_reduce(q.grad, op=dist.ReduceOp.AVG)
            torch.testing.assert_close(p.grad.full_tensor(), q.grad, atol=1e-6, rtol=1e-4)

    narrow = model()
    for block in (narrow[1], narrow[2]):
        shard(block, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    shard(narrow, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32))
    out = narrow(x)
    loss_of(out, y).backward()
    assert out.dtype is torch.float32 and {p.grad.dtype for p in narrow.parameters()} == {
        torch.float32
    }
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss_of(sharded(x), y).backward()

    if size == 4:  # two replicas of parameters that two processes share
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        hybrid = made(mesh=grid)
        assert hybrid[0].weight.placements == (Replicate(), Shard(0))
        assert hybrid[0].weight.to_local().shape == (8, 6)
        train(hybrid, clip, halves, 8, rank, size)

    columns = made(shard_placement_fn=lambda p: Shard(-1) if p.shape[-1] % size == 0 else None)
    placed = [p.placements[0] for p in (columns[3].weight, columns[3].bias, columns[0].bias)]
    assert placed == [Shard(1), Shard(0), Shard(0)]
    assert columns[3].weight.to_local().shape == (3, 16 // size)
    ours, _, plain, _ = train(columns, clip, halves, 8, rank, size)
    for p, q in zip(columns.parameters(), plain.parameters()):
        torch.testing.assert_close(p.full_tensor(), q, atol=1e-5, rtol=0)
    with pytest.raises(NotImplementedError, match="uneven sharding on dim 1"):
        shard(nn.Linear(size + 1, 4), shard_placement_fn=lambda p: Shard(p.dim() - 1))
    with pytest.raises(AssertionError, match="Shard dim 2 is invalid for 2D tensor"):
        shard(nn.Linear(4, 4), shard_placement_fn=lambda p: Shard(2))

    class Hidden(nn.Linear):
        def forward(self, x):
            self.extra = super().forward(x).sum()
            return x * 2

    hidden = nn.Sequential(shard(Hidden(3, 3)))
    shard(hidden)
    hidden(torch.ones(1, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="not among the outputs of the sharded module"):
        hidden[0].extra.backward()
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        shard(nn.ModuleList())
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        shard(torch.nn.ParameterList([torch.ones(())]))

    net, alone = shard(model()), model()
    net(torch.ones(2, 6)).sum().backward()
    net.zero_grad()
    for each in (net, alone):  # the gathered parameters follow the dtype of the sharded ones
        each.double()
        each(torch.ones(2, 6, dtype=torch.float64)).square().sum().backward()
    for p, q in zip(net.parameters(), alone.parameters()):
        assert p.grad.dtype is torch.float64
        torch.testing.assert_close(p.grad.full_tensor(), q.grad)


def two_ways():
    """fully_shard of layers that a tensor-parallel plan has cut: what one process computes, and all rows in their places."""
    from rushlight.distributed.fsdp import fully_shard as shard
    from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from rushlight.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from rushlight.distributed.tensor.placement_types import _StridedShard

    rank, size = start()
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dp, tp = divmod(rank, 2)

    def made():
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(6, 14), nn.Tanh(), nn.Linear(14, 5))

    alone, m = made(), made()
    parallelize_module(m, grid["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for layer in (m[0], m[2], m):
        shard(layer, mesh=grid["dp"])
    up, down = m[0].weight, m[2].weight
    assert up.placements == (_StridedShard(0, 2), Shard(0)) and up.device_mesh == grid
    assert down.placements == (Shard(0), Shard(1)) and down.to_local().shape == ((3, 2)[dp], 7)
    rows = alone[0].weight[7 * tp : 7 * tp + 7][(slice(0, 4), slice(4, 7))[dp]]
    assert torch.equal(up.to_local(), rows) and torch.equal(up.full_tensor(), alone[0].weight)
    ours, theirs = (torch.optim.Adam(each.parameters(), lr=0.05) for each in (m, alone))
    for _ in range(10):
        x = torch.randn(8, 6)  # the same everywhere
        ours.zero_grad()
        theirs.zero_grad()
        m(x[4 * dp : 4 * dp + 4]).pow(2).mean().backward()
        alone(x).pow(2).mean().backward()
        ours.step()
        theirs.step()
    for p, q in zip(m.parameters(), alone.parameters()):
        torch.testing.assert_close(p.full_tensor(), q, atol=1e-5, rtol=1e-4)
    moment = ours.state[m[0].weight]["exp_avg"]
    assert moment.placements == up.placements and moment.to_local().shape == rows.shape
    torch.testing.assert_close(
        moment.full_tensor(), theirs.state[alone[0].weight]["exp_avg"], atol=1e-6, rtol=1e-4
    )

    whole = torch.arange(7.0 * 6).view(7, 6)
    ways = [
        (_StridedShard(0, 2), Shard(0)), (Shard(0), Shard(0)), (Shard(1), Shard(0)), (Replicate(), Shard(0)),
        (Shard(0), Shard(1)), (Replicate(), Replicate()),
    ]  # fmt: skip
    for one in ways:
        for other in ways:
            t = distribute_tensor(whole, grid, one).redistribute(placements=other)
            expected = distribute_tensor(whole, grid, other)
            assert torch.equal(t.to_local(), expected.to_local()), (one, other)
            assert torch.equal(t.full_tensor(), whole)
            assert torch.equal((t * 2).sum(1).full_tensor(), (whole * 2).sum(1))
    elsewhere = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    layer = nn.Linear(4, 4)
    parallelize_module(layer, grid["tp"], ColwiseParallel())
    with pytest.raises(ValueError, match="to have the same parent mesh"):
        shard(layer, mesh=elsewhere)
    assert isinstance(layer.weight, DTensor)


def scaler():
    """All processes leave out a step when the part of one of them is not finite."""
    from rushlight.distributed.fsdp import fully_shard as shard
    from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    rank, size = start()
    m = shard(nn.Linear(3, 2 * size, bias=False))
    optimizer, scaler = torch.optim.SGD(m.parameters(), lr=1.0), ShardedGradScaler("cpu", 4.0)
    before = m.weight.full_tensor().clone()
    for broken, scale in ((False, 4.0), (True, 2.0)):
        optimizer.zero_grad()
        scaler.scale(m(torch.ones(1, 3)).sum()).backward()
        if broken and rank == size - 1:
            m.weight.grad.to_local()[0, 0] = torch.inf
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        torch.testing.assert_close(m.weight.full_tensor(), before - 1)


def memory():
    """With 16 layers that are gathered one by one a process never has the memory of all parameters."""
    from rushlight._codegen.runtime.memory import empty_cache, memory_stats
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp import fully_shard as shard
    from rushlight.distributed.fsdp.wrap import always_wrap_policy

    _, size = start()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    layers = 16
    whole = layers * 1024 * 1024 * 4
    for kind in ("fully_shard", "FullyShardedDataParallel"):
        m = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(layers)])
        if kind == "fully_shard":
            for layer in m:
                shard(layer)
            shard(m)
        else:
            m = FSDP(m, auto_wrap_policy=always_wrap_policy)
        x = torch.ones(2, 1024)
        m(x)  # some memory is made by the first call
        empty_cache()
        pages = []  # of gathered parameters, and of all else that is in no array
        for layer in m if kind == "fully_shard" else m.module:
            layer.register_forward_hook(
                lambda *_: pages.append(resident() - memory_stats()["allocated"])
            )
        out = m(x)
        assert memory_stats()["peak"] < whole / size + 0.2 * whole
        assert max(pages) - min(pages) < 0.4 * whole
        out.sum().backward()
        assert memory_stats()["peak"] < 2 * whole / size + 0.4 * whole
        del m, layer, out
        gc.collect()


def zero():
    """ZeroRedundancyOptimizer gives the losses of an optimizer with the whole state, which it can save and load."""
    from rushlight.distributed.optim import ZeroRedundancyOptimizer

    rank, size = start()
    DDP = nn.parallel.DistributedDataParallel
    models = [DDP(model()) for _ in range(3)]
    whole = torch.optim.Adam(models[0].parameters(), lr=0.01)

    def made(m, lr=0.01):
        found = ZeroRedundancyOptimizer(m.module[0].parameters(), torch.optim.Adam, lr=lr)
        found.add_param_group({"params": list(m.module[1:].parameters())})
        return found

    spread = made(models[1])
    schedules = [torch.optim.lr_scheduler.StepLR(o, 10, 0.5) for o in (whole, spread)]
    for step, (x, y) in enumerate(batches(50, rank, size)):
        losses = []
        for m, o in zip(models, (whole, spread)):
            o.zero_grad()
            loss = loss_of(m(x), y)
            loss.backward()
            o.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-5, (step, losses)
        for each in schedules:
            each.step()
    every = sum(len(v) for v in whole.state.values())
    assert 0 < sum(len(v) for v in spread.state.values()) < every
    with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
        spread.state_dict()
    spread.consolidate_state_dict(to=1)
    assert rank == 1 or spread._consolidated is None
    states = [spread.state_dict() if rank == 1 else None]
    dist.broadcast_object_list(states, src=1)
    expected = whole.state_dict()
    assert list(states[0]["state"]) == list(expected["state"])
    for k, entry in expected["state"].items():
        torch.testing.assert_close(states[0]["state"][k], entry, atol=1e-6, rtol=1e-4)
    assert states[0]["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"]
    again = made(models[2], lr=1.0)
    again.load_state_dict(states[0])
    models[2].load_state_dict(models[1].state_dict())
    for m, o in zip(models[1:], (spread, again)):
        o.zero_grad()
        loss_of(m(x), y).backward()
        o.step()
    for p, q in zip(models[1].parameters(), models[2].parameters()):
        torch.testing.assert_close(p, q)
    with pytest.raises(ValueError, match="empty parameter list"):
        ZeroRedundancyOptimizer([], torch.optim.SGD, lr=0.1)


def moved_states():
    """States of optimizers of plain models, of sharded ones, and back."""
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp import OptimStateKeyType

    rank, _ = start()
    names, numbers = OptimStateKeyType.PARAM_NAME, OptimStateKeyType.PARAM_ID

    def stepped(net, optimizer):
        net(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 2))
    adam = torch.optim.Adam(plain.parameters(), lr=0.1)
    stepped(plain, adam)
    by_name = FSDP.rekey_optim_state_dict(copy.deepcopy(adam.state_dict()), names, plain)
    assert sorted(by_name["state"]) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert FSDP.rekey_optim_state_dict(by_name, names, plain) is by_name
    for way in (True, False):
        wrapped = FSDP(copy.deepcopy(plain), use_orig_params=way)
        optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.1)
        optimizer.load_state_dict(FSDP.shard_full_optim_state_dict(copy.deepcopy(by_name), wrapped))
        full = copy.deepcopy(FSDP.full_optim_state_dict(wrapped, optimizer))
        again = FSDP(copy.deepcopy(plain), use_orig_params=way)
        other = torch.optim.Adam(again.parameters(), lr=0.1)
        given = copy.deepcopy(full) if rank == 0 else None
        other.load_state_dict(FSDP.scatter_full_optim_state_dict(given, again))
        single = copy.deepcopy(plain)
        alone = torch.optim.Adam(single.parameters(), lr=0.1)
        if rank == 0:
            alone.load_state_dict(FSDP.rekey_optim_state_dict(full, numbers, single))
        else:
            alone.load_state_dict(copy.deepcopy(adam.state_dict()))
        for pair in ((wrapped, optimizer), (again, other), (single, alone)):
            stepped(*pair)
        for model in (wrapped, again):
            for a, b in zip(model.state_dict().values(), single.state_dict().values()):
                torch.testing.assert_close(a, b)


def stepped_in_backward():
    """Hooks after the gradients of sharded parameters run when these are sums: an optimizer steps while backward goes on."""
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    from rushlight.distributed.fsdp import fully_shard
    from rushlight.distributed.optim import _apply_optimizer_in_backward

    start()
    for kind, way in itertools.product(("spread", "flat", "row"), ("hooks", "applied")):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
        plain, seen = copy.deepcopy(net), []
        if kind == "spread":
            fully_shard(net[0])
            fully_shard(net)
        else:
            net = FSDP(net, use_orig_params=kind == "flat")
        if way == "applied":
            _apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

        def step(parameter, optimizers=optimizers, seen=seen):
            seen.append(parameter)
            optimizers[parameter].step()
            parameter.grad = None

        for p in net.parameters() if way == "hooks" else ():
            p.register_post_accumulate_grad_hook(step)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        for k in range(3):
            x = torch.linspace(-1, 1 + k, 8).view(2, 4)
            net(x).square().sum().backward()
            plain(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert len(seen) == (3 * len(list(net.parameters())) if way == "hooks" else 0)
        assert all(p.grad is None for p in net.parameters())
        for a, b in zip(net.state_dict().values(), plain.parameters()):
            torch.testing.assert_close(a.full_tensor() if kind == "spread" else a, b.detach())


def zero_within_backward():
    """Hooks that step ZeroRedundancyOptimizer give the parameters of an optimizer with the whole state, two backwards late."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
    from rushlight.distributed.optim import ZeroRedundancyOptimizer

    rank, size = start()
    DDP, SGD = nn.parallel.DistributedDataParallel, torch.optim.SGD
    options = {"lr": 0.05, "momentum": 0.9}
    data = [*batches(6, rank, size)]
    for interleaved, cut, static in itertools.product((False, True), repeat=3):
        whole, spread = (DDP(model(), bucket_cap_mb=1e-4, static_graph=static) for _ in range(2))
        assert len(spread.reducer.buckets) > 1
        optimizer = SGD(whole.parameters(), **options)
        zero = ZeroRedundancyOptimizer(spread.parameters(), SGD, overlap_with_ddp=True, **options)
        hook = (
            ddp_zero_hook.hook_with_zero_step_interleaved
            if interleaved
            else ddp_zero_hook.hook_with_zero_step
        )
        spread.register_comm_hook(None, hook(default_hooks.allreduce_hook, spread, zero, cut))
        for x, y in data[: 3 if static else 2]:
            loss_of(spread(x), y).backward()
        for p, q in zip(whole.parameters(), spread.parameters()):
            assert torch.equal(p, q)
        for x, y in data:
            for m, o in ((whole, optimizer), (spread, zero)):
                o.zero_grad()
                loss_of(m(x), y).backward()
            optimizer.step()
            for p, q in zip(whole.parameters(), spread.parameters()):
                torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5)
                torch.testing.assert_close(p.grad, q.grad, atol=1e-6, rtol=1e-5)
        assert 0 < len(zero.state) < len(optimizer.state)
        with pytest.warns(UserWarning, match="should not be included in the training loop"):
            zero.step()
    with pytest.raises(RuntimeError, match="one parameter group only"):
        zero.add_param_group({"params": [torch.zeros(1)]})
    with pytest.raises(ValueError, match="overlap_with_ddp=True"):
        hook(
            default_hooks.allreduce_hook,
            spread,
            ZeroRedundancyOptimizer(spread.parameters(), SGD, lr=1),
        )


def uneven_inputs():
    """Within Join a process without inputs adds zeros, and has everybody's parameters at the end."""
    from rushlight.distributed.algorithms.join import Join
    from rushlight.distributed.optim import ZeroRedundancyOptimizer

    rank, size = start()
    inputs = [
        [
            torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * r + k))
            for k in range(3 + 2 * r)
        ]
        for r in range(size)
    ]
    for of_all, spread in ((True, False), (False, False), (True, True)):
        parallel = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.0001)
        if spread:
            optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.SGD, lr=0.1)
            context = Join([parallel, optimizer])
        else:
            optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
            context = parallel.join(divide_by_initial_world_size=of_all)
        with context:
            for x in inputs[rank]:
                optimizer.zero_grad()
                parallel(x).square().sum().backward()
                optimizer.step()
        alone = model()
        other = torch.optim.SGD(alone.parameters(), lr=0.1)
        for k in range(len(inputs[-1])):
            other.zero_grad()
            now = [row[k] for row in inputs if k < len(row)]
            for x in now:
                (alone(x).square().sum() / (size if of_all else len(now))).backward()
            other.step()
        for p, q in zip(parallel.module.parameters(), alone.parameters()):
            torch.testing.assert_close(p, q)
    with (
        pytest.raises(RuntimeError, match="exhausted"),
        parallel.join(throw_on_early_termination=True),
    ):
        for x in inputs[rank]:
            parallel(x).sum().backward()


def narrow_gradients():
    """PowerSGD averages exactly what has its rank, learns the rest by its errors; wrappers cast."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    rank, size = start()

    def parallel(state, hook):
        torch.manual_seed(0)
        m = nn.parallel.DistributedDataParallel(nn.Linear(24, 16))
        m.register_comm_hook(state, hook)
        return m

    x = torch.zeros(1, 24)
    x[0, rank] = 1.0  # the gradients of all together have rank `size`
    weights = torch.arange(16.0) + rank
    plain = torch.zeros(16, 24)
    for r in range(size):
        plain[:, r] = (torch.arange(16.0) + r) / size
    state = powerSGD_hook.PowerSGDState(None, size, start_powerSGD_iter=2)
    exact = parallel(state, powerSGD_hook.powerSGD_hook)
    for _ in range(4):
        exact.zero_grad()
        (exact(x) * weights).sum().backward()
        torch.testing.assert_close(exact.module.weight.grad, plain, atol=1e-4, rtol=1e-4)
    rate, before, after = state.compression_stats()
    assert before == 2 * (16 * 24 + 16) and after == 2 * (size * (16 + 24) + 16) and rate > 1
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        coarse = parallel(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), hook)
        total, steps = torch.zeros(16, 24), 60
        for _ in range(steps):
            coarse.zero_grad()
            (coarse(x) * weights).sum().backward()
            total += coarse.module.weight.grad
        assert (total / steps - plain).abs().max() < 0.3 * plain.abs().max()
    for wrapper in (default_hooks.fp16_compress_wrapper, default_hooks.bf16_compress_wrapper):
        m = parallel(None, wrapper(default_hooks.allreduce_hook))
        (m(x) * weights).sum().backward()
        assert m.module.weight.grad.dtype is torch.float32
        torch.testing.assert_close(m.module.weight.grad, plain, atol=0.1, rtol=0.01)


if __name__ == "__main__":
    run_programs(globals())
