"""CPython's instructions, the second part: those that make objects, call functions, raise and handle exceptions."""

from __future__ import annotations

import operator
import types
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.compiler.capture.bytecode import VERSION, Instruction
from rushlight.compiler.capture.interpreter import NULL, Frame, Watch, instruction

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
    s.append(w.new({w.hashed(v) for v in popped(s, i.arg)}))


@instruction("BUILD_MAP")
def build_map(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    values = popped(s, 2 * i.arg)
    s.append(w.new(dict(zip(map(w.hashed, values[::2]), values[1::2], strict=True))))


@instruction("BUILD_CONST_KEY_MAP")
def build_const_key_map(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    keys = s.pop()
    s.append(w.new(dict(zip(keys, popped(s, i.arg), strict=True))))


@instruction("BUILD_SLICE")
def build_slice(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(slice(*popped(s, i.arg)))


@instruction("BUILD_STRING")
def build_string(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(w.operation(joined, *popped(s, i.arg)))


def joined(*parts: str) -> str:
    return "".join(parts)


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
    w.grow(s[-i.arg], "append", v)


@instruction("SET_ADD")
def set_add(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.hashed(s.pop())
    w.grow(s[-i.arg], "add", v)


@instruction("MAP_ADD")
def map_add(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v, key = s.pop(), w.hashed(s.pop())
    w.grow(s[-i.arg], "__setitem__", key, v)


@instruction("LIST_EXTEND")
def list_extend(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    w.grow(s[-i.arg], "extend", v)


@instruction("SET_UPDATE")
def set_update(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    w.grow(s[-i.arg], "update", v)


@instruction("DICT_UPDATE", "DICT_MERGE")
def dict_update(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    v = w.contents(s.pop())
    into = s[-i.arg]
    if i.name == "DICT_MERGE" and not into.keys().isdisjoint(v):
        twice = next(k for k in v if k in into)
        raise TypeError(f"got multiple values for keyword argument '{twice}'")
    w.grow(into, "update", v)


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


# -- patterns of `match` ---------------------------------------------------------------------------

ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@instruction("MATCH_MAPPING")
def match_mapping(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(isinstance(s[-1], Mapping))


@instruction("MATCH_SEQUENCE")
def match_sequence(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    s.append(isinstance(s[-1], Sequence) and not isinstance(s[-1], (str, bytes, bytearray)))


@instruction("MATCH_KEYS")
def match_keys(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    o, keys = s[-2:]
    there = all(w.contains(o, k) for k in keys)
    s.append(tuple([w.item(o, k) for k in keys]) if there else None)


@instruction("MATCH_CLASS")
def match_class(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    o, cls, names = popped(s, 3)
    found: list | None = [] if w.call(f, isinstance, (o, cls), {}) else None
    if found is not None and i.arg:
        if cls in ITSELF:
            found.append(o)
        else:
            names = (*w.attribute(cls, "__match_args__")[: i.arg], *names)
    try:
        s.append(None if found is None else (*found, *[w.attribute(o, n) for n in names]))
    except AttributeError:
        s.append(None)


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
    if isinstance(s[-1], type):
        s.append(w.call(f, s.pop(), (), {}))
    # No variable here has it: its traceback would, too, and the frames with all that they hold would stay.
    if cause is not NULL:
        raise s.pop() from (w.call(f, cause, (), {}) if isinstance(cause, type) else cause)
    raise s.pop()


@instruction("BEFORE_WITH")
def before_with(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    m = s.pop()
    w.in_class(type(m), "__enter__")
    w.in_class(type(m), "__exit__")
    enter, leave = type(m).__enter__, type(m).__exit__
    s.append(types.MethodType(leave, m))
    s.append(w.call(f, enter, (m,), {}))


@instruction("WITH_EXCEPT_START")
def with_except_start(f: Frame, i: Instruction, s: list, w: Watch) -> None:
    e = s[-1]
    s.append(w.call(f, s[-4], (type(e), e, e.__traceback__), {}))
