"""The records of event files: for each kind a function that makes the `Summary` that TensorBoard's plugins read.

The messages and their fields are those of the `tensorboard` package (`tensorboard/compat/proto`, `tensorboard/plugins`).
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from rushlight.core.tensor import Tensor
from rushlight.utils.tensorboard._convert_np import make_np
from rushlight.utils.tensorboard._utils import convert_to_HWC, make_grid


def _one(tag: str, **field: Any) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, **field)])


def _for_plugin(name: str, content: Any = b"") -> SummaryMetadata:
    """Return the metadata that tell TensorBoard which plugin shows a value."""
    if not isinstance(content, bytes):
        content = content.SerializeToString()
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content)
    )


def _shape(*sizes: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def _floats(values: np.ndarray) -> TensorProto:
    return TensorProto(
        dtype="DT_FLOAT", float_val=values.reshape(-1).tolist(), tensor_shape=_shape(*values.shape)
    )


def _text(content: bytes, *sizes: int) -> TensorProto:
    return TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=_shape(*sizes))


# -- numbers ---------------------------------------------------------------------------------------


def scalar(tag: str, value: Any, new_style: bool = False, double: bool = False) -> Summary:
    """Make the record of one number, with `new_style` a tensor of TensorBoard's scalars plugin. Raise AssertionError for more than one number."""
    array = make_np(value).squeeze()
    if array.ndim:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and "
            f"{array.ndim} dimensions (add_scalar {tag!r})"
        )
    number = float(array)
    if not new_style:
        return _one(tag, simple_value=number)
    tensor = (
        TensorProto(dtype="DT_DOUBLE", double_val=[number])
        if double
        else TensorProto(dtype="DT_FLOAT", float_val=[number])
    )
    return _one(tag, tensor=tensor, metadata=_for_plugin("scalars"))


# dtype -> (TensorFlow's name of it, the field for its values, how a tensor becomes the list of them)
# Fields as `tensorboard.util.tensor_util.make_ndarray` reads them: PyTorch's 16-bit floats (written as float32's bits)
# and uint8 (in a field for 32 bits) come back as other numbers.
_FIELDS: dict[str, tuple[str, str, Callable[[Any], list]]] = {
    "float16": ("DT_HALF", "half_val", lambda a: a.view(np.uint16).tolist()),
    "bfloat16": ("DT_BFLOAT16", "half_val", lambda a: a.view(np.uint16).tolist()),
    "float32": ("DT_FLOAT", "float_val", np.ndarray.tolist),
    "float64": ("DT_DOUBLE", "double_val", np.ndarray.tolist),
    "int8": ("DT_INT8", "int_val", np.ndarray.tolist),
    "uint8": ("DT_UINT8", "int_val", np.ndarray.tolist),
    "int16": ("DT_INT16", "int_val", np.ndarray.tolist),
    "int32": ("DT_INT32", "int_val", np.ndarray.tolist),
    "int64": ("DT_INT64", "int64_val", np.ndarray.tolist),
    "bool": ("DT_BOOL", "bool_val", np.ndarray.tolist),
    "complex64": ("DT_COMPLEX64", "scomplex_val", lambda a: a.view(np.float32).tolist()),
    "complex128": ("DT_COMPLEX128", "dcomplex_val", lambda a: a.view(np.float64).tolist()),
}


def tensor(tag: str, value: Tensor) -> Summary:
    """Make the record of a tensor. Raise ValueError if it has 2 GiB or more, or a dtype that TensorFlow does not have."""
    if value.numel() * value.itemsize >= 2**31:
        raise ValueError(
            f"tensor is bigger than protocol buffer's hard limit of 2GB in size (add_tensor {tag!r})"
        )
    if value.dtype.name not in _FIELDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {value.dtype}")
    kind, field, listed = _FIELDS[value.dtype.name]
    flat = np.ascontiguousarray(value.detach().cpu()._array).reshape(-1)
    content = {field: listed(flat)}
    proto = TensorProto(dtype=kind, tensor_shape=_shape(*value.shape), **content)
    return _one(tag, tensor=proto, metadata=_for_plugin("tensor"))


def default_bins() -> list[float]:
    """Return edges for any histogram: from 1e-12 to 1e20, each a tenth larger than the one before, their negatives, and 0."""
    edges = [1e-12]
    while edges[-1] * 1.1 < 1e20:
        edges.append(edges[-1] * 1.1)
    return [-edge for edge in reversed(edges)] + [0.0] + edges


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """Make the record of a histogram: counts of the values between the edges, from the first bin that is not empty to the last.

    A count in the file stands at the right edge of its bin; an empty bin in front gives the left edge of the first.
    With `max_bins`, neighbouring bins are joined until about so many are left. ValueError for no values.
    """
    values = make_np(values).astype(float).reshape(-1)
    if not values.size:
        raise ValueError(f"The input has no element (add_histogram {tag!r})")
    counts, edges = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        starts = np.arange(0, len(counts), step)
        edges = np.append(edges[starts], edges[-1])
        counts = np.add.reduceat(counts, starts)
    (filled,) = np.nonzero(counts)
    if not len(filled):
        raise ValueError(f"The histogram is empty: no value lies in a bin (add_histogram {tag!r})")
    first, last = int(filled[0]), int(filled[-1])
    return histogram_raw(
        tag, values.min(), values.max(), len(values), values.sum(), values.dot(values),
        edges[first : last + 2].tolist(), [0, *counts[first : last + 1].tolist()],
    )  # fmt: skip


def histogram_raw(
    tag: str, low: Any, high: Any, num: Any, total: Any, squares: Any, limits: Any, counts: Any
) -> Summary:
    """Make the record of a histogram that is computed already."""
    return _one(
        tag,
        histo=HistogramProto(
            min=low, max=high, num=num, sum=total, sum_squares=squares,
            bucket_limit=limits, bucket=counts,
        ),
    )  # fmt: skip


def _pr_metadata(num_thresholds: int) -> SummaryMetadata:
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    return _for_plugin("pr_curves", PrCurvePluginData(version=0, num_thresholds=num_thresholds))


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Summary:
    """Make the record of precision and recall at `num_thresholds` (at most 127) thresholds from 0 to 1.

    Rows: true positives, false positives, true negatives, false negatives, precision, recall. A prediction counts as
    positive from its own threshold, floor(p (n - 1)), down.
    """
    labels, predictions = make_np(labels).reshape(-1), make_np(predictions).reshape(-1)
    n = min(num_thresholds, 127)
    weight = np.float64(1.0) if weights is None else make_np(weights).reshape(-1)
    reached = np.floor(predictions * (n - 1)).astype(np.int32)
    inside = (reached >= 0) & (reached < n)
    positive = labels.astype(np.float64)

    def at_least(share: np.ndarray) -> np.ndarray:
        share = np.broadcast_to(share, reached.shape)
        return np.bincount(reached[inside], share[inside], n)[::-1].cumsum()[::-1]

    tp, fp = at_least(positive * weight), at_least((1.0 - positive) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7  # so that no positives at all are a precision of 0
    rows = (tp, fp, tn, fn, tp / np.maximum(tiny, tp + fp), tp / np.maximum(tiny, tp + fn))
    return _one(tag, tensor=_floats(np.stack(rows)), metadata=_pr_metadata(n))


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any,
    num_thresholds: int = 127, weights: Any = None,
) -> Summary:  # fmt: skip
    """Make the record of the six rows of `pr_curve`, which are computed already: tensors, arrays or lists."""
    stacked = np.stack([np.asarray(row) for row in (tp, fp, tn, fn, precision, recall)])
    return _one(tag, tensor=_floats(stacked), metadata=_pr_metadata(min(num_thresholds, 127)))


# -- pictures and sounds ---------------------------------------------------------------------------


def _calc_scale_factor(array: Any) -> int:
    """1 for uint8; 255 for other types, whose range is 0 to 1."""
    return 1 if make_np(array).dtype == np.uint8 else 255


def _to_bytes(array: np.ndarray) -> np.ndarray:
    """Return uint8 as it is, and other types as uint8."""
    return (array.astype(np.float32) * _calc_scale_factor(array)).clip(0, 255).astype(np.uint8)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """Make the record of a PNG; images of a batch are arranged in a grid."""
    return _png(tag, _picture(tensor, dataformats), rescale)


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: list[str] | None = None,
) -> Summary:
    """Make the record of a PNG in which boxes are drawn in red: rows of (left, top, right, bottom)."""
    drawn = _picture(tensor_image, dataformats)
    _draw_boxes(drawn, make_np(tensor_boxes), labels)
    return _png(tag, drawn, rescale)


def _picture(tensor: Any, dataformats: str) -> Any:
    from PIL import Image

    array = _to_bytes(convert_to_HWC(make_np(tensor), dataformats))
    return Image.fromarray(np.ascontiguousarray(array))


def _png(tag: str, drawn: Any, rescale: float) -> Summary:
    from PIL import Image

    width, height = drawn.size
    drawn = drawn.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    drawn.save(file, format="PNG")
    content = {"height": height, "width": width, "colorspace": 3}
    return _one(tag, image=Summary.Image(encoded_image_string=file.getvalue(), **content))


def _draw_boxes(picture: Any, boxes: np.ndarray, labels: list[str] | None) -> None:
    """Draw each box as a line of two pixels, with its label inside at the lower left on red."""
    from PIL import ImageDraw, ImageFont

    pen, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for i, (x0, y0, x1, y1) in enumerate(boxes[:, :4].tolist()):
        pen.line([(x0, y0), (x0, y1), (x1, y1), (x1, y0), (x0, y0)], width=2, fill="Red")
        if labels is not None and labels[i]:
            left, top, right, bottom = font.getbbox(labels[i])
            w, h = right - left, bottom - top
            margin = -(-h // 20)
            pen.rectangle([(x0, y1 - h - 2 * margin), (x0 + w, y1)], fill="Red")
            pen.text((x0 + margin, y1 - h - margin), labels[i], fill="black", font=font)


def figure_pixels(figures: Any, close: bool = True) -> np.ndarray:
    """Return a figure of matplotlib as uint8 `[3, H, W]`, a list of figures as `[N, 3, H, W]`."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def pixels(figure: Any) -> np.ndarray:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1).copy()
        if close:
            pyplot.close(figure)
        return drawn

    return np.stack([pixels(f) for f in figures]) if isinstance(figures, list) else pixels(figures)


def video(tag: str, frames: Any, fps: float = 4) -> Summary:
    """Make the record of videos `[N, T, C, H, W]`, a GIF with the N videos in a grid. (PyTorch needs moviepy; here Pillow writes it.)"""
    from PIL import Image

    array = make_np(frames)
    if array.ndim != 5:
        raise AssertionError(
            f"add_video expects a tensor [N, T, C, H, W], got shape {list(array.shape)}"
        )
    columns = -(-len(array) // 2 ** ((len(array).bit_length() - 1) // 2))
    pictures = [
        Image.fromarray(
            np.ascontiguousarray(make_grid(_to_bytes(array[:, t]), columns).transpose(1, 2, 0))
        )
        for t in range(array.shape[1])
    ]
    file = io.BytesIO()
    pictures[0].save(
        file, format="GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0
    )
    width, height = pictures[0].size
    content = {"height": height, "width": width, "colorspace": 3}
    return _one(tag, image=Summary.Image(encoded_image_string=file.getvalue(), **content))


def audio(tag: str, sound: Any, sample_rate: int = 44100) -> Summary:
    """Make the record of a sound, a WAV file of 16 bits and one channel; values outside of [-1, 1] are clipped with a warning."""
    import wave

    array = make_np(sound).squeeze()
    if array.ndim != 1:
        raise AssertionError(f"input tensor should be 1 dimensional, got shape {list(array.shape)}")
    if array.size and abs(array).max() > 1:
        warnings.warn("audio amplitude out of range, auto clipped (add_audio)", stacklevel=4)
        array = array.clip(-1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(sample_rate)
        written.writeframes((array * 32767).astype("<i2").tobytes())
    return _one(
        tag,
        audio=Summary.Audio(
            sample_rate=sample_rate, num_channels=1, length_frames=len(array),
            encoded_audio_string=file.getvalue(), content_type="audio/wav",
        ),
    )  # fmt: skip


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: dict | None) -> Summary:
    """Make the record of points or triangles in space, each part `[B, N, 3]`; `config` is for three.js, which draws them."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    parts = [
        (make_np(part), kind)
        for part, kind in (
            (vertices, MeshPluginData.VERTEX),
            (faces, MeshPluginData.FACE),
            (colors, MeshPluginData.COLOR),
        )
        if part is not None
    ]
    mask = metadata.get_components_bitmask([kind for _, kind in parts])
    drawn_with = "{}" if config is None else json.dumps(config, sort_keys=True)
    values = [
        Summary.Value(
            tag=metadata.get_instance_name(tag, kind),
            tensor=_floats(part),
            metadata=metadata.create_summary_metadata(
                tag, None, kind, mask, part.shape, None, json_config=drawn_with
            ),
        )
        for part, kind in parts
    ]
    return Summary(value=values)


# -- text and tables -------------------------------------------------------------------------------


def text(tag: str, content: str) -> Summary:
    """Make the record of a text in Markdown."""
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    note = _for_plugin("text", TextPluginData(version=0))
    return _one(f"{tag}/text_summary", tensor=_text(content.encode(), 1), metadata=note)


def custom_scalars(layout: dict[str, dict[str, list]]) -> Summary:
    """Make the record of the layout of charts and their curves: {category: {chart: ["Multiline" or "Margin", [tag, ...]]}}."""
    from tensorboard.plugins.custom_scalar.layout_pb2 import (
        Category,
        Chart,
        Layout,
        MarginChartContent,
        MultilineChartContent,
    )

    def chart(title: str, kind: str, tags: list[str]) -> Chart:
        if kind != "Margin":
            return Chart(title=title, multiline=MultilineChartContent(tag=tags))
        if len(tags) != 3:
            raise AssertionError(
                f"a Margin chart has three tags (value, lower, upper), {title!r} has {len(tags)}"
            )
        value, lower, upper = tags
        series = MarginChartContent.Series(value=value, lower=lower, upper=upper)
        return Chart(title=title, margin=MarginChartContent(series=[series]))

    categories = [
        Category(title=title, chart=[chart(name, *content) for name, content in charts.items()])
        for title, charts in layout.items()
    ]
    content = Layout(category=categories).SerializeToString()
    return _one(
        "custom_scalars__config__", tensor=_text(content), metadata=_for_plugin("custom_scalars")
    )


def hparams(
    hparam_dict: dict | None = None,
    metric_dict: dict | None = None,
    hparam_domain_discrete: dict[str, list] | None = None,
) -> tuple[Summary, ...]:
    """Make the three records of one run: its hyperparameters and metrics, their values, and its success."""
    from google.protobuf.struct_pb2 import ListValue, Value
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    values, metrics, domains = hparam_dict or {}, metric_dict or {}, hparam_domain_discrete or {}
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for key, domain in domains.items():
        if not (
            key in values
            and isinstance(domain, list)
            and all(isinstance(each, type(values[key])) for each in domain)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{key}] should be a list of same type as "
                f"hparam_dict[{key}]."
            )

    def wrapped(value: Any) -> tuple[str, Value]:
        if isinstance(value, str):
            return "DATA_TYPE_STRING", Value(string_value=value)
        if isinstance(value, Tensor):
            value = value.item()
        if not isinstance(value, (int, float)):  # also True and False, which PyTorch writes so
            raise ValueError(
                f"value should be one of int, float, str, bool, or torch.Tensor, got {value!r}"
            )
        return "DATA_TYPE_FLOAT64", Value(number_value=value)

    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for key, value in values.items():
        if value is None:
            continue
        kind, content = wrapped(value)
        start.hparams[key].CopyFrom(content)
        allowed = [wrapped(each)[1] for each in domains.get(key, ())]
        infos.append(
            api_pb2.HParamInfo(
                name=key,
                type=api_pb2.DataType.Value(kind),
                domain_discrete=ListValue(values=allowed) if allowed else None,
            )
        )
    measured = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=key)) for key in metrics]
    parts = [
        (
            metadata.EXPERIMENT_TAG,
            {"experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=measured)},
        ),
        (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
        (
            metadata.SESSION_END_INFO_TAG,
            {"session_end_info": plugin_data_pb2.SessionEndInfo(status="STATUS_SUCCESS")},
        ),
    ]
    version = metadata.PLUGIN_DATA_VERSION

    def record(tag: str, content: dict[str, Any]) -> Summary:
        data = plugin_data_pb2.HParamsPluginData(version=version, **content)
        return _one(tag, metadata=_for_plugin(metadata.PLUGIN_NAME, data))

    return tuple(record(tag, content) for tag, content in parts)
