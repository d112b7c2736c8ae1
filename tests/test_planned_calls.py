"""Planned calls (_codegen/planned_entry.py, _backends/llvm/plans.py) against the operators as they are declared."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight as torch
import rushlight.nn.functional as F
from processes import printed
from rushlight._backends import llvm
from rushlight._backends.llvm import whole
from rushlight._codegen import native_entry
from rushlight._codegen.planned_entry import MANY, Plan, Planner, agrees, numbered
from rushlight._codegen.runtime import abi

PADS = (1, 1), (1, 2), (0, 1, 2, 1), (-1, 1, 0, 0), (1, 0, 0, 1, 1, 1), (3, 3, 9, 9)
DTYPES = torch.float32, torch.float64, torch.bfloat16, torch.int64


@pytest.fixture(autouse=True)
def active():
    if not llvm.activate() or not abi.available():
        pytest.skip("there are none with RUSHLIGHT_COMPILED=0, and where NumPy's objects differ")


def images(rng, shape, dtype):
    """Tensors of one shape, each in another layout."""
    x = torch.from_numpy(np.asarray(rng.integers(-9, 10, shape) / 2)).to(dtype)
    yield x
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    if len(shape) == 4:
        yield x.contiguous(memory_format=torch.channels_last)
    yield torch.stack([x, x], -1)[..., 0]
    yield x[:, 1:]
    yield x.flip(0).expand(2, *shape)[0]


def drawn(x, n, last=0.9):
    """What fractional pooling over `n` dimensions takes for random numbers."""
    shape = (*x.shape[:2], n)
    return torch.linspace(0, last, x.shape[0] * x.shape[1] * n).reshape(shape).to(x.dtype)


def classes(x):
    return torch.arange(len(x)) % x.shape[1]


CALLS = {
    2: [
        lambda x: F.pdist(x),
        lambda x: F.pdist(x, 1.0),
        lambda x: F.pdist(x, 3.0),
        lambda x: F.multi_margin_loss(x, classes(x)),
        lambda x: F.multi_margin_loss(x, classes(x), p=2, margin=0.5, reduction="none"),
        lambda x: F.multi_margin_loss(x, classes(x), weight=x[0].abs(), reduction="sum"),
        lambda x: F.multi_margin_loss(x[0], classes(x)[1]),
        lambda x: F.multi_margin_loss(x, classes(x) + 1),  # a class that there is not
        lambda x: F.multi_margin_loss(x, classes(x)),
    ],
    3: [
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.adaptive_avg_pool1d(x, 2),
        lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True),
        lambda x: F.max_pool1d(x, 2, return_indices=True),
        lambda x: F.interpolate(x, 5, mode="linear"),
        lambda x: F.interpolate(x, 5, mode="nearest-exact"),
        lambda x: F.pixel_shuffle(x[:1], 1),
    ],
    4: [
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: F.avg_pool2d(x, (2, 1), divisor_override=3),
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        lambda x: F.interpolate(x, (7, 3), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"),
        lambda x: F.interpolate(x, scale_factor=1.0),
        lambda x: F.pixel_shuffle(x[:, :4], 2),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.channel_shuffle(x[:, :4], 2),
        lambda x: F.fractional_max_pool2d(x, 2, 3, return_indices=True, _random_samples=drawn(x, 2)),
        lambda x: F.fractional_max_pool2d(x, (2, 1), (2, 3), _random_samples=drawn(x, 2)),
        lambda x: F.fractional_max_pool2d(x, 2, 3, _random_samples=drawn(x, 2, 9.0)),  # outside
        lambda x: F.grid_sample(x, torch.linspace(-2, 2, 4 * len(x)).reshape(len(x), 2, 1, 2).to(x.dtype)),
    ],
    5: [
        lambda x: F.avg_pool3d(x, 2),
        lambda x: F.adaptive_avg_pool3d(x, (1, 2, 1)),
        lambda x: F.fractional_max_pool3d(x, 2, 2, return_indices=True, _random_samples=drawn(x, 3)),
        lambda x: F.adaptive_max_pool3d(x, 2, return_indices=True),
        lambda x: F.max_pool3d(x, 2, return_indices=True),
        lambda x: F.interpolate(x, (3, 3, 3), mode="trilinear"),
    ],
}  # fmt: skip


def normalised(x):
    """A batch norm in training, and what its running statistics become."""
    mean, var = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    return F.batch_norm(x, mean, var, x.new_ones(x.shape[1]), None, True), mean, var


ANY = [
    lambda x: x.roll(1),
    lambda x: x.roll((1, -2), (0, -1)),
    lambda x: x.roll((1, 1), (0, 0)),
    lambda x: x.roll(0, 1),
    lambda x: x.flip(-1),
    lambda x: x.flip((0, 1)),
    lambda x: x.flip((0, 0)),
    lambda x: x.flip(7),
    lambda x: x.rot90(),
    lambda x: x.rot90(-1, (1, -2)),
    lambda x: x.rot90(2, (0, -1)),
    lambda x: x.reshape(-1),
    lambda x: x.reshape(x.shape[-1], -1),
    lambda x: x.sum_to_size(*x.shape[:-1], 1),
    lambda x: x.sum_to_size(x.shape[-2], 1),
    lambda x: x.sum_to_size(x.shape[0], *(1,) * (x.dim() - 1)),
    lambda x: x[..., 0].diag_embed(1),
    lambda x: x[..., 0].diag_embed(-2, 0, -1),
    lambda x: F.pad(x, (1, 2)),
    lambda x: F.pad(x, (1, -1, -1, 0), value=-1.5),
    lambda x: F.pad(x, (0, -1, 2, 2), value=float("nan")),
    lambda x: F.pad(x, (-9, -9)),
    *(lambda x, m=m, p=p: F.pad(x, p, m) for m in ("reflect", "replicate", "circular") for p in PADS),
    lambda x: F.glu(x, 0),
    lambda x: F.glu(x, -1),
    lambda x: torch.complex(x, x[..., :1]),
    lambda x: torch.complex(x[0], x),
    lambda x: F.group_norm(x, x.shape[1]),
    lambda x: F.group_norm(x, 1, x.new_ones(x.shape[1]), x.new_zeros(x.shape[1]), 0.1),
    normalised,
    lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    lambda x: torch.linalg.lu_factor_ex(x),
    lambda x: torch.linalg.lu_factor_ex(x, check_errors=True),
    lambda x: torch.linalg.qr(x),
    lambda x: torch.linalg.qr(x, "complete"),
    lambda x: torch.linalg.qr(x, "r"),
    lambda x: torch.linalg.cholesky_ex(x @ x.mT + 99 * torch.eye(x.shape[-2]), upper=x.dim() > 3),
    lambda x: torch.linalg.cholesky_ex(x @ x.mT),
    lambda x: torch.linalg.ldl_factor_ex(x @ x.mT + 5 * torch.eye(x.shape[-2])),
    lambda x: torch.linalg.solve_triangular(x @ x.mT + 9 * torch.eye(x.shape[-2]), x, upper=True),
    lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x @ x.mT + 9 * torch.eye(x.shape[-2])), x),
    lambda x: torch.linalg.householder_product(*torch.geqrf(x)),
]  # fmt: skip


def outcome(call, x):
    """What a call does: its results in memory, or its error."""
    try:
        r = call(x)
    except Exception as e:
        return type(e), str(e)
    return [(t.shape, t.stride(), t.dtype, repr(t.tolist())) for t in (r if isinstance(r, tuple) else (r,))]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_plans_do_what_the_operators_do(dtype):
    rng = np.random.default_rng(0)
    for shape in (
        (2, 4, 6),
        (1, 8, 6, 4),
        (2, 5, 4, 4),
        (2, 5, 1, 6),
        (1, 4, 4, 4, 4),
        (2, 3),
        (8, 32),
    ):
        for x in images(rng, shape, dtype):
            for k, call in enumerate(CALLS.get(len(shape), []) + ANY):
                native_entry.use(False)
                try:
                    expected = outcome(call, x)
                finally:
                    native_entry.use(True)
                for turn in range(4):  # the third call is the first that has a plan
                    assert outcome(call, x) == expected, (k, shape, x.stride(), turn)


def test_errors_and_dtypes_without_kernels():
    x, z = torch.ones(2, 3), torch.arange(24).reshape(2, 3, 4).to(torch.complex128)
    wrong = (
        lambda: x.rot90(1, (0,)),
        lambda: x.flip(1.0),
        lambda: x.roll("1", 0),
        lambda: x.roll((1,), (5,)),
        lambda: F.pad(x, (1,)),
        lambda: F.interpolate(x[None], 0),
        lambda: F.avg_pool2d(x[None], 9),
        lambda: torch.linalg.qr(x, "other"),
    )
    right = (
        lambda: z.roll(1, 1),
        lambda: z.flip(0, 1),
        lambda: z.rot90(),
        lambda: z.mT.reshape(-1),
        lambda: F.pad(z, (1, 1)),
        lambda: F.pad(z, (1, 1), "circular"),
        lambda: F.pad(z, (1, 1), "reflect"),
    )
    for call in (*wrong, *right):
        found = [repr(outcome(lambda _, call=call: call(), x)) for _ in range(4)]
        assert len({*found}) == 1


def test_gradients_and_changed_numbers():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    for turn in range(4):
        y = (x + turn).requires_grad_()
        z = F.avg_pool2d(y, 2)
        assert z.tolist() == [[[[2.5 + turn, 4.5 + turn], [10.5 + turn, 12.5 + turn]]]]
        assert type(z.grad_fn).__name__ == "AvgPool2DBackward0"
        z.sum().backward()
        assert y.grad.tolist() == [[[[0.25] * 4] * 4]]
        w = y.detach().roll(1, -1).roll(-1, -1)
        assert w.tolist() == y.tolist() and w._version == 0


def test_gradients_of_pools_and_matrices():
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 4, 6), (1, 2, 4, 4)):
        x = torch.from_numpy(rng.standard_normal(shape))
        for y in (x, x.contiguous(memory_format=torch.channels_last)):
            for call in (*CALLS[4][:7], lambda x: torch.linalg.qr(x.mT)[1].abs()):
                found = []
                for turn in range(5):
                    native_entry.use(turn > 0)
                    try:
                        leaf = y.clone().requires_grad_()
                        r = call(leaf)
                        r = r[0] if isinstance(r, tuple) else r
                        g = torch.autograd.grad(r, leaf, torch.ones_like(r) * 2)[0]
                    finally:
                        native_entry.use(True)
                    found.append((g.stride(), g.tolist()))
                assert all(f == found[0] for f in found)


def test_arguments_are_told_apart():
    x = torch.arange(6).reshape(2, 3)
    for _ in range(3):
        assert x.roll(1, 0).tolist() == [[3, 4, 5], [0, 1, 2]]
        assert x.roll(2, 1).tolist() == [[1, 2, 0], [4, 5, 3]]
        assert x.roll([2], [1]).tolist() == [[1, 2, 0], [4, 5, 3]]
        assert x.flip([0]).tolist() == [[3, 4, 5], [0, 1, 2]]
        with pytest.raises(IndexError):
            x.flip(2)
        with pytest.raises(TypeError):
            x.flip(1.0)
        with pytest.raises(RuntimeError, match="even|at least|dims"):
            x.roll((1, 2), (0,))
    dims = [0]
    for _ in range(3):
        x.flip(dims)
    dims[0] = 1
    assert x.flip(dims).tolist() == [[2, 1, 0], [5, 4, 3]]


def doubled(plan, a, *others):
    y = plan.new(a.shape, a.dtype)
    plan.call(native_of(), y, a)
    return y


def native_of():
    from rushlight._backends.llvm.views import COPY

    return COPY[np.dtype("f4")]


def test_a_plan_that_does_something_else_is_not_used():
    a = np.arange(4, dtype="f4")
    for body, used in (
        (lambda a: a.copy(), True),
        (lambda a: a + 1, False),
        (lambda a: 1 / 0, False),
    ):
        planner = Planner(doubled, body)
        found = [planner.entry(a) for _ in range(4)]
        assert found[0] is found[1] is None
        assert all((f is not None) is used for f in found[2:])


def test_one_layout_with_many_arguments_keeps_its_plans():
    """A game of life rolls one board in eight directions."""

    def shifted(plan, a, shift):
        return doubled(plan, a)

    planner = Planner(shifted, lambda a, shift: a.copy())
    a = np.arange(6, dtype="f4").reshape(2, 3)
    for turn in range(6):
        found = [planner.entry(a, shift) for shift in range(12)]
        assert all((f is not None) is (turn > 1) for f in found)
    assert planner.left == 2 * MANY - 12


def test_places_and_room():
    planner = Planner(doubled, lambda a: a.copy())
    arrays = [np.arange(n + 1, dtype="f4") for n in range(3 * MANY // 2)]
    for a in arrays:
        for turn in range(3):
            found = planner.entry(a)
            assert found is None if turn < 2 else found.tolist() == a.tolist()
    assert 0 < len(planner.holders) <= MANY and planner.left == MANY // 2
    a = np.zeros((3, 4), "f4").T
    assert numbered([a]) >= 0
    before = sys.getrefcount(a), sys.getrefcount(a.dtype)
    for _ in range(50):
        planner.entry(a)
    assert (sys.getrefcount(a), sys.getrefcount(a.dtype)) == before
    assert planner.entry(a).tolist() == a.tolist()
    native_entry.use(False)
    try:
        assert planner.entry(a) is None
    finally:
        native_entry.use(True)
    assert planner.entry() is None and planner.entry(3, None) is None
    plan = Plan([a])
    assert not plan.fits((plan.new((2,), a.dtype)[:1],))  # a part of an array is no result
    assert not agrees(lambda a: a, lambda a: None, [a])


def test_plans_change_under_way():
    """Threads whose plans push each other out."""
    planner = Planner(doubled, lambda a: a.copy())
    wrong = []

    def work(first):
        arrays = [np.full(1000 + n, n, "f4") for n in range(first, first + 100)]
        for _ in range(20):
            for a in arrays:
                r = planner.entry(a)
                if r is not None and not np.array_equal(r, a):
                    wrong.append(a)

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 50, 100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_each_has_a_planner():
    assert all(callable(whole.planner_of(path)) for path in whole.PLANNED)


def test_plans_of_one_family_read_no_file_of_another():
    program = """
import sys, rushlight as torch
for x in (torch.randn(200, 100), torch.randn(2, 3, 4)):
    for _ in range(3):
        torch.linalg.qr(x), x.roll(1, 0), x.flip(0)
read = [name.rpartition(".")[2] for name in sys.modules if name.startswith("rushlight._backends.llvm.")]
assert "matrix_plans" in read
print([name for name in read if name in ("pool", "resample", "normalize", "activation", "reduce")])
"""
    assert printed(program, RUSHLIGHT_COMPILED="1") == "[]\n"
