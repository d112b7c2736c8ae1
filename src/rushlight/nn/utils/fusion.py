"""Functions that fold a batch normalisation into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fused(layer: Module, bn: Any, *flags: Any, fuse: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion needs running statistics")
    made = copy.deepcopy(layer)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    made.weight, made.bias = fuse(layer.weight, layer.bias, *statistics, *flags)
    return made


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Any:
    """Return a convolution that computes `bn(conv(x))`; both are in eval mode."""
    return _fused(conv, bn, transpose, fuse=fuse_conv_bn_weights)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return its weight and bias: w s and (b - mean) s + shift, with s = scale / deviation."""
    conv_b = rushlight.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = rushlight.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = rushlight.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * rushlight.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(conv_b.dtype)
    return (
        Parameter(weight.detach(), conv_w.requires_grad),
        Parameter(bias.detach(), conv_b.requires_grad),
    )


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Any:
    """Return a linear layer that computes `bn(linear(x))`; both are in eval mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    return _fused(linear, bn, fuse=fuse_linear_bn_weights)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return its weight and bias."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
