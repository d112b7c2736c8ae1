"""What the processes of `test_distributed.py` run: `python distributed_programs.py NAME`, once for each rank."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import sys
import time
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import run_programs

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128,
]  # fmt: skip


def start(backend="mpi", **options):
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=timedelta(seconds=120), **options)
    return dist.get_rank(), dist.get_world_size()


def reductions():
    rank, size = start()
    ranks = range(1, size + 1)
    for dtype in DTYPES:
        x = torch.full((3, 2), rank + 1).to(dtype)
        dist.all_reduce(x)
        assert x.dtype is dtype and x.flatten().tolist() == [sum(ranks)] * 6, (dtype, x)
    expected = {"SUM": sum(ranks), "PRODUCT": [2, 24][size == 4], "MIN": 1, "MAX": size}
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.float16):
        for name, value in expected.items():
            x = torch.full((4,), rank + 1).to(dtype)
            dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
            assert x.tolist() == [value] * 4, (dtype, name, x)
    bits = [1 << k for k in range(size)]
    for name, value in {"BAND": 0, "BOR": sum(bits), "BXOR": sum(bits)}.items():
        x = torch.tensor([bits[rank]])
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        assert x.item() == value, (name, x)
        with pytest.raises(RuntimeError, match="non-integral"):
            dist.all_reduce(torch.ones(1), op=getattr(dist.ReduceOp, name))
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.item() == (size - 1) / 2
    x = torch.tensor([float(rank + 1)])
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5))
    assert x.item() == sum(ranks) / 2
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, False, True]
    with pytest.raises(ValueError, match="MAX on complex"):
        dist.all_reduce(torch.ones(1, dtype=torch.complex64), op=dist.ReduceOp.MAX)
    columns = torch.arange(6.0).view(2, 3).t()  # not contiguous
    dist.all_reduce(columns)
    assert torch.equal(columns, size * torch.arange(6.0).view(2, 3).t())
    every_second = torch.ones(8)
    dist.all_reduce(every_second[::2])
    assert every_second.tolist() == [size, 1] * 4
    dist.all_reduce(torch.empty(0))
    scalar = torch.tensor(1.0)
    dist.all_reduce(scalar)
    assert scalar.item() == size
    big = torch.ones(300_000)
    dist.all_reduce(big)
    assert big.min() == big.max() == size
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    assert sparse.is_sparse and sparse.to_dense().tolist() == [1.0] * size + [2.0 * size]
    with pytest.raises(RuntimeError, match="only works with ReduceOp.SUM"):
        dist.all_reduce(sparse, op=dist.ReduceOp.MAX)
    with pytest.raises(RuntimeError, match=f"reduce: invalid root rank: {size}"):
        dist.reduce(torch.ones(1), dst=size)
    x = torch.tensor([rank + 1.0])
    dist.reduce(x, dst=size - 1)
    assert x.item() == (sum(ranks) if rank == size - 1 else rank + 1)
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.full((2,), float(k)) for k in range(size)])
    assert out.tolist() == [rank * size] * 2
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * size))
    assert out.tolist() == [2 * rank * size, (2 * rank + 1) * size]


def long_rows():
    """Rows of several chunks, whose reduction is a schedule of messages."""
    rank, size = start()
    total = size * (size + 1) // 2
    for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.float64):
        for count in (1, 7, 300_001 * size):
            x = (torch.arange(count) % 3 * (rank + 1)).to(dtype)
            expected = (torch.arange(count) % 3 * total).to(dtype)
            dist.all_reduce(x)
            assert torch.equal(x, expected), (dtype, count)
    columns = (torch.arange(600_000.0 * size).view(2, -1) * (rank + 1)).t()
    dist.all_reduce(columns, op=dist.ReduceOp.MAX)
    assert torch.equal(columns, (torch.arange(600_000.0 * size).view(2, -1) * size).t())
    works, rows = [], [torch.full((400_000 * size,), float(k + rank)) for k in range(3)]
    for row in rows:  # several at once
        works.append(dist.all_reduce(row, op=dist.ReduceOp.AVG, async_op=True))
    for k, work in reversed(list(enumerate(works))):
        work.wait()
        assert rows[k].min() == rows[k].max() == k + (size - 1) / 2
    out = torch.zeros(500_001)
    dist.reduce_scatter_tensor(out, torch.arange(500_001.0).repeat(size) * (rank + 1))
    assert torch.equal(out, torch.arange(500_001.0) * total)
    x = torch.full((400_000 * size,), rank + 1.0)
    dist.reduce(x, dst=1)
    assert x.min() == x.max() == (total if rank == 1 else rank + 1)
    low = torch.rand(
        400_000 * size, dtype=torch.float32, generator=torch.Generator().manual_seed(rank)
    )
    dist.all_reduce(low)
    every = [torch.empty_like(low) for _ in range(size)]
    dist.all_gather(every, low)
    assert all(torch.equal(each, low) for each in every)  # all have the same bits


def moves():
    rank, size = start()
    for dtype in [*DTYPES, torch.bool, torch.float8_e5m2]:
        x = (torch.arange(6).view(2, 3).t() + rank).to(dtype)
        dist.broadcast(x, src=1)
        assert x.tolist() == (torch.arange(6).view(2, 3).t() + 1).to(dtype).tolist(), dtype
    mine = torch.tensor([[rank, 10 * rank]])
    rows = [torch.zeros(1, 2, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(rows, mine)
    whole = [[k, 10 * k] for k in range(size)]
    assert torch.cat(rows).tolist() == whole
    one = torch.zeros(size, 2, dtype=torch.int64)
    dist.all_gather_into_tensor(one, mine)
    assert one.tolist() == whole
    rows = [torch.zeros(1, 2, dtype=torch.int64) for _ in range(size)] if rank == 1 else None
    dist.gather(mine, rows, dst=1)
    assert rank != 1 or torch.cat(rows).tolist() == whole
    target = torch.zeros(2)
    dist.scatter(target, [torch.full((2,), float(k)) for k in range(size)] if rank == 0 else None)
    assert target.tolist() == [rank, rank]
    given = [torch.full((k + 1,), 10.0 * rank + k) for k in range(size)]
    got = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(got, given)
    assert [each.tolist() for each in got] == [[10.0 * k + rank] * (rank + 1) for k in range(size)]
    out = torch.zeros(size, 2)
    dist.all_to_all_single(out, torch.full((size, 2), float(rank)))
    assert out[:, 0].tolist() == list(range(size))
    rows_of = [[1 + (k + r) % 2 for k in range(size)] for r in range(size)]  # r sends k so many
    sent = torch.full((sum(rows_of[rank]), 3), float(rank))
    counts = [rows_of[r][rank] for r in range(size)]
    out = torch.zeros(sum(counts), 3)
    dist.all_to_all_single(out, sent, counts, rows_of[rank])
    assert out[:, 0].tolist() == [r for r in range(size) for _ in range(counts[r])]
    one = torch.full((size,), float(rank))  # what is read is where the results go
    dist.all_gather_into_tensor(one, one[rank : rank + 1])
    assert one.tolist() == list(range(size))
    rows = [one[k : k + 1] for k in range(size)] if rank == 0 else None
    mine = one[:1]
    dist.scatter(mine, rows)
    assert mine.item() == rank
    one = torch.arange(float(size)) + size * rank
    dist.all_to_all_single(one, one)
    assert one.tolist() == [size * k + rank for k in range(size)]
    following, before = (rank + 1) % size, (rank - 1) % size
    x, y = torch.full((2, 2), float(rank)), torch.zeros(2, 2).t()
    works = [dist.isend(x, following), dist.irecv(y, before)]
    assert all(work.wait() for work in works) and y[0, 0] == before
    y.zero_()
    ops = [dist.P2POp(dist.isend, x, following), dist.P2POp(dist.irecv, y, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert y[1, 1] == before
    if rank == 0:
        dist.send(torch.arange(3), 1, tag=7)
        dist.send(torch.arange(100_000), 1, tag=8)
    elif rank == 1:
        z, large = torch.zeros(3, dtype=torch.int64), torch.zeros(100_000, dtype=torch.int64)
        assert dist.recv(large, 0, tag=8) == 0 and large[-1] == 99_999
        assert dist.recv(z, tag=7) == 0 and z.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="should not be the same"):
        dist.send(x, rank)
    with pytest.raises(TypeError, match="type torch.Tensor"):
        dist.all_reduce([x])
    with pytest.raises(RuntimeError, match="invalid tensor size"):
        dist.all_gather([torch.zeros(3) for _ in range(size)], torch.zeros(2))
    with pytest.raises(ValueError, match="must be specified on source rank|must NOT be"):
        dist.scatter(target, [x] if rank else None)


def asynchronous():
    rank, size = start()
    works, tensors = [], [torch.full((50_000,), float(k)) for k in range(8)]
    for each in tensors:
        works.append(dist.all_reduce(each, async_op=True))
    futures = [work.get_future().then(lambda f: f.wait()[0][0].item() / size) for work in works]
    assert [future.wait() for future in futures] == list(range(8))
    for k, work in enumerate(works):
        assert (
            work.wait() and work.is_completed() and work.is_success() and work.exception() is None
        )
        assert tensors[k][-1] == k * size and work.result()[0] is tensors[k]
    for start_barrier in (dist.barrier, lambda: dist.barrier(async_op=True).get_future().wait()):
        tensors = [torch.full((300, 300), float(k)) for k in range(16)]
        for each in tensors:
            dist.all_reduce(each, async_op=True)
        unmatched = dist.irecv(torch.empty(1), 1 - rank) if rank < 2 else None
        start_barrier()  # ends after the collectives before it, and before messages
        assert [each.min().item() for each in tensors] == [k * size for k in range(16)]
        if unmatched is not None:
            dist.send(torch.ones(1), 1 - rank)
            unmatched.wait()
    columns = torch.ones(3, 2).t()
    dist.broadcast(columns, 0, async_op=True).wait()
    with pytest.raises(RuntimeError, match="sourceRank"):
        works[0].source_rank()
    work = dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)], async_op=True)
    mine = torch.ones(3, dtype=torch.bfloat16)
    dist.all_reduce_coalesced([mine, mine, torch.zeros(2, 3).t().bfloat16()])
    assert mine.tolist() == [size] * 3
    columns = torch.ones(3, 2).t()
    dist.all_reduce_coalesced([columns, torch.ones(1)], op=dist.ReduceOp.AVG)
    assert columns.tolist() == [[1.0] * 3] * 2
    mine = torch.ones(3)
    found = dist.group.WORLD.allreduce([mine]).get_future().wait()
    assert found[0] is mine and mine.tolist() == [size] * 3
    assert [each.tolist() for each in torch.futures.wait_all([work])[0]] == [[size] * 2, [size] * 3]


def objects():
    rank, size = start()
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "long": "x" * 100 * rank})
    assert [each["rank"] for each in found] == list(range(size)) and len(found[1]["long"]) == 100
    dist.gather_object((rank, torch.ones(2)), found if rank == 0 else None)
    assert rank or [each[0] for each in found] == list(range(size))
    values = ["a", {1: 2}, torch.arange(3)] if rank == 1 else [None] * 3
    dist.broadcast_object_list(values, src=1)
    assert values[:2] == ["a", {1: 2}] and values[2].tolist() == [0, 1, 2]
    mine = [None]
    dist.scatter_object_list(
        mine, [f"for {k}" * (k + 1) for k in range(size)] if rank == 0 else None
    )
    assert mine[0] == f"for {rank}" * (rank + 1)
    if rank == 0:
        dist.send_object_list([1, "two"], 1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, 0) == 0 and got == [1, "two"]


def groups():
    rank, size = start()
    assert dist.get_backend() == "mpi" and dist.is_initialized() and dist.group.WORLD.size() == size
    pair = dist.new_group([0, 1])
    x = torch.ones(1)
    if rank < 2:
        dist.all_reduce(x, group=pair)
        assert x.item() == 2 and dist.get_world_size(pair) == 2
    else:
        assert dist.get_rank(pair) == -1
        with pytest.warns(UserWarning, match="does not belong"):
            assert dist.all_reduce(x, group=pair) is None
    last = dist.new_group([size - 1])
    if rank == size - 1:
        dist.all_reduce(x, group=last)
        assert dist.get_group_rank(last, rank) == 0 and dist.get_global_rank(last, 0) == rank
    mine, every = dist.new_subgroups(size // 2)
    assert len(every) == 2 and dist.get_world_size(mine) == size // 2
    y = torch.tensor([float(rank)])
    dist.broadcast(y, src=dist.get_process_group_ranks(mine)[0], group=mine)
    assert y.item() == rank // (size // 2) * (size // 2)
    half = dist.split_group(every[0] if rank < size // 2 else every[1], [[0]])
    assert (half is not None) == (rank % (size // 2) == 0)
    if half is not None:
        dist.all_reduce(y, group=half)
        assert y.item() == rank and dist.get_process_group_ranks(half) == [rank]
    with pytest.raises(ValueError, match="duplicate"):
        dist.split_group(None, [[0], [0, 1]])
    with pytest.raises(ValueError, match="out of range"):
        dist.new_group([size])
    c10d = dist.distributed_c10d
    assert dist.get_backend_config() == "cpu:mpi,cuda:mpi"
    assert c10d._resolve_process_group(dist.group.WORLD.group_name) is dist.group.WORLD
    assert c10d._get_group_size_by_name(mine.group_name) == size // 2
    assert c10d._get_process_group_store(mine).num_keys() >= 0
    c10d._set_pg_timeout(timedelta(seconds=50), mine)
    assert mine.timeout == timedelta(seconds=50) != dist.group.WORLD.timeout
    with pytest.raises(TypeError, match="timedelta, got 5"):
        c10d._set_pg_timeout(5)
    dist.barrier()
    dist.monitored_barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.all_reduce(x)
    start()
    dist.barrier()


def calls_in_blocks():
    """The end of a block waits for the calls in it, or whoever asks."""
    from rushlight.distributed.distributed_c10d import _coalescing_manager

    rank, size = start()
    x, y, told = torch.ones(3), torch.empty(size), [rank]
    with _coalescing_manager():
        assert dist.all_reduce(x) is None
        dist.all_gather_into_tensor(y, torch.tensor([float(rank)]))
        dist.broadcast_object_list(told, 0)  # is awaited
        assert told == [0]
    assert x.tolist() == [size] * 3 and y.tolist() == list(range(size))
    with _coalescing_manager(async_ops=True) as manager:
        dist.reduce_scatter_tensor(y[:1], torch.ones(size))
    assert len(manager.works) == 1
    manager.wait()
    assert y[0] == size


def late():
    """The last rank does not come to the second call: the others name it."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if rank < size - 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        with pytest.raises(
            RuntimeError, match=rf"Timed out waiting 2000ms for all_reduce .*\[{size - 1}\]"
        ):
            work.wait(timedelta(seconds=2))
        with pytest.raises(RuntimeError, match="cannot be used any more.*Timed out waiting 2000ms"):
            dist.broadcast(torch.ones(1), 0)  # it would get what was sent for the call before
        dist.group.WORLD.set_timeout(timedelta(seconds=2))
        store.set(f"ended/{rank}", "")
    store.wait([f"ended/{k}" for k in range(size - 1)], timedelta(seconds=100))
    match = rf"Rank {size - 1} failed to pass" if rank == 0 else "reached monitoredBarrier, but"
    if rank < size - 1:
        with pytest.raises(RuntimeError, match=match):
            dist.monitored_barrier(timeout=timedelta(seconds=2))
    if rank == size - 1:
        store.set("seen", "")
    else:
        store.wait(["seen"], timedelta(seconds=100))  # rank 0 serves the store


def dies():
    """The last rank is killed while the others wait for it: they name it, long before the timeout."""
    rank, size = start()
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), 9)
    with pytest.raises(RuntimeError, match=rf"rank {size - 1} is gone.*Connection closed by peer"):
        dist.all_reduce(torch.ones(1))
    store = dist.distributed_c10d._get_default_store()
    store.set(f"heard/{rank}", "")
    if rank == 0:  # it serves the store
        store.wait([f"heard/{k}" for k in range(size - 1)], timedelta(seconds=100))


def raises_by_file():
    """A process that raises says so in the file by which they met."""
    rank, _ = start(
        init_method=f"file://{os.environ['MEETING']}", rank=int(os.environ["RANK"]), world_size=2
    )
    dist.barrier()
    if rank == 1:
        raise ValueError("rank one is unwell")
    with pytest.raises(RuntimeError, match="rank 1 is gone"):
        dist.all_reduce(torch.ones(1))


def raises():
    rank, size = start()
    dist.barrier()
    if rank == 1:
        raise ValueError("rank one is unwell")
    dist.all_reduce(torch.ones(1))


def model():
    torch.manual_seed(3)
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )


def batches(steps, size):
    generator = torch.Generator().manual_seed(11)
    for _ in range(steps):
        x = torch.randn(4 * size, 6, generator=generator)
        yield x, torch.randint(0, 3, (4 * size,), generator=generator)


def data_parallel():
    """Losses are those of one process with the whole batch; hooks, no_sync and small buckets change nothing."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

    rank, size = start()
    loss_of = torch.nn.functional.cross_entropy
    alone, parallel = model(), model()
    if rank:  # the first process's parameters are everybody's
        with torch.no_grad():
            parallel[0].weight.zero_()
    DDP = torch.nn.parallel.DistributedDataParallel
    parallel = DDP(parallel, bucket_cap_mb=0.0001)
    assert len(parallel.reducer.buckets) > 2
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (alone, parallel)]
    for step, (x, y) in enumerate(batches(100, size)):
        for each in optimizers:
            each.zero_grad()
        whole = loss_of(alone(x), y)
        whole.backward()
        mine = slice(4 * rank, 4 * rank + 4)
        if step % 10 == 9:  # in two halves, of which only the second is reduced
            with parallel.no_sync():
                first = loss_of(parallel(x[mine][:2]), y[mine][:2]) / 2
                first.backward()
            second = loss_of(parallel(x[mine][2:]), y[mine][2:]) / 2
            second.backward()
            loss = first + second
        else:
            loss = loss_of(parallel(x[mine]), y[mine])
            loss.backward()
        loss = loss.detach()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        assert abs(loss.item() - whole.item()) < 1e-5, (step, loss, whole)
        for each in optimizers:
            each.step()
    for hook, bound in (
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.bf16_compress_hook, 1e-2),
    ):
        plain, hooked = model(), DDP(model())
        hooked.register_comm_hook(None, hook)
        ((x, y),) = batches(1, size)
        loss_of(plain(x), y).backward()
        loss_of(hooked(x[4 * rank : 4 * rank + 4]), y[4 * rank : 4 * rank + 4]).backward()
        for a, b in zip(plain.parameters(), hooked.module.parameters()):
            assert (a.grad - b.grad).abs().max() < bound
    assert next(iter(parallel.state_dict())) == "module.0.weight"


def ways_to_reduce():
    """Averages of gradients are the same through shared memory, by messages and in place."""
    import time

    from rushlight.distributed import shared_rows

    rank, size = start()
    DDP, shares = torch.nn.parallel.DistributedDataParallel, shared_rows.SharedGradients
    most, twice = shared_rows.MOST, shared_rows.TWICE
    added = shares.add

    def late(*args):  # it reads when the others are about to write the next ones
        time.sleep(0.002)
        added(*args)

    if rank == 0:
        shares.add = late
    view = {"gradient_as_bucket_view": True}
    for largest, places, options in ((most, 2, {}), (most, 1, {}), (1, 0, {}), (most, 0, view)):
        shared_rows.MOST, shared_rows.TWICE = largest, twice if places == 2 else 0
        for dtype in (torch.float32, torch.bfloat16):
            layer = torch.nn.Linear(5, 3, dtype=dtype)
            parallel = DDP(layer, bucket_cap_mb=1e-6, **options)
            shared = [bucket.shared is not None for bucket in parallel.reducer.buckets]
            assert shared == [places > 0] * 2, (shared, options)
            if places:
                assert parallel.reducer.shared.turns == places
            for step in range(1, 8):
                parallel(torch.full((1, 5), 2 * step * (rank + 1), dtype=dtype)).sum().backward()
                assert layer.weight.grad.tolist() == [[step * (size + 1)] * 5] * 3
                assert layer.bias.grad.tolist() == [1] * 3
                layer.zero_grad(set_to_none=step % 2 == 0)
    shares.add, shared_rows.MOST, shared_rows.TWICE = added, most, twice


def optimizers_in_backward():
    """Optimizers that are stepped when gradients are averages, bucket by bucket, do what one after backward does."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
    from rushlight.distributed.algorithms.ddp_comm_hooks import optimizer_overlap_hooks as hooks
    from rushlight.distributed.optim import _apply_optimizer_in_backward, as_functional_optim

    rank, size = start()
    DDP, options = torch.nn.parallel.DistributedDataParallel, {"lr": 0.1}

    def trained(way, **more):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        if way == "applied":
            _apply_optimizer_in_backward(torch.optim.Adam, net.parameters(), options)
        parallel = DDP(net, bucket_cap_mb=1e-5, **more)
        assert len(parallel.reducer.buckets) > 1
        if way == "fused":
            parallel._register_fused_optim(torch.optim.Adam, **options)
        if way == "hook":
            state = hooks._OptimizerHookState(as_functional_optim(torch.optim.Adam, **options))
            parallel.register_comm_hook(
                None, hooks._hook_then_optimizer(default_hooks.allreduce_hook, state)
            )
        optimizer = torch.optim.Adam(net.parameters(), **options) if way == "after" else None
        for step in range(3):
            x = torch.arange(8.0).view(2, 4) * (rank + 1) / (step + 1)
            with parallel.no_sync():
                parallel(x / 7).square().sum().backward()
            parallel(x / 9).square().sum().backward()
            if optimizer is not None:
                optimizer.step()
            assert way != "applied" or all(p.grad is None for p in net.parameters())
            net.zero_grad()
        return [p.detach() for p in net.parameters()]

    wanted = trained("after")
    for way in ("applied", "fused", "hook"):
        for more in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
            for a, b in zip(wanted, trained(way, **more)):
                torch.testing.assert_close(a, b)
    with pytest.raises(ValueError, match="step_param"):
        hooks._OptimizerHookState(torch.optim.Adam)


def converted_after_wrapping():
    """Averages have the dtype that parameters have now, all their bits; of some parameters alone it is refused."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

    rank, size = start()
    for view, hook in ((False, False), (True, False), (False, True)):
        torch.manual_seed(0)
        inside = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        parallel = torch.nn.parallel.DistributedDataParallel(inside, gradient_as_bucket_view=view)
        if hook:
            parallel.register_comm_hook(None, default_hooks.allreduce_hook)
        parallel(torch.ones(1, 3)).sum().backward()
        parallel.double().zero_grad()
        parallel(torch.full((1, 3), rank + 1 / 3, dtype=torch.float64)).sum().backward()
        mean = (size - 1) / 2 + 1 / 3
        expected = inside[1].weight.detach().sum(0)[:, None].expand(4, 3) * mean
        torch.testing.assert_close(inside[0].weight.grad, expected, rtol=1e-14, atol=0)
    pair = torch.nn.ParameterList([torch.ones(2), torch.ones(2)])
    module = torch.nn.Module()
    module.pair, module.forward = pair, lambda x: (pair[0] * x).sum() + (pair[1] * x).sum()
    parallel = torch.nn.parallel.DistributedDataParallel(module)
    pair[0].data = pair[0].data.double()
    with pytest.raises(RuntimeError, match="the same other dtype"):
        parallel(torch.ones(2)).backward()


def bits_of_averages():
    """Averages are the sums of shares in the order of ranks, bit for bit, with machine code and without; what users' hooks
    do to a gradient counts, whenever they were registered; what is done to it between is lost, as messages would."""
    from rushlight._backends import llvm

    rank, size = start()
    for compiled in (False, True):
        if compiled:
            llvm.activate()
        torch.manual_seed(rank)
        gradients = [torch.randn(shape) for shape in ((3, 7), (301, 57), (1,), (5,))]
        every = [[torch.empty_like(g) for _ in range(size)] for g in gradients]
        for rows, gradient in zip(every, gradients):
            dist.all_gather(rows, gradient)
        layer = torch.nn.ParameterList([torch.zeros_like(g) for g in gradients])
        module = torch.nn.Module()
        module.layer = layer
        module.forward = lambda layer=layer, g=gradients: sum(
            (a * b).sum() for a, b in zip(layer, g)
        )
        parallel = torch.nn.parallel.DistributedDataParallel(module)
        layer[1].register_post_accumulate_grad_hook(lambda p: p.grad.data.mul_(2))
        write = parallel.reducer.write

        def written(bucket, write=write, layer=layer):
            write(bucket)
            if rank == 0:
                layer[0].grad.mul_(3)

        parallel.reducer.write = written
        for _ in range(2):
            parallel.zero_grad()
            parallel().backward()
            for k, (p, rows) in enumerate(zip(layer, every)):
                shares = [(2 if k == 1 else 1) * row * (1 / size) for row in rows]
                expected = shares[0]
                for share in shares[1:]:
                    expected = expected + share
                assert torch.equal(p.grad, expected), (compiled, k)
        layer[0].grad = layer[0].grad.t().contiguous().t()  # with gaps: NumPy takes it
        before = [p.grad.clone() for p in layer]
        parallel().backward()
        assert not torch.equal(before[0], layer[0].grad) and layer[0].grad.stride() == (1, 3)
        everywhere = [torch.empty_like(before[0]) for _ in range(size)]
        dist.all_gather(everywhere, layer[0].grad.contiguous())
        assert all(torch.equal(each, layer[0].grad) for each in everywhere)


def functional():
    """Collectives that return new tensors, and their gradients."""
    from rushlight.distributed import _functional_collectives as funcol
    from rushlight.distributed.device_mesh import init_device_mesh

    rank, size = start()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
    ones = torch.full((2, 2), rank + 1.0, requires_grad=True)
    total = sum(range(1, size + 1))
    world = dist.group.WORLD
    for group in (mesh, (mesh, 0), world, world.group_name, list(range(size))):
        summed = funcol.wait_tensor(funcol.all_reduce(ones, "sum", group))
        assert summed.tolist() == [[total] * 2] * 2 and ones.tolist() == [[rank + 1.0] * 2] * 2
    (3 * summed).sum().backward()
    assert ones.grad.tolist() == [[3.0 * size] * 2] * 2
    assert not isinstance(summed, funcol.AsyncCollectiveTensor)
    rows, row = torch.empty(size), torch.empty(1)
    dist.all_gather_single(rows, torch.tensor([float(rank)]))
    dist.reduce_scatter_single(row, rows)
    assert rows.tolist() == list(range(size)) and row.item() == rank * size
    assert funcol.all_reduce(ones, "max", mesh).max().item() == size
    for dim in (0, 1):
        x = torch.full((2, 2), rank + 1.0, requires_grad=True)
        whole = funcol.all_gather_tensor(x, dim, mesh)
        assert torch.equal(
            whole,
            torch.arange(1.0, size + 1).repeat_interleave(2).unsqueeze(1 - dim).expand_as(whole),
        )
        part = funcol.reduce_scatter_tensor_autograd(whole, "sum", dim, mesh)
        assert torch.equal(part, size * x)
        part.sum().backward()
        assert torch.equal(x.grad, torch.full((2, 2), float(size)))
    with pytest.raises(AssertionError, match="multiple of group_size"):
        funcol.reduce_scatter_tensor(torch.ones(size + 1), "sum", 0, mesh)
    with pytest.raises(RuntimeError, match="registered under the name"):
        funcol.all_reduce(ones, "sum", "nobody")
    assert funcol.broadcast(ones.detach(), 1, mesh).tolist() == [[2.0] * 2] * 2
    rows = torch.arange(2.0 * size) + 100 * rank
    came = funcol.all_to_all_single(rows, None, None, mesh)
    assert came.tolist() == [100.0 * k + 2 * rank + j for k in range(size) for j in range(2)]
    to = [(k + 1) % size for k in range(size)]
    assert funcol.permute_tensor(rows, to, mesh)[0].item() == 100.0 * ((rank - 1) % size)
    pair = funcol.all_gather_into_tensor_coalesced([ones.detach(), rows], mesh)
    assert [len(each) for each in pair] == [2 * size, 2 * size * size]


def parts_of_wrappers():
    """What wrappers by other people use: shapes compared, states sent, arguments mapped, errors sent."""
    from rushlight.distributed import collective_utils as told
    from rushlight.distributed import utils

    rank, size = start()
    world = dist.group.WORLD
    layer = torch.nn.BatchNorm1d(2)
    for each in (*layer.parameters(), *layer.buffers()):
        each.detach().fill_(rank)
    utils._sync_module_states(layer, world, 1 << 20, 1, {"bias"}, broadcast_buffers=False)
    assert layer.weight.tolist() == [1, 1] and layer.bias.tolist() == [rank] * 2
    assert layer.running_mean.tolist() == [rank] * 2
    utils._verify_param_shape_across_processes(world, list(layer.parameters()))
    with pytest.raises(RuntimeError, match="appears not to match"):
        utils._verify_param_shape_across_processes(world, [torch.zeros(rank + 1)])
    args, names = utils._pack_kwargs(1, a=2, b=3)
    assert (args, names) == ((1, 2, 3), ("a", "b"))
    assert utils._unpack_kwargs(args, names) == ((1,), {"a": 2, "b": 3})
    halves, _ = utils._cast_forward_inputs(torch.half, [torch.ones(1), {"n": torch.tensor(1)}])
    assert halves[0][0].dtype is torch.half and halves[0][1]["n"].dtype is torch.int64
    inputs, named = utils._to_kwargs((torch.ones(1),), {"a": 1}, torch.device("cpu"), False)
    assert len(inputs) == 1 and isinstance(inputs[0], tuple) and named == ({"a": 1},)
    state = {"old.a": 1, "older": 2}
    utils._replace_by_prefix(state, "old.", "new.")
    assert state == {"older": 2, "new.a": 1}
    pair = torch.nn.Sequential(layer)
    assert utils._get_root_modules([layer, pair]) == [pair]

    assert told.broadcast(lambda: rank + 5, rank=1, pg=world) == 6
    assert told.all_gather(lambda: rank, "made", world) == [*range(size)]
    with pytest.raises(RuntimeError, match="Rank 1 failed: stage made: exception .*by zero"):
        told.broadcast(lambda: 1 / 0, stage_name="made", rank=1, pg=world)
    with pytest.raises(RuntimeError) as caught:
        told.all_gather(lambda: 1 // rank, pg=world)
    assert [k for k, _ in caught.value.args[1]] == [0]
    with pytest.raises(RuntimeError, match="Unexpected stage name received from rank 1: b"):
        told.all_gather(1, "ab"[min(rank, 1)], world)
    with pytest.raises(TypeError, match="Object type at index 1 is <class 'str'>"):
        told.all_gather_object_enforce_type(world, [None] * size, "x" if rank == 1 else 1)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(3))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, which):
        return self.layers[which](x)


def unused_parameters():
    rank, size = start()
    DDP = torch.nn.parallel.DistributedDataParallel
    net = Branches()
    net.count += rank
    net = DDP(net, find_unused_parameters=True)
    for _ in range(2):
        net.zero_grad()
        net(torch.ones(1, 2), rank % 2).sum().backward()
        assert net.module.layers[0].weight.grad.tolist() == [[0.5, 0.5]]
        assert net.module.layers[1].bias.grad.tolist() == [0.5]
        assert net.module.layers[2].weight.grad is None and net.module.count.item() == 0
        net.module.count += 1 + rank
        net(torch.ones(1, 2), 0)  # the buffers are the first process's
        assert net.module.count.item() == 1
        net.module.count.zero_()
    net = DDP(torch.nn.Linear(2, 2))
    outputs = [net(torch.full((1, 2), rank + 1.0)) for _ in range(3)]  # not all need a backward
    outputs[1].sum().backward()
    assert net.module.weight.grad.tolist() == [[(size + 1) / 2] * 2] * 2
    with pytest.raises(RuntimeError, match="Several forwards, and then a backward for each"):
        outputs[2].sum().backward()
    net.zero_grad()
    net(torch.full((1, 2), rank + 1.0)).sum().backward()
    assert net.module.weight.grad.tolist() == [[(size + 1) / 2] * 2] * 2
    strict = DDP(Branches())
    strict(torch.ones(1, 2), 0).sum().backward()
    with pytest.raises(
        RuntimeError, match="Expected to have finished reduction in the prior iteration"
    ):
        strict(torch.ones(1, 2), 0)
    with pytest.raises(RuntimeError, match="DDP expects same model across all ranks"):
        DDP(torch.nn.Linear(2, 2, bias=rank == 0))


def sparse_gradients():
    """Sparse gradients of all processes are averaged as the dense ones are."""
    rank, size = start()
    torch.manual_seed(0)
    words = [torch.nn.Embedding(10, 3, sparse=sparse) for sparse in (True, False)]
    words[1].load_state_dict(words[0].state_dict())
    models = [torch.nn.Sequential(each, torch.nn.Linear(3, 2)) for each in words]
    models[1][1].load_state_dict(models[0][1].state_dict())
    for model in models:
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for _ in range(2):  # the second one adds
            ddp(torch.tensor([rank, rank, 5])).square().sum().backward()
    found, expected = (each.weight.grad for each in words)
    assert found.is_sparse
    torch.testing.assert_close(found.to_dense(), expected)
    torch.testing.assert_close(models[0][1].weight.grad, models[1][1].weight.grad)


class ByStore(dist.ProcessGroup):
    """A backend of a program's own: what moves goes through the store."""

    def __init__(self, store, rank, size):
        super().__init__(rank, size)
        self.store, self.calls = store, 0

    def getBackendName(self):
        return "by_store"

    def exchange(self, tensor):
        self.calls += 1
        self.store.set(f"{self.calls}/{self.rank()}", pickle.dumps(tensor.tolist()))
        rows = [self.store.get(f"{self.calls}/{k}") for k in range(self.size())]
        return [torch.tensor(pickle.loads(row), dtype=tensor.dtype) for row in rows]

    def allreduce(self, tensors, options):
        assert options.reduceOp == dist.ReduceOp.SUM
        tensors[0].copy_(sum(self.exchange(tensors[0])))
        return dist._Work()

    def allgather(self, outputs, tensors, options):
        for output, found in zip(outputs[0], self.exchange(tensors[0])):
            output.copy_(found)
        return dist._Work()

    def broadcast(self, tensors, options):
        tensors[0].copy_(self.exchange(tensors[0])[options.rootRank])
        return dist._Work()

    def barrier(self, options):
        self.exchange(torch.ones(1))
        return dist._Work()


def own_backend():
    """Groups of a backend that the program registers, which need no MPI."""
    dist.Backend.register_backend(
        "by_store", lambda store, rank, size, timeout: ByStore(store, rank, size), devices="cpu"
    )
    dist.init_process_group("cpu:by_store,cuda:nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    assert dist.Backend.BY_STORE == "by_store" and dist.is_backend_available("by_store")
    assert dist.group.WORLD.made.name() == "by_store" and isinstance(
        dist.group.WORLD, dist.ProcessGroup
    )
    x = torch.full((2,), rank + 1.0)
    dist.all_reduce(x)
    assert x.tolist() == [size * (size + 1) / 2] * 2 and dist.group.WORLD.calls == 1
    rows = [torch.zeros(1) for _ in range(size)]
    work = dist.all_gather(rows, torch.tensor([float(rank)]), async_op=True)
    assert work.wait() and [row.item() for row in rows] == list(range(size))
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": k} for k in range(size)]
    with pytest.raises(AttributeError, match="scatter"):
        dist.scatter(x, [x] * size if rank == 0 else None, src=0)
    alone = dist.new_group([rank], use_local_synchronization=True)
    dist.all_reduce(x, group=alone)
    assert x.tolist() == [size * (size + 1) / 2] * 2 and alone.calls == 1
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    ddp(torch.full((1, 1), float(rank))).sum().backward()
    assert ddp.module.weight.grad.item() == (size - 1) / 2
    dist.barrier()
    with pytest.raises(AssertionError, match="Unknown backend type xx"):
        dist.new_group([0, 1], backend="xx")
    store = dist.distributed_c10d._get_default_store()
    if rank > 0:
        store.set(f"ended/{rank}", "")
    else:  # it serves the store
        store.wait([f"ended/{k}" for k in range(1, size)])


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return x * self.weight * self.scale


def evaluated():
    """A module that is set to eval() has its gradients averaged and gets the first process's buffers, too."""
    rank, size = start()
    module = Scaled()
    ddp = torch.nn.parallel.DistributedDataParallel(module).eval()
    x, average = torch.full((1,), rank + 1.0), (size + 1) / 2
    module.scale.fill_(rank + 2)
    ddp(x).backward()
    assert module.scale.item() == 2 and module.weight.grad.item() == 2 * average
    expected = [(torch.no_grad, 3), (torch.no_grad, rank + 3), (torch.enable_grad, rank + 3)]
    for mode, scale in [*expected, (torch.enable_grad, 3)]:  # given after forwards that reduce
        module.scale.fill_(rank + 3)
        with mode():
            ddp(x)
        assert module.scale.item() == scale, (mode, scale)
    module.weight.grad = None
    with ddp.no_sync():
        ddp(x).backward()  # a forward before it was to be reduced
    assert module.weight.grad.item() == 3 * average
    with ddp.no_sync():
        ddp(x).backward()
    assert module.weight.grad.item() == 3 * average + 3 * (rank + 1)
    half = dist.new_group([rank])
    mesh = dist.DeviceMesh.from_group(half, "cpu")
    alone = torch.nn.parallel.DistributedDataParallel(Scaled(), device_mesh=mesh)
    alone(x).backward()
    assert alone.module.weight.grad.item() == rank + 1


def hooks_that_are_none():
    rank, size = start()
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))

    def other_bucket(state, bucket: int) -> torch.futures.Future[torch.Tensor]: ...
    def other_result(state, bucket: dist.GradBucket) -> int: ...

    with pytest.raises(ValueError, match="bucket annotation should be dist.GradBucket"):
        ddp.register_comm_hook(None, other_bucket)
    with pytest.raises(ValueError, match="return annotation should be torch.futures.Future"):
        ddp.register_comm_hook(None, other_result)
    ddp.register_comm_hook(None, lambda state, bucket: 1)
    with pytest.raises(
        RuntimeError, match="callback must return a torch.futures.Future object, but got"
    ):
        ddp(torch.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="device_ids not supported"):
        dist.barrier(device_ids=[rank])


def recorded():
    """A profile shows reductions of gradients while backward computes, and what else was sent."""
    rank, size = start()
    torch.manual_seed(0)
    wide = [torch.nn.Linear(700, 700) for _ in range(6)]
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*wide), bucket_cap_mb=2)
    ddp(torch.ones(200, 700)).sum().backward()
    with torch.profiler.profile(record_shapes=True) as profile:
        ddp(torch.ones(200, 700)).sum().backward()
        dist.broadcast(torch.ones(3), 0)
        with dist.record_comm("sizes"):
            dist.all_reduce(torch.ones(2))
    events = profile.events()
    assert [e.input_shapes for e in events if e.name == "sizes"] == [[[2]]]
    reduced = [e for e in events if e.name == "mpi:all_reduce"]
    assert len(reduced) >= 4 and all(e.is_async for e in reduced)
    nodes = [e for e in events if e.name.startswith("autograd::engine")]
    first, last = reduced[0].time_range, nodes[-1].time_range
    assert first.start < last.start  # the first one began before the last node of backward did
    products = [e for e in events if e.name == "aten::mm" and first.start < e.time_range.start]
    assert products
    (sent,) = [e for e in events if e.name == "mpi:broadcast"]
    assert sent.input_shapes == [[3]]
    for e in reduced:  # none is in the lane of another
        for f in reduced:
            a, b = e.time_range, f.time_range
            assert e is f or e.thread != f.thread or a.end <= b.start or b.end <= a.start


def batch_statistics():
    """SyncBatchNorm of uneven parts is BatchNorm of the whole batch, gradients too; the sampler knows its rank."""
    rank, size = start()
    torch.manual_seed(0)
    whole = torch.randn(6 * size, 3, 4, dtype=torch.float64)
    cut = [0, *(6 * k + 2 for k in range(1, size)), 6 * size]
    mine = whole[cut[rank] : cut[rank + 1]].clone().requires_grad_()
    whole.requires_grad_()
    alone = torch.nn.BatchNorm1d(3).double()
    together = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(3).double())
    weights = torch.randn(6 * size, 3, 4, dtype=torch.float64)
    expected, got = alone(whole), together(mine)
    (expected * weights).sum().backward()
    (got * weights[cut[rank] : cut[rank + 1]]).sum().backward()
    torch.testing.assert_close(got, expected[cut[rank] : cut[rank + 1]])
    torch.testing.assert_close(mine.grad, whole.grad[cut[rank] : cut[rank + 1]])
    torch.testing.assert_close(together.running_mean, alone.running_mean)
    torch.testing.assert_close(together.running_var, alone.running_var)
    dist.all_reduce(together.weight.grad)
    torch.testing.assert_close(together.weight.grad, alone.weight.grad)
    together.eval()
    together(mine)
    sampler = torch.utils.data.DistributedSampler(range(10 * size), shuffle=False)
    assert list(sampler) == list(range(rank, 10 * size, size))


def restarted():
    """Fails once, and comes to its end when it is started again."""
    rank, size = start()
    print("process", os.getpid())
    dist.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if rank == 1:
            os.kill(os.getpid(), 9)
        signal.pause()


def trouble():
    """A training in which a rank gets into trouble: `trouble PLACE KIND RANK FOLDER`, and MEETING where they meet.

    All have started before one gets into trouble, and the timeout is longer the longer that took since the test made
    `begun`: on a busy machine a rank that is slow is not among those that did not come.
    """
    place, kind, victim, folder = sys.argv[2:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    print("process", os.getpid(), flush=True)
    started = [pathlib.Path(folder, f"{each}.started") for each in range(size)]
    started[rank].touch()
    while not all(each.exists() for each in started):
        time.sleep(0.01)
    took = time.time() - pathlib.Path(folder, "begun").stat().st_mtime
    limit = timedelta(seconds=max(6, 4 * took))

    def here(name):
        if name != place or rank != int(victim):
            return
        if kind == "raise":
            raise ValueError("unwell")
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[kind])

    here("start")
    meeting = os.environ.get("MEETING", "env://")
    dist.init_process_group("mpi", meeting, timeout=limit, rank=rank, world_size=size)
    layers = [torch.nn.Linear(200, 200) for _ in range(4)]
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(4):
        if step == 2:
            layers[1].weight.register_hook(lambda gradient: here("backward"))
            here("collective")
        dist.all_reduce(torch.ones(700_000))
        optimizer.zero_grad()
        ddp(torch.ones(8, 200)).sum().backward()
        optimizer.step()
        torch.save({"step": step, **ddp.state_dict()}, f"{folder}/{rank}.new")
        if step == 2:
            here("saving")
        os.replace(f"{folder}/{rank}.new", f"{folder}/{rank}.pt")
    dist.barrier()
    here("end")
    dist.barrier()
    dist.destroy_process_group()
    here("exit")


if __name__ == "__main__":
    run_programs(globals())
