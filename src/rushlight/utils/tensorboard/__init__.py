"""Event files for TensorBoard, through the `tensorboard` package: pip install 'rushlight[tensorboard]'.

`writer` holds the classes, `summary` the records they write, `projector` the files of embeddings, `graph` the
picture of a model.
"""

from __future__ import annotations

try:
    from tensorboard.summary.writer.record_writer import RecordWriter
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard needs the tensorboard package, which is not installed: "
        "pip install 'rushlight[tensorboard]'",
        name="tensorboard",
    ) from error

from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
