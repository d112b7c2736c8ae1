"""Normalisation, attention, embeddings, recurrent networks and CTC against PyTorch.

Compared: values, strides, node names, first and second derivatives, exception types.
"""

import itertools
import warnings

import numpy as np
import pytest
import torch as oracle

import rushlight as torch


def ours(t):
    if not isinstance(t, oracle.Tensor):
        return t
    a = torch.tensor(t.detach().contiguous().numpy())
    if t.dim() == 4 and not t.is_contiguous():
        a = a.contiguous(memory_format=torch.channels_last)
    return a.requires_grad_(t.requires_grad)


def close(mine, theirs, what=""):
    assert tuple(mine.shape) == tuple(theirs.shape), what
    np.testing.assert_allclose(
        mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-8, atol=1e-8, err_msg=what
    )


def random(*shape, grad=True):
    return oracle.randn(*shape, dtype=oracle.float64, requires_grad=grad)


def compare(name, *arguments, second=True, **options):
    what = f"{name} {options}"
    mine = [ours(a) for a in arguments]
    own_options = {k: ours(v) for k, v in options.items()}
    want = getattr(oracle.nn.functional, name)(*arguments, **options)
    got = getattr(torch.nn.functional, name)(*mine, **own_options)
    close(got, want, what)
    assert tuple(got.stride()) == tuple(want.stride()), what
    theirs = [a for a in arguments if isinstance(a, oracle.Tensor) and a.requires_grad]
    if not theirs:
        return got, want
    assert got.grad_fn.name() == want.grad_fn.name(), what
    inputs = [a for a in mine if isinstance(a, torch.Tensor) and a.requires_grad]
    g = oracle.randn_like(want, requires_grad=second)
    h = ours(g)
    first = oracle.autograd.grad(want, theirs, g, create_graph=second)
    own = torch.autograd.grad(got, inputs, h, create_graph=second)
    for a, b in zip(own, first, strict=True):
        close(a, b, what)
    if second:
        twice = oracle.autograd.grad(
            sum(b.sin().sum() for b in first), [*theirs, g], allow_unused=True
        )
        own = torch.autograd.grad(sum(a.sin().sum() for a in own), [*inputs, h], allow_unused=True)
        for a, b in zip(own, twice, strict=True):
            if b is not None and (a is not None or b.any()):
                close(a, b, what)
    return got, want


@pytest.fixture(autouse=True)
def seeded():
    oracle.manual_seed(0)


# A bias without a weight: PyTorch's own derivatives fail there, test_normalize.py has that case.
@pytest.mark.parametrize("weights", [(True, True), (True, False), (False, False)])
def test_normalisation(weights):
    def parameters(*shape):
        return [random(*shape) if wanted else None for wanted in weights]

    for shape, last in (((5, 7), (7,)), ((2, 3, 4), (3, 4))):
        compare("layer_norm", random(*shape), last, *parameters(*last))
    image = random(2, 6, 3, 5)
    last = random(2, 6, 3, 5, grad=False).contiguous(memory_format=oracle.channels_last)
    for x in (image, last.requires_grad_(), random(3, 6), random(2, 6, 4)):
        for groups in (1, 2, 6):
            compare("group_norm", x, groups, *parameters(6))
        for training in (True, False):
            mean, var = random(6, grad=False), random(6, grad=False).abs() + 0.1
            compare("batch_norm", x, mean, var, *parameters(6), training=training)
    compare("instance_norm", image, None, None, *parameters(6))
    compare("rms_norm", image, (3, 5), random(3, 5) if weights[0] else None)
    compare("local_response_norm", image, 3, 0.5)
    compare("normalize", image, 3.0, 2)


@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("momentum", [0.1, 0.5])
def test_running_statistics(norm, momentum):
    x, stats = random(4, 3, 5, grad=False), (oracle.zeros(3).double(), oracle.ones(3).double())
    own = [ours(s) for s in stats]
    flag = {"batch_norm": "training", "instance_norm": "use_input_stats"}[norm]
    options = {flag: True, "momentum": momentum}
    getattr(oracle.nn.functional, norm)(x, *stats, **options)
    getattr(torch.nn.functional, norm)(ours(x), *own, **options)
    for a, b in zip(own, stats, strict=True):
        close(a, b)


@pytest.mark.parametrize("lead", [(2, 3), (3,), ()])
def test_attention(lead):
    def compared(*args, **options):
        mine = [ours(a) for a in args]
        want = oracle.nn.functional.scaled_dot_product_attention(*args, **options)
        got = torch.nn.functional.scaled_dot_product_attention(*mine, **options)
        close(got, want)
        theirs = [a for a in args if a is not None and a.requires_grad]
        inputs = [a for a in mine if a is not None and a.requires_grad]
        g = oracle.randn_like(want)
        own = torch.autograd.grad(got, inputs, ours(g))
        for a, b in zip(own, oracle.autograd.grad(want, theirs, g), strict=True):
            close(a, b)

    for length in (1, 5):
        q, k, v = random(*lead, length, 4), random(*lead, 6, 4), random(*lead, 6, 4)
        compared(q, k, v)
        compared(q, k, v, is_causal=True)
        compared(q, k, v, scale=0.3)
        compared(q, k, v, random(length, 6))
        compared(q, k, v, (random(length, 6, grad=False) > 0).clone())


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "other", [{}, {"kdim": 3, "vdim": 5}, {"add_bias_kv": True, "bias": False}]
)
def test_attention_of_several_heads(batch_first, need_weights, other):
    theirs = oracle.nn.MultiheadAttention(8, 2, batch_first=batch_first, **other).double()
    mine = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first, **other).double()
    mine.load_state_dict({k: ours(v.detach()) for k, v in theirs.state_dict().items()})
    n, s = (2, 4) if batch_first else (4, 2)
    q = random(n, s, 8)
    k = random(n, s, other["kdim"]) if "kdim" in other else q
    v = random(n, s, other["vdim"]) if "vdim" in other else q
    pad = oracle.zeros(2, 4, dtype=oracle.bool)
    pad[0, -1] = True
    late = oracle.ones(4, 4, dtype=oracle.bool).triu(1)
    for masks in (
        {},
        {"key_padding_mask": pad},
        {"attn_mask": late},
        {"key_padding_mask": pad, "attn_mask": late},
    ):
        want, weights = theirs(q, k, v, need_weights=need_weights, **masks)
        own = {id(t): ours(t) for t in (q, k, v)}
        got, found = mine(
            *(own[id(t)] for t in (q, k, v)),
            need_weights=need_weights,
            **{n: ours(m) for n, m in masks.items()},
        )
        close(got, want)
        assert tuple(got.stride()) == want.stride()
        if need_weights:
            close(found, weights)
        (gradient,) = oracle.autograd.grad(want.sin().sum(), q)
        close(torch.autograd.grad(got.sin().sum(), own[id(q)])[0], gradient)


def test_embeddings():
    table, i = random(7, 3), oracle.tensor([[1, 2, 6], [2, 2, 0]])
    for options in ({}, {"padding_idx": 2}, {"padding_idx": -1}, {"scale_grad_by_freq": True}):
        got, want = (
            torch.nn.functional.embedding(ours(i), own := ours(table), **options),
            oracle.nn.functional.embedding(i, table, **options),
        )
        close(got, want)
        assert got.grad_fn.name() == want.grad_fn.name()
        (b,) = oracle.autograd.grad(want.sin().sum(), table)
        close(torch.autograd.grad(got.sin().sum(), own)[0], b)
    flat, offsets = i.reshape(-1), oracle.tensor([0, 2, 2, 5])
    for mode, last, pad in itertools.product(["sum", "mean", "max"], [False, True], [None, 2]):
        options = {"mode": mode, "include_last_offset": last, "padding_idx": pad}
        own = ours(table)
        got = torch.nn.functional.embedding_bag(ours(flat), own, ours(offsets), **options)
        want = oracle.nn.functional.embedding_bag(flat, table, offsets, **options)
        close(got, want)
        (b,) = oracle.autograd.grad(want.sin().sum(), table)
        close(torch.autograd.grad(got.sin().sum(), own)[0], b)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("layers, both", [(1, False), (2, True)])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"batch_first": True}, {"proj_size": 2}])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_networks(kind, layers, both, options, packed):
    if "proj_size" in options and kind != "LSTM":
        return
    options = {"num_layers": layers, "bidirectional": both, **options}
    theirs = getattr(oracle.nn, kind)(3, 4, **options).double()
    mine = getattr(torch.nn, kind)(3, 4, **options).double()
    mine.load_state_dict({k: ours(v.detach()) for k, v in theirs.state_dict().items()})
    x = random(3, 3, 3)
    own = ours(x)
    a, b = own, x
    if packed:
        first = options.get("batch_first", False)
        lengths = [2, 3, 1]
        a = torch.nn.utils.rnn.pack_padded_sequence(own, lengths, first, enforce_sorted=False)
        b = oracle.nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
    (got, last), (want, end) = mine(a), theirs(b)
    parts = [(got.data if packed else got, want.data if packed else want)]
    parts += zip(*((last, end) if kind == "LSTM" else ((last,), (end,))), strict=True)
    for p, q in parts:
        close(p, q)
    sum(p.sin().sum() for p, _ in parts).backward()
    sum(q.sin().sum() for _, q in parts).backward()
    close(own.grad, x.grad)
    for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc(reduction):
    logits = random(9, 4, 5)
    own = ours(logits)
    targets, steps, sizes = oracle.randint(1, 5, (4, 4)), (9, 7, 8, 4), (4, 2, 0, 3)
    targets[0] = 2  # repeated: needs blanks between
    for rows in (targets, oracle.cat([t[:n] for t, n in zip(targets, sizes, strict=True)])):
        options = {"reduction": reduction, "zero_infinity": True}
        want = oracle.nn.functional.ctc_loss(logits.log_softmax(2), rows, steps, sizes, **options)
        got = torch.nn.functional.ctc_loss(own.log_softmax(2), ours(rows), steps, sizes, **options)
        close(got, want)
        (b,) = oracle.autograd.grad(want.sum(), logits)
        close(torch.autograd.grad(got.sum(), own)[0], b)


def test_refusals():
    def refused(name, *arguments, **options):
        f = getattr(oracle.nn.functional, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                f(*arguments, **options)
            except Exception as e:
                kind = e
            else:
                raise AssertionError(f"{name} is no refusal of PyTorch's")
            with pytest.raises(type(kind)) as caught:
                getattr(torch.nn.functional, name)(
                    *[ours(a) for a in arguments], **{k: ours(v) for k, v in options.items()}
                )
        start = str(kind).split("(while")[0].split("\n")[0][:40]
        assert str(caught.value).startswith(start), (str(caught.value), str(kind))

    x, table, i = oracle.randn(2, 4, 3), oracle.randn(5, 3), oracle.tensor([0, 1, 1])
    refused("batch_norm", x, None, None)
    refused("batch_norm", x, oracle.ones(3), oracle.ones(3))
    refused("batch_norm", oracle.ones(1, 4), None, None, training=True)
    refused("batch_norm", x.long(), None, None, training=True)
    refused("layer_norm", x, (4,))
    refused("layer_norm", x.double(), (3,), oracle.ones(3))
    refused("group_norm", x, 3)
    refused("group_norm", x, 2, oracle.ones(3))
    refused("instance_norm", x, use_input_stats=False)
    refused("embedding", i.float(), table)
    refused("embedding", i, table, padding_idx=9)
    refused("embedding_bag", i, table)
    refused("embedding_bag", i, table, oracle.tensor([1]))
    refused("embedding_bag", i, table, oracle.tensor([0]), mode="median")
    refused("one_hot", oracle.tensor([3]), num_classes=2)
    refused("one_hot", oracle.tensor([1.0]))
    refused("scaled_dot_product_attention", x, x.double(), x)
    refused("scaled_dot_product_attention", x[0, 0], x[0, 0], x[0, 0])
    refused("ctc_loss", x, oracle.ones(4, 2).long(), (3,) * 4, (2,) * 4)
    refused("nll_loss", oracle.randn(2, 3), oracle.tensor([1.0, 2.0]))
    refused("cross_entropy", oracle.randn(2, 3), oracle.randn(2, 3), ignore_index=1)
    refused("linear_cross_entropy", oracle.randn(2, 3), oracle.randn(4, 5), oracle.tensor([1, 2]))
