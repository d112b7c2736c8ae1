"""Recurrent language models, and a tour of what scripts use besides."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1111)
if torch.cuda.is_available():
    print("WARNING: You have a CUDA device")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_mps = torch.backends.mps.is_available()
text = torch.randint(0, 20, (400,))


def batchify(d, b):
    n = d.size(0) // b
    return d.narrow(0, 0, n * b).view(b, -1).t().contiguous().to(device)


data = batchify(text, 8)


class RNNModel(nn.Module):
    def __init__(s, t, nt, ni, nh, nl, dropout=0.5):
        super().__init__()
        s.drop = nn.Dropout(dropout)
        s.encoder = nn.Embedding(nt, ni)
        s.nt = nt
        s.nh = nh
        s.nl = nl
        s.t = t
        s.rnn = (
            getattr(nn, t)(ni, nh, nl, dropout=dropout)
            if t in ("LSTM", "GRU")
            else nn.RNN(ni, nh, nl, nonlinearity="tanh", dropout=dropout)
        )
        s.decoder = nn.Linear(nh, nt)
        nn.init.uniform_(s.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(s.decoder.bias)
        nn.init.uniform_(s.decoder.weight, -0.1, 0.1)

    def forward(s, x, h):
        e = s.drop(s.encoder(x))
        o, h = s.rnn(e, h)
        d = s.decoder(s.drop(o))
        return F.log_softmax(d.view(-1, s.nt), dim=1), h

    def init_hidden(s, b):
        w = next(s.parameters())
        return (
            (w.new_zeros(s.nl, b, s.nh), w.new_zeros(s.nl, b, s.nh))
            if s.t == "LSTM"
            else w.new_zeros(s.nl, b, s.nh)
        )


def rp(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(rp(v) for v in h)


for t in ["LSTM", "GRU", "RNN_TANH"]:
    m = RNNModel(t, 20, 16, 16, 2)
    crit = nn.NLLLoss()
    h = m.init_hidden(8)
    for ep in range(2):
        for b, i in enumerate(range(0, data.size(0) - 1, 10)):
            L = min(10, len(data) - 1 - i)
            x, y = data[i : i + L], data[i + 1 : i + 1 + L].view(-1)
            m.zero_grad()
            h = rp(h)
            out, h = m(x, h)
            loss = crit(out, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.25)
            for p in m.parameters():
                p.data.add_(p.grad, alpha=-1.0)
        print(t, ep, f"{loss.item():.4f} ppl {math.exp(loss.item()):.3f}")
import io

f = io.BytesIO()
torch.save(m, f)
f.seek(0)
m = torch.load(f, weights_only=False)
m.rnn.flatten_parameters()
# timing and transformer
enc = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
)
x = torch.randn(2, 5, 16)
print(f"{enc(x).square().mean().item():.4f}")


# custom function, hooks, profiler
class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return i.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        g = g.clone()
        g[i < 0] = 0
        return g


a = torch.randn(4, requires_grad=True)
MyReLU.apply(a).sum().backward()
print(a.grad)
from torch.autograd import gradcheck

print(gradcheck(MyReLU.apply, (torch.randn(3, dtype=torch.double, requires_grad=True),)))
import torch.utils.benchmark as benchmark

t0 = benchmark.Timer(stmt="a+a", globals={"a": a})
t0.timeit(10)
x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
p = torch.tensor([1, 2, 3])
xx = x.unsqueeze(-1).pow(p)
model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for it in range(100):
    l = nn.MSELoss(reduction="sum")(model(xx), y)
    opt.zero_grad()
    l.backward()
    opt.step()
print(f"{l.item():.4f}")


def closure():
    o.zero_grad()
    l = ((w - 3) ** 2).sum()
    l.backward()
    return l


w = torch.zeros(3, requires_grad=True)
o = torch.optim.LBFGS([w])
o.step(closure)
print(w)
torch.set_default_dtype(torch.float64)
print(
    torch.zeros(2),
    torch.FloatTensor([1]).type(),
    torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor,
)
torch.set_default_dtype(torch.float32)
torch.set_default_device("cpu")
print(torch.tensor([1.5]).device)
