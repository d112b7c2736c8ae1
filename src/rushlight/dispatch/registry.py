"""Operators: declared once, called everywhere.

A declaration holds the forward and one gradient rule per input:

    @elementwise(kernel="multiply")
    def mul(input: Array, other: Array):
        '''The product of `input` and `other`, with broadcasting.'''
    mul.grad(input=lambda g, other: g * conj(other), other=lambda g, input: g * conj(input))

Parameters annotated `Array` (`Array | None`, `Arrays` for a list) are tensors, all others are static.
The names a rule takes are what a call saves for backward: `g` (the gradient of the output), an input,
`result` or the names of the outputs, `<input>_shape`, `<input>_dtype`, and any static argument.

Note [Rules and complex numbers]
    The gradient of a holomorphic f is g * conj(f'(z)). Since conj(f'(z)) = f'(conj(z)) for functions
    that are real on the real line, an elementwise rule written for real numbers is right for complex
    ones when what it saved is conjugated first; that is done for it, on the general way. Rules that
    do their own conjugation say `holomorphic=False`.

Note [Two readers of one pipeline]
    A call goes through the stages bind, intercept, unwrap, promote, run, wrap and record. `general.py`
    carries them out one by one and knows everything: Python numbers, promotion, other devices, tensor
    subclasses, modes, several outputs, saved-tensor hooks. `specialise.py` prints them as straight-line
    Python for one kind of call at a time, see Note [Call keys] there. Both record the same graph.

Note [Kernels of rules]
    A rule is written in operators, so that its gradient follows from theirs. It may have a kernel
    that computes the same from arrays, in one step:

        mish.grad(input=mish_rule, kernel="mish_gradient")

    The kernel runs in the rule's place where the backward is not recorded (no `create_graph`) and
    every tensor is a plain array of the back end; the rule runs everywhere else. The kernel is

    - the name of a kernel of the back end, which takes the arguments of the rule in their order. All
      tensors must have the same floating dtype.
    - or a function of arrays, `xp` first, as a forward. Its parameters are named like those of a rule, and
      it may read what the rule does not. The gradient of the output must be floating. It may return
      NotImplemented: then the rule runs.

    A rule that does nothing but arithmetic on its parameters is its own kernel (`nodes.arithmetic`).

    A rule whose operators are others for other elements says so (`@by_elements`): a captured program has it as one call.

Note [Intermediates]
    What a forward computes besides its result, for the gradient alone, it returns after the result, and
    the declaration names it: `@op(intermediates=("weights",))`. Rules and their kernels name it as they
    name an input; callers never see it. It has no history: a rule that reads it takes it for a
    constant, so that an intermediate which depends on the values of inputs belongs to kernels alone.
    Such a forward has a last parameter `keep`, which callers do not pass: False where no backward will
    read the intermediates, which may then be None.
"""

from __future__ import annotations

import threading
from functools import cached_property, lru_cache, update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.core.collector import paused
from rushlight.core.device import device
from rushlight.core.geometry import broadcast_shapes
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = Any  # annotation of an input that is a tensor
Arrays = Any  # annotation of an input that is a list of tensors
Dims = Any  # annotation of dimensions: an int or several
Sizes = Any  # annotation of a shape, which a method takes one by one too: `x.view(2, 3)`
DType = Any
# What these words and Python's own are as types, for programs that ask: `inspect.signature(F.relu)`.
_TYPES: dict[str, Any] = {
    "Array": Tensor, "Tensor": Tensor, "Arrays": list[Tensor], "int": int, "float": float, "bool": bool, "Bool": bool,
    "str": str, "Number": float, "tuple": tuple, "list": list, "DType": dtypes.dtype, "Device": device,
    "Layout": dtypes.layout, "MemoryFormat": dtypes.memory_format, "Sizes": tuple[int, ...],
    "tuple[Tensor, ...]": tuple[Tensor, ...], "tuple[Tensor, Tensor]": tuple[Tensor, Tensor],
}  # fmt: skip
_TYPES |= {f"{word} | None": kind | None for word, kind in _TYPES.items()}
_TYPES["None"] = None

building = threading.RLock()
_unfinished: set[Op] = set()  # operators whose functions are being printed
OPS: dict[str, Op] = {}
ALIASES: dict[str, Op] = {}  # further public paths of operators
PUBLIC: dict[str, tuple[Any, bool]] = {}  # plain functions: path -> (function, is it a method)


def public(
    where: str = "", *, name: str | None = None, method: bool = False,
    overridable: bool = False, primitive: bool = False, doc: str | None = None,
) -> Callable:  # fmt: skip
    """Put a plain function (one that is no operator: `zeros`, `manual_seed`) under its public name.

    `where`: as for operators, "" the top namespace, "Tensor" a method only; `method`: both.
    `overridable`: tensor subclasses and function modes are asked first; `primitive`: it is one call to a
    `__torch_dispatch__`, too. `doc`: the docstring of one of
    several functions with one definition, which gets `name` as its own, too.
    """

    def declare(function: Callable) -> Callable:
        if doc is not None:
            function.__name__ = function.__qualname__ = name
            function.__doc__ = doc
        if overridable or (not where and function.__name__ in general.overrides.WHOLE):
            function = general.overrides.overridable(function, primitive=primitive)
        path = f"{where}.{name or function.__name__}" if where else name or function.__name__
        PUBLIC[path] = (function, method or where == "Tensor")
        return function

    return declare


def types_of(notes: dict[str, Any], one_tensor: bool = False) -> dict[str, Any]:
    """Annotations as types, `Any` where a declaration says no more; `one_tensor`: that is the result."""
    found = {p: _TYPES.get(note, Any) for p, note in notes.items()}
    if one_tensor:
        found["return"] = Tensor
    return found


def annotate(function: Any) -> Any:
    """The plain function, with types as the annotations of it and of the one that it stands before."""
    inner = getattr(function, "__wrapped__", function)
    if isinstance(function, FunctionType) and isinstance(inner, FunctionType):
        if any(note.__class__ is str for note in inner.__annotations__.values()):
            inner.__annotations__ = types_of(inner.__annotations__)
        function.__annotations__ = inner.__annotations__
    return function


def capital(word: str) -> str:
    """A word as it stands in the name of a node: `log1p` is Log1P, `pool2d` is Pool2D."""
    return "".join(c.upper() if k == 0 or word[k - 1].isdigit() else c for k, c in enumerate(word))


class Rule:
    """A gradient rule: a function in operators, and the kernel that may run in its place, or None.

    `names` and `kernel_names` are the parameters of both. See Note [Kernels of rules].
    `optional`: the gradients of outputs (`g_vectors=None`) that are None where nobody sent one; others are zeros then.
    """

    __slots__ = ("by_elements", "function", "kernel", "kernel_names", "names", "optional")

    def __init__(self, function: Callable, kernel: str | Callable | None) -> None:
        self.function, self.kernel = function, kernel
        self.names, self.optional = parameters(function), frozenset(function.__kwdefaults__ or ())
        self.kernel_names = parameters(kernel)[1:] if callable(kernel) else self.names
        self.by_elements = hasattr(function, "by_elements")

    @property
    def reads(self) -> tuple[str, ...]:
        """What the rule or its kernel reads."""
        if self.kernel_names == self.names:
            return self.names
        return tuple(dict.fromkeys((*self.names, *self.kernel_names)))

    def takes(self, env: dict) -> bool:
        """Whether there is a kernel, and what it reads is there."""
        return self.kernel is not None and all(n in env for n in self.kernel_names)


@lru_cache(maxsize=1024)
def names_read(rules: tuple[Rule | None, ...]) -> tuple[frozenset[str], frozenset[str]]:
    given = [r for r in rules if r is not None]
    asked = frozenset(n for r in given for n in r.reads)
    return asked, frozenset(n for r in given for n in r.optional)


def by_elements(rule: Any) -> Any:
    """Decorator of a gradient rule whose operators depend on the elements of what it reads."""
    rule.by_elements = True
    return rule


def parameters(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def on_copy(write: Callable, order: str) -> Callable:
    """The forward that writes to a copy of the array: row-major ("C"; "B": broadcast with the next argument), or as it lies."""

    def forward(xp: Any, a: Any, *args: Any, **options: Any) -> Any:
        if order == "B" and args[0].shape != a.shape:
            a = xp.broadcast_to(a, broadcast_shapes(a.shape, args[0].shape))
        r = xp.copy_like(a, a) if order == "K" else xp.row_major(a)
        write(xp, r, *args, **options)
        return r

    return update_wrapper(forward, write)


SCALARS = frozenset("int float bool Number".split())  # annotations of parameters that are numbers


class Op:
    """One operator: its forward, its gradient rules, and what is known about both."""

    shown: tuple[str, ...] | None  # inputs as `next_functions` has them; "weight.T": transposed
    pytorch_nodes: Callable | None = None  # see Note [Names of nodes] in autograd/graph.py
    never: frozenset[str] = frozenset()  # inputs of `rule_all` that never have a gradient

    def __init__(
        self,
        declared: Callable,
        *,
        kernel: str | None = None,
        promote: str | None = None,
        elementwise: bool = False,
        view: bool = False,
        outputs: tuple[str, ...] | str | None = None,
        inplace: bool = False,
        out: bool = True,
        name: str | None = None,
        where: str = "",
        node: str | tuple[str, str] | Callable | None = None,
        composite: bool = False,
        method: bool | None = None,
        holomorphic: bool | None = None,
        accepts: str | None = None,
        variant: Callable | None = None,
        keyed: str = "",
        scalar_nodes: tuple[str, ...] = (),
        numbers: tuple[str, ...] | None = None,
        intermediates: tuple[str, ...] = (),
        doc: str | None = None,
        first: str | None = None,
        writes: str = "",
        operands: tuple[str, ...] | Callable | None = None,
        shown: tuple[str, ...] | None = None,
    ) -> None:
        self.declared = declared
        declared.__doc__ = doc or declared.__doc__
        self.name = name or declared.__name__
        self.where, self.kernel, self.promote = where, kernel, promote
        self.elementwise, self.view, self.outputs = elementwise, view, outputs
        self.has_inplace, self.has_out, self.composite = inplace, out and not view, composite
        self.path = f"{where}.{self.name}" if where else self.name
        self._node = node
        # kinds of common dtype that an elementwise operator takes ("b" truth values, "i" integers,
        # "f" floating, "c" complex); None: what its kernel takes
        self.accepts = accepts
        # function of the arguments: the operator that takes over when a static one is unusual
        self.variant = variant
        # kinds of common dtype (as for `accepts`) for which all calls of one key have the same variant
        self.keyed = keyed
        # names of the node when the second, or the first, input is a Python number
        self.scalar_nodes = scalar_nodes
        # Tensor has a method of this name: so by default for what stands in the top namespace
        self.is_method = (where in ("", "Tensor")) if method is None else method
        # rules written for real numbers are right for complex ones when they read conjugates
        self.conjugates = elementwise if holomorphic is None else holomorphic
        # what the forward returns after its result, for the rules alone; see Note [Intermediates]
        self.intermediates = intermediates
        # of an operator on a list: a kernel that is tried before the forward; it gives None where the arrays
        # are not plain, or not what it is made for
        self.first = first
        self._read_parameters(declared, numbers)
        # the inputs of an elementwise operator that its result lies in memory like, in their order, or a function that
        # gives them for the inputs that are numbers; () for a row-major result; None for one as the kernel makes it
        self._operands = self.inputs if operands is None and elementwise else operands
        self.shown = shown
        self.rules: dict[str, Rule] = {}
        self.rule_all: Rule | None = None
        # the operator that is recorded of the in-place form, where results of this one have no gradients: `lt_`
        self.recorded_in_place: Op | None = None
        # The declared function overwrites a part of its first array; see `on_copy`.
        self.write, self.copy_order = declared if writes else None, writes
        if writes:
            self.has_inplace = self.is_method
            self.declared = on_copy(declared, writes)
        self._await_calls(declared.__module__)
        before = OPS.get(self.path)
        # An import that Ctrl-C stopped is done again, in another module of the same name.
        if before is not None and (
            before.declared.__module__ != declared.__module__
            or before.declared.__globals__ is declared.__globals__
        ):
            raise TypeError(f"[{self.path}] is declared twice")
        OPS[self.path] = self

    def _read_parameters(self, declared: Callable, numbers: tuple[str, ...] | None) -> None:
        """What the signature says: names, defaults, which parameters are tensors and which are numbers."""
        code = declared.__code__
        names = parameters(declared)
        if self.intermediates:
            if names[-1] != "keep" or code.co_kwonlyargcount:
                raise TypeError(
                    f"[{self.path}] has intermediates: its last parameter must be `keep`"
                )
            names = names[:-1]
        takes_kernels = names[:1] == ("xp",)
        self.has_body = takes_kernels or self.composite
        self.params = names[takes_kernels:]
        self.n_positional = code.co_argcount - takes_kernels - bool(self.intermediates)
        defaults = declared.__defaults__ or ()
        self.defaults = dict(zip(names[code.co_argcount - len(defaults) :], defaults))
        self.defaults.update(declared.__kwdefaults__ or {})
        self.notes = notes = declared.__annotations__
        inputs, statics, lists, scalars = [], [], [], []
        for p in self.params:
            note = str(notes.get(p, ""))
            if note.startswith("Array"):
                inputs.append(p)
                if note.startswith("Arrays"):
                    lists.append(p)
            else:
                statics.append(p)
                if note.removesuffix(" | None") in SCALARS:
                    scalars.append(p)
        self.inputs, self.statics, self.lists = tuple(inputs), tuple(statics), frozenset(lists)
        # inputs of an elementwise operator that may be Python numbers: all but the first
        self.numbers = self.inputs[1:] if numbers is None else numbers
        # parameters that are numbers; a call may have a tensor without dimensions for them
        self.scalars = tuple(scalars)
        self.integers = tuple(p for p in scalars if str(notes[p])[:3] == "int")  # and None
        self.varargs = next(
            (p for p in self.params[1:2] if str(notes.get(p, "")).startswith("Size")), None
        )

    def _await_calls(self, module: str) -> None:
        """What calls fill in: the printed functions, and what they have found out about nodes."""
        self._readers: dict[tuple[str, ...] | None, dict[str, list[str]]] = {}
        self.plans: dict[tuple[str, ...], list] = {}  # see recording.plan
        self.node_classes: dict[str, tuple[type, type]] = {}
        self.number_classes: dict[tuple[str, ...], type | None] = {}
        self.built = False
        # the public function, one object for ever: the first call gives it its code (specialise.build)
        self.scope: dict[str, Any] = {"op": self, "__name__": module}
        self.function: Any = self._lazy_function(self.name.rpartition(".")[2])
        self.scope["function"] = self.function
        self.method: Any = None  # it, or with sizes as separate arguments: `x.view(2, 3)`
        self.operator: Any = None  # behind a Python operator
        self.quiet: Any = general.unknown  # the printed call inside inference_mode, or None
        # call key -> printed function, or None; keys seen once
        self.table: dict[Any, Callable | None] = {}
        self.inplace_table: dict[Any, Callable | None] = {}
        self.seen: set[Any] = set()
        # what overrides are told is called: the plain function around it where there is one, `max` for max over a dim
        self.public_function: Callable = self.function

    # -- declaring ---------------------------------------------------------------------------------

    def grad(self, *, kernel: str | Callable | None = None, **rules: Callable) -> Any:
        """Declare a gradient rule for each input named. `kernel`: what may run in the place of the one rule
        that is declared with it, see Note [Kernels of rules]."""
        if kernel is not None and len(rules) != 1:
            raise TypeError(f"[{self.path}] a kernel belongs to one rule, not to {len(rules)}")
        for wrt, rule in rules.items():
            if wrt not in self.inputs:
                raise TypeError(f"[{self.path}] gradient rule for {wrt!r}, inputs: {self.inputs}")
            self.rules[wrt] = self._checked(Rule(rule, kernel), wrt)
        return self.function

    def grad_all(
        self, rule: Callable, kernel: Callable | None = None, never: tuple[str, ...] = ()
    ) -> Any:
        """Declare one rule for all inputs, or one rule and one kernel: they return a tuple of gradients and
        may name `needs`, a tuple of whether each input needs one. `never`: inputs that have None there always."""
        if not {*never} <= {*self.inputs}:
            raise TypeError(f"[{self.path}] never={never}, inputs: {self.inputs}")
        self.never = frozenset(never)
        self.rule_all = self._checked(Rule(rule, kernel), "*", "needs")
        return self.function

    def alias(self, *paths: str) -> Any:
        """Further public names: `acos.alias("arccos")`, `sigmoid.alias("special.expit")`."""
        for path in paths:
            ALIASES[path] = self
        return self.function

    def _checked(self, rule: Rule, wrt: str, *more: str) -> Rule:
        known = {"g", "result", *self.params, *self.intermediates, *more}
        if known.issuperset(rule.reads):
            return rule
        known |= {f"{i}_shape" for i in self.inputs} | {f"{i}_dtype" for i in self.inputs}
        if isinstance(self.outputs, tuple):
            known |= set(self.outputs) | {f"g_{o}" for o in self.outputs}
        if not known.issuperset(rule.reads):
            raise TypeError(
                f"[{self.path}] bad gradient rule {wrt}={rule.reads}: may only name {sorted(known)}"
            )
        return rule

    # -- what follows from the declaration ---------------------------------------------------------

    @property
    def differentiable(self) -> bool:
        return bool(self.rules) or self.rule_all is not None

    def read_by_rules(self) -> tuple[frozenset[str], frozenset[str]]:
        """What the gradient rules read, and which of it may be None."""
        return names_read((*self.rules.values(), self.rule_all))

    def is_read(self, name: str) -> bool:
        """Whether a rule reads what was saved by a name; kernels alone read some of several results, and no rule does."""
        rules = [rule for rule in (*self.rules.values(), self.rule_all) if rule is not None]
        return self.outputs is None or any(name in rule.names for rule in rules)

    def node_name(self, statics: dict | None = None) -> str:
        """The name of the recorded node: PyTorch's, from the operator's unless declared."""
        if callable(self._node):
            return self._node(**(statics or {}))
        if self._node.__class__ is tuple:  # without and with `dim`: SumBackward0, SumBackward1
            return self._node[bool(statics) and statics["dim"] is not None]
        if self._node:
            return self._node
        words = (self.where.removeprefix("nn.functional") + "_" + self.name).split("_")
        self._node = "".join(map(capital, words)) + "Backward0"
        return self._node

    @property
    def names_node(self) -> bool:
        """The node's name depends on the static arguments."""
        return callable(self._node) or self._node.__class__ is tuple

    @property
    def node_pair(self) -> bool:
        """One node name without `dim`, another with it."""
        return self._node.__class__ is tuple

    def wanted(self) -> tuple[str, ...]:
        """The inputs that can have a gradient."""
        return self.inputs if self.rule_all else tuple(i for i in self.inputs if i in self.rules)

    def saved_names(self, only: tuple[str, ...] | None = None) -> dict[str, list[str]]:
        """What the rules of the inputs `only` (default: all) read: name -> the inputs they are of."""
        readers = self._readers.get(only)
        if readers is not None:
            return readers
        readers = self._readers[only] = {}
        for wrt in self.wanted() if only is None else only:
            for n in (self.rule_all or self.rules[wrt]).reads:
                if n not in ("g", "needs"):
                    readers.setdefault(n, []).append(wrt)
        return readers

    def node_name_with_numbers(self, numbers: list[str]) -> str | None:
        """The name of the node of a call with numbers for these inputs, where it is another one: PowBackward0 of
        `x ** 2`, PowBackward2 of `2 ** x`."""
        for i, name in zip(reversed(self.inputs), self.scalar_nodes):
            if i in numbers:
                return name
        return None

    def shown_edges(self, node_name: str) -> dict[str, tuple[int, ...]]:
        """What the node classes of one name have as `shown` and `transposed`. Inputs without a rule are left out, and the
        number that the name is of."""
        if self.lists:
            return {}
        ruled = self.inputs if self.rule_all else self.rules
        names = [i for i in self.inputs if i in ruled and i not in self.never]
        if node_name in self.scalar_nodes:
            number = self.inputs[-1 - self.scalar_nodes.index(node_name)]
            names = [i for i in names if i != number]
        if self.shown is not None:
            names = [i for i in self.shown if i.removesuffix(".T") in names]
        if names == [*self.inputs]:
            return {}
        return {
            "_shown": tuple(self.inputs.index(i.removesuffix(".T")) for i in names),
            "_transposed": tuple(self.inputs.index(i[:-2]) for i in names if i.endswith(".T")),
        }

    def classes(self, name: str) -> tuple[type, type]:
        """The node classes under one name: (straight-line, general)."""
        found = self.node_classes.get(name)
        if found is None:
            from rushlight.dispatch import nodes

            found = nodes.node_class(self, name)
        return found

    def operands(self, numbers: Sequence[str] = ()) -> tuple[str, ...] | None:
        """The inputs that the result lies in memory like, where `numbers` are Python numbers: Note [Layouts of
        results]."""
        found = self._operands
        return found(numbers) if callable(found) else found

    def taken_over(self, named: dict) -> Op | None:
        """The operator that takes over for unusual static arguments, or None."""
        other = None if self.variant is None else self.variant(**named)
        # a name of an operator may stand for its function by now: see `build`
        return getattr(other, "op", other)

    # -- calling -----------------------------------------------------------------------------------

    def _lazy_function(self, name: str) -> Any:
        """The public function before its first call, which gives it its code."""
        function: Any = FunctionType(_first_call.__code__, self.scope, name)
        function.__qualname__, function.__module__ = name, self.declared.__module__
        function.__doc__ = self.declared.__doc__
        function.op, function.grad, function.grad_all = self, self.grad, self.grad_all
        function.alias = self.alias
        if self.composite:
            function.__wrapped__ = self.declared
        return function

    def build(self) -> Op:
        """The operator, its functions printed."""
        if not self.built:
            with paused():
                from rushlight.dispatch import specialise

            with building:  # one thread prints; it may come here again from within
                if not self.built and self not in _unfinished:
                    _unfinished.add(self)
                    try:
                        specialise.build(self)
                        self.built = True
                    finally:  # Ctrl-C: the next call begins again
                        _unfinished.discard(self)
        return self

    @cached_property
    def inplace(self) -> Any:
        """The method `name_`, printed when it is first asked for; None where there is none."""
        from rushlight.dispatch import specialise

        self.build()
        with building:
            return specialise.inplace_function(self) if self.has_inplace or self.write else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def by_names(self, values: dict[str, Any]) -> Any:
        """A call with the values of the parameters under their names."""
        n, params = self.n_positional, self.params
        if n == len(params):
            return self.function(*[values[p] for p in params])
        return self.function(*[values[p] for p in params[:n]], **{p: values[p] for p in params[n:]})

    def __repr__(self) -> str:
        return f"<operator {self.path}>"


def _first_call(*args: Any, **kwargs: Any) -> Any:
    op.build()  # type: ignore[attr-defined]  # `op` and `function` are those of an operator's scope
    return function(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def elementwise(
    kernel: str | None = None, promote: str | None = "same", **options: Any
) -> Callable[[Callable], Any]:
    """Declare an operator that works element by element, with broadcasting and promotion.

    `promote`: "same" (result in the common dtype), "float" (integers become the default float
    dtype), "bool" (compares in the common dtype), None (arrays are handed over as they are).
    """
    options.setdefault("inplace", True)

    def declare(function: Callable) -> Any:
        return Op(function, kernel=kernel, promote=promote, elementwise=True, **options).function

    return declare


def op(**options: Any) -> Callable[[Callable], Any]:
    """Declare any other operator: `def name(xp, input: Array, ...)`, arrays in, array(s) out."""

    def declare(function: Callable) -> Any:
        return Op(function, **options).function

    return declare


def composite(function: Callable | None = None, **options: Any) -> Any:
    """Declare an operator that is written in other operators: tensors in, tensors out."""

    def declare(function: Callable) -> Any:
        return Op(function, composite=True, **options).function

    return declare if function is None else declare(function)


def no_derivative(name: str) -> Any:
    """The rule of an input for which PyTorch has no derivative either."""

    def rule(g: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    rule.absent = name.partition(":")[0]  # type: ignore[attr-defined]  # what forward mode says
    return rule


def no_gradients(name: str) -> Any:
    """The rule of the inputs of an operator of which PyTorch records that it has no gradients: its node is `NotImplemented`."""

    def rule(g: Tensor) -> Tensor:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    rule.absent = name  # type: ignore[attr-defined]  # what forward mode says
    return rule
