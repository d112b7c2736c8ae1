"""`Generator`: the source of random numbers, bit for bit PyTorch's CPU generator.

It is a Mersenne Twister (`mersenne_twister.py`). `numpy.random.seed(5)` of NumPy's legacy interface and `manual_seed(5)` of
Rushlight and PyTorch start the same stream. `sampling` makes the distributions (uniform, normal, ...) from the stream.

>>> Generator().manual_seed(0).words(3).tolist()
[2357136044, 2546248239, 3071714933]
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core.device import CPU
from rushlight.core.device import device as Device
from rushlight.rng.mersenne_twister import MersenneTwister
from rushlight.rng.mersenne_twister import N as _N

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor

# The largest prime factor of 2**128 + 1: what a new generator starts from in PyTorch.
DEFAULT_SEED = 67280421310721

# PyTorch's state, as `get_state` hands it out: 5056 bytes, the words of the twister widened to 64 bits.
STATE_BYTES = 5056
_STATE = np.dtype(
    {
        "names": [
            "seed",
            "left",
            "seeded",
            "next",
            "words",
            "x",
            "y",
            "rho",
            "y_valid",
            "z",
            "z_valid",
        ],
        "formats": [
            "<u8",
            "<i4",
            "<i4",
            "<u8",
            ("<u8", _N),
            "<f8",
            "<f8",
            "<f8",
            "<i4",
            "<f4",
            "u1",
        ],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5032, 5040, 5048, 5052],
        "itemsize": STATE_BYTES,
    }
)

# Each is called with a generator before it draws: `func.vmap` forbids some draws.
before_draw: list[Callable[[Generator], None]] = []


class Generator:
    """A stream of random numbers with its own state: `Generator("cpu")`.

    It starts from PyTorch's default seed. Copies (`copy`, `pickle`, `clone_state`) continue with the same numbers,
    independently. RuntimeError for a device that Rushlight has no generator for.
    """

    __slots__ = (
        "__weakref__",
        "_engine",
        "_native_state",
        "_seed",
        "_started",
        "device",
        "spare_float",
        "spare_pair",
    )

    device: Device
    spare_pair: np.ndarray  # `spare` and whether there is one, float64 [2]: machine code reads it
    spare_float: float | None  # in float32: part of the saved state, never used on a CPU
    _engine: Any
    _native_state: tuple[Callable, Callable, int] | None

    def __init__(self, device: Device | str = "cpu") -> None:
        self.device = CPU if device == "cpu" else Device(device)
        self.spare_pair = np.zeros(2)
        if self.device.type != "cpu":
            raise RuntimeError(
                f"Cannot get a generator for device type {self.device.type!r}: Rushlight has CPU generators only"
            )
        self._start(DEFAULT_SEED)

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self.device), self.state_bytes())

    def _start(self, seed: int) -> None:
        """The state right after seeding. The engine is made at the first draw, so that seeding costs nothing."""
        self._seed = seed
        self._engine = None
        self._native_state = None
        self._started = False
        self.spare = None
        self.spare_float = None

    @property
    def spare(self) -> float | None:
        """The second number of the last pair of normal numbers that were drawn one by one: the next one."""
        value, there = self.spare_pair.tolist()
        return value if there else None

    @spare.setter
    def spare(self, value: float | None) -> None:
        self.spare_pair[:] = (0.0, 0.0) if value is None else (value, 1.0)

    # -------------------------------------------------------------------------------------------------- seeds

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, an integer in [-2**63, 2**64); negative ones count from 2**64. Returns itself.

        The stream depends on the low 32 bits, `initial_seed()` gives all of them. ValueError out of that range.
        """
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(
                f"Overflow when unpacking long long: manual_seed wants a seed in [-2**63, 2**64), got {seed}"
            )
        self._start(seed % (1 << 64))
        return self

    def seed(self) -> int:
        """Start a stream from a random seed of the operating system, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._start(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that this stream was started from."""
        return self._seed

    def get_offset(self) -> int:
        """RuntimeError: only generators of accelerators count their draws."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """RuntimeError: only generators of accelerators count their draws."""
        raise RuntimeError("CPU Generator does not use offset")

    # ------------------------------------------------------------------------------------------------- states

    def state_bytes(self) -> np.ndarray:
        """The whole state as uint8 [5056], in the layout of PyTorch's `get_state()`: either reads the other's."""
        state = np.zeros((), _STATE)
        if self._engine is None:
            self._make_engine()
        position = self._engine.position
        state["seed"], state["seeded"], state["words"] = self._seed, 1, self._engine.key
        state["left"], state["next"] = (_N + 1 - position, position) if self._started else (1, 0)
        if self.spare is not None:
            state["y"], state["y_valid"] = self.spare, 1
        if self.spare_float is not None:
            state["z"], state["z_valid"] = self.spare_float, 1
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def load_state_bytes(self, state: np.ndarray) -> Generator:
        """Take over a state of `state_bytes()` or of PyTorch's `get_state()`: uint8 [5056]. Returns itself.

        TypeError for another dtype, RuntimeError for another size or contents no generator can have.
        """
        if state.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, got {state.dtype}")
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {state.size}"
            )
        read = np.frombuffer(state.tobytes(), _STATE)[0]
        left, position = int(read["left"]), int(read["next"])
        # With left == 1 the next draw makes 624 new words, wherever `next` points: 0 after seeding, 624 after draws.
        whole = (left == 1 and position <= _N) or (left > 1 and left + position == _N + 1)
        if not (whole and read["seeded"] == 1):
            raise RuntimeError(
                f"Invalid mt19937 state: left={left}, next={position}, seeded={int(read['seeded'])}"
            )
        self._start(int(read["seed"]))
        self._make_engine()
        self._started = position != 0
        self._engine.key[:] = read["words"]
        self._engine.position = _N + 1 - left
        self.spare = float(read["y"]) if read["y_valid"] else None
        self.spare_float = float(read["z"]) if read["z_valid"] else None
        return self

    def get_state(self) -> Tensor:
        """The whole state as a tensor, uint8 [5056]; PyTorch's `set_state` reads it too."""
        from rushlight.core.tensor import _wrap

        return _wrap(self.state_bytes())

    def set_state(self, new_state: Tensor) -> Generator:
        """Take over a state of `get_state()`, Rushlight's or PyTorch's. Returns itself."""
        array = getattr(new_state, "_array", None)
        if array is None:
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        return self.load_state_bytes(array)

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Take over the state of another generator. Returns itself."""
        return self.load_state_bytes(state.state_bytes())

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        return _restored(str(self.device), self.state_bytes())

    graphsafe_get_state = clone_state

    def _make_engine(self) -> None:
        self._engine = MersenneTwister(self._seed)

    # -------------------------------------------------------------------------------------------------- draws

    def engine(self) -> MersenneTwister:
        """What makes the words, to draw from directly."""
        self._begin()
        return self._engine

    def _begin(self) -> None:
        """Call the hooks of `before_draw`, and make the engine if there is none."""
        for hook in before_draw:
            hook(self)
        if self._engine is None:
            self._make_engine()
        self._started = True

    def native_state(self) -> tuple[Callable, Callable, int]:
        """For machine code that draws: what takes and what releases the lock, the address of the engine's state."""
        if before_draw or self._native_state is None:
            self._begin()
            lock = self._engine.lock
            self._native_state = lock.acquire, lock.release, self._engine.address
        self._started = True
        return self._native_state

    def words(self, n: int) -> np.ndarray:
        """The next `n` words of 32 bits, as uint64 [n]."""
        return xp.random_words(self, n) if n else np.empty(0, np.uint64)

    def wide_words(self, n: int) -> np.ndarray:
        """The next `n` words of 64 bits, each made of two of 32 bits, the high one first, as uint64 [n]."""
        return xp.random_wide_words(self, n)

    def doubles(self, n: int, out: np.ndarray | None = None) -> np.ndarray:
        """The next `n` numbers in [0, 1), float64 [n]: the low 53 bits of 64, times 2**-53; into `out` where given."""
        if out is None:
            out = np.empty(n)
        xp.random_doubles(self, out)
        return out

    def floats(self, n: int, out: np.ndarray | None = None) -> np.ndarray:
        """The next `n` numbers in [0, 1), float32 [n]: the low 24 bits of 32, times 2**-24; into `out` where given."""
        if out is None:
            out = np.empty(n, np.float32)
        xp.random_floats(self, out)
        return out

    def position(self) -> Any:
        """The position in the stream, for `go_back`."""
        if self._engine is None:
            self._make_engine()
        return self._engine.memory.copy(), self._started

    def go_back(self, position: Any) -> None:
        """Go back to a `position()` of this generator. `spare` does not change."""
        self._engine.memory[:], self._started = position


def _restored(device: str, state: np.ndarray) -> Generator:
    """A generator in a saved state: pickles and copies call this."""
    return Generator(device).load_state_bytes(state)


default_generator = Generator()
default_generator.seed()  # other numbers in every process, until the program says `manual_seed`
