"""Train a convolutional network on FashionMNIST: 60,000 pictures of clothes, 28x28, in ten classes.

    python examples/fashion_mnist.py [--root data] [--epochs 3] [--batch-size 128] [--lr 2e-3] [--seed 0] [--out out]

Reads the four original IDX files from `ROOT/FashionMNIST/raw` (or from ROOT itself) and downloads those that are missing.
Prints the loss and the test accuracy of every epoch, and leaves in `--out` a checkpoint (`fashion_mnist.pt`, which PyTorch
reads too) and a picture (`fashion_mnist.png`) of the loss curve, of some predictions and of the confusion matrix.
"""

import argparse
import gzip
import hashlib
import pathlib
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
CLASSES = [
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
]


def find(root: pathlib.Path, name: str) -> pathlib.Path:
    """The path of one of the four files under `root`, downloaded if it is not there; its checksum is always checked."""
    for folder in (root / "FashionMNIST" / "raw", root):
        if (folder / name).exists():
            path = folder / name
            break
    else:
        path = root / "FashionMNIST" / "raw" / name
        try:
            with urllib.request.urlopen(URL + name, timeout=30) as answer:
                content = answer.read()
        except (urllib.error.URLError, OSError) as error:
            sys.exit(
                f"{path} is not there and {URL + name} cannot be reached ({error}).\n"
                f"Put the four files {', '.join(MD5)} into {path.parent}, or name their folder with --root."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    if digest != MD5[name]:
        sys.exit(
            f"{path} is damaged: its MD5 is {digest}, not {MD5[name]}. Remove it and run again."
        )
    return path


def read_idx(path: pathlib.Path) -> np.ndarray:
    """The array in a gzipped IDX file of bytes: magic 0, 0, 8 (uint8), number of dimensions; sizes; then the data."""
    with gzip.open(path) as file:
        content = file.read()
    if content[:3] != b"\0\0\x08":
        sys.exit(f"{path} is not an IDX file of unsigned bytes: it starts with {content[:4]!r}.")
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape).copy()


def load(root: pathlib.Path, part: str) -> TensorDataset:
    images = torch.from_numpy(read_idx(find(root, f"{part}-images-idx3-ubyte.gz")))
    labels = torch.from_numpy(read_idx(find(root, f"{part}-labels-idx1-ubyte.gz"))).long()
    images = (
        images.float().unsqueeze(1) / 255.0 - 0.2860
    ) / 0.3530  # mean and deviation of the training set
    return TensorDataset(images, labels)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.dropout = nn.Dropout(0.2)
        self.fc1 = nn.Linear(32 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc2(self.dropout(x))


def train_epoch(
    model: nn.Module, loader: DataLoader[Any], optimizer: torch.optim.Optimizer, title: str
) -> list[float]:
    model.train()
    losses = []
    bar = tqdm(loader, desc=title, leave=False)
    for images, labels in bar:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
    return losses


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[Any]) -> tuple[float, torch.Tensor]:
    """The mean loss, and the confusion matrix: how many pictures of a class (row) the network takes for which (column)."""
    model.eval()
    n = len(CLASSES)
    loss, counts = 0.0, torch.zeros(n, n, dtype=torch.int64)
    for images, labels in loader:
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        counts += torch.bincount(n * labels + scores.argmax(dim=1), minlength=n * n).view(n, n)
    return loss / counts.sum().item(), counts


@torch.no_grad()
def draw(
    model: nn.Module,
    test: TensorDataset,
    losses: list[float],
    counts: torch.Tensor,
    path: pathlib.Path,
) -> None:
    """The loss of every step, sixteen test pictures with what the network says (red where it is wrong), the confusion matrix."""
    model.eval()
    images, labels = test[:16]
    said = model(images).argmax(dim=1)
    figure = plt.figure(figsize=(16, 5), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, squeeze=False)[0]
    axes = left.subplots()
    axes.plot(losses, linewidth=0.7)
    axes.set(xlabel="step", ylabel="cross-entropy", title="training loss")
    for image, label, guess, axes in zip(images, labels, said, middle.subplots(4, 4).flat):
        axes.imshow(image[0].numpy(), cmap="gray_r")
        axes.set_title(
            CLASSES[guess.item()], color="black" if guess == label else "red", fontsize=9
        )
        axes.axis("off")
    axes = right.subplots()
    axes.imshow(counts.log1p().numpy(), cmap="Blues")  # the logarithm shows the rare ones, too
    for label, guess in counts.nonzero().tolist():
        number = counts[label, guess].item()
        color = "white" if label == guess else "black"
        axes.text(guess, label, str(number), ha="center", va="center", color=color, fontsize=7)
    axes.set(xlabel="the network says", title="confusion matrix of the test pictures")
    axes.set_xticks(range(len(CLASSES)), CLASSES, rotation=90)
    axes.set_yticks(range(len(CLASSES)), CLASSES)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader = DataLoader(load(args.root, "train"), batch_size=args.batch_size, shuffle=True)
    test = load(args.root, "t10k")
    test_loader = DataLoader(test, batch_size=500)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    losses: list[float] = []
    share, counts = 0.0, torch.zeros(len(CLASSES), len(CLASSES))
    start = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        new = train_epoch(model, train_loader, optimizer, f"epoch {epoch}/{args.epochs}")
        losses += new
        test_loss, counts = evaluate(model, test_loader)
        share = counts.trace().item() / counts.sum().item()
        mean = sum(new) / len(new)
        print(
            f"epoch {epoch}  loss {mean:.4f}  test loss {test_loss:.4f}  test accuracy {share:.2%}"
        )

    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), args.out / "fashion_mnist.pt")
    draw(model, test, losses, counts, args.out / "fashion_mnist.png")
    print(f"saved {args.out / 'fashion_mnist.pt'} and {args.out / 'fashion_mnist.png'}")
    print(f"test accuracy {share:.2%} after {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
