"""torch.library: operators of one's own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor

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
