"""An interpreter of CPython's bytecode in Python, which tells a `Watch` what a function reads and writes.

Note [Interpreting bytecode]
    Values on the stack are the program's own objects, and every instruction does what CPython does, so that the
    interpreter may take over any function and give it back at any call. What it adds is that reads of attributes,
    items, globals and cells, calls, writes and branches go through the methods of a `Watch`, which decides what of
    it must hold again in a later call (`guards.py`) and what must be done again.

    A function with an instruction that is not known here is not taken over (`bytecode.plan_of`).
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.compiler.capture.bytecode import Instruction, Plan, plan_of
from rushlight.compiler.capture.steps import Split, plain

NULL: Any = type("NULL", (), {"__repr__": lambda self: "NULL"})()
UNBOUND: Any = type("UNBOUND", (), {"__repr__": lambda self: "UNBOUND"})()

# Instructions that `resume` carries out itself, or that carry nothing out.
IN_LOOP = frozenset({"RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "CACHE", "EXTENDED_ARG"})
HANDLERS: dict[str, Callable[[Frame, Instruction, list, Watch], None]] = {}


def instruction(*names: str) -> Callable:
    def declare(f: Callable) -> Callable:
        for name in names:
            HANDLERS[name] = f
        return f

    return declare


class Frame:
    """One call of a function that is being interpreted. `caller`: the frame that waits for its result, if one does."""

    __slots__ = (
        "at", "builtins", "caller", "fast", "globals", "handled", "keywords", "plan", "stack",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, plan: Plan, space: dict[str, Any], fast: list) -> None:
        self.plan, self.globals, self.fast = plan, space, fast
        found = space.get("__builtins__", builtins)
        self.builtins = found if isinstance(found, dict) else vars(found)
        self.stack: list = []
        self.at = 0
        self.keywords: tuple[str, ...] = ()
        self.handled: BaseException | None = None
        self.caller: Frame | None = None

    def make_plain(self) -> None:
        """Have plain values for those that each run computes anew."""
        self.fast[:], self.stack[:] = map(plain, self.fast), map(plain, self.stack)

    def let_go(self) -> None:
        """Let go of local variables, as a frame that returned does: generators that wait end here."""
        self.stack.clear()
        for k in range(len(self.fast)):
            self.fast[k] = UNBOUND

    def waits_in_try(self) -> bool:
        """Whether it is that of a generator which waits where something is done when it ends."""
        i = self.plan.instructions[max(self.at - 1, 0)]
        return i.name == "YIELD_VALUE" and self.plan.handler(i.offset) is not None

    @property
    def site(self) -> tuple[types.CodeType, int]:
        """The place of the instruction that is carried out."""
        return self.plan.code, self.at

    @property
    def instruction(self) -> str:
        """The name of the instruction that is carried out."""
        return self.plan.instructions[max(self.at - 1, 0)].name

    @property
    def line(self) -> int:
        """The line of the source that is carried out."""
        return self.plan.instructions[max(self.at - 1, 0)].line


# Instructions that call something, and put the result on the stack.
CALLS = "CALL", "CALL_KW", "CALL_FUNCTION_EX"


def sites(frames: list[Frame]) -> list[Any]:
    """The calls that frames wait for, where a call can be split, the innermost first."""
    found = []
    for before, frame in zip([None, *frames], frames, strict=False):
        if before is not None and frame.caller is not before or frame.handled is not None:
            break
        if frame.instruction in CALLS:
            found.append(frame.site)
    return found[::-1]


def enclosing(frame: Frame) -> tuple:
    """What `super()` without arguments means in a frame: (class, first argument)."""
    cls = frame.fast[frame.plan.names.index("__class__")].cell_contents
    first = frame.fast[0]
    return cls, first.cell_contents if isinstance(first, types.CellType) else first


def locals_of(frame: Frame) -> dict[str, Any]:
    """What `locals()` gives in a frame."""
    found = {}
    for name, v in zip(frame.plan.names, frame.fast, strict=True):
        if isinstance(v, types.CellType):
            try:
                v = v.cell_contents
            except ValueError:
                continue  # it is not bound
        if v is not UNBOUND:
            found[name] = v
    return found


def in_frame(frame: Frame, f: Any, args: tuple) -> tuple[Any, tuple]:
    """A call of a built-in function of LOOKING, with what it would find in the frame of its caller."""
    if f is super:
        return f, args or enclosing(frame)
    if f in (eval, exec):
        spaces = args[1:] or (frame.globals, locals_of(frame))
        return f, (args[0], *spaces)
    if args:  # vars(o), dir(o)
        return f, args
    if f is globals:
        return (lambda: frame.globals), ()
    return (lambda: sorted(locals_of(frame)) if f is dir else locals_of(frame)), ()


# Built-in functions that look at the frame of their caller.
LOOKING = frozenset([super, globals, locals, vars, dir, eval, exec])


def looks(f: Any) -> bool:
    """Whether a function is one of LOOKING."""
    return f is super or f.__class__ is types.BuiltinFunctionType and f in LOOKING


class Watch:
    """What the interpreter asks at each instruction that touches the world; this one just does what is asked."""

    def call(self, frame: Frame, f: Any, args: tuple, kwargs: dict) -> Any:
        if looks(f):
            f, args = in_frame(frame, f, args)
        return f(*args, **kwargs)

    def attribute(self, o: Any, name: str) -> Any:
        return getattr(o, name)

    def variable(self, space: dict, name: str, otherwise: dict) -> Any:
        if name in space:
            return space[name]
        if name in otherwise:
            return otherwise[name]
        raise NameError(f"name '{name}' is not defined", name=name)

    def cell(self, cell: types.CellType, name: str) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            raise NameError(
                f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
            ) from None

    def identical(self, a: Any, b: Any) -> bool:
        return a is b

    def item(self, o: Any, key: Any) -> Any:
        return o[key]

    def contains(self, o: Any, key: Any) -> bool:
        return key in o

    def in_class(self, kind: type, name: str) -> Any:
        """A special method, which Python looks for in the class alone."""
        return getattr(kind, name, None)

    def truth(self, v: Any) -> bool:
        return bool(v)

    def iterator(self, v: Any) -> Any:
        return iter(v)

    def following(self, it: Any) -> Any:
        return next(it)

    def contents(self, v: Any) -> Any:
        """`v`, all of whose elements are about to be read."""
        return v

    def hashed(self, v: Any) -> Any:
        """`v`, which becomes a key or an element of a set."""
        return v

    def operation(self, f: Callable, *operands: Any) -> Any:
        return f(*operands)

    def grow(self, o: Any, name: str, *given: Any) -> None:
        """Add elements to a container that a comprehension or a display makes."""
        getattr(o, name)(*given)

    def set_attribute(self, o: Any, name: str, v: Any) -> None:
        setattr(o, name, v)

    def delete_attribute(self, o: Any, name: str) -> None:
        delattr(o, name)

    def set_item(self, o: Any, key: Any, v: Any) -> None:
        o[key] = v

    def delete_item(self, o: Any, key: Any) -> None:
        del o[key]

    def set_variable(self, space: dict, name: str, v: Any) -> None:
        space[name] = v

    def set_cell(self, cell: types.CellType, v: Any) -> None:
        cell.cell_contents = v

    def new(self, v: Any) -> Any:
        """`v`, an object that the function just made."""
        return v

    def entered(self, frame: Frame) -> None:
        """A frame begins."""

    def left(self, frame: Frame) -> None:
        """A frame ends."""


# -- beginning a frame -----------------------------------------------------------------------------


def bound(f: types.FunctionType, args: tuple, kwargs: dict) -> list | None:
    """The slots of the local variables for a call; None where the arguments do not fit the parameters."""
    code = f.__code__
    n, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots = [UNBOUND] * n
    extra: tuple = ()
    if len(args) > n:
        if not code.co_flags & 0x04:
            return None
        args, extra = args[:n], args[n:]
    slots[: len(args)] = args
    slots += [UNBOUND] * only
    rest = {}
    for name, v in kwargs.items():
        at = names.index(name) if name in names[: n + only] else -1
        if at < code.co_posonlyargcount and not (at < 0 and code.co_flags & 0x08):
            return None
        if at < 0:
            rest[name] = v
        elif slots[at] is not UNBOUND:
            return None
        else:
            slots[at] = v
    defaults = f.__defaults__ or ()
    for k, v in enumerate(defaults, n - len(defaults)):
        if slots[k] is UNBOUND:
            slots[k] = v
    for k in range(n, n + only):
        if slots[k] is UNBOUND:
            slots[k] = (f.__kwdefaults__ or {}).get(names[k], UNBOUND)
    if any(v is UNBOUND for v in slots):
        return None
    if code.co_flags & 0x04:
        slots.append(extra)
    if code.co_flags & 0x08:
        slots.append(rest)
    return slots


def frame_of(f: types.FunctionType, args: tuple, kwargs: dict) -> Frame | None:
    """A frame for a call of a Python function; None where the interpreter cannot take it over."""
    f = getattr(f, "_without_report", f)  # of the call of an fx.GraphModule
    plan = plan_of(f.__code__, HANDLERS.keys() | IN_LOOP)
    slots = bound(f, args, kwargs) if plan is not None else None
    if plan is None or slots is None:
        return None
    fast = slots + [UNBOUND] * (len(plan.names) - len(slots))
    fast[plan.first_free :] = f.__closure__ or ()
    return Frame(plan, f.__globals__, fast)


# -- the loop --------------------------------------------------------------------------------------


def run(frame: Frame, watch: Watch) -> Any:
    """The result of a call; for a generator function, the generator."""
    if frame.plan.generator:
        return generator(frame, watch)
    watch.entered(frame)
    try:
        _, value = resume(frame, watch)
    finally:
        watch.left(frame)
    return value


def generator(frame: Frame, watch: Watch) -> Iterator:
    """A generator that interprets its function."""
    sent: Any = NULL  # nothing is sent to a generator that has not begun
    error: list[BaseException] = []  # that is raised where it waits
    while True:
        watch.entered(frame)
        try:
            kind, value = resume(frame, watch, sent, error)
        finally:
            watch.left(frame)
        if kind == "return":
            return value
        sent = None
        try:
            sent = yield value
        except BaseException as e:
            error.append(e)


def resume(
    frame: Frame, watch: Watch, sent: Any = NULL, error: list[BaseException] | None = None
) -> tuple[str, Any]:
    """Go on until the frame returns or yields: ("return" or "yield", value). `error`: what is raised where it is, in a list
    that lets go of it."""
    instructions, stack = frame.plan.instructions, frame.stack
    if sent is not NULL and not error:
        stack.append(sent)
    while True:
        i = instructions[frame.at]
        frame.at += 1
        try:
            if error:
                raise error.pop()
            name = i.name
            if name in ("RETURN_VALUE", "RETURN_CONST"):
                value = stack.pop() if name == "RETURN_VALUE" else i.value
                frame.let_go()
                return "return", value
            if name == "YIELD_VALUE":
                return "yield", stack.pop()
            HANDLERS[name](frame, i, stack, watch)
        except Split:
            raise
        except BaseException as e:
            caught = frame.plan.handler(i.offset)
            if caught is None:
                stack.clear()  # the traceback holds the frame: generators on the stack end here
                frame.handled = None
                raise
            _, _, target, depth, pushes = caught
            del stack[depth:]
            if pushes:
                stack.append(i.offset)
            if e.__context__ is None and frame.handled is not e:
                e.__context__ = frame.handled
            stack.append(e)
            frame.at = frame.plan.index[target]
