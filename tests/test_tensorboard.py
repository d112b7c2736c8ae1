"""utils.tensorboard: what is written is read back with TensorBoard's own reader."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.util.tensor_util import make_ndarray

import rushlight as torch
from processes import printed
from rushlight.utils.tensorboard import FileWriter, SummaryWriter


def reader(folder) -> EventAccumulator:
    everything = {"scalars": 0, "images": 0, "histograms": 0, "audio": 0, "tensors": 0}
    return EventAccumulator(str(folder), size_guidance=everything).Reload()


def events(folder):
    """Every event of the files right in the folder."""
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            yield from LegacyEventFileLoader(os.path.join(folder, name)).Load()


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(5):
            writer.add_scalar("loss/train", torch.tensor(1.0 / (step + 1)), step, walltime=step)
        writer.add_scalar("new", 2.5, 1, new_style=True, double_precision=True)
        writer.add_scalars("pair/both", {"a": 1.0, "b": np.float32(2)}, 7)
        with pytest.raises(AssertionError, match="one element"):
            writer.add_scalar("many", torch.ones(2))
    read = reader(tmp_path)
    found = read.Scalars("loss/train")
    assert [(e.step, e.wall_time) for e in found] == [(k, float(k)) for k in range(5)]
    assert [e.value for e in found] == pytest.approx([1 / (k + 1) for k in range(5)])
    assert read.Tensors("new")[0].tensor_proto.double_val == [2.5]
    for tag, value in (("a", 1.0), ("b", 2.0)):
        (event,) = reader(tmp_path / f"pair_both_{tag}").Scalars("pair/both")
        assert (event.step, event.value) == (7, value)


def test_histogram(tmp_path):
    values = torch.linspace(-2, 3, 101)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", values, 3)
        writer.add_histogram("few", values, 3, bins=20, max_bins=5)
        writer.add_histogram_raw("raw", 0, 3, 4, 6.0, 14.0, [1, 2, 3], [1, 1, 2], 1)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("empty", torch.empty(0))
        with pytest.raises(ValueError, match="bucket_limits"):
            writer.add_histogram_raw("raw", 0, 3, 4, 6.0, 14.0, [1, 2], [1])
    read = reader(tmp_path)
    h = read.Histograms("h")[0].histogram_value
    assert (h.min, h.max, h.num) == (-2, 3, 101)
    assert h.sum == pytest.approx(50.5)
    assert sum(h.bucket) == 101
    few = read.Histograms("few")[0].histogram_value
    assert few.bucket_limit == pytest.approx([-2, -1, 0, 1, 2, 3])
    assert few.bucket == [0, 20, 20, 20, 20, 21]
    assert read.Histograms("raw")[0].histogram_value.bucket == [1, 1, 2]


def pixels(event) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_images(tmp_path):
    image = torch.rand(3, 4, 5)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("float", image, 1)
        writer.add_image("bytes", (image * 255).to(torch.uint8).permute(1, 2, 0), dataformats="HWC")
        writer.add_image("gray", image[0], dataformats="HW")
        writer.add_images("batch", torch.stack([image] * 9))
        writer.add_image_with_boxes(
            "box", torch.zeros(3, 20, 20), torch.tensor([[2.0, 2, 10, 10]]), labels="a"
        )
        writer.add_video("video", torch.rand(4, 2, 3, 8, 6))
        with pytest.raises(AssertionError, match="size of input tensor"):
            writer.add_image("wrong", image, dataformats="HW")
    read = reader(tmp_path)
    expected = (image * 255).to(torch.uint8).permute(1, 2, 0).numpy()
    assert (pixels(read.Images("float")[0]) == expected).all()
    assert (pixels(read.Images("bytes")[0]) == expected).all()
    assert (pixels(read.Images("gray")[0]) == expected[:, :, :1]).all()
    batch = pixels(read.Images("batch")[0])
    assert batch.shape == (8, 40, 3)
    assert (batch[4:, :5] == expected).all()
    assert not batch[4:, 5:].any()
    assert pixels(read.Images("box")[0])[2, 5].tolist() == [255, 0, 0]
    video = read.Images("video")[0]
    assert (video.height, video.width, video.encoded_image_string[:6]) == (16, 12, b"GIF89a")


def test_figures(tmp_path):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    figures = [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(3)]
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("kept", figures[0], 1, close=False)
        assert pyplot.fignum_exists(figures[0].number)
        writer.add_figure("list", figures, 1)
        assert not any(pyplot.fignum_exists(f.number) for f in figures)
    read = reader(tmp_path)
    assert pixels(read.Images("kept")[0]).shape == (50, 100, 3)
    assert pixels(read.Images("list")[0]).shape == (50, 300, 3)


@pytest.mark.filterwarnings("ignore:Setting the dtype on a NumPy array")  # TensorBoard does
def test_sound_text_tensors_meshes(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("tone", torch.linspace(-1, 1, 100)[None], sample_rate=8000)
        with pytest.warns(UserWarning, match="out of range"):
            writer.add_audio("loud", torch.full((1, 10), 2.0))
        writer.add_text("note", "# é", 2)
        for dtype in ("float32", "float16", "bfloat16", "int64", "bool", "complex64", "uint8"):
            writer.add_tensor(dtype, torch.tensor([0, 1, 1]).to(getattr(torch, dtype)))
        writer.add_mesh("mesh", torch.rand(1, 4, 3), faces=torch.tensor([[[0, 1, 2]]]))
    read = reader(tmp_path)
    tone = read.Audio("tone")[0]
    assert (tone.sample_rate, tone.length_frames) == (8000.0, 100)
    assert read.Tensors("note/text_summary")[0].tensor_proto.string_val == ["# é".encode()]
    for dtype in ("float32", "float16", "int64", "bool", "complex64", "uint8"):
        back = make_ndarray(read.Tensors(dtype)[0].tensor_proto)
        assert (back.dtype.name, back.tolist()) == (dtype, [0, 1, 1])
    assert read.Tensors("bfloat16")[0].tensor_proto.half_val == [0, 0x3F80, 0x3F80]
    assert read.PluginTagToContent("mesh").keys() == {"mesh_VERTEX", "mesh_FACE"}


def test_pr_curve(tmp_path):
    labels, predictions = torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.8, 0.6, 0.4])
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", labels, predictions, num_thresholds=6)
        writer.add_pr_curve_raw(
            "raw", *[torch.full((4,), float(k)) for k in range(6)], num_thresholds=4
        )
    read = reader(tmp_path)
    rows = np.array(read.Tensors("pr")[0].tensor_proto.float_val).reshape(6, 6)
    assert rows[0].tolist() == [2, 2, 2, 2, 1, 0]  # true positives at 0, 0.2 ... 1
    assert rows[1].tolist() == [2, 1, 1, 0, 0, 0]
    assert rows[5].tolist() == [1, 1, 1, 1, 0.5, 0]
    assert read.PluginTagToContent("pr_curves").keys() == {"pr", "raw"}


def test_embedding(tmp_path):
    vectors = torch.arange(6.0).reshape(3, 2)
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(
            vectors, ["a", "b", "c"], torch.rand(3, 3, 4, 5), global_step=5, tag="x/y"
        )
        writer.add_embedding(vectors, [["a", 1], ["b", 2], ["c", 3]], metadata_header=["n", "v"])
        with pytest.raises(AssertionError, match="#labels"):
            writer.add_embedding(vectors, ["a"])
    place = tmp_path / "00005" / "x%2fy"
    assert (place / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (place / "metadata.tsv").read_text() == "a\nb\nc\n"
    assert (place / "sprite.png").exists()
    assert (tmp_path / "00000" / "default" / "metadata.tsv").read_text().splitlines()[0] == "n\tv"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2
    assert 'tensor_path: "00005/x%2fy/tensors.tsv"' in config


def test_hparams(tmp_path):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "n": 4, "kind": "a", "none": None}, {"acc": 0.5}, {"lr": [0.1, 0.2]}, "run1"
        )
        with pytest.raises(TypeError, match="dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="one of int, float"):
            writer.add_hparams({"x": object()}, {})
        with pytest.raises(TypeError, match="list of same type"):
            writer.add_hparams({"x": 1}, {}, {"x": ["a"]})
    read = reader(tmp_path / "run1")
    assert read.Scalars("acc")[0].value == 0.5
    content = read.PluginTagToContent("hparams")
    start = HParamsPluginData.FromString(content["_hparams_/session_start_info"])
    assert start.session_start_info.hparams["lr"].number_value == 0.1
    assert set(start.session_start_info.hparams) == {"lr", "n", "kind"}
    experiment = HParamsPluginData.FromString(content["_hparams_/experiment"]).experiment
    assert len(experiment.hparam_infos[0].domain_discrete.values) == 2
    assert experiment.metric_infos[0].name.tag == "acc"


def test_functions_that_make_records():
    """Those of torch.utils.tensorboard.summary that programs call themselves."""
    from rushlight.utils.tensorboard import summary

    experiment, start, end = summary.hparams({"lr": 0.1}, {"loss": torch.zeros(1)})
    tags = [record.value[0].tag.rpartition("/")[2] for record in (experiment, start, end)]
    assert tags == ["experiment", "session_start_info", "session_end_info"]
    with pytest.raises(TypeError, match="metric_dict should be a dictionary"):
        summary.hparams({}, [])
    curve = summary.pr_curve_raw("pr", [5, 1], [4, 0], [0, 4], [0, 4], [0.5, 1.0], [1.0, 0.2], 2)
    assert make_ndarray(curve.value[0].tensor)[:2].tolist() == [[5, 1], [4, 0]]
    boxes = summary.image_boxes("boxes", torch.zeros(3, 8, 10), torch.tensor([[1, 1, 5, 5]]))
    plain = summary.image("plain", torch.zeros(3, 8, 10), dataformats="CHW")
    sizes = [(r.value[0].image.height, r.value[0].image.width) for r in (boxes, plain)]
    assert sizes == [(8, 10)] * 2
    images = [r.value[0].image.encoded_image_string for r in (boxes, plain)]
    assert images[0] != images[1]


def test_custom_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"])
        with pytest.raises(AssertionError, match="three tags"):
            writer.add_custom_scalars_marginchart(["a"])
    found = [v for e in events(tmp_path) for v in e.summary.value]
    assert [v.tag for v in found] == ["custom_scalars__config__"] * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.tanh(self.head(self.body(x)) + 1)


def test_graph(tmp_path, capsys):
    model = Net()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, torch.ones(5, 4), verbose=True)
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(model)
    assert "Linear" in capsys.readouterr().out
    (content,) = [e.graph_def for e in events(tmp_path) if e.graph_def]
    nodes = {node.name.rstrip("0123456789"): node for node in GraphDef.FromString(content).node}
    linear = nodes["Net/Sequential[body]/Linear[0]/linear_"]
    assert set(linear.input) == {"input/0", "Net/body/0/weight", "Net/body/0/bias"}
    (shape,) = linear.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [5, 3]
    assert nodes["output/"].input[0].startswith("Net/tanh_")
    assert all(p.grad_fn is None for p in model.parameters())
    assert not model.head._forward_hooks


def test_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_x") as writer:
        assert str(writer.log_dir).startswith("runs" + os.sep)
        assert str(writer.log_dir).endswith("_x")
        assert writer.get_logdir() == writer.log_dir
    assert len(os.listdir(writer.log_dir)) == 1
    writer = SummaryWriter("a", purge_step=7, filename_suffix=".end")
    writer.add_scalar("x", 1.0, 7)
    writer.flush()
    assert [e.step for e in events("a")] == [0, 7, 7, 7]
    writer.close()
    writer.close()
    (name,) = os.listdir("a")
    assert name.endswith(".end")
    writer.add_scalar("x", 2.0, 8)  # opens a file again
    writer.close()
    assert sum(len(e.summary.value) for e in events("a")) == 2
    one = FileWriter("b")
    assert one.get_logdir() == "b"
    one.close()


def test_without_the_package():
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "try:\n    from rushlight.utils.tensorboard import SummaryWriter\n"
        "except ImportError as error:\n    print(error)"
    )
    assert "pip install 'rushlight[tensorboard]'" in printed(code)
