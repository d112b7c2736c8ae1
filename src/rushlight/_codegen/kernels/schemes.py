"""Ways to compute some neighbouring results of a convolution of lines with fewer multiplications.

A scheme takes `edge` inputs d, which begin `step` after those of the scheme before, and a window of
`taps` weights w. It has three linear transforms: B' of inputs (`input_transform`), G of weights
(`weight_transform`) and A' of outputs (`output_transform`). Product p is (G w)[p] times (B' d)[value[p]],
and is added to point `point[p]`; A' makes results of the points. In the tables each row lists what is
added: k for the k-th of the vector (from 1 on), -k for its negative; then all is multiplied by the
row's first entry. A scheme is the identity

    y = A' z,  z[i] = sum over products p with point[p] = i of (G w)[p] (B' d)[value[p]]

In two dimensions it is applied along both: `taps` ^ 2 weights, `edge` ^ 2 inputs. Over many channels
the products are products of matrices, which is where the time goes; their number is
products ^ 2 for outputs ^ 2 results, instead of (taps outputs) ^ 2.

DENSE3 is Winograd's F(2, 3). The others are made of it and of F(2, 2) (two taps, two results: 3
multiplications), which has the points of F(2, 3) without the third, and of plain products. Since
points are shared, the results of parts are added before the output transform. Factors are 1 and 1/2, so
errors stay those of sums in order, about.
"""

from __future__ import annotations

Row = tuple[float, ...]


class Scheme:
    """A table. Its rows become tuples of such rows, one for each factor, which are added."""

    def __init__(
        self,
        step: int,
        edge: int,
        taps: int,
        input_transform: tuple[Row, ...],
        weight_transform: tuple[Row, ...],
        value: tuple[int, ...],
        point: tuple[int, ...],
        output_transform: tuple[Row, ...],
    ) -> None:
        self.step, self.edge, self.taps, self.outputs = step, edge, taps, len(output_transform)
        self.value, self.point = value, point
        self.values, self.products, self.points = (
            len(input_transform),
            len(weight_transform),
            max(point) + 1,
        )
        self.input_transform, self.weight_transform, self.output_transform = (
            tuple((r,) for r in m) for m in (input_transform, weight_transform, output_transform)
        )
        self.output_transposed = transposed(output_transform, self.points)
        self.weight_transposed = transposed(weight_transform, taps)

    def __repr__(self) -> str:
        return f"Scheme({self.step}, {self.edge}, {self.taps}, {self.outputs})"


def transposed(rows: tuple[Row, ...], size: int) -> tuple[tuple[Row, ...], ...]:
    """The transpose, for `size` columns."""
    found = []
    for k in range(1, size + 1):
        parts: dict[float, list[float]] = {}
        for i, (factor, *entries) in enumerate(rows, 1):
            for sign in (1, -1):
                if sign * k in entries:
                    parts.setdefault(factor, []).append(sign * i)
        found.append(tuple((factor, *entries) for factor, entries in parts.items()))
    return tuple(found)


# Windows of 3, step 1.
DENSE3 = Scheme(
    2, 4, 3,
    ((1, 1, -3), (1, 2, 3), (1, 3, -2), (1, 2, -4)),
    ((1, 1), (0.5, 1, 3, 2), (0.5, 1, 3, -2), (1, 3)),
    (0, 1, 2, 3), (0, 1, 2, 3),
    ((1, 1, 2, 3), (1, 2, -3, -4)),
)  # fmt: skip

# Windows of 5, step 1: F(2, 3) of the first three taps, F(2, 2) of the last two.
DENSE5 = Scheme(
    2, 6, 5,
    ((1, 1, -3), (1, 4, -5), (1, 2, 3), (1, 5), (1, 3, -2), (1, 2, -4), (1, 5, -6)),
    ((1, 1), (1, 4), (0.5, 1, 3, 2), (1, 4, 5), (0.5, 1, 3, -2), (1, 3), (1, 5)),
    (0, 1, 2, 3, 4, 5, 6), (0, 0, 1, 1, 2, 3, 3),
    ((1, 1, 2, 3), (1, 2, -3, -4)),
)  # fmt: skip

# Windows of 3, step 2: F(2, 2) of the taps 0 and 2, which meet even inputs; tap 1 meets odd ones.
HALVED3 = Scheme(
    4, 5, 3,
    ((1, 1, -3), (1, 2), (1, 3), (1, 5, -3), (1, 4)),
    ((1, 1), (1, 2), (1, 1, 3), (1, 3), (1, 2)),
    (0, 1, 2, 3, 4), (0, 0, 1, 2, 2),
    ((1, 1, 2), (1, 2, 3)),
)  # fmt: skip

# Windows of 4, step 2: F(2, 2) of the even taps, and of the odd ones.
HALVED4 = Scheme(
    4, 6, 4,
    ((1, 1, -3), (1, 2, -4), (1, 3), (1, 4), (1, 5, -3), (1, 6, -4)),
    ((1, 1), (1, 2), (1, 1, 3), (1, 2, 4), (1, 3), (1, 4)),
    (0, 1, 2, 3, 4, 5), (0, 0, 1, 1, 2, 2),
    ((1, 1, 2), (1, 2, 3)),
)  # fmt: skip

# The transpose of HALVED3 with padding 1: even results see tap 1, odd ones the taps 2 and 0.
DOUBLED3 = Scheme(
    2, 3, 3,
    ((1, 1), (1, 1, -2), (1, 2), (1, 3, -2)),
    ((1, 2), (1, 3), (1, 1, 3), (1, 2), (1, 1)),
    (0, 1, 2, 2, 3), (0, 1, 2, 3, 4),
    ((1, 1), (1, 2, 3), (1, 4), (1, 3, 5)),
)  # fmt: skip

# The transpose of HALVED4 with padding 1: even results see the taps 3 and 1, odd ones 2 and 0.
DOUBLED4 = Scheme(
    2, 4, 4,
    ((1, 1, -2), (1, 2), (1, 2, -3), (1, 3), (1, 4, -3)),
    ((1, 4), (1, 2, 4), (1, -2), (1, 3), (1, 1, 3), (1, 1)),
    (0, 1, 2, 2, 3, 4), (0, 1, 2, 3, 4, 5),
    ((1, 1, 2), (1, 4, 5), (1, 2, 3), (1, 5, 6)),
)  # fmt: skip

SCHEMES = (DENSE3, DENSE5, HALVED3, HALVED4, DOUBLED3, DOUBLED4)

TILES = 48  # of a chunk, at most
RUN = 64  # channels of a tile that lie together


def rows_of(s: int) -> int:
    """Channels of the input in a block of a gradient; columns are RUN."""
    return RUN if SCHEMES[s].products < 5 else RUN // 2
