"""`grid_sample` and `affine_grid`: images read at given positions (spatial transformers)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes, settings
from rushlight.core.dtype_sets import FLOATING
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import check_tensor

if TYPE_CHECKING:
    import numpy as np

    from rushlight.core.tensor import Tensor

    Ints = tuple[int, ...]

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def check(a: np.ndarray, grid: np.ndarray, mode: int, n: int | None = None) -> None:
    """RuntimeError or NotImplementedError where an image and a grid of positions do not go together."""
    nd = a.ndim - 2
    if n == nd == grid.ndim - 2 and a.dtype is grid.dtype and a.dtype in FLOATING:
        same = a.shape[0] == grid.shape[0] and grid.shape[-1] == nd
        if same and 0 not in a.shape[2:] and (n == 2 or MODES[mode] != "bicubic"):
            return
    shapes = f"input with sizes {list(a.shape)} and grid with sizes {list(grid.shape)}"
    if not a.ndim or not grid.ndim or a.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}"
        )
    if grid.shape[-1] != a.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {a.ndim - 2} in last dimension, but got grid "
            f"with sizes {list(grid.shape)}"
        )
    for d in range(2, a.ndim):
        if not a.shape[d]:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
                f"sizes {list(a.shape)} with dimension {d} being empty"
            )
    if a.ndim not in ((4, 5) if n is None else (n + 2,)) or a.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"{shapes}"
        )
    if a.ndim == 5 and MODES[mode] == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    d, e = dtypes.OF[a.dtype], dtypes.OF[grid.dtype]
    if not d.is_floating_point:
        raise NotImplementedError(
            f"\"grid_sampler_{a.ndim - 2}d_cpu_kernel_impl\" not implemented for '{d.scalar_name}'"
        )
    if d is not e:
        raise RuntimeError(
            f"expected scalar type {d.scalar_name} but found {e.scalar_name}: [grid_sample] input and "
            "grid must have one dtype"
        )


@op(where="internal", name="grid_taps", outputs="list")
def grid_taps(xp, grid: Array, sizes: Ints, mode: str, padding: str, corners: bool):
    return xp.grid_taps(grid, sizes, mode, padding, corners)


def weights_of(t: Tensor, mode: str) -> list[Any]:
    if mode == "nearest":
        return [1.0]
    if mode == "bilinear":
        return [1 - t, t]
    a = -0.75  # Keys' kernel

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def composed(input: Tensor, grid: Tensor, mode: str, padding: str, corners: bool) -> Tensor:
    """`grid_sample` in operators that have derivatives of every order."""
    n, c, *sizes = input.shape
    nd, out = len(sizes), grid.shape[1:-1]
    positions, inside, distances, slopes = grid_taps(
        grid.detach(), tuple(sizes), mode, padding, corners
    )
    u = grid.reshape(n, -1, nd)
    u = u - u.detach()
    weights = [weights_of(distances[d] + u[..., nd - 1 - d] * slopes[d], mode) for d in range(nd)]
    image = input.reshape(n, c, -1)
    y = None
    for each in product(range(positions.shape[1]), repeat=nd):
        position, valid, weight = positions[0, each[0]], inside[0, each[0]], weights[0][each[0]]
        for d in range(1, nd):
            position = position * sizes[d] + positions[d, each[d]]
            valid = valid & inside[d, each[d]]
            weight = weight * weights[d][each[d]]
        values = image.gather(2, position.unsqueeze(1).expand(n, c, position.shape[1]))
        part = values * (weight * valid.to(input.dtype)).unsqueeze(1)
        y = part if y is None else y + part
    return y.reshape(n, c, *out)


def second(
    g_grad_input: Tensor, g_grad_grid: Tensor, grad_output: Tensor, input: Tensor, grid: Tensor,
    interpolation_mode: int, padding_mode: int, align_corners: bool,
) -> tuple:  # fmt: skip
    """The gradients of `grid_sample`'s gradient, by differentiating `composed` twice."""
    from rushlight.autograd.engine import grad
    from rushlight.autograd.grad_mode import enable_grad, is_grad_enabled

    again = is_grad_enabled()
    with enable_grad():
        ts = [
            t.clone() if t.requires_grad and again else t.detach()._set_requires_grad(True)
            for t in (grad_output, input, grid)
        ]
        mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
        y = composed(ts[1], ts[2], mode, padding, align_corners)
        first = grad(y, ts[1:], ts[0], create_graph=True, allow_unused=True)
        pairs = zip(first, (g_grad_input, g_grad_grid), strict=True)
        pairs = [(a, b) for a, b in pairs if a is not None and a.requires_grad]
        if not pairs:
            return None, None, None
        return grad(
            [a for a, _ in pairs], ts, [b for _, b in pairs], create_graph=again, allow_unused=True
        )


def declare(n: int) -> Any:
    name = f"grid_sampler_{n}d"

    @op(name=name, node=f"GridSampler{n}DBackward0", method=False, out=False)
    def sampler(
        xp,
        input: Array,
        grid: Array,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ):
        """`nn.functional.grid_sample` for one number of dimensions; modes and paddings by number.

        Modes: 0 bilinear, 1 nearest, 2 bicubic. Paddings: 0 zeros, 1 border, 2 reflection.
        """
        check(input, grid, interpolation_mode, n)
        return xp.grid_sample(
            input, grid, MODES[interpolation_mode], PADDINGS[padding_mode], align_corners
        )

    @op(
        where="internal",
        name=f"{name}_gradient",
        node=f"GridSampler{n}DBackwardBackward0",
        outputs=("grad_input", "grad_grid"),
    )
    def gradient(
        xp,
        grad_output: Array,
        input: Array,
        grid: Array,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
        output_mask: tuple,
    ):
        mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
        return xp.grid_sample_gradients(
            grad_output, input, grid, mode, padding, align_corners, output_mask
        )

    def rule(
        g: Tensor,
        input: Tensor,
        grid: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
        needs: tuple,
    ) -> tuple:
        got = gradient(g, input, grid, interpolation_mode, padding_mode, align_corners, needs)
        return tuple(t if needed else None for t, needed in zip(got, needs, strict=True))

    sampler.grad_all(rule)
    gradient.grad_all(second)
    return sampler


grid_sampler_2d, grid_sampler_3d = declare(2), declare(3)


@composite(method=False, out=False)
def grid_sampler(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
):
    """`grid_sample` with its modes as numbers."""
    if input.ndim == 5:
        return grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)
    if input.ndim != 4:
        check(input._array, grid._array, interpolation_mode)
    return grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)


def default_corners(align_corners: bool | None) -> bool:
    if align_corners is None:
        settings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
            "Please specify align_corners=True if the old behavior is desired. See the documentation of "
            "grid_sample for details."
        )
    return bool(align_corners)


@composite(where="nn.functional", out=False)
def grid_sample(
    input: Array, grid: Array, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
):  # fmt: skip
    """`input` (N, C, H, W) read at the positions `grid` (N, h, w, 2): (N, C, h, w); or one dimension more.

    A position is (x, y) from -1 to 1, where these are the centres of the corner pixels under
    `align_corners`, else their outer edges. `mode`: "bilinear", "nearest", "bicubic" (4-d input).
    `padding_mode`: outside there are zeros, the border, or the image mirrored ("reflection").

    >>> import rushlight as torch
    >>> image, position = torch.arange(4.0).view(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
    >>> torch.nn.functional.grid_sample(image, position, align_corners=False)
    tensor([[[[1.5000]]]])
    """
    check_tensor("grid_sample", input)
    if mode not in MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
            f"got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    corners = default_corners(align_corners)
    return grid_sampler(input, grid, MODES.index(mode), PADDINGS.index(padding_mode), corners)


# -- affine grids ----------------------------------------------------------------------------------


@op(method=False, out=False)
def affine_grid_generator(xp, theta: Array, size: Ints, align_corners: bool):
    """The positions that affine maps `theta` give a regular grid over `size`: see `affine_grid`."""
    if size[0] != theta.shape[0]:
        n = len(size) - 1
        raise RuntimeError(
            f"[affine_grid] Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, "
            f"{n}] but got: [{theta.shape[0]}, {n}]."
        )
    return xp.affine_grid(theta, tuple(size[2:]), align_corners)


@op(where="internal", node="AffineGridGeneratorBackwardBackward0")
def affine_grid_gradient(xp, grad_output: Array, size: Ints, align_corners: bool):
    return xp.affine_grid_adjoint(grad_output, tuple(size[2:]), align_corners)


affine_grid_generator.grad(
    theta=lambda g, size, align_corners: affine_grid_gradient(g, size, align_corners)
)
affine_grid_gradient.grad(
    grad_output=lambda g, size, align_corners: affine_grid_generator(g, size, align_corners)
)


@composite(where="nn.functional", out=False)
def affine_grid(theta: Array, size: Any, align_corners: bool | None = None):
    """The grid for `grid_sample` under affine maps: theta (N, 2, 3), size (N, C, H, W): (N, H, W, 2).

    Or (N, 3, 4) with (N, C, D, H, W). ValueError or NotImplementedError for other shapes.
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    corners = default_corners(align_corners)
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        settings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the documentation "
            "of affine_grid for details."
        )
    return affine_grid_generator(theta, size, corners)
