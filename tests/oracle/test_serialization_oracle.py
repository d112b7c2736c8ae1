"""Checkpoints against PyTorch, both ways: what one writes the other reads, with types, strides and ties."""

from __future__ import annotations

import io
import warnings
from collections import Counter, OrderedDict

import pytest
import torch

import rushlight
from processes import finished
from rushlight.core import dtypes

NAMES = [each.name for each in dtypes.ALL]
# Both say so once of complex32.
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def moved(thing, writer, reader, **options):
    buffer = io.BytesIO()
    writer.save(thing, buffer, **options)
    buffer.seek(0)
    return reader.load(buffer)


def contents(lib, seed=0):
    """One checkpoint of every kind of value that files hold, made with either library."""
    base = lib.arange(24.0).reshape(2, 3, 4)
    parameter = lib.nn.Parameter(lib.ones(2))
    marked = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    marked.note = "x"
    noted = lib.ones(2)
    noted.note = [1]
    state = OrderedDict(
        base=base,
        view=base.permute(2, 0, 1)[1:],
        expanded=base[0, 0].expand(5, 4),
        parameter=parameter,
        marked=marked,
        noted=noted,
        leaf=lib.ones(2, requires_grad=True),
        scalar=lib.tensor(2.5),
        empty=lib.empty(0, 3),
        buffer=lib.nn.Buffer(lib.ones(1)),
        meta=lib.empty(2, 3, device="meta"),
        channels_last=lib.arange(24.0)
        .reshape(1, 2, 3, 4)
        .contiguous(memory_format=lib.channels_last),
        **{name: lib.tensor([0, 1, 1]).to(getattr(lib, name)) for name in NAMES},
        plain=[1, 2**70, 2.5, 1j, None, True, "é", b"\xff", bytearray(b"a"), (1, 2), {"a": 1}, {3}],
        counts=Counter("aab"),
        size=lib.Size([1, 2]),
        device=lib.device("cpu"),
        dtype=lib.bfloat16,
        layout=lib.strided,
    )
    state._metadata = OrderedDict(version=1)
    return state


def described(value):
    """Everything about a value that both libraries can say in the same words."""
    if hasattr(value, "requires_grad"):
        # PyTorch's buffers are plain tensors with attributes; ours have a class.
        kind = type(value).__name__.replace("Buffer", "Tensor")
        numbers = None if value.device.type == "meta" else value.detach().tolist()
        return (
            *(
                kind,
                str(value.dtype),
                tuple(value.shape),
                value.stride(),
                value.storage_offset(),
                value.requires_grad,
            ),
            *(
                str(value.device),
                numbers,
                dict(value.__dict__) if kind == "Tensor" else getattr(value, "note", None),
            ),
        )
    if isinstance(
        value, (dict, list, tuple, set, int, float, complex, str, bytes, bytearray, type(None))
    ):
        return (type(value).__name__, value)
    return str(value)


def compare(got, expected):
    assert type(got) is type(expected)
    assert list(got) == list(expected)
    assert got._metadata == expected._metadata
    for name in expected:
        assert described(got[name]) == described(expected[name]), name
    # the storages that are tied in one are tied in the other
    ties = [
        [_storage(a) == _storage(b) for b in _tensors(s)]
        for s in (got, expected)
        for a in _tensors(s)
    ]
    half = len(ties) // 2
    assert ties[:half] == ties[half:]


def _tensors(state):
    return [
        v
        for v in state.values()
        if hasattr(v, "requires_grad") and v.device.type == "cpu" and v.numel()
    ]


def _storage(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "writer, reader, options",
    [
        (rushlight, rushlight, {}),
        (rushlight, torch, {}),
        (torch, rushlight, {}),
        (torch, rushlight, {"_use_new_zipfile_serialization": False}),
        (rushlight, rushlight, {"pickle_protocol": 4}),
        (rushlight, torch, {"_use_new_zipfile_serialization": False}),
        (rushlight, rushlight, {"_use_new_zipfile_serialization": False}),
    ],
    ids=[
        *("ours-ours", "ours-torch", "torch-ours", "torch-legacy-ours", "protocol-4"),
        *("ours-legacy-torch", "ours-legacy-ours"),
    ],
)
def test_checkpoints_cross(writer, reader, options):
    expected = contents(reader)
    compare(moved(contents(writer), writer, reader, **options), expected)


def test_files_cross_by_path_and_mmap(tmp_path):
    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        path = tmp_path / f"{writer.__name__}.pt"
        writer.save(contents(writer), path)
        compare(reader.load(path), contents(reader))
        mapped = reader.load(path, mmap=True)
        assert mapped["view"].tolist() == contents(reader)["view"].tolist()


def test_without_checksums():
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        assert moved(torch.ones(3), torch, rushlight).tolist() == [1.0] * 3
    finally:
        torch.serialization.set_crc32_options(before)


@pytest.mark.parametrize("order", ["big", "little"])
def test_byte_order(order):
    before = torch.serialization.get_default_load_endianness()
    buffer = io.BytesIO()
    expected = {
        name: torch.tensor([0, 1, 1]).to(getattr(torch, name))
        for name in NAMES
        if not name.startswith("uint")
    }
    torch.save(expected, buffer)
    # Only the record that names the order is changed: every number must then come back with its bytes reversed.
    import zipfile

    source, target = zipfile.ZipFile(buffer), io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for info in source.infolist():
            file.writestr(
                info.filename, order if info.filename.endswith("byteorder") else source.read(info)
            )
    theirs = torch.load(io.BytesIO(target.getvalue()))
    ours = rushlight.load(io.BytesIO(target.getvalue()))
    assert before == torch.serialization.get_default_load_endianness()
    for name, tensor in theirs.items():
        assert str(ours[name].tolist()) == str(tensor.tolist()), name


def test_conjugate_and_negative_bits_are_carried_out():
    t = torch.tensor([1 + 2j, 3 - 4j])
    back = moved([t.conj(), t.clone().conj().imag], torch, rushlight)
    assert back[0].tolist() == [1 - 2j, 3 + 4j]
    assert back[1].tolist() == [-2.0, 4.0]


def network(lib):
    lib.manual_seed(0)
    nn = lib.nn
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def trained(lib):
    model = network(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(lib.ones(5, 4)).square().mean().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    "writer, reader", [(rushlight, torch), (torch, rushlight)], ids=["to-torch", "from-torch"]
)
def test_training_goes_on_in_the_other_library(writer, reader):
    model, optimizer = trained(writer)
    state = moved(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, writer, reader
    )
    other = network(reader)
    other.load_state_dict(state["model"])
    resumed = reader.optim.Adam(other.parameters(), lr=1.0)
    resumed.load_state_dict(state["optimizer"])
    losses = []
    for lib, net, opt in ((writer, model, optimizer), (reader, other, resumed)):
        for _ in range(3):
            opt.zero_grad()
            loss = net(lib.ones(5, 4)).square().mean()
            loss.backward()
            opt.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_whole_module_crosses():
    model = network(rushlight)
    buffer = io.BytesIO()
    rushlight.save(model, buffer)
    buffer.seek(0)
    theirs = torch.load(buffer, weights_only=False)
    assert type(theirs) is torch.nn.Sequential
    x = [[1.0, -1.0, 0.5, 2.0]]
    assert theirs(torch.tensor(x)).tolist()[0] == pytest.approx(
        model(rushlight.tensor(x)).tolist()[0], rel=1e-5
    )
    buffer = io.BytesIO()
    torch.save(network(torch), buffer)
    buffer.seek(0)
    ours = rushlight.load(buffer, weights_only=False)
    assert type(ours) is rushlight.nn.Sequential
    assert ours(rushlight.tensor(x)).tolist()[0] == pytest.approx(
        theirs(torch.tensor(x)).tolist()[0], rel=1e-5
    )


PLAIN_PICKLES = """
import pickle, sys, warnings
import torch
from torch import nn

warnings.simplefilter("ignore")


def things():
    torch.manual_seed(0)
    x = torch.arange(12.0).reshape(3, 4)
    noted = torch.ones(2)
    noted.note = 3
    layers = nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LSTM(3, 2), nn.TransformerEncoderLayer(2, 1, 4)
    model = nn.Sequential(*layers).eval()
    half = [torch.ones(2, dtype=d) for d in (torch.bfloat16, torch.half, torch.bool, torch.int8, torch.complex64)]
    return {
        "x": x, "views": [x, x[1:], x.t()], "half": half, "leaf": torch.ones(2, requires_grad=True),
        "parameter": nn.Parameter(torch.ones(2)), "buffer": nn.Buffer(torch.ones(2)), "noted": noted, "size": x.shape,
        "dtype": torch.float32, "device": torch.device("cpu"), "layout": torch.strided, "state": model.state_dict(),
        "model": model, "sgd": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), "meta": x.to("meta"),
        "sparse": x.to_sparse(), "csr": x.to_sparse_csr(), "storage": x.storage(), "functions": [torch.relu, nn.functional.relu],
        "data": torch.utils.data.TensorDataset(x), "normal": torch.distributions.Normal(0.0, 1.0), "empty": torch.empty(0, 3),
    }


def described(v):
    if isinstance(v, torch.Tensor):
        values = str(v.to_dense().tolist()) if not v.is_meta else ""
        return f"{isinstance(v, nn.Parameter)} {v.dtype} {tuple(v.shape)} {v.layout} {v.requires_grad} {vars(v)} {values}"
    if isinstance(v, dict):
        return str({k: described(w) for k, w in v.items()})
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        return str([described(w) for w in v])
    if isinstance(v, nn.Module):
        return described(v.state_dict()) + str(v) + str(sorted(vars(v)))
    if isinstance(v, torch.utils.data.TensorDataset):
        return described(v.tensors)
    if callable(v) and hasattr(v, "__name__"):
        return v.__name__
    return repr(v)


written, theirs = sys.argv[1:]
with open(written, "wb") as f:
    pickle.dump({k: pickle.dumps(v, 2 + 2 * (i % 2)) for i, (k, v) in enumerate(things().items())}, f)
if theirs != "-":
    with open(theirs, "rb") as f:
        for name, text in pickle.load(f).items():
            print(name, described(pickle.loads(text)))
"""


def test_plain_pickles_mean_the_same_in_both_directions(tmp_path):
    (tmp_path / "program.py").write_text(PLAIN_PICKLES)

    def run(door, *names):
        places = [n if n == "-" else tmp_path / n for n in names]
        return finished(*door, tmp_path / "program.py", *places).stdout.splitlines()

    run([], "theirs.pkl", "-")
    ours_of_theirs = run(["-m", "rushlight"], "ours.pkl", "theirs.pkl")
    theirs_of_ours = run([], "again.pkl", "ours.pkl")
    theirs = run([], "again.pkl", "theirs.pkl")
    assert len(theirs) > 20
    for read in (ours_of_theirs, theirs_of_ours):
        for got, want in zip(read, theirs, strict=True):
            assert got == want


def test_unsafe_names_are_the_same():
    buffer = io.BytesIO()
    torch.save([torch.ones(1), range(3), Counter()], buffer)
    for lib in (torch, rushlight):
        buffer.seek(0)
        assert lib.serialization.get_unsafe_globals_in_checkpoint(buffer) in (
            ["builtins.range"],
            ["__builtin__.xrange"],
        )


def test_a_tar_archive_means_the_same(tmp_path):
    from test_legacy_checkpoints import good, tar

    path = tmp_path / "old.pth"
    path.write_bytes(tar(**good()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of storages without types
        theirs = torch.load(path, weights_only=False)
    ours = rushlight.load(path)
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        if name == "s":
            assert (
                ours[name].tolist()
                == torch.asarray(value._untyped_storage, dtype=torch.int64).tolist()
            )
        elif name == "part":  # the offset of a part of a storage counts from the whole one here
            assert ours[name].tolist() == value.tolist()
        else:
            assert described(ours[name]) == described(value), name


def test_a_whole_module_in_the_older_format():
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(network(torch), buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    ours = rushlight.load(buffer, weights_only=False)
    assert type(ours) is rushlight.nn.Sequential
    assert ours(rushlight.ones(1, 4)).tolist()[0] == pytest.approx(
        network(torch)(torch.ones(1, 4)).tolist()[0], rel=1e-5
    )
