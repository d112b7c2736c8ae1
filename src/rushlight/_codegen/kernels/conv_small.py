"""Small convolutions of any dtype and layout, all three directions, as sums one after the other.

What a number of the result sums stands in a list of pairs: where the first array is read and where the
second. Places of the result that differ in image, group or channel alone share their list.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import added
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64


class SmallPlan:
    """Where the fields of a plan stand. From LISTS on: where the list of each place begins, and of the
    end; offsets into the first array; offsets into the second."""

    SIZES = 0  # of the three outer loops, of the places, of the inner sums
    A, B, Y = 5, 10, 15  # steps of the two arrays and the result for each of these
    BIAS = 20  # steps of the bias for the outer loops
    LISTS = 23


@kernel
def small(a: Ptr[E], b: Ptr[E], bias: Ptr[E], y: Ptr[E], plan: Ptr[i64]):
    """y = bias + the sums of products of `a` and `b` that `plan` lists."""
    places, deep = plan[SmallPlan.SIZES + 3], plan[SmallPlan.SIZES + 4]
    begin = plan + SmallPlan.LISTS
    of_a = begin + (places + 1)
    of_b = of_a + begin[places]
    step_a, step_b = plan[SmallPlan.A + 4], plan[SmallPlan.B + 4]
    for i in range(plan[SmallPlan.SIZES]):
        for j in range(plan[SmallPlan.SIZES + 1]):
            for k in range(plan[SmallPlan.SIZES + 2]):
                at = [
                    i * plan[f] + j * plan[f + 1] + k * plan[f + 2]
                    for f in (SmallPlan.A, SmallPlan.B, SmallPlan.Y, SmallPlan.BIAS)
                ]
                first = E.loaded(bias[at[3]])
                for place in range(places):
                    s = first
                    for t in range(begin[place], begin[place + 1]):
                        p, q = a + (at[0] + of_a[t]), b + (at[1] + of_b[t])
                        for c in range(deep):
                            s = added(E.loaded(p[c * step_a]), E.loaded(q[c * step_b]), s)
                    y[at[2] + place * plan[SmallPlan.Y + 3]] = s
