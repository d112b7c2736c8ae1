"""What a call returns: arrays as tensors, several outputs as a named tuple, and writes into `out=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, math_bits, meta
from rushlight.autograd.graph import new, version_of
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import MULTI, View
from rushlight.core import dtypes, geometry, settings
from rushlight.core.tensor import INFERENCE, Tensor, _array_for, _wrap
from rushlight.dispatch import transforms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.dispatch.registry import Op


_HEAP_TYPE = 1 << 9  # the flag of classes that Python made: their C name has no module


def kind(v: Any) -> str:
    """The class of an argument in the words of an error: `Tensor`, `int`, `numpy.ndarray`."""
    if isinstance(v, Tensor):
        return "Tensor"
    c = type(v)
    in_c = c.__module__ != "builtins" and not c.__flags__ & _HEAP_TYPE
    return f"{c.__module__}.{c.__name__}" if in_c else c.__name__


def wrap(op: Op, named: dict, results: Any) -> list[Tensor]:
    """The forward's arrays as plain tensors (views linked to their source), not yet recorded."""
    several = op.outputs is not None
    arrays = results if several else (results,)
    source = named[op.inputs[0]] if op.view else None
    wrapped = []
    inference = INFERENCE if thread.inference else None
    for nr, a in enumerate(arrays):
        if a is None:
            wrapped.append(None)
            continue
        t = new(Tensor)
        t._array = a if devices.is_array(a) else xp.asarray(a)
        t._edge, t._counter = None, inference
        if source is not None and source._counter is INFERENCE:
            t._counter = INFERENCE
        elif source is not None:
            args = tuple(named[s] for s in op.statics)
            make, args = (nth, (op, nr, *args)) if several else (op, args)
            t._edge = View(source, make, args, None, MULTI if several and thread.grad else None)
            t._counter = source._counter
        wrapped.append(t)
    return wrapped


def nth(base: Tensor, op: Op, nr: int, *args: Any) -> Tensor:
    """The output number `nr` of an operator that gives several."""
    return op(base, *args)[nr]


def packaged(op: Op, wrapped: list) -> Any:
    if op.outputs is None:
        return wrapped[0]
    if op.outputs == "list":
        return tuple(wrapped)
    return named_tuple(op)(wrapped)


_tuples: dict[str, Any] = {}


def named_tuple(op: Op) -> Any:
    """`torch.return_types.max` and its like: a tuple whose fields have names."""
    if op.path not in _tuples:
        from rushlight.core import return_types

        # a path such as `_dim.max` stands for one form of a public function
        name = op.name if op.where[:1] == "_" else op.path.replace(".", "_")
        _tuples[op.path] = return_types.make(name, op.outputs)
    return _tuples[op.path]


def write_out(op: Op, out: Any, result: Any, inputs: Sequence) -> Any:
    """Put a result into `out=`: resized when the shape differs, cast when PyTorch would."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(outs) != len(results):
        raise TypeError(f"{op.name}(): out= has {len(outs)} tensors, the result has {len(results)}")
    for nr, (o, r) in enumerate(zip(outs, results, strict=True)):
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {kind(o)}")
        if o._counter is INFERENCE:
            refuse_inference_write()
        if thread.grad and (o.requires_grad or r.requires_grad):
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        which = op.outputs[nr] if type(op.outputs) is tuple else "result"
        if r._array.dtype is not o._array.dtype:
            check_dtype(op, r, o, which, inputs)
        if not dtypes.can_cast(r.dtype, o.dtype):
            if op.path in ("cat", "stack"):
                raise TypeError(
                    "torch.cat(): input types can't be cast to the desired output type "
                    f"{o.dtype.scalar_name}"
                )
            text = SAFELY.get(
                op.path, "result type {r} can't be cast to the desired output type {o}"
            )
            names = {"r": r.dtype.scalar_name, "o": o.dtype.scalar_name}
            raise RuntimeError(text.format(which=which, **names))
    for o, r in zip(outs, results, strict=True):
        check_apart(op, o, inputs, r)
    for o, r in zip(outs, results, strict=True):
        if active.modes and thread.mutation is not None:
            thread.mutation.before_write(o)
        if o._array.shape != r._array.shape:
            warn_of_resizing(o, r._array.shape)
            give_shape(o, r._array.shape, None if op.operands() is None else r._strides)
        copy(o._array, r._array)
        bump(o)
    return (
        out
        if isinstance(out, Tensor) or not hasattr(type(result), "_fields")
        else type(result)(outs)
    )


def warn_of_resizing(out: Tensor, shape: tuple) -> None:
    """Warn that an `out=` with elements gets another shape."""
    if out._array.size and out._array.shape != shape:
        settings.warn(
            f"An output with one or more elements was resized since it had shape {list(out._array.shape)}, which does "
            f"not match the required output shape {list(shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements. Resize an out tensor to "
            "zero elements, by t.resize_(0), to use it again."
        )


def refuse_inference_write() -> None:
    """RuntimeError for a write to an inference tensor outside `inference_mode`."""
    if not thread.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
            "a normal tensor before doing inplace update."
        )


def copy(a: Any, b: Any) -> None:
    """`a[...] = b`, converted; `b` is a number or an array of the same device."""
    lifted = isinstance(a, transforms.Lifted)
    if math_bits.made and not lifted:
        b = math_bits.resolved(b)
        if isinstance(a, math_bits.Marked):
            math_bits.put(a, b)
            return
    space = devices.common((a, b)) if devices.is_array(b) and not lifted else devices.of(a)
    with np.errstate(all="ignore"):
        space.copyto(a, b, casting="unsafe")


def give_shape(t: Tensor, shape: tuple, strides: tuple | None = None) -> None:
    """Give `t` another shape on its memory; new memory, beginning with the old, when that is too small."""
    a = t._array
    if a.shape == shape and strides is None:
        return
    strides = geometry.contiguous_strides(shape) if strides is None else strides
    if a.__class__ is meta.Meta:
        t._array = meta.empty_strided(shape, a.dtype, strides)
        return
    from rushlight.core import storage

    at = storage.offset(t)
    n = 0 if 0 in shape else 1 + sum((k - 1) * s for k, s in zip(shape, strides, strict=True))
    memory = storage.memory(a)
    if (at + n) * a.itemsize > memory.size:
        memory = grown(memory, (at + n) * a.itemsize)
    made = storage.strided(memory, a.dtype, at, shape, strides)
    t._array = _array_for(t.__class__, math_bits.like(a, made))


def grown(memory: Any, n: int) -> Any:
    """`n` bytes that begin with `memory`."""
    grown = devices.of(memory).empty(n, np.uint8)
    grown[: memory.size] = memory
    return grown


# Operators that read at places other than those they write: `out=` may not be an input of theirs.
APART = frozenset("cat cross gather index_select kthvalue masked_select scatter stack take".split())
# Elementwise operators convert into `out=`, except these; others do not, except those below.
UNCONVERTED = frozenset(
    "abs bitwise_not ceil complex conj_physical frac floor gelu hardshrink heaviside isneginf isposinf "
    "nan_to_num neg polar round sgn sign signbit softplus softshrink trunc".split()
)
CONVERTED = frozenset(
    "_all.max _all.min addr cat cholesky cholesky_inverse cholesky_solve column_stack cumprod cumsum dstack geqrf hstack "
    "kron ldexp linalg.cond linalg.eig linalg.eigvals linalg.lstsq orgqr "
    "linalg.matrix_power linalg.matrix_rank linalg.pinv linalg.tensorinv linalg.tensorsolve logsumexp lu stack "
    "mean nanmean nansum nn.functional.normalize outer prod std sum var vstack".split()
)
WRONG_DTYPE = {  # what PyTorch says; {r}: the dtype of the result, {o}: of `out=`
    "all": "all only supports bool tensor for result, got: {o}",
    "amax": "Expected the dtype for input and out to match, but got {r} for input's dtype and {o} for out's dtype.",
    "any": "any only supports bool tensor for result, got: {o}",
    "complex": "Expected object of scalar type {r} but got scalar type {o} for argument 'out'",
    "cummax": "expected scalar_type {r} but found {o}",
    "dot": "result dtype {o} does not match input dtype {r}",
    "index_select": "{name}(): self and result must have the same scalar type",
    "isposinf": "{name} does not support non-boolean outputs.",
    "kthvalue": "output values must be of same type as input",
    "linalg.multi_dot": "multi_dot(): expected out tensor to have dtype {c_r} but got {c_o}",
    "linalg.norm": "linalg.{name} expected out tensor dtype {r} but got: {o}",
    "mode": "expected scalar type '{r}' but got '{o}' for {which} output",
    "nan_to_num": "nan_to_num: dtype of out: {o} should be same as input: {r}",
    "nonzero": "nonzero: Expected out tensor to have scalar type {r} but got scalar type {o}",
    "quantile": "quantile() out tensor must be same dtype as the input tensor",
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {r} and out.dtype = {o}",
    "tensordot": "tensordot: Expected the output tensor to have dtype {r}, but got an output tensor with dtype {o}",
}
for _name, _like in {
    "amin": "amax", "polar": "complex", "cummin": "cummax", "logcumsumexp": "cummax", "vdot": "dot",
    "masked_select": "index_select", "isneginf": "isposinf", "signbit": "isposinf", "inner": "tensordot",
    "linalg.matrix_norm": "linalg.norm", "nanquantile": "quantile",
}.items():  # fmt: skip
    WRONG_DTYPE[_name] = WRONG_DTYPE[_like]


# What operators with words of their own say where a conversion would lose something.
SAFELY = {
    name.removeprefix("torch.").replace("linalg.householder_product", "orgqr"): name
    + ": Expected {which} to be safely castable from {r} dtype, but got {which} with dtype {o}"
    for name in (
        "cholesky cholesky_inverse cholesky_solve linalg.cond torch.linalg.eig torch.linalg.eigvals "
        "linalg.pinv torch.geqrf linalg.matrix_rank torch.linalg.householder_product"
    ).split()
}
for _name in ("tensorinv", "tensorsolve", "matrix_power"):
    SAFELY["linalg." + _name] = SAFELY["linalg.pinv"].replace("linalg.pinv", _name)
SAFELY["linalg.eigvals"] = SAFELY["linalg.eigvals"].replace("{which}", "eigenvalues")


def check_dtype(op: Op, r: Tensor, o: Tensor, which: str, inputs: Sequence) -> None:
    """RuntimeError where an operator does not convert its result into `out=`, and the dtypes differ."""
    if (
        op.name not in UNCONVERTED or op.name == "abs" and inputs[0].is_complex()
        if op.elementwise
        else op.path in CONVERTED or op.where == "fft"
    ):
        return
    text = "Found dtype {o} but expected {r}"
    if not op.elementwise:
        text = "Expected out tensor to have dtype {c_r}, but got {c_o} instead"
    text = WRONG_DTYPE.get(op.path, WRONG_DTYPE.get(op.name, text))
    raise RuntimeError(dtypes_in(text, op.name, r, o, which))


def dtypes_in(text: str, name: str, r: Tensor, o: Tensor, which: str = "result") -> str:
    """A text of `WRONG_DTYPE` with the names of an operator and of dtypes: of a result and of `out=`."""
    c_r, c_o = (xp.c_name(t._array).replace("long long", "long int") for t in (r, o))
    names = {"r": r.dtype.scalar_name, "o": o.dtype.scalar_name, "c_r": c_r, "c_o": c_o}
    return text.format(name=name, which=which, **names)


SUMS = {"cumprod", "cumsum", "mean", "nansum", "prod", "sum"}


def out_dtype(op: Op, named: dict, out: Tensor) -> None:
    """`out=` says in which dtype sums are computed where `dtype` is not given; RuntimeError if both are and
    differ."""
    if named["dtype"] is None:
        d = named[op.inputs[0]].dtype
        if op.name != "mean" and not (d is out.dtype and d.kind > 1):  # floats stay what they are
            named["dtype"] = out.dtype
    elif named["dtype"] is not out.dtype:
        text = (
            "{name}: provided dtype must match dtype of result. Got {o} and {r}."
            if op.name == "nansum"
            else "Expected out tensor to have dtype {c_r}, but got {c_o} instead"
        )
        raise RuntimeError(dtypes_in(text, op.name, _wrap(xp.empty(0, named["dtype"].np)), out))


def check_apart(op: Op, o: Tensor, inputs: Sequence, r: Tensor) -> None:
    """RuntimeError when elements of `out=` share memory with each other, and of some operators where it shares memory
    with an input, or is one and would get another shape: that of the result `r`."""
    out = o._array
    if 0 in out.strides and geometry.has_internal_overlap(out.shape, out.strides):
        raise RuntimeError(
            f"{op.name}(): unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )
    if not op.elementwise and op.name not in APART:
        return
    for t in inputs:
        for x in t if t.__class__ in (list, tuple) else (t,):
            if not isinstance(x, Tensor):
                continue
            a = x._array
            if x is o and op.elementwise and a.shape != r._array.shape:
                raise RuntimeError(
                    f"{op.name}(): output with shape {list(a.shape)} doesn't match the broadcast shape "
                    f"{list(r.shape)}: the tensor given as out= is an input, too"
                )
            if devices.of(a) is devices.of(out):
                refuse_overlap(op.name, a, out, whole=not op.elementwise)


def refuse_overlap(name: str, a: Any, written: Any, whole: bool = True) -> None:
    """RuntimeError where an input shares memory with the array that is written to; if not `whole`, only where
    they share a part of it."""
    if (whole and a is written) or have_common_memory(a, written, whole):
        raise RuntimeError(
            f"{name}(): unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. Please clone() the tensor before performing the operation."
        )


def have_common_memory(a: Any, b: Any, whole: bool = False) -> bool:
    """Whether two arrays share a part of their memory, or, if `whole`, all of it. As in PyTorch, arrays with gaps
    are not looked at."""
    if a is b or not (space := devices.of(a)).shares_memory(a, b):
        return whole and a is b
    for x in (a, b):
        steps = [s // x.itemsize for s in x.strides]
        if not (x.flags.forc or geometry.is_non_overlapping_and_dense(x.shape, steps)):
            return False
    same = a.shape == b.shape and a.strides == b.strides
    return whole or not (same and space.address(a) == space.address(b))


def bump(t: Tensor) -> None:
    """Count one write to the memory of `t`."""
    if t._counter is not INFERENCE:
        version_of(t).n += 1
