"""What native code assumes of the objects of CPython and NumPy, and the probes of each assumption.

Native code reads fields of these objects at fixed offsets, and calls functions of NumPy by their place in
a table. No other file says where such a field is. Each probe compares what is read at these offsets with
what Python says of the same object; it runs at its first use in a process. Where one fails, the compiled
back end leaves all calls to the reference (`available()`), the entries before ufuncs are not put in
(`vectorcall_slot`), and a gradient is copied instead of handed over (`calibrated`).

Offsets are in words of 8 bytes, unless said otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from sys import getrefcount
from typing import Any

import numpy as np

# Any object (PyObject): its type is the last word of its header. Then follow an object's own fields.
HEAD = object.__basicsize__ // 8
TYPE = HEAD - 1

# An array (PyArrayObject_fields in numpy/ndarraytypes.h). The number of dimensions and the flags are of
# 32 bits, strides are in bytes. A function of CPython that is bound to an array (`Method`) gets it.
DATA, NDIM, SHAPE, STRIDES, BASE, DTYPE, FLAGS = range(HEAD, HEAD + 7)
ARRAY_SIZE = HEAD + 7
DTYPE_SIZE = HEAD + 3  # of a dtype (_PyArray_Descr): the bytes of an element
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
DENSE = C_CONTIGUOUS | 0x2  # in the order of C or of Fortran

# A float (PyFloatObject): a double. A list (PyListObject): the number of items, and where they are. A dictionary
# (PyDictObject): the number of items.
FLOAT_VALUE = HEAD
LIST_SIZE, LIST_ITEMS = HEAD, HEAD + 1
DICT_SIZE = HEAD

# A tuple (PyTupleObject): the number of items, then they. A slice (PySliceObject). A dtype (PyArray_Descr of
# NumPy 2).
TUPLE_SIZE, TUPLE_ITEMS = HEAD, HEAD + 1
SLICE_START, SLICE_STOP, SLICE_STEP = range(HEAD, HEAD + 3)
ITEMSIZE = HEAD + 3

# A ufunc (PyUFuncObject in numpy/ufuncobject.h): inputs, outputs and operands are three numbers of 32 bits.
UFUNC_COUNTS, UFUNC_LOOPS, UFUNC_DATA = HEAD, HEAD + 2, HEAD + 3
UFUNC_NTYPES, UFUNC_TYPES, UFUNC_RESOLVER = HEAD + 4, HEAD + 6, HEAD + 16
# What `numpy.ufunc._get_strided_loop` fills in: three words, then whether the loop needs the GIL, a byte.
CALL_INFO, CALL_INFO_FLAGS = b"numpy_1.24_ufunc_call_info", 3
_VECTORCALL_OFFSET = (
    HEAD + 5
)  # of a type (PyTypeObject): where its objects have the function to call
_HAVE_VECTORCALL = 1 << 11  # of a type's flags
ARGUMENTS = (1 << 63) - 1  # of a call's number of arguments, which has a flag in its last bit

# NumPy's tables of functions.
_NEW_FROM_DESCR, _SET_BASE, _SET_HANDLER, _GET_HANDLER, _DEFAULT_HANDLER = 94, 282, 304, 305, 306
_UFUNC_FROM_LOOPS, _UFUNC_REGISTER = 1, 2

# A handler of memory (PyDataMem_Handler): a name of 127 bytes, a version, and five words: the context,
# malloc, calloc, realloc and free.
HANDLER_NAME, HANDLER_VERSION, HANDLER_WORDS = 127, 1, 5


def word(at: int) -> int:
    """The word of 8 bytes at an address."""
    import ctypes

    return ctypes.c_int64.from_address(at).value


def field(thing: object, offset: int) -> int:
    """A field of an object."""
    return word(id(thing) + 8 * offset)


def field_address(thing: object, offset: int) -> int:
    """The address of a field of an object."""
    return id(thing) + 8 * offset


def half(thing: object, offset: int, which: int = 0) -> int:
    """A field of 32 bits."""
    import ctypes

    return ctypes.c_int32.from_address(id(thing) + 8 * offset + 4 * which).value


def pointer(capsule: object, name: bytes | None = None) -> int:
    """The address inside of a capsule, by which C libraries such as NumPy hand out their tables."""
    return _pointer_of()(capsule, name)


@cache
def _pointer_of() -> Any:
    """PyCapsule_GetPointer, to be called from Python: ctypes makes a class for it, in 15 µs."""
    import ctypes

    made = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return made(("PyCapsule_GetPointer", ctypes.pythonapi))


# -- probes ----------------------------------------------------------------------------------------


@cache
def available() -> bool:
    """Whether objects are laid out as native code takes them to be."""
    if sys.implementation.name != "cpython" or np.dtype(np.intp).itemsize != 8:
        return False
    return arrays_hold() and numbers_hold() and new_array() != 0 and ufuncs_hold()


@cache
def arrays_hold() -> bool:
    """Whether the fields of an array are where native code reads them."""
    whole = np.zeros((2, 3), np.float32)
    a = whole[:, :2]
    locked = np.zeros(3)
    locked.flags.writeable = False
    odd = np.zeros(9, np.uint8)[1:].view(np.float64)
    fields = field(a, TYPE), field(a, DATA), field(a, BASE), field(a, DTYPE), half(a, NDIM)
    if fields != (id(np.ndarray), a.ctypes.data, id(whole), id(a.dtype), 2):
        return False
    if any(field(np.dtype(kind), DTYPE_SIZE) != np.dtype(kind).itemsize for kind in "?hfdD"):
        return False
    shape, strides = field(a, SHAPE), field(a, STRIDES)
    if shape + 2 * 8 != strides:  # they lie side by side: it is safe to look there
        return False
    sizes = [word(shape + 8 * i) for i in range(4)]
    return sizes == [*a.shape, *a.strides] and all(map(_flags, (whole, a, whole.T, locked, odd)))


def _flags(a: np.ndarray) -> bool:
    said = a.flags
    bits = (C_CONTIGUOUS, said.c_contiguous), (ALIGNED, said.aligned), (WRITEABLE, said.writeable)
    return all(bool(half(a, FLAGS) & bit) is yes for bit, yes in bits)


@cache
def numbers_hold() -> bool:
    """Whether the fields of floats, lists and dictionaries are where native code reads them, and types are pointers."""
    import ctypes

    number, items = 2.5, [7.25, "a"]
    if (field(number, TYPE), field(items, TYPE), field(7, TYPE)) != (id(float), id(list), id(int)):
        return False
    if ctypes.c_double.from_address(id(number) + 8 * FLOAT_VALUE).value != number:
        return False
    if field(items, LIST_SIZE) != len(items) or field({"a": 1, "b": 2}, DICT_SIZE) != 2:
        return False
    at = field(items, LIST_ITEMS)
    return [word(at), word(at + 8)] == [id(each) for each in items]


@cache
def new_array() -> int:
    """The address of PyArray_NewFromDescr; 0 where what stands there makes another array."""
    import ctypes
    from ctypes import c_int, c_void_p, py_object

    from numpy._core._multiarray_umath import _ARRAY_API

    address = word(pointer(_ARRAY_API) + 8 * _NEW_FROM_DESCR)
    dtype, shape = np.dtype(np.float32), (ctypes.c_int64 * 2)(2, 3)
    types = (py_object, py_object, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
    make = ctypes.PYFUNCTYPE(py_object, *types)(address)

    def made(strides: Any) -> np.ndarray:
        # the call takes a reference
        ctypes.PYFUNCTYPE(None, py_object)(("Py_IncRef", ctypes.pythonapi))(dtype)
        return make(np.ndarray, dtype, 2, ctypes.addressof(shape), strides, None, 0, None)

    strides = (ctypes.c_int64 * 2)(4, 8)
    a, b = made(None), made(ctypes.addressof(strides))
    right = all(
        x.__class__ is np.ndarray and x.shape == (2, 3) and x.dtype is dtype for x in (a, b)
    )
    order = a.flags.c_contiguous and b.flags.f_contiguous and b.strides == (4, 8)
    return address if right and order and a.flags.owndata and b.flags.owndata else 0


@cache
def set_base() -> int:
    """The address of PyArray_SetBaseObject; 0 where what stands there does something else."""
    import ctypes

    from numpy._core._multiarray_umath import _ARRAY_API

    address = word(pointer(_ARRAY_API) + 8 * _SET_BASE)
    taken = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
    change = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(address)
    whole, a = np.zeros(4), np.zeros(2)
    taken(whole)
    return address if change(a, whole) == 0 and a.base is whole else 0


@cache
def views_hold() -> bool:
    """Whether the fields of tuples, slices and dtypes are where native code reads them."""
    items, part = (2.5, "a"), slice(1, "b", None)
    held = [field(items, TUPLE_SIZE), field(items, TUPLE_ITEMS), field(items, TUPLE_ITEMS + 1)]
    held += [field(part, k) for k in (SLICE_START, SLICE_STOP, SLICE_STEP)]
    known = [2, id(items[0]), id(items[1]), id(part.start), id(part.stop), id(None)]
    types = [np.dtype(t) for t in (np.bool_, np.float32, np.complex128)]
    sizes = [field(d, ITEMSIZE) for d in types]
    return held == known and sizes == [d.itemsize for d in types] and set_base() != 0


@cache
def ufuncs_hold() -> bool:
    """Whether the fields of a ufunc are where native code reads and writes them."""
    import ctypes

    loops, data, types = (ctypes.c_int64 * 1)(8), (ctypes.c_int64 * 1)(16), b"\x0b\x0b"
    made = ufunc_functions()[0](loops, data, types, 1, 1, 1, -1, b"probe", b"", 0)  # never called
    at = ctypes.cast(types, ctypes.c_void_p).value
    held = [field(made, k) for k in (UFUNC_LOOPS, UFUNC_DATA, UFUNC_TYPES)]
    if held != [ctypes.addressof(loops), ctypes.addressof(data), at]:
        return False
    return _ufunc_holds(np.multiply) and _ufunc_holds(np.exp) and _methods_hold()


def _ufunc_holds(ufunc: np.ufunc) -> bool:
    import ctypes

    counts = tuple(half(ufunc, UFUNC_COUNTS, i) for i in range(3))
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs) or half(ufunc, UFUNC_NTYPES) != ufunc.ntypes:
        return False
    numbers = ctypes.string_at(field(ufunc, UFUNC_TYPES), ufunc.ntypes * ufunc.nargs)
    # Two ufuncs with the usual way to choose a loop have the same function there.
    usual = {field(f, UFUNC_RESOLVER) for f in (np.exp, np.arctan2)}
    if len(usual) != 1 or 0 in usual:
        return False
    letters = "".join(ufunc.types).replace("->", "")
    return letters == "".join(np.dtype("?bBhHiIlLqQfdgFDGOSUVMme"[n]).char for n in numbers)


def _methods_hold() -> bool:
    """Whether NumPy gives the loops of array methods, and says which need the GIL."""
    try:
        if array_method(np.negative, (np.dtype(np.float64),))[2] != [12, 12]:
            return False
    except (AttributeError, TypeError, ValueError):
        return False
    try:
        array_method(np.negative, (np.dtype(object),))
    except TypeError:
        return True
    return False


@cache
def vectorcall_slot() -> int:
    """The offset in bytes of the function that Python calls for a ufunc; 0 where it is not known."""
    if not np.ufunc.__flags__ & _HAVE_VECTORCALL:
        return 0
    offset = field(np.ufunc, _VECTORCALL_OFFSET)
    if not 0 < offset < np.ufunc.__basicsize__ or offset % 8:
        return 0
    functions = {word(id(f) + offset) for f in (np.add, np.exp, np.frexp)}
    return offset if len(functions) == 1 and 0 not in functions else 0


# -- what ufuncs hold ------------------------------------------------------------------------------


def set_field(thing: object, offset: int, value: int) -> None:
    """Write a field of an object."""
    import ctypes

    ctypes.c_int64.from_address(id(thing) + 8 * offset).value = value


def ufunc_loop(ufunc: np.ufunc, i: int) -> tuple[int, int]:
    """The i-th loop of a ufunc (that of `ufunc.types[i]`) and its data: addresses, of which the data's may be 0."""
    data = field(ufunc, UFUNC_DATA)
    return word(field(ufunc, UFUNC_LOOPS) + 8 * i), word(data + 8 * i) if data else 0


def array_method(
    ufunc: np.ufunc, inputs: tuple[np.dtype[Any], ...]
) -> tuple[int, object, list[int]]:
    """What NumPy runs for inputs of these dtypes, which need no conversion: the address of three words (the strided
    loop, its context, its auxiliary data), the object that they live as long as, and the numbers of the operands'
    dtypes. TypeError where there is no such loop, or where it needs the GIL.

    It serves dtypes that NumPy does not know (ml_dtypes' bfloat16), whichever way they have registered their loops.
    """
    dtypes, capsule = ufunc._resolve_dtypes_and_context((*inputs, *[None] * ufunc.nout))
    if dtypes[: ufunc.nin] != inputs:
        raise TypeError(f"{ufunc.__name__} converts {inputs} to {dtypes[: ufunc.nin]}")
    ufunc._get_strided_loop(capsule)
    at = pointer(capsule, CALL_INFO)
    if word(at + 8 * CALL_INFO_FLAGS) & 0xFF:
        raise TypeError(f"the loop of {ufunc.__name__} for {inputs} needs the GIL")
    return at, capsule, [each.num for each in dtypes]


# -- NumPy's functions -----------------------------------------------------------------------------


@cache
def ufunc_functions() -> tuple[Any, Any]:
    """PyUFunc_FromFuncAndData and PyUFunc_RegisterLoopForType, to be called from Python."""
    from ctypes import PYFUNCTYPE, c_char_p, c_int, c_void_p, py_object

    from numpy._core._multiarray_umath import _UFUNC_API

    table = pointer(_UFUNC_API)
    make = (c_void_p, c_void_p, c_void_p, c_int, c_int, c_int, c_int, c_char_p, c_char_p, c_int)
    from_loops = PYFUNCTYPE(py_object, *make)(word(table + 8 * _UFUNC_FROM_LOOPS))
    register = PYFUNCTYPE(c_int, py_object, c_int, c_void_p, c_void_p, c_void_p)
    return from_loops, register(word(table + 8 * _UFUNC_REGISTER))


@cache
def handler_functions() -> tuple[Any, Any, object, int] | None:
    """What sets NumPy's handler of memory, what gives the one in use, NumPy's own, and the address of
    its five words; None where handlers are not as this file takes them to be."""
    import ctypes

    from numpy._core._multiarray_umath import _ARRAY_API

    table = pointer(_ARRAY_API)
    change = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(word(table + 8 * _SET_HANDLER))
    current = ctypes.PYFUNCTYPE(ctypes.py_object)(word(table + 8 * _GET_HANDLER))
    own = ctypes.py_object.from_address(word(table + 8 * _DEFAULT_HANDLER)).value
    if type(own).__name__ != "PyCapsule":
        return None
    at = pointer(own, b"mem_handler")
    named = ctypes.string_at(at) == b"default_allocator"
    version = ctypes.c_uint8.from_address(at + HANDLER_NAME).value
    if not named or version != HANDLER_VERSION or type(current()).__name__ != "PyCapsule":
        return None
    return change, current, own, at + HANDLER_NAME + 1


# -- reference counts ------------------------------------------------------------------------------


def calibrated(alone: Callable[[int], bool], shared: Callable[[int], bool]) -> int:
    """The count up to which a reading of reference counts means "nobody else has it".

    `alone(n)` and `shared(n)` make that reading of something that nobody else has and of something
    that one more name holds, and say whether it is at most n. 0, so that nothing counts as alone,
    where no count tells the two apart.
    """
    for most in range(1, 8):
        if alone(most):
            return 0 if shared(most) else most
    return 0


def slot(thing: object, held: object) -> int:
    """The offset of the slot of an object that holds another one; 0 where none does."""
    size = type(thing).__basicsize__ // 8
    return next((k for k in range(HEAD, size) if field(thing, k) == id(held)), 0)


def only_tensor_holds(tensor: Any, array: int, base: int) -> bool:
    """Whether a tensor's array, and the memory beneath it, are held by nothing but the tensor; `array`
    and `base` are the counts that this reads then (`holders`)."""
    a = tensor._array
    b = a.base
    if b is None:
        return getrefcount(a) <= array and a.flags.owndata
    return (
        getrefcount(a) <= array
        and b.__class__ is np.ndarray
        and getrefcount(b) <= base
        and b.flags.owndata
    )


class _Holder:
    """Stands for a tensor."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray) -> None:
        self._array = array


@cache
def holders() -> tuple[int, int]:
    """The counts of an array that only its tensor holds, and of memory that only its view holds, as
    `only_tensor_holds` reads them."""

    def whole(other: bool) -> Callable[[int], bool]:
        holder = _Holder(np.zeros(2))
        held = holder._array if other else None
        return lambda most: only_tensor_holds(holder, most, 0) and (held is None or other)

    def view(other: bool) -> Callable[[int], bool]:
        memory = np.zeros(2)
        holder = _Holder(memory[:1])
        held = memory if other else None
        del memory
        return lambda most: only_tensor_holds(holder, 8, most) and (held is None or other)

    return calibrated(whole(False), whole(True)), calibrated(view(False), view(True))
