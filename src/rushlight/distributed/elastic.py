"""`torch.distributed.elastic.multiprocessing.errors`: what a script that the launcher starts says when it fails."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["record"]


def record(fn: Callable, error_handler: Any = None) -> Callable:
    """A function whose exception is written to the file TORCHELASTIC_ERROR_FILE, if there is one, and raised.

    >>> from rushlight.distributed.elastic import record
    >>> record(lambda x: x + 1)(1)
    2
    """

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
                information = {
                    "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time())),
                }  # fmt: skip
                text = f"{type(error).__name__}: {error}"
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"message": {"message": text, "extraInfo": information}}, file)
            raise

    return recorded
