"""Rows of special functions, Fourier transforms and windows."""

from __future__ import annotations

import math

import numpy as np

from opdb_rows import SPECIAL, C, K, N, P, U, c, fixed, row, scipy, unary, v

S = "special."
U01 = U(0.1, 0.9)


def polynomial(name):
    """Orthogonal polynomials by SciPy's name; the degree is the second tensor."""
    return lambda x, n: scipy("special.eval_" + name)(np.asarray(n).astype(int), x)


def chebyshev(first, shifted=False):
    """V_n and W_n by their recurrence: P_0 = 1, P_1 = `first`, P_n+1 = 2 x P_n - P_n-1."""

    def reference(x, n):
        x = np.asarray(2 * x - 1 if shifted else x)
        found = [np.ones_like(x), first(x)]
        for _ in range(9):
            found.append(2 * x * found[-1] - found[-2])
        return np.choose(np.broadcast_to(np.asarray(n).astype(int), x.shape), found)

    return reference


def V1(x):
    return 2 * x - 1


def W1(x):
    return 2 * x + 1


def orthogonal(name, ref, domain=U(-0.9, 0.9)):
    cases = [
        v(domain(3, 4), K(np.arange(4))),
        v(domain(5), 6),
        v(domain(), K(3)),
        v(U(1, 1.5)(4), 7),
    ]
    cases += [v(K([1.0, -1.0, 0.0]), 5)]
    return row(S + name, ref, *cases, order=0, tol=1e-8, tol32=1e-3)


def special1(name, path, domain=N, special=None, **options):
    """A special function of one tensor that is SciPy's."""
    return unary(
        name, scipy(path), domain, special=special, **({"half": False, "tol": 1e-8} | options)
    )


def bessel(name, path, domain=N, **options):
    return special1(S + name, path, domain, order=0, tol32=1e-3, **options)


# -- Fourier transforms -----------------------------------------------------------------------------


def one(f):
    return lambda x, n=None, dim=-1, norm=None: f(x, n, dim, norm)


def many(f, dims=None):
    def reference(x, s=None, dim=dims, norm=None):
        if dim is None and s is not None:
            dim = tuple(range(-len(s), 0))
        return f(x, s, dim, norm)

    return reference


def sfft(name):
    def reference(*args):
        return scipy("fft." + name)(*args)

    return reference


FFT = np.fft
REAL1 = [
    c(N(5)),
    c(N(3, 4), 6),
    c(N(3, 4), 3, 0),
    c(N(3, 4), norm="ortho"),
    c(N(4), norm="forward"),
]
BOTH1 = [c(C(5)), c(C(3, 4), 6), c(C(3, 4), 2, 0), c(C(3, 4), norm="ortho"), c(N(4))]
BACK1 = [c(C(3)), c(C(3, 4), 6), c(C(3, 4), 5, 0), c(C(4), norm="ortho")]
REALN = [c(N(3, 4)), c(N(2, 3, 4), norm="ortho"), c(N(3, 4), (2, 6)), c(N(3, 4), None, (0, 1))]
BOTHN = [
    c(C(3, 4)),
    c(C(2, 3, 4), norm="ortho"),
    c(C(3, 4), (2, 6)),
    c(C(3, 4), None, (0, 1)),
    c(N(2, 2)),
]
BACKN = [c(C(3, 4)), c(C(2, 3, 4), norm="ortho"), c(C(3, 4), (2, 6)), c(C(3, 4), None, (1, 0))]


def shift(f):
    return lambda x, dim=None: f(x, dim)


def stft(
    x,
    n_fft,
    hop_length=None,
    window=None,
    center=True,
    return_complex=True,
    normalized=False,
    onesided=True,
):
    hop = hop_length or n_fft // 4
    x = np.pad(x, n_fft // 2, mode="reflect") if center else x
    w = np.ones(n_fft) if window is None else window
    frames = [x[i : i + n_fft] * w for i in range(0, len(x) - n_fft + 1, hop)]
    f = (FFT.rfft if onesided else FFT.fft)(np.stack(frames)).T
    return f / np.sqrt(n_fft) if normalized else f


def istft(f, n_fft, hop_length=None, window=None):
    """Overlap-add of what the frames become, divided by the overlapped squares of the window."""
    hop = hop_length or n_fft // 4
    w = np.ones(n_fft) if window is None else window
    frames = FFT.irfft(f.T, n_fft) * w
    size = n_fft + hop * (len(frames) - 1)
    out, weight = np.zeros(size), np.zeros(size)
    for i, frame in enumerate(frames):
        out[i * hop : i * hop + n_fft] += frame
        weight[i * hop : i * hop + n_fft] += w**2
    half = n_fft // 2
    return (out / np.where(weight == 0, 1, weight))[half : size - half]


# -- windows: float32 is the default, so the cases ask for float64 ------------------------------------


def window(name, *args):
    """`torch.hann_window` and its like: periodic unless asked otherwise; SciPy's get_window."""

    def reference(n, periodic=True, *more, dtype=None, **kw):
        return scipy("signal.get_window")(
            (name, *more, *kw.values()) if more or kw or args else name, n, fftbins=periodic
        )

    return reference


def torch_dtype(name="float64"):
    import rushlight

    return getattr(rushlight, name)


F64 = torch_dtype()


def signal(name, **renamed):
    def reference(n, sym=True, dtype=None, **kw):
        kw = {renamed.get(k, k): a for k, a in kw.items()}
        return scipy("signal.windows." + name)(n, sym=sym, **kw)

    return reference


def windows(name, ref, *more):
    cases = [v(7, dtype=F64), v(8, False, dtype=F64), v(1, dtype=F64), *more]
    return row(name, ref, *cases, order=0)


def signals(name, *more, **renamed):
    cases = [v(7, dtype=F64), v(8, sym=False, dtype=F64), v(1, dtype=F64)]
    return row("signal.windows." + name, signal(name, **renamed), *(more or cases), order=0)


def xlogy(x, y):
    return scipy("special.xlogy")(x, y)


def polygamma(n, x):
    return scipy("special.polygamma")(n, x)


CHEB = U(-0.9, 0.9)

ROWS = [
    special1("erf", "special.erf", ints="float", half=True, special=SPECIAL),
    special1("erfc", "special.erfc", ints="float", half=True, special=SPECIAL),
    special1("erfinv", "special.erfinv", CHEB, half=True, special=[0.0, 1.0, -1.0, np.nan]),
    special1("digamma", "special.digamma", P, ints="float"),
    special1("lgamma", "special.gammaln", P, ints="float", special=[1.0, 2.0, np.inf]),
    special1("i0", "special.i0", ints="float", half=False),
    special1(S + "i0e", "special.i0e", ints="float"),
    special1(S + "i1", "special.i1", ints="float", half=False),
    special1(S + "i1e", "special.i1e", ints="float"),
    special1(S + "entr", "special.entr", P, ints="float", special=[0.0, -1.0, np.nan]),
    special1(S + "erfcx", "special.erfcx", ints="float"),
    special1(S + "ndtr", "special.ndtr", ints="float", special=[0.0, np.inf, -np.inf]),
    special1(S + "log_ndtr", "special.log_ndtr", ints="float", special=[-30.0, 10.0]),
    special1(S + "ndtri", "special.ndtri", U01, special=[0.0, 1.0, 0.5]),
    row("igamma", scipy("special.gammainc"), c(fixed(P(3, 4)), P(4)), v(K([0.0, 1.0]), K([1.0, 0.0])), order=2, tol=1e-8),
    row("igammac", scipy("special.gammaincc"), c(fixed(P(3, 4)), P(4)), v(K([1.0]), K([0.0])), order=2, tol=1e-8),
    row("mvlgamma", lambda a, p: p * (p - 1) / 4 * math.log(math.pi) + sum(scipy("special.gammaln")(a - j / 2) for j in range(p)), c(U(3, 4)(2, 3), 3), c(U(2, 3)(), 1)),
    row("polygamma", polygamma, c(0, P(3)), c(1, P(3, 4)), c(2, P()), tol=1e-8, out=False, inplace=False, method=False),
    row("Tensor.polygamma", lambda x, n: polygamma(n, x), c(P(3, 4), 1)),
    row("Tensor.polygamma_", lambda x, n: polygamma(n, x), c(P(3, 4), 1), writes=True),
    row("xlogy", xlogy, c(N(3, 4), P(4)), v(K([0.0, 0.0, 1.0]), K([0.0, np.nan, 0.0])), c(N(3), 2.0), c(2.0, P(3)), inplace=True, method=False),
    row(S + "xlog1py", scipy("special.xlog1py"), c(N(3, 4), P(4)), v(K([0.0, 0.0]), K([-1.0, np.nan])), c(N(3), 2.0), c(2.0, P(3))),
    row(S + "zeta", scipy("special.zeta"), c(fixed(U(2, 4)(3, 4)), P(4)), c(3.0, P(3)), tol=1e-8),
    row(S + "airy_ai", lambda x: scipy("special.airy")(x)[0], v(N(3, 4)), v(U(-9, 9)(20)), order=0, tol=1e-8, tol32=1e-3),
    *(bessel(n, "special." + n[-2:]) for n in ("bessel_j0", "bessel_j1")),
    *(bessel(n, "special." + n[-2:], U(0.2, 12)) for n in ("bessel_y0", "bessel_y1")),
    bessel("modified_bessel_i0", "special.i0"),
    bessel("modified_bessel_i1", "special.i1"),
    bessel("modified_bessel_k0", "special.k0", P),
    bessel("modified_bessel_k1", "special.k1", P),
    bessel("scaled_modified_bessel_k0", "special.k0e", P),
    bessel("scaled_modified_bessel_k1", "special.k1e", P),
    row(S + "spherical_bessel_j0", np.vectorize(lambda x: math.sin(x) / x if x else 1.0, otypes=[float]), v(N(3, 4)), v(K([0.0, 5.0])), order=0, f32=False),
    orthogonal("chebyshev_polynomial_t", polynomial("chebyt")),
    orthogonal("chebyshev_polynomial_u", polynomial("chebyu")),
    orthogonal("chebyshev_polynomial_v", chebyshev(V1)),
    orthogonal("chebyshev_polynomial_w", chebyshev(W1)),
    orthogonal("shifted_chebyshev_polynomial_t", polynomial("sh_chebyt"), U01),
    orthogonal("shifted_chebyshev_polynomial_u", polynomial("sh_chebyu"), U01),
    orthogonal("shifted_chebyshev_polynomial_v", chebyshev(V1, shifted=True), U01),
    orthogonal("shifted_chebyshev_polynomial_w", chebyshev(W1, shifted=True), U01),
    orthogonal("hermite_polynomial_h", polynomial("hermite")),
    orthogonal("hermite_polynomial_he", polynomial("hermitenorm")),
    orthogonal("laguerre_polynomial_l", polynomial("laguerre")),
    orthogonal("legendre_polynomial_p", polynomial("legendre")),
    # Fourier transforms
    row("fft.fft", one(FFT.fft), *BOTH1, half=False),
    row("fft.ifft", one(FFT.ifft), *BOTH1, half=False),
    row("fft.rfft", one(FFT.rfft), *REAL1, half=False),
    row("fft.irfft", one(FFT.irfft), *BACK1),
    row("fft.hfft", one(FFT.hfft), *BACK1),
    row("fft.ihfft", one(FFT.ihfft), *REAL1, half=False),
    row("fft.fft2", many(FFT.fft2, (-2, -1)), *BOTHN, half=False),
    row("fft.ifft2", many(FFT.ifft2, (-2, -1)), *BOTHN, half=False),
    row("fft.rfft2", many(FFT.rfft2, (-2, -1)), *REALN, half=False),
    row("fft.irfft2", many(FFT.irfft2, (-2, -1)), *BACKN),
    row("fft.hfft2", many(sfft("hfft2"), (-2, -1)), *BACKN),
    row("fft.ihfft2", many(sfft("ihfft2"), (-2, -1)), *REALN, half=False),
    row("fft.fftn", many(FFT.fftn), *BOTHN, half=False),
    row("fft.ifftn", many(FFT.ifftn), *BOTHN, half=False),
    row("fft.rfftn", many(FFT.rfftn), *REALN, half=False),
    row("fft.irfftn", many(FFT.irfftn), *BACKN),
    row("fft.hfftn", many(sfft("hfftn")), *BACKN),
    row("fft.ihfftn", many(sfft("ihfftn")), *REALN, half=False),
    row("fft.fftshift", shift(FFT.fftshift), c(N(5)), c(N(3, 4)), c(N(3, 4), 1)),
    row("fft.ifftshift", shift(FFT.ifftshift), c(N(5)), c(N(3, 4)), c(N(3, 4), 1)),
    row("fft.fftfreq", lambda n, d=1.0, dtype=None: FFT.fftfreq(n, d), v(5, dtype=F64), v(4, 0.5, dtype=F64), order=0, out=False),
    row("fft.rfftfreq", lambda n, d=1.0, dtype=None: FFT.rfftfreq(n, d), v(5, dtype=F64), v(4, 0.5, dtype=F64), order=0, out=False),
    row("stft", stft, c(N(20), 8, window=fixed(P(8)), return_complex=True), c(N(20), 8, 3, window=fixed(P(8)), center=False, return_complex=True), c(N(16), 4, window=fixed(P(4)), normalized=True, return_complex=True), tol=1e-8),
    row("istft", istft, c(C(5, 6), 8, window=fixed(P(8))), c(C(3, 6), 4, 2, window=fixed(P(4))), tol=1e-8, meta=False),
    # windows
    windows("hann_window", window("hann")),
    windows("hamming_window", window("hamming")),
    windows("bartlett_window", window("bartlett")),
    windows("blackman_window", window("blackman")),
    row("kaiser_window", lambda n, periodic=True, beta=12.0, dtype=None: scipy("signal.windows.kaiser")(n, beta, sym=not periodic), v(7, dtype=F64), v(8, False, dtype=F64), v(6, True, 5.0, dtype=F64), order=0, tol=1e-7),
    *(signals(n) for n in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")),
    row("signal.windows.kaiser", signal("kaiser"), v(7, beta=12.0, dtype=F64), v(6, beta=5.0, sym=False, dtype=F64), order=0, tol=1e-7),
    signals("exponential", v(7, tau=1.0, dtype=F64), v(8, tau=2.0, sym=False, dtype=F64)),
    signals("gaussian", v(7, std=1.0, dtype=F64), v(8, std=2.0, sym=False, dtype=F64)),
    signals("general_cosine", v(7, a=[0.5, 0.3, 0.2], dtype=F64)),
    signals("general_hamming", v(7, alpha=0.6, dtype=F64), v(8, alpha=0.6, sym=False, dtype=F64)),
]  # fmt: skip
