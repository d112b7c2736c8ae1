"""Recurrent networks over whole sequences (padded or packed) and their single steps.

The input's part of all gates is one product over all steps; what is left for each step is the
state's part. Gates stand in the order i, f, g, o (LSTM) and r, z, n (GRU).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rushlight.autograd.state import active, thread
from rushlight.dispatch.handlers import only_recorded
from rushlight.dispatch.registry import Array, op, public
from rushlight.ops.linalg.matmul import linear
from rushlight.ops.nn.dropout import dropout as drop

# -- one step: (input's part of the gates, states, weights) -> states ------------------------------


def tanh_step(gates: Any, states: tuple, w_hh: Any, b_hh: Any, w_hr: Any = None) -> tuple:
    return ((gates + linear(states[0], w_hh, b_hh)).tanh(),)


def relu_step(gates: Any, states: tuple, w_hh: Any, b_hh: Any, w_hr: Any = None) -> tuple:
    return ((gates + linear(states[0], w_hh, b_hh)).relu(),)


def lstm_step(gates: Any, states: tuple, w_hh: Any, b_hh: Any, w_hr: Any = None) -> tuple:
    h, c = states
    i, f, g, o = (gates + linear(h, w_hh, b_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if w_hr is None else linear(h, w_hr, None)), c


def gru_step(gates: Any, states: tuple, w_hh: Any, b_hh: Any, w_hr: Any = None) -> tuple:
    (h,) = states
    r, z, n = gates.chunk(3, 1)
    own_r, own_z, own_n = linear(h, w_hh, b_hh).chunk(3, 1)
    r = (r + own_r).sigmoid()
    z = (z + own_z).sigmoid()
    n = (n + r * own_n).tanh()
    return ((h - n) * z + n,)


# -- one layer in one direction --------------------------------------------------------------------


def fits(x: Any, sizes: list | None, states: tuple) -> bool:
    """Whether the sizes of steps are those of a packed batch, and there is a state for each row."""
    n = states[0].shape[0]
    if sizes is None:
        return x.dim() == 3 and x.shape[1] == n
    descending = all(a >= b for a, b in pairwise(sizes))
    return (
        bool(sizes) and sizes[0] == n and descending and sizes[-1] > 0 and sum(sizes) == x.shape[0]
    )


def through_time(
    step: Any, x: Any, sizes: list | None, states: tuple, weights: list, reverse: bool
) -> tuple:
    """(outputs [T, N, size], last states) of x [T, N, features]; or those [sum of sizes, size] of packed
    x [sum of sizes, features], where `sizes[t]` sequences reach step t."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    low = None
    if active.modes > active.inference:  # is it autocast?
        low = linear(x[:0], w_ih, b_ih).dtype
        if step is lstm_step and low is not x.dtype and w_hr is None:
            x, w_ih, w_hh = x.to(low), w_ih.to(low), w_hh.to(low)
            b_ih, b_hh = (None if b is None else b.to(low) for b in (b_ih, b_hh))
            states = tuple(s.to(low) for s in states)
            low = None
    d = x._array.dtype
    same = low in (None, x.dtype) and w_ih._array.dtype is d is w_hh._array.dtype
    for s in states:
        same = same and s._array.dtype is d
    if w_hr is not None or not same or not x.shape[0] or not fits(x, sizes, states):
        if sizes is not None and len(sizes) == 1:
            last = step(linear(x, w_ih, b_ih), states, w_hh, b_hh, w_hr)
            return last[0], last
        if sizes is not None:
            return through_packed(step, x, sizes, states, weights, reverse)
        return unrolled(step, linear(x, w_ih, b_ih), states, w_hh, b_hh, w_hr, reverse)
    c = states[1] if step is lstm_step else None
    y, *last = recurrent_layer(x, w_ih, w_hh, b_ih, b_hh, states[0], c, KINDS[step], sizes, reverse)
    return y, tuple(last[: len(states)])


def unrolled(
    step: Any, gates: Any, states: tuple, w_hh: Any, b_hh: Any, w_hr: Any, reverse: bool
) -> tuple:
    """(outputs, last states), one step after the other in operators."""
    import rushlight

    outputs = []
    parts = gates.unbind(0)
    for g in reversed(parts) if reverse else parts:
        states = step(g, states, w_hh, b_hh, w_hr)
        outputs.append(states[0])
    if reverse:
        outputs.reverse()
    return rushlight.stack(outputs), states


def through_packed(
    step: Any, x: Any, sizes: list, states: tuple, weights: list, reverse: bool
) -> tuple:
    """As `through_time` of packed x, one step after the other in operators."""
    import rushlight

    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    gates = linear(x, w_ih, b_ih).split(sizes)
    first = states
    outputs = []
    if reverse:  # sequences join as their last step is reached
        states = tuple(s[:0] for s in first)
        for g, n in zip(reversed(gates), reversed(sizes), strict=True):
            have = states[0].shape[0]
            if have < n:
                states = tuple(
                    rushlight.cat([s, f[have:n]]) for s, f in zip(states, first, strict=True)
                )
            states = step(g, states, w_hh, b_hh, w_hr)
            outputs.append(states[0])
        outputs.reverse()
        return rushlight.cat(outputs), states
    ended = []  # the states of sequences that are over, the shortest first
    for g, n in zip(gates, sizes, strict=True):
        if states[0].shape[0] > n:
            ended.append(tuple(s[n:] for s in states))
            states = tuple(s[:n] for s in states)
        states = step(g, states, w_hh, b_hh, w_hr)
        outputs.append(states[0])
    ended.append(states)
    ended.reverse()
    return rushlight.cat(outputs), tuple(rushlight.cat(parts) for parts in zip(*ended, strict=True))


KINDS = {lstm_step: "lstm", gru_step: "gru", tanh_step: "tanh", relu_step: "relu"}


@op(
    name="_recurrent_layer", node="MkldnnRnnLayerBackward0", method=False, out=False,
    outputs=("result", "h", "c"), intermediates=("first", "second", "third"),
)  # fmt: skip
def recurrent_layer(
    xp, input: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, h0: Array,
    c0: Array | None, kind: str, sizes: list | None, reverse: bool, keep: bool,
):  # fmt: skip
    """(outputs, last h, last c) of a layer in one direction. Intermediates: as the kernel needs them."""
    return xp.recurrent_layer(input, w_ih, w_hh, b_ih, b_hh, h0, c0, kind, sizes, reverse, keep)


def recurrent_layer_rule(
    g_result, g_h, g_c, input, w_ih, w_hh, b_ih, b_hh, h0, c0, kind, sizes, reverse, needs
):  # fmt: skip
    """The layer again, step by step in operators, and their gradients."""
    from rushlight.autograd.engine import grad
    from rushlight.autograd.grad_mode import enable_grad

    recording = thread.grad
    step = next(s for s, name in KINDS.items() if name == kind)
    with enable_grad():
        given = (input, w_ih, w_hh, b_ih, b_hh, h0, c0)
        inputs = [  # apart, if one is given twice
            None if t is None else t.view_as(t) for t in given
        ]
        x, w_ih, w_hh, b_ih, b_hh, *states = inputs
        states = tuple(s for s in states if s is not None)
        if sizes is None:
            y, last = unrolled(step, linear(x, w_ih, b_ih), states, w_hh, b_hh, None, reverse)
        else:
            y, last = through_packed(step, x, sizes, states, [*inputs[1:5], None], reverse)
        g = (g_result, g_h, g_c)[: 1 + len(states)]
        expected = [t for t, need in zip(inputs, needs, strict=True) if need]
        found = iter(grad((y, *last), expected, g, create_graph=recording, allow_unused=True))
    return tuple(next(found) if need else None for need in needs)


def recurrent_layer_gradients(
    xp, g_result, g_h, g_c, input, w_ih, w_hh, h0, c0, kind, sizes, reverse, result, first, second,
    third, needs,
):  # fmt: skip
    found = xp.recurrent_layer_gradients(
        g_result, g_h, None if c0 is None else g_c, input, w_ih, w_hh, h0, c0, result, first, second,
        third, kind, sizes, reverse, needs[0], needs[5],
    )  # fmt: skip
    return tuple(a if need else None for a, need in zip(found, needs, strict=True))


recurrent_layer.grad_all(recurrent_layer_rule, kernel=recurrent_layer_gradients)


# -- all layers ------------------------------------------------------------------------------------


def weights_of(params: Any, has_biases: bool, projected: bool, k: int) -> list:
    """(w_ih, w_hh, b_ih, b_hh, w_hr) of layer and direction `k`."""
    each = 2 + 2 * bool(has_biases) + projected
    found = list(params[k * each : (k + 1) * each])
    w_hr = found.pop() if projected else None
    return [*found, *[None] * (4 - len(found)), w_hr]


def run(
    name: str, step: Any, x: Any, sizes: list | None, states: tuple, params: Any, has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple:  # fmt: skip
    """(output, last states...) of a network; `sizes` where the input is packed."""
    import rushlight

    if batch_first:
        x = x.transpose(0, 1)
    directions = 2 if bidirectional else 1
    projected = name == "lstm" and states[0].shape[2] != states[1].shape[2]
    last: list = []
    for layer in range(num_layers):
        outputs = []
        for d in range(directions):
            k = layer * directions + d
            weights = weights_of(params, has_biases, projected, k)
            own = tuple(s[k] for s in states)
            y, own = through_time(step, x, sizes, own, weights, d == 1)
            outputs.append(y)
            last.append(own)
        x = outputs[0] if directions == 1 else rushlight.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = drop(x, dropout, True)
    if batch_first:
        x = x.transpose(0, 1)
    if len(last) == 1:
        return (x, *[part.unsqueeze(0) for part in last[0]])
    return (x, *[rushlight.stack(list(parts)) for parts in zip(*last, strict=True)])


def network(name: str, step: Any, doc: str) -> Any:
    """The public function in its two forms."""

    @public(name=name, doc=doc, overridable=True)
    def function(*args: Any, **kwargs: Any) -> tuple:
        names = ["input", "hx", "params"]
        packed = "data" in kwargs or "batch_sizes" in kwargs
        if len(args) > 2 and hasattr(args[1], "_array"):
            several = isinstance(args[2], (list, tuple))
            packed = name == "lstm" or not several
        if packed:
            names = ["data", "batch_sizes", "hx", "params"]
        names += ["has_biases", "num_layers", "dropout", "train", "bidirectional"]
        if not packed:
            names.append("batch_first")
        given = dict(zip(names, args, strict=False)) | kwargs
        for n in names:
            if n not in given:
                raise TypeError(
                    f'{name}() missing 1 required positional arguments: "{n}" (position '
                    f"{names.index(n) + 1})"
                )
        states = given["hx"]
        states = tuple(states) if isinstance(states, (list, tuple)) else (states,)
        if name == "lstm" and len(states) != 2:
            raise RuntimeError("lstm expects two hidden states")
        sizes = given["batch_sizes"].tolist() if packed else None
        x = given["data" if packed else "input"]
        return run(
            name, step, x, sizes, states, given["params"], given["has_biases"],
            given["num_layers"], given["dropout"], given["train"], given["bidirectional"],
            given.get("batch_first", False),
        )  # fmt: skip

    return function


FORMS = """

    `{0}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, or
    packed: `{0}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional)`. Returns the outputs and the last state of every layer and direction."""

rnn_tanh = network(
    "rnn_tanh", tanh_step,
    "h' = tanh(w_ih x + b_ih + w_hh h + b_hh), layer by layer (Elman 1990)." + FORMS.format("rnn_tanh"),
)  # fmt: skip
rnn_relu = network(
    "rnn_relu", relu_step, "As `rnn_tanh` with relu in the place of tanh." + FORMS.format("rnn_relu")
)  # fmt: skip
lstm = network(
    "lstm", lstm_step,
    "Long short-term memory (Hochreiter and Schmidhuber 1997); hx is (h, c)." + FORMS.format("lstm"),
)  # fmt: skip
gru = network("gru", gru_step, "Gated recurrent units (Cho et al. 2014)." + FORMS.format("gru"))


# -- single steps ----------------------------------------------------------------------------------


def check_step(input: Any, states: tuple, w_ih: Any, w_hh: Any) -> None:
    rows, features, expected = input._array.shape[0], input._array.shape[1], w_ih._array.shape[1]
    if features != expected:
        raise RuntimeError(f"input has inconsistent input_size: got {features} expected {expected}")
    size = w_hh._array.shape[1]
    for k, h in enumerate(states):
        have, own = h._array.shape[0], h._array.shape[1]
        if rows != have:
            raise RuntimeError(f"Input batch size {rows} doesn't match hidden{k} batch size {have}")
        if own != size:
            raise RuntimeError(
                f"hidden{k} has inconsistent hidden_size: got {own}, expected {size}"
            )


def one_step(
    step: Any, input: Any, states: tuple, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any
) -> tuple:
    """The states after one step: a packed batch of sequences of length 1."""
    check_step(input, states, w_ih, w_hh)
    d, n = input._array.dtype, input._array.shape[0]
    same = n > 0 and input._array.ndim == 2 and only_recorded()  # else perhaps autocast
    for t in (w_ih, w_hh, *states):
        same = same and t._array.dtype is d and t._array.ndim == 2
    if not same:
        return step(linear(input, w_ih, b_ih), states, w_hh, b_hh)
    c = states[1] if step is lstm_step else None
    _, *last = recurrent_layer(input, w_ih, w_hh, b_ih, b_hh, states[0], c, KINDS[step], [n], False)
    return tuple(last[: len(states)])


@public(overridable=True)
def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of Elman's network: tanh(w_ih x + b_ih + w_hh h + b_hh) of input [N, features] and state hx [N,
    hidden]."""
    check_step(input, (hx,), w_ih, w_hh)
    return tanh_step(linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


@public(overridable=True)
def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """As `rnn_tanh_cell` with relu in the place of tanh."""
    check_step(input, (hx,), w_ih, w_hh)
    return relu_step(linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


@public(overridable=True)
def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple:
    """One step of an LSTM: hx is (h, c), so is the result."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    return one_step(lstm_step, input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


@public(overridable=True)
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a GRU: input [N, features], hx [N, hidden]."""
    return one_step(gru_step, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
