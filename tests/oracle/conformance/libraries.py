"""The two implementations side by side, and how inputs get from one into the other.

Inputs are frozen once into NumPy (`freeze`) and built afresh (`thaw`) for PyTorch and for the
candidate by the same route, so an operator that writes to its arguments cannot spoil the other side.
Small functions of PyTorch's test suite are copied with `torch`, `F`, ... bound to the candidate
(`Lib.rebind`).
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import types

import numpy as np
import torch

DTYPES = (
    "float32 float64 float16 bfloat16 complex64 complex128 complex32 bool "
    "uint8 int8 int16 int32 int64 uint16 uint32 uint64"
).split()
WIDEN = {"bfloat16": "float32", "complex32": "complex64"}  # types numpy lacks
UPCAST = {
    "float32": "float64",
    "float16": "float64",
    "bfloat16": "float64",
    "complex64": "complex128",
    "complex32": "complex128",
}
MAX_NUMEL = 100_000  # larger inputs are left out
NAMESPACES = (
    "",
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "masked",
    "signal.windows",
    "nn",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "Tensor",
)


class Missing(Exception):
    """The candidate has no such name."""


class Unsupported(Exception):
    """The harness does not carry this input (sparse, other device, too large)."""


def _public_names():
    """id(torch object) -> dotted public name; the object is kept so ids stay valid."""
    names = {}
    for space in NAMESPACES:
        holder = operator.attrgetter(space)(torch) if space else torch
        for name in sorted(dir(holder), key=lambda n: n.startswith("_")):
            value = getattr(holder, name, None)
            module = (
                value.__name__
                if isinstance(value, types.ModuleType)
                else getattr(value, "__module__", None)
            )
            if space == "Tensor" or (
                not name.startswith("_") and str(module).split(".")[0] == "torch"
            ):
                names.setdefault(id(value), (f"{space}.{name}".lstrip("."), value))
    return names


NAMES = _public_names()
_SIMPLE = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    slice,
    np.generic,
    np.ndarray,
    type(None),
    type(...),
)


def public_name(obj):
    return NAMES.get(id(obj), (None, None))[0]


def peek(obj, name):
    """getattr that answers None whatever the candidate does."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


class Lib:
    """One implementation of the API: torch itself, or the candidate."""

    def __init__(self, root, is_ref=False):
        self.root = root
        self.is_ref = is_ref  # torch in its role of reference
        self._rebound = {}
        self._dtype_names = []
        for name in DTYPES:
            if peek(root, name) is not None:
                self._dtype_names.append((peek(root, name), name))
        tensor = peek(root, "Tensor")
        self.Tensor = tensor if isinstance(tensor, type) else None

    # -- names ---------------------------------------------------------------
    def get(self, path):
        obj = self.root
        for part in path.split("."):
            try:
                obj = getattr(obj, part)
            except Exception as e:
                raise Missing(f"{path} ({type(e).__name__})") from None
        return obj

    def has(self, path):
        try:
            return self.get(path) is not None
        except Missing:
            return False

    def has_method(self, name):
        if peek(self.Tensor, name) is not None:
            return True
        try:
            return getattr(self.array(np.ones(1, np.float32)), name) is not None
        except Exception:
            return False

    def is_tensor(self, x):
        if self.Tensor is not None:
            return isinstance(x, self.Tensor)
        return hasattr(x, "dtype") and hasattr(x, "shape")

    def dtype(self, name):
        return self.get(name)

    def dtype_name(self, dtype):
        for known, name in self._dtype_names:
            if known is dtype or known == dtype:
                return name
        return str(dtype).split(".")[-1]

    def seed(self, n):
        try:
            self.root.manual_seed(n)
        except Exception:
            pass

    # -- values --------------------------------------------------------------
    def array(self, a):
        """numpy array -> tensor with storage of its own"""
        try:
            return self.root.tensor(a)
        except Exception:
            return self.root.from_numpy(a)

    def numpy(self, t):
        """tensor -> numpy copy"""
        t = t.detach()
        name = self.dtype_name(t.dtype)
        for flag, fix in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
            if hasattr(t, flag) and getattr(t, flag)():
                t = getattr(t, fix)()
        if name in WIDEN or name.startswith("float8"):
            t = t.to(self.dtype(WIDEN.get(name, "float32")))
        try:
            return np.array(t.numpy())
        except Exception:
            return np.array(t.tolist())

    def translate(self, v):
        """A non-tensor object found in torch's samples -> the same thing of this library."""
        if isinstance(v, _SIMPLE) and not isinstance(v, torch.Size):
            return v
        if isinstance(v, functools.partial):
            return functools.partial(
                self.translate(v.func), *self.carry(v.args), **self.carry(v.keywords)
            )
        if isinstance(v, types.FunctionType) and str(v.__module__).startswith("torch.testing"):
            return self.rebind(v)
        if self.is_ref:
            return v
        if isinstance(v, torch.dtype):
            return self.dtype(str(v).split(".")[1])
        if isinstance(v, torch.Size):
            return self.root.Size(v) if self.has("Size") else tuple(v)
        if isinstance(v, (torch.memory_format, torch.layout)):
            return self.get(str(v).split(".")[1])
        if isinstance(v, torch.device):
            return self.root.device(str(v))
        if isinstance(v, types.ModuleType) and v.__name__.split(".")[0] == "torch":
            return self.root if v is torch else self.get(v.__name__.partition(".")[2])
        name = public_name(v)
        if name:
            return self.get(name)
        if "_ctor" in getattr(v, "__dict__", {}):  # an nn.Module instance
            args, kwargs = v._ctor
            return self.get(public_name(type(v)))(*self.carry(args), **self.carry(kwargs))
        if dataclasses.is_dataclass(v) and public_name(type(v)):
            fields = {f.name: getattr(v, f.name) for f in dataclasses.fields(v) if f.init}
            return self.get(public_name(type(v)))(**self.carry(fields))
        return v

    def carry(self, v):
        return thaw(freeze(v), self, Built())

    def rebind(self, fn):
        """Copy a function of torch's test suite so that the torch objects it names are ours."""
        if fn.__name__ == "wrapper_set_seed":
            return lambda op, *args, **kwargs: op(*args, **kwargs)  # the harness seeds
        if id(fn) in self._rebound:
            return self._rebound[id(fn)][0]
        env = {"__builtins__": __builtins__}
        cells = tuple(types.CellType() for _ in fn.__closure__ or ())
        new = types.FunctionType(fn.__code__, env, fn.__name__, None, cells)
        self._rebound[id(fn)] = (new, fn)
        for name in _names_used(fn.__code__):
            if name in fn.__globals__:
                env[name] = self._lenient(fn.__globals__[name])
        for cell, old in zip(cells, fn.__closure__ or ()):
            cell.cell_contents = self._lenient(old.cell_contents)
        new.__defaults__ = fn.__defaults__ and tuple(map(self._lenient, fn.__defaults__))
        new.__kwdefaults__ = fn.__kwdefaults__ and {
            k: self._lenient(v) for k, v in fn.__kwdefaults__.items()
        }
        return new

    def _lenient(self, v):
        try:
            return self.carry(v)
        except Exception:
            return None  # the copy fails when called, as it should


def _names_used(code):
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names_used(const)
    return names


def record_constructors():
    """Make every torch.nn.Module remember its constructor arguments (see Lib.translate)."""
    for name in dir(torch.nn):
        cls = getattr(torch.nn, name)
        if isinstance(cls, type) and issubclass(cls, torch.nn.Module) and "__init__" in vars(cls):

            def init(self, *args, __orig=cls.__init__, **kwargs):
                self.__dict__.setdefault("_ctor", (args, kwargs))
                __orig(self, *args, **kwargs)

            cls.__init__ = functools.wraps(cls.__init__)(init)


# -- freeze / thaw -----------------------------------------------------------
class Leaf:
    """A tensor as numpy data plus layout.  Leaves of one storage share `base`."""

    def __init__(self, t, storages):
        if t.layout is not torch.strided or t.device.type != "cpu" or t.is_quantized or t.is_nested:
            raise Unsupported(f"{t.layout} tensor on {t.device}")
        if t.numel() > MAX_NUMEL:
            raise Unsupported(f"{t.numel()} elements")
        self.requires_grad = t.requires_grad
        self.param = isinstance(t, torch.nn.Parameter)
        t = t.detach().resolve_conj().resolve_neg()
        self.dtype = str(t.dtype).split(".")[1]
        whole = t.untyped_storage().nbytes() // t.element_size()
        if whole > MAX_NUMEL:
            t = t.clone()
            whole = t.numel()
        self.size, self.stride, self.offset = tuple(t.shape), t.stride(), t.storage_offset()
        # plain: numpy can hold it as it is (it stops at 64 dimensions)
        self.plain = t.ndim <= 64 and t.is_contiguous() and (whole == t.numel() or not t.numel())
        key = (t.untyped_storage().data_ptr(), self.dtype)
        if key in storages and t.numel():
            self.base = storages[key].base
            self.plain = storages[key].plain = False
        else:
            self.base = REF.numpy(t if self.plain else t.as_strided((whole,), (1,), 0))
            storages[key] = self

    def value(self):
        if self.plain:
            return self.base
        steps = [s * self.base.itemsize for s in self.stride]
        return np.lib.stride_tricks.as_strided(
            self.base.reshape(-1)[self.offset :], self.size, steps
        )

    def build(self, lib, bases, grad, up):
        dtype = UPCAST.get(self.dtype, self.dtype) if up else self.dtype
        numpy_dtype = WIDEN.get(dtype, dtype)
        if id(self.base) not in bases:
            t = lib.array(self.base.astype(numpy_dtype))
            bases[id(self.base)] = t.to(lib.dtype(dtype)) if dtype in WIDEN else t
        t = bases[id(self.base)]
        if not self.plain:
            try:
                t = t.as_strided(self.size, self.stride, self.offset)
            except Exception:
                t = lib.array(np.array(self.value().astype(numpy_dtype)))
                t = t.to(lib.dtype(dtype)) if dtype in WIDEN else t
        if self.param:
            return lib.get("nn.Parameter")(t, requires_grad=self.requires_grad)
        if self.requires_grad and grad:
            t = t.requires_grad_()
        return t


class Built(list):
    """(Leaf, tensor) in order of construction, for one call."""

    def __init__(self):
        super().__init__()
        self.bases = {}


class Packed(tuple):
    """A frozen PackedSequence."""


def freeze(v, memo=None):
    memo = {} if memo is None else memo
    if isinstance(v, torch.Tensor):
        if id(v) not in memo:
            memo[id(v)] = (Leaf(v, memo.setdefault("storages", {})), v)
        return memo[id(v)][0]
    if isinstance(v, torch.nn.utils.rnn.PackedSequence):
        return Packed(freeze(x, memo) for x in v)
    if isinstance(v, torch.Size) or not isinstance(v, (tuple, list, dict)):
        return v
    if isinstance(v, dict):
        return {k: freeze(x, memo) for k, x in v.items()}
    return (list if isinstance(v, list) else tuple)(freeze(x, memo) for x in v)


def thaw(v, lib, leaves, grad=True, up=False):
    """Build frozen inputs for `lib`; `leaves` (a Built) collects the tensors."""
    if isinstance(v, Leaf):
        for leaf, t in leaves:
            if leaf is v:
                return t
        leaves.append((v, v.build(lib, leaves.bases, grad, up)))
        return leaves[-1][1]
    if isinstance(v, Packed):
        return lib.get("nn.utils.rnn.PackedSequence")(*(thaw(x, lib, leaves, grad, up) for x in v))
    if isinstance(v, torch.Size):
        return lib.translate(v)
    if isinstance(v, dict):
        return {k: thaw(x, lib, leaves, grad, up) for k, x in v.items()}
    if isinstance(v, (tuple, list)):
        return type(v)(thaw(x, lib, leaves, grad, up) for x in v)
    if up and isinstance(v, torch.dtype):
        return lib.dtype(UPCAST.get(str(v).split(".")[1], str(v).split(".")[1]))
    return lib.translate(v)


REF = Lib(torch, is_ref=True)
