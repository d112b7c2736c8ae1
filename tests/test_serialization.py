"""Checkpoints without PyTorch: round trips, ties, what files may name, damaged and hostile files, atomic writes."""

from __future__ import annotations

import copy
import io
import os
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from rushlight import serialization
from rushlight.core import dtypes
from rushlight.serialization import rebuild


def saved(thing, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(thing, buffer, **options)
    buffer.seek(0)
    return buffer


def again(thing, **options):
    return torch.load(saved(thing), **options)


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


def same(a, b):
    """Equal in type, dtype, shape, strides, requires_grad and values."""
    assert type(a) is type(b)
    assert (a.dtype, a.shape, a.stride(), a.requires_grad) == (
        b.dtype,
        b.shape,
        b.stride(),
        b.requires_grad,
    )
    assert a.detach().tolist() == b.detach().tolist()


# -- round trips ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_every_dtype_and_shape(dtype, shape):
    t = torch.arange(12)[: int(np.prod(shape))].reshape(shape).to(dtype)
    same(again(t), t)


def test_strides_and_offset_are_kept():
    base = torch.arange(24.0).reshape(2, 3, 4)
    for view in (
        base.transpose(0, 2),
        base[1:, ::2],
        base.permute(2, 0, 1)[1],
        base.expand(2, 2, 3, 4),
    ):
        back = again(view)
        same(back, view)
        assert back.storage_offset() == view.storage_offset()


def test_channels_last_is_kept():
    t = torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    assert again(t).is_contiguous(memory_format=torch.channels_last)


def test_tensors_on_one_storage_stay_tied():
    base = torch.zeros(3, 4)
    back = again({"whole": base, "row": base[1], "turned": base.t(), "other": torch.zeros(3, 4)})
    back["row"].fill_(7.0)
    assert back["whole"][1].tolist() == [7.0] * 4
    assert back["turned"][:, 1].tolist() == [7.0] * 4
    assert not back["other"].any()


def test_the_same_tensor_twice_comes_back_as_one_object():
    t = torch.ones(2)
    first, second = again([t, t])
    assert first is second


def test_a_storage_is_written_once():
    t = torch.zeros(1000)
    names = zipfile.ZipFile(saved([t, t[1:], t.reshape(10, 100)])).namelist()
    assert [name for name in names if "/data/" in name] == ["archive/data/0"]


def test_one_memory_as_two_types_is_refused():
    t = torch.zeros(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([t, t.view(torch.int32)])


def test_parameters_buffers_and_attributes():
    p = torch.nn.Parameter(torch.ones(2))
    q = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    q.note = "kept"
    t = torch.ones(3, requires_grad=True)
    t.note = [1, 2]
    buffer = torch.nn.Buffer(torch.zeros(2), persistent=False)
    back = again([p, q, t, buffer])
    for each, original in zip(back, [p, q, t, buffer]):
        same(each, original)
    assert (back[1].note, back[2].note) == ("kept", [1, 2])
    assert back[3].persistent is False


def test_plain_values():
    things = {
        "numbers": [1, -(2**70), 2.5, 1j, True, None, float("inf")],
        "text": "é \N{SNOWMAN} \0",
        "bytes": [b"\x00\xff", bytearray(b"ab")],
        "containers": ((1, (2,)), {1, 2}, {"a": {}}),
        "torch": [
            torch.float32,
            torch.Size([2, 3]),
            torch.device("cpu"),
            torch.device("cuda", 1),
            torch.strided,
        ],
        "counts": Counter("aab"),
    }
    back = again(things)
    assert back == things
    assert type(back["torch"][1]) is torch.Size
    assert type(back["counts"]) is Counter


def test_state_dict_keeps_its_metadata():
    state = OrderedDict(weight=torch.ones(1))
    state._metadata = OrderedDict(version=2)
    back = again(state)
    assert type(back) is OrderedDict
    assert back._metadata == {"version": 2}


def test_cycles():
    ring = [torch.ones(1)]
    ring.append(ring)
    back = again(ring)
    assert back[1] is back


def test_meta_tensors():
    t = torch.empty(2, 3, device="meta", dtype=torch.float16)
    back = again(t)
    assert (back.device.type, back.shape, back.dtype) == ("meta", (2, 3), torch.float16)
    assert torch.load(saved(torch.ones(2)), map_location="meta").device.type == "meta"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        self.tied = self.body[0]


def test_a_module_and_its_optimizer():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net.body(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    back = again({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    other = Net()
    other.load_state_dict(back["net"])
    restored = torch.optim.Adam(other.parameters(), lr=0.5)
    restored.load_state_dict(back["optimizer"])
    assert restored.param_groups[0]["lr"] == 0.1
    for a, b in zip(net.parameters(), other.parameters()):
        same(a, b)
        same(optimizer.state[a]["exp_avg"], restored.state[b]["exp_avg"])


def test_a_whole_module_needs_trust():
    net = Net()
    buffer = saved(net)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(buffer)
    buffer.seek(0)
    back = torch.load(buffer, weights_only=False)
    assert type(back) is Net
    assert back.tied is back.body[0]
    same(back.tied.weight, net.tied.weight)


# -- where it is written --------------------------------------------------------------------------------


def test_paths(tmp_path):
    for path in (tmp_path / "a.pt", str(tmp_path / "b"), str(tmp_path / "with space é.pt")):
        torch.save(torch.arange(3), path)
        assert torch.load(path).tolist() == [0, 1, 2]
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "b", "with space é.pt"]


def test_errors_of_paths(tmp_path):
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        torch.save(1, tmp_path / "nowhere" / "x.pt")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="is a directory"):
        torch.save(1, tmp_path)
    with pytest.raises(AttributeError, match="write"):
        torch.save(1, 5)


def test_a_failing_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.ones(2), path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        torch.save([torch.zeros(2), lambda: None], path)
    assert torch.load(path).tolist() == [1.0, 1.0]
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_save_through_a_link_replaces_what_it_points_to(tmp_path):
    target, link = tmp_path / "target.pt", tmp_path / "link.pt"
    torch.save(1, target)
    os.chmod(target, 0o640)
    link.symlink_to(target)
    torch.save(2, link)
    assert link.is_symlink()
    assert torch.load(target) == 2
    assert os.stat(target).st_mode & 0o777 == 0o640


def test_same_content_same_bytes():
    thing = {"a": torch.arange(5.0), "b": [1, "x"]}
    assert saved(thing).getvalue() == saved(thing).getvalue()


def test_records_are_aligned():
    buffer = saved([torch.arange(n) for n in range(1, 9)])
    content = buffer.getvalue()
    for info in zipfile.ZipFile(buffer).infolist():
        name, extra = struct.unpack_from("<HH", content, info.header_offset + 26)
        assert (info.header_offset + 30 + name + extra) % 64 == 0, info.filename


class OnlyWrites:
    def __init__(self):
        self.parts = []

    def write(self, data):
        self.parts.append(bytes(data))


class OnlyReads:
    """A file object without readinto, as some network files are."""

    def __init__(self, content):
        self.inner = io.BytesIO(content)
        self.read, self.seek, self.tell = self.inner.read, self.inner.seek, self.inner.tell


def test_file_objects_of_other_people():
    sink = OnlyWrites()
    torch.save(torch.arange(100), sink)
    assert torch.load(OnlyReads(b"".join(sink.parts))).tolist() == list(range(100))


def test_a_file_object_is_written_from_where_it_stands(tmp_path):
    with open(tmp_path / "x", "w+b") as file:
        file.write(b"header")
        torch.save(torch.ones(1), file)
        end = file.tell()
        file.seek(6)
        content = file.read()
    assert end == 6 + len(content)
    assert torch.load(io.BytesIO(content)).tolist() == [1.0]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_object_is_flushed(tmp_path, zipped):
    with open(tmp_path / "x.pt", "wb") as file:
        torch.save([torch.arange(3)], file, _use_new_zipfile_serialization=zipped)
        assert torch.load(tmp_path / "x.pt")[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("mmap", [False, True])
def test_loading_prints_no_values(tmp_path, monkeypatch, mmap):
    """Errors show what is wrong; without one nothing is formatted, which takes long for a large storage."""
    torch.save([torch.ones(3), torch.nn.Parameter(torch.ones(2))], tmp_path / "x.pt")
    for kind in (torch.TypedStorage, torch.UntypedStorage, torch.Tensor):
        monkeypatch.setattr(kind, "__repr__", lambda self: pytest.fail("printed"))
    x, p = torch.load(tmp_path / "x.pt", mmap=mmap)
    assert x.sum() == 3 and p.requires_grad


def test_mmap(tmp_path):
    path = tmp_path / "x.pt"
    t = torch.arange(1000.0)
    torch.save({"a": t, "b": t[10:]}, path)
    before = path.read_bytes()
    back = torch.load(path, mmap=True)
    same(back["b"], t[10:])
    back["a"][10] = -1.0
    assert back["b"][0] == -1.0  # tied, and writable
    assert path.read_bytes() == before  # but the file is not
    with pytest.raises(ValueError, match="must be a file path"):
        torch.load(io.BytesIO(before), mmap=True)


def test_map_location():
    buffer = saved(torch.ones(2))
    cuda = io.BytesIO(
        rewritten(
            buffer, lambda data: data.replace(b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00cuda")
        )
    )
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(cuda)
    for location in (
        "cpu",
        torch.device("cpu"),
        {"cuda": "cpu"},
        lambda storage, location: storage,
    ):
        cuda.seek(0)
        assert torch.load(cuda, map_location=location).tolist() == [1.0, 1.0]
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(buffer, map_location="cuda:0")


# -- what a file may name -------------------------------------------------------------------------------


class Plain:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Plain and self.value == other.value


Plain.__module__ = "plain_module_of_a_test"


def test_a_class_of_the_user_is_refused_until_it_is_vouched_for(monkeypatch):
    import sys
    import types

    module = types.ModuleType(Plain.__module__)
    module.Plain = Plain
    monkeypatch.setitem(sys.modules, Plain.__module__, module)
    buffer = saved([Plain(3)])
    assert serialization.get_unsafe_globals_in_checkpoint(buffer) == [
        "plain_module_of_a_test.Plain"
    ]
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Plain\]\)"):
        torch.load(buffer)
    before = serialization.get_safe_globals()  # `distributed.tensor` allows classes of its own
    with serialization.safe_globals([Plain]):
        buffer.seek(0)
        assert torch.load(buffer) == [Plain(3)]
        assert serialization.get_safe_globals() == [*before, Plain]
    assert serialization.get_safe_globals() == before
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False) == [Plain(3)]


def test_vouching_under_another_name():
    with serialization.safe_globals([(Plain, "old.place.Plain")]):
        buffer = archive(b"\x80\x02cold.place\nPlain\n)\x81}X\x05\x00\x00\x00valueK\x05sb.")
        assert torch.load(buffer).value == 5


def archive(pickled: bytes, **records: bytes) -> io.BytesIO:
    """A checkpoint with this pickle and these storages."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("x/data.pkl", pickled)
        file.writestr("x/version", "3\n")
        for name, content in records.items():
            file.writestr(f"x/data/{name.removeprefix('_')}", content)
    buffer.seek(0)
    return buffer


def rewritten(buffer: io.BytesIO, change) -> bytes:
    """The archive in `buffer` with its pickle changed and everything else, checksums too, as it should be."""
    source, target = zipfile.ZipFile(buffer), io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for info in source.infolist():
            content = source.read(info)
            file.writestr(
                info.filename, change(content) if info.filename.endswith("data.pkl") else content
            )
    return target.getvalue()


@pytest.mark.parametrize(
    "pickled",
    [
        b"cos\nsystem\n(X\x04\x00\x00\x00exittR.",
        b"cposix\nsystem\n(X\x04\x00\x00\x00exittR.",
        b"c__builtin__\neval\n(X\x03\x00\x00\x001+1tR.",
        b"cbuiltins\ngetattr\n.",
        b"(X\x01\x00\x00\x00xios\nsystem\n.",  # INST
        b"(cos\nsystem\nX\x01\x00\x00\x00xo.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",  # STACK_GLOBAL
        b"crushlight.serialization\nload\n(X\x01\x00\x00\x00xtR.",
        b"ctorch\nload\n(X\x01\x00\x00\x00xtR.",
        b"ctorch.hub\nload\n.",
        b"\x82\x01.",  # EXT1
        b"X\x03\x00\x00\x00abc)R.",  # call of a text
        b"ctorch._utils\n_rebuild_tensor_v2\n}X\x08\x00\x00\x00__code__K\x01sb.",  # attributes of our function
        b"ctorch\nTensor\nN}X\x08\x00\x00\x00backwardK\x01s\x86b.",  # attributes of our class
        b"ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00aK\x01tb.",  # a state that is no dict
        b"ctorch\nTensor\n)\x81.",  # NEWOBJ
        b"cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R.",  # an allocation of 2**44 bytes
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x00.",  # BYTEARRAY8 of 2**56 bytes
        b"c_codecs\nencode\n(X\x01\x00\x00\x00xX\x03\x00\x00\x00hextR.",
        b"ctorch\nSize\n(X\x01\x00\x00\x00x\x85tR.",
    ],
)
def test_hostile_pickles_are_refused(pickled):
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        torch.load(archive(pickled))
    assert not hasattr(torch.Tensor.backward, "real")
    assert callable(torch.Tensor.backward)


def tensor_pickle(
    storage=b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04", rest=b"K\x00K\x04\x85K\x01\x85\x89"
) -> bytes:
    """`_rebuild_tensor_v2(("storage", FloatStorage, key, location, numel), offset, size, stride, False, {})`."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        + storage
        + b"tQ"
        + rest
        + b"}tR."
    )


def test_the_pickle_that_the_next_test_damages_is_right():
    assert torch.load(archive(tensor_pickle(), _0=bytes(16))).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "rest",
    [
        b"K\x01K\x04\x85K\x01\x85\x89",  # offset 1, 4 elements of 4
        b"K\x00K\x05\x85K\x01\x85\x89",  # 5 of 4
        b"K\x00K\x04\x85K\x02\x85\x89",  # every second
        b"J\xff\xff\xff\xffK\x04\x85K\x01\x85\x89",  # offset -1
        b"K\x00J\xff\xff\xff\xff\x85K\x01\x85\x89",  # size -1
        b"K\x03K\x04\x85J\xff\xff\xff\xff\x85\x89",  # stride -1
        b"K\x00K\x04\x85K\x01K\x01\x86\x89",  # two strides, one size
        b"K\x00X\x01\x00\x00\x004\x85K\x01\x85\x89",  # a text as size
        b"K\x00\x88\x85K\x01\x85\x89",  # True as size
        b"K\x00K\x04K\x01\x89",  # numbers instead of tuples
        b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01K\x01\x85K\x01\x85\x89",  # offset 2**64
        b"K\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00@\x85K\x00\x85\x89",  # 2**62 elements on one
    ],
)
def test_tensors_outside_their_storage_are_refused(rest):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        torch.load(archive(tensor_pickle(rest=rest), _0=bytes(16)))


@pytest.mark.parametrize(
    "storage",
    [
        b"X\x01\x00\x00\x001X\x03\x00\x00\x00cpuK\x04",  # no such record
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x05",  # record of another size
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ\xff\xff\xff\xff",
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00xyzK\x04",  # no such device
        b"X\x0b\x00\x00\x00../data.pklX\x03\x00\x00\x00cpuK\x04",
        b"K\x00X\x03\x00\x00\x00cpuK\x04",
    ],
)
def test_references_to_storages_are_checked(storage):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        torch.load(archive(tensor_pickle(storage=storage), _0=bytes(16)))


def test_bytes_that_are_no_truth_values_become_true():
    pickled = tensor_pickle().replace(b"FloatStorage", b"BoolStorage")
    t = torch.load(archive(pickled, _0=b"\x00\x01\x02\xff"))
    assert t.tolist() == [False, True, True, True]
    assert int(t.sum()) == 3


def test_archives_with_tricks_are_refused():
    for trick in ("compressed", "twice", "folders"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            kind = zipfile.ZIP_DEFLATED if trick == "compressed" else zipfile.ZIP_STORED
            file.writestr("x/data.pkl", b"K\x01." + b" " * 100, compress_type=kind)
            if trick == "twice":
                with pytest.warns(UserWarning, match="Duplicate"):
                    file.writestr("x/data.pkl", b"K\x02.")
            if trick == "folders":
                file.writestr("y/version", b"3")
        with pytest.raises(RuntimeError, match="PytorchStreamReader"):
            torch.load(buffer)


def test_empty_and_foreign_files(tmp_path):
    with pytest.raises(EOFError):
        torch.load(io.BytesIO())
    for content in (
        b"no checkpoint\n",
        b"\x89PNG\r\n\x1a\n" + bytes(50),
        b"PK\x03\x04" + bytes(100),
        bytes(200),
    ):
        with pytest.raises(RuntimeError):
            torch.load(io.BytesIO(content))


GOOD = None


def good() -> bytes:
    global GOOD
    if GOOD is None:
        base = torch.arange(6.0).reshape(2, 3)
        GOOD = saved(
            {"a": base, "t": base.t(), "p": torch.nn.Parameter(torch.ones(2)), "n": [1, "x", None]}
        ).getvalue()
    return GOOD


REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError)


@settings(max_examples=150)
@given(st.integers(0, 10**6))
def test_truncated_files_are_refused(cut):
    content = good()
    with pytest.raises(REFUSALS):
        torch.load(io.BytesIO(content[: cut % len(content)]))


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(place, change):
    content = bytearray(good())
    content[place % len(content)] ^= change
    try:
        torch.load(io.BytesIO(bytes(content)))
    except REFUSALS:
        pass


@settings(max_examples=400)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=4))
def test_a_changed_pickle_with_the_right_checksum_is_refused_or_harmless(place, new):
    def change(data):
        at = place % len(data)
        return data[:at] + new + data[at + len(new) :]

    try:
        torch.load(io.BytesIO(rewritten(io.BytesIO(good()), change)))
    except REFUSALS:
        pass


# -- copies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    base = torch.arange(24.0).reshape(2, 3, 4)
    p = torch.nn.Parameter(torch.ones(2))
    for t in (
        base,
        base.transpose(0, 2),
        torch.tensor(1.5),
        torch.ones(2, dtype=torch.bfloat16),
        p,
    ):
        same(pickle.loads(pickle.dumps(t, protocol)), t)


def test_deepcopy():
    base = torch.arange(6.0).reshape(2, 3)
    base.requires_grad_()
    base.grad = torch.ones(2, 3)
    base.note = ["x"]
    copied, view = copy.deepcopy([base, base.data.t()])
    same(copied, base)
    assert copied.note == ["x"]
    assert copied.note is not base.note
    assert copied.grad.tolist() == base.grad.tolist()
    assert copied.grad is not base.grad
    assert storage(copied) == storage(view) != storage(base)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(base * 2)


# -- what programs give besides tensors --------------------------------------------------------------


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_of_both_formats(archive, layout):
    t = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout)
    file = io.BytesIO()
    torch.save([t], file, _use_new_zipfile_serialization=archive)
    file.seek(0)
    (back,) = torch.load(file)
    assert back.layout is layout and back.to_dense().tolist() == t.to_dense().tolist()


class OutOfRange:
    """Pickled as a sparse tensor with an index outside of it."""

    def __reduce_ex__(self, protocol):
        parts = torch.tensor([[3], [0]]), torch.ones(1), torch.Size([3, 3])
        return rebuild.sparse_tensor, (torch.sparse_coo, parts)


@pytest.mark.parametrize("archive", [True, False])
def test_functions_of_files_may_be_given_by_users(archive):
    file = io.BytesIO()
    torch.save(OutOfRange(), file, _use_new_zipfile_serialization=archive)
    file.seek(0)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.load(file)


def test_another_pickle_module():
    class Loud(pickle.Unpickler):
        def load(self):
            return ["loaded", super().load()]

    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    module = SimpleNamespace(Unpickler=Loud)
    word, t = torch.load(file, pickle_module=module, weights_only=False)
    assert word == "loaded" and t.tolist() == [1.0, 1.0]


def test_streams_and_older_texts():
    class Stream:
        def read(self, n=-1):
            return b""

    with pytest.raises(AttributeError, match="from a file that is seekable"):
        torch.load(Stream())

    class Counting(io.BytesIO):
        calls = 0

        def readinto(self, memory):
            self.calls += 1
            return super().readinto(memory)

    file = Counting()
    torch.save(torch.arange(3), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.load(file, weights_only=False, encoding="bytes").tolist() == [0, 1, 2]
    assert file.calls


class WritesParts(OnlyWrites):
    """A file without a buffer, which writes at most seven bytes at once."""

    def write(self, data):
        return super().write(data[:7]) or len(data[:7])


def test_a_file_that_writes_parts():
    file = WritesParts()
    torch.save(torch.arange(100.0), file)
    assert torch.load(io.BytesIO(b"".join(file.parts))).tolist() == list(range(100))


@pytest.mark.parametrize("protocol", [2, 5])
def test_numbers_of_every_size(protocol):
    """Shapes, strides, offsets and counts from one byte to beyond 32 bits."""
    x = torch.zeros(70_000)
    things = [
        x[300:302],
        x[65_600:],
        x[7:].as_strided((2, 3), (300, 1)),
        x[:0],
        x.as_strided((1, 2, 1, 1, 3), (5, 2, 1, 9, 1)),
        torch.empty(2**20, 2**20, device="meta"),
        torch.zeros(1).expand(2**33).requires_grad_(),
    ]
    for a, b in zip(things, torch.load(saved(things, pickle_protocol=protocol)), strict=True):
        assert (a.shape, a.stride(), a.storage_offset()) == (
            b.shape,
            b.stride(),
            b.storage_offset(),
        )
        assert a.requires_grad == b.requires_grad and a.device == b.device


def test_python_reads_the_archive():
    """The records as `zipfile` finds them: every checksum, size and name."""
    import zipfile

    buffer = saved({"ä": torch.arange(3), "b": torch.zeros(0)})
    with zipfile.ZipFile(buffer) as archive:
        assert archive.testzip() is None
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert sizes["archive/data/0"] == 24 and sizes["archive/data/1"] == 0


def test_hooks_of_tensors_are_not_written_and_there_is_a_warning():
    import pickle

    x, p = torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(2))
    assert x._backward_hooks is None
    for t in (x, p):
        t.register_hook(lambda g: g)
        assert len(t._backward_hooks) == 1
    for write in (saved, pickle.dumps):
        with pytest.warns(UserWarning, match="backward hook .* will not be serialized"):
            write(x)
        write(p)
