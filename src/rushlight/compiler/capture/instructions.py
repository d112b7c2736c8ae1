"""CPython's instructions, one function for each: `f(frame, instruction, stack, watch)`."""

from __future__ import annotations

import operator
import types
from typing import Any

from rushlight.compiler.capture.bytecode import VERSION, Instruction
from rushlight.compiler.capture.interpreter import NULL, UNBOUND, Frame, Watch, instruction

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


UNBOUND_LOCAL = "cannot access local variable '{}' where it is not associated with a value"


def local(f: Frame, at: int) -> Any:
    v = f.fast[at]
    if v is UNBOUND:
        raise UnboundLocalError(UNBOUND_LOCAL.format(f.plan.names[at]))
    return v


def is_empty(cell: types.CellType) -> bool:
    """Whether a variable that inner functions share has no value."""
    try:
        cell.cell_contents  # noqa: B018 - it raises where there is no value
    except ValueError:
        return True
    return False


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
    cell, name = f.fast[i.arg], f.plan.names[i.arg]
    if name in f.plan.code.co_cellvars and is_empty(cell):
        raise UnboundLocalError(UNBOUND_LOCAL.format(name))
    s.append(w.cell(cell, name))


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
    s.append(w.identical(s.pop(), b) != bool(i.arg))


@instruction("CONTAINS_OP")
def contains_op(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    o = s.pop()
    s.append(w.contains(o, s.pop()) != bool(i.arg))


# -- branches --------------------------------------------------------------------------------------


def jump(f: Frame, i: Instruction) -> None:
    f.at = f.plan.index[i.value]


@instruction(
    "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_NO_INTERRUPT"
)
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


@instruction(
    "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE"
)
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
        end_loop(f, i)


def end_loop(f: Frame, i: Instruction) -> None:
    """Go on behind a loop whose iterator gives nothing more."""
    f.stack.pop()
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


@instruction(
    "CLEANUP_THROW"
)  # what `yield from` does from Python 3.12 on with an exception that was thrown in
def cleanup_throw(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    if not isinstance(s[-1], StopIteration):
        raise s.pop()
    s[-3:] = [None, s[-1].value]
