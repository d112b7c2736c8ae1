"""`torch.masked.MaskedTensor`: a tensor some of whose elements do not count, by a mask of the same shape.

Elementwise functions keep the mask, functions of two such tensors want equal ones, reductions leave out what is masked
and give something masked where nothing is left. Dense tensors only.

>>> import rushlight as torch
>>> from rushlight.masked import masked_tensor
>>> t = masked_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[True, False], [False, False]]))
>>> t.sum(1)
MaskedTensor(
  [  1.0000,       --]
)
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import masked
from rushlight.core.tensor import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_REDUCTIONS = frozenset("sum mean prod amin amax argmin argmax var std norm all any".split())
_ALONG = frozenset("softmax log_softmax softmin cumsum cumprod".split())  # shape and mask stay
_SHAPES = frozenset(
    "reshape view view_as expand expand_as unsqueeze squeeze flatten unflatten transpose swapaxes permute t mT "
    "movedim clone contiguous __getitem__ select narrow flip roll repeat chunk split unbind select_copy".split()
)
_LISTS = frozenset("stack cat concat concatenate hstack vstack".split())
_UNARY = frozenset(
    "abs absolute acos acosh angle arccos arcsin arctan asin asinh atan atanh bitwise_not ceil clamp clip cos cosh "
    "deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac isfinite isinf isnan lgamma log log10 log1p log2 "
    "logical_not logit nan_to_num neg negative positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit "
    "sin sinc sinh sqrt square tan tanh trunc to type float double half bfloat16 long int bool type_as ones_like "
    "zeros_like full_like rand_like randn_like empty_like detach __neg__ __abs__ __invert__ __pos__ softplus gelu silu "
    "leaky_relu elu".split()
)
_BINARY = frozenset(
    "add sub subtract mul multiply div divide true_divide floor_divide fmod remainder pow float_power atan2 arctan2 "
    "maximum minimum fmax fmin hypot logaddexp logaddexp2 nextafter copysign bitwise_and bitwise_or bitwise_xor "
    "logical_and logical_or logical_xor eq ne ge gt le lt rsub __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
    "__truediv__ __rtruediv__ __pow__ __rpow__ __floordiv__ __mod__ __and__ __or__ __xor__ __eq__ __ne__ __ge__ __gt__ "
    "__le__ __lt__".split()
)


class MaskedTensor(Tensor):
    """`data` where `mask` (bool, of the same shape) is True. Made by `masked_tensor` and `as_masked_tensor`."""

    _data: Tensor
    _mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        if not isinstance(data, Tensor):
            raise TypeError(f"data must be a Tensor, got {type(data).__name__}")
        if not isinstance(mask, Tensor):
            raise TypeError(f"mask must be a Tensor, got {type(mask).__name__}")
        if mask.dtype is not torch.bool:
            raise TypeError(f"mask must have dtype bool, got {mask.dtype}")
        if data.dim() != mask.dim():
            raise ValueError(f"data.dim() must equal mask.dim(), got {data.dim()} and {mask.dim()}")
        if data.size() != mask.size():
            raise ValueError(
                f"data.size() must equal mask.size(), got {list(data.shape)} and {list(mask.shape)}"
            )
        if data.layout is not torch.strided or mask.layout is not torch.strided:
            raise TypeError("MaskedTensor: only dense tensors are supported in Rushlight")
        self = Tensor._make_subclass(cls, data.detach())
        self._data = data.detach().clone().requires_grad_() if requires_grad else data
        self._mask = mask
        return self

    def get_data(self) -> Tensor:
        """The numbers, masked ones too."""
        return self._data

    def get_mask(self) -> Tensor:
        """The mask: True where the data is valid."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor with `value` where the mask is False."""
        return self._data.masked_fill(~self._mask, value)

    # -- what autograd shows: that of the numbers

    requires_grad = property(lambda self: self._data.requires_grad)
    is_leaf = property(lambda self: self._data.is_leaf)
    grad_fn = property(lambda self: self._data.grad_fn)

    @property
    def grad(self) -> Any:
        found = self._data.grad
        return None if found is None else MaskedTensor(found, self._mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._data.grad = value._data if isinstance(value, MaskedTensor) else value

    data = property(lambda self: MaskedTensor(self._data.detach(), self._mask))
    T = property(lambda self: MaskedTensor(self._data.T, self._mask.T))
    mT = property(lambda self: MaskedTensor(self._data.mT, self._mask.mT))

    def backward(self, gradient: Any = None, *args: Any, **options: Any) -> None:
        """Gradients with respect to the numbers that count."""
        if isinstance(gradient, MaskedTensor):
            gradient = gradient.to_tensor(0)
        self._data.backward(gradient, *args, **options)

    def requires_grad_(self, requires_grad: bool = True) -> MaskedTensor:
        self._data.requires_grad_(requires_grad)
        return self

    def item(self) -> Any:
        return self._data.item() if self.numel() == 1 else super().item()

    def tolist(self) -> Any:
        """RuntimeError: None is no number. `to_tensor(value).tolist()` works."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def numpy(self, *args: Any, **options: Any) -> Any:
        """RuntimeError; `get_data().numpy()` and `get_mask().numpy()` work."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __deepcopy__(self, memo: dict) -> MaskedTensor:
        import copy

        made = MaskedTensor(copy.deepcopy(self._data, memo), self._mask.clone())
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return MaskedTensor, (self._data, self._mask)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self._data.detach(), self._mask
        if data.dim() == 0:
            text = _text(data.item()) if bool(mask) else "--"
            return f"MaskedTensor({text}, {bool(mask)})"
        return f"MaskedTensor(\n{_lines(data, mask, 2)}\n)"

    __str__ = __repr__

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", str(func)), kwargs or {}
        if name in _BINARY or name.removesuffix("_") in _BINARY:
            return _binary(func, name, args, kwargs)
        if name in _REDUCTIONS:
            return _reduced(name, *args, **kwargs)
        if name in _ALONG:
            return _along(name, *args, **kwargs)
        if name in _SHAPES:
            return _both(func, args, kwargs)
        if name in _LISTS:
            parts, *rest = args
            data = func([_data(p) for p in parts], *rest, **kwargs)
            return MaskedTensor(data, func([_own_mask(p) for p in parts], *rest, **kwargs))
        if name in _UNARY or name.removesuffix("_") in _UNARY:
            first, *rest = args
            made = func(first._data, *map(_data, rest), **kwargs)
            return (
                first if name.endswith("_") and name[:1] != "_" else MaskedTensor(made, first._mask)
            )
        if name == "where":
            condition, a, b = args
            data, keep = torch.where(condition, _data(a), _data(b)), _own_mask
            return MaskedTensor(data, torch.where(condition, keep(a), keep(b)))
        if (
            name in ("__get__", "size", "dim", "numel", "stride", "storage_offset", "is_contiguous")
            or name in _PLAIN
        ):
            return super().__torch_function__(func, types, args, kwargs)
        raise TypeError(
            f"torch.{name} of a MaskedTensor is not implemented; compute with get_data() and get_mask(), or with "
            "to_tensor(value)"
        )


_PLAIN = frozenset(
    "__len__ __bool__ __float__ __int__ __hash__ ndimension nelement element_size is_floating_point is_complex "
    "is_same_size get_device data_ptr untyped_storage is_tensor".split()
)


def _data(thing: Any) -> Any:
    return thing._data if isinstance(thing, MaskedTensor) else thing


def _own_mask(thing: Any) -> Any:
    if isinstance(thing, MaskedTensor):
        return thing._mask
    return torch.ones_like(thing, dtype=torch.bool) if isinstance(thing, Tensor) else thing


def _binary(func: Any, name: str, args: tuple, kwargs: dict) -> Any:
    masks = [a._mask for a in args if isinstance(a, MaskedTensor)]
    if len(masks) == 2 and not torch.equal(masks[0], masks[1]):
        raise ValueError(
            "Input masks must match: MaskedTensors with different masks have no common meaning. Take to_tensor(value) of "
            f"one of them (torch.{name})"
        )
    made = func(*map(_data, args), **kwargs)
    if name.endswith("_") and not name.startswith("__"):
        return args[0]
    mask = masks[0]
    return MaskedTensor(made, mask if made.shape == mask.shape else mask.expand(made.shape))


def _reduced(name: str, input: MaskedTensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    keepdim = kwargs.get("keepdim", False)
    data, mask = input._data, input._mask
    dims = tuple(range(data.dim())) if dim is None else dim
    if name in ("all", "any"):
        filled = data.bool().masked_fill(~mask, name == "all")
        made = (
            getattr(torch, name)(filled)
            if dim is None
            else getattr(torch, name)(filled, dim, keepdim)
        )
    else:
        made = getattr(masked, name)(
            data, *([dim] if dim is not None else []), *args, **kwargs, mask=mask
        )
    left = mask.any() if dim is None else mask.any(dims, keepdim=keepdim)
    return MaskedTensor(made, left.reshape(made.shape))


def _along(name: str, input: MaskedTensor, dim: int, *args: Any, **kwargs: Any) -> MaskedTensor:
    kwargs.pop("_stacklevel", None)
    return MaskedTensor(
        getattr(masked, name)(input._data, dim, *args, **kwargs, mask=input._mask), input._mask
    )


def _both(func: Any, args: tuple, kwargs: dict) -> Any:
    first, *rest = args
    data, mask = func(first._data, *rest, **kwargs), func(first._mask, *rest, **kwargs)
    if isinstance(data, (tuple, list)):
        return tuple(MaskedTensor(d, m) for d, m in zip(data, mask, strict=True))
    return MaskedTensor(data, mask)


# -- printing --------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Tensor, mask: Tensor, indent: int) -> str:
    lead = " " * indent
    if data.dim() == 1:
        texts = [_text(v) for v in data.tolist()]
        gap = "--".rjust(max([8, *map(len, texts)]))
        cells = [text if keep else gap for text, keep in zip(texts, mask.tolist(), strict=True)]
        return f"{lead}[{', '.join(cells)}]"
    inner = ",\n".join(_lines(d, m, indent + 2) for d, m in zip(data, mask, strict=True))
    return f"{lead}[\n{inner}\n{lead}]"


# -- making them -----------------------------------------------------------------------------------


def is_masked_tensor(obj: Any, /) -> bool:
    """True for a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A new MaskedTensor without the history of `data`; see `as_masked_tensor` for one with it.

    TypeError for a mask that is not bool, ValueError where the shapes differ.
    """
    if isinstance(data, Tensor):
        data = data.detach().clone()
    return MaskedTensor(data, mask.clone() if isinstance(mask, Tensor) else mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """`data` as a MaskedTensor: gradients go to it, for the numbers that count."""
    return MaskedTensor(data, mask)
