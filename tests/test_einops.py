"""einops under the import hook: functions, layers, gradients, saved and scripted modules."""

from __future__ import annotations

from processes import printed_as_torch

PROGRAM = """
import copy, io
import numpy as np
import torch
from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

x = torch.randn(2, 3, 4, 6, requires_grad=True)
y = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)
want = x.reshape(2, 3, 2, 2, 2, 3).permute(0, 2, 4, 3, 5, 1).reshape(2, 4, 18)
assert torch.equal(y, want)
y.square().sum().backward()
assert torch.equal(x.grad, 2 * x.detach())
for name in ("max", "min", "mean", "sum", "prod", "any", "all"):
    z = x.detach() > 0 if name in ("any", "all") else x.detach()
    got, plain = reduce(z, "b c (h 2) w -> c b h w", name), z.reshape(2, 3, 2, 2, 6).numpy()
    np.testing.assert_allclose(got.numpy(), getattr(plain, name)(3).swapaxes(0, 1), rtol=1e-5)
assert repeat(x[0, 0], "h w -> h w r", r=3).shape == (4, 6, 3)
assert torch.allclose(einsum(x, x, "b c h w, b d h w -> b c d"), torch.einsum("bchw,bdhw->bcd", x, x))
packed, shapes = pack([x, x[:, :1]], "b * h w")
assert packed.shape == (2, 4, 4, 6) and [t.shape[1] for t in unpack(packed, shapes, "b * h w")] == [3, 1]
assert parse_shape(x, "b _ h w") == {"b": 2, "h": 4, "w": 6} and asnumpy(x).shape == (2, 3, 4, 6)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), Reduce("b c (h 2) (w 2) -> b c h w", "max"),
    Rearrange("b c h w -> b (c h w)"), nn.Linear(48, 5),
    EinMix("b i -> b o", weight_shape="i o", bias_shape="o", i=5, o=2),
)
model(x.detach()).sum().backward()
assert all(p.grad is not None for p in model.parameters())
assert list(model.state_dict())[-2:] == ["4.weight", "4.bias"]
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
for other in (copy.deepcopy(model), torch.load(file, weights_only=False), torch.jit.script(model)):
    assert torch.equal(other(x.detach()), model(x.detach()))
print("ok")
"""


def test_einops(tmp_path):
    assert printed_as_torch(tmp_path, PROGRAM) == "ok\n"
