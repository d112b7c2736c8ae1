"""Boxes: `[N, 4]` tensors of (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2; and layers that models share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rushlight as torch
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import Conv2dNormActivation, SqueezeExcitation, StochasticDepth

__all__ = [
    "Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "RoIAlign", "SqueezeExcitation", "StochasticDepth",
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
    "distance_box_iou", "generalized_box_iou", "nms", "remove_small_boxes", "roi_align",
]  # fmt: skip


def box_area(boxes: Tensor) -> Tensor:
    """The areas, `[N]`."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _overlaps(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas of intersection and of union, `[N, M]`."""
    low = torch.maximum(boxes1[:, None, :2], boxes2[:, :2])
    high = torch.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    return inter, box_area(boxes1)[:, None] + box_area(boxes2) - inter


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union (Jaccard) of every pair, `[N, M]`.

    >>> box_iou(torch.tensor([[0., 0., 2., 2.]]), torch.tensor([[1., 0., 3., 2.], [2., 2., 3., 3.]]))
    tensor([[0.3333, 0.0000]])
    """
    inter, union = _overlaps(boxes1, boxes2)
    return inter / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """`box_iou` less the share of the enclosing box that neither covers (Rezatofighi 2019), `[N, M]`."""
    inter, union = _overlaps(boxes1, boxes2)
    low = torch.minimum(boxes1[:, None, :2], boxes2[:, :2])
    high = torch.maximum(boxes1[:, None, 2:], boxes2[:, 2:])
    around = (high - low).clamp(min=0).prod(-1)
    return inter / union - (around - union) / around


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`box_iou` less the squared distance of the middles over that of the enclosing box's corners (Zheng 2020), `[N, M]`."""
    low = torch.minimum(boxes1[:, None, :2], boxes2[:, :2])
    high = torch.maximum(boxes1[:, None, 2:], boxes2[:, 2:])
    diagonal = (high - low).clamp(min=0).square().sum(-1) + eps
    middles1, middles2 = ((b[:, :2] + b[:, 2:]) / 2 for b in (boxes1, boxes2))
    return box_iou(boxes1, boxes2) - (middles1[:, None] - middles2).square().sum(-1) / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less a penalty for other ratios of width to height (Zheng 2020), `[N, M]`."""
    angles1, angles2 = (
        torch.atan((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])) for b in (boxes1, boxes2)
    )
    v = 4 / math.pi**2 * (angles1[:, None] - angles2).square()
    with torch.no_grad():
        weight = v / (1 - box_iou(boxes1, boxes2) + v + eps)
    return distance_box_iou(boxes1, boxes2, eps) - weight * v


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes `[..., 4]` in another form: xyxy (corners), xywh (corner and size), cxcywh (middle and size).

    >>> box_convert(torch.tensor([[1., 2., 5., 4.]]), "xyxy", "cxcywh")
    tensor([[3., 3., 4., 2.]])
    """
    for form in (in_fmt, out_fmt):
        if form not in ("xyxy", "xywh", "cxcywh"):
            raise ValueError(
                f"Unsupported Bounding Box Conversions for given in_fmt and out_fmt: {form!r} is none of "
                "xyxy, xywh, cxcywh"
            )
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return torch.stack((a, b, c, d), -1)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes cut at the borders of an image of (height, width)."""
    height, width = size
    x = boxes[..., 0::2].clamp(min=0, max=width)
    y = boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack((x, y), -1).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The numbers of the boxes whose sides are both at least `min_size`."""
    wide = boxes[:, 2] - boxes[:, 0] >= min_size
    high = boxes[:, 3] - boxes[:, 1] >= min_size
    return torch.where(wide & high)[0]


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Numbers of the boxes kept, by falling score: each one that overlaps no better one by more than the threshold.

    >>> boxes = torch.tensor([[0., 0., 2., 2.], [0., 0., 2., 1.9], [5., 5., 6., 6.]])
    >>> nms(boxes, torch.tensor([0.5, 0.9, 0.3]), 0.5)
    tensor([1, 2])
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise RuntimeError(
            "[nms] boxes should be a 2d tensor of 4 columns and scores 1d of the same length, got shapes "
            f"{tuple(boxes.shape)} and {tuple(scores.shape)}"
        )
    overlap = box_iou(boxes.detach(), boxes.detach()).numpy() > iou_threshold
    alive = np.ones(len(boxes), bool)
    kept = []
    for i in torch.argsort(scores.detach(), descending=True, stable=True).tolist():
        if alive[i]:
            kept.append(i)
            alive &= ~overlap[i]
    return torch.tensor(kept, dtype=torch.int64)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` for the boxes of each class in `idxs` separately."""
    if not boxes.numel():
        return torch.empty(0, dtype=torch.int64)
    # classes are moved apart, so that boxes of different ones do not overlap
    offsets = idxs.to(boxes.dtype) * (boxes.max() + 1)
    return nms(boxes + offsets[:, None], scores, iou_threshold)


def roi_align(
    input: Tensor, boxes: Tensor | list[Tensor], output_size: int | tuple[int, int],
    spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    """What `input` `[N, C, H, W]` has in each box, on a grid of `output_size`, `[K, C, rows, columns]` (He 2017).

    `boxes`: `[K, 5]`, the first column the number of the image, or a list of `[L, 4]` for each image; their
    coordinates times `spatial_scale` are those of `input`. Each cell is the mean of `sampling_ratio` squared points
    between the pixels, of as many as the cell has pixels if it is not positive. `aligned`: pixels are squares around
    their coordinates, and boxes may be smaller than a pixel. The boxes have no gradient.

    >>> roi_align(torch.arange(16.0).reshape(1, 1, 4, 4), torch.tensor([[0, 0.0, 0, 2, 2]]), 1)
    tensor([[[[5.]]]])
    """
    if not isinstance(boxes, Tensor):
        image_numbers = [torch.full((len(b), 1), float(i)) for i, b in enumerate(boxes)]
        boxes = torch.cat([torch.cat(image_numbers), torch.cat(list(boxes))], 1)
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise ValueError(f"boxes must be [K, 5] or a list of [L, 4], got {tuple(boxes.shape)}")
    rows, columns = (output_size,) * 2 if isinstance(output_size, int) else output_size
    made = []
    for image, *corners in boxes.tolist():
        x1, y1, x2, y2 = (c * spatial_scale - 0.5 * aligned for c in corners)
        down = _sampled(y1, y2, rows, sampling_ratio, aligned, input.shape[2]).to(input.dtype)
        along = _sampled(x1, x2, columns, sampling_ratio, aligned, input.shape[3]).to(input.dtype)
        made.append(down @ input[int(image)] @ along.T)
    return torch.stack(made) if made else input.new_zeros((0, input.shape[1], rows, columns))


def _sampled(low: float, high: float, cells: int, ratio: int, aligned: bool, size: int) -> Tensor:
    """The matrix `[cells, size]` that takes the means of points between the pixels of a line."""
    width = (high - low) / cells if aligned else max(high - low, 1.0) / cells
    points = ratio if ratio > 0 else math.ceil(width)
    if points < 1:
        return torch.zeros(cells, size)
    at = low + width * (torch.arange(cells)[:, None] + (torch.arange(points) + 0.5) / points)
    inside = ((at >= -1) & (at <= size)) / points
    at = at.clamp(0, size - 1)
    before = at.long()
    share = (at - before) * inside
    matrix = torch.zeros(cells, size).scatter_add_(1, before, inside - share)
    return matrix.scatter_add_(1, (before + 1).clamp(max=size - 1), share)


class RoIAlign(nn.Module):
    """`roi_align` as a layer."""

    def __init__(
        self, output_size: int | tuple[int, int], spatial_scale: float, sampling_ratio: int,
        aligned: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        settings = self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        return roi_align(input, rois, *settings)

    def __repr__(self) -> str:
        return (
            f"RoIAlign(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned})"
        )


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization of `[N, C, H, W]` by numbers that do not change: neither statistics nor parameters.

    >>> FrozenBatchNorm2d(2)(torch.ones(1, 2, 1, 1)).flatten()
    tensor([1.0000, 1.0000])
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(num_features))
        self.register_buffer("bias", torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)  # of a BatchNorm2d, which counts
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]

    def __repr__(self) -> str:
        return f"FrozenBatchNorm2d({self.weight.shape[0]}, eps={self.eps})"


class Permute(nn.Module):
    """`x.permute(dims)` as a module."""

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return torch.permute(x, self.dims)
