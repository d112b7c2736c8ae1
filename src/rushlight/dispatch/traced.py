"""Which kernel the body of an operator calls, and with what: read from the body, once.

A printed function calls that kernel itself (`run_text` in emit.py), without a call of the body.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op


class Expression:
    """The text of a value while the body of an operator is traced: a parameter, or arithmetic on some."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __neg__(self) -> Expression:
        return Expression(f"-{self.text}")

    def __mul__(self, other: Any) -> Expression:
        return Expression(f"({self.text} * {text_of(other)})")


class Recorder:
    """Stands for the back end while a body is traced: a kernel called is (name, arguments)."""

    def __getattr__(self, kernel: str) -> Any:
        return lambda *args: (kernel, [text_of(a) for a in args])


def text_of(value: Any) -> str:
    """The source of an argument; TypeError for what has none."""
    if value.__class__ is Expression:
        return value.text
    if value.__class__ is tuple:
        return f"({''.join(text_of(v) + ', ' for v in value)})"
    if value is None or value.__class__ in (bool, int, float, str):
        return repr(value)
    raise TypeError(f"no source for {value!r}")


def kernel_call(op: Op, texts: dict[str, str]) -> tuple[str, list[str]] | None:
    """(kernel, texts of its arguments) of an operator whose forward is the call of one kernel, else None.

    `texts`: what stands for each parameter. The body is traced where it has no branch and names nothing
    but that kernel, so that every call of it does the same.
    """
    if op.kernel:
        return op.kernel, [texts[i] for i in op.inputs]
    code = op.declared.__code__
    if op.composite or op.intermediates or len(code.co_names) != 1 or code.co_freevars:
        return None
    jumps = {*dis.hasjrel, *dis.hasjabs}
    if any(i.opcode in jumps or i.opname == "LOAD_GLOBAL" for i in dis.get_instructions(code)):
        return None
    values = [Expression(texts[p]) for p in op.params]
    n = op.n_positional
    try:
        found = op.declared(Recorder(), *values[:n], **dict(zip(op.params[n:], values[n:])))
    except (TypeError, AttributeError):  # more than arithmetic
        return None
    return found if found.__class__ is tuple and found[0].__class__ is str else None
