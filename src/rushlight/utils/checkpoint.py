"""Activation checkpointing: discard the saved tensors of a part of the forward, recompute them in backward.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost". Trades one more forward of the
part for the memory of everything it would keep.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.autograd.saved_hooks import saved_tensors_hooks
from rushlight.autograd.state import thread
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.utils.selective_checkpoint import (  # noqa: F401 - PyTorch has them here
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

DEFAULT_DETERMINISM_MODE = "default"
_early_stop: bool | None = None  # what set_checkpoint_early_stop says for all


class CheckpointError(RuntimeError):
    """The recomputation saved other tensors than the forward did."""


class _Enough(Exception):
    """Everything that backward needs has been computed again."""


@contextlib.contextmanager
def _same_random_numbers(state: Any) -> Iterator[None]:
    """Inside: the generator is where it was when `state` was taken."""
    if state is None:
        yield
        return
    import rushlight

    now = rushlight.get_rng_state()
    rushlight.set_rng_state(state)
    try:
        yield
    finally:
        rushlight.set_rng_state(now)


def _rng_state(preserve: bool) -> Any:
    import rushlight

    return rushlight.get_rng_state() if preserve else None


def _autocast_now() -> Callable:
    """A function that makes a block with autocast as it is now: a recomputation casts as the forward did."""
    import rushlight

    options = {
        "dtype": rushlight.get_autocast_dtype("cpu"),
        "enabled": rushlight.is_autocast_enabled("cpu"),
        "cache_enabled": rushlight.is_autocast_cache_enabled(),
    }
    return lambda: rushlight.autocast("cpu", **options)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable | None = None,
    determinism_check: str = DEFAULT_DETERMINISM_MODE,
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose intermediate values are computed again in backward.

    `use_reentrant=False` (the better kind) works with any arguments and results, `autograd.grad` and
    nested checkpoints; with True the recomputation is a backward inside the backward. The random
    generator is put back for the recomputation unless `preserve_rng_state=False`. With
    `determinism_check="none"` tensors may have other shapes and dtypes then.

    >>> import rushlight as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint(lambda x: (x * 2).exp(), x, use_reentrant=False)
    >>> y.sum().backward()
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not None or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        if not any(a.requires_grad for a in args if isinstance(a, Tensor)):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        return _Reentrant.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            "determinism_check should be one of ['default', 'none'], but got " + determinism_check
        )
    checked = determinism_check == "default"
    with recomputed(function, args, kwargs, preserve, context_fn, early_stop, checked):
        return function(*args, **kwargs)


@contextlib.contextmanager
def recomputed(
    function: Callable,
    args: tuple,
    kwargs: dict,
    preserve: bool = True,
    context_fn: Callable | None = None,
    early_stop: bool = True,
    checked: bool = True,
) -> Iterator[None]:
    """Inside, which calls the function: saved tensors are not kept, but computed again by another call when backward needs them."""
    early_stop = early_stop if _early_stop is None else _early_stop
    forward_context, recompute_context = (
        context_fn() if context_fn else (contextlib.nullcontext(), contextlib.nullcontext())
    )
    if not thread.grad:
        with forward_context:
            yield
        return
    state, autocast = _rng_state(preserve), _autocast_now()
    saved = 0  # how many tensors the forward saved
    shapes: list[tuple] = []
    again: dict[int, Tensor] = {}  # what the recomputation saved

    def pack(t: Tensor) -> int:
        nonlocal saved
        shapes.append((tuple(t.shape), t.dtype))
        saved += 1
        return saved - 1

    def unpack(k: int) -> Tensor:
        if k not in again:
            recompute()
        if k not in again:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original "
                f"forward and recomputation.\nNumber of tensors saved during forward: {saved}\nNumber of "
                f"tensors saved during recomputation: {len(again)}"
            )
        t = again.pop(k)
        if checked and (tuple(t.shape), t.dtype) != shapes[k]:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different "
                f"metadata than during the forward pass.\ntensor at position {k}:\nsaved metadata: "
                f"{shapes[k]}\nrecomputed metadata: {(tuple(t.shape), t.dtype)}"
            )
        return t

    def recompute() -> None:
        count = 0

        def keep(t: Tensor) -> Tensor:
            nonlocal count
            kept = again[count] = t.detach()
            count += 1
            if early_stop and count == saved:
                raise _Enough
            return kept  # for a backward within the function

        with (
            _same_random_numbers(state),
            enable_grad(),
            autocast(),
            recompute_context,
            contextlib.suppress(_Enough),
            saved_tensors_hooks(keep, lambda kept: kept),
        ):
            function(*args, **kwargs)

    with saved_tensors_hooks(pack, unpack), forward_context:
        yield


def detach_variable(inputs: tuple) -> tuple:
    """The tensors among `inputs` cut off their graph, with the same `requires_grad`."""
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


class _Reentrant(Function):
    """Forward without recording; backward runs it again, recorded, and differentiates that."""

    @staticmethod
    def forward(ctx: Any, function: Callable, preserve: bool, *args: Any) -> Any:
        ctx.function, ctx.args = function, args
        ctx.state, ctx.autocast = _rng_state(preserve), _autocast_now()
        ctx.save_for_backward(*[a for a in args if isinstance(a, Tensor)])
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = list(ctx.saved_tensors)
        args = tuple(saved.pop(0) if isinstance(a, Tensor) else a for a in ctx.args)
        inputs = detach_variable(args)
        with enable_grad(), ctx.autocast(), _same_random_numbers(ctx.state):
            outputs = ctx.function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        from rushlight.autograd import engine

        engine.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (
            None,
            None,
            *(x.grad if isinstance(x, Tensor) else None for x in inputs),
        )


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Run the modules of a Sequential (or list) one after the other, in checkpointed segments.

    The last segment is not checkpointed: its backward comes first.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(start: int, end: int) -> Callable:
        def forward(x: Any) -> Any:
            for f in functions[start:end]:
                x = f(x)
            return x

        return forward

    size = len(functions) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(
            segment(start, end),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return segment(end, len(functions))(input)


CheckpointFunction = _Reentrant


# -- settings --------------------------------------------------------------------------------------


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside: whether recomputations end as soon as they have what backward needs, whatever `early_stop` of `checkpoint` is."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@stub("no-op", "Errors always name the tensors that differ.")
@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted for PyTorch's sake: errors name the tensors that differ without it."""
    yield


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def check_backward_validity(inputs: Any) -> None:
    """Warn where no input needs a gradient: nothing will get one through the checkpoint."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class DefaultDeviceType:
    """The type of devices whose random state is kept: "cpu", the only one here."""

    @staticmethod
    def get_device_type() -> str:
        return "cpu"

    @staticmethod
    @stub("no-op", "There is one device.")
    def set_device_type(device: str = "cuda") -> None:
        """Accepted and not used."""


def get_device_states(*args: Any) -> tuple[list, list]:
    """No devices besides the CPU, and no states of them."""
    return [], []


@stub("no-op", "There is one device.")
def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Nothing to set."""
