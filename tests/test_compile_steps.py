"""Compiled training steps: gradients, optimizers and guards are as in the step as written, whatever happens between calls."""

import tracemalloc

import pytest

import rushlight as torch
from rushlight.compiler.compiled import Compiled

nn, F = torch.nn, torch.nn.functional


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def state_of(model, optimizer):
    """All that a step changes, to the last bit."""
    gradients = [None if p.grad is None else p.grad.tolist() for p in model.parameters()]
    kept = [
        {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in s.items()}
        for s in optimizer.state.values()
    ]
    return [p.tolist() for p in model.parameters()], gradients, kept


def test_old_gradients_go_before_new_ones_are_made():
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    f = Compiled(step)
    for _ in range(3):
        f(torch.ones(4, 6))
    (found,) = f.programs
    names = found[1].names
    first, second = [line.strip() for line in found[1].source.splitlines()[2:4]]
    assert names[first.partition("(")[0]] is torch.optim.Optimizer.zero_grad
    assert "= graph0(" in second


def test_an_error_finds_the_gradients_as_the_step_left_them():
    table = nn.Embedding(10, 4)
    optimizer = torch.optim.SGD(table.parameters(), 0.1)

    def step(index):
        optimizer.zero_grad()
        table(index).sum().backward()

    f = Compiled(step)
    for _ in range(3):
        f(torch.tensor([1, 2]))
    assert f.programs and table.weight.grad is not None
    with pytest.raises(IndexError):
        f(torch.tensor([1, 20]))
    assert table.weight.grad is None


@pytest.mark.parametrize("absent", [(False, True, False), (True, False, True, False)])
def test_gradients_that_are_filled_with_zeros_where_there_are_some(absent):
    def run(wrap):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad(set_to_none=False)
            model(x).square().sum().backward()
            optimizer.step()

        f = wrap(step)
        model(torch.ones(4, 6)).sum().backward()
        kept = []
        for drop in absent:
            if drop:
                optimizer.zero_grad()
            before = model[0].weight.grad
            f(torch.ones(4, 6))
            kept.append(model[0].weight.grad is before)
        return kept, state_of(model, optimizer)

    assert run(Compiled) == run(lambda f: f)


def test_gradients_that_are_read_in_front_of_zero_grad():
    def outcome(wrap):
        model = perceptron()
        optimizer = torch.optim.Adam(model.parameters(), 0.1)

        def step(x):
            kept = model[0].weight.grad
            optimizer.zero_grad()
            y = kept * 2
            model(x).square().sum().backward()
            optimizer.step()
            last = model[0].weight.grad
            optimizer.zero_grad()
            return y, last + 1

        def ready():
            model(torch.ones(2, 6)).sum().backward()

        f, found = wrap(step), []
        for k in range(4):
            ready()
            found += [t.tolist() for t in f(torch.ones(4, 6) * k)]
        return found, state_of(model, optimizer), f

    *ours, f = outcome(Compiled)
    assert f.programs
    assert ours == [*outcome(lambda f: f)[:2]]


def test_a_decision_behind_zero_grad():
    def outcome(wrap):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            if loss > 1:
                loss = loss * 2
            loss.backward()
            optimizer.step()
            return loss

        f, found = wrap(step), []
        for k in (1, 2, 0, 3, 0, 1):
            found.append(f(torch.ones(4, 6) * k).item())
        return found, state_of(model, optimizer), f

    *ours, f = outcome(Compiled)
    assert f.programs
    assert ours == [*outcome(lambda f: f)[:2]]


def test_what_is_no_probability_is_told_by_kernels():
    model = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid(), nn.Linear(64, 64, bias=False))
    with torch.no_grad():
        model[2].weight.copy_(torch.eye(64))
    target = torch.rand(64, 64)

    def step(x):
        model.zero_grad()
        loss = F.binary_cross_entropy(model(x), target)
        loss.backward()
        return loss

    f = Compiled(step)
    x = torch.randn(64, 64)
    for _ in range(3):
        expected = step(x).item(), model[0].weight.grad.tolist()
        assert (f(x).item(), model[0].weight.grad.tolist()) == expected
    (found,) = f.programs
    program = found[1].names["graph0"].__self__
    text = program.source
    assert text.count("carry_out(") == 1
    assert not [x for x in text.splitlines() if "_cross_entropy(" in x and x[4] != " "]
    for k, wrong in enumerate((1e6, -1e-6, float("nan"))):
        with torch.no_grad():
            model[2].weight[k, k] = wrong
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            f(x)
        with torch.no_grad():
            model[2].weight[k, k] = 1
    assert f(x).item() == step(x).item()


def other_weight(model, optimizer):
    model[0].weight = nn.Parameter(model[0].weight.detach() * 2)


def same_memory_layout(model, optimizer):
    model[0].weight.data = model[0].weight.data * 2


def other_memory_layout(model, optimizer):
    model[0].weight.data = (model[0].weight.data * 2).t().contiguous().t()


def no_bias(model, optimizer):
    model[2].register_parameter("bias", None)


def frozen(model, optimizer):
    model[0].weight.requires_grad_(False)


def other_layer(model, optimizer):
    model[1] = nn.Tanh()


def one_more_layer(model, optimizer):
    model.append(nn.Sigmoid())


def other_forward(model, optimizer):
    layer = model[2]
    layer.forward = lambda x: nn.Linear.forward(layer, x) * 2


def hook(model, optimizer):
    model[0].weight.register_hook(lambda g: g * 2)


def other_dictionary(model, optimizer):
    model[1].__dict__ = dict(model[1].__dict__)
    model[1].forward = torch.tanh


def other_table(model, optimizer):
    model[0]._parameters = dict(model[0]._parameters)
    model[0]._parameters["bias"] = None


def equal_table(model, optimizer):
    model[0]._parameters = dict(model[0]._parameters)


def fewer_parameters(model, optimizer):
    del optimizer.param_groups[0]["params"][0]


def other_parameters(model, optimizer):
    optimizer.param_groups[0]["params"] = [*model[2].parameters()]


def other_groups(model, optimizer):
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": []})


def other_rate(model, optimizer):
    optimizer.param_groups[0]["lr"] = 0.5


BROKEN = (
    other_weight, same_memory_layout, other_memory_layout, no_bias, frozen, other_layer, one_more_layer, other_forward, hook,
    other_dictionary, other_table, equal_table, fewer_parameters, other_parameters, other_groups, other_rate,
)  # fmt: skip


@pytest.mark.parametrize("change", BROKEN, ids=lambda f: f.__name__)
def test_what_changes_between_steps(change):
    def outcome(wrap):
        model = perceptron()
        optimizer = torch.optim.Adam(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        f, found = wrap(step), []
        x = torch.linspace(-1, 1, 24).reshape(4, 6)
        for k in range(6):
            if k == 3:
                change(model, optimizer)
            found.append(f(x).item())
        return found, state_of(model, optimizer), f

    *ours, f = outcome(Compiled)
    assert f.programs and "walk" in f.programs[0][1].names
    assert ours == [*outcome(lambda f: f)[:2]]


def test_a_function_that_is_replaced(monkeypatch):
    model = perceptron()
    f = Compiled(lambda x: model(x))
    x = torch.ones(4, 6)
    for _ in range(3):
        assert f(x).tolist() == model(x).tolist()
    linear = F.linear
    monkeypatch.setattr(F, "linear", lambda x, w, b: linear(x, w, b) * 2)
    assert f(x).tolist() == model(x).tolist()


def test_steps_of_a_gru_cell_are_calls_of_kernels():
    torch.manual_seed(0)
    cell = nn.GRUCell(8, 16)
    optimizer = torch.optim.Adam(cell.parameters(), 0.01)
    x = torch.randn(3, 24, 8)

    def step(h):
        optimizer.zero_grad()
        for t in range(3):
            h = cell(x[t], h)
        loss = h.square().mean()
        loss.backward()
        return loss

    f = Compiled(step)
    h = torch.randn(24, 16)
    for _ in range(3):
        ours = f(h).item(), state_of(cell, optimizer)
        assert ours == (step(h).item(), state_of(cell, optimizer))
        optimizer.step()
    (found,) = f.programs
    text = found[1].names["graph0"].__self__.source
    assert text.count("carry_out(") == 1
    assert not [line for line in text.splitlines() if "recurrent" in line and line[4] != " "]


@pytest.mark.parametrize(
    ("f", "passes"),
    [
        (lambda x, w, n: (x * 1 + w, x * 2), "01 0"),  # nothing is saved: they run again
        (lambda x, w, n: (x.tanh(), x.exp()), "0 0"),
        (lambda x, w, n: (x.tanh(), (w * 2).exp()), "0 1 1"),  # nor what another one freed
        (lambda x, w, n: (x.exp() + 1, x.exp().sin() + w), "1 0 0"),
        (
            lambda x, w, n: (x * n.sum().item(), x * w),
            "0 0 1 0 1",
        ),  # a number is nothing that is freed
        (lambda x, w, n: (x[n > 0].sum(), w[1:]), "0 1 1 0"),
        (lambda x, w, n: (named(x.tanh()).exp(), x + 1), "0 1 1 0"),
    ],
)
def test_backward_passes_that_are_refused_once_something_was_freed(f, passes):
    """Each pass starts from the sum of some results; hooks run as often, and with a gradient."""

    def outcomes(g):
        every = []
        for _ in range(4):
            found = []
            x, w = torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True)
            w.register_hook(lambda g: found.append(g is None))
            results = g(x, w, torch.ones(3))
            for these in passes.split():
                try:
                    sum(results[int(k)].sum() for k in these).backward()
                except RuntimeError as e:
                    found.append(str(e).split("]")[1])
            every.append([found, [None if t.grad is None else t.grad.tolist() for t in (x, w)]])
        return every

    wanted, compiled = outcomes(f), torch.compile(f)
    assert str(outcomes(compiled)) == str(wanted)
    assert compiled.programs


@torch.compiler.disable
def named(t):
    return t


def test_hooks_of_what_no_result_depends_on_are_not_called():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    @torch.compile
    def f(x):
        with torch.no_grad():
            n = w.sum()
        return x.tanh() * n, x + w * 2

    for _ in range(3):
        f(x)
    w.register_hook(lambda g: g * 2)
    for _ in range(3):
        f(x)[0].sum().backward()
    assert w.grad is None


def test_views_that_cannot_be_derived_again_from_their_base():
    g = torch.compile(lambda x, part, net: (net(x * 2), len(part)))
    net = torch.nn.BatchNorm1d(3)
    for k in range(4):
        x = torch.ones(2, 3, requires_grad=True) * 1
        part = x.split(1)[0]
        x.add_(k)
        assert torch.equal(g(x, [part], net)[0], torch.zeros(2, 3))
        assert net.running_mean._version == k + 2  # as without a capture


def test_the_backward_pass_of_a_program_lets_go_of_what_it_has_read():
    """What the forward saved makes place for the gradients of weights, as without `torch.compile`."""
    peaks = []
    for wrap in (lambda f: f, Compiled):
        model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(12)])
        f, x = wrap(model), torch.randn(256, 256)
        for k in range(5):
            if k == 4:
                tracemalloc.start()
            for p in model.parameters():
                p.grad = None
            f(x).square().mean().backward()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
