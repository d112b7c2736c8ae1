"""Checkpoints of several processes: saved by some, loaded by others, interrupted, hostile."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import pickle
import sys

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint import format_utils
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from test_distributed import check, ended, free_port, needs_mpi, started

PROGRAMS = str(pathlib.Path(__file__).parent / "checkpoint_programs.py")


def job(name, ranks, folder):
    port = free_port()
    return ended([
        started([sys.executable, PROGRAMS, name], CHECKPOINT=folder, RANK=k, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port)
        for k in range(ranks)
    ])  # fmt: skip


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_one_process_reads_a_file_for_all(ranks, tmp_path):
    check(job("reads_one_file", ranks, tmp_path))


@needs_mpi
@pytest.mark.parametrize(
    "saving, loading", [(2, [1]), pytest.param(4, [2, 1], marks=pytest.mark.slow)]
)
def test_other_numbers_of_ranks(saving, loading, tmp_path):
    check(job("saves", saving, tmp_path))
    for ranks in loading:
        check(job("loads", ranks, tmp_path))


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_states_of_optimizers_of_wrapped_models(ranks, tmp_path):
    check(job("sharded_optimizer", ranks, tmp_path))


@needs_mpi
def test_a_killed_job_goes_on_from_the_last_whole_checkpoint(tmp_path):
    run = [
        sys.executable,
        "-m",
        "rushlight",
        "run",
        "--nproc=2",
        "--max-restarts=2",
        PROGRAMS,
        "goes_on",
    ]
    ((status, text),) = ended([started(run, CHECKPOINT=tmp_path)])
    assert status == 0 and text.count("killed by SIGKILL") == 2, text
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith("[rank0] loss")]
    losses = [(int(k), float(value)) for _, k, value in rows]
    assert [k for k, _ in losses] in (
        [*range(5), 4, 5, 6, 7, *range(6, 10)],
        [*range(6), 4, 5, 6, 7, *range(6, 10)],
    )
    sys.path.insert(0, str(pathlib.Path(PROGRAMS).parent))
    import checkpoint_programs as programs

    net = programs.model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    alone = [programs.step(net, optimizer, k) for k in range(10)]
    assert all(abs(value - alone[k]) < 1e-6 for k, value in losses)


def state():
    return {
        "model": {"w": torch.arange(6.0).view(2, 3), "half": torch.ones(2, dtype=torch.bfloat16)},
        "steps": [torch.tensor(3), {"x": torch.zeros(1)}],
        "numbers": [1, 2], 7: "seven", "none": None, "empty": torch.zeros(0, 3),
    }  # fmt: skip


def emptied():
    return {
        "model": {"w": torch.zeros(2, 3), "half": torch.zeros(2, dtype=torch.bfloat16)},
        "steps": [torch.tensor(0), {"x": torch.ones(1)}],
        "numbers": [], 7: "", "none": 1, "empty": torch.zeros(0, 3),
    }  # fmt: skip


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def test_one_process(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path)
    found = emptied()
    kept = found["model"]["w"]
    dcp.load(found, checkpoint_id=tmp_path)
    assert equal(found, state()) and found["model"]["w"] is kept
    dcp.async_save({"n": torch.ones(3)}, checkpoint_id=tmp_path).result()
    assert len(os.listdir(tmp_path)) == 2  # what the one before had is gone
    found = {"n": torch.zeros(3), "more": 5}
    dcp.load(found, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert found["n"].tolist() == [1, 1, 1] and found["more"] == 5
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save(state())


def test_what_of_a_nested_state_is_an_entry(tmp_path):
    t = torch.ones(1)
    state = {
        "pairs": [[1, 2], [3, 4]], "tuple": (t, 2), "mixed": [t, (1, [2]), [4, [t]]], 3: {4: 5}, "none": {"x": {}},
        "deep": [[{"a": 1}], {}], "last": [],
    }  # fmt: skip
    metadata = dcp.save(state, checkpoint_id=tmp_path)
    paths = {
        "pairs": ("pairs",), "tuple": ("tuple",), "mixed.0": ("mixed", 0), "mixed.1": ("mixed", 1),
        "mixed.2.0": ("mixed", 2, 0), "mixed.2.1.0": ("mixed", 2, 1, 0), "3.4": ("3", "4"),
        "deep.0.0.a": ("deep", 0, 0, "a"), "last": ("last",),
    }  # fmt: skip
    assert (
        metadata.planner_data
        == paths
        == dcp.FileSystemReader(tmp_path).read_metadata().planner_data
    )
    found = {"pairs": [[0, 0]], "tuple": (), 3: {4: 0}, "deep": [[{"a": 0}]]}
    dcp.load(found, checkpoint_id=tmp_path)
    assert found["pairs"] == [[1, 2], [3, 4]] and found["tuple"] == (t, 2)
    assert found[3] == {4: 5} and found["deep"] == [[{"a": 1}]]
    made = dcp.state_dict_loader._load_state_dict_from_keys({"pairs", "3"}, checkpoint_id=tmp_path)
    assert made == {"pairs": [[1, 2], [3, 4]], "3": {"4": 5}}
    assert list(dcp.state_dict_loader._load_state_dict_from_keys(checkpoint_id=tmp_path)) == [
        "pairs", "tuple", "mixed", "3", "deep", "last",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="duplicated flatten key a.b"):
        dcp._nested_dict.flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_paths_of_nested_states():
    nested = {"a": [0, 1], "b": [2, {"c": "d"}]}
    get, set_ = dcp._traverse.get_element, dcp._traverse.set_element
    assert get(nested, ("b", 1, "c")) == "d" and get(nested, ("b", 1, "c", "e"), 7) == 7
    assert get(nested, ("a", 5)) is None and get(nested, ("z",)) is None
    set_(nested, ("b", 3, "x", 1), 5)
    assert nested["b"] == [2, {"c": "d"}, None, {"x": [None, 5]}]
    said = []
    for path, value in ((("a", 0), 5), (("w",), torch.zeros(2, 3))):
        dcp._traverse.print_tensor(path, value, said.append)
    assert said == ["('a', 0) Type: <class 'int'>", "('w',) Tensor size: torch.Size([2, 3])"]


def test_planners_of_a_program_s_own(tmp_path):
    class Halves(dcp.DefaultSavePlanner):
        def transform_object(self, write_item, object):
            if isinstance(object, torch.Tensor):
                object = object.half()
            return super().transform_object(write_item, object)

        def create_local_plan(self):
            assert self.mappings == {"m.w": ("m", "w"), "n": ("n",)} and self.is_coordinator
            plan = super().create_local_plan()
            return dataclasses.replace(plan, items=plan.items[:1])

    class Doubled(dcp.DefaultLoadPlanner):
        def lookup_tensor(self, index):
            assert index.fqn == "m.w"
            return super().lookup_tensor(index)

        def commit_tensor(self, read_item, tensor):
            tensor.mul_(2)

    dcp.save({"m": {"w": torch.arange(3.0)}, "n": 1}, checkpoint_id=tmp_path, planner=Halves())
    assert dcp.FileSystemReader(tmp_path).read_metadata().state_dict_metadata.keys() == {"m.w"}
    found = {"m": {"w": torch.zeros(3)}}
    dcp.load(found, checkpoint_id=tmp_path, planner=Doubled())
    assert found["m"]["w"].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "parts, problem",
    [
        ([((0,), (2,)), ((2,), (2,))], None),
        ([((0,), (2,)), ((1,), (2,))], "overlapping chunks"),  # as many elements as the tensor has
        ([((0,), (2,)), ((3,), (2,))], "out of bounds chunk"),
        ([((0,), (2,))], "do not make a tensor"),
    ],
)
def test_parts_make_the_whole_tensor(parts, problem):
    made = [dcp.ChunkStorageMetadata(torch.Size(a), torch.Size(b)) for a, b in parts]
    about = dcp.metadata.TensorProperties(torch.float32)
    entry = dcp.TensorStorageMetadata(about, torch.Size([4]), made)
    found = dcp.default_planner._validate_global_plan([], dcp.Metadata({"w": entry}))
    assert (problem is None and not found) or (problem in found[0] and "w" in found[0])


@needs_mpi
def test_tensors_whose_parts_are_listed(tmp_path):
    check(job("listed_parts", 2, tmp_path))


def test_objects_with_states(tmp_path):
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    dcp.save({"net": net, "optimizer": optimizer}, checkpoint_id=tmp_path)
    other = torch.nn.Linear(2, 1)
    dcp.load({"net": other}, checkpoint_id=tmp_path)
    assert torch.equal(other.weight, net.weight) and other.weight.requires_grad


def test_stagers(tmp_path):
    """The copy that `async_save` writes is made by a stager: the one that is given, the writer, or one that copies at once."""
    from rushlight.distributed.checkpoint.filesystem import SerializationFormat
    from rushlight.distributed.checkpoint.staging import (
        AsyncStager,
        BlockingAsyncStager,
        DefaultStager,
        StagingOptions,
    )
    from rushlight.distributed.checkpoint.state_dict_saver import (
        AsyncCheckpointerType,
        AsyncSaveResponse,
    )

    class Doubled(BlockingAsyncStager):
        _synchronize_after_execute, waited = True, 0

        def stage(self, state_dict):
            return {k: 2 * v for k, v in super().stage(state_dict).items()}

        def synchronize_staging(self):
            self.waited += 1

    class Writer(dcp.FileSystemWriter):
        def stage(self, state_dict):
            return {k: 3 * v for k, v in super().stage(state_dict).items()}

    def saved(**options):
        x = torch.ones(2)
        response = dcp.async_save({"x": x}, checkpoint_id=tmp_path, **options)
        if isinstance(response, AsyncSaveResponse):
            response.staging_completion.result()
            response = response.upload_completion
        x.zero_()
        assert "x" in response.result().state_dict_metadata
        dcp.load({"x": x}, checkpoint_id=tmp_path)
        return x.tolist()

    assert saved() == saved(async_checkpointer_type=AsyncCheckpointerType.PROCESS) == [1, 1]
    doubled = Doubled()
    assert saved(async_stager=doubled) == [2, 2] and doubled.waited == 1
    assert saved(storage_writer=Writer(tmp_path)) == [3, 3]
    assert saved(storage_writer=Writer(tmp_path), async_stager=doubled) == [2, 2]
    for within in (False, True):
        stager = DefaultStager(StagingOptions(use_async_staging=within))
        assert saved(async_stager=stager) == [1, 1]
        stager.synchronize_staging()
        stager.close()
    assert isinstance(doubled, AsyncStager) and not isinstance(object(), AsyncStager)
    with pytest.raises(NotImplementedError, match="HuggingFaceStorageWriter"):
        dcp.FileSystemWriter(tmp_path, serialization_format=SerializationFormat.SAFETENSORS)


def test_a_save_that_fails_leaves_the_one_before(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path)

    class Stops(dcp.DefaultSavePlanner):
        def resolve_data(self, item):
            if item.index.fqn == "steps.0":
                raise OSError("no space")
            return super().resolve_data(item)

    with pytest.raises(dcp.CheckpointException, match="no space"):
        dcp.save(
            {k: v for k, v in emptied().items() if k != "none"},
            checkpoint_id=tmp_path,
            planner=Stops(),
        )
    found = emptied()
    dcp.load(found, checkpoint_id=tmp_path)
    assert equal(found, state())
    dcp.save(state(), checkpoint_id=tmp_path)
    assert len(os.listdir(tmp_path)) == 2


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def test_hostile_and_damaged_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dcp.save({"a": torch.ones(2), "b": [1]}, checkpoint_id="ck")
    content = pathlib.Path("ck/.metadata").read_bytes()

    def refused(match, **wanted):
        with pytest.raises(dcp.CheckpointException, match=match):
            dcp.load(wanted or {"a": torch.zeros(2)}, checkpoint_id="ck")

    for bad in (pickle.dumps(Evil()), content[:-20], b"", pickle.dumps([1])):
        pathlib.Path("ck/.metadata").write_bytes(bad)
        refused("damaged or hostile")
    name = next(n for n in os.listdir("ck") if n.endswith(".distcp"))
    data = pathlib.Path("ck", name).read_bytes()
    outside = "../" + "x" * (len(name) - 3)
    pathlib.Path(outside[3:]).write_bytes(data)
    pathlib.Path("ck/.metadata").write_bytes(content.replace(name.encode(), outside.encode()))
    refused("outside of the folder")
    pathlib.Path("ck/.metadata").write_bytes(content)
    pathlib.Path("ck", name).write_bytes(data[:100])
    refused("shorter than")
    pathlib.Path("ck", name).write_bytes(bytes(len(data)))
    refused("RuntimeError|UnpicklingError", b=[0])
    assert not os.path.exists("evil")
    os.remove("ck/.metadata")
    refused("FileNotFoundError")


def test_one_file_and_back(tmp_path):
    torch.save({k: v for k, v in state().items() if k != "none"}, tmp_path / "one.pt")
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "ck")
    format_utils.dcp_to_torch_save(tmp_path / "ck", tmp_path / "two.pt")
    found = torch.load(tmp_path / "two.pt")
    assert equal(found["model"], state()["model"]) and equal(found["steps"], state()["steps"])


def test_states_of_optimizers():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(
        [{"params": net[0].parameters(), "lr": 0.1}, {"params": net[1].parameters(), "lr": 0.2}]
    )
    before = [p.detach().clone() for p in net.parameters()]
    _, made = get_state_dict(net, optimizer)
    assert all(map(torch.equal, before, net.parameters()))
    assert set(made["state"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert [group["lr"] for group in made["param_groups"]] == [0.1, 0.2]
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    for how in (None, options):
        saved = get_optimizer_state_dict(net, optimizer, options=how)
        assert how is None or torch.equal(
            saved["state.1.bias.exp_avg"], optimizer.state[net[1].bias]["exp_avg"]
        )
        other = torch.optim.Adam(
            [{"params": net[1].parameters(), "lr": 1.0}, {"params": net[0].parameters(), "lr": 1.0}]
        )
        net.zero_grad()
        set_optimizer_state_dict(net, other, saved, options=how)
        assert [group["lr"] for group in other.param_groups] == [0.2, 0.1]
        for p in net.parameters():
            assert torch.equal(other.state[p]["exp_avg"], optimizer.state[p]["exp_avg"])


def test_a_model_without_memory_gets_the_tensors_themselves():
    with torch.device("meta"):
        net = torch.nn.Linear(2, 1)
    values = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    assert not any(set_model_state_dict(net, values))
    assert net(torch.ones(1, 2)).tolist() == [[2.0]] and isinstance(net.weight, torch.nn.Parameter)


def test_names_of_older_programs():
    code = (
        "import rushlight; rushlight.install_as_torch()\n"
        "from torch.distributed._tensor import DeviceMesh, DTensor, Shard\n"
        "from torch.distributed._tensor.device_mesh import init_device_mesh\n"
        "from torch.distributed.checkpoint.state_dict_saver import async_save\n"
        "import torch.distributed.tensor as new\n"
        "import torch.distributed._functional_collectives as functional\n"
        "from torch.distributed.fsdp.api import ShardingStrategy\n"
        "from torch.distributed.fsdp._fully_shard import FSDPModule\n"
        "from torch.distributed.tensor._dtensor_spec import DTensorSpec\n"
        "from torch.distributed.launch import main\n"
        "from torch.distributed.constants import default_pg_timeout\n"
        "assert functional.all_reduce and functional.wait_tensor\n"
        "assert DTensor is new.DTensor and Shard is new.Shard"
    )
    ((status, text),) = ended([started([sys.executable, "-c", code])])
    assert status == 0, text


def test_safetensors_files(tmp_path):
    pytest.importorskip("safetensors")
    given = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": torch.ones(4, dtype=torch.bfloat16),
        "c": torch.tensor(5),
    }
    for k, options in enumerate([
        {}, {"save_distributed": True}, {"fqn_to_index_mapping": {"a": 1, "b": 2, "c": 2}},
        {"save_distributed": True, "enable_consolidation": True},
    ]):  # fmt: skip
        folder = tmp_path / str(k)
        dcp.save(given, storage_writer=dcp.HuggingFaceStorageWriter(folder, **options))
        found = {name: torch.zeros_like(t) for name, t in given.items()}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(folder))
        assert equal(found, given), options
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert sorted(os.listdir(tmp_path / "2")) == [*names, "model.safetensors.index.json"]
    with pytest.raises(
        dcp.CheckpointException, match="a safetensors file holds only tensors: n is none"
    ):
        dcp.save({"n": 3}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "objects"))


def test_parts_in_safetensors_files_become_whole_tensors(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    from rushlight.distributed.checkpoint.hf_storage import consolidate_safetensors_files

    whole = torch.arange(12.0).reshape(4, 3)
    for k, (rows, begin) in enumerate([(whole[:3], 0), (whole[3:], 3)], 1):
        about = {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": [begin, 0]}})}
        file = tmp_path / f"shard-0000{k}-model-00001-of-00001.safetensors"
        numpy.save_file({"w": rows.numpy()}, file, metadata=about)
    found = {"w": torch.zeros(4, 3)}
    dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(tmp_path))
    assert equal(found["w"], whole)
    consolidate_safetensors_files(tmp_path, tmp_path / "whole", {"w": 1})
    assert (
        numpy.load_file(tmp_path / "whole" / "model-00001-of-00001.safetensors")["w"]
        == whole.numpy()
    ).all()
    os.remove(tmp_path / "shard-00001-model-00001-of-00001.safetensors")
    with pytest.raises(RuntimeError, match="lack parts of w"):
        consolidate_safetensors_files(tmp_path, tmp_path / "whole", {"w": 1})


def test_properties_keep_their_memory_format():
    for kept in (torch.contiguous_format, torch.channels_last, torch.preserve_format):
        about = dcp.metadata.TensorProperties(torch.float32, memory_format=kept)
        assert pickle.loads(pickle.dumps(about)) == about
    with pytest.raises(RuntimeError, match=r"Invalid torch\.memory_format"):
        pickle.dumps(dcp.metadata.TensorProperties(memory_format=torch.channels_last_3d))
    with pytest.raises(RuntimeError, match="encoding: 7"):
        about.__setstate__((torch.float32, torch.strided, False, 7, False))
