"""Recurrent networks and their single steps."""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.text import unusual
from rushlight.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """The base of RNN, LSTM and GRU: parameters per layer and direction, shape checks, packed input.

    Parameters of layer k: `weight_ih_lk` [gates * hidden, input], `weight_hh_lk` [gates * hidden,
    hidden], `bias_ih_lk`, `bias_hh_lk`, with projections `weight_hr_lk`; those of the reverse
    direction end in `_reverse`. All start uniform within 1 / sqrt(hidden_size).
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_settings(dropout)
        directions = 2 if bidirectional else 1
        gates = _GATES[mode] * hidden_size
        state_size = proj_size or hidden_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(directions):
                below = input_size if layer == 0 else state_size * directions
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, below),
                    "weight_hh": (gates, state_size),
                }
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                end = f"_l{layer}" + ("_reverse" if direction else "")
                for name, shape in shapes.items():
                    made = rushlight.empty(shape, device=device, dtype=dtype)
                    setattr(self, name + end, Parameter(made))
                names = [name + end for name in shapes]
                self._flat_weights_names += names
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_settings(self, dropout: Any) -> None:
        """ValueError or TypeError for settings that no recurrent network has."""
        number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not number or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (
            ("input_size", int),
            ("hidden_size", int),
            ("bias", bool),
            ("batch_first", bool),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
        if self.input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, uniform within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """No effect: the parameters need no common memory block here."""

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch keeps the list: its classes need it in what they load
        rest = {k: v for k, v in self.__dict__.items() if k != "_given_weights"}
        return {**rest, "_flat_weights": self._flat_weights}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__({k: v for k, v in saved.items() if k != "_flat_weights"})

    def _apply(self, fn: Callable[[Tensor], Any], recurse: bool = True) -> RNNBase:
        super()._apply(fn, recurse)
        self.__dict__.pop("_given_weights", None)
        return self

    @property
    def _flat_weights(self) -> list[Tensor]:
        """The weights to compute with: the parameters, or a list that was assigned while they were these parameters."""
        own: dict[str, Any] = self._parameters
        names = self._flat_weights_names
        if all(name in own for name in names):  # else a parametrization has moved some elsewhere
            found = [own[name] for name in names]
        else:
            found = [getattr(self, name) for name in names]
        given = self.__dict__.get("_given_weights")
        if given is not None:
            weights, parameters = given
            if all(map(operator.is_, parameters, found)):
                return weights
            del self.__dict__["_given_weights"]
        return found

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        self.__dict__.pop("_given_weights", None)
        self.__dict__["_given_weights"] = weights, self._flat_weights

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def extra_repr(self) -> str:
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        usual |= {"dropout": 0, "bidirectional": False}
        return f"{self.input_size}, {self.hidden_size}" + unusual(self, **usual)

    # What differs for LSTM, whose state is a pair.

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size,)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return (hx,)

    def _checked_states(self, hx: Any, batch: int, batched: bool) -> tuple[Tensor, ...]:
        """The initial states as [layers * directions, batch, size] each."""
        states = self._states(hx)
        expected = 3 if batched else 2
        if any(state.dim() != expected for state in states):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            dims = " and ".join(f"{state.dim()}-D" for state in states)
            raise RuntimeError(
                f"For {kind} input, hx should also be {expected}-D but got {dims} tensor"
            )
        if not batched:
            states = tuple(state.unsqueeze(1) for state in states)
        self._check_states(states, batch)
        return states

    def _expected_sizes(self, batch: int) -> list[tuple[int, int, int]]:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return [(layers, batch, size) for size in self._state_sizes()]

    def _check_states(self, states: tuple[Tensor, ...], batch: int) -> None:
        for i, (state, size) in enumerate(zip(states, self._expected_sizes(batch), strict=True)):
            which = f"hidden[{i}]" if len(states) > 1 else "hidden"
            self.check_hidden_size(state, size, f"Expected {which} size {{}}, got {{}}")

    # What programs that write a forward of their own call.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise where the dtype or the size of an input [T, N, input_size], or of packed data, does not fit."""
        dtype, expected = input.dtype, self._flat_weights[0].dtype
        if dtype != expected:
            raise ValueError(
                f"RNN input dtype ({dtype}) does not match weight dtype ({expected}). Convert "
                f"input: input.to({expected}), or convert model: model.to({dtype})"
            )
        dims = 3 if batch_sizes is None else 2
        if input.dim() != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the state that goes with an input."""
        return self._expected_sizes(self._batch(input, batch_sizes))[0]

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """RuntimeError where a state has another shape."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise where an input, or the state that goes with it, has another shape."""
        self.check_input(input, batch_sizes)
        self._check_states(self._states(hidden), self._batch(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with the sequences of the batch in another order; None: as it is."""
        if permutation is None:
            return hx
        if isinstance(hx, Tensor):
            return hx.index_select(1, permutation)
        return tuple(state.index_select(1, permutation) for state in hx)

    def _batch(self, data: Tensor, batch_sizes: Tensor | None) -> int:
        """The number of sequences."""
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return data.size(0 if self.batch_first else 1)

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        data, batch_sizes, order, undo = input if packed else (input, None, None, None)
        if not packed and input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = packed or input.dim() == 3
        if not batched:
            data = data.unsqueeze(0 if self.batch_first else 1)
        if not packed and not data.size(1 if self.batch_first else 0):
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        weights = self._flat_weights
        self.check_input(data, batch_sizes)
        batch = self._batch(data, batch_sizes) if order is None else order.size(0)
        if hx is None:
            states = tuple(data.new_zeros(size) for size in self._expected_sizes(batch))
        else:  # the batch was sorted when it was packed, so is its state
            states = self.permute_hidden(self._checked_states(hx, batch, batched), order)
        state_arg = states if len(states) > 1 else states[0]
        settings = (weights, self.bias, self.num_layers, self.dropout, self.training)
        run = getattr(rushlight, self.mode.lower())
        if packed:
            results = run(data, batch_sizes, state_arg, *settings, self.bidirectional)
        else:
            results = run(data, state_arg, *settings, self.bidirectional, self.batch_first)
        output, states = results[0], tuple(results[1:])
        if packed:
            output = PackedSequence(output, batch_sizes, order, undo)
            states = self.permute_hidden(states, undo)
        elif not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            states = tuple(state.squeeze(1) for state in states)
        return output, states if len(states) > 1 else states[0]


class RNN(RNNBase):
    """A recurrent network of Elman's cells: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    input: [T, N, input_size] ([N, T, ...] with `batch_first`, [T, ...] without a batch) or packed;
    output: the states of the last layer, and each layer's last state.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter 1997), gates in the order i, f, g, o; state (h, c).

    [T, N, input_size] gives the states of the last layer [T, N, hidden_size] and the last h and c of each [layers, N, hidden_size].
    With `proj_size` the state h is W_hr times that of the cell (Sak 2014).

    >>> import rushlight as torch
    >>> output, (h, c) = torch.nn.LSTM(10, 20, 2)(torch.zeros(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return tuple(hx[k] for k in (0, 1))

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)


class GRU(RNNBase):
    """Gated recurrent unit (Cho 2014), gates in the order r, z, n.

    [T, N, input_size] gives the states of the last layer [T, N, hidden_size] and the last of each [layers, N, hidden_size].
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """The base of the cells: the parameters of one step."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    _names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in shapes.items():
            made = rushlight.empty(shape, device=device, dtype=dtype)
            setattr(self, name, Parameter(made))
        for name in ("bias_ih", "bias_hh"):
            made = rushlight.empty(rows, device=device, dtype=dtype) if bias else None
            self.register_parameter(name, Parameter(made) if bias else None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + unusual(self, bias=True)
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")

    def _step(self, function: str, input: Tensor, states: Any, count: int) -> Any:
        """Run one step; missing states are zero, and input may be without a batch dimension."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        given = () if states is None else tuple(states[:2]) if count > 1 else (states,)
        for i, state in enumerate(given):
            if state.dim() not in (1, 2):
                which = f"hx[{i}]" if count > 1 else "hidden"
                raise ValueError(
                    f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead"
                )
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            given = tuple(state.unsqueeze(0) for state in given)
        if not given:
            given = (input.new_zeros((input.size(0), self.hidden_size)),) * count
        own: dict[str, Any] = self._parameters
        weights = [own[k] if k in own else getattr(self, k) for k in self._names]
        run = getattr(rushlight, function)
        result = run(input, given if count > 1 else given[0], *weights)
        if batched:
            return result
        if count > 1:
            return tuple(state.squeeze(0) for state in result)
        return result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN: input [N, input_size] and state [N, hidden_size] give the next state."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}_cell", input, hx, 1)


class _GatedCell(RNNCellBase):
    _gates = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self._gates, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an LSTM: input [N, input_size] and state (h, c), two tensors [N, hidden_size], give the next (h,
    c).

    >>> import rushlight as torch
    >>> h, c = torch.nn.LSTMCell(10, 20)(torch.randn(3, 10))
    >>> h.shape, c.shape
    (torch.Size([3, 20]), torch.Size([3, 20]))
    """

    _gates = 4

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        return self._step("lstm_cell", input, hx, 2)


class GRUCell(_GatedCell):
    """One step of a GRU: input [N, input_size] and state [N, hidden_size] give the next state.

    >>> import rushlight as torch
    >>> torch.nn.GRUCell(10, 20)(torch.randn(3, 10)).shape
    torch.Size([3, 20])
    """

    _gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru_cell", input, hx, 1)
