"""`PassManager`: runs passes in an order that keeps their constraints, until nothing changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable) -> Callable:
    """A pass that returns a PassResult, of one that changes the module in place and returns nothing."""

    @wraps(fn, assigned=[a for a in ("__name__", "__doc__") if hasattr(fn, a)])
    def run(gm: GraphModule) -> PassResult:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    if not inspect.isfunction(fn):
        run.__name__ = str(type(fn))
    return run


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable:
    """A constraint: `this` comes before `that`."""

    def holds(a: Callable, b: Callable) -> bool:
        return not (a == that and b == this)

    return holds


def _topological_sort_passes(passes: list[Callable], constraints: list[Callable]) -> list[Callable]:
    """The passes in an order that keeps all constraints; RuntimeError if there is none."""
    if not constraints:
        return passes
    after: dict[int, set[int]] = {i: set() for i in range(len(passes))}
    for i, a in enumerate(passes):
        for j, b in enumerate(passes):
            if a is not b and not all(constraint(a, b) for constraint in constraints):
                after[i].add(j)  # i may not stand before j
    done: list[int] = []
    while len(done) < len(passes):
        free = [i for i in after if i not in done and after[i] <= set(done)]
        if not free:
            left = [passes[i] for i in after if i not in done]
            raise RuntimeError(f"Circular dependency detected within the following passes: {left}")
        done.append(free[0])
    return [passes[i] for i in done]


class PassManager:
    """Runs passes one after the other, up to `steps` times while something changes."""

    def __init__(
        self, passes: list[Callable] | None = None, constraints: list[Callable] | None = None,
        steps: int | None = None, run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:  # fmt: skip
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or 1
        self._validated = False
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Callable) -> None:
        """Add a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        """Add a constraint: a function of two passes, false if they may not stand in this order."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """RuntimeError if the passes are not in an order that keeps the constraints."""
        if self._validated:
            return
        for i, a in enumerate(self.passes):
            for b in self.passes[i + 1 :]:
                if not all(constraint(a, b) for constraint in self.constraints):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} "
                        "in pass list."
                    )
        self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that keeps the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable) -> None:
        """Set a function of the module that raises if the module is wrong."""
        parameters = inspect.signature(check).parameters
        if len(parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """Raise if the module is wrong; `add_checks` sets it."""

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                try:
                    result = fn(module)
                    if not isinstance(result, PassResult):
                        raise TypeError(
                            f"The result of the pass {_name(fn)} should be type PassResult. Please wrap it with "
                            "pass_result_wrapper()"
                        )
                except Exception as error:
                    before = [_name(p) for p in self.passes[:i]]
                    raise type(error)(
                        f"An error occurred when running the '{_name(fn)}' pass after the following passes: "
                        f"{before}"
                    ) from error
                module, changed = result.graph_module, result.modified
                modified |= changed
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            self.check(module)
            overall |= modified
            if not modified:
                break
        return PassResult(module, overall)  # type: ignore[arg-type]


def _name(fn: Any) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
