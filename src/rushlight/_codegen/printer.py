"""The intermediate representation as text for people."""

from __future__ import annotations

from typing import Any

from rushlight._codegen import ir

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def show(module: ir.Module) -> str:
    """The module as text: one line a statement, types where variables are set."""
    return "\n\n".join(_function(f) for f in module.functions) + "\n"


def _function(f: ir.Function) -> str:
    parameters = ", ".join(f"{p.name}: {p.type}" for p in f.parameters)
    fast = f" [{f.fast}]" if f.fast else ""
    head = f"{f.name}({parameters}) -> {f.result}{fast}:"
    return "\n".join([head, *_body(f.body, 1)])


def _body(statements: list[ir.Stmt], depth: int) -> list[str]:
    lines: list[str] = []
    for s in statements:
        lines += ["  " * depth + line for line in _statement(s)]
    return lines or ["  " * depth + "pass"]


def _statement(s: ir.Stmt) -> list[str]:
    if isinstance(s, ir.Let):
        return [f"{s.name}: {s.value.type} = {expression(s.value)}"]
    if isinstance(s, ir.Array):
        return [f"{s.name} = array({s.element}, {s.count})"]
    if isinstance(s, ir.Store):
        how = "stream" if s.stream else "store"
        mask = "" if s.mask is None else f" where {expression(s.mask)}"
        return [f"{how} {expression(s.pointer)} = {expression(s.value)}{mask}"]
    if isinstance(s, ir.Do):
        return [expression(s.value)]
    if isinstance(s, ir.For):
        kind = "lanes" if s.lanes else "range" if s.rounds == 1 else "rounds"
        step = f", {s.rounds}" if s.rounds > 1 else "" if s.step == 1 else f", {s.step}"
        bounds = f"{expression(s.start)}, {expression(s.stop)}{step}"
        return [f"for {s.name} in {kind}({bounds}):", *_body(s.body, 1)]
    if isinstance(s, ir.While):
        return [f"while {expression(s.condition)}:", *_body(s.body, 1)]
    if isinstance(s, ir.If):
        lines = [f"if {expression(s.condition)}:", *_body(s.then, 1)]
        return [*lines, "else:", *_body(s.otherwise, 1)] if s.otherwise else lines
    if isinstance(s, ir.Parallel):
        bounds = f"{expression(s.count)}, {expression(s.grain)}"
        return [f"for {s.start}, {s.stop} in parallel({bounds}):", *_body(s.body, 1)]
    if isinstance(s, ir.Return):
        return ["return" if s.value is None else f"return {expression(s.value)}"]
    return ["break"]


def expression(e: Any) -> str:
    """An expression as text."""
    if isinstance(e, ir.Const):
        return f"{e.value!r}"
    if isinstance(e, ir.Var):
        return e.name
    if isinstance(e, ir.Load):
        mask = "" if e.mask is None else f", {expression(e.mask)}"
        return f"load[{e.type}]({expression(e.pointer)}{mask})"
    if isinstance(e, ir.Cast):
        return f"{e.type}({expression(e.arg)})"
    args = [expression(a) for a in e.args]
    if isinstance(e, ir.Op) and e.name in INFIX:
        return f"({args[0]} {INFIX[e.name]} {args[1]})"
    if isinstance(e, ir.Op) and e.name == "offset":
        return f"{args[0]}[{args[1]}]"
    kind = f"[{e.type}]" if isinstance(e, ir.Op) and e.name in ("splat", "bits", "iota") else ""
    return f"{e.name or 'call'}{kind}({', '.join(args)})"
