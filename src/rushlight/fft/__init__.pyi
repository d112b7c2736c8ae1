"""The functions of `fft`. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
from rushlight.core.tensor import Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]


def fft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """X[k] = Σ x[j] exp(-2πi jk / n) along `dim`, which is cut or filled with zeros to `n`."""
def fft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.fftn` along the last two dimensions."""
def fftfreq(n: _int, d: _float = ..., *, out: Tensor | None = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False) -> Tensor:
    """The frequencies of the elements of `fft.fft` for samples `d` apart: 0, 1, ..., -2, -1 over n d."""
def fftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The transform along several dimensions (default: all, or the last `len(s)`), resized to `s`."""
def fftshift(input: Tensor, dim: _Ints | None = None) -> Tensor:
    """The zero frequency moved to the middle of each dimension."""
def hfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The real spectrum of `n` points of a Hermitian signal, given its first half."""
def hfft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.hfftn` along the last two dimensions."""
def hfftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The real spectrum of a signal that is Hermitian in its last dimension, given half of it."""
def ifft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The inverse of `fft.fft`; the factor of "backward" is 1/n."""
def ifft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.ifftn` along the last two dimensions."""
def ifftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The inverse of `fft.fftn`."""
def ifftshift(input: Tensor, dim: _Ints | None = None) -> Tensor:
    """The inverse of `fft.fftshift`."""
def ihfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The inverse of `fft.hfft`: the first half of the Hermitian signal."""
def ihfft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.ihfftn` along the last two dimensions."""
def ihfftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The inverse of `fft.hfftn`."""
def irfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The real signal of `n` points (default 2 (m - 1)) with this half spectrum of m."""
def irfft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.irfftn` along the last two dimensions."""
def irfftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The inverse of `fft.rfftn`; the last of `s` says how many points the last dimension has."""
def rfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The first n // 2 + 1 elements of the transform of a real signal; the others are conjugates."""
def rfft2(input: Tensor, s: _Ints | None = None, dim: _Ints = ..., norm: _str | None = None, *, out: Any = None) -> Tensor:
    """`fft.rfftn` along the last two dimensions."""
def rfftfreq(n: _int, d: _float = ..., *, out: Tensor | None = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False) -> Tensor:
    """The frequencies of the elements of `fft.rfft` for samples `d` apart."""
def rfftn(input: Tensor, s: _Ints | None = None, dim: _Ints | None = None, norm: _str | None = None, *, out: Any = None) -> Tensor:
    """The transform of real values along several dimensions; half of the last one."""

def __getattr__(name: _str) -> Any: ...
