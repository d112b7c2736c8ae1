"""`viz.summary`: a table of the layers of a model, their shapes, parameters, multiply-adds and memory."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rushlight.nn import Module
from rushlight.viz.calls import ModuleCall, run, shapes_text
from rushlight.viz.svg import bytes_text

__all__ = ["Summary", "summary"]

_HEAD = ("Layer", "Input", "Output", "Parameters", "Multiply-adds", "Memory")


def summary(model: Module, *args: Any, depth: int | None = None, **kwargs: Any) -> Summary:
    """Call the model once, in evaluation mode, and return a table of its layers.

    A tuple of whole numbers is a shape: `summary(model, (1, 3, 224, 224))`. `depth`: how deep the table goes, None for
    all. Multiply-adds are those of matrix products and convolutions; the memory of a layer is that of its results.
    """
    return Summary(run(model, args, kwargs), depth)


class Summary:
    """The table. `print` it, or let a notebook show it.

    `parameters`, `trainable`, `multiply_adds`; in bytes `parameter_memory`, `buffer_memory`, and `activation_memory`,
    the results of all layers without parts.
    """

    def __init__(self, call: ModuleCall, depth: int | None) -> None:
        model = call.module
        self._call, self._depth = call, depth
        self.parameters = sum(p.numel() for p in model.parameters())
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.multiply_adds = call.multiply_adds
        self.parameter_memory = sum(_size(p) for p in model.parameters())
        self.buffer_memory = sum(_size(b) for b in model.buffers())
        self.activation_memory = sum(_memory(each) for each in _leaves(call))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table, a row for each call; a module that is called again shows no parameters."""
        return list(self._rows(self._call, 0))

    def _rows(self, call: ModuleCall, level: int) -> Iterator[tuple[str, ...]]:
        name = call.path.rpartition(".")[2]
        kind = type(call.module).__name__
        count = "(again)" if call.again else f"{call.parameters:,}" if call.parameters else "-"
        yield (
            "  " * level + (f"{name}: {kind}" if name else kind), shapes_text(call.inputs),
            shapes_text(call.outputs), count if call.parameters else "-",
            f"{call.multiply_adds:,}" if call.multiply_adds else "-", bytes_text(_memory(call)),
        )  # fmt: skip
        if self._depth is None or level < self._depth:
            for part in call.parts:
                yield from self._rows(part, level + 1)

    def facts(self) -> dict[str, Any]:
        """The table as plain values: totals, and a dictionary for each row."""
        totals = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return totals | {"layers": [dict(zip(_HEAD, row, strict=True)) for row in self.rows]}

    def _totals(self) -> list[tuple[str, str]]:
        return [
            ("Parameters", f"{self.parameters:,} ({self.trainable:,} trainable)"),
            ("Multiply-adds", f"{self.multiply_adds:,}"),
            ("Memory of parameters", bytes_text(self.parameter_memory)),
            ("Memory of buffers", bytes_text(self.buffer_memory)),
            ("Memory of results", bytes_text(self.activation_memory)),
        ]

    def __str__(self) -> str:
        rows = [_HEAD, *self.rows]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
        lines = []
        for row in rows:
            left = [cell.ljust(w) for cell, w in zip(row[:3], widths[:3], strict=True)]
            right = [cell.rjust(w) for cell, w in zip(row[3:], widths[3:], strict=True)]
            lines.append("  ".join([*left, *right]))
        rule = "-" * len(lines[0])
        totals = self._totals()
        width = max(len(name) for name, _ in totals)
        ending = [f"{name:<{width}}  {value}" for name, value in totals]
        return "\n".join([lines[0], rule, *lines[1:], rule, *ending])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            texts = []
            for k, cell in enumerate(cells):
                inner = escape(cell.strip())
                indent = len(cell) - len(cell.lstrip())
                style = "text-align:right" if k > 2 else f"text-align:left;padding-left:{indent}em"
                texts.append(f'<{tag} style="{style}">{inner}</{tag}>')
            return f"<tr>{''.join(texts)}</tr>"

        body = "".join(row(cells, "td") for cells in self.rows)
        totals = "".join(f"<li>{name}: {value}</li>" for name, value in self._totals())
        return f"<table>{row(_HEAD, 'th')}{body}</table><ul>{totals}</ul>"


def _leaves(call: ModuleCall) -> Iterator[ModuleCall]:
    if not call.parts:
        yield call
    for part in call.parts:
        yield from _leaves(part)


def _memory(call: ModuleCall) -> int:
    return sum(_size(t) for t in call.outputs)


def _size(t: Any) -> int:
    return t.numel() * t.element_size()
