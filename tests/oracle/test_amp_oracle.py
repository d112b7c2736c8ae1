"""Autocast against PyTorch's: which operators it casts, and the numbers of a training run under it."""

from __future__ import annotations

import pytest
import torch

import rushlight

CALLS = """
torch.mm(f, f)
f @ f[0]
torch.mv(f, f[0])
torch.dot(f[0], f[0])
torch.addmm(f, f, f)
torch.einsum('ij,jk->ik', f, f)
torch.tensordot(f, f, 1)
F.linear(f, f)
F.conv1d(f[None], f[None])
F.scaled_dot_product_attention(f[None], f[None], f[None])
torch.linalg.multi_dot([f, f, f])
torch.linalg.matrix_power(f, 2)
f + f
f.exp()
f.softmax(1)
f.sum()
f.prod()
f.cumsum(0)
f.norm()
F.layer_norm(f, (4,))
F.gelu(f)
F.cross_entropy(f, torch.tensor([0, 1, 2, 3]))
F.mse_loss(f, f)
F.binary_cross_entropy_with_logits(f, f)
F.kl_div(f, f, reduction='sum')
F.cosine_similarity(f, f)
torch.cdist(f, f)
torch.cat([f, f.float()])
torch.where(f > 0, f, f)
torch.linalg.inv(f + 9 * torch.eye(4, dtype=f.dtype))
torch.fft.fft(f)
torch.quantile(f, 0.5)
torch.trace(f)
F.prelu(f, torch.ones(1, dtype=f.dtype))
""".strip().splitlines()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("call", CALLS)
def test_result_dtypes(call, dtype):
    found = []
    for library in (rushlight, torch):
        f = library.arange(16.0).reshape(4, 4).div(16).add(0.1).to(getattr(library, dtype))
        with library.autocast("cpu"):
            result = eval(call, {"torch": library, "F": library.nn.functional, "f": f})
        found.append(str(result.dtype))
    assert found[0] == found[1]


def test_training():
    losses = []
    for library in (rushlight, torch):
        library.manual_seed(0)
        nn = library.nn
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = library.optim.SGD(model.parameters(), lr=0.1)
        scaler = library.amp.GradScaler("cpu")
        x, y = library.randn(32, 8), library.randint(0, 3, (32,))
        losses.append([])
        for _ in range(20):
            optimizer.zero_grad()
            with library.autocast("cpu"):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
