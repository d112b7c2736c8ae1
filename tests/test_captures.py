"""Functions whose derivatives are taken write to what they made or were given, never to what they captured."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import rushlight as torch
from opdb_rows import replace
from rushlight import Tensor
from rushlight.core.tensor import _wrap
from rushlight.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from rushlight.overrides import TorchFunctionMode
from test_ops import each, function, leaves

F = torch.nn.functional
REFUSED = "attempted to call in-place operation .* mutate a captured Tensor"


def ones():
    return torch.ones(3)


def run(transform, f):
    x = torch.tensor([1.0, 2.0, 3.0])
    if transform is vjp or transform is linearize:
        return transform(f, x)
    if transform is jvp:
        return jvp(f, (x,), (x,))
    return transform(f)(x)


WRITES = {
    "add_": lambda c: c.add_(1),
    "copy_": lambda c: c.copy_(ones()),
    "+=": lambda c: c.__iadd__(1),
    "one element": lambda c: c.__setitem__(0, 1.0),
    "all elements": lambda c: c.__setitem__(slice(None), 1.0),
    "by a mask": lambda c: c.__setitem__(c >= 0, 2.0),
    "by indices": lambda c: c.__setitem__(torch.tensor([0, 1]), 2.0),
    "index_put_": lambda c: c.index_put_((torch.tensor([0]),), torch.ones(1)),
    "zero_": lambda c: c.zero_(),
    "fill_": lambda c: c.fill_(2.0),
    "normal_": lambda c: c.normal_(),
    "init": lambda c: torch.nn.init.ones_(c),
    "scatter_": lambda c: c.scatter_(0, torch.tensor([0]), 1.0),
    "relu(inplace=True)": lambda c: F.relu(c, inplace=True),
    "dropout(inplace=True)": lambda c: F.dropout(c, 0.5, True, True),
    "embedding(max_norm=)": lambda c: F.embedding(torch.tensor([0]), c.view(1, 3), max_norm=0.1),
    "unsqueeze_": lambda c: c.unsqueeze_(0),
    "resize_": lambda c: c.resize_(2),
    "set_": lambda c: c.set_(ones()),
    "a view": lambda c: c[:2].mul_(2),
    "detached": lambda c: c.detach().add_(1),
    "data": lambda c: c.data.add_(1),
    "no copy": lambda c: c.contiguous().to(torch.float32).add_(1),
    "an output of split": lambda c: c.split(2)[0].add_(1),
    "without recording": lambda c: torch.no_grad()(lambda: c.add_(1))(),
    "in vmap": lambda c: vmap(lambda b: c.add_(1).sum() + b)(ones()),
    "mapped": lambda c: vmap(lambda b: b.add_(1))(c),
    "in another gradient": lambda c: grad(lambda b: c.add_(1).sum() + b.sum())(ones()),
    "in a tangent": lambda c: jvp(lambda b: c.add_(1) + b, (ones(),), (ones(),)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_captured_tensors_are_refused(name):
    captured, writes = torch.full((3,), 0.5), WRITES[name]

    def f(x):
        writes(captured)
        return (x * x).sum()

    with pytest.raises(RuntimeError, match=REFUSED):
        grad(f)(ones())
    assert captured.tolist() == [0.5] * 3


@pytest.mark.parametrize(
    "transform", [grad, vjp, jvp, jacrev, jacfwd, hessian, linearize], ids=lambda t: t.__name__
)
def test_every_transform_refuses_and_lets_the_next_function_run(transform):
    captured = torch.zeros(3)

    def writes(x):
        captured.add_(1)
        return (x * x).sum()

    def makes(x):
        made = torch.zeros(3)
        made[0] = 2.0
        made += 1
        return (x * x * made).sum()

    with pytest.raises(RuntimeError, match=REFUSED):
        run(transform, writes)
    run(transform, makes)
    captured.add_(1)  # no transform runs
    assert captured.tolist() == [1.0] * 3


MADE = {
    "a factory": lambda c, x: torch.zeros(3),
    "a clone": lambda c, x: c.clone(),
    "a result": lambda c, x: c + 1,
    "data": lambda c, x: torch.tensor([1.0, 2.0]),
    "of NumPy": lambda c, x: torch.from_numpy(np.ones(3)),
    "a deep copy": lambda c, x: copy.deepcopy(c),
    "a parameter's data": lambda c, x: torch.nn.Parameter(torch.ones(3)).data,
    "a layer's weight": lambda c, x: torch.nn.LayerNorm(3).weight.detach(),
    "a view of a result": lambda c, x: (c * 2)[1:].view(2, 1),
    "an argument without its history": lambda c, x: x.detach(),
    "of torch.autograd": lambda c, x: torch.autograd.grad((x * x).sum(), x)[0],
    "of another gradient": lambda c, x: grad(lambda b: (b * b).sum())(c),
    "of a tangent": lambda c, x: jvp(lambda b: b * 2, (c,), (c,))[1],
    "of vmap": lambda c, x: vmap(lambda b: b * 2)(c),
    "unpacked": lambda c, x: torch.max(torch.ones(2, 3), 1).values,
    "index": lambda c, x: c[torch.tensor([0])],
}


@pytest.mark.parametrize("name", MADE)
def test_what_the_function_made_may_be_written_to(name):
    captured = torch.zeros(3)

    def f(x):
        MADE[name](captured, x).add_(1)
        return x.sum()

    for transform in (grad, vjp, jacrev):
        run(transform, f)
    run(jacfwd, grad(f))
    assert captured.tolist() == [0.0] * 3


def test_tensors_that_are_given_may_be_written_to():
    def f(x, state, *, count):
        state["mean"].mul_(0.5).add_(x.detach())
        count += 1
        return (x * x).sum()

    state, count = {"mean": torch.ones(3)}, torch.tensor(0)
    g = grad(f)(torch.tensor([1.0, 2.0, 3.0]), state, count=count)
    assert g.tolist() == [2.0, 4.0, 6.0]
    assert state["mean"].tolist() == [1.5, 2.5, 3.5] and count.item() == 1


def test_arguments_that_jacfwd_does_not_differentiate_may_be_written_to():
    def f(x, y):
        y.copy_(x)
        return y

    got = jacfwd(f)(ones(), torch.zeros(3))
    assert got.tolist() == torch.eye(3).tolist()


class Doubled(torch.autograd.Function):
    """x + x, whose rules write to what they get."""

    @staticmethod
    def forward(x):
        return x + x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)


def test_rules_of_custom_functions_may_write_to_gradients_and_tangents():
    def outer(x):
        return (x * grad(lambda y: (Doubled.apply(y) * 3).sum())(x)).sum()

    assert grad(outer)(ones()).tolist() == [6.0] * 3
    assert jvp(Doubled.apply, (ones(),), (ones(),))[1].tolist() == [2.0] * 3


def test_made_outside_of_the_inner_transform_is_captured_there():
    def outer(x):
        made = torch.zeros(3)
        made.add_(1)

        def inner(y):
            made.add_(1)
            return (y * y).sum()

        return grad(inner)(x).sum()

    with pytest.raises(RuntimeError, match=REFUSED):
        grad(outer)(ones())


def test_out_lists_and_running_statistics_are_not_looked_at():
    """As in PyTorch."""
    out, listed, mean, var = ones(), ones(), torch.zeros(3), ones()

    def f(x):
        torch.add(ones(), 1, out=out)
        torch._foreach_add_([listed], 1.0)
        F.batch_norm(torch.stack([x, x]), mean, var, training=True)
        return (x * x).sum()

    grad(f)(torch.tensor([1.0, 2.0, 3.0]))
    assert out.tolist() == [2.0] * 3 and listed.tolist() == [2.0] * 3
    np.testing.assert_allclose(mean.tolist(), [0.1, 0.2, 0.3], rtol=1e-6)


def test_buffers_of_a_module_are_captured_unless_they_are_given():
    layer = torch.nn.BatchNorm1d(3)
    parameters = {k: p.detach() for k, p in layer.named_parameters()}
    x = torch.randn(4, 3)

    def loss(parameters, buffers):
        return functional_call(layer, (parameters, buffers), (x,)).square().sum()

    with pytest.raises(RuntimeError, match=REFUSED):
        grad(lambda p: loss(p, {}))(parameters)
    buffers = {k: b.clone() for k, b in layer.named_buffers()}
    grad(loss)(parameters, buffers)
    assert buffers["num_batches_tracked"].item() == 1 and layer.num_batches_tracked.item() == 0


def drawn(row):
    """(arguments, the tensors among them) of the cases of a row."""
    for _, args, kwargs in row.draws():
        given: list = []

        def tensor(a, given=given):
            given.append(_wrap(a.copy()))
            return given[-1]

        yield *replace((args, kwargs), tensor, np.ndarray), given


def memory(t):
    return t.untyped_storage().data_ptr()


@each(lambda row: row.check is None)
def test_results_of_every_operator_may_be_written_to_where_they_are_new(row):
    errors: list[str] = []
    for args, kwargs, given in drawn(row):

        def f(x, args=args, kwargs=kwargs, given=given):
            if row.writes:
                args = (args[0].clone(), *args[1:])
            try:
                results = leaves(function(row.name)(*args, **kwargs))
            except Exception as error:
                errors.append(str(error))
                return x
            for r in results:
                if not isinstance(r, Tensor) or r.layout is not torch.strided or not r.numel():
                    continue
                if any(memory(r) == memory(t) for t in given):
                    with pytest.raises(RuntimeError, match=REFUSED):
                        r.zero_()
                elif memory(r) and 0 not in r.stride():
                    r.zero_()
            return x

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad(f)(torch.tensor(1.0))
    assert not any("captured" in e for e in errors)


def own(row):
    """The name of the in-place method."""
    return row.name.rpartition(".")[2].rstrip("_") + "_"


# No operators, or they write no memory; the method is not of the same arguments, or of another function.
OTHERS = ("detach", "detach_", "Tensor.apply_", "Tensor.map_", "Tensor.map2_")
OTHERS += ("polygamma", "signal.windows.exponential")


@each(lambda row: row.name not in OTHERS and hasattr(Tensor, own(row)))
def test_in_place_form_of_every_operator_is_refused(row):
    label = own(row)
    for args, kwargs, given in drawn(row):
        if not given or not args or args[0] is not given[0]:
            continue
        captured, before = given[0], given[0].clone()
        with pytest.raises(RuntimeError, match=REFUSED):
            grad(lambda x: (getattr(captured, label)(*args[1:], **kwargs), x)[1])(torch.tensor(1.0))
        assert torch.equal(torch.nan_to_num(captured), torch.nan_to_num(before))
        break
    else:
        pytest.fail("no case begins with a tensor")


def test_a_mode_of_a_program_may_have_any_names():
    class Mode(TorchFunctionMode):
        watch = remember = None

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        assert (torch.ones(2) + 1).tolist() == [2, 2]
        assert torch.from_numpy(np.ones(2)).tolist() == [1, 1]
