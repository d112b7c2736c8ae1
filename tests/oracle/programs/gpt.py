"""A small GPT in the style of minGPT: training with dropout, sampling, checkpoint."""

import math
import random
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import DataLoader

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


set_seed(1337)
device = "cuda" if torch.cuda.is_available() else "cpu"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(0.1)
        self.resid_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))
        self.n_head = n_head
        self.n_embd = n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class NewGELU(nn.Module):
    def forward(self, x):
        return (
            0.5
            * x
            * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        )


class Block(nn.Module):
    def __init__(self, n, h, b):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n)
        self.attn = CausalSelfAttention(n, h, b)
        self.ln_2 = nn.LayerNorm(n)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(n, 4 * n),
                "c_proj": nn.Linear(4 * n, n),
                "act": NewGELU(),
                "dropout": nn.Dropout(0.1),
            }
        )
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlpf(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, block, n=32, h=4, L=2):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, n),
                "wpe": nn.Embedding(block, n),
                "drop": nn.Dropout(0.1),
                "h": nn.ModuleList([Block(n, h, block) for _ in range(L)]),
                "ln_f": nn.LayerNorm(n),
            }
        )
        self.lm_head = nn.Linear(n, vocab, bias=False)
        self.block = block
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * L))
        print(f"number of parameters: {sum(p.numel() for p in self.parameters()) / 1e6:.2f}M")

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)
            if m.bias is not None:
                torch.nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Embedding):
            torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)
        elif isinstance(m, nn.LayerNorm):
            torch.nn.init.zeros_(m.bias)
            torch.nn.init.ones_(m.weight)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for blk in self.transformer.h:
            x = blk(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, n, temperature=1.0, top_k=None):
        for _ in range(n):
            c = idx if idx.size(1) <= self.block else idx[:, -self.block :]
            logits, _ = self(c)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, top_k)
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


class CharDataset(Dataset):
    def __init__(self, data, block):
        chars = sorted(set(data))
        self.stoi = {c: i for i, c in enumerate(chars)}
        self.itos = {i: c for c, i in self.stoi.items()}
        self.data = data
        self.block = block
        self.vocab = len(chars)

    def __len__(self):
        return len(self.data) - self.block

    def __getitem__(self, i):
        d = [self.stoi[c] for c in self.data[i : i + self.block + 1]]
        return torch.tensor(d[:-1], dtype=torch.long), torch.tensor(d[1:], dtype=torch.long)


text = "the quick brown fox jumps over the lazy dog. " * 40
ds = CharDataset(text, 16)
model = GPT(ds.vocab, 16).to(device)
model.train()
decay = [p for n, p in model.named_parameters() if p.dim() >= 2]
nodecay = [p for n, p in model.named_parameters() if p.dim() < 2]
opt = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": nodecay, "weight_decay": 0.0}],
    lr=3e-3,
    betas=(0.9, 0.95),
)
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda it: min(1, (it + 1) / 10) * 0.5 * (1 + math.cos(math.pi * it / 60))
)
loader = DataLoader(
    ds,
    sampler=torch.utils.data.RandomSampler(ds, replacement=True, num_samples=int(1e6)),
    shuffle=False,
    pin_memory=True,
    batch_size=16,
    num_workers=0,
)
ctx = (
    nullcontext()
    if device == "cpu"
    else torch.amp.autocast(device_type=device, dtype=torch.bfloat16)
)
scaler = torch.cuda.amp.GradScaler(enabled=False)
it = 0
for x, y in loader:
    x, y = [t.to(device) for t in (x, y)]
    with ctx:
        _, loss = model(x, y)
    model.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    g = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    sched.step()
    if it % 6 == 0:
        print(it, f"{loss.item():.4f} {g.item():.4f} {sched.get_last_lr()[0]:.6f}")
    it += 1
    if it >= 40:
        break
model.eval()
out = model.generate(torch.zeros((1, 1), dtype=torch.long), 30, top_k=5)
print("".join(ds.itos[int(i)] for i in out[0]))
import io

f = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, f)
f.seek(0)
ck = torch.load(f, map_location=device)
print(model.load_state_dict(ck["model"]), len(ck["optimizer"]["state"]))
