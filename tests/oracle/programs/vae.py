"""A variational autoencoder and a policy gradient: distributions."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import (
    Bernoulli,
    Categorical,
    MultivariateNormal,
    Normal,
    kl_divergence,
)

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Linear(20, 16)
        s.m = nn.Linear(16, 4)
        s.s = nn.Linear(16, 4)
        s.d = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))

    def forward(s, x):
        h = F.relu(s.e(x))
        q = Normal(s.m(h), F.softplus(s.s(h)) + 1e-4)
        z = q.rsample()
        return Bernoulli(logits=s.d(z)), q


m = VAE()
o = torch.optim.Adam(m.parameters(), lr=1e-2)
x = (torch.rand(64, 20) > 0.5).float()
for i in range(20):
    p, q = m(x)
    rec = -p.log_prob(x).sum(-1).mean()
    kl = kl_divergence(q, Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))).sum(-1).mean()
    l = rec + kl
    o.zero_grad()
    l.backward()
    o.step()
    if i % 5 == 0:
        print(i, f"{rec.item():.4f} {kl.item():.4f}")
pol = nn.Linear(4, 3)
op = torch.optim.Adam(pol.parameters())
for ep in range(3):
    pr = F.softmax(pol(torch.randn(4)), -1)
    c = Categorical(pr)
    a = c.sample()
    l = -c.log_prob(a) * 1.5
    op.zero_grad()
    l.backward()
    op.step()
    print(a.item(), f"{l.item():.4f}")
print(MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.ones(2)))
