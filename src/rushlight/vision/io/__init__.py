"""Reading and writing of image files."""

from __future__ import annotations

from rushlight.vision.io.image import ImageReadMode as ImageReadMode
from rushlight.vision.io.image import decode_image as decode_image
from rushlight.vision.io.image import decode_jpeg as decode_jpeg
from rushlight.vision.io.image import decode_png as decode_png
from rushlight.vision.io.image import encode_jpeg as encode_jpeg
from rushlight.vision.io.image import encode_png as encode_png
from rushlight.vision.io.image import read_file as read_file
from rushlight.vision.io.image import read_image as read_image
from rushlight.vision.io.image import write_file as write_file
from rushlight.vision.io.image import write_jpeg as write_jpeg
from rushlight.vision.io.image import write_png as write_png

__all__ = [
    "ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip
