"""The engine of PyTorch's CPU generator, MT19937, with its state in memory that machine code reads and writes.

M. Matsumoto and T. Nishimura, Mersenne Twister: A 623-dimensionally equidistributed uniform pseudorandom number
generator, 1998; the seeding is theirs of 2002. NumPy has the same engine, but `numpy.random` takes 13 ms to import.

>>> engine = MersenneTwister(5489)
>>> engine.words(3).tolist()
[3499211612, 581869302, 3890346734]
"""

from __future__ import annotations

from _thread import allocate_lock

import numpy as np

from rushlight._backends import cpu as xp

N, MIDDLE = 624, 397  # words of the state, and the distance of those that are mixed
UPPER, LOWER, MIXED = np.uint32(1 << 31), np.uint32((1 << 31) - 1), np.uint32(0x9908B0DF)


class MersenneTwister:
    """The state: `memory`, uint32 [625], 624 words and the number of those that were drawn. Seeded by 32 bits."""

    __slots__ = ("address", "key", "lock", "memory")

    def __init__(self, seed: int) -> None:
        self.memory = np.empty(N + 1, np.uint32)
        self.key = self.memory[:N]
        self.address = self.memory.__array_interface__["data"][0]
        self.lock = allocate_lock()  # for who draws
        xp.random_seeded(self.key, seed & 0xFFFFFFFF)
        self.position = N

    @property
    def position(self) -> int:
        """How many words of the state were drawn; at 624 the next draw makes new ones."""
        return int(self.memory[N])

    @position.setter
    def position(self, value: int) -> None:
        self.memory[N] = value

    def words(self, n: int) -> np.ndarray:
        """The next `n` words of 32 bits, as uint64 [n]."""
        out = np.empty(n, np.uint64)
        with self.lock:
            at = 0
            while at < n:
                if self.position == N:
                    self._renew()
                start = self.position
                stop = min(N, start + n - at)
                out[at : at + stop - start] = _tempered(self.key[start:stop])
                at += stop - start
                self.position = stop
        return out

    def _renew(self) -> None:
        """Make the next 624 words: each of itself, the next and one further on, which may be new already."""
        key = self.key
        for start, stop in (
            (0, N - MIDDLE),
            (N - MIDDLE, 2 * (N - MIDDLE)),
            (2 * (N - MIDDLE), N - 1),
        ):
            _mix(
                key[start:stop],
                key[start + 1 : stop + 1],
                key[start + MIDDLE - (N if start else 0) :],
            )
        _mix(key[N - 1 :], key[:1], key[MIDDLE - 1 :])
        self.position = 0


def _mix(words: np.ndarray, following: np.ndarray, further: np.ndarray) -> None:
    y = (words & UPPER) | (following & LOWER)
    words[:] = further[: len(words)] ^ (y >> np.uint32(1)) ^ (y & np.uint32(1)) * MIXED


def _tempered(words: np.ndarray) -> np.ndarray:
    y = words ^ (words >> np.uint32(11))
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    return y ^ (y >> np.uint32(18))
