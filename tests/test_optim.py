"""Optimizers and schedulers: groups, state, hooks, rules and rates."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.optim import lr_scheduler as sched

ALL = [
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.Adamax,
    optim.NAdam,
    optim.RAdam,
    optim.Adagrad,
    optim.Adadelta,
    optim.ASGD,
    optim.RMSprop,
    optim.Rprop,
    optim.Adafactor,
]


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values))


def with_grad(p: nn.Parameter, *values: float) -> nn.Parameter:
    p.grad = torch.tensor(values)
    return p


# ------------------------------------------------------------------------------------- groups


def test_groups_take_defaults_and_keep_their_own():
    a, b = parameter(1.0), parameter(2.0)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 5.0}], lr=0.1, momentum=0.9)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 5.0]
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9]
    optimizer.add_param_group({"params": [parameter(3.0)], "nesterov": True})
    assert len(optimizer.param_groups) == 3


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda p: optim.SGD(p), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda p: optim.SGD([]), ValueError, "got an empty parameter list"),
        (lambda p: optim.SGD([3]), TypeError, "can only optimize Tensors, but one of the params"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda p: optim.SGD([p * 1]), ValueError, "can't optimize a non-leaf Tensor"),
        (
            lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]),
            ValueError,
            "appear in more than one parameter group",
        ),
        (lambda p: optim.SGD([("a", p), p]), ValueError, "Some param names are missing"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda p: optim.Adam([p], foreach=True, fused=True), RuntimeError, "cannot be `True`"),
        (lambda p: optim.Rprop([p], etas=(2, 3)), ValueError, "Invalid eta values: 2, 3"),
        (lambda p: optim.SGD([p]).add_param_group(3), TypeError, "param_group must be a dict"),
        (lambda p: optim.Optimizer([p], {}).step(), NotImplementedError, ""),
        (lambda p: optim.LBFGS([p]).step(), TypeError, "closure"),
    ],
)
def test_errors(make, error, words):
    with pytest.raises(error) as caught:
        make(parameter(1.0))
    assert words in str(caught.value)


def test_names_are_kept():
    p = parameter(1.0)
    optimizer = optim.SGD([("weight", p)])
    assert optimizer.param_groups[0]["param_names"] == ["weight"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight"]


def test_repr():
    text = repr(optim.SGD([parameter(1.0)], lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.5\n" in text


# -------------------------------------------------------------------------------------- rules


def test_sgd_by_hand():
    p = with_grad(parameter(1.0, 2.0), 1.0, -1.0)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.5)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.9, 2.1])
    optimizer.step()
    assert p.tolist() == pytest.approx([0.75, 2.25])
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert p.tolist() == pytest.approx([0.75, 2.25])


def test_adam_by_hand():
    p = with_grad(parameter(1.0), 4.0)
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    assert p.item() == pytest.approx(0.9)  # the first step is lr, whatever the gradient
    state = optimizer.state[p]
    assert state["step"].item() == 1
    assert state["exp_avg"].item() == pytest.approx(0.4)
    assert state["exp_avg_sq"].item() == pytest.approx(0.016)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_every_optimizer_descends(cls):
    p = parameter(1.0, -2.0, 3.0)
    optimizer = cls([p], lr=0.05)

    def loss():
        return ((p - 0.5) ** 2).sum()

    first = loss().item()
    for _ in range(30):
        optimizer.zero_grad()
        value = optimizer.step(lambda: loss_and_backward(loss))
    assert value.item() < first
    assert optimizer.step.__self__ is optimizer


def loss_and_backward(loss):
    value = loss()
    value.backward()
    return value


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_maximize_is_minimising_the_negative(cls):
    up, down = parameter(1.0, -2.0), parameter(1.0, -2.0)
    optimizers = [cls([up], maximize=True), cls([down])]
    for step in range(4):
        with_grad(up, 1.0 + step, 0.5)
        with_grad(down, -1.0 - step, -0.5)
        for optimizer in optimizers:
            optimizer.step()
    assert up.tolist() == pytest.approx(down.tolist())


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_blocks_and_layouts_do_not_change_a_step(cls):
    """A parameter larger than a block, one of it transposed, and its halves: the same numbers."""
    from rushlight.optim import rules

    rows = 2 * rules.BLOCK // 64 + 3
    values = torch.arange(rows * 64, dtype=torch.float64).reshape(rows, 64).sin()
    whole = nn.Parameter(values.clone())
    turned = nn.Parameter(values.clone().t().contiguous().t())
    optimizer = cls([whole, turned], lr=0.1)
    for _ in range(3):
        whole.grad = whole.detach().cos()
        turned.grad = turned.detach().cos()
        optimizer.step()
    assert (whole - turned).abs().max().item() < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "cls", [c for c in ALL if c is not optim.Adafactor], ids=lambda c: c.__name__
)
def test_the_compiled_loop_gives_the_same_bits(cls, dtype, monkeypatch):
    from rushlight._backends import llvm
    from rushlight.optim import fused

    pytest.importorskip("llvmlite")

    def run(available):
        monkeypatch.setattr(fused, "available", lambda: available)
        p = nn.Parameter(torch.arange(1000, dtype=dtype).sin())
        optimizer = cls([p], lr=0.1)
        for step in range(8):
            p.grad = (p.detach() * (step + 1)).cos()
            p.grad[:3] = torch.tensor([0.0, math.nan, math.inf])
            optimizer.step()
        return p.detach().numpy().tobytes()

    fused_step_of_nothing = optim.Adam([nn.Parameter(torch.ones(0))])
    fused_step_of_nothing.param_groups[0]["params"][0].grad = torch.ones(0)
    assert llvm.activate()
    monkeypatch.setattr(fused, "available", lambda: True)
    fused_step_of_nothing.step()
    assert run(True) == run(False)
    assert not fused._refused


def test_a_step_counts_as_a_write():
    p = parameter(1.0)
    product = (p * p).sum()
    before = p._version
    with_grad(p, 1.0)
    optim.Adam([p]).step()
    assert p._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_dtypes(dtype):
    dtype = getattr(torch, dtype)
    p = nn.Parameter(torch.ones(4, dtype=dtype))
    for cls in (optim.SGD, optim.Adam, optim.RMSprop):
        p.grad = torch.ones(4, dtype=dtype)
        before = p.detach().clone()
        optimizer = cls([p], lr=0.1)
        optimizer.step()
        assert p.dtype is dtype and (p != before).all()


def test_differentiable_step():
    lr = torch.tensor(0.5, requires_grad=True)
    start = torch.tensor([1.0, 2.0], requires_grad=True)
    p = start.clone()
    optimizer = optim.SGD([p], lr=lr, differentiable=True)
    p.grad = torch.tensor([3.0, 4.0])
    optimizer.step()
    p.sum().backward()
    assert lr.grad.item() == pytest.approx(-7.0)
    assert start.grad.tolist() == [1.0, 1.0]


def test_lbfgs_finds_the_minimum():
    p = parameter(-1.5, 2.0)
    optimizer = optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2  # Rosenbrock
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert p.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)


# -------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_state_dict_round_trip(cls):
    def run(p, optimizer, steps):
        for step in steps:
            with_grad(p, math.sin(step), math.cos(step))
            optimizer.step()

    a = parameter(1.0, 2.0)
    first = cls([a])
    run(a, first, range(3))
    b = nn.Parameter(a.detach().clone())
    second = cls([b])
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    run(a, first, range(3, 6))
    run(b, second, range(3, 6))
    assert a.tolist() == b.tolist()


def test_load_state_dict_errors():
    optimizer = optim.SGD([parameter(1.0)])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": []}]})


def test_state_takes_the_parameter_s_dtype_but_counts_stay():
    p = with_grad(parameter(1.0), 1.0)
    optimizer = optim.Adam([p])
    optimizer.step()
    q = nn.Parameter(torch.ones(1, dtype=torch.float64))
    other = optim.Adam([q])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[q]["exp_avg"].dtype is torch.float64
    assert other.state[q]["step"].dtype is torch.float32


def test_pickle():
    p = with_grad(parameter(1.0), 1.0)
    optimizer = optim.Adam([p])
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    (q,) = again.param_groups[0]["params"]
    assert again.state[q]["step"].item() == 1
    with_grad(q, 1.0)
    again.step()


# -------------------------------------------------------------------------------------- hooks


def test_step_hooks_run_once_even_through_super():
    class Mine(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    seen = []
    optimizer = Mine([with_grad(parameter(1.0), 1.0)])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert seen == ["pre", "post", "pre"]


def test_state_dict_hooks():
    optimizer = optim.SGD([parameter(1.0)])
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    saved = optimizer.state_dict()
    assert saved["more"] == 1
    seen = []
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("more")))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("after"))
    optimizer.load_state_dict(saved)
    assert seen == [1, "after"] and saved["more"] == 1


# --------------------------------------------------------------------------------- schedulers


def rates(make, steps: int, lr: float = 1.0) -> list[float]:
    optimizer = optim.SGD([parameter(1.0)], lr=lr, momentum=0.9)
    scheduler = make(optimizer)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]]
    return seen


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda o: sched.LambdaLR(o, lambda e: 1 / (e + 1)), [1, 1 / 2, 1 / 3]),
        (lambda o: sched.MultiplicativeLR(o, lambda e: 0.5), [1, 0.5, 0.25]),
        (lambda o: sched.StepLR(o, 2), [1, 1, 0.1, 0.1]),
        (lambda o: sched.MultiStepLR(o, [1, 2, 2]), [1, 0.1, 0.001]),
        (lambda o: sched.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
        (lambda o: sched.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1]),
        (lambda o: sched.ExponentialLR(o, 0.5), [1, 0.5, 0.25]),
        (lambda o: sched.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0, 0]),
        (lambda o: sched.CosineAnnealingLR(o, 2), [1, 0.5, 0, 0.5, 1]),
        (lambda o: sched.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5]),
        (lambda o: sched.CyclicLR(o, 0.0, 1.0, 2), [0, 0.5, 1, 0.5, 0]),
        (
            lambda o: sched.SequentialLR(
                o, [sched.ConstantLR(o, 0.5, 9), sched.ExponentialLR(o, 0.5)], [2]
            ),
            [0.5, 0.5, 1, 0.5],
        ),
        (
            lambda o: sched.ChainedScheduler([sched.ConstantLR(o, 0.5, 2), sched.StepLR(o, 1)]),
            [0.5, 0.05, 0.01],
        ),
    ],
)
def test_rates(make, expected):
    assert rates(make, len(expected)) == pytest.approx(expected)


def test_one_cycle_ends_where_it_says():
    seen = rates(lambda o: sched.OneCycleLR(o, 1.0, 10), 10)
    assert seen[0] == pytest.approx(1 / 25) and max(seen) == pytest.approx(1.0)
    assert seen[-1] == pytest.approx(1 / 25 / 1e4)


def test_plateau():
    optimizer = optim.SGD([parameter(1.0)], lr=1.0)
    scheduler = sched.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    for value in (3.0, 2.0, 2.0, 2.0, 2.0):
        scheduler.step(value)
    assert scheduler.get_last_lr() == [0.5]
    scheduler.step(torch.tensor(1.0))
    assert scheduler.best == 1.0


def test_scheduler_state_round_trip():
    optimizer = optim.SGD([parameter(1.0)], lr=1.0)
    scheduler = sched.StepLR(optimizer, 2)
    optimizer.step()
    scheduler.step()
    other = sched.StepLR(optim.SGD([parameter(1.0)], lr=1.0), 7)
    other.load_state_dict(scheduler.state_dict())
    assert other.step_size == 2 and other.last_epoch == 1


def test_scheduler_warns_of_the_wrong_order():
    scheduler = sched.StepLR(optim.SGD([parameter(1.0)]), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()


def test_averaged_model():
    net = nn.Linear(1, 1, bias=False)
    mean = optim.swa_utils.AveragedModel(net)
    ema = optim.swa_utils.AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        with torch.no_grad():
            net.weight.fill_(value)
        mean.update_parameters(net)
        ema.update_parameters(net)
    assert mean.module.weight.item() == pytest.approx(3.0)
    assert ema.module.weight.item() == pytest.approx(3.75)
    assert mean.n_averaged.item() == 3


def test_averaged_buffers_of_whole_numbers():
    """A batch norm's count is averaged too, and stays a whole number."""
    average = torch.optim.swa_utils.AveragedModel(torch.nn.BatchNorm1d(2), use_buffers=True)
    model = torch.nn.BatchNorm1d(2)
    for count in (2, 4, 7):
        model.num_batches_tracked.fill_(count)
        average.update_parameters(model)
    assert average.module.num_batches_tracked.dtype == torch.int64
    assert average.module.num_batches_tracked.item() == 4  # 3 + (7 - 3) / 3, cut off
    utils = torch.optim.swa_utils
    for function in (utils.get_swa_multi_avg_fn(), utils.get_ema_multi_avg_fn(0.5)):
        values = torch.tensor([4])
        function([values], [torch.tensor([8])], 1)
        assert values.tolist() == [6]


def test_a_recorded_step_of_amsgrad():
    state = {
        n: torch.rand(3, dtype=torch.float64) for n in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    }

    def step(p, g, largest):
        p = p.clone()
        p.grad = g
        optimizer = torch.optim.Adam([p], 0.5, amsgrad=True, differentiable=True)
        own = {n: t.clone() for n, t in state.items()} | {"max_exp_avg_sq": largest.clone()}
        optimizer.state[p] = own | {"step": torch.tensor(3.0)}
        optimizer.step()
        return p

    inputs = [torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(step, inputs)


def test_nadam_differentiates_its_product_of_momenta():
    def step(p, product):
        p = p.clone()
        p.grad = torch.tensor([0.5, 2.0], dtype=torch.float64)
        optimizer = torch.optim.NAdam([p], lr=0.9, differentiable=True)
        moments = {name: torch.ones(2, dtype=torch.float64) for name in ("exp_avg", "exp_avg_sq")}
        step = torch.tensor(10.0, dtype=torch.float64)
        optimizer.state[p].update(moments, step=step, mu_product=product.clone())
        optimizer.step()
        return p

    p = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    product = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(step, (p, product))
