"""Random programs of views and in-place writes: the gradient is right or refused, never wrong.

Checked against central differences here; tests/oracle/test_views_oracle.py compares with PyTorch.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch

VIEWS = {
    "row": lambda t, k: t[k % t.shape[0]] if t.ndim else None,
    "rows": lambda t, k: t[k % t.shape[0] :] if t.ndim else None,
    "step": lambda t, k: t[..., :: 1 + k % 2] if t.ndim else None,
    "transpose": lambda t, k: t.transpose(0, -1) if t.ndim > 1 else None,
    "flat": lambda t, k: t.reshape(-1),
    "unsqueeze": lambda t, k: t.unsqueeze(k % (t.ndim + 1)),
    "diagonal": lambda t, k: t.diagonal() if t.ndim == 2 else None,
    "narrow": lambda t, k: t.narrow(-1, 0, max(1, t.shape[-1] - k % 2)) if t.ndim else None,
    "detached": lambda t, k: t.detach(),
}
WRITES = {
    "mul": lambda t, y: t.mul_(y),
    "add": lambda t, y: t.add_(y),
    "copy": lambda t, y: t.copy_(y + 0.5),
    "set": lambda t, y: t.__setitem__((Ellipsis,), y * y),
    "tanh": lambda t, y: t.tanh_(),
    "exp": lambda t, y: t.exp_().mul_(0.3),
    "square": lambda t, y: t.pow_(2),
    "zero": lambda t, y: t.zero_(),
    "mask": lambda t, y: t.masked_fill_(t > 0.7, 0.1),
}
USES = {
    "times": lambda t, y: t * y,
    "square": lambda t, y: t * t,
    "sigmoid": lambda t, y: t.sigmoid(),
    "clone": lambda t, y: t.clone(),
}

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [("view", v) for v in VIEWS]
            + [("write", w) for w in WRITES]
            + [("use", u) for u in USES]
        ),
        st.integers(0, 1000),
    ),
    max_size=12,
)


def run(plan, x, y):
    """The program on inputs x (3, 4) and y (a number): a scalar of everything that is alive."""
    live = [x * 1.0]
    for (kind, name), pick in plan:
        t = live[pick % len(live)]
        if kind == "view":
            v = VIEWS[name](t, pick // 7)
            if v is not None and v.numel():
                live.append(v)
        elif kind == "write":
            WRITES[name](t, y)
        else:
            live.append(USES[name](t, y))
    total = live[0].tanh().sum()
    for t in live[1:]:
        total = total + (t.sin() * 0.5).sum()
    return total


def value(plan, x, y):
    with torch.no_grad():
        return run(plan, torch.tensor(x), torch.tensor(y)).item()


@settings(max_examples=300, deadline=None)
@given(steps)
def test_gradient_is_right_or_refused(plan):
    rng = np.random.default_rng(len(plan))
    x0, y0 = rng.uniform(0.2, 1.2, (3, 4)), np.array(0.9)
    x = torch.tensor(x0, requires_grad=True)
    y = torch.tensor(y0, requires_grad=True)
    try:
        total = run(plan, x, y)
        gx, gy = torch.autograd.grad(total, (x, y), materialize_grads=True)
    except RuntimeError as e:
        if "inplace operation" not in str(e) and "in-place operation" not in str(e):
            raise
        return
    if any(name == "detached" for (_, name), _ in plan):
        return  # the difference quotient sees through detach, the gradient must not
    vx, vy = rng.standard_normal((3, 4)), rng.standard_normal()
    eps = 1e-6
    numeric = (
        value(plan, x0 + eps * vx, y0 + eps * vy) - value(plan, x0 - eps * vx, y0 - eps * vy)
    ) / (2 * eps)
    exact = float((gx.numpy() * vx).sum() + gy.item() * vy)
    kink = abs(value(plan, x0 + 1e-4 * vx, y0 + 1e-4 * vy) - value(plan, x0, y0)) > 0.1
    assert kink or abs(numeric - exact) <= 1e-5 * max(1.0, abs(numeric)), (plan, numeric, exact)
