"""`torch._decomp`: operators written in simpler ones give what the operators give."""

import pytest

import rushlight as torch
from rushlight._decomp import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)
from rushlight.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, V = numbers(4, 6), numbers(4, 6, seed=1), numbers(6, seed=2)
A, B = numbers(2, 3, 5), numbers(2, 5, 4)
ARGUMENTS = {
    "addcdiv.default": (X, Y, Y + 9),
    "addcmul.default": (X, Y, Y),
    "addmm.default": (numbers(3, 4), A[0], B[0]),
    "addmv.default": (numbers(4), X, V),
    "addr.default": (X, numbers(4), V),
    "all.dim": (X > 0, 1),
    "baddbmm.default": (numbers(2, 3, 4), A, B),
    "binary_cross_entropy.default": (X.sigmoid(), Y.sigmoid()),
    "clamp_max.default": (X, 0.2),
    "clamp_min.default": (X, 0.1),
    "dot.default": (V, V),
    "embedding.default": (X, torch.tensor([[1, 2], [0, 3]])),
    "eye.default": (3,),
    "ger.default": (V, V),
    "heaviside.default": (X.round(), Y),
    "huber_loss.default": (X, Y),
    "isclose.default": (X, Y),
    "l1_loss.default": (X, Y),
    "lerp.Scalar": (X, Y, 0.3),
    "lerp.Tensor": (X, Y, Y),
    "logaddexp.default": (X, Y),
    "logit.default": (X.sigmoid(),),
    "log_softmax.int": (X, 1),
    "logsumexp.default": (X, [1]),
    "masked_fill.Scalar": (X, Y > 0, 2.0),
    "masked_fill.Tensor": (X, Y > 0, torch.tensor(3.0)),
    "mse_loss.default": (X, Y),
    "mv.default": (X, V),
    "native_dropout.default": (X, 0.0, True),
    "native_dropout_backward.default": (X, Y > 0, 2.0),
    "native_group_norm.default": (numbers(2, 4, 3), V[:4], V[2:], 2, 4, 3, 2, 1e-5),
    "native_layer_norm.default": (X, [6], V, V, 1e-5),
    "new_full.default": (X, [2], 3.0),
    "new_ones.default": (X, [2]),
    "new_zeros.default": (X, [2]),
    "ones.default": ([2],),
    "outer.default": (V, V),
    "roll.default": (X, 1, 0),
    "rsub.Scalar": (X, 2.0),
    "rsub.Tensor": (X, Y),
    "select_scatter.default": (X, V, 0, -1),
    "smooth_l1_loss.default": (X, Y),
    "soft_margin_loss.default": (X, Y.sign()),
    "softmax.int": (X, 1),
    "split.Tensor": (X, 4, 1),
    "split_with_sizes.default": (X, [2, 4], 1),
    "stack.default": ([X, Y], 1),
    "std.dim": (X, [1]),
    "threshold.default": (X, 0.1, 2.0),
    "transpose.int": (X, 0, 1),
    "type_as.default": (X, X.double()),
    "unsafe_split.Tensor": (X, 4, 1),
    "var.dim": (X, [1]),
    "vdot.default": (V, V),
    "xlogy.Tensor": (X.abs(), Y.abs()),
    "zeros.default": ([2],),
}
# Operators that are nodes of traced graphs only, or that are compared below.
INNER = (
    "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data sigmoid_backward tanh_backward "
    "threshold_backward log_sigmoid nll_loss_forward _unsafe_view "
    "_native_batch_norm_legit_no_training binary_cross_entropy_with_logits"
).split()


@pytest.mark.parametrize("op", decomposition_table, ids=str)
def test_a_decomposition_gives_what_the_operator_gives(op):
    if op._opname in INNER:
        pytest.skip("no function of this name")
    args = ARGUMENTS.get(op.__name__, (X,))
    torch.testing.assert_close(decomposition_table[op](*args), op(*args), equal_nan=True)


def test_losses_and_gradients_that_have_no_public_operator():
    target = torch.tensor([1, 0, 5, 2])
    logs = torch.log_softmax(X, 1)
    nll, total = decomposition_table[aten.nll_loss_forward.default](logs, target, None, 1, 0)
    kept = torch.nn.functional.nll_loss(logs, target, ignore_index=0)
    torch.testing.assert_close(nll, kept)
    assert total.item() == 3
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(
        X, Y.sigmoid(), pos_weight=V.abs()
    )
    bce = decomposition_table[aten.binary_cross_entropy_with_logits.default]
    torch.testing.assert_close(bce(X, Y.sigmoid(), None, V.abs()), wanted)
    for name, forward in (
        ("sigmoid_backward", torch.sigmoid), ("tanh_backward", torch.tanh),
        ("_softmax_backward_data", lambda x: torch.softmax(x, 1)),
        ("_log_softmax_backward_data", lambda x: torch.log_softmax(x, 1)),
    ):  # fmt: skip
        x = X.clone().requires_grad_()
        y = forward(x)
        (grad,) = torch.autograd.grad(y, x, Y)
        rule = decomposition_table[getattr(aten, name).default]
        rest = (1,) if "softmax" in name else ()
        torch.testing.assert_close(rule(Y, y.detach(), *rest), grad)


def test_tables_are_asked_for_by_operator_or_overload():
    table = get_decompositions([aten.lerp, aten.silu.default, aten.mm])
    assert set(table) == {aten.lerp.Scalar, aten.lerp.Tensor, aten.silu.default}
    remove_decompositions(table, [aten.lerp])
    assert set(table) == {aten.silu.default}
    core = core_aten_decompositions()
    assert aten.silu.default in core
    assert aten.addmm.default not in core and aten._softmax.default not in core


def test_a_graph_with_decompositions_has_the_simple_operators():
    def f(x):
        return torch.nn.functional.silu(x).sum()

    graph = make_fx(f, decomposition_table=core_aten_decompositions())(X).graph
    assert [str(n.target) for n in graph.nodes if n.op == "call_function"] == [
        "aten.sigmoid.default", "aten.mul.Tensor", "aten.sum.default",
    ]  # fmt: skip


def test_a_program_registers_its_own():
    table = {}

    @register_decomposition(aten.sin, registry=table)
    def _(x):
        return (torch.pi / 2 - x).cos()

    assert list(table) == [aten.sin.default]
    traced = make_fx(torch.sin, table)(X)
    assert aten.cos.default in {n.target for n in traced.graph.nodes}
    torch.testing.assert_close(traced(X), X.sin())
    with pytest.raises(RuntimeError, match="multiple registrations"):
        register_decomposition(aten.sin.default, registry=table)(torch.sin)
