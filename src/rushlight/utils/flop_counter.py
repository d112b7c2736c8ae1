"""`FlopCounterMode`: how many floating point operations the matrix products of a program take.

A multiplication and the addition after it are two operations; operators that are no products count as nothing. Counts go
by PyTorch's names of operators (`aten.mm`, `aten.convolution`) and by the modules that called them, in forward and in
backward.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from rushlight.autograd.state import count_mode, thread
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor
from rushlight.dispatch.interpreters import INTERPRETERS, Call
from rushlight.dispatch.overrides import NOTHING
from rushlight.dispatch.record import around_kernels
from rushlight.dispatch.registry import OPS

__all__ = ["FlopCounterMode", "register_flop_formula"]


# -- formulas: (PyTorch's name of the operator, its operations), from the values of the parameters ------------


def _product(a: Tensor, b: Tensor, dims: tuple[int, int, int]) -> tuple[str, int]:
    """`dims`: rows, inner and columns of the product."""
    batch = a.shape[:-2] if a.ndim >= b.ndim else b.shape[:-2]
    folded = a.ndim <= 2 or b.ndim <= 2
    return "aten.mm" if folded else "aten.bmm", 2 * prod(batch) * prod(dims)


def _matmul(values: list) -> tuple[str, int] | None:
    a, b = values[:2]
    if a.ndim < 2 or b.ndim < 2:
        return None  # with a vector: PyTorch does not count it
    return _product(a, b, (a.shape[-2], a.shape[-1], b.shape[-1]))


def _times_adjoint(values: list) -> tuple[str, int]:
    a, b = values[:2]
    return _product(a, b, (a.shape[-2], a.shape[-1], b.shape[-2]))


def _adjoint_times(values: list) -> tuple[str, int]:
    a, b = values[:2]
    return _product(a, b, (a.shape[-1], a.shape[-2], b.shape[-1]))


def _linear(values: list) -> tuple[str, int] | None:
    x, weight, bias = values[:3]
    count = 2 * x.numel() * weight.shape[0]
    return ("aten.addmm" if bias is not None else "aten.mm"), count


def _added(name: str) -> Callable:
    def flops(values: list) -> tuple[str, int]:
        a, b = values[1:3]
        return name, 2 * a.numel() * b.shape[-1]

    return flops


def _convolution(values: list) -> tuple[str, int]:
    x, weight, _, stride, padding, dilation, transposed = values[:7]
    kernel = weight.shape[2:]
    batch = x.shape[0] if x.ndim == weight.ndim else 1
    size = x.shape[-len(kernel) :]
    if not transposed:  # every output sums a window; transposed, every input is spread over one
        size = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)
        ]
    name = "aten.convolution_backward" if _backward else "aten.convolution"
    return name, 2 * batch * prod(size) * weight.numel()


def _convolution_weight(values: list) -> tuple[str, int]:
    x, g, kernel, *_, groups = values
    batch = x.shape[0]
    count = 2 * batch * prod(g.shape[2:]) * g.shape[1] * x.shape[1] // groups * prod(kernel)
    return "aten.convolution_backward", count


def _attention(products: int, name: str, first: int = 0) -> Callable:
    """`first`: the index of the query argument."""

    def flops(values: list) -> tuple[str, int]:
        q, k, v = values[first : first + 3]
        pairs = prod(q.shape[:-1]) * k.shape[-2]
        return name, products * pairs * (q.shape[-1] + v.shape[-1])

    return flops


_FORMULAS: dict[str, Callable[[list], tuple[str, int] | None]] = {
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "internal.times_adjoint": _times_adjoint,
    "internal.adjoint_times": _adjoint_times,
    "nn.functional.linear": _linear,
    "addmm": _added("aten.addmm"),
    "baddbmm": _added("aten.baddbmm"),
    "internal.convolution": _convolution,
    "internal.convolution_weight": _convolution_weight,
    "_attention": _attention(2, "aten.scaled_dot_product_attention"),
}

# The same of gradients, where a rule has a kernel: by the path of the operator, from the kernel's arguments.
_GRADIENTS: dict[str, Callable[[list], tuple[str, int] | None]] = {
    # forwards' two products for each of the two factors
    "_attention": _attention(4, "aten.scaled_dot_product_attention_backward", 1),
}


declare(
    "no-op",
    "Formulas get tensors, as with get_raw=True.",
    __name__,
    "register_flop_formula(get_raw=)",
)


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable:
    """A decorator: the function, called with the arguments of the operators `targets`, tells their operations.

    Targets are public functions (`torch.cumsum`) or names of operators ("cumsum").

    >>> import rushlight as torch
    >>> @register_flop_formula(torch.cumsum)
    ... def flops(x, dim, **options):
    ...     return x.numel()
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = torch.ones(5).cumsum(0)
    >>> counter.get_flop_counts()["Global"]["aten.cumsum"]
    5
    """

    def register(formula: Callable) -> Callable:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            _FORMULAS[_path(target)] = _of_user(target, formula)
        return formula

    return register


def _path(target: Any) -> str:
    if isinstance(target, str):
        return target
    op = getattr(target, "__dict__", {}).get("op")  # `torch.ops.aten.sin` makes any attribute
    return op.path if op is not None else target.__name__.partition(".")[0]


def _of_user(target: Any, formula: Callable) -> Callable:
    path = _path(target)
    name = f"aten.{path.rpartition('.')[2]}"

    def flops(values: list) -> tuple[str, int]:
        op = OPS[path]
        n = op.n_positional
        options = dict(zip(op.params[n:], values[n:], strict=True))
        return name, int(formula(*values[:n], **options))

    return flops


# -- counting ------------------------------------------------------------------------------------------------


_on: list[FlopCounterMode] = []
_backward: list[Any] = []  # the nodes that are running


def _count_call(call: Call) -> Any:
    """Count a call while a counter is active; the call itself is unchanged."""
    for mode in _on:
        formula = mode.formulas.get(call.op.path)
        if formula is not None and (counted := formula(call.values)) is not None:
            mode._count(*counted)
    return NOTHING


def _around_kernel(op: Any, arrays: tuple, call: Callable) -> Any:
    """Called around every kernel of a gradient rule while a counter is on."""
    formula = _GRADIENTS.get(op.path)
    if formula is not None and (counted := formula(list(arrays))) is not None:
        for mode in _on:
            mode._count(*counted)
    return call()


def _watch(node: Any, run: Callable) -> Any:
    _backward.append(node)
    profiler = type(thread).node_watch
    try:
        return run() if profiler is None else profiler(node, run)
    finally:
        _backward.pop()


class FlopCounterMode:
    """Counts inside a `with` statement; prints a table at its end unless `display=False`.

    `depth`: how deep the table goes into the modules. `custom_mapping`: {operator: formula}, as `register_flop_formula`
    takes them, for this counter. `mods` is accepted for older programs: modules are found by themselves.

    >>> import rushlight as torch
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = torch.nn.Linear(3, 4)(torch.ones(5, 3))
    >>> counter.get_total_flops()
    120
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Callable] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.formulas = dict(_FORMULAS)
        for target, formula in (custom_mapping or {}).items():
            self.formulas[_path(target)] = _of_user(target, formula)
        self._names: WeakKeyDictionary = WeakKeyDictionary()  # of modules
        self._inside: list[str] = []  # the modules that are running
        self._made_in: WeakKeyDictionary = WeakKeyDictionary()  # node -> the modules it was made in
        self._hooks: list[Any] = []

    def __enter__(self) -> FlopCounterMode:
        import rushlight

        hooks = rushlight.nn.hooks
        self.flop_counts.clear()
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        _on.append(self)
        if len(_on) == 1:
            INTERPRETERS.insert(0, _count_call)  # before autocast
            around_kernels.append(_around_kernel)
            thread.node_watch = _watch  # of this thread; the profiler's is the class's
        count_mode(+1)
        return self

    def __exit__(self, *error: object) -> None:
        count_mode(-1)
        _on.remove(self)
        if not _on:
            INTERPRETERS.remove(_count_call)
            around_kernels.remove(_around_kernel)
            del thread.node_watch
        for hook in self._hooks:
            hook.remove()
        self._inside.clear()
        self._made_in.clear()
        if self.display:
            print(self.get_table())

    # -- modules

    def _enter_module(self, module: Any, args: tuple) -> None:
        if module not in self._names:
            name = type(module).__name__
            for path, part in module.named_modules():
                self._names.setdefault(part, f"{name}.{path}" if path else name)
        self._claim(args)  # what was made before belongs outside
        self._inside.append(self._names[module])

    def _leave_module(self, module: Any, args: tuple, result: Any) -> None:
        self._claim(result)
        if self._inside:
            self._inside.pop()

    def _claim(self, things: Any) -> None:
        """Remember that the part of the graph behind these tensors that is new was made by the modules running now."""
        open_nodes = [t.grad_fn for t in _tensors(things)]
        while open_nodes:
            node = open_nodes.pop()
            if node is not None and node not in self._made_in:
                self._made_in[node] = tuple(self._inside)
                open_nodes += [each for each, _ in node.next_functions]

    def _count(self, name: str, flops: int) -> None:
        inside = self._made_in.get(_backward[-1], ()) if _backward else self._inside
        for module in dict.fromkeys(("Global", *inside)):
            self.flop_counts[module][name] += flops

    # -- results

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """{module: {operator: operations}}; "Global" is everything, a module contains its parts."""
        return {module: dict(counts) for module, counts in self.flop_counts.items() if counts}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: modules `depth` levels deep, with their operators and their shares."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for module in sorted(self.flop_counts, key=lambda m: (m != "Global", m)):
            level = 0 if module == "Global" else module.count(".") + 1
            counts = self.flop_counts[module]
            if level > depth or not counts:
                continue
            lead = " " * level
            rows.append((f"{lead}{module}", *_share(sum(counts.values()), total)))
            rows += [(f"{lead} - {op}", *_share(n, total)) for op, n in counts.items()]
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2]))
        return "\n".join(
            f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows
        )


def _share(n: int, total: int) -> tuple[str, str]:
    units = (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3), ("", 1.0))
    unit, size = next((pair for pair in units if n >= pair[1]), units[-1])
    return f"{n / size:.3f}{unit}", f"{100 * n / max(total, 1):.2f}%"


def _tensors(things: Any) -> Iterator[Tensor]:
    if isinstance(things, Tensor):
        yield things
    elif isinstance(things, (tuple, list)):
        for each in things:
            yield from _tensors(each)
    elif isinstance(things, dict):
        yield from _tensors(list(things.values()))
