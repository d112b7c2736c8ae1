"""Gradient rules with kernels, and intermediates: kernels run where they may, and agree with their rules."""

from __future__ import annotations

import contextlib
import itertools

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.dispatch import record
from rushlight.dispatch.registry import OPS, Array, Op
from rushlight.ops.nn.loss import cross_entropy_loss

CLASSES = torch.tensor([0, 2, 1])
CALLS = {
    "relu": (F.relu, (3, 4)),
    "gelu": (F.gelu, (3, 4)),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), (3, 4)),
    "elu": (lambda x: F.elu(x, 0.7), (3, 4)),
    "glu": (F.glu, (3, 4)),
    "tanh": (torch.tanh, (3, 4)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (3, 4)),
    "prelu": (F.prelu, (3, 4), (4,)),
    "mse": (F.mse_loss, (3, 4), (3, 4)),
    "smooth_l1": (F.smooth_l1_loss, (3, 4), (3, 4)),
    "bce": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (3, 4), (3, 4)),
    "bce of logits": (F.binary_cross_entropy_with_logits, (3, 4), (3, 4)),
    "cross entropy": (lambda x: cross_entropy_loss(x, CLASSES, None, "mean", -100, 0.1), (3, 4)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (3, 4), (4,), (4,)),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (3, 4, 5), (4,), (4,)),
    "rms norm": (lambda x, w: F.rms_norm(x, (4,), w), (3, 4), (4,)),
    "batch norm": (lambda x, w: F.batch_norm(x, None, None, w, None, True), (3, 4), (4,)),
    "attention": (F.scaled_dot_product_attention, (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)),
    "attention, mask": (
        F.scaled_dot_product_attention, (2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5),
    ),
    "gru": (lambda x, w, u, h: torch.gru_cell(x, h, w, u), (3, 4), (6, 4), (6, 2), (3, 2)),
    "lstm": (lambda x, w, u, h: torch.lstm_cell(x, (h, h), w, u)[1], (3, 4), (8, 4), (8, 2), (3, 2)),
    "cdist": (lambda x, y: torch.cdist(x, y, 3.0), (3, 4), (5, 4)),
    "pdist": (torch.pdist, (4, 3)),
    "irfft": (lambda x: torch.fft.irfft(x, 5), (3, 4)),
    "hfft, dim": (lambda x: torch.fft.hfft(x, 6, 0), (3, 4)),
}  # fmt: skip


def drawn(shapes, **options):
    torch.manual_seed(2)
    return [torch.randn(s, dtype=torch.float64, **options).requires_grad_() for s in shapes]


@pytest.fixture
def kernels():
    """The operators whose kernels of gradients run while a mode is on."""
    found = []

    def note(op, values, call):
        found.append(op.path)
        return call()

    record.around_kernels.append(note)
    yield found
    record.around_kernels.remove(note)


@pytest.mark.parametrize("name", CALLS)
def test_kernels_agree_with_rules(name, kernels):
    call, *shapes = CALLS[name]
    inputs = drawn(shapes)
    result = call(*inputs)
    g = torch.randn_like(result)
    with torch.profiler.profile():
        by_kernel = torch.autograd.grad(result, inputs, g, retain_graph=True)
    assert kernels
    kernels.clear()
    with torch.profiler.profile():
        by_rule = torch.autograd.grad(result, inputs, g, create_graph=True)
    assert not kernels
    for ours, theirs in zip(by_kernel, by_rule, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", CALLS)
def test_kernels_take_what_hooks_saved(name):
    call, *shapes = CALLS[name]
    inputs = drawn(shapes)
    g = torch.ones_like(call(*inputs))
    want = torch.autograd.grad(call(*inputs), inputs, g)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        result = call(*inputs)
    for a, b in zip(torch.autograd.grad(result, inputs, g), want, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", sorted({*CALLS} - {"cross entropy"}))  # its classes are on the CPU
def test_rules_run_on_the_meta_device(name):
    call, *shapes = CALLS[name]
    inputs = drawn(shapes, device="meta")
    found = torch.autograd.grad(call(*inputs).sum(), inputs)
    assert [(g.shape, g.dtype, g.is_meta) for g in found] == [
        (t.shape, t.dtype, True) for t in inputs
    ]


def test_intermediates_go_through_hooks_and_are_freed():
    q, k, v = drawn([(1, 2, 3, 4)] * 3)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t):
        result = F.scaled_dot_product_attention(q, k, v)
    assert len(packed) == 5  # query, key, value, result and the weights
    result = F.scaled_dot_product_attention(q, k, v)
    assert result.grad_fn._saved_weights.shape[:3] == (1, 2, 3)
    result.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        result.grad_fn._saved_weights  # noqa: B018


SEVERAL = {
    "max": lambda x: x.max(0),
    "min": lambda x: x.min(-1, keepdim=True),
    "sort": lambda x: x.sort(1, descending=True),
    "topk": lambda x: x.topk(2, 0),
    "kthvalue": lambda x: x.kthvalue(2),
    "median": lambda x: x.median(0),
    "nanmedian": lambda x: x.nanmedian(0),
    "mode": lambda x: x.mode(),
    "cummax": lambda x: x.cummax(0),
    "aminmax": lambda x: x.aminmax(dim=0),
    "frexp": torch.frexp,
    "var_mean": lambda x: torch.var_mean(x, 0),
    "std_mean": torch.std_mean,
    "slogdet": lambda x: torch.linalg.slogdet(x[:, :3]),
    "inv_ex": lambda x: torch.linalg.inv_ex(x[:, :3]),
    "solve_ex": lambda x: torch.linalg.solve_ex(x[:, :3], x[:, 3]),
    "qr": torch.linalg.qr,
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False),
    "eigh": lambda x: torch.linalg.eigh(x[:, :3] + x[:, :3].mT),
    "layer norm": lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5),
    "group norm": lambda x: torch.native_group_norm(x, None, None, 3, 4, 1, 2, 1e-5),
    "embedding bag": lambda x: F.embedding_bag(CLASSES, x, torch.tensor([0, 2])),
    "pool": lambda x: F.max_pool1d(x, 2, return_indices=True),
    "lstm": lambda x: torch.nn.LSTM(4, 4, dtype=x.dtype)(x),
}


def test_nodes_of_several_outputs_are_printed():
    x = torch.ones(2, 2, requires_grad=True)
    for path in ("max", "sort", "var_mean"):
        made = getattr(torch, path)(x, 0)[0].grad_fn
        assert not isinstance(made, record.GeneralNode), path


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SEVERAL)
def test_printed_nodes_of_several_outputs_give_what_general_ones_give(name, dtype):
    def gradients(general, given, create_graph):
        torch.manual_seed(2)
        x = torch.randn(3, 4, dtype=dtype, requires_grad=True)
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        with hooks if general else contextlib.nullcontext():
            made = tuple(flat(SEVERAL[name](x)))
        outputs = [t for t in made if t.requires_grad]
        gs = [torch.randn_like(t).requires_grad_() for t in outputs]
        chosen = [k for k in range(len(outputs)) if given >> k & 1]
        if not chosen:
            return None
        outputs, gs = [outputs[k] for k in chosen], [gs[k] for k in chosen]
        (g,) = torch.autograd.grad(outputs, x, gs, create_graph=create_graph)
        if not create_graph or not g.requires_grad:
            return [t.requires_grad for t in made], g
        return g, torch.autograd.grad(g.square().sum(), [x, *gs], allow_unused=True)

    def flat(x):
        return [x] if isinstance(x, torch.Tensor) else [y for part in x for y in flat(part)]

    for given, create_graph in itertools.product(range(1, 8), (False, True)):
        want = gradients(True, given, create_graph)
        got = gradients(False, given, create_graph)
        assert str(got) == str(want)
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_what_nodes_of_several_outputs_saved():
    x = torch.tensor([[1.0, 3.0], [4.0, 2.0]], requires_grad=True)
    values, indices = x.max(0)
    assert values.grad_fn._saved_indices.tolist() == [1, 0]
    indices.zero_()
    for create_graph in (False, True):
        with pytest.raises(
            RuntimeError, match="saved as 'indices' by MaxBackward0, is at version 1"
        ):
            torch.autograd.grad(values.sum(), x, retain_graph=True, create_graph=create_graph)
    q, r = torch.linalg.qr(x)
    assert q.grad_fn._saved_Q.grad_fn is not None
    low, high = (x * 1.0).aminmax(dim=0)
    high.mul_(2.0)
    with pytest.raises(RuntimeError, match="saved as 'max'"):
        (low + high).sum().backward()
    values = x.sort(0).values
    values.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        values.sum().backward()


def test_forward_is_told_whether_intermediates_will_be_read():
    kept = []

    def doubled_square(xp, input: Array, keep: bool):
        kept.append(keep)
        return input * input, input + input if keep else None

    op = Op(doubled_square, where="internal", intermediates=("twice",))
    try:
        op.grad(input=lambda g, twice: g * twice)
        x = torch.tensor([3.0], requires_grad=True)
        op(x).backward()
        assert x.grad.tolist() == [6.0]
        with torch.no_grad():
            assert op(x).tolist() == [9.0]
        op(x.detach())
        with torch.inference_mode():
            assert op(x).tolist() == [9.0]
        assert kept == [True, False, False, False]
        with torch.profiler.profile():
            y = op(x)
        assert kept.pop()
        assert torch.autograd.grad(y, x)[0].tolist() == [6.0]
    finally:
        del OPS[op.path]


def test_declarations_that_are_wrong():
    def negated(xp, input: Array):
        return -input

    op = Op(negated, where="internal")
    try:
        with pytest.raises(TypeError, match="may only name"):
            op.grad(input=lambda g: g, kernel=lambda xp, g, output: g)
        with pytest.raises(TypeError, match="one rule"):
            op.grad(kernel="negative")
    finally:
        del OPS[op.path]
    with pytest.raises(TypeError, match="keep"):
        Op(negated, where="internal", intermediates=("other",))
