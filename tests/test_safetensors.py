"""The safetensors package under the import hook: its torch module saves and loads tensors of Rushlight."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.numpy

import rushlight as torch
from processes import printed_as_torch
from rushlight.cli import main


def test_files_of_every_type(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import torch
        from safetensors import safe_open
        from safetensors.torch import load, load_file, save, save_file

        names = "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool uint16 uint32 uint64 complex64"
        tensors = {n: torch.tensor([[0, 1, 2], [1, 0, 1]]).to(getattr(torch, n)) for n in names.split()}
        tensors |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 3)}
        save_file(tensors, "a.safetensors", metadata={"k": "v"})
        for back in (load_file("a.safetensors"), load(save(tensors))):
            assert back.keys() == tensors.keys()
            for name, t in tensors.items():
                assert type(back[name]) is torch.Tensor and back[name].dtype is t.dtype, name
                assert torch.equal(back[name], t), name
        with safe_open("a.safetensors", framework="pt", device="cpu") as f:
            part = f.get_slice("float32")
            print(f.metadata(), f.get_tensor("scalar"), part.get_shape(), part[:, 1:].tolist())
        """,
    )
    assert out == "{'k': 'v'} tensor(2.5000) [2, 3] [[1.0, 2.0], [0.0, 1.0]]\n"
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert found["int16"].tolist() == [[0, 1, 2], [1, 0, 1]]


def test_tied_weights_and_refusals(tmp_path):
    out = printed_as_torch(
        tmp_path,
        """
        import torch
        from torch import nn
        from safetensors.torch import load_model, save_file, save_model

        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
                self.b.weight = self.a.weight

        saved, loaded = Tied(), Tied()
        save_model(saved, "m.safetensors")
        print(load_model(loaded, "m.safetensors"), torch.equal(loaded.b.weight, saved.a.weight))
        x = torch.ones(4, 4)
        for tensors in ({"a": x, "b": x}, {"a": x, "b": x[0]}, {"a": x.t()[:2]}, {"a": 1}):
            try:
                save_file(tensors, "x.safetensors")
            except Exception as error:
                print(type(error).__name__)
        """,
    )
    assert out.splitlines() == [
        "(set(), []) True",
        *("RuntimeError", "RuntimeError", "ValueError", "ValueError"),
    ]


def test_convert_and_inspect(tmp_path, capsys):
    names = [str(tmp_path / n) for n in ("a.pt", "b.safetensors", "c.pt")]
    weights = {
        "t": torch.arange(6.0).reshape(2, 3).t(),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "wide": torch.tensor(3, dtype=torch.uint64),
    }
    torch.save(weights, names[0])
    main(["convert", *names[:2]])
    main(["convert", *names[1:]])
    back = torch.load(names[2])
    assert back.keys() == weights.keys()
    for name, t in weights.items():
        assert back[name].dtype is t.dtype
        assert torch.equal(back[name], t)
    main(["inspect", names[1]])
    assert "4 tensors, 11 elements" in capsys.readouterr().out


def test_storages_of_files(tmp_path):
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.float32).tofile(path)
    mapped = torch.UntypedStorage.from_file(str(path), False, 16)
    t = torch.asarray(mapped, dtype=torch.float32)
    t[0] = 5
    assert torch.asarray(mapped[4:8]).tolist() == [0, 0, 128, 63]
    assert torch.asarray(mapped, dtype=torch.float32).tolist() == [5, 1, 2, 3]  # one memory
    assert np.fromfile(path, np.float32)[0] == 0  # and not the file's
    torch.FloatStorage.from_file(str(path), True, 6)[5] = 9.0
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2, 3, 0, 9]
    assert torch.from_file(str(path), size=2).tolist() == [0, 1]
    assert torch.UntypedStorage.from_file(str(path), False, 0).nbytes() == 0
    with pytest.raises(RuntimeError, match="24 bytes, 25 are asked for"):
        torch.UntypedStorage.from_file(str(path), False, 25)
    with pytest.raises(RuntimeError, match="unable to open"):
        torch.UntypedStorage.from_file(str(tmp_path / "absent"), False, 1)
