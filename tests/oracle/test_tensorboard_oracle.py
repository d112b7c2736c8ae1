"""The event files of SummaryWriter hold, record for record, what PyTorch's hold."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import torch.utils.tensorboard
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import rushlight
import rushlight.utils.tensorboard


def write(lib, folder):
    """Records of every kind, made with either library from the same numbers."""
    rng = np.random.default_rng(0)

    def given(*shape):
        return lib.from_numpy(rng.random(shape, dtype=np.float32))

    with lib.utils.tensorboard.SummaryWriter(folder, purge_step=2) as w:
        w.add_scalar("a/loss", 1.5, 3)
        w.add_scalar("tensor", lib.tensor([[2.5]]), 3, new_style=True)
        w.add_scalar("double", np.float64(2.5), 3, new_style=True, double_precision=True)
        w.add_scalars("run/s", {"x": 1.0, "y": 2}, 4)
        w.add_histogram("h", lib.arange(20) - 3, 1)
        w.add_histogram("h", given(1000) - 0.5, 1)
        w.add_histogram("half", given(30).to(lib.float16), 1)
        for bins, most in (("auto", 5), (10, None), (10, 3), (17, 4), ([0.0, 0.5, 1.0], None)):
            w.add_histogram("bins", given(40).numpy(), 1, bins=bins, max_bins=most)
        w.add_image("i", given(3, 4, 5), 1)
        w.add_image("i", given(1, 4, 5) * 2 - 0.5, 1)
        w.add_image("i", given(4, 5), dataformats="WH")
        w.add_image("i", (given(4, 5, 3) * 255).to(lib.uint8), dataformats="HWC")
        w.add_images("i", given(11, 3, 4, 4))
        w.add_images("i", given(2, 4, 4, 1), dataformats="NHWC")
        boxes = lib.tensor([[2.0, 2, 18, 15], [4, 1, 9, 30]])
        w.add_image_with_boxes("box", given(3, 20, 20), boxes, labels=["a", "label"], rescale=2)
        w.add_image_with_boxes("box", given(3, 20, 20), boxes, labels="wrong number")
        w.add_text("t", "# é", 2)
        w.add_pr_curve("pr", (given(50) > 0.5).to(lib.int64), given(50), 1)
        w.add_pr_curve("pr", given(50) > 0.5, given(50), 1, 20, weights=given(50).numpy())
        w.add_pr_curve_raw("raw", *[given(4) for _ in range(6)], 1, num_thresholds=4)
        w.add_custom_scalars({"c": {"m": ["Multiline", ["a", "b"]], "n": ["Margin", list("abc")]}})
        w.add_custom_scalars_multilinechart(["q", "r"])
        w.add_custom_scalars_marginchart(list("abc"), category="k", title="z")
        # not the 16-bit floats and uint8: PyTorch writes those into fields where readers misread them
        for name in "float32 float64 int8 int16 int32 int64 bool complex64 complex128".split():
            w.add_tensor(name, lib.tensor([[0, 1], [1, 0]]).to(getattr(lib, name)), 1)
        w.add_histogram_raw("hr", 0, 3, 4, 6.0, 14.0, [1, 2, 3], [1, 1, 2], 1)
        w.add_audio("au", given(1, 100) - 0.5, 1, sample_rate=8000)
        faces = lib.tensor([[[0, 1, 2]]])
        w.add_mesh("m", given(1, 4, 3), (given(1, 4, 3) * 255).int(), faces, {"b": 1, "a": 2})
        w.add_embedding(given(5, 2), list("abcde"), given(5, 3, 4, 6), 5, "e/1")
        w.add_embedding(given(2, 2), [["a", "1"], ["b", "2"]], metadata_header=["n", "v"])
        values = {"lr": 0.1, "n": 4, "s": "abc", "b": True, "t": lib.tensor([2.0])}
        w.add_hparams(values, {"acc": 0.5}, {"lr": [0.1, 0.2], "b": [True], "s": ["x"]}, "hp")


def contents(folder):
    """{path without time and host: the records or the bytes in that file}"""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            key = os.path.relpath(path, folder).partition(".tfevents")[0]
            if "tfevents" not in name:
                with open(path, "rb") as file:
                    found[key] = file.read()
                continue
            found[key] = events = list(LegacyEventFileLoader(path).Load())
            for event in events:
                event.wall_time = 0.0
    return found


def plain(event):
    """An event in a form that two equal ones share: maps in a serialised message have no order."""
    for value in event.summary.value:
        data = value.metadata.plugin_data
        if data.plugin_name == "hparams":
            return value.tag, str(HParamsPluginData.FromString(data.content))
    return str(event)


def test_records_are_those_of_pytorch(tmp_path):
    both = []
    for lib in (torch, rushlight):
        write(lib, tmp_path / lib.__name__)
        both.append(contents(tmp_path / lib.__name__))
    theirs, ours = both
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        if isinstance(expected, bytes):
            assert ours[name] == expected, name
            continue
        assert len(ours[name]) == len(expected), name
        for got, event in zip(ours[name], expected):
            assert plain(got) == plain(event), name


def test_wrong_arguments_are_the_same_errors(tmp_path):
    for lib in (torch, rushlight):
        with lib.utils.tensorboard.SummaryWriter(tmp_path / lib.__name__) as w:
            for error, call in (
                (AssertionError, lambda: w.add_scalar("x", lib.ones(2))),
                (NotImplementedError, lambda: w.add_histogram("x", [1.0])),
                (ValueError, lambda: w.add_histogram("x", lib.empty(0))),
                (AssertionError, lambda: w.add_image("x", lib.ones(2, 2))),
                (AssertionError, lambda: w.add_image("x", lib.ones(2, 2), dataformats="HH")),
                (AssertionError, lambda: w.add_audio("x", lib.ones(2, 2))),
                (AssertionError, lambda: w.add_embedding(lib.ones(2, 2), metadata=["a"])),
                (TypeError, lambda: w.add_hparams([], {})),
                (ValueError, lambda: w.add_hparams({"a": []}, {})),
                (ValueError, lambda: w.add_histogram_raw("x", 0, 1, 1, 1, 1, [1], [])),
            ):
                with pytest.raises(error):
                    call()
