"""`cond`, `while_loop`, `scan` and their like in functions of `torch.compile(fullgraph=True)`, against the functions as written."""

import pytest

import rushlight as torch
from rushlight._higher_order_ops import associative_scan, map, scan, while_loop
from rushlight.compiler.compiled import Compiled
from rushlight.utils import _pytree as pytree


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        def true_fn(x):
            return self.inner(x).sin()

        def false_fn(x):
            return self.inner(x).cos() - 1

        y = torch.cond(x.sum() > 0, true_fn, false_fn, (x,))
        return torch.cond((y > 0).all(), lambda y: y * 2, lambda y: y + 1, (y,))


def test_cond_takes_the_branch_of_each_run():
    torch.manual_seed(0)
    model = Branches()
    compiled = torch.compile(model, fullgraph=True)
    x = torch.ones(2, 3)
    for scale in (1, -1, 1, -1, 3, -3, 0.1):
        found = []
        for f in (model, compiled):
            leaf = (x * scale).requires_grad_()
            result = f(leaf)
            found.append([result, *torch.autograd.grad(result.sum(), [leaf, *model.parameters()])])
        for a, b in zip(*found, strict=True):
            assert torch.equal(a, b)


def test_cond_has_a_program_for_each_way():
    def f(x):
        return torch.cond(x.sum() > 0, torch.exp, torch.neg, (x,))

    compiled = Compiled(f, True)
    for _ in range(4):
        for x in (torch.ones(2), -torch.ones(2)):
            assert torch.equal(compiled(x), f(x))
    assert len(next(iter(compiled.of_sizes.values()))) == 2


def test_an_if_still_ends_a_full_graph():
    def f(x):
        return x.exp() if x.sum() > 0 else x.neg()

    with pytest.raises(torch._dynamo.exc.Unsupported, match="a branch on the values of a tensor"):
        torch.compile(f, fullgraph=True)(torch.ones(2))

    def inside(x):
        return torch.cond(torch.tensor(True), f, torch.neg, (x,))

    with pytest.raises(torch._dynamo.exc.Unsupported, match="a branch on the values of a tensor"):
        torch.compile(inside, fullgraph=True)(torch.ones(2))


def test_while_loop_of_many_lengths():
    def f(n, x):
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    compiled = torch.compile(f, fullgraph=True)
    for n in [*range(12), 3, 50, 0]:
        i, y = compiled(torch.tensor(n), torch.ones(2))
        assert i.item() == n and y.tolist() == [2.0**n] * 2


def test_scans_and_map():
    x = torch.arange(6.0).view(3, 2)
    compiled = torch.compile(
        lambda x: scan(lambda s, x: (s + x, s * x), torch.zeros(2), x), fullgraph=True
    )
    for _ in range(3):
        carry, ys = compiled(x)
        assert carry.tolist() == [6, 9] and ys.tolist() == [[0, 0], [0, 3], [8, 20]]
    compiled = torch.compile(lambda x: associative_scan(torch.add, x, 0), fullgraph=True)
    for _ in range(3):
        assert compiled(x).tolist() == [[0, 1], [2, 4], [6, 9]]
    compiled = torch.compile(lambda x: map(lambda a, b: a * b, x, 2), fullgraph=True)
    for _ in range(3):
        assert compiled(x).tolist() == (x * 2).tolist()


def test_trees():
    def f(tree):
        leaves, form = pytree.tree_flatten(tree)
        return pytree.tree_map(lambda t: t + len(leaves), pytree.tree_unflatten(leaves, form))

    compiled = torch.compile(f, fullgraph=True)
    for n in (1, 2):
        tree = {"a": torch.ones(2) * n, "b": [torch.zeros(1), (torch.ones(1),)]}
        found = compiled(tree)
        assert found["a"].tolist() == [n + 3] * 2
        assert found["b"][0].tolist() == [3] and found["b"][1][0].tolist() == [4]
    assert set(compiled({"a": torch.ones(1)})) == {"a"}
