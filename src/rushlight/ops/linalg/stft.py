"""Short-time Fourier transforms: of windowed pieces of a signal, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import settings
from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, op, public
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.linalg.fft import c2c, c2r, r2c, resized

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


@op(where="internal", name="frames", node="UnfoldBackward0", out=False)
def frames(xp, input: Array, n: int, hop: int):
    """Pieces [..., frame, n] of signals [..., time], `hop` apart."""
    return xp.fft.frames(input, n, hop)


@op(where="internal", name="overlap_add", node="UnfoldBackwardBackward0", out=False)
def overlap_add(xp, input: Array, hop: int, size: int):
    """The signal [..., size] that frames [..., frame, n] add up to, `hop` apart."""
    return xp.fft.overlap_add(input, hop, size)


frames.grad(input=lambda g, hop, input_shape: overlap_add(g, hop, input_shape[-1]))
overlap_add.grad(input=lambda g, hop, input_shape: frames(g, input_shape[-1], hop))


def short_time_window(name, window, n_fft, win_length, like):
    """The window in the middle of n_fft points; ones without one."""
    if window is None:
        dtype = like.dtype.to_real() if like.is_complex() else like.dtype
        window = function("ones")(win_length, dtype=dtype, device=like.device)
    elif window.ndim != 1 or window.shape[0] != win_length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got "
            f"window with size {list(window.shape)}. Invalid window shape. window has to be 1D and "
            "length of `win_length`"
        )
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        window = function("nn.functional.pad")(window, (left, n_fft - win_length - left))
    return window


@public(method=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The transforms of windowed pieces of a signal: [time] or [batch, time] gives [..., freq, frame].

    `n_fft` points a piece, `hop_length` apart (default n_fft // 4); `center` pads the signal by half a
    piece on both sides. `onesided` (default for real signals) keeps the first half of each spectrum.
    `align_to_window`, only without `center`: the window of the first piece, not the piece, begins with
    the signal.
    """
    name = "stft"
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if window is None:
        settings.warn_once(
            "A window was not provided. A rectangular window will be applied,which is known to cause "
            "spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are "
            "recommended to reduce spectral leakage.To suppress this warning and use a rectangular "
            "window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
        )
    if return_complex is None:
        return_complex = input.is_complex() or (window is not None and window.is_complex())
        if not return_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further "
                "require that return_complex=True in a future PyTorch release."
            )
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"{name}: expected a tensor of floating point or complex values, got {input.dtype}"
        )
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected a 1D or 2D tensor, got {input.ndim}D")
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    x = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        x = function("nn.functional.pad")(x.unsqueeze(0), (n_fft // 2, n_fft // 2), pad_mode)
        x = x.squeeze(0)
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"{name}: expected 0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}"
        )
    w = short_time_window(name, window, n_fft, win_length, input)
    if align_to_window and win_length < n_fft:
        left = (n_fft - win_length) // 2
        x = function("nn.functional.pad")(x, (left, n_fft - win_length - left))
    pieces = frames(x, n_fft, hop) * w
    if onesided is None:
        onesided = not pieces.is_complex()
    if onesided and pieces.is_complex():
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    scale = 1 if normalized else 0
    if onesided:
        r = r2c(pieces, (2,), scale)
    else:
        r = c2c(pieces, (2,), scale, False)
    r = r.transpose(1, 2)
    r = r if input.ndim == 2 else r.squeeze(0)
    if return_complex:
        return r
    return function("view_as_real")(r)


@public(method=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is `input` [..., freq, frame]: the pieces' inverse transforms, windowed,
    added up and divided by the sum of the squared windows."""
    name = f"istft({list(input.shape)}, n_fft={n_fft}, hop_length={hop_length})"
    if window is None:
        settings.warn_once(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by stft to "
            "make the inversion lossless.To suppress this warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`."
        )
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if not input.numel():
        raise RuntimeError(f"{name}: input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"{name}: expected a tensor with 2 or 3 dimensions, but got {input.ndim}"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    x = input if input.ndim == 3 else input.unsqueeze(0)
    points, count = x.shape[1:]
    if onesided is None:
        onesided = points != n_fft
    if points != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"{name}: expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft{' / 2 + 1' if onesided else ''} when onesided={onesided}, but got {points}"
        )
    if not 0 < hop <= win_length:
        raise RuntimeError(f"{name}: expected 0 < hop_length <= win_length, got {hop}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, got {win_length}")
    if onesided and (return_complex or (window is not None and window.is_complex())):
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    w = short_time_window(name, window, n_fft, win_length, input)
    x = x.transpose(1, 2)
    scale = 1 if normalized else 2
    if return_complex:
        pieces = c2c(x, (2,), scale, True)
    else:  # of a full spectrum, too, only the first half is read
        pieces = c2r(x[..., : n_fft // 2 + 1], (2,), scale, n_fft)
    total = n_fft + hop * (count - 1)
    signal = overlap_add(pieces * w, hop, total)
    weight = overlap_add((w * w).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else total - (n_fft // 2 if center else 0)
    signal, weight = signal[:, start:stop], weight[:, start:stop]
    if weight.numel() and somewhere(weight.detach().abs() <= 1e-11):
        raise RuntimeError(f"{name} window overlap add min: 1: the windows do not cover the signal")
    signal = signal / weight
    if length is not None and signal.shape[-1] < length:
        settings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the "
            "tail. Please check your center and hop_length settings."
        )
        signal = resized(signal, (signal.shape[0], length))
    return signal if input.ndim == 3 else signal.squeeze(0)
