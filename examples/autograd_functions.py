"""Operations of one's own with `torch.autograd.Function`, from a formula to a network with weights of one bit.

    python -m rushlight examples/autograd_functions.py --short        # one bit on the digits that ship with Rushlight
    python -m rushlight examples/autograd_functions.py --root data    # one bit on MNIST: 96.7 % after three epochs
    python examples/autograd_functions.py --root data                 # the same program under PyTorch

Four parts, each of which prints what it finds:

1. log cosh with a backward that is exact and does not overflow, and a wrong backward that `gradcheck` catches;
2. Kepler's equation, solved by Newton's iteration and differentiated not through its steps but by the implicit function
   theorem, twice: the motion of a planet from its time;
3. hooks: gradients read and changed on their way, and saved tensors kept in half the memory;
4. a network whose weights are two values per layer, -a and a, as in Rastegari et al. 2016 ("XNOR-Net"). Their sign has a
   gradient of zero, so backward passes on the gradient as if nothing had been rounded: the straight-through estimator of
   Bengio, Leonard and Courville 2013 ("Estimating or Propagating Gradients Through Stochastic Neurons").
"""

import argparse
import gzip
import math
import pathlib
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class LogCosh(Function):
    """log cosh x = |x| + log(1 + exp(-2 |x|)) - log 2: a loss between the square and the absolute value."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.tanh(x)  # of operations that have gradients: to be differentiated again


class WrongLogCosh(LogCosh):
    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.sign(x)


def part_1() -> None:
    x = torch.linspace(-3, 3, 8, dtype=torch.float64, requires_grad=True)
    print("log cosh: gradcheck", gradcheck(LogCosh.apply, x), gradgradcheck(LogCosh.apply, x))
    try:
        gradcheck(WrongLogCosh.apply, x)
    except RuntimeError as error:
        print("log cosh with a wrong backward:", str(error).partition(",")[0])
    far = torch.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
    LogCosh.apply(far).sum().backward()
    assert far.grad is not None
    print("log cosh far from zero has the slopes", far.grad.tolist())


class Kepler(Function):
    """The eccentric anomaly E of E - e sin E = M, and the number of Newton's steps that it took.

    Written with `setup_context`, which keeps what backward needs apart from the computation; transforms such as
    `torch.func.vmap` ask for that form.
    """

    @staticmethod
    def forward(mean_anomaly: torch.Tensor, eccentricity: torch.Tensor) -> tuple[torch.Tensor, ...]:
        M, e = mean_anomaly, eccentricity
        E = M + e * torch.sin(M)
        step, change = 0, torch.ones_like(M)
        while change.abs().max() > 1e-12 and step < 50:
            change = (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
            E, step = E - change, step + 1
        return E, torch.tensor(step)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        E, step = output
        ctx.mark_non_differentiable(step)
        ctx.save_for_backward(E, inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """With f = E - e sin E - M = 0: dE/dM = 1 / (1 - e cos E), and dE/de = sin E / (1 - e cos E)."""
        E, e = ctx.saved_tensors
        grad_M = grad / (1 - e * torch.cos(E))
        grad_e = grad_M * torch.sin(E) if ctx.needs_input_grad[1] else None
        return grad_M, grad_e


def part_2() -> None:
    time = torch.linspace(0.2, 6.0, 5, dtype=torch.float64, requires_grad=True)
    e = torch.full((5,), 0.6, dtype=torch.float64, requires_grad=True)
    E, steps = Kepler.apply(time, e)
    residue = (E - e * E.sin() - time).abs().max().item()
    print(f"Kepler: {steps.item()} steps, then right to 12 digits {residue < 1e-12}")
    inputs = (time, e)
    print("Kepler: gradcheck", gradcheck(Kepler.apply, inputs), gradgradcheck(Kepler.apply, inputs))
    # Newton's law from Kepler's: on the ellipse x = cos E - e, y = sqrt(1 - e^2) sin E, the second derivative by the time
    # points to the focus and is as large as 1 / r^2.
    orbit = torch.cos(E) - e, torch.sqrt(1 - e**2) * torch.sin(E)
    acceleration = []
    for coordinate in orbit:
        (speed,) = torch.autograd.grad(coordinate.sum(), time, create_graph=True)
        acceleration.append(torch.autograd.grad(speed.sum(), time, retain_graph=True)[0])
    constant = torch.hypot(*acceleration) * torch.hypot(*orbit) ** 2
    print("Kepler: acceleration times r^2", [round(value, 4) for value in constant.tolist()])


def part_3() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)
    )
    x, norms = torch.randn(64, 20, requires_grad=True), []

    def norm_of_gradient(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        norms.append(grad_output[0].norm().item())

    handles = [layer.register_full_backward_hook(norm_of_gradient) for layer in net]
    net(x).sum().backward()
    print("hooks: norms of gradients, last layer first,", " ".join(f"{norm:.4f}" for norm in norms))
    for handle in handles:
        handle.remove()

    exact = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    hidden = net[:2](x)
    hidden.register_hook(lambda grad: -grad)  # gradient reversal (Ganin and Lempitsky 2015)
    net.zero_grad()
    net[2:](hidden).sum().backward()
    print("hooks: gradients below one are reversed", torch.equal(net[0].weight.grad, -exact[0]))

    sizes = []
    weights = {p.untyped_storage().data_ptr() for p in net.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() in weights:
            return tensor  # a parameter or a view of one: it is in memory anyway
        sizes.append(tensor.nbytes)
        return tensor.to(torch.bfloat16)

    net.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.float()):
        loss = net(x).sum()
    loss.backward()
    errors = [((p.grad - e).norm() / e.norm()).item() for p, e in zip(net.parameters(), exact)]
    print(
        f"hooks: {sum(sizes)} saved bytes halved, gradients off by 1 % at most", max(errors) < 0.01
    )


class Sign(Function):
    """-a or a, by the sign of the weight, with a = mean |weight|: the nearest of that form in the sense of squares."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(weight)
        a = weight.abs().mean()
        sign: torch.Tensor = torch.where(weight >= 0, a, -a)
        return sign

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        # Straight through, but for weights beyond 1: they could only run away, with no effect on the sign.
        inside: torch.Tensor = ctx.saved_tensors[0].abs() <= 1
        return grad * inside


class OneBitLinear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, Sign.apply(self.weight), self.bias)


def load(args: argparse.Namespace) -> tuple[torch.Tensor, ...]:
    """(training images, training labels, test images, test labels); images float64 `[N, pixels]` in 0..1."""
    if args.short:
        from rushlight.data import digits

        images, labels = (torch.from_numpy(array) for array in digits())
        images = images.flatten(1).double() / 16
        return images[:1500], labels[:1500], images[1500:], labels[1500:]
    arrays = []
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        path = args.root / "MNIST" / "raw" / f"{name}-ubyte.gz"
        header = 16 if "images" in name else 8
        array = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)
        arrays.append(torch.from_numpy(array.copy()))
    x, y, x_test, y_test = arrays
    x, x_test = (images.view(-1, 784).double() / 255 for images in (x, x_test))
    return x, y.long(), x_test, y_test.long()


def part_4(args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    *train, x, y = load(args)
    hidden, epochs = (128, 8) if args.short else (512, args.epochs)
    # No bias before batch norm, which takes any constant away again: its gradient is zero but for rounding, and Adam makes
    # steps of full length from that. No kink and double precision: a sum of pixels with signs often lies exactly at the
    # kink of ReLU, and a weight near zero changes its sign by rounding; programs that add in different order would differ.
    net = nn.Sequential(
        OneBitLinear(x.shape[1], hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.GELU(),
        OneBitLinear(hidden, 10),
    ).double()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(*train), batch_size=64 if args.short else 128, shuffle=True)
    for epoch in range(1, epochs + 1):
        losses = []
        net.train()
        for images, labels in tqdm(loader, desc=f"epoch {epoch}/{epochs}", leave=False):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            accuracy = (net(x).argmax(1) == y).float().mean().item()
        mean = sum(losses) / len(losses)
        print(f"one bit: epoch {epoch}  loss {mean:.4f}  test accuracy {accuracy:.2%}")
    values = [Sign.apply(layer.weight).unique().numel() for layer in (net[0], net[3])]
    print(f"one bit: values in the matrices {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Autograd functions of one's own")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--short", action="store_true", help="the last part on 8x8 digits")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    part_1()
    part_2()
    part_3()
    part_4(args)


if __name__ == "__main__":
    main()
