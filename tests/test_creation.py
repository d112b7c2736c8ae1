"""New tensors, copies and conversions: what must hold without PyTorch at hand."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight as torch
from rushlight.utils._device import DeviceContext, set_device

NESTED = st.recursive(
    st.one_of(st.booleans(), st.integers(-100, 100), st.floats(-1e3, 1e3)),
    lambda inner: st.integers(0, 3).flatmap(lambda n: st.lists(inner, min_size=n, max_size=n)),
    max_leaves=12,
)


@given(st.lists(st.floats(-1e30, 1e30), max_size=8))
def test_a_list_of_floats_is_rounded_once(values):
    made = torch.tensor(values)
    assert made.dtype is torch.float32
    assert made.tolist() == np.array(values, np.float32).tolist()


@given(NESTED)
def test_nested_sequences_give_their_shape_or_an_error(data):
    try:
        made = torch.tensor(data)
    except (ValueError, TypeError):
        return
    shape, level = [], data
    while isinstance(level, list):
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    assert list(made.shape) == shape


def test_ragged_sequences_name_the_place():
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        torch.tensor([[1, 2], [3, 4, 5]])


def test_tensors_stand_among_the_rows_of_a_list():
    ones, whole = torch.ones(2), torch.tensor([0, 1])
    assert torch.tensor([[0, 1], ones]).tolist() == [[0.0, 1.0], [1.0, 1.0]]
    assert torch.tensor([[0, 1], whole]).dtype is torch.int64
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        torch.tensor([[0, 1], torch.ones(3)])
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        torch.tensor([whole, whole])
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        torch.tensor([torch.tensor(1.5)], dtype=torch.int64)
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([ones, ones])


def test_only_the_first_size_may_not_be_a_bool():
    assert torch.zeros(2, True).shape == torch.rand((2, True)).shape == (2, 1)
    assert torch.empty(2, 3, False).shape == (2, 3, 0)
    with pytest.raises(TypeError, match="size"):
        torch.zeros(True, 2)


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn])
def test_sizes_in_every_form(make):
    for args, kwargs in (((2, 3), {}), (((2, 3),), {}), (([2, 3],), {}), ((), {"size": (2, 3)})):
        assert make(*args, **kwargs).shape == (2, 3)
    assert make(np.int64(2), 3).shape == (2, 3)
    assert make(()).shape == ()
    with pytest.raises(RuntimeError, match="negative"):
        make(2, -1)
    with pytest.raises(TypeError, match="must be tuple of ints"):
        make(2.5)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn", "eye", "randperm"])
def test_options(name):
    make = getattr(torch, name)
    size = (3,) if name in ("eye", "randperm") else (3, 3)
    assert make(*size, dtype=torch.float64).dtype is torch.float64
    assert make(*size, dtype=torch.float64, requires_grad=True).requires_grad
    assert make(*size, device="meta").is_meta
    with torch.device("meta"):
        assert make(*size).is_meta
    with pytest.raises(AssertionError, match="CUDA"):
        make(*size, device="cuda")
    if name not in ("zeros", "empty"):
        with pytest.raises(RuntimeError, match="sparse"):
            make(*size, layout=torch.sparse_coo)


def test_a_device_for_a_function():
    @set_device("meta")
    def make():
        return torch.empty(3)

    @set_device("meta")
    def make_some():
        yield torch.empty(3)
        yield torch.empty(3)

    assert make().is_meta and all(t.is_meta for t in make_some())
    with DeviceContext("meta"):
        assert torch.empty(3).is_meta
    assert not torch.empty(3).is_meta


def test_out_is_filled_where_it_is():
    out = torch.zeros(4)
    where = out.data_ptr()
    assert torch.arange(4, out=out) is out
    assert out.tolist() == [0, 1, 2, 3]
    assert out.data_ptr() == where
    assert out._version == 1


def test_from_numpy_shares_both_ways():
    a = np.arange(6.0).reshape(2, 3)
    t = torch.from_numpy(a[:, 1:])
    t[0, 0] = 50
    assert a[0, 1] == 50
    a[1, 2] = 7
    assert t[1, 1].item() == 7
    assert t.storage_offset() == 0
    assert t.numpy().base is not None


def test_views_share_a_storage():
    t = torch.arange(6.0)
    v = t[2:].view(2, 2)
    assert t.untyped_storage() == v.untyped_storage()
    assert t.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()
    assert v.storage_offset() == 2
    assert v.untyped_storage().nbytes() == 24
    assert v.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert t.clone().untyped_storage() != t.untyped_storage()


def test_channels_last_storage_is_whole():
    t = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert t.untyped_storage().nbytes() == 480
    assert (t + 1).untyped_storage().nbytes() == 480


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_clone_keeps_the_order_of_memory(order):
    t = torch.arange(24).view(2, 3, 4).permute(order)
    copied = t.clone()
    assert copied.stride() == t.stride()
    assert copied.tolist() == t.tolist()
    assert t.clone(memory_format=torch.contiguous_format).is_contiguous()


def test_to_returns_itself_when_nothing_changes():
    t = torch.ones(2)
    assert t.to(torch.float32) is t
    assert t.to("cpu") is t
    assert t.float() is t
    assert t.contiguous() is t
    assert t.to(torch.float32, copy=True) is not t


def test_gradients_go_through_conversions():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(torch.float64)
    assert y.grad_fn.name() == "ToCopyBackward0"
    (y * y).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [2, 4]


def test_a_failing_copy_changes_nothing():
    t = torch.zeros(3)
    with pytest.raises(RuntimeError):
        t.copy_(torch.ones(2))
    with pytest.raises(NotImplementedError):
        t.copy_(torch.ones(3, device="meta"))
    with pytest.raises(RuntimeError):
        t.int().fill_(1e30)
    assert t.tolist() == [0, 0, 0]
    assert t._version == 0


def test_resize_keeps_what_fits():
    t = torch.arange(6.0)
    assert t.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert t.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert t.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_legacy_types():
    assert torch.FloatTensor([1, 2]).dtype is torch.float32
    assert torch.LongTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.LongTensor)
    assert torch.ones(1).type() == "torch.FloatTensor"
    assert torch.ones(1).type("torch.LongTensor").dtype is torch.int64


def test_dlpack_of_bfloat16_and_streams():
    t = torch.ones(3, dtype=torch.bfloat16)
    for capsule in (torch.to_dlpack(t), t.__dlpack__(max_version=(1, 0))):
        back = torch.utils.dlpack.from_dlpack(capsule)
        assert back.dtype is torch.bfloat16 and back.data_ptr() == t.data_ptr()

    class Producer:
        def __dlpack__(self, **options):
            return t.__dlpack__(**options)

        def __dlpack_device__(self):
            return t.__dlpack_device__()

    assert torch.from_dlpack(Producer()).dtype is torch.bfloat16
    with pytest.raises(TypeError, match="stream must be"):
        t.__dlpack__(stream=object())
    with pytest.raises(AssertionError, match="stream should be None"):
        t.__dlpack__(stream=1)
    assert torch.from_dlpack(t.__dlpack__(stream=-1)).tolist() == [1.0] * 3
    for x in (t, torch.ones(3)):
        copied = torch.from_dlpack(x.__dlpack__(copy=True, dl_device=(1, 0)))
        assert torch.equal(copied, x) and copied.data_ptr() != x.data_ptr()
        with pytest.raises(BufferError, match="dl_device"):
            x.__dlpack__(dl_device=(2, 0))
    assert torch.from_dlpack(Producer(), device="cpu", copy=False).tolist() == [1.0] * 3
    assert torch.from_dlpack(Producer(), copy=True).data_ptr() != t.data_ptr()
    with pytest.raises(BufferError, match="torch.strided"):
        torch.eye(2).to_sparse().__dlpack__()


def test_dlpack_both_ways():
    t = torch.arange(3.0)
    a = np.from_dlpack(t)
    t[0] = 9
    assert a[0] == 9
    back = torch.from_dlpack(np.arange(3))
    assert back.dtype is torch.int64
    back[0] = 4
    assert back.tolist() == [4, 1, 2]


@pytest.mark.parametrize("channels_last", [False, True])
def test_pickle_and_deepcopy(channels_last):
    t = torch.arange(120.0).view(2, 3, 4, 5)
    if channels_last:
        t = t.contiguous(memory_format=torch.channels_last)
    for made in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert made.tolist() == t.tolist()
        assert made.stride() == t.stride()
        assert made.data_ptr() != t.data_ptr()


@pytest.mark.parametrize("channels_last", [False, True])
def test_deepcopy_keeps_shared_memory_shared(channels_last):
    t = torch.zeros(2, 3, 4, 5)
    if channels_last:
        t = torch.empty_like(t, memory_format=torch.channels_last).zero_()
    first, second = copy.deepcopy([t, t[0]])
    first[0, 0, 0, 0] = 5
    assert second[0, 0, 0].item() == 5


def test_generators_are_independent_and_restorable():
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    first = torch.rand(3, generator=a)
    torch.rand(5)
    assert torch.rand(3, generator=b).tolist() == first.tolist()
    state = a.get_state()
    assert state.dtype is torch.uint8
    assert state.shape == (5056,)
    following = torch.randn(2, generator=a)
    a.set_state(state)
    assert torch.randn(2, generator=a).tolist() == following.tolist()


def test_fork_rng_leaves_no_trace():
    torch.manual_seed(5)
    with torch.random.fork_rng():
        torch.rand(10)
    forked = torch.rand(2)
    torch.manual_seed(5)
    assert torch.rand(2).tolist() == forked.tolist()


def test_meta_draws_nothing():
    torch.manual_seed(0)
    torch.rand(3, device="meta")
    torch.empty(3, device="meta").normal_()
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.rand(1).tolist() == after.tolist()


def test_random_writes_count_and_cut_history():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.normal_()
    assert y._version == 1
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="leaf"):
        x.uniform_()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@given(
    start=st.floats(-50, 50), step=st.floats(0.01, 5), n=st.integers(2, 70), last=st.floats(0, 1)
)
def test_arange_is_close_to_its_formula(dtype, start, step, n, last):
    made = torch.arange(start, start + step * (n - last), step, dtype=dtype).double().numpy()
    exact = start + step * np.arange(len(made))
    eps = float(torch.finfo(dtype).eps)
    assert np.all(np.abs(made - exact) <= 3 * eps * (np.abs(exact) + 64 * step + abs(start)))


def test_shared_memory_is_seen_across_a_fork():
    import os

    t = torch.zeros(3)
    assert not t.is_shared()
    t.share_memory_()
    assert t.is_shared()
    child = os.fork()
    if not child:
        t[1] = 5
        os._exit(0)
    os.waitpid(child, 0)
    assert t.tolist() == [0, 5, 0]


def test_from_file(tmp_path):
    path = str(tmp_path / "numbers")
    t = torch.from_file(path, shared=True, size=4, dtype=torch.float32)
    t.fill_(2)
    again = torch.from_file(path, size=4)
    assert again.tolist() == [2, 2, 2, 2]
    again[0] = 1
    assert t.tolist() == [2, 2, 2, 2]


def test_subclasses_stay_subclasses():
    class Named(torch.Tensor):
        pass

    t = torch.ones(2, 3).as_subclass(Named)
    for made in (t.to(torch.float64), t.clone(), torch.zeros_like(t), t.new_ones(2), t.resize_(6)):
        assert type(made) is Named
    assert type(t.t().contiguous()) is Named


def test_gamma_samples_move_with_their_parameter():
    # Gamma(a) sums to Gamma(a + 1) with an exponential number, so the mean moves as a does.
    torch.manual_seed(0)
    a = torch.full((20000,), 3.0, dtype=torch.float64, requires_grad=True)
    torch._standard_gamma(a).mean().backward()
    assert abs(a.grad.sum().item() - 1) < 0.02


def test_settings_are_remembered():
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.get_deterministic_debug_mode() == 1
    torch.use_deterministic_algorithms(False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(threads)
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)


@pytest.mark.parametrize(
    "name", ["zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"]
)
def test_like_takes_over_shape_dtype_and_order(name):
    like = getattr(torch, name)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for shape in ((), (5,), (1, 3), (2, 3, 4), (0, 2)):
            x = torch.zeros(shape, dtype=dtype)
            for each in (x, x.mT if x.ndim > 1 else x, x.expand(2, *shape)):
                made = like(each)
                assert (made.shape, made.dtype) == (each.shape, dtype)
                assert made.data_ptr() != each.data_ptr() or not each.numel()
                if each is not x:
                    continue
                assert made.stride() == x.stride() and not made.requires_grad
    assert like(torch.zeros(4, 3).t()).stride() == (1, 3)
    assert like(torch.zeros(3), dtype=torch.float64).dtype is torch.float64
    assert like(torch.zeros(3), requires_grad=True).requires_grad
    with torch.inference_mode():
        assert like(torch.zeros(3)).is_inference()


def test_random_like_draws_as_rand_does():
    x = torch.zeros(4, 5)
    for like, plain in ((torch.rand_like, torch.rand), (torch.randn_like, torch.randn)):
        torch.manual_seed(3)
        made = like(x)
        torch.manual_seed(3)
        assert torch.equal(made, plain(4, 5))


def test_to_itself_and_to_others():
    x = torch.tensor([1.5, 2.5])
    assert x.to("cpu") is x and x.to(torch.device("cpu")) is x and x.cpu() is x
    assert x.to(torch.float32) is x and x.to(x) is x and x.float() is x
    assert x.to(torch.float32, copy=True) is not x
    assert x.to("cpu", torch.float64).dtype is torch.float64
    assert x.to("meta").is_meta and x.to(torch.device("meta")).is_meta
    assert x.to(int).dtype is torch.int64
    y = x.requires_grad_()
    assert y.double().requires_grad and not y.long().requires_grad
    for unknown in ("nowhere", 1.5):
        with pytest.raises((RuntimeError, TypeError)):
            x.to(unknown)


def test_randint_and_randperm_by_any_signature():
    for call in (
        lambda: torch.randint(2, 9, (3, 4)),
        lambda: torch.randint(low=2, high=9, size=(3, 4)),
        lambda: torch.randint(2, 9, [3, 4]),
        lambda: torch.randint(2, 9, (3, 4), dtype=torch.int64),
        lambda: torch.randint(2, 9, (3, 4), generator=torch.default_generator),
    ):
        torch.manual_seed(1)
        first = call()
        torch.manual_seed(1)
        assert torch.equal(first, torch.randint(2, 9, (3, 4))) and first.dtype is torch.int64
    torch.manual_seed(1)
    order = torch.randperm(7)
    torch.manual_seed(1)
    assert torch.equal(order, torch.randperm(7, dtype=torch.int64)) and sorted(
        order.tolist()
    ) == list(range(7))
    for arguments in ((5, 5, (2,)), (0, (2,)), (3, (-1,)), (3, (2.5,))):
        with pytest.raises((RuntimeError, TypeError)):
            torch.randint(*arguments)


def test_the_exponent_of_one_step_is_not_rounded():
    """10**0.3 is 1.99526, which is nearest to 255 / 128; 0.3 itself would become 0.30078, and its power 2."""
    assert torch.logspace(0.3, 1, 1, dtype=torch.bfloat16).tolist() == [255 / 128]
    assert torch.logspace(400, 0, 1).tolist() == [float("inf")]


ROWS = [
    lambda out: torch.linspace(1, 6, 6, out=out),
    lambda out: torch.logspace(0, 5, 6, out=out),
    lambda out: torch.arange(6, out=out),
    lambda out: torch.range(1, 6, out=out),
]


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("row", ROWS)
def test_rows_stay_inside_of_out(row):
    """`out` with as many elements keeps its shape and strides; what lies between them stays."""
    memory = torch.full((24,), -7.0)
    out = memory.view(2, 12)[:, 1:12:4]
    expected = row(torch.empty(6)).clone()
    assert row(out) is out
    assert out.shape == (2, 3) and out.stride() == (12, 4)
    assert torch.equal(out, expected.reshape(2, 3))
    assert int((memory == -7).sum()) == 18


def test_a_resized_out_stays_in_its_memory():
    memory = torch.zeros(6)
    out = memory[2:4]
    with pytest.warns(UserWarning, match="resized"):
        torch.cat([torch.ones(1), torch.ones(2)], out=out)
    assert out.storage_offset() == 2 and memory.tolist() == [0, 0, 1, 1, 1, 0]


def test_older_constructors_take_a_size():
    for make in (torch.ones(1).new, torch.Tensor, torch.FloatTensor):
        assert make(size=(3, 4)).shape == (3, 4) and make((3, 4)).shape == (2,)


def test_storages_share_their_copies():
    t = torch.arange(4.0)
    tensor, storage, typed, view = copy.deepcopy([t, t.untyped_storage(), t.storage(), t[1:]])
    tensor.add_(1)
    assert typed.tolist() == [1.0, 2.0, 3.0, 4.0] and view.tolist() == [2.0, 3.0, 4.0]
    assert storage.data_ptr() == tensor.data_ptr() != t.data_ptr()


@pytest.mark.parametrize("content", [(), (0,), (100,), ([1, 2, 3],)])
def test_storages_without_data(content):
    typed = torch.TypedStorage(*content, dtype=torch.float64, device="meta")
    plain = torch.TypedStorage(*content, dtype=torch.float64)
    assert (typed.device.type, typed.nbytes(), typed.data_ptr()) == ("meta", plain.nbytes(), 0)
    for call in (
        lambda: typed[0],
        typed.tolist,
        typed.untyped().tolist,
        lambda: typed.untyped()[0],
    ):
        with pytest.raises(NotImplementedError, match="Not available for 'meta'"):
            call()
    for call in (typed.cpu, lambda: plain.copy_(typed)):
        with pytest.raises(NotImplementedError, match="Cannot copy out"):
            call()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        typed.share_memory_()
    with pytest.raises(RuntimeError, match="unexpected device type"):
        typed.resize_(10)


def test_tensors_of_storages():
    t = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert torch.tensor(t.storage(), dtype=torch.float64).tolist() == [1.0, 2.0]
    assert torch.tensor(t.untyped_storage(), dtype=torch.float64).tolist() == [1.0, 2.0]
    for call in (lambda: torch.tensor(t.storage()), lambda: torch.ones(1).new(t.storage())):
        with pytest.raises(RuntimeError, match="Expected a Storage of type Float"):
            call()
    with pytest.raises(RuntimeError, match="Too many positional"):
        torch.TypedStorage(0, 0)
    with pytest.raises(RuntimeError, match="No positional arguments"):
        torch.TypedStorage(0, wrap_storage=t.untyped_storage(), dtype=torch.float64)
    with pytest.raises(TypeError, match="not recognized"):
        torch.TypedStorage(t)


def test_refusals_of_constructors():
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        torch.frombuffer([1, 2], dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        torch.asarray(np.float64(0.5), copy=False)
    endless = [0]
    endless.append(endless)
    with pytest.raises(TypeError, match="self-referential lists"):
        torch.tensor(endless)
    with pytest.raises(RuntimeError, match="N must be non-negative"):
        torch.vander(torch.ones(3), N=-1)
    with pytest.raises(RuntimeError, match="all tensors to have the same device"):
        torch.meshgrid(torch.ones(1), torch.ones(1, device="meta"), indexing="ij")
    with pytest.raises(RuntimeError, match="expects device type: cpu"):
        torch.FloatTensor(device="cuda")
    with pytest.raises(RuntimeError, match="Legacy tensor constructor"):
        torch.Tensor(torch.ones(1), device="cpu")
    with pytest.raises(RuntimeError, match="greater than 2\\^53"):
        torch.randperm(2**53 + 2, out=torch.empty(0, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.empty(()).resize_([2, 4, 2**29, 2**29])
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.empty([0, 4, 2**61])
    with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
        torch.empty(3).random_(0, 2**24 + 8)


def test_a_capsule_becomes_an_array():
    t = torch.arange(3.0)
    assert torch.asarray(torch.utils.dlpack.to_dlpack(t)).data_ptr() == t.data_ptr()
    copied = torch.asarray(torch.utils.dlpack.to_dlpack(t), copy=True)
    assert copied.tolist() == t.tolist() and copied.data_ptr() != t.data_ptr()


def test_resizing_to_the_same_shape_is_no_write():
    t = torch.ones(2)
    t.resize_(2).resize_as_(t)
    assert t._version == 0
    t.resize_(3)
    assert t._version == 1


def test_conversions_of_complex_numbers():
    assert float(torch.tensor(1.5 + 0j)) == 1.5 and int(torch.tensor(2.0 + 0j)) == 2
    for convert in (int, float):
        with pytest.raises(RuntimeError, match="without overflow"):
            convert(torch.tensor(1.5j))


def test_meta_tensors_larger_than_memory():
    t = torch.empty(2**20, 2**22, device="meta")
    assert (t + 1).shape == (2**20, 2**22) and t.t().stride() == (1, 2**22)
    assert t.nbytes == 2**44


def test_strides_of_empty_memory_are_kept():
    assert torch.empty_strided((2, 0, 3), (12, 4, 1)).stride() == (12, 4, 1)


def test_types_of_tensors_have_no_subclasses():
    with pytest.raises(TypeError, match="'torch.FloatTensor' is not an acceptable base type"):

        class Mine(torch.FloatTensor):
            pass


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "float64"])
def test_numbers_fill_any_order_of_memory(dtype):
    d = getattr(torch, dtype)
    x = torch.zeros(2, 3, 4, dtype=d)
    for y in (x, x.permute(2, 0, 1), x[..., ::2], x[:, :1].expand(2, 3, 4)):
        for made in (torch.full_like(y, True), torch.ones_like(y), torch.fill(y, 1), y.clone() + 1):
            assert made.dtype is d or dtype == "bool"  # True + 1 is a whole number
            assert made.to(torch.int64).tolist() == torch.ones(y.shape, dtype=torch.int64).tolist()
            assert made.stride() == y.clone().stride()
    assert x.permute(2, 0, 1).clone().stride() == (1, 12, 4)
    assert torch.zeros_like(x.mT).stride() == x.mT.stride()
    assert x[..., ::2].clone().is_contiguous()


def test_zeros_of_either_sign_fill():
    for a, b in ((0.0, -0.0), (-0.0, 0.0)):
        assert torch.full((1,), a).signbit().item() == (str(a) == "-0.0")
        assert torch.full_like(torch.ones(1), b).signbit().item() == (str(b) == "-0.0")
    assert torch.full((1,), True).dtype is torch.bool
    assert torch.full((1,), 1).dtype is torch.int64
    assert torch.full((1,), 1.0).dtype is torch.float32


def test_options_of_factories_may_name_the_cpu():
    for device in ("cpu", torch.device("cpu")):
        assert torch.zeros(2, device=device, dtype=torch.bfloat16).dtype is torch.bfloat16
        assert torch.ones_like(torch.zeros(2), device=device, dtype=torch.int64).tolist() == [1, 1]
        assert torch.arange(3, device=device, dtype=torch.float64).tolist() == [0, 1, 2]
        assert torch.zeros(2).new_full((2,), 3, dtype=torch.int32, device=device).tolist() == [3, 3]
    assert torch.zeros(2, device="meta").is_meta
    assert torch.zeros_like(torch.zeros(2), device="meta").is_meta
    with pytest.raises(TypeError, match="dtype"):
        torch.zeros(2, dtype="float32")
    with pytest.raises((TypeError, RuntimeError)):
        torch.zeros(2).new_full(2, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sequences_of_halves_are_rounded_step_by_step(dtype):
    d = getattr(torch, dtype)

    def r(x):  # rounded to the half type
        return torch.as_tensor(x, dtype=torch.float32).to(d).float()

    n = 77
    step = r(r(r(2.3) - r(-1.7)) / r(n - 1))
    i = torch.arange(n, dtype=torch.float32)
    want = torch.where(i < n // 2, r(-1.7) + r(step * r(i)), r(2.3) - r(step * r(n - 1 - i)))
    assert torch.linspace(-1.7, 2.3, n, dtype=d).equal(want.to(d))
    assert torch.arange(0, 200, 2, dtype=d).tolist() == list(range(0, 200, 2))
    assert torch.arange(1, 2, 0.25, dtype=d).tolist() == [1, 1.25, 1.5, 1.75]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.float32])
def test_like_a_large_tensor_in_another_order_of_memory(dtype):
    x = torch.zeros(40, 50, 30, dtype=dtype).permute(2, 0, 1)
    for y, value in ((torch.zeros_like(x), 0), (torch.ones_like(x), 1), (torch.full_like(x, 3), 3)):
        assert y.stride() == x.stride()
        assert (y == value).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32"])
def test_integers_like_a_tensor_are_the_same_by_both_ways(dtype):
    """The arguments decide whether the quick way or the general one draws."""
    kind = getattr(torch, dtype)
    for shape in ((), (1,), (3, 5), (4, 1), (2, 3, 4)):
        x = torch.zeros(shape, dtype=kind)
        for bounds in ((10,), (-4, 9), (100, 120), (1 << (7 if kind.itemsize == 2 else 20),)):
            torch.manual_seed(3)
            quick = [torch.randint_like(x, *bounds) for _ in range(2)]
            torch.manual_seed(3)
            general = [torch.randint_like(x, *bounds, dtype=kind) for _ in range(2)]
            for a, b in zip(quick, general, strict=True):
                assert a.dtype is b.dtype is kind and a.stride() == b.stride()
                assert torch.equal(a, b)
    with pytest.raises(RuntimeError, match="less than"):
        torch.randint_like(x, 3, 3)


@pytest.mark.parametrize(
    "into, source",
    [((), (1,)), ((1,), (1, 1)), ((3,), (1, 3)), ((3,), (2, 3)), ((2, 1), (2, 2)), ((0,), (1, 1))],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_copy_takes_no_source_of_more_dimensions(into, source, dtype):
    t = torch.zeros(into)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        t.copy_(torch.ones(source, dtype=dtype))
    assert not t.any()
    if into == (3,) and source == (1, 3):  # assignment drops leading dimensions of one
        t[:] = torch.ones(source)
        assert t.all()


def test_randint_like_follows_memory():
    rows = torch.zeros(5, 4)
    for bounds in ((10,), (3, 90)):
        torch.manual_seed(3)
        expected = torch.randint_like(rows, *bounds)
        torch.manual_seed(3)
        found = torch.randint_like(rows.t(), *bounds)
        assert torch.equal(found, expected.t()) and found.stride() == rows.t().stride()
        torch.manual_seed(3)
        deep = torch.randint_like(rows.reshape(5, 2, 2).permute(2, 1, 0), *bounds)
        assert torch.equal(deep, expected.reshape(5, 2, 2).permute(2, 1, 0))


@pytest.mark.parametrize("name, most", [("e4m3fn", 448), ("e5m2", 57344), ("e4m3fnuz", 240)])
def test_float8_is_filled(name, most):
    d = getattr(torch, f"float8_{name}")
    x = torch.full((2, 3), most, dtype=d).t()
    assert x.double().tolist() == [[most] * 2] * 3
    assert (
        x.fill_(-1.5).double().tolist()
        == torch.full_like(x, -1.5).double().tolist()
        == [[-1.5] * 2] * 3
    )
    assert torch.ones_like(x).double().tolist() == [[1] * 2] * 3
    assert x.zero_().double().tolist() == torch.zeros_like(x).double().tolist() == [[0] * 2] * 3
    with pytest.raises(RuntimeError, match=f"type c10::Float8_{name} without overflow"):
        x.fill_(2 * most)


def test_float8_of_powers_of_two_has_no_zero():
    x = torch.full((2,), 4, dtype=torch.float8_e8m0fnu)
    assert x.double().tolist() == [4, 4]
    assert x.zero_().double().tolist() == [2.0**-127] * 2
    with pytest.raises(RuntimeError, match="without overflow"):
        x.fill_(-1)


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_new_tensor_has_the_dtype_of_its_tensor():
    x = torch.zeros(2, dtype=torch.float64)
    assert x.new_tensor(torch.tensor([1, 2])).dtype == torch.float64
    assert x.new_tensor([1, 2]).dtype == torch.float64
    assert x.new_tensor(torch.tensor(1.5), dtype=torch.int32).dtype == torch.int32
