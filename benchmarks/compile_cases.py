"""Steps for `compile.py`, for every library that has PyTorch's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mlp(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(64, 64), torch.randint(0, 10, (64,)))


def cnn(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,)))


def resnet(torch: Any) -> Callable[[], Any]:
    from training import resnet18

    model = resnet18(torch)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return step_of(torch, model, optimizer, torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))


def vae(torch: Any) -> Callable[[], Any]:
    nn, F = torch.nn, torch.nn.functional
    encode, mean, spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
    decode = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid())
    parts = nn.ModuleList([encode, mean, spread, decode])
    optimizer = torch.optim.Adam(parts.parameters(), 1e-3)
    x = torch.rand(64, 784)

    def step() -> Any:
        optimizer.zero_grad()
        h = F.relu(encode(x))
        mu, log_var = mean(h), spread(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
        y = decode(z)
        loss = F.binary_cross_entropy(y, x, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
        loss.backward()
        optimizer.step()
        return loss

    return step


def pinn(torch: Any) -> Callable[[], Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x = torch.linspace(0, 1, 200).reshape(-1, 1)

    def step() -> Any:
        optimizer.zero_grad()
        t = x.clone().requires_grad_()
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        loss = (ddu + u).square().mean() + u[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt(torch: Any) -> Callable[[], Any]:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(64), nn.LayerNorm(64)
            self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
            self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

        def forward(self, x: Any) -> Any:
            b, n, c = x.shape
            q, k, v = (
                t.view(b, n, 4, c // 4).transpose(1, 2) for t in self.qkv(self.first(x)).split(c, 2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
            return x + self.mlp(self.second(x))

    model = nn.Sequential(
        nn.Embedding(100, 64), Block(), Block(), nn.LayerNorm(64), nn.Linear(64, 100)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, y = torch.randint(0, 100, (8, 64)), torch.randint(0, 100, (8, 64))

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def step_of(torch: Any, model: Any, optimizer: Any, x: Any, y: Any) -> Callable[[], Any]:
    """A training step of a classifier."""

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def mixer(torch: Any) -> Callable[[], Any]:
    """Four layers of MLP-mixer (Tolstikhin et al. 2021) on patches of 4 x 4 of images of 32 x 32."""
    nn = torch.nn

    def perceptron(a: int, b: int) -> Any:
        return nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.Linear(b, a))

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(128), nn.LayerNorm(128)
            self.places, self.channels = perceptron(64, 64), perceptron(128, 256)

        def forward(self, x: Any) -> Any:
            x = x + self.places(self.first(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.second(x))

    class Mixer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 128, 4, 4)
            self.layers = nn.Sequential(*[Layer() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            return self.head(self.norm(self.layers(x)).mean(1))

    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))


def gru(torch: Any) -> Callable[[], Any]:
    """A GRU as a loop over a cell: 16 sequences of 20 steps, 32 values in, 64 cells."""
    nn = torch.nn

    class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRUCell(32, 64), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            h = torch.zeros(x.shape[1], 64)
            for t in range(x.shape[0]):
                h = self.cell(x[t], h)
            return self.head(h)

    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return step_of(torch, model, optimizer, torch.randn(20, 16, 32), torch.randint(0, 10, (16,)))


def unet(torch: Any) -> Callable[[], Any]:
    """A U-Net (Ronneberger et al. 2015) of two levels, images of 32 x 32, two classes for each pixel."""
    nn, F = torch.nn, torch.nn.functional

    def block(a: int, b: int) -> Any:
        layers = [nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(b, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU())

    class UNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.middle = block(3, 16), block(16, 32), block(32, 64)
            self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.join2, self.join1 = block(64, 32), block(32, 16)
            self.head = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.middle(F.max_pool2d(b, 2))
            b = self.join2(torch.cat([self.up2(c), b], 1))
            return self.head(self.join1(torch.cat([self.up1(b), a], 1)))

    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 2, (4, 32, 32))
    return step_of(torch, model, optimizer, x, y)


def image(torch: Any) -> Callable[[], Any]:
    """What ResNet-18 says of one image."""
    from training import resnet18

    model, x = resnet18(torch).eval(), torch.randn(1, 3, 32, 32)

    def step() -> Any:
        with torch.no_grad():
            return model(x)

    return step


def token(torch: Any) -> Callable[[], Any]:
    """The next token of a GPT behind 64 others, whose keys and values are known."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.mlp = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            q, k, v = (
                t.view(1, 1, 4, 32).transpose(1, 2) for t in self.qkv(self.first(x)).split(128, 2)
            )
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            y = F.scaled_dot_product_attention(q, keys, values)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, 128))
            return x + self.mlp(self.second(x))

    words, blocks = nn.Embedding(100, 128), nn.ModuleList([Block() for _ in range(4)])
    norm, head = nn.LayerNorm(128), nn.Linear(128, 100)
    known = [(torch.randn(1, 4, 64, 32), torch.randn(1, 4, 64, 32)) for _ in range(4)]
    last = torch.randint(0, 100, (1, 1))

    def step() -> Any:
        with torch.no_grad():
            x = words(last)
            for block, (keys, values) in zip(blocks, known):
                x = block(x, keys, values)
            return head(norm(x))

    return step


TRAINING = {f.__name__: f for f in (mlp, cnn, resnet, gpt, vae, mixer, pinn, gru, unet)}
INFERENCE = {f.__name__: f for f in (image, token)}
CASES = TRAINING | INFERENCE
