"""`torch.amp`: what autocast casts, what stays as it is; GradScaler."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.dispatch import general

F = torch.nn.functional


def test_products_run_in_bfloat16_and_losses_in_float32():
    a, bf16, f32 = torch.randn(4, 4), torch.bfloat16, torch.float32
    with torch.autocast("cpu"):
        assert (a @ a).dtype is torch.mm(a, a).dtype is F.linear(a, a).dtype is bf16
        assert F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)).dtype is bf16
        assert (a + a).dtype is a.softmax(1).dtype is F.layer_norm(a, (4,)).dtype is f32
        assert F.cross_entropy(a.bfloat16(), torch.tensor([0, 1, 2, 3])).dtype is f32
        assert torch.linalg.inv(torch.eye(2, dtype=bf16)).dtype is f32
        assert (a.double() @ a.double()).dtype is torch.float64
        with torch.autocast("cpu", enabled=False):
            assert (a @ a).dtype is f32
        with torch.autocast("cpu", dtype=torch.float16):
            assert (a @ a).dtype is torch.float16
        assert (a @ a).dtype is bf16
    assert (a @ a).dtype is f32


def test_losses_of_the_top_namespace_run_in_float32():
    low = torch.ones(3, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        for name in ("margin_ranking_loss", "hinge_embedding_loss", "kl_div", "poisson_nll_loss"):
            more = {"margin_ranking_loss": (low,), "poisson_nll_loss": (True, False, 1e-8, 1)}
            loss = getattr(torch, name)(low, low, *more.get(name, ()))
            assert loss.dtype == torch.float32, name


def test_state_is_asked_and_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError), torch.amp.autocast("cpu"):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled()
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16


def test_decorator():
    @torch.autocast("cpu")
    def product(a):
        return a @ a

    assert product(torch.ones(2, 2)).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_gradients_come_back_in_the_dtype_of_the_parameter():
    layer = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(torch.ones(4, 3)) + layer(torch.ones(4, 3))
        loss = F.mse_loss(out, torch.zeros(4, 2))
    loss.backward()
    assert layer.weight.grad.dtype is torch.float32
    assert bool((layer.weight.grad != 0).any())


def test_a_parameter_that_changes_inside_is_cast_again():
    w = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        assert (w @ w).sum().item() == 8
        with torch.no_grad():
            w.mul_(2)
        assert (w @ w).sum().item() == 32


def test_other_devices_warn_and_have_no_effect():
    with pytest.warns(
        UserWarning, match="CUDA is not available or torch_xla is imported. Disabling"
    ):
        block = torch.autocast("cuda")
    with block:
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype is torch.float32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler("cuda")
    loss = torch.ones(1)
    assert scaler.scale(loss) is loss
    assert not scaler.is_enabled()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_older_names_say_what_stands_for_them(device):
    older = getattr(torch, device).amp
    for name in ("autocast", "GradScaler"):
        with pytest.warns(FutureWarning, match=f"torch.{device}.amp.{name}.*torch.amp.{name}"):
            getattr(older, name)()


def test_profiler_sees_what_runs():
    a = torch.ones(2, 2)
    with torch.autocast("cpu"), torch.profiler.profile() as profile:
        assert (a @ a).dtype is torch.bfloat16
    assert any("matmul" in e.key for e in profile.key_averages())


def test_grad_scaler():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for call, args in (
        (scaler.unscale_, (optimizer,)),
        (scaler.step, (optimizer,)),
        (scaler.update, ()),
    ):
        with pytest.raises(
            AssertionError, match=f"Attempted {call.__name__} but _scale is None.  This may"
        ):
            call(*args)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(w.sum()).backward()
        assert w.grad.tolist() == [8, 8]
        scaler.unscale_(optimizer)
        assert w.grad.tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="already been called on this optimizer"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="already been called since the last update"):
            scaler.step(optimizer)
        scaler.update()
    assert w.tolist() == [0, 0]
    assert scaler.get_scale() == 16.0
    w.grad = torch.tensor([float("inf"), 0.0])
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0, 0]
    assert scaler.get_scale() == 8.0
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_custom_fwd_and_bwd():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a @ a

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            assert not torch.is_autocast_enabled("cpu")
            return g * ctx.saved_tensors[0]

    a = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        out = Product.apply(a)
    assert out.dtype is torch.float32
    out.sum().backward()
    assert a.grad.dtype is torch.float32


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_casts_again_in_backward(use_reentrant):
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)
    grads = []
    for part in (
        layer,
        lambda x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=use_reentrant),
    ):
        with torch.autocast("cpu"):
            out = part(x)
            assert out.dtype is torch.bfloat16
        layer.zero_grad()
        out.sum().backward()
        grads.append(layer.weight.grad)
    torch.testing.assert_close(*grads)


def test_calls_in_autocast_are_those_of_printed_functions(monkeypatch):
    x, w = torch.randn(4, 3), torch.randn(5, 3, requires_grad=True)

    def program():
        with torch.autocast("cpu"):
            y = torch.relu(F.linear(x, w)).softmax(-1)
        return y.dtype, y.float().tolist(), y.grad_fn.name()

    for _ in range(3):  # a kind of call that is seen twice gets a function of its own
        want = program()
    seen = []
    execute = general.execute
    monkeypatch.setattr(general, "execute", lambda op, *rest: seen.append(op) or execute(op, *rest))
    assert program() == want and not seen


def test_backward_below_autocast_of_a_forward_without():
    """Products of the backward pass are of the lower precision, gradients of the dtype of what they belong to."""
    torch.manual_seed(0)
    first, second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)
    x = torch.randn(2, 4)
    hidden = first(x)
    loss = second(hidden).pow(2).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss.backward()
    low = torch.bfloat16
    g = 2 * second(hidden).detach()
    assert second.weight.grad.equal((g.to(low).T @ hidden.detach().to(low)).float())
    back = (g.to(low) @ second.weight.detach().to(low)).float()
    assert first.weight.grad.equal((back.to(low).T @ x.to(low)).float())
    assert first.bias.grad.equal(back.sum(0)) and first.bias.grad.dtype is torch.float32
