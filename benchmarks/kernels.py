"""Single operations on large tensors: Rushlight's kernels against PyTorch's, in alternating rounds.

    python benchmarks/kernels.py [--threads 2] [--rounds 9] [--only softmax] [--steady]

Before the table stand the machine's own limits, measured in the same run: the peak of fused
multiply-adds (`peak`) and the rate of a plain copy (`copy`). The last column says how near a case
comes to its limit: GFLOP/s of the peak for products and convolutions, bytes that must be moved
against the copy's rate for the others. Memory: PyTorch allocates by `malloc`, which returns large
blocks to the system at once; with `--steady` a second column holds the ratios of another process,
whose MALLOC_* settings make it keep them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from typing import Any

import alternation

MIB = 1 << 20


def tensors(torch, *shapes, grad=False):
    torch.manual_seed(0)
    return [torch.randn(*s).requires_grad_(grad) for s in shapes]


def unary(name, size=1 << 20, positive=False):
    def case(torch):
        (x,) = tensors(torch, (size,))
        if positive:
            x = x.abs() + 0.1
        f = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        return lambda: f(x)

    return case, {"bytes": 8 * size}


def binary(name, size=1 << 20):
    def case(torch):
        x, y = tensors(torch, (size,), (size,))
        f = getattr(torch, name)
        return lambda: f(x, y)

    return case, {"bytes": 12 * size}


def where(torch):
    x, y = tensors(torch, (1 << 20,), (1 << 20,))
    c = x > 0
    return lambda: torch.where(c, x, y)


def reduction(name, shape, dim=None):
    def case(torch):
        (x,) = tensors(torch, shape)
        f = getattr(torch, name)
        return (lambda: f(x)) if dim is None else (lambda: f(x, dim))

    return case, {"bytes": 4 * math.prod(shape)}


def broadcast(name, shape, other, dtype="float32"):
    def case(torch):
        x, y = (t.to(getattr(torch, dtype)) for t in tensors(torch, shape, other))
        f = getattr(torch, name)
        return lambda: f(x, y)

    return case, {"bytes": 8 * math.prod(shape)}


def turned_sum(torch):
    (x,) = tensors(torch, (1024, 1024))
    return lambda: x.t().sum(0)


def backward(make):
    """Forward and backward of a case that returns (function, inputs)."""

    def case(torch):
        f, inputs = make(torch)
        g = torch.ones_like(f())

        def run():
            for x in inputs:
                x.grad = None
            f().backward(g)

        return run

    return case


def sort(torch):
    (x,) = tensors(torch, (1 << 17,))
    return lambda: torch.sort(x)


def topk(torch):
    (x,) = tensors(torch, (256, 4096))
    return lambda: torch.topk(x, 10)


def cumsum(torch):
    (x,) = tensors(torch, (1024, 1024))
    return lambda: torch.cumsum(x, 1)


def dropout(torch):
    (x,) = tensors(torch, (1 << 20,))
    return lambda: torch.nn.functional.dropout(x, 0.1)


def randn(torch):
    return lambda: torch.randn(1 << 20)


def rand(torch):
    return lambda: torch.rand(1 << 20)


def randperm(torch):
    return lambda: torch.randperm(1 << 17)


def filled(name, *args, dtype="float32"):
    def case(torch):
        x = torch.empty(1 << 20, dtype=getattr(torch, dtype))
        return lambda: getattr(x, name)(*args)

    return case


def randint(torch):
    return lambda: torch.randint(0, 100, (1 << 20,))


def sorted_rows(name, shape, *args, numbers=False):
    def case(torch):
        (x,) = tensors(torch, shape)
        if numbers:
            x = torch.randint(0, 1000, shape)
        f = getattr(torch, name)
        return lambda: f(x, *args)

    return case


def indexed(name, dim):
    """index_select, gather, or their writing counterparts, of a table of 2000 x 512."""

    def case(torch):
        (x,) = tensors(torch, (2000, 512), grad=name in ("index_select", "gather"))
        i = torch.randint(0, x.shape[dim], (1500,))
        if name in ("gather", "scatter_add"):
            i = torch.randint(0, x.shape[dim], (2000, 512))
        if name == "index_select":
            return (lambda: x.index_select(dim, i)), [x]
        if name == "gather":
            return (lambda: x.gather(dim, i)), [x]
        if name == "scatter_add":
            (v,) = tensors(torch, (2000, 512))
            return (lambda: x.scatter_add_(dim, i, v)), []
        (v,) = tensors(torch, (1500, 512))
        return (lambda: x.index_add_(dim, i, v)), []

    return case


def called(f, *shapes, **kinds):
    """`f(torch, *tensors)` of random tensors; `kinds`: numbers=n instead of the last one, integers
    below n."""

    def case(torch):
        xs = tensors(torch, *shapes)
        if kinds:
            xs[-1] = torch.randint(0, kinds["numbers"], shapes[-1])
        return lambda: f(torch, *xs)

    return case


def softmax(name):
    def case(torch):
        (x,) = tensors(torch, (1024, 1024))
        f = getattr(torch, name)
        return lambda: f(x, -1)

    return case, {"bytes": 8 << 20}


def softmax_backward(torch):
    (x,) = tensors(torch, (1024, 1024), grad=True)
    return (lambda: torch.softmax(x, -1)), [x]


def layer_norm(torch):
    x, w, b = tensors(torch, (512, 8, 256), (256,), (256,), grad=True)
    return (lambda: torch.nn.functional.layer_norm(x, (256,), w, b)), [x, w, b]


def activated(name, shape, dtype="float32", **options):
    """A function of torch.nn.functional."""

    def case(torch):
        (x,) = tensors(torch, shape)
        x = x.to(getattr(torch, dtype)).requires_grad_()
        f = getattr(torch.nn.functional, name)
        return (lambda: f(x, **options)), [x]

    return case


def ctc(steps, n, classes, length):
    def case(torch):
        (x,) = tensors(torch, (steps, n, classes))
        x = x.log_softmax(-1).requires_grad_()
        targets = torch.randint(1, classes, (n, length))
        lengths = torch.full((n,), steps), torch.full((n,), length)
        return (lambda: torch.nn.functional.ctc_loss(x, targets, *lengths)), [x]

    return case


def overwritten(name, shape):
    """An activation that is written over its input, the result of another operation."""

    def case(torch):
        (x,) = tensors(torch, shape, grad=True)
        f = getattr(torch.nn.functional, name)
        return (lambda: f(x * 1.0, inplace=True)), [x]

    return case


def forward_of(make):
    return lambda torch: make(torch)[0]


def batch_norm(torch):
    x, w, b = tensors(torch, (32, 64, 28, 28), (64,), (64,), grad=True)
    return (lambda: torch.nn.functional.batch_norm(x, None, None, w, b, True)), [x, w, b]


def group_norm(torch):
    x, w, b = tensors(torch, (32, 64, 28, 28), (64,), (64,), grad=True)
    return (lambda: torch.nn.functional.group_norm(x, 8, w, b)), [x, w, b]


def cross_entropy(torch):
    (x,) = tensors(torch, (4096, 1000), grad=True)
    y = torch.randint(0, 1000, (4096,))
    return (lambda: torch.nn.functional.cross_entropy(x, y)), [x]


def normalized(name, shape, *, last=False, **options):
    """A layer of torch.nn for the second dimension (layer and RMS norm: the last) of a shape."""

    def case(torch):
        (x,) = tensors(torch, shape)
        x = x.to(memory_format=torch.channels_last) if last else x
        layer = getattr(torch.nn, name)(**options)
        return (lambda: layer(x)), [x.requires_grad_(), *layer.parameters()]

    return case


def classified(shape, **options):
    def case(torch):
        (x,) = tensors(torch, shape, grad=True)
        y = torch.randint(0, shape[1], (shape[0], *shape[2:]))
        return (lambda: torch.nn.functional.cross_entropy(x, y, **options)), [x]

    return case


def decoding(queries, keys, heads=(8, 8)):
    """A few queries against many keys, as with a cache."""

    def case(torch):
        q, k, v = tensors(torch, (1, heads[0], queries, 64), *[(1, heads[1], keys, 64)] * 2)
        f = torch.nn.functional.scaled_dot_product_attention
        return (lambda: f(q, k, v, enable_gqa=heads[0] != heads[1])), []

    return case


def encoder_layer(torch):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True)
    (x,) = tensors(torch, (8, 64, 256), grad=True)
    return (lambda: layer(x)), [x, *layer.parameters()]


def clipped(name, number):
    def case(torch):
        parameters = tensors(torch, *[(64, 64), (64,)] * 50, grad=True)
        for p in parameters:
            p.grad = torch.randn_like(p)
        clip = getattr(torch.nn.utils, name)
        return lambda: clip(parameters, number)

    return case


def max_pool(torch):
    (x,) = tensors(torch, (32, 64, 28, 28), grad=True)
    return (lambda: torch.nn.functional.max_pool2d(x, 2)), [x]


def avg_pool(torch):
    (x,) = tensors(torch, (32, 64, 28, 28), grad=True)
    return (lambda: torch.nn.functional.avg_pool2d(x, 2)), [x]


def pooled(name, shape, *args):
    def case(torch):
        (x,) = tensors(torch, shape, grad=True)
        f = getattr(torch.nn.functional, name)
        return (lambda: f(x, *args)), [x]

    return case


def resized(shape, **options):
    def case(torch):
        (x,) = tensors(torch, shape, grad=True)
        return (lambda: torch.nn.functional.interpolate(x, **options)), [x]

    return case


def sampled(shape, grid):
    def case(torch):
        x, at = tensors(torch, shape, grid, grad=True)
        return (lambda: torch.nn.functional.grid_sample(x, at, align_corners=False)), [x, at]

    return case


def embedding(torch):
    (w,) = tensors(torch, (10000, 256), grad=True)
    i = torch.randint(0, 10000, (64, 64))
    return (lambda: torch.nn.functional.embedding(i, w)), [w]


def attention(causal, shape=(8, 8, 256, 64)):
    def make(torch):
        q, k, v = tensors(torch, *[shape] * 3, grad=True)
        f = torch.nn.functional.scaled_dot_product_attention
        return (lambda: f(q, k, v, is_causal=causal)), [q, k, v]

    return make


def recurrent(name, n=32, steps=64, width=128, hidden=256, dtype="float32", **options):
    def make(torch):
        torch.manual_seed(0)
        layer = getattr(torch.nn, name)(width, hidden, batch_first=True, **options)
        layer = layer.to(getattr(torch, dtype))
        (x,) = tensors(torch, (n, steps, width))
        x = x.to(getattr(torch, dtype)).requires_grad_()
        return (lambda: layer(x)[0]), [x, *layer.parameters()]

    return make


def packed(name, n=32, steps=40, width=100, hidden=128):
    def make(torch):
        torch.manual_seed(0)
        layer = getattr(torch.nn, name)(width, hidden, batch_first=True)
        (x,) = tensors(torch, (n, steps, width), grad=True)
        lengths = torch.arange(steps, steps - n, -1)
        pack = torch.nn.utils.rnn.pack_padded_sequence
        return (lambda: layer(pack(x, lengths, batch_first=True))[0].data), [x, *layer.parameters()]

    return make


def cell(name, n, width, hidden):
    def make(torch):
        torch.manual_seed(0)
        layer = getattr(torch.nn, name)(width, hidden)
        x, h = tensors(torch, (n, width), (n, hidden))
        if name != "LSTMCell":
            return (lambda: layer(x, h)), [*layer.parameters()]
        return (lambda: layer(x, (h, h))[0]), [*layer.parameters()]

    return make


def optimizer(name, **options):
    def case(torch):
        parameters = tensors(torch, (512, 512), (512,), (2048, 512), (2048,), grad=True)
        for p in parameters:
            p.grad = torch.randn_like(p)
        return getattr(torch.optim, name)(parameters, **options).step

    return case


def gemm(m, n, k, bias=False):
    def case(torch):
        a, b = tensors(torch, (m, k), (n, k))
        if bias:
            (c,) = tensors(torch, (n,))
            return lambda: torch.nn.functional.linear(a, b, c)
        w = b.t().contiguous()
        return lambda: torch.mm(a, w)

    return case, {"flops": 2 * m * n * k}


def bmm(batch, m, n, k):
    def case(torch):
        a, b = tensors(torch, (batch, m, k), (batch, k, n))
        return lambda: torch.bmm(a, b)

    return case, {"flops": 2 * batch * m * n * k}


def product_of(name, *shapes, dtype="float32", transposed=False, **options):
    """A product by its name, of small whole numbers in any dtype; the last matrix perhaps transposed."""

    def case(torch):
        torch.manual_seed(0)
        given = [torch.randint(-4, 5, s).to(getattr(torch, dtype)) for s in shapes]
        if transposed:
            given[-1] = given[-1].mT.contiguous().mT
        return lambda: getattr(torch, name)(*given, **options)

    return case


def conv(n, c, o, size, kernel=3, grad=False, **options):
    def make(torch):
        x, w = tensors(
            torch, (n, c, size, size), (o, c // options.get("groups", 1), kernel, kernel), grad=grad
        )
        return (lambda: torch.nn.functional.conv2d(x, w, **options)), [x, w]

    reach = options.get("dilation", 1) * (kernel - 1) + 1
    out = (size + 2 * options.get("padding", 0) - reach) // options.get("stride", 1) + 1
    flops = 2 * n * o * out * out * c // options.get("groups", 1) * kernel * kernel
    return (backward(make) if grad else forward_of(make)), {"flops": flops * (3 if grad else 1)}


def convolved(name, x_shape, w_shape, grad=False, last=False, dtype="float32", **options):
    """conv1d, conv2d, conv3d or their transposes of any shapes; `last`: channels innermost."""

    def make(torch):
        f = getattr(torch.nn.functional, name)
        given = [t.to(getattr(torch, dtype)) for t in tensors(torch, x_shape, w_shape)]
        if last:
            given = [t.contiguous(memory_format=torch.channels_last) for t in given]
        x, w = (t.requires_grad_(grad) for t in given)
        return (lambda: f(x, w, **options)), [x, w]

    return backward(make) if grad else forward_of(make)


CASES: dict[str, Any] = {
    **{f"{n} 1M": unary(n) for n in ("exp", "tanh", "gelu", "erf", "erfc", "sigmoid", "relu", "silu")},
    "log 1M": unary("log", positive=True),
    "exp 16M": unary("exp", 1 << 24),
    "relu 16M": unary("relu", 1 << 24),
    "add 1M": binary("add"),
    "mul 1M": binary("mul"),
    "add 64K": binary("add", 1 << 16),
    "add 16M": binary("add", 1 << 24),
    "where 1M": where,
    "sum 1M": reduction("sum", (1 << 20,)),
    "sum 16M": reduction("sum", (1 << 24,)),
    "sum rows 1024x1024": reduction("sum", (1024, 1024), 1),
    "sum columns 1024x1024": reduction("sum", (1024, 1024), 0),
    "sum columns of a transpose": turned_sum,
    "amax columns 1024x1024": reduction("amax", (1024, 1024), 0),
    "nansum rows 1024x1024": reduction("nansum", (1024, 1024), 1),
    "prod 1M": reduction("prod", (1 << 20,)),
    "count_nonzero 1M": reduction("count_nonzero", (1 << 20,)),
    "add 256x256 + 256": broadcast("add", (256, 256), (256,)),
    "add 1024x1024 + column": broadcast("add", (1024, 1024), (1024, 1)),
    "mul 8x64x28x28 by channel": broadcast("mul", (8, 64, 28, 28), (64, 1, 1)),
    "add attention mask": broadcast("add", (8, 12, 128, 128), (8, 1, 1, 128)),
    "add attention mask, bfloat16": broadcast(
        "add", (8, 12, 128, 128), (8, 1, 1, 128), "bfloat16"
    ),
    "mse_loss 1M": (
        lambda torch: (lambda x, y: lambda: torch.nn.functional.mse_loss(x, y))(
            *tensors(torch, (1 << 20,), (1 << 20,))
        )
    ),
    "var rows 1024x1024": reduction("var", (1024, 1024), 1),
    "max rows 1024x1024": reduction("max", (1024, 1024), 1),
    "argmax rows 1024x1024": reduction("argmax", (1024, 1024), 1),
    "sum 4x4": reduction("sum", (4, 4)),
    "sum rows 32x32": reduction("sum", (32, 32), 1),
    "mean columns 32x32": reduction("mean", (32, 32), 0),
    "sum of integers 32x32": called(lambda t, i: i.sum(), (32, 32), numbers=10),
    "max 32x32": reduction("max", (32, 32)),
    "max rows 32x32": reduction("max", (32, 32), 1),
    "max columns 256x256": reduction("max", (256, 256), 0),
    "max columns 1024x1024": reduction("max", (1024, 1024), 0),
    "min columns of integers 1024x1024": called(lambda t, i: i.min(0), (1024, 1024), numbers=1000),
    "argmax 1M": reduction("argmax", (1 << 20,)),
    "argmax columns 1024x1024": reduction("argmax", (1024, 1024), 0),
    "amax rows 256x256": reduction("amax", (256, 256), 1),
    "prod 32x32": reduction("prod", (32, 32)),
    "count_nonzero 32x32": reduction("count_nonzero", (32, 32)),
    "var rows 32x32": reduction("var", (32, 32), 1),
    "cumsum 32x32": reduction("cumsum", (32, 32), 1),
    "cumsum 1024x1024": cumsum,
    "sort 128K": sort,
    "topk 256x4096": topk,
    "dropout 1M": dropout,
    "rand 1M": rand,
    "randn 1M": randn,
    "randperm 128K": randperm,
    "randint 1M": randint,
    "uniform_ 1M": filled("uniform_", -1.0, 1.0),
    "bernoulli_ 1M": filled("bernoulli_", 0.3),
    "normal_ float64 1M": filled("normal_", dtype="float64"),
    "sort int64 128K": sorted_rows("sort", (1 << 17,), numbers=True),
    "sort 1024x1024": sorted_rows("sort", (1024, 1024)),
    "sort 4096x50": sorted_rows("sort", (4096, 50)),
    "topk 5 of 4096x1000": sorted_rows("topk", (4096, 1000), 5),
    "index_select rows": forward_of(indexed("index_select", 0)),
    "index_select rows + backward": backward(indexed("index_select", 0)),
    "index_select columns": forward_of(indexed("index_select", 1)),
    "gather columns": forward_of(indexed("gather", 1)),
    "gather columns + backward": backward(indexed("gather", 1)),
    "index_add rows": forward_of(indexed("index_add", 0)),
    "scatter_add columns": forward_of(indexed("scatter_add", 1)),
    "scatter_reduce amax columns": called(
        lambda t, x, i: x.scatter_reduce(1, i, x, "amax"), (2000, 512), (2000, 512), numbers=512
    ),
    "x[i, i] 256K": called(lambda t, x, i: x[i, i], (1000, 1000), (1 << 18,), numbers=1000),
    "x[x > 0] 1M": called(lambda t, x: x[x > 0], (1024, 1024)),
    "nonzero 1M": called(lambda t, x: (x > 0).nonzero(), (1024, 1024)),
    "x[i] of 32x32": called(lambda t, x, i: x[i], (32, 32), (32,), numbers=32),
    "x[i] = v of 32x32": called(lambda t, x, v, i: x.__setitem__(i, v), *((32, 32),) * 2, (32,), numbers=32),
    "x[i] = 0 of 32x32": called(lambda t, x, i: x.__setitem__(i, 0), (32, 32), (32,), numbers=32),
    "x[i, i] of 32x32": called(lambda t, x, i: x[i, i], (32, 32), (32,), numbers=32),
    "x[1:] = v 1M": called(lambda t, x, v: x.__setitem__(slice(1, None), v[1:]), *((1024, 1024),) * 2),
    "x[:, ::2] = 0 1M": called(
        lambda t, x: x.__setitem__((slice(None), slice(None, None, 2)), 0.0), (1024, 1024)
    ),
    "index_select 32x32": called(lambda t, x, i: x.index_select(0, i), (32, 32), (32,), numbers=32),
    "gather 32x32": called(lambda t, x, i: x.gather(1, i), *((32, 32),) * 2, numbers=32),
    "scatter_ 32x32": called(lambda t, x, v, i: x.scatter_(1, i, v), *((32, 32),) * 3, numbers=32),
    "scatter_add_ 32x32": called(
        lambda t, x, v, i: x.scatter_add_(0, i, v), *((32, 32),) * 3, numbers=32
    ),
    "index_add_ 32x32": called(
        lambda t, x, v, i: x.index_add_(0, i, v), *((32, 32),) * 2, (32,), numbers=32
    ),
    "index_fill_ 32x32": called(lambda t, x, i: x.index_fill_(0, i, 1.0), (32, 32), (8,), numbers=32),
    "unique_consecutive 64K": called(lambda t, i: i.unique_consecutive(), (1 << 16,), numbers=3),
    "masked_fill_ 1M": called(lambda t, x: x.masked_fill_(x > 0, -1.0), (1 << 20,)),
    "bincount 1M": called(lambda t, i: t.bincount(i), (1 << 20,), numbers=100),
    "searchsorted 64K in 1000": called(
        lambda t, s, x: t.searchsorted(s.sort()[0], x), (1000,), (1 << 16,)
    ),
    "embedding_bag 1000 of 4x64": called(
        lambda t, w, i: t.nn.functional.embedding_bag(i, w), (10000, 64), (1000, 4), numbers=10000
    ),
    "embedding_bag sum 8 of 10x16": called(
        lambda t, w, i: t.nn.functional.embedding_bag(i, w, mode="sum"), (1000, 16), (8, 10), numbers=1000
    ),
    "embedding_bag max 1000 of 10x64": called(
        lambda t, w, i: t.nn.functional.embedding_bag(i, w, mode="max"), (1000, 64), (1000, 10), numbers=1000
    ),
    "one_hot 4096 of 100": called(
        lambda t, i: t.nn.functional.one_hot(i, 100), (4096,), numbers=100
    ),
    "clone 1M": called(lambda t, x: x.clone(), (1 << 20,)),
    "copy_ 64K": called(lambda t, x, y: x.copy_(y), *((1 << 16,),) * 2),
    "copy_ of a transpose 1024x1024": called(lambda t, x, y: x.copy_(y.t()), *((1024, 1024),) * 2),
    "copy_ of a row 1024x1024": called(lambda t, x, y: x.copy_(y), (1024, 1024), (1024,)),
    "cat 2 of 32x32": called(lambda t, x, y: t.cat((x, y)), *((32, 32),) * 2),
    "cat 32 of 256": called(lambda t, *xs: t.cat(xs), *((256,),) * 32),
    "stack 32 of 256": called(lambda t, *xs: t.stack(xs), *((256,),) * 32),
    "stack 2 of 256x256": called(lambda t, x, y: t.stack((x, y)), *((256, 256),) * 2),
    "t().contiguous() 1024x1024": called(lambda t, x: x.t().contiguous(), (1024, 1024)),
    "permute copy 16x4x256x64": called(
        lambda t, x: x.permute(0, 2, 1, 3).contiguous(), (16, 4, 256, 64)
    ),
    "cat 2 of 1024x1024 at 1": called(lambda t, x, y: t.cat((x, y), 1), *((1024, 1024),) * 2),
    "flip 1024x1024": called(lambda t, x: x.flip(1), (1024, 1024)),
    "pad 8x64x32x32": called(lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)), (8, 64, 32, 32)),
    "triu 1024x1024": called(lambda t, x: x.triu(), (1024, 1024)),
    "cumprod 1024x1024": called(lambda t, x: x.cumprod(1), (1024, 1024)),
    "cummax 1024x1024": called(lambda t, x: x.cummax(1)[0], (1024, 1024)),
    "randn 100": lambda torch: lambda: torch.randn(100),
    "softmax 1024x1024": softmax("softmax"),
    "log_softmax 1024x1024": softmax("log_softmax"),
    "softmax + backward": backward(softmax_backward),
    "glu 1024x1024 + backward": backward(activated("glu", (1024, 1024))),
    "sigmoid 1M + backward": backward(activated("sigmoid", (1 << 20,))),
    "tanh 1M bfloat16 + backward": backward(activated("tanh", (1 << 20,), "bfloat16")),
    "relu 1K bfloat16 + backward": backward(activated("relu", (1024,), "bfloat16")),
    "relu in place 1K + backward": backward(overwritten("relu", (1024,))),
    "silu in place 1M + backward": backward(overwritten("silu", (1 << 20,))),
    **{f"{f} 64K": unary(f, 1 << 16, True) for f in ("lgamma", "digamma")},
    "erfinv 1K": called(lambda t, x: x.erfinv(), (1024,)),
    "erfinv 1M": called(lambda t, x: x.erfinv(), (1 << 20,)),
    "softmax columns of 1024x1024 + backward": backward(activated("softmax", (1024, 1024), dim=0)),
    "softmax 4x4": sorted_rows("softmax", (4, 4), -1),
    "layer_norm 4096x256": forward_of(layer_norm),
    "layer_norm + backward": backward(layer_norm),
    "batch_norm 32x64x28x28": forward_of(batch_norm),
    "batch_norm + backward": backward(batch_norm),
    "group_norm 32x64x28x28": forward_of(group_norm),
    "group_norm + backward": backward(group_norm),
    "cross_entropy 4096x1000": forward_of(cross_entropy),
    "cross_entropy + backward": backward(cross_entropy),
    "layer_norm 64x128 + backward": backward(normalized("LayerNorm", (64, 128), normalized_shape=128)),
    "rms_norm 512x768 + backward": backward(normalized("RMSNorm", (512, 768), normalized_shape=768)),
    "batch_norm 512x1024 + backward": backward(normalized("BatchNorm1d", (512, 1024), num_features=1024)),
    "batch_norm 8x16x8x8 + backward": backward(normalized("BatchNorm2d", (8, 16, 8, 8), num_features=16)),
    "batch_norm 32x64x28x28 channels last + backward": backward(
        normalized("BatchNorm2d", (32, 64, 28, 28), last=True, num_features=64)
    ),
    "group_norm 8x64x32x32 channels last": forward_of(
        normalized("GroupNorm", (8, 64, 32, 32), last=True, num_groups=8, num_channels=64)
    ),
    "group_norm 8x64x32x32 channels last + backward": backward(
        normalized("GroupNorm", (8, 64, 32, 32), last=True, num_groups=8, num_channels=64)
    ),
    "layer_norm 4x4": forward_of(normalized("LayerNorm", (4, 4), normalized_shape=4)),
    "batch_norm 2x4x4x2": forward_of(normalized("BatchNorm2d", (2, 4, 4, 2), num_features=4)),
    "instance_norm 8x32x16x16 + backward": backward(
        normalized("InstanceNorm2d", (8, 32, 16, 16), num_features=32, affine=True)
    ),
    "softmax 65536x2": sorted_rows("softmax", (65536, 2), -1),
    "log_softmax 4096x100": sorted_rows("log_softmax", (4096, 100), -1),
    "ctc_loss 100x16x30 + backward": backward(ctc(100, 16, 30, 20)),
    "cdist p = 1 of 256x64": called(lambda t, x, y: t.cdist(x, y, 1.0), *((256, 64),) * 2),
    "cdist of 1000x16": called(lambda t, x, y: t.cdist(x, y), *((1000, 16),) * 2),
    "pdist of 256x64 + backward": backward(activated("pdist", (256, 64))),
    "cross_entropy 64x10 + backward": backward(classified((64, 10))),
    "cross_entropy 512x1000, smoothed + backward": backward(classified((512, 1000), label_smoothing=0.1)),
    "cross_entropy 8x21x64x64 + backward": backward(classified((8, 21, 64, 64))),
    "max_pool2d 32x64x28x28": forward_of(max_pool),
    "max_pool2d + backward": backward(max_pool),
    "avg_pool2d 32x64x28x28": forward_of(avg_pool),
    "avg_pool2d + backward": backward(avg_pool),
    "max_pool2d 3, 2, 1 of 4x64x112x112": forward_of(pooled("max_pool2d", (4, 64, 112, 112), 3, 2, 1)),
    "max_pool2d 3, 2, 1 + backward": backward(pooled("max_pool2d", (4, 64, 112, 112), 3, 2, 1)),
    "avg_pool2d 7 of 7": forward_of(pooled("avg_pool2d", (8, 512, 7, 7), 7)),
    "interpolate nearest x2 4x64x32x32 + backward": backward(
        resized((4, 64, 32, 32), scale_factor=2)
    ),
    "interpolate bilinear x2 4x64x32x32 + backward": backward(
        resized((4, 64, 32, 32), scale_factor=2, mode="bilinear")
    ),
    "grid_sample 4x64x28x28 + backward": backward(sampled((4, 64, 28, 28), (4, 28, 28, 2))),
    "interpolate bicubic 1x384x14x14 to 16": forward_of(
        resized((1, 384, 14, 14), size=16, mode="bicubic")
    ),
    "interpolate bilinear 4x3x256x256 to 224, antialias": forward_of(
        resized((4, 3, 256, 256), size=224, mode="bilinear", antialias=True)
    ),
    "adaptive_avg_pool2d 7 of 28": forward_of(pooled("adaptive_avg_pool2d", (8, 64, 28, 28), 7)),
    "embedding 4096 of 10000x256": forward_of(embedding),
    "embedding + backward": backward(embedding),
    "attention 64x256x64": forward_of(attention(False)),
    "attention causal": forward_of(attention(True)),
    "attention causal + backward": backward(attention(True)),
    "attention causal 6x256x64": forward_of(attention(True, (1, 6, 256, 64))),
    "attention causal 6x256x64 + backward": backward(attention(True, (1, 6, 256, 64))),
    "attention 48x1024x64": forward_of(attention(False, (4, 12, 1024, 64))),
    "attention 48x1024x64 + backward": backward(attention(False, (4, 12, 1024, 64))),
    "attention 8 heads, 1 query, 256 keys": forward_of(decoding(1, 256)),
    "attention 32 heads of 8, 1 query, 512 keys": forward_of(decoding(1, 512, (32, 8))),
    "encoder layer 8x64x256 + backward": backward(encoder_layer),
    "lstm 32x64x128 -> 256": forward_of(recurrent("LSTM")),
    "lstm + backward": backward(recurrent("LSTM")),
    "lstm 8x100x64 -> 64": forward_of(recurrent("LSTM", 8, 100, 64, 64)),
    "lstm 8x100x64 -> 64 + backward": backward(recurrent("LSTM", 8, 100, 64, 64)),
    "gru 32x64x128 -> 256": forward_of(recurrent("GRU")),
    "gru + backward": backward(recurrent("GRU")),
    "rnn 32x64x128 -> 256": forward_of(recurrent("RNN")),
    "rnn + backward": backward(recurrent("RNN")),
    "lstm 1x100x128 -> 128": forward_of(recurrent("LSTM", 1, 100, 128, 128)),
    "lstm 1x1x256 -> 256": forward_of(recurrent("LSTM", 1, 1, 256, 256)),
    "lstm 4x50x512 -> 512": forward_of(recurrent("LSTM", 4, 50, 512, 512)),
    "lstm 4x50x512 -> 512 + backward": backward(recurrent("LSTM", 4, 50, 512, 512)),
    "lstm 20x35x200 -> 200, 2 layers": forward_of(recurrent("LSTM", 20, 35, 200, 200, num_layers=2)),
    "lstm 20x35x200, 2 layers + backward": backward(recurrent("LSTM", 20, 35, 200, 200, num_layers=2)),
    "lstm float64 16x40x100 -> 100": forward_of(recurrent("LSTM", 16, 40, 100, 100, "float64")),
    "gru 2 ways 16x40x64 -> 128 + backward": backward(
        recurrent("GRU", 16, 40, 64, 128, bidirectional=True)
    ),
    "lstm packed 32 x 40 .. 9": forward_of(packed("LSTM")),
    "lstm packed 32 x 40 .. 9 + backward": backward(packed("LSTM")),
    "lstm cell 1x64 -> 64": forward_of(cell("LSTMCell", 1, 64, 64)),
    "lstm cell 32x128 -> 256 + backward": backward(cell("LSTMCell", 32, 128, 256)),
    "gru cell 32x128 -> 256": forward_of(cell("GRUCell", 32, 128, 256)),
    "Adam 1.3M": optimizer("Adam", lr=1e-3),
    "AdamW 1.3M": optimizer("AdamW", lr=1e-3),
    "clip_grad_norm_ of 100": clipped("clip_grad_norm_", 1.0),
    "clip_grad_value_ of 100": clipped("clip_grad_value_", 1.0),
    "SGD momentum 1.3M": optimizer("SGD", lr=1e-3, momentum=0.9),
    **{f"mm {n}": gemm(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)},
    "linear 64x784 -> 128": gemm(64, 128, 784, True),
    "linear 512x384 -> 1536": gemm(512, 1536, 384, True),
    "linear 512x1536 -> 384": gemm(512, 384, 1536, True),
    "linear 1x1024 -> 1024": gemm(1, 1024, 1024, True),
    "linear 1x784 -> 128": gemm(1, 128, 784, True),
    "linear 8x128 -> 10": gemm(8, 10, 128, True),
    "mm 100": gemm(100, 100, 100),
    "mm 16": gemm(16, 16, 16),
    "bmm 16 of 8x8x8": bmm(16, 8, 8, 8),
    "bmm 64 of 128x128x64": bmm(64, 128, 128, 64),
    "bmm 512 of 32x32x32": bmm(512, 32, 32, 32),
    "bmm 64 of 1x64x256, transposed": product_of("bmm", (64, 1, 64), (64, 64, 256), transposed=True),
    "mm bfloat16 512": product_of("mm", (512, 512), (512, 512), dtype="bfloat16"),
    "mm bfloat16 8x512x512": product_of("mm", (8, 512), (512, 512), dtype="bfloat16"),
    "mm float16 128": product_of("mm", (128, 128), (128, 128), dtype="float16"),
    "mm int64 128": product_of("mm", (128, 128), (128, 128), dtype="int64"),
    "mm float64 100": product_of("mm", (100, 100), (100, 100), dtype="float64"),
    "mv 1024": product_of("mv", (1024, 1024), (1024,)),
    "mv 64": product_of("mv", (64, 64), (64,)),
    "dot 4096": product_of("dot", (4096,), (4096,)),
    "outer 512": product_of("outer", (512,), (512,)),
    "addr 512": product_of("addr", (512, 512), (512,), (512,)),
    "baddbmm 8 of 64, scaled": product_of("baddbmm", *[(8, 64, 64)] * 3, beta=0.5, alpha=2.0),
    "_addmm_activation gelu 512": product_of("_addmm_activation", (512,), (512, 512), (512, 512), use_gelu=True),
    "conv 3x3 64 -> 64 at 32": conv(8, 64, 64, 32, padding=1),
    "conv 3x3 128 -> 128 at 16": conv(8, 128, 128, 16, padding=1),
    "conv 3x3 256 -> 256 at 8": conv(8, 256, 256, 8, padding=1),
    "conv 3x3 512 -> 512 at 4": conv(8, 512, 512, 4, padding=1),
    "conv 3x3 3 -> 64 at 32": conv(8, 3, 64, 32, padding=1),
    "conv 3x3 1 -> 32 at 28": conv(64, 1, 32, 28),
    "conv 3x3 64 -> 128 at 32, stride 2": conv(8, 64, 128, 32, padding=1, stride=2),
    "conv 1x1 256 -> 64 at 16": conv(8, 256, 64, 16, kernel=1),
    "conv 7x7 3 -> 64 at 64, stride 2": conv(4, 3, 64, 64, kernel=7, padding=3, stride=2),
    "conv depthwise 3x3 128 at 28": conv(8, 128, 128, 28, padding=1, groups=128),
    "conv depthwise 7x7 96 at 14": conv(8, 96, 96, 14, kernel=7, padding=3, groups=96),
    "conv 3x3 128 -> 128 at 16, 32 groups": conv(8, 128, 128, 16, padding=1, groups=32),
    "conv 3x3 64 -> 64 at 32, dilation 2": conv(8, 64, 64, 32, padding=2, dilation=2),
    "conv 4x4 64 -> 128 at 16, stride 2": conv(16, 64, 128, 16, kernel=4, padding=1, stride=2),
    "conv 3x3 64 -> 3 at 32": conv(8, 64, 3, 32, padding=1),
    "conv 3x3 64 -> 64 at 32 + backward": conv(8, 64, 64, 32, grad=True, padding=1),
    "conv 3x3 128 -> 128 at 16 + backward": conv(8, 128, 128, 16, grad=True, padding=1),
    "conv 3x3 64 -> 128 at 32, stride 2 + backward": conv(
        8, 64, 128, 32, grad=True, padding=1, stride=2
    ),
    "conv 4x4 3 -> 64 at 64, stride 2 + backward": conv(
        16, 3, 64, 64, kernel=4, grad=True, padding=1, stride=2
    ),
    "conv 3x3 512 -> 512 at 4 + backward": conv(8, 512, 512, 4, grad=True, padding=1),
    "conv 3x3 1 -> 32 at 28 + backward": conv(64, 1, 32, 28, grad=True),
    "conv depthwise 3x3 128 at 28 + backward": conv(8, 128, 128, 28, grad=True, padding=1, groups=128),
    "conv 5x5 64 -> 192 at 27": conv(4, 64, 192, 27, kernel=5, padding=2),
    "conv 5x5 10 -> 20 at 12 + backward": conv(64, 10, 20, 12, kernel=5, grad=True),
    "conv 3x3 128 -> 128 at 28, 4 groups": conv(4, 128, 128, 28, padding=1, groups=4),
    "conv 3x3 256 -> 512 at 14, stride 2": conv(8, 256, 512, 14, padding=1, stride=2),
    "conv 16x16 3 -> 768 at 224, stride 16": conv(1, 3, 768, 224, kernel=16, stride=16),
    "conv transpose 4x4 128 -> 64 at 16, stride 2 + backward": convolved(
        "conv_transpose2d", (16, 128, 16, 16), (128, 64, 4, 4), True, stride=2, padding=1
    ),
    "conv transpose 2x2 128 -> 64 at 32, stride 2": convolved(
        "conv_transpose2d", (4, 128, 32, 32), (128, 64, 2, 2), stride=2
    ),
    "conv 3x3 64 -> 64 at 32, channels last + backward": convolved(
        "conv2d", (8, 64, 32, 32), (64, 64, 3, 3), True, True, padding=1
    ),
    "conv 1x1 64 -> 256 at 16, channels last": convolved(
        "conv2d", (8, 64, 16, 16), (256, 64, 1, 1), last=True
    ),
    "conv depthwise 7x7 96 at 14, channels last": convolved(
        "conv2d", (8, 96, 14, 14), (96, 1, 7, 7), last=True, padding=3, groups=96
    ),
    "conv depthwise 3x3 96 at 112, stride 2, channels last": convolved(
        "conv2d", (4, 96, 112, 112), (96, 1, 3, 3), last=True, stride=2, padding=1, groups=96
    ),
    "conv depthwise 3x3 144 at 56, channels last + backward": convolved(
        "conv2d", (4, 144, 56, 56), (144, 1, 3, 3), True, True, padding=1, groups=144
    ),
    "conv 1x1 64 -> 256 at 56, bfloat16 + backward": convolved(
        "conv2d", (4, 64, 56, 56), (256, 64, 1, 1), True, dtype="bfloat16"
    ),
    "conv 3x3 64 -> 64 at 32, bfloat16": convolved(
        "conv2d", (8, 64, 32, 32), (64, 64, 3, 3), dtype="bfloat16", padding=1
    ),
    "conv1d 3 64 -> 64 at 256 + backward": convolved(
        "conv1d", (16, 64, 256), (64, 64, 3), True, padding=1
    ),
    "conv3d 3x3x3 64 -> 64 at 8x28x28": convolved(
        "conv3d", (1, 64, 8, 28, 28), (64, 64, 3, 3, 3), padding=1
    ),
}  # fmt: skip


def limits(threads: int) -> tuple[float, float]:
    """GFLOP/s of fused multiply-adds on `threads` threads, and GB/s of a copy out of the caches."""
    import numpy as np

    from rushlight._codegen.kernels.peak import fused_multiply_adds

    rate = max(fused_multiply_adds(threads) for _ in range(5))
    a, b = np.ones(64 * MIB, np.uint8), np.ones(64 * MIB, np.uint8)
    taken = min(alternation.seconds(lambda: np.copyto(b, a), 1) for _ in range(9))
    return rate, 2 * a.nbytes / taken / 1e9


def steady(arguments: argparse.Namespace) -> dict[str, float]:
    """The ratios against PyTorch with a `malloc` that keeps its memory: a process of its own."""
    kept = {f"MALLOC_{n}_": str(1 << 34) for n in ("TRIM_THRESHOLD", "MMAP_THRESHOLD")}
    command = [sys.executable, __file__, "--ratios", "--only", arguments.only]
    command += ["--threads", str(arguments.threads), "--rounds", str(arguments.rounds)]
    done = subprocess.run(
        command, env=os.environ | kept, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def summary(ratios: dict[str, float]) -> str:
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worse = sum(r > 1 for r in ratios.values())
    return f"geometric mean {mean:.3f} of PyTorch's time; {worse} of {len(ratios)} cases slower"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--above", type=float, help="print only cases above this ratio")
    parser.add_argument("--steady", action="store_true", help="a second column: malloc that keeps")
    parser.add_argument("--ratios", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    second = steady(arguments) if arguments.steady else {}
    alternation.limit_threads(arguments.threads)
    os.environ.setdefault("RUSHLIGHT_COMPILED", "1")
    import torch

    import rushlight

    torch.set_num_threads(arguments.threads)
    rushlight.set_num_threads(arguments.threads)
    if not arguments.ratios:
        peak, copy = limits(arguments.threads)
        print(alternation.machine())
        print(f"PyTorch  {torch.__version__}")
        print(f"limits   peak {peak:.0f} GFLOP/s, copy {copy:.1f} GB/s\n")
        print(alternation.HEADER.replace("target", "of the limit"), end="")
        print("   malloc that keeps" if second else "")
    ratios: dict[str, float] = {}
    for name, case in CASES.items():
        make, counts = case if isinstance(case, tuple) else (case, {})
        if arguments.only not in name:
            continue
        measured = alternation.alternate(
            make(rushlight), make(torch), rounds=arguments.rounds, stretch=0.02
        )
        ratios[name] = measured.ratio
        worst = max(measured.ratio, second.get(name, 0))
        if arguments.ratios or (arguments.above is not None and worst < arguments.above):
            continue
        share = ""
        if "flops" in counts:
            share = f"{counts['flops'] / measured.ours / 1e9 / peak:>8.0%} of peak"
        elif "bytes" in counts:
            share = f"{counts['bytes'] / measured.ours / 1e9 / copy:>8.0%} of copy"
        if second:
            share = f"{share:<18}{second[name]:>8.3f}"
        print(alternation.row(name, measured) + share, flush=True)
    if arguments.ratios:
        print(json.dumps(ratios))
    elif ratios:
        print(f"\n{summary(ratios)}")
        if second:
            print(f"with a malloc that keeps its memory: {summary(second)}")


if __name__ == "__main__":
    main()
