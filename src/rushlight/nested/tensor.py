"""`Nested`: what both kinds of nested tensors are, and how calls with them are carried out.

Note [Nested tensors]
    A nested tensor is a batch of tensors whose sizes differ. It holds no array: it holds one dense tensor with
    the elements of all components, `_values`, and says where each component lies in it. What is done to a nested
    tensor is done to `_values`, by dense operators, so that gradients, versions, views and devices are those of
    a dense tensor, and nothing in autograd knows of nested tensors.

    `Nested` is a subclass of `Tensor` with a `__torch_function__`: a call with one among its arguments comes
    here as it would for a subclass of a user, and a call without pays nothing. `interpret` looks for the rule:

    1. the table of rules of the class, by the name of the function (strided.py, jagged.py);
    2. for an elementwise operator, one rule for all of them;
    3. for a function that is written in others, those;
    4. else the call is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import rushlight as torch
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general
from rushlight.dispatch.registry import OPS

if TYPE_CHECKING:
    from collections.abc import Callable


def refuse(what: str) -> NoReturn:
    """Raise: `what` does not know about nested tensors."""
    raise NotImplementedError(
        f"Could not run 'aten::{what}' with arguments from the 'NestedTensorCPU' backend: [{what}] is not "
        "implemented for nested tensors. Use .unbind() or .to_padded_tensor() first"
    )


class NoArray:
    """What stands in `_array` of a nested tensor: nothing can be computed on it. The functions that stand before
    the call of an operator read these attributes of any array."""

    __slots__ = ("dtype",)
    size, base, strides = 0, (), ()

    def __init__(self, values: Tensor) -> None:
        self.dtype = values._array.dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(name)

    def __getitem__(self, index: Any) -> NoReturn:
        refuse("as_strided")


def interpret(function: Callable, args: tuple, kwargs: dict) -> Any:
    """The result of a call of `function` with nested tensors among its arguments."""
    if function in BACKWARD:
        return backward(function, *args, **kwargs)
    owners = {type(a) for a in flattened((*args, *kwargs.values())) if isinstance(a, Nested)}
    if len(owners) > 1:
        raise RuntimeError("strided and jagged nested tensors do not work together: convert one")
    owner = owners.pop()
    name = function.__name__
    if name == "__get__":  # a property
        found: Any = function.__self__  # type: ignore[attr-defined]
        name = next(n for n, v in vars(Tensor).items() if v is found)
    if (rule := owner.RULES.get(name)) is not None:
        return rule(*args, **kwargs)
    written = name.endswith("_") and not name.startswith("__")
    op = getattr(function, "op", None) or (OPS.get(name.removesuffix("_")) if written else None)
    if op is None:
        refuse(name)
    if op.elementwise:
        values, out = general.bind(op, args, kwargs)
        if out is not None:
            refuse(f"{name}.out")
        return owner.elementwise(op, name, general.ordered(op, values))
    if op.composite and not written:
        return op.declared(*args, **kwargs)
    refuse(name)


def new(cls: type, values: Tensor) -> Any:
    """A nested tensor of a class with these values; where the components lie is not said yet."""
    t = object.__new__(cls)
    t._array, t._counter, t._values = NoArray(values), None, values
    return t


def flattened(values: Any) -> Any:
    """Values and, in the place of lists and tuples among them, their elements."""
    for v in values:
        if v.__class__ in (list, tuple):
            yield from v
        else:
            yield v


class Nested(Tensor):
    """A batch of tensors of different sizes. See Note [Nested tensors]."""

    __slots__ = ("_values",)
    _values: Tensor
    RULES: ClassVar[dict[str, Callable]]
    is_nested = property(lambda self: True)

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return interpret(func, args, kwargs or {})

    @classmethod
    def elementwise(cls, op: Any, name: str, values: list) -> Any:
        """The result of an elementwise operator; `values`: those of all its parameters."""
        raise NotImplementedError

    @property
    def _edge(self) -> Any:  # type: ignore[override]
        return self._values._edge

    @_edge.setter
    def _edge(self, edge: Any) -> None:
        refuse("Function.apply")

    def like(self, values: Tensor) -> Nested:
        """A nested tensor of the same structure with other values."""
        raise NotImplementedError

    def components(self) -> tuple[Tensor, ...]:
        """Views of all components."""
        raise NotImplementedError

    def packed(self) -> Tensor:
        """The values of all components one after another, without gaps."""
        raise NotImplementedError

    def aligned(self, other: Any) -> Tensor:
        """The values of another nested tensor with these sizes, laid out as the values of this one."""
        raise NotImplementedError

    def computed(self, op: Any, name: str, values: list) -> Nested:
        """The elementwise operator on values of one structure, those of this tensor; written to it where `name`
        ends with _."""
        n, whole = op.n_positional, self.numel() == self._values.numel()
        function = getattr(Tensor, name) if name.endswith("_") and whole else op.function
        result = function(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
        if not name.endswith("_"):
            return self.like(result)
        if not whole:  # the memory between the components stays as it is
            if not dtypes.can_cast(result.dtype, self.dtype):
                raise RuntimeError(
                    f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
                    f"{self.dtype.scalar_name}"
                )
            self.copy_(self.like(result))
        return self

    # -- what the values answer --------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self._values.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Nested:
        self._values.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Nested | None:
        g = self._values.grad
        return None if g is None else self.like(g)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._values.grad = None if value is None else self.aligned(value)

    @grad.deleter
    def grad(self) -> None:
        self._values.grad = None

    @property
    def data(self) -> Nested:
        return self.like(self._values.data)

    def detach(self) -> Nested:
        return self.like(self._values.detach())

    def detach_(self) -> Nested:
        self._values.detach_()
        return self

    def retain_grad(self) -> None:
        self._values.retain_grad()

    def register_hook(self, hook: Callable) -> Any:
        def on_values(g: Tensor) -> Any:
            got = hook(self.like(g))
            return None if got is None else self.aligned(got)

        return self._values.register_hook(on_values)

    def backward(
        self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
    ) -> None:  # fmt: skip
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    # -- sizes -------------------------------------------------------------------------------------

    ndim = property(lambda self: self.dim())
    nbytes = property(lambda self: self.numel() * self.itemsize)

    def stride(self, dim: int | None = None) -> Any:
        raise NotImplementedError

    def size(self, dim: int | None = None) -> Any:
        raise NotImplementedError

    def numel(self) -> int:
        raise NotImplementedError

    def ndimension(self) -> int:
        return self.dim()

    def nelement(self) -> int:
        return self.numel()

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            what = "no" if not self.numel() else "more than one"
            raise RuntimeError(f"Boolean value of Tensor with {what} value is ambiguous")
        return bool(self.packed())

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self.packed().item()

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict) -> Nested:
        import copy

        if id(self) not in memo:
            memo[id(self)] = self.like(copy.deepcopy(self._values, memo))
        return memo[id(self)]


BACKWARD = (torch.autograd.grad, torch.autograd.backward)


def backward(
    function: Callable, outputs: Any, *args: Any, inputs: Any = None, **options: Any
) -> Any:  # fmt: skip
    """`torch.autograd.grad` or `backward` by way of the values; the gradients of nested inputs are nested."""
    args, given, of_inputs = list(args), None, function is torch.autograd.grad
    if of_inputs and inputs is None:
        inputs = args.pop(0)
    name = "grad_outputs" if of_inputs else "grad_tensors"
    given = args.pop(0) if args else options.pop(name, None)
    outputs, given, wanted = several(outputs), several(given), several(inputs)
    ends, starts = [], []
    for i, t in enumerate(outputs):
        g = given[i] if given else None
        if isinstance(t, Nested):
            if g is None:
                if t.numel() != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                g = torch.ones_like(t)
            if not isinstance(g, type(t)) or not same_sizes(t, g):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] and output[{i}] must be nested tensors of the same sizes."
                )
            packed = t.contiguous()
            t, g = packed._values, packed.aligned(g)
        ends.append(t)
        starts.append(g)
    values = None if wanted is None else [t._values if isinstance(t, Nested) else t for t in wanted]
    if not of_inputs:
        return function(ends, starts, *args, inputs=values, **options)
    found = function(ends, values, starts, *args, **options)
    return tuple(
        t.like(g) if isinstance(t, Nested) and g is not None else g
        for t, g in zip(wanted or (), found, strict=True)
    )


def several(x: Any) -> Any:
    return (x,) if isinstance(x, Tensor) else x


def same_sizes(a: Any, b: Any) -> bool:
    """Whether two nested tensors have components of the same sizes."""
    return a.dim() == b.dim() and a.component_sizes() == b.component_sizes()


def _forward() -> None:
    """Let `Nested` answer from the values what concerns all elements alike."""
    for name in (
        "dtype device itemsize is_leaf grad_fn output_nr _version retains_grad is_cpu is_meta is_cuda is_mps "
        "is_xpu is_xla is_ipu is_hpu is_mtia is_vulkan is_mkldnn is_quantized is_sparse is_sparse_csr name"
    ).split():
        setattr(Nested, name, property(lambda self, name=name: getattr(self._values, name)))
    for name in (
        "element_size is_floating_point is_complex is_signed get_device is_pinned is_shared is_inference is_conj "
        "is_neg data_ptr untyped_storage storage storage_offset"
    ).split():

        def method(self: Nested, *args: Any, name: str = name, **kwargs: Any) -> Any:
            return getattr(self._values, name)(*args, **kwargs)

        method.__name__ = method.__qualname__ = name
        setattr(Nested, name, method)


_forward()


# -- rules that both layouts share -----------------------------------------------------------------


def converted(function: Callable) -> Callable:
    """The rule of a conversion: that of the values; the tensor itself where they stay the same."""

    def convert(input: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(a._values if isinstance(a, Nested) else a for a in args)
        kwargs = {k: a._values if isinstance(a, Nested) else a for k, a in kwargs.items()}
        if not isinstance(input, Nested):
            return function(input, *args, **kwargs)
        values = function(input._values, *args, **kwargs)
        return input if values is input._values else input.like(values)

    return convert


def on_values(function: Callable) -> Callable:
    """The rule of a function that treats every element alike: that of the values."""

    def act(input: Any, *args: Any, **kwargs: Any) -> Any:
        return input.like(function(input._values, *args, **kwargs))

    return act


def in_place(function: Callable) -> Callable:
    """The rule of a function that writes to every element alike."""

    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        for part in written(self):
            function(part, *args, **kwargs)
        return self

    return act


def written(t: Nested) -> tuple[Tensor, ...]:
    """What a write to all elements writes to: the values, or the components where the values hold more."""
    return (t._values,) if t.numel() == t._values.numel() else t.components()


def alias(values: Tensor) -> Tensor:
    """The same memory as a view of its own, which may require grad or not."""
    return values.view_as(values)


def shared_rules() -> dict[str, Callable]:
    conversions = "to type_as cpu cuda float double half bfloat16 int long short char bool byte cfloat cdouble"
    rules: dict[str, Callable] = {n: converted(getattr(Tensor, n)) for n in conversions.split()}
    for name in "zeros_like ones_like empty_like full_like rand_like randn_like randint_like bernoulli".split():
        rules[name] = on_values(getattr(torch, name))
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        rules[name] = on_values(getattr(torch.nn.functional, name))
    writes = "fill_ zero_ normal_ uniform_ bernoulli_ random_ exponential_ log_normal_ cauchy_ geometric_"
    for name in writes.split():
        rules[name] = in_place(getattr(Tensor, name))
    rules["where_method"] = lambda self, condition, other: torch.where(condition, self, other)
    rules["type_"] = lambda input, dtype=None, **options: (
        input._values.type() if dtype is None else converted(Tensor.type)(input, dtype, **options)
    )
    rules["is_same_size"] = Tensor.is_same_size
    rules["is_nonzero"] = bool
    rules["detach"] = lambda input: input.detach()
    for name in ("numel", "is_floating_point", "is_complex", "is_signed"):
        rules[name] = lambda input, name=name: getattr(input, name)()
    rules["unsafe_chunk"] = lambda input, chunks, dim=0: input.chunk(chunks, dim)
    return rules
