"""A line search: how far to go along a direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["cubic_minimum", "strong_wolfe"]

Point = tuple[
    float, float, Any, float
]  # a length, the loss there, its gradient, its slope along the direction
Test = Callable[[Point], bool]


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


def bracketed(
    at: Callable[[float], Point], start: Point, t: float, rises: Test, flat: Test, most: int
) -> tuple[list[Point], int]:
    """Two points around a minimum, or one that will do, and the number of steps to them: further and
    further along, by the cubic through the last two points."""
    before, now = start, at(t)
    for steps in range(most):
        if rises(now) or (steps > 1 and now[1] >= before[1]):
            return [before, now], steps
        if flat(now):
            return [now], steps
        if now[3] >= 0:
            return [before, now], steps
        t = now[0]
        bounds = (t + 0.01 * (t - before[0]), t * 10)
        t = cubic_minimum(before[0], before[1], before[3], t, now[1], now[3], bounds=bounds)
        before, now = now, at(t)
    return [start, now], most


def between(a: Point, b: Point, stuck: bool) -> tuple[float, bool]:
    """The next length within a bracket, and whether it is too near to an end of it. It is so never twice:
    then it is a tenth of the width away."""
    t = cubic_minimum(a[0], a[1], a[3], b[0], b[1], b[3])
    left, right = min(a[0], b[0]), max(a[0], b[0])
    margin = 0.1 * (right - left)
    if not min(right - t, t - left) < margin:  # so where it is nan
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, True


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

    def at(t: float) -> Point:
        f, g = evaluate(t)
        along = float(g.dot(d))
        return t, f, g.clone(), along

    def rises(now: Point) -> bool:
        return now[1] > f + c1 * now[0] * slope

    def flat(now: Point) -> bool:
        return abs(now[3]) <= -c2 * slope

    bracket, steps = bracketed(at, (0.0, f, g, slope), t, rises, flat, max_steps)
    # Then smaller and smaller brackets around the minimum.
    stuck = False
    low = 0 if bracket[0][1] <= bracket[-1][1] else 1
    while len(bracket) == 2 and steps < max_steps:
        high = 1 - low
        if abs(bracket[1][0] - bracket[0][0]) * largest < tolerance_change:
            break
        t, stuck = between(*bracket, stuck)
        now = at(t)
        steps += 1
        if rises(now) or now[1] >= bracket[low][1]:
            bracket[high] = now
            low = 0 if bracket[0][1] <= bracket[1][1] else 1
        elif flat(now):
            bracket, low = [now], 0
        else:
            if now[3] * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    t, f, g, _ = bracket[low]
    return f, g, t, steps + 1
