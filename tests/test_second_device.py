"""A device that is not the CPU, registered as users of PyTorch register theirs: everything runs on it.

`RUSHLIGHT_DEVICE=full` tries all samples of second_device.py, by default a quarter of them is tried.
"""

from __future__ import annotations

import copy
import gc
import io
import itertools
import os
import zlib

import numpy as np
import pytest

import rushlight as torch
import second_device
import toy_device
from rushlight import nn
from rushlight._backends import devices

FULL = os.environ.get("RUSHLIGHT_DEVICE") == "full"

# Samples that fail, and why. The list may only shrink.
FAILS = {"SparseAdam/0/default": "sparse tensors are on the CPU only"}

# Samples whose result is on the CPU wherever the arguments are.
ELSEWHERE = {"linspace/3", "Tensor.cpu/0", "normal/3"}


@pytest.fixture(scope="module", autouse=True)
def device():
    toy_device.install()
    yield
    toy_device.uninstall()


def tried(samples):
    """The samples of this run, in groups by the operator or class they are of."""
    groups = itertools.groupby(samples, lambda pair: pair[0].rpartition("/")[0])
    for name, group in groups:
        chosen = [(n, s) for n, s in group if FULL or n in FAILS or zlib.crc32(n.encode()) % 4 == 0]
        if chosen:
            yield pytest.param(chosen, id=name)


def check(chosen):
    for name, sample in chosen:
        why = second_device.attempt(sample, elsewhere=name in ELSEWHERE)
        if name in FAILS:
            assert why, f"{name} passes: take it out of FAILS"
        else:
            assert not why, f"{name}: {why}"


@pytest.mark.parametrize("chosen", list(tried(second_device.samples())))
def test_operators(chosen):
    check(chosen)


@pytest.mark.parametrize("chosen", list(tried(second_device.layers())))
def test_layers(chosen):
    check(chosen)


@pytest.mark.parametrize("chosen", list(tried(second_device.optimizers())))
def test_optimizers(chosen):
    check(chosen)


@pytest.mark.parametrize("chosen", list(tried(second_device.distributions())))
def test_distributions(chosen):
    check(chosen)


def test_few_samples_fail():
    assert len(FAILS) <= 1


def test_the_array_is_not_numpy_s():
    a = torch.ones(2, device="toy")._array
    for wrong in (np.asarray, np.exp, lambda a: np.add(a, 1), lambda a: np.ones(2) + a):
        with pytest.raises(TypeError):
            wrong(a)
    with pytest.raises(TypeError, match="array of the CPU"):
        devices.of(a).add(a, np.ones(2, np.float32))


def test_names():
    assert torch.device("toy") == torch.device("privateuseone")
    assert str(torch.device("toy:1")) == "toy:1"
    assert torch.device(0) == torch.device("toy", 0)
    with pytest.raises(RuntimeError, match="already been set"):
        torch.utils.rename_privateuse1_backend("other")
    with pytest.raises(RuntimeError, match="already been registered"):
        torch._register_device_module("toy", toy_device.module)
    assert torch.get_device_module("toy") is torch.toy is toy_device.module
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("toy")
    assert torch.accelerator.device_count() == 1


def test_where_a_tensor_is():
    t = torch.ones(2, device="toy")
    assert t.device == torch.device("toy", 0)
    assert t.is_toy and not t.is_cpu and not t.is_cuda and not t.is_meta
    assert t.get_device() == 0 and torch.ones(2).get_device() == -1
    assert t.toy() is t and not t.cpu().is_toy
    assert torch.ones(2).toy(0).is_toy
    assert t.type() == "torch.toy.FloatTensor"
    with pytest.raises(ValueError, match="must be toy"):
        t.toy("cpu")
    with pytest.raises(TypeError, match="can't convert toy:0 device type tensor to numpy"):
        t.numpy()
    assert t.numpy(force=True).tolist() == [1, 1]


def test_default_device():
    with torch.device("toy"):
        assert torch.get_default_device() == torch.device("toy")
        made = [
            torch.zeros(2),
            torch.tensor([1.0]),
            torch.arange(3),
            torch.rand(2),
            nn.Linear(2, 2).weight,
        ]
    assert all(t.is_toy for t in made)
    torch.set_default_device("toy")
    try:
        assert torch.eye(2).is_toy
    finally:
        torch.set_default_device(None)
    assert torch.eye(2).is_cpu


def test_random_numbers_are_the_cpu_s():
    for draw in (
        lambda d: torch.randn(3, 4, device=d),
        lambda d: torch.randint(9, (5,), device=d),
        lambda d: torch.randperm(7, device=d),
        lambda d: torch.empty(3, device=d).uniform_(-1, 1),
        lambda d: torch.empty(4, 3, device=d).t().normal_(),
        lambda d: torch.nn.functional.dropout(torch.ones(20, device=d)),
        lambda d: torch.rand_like(torch.ones(3, device=d)),
    ):
        torch.manual_seed(4)
        want = draw("cpu")
        torch.manual_seed(4)
        assert torch.equal(draw("toy").cpu(), want)


def test_mixed_devices_are_refused():
    a, b = torch.ones(2, 2, device="toy"), torch.ones(2, 2)
    both = "Expected all tensors to be on the same device, but found at least two devices, toy:0 and cpu!"
    for wrong in (
        lambda: a + b, lambda: b + a, lambda: a @ b, lambda: torch.cat([a, b]), lambda: a.add_(b),
        lambda: b.mul_(a), lambda: torch.where(a > 0, b, a), lambda: nn.Linear(2, 2)(a),
        lambda: nn.functional.mse_loss(a, b), lambda: torch.add(a, a, out=b), lambda: a.index_add_(0, torch.tensor([0]), a[:1]),
        lambda: torch.stack([a, b]), lambda: a == b, lambda: torch.tensor(1.0) @ a if False else torch.mm(b, a),
    ):  # fmt: skip
        with pytest.raises(RuntimeError) as caught:
            wrong()
        assert str(caught.value) == both
    with pytest.raises(
        RuntimeError, match=r"indices should be either on cpu or on the same device"
    ):
        b[torch.tensor([0], device="toy")]
    assert b.tolist() == [[1, 1], [1, 1]]


def test_numbers_of_the_cpu_are_taken():
    a = torch.ones(2, device="toy", requires_grad=True)
    two = torch.tensor(2.0, requires_grad=True)
    (a * two).sum().backward()
    assert a.grad.is_toy and two.grad.is_cpu and two.grad.item() == 2
    assert (a + torch.tensor(1)).is_toy and (torch.tensor(3.0) / a).is_toy
    assert a[torch.tensor([0, 0])].shape == (2,)
    with torch.no_grad():
        a[0] = torch.tensor(5.0)
        a.add_(torch.tensor(1.0))
    assert a.tolist() == [6, 2]


def test_copies_between_devices():
    a = torch.arange(6.0).reshape(2, 3).t()
    b = a.to("toy", non_blocking=True)
    assert b.stride() == a.stride() and b.cpu().tolist() == a.tolist()
    assert b.to("toy", torch.float64).dtype is torch.float64
    assert torch.zeros(3, 2).copy_(b).tolist() == a.tolist()
    assert torch.zeros(3, 2, device="toy", dtype=torch.int32).copy_(a).tolist() == a.tolist()
    x = torch.ones(2, requires_grad=True)
    y = torch.zeros(2, device="toy")
    y.copy_(x).mul(3).sum().backward()
    assert x.grad.is_cpu and x.grad.tolist() == [3, 3]
    assert torch.ones(2, device="toy").to("meta").is_meta
    assert torch.as_tensor([1.0], device="toy").is_toy
    assert torch.tensor(torch.ones(2).numpy(), device="toy").is_toy
    assert b.new_tensor([1]).is_toy and b.new_zeros(2).is_toy and b.new(2).is_toy


def test_memory_is_given_back():
    gc.collect()
    before = toy_device.allocator.blocks, toy_device.allocator.bytes
    a = torch.zeros(1000, device="toy")
    view = a[10:20]
    assert toy_device.allocator.blocks == before[0] + 1
    assert toy_device.allocator.bytes == before[1] + 4000
    del a
    assert toy_device.allocator.blocks == before[0] + 1
    del view
    gc.collect()
    assert (toy_device.allocator.blocks, toy_device.allocator.bytes) == before


def test_views_share_memory():
    a = torch.zeros(2, 3, device="toy")
    row = a[1]
    row.add_(1)
    assert a.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert row.storage_offset() == 3 and row._is_view() and row._base is a
    assert row.untyped_storage() == a.untyped_storage()
    assert a.as_strided((2,), (4,)).tolist() == [0, 1]
    assert row.data_ptr() - a.data_ptr() == 12
    assert a.resize_(3, 2).tolist() == [[0, 0], [0, 1], [1, 1]]


def test_storage():
    s = torch.tensor([1.0, 2.0], device="toy").untyped_storage()
    assert s.device.type == "toy" and s.nbytes() == 8 and s.is_toy
    assert s.cpu().device.type == "cpu" and s.cpu().tolist() == s.tolist()
    t = torch.empty(0, device="toy").set_(s, 1, (1,))
    assert t.is_toy and t.tolist() == [2]
    assert torch.ones(2).untyped_storage().toy().device.type == "toy"
    assert torch.UntypedStorage(4, device="toy").device.type == "toy"


def test_graph():
    x = torch.tensor([1.0, 2.0, 3.0], device="toy", requires_grad=True)
    seen = []
    y = x * x
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.device.type) or 2 * g)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (y.sum() + x.sum()).backward()
    assert seen == ["toy", [5, 9, 13]] and y.grad.is_toy
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [7, 11, 15]
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert torch.autograd.grad(g.sum(), x)[0].tolist() == [6, 12, 18]

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x, x + 1

        @staticmethod
        def backward(ctx, g, unused):
            assert unused.is_toy and not unused.any()
            return 2 * g

    (h,) = torch.autograd.grad(Double.apply(x)[0].sum(), x)
    assert h.tolist() == [2, 2, 2]
    x.grad = None
    with torch.no_grad():
        x[0] = 5
    values, places = x.max(0)
    values.backward()
    assert x.grad.tolist() == [1, 0, 0] and places.is_toy


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    )


def losses(device, loader_workers=0):
    """Of a few steps of training on batches from a DataLoader."""
    net = network().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    torch.manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.randn(12, 1, 8, 8), torch.randint(3, (12,)))
    found = []
    for x, y in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
        loss = nn.functional.cross_entropy(net(x.to(device, non_blocking=True)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found, net, optimizer


def test_training_gives_the_same_losses():
    np.testing.assert_allclose(losses("toy")[0], losses("cpu")[0], rtol=1e-5)


def test_modules_move():
    net = network()
    assert net.toy() is net
    assert all(t.is_toy for t in [*net.parameters(), *net.buffers()])
    hooks = []
    net[0].register_forward_hook(lambda m, args, out: hooks.append(out.device.type))
    net(torch.ones(2, 1, 8, 8, device="toy"))
    assert hooks == ["toy"]
    assert all(t.is_cpu for t in net.cpu().parameters())
    twin = copy.deepcopy(network().to("toy"))
    assert all(t.is_toy for t in twin.parameters())
    assert network().to("meta").to_empty(device="toy")[0].weight.is_toy


def test_checkpoints():
    _, net, optimizer = losses("toy")
    saved = {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "x": torch.arange(3, device="toy")[1:],
    }
    file = io.BytesIO()
    torch.save(saved, file)

    def loaded(where=None):
        file.seek(0)
        return torch.load(file, map_location=where)

    assert loaded()["x"].device == torch.device("toy", 0)
    for where in ("cpu", torch.device("cpu"), {"toy:0": "cpu"}, lambda storage, place: storage):
        assert loaded(where)["x"].is_cpu and loaded(where)["x"].tolist() == [1, 2]
    file.seek(0)
    cpu_file = io.BytesIO()
    torch.save(torch.ones(2), cpu_file)
    cpu_file.seek(0)
    assert torch.load(cpu_file, map_location="toy").is_toy
    other = network().to("toy")
    other.load_state_dict(loaded("cpu")["net"])
    assert torch.equal(other[0].weight, net[0].weight) and other[0].weight.is_toy
    again = torch.optim.Adam(other.parameters(), lr=1e-2)
    again.load_state_dict(loaded("cpu")["optimizer"])
    assert all(v.is_toy for s in again.state.values() for k, v in s.items() if k != "step")


def test_pickle_and_deepcopy():
    import pickle

    t = torch.ones(2, device="toy", requires_grad=True)
    for twin in (copy.deepcopy(t), pickle.loads(pickle.dumps(t)), copy.copy(t)):
        assert twin.is_toy and twin.requires_grad and twin.tolist() == [1, 1]


def test_printing():
    assert repr(torch.ones(2, device="toy")) == "tensor([1., 1.], device='toy:0')"
    assert str(torch.zeros(50, 50, device="toy", dtype=torch.int64)).count("...") == 7
    assert f"{torch.tensor(1.5, device='toy'):.2f}" == "1.50"
    assert repr(nn.Parameter(torch.ones(1, device="toy"))).endswith("requires_grad=True)")


def test_pinned_memory_is_left_alone():
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    batches = list(torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True))
    assert [b.tolist() for (b,) in batches] == [[0, 1], [2, 3]]


def test_subclasses_are_asked():
    calls = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            return super().__torch_function__(function, types, args, kwargs)

    t = torch.ones(2, device="toy").as_subclass(Watched)
    assert type(t + 1) is Watched and (t + 1).is_toy and calls
    calls.clear()
    assert type(nn.functional.gelu(t)) is Watched and calls


def test_backward_hooks_get_zeros_of_the_device():
    layer, seen = nn.Linear(2, 2).to("toy"), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.extend([*gi, *go]))
    layer(torch.ones(1, 2, device="toy", requires_grad=True)).sum().backward()
    assert len(seen) == 2 and all(g.is_toy for g in seen)


def test_short_time_transforms():
    x = torch.arange(32.0, device="toy")
    pieces = torch.stft(x, 8, return_complex=True, window=torch.hann_window(8, device="toy"))
    back = torch.istft(pieces, 8, window=torch.hann_window(8, device="toy"))
    assert pieces.is_toy and torch.allclose(back, x, atol=1e-4)
    assert torch.stft(x, 8, return_complex=True).is_toy


def test_modes():
    with torch.inference_mode():
        t = torch.ones(2, device="toy") * 2
        assert t.is_inference() and t.add_(1).tolist() == [3, 3]
    with torch.no_grad():
        assert not (torch.ones(2, device="toy", requires_grad=True) * 2).requires_grad
    x = torch.ones(2, device="toy", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.is_toy
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.to("toy")):
        y = (x * x).sum()
    y.backward()
