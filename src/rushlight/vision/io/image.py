"""Image files and tensors uint8 `[C, H, W]`."""

from __future__ import annotations

import enum
import os
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.vision.pillow import pillow

__all__ = [
    "ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip


class ImageReadMode(enum.Enum):
    """The channels that an image is read with."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def read_file(path: str | os.PathLike) -> Tensor:
    """The bytes of a file, uint8 `[N]`."""
    with open(path, "rb") as file:
        return torch.from_numpy(np.frombuffer(bytearray(file.read()), np.uint8))


def write_file(filename: str | os.PathLike, data: Tensor) -> None:
    """Write uint8 `[N]` as the bytes of a file."""
    if data.dtype != torch.uint8 or data.ndim != 1:
        raise RuntimeError(
            f"[write_file] Input tensor should be uint8 and 1-D, got {data.dtype} of shape {tuple(data.shape)}"
        )
    with open(filename, "wb") as file:
        file.write(data.numpy().tobytes())


def decode_image(
    input: Tensor | str | os.PathLike,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The picture in a file, or in its bytes (uint8 `[N]`), as uint8 `[C, H, W]`; 16-bit files as uint16.

    RuntimeError when the bytes are no picture, FileNotFoundError when there is no file.

    >>> picture = torch.arange(12, dtype=torch.uint8).reshape(3, 2, 2)
    >>> torch.equal(decode_image(encode_png(picture)), picture)
    True
    """
    import io as streams

    image = pillow("decode_image")
    if isinstance(input, Tensor):
        if input.dtype != torch.uint8 or input.ndim != 1 or not input.numel():
            raise RuntimeError(
                "[decode_image] Expected a non empty 1-dimensional uint8 tensor, got "
                f"{input.dtype} of shape {tuple(input.shape)}"
            )
        source: Any = streams.BytesIO(input.numpy().tobytes())
    else:
        with open(input, "rb") as file:
            source = streams.BytesIO(file.read())
    wanted = ImageReadMode[mode.upper()] if isinstance(mode, str) else mode
    try:
        picture = image.open(source)
        picture.load()
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise RuntimeError(
            f"[decode_image] the bytes are no picture Pillow reads: {error}"
        ) from error
    if apply_exif_orientation:
        picture = pillow("decode_image", "ImageOps").exif_transpose(picture)
    if wanted is not ImageReadMode.UNCHANGED:
        picture = picture.convert(_MODES[wanted.value])
    elif picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    elif picture.mode == "1":
        picture = picture.convert("L")
    array = np.atleast_3d(np.array(picture)).transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(array))


def read_image(
    path: str | os.PathLike,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The picture in a file as uint8 `[C, H, W]` (`decode_image`)."""
    return decode_image(path, mode, apply_exif_orientation)


def decode_png(
    input: Tensor,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """As `decode_image`."""
    return decode_image(input, mode, apply_exif_orientation)


def decode_jpeg(
    input: Tensor | list[Tensor],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    device: Any = "cpu",
    apply_exif_orientation: bool = False,
) -> Tensor | list[Tensor]:
    """As `decode_image`, of one or a list of them."""
    if isinstance(input, list):
        return [decode_image(each, mode, apply_exif_orientation) for each in input]
    return decode_image(input, mode, apply_exif_orientation)


def _encoded(name: str, input: Tensor, **options: Any) -> Tensor:
    import io as streams

    if input.dtype != torch.uint8:
        raise RuntimeError(f"[{name}] Input tensor dtype should be uint8, got {input.dtype}")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(
            f"[{name}] The number of channels should be 1 or 3, got a tensor of shape {tuple(input.shape)}"
        )
    array = input.numpy().transpose(1, 2, 0)
    array = np.ascontiguousarray(array[:, :, 0] if input.shape[0] == 1 else array)
    stream = streams.BytesIO()
    pillow(name).fromarray(array).save(stream, **options)
    return torch.from_numpy(np.frombuffer(bytearray(stream.getvalue()), np.uint8))


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file of uint8 `[1 or 3, H, W]`; level 0 to 9."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError(f"Compression level should be between 0 and 9, got {compression_level}")
    return _encoded("encode_png", input, format="PNG", compress_level=compression_level)


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """The bytes of a JPEG file of uint8 `[1 or 3, H, W]`; quality 1 to 100."""
    if not 1 <= quality <= 100:
        raise ValueError(
            f"Image quality should be a positive number between 1 and 100, got {quality}"
        )
    return _encoded("encode_jpeg", input, format="JPEG", quality=quality)


def write_png(input: Tensor, filename: str | os.PathLike, compression_level: int = 6) -> None:
    """Write uint8 `[1 or 3, H, W]` as a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: str | os.PathLike, quality: int = 75) -> None:
    """Write uint8 `[1 or 3, H, W]` as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
