"""Files of PyTorch's first releases: the tar archive (before 0.1.10) and the format before 1.6; read, checked, executing nothing."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import tarfile
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch

REFUSALS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError)


class Global:
    """Pickled as the name of a class, which need not exist here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Key:
    """Pickled as a reference to a tensor or a storage."""

    def __init__(self, key) -> None:
        self.key = key


class _Pickler(pickle._Pickler):
    dispatch = dict(pickle._Pickler.dispatch)

    def save_name(self, named):
        self.write(pickle.GLOBAL + f"{named.module}\n{named.name}\n".encode())

    dispatch[Global] = save_name

    def persistent_id(self, thing):
        return thing.key if type(thing) is Key else None


def pickled(thing) -> bytes:
    file = io.BytesIO()
    _Pickler(file, 2).dump(thing)
    return file.getvalue()


def tar(**members: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


FLOATS = struct.pack("<6f", *range(6))


def storages(*entries, views=()) -> bytes:
    """Each entry: key, location, class, the bytes of the elements, their number."""
    parts = [pickled(len(entries))]
    for key, location, kind, content, count in entries:
        parts += [pickled((key, location, kind)), struct.pack("<q", count), content]
    return b"".join([*parts, pickled(list(views))])


def tensors(*entries) -> bytes:
    """Each entry: key, key of the storage, class, size, stride, offset."""
    parts = [pickled(len(entries))]
    for key, storage, kind, size, stride, offset in entries:
        numbers = (*size, *stride, offset)
        parts += [pickled((key, storage, kind)), struct.pack("<ii", len(size), 0)]
        parts.append(struct.pack(f"<{len(numbers)}q", *numbers))
    return b"".join(parts)


FLOAT = Global("torch", "FloatStorage"), Global("torch", "FloatTensor")
BASE = (11, "cpu", FLOAT[0], FLOATS, 6)


def good() -> dict[str, bytes]:
    """The members of a file as PyTorch 0.1.9 wrote them: a matrix, its transpose, a part of it, a storage, numbers."""
    longs = (13, "cpu", Global("torch", "LongStorage"), struct.pack("<2q", 7, -8), 2)
    return {
        "storages": storages(BASE, longs, views=[(12, 11, 2, 3)]),
        "tensors": tensors(
            (21, 11, FLOAT[1], (2, 3), (3, 1), 0),
            (22, 11, FLOAT[1], (3, 2), (1, 3), 0),
            (23, 12, FLOAT[1], (3,), (1,), 0),
            (24, 13, Global("torch", "LongTensor"), (2,), (1,), 0),
        ),
        "pickle": pickled(
            OrderedDict(w=Key("21"), t=Key(22), part=Key("23"), n=Key("24"), s=Key("13"), epoch=3)
        ),
    }


def load(members: dict[str, bytes], **options):
    return torch.load(io.BytesIO(tar(**members)), **options)


@pytest.mark.parametrize("weights_only", [True, False])
def test_tar(tmp_path, weights_only):
    path = tmp_path / "old.pth"
    path.write_bytes(tar(**good()))
    back = torch.load(path, weights_only=weights_only)
    assert list(back) == ["w", "t", "part", "n", "s", "epoch"]
    assert back["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert back["part"].tolist() == [2, 3, 4]
    assert back["n"].tolist() == [7, -8]
    assert back["s"].tolist() == [7, -8]
    back["w"][0, 2] = 9
    assert back["part"][0] == 9 == back["t"][2, 0]  # tied
    with pytest.raises(RuntimeError, match="mmap"):
        torch.load(path, mmap=True)


def test_tar_from_a_gpu():
    cuda = (11, "cuda:0", Global("torch.cuda", "FloatStorage"), FLOATS, 6)
    members = good() | {
        "storages": storages(cuda),
        "tensors": tensors((21, 11, Global("torch.cuda", "FloatTensor"), (6,), (1,), 0)),
        "pickle": pickled(Key("21")),
    }
    assert load(members, map_location="cpu").tolist() == list(range(6))
    with pytest.raises(RuntimeError, match="CUDA"):
        load(members)


def test_bytes_that_are_no_truth_values_become_true():
    kinds = Global("torch", "BoolStorage"), Global("torch", "BoolTensor")
    members = {
        "storages": storages((1, "cpu", kinds[0], b"\x00\x01\x02\xff", 4)),
        "tensors": tensors((2, 1, kinds[1], (4,), (1,), 0)),
        "pickle": pickled(Key("2")),
    }
    assert int(load(members).sum()) == 3


class Plain:
    pass


def test_classes_in_a_tar():
    module = Global(Plain.__module__, "Plain")
    members = good() | {"pickle": pickled([Key((module, "file.py", "source"))])}
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load(members)
    with torch.serialization.safe_globals([Plain]):
        assert load(members) == [Plain]


@pytest.mark.parametrize(
    "change",
    [
        {"storages": storages((*BASE[:4], 7))},  # fewer bytes than elements
        {"storages": storages((*BASE[:4], -1))},
        {"storages": storages((*BASE[:4], 2**61))},
        {"storages": storages((*BASE[:4], 2**40))},
        {"storages": storages(("11", *BASE[1:]))},  # keys are numbers
        {"storages": storages((11, 5, *BASE[2:]))},
        {"storages": storages((11, "xyz", *BASE[2:]))},
        {"storages": storages((11, "cpu", Global("torch", "Tensor"), FLOATS, 6))},
        {"storages": storages((11, "cpu", Global("os", "system"), FLOATS, 6))},
        {"storages": storages(BASE, views=[(12, 11, 4, 3)])},  # reaches outside
        {"storages": storages(BASE, views=[(12, 11, -1, 3)])},
        {"storages": storages(BASE, views=[(12, 11, 3, -1)])},
        {"storages": storages(BASE, views=[(12, 99, 0, 1)])},
        {"storages": storages(BASE, views=[(12, 11, 0)])},
        {"storages": pickled(-1) + pickled([])},
        {"storages": pickled("x") + pickled([])},
        {"storages": pickled(0) + pickled(3)},
        {"storages": pickled(2**40)},
        {"storages": b""},
        {"tensors": tensors((21, 11, FLOAT[1], (7,), (1,), 0))},
        {"tensors": tensors((21, 11, FLOAT[1], (6,), (2,), 0))},
        {"tensors": tensors((21, 11, FLOAT[1], (6,), (1,), 1))},
        {"tensors": tensors((21, 11, FLOAT[1], (6,), (1,), -1))},
        {"tensors": tensors((21, 11, FLOAT[1], (-6,), (1,), 0))},
        {"tensors": tensors((21, 11, FLOAT[1], (6,), (-1,), 5))},
        {"tensors": tensors((21, 11, FLOAT[1], (2**62,), (0,), 0))},
        {"tensors": tensors((21, 99, FLOAT[1], (6,), (1,), 0))},
        {"tensors": pickled(1) + pickled((21, 11, FLOAT[1])) + struct.pack("<ii", 10**6, 0)},
        {"tensors": pickled(1) + pickled((21, 11, FLOAT[1])) + struct.pack("<ii", -1, 0)},
        {"tensors": pickled(1) + pickled((21, 11, FLOAT[1])) + struct.pack("<ii", 2, 0)},
        {"pickle": pickled(Key("99"))},
        {"pickle": pickled(Key("9" * 100))},
        {"pickle": pickled(Key(("a", "b")))},
        {"pickle": pickled(Key(None))},
        {"pickle": b"cos\nsystem\n(X\x04\x00\x00\x00exittR."},
        {"pickle": b""},
        {"more": b"x"},
    ],
    ids=str,
)
def test_damaged_tars_are_refused(change):
    with pytest.raises(REFUSALS):
        load(good() | change)


def test_tars_with_tricks_are_refused():
    for trick in ("missing", "twice", "link", "folder", "long"):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:") as archive:
            for name, content in good().items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                if name == "tensors" and trick == "link":
                    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0
                if name == "tensors" and trick == "folder":
                    info.type, info.size = tarfile.DIRTYPE, 0
                if trick == "missing" and name == "tensors":
                    continue
                archive.addfile(info, io.BytesIO(content))
                if trick == "twice" and name == "tensors":
                    archive.addfile(info, io.BytesIO(content))
        raw = file.getvalue()
        if trick == "long":  # the last member claims more than there is
            at = raw.rindex(b"pickle\0")
            header = bytearray(raw[at : at + 512])
            header[124:136] = b"%011o\0" % 2**33
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            raw = raw[:at] + bytes(header) + raw[at + 512 :]
        with pytest.raises(RuntimeError):
            torch.load(io.BytesIO(raw))


@settings(max_examples=150)
@given(st.integers(0, 10**6))
def test_truncated_tars_are_refused_or_whole(cut):
    content = tar(**good())
    cut %= len(content)
    try:
        back = torch.load(io.BytesIO(content[:cut]))
    except REFUSALS:
        return
    assert cut >= len(content.rstrip(b"\0"))  # only the filling at the end is missing
    assert back["epoch"] == 3


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(place, change):
    content = bytearray(tar(**good()))
    content[place % len(content.rstrip(b"\0"))] ^= change
    try:
        torch.load(io.BytesIO(bytes(content)))
    except REFUSALS:
        pass


@settings(max_examples=400)
@given(
    st.sampled_from(["storages", "tensors", "pickle"]),
    st.integers(0, 10**6),
    st.binary(min_size=1, max_size=8),
)
def test_a_changed_member_is_refused_or_harmless(name, place, new):
    members = good()
    at = place % len(members[name])
    members[name] = members[name][:at] + new + members[name][at + len(new) :]
    try:
        load(members)
    except REFUSALS:
        pass


def test_the_files_of_this_test_hold_what_they_say():
    codes = [code.name for code, _, _ in pickletools.genops(good()["pickle"])]
    assert codes.count("BINPERSID") == 5


# -- the format before 1.6 ------------------------------------------------------------------------------


def older() -> bytes:
    base = torch.arange(6.0).reshape(2, 3)
    file = io.BytesIO()
    content = {
        "a": base, "t": base.t(), "p": torch.nn.Parameter(torch.ones(2)),
        "n": [1, "x", None], "b": torch.tensor([True, False]), "u": torch.tensor([7], dtype=torch.uint16),
    }  # fmt: skip
    torch.save(content, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def test_the_older_format(tmp_path):
    content = older()
    assert content[:2] != b"PK"
    back = torch.load(io.BytesIO(content))
    assert list(back) == ["a", "t", "p", "n", "b", "u"]
    back["a"][0, 1] = 9
    assert back["t"].tolist() == [[0, 3], [9, 4], [2, 5]]
    assert back["p"].requires_grad
    assert back["b"].tolist() == [True, False]
    assert (back["u"].dtype, back["u"].tolist()) == (torch.uint16, [7])
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    assert torch.load(path, weights_only=False)["n"] == [1, "x", None]
    with pytest.raises(RuntimeError, match="mmap"):
        torch.load(path, mmap=True)


@settings(max_examples=150)
@given(st.integers(0, 10**6))
def test_truncated_files_of_the_older_format_are_refused(cut):
    content = older()
    with pytest.raises(REFUSALS):
        torch.load(io.BytesIO(content[: cut % len(content)]))


@settings(max_examples=400)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
def test_a_changed_file_of_the_older_format_is_refused_or_harmless(place, new):
    content = older()
    at = place % len(content)
    try:
        torch.load(io.BytesIO(content[:at] + new + content[at + len(new) :]))
    except REFUSALS:
        pass
