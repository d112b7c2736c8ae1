"""How tensors are printed: the text PyTorch prints, character by character.

The work has three steps, one function each: `_shown` picks the elements that appear (all, or the
corners of a large array), `_text` turns them into equally wide strings, `_rows` puts brackets,
commas and line breaks around them. `tensor_str` adds what is not the numbers: device, size, dtype,
`grad_fn`.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from math import isfinite, prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import devices
from rushlight._backends.math_bits import resolved
from rushlight._backends.sparse import Coo, Sparse
from rushlight.autograd.state import thread
from rushlight.core import modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.core.dtypes import dtype as DType
    from rushlight.core.tensor import Tensor

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed from now on, in the whole process.

    precision: digits after the point (4). threshold: an array of more elements than this shows only
    its corners (1000). edgeitems: how many entries a corner has along each dimension (3).
    linewidth: characters per line (80). profile: "default", "short" or "full" set these four first;
    each of the four that is None then stays as it is. sci_mode: True or False forces or forbids
    `1.0000e+00`; None, also where it is left out, lets the values decide.

    >>> import rushlight as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile="default")
    """
    _options.update(_PROFILES.get(profile or "", {}))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, a copy: precision, threshold, edgeitems, linewidth, sci_mode."""
    return dict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions(**options)` for the length of a `with` block.

    >>> import rushlight as torch
    >>> from rushlight.core.printing import printoptions
    >>> with printoptions(precision=1):
    ...     print(torch.tensor([0.25, 1.75]))
    tensor([0.2, 1.8])
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        _options.update(before)


def format_array(array: Any, *, indent: int = 0, **options: Any) -> str:
    """The bracketed numbers of `array`: what `tensor(...)` starts with, before device, size, dtype.

    array: of any shape, with a bool, integer, floating or complex dtype, NumPy's or bfloat16; or an
    array on a GPU, of which only the elements shown travel to the host. indent: the column at which
    the text starts. options: precision, threshold, edgeitems, linewidth, sci_mode for this call, as
    in `set_printoptions`; TypeError for another name.

    >>> import numpy as np
    >>> print(format_array(np.array([[1.0, 2.5], [3.0, float("nan")]])))
    [[1.0000, 2.5000],
     [3.0000,    nan]]
    >>> format_array(np.arange(5000))
    '[   0,    1,    2,  ..., 4997, 4998, 4999]'
    """
    if unknown := options.keys() - _options.keys():
        raise TypeError(f"format_array: unknown options {sorted(unknown)}; use {list(_options)}")
    using = {**_options, **options}
    shape, edge = array.shape, using["edgeitems"]
    if 0 in shape:
        return "[]"
    summarised = len(shape) > 0 and prod(shape) > using["threshold"]
    if summarised and edge <= 0:
        return "[...]"
    cut = [summarised and size > 2 * edge for size in shape]
    shown = _shown(array, cut, edge)
    values = shown.reshape(-1).tolist()
    if isinstance(values[0], complex):
        texts, width = _complex_text(values, using)
    else:
        texts, width = _text(values, using)
    if not shape:
        return texts[0]
    return _rows(iter(texts), shown.shape, cut, indent, width + 2, using)


def _shown(array: Any, cut: list[bool], edge: int) -> np.ndarray:
    """The elements that appear, on the host: of a cut dimension the first and last `edge`.

    This is one indexed read: the cost of printing does not grow with the array.
    """
    xp = devices.of(array)
    if True in cut:
        grid = np.ix_(
            *(
                np.r_[:edge, size - edge : size] if is_cut else np.arange(size)
                for size, is_cut in zip(array.shape, cut, strict=True)
            )
        )
        array = array[tuple([xp.from_numpy(at) for at in grid])]
    return xp.to_numpy(array)


def _text(values: list[Any], using: dict[str, Any]) -> tuple[list[str], int]:
    """Bools, integers or floats as strings padded on the left to one width, and that width.

    Zeros, NaN and infinities do not count for the notation and the width: a NaN may be wider than
    its column.
    """
    if not isinstance(values[0], float):
        texts = [str(value) for value in values]
        width = max(map(len, texts))
        return [text.rjust(width) for text in texts], width
    form, whole = _notation(values, using)
    texts = [form(value) for value in values]
    if whole:
        texts = [
            text + "." if isfinite(value) else text
            for text, value in zip(texts, values, strict=True)
        ]
    width = max(
        (len(text) for text, value in zip(texts, values, strict=True) if value and isfinite(value)),
        default=1,
    )
    return [text.rjust(width) for text in texts], width


def _notation(values: list[float], using: dict[str, Any]) -> tuple[Any, bool]:
    """How these floats are written: a function float -> str, and whether as whole numbers (`1.`).

    In scientific notation where the largest is above 1e8 or 1000 times the smallest, or the
    smallest is below 1e-4.
    """
    sizes = [abs(value) for value in values if value and isfinite(value)]
    whole = all(size.is_integer() for size in sizes)
    scientific = False
    if sizes:
        low, high = min(sizes), max(sizes)
        scientific = high / low > 1000 or high > 1e8 or low < 1e-4
        if using["sci_mode"] is not None:
            scientific = using["sci_mode"]
    digits = using["precision"]
    if scientific:
        return f"{{:.{digits}e}}".format, False
    return ("{:.0f}" if whole else f"{{:.{digits}f}}").format, whole


def _complex_text(values: list[complex], using: dict[str, Any]) -> tuple[list[str], int]:
    """Complex numbers as strings, and the width they count for.

    Both parts choose their notation on their own. The imaginary part is not padded, so the strings
    of one array may differ in width.
    """
    real, real_width = _text([value.real for value in values], using)
    imag, imag_width = _text([value.imag for value in values], using)
    texts = []
    for left, right in zip(real, imag, strict=True):
        right = right.lstrip()
        texts.append(f"{left}{'' if right[0] == '-' else '+'}{right}j")
    return texts, real_width + imag_width + 1


def _rows(
    texts: Iterator[str],
    shape: tuple[int, ...],
    cut: list[bool],
    indent: int,
    cell: int,
    using: dict[str, Any],
) -> str:
    """The texts of one array of `shape`, in order, in brackets; each counts for `cell` columns."""
    last = len(shape) == 1
    if last:
        parts = [next(texts) for _ in range(shape[0])]
    else:
        parts = [_rows(texts, shape[1:], cut[1:], indent + 1, cell, using) for _ in range(shape[0])]
    if cut[0]:
        parts.insert(using["edgeitems"], " ..." if last else "...")
    if last:
        count = max(1, int((using["linewidth"] - indent) // cell))
        parts = [", ".join(parts[at : at + count]) for at in range(0, len(parts), count)]
    breaks = "\n" * max(1, len(shape) - 1)
    return "[" + f",{breaks}{' ' * (indent + 1)}".join(parts) + "]"


def tensor_str(tensor: Tensor, *, contents: str | None = None) -> str:
    """`repr(tensor)`: `tensor(...)`, or with the class's name for a subclass: `Masked(...)`.

    The dtype is named unless a literal would give it: the default dtype, its complex partner,
    int64, bool; without elements to read it from, only the default one goes unnamed. contents:
    printed in place of the numbers.

    >>> import rushlight as torch
    >>> torch.arange(2, dtype=torch.int32)
    tensor([0, 1], dtype=torch.int32)
    >>> torch.zeros(0, 3)
    tensor([], size=(0, 3))
    """
    kind = type(tensor)
    own = _is_one_of((kind,), "Tensor", "Buffer", "Parameter")
    prefix = "tensor(" if own else f"{kind.__name__}("
    if isinstance(getattr(tensor, "_array", None), Sparse) and contents is None:
        return _sparse_str(tensor, prefix)
    if depths := [t.depth for t in thread.tracking if t.tracks(tensor)]:
        apart = object.__new__(kind)
        apart._array, apart._edge, apart._counter = tensor._array, None, None
        return functools.reduce(tracked, depths, tensor_str(apart))
    if hasattr(getattr(tensor, "_array", None).__class__, "describe"):
        return tensor._array.describe(tensor_str)
    meta, shape = tensor.is_meta, tensor.shape
    empty = 0 in shape
    if contents is None:
        contents = "..." if meta else format_array(resolved(tensor._array), indent=len(prefix))
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if meta or (empty and len(shape) != 1) or (not empty and _options["edgeitems"] == 0):
        suffixes.append(f"size={tuple(shape)}")
    if not _dtype_is_implied(tensor.dtype, known_by_values=not (meta or empty)):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes += _gradient_suffix(tensor)
    text = _with_suffixes(prefix + contents, suffixes, len(prefix))
    if own or not (getattr(tensor, "_is_param", False) or _is_one_of(kind.__mro__, "Parameter")):
        return text
    return f"Parameter({text})"


def _sparse_str(tensor: Tensor, prefix: str) -> str:
    """The component arrays, each on new lines, then size, number of entries and layout."""
    a: Any = tensor._array
    if isinstance(a, Coo):
        parts = {"indices": a.indices}
    elif a.by_column:
        parts = {"ccol_indices": a.pointers, "row_indices": a.plain}
    else:
        parts = {"crow_indices": a.pointers, "col_indices": a.plain}
    indent, lines = len(prefix), []
    for name, array in {**parts, "values": a.values}.items():
        head = f"{name}=tensor("
        size = f", size={tuple(array.shape)}" if not array.size else ""
        lines.append(f"{head}{format_array(array, indent=indent + len(head))}{size})")
    between = ",\n" + " " * indent
    text = prefix + between.join(lines)
    suffixes = [f"size={tuple(a.shape)}", f"nnz={a.nnz}"]
    if not _dtype_is_implied(tensor.dtype, known_by_values=True):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes += [f"layout={tensor.layout}", *_gradient_suffix(tensor)]
    return _with_suffixes(text, suffixes, indent, new_line=isinstance(a, Coo))


def _is_one_of(kinds: tuple[type, ...], *names: str) -> bool:
    """Whether one of these classes is a class of Rushlight with one of these names.

    Classes are compared by name, since Parameter is defined in a higher layer.
    """
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] in ("rushlight", "torch")
        for kind in kinds
    )


def _dtype_is_implied(dtype: DType, known_by_values: bool) -> bool:
    """Whether `tensor(...)` of the values, or `empty(...)` without values, gives this dtype."""
    default = modes.get_default_dtype().name
    if not known_by_values:
        return dtype.name == default
    partner = "complex128" if default == "float64" else "complex64"
    return dtype.name in (default, partner, "int64", "bool")


def tracked(text: str, depth: int) -> str:
    """The text of a tensor inside of a transform that takes its gradients."""
    text = text.replace("\n", "\n    ")
    return f"GradTrackingTensor(lvl={depth}, value=\n    {text}\n)"


def _gradient_suffix(tensor: Tensor) -> list[str]:
    """`grad_fn=<Name>`, `requires_grad=True` or nothing."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # Reading it re-derives a view's history, which raises where an in-place write has made it
        # invalid; a debugger must still be able to show the tensor.
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{type(node).__name__}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _with_suffixes(text: str, suffixes: list[str], indent: int, new_line: bool = False) -> str:
    """`text`, the suffixes and the closing bracket; a suffix that passes the line width starts a new line.

    With `new_line` the first suffix always does.
    """
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if (new_line and suffix is suffixes[0]) or column + len(suffix) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def tensor_format(tensor: Tensor, spec: str) -> str:
    """`format(tensor, spec)`: of a plain 0-d tensor the format of its number; else `str(tensor)`.

    TypeError for a spec on a tensor that has dimensions, is on the meta device, or is of a subclass
    such as Parameter.

    >>> import rushlight as torch
    >>> f"{torch.tensor(0.125):.2f}"
    '0.12'
    """
    plain = _is_one_of((type(tensor),), "Tensor", "Buffer")
    if plain and not len(tensor.shape) and not tensor.is_meta:
        return format(resolved(tensor._array).item(), spec)
    return object.__format__(tensor, spec)


def tensor_html(tensor: Tensor) -> str:
    """What a notebook shows: the tensor's text, and below it shape, dtype, device and bytes.

    >>> import rushlight as torch
    >>> torch.tensor([1.0])._repr_html_()
    '<pre>tensor([1.])</pre><small>[1], torch.float32, cpu, 4 bytes</small>'
    """
    from html import escape

    size = f"{tensor.numel() * tensor.dtype.itemsize:,} bytes"
    facts = [str(list(tensor.shape)), str(tensor.dtype), str(tensor.device), size]
    return f"<pre>{escape(repr(tensor))}</pre><small>{escape(', '.join(facts))}</small>"
