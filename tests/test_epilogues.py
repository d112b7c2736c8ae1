"""Batch norms and what follows them are one pass over memory, with the bits of several."""

import copy

import pytest

import rushlight as torch
from rushlight.compiler.lowering.lowering import build
from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, make_fx

F, nn = torch.nn.functional, torch.nn


def built(function, *inputs):
    """The program of a function, which has run once on copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxyTorchDispatchMode, "own_operators", True, raising=False)
        graph = make_fx(function)(*[t.clone() for t in inputs]).graph
    program = build(graph)
    program(*[t.clone() for t in inputs])
    return program


def joined(program, name="batch_norm_relu"):
    """How many calls of a program are a batch norm with what follows it."""
    return sum(getattr(c.function, "__name__", "") == name for c in program.calls)


def check(function, *inputs, count):
    """The program of a function has so many such calls, and the bits of the function; also those of what is written."""
    program = built(function, *inputs)
    assert joined(program) == count
    for _ in range(2):
        ours, theirs = [t.clone() for t in inputs], [t.clone() for t in inputs]
        for a, b in zip([*program(*ours), *ours], [*function(*theirs), *theirs], strict=True):
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def norm(x, mean, var, weight=None, bias=None):
    return F.batch_norm(x, mean, var, weight, bias, training=True)


def state(n, dtype=torch.float32):
    return [torch.rand(n).to(dtype) + 0.5 for _ in range(4)]


SHAPES = [(4, 5, 7, 9), (2, 40, 3, 3), (3, 5, 6), (40, 70), (2, 3, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("last", [False, True])
def test_sums_and_rectifiers_are_parts_of_batch_norms(shape, dtype, last):
    def function(x, y, *given):
        a = torch.relu(norm(x, *given))
        b = (y + norm(x * 2, given[0], given[1], None, given[3])).relu()
        return a, b, torch.relu(norm(x, given[0], given[1], given[2]) + y)

    x, y = (torch.randn(shape).to(dtype) for _ in range(2))
    if last and len(shape) == 4:
        x, y = (t.to(memory_format=torch.channels_last) for t in (x, y))
    x[0, 0] = float("nan")
    check(function, x, y, *state(shape[1], dtype), count=3)


def test_what_is_written_over_is_rectified():
    def function(x, y, *given):
        a = norm(x, *given).relu_()
        b = norm(a, *given)
        b += y
        b.relu_()
        return a, b, b * 2

    check(function, torch.randn(4, 5, 7, 9), torch.randn(4, 5, 7, 9), *state(5), count=2)


def test_others_see_what_was_normalised():
    def function(x, y, *given):
        a, b, c, d = (norm(x, *given) for _ in range(4))
        above = b.relu() + b
        c_before = c.sum(1)
        c.relu_()
        total = d + y
        return a, a.relu(), above, c_before, c, total.relu(), total * 2

    check(function, torch.randn(4, 5, 7, 9), torch.randn(4, 5, 7, 9), *state(5), count=0)


def test_what_is_added_must_be_there_and_stay():
    def late(x, y, *given):
        a = norm(x, *given)
        return (torch.relu(a + (y @ y)),)

    def written(x, y, *given):
        a = norm(x, *given)
        y.mul_(2)
        return (torch.relu(a + y),)

    def spread(x, y, *given):
        return (torch.relu(norm(x, *given) + y[:, :1]),)

    def scaled(x, y, *given):
        return (torch.relu(torch.add(norm(x, *given), y, alpha=3)),)

    for function in (late, written, spread, scaled):
        check(function, torch.randn(4, 5, 7, 7), torch.randn(4, 5, 7, 7), *state(5), count=0)


def test_arrays_that_lie_otherwise_are_not_joined():
    def function(x, y, *given):
        return (torch.relu(norm(x, *given) + y),)

    x, y = torch.randn(4, 5, 7, 9), torch.randn(4, 5, 7, 9)
    last = torch.channels_last
    check(function, x, y.to(memory_format=last), *state(5), count=0)
    half = lambda x, y, *given: (torch.relu(norm(x, None, None, *given) + y),)  # noqa: E731
    check(half, x.bfloat16(), y.bfloat16(), *state(5, torch.bfloat16)[2:], count=0)
    program = built(function, x, y, *state(5))
    assert joined(program) == 1
    for a, b in ((x.to(memory_format=last), y), (x, y.to(memory_format=last)), (y[::2], x[::2])):
        given = state(5)
        ours = program(a, b, *[t.clone() for t in given])[0]
        theirs = function(a, b, *given)[0]
        assert ours.equal(theirs) and ours.stride() == theirs.stride()


def test_statistics_that_are_given_are_loops():
    def function(x, mean, var):
        return (torch.relu(F.batch_norm(x, mean, var)),)

    check(function, torch.randn(4, 5, 7, 9), *state(5)[:2], count=0)


class Block(nn.Module):
    """Two convolutions with batch norms, and what goes past them."""

    def __init__(self, inplace, **options):
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 6, 3, 1, 1), nn.Conv2d(6, 6, 3, 1, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(6, **options) for _ in range(2)])
        self.relu = nn.ReLU(inplace)

    def forward(self, x):
        y = self.relu(self.norms[0](self.first(x)))
        return self.relu(self.norms[1](self.second(y)) + x)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "options", [{}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}]
)
def test_a_step_has_the_bits_of_the_step_as_written(inplace, last, dtype, options):
    torch.manual_seed(0)
    model = nn.Sequential(Block(inplace, **options), Block(inplace, **options)).to(dtype)
    x, y = torch.randn(4, 6, 9, 9).to(dtype), torch.randn(4, 6, 9, 9).to(dtype)
    if last:
        model = model.to(memory_format=torch.channels_last)
        x, y = (t.to(memory_format=torch.channels_last) for t in (x, y))

    def made(model):
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def step():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    other = copy.deepcopy(model)
    ours, theirs = torch.compile(made(model)), made(other)
    for k in range(4):
        if k == 3:
            model.eval()
            other.eval()
        assert ours().equal(theirs())
        for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
            assert a.equal(b)


def test_gradients_are_counted_where_they_are_read():
    def step(x, g, weight, bias):
        x, weight, bias = (t.detach().requires_grad_() for t in (x, weight, bias))
        y = torch.relu(F.batch_norm(x, None, None, weight, bias, True))
        return torch.autograd.grad(y, (x, weight, bias), g)

    x, g = torch.randn(4, 5, 7, 9), torch.randn(4, 5, 7, 9)
    given = x, g, torch.randn(5), torch.randn(5)
    program = built(step, *given)
    assert joined(program) == joined(program, "batch_norm_relu_backward") == 1
    for a, b in zip(program(*given), step(*given), strict=True):
        assert a.equal(b)
    g_last = g.to(memory_format=torch.channels_last)
    for a, b in zip(program(x, g_last, *given[2:]), step(x, g_last, *given[2:]), strict=True):
        assert a.equal(b)


def test_gradients_that_others_see_are_computed():
    def step(x, z, g):
        x, z = (t.detach().requires_grad_() for t in (x, z))
        y = torch.relu(F.batch_norm(x, None, None, training=True) + z)
        return torch.autograd.grad(y, (x, z), g)

    given = [torch.randn(4, 5, 7, 9) for _ in range(3)]
    program = built(step, *given)
    assert joined(program) == 1 and joined(program, "batch_norm_relu_backward") == 0
    for a, b in zip(program(*given), step(*given), strict=True):
        assert a.equal(b)
