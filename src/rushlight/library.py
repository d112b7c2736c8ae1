"""`torch.library`: custom operators with gradients and shape rules, found under `torch.ops.<namespace>`.

>>> import rushlight as torch
>>> from rushlight import Tensor
>>> @torch.library.custom_op("doc::twice", mutates_args=())
... def twice(x: Tensor) -> Tensor:
...     return x * 2
>>> twice.register_autograd(lambda ctx, g: g * 2)
>>> x = torch.ones(2, requires_grad=True)
>>> torch.ops.doc.twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from rushlight._ops import OPERATORS, below
from rushlight._ops import Namespace as Namespace
from rushlight.amp.autocast_mode import autocast, is_autocast_enabled
from rushlight.autograd.function import Function
from rushlight.autograd.saved_hooks import increment_version
from rushlight.autograd.state import thread
from rushlight.core.storage import root
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.dispatch import kernels, overrides
from rushlight.dispatch.handlers import ask, asked
from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket
from rushlight.dispatch.schemas import infer_schema, signature_of
from rushlight.dispatch.transforms import Lifted
from rushlight.utils._pytree import tree_map_only

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class CustomOpDef:
    """An operator declared by `custom_op` or `Library.define`; a call runs its kernel and records it for autograd."""

    def __init__(self, name: str, signature: inspect.Signature, mutates: tuple[str, ...]) -> None:
        self._qualname = name
        self._namespace, _, short = name.partition("::")
        self._name, _, overload = short.partition(".")
        self._signature, self._mutates = signature, mutates
        self._kernels: dict[str, Callable] = {}
        self._fake: Callable | None = None
        self._backward: Callable | None = None
        self._setup_context: Callable | None = None
        self._vmap: Callable | None = None
        self._above: Callable | None = None  # the function for autograd: asked before the kernel
        # device type -> dtype of floating arguments, or what is called
        self._autocast: dict[str, Any] = {}
        self._alone = False  # results may share memory with nothing
        self._composite = False  # of operators, which stand for it where graphs are made
        self._init_fn: Callable | None = None
        self.__name__ = self._name
        others = [o for o in OPERATORS.values() if str(o) == str(self)]
        packet = OpOverloadPacket(self._namespace, self._name)
        packet = others[0]._opoverload.overloadpacket if others else packet
        self._opoverload: OpOverload = packet.declare(overload or "default", self)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._name}"

    @property
    def default(self) -> OpOverload:
        """The only overload: what a `__torch_dispatch__` gets."""
        return self._opoverload

    def name(self) -> str:
        """`namespace::name`."""
        return self._qualname

    def register_kernel(self, device_types: Any, func: Callable | None = None) -> Callable:
        """Set the function that computes it on devices of these types (None: on all); also a decorator."""

        def register(func: Callable) -> Callable:
            for each in _listed(device_types):
                self._kernels[each] = func
            return func

        return register if func is None else register(func)

    def register_fake(self, func: F) -> F:
        """Set the function that makes results on the meta device; also a decorator."""
        self._fake = func
        return func

    def register_autograd(self, backward: Callable, *, setup_context: Any = None) -> None:
        """Set the gradient: `backward(ctx, *grads)` returns one for each argument; `setup_context(ctx, inputs, output)` saves for it."""
        self._backward, self._setup_context = backward, setup_context

    @overload
    def register_vmap(self, func: None = None) -> Callable[[F], F]: ...
    @overload
    def register_vmap(self, func: F) -> F: ...
    def register_vmap(self, func: Any = None) -> Any:
        """Set the batching rule `func(info, in_dims, *args)`, which gives (results, their dimensions); also a decorator."""
        if func is None:
            return self.register_vmap
        if self._vmap is not None:
            raise RuntimeError(f"{self}: there is a vmap rule already")
        self._vmap = func
        return func

    def register_torch_dispatch(self, torch_dispatch_class: Any, func: Any = None) -> Any:
        """Set what is called in the place of the `__torch_dispatch__` of a class of modes, `func(mode, op, types, args,
        kwargs)`, or of tensors, `func(op, types, args, kwargs)`; also a decorator."""

        def register(func: Callable) -> Callable:
            self._opoverload.rules[torch_dispatch_class] = func
            return func

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Set the dtype that floating arguments are cast to under `autocast`, which is off inside of the operator."""
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"Unknown device type: {device_type}")
        self._autocast[device_type] = cast_inputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if overrides.thread.function_modes or any(map(overrides.asks, (*args, *kwargs.values()))):
            got = overrides.call_overrides(self._opoverload, args, kwargs)
            if got is not overrides.NOTHING:
                return got
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
        self._check(bound.arguments)
        if self._composite:
            return self.kernel()(*args, **kwargs)
        if self._autocast and (dtype := self._dtype_of_autocast()) is not None:
            if callable(dtype):
                return dtype(*args, **kwargs)
            cast = lambda t: t.to(dtype) if t.is_floating_point() and t.itemsize < 8 else t
            with autocast("cpu", enabled=False):
                args, kwargs = tree_map_only(Tensor, cast, (args, kwargs))
                return self(*args, **kwargs)
        flat = list(_leaves(args))
        if self._vmap is not None and any(isinstance(t._array, Lifted) for t in flat):
            return self._recorded(flat, args, kwargs)
        if self._above is not None and not (below.autograd or thread.inference):
            return self._above(*args, **kwargs)
        if not (thread.grad and any(t.requires_grad for t in flat)):
            return self._run(args, kwargs)
        if self._backward is None and not self._alone and not asked((*args, *kwargs.values())):
            return self._run(args, kwargs, record=True)  # as what its kernel calls
        return self._recorded(flat, args, kwargs)

    def _check(self, arguments: dict[str, Any]) -> None:
        for name, value in arguments.items():
            expected = self._signature.parameters[name].annotation
            if expected in (Tensor, "Tensor", "torch.Tensor") and not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{self._qualname}() Expected a value of type 'Tensor' for argument '{name}' but instead found "
                    f"type '{type(value).__name__}'"
                )

    def _dtype_of_autocast(self) -> Any:
        """The dtype for the arguments, or the function that is called, where autocast is on, else None."""
        found = [d for kind, d in self._autocast.items() if is_autocast_enabled(kind)]
        return found[0] if found else None

    def bound(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments of a call as its kernel takes them, with those at their defaults."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def kernel(self) -> Callable:
        """What computes it on the CPU."""
        kernel = self._kernels.get("cpu") or self._kernels.get("")
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the 'CPU' backend: no kernel is registered for it"
            )
        return kernel

    def _run(self, args: tuple, kwargs: dict, record: bool = False) -> Any:
        if asked((*args, *kwargs.values())):
            return ask(self._opoverload, *self.without_defaults(args, kwargs))
        tensors = list(_leaves([*args, *kwargs.values()]))
        if any(t.is_meta for t in tensors):
            if self._fake is None:
                raise NotImplementedError(
                    f"{self}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
                    "registered for this operator. Please use `torch.library.register_fake` to add one"
                )
            return self._fake(*args, **kwargs)
        kernel = self.kernel()
        if record:
            return kernel(*args, **kwargs)
        # kernels run below autograd: `x.numpy()` works in them
        plain = [_detached(each) for each in args]
        result = kernel(*plain, **{name: _detached(each) for name, each in kwargs.items()})
        if self._alone:
            self._check_result(result, tensors)
        for t in _leaves(self.written_of(args, kwargs)):
            increment_version(t)
        return result

    def written_of(self, args: tuple, kwargs: dict) -> list:
        """The arguments that a call writes to."""
        given = {**dict(zip(self._signature.parameters, args, strict=False)), **kwargs}
        return [given.get(name) for name in self._mutates]

    def without_defaults(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments without those at their defaults."""
        defaults = [p.default for p in self._signature.parameters.values()]
        while args and args[-1] is defaults[len(args) - 1]:
            args = args[:-1]
        named = self._signature.parameters
        return args, {k: v for k, v in kwargs.items() if v is not named[k].default}

    def _check_result(self, result: Any, inputs: list[Tensor]) -> None:
        memories = {id(root(t._array)) for t in inputs}
        for t in _leaves(result):
            if id(root(t._array)) in memories and t.numel():
                raise RuntimeError(
                    f"{self._name}: The output of this custom operator (1) must not also be an input to this custom "
                    "operator and (2) may not alias any inputs to this custom operator or other returns. The most common "
                    "way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
                    "instead return a clone of the offending output tensor(s) (e.g. return x.clone())"
                )
            memories.add(id(root(t._array)))

    def _recorded(self, flat: list[Tensor], args: tuple, kwargs: dict) -> Any:
        operator = self

        class Generated(Function):
            @staticmethod
            def vmap(info: Any, in_dims: tuple, *given: Tensor) -> Any:
                dims = iter(in_dims)
                each = _map_tensors(args, lambda _: next(dims), None)
                return operator._vmap(info, each, *_refilled(args, given), **kwargs)  # type: ignore[misc]

            @staticmethod
            def forward(*given: Tensor) -> Any:
                result = operator._run(_refilled(args, given), kwargs)
                return tuple(result) if isinstance(result, list) else result

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
                # `needs_input_grad` of a list of tensors is a list
                needs = iter(ctx.needs_input_grad)
                ctx.needs_input_grad = _map_tensors(args, lambda _: next(needs), False)
                if operator._setup_context is not None:
                    more = {"keyword_only_inputs": kwargs} if kwargs else {}
                    whole = _refilled(args, inputs)
                    operator._setup_context(ctx, inputs=whole, output=output, **more)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                if operator._backward is None:
                    raise RuntimeError(
                        f"Trying to backward through {operator}.default but no autograd formula was registered. Please use "
                        "register_autograd to add one."
                    )
                found = operator._backward(ctx, *grads)
                found = found if isinstance(found, tuple) else (found,)
                return tuple(_for_tensors(operator, args, found))

        Generated._backward_cls.__name__ = (
            f"GeneratedBackwardFor_{self._namespace}_{self._name}_defaultBackward"
        )
        return Generated.apply(*flat)


def _listed(device_types: Any) -> list[str]:
    if device_types is None:
        return [""]
    found = [device_types] if isinstance(device_types, str) else device_types
    return [kernels.checked_place(each) for each in found]


def _leaves(obj: Any) -> Iterable[Tensor]:
    """The tensors in `obj`, also in nested lists and tuples."""
    for each in obj if isinstance(obj, (list, tuple)) else [obj]:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _leaves(each)


def _detached(obj: Any) -> Any:
    """`obj` with its tensors detached."""
    if isinstance(obj, Tensor):
        return obj.detach() if obj.requires_grad else obj
    if isinstance(obj, (list, tuple)) and any(t.requires_grad for t in _leaves(obj)):
        return type(obj)([_detached(each) for each in obj])
    return obj


def _map_tensors(obj: Any, leaf: Callable, other: Any) -> Any:
    """`obj` with every tensor replaced by `leaf(tensor)` and everything else, except containers, by `other`."""
    if isinstance(obj, Tensor):
        return leaf(obj)
    if isinstance(obj, (list, tuple)) and any(True for _ in _leaves(obj)):
        made = [_map_tensors(each, leaf, other) for each in obj]
        return tuple(made) if isinstance(obj, tuple) else made
    return other


def _refilled(args: tuple, tensors: Iterable[Tensor]) -> Any:
    """`args` with other tensors in the places of theirs, in order."""
    rest = iter(tensors)
    return tree_map_only(Tensor, lambda _: next(rest), args)


def _for_tensors(operator: CustomOpDef, args: tuple, grads: tuple) -> Iterable[Any]:
    """The gradients of the tensors in `args`, from one gradient for each argument."""
    if len(grads) < len(args):
        grads = (*grads, *[None] * (len(args) - len(grads)))
    for arg, grad in zip(args, grads, strict=False):
        if isinstance(arg, Tensor):
            yield grad
        elif isinstance(arg, (list, tuple)) and any(True for _ in _leaves(arg)):
            parts = list(grad) if isinstance(grad, (list, tuple)) else [None] * len(arg)
            if len(parts) != len(arg):
                raise RuntimeError(
                    f"{operator}: the gradient of a list of {len(arg)} tensors has {len(parts)} entries"
                )
            yield from _for_tensors(operator, tuple(arg), tuple(parts))


# -- declarations ----------------------------------------------------------------------------------


@overload
def custom_op(
    name: str, fn: None = None, /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Callable[[Callable[..., Any]], CustomOpDef]: ...  # fmt: skip
@overload
def custom_op(
    name: str, fn: Callable[..., Any], /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> CustomOpDef: ...  # fmt: skip
def custom_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make the operator `namespace::name` from a function; also a decorator.

    The parameters need annotations, unless there is a `schema`. `mutates_args`: the names of those that it writes to.
    ValueError for a name without namespace or a parameter without type.
    """

    def declare(fn: Callable) -> CustomOpDef:
        infer_schema(fn, mutates_args=mutates_args) if schema is None else None
        names = () if mutates_args == "unknown" else tuple(mutates_args)
        made = CustomOpDef(_qualified(name), inspect.signature(fn), names)
        made._init_fn = made.__wrapped__ = fn  # type: ignore[attr-defined]
        made.__doc__, made._alone = fn.__doc__, True
        made.register_kernel(device_types, fn)
        OPERATORS[made._qualname] = made
        return made

    return declare if fn is None else declare(fn)


def _qualified(name: str) -> str:
    namespace, separator, short = name.partition("::")
    if not (namespace and separator and short):
        raise ValueError(
            f"The operator name should be of the form {{namespace}}::{{name}}, got {name!r}"
        )
    return f"{namespace}::{short.removesuffix('.default')}"


class Library:
    """Operators of the namespace `ns`, declared by schemas (`define`) and implemented by `impl`.

    `kind`: "DEF", "FRAGMENT" or "IMPL"; it has no effect.

    >>> import rushlight as torch
    >>> library = torch.library.Library("doc2", "DEF")
    >>> library.define("plus(Tensor x, float y=1.0) -> Tensor")
    'plus'
    >>> library.impl("plus", lambda x, y: x + y, "CPU")
    >>> torch.ops.doc2.plus(torch.ones(2), 2.0)
    tensor([3., 3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "prims") and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace: declare operators in another one")
        kernels.check_key(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an operator; returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        name, signature, written = signature_of(schema)
        qualified = _qualified(f"{self.ns}::{name.rpartition('::')[2]}")
        OPERATORS[qualified] = CustomOpDef(qualified, signature, written)
        return name

    def impl(
        self, op_name: Any, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Set the function of an operator for a dispatch key: "CPU", "Meta", "CompositeImplicitAutograd"..."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        name = op_name if isinstance(op_name, str) else op_name.name()
        if "::" in name and name.partition("::")[0] != self.ns:
            raise RuntimeError(f"{name}: the operator name does not match namespace {self.ns}")
        if self.dispatch_key and dispatch_key not in ("", self.dispatch_key):
            raise RuntimeError(
                f"{name}: the dispatch key {dispatch_key} is inconsistent with the dispatch key {self.dispatch_key} of "
                "the library"
            )
        kernels.check_key(dispatch_key)
        key, short = dispatch_key or self.dispatch_key, name.rpartition("::")[2]
        if self.ns == "aten":
            weakref.finalize(self, kernels.replace(short.partition(".")[0], fn, key))
        else:
            _implement(f"{self.ns}::{short}", fn, key or "CompositeImplicitAutograd")

    @stub("no-op", "Only what was declared has a kernel.")
    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Has no effect."""


def _operator(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    name = _qualified(op if isinstance(op, str) else op.name())
    if name not in OPERATORS:
        raise RuntimeError(
            f"There are no operators named {name}: declare it by torch.library.define"
        )
    return OPERATORS[name]


def _implement(name: str, fn: Callable, keys: Any) -> None:
    operator = _operator(name)
    for key in _listed(keys or None):
        kind = key.lower()
        if kind == "meta":
            operator.register_fake(fn)
        elif kind in ("autograd", "autogradcpu"):
            operator._above = fn
        elif kind == "autocastcpu":
            operator._autocast["cpu"] = fn
        else:  # kernels for other keys are never asked
            operator._kernels["" if kind.startswith("composite") else kind] = fn
            operator._composite = kind == "compositeimplicitautograd"


def define(
    qualname: Any,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Any = (),
) -> Any:
    """Declare the operator `namespace::name` by its schema, `(Tensor x, float y) -> Tensor`."""
    if isinstance(qualname, Library):  # a decorator: the older form
        return functools.partial(_declare, qualname, schema, alias_analysis)
    namespace, _, name = _qualified(qualname).partition("::")
    Library(namespace, "FRAGMENT").define(name + schema)
    return None


def _declare(library: Library, schema: str, alias_analysis: str, fn: Callable) -> Callable:
    """Declare an operator of a library and let `fn` compute it."""
    library.impl(library.define(schema, alias_analysis), fn)
    return fn


def impl(
    qualname: Any, types: Any, func: Callable | None = None, *, lib: Library | None = None
) -> Any:
    """Set the function of a declared operator for device types ("cpu", "default"...); also a decorator."""
    if isinstance(qualname, Library):  # @impl(library, "name", "CPU"), the older form
        library, name, key = qualname, types, func or ""

        def older(fn: Callable) -> Callable:
            library.impl(name, fn, key)  # type: ignore[arg-type]
            return fn

        return older

    def register(fn: Callable) -> Callable:
        _implement(_operator(qualname)._qualname, fn, None if types == "default" else types)
        return fn

    return register if func is None else register(func)


def register_kernel(
    op: Any, device_types: Any, func: Callable | None = None, /, **more: Any
) -> Any:
    """`CustomOpDef.register_kernel` of a declared operator, by its name."""
    return _operator(op).register_kernel(None if device_types == "default" else device_types, func)


def register_fake(op: Any, func: Callable | None = None, /, **more: Any) -> Any:
    """`CustomOpDef.register_fake` of a declared operator, by its name; also as a decorator."""
    return _operator(op).register_fake if func is None else _operator(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """`CustomOpDef.register_autograd` of a declared operator, by its name."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable | None = None, /, **more: Any) -> Any:
    """`CustomOpDef.register_vmap` of a declared operator, by its name; also as a decorator."""
    return _operator(op).register_vmap(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, **_: Any
) -> Any:
    """`CustomOpDef.register_torch_dispatch` of a declared operator, by its name; also as a decorator."""
    return _operator(op).register_torch_dispatch(torch_dispatch_class, func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, **more: Any) -> None:
    """`CustomOpDef.register_autocast` of a declared operator, by its name."""
    _operator(op).register_autocast(device_type, cast_inputs)


@stub("absent", "There are no sizes that depend on values without numbers.")
def get_ctx() -> Any:
    """RuntimeError: fake functions cannot make sizes that depend on values."""
    raise RuntimeError(
        "torch.library.get_ctx() can only be called inside of the function given to register_fake, for sizes that depend "
        "on values, which Rushlight does not have"
    )


@stub("emulated", "Shapes, dtypes and that a backward runs are checked; not aliasing, nor tracing.")
def opcheck(
    op: Any, args: tuple, kwargs: dict | None = None, *, test_utils: Any = None,
    raise_exception: bool = True, **tolerances: Any,
) -> dict[str, str]:  # fmt: skip
    """Check an operator on sample arguments: shapes of its fake results, and that a registered gradient runs.

    Returns {test: "SUCCESS"}; the first failure is raised.
    """
    import rushlight

    operator, kwargs = _operator(op), kwargs or {}
    with rushlight.no_grad():
        results = list(_leaves(operator(*args, **kwargs)))
    done = {"test_schema": "SUCCESS"}
    if operator._fake is not None:
        meta = [a.to("meta") if isinstance(a, Tensor) else a for a in args]
        fakes = list(_leaves(operator._fake(*meta, **kwargs)))
        for real, fake in zip(results, fakes, strict=True):
            if (real.shape, real.dtype) != (fake.shape, fake.dtype):
                raise AssertionError(
                    f"{operator}: the fake result has shape {list(fake.shape)} and dtype {fake.dtype}, the real one "
                    f"{list(real.shape)} and {real.dtype}"
                )
        done["test_faketensor"] = "SUCCESS"
    if operator._backward is not None and any(t.requires_grad for t in _leaves(args)):
        outputs = [t for t in _leaves(operator(*args, **kwargs)) if t.requires_grad]
        inputs = [t for t in _leaves(args) if t.requires_grad]
        rushlight.autograd.grad([t.sum() for t in outputs], inputs, allow_unused=True)
        done["test_autograd_registration"] = "SUCCESS"
    return done


@stub("absent", "Triton needs a GPU.")
def triton_op(name: Any, fn: Callable | None = None, /, **options: Any) -> Any:
    """RuntimeError: Triton's kernels run on GPUs."""
    raise RuntimeError(f"{name!r}: Triton needs a GPU and PyTorch; use torch.library.custom_op")


wrap_triton = triton_op
