"""The walk back, leaves, hooks, versions, modes and threads; gradients against finite differences."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import warnings
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers in every run."""
    torch.manual_seed(0)


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def double(*shape):
    return torch.rand(*shape, dtype=torch.float64).add_(0.5).requires_grad_()


# -- the walk ------------------------------------------------------------------------------------------


def test_chain_of_100_000_operations():
    x = torch.tensor([2.0], requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_graph_is_freed_by_reference_counts(no_collector):
    x = torch.ones(3, requires_grad=True)
    y = (x.exp().tanh() * x).view(3, 1).sum()
    nodes = [y.grad_fn]
    while nodes[-1] is not None and nodes[-1].next_functions:
        nodes.append(nodes[-1].next_functions[0][0])
    watched = [weakref.ref(n) for n in nodes[:-1]]
    del y, nodes
    assert [w() for w in watched] == [None] * len(watched)


def test_the_names_of_nodes_that_stand_for_leaves_and_writes():
    """`name()` has PyTorch's namespace; the class, `repr` and printed tensors do not."""
    x = torch.ones(3, requires_grad=True)
    y = x.clone()
    y[:2].mul_(2)
    leaf = x.clone().grad_fn.next_functions[0][0]
    assert (leaf.name(), y.grad_fn.name()) == (
        "torch::autograd::AccumulateGrad",
        "torch::autograd::CopySlices",
    )
    assert repr(leaf).startswith("<AccumulateGrad object at")
    assert str(y) == "tensor([2., 2., 1.], grad_fn=<CopySlices>)"


def test_writes_through_views_leave_no_cycle(no_collector):
    b = torch.zeros(3, 4) * torch.ones(1, requires_grad=True)
    v = b[1]
    v.mul_(torch.full((4,), 2.0, requires_grad=True))
    node = weakref.ref(b.grad_fn)
    b.sum().backward()
    del b, v
    assert node() is None


def test_a_node_without_gradient_still_reports():
    """A consumer that gives None must not leave the rest of the graph waiting."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    x = torch.ones(2, requires_grad=True)
    y = x * 3
    (Nothing.apply(y).sum() + y.sum()).backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_diamonds_count_every_path():
    x = double(3)
    assert gradcheck(lambda x: (x * x + x.exp() * x).sum() * x, (x,))
    assert gradgradcheck(lambda x: x * x * x.tanh(), (x,))


def test_backward_twice():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    z = (x + 1).sum()  # saved nothing: may be walked again
    z.backward()
    z.backward()


def test_reentrant_backward():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                (y * y).sum().backward()
            return g * y.grad

    x = torch.tensor([3.0], requires_grad=True)
    Inner.apply(x).backward()
    assert x.grad.item() == 6.0


def test_inputs_of_backward_limit_what_is_written():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = x * w
    y.sum().backward(inputs=[w])
    assert x.grad is None and w.grad.tolist() == [1.0, 1.0]
    z = (x * 2).exp()
    middle = x * 2
    middle.exp().sum().backward(inputs=[middle])
    assert middle.is_leaf is False and x.grad is None
    with pytest.raises(RuntimeError, match="cannot be empty"):
        z.sum().backward(inputs=[])


def test_grad_of_unused_inputs():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        torch.autograd.grad(y, (x, w), retain_graph=True)
    g = torch.autograd.grad(y, (x, w), allow_unused=True, retain_graph=True)
    assert g[1] is None
    g = torch.autograd.grad(y, (x, w), materialize_grads=True)
    assert g[1].tolist() == [0.0, 0.0]
    columns = torch.ones(3, 2).t().requires_grad_()
    (g,) = torch.autograd.grad((x * 2).sum(), columns, materialize_grads=True)
    assert (g.stride(), g.requires_grad) == ((1, 2), False)  # they lie as the input
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(torch.ones(1), torch.ones(1))


def test_batched_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (j,) = torch.autograd.grad(x * x, x, torch.eye(2), is_grads_batched=True)
    assert j.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_gradient_takes_the_strides_of_its_leaf():
    w = torch.randn(4, 3).t().requires_grad_()
    (w * torch.ones(3, 4)).sum().backward()
    assert w.grad.stride() == w.stride()
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    (image * 2).sum().backward()
    assert image.grad.is_contiguous(memory_format=torch.channels_last)


def test_leaves_never_share_a_gradient():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    g = torch.ones(2)
    (a + b).backward(g)
    a.grad.mul_(5)
    assert b.grad.tolist() == [1.0, 1.0] and g.tolist() == [1.0, 1.0]
    b.grad.mul_(7)
    assert a.grad.tolist() == [5.0, 5.0] and g.tolist() == [1.0, 1.0]


def test_accumulation_keeps_the_gradient_object():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    g = x.grad
    (x * 3).sum().backward()
    assert x.grad is g and g.tolist() == [5.0, 5.0]


def test_accumulation_keeps_the_gradient_object_where_gradients_are_views():
    x = torch.ones(2, 3, requires_grad=True)
    x.t().tanh().sum().backward()
    g, once = x.grad, x.grad.clone()
    x.t().tanh().sum().backward()
    assert x.grad is g and torch.equal(g, once * 2)


# -- leaves and modes ----------------------------------------------------------------------------------


def test_only_floating_leaves_require_grad():
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    with pytest.raises(RuntimeError, match="[Oo]nly Tensors of floating point"):
        torch.tensor([1, 2], requires_grad=True)
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).requires_grad_(False)


def test_modes_nest_decorate_and_hold_for_one_thread():
    x = torch.ones(1, requires_grad=True)
    seen = {}

    @torch.no_grad()
    def quiet():
        with torch.enable_grad():
            inner = (x * 2).requires_grad
        return (x * 2).requires_grad, inner

    @torch.no_grad
    def bare():
        return torch.is_grad_enabled()

    @torch.no_grad()
    def steps():
        for _ in range(2):
            yield torch.is_grad_enabled()

    assert quiet() == (False, True) and bare() is False
    assert [(s, torch.is_grad_enabled()) for s in steps()] == [(False, True)] * 2

    def other():
        seen["grad"] = torch.is_grad_enabled()

    with torch.set_grad_enabled(False):
        t = threading.Thread(target=other)
        t.start()
        t.join()
        assert not torch.is_grad_enabled()
    assert seen["grad"] and torch.is_grad_enabled()


def test_inference_mode():
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        y = x * 2
        assert torch.is_inference_mode_enabled() and not y.requires_grad
        y.add_(1)
    assert y.is_inference() and not x.is_inference()
    with pytest.raises(RuntimeError, match="[Ii]nference tensors cannot be saved|cannot be saved"):
        (x * y).sum().backward()
    with pytest.raises(RuntimeError, match="track version"):
        _ = y._version
    with pytest.raises(RuntimeError):
        y.requires_grad_()
    assert (y.clone() * x).requires_grad


def test_threads_share_leaves():
    w = torch.zeros(10, requires_grad=True)
    failed = []

    def work():
        try:
            for _ in range(50):
                (w * 2 + 1).sum().backward()
        except Exception as e:  # noqa: BLE001 - reported below
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and w.grad.tolist() == [400.0] * 10


# -- writes in place -----------------------------------------------------------------------------------


def test_a_saved_tensor_that_was_written_to_is_refused():
    x = torch.ones(2, requires_grad=True)
    for save, write in (
        (lambda t: t.exp(), lambda t, y: y.mul_(2)),
        (lambda t: t * t, lambda t, y: t.detach().add_(1)),
    ):
        t = x * 1
        y = save(t)
        write(t, y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_versions_are_shared_by_views_and_detach():
    x = torch.zeros(4)
    v, d = x[1:], x.detach()
    v.add_(1)
    assert x._version == v._version == d._version == 1
    d.zero_()
    assert x._version == 2 and x.data._version == 0
    with torch.no_grad():
        x.add_(1)
    assert x._version == 3


def test_gradients_of_writes_through_views():
    def program(x, y):
        b = x * 1.0
        v = b[1:][:, 1:3]
        v.mul_(y)
        b[0] = (y * y).sum(0).repeat(2)
        return b * b

    assert gradcheck(program, (double(3, 4), double(2, 2)))
    assert gradgradcheck(program, (double(3, 4), double(2, 2)))


def test_a_view_taken_before_the_write_sees_its_history():
    x, y = double(3, 4), double(3)

    def program(x, y):
        b = x * 1.0
        v = b[0]
        b[0, 1:] = y * y
        return v * 3.0

    assert gradcheck(program, (x, y))


def test_a_base_without_gradient_gets_one_by_a_write():
    x = double(3)

    def program(x):
        b = torch.zeros(2, 3, dtype=torch.float64)
        row = b[1]
        row.copy_(x * x)
        if torch.is_grad_enabled():
            assert b.requires_grad and row.requires_grad
        return b * 2.0

    assert gradcheck(program, (x,))


def test_views_that_may_not_be_written():
    x = torch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].mul_(2)
    parts = (x * 1).split(2)
    with pytest.raises(RuntimeError, match="multiple views"):
        parts[0].mul_(2)
    b = x * 1
    with torch.no_grad():
        v = b[:2]
    with pytest.raises(RuntimeError, match="no_grad mode"):
        v.mul_(2)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(1).expand(3).add_(1)


def test_a_failing_write_changes_nothing():
    a = torch.ones(2, 2, dtype=torch.int64)
    for bad in (lambda: a.add_(0.5), lambda: a.add_(torch.ones(3)), lambda: a.copy_(torch.ones(3))):
        version = a._version
        with pytest.raises(RuntimeError):
            bad()
        assert a.tolist() == [[1, 1], [1, 1]] and a._version == version


# -- hooks ---------------------------------------------------------------------------------------------


def test_hooks_run_in_order_and_replace():
    x = torch.ones(2, requires_grad=True)
    seen = []
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append("first") or g * 10)
    y.register_hook(lambda g: seen.append("second"))
    y.grad_fn.register_prehook(lambda gs: seen.append("pre"))
    y.grad_fn.register_hook(lambda gi, go: seen.append("post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y.sum().backward()
    assert seen == ["first", "second", "pre", "post", [20.0, 20.0]]
    assert y.grad.tolist() == [10.0, 10.0] and y.retains_grad


@pytest.mark.parametrize(
    "hooked", [(), ("b",), ("a", "b", "c", "d")], ids=["no hooks", "one hook", "hooks"]
)
@pytest.mark.parametrize("anomaly", [False, True], ids=["plain", "anomaly"])
def test_backwards_of_functions_run_from_the_last_call_back(hooked, anomaly):
    """They may draw random numbers or print: users see their order, whatever leads to them."""
    ran = []

    class Named(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, name):
            ctx.name = name
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            ran.append(ctx.name)
            return g, None

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.set_detect_anomaly(anomaly):
        made = {"a": Named.apply(x, "a")}
        made["b"] = Named.apply(x * 2, "b")
        made["c"] = Named.apply(made["a"].exp().sin() + 1, "c")
        made["d"] = Named.apply(x, "d")
        for name in hooked:
            made[name].register_hook(lambda g: None)
        (made["d"] * 3 + made["c"] * made["b"]).sum().backward()
        torch.stack([made["b"], made["d"]])  # later nodes change nothing
    assert ran == ["d", "c", "b", "a"]


@pytest.mark.parametrize("hooked", [False, True])
def test_several_outputs_of_one_node_with_hooks_or_of_a_function(hooked):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g + 3 * h

    x = torch.ones(2, requires_grad=True)
    a, b = x.unbind() if hooked else Twice.apply(x)
    if hooked:
        a.register_hook(lambda g: g * 2)
        b.register_hook(lambda g: g * 3)
    ((a * a).sum() + (b * b * a).sum()).backward()
    assert x.grad.tolist() == ([6.0, 6.0] if hooked else [62.0, 62.0])


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks_of_modules_run_from_the_last_call_back():
    """Per-sample gradients put what each call gets on a stack, and take it off in backward hooks."""
    first, second = torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    called, ran = [], []
    for name, m in (("first", first), ("second", second)):
        m.register_forward_hook(lambda m, i, o, name=name: called.append((name, i[0].shape[0])))
        m.register_full_backward_hook(lambda m, i, o, name=name: ran.append((name, o[0].shape[0])))
    state, states = torch.zeros(1, 8), []
    for n in range(3):
        state = torch.tanh(first(torch.ones(n + 1, 4)) + second(state[:1]))
        states.append(state)
    torch.cat(states).sum().backward()
    assert ran == called[::-1] and len(ran) == 6


def test_nodes_with_hooks_wait_for_later_ones():
    """A node with a hook that is ready at once runs after those behind nodes without hooks."""
    ran = []
    x = torch.ones(2, requires_grad=True)
    early, late = x * 2, x * 3
    early.register_hook(lambda g: ran.append("early"))
    late.register_hook(lambda g: ran.append("late"))
    (late.exp().sin().sum() + early).sum().backward()
    assert ran == ["late", "early"]


def test_hooks_of_a_leaf_copy_no_gradient():
    x = torch.ones(3, requires_grad=True)
    places = []
    x.register_hook(lambda g: places.append(g.data_ptr()))
    x.register_post_accumulate_grad_hook(lambda t: places.append(t.grad.data_ptr()))
    (x * 2).sum().backward()
    assert places[0] == places[1]
    given = torch.ones(3)
    x.grad = None
    x.backward(given)
    assert x.grad.data_ptr() != given.data_ptr()
    x.grad = None
    kept: list = []
    x.register_hook(kept.append)  # it keeps what it gets
    (x * 2).sum().backward()
    assert x.grad.data_ptr() != kept[0].data_ptr()


def test_hooks_of_tensors_that_grad_is_asked_for():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    aside = 3 * x.detach().requires_grad_()
    seen = []
    aside.register_hook(seen.append)  # leads to no input: it does not run
    x.register_hook(lambda g: g + 1)
    y = x * x
    y.register_hook(lambda g: 2 * g)
    outputs, ones = [3 * y, aside], [torch.ones(2)] * 2
    of_x, of_y = torch.autograd.grad(outputs, [x, y], ones, retain_graph=True)
    assert not seen
    assert of_x.tolist() == [13, 25]
    assert of_y.tolist() == [3, 3]  # y runs on to x: what arrived, without its hook
    assert torch.autograd.grad(outputs, [y], ones)[0].tolist() == [6, 6]


def test_grad_of_outputs_of_one_node():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    a, b, c = (x * x).unbind()
    found = torch.autograd.grad([a * b, c, w.sum()], [b, c, x])
    assert [g.tolist() for g in found] == [1, 1, [8, 4, 6]]
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        torch.autograd.grad((x * x).sum(), [x, w])


def test_a_hook_may_not_change_the_shape():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        (x * 1).sum().backward()


def test_multi_grad_hooks():
    a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
    seen = []
    torch.autograd.graph.register_multi_grad_hook((a, b, c), lambda gs: seen.append(gs))
    (a * b).backward()
    assert [g if g is None else g.item() for g in seen[0]] == [1.0, 1.0, None]
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda g: seen.append("any"), mode="any"
    )
    (a * b).backward()
    assert seen.count("any") == 1
    handle.remove()


def test_saved_tensor_hooks():
    x = torch.tensor([2.0], requires_grad=True)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or len(packed) - 1, lambda k: packed[k]
    ):
        y = (x * x).exp()
    y.backward()
    assert len(packed) == 3 and torch.allclose(x.grad, 4 * torch.tensor([4.0]).exp())
    with (
        torch.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
    ):
        torch.autograd.graph.save_on_cpu().__enter__()


def test_gradient_edges():
    x = torch.tensor([2.0], requires_grad=True)
    y = x * x
    edge = torch.autograd.graph.get_gradient_edge(y)
    z = y.exp()
    del y
    (g,) = torch.autograd.grad(z, edge)
    assert torch.allclose(g, z.detach())


def test_increment_version():
    x = torch.ones(2, requires_grad=True)
    t = x * 1
    y = t * t
    torch.autograd.graph.increment_version(t)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


# -- functions -----------------------------------------------------------------------------------------


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


def test_setup_context():
    x = double(3)
    assert gradcheck(lambda x: Scale.apply(x, 3.0), (x,))
    assert gradgradcheck(lambda x: Scale.apply(x * x, 3.0), (x,))


def test_mark_dirty_and_non_differentiable():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class SortOf(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            values, index = x.sort()
            ctx.mark_non_differentiable(index)
            ctx.save_for_backward(index)
            return values, index

        @staticmethod
        def backward(ctx, g, _):
            (index,) = ctx.saved_tensors
            return torch.zeros_like(g).scatter(0, index, g)

    x = torch.ones(3, requires_grad=True)
    y = x * 1
    z = Twice.apply(y)
    assert z is y and y._version == 1
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="leaf"):
        Twice.apply(x)
    values, index = SortOf.apply(torch.tensor([2.0, 1.0], requires_grad=True))
    assert values.requires_grad and not index.requires_grad
    values.sum().backward()


def test_what_a_function_keeps_on_its_ctx_is_what_backward_finds():
    names = (
        "outputs inputs edges saved shown transposed joins n_outputs shape weights versions".split()
    )

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            for name in names:
                setattr(ctx, name, [name])
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert all(getattr(ctx, name) == [name] for name in names)
            assert ctx.saved_tensors[0].tolist() == [1, 1]
            return g * 2

    x = torch.ones(2, requires_grad=True)
    y = Twice.apply(x * 1)
    assert y.grad_fn.outputs == ["outputs"] and len(y.grad_fn.next_functions) == 1
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_once_differentiable():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = torch.tensor([2.0], requires_grad=True)
    start = torch.ones(1, requires_grad=True)
    (g,) = torch.autograd.grad(Square.apply(x), x, start, create_graph=True)
    assert g.item() == 4.0
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_functions_report_their_mistakes():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Wrong.apply(x, 2.0).sum().backward()
    with pytest.raises(TypeError, match="save_for_backward"):

        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)

        Bad.apply(x)


def test_gradcheck_raises_with_both_jacobians():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(RuntimeError, match="Jacobian mismatch(.|\n)*numerical(.|\n)*analytical"):
        gradcheck(Bad.apply, (double(2),))
    assert gradcheck(Bad.apply, (double(2),), raise_exception=False) is False
    z = torch.tensor([0.5 + 1j, -1 + 0.3j], dtype=torch.complex128, requires_grad=True)
    for f in (torch.exp, torch.abs, lambda z: z.conj() * z, lambda z: z.real, torch.tanh):
        assert gradcheck(f, (z,))


def test_gradcheck_reaches_parameters_that_a_function_holds():
    m = torch.nn.Linear(3, 2).double()
    x = double(2, 3)
    assert gradcheck(lambda x, *p: m(x).tanh(), (x, *m.parameters()))
    assert gradgradcheck(lambda x, *p: m(x).tanh(), (x, *m.parameters()))


def test_gradcheck_is_the_function_after_an_import_of_its_module():
    import rushlight.autograd.gradcheck

    assert rushlight.autograd.gradcheck is gradcheck
    assert sys.modules["rushlight.autograd.gradcheck"].gradcheck is gradcheck


def test_gradcheck_leaves_inputs_as_they_were():
    x = double(2, 3)
    before, version = x.detach().clone(), x._version

    def fails_in_the_end(x, calls=iter(range(4))):
        if next(calls, None) is None:
            raise KeyError("tired")
        return x * 2

    with pytest.raises(KeyError, match="tired"):
        gradcheck(fails_in_the_end, (x,))
    assert torch.equal(x.detach(), before)
    assert x._version == version


def test_gradcheck_of_a_function_that_asks_for_gradients_itself():
    assert gradcheck(
        lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0], (double(3),)
    )


def test_gradcheck_counts_inputs_that_require_grad():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    i = torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="output 1 with respect to input 1"):
        gradcheck(lambda i, a, b: (a * 2, Bad.apply(b)), (i, double(2), double(2)))
    with pytest.raises(RuntimeError, match="considering the imaginary part of complex outputs"):
        gradcheck(lambda x: Bad.apply(x * 1j), (double(2),))


def test_gradcheck_in_forward_mode():
    x, z = double(2), torch.tensor([0.5 + 1j, -1 + 0.3j], dtype=torch.complex128).requires_grad_()
    assert gradcheck(
        lambda x, z: (x.exp() * z, z.abs() + x), (x, z), check_forward_ad=True,
        check_batched_grad=True, check_batched_forward_grad=True,
    )  # fmt: skip
    assert gradgradcheck(lambda x: x.sin() * x, (x,), check_fwd_over_rev=True)
    calls = [0]

    def drifts(x):  # the numerical Jacobian is made first, of other numbers
        calls[0] += 1
        return x * (2 if calls[0] <= 6 else 3)

    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
        gradcheck(drifts, (x,), check_forward_ad=True, check_backward_ad=False)


def test_gradcheck_of_a_backward_that_does_not_multiply():
    class Adds(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 1e-7

    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        gradcheck(Adds.apply, (double(2),))


def test_gradcheck_of_contradictory_arguments():
    def f(x):
        return x

    for options, says in (
        ({"check_backward_ad": False}, "at least one of check_forward_ad"),
        (
            {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
            "check_batched_grad=True requires check_backward_ad",
        ),
        ({"check_batched_forward_grad": True}, "requires check_forward_ad"),
    ):
        with pytest.raises(AssertionError, match=says):
            gradcheck(f, (double(2),), **options)
    with pytest.raises(AssertionError, match="check_undefined_grad=True requires"):
        gradgradcheck(f, (double(2),), check_rev_over_rev=False, check_fwd_over_rev=True)
    with pytest.raises(RuntimeError, match="Numerical gradient .* expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, (double(2),))
    with pytest.raises(RuntimeError, match="Numerical gradient .* expected to be zero"):
        gradcheck(
            lambda z: z.detach().imag, (double(2).detach().to(torch.complex128).requires_grad_(),)
        )
    assert gradcheck(lambda x: x.detach() > 100, (double(2),))


def test_gradcheck_of_batched_tangents_repeats_what_a_function_draws():
    def noisy(x):
        torch.manual_seed(0)
        return x * torch.rand(3, dtype=torch.float64)

    assert gradcheck(noisy, (double(3),), check_forward_ad=True, check_batched_forward_grad=True)


# -- around --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again(reentrant):
    from rushlight.utils.checkpoint import checkpoint

    calls = []

    def block(x):
        calls.append(1)
        return torch.nn.functional.dropout(x * 2, 0.5).exp().sum()

    x = torch.ones(10, requires_grad=True)
    torch.manual_seed(1)
    block(x).backward()
    expected = x.grad.clone()
    x.grad = None
    torch.manual_seed(1)
    checkpoint(block, x, use_reentrant=reentrant).backward()
    assert torch.equal(x.grad, expected) and len(calls) == 3


def test_profiler_is_free_when_off():
    from rushlight.dispatch import general
    from rushlight.dispatch.interpreters import INTERPRETERS

    before, asked = general.active.modes, list(INTERPRETERS)
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        (torch.ones(2, 3, requires_grad=True) * 2).sum().backward()
    assert general.active.modes == before == 0 and asked == INTERPRETERS
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total")
    assert "aten::mul" in table and "[[2, 3], []]" in table and "MulBackward0" in table


def test_profiler_schedule_and_trace(tmp_path):
    import json

    done = []
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: done.append(p.step_num),
    ) as prof:
        for _ in range(6):
            torch.ones(2) + 1
            prof.step()
    assert done == [4]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    names = [e["name"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert names.count("aten::add") == 2


def test_functional_derivatives():
    functional = torch.autograd.functional
    x = torch.tensor([1.0, 2.0])
    assert functional.jacobian(lambda x: x * x, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert functional.hessian(lambda x: (x**3).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert functional.jvp(lambda x: x * x, x, torch.ones(2))[1].tolist() == [2.0, 4.0]
    assert functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2))[1].tolist() == [6.0, 12.0]


def test_pickles_keep_requires_grad():
    x = torch.ones(2, requires_grad=True)
    again = pickle.loads(pickle.dumps(x))
    assert again.requires_grad and again.tolist() == [1.0, 1.0]


# -- handles -------------------------------------------------------------------------------------------


def test_there_is_one_removable_handle():
    from rushlight.autograd.graph import RemovableHandle

    assert torch.utils.hooks.RemovableHandle is RemovableHandle
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    handles = [
        x.register_hook(lambda g: g * 10),
        y.grad_fn.register_hook(lambda i, o: None),
        y.grad_fn.register_prehook(lambda o: None),
        x.register_post_accumulate_grad_hook(lambda t: None),
        torch.nn.Linear(1, 1).register_forward_hook(lambda *_: None),
    ]
    assert all(type(h) is RemovableHandle for h in handles)
    assert len({h.id for h in handles}) == 5
    for handle in handles:
        handle.remove()
        handle.remove()
    y.backward()
    assert x.grad.item() == 2.0
    with x.register_hook(lambda g: g * 10):
        (x * 1).backward()
    (x * 1).backward()
    assert x.grad.item() == 13.0


def test_handles_keep_nothing_alive(no_collector):
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    handle = y.register_hook(lambda g: None)
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None
    handle.remove()


def test_handles_pickle_with_their_module():
    linear = torch.nn.Linear(1, 1)
    handle = linear.register_forward_hook(print)
    linear, handle = pickle.loads(pickle.dumps((linear, handle)))
    assert len(linear._forward_hooks) == 1
    handle.remove()
    assert not linear._forward_hooks


def test_retain_grad_stays_with_a_tensor_that_is_written_to():
    """What is kept is the gradient of its last value, as if `retain_grad` had come after the write."""
    for write in (
        lambda a: a.mul_(2),
        lambda a: a.copy_(torch.ones(4) * 3),
        lambda a: a[:2].mul_(2),
        lambda a: torch.nn.functional.relu_(a),
    ):
        x = torch.ones(4, requires_grad=True)
        a = x * 3
        a.retain_grad()
        write(a)
        assert a.retains_grad
        (a * 5).sum().backward()
        assert a.grad.tolist() == [5, 5, 5, 5]


def test_retain_grad_of_one_of_several_outputs_stays_with_the_tensor_too():
    var, mean = torch.var_mean(torch.rand(3, 3, requires_grad=True), 0)
    var.retain_grad()
    mean.retain_grad()
    var.mul_(2)
    (var * 3 + mean).sum().backward()
    assert (var.grad.tolist(), mean.grad.tolist()) == ([3] * 3, [1] * 3)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_tensor_that_becomes_its_view_where_nothing_is_recorded_keeps_its_history(mode):
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    with mode():
        y.transpose_(0, 1)
        assert y.requires_grad and not y.is_inference()
    (y * torch.arange(6.0).view(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 4, 8], [2, 6, 10]]


def test_who_refuses_gradients_of_integers_says_it_in_their_words():
    x = torch.tensor([1])
    for call, words in (
        (x.requires_grad_, "only Tensors of floating point dtype can require"),
        (lambda: torch.nn.Parameter(x), "Only Tensors of floating point and complex dtype can"),
        (lambda: torch.masked.masked_tensor(x, x > 0, requires_grad=True), "Only Tensors of"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_index_tensors_are_freed_with_the_graph():
    x = torch.ones(3, requires_grad=True)
    y = x[[1, 1]]
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [0, 4, 0]
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.sum().backward()


@pytest.mark.filterwarnings("ignore:Using backward")
def test_recorded_gradients_have_the_strides_of_their_leaf():
    x = torch.arange(6.0).view(2, 3).t().requires_grad_()
    (x.contiguous() ** 3).sum().backward(create_graph=True)
    assert x.grad.stride() == x.stride() and x.grad.grad_fn.name() == "CopyBackwards"
    (second,) = torch.autograd.grad(x.grad.sum(), x)
    assert second.tolist() == (6 * x.detach()).tolist()


def test_leaves_do_not_share_a_sparse_gradient():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            g = torch.sparse_coo_tensor([[1, 0]], values, (3, 2))
            return g, g

    for values in (torch.tensor([1.0, 2.0]).expand(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])):
        a, b = (torch.ones(3, 2, requires_grad=True) for _ in range(2))
        Both.apply(a, b).sum().backward()
        assert a.grad._values().is_contiguous() and b.grad._values().is_contiguous()
    a.grad._values().mul_(10)
    assert b.grad.to_dense()[1].tolist() == [1, 2]
    weight, kept = torch.ones(3, 2, requires_grad=True), []
    weight.register_hook(lambda g: kept.append(g))
    torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=True).sum().backward()
    assert kept[0]._values().data_ptr() != weight.grad._values().data_ptr()


def test_gradients_of_a_once_differentiable_function_have_one_node():
    from rushlight.autograd.function import once_differentiable

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, None, g * x

    x, y, g = (torch.ones(2, requires_grad=True) for _ in range(3))
    dx, dy = torch.autograd.grad(Product.apply(x, 2, y), (x, y), g, create_graph=True)
    assert dx.grad_fn is dy.grad_fn and dx.grad_fn.name() == "Error" and dy.output_nr == 2
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (dx + dy).sum().backward()


def test_dir_lists_what_there_is():
    for t in (torch.ones(2, 2), torch.nn.Parameter(torch.ones(2, 2))):
        t.mine = 1
        found = dir(t)
        assert "mine" in found and "add_" in found and "grad" in found and "qscheme" not in found
        for name in found:
            assert name in ("imag",) or hasattr(t, name)


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_of_a_function_with_a_jvp_only(fast):
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast}
    assert torch.autograd.gradcheck(Triple.apply, x, check_batched_grad=False, **options)


def test_hooks_may_be_replaced():
    x, seen = torch.ones(2, requires_grad=True), []
    x.register_hook(lambda g: seen.append(1))
    x._backward_hooks = {0: lambda g: g * 5}
    (x * 2).sum().backward()
    assert x.grad.tolist() == [10, 10] and not seen
    plain = torch.ones(2)
    assert plain._backward_hooks is None
    plain._backward_hooks = {}
    plain._backward_hooks["never"] = None
    assert (plain + x).requires_grad


def test_callbacks_at_the_end_of_a_backward():
    queue = torch.autograd.Variable._execution_engine.queue_callback
    order = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: queue(lambda: order.append("end")))
    x.register_post_accumulate_grad_hook(lambda t: order.append("leaf"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert order == ["leaf", "end"] * 2
    with pytest.raises(RuntimeError, match="only be installed during backward pass"):
        queue(print)


I, M = torch.tensor([0, 1]), torch.tensor([True, False])


@pytest.mark.parametrize(
    ("f", "seen"),
    [
        (lambda x, y: x.gather(0, I), "x"),
        (lambda x, y: x.index_select(0, I), "x"),
        (lambda x, y: x.take(I), "x"),
        (lambda x, y: torch.where(M, x, y), "xy"),
        (lambda x, y: torch.where(M, x, 0.0), "x-"),
        (lambda x, y: x.masked_fill(M, 0), "x"),
        (lambda x, y: x.masked_fill(M, torch.tensor(0.0)), "x-"),
        (lambda x, y: x.masked_select(M), "x"),
        (lambda x, y: x.scatter(0, I, y), "xy"),
        (lambda x, y: x.scatter(0, I, 1.0), "x"),
        (lambda x, y: x.scatter_reduce(0, I, y, "sum"), "xy"),
        (lambda x, y: x.index_add(0, I, y), "xy"),
        (lambda x, y: x.index_put((I,), y), "xy"),
        (lambda x, y: torch.nn.functional.nll_loss(x.view(1, 2), I[:1]), "v"),
        (lambda x, y: torch.nn.functional.embedding(I, x.view(2, 1)), "v"),
        (lambda x, y: torch.nn.functional.batch_norm(x.view(2, 1), torch.zeros(1), torch.ones(1)), "v--"),
        (lambda x, y: x**2, "x"),
        (lambda x, y: 2**x, "x"),
        (lambda x, y: x + 2, "x-"),
        (lambda x, y: x * torch.ones(2), "x-"),
        (lambda x, y: torch.cat([x, torch.ones(1), y]), "x-y"),
    ],
)  # fmt: skip
def test_next_functions_leave_out_what_never_has_a_gradient(f, seen):
    x, y = torch.rand(2, requires_grad=True), torch.rand(2, requires_grad=True)
    r = f(x, y)
    found = [node for node, _ in r.grad_fn.next_functions]
    for name, node in zip(seen, found, strict=True):
        if name == "-":
            assert node is None
        elif name == "v":
            assert node.name() == "ViewBackward0"
        else:
            assert node.variable is {"x": x, "y": y}[name]
    if len(seen) == 1:
        alone = r.grad_fn(torch.ones_like(r))
        assert isinstance(alone, torch.Tensor)
    got = []
    r.grad_fn.register_hook(lambda into, _: got.append(into))
    r.sum().backward()
    assert len(got[0]) == len(seen)


def test_next_functions_of_a_function_are_those_of_its_tensors():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, name, x, factor, y):
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            return None, 2 * g, None, None

    x, y, got = torch.rand(2, requires_grad=True), torch.rand(2), []
    r = Scaled.apply("by", x, 2, y)
    (into_x, _), (into_y, _) = r.grad_fn.next_functions
    assert into_x.variable is x and into_y is None
    r.grad_fn.register_hook(lambda into, _: got.append(into) or (into[0] + 1, None))
    r.sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 3.0)) and len(got[0]) == 2
    Scaled.backward = staticmethod(lambda ctx, g: (None, 3, None, None))
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got int\)"):
        Scaled.apply("by", x, 2, y).sum().backward()


def test_next_functions_of_linear():
    x, w, b = (torch.rand(s, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
    y = torch.nn.functional.linear(x, w, b)
    bias, input, t = (node for node, _ in y.grad_fn.next_functions)
    assert bias.variable is b and input.variable is x
    assert t.name() == "TBackward0" and t is y.grad_fn.next_functions[2][0]
    assert t.next_functions[0][0].variable is w
    g = torch.rand(2, 4)
    of_bias, of_input, of_t = y.grad_fn(g)
    assert torch.equal(of_bias, g.sum(0)) and torch.allclose(of_input, g @ w)
    assert torch.allclose(of_t, x.t() @ g) and torch.equal(t(of_t), of_t.t())
    with pytest.raises(RuntimeError, match="not run here"):
        t.register_hook(print)
    y.grad_fn.register_hook(lambda into, _: (into[0], into[1], 2 * into[2]))
    y.backward(g)
    assert torch.allclose(w.grad, 2 * g.t() @ x) and torch.equal(b.grad, g.sum(0))


def test_gradients_whose_sum_overflows_are_added_where_warnings_are_errors():
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            (x * 3e38).sum().backward()
    assert x.grad.isinf().all() and x.grad._version == 1


def shown(node, depth=4):
    """The names of a node and those behind it."""
    if node is None or node.name().endswith("AccumulateGrad"):
        return "."
    behind = "" if not depth else ", ".join(shown(n, depth - 1) for n, _ in node.next_functions)
    return f"{node.name()}({behind})"


@pytest.mark.parametrize("rounds", [1, 3])  # the general way, and the printed one
def test_nodes_of_one_operator_look_as_those_of_pytorch(rounds):
    F, row, matrix, batch = torch.nn.functional, (3,), (2, 3), (5, 2, 3)
    leaf = lambda *shape: torch.rand(shape, requires_grad=True)
    views = "ViewBackward0(ExpandBackward0(.))"
    entropy = "NllLossBackward0(LogSoftmaxBackward0(.))"
    expected = {
        "DotBackward0(., .)": lambda: leaf(*row) @ leaf(*row),
        "MvBackward0(., .)": lambda: leaf(*matrix) @ leaf(*row),
        "SqueezeBackward4(MmBackward0(UnsqueezeBackward0(.), .))": lambda: leaf(*row) @ leaf(3, 4),
        "MmBackward0(., .)": lambda: leaf(*matrix) @ leaf(3, 4),
        "UnsafeViewBackward0(MmBackward0(ViewBackward0(.), .))": lambda: leaf(*batch) @ leaf(3, 4),
        f"UnsafeViewBackward0(BmmBackward0({views}, {views}))": lambda: (
            leaf(*batch) @ leaf(5, 3, 4)
        ),
        "MmBackward0(., TBackward0(.))": lambda: F.linear(leaf(*matrix), leaf(4, 3)),
        "AddmmBackward0(., ., TBackward0(.))": lambda: F.linear(leaf(*matrix), leaf(4, 3), leaf(4)),
        "ViewBackward0(AddmmBackward0(., ViewBackward0(.), TBackward0(.)))": lambda: F.linear(
            leaf(*batch), leaf(4, 3), leaf(4)
        ),
        "MulBackward0(ViewBackward0(.), .)": lambda: torch.outer(leaf(*row), leaf(4)),
        entropy: lambda: F.cross_entropy(leaf(*matrix), torch.tensor([0, 2])),
        "SqueezeBackward1(AvgPool2DBackward0(UnsqueezeBackward0(.)))": lambda: F.avg_pool1d(
            leaf(1, 2, 4), 2
        ),
    }
    for names, call in expected.items():
        for _ in range(rounds):
            y = call()
        assert shown(y.grad_fn) == names
        assert y.grad_fn.next_functions == y.grad_fn.next_functions
        y.sum().backward()
        assert shown(y.grad_fn) == names


def test_looks_call_no_hooks_on_saved_tensors():
    x, w, called = torch.rand(2, 3), torch.rand(3, requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: called.append(t) or t):
        y = x @ w
    assert y.grad_fn.name() in ("MvBackward0", "MmBackward0") and not called
    y.sum().backward()
    assert len(called) == 1


def test_nodes_in_between_are_looked_at_only():
    x, y = torch.rand(3, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    z = x @ y
    inner = z.grad_fn.next_functions[0][0]
    assert inner.name() == "MmBackward0" and inner is z.grad_fn.next_functions[0][0]
    with pytest.raises(RuntimeError, match="not run here"):
        inner.register_hook(print)
    with pytest.raises(RuntimeError, match="not run by itself"):
        inner(torch.rand(4))
    seen = []
    z.grad_fn.register_hook(lambda into, _: seen.append([g.shape for g in into]))
    z.sum().backward()
    assert seen == [[(3,), (3, 4)]] and torch.allclose(x.grad, y.sum(1))
