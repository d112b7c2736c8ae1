"""CPython's bytecode decoded: instructions with their targets, and the table of exceptions."""

from __future__ import annotations

import dis
import sys
from collections.abc import Set
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from rushlight.library import CustomOpDef

VERSION = sys.version_info[:2]
GENERATOR = 0x20
ASYNCHRONOUS = 0x80 | 0x100 | 0x200
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")

INLINED = (
    "rushlight.nn.", "rushlight.vision", "rushlight.optim.lr_", "rushlight.distributions.", "rushlight.masked",
    "rushlight.autograd.functional", "rushlight.overrides", "rushlight.jit", "rushlight.optim.swa_utils",
    "rushlight.amp.grad_scaler", "rushlight.fx.graph_module", "rushlight._higher_order_ops", "rushlight.utils._pytree",
    "rushlight.backends.flags", "rushlight.backends.cuda", "rushlight.func.modules",
)  # fmt: skip

# Functions that only ask, of modules whose others are called as they are written.
ASKING = frozenset(
    ("rushlight.distributed.is_available", "rushlight.distributed.groups.is_initialized")
)

LEAVES = (
    "rushlight.ops", "rushlight.core", "rushlight.dispatch", "rushlight.functional", "rushlight.fft",
    "rushlight.linalg", "rushlight.special", "rushlight.nn.functional", "rushlight.autograd.grad_mode",
    "rushlight.autograd.engine", "rushlight.autograd.function", "rushlight.amp.autocast_mode",
)  # fmt: skip


class Instruction(NamedTuple):
    """One instruction: `arg` as it is stored, `value` what `dis` says that it means, `line` of the source."""

    name: str
    arg: int
    value: Any
    offset: int
    line: int


class Plan:
    """A code object made ready for the interpreter.

    `names`: of local variables, cells and free variables, in the order of their slots; `index`: the number of the
    instruction at an offset; `handlers`: (start, end, target, depth, whether the offset is pushed).
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions: list[Instruction] = []
        self.index: dict[int, int] = {}
        line = code.co_firstlineno
        for i in dis.get_instructions(code):
            found = i.starts_line if VERSION < (3, 13) else i.line_number
            line = found or line
            self.index[i.offset] = len(self.instructions)
            name = i.opname
            if name in ("CACHE", "EXTENDED_ARG"):
                name = "NOP"
            self.instructions.append(Instruction(name, i.arg or 0, i.argval, i.offset, line))
        self.handlers = [
            (e.start, e.end, e.target, e.depth, e.lasti) for e in dis._parse_exception_table(code)
        ]
        cells = [c for c in code.co_cellvars if c not in code.co_varnames]
        self.names = (*code.co_varnames, *cells, *code.co_freevars)
        self.first_free = len(self.names) - len(code.co_freevars)
        self.generator = bool(code.co_flags & GENERATOR)

    def handler(self, offset: int) -> tuple | None:
        """The innermost handler of exceptions at an offset."""
        for h in self.handlers:
            if h[0] <= offset < h[1]:
                return h
        return None


_plans: dict[CodeType, Plan | None] = {}


def plan_of(code: CodeType, known: Set[str]) -> Plan | None:
    """The plan of a code object; None where it has an instruction that is not among the `known`."""
    if code not in _plans:
        plan = None
        if not code.co_flags & ASYNCHRONOUS:
            plan = Plan(code)
            if any(i.name not in known for i in plan.instructions):
                plan = None
        _plans[code] = plan
    return _plans[code]


def module_of(f: FunctionType) -> str:
    """The module of a function, under the name that it has here: see Note [Names of classes] of the import hook."""
    module = f.__module__ or ""
    return "rushlight" + module[5:] if hasattr(f, "op") and module.startswith("torch") else module


def is_interpreted(f: Any) -> bool:
    """Whether a function is one in Python of the user's, which a capture goes into."""
    f = f.__func__ if isinstance(f, MethodType) else f
    if not isinstance(f, FunctionType):
        return False
    module = module_of(f)
    return not module.startswith("rushlight.") or is_inlined(f, module)


def is_inlined(f: FunctionType, module: str) -> bool:
    """Whether a function of the library is one that a capture goes into."""
    return module.startswith(INLINED) or f"{module}.{f.__name__}" in ASKING


def is_operator(f: FunctionType) -> bool:
    """Whether a function is called as it is, not interpreted, and the recorder sees what it does."""
    module = module_of(f)
    return (
        hasattr(f, "op")
        or f is CustomOpDef.__call__
        or module.startswith(LEAVES)
        and module
        not in ("rushlight.core.settings", "rushlight.core.storage")  # they read modes, and memory
        and not module.startswith(("rushlight.nn.functional.", "rushlight.autograd.functional"))
    )
