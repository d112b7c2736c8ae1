"""`SummaryWriter`: writes the records of a training run to event files for TensorBoard."""

from __future__ import annotations

import os
import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from rushlight.core.tensor import Tensor
from rushlight.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes one event file in `log_dir`, in a separate thread; flushes it after `max_queue` events or `flush_secs` seconds."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.event_writer = EventFileWriter(
            os.fspath(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """Return the folder of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Set the step and the time (by default: now) of an `Event` and write it."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a `Summary` as an event."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a `GraphDef` as an event."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write the queued events."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write the queued events, close the file and end its thread."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Continue after `close`, in a new file beside the old one."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes scalars, histograms, pictures, text... of a run into event files in `log_dir`.

    `log_dir` is by default `runs/<date>_<time>_<host><comment>`. A run that goes on from step `purge_step` after a
    crash says so, and what the crashed one wrote from there on is hidden. Every method takes the step (`global_step`)
    and, where PyTorch has it, the time (`walltime`, by default now). Tensors, arrays and numbers are all right as
    values. An event that is added after `close` opens a new file.

    >>> import tempfile
    >>> from rushlight.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SummaryWriter(folder) as writer:
    ...         for step in range(3):
    ...             writer.add_scalar("loss/train", 1.0 / (step + 1), step)
    ...     print(len(os.listdir(folder)), "file")
    1 file
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket

            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        self.default_bins = summary.default_bins()
        self._projector_config = ProjectorConfig()

    def _open(self, folder: str | os.PathLike[str]) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the run's own file; open it again after `close`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(file_version="brain.Event:2"), step)
                self.file_writer.add_event(
                    Event(session_log=SessionLog(status=SessionLog.START)), step
                )
        return self.file_writer

    def _add(self, record: Any, step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(record, step, walltime)

    def get_logdir(self) -> str | os.PathLike[str]:
        """Return the folder of the event files."""
        return self.log_dir

    # -- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write one number. `new_style`: in the form of newer TensorBoards, which also has `double_precision`."""
        self._add(
            summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime
        )

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a number for each curve of one chart; each curve has its own event file in a folder `<main_tag>_<tag>`."""
        walltime = time.time() if walltime is None else walltime
        root = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            record = summary.scalar(main_tag, value)
            folder = f"{root}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in writers:
                writers[folder] = self._open(folder)
            writers[folder].add_summary(record, global_step, walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a tensor of any dtype that TensorFlow has."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str | Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write a histogram of the values. `bins`: "tensorflow" (edges that grow by a tenth), or what `numpy.histogram` takes."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram whose counts are given; `bucket_limits` are the right edges. Raise ValueError unless there are as many counts."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts), see the document "
                f"(add_histogram_raw {tag!r}: {len(bucket_limits)} and {len(bucket_counts)})"
            )
        record = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(record, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write the precision-recall curve of a classifier: `labels` are 0 and 1, `predictions` the probabilities of 1."""
        record = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(record, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precision-recall curve whose counts at each threshold are given."""
        record = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds,
        )  # fmt: skip
        self._add(record, global_step, walltime)

    # -- pictures, sounds, text

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image: uint8, or floats from 0 to 1; `dataformats` names its dimensions."""
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of images in rows of eight; a list of tensors `[C, H, W]` is accepted too."""
        if isinstance(img_tensor, list) and dataformats.upper() in ("CHW", "NCHW"):
            import rushlight

            img_tensor, dataformats = rushlight.stack(img_tensor), "NCHW"
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: str | list[str] | None = None,
    ) -> None:
        """Write an image in which boxes `[N, 4]` (left, top, right, bottom) are drawn, each with its label."""
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else list(labels)
            if len(labels) != len(box_tensor):
                labels = None
        record = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(record, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or a list of figures of one size, as an image; close them unless `close=False`."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        pixels = summary.figure_pixels(figure, close)
        self.add_image(tag, pixels, global_step, walltime, formats)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Write a batch of videos `[N, T, C, H, W]` as one video: uint8, or floats from 0 to 1."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound `[1, L]` with values from -1 to 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write point clouds or meshes: `vertices` and `colors` (0 to 255) `[B, N, 3]`, `faces` `[B, M, 3]` numbers of vertices."""
        record = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(record, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a text; TensorBoard shows it as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # -- models and runs

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Write the operators of one forward pass, in the scopes of their modules; the model runs once.

        `verbose` prints the nodes. `use_strict_trace` is for PyTorch's tracer and changes nothing.
        """
        from rushlight.utils.tensorboard.graph import graph

        drawn = graph(model, input_to_model)
        if verbose:
            print(drawn)
        self._get_file_writer().add_graph(drawn)

    def add_onnx_graph(self, prototxt: str) -> None:
        """Raise NotImplementedError: there is no ONNX here; `add_graph` draws a model without it."""
        raise NotImplementedError(
            "add_onnx_graph is not implemented in Rushlight; use add_graph(model, input)"
        )

    def add_embedding(
        self,
        mat: Any,
        metadata: list | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: list | None = None,
    ) -> None:
        """Write vectors `[N, D]` for the projector, each with a label (or a row of labels) and an image of `[N, C, H, W]`."""
        from rushlight.utils.tensorboard.projector import write_embedding

        root = self._get_file_writer().get_logdir()
        write_embedding(
            root, self._projector_config, mat, metadata, label_img, global_step or 0, tag,
            metadata_header,
        )  # fmt: skip

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write the hyperparameters and results of one run, into their own folder (`run_name`, by default the time)."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError(
                "hparam_dict and metric_dict should be dictionary, got "
                f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}"
            )
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as inner:
            for record in records:
                inner._add(record, global_step)
            for key, value in metric_dict.items():
                inner.add_scalar(key, value, global_step)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write the layout of one chart with several curves."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write the layout of one chart with a curve between two others: `tags` of the value, the lower and the upper curve."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: dict[str, dict[str, list]]) -> None:
        """Write the layout of all charts, once a run: {category: {chart: ["Multiline" or "Margin", [tag, ...]]}}."""
        self._add(summary.custom_scalars(layout))

    # -- files

    def flush(self) -> None:
        """Write the queued events of all files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write the queued events and close all files."""
        writers, self.all_writers, self.file_writer = self.all_writers or {}, None, None
        for writer in writers.values():
            writer.flush()
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
