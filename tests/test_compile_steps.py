"""Compiled training steps: gradients, optimizers and guards are as in the step as written, whatever happens between calls."""

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
        for s in optimizer.state_dict()["state"].values()
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
