"""`torch.fx.Node`: one operation of a graph, its arguments, and the nodes that use its result."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core import dtypes
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.names import qualified_name, target_name, type_name

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = (
    str | int | float | bool | complex | dtypes.dtype | rushlight.Tensor | rushlight.device
)
Target = Callable[..., Any] | str
Argument = Any

LEGAL_OPS = frozenset(
    "placeholder get_attr call_function call_method call_module output root".split()
)
# Modules whose functions are listed in a graph, though nobody uses their result.
_side_effectful_functions: set[Callable] = {rushlight._assert}
_get_qualified_name, _type_repr = qualified_name, type_name


_LEAVES = {int, float, bool, str, type(None)}  # and nodes: what holds nothing


def has_side_effect(fn: Callable) -> Callable:
    """Keep calls of `fn` when dead code is eliminated; also a decorator."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every leaf of nested tuples, lists, dicts and slices; containers become immutable.

    >>> map_aggregate((1, [2, {"k": 3}]), lambda x: x * 10)
    (10, [20, {'k': 30}])
    """
    kind = a.__class__
    if kind in _LEAVES:
        return fn(a)
    if kind is tuple:
        return tuple([map_aggregate(x, fn) for x in a])
    if isinstance(a, tuple):
        mapped = [map_aggregate(x, fn) for x in a]
        return type(a)(*mapped) if hasattr(a, "_make") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Apply `fn` to every Node in nested arguments."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as printed graphs show it: nodes as `%name`."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        rest = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else ""
        text = ", ".join(shown) + rest
        if isinstance(arg, list):
            return f"[{text}]"
        return f"({text},)" if len(arg) == 1 else f"({text})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return "%" + str(arg) if isinstance(arg, Node) else str(arg)


class Node:
    """One line of a graph: an operation, its target, its arguments.

    - `placeholder`: an input; `target` is the parameter's name, `args` its default.
    - `get_attr`: a parameter, buffer or submodule; `target` is its path in the module.
    - `call_function`: `target(*args, **kwargs)`.
    - `call_module`: calls the submodule at the path `target`.
    - `call_method`: calls the method named `target` of `args[0]`.
    - `output`: `args[0]` is what the graph returns.
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...],
        kwargs: dict[str, Argument], return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in LEGAL_OPS:
            raise AssertionError(f"op must be one of {sorted(LEGAL_OPS)}, got {op!r}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                    "but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.type = return_type
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self.meta: dict[str, Any] = {}
        self._args: tuple = ()
        self._kwargs: dict[str, Any] = {}
        self._set(args, kwargs)

    # ------------------------------------------------------------------------- position

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to the place before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            warnings.warn(
                "Trying to prepend a node to itself. This behavior has no effect on the graph.",
                stacklevel=2,
            )
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to the place after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _position(self) -> int:
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    def __lt__(self, other: Node) -> bool:
        return self._position() < other._position()

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ------------------------------------------------------------------------ arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assigning keeps the uses of all nodes right."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assigning keeps the uses of all nodes right."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set(self._args, k)

    def _set(self, args: Any, kwargs: Any) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(x: Any) -> Any:
            if isinstance(x, Node):
                self._input_nodes.setdefault(x)
                x.users.setdefault(self)
            return x

        self._args = tuple(map_aggregate(tuple(args), use))
        self._kwargs = map_aggregate(dict(kwargs), use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Set the positional argument `idx`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before number `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument `key`."""
        self.kwargs = {**self.kwargs, key: arg}

    @property
    def stack_trace(self) -> str | None:
        """Where the program called it, if the tracer recorded that."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    # ------------------------------------------------------------------------------ uses

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Use `replace_with` wherever this node is used; returns the users that were changed.

        `delete_user_cb(user)` says which users change: all by default.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is not None and not delete_user_cb(user):
                continue
            changed.append(user)
            self.graph._renamed_in_owner(self, replace_with, user)
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever `old_input` stands among the arguments."""

        def swap(n: Node) -> Node:
            return new_input if n is old_input else n

        self._set(map_arg(self.args, swap), map_arg(self.kwargs, swap))

    def is_impure(self) -> bool:
        """Whether the node must stay though nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions:
                return True
            name = getattr(self.target, "__name__", "")
            if getattr(self.target, "__module__", None) == "_operator":
                return name in ("setitem", "delitem") or name in _IN_PLACE_OPERATORS
            overload = getattr(self.target, "overloadpacket", None)
            name = getattr(overload, "__name__", name)
            return overload is not None and name.endswith("_") and not name.endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:  # fmt: skip
        """The arguments bound to the parameters of the target: (args, kwargs), or None if that is not possible."""
        from rushlight.fx import operator_schemas

        if self.op == "call_function":
            return operator_schemas.normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return operator_schemas.normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    # ------------------------------------------------------------------------------ text

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def __deepcopy__(self, memo: dict) -> Node:
        if self not in memo:
            raise RuntimeError("a node is copied with its graph: copy.deepcopy(node.graph)")
        return memo[self]

    def _pretty_print_target(self, target: Target) -> str:
        return target_name(target)

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, *, include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """The node as a line of a printed graph."""
        kind = f"{type_name(self.type)} " if self.type else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(f"{self.target}: {kind}" if kind else str(self.target))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        head += f"[target={target_name(self.target)}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"


_IN_PLACE_OPERATORS = frozenset(
    name for name in vars(operator) if name[0] == "i" and name[1:].strip("_") in vars(operator)
    and name not in ("is_", "is_not", "index", "invert", "inv")
)  # fmt: skip
