"""The same script, seed and data in PyTorch and in Rushlight: the same losses for 100 steps."""

from __future__ import annotations

import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

STEPS = 100


def mlp(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(128, 64),
        nn.Tanh(),
        nn.Linear(64, 10),
    )


def cnn(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=1, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(64, 10),
    )


OPTIMIZERS = {
    "sgd": lambda torch, p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4),
    "adam": lambda torch, p: torch.optim.Adam(p, lr=1e-3),
    "adamw": lambda torch, p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.05),
}


def losses(torch, model, optimizer):
    """Train on the digits, shuffled by the library's own loader; the loss of every step."""
    from rushlight.data import digits

    torch.manual_seed(7)
    images, labels = (torch.from_numpy(a) for a in digits())
    data = torch.utils.data.TensorDataset(images.reshape(-1, 64).float() / 16, labels.long())
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    net = model(torch)
    optimizer = OPTIMIZERS[optimizer](torch, net.parameters())
    criterion = torch.nn.CrossEntropyLoss()
    seen = []
    while len(seen) < STEPS:
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
    return seen[:STEPS]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [mlp, cnn], ids=lambda f: f.__name__)
def test_same_losses(model, optimizer):
    ours, theirs = losses(rushlight, model, optimizer), losses(torch, model, optimizer)
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    assert worst < 1e-4, f"losses differ by {worst:.1e} relative: four digits are asked for"
    assert ours[-1] < ours[0]
