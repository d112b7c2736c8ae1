"""One thread and two give the same bits, forward and backward: chunks and the order in which they are
joined depend on shapes alone. Neither does it matter where an array lies, or that a call is recorded."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
from rushlight._backends import llvm

F = torch.nn.functional


@pytest.fixture(autouse=True, scope="module")
def active():
    assert llvm.activate()
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bits(value):
    """All numbers of a result, as bytes."""
    if isinstance(value, (tuple, list)):
        return [b for v in value for b in bits(v)]
    if value is None:
        return []
    value = value.detach()
    if value.dtype is torch.bfloat16:  # NumPy has no such numbers
        value = value.float()
    return [np.ascontiguousarray(value.numpy()).tobytes()]


def run(program, threads, dtype):
    """What a program gives on so many threads, and its gradients."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    inputs, function = program
    made = [make(dtype) for make in inputs]
    leaves = [x.requires_grad_(True) for x in made if x.is_floating_point()]
    result = function(*made)
    found = bits(result)
    first = result[0] if isinstance(result, (tuple, list)) else result
    if first.requires_grad:
        torch.manual_seed(2)
        first.backward(torch.randn(first.shape).to(first.dtype))
        found += bits([x.grad for x in leaves])
    return found


def normal(*shape):
    return lambda dtype: torch.randn(shape).to(dtype)


def whole(high, *shape):
    return lambda dtype: torch.randint(0, high, shape)


ROWS, LONG, TALL = normal(300, 1000), normal(500_000), normal(20_000, 33)
IMAGES = normal(6, 32, 30, 30)
PROGRAMS = {
    **{name: ([ROWS], getattr(F, name)) for name in
       "gelu silu mish softplus relu elu hardswish sigmoid tanh logsigmoid leaky_relu".split()},
    **{name: ([ROWS], getattr(torch, name)) for name in
       "exp expm1 sin cos erf square abs neg sign".split()},
    **{name: ([ROWS, ROWS], getattr(torch, name)) for name in
       "add sub mul maximum hypot logaddexp atan2".split()},
    "division": ([ROWS, ROWS], lambda a, b: a / (b.abs() + 1)),
    "roots": ([ROWS], lambda a: (a.abs() + 1).sqrt() + (a.abs() + 1).rsqrt() + (a.abs() + 1).log()),
    "where": ([ROWS, ROWS], lambda a, b: torch.where(a > 0, a, b)),
    "broadcast": ([ROWS, normal(1000)], lambda a, b: a * b + b),
    "sum": ([LONG], lambda a: a.sum()),
    "sum of rows": ([ROWS], lambda a: a.sum(1)),
    "sum of columns": ([TALL], lambda a: a.sum(0)),
    "mean": ([IMAGES], lambda a: a.mean((0, 2, 3))),
    "variance": ([LONG], lambda a: a.var()),
    "variance of rows": ([ROWS], lambda a: a.var(1)),
    "extremes": ([ROWS], lambda a: (a.amax(1), a.amin(0), a.argmax(1), a.max())),
    "norm": ([LONG], lambda a: a.norm()),
    "cumsum": ([ROWS], lambda a: a.cumsum(1)),
    "cumsum of columns": ([TALL], lambda a: a.cumsum(0)),
    "softmax": ([ROWS], lambda a: a.softmax(1)),
    "softmax of columns": ([TALL], lambda a: a.log_softmax(0)),
    "cross entropy": ([ROWS, whole(1000, 300)], F.cross_entropy),
    "layer norm": ([TALL, normal(33), normal(33)], lambda a, w, b: F.layer_norm(a, (33,), w, b)),
    "rms norm": ([ROWS, normal(1000)], lambda a, w: F.rms_norm(a, (1000,), w)),
    "group norm": ([IMAGES, normal(32), normal(32)], lambda a, w, b: F.group_norm(a, 4, w, b)),
    "batch norm": (
        [IMAGES, normal(32), normal(32)], lambda a, w, b: F.batch_norm(a, None, None, w, b, True)
    ),
    "losses": ([ROWS, ROWS], lambda a, b: F.smooth_l1_loss(a, b) + F.mse_loss(a, b) + F.huber_loss(a, b)),
    "product": ([normal(200, 300), normal(300, 250)], lambda a, b: a @ b),
    "product of long sums": ([normal(40, 9000), normal(9000, 30)], lambda a, b: a @ b),
    "product with a vector": ([normal(900, 800), normal(800)], lambda a, b: a @ b),
    "batched product": ([normal(12, 70, 60), normal(12, 60, 50)], torch.bmm),
    "linear": ([normal(200, 300), normal(250, 300), normal(250)], F.linear),
    "convolution": ([IMAGES, normal(48, 32, 3, 3), normal(48)], lambda a, w, b: F.conv2d(a, w, b, padding=1)),
    "strided convolution": ([IMAGES, normal(24, 32, 5, 5)], lambda a, w: F.conv2d(a, w, stride=2)),
    "depthwise convolution": ([IMAGES, normal(32, 1, 3, 3)], lambda a, w: F.conv2d(a, w, groups=32)),
    "few channels": ([normal(20, 1, 28, 28), normal(16, 1, 3, 3)], F.conv2d),
    "transposed convolution": ([IMAGES, normal(32, 16, 3, 3)], lambda a, w: F.conv_transpose2d(a, w, stride=2)),
    "convolution in one dimension": ([normal(8, 16, 2000), normal(24, 16, 7)], F.conv1d),
    "max pool": ([IMAGES], lambda a: F.max_pool2d(a, 3, 2, 1)),
    "average pool": ([IMAGES], lambda a: F.avg_pool2d(a, 2)),
    "embedding": ([whole(500, 3000), normal(500, 64)], F.embedding),
    "gather": ([ROWS, whole(1000, 300, 400)], lambda a, i: a.gather(1, i)),
    "scatter": ([ROWS, whole(1000, 300, 400), normal(300, 400)], lambda a, i, b: a.scatter_add(1, i, b)),
    "rows by number": ([TALL, whole(20_000, 30_000)], lambda a, i: a[i]),
    "sort": ([ROWS], lambda a: a.sort(1)),
    "top": ([ROWS], lambda a: a.topk(10, 1)),
    "attention": (
        [normal(2, 4, 150, 32)] * 3,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
    "dropout": ([ROWS], lambda a: F.dropout(a, 0.3)),
    "random numbers": ([], lambda: (torch.rand(100_000), torch.randn(100_001), torch.randperm(50_000))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits(name, dtype):
    one, two = (run(PROGRAMS[name], n, dtype) for n in (1, 2))
    assert one == two


OF_ONE = {
    "sum": lambda a, **d: a.sum(**d),
    "sum of rows": lambda a, **d: a.sum(-1, **d),
    "mean": lambda a, **d: a.mean(**d),
    "nansum": lambda a, **d: a.nansum(**d),
    "product": lambda a, **d: (a * 1e-3 + 1).prod(0, **d),
    "softmax": lambda a, **d: a.softmax(-1, **d),
    "cumsum": lambda a, **d: a.cumsum(0, **d),
    "norm": lambda a, **d: torch.linalg.vector_norm(a, **d),
    "variance": lambda a: a.var(),
    "logarithm": lambda a: a.logsumexp(-1),
    "scalar product": lambda a: torch.dot(a.ravel(), a.ravel()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", OF_ONE)
def test_same_bits_at_any_address_and_however_asked(name, dtype):
    function = OF_ONE[name]
    torch.set_num_threads(1)
    for shape in ((3,), (10,), (37,), (100,), (16_385,), (40_003,), (17, 33), (7, 20_001)):
        a = torch.randn(shape, dtype=dtype)
        first = bits(function(a))
        memory = torch.empty(a.numel() + 16, dtype=dtype)
        for place in (1, 3, 7, 8):
            moved = memory[place : place + a.numel()].view(shape).copy_(a)
            assert bits(function(moved)) == first, (shape, place)
        assert bits(function(a.clone().requires_grad_())) == first, (shape, "recorded")
        if name not in ("variance", "logarithm", "scalar product"):
            assert bits(function(a, dtype=dtype)) == first, (shape, "its own dtype")


def test_same_bits_of_a_recurrent_layer():
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        layer = torch.nn.LSTM(40, 64, 2)
        out, _ = layer(torch.randn(30, 24, 40))
        out.sum().backward()
        found.append(bits([out, *(p.grad for p in layer.parameters())]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_same_bits_of_an_optimizer(kind):
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(300, 500))
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)([p], lr=0.01, **options)
        for _ in range(3):
            p.grad = torch.randn(300, 500)
            optimizer.step()
        found.append(bits(p))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("name", "det inv qr cholesky_ex lu_factor solve".split())
def test_stacks_of_matrices(name, dtype):
    def function(a):
        f = getattr(torch.linalg, name)
        return f(a, a[..., :2]) if name == "solve" else f(a @ a.mH + torch.eye(6, dtype=dtype))

    one, two = (run(([normal(400, 6, 6)], function), n, dtype) for n in (1, 2))
    assert one == two
