"""The settings of torch.serialization."""

from __future__ import annotations

import io
import zipfile

import pytest

import rushlight as torch
from rushlight import serialization


def without(record: str, content: bytes) -> io.BytesIO:
    """The archive without one record."""
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for info in source.infolist():
            if not info.filename.endswith(record):
                file.writestr(info.filename, source.read(info))
    target.seek(0)
    return target


def saved(thing) -> bytes:
    file = io.BytesIO()
    torch.save(thing, file)
    return file.getvalue()


def test_byte_order_of_files_that_do_not_say_it():
    order = serialization.LoadEndianness
    content = without("byteorder", saved(torch.tensor([1, 256], dtype=torch.int16))).getvalue()
    try:
        for given, expected in ((None, [1, 256]), (order.LITTLE, [1, 256]), (order.BIG, [256, 1])):
            serialization.set_default_load_endianness(given)
            assert serialization.get_default_load_endianness() is given
            assert torch.load(io.BytesIO(content)).tolist() == expected
        with pytest.raises(TypeError, match="Invalid argument type"):
            serialization.set_default_load_endianness("little")
    finally:
        serialization.set_default_load_endianness(None)


def test_records_of_a_file_of_ones_own(tmp_path):
    for target in (io.BytesIO(), str(tmp_path / "records.pt")):
        with serialization._open_zipfile_writer(target) as archive:
            archive.write_record("a", b"123", 3)
            archive.write_record("data/0", torch.arange(3.0).untyped_storage(), 12)
        with serialization._open_zipfile_reader(target) as archive:
            assert archive.get_record("a") == b"123"
            assert archive.get_record_size("data/0") == 12
    with serialization._open_file_like(target, "rb") as file:
        assert serialization._is_zipfile(file)
    with pytest.raises(AttributeError, match="no callable attribute 'write'"):
        serialization._open_zipfile_writer(3)


def test_names_of_storages():
    names = torch.storage._dtype_to_storage_type_map()
    assert names[torch.bfloat16] == "BFloat16Storage"
    for dtype in (torch.float32, torch.bool, torch.complex64):
        assert isinstance(torch.ones(1, dtype=dtype).storage(), getattr(torch, names[dtype]))


def test_mapping_shared(tmp_path):
    import mmap

    path = tmp_path / "x.pt"
    torch.save(torch.zeros(3), path)
    torch.load(path, mmap=True)[0] = 5.0
    assert torch.load(path)[0] == 0
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
        torch.load(path, mmap=True)[0] = 5.0
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        info = next(i for i in archive.infolist() if i.filename.endswith("data/0"))
    at = info.header_offset + 30 + int.from_bytes(raw[info.header_offset + 26 :][:2], "little")
    at += int.from_bytes(raw[info.header_offset + 28 :][:2], "little")
    assert raw[at : at + 4] == b"\x00\x00\xa0\x40"  # 5.0, in the file
    with pytest.raises(ValueError, match=r"mmap\.MAP_PRIVATE"):
        serialization.set_default_mmap_options(7)


def test_skip_data():
    with serialization.skip_data():
        content = saved([torch.ones(2, 3), 5])
    assert torch.load(io.BytesIO(content))[0].tolist() == [[0.0] * 3] * 2
    content = saved(torch.ones(2))
    with serialization.skip_data():
        assert torch.load(io.BytesIO(content)).tolist() == [0.0, 0.0]
    assert torch.load(io.BytesIO(content)).tolist() == [1.0, 1.0]


def test_places_of_ones_own(monkeypatch):
    from rushlight.serialization import options

    monkeypatch.setattr(options, "_packages", [])
    with pytest.raises(RuntimeError, match="CUDA"):
        serialization.default_restore_location(torch.ones(2).untyped_storage(), "cuda:0")
    serialization.register_package(
        10, lambda storage: None, lambda storage, where: storage if where == "cuda:0" else None
    )
    storage = torch.ones(2).untyped_storage()
    assert serialization.default_restore_location(storage, "cuda:0") == storage
    assert serialization.location_tag(storage) == "cpu"
    content = saved(torch.ones(2)).replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert b"cuda:0" in content


def test_small_things():
    assert serialization.storage_to_tensor_type(torch.ones(1).storage()) is torch.FloatTensor
    assert serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    before = serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    assert not serialization.get_crc32_options()
    assert torch.load(io.BytesIO(saved(torch.ones(1)))).tolist() == [1.0]
    serialization.set_crc32_options(before)
    import numpy

    check = serialization.check_module_version_greater_or_equal
    assert check(numpy, (1, 0))
    assert not check(numpy, (99, 0))
    with pytest.raises(RuntimeError, match="validate|CUDA"):
        serialization.validate_cuda_device("cuda:1")
