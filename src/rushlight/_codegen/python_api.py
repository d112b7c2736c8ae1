"""Functions of CPython's C interface for native entries; objects are their addresses (i64)."""

from __future__ import annotations

from functools import cache

from rushlight._codegen.language import External, external
from rushlight._codegen.types import Ptr, f64, i32, i64

Object = i64

PyDict_GetItemWithError = external("PyDict_GetItemWithError", Object, Object, Object)
PyErr_BadArgument = external("PyErr_BadArgument", i32)
PyErr_Clear = external("PyErr_Clear", None)
PyErr_Occurred = external("PyErr_Occurred", Object)
PyErr_SetInterrupt = external("PyErr_SetInterrupt", None)
PyEval_RestoreThread = external("PyEval_RestoreThread", None, i64)
PyEval_SaveThread = external("PyEval_SaveThread", i64)
PyFloat_AsDouble = external("PyFloat_AsDouble", f64, Object)
PyList_New = external("PyList_New", Object, i64)
PyList_SetItem = external("PyList_SetItem", i32, Object, i64, Object)
PyLong_AsLongLongAndOverflow = external("PyLong_AsLongLongAndOverflow", i64, Object, Ptr[i32])
PyLong_AsUnsignedLongLongMask = external("PyLong_AsUnsignedLongLongMask", i64, Object)
PyLong_FromLongLong = external("PyLong_FromLongLong", Object, i64)
PyObject_CallOneArg = external("PyObject_CallOneArg", Object, Object, Object)
PyObject_GetAttr = external("PyObject_GetAttr", Object, Object, Object)
PyObject_GetItem = external("PyObject_GetItem", Object, Object, Object)
PyObject_IsTrue = external("PyObject_IsTrue", i32, Object)
PyObject_Vectorcall = external("PyObject_Vectorcall", Object, Object, Ptr[Object], i64, Object)
PyTuple_New = external("PyTuple_New", Object, i64)
PyTuple_SetItem = external("PyTuple_SetItem", i32, Object, i64, Object)
PyType_GenericAlloc = external("PyType_GenericAlloc", Object, Object, i64)
PyType_IsSubtype = external("PyType_IsSubtype", i32, Object, Object)
Py_DecRef = external("Py_DecRef", None, Object)
Py_IncRef = external("Py_IncRef", None, Object)


@cache
def resolve() -> None:
    """Let native code call them, whatever library CPython stands in."""
    import ctypes

    from rushlight._codegen import native

    for function in [each for each in globals().values() if isinstance(each, External)]:
        address = ctypes.cast(getattr(ctypes.pythonapi, function.name), ctypes.c_void_p).value
        assert address is not None
        native.symbol(function.name, address)
