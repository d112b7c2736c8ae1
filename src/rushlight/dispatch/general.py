"""The general way through a call of an operator: everything that printed functions leave out.

Python numbers and promotion, devices, tensor subclasses and modes, `out=` and in-place forms,
several outputs, lists of tensors. See Note [Two readers of one pipeline] in registry.py; inplace.py and
record.py are its other parts.
"""

from __future__ import annotations

from operator import is_not
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight._backends import complex32, devices, llvm, math_bits, meta, sparse
from rushlight._backends import cpu as xp
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes, geometry, modes
from rushlight.core.tensor import INFERENCE, Tensor, _wrap
from rushlight.dispatch import handlers, overrides
from rushlight.dispatch.interpreters import ARRAY_INTERPRETERS, carried_out, intercept
from rushlight.dispatch.older_orders import FACTORS_FIRST, factors_last, ordered
from rushlight.dispatch.overrides import NUMPY_NAMES
from rushlight.dispatch.record import NUMBERS, record
from rushlight.dispatch.results import (
    SUMS,
    bump,
    check_apart,
    kind,
    out_dtype,
    packaged,
    wrap,
    write_out,
)
from rushlight.dispatch.transforms import Lifted, top_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op

unknown = object()
missing = object()  # a parameter that was not given


# -- binding ---------------------------------------------------------------------------------------


def bind(op: Op, args: tuple, kwargs: dict) -> tuple[list, Any]:
    """The values of all parameters in order, and `out`."""
    out = kwargs.pop("out", None)
    if not NUMPY_NAMES.keys().isdisjoint(kwargs):
        kwargs = overrides.renamed(kwargs, op.params)
    if len(args) > op.n_positional:
        if op.path in FACTORS_FIRST:
            return factors_last(op, op.name, *args), out
        raise TypeError(
            f"{op.name}() takes {op.n_positional} positional argument"
            f"{'s' if op.n_positional != 1 else ''} but {len(args)} were given"
        )
    values = list(args)
    for p in op.params[len(args) :]:
        if p in kwargs:
            values.append(kwargs.pop(p))
        elif p in op.defaults:
            values.append(op.defaults[p])
        else:
            lacks(op, p)
    if kwargs:
        name = next(iter(kwargs))
        if name in op.params:
            raise TypeError(f"{op.name}() got multiple values for argument '{name}'")
        raise TypeError(f"{op.name}() got an unexpected keyword argument '{name}'")
    return values, out


def lacks(op: Op, p: str) -> NoReturn:
    """Raise: a call has no argument for the parameter `p`."""
    raise TypeError(
        f'{op.name}() missing 1 required positional arguments: "{p}" (position {op.params.index(p) + 1})'
    )


def twice(op: Op, name: str) -> NoReturn:
    """Raise: a call names a parameter by NumPy's `name` beside PyTorch's own."""
    raise TypeError(f"{op.name}() got an unexpected keyword argument '{name}'")


def call_bound(op: Op, args: tuple, kwargs: dict) -> Any:
    """Call an operator that only has the general way."""
    values, out = bind(op, args, kwargs)
    return call(op, (*values, out) if op.has_out else values)


def varargs_method(op: Op, function: Callable) -> Callable:
    """The method that takes its sizes one by one too: `x.view(2, 3)`, `x.view((2, 3))`."""
    at = op.params.index(op.varargs)

    only = len(op.params) == 2

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if only and args and args[0].__class__ is int and not kwargs:
            return function(self, args)
        if len(args) >= at and args and not isinstance(args[0], (tuple, list)):
            if not (len(args) == 1 and args[0] is None):
                args = (*args[: at - 1], args[at - 1 :])
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = op.name
    method.__doc__, method.__module__ = op.declared.__doc__, op.declared.__module__
    method.op = op  # type: ignore[attr-defined]
    return method


def call_bound_composite(op: Op, args: tuple, kwargs: dict) -> Any:
    """Call an operator that is written in other operators, and takes any number of arguments."""
    if not (active.modes or "out" in kwargs or not NUMPY_NAMES.keys().isdisjoint(kwargs)):
        for a in args:
            if isinstance(a, Tensor):
                if a._array.__class__ is not np.ndarray and overrides.overriding(a):
                    break
            elif overrides.overriding(a):
                break
        else:
            try:
                return op.declared(*args, **kwargs)
            except AttributeError:
                refuse_others(op, bind(op, args, kwargs)[0])
                raise
    values, out = bind(op, args, kwargs)
    return call_composite(op, values, out)


def call_composite(op: Op, values: list, out: Any) -> Any:
    """Call an operator that is written in other operators."""
    if op.where == "nn.functional" and not overrides.functional_asks(op, values):
        return carried_out(op, values, out, "composite", execute_composite)
    return intercept(op.function, op, values, out, "composite", execute_composite)


def execute_composite(op: Op, values: list, out: Any) -> Any:
    n = op.n_positional
    try:
        result = op.declared(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    except AttributeError:
        refuse_others(op, values)
        raise
    if out is None:
        return result
    return write_out(op, out, result, [v for v in values if isinstance(v, Tensor)])


# -- the general call ------------------------------------------------------------------------------


def call(op: Op, values: Sequence) -> Any:
    """Call `op` on the values of its parameters (and `out`, where it has one)."""
    n = len(op.params)
    out = values[n] if len(values) > n else None
    values = list(values[:n])
    if math_bits.made and out is None and not (active.modes or op.view):
        meant = [computed_bits(v) for v in values]
        if any(map(is_not, meant, values)):
            n = op.n_positional
            return op.function(*meant[:n], **dict(zip(op.params[n:], meant[n:], strict=True)))
    if out.__class__ is Tensor and not active.modes and computed_apart(op, values, out):
        return out
    return intercept(op.public_function, op, values, out, "call", execute)


def computed_bits(v: Any) -> Any:
    """A tensor with a conjugate or negative bit computed, where no graph will record it, also one in a list; anything else
    as it is."""
    if v.__class__ in (list, tuple):
        meant = [computed_bits(x) for x in v]
        return meant if any(map(is_not, meant, v)) else v
    if v.__class__ is not Tensor or not isinstance(v._array, math_bits.Marked):
        return v
    if thread.grad and v.requires_grad:
        return v
    return _wrap(math_bits.resolved(v._array))


def computed_apart(op: Op, values: list, out: Tensor) -> bool:
    """Whether the call without `out` gave what belongs there, and it was copied: the short way of most calls."""
    a, n = out._array, op.n_positional
    if out._edge is not None or a.__class__ is not np.ndarray or op.outputs or op.name in SUMS:
        return False
    r = op.function(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    if r.__class__ is not Tensor or r._edge is not None or r._array.__class__ is not np.ndarray:
        return False
    b, inputs = r._array, [v for v in values if isinstance(v, (Tensor, list, tuple))]
    if a.shape != b.shape or a.dtype is not b.dtype or out._counter is INFERENCE:
        write_out(op, out, r, inputs)
        return True
    check_apart(op, out, inputs, r)
    xp.copy_into(a, b)
    bump(out)
    return True


# `torch.div(7, 2)` is a tensor: the first operand of these may be a number too.
NUMBER_FIRST = frozenset("add sub mul div true_divide floor_divide".split())


def named_values(op: Op, values: list) -> dict[str, Any]:
    """The value of each parameter by its name; the first number of `torch.div(7, 2)` as a tensor."""
    named = dict(zip(op.params, ordered(op, values), strict=True))
    if op.name in NUMBER_FIRST and isinstance(named["input"], NUMBERS):
        number = named["input"]
        named["input"] = _wrap(xp.number(number, modes.scalar_dtype(number).np))
        if thread.dispatch_modes:
            handlers.made_of_number(named["input"])
    return named


def read_numbers(op: Op, named: dict) -> None:
    """Put a number of Python's in the place of NumPy's, or of a tensor without dimensions that stands for one. TypeError
    for what is no number, and for another one where an integer is asked for."""
    for p in op.scalars:
        v = named[p]
        if isinstance(v, np.generic) or isinstance(v, Tensor) and not v.ndim and v._edge is None:
            named[p] = v = v.item()
        if not isinstance(v, NUMBERS) and v is not op.defaults.get(p, missing):
            if not (v is None and "None" in str(op.notes[p]) or isinstance(v, Tensor)):
                refuse_number(op, p, v)
    for p in op.integers:
        v = named[p]
        if v.__class__ is not int and v is not None:
            if v.__class__ is bool or not hasattr(v, "__index__"):
                refuse_number(op, p, v)
            named[p] = v.__index__()


def refuse_number(op: Op, p: str, v: Any) -> NoReturn:
    """Raise: the argument `v` is no number of the kind that the parameter `p` takes."""
    wanted = str(op.notes[p]).removesuffix(" | None")
    name = (
        f"{op.where}_{op.name}" if op.where in ("fft", "linalg", "special") else op.name.strip("_")
    )
    raise TypeError(f"{name}(): argument '{p}' must be {wanted}, not {kind(v)}")


def computed(op: Op, named: dict, keep: bool) -> tuple[list, dict]:
    """The results of a call as tensors, not yet recorded, and `named` with the intermediates."""
    return as_tensors(op, named, forward(op, named, keep=keep))


def as_tensors(op: Op, named: dict, results: Any) -> tuple[list, dict]:
    """As `computed`, for what the forward gave."""
    if op.intermediates:
        results, named = without_intermediates(op, results, named)
    return wrap(op, named, results), named


def execute(op: Op, values: list, out: Any, compute: Callable = computed) -> Any:
    """The call without interpreters; `compute` stands for the stages unwrap, promote, run and wrap."""
    named = named_values(op, values)
    if op.variant is not None and (other := op.taken_over(named)) is not None:
        return execute(other, [named[p] for p in other.params], out, compute)
    tensors = on_one_device(op, named)
    read_numbers(op, named)
    if out is not None and thread.grad and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if isinstance(out, Tensor) and op.name in SUMS:
        out_dtype(op, named, out)
    recording = (
        op.differentiable
        and thread.grad
        and not thread.inference
        and not (op.view and tensors[0] is not None and tensors[0]._counter is INFERENCE)
        and any(t is not None and t._edge is not None for t in tensors)
    )
    result = finished(op, *compute(op, named, recording), recording)
    return result if out is None else write_out(op, out, result, tensors)


def finished(op: Op, wrapped: list, named: dict, recording: bool) -> Any:
    """What a call returns, for its results as tensors."""
    if recording:
        record(op, named, wrapped)
    return packaged(op, wrapped)


def some_sparse(values: Sequence, out: Any = None) -> bool:
    """Whether there are sparse tensors among the arguments of a call."""
    for v in (*values, out):
        if isinstance(v, Tensor):
            if isinstance(v._array, sparse.Sparse):
                return True
        elif v.__class__ in (list, tuple) and some_sparse(v):
            return True
    return False


def interpret_sparse(call: Call) -> Any:
    """A call with sparse tensors among its arguments, as ops/sparse/calls.py has it."""
    if call.op.where == "_sparse" or not some_sparse(call.values, call.out):
        return overrides.NOTHING
    from rushlight.ops.sparse import calls

    return calls.interpret(call)


ARRAY_INTERPRETERS.append((sparse.made, interpret_sparse))


def input_tensors(op: Op, named: dict) -> list:
    """All tensors among the inputs, lists flattened; None for what is no tensor."""
    flat: list = []
    for i in op.inputs:
        v = named[i]
        if i in op.lists:
            if not isinstance(v, (list, tuple)):
                raise TypeError(
                    f"{op.name}(): argument '{i}' (position {op.params.index(i) + 1}) must be tuple of "
                    f"Tensors, not {kind(v)}"
                )
            for k, t in enumerate(v):
                if not isinstance(t, Tensor):
                    raise TypeError(
                        f"expected Tensor as element {k} in argument {op.params.index(i)}, "
                        f"but got {kind(t)}"
                    )
            flat += v
        else:
            flat.append(v if isinstance(v, Tensor) else None)
    return flat


def on_one_device(op: Op, named: dict) -> list:
    """`input_tensors`, once those without dimensions on the CPU are where the others are.

    RuntimeError for tensors on two devices.
    """
    tensors = input_tensors(op, named)
    arrays = [t._array for t in tensors if t is not None]
    if len({a.__class__ for a in arrays}) < 2 or not op.elementwise and is_meta(arrays):
        return tensors
    if any(isinstance(a, Lifted) for a in arrays) or handlers.asked(
        [t for t in tensors if t is not None]
    ):
        return tensors
    home = devices.common(arrays, op.elementwise)
    if home is meta or all(devices.of(a) is home for a in arrays):
        return tensors
    where = next(home.device_of(a) for a in arrays if devices.of(a) is home)
    for i in op.inputs:
        if isinstance(named[i], Tensor):
            named[i] = named[i].to(where)
    return input_tensors(op, named)


def is_meta(arrays: list) -> bool:
    return any(a.__class__ is meta.Meta for a in arrays)


def refuse_others(op: Op, values: list) -> None:
    """TypeError for the first input of a composite that should be a tensor and is something else."""
    for name, v in zip(op.params, values, strict=False):
        note = str(op.notes.get(name))
        if (
            note.startswith(("Array", "Tensor"))
            and name not in op.lists
            and not isinstance(v, Tensor)
        ):
            if v is not None or "None" not in note:
                raise not_a_tensor(op, name, v) from None


def not_a_tensor(op: Op, name: str, v: Any) -> TypeError:
    if v is missing:
        lacks(op, name)
    return TypeError(
        f"{op.name}(): argument '{name}' (position {op.params.index(name) + 1}) must be Tensor, "
        f"not {kind(v)}"
    )


def without_intermediates(op: Op, results: Sequence, named: dict) -> tuple[Any, dict]:
    """(a forward's results without its intermediates, `named` with these)."""
    n = len(results) - len(op.intermediates)
    found = results[0] if op.outputs is None else results[:n]
    return found, named | dict(zip(op.intermediates, results[n:], strict=True))


def forward(op: Op, named: dict, space: Any = None, keep: bool = False) -> Any:
    """Arrays of the inputs, promoted; the forward's arrays.

    `space`: the kernels; by default those of the back end that the arrays belong to. `keep`: whether
    intermediates will be read.
    """
    arrays: dict[str, Any] = {}
    found: list = []
    for i in op.inputs:
        v = named[i]
        if i in op.lists:
            arrays[i] = [t._array for t in v]
            found += arrays[i]
        elif isinstance(v, Tensor):
            arrays[i] = v._array
            found.append(v._array)
        elif v is None and "None" in str(op.notes.get(i)):
            arrays[i] = None
            continue
        elif op.elementwise and i in op.numbers and isinstance(v, NUMBERS):
            arrays[i] = v
            continue
        else:
            raise not_a_tensor(op, i, v)
    for a in found:
        if a.__class__ is not np.ndarray and isinstance(a, Lifted):
            return top_of(found).forward(op, named, keep)
    if math_bits.made and math_bits.among(found):
        to = math_bits.plain if op.view else math_bits.resolved
        arrays = {i: math_bits.converted(a, to) for i, a in arrays.items()}
    home = next((devices.of(a) for a in found if a is not None), xp)
    on_meta, numbers = is_meta(found), [i for i, a in arrays.items() if isinstance(a, NUMBERS)]
    if op.promote is not None:
        if all(isinstance(a, NUMBERS) for a in arrays.values()):
            raise not_a_tensor(op, op.inputs[0], named[op.inputs[0]])
        promote(op, arrays, xp if on_meta else home)
    for i, a in arrays.items():
        if a.__class__ is overrides.Tagged:
            arrays[i] = a.view(np.ndarray)
        elif a.__class__ is list:
            arrays[i] = [b.view(np.ndarray) if b.__class__ is overrides.Tagged else b for b in a]
    values = [arrays[p] if p in arrays else named[p] for p in op.params]
    values += (keep,) if op.intermediates else ()
    with np.errstate(all="ignore"):
        r = meta.forward(op, values, run, numbers) if on_meta else run(op, values, space or home)
    if op.view and isinstance(found[0], math_bits.Marked):
        return math_bits.view(op, found[0], r)
    if r.__class__ is np.ndarray and (layout_operands := op.operands(numbers)) is not None:
        return xp.laid_out(r, *[arrays[i] for i in layout_operands])
    return r


def run(op: Op, values: list, space: Any = xp) -> Any:
    """The forward on arrays; see Note [complex32]."""
    if complex32.made and complex32.among(values):
        return complex32.run(op, values, lambda values: compute(op, values, space))
    return compute(op, values, space)


def compute(op: Op, values: list, space: Any) -> Any:
    """The forward on arrays, with NumPy's complaints turned into PyTorch's."""
    if not llvm.active:
        llvm.work(llvm.largest(values))
    try:
        if op.has_body:
            n = len(values) if op.intermediates else op.n_positional
            return op.declared(
                space, *values[:n], **dict(zip(op.params[n:], values[n:], strict=True))
            )
        return getattr(space, op.kernel)(*[v for p, v in zip(op.params, values) if p in op.inputs])
    except MemoryError as e:
        from rushlight.core import errors

        raise errors.no_memory(e) from None
    except ValueError as e:
        if "array is too big" in str(e):
            raise RuntimeError(f"{op.name}(): Storage size calculation overflowed") from None
        if "broadcast" not in str(e):
            raise
        shapes = [getattr(v, "shape", ()) for p, v in zip(op.params, values) if p in op.inputs]
        geometry.broadcast_shapes(*shapes)  # raises PyTorch's error
        raise
    except TypeError as e:
        if "ufunc" not in str(e) and "not supported for" not in str(e):
            if "argument '" not in str(e):  # else the operator has said what is wrong
                refuse_other_kinds(op, values)
            raise
        a = next(v for v in values if devices.is_array(v))
        name = dtypes.OF[a.dtype].scalar_name
        raise NotImplementedError(
            f"\"{op.name.lstrip('_')}_cpu\" not implemented for '{name}'"
        ) from None


def refuse_other_kinds(op: Op, values: list) -> None:
    """TypeError, in PyTorch's words, for what stands where a forward takes a tuple of whole numbers."""
    for p, v in zip(op.params, values, strict=False):
        note = str(op.notes.get(p, ""))
        text = ""
        if note.startswith(("Size", "Dims", "Ints")) and not (v is None and "None" in note):
            if not isinstance(v, (tuple, list)):
                text = "" if hasattr(v, "__index__") else f"tuple of ints, not {kind(v)}"
            elif wrong := [k for k, n in enumerate(v) if not hasattr(n, "__index__")]:
                found = kind(v[wrong[0]])
                text = f"tuple of ints, but found element of type {found} at pos {wrong[0]}"
        if text:
            raise TypeError(f"{op.name.lstrip('_')}(): argument '{p}' must be {text}") from None


def common_dtype(arrays: dict[str, Any]) -> dtypes.dtype:
    """The dtype in which an elementwise operator computes, by PyTorch's promotion."""
    dim = zero = wrapped = None
    for v in arrays.values():
        for a in v if v.__class__ is list else (v,):
            if a is None:
                continue
            if devices.is_array(a):
                d = dtypes.OF[a.dtype]
                if a.ndim:
                    dim = d if dim is None else dtypes.promote_types(dim, d)
                else:
                    zero = d if zero is None else dtypes.promote_types(zero, d)
            else:
                d = modes.scalar_dtype(a)
                wrapped = d if wrapped is None else dtypes.promote_types(wrapped, d)
    return dtypes.result_dtype(dim, zero, wrapped)


def promote(op: Op, arrays: dict[str, Any], space: Any) -> None:
    """Convert the input arrays (and numbers) of a call, in place, to their common dtype; NotImplementedError where
    the operator does not accept it."""
    d = common_dtype(arrays)
    if op.promote == "float" and d.kind < 2:
        d = modes.get_default_dtype()
    if op.accepts is not None and "bifc"[d.kind] not in op.accepts:
        raise NotImplementedError(
            f"\"{op.name.lstrip('_')}_cpu\" not implemented for '{d.scalar_name}'"
        )
    for i, a in arrays.items():
        if a.__class__ is list:
            arrays[i] = [b if b.dtype is d.np else space.cast(b, d.np) for b in a]
        elif devices.is_array(a):
            if a.dtype is not d.np:
                arrays[i] = space.cast(a, d.np)
        elif a is not None:
            arrays[i] = space.number(a, d.np)
