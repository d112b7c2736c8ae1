"""Kernels of matrix products, layers and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rushlight._backends.protocol.array import Array, Dtype, Number, Shape

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem
    from rushlight._backends.reference.resample import Taps


class Networks(Protocol):
    """Kernels of matrix products, layers and losses."""

    # -- products --

    def check_bmm(self, a: Array, b: Array) -> None:
        """RuntimeError unless both are batches of matrices that fit."""

    def accumulate(self, input: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
        """beta * input + alpha * (a @ b); half types are rounded once."""

    def accumulate_activated(
        self, input: Array, a: Array, b: Array, beta: float, alpha: float, act: str
    ) -> Array:
        """`gelu` or `relu` of `accumulate`, of matrices."""

    def c_name(self, a: Array) -> str:
        """The dtype as PyTorch's messages on products name it."""

    def adjoint_times(self, a: Array, b: Array) -> Array:
        """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""

    def bmm(self, a: Array, b: Array) -> Array:
        """[batch, n, k] @ [batch, k, m]."""

    def broadcast_to(self, a: Array, shape: Shape) -> Array:
        """`np.broadcast_to` with PyTorch's errors."""

    def dot(self, a: Array, b: Array) -> Array:
        """[k] @ [k]."""

    def linear(self, a: Array, weight: Array, bias: Array | None) -> Array:
        """a [..., k] @ weight [m, k]ᵀ + bias [m]."""

    def mm(self, a: Array, b: Array) -> Array:
        """[n, k] @ [k, m]."""

    def mv(self, a: Array, b: Array) -> Array:
        """[n, k] @ [k]."""

    def outer(self, a: Array, b: Array) -> Array:
        """All products of [n] and [m], of one dtype."""

    def outer_added(self, input: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
        """beta * input [n, m] + alpha * `outer`."""

    def times_adjoint(self, a: Array, b: Array) -> Array:
        """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""

    def vdot(self, a: Array, b: Array) -> Array:
        """conj([k]) @ [k]."""

    # -- conv --

    def convolve(self, x: Array, w: Array, bias: Array | None, problem: Problem) -> Array:
        """Cross-correlation of x (N, C, *in) with w (O, C / groups, *kernel), plus bias (O):
        (N, O, *out)."""

    def convolve_transposed(
        self, g: Array, w: Array, bias: Array | None, problem: Problem
    ) -> Array:
        """The transpose of `convolve`: g (N, O, *out), w (O, C / groups, *kernel) to (N, C,
        *in), plus bias (C)."""

    def convolve_weight(self, x: Array, g: Array, problem: Problem) -> Array:
        """The gradient of the weight: x (N, C, *in) and g (N, O, *out) to (O, C / groups,
        *kernel)."""

    # -- pool --

    def adaptive_counts(self, sizes: Sequence[int], out: Sequence[int]) -> Array:
        """The number of inputs in each window of adaptive pooling, shape `out`."""

    def adaptive_sums(self, x: Array, out: Sequence[int]) -> Array:
        """The sums over the windows of adaptive pooling; `adaptive_sums(g, sizes)` is the
        transpose, since input j is in window i exactly when window j of the way back has i."""

    def adaptive_tables(self, sizes: Sequence[int], out: Sequence[int]) -> list[Array]:
        """The tables of windows [i * n // m, ceil((i + 1) * n / m))."""

    def add_at_places(self, g: Array, places: Array, sizes: Sequence[int]) -> Array:
        """Zeros over `sizes` with `g` added at `places`, plane by plane."""

    def fractional_starts(
        self,
        samples: Array,
        sizes: Sequence[int],
        kernel: Sequence[int],
        out: Sequence[int],
        order: Sequence[int],
    ) -> list[Array]:
        """For each dimension where the windows of each plane begin, (N, C, out): steps of
        random length."""

    def max_by_tables(self, x: Array, tables: Sequence[Array]) -> tuple[Array, Array]:
        """(maxima, places): places count through the last `len(tables)` dimensions of `x`, row
        by row."""

    def max_pool(
        self,
        x: Array,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        out: Sequence[int],
    ) -> Array:
        """The maximum of each window; NaN where the window has one."""

    def max_pool_places(
        self,
        x: Array,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        out: Sequence[int],
    ) -> tuple[Array, Array]:
        """(maxima, places), of the windows of `max_pool`."""

    def places_by_plane(
        self, x: Array, starts: Sequence[Array], kernel: Sequence[int]
    ) -> tuple[Array, ...]:
        """As `max_by_tables`, each plane of (N, C, *sizes) with windows of its own: starts (N,
        C, out)."""

    def put_places(self, x: Array, places: Array, sizes: Sequence[int]) -> Array:
        """Zeros over `sizes` with `x` written at `places`: of several values the last stays."""

    def quotient(self, total: Array, count: Array | int, dtype: Dtype) -> Array:
        """`total / count` in `dtype`; integers are divided towards zero."""

    def take_places(self, x: Array, places: Array, nd: int) -> Array:
        """`x` at `places`, plane by plane."""

    def window_counts(
        self,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        sizes: Sequence[int],
        out: Sequence[int],
        include_pad: bool,
    ) -> Array:
        """By how much each window's sum is divided, shape `out`."""

    def window_averages(
        self,
        x: Array,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        out: Sequence[int],
        count: Array | int,
    ) -> Array:
        """The sum of each window divided by `count`, an int or an array of shape `out`."""

    def window_averages_adjoint(
        self,
        g: Array,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        sizes: Sequence[int],
        count: Array | int,
    ) -> Array:
        """The transpose of `window_averages`."""

    # -- pad --

    def im2col(
        self,
        x: Array,
        kernel: Sequence[int],
        dilation: Sequence[int],
        padding: Sequence[int],
        stride: Sequence[int],
    ) -> Array:
        """The windows of x (N, C, *in) as columns: (N, C * kernel size, number of windows)."""

    def col2im(
        self,
        a: Array,
        sizes: Sequence[int],
        kernel: Sequence[int],
        dilation: Sequence[int],
        padding: Sequence[int],
        stride: Sequence[int],
    ) -> Array:
        """The transpose of `im2col`: columns added up where their windows overlap, (N, C,
        *sizes)."""

    def pad_constant(self, x: Array, pads: Sequence[tuple[int, int]], value: Number) -> Array:
        """`x` with `value` around it: (before, after) for each of the last dimensions,
        outermost first."""

    def pad_edges(self, x: Array, pads: Sequence[tuple[int, int]], mode: str) -> Array:
        """`x` continued beyond its edges: "reflect" (without the edge), "replicate",
        "circular"."""

    def pad_edges_adjoint(
        self, g: Array, pads: Sequence[tuple[int, int]], sizes: Sequence[int], mode: str
    ) -> Array:
        """The transpose of `pad_edges`: the borders of `g` added to where their values came
        from."""

    # -- resample --

    def affine_grid(self, theta: Array, sizes: Sequence[int], corners: bool) -> Array:
        """The coordinates that theta (N, nd, nd + 1) maps a regular grid to: (N, *sizes,
        nd)."""

    def affine_grid_adjoint(self, g: Array, sizes: Sequence[int], corners: bool) -> Array:
        """The transpose of `affine_grid`: (N, *sizes, nd) to (N, nd, nd + 1)."""

    def grid_sample_gradients(
        self,
        g: Array,
        x: Array,
        grid: Array,
        mode: str,
        padding: str,
        corners: bool,
        needs: tuple[bool, bool],
    ) -> tuple[Array, Array]:
        """The gradients of `grid_sample` by the image and by the grid; zeros where not
        needed."""

    def grid_taps(
        self, grid: Array, sizes: Sequence[int], mode: str, padding: str, corners: bool
    ) -> tuple[Array, ...]:
        """What of `grid_sample` is piecewise constant in the grid, for each dimension of the
        image:."""

    def grid_sample(self, x: Array, grid: Array, mode: str, padding: str, corners: bool) -> Array:
        """`x` (N, C, *in) at the places `grid` (N, *out, nd), coordinates from -1 to 1: (N, C,
        *out)."""

    def resample(self, x: Array, taps: Sequence[Taps]) -> Array:
        """`x` resampled along its last `len(taps)` dimensions. uint8 is rounded after each of
        them."""

    def resample_adjoint(self, g: Array, taps: Sequence[Taps], sizes: Sequence[int]) -> Array:
        """The transpose of `resample`."""

    def taps_of(
        self,
        n: int,
        m: int,
        scale: float | None,
        mode: str,
        corners: bool,
        antialias: bool,
        dtype: Dtype,
    ) -> Taps:
        """The taps that resample `n` elements to `m`; `scale`: the factor that was asked for,
        if any."""

    # -- normalize --

    def batch_norm(
        self,
        a: Array,
        weight: Array | None,
        bias: Array | None,
        mean: Array | None,
        var: Array | None,
        training: bool,
        eps: float,
        given: bool = False,
    ) -> tuple[Array, Array, Array]:
        """(normalised, mean, biased variance); the statistics are those given unless
        `training`. `given`: where they are those of the batch they may be written to `mean` and
        `var`."""

    def batch_norm_gradients(
        self,
        g: Array,
        a: Array,
        weight: Array | None,
        mean: Array,
        var: Array,
        training: bool,
        eps: float,
        needs: tuple[bool, ...],
    ) -> tuple[Array, Array, Array]:
        """The gradients of `batch_norm` by input, weight and bias."""

    def group_norm(
        self,
        a: Array,
        weight: Array | None,
        bias: Array | None,
        groups: int,
        eps: float,
        statistics: bool = True,
    ) -> tuple[Array, Array, Array]:
        """(normalised, mean, 1 / deviation) of `groups` groups of the channels of (N, C, *);
        without `statistics` the last two may be None."""

    def group_norm_gradients(
        self,
        g: Array,
        a: Array,
        weight: Array | None,
        groups: int,
        eps: float,
        needs: tuple[bool, ...],
    ) -> tuple[Array, Array, Array]:
        """The gradients of group_norm by input, weight and bias."""

    def layer_norm(
        self,
        a: Array,
        weight: Array | None,
        bias: Array | None,
        n: int,
        eps: float,
        statistics: bool = True,
    ) -> tuple[Array, Array, Array]:
        """(normalised, mean, 1 / deviation) of rows of `n` elements; without `statistics` the
        last two may be None."""

    def layer_norm_gradients(
        self, g: Array, a: Array, weight: Array | None, n: int, eps: float, needs: tuple[bool, ...]
    ) -> tuple[Array, Array, Array]:
        """The gradients of layer_norm by input, weight and bias; None where not needed."""

    def l2_norm(self, a: Array, axes: Shape, keepdims: bool) -> Array:
        """The square roots of the sums of squares along `axes`."""

    def update_running_stats(
        self,
        running_mean: Array,
        running_var: Array,
        mean: Array,
        var: Array,
        by: float,
        unbiased: float,
    ) -> None:
        """Running statistics go `by` of the way to those of a batch, the variance times
        `unbiased`."""

    def rms_norm(self, a: Array, weight: Array | None, n: int, eps: float) -> Array:
        """Rows of `n` elements over the square root of the mean of their squares."""

    def rms_norm_gradients(
        self, g: Array, a: Array, weight: Array | None, n: int, eps: float, needs: tuple[bool, ...]
    ) -> tuple[Array, Array]:
        """The gradients of rms_norm by input and weight; None where not needed."""

    # -- softmax --

    def cross_entropy(
        self, a: Array, target: Array, weight: Array | None, skip: int, smoothing: float
    ) -> tuple[Array, Array, float, float, bool]:
        """The cross entropy of logits (N, C, *) and classes (N, *), each with the share
        `smoothing` of all classes: (losses, log(sum(exp(x))), the sum of losses, that of the
        classes' weights, whether a class is out of range). Where the class is `skip` the loss
        and the weight are 0."""

    def cross_entropy_gradient(
        self,
        g: Array,
        a: Array,
        target: Array,
        weight: Array | None,
        sums: Array,
        skip: int,
        smoothing: float,
        scale: float,
    ) -> Array:
        """The gradient of `cross_entropy` by the logits, times `scale` and g, which is one
        number or one for each place."""

    def log_softmax(self, a: Array, dim: int) -> Array:
        """a - log(sum(exp(a))) along `dim`."""

    def log_softmax_gradient(self, g: Array, y: Array, dim: int) -> Array:
        """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""

    def softmax(self, a: Array, dim: int) -> Array:
        """exp(a) / sum(exp(a)) along a dimension."""

    def softmax_gradient(self, g: Array, y: Array, dim: int) -> Array:
        """The gradient of softmax from its output: y * (g - sum(g * y))."""

    # -- attention --

    def attention(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None,
        causal: bool,
        scale: float,
        keep: bool,
    ) -> tuple[Array, Array]:
        """(softmax(query keyᵀ scale + mask) value, the softmax if `keep`); rows that see
        nothing are 0."""

    def attention_gradients(
        self,
        g: Array,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None,
        causal: bool,
        result: Array,
        weights: Array,
        scale: float,
        needs: tuple[bool, ...],
    ) -> tuple[Array, ...]:
        """The gradients of `attention` by query, key, value and (in full shape) mask."""

    # -- recurrent --

    def recurrent_layer(
        self,
        x: Array,
        w_ih: Array,
        w_hh: Array,
        b_ih: Array | None,
        b_hh: Array | None,
        h: Array,
        c: Array | None,
        kind: str,
        sizes: Sequence[int],
        reverse: bool,
        keep: bool,
    ) -> tuple[Array, ...]:
        """All steps of one layer in one direction: (outputs, last h, last c, and three
        arrays)."""

    def recurrent_layer_gradients(
        self,
        g: Array,
        g_h: Array,
        g_c: Array | None,
        x: Array,
        w_ih: Array,
        w_hh: Array,
        h: Array,
        c: Array | None,
        y: Array,
        first: Array,
        second: Array,
        third: Array,
        kind: str,
        sizes: Sequence[int],
        reverse: bool,
        needs_x: bool,
        needs_h: bool,
    ) -> tuple[Array, ...]:
        """The gradients of `recurrent_layer` by x (None unless `needs_x`), w_ih, w_hh, b_ih,
        b_hh, h (None unless `needs_h`) and c (None if there is none); first, second and third
        are what it kept."""

    # -- ctc --

    def ctc_loss(
        self,
        log_probs: Array,
        targets: Array,
        input_lengths: list[int],
        target_lengths: list[int],
        blank: int,
    ) -> tuple[Array, Array]:
        """(-log p [N], the forward variables [N, T, 2 S + 1], -inf behind the end of an
        input)."""

    def ctc_loss_gradient(
        self,
        g: Array,
        log_probs: Array,
        targets: Array,
        input_lengths: list[int],
        target_lengths: list[int],
        alpha: Array,
        blank: int,
        zero_infinity: bool,
    ) -> Array:
        """g * (exp(log_probs) - posterior), zeros after the end of each input."""

    # -- bags --

    def embedding_bag(
        self,
        weight: Array | None,
        indices: Array,
        offsets: Array,
        factors: Array | None,
        mode: int,
        padding_idx: int,
    ) -> tuple[Array, Array, Array, Array]:
        """Rows of a table summed, averaged or maximised in bags, with the bags' sizes and
        places."""

    # -- distances --

    def cdist(self, a: Array, b: Array, p: float) -> Array:
        """The p-norm distances of all rows of [..., n, k] to all rows of [..., m, k]."""

    def cdist_gradient(self, g: Array, d: Array, a: Array, b: Array, p: float) -> Array:
        """The gradient of `distances` d by `a`, in the shape of all batches."""

    def pdist(self, a: Array, p: float) -> Array:
        """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]."""

    def pdist_gradient(self, g: Array, d: Array, a: Array, p: float) -> Array:
        """The gradient of `pdist` d by `a`."""
