"""Read family names letter by letter: tell the language of a name, or invent new names of a language.

    python -m rushlight examples/char_rnn.py --short [--task generate]         # names made of a few syllables: seconds
    python -m rushlight examples/char_rnn.py --root data                       # the names of 18 languages: a minute
    python -m rushlight examples/char_rnn.py --root data --task generate
    python examples/char_rnn.py --root data                                    # the same program under PyTorch

Reads the data of PyTorch's tutorials on character RNNs, one file per language with one name per line:
`ROOT/names/Arabic.txt` to `ROOT/names/Vietnamese.txt`, or a folder `names` deeper in ROOT. Both networks are LSTMs:

* `classify` reads the whole name and judges its last state. It knows the language of 84 % of the names it has not seen
  (always saying "Russian" would be right for 47 %).
* `generate` is a language model: from the letters so far, and from the language, it predicts the next letter. To invent a
  name it is asked again and again and the letter is drawn from what it says, until it says that the name ends here.

Names have different lengths. The classifier packs them, so that the LSTM never sees the padding; the generator pads them and
leaves the padding out of its loss.
"""

import argparse
import pathlib
import random
import string
import unicodedata
from typing import Any

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, random_split
from tqdm import tqdm

LETTERS = string.ascii_letters + " .,;'-"
END = len(LETTERS)  # the symbol before the first letter and after the last
IGNORED = -100  # a target that cross_entropy leaves out

SYLLABLES = {
    "Lowland": ["van", "den", "berg", "huis", "dijk", "kamp", "stra", "boom"],
    "Island": ["ka", "na", "lo", "hi", "mea", "wai", "ula", "ni"],
    "Mountain": ["zur", "ko", "vich", "sky", "dra", "gor", "mir", "ev"],
}


def to_ascii(name: str) -> str:
    """The name without its accents: "Ślusàrski" becomes "Slusarski"."""
    return "".join(c for c in unicodedata.normalize("NFD", name) if c in LETTERS)


def load(args: argparse.Namespace) -> tuple[list[str], list[Any]]:
    """The languages, and the data: pairs (letters of a name as a tensor, number of its language)."""
    if args.short:
        rng = random.Random(args.seed)
        names = {
            language: [
                "".join(rng.choices(syllables, k=rng.randint(2, 3))).title() for _ in range(250)
            ]
            for language, syllables in SYLLABLES.items()
        }
    else:
        files = sorted(args.root.rglob("names/*.txt"))
        if not files:
            raise SystemExit(
                f"no names/LANGUAGE.txt in {args.root}; say with --root where they are"
            )
        names = {file.stem: file.read_text("utf-8").splitlines() for file in files}
    data = []
    for number, language in enumerate(names):
        for name in filter(None, map(to_ascii, names[language])):
            data.append((torch.tensor([LETTERS.index(c) for c in name]), number))
    return list(names), data


class Classifier(nn.Module):
    def __init__(self, n_languages: int, hidden_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 32)
        self.lstm = nn.LSTM(32, hidden_size, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.3)
        self.linear = nn.Linear(2 * hidden_size, n_languages)

    def forward(self, names: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        letters = self.embedding(names)
        packed = pack_padded_sequence(letters, lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)  # the state after the last letter of each direction
        return self.linear(self.dropout(torch.cat([hidden[0], hidden[1]], dim=1)))

    @staticmethod
    def collate(pairs: list[Any]) -> tuple[torch.Tensor, ...]:
        names, languages = zip(*pairs)
        lengths = torch.tensor([len(name) for name in names])
        return pad_sequence(names, batch_first=True), lengths, torch.tensor(languages)


class Generator(nn.Module):
    def __init__(self, n_languages: int, hidden_size: int) -> None:
        super().__init__()
        self.language = nn.Embedding(n_languages, 16)
        self.letter = nn.Embedding(len(LETTERS) + 1, 32)
        self.lstm = nn.LSTM(32 + 16, hidden_size, num_layers=2, dropout=0.2, batch_first=True)
        self.linear = nn.Linear(hidden_size, len(LETTERS) + 1)

    def forward(
        self, letters: torch.Tensor, languages: torch.Tensor, state: Any = None
    ) -> tuple[torch.Tensor, Any]:
        """Scores of the letter that follows each of `letters`, and the state of the LSTM to go on from."""
        language = self.language(languages)[:, None].expand(-1, letters.size(1), -1)
        x, state = self.lstm(torch.cat([self.letter(letters), language], dim=2), state)
        return self.linear(x).transpose(1, 2), state  # cross_entropy wants the classes second

    @staticmethod
    def collate(pairs: list[Any]) -> tuple[torch.Tensor, ...]:
        names, languages = zip(*pairs)
        end = torch.tensor([END])
        before = pad_sequence([torch.cat([end, name]) for name in names], batch_first=True)
        after = pad_sequence(
            [torch.cat([name, end]) for name in names], batch_first=True, padding_value=IGNORED
        )
        return before, torch.tensor(languages), after

    @torch.no_grad()
    def invent(self, language: int, temperature: float, longest: int = 20) -> str:
        self.eval()
        letter, state, name = torch.tensor([[END]]), None, ""
        while len(name) < longest:
            scores, state = self(letter, torch.tensor([language]), state)
            letter = torch.multinomial((scores[:, :, -1] / temperature).softmax(dim=1), 1)
            if letter.item() == END:
                break
            name += LETTERS[letter.item()]
        return name


def scores_of(model: nn.Module, inputs: list[torch.Tensor]) -> torch.Tensor:
    scores: Any = model(*inputs)
    result: torch.Tensor = scores[0] if isinstance(scores, tuple) else scores
    return result


def train_epoch(
    model: nn.Module,
    loader: DataLoader[Any],
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    title: str,
) -> float:
    model.train()
    total = 0.0
    for *inputs, targets in tqdm(loader, desc=title, leave=False):
        optimizer.zero_grad()
        loss = criterion(scores_of(model, inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[Any]) -> float:
    """The share of right answers: of languages, or of next letters."""
    model.eval()
    right = total = 0
    for *inputs, targets in loader:
        known = targets != IGNORED
        right += (scores_of(model, inputs).argmax(dim=1) == targets)[known].sum().item()
        total += known.sum().item()
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--task", choices=["classify", "generate"], default="classify")
    parser.add_argument("--short", action="store_true", help="a few epochs on made-up names")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    epochs = args.epochs or (6 if args.short else 12)

    torch.manual_seed(args.seed)
    languages, data = load(args)
    train, test = random_split(data, [0.85, 0.15])
    kind = Classifier if args.task == "classify" else Generator
    model = kind(len(languages), args.hidden_size)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=kind.collate)
    test_loader = DataLoader(test, 512, collate_fn=kind.collate)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    print(f"{len(train)} names to learn from, {len(test)} to test, {len(languages)} languages")
    for epoch in range(1, epochs + 1):
        loss = train_epoch(model, train_loader, criterion, optimizer, f"epoch {epoch}/{epochs}")
        scheduler.step()
        print(
            f"epoch {epoch:2d}  loss {loss:.4f}  test accuracy {evaluate(model, test_loader):.2%}"
        )

    if args.task == "generate":
        for number, language in enumerate(languages):
            names = [model.invent(number, args.temperature) for _ in range(4)]
            print(f"{language:12s}", ", ".join(names))


if __name__ == "__main__":
    main()
