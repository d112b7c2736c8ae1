"""Files of exported programs, of PyTorch and of our own: reading one executes nothing."""

import builtins
import copy
import io
import json
import pathlib
import zipfile

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, export, load, save

FILE = (
    pathlib.Path(__file__).parent / "data" / "exported_by_pytorch.pt2"
)  # see the script beside it


def changed(change):
    """The file with its graph changed."""
    found = io.BytesIO()
    with zipfile.ZipFile(FILE) as old, zipfile.ZipFile(found, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".json") and "/models/" in name:
                content = json.loads(data)
                change(content)
                data = json.dumps(content).encode()
            new.writestr(name, data)
    found.seek(0)
    return found


def wanted(program, x, y):
    """What the program computes."""
    w, b = program.state_dict["linear.weight"], program.state_dict["linear.bias"]
    first, rest = (x @ w.T + b).split(2, 1)
    best = y.amax(0)
    chosen = best.sin() if best.sum() > 0 else best.cos()
    return {"first": first * 2 + 1, "others": (rest, x.reshape(2 * len(x), -1), chosen)}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rows", [2, 5])
def test_program_runs(rows, sign):
    program = torch.export.load(FILE)
    assert program.range_constraints == {"s77": (2, 64)}
    module = program.module()
    x, y = torch.randn(rows, 2), sign * torch.rand(5, 2)
    torch.testing.assert_close(module(x, more={"y": y}), wanted(program, x, y))
    module(x, more={"y": y})
    assert module.calls == 2
    assert program.state_dict["calls"] == 0


def test_file_objects_and_sizes_that_do_not_fit():
    with open(FILE, "rb") as file:
        module = torch.export.load(file).module()
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] >= 2"):
        module(torch.ones(1, 2), more={"y": torch.ones(5, 2)})
    with pytest.raises(ValueError, match="keyword mismatch"):
        module(torch.ones(2, 2))


def test_extra_files():
    file = changed(lambda content: None)
    with zipfile.ZipFile(file, "a") as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{folder}/extra/notes.txt", "seen")
    file.seek(0)
    extra = {"notes.txt": "", "others.txt": ""}
    torch.export.load(file, extra_files=extra)
    assert extra == {"notes.txt": "seen", "others.txt": ""}


def test_program_is_written_and_read_again():
    program, file = torch.export.load(FILE), io.BytesIO()
    x, y = torch.randn(3, 2), torch.rand(5, 2)
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file)
    torch.testing.assert_close(again.module()(x, more={"y": y}), wanted(program, x, y))


@pytest.mark.parametrize(
    "target",
    [
        "builtins.eval",
        "os.system",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.set_.default",
        "_operator.attrgetter",
    ],
)
def test_other_targets_are_refused(target):
    def change(content):
        content["graph_module"]["graph"]["nodes"][1]["target"] = target

    with pytest.raises(RuntimeError, match="no operator that an exported program may call"):
        torch.export.load(changed(change))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (("schema_version", "major"), 99, "version 99"),
        (("graph_module", "graph", "outputs"), [{"as_custom_obj": {}}], "argument of kind"),
        (("graph_module", "signature", "output_specs"), [{"token": {}}], "output of kind 'token'"),
        (("graph_module", "signature", "input_specs"), [{"custom_obj": {}}], "input of kind 'custom_obj'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(key, value, message):
    def change(content):
        *path, last = key
        for name in path:
            content = content[name]
        content[last] = value

    with pytest.raises(RuntimeError, match=message):
        torch.export.load(changed(change))


def saved(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return file


def program_in(file):
    """The JSON of the program that a file holds."""
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read("archive/models/model.json"))


def with_program(file, program):
    """A file with another program."""
    found = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(found, "w") as new:
        for name in old.namelist():
            changed = name == "archive/models/model.json"
            new.writestr(name, json.dumps(program).encode() if changed else old.read(name))
    found.seek(0)
    return found


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.load.default",
        "torch.ops.operator.call",
        "_operator.call",
        "builtins.eval",
        "torch.save",
        "torch.Tensor.apply_",
        "torch.nn.os.system",
        "torch.ops.os.system",
    ],
)
def test_hostile_file_calls_nothing_but_operators(target):
    file = saved(export(nn.ReLU(), (torch.ones(2),)))
    program = program_in(file)
    program["graph_module"]["graph"]["nodes"][0]["target"] = target
    with pytest.raises(RuntimeError, match="is no operator"):
        load(with_program(file, program))


PAYLOADS = ['x=__import__("builtins").setattr(__import__("builtins"), "ran", 1)', 'a"); __import__("builtins").ran = 1; ("', "y\n    __import__('builtins').ran = 1\n#"]  # fmt: skip


def with_every_string_hostile(program, payload):
    """Copies of JSON data, each with another of its strings or names replaced."""
    for key in program if isinstance(program, dict) else range(len(program)):
        value = program[key]
        if isinstance(program, dict):
            yield {payload if k == key else k: v for k, v in program.items()}
        if isinstance(value, str):
            changed = copy.copy(program)
            changed[key] = payload
            yield changed
        elif isinstance(value, dict | list):
            for inner in with_every_string_hostile(value, payload):
                changed = copy.copy(program)
                changed[key] = inner
                yield changed


@pytest.mark.parametrize("payload", PAYLOADS)
def test_strings_of_a_hostile_file_are_not_run(payload, monkeypatch):
    monkeypatch.setattr(builtins, "ran", 0, raising=False)

    class Program(nn.Module):
        def forward(self, x, flag=None):
            y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
            return torch.nn.functional.gelu(y, approximate="tanh")

    x = torch.ones(2)
    file = saved(export(Program(), (x,)))
    made = list(with_every_string_hostile(program_in(file), payload))
    assert len(made) > 300
    for each in made:
        hostile = with_program(file, each)
        try:
            module = load(hostile).module()
            str(module.graph), module(x), module.print_readable(print_output=False)
        except Exception:  # noqa: BLE001  # any refusal will do
            pass
        assert not builtins.ran, each


def test_a_failing_save_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "program.pt2"
    torch.export.save(export(nn.ReLU(), (torch.ones(2),)), path)
    before = path.read_bytes()

    class Named(nn.Module):
        def forward(self, x):
            return x.topk(1)

    with pytest.raises(RuntimeError, match="results have a topk cannot be saved"):
        torch.export.save(export(Named(), (torch.ones(2),)), path)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_derived_sizes_and_modules_are_read_again():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
            self.second.weight = self.first.weight

        def forward(self, x, y):
            return self.second(self.first(x)).sum() + y.sum()

    rows, x, y = Dim("rows", min=2), torch.ones(3, 2), torch.ones(7)
    shapes = {"x": {0: rows}, "y": {0: 2 * rows + 1}}
    program = export(Shared(), (x, y), dynamic_shapes=shapes)
    again = load(saved(program))
    assert again.dynamic == program.dynamic
    assert again.range_constraints == program.range_constraints
    names = [name for name, _ in torch.export.unflatten(again).named_modules()]
    assert names == ["", "first", "second"]
    with pytest.raises(AssertionError, match="as x.size"):
        again.module()(torch.ones(4, 2), y)


def test_a_parameter_under_two_names_is_one_object():
    program = export(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), (torch.ones(1, 2),))
    file, found = saved(program), io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(found, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("weights_config.json"):
                entries = json.loads(data)["config"]
                entries["1.weight"] = entries["0.weight"]
                data = json.dumps({"config": entries}).encode()
            new.writestr(name, data)
    found.seek(0)
    state = load(found).state_dict
    assert state["0.weight"] is state["1.weight"]
    assert state["0.bias"] is not state["1.bias"]


def test_operators_inside_of_the_package_are_refused():
    program = export(nn.BatchNorm1d(2), (torch.ones(3, 2),)).run_decompositions()
    with pytest.raises(RuntimeError, match="save the program as it was before run_decompositions"):
        saved(program)


def test_a_decomposed_program_is_written_and_read_again():
    x = torch.randn(3, 2)
    program = export(nn.Sequential(nn.ReflectionPad1d(1), nn.Linear(4, 2)), (x,))
    program = program.run_decompositions()
    torch.testing.assert_close(load(saved(program)).module()(x), program.module()(x))
