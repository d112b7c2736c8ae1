"""Programs of graphs compute what their operators compute: values, dtypes, strides, writes and whose memory."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import rushlight as torch
from rushlight.compiler.lowering.lowering import build
from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, make_fx

UNARY = (
    "neg abs relu sigmoid tanh exp sqrt square sign floor silu gelu erf log1p reciprocal".split()
)
BINARY = "add sub mul div maximum minimum lt ge eq".split()
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16]
SHAPES = [(), (1,), (5,), (3, 5), (3, 1), (2, 3, 5), (2, 1, 5), (64, 70)]


def built(function, *inputs, own=True):
    """The program of a function, of our operators or of PyTorch's inner ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxyTorchDispatchMode, "own_operators", own, raising=False)
        graph = make_fx(function)(*[t.clone() for t in inputs]).graph
    return build(graph)


def call(name, *args):
    for place in (torch, torch.nn.functional):
        if hasattr(place, name):
            return getattr(place, name)(*args)
    raise AssertionError(name)


def steps_of(draw, inputs):
    """A random program as a function of its inputs: it may write to them, and to what it computed."""
    plan = []
    for _ in range(draw(st.integers(2, 12))):
        kind = draw(st.sampled_from("unary binary number cast view write where reduce".split()))
        plan.append((kind, [draw(st.integers(0, 30)) for _ in range(4)], draw(st.integers(0, 100))))
    wanted = [draw(st.integers(0, 30)) for _ in range(draw(st.integers(1, 3)))]

    def program(*given):
        values = list(given)
        for kind, at, odd in plan:
            a, b = values[-1 - at[0] % len(values)], values[-1 - at[1] % len(values)]
            try:
                values.append(one(kind, a, b, at, odd))
            except (RuntimeError, IndexError, TypeError):
                pass  # shapes or dtypes that do not go together
        return tuple(values[-1 - k % len(values)] for k in wanted)

    return program


def one(kind, a, b, at, odd):
    if kind == "unary":
        return call(UNARY[odd % len(UNARY)], a)
    if kind == "binary":
        return call(BINARY[odd % len(BINARY)], a, b)
    if kind == "number":
        return call(BINARY[odd % len(BINARY)], a, [2, 0.5, -1.25, 3][at[2] % 4])
    if kind == "cast":
        return a.to(DTYPES[odd % len(DTYPES)])
    if kind == "view":
        how = odd % 5
        if how == 0:
            return a.transpose(0, -1)
        if how == 1:
            return a.reshape(-1)
        if how == 2:
            return a.unsqueeze(0)
        if how == 3:
            return a[..., 1:]
        return a.expand(2, *a.shape)
    if kind == "write":
        how = odd % 4
        if how == 0:
            return a.add_(b)
        if how == 1:
            return a.mul_(0.5)
        if how == 2:
            return a.copy_(b)
        return a.sigmoid_()
    if kind == "where":
        return torch.where(a > 0, a, b)
    return [a.sum(), a.sum(-1), a.sum(0, keepdim=True), a.float().mean(-1, keepdim=True)][odd % 4]


def made(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    values = torch.from_numpy(rng.uniform(-2, 2, shape))
    return values.to(dtype)


def same(ours, theirs, tolerance=1e-5):
    """Whether two tensors are the same but for rounding."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert ours.stride() == theirs.stride() or 1 in ours.shape or 0 in ours.shape
    if ours.dtype == torch.bfloat16:
        tolerance = 2e-2
    a, b = ours.double().numpy(), theirs.double().numpy()
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_random_programs(data):
    kinds = data.draw(
        st.lists(
            st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES[:4])), min_size=1, max_size=3
        )
    )
    check(steps_of(data.draw, kinds), kinds, data.draw(st.booleans()))


def check(function, kinds, own=True, calls=3):
    def fresh(seed):
        return [made(shape, dtype, seed + k) for k, (shape, dtype) in enumerate(kinds)]

    program = built(function, *fresh(0), own=own)
    for seed in range(calls):
        ours, theirs = fresh(10 * seed), fresh(10 * seed)
        expected = function(*theirs)
        found = program(*ours)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        for a, b in zip(ours, theirs, strict=True):  # writes to inputs
            same(a, b)
        for a, b in zip(found, expected, strict=True):  # results that are inputs
            for x, y in zip(ours, theirs, strict=True):
                assert (a is x) == (b is y)


def loops_of(function, *inputs):
    """The fused loops of a program that gives what the function gives."""
    program = built(function, *inputs)
    for _ in range(2):
        ours, theirs = [t.clone() for t in inputs], [t.clone() for t in inputs]
        for a, b in zip([*program(*ours), *ours], [*function(*theirs), *theirs], strict=True):
            same(a, b)
    return program.loops


def test_a_chain_with_a_broadcast_a_transpose_and_a_write_is_one_loop():
    def function(x, y, b):
        t = torch.nn.functional.gelu(x + b) * 2
        u = t.sigmoid() * y.t() - 0.5
        x.add_(u)
        return u, torch.where(x > 0, x, u)

    assert len(loops_of(function, torch.randn(40, 30), torch.randn(30, 40), torch.randn(30))) == 1


def test_a_number_that_another_call_needs_first_keeps_loops_apart():
    def function(x):
        y = x.exp() + 1
        return (
            y.cumsum(0) * y - x,
        )  # what cumsum reads is computed before, what it gives is read behind

    assert len(loops_of(function, torch.randn(8, 5))) == 2


def test_a_read_through_another_view_sees_a_write_in_order():
    def function(x):
        y = x[1:] * 2 + 1
        x.mul_(3).add_(1)
        z = x[1:] * 2 + y
        x.sub_(1).neg_()
        return y, z

    loops_of(function, torch.randn(6, 4))


def test_arrays_of_other_layouts_than_in_the_first_call_are_computed_too():
    program = built(lambda x: (x.exp() + 1).sqrt(), torch.randn(5, 6))
    for x in (
        torch.randn(5, 6),
        torch.randn(6, 5).t(),
        torch.randn(5, 12)[:, ::2],
        torch.randn(5, 6),
    ):
        (found,) = program(x)
        same(found, (x.exp() + 1).sqrt())


def test_threads_change_no_bit():
    x, y = torch.randn(300, 400), torch.randn(400)
    program = built(lambda x, y: ((x + y).tanh() * x, (x * y).sum(0)), x, y)
    program(x, y)
    before, found = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            found.append([t.numpy().tobytes() for t in program(x, y)])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_random_numbers_are_drawn_as_often_and_in_the_same_order():
    def function(x):
        return x + torch.rand(3), torch.rand(3), torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(3)
    torch.manual_seed(0)
    expected = [function(x) for _ in range(3)]
    program = built(function, x)
    torch.manual_seed(0)
    for row in expected:
        for a, b in zip(program(x), row, strict=True):
            same(a, b)


@pytest.mark.parametrize("laid_out", ["rows", "columns", "channels_last", "gaps"])
def test_memory_and_random_numbers_are_laid_out_as_eager_lays_them_out(laid_out):
    def function(x):
        like = torch.randn_like(x), torch.rand_like(x, dtype=torch.float64)
        order = torch.randn_like(x, memory_format=torch.contiguous_format)
        own = torch.empty_like(x).bernoulli_(0.25), x.new_empty_strided((4, 3), (1, 4)).normal_(2)
        return *like, order, *own, torch.empty_strided((2, 2), (3, 1)).uniform_(-1, 1)

    x = torch.ones(4, 3, 6, 5)
    x = {"columns": x.transpose(1, 2), "gaps": x[:, :, ::2]}.get(laid_out, x)
    if laid_out == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    torch.manual_seed(0)
    expected = [function(x) for _ in range(3)]
    program = built(function, x)
    torch.manual_seed(0)
    for row in expected:
        for a, b in zip(program(x), row, strict=True):
            assert a.stride() == b.stride() and a.dtype == b.dtype and torch.equal(a, b)


def test_a_training_step_gives_the_gradients_of_eager():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
    )
    parameters = list(model.parameters())

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        return (loss.detach(), *torch.autograd.grad(loss, parameters))

    x, y = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    program = built(step, x, y)
    for _ in range(3):
        x = torch.randn(4, 6)
        for a, b in zip(program(x, y), step(x, y), strict=True):
            same(a, b)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_divisor_of_a_cross_entropy_is_computed_anew(reduction):
    def step(x, y):
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(x, y, reduction=reduction)
        return loss.detach(), torch.autograd.grad(loss.sum(), x)[0]

    x = torch.randn(4, 3)
    for own in (False, True):
        program = built(step, x, torch.tensor([0, 1, 2, 0]), own=own)
        for y in ([0, 1, 2, 0], [0, -100, -100, 1], [2, 2, 2, -100]):
            y = torch.tensor(y)
            for a, b in zip(program(x, y), step(x, y), strict=True):
                same(a, b)


def test_batch_statistics_and_pooling_of_a_convolutional_network():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 3),
    )  # fmt: skip
    parameters, state = list(model.parameters()), list(model.buffers())

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        return (loss.detach(), *torch.autograd.grad(loss, parameters))

    x, y = torch.randn(5, 2, 8, 8), torch.tensor([0, 1, 2, 0, 1])
    for own in (True, False):
        program = built(step, x, y, own=own)
        for _ in range(3):
            before = [b.clone() for b in state]
            expected = [t.clone() for t in (*step(x, y), *state)]
            for b, old in zip(state, before, strict=True):
                b.copy_(old)
            for a, b in zip([*program(x, y), *state], expected, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_a_write_in_a_wider_dtype_is_rounded_to_that_of_the_memory():
    def function(x, y):
        x.add_(y)
        x.mul_(x).relu_()
        return (x + 1,)

    loops_of(function, torch.randn(7), torch.randn(7).double())
    loops_of(function, torch.randn(7).to(torch.bfloat16), torch.randn(7).double())


def test_what_is_returned_is_new_in_every_call():
    program = built(lambda x: (torch.ones_like(x), x.exp() + 1, x.detach()), torch.randn(3))
    x = torch.randn(3)
    first = program(x)
    for t in first[:2]:
        t.zero_()
    ones, more, alias = program(x)
    same(ones, torch.ones(3))
    same(more, x.exp() + 1)
    assert alias is not x and alias.data_ptr() == x.data_ptr()


def test_inputs_that_share_memory_are_read_after_a_write_to_one():
    def function(x, y):
        x.add_(1)
        return (y * 2 + 1, x * 2)

    base = torch.randn(6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxyTorchDispatchMode, "own_operators", True, raising=False)
        program = build(make_fx(function)(base[:4], base[2:]).graph)
    for _ in range(3):
        ours, theirs = torch.arange(6.0), torch.arange(6.0)
        for a, b in zip(program(ours[:4], ours[2:]), function(theirs[:4], theirs[2:]), strict=True):
            same(a, b)


def test_the_report_shows_the_lines_of_the_loops():
    x = torch.randn(5)
    program = built(lambda x: (x.exp() + 1,), x)
    program(x)
    assert "exp" in program.report() and len(program.loops) == 1


def test_views_keep_their_place_in_memory_of_any_layout():
    def function(x):
        a, b, c = (x * 2).split((2, 3, 1), 1)
        rows = x.unbind(0)[2].unsqueeze(0)
        y = x.t().unsqueeze(1)[1:, :, ::2]
        y.mul_(2)
        return a.transpose(0, 1).exp() + 1, b, c.expand(4, 5), rows, x[1], y

    program = built(function, torch.randn(4, 6))
    for x in (torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(4, 12)[:, ::2]):
        for _ in range(2):
            ours, theirs = x.clone(), x.clone()
            base = torch.zeros(12, 12)
            ours = base.as_strided(x.shape, x.stride()).copy_(ours)
            theirs = base.clone().as_strided(x.shape, x.stride()).copy_(theirs)
            for a, b in zip([*program(ours), ours], [*function(theirs), theirs], strict=True):
                same(a, b)
                assert (a.data_ptr() == ours.data_ptr()) == (b.data_ptr() == theirs.data_ptr())


def test_new_memory_is_made_in_every_call():
    def function(x):
        return (x.new_empty((2, 3)).fill_(1).add_(x), x.new_empty(0), torch.empty(3).zero_())

    program = built(function, torch.ones(3))
    kept = [program(torch.full((3,), float(k)))[0] for k in range(3)]
    for k, t in enumerate(kept):
        same(t, torch.full((2, 3), 1.0 + k))


@pytest.mark.parametrize(
    "kernel, stride, padding", [(2, 2, 0), (3, 1, 1), ((3, 2), (2, 1), (1, 0))]
)
@pytest.mark.parametrize("kept", [False, True])
def test_maxima_of_rectified_numbers_and_their_gradients(kernel, stride, padding, kept):
    F = torch.nn.functional

    def step(x, w):
        y = F.relu(F.conv2d(x, w))
        z, places = F.max_pool2d(y, kernel, stride, padding, return_indices=True)
        loss = (F.max_pool2d(y, kernel, stride, padding) * z.detach().exp()).sum()
        if kept:
            loss = loss + y.sum() + F.max_pool2d(F.relu(y - 1), 2).square().sum()
        return loss.detach(), *torch.autograd.grad(loss, (x, w)), places.sum()

    def alone(x, w):
        loss = F.max_pool2d(F.relu(F.conv2d(x, w)), kernel, stride, padding).square().sum()
        return loss.detach(), *torch.autograd.grad(loss, (x, w))

    w = torch.tensor([[[[1.0]]], [[[-2.0]]]], requires_grad=True)
    for function in (step, alone):
        for k in range(3):
            x = torch.from_numpy(np.random.default_rng(k).integers(-3, 3, (2, 1, 7, 9))).float()
            x[:, :, :4, :4] = -1.0 if k else float("nan")
            x = x.requires_grad_()
            if not k:
                program = built_with_gradients(function, x, w)
            for a, b in zip(program(x, w), function(x, w), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())


def built_with_gradients(function, *inputs):
    """The program of a function that asks for gradients by its inputs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxyTorchDispatchMode, "own_operators", True, raising=False)
        return build(make_fx(function)(*inputs).graph)


def test_arrays_one_after_the_other():
    def function(x, y):
        return torch.cat([x, y], 1), torch.cat([y.transpose(1, 2), x.transpose(1, 2)], 2)

    program = built(function, torch.randn(2, 3, 4), torch.randn(2, 5, 4))
    for _ in range(3):
        for x, y in (
            (torch.randn(2, 3, 4), torch.randn(2, 5, 4)),
            (torch.randn(2, 4, 3).transpose(1, 2), torch.randn(2, 5, 8)[:, :, ::2]),
        ):
            for a, b in zip(program(x, y), function(x, y), strict=True):
                same(a, b, 0)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 8, 4, 4), (3, 5, 6), (2, 3, 2, 3, 2), (4, 6)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_statistics_that_are_given_are_numbers_of_rows(shape, dtype):
    F, channels = torch.nn.functional, shape[1]
    state = [(torch.rand(channels) + 0.5).to(dtype) for _ in range(4)]

    def function(x, y):
        a = torch.relu(F.batch_norm(x, state[0], state[1], state[2], state[3]) + y)
        b = F.batch_norm(a, state[0], state[1]) * 2 + 1
        return a, b, F.batch_norm(b * 3, state[1], state[0], None, state[3]).sigmoid()

    def made():
        x, y = (torch.randn(shape).to(dtype) for _ in range(2))
        if len(shape) != 4:
            return [(x, y)]
        last = torch.channels_last
        strided = torch.randn(*shape[:3], 2 * shape[3]).to(dtype)[..., ::2]
        return [(x, y), (x.to(memory_format=last), y), (x, strided), (strided, y)]

    for first in made():
        program = built(function, *first)
        for _ in range(2):
            for x, y in made():
                for a, b in zip(program(x, y), function(x, y), strict=True):
                    same(a, b)
            for t in state:
                t.mul_(1.25)


def test_numbers_of_channels_are_one_loop_with_what_follows():
    state = [torch.rand(64) + 0.5 for _ in range(4)]

    def function(x, y):
        return torch.relu(torch.nn.functional.batch_norm(x, *state) + y).sum(1), x[0]

    x = torch.randn(2, 64, 5, 3)
    assert len(loops_of(function, x, torch.randn(2, 64, 5, 3))) == 1


def test_scores_that_are_masked_are_one_loop():
    def function(q, seen):
        scores = (q * 0.5).masked_fill(seen == 0, float("-inf"))
        return scores, torch.softmax(scores.contiguous(), -1)

    q, seen = torch.randn(2, 3, 7, 7), torch.tril(torch.ones(7, 7))
    assert [len(loop.calls) for loop in loops_of(function, q, seen)] == [1, 2]
    loops_of(function, q.transpose(2, 3), seen)
