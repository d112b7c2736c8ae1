"""Notes on errors in `forward`: which module of the model it was, and what it was called with."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor

replacements: list[Any] = []  # functions that may raise another error: of scripted modules


def note_module(error: Exception, module: Any, args: tuple, kwargs: dict) -> None:
    """Say in a note of an error that it was raised in this module; outer modules add their part of the path."""
    # What is known so far is plain values, so that errors can be pickled.
    if "_modules" not in module.__dict__:
        return  # its __init__ did not call Module's
    known = error.__dict__.get("_module_note")
    if known is None:
        path, what = "", f"{_description(module)}, called with {_arguments(args, kwargs)}"
    else:
        inner, path, what, note = known
        name = next((name for name, m in module.named_modules() if id(m) == inner), "")
        path = ".".join(part for part in (name, path) if part)
        if note in getattr(error, "__notes__", ()):
            error.__notes__.remove(note)
    where = f"{path!r} of {type(module).__name__}: " if path else ""
    note = f"In the module {where}{what}"
    error.add_note(note)
    error._module_note = (id(module), path, what, note)  # type: ignore[attr-defined]
    for replace in replacements:
        replace(error, module)


def _description(module: Any) -> str:
    """One line: with its settings for a module without modules inside."""
    try:
        text = type(module).__name__ if module._modules else repr(module)
    except Exception:  # an `extra_repr` of the user's: the first error is the one to see
        text = type(module).__name__
    return text if "\n" not in text and len(text) < 200 else type(module).__name__


def _arguments(args: tuple, kwargs: dict) -> str:
    parts = [_value(a) for a in args] + [f"{name}={_value(a)}" for name, a in kwargs.items()]
    return ", ".join(parts) or "nothing"


def _value(value: Any) -> str:
    """A tensor as dtype and shape, another value by its type or, where it is short, itself."""
    if isinstance(value, Tensor) and not value.is_nested:  # nested ones have no shape
        return f"{value.dtype.name} {list(value.shape)}"
    plain = value is None or isinstance(value, bool | int | float)
    return repr(value) if plain else type(value).__name__
