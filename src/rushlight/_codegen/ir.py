"""The kernels' intermediate representation: typed, structured, plain data.

A `Module` is a list of functions, the first of which is the kernel. A function is a list of
statements; loops and branches hold theirs. Variables are named and have one type each; what a
variable holds changes by `Let`. Expressions are trees without effects, and nobody changes one that
is made (frozen, they would take three times as long to make). `check.py` says what is
well-formed, `printer.py` prints, `interpret.py` runs it, `passes.py` rewrites, `emit.py` makes LLVM's
text of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight._codegen.types import Type


@dataclass(slots=True, unsafe_hash=True)
class Const:
    """A number known when the kernel is compiled; of a vector type: in all lanes."""

    value: int | float | bool
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Var:
    """What a variable or a parameter holds."""

    name: str
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Load:
    """What memory holds at a pointer; a vector type loads its lanes from consecutive elements.

    `mask`, a vector of b1, leaves out lanes, which then hold 0 and whose memory is not touched.
    """

    pointer: Expr
    type: Type
    mask: Expr | None = None


@dataclass(slots=True, unsafe_hash=True)
class Op:
    """One of `OPS` on its arguments."""

    name: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Cast:
    """The argument converted to another number type, lane by lane."""

    arg: Expr
    type: Type


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """Another function of the module; without a name, the one at the address that is its first argument.

    `type` is None for one that returns nothing.
    """

    name: str
    args: tuple[Expr, ...]
    type: Type


Expr = Const | Var | Load | Op | Cast | Call


@dataclass(slots=True)
class Let:
    """A variable takes a new value."""

    name: str
    value: Expr


@dataclass(slots=True)
class Array:
    """A variable that points to `count` elements of its own, gone when the function returns."""

    name: str
    element: Type
    count: int


@dataclass(slots=True)
class Store:
    """Memory at a pointer takes a value; `stream` writes around the caches."""

    pointer: Expr
    value: Expr
    mask: Expr | None = None
    stream: bool = False


@dataclass(slots=True)
class Do:
    """An expression for its effect: a call, a prefetch."""

    value: Expr


@dataclass(slots=True)
class For:
    """A counting loop. `lanes`: the iterations do not depend on each other, in any order; `rounds`:
    as many are to be written out one after the other."""

    name: str
    start: Expr
    stop: Expr
    step: int
    body: list[Stmt]
    lanes: bool = False
    rounds: int = 1


@dataclass(slots=True)
class While:
    """A loop as long as a condition holds."""

    condition: Expr
    body: list[Stmt]


@dataclass(slots=True)
class If:
    """A branch."""

    condition: Expr
    then: list[Stmt]
    otherwise: list[Stmt]


@dataclass(slots=True)
class Break:
    """The innermost loop ends."""


@dataclass(slots=True)
class Return:
    """The function ends."""

    value: Expr | None


@dataclass(slots=True)
class Parallel:
    """[0, count) in chunks of `grain`, each as one run of the body with its bounds in two variables.

    The chunks are the same for any number of threads. The body reads the variables around it and
    writes only memory and its own variables.
    """

    start: str
    stop: str
    count: Expr
    grain: Expr
    body: list[Stmt]


Stmt = Let | Array | Store | Do | For | While | If | Break | Return | Parallel


@dataclass(slots=True, eq=False)
class Function:
    """A function: parameters, what it returns, and `fast`, LLVM's flags that allow reordering.

    The body of one that is `separate` stands in a module of its own, or in a library of C. One that is
    an `entry` is called from outside of the module.
    """

    name: str
    parameters: list[Var]
    result: Type | None
    body: list[Stmt] = field(default_factory=list)
    fast: str = ""
    separate: bool = False
    entry: bool = False


@dataclass(slots=True)
class Module:
    """A kernel (the first function) and the functions it calls."""

    functions: list[Function]


# name: (number of arguments, meaning). All work lane by lane on vectors, unless said otherwise.
OPS = {
    "add": (2, "a + b"),
    "sub": (2, "a - b"),
    "mul": (2, "a * b"),
    "div": (2, "a / b; of integers, towards 0"),
    "rem": (2, "the remainder of div, with a's sign"),
    "neg": (1, "-a"),
    "and": (2, "a & b"),
    "or": (2, "a | b"),
    "xor": (2, "a ^ b"),
    "not": (1, "~a"),
    "shl": (2, "a << b"),
    "shr": (2, "a >> b, filled with the sign if a is signed"),
    "eq": (2, "a == b"),
    "ne": (2, "a != b, true where one is NaN"),
    "lt": (2, "a < b"),
    "le": (2, "a <= b"),
    "gt": (2, "a > b"),
    "ge": (2, "a >= b"),
    "select": (3, "b where a, else c"),
    "fma": (3, "a * b + c, rounded once"),
    "bf16_pairs": (3, "the products of the bf16 in the i32 a and b, both, + c; avx512bf16 only"),
    "sqrt": (1, "square root"),
    "fabs": (1, "|a|"),
    "floor": (1, "rounded down"),
    "ceil": (1, "rounded up"),
    "trunc": (1, "rounded towards 0"),
    "rint": (1, "rounded to nearest, ties to even"),
    "copysign": (2, "|a| with the sign of b"),
    "bits": (
        1,
        "the same bits as another type; a pointer to another element type or at an address",
    ),
    "offset": (2, "a pointer b elements further"),
    "splat": (1, "a in all lanes"),
    "lane": (2, "lane b (a constant) of vector a"),
    "insert": (3, "vector a with lane b (a constant) replaced by c"),
    "shuffle": (-1, "of the lanes of a, then b, those that the constants after them say"),
    "iota": (0, "0, 1, 2 ... in the lanes"),
    "sum": (1, "all lanes added in a tree"),
    "max": (1, "the largest of all lanes"),
    "min": (1, "the smallest of all lanes"),
    "any": (1, "some lane of b1 holds"),
    "gather": (3, "from pointer a, the elements at offsets b, where mask c holds (else 0)"),
    "prefetch": (1, "pointer a will be read soon; an effect, no value"),
}
