"""Read by mypy, never run: what a type checker knows about the public names, as a user's program has them."""

from __future__ import annotations

from typing import assert_type

import rushlight as torch
from rushlight import Size, Tensor, nn
from rushlight.data import digits
from rushlight.utils.data import DataLoader, TensorDataset


def tensors(x: Tensor, y: Tensor) -> None:
    assert_type(x.shape, Size)
    assert_type(x.requires_grad, bool)
    assert_type(x.grad, Tensor | None)
    assert_type(x.numel(), int)
    assert_type(x + y, Tensor)
    assert_type(2 * x, Tensor)
    assert_type(x @ y, Tensor)
    assert_type(x == y, Tensor)
    assert_type(-x, Tensor)
    assert_type(x[0, ..., None], Tensor)
    assert_type(x.add(1, alpha=2), Tensor)
    assert_type(x.mul_(2.0).exp(), Tensor)
    assert_type(x.sum(0, keepdim=True), Tensor)
    assert_type(x.view(2, 3).transpose(0, 1), Tensor)
    assert_type(x.topk(3).indices, Tensor)
    assert_type(x.detach(), Tensor)
    x.backward()
    x[0] = 1.0
    x += y


def functions(x: Tensor) -> None:
    assert_type(torch.exp(x), Tensor)
    assert_type(torch.cat([x, x], dim=1), Tensor)
    assert_type(torch.topk(x, 2).values, Tensor)
    assert_type(torch.nn.functional.relu(x), Tensor)
    assert_type(torch.linalg.det(x), Tensor)
    assert_type(torch.get_default_dtype(), torch.dtype)
    torch.zeros(2, 3, dtype=torch.float64, device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        torch.save({"x": x}, "x.pt")
    torch.load("x.pt", map_location="cpu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).relu()


def calls(model: Net, x: Tensor) -> None:
    assert_type(model(x), Tensor)  # what `forward` says
    assert_type(torch.randn(2, 3), Tensor)
    assert_type(x.to(torch.float64), Tensor)
    assert_type(torch.autograd.gradcheck(model, (x,)), bool)


def training(model: Net) -> None:
    images, labels = digits()
    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for x, y in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    model.load_state_dict(model.state_dict())


def mistakes(x: Tensor) -> None:
    # Each comment is an error that must be found: mypy reports the ones that are not needed.
    x.no_such_method()  # type: ignore[attr-defined]
    x.reshape(2, 3).add()  # type: ignore[call-arg]
    Net()("a text")  # type: ignore[arg-type]
    torch.exp("a text")  # type: ignore[arg-type]
