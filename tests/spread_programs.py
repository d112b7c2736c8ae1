"""What the processes of `test_dtensor.py` run: `python spread_programs.py NAME`, once for each rank."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import pickle
import zlib
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from processes import run_programs
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    dispatch,
    distribute_module,
    distribute_tensor,
)
from rushlight.distributed.tensor.debug import visualize_sharding
from rushlight.distributed.tensor.experimental import (
    implicit_replication,
    local_map,
    register_sharding,
)
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def start():
    if not dist.is_initialized():
        dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    return dist.get_rank(), dist.get_world_size()


def close(got, expected, what=""):
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected), what
        for a, b in zip(got, expected):
            close(a, b, what)
        return
    got = got.full_tensor() if isinstance(got, DTensor) else got
    assert got.shape == expected.shape and got.dtype is expected.dtype, (what, got.shape)
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=2e-6, msg=lambda m: f"{what}: {m}")


INDEX = torch.tensor([6, 0, 2, 2, 5])
PLACES = torch.arange(30).view(5, 6) * 7 % 5


def alike(t, x):
    """A plain tensor beside a spread one."""
    return distribute_tensor(t, x.device_mesh) if isinstance(x, DTensor) else t


# name: (function, shapes of its arguments)
OPERATORS = {
    "add": (lambda x, y: x + y, [(5, 8), (8,)]),
    "mul": (lambda x, y: x * y + x, [(5, 8), (5, 1)]),
    "activations": (lambda x: torch.relu(x) * torch.tanh(x) + F.gelu(x) + F.silu(x), [(5, 7)]),
    "sum": (lambda x: x.sum(1) + x.sum(), [(5, 5)]),
    "mean": (lambda x: x.mean() + x.mean(0) + x.mean(1, keepdim=True), [(4, 4)]),
    "mean of uneven parts": (lambda x: x.mean(), [(5, 4)]),
    "max": (lambda x: x.amax(0) + x.max() + x.max(0)[0], [(5, 4)]),
    "var": (lambda x: (x.var(0) + x.std(), *torch.var_mean(x, 1)), [(5, 4)]),
    "prod": (lambda x: x.prod(1) + x.logsumexp(1), [(5, 4)]),
    "mm": (lambda x, y: x @ y, [(5, 8), (8, 6)]),
    "bmm": (lambda x, y: x @ y, [(2, 4, 5, 8), (2, 4, 8, 6)]),
    "mm of 3": (lambda x, y: x @ y, [(4, 5, 8), (8, 6)]),
    "linear": (F.linear, [(4, 6, 8), (6, 8), (6,)]),
    "linear of 2": (F.linear, [(4, 8), (6, 8), (6,)]),
    "view": (lambda x: x.view(8, 6) * 2 + x.reshape(8, 6), [(4, 2, 6)]),
    "heads": (lambda x: x.view(4, 2, 3, 2).transpose(1, 2), [(4, 2, 6)]),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous().flatten(1), [(4, 2, 6)]),
    "squeeze": (lambda x: x.squeeze() + x.unsqueeze(0).squeeze(0).squeeze(1), [(4, 1, 6)]),
    "split": (lambda x: torch.cat([a * k for k, a in enumerate(x.split(2, 1))], 1), [(4, 6)]),
    "chunk": (lambda x: torch.stack(x.chunk(2, 0)), [(4, 6)]),
    "slice": (lambda x: x[1:3] * x[:2, :] + x[0] + x[:, 1:2][0], [(4, 6)]),
    "index": (lambda x: x[alike(INDEX, x)] * 2, [(7, 6)]),
    "expand": (lambda x: x.expand(3, 4, 6) * 1.5, [(4, 6)]),
    "softmax": (lambda x: torch.softmax(x, -1) * torch.log_softmax(x, 0), [(4, 6)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), [(2, 5, 8), (8,), (8,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w), [(2, 5, 8), (8,)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 4, 5, 8)] * 3,
    ),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y, reduction="sum"), [(4, 6)] * 2),
    "losses of uneven parts": (F.mse_loss, [(5, 6), (5, 6)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, alike(INDEX, x)), [(5, 7)]),
    "embedding": (lambda w: F.embedding(alike(INDEX.view(5, 1), w), w), [(7, 6)]),
    "norm": (lambda x: torch.linalg.vector_norm(x) + x.norm(), [(5, 6)]),
    "where": (lambda x, y: torch.where(x > 0, x, y).masked_fill(x < -1, 2.0), [(5, 6), (5, 6)]),
    "sort": (lambda x: x.cumsum(0) + x.sort(1)[0], [(5, 6)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), [(4, 2, 5, 5), (3, 2, 3, 3)]),
    "pad": (lambda x: F.pad(x, (1, 1)) + F.pad(x, (2, 0), value=3.0), [(4, 6)]),
    "moved": (lambda x: x.roll(1, 0) + x.roll((1, 2), (0, -1)) + x.roll(3) + x.flip(1), [(5, 6)]),
    "repeat": (lambda x: (x.repeat(2, 1), x.repeat(1, 2), x.tile(2, 1, 1)), [(5, 6)]),
    "gather": (lambda x: x.gather(1, alike(PLACES, x)) + x.gather(0, alike(PLACES, x)), [(5, 6)]),
    "scatter": (
        lambda x, y: x.scatter(1, alike(PLACES, x), y) + x.scatter_add(0, alike(PLACES, x), y),
        [(5, 6)] * 2,
    ),
    "rows": (
        lambda x, y: (
            x.index_select(1, alike(INDEX[1:4], x)),
            x.index_add(0, alike(INDEX[1:4], x), y[:3], alpha=2),
            x.select_scatter(y[0], 0, 1) + x.slice_scatter(y[:, :2], -1, 1, 3),
        ),
        [(5, 6)] * 2,
    ),
    "vectors": (
        lambda x, y: (torch.addmv(x[:, 0], x, y), torch.outer(y, y), torch.vdot(y, y)),
        [(5, 6), (6,)],
    ),
    "along": (lambda x: (*torch.std_mean(x, 1), x.kthvalue(2, 0)[0], F.glu(x)), [(5, 6)]),
    "logits": (lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()), [(4, 6)]),
}  # fmt: skip


def check_operator(name, mesh, most):
    """The values and gradients of an operator do not depend on how its arguments lie, in so many of the ways."""
    function, shapes = OPERATORS[name]
    whole = [torch.randn(shape, requires_grad=True) for shape in shapes]
    expected = function(*whole)
    outs = expected if isinstance(expected, tuple) else (expected,)
    weights = [torch.randn_like(out) for out in outs]
    total = sum((out * w).sum() for out, w in zip(outs, weights))
    gradients = torch.autograd.grad(total, whole)
    ways = [[Replicate(), *map(Shard, range(len(shape)))] for shape in shapes]
    every = itertools.product(*[itertools.product(way, repeat=mesh.ndim) for way in ways])
    for placements in sorted(every, key=lambda p: zlib.crc32(repr((name, p)).encode()))[:most]:
        what = name, placements
        spread = [
            distribute_tensor(w.detach(), mesh, p).requires_grad_()
            for w, p in zip(whole, placements)
        ]
        got = function(*spread)
        close(got, expected, what)
        outs = got if isinstance(got, tuple) else (got,)
        total = sum((out * distribute_tensor(w, mesh)).sum() for out, w in zip(outs, weights))
        close(torch.autograd.grad(total, spread), gradients, what)


def operators():
    _, size = start()
    torch.manual_seed(0)
    row = init_device_mesh("cpu", (size,))
    for name in OPERATORS:
        check_operator(name, row, 25 if size == 2 else 3)
        if size == 4:
            check_operator(name, init_device_mesh("cpu", (2, 2)), 5)


def sums():
    """What is not the sum of results is not made of summands; which dimensions stay cut; parts with a mark for conjugates."""
    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    x = DTensor.from_local(torch.full((2, 2), 0.5 if rank else 1.5 - size / 2), mesh, [Partial()])
    assert x.long().full_tensor().tolist() == [[1] * 2] * 2
    assert (x - 1).bool().full_tensor().tolist() == [[False] * 2] * 2
    assert x.double().placements == x.roll(1, 0).placements == (Partial(),)
    assert x.detach().fill_(2).full_tensor().tolist() == [[2.0] * 2] * 2
    whole = torch.arange(12.0 * size).view(2 * size, 6)
    cut = distribute_tensor(whole, mesh, [Shard(0)])
    assert (cut > 3).sum().placements == (Partial(),)
    assert (cut > 3).any(1).placements == (Shard(0),)
    assert bool((cut > 12 * size - 2).any())  # the same everywhere
    close((cut > 3).sum(), (whole > 3).sum())
    both = torch.complex(cut, cut + 1).conj()
    close(both, torch.complex(whole, whole + 1).conj().resolve_conj())
    with pytest.raises(NotImplementedError, match="t_ does not have a sharding strategy"):
        cut.t_()


def unused_results():
    """What an operator makes beside spread tensors is spread: zeros for results that nobody used, masks of numbers."""
    _, size = start()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(16.0 * size).view(2 * size, 8)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return 2 * t, 3 * t

        @staticmethod
        def backward(ctx, first, second):
            return 2 * first + 3 * second

    for place in (Replicate(), Shard(0)):
        for function, expected in (
            (lambda t: t.chunk(2, 1)[1], [0.0] * 4 + [1.0] * 4),
            (lambda t: t.unbind(1)[0], [1.0] + [0.0] * 7),
            (lambda t: t.aminmax(dim=1)[1], [0.0] * 7 + [1.0]),
            (lambda t: F.group_norm(t, 2)[:, :0], [0.0] * 8),
            (lambda t: Twice.apply(t)[1], [3.0] * 8),
        ):
            x = distribute_tensor(whole, mesh, [place]).requires_grad_()
            function(x).sum().backward()
            close(x.grad, torch.tensor([expected] * 2 * size))

    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(
        4, 2, batch_first=True
    )  # a mask of bool becomes numbers
    x, hidden = torch.randn(size, 3, 4), torch.tensor([[False, False, True]] * size)
    expected, _ = attention(x, x, x, key_padding_mask=hidden)
    x, hidden = (distribute_tensor(t, mesh, [Shard(0)]) for t in (x, hidden))
    close(distribute_module(attention, mesh)(x, x, x, key_padding_mask=hidden)[0], expected)


def hooked():
    """Hooks get spread tensors that are saved for backward, and backward has them again; so has a checkpoint."""
    _, size = start()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.linspace(-1, 1, 6 * size).view(2 * size, 3)
    for function in (lambda t: t.exp() * t, lambda t: t.relu() @ t.t()):
        plain = whole.clone().requires_grad_()
        (expected,) = torch.autograd.grad(function(plain).pow(2).sum(), plain)
        x = distribute_tensor(whole, mesh, [Shard(0)]).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (t,), lambda packed: packed[0]):
            kept = function(x)
        again = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
        for result in (kept, again):
            (found,) = torch.autograd.grad(result.pow(2).sum(), x)
            assert isinstance(found, DTensor)
            close(found, expected)


def mapped():
    """Functions of parts."""
    _, size = start()
    mesh = init_device_mesh("cpu", (size,))
    a, b = torch.randn(3, 2 * size), torch.randn(2 * size, 4)
    row, column = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    product = local_map(torch.mm, [Partial()], ([Shard(1)], [Shard(0)]))
    assert product(row, column).placements == (Partial(),)
    close(product(row, column), a @ b)
    close(product(a, b), a @ b)
    with pytest.raises(ValueError, match="in local_map has a mismatched placements"):
        product(row, b := distribute_tensor(b, mesh, [Replicate()]))
    moving = local_map(
        torch.mm, [Partial()], ([Shard(1)], [Shard(0)]), redistribute_inputs=True, device_mesh=mesh
    )
    close(moving(row, b), a @ b.full_tensor())

    @local_map(out_placements=([Shard(0)], None))
    def doubled(x, number):
        return x * 2, number

    x = column.detach().requires_grad_()
    result, number = doubled(x, 5)
    assert number == 5 and result.placements == (Shard(0),)
    result.full_tensor().sum().backward()
    close(x.grad, torch.full_like(x.full_tensor(), 2.0))
    with pytest.raises(AssertionError, match="one PlacementType be provided for each output"):
        local_map(lambda x: (x, x), [Shard(0)])(column)


def registered():
    """Rules of a program, for an operator of its own and in the place of ours."""
    _, size = start()
    mesh = init_device_mesh("cpu", (size,))

    @torch.library.custom_op("spread_programs::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @scaled.register_fake
    def _(x, factor):
        return torch.empty_like(x)

    x = torch.randn(2 * size, 3)
    cut = distribute_tensor(x, mesh, [Shard(0)])
    assert scaled(cut, 2.0).placements == (Replicate(),)  # without a rule all is made whole
    asked = []

    @register_sharding(torch.ops.spread_programs.scaled.default)
    def rule(x, factor):
        asked.append((x.ndim, tuple(x.shape), factor))
        return [([Replicate()], [Replicate(), None])] + [
            ([Shard(k)], [Shard(k), None]) for k in range(x.ndim)
        ]

    result = scaled(cut, 2.0)
    assert result.placements == (Shard(0),) and asked == [(2, (2 * size, 3), 2.0)]
    close(result, x * 2)

    ours = torch.ops.aten.topk.default
    try:
        register_sharding([ours])(
            lambda x, k, dim, *more: [([Replicate(), Replicate()], [Replicate(), None, None])]
        )
        values, numbers = torch.topk(cut, 2, 1)
        assert values.placements == numbers.placements == (Replicate(),)
        close(values, torch.topk(x, 2, 1).values)
    finally:
        del dispatch.REGISTERED[ours]
        dispatch._plans.clear()
    assert torch.topk(cut, 2, 1).values.placements == (Shard(0),)


def same(a, b):
    """Whether two spread tensors have the same parts at the same places."""
    return (
        (a.device_mesh, a.placements, a.dtype, a.shape, a.stride(), a.requires_grad)
        == (b.device_mesh, b.placements, b.dtype, b.shape, b.stride(), b.requires_grad)
        and torch.equal(a.to_local(), b.to_local())
        and isinstance(a, torch.nn.Parameter) == isinstance(b, torch.nn.Parameter)
    )


def saved():
    """Files and pickles have this process's part."""
    rank, size = start()
    grid = init_device_mesh("cpu", (1, size), mesh_dim_names=("one", "all"))
    whole = torch.arange(8.0 * size).view(2 * size, 4)
    state = {
        "cut": distribute_tensor(whole, grid["all"], [Shard(0)]),
        "twice": distribute_tensor(whole.double(), grid, [Shard(1), Shard(0)]),
        "parameter": torch.nn.Parameter(distribute_tensor(whole[:3], grid["all"], [Shard(0)])),
        "summand": DTensor.from_local(whole, grid["all"], [Partial("max")]),
    }
    file = io.BytesIO()
    torch.save({**state, "mesh": grid}, file)
    again = torch.load(io.BytesIO(file.getvalue()))
    assert again.pop("mesh") == grid and repr(again["twice"].device_mesh) == repr(grid)
    assert all(same(again[name], t) for name, t in state.items())
    assert all(same(pickle.loads(pickle.dumps(t)), t) for t in state.values())
    assert again["cut"].device_mesh.get_group().size() == size
    close(again["cut"] + 1, whole + 1)
    shallow = copy.copy(state["cut"])
    assert same(shallow, state["cut"]) and shallow._local_tensor is state["cut"]._local_tensor
    close(distribute_tensor(whole, init_device_mesh("cpu", (size,)), [Shard(0)]).relu(), whole)
    for root in (grid, init_device_mesh("cpu", (1, size), mesh_dim_names=("one", "all"))):
        made = distribute_tensor(whole, root["all"], [Shard(0)]).relu()  # equal meshes, other roots
        assert made.device_mesh._get_root_mesh() is root


def placements():
    """Parts, and how they move; gradients of local parts."""
    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(7.0 * size).view(size, 7)
    for a, b in itertools.product([Replicate(), Shard(0), Shard(1)], repeat=2):
        x = distribute_tensor(whole, mesh, [a])
        y = x.redistribute(placements=[b])
        assert y.placements == (b,) and y.device_mesh == mesh and isinstance(y, torch.Tensor)
        close(y, whole)
        assert y.shape == (size, 7) and y.stride() == (7, 1)
    assert (
        distribute_tensor(whole, mesh, [Shard(-1)]).to_local().shape
        == (size, len(range(7)[: -(-7 // size)]))
        or rank
    )
    assert distribute_tensor(whole, mesh, [Shard(0)]).to_local().tolist() == [whole[rank].tolist()]
    bare = distribute_tensor(torch.empty(size, 7, device="meta"), mesh, [Shard(0)])
    assert bare.is_meta and bare.shape == (size, 7) and bare.to_local().shape == (1, 7)
    assert torch.empty_like(bare, device="cpu").fill_(1.5).full_tensor().sum() == 1.5 * 7 * size
    few = DeviceMesh("cpu", [0])
    small = DTensor.from_local(torch.ones(3), few, [Shard(0)])
    assert (small + 2).to_local().tolist() == ([] if rank else [3.0] * 3)
    for op, expected in {
        "sum": size * (size + 1) / 2,
        "avg": (size + 1) / 2,
        "max": size,
        "min": 1,
    }.items():
        local = torch.full((size, 2), rank + 1.0)
        x = DTensor.from_local(local, mesh, [Partial(op)])
        for placement in (Replicate(), Shard(0)):
            close(x.redistribute(placements=[placement]), torch.full((size, 2), float(expected)))
        assert local[0, 0] == rank + 1
    local = torch.ones(2, 3, requires_grad=True)
    x = DTensor.from_local(local, mesh, [Shard(0)])
    assert x.shape == (2 * size, 3)
    (x.redistribute(placements=[Replicate()]).to_local() * (rank + 1)).sum().backward()
    assert local.grad.tolist() == [[rank + 1.0] * 3] * 2
    with pytest.raises(NotImplementedError, match="resize_.* does not have a sharding strategy"):
        x.detach().resize_(2, 2)
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        x + torch.ones(2 * size, 3)
    total = (x + torch.tensor(1.0)).sum()
    assert total.full_tensor().item() == 12 * size
    assert total.item() == float(total.detach()) == 12  # this process's summand, as in PyTorch
    assert (total > 12).item() and [1, 2][(x.sum() < 0).long()] == 1
    one_each = distribute_tensor(torch.ones(size), mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match=f"a Tensor with {size} elements cannot be conv"):
        one_each.item()
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(one_each)
    made = torch.distributed.tensor.zeros(4, 5, device_mesh=mesh, placements=[Shard(1)])
    made[1] = 3.0
    made += 1
    made.mul_(distribute_tensor(torch.arange(4.0).view(4, 1), mesh))
    close(
        made,
        (torch.tensor([[0.0], [3], [0], [0]]) + 1)
        .mul(torch.arange(4.0).view(4, 1))
        .expand(4, 5)
        .contiguous(),
    )
    row = made.redistribute(placements=[Shard(0)])[1]  # its part was copied
    with pytest.raises(RuntimeError, match="view along a dimension that is cut"):
        row += 1
    torch.manual_seed(5)
    expected = torch.rand(3, 4), torch.randn(5)
    torch.manual_seed(5 + rank)  # the first process's numbers count
    got = [torch.distributed.tensor.rand(3, 4, device_mesh=mesh, placements=[Shard(0)])]
    got.append(torch.distributed.tensor.empty(5, device_mesh=mesh, placements=[Shard(0)]).normal_())
    close(got[0], expected[0])
    assert got[1].full_tensor().shape == (5,)
    with pytest.warns(FutureWarning, match="Deprecating input_fn that takes two arguments"):
        older = distribute_module(torch.nn.Linear(3, 4), mesh, None, lambda inputs, mesh: given)
    given = (distribute_tensor(torch.ones(2, 3), mesh, [Replicate()]),)
    assert older(torch.zeros(1)).shape == (2, 4)
    with pytest.raises(RuntimeError, match="should only be called once"):
        distribute_module(older, mesh)
    with pytest.raises(ValueError, match="output_fn should take in 3 arguments, but got 1"):
        distribute_module(torch.nn.Linear(3, 4), mesh, output_fn=lambda outputs: outputs)
    with pytest.raises(ValueError, match="to a different placements"):
        distribute_tensor(given[0], mesh, [Shard(0)])
    for d in (0, 1):  # what has to move becomes whole
        cut = distribute_tensor(torch.arange(4.0 * size).view(size, 4), mesh, [Shard(d)])
        soft = cut.softmax(d)
        assert soft.placements == (Replicate(),) and cut.softmax(1 - d).placements == (Shard(d),)
        close(soft, torch.arange(4.0 * size).view(size, 4).softmax(d))
    one, other = (distribute_tensor(torch.ones(size, size), mesh, [Shard(d)]) for d in (1, 0))
    assert (one + other).placements == (Shard(0),)  # one move is less than two
    assert (one @ one).placements == (Shard(1),)
    reduced = DTensor.from_local(torch.ones(2), mesh, [Partial()]) + 1
    assert reduced.placements == (Replicate(),) and reduced.to_local().tolist() == [size + 1.0] * 2
    x = distribute_tensor(torch.arange(1.0 + size), mesh, [Shard(0)]).requires_grad_()
    x.clone().mul_(x).sum().backward()  # what was overwritten is a spread tensor, too
    close(x.grad, 2 * torch.arange(1.0 + size))
    start_, change = torch.arange(12.0).view(4, 3), torch.linspace(-1, 1, 12).view(4, 3)
    for gradient in ([Shard(0)], [Replicate()]):  # lies as the parameter does, or not
        cut, plain, beside = (
            torch.nn.Parameter(t)
            for t in (distribute_tensor(start_, mesh, [Shard(0)]), start_.clone(), start_.clone())
        )
        both, one = (
            torch.optim.Adam(ps, lr=0.1, weight_decay=0.1) for ps in ([cut, beside], [plain])
        )
        for _ in range(3):
            before = cut._local_tensor._version
            cut.grad, plain.grad, beside.grad = (
                distribute_tensor(change, mesh, gradient),
                change,
                change,
            )
            both.step()
            one.step()
            assert cut._local_tensor._version > before
        close(cut.detach(), plain.detach())
        close(both.state[cut]["exp_avg"], one.state[plain]["exp_avg"])
        assert torch.equal(beside, plain) and cut.placements == (Shard(0),)
    first = DTensor.from_local(torch.ones(2, 3), DeviceMesh("cpu", [0]), [Shard(0)])
    assert first.sum().to_local().tolist() == (0.0 if rank else 6.0)
    assert first.mul(2).to_local().numel() == (0 if rank else 6)
    layer = distribute_module(torch.nn.Linear(3, 4), mesh)
    copied = copy.deepcopy(layer)
    assert isinstance(copied.weight, torch.nn.Parameter) and isinstance(copied.weight, DTensor)
    close(
        copied(distribute_tensor(torch.ones(2, 3), mesh)),
        layer(distribute_tensor(torch.ones(2, 3), mesh)).full_tensor(),
    )


class Block(torch.nn.Module):
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.attention_norm = torch.nn.LayerNorm(dim)
        self.wq, self.wk, self.wv, self.wo = (torch.nn.Linear(dim, dim) for _ in range(4))
        self.norm = torch.nn.RMSNorm(dim)
        self.w1, self.w3 = torch.nn.Linear(dim, 2 * dim), torch.nn.Linear(dim, 2 * dim, bias=False)
        self.w2 = torch.nn.Linear(2 * dim, dim)

    def attention(self, x):
        q, k, v = (
            w(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        return self.wo(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        y = self.norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Language(torch.nn.Module):
    def __init__(self, words=24, dim=16):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, dim)
        self.layers = torch.nn.ModuleList(Block(dim) for _ in range(2))
        self.norm = torch.nn.LayerNorm(dim)
        self.output = torch.nn.Linear(dim, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


BLOCK = {
    "wq": ColwiseParallel(), "wk": ColwiseParallel(), "wv": ColwiseParallel(), "wo": RowwiseParallel(),
    "w1": ColwiseParallel(), "w2": RowwiseParallel(), "w3": ColwiseParallel(),
}  # fmt: skip


def plain_plan():
    return {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(output_layouts=Replicate()),
    } | {f"layers.*.{name}": style for name, style in BLOCK.items()}


def sequence_plan():
    block = {
        "attention_norm": SequenceParallel(), "norm": SequenceParallel(),
        "wo": RowwiseParallel(output_layouts=Shard(1)), "w2": RowwiseParallel(output_layouts=Shard(1)),
    }  # fmt: skip
    for name in ("wq", "wk", "wv", "w1", "w3"):
        block[name] = ColwiseParallel(input_layouts=Shard(1))
    return {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    } | {f"layers.*.{name}": style for name, style in (BLOCK | block).items()}  # fmt: skip


def tensor_parallel():
    """Steps of a transformer whose layers are cut have the losses of one process."""
    rank, size = start()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))["tp"]
    for plan in (plain_plan(), sequence_plan()):
        torch.manual_seed(1)
        alone = Language()
        cut = parallelize_module(copy.deepcopy(alone), mesh, plan)
        assert cut.layers[0].w1.weight.to_local().shape == (32 // size, 16)
        sequence = "norm" in plan
        optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (alone, cut)]
        for step in range(50 if sequence else 10):
            tokens, target = torch.randint(24, (2, 8)), torch.randint(24, (16,))
            losses = []
            loss = F.cross_entropy(alone(tokens).view(-1, 24), target)
            loss.backward()
            losses.append(loss.item())
            if sequence:
                with loss_parallel():
                    logits = cut(tokens)
                    assert logits.placements == (Shard(2),)
                    if step % 2:  # a plain tensor is the same everywhere
                        target = distribute_tensor(target, mesh)
                    loss = F.cross_entropy(logits.view(-1, 24), target)
                    loss.backward()
            else:
                loss = F.cross_entropy(cut(tokens).view(-1, 24), target)
                loss.backward()
            losses.append(loss.item())
            assert abs(losses[0] - losses[1]) < 1e-5, (step, losses)
            if sequence:
                norms = [torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0) for m in (alone, cut)]
                assert abs(norms[0].item() - norms[1].item()) < 1e-4, (step, norms)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()


class Two(torch.nn.Module):
    def forward(self, x, *, y):
        return x * 2, x.sum() + y


def prepared():
    """Inputs and outputs of a module that is told how they lie."""
    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    module = Two()
    style = PrepareModuleInput(
        input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),),
        input_kwarg_layouts={"y": Replicate()}, desired_input_kwarg_layouts={"y": Replicate()},
    )  # fmt: skip
    parallelize_module(module, mesh, style)
    style = PrepareModuleOutput(
        output_layouts=(Replicate(), None), desired_output_layouts=(Shard(1), None),
        use_local_output=False,
    )  # fmt: skip
    parallelize_module(module, mesh, style)
    double, total = module(torch.full((2, size), rank + 1.0), y=torch.ones(3))
    assert double.placements == (Shard(1),) and double.to_local().shape == (2 * size, 1)
    assert total.full_tensor().tolist() == [2 * size * size * (size + 1) / 2 + 1] * 3
    with implicit_replication():
        assert (double + torch.ones(2 * size, size)).placements == (Shard(1),)
    with pytest.raises(NotImplementedError, match="only support nn.Linear and nn.Embedding"):
        parallelize_module(torch.nn.ReLU(), mesh, ColwiseParallel())
    with pytest.warns(UserWarning, match="could not be resolved"):
        parallelize_module(torch.nn.Sequential(), mesh, {"none": ColwiseParallel()})


def kept_in_parts():
    """What backward needs is kept in parts, even and uneven, and the gradients are those of the whole."""
    from rushlight.distributed.tensor.parallel.input_reshard import input_reshard

    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    for rows in (2 * size, 2 * size + 1):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        other, x = copy.deepcopy(net), torch.randn(rows, 3)
        assert input_reshard(net, mesh, None) is net and not net._forward_hooks
        other(x).square().sum().backward()
        input_reshard(net, mesh, 0)(x).square().sum().backward()
        for a, b in zip(net.parameters(), other.parameters()):
            close(a.grad, b.grad)
    a = distribute_tensor(torch.ones(4, 2 * size), mesh, [Replicate()]).requires_grad_()
    activation = input_reshard(torch.nn.Tanh(), mesh, 1)
    activation(a).sum().backward()
    close(a.grad, 1 - torch.ones(4, 2 * size).tanh().square())


def counted():
    """CommDebugMode knows the collectives of a tensor-parallel, of a sharded and of a plain program."""
    from rushlight.distributed.fsdp import fully_shard
    from rushlight.distributed.tensor.debug import CommDebugMode

    rank, size = start()
    ops, mesh = torch.ops.c10d, init_device_mesh("cpu", (size,))
    reduced = torch.ops.c10d_functional.all_reduce
    x = torch.rand(4, 8, requires_grad=True)

    def layers():
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    cut = parallelize_module(layers(), mesh, plan)
    with CommDebugMode() as mode:
        cut(x).sum().backward()
    assert mode.get_comm_counts() == {reduced: 2} and mode.get_total_counts() == 2
    found = {
        (module, way): dict(each)
        for module, counts in mode.comm_module_counts.items()
        for way, each in counts.items()
        if each
    }
    forward, backward = (
        {"Global", "Sequential", "Sequential.2"},
        {"Global", "Sequential", "Sequential.0"},
    )
    assert found == {
        **{(m, "forward"): {reduced: 1} for m in forward},
        **{(m, "backward"): {reduced: 1} for m in backward},
    }
    table = mode.generate_comm_debug_tracing_table(noise_level=1)
    assert "    Sequential.2\n" in table and "weight: (Shard(dim=0),)" in table
    assert mode.get_sharding_info()["Sequential.0.weight"] == (Shard(0),)

    sharded = torch.nn.Sequential(layers(), layers(), layers())
    for each in sharded:
        fully_shard(each)
    fully_shard(sharded)
    for _ in range(2):
        with mode:  # each layer gathers once in forward and once in backward
            sharded(x).sum().backward()
        assert mode.get_comm_counts()[ops._allgather_base_] == 6
    with mode:
        dist.all_reduce(torch.ones(2))
        dist.broadcast(torch.ones(2), 0)
        dist.barrier()
    assert mode.get_comm_counts() == {ops.allreduce_: 1, ops.broadcast_: 1}
    dist.all_reduce(torch.ones(2))
    assert mode.get_total_counts() == 2


def converted():
    """A spread model takes another dtype: parameters stay the objects that optimizers hold, and their parts follow."""
    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    before, optimizer = [*net.parameters()], torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(2, 4)).sum().backward()
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        net.to(dtype)
        assert all(p is q for p, q in zip(net.parameters(), before))
        for p in before:
            assert p.dtype is p.to_local().dtype is p.grad.dtype is p.grad.to_local().dtype is dtype
            assert isinstance(p, torch.nn.Parameter) and p.grad.placements == p.placements
        assert net(torch.ones(2, 4, dtype=dtype)).dtype is dtype
    weight, gradient = before[0].full_tensor().detach().clone(), before[0].grad.full_tensor()
    optimizer.step()
    torch.testing.assert_close(net[0].weight.full_tensor(), weight - 0.1 * gradient)
    names, rest = before[0].__tensor_flatten__()
    again = DTensor.__tensor_unflatten__({k: getattr(before[0], k) for k in names}, rest, (8, 4), (4, 1))  # fmt: skip
    assert torch.equal(again.full_tensor(), before[0].full_tensor())


def shown():
    """The table of a spread tensor names who has which rows and columns; the first process prints it."""
    rank, size = start()
    mesh, text = init_device_mesh("cpu", (size // 2, 2)), io.StringIO()
    with contextlib.redirect_stdout(text):
        for places in ([Replicate(), Shard(0)], [Shard(0), Shard(1)]):
            visualize_sharding(distribute_tensor(torch.zeros(4, 4), mesh, places))
        visualize_sharding(distribute_tensor(torch.zeros(3), mesh, [Replicate(), Shard(0)]))
    with pytest.raises(RuntimeError, match="only 1D or 2D"):
        visualize_sharding(distribute_tensor(torch.zeros(2, 2, 2), mesh, [Replicate()] * 2))
    first, other = ["cpu:0", "cpu:1"] if size == 2 else ["cpu:0,2", "cpu:1,3"]
    expected = ["         Col 0-3", "-------  ---------", f"Row 0-1  {first}", f"Row 2-3  {other}"]
    expected += ["         Col 0-1    Col 2-3", "-------  ---------  ---------"]
    if size == 2:
        expected += ["Row 0-3  cpu:0      cpu:1"]
    else:
        expected += ["Row 0-1  cpu:0      cpu:1", "Row 2-3  cpu:2      cpu:3"]
    expected += ["         Col 0-0", "-------  ---------", f"Row 0-1  {first}", f"Row 2-2  {other}"]
    assert text.getvalue().splitlines() == (expected if rank == 0 else [])


if __name__ == "__main__":
    run_programs(globals())
