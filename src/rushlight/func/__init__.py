"""`torch.func`: functions of functions, `grad`, `vjp`, `jacrev`, `vmap`..., and modules called as functions.

>>> import rushlight as torch
>>> from rushlight.func import grad, vmap
>>> vmap(grad(torch.sin))(torch.zeros(3))
tensor([1., 1., 1.])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.autograd.forward_ad import _set_fwd_grad_enabled as set_fwd_grad_enabled
from rushlight.autograd.forward_ad import check_tangent
from rushlight.autograd.functional import basis
from rushlight.autograd.graph import AccumulateGrad, count
from rushlight.autograd.saved_hooks import disable_saved_tensors_hooks
from rushlight.autograd.state import thread
from rushlight.autograd.views import edge_of
from rushlight.core.tensor import Tensor
from rushlight.dispatch.captures import Captures, Unwatched, alias, allow, remember
from rushlight.dispatch.dual import Dual, apart, bare, tangent_of
from rushlight.dispatch.transforms import Level, Lifted, at_innermost, follow, levels, tensor_inside
from rushlight.func.batching import vmap
from rushlight.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from rushlight.func.rearrangement import rearrange
from rushlight.func.writes import functionalize
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip


# -- derivatives -----------------------------------------------------------------------------------


def _fresh(tree: Any) -> Any:
    """The tensors of a tree as ones that gradients can be asked of, part of the caller's graph still."""

    def fresh(x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        x = at_innermost(x)
        if x.requires_grad:
            return x.view_as(x)
        if not (x.is_floating_point() or x.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        made = apart(x)._set_requires_grad(True)
        alias(x, made)
        return made

    return tree_map(fresh, tree)


def _wanted(outputs: list[Tensor], own: list[Tensor], cotangents: Any = ()) -> bool:
    """Whether gradients of `outputs` by `own` may be differentiated once more, from outside of the transform."""
    return (
        any(level.history for level in levels.open)
        or any(c.requires_grad for c in cotangents)
        or _reach_others(outputs, own)
    )


def _reach_others(tensors: list[Tensor], own: list[Tensor]) -> bool:
    """Whether the graph of some tensors ends in a leaf that is not one of `own`."""
    roots = [edge_of(t) for t in tensors if t.requires_grad]
    leaves = {edge_of(x) for x in own}
    return any(e.__class__ is AccumulateGrad and e not in leaves for e in count(roots))


def _released(tree: Any, own: list[Tensor], wanted: bool = True) -> Any:
    """Results, cut from the graph unless it is `wanted` and they depend on tensors that are not `own`."""
    wanted = wanted and torch.is_grad_enabled()
    return tree_map(lambda x: _release(x, own, wanted), tree)


def _release(x: Any, own: list[Tensor], wanted: bool) -> Any:
    """A leaf of what `_released` returns."""
    if not isinstance(x, Tensor):
        return x
    a = x._array
    if isinstance(a, Dual) and a.tangent is not None and a.tangent.requires_grad:
        a.tangent = _release(a.tangent, own, wanted)
    if not x.requires_grad:
        return x
    return x if wanted and _reach_others([x], own) else apart(x)


def _numbers(args: tuple, argnums: Any, of: str) -> tuple[int, ...]:
    """The numbers of the arguments that `argnums` names, checked."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"{of}: argnum must be int or Tuple, got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError(f"{of}: argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"{of}: argnum must be int, got: {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{of}: Got argnum={n}, but only {len(args)} positional inputs")
    if len({n % len(args) for n in numbers}) != len(numbers):
        raise RuntimeError(f"{of}: argnums elements must be unique, got {argnums}")
    return numbers


def _chosen(args: tuple, argnums: Any, of: str) -> tuple[tuple, Any]:
    """The arguments, those of `argnums` made fresh; and the chosen ones, in the form of `argnums`."""
    numbers = _numbers(args, argnums, of)
    made = list(args)
    for n in numbers:
        made[n] = _fresh(args[n])
    chosen = made[argnums] if isinstance(argnums, int) else tuple(made[n] for n in numbers)
    return tuple(made), chosen


def _gradients(
    outputs: list[Tensor], inputs: Any, cotangents: list | None, record: bool, keep: bool = True
) -> Any:
    """The gradients of a tree of tensors; zeros where the outputs do not depend on them.

    `record`: whether they have gradients again; `keep`: whether the graph is needed again.
    """
    leaves, spec = tree_flatten(inputs)
    wanted = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
    pairs = [
        (o, None if cotangents is None else c)
        for o, c in zip(outputs, cotangents or outputs, strict=True)
        if o.requires_grad
    ]
    found: Any = [None] * len(wanted)
    if pairs and wanted:
        with Unwatched():
            found = torch.autograd.grad(
                [o for o, _ in pairs], wanted, None if cotangents is None else [c for _, c in pairs],
                retain_graph=keep or record, create_graph=record, allow_unused=True,
            )  # fmt: skip
    rest = iter(zip(wanted, found, strict=True))
    made = []
    for x in leaves:
        if isinstance(x, Tensor) and x.requires_grad:
            x, g = next(rest)
            made.append(torch.zeros_like(x) if g is None else g)
        else:
            made.append(torch.zeros_like(x) if isinstance(x, Tensor) else None)
    remember(made, cotangents or ())
    return tree_unflatten(made, spec)


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that returns (the gradient of `func`, its value), or with `has_aux` (gradient, (value, aux))."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> tuple:
        recording = torch.is_grad_enabled()
        own: list[Tensor] = []
        with torch.enable_grad(), _Differentiating("grad, vjp, jacrev, hessian", own):
            made, chosen = _chosen(args, argnums, "grad_and_value")
            own += _tensors(chosen)
            value, aux = _with_aux(_called(func, made, kwargs), has_aux, "grad_and_value")
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a single tensor, got "
                    f"{type(value)}"
                )
            if value.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
                    f"with {value.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            wanted = recording and _wanted([value], own)
            gradient = _gradients([value], chosen, None, wanted, keep=has_aux)
        gradient, value = _released((gradient, value), own, wanted)
        return gradient, (value, _released(aux, own)) if has_aux else value

    return wrapper


def _called(func: Callable, args: tuple, kwargs: dict | None = None) -> Any:
    """What a function returns that may not write to what it captured."""
    kwargs = kwargs or {}
    with Captures(_tensors((args, kwargs))):
        return func(*args, **kwargs)


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _with_aux(result: Any, has_aux: bool, of: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{CALLS.get(of, of + '(f)(*args)')}: output of function f should be a tuple: (output, aux) if "
            "has_aux is True"
        )
    for x in tree_leaves(result[1]):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return result


# How PyTorch writes the call of a transform in its messages.
CALLS = {"vjp": "vjp(f, *primals)", "jvp": "jvp(f, primals, tangents)"}


def _checked_outputs(value: Any, of: str) -> list[Tensor]:
    """The tensors of a result. RuntimeError where there are none, or others among them."""
    leaves = tree_leaves(value)
    if value is None or not leaves:
        raise RuntimeError(
            f"{CALLS[of]}: Expected f to be a function that has non-empty output (got output = {value})"
        )
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{CALLS[of]}: expected f(*primals) to return only tensors, got unsupported type {type(x)}"
            )
    return leaves


class _Differentiating(disable_saved_tensors_hooks):
    """A block in which a function runs whose derivatives a transform takes: tensors are saved as they are.

    `own`: the tensors whose gradients it takes.
    """

    def __init__(self, of: str, own: list[Tensor] | None = None) -> None:
        super().__init__(
            f"torch.func.{{{of}}} don't yet support saved tensor hooks. Please open an issue with your use case."
        )
        self.own = own

    def __enter__(self) -> None:
        super().__enter__()
        if self.own is not None:
            thread.transforms += 1
            self.depth = thread.transforms
            thread.tracking = (*thread.tracking, self)

    def tracks(self, tensor: Tensor) -> bool:
        """Whether gradients go through a tensor to those of this transform."""
        return tensor.requires_grad and not count([edge_of(tensor)]).keys().isdisjoint(
            map(edge_of, self.own)
        )

    def __exit__(self, *exc: object) -> None:
        if self.own is not None:
            thread.transforms -= 1
            thread.tracking = thread.tracking[:-1]
        super().__exit__(*exc)


def _real(tree: Any, of: str, what: str) -> None:
    """RuntimeError for complex tensors, whose Jacobian is none of complex numbers."""
    for x in _tensors(tree):
        if x.is_complex():
            raise RuntimeError(
                f"{of}: Expected all {what} to be real but received complex tensor at flattened input idx: 0"
            )


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func`, which returns one number, by the arguments of `argnums`.

    >>> import rushlight as torch
    >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(func(*primals), a function from cotangents to the tuple of their products with the Jacobians)."""
    own: list[Tensor] = []
    with torch.enable_grad(), _Differentiating("grad, vjp, jacrev, hessian", own):
        made = _fresh(primals)
        own += _tensors(made)
        value, aux = _with_aux(_called(func, made), has_aux, "vjp")
    outputs, spec = _checked_outputs(value, "vjp"), tree_flatten(value)[1]

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves, form = tree_flatten(cotangents)
        if form != spec:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                f"the function. cotangents: {form}, primal output: {spec}"
            )
        wanted = torch.is_grad_enabled() and _wanted(outputs, own, _tensors(leaves))
        with torch.enable_grad():
            found = _gradients(outputs, made, leaves, wanted)
        return _released(found, own, wanted)

    released = _released(value, own)
    return (released, vjp_fn, aux) if has_aux else (released, vjp_fn)


def _linearized(func: Callable, primals: tuple) -> tuple:
    """(func(*primals), a function from tangents to the Jacobian's product with them)."""
    inner: list[Tensor] = []
    with torch.enable_grad(), _Differentiating("jvp, jacfwd", inner):
        made = _fresh(primals)
        inner += _tensors(made)
        outputs, spec = tree_flatten(_called(func, made))
        us = [at_innermost(torch.ones_like(o))._set_requires_grad(True) for o in outputs]
        gradients = _tensors(_gradients(outputs, made, us, True))
        inner += us

    def jvp_fn(*tangents: Any) -> Any:
        wanted = torch.is_grad_enabled() and _wanted(gradients, inner, _tensors(tangents))
        with torch.enable_grad():
            found = _gradients(gradients, us, _tensors(tangents), wanted)
        return _released(tree_unflatten(found, spec), inner, wanted)

    return _released(tree_unflatten(outputs, spec), inner), jvp_fn


def jvp(
    func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False
) -> tuple:
    """(func(*primals), the Jacobian times the tangents), in one pass; with `has_aux` (value, product, aux).

    >>> import rushlight as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    _check_tangents(primals, tangents)
    with _Differentiating("jvp, jacfwd"), set_fwd_grad_enabled(True), Level(Dual) as level:
        rest = iter(tree_leaves(tangents))
        given = tree_map(lambda p: _dual(p, next(rest), level), tuple(primals))
        value, aux = _with_aux(_called(func, given), has_aux, "jvp")
        leaves, spec = _checked_outputs(value, "jvp"), tree_flatten(value)[1]
        follow(leaves)
        found = [tangent_of(x, level) for x in leaves]
        if strict and any(t is None for t in found):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
                "is not allowed with strict=True."
            )
        values = tree_unflatten([bare(x, level) for x in leaves], spec)
        moved = [
            torch.zeros_like(bare(x, level)) if t is None else t
            for x, t in zip(leaves, found, strict=True)
        ]
        remember(moved, tree_leaves(tangents))
        products = tree_unflatten(moved, spec)
        aux = tree_map(lambda x: bare(x, level) if isinstance(x, Tensor) else x, aux)
    return (values, products, aux) if has_aux else (values, products)


def _dual(primal: Any, tangent: Any, level: Level) -> Any:
    if not isinstance(primal, Tensor) or not isinstance(tangent, Tensor):
        raise RuntimeError(
            "jvp(f, primals, tangents): primals and tangents must only contain Tensors"
        )
    check_tangent(primal, tangent)
    level.history |= primal.requires_grad or tangent.requires_grad
    if 0 in tangent._array.strides:  # views of the dual have views of it as tangents
        tangent = tangent.clone()
    primal = at_innermost(primal)
    dual = primal.view_as(primal)
    dual._array = Dual(dual._array, tangent, level)
    return dual


def _check_tangents(primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals). Got {type(primals)}"
        )
    if not isinstance(tangents, tuple) or tree_flatten(primals)[1] != tree_flatten(tangents)[1]:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be."
        )
    if not tree_leaves(primals):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to contain at least one Tensor"
        )


def _sizes(tensors: list[Tensor]) -> list[int]:
    return [t.numel() for t in tensors]


def jacrev(
    func: Callable, argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:  # fmt: skip
    """A function that returns the Jacobian: shape (*output, *input) for each output and each input.

    One backward pass gives all rows, or `chunk_size` of them.

    >>> import rushlight as torch
    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        recording = torch.is_grad_enabled()
        own: list[Tensor] = []
        with torch.enable_grad(), _Differentiating("grad, vjp, jacrev, hessian", own):
            made, chosen = _chosen(args, argnums, "jacrev")
            own += _tensors(chosen)
            _real(chosen, "jacrev", "inputs")
            value, aux = _with_aux(_called(func, made, kwargs), has_aux, "jacrev")
            outputs, spec = _checked_outputs(value, "vjp"), tree_flatten(value)[1]
            _real(value, "jacrev", "outputs")
            wanted = recording and _wanted(outputs, own)
            if len(outputs) == 1 and outputs[0].numel() == 1:  # one backward pass, without a batch
                shape = outputs[0].shape
                found = _gradients(outputs, chosen, None, wanted, keep=has_aux)
                parts = [tree_map(lambda g: g.reshape((*shape, *g.shape)) if shape else g, found)]
            else:
                rows = _rows(outputs, chosen, basis(outputs), chunk_size, wanted)
                parts = _blocks(outputs, chosen, rows)
            jacobian = tree_unflatten(parts, spec)
        jacobian = _released(jacobian, own, wanted)
        return (jacobian, _released(aux, own)) if has_aux else jacobian

    return wrapper


def _blocks(outputs: list, chosen: Any, rows: Any) -> list:
    """The rows of each output, in the shape of the output and of the input."""
    flat, inner = tree_flatten(rows)
    shapes = [x.shape for x in tree_leaves(chosen)]
    parts, at, total = [], 0, sum(_sizes(outputs))
    for o in outputs:
        n = o.numel()
        each = [
            g.narrow(0, at, n).reshape((*o.shape, *s)) if total else g.new_zeros((*o.shape, *s))
            for g, s in zip(flat, shapes, strict=True)
        ]
        parts.append(tree_unflatten(each, inner))
        at += n
    return parts


def _rows(
    outputs: list, chosen: Any, cotangents: list, chunk_size: int | None, record: bool
) -> Any:
    """The gradients for each of the cotangents, stacked; without `vmap` for chunks of one."""
    n = sum(_sizes(outputs))
    if chunk_size == 1 and n:
        each = [_gradients(outputs, chosen, [c[k] for c in cotangents], record) for k in range(n)]
        columns = [tree_leaves(row) for row in each]
        stacked = [torch.stack(list(column)) for column in zip(*columns, strict=True)]
        return tree_unflatten(stacked, tree_flatten(each[0])[1])
    if not n:
        return _gradients(outputs, chosen, cotangents, record)

    def row(*given: Tensor) -> Any:
        return _gradients(outputs, chosen, list(given), record)

    return vmap(row, chunk_size=chunk_size)(*cotangents)


def _only_tensors(leaves: list, of: str, what: str) -> None:
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{of}: Expected {what} to return only tensors, got unsupported type {type(x)}"
            )


def jacfwd(
    func: Callable, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """As `jacrev`, by forward mode: the columns are tangents, all in one pass. `randomness`: see `vmap`."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = _numbers(args, argnums, "jacfwd")
        chosen = args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in numbers)
        leaves, form = tree_flatten(chosen)
        _only_tensors(leaves, "jacfwd", "the inputs")
        _real(chosen, "jacfwd", "inputs")

        def called(*primals: Any) -> Any:
            given, tree = list(args), tree_unflatten(primals, form)
            for k, n in enumerate(numbers):
                given[n] = tree if isinstance(argnums, int) else tree[k]
            allow(_tensors((given, kwargs)))
            return func(*given, **kwargs)

        def column(*tangents: Any) -> Any:
            got = jvp(called, tuple(leaves), tangents, has_aux=has_aux)
            _real(got[0], "jacfwd", "outputs")
            return (got[1], got[2]) if has_aux else got[1]

        columns = vmap(column, randomness=randomness)(*basis(leaves))
        aux = None
        if has_aux:
            columns, aux = columns
            aux = tree_map(lambda x: x[0] if isinstance(x, Tensor) else x, aux)

        def split(x: Tensor) -> Any:
            parts, at = [], 0
            for leaf in leaves:
                n = leaf.numel()
                parts.append(x.narrow(0, at, n).movedim(0, -1).reshape((*x.shape[1:], *leaf.shape)))
                at += n
            return tree_unflatten(parts, form)

        jacobian = tree_map(split, columns)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """A function that returns the matrix of second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable, *primals: Any) -> tuple:
    """(func(*primals), a function from tangents to the Jacobian's product with them).

    What the function saves, it computes once: the product is that of the gradients by what they are taken for.
    """
    value, product = _linearized(func, primals)
    given, form = tree_flatten(primals)

    def jvp_fn(*tangents: Any) -> Any:
        leaves, own = tree_flatten(tangents)
        if own != form:
            raise RuntimeError(
                f"Expected the tangents {own} to have the same argspec as the primals {form}"
            )
        for what in ("shape", "device", "dtype"):
            for k, (t, p) in enumerate(zip(leaves, given, strict=True)):
                if getattr(t, what) != getattr(p, what):
                    raise RuntimeError(
                        f"The {what} of input {k} in flattened pytree doesn't match the {what} of the primal "
                        f"with which it was linearized, {getattr(p, what)}. Got {getattr(t, what)}."
                    )
        return product(*tangents)

    return value, jvp_fn


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor inside of one of a transform: all levels of it, or one without `recurse`. For looking, not computing."""
    a = tensor._array
    while isinstance(a, Lifted):
        tensor = tensor_inside(a)
        a = tensor._array
        if not recurse:
            break
    return tensor
