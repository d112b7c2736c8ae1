"""`torch.func.functionalize`: traced graphs without writes, and without views."""

import pytest

import rushlight as torch
from rushlight.func import functionalize, grad, vmap
from rushlight.fx.experimental.proxy_tensor import make_fx


def row(x):
    y = x + 1
    y[0].mul_(3)
    return y


def slices(x):
    y = x.clone()
    y[1:, :2].add_(1)
    y[:, -1] = 5
    return y, y.sum(0)


def shapes(x):
    y = x * 2
    v = y.view(-1)
    w = v.unsqueeze(0).t()
    w.add_(1)
    y.transpose(0, 1).mul_(2)
    return y, v, w


def pieces(x):
    y = x.clone()
    a, b = y.split(2, 1)
    b.mul_(a)
    rows = y.unbind(0)
    rows[1].zero_()
    return y, a, b, rows[1]


def diagonals(x):
    y = x.clone()
    y.diagonal().fill_(7)
    y.permute(1, 0)[2].mul_(-1)
    return y


def inputs(x):
    x.view(-1)[2:5].add_(10)
    y = x * 2
    x.sub_(1)
    return y + x


def outs(x):
    y = torch.empty_like(x)
    torch.mul(x, 3, out=y)
    y.add_(1)
    return y


def turned(x):
    y = x.clone()
    y.t_()
    y.add_(torch.arange(3.0).unsqueeze(1).expand(3, y.shape[1])[: y.shape[0]])
    return y


def halves(x):
    y = x.to(torch.int64)
    y.add_(2)
    y.copy_(x * 3)
    return y


PROGRAMS = [row, slices, shapes, pieces, diagonals, inputs, outs, halves]


def example():
    return torch.arange(12.0).view(3, 4)


def same(got, wanted):
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_without_writes_computes_the_same(f, remove, mode):
    traced = make_fx(functionalize(f, remove=remove), tracing_mode=mode)(example())
    x, y = example() + 0.5, example() + 0.5
    same(traced(x), f(y))
    same(x, y)
    calls = [n for n in traced.graph.nodes if n.op == "call_function"]
    names = [n.target._opname for n in calls if hasattr(n.target, "_opname")]
    written = [n for n in names if n.endswith("_")]
    assert written == (["copy_"] if f is inputs else [])
    assert not any("out" in n.kwargs for n in calls)
    if remove == "mutations_and_views":
        assert not {"view", "select", "slice", "t", "transpose", "unsqueeze", "diagonal"} & set(
            names
        )


def test_the_graph_has_the_operators_that_give_the_values():
    graph = make_fx(functionalize(row))(example()).graph
    assert [n.target._opname for n in graph.nodes if n.op == "call_function"] == [
        "add", "select", "mul", "select_scatter",
    ]  # fmt: skip


def test_outside_of_a_trace_the_function_runs_as_it_is():
    x, y = example(), example()
    same(functionalize(inputs)(x), inputs(y))
    same(x, y)
    same(grad(lambda x: functionalize(row)(x).sum())(x), grad(lambda x: row(x).sum())(x))
    same(vmap(functionalize(row))(example()[None]), row(example())[None])


def test_gradients_of_a_functionalized_program_are_traced():
    def f(x):
        return grad(lambda x: (row(x) ** 2).sum())(x)

    traced = make_fx(functionalize(f))(example())
    same(traced(example() + 1), f(example() + 1))


def test_only_the_block_has_no_writes():
    def f(x):
        y = functionalize(row)(x)
        return y.add_(1)

    traced = make_fx(f)(example())
    same(traced(example()), row(example()) + 1)
    names = [n.target._opname for n in traced.graph.nodes if n.op == "call_function"]
    assert "mul" in names and "mul_" not in names and names[-1] == "add_"


def test_another_word_for_remove_is_refused():
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        functionalize(row, remove="views")


def test_the_annotation_of_the_result_is_kept():
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.t()

    assert (
        "def forward(self, x_1) -> torch.Tensor:" in make_fx(functionalize(f))(torch.ones(2)).code
    )


def test_custom_functions_need_a_setup_context():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="must override the setup_context"):
        functionalize(Doubled.apply)(torch.ones(2))
    assert Doubled.apply(torch.ones(2)).tolist() == [2.0, 2.0]


class Named(dict):
    """A node of trees that only `register_pytree_node` knows."""


def test_a_traced_module_takes_nodes_that_were_registered():
    from rushlight.utils import _pytree

    _pytree.register_pytree_node(
        Named,
        lambda d: (list(d.values()), tuple(d)),
        lambda v, keys: Named(zip(keys, v, strict=True)),
    )
    traced = make_fx(lambda d: d["a"] * 2 + d["b"])(Named(a=torch.ones(2), b=torch.ones(2)))
    assert torch.equal(traced(Named(a=torch.ones(2), b=torch.zeros(2))), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="is different from expected spec"):
        traced(Named(a=torch.ones(2)))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_writes_and_new_tensors_under_vmap_are_traced(mode):
    def f(x):
        filled = torch.zeros_like(x).fill_(2.5) * x.new_ones(3)
        square = torch.zeros(3, 3) + x[0]
        square.fill_diagonal_(7)
        return filled.diag() * x + square.sum()

    x, z = torch.randn(4, 3), torch.randn(4, 3)
    mapped = torch.func.vmap(f)
    assert torch.equal(make_fx(mapped, tracing_mode=mode)(x)(z), mapped(z))
