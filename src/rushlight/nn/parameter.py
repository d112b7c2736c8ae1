"""Parameters and buffers: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight._backends import llvm
from rushlight.core.tensor import Tensor, _plain_classes
from rushlight.dispatch.overrides import disabled

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _MarkedType(type(Tensor)):  # type: ignore[misc] # mypy wants a name for Tensor's metaclass
    """Makes `isinstance(t, Parameter)` true for tensors of other classes that have the mark of Parameter."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls.__dict__.get("_mark")  # its own: a subclass has none
        return mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False)


class Parameter(Tensor, metaclass=_MarkedType):
    """A trainable tensor: assigned to a Module it appears in `parameters()`.

    It shares memory with `data`, is always a leaf, and requires gradients unless `requires_grad=False`.

    >>> import rushlight as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    _mark = "_is_param"
    __torch_function__ = disabled  # what is computed from a parameter is a plain tensor
    __hash__ = object.__hash__  # an optimizer looks its state up by parameter, each at each step

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = rushlight.empty(0)
        if not llvm.active:
            llvm.activate("a parameter of a module")
        if type(data) is Tensor or isinstance(data, (Parameter, Buffer)):
            return Tensor._make_subclass(cls, data, requires_grad)
        # A tensor of the user's own class stays of that class: it is marked instead.
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
                f"detach() returns an instance of the same type, but it returned "
                f"{type(made).__name__}. Implement detach() so that it keeps the class."
            )
        made._is_param = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copied = self.data.clone(memory_format=rushlight.preserve_format)
            memo[id(self)] = _with_attributes(type(self)(copied, self.requires_grad), self)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rushlight.serialization.reduce_parameter(self)


def _with_attributes(copy: Tensor, source: Tensor) -> Tensor:
    copy.__dict__.update(source.__dict__)
    return copy


class Buffer(Tensor, metaclass=_MarkedType):
    """A tensor that belongs to a Module but is not learned, such as a running mean.

    Assigned to a Module it appears in `buffers()`, and in `state_dict()` where `persistent`.
    """

    persistent: bool
    _mark = "_is_buffer"
    __torch_function__ = disabled

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = rushlight.empty(0)
        made = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            copied = self.data.clone(memory_format=rushlight.preserve_format)
            memo[id(self)] = type(self)(
                copied.requires_grad_(self.requires_grad), persistent=self.persistent
            )
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # PyTorch's buffers are plain tensors with the attribute `_is_buffer`
        return rushlight.serialization.reduce_tensor(self, Tensor)


class UninitializedTensorMixin:
    """A parameter without a shape: until `materialize` only conversions are allowed."""

    _ALLOWED = frozenset(
        "__get__ __set__ __delete__ __hash__ size copy_ is_complex is_floating_point get_device to "
        "cpu cuda half float double char short int long bfloat16 requires_grad_".split()
    )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in cls._ALLOWED:
            return Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {getattr(func, '__name__', func)}. "
            "Where a lazy module holds it, call the module once with a batch of the right shape; "
            "else call `materialize(shape)` on it first."
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter (buffer) of that shape, with memory but no values yet."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        made = rushlight.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become
        self.data = made

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def size(self, dim: int | None = None) -> Any:
        return self.shape

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_uninitialized, (
            type(self),
            self.requires_grad,
            self.data.device,
            self.data.dtype,
        )


def _rebuild_uninitialized(cls: type, requires_grad: bool, device: Any, dtype: Any) -> Tensor:
    return cls(requires_grad, device=device, dtype=dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known until the first forward pass (see `LazyLinear`)."""

    cls_to_become = Parameter

    @property
    def data(self) -> Tensor:
        """An empty tensor, which initialisers may be called on without effect."""
        return Tensor._make_subclass(Tensor, self)

    @data.setter
    def data(self, value: Tensor) -> None:
        vars(Tensor)["data"].__set__(self, value)

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = rushlight.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known until the first forward pass (see `LazyBatchNorm1d`)."""

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        data = rushlight.empty(0, device=device, dtype=dtype)
        made = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def clear_grad(param: Tensor, set_to_none: bool) -> None:
    """Drop a parameter's gradient, or fill it with zeros and cut it off its history."""
    grad = param.grad
    if grad is None:
        return
    if set_to_none:
        param.grad = None
        return
    if grad._edge is not None:
        if grad.grad_fn is not None:
            grad.detach_()
        else:
            grad.requires_grad_(False)
    grad.zero_()


def is_lazy(param: Any) -> bool:
    """True if a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


_plain_classes.update((Parameter, Buffer))
