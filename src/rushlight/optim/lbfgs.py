"""L-BFGS: a quasi-Newton method over all parameters at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.line_search import strong_wolfe
from rushlight.optim.optimizer import Optimizer, check_lr

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps along the inverse Hessian as the last steps show it (Nocedal 1980).

    One group of parameters. `step` needs a closure that clears gradients, computes the loss and
    calls backward; it is called several times. `line_search_fn`: None or "strong_wolfe".

    State, under the first parameter: `func_evals`, `n_iter`, `d` the direction, `t` the step's
    length, `old_dirs` y, `old_stps` s, `ro` 1 / (y . s), `H_diag`, `prev_flat_grad`, `prev_loss`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        parts = []
        for p in self._params:
            grad = p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)
            parts.append(rushlight.view_as_real(grad).reshape(-1) if grad.is_complex() else grad)
        return rushlight.cat(parts, 0)

    def _move(self, length: float, direction: Tensor) -> None:
        """Add `length` times the flat direction to the parameters."""
        offset = 0
        for p in self._params:
            flat = rushlight.view_as_real(p) if p.is_complex() else p
            n = flat.numel()
            flat.add_(direction[offset : offset + n].view_as(flat), alpha=float(length))
            offset += n

    def _probe(self, closure: Any, start: list[Tensor], direction: Tensor, length: float) -> Any:
        """Loss and gradient `length` along the direction; the parameters stay where they are."""
        self._move(length, direction)
        loss = float(closure())
        grad = self._flat_grad()
        for p, value in zip(self._params, start, strict=True):
            p.copy_(value)
        return loss, grad

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; returns the loss before the first."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients")

        def evaluate() -> Any:
            with rushlight.enable_grad():
                return closure()

        with rushlight.no_grad():
            return self._minimise(evaluate)

    def _minimise(self, closure: Callable[[], Any]) -> Any:
        """What `step` does: up to `max_iter` directions, each from the last gradients, and how far to go along
        them."""
        group = self.param_groups[0]
        lr, change = group["lr"], group["tolerance_change"]
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss

        d, t = state.get("d"), state.get("t")
        previous_grad, previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        history = {name: state.get(name) for name in ("old_dirs", "old_stps", "ro", "H_diag")}
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d = grad.neg()
                history = {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1}
            else:
                d = self._direction(state, history, grad, grad - previous_grad, d * t)
            if previous_grad is None:
                previous_grad = grad.clone()
            else:
                previous_grad.copy_(grad)
            previous_loss = loss

            # The first direction is the bare gradient, whose length says nothing.
            t = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = float(grad.dot(d))
            if slope > -change:
                break
            used = 0
            if search is not None:
                start = [p.clone() for p in self._params]
                probe = functools.partial(self._probe, closure, start, d)
                loss, grad, t, used = strong_wolfe(probe, t, d, loss, grad, slope)
                self._move(t, d)
                optimal = grad.abs().max() <= group["tolerance_grad"]
            else:
                self._move(t, d)
                optimal = False
                if iterations != group["max_iter"]:
                    # Not after the last iteration: the next call begins with an evaluation.
                    loss = float(closure())
                    grad = self._flat_grad()
                    optimal = grad.abs().max() <= group["tolerance_grad"]
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if (
                iterations == group["max_iter"]
                or evaluations >= group["max_eval"]
                or optimal
                or float(d.mul(t).abs().max()) <= change
                or abs(loss - previous_loss) < change
            ):
                break

        state.update(d=d, t=t, **history, prev_flat_grad=previous_grad, prev_loss=previous_loss)
        return first_loss

    def _direction(
        self, state: dict[str, Any], history: dict[str, Any], grad: Tensor, y: Tensor, s: Tensor
    ) -> Tensor:
        """Nocedal and Wright, algorithm 7.4: the two loops over the last steps."""
        ys, steps, rhos = history["old_dirs"], history["old_stps"], history["ro"]
        size = self.param_groups[0]["history_size"]
        curvature = y.dot(s)
        if curvature > 1e-10:
            if len(ys) == size:
                for kept in (ys, steps, rhos):
                    kept.pop(0)
            ys.append(y)
            steps.append(s)
            rhos.append(1.0 / curvature)
            history["H_diag"] = curvature / y.dot(y)
        alphas = state.setdefault("al", [None] * size)
        q = grad.neg()
        for i in reversed(range(len(ys))):
            alphas[i] = steps[i].dot(q) * rhos[i]
            q.add_(ys[i], alpha=-alphas[i].item())
        r = q.mul(history["H_diag"])
        for i in range(len(ys)):
            beta = ys[i].dot(r) * rhos[i]
            r.add_(steps[i], alpha=(alphas[i] - beta).item())
        return r
