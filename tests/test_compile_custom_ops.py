"""Custom operators that write to their arguments, in functions of `torch.compile(fullgraph=True)`."""

import pytest

import rushlight as torch

Tensor = torch.Tensor


@torch.library.custom_op("compiled::axpy_", mutates_args={"y"})
def axpy_(x: Tensor, y: Tensor, a: float) -> None:
    y.add_(x, alpha=a)


@torch.library.custom_op("compiled::fill", mutates_args=("out", "count"))
def fill(x: Tensor, out: Tensor, count: Tensor) -> Tensor:
    out.copy_(x * 2)
    count.add_(1)
    return x + 1


@fill.register_fake
def _(x, out, count):
    return torch.empty_like(x)


@torch.library.custom_op("compiled::scale", mutates_args={"xs"})
def scale(xs: list[Tensor], a: float) -> None:
    for x in xs:
        x.mul_(a)


@torch.library.custom_op("compiled::maybe", mutates_args={"y"})
def maybe(x: Tensor, y: Tensor | None = None) -> Tensor:
    if y is not None:
        y.add_(x)
    return x.clone()


@maybe.register_fake
def _(x, y=None):
    return torch.empty_like(x)


def of_an_argument(x, y):
    axpy_(x, y, 3.0)
    return y + 1


def of_new_memory(x, y):
    z = y * 2
    before = z + 1
    axpy_(x, z, 3.0)
    after = z + 1
    return before, after, z


def of_a_view(x, y):
    axpy_(x[1:], y[1:], 2.0)
    z = x.exp()
    axpy_(y[:2], z[1:], 1.0)
    return y * 1, z


def of_two(x, y):
    out, count = torch.zeros(3), torch.zeros(())
    r = fill(x, out, count)
    s = out + r
    fill(y, out, count)
    return r, s, out * count


def of_a_list(x, y):
    a = x * 1
    scale([a, y], 2.0)
    b = a + y
    scale([a], 3.0)
    return a + b, b


def of_an_optional(x, y):
    return maybe(x), maybe(x, y), maybe(y), y * 2


def by_name(x, y):
    z = x.sin()
    fill(count=y, out=z, x=x)
    return z.cos(), y + 1


def last_of_all(x, y):
    z = x + 1
    axpy_(z, y, 1.0)


@pytest.mark.parametrize(
    "f",
    [
        of_an_argument,
        of_new_memory,
        of_a_view,
        of_two,
        of_a_list,
        of_an_optional,
        by_name,
        last_of_all,
    ],
)
def test_writes_are_seen_by_what_comes_after(f):
    compiled = torch.compile(f, fullgraph=True)
    for given in (f, compiled):  # separate memory for each
        given.y = torch.arange(3.0)
    for n in range(5):
        x = torch.linspace(0, n, 3)
        versions = [g.y._version for g in (f, compiled)]
        wanted, found = f(x, f.y), compiled(x, compiled.y)
        assert str(wanted) == str(found), n
        assert torch.equal(f.y, compiled.y), n
        assert f.y._version - versions[0] == compiled.y._version - versions[1]


def test_a_buffer_with_a_gradient_beside_it():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            axpy_(x, self.total, 1.0)
            return self.weight * self.total

    model = Counting()
    compiled = torch.compile(model, fullgraph=True)
    for n in range(1, 5):
        compiled(torch.ones(3)).sum().backward()
        assert model.total.tolist() == [n] * 3
        assert model.weight.grad.tolist() == [n * (n + 1) / 2] * 3
