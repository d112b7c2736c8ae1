"""`make_fx(tracing_mode="symbolic")`: graphs that run on inputs of other sizes; what tracers leave behind after errors."""

import pytest

import rushlight as torch
from rushlight.autograd.state import active, thread
from rushlight.fx.experimental.proxy_tensor import make_fx


def flat(x):
    return x.view(x.shape[0], -1) * x.numel()


def joined(x, y):
    return torch.cat([x, y]).sum(0) / len(x)


def centred(x):
    return x - x.mean(0).expand(x.shape)


def padded(x):
    return torch.nn.functional.pad(x, (1, 2)).reshape(-1)[: x.shape[0] + 1]


def made(x):
    return torch.ones(x.shape[1], x.shape[0] * 2) + torch.arange(x.shape[0] * 2)


def product(x):
    return (x @ x.t()).softmax(-1).matmul(x)


def gradient(x):
    return torch.func.grad(lambda x: (x.mean(1) ** 2).sum())(x)


@pytest.mark.parametrize(
    "f", [flat, centred, padded, made, product, gradient], ids=lambda f: f.__name__
)
def test_a_symbolic_graph_runs_on_other_sizes(f):
    traced = make_fx(f, tracing_mode="symbolic")(torch.randn(3, 4))
    for shape in ((3, 4), (6, 5), (2, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(traced(x), f(x))


def test_dimensions_of_one_size_have_one_symbol():
    traced = make_fx(joined, tracing_mode="symbolic")(torch.randn(3, 4), torch.randn(3, 4))
    x, y = torch.randn(5, 2), torch.randn(5, 2)
    torch.testing.assert_close(traced(x, y), joined(x, y))
    sizes = [n for n in traced.graph.nodes if n.target is torch.ops.aten.sym_size.int]
    assert sizes and all(n.args[0].target == "x_1" for n in sizes)


def test_a_size_that_decides_is_a_constant():
    def f(x):
        return x * 2 if x.shape[0] > 4 else x.view(-1, x.shape[0])

    with pytest.warns(UserWarning, match=r"depends on the sizes \[3\]"):
        traced = make_fx(f, tracing_mode="symbolic")(torch.randn(3, 4))
    x = torch.randn(3, 6)
    torch.testing.assert_close(traced(x), f(x))
    assert not any("mul" in str(n.target) for n in traced.graph.nodes)


@pytest.mark.parametrize(
    ("f", "sizes"),
    [
        (lambda x: x.view(2 * x.shape[0], -1) + x.shape[1], [(3, 4), (5, 6), (2, 10)]),
        (lambda x: x.reshape(x.shape[0] // 2, 2, -1).sum(1), [(6, 4), (8, 3), (2, 1)]),
        (lambda x: x.view(-1, 2), [(6, 3), (5, 4)]),
        (lambda x: x.unflatten(1, (x.shape[1] // 3, 3)) * x.shape[0], [(5, 6), (4, 9)]),
    ],
)
def test_sizes_that_must_be_divisible(f, sizes, recwarn):
    traced = make_fx(f, tracing_mode="symbolic")(torch.randn(*sizes[0]))
    for size in sizes:
        x = torch.randn(*size)
        assert torch.equal(traced(x), f(x))
    assert not [w for w in recwarn if "depends on the sizes" in str(w.message)]


def test_the_inputs_are_not_written_to():
    x = torch.zeros(3)
    make_fx(lambda x: x.add_(1), tracing_mode="symbolic")(x)
    make_fx(lambda x: x.add_(1), tracing_mode="fake")(x)
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_products_without_elements_are_traced(mode):
    a, b = torch.randn(2, 0, 3), torch.randn(3, 0)
    traced = make_fx(torch.matmul, tracing_mode=mode)(a, b)
    assert traced(a, b).shape == (2, 0, 0)
    c, d = torch.randn(2, 3, 0), torch.randn(0, 4)
    torch.testing.assert_close(make_fx(torch.matmul, tracing_mode=mode)(c, d)(c, d), c @ d)


@pytest.mark.parametrize("question", [torch.equal, torch.allclose])
def test_answers_that_depend_on_values_are_no_constants_of_a_graph(question):
    for mode in ("real", "fake", "symbolic"):
        said = "get value out of a tracing tensor" if mode == "real" else "_local_scalar_dense"
        with pytest.raises(RuntimeError, match=said):
            make_fx(question, tracing_mode=mode)(torch.ones(2), torch.ones(2))
    assert question(torch.ones(2), torch.ones(2)) is True


def branch(x):
    return x if x.sum() > 0 else -x


class Around(torch.nn.Module):
    """A module around a function, with a parameter."""

    def __init__(self, function):
        super().__init__()
        self.function, self.scale = function, torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.function(x * self.scale)


TRACERS = {
    "symbolic_trace": lambda f, x: torch.fx.symbolic_trace(Around(f)),
    "real": lambda f, x: make_fx(f)(x),
    "fake": lambda f, x: make_fx(f, tracing_mode="fake")(x),
    "symbolic": lambda f, x: make_fx(f, tracing_mode="symbolic")(x),
    "functionalize": lambda f, x: make_fx(torch.func.functionalize(f))(x),
    "vmap": lambda f, x: make_fx(torch.func.vmap(torch.func.grad(lambda v: f(v).sum())))(x),
    "export": lambda f, x: torch.export.export(Around(f), (x,)),
    "dynamic": lambda f, x: torch.export.export(
        Around(f), (x,), dynamic_shapes=({0: torch.export.Dim("n")},)
    ),
}


@pytest.mark.parametrize("tracer", TRACERS)
def test_nothing_stays_on_after_an_error(tracer):
    def state():
        module = torch.nn.Module
        return (
            active.modes, thread.function_modes, thread.function_disabled, thread.grad, torch.ones,
            torch.fx._symbolic_trace.is_fx_tracing(), module.__call__, module.__getattr__,
            torch.Tensor.__getitem__,
        )  # fmt: skip

    def stop(x):
        assert x * 2 is not None
        raise KeyboardInterrupt

    before, x = state(), torch.randn(2, 3)
    for function, error in ((branch, (RuntimeError, ValueError)), (stop, KeyboardInterrupt)):
        with pytest.raises(error):
            TRACERS[tracer](function, x)
        assert state() == before
    assert type(x + 1) is torch.Tensor
    assert x.requires_grad_().sum().backward() is None and x.grad.tolist() == [[1] * 3] * 2


def test_control_flow_on_traced_values_has_the_programs_line():
    for tracer in ("symbolic_trace", "real", "functionalize", "export", "dynamic"):
        with pytest.raises((RuntimeError, ValueError), match=r"x if x\.sum\(\) > 0 else -x"):
            TRACERS[tracer](branch, torch.randn(2, 3))


def test_questions_of_sizes():
    from rushlight.fx.experimental import symbolic_shapes as shapes

    assert shapes.guard_or_false(2 > 1) is True and shapes.guard_or_true(1 > 2) is False
    with pytest.raises(AssertionError, match="Expected bool"):
        shapes.guard_or_false(1)
    assert shapes.sym_eq((2, (3, 4)), (2, (3, 4))) and not shapes.sym_eq((2, 3), (2, 4))
    assert shapes.sym_or(False, True) and not shapes.sym_and(True, False)
    assert shapes.free_symbols(torch.ones(2).shape) == set()


MODES = pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])


@MODES
def test_numbers_that_depend_on_no_input_may_be_read(mode):
    def f(x):
        c = torch.tensor(1.0)
        c.add_(2)
        d = c * 2
        return x * d.item() + (torch.full_like(x, c) if c > 0 else x)

    traced = make_fx(f, tracing_mode=mode)(torch.ones(2))
    assert traced(torch.tensor([1.0, 2.0])).tolist() == [9.0, 15.0]


@MODES
@pytest.mark.parametrize(
    "write",
    [
        lambda c, x: c.add_(x.sum()), lambda c, x: torch._foreach_add_([c], [x.sum()]), lambda c, x: c.normal_(),
        lambda c, x: torch.add(x.sum(), 1, out=c), lambda c, x: c.view(1).mul_(x[0]),
    ],
)  # fmt: skip
def test_numbers_that_were_written_to_may_not(mode, write):
    def f(x):
        c = torch.tensor(1.0)
        write(c, x)
        return x * c.item()

    with pytest.raises(
        RuntimeError, match=r"get value out of a tracing tensor|_local_scalar_dense"
    ):
        make_fx(f, tracing_mode=mode)(torch.ones(2))


def test_windows_are_traced_on_fake_tensors():
    traced = make_fx(lambda: torch.signal.windows.kaiser(5, beta=2.0), tracing_mode="fake")()
    assert torch.equal(traced(), torch.signal.windows.kaiser(5, beta=2.0))
