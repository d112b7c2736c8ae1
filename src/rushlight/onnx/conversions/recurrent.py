"""LSTM, GRU and simple recurrent layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rushlight
from rushlight.onnx.builder import CONVERSIONS, Builder, Operand, conversion

# The blocks of PyTorch's weights in ONNX's order.
_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _reordered(g: Builder, w: Operand, kind: str) -> Operand:
    order = _ORDER[kind]
    if len(order) == 1:
        return w
    parts = g.op("Split", w, axis=0, num_outputs=len(order), outputs=len(order))
    return g.op("Concat", *[parts[k] for k in order], axis=0)


def _layers(
    g: Builder, kind: str, x: Operand, states: list[Operand], params: list[Operand], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool, activation: str | None = None,
) -> list[Operand]:  # fmt: skip
    """The output and the last states of all layers."""
    if dropout and train:
        raise NotImplementedError("recurrent layers with dropout in training mode")
    if x.rank != 3 and not x.lengths:
        raise NotImplementedError("an input without a batch")
    lengths = x.lengths
    if batch_first:
        x = g.op("Transpose", x, perm=[1, 0, 2])
    directions, each = (2 if bidirectional else 1), (4 if has_biases else 2)
    hidden = params[1].shape[1]
    last: list[list[Operand]] = [[] for _ in states]
    for layer in range(num_layers):
        rows = [
            params[each * (directions * layer + d) : each * (directions * layer + d + 1)]
            for d in range(directions)
        ]
        w, r = (
            g.op(
                "Concat",
                *[g.op("Unsqueeze", _reordered(g, row[k], kind), [0]) for row in rows],
                axis=0,
            )
            for k in (0, 1)
        )
        b = None
        if has_biases:
            joined = [
                g.op("Concat", _reordered(g, row[2], kind), _reordered(g, row[3], kind), axis=0)
                for row in rows
            ]
            b = g.op("Concat", *[g.op("Unsqueeze", each_b, [0]) for each_b in joined], axis=0)
        at = [directions * layer, directions * (layer + 1)]
        initial = [g.op("Slice", s, [at[0]], [at[1]], [0]) for s in states]
        found = g.op(
            kind, x, w, r, b, lengths, *initial, hidden_size=hidden, outputs=1 + len(states),
            direction="bidirectional" if bidirectional else "forward",
            linear_before_reset=1 if kind == "GRU" else None,
            activations=[activation] * directions if activation else None,
        )  # fmt: skip
        y = g.op("Transpose", found[0], perm=[0, 2, 1, 3])  # (time, direction, batch, hidden)
        x = g.op("Reshape", y, [0, 0, -1])
        for states_of, state in zip(last, found[1:], strict=True):
            states_of.append(state)
    ends = [
        g.op("Concat", *each_last, axis=0) if len(each_last) > 1 else each_last[0]
        for each_last in last
    ]
    found = g.op("Transpose", x, perm=[1, 0, 2]) if batch_first else x
    return [replace(found, lengths=lengths), *ends]


def _recurrent(kind: str, activation: str | None = None) -> Any:
    """The conversion of a layer, whose arguments are (input, states, parameters...), or (data, batch sizes, states,
    parameters...) of a packed sequence."""

    def convert(g: Builder, x: Operand, *args: Any) -> list[Operand]:
        states, params, *options = args[1:] if x.lengths else args
        states = [states] if isinstance(states, Operand) else [*states]
        if x.lengths:
            options.append(False)  # time is first
        return _layers(g, kind, x, states, [*params], *options, activation=activation)

    return convert


CONVERSIONS |= {
    "lstm": _recurrent("LSTM"), "gru": _recurrent("GRU"), "rnn_tanh": _recurrent("RNN", "Tanh"),
    "rnn_relu": _recurrent("RNN", "Relu"),
}  # fmt: skip


@conversion("_pack_padded_sequence")
def pack(g: Builder, x: Operand, lengths: Operand, batch_first: bool) -> list[Operand]:
    padded = (
        g.op("Transpose", x, perm=[1, 0, *range(2, x.rank)]) if batch_first else g.op("Identity", x)
    )
    return [replace(padded, lengths=g.cast(lengths, rushlight.int32)), lengths]


@conversion("_pad_packed_sequence")
def unpack(
    g: Builder, data: Operand, batch_sizes: Operand, batch_first: bool, padding_value: float, total_length: int
) -> list[Operand]:  # fmt: skip
    if padding_value or total_length > 0:
        raise NotImplementedError("another padding than zeros up to the longest sequence")
    lengths = g.cast(data.lengths, rushlight.int64)
    longest = g.op("ReduceMax", lengths, keepdims=1)
    padded = g.op("Slice", data, [0], longest, [0])
    return [g.op("Transpose", padded, perm=[1, 0, 2]) if batch_first else padded, lengths]


def _cell(
    g: Builder, x: Operand, h: Operand, w_ih: Operand, w_hh: Operand, b_ih: Any, b_hh: Any
) -> list[Operand]:
    """The two products of a cell."""
    return [g.op("Gemm", x, w_ih, b_ih, transB=1), g.op("Gemm", h, w_hh, b_hh, transB=1)]


@conversion("lstm_cell")
def lstm_cell(
    g: Builder,
    x: Operand,
    states: Any,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Any = None,
    b_hh: Any = None,
) -> Any:
    h, c = states
    i, f, n, o = g.op(
        "Split",
        g.op("Add", *_cell(g, x, h, w_ih, w_hh, b_ih, b_hh)),
        axis=1,
        num_outputs=4,
        outputs=4,
    )
    kept = g.op("Mul", g.op("Sigmoid", f), c)
    c = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", i), g.op("Tanh", n)))
    return [g.op("Mul", g.op("Sigmoid", o), g.op("Tanh", c)), c]


@conversion("gru_cell")
def gru_cell(
    g: Builder,
    x: Operand,
    h: Operand,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Any = None,
    b_hh: Any = None,
) -> Operand:
    a, b = (
        g.op("Split", each, axis=1, num_outputs=3, outputs=3)
        for each in _cell(g, x, h, w_ih, w_hh, b_ih, b_hh)
    )
    r = g.op("Sigmoid", g.op("Add", a[0], b[0]))
    z = g.op("Sigmoid", g.op("Add", a[1], b[1]))
    n = g.op("Tanh", g.op("Add", a[2], g.op("Mul", r, b[2])))
    return g.op("Add", n, g.op("Mul", z, g.op("Sub", h, n)))
