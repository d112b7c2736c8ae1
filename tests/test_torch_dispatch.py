"""Calls below autograd: modes with a `__torch_dispatch__`, and the graphs that `make_fx` makes of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._subclasses import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from rushlight.autograd.state import active, thread
from rushlight.dispatch import aten_calls
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode


class Names(TorchDispatchMode):
    """Notes the operators that it gets."""

    def __init__(self):
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def names(function, *args):
    with Names() as mode:
        function(*args)
    return mode.seen


def numbers(*shape):
    return (torch.arange(torch.Size(shape).numel()) / 7 - 0.6).reshape(shape)


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda x: x + 1, "aten.add.Tensor"),
        (lambda x: x**2, "aten.pow.Tensor_Scalar"),
        (lambda x: x > 0, "aten.gt.Scalar"),
        (lambda x: x.add_(1), "aten.add_.Tensor"),
        (lambda x: x.zero_(), "aten.zero_.default"),
        (lambda x: x.fill_(2.0), "aten.fill_.Scalar"),
        (lambda x: x.copy_(x * 1), "aten.mul.Tensor aten.copy_.default"),
        (lambda x: x.sum(0), "aten.sum.dim_IntList"),
        (lambda x: x @ x, "aten.mm.default"),
        (lambda x: x[1:, None, 0], "aten.slice.Tensor aten.unsqueeze.default aten.select.int"),
        (lambda x: x[torch.ones(3) > 0], "aten.ones.default aten.gt.Scalar aten.index.Tensor"),
        (lambda x: F.linear(x, x, x[0]), "aten.select.int aten.t.default aten.addmm.default"),
        (lambda x: x.detach(), "aten.detach.default"),
        (lambda x: torch.abs(x, out=x), "aten.abs.out"),
        (lambda x: torch.tensor(1.0), "aten.lift_fresh.default"),
        (lambda x: torch.zeros(2, 3), "aten.zeros.default"),
        (lambda x: x.uniform_(), "aten.uniform_.default"),
        (lambda x: x.to(torch.float64), "aten._to_copy.default"),
    ],
)
def test_operators_have_their_inner_names(function, want):
    x = numbers(3, 3)
    plain = numbers(3, 3)
    torch.manual_seed(0)
    expected = function(plain)
    torch.manual_seed(0)
    with Names() as mode:
        result = function(x)
    assert mode.seen == want.split()
    assert torch.equal(result, expected)
    assert torch.equal(x, plain)


def test_a_call_is_recorded_above_the_mode():
    x = numbers(3).requires_grad_()
    with Names() as mode:
        y = (x * x).sum()
        forward, mode.seen = mode.seen, []
        y.backward()
    assert forward == ["aten.mul.Tensor", "aten.sum.default"]
    assert "aten.mul.Tensor" in mode.seen
    assert torch.allclose(x.grad, 2 * x.detach())


def test_a_mode_gives_other_results():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.add.Tensor else result

    x = numbers(2).requires_grad_()
    with Doubled():
        y = x + 1
    assert torch.equal(y, (x + 1) * 2)
    assert y.grad_fn.name() == "AddBackward0"


def test_the_inner_mode_is_asked_first_and_sees_not_itself():
    with Names() as outer, Names() as inner:
        torch.ones(2)
    assert outer.seen == inner.seen == ["aten.ones.default"]


def test_nothing_is_left_after_an_error():
    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("of the mode")

    before = active.modes
    with pytest.raises(KeyError), Names(), Failing():
        torch.ones(2)
    assert thread.dispatch_modes == ()
    assert active.modes == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, g: x.normal_(0, 2, generator=g),
        lambda x, g: x.uniform_(generator=g),
        lambda x, g: x.random_(7, generator=g),
        lambda x, g: x.random_(2, 7, generator=g),
        lambda x, g: x.exponential_(generator=g),
        lambda x, g: x.bernoulli_(0.5, generator=g),
        lambda x, g: x.bernoulli_(torch.full((4,), 0.5), generator=g),
        lambda x, g: x.geometric_(0.5, generator=g),
        lambda x, g: x.cauchy_(generator=g),
        lambda x, g: x.log_normal_(generator=g),
    ],
)
def test_draws_in_place_are_those_of_their_generator(draw):
    want = draw(torch.empty(4), torch.Generator().manual_seed(3))
    before = torch.get_rng_state()
    with Names():
        found = draw(torch.empty(4), torch.Generator().manual_seed(3))
    assert found.tolist() == want.tolist()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_mode_that_declines():
    class Declining(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    expected = pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch.ops.aten.ones")
    with expected, Declining():
        torch.ones(2)


def test_versions_count_one_write():
    x = numbers(3)
    with Names():
        x.add_(1)
        x.zero_()
    assert x._version == 2


def test_views_in_a_mode_share_memory_and_history():
    x = numbers(2, 3).requires_grad_()
    with Names():
        y = x * 1
        y[0].mul_(2)
        y.sum().backward()
    assert torch.equal(x.grad, torch.tensor([[2.0] * 3, [1.0] * 3]))


# -- make_fx -----------------------------------------------------------------------------------------


def targets(traced):
    return [str(n.target) for n in traced.graph.nodes if n.op == "call_function"]


def written(x, y):
    z = x * y
    z[0] = 1.0
    z.mul_(2)
    return {"sum": z.sum(), "row": z[1:, 0]}


def gradient(x, y):
    return torch.func.grad(lambda x: (F.gelu(x @ y.t()) ** 2).mean())(x)


def twice(x, y):
    g = torch.func.grad(lambda x: (x.sigmoid() * y).sum())
    return torch.func.grad(lambda x: (g(x) * y).sum())(x)


def mapped(x, y):
    return torch.func.vmap(lambda a, b: torch.outer(a, b).sin().sum(0))(x, y)


def of_weights(x, y):
    w = y.detach().clone().requires_grad_()
    loss = F.cross_entropy(F.layer_norm(x, (3,)) @ w.t(), torch.tensor([0, 1]))
    return torch.autograd.grad(loss, [w])[0]


@pytest.mark.parametrize("function", [written, gradient, twice, mapped, of_weights])
def test_a_graph_computes_what_the_function_does(function):
    torch.manual_seed(0)
    traced = make_fx(function)(torch.randn(2, 3), torch.randn(2, 3))
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    want, got = function(x, y), traced(x, y)
    if isinstance(want, dict):
        assert want.keys() == got.keys()
        want, got = want.values(), got.values()
    else:
        want, got = [want], [got]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(want, got, strict=True))
    calls = [n.meta["val"] for n in traced.graph.nodes if n.op == "call_function"]
    assert any(isinstance(v, FakeTensor) and v.device.type == "cpu" for v in calls)


def test_constants_and_trees_of_arguments():
    w = torch.nn.Parameter(numbers(3))
    traced = make_fx(lambda a: a["x"] * w + a["y"][0])({"x": numbers(3), "y": [numbers(3) + 1]})
    assert torch.equal(traced({"x": numbers(3), "y": [torch.ones(3)]}), numbers(3) * w + 1)
    assert targets(traced) == ["aten.mul.Tensor", "aten.add.Tensor"]
    assert traced._param_constant0 is w


def test_a_table_of_decompositions():
    table = {torch.ops.aten.sub.Tensor: lambda a, b: a + (-b)}
    traced = make_fx(lambda x: x - x, table)(numbers(3))
    assert targets(traced) == ["aten.neg.default", "aten.add.Tensor"]


def test_control_flow_on_values_is_refused():
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(lambda x: x if x.sum() > 0 else -x)(numbers(3))
    assert thread.dispatch_modes == ()


def test_tracing_with_fake_tensors_touches_no_memory():
    traced = make_fx(lambda x: (x @ x).sum(), tracing_mode="fake")(torch.empty(20, 20))
    assert targets(traced) == ["aten.mm.default", "aten.sum.default"]
    x = numbers(20, 20)
    assert torch.allclose(traced(x), (x @ x).sum())


# -- subclasses --------------------------------------------------------------------------------------


class Wrapped(torch.Tensor):
    """A tensor around another, which notes the operators that it gets."""

    seen: list = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=inner.device, requires_grad=requires_grad,
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))
        args, kwargs = pytree.tree_map_only(Wrapped, lambda t: t.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Wrapped, func(*args, **kwargs))


@pytest.fixture
def seen():
    Wrapped.seen.clear()
    return Wrapped.seen


def test_a_wrapper_is_differentiated_above(seen):
    x = Wrapped(numbers(3), requires_grad=True)
    y = (x.sigmoid() * x).sum()
    y.backward()
    plain = numbers(3).requires_grad_()
    (plain.sigmoid() * plain).sum().backward()
    assert type(x.grad) is type(y) is Wrapped
    assert torch.allclose(x.grad.inner, plain.grad)
    assert seen[:1] == ["aten.sigmoid.default"]


def test_views_and_writes_of_wrappers():
    x = Wrapped(numbers(4))
    v = x[1:]
    before = x._version
    v.mul_(2)
    assert x._version == v._version == before + 1
    assert torch.equal(x.inner[1:], numbers(4)[1:] * 2)
    assert v._base is x
    d = x.detach()
    d.add_(1)
    assert x._version == before + 2


def test_plain_tensors_are_written_at_indices_that_are_wrappers(seen):
    index = Wrapped(torch.tensor([0, 1, 1]))
    x = torch.zeros(3)
    x.scatter_add_(0, index, torch.ones(3))  # a wrapper has no memory: it counted as another device
    assert x.tolist() == [1, 2, 0]
    x.index_add_(0, index, torch.ones(3))
    assert x.tolist() == [2, 4, 0]
    x.scatter_(0, index, 5.0)
    assert x.tolist() == [5, 5, 0]
    assert seen == ["aten.scatter_add_.default", "aten.index_add_.default", "aten.scatter_.value"]
    with pytest.raises(RuntimeError):
        x.index_add_(0, torch.zeros(3, dtype=torch.int64, device="meta"), torch.ones(3))


def test_what_a_wrapper_says_of_itself():
    inner = numbers(4, 6).t()[1:]
    x = Wrapped(inner)
    assert (x.shape, x.stride(), x.storage_offset()) == (
        inner.shape, inner.stride(), inner.storage_offset()
    )  # fmt: skip
    assert torch.Tensor._make_wrapper_subclass(Wrapped, (10**12,)).shape == (10**12,)
    with pytest.raises(RuntimeError, match="is not supported for tensor subclasses"):
        x.numpy()
    with pytest.raises(RuntimeError, match="is not supported for tensor subclasses"):
        x.tolist()
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(torch.nn.Parameter, (2,))
    with pytest.raises(RuntimeError, match="already associated to a python object of type Wrapped"):
        x.as_subclass(torch.nn.Parameter)


def test_a_wrapper_that_is_an_index_is_asked():
    x, at = torch.arange(6.0).view(3, 2), Wrapped(torch.tensor([2, 0]))
    mask = Wrapped(torch.tensor([False, True, True]))
    want = [
        [[4.0, 5.0], [0.0, 1.0]],
        [5.0, 1.0],
        [[1.0, 0.0], [3.0, 2.0], [5.0, 4.0]],
        [[2.0, 3.0], [4.0, 5.0]],
    ]
    Wrapped.seen.clear()
    for index, values in zip(
        [at, (at, 1), (slice(None), Wrapped(torch.tensor([1, 0]))), mask], want, strict=True
    ):
        assert x[index].inner.tolist() == values
    assert Wrapped.seen == ["aten.index.Tensor"] * 4


def test_operators_keep_their_names_where_a_program_replaces_the_public_functions(
    monkeypatch, seen
):
    for name in ("index_select", "select"):
        own = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *args, own=own: own(*args))
        monkeypatch.setattr(getattr(torch.ops.aten, name), "_called", None)
    aten_calls.same.cache_clear()
    x = Wrapped(torch.arange(6.0).view(3, 2))
    assert torch.index_select(x, 0, torch.tensor([2])).inner.tolist() == [[4.0, 5.0]]
    assert torch.select(x, 0, 1).inner.tolist() == [2.0, 3.0]
    assert seen == ["aten.index_select.default", "aten.select.int"]


def test_wrappers_sort_by_the_overload_that_says_stable(seen):
    x = Wrapped(torch.tensor([[2.0, 1.0]]))
    x.sort(), x.sort(stable=True), x.argsort(stable=True), torch.sort(x, dim=0, stable=False)
    assert seen == ["aten.sort.default", *["aten.sort.stable"] * 3]
    assert x.sort(descending=True).values.inner.tolist() == [[2.0, 1.0]]


def test_a_wrapper_has_no_address():
    x, y = Wrapped(torch.ones(2)), Wrapped(torch.ones(2))
    assert x.data_ptr() == y.data_ptr() == 0
    assert x.is_set_to(x) and not x.is_set_to(y)


def test_a_wrapper_is_asked_for_products_that_reduce():
    class Sums(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            assert func is torch.ops.aten._sparse_mm_reduce_impl.default and args[2] == "mean"
            return args[1] + 1, args[1]

    assert torch.sparse.mm(Sums(torch.ones(2, 2)), torch.ones(2), "mean").tolist() == [2.0, 2.0]


def test_a_subclass_on_memory_calls_its_base():
    class Counting(torch.Tensor):
        calls = 0
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            Counting.calls += 1
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = torch.Tensor._make_subclass(Counting, numbers(3))
    y = torch.Tensor._make_subclass(Counting, numbers(3), True)
    z = x * y
    assert Counting.calls == 1
    assert torch.equal(z, numbers(3) ** 2)
    assert z.requires_grad


def test_a_wrong_result_of_a_handler():
    class Wrong(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "no tensor"

    with pytest.raises(RuntimeError, match="Unable to cast"):
        torch.Tensor._make_subclass(Wrong, numbers(2)).neg()


# -- fake tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda a, k: torch.linalg.cholesky(a),
        lambda a, k: torch.linalg.inv(a[:0]),
        lambda a, k: torch.linalg.solve(a, a[..., 0]),
        lambda a, k: torch.linalg.matrix_power(a, -2),
        lambda a, k: torch.linalg.ldl_factor(a)[0],
        lambda a, k: torch.linalg.lu_factor(a)[1],
        lambda a, k: torch.cholesky_inverse(a),
        lambda a, k: torch.linspace(a[0, 0, 0], a[0, 0, 1], 5),
        lambda a, k: torch.searchsorted(a[0, 0], a[0, 1], sorter=k),
        lambda a, k: torch.masked_fill(a, a > 0, a[0, 0, 0]),
        lambda a, k: F.rrelu(a, training=True),
    ],
)
def test_what_looks_at_values_has_the_shape_on_fake_tensors(function):
    values = torch.eye(3).repeat(2, 1, 1) + 0.1, torch.arange(3)
    expected = function(*values)
    with FakeTensorMode() as mode:
        found = function(*map(mode.from_tensor, values))
    assert isinstance(found, FakeTensor)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_counts_of_repeats_are_not_made_up():
    x, counts = torch.ones(2, 3), torch.tensor([2, 3])
    with FakeTensorMode() as mode, pytest.raises(RuntimeError, match="without output_size"):
        mode.from_tensor(x).repeat_interleave(mode.from_tensor(counts), 0)
    x, counts = x.to("meta"), counts.to("meta")
    assert x.repeat_interleave(counts, 0, output_size=5).shape == (5, 3)
    with pytest.raises(RuntimeError, match="without output_size"):
        x.repeat_interleave(counts, 0)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_graphs_take_indices_from_the_end(mode):
    x, index = torch.arange(5.0), torch.tensor([1, 2])
    traced = make_fx(lambda x, i: torch.take_along_dim(x, i, 0), tracing_mode=mode)(x, index)
    assert traced(x, torch.tensor([-1, -5])).tolist() == [4, 0]


def test_indices_of_what_is_not_zero_are_recorded():
    traced = make_fx(lambda x: torch.where(x > 0)[0])(torch.tensor([1.0, 0.0, 2.0]))
    assert traced(torch.tensor([0.0, 0.0, 2.0, 4.0])).tolist() == [2, 3]


def test_arguments_at_their_defaults_are_left_out():
    graph = make_fx(lambda x: x.split(2)[0])(numbers(4)).graph
    assert next(
        iter(graph.find_nodes(op="call_function", target=torch.ops.aten.split.Tensor))
    ).args[1:] == (2,)


def write_at(x, i):
    y = x.clone()
    y[i] = 7
    return y


@pytest.mark.parametrize(
    "function",
    [lambda x, i: x[i[0]], lambda x, i: x[i[0], 1:], lambda x, i: x[i[0], i], lambda x, i: write_at(x, i[0])],
)  # fmt: skip
def test_the_value_of_an_index_is_no_constant_of_a_graph(function):
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(function)(numbers(2, 3), torch.tensor([1, 1]))


@pytest.mark.parametrize(
    "indices",
    [lambda i: [i[0]], lambda i: [i[0], i[1]], lambda i: [None, i[0]], lambda i: [i[0], None, i[1]], lambda i: [i[1], i]],
)  # fmt: skip
def test_inner_indexing_takes_tensors_without_dimensions(indices):
    x, first, other = numbers(2, 3, 2), torch.tensor([1, 1]), torch.tensor([0, 1])
    traced = make_fx(lambda x, i: torch.ops.aten.index(x, indices(i)))(x, first)
    for at in (first, other):
        want = x[tuple([slice(None) if i is None else i for i in indices(at)])]
        assert torch.equal(traced(x, at), want)


def test_a_training_step_on_fake_tensors():
    with FakeTensorMode():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
        loss = model(torch.randn(2, 3, 6, 6)).pow(2).mean()
        loss.backward()
        assert torch.empty(10**6, 10**6).mm(torch.empty(10**6, 10**6)).shape == (10**6, 10**6)
    assert isinstance(loss, FakeTensor)
    assert model[0].weight.grad.shape == (8, 3, 3, 3)
    assert repr(loss.detach()) == "FakeTensor(..., size=())"
    assert thread.dispatch_modes == ()


def test_fake_tensors_keep_their_device():
    with FakeTensorMode() as mode:
        x = torch.ones(2, device="cuda")
        assert (x + 1).device == (torch.ones(2).to("cuda") * x).device == torch.device("cuda")
        with pytest.raises(RuntimeError, match="found two different devices"):
            x + torch.ones(2)
    real = numbers(2, 3).requires_grad_()
    fake = mode.from_tensor(real)
    assert fake is mode.from_tensor(real)
    assert fake.requires_grad
    assert (fake * 2).shape == (2, 3)


def test_values_of_fake_tensors():
    real = numbers(2)
    with FakeTensorMode() as mode:
        assert (torch.tensor(3.0) + 1).item() == 4.0
        x = torch.ones(3)
        with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
            x.sum().item()
        with pytest.raises(DynamicOutputShapeException, match="nonzero"):
            x.nonzero()
        with pytest.raises(RuntimeError, match="Cannot access data pointer"):
            x.data_ptr()
        with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
            mode.from_tensor(real) + real


def test_views_of_fake_tensors_share_what_is_not_there():
    with FakeTensorMode():
        x = torch.zeros(4)
        v = x[1:]
        v.add_(1)
    assert x._version == 1
    assert v.storage_offset() == 1
    assert v._base is x


@pytest.mark.parametrize(
    "write",
    [
        lambda a, x: a.mul_(a),
        lambda a, x: a.addcmul_(x, a, value=0.1),
        lambda a, x: a.view(-1).mul_(a.view(-1)),
        lambda a, x: a.hypot_(a),
    ],
)
def test_writes_of_tensors_to_themselves_are_refused_in_backward(write):
    """A rule reads what the write overwrites: below a mode backward is refused, too."""
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    with Names(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        write(x * 3, x).sum().backward()


def test_a_write_of_a_tensor_to_itself_that_no_rule_reads():
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    with Names():
        a = x * 3
        a.gt_(0.5).add_(x).sum().backward()
    assert a.tolist() == [1.5, 2.5] and x.grad.tolist() == [1, 1]


def test_views_in_place_and_fills_are_calls():
    def function(x):
        y = (x * 1).t_().unsqueeze_(0)
        return y + torch.fill(x.t(), 2.0)

    traced = make_fx(function)(numbers(2, 3))
    x = numbers(2, 3) * 3
    assert torch.equal(traced(x), function(x))
    assert targets(traced)[1:3] == ["aten.t_.default", "aten.unsqueeze_.default"]


def test_values_of_batches_are_detached_inside():
    traced = make_fx(torch.vmap(lambda x: x.detach() * x.detach().sum()))(numbers(2, 3))
    assert "aten.detach.default" in targets(traced)
    assert torch.equal(traced(numbers(2, 3)), numbers(2, 3) * numbers(2, 3).sum(1, keepdim=True))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_optimizers_update_wrappers_by_operators(optimizer, seen):
    wrapped, plain = (Wrapped(numbers(3)).requires_grad_(), numbers(3).requires_grad_())
    for p in (wrapped, plain):
        step = optimizer([p], lr=0.1)
        for _ in range(2):
            step.zero_grad()
            (p * p).sum().backward()
            step.step()
    assert torch.allclose(wrapped.inner, plain.detach())
    assert any(name.split(".")[1].endswith("_") for name in seen)


def test_a_training_step_as_a_graph():
    def step(w, x):
        w = w.clone().requires_grad_()
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        (x @ w).pow(2).sum().backward()
        optimizer.step()
        return w.detach()

    traced = make_fx(step)(numbers(3), numbers(2, 3))
    w, x = numbers(3) * 2, numbers(2, 3) + 1
    assert torch.allclose(traced(w, x), step(w, x), atol=1e-6)


def test_indices_of_inference_mode():
    x = numbers(3, 4)
    with torch.inference_mode():
        k = torch.tensor([2, 0])
        assert torch.equal(make_fx(lambda x: x[:, k])(x)(x), x[:, [2, 0]])


def test_lists_that_hold_themselves_are_refused_as_ever():
    torch.Tensor._make_wrapper_subclass(Wrapped, (2,))  # from now on arguments are looked through
    endless = [0]
    endless.append(endless)
    with pytest.raises(TypeError, match="self-referential lists"):
        torch.tensor(endless)


def test_known_values_of_fake_tensors_follow_writes():
    with FakeTensorMode():
        x = torch.tensor([4.0])
        view, spread = x[:], x.expand(4)
        assert x.add_(1) is x and x.item() == view.item() == 5
        assert spread.constant is None
        view.mul_(torch.tensor([2.0]))
        assert x.item() == 10
        other = torch.tensor([1.0])
        spread[0].copy_(
            torch.rand([])
        )  # a write of what is unknown, through a view of another size
        assert x.constant is view.constant is None and other.item() == 1
        torch.add(torch.rand([1]), 1, out=other)
        assert other.constant is None
        drawn = torch.tensor([1.0]).uniform_()
    with pytest.raises(DataDependentOutputException):
        drawn.item()


def test_out_is_for_overloads_that_write():
    a, b = torch.tensor(2), torch.tensor(0)
    torch.ops.aten.add.out(a, a, out=b)
    assert b == 4
    with pytest.raises(
        RuntimeError, match="Unknown keyword argument 'out' for operator 'aten::add'"
    ):
        torch.ops.aten.add.Tensor(a, a, out=b)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resampling_by_its_inner_name(mode):
    """It takes a size or factors, and the factors of a size in a list or one by one."""
    inner = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa")
    x = torch.arange(48.0).reshape(1, 1, 6, 8)
    by_factors = inner(x, None, False, [0.5, 1.7])
    assert by_factors.shape == (1, 1, 3, 13)
    assert torch.equal(by_factors, inner(x, [3, 13], False, 0.5, 1.7))
    assert torch.equal(by_factors, inner(x, [3, 13], False, scales_h=0.5, scales_w=1.7))
    assert torch.allclose(by_factors.mean(), x.mean(), atol=0.2)
    assert torch.equal(inner(x, [3, 4], False, None), inner(x, [3, 4], False, scales_h=None))
    assert torch.allclose(inner(torch.full((1, 1, 6, 8), 2.5), [3, 4], True), torch.tensor(2.5))


def test_inner_names_of_families_that_no_call_loaded():
    program = (
        "import rushlight as t; x = t.arange(4.0).reshape(1, 1, 4);"
        "print(t.ops.aten.upsample_linear1d(x, [7], True, None).flatten().tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]\n", done.stderr
