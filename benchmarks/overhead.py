"""What one call on a tiny tensor costs: Rushlight against PyTorch, operator by operator.

    python benchmarks/overhead.py [--rounds 25] [--only sum,mean] [--above 1.0]

On a few elements the time is all overhead: finding the function, checking, wrapping, recording. Three
columns of ratios: the call alone, the call recorded, and the call recorded with its backward. Each is the
fastest stretch of either side over all rounds (`alternation.fastest`), so other work on the machine does
not count. Needs PyTorch beside Rushlight.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import alternation

# What the cases may name. `x`, `y`, `v`, `w`, `p`, `s` require gradients in the recorded columns.
SETUP = """
torch.manual_seed(0)
F, nn = torch.nn.functional, torch.nn
x = torch.rand(4, 4) + 0.5
y = torch.rand(4, 4) + 0.5
v = torch.rand(4) + 0.5
w = torch.rand(2, 3, 4) + 0.5
u = torch.rand(2, 4, 3) + 0.5
s = torch.tensor(1.5)
k = torch.arange(4)
mask = torch.tensor([True, False, True, False])
idx = torch.tensor([0, 2])
table = torch.rand(10, 4)
a, b = torch.rand(4, 4), torch.rand(4, 4)
out = torch.rand(4, 4)
linear = nn.Linear(4, 4)
class Twice(nn.Module):
    def forward(self, x):
        return x
module = Twice()
parameter = nn.Parameter(torch.rand(4))
parameter.grad = torch.rand(4)
sgd = torch.optim.SGD([parameter], lr=1e-9)
momentum = torch.optim.SGD([parameter], lr=1e-9, momentum=0.9)
adam = torch.optim.Adam([parameter], lr=1e-9)
leaf = torch.rand(4, requires_grad=True)
leaf.sum().backward()
"""
INPUTS = ("x", "y", "v", "w", "u", "table")

# Cases of which all three columns are measured.
RECORDED = """
x + y
x - y
x * y
x / y
x ** y
x + 2.0
x - 2.0
x * 2.0
x / 2.0
x ** 2
2.0 - x
2.0 / x
x + v
-x
x.exp()
x.log()
x.sqrt()
x.sigmoid()
x.tanh()
x.relu()
F.relu(x)
F.gelu(x)
x.abs()
x.clamp(0, 1)
x.clamp(min=0)
torch.where(a > 0.5, x, y)
x.masked_fill(mask, 0.0)
x.sum()
x.sum(1)
x.mean()
x.mean(1)
x.max()
x.softmax(-1)
F.softmax(x, dim=-1)
F.log_softmax(x, dim=-1)
x @ y
x.matmul(v)
x.mm(y)
F.linear(x, y, v)
torch.bmm(w, u)
w @ u
x.transpose(0, 1)
x.t()
x.T
x.view(16)
x.view(2, 8)
x.reshape(16)
x.reshape(2, -1)
w.permute(2, 0, 1)
x.unsqueeze(0)
w[:1].squeeze(0)
v.expand(4, 4)
x.contiguous()
x.flatten()
x[0]
x[1:]
x[:, 0]
x[None]
x[idx]
x[mask]
torch.cat([x, y])
torch.stack([x, y])
x.split(2)[0]
x.chunk(2)[0]
x.unbind()[0]
x.clone()
x.to(torch.float64)
x.float()
x.double()
F.cross_entropy(x, k)
F.mse_loss(x, y)
F.dropout(x, 0.5)
F.layer_norm(x, (4,), v, v)
F.embedding(idx, table)
linear(x)
module(x)
torch.var(x)
torch.einsum('ij,jk->ik', x, y)
x.norm()
x.pow(2).mean()
""".split("\n")

# Statements and calls of which nothing is recorded.
PLAIN = """
out.add_(b)
out.mul_(1.0)
out += 1
out.copy_(a)
out.zero_()
out.fill_(1.0)
a == b
a < b
a > 0.5
a.argmax()
a.argmax(1)
a.max(1)
a.detach()
a.item() if a.numel() == 1 else s.item()
float(s)
out[0] = 1
out[1:] = b[1:]
out[:, 0] = 0.5
out[mask] = 0
a[..., None]
a[:, None]
a.to('cpu')
a.to(torch.int64)
k.float()
k + 1
k * 2.5
mask.float()
a.bfloat16() * 2.5
a.lerp(b, 0.5)
a.add(b, alpha=2)
torch.rand_like(a)
torch.randn(100)
torch.zeros(4)
torch.zeros(4, 4)
torch.zeros((4, 4))
torch.ones(4)
torch.zeros_like(a)
torch.ones_like(a)
torch.full((4,), 1.0)
torch.arange(4)
torch.arange(0, 1, 0.25)
torch.linspace(0, 1, 4)
torch.eye(4)
torch.tensor([1.0, 2.0, 3.0])
torch.tensor(1.0)
torch.tensor([[1, 2], [3, 4]])
torch.empty(4)
torch.rand(4)
torch.rand(4, 4)
torch.randn(4)
torch.randn(4, 4)
torch.randn(())
torch.randint(0, 10, (4,))
torch.randperm(4)
a.numpy()
torch.from_numpy(array)
a.tolist()
a.shape
a.size(0)
a.size()
a.dtype
a.device
a.ndim
a.numel()
len(a)
leaf.grad
a.requires_grad
a.is_contiguous()
a.stride()
a.data_ptr()
bool(s > 0)
for row in a: pass
with torch.no_grad(): pass
sgd.step()
momentum.step()
adam.step()
sgd.zero_grad(set_to_none=False)
leaf.sum().backward()
""".split("\n")


def space(torch: Any, recorded: bool) -> dict[str, Any]:
    """The names that the cases use, made with one library."""
    import numpy

    names = {"torch": torch, "array": numpy.ones(4, numpy.float32)}
    exec(SETUP, names)
    for name in INPUTS if recorded else ():
        names[name].requires_grad_()
    return names


def call(code: str, names: dict[str, Any], backward: bool = False) -> Any:
    """A function without arguments that runs one case; None where it has no backward."""
    lines = code
    if backward:
        result = eval(code, names)
        if not result.requires_grad:
            return None
        names["g"] = names["torch"].ones_like(result)
        lines = f"({code}).backward(g)"
    # names as globals: what a script at top level pays, the same on either side
    source = f"def run():\n    {'global out; ' if 'out' in code else ''}{lines}\n"
    made: dict[str, Any] = {}
    exec(source, names, made)
    return made["run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--stretch", type=float, default=0.0008, help="seconds of one stretch")
    parser.add_argument(
        "--only", default="", help="cases that contain one of these, comma-separated"
    )
    parser.add_argument(
        "--above", type=float, default=0.0, help="print rows with a ratio above this"
    )
    args = parser.parse_args()
    os.environ.setdefault("RUSHLIGHT_COMPILED", "1")  # as in a program that has run for a while
    alternation.limit_threads(1)

    import torch

    import rushlight

    torch.set_num_threads(1)
    print(alternation.machine())
    print(f"PyTorch  {torch.__version__}, {torch.get_num_threads()} thread")
    plain = space(rushlight, False), space(torch, False)
    recorded = space(rushlight, True), space(torch, True)
    kinds = (("", plain, False), (" recorded", recorded, False), (" backward", recorded, True))
    print(f"\n{'case':<36} {'Rushlight us':>12} {'PyTorch us':>11} {'ratio':>6}")
    wanted = [w for w in args.only.split(",") if w]
    slower = total = 0
    for code in RECORDED + PLAIN:
        if not code or wanted and not any(w in code for w in wanted):
            continue
        for kind, (ours, theirs), backward in kinds if code in RECORDED else kinds[:1]:
            try:
                calls = call(code, ours, backward), call(code, theirs, backward)
                if None in calls:
                    continue
                a, b = alternation.fastest(*calls, args.rounds, args.stretch)
            except Exception as error:
                print(f"{code + kind:<36} {type(error).__name__}: {error}"[:110])
                continue
            total += 1
            slower += a > b
            if a / b > args.above:
                print(
                    f"{code + kind:<36} {a * 1e6:>12.2f} {b * 1e6:>11.2f} {a / b:>6.2f}", flush=True
                )
    print(f"\n{slower} of {total} slower than PyTorch")


if __name__ == "__main__":
    main()
