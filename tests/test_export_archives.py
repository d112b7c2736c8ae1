"""Programs that PyTorch exported: `torch.export.load` reads them without executing anything."""

import io
import json
import pathlib
import zipfile

import pytest

import rushlight as torch

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
