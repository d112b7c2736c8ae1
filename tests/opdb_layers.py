"""Rows of normalization, attention, embeddings and recurrent networks."""

from __future__ import annotations

import math

import numpy as np

from opdb_rows import K, N, P, c, distinct, fixed, row, v

F = "nn.functional."


def shaped(x, like):
    """One number for each channel, as it stands beside `like`."""
    return x.reshape(-1, *[1] * (like.ndim - 2))


def scaled(x, weight, bias):
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def normal(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def batch_norm(
    x, mean=None, var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    axes = (0, *range(2, x.ndim))
    if training:
        out = normal(x, axes, eps)
    else:
        out = (x - shaped(mean, x)) / np.sqrt(shaped(var, x) + eps)
    return scaled(out, *(None if a is None else shaped(a, x) for a in (weight, bias)))


def native_batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    axes = (0, *range(2, x.ndim))
    out = batch_norm(x, mean, var, weight, bias, training, momentum, eps)
    return out, x.mean(axes), 1 / np.sqrt(x.var(axes) + eps)


def instance_norm(
    x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    out = normal(x, tuple(range(2, x.ndim)), eps)
    return scaled(out, *(None if a is None else shaped(a, x) for a in (weight, bias)))


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    out = normal(x.reshape(len(x), groups, -1), 2, eps).reshape(x.shape)
    return scaled(out, *(None if a is None else shaped(a, x) for a in (weight, bias)))


def native_group_norm(x, weight, bias, n, channels, size, groups, eps):
    parts = x.reshape(n, groups, -1)
    return group_norm(x, groups, weight, bias, eps), parts.mean(2), 1 / np.sqrt(parts.var(2) + eps)


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, *_):
    return scaled(normal(x, tuple(range(-len(shape), 0)), eps), weight, bias)


def native_layer_norm(x, shape, weight, bias, eps):
    axes = tuple(range(-len(shape), 0))
    return (
        layer_norm(x, shape, weight, bias, eps),
        x.mean(axes, keepdims=True),
        1 / np.sqrt(x.var(axes, keepdims=True) + eps),
    )


def rms_norm(x, shape, weight=None, eps=None):
    eps = np.finfo(x.dtype).eps if eps is None else eps
    out = x / np.sqrt((x * x).mean(tuple(range(-len(shape), 0)), keepdims=True) + eps)
    return out if weight is None else out * weight


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x / (k + alpha * total / size) ** beta


def normalize(x, p=2.0, dim=1, eps=1e-12):
    return x / np.maximum((np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p), eps)


def attention(q, k, v_, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v_ = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v_))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v_


def multi_head(
    q,
    k,
    v_,
    size,
    heads,
    w,
    b,
    bias_k,
    bias_v,
    add_zero,
    dropout,
    w_out,
    b_out,
    training=True,
    need_weights=True,
):
    """Projections of (length, batch, size), attention of each head, the heads side by side, a projection."""
    parts = [x @ m.T + c_ for x, m, c_ in zip((q, k, v_), np.split(w, 3), np.split(b, 3))]
    parts = [p.reshape(*p.shape[:2], heads, -1).transpose(1, 2, 0, 3) for p in parts]
    out = attention(*parts).transpose(2, 0, 1, 3).reshape(q.shape[0], q.shape[1], size)
    scores = parts[0] @ parts[1].swapaxes(-1, -2) / math.sqrt(size // heads)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    weights = (p / p.sum(-1, keepdims=True)).mean(1)
    return out @ w_out.T + b_out, weights if need_weights else None


def embedding(i, w, *_, **__):
    return w[i]


def embedding_bag(
    i,
    w,
    offsets=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
):
    if i.ndim == 2:
        bags = list(i)
        parts = None if per_sample_weights is None else list(per_sample_weights)
    else:
        bags = np.split(i, offsets[1:])
        parts = None if per_sample_weights is None else np.split(per_sample_weights, offsets[1:])
    f = {"mean": np.mean, "sum": np.sum, "max": np.max}[mode]
    rows = [w[bag] if parts is None else w[bag] * parts[n][:, None] for n, bag in enumerate(bags)]
    return np.stack([f(r, axis=0) if len(r) else np.zeros(w.shape[1]) for r in rows])


def checks_bag(result, w, i, offsets, *_, **__):
    np.testing.assert_allclose(result[0], embedding_bag(i, w, offsets, mode="sum"), rtol=1e-4)


def embedding_backward(g, i, n, padding_idx, scale):
    out = np.zeros((n, g.shape[-1]))
    counts = np.bincount(i.reshape(-1), minlength=n)
    for place in np.ndindex(i.shape):
        if i[place] != padding_idx:
            out[i[place]] += g[place] / (counts[i[place]] if scale else 1)
    return out


def embedding_renorm(w, i, max_norm, norm_type):
    out = w.copy()
    for k in np.unique(i):
        norm = (np.abs(w[k]) ** norm_type).sum() ** (1 / norm_type)
        if norm > max_norm:
            out[k] = w[k] * (max_norm / (norm + 1e-7))
    return out


def one_hot(x, num_classes=-1):
    n = x.max() + 1 if num_classes < 0 else num_classes
    return (x[..., None] == np.arange(n)).astype(np.int64)


# -- recurrent networks ------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gates(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    return x @ w_ih.T + (0 if b_ih is None else b_ih), h @ w_hh.T + (0 if b_hh is None else b_hh)


def rnn_cell(f):
    return lambda x, h, *w: f(sum(gates(x, h, *w)))


def gru_cell(x, h, *w):
    a, b = (np.split(part, 3, -1) for part in gates(x, h, *w))
    r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    return (1 - z) * np.tanh(a[2] + r * b[2]) + z * h


def lstm_cell(x, hx, *w):
    h, cell = hx
    i, f, g, o = np.split(sum(gates(x, h, *w)), 4, -1)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def layers(cell, pair=False):
    """Layers of a cell run over (time, batch, features), in both directions when asked."""

    def reference(x, hx, params, biases, count, dropout, train, bidirectional, batch_first):
        x = x.swapaxes(0, 1) if batch_first else x
        directions, each = 1 + bidirectional, 4 if biases else 2
        last = []
        for n in range(count):
            outs = []
            for d in range(directions):
                k = n * directions + d
                w = params[k * each : (k + 1) * each]
                state = tuple(h[k] for h in hx) if pair else hx[k]
                steps = []
                for t in reversed(range(len(x))) if d else range(len(x)):
                    state = cell(x[t], state, *w)
                    steps.append(state[0] if pair else state)
                outs.append(np.stack(steps[::-1] if d else steps))
                last.append(state)
            x = np.concatenate(outs, -1)
        x = x.swapaxes(0, 1) if batch_first else x
        if pair:
            return x, np.stack([s[0] for s in last]), np.stack([s[1] for s in last])
        return x, np.stack(last)

    return reference


def cell_row(name, ref, times, state=None):
    w = [N(3 * times, 4), N(3 * times, 3), N(3 * times), N(3 * times)]
    h = state or N(2, 3)
    return row(name, ref, c(N(2, 4), h, *w), c(N(2, 4), h, *w[:2]))


def network_row(name, cell, times, pair=False):
    def params(size, hidden, extra):
        return [N(hidden * times, size), N(hidden * times, hidden), *[N(hidden * times)] * extra]

    def state(k):
        return [N(k, 2, 3), N(k, 2, 3)] if pair else N(k, 2, 3)

    two = [*params(4, 3, 2), *params(3, 3, 2)]
    both = [*params(4, 3, 2), *params(4, 3, 2)]
    return row(
        name,
        layers(cell, pair),
        c(N(5, 2, 4), state(2), two, True, 2, 0.0, False, False, False),
        c(N(2, 5, 4), state(2), both, True, 1, 0.0, False, True, True),
        c(N(3, 2, 4), state(1), params(4, 3, 0), False, 1, 0.0, False, False, False),
        tol=1e-8,
        tol32=2e-3,
    )


IDS = K([[0, 2, 1], [3, 2, 2]])

ROWS = [
    row(F + "batch_norm", batch_norm, c(N(5, 3), fixed(N(3)), fixed(P(3)), N(3), N(3)), c(N(3, 2, 4), None, None, N(2), N(2), True), c(N(3, 2, 2, 2), None, None, None, None, True, 0.1, 1e-3), c(N(2, 3, 2), fixed(N(3)), fixed(P(3)))),
    row("batch_norm", lambda x, w, b, m, var, *a: batch_norm(x, m, var, w, b, *a[:3]), c(N(5, 3), N(3), N(3), fixed(N(3)), fixed(P(3)), False, 0.1, 1e-5, False), c(N(5, 3), N(3), N(3), None, None, True, 0.1, 1e-5, False)),
    row("native_batch_norm", native_batch_norm, c(N(5, 3), N(3), N(3), None, None, True, 0.1, 1e-5), c(N(3, 2, 4), None, None, None, None, True, 0.1, 1e-3)),
    row(F + "instance_norm", instance_norm, c(N(2, 3, 4)), c(N(2, 3, 2, 2), None, None, N(3), N(3))),
    row("instance_norm", lambda x, w, b, *_: instance_norm(x, None, None, w, b), c(N(2, 3, 4), N(3), N(3), None, None, True, 0.1, 1e-5, False)),
    row(F + "group_norm", group_norm, c(N(2, 6, 3), 3), c(N(2, 4, 2, 2), 2, N(4), N(4)), c(N(2, 4), 1, N(4), N(4), 1e-3), tol32=1e-3),
    row("group_norm", group_norm, c(N(2, 6, 3), 3), c(N(2, 4, 2, 2), 2, N(4), N(4))),
    row("native_group_norm", native_group_norm, c(N(2, 4, 3), N(4), N(4), 2, 4, 3, 2, 1e-5)),
    row(F + "layer_norm", layer_norm, c(N(2, 5), (5,)), c(N(2, 3, 4), (3, 4), N(3, 4), N(3, 4)), c(N(2, 3, 4), (4,), N(4)), half=False),
    row("layer_norm", layer_norm, c(N(2, 5), (5,)), c(N(2, 3, 4), (4,), N(4), N(4))),
    row("native_layer_norm", native_layer_norm, c(N(2, 5), (5,), N(5), N(5), 1e-5)),
    row(F + "rms_norm", rms_norm, c(N(2, 5), (5,)), c(N(2, 3, 4), (3, 4), N(3, 4), 1e-4)),
    row("rms_norm", rms_norm, c(N(2, 5), (5,)), c(N(2, 3, 4), (4,), N(4))),
    row(F + "local_response_norm", local_response_norm, c(N(2, 6, 3), 3), c(N(2, 5, 2, 2), 2, 0.1, 0.5, 2.0)),
    row(F + "normalize", normalize, c(N(2, 5)), c(N(2, 5), 1.0, 0), c(N(2, 3, 4), 3.0, -1)),
    row(F + "scaled_dot_product_attention", attention, c(N(2, 3, 4), N(2, 5, 4), N(2, 5, 6)), c(N(1, 2, 3, 4), N(1, 2, 3, 4), N(1, 2, 3, 4), is_causal=True), c(N(2, 3, 4), N(2, 5, 4), N(2, 5, 4), fixed(N(3, 5))),
        c(N(2, 3, 4), N(2, 4, 4), N(2, 4, 4), K([[True, False, True, True]] * 3)), c(N(2, 3, 4), N(2, 5, 4), N(2, 5, 4), scale=0.3), c(N(4, 3, 2), N(2, 3, 2), N(2, 3, 2), enable_gqa=True), tol=1e-8),
    row(F + "multi_head_attention_forward", multi_head, c(N(3, 2, 4), N(5, 2, 4), N(5, 2, 4), 4, 2, N(12, 4), N(12), None, None, False, 0.0, N(4, 4), N(4)), c(N(3, 2, 4), N(3, 2, 4), N(3, 2, 4), 4, 1, N(12, 4), N(12), None, None, False, 0.0, N(4, 4), N(4), need_weights=False), tol=1e-8, out=False, half=False),
    # embeddings
    row(F + "embedding", embedding, c(IDS, N(4, 3)), c(K(2), N(4, 3)), c(K([], np.int64), N(4, 3))),
    row("embedding", lambda w, i: w[i], c(N(4, 3), IDS)),
    row(F + "embedding_bag", embedding_bag, c(IDS, N(4, 3)), *(c(K([0, 2, 1, 3, 2]), distinct(4, 3), K([0, 2]), mode=m) for m in ("sum", "mean", "max")), c(IDS, N(4, 3), mode="sum", per_sample_weights=N(2, 3)), c(K([0, 1]), N(4, 3), K([0, 0, 1]), mode="sum")),
    row("embedding_bag", None, c(N(4, 3), K([0, 2, 1, 3, 2]), K([0, 2])), check=checks_bag, out=False, half=False),
    row("embedding_dense_backward", embedding_backward, c(N(2, 3, 5), IDS, 4, -1, False), c(N(2, 3, 5), IDS, 4, 2, True)),
    row("embedding_renorm_", embedding_renorm, c(N(4, 3), IDS, 1.0, 2.0), writes=True, order=0),
    row(F + "one_hot", one_hot, v(IDS), v(K([1, 0]), 4), order=0, out=False, meta=False),
    # recurrent networks
    cell_row("rnn_tanh_cell", rnn_cell(np.tanh), 1),
    cell_row("rnn_relu_cell", rnn_cell(lambda x: np.maximum(x, 0)), 1),
    cell_row("gru_cell", gru_cell, 3),
    cell_row("lstm_cell", lstm_cell, 4, [N(2, 3), N(2, 3)]),
    network_row("rnn_tanh", rnn_cell(np.tanh), 1),
    network_row("rnn_relu", rnn_cell(lambda x: np.maximum(x, 0)), 1),
    network_row("gru", gru_cell, 3),
    network_row("lstm", lstm_cell, 4, pair=True),
]  # fmt: skip
