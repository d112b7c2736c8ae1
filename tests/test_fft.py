"""Fourier transforms, short-time transforms and windows, against NumPy and against formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight._backends import llvm
from rushlight._backends.reference import fft as reference

INF = float("inf")
NORMS = [None, "backward", "ortho", "forward"]


def array(*shape, seed=0, dtype=np.float64):
    r = np.random.RandomState(seed)
    a = r.randn(*shape)
    return np.asarray(a + 1j * r.randn(*shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def close(got, want):
    got = got.detach().numpy()
    assert got.shape == want.shape
    single = got.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(
        got, want, rtol=1e-4 if single else 1e-9, atol=1e-5 if single else 1e-9
    )


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 4, 7])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dimension(name, dim, n, norm):
    for dtype in (np.float32, np.float64) + (
        () if name in ("rfft", "ihfft") else (np.complex64, np.complex128)
    ):
        a = array(5, 6, dtype=dtype)
        want = getattr(np.fft, name)(a, n, dim, norm)
        got = getattr(torch.fft, name)(torch.tensor(a), n, dim, norm)
        assert got.dtype.itemsize == want.dtype.itemsize
        close(got, want)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "dim"),
    [(None, None), (None, (0, 2)), ((4, 3), None), ((2, 5), (2, 0)), ((3, -1), (0, 1))],
    ids=str,
)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions(name, s, dim, norm):
    a = array(3, 4, 5, dtype=np.float64 if name == "rfftn" else np.complex128)
    if s is not None and dim is None:
        axes = tuple(range(3 - len(s), 3))
    else:
        axes = dim or (0, 1, 2)
    sizes = s
    if s is not None and -1 in s:
        last = 2 * (a.shape[axes[-1]] - 1) if name == "irfftn" else a.shape[axes[-1]]
        sizes = (*s[:-1], last)
    want = getattr(np.fft, name)(a, sizes, axes, norm)
    close(getattr(torch.fft, name)(torch.tensor(a), s, dim, norm), want)
    if s is None and dim is None:
        two = getattr(torch.fft, name[:-1] + "2")(torch.tensor(a), norm=norm)
        close(two, getattr(np.fft, name)(a, None, (-2, -1), norm))


def test_hermitian_transforms_invert_each_other():
    a = torch.tensor(array(3, 4, 6))
    for dim in (None, (0, 2), (2, 1)):
        sizes = a.shape if dim is None else [a.shape[d] for d in dim]
        close(torch.fft.hfftn(torch.fft.ihfftn(a, dim=dim), s=sizes, dim=dim), a.numpy())


def test_integers_become_floating_and_half_is_an_error():
    assert torch.fft.fft(torch.arange(4)).dtype is torch.complex64
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        torch.fft.fft(torch.ones(4, dtype=torch.float16))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: torch.fft.fft(torch.ones(3), n=0),
            RuntimeError,
            r"Invalid number of data points \(0\)",
        ),
        (
            lambda: torch.fft.fft(torch.ones(3), norm="x"),
            RuntimeError,
            'Invalid normalization mode: "x"',
        ),
        (lambda: torch.fft.fft(torch.tensor(1.0)), IndexError, "tensor has no dimensions"),
        (
            lambda: torch.fft.rfft(torch.ones(3) * 1j),
            RuntimeError,
            "rfft expects a real input tensor",
        ),
        (
            lambda: torch.fft.fftn(torch.ones(2, 2), dim=(0, 0)),
            RuntimeError,
            "FFT dims must be unique",
        ),
        (lambda: torch.fft.fftn(torch.ones(2), s=(2, 2)), RuntimeError, "only has 1 dimensions"),
        (
            lambda: torch.stft(torch.ones(9), 4),
            RuntimeError,
            "requires the return_complex parameter",
        ),
        (lambda: torch.istft(torch.ones(3, 2), 4), RuntimeError, "requires a complex-valued input"),
        (lambda: torch.hann_window(-1), RuntimeError, "non-negative window_length"),
        (lambda: torch.signal.windows.hann(-1), ValueError, "non-negative window length, got M=-1"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.fft.fft(x, 7),
        lambda x: torch.fft.ifft(x, 3, norm="ortho"),
        lambda x: torch.fft.rfft(x.real, 5),
        lambda x: torch.fft.irfft(x, 6),
        lambda x: torch.fft.irfft(x, 7, 0),
        lambda x: torch.fft.hfft(x),
        lambda x: torch.fft.ihfft(x.real),
        lambda x: torch.fft.irfftn(x, (5, 4)),
        lambda x: torch.fft.rfft2(x.real),
        lambda x: torch.fft.hfftn(x),
        lambda x: torch.stft(
            x.real, 3, 2, window=torch.hann_window(3, dtype=torch.float64), return_complex=True
        ),
    ],
)
def test_gradients(f):
    a = array(4, 5, dtype=np.complex128)
    x = torch.tensor(a).requires_grad_()
    y = f(x)
    w = array(*y.shape, seed=1, dtype=y.detach().numpy().dtype)
    y.backward(torch.tensor(w))
    for at in [(0, 0), (1, 2), (3, 4), (2, 3)]:
        for unit in (1, 1j):
            moved = a.copy()
            moved[at] += 1e-6 * unit
            change = (f(torch.tensor(moved)) - f(torch.tensor(a))).numpy() / 1e-6
            slope = (np.conj(w) * change).sum().real
            g = x.grad.numpy()[at]
            assert abs(slope - (g.real if unit == 1 else g.imag)) < 1e-5


def test_frequencies_and_shifts():
    for n in (0, 1, 4, 5):
        if n:
            close(torch.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
            close(torch.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
        a = array(n, 3)
        for dim in (None, 0, (1,)):
            close(torch.fft.fftshift(torch.tensor(a), dim), np.fft.fftshift(a, dim))
            close(torch.fft.ifftshift(torch.tensor(a), dim), np.fft.ifftshift(a, dim))


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_istft_inverts_stft(onesided, normalized):
    x = torch.tensor(array(2, 40))
    w = torch.hann_window(6, dtype=torch.float64)
    options = {
        "hop_length": 2,
        "win_length": 6,
        "window": w,
        "onesided": onesided,
        "normalized": normalized,
    }
    spectrum = torch.stft(x, 8, return_complex=True, **options)
    assert spectrum.shape == (2, 5 if onesided else 8, 21)
    close(torch.istft(spectrum, 8, length=40, **options), x.numpy())


def test_stft_is_the_transform_of_each_piece():
    x, w = array(20), array(6, seed=1)
    want = np.stack([np.fft.rfft(x[i : i + 6] * w) for i in range(0, 15, 3)], 1)
    got = torch.stft(
        torch.tensor(x), 6, 3, window=torch.tensor(w), center=False, return_complex=True
    )
    close(got, want)


WINDOWS = {
    "bartlett": np.bartlett,
    "blackman": np.blackman,
    "hamming": np.hamming,
    "hann": np.hanning,
    "kaiser": lambda m: np.kaiser(m, 12.0),
}


@pytest.mark.parametrize("m", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, m):
    want = WINDOWS[name]
    modern = getattr(torch.signal.windows, name)
    elder = getattr(torch, name + "_window")
    close(modern(m, dtype=torch.float64), want(m))
    close(elder(m, periodic=False, dtype=torch.float64), want(m))
    if m > 1:
        close(modern(m, sym=False, dtype=torch.float64), want(m + 1)[:-1])
        close(elder(m, dtype=torch.float64), want(m + 1)[:-1])
    assert modern(m).dtype is torch.float32


def test_other_windows():
    k = np.arange(5)
    f64 = torch.float64
    close(torch.signal.windows.cosine(5, dtype=f64), np.sin(np.pi * (k + 0.5) / 5))
    close(torch.signal.windows.gaussian(5, std=2, dtype=f64), np.exp(-((k - 2) ** 2) / 8))
    close(torch.signal.windows.exponential(5, tau=2, dtype=f64), np.exp(-abs(k - 2) / 2))
    close(torch.signal.windows.general_cosine(5, a=[1.0], dtype=f64), np.ones(5))
    assert torch.signal.windows.nuttall(5, requires_grad=True).requires_grad


def test_stft_aligned_to_the_window():
    x, w = torch.arange(32.0), torch.ones(4)
    r = torch.stft(
        x, 8, 4, 4, window=w, center=False, return_complex=True, align_to_window=True
    )  # fmt: skip
    assert r.shape == (5, 8)
    assert torch.allclose(r[0].real, x.reshape(8, 4).sum(1))
    assert torch.stft(x, 8, 4, 4, window=w, center=False, return_complex=True).shape == (5, 7)
    with pytest.raises(
        RuntimeError, match="align_to_window should only be set when center = false"
    ):
        torch.stft(x, 8, return_complex=True, align_to_window=False)


def test_stft_without_a_window_warns_once():
    x = torch.rand(40)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="A window was not provided"):
            torch.stft(x, 8, return_complex=True)
    finally:
        torch.set_warn_always(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.stft(x, 8, return_complex=True)
        torch.stft(x, 8, window=torch.ones(8), return_complex=True)


def test_one_dimension_may_be_an_int():
    x = torch.arange(6.0).reshape(2, 3)
    back = torch.fft.irfftn(torch.fft.rfftn(x, s=3, dim=1), s=3, dim=1)
    assert back.shape == (2, 3) and (back - x).abs().max() < 1e-5


def test_a_plain_call_takes_the_printed_path(monkeypatch):
    from rushlight.dispatch import general

    x = torch.ones(4, dtype=torch.complex64)
    torch.fft.fft(x)
    monkeypatch.setattr(general, "intercept", None)  # the general way begins with it
    torch.fft.fft(x)
    torch.fft.irfft(torch.fft.rfft(x.real.contiguous()))


@pytest.mark.parametrize("inverse", [False, True])
def test_real_signals_have_both_halves(inverse):
    name = "ifft" if inverse else "fft"
    for n in (1, 2, 5, 6):
        a = array(3, n, 4)
        close(getattr(torch.fft, name)(torch.tensor(a), dim=1), getattr(np.fft, name)(a, axis=1))


LONG = [2**k for k in (*range(6, 16), 17)]  # powers of two have a compiled kernel
LONG = [2**k for k in range(6, 15)]  # powers of two have a compiled kernel


def near(got, want, share):
    """Errors of a transform are in proportion to its largest number."""
    assert got.shape == want.shape
    assert abs(got - want).max() <= share * abs(want).max()


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", LONG)
def test_powers_of_two(n, single):
    llvm.activate("for a test")
    close = lambda got, want: near(got.numpy(), want, 1e-6 if single else 1e-14)
    a = array(3, n, dtype=np.complex64 if single else np.complex128)
    half = array(
        3, n // 2 + 1, dtype=a.dtype, seed=1
    )  # its first and last imaginary parts are left out
    x = torch.tensor(a)
    for norm in NORMS:
        for name in ("fft", "ifft", "hfft"):
            given = half if name == "hfft" else a
            close(
                getattr(torch.fft, name)(torch.tensor(given), norm=norm),
                getattr(np.fft, name)(given.astype(complex), norm=norm),
            )
        close(torch.fft.rfft(x.real, norm=norm), np.fft.rfft(a.real.astype(float), norm=norm))
        close(
            torch.fft.irfft(torch.tensor(half), norm=norm),
            np.fft.irfft(half.astype(complex), norm=norm),
        )
    across = x.t()
    close(torch.fft.fft(across, dim=0), np.fft.fft(a.T.astype(complex), axis=0))
    close(torch.fft.rfft(across.real, dim=0), np.fft.rfft(a.T.real.astype(float), axis=0))
    close(torch.fft.irfft(across, n, 0), np.fft.irfft(a.T.astype(complex), n, 0))


@pytest.mark.parametrize("n", LONG)
def test_an_impulse_has_an_exact_spectrum(n):
    llvm.activate("for a test")
    x = torch.zeros(2, n, dtype=torch.float64)
    x[:, 0] = 1
    assert torch.equal(torch.fft.rfft(x), torch.ones(2, n // 2 + 1, dtype=torch.complex128))
    assert torch.equal(torch.fft.irfft(torch.fft.rfft(x)), x)
    x = torch.zeros(n, dtype=torch.complex128)
    x[n // 4] = 1
    quarter = torch.fft.ifft(x, norm="forward")
    assert torch.equal(quarter, torch.tensor([1, 1j, -1, -1j] * (n // 4), dtype=torch.complex128))


def test_long_lines_of_powers_of_two_are_not_left_to_numpy(monkeypatch):
    if not llvm.activate("for a test"):
        pytest.skip("the reference computes")
    monkeypatch.setattr(reference, "transform_lines", None)
    x = torch.tensor(array(2, 1 << 15, dtype=np.complex64))
    near(torch.fft.ifft(torch.fft.fft(x)).numpy(), x.numpy(), 1e-6)


def test_numbers_that_are_not_finite_stay_in_their_row():
    llvm.activate("for a test")
    x = torch.ones(3, 1024)
    x[0, 5] = float("nan")
    r = torch.fft.rfft(x)
    assert r[0].isnan().all() and r[1:].isfinite().all()
    assert r.imag[:, [0, -1]].eq(0).all()  # a sum of real numbers is real


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n", [16, 18, 30, 49, 64, 70, 100, 243, 400, 1000, 1024])
def test_many_lines(n, single):
    llvm.activate("for a test")
    close = lambda got, want: near(got.numpy(), want, 1e-6 if single else 1e-14)
    a = array(37, n, dtype=np.complex64 if single else np.complex128)
    x, wide = torch.tensor(a), a.astype(complex)
    for name in ("fft", "ifft", "hfft", "irfft"):
        if n % 2 == 0 or name in ("fft", "ifft"):
            given = n // 2 + 1 if name in ("hfft", "irfft") else n
            close(getattr(torch.fft, name)(x[:, :given]), getattr(np.fft, name)(wide[:, :given]))
    close(torch.fft.rfft(x.real), np.fft.rfft(wide.real))
    between = np.ascontiguousarray(a.reshape(1, 37, n).transpose(0, 2, 1)).repeat(2, 0)
    close(torch.fft.fft(torch.tensor(between), dim=1), np.fft.fft(between.astype(complex), axis=1))
    close(
        torch.fft.ifft(torch.tensor(between), dim=1), np.fft.ifft(between.astype(complex), axis=1)
    )
    close(torch.fft.fft2(torch.tensor(between)), np.fft.fft2(between.astype(complex)))


@pytest.mark.parametrize("n", [16, 48, 400, 1024])
def test_lines_side_by_side_do_not_know_of_each_other(n):
    llvm.activate("for a test")
    lines = 19 if n > 64 else 400
    x = torch.zeros(lines, n)
    x[:, 0] = 1
    x[3, 5], x[12, 1] = float("nan"), float("inf")
    r = torch.fft.rfft(x)
    others = [k for k in range(lines) if k not in (3, 12)]
    assert torch.equal(r[others], torch.ones(lines - 2, n // 2 + 1, dtype=torch.complex64))
    assert r[3].isnan().all() and not r[12].isfinite().any()
    assert torch.allclose(torch.fft.irfft(r, n)[others], x[others], atol=1e-6)
    assert torch.equal(
        torch.fft.fft(x + 0j)[others], torch.ones(lines - 2, n, dtype=torch.complex64)
    )


@pytest.mark.parametrize("dims", [(0,), (1,), (-1,), (0, 1), (1, 0), (-1, 0), (1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_a_few_points_of_any_array(dtype, dims):
    llvm.activate()
    whole = array(7, 5, 6, dtype=dtype)
    for a in (whole, whole[::-1, ::2], whole.transpose(2, 0, 1), whole[:, :1], whole[1:2, 1:, 2:]):
        x = torch.from_numpy(a.copy("K")) if min(a.strides) < 0 else torch.from_numpy(a)
        for norm in (None, "ortho"):
            close(torch.fft.fftn(x, None, dims, norm), np.fft.fftn(a, None, dims, norm))
            close(torch.fft.ifftn(x, None, dims, norm), np.fft.ifftn(a, None, dims, norm))
            s = [5] * len(dims)  # cut or filled
            close(torch.fft.irfftn(x, s, dims, norm), np.fft.irfftn(a, s, dims, norm))
            if np.dtype(dtype).kind != "c":
                close(torch.fft.rfftn(x, None, dims, norm), np.fft.rfftn(a, None, dims, norm))


def test_an_infinite_number_among_few_points():
    llvm.activate()
    for name, want in (("fft", [INF]), ("rfft", [INF]), ("ihfft", [INF]), ("ifft", [INF])):
        got = getattr(torch.fft, name)(torch.tensor([INF]))
        assert got.real.tolist() == want, name
        assert got.imag.tolist() == [0.0], name
    x = torch.tensor([INF, 1.0, 2.0, 3.0])
    assert torch.fft.fft(x).real.tolist() == [INF] * 4
    assert torch.fft.irfft(torch.tensor([INF, 1.0])).tolist() == [INF, INF]


def test_a_cut_line_is_differentiated_where_it_was():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    torch.fft.fft(x, 3).real.sum().backward()
    want = torch.zeros(3, 4)
    want[:, 0] = 3
    torch.testing.assert_close(x.grad, want)
    y = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: torch.fft.irfft(y, 4), y)
    assert torch.autograd.gradgradcheck(lambda y: torch.fft.hfft(y, 3), y)


def test_warnings_of_lengths():
    out = torch.empty(())
    with pytest.warns(UserWarning, match="out tensor will be resized"):
        torch.fft.fftfreq(4, out=out)
    assert out.shape == (4,)
    spectrum = torch.stft(
        torch.ones(20), 3, 2, center=False, return_complex=True, window=torch.ones(3)
    )
    with pytest.warns(UserWarning, match="length of signal is shorter than the length parameter"):
        padded = torch.istft(spectrum, 3, 2, center=False, length=20, window=torch.ones(3))
    assert padded.shape == (20,) and padded[-1] == 0
