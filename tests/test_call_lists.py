"""Steps of compiled programs that are one native call give what their lines give, whatever the call is given."""

import threading

import pytest

import rushlight as torch
from rushlight.compiler.lowering import call_lists
from rushlight.compiler.lowering.lowering import build
from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, make_fx

F = torch.nn.functional


def built(function, *inputs):
    """The program of a function, which has run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxyTorchDispatchMode, "own_operators", True, raising=False)
        graph = make_fx(function)(*[t.clone() for t in inputs]).graph
    program = build(graph)
    program(*[t.clone() for t in inputs])
    return program


def lists_in(program):
    """How many native calls there are in a program."""
    return program.source.count("carry_out(")


def check(program, function, *inputs):
    """A run of the program gives and writes what the function does, to the last bit."""
    ours, theirs = [t.clone() for t in inputs], [t.clone() for t in inputs]
    for a, b in zip([*program(*ours), *ours], [*function(*theirs), *theirs], strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def layers(x, w, b):
    """Products, views, a sum, elementwise functions and a reduction."""
    h = F.relu(F.linear(x, w, b))
    q, k = F.linear(h, w, b).split(32, 1)
    return ((q * k).sum(1), h.t())


def given(n=64):
    return torch.randn(n, n), torch.randn(n, n), torch.randn(n)


def test_steps_become_one_call():
    inputs = given()
    program = built(layers, *inputs)
    assert lists_in(program) == 1
    check(program, layers, *inputs)
    check(program, layers, *given())


def test_lists_stay_where_a_step_of_another_is_refused(monkeypatch):
    made, begin = [], call_lists.CallList.__init__

    def noted(self, program, steps, *more):
        made.append(steps[0])
        if len(made) == 2:
            raise call_lists.Refused(steps[-1])
        begin(self, program, steps, *more)

    def two(x, w, b):
        first = F.linear(x, w, b).sum(1)
        return first, F.linear(x, w, torch.rand_like(b)).sum(1)

    monkeypatch.setattr(call_lists.CallList, "__init__", noted)
    built(two, *given())
    assert len(made) > 2
    assert made.count(made[0]) == 1


def lists_of(monkeypatch, f, *inputs):
    """(the program of a function, its call lists)"""
    lists, write = [], call_lists.CallList.write

    def noted(self):
        lists.append(self)
        write(self)

    with monkeypatch.context() as patch:
        patch.setattr(call_lists.CallList, "write", noted)
        return built(f, *inputs), lists


def test_lists_hold_no_memory_for_long(monkeypatch):
    def many(x):
        return tuple([F.softmax(x, 1).sum(0) + k + F.softmax(x + k, 1) for k in range(8)])

    x = torch.randn(200, 1024)
    program, lists = lists_of(monkeypatch, many, x)
    check(program, many, x)
    assert len(lists) > 1
    for each in lists:
        assert sum(4 * n.meta["val"].numel() for n in each.fresh) <= 3 << 20


def test_what_a_list_reads_alone_lies_in_its_results(monkeypatch):
    def products(x):
        y = ((x @ x).sin() @ x).sum(1)
        return ((y @ x).reshape(96, 1) * x,)

    x = torch.randn(96, 96)
    program, lists = lists_of(monkeypatch, products, x)
    check(program, products, x)
    largest = max(each.size for each in lists)
    assert 0 < largest < 2 * x.nbytes  # of two arrays that live at one time one lies in the result
    kept = program(x)[0]
    again = kept.clone()
    program(torch.randn(96, 96))
    assert kept.equal(again)


def test_few_gradients_of_a_loop_wait_to_be_added(monkeypatch):
    def summed(x):
        total = x[0] @ x[1]
        for k in range(1, 11):
            total = total + x[k] @ x[k + 1]
        return (total,)

    x = torch.randn(12, 128, 128)
    program, _ = lists_of(monkeypatch, summed, x)
    check(program, summed, x)
    most = max(len(loop.arrays) for loop in program.loops)
    assert 4 <= most <= 6


def test_results_stay_as_they_are():
    inputs = given()
    program = built(layers, *inputs)
    first = program(*inputs)
    kept = [t.clone() for t in first]
    program(*given())
    assert all(a.equal(b) for a, b in zip(first, kept, strict=True))


def test_arrays_of_other_layouts_run_line_by_line():
    x, w, b = given()
    program = built(layers, x, w, b)
    check(program, layers, x, w, b)
    check(program, layers, x.t(), w, b)
    check(program, layers, x, w, b.repeat_interleave(2)[::2])


def test_an_index_that_is_out_of_range_raises_and_writes_nothing():
    def function(x, w, index):
        rows = F.embedding(index, w)
        x.add_(1)
        return F.linear(rows, w) * 2, F.linear(x, w)

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    index = torch.arange(64)
    program = built(function, x, w, index)
    assert lists_in(program)
    check(program, function, x, w, index.flip(0))
    before = x.clone()
    with pytest.raises(IndexError):
        program(x, w, index + 1)
    assert x.equal(before)
    check(program, function, x, w, index)


def test_an_index_that_is_read_behind_a_write():
    def function(x, w, index):
        x.mul_(2)
        return F.embedding(index, w) + x, F.linear(x, w)

    inputs = torch.randn(64, 64), torch.randn(64, 64), torch.arange(64)
    program = built(function, *inputs)
    check(program, function, *inputs)
    with pytest.raises(IndexError):
        program(*inputs[:2], inputs[2] + 1)
    check(program, function, *inputs)


def test_what_is_refused_by_its_elements_is_refused_in_each_run():
    def function(x, w):
        p = F.linear(x, w).sigmoid()
        return F.binary_cross_entropy(p + x[0, 0], x.sigmoid()), F.linear(p, w)

    x, w = torch.zeros(64, 64), torch.randn(64, 64)
    program = built(function, x, w)
    check(program, function, x, w)
    x[0, 0] = 2
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        program(x, w)


def test_sums_at_places_begin_with_zeros():
    def function(x, w, index):
        y = F.linear(x, w)
        return torch.zeros(64, 64).index_add(0, index, y), y.cumsum(0)

    inputs = torch.randn(64, 64), torch.randn(64, 64), torch.randint(0, 64, (64,))
    program = built(function, *inputs)
    for _ in range(3):
        check(program, function, *inputs)
        inputs = torch.randn(64, 64), torch.randn(64, 64), torch.randint(0, 64, (64,))


def of_steps(monkeypatch, step, parameters):
    """The call lists of a compiled step, whose gradients are those of the step as written in each run."""
    lists, write = [], call_lists.CallList.write
    monkeypatch.setattr(
        call_lists.CallList, "write", lambda self: lists.append(self) or write(self)
    )
    compiled = torch.compile(step)
    for _ in range(4):
        found = []
        for f in (step, compiled):
            for p in parameters:
                p.grad = None
            found.append([f(), *[p.grad for p in parameters]])
        torch.testing.assert_close(*found, rtol=0, atol=0)
        with torch.no_grad():
            for p in parameters:
                p.mul_(0.9)
    return lists


def test_gradients_of_regions_and_of_one_number_are_in_one_call(monkeypatch):
    """The mean of one number, which the memory of its result may hold already; zeros around a region; what a sum's
    gradient is spread from, which is known when the program is made."""
    x, (w, _, _) = torch.randn(64, 64), given()
    w.requires_grad_()

    def step():
        h = (x @ w).tanh()
        loss = (h @ h).sum() + h[1:2, 0].square().mean() + (h[:8, ::2] * h[3, :32]).sum()
        loss.backward()
        return loss.detach()

    assert len(of_steps(monkeypatch, step, [w])) == 1


@pytest.mark.parametrize("rows", [3, 16])
def test_steps_of_recurrent_layers_begin_with_no_zeros(rows, monkeypatch):
    cell, head = torch.nn.GRUCell(24, 40), torch.randn(40, 8)
    x, h = torch.randn(rows, 24), torch.randn(rows, 40)

    def step():
        loss = (cell(x, cell(x, cell(x, h))) @ head).tanh().sum()
        loss.backward()
        return loss.detach()

    (made,) = of_steps(monkeypatch, step, [*cell.parameters()])
    assert all(function is not None for function, *_ in made._calls)


def test_writes_to_what_is_given_are_seen_in_each_run():
    def function(x, w, b):
        y = F.linear(x, w, b)
        b.add_(y.sum(0)).mul_(0.5)
        x[1:].copy_(y[:-1])
        return y.relu(), F.linear(x, w, b)

    inputs = given()
    program = built(function, *inputs)
    assert lists_in(program)
    for _ in range(3):
        check(program, function, *inputs)
        inputs = given()


def test_random_numbers_are_drawn_as_often_as_written():
    def function(x, w):
        y = F.linear(x, w)
        return F.dropout(y, 0.5) + torch.empty(64, 64).uniform_(), F.linear(y, w)

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    program = built(function, x, w)
    torch.manual_seed(3)
    ours = [program(x, w) for _ in range(3)]
    torch.manual_seed(3)
    theirs = [function(x, w) for _ in range(3)]
    for a, b in zip(ours, theirs, strict=True):
        assert all(t.equal(u) for t, u in zip(a, b, strict=True))


def test_threads_run_one_program_at_a_time():
    program = built(layers, *given())
    wrong = []

    def work():
        for _ in range(60):
            inputs = given()
            if not all(a.equal(b) for a, b in zip(program(*inputs), layers(*inputs), strict=True)):
                wrong.append(inputs)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_results_whose_size_depends_on_elements():
    def function(x, w):
        y = F.linear(x, w)
        return torch.argwhere(x), y.relu(), torch.nonzero(y > 0)

    x, w = torch.ones(64, 64), torch.randn(64, 64)
    program = built(function, x, w)
    for _ in range(3):
        check(program, function, x, w)
        x = torch.randn(64, 64).relu()


def test_numbers_that_are_not_numbers():
    def function(x, w):
        y = F.linear(x, w).view(8, 8, 8, 8)
        return F.max_pool2d(y, 2), y.argmax(1), y.amax((2, 3)), y.sort(1)[0]

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    program = built(function, x, w)
    check(program, function, x, w)
    check(program, function, x.masked_fill(x > 1, float("nan")), w)
    check(program, function, x * float("inf"), w)


def test_empty_arrays():
    def function(x, w):
        y = F.linear(x[:0], w)
        return y.relu(), F.linear(x, w) * 2, y.sum()

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    check(built(function, x, w), function, x, w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_writes_that_the_first_numbers_do_not_show(dtype):
    """Rectifiers leave positive numbers as they are: that they write is found all the same."""

    def function(x, w):
        y = F.batch_norm(x, None, None, training=True)
        y.relu_()
        z = F.linear(y, w)
        z.relu_()
        return (F.linear(z, w) * 2,)

    x, w = torch.randn(32, 64).to(dtype), torch.rand(64, 64).to(dtype)
    program = built(function, x, w)
    for _ in range(3):
        check(program, function, x, w)
        check(program, function, torch.randn(32, 64).to(dtype), torch.randn(64, 64).to(dtype))
        check(program, function, x - 2, w)
