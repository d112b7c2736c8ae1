"""torch.library: operators of one's own."""

from __future__ import annotations

import itertools
import types

import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.utils._python_dispatch import TorchDispatchMode

_numbers = itertools.count()


@pytest.fixture
def ns():
    """A namespace of its own for each test."""
    return f"test{next(_numbers)}"


def sine(ns):
    @torch.library.custom_op(f"{ns}::sine", mutates_args=())
    def sine(x: Tensor, scale: float = 1.0) -> Tensor:
        return torch.from_numpy(np.sin(x.numpy()) * np.float32(scale))

    return sine


def test_an_operator_with_a_gradient(ns):
    op, x = sine(ns), torch.arange(3.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        op(x).sum().backward()
    seen = []

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]
        seen.append(output.requires_grad)

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        (x,) = ctx.saved_tensors
        return g * x.cos() * ctx.scale, None

    op.register_autograd(backward, setup_context=setup)
    y = getattr(torch.ops, ns).sine(x, 2.0)
    assert type(y.grad_fn).__name__ == f"GeneratedBackwardFor_{ns}_sine_defaultBackward"
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * x.detach().cos())
    assert seen == [False, (True, False)]
    with torch.no_grad():
        assert not op(x).requires_grad
    assert repr(op) == f"<CustomOpDef({ns}::sine)>"
    assert isinstance(getattr(torch.ops, ns), types.ModuleType)  # PyTorch's are; pytest asks for it
    assert dir(getattr(torch.ops, ns)) == ["sine"]


def test_shapes_without_numbers(ns):
    op = sine(ns)
    with pytest.raises(NotImplementedError, match="register_fake"):
        op(torch.empty(2, device="meta"))
    torch.library.register_fake(f"{ns}::sine")(lambda x, scale=1.0: torch.empty_like(x))
    assert op(torch.empty(2, device="meta")).shape == (2,)
    op.register_autograd(lambda ctx, g: g)
    done = torch.library.opcheck(op, (torch.ones(3, requires_grad=True),))
    assert set(done.values()) == {"SUCCESS"}
    op.register_fake(lambda x, scale=1.0: x.new_empty(1))
    with pytest.raises(AssertionError, match="fake result"):
        torch.library.opcheck(op, (torch.ones(3),))


def test_lists_of_tensors(ns):
    @torch.library.custom_op(f"{ns}::join", mutates_args=())
    def join(xs: list[Tensor], dim: int, *, scale: float = 1.0) -> Tensor:
        return torch.cat(xs, dim) * scale

    def setup(ctx, inputs, output, keyword_only_inputs):
        ctx.sizes = [t.shape[inputs[1]] for t in inputs[0]]
        ctx.dim, ctx.scale = inputs[1], keyword_only_inputs["scale"]

    def backward(ctx, g):
        assert ctx.needs_input_grad == ([True, False, True], False)
        return [part * ctx.scale for part in g.split(ctx.sizes, ctx.dim)], None

    join.register_autograd(backward, setup_context=setup)
    a, b = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    y = join([a, torch.ones(3), b], 0, scale=3.0)
    (y * torch.arange(6.0)).sum().backward()
    assert a.grad.tolist() == [0, 3]
    assert b.grad.tolist() == [15]


def test_operators_that_write(ns):
    @torch.library.custom_op(f"{ns}::up", mutates_args=("x",))
    def up(x: Tensor) -> None:
        x.numpy()[...] += 1

    t = torch.zeros(2)
    before = t._version
    assert up(t) is None
    assert t.tolist() == [1, 1]
    assert t._version == before + 1


def test_results_are_new(ns):
    @torch.library.custom_op(f"{ns}::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x[:1]

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(torch.ones(2))
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        same("a")


def test_schemas(ns):
    library = torch.library.Library(ns, "DEF")
    library.define("add(Tensor x, float y=2.0, *, int[] z=[1, 2], Tensor? w=None) -> Tensor")
    op = getattr(torch.ops, ns).add
    with pytest.raises(NotImplementedError, match="no kernel"):
        op(torch.ones(1))
    library.impl("add", lambda x, y, z, w: x + y + sum(z), "CompositeExplicitAutograd")
    assert op(torch.ones(1)).tolist() == [6.0]
    assert op.default(torch.ones(1), 0.0, z=[5]).tolist() == [6.0]
    torch.library.define(f"{ns}::twice", "(Tensor x) -> Tensor")

    @torch.library.impl(f"{ns}::twice", "cpu")
    def twice(x):
        return x * 2

    torch.library.register_kernel(f"{ns}::twice", "cuda", lambda x: None)
    torch.library.register_autograd(f"{ns}::twice", lambda ctx, g: g * 2)
    x = torch.ones(2, requires_grad=True)
    getattr(torch.ops, ns).twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        getattr(torch.ops, ns).absent  # noqa: B018
    with pytest.raises(RuntimeError, match="no operators named"):
        torch.library.register_fake(f"{ns}::absent", lambda: None)
    with pytest.raises(RuntimeError, match="cannot read the schema"):
        library.define("no schema")


def test_schemas_of_functions():
    def f(
        x: Tensor, xs: list[Tensor], n: int, s: str, *, o: Tensor | None = None
    ) -> tuple[Tensor, int]: ...

    infer = torch.library.infer_schema
    assert infer(f, mutates_args=("x",)) == (
        "(Tensor(a0!) x, Tensor[] xs, SymInt n, str s, *, Tensor? o=None) -> (Tensor, SymInt)"
    )

    def no_types(x):
        return x

    with pytest.raises(ValueError, match="must have a type annotation"):
        torch.library.custom_op("a::b", no_types, mutates_args=())
    with pytest.raises(ValueError, match="namespace"):
        torch.library.custom_op("b", f, mutates_args=())
    for gone in (torch.library.triton_op, torch.library.wrap_triton):
        with pytest.raises(RuntimeError, match="Triton"):
            gone("x")
    with pytest.raises(RuntimeError, match="register_fake"):
        torch.library.get_ctx()


# -- what registrations do ---------------------------------------------------------------------------


def test_a_mode_gets_a_custom_operator(ns):
    class Mode(TorchDispatchMode):
        def __init__(self):
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    op = sine(ns)
    op.register_autograd(lambda ctx, g: (g, None))
    with Mode() as mode:
        y = op(x)
    assert mode.seen[0] is getattr(torch.ops, ns).sine.default
    assert torch.allclose(y, x.sin())
    assert y.requires_grad


def test_fake_tensors_and_graphs(ns):
    @torch.library.custom_op(f"{ns}::repeated", mutates_args=())
    def repeated(x: Tensor, n: int) -> Tensor:
        return torch.from_numpy(x.numpy().repeat(n))

    @repeated.register_fake
    def _(x, n):
        return x.new_empty(x.shape[0] * n)

    traced = make_fx(lambda x: repeated(x, 2) + 1, tracing_mode="fake")(torch.ones(3))
    calls = [n for n in traced.graph.nodes if n.op == "call_function"]
    assert calls[0].target is getattr(torch.ops, ns).repeated.default
    assert calls[0].meta["val"].shape == (6,)
    assert traced(torch.arange(2.0)).tolist() == [1, 1, 2, 2]


def test_a_batching_rule(ns):
    @torch.library.custom_op(f"{ns}::scaled", mutates_args=())
    def scaled(x: Tensor, by: float) -> Tensor:
        return torch.from_numpy(x.numpy() * by)

    seen = []

    @scaled.register_vmap
    def _(info, in_dims, x, by):
        seen.append((info.batch_size, in_dims))
        return scaled(x, by), in_dims[0]

    x = torch.arange(6.0).reshape(2, 3)
    got = torch.vmap(lambda x: scaled(x, 2.0), in_dims=1, out_dims=1)(x)
    assert torch.equal(got, x * 2)
    assert [size for size, _ in seen] == [3]


def test_autocast_casts_the_arguments(ns):
    @torch.library.custom_op(f"{ns}::kept", mutates_args=())
    def kept(x: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("cpu")
        return x.clone()

    kept.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert kept(torch.ones(2)).dtype is torch.bfloat16
    assert kept(torch.ones(2)).dtype is torch.float32
    with pytest.raises(ValueError, match="Unknown device type"):
        kept.register_autocast("nowhere", torch.bfloat16)


def test_functions_for_dispatch_keys(ns):
    library = torch.library.Library(ns, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    ops = getattr(torch.ops, ns)
    casts = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return ops.twice(x)

        @staticmethod
        def backward(ctx, g):
            return g * 20

    def in_bfloat16(x):
        casts.append(x.dtype)
        with torch.autocast("cpu", enabled=False):
            return ops.twice(x.bfloat16())

    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", Twice.apply, "Autograd")
    library.impl("twice", in_bfloat16, "AutocastCPU")
    for key in ("AutocastCUDA", "SparseCPU", "AutogradCUDA"):
        library.impl("twice", lambda x: 1 / 0, key)
    x = torch.ones(2, requires_grad=True)
    for call in (ops.twice, torch.compile(lambda x: ops.twice(x.sin()).sin())):
        for _ in range(3):
            x.grad = None
            y = call(x)
            y.sum().backward()
            inner = torch.ones(2) if call is ops.twice else torch.tensor(1.0).sin() * 2
            slope = 1.0 if call is ops.twice else inner.cos() * torch.tensor(1.0).cos()
            assert torch.allclose(x.grad, 20.0 * slope * torch.ones(2))
    with torch.autocast("cpu"):
        assert ops.twice(x).dtype == torch.bfloat16 and casts == [torch.float32]
    with torch.inference_mode():
        assert ops.twice(x).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "key", ["CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd"]
)
def test_a_declared_operator_without_a_gradient_has_that_of_its_kernel(ns, key):
    library = torch.library.Library(ns, "DEF")
    library.define("cube(Tensor x) -> Tensor")
    library.impl("cube", lambda x: x**3, key)
    x = torch.full((2,), 2.0, requires_grad=True)
    y = getattr(torch.ops, ns).cube(x)
    y.sum().backward()
    assert x.grad.tolist() == [12.0, 12.0] and type(y.grad_fn).__name__ == "PowBackward0"
    sparse = torch.library.Library(ns, "FRAGMENT")
    sparse.define("none(Tensor x) -> Tensor")
    sparse.impl("none", lambda x: x, "SparseCPU")
    with pytest.raises(NotImplementedError, match="from the 'CPU' backend"):
        getattr(torch.ops, ns).none(x.detach())


def test_a_rule_for_a_mode(ns):
    op = sine(ns)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError("the rule is called in its place")

    @op.register_torch_dispatch(Mode)
    def _(mode, func, types, args, kwargs):
        assert isinstance(mode, Mode)
        return args[0] * 3

    x = torch.ones(2)
    with Mode():
        result = op(x)
    assert result.tolist() == [3, 3]


def test_the_kernel_of_an_operator_of_pytorch_is_replaced():
    library = torch.library.Library("aten", "IMPL")
    library.impl("sum", lambda x, *args, **options: x.new_full((), 7.0), "CPU")
    x = torch.ones(2, requires_grad=True)
    y = x.sum()
    assert y.item() == 7
    y.backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="already a kernel registered from python"):
        library.impl("sum", torch.sum, "CPU")
    del library
    assert x.sum().item() == 2


def test_libraries_that_are_refused():
    with pytest.raises(ValueError, match="reserved namespace"):
        torch.library.Library("prim", "DEF")
    with pytest.raises(TypeError, match="Input function is required to be a callable"):
        torch.library.Library("aten", "IMPL").impl("neg", [], "CPU")
    with pytest.raises(RuntimeError, match="inconsistent with the dispatch key"):
        torch.library.Library("aten", "IMPL", "CPU").impl("sum", torch.sum, "Conjugate")
    with pytest.raises(ValueError, match="Unsupported kind: XX"):
        torch.library.Library("mine", "XX")


@pytest.mark.parametrize("key", ["Nonsense", "cpu", "CPU:0", "SparseAutogradCPU"])
def test_unknown_dispatch_keys_are_refused(ns, key):
    library = torch.library.Library(ns, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=f"could not parse dispatch key: {key}"):
        library.impl("twice", lambda x: x, key)
    with pytest.raises(RuntimeError, match=f"could not parse dispatch key: {key}"):
        torch.library.Library(ns, "IMPL", key)


@pytest.mark.parametrize(
    "key", ["CPU", "SparseCsrCUDA", "BackendSelect", "Undefined", "AutocastXPU", ""]
)
def test_known_dispatch_keys_are_taken(ns, key):
    library = torch.library.Library(ns, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x, key)


@pytest.mark.parametrize(
    "place, message",
    [
        ("nonsense", "at start of device string: nonsense"),
        ("cpu:0", "not have a device index; got cpu:0"),
    ],
)
def test_unknown_device_types_are_refused(ns, place, message):
    torch.library.define(f"{ns}::twice", "(Tensor x) -> Tensor")
    for register in (torch.library.impl, torch.library.register_kernel):
        with pytest.raises(RuntimeError, match=message):
            register(f"{ns}::twice", ("cuda", place))(lambda x: x)
    with pytest.raises(RuntimeError, match=message):
        torch.library.custom_op(f"{ns}::more", sine(ns), mutates_args=(), device_types=place)


def test_the_older_form_of_define_decorates_what_computes_the_operator(ns):
    library = torch.library.Library(ns, "DEF")

    @torch.library.define(library, "twice(Tensor x) -> Tensor", alias_analysis="CONSERVATIVE")
    def twice(x):
        return x * 2

    assert twice(torch.ones(1)).item() == getattr(torch.ops, ns).twice(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="Invalid alias_analysis type SOME"):
        library.define("other(Tensor x) -> Tensor", "SOME")


def test_overloads_have_kernels_of_their_own(ns):
    library = torch.library.Library(ns, "DEF")
    library.define("plus.Tensor(Tensor x, Tensor y) -> Tensor")
    library.define("plus.Scalar(Tensor x, Scalar y=1) -> Tensor")
    library.define("plus.List(Tensor x, int[] y, *, bool? z=None) -> Tensor")
    library.impl("plus.Tensor", lambda x, y: x + y, "CPU")
    library.impl(f"{ns}::plus.Scalar", lambda x, y: x + 10 * y, "CPU")
    library.impl("plus.List", lambda x, y, z=None: x + 100 * sum(y), "CPU")
    plus, one = getattr(torch.ops, ns).plus, torch.ones(1)
    assert plus.overloads() == ["Tensor", "Scalar", "List"]
    assert plus.Scalar.name() == f"{ns}::plus.Scalar" and dir(getattr(torch.ops, ns)) == ["plus"]
    given = [(one, one), (one, 2.0), (one,), (one, [1, 2]), (one, True)]
    assert [plus(*args).item() for args in given] == [2, 21, 11, 301, 11]
    assert plus.Tensor(one, one).item() == 2 and plus.Scalar(one, 3).item() == 31
    assert plus(one, [1], z=True).item() == 101
    with pytest.raises(RuntimeError, match="failed to match any schema"):
        plus(one, "a")
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'y'"):
        plus.Tensor(one, 2)
    with pytest.raises(AttributeError, match="has no overload name 'default'"):
        plus.default  # noqa: B018
    assert make_fx(lambda x: plus.Scalar(x, 2))(one).code.count(f"torch.ops.{ns}.plus.Scalar") == 1


def test_a_namespace_is_there_before_its_operators(ns):
    space = getattr(torch.ops, ns)
    assert not hasattr(space, "twice") and space.__name__ == f"torch.ops.{ns}"
    assert repr(space) == f"<module 'torch.ops.{ns}' from 'torch.ops'>"
    torch.library.define(f"{ns}::twice", "(Tensor x) -> Tensor")
    assert str(space.twice) == f"{ns}.twice" and dir(space) == ["twice"]
    assert not hasattr(torch.ops, "__absent__")
