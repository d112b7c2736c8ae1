"""Conjugates and negatives that are not computed yet: arrays with a conjugate or a negative bit.

Note [Conjugates are views]
    `x.conj()` of a complex tensor is a view, as in PyTorch: the same memory, read as the conjugates of what lies there;
    the imaginary part of such a view is read with the other sign. The array of such a tensor is a `Marked`. The one test
    of the straight path of every operator (`array.__class__ is ndarray`) sends a call with one the general way, where
    `forward` asks this module: a view of marked memory is marked, every other operator gets the numbers that are meant,
    computed. A write (`copy` in dispatch/results.py, and what overwrites a part of a tensor) puts the numbers into the
    memory as they lie there. So no kernel sees a mark, and NumPy refuses these arrays. All of it stands below autograd:
    graphs, function transforms and subclasses know of views alone.

    Meta tensors have no numbers and no marks; of complex32, of sparse tensors and on other devices a conjugate is a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight.core.dtype_sets import COMPLEX

if TYPE_CHECKING:
    from collections.abc import Callable

made: list[bool] = []  # not empty once there was such an array: then calls look for them


class Marked(np.ndarray):
    """Memory whose numbers are read conjugated (`has_conj`), with the other sign (`has_neg`), or both."""

    has_conj = has_neg = False
    __array_ufunc__ = None

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if function in (np.may_share_memory, np.shares_memory):
            return function(*map(plain, args), **kwargs)
        raise TypeError(
            f"{function.__name__} of an array with a conjugate or negative bit: resolve it first"
        )

    def item(self, *at: Any) -> Any:
        """The number that is meant."""
        return resolved(self).item(*at)

    def tolist(self) -> Any:
        """The numbers that are meant."""
        return resolved(self).tolist()

    def refuse_numpy(self) -> NoReturn:
        """RuntimeError: NumPy would not know of the bit."""
        bit, how = ("conjugate", "conj") if self.has_conj else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{how}().numpy() instead."
        )

    def refuse_export(self) -> NoReturn:
        """BufferError: who reads the memory elsewhere would not know of the bit."""
        bit = "conjugate" if self.has_conj else "negative"
        raise BufferError(f"Can't export tensors with the {bit} bit set")


class Conjugate(Marked):
    has_conj = True


class Negative(Marked):
    has_neg = True


class NegativeConjugate(Marked):
    has_conj = has_neg = True


CLASSES = {(c.has_conj, c.has_neg): c for c in (Conjugate, Negative, NegativeConjugate)}


def marks(a: Any) -> tuple[bool, bool]:
    """Whether an array has the conjugate bit, and the negative one."""
    return (a.has_conj, a.has_neg) if isinstance(a, Marked) else (False, False)


def marked(a: np.ndarray, conjugate: bool, negative: bool) -> np.ndarray:
    """The memory of `a` with just these bits."""
    if not (conjugate or negative):
        return plain(a)
    if not isinstance(a, np.ndarray):
        return a
    if not made:
        made.append(True)
    return a.view(CLASSES[conjugate, negative])


def toggled(a: np.ndarray, conjugate: bool, negative: bool) -> np.ndarray:
    """The memory of `a`, with each bit that is asked for turned over."""
    if not isinstance(a, np.ndarray):
        raise NotImplementedError("only memory of the CPU is read with a conjugate or negative bit")
    if a.__class__ is not np.ndarray and not isinstance(a, Marked):  # of the meta device
        return a[...]
    has = marks(a)
    return marked(a, has[0] is not conjugate, has[1] is not negative)


def like(a: Any, b: Any) -> Any:
    """The array `b` with the bits of `a`."""
    return marked(b, *marks(a)) if isinstance(a, Marked) else b


def plain(a: Any) -> Any:
    """The memory as it lies there."""
    return a.view(np.ndarray) if isinstance(a, Marked) else a


def resolved(a: Any) -> Any:
    """The numbers that are meant: new memory, in the same order, for a marked array."""
    return as_meant(plain(a), *marks(a)) if isinstance(a, Marked) else a


def as_meant(a: Any, conjugate: bool, negative: bool) -> Any:
    """The numbers of `a`, conjugated and with the other sign as the bits say."""
    if conjugate and a.dtype in COMPLEX:
        a = np.asarray(np.conjugate(a))
    return np.asarray(np.negative(a)) if negative else a


def among(values: Any) -> bool:
    """Whether there are marked arrays among the values of a call."""
    for v in values:
        if v.__class__ is list or v.__class__ is tuple:
            if among(v):
                return True
        elif isinstance(v, Marked):
            return True
    return False


def converted(v: Any, to: Callable) -> Any:
    """`to` of all arrays in an array, a list..."""
    if v.__class__ is list or v.__class__ is tuple:
        return type(v)([converted(x, to) for x in v])
    return to(v) if isinstance(v, np.ndarray) else v


def view(op: Any, a: Marked, results: Any) -> Any:
    """The results of a view operator on the plain memory of `a`, with its bits turned over."""
    if op.path in TO_OTHER_DTYPES:
        raise RuntimeError(TO_OTHER_DTYPES[op.path][0 if a.has_conj else 1])
    if a.has_conj and converted_dtype(results) not in COMPLEX:
        raise RuntimeError(f"{op.name} doesn't work on unresolved conjugated tensors.  {RESOLVE}")
    return converted(
        results, lambda r: toggled(r, *(marks(a) if r.dtype in COMPLEX else (False, a.has_neg)))
    )


def converted_dtype(results: Any) -> Any:
    return (
        results.dtype if isinstance(results, np.ndarray) else results[0].dtype if results else None
    )


def write(a: Marked, fill: Callable) -> None:
    """`fill(array)`, which overwrites a part of `a`: on the numbers that are meant, which then go into the memory."""
    meant = resolved(a)
    fill(meant)
    put(a, meant)


def put(a: Marked, meant: Any) -> None:
    """Write numbers into marked memory, as they lie there."""
    with np.errstate(all="ignore"):
        own = np.asarray(meant)
        own = own if own.dtype == a.dtype else own.astype(a.dtype)
        np.copyto(plain(a), as_meant(own, *marks(a)))


# What PyTorch says of views as another dtype: with the conjugate bit, and with the negative one.
RESOLVE = (
    "To resolve the conjugate tensor so you can view it as real, use self.resolve_conj(); however, be warned that the "
    "resulting tensor will NOT alias the original."
)
TO_OTHER_DTYPES = {
    "aten.view_dtype": (
        "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype.",
        "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype.",
    ),
}
