"""What the processes of `test_process_groups.py` run: `python group_programs.py NAME`, once for each rank."""

from __future__ import annotations

import contextlib
import math
import os
import time
import warnings
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import run_programs
from rushlight._C._distributed_c10d import _create_work_from_future
from rushlight.distributed import work
from rushlight.nn.parallel import DistributedDataParallel


def start(backend="gloo"):
    warnings.filterwarnings("ignore", "backend 'gloo' means MPI")
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=timedelta(seconds=120))
    return dist.get_rank(), dist.get_world_size()


def chosen(kind, **fields):
    made = getattr(dist, kind)()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def numbers(tensors):
    return [t.tolist() for t in tensors]


def reduced_lists():
    """Reductions of lists of tensors: over the lists and over the processes."""
    rank, size = start()
    group = dist.group.WORLD
    assert isinstance(group._get_backend(torch.device("cpu")), dist.ProcessGroupGloo)
    every = torch.arange(1, 2 * size + 1)
    expected = {"SUM": every.sum(), "PRODUCT": every.prod(), "MIN": 1, "MAX": 2 * size}
    for name, value in expected.items():
        op, options = getattr(dist.ReduceOp, name), chosen("AllreduceOptions")
        options.reduceOp = op
        pair = [torch.tensor([2 * rank + k + 1]) for k in range(2)]
        future = group.allreduce(pair, options).get_future()
        assert numbers(future.wait()) == numbers(pair) == [[value]] * 2, name
        for one in (
            group.allreduce(torch.tensor([rank + 1]), op),
            group.allreduce([torch.tensor([rank + 1])], op),
        ):
            one.wait()
            whole = torch.arange(1, size + 1)
            assert (
                one.result()[0].item()
                == {"SUM": whole.sum(), "PRODUCT": whole.prod(), "MIN": 1, "MAX": size}[name]
            )
        x = torch.tensor([rank + 1])
        group.reduce([x], chosen("ReduceOptions", rootRank=size - 1, reduceOp=op)).wait()
        assert rank < size - 1 or x.item() == one.result()[0].item()
        rows, x = [torch.tensor([rank + k]) for k in range(size)], torch.zeros(1, dtype=torch.int64)
        group.reduce_scatter([x], [rows], chosen("ReduceScatterOptions", reduceOp=op)).wait()
        y = torch.zeros(1, dtype=torch.int64)
        group.reduce_scatter(y, rows, op).wait()
        found = torch.arange(size) + rank
        assert (
            x.item()
            == y.item()
            == {"SUM": found.sum(), "PRODUCT": found.prod(), "MIN": rank, "MAX": rank + size - 1}[
                name
            ]
        )
    with pytest.raises(RuntimeError, match="of several tensors of one process"):
        group.allreduce([torch.ones(1)] * 2, dist.ReduceOp.AVG)
    x = [torch.ones(2), torch.ones(1, 3)]
    group.allreduce_coalesced(x).wait()
    assert numbers(x) == [[size] * 2, [[size] * 3]]
    x = torch.zeros(2)
    group._reduce_scatter_base(x, torch.arange(2.0 * size)).wait()
    assert x.tolist() == [2 * rank * size, (2 * rank + 1) * size]
    pair = [torch.zeros(1), torch.zeros(2)]
    group.reduce_scatter_tensor_coalesced(pair, [torch.ones(size), torch.ones(2 * size)]).wait()
    assert numbers(pair) == [[size], [size, size]]


def moved_lists():
    """Lists of tensors from process to process."""
    rank, size = start()
    group = dist.group.WORLD
    for root in range(size):
        for k in range(2):
            pair = [torch.tensor([2.0 * rank + j]) for j in range(2)]
            group.broadcast(pair, chosen("BroadcastOptions", rootRank=root, rootTensor=k)).wait()
            assert numbers(pair) == [[2 * root + k]] * 2
        mine = torch.tensor([float(rank)])
        group.broadcast(mine, root=root).wait()
        assert mine.item() == root
        mine, rows = torch.tensor([float(rank)]), [torch.zeros(1) for _ in range(size)]
        here = rank == root
        group.gather([rows] if here else [], [mine], chosen("GatherOptions", rootRank=root)).wait()
        assert numbers(rows) == [[k * here] for k in range(size)]
        group.scatter(
            [mine], [[r + 1 for r in rows]] if here else [], chosen("ScatterOptions", rootRank=root)
        ).wait()
        assert mine.item() == rank + 1
        group.scatter(mine, rows if here else [], root).wait()
        assert mine.item() == rank
    for count in (1, 3):
        mine = [torch.tensor([10.0 * rank + k]) for k in range(count)]
        every = [[10.0 * r + k] for r in range(size) for k in range(count)]
        rows = [[torch.zeros(1) for _ in range(size * count)] for _ in range(count)]
        group.allgather(rows, mine).wait()
        assert [numbers(each) for each in rows] == [every] * count
    rows = [torch.zeros(1) for _ in range(size)]
    group.allgather(rows, torch.tensor([float(rank)])).wait()
    assert numbers(rows) == [[k] for k in range(size)]
    rows = [[torch.zeros(1), torch.zeros(2)] for _ in range(size)]
    group.allgather_coalesced(rows, [torch.ones(1) * rank, torch.ones(2) * rank]).wait()
    assert [numbers(each) for each in rows] == [[[k], [k, k]] for k in range(size)]
    whole = [torch.zeros(size), torch.zeros(2 * size)]
    group.allgather_into_tensor_coalesced(whole, [torch.ones(1), torch.ones(2)]).wait()
    group._allgather_base(whole[0], torch.tensor([float(rank)])).wait()
    assert numbers(whole) == [list(range(size)), [1] * 2 * size]
    rows = [torch.zeros(1) for _ in range(size)]
    group.alltoall(rows, [torch.tensor([10.0 * rank + k]) for k in range(size)]).wait()
    assert numbers(rows) == [[10 * k + rank] for k in range(size)]
    x = torch.zeros(size)
    group.alltoall_base(x, torch.arange(float(size)) + 10 * rank, [], []).wait()
    assert x.tolist() == [10 * k + rank for k in range(size)]
    x = torch.zeros(1)
    coming = group.recv([x], (rank - 1) % size, 5)
    group.send([torch.tensor([float(rank)])], (rank + 1) % size, 5).wait()
    assert coming.wait() and x.item() == (rank - 1) % size == coming.source_rank()
    if rank == 0:
        coming = group.recv_anysource([x], 6)
        assert coming.wait() and x.item() == 7 and coming.source_rank() == 1
    elif rank == 1:
        group.send([torch.tensor([7.0])], 0, 6).wait()
    assert group.barrier().wait() and group.barrier(dist.BarrierOptions()).wait()
    tensors = [
        torch.full((k + 1,), float(rank)).to([torch.float32, torch.int64][k % 2]) for k in range(5)
    ]
    dist._broadcast_coalesced(group, tensors, 16, 1)
    assert all((t == 1).all() for t in tensors)


def refused_lists():
    """What is wrong is said before anything is sent."""
    rank, size = start()
    group = dist.group.WORLD
    a, b, c = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (1,))
    at = {"rootRank": rank}
    other = {"rootRank": (rank + 1) % size}
    for text, call in {
        "allreduce: requires non-empty tensor list": lambda: group.allreduce([]),
        "allreduce: invalid tensor type at index 1": lambda: group.allreduce([a, b]),
        "allreduce: invalid tensor size at index 1": lambda: group.allreduce([a, c]),
        "allreduce: invalid tensor layout at index 1 .expected strided, got sparse_coo": lambda: group.allreduce([a, sparse]),
        "tensors must all have the same type": lambda: group.allreduce_coalesced([a, b]),
        "unsupported layout": lambda: group.allreduce_coalesced([sparse]),
        "broadcast: invalid root rank: -1": lambda: group.broadcast([a], chosen("BroadcastOptions", rootRank=-1)),
        "broadcast: invalid root tensor: 1": lambda: group.broadcast([a], chosen("BroadcastOptions", rootTensor=1, **at)),
        "reduce: requires a single-element tensor list": lambda: group.reduce([a, a]),
        "reduce: invalid root tensor: 2": lambda: group.reduce([a], chosen("ReduceOptions", rootTensor=2)),
        "scatter: requires a single-element output tensor list": lambda: group.scatter([a, a], []),
        "scatter: requires a single-element input list": lambda: group.scatter([a], [], chosen("ScatterOptions", **at)),
        "scatter: Incorrect input list size": lambda: group.scatter([a], [[a] * (size + 1)], chosen("ScatterOptions", **at)),
        "scatter: requires empty input on non-root": lambda: group.scatter([a], [[a]], chosen("ScatterOptions", **other)),
        "gather: invalid tensor size at index 0": lambda: group.gather([[c] * size], [a], chosen("GatherOptions", **at)),
        "gather: requires empty output on non-root": lambda: group.gather([[a]], [a], chosen("GatherOptions", **other)),
        "allgather: requires non-empty input tensor list": lambda: group.allgather([], []),
        "requires input/output tensor lists to have the same length": lambda: group.allgather([], [a]),
        "allgather: invalid output tensor list at index 0": lambda: group.allgather([[a] * (size + 1)], [a]),
        "output lists should be equal to world size": lambda: group.allgather_coalesced([[a]] * (size + 1), [a]),
        "invalid size of output tensor at index 0": lambda: group.allgather_coalesced([[c]] * size, [a]),
        "send takes a single tensor": lambda: group.send([a, a], rank - 1, 0),
        "Tag must be nonnegative": lambda: group.recv([a], rank - 1, -1),
    }.items():  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(TypeError, match="output_tensor_lists` of type List"):
        dist.all_gather_coalesced([a] * size, [a])
    for call in (lambda: group.allreduce(5), lambda: group.broadcast([a], 3)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call()
    dist.barrier()


def made_by_itself():
    """Groups that a program makes of a store, without init_process_group."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), size, rank == 0)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = 50.0
    options._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
    every = dist.ProcessGroupGloo(dist.PrefixStore("every", store), rank, size, options)
    assert every.size() == size and every.rank() == rank and every.timeout == timedelta(seconds=50)
    x = torch.ones(1)
    dist.all_reduce(x, group=every)
    assert x.item() == size and not dist.is_initialized()
    if rank > 0:  # of some of them, in another order
        others = dist.ProcessGroupGloo(dist.PrefixStore("others", store), size - 1 - rank, size - 1)
        x.fill_(rank)
        others.broadcast(x, root=0).wait()
        assert x.item() == size - 1 and others.ranks == list(range(size - 1, 0, -1))
    net = DistributedDataParallel(torch.nn.Linear(1, 1), process_group=every)
    net(torch.full((1, 1), float(rank))).sum().backward()
    assert net.module.weight.grad.item() == (size - 1) / 2
    every.barrier().wait()


def many_at_once():
    """Hundreds of calls on their way: MPI moves all, and only the oldest one tells the store that it waits."""
    rank, size = start()
    group, told = dist.group.WORLD, []
    kept = group.store._call
    group.store._call = lambda name, *rest: told.append(name) or kept(name, *rest)
    if rank == 0:
        time.sleep(3 * work.SLOW)
    tensors = [torch.tensor([float(rank + k)]) for k in range(300)]
    futures = [dist.all_reduce(t, async_op=True).get_future() for t in tensors]
    for k, future in enumerate(futures):
        assert future.wait()[0].item() == sum(k + r for r in range(size))
    assert told.count("set") < 100, told
    dist.barrier()


def reducers():
    """A `Reducer` of a program's own averages gradients; what goes wrong is kept."""
    rank, size = start()
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1).double())
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(1)
    parameters = list(net.parameters())
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        dist.Reducer(parameters, [[0, 1, 2, 3]], [100], dist.group.WORLD)
    reducer = dist.Reducer(
        parameters, [[2, 3], [0, 1]], [100, 100], dist.group.WORLD, find_unused_parameters=True
    )
    for last in (True, False):
        reducer.prepare_for_forward()
        y = net[0](torch.full((1, 2), rank + 1.0))
        out = net[1](y.double()) if last else y
        reducer.prepare_for_backward(out)
        out.sum().backward()
        average = (size + 1) / 2
        assert net[0].weight.grad.tolist() == [[average * (2 - last)] * 2] * 2 or last is False
        assert (net[1].weight.grad is None) == (not last)
        net.zero_grad()
    ddp = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    ddp.register_comm_hook(None, lambda state, bucket: 1)
    with pytest.raises(RuntimeError, match="callback must return"):
        ddp(torch.ones(1, 2)).sum().backward()
    said = ddp._get_ddp_logging_data()
    assert said["has_error"] == 1 and "callback must return" in said["error"]
    assert (said["world_size"], said["bucket_sizes"], said["module_name"]) == (size, "8", "Linear")


def gathered_together():
    """Several tensors of any dtypes are gathered by one message, which a profile shows as pairs of real numbers."""
    rank, size = start()
    made = [
        torch.tensor(1.5 + rank),
        torch.arange(6).view(2, 3).t() * rank,
        torch.tensor([rank * 1j, 2]),
        torch.ones(0),
        torch.tensor([rank > 0] * 3),
    ]
    outs = [[torch.zeros_like(t) for t in made] for _ in range(size)]
    with torch.autograd.profiler.profile(record_shapes=True) as seen:
        dist.all_gather_coalesced(outs, made)
        dist.all_reduce(made[2])
    for k, (scalar, matrix, pairs, none, flags) in enumerate(outs):
        assert scalar.item() == 1.5 + k and torch.equal(matrix, torch.arange(6).view(2, 3).t() * k)
        assert (
            pairs.tolist() == [k * 1j, 2] and none.shape == (0,) and flags.tolist() == [k > 0] * 3
        )
    assert made[2].tolist() == [sum(range(size)) * 1j, 2 * size]
    events = [e for e in seen.function_events if e.name in ("gloo:all_gather", "gloo:all_reduce")]
    shapes = [[list(shape) for shape in e.input_shapes] for e in events]
    assert shapes == [[[], [3, 2], [2, 2], [0], [3]], [[2, 2]]]


def gradients_of_steps_without_reduction():
    """What had a gradient in no_sync() is averaged by the next step, even if that does not use it."""
    rank, size = start()

    class Turns(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(1, 1, bias=False) for _ in range(5))
            self.turn = 0

        def forward(self, x):
            self.turn += 1
            return self.layers[2 * (rank > 0) + (self.turn - 1) % 2](x)

    net = Turns()
    ddp = DistributedDataParallel(net, find_unused_parameters=True)
    for _ in range(2):
        with ddp.no_sync():
            ddp(torch.tensor([rank + 1.0])).sum().backward()
        ddp(torch.tensor([rank + 1.0])).sum().backward()
        others = sum(range(2, size + 1)) / size
        assert [p.grad.item() for p in net.layers[:4].parameters()] == [1 / size] * 2 + [others] * 2
        assert net.layers[4].weight.grad is None  # no process used it
        net.zero_grad()
    with pytest.raises(RuntimeError, match="should be called before training loop starts"):
        ddp._set_static_graph()


def saved_modules():
    """A pickled DistributedDataParallel averages gradients as before."""
    import copy
    import io

    rank, size = start()
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
    ddp = DistributedDataParallel(net)
    text = io.BytesIO()
    torch.save(ddp, text)
    text.seek(0)
    for other in (torch.load(text, weights_only=False), copy.deepcopy(ddp)):
        for each in (ddp, other):
            each.zero_grad()
            each(torch.arange(6.0).view(3, 2) * (rank + 1)).square().sum().backward()
        for p, q in zip(ddp.parameters(), other.parameters(), strict=True):
            assert p is not q and torch.equal(p.grad, q.grad)
    alone = dist.new_group([rank])
    with pytest.raises(
        RuntimeError, match="only supported when using DDP with the default process group"
    ):
        torch.save(DistributedDataParallel(net, process_group=alone), io.BytesIO())


def compared():
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: another collective, another size or nobody at all is said by all."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    rank, size = start()
    group, x = dist.group.WORLD, torch.ones(20, 10)
    for _ in range(3):
        dist.all_reduce(x)
    assert x[0, 0] == size**3
    if rank == 0:
        dist.send(x, 1)  # is nobody else's business
    elif rank == 1:
        dist.recv(x, 0)
    with pytest.raises(RuntimeError) as found:
        dist.all_reduce(x) if rank == 0 else dist.reduce(x, 0)
    for text in (
        "Detected mismatch",
        "ALLREDUCE",
        "REDUCE",
        "SequenceNumber",
        "[20, 10]",
        "Float",
        "cpu",
    ):
        assert text in str(found.value)
    with pytest.raises(RuntimeError, match="REDUCE_SCATTER.*BARRIER|BARRIER.*REDUCE_SCATTER"):
        dist.barrier() if rank == 0 else dist.reduce_scatter(x[0], [x[0]] * size)
    with pytest.raises(RuntimeError, match=r"\[2\].*\[3\]|\[3\].*\[2\]"):
        group.allreduce([torch.ones(2 + (rank == 1))])
    y = torch.ones(1)
    dist.all_reduce(y)  # nothing was sent
    assert y.item() == size
    wrapped = dist._create_process_group_wrapper(group, "unused", None, rank, size, timeout=2.0)
    if rank == 1:
        time.sleep(8)
        return
    text = (
        r"Ranks? 1 failed to pass monitoredBarrier"
        if rank == 0
        else "check rank 0 logs for faulty rank"
    )
    with pytest.raises(RuntimeError, match=text):
        wrapped.allreduce([x])
    if rank == 0:
        time.sleep(6)  # it serves the store


def numbered():
    """Messages between two processes do not shift how the others count collectives."""
    rank, size = start()
    for _ in range(3):
        if rank == 0:
            dist.send(torch.ones(1), 1)
        elif rank == 1:
            dist.recv(torch.ones(1), 0)
    dist.monitored_barrier(timeout=timedelta(seconds=60))
    assert dist.group.WORLD._get_sequence_number_for_group() == 1
    with pytest.raises(RuntimeError, match="Rank 0 timed out" if rank == 0 else "check rank 0"):
        dist.group.WORLD.monitored_barrier(timedelta(0))


def groups_in_groups():
    """Groups that are made at once by different processes have nothing in common but their name."""
    rank, size = start()
    half, _ = dist.new_subgroups(2)
    one, every = dist.new_subgroups(1, group=half)
    assert one.size() == 1 and len(every) == 2 and not dist._rank_not_in_group(one)
    assert dist._rank_not_in_group(every[1 - rank % 2])
    pair, (same,) = dist.new_subgroups_by_enumeration([dist.get_process_group_ranks(half)])
    assert pair is same and pair.store.check(["x"]) is False
    dist.barrier(pair)
    pair.store.set("x", str(rank // 2))
    dist.barrier(pair)
    assert pair.store.get("x") == b"%d" % (rank // 2)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.get_backend(every[1 - rank % 2])
    dist.barrier()


def local_steps():
    """Post-local SGD: gradients of all, then of a subgroup or none, and parameters that are averaged now and then."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import (
        DDPCommHookType,
        post_localSGD_hook,
        register_ddp_comm_hook,
    )
    from rushlight.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from rushlight.distributed.optim import PostLocalSGDOptimizer

    rank, size = start()

    def module():
        net = torch.nn.Linear(1, 1, bias=False)
        net.weight.data.fill_(0)
        return DistributedDataParallel(net)

    pairs, _ = dist.new_subgroups(2)
    for everywhere in (True, False):
        ddp = module()
        state = post_localSGD_hook.PostLocalSGDState(None, pairs, 1, everywhere)
        ddp.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        inner = torch.optim.SGD(ddp.parameters(), lr=1, maximize=True)
        optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=2, warmup_steps=1))
        seen = []
        for _ in range(3):
            optimizer.zero_grad()
            ddp(torch.tensor([[rank + 1.0]])).sum().backward()
            optimizer.step()
            seen.append(ddp.module.weight.item())
        average = (size + 1) / 2
        mine = rank // 2 * 2 + 1.5 if everywhere else rank + 1
        assert seen == [average, 2 * average, 2 * average + mine] and optimizer.averager.step == 3
        saved = optimizer.state_dict()
        optimizer.averager.step = 0
        optimizer.load_state_dict(saved)
        assert optimizer.averager.step == saved["step"] == 3
        with pytest.warns(UserWarning, match="does not contain a step counter"):
            optimizer.load_state_dict(inner.state_dict())
    for kind, expected in (
        (DDPCommHookType.NOOP, rank + 1),
        (dist.BuiltinCommHookType.FP16_COMPRESS, average),
    ):
        ddp = module()
        if kind is DDPCommHookType.NOOP:
            register_ddp_comm_hook(kind, ddp)
        else:
            ddp._register_builtin_comm_hook(kind)
        ddp(torch.tensor([[rank + 1.0]])).sum().backward()
        assert ddp.module.weight.grad.item() == expected
    with pytest.raises(ValueError, match="must be a positive value"):
        PeriodicModelAverager(0)
    with pytest.raises(ValueError, match="expected a non-empty list of Tensors"):
        PeriodicModelAverager(2).average_parameters(module().parameters())  # without gradients


def averaged_in_groups():
    """Averages among two in each second step, among all in each fourth one, of what has a gradient."""
    from rushlight.distributed.algorithms.model_averaging import utils
    from rushlight.distributed.algorithms.model_averaging.hierarchical_model_averager import (
        HierarchicalModelAverager,
    )

    rank, size = start()
    one, other = (torch.nn.Parameter(torch.tensor([float(rank)])) for _ in range(2))
    one.grad = torch.ones(1)
    averager = HierarchicalModelAverager({2: 2, 4: size}, warmup_steps=1)
    seen = []
    for _ in range(5):
        averager.average_parameters(iter([one, other]))
        seen.append(one.item())
        one.data.fill_(rank)
    pair, whole = rank // 2 * 2 + 0.5, (size - 1) / 2
    assert seen == [rank, rank, pair if size > 2 else whole, rank, whole]
    assert averager.step == 5 and other.item() == rank
    utils.average_parameters(iter([other]), None)
    assert other.item() == whole
    with pytest.raises(NotImplementedError, match="is not supported"):
        utils.get_params_to_average([torch.ones(1)])
    for periods, message in (
        ({}, "must not be empty"),
        ({0: size}, "must be a positive value"),
        ({2: size + 1}, "must be equal to the size"),
    ):
        with pytest.raises(ValueError, match=message):
            HierarchicalModelAverager(periods)


def rounded_gradients():
    """Hooks that send bytes: multiples of the step are exact, others off by half of it."""
    from rushlight.distributed.algorithms.ddp_comm_hooks import quantization_hooks as hooks

    rank, size = start()
    width = 700
    for hook in (hooks.quantization_pertensor_hook, hooks.quantization_perchannel_hook):
        net = torch.nn.Linear(width, 1, bias=False)
        ddp = DistributedDataParallel(net)
        ddp.register_comm_hook(None, hook)
        torch.manual_seed(rank)
        x = torch.randint(-127, 129, (1, width)).float()
        x[0, :2] = x[0, -2:] = torch.tensor([-127.0, 128.0])
        expected = x.clone()
        dist.all_reduce(expected)
        ddp(x).sum().backward()
        torch.testing.assert_close(net.weight.grad, expected / size)
        net.weight.grad = None
        x = torch.randn(1, width)
        expected, steps = x.clone(), (x.max() - x.min()) / 255
        dist.all_reduce(expected), dist.all_reduce(steps)
        ddp(x).sum().backward()
        far = (net.weight.grad - expected / size).abs().max()
        assert 0 < far <= steps / size * 0.501
        ddp(torch.full((1, width), math.inf if rank else 1.0)).sum().backward()
        assert not net.weight.grad.isfinite().any()


def replicated():
    """`replicate`: gradients are averages, as with DistributedDataParallel, and names are the module's own."""
    import copy

    from rushlight.distributed._composable import replicate
    from rushlight.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

    rank, size = start()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    whole, parts, own = copy.deepcopy(net), copy.deepcopy(net), copy.deepcopy(net)
    assert replicate(whole, bucket_cap_mb=1) is whole and isinstance(whole, torch.nn.Sequential)
    assert list(whole.state_dict()) == list(net.state_dict())
    replicate(parts, [parts[1]])
    ddp, x = DistributedDataParallel(net), torch.arange(4.0).view(2, 2) + rank
    for step in range(3):
        whole.set_requires_gradient_sync(step > 0)
        with contextlib.nullcontext() if step else ddp.no_sync():
            for each in (ddp, whole, parts, own):
                each(x).square().sum().backward()
    for p, q in zip(net.parameters(), whole.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)
    assert torch.equal(parts[1].weight.grad, own[1].weight.grad)  # an ignored module
    assert not torch.equal(parts[0].weight.grad, own[0].weight.grad)
    with pytest.raises(AssertionError, match="does not support deepcopy"):
        copy.deepcopy(whole)
    replicate(own)
    own.register_comm_hook(None, noop_hook)
    own.zero_grad()
    own(x).sum().backward()
    assert own[1].bias.grad.tolist() == [2.0]  # this process's


class Alone(dist.ProcessGroup):
    """A group of one process, whose calls return works of its own."""

    def __init__(self, future):
        super().__init__(0, 1)
        self.future, self.waits = future, 0

    def _work(self, result):
        future = torch.futures.Future()
        future.set_result(result)
        if self.future:
            return _create_work_from_future(future)
        group = self

        class Mine(dist._Work):
            def wait(self, timeout):
                group.waits += 1
                return True

            def get_future(self):
                return future

        return Mine()

    def broadcast(self, tensors, options):
        return self._work(tensors)

    def allgather(self, outputs, inputs, options):
        for output, mine in zip(outputs[0], inputs):
            output.copy_(mine)
        return self._work(outputs)

    def allreduce(self, tensors, options):
        return self._work(tensors)


def groups_of_its_own():
    """A group that a program makes of its own class goes where a group does, without init_process_group."""
    for future in (False, True):
        group = Alone(future)
        net = torch.nn.Linear(2, 1, bias=False)
        DistributedDataParallel(net, process_group=group)(torch.ones(1, 2)).sum().backward()
        assert net.weight.grad.tolist() == [[1, 1]] and bool(group.waits) != future
        x = torch.ones(2)
        assert dist.all_reduce(x, group=group) is None and dist.get_world_size(group) == 1


if __name__ == "__main__":
    run_programs(globals())
