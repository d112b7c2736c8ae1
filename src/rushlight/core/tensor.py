"""`Tensor`: one array, and where its gradient goes. State and conversion, no mathematics.

dispatch/methods.py attaches the operators. An instance has four slots: `_array` (a NumPy array: storage, offset,
shape and strides in one), `_edge` (where the gradient goes, see Note [What an edge is] in autograd/graph.py),
`_counter` (shared with all tensors on the same memory, None before the first view or write) and `_grad`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import devices, sparse
from rushlight.autograd import tensor_hooks
from rushlight.autograd.graph import INFERENCE, AccumulateGrad, Output, Version, version_of
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import INFERENCE as INFERENCE_VIEW
from rushlight.autograd.views import View, edge_of
from rushlight.core import dtypes, scalars
from rushlight.core.device import device
from rushlight.core.dtype_sets import BF16, C32
from rushlight.core.dtypes import contiguous_format
from rushlight.core.size import Size

if TYPE_CHECKING:
    from collections.abc import Callable

new = object.__new__
_tuple_of = tuple.__new__
_CPU = device("cpu")


class TensorType(type):
    """The metaclass: `isinstance(p, nn.Parameter)` looks at `_is_param`, as PyTorch's does."""


class Tensor:
    """A multi-dimensional array of one dtype that can record the operations on it.

    >>> import rushlight as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = ("_array", "_edge", "_counter", "_grad", "__dict__", "__weakref__")

    _array: np.ndarray
    _edge: Any
    _counter: Version | None
    _grad: Tensor | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        from rushlight.ops.factories import legacy

        return legacy.legacy_new(cls, args, kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        from rushlight.dispatch import overrides

        overrides.intercept(cls)

    # -- shape and type ----------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return _tuple_of(Size, self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension `dim`."""
        if dim is None:
            return self.shape
        try:
            return self._array.shape[dim]
        except (IndexError, TypeError):
            return self._array.shape[_existing_dim(self._array, dim)]

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.OF[self._array.dtype]

    @property
    def device(self) -> device:
        a = self._array
        return _CPU if a.__class__ is np.ndarray else devices.of(a).device_of(a)

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    @property
    def layout(self) -> Any:
        a = self._array
        return dtypes.strided if a.__class__ is np.ndarray else getattr(a, "layout", dtypes.strided)

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    _cdata = property(id)  # a number for this object
    is_cpu = property(lambda self: self.device.type == "cpu")
    is_meta = property(lambda self: self.device.type == "meta")
    is_cuda, is_mps, is_xpu, is_xla, is_ipu = (property(lambda self: False) for _ in range(5))
    is_hpu, is_mtia, is_vulkan = (property(lambda self: False) for _ in range(3))
    is_mkldnn, is_quantized, is_nested = (property(lambda self: False) for _ in range(3))
    is_sparse = property(lambda self: self._array.__class__ is sparse.Coo)
    is_sparse_csr = property(lambda self: self.layout is dtypes.sparse_csr)

    def get_device(self) -> int:
        """The index of the device; -1 for the CPU."""
        return -1 if (index := self.device.index) is None else index

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def is_shared(self) -> bool:
        from rushlight.core import storage

        return storage.is_shared(self)

    def is_inference(self) -> bool:
        """Made inside `inference_mode`."""
        return self._counter is INFERENCE

    name = property(lambda self: None)

    def is_conj(self) -> bool:
        return getattr(self._array, "has_conj", False)

    def is_neg(self) -> bool:
        return getattr(self._array, "has_neg", False)

    # -- history -----------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        e = self._edge
        return e is not None and (e.__class__ is not View or e.wants())

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        if value and self.dtype.kind < 2:
            tensor_hooks.refuse_dtype("floating point and complex")
        self._set_requires_grad(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether backward stores the gradient of this leaf in `.grad`; floating and complex dtypes only."""
        if thread.transforms:
            tensor_hooks.refuse_inside(
                "requires_grad_", " (or perhaps using torch.autograd.functional.* APIs)"
            )
        if requires_grad and self.dtype.kind < 2:
            tensor_hooks.refuse_dtype("floating point")
        return self._set_requires_grad(requires_grad)

    _set_requires_grad = tensor_hooks.set_requires_grad

    def _set_leaf_edge(self, edge: Any) -> None:
        if self._edge.__class__ is View:
            self._edge.node = edge
        else:
            self._edge = edge

    @property
    def is_leaf(self) -> bool:
        e = edge_of(self)
        return e is None or not e._edges

    @property
    def grad_fn(self) -> Any:
        e = edge_of(self)
        if e is None or not e._edges:
            return None
        return e.node._as_pytorch() if e.__class__ is Output else e._as_pytorch()

    @property
    def output_nr(self) -> int:
        e = edge_of(self)
        return e.nr if e.__class__ is Output else 0

    @property
    def grad(self) -> Tensor | None:
        try:
            g = self._grad
        except AttributeError:
            g = None
        if g is None and not self.is_leaf and not self.retains_grad:
            from rushlight.core import settings

            settings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
                "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor."
            )
        return g

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type "
                    f"'{type(value).__name__}'"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._array.dtype != self._array.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with grad_dtype "
                    f"'{self.dtype.scalar_name}'. The gradient must have the dtype of the tensor."
                )
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                    f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def _version(self) -> int:
        return 0 if self._counter is None else self._counter.n

    @property
    def _base(self) -> Tensor | None:
        e = self._edge
        return e.base if e.__class__ is View else None

    def _is_view(self) -> bool:
        return self._edge.__class__ is View

    retains_grad = property(tensor_hooks.retains_grad)
    retain_grad = tensor_hooks.retain_grad
    register_hook = tensor_hooks.register_hook
    _backward_hooks = property(tensor_hooks.backward_hooks, tensor_hooks.set_backward_hooks)
    register_post_accumulate_grad_hook = tensor_hooks.register_post_accumulate_grad_hook

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor with respect to every leaf of its graph to `leaf.grad`."""
        from rushlight.autograd.engine import backward_of_tensor  # takes the place of this method

        backward_of_tensor(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """A tensor on the same memory, without history and with the same version counter."""
        t, a = new(Tensor), self._array
        t._array = a if a.__class__ is np.ndarray else _detached(_array_for(Tensor, a))
        t._edge, t._counter = None, self._counter or version_of(self)
        if self.__class__ in _plain_classes and not active.modes:
            return t
        below = scalars.handlers_of(self)
        return _like_subclass(t, self) if below is None else below.detached(self)

    def detach_(self) -> Tensor:
        """Remove the history of this tensor, in place."""
        if self._edge.__class__ is View:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel"
                " (DDP) for training, and gradient_as_bucket_view is set as True, gradients are views."
            )
        self._array, self._edge = _detached(self._array), None
        return self

    @property
    def data(self) -> Tensor:
        """A tensor on the same memory, without history and with a new version counter."""
        t = new(Tensor)
        t._array, t._edge, t._counter = _detached(self._array), None, None
        if self.__class__ in _plain_classes and not active.modes:
            return t
        below = scalars.handlers_of(self)
        return _like_subclass(t, self) if below is None else below.detached(self, apart=True)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if isinstance(value._array, sparse.Sparse) is not isinstance(self._array, sparse.Sparse):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                "incompatible tensor type."
            )
        if value._array.dtype.kind in "bui" and self._edge is not None and self.requires_grad:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        self._array = _array_for(self.__class__, value._array)
        e = self._edge
        if e.__class__ is AccumulateGrad:
            e.array = self._array

    # -- values ------------------------------------------------------------------------------------

    item, tolist = scalars.item, scalars.tolist

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The memory as a NumPy array, without a copy. `force`: detach first, and copy if needed."""
        if force:
            return self.detach().cpu().resolve_conj().resolve_neg().numpy()
        if self.__class__ is not Tensor and scalars.handlers_of(self):
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        if thread.grad and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        a = self._array
        if a.__class__ is not np.ndarray:
            if not self.is_cpu:
                hint = " Use Tensor.cpu() to copy the tensor to host memory first."
                hint = "" if self.is_meta else hint
                raise TypeError(f"can't convert {self.device} device type tensor to numpy.{hint}")
            getattr(a, "refuse_numpy", bool)()  # a sparse one, or with a conjugate or negative bit
        if a.dtype is BF16 or a.dtype is C32:
            raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        return a if a.__class__ is np.ndarray else a.view(np.ndarray)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        a = self.numpy()
        if dtype is not None and a.dtype != dtype:
            return a.astype(dtype)
        return a.copy() if copy else a

    __array_priority__ = 1000

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return _wrap(np.asarray(array)) if getattr(array, "dtype", None) in dtypes.OF else array

    __bool__ = scalars.as_bool
    __int__ = scalars.as_int
    __float__ = scalars.as_float
    __complex__ = scalars.as_complex
    __index__ = scalars.as_index

    def __iter__(self) -> Any:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    def __reversed__(self) -> Tensor:
        """The tensor with its first dimension in reverse order."""
        return self.flip(0) if self._array.ndim else self

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((element == self).any())
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight.core import printing

        return printing.tensor_str(self, contents=tensor_contents)

    def _repr_html_(self) -> str:
        from rushlight.core import printing

        return printing.tensor_html(self)

    def __format__(self, spec: str) -> str:
        from rushlight.core import printing

        return printing.tensor_format(self, spec)

    # -- memory ------------------------------------------------------------------------------------

    def stride(self, dim: int | None = None) -> Any:
        """The strides of all dimensions, or that of `dim`, in elements."""
        return self._strides if dim is None else self._strides[_existing_dim(self._array, dim)]

    @property
    def _strides(self) -> tuple[int, ...]:
        a = self._array
        size = a.itemsize
        if isinstance(a, sparse.Sparse) and a.__class__ is not sparse.Coo:
            raise RuntimeError(f"Sparse {a.code.upper()} tensors do not have strides")
        strides = tuple([s // size for s in a.strides])
        if a.size:
            return strides
        from rushlight.core.geometry import known_strides

        return known_strides(a.shape, strides)

    def storage_offset(self) -> int:
        """The offset of the first element in the storage, in elements."""
        return self._offset

    @property
    def _offset(self) -> int:
        from rushlight.core import storage

        return storage.offset(self)

    def untyped_storage(self) -> Any:
        """The memory as bytes."""
        from rushlight.core import storage

        return storage.UntypedStorage._of(self)

    def storage(self) -> Any:
        """The memory as elements of this dtype."""
        from rushlight.core import storage

        storage.warn_of_typed()
        return storage.TypedStorage._of(self)

    def data_ptr(self) -> int:
        """The address of the first element; 0 for a tensor without elements or on `meta`."""
        return self._address

    @property
    def _address(self) -> int:
        a = self._array
        return devices.of(a).address(a) if a.size and not hasattr(a.__class__, "memoryless") else 0

    @property
    def _row_major(self) -> bool:
        return self._array.flags.c_contiguous

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether the elements lie without gaps in the order of `memory_format`."""
        if memory_format in (contiguous_format, dtypes.preserve_format):
            return self._row_major
        from rushlight.core import geometry

        a = self._array
        if memory_format is dtypes.channels_last:
            return geometry.is_channels_last(a.shape, self.stride(), 4)
        if memory_format is dtypes.channels_last_3d:
            return geometry.is_channels_last(a.shape, self.stride(), 5)
        raise RuntimeError("unsupported memory format option " + str(memory_format))

    def __deepcopy__(self, memo: dict) -> Tensor:
        from rushlight import serialization

        return serialization.deepcopy_tensor(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from rushlight import serialization

        return serialization.reduce_tensor(self)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        from rushlight.core import dlpack

        return dlpack.capsule_of(self._array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    # -- subclasses --------------------------------------------------------------------------------

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **_: Any) -> Any:
        """A tensor of class `cls` on the memory of `data`, without its history."""
        scalars.handlers_of(data, cls)
        t = new(cls)
        t._array, t._edge, t._counter = _array_for(cls, data._array), None, None
        if require_grad:
            t._set_requires_grad(True)  # the class is not asked: its attributes are not there yet
        return t

    def as_subclass(self, cls: type) -> Any:
        """A view of the whole tensor as an instance of `cls`."""
        from rushlight.dispatch import overrides

        return overrides.as_subclass(self, cls)

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        from rushlight.dispatch import overrides

        return overrides.default(cls, func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        from rushlight.dispatch import handlers

        return handlers.undispatched(func, args, kwargs)


def _existing_dim(a: np.ndarray, dim: int) -> int:
    from rushlight.core import geometry

    if not a.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return geometry.wrap_dim(dim, a.ndim)


def _like_subclass(t: Tensor, like: Tensor) -> Tensor:
    """`t` as an instance of the class of `like`, if that overrides functions, and this is not disabled."""
    from rushlight.dispatch import overrides

    return t.as_subclass(type(like)) if overrides.overriding(like) else t


def _array_for(cls: type, a: np.ndarray) -> np.ndarray:
    """The array that a tensor of class `cls` holds: a `Tagged` one if the class overrides functions."""
    if a.__class__ is np.ndarray and cls is Tensor or not isinstance(a, np.ndarray):
        return a
    if a.__class__.__name__ in ("Meta", "Shell") or hasattr(a, "has_conj"):
        return a
    from rushlight.dispatch import handlers, overrides

    if cls is Tensor:
        return a.view(np.ndarray) if a.__class__ is overrides.Tagged else a
    own = cls.__torch_function__
    if overrides._same(own, overrides.disabled) and not handlers.dispatches(cls):
        return a if a.__class__ is not overrides.Tagged else a.view(np.ndarray)
    return a.view(overrides.Tagged)


def _detached(a: Any) -> Any:
    """The array without the history and the tangents that an array of a transform holds."""
    lifted = a.__class__ is not np.ndarray and hasattr(a.__class__, "detached")
    return a.detached() if lifted else a


def _wrap(array: np.ndarray) -> Tensor:
    """A plain tensor around an array, without copying."""
    t = new(Tensor)
    t._array, t._edge = array, None
    t._counter = INFERENCE if active.inference and thread.inference else None
    return t


def _bump(t: Tensor) -> None:
    """Count one write to the memory of `t`."""
    if t._counter is not INFERENCE:
        version_of(t).n += 1


devices.tensor_class = Tensor
_plain_classes: set[type] = {Tensor}  # and subclasses whose results are plain tensors
__all__ = ["INFERENCE_VIEW", "Tensor"]
