"""`MaskedTensor` itself: its checks, what it shows, and which function is whose."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import recast

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MaskedTensor", "is_masked_tensor"]

_DTYPES = frozenset("float16 float32 float64 bool int8 int16 int32 int64".split())


class MaskedTensor(Tensor):
    """`data` where `mask` (bool, of the same shape) is True. Made by `masked_tensor` and `as_masked_tensor`."""

    # Its memory and its history are those of the numbers, masked ones too. What it computes, it computes on
    # plain tensors of the same history; gradients are masked where they leave it (`_Data`, `entered`).

    _mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        data, mask = checked(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, "
                "you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        self = with_mask(data.detach().clone(), mask.clone())
        return self._set_requires_grad(True) if requires_grad else self

    def get_data(self) -> Tensor:
        """The numbers, masked ones too."""
        return data_of(self)

    def get_mask(self) -> Tensor:
        """The mask: True where the data is valid."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor with `value` where the mask is False."""
        return data_of(self).masked_fill(~self._mask, value)

    def is_sparse_coo(self) -> bool:
        """Whether data and mask are COO tensors."""
        return self._mask.layout is torch.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether data and mask are CSR tensors."""
        return self._mask.layout is torch.sparse_csr

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self._mask.layout is not torch.strided

    @property
    def grad(self) -> Any:
        found = _bare(vars(Tensor)["grad"].__get__, self)
        return found if found is None else _masked(found, self._mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        _bare(vars(Tensor)["grad"].__set__, self, value)

    data = property(lambda self: self.detach())
    T = property(lambda self: self.permute(*range(self.ndim)[::-1]))
    mT = property(lambda self: self.transpose(-2, -1))

    def _as_gradient(self) -> MaskedTensor:
        """What stands in `.grad` of the leaf that gets this gradient."""
        return with_mask(self.get_data().detach().clone(), self._mask)

    def backward(self, gradient: Any = None, *args: Any, **options: Any) -> None:
        """Gradients with respect to the numbers that count."""
        if isinstance(gradient, MaskedTensor):
            gradient = gradient.to_tensor(0)
        data_of(self).backward(gradient, *args, **options)

    def item(self) -> Any:
        """The only number; ValueError if it is masked."""
        value = data_of(self).item()
        if not self._mask.item():
            raise ValueError("expected a mask tensor: the number is masked")
        return value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def tolist(self) -> Any:
        """RuntimeError: None is no number. `to_tensor(value).tolist()` works."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def numpy(self, *args: Any, **options: Any) -> Any:
        """RuntimeError; `get_data().numpy()` and `get_mask().numpy()` work."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __deepcopy__(self, memo: dict) -> MaskedTensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                "the moment."
            )
        memo[id(self)] = made = _rebuilt(data_of(self).detach().clone(), self._mask.clone(), False)
        return made.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (data_of(self).detach(), self._mask, self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = data_of(self).detach(), self._mask
        if data.layout is not torch.strided:
            data, mask = data.to_dense(), mask.to_dense()
        if data.dim() == 0:
            text = _text(data.item()) if bool(mask) else "--"
            return f"MaskedTensor({text}, {bool(mask)})"
        return f"MaskedTensor(\n{_lines(data, mask, 2)}\n)"

    __str__ = __repr__

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if name == "grad" and hasattr(func, "__wrapped__"):  # its rules ask the class of gradients
            return func.__wrapped__(*args, **(kwargs or {}))
        if name in _PLAIN:
            return _bare(func, *args, **(kwargs or {}))
        function = _functions().get(name)
        if function is None:
            raise TypeError(
                f"torch.{name} of a MaskedTensor is not implemented; compute with get_data() and get_mask(), or with "
                "to_tensor(value)"
            )
        return function(func, name, *args, **(kwargs or {}))


# Functions that say something about the tensor.
_PLAIN = frozenset(
    "__get__ __set__ __delete__ __len__ __hash__ ndimension nelement element_size is_floating_point is_complex is_same_size "
    "get_device data_ptr untyped_storage is_tensor size dim numel stride storage_offset requires_grad_ retain_grad "
    "register_hook is_inference result_type".split()
)
_table: dict[str, Callable] = {}


def _functions() -> dict[str, Callable]:
    """What takes which function of a MaskedTensor, by its name: `f(func, name, *args, **kwargs)`."""
    if not _table:
        from rushlight.masked.maskedtensor import binary, passthrough, reductions, unary

        groups: list[tuple[Any, Callable]] = [
            (unary.UNARY_NAMES, unary.unary),
            (unary.MORE, unary.unary),
            (unary.INPLACE_UNARY_NAMES, unary.inplace_unary),
            (binary.BINARY_NAMES, binary.binary),
            (binary.MORE, binary.binary),
            (binary.INPLACE_BINARY_NAMES, binary.inplace_binary),
            ((*reductions.REDUCE_NAMES, "any"), reductions.reduced),
            (reductions.ALONG, reductions.along),
            (("sum_to_size",), reductions.sum_to_size),
            (passthrough.SHAPES, passthrough.both),
            (passthrough.LISTS, passthrough.joined),
            (("where", "where_method"), passthrough.where),
            (("contiguous", "is_contiguous"), passthrough.contiguous),
            (
                ("to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr"),
                passthrough.converted,
            ),
        ]
        for names, function in groups:
            _table.update(dict.fromkeys(names, function))
    return _table


def _bare(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """The call itself, without asking any class."""
    with torch._C.DisableTorchFunctionSubclass():
        return function(*args, **kwargs)


# -- numbers and masks -----------------------------------------------------------------------------


def is_masked_tensor(obj: Any, /) -> bool:
    """True for a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def with_mask(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A MaskedTensor with the memory and the history of `data`."""
    made = recast(data, MaskedTensor)
    made._mask = mask
    return made


def _rebuilt(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    return with_mask(data, mask).requires_grad_(requires_grad)


def _masked(g: Tensor, mask: Tensor) -> MaskedTensor:
    """A gradient with the mask of what it belongs to."""
    if isinstance(g, MaskedTensor):
        return g
    if g.layout is not mask.layout:
        g = g.to_dense()
        g = g if mask.layout is torch.strided else g.sparse_mask(mask)
    return with_mask(g, mask)


class _Data(torch.autograd.Function):
    """The numbers of a leaf; its gradient is masked."""

    @staticmethod
    def forward(ctx: Any, input: MaskedTensor) -> Tensor:
        ctx.mask = input._mask
        return recast(input, Tensor).detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return _masked(g, ctx.mask)


class _Entered(torch.autograd.Function):
    """A plain tensor as an operand beside a masked one; its gradient is masked, and summed over what counts where it was expanded."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> Tensor:
        ctx.shape, ctx.mask = data.shape, mask
        return data.expand(mask.shape).clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:
        mask, shape = ctx.mask, ctx.shape
        if mask.shape != shape:
            g = g.masked_fill(~mask, 0).sum_to_size(shape)
            mask = mask.int().sum_to_size(shape) > 0
        return with_mask(g, mask), None


def entered(thing: Any, mask: Tensor, shape: Any) -> Any:
    """An argument without a mask beside one with a mask: its gradient will be masked."""
    if (
        not isinstance(thing, Tensor)
        or not thing.requires_grad
        or mask.layout is not torch.strided
        or not torch.is_grad_enabled()
    ):
        return thing
    return _Entered.apply(thing, mask.expand(shape))


def data_of(thing: Any) -> Any:
    """The numbers of a MaskedTensor, with its history; anything else as it is."""
    if not isinstance(thing, MaskedTensor):
        return thing
    if thing.is_leaf and thing.requires_grad and torch.is_grad_enabled():
        return _Data.apply(thing)
    plain = recast(thing, Tensor)
    return plain.detach() if plain.is_leaf else plain


def replace(t: MaskedTensor, write: Callable) -> MaskedTensor:
    """Let `write` write to the numbers of `t`."""
    data = recast(t, Tensor)
    made = write(data)
    if made is not data:  # of a sparse tensor: new values
        data = made
    t._array, t._edge, t._counter = recast(data, MaskedTensor)._array, data._edge, data._counter
    return t


def on_values(function: Callable, first: Tensor, *rest: Any) -> Any:
    """`function` of tensors: of their values where they are sparse, with the same indices."""
    like = first if isinstance(first, Tensor) else rest[0]
    if like.layout is torch.strided:
        return function(first, *rest)
    for t in rest:
        if isinstance(t, Tensor) and t.layout is like.layout and not _same_indices(like, t):
            name = "sparse_coo" if like.layout is torch.sparse_coo else "sparse_csr"
            raise ValueError(
                f"{name} indices must match. If you need support for this, please open an issue on Github."
            )
    values = [
        t.values() if isinstance(t, Tensor) and t.layout is like.layout else t
        for t in (first, *rest)
    ]
    made = function(*values)
    if like.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(like.indices(), made, like.shape, is_coalesced=True)
    return torch.sparse_csr_tensor(like.crow_indices(), like.col_indices(), made, like.shape)


def _same_indices(a: Tensor, b: Tensor) -> bool:
    """Whether two sparse tensors of one layout have the same indices."""
    if a.layout is torch.sparse_coo:
        return torch.equal(a.indices(), b.indices())
    return torch.equal(a.crow_indices(), b.crow_indices()) and torch.equal(
        a.col_indices(), b.col_indices()
    )


def checked(data: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Data and mask, where they make a MaskedTensor; sparse ones coalesced, with the places of the mask."""
    if not isinstance(data, Tensor) or isinstance(data, MaskedTensor):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor) or isinstance(mask, MaskedTensor):
        raise TypeError("mask must be a Tensor")
    if data.layout is not mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout not in (torch.strided, torch.sparse_coo, torch.sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is torch.sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data.layout is not torch.strided and data._nnz() != mask._nnz():
        data = data.to_dense().sparse_mask(mask)
    if data.layout is torch.sparse_coo and not _same_indices(data, mask):
        raise ValueError(
            "data and mask are both sparse COO tensors but do not have the same indices."
        )
    if data.layout is torch.sparse_csr and not _same_indices(data, mask):
        raise ValueError(
            "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        )
    if mask.dtype is not torch.bool:
        raise TypeError("mask must have dtype bool.")
    if str(data.dtype).removeprefix("torch.") not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")
    return data, mask


def _tensors_match(
    a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08
) -> bool:
    """Whether two plain tensors of one layout hold the same: bit by bit, or within a tolerance."""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    b = b.to(a.dtype)
    if a.layout is not torch.strided:
        return _same_indices(a, b) and _tensors_match(a.values(), b.values(), exact)
    if exact:
        return a.dim() == b.dim() and bool(torch.eq(a, b).all())
    return a.dim() == b.dim() and torch.allclose(a, b, rtol=rtol, atol=atol)


def _masks_match(a: Any, b: Any) -> bool:
    """Whether the masks of two arguments are equal; True where one has none."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return _tensors_match(a._mask, b._mask)
    return True


# -- printing --------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Tensor, mask: Tensor, indent: int) -> str:
    lead = " " * indent
    if data.dim() == 1:
        texts = [_text(v) for v in data.tolist()]
        kept = mask.tolist()
        widths = [len(text) if keep else 8 for text, keep in zip(texts, kept, strict=True)]
        gap = "--".rjust(max(widths, default=8))
        cells = [text if keep else gap for text, keep in zip(texts, kept, strict=True)]
        return f"{lead}[{', '.join(cells)}]"
    inner = ",\n".join(_lines(d, m, indent + 2) for d, m in zip(data, mask, strict=True))
    return f"{lead}[\n{inner}\n{lead}]"
