"""A DCGAN that draws clothes (Radford, Metz and Chintala 2016, "Unsupervised Representation Learning with Deep
Convolutional Generative Adversarial Networks").

    python -m rushlight examples/dcgan.py --short             # the 8x8 digits that ship with Rushlight: seconds
    python -m rushlight examples/dcgan.py --root data --out out                  # FashionMNIST; or --dataset MNIST
    python examples/dcgan.py --root data                      # the same program under PyTorch

Reads `ROOT/FashionMNIST/raw/train-images-idx3-ubyte.gz`, as `torchvision.datasets.FashionMNIST` leaves it there. Two
networks play against each other: the generator turns noise into images, the discriminator scores how real an image looks.
The guidelines of the paper's section 3 hold: strided convolutions instead of pooling, batch norm in both networks but for
the generator's output and the discriminator's input, ReLU and tanh in the one, leaky ReLU in the other, weights drawn from
N(0, 0.02), Adam with a first momentum of 0.5.

The losses of such a game do not fall: what one player wins the other loses. At a standoff D(x) and D(G(z)), the mean
probabilities of being real that are given to real and to drawn images, come near to each other; expect 0.68 and 0.32 in the
second epoch of FashionMNIST. `--out FOLDER` leaves there what the generator draws from the same 64 codes after every epoch
(written by `torchvision.utils.save_image`, which Rushlight has too).
"""

import argparse
import gzip
import pathlib
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def generator(latent: int, width: int, size: int) -> nn.Sequential:
    """From codes `[N, latent, 1, 1]` to images `[N, 1, size, size]` in -1..1: each layer doubles the side."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 4 * width, kernel_size=size // 4, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(4 * width, 2 * width, kernel_size=4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(2 * width, 1, kernel_size=4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(width: int, size: int) -> nn.Sequential:
    """From images to scores `[N]`, the logits of the probability that an image is real: the way back."""
    return nn.Sequential(
        nn.Conv2d(1, 2 * width, kernel_size=4, stride=2, padding=1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 4 * width, kernel_size=4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(4 * width, 1, kernel_size=size // 4),
        nn.Flatten(start_dim=0),
    )


def weights_init(module: nn.Module) -> None:
    """For `Module.apply`, which calls it with every layer of a network."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def load(args: argparse.Namespace) -> torch.Tensor:
    """Images `[N, 1, size, size]` in -1..1, the range of the generator's tanh."""
    if args.short:
        from rushlight.data import digits

        return torch.from_numpy(digits()[0].astype(np.float32) / 8 - 1).unsqueeze(1)
    path = args.root / args.dataset / "raw" / "train-images-idx3-ubyte.gz"
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16)
    return torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 127.5 - 1)


def train_epoch(
    G: nn.Module,
    D: nn.Module,
    loader: DataLoader[Any],
    optimizer_G: torch.optim.Optimizer,
    optimizer_D: torch.optim.Optimizer,
    latent: int,
    title: str,
) -> list[float]:
    """The means over the epoch of both losses and of both probabilities."""
    criterion = nn.BCEWithLogitsLoss()
    sums = np.zeros(4)
    bar = tqdm(loader, desc=title, leave=False)
    for (real,) in bar:
        real_label, fake_label = torch.ones(len(real)), torch.zeros(len(real))
        fake = G(torch.randn(len(real), latent, 1, 1))

        # The discriminator learns to tell them apart. Two batches, not one of both: batch norm must not mix them. Its loss
        # is no business of the generator's: detach() keeps the gradient out of there.
        optimizer_D.zero_grad()
        real_score, fake_score = D(real), D(fake.detach())
        loss_D = criterion(real_score, real_label) + criterion(fake_score, fake_label)
        loss_D.backward()
        optimizer_D.step()

        # The generator learns to be taken for real: -log D(G(z)), which has a slope also where log(1 - D(G(z))) has none.
        optimizer_G.zero_grad()
        loss_G = criterion(D(fake), real_label)
        loss_G.backward()
        optimizer_G.step()

        means = real_score.sigmoid().mean(), fake_score.sigmoid().mean()
        sums += [value.item() for value in (loss_D, loss_G, *means)]
        bar.set_postfix(D=f"{loss_D.item():.3f}", G=f"{loss_G.item():.3f}")
    return list(sums / len(loader))


def main() -> None:
    parser = argparse.ArgumentParser(description="DCGAN on small grey images")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--dataset", choices=["FashionMNIST", "MNIST"], default="FashionMNIST")
    parser.add_argument("--short", action="store_true", help="small networks on 8x8 digits")
    parser.add_argument("--epochs", type=int, help="5, or 3 with --short")
    parser.add_argument("--limit", type=int, help="train on the first LIMIT images only")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, help="folder for pictures; none by default")
    args = parser.parse_args()
    epochs = args.epochs or (3 if args.short else 5)
    latent, width = (16, 8) if args.short else (100, 16)

    torch.manual_seed(args.seed)
    images = load(args)[: args.limit]
    loader = DataLoader(
        TensorDataset(images), batch_size=args.batch_size, shuffle=True, drop_last=True
    )
    G = generator(latent, width, images.shape[-1]).apply(weights_init)
    D = discriminator(width, images.shape[-1]).apply(weights_init)
    optimizer_G = torch.optim.Adam(G.parameters(), lr=args.lr, betas=(0.5, 0.999))
    optimizer_D = torch.optim.Adam(D.parameters(), lr=args.lr, betas=(0.5, 0.999))
    codes = torch.randn(64, latent, 1, 1)

    for epoch in range(1, epochs + 1):
        loss_D, loss_G, real, fake = train_epoch(
            G, D, loader, optimizer_G, optimizer_D, latent, f"epoch {epoch}/{epochs}"
        )
        print(
            f"epoch {epoch}  discriminator loss {loss_D:.4f}  generator loss {loss_G:.4f}  "
            f"D(x) {real:.4f}  D(G(z)) {fake:.4f}"
        )
        if args.out:
            from torchvision.utils import save_image

            args.out.mkdir(parents=True, exist_ok=True)
            with torch.no_grad():
                drawn = G.eval()(codes)
            G.train()
            path = args.out / f"dcgan_{epoch:02d}.png"
            save_image(drawn, path, nrow=8, normalize=True, value_range=(-1, 1))


if __name__ == "__main__":
    main()
