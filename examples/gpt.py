"""Train a small GPT, letter by letter, on the plays of Shakespeare, and let it write.

    python -m rushlight examples/gpt.py --short                                # a text made of sums, 27+15=42: seconds
    python -m rushlight examples/gpt.py --root data [--steps 1000]             # Shakespeare, or any other input.txt
    python -m rushlight examples/gpt.py --root data --resume out/gpt.pt --steps 2000        # goes on from a checkpoint
    python -m rushlight examples/gpt.py --sample out/gpt.pt --start "ROMEO:" --temperature 0.8 --top-k 20
    python examples/gpt.py --root data                                         # the same program under PyTorch

Reads `ROOT/tinyshakespeare/input.txt` or `ROOT/input.txt`. The network is a decoder-only transformer with a layer norm
before each part, as in GPT-2, and 0.8 million parameters in four layers. What is usual in training one is here: AdamW that
decays matrices only, a learning rate that warms up and then falls along a cosine, gradients clipped by their norm, and
checkpoints that hold all that is needed to go on. A thousand steps take about seven minutes of one core. With `--steps 300`
the validation loss falls from 4.1737 nats per letter (a blind guess among 65 letters has 4.1744) to 2.4033; PyTorch prints
the same numbers and writes the same text.
"""

import argparse
import math
import pathlib
import random
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import trange


@dataclass
class Config:
    vocabulary: str = ""
    context: int = 128
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.1


class Attention(nn.Module):
    """Every letter looks at those before it, in several heads at once."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        qkv = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each [batch, head, time, width of a head]
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        letters = len(config.vocabulary)
        self.letter = nn.Embedding(letters, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, letters, bias=False)
        self.head.weight = self.letter.weight  # one table to read and to write letters
        self.apply(self.initialise)
        for block in self.blocks:  # what is added to the stream: less, the more often it is done
            for layer in (block.attention.out, block.mlp[2]):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * config.layers))

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, letters: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        position = torch.arange(letters.size(1), device=letters.device)
        x = self.dropout(self.letter(letters) + self.position(position))
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x))
        if targets is None:
            return scores
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def write(
        self, start: str, length: int, temperature: float = 1.0, top_k: int | None = None
    ) -> str:
        """`start` and `length` letters more. A low temperature and a small `top_k` keep to what is likely."""
        self.eval()
        vocabulary = self.config.vocabulary
        text = torch.tensor([[vocabulary.index(c) for c in start]])
        for _ in range(length):
            scores = self(text[:, -self.config.context :])[:, -1] / temperature
            if top_k is not None:
                kept, _ = scores.topk(min(top_k, scores.size(-1)))
                scores = scores.masked_fill(scores < kept[:, -1:], float("-inf"))
            text = torch.cat([text, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        return "".join(vocabulary[i] for i in text[0].tolist())


def load_text(args: argparse.Namespace) -> str:
    if args.short:  # a text with something to learn in it
        rng = random.Random(args.seed)
        pairs = [(rng.randrange(50), rng.randrange(50)) for _ in range(4000)]
        return "".join(f"{a}+{b}={a + b};" for a, b in pairs)
    for path in (args.root / "tinyshakespeare" / "input.txt", args.root / "input.txt"):
        if path.exists():
            text: str = path.read_text("utf-8")
            return text
    raise SystemExit(f"{path} is not there; say with --root where the text is")


def batch(letters: torch.Tensor, config: Config, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`size` pieces of the text from places drawn at random, and the letter that follows each of theirs."""
    starts = torch.randint(len(letters) - config.context, (size,))
    pieces = torch.stack([letters[i : i + config.context + 1] for i in starts])
    return pieces[:, :-1], pieces[:, 1:]


def make_optimizer(
    model: nn.Module, args: argparse.Namespace
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW with weight decay for the matrices, not for biases and norms; linear warmup, half a cosine down to a tenth."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.99))
    warmup = args.steps // 20

    def share_of_lr(step: int) -> float:
        if step < warmup:
            return float((step + 1) / warmup)
        angle = math.pi * (step - warmup) / (args.steps - warmup)
        return 0.55 + 0.45 * math.cos(angle)

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_lr)


@torch.no_grad()
def evaluate(
    model: GPT, letters: torch.Tensor, args: argparse.Namespace, batches: int = 10
) -> float:
    model.eval()
    losses = [model(*batch(letters, model.config, args.batch_size)) for _ in range(batches)]
    model.train()
    return float(torch.stack(losses).mean())


def train(args: argparse.Namespace) -> GPT:
    text = load_text(args)
    config = Config(vocabulary="".join(sorted(set(text))))
    if args.short:
        config.context, config.layers, config.width = 32, 2, 64
    checkpoint = torch.load(args.resume) if args.resume else None
    if checkpoint:
        config = Config(**checkpoint["config"])
    letters = torch.tensor([config.vocabulary.index(c) for c in text])
    training, validation = letters[: -len(letters) // 10], letters[-len(letters) // 10 :]

    model = GPT(config)
    optimizer, schedule = make_optimizer(model, args)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first = 0
    if checkpoint:
        first = checkpoint["step"]
        for name, part in parts.items():
            part.load_state_dict(checkpoint[name])
        torch.set_rng_state(checkpoint["rng"])
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(text):,} letters")

    args.out.mkdir(parents=True, exist_ok=True)
    model.train()
    for step in trange(first, args.steps + 1, initial=first, total=args.steps):
        if step % args.report == 0 or step == args.steps:
            state = {name: part.state_dict() for name, part in parts.items()}
            state |= {"config": asdict(config), "rng": torch.get_rng_state(), "step": step}
            torch.save(state, args.out / "gpt.pt")
            print(f"step {step:5d}  validation loss {evaluate(model, validation, args):.4f}")
        if step == args.steps:
            break
        loss = model(*batch(training, config, args.batch_size))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--short", action="store_true", help="a tiny network, on a text of sums")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--report", type=int, default=50, help="evaluate and save after so many")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--resume", type=pathlib.Path, metavar="CHECKPOINT", help="train on")
    parser.add_argument("--sample", type=pathlib.Path, metavar="CHECKPOINT", help="only write")
    parser.add_argument("--start", help="what the written text starts with")
    parser.add_argument("--length", type=int, help="how many letters to write")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    args = parser.parse_args()
    args.steps = args.steps or (150 if args.short else 1000)
    args.start = args.start or (";" if args.short else "\n")
    args.length = args.length or (40 if args.short else 400)

    torch.manual_seed(args.seed)
    if args.sample:
        checkpoint = torch.load(args.sample)
        model = GPT(Config(**checkpoint["config"]))
        model.load_state_dict(checkpoint["model"])
    else:
        model = train(args)
    print(model.write(args.start, args.length, args.temperature, args.top_k))


if __name__ == "__main__":
    main()
