"""Attention, embeddings, recurrent networks and CTC against direct formulas and differences."""

import itertools
import math
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

RNG = np.random.default_rng(6)


def tensor(*shape, grad=True):
    return torch.tensor(RNG.normal(size=shape), requires_grad=grad)


def attention(q, k, v, mask=0.0, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(lead, causal):
    q, k, v = tensor(*lead, 4, 5), tensor(*lead, 6, 5), tensor(*lead, 6, 3)
    mask = tensor(4, 6)
    for m in (None, mask) if len(lead) == 2 or not causal else (None,):
        y = F.scaled_dot_product_attention(q, k, v, m, is_causal=causal)
        arrays = (t.detach().numpy() for t in (q, k, v))
        want = attention(*arrays, 0.0 if m is None else m.detach().numpy(), causal)
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-9, atol=1e-12)


def test_attention_in_blocks():
    q, k = torch.randn(2, 3, 700, 8), torch.randn(2, 3, 500, 8)
    y = F.scaled_dot_product_attention(q, k, k, is_causal=True)
    kept = F.scaled_dot_product_attention(q.requires_grad_(), k, k, is_causal=True)
    np.testing.assert_allclose(y.numpy(), kept.detach().numpy(), rtol=1e-4, atol=1e-5)
    want = attention(q.detach().double().numpy(), *[k.double().numpy()] * 2, causal=True)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-4, atol=1e-5)


def test_derivatives_of_attention():
    q, k, v, mask = tensor(1, 2, 3, 2), tensor(1, 2, 4, 2), tensor(1, 2, 4, 3), tensor(3, 4)
    run = F.scaled_dot_product_attention
    assert gradcheck(run, (q, k, v, mask))
    assert gradgradcheck(run, (q, k, v, mask))
    assert gradcheck(lambda q, k, v: run(q, k, v, is_causal=True), (q, k, v))


def test_a_query_that_sees_nothing_is_zero():
    shown = torch.tensor([[True, False], [False, False]])
    q = tensor(2, 3)
    y = F.scaled_dot_product_attention(q, q, q, shown)
    np.testing.assert_allclose(y[0].detach().numpy(), q[0].detach().numpy())
    assert (y[1] == 0).all()
    y.sum().backward()
    assert torch.isfinite(q.grad).all()


def test_a_query_that_sees_nothing_has_no_gradient_beside_dropout():
    shown = torch.tensor([[True, True, True], [False, False, False]])
    q, k, v = tensor(2, 3), tensor(3, 3), tensor(3, 3)
    y = F.scaled_dot_product_attention(q, k, v, shown, dropout_p=0.5)
    assert (y[1] == 0).all()
    y.sum().backward()
    assert (q.grad[1] == 0).all()
    assert all(torch.isfinite(t.grad).all() for t in (q, k, v))
    run = F.scaled_dot_product_attention
    assert gradgradcheck(lambda q, k, v: run(q, k, v, shown), (q, k, v))


def test_heads_that_are_shared():
    q, k = tensor(2, 6, 3, 4), tensor(2, 2, 3, 4)
    y = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    k = k.repeat_interleave(3, 1)
    np.testing.assert_allclose(
        y.detach().numpy(), F.scaled_dot_product_attention(q, k, k).detach().numpy()
    )


def test_shared_heads_without_keys():
    q, k = tensor(2, 6, 3, 4), tensor(2, 2, 0, 4)
    F.scaled_dot_product_attention(q, k, k, enable_gqa=True).sum().backward()
    assert not q.grad.any() and k.grad.shape == k.shape


@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_of_attention_agree_with_and_without_weights(need_weights):
    torch.manual_seed(0)
    m = torch.nn.MultiheadAttention(8, 2, dtype=torch.float64)
    x = tensor(5, 3, 8)
    late = torch.ones(5, 5, dtype=torch.bool).triu(1)
    y, w = m(x, x, x, attn_mask=late, need_weights=need_weights)
    if need_weights:
        np.testing.assert_allclose(w.sum(-1).detach().numpy(), 1)
        assert (w.detach().masked_select(late) == 0).all()
    other, _ = m(x, x, x, attn_mask=late, need_weights=not need_weights)
    np.testing.assert_allclose(y.detach().numpy(), other.detach().numpy(), rtol=1e-9)


# -- embeddings ------------------------------------------------------------------------------------


def test_embedding_gradients_add_up_and_leave_padding_out():
    w, i = tensor(5, 3), torch.tensor([[0, 2, 2], [4, 2, 1]])
    np.testing.assert_array_equal(F.embedding(i, w).detach().numpy(), w.detach().numpy()[i.numpy()])
    F.embedding(i, w, padding_idx=1).sum().backward()
    np.testing.assert_array_equal(w.grad[:, 0].numpy(), [1, 0, 3, 0, 1])
    w.grad = None
    F.embedding(i, w, scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(w.grad[:, 0].numpy(), [1, 1, 1, 0, 1])
    assert gradcheck(lambda w: F.embedding(i, w), (w,))
    assert gradgradcheck(lambda w: F.embedding(i, w), (w,))
    with pytest.raises(IndexError, match="out of range"):
        F.embedding(torch.tensor([5]), w)


def test_rows_are_scaled_down_to_max_norm():
    w = torch.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    F.embedding(torch.tensor([0, 1]), w, max_norm=1.0)
    np.testing.assert_allclose(w.numpy(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    w, i = tensor(6, 3), torch.tensor([1, 2, 4, 5, 4, 3])
    offsets = torch.tensor([0, 2, 2, 5])
    y = F.embedding_bag(i, w, offsets, mode=mode)
    a = w.detach().numpy()
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    bags = [i.numpy()[s] for s in (slice(0, 2), slice(2, 2), slice(2, 5), slice(5, 6))]
    want = [reduce(a[b], 0) if len(b) else np.zeros(3) for b in bags]
    np.testing.assert_allclose(y.detach().numpy(), want)
    assert gradcheck(lambda w: F.embedding_bag(i, w, offsets, mode=mode), (w,))
    padded = F.embedding_bag(i, w, offsets, mode=mode, padding_idx=4)
    np.testing.assert_allclose(padded[2].detach().numpy(), a[5])


# -- recurrent networks ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_packed_batch_is_its_sequences_one_by_one(kind):
    torch.manual_seed(0)
    m = getattr(torch.nn, kind)(3, 4, 2, bidirectional=True, dtype=torch.float64)
    x, lengths = tensor(5, 3, 3, grad=False), [2, 5, 3]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, last = m(packed)
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(out)
    for k, n in enumerate(lengths):
        alone, end = m(x[:n, k])
        np.testing.assert_allclose(out[:n, k].detach().numpy(), alone.detach().numpy(), rtol=1e-9)
        for s, t in zip(*(v if kind == "LSTM" else (v,) for v in (last, end)), strict=True):
            np.testing.assert_allclose(s[:, k].detach().numpy(), t.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("name, gates", [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_recurrent_networks(name, gates, reverse):
    sizes = [(2 * gates, 2), (2 * gates, 2), (2 * gates,), (2 * gates,)] * (2 if reverse else 1)
    weights = [tensor(*s) for s in sizes]
    x, h, c = tensor(3, 2, 2), tensor(1 + reverse, 2, 2), tensor(1 + reverse, 2, 2)

    def run(x, h, c, *weights):
        state = (h, c) if name == "lstm" else h
        found = getattr(torch, name)(x, state, weights, True, 1, 0.0, False, reverse, False)
        return sum(part.sin().sum() for part in found)

    inputs = (x, h, c, *weights)
    assert gradcheck(lambda *a: run(*a) + 0 * a[2].sum(), inputs)
    assert gradgradcheck(lambda *a: run(*a) + 0 * a[2].sum(), inputs, atol=1e-4)


# -- CTC -------------------------------------------------------------------------------------------


def likelihood(probs, target, blank):
    """The sum over all alignments, one by one."""
    total = 0.0
    steps, classes = probs.shape
    for path in itertools.product(range(classes), repeat=steps):
        said = [c for c, _ in itertools.groupby(path) if c != blank]
        if said == list(target):
            total += math.prod(probs[t, c] for t, c in enumerate(path))
    return total


@pytest.mark.parametrize("target", [[1, 2], [1, 1], [2], []])
def test_ctc_is_the_sum_over_alignments(target):
    logits = tensor(4, 1, 3)
    x = logits.log_softmax(2)
    targets = torch.tensor([target + [1]], dtype=torch.int64)
    loss = F.ctc_loss(x, targets, (4,), (len(target),), reduction="none")
    want = -math.log(likelihood(x.detach().exp().numpy()[:, 0], target, 0))
    np.testing.assert_allclose(loss.item(), want, rtol=1e-10)

    def run(logits):
        return F.ctc_loss(logits.log_softmax(2), targets, (4,), (len(target),))

    assert gradcheck(run, (logits,))


def test_a_target_that_does_not_fit():
    x = torch.zeros(2, 1, 3, requires_grad=True)
    args = (x.log_softmax(2), torch.tensor([[1, 1]]), (2,), (2,))
    assert F.ctc_loss(*args).item() == math.inf
    loss = F.ctc_loss(*args, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and (x.grad == 0).all()


def test_a_mask_beside_is_causal_is_for_the_fused_kernel_only():
    attend, mask = torch.nn.functional.scaled_dot_product_attention, torch.ones(3, 3)
    q = torch.ones(1, 2, 3, 4)
    assert attend(q, q, q, mask, is_causal=True).shape == q.shape
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
        attend(q, q, q, mask, 0.5, True)
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
        attend(q[0], q[0], q[0], mask, is_causal=True)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
            attend(q, q, q, mask, is_causal=True)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)


def test_the_older_choice_of_kernels_warns_and_sets_switches_for_the_block():
    with pytest.warns(FutureWarning, match="sdp_kernel.* is deprecated"):
        block = torch.backends.cuda.sdp_kernel(enable_flash=False)
    with block:
        assert (
            not torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled()
        )
    assert torch.backends.cuda.flash_sdp_enabled()


def test_an_encoder_zeros_padding_at_the_end_only():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1).eval()
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        at_the_end = encoder(
            x, src_key_padding_mask=torch.tensor([[False, True, True], [False] * 3])
        )
        between = encoder(x, src_key_padding_mask=torch.tensor([[False, True, False], [False] * 3]))
    assert (at_the_end[0, 1:] == 0).all() and (between[0, 1] != 0).any()


@pytest.mark.parametrize("batch_first", [False, True])
def test_padded_sequences_are_contiguous_and_unpadded_ones_are_copies(batch_first):
    pieces = [torch.ones(n, 2) for n in (3, 1, 2)]
    padded = torch.nn.utils.rnn.pad_sequence(pieces, batch_first=batch_first)
    assert padded.is_contiguous()
    found = torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([3, 1, 2]), batch_first)
    assert [(t.shape, t.stride()) for t in found] == [(t.shape, t.stride()) for t in pieces]
    padded.zero_()
    assert all(torch.equal(a, b) for a, b in zip(found, pieces, strict=True))


def test_what_forwards_of_recurrent_layers_check():
    layer = torch.nn.LSTM(2, 3, proj_size=1)
    x, h, c = torch.ones(4, 5, 2), torch.ones(1, 5, 1), torch.ones(1, 5, 3)
    layer.check_forward_args(x, (h, c), None)
    assert layer.get_expected_hidden_size(x, None) == (1, 5, 1)
    with pytest.raises(
        RuntimeError, match=r"Expected hidden\[1\] size \(1, 5, 3\), got \[1, 5, 1\]"
    ):
        layer.check_forward_args(x, (h, h), None)
    with pytest.raises(RuntimeError, match="input must have 3 dimensions, got 2"):
        torch.nn.GRU(2, 3).check_input(x[0], None)
    order = torch.tensor([1, 0, 2, 3, 4])
    assert [t.shape for t in layer.permute_hidden((h, c), order)] == [h.shape, c.shape]
    assert layer.permute_hidden(h, None) is h


@pytest.mark.parametrize("total_length", [-1, 0, 2])
def test_a_packed_sequence_is_not_cut(total_length):
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    with pytest.raises(ValueError, match="total_length to be at least the length of the longest"):
        torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=total_length)
    assert torch.nn.utils.rnn.pad_packed_sequence(packed, total_length=4)[0].shape == (4, 2)


@pytest.mark.parametrize("sizes", [(2, 5), (4, 4), (3, 1)])
def test_causal_biases_are_their_masks(sizes):
    from rushlight.nn.attention_bias import CausalBias, causal_lower_right, causal_upper_left

    torch.manual_seed(0)
    q, k, v = (
        torch.randn(1, 2, sizes[0], 8),
        torch.randn(1, 2, sizes[1], 8),
        torch.randn(1, 2, sizes[1], 8),
    )
    ones = torch.ones(sizes, dtype=torch.bool)
    for bias, below in ((causal_upper_left, 0), (causal_lower_right, sizes[1] - sizes[0])):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            b = bias(*sizes)
        want = F.scaled_dot_product_attention(q, k, v, ones.tril(below))
        got = F.scaled_dot_product_attention(q, k, v, attn_mask=b)
        assert type(b) is CausalBias and type(got) is torch.Tensor
        assert torch.allclose(got, want, equal_nan=True)
        assert torch.equal(b._materialize(), ones.tril(below))
        with pytest.raises(ValueError, match="should not be used with causal=True"):
            F.scaled_dot_product_attention(q, k, v, b, is_causal=True)
