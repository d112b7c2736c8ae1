"""Train a ResNet-20 (He 2015, section 4.2) on CIFAR-10: 50,000 colour pictures of 32x32 in ten classes.

    python -m rushlight examples/cifar_resnet.py [--root data] [--epochs 10] [--batch-size 128] [--lr 0.1] [--workers 2]
    python -m rushlight examples/cifar_resnet.py --fake 256 --epochs 1

Reads `ROOT/cifar-10-batches-py` and downloads it when it is missing; `--fake N` trains on N pictures of noise instead.
Prints the loss and the test accuracy of every epoch and leaves a checkpoint, `cifar_resnet.pt`, in `--out`.
Written for PyTorch and torchvision: `python examples/cifar_resnet.py` runs it there.
"""

import argparse
import pathlib
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
import torchvision.transforms as transforms
from torch.utils.data import DataLoader
from torchvision.models.resnet import BasicBlock

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class CifarResNet(nn.Module):
    """Three stages of `n` blocks, 16, 32 and 64 channels wide: 6 n + 2 layers."""

    def __init__(self, n: int = 3, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        )
        blocks, width = [], 16
        for out, stride in ((16, 1), (32, 2), (64, 2)):
            for i in range(n):
                first = i == 0 and stride != 1
                shortcut = None
                if first:
                    shortcut = nn.Sequential(
                        nn.Conv2d(width, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
                    )
                blocks.append(BasicBlock(width, out, stride if first else 1, shortcut))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def load(args: argparse.Namespace) -> tuple[Any, Any]:
    """(train, test) as data sets."""
    plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    varied = transforms.Compose(
        [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), plain]
    )
    if args.fake:
        shape = (3, 32, 32)
        return (
            torchvision.datasets.FakeData(args.fake, shape, transform=varied),
            torchvision.datasets.FakeData(
                args.fake // 4, shape, transform=plain, random_offset=args.fake
            ),
        )
    return (
        torchvision.datasets.CIFAR10(args.root, train=True, transform=varied, download=True),
        torchvision.datasets.CIFAR10(args.root, train=False, transform=plain, download=True),
    )


def train_epoch(
    model: nn.Module,
    loader: DataLoader[Any],
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    model.train()
    total = count = 0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(labels)
        count += len(labels)
    return total / count


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    right = count = 0
    for images, labels in loader:
        right += (model(images).argmax(1) == labels).sum().item()
        count += len(labels)
    return right / count


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-20 on CIFAR-10")
    parser.add_argument("--root", default="data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--fake", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, test = load(args)
    train_loader = DataLoader(
        train, batch_size=args.batch_size, shuffle=True, num_workers=args.workers
    )
    test_loader = DataLoader(test, batch_size=256, num_workers=args.workers)
    model = CifarResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.epochs * len(train_loader)
    )
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, train_loader, criterion, optimizer, scheduler)
        print(f"epoch {epoch} loss {loss:.4f} test accuracy {accuracy(model, test_loader):.2%}")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "epochs": args.epochs}, args.out / "cifar_resnet.pt")


if __name__ == "__main__":
    main()
