"""The files that TensorBoard's projector reads: a table of vectors, a table of labels, an image of all images."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from rushlight.utils.tensorboard._convert_np import make_np
from rushlight.utils.tensorboard._utils import make_grid


def folder(tag: str, step: int) -> str:
    """Return the folder of one embedding, `00005/name`; the tag becomes one folder, whatever it contains."""
    for letter in "%/\\":
        tag = tag.replace(letter, f"%{ord(letter):02x}")
    return f"{step:05d}/{tag}"


def write_embedding(
    root: str,
    config: ProjectorConfig,
    mat: Any,
    metadata: list | None,
    label_img: Any,
    step: int,
    tag: str,
    header: list | None,
) -> None:
    """Write the files of one embedding under `root`, and add it to `config` and to the file of `config`."""
    from google.protobuf import text_format

    vectors = make_np(mat)
    if vectors.ndim != 2:
        raise AssertionError(
            "mat should be 2D, where mat.size(0) is the number of data points, got shape "
            f"{list(vectors.shape)}"
        )
    if metadata is not None and len(metadata) != len(vectors):
        raise AssertionError(
            f"#labels should equal with #data points, got {len(metadata)} and {len(vectors)}"
        )
    if label_img is not None and len(label_img) != len(vectors):
        raise AssertionError(
            f"#images should equal with #data points, got {len(label_img)} and {len(vectors)}"
        )
    if header and metadata is not None and len(header) != len(metadata[0]):
        raise AssertionError("len of header must be equal to the number of columns in metadata")
    inner = folder(tag, step)
    directory = os.path.join(root, *inner.split("/"))
    os.makedirs(directory, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{inner}/tensors.tsv")
    _table(directory, "tensors.tsv", vectors.tolist())
    if metadata is not None:
        rows = [header, *metadata] if header else [[label] for label in metadata]
        _table(directory, "metadata.tsv", rows)
        info.metadata_path = f"{inner}/metadata.tsv"
    if label_img is not None:
        pictures = make_np(label_img)
        _sprite(directory, pictures)
        info.sprite.image_path = f"{inner}/sprite.png"
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    config.embeddings.append(info)
    with open(os.path.join(root, "projector_config.pbtxt"), "w", encoding="utf-8") as file:
        file.write(text_format.MessageToString(config))


def _table(directory: str, name: str, rows: list) -> None:
    with open(os.path.join(directory, name), "w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def _sprite(directory: str, pictures: np.ndarray) -> None:
    """Write all images into one square image, from which the projector cuts them; values are 0 to 1."""
    from PIL import Image

    arranged = make_grid(pictures, math.ceil(len(pictures) ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((arranged.shape[1], arranged.shape[1], 3))
    square[: len(arranged)] = arranged
    image = Image.fromarray((square * 255).clip(0, 255).astype(np.uint8))
    image.save(os.path.join(directory, "sprite.png"), format="PNG")
