"""A line search: how far to go along a direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["cubic_minimum", "strong_wolfe"]


def cubic_minimum(
    x1: float,
    f1: float,
    g1: float,
    x2: float,
    f2: float,
    g2: float,
    bounds: tuple[float, float] | None = None,
) -> float:
    """The minimum, within the bounds, of the cubic through two points with two slopes.

    Nocedal and Wright, equation 3.59; the middle of the bounds if there is no minimum.
    """
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Any]],
    t: float,
    d: Any,
    f: float,
    g: Any,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_steps: int = 25,
) -> tuple[float, Any, float, int]:
    """A length t along d with the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5, 3.6).

    `evaluate(t)` gives loss and gradient there; f, g and `slope` are those at 0. Returns loss,
    gradient, length and the number of evaluations.
    """
    largest = float(d.abs().max())
    f_new, g_new = evaluate(t)
    evaluations = 1
    slope_new = float(g_new.dot(d))

    # First until two lengths bracket a minimum: each a tuple (t, f, g, slope).
    before = (0.0, f, g, slope)
    bracket: list[tuple] = []
    done = False
    steps = 0
    while steps < max_steps:
        now = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or (steps > 1 and f_new >= before[1]):
            bracket = [before, now]
            break
        if abs(slope_new) <= -c2 * slope:
            bracket = [now]
            done = True
            break
        if slope_new >= 0:
            bracket = [before, now]
            break
        # Further along, by the cubic through the last two points.
        bounds = (t + 0.01 * (t - before[0]), t * 10)
        t_next = cubic_minimum(before[0], before[1], before[3], t, f_new, slope_new, bounds=bounds)
        before = now
        t = t_next
        f_new, g_new = evaluate(t)
        evaluations += 1
        slope_new = float(g_new.dot(d))
        steps += 1
    if steps == max_steps:
        bracket = [(0.0, f, g, slope), (t, f_new, g_new, slope_new)]

    # Then smaller and smaller brackets around the minimum.
    stuck = False
    low = 0 if bracket[0][1] <= bracket[-1][1] else 1
    while not done and steps < max_steps:
        high = 1 - low
        (t0, f0, _, s0), (t1, f1, _, s1) = bracket
        if abs(t1 - t0) * largest < tolerance_change:
            break
        t = cubic_minimum(t0, f0, s0, t1, f1, s1)
        # Not twice too near to an end: then a tenth of the width away from it.
        left, right = min(t0, t1), max(t0, t1)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        f_new, g_new = evaluate(t)
        evaluations += 1
        slope_new = float(g_new.dot(d))
        steps += 1
        now = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or f_new >= bracket[low][1]:
            bracket[high] = now
            low = 0 if bracket[0][1] <= bracket[1][1] else 1
        else:
            if abs(slope_new) <= -c2 * slope:
                done = True
            elif slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    best = bracket[low if len(bracket) > 1 else 0]
    return best[1], best[2], best[0], evaluations
