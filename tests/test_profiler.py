"""What a profile shows: PyTorch's operators under PyTorch's names, those that others call inside of these."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest

import rushlight as torch
import rushlight.nn.functional as F
import rushlight.ops
from rushlight.dispatch import aten_names as profiler_names
from rushlight.dispatch.registry import OPS


def tree(function, *, backward=False, **options) -> list:
    """The operators that `function()` calls as nested lists [name, inner, ...], or those of its backward."""
    with torch.profiler.profile(**options) as profile:
        result = function()
    if backward:
        with torch.profiler.profile(**options) as profile:
            result.sum().backward()

    def shown(event):
        return [event.name.removeprefix("aten::"), *map(shown, event.cpu_children)]

    return [shown(event) for event in profile.events() if event.cpu_parent is None]


def names(function, **options) -> set[str]:
    def flat(listed):
        return {listed[0]}.union(*map(flat, listed[1:]))

    return set().union(*map(flat, tree(function, **options)))


def rand(*shape):
    return torch.rand(*shape, requires_grad=True)


@pytest.mark.parametrize(
    ("shapes", "inner"),
    [
        (((5, 4), (4, 6)), "mm"),
        (((5, 4), (4,)), "mv"),
        (((4,), (4,)), "dot"),
        (((4,), (4, 6)), "mm"),
        (((2, 5, 4), (4, 6)), "mm"),
        (((2, 5, 4), (2, 4, 3)), "bmm"),
        (((5, 4), (2, 4, 3)), "bmm"),
    ],
)
def test_matmul_shows_the_product_inside(shapes, inner):
    a, b = (rand(*shape) for shape in shapes)
    assert tree(lambda: a @ b) == [["matmul", [inner]]]


def test_gradients_of_products_are_products():
    a, b = rand(5, 4), rand(4, 6)
    assert {"mm"} == names(lambda: a @ b, backward=True) & {"mm", "bmm", "times_adjoint"}
    a, b = rand(2, 5, 4), rand(2, 4, 6)
    assert {"bmm"} == names(lambda: a @ b, backward=True) & {"mm", "bmm", "times_adjoint"}


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: F.linear(x, torch.ones(2, 4), torch.ones(2)), ["linear", ["addmm"]]),
        (lambda x: F.linear(x, torch.ones(2, 4)), ["linear", ["matmul", ["mm"]]]),
        (lambda x: F.softmax(x, 1), ["softmax", ["_softmax"]]),
        (lambda x: F.layer_norm(x, (4,)), ["layer_norm", ["native_layer_norm"]]),
        (
            lambda x: F.conv2d(x.view(1, 1, 5, 4), torch.ones(1, 1, 2, 2)),
            ["conv2d", ["convolution", ["_convolution"]]],
        ),
        (
            lambda x: F.max_pool2d(x.view(1, 1, 5, 4), 2),
            ["max_pool2d", ["max_pool2d_with_indices"]],
        ),
        (
            lambda x: F.embedding(torch.tensor([0, 1]), x),
            ["embedding", ["index_select"]],
        ),
        (
            lambda x: F.batch_norm(x, None, None, training=True),
            ["batch_norm", ["_batch_norm_impl_index", ["native_batch_norm"]]],
        ),
        (lambda x: torch.linalg.inv(x[:4]), ["linalg_inv", ["linalg_inv_ex"]]),
        (lambda x: torch.fft.rfft(x), ["fft_rfft", ["_fft_r2c"]]),
        (lambda x: torch.special.entr(x), ["special_entr"]),
        (lambda x: x[0], ["select"]),
        (lambda x: x[1:], ["slice"]),
        (lambda x: F.silu(x), ["silu"]),
        (lambda x: torch.add(x, x, alpha=2), ["add"]),
        (lambda x: x.detach().mul_(2), ["mul_"]),
    ],
)
def test_operators_inside_of_others(call, want):
    x = rand(5, 4)
    assert tree(lambda: call(x))[-1] == want


def test_functions_that_are_no_operators_show_what_they_call():
    shown = tree(lambda: F.normalize(rand(3, 4)))
    assert "normalize" not in [name for name, *_ in shown]
    assert ["norm", ["linalg_vector_norm"]] in shown


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (F.relu, "threshold_backward"),
        (F.silu, "silu_backward"),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu_backward"),
        (lambda x: F.avg_pool2d(x[None, None], 2), "avg_pool2d_backward"),
        (lambda x: F.max_pool2d(x[None, None], 2), "max_pool2d_with_indices_backward"),
        (
            lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
            "upsample_bilinear2d_backward",
        ),
        (lambda x: F.layer_norm(x, (4,)), "native_layer_norm_backward"),
        (lambda x: x.unfold(0, 2, 1), "unfold_backward"),
    ],
)
def test_backward_has_the_names_of_pytorch(call, name):
    x = rand(5, 4)
    assert name in names(lambda: call(x), backward=True)


def test_memory_of_what_runs_inside_counts_once():
    x = torch.rand(5, 4)
    with (
        torch.profiler.profile(profile_memory=True) as profile,
        torch.profiler.record_function("block"),
    ):
        y = F.softmax(x, 1)
        y.mul_(2)
        y.view(-1)
    found = {e.key: (e.cpu_memory_usage, e.self_cpu_memory_usage) for e in profile.key_averages()}
    assert found["aten::_softmax"] == (80, 80)
    assert found["aten::softmax"] == found["block"] == (80, 0)
    assert found["aten::mul_"] == found["aten::view"] == (0, 0)


def test_times_of_a_table_in_one_unit():
    from rushlight.autograd.profiler_events import time_text

    assert [time_text(us) for us in (12.0, 3456.0, 1.5e6)] == ["12.000us", "3.456ms", "1.500s"]
    assert [time_text(1500.0, unit) for unit in ("us", "ms", "s")] == [
        "1500.000us",
        "1.500ms",
        "0.002s",
    ]
    with torch.profiler.profile() as profile:
        torch.ones(2) + 1
    row = next(r for r in profile.key_averages().table(time_unit="s").splitlines() if "add" in r)
    assert row.count("s  ") == 3
    assert "us" not in row


def test_names_stand_for_operators_that_exist():
    for found in pkgutil.walk_packages(rushlight.ops.__path__, "rushlight.ops."):
        importlib.import_module(found.name)
    assert {*profiler_names.NAMES, *profiler_names.BY_VALUES} - {*OPS} == set()


@pytest.mark.parametrize(
    "call, name, flops",
    [
        (lambda: torch.mm(torch.ones(3, 4), torch.ones(4, 5)), "aten::mm", 120),
        (lambda: torch.addmm(torch.ones(5), torch.ones(3, 4), torch.ones(4, 5)), "aten::addmm", 120),
        (lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5)), "aten::bmm", 240),
        (lambda: torch.ones(3, 4) @ torch.ones(2, 4, 5), "aten::bmm", 240),
        (lambda: F.linear(torch.ones(3, 4), torch.ones(5, 4), torch.ones(5)), "aten::addmm", 120),
        (lambda: torch.ones(3, 4) + 1, "aten::add", 12),
        (lambda: F.conv2d(torch.ones(1, 2, 8, 8), torch.ones(4, 2, 3, 3)), "aten::conv2d", 5184),
        (lambda: F.conv2d(torch.ones(1, 4, 8, 8), torch.ones(4, 2, 3, 3), stride=2, padding=1, groups=2), "aten::conv2d", 2304),
        (lambda: torch.ones(3).exp(), "aten::exp", 0),
    ],
)  # fmt: skip
def test_operations_are_counted(call, name, flops):
    with torch.profiler.profile(with_flops=True) as profile:
        call()
    (event,) = [e for e in profile.events() if e.name == name]
    assert event.flops == flops
    assert event.input_shapes
    assert [e.flops for e in profile.key_averages() if e.key == name] == [flops]


def test_the_unit_of_operations_is_that_of_the_fewest():
    with torch.autograd.profiler.profile(with_flops=True) as profile:
        torch.ones(100, 200) @ torch.ones(200, 300)
    table = profile.key_averages().table()
    assert "Total MFLOPs" in table
    assert "12.000" in table
    with torch.autograd.profiler.profile() as profile:
        torch.ones(2) + 1
    assert "FLOPs" not in profile.key_averages().table()


def test_steps_of_optimizers_and_loaders_are_events():
    class Mine(torch.optim.SGD):
        pass

    net = torch.nn.Linear(2, 2)
    optimizer = Mine(net.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader([1.0, 2.0, 3.0])
    with torch.profiler.profile() as profile:
        for _ in loader:
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    found = {e.key: e.count for e in profile.key_averages() if "#" in e.key}
    assert found == {
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 4,
        "Optimizer.step#Mine.step": 3,
        "Optimizer.zero_grad#Mine.zero_grad": 3,
    }
    (total,) = [e for e in profile.key_averages() if e.key == "Optimizer.step#Mine.step"]
    assert total.cpu_time_total > 0


def test_notes_stand_in_the_trace(tmp_path):
    with torch.profiler.profile() as profile:
        profile.add_metadata("who", "me")
        profile.add_metadata_json("list", "[1, 2, 3]")
        torch.ones(2) + 1
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["who"] == "me"
    assert trace["list"] == [1, 2, 3]
    assert trace["traceEvents"]


def test_memory_of_sparse_tensors():
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.eye(3).to_sparse()
    assert max(e.cpu_memory_usage for e in profile.events()) >= 3 * 4 + 2 * 3 * 8


def test_stacks_with_settings_of_pytorch(tmp_path):
    settings = torch._C._profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(with_stack=True, experimental_config=settings) as profile:
        torch.ones(100, 100) @ torch.ones(100, 100)
    profile.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines
    assert all(line.rpartition(" ")[2].isdigit() for line in lines)


def test_blocks_of_memory_end_when_they_are_freed():
    with torch.profiler.profile(profile_memory=True) as profile:
        kept = torch.ones(100).exp()
        torch.ones(50).exp()
    blocks = {(block.nbytes, block.event.name): block for block in profile.events().blocks}
    assert blocks[400, "aten::exp"].end is None
    freed = blocks[200, "aten::exp"]
    assert freed.start <= freed.end
    assert kept.numel() == 100


def test_nodes_of_a_backward_know_the_call_that_made_them():
    x = torch.randn(3, requires_grad=True)
    with torch.profiler.profile() as profile:
        x.exp().sin().sum().backward()
    events = {event.id: event.name for event in profile.events()}
    found = {e.name: events[e.forward] for e in profile.events() if e.forward is not None}
    assert found["ExpBackward0"] == "aten::exp"
    assert found["SinBackward0"] == "aten::sin"
