"""Every way through a call gives the same: the general way, the printed function of the hottest call, and
those that are printed for a call key the second time it is seen (dispatch/keys.py)."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import rushlight as torch
from processes import finished
from rushlight.dispatch import general, inplace, keys

NAMES = "add sub mul div pow floor_divide remainder eq ne lt le gt ge".split()
SYMBOLS = {"div": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod}
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
)  # fmt: skip
NUMBERS = [0, 1, 3, -2, 127, 128, 255, 256, -129, 70000, 1 << 40, 0.0, -0.0, 2.5, -1e-3, 70000.0, 1e39,
           float("inf"), float("nan")]  # fmt: skip


def sample(dtype):
    values = torch.tensor([0.0, 1.0, 3.0, 2.0, 100.0, 7.0])
    return values.to(dtype)


def outcome(function):
    """The result or the error of a call; of the third one, for which a function of its own was printed."""
    try:
        for _ in range(2):
            function()
    except (RuntimeError, TypeError, ZeroDivisionError, NotImplementedError):
        pass
    try:
        return function()
    except (RuntimeError, TypeError, ZeroDivisionError, NotImplementedError) as error:
        return type(error), str(error)


def same(got, want, what):
    if isinstance(want, tuple):
        assert got == want, what
        return
    assert (got.dtype, got.shape, got.requires_grad) == (
        want.dtype,
        want.shape,
        want.requires_grad,
    ), what
    a, b = (x.detach()._array.astype(np.float64) for x in (got, want))
    np.testing.assert_array_equal(a, b, what)
    there = a == a  # the sign of a NaN is nobody's
    np.testing.assert_array_equal(np.signbit(a[there]), np.signbit(b[there]), what)


def generally(name, *values):
    op = getattr(torch, name).op
    rest = [op.defaults[p] for p in op.params[len(values) :]]
    return general.call(op, [*values, *rest])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_and_a_number(name, dtype):
    symbol = SYMBOLS.get(name) or getattr(operator, name)
    x = sample(dtype)
    for n in NUMBERS:
        want = outcome(lambda n=n: generally(name, x, n))
        same(outcome(lambda n=n: symbol(x, n)), want, f"{name}({dtype}, {n})")
        same(outcome(lambda n=n: getattr(x, name)(n)), want, f"{dtype}.{name}({n})")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", "add sub mul div pow floor_divide remainder".split())
def test_a_tensor_and_a_number_in_place(name, dtype):
    for n in NUMBERS:
        values = [n, *list(getattr(torch, name).op.defaults.values())]
        want = outcome(
            lambda v=values: inplace.inplace(getattr(torch, name).op, [sample(dtype), *v])
        )
        got = outcome(lambda n=n: getattr(sample(dtype), name + "_")(n))
        same(got, want, f"{dtype}.{name}_({n})")


@pytest.mark.parametrize("name", ["add", "mul", "div", "copysign", "atan2", "fmod", "maximum"])
def test_two_tensors_in_place(name):
    op = getattr(torch, name).op
    if not op.has_inplace:
        return
    for a, b in itertools.product(DTYPES, repeat=2):
        for y in (sample(b).flip(0), sample(b)[3], sample(b).expand(2, 6)):
            rest = [op.defaults[p] for p in op.params[2:]]
            want = outcome(lambda a=a, y=y: inplace.inplace(op, [sample(a), y, *rest]))
            got = outcome(lambda a=a, y=y: getattr(sample(a), name + "_")(y))
            same(got, want, f"{name}_({a}, {b}{list(y.shape)})")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_steps_of_optimizers(dtype):
    """The in-place forms that steps are made of: at keys, with overlaps, views, history and counters."""

    def a():
        return sample(dtype)

    b, c = sample(dtype).flip(0), sample(dtype) + 1
    cases = [("add", (b, 0.5)), ("sub", (b, 2)), ("lerp", (b, 0.25)), ("addcmul", (b, c, 0.5)),
             ("addcdiv", (b, c, -2.0)), ("clamp", (1, 5)), ("add", (b[:1], 3))]  # fmt: skip
    for name, args in cases:
        op = getattr(torch, name).op
        want = inplace.inplace(op, [a(), *args])
        for _ in range(3):
            x = a()
            before = x._version
            got = getattr(x, name + "_")(*args)
            assert got is x and x._version == before + 1
            same(got, want, name)
        rows = torch.stack([a(), a()])
        assert getattr(rows[1], name + "_")(*args).tolist() == want.tolist() == rows[1].tolist()
    leaf = a().requires_grad_()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf.add_(b, alpha=0.5)
    with torch.no_grad():
        leaf.add_(b, alpha=0.5)
    x = leaf * 1
    for _ in range(3):
        x.add_(b, alpha=0.5)
    x.sum().backward()
    assert leaf.grad.tolist() == [1.0] * 6
    shared = a()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="single memory location"):
            shared[1:].add_(shared[:-1], alpha=1)


def test_a_key_with_history_is_recorded():
    for _ in range(4):
        x, y = (sample(torch.float32).requires_grad_() for _ in range(2))
        z = x.add(y, alpha=3).lerp(y, 0.25)
        z.sum().backward()
        assert x.grad.tolist() == [0.75] * 6 and y.grad.tolist() == [2.5] * 6
        k = torch.arange(6)
        (x * k).sum().backward()
        assert x.grad.tolist() == [0.75 + i for i in range(6)]


def test_keys_are_few():
    """Objects of many classes do not fill the table of an operator."""
    x = torch.ones(2)
    for k in range(200):
        number = type(f"Number{k}", (float,), {})(2.0)
        assert (x * number).tolist() == [2.0, 2.0]
    op = torch.mul.op
    assert len(op.table) <= keys.MOST and len(op.seen) <= keys.MOST


@pytest.mark.parametrize("name", ["add", "mul", "div", "eq"])
def test_two_tensors(name):
    for a, b in itertools.product(DTYPES, repeat=2):
        x, y = sample(a), sample(b).flip(0)
        want = outcome(lambda x=x, y=y: generally(name, x, y))
        same(outcome(lambda x=x, y=y: getattr(torch, name)(x, y)), want, f"{name}({a}, {b})")


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sin", "sigmoid", "tanh", "log1p", "erf", "rsqrt"]
)
def test_functions_of_integers(name):
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64):
        x = sample(dtype)
        got, want = getattr(x, name)(), generally(name, x)
        assert got.dtype is want.dtype is torch.float32
        torch.testing.assert_close(got, want, equal_nan=True)
        out = torch.empty(6)
        assert getattr(torch, name)(x, out=out) is out
        assert torch.allclose(out, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_lerp_by_a_number(dtype):
    a, b = sample(dtype), sample(dtype).flip(0)
    for weight in (0, 1, 0.25, 0.75, -0.0, 3.0):
        same(a.lerp(b, weight), generally("lerp", a, b, weight), f"{weight}")
    with pytest.raises(RuntimeError, match="expected dtype"):
        sample(torch.float32).lerp(sample(torch.float64), 0.5)


def test_what_is_recorded_goes_the_general_way():
    x = sample(torch.bfloat16).requires_grad_()
    (x * 2.5 + 1).sum().backward()
    assert x.grad.dtype is torch.bfloat16 and x.grad.tolist() == [2.5] * 6
    with torch.no_grad():
        assert not (x * 2.5).requires_grad


def test_views_of_what_has_no_history_go_the_printed_way(monkeypatch):
    x, leaf = torch.ones(3, 2, dtype=torch.bfloat16), torch.ones(3, 2, dtype=torch.bfloat16)
    leaf.requires_grad_()
    for _ in range(3):
        x * 1.5  # from the second call on a function is printed for the key
    (leaf[1] * 1.5).sum().backward()  # views with a history are recorded
    assert leaf.grad.tolist() == [[0, 0], [1.5, 1.5], [0, 0]]
    written = torch.zeros(2, 2, dtype=torch.bfloat16)
    row = written[0]
    row.copy_(leaf[0])
    assert (row * 1.5).requires_grad and (written[1] * 1.5).requires_grad
    monkeypatch.setattr(general, "execute", None)
    assert (x[1] * 1.5).tolist() == [1.5, 1.5]


@pytest.mark.parametrize("grad", [True, False])
def test_writes_at_indices_into_rows_go_the_short_way(grad, monkeypatch):
    """A loop over rows (`target[i].index_add_(...)`) took the general way: 17 us instead of 0.3."""
    z, i, s = torch.zeros(4, 3), torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 4.0])
    writes = (
        lambda row: row.index_add_(0, i, s),
        lambda row: row.scatter_add_(0, i, s),
        lambda row: row.index_copy_(0, i[:2], s[:2]),
        lambda row: row.masked_fill_(s > 3, 7.0),
    )
    with torch.set_grad_enabled(grad):
        for write in writes:  # the first calls print and bind
            write(torch.zeros(3)), write(torch.zeros(1, 3)[0])
        monkeypatch.setattr(general, "forward", None)
        monkeypatch.setattr(inplace, "execute_write", None)
        monkeypatch.setattr(inplace, "execute_inplace", None)
        version = z._version
        for k, write in enumerate(writes):
            write(z[k])
    assert z.tolist() == [[5, 0, 2], [5, 0, 2], [1, 0, 2], [0, 0, 7]] and z._version == version + 4
    monkeypatch.undo()
    w = torch.ones(4, 3, requires_grad=True)
    y = w * 2
    y[1].index_add_(0, i, s)  # a view with a history is recorded
    y[2].masked_fill_(s > 3, 7.0)
    y.sum().backward()
    assert w.grad.tolist() == [[2, 2, 2], [2, 2, 2], [2, 2, 0], [2, 2, 2]]


def test_zeros_keep_their_sign():
    x = torch.tensor([-0.0, 0.0]).bfloat16()
    assert np.signbit((x + -0.0)._array.astype(np.float32)).tolist() == [True, False]
    assert np.signbit((x + 0.0)._array.astype(np.float32)).tolist() == [False, False]
    assert keys.rounded(0.0, x._array.dtype) is not keys.rounded(-0.0, x._array.dtype)


def test_the_default_dtype_counts():
    torch.set_default_dtype(torch.float64)
    try:
        assert (torch.tensor([1, 2]) * 2.5).dtype is torch.float64
        assert torch.tensor([1, 2]).exp().dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_inference_mode():
    with torch.inference_mode():
        assert (torch.tensor([1, 2]) * 2.5).is_inference()
        assert torch.tensor([1, 2]).exp().is_inference()


def test_copies_of_views_in_inference_mode():
    with torch.inference_mode():
        x = torch.arange(12).view(3, 4)
        for _ in range(3):
            kept = x.expand(2, 3, 4).repeat_interleave(2, 0)
            assert kept.is_inference() and kept.shape == (4, 3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_with_a_factor(dtype):
    a, b = sample(dtype), sample(dtype).flip(0)
    for name in ("add", "sub"):
        for alpha in (2, 0.5, -1, 0):
            got = getattr(a, name)(b, alpha=alpha)
            op = getattr(torch, name).op
            same(got, general.call(op, [a, b, alpha]), f"{name} {alpha}")
            assert getattr(torch, name)(a, b[:1], alpha=alpha).shape == (6,)
    assert a.add(b, alpha=2).tolist() == (a + 2 * b).tolist()
    x = sample(dtype).requires_grad_()
    x.add(b, alpha=2).sum().backward()
    assert x.grad.tolist() == [1.0] * 6
    with pytest.raises(RuntimeError, match="[Bb]oolean alpha"):
        a.add(b, alpha=True)
    out = torch.empty(6, dtype=dtype)
    assert torch.add(a, b, alpha=2, out=out) is out and torch.equal(out, a.add(b, alpha=2))


def test_a_key_holds_the_class_of_alpha():
    """What was printed for a call with one alpha is not taken for a call where another operator takes over."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        a, b = sample(dtype), sample(dtype).flip(0)
        for alpha in [1, 1.0, 2.0, 2, 1, 0.0, -1] * 3:
            for name in ("add", "sub", "add_", "sub_"):
                op = getattr(torch, name.rstrip("_")).op
                want = outcome(lambda a=a, b=b, n=alpha, op=op: general.call(op, [a, b, n]))
                got = outcome(lambda a=a, b=b, n=alpha, f=name: getattr(a.clone(), f)(b, alpha=n))
                same(got, want, f"{name} {dtype} {alpha}")
        for low, high in [(0, None), (0.5, 2), (1, None), (None, 2), (None, None)] * 3:
            want = outcome(lambda a=a, n=low, m=high: general.call(torch.clamp.op, [a, n, m]))
            same(outcome(lambda a=a, n=low, m=high: a.clamp(n, m)), want, f"{dtype} {low} {high}")


def test_new_tensors_that_want_gradients():
    for make in (torch.zeros, torch.ones, torch.rand, torch.randn, torch.empty):
        x = make(2, 3, requires_grad=True)
        assert x.requires_grad and x.is_leaf and x.shape == (2, 3)
        assert not make(2, 3, requires_grad=False).requires_grad


def test_threads_that_make_the_first_calls_together():
    """Operators are printed by one thread, whichever comes first; the others wait for it."""
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
import rushlight as torch
x, failed, start = torch.rand(4, 4) + 1, [], threading.Barrier(8)
names = "add sub mul div exp log sqrt sin cos tanh sigmoid relu sum mean amax prod argmax".split()

def work():
    start.wait()
    try:
        for name in names:
            function = getattr(torch, name)
            function(x, x) if name in ("add", "sub", "mul", "div") else function(x)
            (x * 2.5).add_(x, alpha=2)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(failed)
"""
    done = finished("-c", code)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_number_is_written_in_place_into_a_tensor_without_dimensions():
    for _ in range(3):
        count = torch.tensor(3)
        assert count.add_(1) is count
        assert count.item() == 4
        with torch.no_grad():
            mean = torch.tensor(2.0)
            mean.mul_(0.5).add_(torch.tensor(1, dtype=torch.float64))
        assert mean.item() == 2.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["true_divide", "div", "mul", "add", "sub", "pow"])
def test_gradients_beside_numbers_keep_their_dtype(name, dtype):
    for _ in range(4):
        x = sample(dtype).requires_grad_()
        getattr(torch, name)(x, 2.5).sum().backward()
        assert x.grad.dtype is dtype


RECORDED = {  # calls with a number in the place of a tensor, or a tensor in the place of a number
    "lerp": (lambda x, y: torch.lerp(x, y, 0.25), "LerpBackward0"),
    "power of a number": (lambda x, y: 2**x, "PowBackward2"),
    "lower bound": (lambda x, y: x.clamp(min=y), "ClampBackward0"),
    "upper bound": (lambda x, y: torch.clamp(x, max=y), "ClampBackward0"),
    "two bounds": (lambda x, y: x.clip(y - 1, y), "ClampBackward0"),
    "wide bound": (lambda x, y: x.clamp(min=y[:, None]).sum(0), "SumBackward1"),
    "clamp_min": (torch.clamp_min, "ClampMinBackward1"),
    "clamp_max": (torch.clamp_max, "ClampMaxBackward1"),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_calls_have_the_gradients_of_the_general_way(name, dtype):
    function, node = RECORDED[name]

    def gradients():
        x = torch.tensor([0.5, 1.5, 3.0], dtype=dtype, requires_grad=True)
        y = torch.tensor([1.0, 2.0, 2.0], dtype=dtype, requires_grad=True)
        result = function(x, y)
        assert result.grad_fn.name() == node
        found = torch.autograd.grad(result.sum(), (x, y), allow_unused=True)
        return [None if t is None else (t.dtype, t.tolist()) for t in (result, *found)]

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # never printed
        expected = gradients()
    assert [gradients() for _ in range(3)] == [expected] * 3


ROUNDINGS = [*itertools.permutations((None, "floor", "trunc"), 2)]


@pytest.mark.parametrize("first, second", ROUNDINGS, ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64), ids=str)
def test_who_takes_a_call_over_is_a_part_of_its_key(dtype, first, second):
    x, y = sample(dtype).reshape(2, 3), torch.tensor([2, 3, 4]).to(dtype)
    pairs = [
        (x, y),
        (x, torch.tensor(3).to(dtype)),
        (x[0, 1], y[0]),
        (x, 3),
        (x, torch.tensor(2.5)),
        (x, y[:2]),
    ]
    for a, b in pairs:
        for mode in (first, second, first):
            want = outcome(lambda a=a, b=b, m=mode: general.call(torch.div.op, [a, b, m]))
            same(
                outcome(lambda a=a, b=b, m=mode: torch.div(a, b, rounding_mode=m)),
                want,
                (a, b, mode),
            )
            want = outcome(
                lambda a=a, b=b, m=mode: inplace.inplace(torch.div.op, [a.clone(), b, m])
            )
            same(
                outcome(lambda a=a, b=b, m=mode: a.clone().div_(b, rounding_mode=m)),
                want,
                "in place",
            )


def test_a_rounded_quotient_of_a_subclass_is_told_as_div():
    class Told(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.calls.append((function.__name__, kwargs))
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(3)
    for _ in range(3):
        torch.div(x, x, rounding_mode="floor")
    Told.calls.clear()
    for _ in range(3):
        torch.div(x.as_subclass(Told), x, rounding_mode="floor")
    assert [c for c in Told.calls if c[0] == "div"] == [("div", {"rounding_mode": "floor"})] * 3


def test_a_bound_of_a_subclass_is_told_of_the_call():
    calls = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x, low = torch.zeros(2), torch.ones(2).as_subclass(Told)
    for _ in range(3):
        torch.clamp(x, low)
    assert calls == [torch.clamp] * 3


def graph(node, leaves):
    """What a node and those behind it keep: names, saved tensors and versions, plain values, shapes of gradients."""
    if node is None or node in leaves:
        return leaves.get(node)
    saved = [
        (k.shape, k._array.tobytes())
        if isinstance(k, torch.Tensor)
        else k.tobytes()
        if hasattr(k, "tobytes")
        else k
        for k in node.saved or ()
    ]
    kept = saved, getattr(node, "statics", None), node.unbroadcast_to, node.hooks
    return (node.name(), *kept, [graph(e, leaves) for e in node._edges])


def test_the_entry_of_an_operator_records_what_its_printed_lines_record(monkeypatch):
    from rushlight._backends import llvm
    from rushlight.dispatch.registry import OPS

    llvm.activate()
    F = torch.nn.functional
    x, y = torch.tensor([[1.0, 2.0], [3.0, 0.5]]), torch.tensor([2.0, 4.0])
    x.requires_grad_()
    y.requires_grad_()
    plain = torch.tensor([[0.5, 1.5], [2.0, 4.0]])
    plain.mul_(1.0)  # its version is 1
    calls = [
        lambda: x * plain,
        lambda: plain * x,
        lambda: x * y,
        lambda: y / x,
        lambda: x[1] * plain[0],
        lambda: x.exp() + torch.clamp(x, 0, 1),
        lambda: torch.atan2(plain, y),
        lambda: x.sum() + x.sum(1, keepdim=True) + x.sum(0, dtype=torch.float64),
        lambda: x.mean(0) - x.mean(),
        lambda: F.linear(plain, x),
        lambda: F.linear(x, plain, y),
        lambda: x.view(-1)[1:].view(3, 1) * x.t()[0],
        lambda: x.transpose(0, 1).unsqueeze(0).expand(3, 2, 2).permute(2, 0, 1),
        lambda: x @ y,
        lambda: (x * 2.0 + 1) / 3 - 1.0,
        lambda: x**2 + (2.0 - y) / x,
    ]
    leaves = {x._edge: "x", y._edge: "y"}
    native = [call() for call in calls]
    for op in OPS.values():
        for name in op.scope.keys() & {"entry", "entry_float", "entry_int"}:
            monkeypatch.setitem(op.scope, name, lambda *args, **kwargs: None)
    for one, call in zip(native, calls, strict=True):
        other = call()
        assert torch.equal(one, other) and one.requires_grad and other.requires_grad
        assert one.stride() == other.stride()
        assert graph(one.grad_fn, leaves) == graph(other.grad_fn, leaves)


def test_the_entry_of_an_operator_of_several_results_makes_the_same_tuple(monkeypatch):
    from rushlight._backends import llvm
    from rushlight.dispatch.registry import OPS

    llvm.activate()
    x = torch.tensor([[3.0, 1.0, 2.0], [0.5, 4.0, 4.0]])
    calls = [
        lambda: torch.frexp(x),
        lambda: torch.aminmax(x),
        lambda: x.max(1),
        lambda: x.t().sort(0),
        lambda: torch.cummax(x, 1),
        lambda: torch.linalg.qr(x, "r"),
    ]
    native = [call() for call in calls]
    for op in OPS.values():
        if "entry" in op.scope:
            monkeypatch.setitem(op.scope, "entry", lambda *args, **kwargs: None)
    for one, call in zip(native, calls, strict=True):
        other = call()
        assert one.__class__ is other.__class__ and one._fields == other._fields
        for a, b in zip(one, other, strict=True):
            assert torch.equal(a, b) and a.dtype is b.dtype and a.stride() == b.stride()
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.topk(x, 9)


def test_the_entry_of_an_operator_asks_what_is_recorded():
    from rushlight._backends import llvm

    llvm.activate()
    x = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        assert not (x * x).requires_grad
        assert not x.sum().requires_grad
    base = x * 1
    view = base.view(4)
    base.mul_(2.0)  # the view's node is another one now
    (view * view).sum().backward()
    assert x.grad.tolist() == [[8.0, 8.0], [8.0, 8.0]]
    y = torch.ones(2, 2, requires_grad=True)
    z = y.exp()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    w = torch.ones(3, requires_grad=True)
    product, w2 = w * w, w.detach()
    w2.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    whole = torch.arange(3)
    assert (whole * 2).dtype is torch.int64 and (whole * 2.0).dtype is torch.float32
    assert (whole / 2).dtype is torch.float32 and (whole > 1).tolist() == [False, False, True]
    half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert (half * half).dtype is torch.bfloat16 and (half * half).requires_grad
    numbers = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    (numbers * (2j * numbers)).real.sum().backward()
    assert numbers.grad.tolist() == [-4j, -4j]


def test_calls_without_history_are_the_calls_with_one():
    from rushlight._backends import llvm
    from rushlight.utils._python_dispatch import TorchDispatchMode

    llvm.activate()
    x, y = torch.tensor([[1.0, -2.0], [3.0, 0.5]]), torch.tensor([2.0, 4.0])
    calls = [
        lambda x, y: x + y,
        lambda x, y: torch.atan2(x, y),
        lambda x, y: x.t().relu(),
        lambda x, y: x.sum(1, keepdim=True),
        lambda x, y: torch.softmax(x, -1),
        lambda x, y: y.sum(),
    ]
    for call in calls:
        plain, recorded = call(x, y), call(x.clone().requires_grad_(), y.clone().requires_grad_())
        assert plain.__class__ is torch.Tensor and not plain.requires_grad
        assert recorded.requires_grad and torch.equal(plain, recorded)
        assert plain.shape == recorded.shape and plain.stride() == recorded.stride()
    parameter = torch.nn.Parameter(y.clone())
    assert (parameter + y).requires_grad and (x.view(4)[:2] + parameter).requires_grad
    with torch.no_grad():
        assert not (parameter + y).requires_grad
    with torch.inference_mode():
        assert (x + y).is_inference()
    with pytest.raises(RuntimeError, match="size of tensor"):
        x + torch.ones(3)
    assert (x + y.double()).dtype is torch.float64
    a, out = torch.add(x, y, alpha=2), torch.empty(2, 2)
    assert torch.equal(a, x + 2 * y) and torch.add(x, y, out=out) is out
    seen = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watching():
        x + y
    assert seen == ["aten.add.Tensor"]


def test_views_without_history_are_the_views_with_one():
    from rushlight._backends import llvm

    llvm.activate()
    calls = [
        lambda x: x.t(),
        lambda x: x.diagonal(),
        lambda x: x[1:].t().expand(2, 4, 3),
        lambda x: x.view(2, 8)[:, None].squeeze(1),
        lambda x: x.chunk(2, 1)[1],
        lambda x: x.unbind()[2][1:],
        lambda x: x.split([1, 3])[1].t(),
    ]
    for call in calls:
        x = torch.arange(16.0).view(4, 4)
        recorded = x.clone().requires_grad_()
        for again in (x, recorded.detach(), x):  # the first one makes a version
            view = call(again)
            assert torch.equal(view, call(recorded)) and view.stride() == call(recorded).stride()
            assert view._is_view() and view._base is (again if again._base is None else again._base)
            assert not view.requires_grad and call(recorded).requires_grad
            before = again._version
            view.add_(1) if view.dim() < 3 else view[0].add_(1)
            assert again._version == view._version == before + 1
            view.sub_(1) if view.dim() < 3 else view[0].sub_(1)
    x = torch.zeros(3, 2)
    with torch.no_grad():
        frozen, several = x.t(), x.unbind()
    row = x[0]
    x.requires_grad_()
    for view, match in ((frozen, "no_grad"), (several[0], "no_grad")):
        with pytest.raises(RuntimeError, match=match):
            view.add_(1)
    with pytest.raises(RuntimeError, match="multiple views"):
        (x * 1).unbind()[0].add_(1)
    assert row._base is x


def test_the_entry_of_an_operator_leaves_tensors_of_inference_mode_to_python():
    from rushlight._backends import llvm

    llvm.activate()
    with torch.inference_mode():
        made = torch.ones(2)
    x = torch.ones(2, requires_grad=True)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            made * x
        assert (made + x).requires_grad


def test_the_entry_of_an_operator_reads_versions_that_begin_at_a_write():
    """The result of a function in place is saved by its node, whose rule reads it with a version of its own."""
    from rushlight._backends import llvm

    llvm.activate()
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        y = x * 1
        y.relu_()
        factor = torch.full((3, 4), 2.0, requires_grad=True)
        (g,) = torch.autograd.grad(y, x, factor, create_graph=True)
        g.sum().backward()
        assert factor.grad.equal((x > 0).float())
        saved = y.grad_fn._saved_result
        assert (saved.view(12) * factor.view(12)).sum().equal((y * factor).sum())
