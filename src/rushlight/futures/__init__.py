"""`torch.futures`: results that come later, set by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that is set once.

    >>> future = Future()
    >>> doubled = future.then(lambda f: 2 * f.wait())
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._is_set = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiting: list[Callable] = []

    def __getstate__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def done(self) -> bool:
        """Whether the value, or an exception, is there."""
        return self._is_set.is_set()

    def wait(self) -> T:
        """The value, when it is there; raises the exception that was set."""
        self._is_set.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> T:
        """The value, which must be there. RuntimeError if it is not."""
        if not self.done():
            raise RuntimeError(
                "Attempting to get value of a Future that is not complete: call wait()"
            )
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the value; what `then` was given runs, in this thread."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let `wait` raise this."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error = value, error
            self._is_set.set()
        for callback in self._waiting:
            self._call(callback)

    def _call(self, callback: Callable) -> None:
        """Call `callback(self)`; an error in it is logged, and stays there."""
        try:
            callback(self)
        except Exception:
            import logging

            logging.getLogger(__name__).exception("an error in a callback of a Future")

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` when the value is there, or now."""
        with self._lock:
            if not self.done():
                self._waiting.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of `callback(self)`; an error in it is a RuntimeError there, with its text."""
        following: Future[Any] = Future()

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                following.set_exception(
                    RuntimeError(
                        "Got the following error when running the callback: "
                        f"{type(error).__name__}: {error}"
                    )
                )
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """A future of the list itself, done when all of them are.

    >>> first, second = Future(), Future()
    >>> both = collect_all([first, second])
    >>> first.set_result(1); second.set_result(2)
    >>> [each.wait() for each in both.wait()]
    [1, 2]
    """
    if any(each is None for each in futures):
        raise RuntimeError("Future can't be None")
    everything: Future[list[Future]] = Future()
    left = len(futures)
    lock = threading.Lock()

    def count(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            everything.set_result(futures)

    for each in futures:
        each.add_done_callback(count)
    if not futures:
        everything.set_result(futures)
    return everything


def wait_all(futures: list[Future]) -> list:
    """The values of all, when they are there.

    >>> future = Future()
    >>> future.set_result(1)
    >>> wait_all([future])
    [1]
    """
    return [each.wait() for each in collect_all(futures).wait()]
