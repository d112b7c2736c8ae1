"""Train a small convolutional network on the UCI handwritten digits, which ship with the package.

    python examples/digits.py [--epochs 20] [--batch-size 64] [--lr 2e-3] [--seed 0] [--out out]

Prints the loss and the test accuracy of every epoch, and leaves in the folder `--out` a checkpoint (`digits.pt`, which
PyTorch reads too) and a picture (`digits.png`) of the loss curve, of some predictions and of the confusion matrix. Takes a few seconds.
"""

import argparse
import pathlib
import time
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import rushlight as torch
import rushlight.nn as nn
from rushlight.data import digits
from rushlight.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classifier(self.features(x))
        return scores


def load(test_share: float = 0.2) -> tuple[TensorDataset, TensorDataset]:
    """The data set as (train, test), in an order drawn from the seed."""
    pixels, numbers = digits()
    images = torch.from_numpy(pixels).float().unsqueeze(1) / 16.0
    labels = torch.from_numpy(numbers)
    order = torch.randperm(len(labels))
    cut = int(len(labels) * (1.0 - test_share))
    train, test = order[:cut], order[cut:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def train_epoch(
    model: nn.Module,
    loader: DataLoader[Any],
    loss_fn: nn.Module,
    optimizer: torch.optim.Optimizer,
    title: str,
) -> list[float]:
    model.train()
    losses = []
    bar = tqdm(loader, desc=title, leave=False)
    for images, labels in bar:
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    right = total = 0
    for images, labels in loader:
        right += (model(images).argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return right / total


@torch.no_grad()
def draw(model: nn.Module, test: TensorDataset, losses: list[float], path: pathlib.Path) -> None:
    """The loss of every step, sixteen test images with what the network says (red where it is wrong), and how often it says what."""
    model.eval()
    images, labels = test[:]
    said = model(images).argmax(dim=1)
    figure = plt.figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, squeeze=False)[0]
    axes = left.subplots()
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="cross-entropy", yscale="log", title="training loss")
    for image, label, guess, axes in zip(images, labels, said, middle.subplots(4, 4).flat):
        axes.imshow(image[0].numpy(), cmap="gray_r")
        axes.set_title(str(guess.item()), color="black" if guess == label else "red", fontsize=10)
        axes.axis("off")
    counts = torch.bincount(10 * labels + said, minlength=100).reshape(10, 10)
    axes = right.subplots()
    axes.imshow(counts.log1p().numpy(), cmap="Blues")  # the logarithm shows the rare ones, too
    for label, guess in counts.nonzero().tolist():
        number = counts[label, guess].item()
        color = "white" if label == guess else "black"
        axes.text(guess, label, str(number), ha="center", va="center", color=color, fontsize=8)
    axes.set(xlabel="the network says", ylabel="digit", title="confusion matrix of the test images")
    axes.set(xticks=range(10), yticks=range(10))
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    start = time.perf_counter()
    train, test = load()
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test, batch_size=256)
    model = Net()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    losses: list[float] = []
    share = 0.0
    for epoch in range(1, args.epochs + 1):
        new = train_epoch(model, train_loader, loss_fn, optimizer, f"epoch {epoch}/{args.epochs}")
        losses += new
        share = accuracy(model, test_loader)
        print(f"epoch {epoch:2d}  loss {sum(new) / len(new):.4f}  test accuracy {share:.2%}")

    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epochs": args.epochs,
        "test_accuracy": share,
    }
    torch.save(checkpoint, args.out / "digits.pt")
    draw(model, test, losses, args.out / "digits.png")

    # What was saved is what comes back: a new network with the file's weights must agree with the one just trained.
    again = Net()
    again.load_state_dict(torch.load(args.out / "digits.pt")["model"])
    assert accuracy(again, test_loader) == share
    print(f"saved {args.out / 'digits.pt'} and {args.out / 'digits.png'}")
    print(f"test accuracy {share:.2%} after {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
