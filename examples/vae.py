"""A variational autoencoder of handwritten digits (Kingma and Welling 2014, "Auto-Encoding Variational Bayes").

    python -m rushlight examples/vae.py --short           # the 8x8 digits that ship with Rushlight: seconds
    python -m rushlight examples/vae.py --root data       # MNIST; or --dataset FashionMNIST
    python examples/vae.py --root data                    # the same program under PyTorch

Reads `ROOT/MNIST/raw/*-images-idx3-ubyte.gz`, the files that `torchvision.datasets.MNIST` downloads. An encoder turns an
image into a Gaussian over codes z, a decoder turns a sample of it back into an image, and both learn by the negative of
the evidence lower bound (ELBO): how badly the image is described given z, plus the divergence of z from a standard
Gaussian, both in nats per image and printed after every epoch. Expect a test loss of 105.7 after ten epochs of MNIST. With
`--out FOLDER` two pictures are left there: `test.png`, test images above what comes back of them, and `sample.png`, images
decoded from random codes (written by `torchvision.utils.save_image`, which Rushlight has too).
"""

import argparse
import gzip
import pathlib
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class VAE(nn.Module):
    def __init__(self, pixels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels)
        )

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x)
        return self.mean(hidden), self.log_variance(hidden)

    def reparametrise(self, mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
        """A sample of N(mean, variance), written as a function of outside noise: it has gradients in both parameters."""
        return mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, log_variance = self.encode(x)
        logits = self.decoder(self.reparametrise(mean, log_variance))
        return logits.view_as(x), mean, log_variance


def negative_elbo(
    x: torch.Tensor, logits: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The two parts of the loss, summed over the batch; the second is the closed form of the paper's appendix B."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return reconstruction, divergence


def read_images(path: pathlib.Path) -> torch.Tensor:
    """The images of a gzipped IDX file as float32 `[N, 1, 28, 28]` in 0..1: 16 bytes of header, then the pixels."""
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16)
    return torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 255)


def load(args: argparse.Namespace) -> tuple[torch.Tensor, ...]:
    """The images for training and for testing."""
    if args.short:
        from rushlight.data import digits

        images = torch.from_numpy(digits()[0].astype(np.float32) / 16).unsqueeze(1)
        return images[:1500], images[1500:]
    raw = args.root / args.dataset / "raw"
    return tuple(read_images(raw / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))


def train_epoch(
    model: nn.Module, loader: DataLoader[Any], optimizer: torch.optim.Optimizer, title: str
) -> list[float]:
    """The mean (reconstruction, divergence) of an image while the network learns."""
    model.train()
    sums = torch.zeros(2)
    bar = tqdm(loader, desc=title, leave=False)
    for (x,) in bar:
        reconstruction, divergence = negative_elbo(x, *model(x))
        loss = (reconstruction + divergence) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums += torch.stack([reconstruction, divergence]).detach()
        bar.set_postfix(loss=f"{loss.item():.2f}")
    means: list[float] = (sums / len(loader.dataset)).tolist()
    return means


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    losses = [torch.stack(negative_elbo(x, *model(x))).sum().item() for (x,) in loader]
    return float(sum(losses) / len(loader.dataset))


@torch.no_grad()
def draw(model: nn.Module, test: torch.Tensor, codes: torch.Tensor, folder: pathlib.Path) -> None:
    from torchvision.utils import save_image

    model.eval()
    folder.mkdir(parents=True, exist_ok=True)
    x = test[:8]
    back = torch.sigmoid(model.decoder(model.encode(x)[0])).view_as(x)
    save_image(torch.cat([x, back]), folder / "test.png", nrow=8)
    sample = torch.sigmoid(model.decoder(codes)).view(-1, *x.shape[1:])
    save_image(sample, folder / "sample.png", nrow=8)
    print(f"saved {folder / 'test.png'} and {folder / 'sample.png'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--dataset", choices=["MNIST", "FashionMNIST"], default="MNIST")
    parser.add_argument("--short", action="store_true", help="a small network on 8x8 digits")
    parser.add_argument("--epochs", type=int, help="10, or 5 with --short")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, help="folder for pictures; none by default")
    args = parser.parse_args()
    epochs = args.epochs or (5 if args.short else 10)
    hidden, latent = (64, 8) if args.short else (400, 20)

    torch.manual_seed(args.seed)
    train, test = load(args)
    train_loader = DataLoader(TensorDataset(train), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(test), batch_size=500)
    model = VAE(train[0].numel(), hidden, latent)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    codes = torch.randn(
        64, latent
    )  # drawn once, so that pictures of different lengths of training compare

    for epoch in range(1, epochs + 1):
        parts = train_epoch(model, train_loader, optimizer, f"epoch {epoch}/{epochs}")
        print(
            f"epoch {epoch:2d}  loss {sum(parts):.4f} = reconstruction {parts[0]:.4f} + "
            f"divergence {parts[1]:.4f}  test loss {evaluate(model, test_loader):.4f}"
        )
    if args.out:
        draw(model, test, codes, args.out)


if __name__ == "__main__":
    main()
