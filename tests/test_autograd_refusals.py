"""What autograd refuses, warns of, and tells hooks: inference tensors, views of no_grad, custom functions, partial backwards."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight.autograd import functional


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g


# -- inference tensors and views that lost their history ---------------------------------------------


def test_inference_tensors_are_written_to_in_inference_mode_only():
    with torch.inference_mode():
        t = torch.ones(2, 2)
        t.add_(1).transpose_(0, 1).resize_(2, 2)
    for write in (
        lambda: t.add_(1),
        lambda: t.t_(),
        lambda: t.zero_(),
        lambda: torch.mul(torch.ones(2, 2), 2, out=t),
    ):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
            write()
    with torch.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        t.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        t * torch.ones(2, 2, requires_grad=True)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            torch.no_grad,
            "A view was created in no_grad mode and is being modified inplace with grad",
        ),
        (
            torch.inference_mode,
            "A view was created in inference mode and is being modified inplace in",
        ),
    ],
)
@pytest.mark.parametrize("leaf", [True, False])
def test_views_made_without_grad_mode_are_not_written_to(mode, said, leaf):
    s = torch.ones(2, 3, requires_grad=True)
    a = s if leaf else s.clone()
    with mode():
        v = a.view(-1)
    for write in (lambda: v.add_(1), lambda: v.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match=said):
            write()


def test_writes_to_outputs_of_several_views_name_them_also_for_leaves():
    leaf = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        leaf.unbind()[0].add_(1)


def test_a_view_made_in_a_custom_function_is_not_written_to():
    view = Doubled.apply(torch.ones(2))
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        view += torch.ones(2, requires_grad=True)


def test_views_in_place_without_grad_mode_keep_the_history():
    s = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a = s * 1
    with torch.no_grad():
        a.t_()
    assert a.requires_grad
    (a * torch.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert s.grad.tolist() == [[1.0, 100.0], [10.0, 1000.0]]
    v = (s * 1).view(2, 2)
    with torch.no_grad():
        v.t_()
    s.grad = None
    (v * torch.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert s.grad.tolist() == [[1.0, 100.0], [10.0, 1000.0]]
    custom = Doubled.apply(s * 1)
    with torch.no_grad():
        custom.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        custom.add_(1)


# -- custom functions ------------------------------------------------------------------------------


def test_a_view_that_forward_wrote_to_has_the_history_of_the_function():
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            part = x.clone()[:2]
            part += 2
            return part

        @staticmethod
        def backward(ctx, g):
            return torch.cat((3 * g, g.new_zeros(1)))

    x = torch.ones(3, requires_grad=True)
    y = First.apply(x)
    assert y.grad_fn.name() == "FirstBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0]


def test_what_may_be_marked_dirty():
    def marking(choose):
        class Marking(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                dirty, result = choose(x.add_(1), x * 2)
                ctx.mark_dirty(dirty)
                return result

            @staticmethod
            def backward(ctx, g):
                return g

        return Marking.apply(torch.ones(2, requires_grad=True).clone())

    with pytest.warns(UserWarning, match="Only input Tensors should be given to ctx.mark_dirty"):
        marking(lambda x, y: (y, y))
    with pytest.raises(
        RuntimeError, match="marked as dirty during the forward method were not returned"
    ):
        marking(lambda x, y: (x, y))


def test_former_names_of_functions():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_variables[0]

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        Both.apply(x).sum().backward()
    Both.vjp = staticmethod(lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).sum().backward()


# -- backward --------------------------------------------------------------------------------------


def test_nodes_can_be_called():
    y = torch.zeros(1, requires_grad=True).exp()
    assert y.grad_fn(torch.ones(1)).tolist() == y.grad_fn(torch.ones(1)).tolist() == [1.0]
    for wrong in ((), (torch.ones(1), torch.ones(1))):
        with pytest.raises(TypeError, match="expected 1 arguments, got"):
            y.grad_fn(*wrong)


def test_hooks_see_outputs_without_gradient():
    first, second = torch.ones(2, requires_grad=True).unbind()
    seen = []
    first.register_hook(seen.append)
    second.backward()
    assert seen == [None]
    assert first.grad_fn is second.grad_fn


def test_nodes_that_are_only_asked_for_a_gradient_do_not_run():
    log = []
    a = torch.tensor(1.0, requires_grad=True)
    b = a * 2
    c = b * 2
    for name, t, node in (("a", a, b.grad_fn.next_functions[0][0]), ("b", b, b.grad_fn)):
        t.register_hook(lambda g, name=name: log.append(name))
        node.register_prehook(lambda gs, name=name: log.append(name + " before"))
        node.register_hook(lambda gi, go, name=name: log.append(name + " after"))
    torch.autograd.grad(c, b, retain_graph=True)
    assert log == ["b"]
    log.clear()
    torch.autograd.grad(c, (a, b), retain_graph=True)
    assert log == ["b", "b before", "b after", "a"]
    log.clear()
    c.backward(inputs=(b,), retain_graph=True)
    assert log == ["b", "b before", "b after"]
    assert (a.grad, b.grad.item()) == (None, 2.0)


def test_retain_grad_follows_a_write_through_another_view():
    base = torch.tensor([1.0], requires_grad=True).clone()
    view, other = base[:], base[:]
    view.retain_grad()
    other.retain_grad()
    view.mul_(2)
    (view + other).sum().backward()
    assert view.grad.tolist() == other.grad.tolist() == [1.0]


def test_materialized_zeros_can_be_differentiated():
    x = torch.tensor(0.5, requires_grad=True)
    (dy,) = torch.autograd.grad(x * 2, x, create_graph=True)
    (zero,) = torch.autograd.grad(dy + x * 0, x, create_graph=True, materialize_grads=True)
    (again,) = torch.autograd.grad(torch.ones(1, requires_grad=True).sum(), x, create_graph=True,
                                   materialize_grads=True)  # fmt: skip
    assert zero.item() == again.item() == 0 and again.requires_grad


def test_backward_that_records_warns_once():
    def run():
        b = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            (b * b).sum().backward(create_graph=True)
        return [w for w in seen if "create_graph=True" in str(w.message)]

    torch.set_warn_always(True)
    try:
        assert len(run()) == len(run()) == 1
    finally:
        torch.set_warn_always(False)
    assert run() == []


def test_a_pack_hook_may_not_write_to_what_it_gets():
    x = torch.ones(2, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t)
    with hooks, pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        x.exp()


def test_anomalies_are_printed_where_warnings_are_errors(capsys):
    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            warnings.simplefilter("error")
            y = x + 1
            z = y**2
            y += 1
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err


def test_data_of_another_kind():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.ones(2).to_sparse()
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        x.data = torch.ones(2, dtype=torch.int64)
    with torch.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


# -- torch.autograd.functional ---------------------------------------------------------------------


def test_strict_functions_of_tensors():
    x, v = torch.ones(3), torch.ones(3)

    def detached(a):
        return a.detach().sum()

    def apart(a):
        return a.long().float().requires_grad_().clone().sum()

    def linear(a):
        return (3 * a).sum()

    for call in (functional.vhp, functional.hvp):
        with pytest.raises(
            RuntimeError, match="Output 0 of the user-provided function does not require"
        ):
            call(detached, x, v, strict=True)
        with pytest.raises(RuntimeError, match="function is independent of input 0"):
            call(apart, x, v, strict=True)
        with pytest.raises(RuntimeError, match="with respect to input 0 is independent"):
            call(linear, x, v, strict=True)
        assert call(linear, x, v)[1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent"):
        functional.jacobian(apart, x, strict=True)
    with pytest.raises(RuntimeError, match="with respect to input 0 is independent"):
        functional.hessian(linear, x, strict=True)
    with pytest.raises(
        RuntimeError, match="jacobian of the user-provided function is independent of input 0"
    ):
        functional.vjp(torch.clone, x, v, create_graph=True, strict=True)
    for call in (functional.jacobian, functional.hessian):
        with pytest.raises(RuntimeError, match="not supported together"):
            call(linear, x, strict=True, vectorize=True)


def test_wrong_arguments_of_functions_of_tensors():
    x = torch.ones(3)
    with pytest.raises(TypeError, match="The inputs given to hvp must be either a Tensor"):
        functional.hvp(torch.sum, (x, 2), x)
    with pytest.raises(TypeError, match="outputs of the user-provided function given to vhp must"):
        functional.vhp(lambda a: (a.sum(), "text"), x, x)
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        functional.vjp(torch.clone, x, (x, x))
    with pytest.raises(RuntimeError, match="v has invalid size: should be torch.Size"):
        functional.vjp(torch.clone, x, torch.ones(4))


# -- derivatives that are not there, or were wrong -------------------------------------------------


def test_powers_of_negative_numbers_with_complex_exponents():
    exponent = torch.tensor([1.2 + 0.3j, 0.5 - 1j], dtype=torch.complex128, requires_grad=True)
    base = torch.tensor([-1.0, -2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda e: torch.pow(base, e), exponent)
    assert torch.autograd.gradcheck(lambda e: torch.pow(-1, e), exponent)
    assert torch.autograd.gradcheck(lambda e: torch.pow(2 - 1j, e), exponent)


def test_unique_values_have_no_derivative_but_a_history():
    x = torch.tensor([3.0, 1.0, 3.0], requires_grad=True)
    for result in (x.unique(), x.unique(dim=0), x.unique_consecutive()):
        assert result.requires_grad
        with pytest.raises(NotImplementedError, match="is not implemented"):
            result.sum().backward()
    assert not x.unique(return_inverse=True)[1].requires_grad


@pytest.mark.parametrize("reduce", [torch.scatter_reduce, torch.index_reduce])
def test_products_with_several_zeros_have_no_second_derivative(reduce):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    src = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    result = reduce(x, 0, torch.tensor([0, 0]), src, "prod")
    (g,) = torch.autograd.grad(result.sum(), src, create_graph=True)
    assert g.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="Double backward is unsupported"):
        torch.autograd.grad(g.sum(), src)


def test_the_gradient_of_eigenvalues_by_a_symmetric_matrix_is_symmetric():
    a = torch.tensor([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 0.0]], dtype=torch.float64)
    a.requires_grad_()
    values, vectors = torch.lobpcg(a, 1)
    (g,) = torch.autograd.grad(values.sum(), a)
    assert torch.allclose(g, g.mT)
    assert torch.allclose(g, vectors @ vectors.mT)


# -- writes to saved tensors -----------------------------------------------------------------------


def test_saved_tensors_are_copied_when_they_are_written_to():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as kept:
        b = a.clone()
        first, second = b**2, b**2
        assert len(kept.cloned) == 0
        b[:1].mul_(10)
        assert len(kept.cloned) == 1
        torch.sin(torch.zeros(2), out=b.detach())
        assert len(kept.cloned) == 1
        (first + second).sum().backward()
        assert a.grad.tolist() == [4.0, 8.0]
        assert len(kept.cloned) == 0
        with pytest.raises(RuntimeError, match="cannot be nested"):
            torch.autograd.graph.allow_mutation_on_saved_tensors().__enter__()
        late = (a**2).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside"):
        late.backward()


# -- backwards within backwards ----------------------------------------------------------------------


def test_backwards_may_start_backwards_without_end():
    class Down(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x >= 0:
                with torch.enable_grad():
                    Down.apply(ctx.x).sum().backward()
            elif ctx.x < -1:
                raise ValueError("below")
            return g

    x = torch.tensor(500.0, requires_grad=True)
    Down.apply(x).sum().backward()
    assert x.grad == 1
    with pytest.raises(ValueError, match="below"):
        Down.apply(torch.tensor(-2.0, requires_grad=True)).sum().backward()


def test_sparse_gradients_are_added_where_they_are():
    def sparse():
        return torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 2.0]), (3,))

    x = torch.zeros(3, requires_grad=True)
    kept = x.grad = sparse()
    x.backward(sparse())
    assert x.grad is kept and kept.to_dense().tolist() == [0.0, 6.0, 0.0]


def test_gradcheck_warns_of_backwards_that_need_gradients():
    def f(x):
        y = x.clone()

        def hook(g):
            if g is None:
                raise RuntimeError("nothing came")

        y.register_hook(hook)
        return y

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    refused = pytest.raises(RuntimeError, match="handle undefined output grads")
    with pytest.warns(UserWarning, match="undefined gradient support"), refused:
        torch.autograd.gradcheck(f, x)


def test_results_of_exp_and_the_graph_have_one_version():
    x = torch.zeros(2, requires_grad=True)
    y = x.exp()
    saved = y.grad_fn._saved_result
    with torch.no_grad():
        y += 1
    assert y._version == saved._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_results_that_no_wanted_rule_reads_have_a_version():
    x = torch.tensor([4.0], requires_grad=True)
    y = x**0.5  # only the gradient of the exponent reads the result
    assert y.detach().add_(1).item() == 3 and y._version == 1


@pytest.mark.parametrize(
    "op",
    [torch.addmm, torch.addmv, torch.baddbmm, torch.addbmm, torch.addr, torch.addcmul, torch.fmod,
     torch.remainder, torch.nn.functional.linear],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
def test_nodes_that_saved_no_tensor_run_again(op, compiled):
    """No gradient that is wanted reads an input; where one does, a second backward pass is refused."""
    shapes = {"addmv": [3, (3, 3), 3], "baddbmm": [(2, 3, 3)] * 3, "addr": [(3, 3), 3, 3],
              "addbmm": [(3, 3), (2, 3, 3), (2, 3, 3)], "linear": [(3, 3), (3, 3), 3]}.get(op.__name__, [(3, 3)] * 3)  # fmt: skip
    shapes = shapes[: 2 if op in (torch.fmod, torch.remainder) else 3]
    summand = 2 if op.__name__ == "linear" else 0
    f = torch.compile(lambda *inputs: op(*inputs)) if compiled else op
    for wanted, refused in ([summand], False), ([1], True), ([*range(len(shapes))], True):
        for _ in range(3):
            inputs = [torch.full(s if isinstance(s, tuple) else (s,), 0.5) for s in shapes]
            for k in wanted:
                inputs[k].requires_grad_()
            y = f(*inputs)
            y.sum().backward()
            once = inputs[wanted[0]].grad.clone()
            if refused:
                with pytest.raises(RuntimeError, match="a second time"):
                    y.sum().backward()
            else:
                inputs[0 if summand else 1].add_(1)
                y.sum().backward()
                assert torch.equal(inputs[summand].grad, 2 * once)


def test_requires_grad_is_a_bool():
    x = torch.ones(2)
    for value in (1, None, "yes", x):
        with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
            x.requires_grad = value
    assert not x.requires_grad


def test_views_of_inference_tensors_are_not_recorded():
    with torch.inference_mode():
        t = torch.ones(2, 2, requires_grad=True)
    view = t.view(-1)
    assert view.is_inference() and view.is_leaf and not view.requires_grad and not view._is_view()


class WrongDerivative(torch.autograd.Function):
    """The square, whose backward is off by a factor that the caller names."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.conj() * 2 * ctx.factor, None


def test_fast_gradcheck_compares_one_number_of_each_jacobian():
    calls = []

    def counted(x):
        calls.append(x)
        return x.exp()

    torch.manual_seed(0)
    x = torch.randn(10, 10, dtype=torch.float64, requires_grad=True)
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    state = torch.get_rng_state()
    assert torch.autograd.gradcheck(counted, (x,), fast_mode=True)
    assert len(calls) < 10
    assert torch.equal(state, torch.get_rng_state())
    assert torch.autograd.gradgradcheck(lambda x, z: (x[0, :3] * z).exp(), (x, z), fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda x, z: (x[0, :3] * z, z.abs(), x.detach()),
        (x, z),
        fast_mode=True,
        check_forward_ad=True,
    )
    for t in (x, z):
        assert torch.autograd.gradcheck(
            lambda t: WrongDerivative.apply(t, 1.0), (t,), fast_mode=True
        )
        with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0"):
            torch.autograd.gradcheck(lambda t: WrongDerivative.apply(t, 1.5), (t,), fast_mode=True)


def test_what_hooks_may_return():
    x = torch.ones(2, requires_grad=True)

    def backward(register, result):
        x.grad = None
        y = x.exp()
        register(y, lambda *gradients: result(gradients[0]))
        y.sum().backward()

    nodes = (
        lambda y, hook: y.grad_fn.register_hook(hook),
        lambda y, hook: y.grad_fn.register_prehook(hook),
    )
    for register in nodes:
        for result, error, text in (
            (lambda g: (), RuntimeError, "incorrect number of values .got 0, but expected 1"),
            (lambda g: (*g, *g), RuntimeError, "incorrect number of values .got 2, but expected 1"),
            (lambda g: list(g), TypeError, "expected tuple, but hook returned 'list'"),
            (lambda g: (1.0,), TypeError, "expected Variable, but hook returned 'float'"),
            (lambda g: (torch.ones(3),), RuntimeError, "changed the size of value"),
            (lambda g: (g[0].double(),), RuntimeError, "changed the type of value"),
        ):
            with pytest.raises(error, match=text):
                backward(register, result)
        backward(register, lambda g: (g[0] * 2,))
        assert x.grad.tolist() == (2 * x.exp()).tolist()
    tensors = lambda y, hook: y.register_hook(hook)
    for result, error, text in (
        (lambda g: (g,), TypeError, "expected Variable, but hook returned 'tuple'"),
        (lambda g: torch.ones(3), RuntimeError, "changed the size of value"),
        (lambda g: g.double(), RuntimeError, "changed the type of value"),
    ):
        with pytest.raises(error, match=text):
            backward(tensors, result)


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
def test_what_backward_hooks_of_modules_may_return():
    def backward(kind, result):
        module, x = torch.nn.Sigmoid(), torch.ones(2, requires_grad=True)
        getattr(module, f"register_{kind}")(lambda module, gradients, *_: result(gradients))
        module(x).sum().backward()

    for result in (lambda g: (), lambda g: (*g, *g)):
        with pytest.raises(RuntimeError, match="incorrect number of values"):
            backward("backward_hook", result)
        with pytest.raises(RuntimeError, match="invalid number of grad_input"):
            backward("full_backward_hook", result)
        with pytest.raises(RuntimeError, match="invalid number of grad_output"):
            backward("full_backward_pre_hook", result)
    for kind in ("backward_hook", "full_backward_hook", "full_backward_pre_hook"):
        with pytest.raises(RuntimeError, match="changed the type of value"):
            backward(kind, lambda g: (g[0].double(),))


CHANGES = {  # operators whose rules read the inputs beside the one that is written to
    "mul_": 1, "div_": 1, "pow_": 1, "atan2_": 1, "hypot_": 1, "xlogy_": 1, "remainder_": 1, "fmod_": 1, "clamp_min_": 1,
    "addcmul_": 2, "addcdiv_": 2, "lerp_": 2, "addmm_": 2,
}  # fmt: skip


@pytest.mark.parametrize("alias", [lambda y: y, lambda y: y[:], lambda y: y.view(-1).view(3, 3)])
@pytest.mark.parametrize("written", [lambda y: y, lambda y: y[:]])
@pytest.mark.parametrize("name", CHANGES)
def test_a_write_that_changes_its_own_operands_has_no_backward(name, written, alias):
    leaf = (torch.arange(9.0).view(3, 3) + 1).requires_grad_()
    y = leaf * 1
    t = written(y)
    former = leaf.detach().clone()
    getattr(t, name)(*[alias(y)] * CHANGES[name])
    plain = former.clone()
    getattr(plain, name)(*[alias(former)] * CHANGES[name])
    assert y.equal(plain)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_write_that_reads_its_own_operands_by_a_hook_is_differentiated():
    leaf = torch.tensor([2.0, 3.0], requires_grad=True)
    y = leaf * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y.mul_(y)
    y.sum().backward()
    assert leaf.grad.tolist() == [4.0, 6.0]


def test_a_write_whose_rules_read_nothing_is_differentiated_by_both_operands():
    leaf = torch.tensor([2.0, 3.0], requires_grad=True)
    y = leaf * 1
    y.add_(y.flip(0)).sub_(y)
    y += 0.5
    y.sum().backward()
    assert leaf.grad.tolist() == [0.0, 0.0]
