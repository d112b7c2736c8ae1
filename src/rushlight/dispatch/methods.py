"""Attaches the operators to `Tensor`: methods, in-place methods, and Python's operators.

`dispatch/index.py` (generated) says which family file each name is in. Nothing of a family is imported
before one of its names is used: a method is a small placeholder until then.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from rushlight.core.collector import paused
from rushlight.core.tensor import Tensor
from rushlight.dispatch import index

# What functions say that they are of: where Rushlight stands for PyTorch, "torch".
PACKAGE = "rushlight"
# Python operator -> (operator, which form of it)
OPERATORS = {
    "__add__": "add", "__sub__": "sub", "__mul__": "mul", "__truediv__": "div",
    "__floordiv__": "floor_divide", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
UNARY = {"__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__invert__": "bitwise_not"}
# In-place methods that are functions of the top namespace too.
WRITING = frozenset(
    "abs_ acos_ acosh_ addmv_ alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ "
    "as_strided_ asin_ asinh_ atan_ atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ "
    "conj_physical_ cos_ cosh_ deg2rad_ detach_ dropout_ erf_ erfc_ exp2_ exp_ expm1_ "
    "feature_alpha_dropout_ feature_dropout_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ "
    "ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ "
    "resize_as_ round_ rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ "
    "trunc_ xlogy_ zero_".split()
)
INDEXING = {"__getitem__": "getitem", "__setitem__": "setitem"}

PROPERTIES = {
    "T": "Tensor.numpy_T", "mT": "Tensor.matrix_T", "H": "Tensor.matrix_H", "mH": "Tensor.matrices_H",
    "real": "real", "imag": "imag",
}  # fmt: skip
# Docstrings of the attributes of `Tensor`, and of its short methods.
DOCUMENTATION = {
    "H": "A matrix conjugated and transposed, as a view; RuntimeError unless the tensor has 0 or 2 dimensions.",
    "T": "The tensor with its dimensions in reverse order, as a view. For batches of matrices use `mT`.",
    "device": "The device that holds the elements.",
    "dtype": "The type of the elements.",
    "grad": "The gradient that `backward` has added up for this leaf, or None.",
    "grad_fn": "The node of the graph that computed this tensor; None for a leaf.",
    "imag": "The imaginary parts, as a view; RuntimeError for a real tensor.",
    "is_complex": "Whether the dtype is complex.",
    "is_conj": "Whether the memory holds the conjugates of the values.",
    "is_cpu": "Whether the tensor is on the CPU.",
    "is_floating_point": "Whether the dtype is a real floating dtype.",
    "is_leaf": "Whether no recorded operation made this tensor: `backward` fills `grad` of leaves.",
    "is_meta": "Whether the tensor is on the device `meta`: it has a shape and a dtype, and no elements.",
    "is_mkldnn": "False: there is no layout of oneDNN.",
    "is_neg": "Whether the memory holds the negatives of the values.",
    "is_nested": "Whether this is a nested tensor.",
    "is_pinned": "False: no memory is pinned.",
    "is_quantized": "False: there are no quantized tensors.",
    "is_shared": "Whether other processes can share the memory.",
    "is_signed": "Whether the dtype holds negative numbers.",
    "is_sparse": "Whether the layout is `torch.sparse_coo`.",
    "is_sparse_csr": "Whether the layout is `torch.sparse_csr`.",
    "itemsize": "The number of bytes of an element.",
    "layout": "How the elements are stored: `torch.strided`, or one of the sparse layouts.",
    "mH": "The matrices in the last two dimensions, conjugated and transposed, as a view.",
    "mT": "The matrices in the last two dimensions, transposed, as a view.",
    "name": "None: tensors have no names.",
    "nbytes": "The number of bytes of all elements.",
    "ndim": "The number of dimensions.",
    "output_nr": "Which output of `grad_fn` this tensor is.",
    "real": "The real parts, as a view; a real tensor itself.",
    "requires_grad": "Whether operations on this tensor are recorded, so that `backward` reaches it.",
    "shape": "The number of elements along each dimension, as a `torch.Size`.",
} | {
    f"is_{name}": "False: there is no device of this type."
    for name in ("cuda", "hpu", "ipu", "mps", "mtia", "vulkan", "xla", "xpu")
}


def load(path: str) -> Any:
    """The operator or plain function behind a public path, its family imported if need be."""
    with paused():
        import_module(f"rushlight.ops.{index.FUNCTIONS[path]}")
        from rushlight.dispatch.registry import ALIASES, OPS, PUBLIC
    return OPS.get(path) or ALIASES.get(path) or PUBLIC[path][0]


@cache
def function(path: str) -> Any:
    """The public function behind a path such as `add` or `nn.functional.relu`."""
    found = load(path)
    from rushlight.dispatch.registry import Op, annotate, types_of

    if not isinstance(found, Op):
        return annotate(found)
    made = found.build().function
    made.__annotations__ = types_of(found.notes, found.outputs is None and not found.composite)
    if found.composite:
        found.declared.__annotations__ = made.__annotations__
    if not found.where.startswith(("internal", "_", "Tensor")):
        # Where a pickle finds it again: models keep functions, `self.activation = torch.tanh`.
        made.__module__ = f"{PACKAGE}.{found.where}" if found.where else PACKAGE
        made.__qualname__ = found.path.rpartition(".")[2]
    return made


def namespace(where: str, members: dict[str, Any]) -> tuple[Any, Any]:
    """`__getattr__` and `__dir__` of the module `where`, and its `__all__`: the functions whose path begins so, loaded at their first use.

    `members` is the module's `globals()`, which keeps what was found.
    """
    prefix = where + "."

    def find(name: str) -> Any:
        if name == "__all__":  # of `from torch.linalg import *`
            return [n for n in listed() if n not in members or callable(members[n])]
        if prefix + name not in index.FUNCTIONS:
            raise AttributeError(
                f"module 'rushlight.{where}' has no attribute {name!r}: not implemented here; "
                "docs/coverage.md lists what is"
            )
        found = members[name] = function(prefix + name)
        return found

    def listed() -> list[str]:
        names = {p.removeprefix(prefix) for p in index.FUNCTIONS if p.startswith(prefix)}
        return sorted(n for n in {*members, *names} if not n.startswith("_"))

    return find, listed


class Lazy:
    """A method that is not there yet: the first use loads it and puts it in its own place."""

    __slots__ = ("name", "path", "form")

    def __init__(self, name: str, path: str, form: str) -> None:
        self.name, self.path, self.form = name, path, form

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        made = self._made()
        setattr(Tensor, self.name, made)
        return made.__get__(instance, owner)

    def _made(self) -> Any:
        """The method in the form that this name stands for; its family is loaded."""
        found = load(self.path)
        if not hasattr(found, "build"):
            return found
        built = found.build()
        if self.form == "operator":
            return built.operator or operator(built)
        if self.form == "reversed":
            return reversed_operator(built)
        if self.form == "inplace operator":
            return inplace_operator(built, self.name)
        if self.form == "inplace":
            return built.inplace
        return built.method if self.form == "method" else built.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(None, Tensor)(*args, **kwargs)


class Absent:
    """PyTorch has this attribute and we have not: says so, without making other attributes slower."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise AttributeError(
            f"'Tensor' object has no attribute {self.name!r}: not implemented here; docs/coverage.md says "
            "why"
        )


def attribute_names(self: Tensor) -> list[str]:
    """`dir(tensor)`: without the names that are absent here."""
    found = {*dir(type(self)), *self.__dict__} - {"_grad"}  # a slot that may be empty
    of = {n: c.__dict__[n] for c in reversed(type(self).__mro__) for n in c.__dict__}
    return sorted(n for n in found if not isinstance(of.get(n), Absent))


def lazy_property(name: str, path: str) -> property:
    """An attribute that is computed: `x.T`. The first use loads it and puts it in its own place."""

    def set_part(self: Tensor, value: Any) -> None:  # x.real = v
        getattr(self, name).copy_(value)

    setter = set_part if path == name else None

    def get(self: Tensor) -> Tensor:
        found = function(path)
        held = vars(Tensor)[name]  # stays the object that `Tensor.T` is
        property.__init__(held, found, setter, None, held.__doc__)
        setattr(Tensor, name, held)
        return found(self)

    return property(get, setter)


def operator(built: Any) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return built.scope["slow_operator"](self, other)

    return method


def reversed_operator(built: Any) -> Any:
    """`other <op> self` where `other` is no tensor."""

    def method(self: Tensor, other: Any) -> Any:
        return built.scope["slow_operator"](other, self)

    return method


def inplace_operator(built: Any, name: str) -> Any:
    inplace = built.inplace

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, (Tensor, int, float, complex)) and not hasattr(other, "dtype"):
            return NotImplemented
        return inplace(self, other)

    method.__name__ = name
    return method


def attach() -> None:
    """Put a placeholder on Tensor for every method in the index."""
    for name, path in index.METHODS.items():
        setattr(Tensor, name, Lazy(name, path, "method"))
    for name, path in index.INPLACE.items():
        setattr(Tensor, name, Lazy(name, path, "inplace"))
    names = index.FUNCTIONS
    for dunder, path in OPERATORS.items():
        if path not in names:
            continue
        setattr(Tensor, dunder, Lazy(dunder, path, "operator"))
        if dunder not in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            r, i = f"__r{dunder[2:]}", f"__i{dunder[2:]}"
            if r not in index.METHODS:
                of = {"__rsub__": "rsub"}.get(r, path)
                straight = of == "rsub" or dunder in ("__add__", "__mul__")
                setattr(Tensor, r, Lazy(r, of, "operator" if straight else "reversed"))
            if path + "_" in index.INPLACE:
                setattr(Tensor, i, Lazy(i, path, "inplace operator"))
    for dunder, path in UNARY.items():
        if path in names:
            setattr(Tensor, dunder, Lazy(dunder, path, "function"))
    for dunder, path in INDEXING.items():
        if f"Tensor.{path}" in names:
            setattr(Tensor, dunder, Lazy(dunder, f"Tensor.{path}", "function"))
    for name, path in PROPERTIES.items():
        if path in names:
            setattr(Tensor, name, lazy_property(name, path))
    for name, text in DOCUMENTATION.items():
        vars(Tensor)[name].__doc__ = text
    for name in getattr(index, "ABSENT", "").split():
        setattr(Tensor, name, Absent(name))
    Tensor.__dir__ = attribute_names  # type: ignore[method-assign, assignment] # of a class, on purpose


attach()
