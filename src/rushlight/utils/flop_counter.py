"""`FlopCounterMode`: how many floating point operations the matrix products of a program take.

A multiplication and the addition after it are two operations; operators that are no products count as nothing. Counts go
by PyTorch's operators (`torch.ops.aten.mm`) and by the modules that called them, in forward and in backward. The mode
gets the operators below autograd, as any `TorchDispatchMode` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import rushlight
from rushlight.autograd.graph import followers
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overloads import OpOverloadPacket
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map_only

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten, own = rushlight.ops.aten, rushlight.ops.rushlight

# -- formulas: the operations of an operator, from its arguments with shapes in the place of tensors -----------

flop_registry: dict[Any, Callable] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable:
    """A decorator: the function counts the floating-point operations of the operators `targets`.

    It is called with their arguments, in which shapes stand for tensors, and with `out_shape=`; with `get_raw` with the
    tensors themselves, and with `out_val=`.

    >>> import rushlight as torch
    >>> @register_flop_formula(torch.ops.aten.cumsum)
    ... def flops(x_shape, dim, out_shape=None, **options):
    ...     return x_shape[0]
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = torch.ones(5).cumsum(0)
    >>> counter.get_flop_counts()["Global"][torch.ops.aten.cumsum]
    5
    """

    def register(formula: Callable) -> Callable:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else of_shapes(formula)
        return formula

    return register


def of_shapes(formula: Callable) -> Callable:
    """A formula of shapes as one of tensors."""

    @wraps(formula)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = tree_map_only(Tensor, lambda t: t.shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return counted


@register_flop_formula(aten.mm)
def mm_flop(a: Any, b: Any, *_: Any, out_shape: Any = None, **options: Any) -> int:
    """The operations of `a @ b`."""
    return 2 * prod(a) * b[-1]


@register_flop_formula(aten.bmm)
def bmm_flop(a: Any, b: Any, out_shape: Any = None, **options: Any) -> int:
    """The operations of a batch of products."""
    return 2 * prod(a) * b[-1]


@register_flop_formula([aten.addmm, aten.baddbmm])
def addmm_flop(x: Any, a: Any, b: Any, out_shape: Any = None, **options: Any) -> int:
    """The operations of `x + a @ b`, without those of the addition."""
    return 2 * prod(a) * b[-1]


@register_flop_formula(aten.convolution)
def conv_flop(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *_: Any,
    out_shape: Any = None, **options: Any,
) -> int:  # fmt: skip
    """Every output sums a window; transposed, every input is spread over one."""
    size = x[2:] if transposed else out_shape[2:]
    return 2 * x[0] * prod(size) * prod(w)


@register_flop_formula(own.internal_convolution_weight)
def conv_weight_flop(x: Any, g: Any, kernel: Any, *rest: Any, out_shape: Any = None) -> int:
    """The operations of the gradient of the weight."""
    return 2 * x[0] * prod(g[2:]) * prod(out_shape)


@register_flop_formula(own._attention)
def attention_flop(q: Any, k: Any, v: Any, *_: Any, out_shape: Any = None) -> int:
    """Two products."""
    return 2 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


@register_flop_formula(own._attention_backward)
def attention_backward_flop(g: Any, q: Any, k: Any, v: Any, *_: Any, out_shape: Any = None) -> int:
    """The forward's two products, for each of their two factors."""
    return 4 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


# Operators that count as another one; in a backward, where that is second.
NAMED = {
    aten.convolution: (aten.convolution, aten.convolution_backward),
    own.internal_convolution_weight: (aten.convolution_backward,) * 2,
    own._attention: (aten.scaled_dot_product_attention,) * 2,
    own._attention_backward: (aten._scaled_dot_product_attention_backward,) * 2,
}


# -- counting ------------------------------------------------------------------------------------------------

_backward: list[Any] = []  # the nodes that are running
_on: list[Any] = []


def _watch(node: Any, run: Callable) -> Any:
    _backward.append(node)
    profiler = type(thread).node_watch
    try:
        return run() if profiler is None else profiler(node, run)
    finally:
        _backward.pop()


class FlopCounterMode(TorchDispatchMode):
    """Counts inside a `with` statement; prints a table at its end unless `display=False`.

    `depth`: how deep the table goes into the modules. `custom_mapping`: {operator: formula of shapes} for this counter. `mods` is accepted for older programs: modules are found by themselves.

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
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        own_formulas = {
            target: formula if getattr(formula, "_get_raw", False) else of_shapes(formula)
            for target, formula in (custom_mapping or {}).items()
        }
        self.formulas = flop_registry | own_formulas
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
        thread.node_watch = _watch  # of this thread; the profiler's is the class's
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func.overloadpacket)
        if formula is not None:
            names = NAMED.get(func.overloadpacket, (func.overloadpacket,) * 2)
            flops = formula(*args, **(kwargs or {}), out_val=result)
            self._count(names[bool(_backward)], flops)
        return result

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _on.remove(self)
        if not _on:
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
                open_nodes += followers(node)

    def _count(self, name: Any, flops: int) -> None:
        inside = self._made_in.get(_backward[-1], ()) if _backward else self._inside
        for module in dict.fromkeys(("Global", *inside)):
            self.flop_counts[module][name] += flops

    # -- results

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
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
