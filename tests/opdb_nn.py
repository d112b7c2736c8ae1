"""Rows of products, activations, losses and dropout."""

from __future__ import annotations

import numpy as np

from opdb_rows import NZ, C, I, K, N, P, U, c, fixed, row, scipy, unary, v

F = "nn.functional."
e = np.exp


def sigmoid(x):
    return 1 / (1 + e(-x))


def softplus(x, beta=1.0, threshold=20.0):
    return np.log1p(e(beta * x)) / beta


def softmax(x, dim=-1, **_):
    p = e(x - x.max(dim, keepdims=True))
    return p / p.sum(dim, keepdims=True)


def log_softmax(x, dim=-1, **_):
    return np.log(softmax(x, dim))


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (e(x) - 1))


def selu(x):
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    return x * scipy("special.ndtr")(x)


def act(name, ref, *cases, **options):
    return row(F + name, ref, c(N(3, 4)), c(N()), c(N(0, 2)), *cases, **({"half": True} | options))


def reduced(loss):
    """`loss` gives the elements; what is returned is their mean, sum, or themselves."""

    def reference(*args, reduction="mean", **kwargs):
        each = loss(*args, **kwargs)
        return each if reduction == "none" else getattr(np, reduction)(each)

    return reference


def loss(name, ref, *args, more=(), **options):
    """A loss with each of the three reductions, on the same inputs."""
    kinds = [c(*args, reduction=r) for r in ("mean", "sum", "none")]
    return row(F + name, reduced(ref), *kinds, *more, **options)


def numbered(loss):
    """As `reduced`, the reduction a number."""

    def reference(*args, reduction=0, **kwargs):
        word = ("none", "mean", "sum")[reduction]
        return reduced(loss)(*args, reduction=word, **kwargs)

    return reference


def weight_norm(v, g, dim=0):
    return v * g / np.sqrt((v * v).sum(1 - dim, keepdims=True))


def bce(x, y, weight=None):
    found = -(y * np.log(x) + (1 - y) * np.log(1 - x))
    return found if weight is None else found * weight


def bce_logits(x, y, weight=None, pos_weight=None):
    a = 1.0 if pos_weight is None else pos_weight
    found = -(a * y * np.log(sigmoid(x)) + (1 - y) * np.log(1 - sigmoid(x)))
    return found if weight is None else found * weight


def nll(x, y, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Targets are classes; classes are in dimension 1 (0 without a batch)."""
    if x.ndim == 1:
        return nll(x[None], y[None], weight, ignore_index, "sum")
    w = np.ones(x.shape[1]) if weight is None else weight
    keep = y != ignore_index
    safe = np.where(keep, y, 0)
    each = -np.take_along_axis(x, safe[:, None], 1)[:, 0] * w[safe] * keep
    if reduction == "none":
        return each
    return each.sum() / ((w[safe] * keep).sum() if reduction == "mean" else 1)


def cross_entropy(x, y, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    logp = log_softmax(x, 0 if x.ndim == 1 else 1)
    if y.dtype.kind == "f":  # probabilities
        each = -(logp * (y * (1 - label_smoothing) + label_smoothing / x.shape[1])).sum(1)
        return {"none": each, "sum": each.sum(), "mean": each.sum() / len(x)}[reduction]
    plain = nll(logp, y, weight, ignore_index, reduction)
    if not label_smoothing:
        return plain
    even = -logp.mean(1) if reduction == "none" else getattr(np, reduction)(-logp.mean(1))
    return (1 - label_smoothing) * plain + label_smoothing * even


def huber(x, y, delta=1.0):
    d = np.abs(x - y)
    return np.where(d < delta, d**2 / 2, delta * (d - delta / 2))


def smooth_l1(x, y, beta=1.0):
    return huber(x, y, beta) / beta


def cosine(a, b, dim=1, eps=1e-8):
    return (a * b).sum(dim) / np.sqrt((a * a).sum(dim) * (b * b).sum(dim))


def pairwise(a, b, p=2.0, eps=1e-6, keepdim=False):
    return (np.abs(a - b + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)


def gaussian_nll(x, y, var, full=False, eps=1e-6):
    return 0.5 * (np.log(var) + (x - y) ** 2 / var) + (0.5 * np.log(2 * np.pi) if full else 0)


def poisson_nll(x, y, log_input=True, full=False, eps=1e-8):
    return e(x) - y * x if log_input else x - y * np.log(x + eps)


def kl_div(x, y, log_target=False):
    return e(y) * (y - x) if log_target else y * (np.log(y) - x)


def batchmean(loss):
    def reference(x, y, reduction, **more):
        if reduction == "batchmean":
            return loss(x, y, **more).sum() / len(x)
        return reduced(loss)(x, y, reduction=reduction, **more)

    return reference


def hinge(x, y, margin=1.0):
    return np.where(y == 1, x, np.maximum(0, margin - x))


def cosine_embedding(a, b, y, margin=0.0):
    s = cosine(a, b)
    return np.where(y == 1, 1 - s, np.maximum(0, s - margin))


def multi_margin(x, y, p=1, margin=1.0, weight=None):
    own = np.take_along_axis(x, y[:, None], 1)
    terms = np.maximum(0, margin - own + x) ** p * (1 if weight is None else weight[y][:, None])
    np.put_along_axis(terms, y[:, None], 0.0, 1)
    return terms.sum(1) / x.shape[1]


def multilabel_margin(x, y):
    found = []
    for scores, labels in zip(x, y):
        stop = list(labels).index(-1) if -1 in labels else len(labels)
        mine = labels[:stop]
        others = [j for j in range(len(scores)) if j not in mine]
        found.append(
            sum(max(0.0, 1 - (scores[t] - scores[j])) for t in mine for j in others) / len(scores)
        )
    return np.array(found)


def multilabel_soft_margin(x, y, weight=None):
    return bce(sigmoid(x), y, weight).mean(-1)


def triplet(a, p, n, margin=1.0, eps=1e-6, swap=False, distance_function=None):
    far = pairwise(a, n, eps=eps)
    far = np.minimum(far, pairwise(p, n, eps=eps)) if swap else far
    return np.maximum(0, margin + pairwise(a, p, eps=eps) - far)


def glu(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return a * sigmoid(b)


def addmm(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b)


def bilinear(a, b, w, bias=None):
    return np.einsum("...i,oij,...j->...o", a, w, b) + (0 if bias is None else bias)


def linear(x, w, bias=None):
    return x @ w.T + (0 if bias is None else bias)


# -- dropout: what is kept is scaled, the rest is zero -----------------------------------------------


def checks_dropout(result, x, p=0.5, training=True, *rest, **more):
    if not more.get("train", training):
        np.testing.assert_array_equal(result, x)
        return
    kept = result != 0
    np.testing.assert_allclose(result[kept], (x / (1 - p) if p < 1 else x)[kept], rtol=1e-2)
    if x.size > 100:
        assert abs(kept.mean() - (1 - p)) < 0.15


def grouped_mm(a, b, *, offs=None):
    if offs is None:
        return a @ b
    groups = [slice(i, j) for i, j in zip([0, *offs[:-1]], offs, strict=True)]
    if a.ndim == b.ndim:
        return np.stack([a[:, s] @ b[s] for s in groups])
    if a.ndim == 2:
        return np.concatenate([a[s] @ b[k] for k, s in enumerate(groups)])
    return np.concatenate([a[k] @ b[:, s] for k, s in enumerate(groups)], 1)


def checks_native_dropout(result, x, p, train):
    checks_dropout(result[0], x, p, train)
    np.testing.assert_array_equal(result[1], (result[0] != 0) if train else np.ones(x.shape, bool))


def checks_channels(result, x, p=0.5, *rest, **more):
    """Whole channels are dropped."""
    kept = (result != 0).reshape(*x.shape[:2], -1)
    assert (kept.all(-1) | ~kept.any(-1)).all()
    np.testing.assert_allclose(result[result != 0], x[result != 0] / (1 - p), rtol=1e-2)


def checks_alpha(result, x, p=0.5, *rest, **more):
    """What is dropped becomes -1.758 (the low end of selu); then a line makes the mean 0 and the variance 1 again."""
    low = -1.7580993408473766
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    b = -a * low * p
    kept = ~np.isclose(result, a * low + b, atol=1e-5)
    np.testing.assert_allclose(result[kept], a * x[kept] + b, rtol=1e-4, atol=1e-4)
    assert abs(kept.mean() - (1 - p)) < 0.15


def checks_softmax_sample(result, logits, tau=1.0, hard=False, dim=-1):
    np.testing.assert_allclose(result.sum(dim), 1.0, rtol=1e-2)
    assert not hard or set(np.unique(result)) <= {0.0, 1.0}


def checks_rrelu(result, x, lower=1 / 8, upper=1 / 3, training=False, *rest):
    np.testing.assert_array_equal(result[x >= 0], x[x >= 0])
    slope = result[x < 0] / x[x < 0]
    assert ((slope >= lower - 1e-6) & (slope <= upper + 1e-6)).all()
    if not training:
        np.testing.assert_allclose(slope, (lower + upper) / 2, rtol=1e-6)


def dropouts(name, check, *shapes, top=False, **options):
    cases = [c(N(*s), 0.4, True) for s in shapes]
    return row(name if top else F + name, None, *cases, check=check, strided=False, **options)


LABELS = K([1, 0, 3])
SIGNS = K([1.0, -1.0, 1.0])

ROWS = [
    # products
    row("matmul", np.matmul, c(N(3, 4), N(4, 2)), c(N(4), N(4)), c(N(3, 4), N(4)), c(N(4), N(4, 2)), c(N(2, 1, 3, 4), N(5, 4, 2)), c(C(2, 3), C(3, 2)), c(N(3, 0), N(0, 2)), c(N(0, 2), N(2, 3)), c(I(2, 3), I(3, 2)), half=True),
    row("mm", np.matmul, c(N(3, 4), N(4, 2)), c(C(2, 3), C(3, 2)), c(N(3, 0), N(0, 2)), half=True),
    row("bmm", np.matmul, c(N(2, 3, 4), N(2, 4, 2)), c(N(0, 3, 4), N(0, 4, 2)), half=True),
    row("mv", np.matmul, c(N(3, 4), N(4)), c(C(3, 2), C(2)), half=True),
    row("dot", np.dot, c(N(4), N(4)), c(C(3), C(3)), c(N(0), N(0)), half=True),
    row("vdot", np.vdot, c(N(4), N(4)), c(C(3), C(3))),
    row("inner", np.inner, c(N(4), N(4)), c(N(3, 4), N(2, 4)), c(N(), N(3))),
    row("outer", np.outer, c(N(3), N(4)), c(C(2), C(3))),
    row("addmm", addmm, c(N(3, 2), N(3, 4), N(4, 2)), c(N(2), N(3, 4), N(4, 2), beta=0.5, alpha=2.0), c(N(2, 2), N(2, 0), N(0, 2)), half=True),
    row("_addmm_activation", lambda *args, use_gelu=False, **more: np.maximum(addmm(*args, **more), 0), c(N(2), N(3, 4), N(4, 2)), c(N(3, 2), N(3, 4), N(4, 2), beta=0.5, alpha=2.0), order=0),
    row("addmv", addmm, c(N(3), N(3, 4), N(4)), c(N(3), N(3, 4), N(4), beta=0.5, alpha=2.0)),
    row("addr", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.outer(a, b), c(N(3, 4), N(3), N(4)), c(N(4), N(3), N(4), beta=0.5, alpha=2.0)),
    row("baddbmm", addmm, c(N(2, 3, 2), N(2, 3, 4), N(2, 4, 2)), c(N(2), N(2, 3, 4), N(2, 4, 2), beta=0.5, alpha=2.0)),
    row("addbmm", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b).sum(0), c(N(3, 2), N(2, 3, 4), N(2, 4, 2)), c(N(3, 2), N(2, 3, 4), N(2, 4, 2), beta=0.5, alpha=2.0)),
    row(F + "linear", linear, c(N(2, 3), N(4, 3)), c(N(2, 3), N(4, 3), N(4)), c(N(2, 5, 3), N(4, 3), N(4)), c(N(3), N(4, 3)), c(N(0, 3), N(4, 3), N(4)), half=True),
    row(F + "bilinear", bilinear, c(N(2, 3), N(2, 4), N(5, 3, 4)), c(N(2, 3), N(2, 4), N(5, 3, 4), N(5))),
    row("einsum", np.einsum, c("ij,jk->ik", N(2, 3), N(3, 4)), c("bij,bkj->bik", N(2, 3, 4), N(2, 2, 4)), c("ii->i", N(3, 3)), c("...i->...", N(2, 3)), c("i,j,k->kji", N(2), N(3), N(2)), view=None),
    row("tensordot", np.tensordot, c(N(2, 3, 4), N(3, 4, 2), 2), c(N(2, 3, 4), N(4, 3), ([1, 2], [1, 0])), c(N(2), N(3), 0)),
    row("kron", np.kron, c(N(2, 3), N(2, 2)), c(N(3), N(2, 2))),
    row("trace", np.trace, c(N(3, 4)), c(N(3, 3)), ints="int64"),
    # activations
    unary("relu", lambda x: np.maximum(x, 0), ints="same"),
    act("relu", lambda x: np.maximum(x, 0)),
    act("relu6", lambda x: np.clip(x, 0, 6)),
    act("elu", elu, c(N(3), 0.5)),
    act("celu", lambda x, alpha=1.0: np.maximum(0, x) + np.minimum(0, alpha * (e(x / alpha) - 1)), c(N(3), 0.5)),
    row("celu", lambda x, alpha=1.0: np.maximum(0, x) + np.minimum(0, alpha * (e(x / alpha) - 1)), c(N(3, 4)), c(N(3), 0.5)),
    act("selu", selu),
    row("selu", selu, c(N(3, 4)), c(N())),
    act("gelu", gelu, c(N(3), approximate="tanh")),
    act("silu", lambda x: x * sigmoid(x)),
    act("mish", lambda x: x * np.tanh(softplus(x))),
    act("softplus", softplus, c(N(3), 2.0), v(K([30.0, 50.0]))),
    act("softsign", lambda x: x / (1 + np.abs(x))),
    act("softshrink", lambda x, lambd=0.5: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)), c(N(4), 0.2)),
    row("hardshrink", lambda x, lambd=0.5: np.where(np.abs(x) > lambd, x, 0), c(N(3, 4)), c(N(4), 0.2), c(N())),
    act("tanhshrink", lambda x: x - np.tanh(x)),
    act("logsigmoid", lambda x: np.log(sigmoid(x))),
    act("hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6),
    act("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    act("hardtanh", lambda x, lo=-1.0, hi=1.0: np.clip(x, lo, hi), c(N(3), -0.5, 0.7)),
    act("leaky_relu", lambda x, s=0.01: np.where(x > 0, x, s * x), c(N(4), 0.3)),
    row(F + "threshold", lambda x, t, value: np.where(x > t, x, value), c(N(3, 4), 0.1, 2.0)),
    row(F + "glu", glu, c(N(3, 4)), c(N(4, 3), 0)),
    row("prelu", lambda x, w: np.where(x > 0, x, w.reshape(-1, *[1] * (x.ndim - 2)) * x), c(N(2, 3, 4), N(3)), c(N(2, 3), N(1)), order=2),
    row(F + "rrelu", None, c(NZ(3, 4)), c(NZ(3, 4), 0.1, 0.3, True), check=checks_rrelu, strided=False, half=False),
    row("rrelu", None, c(NZ(3, 4)), c(NZ(3, 4), 0.1, 0.3, True), check=checks_rrelu, strided=False, inplace=False, half=False),
    row("threshold_backward", lambda g, x, t: np.where(x > t, g, 0), c(N(3, 4), N(3, 4), 0.1)),
    row(F + "softmax", softmax, c(N(3, 4), 1), c(N(3, 4), 0), c(N(2, 3, 2), -1), c(N(0, 3), 1)),
    row("softmax", softmax, c(N(3, 4), 1), c(N(3, 4), 0), half=True),
    row(F + "log_softmax", log_softmax, c(N(3, 4), 1), c(N(3, 4), 0)),
    row("log_softmax", log_softmax, c(N(3, 4), 1), c(N(3, 4), 0), half=True),
    row(F + "softmin", lambda x, dim: softmax(-x, dim), c(N(3, 4), 1), c(N(3, 4), 0)),
    row(F + "gumbel_softmax", None, c(N(3, 4)), c(N(3, 4), tau=0.5), v(N(3, 4), hard=True), check=checks_softmax_sample, strided=False),
    # losses
    loss("mse_loss", lambda x, y: (x - y) ** 2, N(3, 4), N(3, 4)),
    loss("l1_loss", lambda x, y: np.abs(x - y), N(3, 4), N(3, 4)),
    loss("huber_loss", huber, N(3, 4), N(3, 4), more=[c(N(3), N(3), delta=0.3)]),
    loss("smooth_l1_loss", smooth_l1, N(3, 4), N(3, 4), more=[c(N(3), N(3), beta=0.3)]),
    loss("binary_cross_entropy", bce, U(0.1, 0.9)(3, 4), U(0.1, 0.9)(3, 4), more=[c(U(0.1, 0.9)(3), fixed(U(0, 1)(3)), weight=fixed(P(3)))]),
    row(F + "binary_cross_entropy_with_logits", reduced(bce_logits), *(c(N(3, 4), U(0, 1)(3, 4), reduction=r) for r in ("mean", "sum", "none")), c(N(2, 3), fixed(U(0, 1)(2, 3)), fixed(P(3)), pos_weight=fixed(P(3)))),
    row("binary_cross_entropy_with_logits", numbered(bce_logits), *(c(N(3, 4), U(0, 1)(3, 4), reduction=r) for r in (0, 1, 2)), c(N(2, 3), fixed(U(0, 1)(2, 3)), fixed(P(3)), fixed(P(3))), out=False),
    row(F + "nll_loss", nll, *(c(N(3, 4), LABELS, reduction=r) for r in ("mean", "sum", "none")), c(N(3, 4), LABELS, weight=fixed(P(4))), c(N(3, 4), LABELS, ignore_index=0), c(N(2, 4, 3), I(2, 3, low=0, high=4)), c(N(4), K(2))),
    row(F + "cross_entropy", cross_entropy, *(c(N(3, 4), LABELS, reduction=r) for r in ("mean", "sum", "none")), c(N(3, 4), LABELS, weight=fixed(P(4))), c(N(3, 4), LABELS, label_smoothing=0.1),
        c(N(3, 4), U(0, 1)(3, 4)), c(N(2, 4, 3), I(2, 3, low=0, high=4)), c(N(4), K(2)), c(N(3, 4), K([1, -100, 0]))),
    row(F + "linear_cross_entropy", lambda x, w, y, linear_bias=None, **more: cross_entropy(linear(x, w, linear_bias), y, **more), c(N(3, 5), N(4, 5), LABELS), c(N(3, 5), N(4, 5), LABELS, linear_bias=N(4), reduction="sum")),
    row(F + "kl_div", batchmean(kl_div), *(c(N(3, 4), U(0.1, 0.9)(3, 4), reduction=r) for r in ("batchmean", "sum", "none")), c(N(3), N(3), log_target=True, reduction="sum")),
    loss("gaussian_nll_loss", gaussian_nll, N(3, 4), N(3, 4), P(3, 4), more=[c(N(3), N(3), P(3), full=True)], meta=False),
    loss("poisson_nll_loss", poisson_nll, N(3, 4), P(3, 4), more=[c(P(3), P(3), log_input=False)]),
    row(F + "hinge_embedding_loss", reduced(hinge), *(c(N(3), fixed(SIGNS), reduction=r) for r in ("mean", "sum", "none"))),
    loss("soft_margin_loss", lambda x, y: np.log1p(e(-y * x)), N(3), fixed(SIGNS)),
    loss("margin_ranking_loss", lambda a, b, y, margin=0.0: np.maximum(0, -y * (a - b) + margin), N(3), N(3), fixed(SIGNS), more=[c(N(3), N(3), fixed(SIGNS), margin=0.5)]),
    loss("cosine_embedding_loss", cosine_embedding, N(3, 4), N(3, 4), fixed(SIGNS)),
    row("cosine_similarity", cosine, c(N(3, 4), N(3, 4)), c(N(3, 4), N(3, 4), dim=0), c(N(4), N(3, 4), dim=-1)),
    row(F + "pairwise_distance", pairwise, c(N(3, 4), N(3, 4)), c(N(3, 4), N(4), 1.5), c(N(3, 4), N(3, 4), keepdim=True), tol=1e-7),
    loss("multi_margin_loss", multi_margin, N(3, 4), LABELS, more=[c(N(3, 4), LABELS, p=2, margin=0.5), c(N(3, 4), LABELS, weight=fixed(P(4)))]),
    loss("multilabel_margin_loss", multilabel_margin, N(2, 4), K([[3, 0, -1, 1], [2, -1, 0, 0]])),
    loss("multilabel_soft_margin_loss", multilabel_soft_margin, N(3, 4), fixed(U(0, 1)(3, 4))),
    loss("triplet_margin_loss", triplet, N(3, 4), N(3, 4), N(3, 4), more=[c(N(3, 4), N(3, 4), N(3, 4), swap=True)]),
    loss("triplet_margin_with_distance_loss", triplet, N(3, 4), N(3, 4), N(3, 4), tol=1e-5),
    row(F + "grouped_mm", grouped_mm, c(N(5, 3), N(2, 3, 4), offs=K([2, 5], np.int32)), c(N(2, 3, 4), N(4, 5), offs=K([1, 5], np.int32)), c(N(3, 5), N(5, 4), offs=K([1, 5], np.int32)), c(N(2, 3, 4), N(2, 4, 5)), out=False),
    # those of the top namespace, the reduction a number
    row("kl_div", numbered(kl_div), *(c(N(3, 4), U(0.1, 0.9)(3, 4), reduction=r) for r in (0, 1, 2)), c(N(3), N(3), log_target=True), out=False),
    row("hinge_embedding_loss", numbered(hinge), *(c(N(3), fixed(SIGNS), reduction=r) for r in (0, 1, 2)), out=False),
    row("margin_ranking_loss", numbered(lambda a, b, y, margin=0.0: np.maximum(0, -y * (a - b) + margin)), *(c(N(3), N(3), fixed(SIGNS), margin=0.5, reduction=r) for r in (0, 1, 2)), out=False),
    row("cosine_embedding_loss", numbered(cosine_embedding), *(c(N(3, 4), N(3, 4), fixed(SIGNS), reduction=r) for r in (0, 1, 2)), out=False),
    row("poisson_nll_loss", lambda x, y, log_input, full, eps, reduction: numbered(poisson_nll)(x, y, log_input, reduction=reduction), *(c(N(3, 4), P(3, 4), True, False, 1e-8, r) for r in (0, 1, 2)), out=False),
    row("triplet_margin_loss", numbered(triplet), *(c(N(3, 4), N(3, 4), N(3, 4), reduction=r) for r in (0, 1, 2)), out=False),
    row("norm_except_dim", lambda v, pow=2, dim=0: np.sqrt((v * v).sum(None if dim == -1 else 1 - dim, keepdims=dim != -1)), c(N(3, 4)), c(N(3, 4), 2, 1), c(N(3, 4), 2, -1), out=False),
    row("_weight_norm", weight_norm, c(N(3, 4), N(3, 1)), c(N(3, 4), N(1, 4), 1), out=False),
    # dropout
    dropouts("dropout", checks_dropout, (20, 20), (0, 3), (3,)),
    dropouts("dropout", checks_dropout, (20, 20), (3,), top=True),
    row("native_dropout", None, c(N(20, 20), 0.4, True), c(N(3), 0.4, False), check=checks_native_dropout, strided=False),
    dropouts("dropout1d", checks_channels, (4, 5, 3)),
    dropouts("dropout2d", checks_channels, (4, 5, 3, 3)),
    dropouts("dropout3d", checks_channels, (4, 5, 2, 2, 2)),
    dropouts("feature_dropout", checks_channels, (4, 5, 3, 3), top=True),
    dropouts("alpha_dropout", checks_alpha, (50, 50), half=False),
    dropouts("alpha_dropout", checks_alpha, (50, 50), top=True, half=False),
    dropouts("feature_alpha_dropout", checks_alpha, (20, 20, 5), half=False),
    dropouts("feature_alpha_dropout", checks_alpha, (20, 20, 5), top=True, half=False),
]  # fmt: skip
