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
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.compiler.bytecode import VERSION, Instruction, Plan, plan_of

NULL: Any = type("NULL", (), {"__repr__": lambda self: "NULL"})()
UNBOUND: Any = type("UNBOUND", (), {"__repr__": lambda self: "UNBOUND"})()

BINARY = (
    operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul,
    operator.mod, operator.or_, operator.pow, operator.rshift, operator.sub, operator.truediv,
    operator.xor, operator.iadd, operator.iand, operator.ifloordiv, operator.ilshift,
    operator.imatmul, operator.imul, operator.imod, operator.ior, operator.ipow, operator.irshift,
    operator.isub, operator.itruediv, operator.ixor,
)  # fmt: skip
COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


class Frame:
    """One call of a function that is being interpreted."""

    __slots__ = ("at", "builtins", "fast", "globals", "handled", "keywords", "plan", "stack")

    def __init__(self, plan: Plan, space: dict[str, Any], fast: list) -> None:
        self.plan, self.globals, self.fast = plan, space, fast
        found = space.get("__builtins__", builtins)
        self.builtins = found if isinstance(found, dict) else vars(found)
        self.stack: list = []
        self.at = 0
        self.keywords: tuple[str, ...] = ()
        self.handled: BaseException | None = None

    @property
    def line(self) -> int:
        """The line of the source that is carried out."""
        return self.plan.instructions[max(self.at - 1, 0)].line


def enclosing(frame: Frame) -> tuple:
    """What `super()` without arguments means in a frame: (class, first argument)."""
    cls = frame.fast[frame.plan.names.index("__class__")].cell_contents
    first = frame.fast[0]
    return cls, first.cell_contents if isinstance(first, types.CellType) else first


class Watch:
    """What the interpreter asks at each instruction that touches the world; this one just does what is asked."""

    def call(self, frame: Frame, f: Any, args: tuple, kwargs: dict) -> Any:
        if f is super and not args:
            args = enclosing(frame)
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

    def item(self, o: Any, key: Any) -> Any:
        return o[key]

    def contains(self, o: Any, key: Any) -> bool:
        return key in o

    def truth(self, v: Any) -> bool:
        return bool(v)

    def iterator(self, v: Any) -> Any:
        return iter(v)

    def following(self, it: Any) -> Any:
        return next(it)

    def contents(self, v: Any) -> Any:
        """`v`, all of whose elements are about to be read."""
        return v

    def operation(self, f: Callable, *operands: Any) -> Any:
        return f(*operands)

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
    plan = plan_of(f.__code__, KNOWN)
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
    error = None
    while True:
        watch.entered(frame)
        try:
            kind, value = resume(frame, watch, sent, error)
        finally:
            watch.left(frame)
        if kind == "return":
            return value
        sent, error = None, None
        try:
            sent = yield value
        except BaseException as e:
            error = e


def resume(
    frame: Frame, watch: Watch, sent: Any = NULL, error: BaseException | None = None
) -> tuple[str, Any]:
    """Go on until the frame returns or yields: ("return" or "yield", value)."""
    instructions, stack = frame.plan.instructions, frame.stack
    if sent is not NULL and error is None:
        stack.append(sent)
    while True:
        i = instructions[frame.at]
        frame.at += 1
        try:
            if error is not None:
                e, error = error, None
                raise e
            name = i.name
            if name == "RETURN_VALUE":
                return "return", stack.pop()
            if name == "RETURN_CONST":
                return "return", i.value
            if name == "YIELD_VALUE":
                return "yield", stack.pop()
            HANDLERS[name](frame, i, stack, watch)
        except BaseException as e:
            caught = frame.plan.handler(i.offset)
            if caught is None:
                raise
            _, _, target, depth, pushes = caught
            del stack[depth:]
            if pushes:
                stack.append(i.offset)
            if e.__context__ is None and frame.handled is not e:
                e.__context__ = frame.handled
            stack.append(e)
            frame.at = frame.plan.index[target]


# -- instructions ----------------------------------------------------------------------------------

HANDLERS: dict[str, Callable[[Frame, Instruction, list, Watch], None]] = {}


def instruction(*names: str) -> Callable:
    def declare(f: Callable) -> Callable:
        for name in names:
            HANDLERS[name] = f
        return f

    return declare


@instruction(
    "NOP", "RESUME", "PRECALL", "COPY_FREE_VARS", "MAKE_NOTHING", "SETUP_ANNOTATIONS", "NOT_TAKEN"
)  # fmt: skip
def nothing(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    pass


@instruction("RETURN_GENERATOR")
def return_generator(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(None)  # the generator, which the instruction after this one drops


@instruction("POP_TOP", "END_SEND_NOTHING")
def pop_top(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.pop()


@instruction("END_FOR")
def end_for(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    pass  # `for_iter` took the iterator away already


@instruction("PUSH_NULL")
def push_null(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(NULL)


@instruction("COPY")
def copy(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(s[-i.arg])


@instruction("SWAP")
def swap(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s[-1], s[-i.arg] = s[-i.arg], s[-1]


@instruction("LOAD_CONST", "LOAD_SMALL_INT")
def load_const(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(i.value)


def local(f: Frame, at: int) -> Any:
    v = f.fast[at]
    if v is UNBOUND:
        raise UnboundLocalError(
            f"cannot access local variable '{f.plan.names[at]}' where it is not associated with a value"
        )
    return v


@instruction("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")
def load_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(local(f, i.arg))


@instruction("LOAD_CLOSURE")
def load_closure(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(f.fast[i.arg])


@instruction("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(f.fast[i.arg])
    f.fast[i.arg] = UNBOUND


@instruction("STORE_FAST", "STORE_FAST_MAYBE_NULL")
def store_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    f.fast[i.arg] = s.pop()


@instruction("DELETE_FAST")
def delete_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    local(f, i.arg)
    f.fast[i.arg] = UNBOUND


@instruction("LOAD_FAST_LOAD_FAST")
def load_fast_load_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s += [local(f, i.arg >> 4), local(f, i.arg & 15)]


@instruction("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    f.fast[i.arg >> 4] = s.pop()
    s.append(local(f, i.arg & 15))


@instruction("STORE_FAST_STORE_FAST")
def store_fast_store_fast(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    f.fast[i.arg >> 4] = s.pop()
    f.fast[i.arg & 15] = s.pop()


@instruction("LOAD_GLOBAL")
def load_global(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    null = [NULL] if i.arg & 1 else []
    v = w.variable(f.globals, i.value, f.builtins)
    s += [v, *null] if VERSION >= (3, 13) else [*null, v]


@instruction("LOAD_NAME")
def load_name(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.variable(f.globals, i.value, f.builtins))


@instruction("STORE_GLOBAL")
def store_global(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    w.set_variable(f.globals, i.value, s.pop())


@instruction("MAKE_CELL")
def make_cell(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = f.fast[i.arg]
    f.fast[i.arg] = w.new(types.CellType() if v is UNBOUND else types.CellType(v))


@instruction("LOAD_DEREF", "LOAD_CLASSDEREF")
def load_deref(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.cell(f.fast[i.arg], f.plan.names[i.arg]))


@instruction("STORE_DEREF")
def store_deref(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    w.set_cell(f.fast[i.arg], s.pop())


@instruction("LOAD_ASSERTION_ERROR")
def load_assertion_error(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(AssertionError)


@instruction("LOAD_COMMON_CONSTANT")
def load_common_constant(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(i.value)


@instruction("LOAD_ATTR")
def load_attr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.attribute(s.pop(), i.value)
    if VERSION >= (3, 12) and i.arg & 1:
        s += [v, NULL] if VERSION >= (3, 13) else [NULL, v]
    else:
        s.append(v)


@instruction("LOAD_METHOD")
def load_method(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s += [NULL, w.attribute(s.pop(), i.value)]


@instruction("LOAD_SUPER_ATTR")
def load_super_attr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    cls_super, cls, self = s[-3:]
    del s[-3:]
    o = w.call(f, cls_super, (cls, self), {})
    v = w.attribute(o, i.value)
    if i.arg & 1:
        s += [v, NULL] if VERSION >= (3, 13) else [NULL, v]
    else:
        s.append(v)


@instruction("STORE_ATTR")
def store_attr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    o = s.pop()
    w.set_attribute(o, i.value, s.pop())


@instruction("DELETE_ATTR")
def delete_attr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    w.delete_attribute(s.pop(), i.value)


@instruction("BINARY_SUBSCR")
def binary_subscr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    key = s.pop()
    s.append(w.item(s.pop(), key))


@instruction("BINARY_SLICE")
def binary_slice(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    stop, start = s.pop(), s.pop()
    s.append(w.item(s.pop(), slice(start, stop)))


@instruction("STORE_SUBSCR")
def store_subscr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    key, o = s.pop(), s.pop()
    w.set_item(o, key, s.pop())


@instruction("STORE_SLICE")
def store_slice(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    stop, start, o = s.pop(), s.pop(), s.pop()
    w.set_item(o, slice(start, stop), s.pop())


@instruction("DELETE_SUBSCR")
def delete_subscr(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    key = s.pop()
    w.delete_item(s.pop(), key)


@instruction("UNARY_NEGATIVE")
def unary_negative(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.operation(operator.neg, s.pop()))


@instruction("UNARY_POSITIVE")
def unary_positive(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.operation(operator.pos, s.pop()))


@instruction("UNARY_INVERT")
def unary_invert(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.operation(operator.invert, s.pop()))


@instruction("UNARY_NOT")
def unary_not(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(not w.truth(s.pop()))


@instruction("TO_BOOL")
def to_bool(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.truth(s.pop()))


@instruction("BINARY_OP")
def binary_op(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    b = s.pop()
    s.append(w.operation(BINARY[i.arg], s.pop(), b))


@instruction("COMPARE_OP")
def compare_op(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    b = s.pop()
    symbol = i.value.removeprefix("bool(").removesuffix(")")
    r = w.operation(COMPARE[symbol], s.pop(), b)
    s.append(w.truth(r) if VERSION >= (3, 13) and i.arg & 16 else r)


@instruction("IS_OP")
def is_op(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    b = s.pop()
    s.append((s.pop() is b) != bool(i.arg))


@instruction("CONTAINS_OP")
def contains_op(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    o = s.pop()
    s.append(w.contains(o, s.pop()) != bool(i.arg))


# -- branches --------------------------------------------------------------------------------------


def jump(f: Frame, i: Instruction) -> None:
    f.at = f.plan.index[i.value]


@instruction("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_NO_INTERRUPT")
def jumped(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    jump(f, i)


@instruction("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_IF_TRUE")
def if_true(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if w.truth(s.pop()):
        jump(f, i)


@instruction("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_IF_FALSE")
def if_false(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if not w.truth(s.pop()):
        jump(f, i)


@instruction("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_IF_NONE")
def if_none(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if s.pop() is None:
        jump(f, i)


@instruction("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE")
def if_not_none(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if s.pop() is not None:
        jump(f, i)


@instruction("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if w.truth(s[-1]):
        jump(f, i)
    else:
        s.pop()


@instruction("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if w.truth(s[-1]):
        s.pop()
    else:
        jump(f, i)


@instruction("GET_ITER")
def get_iter(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.iterator(s.pop()))


@instruction("GET_YIELD_FROM_ITER")
def get_yield_from_iter(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = s.pop()
    s.append(v if isinstance(v, types.GeneratorType) else w.iterator(v))


@instruction("FOR_ITER")
def for_iter(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    try:
        s.append(w.following(s[-1]))
    except StopIteration:
        s.pop()
        jump(f, i)
        if VERSION >= (3, 13) and f.plan.instructions[f.at].name == "END_FOR":
            f.at += 2  # END_FOR, and the POP_TOP that takes the iterator away
        elif VERSION >= (3, 12) and f.plan.instructions[f.at].name == "END_FOR":
            f.at += 1


@instruction("SEND")
def send(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = s.pop()
    it = s[-1]
    try:
        s.append(w.following(it) if v is None else it.send(v))
    except StopIteration as e:
        if VERSION < (3, 12):
            s.pop()
        s.append(e.value)
        jump(f, i)


@instruction("END_SEND")
def end_send(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = s.pop()
    s[-1] = v


# -- making things ---------------------------------------------------------------------------------


def popped(s: list, n: int) -> list:
    """The last `n` values of the stack, taken away."""
    if not n:
        return []
    values = s[-n:]
    del s[-n:]
    return values


@instruction("BUILD_TUPLE")
def build_tuple(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(tuple(popped(s, i.arg)))


@instruction("BUILD_LIST")
def build_list(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.new(popped(s, i.arg)))


@instruction("BUILD_SET")
def build_set(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.new(set(popped(s, i.arg))))


@instruction("BUILD_MAP")
def build_map(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    values = popped(s, 2 * i.arg)
    s.append(w.new(dict(zip(values[::2], values[1::2], strict=True))))


@instruction("BUILD_CONST_KEY_MAP")
def build_const_key_map(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    keys = s.pop()
    s.append(w.new(dict(zip(keys, popped(s, i.arg), strict=True))))


@instruction("BUILD_SLICE")
def build_slice(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(slice(*popped(s, i.arg)))


@instruction("BUILD_STRING")
def build_string(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append("".join(popped(s, i.arg)))


@instruction("FORMAT_VALUE")
def format_value(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    spec = s.pop() if i.arg & 4 else ""
    convert = (None, str, repr, ascii)[i.arg & 3]
    v = s.pop()
    if convert is not None:
        v = w.call(f, convert, (v,), {})
    s.append(w.call(f, format, (v, spec), {}))


@instruction("CONVERT_VALUE")
def convert_value(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.call(f, (None, str, repr, ascii)[i.arg], (s.pop(),), {}))


@instruction("FORMAT_SIMPLE")
def format_simple(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.call(f, format, (s.pop(), ""), {}))


@instruction("FORMAT_WITH_SPEC")
def format_with_spec(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    spec = s.pop()
    s.append(w.call(f, format, (s.pop(), spec), {}))


@instruction("LIST_TO_TUPLE")
def list_to_tuple(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(tuple(s.pop()))


@instruction("LIST_APPEND")
def list_append(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = s.pop()
    s[-i.arg].append(v)


@instruction("SET_ADD")
def set_add(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = s.pop()
    s[-i.arg].add(v)


@instruction("MAP_ADD")
def map_add(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v, key = s.pop(), s.pop()
    s[-i.arg][key] = v


@instruction("LIST_EXTEND")
def list_extend(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    s[-i.arg].extend(v)


@instruction("SET_UPDATE")
def set_update(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    s[-i.arg].update(v)


@instruction("DICT_UPDATE", "DICT_MERGE")
def dict_update(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    into = s[-i.arg]
    if i.name == "DICT_MERGE" and not into.keys().isdisjoint(v):
        twice = next(k for k in v if k in into)
        raise TypeError(f"got multiple values for keyword argument '{twice}'")
    into.update(v)


@instruction("GET_LEN")
def get_len(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.call(f, len, (s[-1],), {}))


@instruction("UNPACK_SEQUENCE")
def unpack_sequence(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    values = list(w.contents(s.pop()))
    if len(values) != i.arg:
        few = len(values) < i.arg
        raise ValueError(
            f"not enough values to unpack (expected {i.arg}, got {len(values)})"
            if few
            else f"too many values to unpack (expected {i.arg})"
        )
    s += reversed(values)


@instruction("UNPACK_EX")
def unpack_ex(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    before, after = i.arg & 255, i.arg >> 8
    values = list(w.contents(s.pop()))
    if len(values) < before + after:
        raise ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(values)})"
        )
    end = len(values) - after
    s += reversed([*values[:before], w.new(values[before:end]), *values[end:]])


@instruction("MAKE_FUNCTION")
def make_function(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    code = s.pop()
    closure = tuple([types.CellType() for _ in code.co_freevars]) or None  # until its own is given
    g = types.FunctionType(code, f.globals, None, None, closure)
    if VERSION < (3, 13):
        for flag, name in ((8, "closure"), (4, "__annotations__"), (2, "__kwdefaults__"), (1, "__defaults__")):  # fmt: skip
            if i.arg & flag:
                g = with_part(g, name, s.pop())
    s.append(w.new(g))


@instruction("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    g = s.pop()
    name = {8: "closure", 4: "__annotations__", 2: "__kwdefaults__", 1: "__defaults__"}[i.arg]
    s.append(w.new(with_part(g, name, s.pop())))


def with_part(g: types.FunctionType, name: str, v: Any) -> types.FunctionType:
    """A function that was just made, with its closure, defaults or annotations."""
    if name == "closure":
        made = types.FunctionType(g.__code__, g.__globals__, g.__name__, g.__defaults__, v)
        made.__kwdefaults__ = g.__kwdefaults__
        return made
    if name == "__annotations__" and isinstance(v, tuple):
        v = dict(zip(v[::2], v[1::2], strict=True))
    setattr(g, name, v)
    return g


@instruction("IMPORT_NAME")
def import_name(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    names, level = s.pop(), s.pop()
    s.append(w.call(f, __import__, (i.value, f.globals, None, names, level), {}))


@instruction("IMPORT_FROM")
def import_from(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    try:
        s.append(w.attribute(s[-1], i.value))
    except AttributeError:
        raise ImportError(f"cannot import name {i.value!r}") from None


# -- calls -----------------------------------------------------------------------------------------


@instruction("KW_NAMES")
def kw_names(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    f.keywords = f.plan.code.co_consts[i.arg]


def called(f: Frame, s: list, w: Watch, values: list, keywords: tuple) -> None:
    """Call what lies on the stack below the arguments."""
    first, second = s[-2:]
    del s[-2:]
    if VERSION >= (3, 13):
        callee = first
        if second is not NULL:
            values.insert(0, second)
    elif first is NULL:
        callee = second
    else:
        callee = first
        values.insert(0, second)
    n = len(values) - len(keywords)
    kwargs = dict(zip(keywords, values[n:], strict=True))
    s.append(w.call(f, callee, tuple(values[:n]), kwargs))


@instruction("CALL")
def call(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    keywords, f.keywords = f.keywords, ()
    called(f, s, w, popped(s, i.arg), keywords)


@instruction("CALL_KW")
def call_kw(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    keywords = s.pop()
    called(f, s, w, popped(s, i.arg), keywords)


@instruction("CALL_FUNCTION_EX")
def call_function_ex(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    kwargs = s.pop() if i.arg & 1 else {}
    args = s.pop()
    first, second = s[-2:]
    del s[-2:]
    callee = first if VERSION >= (3, 13) else second
    kwargs = dict(w.contents(kwargs)) if kwargs else {}
    s.append(w.call(f, callee, tuple(w.contents(args)), kwargs))


@instruction("CALL_INTRINSIC_1")
def call_intrinsic_1(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if i.arg == 5:  # UNARY_POSITIVE
        s.append(w.operation(operator.pos, s.pop()))
    elif i.arg == 6:  # LIST_TO_TUPLE
        s.append(tuple(s.pop()))
    elif i.arg == 3:  # STOPITERATION_ERROR: of a generator
        e = s.pop()
        if isinstance(e, StopIteration):
            error = RuntimeError("generator raised StopIteration")
            error.__cause__ = e
            e = error
        s.append(e)
    else:
        raise NotImplementedError(f"CALL_INTRINSIC_1 {i.arg}")


# -- exceptions ------------------------------------------------------------------------------------


@instruction("PUSH_EXC_INFO")
def push_exc_info(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    e = s.pop()
    s += [f.handled, e]
    f.handled = e


@instruction("POP_EXCEPT")
def pop_except(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    f.handled = s.pop()


@instruction("CHECK_EXC_MATCH")
def check_exc_match(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    kind = s.pop()
    s.append(isinstance(s[-1], kind))


@instruction("RERAISE")
def reraise(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    raise s.pop()


@instruction("RAISE_VARARGS")
def raise_varargs(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if i.arg == 0:
        if f.handled is None:
            raise RuntimeError("No active exception to reraise")
        raise f.handled
    cause = s.pop() if i.arg == 2 else NULL
    e = s.pop()
    if isinstance(e, type):
        e = w.call(f, e, (), {})
    if cause is not NULL:
        raise e from (w.call(f, cause, (), {}) if isinstance(cause, type) else cause)
    raise e


@instruction("BEFORE_WITH")
def before_with(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    m = s.pop()
    enter, leave = type(m).__enter__, type(m).__exit__
    s.append(types.MethodType(leave, m))
    s.append(w.call(f, enter, (m,), {}))


@instruction("WITH_EXCEPT_START")
def with_except_start(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    e = s[-1]
    s.append(w.call(f, s[-4], (type(e), e, e.__traceback__), {}))


KNOWN = frozenset(HANDLERS) | {"RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "CACHE", "EXTENDED_ARG"}
