"""Arrangements of images."""

from __future__ import annotations

import numpy as np


def make_grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Arrange images `[N, C, H, W]` with 1 or 3 channels in a grid `[3, rows * H, columns * W]`."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise AssertionError(
            f"Input should be a 4D numpy array with 3 channels, got shape {list(images.shape)}"
        )
    count, _, h, w = images.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    canvas = np.zeros((3, rows * h, columns * w), images.dtype)
    for i, image in enumerate(images):
        y, x = divmod(i, columns)
        canvas[:, y * h : (y + 1) * h, x * w : (x + 1) * w] = image
    return canvas


def convert_to_HWC(array: np.ndarray, input_format: str) -> np.ndarray:
    """Return an image of any order of dimensions as `[H, W, 3]`, a batch of them as a grid."""
    order = input_format.upper()
    if len(set(order)) != len(order):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {input_format}"
        )
    if array.ndim != len(order):
        raise AssertionError(
            "size of input tensor and input format are different. "
            f"tensor shape: {array.shape}, input_format: {input_format}"
        )
    if sorted(order) == sorted("NCHW"):
        return make_grid(array.transpose([order.index(c) for c in "NCHW"])).transpose(1, 2, 0)
    if sorted(order) == sorted("CHW"):
        array = array.transpose([order.index(c) for c in "HWC"])
        return np.repeat(array, 3, 2) if array.shape[2] == 1 else array
    if sorted(order) == sorted("HW"):
        array = array.transpose([order.index(c) for c in "HW"])
        return np.repeat(array[:, :, None], 3, 2)
    raise AssertionError(
        f"dataformats must be an order of NCHW, CHW or HW, got {input_format!r} (add_image)"
    )
