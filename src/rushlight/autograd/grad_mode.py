"""`no_grad`, `enable_grad`, `set_grad_enabled` and `inference_mode` switch recording off and on.

All are context managers and decorators of functions and generators. They affect the calling thread only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.state import count_mode, thread


class Switch:
    """A context manager that can also decorate functions and generator functions."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: Callable) -> Callable:
        import inspect

        if isinstance(function, type):
            import warnings

            warnings.warn(
                f"Decorating classes is deprecated: {function.__name__} becomes a function that makes instances within the "
                "block. Decorate functions or methods.",
                FutureWarning, stacklevel=2,
            )  # fmt: skip
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def stepped(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    generator = function(*args, **kwargs)
                    try:
                        item = next(generator)
                    except StopIteration as stop:
                        return stop.value
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as e:
                        with self.clone():
                            try:
                                item = generator.throw(e)
                            except StopIteration as stop:
                                return stop.value
                    else:
                        with self.clone():
                            try:
                                item = generator.send(sent)
                            except StopIteration as stop:
                                return stop.value

            return stepped

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return decorated


class no_grad(Switch):
    """A block in which nothing is recorded.

    >>> import rushlight as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __init__(self) -> None:
        self.before: list[bool] = []

    value = False

    def __enter__(self) -> None:
        self.before.append(thread.grad)
        thread.grad = self.value

    def __exit__(self, *exc: object) -> None:
        thread.grad = self.before.pop()

    @property
    def outside(self) -> bool:
        """Whether calls are recorded behind the block that is open."""
        return self.before[-1]


class enable_grad(no_grad):
    """A block in which calls are recorded, also within `no_grad`."""

    value = True


class set_grad_enabled(Switch):
    """Switch recording on or off, from this call on, or in a block or decorated function."""

    def __init__(self, mode: bool) -> None:
        self.before = thread.grad
        self.mode = mode
        thread.grad = mode

    def __call__(self, function: Callable) -> Callable:
        thread.grad = self.before
        return super().__call__(function)

    def __enter__(self) -> None:
        thread.grad = self.mode

    def __exit__(self, *exc: object) -> None:
        thread.grad = self.before

    @property
    def outside(self) -> bool:
        """Whether calls are recorded behind the block."""
        return self.before

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"

    __str__ = __repr__

    def clone(self) -> set_grad_enabled:
        fresh = object.__new__(set_grad_enabled)
        fresh.before, fresh.mode = thread.grad, self.mode
        return fresh


class inference_mode(Switch):
    """As `no_grad`; results have no version counter and cannot be saved for backward later."""

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode) and not isinstance(mode, bool):
            return object.__new__(cls)._with(True)(mode)
        return object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self._with(mode)

    def _with(self, mode: bool) -> inference_mode:
        self.mode, self.before = mode, []
        return self

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.before.append((thread.grad, thread.inference))
        thread.grad = thread.grad and not self.mode if self.mode else True
        thread.inference = self.mode
        count_mode(+1, inference=True)

    def __exit__(self, *exc: object) -> None:
        thread.grad, thread.inference = self.before.pop()
        count_mode(-1, inference=True)


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return thread.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return thread.inference


class set_multithreading_enabled(Switch):
    """Without effect: a backward runs in the thread that calls it."""

    def __init__(self, mode: bool = True) -> None:
        self.before, thread.multithreading = thread.multithreading, mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        thread.multithreading = self.before
